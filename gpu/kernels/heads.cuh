// SPDX-License-Identifier: Apache-2.0
// What is known of heads, and how elements of new rows are made: heads.cu makes them ahead of an attention, attend_few.cu as part of it.
#pragma once
#include "any.cuh"
#include "heads.h"

// Returns element e of a new row with its bias added. If p.norm is set, the row is normalized: `by` is the factor of
// the row.
template <typename T> __device__ inline float head_value(const gpu_heads &p, const T *x, int64_t h, float by, int64_t e)
{
	float v = up(x[e]) + (p.bias ? up(((const T *)p.bias)[h * p.size + e]) : 0.0f);
	return p.norm ? v * by * up(((const T *)p.norm)[e]) : v;
}

// ---- quantized caches

__device__ inline float code_scale(const gpu_codes &c, int64_t head, int64_t size, int64_t e)
{
	return c.scale[c.each ? head * size + e : 0];
}
__device__ inline float code_get(const gpu_codes &c, const void *x, int64_t i)
{
	return c.bits == 4 ? (float)packed_get(x, i, 4) - 8 : (float)any_real(c.type, x, i);
}
__device__ inline float code_nearest(const gpu_codes &c, float v)
{
	float most = c.bits == 4 ? 7 : 127;
	if (c.type == T_F8E4M3FN)
		return f8_get(c.type, f8_put(c.type, v, true));
	v = rintf(v);
	return v < -most - 1 ? -most - 1 : v < most ? v : most;
}

template <typename T> __device__ inline float cached(const gpu_heads &p, int64_t head, int64_t i, int64_t e)
{
	if (!p.codes.scale)
		return (float)any_real(p.codes.type, p.past, i);
	return code_get(p.codes, p.past, i) * code_scale(p.codes, head, p.size, e);
}

// Returns element e of a new row of head h: with its bias, normalized (`by` is the factor), turned as at this position, and (CODES)
// rounded as the cache rounds.
template <typename T, bool CODES>
__device__ inline T new_element(const gpu_heads &p, const T *x, int64_t h, float by, int64_t position, int64_t e)
{
	const int64_t half = p.turned / 2;
	float v = head_value<T>(p, x, h, by, e);
	if (e < p.turned) {
		bool second = p.interleaved ? e % 2 : e >= half;
		int64_t k = p.interleaved ? e / 2 : e % half;
		int64_t other = p.interleaved ? e ^ 1 : second ? e - half : e + half;
		float u = head_value<T>(p, x, h, by, other);
		float c = up(((const T *)p.cos)[position * half + k]), s = up(((const T *)p.sin)[position * half + k]);
		v = second ? s * u + c * v : c * v - s * u;
	}
	if (CODES && p.codes.scale) {
		float f = code_scale(p.codes, h, p.size, e);
		v = code_nearest(p.codes, v / f) * f;
	}
	return down<T>(v);
}

// ---- lengths

// Returns how many positions a cache holds after t positions were added. Whenever the cache is full, the oldest
// positions are dropped, so that window - 1 remain.
__device__ inline int64_t cached_positions(const gpu_lengths &p, int64_t t)
{
	int64_t step = p.past - p.window + 1;
	return t <= p.past ? t : t - step * ((t - p.past + step - 1) / step);
}

// What the length of a batch says: valid keys, position of query 0, valid cached rows, rows that the new cache keeps. All are zero if
// it is not good. Each block that needs them computes them anew, which is quicker than waiting for another kernel.
struct Lengths {
	int64_t valid, first, used, keep;
	bool good;
};
__device__ inline Lengths lengths_of(const gpu_lengths &p, int64_t b)
{
	int64_t all = (int64_t)p.last[b] + 1, first = p.prompt ? 0 : all - p.queries;
	bool good = all >= 0 && first >= 0;
	int64_t used = !good ? 0 : p.window ? cached_positions(p, first) : first, valid = used + all - first;
	int64_t keep = !good ? 0 : p.window ? cached_positions(p, all) : used + p.queries;
	if (!good || valid > p.keys || used > p.past)
		return {0, 0, 0, 0, false};
	return {valid, first, used, keep, true};
}

// Which rows of a head are from where: those before `used` from the cache, the next p.rows are new, the others are zero.
__device__ inline int64_t used_rows(const gpu_heads &p, const gpu_lengths &lengths, int64_t b)
{
	return !p.past ? 0 : lengths.last ? lengths_of(lengths, b).used : p.past_room;
}

// The position of new row `now`; `good` becomes false if the rotation table has no such row.
__device__ inline int64_t new_position(const gpu_heads &p, const gpu_lengths &lengths, int64_t b, int64_t now, bool &good)
{
	int64_t row = p.position ? p.position[b * p.rows + now] : lengths.last ? lengths_of(lengths, b).first + now : now;
	good = !p.turned || (row >= 0 && row < p.cache_rows);
	return row;
}
