/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/job.h"

void gpu_io_types(const struct site *s, struct gpu_io *io)
{
	for (uint32_t i = 0; i < GPU_IN && i < s->node->nin; i++)
		io->it[i] = (uint8_t)gpu_type(s, i);
	for (uint32_t i = 0; i < GPU_OUT && i < s->node->nout; i++)
		io->ot[i] = (uint8_t)gpu_out_type(s, i);
	io->who = (uint64_t)(uintptr_t)s->node->origin;
}

void gpu_io_fill(const struct call *c, struct gpu_io *io)
{
	for (uint32_t i = 0; i < GPU_IN; i++)
		io->in[i] = gpu_data(c, i);
	for (uint32_t i = 0; i < GPU_OUT; i++)
		io->out[i] = gpu_out(c, i);
	io->work = c->workspace;
	io->fault = gpu_fault(c);
}

int gpu_task_add(struct site *s, struct step *step, const char *file, const char *name,
		 const void *job, size_t bytes, struct gpu_grid grid, struct diag *d)
{
	struct gpu_tasks *t = step->state;

	if (!t)
		t = step->state = arena_new(s->plan_arena, struct gpu_tasks);
	if (t->count == t->cap) {
		uint32_t cap = t->cap ? 2 * (uint32_t)t->cap : 4;
		t->v = arena_grow(s->plan_arena, t->v, (uint32_t)t->count, cap, sizeof(*t->v));
		t->cap = (int)cap;
	}
	struct gpu_task *task = &t->v[t->count];
	*task = (struct gpu_task){.fn = gpu_kernel(s, file, name, d),
				  .grid = grid,
				  .bytes = bytes,
				  .job = arena_dup(s->plan_arena, job, bytes)};
	if (!task->fn)
		return -E_DEVICE;
	gpu_io_types(s, task->job);
	t->count++;
	return 0;
}

int gpu_task_launch(const struct call *c, const struct gpu_task *t)
{
	union {
		struct gpu_io io;
		char bytes[4096];
		uint64_t align;
	} job;

	memcpy(job.bytes, t->job, t->bytes);
	gpu_io_fill(c, &job.io);
	return gpu_launch(c, t->fn, t->grid, job.bytes, t->bytes);
}

int gpu_tasks_run(const struct call *c)
{
	const struct gpu_tasks *t = c->step->state;
	int err = 0;

	for (int i = 0; t && i < t->count && !err; i++)
		err = gpu_task_launch(c, &t->v[i]);
	return err;
}

int gpu_fetch(const struct call *c, void *to, const void *from, size_t bytes)
{
	return cuda_copy(c->stream, to, 0, from, 1, bytes, c->diag);
}

int64_t gpu_power_of_two(int64_t n)
{
	int64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}
