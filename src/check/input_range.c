/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the values of inputs that fit the model's types and shapes but are probably a mistake: pixels from 0 to 255
 * for a model that expects scaled pixels, values that are not finite or all zero, numbers of another type, ids beyond
 * the rows of their table. Values that do not fit were already refused when the inputs were opened (E-INPUT-*). All of
 * this costs a small part of a run, so that it is done for every input that the user gives.
 */
#include "base/str.h"
#include "check/check.h"
#include "check/input_bytes.h"
#include "check/input_range.h"
#include "check/input_scale.h"
#include "check/nan_weights.h"
#include "ir/walk.h"
#include "onnx/load.h"
#include "ops/supported.h"
#include "session/model_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* An input's values with what the checks below want to know about them. */
struct look {
	struct check_context *c;
	const struct graph *g;
	const struct value *v; /* the input in the model's file */
	const struct input_info *in;
	struct statistics s;
};

static const char *slot_of(const struct look *x)
{
	return fmt(x->c->d, "input '%s'", x->in->name);
}

/* ---- numbers of another type, and values that are not finite or all zero */

/* Returns false, with a finding, if the elements of a file without a head seem to be of another type. */
static bool check_type_of_bytes(const struct look *x)
{
	const enum dtype t = x->in->bare ? bytes_look_like(x->in->tensor) : DT_NONE;
	const enum dtype now = tensor_dtype(x->in->tensor);
	struct diag *d = x->c->d;

	if (!t)
		return true;
	FAIL(d, E_INPUT_TYPE, .slot = slot_of(x),
	     .message = fmt(d, "the bytes of %s look like %s, and were read as %s: %s",
			    x->in->source, dtype_name(t), dtype_name(now),
			    dtype_bits(t) == 2 * dtype_bits(now) ? "each number was taken for two"
			    : 2 * dtype_bits(t) == dtype_bits(now)
				    ? "two numbers were taken for one"
				    : "the numbers would be of absurd sizes"),
	     .hint = fmt(d, "say what the file holds: --input '%s=%s,dtype=%s'", x->in->name,
			 x->in->file, dtype_name(t)));
	return false;
}

static void mark_nan_aware(const struct graph *g, const struct node *n, void *arg)
{
	static const char *const aware[] = {"IsNaN",
					    "IsInf",
					    "Imputer",
					    "LabelEncoder",
					    "TreeEnsemble",
					    "TreeEnsembleRegressor",
					    "TreeEnsembleClassifier"};

	(void)g;
	for (size_t i = 0; n->type && i < sizeof(aware) / sizeof(*aware); i++)
		*(bool *)arg |= !strcmp(n->type, aware[i]);
}

/* NaN stands for a missing value in models that test for it, and in trees, which branch on it: a run tells whether it does. */
static void check_finite(const struct look *x)
{
	struct diag *d = x->c->d;
	bool asked = false;

	graph_each_node(x->g, mark_nan_aware, &asked);
	const struct finding nan = {
		.code = E_INPUT_RANGE,
		.severity = asked ? SEV_WARNING : SEV_ERROR,
		.slot = slot_of(x),
		.message = fmt(d, "%s of its %s elements %s NaN%s", str_count(&d->arena, x->s.nans),
			       str_count(&d->arena, x->s.count), x->s.nans == 1 ? "is" : "are",
			       asked ? "" : ", and nothing in the model tests for NaN"),
		.hint = "check the source of the data: a division by zero, a missing value, a failed decoding",
		.file = __FILE__,
		.line = __LINE__};
	if (x->s.nans)
		suspect_nan_input(x->c, &nan, asked);
	if (x->s.infs && !(x->s.nans && !asked))
		WARN(d, E_INPUT_RANGE, .slot = slot_of(x),
		     .message = fmt(d, "%s of its %s elements %s infinite",
				    str_count(&d->arena, x->s.infs),
				    str_count(&d->arena, x->s.count), x->s.infs == 1 ? "is" : "are"),
		     .hint = "check the source of the data");
}

/* An additive mask holds zeros and minus infinities only. */
static bool is_additive_mask(const struct statistics *s)
{
	return s->infs && !s->nans && s->infs + s->zeros == s->count;
}

/* ---- scale */

struct reader {
	const struct node *node;   /* the first product or convolution that reads the input */
	const struct node *scaler; /* a node on the way that may be the model's own scaling */
};

static bool only_moves(const struct node *n)
{
	static const char *const movers[] = {"Cast",	  "Transpose", "Identity", "Reshape",
					     "Unsqueeze", "Squeeze",   "Pad",	   "Slice",
					     "Concat",	  "Resize",    "Flatten",  "SpaceToDepth"};

	for (size_t i = 0; i < sizeof(movers) / sizeof(*movers); i++)
		if (check_is(n, movers[i]))
			return true;
	return false;
}

/* Follows the input through nodes that only move, convert or resize it, to the first nodes that compute with it. */
static struct reader find_reader(const struct graph *g, const struct value *v)
{
	struct reader r = {NULL, NULL};
	struct walk w = {0};
	const struct walk_place *p;

	walk_to(&w, g, v, 0);
	while ((p = walk_next(&w))) {
		const struct value *x = p->v;
		for (uint32_t k = 0; k < x->nusers; k++) {
			const struct node *n = g->node[x->users[k]];
			bool data = n->type && !check_is(n, "Shape") && node_in(g, n, 0) == x;
			if (data ? only_moves(n) : n->type && check_is(n, "Concat"))
				walk_to(&w, g, node_out(g, n, 0), 0);
			else if (data && !check_is(n, "Conv") && !check_is(n, "MatMul") &&
				 !check_is(n, "Gemm"))
				r.scaler = n;
			else if (data && !r.node)
				r.node = n;
		}
	}
	walk_end(&w);
	return r;
}

static bool all_integers(const struct tensor *t)
{
	int64_t n = tensor_count(t), step = n / 4096 + 1;

	for (int64_t i = 0; i < n; i += step) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		if (v != floor(v))
			return false;
	}
	return true;
}

/* Pixels are integers, unless the picture was resized. */
static bool looks_like_pixels(const struct look *x)
{
	const struct shape *s = &x->in->tensor->shape;
	bool colors = s->rank == 4 && (s->dim[1] == 3 || s->dim[3] == 3);

	return s->rank >= 3 && x->s.min >= 0 && x->s.max > 64 && x->s.max <= 255 &&
	       (x->in->picture || (colors && x->s.max > 128) || all_integers(x->in->tensor));
}

/* Whether the shape is that of one or a few long rows, as sound has. */
static bool looks_like_sound(const struct look *x)
{
	const struct shape *s = &x->in->tensor->shape;

	return s->rank >= 1 && s->rank <= 3 && s->dim[s->rank - 1] >= 256 &&
	       x->s.count / s->dim[s->rank - 1] <= 8 && x->s.min < -255 && x->s.max > 255 &&
	       x->s.min >= -32768 && x->s.max <= 32767 && all_integers(x->in->tensor);
}

/* Returns the constant operand of n if it is the same number everywhere, otherwise NAN. */
static double constant_operand(const struct graph *g, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct tensor *t = check_const(g, n, i);
		if (t && t->data && t->type.kind == V_TENSOR && tensor_count(t) == 1 &&
		    (T_BIT(tensor_dtype(t)) & T_NUMERIC_BF))
			return elem_f64(tensor_dtype(t), t->data, 0);
	}
	return NAN;
}

static bool scales_by(const struct graph *g, const struct node *n, double low, double high)
{
	double c = n && (check_is(n, "Mul") || check_is(n, "Div")) ? fabs(constant_operand(g, n))
								   : NAN;

	return (c >= low && c <= high) || (1 / c >= low && 1 / c <= high);
}

static void mark_scaling_of_sound(const struct graph *g, const struct node *n, void *arg)
{
	*(bool *)arg |= n->type && scales_by(g, n, 32767, 32768);
}

static void report_scale(const struct look *x, const char *message, const char *hint)
{
	WARN(x->c->d, E_INPUT_RANGE, .slot = slot_of(x), .message = message, .hint = hint);
}

static const char *scale_hint(const struct look *x)
{
	const struct input_info *in = x->in;

	return fmt(x->c->d,
		   "most models expect %s%s%s%sscale=1/255, or the mean=... and std=... of their training; many that were "
		   "trained on OpenCV's pictures expect order=bgr, too",
		   in->file ? "--input " : "", in->file ? in->file : "", in->file ? "," : "",
		   in->file && *in->keys ? fmt(x->c->d, "%s,", in->keys) : "");
}

static const char *const twice_hint = "it seems to be scaled twice: leave scale= out";

/*
 * Compares with what the first BatchNormalization saw in training. A factor of 20 is beyond what contrast or padding do,
 * and below the 58 and more between raw and normalized pixels. Returns false if the model has no such node.
 */
static bool check_trained_scale(const struct look *x)
{
	const double MAX_RATIO = 20, MIN_RATIO = 1.0 / 30, SMALL_VALUES = 0.02;
	struct scale_evidence e;
	struct diag *d = x->c->d;

	if (!measure_scale(x->g, x->v, x->in->tensor, &e))
		return false;
	bool small = e.ratio < MIN_RATIO && e.ratio > 0 &&
		     fmax(fabs(x->s.min), fabs(x->s.max)) < SMALL_VALUES;
	if (e.ratio <= MAX_RATIO && !small)
		return true;
	const char *where = e.conv ? fmt(d, " behind Conv '%s'", check_node(e.conv)) : "";
	report_scale(
		x,
		fmt(d,
		    "values from %.4g to %.4g are about %.0f times too %s: BatchNormalization '%s'%s was "
		    "trained on values with a standard deviation of %.3g, and this input gives %.3g",
		    x->s.min, x->s.max, small ? 1 / e.ratio : e.ratio, small ? "small" : "large",
		    check_node(e.norm), where, e.trained, e.given),
		small ? twice_hint : scale_hint(x));
	return true;
}

/* The keys and values of ONNX's own metadata about pictures (MetadataProps.md). */
static bool check_declared_range(const struct look *x)
{
	const char *range = model_metadata(x->c->file, "Image.NominalPixelRange");
	struct diag *d = x->c->d;
	bool scaled = str_starts(range, "Normalized_"), raw = str_starts(range, "NominalRange_");

	if (x->in->tensor->shape.rank < 3 || (!scaled && !raw))
		return false;
	if (scaled && x->s.max > 2)
		report_scale(x,
			     fmt(d, "values from %g to %g, but the model's metadata say %s",
				 x->s.min, x->s.max, range),
			     scale_hint(x));
	if (raw && x->s.max <= 1)
		report_scale(x,
			     fmt(d, "values from %g to %g, but the model's metadata say %s",
				 x->s.min, x->s.max, range),
			     "leave scale=, mean= and std= out");
	return true;
}

static void check_scale(const struct look *x)
{
	struct diag *d = x->c->d;
	bool picture = x->in->tensor->shape.rank >= 3, scaled = false;

	if (check_declared_range(x) || check_trained_scale(x))
		return;
	const struct reader r = find_reader(x->g, x->v);
	if (r.scaler && picture && x->s.count >= 64 && x->s.min >= 0 && x->s.max <= 1 &&
	    x->s.max > 0 && scales_by(x->g, r.scaler, 127, 256)) {
		report_scale(x,
			     fmt(d, "values from %g to %g, which %s '%s' of the model scales once more",
				 x->s.min, x->s.max, r.scaler->type, check_node(r.scaler)),
			     twice_hint);
		return;
	}
	if (r.node && !r.scaler && looks_like_pixels(x)) {
		report_scale(x,
			     fmt(d,
				 "its elements are from %g to %g, like raw pixels, and %s '%s' reads "
				 "them without scaling: the results are most likely wrong",
				 x->s.min, x->s.max, r.node->type, check_node(r.node)),
			     scale_hint(x));
		return;
	}
	if (!looks_like_sound(x))
		return;
	graph_each_node(x->g, mark_scaling_of_sound, &scaled);
	if (!scaled)
		report_scale(x,
			     fmt(d,
				 "all elements are integers from %g to %g, like 16-bit samples of sound, and "
				 "the model does not scale them",
				 x->s.min, x->s.max),
			     "most models expect sound from -1 to 1: scale=1/32768");
}

/* ---- order of channels, by what the user and the model say */

/* The means of ImageNet as they are published: in the order red, green, blue; Caffe's in blue, green, red. */
static bool near(const double *mean, double a, double b, double c)
{
	return fabs(mean[0] - a) < 0.02 * a && fabs(mean[1] - b) < 0.02 * b &&
	       fabs(mean[2] - c) < 0.02 * c;
}

static void check_order(const struct look *x)
{
	const char *format = model_metadata(x->c->file, "Image.BitmapPixelFormat");
	const double *m = x->in->mean;
	struct diag *d = x->c->d;
	bool bgr = x->in->bgr;

	if (x->in->picture && (str_starts(format, "Bgr") ? !bgr : bgr && str_starts(format, "Rgb")))
		WARN(d, E_INPUT_ORDER, .slot = slot_of(x),
		     .message = fmt(
			     d, "the channels are in the order %s, and the model's metadata say %s",
			     bgr ? "blue, green, red" : "red, green, blue", format),
		     .hint = bgr ? "leave order=bgr out" : "write order=bgr behind the file's name");
	if (!m || (!x->in->picture && !bgr))
		return;
	bool rgb_means = near(m, 0.485, 0.456, 0.406) || near(m, 123.675, 116.28, 103.53);
	bool bgr_means = near(m, 0.406, 0.456, 0.485) || near(m, 103.939, 116.779, 123.68);
	if (bgr ? rgb_means : bgr_means)
		WARN(d, E_INPUT_ORDER, .slot = slot_of(x),
		     .message = fmt(d,
				    "mean=%g/%g/%g are ImageNet's means in the order %s, but the channels are in "
				    "the order %s",
				    m[0], m[1], m[2], bgr ? "red, green, blue" : "blue, green, red",
				    bgr ? "blue, green, red" : "red, green, blue"),
		     .hint = bgr ? "leave order=bgr out, or turn mean= and std= round"
				 : "add order=bgr, or turn mean= and std= round");
}

/* ---- ids */

/* Reports ids that are beyond the rows of the table in which a Gather looks them up. */
static void check_ids(struct check_context *c, const struct graph *g, const struct value *v,
		      const struct input_info *in)
{
	struct statistics s = report_statistics(in->tensor);
	struct diag *d = c->d;

	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = g->node[v->users[k]];
		const struct tensor *table = check_is(n, "Gather") ? check_const(g, n, 0) : NULL;
		double axis = 0;
		if (!table || node_in(g, n, 1) != v || !check_number(n, "axis", &axis) ||
		    axis != 0 || table->shape.rank < 1)
			continue;
		double rows = (double)table->shape.dim[0];
		if (s.count && (s.max >= rows || s.min < -rows))
			FAIL(d, E_INPUT_RANGE, .node = check_node(n), .op = n->type,
			     .slot = fmt(d, "input '%s'", in->name),
			     .expected = fmt(d, "ids of a table of %.0f rows", rows),
			     .actual = fmt(d, "%.0f to %.0f", s.min, s.max),
			     .hint = "the ids may come from another vocabulary than the model's");
	}
}

/* ---- the check */

/* Values that the user gives: how many inputs hold numbers, and how many of these hold zeros only. */
struct zeros {
	size_t given, zero;
	const char *name; /* of the first input with zeros only */
	int64_t count;
};

static void check_one_input(struct check_context *c, uint32_t i, struct zeros *z)
{
	const struct graph *g = c->file->graph;
	struct look x = {.c = c, .g = g, .in = input_info(c->inputs, i)};
	const struct tensor *t = x.in->tensor;

	x.v = i < g->nin ? g->value[g->in[i]] : NULL;
	if (!x.in->file || !x.v || !t || t->type.kind != V_TENSOR || !t->data || !tensor_count(t))
		return;
	bool real = T_BIT(tensor_dtype(t)) & T_FLOATS_BF, whole = T_BIT(tensor_dtype(t)) & T_INTS;
	if ((!real && !whole) || !check_type_of_bytes(&x))
		return;
	if (whole) {
		check_ids(c, g, x.v, x.in);
		check_order(&x);
		return;
	}
	x.s = report_statistics(t);
	if (x.s.count > 1) {
		z->given++;
		if (x.s.zeros == x.s.count && !z->zero++) {
			z->name = x.in->name;
			z->count = x.s.count;
		}
	}
	check_order(&x);
	if (x.s.nans + x.s.infs) {
		if (!is_additive_mask(&x.s))
			check_finite(&x);
	} else if (x.s.zeros < x.s.count) {
		check_scale(&x);
	}
}

/*
 * States and caches begin as zeros, so zeros are suspicious only if the user gives nothing else.
 */
static void report_zeros(struct check_context *c, const struct zeros *z)
{
	struct diag *d = c->d;

	if (z->zero && z->zero == z->given)
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", z->name),
		     .message = fmt(d, "%s 0%s", str_all(&d->arena, (uint64_t)z->count, "element"),
				    z->zero > 1 ? ", and so are those of the other inputs" : ""),
		     .hint = "check that the file holds the data: a picture that failed to load, a silent recording");
}

/* Names the inputs that were filled with random values beside given ones: the outputs are not those of the user's data. */
static void report_made_up(struct check_context *c, const char *names, size_t n)
{
	struct diag *d = c->d;
	struct finding f = {
		.code = E_INPUT_MISSING,
		/* a user who gives --random knows */
		.severity = c->request->random.n ? SEV_NOTE : SEV_WARNING,
		.slot = fmt(d, "input%s %s", n > 1 ? "s" : "", names),
		.message = fmt(d,
			       "%s not given and %s filled with random values: the outputs are not those of your "
			       "data alone",
			       n > 1 ? "were" : "was", n > 1 ? "were" : "was"),
		.file = __FILE__,
		.line = __LINE__};

	diag_add(d, &f);
}

static int run_input(struct check_context *c)
{
	size_t made_up = 0, given = 0, n = input_count(c->inputs);
	struct str names = {.arena = &c->d->arena};
	struct zeros z = {0};

	for (uint32_t i = 0; i < n; i++) {
		const struct input_info *in = input_info(c->inputs, i);
		if (in->made_up)
			str_addf(&names, "%s'%s'", made_up++ ? ", " : "", in->name);
		given += in->file != NULL;
		check_one_input(c, i, &z);
	}
	report_zeros(c, &z);
	if (made_up && given)
		report_made_up(c, str_get(&names), made_up);
	check_say(c, "%s%s%s", n ? str_count(&c->arena, (int64_t)n) : "the model has no inputs",
		  !n	   ? ""
		  : n == 1 ? " input fits"
			   : " inputs fit",
		  !made_up ? ""
		  : given  ? ", some generated"
		  : n == 1 ? ", generated"
			   : ", all generated");
	return 0;
}

const struct check check_input = {
	.name = "inputs",
	.what = "type, shape, size and range against the model",
	.need = NEED_INPUTS,
	.cost = COST_READ,
	.run = run_input,
};

/* Whether a picture's values are far beyond -1 to 1 and a few deviations, so that the user gave it without a scale. */
static bool is_raw_picture(const struct input_info *in)
{
	const double MAX_SCALED = 64;

	return in->picture && (T_BIT(tensor_dtype(in->tensor)) & T_FLOATS_BF) &&
	       report_statistics(in->tensor).max > MAX_SCALED;
}

/* The hint for models of Ultralytics: their metadata hold the size, "[320, 320]", and the task. */
static const char *ultralytics_hint(const struct model *m, const struct input_info *in, struct diag *d)
{
	int h = 0, w = 0;
	const char *file = fmt(d, "%s%s%s", in->file, *in->keys ? "," : "", in->keys);
	const char *more = !strcmp(model_metadata(m, "task"), "detect")
				   ? " --decode yolo --labels meta:names -o boxes.png"
				   : "";

	if (strstr(in->keys, "resize=") ||
	    sscanf(model_metadata(m, "imgsz"), "[%9d, %9d]", &h, &w) != 2)
		return fmt(d, "--input %s,scale=1/255%s", file, more);
	return fmt(d, "--input %s,resize=letterbox:%dx%d,scale=1/255%s", file, w, h, more);
}

void warn_of_raw_pictures(const char *path, const struct load_options *load,
			  const struct input_set *inputs, struct diag *d)
{
	struct diag quiet = {0};
	struct check_context c = {.d = d};

	for (uint32_t i = 0; i < input_count(inputs); i++) {
		const struct input_info *in = input_info(inputs, i);
		if (!is_raw_picture(in))
			continue;
		c.file = c.file ? c.file : onnx_load(path, load, &quiet);
		if (!c.file)
			break;
		const struct graph *g = c.file->graph;
		struct look x = {&c, g, NULL, in, report_statistics(in->tensor)};
		for (uint32_t k = 0; k < g->nin; k++)
			if (!strcmp(g->value[g->in[k]]->name, in->name))
				x.v = g->value[g->in[k]];
		if (!strcmp(model_metadata(c.file, "author"), "Ultralytics"))
			WARN(d, E_INPUT_RANGE, .slot = slot_of(&x),
			     .message = fmt(
				     d,
				     "values up to %.4g, and the model's metadata say that Ultralytics made it, "
				     "whose models take values from 0 to 1: the results are wrong",
				     x.s.max),
			     .hint = ultralytics_hint(c.file, in, d));
		else if (x.v)
			check_scale(&x);
	}
	onnx_unload(c.file);
	diag_free(&quiet);
}
