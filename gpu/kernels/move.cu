// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements: strided copies, padding, gathering, triangles. Types of the same size share a
// kernel.
#include "common.cuh"
#include "ptx.cuh"

struct __align__(16) u128 {
	u64 v[2];
};

template <typename T> __device__ inline void strided(const gpu_strided &p)
{
	start_early();
	EACH(i, p.n) ((T *)p.y)[walk1(p.d, p.ys, i)] = ((const T *)p.x)[walk1(p.d, p.xs, i)];
}

// Returns the position of the input that output position c of a dimension copies, or -1 if the output is filled with
// the pad value. mode is one of GPU_PAD_...
__device__ inline int64_t pad_from(int mode, int64_t c, int64_t dim)
{
	if (c >= 0 && c < dim)
		return c;
	if (mode == GPU_PAD_CONSTANT || dim == 0)
		return -1;
	if (mode == GPU_PAD_EDGE)
		return c < 0 ? 0 : dim - 1;
	if (mode == GPU_PAD_WRAP)
		return (c % dim + dim) % dim;
	if (dim == 1)
		return 0;
	int64_t period = 2 * (dim - 1), r = (c % period + period) % period;
	return r < dim ? r : period - r;
}

template <typename T> __device__ inline void pad(const gpu_pad &p)
{
	T fill;
	if (p.value)
		fill = *(const T *)p.value;
	else
		memset(&fill, 0, sizeof(fill));
	EACH(i, p.n)
	{
		int64_t rest = i, at = 0, step = 1;
		bool inside = true;
		for (int r = p.rank - 1; r >= 0; r--) {
			int64_t c = rest % p.yd[r];
			rest /= p.yd[r];
			c = p.mode != GPU_PAD_CONSTANT ? pad_from(p.mode, c - p.begin[r] - p.low[r], p.core[r]) : pad_from(GPU_PAD_CONSTANT, c - p.begin[r], p.xd[r]);
			c = c >= 0 && p.mode != GPU_PAD_CONSTANT ? c + p.low[r] : c;
			inside = inside && c >= 0;
			at += c * step;
			step *= p.xd[r];
		}
		((T *)p.y)[i] = inside ? ((const T *)p.x)[at] : fill;
	}
}

__device__ inline int64_t index_at(const gpu_gather_job &p, int64_t i, int64_t dim, bool *ok)
{
	int64_t v = p.wide ? ((const int64_t *)p.index)[i] : ((const int32_t *)p.index)[i];
	v = v < 0 ? v + dim : v;
	*ok = v >= 0 && v < dim;
	if (!*ok)
		*(volatile uint64_t *)p.fault = p.who;
	return v;
}

// Computes y[outer, count, inner] = x[outer, index[count], inner].
template <typename T> __device__ inline void gather(const gpu_gather_job &p)
{
	EACH(i, p.n)
	{
		int64_t in = i % p.inner, rest = i / p.inner, c = rest % p.count, o = rest / p.count;
		bool ok;
		int64_t v = index_at(p, c, p.dim, &ok);
		if (ok)
			((T *)p.y)[i] = ((const T *)p.x)[(o * p.dim + v) * p.inner + in];
	}
}

// Returns the offset of the element of x that element i of the indices selects: it has the coordinates of i, except
// along the axis.
__device__ inline int64_t element_along_axis(const gpu_gather_job &p, int64_t i, bool *ok)
{
	int64_t v = index_at(p, i, p.xd[p.axis], ok), at = 0, rest = i;
	for (int r = p.rank - 1; r >= 0; r--) {
		int64_t c = rest % p.id[r];
		rest /= p.id[r];
		at += (r == p.axis ? v : c) * p.xs[r];
	}
	return at;
}

template <typename T> __device__ inline void gather_elements(const gpu_gather_job &p)
{
	EACH(i, p.n)
	{
		bool ok;
		int64_t at = element_along_axis(p, i, &ok);
		if (ok)
			((T *)p.y)[i] = ((const T *)p.x)[at];
	}
}

template <typename T> __device__ inline void scatter_elements(const gpu_gather_job &p)
{
	EACH(i, p.n)
	{
		bool ok;
		int64_t at = element_along_axis(p, i, &ok);
		if (ok)
			((T *)p.y)[at] = ((const T *)p.update)[i];
	}
}

// Returns the offset that tuple t of k indices selects, in units of the inner slices of x. The tuple belongs to batch t
// / count.
__device__ inline int64_t tuple_at(const gpu_gather_job &p, int64_t t, bool *ok)
{
	int64_t at = 0;
	*ok = true;
	for (int r = 0; r < p.k; r++) {
		bool good;
		at += index_at(p, t * p.k + r, p.xd[r], &good) * p.xs[r];
		*ok = *ok && good;
	}
	return at;
}

template <typename T> __device__ inline void gather_nd(const gpu_gather_job &p)
{
	EACH(i, p.n)
	{
		int64_t in = i % p.inner, t = i / p.inner, b = t / p.count;
		bool ok;
		int64_t at = tuple_at(p, t, &ok);
		if (ok)
			((T *)p.y)[i] = ((const T *)p.x)[b * p.dim + at + in];
	}
}

template <typename T> __device__ inline void scatter_nd(const gpu_gather_job &p)
{
	EACH(i, p.n)
	{
		int64_t in = i % p.inner, t = i / p.inner;
		bool ok;
		int64_t at = tuple_at(p, t, &ok);
		if (ok)
			((T *)p.y)[at + in] = ((const T *)p.update)[i];
	}
}

template <typename T> __device__ inline void trilu(const gpu_trilu &p)
{
	const int64_t diagonal = p.at ? *p.at : p.k;
	EACH(i, p.n)
	{
		int64_t c = i % p.cols, r = i / p.cols % p.rows;
		T v;
		memset(&v, 0, sizeof(v));
		if (p.upper ? c - r >= diagonal : c - r <= diagonal)
			v = ((const T *)p.x)[i];
		((T *)p.y)[i] = v;
	}
}

#define KERNELS(bytes, T)                                                                                              \
	extern "C" __global__ void strided_##bytes(const gpu_strided_pieces p) { strided<T>(p.piece[blockIdx.y]); }          \
	extern "C" __global__ void pad_##bytes(const gpu_pad p) { pad<T>(p); }                                         \
	extern "C" __global__ void gather_##bytes(const gpu_gather_job p) { gather<T>(p); }                                \
	extern "C" __global__ void gather_elements_##bytes(const gpu_gather_job p) { gather_elements<T>(p); }              \
	extern "C" __global__ void gather_nd_##bytes(const gpu_gather_job p) { gather_nd<T>(p); }                          \
	extern "C" __global__ void scatter_elements_##bytes(const gpu_gather_job p) { scatter_elements<T>(p); }            \
	extern "C" __global__ void scatter_nd_##bytes(const gpu_gather_job p) { scatter_nd<T>(p); }                        \
	extern "C" __global__ void trilu_##bytes(const gpu_trilu p) { trilu<T>(p); }
KERNELS(1, u8)
KERNELS(2, u16)
KERNELS(4, u32)
KERNELS(8, u64)
KERNELS(16, u128)
