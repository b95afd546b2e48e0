/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs against references: output_K.pb of --data-set, files of --expect. */
#include "base/file.h"
#include "base/str.h"
#include "check/check.h"
#include "check/step_value.h"
#include "ir/compare.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What an output should be. */
struct reference {
	uint32_t output;
	const char *file;
	const struct tensor *want;
};

struct references {
	struct reference *v;
	uint32_t n;
	struct input_set *files; /* that --expect names */
};

/* ---- reading ---------------------------------------------------------------------------------- */

static int read_data_set(struct check_context *c, struct references *r)
{
	const struct graph *g = session_model(c->session)->graph;

	for (uint32_t k = 0; k < c->nout; k++) {
		const char *name = arena_printf(&c->arena, "output_%" PRIu32 ".pb", k);
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

/* The output that the text names: the longest name followed by '=' or ':'; -1 where it names none. */
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

/* A model whose inputs are the outputs that files are given for: they are read as inputs are. */
static struct model *as_inputs(struct check_context *c, struct references *r)
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

/* Findings about files speak of inputs: here they are references. */
static int read_as_inputs(struct check_context *c, struct references *r, struct model *m)
{
	const struct input_request request = {.input = c->options->expect, .strict = true};
	struct diag d = {0};
	int err = 0;

	r->files = input_plan(m, &request, &d);
	if (!r->files || input_read(r->files, &d))
		err = d.last ? -(int)d.last->code : -E_INPUT_OPEN;
	for (struct finding *f = d.first; f; f = f->next) {
		struct finding copy = *f;
		copy.slot = fmt(c->d, "reference, read as %s", f->slot ? f->slot : "an input");
		diag_add(c->d, &copy);
	}
	diag_free(&d);
	return err;
}

static int read_expected(struct check_context *c, struct references *r)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct texts *e = &c->options->expect;

	for (int64_t i = 0; i < e->n; i++) {
		int64_t k = named_output(g, e->v[i].s);
		if (k < 0 && g->nout == 1)
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
		r->v[r->n++] = (struct reference){(uint32_t)k, e->v[i].s, NULL};
	}
	int err = read_as_inputs(c, r, as_inputs(c, r));
	for (uint32_t i = 0; i < r->n && !err; i++)
		r->v[i].want = input_tensors(r->files)[i];
	return err;
}

/* ---- comparing -------------------------------------------------------------------------------- */

static const char *place(struct diag *d, const struct shape *s, int64_t at)
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

static bool passes(const struct check_options *o, const struct difference *f)
{
	if (!f->same_type || !f->same_shape)
		return false;
	switch (o->metric) {
	case METRIC_COSINE: return difference_cosine(f) <= o->rtol;
	case METRIC_L2: return difference_l2(f) <= o->rtol;
	default: return !f->beyond;
	}
}

/* A tolerance that lets an output of zeros pass for this reference could not fail. */
static int check_tolerance(struct check_context *c, const struct reference *r)
{
	const struct check_options *o = c->options;
	const struct tolerance t = {o->rtol, o->atol};
	struct difference f;

	if (r->want->type.kind != V_TENSOR || tensor_dtype(r->want) == DT_STRING)
		return 0;
	struct tensor zeros = *r->want;
	zeros.data = mem_zalloc(zeros.bytes ? zeros.bytes : 1, MEM_STAGING);
	if (!zeros.data)
		return FAIL(c->d, E_MEMORY);
	(void)compare_tensors(&zeros, r->want, t, &f);
	mem_free(zeros.data);
	if (f.max_want == 0 || !f.count || !passes(o, &f))
		return 0;
	return FAIL(c->d, E_TOLERANCE, .slot = r->file,
		    .message = fmt(c->d,
				   "with rtol %g and atol %g an output of zeros would pass, too: the "
				   "reference's largest element is %.4g",
				   o->rtol, o->atol, f.max_want),
		    .hint = fmt(c->d, "give --rtol below 1 and --atol well below %.2g", f.max_want));
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double *sorted(const struct tensor *t, int64_t n)
{
	double *v = malloc((size_t)n * sizeof(*v));

	for (int64_t i = 0; v && i < n; i++)
		v[i] = elem_f64(tensor_dtype(t), t->data, i);
	if (v)
		qsort(v, (size_t)n, sizeof(*v), ascending);
	return v;
}

/* The same numbers in another order. */
static bool permuted(const struct tensor *got, const struct tensor *want, const struct tolerance *t)
{
	int64_t n = tensor_count(want);
	double *a, *b;
	bool same = true;

	if (n < 4 || n > 1 << 22 || tensor_count(got) != n)
		return false;
	a = sorted(got, n);
	b = sorted(want, n);
	for (int64_t i = 0; a && b && i < n && same; i++)
		same = fabs(a[i] - b[i]) <= t->atol + t->rtol * fabs(b[i]);
	same = same && a && b && a[0] != a[n - 1];
	free(a);
	free(b);
	return same;
}

/* What the difference looks like; NULL: like nothing in particular. */
static const char *cause(struct check_context *c, const struct tensor *got, const struct tensor *want,
			 const struct difference *f, const struct tolerance *t)
{
	struct value_stats s = value_stats(got);
	double factor = f->norm_want > 0 ? f->dot / f->norm_want : 0;

	if (!s.number)
		return NULL;
	if (s.nan || s.inf)
		return "the output is not finite: --nan finds the first node";
	if (s.zero == s.count && s.count)
		return "the output is all 0: --zero and --compare find the node";
	if (permuted(got, want, t))
		return "the same numbers in another order: a layout (NHWC for NCHW), a transposed or reversed axis";
	if (difference_cosine(f) < 1e-6 && fabs(factor - 1) > 1e-3)
		return fmt(c->d,
			   "the same up to a factor of %.6g: a scale is missing or applied twice",
			   factor);
	return NULL;
}

static const char *say_metric(struct check_context *c, const struct difference *f)
{
	return fmt(c->d, "max diff %.4g, cosine distance %.3g, l2 %.3g", f->max_abs,
		   difference_cosine(f), difference_l2(f));
}

static void say_difference(struct check_context *c, const struct reference *r,
			   const struct difference *f)
{
	const struct check_options *o = c->options;
	const struct tensor *got = c->out[r->output];
	const struct graph *g = session_model(c->session)->graph;
	const struct tolerance t = {o->rtol, o->atol};
	struct diag_row rows[8];
	struct diag *d = c->d;
	size_t n = 0;

	if (f->worst >= 0)
		rows[n++] = (struct diag_row){
			"worst",
			fmt(d, "element %s: expected %.9g, got %.9g, %.3g apart (allowed %.3g)",
			    place(d, &got->shape, f->worst), f->worst_want, f->worst_got,
			    f->max_abs, o->atol + o->rtol * fabs(f->worst_want))};
	if (f->first >= 0)
		rows[n++] = (struct diag_row){"first", fmt(d, "element %s: expected %.9g, got %.9g",
							   place(d, &got->shape, f->first), f->want,
							   f->got)};
	rows[n++] = (struct diag_row){
		"beyond",
		fmt(d, "%s of %s elements (%.2g %%) over rtol %g, atol %g",
		    str_count(&d->arena, f->beyond), str_count(&d->arena, f->count),
		    f->count ? 100.0 * (double)f->beyond / (double)f->count : 0, o->rtol, o->atol)};
	rows[n++] = (struct diag_row){"metrics", say_metric(c, f)};
	const char *why = cause(c, got, r->want, f, &t);
	if (why)
		rows[n++] = (struct diag_row){"likely", why};
	rows[n++] = (struct diag_row){"try",
				      "--compare none to see which node, if the inputs are right"};
	FAIL(d, E_COMPARE,
	     .slot = fmt(d, "output '%s' %s %s", g->out_name[r->output],
			 type_str(&d->arena, got->type), shape_str(&d->arena, &got->shape, NULL)),
	     .message = fmt(d, "differs from %s", r->file), .rows = rows, .nrows = n);
}

static int compare_one(struct check_context *c, const struct reference *r, double *most)
{
	const struct tolerance t = {c->options->rtol, c->options->atol};
	const struct tensor *got = c->out[r->output];
	const struct graph *g = session_model(c->session)->graph;
	struct difference f;
	int err = check_tolerance(c, r);

	if (err)
		return err;
	(void)compare_tensors(got, r->want, t, &f);
	if (f.same_type && f.same_shape) {
		if (!passes(c->options, &f))
			say_difference(c, r, &f);
		if (f.max_abs > *most)
			*most = f.max_abs;
		return 0;
	}
	FAIL(c->d, E_COMPARE, .slot = fmt(c->d, "output '%s'", g->out_name[r->output]),
	     .message = fmt(c->d, "%s is of another type or shape", r->file),
	     .expected = fmt(c->d, "%s %s", type_str(&c->d->arena, r->want->type),
			     shape_str(&c->d->arena, &r->want->shape, NULL)),
	     .actual = fmt(c->d, "%s %s", type_str(&c->d->arena, got->type),
			   shape_str(&c->d->arena, &got->shape, NULL)));
	return 0;
}

static int run(struct check_context *c)
{
	const struct check_options *o = c->options;
	struct references r = {0};
	size_t errors = c->d->errors;
	double most = 0;
	int err = check_rtol(c);

	if (err)
		return err;
	r.v = arena_new_n(&c->arena, struct reference, (size_t)o->expect.n + c->nout + 1);
	err = o->expect.n ? read_expected(c, &r) : read_data_set(c, &r);
	for (uint32_t i = 0; i < r.n && !err; i++)
		err = compare_one(c, &r.v[i], &most);
	if (!err && c->d->errors == errors)
		check_say(c, "%" PRIu32 " output%s within rtol %g, atol %g; max diff %.3g", r.n,
			  r.n == 1 ? "" : "s", o->rtol, o->atol, most);
	input_free(r.files);
	return err;
}

static bool has_outputs(const struct check_context *c)
{
	struct arena a = {0};
	bool any = !access(path_join(&a, c->request->data_set, "output_0.pb"), F_OK);

	arena_free(&a);
	return any;
}

static bool applies(const struct check_context *c, const char **why)
{
	if (c->options->expect.n)
		return true;
	if (!c->request->data_set)
		return false;
	if (!has_outputs(c))
		*why = "the data set has no output_0.pb";
	return has_outputs(c);
}

const struct check check_reference = {
	.name = "reference",
	.what = "outputs against references",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.applies = applies,
	.run = run,
};
