// SPDX-License-Identifier: Apache-2.0
// TopK and Unique, which sort; NonZero and Compress, which keep some elements in their order.
#include "order.cuh"

extern "C" __global__ void topk_keys(const gpu_topk p)
{
	const gpu_sort &s = p.sort;
	EACH(i, s.lines * s.padded)
	{
		int64_t line = i / s.padded, k = i % s.padded;
		u64 key = UINT64_MAX;
		if (k < s.n) {
			key = key_of(p.io.it[0], p.io.in[0],
				     (line / p.inner * s.n + k) * p.inner + line % p.inner);
			key = p.largest ? ~key : key;
		}
		workspace<u64>(p.io, s.at_key)[i] = key;
		workspace<u32>(p.io, s.at_index)[i] = k < s.n ? (u32)k : 0xffffffffu;
	}
}
extern "C" __global__ void topk_tiles(const gpu_topk p) { sort_tiles(p.io, p.sort); }
extern "C" __global__ void topk_step(const gpu_topk p) { sort_step(p.io, p.sort); }
extern "C" __global__ void topk_take(const gpu_topk p)
{
	const gpu_sort &s = p.sort;
	EACH(i, s.lines * p.k)
	{
		int64_t line = i / p.k, k = i % p.k, o = line / p.inner, r = line % p.inner;
		int64_t to = (o * p.k + k) * p.inner + r;
		u32 from = workspace<u32>(p.io, s.at_index)[line * s.padded + k];
		if (p.io.out[0])
			any_copy(p.size, p.io.out[0], to, p.io.in[0], (o * s.n + from) * p.inner + r);
		if (p.io.out[1])
			((i64 *)p.io.out[1])[to] = from;
	}
}

// ---- keeping flagged slices in order ------------------------------------------------------------------------------

extern "C" __global__ void flag_non_zero(const gpu_slices p)
{
	EACH(i, p.sort.n)
	workspace<u32>(p.io, p.at_flag)[i] = is_float(p.io.it[0]) ? in_real(p.io, 0, i) != 0 : in_int(p.io, 0, i) != 0;
}
extern "C" __global__ void flag_chosen(const gpu_slices p)
{
	EACH(i, p.sort.n) workspace<u32>(p.io, p.at_flag)[i] = i < p.given && ((const u8 *)p.io.in[1])[i] != 0;
}

// Three launches find the position of each flagged slice in the output. They count the flags of each chunk, turn the
// counts into running sums, and number the flags within each chunk.
extern "C" __global__ void flags_count(const gpu_slices p)
{
	const u32 *flag = workspace<u32>(p.io, p.at_flag);
	for (int64_t c = blockIdx.x; c * GPU_CHUNK < p.sort.n; c += gridDim.x) {
		int64_t sum = 0, all;
		for (int64_t i = c * GPU_CHUNK + threadIdx.x; i < (c + 1) * GPU_CHUNK && i < p.sort.n; i += blockDim.x)
			sum += flag[i];
		running_sum(sum, &all);
		if (threadIdx.x == 0)
			workspace<int64_t>(p.io, p.at_sums)[c] = all;
	}
}
extern "C" __global__ void flags_sum(const gpu_slices p)
{
	int64_t *sums = workspace<int64_t>(p.io, p.at_sums), chunks = (p.sort.n + GPU_CHUNK - 1) / GPU_CHUNK, total = 0;
	for (int64_t c = 0; c < chunks; c += blockDim.x) {
		int64_t k = c + threadIdx.x, v = k < chunks ? sums[k] : 0, all, before = running_sum(v, &all);
		if (k < chunks)
			sums[k] = total + before;
		total += all;
	}
	if (threadIdx.x == 0)
		*workspace<int64_t>(p.io, p.at_total) = total;
}
extern "C" __global__ void flags_place(const gpu_slices p)
{
	const u32 *flag = workspace<u32>(p.io, p.at_flag);
	int64_t *place = workspace<int64_t>(p.io, p.at_place);
	for (int64_t c = blockIdx.x; c * GPU_CHUNK < p.sort.n; c += gridDim.x) {
		int64_t total = workspace<int64_t>(p.io, p.at_sums)[c];
		for (int64_t b = c * GPU_CHUNK; b < (c + 1) * GPU_CHUNK && b < p.sort.n; b += blockDim.x) {
			int64_t i = b + threadIdx.x, all, v = i < p.sort.n ? flag[i] : 0, before = running_sum(v, &all);
			if (i < p.sort.n)
				place[i] = total + before;
			total += all;
		}
	}
}

extern "C" __global__ void non_zero_write(const gpu_slices p)
{
	EACH(i, p.sort.n)
	{
		if (!workspace<u32>(p.io, p.at_flag)[i])
			continue;
		int64_t k = workspace<int64_t>(p.io, p.at_place)[i], rest = i;
		for (int r = p.rank - 1; r >= 0; r--) {
			((i64 *)p.io.out[0])[r * p.kept + k] = rest % p.dim[r];
			rest /= p.dim[r];
		}
	}
}

extern "C" __global__ void compress_write(const gpu_slices p)
{
	EACH(i, p.outer * p.sort.n * p.inner)
	{
		int64_t r = i % p.inner, k = i / p.inner % p.sort.n, o = i / p.inner / p.sort.n;
		if (workspace<u32>(p.io, p.at_flag)[k])
			any_copy(p.size, p.io.out[0],
				 (o * p.kept + workspace<int64_t>(p.io, p.at_place)[k]) * p.inner + r, p.io.in[0], i);
	}
}

// ---- Unique ------------------------------------------------------------------------------------

extern "C" __global__ void unique_keys(const gpu_slices p)
{
	EACH(i, p.sort.padded)
	{
		workspace<u64>(p.io, p.sort.at_key)[i] = i < p.sort.n && p.by_key ? key_of(p.io.it[0], p.io.in[0], i)
						    : i < p.sort.n	     ? 0
									     : UINT64_MAX;
		workspace<u32>(p.io, p.sort.at_index)[i] = i < p.sort.n ? (u32)i : 0xffffffffu;
	}
}

__device__ inline int compare_slices(const gpu_slices &p, int64_t a, int64_t b)
{
	for (int64_t k = 0; k < p.outer * p.inner; k++) {
		int64_t base = k / p.inner * p.sort.n * p.inner + k % p.inner;
		u64 x = key_of(p.io.it[0], p.io.in[0], base + a * p.inner),
		    y = key_of(p.io.it[0], p.io.in[0], base + b * p.inner);
		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

extern "C" __global__ void unique_tiles(const gpu_slices p) { sort_tiles(p.io, p.sort); }
extern "C" __global__ void unique_step(const gpu_slices p) { sort_step(p.io, p.sort); }
// Does one step of the bitonic merge, in which slices are compared element by element.
extern "C" __global__ void unique_slice_step(const gpu_slices p)
{
	u32 *x = workspace<u32>(p.io, p.sort.at_index);
	EACH(t, p.sort.padded / 2)
	{
		int64_t a = t / p.sort.step * 2 * p.sort.step + t % p.sort.step, b = a + p.sort.step;
		u32 i = x[a], j = x[b];
		bool none = i == 0xffffffffu || j == 0xffffffffu;
		int order = none ? 0 : compare_slices(p, i, j);
		bool more = order > 0 || (order == 0 && i > j);
		if (more == ((a & p.sort.width) == 0)) {
			x[a] = j;
			x[b] = i;
		}
	}
}

extern "C" __global__ void unique_heads(const gpu_slices p)
{
	const u32 *x = workspace<u32>(p.io, p.sort.at_index);
	const u64 *key = workspace<u64>(p.io, p.sort.at_key);
	EACH(i, p.sort.n)
	workspace<u32>(p.io, p.at_flag)[i] =
		!i || (p.by_key ? key[i] != key[i - 1] : compare_slices(p, x[i - 1], x[i]) != 0);
}

// Finds the start of each group of equal slices in the sorted list, and the group of each slice.
extern "C" __global__ void unique_groups(const gpu_slices p)
{
	const u32 *x = workspace<u32>(p.io, p.sort.at_index), *flag = workspace<u32>(p.io, p.at_flag);
	const int64_t total = *workspace<int64_t>(p.io, p.at_total);
	EACH(i, p.sort.n)
	{
		int64_t g = workspace<int64_t>(p.io, p.at_place)[i] - !flag[i];
		workspace<int64_t>(p.io, p.at_group)[x[i]] = g;
		if (flag[i]) {
			workspace<int64_t>(p.io, p.at_first)[g] = x[i];
			workspace<int64_t>(p.io, p.at_size)[g] = i;
		}
		if (i == p.sort.n - 1)
			workspace<int64_t>(p.io, p.at_size)[total] = p.sort.n;
	}
}

// Flags the first slice of each group of equal slices. If Unique does not sort, groups are numbered in the order of
// these flags.
extern "C" __global__ void unique_firsts(const gpu_slices p)
{
	EACH(i, p.sort.n)
	workspace<u32>(p.io, p.at_flag)[i] = workspace<int64_t>(p.io, p.at_first)[workspace<int64_t>(p.io, p.at_group)[i]] == i;
}

extern "C" __global__ void unique_write(const gpu_slices p)
{
	const int64_t *first = workspace<int64_t>(p.io, p.at_first), *size = workspace<int64_t>(p.io, p.at_size),
		      *group = workspace<int64_t>(p.io, p.at_group), *place = workspace<int64_t>(p.io, p.at_place);
	EACH(i, p.sort.n)
	{
		int64_t g = group[i], to = p.sorted ? g : place[first[g]];
		if (p.io.out[2])
			((i64 *)p.io.out[2])[i] = to;
		if (first[g] != i)
			continue;
		if (p.io.out[1])
			((i64 *)p.io.out[1])[to] = i;
		if (p.io.out[3])
			((i64 *)p.io.out[3])[to] = size[g + 1] - size[g];
		for (int64_t k = 0; p.io.out[0] && k < p.outer * p.inner; k++)
			any_copy(p.size, p.io.out[0], (k / p.inner * p.kept + to) * p.inner + k % p.inner, p.io.in[0],
				 (k / p.inner * p.sort.n + i) * p.inner + k % p.inner);
	}
}
