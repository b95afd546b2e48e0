/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_ROTARY_H
#define CPU_ATTENTION_ROTARY_H
/* Rotary position embedding: rotates pairs of a head's elements by an angle that depends on the position. */
#include <stdbool.h>
#include <stdint.h>

/* Head n at position s of batch b begins at element b * batch + s * row + n * head of x and y. */
struct rotation {
	const float *x;
	float *y;
	int64_t batches, length, heads, size,
		turned; /* number of elements of a head; number of elements that are rotated */
	int64_t batch, row, head;
	const float *cos, *sin; /* caches with rows of turned / 2 elements */
	/* cache row of each position of each batch; NULL if the row is computed from `start` */
	const int64_t *position;
	int64_t position_batch, position_row; /* strides of `position` */
	/* used if position is NULL: the cache row is then start + s if counted is set, otherwise b * length + s */
	int64_t start;
	bool interleaved, counted;
	const int64_t *starts; /* NULL, or one start per batch, which replaces `start` */
	/*
	 * NULL, or for each pair which of several numbers of the position it turns by; the numbers of all positions lie
	 * stream_step elements behind one another in `position`
	 */
	const uint8_t *stream;
	int64_t stream_step, streams;
};

/*
 * Writes the rotated x to y, which may be the same memory as x. grain is the smallest number of positions that are
 * worth a thread.
 */
void rotary_turn(struct rotation *t, int64_t grain);
/*
 * Returns whether all cache rows that rotary_turn will read are below `rows`. This must be checked because positions
 * come from the model's inputs.
 */
bool rotary_fits(const struct rotation *t, int64_t rows);

#endif
