// SPDX-License-Identifier: Apache-2.0
// Transposed, deformable and causal convolutions. A thread computes one output.
#include "common.cuh"
#include "deconv.h"

// Returns the input element that contributes to output o through window element k, or -1 if there is none.
__device__ inline int64_t input_reaching(const gpu_deconv &p, int64_t o, int64_t k)
{
	int64_t at = 0, step = 1;
	for (int s = GPU_SPACE - 1; s >= 0; s--) {
		int64_t c = o % p.win.out[s] + p.win.begin[s] - k % p.win.kernel[s] * p.win.dilation[s];
		if (c < 0 || c % p.win.stride[s] || c / p.win.stride[s] >= p.win.in[s])
			return -1;
		at += c / p.win.stride[s] * step;
		step *= p.win.in[s];
		o /= p.win.out[s];
		k /= p.win.kernel[s];
	}
	return at;
}

template <typename T> __device__ inline void deconv(const gpu_deconv &p)
{
	typedef typename Wide<T>::type C;
	EACH(i, p.n)
	{
		int64_t o = i % p.pixels, m = i / p.pixels % (p.group * p.cout), n = i / p.pixels / (p.group * p.cout);
		int64_t g = m / p.cout;
		const T *x = (const T *)p.x + (n * p.group + g) * p.cin * p.image;
		const T *w = (const T *)p.w + (g * p.cin * p.cout + m % p.cout) * p.window;
		C sum = 0;
		for (int64_t k = 0; k < p.window; k++) {
			int64_t at = input_reaching(p, o, k);
			for (int64_t c = 0; c < p.cin && at >= 0; c++)
				sum += (C)up(x[c * p.image + at]) * (C)up(w[c * p.cout * p.window + k]);
		}
		if (p.b)
			sum += up(((const T *)p.b)[m]);
		((T *)p.y)[i] = down<T>(sum);
	}
}

// For one output position along one axis: the first element k of the window through which an input reaches the output,
// and that input's position `at`. k is not below the kernel size if no input reaches the output.
struct Tap {
	int k, at;
};
__device__ inline Tap first_tap(const gpu_gather_taps &p, int s, int o)
{
	const int c = o + p.begin[s], dilation = p.dilation[s];
	if (c < 0)
		return {p.kernel[s], 0};
	if (dilation == 1) {
		int at = gpu_over(c, p.stride[s]);
		return {c - at * (int)p.stride[s].by, at};
	}
	for (int k = 0; k < p.every[s] && k < p.kernel[s]; k++) {
		int from = c - k * dilation, at = from < 0 ? 0 : gpu_over(from, p.stride[s]);
		if (at * (int)p.stride[s].by == from)
			return {k, at};
	}
	return {p.kernel[s], 0};
}

template <typename T> __device__ inline void gather_taps(const gpu_gather_taps &p)
{
	EACH(i64, p.n)
	{
		const int i = (int)i64, row = gpu_over(i, p.pixels), o = i - row * (int)p.pixels.by;
		const int line = gpu_over(o, p.out[2]), plane = gpu_over(line, p.out[1]);
		const T *from = (const T *)p.columns + row * (p.window * p.image);
		const Tap z = first_tap(p, 0, plane), y = first_tap(p, 1, line - plane * (int)p.out[1].by),
			  x = first_tap(p, 2, o - line * (int)p.out[2].by);
		T sum = p.b ? ((const T *)p.b)[gpu_rest(p.map + row, p.maps)] : (T)0;
		for (int kz = z.k, az = z.at; kz < p.kernel[0]; kz += p.every[0], az -= p.back[0]) {
			for (int ky = y.k, ay = y.at; ky < p.kernel[1] && (unsigned)az < p.in[0]; ky += p.every[1], ay -= p.back[1]) {
				if ((unsigned)ay >= p.in[1])
					continue;
				const T *at = from + (kz * p.kernel[1] + ky) * p.kernel[2] * p.image +
					      (az * p.in[1] + ay) * p.in[2];
				for (int kx = x.k, ax = x.at; kx < p.kernel[2]; kx += p.every[2], ax -= p.back[2])
					if ((unsigned)ax < p.in[2])
						sum += at[kx * p.image + ax];
			}
		}
		((T *)p.y)[p.first * p.pixels.by + i] = sum;
	}
}

template <typename T, typename C> __device__ inline C between(const T *x, int64_t height, int64_t width, C v, C u)
{
	if (!(v > -1 && u > -1 && v < (C)height && u < (C)width))
		return 0;
	int64_t y0 = (int64_t)floor(v), x0 = (int64_t)floor(u);
	C dy = v - (C)y0, dx = u - (C)x0, sum = 0;
	for (int i = 0; i < 4; i++) {
		int64_t yy = y0 + i / 2, xx = x0 + i % 2;
		if (yy >= 0 && yy < height && xx >= 0 && xx < width)
			sum += (i / 2 ? dy : 1 - dy) * (i % 2 ? dx : 1 - dx) * (C)up(x[yy * width + xx]);
	}
	return sum;
}

template <typename T> __device__ inline void deform(const gpu_deform &p)
{
	typedef typename Wide<T>::type C;
	int64_t pixels = p.out[0] * p.out[1], window = p.kernel[0] * p.kernel[1], image = p.in[0] * p.in[1];
	int64_t maps = p.group * p.cout, channels = p.group * p.cin, share = channels / p.offsets;
	EACH(i, p.n)
	{
		int64_t o = i % pixels, m = i / pixels % maps, n = i / pixels / maps, g = m / p.cout;
		int64_t oy = o / p.out[1], ox = o % p.out[1];
		C sum = 0;
		for (int64_t k = 0; k < window; k++) {
			C v0 = (C)(oy * p.stride[0] - p.begin[0] + k / p.kernel[1] * p.dilation[0]);
			C u0 = (C)(ox * p.stride[1] - p.begin[1] + k % p.kernel[1] * p.dilation[1]);
			int64_t known = -1;
			C v = 0, u = 0, scale = 1;
			for (int64_t c = 0; c < p.cin; c++) {
				int64_t ch = g * p.cin + c, og = ch / share;
				if (og != known) {
					int64_t t = (n * p.offsets + og) * window + k;
					v = v0 + (C)up(((const T *)p.offset)[2 * t * pixels + o]);
					u = u0 + (C)up(((const T *)p.offset)[(2 * t + 1) * pixels + o]);
					scale = p.mask ? (C)up(((const T *)p.mask)[t * pixels + o]) : C(1);
					known = og;
				}
				C e = scale * between<T, C>((const T *)p.x + (n * channels + ch) * image, p.in[0], p.in[1], v, u);
				sum += e * (C)up(((const T *)p.w)[(m * p.cin + c) * window + k]);
			}
		}
		if (p.b)
			sum += up(((const T *)p.b)[m]);
		((T *)p.y)[i] = down<T>(sum);
	}
}

// A channel of a batch (row) and a position: element i of a tensor with `count` positions.
struct Position {
	int64_t row, at;
};
__device__ inline Position position_of(const gpu_causal &p, int64_t i, int64_t count)
{
	if (!p.last)
		return {i / count, i % count};
	return {i / p.channels / count * p.channels + i % p.channels, i / p.channels % count};
}
__device__ inline int64_t index_of(const gpu_causal &p, Position x, int64_t count)
{
	return p.last ? (x.row / p.channels * count + x.at) * p.channels + x.row % p.channels : x.row * count + x.at;
}

// Element i of a row: the past state, or 0 without one, then the input.
template <typename T> __device__ inline float causal_at(const gpu_causal &p, int64_t row, int64_t i)
{
	if (i >= p.state)
		return up(((const T *)p.x)[index_of(p, {row, i - p.state}, p.length)]);
	return p.past ? up(((const T *)p.past)[index_of(p, {row, i}, p.state)]) : 0.f;
}

// Element i of present: the state after one of the last positions, or 0 if there was no such position in this call.
template <typename T> __device__ inline void causal_state(const gpu_causal &p, int64_t i)
{
	const int64_t slot = i / (p.rows * p.state), seen = p.length - p.window + slot + 1;
	const Position to = position_of(p, i % (p.rows * p.state), p.state);
	const bool there = seen > 0 || slot == p.window - 1;
	((T *)p.present)[i] = down<T>(there ? causal_at<T>(p, to.row, seen + to.at) : 0.f);
}

template <typename T> __device__ inline void causal(const gpu_causal &p)
{
	const int64_t outputs = p.rows * p.length;
	EACH(i, outputs + (p.present ? p.window * p.rows * p.state : 0))
	{
		if (i >= outputs) {
			causal_state<T>(p, i - outputs);
			continue;
		}
		const Position to = position_of(p, i, p.length);
		const int64_t c = to.row % p.channels;
		float sum = 0;
		for (int64_t k = 0; k < p.kernel; k++)
			sum += up(((const T *)p.w)[c * p.kernel + k]) * causal_at<T>(p, to.row, to.at + k * p.dilation);
		if (p.b)
			sum += up(((const T *)p.b)[c]);
		((T *)p.y)[i] = down<T>(p.silu ? sum / (1.f + expf(-sum)) : sum);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void deconv_##T(const gpu_deconv p) { deconv<T>(p); }                                    \
	extern "C" __global__ void deform_##T(const gpu_deform p) { deform<T>(p); }
extern "C" __global__ void gather_taps_f32(const gpu_gather_taps p) { gather_taps<f32>(p); }
extern "C" __global__ void gather_taps_f64(const gpu_gather_taps p) { gather_taps<f64>(p); }
KERNELS(f32) KERNELS(f16) KERNELS(bf16) KERNELS(f64)
#define CAUSAL(T) extern "C" __global__ void causal_##T(const gpu_causal p) { causal<T>(p); }
CAUSAL(f32) CAUSAL(f16) CAUSAL(bf16)
