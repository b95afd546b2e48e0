// SPDX-License-Identifier: Apache-2.0
// What libraries compute on a GPU, an element a thread: for their stand-ins, test/gpu/fake/cublaslt.c and cudnn.c.
#include "float8.cuh"
#include "libraries.h"

__device__ inline double get(int type, const void *p, int64_t i)
{
	switch (type) {
	case LIBRARY_F32: return ((const f32 *)p)[i];
	case LIBRARY_F16: return up(((const f16 *)p)[i]);
	case LIBRARY_BF16: return up(((const bf16 *)p)[i]);
	case LIBRARY_F64: return ((const f64 *)p)[i];
	case LIBRARY_I8: return ((const i8 *)p)[i];
	case LIBRARY_F8: return float8_value(((const u8 *)p)[i]);
	default: return ((const i32 *)p)[i];
	}
}
__device__ inline void put(int type, void *p, int64_t i, double v)
{
	switch (type) {
	case LIBRARY_F32: ((f32 *)p)[i] = (f32)v; break;
	case LIBRARY_F16: ((f16 *)p)[i] = down<f16>(v); break;
	case LIBRARY_BF16: ((bf16 *)p)[i] = down<bf16>(v); break;
	case LIBRARY_F64: ((f64 *)p)[i] = v; break;
	case LIBRARY_F8: {
		float f = (float)v;
		store_float8<1>((u8 *)p + i, &f, 1.0f);
		break;
	}
	default: ((i32 *)p)[i] = (i32)v;
	}
}

extern "C" __global__ void library_product(const library_product p)
{
	EACH(at, p.m * p.n * p.batch)
	{
		int64_t i = at % p.m, j = at / p.m % p.n, z = at / p.m / p.n;
		double sum = 0;
		for (int64_t k = 0; k < p.k; k++)
			sum += get(p.type, p.a, z * p.step_a + (p.turn_a ? k + i * p.lda : i + k * p.lda)) *
			       get(p.type, p.b, z * p.step_b + (p.turn_b ? j + k * p.ldb : k + j * p.ldb));
		sum *= p.alpha * (p.factor ? *p.factor : 1.0f);
		if (p.beta != 0)
			sum += p.beta * get(p.side, p.c, z * p.step_c + i + j * p.ldc);
		if (p.bias)
			sum += get(p.side, p.bias, i);
		sum = p.act == LIBRARY_RELU ? fmax(sum, 0.0) : p.act == LIBRARY_GELU ? fn_GELU_TANH(sum, 0.0, 0.0) : sum;
		put(p.out, p.d, z * p.step_d + i + j * p.ldd, sum * (p.after ? *p.after : 1.0f));
	}
}

// The place in the other tensor that window element k ties to this place; below 0: none.
__device__ inline int64_t tied(const library_conv &p, int r, int64_t place, int64_t k)
{
	int64_t i = p.back ? place + p.begin[r] - k * p.dilation[r] : place * p.stride[r] - p.begin[r] + k * p.dilation[r];
	if (p.back && i >= 0)
		i = i % p.stride[r] ? -1 : i / p.stride[r];
	return i < (p.back ? p.ty : p.tx).dim[2 + r] ? i : -1;
}

__device__ inline int64_t lies(const library_tensor &t, int64_t a, int64_t b, const int64_t *s)
{
	int64_t at = a * t.step[0] + b * t.step[1];
	for (int r = 0; r < LIBRARY_SPACE; r++)
		at += s[r] * t.step[2 + r];
	return at;
}

// Element `at` of a box, by its dimensions.
__device__ inline void part(const int64_t *dim, int64_t at, int64_t *s)
{
	for (int r = LIBRARY_SPACE - 1; r >= 0; r--) {
		s[r] = at % dim[r];
		at /= dim[r];
	}
}

extern "C" __global__ void library_conv(const library_conv p)
{
	const library_tensor &t = p.back ? p.tx : p.ty, &other = p.back ? p.ty : p.tx;
	const int64_t *d = t.dim, *w = p.tw.dim;
	const int64_t cin = w[1], cout = w[0] / (p.tx.dim[1] / cin); // of a group
	EACH(at, d[0] * d[1] * d[2] * d[3] * d[4])
	{
		int64_t to[3], from[3], k[3], pixels = d[2] * d[3] * d[4], b = at / (d[1] * pixels), c = at / pixels % d[1];
		int64_t group = c / (p.back ? cin : cout), n = p.back ? cout : cin;
		double sum = 0;
		part(d + 2, at, to);
		for (int64_t x = 0; x < w[2] * w[3] * w[4]; x++) {
			bool meets = true;
			part(w + 2, x, k);
			for (int r = 0; r < 3; r++)
				meets = (from[r] = tied(p, r, to[r], k[r])) >= 0 && meets;
			for (int64_t i = 0; i < n && meets; i++)
				sum += get(p.type, p.back ? p.y : p.x, lies(other, b, group * n + i, from)) *
				       get(p.type, p.w, lies(p.tw, p.back ? group * n + i : c, p.back ? c % cin : i, k));
		}
		put(p.type, p.to, lies(t, b, c, to), sum);
	}
}
