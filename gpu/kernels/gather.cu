// SPDX-License-Identifier: Apache-2.0
// Scatter with a reduction, OneHot and TensorScatter.
#include "order.cuh"

// Returns the offset of the data element that update i is applied to.
__device__ inline int64_t scatter_target(const gpu_scatter &p, int64_t i, bool *ok)
{
	int64_t at = 0, rest = i;
	*ok = true;
	for (int r = p.nd ? p.tuple - 1 : p.rank - 1; r >= 0; r--) {
		int64_t c = 0, v = 0;
		const bool chosen = p.nd || r == p.axis;
		if (chosen) {
			int64_t k = p.nd ? i * p.tuple + r : i;
			v = p.wide ? ((const i64 *)p.io.in[1])[k] : ((const i32 *)p.io.in[1])[k];
			v += v < 0 ? p.xd[r] : 0;
			*ok = *ok && v >= 0 && v < p.xd[r];
		}
		if (!p.nd) {
			c = rest % p.id[r];
			rest /= p.id[r];
		}
		at += (chosen ? v : c) * p.xs[r];
	}
	return at;
}

extern "C" __global__ void scatter_keys(const gpu_scatter p)
{
	EACH(i, p.sort.padded)
	{
		bool ok = i < p.sort.n;
		int64_t at = ok ? scatter_target(p, i, &ok) : 0;
		if (i < p.sort.n && !ok)
			fault(p.io);
		workspace<u64>(p.io, p.sort.at_key)[i] = ok ? (u64)at : UINT64_MAX;
		workspace<u32>(p.io, p.sort.at_index)[i] = i < p.sort.n ? (u32)i : 0xffffffffu;
	}
}
extern "C" __global__ void scatter_tiles(const gpu_scatter p) { sort_tiles(p.io, p.sort); }
extern "C" __global__ void scatter_step(const gpu_scatter p) { sort_step(p.io, p.sort); }

// how: GPU_SCATTER_...
__device__ inline void combine(const gpu_io &o, int how, int64_t at, int64_t from)
{
	const int t = o.it[0];
	void *y = o.out[0];
	if (t == T_BOOL) {
		bool a = ((u8 *)y)[at] != 0, b = ((const u8 *)o.in[2])[from] != 0;
		((u8 *)y)[at] = how == GPU_SCATTER_ADD || how == GPU_SCATTER_MAX ? a || b : a && b;
	} else if (is_float(t)) {
		double a = any_real(t, y, at), b = in_real(o, 2, from);
		any_put(t, y, at,
			how == GPU_SCATTER_ADD   ? a + b
			: how == GPU_SCATTER_MUL ? a * b
			: a != a   ? a
			: b != b   ? b
			: how == GPU_SCATTER_MAX ? (b > a ? b : a)
				   : (b < a ? b : a));
	} else {
		int64_t a = any_int(t, y, at), b = in_int(o, 2, from);
		bool more = is_signed(t) ? b > a : (u64)b > (u64)a, less = is_signed(t) ? b < a : (u64)b < (u64)a;
		any_put_int(t, y, at,
			    how == GPU_SCATTER_ADD   ? (i64)((u64)a + (u64)b)
			    : how == GPU_SCATTER_MUL ? (i64)((u64)a * (u64)b)
			    : how == GPU_SCATTER_MAX ? (more ? b : a)
				       : (less ? b : a));
	}
}

// The thread of the first update of a target also applies the other updates of that target, in their order.
extern "C" __global__ void scatter_apply(const gpu_scatter p)
{
	const u64 *key = workspace<u64>(p.io, p.sort.at_key);
	const u32 *index = workspace<u32>(p.io, p.sort.at_index);
	EACH(i, p.sort.n * p.run)
	{
		int64_t k = i / p.run, r = i % p.run;
		if (key[k] == UINT64_MAX || (k && key[k] == key[k - 1]))
			continue;
		for (int64_t e = k; e < p.sort.n && key[e] == key[k]; e++)
			combine(p.io, p.how, (int64_t)key[k] + r, index[e] * p.run + r);
	}
}

extern "C" __global__ void one_hot(const gpu_onehot p)
{
	EACH(i, p.n)
	{
		int64_t in = i % p.inner, d = i / p.inner % p.depth, o = i / p.inner / p.depth;
		int64_t v = in_int(p.io, 0, o * p.inner + in);
		v += v < 0 ? p.depth : 0;
		any_copy(p.size, p.io.out[0], i, p.io.in[2], v == d);
	}
}

// Writes element i of the update to its position in the data, which has p.room positions along the axis.
extern "C" __global__ void tensor_scatter(const gpu_tensor_scatter p)
{
	EACH(i, p.n)
	{
		int64_t e = i % p.run, k = i / p.run % p.len, r = i / p.run / p.len, b = r / p.between;
		int64_t start = p.io.in[2] ? ((const i64 *)p.io.in[2])[b] : 0;
		if (start < 0 || (!p.circular && start > p.room - p.len)) {
			fault(p.io);
			continue;
		}
		any_copy(p.size, p.io.out[0], (r * p.room + (start + k) % p.room) * p.run + e, p.io.in[1], i);
	}
}
