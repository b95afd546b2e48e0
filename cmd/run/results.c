/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/results.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/tame.h"
#include "cmd/output/output.h"
#include "io/io.h"
#include "output/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files */

/*
 * A single output of a format that names files after outputs becomes NAME.npy. Otherwise the outputs get a folder NAME,
 * in which they are called as in a run with one input.
 */
static bool has_own_file(const struct results *r)
{
	const int format = r->o->save_format;

	return r->graph->nout == 1 && format != SAVE_NPZ && format != SAVE_PB &&
	       r->graph->value[r->graph->out[0]]->info.type.kind == V_TENSOR;
}

/* Sets *dir to the folder of a case's files, and list[i].name to the name after which output i's file is called. */
static void name_files(const struct results *r, const char *name, const char **dir,
		       struct io_output *list, struct arena *a)
{
	const char *path = path_join(a, r->o->save, name);
	bool own = has_own_file(r);

	*dir = own ? path_dir(a, path) : path;
	for (uint32_t i = 0; i < r->graph->nout; i++)
		list[i].name = own ? path_base(path) : r->graph->out_name[i];
}

static int save_files(const struct results *r, const char *name, struct output *out,
		      struct arena *a, struct diag *d)
{
	struct io_output *list = arena_new_n(a, struct io_output, r->graph->nout + 1);
	const char **paths = arena_new_n(a, const char *, r->graph->nout + 1), *dir;

	name_files(r, name, &dir, list, a);
	for (uint32_t i = 0; i < r->graph->nout; i++)
		list[i].tensor = out[i].tensor;
	int rc = file_make_dir(dir, E_OUTPUT, d);
	rc = rc ? rc
		: io_save(dir, (enum io_format)r->o->save_format, list, r->graph->nout, paths, a, d);
	for (uint32_t i = 0; i < r->graph->nout; i++)
		out[i].path = paths[i];
	return rc;
}

/* The last file of a case is written when all others are there, so it tells whether the case is done. */
static bool files_exist(const struct results *r, const char *name)
{
	struct arena a = {0};
	struct io_output *list = arena_new_n(&a, struct io_output, r->graph->nout + 1);
	const char *dir;

	name_files(r, name, &dir, list, &a);
	const char *last =
		io_last_file(dir, (enum io_format)r->o->save_format, list, r->graph->nout, &a);
	bool exist = last && access(last, F_OK) == 0;
	arena_free(&a);
	return exist;
}

/* ---- lines */

static int fail_lines(const struct results *r, const char *what, struct diag *d)
{
	return FAIL(d, E_OUTPUT,
		    .message = fmt(d, "%s: cannot %s: %s", r->o->jsonl, what, strerror(errno)));
}

static int write_all(struct results *r, const char *p, size_t n, struct diag *d)
{
	while (n) {
		ssize_t w = write(r->lines, p, n);
		if (w < 0 && errno != EINTR)
			return fail_lines(r, "write", d);
		p += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
	return 0;
}

static void json_output(const struct results *r, struct json *j, const struct output *out,
			const struct ranked *ranked, size_t nranked, const struct decoded *text)
{
	json_object(j, NULL);
	summary_json_tensor(j, out->name, out->tensor ? out->tensor->type : (struct type){0},
			    out->tensor);
	if (out->path)
		json_string(j, "path", out->path);
	if (r->o->print != INT_ABSENT)
		json_values(j, "values", out->tensor, r->o->print);
	for (size_t k = 0; k < nranked; k++)
		if (ranked[k].output == out)
			json_ranked(j, &ranked[k], &r->labels);
	if (r->o->decode && !strcmp(out->name, text->output))
		json_decoded(j, text);
	json_end(j, '}');
}

static int write_line(struct results *r, const char *label, const char *name,
		      const struct output *out, const struct ranked *ranked, size_t nranked,
		      const struct decoded *text, struct diag *d)
{
	char *line = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&line, &n);
	struct json j;

	if (!f)
		return FAIL(d, E_MEMORY, .message = "no memory for a line of --jsonl");
	json_begin(&j, f);
	j.one_line = true;
	json_object(&j, NULL);
	json_string(&j, "input", label);
	json_string(&j, "name", name);
	json_array(&j, "outputs");
	for (uint32_t i = 0; i < r->graph->nout; i++)
		json_output(r, &j, &out[i], ranked, nranked, text);
	json_end(&j, ']');
	json_end(&j, '}');
	json_finish(&j);
	int rc = fclose(f) ? FAIL(d, E_MEMORY, .message = "no memory for a line of --jsonl")
			   : write_all(r, line, n, d);
	free(line);
	return rc;
}

/*
 * Reads the names of the lines that are there. A line without its end is what a killed run left; it is cut off.
 */
static int read_lines(struct results *r, struct diag *d)
{
	struct file_map m;
	size_t whole = 0;
	int rc = file_map(r->o->jsonl, &m, E_OUTPUT, d);

	if (rc)
		return rc;
	for (size_t number = 1; !rc && whole < m.size; number++) {
		const char *s = (const char *)m.data + whole, *nl = memchr(s, '\n', m.size - whole);
		struct arena a = {0};
		if (!nl)
			break;
		const char *what = fmt(d, "%s:%zu", r->o->jsonl, number);
		const struct jvalue *v = jread(s, (size_t)(nl - s), what, E_OUTPUT, &a, d);
		const char *name = v ? jtext(v, "name") : NULL;
		if (name)
			map_set(&r->written, arena_str(&r->arena, name), strlen(name), 0);
		else
			rc = v ? FAIL(d, E_OUTPUT,
				      .message = fmt(d, "%s is no line that --jsonl wrote", what),
				      .hint = "name another file, or leave out --resume to replace it")
			       : -E_OUTPUT;
		whole += (size_t)(nl - s) + 1;
		arena_free(&a);
	}
	if (!rc && whole < m.size && truncate(r->o->jsonl, (off_t)whole) != 0)
		rc = fail_lines(r, "cut off the incomplete last line", d);
	file_unmap(&m);
	return rc;
}

static int open_lines(struct results *r, struct diag *d)
{
	const char *path = r->o->jsonl;
	bool is_stdout = !strcmp(path, "-");

	if (is_stdout && r->o->resume)
		return options_fail(r->o, "resume", "standard output does not tell what is done",
				    "name a file with --jsonl FILE", d);
	if (r->o->resume && access(path, F_OK) == 0) {
		int rc = read_lines(r, d);
		if (rc)
			return rc;
	}
	r->lines = is_stdout ? dup(STDOUT_FILENO)
			     : open(path,
				    O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND |
					    (r->o->resume ? 0 : O_TRUNC),
				    0666);
	return r->lines < 0 ? fail_lines(r, "open", d) : 0;
}

/* ---- text */

static void print_text(const struct results *r, const char *label, const struct output *out,
		       const struct ranked *ranked, size_t nranked, const struct decoded *text)
{
	struct arena a = {0};
	FILE *f = listing_begin(stdout);

	if (r->o->print != INT_ABSENT || nranked)
		fprintf(f, "== %s\n", tame_word(&a, label));
	if (r->o->print != INT_ABSENT)
		print_outputs(out, r->graph->nout, r->o->print, f);
	for (size_t i = 0; i < nranked; i++)
		print_ranked(&ranked[i], &r->labels, f);
	for (size_t i = 0; i < text->n; i++)
		fprintf(f, "%s\t%s\n", tame_word(&a, label), text->text[i]);
	listing_end(f);
	arena_free(&a);
}

/* ---- all of them */

int results_open(struct results *r, const struct options *o, const struct model *m, struct diag *d)
{
	*r = (struct results){.o = o, .graph = m->graph, .lines = -1};
	r->written.arena = &r->arena;
	if (o->decode && !decode_parse(o->decode, &r->blank))
		return options_fail(
			o, "decode",
			fmt(d, "wrong value: expected ctc or ctc:blank=N, got '%s'", o->decode),
			NULL, d);
	if (o->resume && !o->save && !o->jsonl)
		return options_fail(o, "resume", "nothing tells what is done",
				    "give -o DIR or --jsonl FILE", d);
	const struct wanted wanted = {.rank = o->top > 0,
				      .text = o->decode != NULL,
				      .blank = r->blank,
				      .labels = &r->labels};
	int rc = o->labels ? labels_load(o->labels, m, &r->labels, &r->arena, d) : 0;
	rc = options_blame(o, "labels", rc, d);
	rc = rc ? rc : results_check(m->graph, &wanted, d);
	if (!rc && o->save)
		rc = options_blame(o, "save", io_probe_folder(o->save, d), d);
	return rc || !o->jsonl ? rc : open_lines(r, d);
}

static bool has_line(const struct results *r, const char *name)
{
	return map_get(&r->written, name, strlen(name)) >= 0;
}

bool results_has(const struct results *r, const char *name)
{
	return (!r->o->jsonl || has_line(r, name)) && (!r->o->save || files_exist(r, name));
}

int results_add(struct results *r, const char *label, const char *name, struct output *out,
		struct diag *d)
{
	const struct options *o = r->o;
	size_t n = r->graph->nout, nranked = 0;
	struct arena a = {0};
	struct ranked *ranked = arena_new_n(&a, struct ranked, n + 1);
	struct decoded text = {0};
	int rc = 0;

	if (o->top > 0)
		rc = rank_outputs(out, n, o->top, &r->labels, ranked, &nranked, &a, d);
	if (!rc && o->decode)
		rc = decode_ctc(out, n, r->blank, &r->labels, &text, &a, d);
	if (!rc && o->save)
		rc = save_files(r, name, out, &a, d);
	if (!rc && o->jsonl && !has_line(r, name))
		rc = write_line(r, label, name, out, ranked, nranked, &text, d);
	if (!rc && !o->jsonl && !o->json)
		print_text(r, label, out, ranked, nranked, &text);
	arena_free(&a);
	return rc;
}

int results_close(struct results *r, struct diag *d)
{
	int rc = r->lines >= 0 && close(r->lines) != 0 ? fail_lines(r, "write", d) : 0;

	arena_free(&r->arena);
	return rc;
}
