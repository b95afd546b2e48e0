/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --layout: whether a picture's bytes are in the order that the model reads them in. Two kinds of evidence: how
 * smoothly the bytes read in either order (pictures are smooth, whatever the model), and how sure the
 * model is of its answer for the bytes as given, with their axes in the other order, with
 * their channels reversed. Of the channels' order only the second kind tells, and it is weak: that is said.
 */
#include "check/check.h"
#include "check/step_value.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SMALLEST = 8, VARIANTS = 4 };
/* The other order reads so much smoother. */
#define SURE	1.6
#define SUSPECT 1.25
/* How much surer of its answer the model must be for the order of the channels to be doubted. */
#define GAIN 0.15

/* An input that may be a picture, as the model reads it. */
struct picture {
	uint32_t input;
	const struct tensor *t;
	bool last; /* channels last */
	int64_t n, c, h, w;
};

struct smooth {
	double model, other; /* mean step between neighbours, in the model's order and in the other */
	double size;	     /* mean distance from the mean */
};

struct answer {
	bool known;
	double top, entropy; /* mean over the rows: of the likeliest class; of 1 where nothing is known */
};

static const char *const variant_names[VARIANTS] = {"as given", "other axes", "channels reversed",
						    "both"};

static bool as_picture(const struct tensor *t, struct picture *p)
{
	const struct shape *s = &t->shape;
	int at = s->rank - 3;

	if (t->type.kind != V_TENSOR || !(T_BIT(tensor_dtype(t)) & T_NUMERIC_BF) || at < 0 || at > 1)
		return false;
	int64_t a = s->dim[at], b = s->dim[at + 1], c = s->dim[at + 2];
	p->t = t;
	p->n = at ? s->dim[0] : 1;
	p->last = !(a == 3 || a == 4) && (c == 3 || c == 4);
	p->c = p->last ? c : a;
	p->h = p->last ? a : b;
	p->w = p->last ? b : c;
	return (p->c == 3 || p->c == 4) && p->h >= SMALLEST && p->w >= SMALLEST && p->n > 0;
}

/* Offset of a pixel's channel in one picture. */
static int64_t offset(const struct picture *p, bool last, int64_t c, int64_t h, int64_t w)
{
	return last ? (h * p->w + w) * p->c + c : (c * p->h + h) * p->w + w;
}

/* Mean step to the right and down, the bytes read channels last or first. */
static double steps(const struct picture *p, bool last)
{
	enum dtype t = tensor_dtype(p->t);
	int64_t pixels = p->h * p->w, stride = pixels / 65536 + 1;
	double sum = 0;
	int64_t count = 0;

	for (int64_t k = 0; k < pixels; k += stride) {
		int64_t h = k / p->w, w = k % p->w;
		if (h + 1 >= p->h || w + 1 >= p->w)
			continue;
		for (int64_t c = 0; c < p->c; c++) {
			double here = elem_f64(t, p->t->data, offset(p, last, c, h, w));
			sum += fabs(elem_f64(t, p->t->data, offset(p, last, c, h, w + 1)) - here);
			sum += fabs(elem_f64(t, p->t->data, offset(p, last, c, h + 1, w)) - here);
			count += 2;
		}
	}
	return count ? sum / (double)count : 0;
}

static struct smooth smoothness(const struct picture *p)
{
	struct smooth s = {.model = steps(p, p->last), .other = steps(p, !p->last)};
	enum dtype t = tensor_dtype(p->t);
	int64_t n = p->c * p->h * p->w;
	double mean = 0;

	for (int64_t i = 0; i < n; i++)
		mean += elem_f64(t, p->t->data, i) / (double)n;
	for (int64_t i = 0; i < n; i++)
		s.size += fabs(elem_f64(t, p->t->data, i) - mean) / (double)n;
	return s;
}

/* ---- variants --------------------------------------------------------------------------------- */

/* The bytes as they would have to lie, were they in the other order of axes, or of channels. */
static struct tensor *make_variant(struct check_context *c, const struct picture *p, bool axes,
				   bool reversed)
{
	struct tensor *x = tensor_copy(&c->arena, p->t);
	enum dtype t = tensor_dtype(p->t);
	int64_t one = p->c * p->h * p->w;

	for (int64_t n = 0; n < p->n; n++)
		for (int64_t k = 0; k < p->c; k++)
			for (int64_t h = 0; h < p->h; h++)
				for (int64_t w = 0; w < p->w; w++) {
					int64_t from = reversed && k < 3 ? 2 - k : k;
					elem_set_f64(
						t, x->data, n * one + offset(p, p->last, k, h, w),
						elem_f64(t, p->t->data,
							 n * one + offset(p, axes ? !p->last : p->last,
									  from, h, w)));
				}
	return x;
}

/* One row of classes: of scores, their softmax. */
static void answer_row(struct answer *a, const struct tensor *t, int64_t first, int64_t step,
		       int64_t k)
{
	enum dtype type = tensor_dtype(t);
	double most = -INFINITY, least = INFINITY, sum = 0, total = 0, entropy = 0, top = 0;

	for (int64_t i = 0; i < k; i++) {
		double v = elem_f64(type, t->data, first + i * step);
		most = fmax(most, v);
		least = fmin(least, v);
		sum += v;
	}
	bool probabilities = least >= 0 && fabs(sum - 1) < 1e-2;
	for (int64_t i = 0; i < k && !probabilities; i++)
		total += exp(elem_f64(type, t->data, first + i * step) - most);
	for (int64_t i = 0; i < k; i++) {
		double v = elem_f64(type, t->data, first + i * step);
		double q = probabilities ? v : exp(v - most) / total;
		entropy -= q > 0 ? q * log(q) : 0;
		top = fmax(top, q);
	}
	a->top += top;
	a->entropy += entropy / log((double)k);
}

/* A map of one channel: each element is sure of itself or not. */
static void answer_map(struct answer *a, const struct tensor *t)
{
	int64_t n = tensor_count(t);

	for (int64_t i = 0; i < n; i++) {
		double q = elem_f64(tensor_dtype(t), t->data, i);
		if (q < 0 || q > 1)
			q = 1 / (1 + exp(-q));
		a->top += fmax(q, 1 - q) / (double)n;
		if (q > 0 && q < 1)
			a->entropy -= (q * log2(q) + (1 - q) * log2(1 - q)) / (double)n;
	}
}

/* How sure the model is, by its first output of floats. */
static struct answer answer_of(const struct tensor *const *out, uint32_t n)
{
	struct answer a = {0};
	const struct tensor *t = NULL;

	for (uint32_t i = 0; i < n && !t; i++)
		if (out[i] && out[i]->type.kind == V_TENSOR &&
		    (T_BIT(tensor_dtype(out[i])) & T_FLOATS_BF) && tensor_count(out[i]) > 1)
			t = out[i];
	if (!t)
		return a;
	const struct shape *s = &t->shape;
	int axis = s->rank == 4 ? 1 : s->rank - 1;
	int64_t k = s->dim[axis], step = 1;
	for (int i = axis + 1; i < s->rank; i++)
		step *= s->dim[i];
	a.known = true;
	if (k < 2) {
		answer_map(&a, t);
		return a;
	}
	int64_t rows = tensor_count(t) / k;
	for (int64_t r = 0; r < rows; r++)
		answer_row(&a, t, r / step * step * k + r % step, step, k);
	a.top /= (double)rows;
	a.entropy /= (double)rows;
	a.known = isfinite(a.top) && isfinite(a.entropy);
	return a;
}

static int run_variants(struct check_context *c, const struct picture *p, struct answer *answers)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **in = arena_new_n(&c->arena, const struct tensor *, g->nin + 1);
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	int err = 0;

	memcpy(in, c->in, g->nin * sizeof(*in));
	for (int v = 0; v < VARIANTS && !err; v++) {
		in[p->input] = v ? make_variant(c, p, v & 1, v & 2) : p->t;
		err = check_session_run(c, c->session, in, out, NULL);
		if (!err)
			answers[v] = answer_of(out, g->nout);
	}
	return err;
}

/* ---- the verdict ------------------------------------------------------------------------------ */

enum { ROWS = 12 };

static const char *say_means(struct check_context *c, const struct picture *p)
{
	const char *text = "";
	enum dtype t = tensor_dtype(p->t);

	for (int64_t k = 0; k < p->c; k++) {
		double mean = 0, square = 0, n = (double)(p->h * p->w);
		for (int64_t h = 0; h < p->h; h++)
			for (int64_t w = 0; w < p->w; w++) {
				double v = elem_f64(t, p->t->data, offset(p, p->last, k, h, w));
				mean += v / n;
				square += v * v / n;
			}
		text = fmt(c->d, "%s%s%.3g +- %.3g", text, k ? ", " : "", mean,
			   sqrt(fmax(square - mean * mean, 0)));
	}
	return text;
}

/* Weights of the first convolution that reads the input, by channel; NULL: none does. */
static const char *say_weights(struct check_context *c, const struct picture *p)
{
	const struct graph *g = c->file->graph;
	uint32_t v = p->input < g->nin ? g->in[p->input] : NO_VALUE;
	const char *text = "";

	for (int depth = 0; depth < 8 && v != NO_VALUE; depth++) {
		const struct value *x = g->value[v];
		const struct node *n = x->nusers ? g->node[x->users[0]] : NULL;
		if (!n || !n->nout)
			return NULL;
		const struct value *w =
			n->nin > 1 && n->in[1] != NO_VALUE ? g->value[n->in[1]] : NULL;
		if (strcmp(n->type, "Conv") != 0 || !w || !w->init || w->init->shape.rank != 4 ||
		    w->init->shape.dim[1] != p->c) {
			v = n->out[0];
			continue;
		}
		const struct shape *s = &w->init->shape;
		int64_t inner = s->dim[2] * s->dim[3];
		for (int64_t k = 0; k < p->c; k++) {
			double sum = 0;
			for (int64_t m = 0; m < s->dim[0]; m++)
				for (int64_t i = 0; i < inner; i++)
					sum += pow(elem_f64(tensor_dtype(w->init), w->init->data,
							    (m * p->c + k) * inner + i),
						   2);
			text = fmt(c->d, "%s%s%.3g", text, k ? ", " : "", sqrt(sum));
		}
		return fmt(c->d, "'%s' weighs its channels %s", n->origin->name, text);
	}
	return NULL;
}

static size_t say_evidence(struct check_context *c, const struct picture *p, const struct smooth *s,
			   const struct answer *a, struct diag_row *rows)
{
	struct diag *d = c->d;
	size_t n = 0;

	rows[n++] = (struct diag_row){
		"neighbours", fmt(d, "differ by %.3g read as %s, by %.3g read as %s", s->model,
				  p->last ? "NHWC" : "NCHW", s->other, p->last ? "NCHW" : "NHWC")};
	for (int v = 0; v < VARIANTS; v++)
		if (a[v].known)
			rows[n++] = (struct diag_row){
				variant_names[v], fmt(d, "the model is %.1f %% sure, entropy %.3f of 1",
						      100 * a[v].top, a[v].entropy)};
	rows[n++] = (struct diag_row){"channels", say_means(c, p)};
	const char *weights = say_weights(c, p);
	if (weights)
		rows[n++] = (struct diag_row){"weights", weights};
	return n;
}

static const char *slot_of(struct check_context *c, const struct picture *p)
{
	const struct graph *g = session_model(c->session)->graph;

	return fmt(c->d, "input '%s' %s", g->value[g->in[p->input]]->name,
		   shape_str(&c->d->arena, &p->t->shape, NULL));
}

static void say_layout(struct check_context *c, const struct picture *p, const struct smooth *s,
		       const struct answer *a)
{
	struct diag_row rows[ROWS];
	double ratio = s->other > 0 ? s->model / s->other : INFINITY;
	bool agrees = a[0].known && a[1].known && a[1].top > a[0].top;
	const char *reads = p->last ? "NHWC" : "NCHW", *seems = p->last ? "NCHW" : "NHWC";
	size_t n = say_evidence(c, p, s, a, rows);

	rows[n++] =
		(struct diag_row){"doubt", agrees ? "both the bytes and the model's answers say so"
						  : "the bytes say so, the model's answers do not"};
	rows[n++] = (struct diag_row){
		"try", fmt(c->d, "--input '%s=FILE,layout=%s'",
			   session_model(c->session)
				   ->graph->value[session_model(c->session)->graph->in[p->input]]
				   ->name,
			   p->last ? "chw" : "hwc")};
	struct finding f = {.code = E_INPUT_LAYOUT,
			    .severity = ratio >= SURE ? SEV_ERROR : SEV_WARNING,
			    .slot = slot_of(c, p),
			    .message = fmt(c->d,
					   "the model reads %s, but the bytes look like %s: so read, "
					   "neighbours are %.1f times as alike",
					   reads, seems, ratio),
			    .rows = rows,
			    .nrows = n,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(c->d, &f);
}

/* Reversed channels make the model clearly surer: a suspicion, no more. */
static bool say_order(struct check_context *c, const struct picture *p, const struct smooth *s,
		      const struct answer *a)
{
	struct diag_row rows[ROWS];

	if (!a[0].known || !a[2].known || a[2].top < a[0].top + GAIN ||
	    a[2].entropy > 0.7 * a[0].entropy)
		return false;
	size_t n = say_evidence(c, p, s, a, rows);
	rows[n++] = (struct diag_row){"doubt",
				      "one picture only: a model may be surer of what is wrong"};
	rows[n++] = (struct diag_row){
		"try", "order=bgr (or order=rgb) behind the file's name, with several pictures"};
	WARN(c->d, E_INPUT_ORDER, .slot = slot_of(c, p),
	     .message = fmt(c->d,
			    "with its channels reversed the model is %.1f %% sure, as given %.1f %%",
			    100 * a[2].top, 100 * a[0].top),
	     .rows = rows, .nrows = n);
	return true;
}

static int look_at(struct check_context *c, const struct picture *p)
{
	struct smooth s = smoothness(p);
	struct answer a[VARIANTS] = {{0}};
	int err = run_variants(c, p, a);

	if (err)
		return err;
	/* neighbours as far apart as any two elements: noise */
	bool noise = s.size == 0 || (s.model > 1.1 * s.size && s.other > 1.1 * s.size);
	if (!noise && s.model > SUSPECT * s.other)
		say_layout(c, p, &s, a);
	else if (say_order(c, p, &s, a))
		check_say(c, "the axes look right; the channels may be reversed");
	else if (noise)
		check_say(c, "the input is no picture: nothing can be said");
	else
		check_say(c, "reads %.1f times as smoothly as the other way; %s",
			  s.model > 0 ? s.other / s.model : INFINITY,
			  a[0].known ? "the model is no surer of other channels"
				     : "no answer to judge by");
	return 0;
}

static bool made_up(const struct check_context *c, uint32_t i)
{
	return c->inputs && input_info(c->inputs, i)->made_up;
}

static int run(struct check_context *c)
{
	const struct graph *g = session_model(c->session)->graph;
	bool any = false, random = false;
	int err = 0;

	for (uint32_t i = 0; i < g->nin && !err; i++) {
		struct picture p = {.input = i};
		if (!as_picture(c->in[i], &p))
			continue;
		if (made_up(c, i)) {
			random = true;
			continue;
		}
		any = true;
		err = look_at(c, &p);
	}
	if (!any)
		check_say(c, random ? "the picture is made up: give one with --input"
				    : "no input is a picture of several channels");
	return err;
}

static bool applies(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->layout || c->options->all;
}

const struct check check_layout = {
	.name = "layout",
	.what = "order of axes and channels of pictures",
	.need = NEED_OUTPUTS,
	.cost = COST_RUNS,
	.applies = applies,
	.run = run,
};
