/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_JOB_H
#define GPU_LAUNCH_JOB_H
/*
 * Steps of one launch, or of several in a row, whose kernels take a job that begins with struct gpu_io
 * (kernels/jobs.h): reshape says what to launch, gpu_tasks_run fills the operands in and launches.
 */
#include "gpu/kernels/jobs.h"
#include "gpu/launch/util.h"

struct gpu_task {
	void *fn;
	struct gpu_grid grid;
	size_t bytes;
	struct gpu_io *job; /* the whole of it */
};
struct gpu_tasks {
	int count, cap;
	struct gpu_task *v;
};

/* One more launch of kernel `name` in gpu/kernels/FILE.cu; the job is copied. step->state becomes a gpu_tasks. */
int gpu_task_add(struct site *s, struct step *step, const char *file, const char *name,
		 const void *job, size_t bytes, struct gpu_grid grid, struct diag *d);
#define GPU_TASK(s, step, file, name, job, n, d)                                                   \
	gpu_task_add(s, step, file, name, job, sizeof(*(job)), gpu_grid(n), d)
int gpu_tasks_run(const struct call *c);

/* Element types of the operands. */
void gpu_io_types(const struct site *s, struct gpu_io *io);
/* Pointers of the operands. */
void gpu_io_fill(const struct call *c, struct gpu_io *io);
/* The job with its operands, launched. */
int gpu_task_launch(const struct call *c, const struct gpu_task *t);

/* Bytes of the device's memory; waits. */
int gpu_fetch(const struct call *c, void *to, const void *from, size_t bytes);

/* Pieces of the workspace: offsets until it runs, each at a multiple of 256 bytes. */
static inline size_t gpu_room(struct step *step, size_t bytes)
{
	size_t at = step->workspace;

	step->workspace = (at + bytes + 255) & ~(size_t)255;
	return at;
}
/* `p` holds an offset into the workspace. */
static inline void *gpu_at(const struct call *c, size_t offset)
{
	return (char *)c->workspace + offset;
}

/* Blocks of `threads` for `lines` pieces of work, a bounded number: kernels loop. */
static inline struct gpu_grid gpu_blocks(int64_t lines, unsigned threads)
{
	return (struct gpu_grid){(unsigned)(lines < 1	      ? 1
					    : lines > 1 << 16 ? 1 << 16
							      : lines),
				 1, 1, threads, 0};
}
/* The least power of two that is no less. */
int64_t gpu_power_of_two(int64_t n);

#endif
