/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the outputs with references: output_K.pb of --data-set, or the files of --expect. */
#include "base/file.h"
#include "base/str.h"
#include "check/check.h"
#include "check/reference.h"
#include "check/path_precision.h"
#include "check/step_value.h"
#include "io/io.h"
#include "ir/difference.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The expected value of an output. */
struct reference {
	uint32_t output;
	const char *file;
	const struct tensor *want;
};

struct references {
	struct reference *v;
	uint32_t n;
	struct texts texts; /* --expect, with files in place of folders */
	struct input_set *files; /* the files that --expect names, opened by the code that opens inputs */
	int err;
	struct diag told; /* the findings about them, for the check of references */
};

/* ---- reading ---------------------------------------------------------------------------------- */

static int read_data_set(struct check_context *c, struct references *r)
{
	const struct graph *g = session_model(c->session)->graph;

	for (uint32_t k = 0; k < c->nout; k++) {
		uint32_t place = g->out_place ? g->out_place[k] : k;
		const char *name = arena_printf(&c->arena, "output_%" PRIu32 ".pb", place);
		const char *path = path_join(&c->arena, c->request->data_set, name);
		if (access(path, F_OK) || !c->out[k])
			continue;
		const struct tensor *t =
			tensor_pb_read(path, g->value[g->out[k]]->info.type, &c->arena, c->d);
		if (!t)
			return c->d->last ? -(int)c->d->last->code : -E_INPUT_FORMAT;
		r->v[r->n++] = (struct reference){k, name, t};
	}
	if (!r->n)
		return FAIL(c->d, E_INPUT_OPEN, .slot = c->request->data_set,
			    .message = "has no output_K.pb to compare with");
	return 0;
}

/*
 * Returns the number of the output whose name, followed by '=' or ':', starts the text. If several names do, the
 * longest one counts. Returns -1 if none does.
 */
static int64_t named_output(const struct graph *g, const char *text)
{
	int64_t best = -1;
	size_t longest = 0;

	for (uint32_t k = 0; k < g->nout; k++) {
		size_t n = strlen(g->out_name[k]);
		if (n >= longest && !strncmp(text, g->out_name[k], n) &&
		    (text[n] == '=' || text[n] == ':')) {
			best = k;
			longest = n;
		}
	}
	return best;
}

static const char *output_names(struct check_context *c, const struct graph *g)
{
	struct str b = {.arena = &c->d->arena};

	for (uint32_t k = 0; k < g->nout; k++)
		str_addf(&b, "%s'%s'", k ? ", " : "", g->out_name[k]);
	return str_get(&b);
}

/*
 * Makes a model whose inputs are the outputs that have references, so that the code that opens inputs can read the
 * references.
 */
static struct model *outputs_as_inputs(struct check_context *c, struct references *r)
{
	const struct graph *g = session_model(c->session)->graph;
	struct model *m = arena_new(&c->arena, struct model);
	struct graph *x = graph_new(&c->arena, m, "references");

	m->path = c->path;
	m->name = m->producer = m->producer_version = m->domain = m->doc = "";
	m->graph = x;
	x->in = arena_new_n(&c->arena, uint32_t, r->n + 1);
	for (uint32_t i = 0; i < r->n; i++) {
		struct value *v = graph_add_value(x, g->out_name[r->v[i].output]);
		v->is_input = true;
		v->info.type = c->out[r->v[i].output]->type;
		v->info.shape = c->out[r->v[i].output]->shape;
		x->in[x->nin++] = v->id;
	}
	return m;
}

/* Rewords a finding about a file of --expect, which was read by the code that reads inputs. */
static struct finding of_reference(struct check_context *c, const struct finding *f)
{
	static const char unfit[] = " does not fit the model", input[] = "input '";
	struct finding copy = *f;
	struct diag_row *row = arena_new_n(&c->d->arena, struct diag_row, f->nrows + 1);
	const char *end =
		f->message && str_starts(f->message, input) ? strstr(f->message, unfit) : NULL;

	copy.slot = f->slot ? fmt(c->d, "reference, read as %s", f->slot) : "reference";
	const char *option = f->hint ? strstr(f->hint, "--input ") : NULL;
	if (option)
		copy.hint = fmt(c->d, "%.*s--expect %s", (int)(option - f->hint), f->hint,
				option + strlen("--input "));
	if (!end)
		return copy;
	copy.slot = NULL;
	copy.message =
		fmt(c->d, "the reference does not fit output %.*s; nothing was compared",
		    (int)(end - f->message - (int)strlen("input ")), f->message + strlen("input "));
	for (size_t i = 0; i < f->nrows; i++) {
		row[i] = f->rows[i];
		if (!strcmp(row[i].label, "model expects"))
			row[i].label = "the output is";
		if (!strcmp(row[i].label, "try") && !str_starts(row[i].text, "--input"))
			row[i].text =
				"a reference that was made from the same inputs; --input, --shape and --dim say "
				"of which shape they are";
		else if (!strcmp(row[i].label, "try"))
			row[i].text = fmt(c->d, "--expect%s", row[i].text + strlen("--input"));
	}
	copy.rows = row;
	return copy;
}

/*
 * Reads the files of --expect as the inputs of m. Findings about these files are reworded, because the files are
 * references, not inputs.
 */
static int read_as_inputs(struct check_context *c, struct references *r, struct model *m)
{
	const struct input_request request = {.input = r->texts, .strict = true};
	struct diag d = {0};
	int err = 0;

	r->files = input_plan(m, &request, &d);
	if (!r->files || input_read(r->files, &d))
		err = d.last ? -(int)d.last->code : -E_INPUT_OPEN;
	for (struct finding *f = d.first; f; f = f->next) {
		struct finding copy = of_reference(c, f);
		diag_add(c->d, &copy);
	}
	diag_free(&d);
	return err;
}

/* Whether the text is NAME=FILE with some name, and not a file, perhaps with keys. */
static bool names_another(const char *text)
{
	return text[strcspn(text, "=,/.")] == '=' && access(text, F_OK) != 0;
}

/* Appends the .npy files of the folder that are named after outputs. Returns 0 or -code. */
static int add_folder(struct check_context *c, const struct graph *g, const char *folder,
		      struct text *to, int64_t *n)
{
	const int64_t before = *n;
	const char *name = "", *path;

	for (uint32_t k = 0; k < g->nout; k++) {
		name = arena_printf(&c->arena, "%s.npy", io_file_name(&c->arena, g->out_name[k]));
		path = path_join(&c->arena, folder, name);
		if (access(path, F_OK) != 0)
			continue;
		const char *text = arena_printf(&c->arena, "%s=%s", g->out_name[k], path);
		to[(*n)++] = (struct text){text, strlen(text)};
	}
	if (*n > before)
		return 0;
	return FAIL(c->d, E_INPUT_OPEN,
		    .message = fmt(c->d, "--expect %s: no file in this folder is named after an output",
				   folder),
		    .expected = fmt(c->d, "%s, as infer run -o %s writes it", name, folder));
}

/* Sets r->texts: a folder, as infer run -o writes it, stands for the files of outputs in it. Returns 0 or -code. */
static int expand_folders(struct check_context *c, const struct graph *g, struct references *r)
{
	const struct texts *e = &c->options->expect;
	struct text *to = arena_new_n(&c->arena, struct text, (size_t)e->n * (g->nout + 1) + 1);
	int err = 0;

	r->texts.v = to;
	for (int64_t i = 0; i < e->n && !err; i++) {
		if (path_is_folder(e->v[i].s))
			err = add_folder(c, g, e->v[i].s, to, &r->texts.n);
		else
			to[r->texts.n++] = e->v[i];
	}
	return err;
}

static int read_expected(struct check_context *c, struct references *r)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct texts *e = &r->texts;

	int err = expand_folders(c, g, r);
	r->v = arena_new_n(&c->arena, struct reference, (size_t)e->n + 1);

	for (int64_t i = 0; i < e->n && !err; i++) {
		int64_t k = named_output(g, e->v[i].s);
		if (k < 0 && g->nout == 1 && !names_another(e->v[i].s))
			k = 0;
		if (k < 0)
			return FAIL(c->d, E_INPUT_NAME,
				    .message = fmt(c->d, "--expect %s names no output", e->v[i].s),
				    .expected = fmt(c->d, "NAME=FILE with a NAME of %s",
						    output_names(c, g)),
				    .actual = fmt(c->d, "'%s'", e->v[i].s));
		if (!c->out[k])
			return FAIL(c->d, E_INPUT_NAME, .slot = g->out_name[k],
				    .message = "the output has no value");
		const char *file = e->v[i].s;
		file += named_output(g, file) < 0 ? 0 : strlen(g->out_name[k]) + 1;
		r->v[r->n++] = (struct reference){(uint32_t)k, file, NULL};
	}
	err = err ? err : read_as_inputs(c, r, outputs_as_inputs(c, r));
	for (uint32_t i = 0; i < r->n && !err; i++)
		r->v[i].want = input_tensors(r->files)[i];
	return err;
}

/* Reads the references at the first call, as each output that looks wrong asks for them. */
static const struct references *read_references(struct check_context *c)
{
	struct references *r = c->references;
	struct diag *all = c->d;

	if (r)
		return r;
	r = c->references = arena_new(&c->arena, struct references);
	r->v = arena_new_n(&c->arena, struct reference, (size_t)c->nout + 1);
	c->d = &r->told;
	r->err = c->options->expect.n ? read_expected(c, r) : read_data_set(c, r);
	c->d = all;
	return r;
}

void references_free(struct check_context *c)
{
	if (!c->references)
		return;
	input_free(c->references->files);
	diag_free(&c->references->told);
}

/* ---- comparing -------------------------------------------------------------------------------- */

static const char *element_index(struct diag *d, const struct shape *s, int64_t at)
{
	int64_t index[MAX_RANK];
	struct str b = {.arena = &d->arena};

	for (int i = s->rank - 1; i >= 0; i--) {
		index[i] = s->dim[i] ? at % s->dim[i] : 0;
		at = s->dim[i] ? at / s->dim[i] : 0;
	}
	for (int i = 0; i < s->rank; i++)
		str_addf(&b, "%s%" PRId64, i ? "," : "[", index[i]);
	return s->rank > 0 ? fmt(d, "%s]", str_get(&b)) : "[]";
}

/* Returns the text of an element: a string in quotes, all digits of an integer, or the number, which the caller has. */
static const char *element_text(struct diag *d, const struct tensor *t, int64_t at, double number)
{
	size_t n = 0;

	if (t && T_BIT(tensor_dtype(t)) & T_INTS && tensor_dtype(t) != DT_U64)
		return fmt(d, "%" PRId64, elem_i64(tensor_dtype(t), t->data, at));
	if (!t || tensor_dtype(t) != DT_STRING)
		return fmt(d, "%.9g", number);
	const char *s = tensor_string(t, at, &n);
	return fmt(d, "'%.*s'%s", n > 60 ? 60 : (int)n, n ? s : "", n > 60 ? "..." : "");
}

/*
 * Writes the place of element `at` of the tensor `in` within t, which may be a sequence or a map, as "[1]['cat']". Returns false
 * if t does not hold `in`.
 */
static bool write_place(struct diag *d, struct str *b, const struct tensor *t,
			const struct tensor *in, int64_t at)
{
	if (t == in) {
		str_add(b, element_index(d, &t->shape, at));
		return true;
	}
	if (t->type.kind == V_MAP && t->nitems == 2 && (in == t->items[0] || in == t->items[1])) {
		enum dtype key = tensor_dtype(t->items[0]);
		double number = key == DT_STRING ? 0 : elem_f64(key, t->items[0]->data, at);
		if (in == t->items[0])
			str_addf(b, "%skey %" PRId64, b->n ? " " : "", at);
		else
			str_addf(b, "[%s]", element_text(d, t->items[0], at, number));
		return true;
	}
	size_t before = b->n;
	for (size_t i = 0; t->type.kind != V_TENSOR && i < t->nitems; i++) {
		if (t->type.kind == V_SEQUENCE)
			str_addf(b, "[%zu]", i);
		if (write_place(d, b, t->items[i], in, at))
			return true;
		b->n = before;
		if (b->s)
			b->s[before] = '\0';
	}
	return false;
}

static const char *place_of(struct diag *d, const struct reference *r, struct tensor_pair in,
			    int64_t at)
{
	struct str b = {.arena = &d->arena};

	return in.want && write_place(d, &b, r->want, in.want, at) ? str_get(&b) : "[]";
}

static bool is_within_tolerance(const struct check_options *o, const struct difference *f)
{
	if (!f->same_type || !f->same_shape)
		return false;
	switch (o->metric) {
	case METRIC_COSINE: return !f->odd && difference_cosine(f) <= o->rtol;
	case METRIC_L2: return !f->odd && difference_l2(f) <= o->rtol;
	default: return !f->beyond;
	}
}

/* Returns the tolerance of single elements. --atol alone allows no relative difference, as with pytest.approx(). */
static struct tolerance element_tolerance(const struct check_options *o)
{
	return (struct tolerance){o->atol_alone && o->metric == METRIC_MAXABS ? 0 : o->rtol, o->atol};
}

static const char *why_no_rtol(const struct check_options *o, const struct tolerance *t)
{
	return o->atol_alone && t->rtol == 0 ? " (as --atol is given alone)" : "";
}

/*
 * Fails if the tolerance is so wide that an output of zeros would pass for this reference, because such a tolerance
 * would accept any fault.
 */
static int check_tolerance(struct check_context *c, const struct reference *r)
{
	const struct check_options *o = c->options;
	const struct tolerance t = element_tolerance(o);
	struct difference f;

	if (r->want->type.kind != V_TENSOR || tensor_dtype(r->want) == DT_STRING)
		return 0;
	struct tensor zeros = *r->want;
	zeros.data = mem_zalloc(zeros.bytes ? zeros.bytes : 1, MEM_STAGING);
	if (!zeros.data)
		return FAIL(c->d, E_MEMORY);
	(void)compare_tensors(&zeros, r->want, t, &f);
	mem_free(zeros.data);
	if (f.max_want == 0 || !f.count || !is_within_tolerance(o, &f))
		return 0;
	return FAIL(c->d, E_TOLERANCE, .slot = r->file,
		    .message = fmt(c->d,
				   "with rtol %g and atol %g even an output of zeros would pass: the "
				   "largest element of the reference is %.4g",
				   t.rtol, t.atol, f.max_want),
		    .hint = fmt(c->d, "give --rtol below 1 and --atol well below %.2g", f.max_want));
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double *sorted_elements(const struct tensor *t, int64_t n)
{
	double *v = malloc((size_t)n * sizeof(*v));

	for (int64_t i = 0; v && i < n; i++)
		v[i] = elem_f64(tensor_dtype(t), t->data, i);
	if (v)
		qsort(v, (size_t)n, sizeof(*v), compare_doubles);
	return v;
}

/* Whether both tensors have the same numbers in different orders. */
static bool is_permutation(const struct tensor *got, const struct tensor *want,
			   const struct tolerance *t)
{
	int64_t n = tensor_count(want);
	double *a, *b;
	bool same = true;

	if (n < 4 || n > 1 << 22 || tensor_count(got) != n)
		return false;
	a = sorted_elements(got, n);
	b = sorted_elements(want, n);
	for (int64_t i = 0; a && b && i < n && same; i++)
		same = fabs(a[i] - b[i]) <= t->atol + t->rtol * fabs(b[i]);
	same = same && a && b && a[0] != a[n - 1];
	free(a);
	free(b);
	return same;
}

/* Whether inputs were random without --random, so that the reference was surely made from other inputs. */
static bool has_made_up_inputs(const struct check_context *c)
{
	for (uint32_t i = 0; c->inputs && !c->request->random.n && i < input_count(c->inputs); i++)
		if (input_info(c->inputs, i)->made_up)
			return true;
	return false;
}

/* Returns a likely cause of the difference, judged by its pattern, or NULL if the pattern is not known. */
static const char *likely_cause(struct check_context *c, const struct tensor *got,
				const struct tensor *want, const struct difference *f,
				const struct tolerance *t)
{
	struct value_stats s = value_stats(got);
	double factor = f->norm_want > 0 ? f->dot / f->norm_want : 0;

	if (!s.number)
		return NULL;
	if (has_made_up_inputs(c))
		return "other inputs: they were made up; give those of the reference by --input NAME=FILE";
	if (s.nan || s.inf)
		return "the output is not finite: --nan finds the first node";
	if (f->nan_want)
		return "the reference is not finite: what wrote it has computed NaN, or the file is another one";
	if (s.zero == s.count && s.count)
		return "the output is all 0: --zero and --compare find the node";
	if (is_permutation(got, want, t))
		return "the same numbers in another order: a layout (NHWC for NCHW), a transposed or reversed axis";
	if (f->norm_want > 0 && difference_cosine(f) < 1e-6 && fabs(factor - 1) > 1e-3)
		return fmt(c->d,
			   "the same up to a factor of %.6g: a scale is missing or applied twice",
			   factor);
	return NULL;
}

static const char *describe_metrics(struct check_context *c, const struct difference *f)
{
	struct arena *a = &c->d->arena;

	if (!f->odd)
		return fmt(c->d, "max diff %.4g, cosine distance %.3g, l2 %.3g", f->max_abs,
			   difference_cosine(f), difference_l2(f));
	const char *odd =
		f->nan_got + f->nan_want
			? fmt(c->d, "NaN in %s of the output and %s of the reference alone",
			      str_many(a, (uint64_t)f->nan_got, "element"), str_count(a, f->nan_want))
			: fmt(c->d, "%s infinite on one side",
			      str_many(a, (uint64_t)f->odd, "element"));
	if (f->norm_got == 0 && f->norm_want == 0)
		return odd;
	return fmt(c->d, "%s; of the others: max diff %.4g, cosine distance %.3g, l2 %.3g", odd,
		   f->max_abs, difference_cosine(f), difference_l2(f));
}

/*
 * Whether the outputs agree as closely as rounding lets them, beside their largest value: what is beyond the tolerance then
 * are elements near zero, whose relative difference says nothing.
 */
static bool is_rounding(struct check_context *c, const struct difference *f, const struct reference *r)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor *got = c->out[r->output];
	enum dtype own = tensor_dtype(got),
		   t = coarser_precision(own, path_precisions(&c->arena, g)[g->out[r->output]]);
	double limit = t == DT_F16 ? 4e-3 : t == DT_BF16 ? 3e-2 : 1e-5;

	return got->type.kind == V_TENSOR && T_BIT(own) & T_FLOATS_BF && f->least_atol > 0 &&
	       f->max_abs <= limit * f->max_want;
}

/* Returns the tolerance with one digit, rounded up, that lets every element pass: 2e-06 for 1.23e-06. */
static double rounded_up(double v)
{
	double digit = pow(10, floor(log10(v)));

	return ceil(v / digit) * digit;
}

static void report_difference(struct check_context *c, const struct reference *r,
			      const struct difference *f)
{
	const struct check_options *o = c->options;
	const struct tensor *got = c->out[r->output];
	const struct graph *g = session_model(c->session)->graph;
	const struct tolerance t = element_tolerance(o);
	struct diag_row rows[8];
	struct diag *d = c->d;
	size_t n = 0;

	/* the metrics of whole outputs allow no element anything */
	bool each = o->metric == METRIC_MAXABS;
	int64_t worst = each ? f->farthest : f->worst;
	double is = each ? f->farthest_got : f->worst_got;
	double want = each ? f->farthest_want : f->worst_want;
	struct tensor_pair in = each ? f->farthest_in : f->worst_in;
	if (worst >= 0 && !(each && f->least_atol <= o->atol))
		rows[n++] = (struct diag_row){
			"worst",
			fmt(d, "element %s: expected %s, got %s, difference %.3g%s",
			    place_of(d, r, in, worst), element_text(d, in.want, worst, want),
			    element_text(d, in.got, worst, is), fabs(is - want),
			    each ? fmt(d, " (allowed %.3g)", t.atol + t.rtol * fabs(want)) : "")};
	if (f->first >= 0)
		rows[n++] = (struct diag_row){
			"first", fmt(d, "element %s: expected %s, got %s",
				     place_of(d, r, f->first_in, f->first),
				     element_text(d, f->first_in.want, f->first, f->want),
				     element_text(d, f->first_in.got, f->first, f->got))};
	rows[n++] = (struct diag_row){
		"beyond", fmt(d, "%s of %s (%.3g %%) beyond rtol %g%s, atol %g",
			      str_count(&d->arena, f->beyond),
			      str_many(&d->arena, (uint64_t)f->count, "element"),
			      f->count ? 100.0 * (double)f->beyond / (double)f->count : 0, t.rtol,
			      why_no_rtol(o, &t), t.atol)};
	if (got->type.kind != V_TENSOR || tensor_dtype(got) != DT_STRING)
		rows[n++] = (struct diag_row){"metrics", describe_metrics(c, f)};
	const char *why = likely_cause(c, got, r->want, f, &t);
	if (why)
		rows[n++] = (struct diag_row){"likely", why};
	bool rounding = each && is_rounding(c, f, r);
	if (rounding && !why)
		rows[n++] = (struct diag_row){
			"likely",
			fmt(d, "rounding: no difference is above %.2g of the largest value, %.4g; small elements are beyond rtol alone",
			    f->max_abs / f->max_want, f->max_want)};
	if (rounding)
		rows[n++] = (struct diag_row){
			"try", fmt(d, "--rtol %g --atol %.1g, which lets all elements pass", t.rtol,
				   rounded_up(f->least_atol))};
	else if (!o->compare)
		rows[n++] = (struct diag_row){
			"try",
			"--compare none, a second run without optimizations: if it differs from the first, the node is named"};
	FAIL(d, E_COMPARE,
	     .slot = fmt(d, "output '%s' %s %s", g->out_name[r->output],
			 type_str(&d->arena, got->type),
			 got->type.kind == V_TENSOR ? shape_str(&d->arena, &got->shape, NULL)
						    : fmt(d, "of %zu", got->nitems)),
	     .message = fmt(d, "differs from %s", r->file), .rows = rows, .nrows = n);
}

static int compare_one(struct check_context *c, const struct reference *r, double *most)
{
	const struct tolerance t = element_tolerance(c->options);
	const struct tensor *got = c->out[r->output];
	const struct graph *g = session_model(c->session)->graph;
	struct difference f;
	int err = check_tolerance(c, r);

	if (err)
		return err;
	(void)compare_tensors(got, r->want, t, &f);
	if (f.same_type && f.same_shape) {
		if (!is_within_tolerance(c->options, &f))
			report_difference(c, r, &f);
		if (f.max_abs > *most)
			*most = f.max_abs;
		return 0;
	}
	FAIL(c->d, E_COMPARE, .slot = fmt(c->d, "output '%s'", g->out_name[r->output]),
	     .message = fmt(c->d, "%s has another type or shape", r->file),
	     .expected = fmt(c->d, "%s %s", type_str(&c->d->arena, r->want->type),
			     shape_str(&c->d->arena, &r->want->shape, NULL)),
	     .actual = fmt(c->d, "%s %s", type_str(&c->d->arena, got->type),
			   shape_str(&c->d->arena, &got->shape, NULL)));
	return 0;
}

static int run_reference(struct check_context *c)
{
	const struct check_options *o = c->options;
	const struct tolerance t = element_tolerance(o);
	size_t errors = c->d->errors;
	double most = 0;
	int err = check_rtol(c);

	if (err)
		return err;
	const struct references *r = read_references(c);
	check_merge(c->d, &r->told);
	err = r->err;
	for (uint32_t i = 0; i < r->n && !err; i++)
		err = compare_one(c, &r->v[i], &most);
	if (!err && c->d->errors == errors)
		check_say(c, "%" PRIu32 " output%s within rtol %g%s, atol %g; max diff %.3g", r->n,
			  r->n == 1 ? "" : "s", t.rtol, why_no_rtol(o, &t), t.atol, most);
	return err;
}

static bool has_output_files(const struct check_context *c)
{
	struct arena a = {0};
	bool any = !access(path_join(&a, c->request->data_set, "output_0.pb"), F_OK);

	arena_free(&a);
	return any;
}

static bool has_references(const struct check_context *c, const char **why)
{
	if (c->options->expect.n)
		return true;
	if (!c->request->data_set)
		return false;
	if (!has_output_files(c))
		*why = "the data set has no output_0.pb";
	return has_output_files(c);
}

static bool is_confirmed(struct check_context *c, uint32_t k)
{
	const struct references *r = read_references(c);
	bool same = false;

	for (uint32_t i = 0; i < r->n && !r->err; i++) {
		struct difference f;
		if (r->v[i].output != k)
			continue;
		(void)compare_tensors(c->out[k], r->v[i].want, element_tolerance(c->options), &f);
		same = f.same_type && f.same_shape && is_within_tolerance(c->options, &f);
		struct value_stats got = value_stats(c->out[k]), want = value_stats(r->v[i].want);
		same &= got.nan == want.nan && got.inf == want.inf;
		if (!got.nan && !got.inf)
			same &= want.zero == want.count;
	}
	return same;
}

bool reference_confirms(struct check_context *c, uint32_t k)
{
	const char *why;

	return has_references(c, &why) && is_confirmed(c, k);
}

const struct check check_reference = {
	.name = "reference",
	.what = "outputs against reference outputs",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.applies = has_references,
	.run = run_reference,
};
