// SPDX-License-Identifier: Apache-2.0
// Kernels around convolutions of channels-last tensors: changes of layout, depthwise convolutions, images of one pixel,
// epilogues and pooling.
#include "act.cuh"
#include "conv.h"
#include "ptx.cuh"

template <typename T> struct Most { enum { V = 16 / (int)sizeof(T) }; };

// ---- layouts

template <typename T> __device__ inline void pack(const gpu_pack &p)
{
	EACH(i, p.n)
	{
		int64_t rest = i;
		int c = (int)(rest % p.room);
		rest /= p.room;
		int s = (int)(rest % p.kernel[1]);
		rest /= p.kernel[1];
		int r = (int)(rest % p.kernel[0]);
		rest /= p.kernel[0];
		int q = (int)(rest % p.out[1]);
		rest /= p.out[1];
		int h = (int)(rest % p.out[0]);
		int64_t n = rest / p.out[0];
		T v = T(0);
		if (c < p.channels)
			v = ((const T *)p.x)[n * p.xs[0] + c * p.xs[1] + (int64_t)(h * p.step[0] + r) * p.xs[2] +
					     (int64_t)(q * p.step[1] + s) * p.xs[3]];
		((T *)p.y)[i] = v;
	}
}

// Packs an image of up to four planes (channels first) into pixels of four channels. A thread packs L neighbouring
// pixels.
template <typename T, int L> __device__ inline void pack4(const gpu_pack &p)
{
	const int64_t plane = (int64_t)p.out[0] * p.out[1], tiles = plane / L;
	EACH(i, p.n / (4 * L))
	{
		int64_t n = i / tiles, at = i % tiles * L;
		const T *x = (const T *)p.x + n * p.xs[0];
		Pack<T, L> v[4];
#pragma unroll
		for (int c = 0; c < 4; c++) {
			if (c >= p.channels)
#pragma unroll
				for (int j = 0; j < L; j++)
					v[c].v[j] = T(0);
			else if (L > 1)
				v[c] = *(const Pack<T, L> *)(x + c * p.xs[1] + at);
			else
				v[c].v[0] = x[c * p.xs[1] + at / p.out[1] * p.xs[2] + at % p.out[1] * p.xs[3]];
		}
#pragma unroll
		for (int j = 0; j < L; j++) {
			Pack<T, 4> o = {{v[0].v[j], v[1].v[j], v[2].v[j], v[3].v[j]}};
			((Pack<T, 4> *)p.y)[n * plane + at + j] = o;
		}
	}
}

// Gathers windows that do not overlap from a channels-last image. A row of a window is then one contiguous run of
// `channels` vectors of 16 bytes.
__device__ inline void pack_runs(const gpu_pack &p)
{
	EACH(i, p.n)
	{
		uint32_t rest = (uint32_t)i;
		uint32_t v = rest % (uint32_t)p.channels;
		rest /= (uint32_t)p.channels;
		uint32_t r = rest % (uint32_t)p.kernel[0];
		rest /= (uint32_t)p.kernel[0];
		uint32_t q = rest % (uint32_t)p.out[1];
		rest /= (uint32_t)p.out[1];
		uint32_t h = rest % (uint32_t)p.out[0], n = rest / (uint32_t)p.out[0];
		((uint4 *)p.y)[i] = ((const uint4 *)p.x)[n * p.xs[0] + (int64_t)(h * p.kernel[0] + r) * p.xs[2] + q * p.channels + v];
	}
}

// Gathers windows that do not overlap from an image in planes (channels first). The output is y[n][p][q][c][r][run]; the runs are
// a row of a window. ONNX stores weights in the same order, so that they need no packing.
template <typename T> __device__ inline void pack_planes(const gpu_pack &p)
{
	EACH(i, p.n)
	{
		uint32_t rest = (uint32_t)i;
		uint32_t run = rest % (uint32_t)p.runs;
		rest /= (uint32_t)p.runs;
		uint32_t r = rest % (uint32_t)p.kernel[0];
		rest /= (uint32_t)p.kernel[0];
		uint32_t c = rest % (uint32_t)p.channels;
		rest /= (uint32_t)p.channels;
		uint32_t q = rest % (uint32_t)p.out[1];
		rest /= (uint32_t)p.out[1];
		uint32_t h = rest % (uint32_t)p.out[0], n = rest / (uint32_t)p.out[0];
		((T *)p.y)[i] = ((const T *)p.x)[n * p.xs[0] + c * p.xs[1] + (int64_t)(h * p.kernel[0] + r) * p.xs[2] + q * p.runs + run];
	}
}

enum { FLIP = 32 };
template <typename T> __device__ inline void flip(const gpu_flip &p)
{
	__shared__ T tile[FLIP][FLIP + 1];
	int64_t c0 = blockIdx.x * (int64_t)FLIP;
	int tx = threadIdx.x % FLIP, ty = threadIdx.x / FLIP;
	for (int64_t z = blockIdx.z; z < p.batch; z += gridDim.z)
		for (int64_t r0 = blockIdx.y * (int64_t)FLIP; r0 < p.rows; r0 += gridDim.y * (int64_t)FLIP) {
			const T *x = (const T *)p.x + z * p.rows * p.cols;
			T *y = (T *)p.y + z * p.rows * p.cols;
			for (int k = ty; k < FLIP; k += 8)
				if (r0 + k < p.rows && c0 + tx < p.cols)
					tile[k][tx] = x[(r0 + k) * p.cols + c0 + tx];
			__syncthreads();
			for (int k = ty; k < FLIP; k += 8)
				if (c0 + k < p.cols && r0 + tx < p.rows)
					y[(c0 + k) * p.rows + r0 + tx] = tile[tx][k];
			__syncthreads();
		}
}

// ---- depthwise

// Converts weights [channels][window] to f32 and transposes them to [window][channels].
template <typename T> __device__ inline void to_float(const gpu_flip &p)
{
	EACH(i, p.rows * p.cols)
	{
		int64_t c = i % p.rows, k = i / p.rows;
		((float *)p.y)[i] = up(((const T *)p.x)[c * p.cols + k]);
	}
}

template <typename T, int V>
__device__ inline void depthwise_end(const gpu_depthwise &p, int64_t at, float *a)
{
	Pack<T, V> o;
	if (p.r) {
		Pack<T, V> r = *(const Pack<T, V> *)((const T *)p.r + at);
#pragma unroll
		for (int j = 0; j < V; j++)
			a[j] += up(r.v[j]);
	}
	act_on<T, V>(p.act, p.alpha, p.beta, a);
#pragma unroll
	for (int j = 0; j < V; j++)
		o.v[j] = down<T>(a[j]);
	*(Pack<T, V> *)((T *)p.y + at) = o;
}

template <typename T, int V> __device__ inline void depthwise_start(const gpu_depthwise &p, int c, float *a)
{
#pragma unroll
	for (int j = 0; j < V; j++)
		a[j] = 0;
	if (p.b) {
		Pack<T, V> b = *(const Pack<T, V> *)((const T *)p.b + c);
#pragma unroll
		for (int j = 0; j < V; j++)
			a[j] = up(b.v[j]);
	}
}

// Computes windows of K x K with stride S. A thread computes four channels of W neighbouring outputs of a row. Weights
// are f32, so that they are converted once instead of for each output.
template <typename T, int K, int S, int W> __device__ inline void depthwise(const gpu_depthwise &p)
{
	start_early();
	enum { V = 4 };
	const int groups = p.channels / V, tiles = (p.win.out[1] + W - 1) / W;

	EACH(i, p.n)
	{
		uint32_t rest = (uint32_t)i;
		int c = (int)(rest % groups) * V;
		rest /= groups;
		int q0 = (int)(rest % tiles) * W;
		rest /= tiles;
		int o = (int)(rest % p.win.out[0]), n = (int)(rest / p.win.out[0]);
		float a[W][V];
#pragma unroll
		for (int k = 0; k < W; k++)
			depthwise_start<T, V>(p, c, a[k]);
		const int w0 = q0 * S - p.win.begin[1];
		const bool inside = w0 >= 0 && w0 + (W - 1) * S + K <= p.win.in[1];
		/* With one output for each thread there are few threads; all loads should then be in flight at once. */
		constexpr int together = W == 1 ? K : 1;
#pragma unroll together
		for (int r = 0; r < K; r++) {
			int h = o * S - p.win.begin[0] + r;
			if (h < 0 || h >= p.win.in[0])
				continue;
			float4 w[K];
#pragma unroll
			for (int s = 0; s < K; s++)
				w[s] = *(const float4 *)((const float *)p.w + (r * K + s) * p.channels + c);
			const T *row = (const T *)p.x + (((int64_t)n * p.win.in[0] + h) * p.win.in[1] + w0) * p.channels + c;
#pragma unroll
			for (int u = 0; u < (W - 1) * S + K; u++) {
				if (!inside && (w0 + u < 0 || w0 + u >= p.win.in[1]))
					continue;
				Pack<T, V> v = *(const Pack<T, V> *)(row + u * p.channels);
				float f[V];
#pragma unroll
				for (int j = 0; j < V; j++)
					f[j] = up(v.v[j]);
#pragma unroll
				for (int k = 0; k < W; k++) {
					const int s = u - k * S;
					if (s >= 0 && s < K) {
						a[k][0] += f[0] * w[s].x;
						a[k][1] += f[1] * w[s].y;
						a[k][2] += f[2] * w[s].z;
						a[k][3] += f[3] * w[s].w;
					}
				}
			}
		}
#pragma unroll
		for (int k = 0; k < W; k++)
			if (q0 + k < p.win.out[1])
				depthwise_end<T, V>(p, (((int64_t)n * p.win.out[0] + o) * p.win.out[1] + q0 + k) * p.channels + c, a[k]);
	}
}

// As depthwise(), but each of K warps sums one row of the windows, and the block adds up the K sums. A thread then waits for one
// row instead of K, which makes up for the barrier if there are too few outputs to keep the processors busy.
template <typename T, int K, int S, int W> __device__ inline void depthwise_rows(const gpu_depthwise &p)
{
	enum { V = 4 };
	__shared__ float4 part[K][W][32];
	const int groups = p.channels / V, tiles = (p.win.out[1] + W - 1) / W, r = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int64_t i = blockIdx.x * (int64_t)32 + lane;
	uint32_t rest = (uint32_t)i;
	const int c = (int)(rest % groups) * V;
	rest /= groups;
	const int q0 = (int)(rest % tiles) * W;
	rest /= tiles;
	const int o = (int)(rest % p.win.out[0]), n = (int)(rest / p.win.out[0]);
	const int w0 = q0 * S - p.win.begin[1], h = o * S - p.win.begin[0] + r;
	float a[W][V] = {}, start[V] = {};
	start_early();
	depthwise_start<T, V>(p, i < p.n ? c : 0, start);
	if (i < p.n && h >= 0 && h < p.win.in[0]) {
		float4 w[K];
#pragma unroll
		for (int s = 0; s < K; s++)
			w[s] = *(const float4 *)((const float *)p.w + (r * K + s) * p.channels + c);
		const T *row = (const T *)p.x + (((int64_t)n * p.win.in[0] + h) * p.win.in[1] + w0) * p.channels + c;
		Pack<T, V> v[(W - 1) * S + K];
#pragma unroll
		for (int u = 0; u < (W - 1) * S + K; u++) {
#pragma unroll
			for (int j = 0; j < V; j++)
				v[u].v[j] = T(0);
			if (w0 + u >= 0 && w0 + u < p.win.in[1])
				v[u] = *(const Pack<T, V> *)(row + u * p.channels);
		}
#pragma unroll
		for (int u = 0; u < (W - 1) * S + K; u++) {
			if (w0 + u < 0 || w0 + u >= p.win.in[1])
				continue; // an infinite weight must not meet a zero that is not there
#pragma unroll
			for (int k = 0; k < W; k++) {
				const int s = u - k * S;
				if (s >= 0 && s < K) {
					a[k][0] += up(v[u].v[0]) * w[s].x;
					a[k][1] += up(v[u].v[1]) * w[s].y;
					a[k][2] += up(v[u].v[2]) * w[s].z;
					a[k][3] += up(v[u].v[3]) * w[s].w;
				}
			}
		}
	}
#pragma unroll
	for (int k = 0; k < W; k++)
		part[r][k][lane] = make_float4(a[k][0], a[k][1], a[k][2], a[k][3]);
	__syncthreads();
	for (int k = r; k < W; k += K) {
		if (i >= p.n || q0 + k >= p.win.out[1])
			continue;
		float sum[V] = {start[0], start[1], start[2], start[3]};
#pragma unroll
		for (int row = 0; row < K; row++) {
			const float4 f = part[row][k][lane];
			sum[0] += f.x, sum[1] += f.y, sum[2] += f.z, sum[3] += f.w;
		}
		depthwise_end<T, V>(p, (((int64_t)n * p.win.out[0] + o) * p.win.out[1] + q0 + k) * p.channels + c, sum);
	}
}

// Computes windows of any shape. A thread computes V channels of one output.
template <typename T, int V> __device__ inline void depthwise_any(const gpu_depthwise &p)
{
	start_early();
	const int groups = p.channels / V;

	EACH(i, p.n)
	{
		int c = (int)(i % groups) * V;
		int64_t rest = i / groups;
		int q = (int)(rest % p.win.out[1]);
		rest /= p.win.out[1];
		int o = (int)(rest % p.win.out[0]);
		int64_t n = rest / p.win.out[0];
		float a[V];
		depthwise_start<T, V>(p, c, a);
		for (int r = 0; r < p.win.kernel[0]; r++) {
			int h = o * p.win.stride[0] - p.win.begin[0] + r * p.win.dilation[0];
			if (h < 0 || h >= p.win.in[0])
				continue;
			for (int s = 0; s < p.win.kernel[1]; s++) {
				int x = q * p.win.stride[1] - p.win.begin[1] + s * p.win.dilation[1];
				if (x < 0 || x >= p.win.in[1])
					continue;
				Pack<T, V> v = *(const Pack<T, V> *)((const T *)p.x + ((n * p.win.in[0] + h) * p.win.in[1] + x) * p.channels + c);
				const float *w = (const float *)p.w + (int64_t)(r * p.win.kernel[1] + s) * p.channels + c;
#pragma unroll
				for (int j = 0; j < V; j++)
					a[j] += up(v.v[j]) * w[j];
			}
		}
		depthwise_end<T, V>(p, ((n * p.win.out[0] + o) * p.win.out[1] + q) * p.channels + c, a);
	}
}

// ---- single pixels: a warp computes one output of up to G images, for which it reads the weights once

// Adds to sum[g] the product of w and image g, for `images` images that lie n elements apart. ready() waits for the kernels before this one,
// behind the weights' reads if those are `early`.
template <typename T, int V, int G, typename READY>
__device__ inline void dot(const T *x, int images, const T *w, int n, int lane, bool early, const READY &ready, float *sum)
{
	enum { HELD = 5, STEP = 32 * V }; // weights of a thread that are read before x
	Pack<T, V> b[HELD];
	if (!early)
		ready();
#pragma unroll
	for (int i = 0; i < HELD; i++)
		if (i * STEP + lane * V < n)
			b[i] = *(const Pack<T, V> *)(w + i * STEP + lane * V);
	if (early)
		ready();
	const auto add = [&](int c, const Pack<T, V> &by) {
		Pack<T, V> a[G];
#pragma unroll
		for (int g = 0; g < G; g++)
			if (g < images)
				a[g] = *(const Pack<T, V> *)(x + (int64_t)g * n + c);
#pragma unroll
		for (int g = 0; g < G; g++)
#pragma unroll
			for (int j = 0; j < V && g < images; j++)
				sum[g] += up(a[g].v[j]) * up(by.v[j]);
	};
#pragma unroll
	for (int i = 0; i < HELD; i++)
		if (i * STEP + lane * V < n)
			add(i * STEP + lane * V, b[i]);
	for (int c = HELD * STEP + lane * V; c < n; c += STEP)
		add(c, *(const Pack<T, V> *)(w + c));
}

template <typename T, int G> __device__ inline void point(const gpu_point &p)
{
	let_next_begin();
	const int lane = threadIdx.x % 32, k = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
	if (k >= p.cout)
		return;
	const int64_t image = (int64_t)blockIdx.y * G, at = (image + lane) * p.cout + k;
	const int images = p.batch - image < G ? (int)(p.batch - image) : G;
	const T *x = (const T *)p.x + image * p.cin, *w = (const T *)p.w + (int64_t)k * p.cin;
	float more = 0, sum[G] = {}, v = 0;
	const auto ready = [&] {
		wait_for_previous();
		if (p.b)
			more = up(((const T *)p.b)[k]);
		if (p.r && lane < images)
			more += up(((const T *)p.r)[at]);
	};
	if (p.cin % Most<T>::V)
		dot<T, 1, G>(x, images, w, p.cin, lane, p.w_is_weight, ready, sum);
	else
		dot<T, Most<T>::V, G>(x, images, w, p.cin, lane, p.w_is_weight, ready, sum);
#pragma unroll
	for (int g = 0; g < G; g++) {
		for (int o = 16; o; o >>= 1)
			sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], o);
		v = lane == g ? sum[g] : v; // each lane finishes an image
	}
	if (lane >= images)
		return;
	v += more;
	act_on<T, 1>(p.act, p.alpha, p.beta, &v);
	((T *)p.y)[at] = down<T>(v);
}

// ---- bias, residual and activation behind a library's convolution

template <typename T, int V> __device__ inline void tail(const gpu_tail &p)
{
	start_early();
	EACH(i, p.n / V)
	{
		Pack<T, V> *at = (Pack<T, V> *)p.y + i, v = *at, b, r;
		int c = (int)(i * V % p.channels);
		if (p.b)
			b = *(const Pack<T, V> *)((const T *)p.b + c);
		if (p.r)
			r = ((const Pack<T, V> *)p.r)[i];
		float f[V];
#pragma unroll
		for (int j = 0; j < V; j++) {
			f[j] = up(v.v[j]);
			if (p.b)
				f[j] += up(b.v[j]);
			if (p.r)
				f[j] += up(r.v[j]);
		}
		act_on<T, V>(p.act, p.alpha, p.beta, f);
#pragma unroll
		for (int j = 0; j < V; j++)
			v.v[j] = down<T>(f[j]);
		*at = v;
	}
}

// An image lies in row blockIdx.y of the grid, so that a thread divides no number of 64 bits.
template <typename T, int V> __device__ inline void scale(const gpu_scale &p)
{
	start_early();
	const uint32_t vectors = (uint32_t)(p.image / V), groups = (uint32_t)p.channels / V;
	for (int64_t n = blockIdx.y; n < p.batch; n += gridDim.y) {
		const Pack<T, V> *x = (const Pack<T, V> *)((const T *)p.x + n * p.image);
		const Pack<T, V> *by = (const Pack<T, V> *)((const T *)p.s + n * p.channels);
		Pack<T, V> *y = (Pack<T, V> *)((T *)p.y + n * p.image);
		for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += gridDim.x * blockDim.x) {
			Pack<T, V> v = x[i], s = by[i % groups];
#pragma unroll
			for (int j = 0; j < V; j++)
				v.v[j] = down<T>(up(v.v[j]) * up(s.v[j]));
			y[i] = v;
		}
	}
}

// ---- pooling

template <typename T, int V> __device__ inline void window_pool(const gpu_window_pool &p)
{
	start_early();
	const uint32_t groups = (uint32_t)(p.channels / V);

	EACH(i, p.n)
	{
		uint32_t rest = (uint32_t)i;
		const int c = (int)(rest % groups) * V;
		rest /= groups;
		const int q = (int)(rest % (uint32_t)p.win.out[1]);
		rest /= (uint32_t)p.win.out[1];
		const int o = (int)(rest % (uint32_t)p.win.out[0]);
		const int64_t n = rest / (uint32_t)p.win.out[0];
		float a[V];
		int count = 0;
#pragma unroll
		for (int j = 0; j < V; j++)
			a[j] = p.average ? 0.f : -INFINITY;
		for (int r = 0; r < p.win.kernel[0]; r++) {
			int h = o * p.win.stride[0] - p.win.begin[0] + r * p.win.dilation[0];
			for (int s = 0; s < p.win.kernel[1]; s++) {
				int x = q * p.win.stride[1] - p.win.begin[1] + s * p.win.dilation[1];
				bool inside = h >= 0 && h < p.win.in[0] && x >= 0 && x < p.win.in[1];
				count += inside || (p.count_pad && h < p.win.in[0] + p.end[0] && x < p.win.in[1] + p.end[1]);
				if (!inside)
					continue;
				Pack<T, V> v = *(const Pack<T, V> *)((const T *)p.x + ((n * p.win.in[0] + h) * p.win.in[1] + x) * p.channels + c);
#pragma unroll
				for (int j = 0; j < V; j++) {
					float f = up(v.v[j]);
					if (p.average)
						a[j] += f;
					else
						a[j] = f > a[j] || f != f ? f : a[j];
				}
			}
		}
		Pack<T, V> y;
#pragma unroll
		for (int j = 0; j < V; j++)
			y.v[j] = down<T>(p.average ? a[j] / (float)count : a[j]);
		((Pack<T, V> *)p.y)[i] = y;
	}
}

// The largest of four codes each, two at a time: words of 16 bits compare by their upper bytes. `odd` has the largest of the second and
// the fourth codes in its upper bytes, `even` those of the other two.
struct LargestCodes {
	u32 odd, even;
	__device__ void operator()(u32 codes)
	{
		odd = __vmaxu2(odd, codes);
		even = __vmaxu2(even, codes << 8);
	}
	__device__ u32 all() const
	{
		return __byte_perm(even, odd, 0x7351);
	}
};

// The maxima of windows of codes, sixteen channels a thread, of which several pixels are read at a time. flip: makes numbers with a
// sign numbers from 0 to 255.
template <u32 flip> __device__ inline void window_codes(const gpu_window_pool &p)
{
	enum { TOGETHER = 3 };
	start_early();
	const uint32_t groups = (uint32_t)p.channels / 16;
	const uint4 none = {flip, flip, flip, flip};

	EACH(i, p.n)
	{
		uint32_t rest = (uint32_t)i;
		const int c = (int)(rest % groups);
		rest /= groups;
		const int w0 = (int)(rest % (uint32_t)p.win.out[1]) * p.win.stride[1] - p.win.begin[1];
		rest /= (uint32_t)p.win.out[1];
		const int h0 = (int)(rest % (uint32_t)p.win.out[0]) * p.win.stride[0] - p.win.begin[0];
		const uint4 *x = (const uint4 *)p.x + (int64_t)(rest / (uint32_t)p.win.out[0]) * p.win.in[0] * p.win.in[1] * groups + c;
		LargestCodes most[4] = {};
		for (int r = 0; r < p.win.kernel[0]; r++) {
			const int h = h0 + r * p.win.dilation[0];
			if ((unsigned)h >= (unsigned)p.win.in[0])
				continue;
			for (int s = 0; s < p.win.kernel[1]; s += TOGETHER) {
				uint4 v[TOGETHER];
#pragma unroll
				for (int e = 0; e < TOGETHER; e++) {
					const int w = w0 + (s + e) * p.win.dilation[1];
					v[e] = s + e < p.win.kernel[1] && (unsigned)w < (unsigned)p.win.in[1] ? x[(h * p.win.in[1] + w) * groups] : none;
				}
#pragma unroll
				for (int e = 0; e < TOGETHER; e++) {
					most[0](v[e].x ^ flip);
					most[1](v[e].y ^ flip);
					most[2](v[e].z ^ flip);
					most[3](v[e].w ^ flip);
				}
			}
		}
		((uint4 *)p.y)[i] = make_uint4(most[0].all() ^ flip, most[1].all() ^ flip, most[2].all() ^ flip, most[3].all() ^ flip);
	}
}

template <bool AVERAGE> __device__ inline float pooled(float a, float f)
{
	return AVERAGE ? a + f : f > a || f != f ? f : a;
}

// Pools the pixels `first`, `first + step` and so on below `end` into a. Some loads are always under way, because there are few threads.
template <typename T, int V, bool AVERAGE>
__device__ inline void pool_pixels(const T *x, int first, int end, int step, int channels, float *a)
{
	enum { AHEAD = V == 1 ? 8 : 6 };
	for (int k = first; k < end; k += AHEAD * step) {
		Pack<T, V> v[AHEAD];
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k + u * step < end)
				v[u] = *(const Pack<T, V> *)(x + (int64_t)(k + u * step) * channels);
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (k + u * step < end)
#pragma unroll
				for (int j = 0; j < V; j++)
					a[j] = pooled<AVERAGE>(a[j], up(v[u].v[j]));
	}
}

template <bool AVERAGE> __device__ inline float pool_end(const gpu_whole_pool &p, float f)
{
	return AVERAGE ? f / (float)p.pixels : f;
}

// A block's part: of the channels of block `across`, the pixels of split number `split`, each row of threads taking every p.splits-th row's worth
// of them. Thread i returns the result of channel i of the block, other threads return 0.
template <typename T, int V, bool AVERAGE> __device__ inline float pool_part(const gpu_whole_pool &p, int across, int split)
{
	__shared__ float part[POOL_THREADS / 32][POOL_LANES][V];
	const int lane = threadIdx.x % p.lanes, rows = POOL_THREADS / p.lanes;
	const int c = (across * p.lanes + lane) * V;
	float a[V];
#pragma unroll
	for (int j = 0; j < V; j++)
		a[j] = AVERAGE ? 0.f : -INFINITY;
	if (c < p.channels)
		pool_pixels<T, V, AVERAGE>((const T *)p.x + (int64_t)blockIdx.y * p.pixels * p.channels + c,
					   split * rows + threadIdx.x / p.lanes, p.pixels, p.splits * rows, p.channels, a);
	for (int o = 16; o >= p.lanes; o >>= 1)
#pragma unroll
		for (int j = 0; j < V; j++)
			a[j] = pooled<AVERAGE>(a[j], __shfl_xor_sync(0xffffffffu, a[j], o));
	if (threadIdx.x % 32 < p.lanes)
#pragma unroll
		for (int j = 0; j < V; j++)
			part[threadIdx.x / 32][lane][j] = a[j];
	__syncthreads();
	const int own = threadIdx.x / V, e = threadIdx.x % V;
	if (own >= p.lanes)
		return 0;
	float f = part[0][own][e];
#pragma unroll 8
	for (int k = 1; k < POOL_THREADS / 32; k++)
		f = pooled<AVERAGE>(f, part[k][own][e]);
	return f;
}

template <typename T, int V, bool AVERAGE> __device__ inline void whole_pool_of(const gpu_whole_pool &p)
{
	const float f = pool_part<T, V, AVERAGE>(p, blockIdx.x, blockIdx.z);
	const int at = blockIdx.x * p.lanes * V + threadIdx.x;
	if (threadIdx.x >= p.lanes * V || at >= p.channels)
		return;
	if (p.splits > 1)
		p.part[((int64_t)blockIdx.y * p.splits + blockIdx.z) * p.channels + at] = f;
	else
		((T *)p.y)[(int64_t)blockIdx.y * p.channels + at] = down<T>(pool_end<AVERAGE>(p, f));
}

template <typename T, int V> __device__ inline void whole_pool(const gpu_whole_pool &p)
{
	start_early();
	if (p.average)
		whole_pool_of<T, V, true>(p);
	else
		whole_pool_of<T, V, false>(p);
}

#ifdef CLUSTERS
// The splits are blocks of a cluster, whose first joins what they have pooled.
template <typename T, int V, bool AVERAGE> __device__ inline void joined_pool_of(const gpu_whole_pool &p)
{
	__shared__ float all[POOL_JOINED][POOL_LANES * V];
	const int across = blockIdx.x / POOL_JOINED, split = blockIdx.x % POOL_JOINED, at = across * p.lanes * V + threadIdx.x;
	const bool mine = threadIdx.x < p.lanes * V && at < p.channels;
	cluster_arrive();
	start_early();
	const float f = pool_part<T, V, AVERAGE>(p, across, split);
	cluster_wait(); // the others have begun, so that their shared memory is there
	if (mine)
		cluster_put(&all[0][0], split * POOL_LANES * V + threadIdx.x, 0, f);
	cluster_arrive();
	cluster_wait();
	for (int block = cluster_first<POOL_JOINED>(); block < cluster_end<POOL_JOINED>(); block++) {
		if (block || !mine)
			continue;
		float sum = cluster_get(&all[0][0], threadIdx.x, 0);
#pragma unroll
		for (int k = 1; k < POOL_JOINED; k++)
			sum = pooled<AVERAGE>(sum, cluster_get(&all[0][0], k * POOL_LANES * V + threadIdx.x, 0));
		((T *)p.y)[(int64_t)blockIdx.y * p.channels + at] = down<T>(pool_end<AVERAGE>(p, sum));
	}
}
#endif

template <typename T> __device__ inline void whole_pool_end(const gpu_whole_pool &p)
{
	start_early();
	EACH(i, (int64_t)p.batch * p.channels)
	{
		const float *part = p.part + i / p.channels * p.splits * p.channels + i % p.channels;
		float a = part[0];
		for (int k = 1; k < p.splits; k++) {
			float f = part[(int64_t)k * p.channels];
			a = p.average ? a + f : f > a || f != f ? f : a;
		}
		((T *)p.y)[i] = down<T>(p.average ? a / (float)p.pixels : a);
	}
}

// A block computes STEM_ROWS x STEM_COLS pixels. Each thread computes all channels of one pixel, STEM_N channels at a
// time.
enum { STEM_TAPS = STEM_IN * 9, STEM_N = 8 };
template <typename T> __device__ inline void stem(const gpu_stem &p)
{
	const int TALL = (STEM_ROWS - 1) * STEM_STEP + 3, BROAD = (STEM_COLS - 1) * STEM_STEP + 3;
	__shared__ float tile[STEM_IN][TALL][BROAD];
	__shared__ __align__(16) float w[STEM_TAPS * STEM_OUT];
	const int tall = (STEM_ROWS - 1) * p.stride[0] + 3, broad = (STEM_COLS - 1) * p.stride[1] + 3;
	const int y0 = blockIdx.y * STEM_ROWS * p.stride[0] - p.begin[0];
	const int x0 = blockIdx.x * STEM_COLS * p.stride[1] - p.begin[1];
	for (int i = threadIdx.x; i < p.cin * 9 * p.cout; i += blockDim.x)
		w[i] = ((const float *)p.w)[i];
	const T *x = (const T *)p.x + (int64_t)blockIdx.z * p.cin * p.in[0] * p.in[1];
	for (int row = threadIdx.x / 32; row < p.cin * tall; row += blockDim.x / 32) {
		int c = row / tall, r = row % tall, iy = y0 + r;
		for (int k = threadIdx.x % 32; k < broad; k += 32) {
			int ix = x0 + k;
			bool in = iy >= 0 && iy < p.in[0] && ix >= 0 && ix < p.in[1];
			tile[c][r][k] = in ? up(x[((int64_t)c * p.in[0] + iy) * p.in[1] + ix]) : 0.f;
		}
	}
	__syncthreads();
	const int lane = threadIdx.x % 32, oy = blockIdx.y * STEM_ROWS + threadIdx.x / 32;
	const int ox = blockIdx.x * STEM_COLS + lane;
	if (oy >= p.out[0] || ox >= p.out[1])
		return;
	T *y = (T *)p.y + (((int64_t)blockIdx.z * p.out[0] + oy) * p.out[1] + ox) * p.cout;
	for (int n = 0; n < p.cout; n += STEM_N) {
		float sum[STEM_N];
#pragma unroll
		for (int j = 0; j < STEM_N; j++)
			sum[j] = p.b ? up(((const T *)p.b)[n + j]) : 0.f;
		for (int c = 0; c < p.cin; c++)
#pragma unroll
			for (int t = 0; t < 9; t++) {
				float v = tile[c][threadIdx.x / 32 * p.stride[0] + t / 3][lane * p.stride[1] + t % 3];
				const float4 *by = (const float4 *)(w + (c * 9 + t) * p.cout + n);
#pragma unroll
				for (int j = 0; j < STEM_N / 4; j++) {
					float4 f = by[j];
					sum[4 * j] += v * f.x, sum[4 * j + 1] += v * f.y;
					sum[4 * j + 2] += v * f.z, sum[4 * j + 3] += v * f.w;
				}
			}
		act_on<T, STEM_N>(p.act, p.alpha, p.beta, sum);
		Pack<T, STEM_N> o;
#pragma unroll
		for (int j = 0; j < STEM_N; j++)
			o.v[j] = down<T>(sum[j]);
		*(Pack<T, STEM_N> *)(y + n) = o;
	}
}

#define DEPTHWISE(T, K, S, W)                                                                                          \
	extern "C" __global__ void __launch_bounds__(128) depthwise_##K##_##S##_##W##_##T(const gpu_depthwise p)       \
	{                                                                                                              \
		depthwise<T, K, S, W>(p);                                                                              \
	}
#define DEPTHWISE_ROWS(T, K, S, W)                                                                                     \
	extern "C" __global__ void __launch_bounds__(32 * K) depthwise_rows_##K##_##S##_##W##_##T(const gpu_depthwise p) \
	{                                                                                                              \
		depthwise_rows<T, K, S, W>(p);                                                                         \
	}
#define ROWS_OF(T, K, S) DEPTHWISE_ROWS(T, K, S, 1) DEPTHWISE_ROWS(T, K, S, 2) DEPTHWISE_ROWS(T, K, S, 4)
#define WIDTHS(T, K, S) DEPTHWISE(T, K, S, 1) DEPTHWISE(T, K, S, 2) DEPTHWISE(T, K, S, 4)
#define DEPTHWISES(T)                                                                                                  \
	WIDTHS(T, 3, 1) WIDTHS(T, 3, 2) WIDTHS(T, 5, 1) WIDTHS(T, 5, 2) WIDTHS(T, 7, 1) WIDTHS(T, 7, 2)                \
	ROWS_OF(T, 5, 1) ROWS_OF(T, 7, 1)                                                                              \
	DEPTHWISE(T, 5, 1, 8) DEPTHWISE(T, 7, 1, 8)                                                                    \
	extern "C" __global__ void __launch_bounds__(256) depthwise_weights_##T(const gpu_flip p) { to_float<T>(p); }
#define POOLS(T)                                                                                                       \
	extern "C" __global__ void __launch_bounds__(POOL_THREADS) whole_pool_1_##T(const gpu_whole_pool p)            \
	{                                                                                                              \
		whole_pool<T, 1>(p);                                                                                   \
	}                                                                                                              \
	extern "C" __global__ void __launch_bounds__(POOL_THREADS) whole_pool_v_##T(const gpu_whole_pool p)            \
	{                                                                                                              \
		whole_pool<T, Most<T>::V>(p);                                                                          \
	}
#ifdef CLUSTERS
#define JOINED_POOL(T)                                                                                                 \
	extern "C" __global__ void CLUSTER(POOL_JOINED) __launch_bounds__(POOL_THREADS) whole_pool_joined_##T(const gpu_whole_pool p) \
	{                                                                                                              \
		if (p.average)                                                                                         \
			joined_pool_of<T, Most<T>::V, true>(p);                                                        \
		else                                                                                                   \
			joined_pool_of<T, Most<T>::V, false>(p);                                                       \
	}
#else
#define JOINED_POOL(T)
#endif
#define BOTH(name, job, T)                                                                                             \
	extern "C" __global__ void name##_1_##T(const job p) { name<T, 1>(p); }                                        \
	extern "C" __global__ void name##_v_##T(const job p) { name<T, Most<T>::V>(p); }
#define KERNELS(T)                                                                                                     \
	DEPTHWISES(T)                                                                                                  \
	BOTH(depthwise_any, gpu_depthwise, T)                                                                          \
	BOTH(tail, gpu_tail, T)                                                                                        \
	BOTH(scale, gpu_scale, T)                                                                                      \
	BOTH(window_pool, gpu_window_pool, T)                                                                          \
	POOLS(T)                                                                                                       \
	JOINED_POOL(T)                                                                                                 \
	extern "C" __global__ void whole_pool_end_##T(const gpu_whole_pool p) { whole_pool_end<T>(p); }                \
	extern "C" __global__ void point_1_##T(const gpu_point p) { point<T, 1>(p); }                                  \
	extern "C" __global__ void point_2_##T(const gpu_point p) { point<T, 2>(p); }                                  \
	extern "C" __global__ void point_8_##T(const gpu_point p) { point<T, 8>(p); }
KERNELS(f32) KERNELS(f16) KERNELS(bf16)
extern "C" __global__ void window_pool_v_u8(const gpu_window_pool p) { window_codes<0>(p); }
extern "C" __global__ void window_pool_v_i8(const gpu_window_pool p) { window_codes<0x80808080>(p); }
extern "C" __global__ void __launch_bounds__(128) stem_f32(const gpu_stem p) { stem<f32>(p); }
#define PACKS(T, size)                                                                                                 \
	extern "C" __global__ void pack_##size(const gpu_pack p) { pack<T>(p); }                                       \
	extern "C" __global__ void pack4_##size(const gpu_pack p) { pack4<T, 1>(p); }                                  \
	extern "C" __global__ void pack4_row_##size(const gpu_pack p) { pack4<T, 4>(p); }
#define FLIP(T, size)                                                                                                  \
	extern "C" __global__ void __launch_bounds__(256) flip_##size(const gpu_flip p) { flip<T>(p); }
extern "C" __global__ void pack_runs_16(const gpu_pack p) { pack_runs(p); }
extern "C" __global__ void pack_planes_4(const gpu_pack p) { pack_planes<u32>(p); }
extern "C" __global__ void pack_planes_8(const gpu_pack p) { pack_planes<u64>(p); }
extern "C" __global__ void pack_planes_16(const gpu_pack p) { pack_planes<uint4>(p); }
PACKS(u16, 2) PACKS(u32, 4)
FLIP(u8, 1) FLIP(u16, 2) FLIP(u32, 4) FLIP(u64, 8)
