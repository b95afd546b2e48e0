/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target offset of an element is a sum of one term per dimension. The elements of one dimension, the inner
 * dimension, are adjacent in the target. Each combination of indices of the other dimensions is a column, and a
 * table holds the source and target offset of every column. Tiles of the inner dimension are copied column by
 * column: reads go along the source's rows, writes fill whole cache lines.
 */
#include "cpu/onednn/pack.h"

#include "base/mem.h"
#include "base/pool.h"

#include <string.h>

enum { TILE = 16, PIECE_ELEMENTS = 1 << 14 };

struct column {
	int64_t from, to;
};

struct pack_job {
	const struct pack *p;
	const float *src;
	float *dst;
	int inner;
	int64_t tile, columns;
	const struct column *column;
};

/* Returns the part of an element's target offset that index i of dimension d contributes. */
static int64_t target_offset(const struct pack *p, int d, int64_t i)
{
	int64_t at = 0, step = 1;
	for (int k = p->blocks - 1; k >= 0; k--) {
		if (p->block_dim[k] == d) {
			at += i % p->block[k] * step;
			i /= p->block[k];
		}
		step *= p->block[k];
	}
	return at + i * p->to[d];
}

/* Returns the dimension whose consecutive indices are adjacent in the target, or -1 if there is no such dimension. */
static int inner_dim(const struct pack *p)
{
	if (p->blocks)
		return p->block_dim[p->blocks - 1];
	for (int d = 0; d < p->rank; d++)
		if (p->to[d] == 1 && p->dim[d] > 1)
			return d;
	return -1;
}

/*
 * Returns how many indices of the inner dimension are copied at once. This number divides the innermost block, so
 * that the tile is contiguous in the target.
 */
static int64_t tile_size(const struct pack *p, int inner)
{
	int64_t block = p->blocks ? p->block[p->blocks - 1] : p->dim[inner], tile = TILE;
	if (p->from[inner] == 1)
		tile = 4 * TILE;
	while (tile > 1 && block % tile)
		tile /= 2;
	return block < tile ? block : tile;
}

static void fill_columns(const struct pack *p, int inner, struct column *c, int64_t n)
{
	int64_t at[PACK_MAX] = {0};
	for (int64_t i = 0; i < n; i++) {
		c[i] = (struct column){0};
		for (int d = 0; d < p->rank; d++)
			if (d != inner) {
				c[i].from += at[d] * p->from[d];
				c[i].to += target_offset(p, d, at[d]);
			}
		for (int d = p->rank - 1; d >= 0; d--) {
			if (d == inner)
				continue;
			if (++at[d] < p->dim[d])
				break;
			at[d] = 0;
		}
	}
}

static void copy_tile(const struct pack_job *j, int64_t tile, int64_t first, int64_t end)
{
	const struct pack *p = j->p;
	int64_t i0 = tile * j->tile,
		n = p->dim[j->inner] - i0 < j->tile ? p->dim[j->inner] - i0 : j->tile;
	int64_t step = p->from[j->inner];
	const float *src = j->src + i0 * step;
	float *dst = j->dst + target_offset(p, j->inner, i0);
	for (int64_t k = first; k < end; k++) {
		const float *from = src + j->column[k].from;
		float *to = dst + j->column[k].to;
		if (step == 1) {
			memcpy(to, from, (size_t)n * sizeof(float));
		} else if (n == TILE) {
			for (int i = 0; i < TILE; i++)
				to[i] = from[i * step];
		} else {
			for (int64_t i = 0; i < n; i++)
				to[i] = from[i * step];
		}
	}
}

/*
 * Copies the pieces begin to end - 1. The columns are divided into parts; piece i copies tile i % tiles of all
 * columns in part i / tiles.
 */
static void copy_pieces(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pack_job *j = arg;
	int64_t tiles = (j->p->dim[j->inner] + j->tile - 1) / j->tile;
	int64_t part = PIECE_ELEMENTS / j->tile;
	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t first = i / tiles * part;
		int64_t last = first + part < j->columns ? first + part : j->columns;
		copy_tile(j, i % tiles, first, last);
	}
}

bool pack_f32(const struct pack *p, const float *src, float *dst)
{
	struct pack_job j = {.p = p, .src = src, .dst = dst, .inner = inner_dim(p), .columns = 1};
	if (j.inner < 0)
		return false;
	for (int d = 0; d < p->rank; d++)
		if (d != j.inner)
			j.columns *= p->dim[d];
	struct column *table = mem_alloc((size_t)j.columns * sizeof(*table), MEM_STAGING);
	if (!table)
		return false;
	fill_columns(p, j.inner, table, j.columns);
	j.column = table;
	j.tile = tile_size(p, j.inner);
	if (p->padded)
		memset(dst, 0, p->bytes);
	int64_t parts = (j.columns + PIECE_ELEMENTS / j.tile - 1) / (PIECE_ELEMENTS / j.tile);
	pool_for(parts * ((p->dim[j.inner] + j.tile - 1) / j.tile), 2, copy_pieces, &j);
	mem_free(table);
	return true;
}
