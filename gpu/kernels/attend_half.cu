// SPDX-License-Identifier: Apache-2.0
// Attention with 16-bit products on tensor cores, for fp16, bf16, and fp32 rounded to a mantissa of 10 bits as tf32 is.
//
// fp32 is converted to fp16 tile by tile. Each tile is scaled by a power of two that brings its largest number to
// between 2^14 and 2^15. Nothing overflows then, because the largest fp16 number is 65504. Numbers of at least 2^-28
// times the tile's largest keep 11 bits; smaller numbers lose bits, which are too small to matter.
#include "attend.cuh"

template <typename T> struct Half { typedef T type; };
template <> struct Half<f32> { typedef f16 type; };

__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, f16) { mma_f16(c, a, b0, b1); }
__device__ inline void mma(float *c, const u32 *a, u32 b0, u32 b1, bf16) { mma_bf16(c, a, b0, b1); }

// Returns the biased fp32 exponent e of the scale for a tile whose largest number is `most`. down_by(e) divides by 2^(e
// - 127 - 14) and up_by(e) multiplies by it; e = 127 + 14 leaves numbers unchanged.
__device__ inline int exponent(float most)
{
	int e = (int)(__float_as_uint(most) >> 23 & 255);
	return e == 255 ? 127 + 14 : e < 15 ? 15 : e;
}
__device__ inline float power(int biased)
{
	return biased <= 0 ? 0.0f : __uint_as_float((u32)(biased > 254 ? 254 : biased) << 23);
}
__device__ inline float down_by(int e) { return power(127 + 14 + 127 - e); }
__device__ inline float up_by(int e) { return power(e - 14); }

// A tile of ROWS rows on its way to shared memory. Each thread holds its 16-byte pieces in registers until all threads
// have used up the previous tile.
template <typename T, int HEAD, int ROWS> struct Tile {
	static const int V = 16 / sizeof(T), ACROSS = HEAD / V, PIECES = ROWS * ACROSS / 128;
	__align__(16) T x[PIECES][V];

	__device__ inline void fetch(const T *from, int step, int row0, int end, int d)
	{
		int c = threadIdx.x % ACROSS * V, r = row0 + threadIdx.x / ACROSS;
		const T *at = from + (int64_t)r * step + c;
#pragma unroll
		for (int i = 0; i < PIECES; i++) {
			bool in = r + i * (128 / ACROSS) < end && c < d;
			*(uint4 *)x[i] = in ? *(const uint4 *)(at + i * (128 / ACROSS) * step) : make_uint4(0, 0, 0, 0);
		}
	}
	__device__ inline float most() const
	{
		float m = 0;
#pragma unroll
		for (int i = 0; i < PIECES; i++)
#pragma unroll
			for (int k = 0; k < V; k++)
				m = fmaxf(m, fabsf(up(x[i][k])));
		return m;
	}
	template <typename H, int LD> __device__ inline void store(H *to, float by) const
	{
		H *at = to + threadIdx.x / ACROSS * LD + threadIdx.x % ACROSS * V;
#pragma unroll
		for (int i = 0; i < PIECES; i++, at += 128 / ACROSS * LD) {
			if constexpr (sizeof(T) == 4)
				*(uint2 *)at = make_uint2(pair(x[i][0] * by, x[i][1] * by, H()),
							  pair(x[i][2] * by, x[i][3] * by, H()));
			else
				*(uint4 *)at = *(const uint4 *)x[i];
		}
	}
};

// A tile (see Tile) whose rows may have any strides. Its elements are read one by one, and not before the tile is
// stored in shared memory.
template <typename T, int HEAD, int ROWS> struct StridedTile {
	const T *from;
	int64_t step, each;
	int row0, end, d;

	__device__ inline T element(int e) const
	{
		int r = row0 + e / HEAD, c = e % HEAD;
		return r < end && c < d ? from[r * step + c * each] : down<T>(0.0f);
	}
	__device__ inline float most() const
	{
		float m = 0;
#pragma unroll 4
		for (int e = threadIdx.x; e < ROWS * HEAD; e += 128)
			m = fmaxf(m, fabsf(up(element(e))));
		return m;
	}
	template <typename H, int LD> __device__ inline void store(H *to, float by) const
	{
#pragma unroll 4
		for (int e = threadIdx.x; e < ROWS * HEAD; e += 128)
			to[e / HEAD * LD + e % HEAD] = down<H>(up(element(e)) * by);
	}
};

__device__ inline float warp_most(float m)
{
#pragma unroll
	for (int o = 16; o; o >>= 1)
		m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
	return m;
}

// Loads 16 queries as the left operand of the products; returns the exponent e of their scale (see exponent()).
template <typename T, typename H, int HEAD, Form FORM>
__device__ inline int load_queries(const gpu_attend &p, const T *q, const int *row, u32 qf[HEAD / 16][4])
{
	const int t = threadIdx.x % 4;
	float2 x[HEAD / 16][4];
	float most = 0;
#pragma unroll
	for (int a = 0; a < 4; a++) {
		const T *at = q + row[a % 2] * p.qs[2];
		int c = 2 * t + a / 2 * 8, end = row[a % 2] < p.s ? (int)p.d : 0;
#pragma unroll
		for (int i = 0; i < HEAD / 16; i++, c += 16) {
			x[i][a] = make_float2(0, 0);
			if (FORM != ANY && c < end) {
				x[i][a] = load_pair(at + c);
			} else if (FORM == ANY) {
				x[i][a].x = c < end ? up(at[c]) : 0.0f;
				x[i][a].y = c + 1 < end ? up(at[c + 1]) : 0.0f;
			}
			most = fmaxf(most, fmaxf(fabsf(x[i][a].x), fabsf(x[i][a].y)));
		}
	}
	int e = sizeof(T) == 4 ? exponent(warp_most(most)) : 127 + 14;
	float by = sizeof(T) == 4 ? down_by(e) : 1.0f;
#pragma unroll
	for (int i = 0; i < HEAD / 16; i++)
#pragma unroll
		for (int a = 0; a < 4; a++)
			qf[i][a] = pair(x[i][a].x * by, x[i][a].y * by, H());
	return e;
}

// Computes the scores of 16 queries with the keys of a tile.
template <typename H, int HEAD, int BN>
__device__ inline void score_tile(float s[BN / 8][4], const u32 qf[HEAD / 16][4], const H *ks)
{
	const int LD = HEAD + 8, lane = threadIdx.x % 32;
	const H *at = ks + (lane / 16 * 8 + lane % 8) * LD + lane / 8 % 2 * 8;
#pragma unroll
	for (int i = 0; i < HEAD / 16; i++)
#pragma unroll
		for (int n = 0; n < BN / 16; n++) {
			u32 f[4];
			matrices(f, at + n * 16 * LD + i * 16);
			mma(s[2 * n], qf[i], f[0], f[1], H());
			mma(s[2 * n + 1], qf[i], f[2], f[3], H());
		}
}

// Computes out += probabilities * values. The registers of the scores already have the layout that the left operand of
// this product needs.
template <typename H, int HEAD, int BN>
__device__ inline void add_values(float out[HEAD / 8][4], const float s[BN / 8][4], const H *vs)
{
	const int LD = HEAD + 8, lane = threadIdx.x % 32;
	const H *at = vs + lane % 16 * LD + lane / 16 * 8;
#pragma unroll
	for (int i = 0; i < BN / 16; i++) {
		u32 a[4];
#pragma unroll
		for (int e = 0; e < 4; e++)
			a[e] = pair(s[2 * i + e / 2][e % 2 * 2], s[2 * i + e / 2][e % 2 * 2 + 1], H());
#pragma unroll
		for (int n = 0; n < HEAD / 16; n++) {
			u32 f[4];
			matrices_turned(f, at + i * 16 * LD + n * 16);
			mma(out[2 * n], a, f[0], f[1], H());
			mma(out[2 * n + 1], a, f[2], f[3], H());
		}
	}
}

// Finds the largest number of a tile of keys and the largest of a tile of values, over all threads of the block.
struct TileMaxima {
	float part[2][4];

	__device__ inline void all(float &km, float &vm)
	{
		km = warp_most(km), vm = warp_most(vm);
		if (threadIdx.x % 32 == 0)
			part[0][threadIdx.x / 32] = km, part[1][threadIdx.x / 32] = vm;
		__syncthreads();
		for (int w = 0; w < 4; w++)
			km = fmaxf(km, part[0][w]), vm = fmaxf(vm, part[1][w]);
	}
};

// Returns the exponent e of the scale for a tile of values whose largest number is `most`. The exponent never falls
// below that of the tiles before; if it grows, `out` is rescaled to the new one.
template <int HEAD> __device__ inline int rescale_values(float out[HEAD / 8][4], float most, int before)
{
	int e = exponent(most);
	if (e <= before)
		return before;
	float grow = power(127 + before - e);
#pragma unroll
	for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			out[n][i] *= grow;
	return e;
}

// Stores a tile of keys and a tile of values in shared memory, scaled down by the exponents ek (keys) and ev (values).
template <typename H, int LD, typename X> __device__ inline void store_tile(H *ks, H *vs, const X &k, const X &v, int ek, int ev)
{
	k.template store<H, LD>(ks, down_by(ek));
	v.template store<H, LD>(vs, down_by(ev));
}

/*
 * A block has four warps, each of which computes 16 queries of one head. Keys pass through shared memory in tiles of
 * BN. Most attention is PLAIN or MASKED; kernels of their own for these two forms have less code to fetch.
 */
template <typename T, int HEAD, int BN, Form FORM> __device__ inline void flash(const gpu_attend &p)
{
	typedef typename Half<T>::type H;
	const bool SCALED = sizeof(T) == 4;
	const int LD = HEAD + 8, NONE = 127 + 14;
	__shared__ __align__(16) H ks[BN * LD], vs[BN * LD];
	__shared__ TileMaxima mosts;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, block0 = blockIdx.x * 64, row0 = block0 + warp * 16;
	int64_t h = blockIdx.y, b = blockIdx.z, kh = blockIdx.y / ((u32)p.heads / (u32)p.kv_heads), mask[2];
	int row[2] = {row0 + lane / 4, row0 + lane / 4 + 8}, first[2], end[2], keys = (int)keys_of(p, b);
	const T *q = (const T *)p.q + b * p.qs[0] + h * p.qs[1];
	const T *k = (const T *)p.k + b * p.ks[0] + kh * p.ks[1], *v = (const T *)p.v + b * p.vs[0] + kh * p.vs[1];
	u32 qf[HEAD / 16][4];
	float out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
	Tile<T, HEAD, BN> kt, vt;

	// Find the ranges of keys that are visible to any query of this block, of this warp, and of this thread.
	int last = block0 + 63, warp_last = row0 + 15, last_row = (int)p.s - 1;
	int begin = (int)range(p, b, block0, keys).first / BN * BN;
	int stop = (int)range(p, b, last < last_row ? last : last_row, keys).end;
	int warp_stop = row0 > last_row ? 0 : (int)range(p, b, warp_last < last_row ? warp_last : last_row, keys).end;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		Range own = range(p, b, row[r], keys);
		first[r] = (int)own.first;
		end[r] = row[r] < p.s ? (int)own.end : 0;
		mask[r] = FORM == PLAIN ? 0 : b * p.ms[0] + h * p.ms[1] + row[r] * p.ms[2];
	}
	if (FORM != ANY && begin < stop) {
		kt.fetch(k, (int)p.ks[2], begin, keys, (int)p.d);
		vt.fetch(v, (int)p.vs[2], begin, keys, (int)p.dv);
	}
	int eq = load_queries<T, H, HEAD, FORM>(p, q, row, qf), ek = NONE, ev = SCALED ? 0 : NONE;
#pragma unroll 1
	for (int j0 = begin; j0 < stop; j0 += BN) {
		StridedTile<T, HEAD, BN> kl = {k, p.ks[2], p.kd, j0, keys, (int)p.d}, vl = {v, p.vs[2], 1, j0, keys, (int)p.dv};
		if (SCALED) { // each tile of keys has its own scale, but the scale of the values must not fall from tile to tile
			float km = FORM != ANY ? kt.most() : kl.most(), vm = FORM != ANY ? vt.most() : vl.most();
			mosts.all(km, vm);
			ek = exponent(km);
			ev = rescale_values<HEAD>(out, vm, ev);
		} else {
			__syncthreads(); // all threads have used up the previous tile
		}
		if (FORM != ANY)
			store_tile<H, LD>(ks, vs, kt, vt, ek, ev);
		else
			store_tile<H, LD>(ks, vs, kl, vl, ek, ev);
		__syncthreads();
		if (FORM != ANY && j0 + BN < stop) {
			kt.fetch(k, (int)p.ks[2], j0 + BN, keys, (int)p.d);
			vt.fetch(v, (int)p.vs[2], j0 + BN, keys, (int)p.dv);
		}
		if (j0 >= warp_stop)
			continue;
		float s[BN / 8][4] = {};
		score_tile<H, HEAD, BN>(s, qf, ks);
		mask_tile<T, BN, FORM>(p, s, SCALED ? p.scale * up_by(eq) * up_by(ek) : p.scale, j0, first, end, mask);
		softmax_tile<BN, HEAD>(s, out, top, sum);
		add_values<H, HEAD, BN>(out, s, vs);
	}
	write_rows<T, HEAD, FORM>(p, b, h, row, out, sum, SCALED ? up_by(ev) : 1.0f);
}

// __grid_constant__: threads would copy the parameters to memory of their own, where a function takes their address.
#define FLASH(NAME, T, HEAD, BN, FORM)                                                                                 \
	extern "C" __global__ void __launch_bounds__(128) attend_##NAME##_##HEAD##_##FORM(const __grid_constant__ gpu_attend p)          \
	{                                                                                                              \
		start_early();                                                                                         \
		flash<T, HEAD, BN, FORM>(p);                                                                           \
	}
#define FORMS(NAME, T, HEAD, BN) FLASH(NAME, T, HEAD, BN, PLAIN) FLASH(NAME, T, HEAD, BN, MASKED) FLASH(NAME, T, HEAD, BN, ANY)
FORMS(tf32, f32, 64, 32) FORMS(f16, f16, 64, 32) FORMS(bf16, bf16, 64, 32)
FORMS(tf32, f32, 128, 32) FORMS(f16, f16, 128, 32) FORMS(bf16, bf16, 128, 32)
// For few blocks, each of which only waits for its own tiles: tiles of twice as many keys are half as many.
FORMS(tf32_wide, f32, 64, 64)
