// SPDX-License-Identifier: Apache-2.0
// Attention in strict fp32 on tensor cores, whose scores never leave the registers, and a plain kernel for all other
// types and forms of attention.
#include "attend.cuh"

// ---- tensor cores ------------------------------------------------------------------------------

// big_part() and rest() split v into two parts that tf32 represents exactly, so that tensor cores do not round them. A
// NaN stays in the second part.
__device__ inline u32 big_part(float v)
{
	return (__float_as_uint(v) + 0x1000u) & 0xffffe000u;
}
__device__ inline u32 rest(float v, u32 big)
{
	return __float_as_uint(v - __uint_as_float(big));
}

// Computes c += a * b. Each factor is split into two tf32 parts, so that the product is as precise as in fp32.
__device__ inline void product(float *c, const float *a, float b0, float b1)
{
	u32 big[4], small[4], h0 = big_part(b0), h1 = big_part(b1);
	for (int i = 0; i < 4; i++) {
		big[i] = big_part(a[i]);
		small[i] = rest(a[i], big[i]);
	}
	mma_tf32(c, small, h0, h1);
	mma_tf32(c, big, rest(b0, h0), rest(b1, h1));
	mma_tf32(c, big, h0, h1);
}

// ---- one row, element by element -------------------------------------------------------------------------------------

// Returns the score of query i and key j as the softmax takes it; -infinity hides a key. *kept is what p.qk_mode asks for.
template <typename T, typename C>
__device__ inline C score_of(const gpu_attend &p, const T *q, const T *k, Range r, int64_t b, int64_t h, int64_t i, int64_t j,
			     int64_t keys, C *kept)
{
	C s = 0;
	bool beyond = j >= keys;
	for (int64_t e = 0; e < p.d && !beyond; e++)
		s += (C)up(q[e]) * (C)up(k[j * p.ks[2] + e * p.kd]);
	s *= (C)p.scale;
	*kept = s;
	if (p.softcap > 0)
		s = (C)p.softcap * tanh(s / (C)p.softcap);
	*kept = p.qk_mode == GPU_QK_CAPPED ? s : *kept;
	if (beyond) {
		s = *kept = -(C)INFINITY;
	} else if (j < r.first || j >= r.end) {
		s = -(C)INFINITY;
	} else {
		s = masked<C>(p, s, b, h, i, j);
	}
	*kept = p.qk_mode == GPU_QK_MASKED ? s : *kept;
	return s;
}

// A warp computes the row of query i by plain multiplications. The two parts of an infinity are an infinity and a NaN, so that
// every product() with one is NaN, also where the sum is infinite or the key is hidden.
__device__ __noinline__ void plain_row(const gpu_attend &p, int64_t b, int64_t h, int64_t i)
{
	const int lane = threadIdx.x % 32;
	int64_t keys = keys_of(p, b), kh = h / (p.heads / p.kv_heads);
	const f32 *q = (const f32 *)p.q + b * p.qs[0] + h * p.qs[1] + i * p.qs[2];
	const f32 *k = (const f32 *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const f32 *)p.v + b * p.vs[0] + kh * p.vs[1];
	f32 *y = (f32 *)p.y + b * p.ys[0] + h * p.ys[1] + i * p.ys[2];
	Range r = range(p, b, i, keys);
	float kept, top = -INFINITY, sum = 0;
	for (int64_t j = lane; j < keys; j += 32) {
		float s = score_of(p, q, k, r, b, h, i, j, keys, &kept);
		top = s != s || s > top ? s : top;
	}
	for (int by = 16; by; by /= 2) {
		float other = __shfl_xor_sync(0xffffffffu, top, by);
		top = other != other || other > top ? other : top;
	}
	bool none = top == -INFINITY;
	for (int64_t j = lane; j < keys; j += 32)
		sum += none ? 0.0f : expf(score_of(p, q, k, r, b, h, i, j, keys, &kept) - top);
	for (int by = 16; by; by /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, by);
	if ((none && p.safe) || (p.nan_to_zero && sum != sum))
		return; // write_rows() has written this row
	for (int64_t e0 = 0; e0 < p.dv; e0 += 32) {
		float out = 0;
		for (int64_t j0 = 0; j0 < keys; j0 += 32) {
			float part = 0;
			if (j0 + lane < keys)
				part = none ? 0.0f : expf(score_of(p, q, k, r, b, h, i, j0 + lane, keys, &kept) - top);
			for (int n = 0; n < 32; n++) {
				float each = __shfl_sync(0xffffffffu, part, n) / sum;
				if (j0 + n < keys && e0 + lane < p.dv)
					out += each * v[(j0 + n) * p.vs[2] + e0 + lane];
			}
		}
		if (e0 + lane < p.dv)
			y[e0 + lane] = out;
	}
}

// Writes a warp's 16 rows; those that came out NaN are computed anew.
template <int HEAD>
__device__ inline void write_rows_exactly(const gpu_attend &p, int64_t b, int64_t h, const int *row, float out[HEAD / 8][4],
					float *sum)
{
	write_rows<f32, HEAD, ANY>(p, b, h, row, out, sum, 1.0f);
	for (int r = 0; r < 2; r++) {
		float all = sum[r];
#pragma unroll
		for (int n = 0; n < HEAD / 8; n++)
			all += 0.0f * (out[n][2 * r] + out[n][2 * r + 1]);
		u32 lost = __ballot_sync(0xffffffffu, row[r] < p.s && all != all);
		__syncthreads(); // other lanes write what this one has written
		for (int g = 0; g < 8; g++)
			if (lost >> (4 * g) & 0xfu)
				plain_row(p, b, h, row[r] - (int)threadIdx.x % 32 / 4 + g);
	}
}

// Copies ROWS rows of a head, starting at position `from`, into shared memory. Elements beyond the tensor become 0.
template <int HEAD, int LD, int ROWS>
__device__ inline void load_rows(f32 *to, const f32 *x, int64_t step, int64_t each, int from, int end, int d, bool vector)
{
	if (vector) {
#pragma unroll 4
		for (int e = threadIdx.x; e < ROWS * (HEAD / 4); e += blockDim.x) {
			int r = e / (HEAD / 4), c = e % (HEAD / 4) * 4;
			bool in = from + r < end && c < d;
			fetch16(to + r * LD + c, in ? x + (from + r) * step + c : x, in);
		}
	} else {
		for (int e = threadIdx.x; e < ROWS * HEAD; e += blockDim.x) {
			int r = e / HEAD, c = e % HEAD;
			bool in = from + r < end && c < d;
			to[r * LD + c] = in ? x[(from + r) * step + c * each] : 0.0f;
		}
	}
}

// A warp computes 16 queries of one head. Keys pass through shared memory in tiles of BN: while one tile is used, the
// next is being copied.
template <int HEAD, int BN> __device__ inline void flash(const gpu_attend &p)
{
	SHARED_ROOM(uint4, shared);
	const int LD = HEAD + 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, TILE = 2 * BN * LD;
	f32 *tiles = (f32 *)shared;
	int64_t h = blockIdx.y, b = blockIdx.z, kh = h / (p.heads / p.kv_heads), mask[2];
	int block0 = blockIdx.x * (blockDim.x / 2), row[2], first[2], end[2], keys = (int)keys_of(p, b);
	row[0] = block0 + threadIdx.x / 32 * 16 + g;
	row[1] = row[0] + 8;
	const f32 *q = (const f32 *)p.q + b * p.qs[0] + h * p.qs[1];
	const f32 *k = (const f32 *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const f32 *)p.v + b * p.vs[0] + kh * p.vs[1];
	float qf[HEAD / 8][4], out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

	// Find the ranges of keys that are visible to any query of this block, of this warp, and of this thread.
	int last = block0 + blockDim.x / 2 - 1, warp_last = block0 + (threadIdx.x / 32 + 1) * 16 - 1;
	int begin = (int)range(p, b, block0, keys).first / BN * BN;
	int stop = (int)range(p, b, last < p.s ? last : p.s - 1, keys).end;
	int warp_stop = (int)range(p, b, warp_last < p.s ? warp_last : p.s - 1, keys).end;
	for (int r = 0; r < 2; r++) {
		Range own = range(p, b, row[r], keys);
		first[r] = (int)own.first;
		end[r] = row[r] < p.s ? (int)own.end : 0;
		mask[r] = b * p.ms[0] + h * p.ms[1] + row[r] * p.ms[2];
	}
	if (begin < stop) {
		load_rows<HEAD, LD, BN>(tiles, k, p.ks[2], p.kd, begin, keys, p.d, p.vector);
		load_rows<HEAD, LD, BN>(tiles + BN * LD, v, p.vs[2], 1, begin, keys, p.dv, p.vector);
	}
	fetch_end();
#pragma unroll
	for (int i = 0; i < HEAD / 8; i++)
		for (int a = 0; a < 4; a++) {
			int c = i * 8 + t + a / 2 * 4;
			qf[i][a] = row[a % 2] < p.s && c < p.d ? q[row[a % 2] * p.qs[2] + c] : 0.0f;
		}
	int turn = 0;
	for (int j0 = begin; j0 < stop; j0 += BN, turn ^= 1) {
		f32 *ks = tiles + turn * TILE, *vs = ks + BN * LD, *next = tiles + (turn ^ 1) * TILE;
		if (j0 + BN < stop) {
			load_rows<HEAD, LD, BN>(next, k, p.ks[2], p.kd, j0 + BN, keys, p.d, p.vector);
			load_rows<HEAD, LD, BN>(next + BN * LD, v, p.vs[2], 1, j0 + BN, keys, p.dv, p.vector);
		}
		fetch_end();
		fetch_wait<1>();
		__syncthreads();
		if (j0 < warp_stop) {
			float s[BN / 8][4] = {};
#pragma unroll
			for (int i = 0; i < HEAD / 8; i++)
#pragma unroll
				for (int n = 0; n < BN / 8; n++) {
					const f32 *at = ks + (n * 8 + g) * LD + i * 8;
					product(s[n], qf[i], at[t], at[t + 4]);
				}
			mask_tile<f32, BN, ANY>(p, s, p.scale, j0, first, end, mask);
			softmax_tile<BN, HEAD>(s, out, top, sum);
			// The probabilities keep their registers. This permutes the keys, but does not change a sum over keys.
#pragma unroll
			for (int i = 0; i < BN / 8; i++) {
				float a[4] = {s[i][0], s[i][2], s[i][1], s[i][3]};
#pragma unroll
				for (int n = 0; n < HEAD / 8; n++) {
					const f32 *at = vs + (i * 8 + 2 * t) * LD + n * 8 + g;
					product(out[n], a, at[0], at[LD]);
				}
			}
		}
		__syncthreads(); // the next iteration overwrites this tile
	}
	write_rows_exactly<HEAD>(p, b, h, row, out, sum);
}

// ---- plain: every type and form -----------------------------------------------------------------------------------

template <typename C> __device__ inline C rounded_to(int type, C v)
{
	if (type == T_F16)
		return (C)up(down<f16>((float)v));
	return type == T_BF16 ? (C)up(down<bf16>((float)v)) : v;
}

// A block computes one query after the other. The scores are in global memory: each block has a row of p.scratch for
// them.
template <typename T> __device__ inline void plain(const gpu_attend &p)
{
	typedef typename Wide<T>::type C;
	C *score = (C *)p.scratch + blockIdx.x * p.t;
	for (int64_t z = blockIdx.x; z < p.batch * p.heads * p.s; z += gridDim.x) {
		int64_t i = z % p.s, h = z / p.s % p.heads, b = z / p.s / p.heads, keys = keys_of(p, b), kh = h / (p.heads / p.kv_heads);
		const T *q = (const T *)p.q + b * p.qs[0] + h * p.qs[1] + i * p.qs[2];
		const T *k = (const T *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const T *)p.v + b * p.vs[0] + kh * p.vs[1];
		T *y = (T *)p.y + b * p.ys[0] + h * p.ys[1] + i * p.ys[2], *qk = p.qk ? (T *)p.qk + z * p.t : NULL;
		Range r = range(p, b, i, keys);
		C max = -(C)INFINITY, sum = 0;
		__syncthreads();
		for (int64_t j = threadIdx.x; j < p.t; j += blockDim.x) {
			C kept, s = score_of(p, q, k, r, b, h, i, j, keys, &kept);
			if (qk && p.qk_mode < GPU_QK_PROBABILITIES)
				qk[j] = down<T>(kept);
			s = rounded_to(p.round, s);
			score[j] = s;
			max = s != s || s > max ? s : max;
		}
		max = block_all(max, [](C a, C c) { return a != a || a > c ? a : c; });
		C sink = p.sink ? (C)up(((const T *)p.sink)[h]) : -(C)INFINITY;
		max = sink > max ? sink : max;
		bool none = max == -(C)INFINITY;
		for (int64_t j = threadIdx.x; j < p.t; j += blockDim.x) {
			score[j] = none ? C(0) : exp(score[j] - max);
			sum += score[j];
		}
		sum = block_all(sum, [](C a, C c) { return a + c; });
		if (p.sink && !none)
			sum += exp(sink - max);
		bool nothing = (none && p.safe) || (p.nan_to_zero && sum != sum);
		for (int64_t j = threadIdx.x; j < p.t; j += blockDim.x) {
			C s = rounded_to(p.round, nothing ? C(0) : score[j] / sum);
			score[j] = s;
			if (qk && p.qk_mode == GPU_QK_PROBABILITIES)
				qk[j] = down<T>(s);
		}
		__syncthreads();
		for (int64_t e = threadIdx.x; e < p.dv; e += blockDim.x) {
			C o = 0;
			for (int64_t j = 0; j < keys; j++)
				o += score[j] * (C)up(v[j * p.vs[2] + e]);
			y[e] = down<T>(o);
		}
	}
}

// ---- rotary embedding --------------------------------------------------------------------------

// A thread rotates one pair of elements, or copies one element beyond the rotated ones.
// Index of the component of a position (t, h or w) by which pair k is rotated.
__device__ inline int64_t rotary_stream(const gpu_rotary &p, int64_t k)
{
	if (!p.streams)
		return 0;
	if (p.in_turn)
		return k % 3 && k < p.section[k % 3] ? k % 3 : 0;
	return k < p.section[0] ? 0 : k < p.section[1] ? 1 : 2;
}

template <typename T> __device__ inline void rotary(const gpu_rotary &p)
{
	int64_t half = p.turned / 2, each = half + p.size - p.turned;
	EACH(i, p.batch * p.length * p.heads * each)
	{
		int64_t k = i % each, h = i / each % p.heads, s = i / each / p.heads % p.length, b = i / each / p.heads / p.length;
		int64_t at = b * p.step[0] + s * p.step[1] + h * p.step[2];
		const T *x = (const T *)p.x + at;
		T *y = (T *)p.y + at;
		if (k >= half) {
			y[k + half] = x[k + half];
			continue;
		}
		int64_t row = b * p.length + s;
		if (p.position)
			row = p.counted ? p.position[0] + s
					: p.position[rotary_stream(p, k) * p.batch * p.length + b * p.position_batch + s];
		if (row < 0 || row >= p.rows) {
			*p.fault = p.who;
			continue;
		}
		int64_t e = p.interleaved ? 2 * k : k, f = p.interleaved ? 2 * k + 1 : k + half;
		float c = up(((const T *)p.cos)[row * half + k]), n = up(((const T *)p.sin)[row * half + k]);
		float u = up(x[e]), v = up(x[f]);
		y[e] = down<T>(c * u - n * v);
		y[f] = down<T>(n * u + c * v);
	}
}

// __grid_constant__: threads would copy the parameters to memory of their own, where a function takes their address.
#define PLAIN(T)                                                                                                       \
	extern "C" __global__ void attend_plain_##T(const __grid_constant__ gpu_attend p) { plain<T>(p); }
PLAIN(f32) PLAIN(f16) PLAIN(bf16) PLAIN(f64)
#define ROTARY(T) extern "C" __global__ void rotary_##T(const __grid_constant__ gpu_rotary p) { rotary<T>(p); }
ROTARY(f32) ROTARY(f16) ROTARY(bf16)
#define FLASH(HEAD, BN)                                                                                                \
	extern "C" __global__ void __launch_bounds__(128) attend_f32_##HEAD(const __grid_constant__ gpu_attend p)                        \
	{                                                                                                              \
		flash<HEAD, BN>(p);                                                                                    \
	}
// FLASH(head size, keys in a tile). gpu/ops/sdpa.c computes the size of the shared memory from the same numbers.
FLASH(64, 32)
FLASH(128, 16)
