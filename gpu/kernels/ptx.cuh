// SPDX-License-Identifier: Apache-2.0
// All uses of PTX, for operations that CUDA C++ cannot express: products on tensor cores, asynchronous copies, clocks.
// test/gpu/emulate has the same functions for the CPU.
#pragma once
#include <stdint.h>

// Devices before sm_80 lack some instructions; turing.cuh makes these functions out of those that they have.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TURING
#endif

#ifdef EMULATED
#include "ptx.h"
#else

// Declares shared memory whose size is set by the launch.
#define SHARED_ROOM(T, name) extern __shared__ __align__(16) T name[]

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
#define PTX_MMA(name, C, how, shape)                                                                                   \
	__device__ inline void name(C *c, const uint32_t *a, uint32_t b0, uint32_t b1)                                 \
	{                                                                                                              \
		asm("mma.sync.aligned." shape " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                 \
		    : how(c[0]), how(c[1]), how(c[2]), how(c[3])                                                       \
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                   \
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
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0));
}
// Makes a group of the copies that were started since the last call.
__device__ inline void fetch_end() { asm volatile("cp.async.commit_group;"); }
// Waits until all groups of this thread, except the last LEFT groups, have arrived.
template <int LEFT> __device__ inline void fetch_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT)); }
__device__ inline void fetch_wait_all() { asm volatile("cp.async.wait_all;"); }
#endif

// ---- numbers, time -----------------------------------------------------------------------------

__device__ inline float exp2_of(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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

// ---- launches that overlap: in a graph of launches (gpu/driver/listing.c) a kernel whose launch says `early` may start while the one
// before it still runs. It must not write anything, nor read what others write, before wait_for_previous() in every block.

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
