// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, summed term by term in double precision; window functions; mel weights.
#include "any.cuh"

// Returns element k of the line to be transformed. If p.mirror is set, the second half of the line is the conjugate of
// the first.
__device__ inline void sample(const gpu_signal &p, int64_t line, int64_t k, double *re, double *im)
{
	bool flip = p.mirror && k > p.length / 2;
	int64_t from = flip ? p.length - k : k;
	*re = *im = 0;
	if (from >= p.taken)
		return;
	int64_t at = ((line / p.inner * p.taken + from) * p.inner + line % p.inner) * p.parts;
	*re = in_real(p.io, 0, at);
	*im = p.parts == 2 ? in_real(p.io, 0, at + 1) : 0;
	if (flip)
		*im = -*im;
	if (p.mirror && (k == 0 || 2 * k == p.length))
		*im = 0;
}

// A warp computes one output.
extern "C" __global__ void dft(const gpu_signal p)
{
	const int lane = threadIdx.x % 32;
	for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < p.n;
	     i += gridDim.x * (int64_t)(blockDim.x / 32)) {
		int64_t r = i % p.inner, f = i / p.inner % p.made, o = i / p.inner / p.made;
		double re = 0, im = 0;
		for (int64_t k = lane; k < p.length; k += 32) {
			double a, b, s, c;
			sample(p, o * p.inner + r, k, &a, &b);
			sincospi(2.0 * (double)(f * k % p.length) / (double)p.length, &s, &c);
			s = p.inverse ? s : -s;
			re += a * c - b * s;
			im += a * s + b * c;
		}
		for (int d = 16; d; d >>= 1) {
			re += __shfl_xor_sync(0xffffffffu, re, d);
			im += __shfl_xor_sync(0xffffffffu, im, d);
		}
		if (lane)
			continue;
		double scale = p.inverse ? 1 / (double)p.length : 1;
		out_put(p.io, 0, i * p.gives, re * scale);
		if (p.gives == 2)
			out_put(p.io, 0, i * 2 + 1, im * scale);
	}
}

// Transforms each frame of `length` samples into `made` frequencies. Each batch has `frames` frames. The window may be
// shorter than a frame.
extern "C" __global__ void stft(const gpu_signal p)
{
	const int lane = threadIdx.x % 32;
	const int64_t hop = in_int(p.io, 1, 0);
	for (int64_t i = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32; i < p.n;
	     i += gridDim.x * (int64_t)(blockDim.x / 32)) {
		int64_t f = i % p.made, frame = i / p.made % p.frames, b = i / p.made / p.frames;
		double re = 0, im = 0;
		for (int64_t k = lane; k < p.taken && k < p.length; k += 32) {
			int64_t at = frame * hop + k;
			if (at >= p.samples)
				continue;
			double w = p.io.in[2] ? in_real(p.io, 2, k) : 1, s, c;
			at = (b * p.samples + at) * p.parts;
			double x = in_real(p.io, 0, at) * w, y = p.parts == 2 ? in_real(p.io, 0, at + 1) * w : 0;
			sincospi(2.0 * (double)(f * k % p.length) / (double)p.length, &s, &c);
			re += x * c + y * s;
			im += y * c - x * s;
		}
		for (int d = 16; d; d >>= 1) {
			re += __shfl_xor_sync(0xffffffffu, re, d);
			im += __shfl_xor_sync(0xffffffffu, im, d);
		}
		if (lane == 0) {
			out_put(p.io, 0, i * 2, re);
			out_put(p.io, 0, i * 2 + 1, im);
		}
	}
}

// Computes element k of the window: p.p[0] - p.p[1] cos(2 pi k / n) + p.p[2] cos(4 pi k / n).
extern "C" __global__ void signal_window(const gpu_signal p)
{
	const double n = (double)(p.periodic ? p.n : p.n - 1);
	EACH(k, p.n)
	{
		double angle = 2 * 3.14159265358979323846 * (double)k / n;
		double v = p.p[0] - p.p[1] * cos(angle) + p.p[2] * cos(2 * angle);
		if (is_float(p.io.ot[0]))
			out_put(p.io, 0, k, v);
		else
			any_put_int(p.io.ot[0], p.io.out[0], k, (int64_t)v);
	}
}

__device__ inline double mel_of(const gpu_io &o, int k)
{
	double f = in_real(o, k, 0);
	return o.it[k] == T_F64 ? 2595 * log10(1 + f / 700) : (double)(2595 * log10f(1 + (float)f / 700));
}

// A thread computes one element; rows have `made` bins.
extern "C" __global__ void mel_weights(const gpu_signal p)
{
	const int64_t length = in_int(p.io, 1, 0);
	const double rate = (double)in_int(p.io, 2, 0), low = mel_of(p.io, 3);
	double step = (mel_of(p.io, 4) - low) / (double)(p.made + 2);
	if (p.io.it[3] != T_F64)
		step = (double)(float)step;
	if (!(rate > 0))
		fault(p.io);
	EACH(i, p.n)
	{
		int64_t bin = i % p.made, row = i / p.made, edge[3];
		for (int k = 0; k < 3; k++) {
			double hertz = 700 * (pow(10.0, ((double)(bin + k) * step + low) / 2595) - 1);
			double at = floor((double)(length + 1) * hertz / rate);
			edge[k] = at > -1e9 && at < 1e9 ? (int64_t)at : -1;
			edge[k] = edge[k] < 2 * (p.n / p.made) ? edge[k] : 2 * (p.n / p.made);
		}
		int64_t up = edge[1] - edge[0], down = edge[2] - edge[1];
		double v = 0;
		if (up == 0 && row == edge[1])
			v = 1;
		if (up > 0 && row >= edge[0] && row <= edge[1])
			v = (double)(row - edge[0]) / (double)up;
		if (down > 0 && row >= edge[1] && row < edge[2])
			v = (double)(edge[2] - row) / (double)down;
		if (is_float(p.io.ot[0]))
			out_put(p.io, 0, i, v);
		else
			any_put_int(p.io.ot[0], p.io.out[0], i, (int64_t)v);
	}
}
