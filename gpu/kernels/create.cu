// SPDX-License-Identifier: Apache-2.0
// Generates tensors: fills, ranges and random numbers.
#include "any.cuh"

// Fills memory with a pattern that repeats every 16 bytes.
extern "C" __global__ void fill_bytes(const gpu_fill p)
{
	const int64_t whole = p.n / 16;
	uint4 unit;
	memcpy(&unit, p.unit, 16);
	EACH(i, whole) ((uint4 *)p.io.out[0])[i] = unit;
	EACH(i, p.n - 16 * whole) ((u8 *)p.io.out[0])[16 * whole + i] = p.unit[i];
}

extern "C" __global__ void eye(const gpu_make p)
{
	EACH(i, p.n) any_put_int(p.io.ot[0], p.io.out[0], i, i % p.cols - i / p.cols == p.k);
}

extern "C" __global__ void range(const gpu_make p)
{
	const int t = p.io.ot[0];
	EACH(i, p.n)
	{
		if (t == T_F32)
			((f32 *)p.io.out[0])[i] = __fadd_rn(*(const f32 *)p.io.in[0],
							    __fmul_rn((float)i, *(const f32 *)p.io.in[2]));
		else if (is_float(t))
			out_put(p.io, 0, i, __dadd_rn(in_real(p.io, 0, 0), __dmul_rn((double)i, in_real(p.io, 2, 0))));
		else
			any_put_int(t, p.io.out[0], i,
				    (i64)((u64)in_int(p.io, 0, 0) + (u64)i * (u64)in_int(p.io, 2, 0)));
	}
}

extern "C" __global__ void random_numbers(const gpu_make p)
{
	EACH(i, p.n)
	{
		double v;
		if (p.kind == GPU_RANDOM_BERNOULLI)
			v = hash_unit(p.seed, i) < in_real(p.io, 0, i);
		else if (p.kind == GPU_RANDOM_NORMAL)
			v = p.a + p.b * (sqrt(-2 * log(1 - hash_unit(p.seed, 2 * i))) *
					 cos(6.283185307179586 * hash_unit(p.seed, 2 * i + 1)));
		else
			v = p.a + (p.b - p.a) * hash_unit(p.seed, i);
		out_put(p.io, 0, i, v);
	}
}

// Draws class numbers from unnormalized log-probabilities. Each of the rows has cols classes and gets k samples.
extern "C" __global__ void multinomial(const gpu_make p)
{
	EACH(i, p.n)
	{
		int64_t r = i / p.k, k = 0;
		double max = -INFINITY, sum = 0;
		for (int64_t c = 0; c < p.cols; c++)
			max = fmax(max, in_real(p.io, 0, r * p.cols + c));
		for (int64_t c = 0; c < p.cols; c++)
			sum += exp(in_real(p.io, 0, r * p.cols + c) - max);
		double left = hash_unit(p.seed, i) * sum;
		for (; k < p.cols - 1; k++) {
			left -= exp(in_real(p.io, 0, r * p.cols + k) - max);
			if (left < 0)
				break;
		}
		any_put_int(p.io.ot[0], p.io.out[0], i, k);
	}
}
