// SPDX-License-Identifier: Apache-2.0
// Einsum, determinants, inverses and less common normalizations.
#include "any.cuh"

// A warp computes one output. It sums the products of the operands over the labels that the output does not have.
template <typename C, bool WHOLE, int K> __device__ inline void einsum(const gpu_einsum &p)
{
	const int lane = threadIdx.x % 32;
	for (int64_t o = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; o < p.n;
	     o += gridDim.x * (int64_t)(blockDim.x / 32)) {
		int64_t base[K], at[K];
		walk<K>(p.keep, p.ks, o, base);
		C sum = 0;
		for (int64_t k = lane; k < p.m; k += 32) {
			walk<K>(p.sum, p.ss, k, at);
			C v = 1;
			for (int i = 0; i < p.nin; i++) {
				if (WHOLE)
					v *= (C)in_int(p.io, i, base[i] + at[i]);
				else
					v *= (C)in_real(p.io, i, base[i] + at[i]);
			}
			sum += v;
		}
		for (int s = 16; s; s >>= 1)
			sum += __shfl_xor_sync(0xffffffffu, sum, s);
		if (lane)
			continue;
		if (WHOLE)
			any_put_int(p.io.ot[0], p.io.out[0], o, (int64_t)sum);
		else
			out_put(p.io, 0, o, (double)sum);
	}
}
#define EINSUM(name, K)                                                                                                \
	extern "C" __global__ void name##_f32(const gpu_einsum p) { einsum<float, false, K>(p); }                      \
	extern "C" __global__ void name##_f64(const gpu_einsum p) { einsum<double, false, K>(p); }                     \
	extern "C" __global__ void name##_int(const gpu_einsum p) { einsum<u64, true, K>(p); }
EINSUM(einsum, EINSUM_FEW) EINSUM(einsum_many, EINSUM_IN)

// A block computes the determinant of one matrix after the other by elimination. Each block has size * size elements of
// the workspace.
extern "C" __global__ void determinant(const gpu_matrix p)
{
	__shared__ int pivot;
	__shared__ double det;
	const int64_t n = p.size;
	double *a = (double *)p.io.work + blockIdx.x * n * n;
	for (int64_t m = blockIdx.x; m < p.n; m += gridDim.x) {
		__syncthreads();
		for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x)
			a[i] = in_real(p.io, 0, m * n * n + i);
		if (threadIdx.x == 0)
			det = 1;
		for (int64_t k = 0; k < n; k++) {
			__syncthreads();
			if (threadIdx.x == 0) {
				int64_t best = k;
				for (int64_t i = k + 1; i < n; i++)
					if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
						best = i;
				pivot = (int)best;
				det *= best == k ? a[best * n + k] : -a[best * n + k];
			}
			__syncthreads();
			const bool none = a[pivot * n + k] == 0;
			__syncthreads(); // all threads have read `pivot`, so that rows may now be exchanged
			if (none)
				break;
			for (int64_t i = k + threadIdx.x; pivot != k && i < n; i += blockDim.x) {
				double v = a[k * n + i];
				a[k * n + i] = a[pivot * n + i];
				a[pivot * n + i] = v;
			}
			__syncthreads();
			for (int64_t i = k + 1 + threadIdx.x; i < n; i += blockDim.x) {
				double f = a[i * n + k] / a[k * n + k];
				for (int64_t l = k + 1; l < n; l++)
					a[i * n + l] = __dadd_rn(a[i * n + l], -__dmul_rn(f, a[k * n + l]));
			}
		}
		__syncthreads();
		if (threadIdx.x == 0)
			out_put(p.io, 0, m, det);
	}
}

// A block inverts one matrix after the other. The workspace holds the matrix and, beside it, the identity matrix, which the
// elimination turns into the inverse.
extern "C" __global__ void inverse(const gpu_matrix p)
{
	__shared__ int best;
	const int64_t n = p.size, row = 2 * n;
	double *a = (double *)p.io.work + blockIdx.x * n * row;
	for (int64_t m = blockIdx.x; m < p.n; m += gridDim.x) {
		bool has = true;
		__syncthreads();
		for (int64_t i = threadIdx.x; i < n * row; i += blockDim.x)
			a[i] = i % row < n ? in_real(p.io, 0, (m * n + i / row) * n + i % row) : i % row - n == i / row;
		for (int64_t k = 0; k < n && has; k++) {
			__syncthreads();
			if (threadIdx.x == 0) {
				best = (int)k;
				for (int64_t i = k + 1; i < n; i++)
					if (fabs(a[i * row + k]) > fabs(a[best * row + k]))
						best = (int)i;
			}
			__syncthreads();
			double pivot = a[best * row + k];
			has = pivot != 0;
			__syncthreads();
			for (int64_t i = k + threadIdx.x; has && i < row; i += blockDim.x) {
				double t = a[best * row + i] / pivot;
				a[best * row + i] = a[k * row + i];
				a[k * row + i] = t;
			}
			__syncthreads();
			for (int64_t r = threadIdx.x; has && r < n; r += blockDim.x) {
				double f = a[r * row + k];
				for (int64_t i = k; i < row && r != k && f != 0; i++)
					a[r * row + i] = __dadd_rn(a[r * row + i], -__dmul_rn(f, a[k * row + i]));
			}
		}
		__syncthreads();
		for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x)
			out_put(p.io, 0, m * n * n + i, has ? a[i / n * row + n + i % n] : nan(""));
	}
}

// Returns element i of the row to be normalized: x plus skip and bias, or the sum of the rows of the embedding tables.
__device__ inline double norm_value(const gpu_norm_any &p, int64_t row, int64_t i)
{
	double v = 0;
	if (p.tables) {
		int64_t at[3] = {in_int(p.io, 0, row), row % p.length, p.io.in[1] ? in_int(p.io, 1, row) : 0};
		if (p.io.in[8])
			at[1] = in_int(p.io, 8, row % p.positions);
		for (int k = 0; k < p.tables; k++) {
			if (at[k] < 0 || at[k] >= p.table[k]) {
				fault(p.io);
				return 0;
			}
			v += in_real(p.io, 2 + k, at[k] * p.n + i);
		}
	} else {
		v = in_real(p.io, 0, row * p.n + i);
	}
	if (p.skip >= 0)
		v += in_real(p.io, p.skip, row % p.skip_rows * p.n + i);
	if (p.bias >= 0)
		v += in_real(p.io, p.bias, i);
	return v;
}

// A block normalizes one row after the other.
extern "C" __global__ void norm_any(const gpu_norm_any p)
{
	for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
		double mean = 0, var = 0;
		for (int64_t i = threadIdx.x; i < p.n && !p.rms; i += blockDim.x)
			mean += norm_value(p, row, i);
		mean = p.rms ? 0 : block_all(mean, AddUp()) / (double)p.n;
		for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
			double v = norm_value(p, row, i) - mean;
			var += v * v;
		}
		double inv = 1 / sqrt(block_all(var, AddUp()) / (double)p.n + p.epsilon);
		for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
			double x = norm_value(p, row, i), y = (x - mean) * inv;
			int64_t at[2];
			walk<2>(p.d, p.step, row * p.n + i, at);
			if (p.w >= 0)
				y *= in_real(p.io, p.w, at[0]);
			if (p.b >= 0)
				y += in_real(p.io, p.b, at[1]);
			if (p.gate) {
				double g = in_real(p.io, 2, row * p.n + i);
				y *= (p.gate == GPU_GATE_SILU ? g : 1) / (1 + exp(-g));
			}
			out_put(p.io, 0, row * p.n + i, y);
			if (p.sum >= 0)
				out_put(p.io, p.sum, row * p.n + i, x);
		}
		if (threadIdx.x == 0 && p.mean >= 0)
			out_put(p.io, p.mean, row, mean);
		if (threadIdx.x == 0 && p.inv >= 0)
			out_put(p.io, p.inv, row, inv);
	}
}

// Counts the elements that the mask keeps in each sequence. Writes 0 if there is no mask.
extern "C" __global__ void count_mask(const gpu_norm_any p)
{
	EACH(b, p.rows)
	{
		int64_t n = 0;
		for (int64_t i = 0; p.io.in[7] && i < p.length; i++)
			n += in_int(p.io, 7, b * p.length + i) != 0;
		any_put_int(p.io.ot[1], p.io.out[1], b, n);
	}
}

// BatchNormalization whose statistics have another type than x.
extern "C" __global__ void batch_any(const gpu_channels p)
{
	EACH(i, p.n)
	{
		int64_t c = i / p.inner % p.channels;
		double scale = in_real(p.io, 1, c) / sqrt(in_real(p.io, 4, c) + p.epsilon);
		out_put(p.io, 0, i, (in_real(p.io, 0, i) - in_real(p.io, 3, c)) * scale + in_real(p.io, 2, c));
	}
}

// A block normalizes one group of channels of one image.
extern "C" __global__ void group_any(const gpu_group_any p)
{
	const int64_t m = p.per_group * p.pixels, groups = p.channels / p.per_group;
	for (int64_t g = blockIdx.x; g < p.batch * groups; g += gridDim.x) {
		auto place = [&](int64_t k) {
			int64_t c = g % groups * p.per_group + (p.last ? k % p.per_group : k / p.pixels);
			int64_t pixel = p.last ? k / p.per_group : k % p.pixels;
			return g / groups * p.channels * p.pixels + (p.last ? pixel * p.channels + c : c * p.pixels + pixel);
		};
		double mean = 0, var = 0;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x)
			mean += in_real(p.io, 0, place(k));
		mean = block_all(mean, AddUp()) / (double)m;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x) {
			double v = in_real(p.io, 0, place(k)) - mean;
			var += v * v;
		}
		double inv = 1 / sqrt(block_all(var, AddUp()) / (double)m + p.epsilon);
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x) {
			int64_t c = g % groups * p.per_group + (p.last ? k % p.per_group : k / p.pixels);
			double v = (in_real(p.io, 0, place(k)) - mean) * inv * in_real(p.io, 1, c) + in_real(p.io, 2, c);
			out_put(p.io, 0, place(k), p.silu ? v / (1 + exp(-v)) : v);
		}
	}
}

// Divides lines of `size` elements by their norm of order p (1 or 2). The elements of a line are `inner` elements
// apart.
extern "C" __global__ void lp_normal(const gpu_matrix p)
{
	for (int64_t l = blockIdx.x; l < p.outer * p.inner; l += gridDim.x) {
		int64_t base = l / p.inner * p.size * p.inner + l % p.inner;
		double norm = 0;
		for (int64_t k = threadIdx.x; k < p.size; k += blockDim.x) {
			double v = in_real(p.io, 0, base + k * p.inner);
			norm += p.p == 1 ? fabs(v) : v * v;
		}
		norm = block_all(norm, AddUp());
		norm = p.p == 1 ? norm : sqrt(norm);
		for (int64_t k = threadIdx.x; k < p.size; k += blockDim.x)
			out_put(p.io, 0, base + k * p.inner,
				norm == 0 ? 0 : in_real(p.io, 0, base + k * p.inner) / norm);
	}
}

// Scales and shifts the elements so that those over `red`, for each index of `keep`, have mean 0 and standard deviation
// 1.
extern "C" __global__ void mean_variance(const gpu_mean_variance p)
{
	for (int64_t o = blockIdx.x; o < p.n; o += gridDim.x) {
		int64_t base = walk1(p.keep, p.ks, o);
		double sum = 0, square = 0;
		for (int64_t k = threadIdx.x; k < p.m; k += blockDim.x)
			sum += in_real(p.io, 0, base + walk1(p.red, p.rs, k));
		double mean = block_all(sum, AddUp()) / (double)p.m;
		for (int64_t k = threadIdx.x; k < p.m; k += blockDim.x) {
			double v = in_real(p.io, 0, base + walk1(p.red, p.rs, k)) - mean;
			square += v * v;
		}
		double scale = 1 / (sqrt(block_all(square, AddUp()) / (double)p.m) + 1e-9);
		for (int64_t k = threadIdx.x; k < p.m; k += blockDim.x) {
			int64_t at = base + walk1(p.red, p.rs, k);
			out_put(p.io, 0, at, (in_real(p.io, 0, at) - mean) * scale);
		}
	}
}

extern "C" __global__ void local_response(const gpu_channels p)
{
	const int64_t before = (p.window - 1) / 2, after = p.window - 1 - before;
	EACH(i, p.n)
	{
		int64_t c = i / p.inner % p.channels;
		double sum = 0;
		for (int64_t k = c - before; k <= c + after; k++)
			if (k >= 0 && k < p.channels) {
				double v = in_real(p.io, 0, i + (k - c) * p.inner);
				sum += v * v;
			}
		out_put(p.io, 0, i, in_real(p.io, 0, i) / pow(p.epsilon + p.alpha / (double)p.window * sum, p.beta));
	}
}

// BatchNormalization in training: a block computes one channel's statistics, updates the running ones, and normalizes
// the channel.
extern "C" __global__ void batch_training(const gpu_channels p)
{
	const int64_t m = p.batch * p.inner;
	for (int64_t c = blockIdx.x; c < p.channels; c += gridDim.x) {
		double mean = 0, var = 0;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x)
			mean += in_real(p.io, 0, (k / p.inner * p.channels + c) * p.inner + k % p.inner);
		mean = block_all(mean, AddUp()) / (double)m;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x) {
			double v = in_real(p.io, 0, (k / p.inner * p.channels + c) * p.inner + k % p.inner) - mean;
			var += v * v;
		}
		var = block_all(var, AddUp()) / (double)m;
		double scale = in_real(p.io, 1, c) / sqrt(var + p.epsilon), shift = in_real(p.io, 2, c);
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x) {
			int64_t at = (k / p.inner * p.channels + c) * p.inner + k % p.inner;
			out_put(p.io, 0, at, (in_real(p.io, 0, at) - mean) * scale + shift);
		}
		if (threadIdx.x == 0 && p.io.out[1])
			out_put(p.io, 1, c, in_real(p.io, 3, c) * p.momentum + mean * (1 - p.momentum));
		if (threadIdx.x == 0 && p.io.out[2])
			out_put(p.io, 2, c, in_real(p.io, 4, c) * p.momentum + var * (1 - p.momentum));
	}
}

// A block normalizes one group of per_group channels, which share one scale and one bias.
extern "C" __global__ void group_scaled(const gpu_channels p)
{
	const int64_t m = p.per_group * p.inner, groups = p.channels / p.per_group;
	for (int64_t g = blockIdx.x; g < p.batch * groups; g += gridDim.x) {
		double mean = 0, var = 0;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x)
			mean += in_real(p.io, 0, g * m + k);
		mean = block_all(mean, AddUp()) / (double)m;
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x) {
			double v = in_real(p.io, 0, g * m + k) - mean;
			var += v * v;
		}
		var = block_all(var, AddUp()) / (double)m;
		double scale = in_real(p.io, 1, g % groups) / sqrt(var + p.epsilon), shift = in_real(p.io, 2, g % groups);
		for (int64_t k = threadIdx.x; k < m; k += blockDim.x)
			out_put(p.io, 0, g * m + k, (in_real(p.io, 0, g * m + k) - mean) * scale + shift);
	}
}
