/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_SORTED_LINES_H
#define GPU_OPS_SORTED_LINES_H
/* Sorted lines, and slices that are kept: what sort.c, gather.c and detect.c share. */
#include "gpu/launch/job.h"

/* Room for the keys of `lines` lines of n; false where they are too many. */
bool gpu_sort_room(struct gpu_sort *s, struct step *step, int64_t lines, int64_t n);
/* Launches of NAME_tiles and NAME_step in FILE that sort; `sort` lies in the job. */
int gpu_sort_add(struct site *s, struct step *step, const char *file, const char *name, void *job,
		 size_t bytes, struct gpu_sort *sort, struct diag *d);

/* Room for flags of n slices, and the launches that give each flag its place. */
void gpu_flags_room(struct gpu_slices *p, struct step *step, int64_t n);
int gpu_flags_add(struct site *s, struct step *step, const struct gpu_slices *p, struct diag *d);
/* Runs all tasks but the last, which writes what is kept; its job, with `kept` known, is in *job. */
int gpu_slices_count(const struct call *c, struct gpu_slices *job);
/* The last task with this job. */
int gpu_slices_write(const struct call *c, struct gpu_slices *job);

#endif
