/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect.h"

#include "gpu/ops/sorted_lines.h"

#include <inttypes.h>

/*
 * Returns the largest number of boxes kept for a class. If the input with that number is known only at run time, this
 * is n, the number of all boxes.
 */
static int64_t max_boxes(const struct site *s, int64_t n)
{
	const struct tensor *t = site_known(s, NMS_MAX);
	int64_t limit = t && tensor_count(t) ? elem_i64(DT_I64, t->data, 0) : n;

	return limit < 0 ? 0 : limit < n ? limit : n;
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

/*
 * MASK_BYTES: memory for the matrix that tells which boxes overlap, one bit for each pair of boxes. MAX_ROWS and
 * MIN_ROWS bound the number of rows that are computed at a time.
 */
enum { MASK_BYTES = 64 << 20, MAX_ROWS = 4096, MIN_ROWS = 512 };
/* The last tasks of the step. OVERLAP and KEEP are launched once for each block of mask rows. */
enum { OVERLAP, KEEP, PLACES, WRITE, LAST_TASKS };

/*
 * Reserves memory for the mask, and decides how much is computed at a time: job->rows rows for each of job->group
 * lines (a line is one class of one image). Together they fit into MASK_BYTES, except that there are at least 64
 * rows of one line, or all rows if there are fewer.
 */
static void nms_room(struct gpu_nms *job, struct step *step, int64_t lines, int64_t n)
{
	job->words = (n + 63) / 64;
	int64_t each = job->words * 8, room = MASK_BYTES / each / lines / 64 * 64;

	job->rows = room > MAX_ROWS ? MAX_ROWS : room < MIN_ROWS ? MIN_ROWS : room;
	while (job->rows > 64 && job->rows * each > MASK_BYTES)
		job->rows -= 64;
	if (job->rows > job->words * 64)
		job->rows = job->words * 64;
	job->group = MASK_BYTES / each / job->rows;
	job->group = job->group < 1 ? 1 : job->group > lines ? lines : job->group;
	if (job->group > INT16_MAX)
		job->group = INT16_MAX;
	job->at_out = (int64_t)gpu_room(step, (size_t)(lines * each));
	job->at_mask = (int64_t)gpu_room(step, (size_t)(job->group * job->rows * each));
}

static int nms_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct nms *p = s->node->params;
	const struct shape *c = &site_in(s, NMS_SCORES)->shape;
	int64_t batches = c->dim[0], lines = batches * c->dim[1], n = c->dim[2];
	struct gpu_nms job = {
		.classes = c->dim[1], .most = max_boxes(s, n), .center = p->center_point_box != 0};
	static const char *const last[LAST_TASKS] = {"nms_overlap", "nms_keep", "nms_places",
						     "nms_write"};
	struct gpu_grid grid[LAST_TASKS] = {
		[PLACES] = gpu_blocks(1, 1024), [WRITE] = gpu_blocks(lines, 128)};

	if (!gpu_sort_room(&job.sort, step, lines, n))
		return FAIL(d, E_SIZE, .actual = fmt(d, "%" PRId64 " boxes of a class", n));
	job.at_corners = (int64_t)gpu_room(step, (size_t)(batches * n) * 5 * sizeof(float));
	job.at_picked = (int64_t)gpu_room(step, (size_t)(lines * job.most) * sizeof(int32_t));
	job.at_count = (int64_t)gpu_room(step, (size_t)lines * sizeof(int64_t));
	job.at_total = (int64_t)gpu_room(step, sizeof(int64_t));
	nms_room(&job, step, lines, n);
	step->no_capture = true;
	grid[OVERLAP] = (struct gpu_grid){(unsigned)job.words, (unsigned)(job.rows / 64),
					  (unsigned)job.group, 64, 0};
	grid[KEEP] = (struct gpu_grid){(unsigned)job.group, 1, 1, 512, 0};
	int err = GPU_TASK(s, step, "detect", "nms_corners", &job, batches * n, d);
	if (!err)
		err = GPU_TASK(s, step, "detect", "nms_keys", &job, lines * job.sort.padded, d);
	if (!err)
		err = gpu_sort_add(s, step, "detect", "nms", &job, sizeof(job), &job.sort, d);
	if (!err)
		err = GPU_TASK(s, step, "detect", "nms_start", &job, lines * job.words, d);
	for (int i = 0; i < LAST_TASKS && !err; i++)
		err = gpu_task_add(s, step, "detect", last[i], &job, sizeof(job), grid[i], d);
	return err;
}

/* Decides which boxes are kept, for as many lines and rows at a time as fit into the mask. */
static int nms_keep(const struct call *c, const struct gpu_task *last, struct gpu_nms *job)
{
	int64_t lines = job->sort.lines;
	int err = 0;

	for (job->line = 0; job->line < lines && !err; job->line += job->group)
		for (job->first = 0; job->first < job->sort.n && !err; job->first += job->rows) {
			int64_t some =
				lines - job->line < job->group ? lines - job->line : job->group;
			struct gpu_grid all = last[OVERLAP].grid, each = last[KEEP].grid;
			all.x = (unsigned)(job->words - job->first / 64);
			all.z = each.x = (unsigned)some;
			err = gpu_launch(c, last[OVERLAP].fn, all, job, sizeof(*job));
			if (!err)
				err = gpu_launch(c, last[KEEP].fn, each, job, sizeof(*job));
		}
	return err;
}

static int nms_run(const struct call *c)
{
	const struct gpu_tasks *t = c->step->state;
	const struct gpu_task *last = &t->v[t->count - LAST_TASKS];
	struct shape y = {.rank = 2, .dim = {0, 3}};
	struct gpu_nms job;
	int err = 0;

	memcpy(&job, last->job, sizeof(job));
	gpu_io_fill(c, &job.io);
	for (int i = 0; i < t->count - LAST_TASKS && !err; i++)
		err = gpu_task_launch(c, &t->v[i]);
	if (!err)
		err = nms_keep(c, last, &job);
	if (!err)
		err = gpu_task_launch(c, &last[PLACES]);
	if (!err)
		err = gpu_fetch(c, &job.total, gpu_at(c, (size_t)job.at_total), sizeof(job.total));
	y.dim[0] = job.total;
	if (!err)
		err = call_alloc(c, 0, DT_I64, &y);
	if (err || !job.total)
		return err;
	gpu_io_fill(c, &job.io);
	return gpu_launch(c, last[WRITE].fn, last[WRITE].grid, &job, sizeof(job));
}

const struct kernel gpu_detect[] = {{.op = "NonMaxSuppression",
				     .types = T_F32,
				     .accepts = nms_accepts,
				     .reshape = nms_reshape,
				     .run = nms_run},
				    {0}};
