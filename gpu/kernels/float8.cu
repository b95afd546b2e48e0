// SPDX-License-Identifier: Apache-2.0
// Rounding to float8, and products of float8 for devices and shapes that cuBLASLt does not take.
#include "float8.cuh"
#include "float8.h"

struct Larger {
	__device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

// Each block finds the largest finite magnitude of its part.
extern "C" __global__ void float8_most(const gpu_float8 p)
{
	float most = 0;
	EACH(i, p.n)
	{
		float v = fabsf(up(((const f16 *)p.x)[i]));
		most = isfinite(v) && v > most ? v : most;
	}
	most = block_all(most, Larger());
	if (threadIdx.x == 0)
		p.part[blockIdx.x] = most;
}

// Returns the scale that follows from the magnitudes of all parts. Each block computes it for itself.
__device__ inline float scale_of(const gpu_float8 &p)
{
	float most = 0;
	for (int i = threadIdx.x; i < p.parts; i += blockDim.x)
		most = Larger()(most, p.part[i]);
	most = block_all(most, Larger());
	float scale = most > 0 ? most / 448.0f : 1.0f;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		*p.s = scale;
	return scale;
}

extern "C" __global__ void float8_round(const gpu_float8 p)
{
	const int V = 8;
	float by = 1.0f / (p.part ? scale_of(p) : p.scale), v[V];
	EACH(i, p.n / V)
	{
		fetch<f16, V>((const f16 *)p.x + i * V, v);
		store_float8<V>((u8 *)p.y + i * V, v, by);
	}
	for (int64_t i = p.n / V * V + threadIdx.x; blockIdx.x == 0 && i < p.n; i += blockDim.x) {
		fetch<f16, 1>((const f16 *)p.x + i, v);
		store_float8<1>((u8 *)p.y + i, v, by);
	}
}

// A block of 256 threads computes a tile of 32 x 32; a thread has four elements of one column.
extern "C" __global__ void float8_gemm(const gpu_float8_gemm p)
{
	const int TILE = GPU_FLOAT8_TILE, OWN = TILE * TILE / 256;
	__shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
	const u8 *pa = (const u8 *)p.a, *pb = (const u8 *)p.b;
	int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
	int64_t col0 = blockIdx.x * (int64_t)TILE, col = col0 + x;
	float factor = p.scale * (p.s ? *p.s : 1.0f), after = p.d ? *p.d : 1.0f;
	for (int64_t row0 = blockIdx.y * (int64_t)TILE; row0 < p.m; row0 += gridDim.y * (int64_t)TILE) {
		float sum[OWN] = {0};
		for (int64_t k0 = 0; k0 < p.k; k0 += TILE) {
			for (int i = y; i < TILE; i += TILE / OWN) {
				bool in = k0 + x < p.k;
				a[i][x] = in && row0 + i < p.m ? float8_value(pa[(row0 + i) * p.k + k0 + x]) : 0.0f;
				b[i][x] = in && col0 + i < p.n ? float8_value(pb[(col0 + i) * p.k + k0 + x]) : 0.0f;
			}
			__syncthreads();
			for (int k = 0; k < TILE; k++)
				for (int i = 0; i < OWN; i++)
					sum[i] += a[y + i * (TILE / OWN)][k] * b[x][k];
			__syncthreads();
		}
		for (int i = 0; i < OWN; i++) {
			int64_t row = row0 + y + i * (TILE / OWN), at = row * p.n + col;
			if (row >= p.m || col >= p.n)
				continue;
			float v = sum[i] * factor + (p.c ? up(((const f16 *)p.c)[col]) : 0.0f);
			v += p.r ? up(((const f16 *)p.r)[at]) : 0.0f;
			v = activate(p.act, p.act_alpha, p.act_beta, v) * after;
			if (p.rounds)
				store_float8<1>((u8 *)p.y + at, &v, 1.0f);
			else
				((f16 *)p.y)[at] = down<f16>(v);
		}
	}
}
