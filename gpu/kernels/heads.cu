// SPDX-License-Identifier: Apache-2.0
// Kernels that prepare heads, masks and lengths for com.microsoft's attention operators.
#include "heads.cuh"
#include "ptx.cuh"

// A thread writes two elements, because elements of 4 bits share a byte.
template <typename T> __device__ inline void heads_keep(const gpu_keep &p)
{
	EACH(k, (p.batch * p.heads * p.rows * p.size + 1) / 2)
	{
		unsigned byte = 0;
		for (int64_t i = 2 * k; i < 2 * k + 2 && i < p.batch * p.heads * p.rows * p.size; i++) {
			int64_t e = i % p.size, r = i / p.size % p.rows, h = i / p.size / p.rows % p.heads;
			int64_t b = i / p.size / p.rows / p.heads, from = p.first[b] + r;
			bool there = r < p.count[b] && from < p.room;
			float v = there ? up(((const T *)p.x)[((b * p.heads + h) * p.room + from) * p.size + e]) : 0.0f;
			if (!p.codes.scale) {
				any_put(p.codes.type, p.y, i, v);
				continue;
			}
			v = there ? code_nearest(p.codes, v / code_scale(p.codes, h, p.size, e)) : 0.0f;
			if (p.codes.bits == 4)
				byte |= (there ? (unsigned)((int)v + 8) : 0u) << (i & 1) * 4;
			else
				any_put(p.codes.type, p.y, i, v);
		}
		if (p.codes.scale && p.codes.bits == 4)
			((u8 *)p.y)[k] = (u8)byte;
	}
}

// The first block leaves the numbers to the kernels behind.
__device__ inline void store_lengths(const gpu_lengths &p)
{
	for (int64_t i = threadIdx.x; i < p.zero_bytes; i += blockDim.x)
		((u8 *)p.zeros)[i] = 0;
	for (int64_t b = threadIdx.x; b < p.batch; b += blockDim.x) {
		const Lengths l = lengths_of(p, b);
		if (!l.good)
			*p.fault = p.who;
		p.valid[b] = l.valid;
		p.used[b] = l.used;
		p.keep_first[b] = p.window ? l.valid - l.keep : 0;
		p.keep_count[b] = l.keep;
	}
}

// Copies the cached rows, 16 bytes at a time.
template <typename T> __device__ inline void fill_old_pieces(const gpu_heads &p, const gpu_lengths &lengths)
{
	const int64_t pieces = p.size * (int64_t)sizeof(T) / 16;
	EACH(i, p.batch * p.heads * p.room * pieces)
	{
		int64_t z = i / pieces, r = z % p.room, b = z / p.room / p.heads, used = used_rows(p, lengths, b);
		if (r >= used && r < used + p.rows)
			continue;
		int64_t old = (z / p.room * p.past_room + r) * pieces + i % pieces;
		((uint4 *)p.y)[i] = r < used ? ((const uint4 *)p.past)[old] : make_uint4(0, 0, 0, 0);
	}
}

template <typename T> __device__ inline void fill_old(const gpu_heads &p, const gpu_lengths &lengths)
{
	EACH(i, p.batch * p.heads * p.room * p.size)
	{
		int64_t e = i % p.size, z = i / p.size, r = z % p.room, h = z / p.room % p.heads, b = z / p.room / p.heads;
		int64_t used = used_rows(p, lengths, b);
		if (r < used || r >= used + p.rows)
			((T *)p.y)[i] = down<T>(r < used ? cached<T>(p, h, ((b * p.heads + h) * p.past_room + r) * p.size + e, e) : 0.0f);
	}
}

// Writes new row `now` of a head by a whole block: with its bias, normalized, turned by its position, rounded as the cache rounds.
template <typename T> __device__ inline void fill_new(const gpu_heads &p, const gpu_lengths &lengths, int64_t b, int64_t h, int64_t now, T *y)
{
	const T *x = (const T *)p.x + b * p.step[0] + h * p.step[1] + now * p.step[2];
	float by = 0;
	if (p.norm) {
		for (int64_t e = threadIdx.x; e < p.size; e += blockDim.x)
			by += up(x[e]) * up(x[e]);
		by = block_all(by, [](float a, float c) { return a + c; });
		by = 1 / sqrtf(by / (float)p.size + p.epsilon);
		__syncthreads();
	}
	bool good;
	int64_t row = new_position(p, lengths, b, now, good);
	if (!good)
		*p.fault = p.who;
	for (int64_t e = threadIdx.x; e < p.size && good; e += blockDim.x)
		y[e] = new_element<T, true>(p, x, h, by, row, e);
}

// Query, keys and values, or those of them that are made, at once: gridDim.y parts.
template <typename T> __device__ inline void heads_fill(const gpu_heads_parts &all)
{
	const gpu_heads &p = all.part[blockIdx.y];
	const gpu_lengths &lengths = all.lengths;
	// a cache of codes, or of another type, is computed element by element
	bool pieces = p.plain && p.size * sizeof(T) % 16 == 0 && (((uintptr_t)p.past | (uintptr_t)p.y) & 15) == 0;
	bool old = p.room > p.rows && !p.fresh;
	if (lengths.last && !blockIdx.x && !blockIdx.y)
		store_lengths(lengths);
	if (old && pieces)
		fill_old_pieces<T>(p, lengths);
	else if (old)
		fill_old<T>(p, lengths);
	for (int64_t z = blockIdx.x; z < p.batch * p.heads * p.rows; z += gridDim.x) {
		int64_t now = z % p.rows, h = z / p.rows % p.heads, b = z / p.rows / p.heads, r = used_rows(p, lengths, b) + now;
		if (r < p.room)
			fill_new<T>(p, lengths, b, h, now, (T *)p.y + ((b * p.heads + h) * p.room + r) * p.size);
	}
}

// Returns whether query i of batch b may see key j.
__device__ inline bool mask_shows(const gpu_ms_mask &p, int64_t b, int64_t i, int64_t j)
{
	const int32_t *m = p.mask;
	switch (p.rank) {
	case 1: return j < m[b] && (p.dim[0] != 2 * p.batch || j >= m[p.batch + b]);
	case 2: return j >= p.dim[1] || m[b * p.dim[1] + j] > 0;
	case 3: return m[(b * p.dim[1] + i) * p.dim[2] + j] > 0;
	default: return m[(b * p.dim[3] + p.keys - p.queries + i) * p.dim[3] + j] > 0;
	}
}

template <typename T> __device__ inline void ms_mask(const gpu_ms_mask &p)
{
	EACH(i, p.batch * p.rows * p.keys)
	{
		int64_t j = i % p.keys, r = i / p.keys % p.rows, b = i / p.keys / p.rows;
		((T *)p.y)[i] = down<T>(mask_shows(p, b, r, j) ? 0.0f : p.filter);
	}
}

// ---- SparseMask

__device__ inline int64_t sparse_start(const gpu_sparse_mask &p, int64_t b)
{
	return p.keys == p.queries ? 0 : p.lens[b] - p.queries;
}

// Each thread looks at one row or column index or at one length.
extern "C" __global__ void sparse_check(const gpu_sparse_mask p)
{
	EACH(i, p.layouts * (p.row_step + p.col_step) + p.batch)
	{
		int64_t each = p.row_step + p.col_step, l = i / each, at = i % each, blocks = p.row_step - 1;
		bool good;
		if (l >= p.layouts) {
			int64_t b = i - p.layouts * each;
			good = p.lens[b] >= 0 && p.lens[b] <= p.keys && sparse_start(p, b) >= 0;
		} else if (at < p.row_step) {
			const int32_t *rows = p.rows + l * p.row_step;
			good = rows[at] >= 0 && rows[at] <= p.col_step && (at == 0 || rows[at - 1] <= rows[at]);
		} else {
			const int32_t *rows = p.rows + l * p.row_step;
			int32_t col = p.cols[l * p.col_step + at - p.row_step];
			bool used = at - p.row_step >= rows[0] && at - p.row_step < rows[blocks];
			good = !used || (col >= 0 && col < blocks);
		}
		if (!good)
			*p.fault = p.who;
	}
}

template <typename T> __device__ inline void sparse_mask(const gpu_sparse_mask &p)
{
	EACH(i, p.batch * p.heads * p.queries * p.keys)
	{
		int64_t j = i % p.keys, q = i / p.keys % p.queries, h = i / p.keys / p.queries % p.heads,
			b = i / p.keys / p.queries / p.heads, l = h % p.layouts, row = (sparse_start(p, b) + q) / p.block;
		const int32_t *rows = p.rows + l * p.row_step;
		bool seen = false;
		// what sparse_check refuses must not lead outside the indices
		if (row >= 0 && row < p.row_step - 1 && rows[row] >= 0 && rows[row + 1] <= p.col_step)
			for (int64_t k = rows[row]; k < rows[row + 1] && !seen; k++)
				seen = p.cols[l * p.col_step + k] == j / p.block;
		((T *)p.y)[i] = down<T>(seen ? 0.0f : -INFINITY);
	}
	EACH(i, p.batch * p.room)
	p.rest[i] = i % p.room >= sparse_start(p, i / p.room) + p.queries;
}

template <typename T> __device__ inline void score_rows(const gpu_score_rows &p)
{
	EACH(i, p.n)
	{
		int64_t j = i % p.to;
		float v = j < p.from ? up(((const T *)p.x)[i / p.to * p.from + j]) : 0.0f;
		((T *)p.y)[i] = down<T>(v == -INFINITY ? 0.0f : v);
	}
}

// ---- FlexAttention

extern "C" __global__ void flex_scores(const gpu_flex p)
{
	EACH(i, p.batch * p.heads * p.queries * p.keys)
	{
		int64_t j = i % p.keys, row = i / p.keys, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
		int64_t k = ((b * p.kv_heads + h / (p.heads / p.kv_heads)) * p.keys + j) * p.size;
		double sum = 0;
		for (int64_t e = 0; e < p.size; e++)
			sum += any_real(p.type, p.q, row * p.size + e) * any_real(p.type, p.k, k + e);
		any_put(p.wide, p.score, i, sum * p.scale);
	}
}

// Computes the softmax of one row after the other, in place. A row that contains only -infinity gives NaN.
extern "C" __global__ void flex_softmax(const gpu_flex p)
{
	for (int64_t row = blockIdx.x; row < p.batch * p.heads * p.queries; row += gridDim.x) {
		double most = -INFINITY, sum = 0;
		for (int64_t j = threadIdx.x; j < p.keys; j += blockDim.x)
			most = Greatest()(any_real(p.wide, p.score, row * p.keys + j), most);
		most = block_all(most, Greatest());
		for (int64_t j = threadIdx.x; j < p.keys; j += blockDim.x)
			sum += exp(any_real(p.wide, p.score, row * p.keys + j) - most);
		sum = block_all(sum, AddUp());
		for (int64_t j = threadIdx.x; j < p.keys; j += blockDim.x)
			any_put(p.wide, p.score, row * p.keys + j,
				exp(any_real(p.wide, p.score, row * p.keys + j) - most) / sum);
		__syncthreads();
	}
}

extern "C" __global__ void flex_product(const gpu_flex p)
{
	EACH(i, p.batch * p.heads * p.queries * p.vsize)
	{
		int64_t e = i % p.vsize, row = i / p.vsize, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
		int64_t v = (b * p.kv_heads + h / (p.heads / p.kv_heads)) * p.keys * p.vsize + e;
		double sum = 0;
		for (int64_t j = 0; j < p.keys; j++)
			sum += any_real(p.wide, p.score, row * p.keys + j) * any_real(p.type, p.v, v + j * p.vsize);
		any_put(p.type, p.y, i, sum);
	}
}

extern "C" __global__ void retype(const gpu_retype p)
{
	EACH(i, p.n)
	any_put(p.to, p.y, i, any_real(p.from, p.x, i));
}

#define HEADS(T)                                                                                                       \
	extern "C" __global__ void heads_fill_##T(const gpu_heads_parts p)                                             \
	{                                                                                                              \
		start_early();                                                                                        \
		heads_fill<T>(p);                                                                                      \
	}                                                                                                              \
	extern "C" __global__ void heads_keep_##T(const gpu_keep p) { heads_keep<T>(p); }                              \
	extern "C" __global__ void ms_mask_##T(const gpu_ms_mask p) { ms_mask<T>(p); }                                 \
	extern "C" __global__ void score_rows_##T(const gpu_score_rows p) { score_rows<T>(p); }                        \
	extern "C" __global__ void sparse_mask_##T(const gpu_sparse_mask p) { sparse_mask<T>(p); }
HEADS(f32) HEADS(f16) HEADS(bf16)
