/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_ROTARY_H
#define CPU_ATTENTION_ROTARY_H
/* Rotary position embedding: pairs of a head's elements turned by an angle of their position. */
#include <stdbool.h>
#include <stdint.h>

/* Where heads lie: element (b, s, n) begins at b * batch + s * row + n * head. */
struct rotation {
	const float *x;
	float *y;
	int64_t batches, length, heads, size, turned; /* size of a head; elements of it that turn */
	int64_t batch, row, head;
	const float *cos, *sin;		      /* rows of turned / 2 */
	const int64_t *position;	      /* NULL: row b * length + s of the caches */
	int64_t position_batch, position_row; /* strides */
	int64_t start;			      /* added where position is NULL and `counted` */
	bool interleaved, counted;
	const int64_t *starts; /* per batch, instead of start */
};

/* Turns x into y (which may be x); grain: positions worth a thread. */
void rotary_turn(struct rotation *t, int64_t grain);
/* Whether every row that will be read exists in caches of `rows` rows. */
bool rotary_fits(const struct rotation *t, int64_t rows);

#endif
