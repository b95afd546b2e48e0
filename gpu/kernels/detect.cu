// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression: scores sorted by class, then one block a class takes boxes by falling score.
#include "order.cuh"

// y0, x0, y1, x1, area of each box
extern "C" __global__ void nms_corners(const gpu_nms p)
{
	const float *boxes = (const float *)p.io.in[0];
	EACH(i, p.sort.lines / p.classes * p.sort.n)
	{
		const float *b = boxes + i * 4;
		float *c = room<float>(p.io, p.at_corners) + i * 5;
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
		room<u64>(p.io, s.at_key)[i] = in ? ~key_of(T_F32, p.io.in[1], line * s.n + k) : UINT64_MAX;
		room<u32>(p.io, s.at_index)[i] = in ? (u32)k : 0xffffffffu;
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

extern "C" __global__ void nms_pick(const gpu_nms p)
{
	const gpu_sort &s = p.sort;
	const float iou = p.io.in[3] ? *(const float *)p.io.in[3] : 0;
	int64_t most = p.io.in[2] ? *(const i64 *)p.io.in[2] : 0;
	most = most < 0 ? 0 : most < p.most ? most : p.most;
	for (int64_t l = blockIdx.x; l < s.lines; l += gridDim.x) {
		const float *corners = room<float>(p.io, p.at_corners) + l / p.classes * s.n * 5;
		const u32 *index = room<u32>(p.io, s.at_index) + l * s.padded;
		int32_t *picked = room<int32_t>(p.io, p.at_picked) + l * p.most;
		int64_t got = 0;
		for (int64_t k = 0; k < s.n && got < most; k++) {
			u32 box = index[k];
			if (box == 0xffffffffu)
				break;
			int hit = 0;
			for (int64_t t = threadIdx.x; t < got && !hit; t += blockDim.x)
				hit = overlaps(corners + (int64_t)box * 5, corners + (int64_t)picked[t] * 5, iou);
			if (__syncthreads_or(hit))
				continue;
			if (threadIdx.x == 0)
				picked[got] = (int32_t)box;
			got++;
			__syncthreads();
		}
		if (threadIdx.x == 0)
			room<int64_t>(p.io, p.at_count)[l] = got;
	}
}

// Counts to places.
extern "C" __global__ void nms_places(const gpu_nms p)
{
	int64_t *count = room<int64_t>(p.io, p.at_count), total = 0;
	for (int64_t b = 0; b < p.sort.lines; b += blockDim.x) {
		int64_t k = b + threadIdx.x, all, before = running(k < p.sort.lines ? count[k] : 0, &all);
		if (k < p.sort.lines)
			count[k] = total + before;
		total += all;
	}
	if (threadIdx.x == 0)
		*room<int64_t>(p.io, p.at_total) = total;
}

extern "C" __global__ void nms_write(const gpu_nms p)
{
	const int64_t *place = room<int64_t>(p.io, p.at_count);
	for (int64_t l = blockIdx.x; l < p.sort.lines; l += gridDim.x) {
		int64_t end = l + 1 < p.sort.lines ? place[l + 1] : p.total;
		for (int64_t k = place[l] + threadIdx.x; k < end; k += blockDim.x) {
			i64 *y = (i64 *)p.io.out[0] + 3 * k;
			y[0] = l / p.classes;
			y[1] = l % p.classes;
			y[2] = room<int32_t>(p.io, p.at_picked)[l * p.most + k - place[l]];
		}
	}
}
