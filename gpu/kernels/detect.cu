// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression. Boxes are sorted by score within each class. Then each box of a group of boxes is compared with
// all boxes of lower score, in parallel; each comparison gives one bit. Last, one block for each class selects boxes by
// falling score, 64 at a time.
#include "order.cuh"

// Stores y0, x0, y1, x1 and the area of each box.
extern "C" __global__ void nms_corners(const gpu_nms p)
{
	const float *boxes = (const float *)p.io.in[0];
	EACH(i, p.sort.lines / p.classes * p.sort.n)
	{
		const float *b = boxes + i * 4;
		float *c = workspace<float>(p.io, p.at_corners) + i * 5;
		if (p.center) {
			c[0] = b[1] - b[3] / 2;
			c[1] = b[0] - b[2] / 2;
			c[2] = b[1] + b[3] / 2;
			c[3] = b[0] + b[2] / 2;
		} else {
			c[0] = b[0] < b[2] ? b[0] : b[2];
			c[1] = b[1] < b[3] ? b[1] : b[3];
			c[2] = b[0] < b[2] ? b[2] : b[0];
			c[3] = b[1] < b[3] ? b[3] : b[1];
		}
		c[4] = __fmul_rn(c[3] - c[1], c[2] - c[0]);
	}
}

extern "C" __global__ void nms_keys(const gpu_nms p)
{
	const gpu_sort &s = p.sort;
	EACH(i, s.lines * s.padded)
	{
		int64_t line = i / s.padded, k = i % s.padded;
		bool in = k < s.n;
		if (in && p.io.in[4])
			in = ((const float *)p.io.in[1])[line * s.n + k] > *(const float *)p.io.in[4];
		workspace<u64>(p.io, s.at_key)[i] = in ? ~key_of(T_F32, p.io.in[1], line * s.n + k) : UINT64_MAX;
		workspace<u32>(p.io, s.at_index)[i] = in ? (u32)k : 0xffffffffu;
	}
}
extern "C" __global__ void nms_tiles(const gpu_nms p) { sort_tiles(p.io, p.sort); }
extern "C" __global__ void nms_step(const gpu_nms p) { sort_step(p.io, p.sort); }

__device__ inline bool overlaps(const float *a, const float *b, float iou)
{
	float y0 = a[0] > b[0] ? a[0] : b[0], x0 = a[1] > b[1] ? a[1] : b[1];
	float y1 = a[2] < b[2] ? a[2] : b[2], x1 = a[3] < b[3] ? a[3] : b[3];
	if (!(y1 > y0) || !(x1 > x0))
		return false;
	float inner = __fmul_rn(x1 - x0, y1 - y0), all = __fadd_rn(a[4] + b[4], -inner);
	return inner > 0 && a[4] > 0 && b[4] > 0 && all > 0 && inner / all > iou;
}

static const u32 NONE = 0xffffffffu;

// Returns how many 64-box words of the line hold boxes. Entries without a box are sorted to the end.
__device__ inline int64_t words_with_boxes(const u32 *index, int64_t words)
{
	int64_t low = 0, high = words;
	while (low < high) {
		int64_t mid = (low + high) / 2;
		if (index[mid * 64] == NONE)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}
__device__ inline int64_t max_boxes(const gpu_nms &p)
{
	int64_t most = p.io.in[2] ? *(const i64 *)p.io.in[2] : 0;
	return most < 0 ? 0 : most < p.most ? most : p.most;
}

extern "C" __global__ void nms_start(const gpu_nms p)
{
	EACH(i, p.sort.lines * p.words)
	{
		workspace<u64>(p.io, p.at_out)[i] = 0;
		if (i < p.sort.lines)
			workspace<int64_t>(p.io, p.at_count)[i] = 0;
	}
}

// A block compares 64 boxes (a row of the mask each) with 64 boxes of lower score.
extern "C" __global__ void __launch_bounds__(64) nms_overlap(const gpu_nms p)
{
	__shared__ float other[64][5];
	__shared__ int there[64];
	const gpu_sort &s = p.sort;
	const float iou = p.io.in[3] ? *(const float *)p.io.in[3] : 0;
	int64_t rw = p.first / 64 + blockIdx.y, cw = p.first / 64 + blockIdx.x, l = p.line + blockIdx.z, most = max_boxes(p);
	const u32 *index = workspace<u32>(p.io, s.at_index) + l * s.padded;
	int64_t i = rw * 64 + threadIdx.x, j = cw * 64 + threadIdx.x;
	if (cw < rw || rw >= p.words || cw >= p.words || index[rw * 64] == NONE || index[cw * 64] == NONE ||
	    workspace<int64_t>(p.io, p.at_count)[l] >= most)
		return;
	const float *corners = workspace<float>(p.io, p.at_corners) + l / p.classes * s.n * 5;
	u32 column = j < s.n ? index[j] : NONE, row = i < s.n ? index[i] : NONE;
	there[threadIdx.x] = column != NONE;
	for (int k = 0; k < 5 && column != NONE; k++)
		other[threadIdx.x][k] = corners[(int64_t)column * 5 + k];
	__syncthreads();
	bool out = workspace<u64>(p.io, p.at_out)[l * p.words + rw] >> threadIdx.x & 1;
	if (row == NONE || out)
		return;
	float own[5];
	for (int k = 0; k < 5; k++)
		own[k] = corners[(int64_t)row * 5 + k];
	u64 bits = 0;
	for (int k = cw == rw ? threadIdx.x + 1 : 0; k < 64; k++)
		if (there[k] && overlaps(other[k], own, iou))
			bits |= 1ull << k;
	workspace<u64>(p.io, p.at_mask)[((l - p.line) * p.rows + i - p.first) * p.words + cw] = bits;
}

// Selects, among the 64 boxes whose bits are set in `in`, those that no box selected earlier suppresses. Only the first
// warp calls this function.
__device__ inline u64 select_boxes(u64 in, const u64 *mask, int64_t words, int64_t most)
{
	int lane = threadIdx.x;
	u64 low = in >> lane & 1 ? mask[lane * words] : 0;
	u64 high = in >> (lane + 32) & 1 ? mask[(lane + 32) * words] : 0, kept = 0;
	while (in && most > 0) {
		int b = __ffsll((long long)in) - 1;
		u64 hit = __shfl_sync(0xffffffffu, b < 32 ? low : high, b % 32);
		kept |= 1ull << b;
		in &= ~(hit | 1ull << b);
		most--;
	}
	return kept;
}

// A block selects the boxes to keep of one line (a class of an image). Each launch considers the p.rows boxes from
// number p.first on (in the order of their scores), for which nms_overlap has just computed the rows of the mask.
extern "C" __global__ void __launch_bounds__(512) nms_keep(const gpu_nms p)
{
	__shared__ u64 chosen;
	const gpu_sort &s = p.sort;
	int64_t l = p.line + blockIdx.x, most = max_boxes(p), got = workspace<int64_t>(p.io, p.at_count)[l];
	const u32 *index = workspace<u32>(p.io, s.at_index) + l * s.padded;
	const u64 *mask = workspace<u64>(p.io, p.at_mask) + blockIdx.x * p.rows * p.words;
	volatile u64 *out = workspace<u64>(p.io, p.at_out) + l * p.words;
	int32_t *picked = workspace<int32_t>(p.io, p.at_picked) + l * p.most;
	int64_t begin = p.first / 64, end = (p.first + p.rows) / 64, there = words_with_boxes(index, p.words);
	for (int64_t w = begin; w < end && w < there && got < most; w++) {
		const u64 *rows = mask + (w - begin) * 64 * p.words;
		if (threadIdx.x < 32) {
			int64_t i = w * 64 + threadIdx.x;
			u32 low = __ballot_sync(0xffffffffu, i < s.n && index[i] != NONE);
			u32 high = __ballot_sync(0xffffffffu, i + 32 < s.n && index[i + 32] != NONE);
			u64 kept = select_boxes(~out[w] & ((u64)high << 32 | low), rows + w, p.words, most - got);
			if (threadIdx.x == 0)
				chosen = kept;
		}
		__syncthreads();
		u64 kept = chosen;
		if (threadIdx.x < 64 && kept >> threadIdx.x & 1)
			picked[got + __popcll(kept & ((1ull << threadIdx.x) - 1))] = (int32_t)index[w * 64 + threadIdx.x];
		got += __popcll(kept);
		// Each thread combines the mask rows of eight boxes into the set of suppressed boxes.
		int64_t behind = there - w - 1;
		for (int64_t k = threadIdx.x; k < behind * 8 && got < most; k += blockDim.x) {
			int64_t c = w + 1 + k % behind;
			int from = (int)(k / behind) * 8;
			u64 bits = 0;
#pragma unroll
			for (int r = from; r < from + 8; r++)
				if (kept >> r & 1)
					bits |= rows[r * p.words + c];
			if (bits)
				atomicOr((unsigned long long *)&out[c], bits);
		}
		__syncthreads();
	}
	if (threadIdx.x == 0)
		workspace<int64_t>(p.io, p.at_count)[l] = got;
}

// Turns the number of boxes kept in each line into the position at which the line's results begin.
extern "C" __global__ void nms_places(const gpu_nms p)
{
	int64_t *count = workspace<int64_t>(p.io, p.at_count), total = 0;
	for (int64_t b = 0; b < p.sort.lines; b += blockDim.x) {
		int64_t k = b + threadIdx.x, all, before = running_sum(k < p.sort.lines ? count[k] : 0, &all);
		if (k < p.sort.lines)
			count[k] = total + before;
		total += all;
	}
	if (threadIdx.x == 0)
		*workspace<int64_t>(p.io, p.at_total) = total;
}

extern "C" __global__ void nms_write(const gpu_nms p)
{
	const int64_t *place = workspace<int64_t>(p.io, p.at_count);
	for (int64_t l = blockIdx.x; l < p.sort.lines; l += gridDim.x) {
		int64_t end = l + 1 < p.sort.lines ? place[l + 1] : p.total;
		for (int64_t k = place[l] + threadIdx.x; k < end; k += blockDim.x) {
			i64 *y = (i64 *)p.io.out[0] + 3 * k;
			y[0] = l / p.classes;
			y[1] = l % p.classes;
			y[2] = workspace<int32_t>(p.io, p.at_picked)[l * p.most + k - place[l]];
		}
	}
}
