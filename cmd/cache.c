/* SPDX-License-Identifier: Apache-2.0 */
/* infer cache: what tuning left on disk. */
#include "base/json_write.h"
#include "base/str.h"
#include "cmd/options/command.h"
#include "gpu/driver/cache.h"
#include "cmd/output/output.h"

#include <string.h>
#include <sys/stat.h>

struct listing {
	struct json *json; /* NULL: text */
	struct arena *arena;
	size_t folders;
};

static int tell(void *arg, const struct cache_folder *f)
{
	struct listing *l = arg;

	l->folders++;
	if (!l->json) {
		printf("%s\n  %zu choices, %zu plans and kernels, %s\n", f->path, f->choices,
		       f->blobs, str_bytes(l->arena, (int64_t)f->bytes));
		return 0;
	}
	json_object(l->json, NULL);
	json_string(l->json, "device", f->device);
	json_string(l->json, "path", f->path);
	json_int(l->json, "choices", (int64_t)f->choices);
	json_int(l->json, "blobs", (int64_t)f->blobs);
	json_int(l->json, "bytes", (int64_t)f->bytes);
	json_end(l->json, '}');
	return 0;
}

static int list(struct options *o, const char *root, struct diag *d)
{
	struct json j;
	struct listing l = {.arena = &d->arena};

	if (!o->json) {
		cache_each(root, tell, &l);
		if (!l.folders)
			printf("%s: empty\n", root);
		return 0;
	}
	json_envelope_begin(&j, o, d);
	json_string(&j, "root", root);
	json_array(&j, "folders");
	l.json = &j;
	cache_each(root, tell, &l);
	json_end(&j, ']');
	json_envelope_end(&j, d);
	return 0;
}

static int clear(struct options *o, const char *root, struct diag *d)
{
	unsigned long long bytes = 0;
	size_t files = 0;
	struct json j;
	int err = cache_clear(root, &bytes, &files, d);

	if (!o->json) {
		printf("%s: %zu files, %s removed\n", root, files,
		       str_bytes(&d->arena, (int64_t)bytes));
		return err;
	}
	json_envelope_begin(&j, o, d);
	json_string(&j, "root", root);
	json_int(&j, "files", (int64_t)files);
	json_int(&j, "bytes", (int64_t)bytes);
	json_envelope_end(&j, d);
	return err;
}

int cmd_cache(struct options *o, struct diag *d)
{
	static const char *const words[] = {"ls", "clear"};
	const char *word = o->operand[0], *root = cache_root(o->config.cache, &d->arena);

	if (strcmp(word, "ls") && strcmp(word, "clear")) {
		const char *near = str_nearest(word, words, 2);
		return FAIL(d, E_OPTION, .message = fmt(d, "infer cache does not know '%s'", word),
			    .hint = near ? fmt(d, "did you mean '%s'?", near) : "ls or clear");
	}
	if (!root)
		return FAIL(d, E_OPTION, .message = "there is no folder of tuning results",
			    .hint = "name it with --cache DIR");
	struct stat st;
	if (stat(root, &st) == 0 && !S_ISDIR(st.st_mode))
		return FAIL(d, E_CACHE, .message = fmt(d, "%s: this is no folder", root));
	return strcmp(word, "ls") ? clear(o, root, d) : list(o, root, d);
}
