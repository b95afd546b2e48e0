/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_JOB_H
#define GPU_LAUNCH_JOB_H
/*
 * Tasks: launches that a step makes one after the other, each with a job (a struct of kernels/jobs.h, which begins with
 * struct gpu_io). A reshape function adds the tasks; gpu_tasks_run() fills in the operands' addresses and launches the
 * tasks.
 */
#include "gpu/kernels/jobs.h"
#include "gpu/launch/util.h"

struct gpu_task {
	void *fn;
	struct gpu_grid grid;
	size_t bytes;
	struct gpu_io *job; /* the complete job, of `bytes` bytes */
};
struct gpu_tasks {
	int count, cap;
	struct gpu_task *v;
};

/*
 * Adds a launch of kernel `name` of gpu/kernels/FILE.cu and copies the job. step->state must be NULL or a gpu_tasks.
 * Returns 0 or -code.
 */
int gpu_task_add(struct site *s, struct step *step, const char *file, const char *name,
		 const void *job, size_t bytes, struct gpu_grid grid, struct diag *d);
#define GPU_TASK(s, step, file, name, job, n, d)                                                   \
	gpu_task_add(s, step, file, name, job, sizeof(*(job)), gpu_grid(n), d)
int gpu_tasks_run(const struct call *c);

/* Sets the operands' element types. */
void gpu_io_types(const struct site *s, struct gpu_io *io);
/* Sets the operands' addresses for this run. */
void gpu_io_fill(const struct call *c, struct gpu_io *io);
/* Launches one task with this run's operands. */
int gpu_task_launch(const struct call *c, const struct gpu_task *t);

/* Copies bytes from the device to the host and waits for the copy. */
int gpu_fetch(const struct call *c, void *to, const void *from, size_t bytes);

/* Reserves `bytes` bytes of the workspace; returns their offset, a multiple of 256. */
static inline size_t gpu_room(struct step *step, size_t bytes)
{
	size_t at = step->workspace;

	step->workspace = cuda_aligned(at + bytes);
	return at;
}
/* Returns the address of an offset in the workspace, in a run. */
static inline void *gpu_at(const struct call *c, size_t offset)
{
	return (char *)c->workspace + offset;
}

/*
 * Returns a grid with one block for each of `lines` pieces of work, but at most 65,536 blocks. Kernels loop over the
 * remaining pieces.
 */
static inline struct gpu_grid gpu_blocks(int64_t lines, unsigned threads)
{
	return (struct gpu_grid){(unsigned)(lines < 1	      ? 1
					    : lines > 1 << 16 ? 1 << 16
							      : lines),
				 1, 1, threads, 0};
}
/* Returns the smallest power of two that is not less than n. */
int64_t gpu_power_of_two(int64_t n);

#endif
