/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/kernels/ptx.cuh on the CPU. Which element of a matrix lies in which register of which lane is the PTX ISA's:
 * "Matrix fragments for mma.m16n8k8" and so on.
 */
#ifndef EMULATE_PTX_H
#define EMULATE_PTX_H

#include <cuda_fp8.h>

#include "box.h"

#define SHARED_ROOM(T, name) T *const name = (T *)emulate_room()

namespace emulate
{
struct fragments {
	void *c;
	const uint32_t *a;
	uint32_t b[2];
};

inline float tf32(uint32_t v)
{
	return __uint_as_float(v & 0xffffe000u);
}
inline float half(uint32_t v)
{
	return __half2float(emulate_bits<__half>((uint16_t)v));
}
inline float brain(uint32_t v)
{
	return __uint_as_float(v << 16);
}
inline float e4m3(uint32_t v)
{
	const __half_raw h = __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)v, __NV_E4M3);

	return __half2float(__half(h));
}

/*
 * Elements of PER a register; sums of S. A lane's group is its row of a and c, and its column of b. HIGH and DEEP: how
 * often 8 rows of a, and how often 4 registers of its columns, the instruction takes (twice each from sm_80 on).
 */
template <int PER, int HIGH, int DEEP, typename S, S (*A)(uint32_t), S (*B)(uint32_t)>
void multiply(void *const *own, unsigned)
{
	enum { K = 4 * PER * DEEP };
	S a[8 * HIGH][K], b[K][8];

	for (int lane = 0; lane < WARP; lane++) {
		const fragments *f = (const fragments *)own[lane];
		const int group = lane / 4, part = lane % 4 * PER;
		for (int e = 0; e < PER; e++) {
			for (int r = 0; r < HIGH * DEEP; r++)
				a[group + r % HIGH * 8][part + e + r / HIGH * 4 * PER] =
					A(f->a[r] >> 32 / PER * e);
			for (int r = 0; r < DEEP; r++)
				b[part + e + r * 4 * PER][group] = B(f->b[r] >> 32 / PER * e);
		}
	}
	for (int lane = 0; lane < WARP; lane++) {
		S *c = (S *)((const fragments *)own[lane])->c;
		for (int r = 0; r < 2 * HIGH; r++) {
			const int i = lane / 4 + r / 2 * 8, j = lane % 4 * 2 + r % 2;
			S sum = c[r];
			for (int k = 0; k < K; k++)
				sum += a[i][k] * b[k][j];
			c[r] = sum;
		}
	}
}
inline int sbyte(uint32_t v)
{
	return (int8_t)v;
}
inline int ubyte(uint32_t v)
{
	return (uint8_t)v;
}

struct rows {
	uint32_t *r;
	uint32_t row[4]; /* the 16 bytes that this lane points to */
};
/* Lane 8 m + i has row i of matrix m; a register has two elements of a row, turned: of a column. */
template <bool TURNED> void deal(void *const *own, unsigned)
{
	for (int lane = 0; lane < WARP; lane++)
		for (int m = 0; m < 4; m++) {
			uint32_t v = 0;
			for (int e = 0; e < 2; e++) {
				const int i = TURNED ? lane % 4 * 2 + e : lane / 4,
					  j = TURNED ? lane / 4 : lane % 4 * 2 + e;
				const rows *from = (const rows *)own[8 * m + i];
				v |= (from->row[j / 2] >> j % 2 * 16 & 0xffff) << 16 * e;
			}
			((rows *)own[lane])->r[m] = v;
		}
}
} // namespace emulate

#define EMULATE_MMA(name, C, PER, A, B)                                                            \
	inline void name(C *c, const uint32_t *a, uint32_t b0, uint32_t b1)                        \
	{                                                                                          \
		emulate::fragments f = {c, a, {b0, b1}};                                           \
		emulate_warp(0xffffffffu, emulate::multiply<PER, 2, 2, C, emulate::A, emulate::B>, \
			     &f, #name);                                                           \
	}
#ifdef TURING
inline void mma_f16_k8(float *c, uint32_t a0, uint32_t a1, uint32_t b)
{
	const uint32_t a[] = {a0, a1};
	emulate::fragments f = {c, a, {b}};
	emulate_warp(0xffffffffu, emulate::multiply<2, 2, 1, float, emulate::half, emulate::half>,
		     &f, "mma_f16_k8");
}
#define EMULATE_SMALL_MMA(name, A)                                                                 \
	inline void name(int *c, uint32_t a, uint32_t b)                                           \
	{                                                                                          \
		emulate::fragments f = {c, &a, {b}};                                               \
		emulate_warp(0xffffffffu,                                                          \
			     emulate::multiply<4, 1, 1, int, emulate::A, emulate::sbyte>, &f,      \
			     #name);                                                               \
	}
EMULATE_SMALL_MMA(mma_i8_k16, sbyte)
EMULATE_SMALL_MMA(mma_u8_k16, ubyte)
#else
EMULATE_MMA(mma_tf32, float, 1, tf32, tf32)
EMULATE_MMA(mma_f16, float, 2, half, half)
EMULATE_MMA(mma_bf16, float, 2, brain, brain)
EMULATE_MMA(mma_i8, int, 4, sbyte, sbyte)
EMULATE_MMA(mma_u8, int, 4, ubyte, sbyte)
#endif

template <bool TURNED> void emulate_matrices(uint32_t *r, const void *row, const char *what)
{
	emulate::rows own = {r, {}};
	emulate_aligned(row, what);
	for (int i = 0; i < 4; i++)
		own.row[i] = ((const uint32_t *)row)[i];
	emulate_warp(0xffffffffu, emulate::deal<TURNED>, &own, what);
}
inline void matrices(uint32_t *r, const void *row)
{
	emulate_matrices<false>(r, row, "matrices");
}
inline void matrices_turned(uint32_t *r, const void *row)
{
	emulate_matrices<true>(r, row, "matrices_turned");
}

#ifndef TURING
inline void fetch16(void *to, const void *from, bool there)
{
	emulate_aligned(to, "fetch16");
	emulate_aligned(from, "fetch16");
	emulate_fetch(to, from, there);
}
inline void fetch16_once(void *to, const void *from, bool there, uint64_t)
{
	fetch16(to, from, there);
}
inline uint64_t read_once()
{
	return 0;
}
inline void fetch_end()
{
	emulate_fetch_end();
}
template <int LEFT> void fetch_wait()
{
	emulate_fetch_wait(LEFT);
}
inline void fetch_wait_all()
{
	emulate_fetch_wait(0);
}
#endif

/*
 * Products of a warpgroup: "Register Fragments and Shared Memory Matrix Layouts" and "Swizzling modes" of the PTX ISA's part
 * on wgmma. A tile is known by its address, in whose lowest bits a kernel counts how many times 16 bytes along k it has gone,
 * and by a bit for rows of 128 bytes. A product is done when it is started, as if the tensor cores were as quick as that.
 */
#ifdef WARPGROUPS
namespace emulate
{
const uint64_t deep_rows = UINT64_C(1) << 63;
inline const uint8_t *piece_of(uint64_t tile, int row, int k)
{
	const uint64_t at = tile & ~deep_rows & ~UINT64_C(15);
	const int piece = (int)(tile & 15) + k / 16;
	const uint64_t byte = tile & deep_rows ? row * 128 + (piece ^ row % 8) * 16
					       : row * 64 + (piece ^ row / 2 % 4) * 16;
	return (const uint8_t *)(at + byte + k % 16);
}
inline uint8_t in_tile(uint64_t tile, int row, int k)
{
	return *piece_of(tile, row, k);
}
} // namespace emulate
template <int DEPTH> uint64_t group_tile(const void *tile)
{
	emulate_aligned(tile, "group_tile");
	return (uint64_t)tile | (DEPTH == 128 ? emulate::deep_rows : 0);
}
inline void group_sees()
{
}
inline void group_begin()
{
}
inline void group_end()
{
}
template <int LEFT> void group_wait()
{
}
template <int N> void group_keep(int (&)[N][4])
{
}
template <int N> void group_keep(float (&)[N])
{
}
template <int DEPTH> uint64_t group_rows(uint64_t tile, int rows)
{
	return tile + (uint64_t)(rows * DEPTH);
}
namespace emulate
{
/*
 * S: the bits of an element, of which F makes a float. 32 bytes along k of a row of a tile, which the copy engine has brought: its rounds
 * of barriers are not those that are looked at for threads at the same bytes.
 */
template <typename S, float (*F)(uint32_t)> void row_of(uint64_t tile, int row, float *out)
{
	S v[32 / sizeof(S)];

	for (int piece = 0; piece < 2; piece++)
		emulate_copy((char *)v + 16 * piece, piece_of(tile, row, 16 * piece), 16);
	for (unsigned k = 0; k < 32 / sizeof(S); k++)
		out[k] = F(v[k]);
}
template <int COLUMNS, typename S, float (*F)(uint32_t)>
void group(float *c, uint64_t a, uint64_t b)
{
	enum { K = 32 / sizeof(S) };
	const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
	float x[2][K], y[K];

	row_of<S, F>(a, first, x[0]);
	row_of<S, F>(a, first + 8, x[1]);
	for (int e = 0; e < COLUMNS / 4; e++) { /* two rows of a column */
		row_of<S, F>(b, e / 2 * 8 + lane % 4 * 2 + e % 2, y);
		for (int r = 0; r < 2; r++)
			for (int k = 0; k < K; k++)
				c[e / 2 * 4 + r * 2 + e % 2] += x[r][k] * y[k];
	}
}
} // namespace emulate
template <int COLUMNS> void group_multiply_f16(float *c, uint64_t a, uint64_t b)
{
	emulate::group<COLUMNS, uint16_t, emulate::half>(c, a, b);
}
template <int COLUMNS> void group_multiply_bf16(float *c, uint64_t a, uint64_t b)
{
	emulate::group<COLUMNS, uint16_t, emulate::brain>(c, a, b);
}
template <int COLUMNS> void group_multiply_e4m3(float *c, uint64_t a, uint64_t b)
{
	emulate::group<COLUMNS, uint8_t, emulate::e4m3>(c, a, b);
}
inline uint32_t group_round_tf32(uint32_t v)
{
	return (v & 0x7fffffffu) > 0x7f800000u	  ? 0x7fffffffu
	       : (v & 0x7f800000u) == 0x7f800000u ? v
						  : (v + 0xfffu + (v >> 13 & 1)) & 0xffffe000u;
}
/* The copy engine's rounds of barriers are not those that are looked at for threads at the same bytes. */
inline void group_matrices(uint32_t *r, const void *row)
{
	emulate::rows own = {r, {}};
	emulate_aligned(row, "group_matrices");
	emulate_copy(own.row, row, sizeof(own.row));
	emulate_warp(0xffffffffu, emulate::deal<false>, &own, "group_matrices");
}
#ifndef TURING
/* The four warps multiply registers each on its own, eight columns at a time. */
template <int COLUMNS> void group_multiply_tf32(float *c, const uint32_t *a, uint64_t b)
{
	const int lane = (int)threadIdx.x % 32;

	for (int n = 0; n < COLUMNS / 8; n++) {
		uint32_t v[2];
		for (int i = 0; i < 2; i++)
			emulate_copy((char *)&v[i],
				     emulate::piece_of(b, n * 8 + lane / 4, 16 * i) + lane % 4 * 4,
				     4);
		mma_tf32(c + 4 * n, a, v[0], v[1]);
	}
}
namespace emulate
{
/* Of a tile whose rows are elements along k: two registers for eight columns. */
inline void turned_part(uint64_t tile, int n, uint32_t *v)
{
	const int lane = (int)threadIdx.x % 32;

	for (int i = 0; i < 4; i++)
		emulate_copy((char *)v + 2 * i,
			     piece_of(tile, i / 2 * 8 + lane % 4 * 2 + i % 2, 16 * n) + lane / 4 * 2,
			     2);
}
} // namespace emulate
inline void group_turned_f16(float *c, const uint32_t *a, uint64_t b)
{
	for (int n = 0; n < 8; n++) {
		uint32_t v[2];
		emulate::turned_part(b, n, v);
		mma_f16(c + 4 * n, a, v[0], v[1]);
	}
}
inline void group_turned_bf16(float *c, const uint32_t *a, uint64_t b)
{
	for (int n = 0; n < 8; n++) {
		uint32_t v[2];
		emulate::turned_part(b, n, v);
		mma_bf16(c + 4 * n, a, v[0], v[1]);
	}
}
#endif

/* "mbarrier"; run.cc has what a barrier is, so that threads which come to it are not seen to touch memory without a barrier. */
typedef uint64_t barrier;
inline void barrier_set(barrier *b, int arrivals)
{
	emulate_round_set(b, arrivals);
}
inline void barriers_are_set()
{
}
inline void barrier_arrive(barrier *b)
{
	emulate_round_come(b, 1, 0);
}
inline void barrier_expect(barrier *b, int bytes)
{
	emulate_round_come(b, 1, bytes);
}
inline void barrier_wait(barrier *b, int parity)
{
	emulate_round_wait(b, parity);
}
/* Where 16 bytes of a row of a box lie in shared memory. */
inline uint64_t emulate_turned(const struct box *x, uint64_t row, uint32_t piece)
{
	return row * x->width + (x->width == 128 ? piece ^ row % 8 : piece ^ row / 2 % 4) * 16;
}
/* Up to 16 bytes of a row of what is copied: n of them, and zeros behind them. */
inline void emulate_piece(const struct box *x, void *to, uint64_t row, uint32_t piece, const char *from, uint64_t n)
{
	char *const into = (char *)to + emulate_turned(x, row, piece);
	const char zeros[16] = {0};

	if (n)
		emulate_read(from, n);
	emulate_copy(into, zeros, 16);
	emulate_copy(into, from, n);
}
/* n of 16 bytes of a row, on their way back. */
inline void emulate_put(const struct box *x, char *into, const void *from, uint64_t row, uint32_t piece, uint64_t n)
{
	const char *const at = (const char *)from + emulate_turned(x, row, piece);

	for (uint64_t k = 0; k < n; k++)
		into[k] = at[k];
}
/* The bytes of 16 that begin at column c of a row of the matrix. */
inline uint64_t emulate_inside(const struct box *x, uint64_t c)
{
	const uint64_t bytes = c < x->columns ? (x->columns - c) * x->size : 0;

	return bytes < 16 ? bytes : 16;
}
/* The copy arrives at once. */
inline void fetch_box(void *to, const void *what, int column, int row, barrier *b)
{
	const struct box *x = (const struct box *)what;

	emulate_aligned(to, "fetch_box");
	for (uint32_t i = 0; i < x->taken; i++)
		for (uint32_t piece = 0; piece < x->width / 16u; piece++) {
			const uint64_t r = (uint64_t)row + i, c = (uint64_t)column + piece * 16 / x->size;
			emulate_piece(x, to, i, piece, (const char *)x->at + r * x->step + c * x->size,
				      r < x->rows ? emulate_inside(x, c) : 0);
		}
	emulate_round_come(b, 0, -(int)(x->taken * x->width));
}
inline void foresee_box(const void *)
{
}
/* From one window on to the next, row by row, image by image. */
inline void fetch_window(void *to, const void *what, int channel, int column, int row, int image, int across, int down, barrier *b)
{
	const struct box *x = (const struct box *)what;

	emulate_aligned(to, "fetch_window");
	for (uint32_t i = 0; i < x->taken; i++) {
		const int u = column + across, v = row + down;
		const bool there = (unsigned)u < x->in[0] && (unsigned)v < x->in[1] && (unsigned)image < x->in[2];
		for (uint32_t piece = 0; piece < x->width / 16u; piece++)
			emulate_piece(x, to, i, piece,
				      (const char *)x->at + image * x->steps[2] + v * x->steps[1] + u * x->steps[0] + channel + piece * 16,
				      there ? emulate_inside(x, (uint64_t)channel + piece * 16) : 0);
		column += x->stride[0];
		if (column <= x->last[0])
			continue;
		column = x->first[0];
		row += x->stride[1];
		if (row <= x->last[1])
			continue;
		row = x->first[1];
		image++;
	}
	emulate_round_come(b, 0, -(int)(x->taken * x->width));
}
inline uint32_t box_word(const void *p)
{
	uint32_t v;

	emulate_copy(&v, p, sizeof(v));
	return v;
}
inline void put_box(const void *what, int column, int row, const void *from)
{
	const struct box *x = (const struct box *)what;

	emulate_aligned(from, "put_box");
	for (uint32_t i = 0; i < x->taken; i++)
		for (uint32_t piece = 0; piece < x->width / 16u; piece++) {
			const uint64_t r = (uint64_t)row + i, c = (uint64_t)column + piece * 16 / x->size;
			emulate_put(x, (char *)x->at + r * x->step + c * x->size, from, i, piece, r < x->rows ? emulate_inside(x, c) : 0);
		}
}
inline void put_end()
{
}
inline void put_wait()
{
}
inline void some_threads(int which, int threads)
{
	emulate_some(which, threads);
}
template <int N> void fewer_registers()
{
}
template <int N> void more_registers()
{
}
inline int uniform(int v)
{
	return v;
}
namespace emulate
{
/* SEEN: whether threads have brought what is read, and must have come to a barrier since. */
template <int COLUMNS, bool SIGNED, bool SEEN> void group_of_codes(int *c, uint64_t a, uint64_t b)
{
	const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
	const auto row_of_codes = [](uint64_t tile, int row, uint8_t *out) {
		for (int k = 0; k < 32; k += SEEN ? 1 : 16)
			if (SEEN)
				out[k] = in_tile(tile, row, k);
			else
				emulate_copy(out + k, piece_of(tile, row, k), 16);
	};
	uint8_t x[2][32], y[32];

	row_of_codes(a, first, x[0]);
	row_of_codes(a, first + 8, x[1]);
	for (int e = 0; e < COLUMNS / 4; e++) { /* two rows of a column */
		row_of_codes(b, e / 2 * 8 + lane % 4 * 2 + e % 2, y);
		for (int r = 0; r < 2; r++)
			for (int k = 0; k < 32; k++)
				c[e / 2 * 4 + r * 2 + e % 2] += (SIGNED ? (int)(int8_t)x[r][k] : (int)x[r][k]) * (int8_t)y[k];
	}
}
} // namespace emulate
template <int COLUMNS, bool SIGNED> void group_multiply(int *c, uint64_t a, uint64_t b)
{
	emulate::group_of_codes<COLUMNS, SIGNED, true>(c, a, b);
}
template <int COLUMNS, bool SIGNED> void group_multiply_boxes(int *c, uint64_t a, uint64_t b)
{
	emulate::group_of_codes<COLUMNS, SIGNED, false>(c, a, b);
}
#endif

/* Blocks run one after the other, so that the last of a cluster finishes for all. */
#ifdef CLUSTERS
#define CLUSTER(SIZE)
enum { CLUSTER_AT_ONCE = 0 };
inline void cluster_arrive()
{
	emulate_cluster_arrive();
}
inline void cluster_wait()
{
	__syncthreads();
}
inline void cluster_put(float *, int i, int to, float v)
{
	emulate_cluster_put(i, to, v);
}
inline void cluster_put(float *, int i, int to, float2 v)
{
	emulate_cluster_put(i, to, v.x);
	emulate_cluster_put(i + 1, to, v.y);
}
template <int SIZE> int cluster_first()
{
	return 0;
}
/* Each block arrives twice. */
template <int SIZE> int cluster_end()
{
	return emulate_cluster_arrivals() % (2 * SIZE) ? 0 : SIZE;
}
inline float cluster_get(const float *, int i, int to)
{
	return emulate_cluster_get(i, to);
}
inline float4 cluster_get_four(const float *, int i, int to)
{
	return {emulate_cluster_get(i, to), emulate_cluster_get(i + 1, to), emulate_cluster_get(i + 2, to), emulate_cluster_get(i + 3, to)};
}
#endif

inline float exp2_of(float x)
{
	float y = exp2f(x);
	return fabsf(y) < 1.17549435e-38f ? 0.0f : y;
}
inline float quick_tanh(float x)
{
	return tanhf(x);
}
#ifndef TURING
inline uint32_t round_tf32(uint32_t v)
{
	return (v & 0x7fffffffu) > 0x7f800000u	  ? 0x7fffffffu
	       : (v & 0x7f800000u) == 0x7f800000u ? v
						  : (v + 0x1000u) & 0xffffe000u;
}
#endif
inline float quick_inverse(float x)
{
	return 1 / x;
}
inline uint32_t pack_u8(uint32_t a, uint32_t b, uint32_t c)
{
	const auto code = [](uint32_t v) { return (int32_t)v < 0 ? 0u : v > 255 ? 255u : v; };
	return c << 16 | code(a) << 8 | code(b);
}
/* Whoever waits for time to pass has waited. */
inline unsigned long long global_clock()
{
	static unsigned long long t = 1;
	return t += 1000000000ull;
}

/* Kernels run one after the other; who touches memory of the device before it has waited is told (check.cc). */
inline void let_next_begin()
{
}
void emulate_waited();
inline void wait_for_previous()
{
	emulate_waited();
}

#endif
