/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sort.h"

#include "gpu/ops/sorted_lines.h"

#define T_SORTED (T_NUMBERS | T_BOOL)

/* ---- TopK ------------------------------------------------------------------------------------ */

static bool topk_accepts(const struct site *s, struct why *w)
{
	const struct vinfo *o = site_out(s, 0) ? site_out(s, 0) : site_out(s, 1);
	const struct shape *x = &site_in(s, 0)->shape;

	if (!o || !shape_known(&o->shape))
		return refuse(w, "a count that only the run knows");
	if (!x->rank || gpu_count(x) >= INT64_C(1) << 31)
		return refuse(w, "no lines that can be sorted");
	return true;
}

static int topk_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct topk_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	const struct vinfo *o = site_out(s, 0) ? site_out(s, 0) : site_out(s, 1);
	int axis = axis_of(p->axis, x->rank);
	struct gpu_topk job = {.inner = shape_span(x, axis + 1, x->rank),
			       .k = o->shape.dim[axis],
			       .largest = p->largest != 0,
			       .size = (int)gpu_size(gpu_type(s, 0))};
	int64_t lines = shape_span(x, 0, axis) * job.inner;

	step->unread = 2;
	if (!lines || !job.k)
		return 0;
	gpu_sort_room(&job.sort, step, lines, x->dim[axis]);
	int err = GPU_TASK(s, step, "sort", "topk_keys", &job, lines * job.sort.padded, d);
	if (!err)
		err = gpu_sort_add(s, step, "sort", "topk", &job, sizeof(job), &job.sort, d);
	return err ? err : GPU_TASK(s, step, "sort", "topk_take", &job, lines * job.k, d);
}

/* ---- NonZero --------------------------------------------------------------------------------- */

static bool sliced_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank > GPU_DIMS || gpu_count(x) >= INT64_C(1) << 31)
		return refuse(w, "too many dimensions or elements");
	return true;
}

static int non_zero_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_slices job = {.rank = x->rank};

	memcpy(job.dim, x->dim, (size_t)x->rank * sizeof(*x->dim));
	gpu_flags_room(&job, step, gpu_count(x));
	int err = GPU_TASK(s, step, "sort", "flag_non_zero", &job, job.sort.n, d);
	if (!err)
		err = gpu_flags_add(s, step, &job, d);
	return err ? err : GPU_TASK(s, step, "sort", "non_zero_write", &job, job.sort.n, d);
}

static int non_zero_run(const struct call *c)
{
	struct gpu_slices job;
	struct shape y = {.rank = 2};
	int err = gpu_slices_count(c, &job);

	y.dim[0] = c->in[0]->shape.rank;
	y.dim[1] = job.kept;
	if (!err)
		err = call_alloc(c, 0, DT_I64, &y);
	return err || !job.kept || !job.rank ? err : gpu_slices_write(c, &job);
}

/* ---- Unique ---------------------------------------------------------------------------------- */

static int unique_sort(struct site *s, struct step *step, struct gpu_slices *job, struct diag *d)
{
	int err = GPU_TASK(s, step, "sort", "unique_keys", job, job->sort.padded, d);

	if (job->by_key)
		return err ? err
			   : gpu_sort_add(s, step, "sort", "unique", job, sizeof(*job), &job->sort, d);
	for (int64_t w = 2; w <= job->sort.padded && !err; w *= 2) {
		job->sort.width = w;
		for (job->sort.step = w / 2; job->sort.step && !err; job->sort.step /= 2)
			err = GPU_TASK(s, step, "sort", "unique_slice_step", job,
				       job->sort.padded / 2, d);
	}
	return err;
}

static int unique_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct unique_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool flat = p->axis == INT_ABSENT;
	int axis = flat ? 0 : axis_of(p->axis, x->rank);
	int64_t n = flat ? gpu_count(x) : x->dim[axis];
	struct gpu_slices job = {.outer = flat ? 1 : shape_span(x, 0, axis),
				 .inner = flat ? 1 : shape_span(x, axis + 1, x->rank),
				 .size = (int)gpu_size(gpu_type(s, 0)),
				 .sorted = p->sorted != 0};
	size_t list = (size_t)(n + 1) * sizeof(int64_t);

	job.by_key = job.outer * job.inner == 1;
	gpu_sort_room(&job.sort, step, 1, n);
	gpu_flags_room(&job, step, n);
	job.at_group = (int64_t)gpu_room(step, list);
	job.at_first = (int64_t)gpu_room(step, list);
	job.at_size = (int64_t)gpu_room(step, list);
	int err = unique_sort(s, step, &job, d);
	if (!err)
		err = GPU_TASK(s, step, "sort", "unique_heads", &job, n, d);
	if (!err)
		err = gpu_flags_add(s, step, &job, d);
	if (!err)
		err = GPU_TASK(s, step, "sort", "unique_groups", &job, n, d);
	if (!err && !p->sorted) {
		err = GPU_TASK(s, step, "sort", "unique_firsts", &job, n, d);
		if (!err)
			err = gpu_flags_add(s, step, &job, d);
	}
	return err ? err : GPU_TASK(s, step, "sort", "unique_write", &job, n, d);
}

static int unique_run(const struct call *c)
{
	const struct unique_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	struct gpu_slices job;
	struct shape list = {.rank = 1}, y = {.rank = 1};
	int err = gpu_slices_count(c, &job);

	list.dim[0] = job.kept;
	if (p->axis != INT_ABSENT)
		y = *x;
	y.dim[p->axis == INT_ABSENT ? 0 : axis_of(p->axis, x->rank)] = job.kept;
	for (uint32_t i = 0; i < c->step->nout && !err; i++) {
		struct shape all = {.rank = 1, .dim = {job.sort.n}};
		if (c->out[i])
			err = call_alloc(c, i, i ? DT_I64 : tensor_dtype(c->in[0]),
					 i == 0	  ? &y
					 : i == 2 ? &all
						  : &list);
	}
	return err ? err : gpu_slices_write(c, &job);
}

const struct kernel gpu_sort[] = {{.op = "TopK",
				   .types = T_SORTED,
				   .accepts = topk_accepts,
				   .reshape = topk_reshape,
				   .run = gpu_tasks_run},
				  {.op = "NonZero",
				   .types = T_SORTED,
				   .accepts = sliced_accepts,
				   .reshape = non_zero_reshape,
				   .run = non_zero_run},
				  {.op = "Unique",
				   .types = T_SORTED,
				   .accepts = sliced_accepts,
				   .reshape = unique_reshape,
				   .run = unique_run},
				  {0}};
