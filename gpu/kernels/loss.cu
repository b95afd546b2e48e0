// SPDX-License-Identifier: Apache-2.0
// Losses of class scores against class numbers. Scores lie as [batch, classes, positions].
#include "any.cuh"

// One warp a position: its loss and weight (in the workspace), and the log-probabilities.
extern "C" __global__ void loss_each(const gpu_loss p)
{
	const int lane = threadIdx.x % 32;
	double *loss = (double *)p.io.work, *mass = loss + p.n;
	for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < p.n;
	     i += gridDim.x * (int64_t)(blockDim.x / 32)) {
		int64_t base = i / p.inner * p.classes * p.inner + i % p.inner, target = in_int(p.io, 1, i);
		double lse = 0;
		if (p.softmax) {
			double max = -INFINITY, sum = 0;
			for (int64_t k = lane; k < p.classes; k += 32)
				max = fmax(max, in_real(p.io, 0, base + k * p.inner));
			for (int o = 16; o; o >>= 1)
				max = fmax(max, __shfl_xor_sync(0xffffffffu, max, o));
			for (int64_t k = lane; k < p.classes; k += 32)
				sum += exp(in_real(p.io, 0, base + k * p.inner) - max);
			for (int o = 16; o; o >>= 1)
				sum += __shfl_xor_sync(0xffffffffu, sum, o);
			lse = max + log(sum);
		}
		if (p.io.out[1])
			for (int64_t k = lane; k < p.classes; k += 32)
				out_put(p.io, 1, base + k * p.inner, in_real(p.io, 0, base + k * p.inner) - lse);
		if (lane)
			continue;
		bool none = p.ignores && target == p.ignore;
		if (!none && (target < 0 || target >= p.classes)) {
			fault(p.io);
			continue;
		}
		double w = none ? 0 : p.io.in[2] ? in_real(p.io, 2, target) : 1;
		double v = none ? 0 : -(in_real(p.io, 0, base + target * p.inner) - lse) * w;
		mass[i] = w;
		loss[i] = v;
		if (p.reduction == 0)
			out_put(p.io, 0, i, v);
	}
}

// One block; reduction 1 sum, 2 mean.
extern "C" __global__ void loss_sum(const gpu_loss p)
{
	const double *loss = (const double *)p.io.work, *mass = loss + p.n;
	double s = 0, m = 0;
	for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
		s += loss[i];
		m += mass[i];
	}
	s = block_all(s, AddUp());
	__syncthreads();
	m = block_all(m, AddUp());
	if (threadIdx.x == 0)
		out_put(p.io, 0, 0, p.reduction == 2 ? s / m : s);
}
