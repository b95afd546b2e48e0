/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/block_gather.h"

#include "gpu/kernels/blocks.h"
#include "ops/quant.h"

/*
 * Sets the strides of the scales, which are 0 along an axis where one scale serves all elements. Returns the number of
 * scales, or -1 if the shape of the scales does not fit.
 */
static int64_t set_scale_strides(struct gpu_block_gather *j, const struct shape *data,
				 const struct shape *scale)
{
	int64_t step = 1;

	if (scale->rank != data->rank || scale->dim[j->axis] != j->blocks)
		return -1;
	for (int i = data->rank - 1; i >= 0; i--) {
		bool repeats = scale->dim[i] == 1 && data->dim[i] != 1 && i != j->axis;
		if (i != j->axis && !repeats && scale->dim[i] != data->dim[i])
			return -1;
		j->d.dim[i] = data->dim[i];
		j->step[i] = repeats ? 0 : step;
		step *= scale->dim[i];
	}
	return step;
}

static const char *fill_block_gather(const struct site *s, struct gpu_block_gather *j)
{
	const struct block_gather_params *p = s->node->params;
	const struct shape *stored = &site_in(s, 0)->shape;
	const struct vinfo *zero = site_in(s, 3);
	enum dtype t = gpu_type(s, 0);
	struct shape data = block_gather_data(stored, t, p->bits);

	if (data.rank > GPU_DIMS)
		return "too many dimensions";
	int axis = axis_of(p->gather_axis, data.rank);
	*j = (struct gpu_block_gather){.n = gpu_count(&site_out(s, 0)->shape),
				       .dim = data.dim[axis],
				       .inner = shape_span(&data, axis + 1, data.rank),
				       .picked = gpu_count(&site_in(s, 1)->shape),
				       .axis = axis_of(p->quantize_axis, data.rank),
				       .bits = t == DT_U8 && p->bits < 8 ? (int)p->bits : 0};
	int64_t length = data.dim[j->axis];
	j->d.rank = data.rank;
	j->block = p->block_size ? p->block_size : length > 0 ? length : 1;
	j->blocks = length > 0 ? (length - 1) / j->block + 1 : 0;
	int64_t scales = set_scale_strides(j, &data, &site_in(s, 2)->shape);
	if (scales < 0)
		return "scales of another size";
	if (j->bits && j->blocks)
		scales = (j->blocks * j->bits + 7) / 8 * (scales / j->blocks);
	if (zero && gpu_count(&zero->shape) != scales)
		return "zero points of another size";
	return NULL;
}

bool gpu_block_gather_accepts(const struct site *s, struct why *w)
{
	struct gpu_block_gather j;
	const char *bad = fill_block_gather(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

/*
 * Returns whether each run of GPU_BLOCK_RUN elements is contiguous and shares one scale, so that a thread can write
 * whole vectors.
 */
static bool has_runs(const struct site *s, const struct gpu_block_gather *j)
{
	enum dtype t = gpu_type(s, 0), y = (enum dtype)site_out(s, 0)->type.dtype;

	return j->axis == j->d.rank - 1 && j->inner % GPU_BLOCK_RUN == 0 &&
	       (j->block % GPU_BLOCK_RUN == 0 || j->blocks == 1) &&
	       (t == DT_U8 || t == DT_I8 || t == DT_U4 || t == DT_I4) &&
	       (y == DT_F32 || y == DT_F16 || y == DT_BF16);
}

int gpu_block_gather_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_block_gather job;

	fill_block_gather(s, &job);
	if (has_runs(s, &job))
		return job.n ? GPU_TASK(s, step, "blocks", "gather_runs", &job,
					job.n / GPU_BLOCK_RUN, d)
			     : 0;
	return job.n ? GPU_TASK(s, step, "blocks", "gather_blocks", &job, job.n, d) : 0;
}
