/* SPDX-License-Identifier: Apache-2.0 */
/* infer cache: lists or clears the tuning results on disk. */
#include "base/json_write.h"
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "backend/tuning_cache.h"
#include "cmd/output/output.h"

#include <string.h>
#include <sys/stat.h>

struct listing {
	struct json *json; /* NULL: text */
	struct arena *arena;
	size_t folders;
};

static int print_folder(void *arg, const struct cache_folder *f)
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

static int list_folders(struct options *o, const char *root, struct diag *d)
{
	struct json j;
	struct listing l = {.arena = &d->arena};

	if (!o->json) {
		cache_each(root, print_folder, &l);
		if (!l.folders)
			printf("%s: empty\n", root);
		return 0;
	}
	json_envelope_begin(&j, o, d);
	json_string(&j, "root", root);
	json_array(&j, "folders");
	l.json = &j;
	cache_each(root, print_folder, &l);
	json_end(&j, ']');
	json_envelope_end(&j, d);
	return 0;
}

static int clear_folders(struct options *o, const char *root, struct diag *d)
{
	unsigned long long bytes = 0;
	size_t files = 0;
	struct json j;
	int err = cache_clear(root, &bytes, &files, d);

	if (!o->json) {
		printf("%s: removed %s, %s\n", root, str_many(&d->arena, files, "file"),
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
		static const char *const list[] = {"list", "show", "status", "info"};
		static const char *const clear[] = {"rm",    "remove", "delete", "purge",
						    "prune", "reset",  "clean"};
		const char *near = str_nearest(word, words, 2);
		for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
			near = !strcmp(word, list[i]) ? words[0] : near;
		for (size_t i = 0; i < sizeof(clear) / sizeof(*clear); i++)
			near = !strcmp(word, clear[i]) ? words[1] : near;
		return FAIL(d, E_OPTION, .message = fmt(d, "unknown operand '%s'", word),
			    .hint = near ? fmt(d, "did you mean '%s'?", near) : "use ls or clear");
	}
	if (!root)
		return FAIL(d, E_OPTION,
			    .message = "tuning results have no folder, because --cache is off or there is no home folder",
			    .hint = "name it with --cache DIR");
	struct stat st;
	if (stat(root, &st) == 0 && !S_ISDIR(st.st_mode))
		return FAIL(d, E_CACHE, .message = fmt(d, "%s is not a folder", root));
	return strcmp(word, "ls") ? clear_folders(o, root, d) : list_folders(o, root, d);
}
