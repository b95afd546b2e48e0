// SPDX-License-Identifier: Apache-2.0
// Code that the attention kernels share: visible ranges of keys, masks, and the running softmax.
#pragma once
#include "common.cuh"
#include "ptx.cuh"

// PLAIN: no mask and no soft cap, and operands can be read 16 bytes at a time. MASKED: like PLAIN, but with an additive
// mask of type T. ANY: all other cases.
enum Form { PLAIN, MASKED, ANY };

// The keys [first, end) that query i may see; `valid` is the number of valid keys of its batch, if that counts.
struct Range {
	int64_t first, end;
};
__device__ inline Range range_of(const gpu_attend &p, int64_t valid, int64_t i, int64_t keys)
{
	int64_t at = i + (p.behind_valid ? valid - p.s : p.offset);
	Range r = {0, keys};
	if (p.left >= 0 && at - p.left > 0)
		r.first = at - p.left;
	if (p.right >= 0 && at + p.right + 1 < keys && !(p.last_sees_all && i + 1 == p.s))
		r.end = at + p.right + 1;
	return r;
}
__device__ inline Range range(const gpu_attend &p, int64_t b, int64_t i, int64_t keys)
{
	return range_of(p, p.behind_valid ? p.valid[b] : 0, i, keys);
}
__device__ inline int64_t keys_of(const gpu_attend &p, int64_t b)
{
	if (!p.valid)
		return p.t;
	int64_t n = p.valid[b];
	return n < 0 ? 0 : n > p.t ? p.t : n;
}

template <typename C = float> __device__ inline C number(int type, const void *x, int64_t i)
{
	switch (type) {
	case T_F32: return ((const f32 *)x)[i];
	case T_U8: return ((const u8 *)x)[i];
	case T_I8: return ((const i8 *)x)[i];
	case T_I32: return (C)((const i32 *)x)[i];
	case T_I64: return (C)((const i64 *)x)[i];
	case T_F16: return up(((const f16 *)x)[i]);
	case T_F64: return (C)((const f64 *)x)[i];
	case T_BF16: return up(((const bf16 *)x)[i]);
	default: return 0;
	}
}

// Adds the mask and the bias to the score of query i and key j; returns -infinity if they hide the key.
template <typename C>
__device__ inline C masked(const gpu_attend &p, C s, int64_t b, int64_t h, int64_t i, int64_t j)
{
	int64_t m = b * p.ms[0] + h * p.ms[1] + i * p.ms[2] + j * p.ms[3];
	if (p.mask_type && j >= p.mask_keys)
		s = -(C)INFINITY;
	else if (p.mask_type == T_BOOL)
		s = ((const u8 *)p.mask)[m] ? s : isinf(p.hidden) ? -(C)INFINITY : s + (C)p.hidden;
	else if (p.mask_type)
		s += number<C>(p.mask_type, p.mask, m);
	if (p.bias_type)
		s += number<C>(p.bias_type, p.bias, b * p.bs[0] + h * p.bs[1] + i * p.bs[2] + j * p.bs[3]);
	return s;
}

// A score to which a mask has been added, such that log2(e) times it stays finite: a finite number, say -FLT_MAX, hides no key of a query that sees
// no other.
__device__ inline float bounded(float score)
{
	const float least = -2.3586e38f;
	return score < least && score != -INFINITY ? least : score;
}

__device__ inline float soft_cap(float x, float cap, bool exact)
{
	if (exact)
		return cap * tanhf(x / cap);
	return cap - 2.0f * cap / (exp2_of(x / cap * 2.8853900817779268f) + 1.0f);
}

// Multiplies the scores of the tile that begins at key j0 by scale and log2(e), so that exp2 can take them. Hidden keys
// get -infinity.
template <typename T, int BN, Form FORM>
__device__ inline void mask_tile(const gpu_attend &p, float s[BN / 8][4], float scale, int j0, const int *first,
				 const int *end, const int64_t *mask)
{
	const float log2e = 1.4426950408889634f;
	const int j1 = j0 + threadIdx.x % 4 * 2;
	bool whole = first[0] <= j0 && end[0] >= j0 + BN && first[1] <= j0 && end[1] >= j0 + BN;
	if (FORM == PLAIN || (FORM == ANY && !p.mask_type && !(p.softcap > 0))) {
#pragma unroll
		for (int n = 0; n < BN / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				s[n][e] *= scale * log2e;
		if (whole)
			return;
#pragma unroll
		for (int n = 0; n < BN / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int j = j1 + n * 8 + e % 2, r = e / 2;
				s[n][e] = j >= first[r] && j < end[r] ? s[n][e] : -INFINITY;
			}
		return;
	}
	// Load the whole mask of the tile before using any of it, so that the loads overlap.
	float add[BN / 8][4];
	int last = (FORM == MASKED || p.mask_type) && p.mask_keys < end[0] ? (int)p.mask_keys : end[0];
	int last1 = (FORM == MASKED || p.mask_type) && p.mask_keys < end[1] ? (int)p.mask_keys : end[1], step = (int)p.ms[3];
#pragma unroll
	for (int n = 0; n < BN / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			int j = j1 + n * 8 + e % 2, r = e / 2;
			bool seen = j >= first[r] && j < (r ? last1 : last);
			float m = seen ? 0.0f : -INFINITY;
			if (FORM == ANY && seen && p.mask_type == T_BOOL)
				m = ((const u8 *)p.mask + mask[r])[j * step] ? 0.0f : p.hidden;
			else if (seen && (FORM == MASKED || p.mask_type))
				m = up(((const T *)p.mask + mask[r])[j * step]);
			add[n][e] = m;
		}
#pragma unroll
	for (int n = 0; n < BN / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			float x = s[n][e] * scale;
			if (FORM == ANY && p.softcap > 0)
				x = soft_cap(x, p.softcap, sizeof(T) == 4);
			s[n][e] = (add[n][e] == -INFINITY ? -INFINITY : bounded(x + add[n][e])) * log2e;
		}
}

// The running softmax: turns a tile's scores into their exponentials under the new maximum, and rescales out and sum
// from the old maximum to the new one.
template <int BN, int HEAD>
__device__ inline void softmax_tile(float s[BN / 8][4], float out[HEAD / 8][4], float *top, float *sum)
{
	float most[2] = {top[0], top[1]}, scale[2], base[2];
#pragma unroll
	for (int n = 0; n < BN / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			most[e / 2] = fmaxf(most[e / 2], s[n][e]);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
		most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
		base[r] = most[r] == -INFINITY ? 0.0f : most[r];
		scale[r] = exp2_of(top[r] - base[r]);
		top[r] = most[r];
		sum[r] *= scale[r];
	}
#pragma unroll
	for (int n = 0; n < BN / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[n][e] = exp2_of(s[n][e] - base[e / 2]);
			sum[e / 2] += s[n][e];
		}
#pragma unroll
	for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			out[n][e] *= scale[e / 2];
}

__device__ inline void store_pair(f32 *y, float a, float b) { *(float2 *)y = make_float2(a, b); }
__device__ inline void store_pair(f16 *y, float a, float b) { *(__half2 *)y = __floats2half2_rn(a, b); }
__device__ inline void store_pair(bf16 *y, float a, float b) { *(__nv_bfloat162 *)y = __floats2bfloat162_rn(a, b); }
__device__ inline float2 load_pair(const f32 *x) { return *(const float2 *)x; }
__device__ inline float2 load_pair(const f16 *x) { return __half22float2(*(const __half2 *)x); }
__device__ inline float2 load_pair(const bf16 *x) { return __bfloat1622float2(*(const __nv_bfloat162 *)x); }
__device__ inline u32 pair(float a, float b, f16)
{
	__half2 v = __floats2half2_rn(a, b);
	return *(u32 *)&v;
}
__device__ inline u32 pair(float a, float b, bf16)
{
	__nv_bfloat162 v = __floats2bfloat162_rn(a, b);
	return *(u32 *)&v;
}

// What probabilities of 0 make of element c of the values: 0, or NaN if one of them is infinite or NaN.
template <typename T> __device__ __noinline__ float zero_of_values(const gpu_attend &p, int64_t b, int64_t h, int c)
{
	const T *v = (const T *)p.v + b * p.vs[0] + h / (p.heads / p.kv_heads) * p.vs[1] + c;
	float sum = 0;
	for (int64_t j = 0; j < p.t; j++)
		sum += 0.0f * up(v[j * p.vs[2]]);
	return sum;
}

// The result of a query whose probabilities are NaN, or that sees no key, if that is not NaN.
template <typename T> __device__ inline float nothing_seen(const gpu_attend &p, int64_t b, int64_t h, int c)
{
	return p.nan_to_zero && c < p.dv ? zero_of_values<T>(p, b, h, c) : 0.0f;
}

// Writes a warp's 16 rows: out divided by each row's sum of exponentials and multiplied by `by`, which undoes the
// scaling of the values.
template <typename T, int HEAD, Form FORM>
__device__ inline void write_rows(const gpu_attend &p, int64_t b, int64_t h, const int *row, float out[HEAD / 8][4],
				  float *sum, float by)
{
	const int t = threadIdx.x % 4;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
		if (row[r] >= p.s)
			continue;
		T *y = (T *)p.y + b * p.ys[0] + h * p.ys[1] + row[r] * p.ys[2];
		bool nothing = (p.safe && sum[r] == 0) || (p.nan_to_zero && sum[r] != sum[r]);
		float each = by / sum[r];
#pragma unroll
		for (int n = 0; n < HEAD / 8; n++) {
			int c = n * 8 + 2 * t;
			float v[2] = {out[n][2 * r] * each, out[n][2 * r + 1] * each};
			for (int e = 0; e < 2 && nothing; e++)
				v[e] = nothing_seen<T>(p, b, h, c + e);
			if (FORM != ANY && c < p.dv) {
				store_pair(y + c, v[0], v[1]);
			} else if (FORM == ANY) {
				for (int e = 0; e < 2; e++)
					if (c + e < p.dv)
						y[c + e] = down<T>(v[e]);
			}
		}
	}
}
