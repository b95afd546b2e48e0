// SPDX-License-Identifier: Apache-2.0
// All uses of PTX, for operations that CUDA C++ cannot express: products on tensor cores, asynchronous copies, clocks.
// test/gpu/emulate has the same functions for the CPU.
#pragma once
#include <stdint.h>

// Devices before sm_80 lack some instructions; turing.cuh makes these functions out of those that they have.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING
#endif
// Products of four warps, of sm_90a alone.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WARPGROUPS
#endif
// Clusters of blocks, which see each other's shared memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CLUSTERS
#endif

#ifdef EMULATED
#include "ptx.h"
#else

// Declares shared memory whose size is set by the launch. Tiles that warpgroups multiply begin at multiples of 1 KiB.
#define SHARED_ROOM(T, name) extern __shared__ __align__(1024) T name[]

// ---- c += a b by a warp: c has 16 rows, 8 columns ------------------------------------------------

#ifdef TURING
__device__ inline void mma_f16_k8(float *c, uint32_t a0, uint32_t a1, uint32_t b)
{
	asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
	    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	    : "r"(a0), "r"(a1), "r"(b));
}
// The next two: 8 rows of a and c. In the second, a is unsigned and b is signed.
__device__ inline void mma_i8_k16(int *c, uint32_t a, uint32_t b)
{
	asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
	    : "+r"(c[0]), "+r"(c[1])
	    : "r"(a), "r"(b));
}
__device__ inline void mma_u8_k16(int *c, uint32_t a, uint32_t b)
{
	asm("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
	    : "+r"(c[0]), "+r"(c[1])
	    : "r"(a), "r"(b));
}
#else
#define PTX_MMA(name, C, how, shape)                                                                   \
	__device__ inline void name(C *c, const uint32_t *a, uint32_t b0, uint32_t b1)                 \
	{                                                                                              \
		asm("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
		    : how(c[0]), how(c[1]), how(c[2]), how(c[3])                                       \
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                   \
	}
PTX_MMA(mma_tf32, float, "+f", "m16n8k8.row.col.f32.tf32.tf32.f32")
PTX_MMA(mma_f16, float, "+f", "m16n8k16.row.col.f32.f16.f16.f32")
PTX_MMA(mma_bf16, float, "+f", "m16n8k16.row.col.f32.bf16.bf16.f32")
PTX_MMA(mma_i8, int, "+r", "m16n8k32.row.col.s32.s8.s8.s32")
PTX_MMA(mma_u8, int, "+r", "m16n8k32.row.col.s32.u8.s8.s32") // a is unsigned, b is signed
#undef PTX_MMA
#endif

// Load four matrices of 8 rows of 16 bytes from shared memory; each thread gives the address of one row. The second
// function transposes each matrix.
__device__ inline void matrices(uint32_t *r, const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at));
}
__device__ inline void matrices_turned(uint32_t *r, const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at));
}

// ---- asynchronous copies of 16 bytes into shared memory; zeros if `there` is false -----------------

#ifndef TURING
__device__ inline void fetch16(void *to, const void *from, bool there)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
		     "r"(there ? 16 : 0));
}
// The same of what is read once, as large weights are: the second-level cache gives it up first. `once` is read_once().
__device__ inline void fetch16_once(void *to, const void *from, bool there, uint64_t once)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(at), "l"(from),
		     "r"(there ? 16 : 0), "l"(once));
}
__device__ inline uint64_t read_once()
{
	uint64_t policy;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	return policy;
}
// Makes a group of the copies that were started since the last call.
__device__ inline void fetch_end()
{
	asm volatile("cp.async.commit_group;");
}
// Waits until all groups of this thread, except the last LEFT groups, have arrived.
template <int LEFT> __device__ inline void fetch_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}
__device__ inline void fetch_wait_all()
{
	asm volatile("cp.async.wait_all;");
}
#endif

// ---- c += a b by a warpgroup (four warps): c has 64 rows, COLUMNS columns ----------------------------------------

#ifdef WARPGROUPS
// What the tensor cores know of a tile in shared memory whose rows have DEPTH bytes along k and are permuted as the
// instruction set says ("128-Byte" or "64-Byte swizzling mode"): address, distance of eight rows, permutation.
template <int DEPTH> __device__ inline uint64_t group_tile(const void *tile)
{
	const uint32_t at = (uint32_t)__cvta_generic_to_shared(tile);
	return (uint64_t)(DEPTH == 128 ? 1 : 2) << 62 | (uint64_t)(8 * DEPTH >> 4) << 32 | 1 << 16 |
	       (at & 0x3ffff) >> 4;
}
// What a thread wrote to shared memory, copies that arrived among it, is seen by the tensor cores after the next barrier.
__device__ inline void group_sees()
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Registers are what they should be before a product begins, and its products are one group from here on.
__device__ inline void group_begin()
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void group_end()
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all products, except the last LEFT groups, are done.
template <int LEFT> __device__ inline void group_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
// The compiler moves no use of a sum beyond this.
template <int N> __device__ inline void group_keep(int (&c)[N][4])
{
#pragma unroll
	for (int i = 0; i < N * 4; i++)
		asm volatile("" : "+r"(c[i / 4][i % 4])::"memory");
}
template <int N> __device__ inline void group_keep(float (&c)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(c[i])::"memory");
}
// The tile that begins `rows` rows further down, a multiple of eight.
template <int DEPTH> __device__ inline uint64_t group_rows(uint64_t tile, int rows)
{
	return tile + (rows * DEPTH >> 4);
}

#define R4(i)  "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define P32                                                                                        \
	"%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define P64                                                                                        \
	P32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define P128                                                                                                                                \
	P64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94," \
	    "%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,"      \
	    "%120,%121,%122,%123,%124,%125,%126,%127"
#define GROUP(COLUMNS, A, P, a_at, b_at, ...)                                                      \
	asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;"                                         \
		     "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.s32." A ".s8 {" P            \
		     "}, %" a_at ", %" b_at ", p;}"                                                \
		     : __VA_ARGS__                                                                 \
		     : "l"(a), "l"(b))
// a and b: tiles of group_tile(), b of COLUMNS rows. c: as of mma_i8, column by column of eight.
template <int COLUMNS, bool SIGNED>
__device__ inline void group_multiply(int *c, uint64_t a, uint64_t b)
{
	if constexpr (COLUMNS == 64 && SIGNED)
		GROUP("64", "s8", P32, "32", "33", R16(0), R16(16));
	else if constexpr (COLUMNS == 64)
		GROUP("64", "u8", P32, "32", "33", R16(0), R16(16));
	else if constexpr (COLUMNS == 128 && SIGNED)
		GROUP("128", "s8", P64, "64", "65", R64(0));
	else if constexpr (COLUMNS == 128)
		GROUP("128", "u8", P64, "64", "65", R64(0));
	else if constexpr (COLUMNS == 256 && SIGNED)
		GROUP("256", "s8", P128, "128", "129", R64(0), R64(64));
	else
		GROUP("256", "u8", P128, "128", "129", R64(0), R64(64));
}
#undef R4
#undef R16
#undef R64
#undef GROUP

// The same for floats: 32 bytes along k are multiplied.
#define P96                                                                                                                              \
	P64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define P104 P96 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define R4(i)  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)
#define GROUP(COLUMNS, TYPES, MORE, P, a_at, b_at, ...)                                                                \
	asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;"                                                             \
		     "wgmma.mma_async.sync.aligned.m64n" COLUMNS TYPES " {" P "}, %" a_at ", %" b_at ", p, 1, 1" MORE ";}" \
		     : __VA_ARGS__                                                                                     \
		     : "l"(a), "l"(b))
#define FLOATS(name, TYPES, MORE)                                                                  \
	template <int COLUMNS> __device__ inline void name(float *c, uint64_t a, uint64_t b)       \
	{                                                                                          \
		if constexpr (COLUMNS == 64)                                                       \
			GROUP("64", TYPES, MORE, P32, "32", "33", R16(0), R16(16));                \
		else if constexpr (COLUMNS == 128)                                                 \
			GROUP("128", TYPES, MORE, P64, "64", "65", R64(0));                        \
		else if constexpr (COLUMNS == 192)                                                 \
			GROUP("192", TYPES, MORE, P96, "96", "97", R64(0), R16(64), R16(80));      \
		else if constexpr (COLUMNS == 208)                                                 \
			GROUP("208", TYPES, MORE, P104, "104", "105", R64(0), R16(64), R16(80), R4(96), R4(100)); \
		else                                                                               \
			GROUP("256", TYPES, MORE, P128, "128", "129", R64(0), R64(64));            \
	}
FLOATS(group_multiply_f16, "k16.f32.f16.f16", ", 0, 0")
FLOATS(group_multiply_bf16, "k16.f32.bf16.bf16", ", 0, 0")
FLOATS(group_multiply_e4m3, "k32.f32.e4m3.e4m3", "") // the sums have the tensor core's own precision, of some 14 bits
#undef FLOATS
#undef GROUP

// Tensor cores take the first 19 bits of each number, whatever follows: both operands are rounded before, which this instruction of Hopper's does in a
// third of round_tf32()'s.
__device__ inline uint32_t group_round_tf32(uint32_t bits)
{
	uint32_t r;
	asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(bits)));
	return r;
}
// matrices() of what the copy engine has brought.
__device__ inline void group_matrices(uint32_t *r, const void *row)
{
	matrices(r, row);
}
// a: as of mma_tf32, 16 rows for each warp.
#define GROUP(COLUMNS, P, a0, a1, a2, a3, b_at, ...)                                               \
	asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;"                                         \
		     "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k8.f32.tf32.tf32 {" P            \
		     "}, {%" a0 ",%" a1 ",%" a2 ",%" a3 "}, %" b_at ", p, 1, 1;}"                  \
		     : __VA_ARGS__                                                                 \
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <int COLUMNS> __device__ inline void group_multiply_tf32(float *c, const uint32_t *a, uint64_t b)
{
	if constexpr (COLUMNS == 64)
		GROUP("64", P32, "32", "33", "34", "35", "36", R16(0), R16(16));
	else if constexpr (COLUMNS == 128)
		GROUP("128", P64, "64", "65", "66", "67", "68", R64(0));
	else if constexpr (COLUMNS == 192)
		GROUP("192", P96, "96", "97", "98", "99", "100", R64(0), R16(64), R16(80));
	else
		GROUP("256", P128, "128", "129", "130", "131", "132", R64(0), R64(64));
}
#undef GROUP

// c has 64 columns. a: as of mma_f16, 16 rows for each warp; b: a tile of 16 rows, which are elements along k, of 64 columns.
#define GROUP(name, TYPES)                                                                         \
	__device__ inline void name(float *c, const uint32_t *a, uint64_t b)                       \
	{                                                                                          \
		asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0;"                                 \
			     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPES " {" P32          \
			     "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"                             \
			     : R16(0), R16(16)                                                     \
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                \
	}
GROUP(group_turned_f16, "f16.f16")
GROUP(group_turned_bf16, "bf16.bf16")
#undef R4
#undef R16
#undef R64
#undef P32
#undef P64
#undef P96
#undef P104
#undef P128
#undef GROUP

// ---- the copy engine fills shared memory, and barriers in shared memory tell when it has, and when it may ----------

// Completes a round when `arrivals` have come, and all bytes that were expected.
typedef uint64_t barrier;

__device__ inline uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ inline void barrier_set(barrier *b, int arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
// By the thread that has set them, before the __syncthreads() behind which all use them.
__device__ inline void barriers_are_set()
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(barrier *b)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
// Arrives, too.
__device__ inline void barrier_expect(barrier *b, int bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
// Waits for the end of a round, of which the first has parity 0.
__device__ inline void barrier_wait(barrier *b, int parity)
{
	asm volatile("{.reg .pred done;\n"
		     "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
		     "@!done bra again;}" ::"r"(shared_address(b)),
		     "r"(parity)
		     : "memory");
}
// Copies a box, whose size the description has, from (column, row) on. Its rows have 64 or 128 bytes and are permuted as group_tile()
// wants them; what lies outside of the matrix is 0. Begun by one thread; the barrier gets the bytes.
__device__ inline void fetch_box(void *to, const void *box, int column, int row, barrier *b)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
			     shared_address(to)),
		     "l"(box), "r"(column), "r"(row), "r"(shared_address(b))
		     : "memory");
}
// Has the copy engine read a description ahead of the first copy.
__device__ inline void foresee_box(const void *box)
{
	asm volatile("prefetch.tensormap [%0];" ::"l"(box) : "memory");
}
// Copies one pixel of each of many windows over images, as many as the description says: windows follow one another from the one that begins
// at (column, row) of `image`, and the pixel is the one `across` and `down` from where its window begins, from `channel` on. Pixels outside of
// an image are 0. Rows are permuted as above.
__device__ inline void fetch_window(void *to, const void *windows, int channel, int column, int row, int image, int across, int down, barrier *b)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(
			     shared_address(to)),
		     "l"(windows), "r"(channel), "r"(column), "r"(row), "r"(image), "r"(shared_address(b)), "h"((uint16_t)across),
		     "h"((uint16_t)down)
		     : "memory");
}
// group_multiply() of tiles that the copy engine has brought: there is no thread whose barrier the emulator could look for.
template <int COLUMNS, bool SIGNED> __device__ inline void group_multiply_boxes(int *c, uint64_t a, uint64_t b)
{
	group_multiply<COLUMNS, SIGNED>(c, a, b);
}
// Four bytes of a box that was fetched, to a thread that has waited for the box.
__device__ inline uint32_t box_word(const void *p)
{
	return *(const uint32_t *)p;
}
// Has a box copied to memory, but for what lies outside of the matrix. Threads that wrote it to shared memory have called group_sees() and
// come to a barrier. One thread; it knows by put_wait() that the memory of all its boxes before put_end() may be written again.
__device__ inline void put_box(const void *box, int column, int row, const void *from)
{
	asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(box), "r"(column), "r"(row),
		     "r"(shared_address(from))
		     : "memory");
}
__device__ inline void put_end()
{
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ inline void put_wait()
{
	asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// A barrier of whole warps, `threads` in all: one of 15 beside that of __syncthreads(), which is number 0.
__device__ inline void some_threads(int which, int threads)
{
	asm volatile("bar.sync %0, %1;" ::"r"(which), "r"(threads) : "memory");
}
// Warpgroups share a block's registers out: how many each of their threads has from here on.
template <int N> __device__ inline void fewer_registers()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void more_registers()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
// v, which is the same in all threads of the warp; so the compiler knows, too.
__device__ inline int uniform(int v)
{
	return __shfl_sync(0xffffffffu, v, 0);
}
#endif

// ---- clusters: SIZE blocks beside one another along x run at the same time -------------------------------------

#ifdef CLUSTERS
#define CLUSTER(SIZE) __cluster_dims__(SIZE, 1, 1)
// Arrive and wait together are a barrier of all threads of the cluster, with release and acquire.
__device__ inline void cluster_arrive()
{
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait()
{
	asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Writes element i of what block `to` of the cluster has at the same place of shared memory as this block has `all`.
__device__ inline void cluster_put(float *all, int i, int to, float v)
{
	uint32_t there;
	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((uint32_t)__cvta_generic_to_shared(all + i)), "r"(to));
	asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(v) : "memory");
}
// Elements i and i + 1, of which the first is at a multiple of 8 bytes.
__device__ inline void cluster_put(float *all, int i, int to, float2 v)
{
	uint32_t there;
	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((uint32_t)__cvta_generic_to_shared(all + i)), "r"(to));
	asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(v.x), "f"(v.y) : "memory");
}
// The blocks, first to end - 1, whose received sums a block adds up: its own on a GPU. The emulator runs blocks one after the other, so there the last does all.
enum { CLUSTER_AT_ONCE = 1 };
template <int SIZE> __device__ inline int cluster_first()
{
	return blockIdx.x % SIZE;
}
template <int SIZE> __device__ inline int cluster_end()
{
	return blockIdx.x % SIZE + 1;
}
__device__ inline float cluster_get(const float *all, int i, int)
{
	return all[i];
}
// Elements i to i + 3, of which the first is at a multiple of 16 bytes.
__device__ inline float4 cluster_get_four(const float *all, int i, int)
{
	return *(const float4 *)(all + i);
}
#endif

// ---- numbers, time -----------------------------------------------------------------------------

__device__ inline float exp2_of(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
// 1 / x
__device__ inline float quick_inverse(float x)
{
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
// The hyperbolic tangent, to 2^-11.
__device__ inline float quick_tanh(float x)
{
	float y;
	asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
#ifndef TURING
__device__ inline uint32_t round_tf32(uint32_t bits)
{
	uint32_t r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(bits)));
	return r;
}
#endif
// nanoseconds
__device__ inline unsigned long long global_clock()
{
	unsigned long long t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

// Two numbers as codes from 0 to 255, the nearest where they are beyond: b in the lowest byte, a in the next one, the lower half of c above.
__device__ inline uint32_t pack_u8(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t r;
	asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
	return r;
}

// ---- launches that overlap: a kernel that gpu_launch_early() launches may start while the one before it still runs. It must not write
// anything, nor read what others write, before wait_for_previous() in every block.

// The next kernel may start once all blocks of this one have come here.
__device__ inline void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until all kernels before this one have ended, and what they wrote can be read.
__device__ inline void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif

#ifdef TURING
#include "turing.cuh"
#endif

// The start of a kernel that has nothing to do before the one before it has ended.
__device__ inline void start_early()
{
	let_next_begin();
	wait_for_previous();
}
