/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_SORTED_LINES_H
#define GPU_OPS_SORTED_LINES_H
/*
 * Tasks that sort.c, gather.c and detect.c share. One is a bitonic sort of lines of keys. The other is the compaction
 * of flagged slices (for NonZero, Unique, Compress and others): prefix sums give each flagged slice its position in the
 * output.
 */
#include "gpu/launch/job.h"

/* Reserves workspace for `lines` lines of n keys with their indices. Returns false if there are too many keys. */
bool gpu_sort_room(struct gpu_sort *s, struct step *step, int64_t lines, int64_t n);
/*
 * Adds the launches of the kernels NAME_tiles and NAME_step of FILE.cu, which sort. `sort` must point to a member of
 * the job.
 */
int gpu_sort_add(struct site *s, struct step *step, const char *file, const char *name, void *job,
		 size_t bytes, struct gpu_sort *sort, struct diag *d);

/*
 * gpu_flags_room() reserves workspace for the flags of n slices. gpu_flags_add() adds the launches that give each
 * flagged slice its position.
 */
void gpu_flags_room(struct gpu_slices *p, struct step *step, int64_t n);
int gpu_flags_add(struct site *s, struct step *step, const struct gpu_slices *p, struct diag *d);
/*
 * Runs all tasks except the last one, which writes the result, and waits for them. *job becomes the job of the last
 * task, with the number of slices in `kept`.
 */
int gpu_slices_count(const struct call *c, struct gpu_slices *job);
/* Launches the last task with this job. The outputs must exist. */
int gpu_slices_write(const struct call *c, struct gpu_slices *job);

#endif
