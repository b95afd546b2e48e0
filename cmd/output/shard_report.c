/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/shard_report.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/str.h"
#include "cmd/options/subcommand.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] = "infer/shard/1";

/* ---- what a report is of */

/* A large model is told apart by parts of its file, evenly spaced. */
enum { HASHED_PARTS = 64, HASHED_BYTES = 64 << 10 };

static int hash_model(const char *path, const char **text, struct arena *a, struct diag *d)
{
	struct file_map m;
	int rc = file_map(path, &m, E_MODEL_OPEN, d);

	if (rc)
		return rc;
	const unsigned char *p = m.data;
	size_t step = m.size / HASHED_PARTS > HASHED_BYTES ? m.size / HASHED_PARTS : HASHED_BYTES;
	uint64_t hash = hash_bytes(&m.size, sizeof(m.size), 0);
	for (size_t at = 0; at < m.size; at += step)
		hash = hash_bytes(p + at, m.size - at < HASHED_BYTES ? m.size - at : HASHED_BYTES,
				  hash);
	file_unmap(&m);
	*text = arena_printf(a, "%016" PRIx64, hash);
	return 0;
}

/* Options that say where to run and what to write, but not what the results are. */
static bool may_differ(const struct field *f)
{
	static const char *const names[] = {
		"device",     "shard", "report",  "save",     "jsonl",	     "resume",
		"keep-going", "json",  "config",  "timeout",  "color",	     "verbose",
		"quiet",      "help",  "sync",	  "no-blame", "context",     "cuda-graph",
		"tune",	      "cache", "version", "threads",  "memory-plan", "memory-limit",
		"arena",      "print"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(f->name, names[i]))
			return true;
	return !(f->cmds & CMD_RUN);
}

/* Returns the value as text; a list has a line for each item. */
static const char *option_text(const struct field *f, const struct options *o, struct arena *a)
{
	const struct texts *t = (const void *)((const char *)o + f->off);
	struct str s = {.arena = a};

	if (f->type != F_LIST)
		return field_print(f, o, a);
	for (int64_t i = 0; i < t->n; i++)
		str_addf(&s, "%s%s", i ? "\n" : "", t->v[i].s);
	return t->n > 0 ? str_get(&s) : NULL;
}

int report_describe(struct shard_report *r, const struct options *o, const struct input_list *l,
		    struct arena *a, struct diag *d)
{
	uint64_t hash = 0;
	size_t rows = 0;

	r->model = o->operand[0];
	r->total = l->n;
	for (size_t i = 0; i < l->n; i++)
		hash = hash_bytes(l->name[i], strlen(l->name[i]) + 1, hash);
	r->list = arena_printf(a, "%016" PRIx64, hash);
	for (const struct field *f = options_table; f->name; f++)
		rows++;
	r->option = arena_new_n(a, struct report_option, rows);
	for (const struct field *f = options_table; f->name; f++) {
		const char *value = may_differ(f) ? NULL : option_text(f, o, a);
		if (value)
			r->option[r->noptions++] = (struct report_option){f->name, value};
	}
	return hash_model(r->model, &r->contents, a, d);
}

/* ---- writing */

static void write_case(struct json *j, const struct report_case *c, const struct scores *scores)
{
	json_object(j, NULL);
	json_uint(j, "index", c->index);
	json_string(j, "name", c->name);
	if (!isnan(c->seconds))
		json_number(j, "seconds", c->seconds);
	if (c->failed) {
		json_string(j, "input", c->input);
		json_string(j, "id", c->id);
		json_string(j, "message", c->message);
	}
	if (scores->n && c->sums)
		scores_write(scores, c->sums, j);
	json_end(j, '}');
}

static void write_report(const struct shard_report *r, FILE *f)
{
	struct json j;

	json_begin(&j, f);
	json_object(&j, NULL);
	json_string(&j, "schema", schema);
	json_object(&j, "model");
	json_string(&j, "path", r->model);
	json_string(&j, "hash", r->contents);
	json_end(&j, '}');
	json_object(&j, "options");
	for (size_t i = 0; i < r->noptions; i++)
		json_string(&j, r->option[i].name, r->option[i].value);
	json_end(&j, '}');
	json_object(&j, "shard");
	json_uint(&j, "index", r->shard);
	json_uint(&j, "count", r->shards);
	json_end(&j, '}');
	json_object(&j, "list");
	json_uint(&j, "total", r->total);
	json_string(&j, "hash", r->list);
	json_end(&j, '}');
	json_array(&j, "scores");
	for (size_t k = 0; k < r->scores.n; k++) {
		json_object(&j, NULL);
		json_string(&j, "name", r->scores.v[k].name);
		if (!isnan(r->scores.v[k].limit))
			json_number(&j, "limit", r->scores.v[k].limit);
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_number(&j, "seconds", r->seconds);
	json_array(&j, "cases");
	for (size_t i = 0; i < r->n; i++)
		write_case(&j, &r->cases[i], &r->scores);
	json_end(&j, ']');
	json_end(&j, '}');
	json_finish(&j);
}

int report_write(const struct shard_report *r, const char *path, struct diag *d)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return FAIL(d, E_MEMORY, .message = "no memory for a report");
	write_report(r, f);
	int rc = fclose(f) ? FAIL(d, E_MEMORY, .message = "no memory for a report") : 0;
	struct file_out *out = rc ? NULL : file_create(path, E_OUTPUT, d);
	rc = rc ? rc : out ? 0 : -E_OUTPUT;
	if (out) {
		file_write(out, text, n);
		rc = file_commit(out, d);
	}
	free(text);
	return rc;
}

/* ---- reading */

static int no_report(const char *path, struct diag *d)
{
	return FAIL(d, E_SHARD, .model = fmt(d, "%s", path),
		    .message = "it is no report that infer run --report wrote");
}

static const char *copy(struct arena *a, const char *text)
{
	return text ? arena_str(a, text) : NULL;
}

static bool read_scores(struct scores *s, const struct jvalue *v, struct arena *a)
{
	s->v = arena_new_n(a, struct score, v ? v->n + 1 : 1);
	for (const struct jvalue *p = v ? v->first : NULL; p; p = p->next) {
		struct score *x = &s->v[s->n++];
		*x = (struct score){.name = copy(a, jtext(p, "name")),
				    .limit = jnumber(p, "limit", NAN)};
		if (!x->name || !score_named(x->name, &x->kind, &x->k))
			return false;
	}
	return true;
}

/* Takes over what describes the report. Returns false if something is missing. */
static bool read_head(struct shard_report *r, const struct jvalue *v, struct arena *a)
{
	const struct jvalue *model = jget(v, "model"), *list = jget(v, "list"),
			    *shard = jget(v, "shard"), *options = jget(v, "options");
	int64_t total = jint(list, "total", -1), index = jint(shard, "index", 0),
		count = jint(shard, "count", 0);

	r->model = copy(a, jtext(model, "path"));
	r->contents = copy(a, jtext(model, "hash"));
	r->list = copy(a, jtext(list, "hash"));
	r->seconds = jnumber(v, "seconds", 0);
	if (!read_scores(&r->scores, jget(v, "scores"), a))
		return false;
	if (!r->model || !r->contents || !r->list || !options || total < 0 || index < 1 ||
	    count < index)
		return false;
	r->total = (size_t)total;
	r->shard = (size_t)index;
	r->shards = (size_t)count;
	r->option = arena_new_n(a, struct report_option, options->n + 1);
	for (const struct jvalue *p = options->first; p; p = p->next)
		if (p->type == J_STRING && p->key)
			r->option[r->noptions++] =
				(struct report_option){arena_str(a, p->key), arena_str(a, p->text)};
	return true;
}

/* Returns NULL if a score is missing: the case was done by a program that did not keep it. */
static struct score_sums *read_sums(const struct scores *s, const struct jvalue *v, struct arena *a)
{
	struct score_sums *sums = arena_new_n(a, struct score_sums, s->n + 1);

	for (size_t k = 0; k < s->n; k++) {
		const struct jvalue *own = jget(v, s->v[k].name);
		if (!own || !score_sums_read(s->v[k].kind, &sums[k], own, a))
			return NULL;
	}
	return sums;
}

static bool read_case(struct report_case *c, const struct jvalue *v, const struct shard_report *r,
		      struct arena *a)
{
	int64_t index = jint(v, "index", -1);
	const size_t total = r->total;
	const struct jvalue *scores = jget(v, "scores");

	*c = (struct report_case){.index = (size_t)index,
				  .name = copy(a, jtext(v, "name")),
				  .failed = jtext(v, "id") != NULL,
				  .seconds = jnumber(v, "seconds", NAN),
				  .sums = scores ? read_sums(&r->scores, scores, a) : NULL,
				  .input = copy(a, jtext(v, "input")),
				  .id = copy(a, jtext(v, "id")),
				  .message = copy(a, jtext(v, "message"))};
	return c->name && index >= 0 && (size_t)index < total;
}

int report_read(struct shard_report *r, const char *path, struct arena *a, struct diag *d)
{
	struct arena scratch = {0};
	struct file_map m;
	int rc = file_map(path, &m, E_USAGE, d);

	*r = (struct shard_report){.path = path};
	if (rc)
		return rc;
	const struct jvalue *v = jread((const char *)m.data, m.size, path, E_SHARD, &scratch, d);
	const char *kind = v ? jtext(v, "schema") : NULL;
	const struct jvalue *cases = v ? jget(v, "cases") : NULL;
	if (!v)
		rc = -E_SHARD;
	else if (!kind || strcmp(kind, schema) != 0 || !cases || !read_head(r, v, a))
		rc = no_report(path, d);
	r->cases = rc ? NULL : arena_new_n(a, struct report_case, cases->n + 1);
	for (const struct jvalue *p = rc ? NULL : cases->first; p && !rc; p = p->next)
		rc = read_case(&r->cases[r->n++], p, r, a) ? 0 : no_report(path, d);
	arena_free(&scratch);
	file_unmap(&m);
	return rc;
}

/* ---- comparing */

static const char *value_of(const struct shard_report *r, const char *name)
{
	for (size_t i = 0; i < r->noptions; i++)
		if (!strcmp(r->option[i].name, name))
			return r->option[i].value;
	return "(not given)";
}

static int differ(const struct shard_report *a, const struct shard_report *b, const char *what,
		  const char *x, const char *y, struct diag *d)
{
	return FAIL(d, E_SHARD, .model = fmt(d, "%s", b->path),
		    .message = fmt(d, "it is of another %s than %s", what, a->path),
		    .expected = fmt(d, "%s", x), .actual = fmt(d, "%s", y));
}

int report_same(const struct shard_report *a, const struct shard_report *b, struct diag *d)
{
	if (strcmp(a->contents, b->contents) != 0)
		return differ(a, b, "model", fmt(d, "%s (%s)", a->model, a->contents),
			      fmt(d, "%s (%s)", b->model, b->contents), d);
	for (int turn = 0; turn < 2; turn++) {
		const struct shard_report *r = turn ? b : a;
		for (size_t i = 0; i < r->noptions; i++) {
			const char *name = r->option[i].name;
			const char *x = value_of(a, name), *y = value_of(b, name);
			if (strcmp(x, y) != 0)
				return differ(a, b, fmt(d, "--%s", name), x, y, d);
		}
	}
	if (a->total != b->total || strcmp(a->list, b->list) != 0)
		return differ(a, b, "list of inputs", str_many(&d->arena, a->total, "input"),
			      fmt(d, "%s%s", str_many(&d->arena, b->total, "input"),
				  a->total == b->total ? " of other names" : ""),
			      d);
	if (a->shards != b->shards)
		return differ(a, b, "number of shards", fmt(d, "%zu", a->shards),
			      fmt(d, "%zu", b->shards), d);
	return 0;
}
