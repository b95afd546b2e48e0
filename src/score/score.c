/* SPDX-License-Identifier: Apache-2.0 */
#include "score/score.h"

#include "base/file.h"
#include "base/str.h"
#include "base/tame.h"
#include "io/io.h"
#include "score/edits.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BILLION = 1000000000 };

static const char *const kind_names[] = {
	[SCORE_TOP] = "top",	   [SCORE_EXACT] = "exact", [SCORE_WER] = "wer",
	[SCORE_CER] = "cer",	   [SCORE_MAP] = "map",	    [SCORE_PSNR] = "psnr",
	[SCORE_COSINE] = "cosine",
};
enum { KINDS = sizeof(kind_names) / sizeof(*kind_names) };

static bool is_error_rate(enum score_kind kind)
{
	return kind == SCORE_WER || kind == SCORE_CER;
}

static bool reads_text(enum score_kind kind)
{
	return kind == SCORE_EXACT || is_error_rate(kind);
}

static bool has_folder(enum score_kind kind)
{
	return kind == SCORE_PSNR || kind == SCORE_COSINE;
}

/* ---- the words of --score */

static int fail_option(const char *option, const char *what, const char *text, const char *hint,
		       struct diag *d)
{
	return FAIL(d, E_OPTION, .slot = fmt(d, "%s", option), .message = what,
		    .actual = fmt(d, "'%s'", text), .hint = hint);
}

bool score_named(const char *name, enum score_kind *kind, int64_t *k)
{
	char *end;

	for (int i = 0; i < KINDS; i++)
		if (i != SCORE_TOP && !strcmp(name, kind_names[i])) {
			*kind = (enum score_kind)i;
			return true;
		}
	if (!str_starts(name, "top") || name[3] < '1' || name[3] > '9')
		return false;
	*kind = SCORE_TOP;
	*k = strtoll(name + 3, &end, 10);
	return *k <= INT32_MAX && !*end;
}

/* Reads "top5", "wer", "psnr:range=255". Returns false for other words. */
static bool parse_name(const char *word, struct score *s, struct arena *a)
{
	const size_t n = strcspn(word, ":");
	char *end = NULL;

	s->range = s->limit = NAN;
	s->name = arena_strn(a, word, n);
	if (!score_named(s->name, &s->kind, &s->k))
		return false;
	if (!word[n])
		return true;
	if (s->kind != SCORE_PSNR || !str_starts(word + n, ":range="))
		return false;
	s->range = strtod(word + n + strlen(":range="), &end);
	return !*end && s->range > 0 && isfinite(s->range);
}

static int parse_score(struct scores *s, const char *text, struct score *score, struct diag *d)
{
	/* the "=" of range= is not the one before the file */
	const char *range = strstr(text, ":range="), *first = strchr(text, '=');
	const char *eq = range && first == range + 6 ? strchr(range + 7, '=') : first;
	const char *word = arena_strn(&s->arena, text, eq ? (size_t)(eq - text) : strlen(text));

	if (!parse_name(word, score, &s->arena))
		return fail_option("--score", "there is no such score", text,
				   "scores are top1 (or another number), exact, wer, cer, map, psnr, "
				   "psnr:range=R and cosine",
				   d);
	if (!eq || !eq[1])
		return fail_option("--score", "it does not say what is right", text,
				   has_folder(score->kind)
					   ? "write --score NAME=DIR, with DIR/INPUT.npy for each input"
					   : "write --score NAME=FILE",
				   d);
	score->source = eq + 1;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].name, score->name))
			return fail_option("--score", "this score is given twice", text, NULL, d);
	return 0;
}

static int parse_limit(struct scores *s, const char *text, struct diag *d)
{
	const char *eq = strchr(text, '='), *number = eq ? eq + 1 : text;
	struct score *score = !eq && s->n == 1 ? s->v : NULL;
	char *end;
	double limit = strtod(number, &end);

	if (!*number || *end || !isfinite(limit))
		return fail_option("--fail-below", "this is no number", text,
				   "write --fail-below top1=0.75", d);
	for (size_t i = 0; eq && i < s->n; i++)
		if (strlen(s->v[i].name) == (size_t)(eq - text) &&
		    !strncmp(s->v[i].name, text, (size_t)(eq - text)))
			score = &s->v[i];
	if (!score)
		return fail_option("--fail-below",
				   s->n ? eq ? "no --score has this name" : "several scores are computed"
					: "no score is computed",
				   text,
				   s->n ? "write the name of one before the number: top1=0.75"
					: "add --score NAME=FILE",
				   d);
	score->limit = limit;
	return 0;
}

/* ---- the truth */

/* The reference of an output: DIR/NAME.npy, or DIR/NAME/OUTPUT.npy, as -o names them. output: NULL for any. */
static const char *reference_path(const struct scores *s, const struct score *score, size_t i,
				  const char *output, struct arena *a)
{
	const char *own = path_join(a, score->source, arena_printf(a, "%s.npy", s->name[i]));

	if (!output || access(own, F_OK) == 0)
		return own;
	return path_join(a, path_join(a, score->source, s->name[i]),
			 arena_printf(a, "%s.npy", output));
}

static int find_references(const struct scores *s, const struct score *score, size_t n, struct diag *d)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		struct arena a = {0};
		const char *own = reference_path(s, score, i, NULL, &a);
		const char *folder = path_join(&a, score->source, s->name[i]);
		if (access(own, F_OK) != 0 && access(folder, F_OK) != 0)
			rc = FAIL(d, E_TRUTH, .slot = fmt(d, "--score %s", score->name),
				  .message = fmt(d, "%s has nothing for the input '%s'",
						 score->source, s->label[i]),
				  .expected = fmt(d, "%s", own),
				  .hint = "infer run -o DIR writes such a folder");
		arena_free(&a);
	}
	return rc;
}

/* Finds the class that an answer names: a label, or a number. */
static int class_of(const struct scores *s, const struct truth_entry *e, int64_t *class,
		    struct diag *d)
{
	const struct labels *l = s->labels;
	size_t found = 0;
	char *end;

	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i], e->answer)) {
			*class = (int64_t)i;
			found++;
		}
	if (found == 1)
		return 0;
	if (!found) {
		*class = strtoll(e->answer, &end, 10);
		if (*e->answer && !*end && *class >= 0)
			return 0;
	}
	return FAIL(d, E_TRUTH, .slot = fmt(d, "%s", e->place),
		    .message = fmt(d, found ? "'%s' is the label of several classes" : "'%s' is no class",
				   e->answer),
		    .expected = l->n ? "a label of --labels, or the number of a class from 0"
				     : "the number of a class from 0",
		    .hint = l->n ? "write the number" : "--labels gives the classes names");
}

/* Returns the index of the category with this name, or -1. */
static int64_t category_named(const struct truth *t, const char *name)
{
	for (size_t i = 0; i < t->ncategories; i++)
		if (!strcmp(t->category[i].name, name))
			return (int64_t)i;
	return -1;
}

/* Labels name COCO's categories; without labels class k is the category with the k-th smallest id. */
static int category_of(const struct scores *s, const struct score *score, int64_t class,
		       int64_t *id, struct diag *d)
{
	const struct truth *t = &score->truth;
	bool named = class >= 0 && class < (int64_t)s->labels->n;
	int64_t at = named ? category_named(t, s->labels->v[class]) : s->labels->n ? -1 : class;

	if (at < 0 || at >= (int64_t)t->ncategories)
		return FAIL(d, E_TRUTH, .slot = fmt(d, "--score %s", score->name),
			    .message = named ? fmt(d, "%s has no category '%s'", t->file,
						   s->labels->v[class])
					     : fmt(d, "%s has no category for class %" PRId64,
						   t->file, class),
			    .hint = "the names of --labels must be those of its categories; without --labels "
				    "class k is the k-th category by id");
	*id = t->category[at].id;
	return 0;
}

static int check_answers(const struct scores *s, const struct score *score, struct diag *d)
{
	int rc = 0;

	for (size_t i = 0; !rc && score->kind == SCORE_TOP && i < score->truth.n; i++) {
		int64_t class;
		rc = class_of(s, &score->truth.entry[i], &class, d);
	}
	for (size_t k = 0; !rc && score->kind == SCORE_MAP && k < s->labels->n; k++) {
		int64_t id;
		rc = category_of(s, score, (int64_t)k, &id, d);
	}
	return rc;
}

static int open_score(struct scores *s, const struct score_request *r, struct score *score,
		      struct diag *d)
{
	int rc;

	if (reads_text(score->kind) && !r->text)
		return fail_option("--score", "it compares texts, and nothing decodes one",
				   score->name, "add --decode ctc", d);
	if (score->kind == SCORE_MAP && !r->boxes)
		return fail_option(
			"--score", "it compares boxes, and nothing finds them", score->name,
			"add --decode yolo, ssd or detr, best with a low threshold: yolo:score=0.001",
			d);
	if (has_folder(score->kind))
		return find_references(s, score, r->n, d);
	rc = score->kind == SCORE_MAP ? truth_read_coco(&score->truth, score->source, &s->arena, d)
				      : truth_read_table(&score->truth, score->source, &s->arena, d);
	rc = rc ? rc : truth_assign(&score->truth, r->label, r->name, r->n, &s->arena, d);
	return rc ? rc : check_answers(s, score, d);
}

int scores_open(struct scores *s, const struct score_request *r, struct diag *d)
{
	const size_t n = r->score.n > 0 ? (size_t)r->score.n : 0;
	int rc = 0;

	*s = (struct scores){.labels = r->labels, .label = r->label, .name = r->name};
	s->v = arena_new_n(&s->arena, struct score, n + 1);
	for (; !rc && s->n < n; s->n += !rc)
		rc = parse_score(s, r->score.v[s->n].s, &s->v[s->n], d);
	for (int64_t i = 0; !rc && i < r->fail_below.n; i++)
		rc = parse_limit(s, r->fail_below.v[i].s, d);
	for (size_t k = 0; !rc && k < s->n; k++)
		rc = open_score(s, r, &s->v[k], d);
	return rc;
}

/* ---- one input */

/* Returns the first output that is one row of numbers, one for each class, or NULL. */
static const struct tensor *class_scores(const struct score_answer *x, const struct labels *l)
{
	for (size_t i = 0; i < x->nout; i++) {
		const struct tensor *t = x->out[i].tensor;
		if (!t || t->type.kind != V_TENSOR || t->shape.rank < 1 ||
		    tensor_dtype(t) == DT_STRING || dtype_class(tensor_dtype(t)) == DT_COMPLEX)
			continue;
		int64_t n = t->shape.dim[t->shape.rank - 1];
		if (n >= 2 && tensor_count(t) == n && (!l->n || (int64_t)l->n == n))
			return t;
	}
	return NULL;
}

/*
 * The answer is right if fewer than k classes have a larger score; of equal scores the first counts as larger, as in
 * numpy.argmax, and NaN as the smallest.
 */
static bool is_among_top(const struct tensor *t, int64_t class, int64_t k)
{
	const int64_t n = tensor_count(t);
	double own = elem_f64(tensor_dtype(t), t->data, class);
	int64_t larger = 0;

	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		bool equal = v == own || (isnan(v) && isnan(own));
		larger += equal ? i < class : isnan(own) || v > own;
	}
	return larger < k;
}

static int judge_class(const struct scores *s, const struct score *score, const struct truth_entry *e,
		       const struct score_answer *x, struct score_sums *sums, struct diag *d)
{
	const struct tensor *t = class_scores(x, s->labels);
	int64_t class;
	int rc = class_of(s, e, &class, d);

	if (rc)
		return rc;
	if (!t)
		return FAIL(d, E_LABELS, .slot = fmt(d, "--score %s", score->name),
			    .message = "no output is one row with a score for each class",
			    .hint = s->labels->n ? "the labels must be as many as the classes"
						 : "infer inspect MODEL shows the outputs");
	if (class >= tensor_count(t))
		return FAIL(d, E_TRUTH, .slot = fmt(d, "%s", e->place),
			    .message = fmt(d, "the model has no class %" PRId64, class),
			    .expected = fmt(d, "below %" PRId64, tensor_count(t)));
	sums->of = 1;
	sums->sum = is_among_top(t, class, score->k);
	return 0;
}

static int judge_text(const struct score *score, const struct truth_entry *e,
		      const struct score_answer *x, struct score_sums *sums, struct diag *d)
{
	struct arena a = {0};

	if (x->text->n != 1)
		return FAIL(d, E_TRUTH, .slot = fmt(d, "--score %s", score->name),
			    .message = "an input must give one text",
			    .actual = fmt(d, "%zu", x->text->n));
	if (score->kind == SCORE_EXACT) {
		sums->of = 1;
		sums->sum = !strcmp(e->answer, x->text->text[0]);
		return 0;
	}
	const struct edits n =
		edits_between(e->answer, x->text->text[0], score->kind == SCORE_WER, &a);
	sums->sum = n.edits;
	sums->of = n.length;
	arena_free(&a);
	return 0;
}

static int judge_boxes(const struct scores *s, const struct score *score,
		       const struct truth_entry *e, const struct score_answer *x,
		       struct score_sums *sums, struct arena *a, struct diag *d)
{
	struct arena scratch = {0};
	struct found_box *found = arena_new_n(&scratch, struct found_box, x->boxes->n + 1);
	int rc = 0;

	for (size_t i = 0; !rc && i < x->boxes->n; i++) {
		const struct box *b = &x->boxes->v[i];
		found[i] = (struct found_box){.x = b->x0,
					      .y = b->y0,
					      .width = b->x1 - b->x0,
					      .height = b->y1 - b->y0,
					      .score = b->score};
		rc = category_of(s, score, b->class, &found[i].category, d);
	}
	if (!rc)
		matches_add(&sums->matches, e->image, e->boxes, e->nboxes, found, x->boxes->n, a);
	arena_free(&scratch);
	return rc;
}

/* ---- against a reference */

/* The peak signal-to-noise ratio: 10 log10(R^2 / mean squared error), ISO/IEC 29170-2 and scikit-image's. */
static double psnr(const struct tensor *t, const struct npy *h, const void *reference, double range)
{
	const int64_t n = tensor_count(t);
	double sum = 0;

	for (int64_t i = 0; i < n; i++) {
		double e = elem_f64(tensor_dtype(t), t->data, i) - elem_f64(h->dtype, reference, i);
		sum += e * e;
	}
	return 10 * log10(range * range / (sum / (double)n));
}

/* The cosine of the angle between two vectors; 0 if one has no length, as in scikit-learn. */
static double cosine(const struct tensor *t, const struct npy *h, const void *reference)
{
	const int64_t n = tensor_count(t);
	double xy = 0, xx = 0, yy = 0;

	for (int64_t i = 0; i < n; i++) {
		double x = elem_f64(tensor_dtype(t), t->data, i),
		       y = elem_f64(h->dtype, reference, i);
		xy += x * y;
		xx += x * x;
		yy += y * y;
	}
	return xx == 0 || yy == 0 ? 0 : xy / (sqrt(xx) * sqrt(yy));
}

/* Without :range=, floats are taken to be from 0 to 1, and integers to use all their values. */
static double range_of(const struct score *score, enum dtype type)
{
	if (!isnan(score->range))
		return score->range;
	return dtype_class(type) == DT_FLOAT ? 1 : ldexp(1, (int)dtype_bits(type)) - 1;
}

static int fail_reference(const struct score *score, const char *path, const char *what,
			  const char *expected, const char *actual, struct diag *d)
{
	return FAIL(d, E_TRUTH, .slot = fmt(d, "--score %s", score->name),
		    .message = fmt(d, "%s %s", path, what), .expected = expected, .actual = actual);
}

static int compare(const struct score *score, const struct tensor *t, const char *path,
		   const struct file_map *m, struct score_sums *sums, struct diag *d)
{
	struct npy h;
	int rc = npy_head(m->data, m->size, path, &h, d);

	if (rc)
		return rc;
	if (h.dtype == DT_NONE || h.dtype == DT_STRING || dtype_class(h.dtype) == DT_COMPLEX ||
	    h.fortran || h.big_endian)
		return fail_reference(score, path, "is no array of numbers in C order", NULL, NULL, d);
	if (h.bytes > m->size - h.data || shape_count(&h.shape) != tensor_count(t) || !tensor_count(t))
		return fail_reference(score, path, "does not have the shape of the output",
				      shape_str(&d->arena, &t->shape, NULL),
				      shape_str(&d->arena, &h.shape, NULL), d);
	/* the elements of an .npy file are aligned, because its head is a multiple of 64 bytes, or of 16 in old ones */
	const void *reference = m->data + h.data;
	double v = score->kind == SCORE_COSINE ? cosine(t, &h, reference)
					       : psnr(t, &h, reference, range_of(score, h.dtype));
	sums->of = 1;
	if (score->kind == SCORE_PSNR && v == INFINITY)
		sums->infinite = 1;
	else if (!isfinite(v))
		return fail_reference(score, path, "cannot be compared: values are not finite",
				      NULL, NULL, d);
	else
		sums->sum = llround(v * BILLION);
	return 0;
}

static int judge_reference(const struct scores *s, const struct score *score, size_t i,
			   const struct score_answer *x, struct score_sums *sums, struct diag *d)
{
	const struct tensor *t = x->nout ? x->out[0].tensor : NULL;
	struct arena a = {0};
	struct file_map m;

	if (!t || t->type.kind != V_TENSOR || tensor_dtype(t) == DT_STRING ||
	    dtype_class(tensor_dtype(t)) == DT_COMPLEX)
		return FAIL(d, E_LABELS, .slot = fmt(d, "--score %s", score->name),
			    .message = "the first output is no tensor of numbers",
			    .hint = "--output NAME chooses another");
	const char *path = reference_path(s, score, i, x->out[0].name, &a);
	int rc = file_map(path, &m, E_TRUTH, d);
	if (!rc) {
		rc = compare(score, t, fmt(d, "%s", path), &m, sums, d);
		file_unmap(&m);
	}
	arena_free(&a);
	return rc;
}

int scores_judge(const struct scores *s, size_t i, const struct score_answer *x,
		 struct score_sums *sums, struct arena *a, struct diag *d)
{
	int rc = 0;

	for (size_t k = 0; !rc && k < s->n; k++) {
		const struct score *score = &s->v[k];
		const struct truth_entry *e =
			has_folder(score->kind) ? NULL : &score->truth.entry[score->truth.of[i]];
		sums[k] = (struct score_sums){.inputs = 1};
		rc = !e				? judge_reference(s, score, i, x, &sums[k], d)
		     : score->kind == SCORE_TOP ? judge_class(s, score, e, x, &sums[k], d)
		     : score->kind == SCORE_MAP ? judge_boxes(s, score, e, x, &sums[k], a, d)
						: judge_text(score, e, x, &sums[k], d);
	}
	return rc;
}

/* ---- sums */

int score_merge(struct score_sums *to, const struct score_sums *from, struct arena *a, struct diag *d)
{
	struct score_sums sum = *to;

	if (__builtin_add_overflow(to->inputs, from->inputs, &sum.inputs) ||
	    __builtin_add_overflow(to->sum, from->sum, &sum.sum) ||
	    __builtin_add_overflow(to->of, from->of, &sum.of) ||
	    __builtin_add_overflow(to->infinite, from->infinite, &sum.infinite))
		return FAIL(d, E_SIZE, .message = "the sums of a score overflow");
	*to = sum;
	matches_merge(&to->matches, &from->matches, a);
	return 0;
}

double score_value(enum score_kind kind, const struct score_sums *sums)
{
	const double unit = has_folder(kind) ? BILLION : 1;

	if (kind == SCORE_MAP)
		return matches_map(&sums->matches);
	if (sums->infinite)
		return INFINITY;
	return sums->of ? (double)sums->sum / unit / (double)sums->of : NAN;
}

int scores_check(const struct scores *s, struct diag *d)
{
	int rc = 0;

	for (size_t k = 0; k < s->n; k++) {
		const struct score *score = &s->v[k];
		double v = score_value(score->kind, &score->sums);
		bool rate = is_error_rate(score->kind);
		if (isnan(score->limit) || (rate ? v <= score->limit : v >= score->limit))
			continue;
		rc = FAIL(d, E_SCORE, .slot = fmt(d, "--fail-below %s", score->name),
			  .message = isnan(v) ? "nothing was counted"
					      : "the score is worse than its limit",
			  .expected = fmt(d, "%s %s", rate ? "at most" : "at least",
					  str_double(&d->arena, score->limit)),
			  .actual = str_double(&d->arena, v));
	}
	return rc;
}

void score_sums_write(enum score_kind kind, const struct score_sums *sums, struct json *j)
{
	json_int(j, "inputs", sums->inputs);
	if (kind == SCORE_MAP) {
		matches_write(&sums->matches, j);
		return;
	}
	/* readers of JSON keep 53 bits of a number, so billionths stand apart */
	json_int(j, "sum", has_folder(kind) ? sums->sum / BILLION : sums->sum);
	if (has_folder(kind))
		json_int(j, "billionths", sums->sum % BILLION);
	json_int(j, "of", sums->of);
	if (kind == SCORE_PSNR)
		json_int(j, "infinite", sums->infinite);
}

static bool read_count(const struct jvalue *v, const char *key, int64_t least, int64_t *to)
{
	const struct jvalue *x = jget(v, key);

	if (!x || x->type != J_NUMBER || !(fabs(x->number) <= 0x1p53) || x->number != trunc(x->number))
		return false;
	*to = (int64_t)x->number;
	return *to >= least;
}

bool score_sums_read(enum score_kind kind, struct score_sums *sums, const struct jvalue *v,
		     struct arena *a)
{
	int64_t billionths = 0;

	*sums = (struct score_sums){0};
	if (!read_count(v, "inputs", 0, &sums->inputs))
		return false;
	if (kind == SCORE_MAP)
		return matches_read(&sums->matches, v, a);
	if (!read_count(v, "sum", INT64_MIN, &sums->sum) || !read_count(v, "of", 0, &sums->of) ||
	    (kind == SCORE_PSNR && !read_count(v, "infinite", 0, &sums->infinite)))
		return false;
	return !has_folder(kind) ||
	       (read_count(v, "billionths", INT64_MIN, &billionths) &&
		!__builtin_mul_overflow(sums->sum, (int64_t)BILLION, &sums->sum) &&
		!__builtin_add_overflow(sums->sum, billionths, &sums->sum));
}

void scores_write(const struct scores *s, const struct score_sums *sums, struct json *j)
{
	json_object(j, "scores");
	for (size_t k = 0; k < s->n; k++) {
		const struct score_sums *x = sums ? &sums[k] : &s->v[k].sums;
		double v = score_value(s->v[k].kind, x);
		json_object(j, s->v[k].name);
		if (isnan(v))
			json_null(j, "value");
		else
			json_number(j, "value", v);
		score_sums_write(s->v[k].kind, x, j);
		json_end(j, '}');
	}
	json_end(j, '}');
}

bool scores_resume(struct scores *s, const struct jvalue *v, struct score_sums *of, struct arena *a,
		   struct diag *d)
{
	for (size_t k = 0; k < s->n; k++) {
		const struct jvalue *own = jget(v, s->v[k].name);
		struct score_sums sums;
		if (!own || !score_sums_read(s->v[k].kind, &sums, own, a) ||
		    score_merge(&s->v[k].sums, &sums, &s->arena, d))
			return false;
		if (of)
			of[k] = sums;
	}
	return true;
}

void scores_print(const struct scores *s, size_t total, FILE *f)
{
	struct arena a = {0};

	for (size_t k = 0; k < s->n; k++) {
		const struct score *score = &s->v[k];
		const struct score_sums *x = &score->sums;
		double v = score_value(score->kind, x);
		fprintf(f, "%-8s %s%s  (", score->name,
			isnan(v) ? "none" : arena_printf(&a, "%.6g", v),
			score->kind == SCORE_PSNR ? " dB" : "");
		if (!has_folder(score->kind) && score->kind != SCORE_MAP)
			fprintf(f, "%s of %s%s, ", str_count(&a, x->sum), str_count(&a, x->of),
				score->kind == SCORE_WER   ? " words wrong"
				: score->kind == SCORE_CER ? " characters wrong"
							   : " right");
		fprintf(f, "%s of %s counted)\n", str_count(&a, x->inputs),
			str_many(&a, total, "input"));
	}
	arena_free(&a);
}
