/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a picture's bytes are in the order in which the model reads them. There are two kinds of evidence.
 * Neighbouring pixels differ little in a picture, so the right order of axes (NCHW or NHWC) is the one in which
 * neighbours are alike; this does not depend on the model, costs little, and is always looked at if the user gives a
 * picture as bare numbers. And the model is likely to be more confident for the right order: with --layout it runs on
 * the bytes as given, with the other order of axes, and with reversed channels (RGB or BGR). Only the second kind shows
 * the order of channels, and as it is weak, the finding says so.
 */
#include "check/check.h"
#include "check/step_value.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MIN_SIDE = 8, VARIANTS = 4 };
/*
 * The ratio of the mean difference of neighbours in the model's order of axes to that in the other order. From
 * WARNING_RATIO on, a wrong order of axes is reported as a warning, from ERROR_RATIO on as an error.
 */
#define ERROR_RATIO   1.6
#define WARNING_RATIO 1.25
/* Neighbours in a picture differ by at most this part of what two elements anywhere differ by. */
#define MAX_ROUGHNESS 0.6
/* Reversed channels are reported if the probability of the best class rises by this much. */
#define MIN_CONFIDENCE_GAIN 0.15

/* An input that may be a picture, as the model reads it. */
struct picture {
	uint32_t input;
	const struct tensor *t;
	bool last; /* channels last */
	int64_t n, c, h, w;
};

struct smoothness {
	/* mean absolute difference of neighbours in the model's order of axes and in the other order */
	double model, other;
	double size; /* mean absolute difference from the mean of all elements */
};

struct confidence {
	bool known;
	/*
	 * means over all rows of classes: `top` is the best class's probability, `entropy` is 1 if all classes are
	 * equally likely
	 */
	double top, entropy;
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
	return (p->c == 3 || p->c == 4) && p->h >= MIN_SIDE && p->w >= MIN_SIDE && p->n > 0;
}

/* Returns the index of channel c of pixel (h, w) in one picture, with channels last or first. */
static int64_t element_offset(const struct picture *p, bool last, int64_t c, int64_t h, int64_t w)
{
	return last ? (h * p->w + w) * p->c + c : (c * p->h + h) * p->w + w;
}

/*
 * Returns the mean absolute difference between a pixel and its neighbours to the right and below, when the picture is
 * read with channels last or first.
 */
static double mean_step(const struct picture *p, bool last)
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
			double here = elem_f64(t, p->t->data, element_offset(p, last, c, h, w));
			sum += fabs(elem_f64(t, p->t->data, element_offset(p, last, c, h, w + 1)) -
				    here);
			sum += fabs(elem_f64(t, p->t->data, element_offset(p, last, c, h + 1, w)) -
				    here);
			count += 2;
		}
	}
	return count ? sum / (double)count : 0;
}

static struct smoothness measure_smoothness(const struct picture *p)
{
	struct smoothness s = {.model = mean_step(p, p->last), .other = mean_step(p, !p->last)};
	enum dtype t = tensor_dtype(p->t);
	/* an odd distance, so that rows and channels are all met */
	int64_t n = p->c * p->h * p->w, step = n / 65536 * 2 + 1, looks = (n + step - 1) / step;
	double mean = 0;

	for (int64_t i = 0; i < n; i += step)
		mean += elem_f64(t, p->t->data, i) / (double)looks;
	for (int64_t i = 0; i < n; i += step)
		s.size += fabs(elem_f64(t, p->t->data, i) - mean) / (double)looks;
	return s;
}

/* ---- variants --------------------------------------------------------------------------------- */

/*
 * Returns a copy of the picture with its axes reordered, or its channels reversed, as if the given order were wrong.
 */
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
					elem_set_f64(t, x->data,
						     n * one + element_offset(p, p->last, k, h, w),
						     elem_f64(t, p->t->data,
							      n * one + element_offset(p,
										       axes ? !p->last
											    : p->last,
										       from, h, w)));
				}
	return x;
}

/*
 * Adds one row of k classes to the confidence; scores that are no probabilities are turned into probabilities by
 * softmax.
 */
static void add_class_row(struct confidence *a, const struct tensor *t, int64_t first, int64_t step,
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

/*
 * Measures the confidence of an output of one class. Each element is a probability, or a score that a sigmoid turns
 * into a probability.
 */
static void measure_probability_map(struct confidence *a, const struct tensor *t)
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

/* Returns how confident the model is, judged by its first floating-point output of more than one element. */
static struct confidence measure_confidence(const struct tensor *const *out, uint32_t n)
{
	struct confidence a = {0};
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
		measure_probability_map(&a, t);
		return a;
	}
	int64_t rows = tensor_count(t) / k;
	for (int64_t r = 0; r < rows; r++)
		add_class_row(&a, t, r / step * step * k + r % step, step, k);
	a.top /= (double)rows;
	a.entropy /= (double)rows;
	a.known = isfinite(a.top) && isfinite(a.entropy);
	return a;
}

static int run_variants(struct check_context *c, const struct picture *p, struct confidence *answers)
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
			answers[v] = measure_confidence(out, g->nout);
	}
	return err;
}

/* ---- the verdict ------------------------------------------------------------------------------ */

enum { MAX_ROWS = 12 };

/* Returns mean and standard deviation of each channel of the first picture as text, such as "0.45 (deviation 0.2), ...". */
static const char *channel_means(struct check_context *c, const struct picture *p)
{
	const char *text = "";
	enum dtype t = tensor_dtype(p->t);

	for (int64_t k = 0; k < p->c; k++) {
		double mean = 0, square = 0, n = (double)(p->h * p->w);
		for (int64_t h = 0; h < p->h; h++)
			for (int64_t w = 0; w < p->w; w++) {
				double v =
					elem_f64(t, p->t->data, element_offset(p, p->last, k, h, w));
				mean += v / n;
				square += v * v / n;
			}
		text = fmt(c->d, "%s%s%.3g (deviation %.3g)", text, k ? ", " : "", mean,
			   sqrt(fmax(square - mean * mean, 0)));
	}
	return text;
}

/*
 * Returns, as text, the norm of the weights of each input channel of the first convolution that the input reaches, or
 * NULL if there is none.
 */
static const char *conv_channel_weights(struct check_context *c, const struct picture *p)
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
		return fmt(c->d, "norm of the weights of '%s' by channel: %s", n->origin->name, text);
	}
	return NULL;
}

static size_t add_evidence_rows(struct check_context *c, const struct picture *p,
				const struct smoothness *s, const struct confidence *a,
				struct diag_row *rows)
{
	struct diag *d = c->d;
	size_t n = 0;

	rows[n++] = (struct diag_row){
		"neighbours",
		fmt(d, "differ by %.3g when read as %s, by %.3g when read as %s", s->model,
		    p->last ? "NHWC" : "NCHW", s->other, p->last ? "NCHW" : "NHWC")};
	for (int v = 0; v < VARIANTS; v++)
		if (a[v].known)
			rows[n++] = (struct diag_row){
				variant_names[v],
				fmt(d, "the model is %.1f %% confident, entropy %.3f of 1",
				    100 * a[v].top, a[v].entropy)};
	rows[n++] = (struct diag_row){"channels", channel_means(c, p)};
	const char *weights = conv_channel_weights(c, p);
	if (weights)
		rows[n++] = (struct diag_row){"weights", weights};
	return n;
}

static const char *input_slot(struct check_context *c, const struct picture *p)
{
	const struct graph *g = session_model(c->session)->graph;

	return fmt(c->d, "input '%s' %s", g->value[g->in[p->input]]->name,
		   shape_str(&c->d->arena, &p->t->shape, NULL));
}

static void report_layout(struct check_context *c, const struct picture *p,
			  const struct smoothness *s, const struct confidence *a)
{
	struct diag_row rows[MAX_ROWS];
	double ratio = s->other > 0 ? s->model / s->other : INFINITY;
	bool agrees = a[0].known && a[1].known && a[1].top > a[0].top;
	const char *reads = p->last ? "NHWC" : "NCHW", *seems = p->last ? "NCHW" : "NHWC";
	size_t n = add_evidence_rows(c, p, s, a, rows);

	rows[n++] = (struct diag_row){
		"evidence", !a[0].known ? "the bytes only; --layout also asks the model"
			    : agrees	? "the bytes and the model's confidence agree"
					: "the bytes only; the model's confidence does not agree"};
	rows[n++] = (struct diag_row){
		"try", fmt(c->d, "--input '%s=%s,layout=%s'",
			   session_model(c->session)
				   ->graph->value[session_model(c->session)->graph->in[p->input]]
				   ->name,
			   input_info(c->inputs, p->input)->file ? input_info(c->inputs, p->input)->file
								 : "FILE",
			   p->last ? "chw" : "hwc")};
	struct finding f = {.code = E_INPUT_LAYOUT,
			    .severity = ratio >= ERROR_RATIO ? SEV_ERROR : SEV_WARNING,
			    .slot = input_slot(c, p),
			    .message = fmt(c->d,
					   "the model reads %s, but the bytes look like %s: read that way, "
					   "neighbours differ %.1f times less",
					   reads, seems, ratio),
			    .rows = rows,
			    .nrows = n,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(c->d, &f);
}

/* Warns if the model is clearly more confident with reversed channels. Returns true if it is. */
static bool report_channel_order(struct check_context *c, const struct picture *p,
				 const struct smoothness *s, const struct confidence *a)
{
	struct diag_row rows[MAX_ROWS];

	if (!a[0].known || !a[2].known || a[2].top < a[0].top + MIN_CONFIDENCE_GAIN ||
	    a[2].entropy > 0.7 * a[0].entropy)
		return false;
	size_t n = add_evidence_rows(c, p, s, a, rows);
	rows[n++] = (struct diag_row){
		"doubt", "this is one picture only: a model may be more confident of a wrong answer"};
	rows[n++] = (struct diag_row){
		"try", "order=bgr (or order=rgb) after the file's name, with several pictures"};
	WARN(c->d, E_INPUT_ORDER, .slot = input_slot(c, p),
	     .message = fmt(c->d,
			    "with reversed channels the model is %.1f %% confident, as given %.1f %%",
			    100 * a[2].top, 100 * a[0].top),
	     .rows = rows, .nrows = n);
	return true;
}

static int check_picture(struct check_context *c, const struct picture *p)
{
	struct smoothness s = measure_smoothness(p);
	struct confidence a[VARIANTS] = {{0}};
	bool asked = c->options->layout || c->options->all;
	int err = asked ? run_variants(c, p, a) : 0;

	if (err)
		return err;
	/*
	 * The input is noise if neighbours differ as much as any two elements. Without the model's answers the other
	 * order must make a smooth picture of it.
	 */
	bool noise = !(s.size > 0) || (s.model > 1.1 * s.size && s.other > 1.1 * s.size) ||
		     (!asked && s.other > MAX_ROUGHNESS * s.size);
	if (!noise && s.model > WARNING_RATIO * s.other)
		report_layout(c, p, &s, a);
	else if (report_channel_order(c, p, &s, a))
		check_say(c, "the axes look right, but the channels may be reversed");
	else if (noise)
		check_cannot_judge(
			c, "the input does not look like a picture: its layout cannot be judged");
	else
		check_say(c, "neighbours differ %.1f times less than in the other order; %s",
			  s.model > 0 ? s.other / s.model : INFINITY,
			  !asked       ? "--layout looks at the order of channels"
			  : a[0].known ? "the model is not more confident with reversed channels"
				       : "no output shows how confident the model is");
	return 0;
}

static bool is_generated(const struct check_context *c, uint32_t i)
{
	return c->inputs && !input_info(c->inputs, i)->file;
}

static int run_layout(struct check_context *c)
{
	const struct graph *g = session_model(c->session)->graph;
	bool any = false;
	int err = 0;

	for (uint32_t i = 0; i < g->nin && !err; i++) {
		struct picture p = {.input = i};
		if (!as_picture(c->in[i], &p) || is_generated(c, i))
			continue;
		any = true;
		err = check_picture(c, &p);
	}
	if (!any)
		check_cannot_judge(c, "no input is a picture of several channels");
	return err;
}

/* Whether the model has pictures among its inputs, and all of them are random: nothing can be said of their layout. */
static bool only_random_pictures(const struct check_context *c)
{
	bool random = false;

	for (uint32_t i = 0; c->in && i < input_count(c->inputs); i++) {
		struct picture p;
		if (!as_picture(c->in[i], &p))
			continue;
		if (!is_generated(c, i))
			return false;
		random = true;
	}
	return random;
}

/*
 * Whether the option asks for this check, or an input may be a picture in the wrong order: one that the user gives as
 * bare numbers. The axes of a picture file are known.
 */
static bool is_requested(const struct check_context *c, const char **why)
{
	struct picture p;

	for (uint32_t i = 0; c->in && i < input_count(c->inputs); i++) {
		const struct input_info *in = input_info(c->inputs, i);
		if (in->file && !in->picture && in->tensor && as_picture(in->tensor, &p))
			return true;
	}
	if (!c->options->layout && !c->options->all)
		return false;
	if (only_random_pictures(c))
		*why = "the picture is random: give a real one with --input";
	return !*why;
}

const struct check check_layout = {
	.name = "layout",
	.what = "order of axes and channels of pictures",
	.need = NEED_OUTPUTS,
	.cost = COST_RUNS,
	.applies = is_requested,
	.run = run_layout,
};
