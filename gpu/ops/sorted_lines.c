/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/sorted_lines.h"

enum { SORT_TILE = 1024 };

bool gpu_sort_room(struct gpu_sort *s, struct step *step, int64_t lines, int64_t n)
{
	size_t bytes;

	if (n >= INT64_C(1) << 31)
		return false;
	s->lines = lines;
	s->n = n;
	s->padded = gpu_power_of_two(n);
	if (!size_mul((size_t)(lines * s->padded), 12, &bytes))
		return false;
	s->at_key = (int64_t)gpu_room(step, (size_t)(lines * s->padded) * 8);
	s->at_index = (int64_t)gpu_room(step, (size_t)(lines * s->padded) * 4);
	return true;
}

int gpu_sort_add(struct site *s, struct step *step, const char *file, const char *name, void *job,
		 size_t bytes, struct gpu_sort *sort, struct diag *d)
{
	int64_t tile = sort->padded < SORT_TILE ? sort->padded : SORT_TILE,
		tiles = sort->lines * (sort->padded / tile);
	char by_tiles[64], by_step[64];

	snprintf(by_tiles, sizeof(by_tiles), "%s_tiles", name);
	snprintf(by_step, sizeof(by_step), "%s_step", name);
	sort->width = 0;
	int err = gpu_task_add(s, step, file, by_tiles, job, bytes, gpu_blocks(tiles, 256), d);
	for (int64_t w = 2 * tile; w <= sort->padded && !err; w *= 2) {
		sort->width = w;
		for (sort->step = w / 2; sort->step >= tile && !err; sort->step /= 2)
			err = gpu_task_add(s, step, file, by_step, job, bytes,
					   gpu_grid(sort->lines * sort->padded / 2), d);
		if (!err)
			err = gpu_task_add(s, step, file, by_tiles, job, bytes,
					   gpu_blocks(tiles, 256), d);
	}
	return err;
}

void gpu_flags_room(struct gpu_slices *p, struct step *step, int64_t n)
{
	p->sort.n = n;
	p->at_flag = (int64_t)gpu_room(step, (size_t)n * sizeof(uint32_t));
	p->at_place = (int64_t)gpu_room(step, (size_t)n * sizeof(int64_t));
	p->at_sums = (int64_t)gpu_room(step, (size_t)(n / GPU_CHUNK + 1) * sizeof(int64_t));
	p->at_total = (int64_t)gpu_room(step, sizeof(int64_t));
	step->no_capture = true;
}

int gpu_flags_add(struct site *s, struct step *step, const struct gpu_slices *p, struct diag *d)
{
	struct gpu_grid chunks = gpu_blocks((p->sort.n + GPU_CHUNK - 1) / GPU_CHUNK, 256);
	int err = gpu_task_add(s, step, "sort", "flags_count", p, sizeof(*p), chunks, d);

	if (!err)
		err = gpu_task_add(s, step, "sort", "flags_sum", p, sizeof(*p), gpu_blocks(1, 1024),
				   d);
	return err ? err : gpu_task_add(s, step, "sort", "flags_place", p, sizeof(*p), chunks, d);
}

int gpu_slices_count(const struct call *c, struct gpu_slices *job)
{
	const struct gpu_tasks *t = c->step->state;
	int err = 0;

	memcpy(job, t->v[t->count - 1].job, sizeof(*job));
	for (int i = 0; i < t->count - 1 && !err; i++)
		err = gpu_task_launch(c, &t->v[i]);
	if (!err && job->sort.n)
		err = gpu_fetch(c, &job->kept, gpu_at(c, (size_t)job->at_total), sizeof(job->kept));
	return err;
}

int gpu_slices_write(const struct call *c, struct gpu_slices *job)
{
	const struct gpu_tasks *t = c->step->state;
	const struct gpu_task *last = &t->v[t->count - 1];

	gpu_io_fill(c, &job->io);
	return job->sort.n ? gpu_launch(c, last->fn, last->grid, job, sizeof(*job)) : 0;
}
