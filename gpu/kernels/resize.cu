// SPDX-License-Identifier: Apache-2.0
// Resize, axis by axis.
#include "any.cuh"
#include "resize.h"

template <typename I, typename O, typename C> __device__ inline void pass(const gpu_resize_pass &p)
{
	EACH(i, p.n)
	{
		int64_t inner = i % p.inner, rest = i / p.inner, o = rest % p.out;
		const I *x = (const I *)p.x + rest / p.out * p.in * p.inner + inner;
		const int32_t *index = p.index + o * p.taps;
		const C *weight = (const C *)p.weight + o * p.taps;
		C sum = 0;
		for (int k = 0; k < p.taps; k++) {
			C w = weight[k];
			/* infinity * 0 would be NaN: elements with weight 0 are left out of the sum */
			if (w != 0)
				sum += w * (C)up(x[index[k] * p.inner]);
		}
		if (p.whole) {
			sum = floor(sum + C(0.5));
			sum = sum < (C)p.low ? (C)p.low : sum > (C)p.high ? (C)p.high : sum;
		}
		((O *)p.y)[i] = down<O>(sum);
	}
}

template <typename T> __device__ inline void pick(const gpu_resize_pass &p)
{
	EACH(i, p.n)
	{
		int64_t inner = i % p.inner, rest = i / p.inner, o = rest % p.out;
		((T *)p.y)[i] = ((const T *)p.x)[(rest / p.out * p.in + p.index[o]) * p.inner + inner];
	}
}

template <typename C> __device__ inline void whole_in(const gpu_resize_whole &p)
{
	EACH(i, p.n)((C *)p.y)[i] = (C)any_real(p.type, p.x, i);
}

// When the fraction is cut off, the number is first rounded to float, because 93.9999999 is meant to be 94.
template <typename C> __device__ inline void whole_out(const gpu_resize_whole &p)
{
	EACH(i, p.n)
	{
		double v = (double)((const C *)p.x)[i];
		if (p.type == T_BOOL) {
			((u8 *)p.y)[i] = rint(v) != 0;
			continue;
		}
		v = p.drop ? trunc(fabs(v) < 8388608.0 ? (double)(float)v : v) : rint(v);
		if (!(v < p.high))
			any_put_int(p.type, p.y, i, p.type == T_U64 ? -1 : p.type == T_I64 ? INT64_MAX : (int64_t)p.high);
		else if (v >= 9223372036854775808.0)
			any_put_int(p.type, p.y, i, (int64_t)(uint64_t)v);
		else
			any_put_int(p.type, p.y, i, (int64_t)(v < p.low ? p.low : v));
	}
}

template <typename T> __device__ inline void outside(const gpu_resize_outside &p)
{
	EACH(i, p.n)
	{
		int64_t at = i;
		bool out = false;
		for (int d = p.rank - 1; d >= 0; d--) {
			out |= p.outside[d] && p.outside[d][at % p.dim[d]];
			at /= p.dim[d];
		}
		if (out)
			((T *)p.y)[i] = down<T>((typename Wide<T>::type)p.value);
	}
}

__device__ inline double nearest_place(int mode, double scale, double x)
{
	double f = floor(x);
	switch (mode) {
	case GPU_NEAREST_PREFER_CEIL: return x - f < 0.5 ? f : f + 1;
	case GPU_NEAREST_FLOOR: return f;
	case GPU_NEAREST_CEIL: return ceil(x);
	case GPU_NEAREST_SIMPLE: return scale < 1 ? ceil(x) : f;
	default: return x - f <= 0.5 ? f : f + 1;
	}
}

__device__ inline double cubic_weight(double x, double a)
{
	x = fabs(x);
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Returns the input coordinate that position o of the output reads. It is computed in fp32 and each product is rounded,
// as on the CPU.
__device__ inline double region_place(const gpu_resize_region &p, int64_t o, bool *outside)
{
	double r0 = any_real(p.type, p.roi, p.begin), r1 = any_real(p.type, p.roi, p.end);
	float in = (float)p.in, width = (float)(p.scale * (double)p.in), at;
	if (width == 1)
		at = __fmul_rn(__fmul_rn(0.5f, (float)(r0 + r1)), in - 1);
	else
		at = __fadd_rn(__fmul_rn((float)r0, in - 1),
			       __fdiv_rn(__fmul_rn(__fmul_rn((float)o, (float)(r1 - r0)), in - 1), width - 1));
	*outside = !(at >= 0 && at <= in - 1);
	return at;
}

// A thread computes the taps (input positions and weights) of one position of the output.
extern "C" __global__ void region_taps(const gpu_resize_region p)
{
	EACH(o, p.out)
	{
		bool outside = false;
		double x = region_place(p, o, &outside), sum = 0, kept = 0;
		x = fabs(x) < 1e15 ? x : 0;
		p.outside[o] = outside;
		auto put = [&](int k, int64_t i, double w) {
			p.index[o * p.taps + k] = (int32_t)(i < 0 ? 0 : i >= p.in ? p.in - 1 : i);
			if (p.narrow)
				((float *)p.weight)[o * p.taps + k] = (float)w;
			else
				((double *)p.weight)[o * p.taps + k] = w;
		};
		if (p.nearest) {
			double i = nearest_place(p.nearest_mode, p.scale, x);
			put(0, i < 0 ? 0 : i >= (double)p.in ? p.in - 1 : (int64_t)i, 1);
			continue;
		}
		int64_t first = (int64_t)floor(x) - p.taps / 2 + 1;
		auto weight = [&](int k) {
			double d = ((double)(first + k) - x) * p.stretch;
			return p.linear ? fmax(0.0, 1 - fabs(d)) : cubic_weight(d, p.cubic);
		};
		auto counts = [&](int k) { return !p.exclude || (first + k >= 0 && first + k < p.in); };
		for (int k = 0; k < p.taps; k++) {
			sum += weight(k);
			kept += counts(k) ? weight(k) : 0;
		}
		sum = p.exclude ? kept : p.stretch == 1 ? 1 : sum;
		for (int k = 0; k < p.taps; k++)
			put(k, first + k, counts(k) && sum != 0 ? weight(k) / sum : 0);
	}
}

#define PASS(I, O, C) extern "C" __global__ void pass_##I##_##O(const gpu_resize_pass p) { pass<I, O, C>(p); }
PASS(f32, f32, float) PASS(f16, f32, float) PASS(bf16, f32, float) PASS(f32, f16, float) PASS(f32, bf16, float)
PASS(f16, f16, float) PASS(bf16, bf16, float) PASS(f64, f64, double)
#define PICK(T, size) extern "C" __global__ void pick_##size(const gpu_resize_pass p) { pick<T>(p); }
struct pair { u64 a, b; };
PICK(u8, 1) PICK(u16, 2) PICK(u32, 4) PICK(u64, 8) PICK(pair, 16)
#define WHOLE(C)                                                                                                       \
	extern "C" __global__ void whole_in_##C(const gpu_resize_whole p) { whole_in<C>(p); }                          \
	extern "C" __global__ void whole_out_##C(const gpu_resize_whole p) { whole_out<C>(p); }
WHOLE(f32) WHOLE(f64)
#define OUTSIDE(T) extern "C" __global__ void outside_##T(const gpu_resize_outside p) { outside<T>(p); }
OUTSIDE(f32) OUTSIDE(f16) OUTSIDE(bf16) OUTSIDE(f64)
