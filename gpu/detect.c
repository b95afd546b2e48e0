/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect.h"

#include "gpu/order.h"

/* Boxes a class may give at most: all where the run tells. */
static int64_t most_of(const struct site *s, int64_t n)
{
	const struct tensor *t = site_known(s, NMS_MAX);
	int64_t most = t && tensor_count(t) ? elem_i64(DT_I64, t->data, 0) : n;

	return most < 0 ? 0 : most < n ? most : n;
}

static bool nms_accepts(const struct site *s, struct why *w)
{
	const struct shape *b = &site_in(s, NMS_BOXES)->shape, *c = &site_in(s, NMS_SCORES)->shape;

	if (b->dim[1] >= 1 << 30 || !gpu_count(c))
		return refuse(w, "too many boxes, or none");
	for (uint32_t i = NMS_MAX; i <= NMS_SCORE; i++)
		if (site_in(s, i) && gpu_count(&site_in(s, i)->shape) != 1)
			return refuse(w, "an empty threshold");
	return true;
}

static int nms_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct nms *p = s->node->params;
	const struct shape *c = &site_in(s, NMS_SCORES)->shape;
	int64_t batches = c->dim[0], lines = batches * c->dim[1], n = c->dim[2];
	struct gpu_nms job = {
		.classes = c->dim[1], .most = most_of(s, n), .center = p->center_point_box != 0};
	struct gpu_grid blocks = gpu_blocks(lines, 128);

	gpu_sort_room(&job.sort, step, lines, n);
	job.at_corners = (int64_t)gpu_room(step, (size_t)(batches * n) * 5 * sizeof(float));
	job.at_picked = (int64_t)gpu_room(step, (size_t)(lines * job.most) * sizeof(int32_t));
	job.at_count = (int64_t)gpu_room(step, (size_t)lines * sizeof(int64_t));
	job.at_total = (int64_t)gpu_room(step, sizeof(int64_t));
	step->no_capture = true;
	int err = GPU_TASK(s, step, "detect", "nms_corners", &job, batches * n, d);
	if (!err)
		err = GPU_TASK(s, step, "detect", "nms_keys", &job, lines * job.sort.padded, d);
	if (!err)
		err = gpu_sort_add(s, step, "detect", "nms", &job, sizeof(job), &job.sort, d);
	if (!err)
		err = gpu_task_add(s, step, "detect", "nms_pick", &job, sizeof(job), blocks, d);
	if (!err)
		err = gpu_task_add(s, step, "detect", "nms_places", &job, sizeof(job),
				   gpu_blocks(1, 1024), d);
	return err ? err : gpu_task_add(s, step, "detect", "nms_write", &job, sizeof(job), blocks, d);
}

static int nms_run(const struct call *c)
{
	const struct gpu_tasks *t = c->step->state;
	const struct gpu_task *last = &t->v[t->count - 1];
	struct shape y = {.rank = 2, .dim = {0, 3}};
	struct gpu_nms job;
	int err = 0;

	memcpy(&job, last->job, sizeof(job));
	for (int i = 0; i < t->count - 1 && !err; i++)
		err = gpu_task_launch(c, &t->v[i]);
	if (!err)
		err = gpu_fetch(c, &job.total, gpu_at(c, (size_t)job.at_total), sizeof(job.total));
	y.dim[0] = job.total;
	if (!err)
		err = call_alloc(c, 0, DT_I64, &y);
	if (err || !job.total)
		return err;
	gpu_io_fill(c, &job.io);
	return gpu_launch(c, last->fn, last->grid, &job, sizeof(job));
}

const struct kernel gpu_detect[] = {{.op = "NonMaxSuppression",
				     .types = T_F32,
				     .accepts = nms_accepts,
				     .reshape = nms_reshape,
				     .run = nms_run},
				    {0}};
