/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions for every float type, computed as a blocked matrix product of the weights and the im2col matrix of the
 * image. That matrix is never stored: its rows are made while the product packs them. Convolutions with few maps per
 * group are computed directly, without a matrix product.
 */
#include "ops/conv.h"

#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/conv.h"
#include "cpu/math/gemm.h"
#include "cpu/onednn/onednn.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "cpu/math/window.h"
#include "ops/fused.h"

#include <math.h>
#include <string.h>

/*
 * The inverse of window_at, for ConvTranspose. Sets *row to the index, over the first n axes, of the output element to
 * which kernel element `tap` maps input element o. Returns false if the padding crops that output element.
 */
static bool transpose_window_at(const struct window *w, int n, const int64_t *o, const int64_t *tap,
				int64_t *row)
{
	int64_t at = 0;

	for (int d = 0; d < n; d++) {
		int64_t i = o[d] * w->stride[d] - w->begin[d] + tap[d] * w->dilation[d];
		if (i < 0 || i >= w->out[d])
			return false;
		at = at * w->out[d] + i;
	}
	*row = at;
	return true;
}

/*
 * Returns the number of output maps that ConvTranspose computes at once, chosen so that their matrix has at most about
 * 256 Ki elements.
 */
static int64_t transpose_maps_at_once(int64_t kernel, int64_t inputs, int64_t maps)
{
	int64_t one = kernel * inputs, n = one > 0 ? (1 << 18) / one : maps;

	n = n < 1 ? 1 : n;
	return n < maps ? n : maps;
}

static size_t transpose_scratch(enum gemm_type t, int64_t kernel, int64_t inputs, int64_t maps)
{
	size_t col = (size_t)(transpose_maps_at_once(kernel, inputs, maps) * kernel * inputs);

	return scratch_size(gemm_scratch_one(t)) + scratch_size(col * (t == GEMM_F32 ? 4 : 8));
}

/*
 * Returns the parameters of infer::Conv, which hold its activation, or NULL for the ONNX operators, which have no
 * activation.
 */
static const struct fused_conv *fused_conv_of(const struct node *n)
{
	return n->op->domain && !strcmp(n->op->domain, "infer") ? n->params : NULL;
}

static void activate_f32(const struct call *call, float *y, int64_t n)
{
	const struct fused_conv *f = fused_conv_of(call->step->node);

	if (f)
		act_f32(f->act, f->act_alpha, f->act_beta, y, n);
}

static void activate_f64(const struct call *call, double *y, int64_t n)
{
	const struct fused_conv *f = fused_conv_of(call->step->node);

	if (f)
		act_f64(f->act, (double)f->act_alpha, (double)f->act_beta, y, n);
}

#define TEMPLATE "cpu/conv.inc"
#include "cpu/math/reals.inc"

/* ---- CausalConvWithState ---------------------------------------------------------------------- */

struct causal {
	const struct causal_conv *p;
	int64_t batch, channels, length, kernel, state; /* state: number of positions that it holds */
	/* distances of neighbouring channels and positions in x and y, and in a state */
	int64_t x_channel, x_position, s_channel, s_position;
	const float *x, *weight, *bias, *past;
	float *y, *present;
};

/*
 * Returns element i of a channel. The first elements are the past state, or 0 if there is no past state; the
 * following elements are the input.
 */
static float causal_at(const struct causal *c, int64_t batch, int64_t channel, int64_t i)
{
	int64_t from = batch * c->channels;

	if (i >= c->state)
		return c->x[from * c->length + channel * c->x_channel + (i - c->state) * c->x_position];
	return c->past ? c->past[from * c->state + channel * c->s_channel + i * c->s_position] : 0;
}

/* Writes the states after the last positions; those of a window that belong to no position of this call are 0. */
static void keep_states(const struct causal *c, int64_t batch, int64_t channel)
{
	int64_t window = greater(c->p->state_window, 1);

	for (int64_t w = 0; w < window; w++) {
		int64_t seen = c->length - window + w + 1;
		float *to = c->present + (w * c->batch + batch) * c->channels * c->state +
			    channel * c->s_channel;
		bool there = seen > 0 || w == window - 1;
		for (int64_t i = 0; i < c->state; i++)
			to[i * c->s_position] = there ? causal_at(c, batch, channel, seen + i) : 0;
	}
}

static void causal_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct causal *c = arg;
	int64_t step = greater(c->p->dilation, 1);

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		int64_t batch = r / c->channels, ch = r % c->channels;
		float *y = c->y + batch * c->channels * c->length + ch * c->x_channel;
		for (int64_t i = 0; i < c->length; i++) {
			float sum = 0;
			for (int64_t k = 0; k < c->kernel; k++)
				sum += c->weight[ch * c->kernel + k] *
				       causal_at(c, batch, ch, i + k * step);
			if (c->bias)
				sum += c->bias[ch];
			y[i * c->x_position] =
				c->p->activation != CAUSAL_NONE ? sum / (1 + expf(-sum)) : sum;
		}
		if (c->present)
			keep_states(c, batch, ch);
	}
}

/* ---- kernels ---------------------------------------------------------------------------------- */

static enum gemm_type gemm_type_of(enum dtype t)
{
	return t == DT_F64 ? GEMM_F64 : GEMM_F32;
}

int conv_any_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace =
		wide_workspace(site) +
		scratch_size(gemm_scratch(gemm_type_of((enum dtype)site_in(site, 0)->type.dtype)));
	return 0;
}

static int fail_window(const struct call *c, const char *bad)
{
	return call_fail(c, E_OP_ATTRIBUTE, bad, NULL);
}

int conv_any_run(const struct call *c)
{
	const struct conv *p = call_params(c); /* struct fused_conv begins with the same fields */
	struct window w;
	const char *bad =
		window_set(&w, &p->window, &c->in[0]->shape, &c->in[1]->shape, false, c->diag);

	if (bad)
		return fail_window(c, bad);
	if (tensor_dtype(c->in[0]) == DT_F64)
		return run_conv_f64(c, &w, p->group);
	return run_conv_f32(c, &w, p->group);
}

static int transpose_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct conv_transpose *p = site_params(site);
	const struct vinfo *x = site_in(site, 0), *weight = site_in(site, 1);
	struct window w;

	if (conv_transpose_window(&w, p, &x->shape, &weight->shape, d))
		return 0; /* transpose_run reports the error */
	step->workspace =
		wide_workspace(site) +
		(size_t)pool_threads() * transpose_scratch(gemm_type_of((enum dtype)x->type.dtype),
							   window_size(&w), window_inputs(&w),
							   weight->shape.dim[1]);
	return 0;
}

static int transpose_run(const struct call *c)
{
	const struct conv_transpose *p = call_params(c);
	struct window w;
	const char *bad = conv_transpose_window(&w, p, &c->in[0]->shape, &c->in[1]->shape, c->diag);

	if (bad)
		return fail_window(c, bad);
	if (tensor_dtype(c->in[0]) == DT_F64)
		return run_transpose_f64(c, &w, p->group);
	return run_transpose_f32(c, &w, p->group);
}

static int deform_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct deform_conv *p = site_params(site);
	const struct vinfo *x = site_in(site, 0), *w = site_in(site, 1), *y = site_out(site, 0);
	enum gemm_type t = gemm_type_of((enum dtype)x->type.dtype);
	int64_t samples = p->offset_group * shape_span(&w->shape, 2, 4) * shape_span(&y->shape, 2, 4);

	if (x->shape.dim[3] > 0 && x->shape.dim[2] > INT32_MAX / x->shape.dim[3])
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = "DeformConv");
	step->workspace = wide_workspace(site) + scratch_size(gemm_scratch(t)) +
			  scratch_size((size_t)samples * (t == GEMM_F64 ? sizeof(struct sample_f64)
									: sizeof(struct sample_f32)));
	return 0;
}

static int deform_run(const struct call *c)
{
	const struct deform_conv *p = call_params(c);
	struct window w;
	const char *bad =
		window_set(&w, &p->window, &c->in[0]->shape, &c->in[1]->shape, false, c->diag);

	if (bad)
		return fail_window(c, bad);
	if (tensor_dtype(c->in[0]) == DT_F64)
		return run_deform_f64(c, &w, p->group, p->offset_group);
	return run_deform_f32(c, &w, p->group, p->offset_group);
}

static int causal_run(const struct call *c)
{
	const struct causal_conv *p = call_params(c);
	struct scratch s = scratch_of(c);
	const struct shape *x = &c->in[0]->shape;
	struct tensor *state = optional_out(c, 1);
	struct causal k = {.p = p, .batch = x->dim[0], .kernel = c->in[1]->shape.dim[2]};

	k.channels = c->in[1]->shape.dim[0];
	k.length = x->dim[p->channels_last ? 1 : 2];
	k.state = causal_state(p, k.kernel);
	k.x_channel = p->channels_last ? 1 : k.length;
	k.s_channel = p->channels_last ? 1 : k.state;
	k.x_position = k.s_position = p->channels_last ? k.channels : 1;
	k.x = wide_in(&s, c->in[0]);
	k.weight = wide_in(&s, c->in[1]);
	k.bias = wide_in(&s, optional_in(c, 2));
	k.past = wide_in(&s, optional_in(c, 3));
	if (k.past && p->state_window) /* the last state of the window */
		k.past += (p->state_window - 1) * k.batch * k.channels * k.state;
	k.y = wide_out(&s, c->out[0]);
	k.present = wide_out(&s, state);
	pool_for(k.batch * k.channels, 4, causal_rows, &k);
	wide_done(c->out[0], k.y);
	wide_done(state, k.present);
	return 0;
}

/* ---- Col2Im ----------------------------------------------------------------------------------- */

struct col2im_job {
	struct window w;
	int64_t kernel, outputs, image;
	const void *x;
	void *y;
};

/*
 * Computes Col2Im for the planes begin..end-1: adds each element of the column matrix to the image element from which
 * im2col would have copied that matrix element.
 */
#define COL2IM(name, T)                                                                             \
	static void name(void *arg, int64_t begin, int64_t end, int thread)                         \
	{                                                                                           \
		const struct col2im_job *j = arg;                                                   \
		const struct window *w = &j->w;                                                     \
		int d = w->n - 1;                                                                   \
		int64_t tap[MAX_RANK], o[MAX_RANK], at, from, count, last = w->out[d],              \
								     s = w->stride[d];              \
                                                                                                    \
		(void)thread;                                                                       \
		for (int64_t k = begin * j->kernel; k < end * j->kernel; k++) {                     \
			T *y = (T *)j->y + k / j->kernel * j->image;                                \
			const T *x = (const T *)j->x + k * j->outputs;                              \
			window_split(k % j->kernel, w->kernel, w->n, tap);                          \
			window_run(w, d, tap[d], &from, &count);                                    \
			memset(o, 0, sizeof(o));                                                    \
			for (int64_t r = 0; r < j->outputs; r += last, window_next(o, w->out, d)) { \
				if (!window_at(w, d, o, tap, &at))                                  \
					continue;                                                   \
				at = at * w->in[d] + from * s - w->begin[d] +                       \
				     tap[d] * w->dilation[d];                                       \
				for (int64_t i = 0; i < count; i++)                                 \
					y[at + i * s] = (T)(y[at + i * s] + x[r + from + i]);       \
			}                                                                           \
		}                                                                                   \
	}
COL2IM(col2im_f32, float)
COL2IM(col2im_f64, double)
COL2IM(col2im_8, uint8_t)
COL2IM(col2im_16, uint16_t)
COL2IM(col2im_32, uint32_t)
COL2IM(col2im_64, uint64_t)
COL2IM(col2im_bool, bool)
#undef COL2IM

/* Integer sums wrap, so the unsigned loops also serve the signed types. Narrow floats are summed in fp32. */
static pool_fn *col2im_of(enum dtype t)
{
	if (t == DT_BOOL)
		return col2im_bool;
	if (dtype_class(t) == DT_FLOAT)
		return t == DT_F64 ? col2im_f64 : col2im_f32;
	return dtype_bits(t) == 8    ? col2im_8
	       : dtype_bits(t) == 16 ? col2im_16
	       : dtype_bits(t) == 32 ? col2im_32
				     : col2im_64;
}

static int col2im_run(const struct call *c)
{
	const struct col2im *p = call_params(c);
	const struct tensor *y = c->out[0], *block = c->in[2];
	struct shape weight = {.rank = y->shape.rank, .dim = {1, 1}};
	struct scratch s = scratch_of(c);
	struct col2im_job j = {.x = wide_in(&s, c->in[0]), .y = wide_out(&s, y)};
	enum dtype t = tensor_dtype(y);
	const char *bad;

	for (int i = 2; i < weight.rank; i++)
		if ((weight.dim[i] = elem_i64(tensor_dtype(block), block->data, i - 2)) < 1)
			return fail_window(c, "a block of at least 1");
	bad = window_set(&j.w, &p->window, &y->shape, &weight, false, c->diag);
	if (bad)
		return fail_window(c, bad);
	j.kernel = window_size(&j.w);
	j.outputs = window_outputs(&j.w);
	j.image = window_inputs(&j.w);
	if (!y->bytes)
		return 0;
	memset(j.y, 0, j.y == y->data ? y->bytes : (size_t)tensor_count(y) * sizeof(float));
	if (j.outputs > 0)
		pool_for(y->shape.dim[0] * y->shape.dim[1], 1, col2im_of(t), &j);
	wide_done(y, j.y);
	return 0;
}

#define COL2IM_TYPES (T_NUMERIC_BF | T_BOOL)

const struct kernel cpu_conv[] = {
	{"Conv", T_F32 | T_F16 | T_BF16, ONEDNN(conv)},
	{"ConvTranspose", T_F32 | T_F16 | T_BF16, ONEDNN(deconv)},
	{"Conv", T_FLOATS_BF, K_REFERENCE, NULL, NULL, conv_any_reshape, conv_any_run, NULL, NULL},
	{"ConvTranspose", T_FLOATS_BF, K_REFERENCE, NULL, NULL, transpose_reshape, transpose_run,
	 NULL, NULL},
	{"DeformConv", T_FLOATS_BF, K_REFERENCE, NULL, NULL, deform_reshape, deform_run, NULL, NULL},
	{"CausalConvWithState", T_F32 | T_F16 | T_BF16, K_REFERENCE, NULL, NULL, wide_reshape,
	 causal_run, NULL, NULL},
	{"com.microsoft::CausalConvWithState", T_F32 | T_F16 | T_BF16, K_REFERENCE, NULL, NULL,
	 wide_reshape, causal_run, NULL, NULL},
	{"Col2Im", COL2IM_TYPES, K_REFERENCE, NULL, NULL, wide_reshape, col2im_run, NULL, NULL},
	{0}};
