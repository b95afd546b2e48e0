/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_SHARD_H
#define CMD_RUN_SHARD_H
/* Which part of a list this program runs, as one of several that share it (--shard, or what started them says so). */
#include "cmd/options/options.h"

struct shard {
	size_t index, count; /* this program runs the cases i with i % count == index */
	const char *from;    /* what says so: "--shard", "SLURM_PROCID"; NULL: nothing */
};

/* Fails with E-SHARD if the environment does not tell which part of how many this is. */
int shard_find(struct shard *s, const struct options *o, struct diag *d);
/* Replaces {shard} in the name of a file by "2-of-4". */
const char *shard_path(const struct shard *s, const char *path, struct arena *a);

#endif
