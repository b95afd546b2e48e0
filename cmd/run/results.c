/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/results.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/tame.h"
#include "check/input_range.h"
#include "cmd/options/foreign.h"
#include "cmd/output/output.h"
#include "io/io.h"
#include "output/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files */

/*
 * A single output of a format that names files after outputs becomes NAME.npy. Otherwise the outputs get a folder NAME,
 * in which they are called as in a run with one input.
 */
static bool has_own_file(const struct results *r)
{
	const int format = r->o->save_format;

	return r->graph->nout == 1 && format != SAVE_NPZ && format != SAVE_SAFETENSORS &&
	       format != SAVE_PB && r->graph->value[r->graph->out[0]]->info.type.kind == V_TENSOR;
}

/* Sets *dir to the folder of a case's files, and list[i].name to the name after which output i's file is called. */
static void name_files(const struct results *r, const char *name, const char **dir,
		       struct io_output *list, struct arena *a)
{
	const char *path = path_join(a, r->o->save, name);
	bool own = has_own_file(r);

	*dir = own ? path_dir(a, path) : path;
	for (uint32_t i = 0; i < r->graph->nout; i++) {
		list[i].name = own ? path_base(path) : r->graph->out_name[i];
		list[i].type = r->graph->value[r->graph->out[i]]->info.type;
	}
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
		if (w < 0 && errno == EPIPE && !strcmp(r->o->jsonl, "-"))
			file_reader_gone();
		if (w < 0 && errno != EINTR)
			return fail_lines(r, "write", d);
		p += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
	return 0;
}

/* What the outputs of one case mean. */
struct meaning {
	struct ranked *ranked;
	size_t nranked;
	struct decoded text;
	struct boxes boxes;
	struct score_sums *sums; /* for each score */
};

static void json_output(const struct results *r, struct json *j, const struct output *out,
			const struct meaning *x)
{
	json_object(j, NULL);
	summary_json_tensor(j, out->name, out->tensor ? out->tensor->type : (struct type){0},
			    out->tensor);
	if (out->path)
		json_string(j, "path", out->path);
	if (r->o->print != INT_ABSENT)
		json_values(j, "values", out->tensor, r->o->print);
	for (size_t k = 0; k < x->nranked; k++)
		if (x->ranked[k].output == out)
			json_ranked(j, &x->ranked[k], &r->labels);
	if (x->text.output && !strcmp(out->name, x->text.output))
		json_decoded(j, &x->text);
	json_end(j, '}');
}

/* A line that is being made, in memory, so that one call writes it. */
struct line {
	struct json j;
	char *text;
	size_t n;
	size_t at; /* its case */
	struct line *next;
};

static int line_begin(const struct results *r, size_t at, struct line *l, struct diag *d)
{
	FILE *f = open_memstream(&l->text, &l->n);

	if (!f)
		return FAIL(d, E_MEMORY, .message = "no memory for a line of --jsonl");
	json_begin(&l->j, f);
	l->j.one_line = true;
	json_object(&l->j, NULL);
	json_string(&l->j, "input", r->list->label[at]);
	json_string(&l->j, "name", r->list->name[at]);
	return 0;
}

static int line_end(struct line *l, struct diag *d)
{
	json_end(&l->j, '}');
	json_finish(&l->j);
	return fclose(l->j.stream) ? FAIL(d, E_MEMORY, .message = "no memory for a line of --jsonl")
				   : 0;
}

/* Writes the lines of failed cases before case `at`. */
static int write_failures(struct results *r, size_t at, struct diag *d)
{
	int rc = 0;

	while (!rc && r->failures && r->failures->at < at) {
		struct line *l = r->failures;
		rc = write_all(r, l->text, l->n, d);
		r->failures = l->next;
		free(l->text);
		free(l);
	}
	return rc;
}

int results_flush(struct results *r, struct diag *d)
{
	return write_failures(r, SIZE_MAX, d);
}

static int write_line(struct results *r, size_t at, const struct output *out,
		      const struct meaning *x, struct diag *d)
{
	struct line l = {0};
	int rc = line_begin(r, at, &l, d);

	if (rc)
		return rc;
	json_array(&l.j, "outputs");
	for (uint32_t i = 0; i < r->graph->nout; i++)
		json_output(r, &l.j, &out[i], x);
	json_end(&l.j, ']');
	if (r->box_rules.form)
		json_boxes(&l.j, &x->boxes, &r->labels);
	if (r->scores.n)
		scores_write(&r->scores, x->sums, &l.j);
	rc = line_end(&l, d);
	rc = rc ? rc : write_failures(r, at, d);
	rc = rc ? rc : write_all(r, l.text, l.n, d);
	free(l.text);
	return rc;
}

int results_add_failure(struct results *r, size_t at, const struct diag *why, struct diag *d)
{
	struct line **place = &r->failures, *l = r->lines < 0 ? NULL : calloc(1, sizeof(*l));

	if (r->lines < 0)
		return 0;
	int rc = l ? line_begin(r, at, l, d)
		   : FAIL(d, E_MEMORY, .message = "no memory for a line of --jsonl");
	if (rc) {
		free(l);
		return rc;
	}
	l->at = at;
	json_array(&l->j, "error");
	for (const struct finding *f = why->first; f; f = f->next)
		if (f->severity == SEV_ERROR)
			json_finding(&l->j, f);
	json_end(&l->j, ']');
	rc = line_end(l, d);
	while (*place && (*place)->at < at)
		place = &(*place)->next;
	l->next = *place;
	*place = l;
	return rc;
}

static bool has_line(const struct results *r, const char *name)
{
	return map_get(&r->written, name, strlen(name)) >= 0;
}

/* Takes the scores of a line. Those of an input that is not in this list do not count. */
static bool resume_scores(struct results *r, const char *name, const struct jvalue *v, struct diag *d)
{
	const int64_t at = map_get(&r->listed, name, strlen(name));
	struct score_sums *of = NULL;

	if (at >= 0 && r->former)
		of = r->former[at] = arena_new_n(&r->arena, struct score_sums, r->scores.n + 1);
	return at < 0 || scores_resume(&r->scores, v, of, &r->arena, d);
}

/*
 * Takes one line of an earlier run. *keep: false for that of an input that failed, which will run again, and for the second line of an
 * input, which two runs at the same time have left. Scores count the inputs of this list only.
 */
static int read_line(struct results *r, const char *text, size_t n, const char *what, bool *keep,
		     struct diag *d)
{
	struct arena a = {0};
	const struct jvalue *v = jread(text, n, what, E_OUTPUT, &a, d);
	const char *name = v ? jtext(v, "name") : NULL;
	int rc = v ? 0 : -E_OUTPUT;

	*keep = v && !jget(v, "error") && !(name && has_line(r, name));
	if (v && !name)
		rc = FAIL(d, E_OUTPUT, .message = fmt(d, "%s is no line that --jsonl wrote", what),
			  .hint = "name another file, or leave out --resume to replace it");
	else if (*keep && !resume_scores(r, name, jget(v, "scores"), d))
		rc = FAIL(d, E_OUTPUT, .message = fmt(d, "%s does not have these scores", what),
			  .hint = "leave out --resume, or --score");
	if (!rc && *keep)
		map_set(&r->written, arena_str(&r->arena, name), strlen(name), 0);
	arena_free(&a);
	return rc;
}

/* Part of the file of --jsonl. */
struct span {
	size_t at, n;
};

/* Replaces the file by its first n bytes without the lines `out`. */
static int rewrite_lines(const struct results *r, const unsigned char *text, size_t n,
			 const struct span *out, size_t nout, struct diag *d)
{
	struct file_out *f = file_create(r->o->jsonl, E_OUTPUT, d);
	size_t at = 0;

	if (!f)
		return -E_OUTPUT;
	for (size_t i = 0; i < nout; i++) {
		file_write(f, text + at, out[i].at - at);
		at = out[i].at + out[i].n;
	}
	file_write(f, text + at, n - at);
	return file_commit(f, d);
}

/*
 * Reads the names and scores of the lines that are there. A line without its end is what a killed run left; it is cut off, and
 * lines of inputs that failed are left out.
 */
static int read_lines(struct results *r, struct diag *d)
{
	struct arena a = {0};
	struct span *failed = NULL;
	size_t whole = 0, nfailed = 0;
	struct file_map m;
	int rc = file_map(r->o->jsonl, &m, E_OUTPUT, d);

	if (rc)
		return rc;
	for (size_t number = 1; !rc && whole < m.size; number++) {
		const char *s = (const char *)m.data + whole, *nl = memchr(s, '\n', m.size - whole);
		bool keep;
		if (!nl)
			break;
		const struct span line = {whole, (size_t)(nl - s) + 1};
		rc = read_line(r, s, line.n - 1, fmt(d, "%s:%zu", r->o->jsonl, number), &keep, d);
		if (!rc && !keep) {
			failed = arena_append(&a, failed, nfailed, sizeof(*failed));
			failed[nfailed++] = line;
		}
		whole += line.n;
	}
	if (!rc && nfailed)
		rc = rewrite_lines(r, m.data, whole, failed, nfailed, d);
	else if (!rc && whole < m.size && truncate(r->o->jsonl, (off_t)whole) != 0)
		rc = fail_lines(r, "cut off the incomplete last line", d);
	file_unmap(&m);
	arena_free(&a);
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
	r->lines = is_stdout ? dup(STDOUT_FILENO) : file_open_lines(path, !r->o->resume);
	return r->lines < 0 ? fail_lines(r, "open", d) : 0;
}

/* ---- text */

static void print_text(const struct results *r, const char *label, const struct output *out,
		       const struct meaning *x)
{
	struct arena a = {0};
	FILE *f = listing_begin(stdout);

	if (r->o->print != INT_ABSENT || x->nranked || r->box_rules.form)
		fprintf(f, "== %s\n", tame_word(&a, label));
	if (r->o->print != INT_ABSENT)
		print_outputs(out, r->graph->nout, r->o->print, f);
	for (size_t i = 0; i < x->nranked; i++)
		print_ranked(&x->ranked[i], &r->labels, f);
	print_boxes(&x->boxes, &r->labels, f);
	for (size_t i = 0; i < x->text.n; i++)
		fprintf(f, "%s\t%s\n", tame_word(&a, label), x->text.text[i]);
	listing_end(f);
	arena_free(&a);
}

void results_print_scores(const struct results *r)
{
	bool taken = r->o->json || (r->o->jsonl && !strcmp(r->o->jsonl, "-"));
	FILE *f = listing_begin(taken ? stderr : stdout);

	scores_print(&r->scores, r->list->n, f);
	listing_end(f);
}

/* ---- all of them */

int results_parse_decode(const struct options *o, int64_t *blank, struct box_rules *rules,
			 struct diag *d)
{
	if (!o->decode || decode_parse(o->decode, blank) || boxes_parse(o->decode, rules))
		return 0;
	return options_fail(o, "decode",
			    fmt(d,
				"wrong value: expected ctc or ctc:blank=N, or yolo, ssd or detr with "
				":score=S,iou=I, got '%s'",
				o->decode),
			    foreign_value_hint("decode", o->decode), d);
}

static int open_scores(struct results *r, struct diag *d)
{
	const struct options *o = r->o;
	const struct score_request request = {.score = o->score,
					      .fail_below = o->fail_below,
					      .label = r->list->label,
					      .name = r->list->name,
					      .n = r->list->n,
					      .labels = &r->labels,
					      .text = o->decode && !r->box_rules.form,
					      .boxes = r->box_rules.form != BOXES_NONE};

	if (o->score.n > 0 && o->resume && !o->jsonl)
		return options_fail(o, "resume", "nothing keeps the scores of the earlier run",
				    "give --jsonl FILE to both runs", d);
	return scores_open(&r->scores, &request, d);
}

int results_open(struct results *r, const struct options *o, const struct model *m,
		 const struct input_list *list, struct diag *d)
{
	*r = (struct results){.o = o, .graph = m->graph, .lines = -1, .list = list};
	r->written.arena = r->listed.arena = &r->arena;
	for (size_t i = 0; i < list->n; i++)
		map_set(&r->listed, list->name[i], strlen(list->name[i]), (uint32_t)i);
	int rc = results_parse_decode(o, &r->blank, &r->box_rules, d);
	if (rc)
		return rc;
	if (o->resume && !o->save && !o->jsonl)
		return options_fail(o, "resume", "no file says which inputs are done",
				    "give -o DIR or --jsonl FILE", d);
	const struct wanted wanted = {.rank = o->top > 0,
				      .text = o->decode && !r->box_rules.form,
				      .blank = r->blank,
				      .labels = &r->labels};
	rc = o->labels ? labels_load(o->labels, m, &r->labels, &r->arena, d) : 0;
	rc = options_blame(o, "labels", rc, d);
	rc = rc ? rc : results_check(m->graph, &wanted, d);
	if (!rc && !o->labels && (o->top > 0 || o->decode))
		labels_suggest(m, wanted.text, d);
	rc = rc ? rc : open_scores(r, d);
	if (o->report && o->resume)
		r->former = arena_new_n(&r->arena, struct score_sums *, list->n + 1);
	if (!rc && o->save)
		rc = options_blame(o, "save", io_probe_folder(o->save, d), d);
	return rc || !o->jsonl ? rc : open_lines(r, d);
}

bool results_has(const struct results *r, const char *name)
{
	return (!r->o->jsonl || has_line(r, name)) && (!r->o->save || files_exist(r, name));
}

/* Finds out what the outputs of case `at` mean. */
static int interpret(const struct results *r, size_t at, const struct input_set *inputs,
		     const struct output *out, struct meaning *x, struct arena *a, struct diag *d)
{
	const struct options *o = r->o;
	const size_t n = r->graph->nout;
	int rc = 0;

	x->ranked = arena_new_n(a, struct ranked, n + 1);
	x->sums = arena_new_n(a, struct score_sums, r->scores.n + 1);
	if (o->top > 0)
		rc = rank_outputs(out, n, o->top, &r->labels, x->ranked, &x->nranked, a, d);
	if (!rc && r->box_rules.form)
		rc = boxes_find(&r->box_rules, out, n, boxes_input(inputs), &r->labels, &x->boxes,
				a, d);
	else if (!rc && o->decode)
		rc = decode_ctc(out, n, r->blank, &r->labels, &x->text, a, d);
	const struct score_answer answer = {
		.out = out, .nout = n, .text = &x->text, .boxes = &x->boxes};
	return rc ? rc : scores_judge(&r->scores, at, &answer, x->sums, a, d);
}

int results_add(struct results *r, size_t at, const struct input_set *inputs, struct output *out,
		struct score_sums *sums, struct arena *keep, struct diag *d)
{
	const struct options *o = r->o;
	const char *label = r->list->label[at], *name = r->list->name[at];
	const bool counted = has_line(r, name); /* by an earlier run */
	struct meaning x = {0};
	struct arena a = {0};
	int rc = interpret(r, at, inputs, out, &x, &a, d);

	if (!rc && o->save)
		rc = save_files(r, name, out, &a, d);
	if (!rc && o->jsonl && !counted)
		rc = write_line(r, at, out, &x, d);
	for (size_t k = 0; !rc && !counted && k < r->scores.n; k++)
		rc = score_merge(&r->scores.v[k].sums, &x.sums[k], &r->scores.arena, d);
	for (size_t k = 0; !rc && sums && k < r->scores.n; k++) {
		sums[k] = (struct score_sums){0};
		rc = score_merge(&sums[k], &x.sums[k], keep, d);
	}
	if (!rc && !o->jsonl && !o->json)
		print_text(r, label, out, &x);
	arena_free(&a);
	return rc;
}

void doubt_pictures(const struct options *o, const struct input_set *inputs, struct diag *d)
{
	const struct load_options load = {.external_root = o->config.external_root};
	const char *path = o->operand[0];
	struct stat s;

	/* a file that the shell has opened for us can be read again from its beginning, a pipe cannot */
	if (!strcmp(path, "-"))
		path = !fstat(STDIN_FILENO, &s) && S_ISREG(s.st_mode) ? "/dev/stdin" : NULL;
	if (path)
		warn_of_raw_pictures(path, &load, inputs, d);
}

int results_close(struct results *r, struct diag *d)
{
	int rc = r->lines >= 0 && close(r->lines) != 0 ? fail_lines(r, "write", d) : 0;

	arena_free(&r->scores.arena);
	arena_free(&r->arena);
	return rc;
}
