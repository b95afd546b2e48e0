/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GridSample, AffineGrid, RoiAlign, Col2Im and the less common pools and convolutions. Their kernels are in
 * kernels/sample.cu.
 */
#include "gpu/ops/task_rows.h"

#include "gpu/launch/window.h"
#include "ops/conv.h"
#include "ops/fused.h"
#include "ops/pool.h"
#include "ops/resize.h"

GPU_SAME(GPU_GRID_LINEAR, GRID_LINEAR);
GPU_SAME(GPU_GRID_NEAREST, GRID_NEAREST);
GPU_SAME(GPU_GRID_CUBIC, GRID_CUBIC);
GPU_SAME(GPU_GRID_ZEROS, GRID_ZEROS);
GPU_SAME(GPU_GRID_BORDER, GRID_BORDER);
GPU_SAME(GPU_GRID_REFLECTION, GRID_REFLECTION);

bool gpu_grid_sample_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank < 3 || x->rank > 5)
		return refuse(w, "sampling in %d dimensions", x->rank - 2);
	return gpu_count(x) > 0 || refuse(w, "nothing to sample");
}

int gpu_grid_sample_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct grid_sample *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct gpu_grid_job job = {.batch = x->dim[0],
				   .channels = x->dim[1],
				   .rank = x->rank - 2,
				   .padding = p->padding_mode,
				   .align = p->align_corners != 0};
	bool wide = !(T_BIT(gpu_type(s, 0)) & (T_F32 | T_F16 | T_BF16 | T_I8 | T_U8 | T_I16 | T_U16));

	job.mode = p->mode == GRID_BILINEAR  ? GRID_LINEAR
		   : p->mode == GRID_BICUBIC ? GRID_CUBIC
					     : p->mode;
	gpu_space(job.in, x->dim + 2, job.rank, 1);
	gpu_space(job.out, y->dim + 2, job.rank, 1);
	int64_t n = job.batch * job.out[0] * job.out[1] * job.out[2];
	return n ? GPU_TASK(s, step, "sample", wide ? "grid_sample_f64" : "grid_sample_f32", &job,
			    n, d)
		 : 0;
}

bool gpu_affine_grid_accepts(const struct site *s, struct why *w)
{
	const struct shape *y = &site_out(s, 0)->shape;

	return (shape_known(y) && (y->rank == 4 || y->rank == 5)) ||
	       refuse(w, "a size that only the run knows");
}

int gpu_affine_grid_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct affine_grid *p = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_grid_job job = {
		.n = gpu_count(y), .rank = y->rank - 2, .align = p->align_corners != 0};

	gpu_space(job.out, y->dim + 1, job.rank, 1);
	step->unread = 2;
	return job.n ? GPU_TASK(s, step, "sample", "affine_grid", &job, job.n, d) : 0;
}

/* ---- regions --------------------------------------------------------------------------------- */

static void fill_roi(const struct site *s, struct gpu_roi *j)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;

	j->n = gpu_count(y);
	j->batch = x->dim[0];
	j->channels = x->dim[1];
	j->height = x->dim[2];
	j->width = x->dim[3];
	j->ph = y->dim[2];
	j->pw = y->dim[3];
}

static bool roi_shapes(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	return (x->rank == 4 && gpu_count(x) > 0 && site_out(s, 0)->shape.rank == 4) ||
	       refuse(w, "no map");
}

bool gpu_roi_align_accepts(const struct site *s, struct why *w)
{
	return roi_shapes(s, w);
}

int gpu_roi_align_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct roi_align *p = s->node->params;
	struct gpu_roi job = {.sampling = p->sampling_ratio,
			      .half = p->coordinate_transformation_mode == ROI_HALF_PIXEL,
			      .kind = p->mode == ROI_MAX,
			      .scale = (double)p->spatial_scale};

	fill_roi(s, &job);
	return job.n ? GPU_TASK(s, step, "sample",
				gpu_type(s, 0) == DT_F64 ? "roi_align_f64" : "roi_align_f32", &job,
				job.n, d)
		     : 0;
}

bool gpu_max_roi_accepts(const struct site *s, struct why *w)
{
	return roi_shapes(s, w);
}

int gpu_max_roi_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct max_roi_pool *p = s->node->params;
	struct gpu_roi job = {.scale = (double)p->spatial_scale};

	fill_roi(s, &job);
	return job.n ? GPU_TASK(s, step, "sample", "max_roi_pool", &job, job.n, d) : 0;
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

static const char *fill_col2im(const struct site *s, struct gpu_col2im *j)
{
	const struct col2im *p = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape;
	const struct tensor *block = site_known(s, 2);
	struct shape weight = {.rank = y->rank, .dim = {1, 1}};
	struct window w = {0};

	if (!block || !shape_known(y) || y->rank < 3 || y->rank > GPU_DIMS)
		return "a block or size that only the run knows";
	for (int i = 2; i < y->rank; i++)
		weight.dim[i] = elem_i64(tensor_dtype(block), block->data, i - 2);
	const char *bad = window_set(&w, &p->window, y, &weight, false, NULL);
	if (bad)
		return "a window that does not fit";
	j->n = gpu_count(y);
	j->window = window_size(&w);
	j->positions = window_outputs(&w);
	j->rank = w.n;
	for (int i = 0; i < w.n; i++) {
		j->image[i] = w.in[i];
		j->block[i] = w.kernel[i];
		j->count[i] = w.out[i];
		j->begin[i] = w.begin[i];
		j->stride[i] = w.stride[i];
		j->dilation[i] = w.dilation[i];
	}
	return NULL;
}

bool gpu_col2im_accepts(const struct site *s, struct why *w)
{
	struct gpu_col2im j = {0};
	const char *bad = fill_col2im(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_col2im_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_col2im job = {0};

	fill_col2im(s, &job);
	step->unread = 6;
	return job.n ? GPU_TASK(s, step, "sample", "col2im", &job, job.n, d) : 0;
}

/* ---- less common pools ----------------------------------------------------------------------- */

static const char *fill_unpool(const struct site *s, struct gpu_unpool *j)
{
	const struct max_unpool *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct shape space;

	if (!shape_known(y) || y->rank > GPU_DIMS || max_unpool_shape(p, x, &space, NULL))
		return "a shape that only the run knows";
	for (int r = 0; r < y->rank; r++)
		if (space.dim[r] > y->dim[r])
			space = *y;
	j->n = gpu_count(x);
	j->count = gpu_count(&space);
	j->rank = y->rank;
	j->size = (int)gpu_size(gpu_type(s, 0));
	for (int r = 0; r < y->rank; r++) {
		j->space[r] = space.dim[r];
		j->y[r] = y->dim[r];
	}
	return NULL;
}

bool gpu_unpool_accepts(const struct site *s, struct why *w)
{
	struct gpu_unpool j = {.n = 0};
	const char *bad = fill_unpool(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_unpool_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_unpool job = {.n = 0};
	struct gpu_fill zero = {.n = gpu_count(&site_out(s, 0)->shape) * gpu_size(gpu_type(s, 0))};

	fill_unpool(s, &job);
	step->unread = 4;
	int err = zero.n ? GPU_TASK(s, step, "create", "fill_bytes", &zero, zero.n / 16 + 1, d) : 0;
	return err || !job.n ? err : GPU_TASK(s, step, "sample", "max_unpool", &job, job.n, d);
}

bool gpu_global_lp_accepts(const struct site *s, struct why *w)
{
	return site_in(s, 0)->shape.rank > 2 || refuse(w, "no planes");
}

int gpu_global_lp_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct global_lp *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_channels job = {.n = shape_span(x, 0, 2),
				   .inner = shape_span(x, 2, x->rank),
				   .alpha = p->old_p > 0 ? (double)p->old_p : (double)p->p};

	return job.n ? gpu_task_add(s, step, "sample", "global_lp", &job, sizeof(job),
				    gpu_blocks(job.n, 256), d)
		     : 0;
}

/* ---- pools and convolutions of any number of dims ---------------------------------------------- */

static void set_window(const struct window *w, struct gpu_window_any *j)
{
	j->rank = w->n;
	j->image = j->pixels = j->window = 1;
	for (int i = 0; i < w->n; i++) {
		j->in[i] = w->in[i];
		j->out[i] = w->out[i];
		j->kernel[i] = w->kernel[i];
		j->stride[i] = w->stride[i];
		j->dilation[i] = w->dilation[i];
		j->begin[i] = w->begin[i];
		j->end[i] = w->end[i];
		j->image *= w->in[i];
		j->pixels *= w->out[i];
		j->window *= w->kernel[i];
	}
}

static bool fill_pool(const struct site *s, struct gpu_window_any *j)
{
	const struct pool *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	const char *name = s->node->op->name;
	struct window w = {0};

	if (x->rank < 3 || window_set(&w, &p->window, x, NULL, p->ceil_mode != 0, NULL))
		return false;
	set_window(&w, j);
	j->kind = name[0] == 'M' ? GPU_POOL_MAX : name[0] == 'A' ? GPU_POOL_AVERAGE : GPU_POOL_LP;
	j->count_pad = j->kind == GPU_POOL_AVERAGE && p->count_include_pad;
	j->column_major = j->kind == GPU_POOL_MAX && p->storage_order;
	j->p = p->old_p > 0 ? (double)p->old_p : (double)p->p;
	j->n = gpu_count(&site_out(s, 0)->shape);
	return true;
}

bool gpu_pool_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_window_any j = {.n = 0};

	return fill_pool(s, &j) || refuse(w, "a window that does not fit");
}

int gpu_pool_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_window_any job = {.n = 0};

	fill_pool(s, &job);
	return job.n ? GPU_TASK(s, step, "sample", "pool_any", &job, job.n, d) : 0;
}

/* Conv and infer::Conv. */
static bool fill_conv(const struct site *s, struct gpu_window_any *j)
{
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	const struct fused_conv *f = s->node->op->domain ? s->node->params : NULL;
	struct window w = {0};

	if (x->rank < 3 || window_set(&w, s->node->params, x, weight, false, NULL))
		return false;
	set_window(&w, j);
	j->group = f ? f->group : ((const struct conv *)s->node->params)->group;
	if (f) {
		j->act = f->act;
		j->act_alpha = (double)f->act_alpha;
		j->act_beta = (double)f->act_beta;
	}
	j->cin = weight->dim[1];
	j->cout = j->group > 0 ? weight->dim[0] / j->group : 0;
	j->n = gpu_count(&site_out(s, 0)->shape);
	return j->group > 0;
}

bool gpu_conv_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_window_any j = {.n = 0};

	return fill_conv(s, &j) || refuse(w, "a window that does not fit");
}

int gpu_conv_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_window_any job = {.n = 0};

	fill_conv(s, &job);
	return job.n ? GPU_TASK(s, step, "sample", "conv_any", &job, job.n, d) : 0;
}

static bool fill_deconv(const struct site *s, struct gpu_window_any *j)
{
	const struct conv_transpose *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	struct window w = {0};

	if (x->rank < 3 || p->group < 1 || conv_transpose_window(&w, p, x, weight, NULL))
		return false;
	set_window(&w, j);
	j->group = p->group;
	j->cin = x->dim[1] / p->group;
	j->cout = weight->dim[1];
	j->n = gpu_count(&site_out(s, 0)->shape);
	return true;
}

bool gpu_deconv_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_window_any j = {.n = 0};

	return fill_deconv(s, &j) || refuse(w, "a window that does not fit");
}

int gpu_deconv_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_window_any job = {.n = 0};

	fill_deconv(s, &job);
	return job.n ? GPU_TASK(s, step, "sample", "deconv_any", &job, job.n, d) : 0;
}
