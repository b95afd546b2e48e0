// SPDX-License-Identifier: Apache-2.0
// ReverseSequence, Dropout, powers whose exponent has another type, gated activations, TfIdfVectorizer.
#include "any.cuh"
#include "tfidf.h"

// Reverses the first in[1][b] positions of each sequence b. A position has `run` elements. time_first says whether the
// first dimension is time or batch.
extern "C" __global__ void reverse_sequence(const gpu_reverse p)
{
	const int64_t time = p.time_first ? p.d0 : p.d1;
	EACH(i, p.d0 * p.d1 * p.run)
	{
		int64_t e = i % p.run, k = i / p.run, a = k / p.d1, b = k % p.d1, t = p.time_first ? a : b;
		int64_t len = ((const i64 *)p.io.in[1])[p.time_first ? b : a];
		if (len < 0 || len > time) {
			fault(p.io);
			continue;
		}
		int64_t from = t < len ? len - 1 - t : t;
		from = p.time_first ? from * p.d1 + b : a * p.d1 + from;
		any_copy(p.size, p.io.out[0], i, p.io.in[0], from * p.run + e);
	}
}

extern "C" __global__ void dropout(const gpu_dropout p)
{
	const double ratio = p.io.in[1] ? in_real(p.io, 1, 0) : 0.5;
	const bool drops = p.io.in[2] && in_int(p.io, 2, 0) && ratio > 0;
	EACH(i, p.n)
	{
		bool keep = !drops || hash_unit(p.seed, i) >= ratio;
		if (drops)
			out_put(p.io, 0, i, keep ? in_real(p.io, 0, i) / (1 - ratio) : 0);
		else
			any_copy(p.size, p.io.out[0], i, p.io.in[0], i);
		if (p.io.out[1])
			((u8 *)p.io.out[1])[i] = drops ? keep : !p.mask_zero;
	}
}

__device__ inline i64 whole_power(i64 a, i64 b)
{
	u64 r = 1, base = (u64)a;
	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
	for (; b; b >>= 1, base *= base)
		if (b & 1)
			r *= base;
	return (i64)r;
}

// Rounds a power to the nearest integer if only its last digits differ from that integer.
__device__ inline double whole_near(double v)
{
	double w = rint(v);
	return fabs(v - w) <= 1e-15 * fabs(w) ? w : v;
}

// Computes Pow when base and exponent have different types; the result has the type of the base.
extern "C" __global__ void power_any(const gpu_binary_any p)
{
	const int t = p.io.it[0];
	EACH(i, p.n)
	{
		int64_t at[2];
		walk<2>(p.d, p.step, i, at);
		if (is_float(t) || is_float(p.io.it[1])) {
			double v = pow(in_real(p.io, 0, at[0]), in_real(p.io, 1, at[1]));
			if (is_float(t))
				out_put(p.io, 0, i, v);
			else
				any_put_int(t, p.io.out[0], i, to_integer(t, whole_near(v)));
		} else {
			any_put_int(t, p.io.out[0], i, whole_power(in_int(p.io, 0, at[0]), in_int(p.io, 1, at[1])));
		}
	}
}

extern "C" __global__ void swiglu(const gpu_binary_any p)
{
	EACH(i, p.n)
	{
		int64_t at[2];
		walk<2>(p.d, p.step, i, at);
		double x = in_real(p.io, 0, at[0]);
		out_put(p.io, 0, i, x / (1 + exp(-p.alpha * x)) * in_real(p.io, 1, at[1]));
	}
}

// Turns rows of 2 * d.dim[0] elements into rows of d.dim[0] elements. in[1] is the bias of a whole input row.
extern "C" __global__ void split_gelu(const gpu_binary_any p)
{
	const int64_t half = p.d.dim[0];
	EACH(i, p.n)
	{
		int64_t c = i % half, at = i / half * 2 * half + c;
		double a = in_real(p.io, 0, at) + in_real(p.io, 1, c);
		out_put(p.io, 0, i, a * fn_GELU(in_real(p.io, 0, at + half) + in_real(p.io, 1, c + half), 0.0, 0.0));
	}
}

// Adds to x the rows of in[1], each times one number of in[2]; a row has d.dim[0] elements. The product is rounded first.
extern "C" __global__ void gated_add(const gpu_binary_any p)
{
	EACH(i, p.n)
	{
		out_put(p.io, 0, i, in_real(p.io, 1, i) * in_real(p.io, 2, i / p.d.dim[0]));
		out_put(p.io, 0, i, in_real(p.io, 0, i) + any_real(p.io.ot[0], p.io.out[0], i));
	}
}

extern "C" __global__ void image_scale(const gpu_image_scale p)
{
	EACH(i, p.n)
	{
		int64_t c = i / p.inner % p.channels - p.first;
		if (c >= 0 && c < GPU_SCALES)
			out_put(p.io, 0, i, in_real(p.io, 0, i) * p.scale + p.bias[c]);
	}
}

// Counts the occurrences of an n-gram in a row. The elements of an occurrence are equally spaced, with 0 to `skips`
// other elements between neighbours. N-grams of one element skip nothing.
__device__ inline int64_t count_grams(const gpu_tfidf &p, int64_t row, const gpu_gram &g)
{
	int64_t n = g.n, steps = n > 1 ? p.skips + 1 : 1, count = 0;
	for (int64_t step = 1; step <= steps && step * (n - 1) < p.length; step++)
		for (int64_t i = 0; i + step * (n - 1) < p.length; i++) {
			int64_t k = 0;
			while (k < n && in_int(p.io, 0, row * p.length + i + k * step) == p.pool[g.from + k])
				k++;
			count += k == n;
		}
	return count;
}

extern "C" __global__ void tfidf(const gpu_tfidf p)
{
	EACH(i, p.rows * p.columns)
	{
		int64_t c = i % p.columns;
		float v = 0;
		for (int64_t k = p.first[c]; k < p.first[c + 1]; k++) {
			int64_t n = count_grams(p, i / p.columns, p.gram[k]);
			if (p.mode == GPU_TFIDF_IDF)
				v = n ? p.gram[k].weight : v;
			else
				v += (float)n * (p.mode == GPU_TFIDF_TFIDF ? p.gram[k].weight : 1.0f);
		}
		out_put(p.io, 0, i, v);
	}
}
