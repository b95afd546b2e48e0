// SPDX-License-Identifier: Apache-2.0
// Attention: by tensor cores, scores never leaving the registers, and plainly for every type and form.
#include "common.cuh"

__device__ inline float number(int type, const void *x, int64_t i)
{
	switch (type) {
	case 1: return ((const f32 *)x)[i];
	case 2: return ((const u8 *)x)[i];
	case 3: return ((const i8 *)x)[i];
	case 6: return (float)((const i32 *)x)[i];
	case 7: return (float)((const i64 *)x)[i];
	case 10: return up(((const f16 *)x)[i]);
	case 11: return (float)((const f64 *)x)[i];
	case 16: return up(((const bf16 *)x)[i]);
	default: return 0;
	}
}

// Keys [first, end) that query i of batch b may see.
struct Range {
	int64_t first, end;
};
__device__ inline Range range(const gpu_attend &p, int64_t b, int64_t i, int64_t keys)
{
	int64_t at = i + (p.behind_valid ? p.valid[b] - p.s : p.offset);
	Range r = {0, keys};
	if (p.left >= 0 && at - p.left > 0)
		r.first = at - p.left;
	if (p.right >= 0 && at + p.right + 1 < keys && !(p.last_sees_all && i + 1 == p.s))
		r.end = at + p.right + 1;
	return r;
}
__device__ inline int64_t keys_of(const gpu_attend &p, int64_t b)
{
	if (!p.valid)
		return p.t;
	int64_t n = p.valid[b];
	return n < 0 ? 0 : n > p.t ? p.t : n;
}

// ---- tensor cores ------------------------------------------------------------------------------

__device__ inline u32 tf32(float v)
{
	u32 r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
	return r;
}
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f32)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		     "{%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f16)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		     "{%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, bf16)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		     "{%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <typename T> __device__ inline u32 pack(T a, T b)
{
	u16 x = *(const u16 *)&a, y = *(const u16 *)&b;
	return (u32)x | (u32)y << 16;
}

// What is left of v when it is rounded to tf32: with it a product is as good as one of fp32.
__device__ inline u32 rest(float v, u32 big)
{
	float b = __uint_as_float(big);
	return b == v ? 0u : tf32(v - b);
}

// c += a b of 32-bit numbers, rounded to tf32 or (EXACT) in two parts each.
template <bool EXACT> __device__ inline void product(float *c, const float *a, float b0, float b1)
{
	u32 big[4];
	for (int i = 0; i < 4; i++)
		big[i] = EXACT ? tf32(a[i]) : __float_as_uint(a[i]);
	if constexpr (EXACT) {
		u32 small[4], h0 = tf32(b0), h1 = tf32(b1);
		for (int i = 0; i < 4; i++)
			small[i] = rest(a[i], big[i]);
		mma(c, small, h0, h1, f32());
		mma(c, big, rest(b0, h0), rest(b1, h1), f32());
		mma(c, big, h0, h1, f32());
	} else {
		mma(c, big, __float_as_uint(b0), __float_as_uint(b1), f32());
	}
}

template <typename T, bool EXACT> __device__ inline T rounded(T v)
{
	if constexpr (sizeof(T) == 4 && !EXACT)
		return __uint_as_float(tf32(v));
	else
		return v;
}

// `rows` rows of a head, from position `from`, into shared memory; zeros beyond what there is.
template <typename T, int HEAD, int LD, bool EXACT>
__device__ inline void load_rows(T *to, const T *x, int64_t step, int64_t each, int64_t from, int64_t end, int rows,
				 int64_t d, bool vector)
{
	const int V = 16 / sizeof(T);
	if (vector) {
		for (int e = threadIdx.x; e < rows * (HEAD / V); e += blockDim.x) {
			int r = e / (HEAD / V), c = e % (HEAD / V) * V;
			uint4 raw = make_uint4(0, 0, 0, 0);
			if (from + r < end && c < d)
				raw = *(const uint4 *)(x + (from + r) * step + c);
			T *v = (T *)&raw;
			for (int i = 0; i < V; i++)
				v[i] = rounded<T, EXACT>(v[i]);
			*(uint4 *)(to + r * LD + c) = raw;
		}
	} else {
		for (int e = threadIdx.x; e < rows * HEAD; e += blockDim.x) {
			int r = e / HEAD, c = e % HEAD;
			bool in = from + r < end && c < d;
			to[r * LD + c] = in ? rounded<T, EXACT>(x[(from + r) * step + c * each]) : down<T>(0.0f);
		}
	}
}

// One warp 16 queries of one head; keys come by tiles of BN through shared memory.
template <typename T, int HEAD, int BN, bool EXACT> __device__ inline void flash(const gpu_attend &p)
{
	extern __shared__ uint4 shared[];
	const bool wide = sizeof(T) == 4;
	const int LD = HEAD + 16 / sizeof(T), K = wide ? 8 : 16, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	T *ks = (T *)shared, *vs = ks + BN * LD;
	int64_t h = blockIdx.y, b = blockIdx.z, kh = h / (p.heads / p.kv_heads), keys = keys_of(p, b);
	int64_t block0 = blockIdx.x * (int64_t)(blockDim.x / 2), row[2];
	row[0] = block0 + threadIdx.x / 32 * 16 + g;
	row[1] = row[0] + 8;
	const T *q = (const T *)p.q + b * p.qs[0] + h * p.qs[1];
	const T *k = (const T *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const T *)p.v + b * p.vs[0] + kh * p.vs[1];
	float qf[wide ? HEAD / 8 : 1][4];
	u32 qh[wide ? 1 : HEAD / 16][4];
	float out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

	for (int i = 0; i < HEAD / K; i++)
		for (int a = 0; a < 4; a++) {
			int64_t r = row[a % 2];
			if constexpr (sizeof(T) == 4) {
				int c = i * 8 + t + a / 2 * 4;
				qf[i][a] = r < p.s && c < p.d ? rounded<T, EXACT>(q[r * p.qs[2] + c]) : 0.0f;
			} else {
				int c = i * 16 + 2 * t + a / 2 * 8;
				T x = r < p.s && c < p.d ? q[r * p.qs[2] + c] : down<T>(0.0f);
				T y = r < p.s && c + 1 < p.d ? q[r * p.qs[2] + c + 1] : down<T>(0.0f);
				qh[i][a] = pack(x, y);
			}
		}
	// the keys that any query of the block sees
	int64_t last = block0 + blockDim.x / 2 - 1;
	Range lo = range(p, b, block0, keys), hi = range(p, b, last < p.s ? last : p.s - 1, keys);
	Range own[2] = {range(p, b, row[0], keys), range(p, b, row[1], keys)};

	for (int64_t j0 = lo.first / BN * BN; j0 < hi.end; j0 += BN) {
		float s[BN / 8][4] = {};
		__syncthreads();
		load_rows<T, HEAD, LD, EXACT>(ks, k, p.ks[2], p.kd, j0, keys, BN, p.d, p.vector);
		load_rows<T, HEAD, LD, EXACT>(vs, v, p.vs[2], 1, j0, keys, BN, p.dv, p.vector);
		__syncthreads();
#pragma unroll
		for (int i = 0; i < HEAD / K; i++)
#pragma unroll
			for (int n = 0; n < BN / 8; n++) {
				const T *at = ks + (n * 8 + g) * LD + i * K;
				if constexpr (sizeof(T) == 4)
					product<EXACT>(s[n], qf[i], at[t], at[t + 4]);
				else
					mma(s[n], qh[i], *(const u32 *)(at + 2 * t), *(const u32 *)(at + 2 * t + 8), T());
			}
		float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
		for (int n = 0; n < BN / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int64_t j = j0 + n * 8 + 2 * t + e % 2, i = row[e / 2];
				float x = s[n][e] * p.scale;
				if (p.softcap > 0)
					x = p.softcap * tanhf(x / p.softcap);
				if (j < own[e / 2].first || j >= own[e / 2].end || i >= p.s) {
					x = -INFINITY;
				} else if (p.mask_type) {
					int64_t at = b * p.ms[0] + h * p.ms[1] + i * p.ms[2] + j * p.ms[3];
					if (j >= p.mask_keys)
						x = -INFINITY;
					else if (p.mask_type == 9)
						x = ((const u8 *)p.mask)[at] ? x : x + p.hidden;
					else
						x += up(((const T *)p.mask)[at]);
				}
				s[n][e] = x;
				most[e / 2] = fmaxf(most[e / 2], x);
			}
		float scale[2], base[2];
		for (int r = 0; r < 2; r++) {
			most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
			most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
			most[r] = fmaxf(most[r], top[r]);
			base[r] = most[r] == -INFINITY ? 0.0f : most[r];
			scale[r] = __expf(top[r] - base[r]);
			if (EXACT)
				scale[r] = expf(top[r] - base[r]);
			top[r] = most[r];
			sum[r] *= scale[r];
		}
#pragma unroll
		for (int n = 0; n < BN / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				s[n][e] = EXACT ? expf(s[n][e] - base[e / 2]) : __expf(s[n][e] - base[e / 2]);
				sum[e / 2] += s[n][e];
			}
#pragma unroll
		for (int n = 0; n < HEAD / 8; n++)
			for (int e = 0; e < 4; e++)
				out[n][e] *= scale[e / 2];
		// Probabilities stay where they are: the sum over keys does not mind which comes first.
#pragma unroll
		for (int i = 0; i < BN / K; i++) {
			if constexpr (sizeof(T) == 4) {
				float a[4] = {s[i][0], s[i][2], s[i][1], s[i][3]};
				for (int e = 0; e < 4; e++)
					a[e] = rounded<T, EXACT>(a[e]);
#pragma unroll
				for (int n = 0; n < HEAD / 8; n++) {
					const T *at = vs + (i * 8 + 2 * t) * LD + n * 8 + g;
					product<EXACT>(out[n], a, at[0], at[LD]);
				}
			} else {
				u32 a[4];
				for (int e = 0; e < 4; e++)
					a[e] = pack(down<T>(s[2 * i + e / 2][e % 2 * 2]),
						    down<T>(s[2 * i + e / 2][e % 2 * 2 + 1]));
#pragma unroll
				for (int n = 0; n < HEAD / 8; n++) {
					const T *at = vs + (i * 16 + 2 * t) * LD + n * 8 + g;
					mma(out[n], a, pack(at[0], at[LD]), pack(at[8 * LD], at[9 * LD]), T());
				}
			}
		}
	}
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
		sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
		if (row[r] >= p.s)
			continue;
		T *y = (T *)p.y + b * p.ys[0] + h * p.ys[1] + row[r] * p.ys[2];
		float by = 1.0f / sum[r];
		for (int n = 0; n < HEAD / 8; n++)
			for (int e = 0; e < 2; e++) {
				int c = n * 8 + 2 * t + e;
				float o = p.safe && sum[r] == 0 ? 0.0f : out[n][2 * r + e] * by;
				if (c < p.dv)
					y[c] = down<T>(o);
			}
	}
}

// ---- plainly -----------------------------------------------------------------------------------

template <typename C> __device__ inline C through(int type, C v)
{
	if (type == 10)
		return (C)up(down<f16>((float)v));
	return type == 16 ? (C)up(down<bf16>((float)v)) : v;
}

// One block a query; its scores in global memory (p.scratch: a row a block).
template <typename T> __device__ inline void plain(const gpu_attend &p)
{
	typedef typename Wide<T>::type C;
	C *score = (C *)p.scratch + blockIdx.x * p.t;
	for (int64_t z = blockIdx.x; z < p.batch * p.heads * p.s; z += gridDim.x) {
		int64_t i = z % p.s, h = z / p.s % p.heads, b = z / p.s / p.heads, keys = keys_of(p, b);
		int64_t kh = h / (p.heads / p.kv_heads);
		const T *q = (const T *)p.q + b * p.qs[0] + h * p.qs[1] + i * p.qs[2];
		const T *k = (const T *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const T *)p.v + b * p.vs[0] + kh * p.vs[1];
		T *y = (T *)p.y + b * p.ys[0] + h * p.ys[1] + i * p.ys[2], *qk = p.qk ? (T *)p.qk + z * p.t : NULL;
		Range r = range(p, b, i, keys);
		C max = -(C)INFINITY, sum = 0;

		__syncthreads();
		for (int64_t j = threadIdx.x; j < p.t; j += blockDim.x) {
			C s = 0, kept;
			bool beyond = j >= keys;
			for (int64_t e = 0; e < p.d && !beyond; e++)
				s += (C)up(q[e]) * (C)up(k[j * p.ks[2] + e * p.kd]);
			s *= (C)p.scale;
			kept = s;
			if (p.softcap > 0)
				s = (C)p.softcap * tanh(s / (C)p.softcap);
			kept = p.qk_mode == 1 ? s : kept;
			if (beyond) {
				s = kept = -(C)INFINITY;
			} else if (j < r.first || j >= r.end) {
				s = -(C)INFINITY;
			} else {
				int64_t m = b * p.ms[0] + h * p.ms[1] + i * p.ms[2] + j * p.ms[3];
				if (p.mask_type && j >= p.mask_keys)
					s = -(C)INFINITY;
				else if (p.mask_type == 9)
					s = ((const u8 *)p.mask)[m] ? s : isinf(p.hidden) ? -(C)INFINITY : s + (C)p.hidden;
				else if (p.mask_type)
					s += (C)number(p.mask_type, p.mask, m);
				if (p.bias_type)
					s += (C)number(p.bias_type, p.bias,
						       b * p.bs[0] + h * p.bs[1] + i * p.bs[2] + j * p.bs[3]);
			}
			kept = p.qk_mode == 2 ? s : kept;
			if (qk && p.qk_mode < 3)
				qk[j] = down<T>(kept);
			s = through(p.round, s);
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
		bool nothing = none && p.safe;
		for (int64_t j = threadIdx.x; j < p.t; j += blockDim.x) {
			C s = through(p.round, nothing ? C(0) : score[j] / sum);
			score[j] = s;
			if (qk && p.qk_mode == 3)
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

#define PLAIN(T)                                                                                                       \
	extern "C" __global__ void attend_plain_##T(const gpu_attend p) { plain<T>(p); }
PLAIN(f32) PLAIN(f16) PLAIN(bf16) PLAIN(f64)
#define FLASH(NAME, T, HEAD, BN, EXACT)                                                                                \
	extern "C" __global__ void __launch_bounds__(128) attend_##NAME##_##HEAD(const gpu_attend p)                   \
	{                                                                                                              \
		flash<T, HEAD, BN, EXACT>(p);                                                                          \
	}
FLASH(f32, f32, 64, 64, true)
FLASH(f32, f32, 128, 32, true)
FLASH(tf32, f32, 64, 64, false)
FLASH(tf32, f32, 128, 32, false)
FLASH(f16, f16, 64, 64, false)
FLASH(f16, f16, 128, 64, false)
FLASH(bf16, bf16, 64, 64, false)
FLASH(bf16, bf16, 128, 64, false)
