/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/channels_last.h"

void gpu_layout_strides(const struct shape *s, enum layout layout, int64_t *strides)
{
	int64_t step = 1;

	gpu_strides(s, strides);
	if (layout != LAYOUT_CHANNELS_LAST)
		return;
	strides[1] = 1;
	step = s->dim[1];
	for (int i = s->rank - 1; i >= 2; i--) {
		strides[i] = step;
		step *= s->dim[i];
	}
	strides[0] = step;
}

void gpu_layouts(struct site *s, struct step *step, enum layout **want, enum layout **give)
{
	uint32_t nin = s->node->nin + s->node->ncap;

	/* LAYOUT_ROW is 0 */
	*want = arena_new_n(s->plan_arena, enum layout, nin + 1);
	*give = arena_new_n(s->plan_arena, enum layout, s->node->nout + 1);
	step->want = *want;
	step->give = *give;
}

/* Launches a kernel flip_SIZE, which transposes job.batch matrices. */
static int launch_flip(const struct call *c, void *fn, struct gpu_flip job, const void *x, void *y)
{
	int64_t rows = (job.rows + 31) / 32;
	struct gpu_grid g = {(unsigned)((job.cols + 31) / 32),
			     (unsigned)(rows < MAX_GRID_YZ ? rows : MAX_GRID_YZ),
			     (unsigned)(job.batch < MAX_GRID_YZ ? job.batch : MAX_GRID_YZ), 256, 0};

	job.x = x;
	job.y = y;
	return job.batch && job.rows && job.cols ? gpu_launch(c, fn, g, &job, sizeof(job)) : 0;
}

/* Reorder steps have no reshape function, so that each run looks up the kernel here; that is only a table look-up. */
static int reorder_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	struct tensor *y = c->out[0];
	struct site s = {.device = cuda_device(c->stream)};
	int64_t pixels = 1;

	if (x->layout == y->layout)
		return gpu_copy(c, y->data, x->data, y->bytes);
	if (x->layout > LAYOUT_CHANNELS_LAST || y->layout > LAYOUT_CHANNELS_LAST)
		return call_fail(c, E_INTERNAL, "a row-major or channels-last tensor",
				 "another layout");
	for (int i = 2; i < x->shape.rank; i++)
		pixels *= x->shape.dim[i];
	void *fn = gpu_sized(&s, "conv", "flip", tensor_dtype(x), c->diag);
	bool to_last = y->layout == LAYOUT_CHANNELS_LAST;
	struct gpu_flip job = {.batch = x->shape.dim[0],
			       .rows = to_last ? x->shape.dim[1] : pixels,
			       .cols = to_last ? pixels : x->shape.dim[1]};
	return fn ? launch_flip(c, fn, job, x->data, y->data) : -E_DEVICE;
}

const struct kernel gpu_reorder = {.op = "Identity", .run = reorder_run};

/* ---- elementwise ------------------------------------------------------------------------------ */

enum layout gpu_elementwise_layout(struct site *s, struct step *step)
{
	const struct vinfo *y = site_out(s, 0);
	enum layout *want, *give, found = LAYOUT_ROW;

	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct vinfo *v = site_in(s, i);
		if (v && v->layout == LAYOUT_CHANNELS_LAST && v->shape.rank == y->shape.rank)
			found = gpu_channels_last(&y->shape);
	}
	if (found == LAYOUT_ROW)
		return found;
	gpu_layouts(s, step, &want, &give);
	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct vinfo *v = site_in(s, i);
		if (v && v->shape.rank == y->shape.rank)
			want[i] = gpu_channels_last(&v->shape);
	}
	for (uint32_t i = 0; i < s->node->nout; i++)
		if (site_out(s, i))
			give[i] = found;
	return found;
}

/* Moves dimension 1 (the channels) behind the others, which is the order in memory. */
static void move_channels_last(const int64_t *from, int rank, int64_t *to)
{
	to[0] = from[0];
	for (int r = 2; r < rank; r++)
		to[r - 1] = from[r];
	to[rank - 1] = from[1];
}

bool gpu_broadcast_as(enum layout layout, const struct shape *out, int n,
		      const struct shape *const *in, struct gpu_dims *d, int64_t (*step)[GPU_DIMS])
{
	int64_t wide[GPU_PW_MAX][MAX_RANK] = {{0}}, dim[MAX_RANK], st[MAX_RANK], full[MAX_RANK];

	if (layout != LAYOUT_CHANNELS_LAST)
		return gpu_broadcast(out, n, in, d, step);
	move_channels_last(out->dim, out->rank, dim);
	for (int k = 0; k < n; k++) {
		if (in[k]->rank == out->rank) {
			gpu_layout_strides(in[k], gpu_channels_last(in[k]), st);
			for (int r = 0; r < out->rank; r++)
				full[r] = in[k]->dim[r] == 1 ? 0 : st[r];
		} else {
			shape_broadcast_strides(in[k], out, full);
		}
		move_channels_last(full, out->rank, wide[k]);
	}
	return gpu_collapse(out->rank, dim, n, wide, d, step);
}

/* ---- multiplication by one number for each image and channel ---------------------------------- */

struct scale_state {
	void *fn;
	uint32_t full;	/* index of the input that has pixels */
	int64_t vector; /* elements that a thread scales at a time */
	struct gpu_scale job;
};

static bool is_scale(const struct site *s, uint32_t full)
{
	const struct vinfo *x = site_in(s, full), *f = site_in(s, 1 - full);

	if (!x || !f || !gpu_is_last(s, full) || f->type.dtype != x->type.dtype ||
	    f->shape.rank != x->shape.rank || f->shape.dim[0] != x->shape.dim[0] ||
	    f->shape.dim[1] != x->shape.dim[1])
		return false;
	for (int r = 2; r < f->shape.rank; r++)
		if (f->shape.dim[r] != 1)
			return false;
	return x->shape.dim[0] <= INT32_MAX &&
	       shape_span(&x->shape, 1, x->shape.rank) <= UINT32_MAX / 2;
}

bool gpu_scale_accepts(const struct site *s, struct why *w)
{
	return is_scale(s, 0) || is_scale(s, 1) ||
	       refuse(w, "not a channels-last tensor times [N,C,1,1]");
}

int gpu_scale_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct scale_state *c = arena_new(s->plan_arena, struct scale_state);
	enum layout *want, *give;

	c->full = is_scale(s, 0) ? 0 : 1;
	const struct shape *x = &site_in(s, c->full)->shape;
	bool whole = x->dim[1] % (16 / gpu_size(gpu_type(s, 0))) == 0;
	c->job = (struct gpu_scale){.batch = (int)x->dim[0],
				    .channels = (int)x->dim[1],
				    .image = x->dim[0] ? gpu_count(x) / x->dim[0] : 1};
	c->vector = whole ? 16 / gpu_size(gpu_type(s, 0)) : 1;
	c->fn = gpu_typed(s, "conv", whole ? "scale_v" : "scale_1", gpu_type(s, 0), d);
	gpu_layouts(s, step, &want, &give);
	want[c->full] = give[0] = LAYOUT_CHANNELS_LAST;
	gpu_inplace(step, 0, (uint8_t)c->full);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

int gpu_scale_run(const struct call *c)
{
	const struct scale_state *s = c->step->state;
	struct gpu_scale job = s->job;

	job.x = gpu_data(c, s->full);
	job.s = gpu_data(c, 1 - s->full);
	job.y = gpu_out(c, 0);
	if (job.batch < 1 || job.image < 1)
		return 0;
	struct gpu_grid g = gpu_grid(job.image / s->vector);
	g.y = job.batch < MAX_GRID_YZ ? (unsigned)job.batch : MAX_GRID_YZ;
	return gpu_launch_early(c, s->fn, g, &job, sizeof(job));
}
