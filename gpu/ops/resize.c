/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize. The plan contains tables of taps (ops/taps.h): the input positions, with their weights, for each output
 * position of an axis. Each axis whose size changes needs one pass. Floats up to 32 bits and integers up to 16 bits are
 * computed in fp32, other types in fp64; the results are rounded once. Mode nearest copies elements of any type.
 */
#include "gpu/kernels/resize.h"
#include "gpu/launch/channels_last.h"
#include "gpu/ops/task_rows.h"
#include "ops/taps.h"

#include <math.h>

GPU_SAME(GPU_NEAREST_PREFER_FLOOR, NEAREST_PREFER_FLOOR);
GPU_SAME(GPU_NEAREST_PREFER_CEIL, NEAREST_PREFER_CEIL);
GPU_SAME(GPU_NEAREST_FLOOR, NEAREST_FLOOR);
GPU_SAME(GPU_NEAREST_CEIL, NEAREST_CEIL);
GPU_SAME(GPU_NEAREST_SIMPLE, NEAREST_SIMPLE);

struct resize_axis {
	int64_t in, out; /* sizes of the axis; axes are in the order of memory */
	struct taps taps;
	size_t index, weight, outside; /* byte offsets in the tables */
};

struct resize_state {
	struct device *device;
	struct buffer tables;
	int rank, npass;
	struct resize_axis axis[RESIZE_AXES];
	struct gpu_resize_pass pass[RESIZE_AXES];
	void *fn[RESIZE_AXES];
	size_t half[2]; /* workspace offsets of the two buffers for results between passes */
	bool integers, crop, nearest;
	void *in_fn, *out_fn, *outside_fn;
	size_t in_at, out_at;
	struct gpu_resize_whole whole;
	struct gpu_resize_outside outside;
	/* Kernel that computes the tables in each run, if the region to crop is known only at run time. */
	void *region_fn;
	int nregions;
	struct gpu_resize_region region[RESIZE_AXES];
};

/* Returns whether the region to crop is known only at run time. */
static bool region_known_late(const struct site *s)
{
	const struct resize *p = s->node->params;

	return p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE && site_in(s, 1) &&
	       !site_known(s, 1);
}

static bool in_f32(enum dtype t)
{
	return t == DT_F32 || t == DT_F16 || t == DT_BF16 ||
	       (dtype_class(t) != DT_FLOAT && dtype_bits(t) <= 16);
}

/* Returns whether the node has input i. ONNX treats an empty list as a missing input. */
static bool is_given(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);

	return v && !(v->shape.rank == 1 && v->shape.dim[0] == 0);
}

static const char *find_sizes(const struct site *s, struct resize_sizes *r)
{
	const struct resize *p = s->node->params;
	const struct tensor *scales = site_in(s, 2) ? site_known(s, 2) : NULL,
			    *sizes = site_in(s, 3) ? site_known(s, 3) : NULL;

	if ((is_given(s, 2) && !scales) || (is_given(s, 3) && !sizes))
		return "scales or sizes that are not known";
	return resize_sizes(p, &site_in(s, 0)->shape, scales, sizes, r, NULL);
}

static bool resize_accepts(const struct site *s, struct why *w)
{
	const struct resize *p = s->node->params;
	bool copies = p->mode == RESIZE_NEAREST &&
		      p->coordinate_transformation_mode != COORD_TF_CROP_AND_RESIZE;
	struct resize_sizes r;
	const char *bad = find_sizes(s, &r);

	if (bad)
		return refuse(w, "%s", bad);
	if (!copies && !(T_BIT(gpu_type(s, 0)) & (T_NUMBERS | T_BOOL)))
		return refuse(w, "interpolation of %s", dtype_name(gpu_type(s, 0)));
	if (region_known_late(s) && gpu_count(&site_in(s, 1)->shape) < 2 * r.naxes)
		return refuse(w, "a region of too few numbers");
	for (int d = 0; d < r.rank; d++)
		if (r.out[d] >= INT32_MAX || site_in(s, 0)->shape.dim[d] >= INT32_MAX)
			return refuse(w, "a dimension of 2^31 or more");
	if (gpu_count(&site_in(s, 0)->shape) == 0 && gpu_count(&site_out(s, 0)->shape))
		return refuse(w, "an input without elements");
	return true;
}

static double roi_at(const struct site *s, int64_t i, double absent)
{
	const struct tensor *roi = site_in(s, 1) ? site_known(s, 1) : NULL;

	return roi && i < tensor_count(roi) ? elem_f64(tensor_dtype(roi), roi->data, i) : absent;
}

/*
 * Returns the position of dimension d in the order of memory. If `last` is true, the channels (dimension 1) are last.
 */
static int memory_axis(int d, int rank, bool last)
{
	return !last ? d : d == 0 ? 0 : d == 1 ? rank - 1 : d - 1;
}

static bool make_axes(const struct site *s, struct resize_state *c, const struct resize_sizes *r,
		      bool last)
{
	const struct resize *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;

	c->rank = x->rank;
	for (int d = 0; d < x->rank; d++) {
		struct taps_axis a = {.p = p, .in = x->dim[d], .out = r->out[d], .scale = r->scale[d]};
		struct resize_axis *to = &c->axis[memory_axis(d, x->rank, last)];
		size_t n;
		to->in = to->taps.in = x->dim[d];
		to->out = to->taps.out = r->out[d];
		if (!taps_change(p, r, x, d))
			continue;
		a.roi0 = roi_at(s, r->axis[d], 0);
		a.roi1 = roi_at(s, r->axis[d] + r->naxes, 1);
		to->taps.n = taps_count(p, a.scale);
		if (to->taps.n < 1 || to->taps.n > INT32_MAX ||
		    !size_mul((size_t)to->taps.n, (size_t)to->out, &n) || n > (size_t)1 << 28)
			return false;
		to->taps.index = arena_new_n(s->plan_arena, int64_t, n + 1);
		to->taps.weight = arena_new_n(s->plan_arena, double, n + 1);
		to->taps.outside = arena_new_n(s->plan_arena, bool, (size_t)to->out + 1);
		taps_fill(&a, &to->taps);
	}
	return true;
}

/*
 * Sets the offsets of all tables in one buffer and returns the size of the buffer. Writes the tables to `to` unless it
 * is NULL.
 */
static size_t lay_tables(struct resize_state *c, bool narrow, char *to)
{
	size_t at = 0;

	for (int d = 0; d < c->rank; d++) {
		struct resize_axis *a = &c->axis[d];
		size_t n = (size_t)(a->taps.n * a->out);
		a->index = at;
		at += (n * 4 + 15) / 16 * 16;
		a->weight = at;
		at += (n * (narrow ? 4 : 8) + 15) / 16 * 16;
		a->outside = at;
		at += ((size_t)a->out + 15) / 16 * 16;
		for (size_t i = 0; to && i < n; i++) {
			int32_t index = (int32_t)a->taps.index[i];
			float weight = (float)a->taps.weight[i];
			memcpy(to + a->index + 4 * i, &index, 4);
			if (narrow)
				memcpy(to + a->weight + 4 * i, &weight, 4);
			else
				memcpy(to + a->weight + 8 * i, &a->taps.weight[i], 8);
		}
		if (to && a->taps.n)
			memcpy(to + a->outside, a->taps.outside, (size_t)a->out);
	}
	return at;
}

static int upload_tables(struct site *s, struct resize_state *c, bool narrow, struct diag *d)
{
	size_t bytes = lay_tables(c, narrow, NULL);
	char *host = mem_zalloc(bytes + 1, MEM_STAGING);
	int err = host ? cuda_alloc(s->device, bytes + 1, MEM_WORKSPACE, &c->tables, d)
		       : FAIL(d, E_MEMORY, .expected = "memory for tables");

	if (!err) {
		c->device = s->device;
		lay_tables(c, narrow, host);
		err = cuda_copy(cuda_stream(s->device), c->tables.ptr, 1, host, 0, bytes, d);
	}
	if (!err)
		err = cuda_wait(cuda_stream(s->device), d);
	mem_free(host);
	return err;
}

/* Smallest and largest value of an integer type. */
static void integer_range(enum dtype t, double *low, double *high)
{
	int bits = (int)dtype_bits(t);
	bool is_signed = dtype_class(t) == DT_INT;

	*low = is_signed ? -ldexp(1, bits - 1) : 0;
	*high = t == DT_BOOL ? 1 : ldexp(1, bits - (is_signed ? 1 : 0)) - 1;
}

/*
 * Finds the kernel of pass k. For nearest it depends only on t. Otherwise passes read and write the type in which
 * they compute, except that for floats the first pass reads the tensor's type t and the last pass writes it
 * (integers are converted by kernels of their own).
 */
static int pass_kernel(struct site *s, struct resize_state *c, int k, enum dtype t, struct diag *d)
{
	bool narrow = in_f32(t);
	enum dtype mid = narrow ? DT_F32 : DT_F64, x = k || c->integers ? mid : t,
		   y = k + 1 < c->npass || c->integers ? mid : t;
	char name[32];

	snprintf(name, sizeof(name), "pass_%s_%s", dtype_name(x), dtype_name(y));
	c->fn[k] = c->nearest ? gpu_sized(s, "resize", "pick", t, d)
			      : gpu_kernel(s, "resize", name, d);
	return c->fn[k] ? 0 : -E_DEVICE;
}

static int make_passes(struct site *s, struct step *step, struct resize_state *c, struct diag *d)
{
	const struct resize *p = s->node->params;
	enum dtype t = gpu_type(s, 0);
	bool rounds = p->antialias && dtype_class(t) != DT_FLOAT, changed[RESIZE_AXES];
	int64_t in[RESIZE_AXES], out[RESIZE_AXES], size[RESIZE_AXES], largest[2] = {0, 0};
	int order[RESIZE_AXES], err = 0;

	for (int a = 0; a < c->rank; a++) {
		in[a] = size[a] = c->axis[a].in;
		out[a] = c->axis[a].out;
		changed[a] = c->axis[a].taps.n != 0;
	}
	c->npass = taps_order(c->rank, in, out, changed, rounds, order);
	for (int k = 0; k < c->npass && !err; k++) {
		int a = order[k];
		struct gpu_resize_pass *q = &c->pass[k];
		*q = (struct gpu_resize_pass){.n = 1,
					      .in = in[a],
					      .out = out[a],
					      .inner = 1,
					      .taps = (int)c->axis[a].taps.n,
					      .whole = rounds};
		integer_range(t, &q->low, &q->high);
		q->index = (const int32_t *)((char *)c->tables.ptr + c->axis[a].index);
		q->weight = (char *)c->tables.ptr + c->axis[a].weight;
		size[a] = out[a];
		for (int b = 0; b < c->rank; b++) {
			q->n *= size[b];
			q->inner *= b > a ? size[b] : 1;
		}
		if (k + 1 < c->npass && q->n > largest[k % 2])
			largest[k % 2] = q->n;
		err = pass_kernel(s, c, k, t, d);
	}
	for (int i = 0; i < 2; i++)
		c->half[i] = gpu_room(step, (size_t)(largest[i] * (c->nearest  ? gpu_size(t)
								   : in_f32(t) ? 4
									       : 8)));
	return err;
}

static int find_more_kernels(struct site *s, struct step *step, struct resize_state *c, struct diag *d)
{
	const struct resize *p = s->node->params;
	enum dtype t = gpu_type(s, 0), mid = in_f32(t) ? DT_F32 : DT_F64;
	int64_t nx = gpu_count(&site_in(s, 0)->shape), ny = gpu_count(&site_out(s, 0)->shape);
	bool good = true;

	if (c->integers) {
		c->in_at = gpu_room(step, (size_t)nx * 8);
		c->out_at = gpu_room(step, (size_t)ny * 8);
		c->whole.type = (int)t;
		c->whole.drop = taps_linear(p) && !p->antialias;
		integer_range(t, &c->whole.low, &c->whole.high);
		c->in_fn = gpu_typed(s, "resize", "whole_in", mid, d);
		c->out_fn = gpu_typed(s, "resize", "whole_out", mid, d);
		good = c->in_fn && c->out_fn;
	}
	if (c->crop) {
		c->outside = (struct gpu_resize_outside){
			.n = ny, .rank = c->rank, .value = (double)p->extrapolation_value};
		for (int a = 0; a < c->rank; a++) {
			c->outside.dim[a] = c->axis[a].out;
			c->outside.outside[a] = c->axis[a].taps.n ? (const uint8_t *)c->tables.ptr +
									    c->axis[a].outside
								  : NULL;
		}
		c->outside_fn = gpu_typed(s, "resize", "outside", c->integers ? mid : t, d);
		good = good && c->outside_fn;
	}
	return good ? 0 : -E_DEVICE;
}

/* Plans the kernel that computes, in each run, the tables of the axes whose size changes. */
static int plan_regions(struct site *s, struct resize_state *c, const struct resize_sizes *r,
			bool last, struct diag *d)
{
	const struct resize *p = s->node->params;
	char *tables = c->tables.ptr;

	for (int i = 0; i < c->rank; i++) {
		const struct resize_axis *a = &c->axis[memory_axis(i, c->rank, last)];
		if (!a->taps.n)
			continue;
		c->region[c->nregions++] = (struct gpu_resize_region){
			.index = (int32_t *)(void *)(tables + a->index),
			.weight = tables + a->weight,
			.outside = (uint8_t *)tables + a->outside,
			.in = a->in,
			.out = a->out,
			.begin = r->axis[i],
			.end = r->axis[i] + r->naxes,
			.taps = (int)a->taps.n,
			.type = (int)gpu_type(s, 1),
			.narrow = in_f32(gpu_type(s, 0)),
			.nearest = p->mode == RESIZE_NEAREST,
			.linear = taps_linear(p),
			.nearest_mode = p->nearest_mode,
			.exclude = p->exclude_outside != 0,
			.scale = r->scale[i],
			.stretch = p->antialias && r->scale[i] < 1 ? r->scale[i] : 1,
			.cubic = (double)p->cubic_coeff_a};
	}
	c->region_fn = gpu_kernel(s, "resize", "region_taps", d);
	return c->region_fn ? 0 : -E_DEVICE;
}

static int resize_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct resize *p = s->node->params;
	struct resize_state *c = arena_new(s->plan_arena, struct resize_state);
	enum dtype t = gpu_type(s, 0);
	struct resize_sizes r;
	enum layout *want, *give;
	bool last = gpu_is_last(s, 0);

	find_sizes(s, &r);
	step->state = c;
	if (shape_count(&site_out(s, 0)->shape) == 0)
		return 0; /* an empty output has no taps */
	step->unread = region_known_late(s) ? ~UINT64_C(3) : ~UINT64_C(1);
	c->crop = p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE;
	c->nearest = p->mode == RESIZE_NEAREST && !c->crop;
	c->integers = !c->nearest && dtype_class(t) != DT_FLOAT;
	if (last) {
		gpu_layouts(s, step, &want, &give);
		want[0] = LAYOUT_CHANNELS_LAST;
		give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	}
	if (!make_axes(s, c, &r, last))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Resize");
	int err = upload_tables(s, c, in_f32(t), d);
	if (!err)
		err = make_passes(s, step, c, d);
	if (!err && region_known_late(s))
		err = plan_regions(s, c, &r, last, d);
	return err ? err : find_more_kernels(s, step, c, d);
}

static int run_whole(const struct call *c, const struct resize_state *s, void *fn, const void *x,
		     void *y, int64_t n)
{
	struct gpu_resize_whole job = s->whole;

	job.x = x;
	job.y = y;
	job.n = n;
	return gpu_launch(c, fn, gpu_grid(n), &job, sizeof(job));
}

static int resize_run(const struct call *c)
{
	const struct resize_state *s = c->step->state;
	char *work = c->workspace;
	const void *x = gpu_data(c, 0);
	void *out = gpu_out(c, 0), *y = s->integers ? work + s->out_at : out;
	int64_t ny = tensor_count(c->out[0]);
	int err = 0;

	if (!ny)
		return 0;
	for (int i = 0; i < s->nregions && !err; i++) {
		struct gpu_resize_region job = s->region[i];
		job.roi = gpu_data(c, 1);
		err = gpu_launch(c, s->region_fn, gpu_grid(job.out), &job, sizeof(job));
	}
	if (s->integers && !err) {
		err = run_whole(c, s, s->in_fn, x, work + s->in_at, tensor_count(c->in[0]));
		x = work + s->in_at;
	}
	for (int k = 0; k < s->npass && !err; k++) {
		struct gpu_resize_pass job = s->pass[k];
		job.x = x;
		job.y = k + 1 < s->npass ? work + s->half[k % 2] : y;
		err = gpu_launch(c, s->fn[k], gpu_grid(job.n), &job, sizeof(job));
		x = job.y;
	}
	if (!err && !s->npass && !s->integers)
		err = gpu_copy(c, out, x, c->out[0]->bytes);
	if (!err && s->crop) {
		struct gpu_resize_outside job = s->outside;
		job.y = s->npass || !s->integers ? y : (void *)(uintptr_t)x;
		err = gpu_launch(c, s->outside_fn, gpu_grid(job.n), &job, sizeof(job));
	}
	if (!err && s->integers)
		err = run_whole(c, s, s->out_fn, s->npass ? y : x, out, ny);
	return err;
}

static void resize_drop(struct step *step)
{
	struct resize_state *c = step->state;

	if (c && c->tables.ptr)
		cuda_free(c->device, &c->tables);
}

const struct kernel gpu_resize[] = {{.op = "Resize",
				     .types = T_MOVED,
				     .accepts = resize_accepts,
				     .reshape = resize_reshape,
				     .run = resize_run,
				     .drop = resize_drop},
				    GPU_RESIZE_ROWS,
				    {0}};
