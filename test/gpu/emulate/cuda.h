/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nvcc gives to a kernel, for a C++ compiler: put before each file of gpu/kernels (-include) it makes a
 * library of kernels that run on the CPU, a thread after the other (run.cc).
 */
#ifndef EMULATE_CUDA_H
#define EMULATE_CUDA_H
#define EMULATED 1

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <vector_types.h>

#undef __device__
#undef __global__
#undef __host__
#undef __shared__
#undef __noinline__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#undef __align__
#define __device__
#define __host__
#define __global__ __attribute__((visibility("default")))
/* one block runs at a time; gcc must be told that halves need no constructor */
#ifdef __clang__
#define __shared__ static
#else
#define __shared__ static __constinit
#endif
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
/* the C library's headers use the name as an attribute of its own */
#define __noinline__ __attribute__((noinline))

/* ---- where a thread is: set whenever another one goes on */

extern "C" {
extern uint3 emulate_thread, emulate_block;
extern dim3 emulate_threads, emulate_blocks;

/* All threads of the block have come here. */
void emulate_barrier(const char *file, int line);

/*
 * The lanes of `mask` have come here, each with an `own` of its own; the last of them calls together(), once for all:
 * own[i] is lane i's.
 */
void emulate_warp(unsigned mask, void (*together)(void *const *own, unsigned mask), void *own,
		  const char *what);

/* Dynamic shared memory. */
void *emulate_room(void);

/* cp.async: what is asked for is copied as late as it may be. */
void emulate_fetch(void *to, const void *from, int there);
void emulate_fetch_end(void);
void emulate_fetch_wait(int left);

/* The lanes of the warp have come here, and see what each has written. */
void emulate_warp_barrier(void);
/* A barrier in shared memory, of 8 bytes: a round ends when `arrivals` have come, and the bytes that were expected. */
void emulate_round_set(uint64_t *barrier, int arrivals);
void emulate_round_come(uint64_t *barrier, int arrivals, int bytes);
void emulate_round_wait(uint64_t *barrier, int parity);
/* Barrier `which` of so many threads of the block. */
void emulate_some(int which, int threads);
void emulate_read(const void *p, size_t n); /* by the copy engine */
void emulate_copy(void *to, const void *from, size_t n); /* without a look at it */

/* What blocks of a cluster write to each other, by element and block; and how often blocks of the launch have arrived. */
void emulate_cluster_put(int i, int to, float v);
float emulate_cluster_get(int i, int to);
void emulate_cluster_arrive(void);
unsigned emulate_cluster_arrivals(void);

/* A lane's value is asked for that is not of those that give theirs. */
void emulate_stranger(int lane);

/* Complains of what does not lie at a multiple of 16 bytes. */
void emulate_aligned(const void *p, const char *what);
/* Of n bytes, 4 or 8; returns what was there. */
uint64_t emulate_or(void *p, uint64_t v, size_t n);
}
#define threadIdx	emulate_thread
#define blockIdx	emulate_block
#define blockDim	emulate_threads
#define gridDim		emulate_blocks
#define __syncthreads() emulate_barrier(__FILE__, __LINE__)
#define __syncwarp()	emulate_warp_barrier()

/* ---- warps */

namespace emulate
{
template <typename T> struct swap {
	T in, out;
	int by;
};
enum { WARP = 32 };
inline int lane()
{
	return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % WARP;
}

/* Each lane's `out` is the `in` of lane from(lane, by); its own where that one is none. */
template <typename T, int (*FROM)(int, int)> void exchange(void *const *own, unsigned mask)
{
	for (int i = 0; i < WARP; i++) {
		if (!(mask >> i & 1))
			continue;
		swap<T> *s = (swap<T> *)own[i];
		int k = FROM(i, s->by);
		if (k >= 0 && k < WARP && !(mask >> k & 1))
			emulate_stranger(k);
		s->out = k >= 0 && k < WARP && mask >> k & 1 ? ((swap<T> *)own[k])->in : s->in;
	}
}
template <typename T, int (*FROM)(int, int)> T shuffle(unsigned mask, T v, int by, const char *what)
{
	swap<T> s = {v, v, by};
	emulate_warp(mask, exchange<T, FROM>, &s, what);
	return s.out;
}
inline int other(int i, int by)
{
	return i ^ by;
}
inline int below(int i, int by)
{
	return i - by;
}
inline int above(int i, int by)
{
	return i + by;
}
inline int given(int, int by)
{
	return by & 31;
}
inline void vote(void *const *own, unsigned mask)
{
	unsigned all = 0;
	for (int i = 0; i < WARP; i++)
		if (mask >> i & 1)
			all |= (unsigned)(((swap<unsigned> *)own[i])->in != 0) << i;
	for (int i = 0; i < WARP; i++)
		if (mask >> i & 1)
			((swap<unsigned> *)own[i])->out = all;
}
} // namespace emulate

template <typename T> T __shfl_xor_sync(unsigned mask, T v, int by)
{
	return emulate::shuffle<T, emulate::other>(mask, v, by, "__shfl_xor_sync");
}
template <typename T> T __shfl_up_sync(unsigned mask, T v, int by)
{
	return emulate::shuffle<T, emulate::below>(mask, v, by, "__shfl_up_sync");
}
template <typename T> T __shfl_down_sync(unsigned mask, T v, int by)
{
	return emulate::shuffle<T, emulate::above>(mask, v, by, "__shfl_down_sync");
}
template <typename T> T __shfl_sync(unsigned mask, T v, int from)
{
	return emulate::shuffle<T, emulate::given>(mask, v, from, "__shfl_sync");
}
inline unsigned __ballot_sync(unsigned mask, int v)
{
	emulate::swap<unsigned> s = {v != 0, 0, 0};
	emulate_warp(mask, emulate::vote, &s, "__ballot_sync");
	return s.out;
}
inline int __any_sync(unsigned mask, int v)
{
	return __ballot_sync(mask, v) != 0;
}
inline int __all_sync(unsigned mask, int v)
{
	return __ballot_sync(mask, v) == mask;
}

/* ---- bits */

template <typename To, typename From> To emulate_bits(From v)
{
	To to;
	static_assert(sizeof(To) == sizeof(From), "of one size");
	memcpy(&to, &v, sizeof(to));
	return to;
}
inline float __uint_as_float(unsigned v)
{
	return emulate_bits<float>(v);
}
inline unsigned __float_as_uint(float v)
{
	return emulate_bits<unsigned>(v);
}
inline float __int_as_float(int v)
{
	return emulate_bits<float>(v);
}
inline int __float_as_int(float v)
{
	return emulate_bits<int>(v);
}
inline long long __double_as_longlong(double v)
{
	return emulate_bits<long long>(v);
}
inline double __longlong_as_double(long long v)
{
	return emulate_bits<double>(v);
}
inline int __popc(unsigned v)
{
	return __builtin_popcount(v);
}
inline int __popcll(unsigned long long v)
{
	return __builtin_popcountll(v);
}
inline int __ffs(int v)
{
	return __builtin_ffs(v);
}
inline int __ffsll(long long v)
{
	return __builtin_ffsll(v);
}
inline int __clz(int v)
{
	return v ? __builtin_clz((unsigned)v) : 32;
}
inline int __clzll(long long v)
{
	return v ? __builtin_clzll((unsigned long long)v) : 64;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
	return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which)
{
	const uint64_t both = (uint64_t)high << 32 | low;
	unsigned v = 0;
	for (int i = 0; i < 4; i++)
		v |= (unsigned)(both >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
	return v;
}
inline unsigned __vmaxu2(unsigned a, unsigned b)
{
	const unsigned low = (a & 0xffff) > (b & 0xffff) ? a & 0xffff : b & 0xffff;

	return ((a >> 16) > (b >> 16) ? a >> 16 : b >> 16) << 16 | low;
}
inline int __dp4a(int a, int b, int c)
{
	for (int i = 0; i < 4; i++)
		c += (int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
	return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
	for (int i = 0; i < 4; i++)
		c += (uint8_t)(a >> 8 * i) * (uint8_t)(b >> 8 * i);
	return c;
}

/* ---- numbers: nothing here is contracted, so that rounding once needs no more than the operator */

inline float __saturatef(float x)
{
	return x > 0 ? fminf(x, 1) : 0; /* 0 of NaN */
}
inline float __fadd_rn(float a, float b)
{
	return a + b;
}
inline float __fsub_rn(float a, float b)
{
	return a - b;
}
inline int __float2int_rn(float x)
{
	return (int)lrintf(x);
}
inline float __fmul_rn(float a, float b)
{
	return a * b;
}
inline float __fdiv_rn(float a, float b)
{
	return a / b;
}
inline float __fmaf_rn(float a, float b, float c)
{
	return fmaf(a, b, c);
}
inline double __dadd_rn(double a, double b)
{
	return a + b;
}
inline double __dmul_rn(double a, double b)
{
	return a * b;
}
inline float __fdividef(float a, float b)
{
	return a / b;
}
inline float __expf(float v)
{
	return expf(v);
}
inline float __logf(float v)
{
	return logf(v);
}
inline float rsqrtf(float v)
{
	return 1.0f / sqrtf(v);
}
inline float rsqrt(float v)
{
	return 1.0f / sqrtf(v);
}
inline double rsqrt(double v)
{
	return 1.0 / sqrt(v);
}
inline double sinpi(double v)
{
	return sin(v * 3.14159265358979323846);
}
inline double cospi(double v)
{
	return cos(v * 3.14159265358979323846);
}

inline void sincospi(double v, double *s, double *c)
{
	const double r = remainder(v, 2.0); /* exact */
	*s = fabs(r) == 1.0 ? 0.0 : sin(r * 3.14159265358979323846);
	*c = fabs(r) == 0.5 ? 0.0 : cos(r * 3.14159265358979323846);
}

/* ---- the rest */

inline void __nanosleep(unsigned)
{
}
inline void __threadfence()
{
}
inline void __threadfence_block()
{
}
template <typename T, typename V> T atomicOr(T *p, V v)
{
	return (T)emulate_or(p, (uint64_t)v, sizeof(T));
}

#endif
