/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_SORTED_LINES_H
#define GPU_OPS_SORTED_LINES_H
/*
 * Tasks that sort.c, gather.c and detect.c share: a bitonic sort of lines of keys, and the compaction of flagged slices
 * (TopK, NonZero, Unique, Compress, ...), which gives each flagged slice its place by prefix sums.
 */
#include "gpu/launch/job.h"

/* Reserves workspace for `lines` lines of n keys with their indices; false if they are too many. */
bool gpu_sort_room(struct gpu_sort *s, struct step *step, int64_t lines, int64_t n);
/* Adds the launches of kernels NAME_tiles and NAME_step of FILE.cu, which sort; `sort` is a member of the job. */
int gpu_sort_add(struct site *s, struct step *step, const char *file, const char *name, void *job,
		 size_t bytes, struct gpu_sort *sort, struct diag *d);

/* Reserves workspace for the flags of n slices; adds the launches that give each flagged slice its place. */
void gpu_flags_room(struct gpu_slices *p, struct step *step, int64_t n);
int gpu_flags_add(struct site *s, struct step *step, const struct gpu_slices *p, struct diag *d);
/* Runs all tasks but the last, which writes the result. *job: that task's job with `kept`, the number of slices. Waits. */
int gpu_slices_count(const struct call *c, struct gpu_slices *job);
/* Launches the last task with this job, once the outputs exist. */
int gpu_slices_write(const struct call *c, struct gpu_slices *job);

#endif
