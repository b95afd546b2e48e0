/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_CHOOSE_IDS_H
#define BACKEND_CHOOSE_IDS_H
/*
 * A decoder's greedy choice of ids on the device: the next step can be queued behind it before the host has seen them, which looks at
 * them while that step runs. Two choices may be under way, those of even and of odd turns.
 */
#include "backend/backend.h"

struct chooser;

/* Rows of scores on the device: float32, float16 or bfloat16. */
struct scores {
	enum dtype type;
	const void *data;
	int64_t n, step; /* scores of a row, fewer than 2^32, and elements from one row to the next */
};

struct choose_ops {
	/* `ids`: int64 or int32. A row whose last id is one of `until` keeps it. NULL with a finding on error. */
	struct chooser *(*create)(struct device *, struct stream *, enum dtype ids, int64_t rows,
				  const int64_t *until, int64_t n, struct diag *);
	/* waits for what is queued; NULL is fine */
	void (*destroy)(struct chooser *);
	/* the newest ids, one a row, in device memory */
	void *(*ids)(const struct chooser *);
	/* gives the rows their last ids */
	int (*give)(struct chooser *, const int64_t *ids, struct diag *);
	/* queues the choice of the largest scores, the first of those that are equal */
	int (*queue)(struct chooser *, unsigned parity, const struct scores *, struct diag *);
	/*
	 * Waits for the choice queued last with this parity. *ids is valid until the next one; an id is -1 if all scores are NaN.
	 * Reports invalid data that kernels queued before the choice have found.
	 */
	int (*wait)(struct chooser *, unsigned parity, const int64_t **ids, struct diag *);
};

#endif
