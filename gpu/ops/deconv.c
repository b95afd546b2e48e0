/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/deconv.h"

#include "gpu/library/cublaslt.h"
#include "gpu/library/choices.h"
#include "gpu/library/conv_plan.h"
#include "gpu/launch/job.h"
#include "gpu/kernels/deconv.h"
#include "gpu/launch/channels_last.h"
#include "gpu/launch/packed.h"
#include "ops/conv.h"

#include <math.h>

/*
 * ---- ConvTranspose: a matrix product and Col2Im, cuDNN's gradient of a convolution, or a kernel of ours ----
 *
 * cuDNN's deterministic gradients are slow in strict float32 and do not exist for float64. For these types cuBLASLt
 * computes W^T * X, which holds what each input pixel adds to each output that its window reaches (the "columns"), and
 * our kernel gather_taps adds up the columns that reach an output. Because each output gathers, no atomics are needed.
 */

/*
 * COLUMN_BYTES: size of the columns that are computed at a time; larger products gain more speed than columns that fit
 * into the L2 cache. COLUMN_CHANNELS: with fewer input channels, cuDNN is faster. MAX_EXTENT: the sum of two sizes up
 * to this one fits 32 bits.
 */
enum { COLUMN_BYTES = 128 << 20, COLUMN_CHANNELS = 8, MAX_EXTENT = 1 << 28 };

/*
 * One product computes the columns of `maps` output channels for `planes` planes. A plane is one group of channels of
 * one image.
 */
struct columns {
	struct blaslt_product *lt;
	struct gpu_gather_taps job;
	int64_t planes, maps;
	size_t at, at_lt, lt_room, size; /* size: bytes of an element */
	void *fn;
};

struct transposed_state {
	struct columns columns; /* columns.lt is NULL if the step does not compute columns */
	void *fn;
	struct gpu_deconv job;
	struct device *device;
	struct conv_plan *plan; /* NULL if our own kernel is used */
	struct gpu_form weight;
	void *weight_fn;
	struct gpu_pack weight_pack;
	size_t plan_at;
};

static const char *fill_transposed(const struct site *s, struct transposed_state *c)
{
	const struct conv_transpose *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *w = &site_in(s, 1)->shape;
	const char *bad = gpu_window_axes(x);
	struct gpu_deconv *j = &c->job;
	struct window v = {0};

	if (bad)
		return bad;
	if (conv_transpose_window(&v, p, x, w, NULL))
		return "a window that does not fit";
	gpu_window_take(&j->win, &v);
	j->group = p->group;
	j->cin = x->dim[1] / p->group;
	j->cout = w->dim[1];
	j->image = gpu_volume(j->win.in);
	j->pixels = gpu_volume(j->win.out);
	j->window = gpu_volume(j->win.kernel);
	j->n = gpu_count(&site_out(s, 0)->shape);
	return NULL;
}

bool gpu_transposed_accepts(const struct site *s, struct why *w)
{
	struct transposed_state c = {0};
	const char *bad = fill_transposed(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

/*
 * Describes to cuDNN the convolution whose gradient this operator is. Returns false if no padding gives that
 * convolution, or if it is too large.
 */
static bool fill_case(const struct site *s, const struct gpu_deconv *j, struct conv_case *k)
{
	const struct gpu_window *w = &j->win;

	conv_case_set(k, s, w, j->group, j->cin, j->cout);
	k->backward = 1;
	k->bias = site_in(s, 2) != NULL;
	for (int i = 0; i < GPU_SPACE; i++) {
		int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
		k->end[i] = (w->in[i] - 1) * w->stride[i] + reach - w->out[i] - w->begin[i];
		if (k->end[i] < 0) /* output_padding adds outputs that no window reaches */
			k->end[i] = 0;
		int64_t all = w->out[i] + w->begin[i] + k->end[i];
		if (w->begin[i] < 0 || all < reach || (all - reach) / w->stride[i] + 1 != w->in[i])
			return false;
	}
	return k->type != DT_F64 && j->n > 0 && k->batch * k->cin * j->image > 0 &&
	       j->n < INT32_MAX && k->batch * k->cin * j->image < INT32_MAX;
}

static int pack_weight(const struct call *c, void *dst, const void *src, const void *arg)
{
	const struct transposed_state *s = arg;
	struct gpu_pack job = s->weight_pack;

	job.x = src;
	job.y = dst;
	return gpu_launch(c, s->weight_fn, gpu_grid(job.n), &job, sizeof(job));
}

/* Plans to reorder the weights from [cin][cout][window] to [cin][window][cout], the order that cuDNN reads. */
static int plan_weight(struct site *s, struct step *step, struct transposed_state *c, struct diag *d)
{
	const struct gpu_deconv *j = &c->job;
	struct gpu_pack *p = &c->weight_pack;

	*p = (struct gpu_pack){
		.channels = (int)j->cout,
		.room = (int)j->cout,
		.kernel = {1, 1},
		.step = {1, 1},
		.out = {(int)(j->win.kernel[0] * j->win.kernel[1]), (int)j->win.kernel[2]},
		.xs = {j->cout * j->window, j->window, j->win.kernel[2], 1}};
	p->n = j->cin * j->group * j->cout * j->window;
	c->weight_fn = gpu_sized(s, "conv", "pack", gpu_type(s, 0), d);
	if (!c->weight_fn)
		return -E_DEVICE;
	return gpu_form_take(s, step, 1, "last", (size_t)(p->n * gpu_size(gpu_type(s, 0))),
			     pack_weight, c, &c->weight, d);
}

static int library_reshape(struct site *s, struct step *step, struct transposed_state *c,
			   struct diag *d)
{
	enum layout *want, *give;
	int err = plan_weight(s, step, c, d);

	c->device = s->device;
	gpu_layouts(s, step, &want, &give);
	want[0] = gpu_channels_last(&site_in(s, 0)->shape);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	c->plan_at = step->workspace;
	step->workspace += conv_plan_workspace(c->plan);
	return err;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* Returns the largest divisor of n that does not exceed `limit`, or 1 if there is none. */
static int64_t largest_divisor(int64_t n, int64_t limit)
{
	int64_t d = limit < n ? limit : n;

	while (d > 1 && n % d)
		d--;
	return d < 1 ? 1 : d;
}

/* Fills the job of the kernel gather_taps. Returns false if a size exceeds the kernel's 32-bit numbers. */
static bool fill_taps(const struct gpu_deconv *j, struct gpu_gather_taps *t)
{
	const struct gpu_window *w = &j->win;

	if (j->image * j->window >= INT32_MAX || j->n >= INT32_MAX || j->group * j->cout >= MAX_EXTENT)
		return false;
	*t = (struct gpu_gather_taps){.maps = gpu_divisor(j->group * j->cout),
				      .pixels = gpu_divisor(j->pixels),
				      .image = (int)j->image,
				      .window = (int)j->window};
	for (int i = 0; i < GPU_SPACE; i++) {
		if (w->begin[i] >= MAX_EXTENT || w->begin[i] <= -MAX_EXTENT ||
		    w->stride[i] >= MAX_EXTENT || w->kernel[i] * w->dilation[i] >= MAX_EXTENT ||
		    w->out[i] >= MAX_EXTENT)
			return false;
		int64_t both = common_divisor(w->stride[i], w->dilation[i]);
		t->in[i] = (int)w->in[i];
		t->out[i] = gpu_divisor(w->out[i]);
		t->kernel[i] = (int)w->kernel[i];
		t->stride[i] = gpu_divisor(w->stride[i]);
		t->dilation[i] = (int)w->dilation[i];
		t->begin[i] = (int)w->begin[i];
		t->every[i] = (int)(w->stride[i] / both);
		t->back[i] = (int)(w->dilation[i] / both);
	}
	return true;
}

/*
 * Chooses what one product computes: the columns of several images, of all groups of one image, or of some output
 * channels of one group.
 */
static void split_columns(const struct gpu_deconv *j, int64_t images, struct columns *c)
{
	int64_t plane = j->cout * j->window * j->image * (int64_t)c->size;
	int64_t most = COLUMN_BYTES / plane;

	c->planes = j->group > 1 ? (most < j->group ? 1 : j->group) : largest_divisor(images, most);
	c->maps = most ? j->cout : largest_divisor(j->cout, COLUMN_BYTES / (plane / j->cout));
}

/* Returns the alignment in bytes that the operands of all products have, or 0 for the usual 64. */
static int32_t columns_align(const struct gpu_deconv *j, const struct columns *c)
{
	uint64_t apart = (uint64_t)(c->planes * j->cin * j->image) * c->size;

	if (c->maps < j->cout)
		apart |= (uint64_t)(c->maps * j->window) * c->size;
	if (j->group > 1 && c->planes == 1)
		apart |= (uint64_t)(j->cin * j->cout * j->window) * c->size;
	apart &= -apart;
	return apart < 64 ? (int32_t)apart : 0;
}

/* Describes the product W^T * X, [maps * window, cin] by [cin, image]. */
static struct blaslt_job columns_job(const struct site *s, const struct gpu_deconv *j,
				     const struct columns *c)
{
	int64_t m = c->maps * j->window;

	return (struct blaslt_job){.type = (int32_t)gpu_type(s, 0),
				   .trans_a = 1,
				   .align = columns_align(j, c),
				   .m = m,
				   .n = j->image,
				   .k = j->cin,
				   .lda = j->cout * j->window,
				   .ldb = j->image,
				   .ldy = j->image,
				   .batch = c->planes,
				   .step_a = j->group > 1 ? j->cin * j->cout * j->window : 0,
				   .step_b = j->cin * j->image,
				   .step_y = m * j->image,
				   .alpha = 1};
}

/*
 * Plans the products and sets *is to whether they are used. Returns -code if cuBLASLt accepted a product but cannot
 * prepare it.
 */
static int columns_reshape(struct site *s, struct step *step, struct transposed_state *t, bool *is,
			   struct diag *d)
{
	const struct gpu_deconv *j = &t->job;
	struct columns *c = &t->columns;
	enum dtype type = gpu_type(s, 0);
	int64_t images = site_in(s, 0)->shape.dim[0];

	*is = (type == DT_F64 || (type == DT_F32 && s->config->precision != PRECISION_TF32)) &&
	      j->cin >= COLUMN_CHANNELS && j->n > 0 && j->image > 0 && fill_taps(j, &c->job);
	if (!*is)
		return 0;
	c->size = (size_t)gpu_size(type);
	split_columns(j, images, c);
	const struct blaslt_job job = columns_job(s, j, c);
	*is = c->maps * j->window * j->image * c->planes < INT32_MAX && blaslt_takes(s, &job, NULL);
	if (!*is)
		return 0;
	c->lt = blaslt_product(s, &job, &c->lt_room, d);
	c->fn = gpu_typed(s, "deconv", "gather_taps", type, d);
	c->at = gpu_room(step, (size_t)(c->planes * c->maps * j->window * j->image) * c->size);
	c->at_lt = gpu_room(step, c->lt_room);
	c->job.n = (int)(c->planes * c->maps * j->pixels);
	return c->lt && c->fn ? 0 : -E_LIBRARY;
}

static int columns_run(const struct call *call, const struct transposed_state *t)
{
	const struct gpu_deconv *j = &t->job;
	const struct columns *c = &t->columns;
	struct gpu_gather_taps job = c->job;
	int64_t planes = call->in[0]->shape.dim[0] * j->group, rows = c->planes * c->maps;
	const char *x = gpu_data(call, 0), *w = gpu_data(call, 1);
	void *columns = gpu_at(call, c->at);
	int err = 0;

	job.columns = columns;
	job.b = gpu_data(call, 2);
	job.y = gpu_out(call, 0);
	for (int64_t row = 0; row < planes * j->cout && !err; row += rows) {
		int64_t plane = row / j->cout, map = row % j->cout, group = plane % j->group;
		int64_t at = (group * j->cin * j->cout + map) * j->window;
		const struct blaslt_args a = {.a = w + (size_t)at * c->size,
					      .b = x + (size_t)(plane * j->cin * j->image) * c->size,
					      .y = columns,
					      .workspace = gpu_at(call, c->at_lt),
					      .workspace_bytes = c->lt_room};
		job.first = row;
		job.map = (int)(row % (j->group * j->cout));
		err = blaslt_run(call, c->lt, &a);
		if (!err)
			err = gpu_launch(call, c->fn, gpu_grid(job.n), &job, sizeof(job));
	}
	return err;
}

/*
 * cuDNN computes a gradient as a convolution whose image is surrounded by zeros. Of a weight that is NaN or infinite these make
 * NaN, in outputs which no input reaches through that weight.
 */
static bool is_finite_weight(const struct site *s)
{
	const struct tensor *w = site_known(s, 1);

	return w && site_is_weight(s, 1) && isfinite(tensor_largest(w));
}

int gpu_transposed_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct transposed_state *c = arena_new(s->plan_arena, struct transposed_state);
	struct why why = {.arena = s->plan_arena};
	struct conv_case k;
	bool columns;

	fill_transposed(s, c);
	step->state = c;
	int err = columns_reshape(s, step, c, &columns, d);
	if (err || columns)
		return err;
	if (!is_finite_weight(s))
		refuse(&why, "weights that may hold NaN or infinity");
	else if (fill_case(s, &c->job, &k))
		c->plan = conv_plan_get(s->device, &k, &why);
	if (c->plan)
		return library_reshape(s, step, c, d);
	if (gpu_type(s, 0) != DT_F64)
		gpu_fell_back(s, "by our own transposed convolution",
			      why.text ? why.text : "a form that cuDNN does not have");
	c->fn = gpu_typed(s, "deconv", "deconv", gpu_type(s, 0), d);
	return c->fn ? 0 : -E_DEVICE;
}

int gpu_transposed_run(const struct call *c)
{
	const struct transposed_state *s = c->step->state;
	struct gpu_deconv job = s->job;

	if (s->columns.lt)
		return columns_run(c, s);
	if (s->plan) {
		struct conv_args a = {.x = gpu_data(c, 0),
				      .b = gpu_data(c, 2),
				      .y = gpu_out(c, 0),
				      .workspace = (char *)c->workspace + s->plan_at};
		int err = gpu_form_give(c, 1, pack_weight, s, &s->weight, &a.w);
		return err ? err : conv_plan_run(c, s->plan, &a);
	}
	job.x = gpu_data(c, 0);
	job.w = gpu_data(c, 1);
	job.b = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

void gpu_transposed_drop(struct step *step)
{
	struct transposed_state *s = step->state;

	if (!s)
		return;
	blaslt_drop(s->columns.lt);
	if (s->plan)
		conv_plan_put(s->device, s->plan);
}

/* ---- DeformConv ------------------------------------------------------------------------------- */

struct deform_state {
	void *fn;
	struct gpu_deform job;
};

static const char *fill_deform(const struct site *s, struct gpu_deform *j)
{
	const struct deform_conv *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *w = &site_in(s, 1)->shape;
	struct window v = {0};

	if (x->rank != 4)
		return "no image";
	if (window_set(&v, &p->window, x, w, false, NULL))
		return "a window that does not fit";
	for (uint32_t i = 2; i < 5; i++)
		if (site_in(s, i) && gpu_type(s, i) != gpu_type(s, 0))
			return "inputs of two types";
	j->n = gpu_count(&site_out(s, 0)->shape);
	j->group = p->group;
	j->offsets = p->offset_group;
	j->cin = w->dim[1];
	j->cout = w->dim[0] / p->group;
	for (int i = 0; i < 2; i++) {
		j->in[i] = v.in[i];
		j->out[i] = v.out[i];
		j->kernel[i] = v.kernel[i];
		j->stride[i] = v.stride[i];
		j->dilation[i] = v.dilation[i];
		j->begin[i] = v.begin[i];
	}
	return NULL;
}

bool gpu_deform_accepts(const struct site *s, struct why *w)
{
	struct gpu_deform j = {0};
	const char *bad = fill_deform(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_deform_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct deform_state *c = arena_new(s->plan_arena, struct deform_state);

	fill_deform(s, &c->job);
	c->fn = gpu_typed(s, "deconv", "deform", gpu_type(s, 0), d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

int gpu_deform_run(const struct call *c)
{
	const struct deform_state *s = c->step->state;
	struct gpu_deform job = s->job;

	job.x = gpu_data(c, 0);
	job.w = gpu_data(c, 1);
	job.offset = gpu_data(c, 2);
	job.b = gpu_data(c, 3);
	job.mask = gpu_data(c, 4);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- CausalConvWithState ---------------------------------------------------------------------- */

int gpu_causal_reshape(struct site *s, struct step *step, struct diag *d)
{
	step->state = gpu_typed(s, "deconv", "causal", gpu_type(s, 0), d);
	return step->state ? 0 : -E_DEVICE;
}

int gpu_causal_run(const struct call *c)
{
	const struct causal_conv *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	int64_t taps = c->in[1]->shape.dim[2];
	struct gpu_causal job = {.x = gpu_data(c, 0),
				 .w = gpu_data(c, 1),
				 .b = gpu_data(c, 2),
				 .past = gpu_data(c, 3),
				 .y = gpu_out(c, 0),
				 .present = gpu_out(c, 1),
				 .channels = c->in[1]->shape.dim[0],
				 .length = x->dim[p->channels_last ? 1 : 2],
				 .kernel = taps,
				 .dilation = p->dilation > 1 ? p->dilation : 1,
				 .state = causal_state(p, taps),
				 .window = p->state_window > 0 ? p->state_window : 1,
				 .silu = p->activation != CAUSAL_NONE,
				 .last = p->channels_last != 0};

	job.rows = x->dim[0] * job.channels;
	int64_t state = job.rows * job.state, n = job.rows * job.length + job.window * state;
	if (job.past) /* the newest of the states is the last */
		job.past = (const char *)job.past +
			   (job.window - 1) * state * gpu_size(tensor_dtype(c->in[3]));
	return n > 0 ? gpu_launch(c, c->step->state, gpu_grid(n), &job, sizeof(job)) : 0;
}
