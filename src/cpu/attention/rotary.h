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
		turned; /* elements of a head; how many of them are rotated */
	int64_t batch, row, head;
	const float *cos, *sin;	 /* caches with rows of turned / 2 elements */
	const int64_t *position; /* cache row of position s of batch b; NULL: see `counted` */
	int64_t position_batch, position_row; /* strides of `position` */
	int64_t start; /* if position is NULL: the cache row is start + s if counted, otherwise b * length + s */
	bool interleaved, counted;
	const int64_t *starts; /* NULL, or one start per batch, which replaces `start` */
};

/* Writes the rotated x to y, which may be x. grain: least positions that are worth a thread. */
void rotary_turn(struct rotation *t, int64_t grain);
/* Whether all cache rows that rotary_turn will read are below `rows`; positions come from the model's inputs. */
bool rotary_fits(const struct rotation *t, int64_t rows);

#endif
