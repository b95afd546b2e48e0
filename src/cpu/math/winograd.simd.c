/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of winograd.h. This file is compiled once for each SIMD_LEVEL. */
#include "cpu/math/winograd.h"

#include "cpu/math/vmath.h"

#include <stddef.h>

/* ---- along one axis ----------------------------------------------------------------------------- */

/*
 * Pixels and weights are taken for the coefficients of polynomials, whose product is the convolution. Both are evaluated at as many points as a tile
 * has pixels, the values are multiplied, and the outputs are interpolated from the products. The pixels' transform is the transpose of
 * that interpolation, without the factors that it divides by, which the weights' transform has.
 */
static inline __attribute__((always_inline)) void pixels_2(const vf d[4], vf to[4])
{
	to[0] = d[0] - d[2];
	to[1] = d[1] + d[2];
	to[2] = d[2] - d[1];
	to[3] = d[1] - d[3];
}

static inline __attribute__((always_inline)) void outputs_2(const vf m[4], vf to[2])
{
	vf sum = m[1] + m[2], difference = m[1] - m[2];

	to[0] = m[0] + sum;
	to[1] = difference - m[3];
}

/* NEAR and FAR are the points beside 0 and infinity. */
#define NEAR 0.75F
#define FAR  1.5F

static inline __attribute__((always_inline)) void pixels_4(const vf d[6], vf to[6])
{
	const vf near2 = v_set(-(NEAR * NEAR)), far2 = v_set(-(FAR * FAR));
	const vf sum2 = v_set(-(NEAR * NEAR + FAR * FAR)), product2 = v_set(NEAR * NEAR * FAR * FAR);
	vf even = v_fma(far2, d[2], d[4]), odd = v_set(NEAR) * v_fma(far2, d[1], d[3]);

	to[0] = v_fma(product2, d[0], v_fma(sum2, d[2], d[4]));
	to[1] = even + odd;
	to[2] = even - odd;
	even = v_fma(near2, d[2], d[4]);
	odd = v_set(FAR) * v_fma(near2, d[1], d[3]);
	to[3] = even + odd;
	to[4] = even - odd;
	to[5] = v_fma(product2, d[1], v_fma(sum2, d[3], d[5]));
}

static inline __attribute__((always_inline)) void outputs_4(const vf m[6], vf to[4])
{
	vf s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];

	to[0] = m[0] + (s1 + s2);
	to[1] = v_fma(v_set(NEAR), d1, v_set(FAR) * d2);
	to[2] = v_fma(v_set(NEAR * NEAR), s1, v_set(FAR * FAR) * s2);
	to[3] = v_fma(v_set(NEAR * NEAR * NEAR), d1, v_fma(v_set(FAR * FAR * FAR), d2, m[5]));
}

/* ---- along both ------------------------------------------------------------------------------------- */

#define UNROLL _Pragma("GCC unroll 6")

/* `part` is how many channels a last vector has that is no whole one, or 0; a constant where this is inlined. */
#define PIXELS(m)                                                                                    \
	static inline __attribute__((always_inline)) void pixels_vector_##m(                         \
		const float *x, int64_t row, int64_t column, int64_t part, float *to, int64_t point) \
	{                                                                                            \
		enum { SIDE = (m) + 2 };                                                             \
		vf half[SIDE][SIDE], d[SIDE], p[SIDE];                                               \
		UNROLL for (int j = 0; j < SIDE; j++)                                                \
		{                                                                                    \
			UNROLL for (int i = 0; i < SIDE; i++)                                        \
			{                                                                            \
				const float *from = x + i * row + j * column;                        \
				d[i] = part ? v_load_part(from, part, v_set(0)) : v_load(from);      \
			}                                                                            \
			pixels_##m(d, p);                                                            \
			UNROLL for (int i = 0; i < SIDE; i++) half[i][j] = p[i];                     \
		}                                                                                    \
		UNROLL for (int i = 0; i < SIDE; i++)                                                \
		{                                                                                    \
			pixels_##m(half[i], p);                                                      \
			UNROLL for (int j = 0; j < SIDE; j++)                                        \
			{                                                                            \
				float *y = to + (i * SIDE + j) * point;                              \
				if (part)                                                            \
					v_store_part(y, part, p[j]);                                 \
				else                                                                 \
					v_store(y, p[j]);                                            \
			}                                                                            \
		}                                                                                    \
	}                                                                                            \
	static void pixels_tile_##m(const float *x, int64_t row, int64_t column, int64_t n,          \
				    float *to, int64_t point)                                        \
	{                                                                                            \
		int64_t i = 0;                                                                       \
		for (; i + VW <= n; i += VW)                                                         \
			pixels_vector_##m(x + i, row, column, 0, to + i, point);                     \
		if (i < n)                                                                           \
			pixels_vector_##m(x + i, row, column, n - i, to + i, point);                 \
	}
PIXELS(2)
PIXELS(4)

/* A number times 0 is NaN if it is infinite or NaN, and so is then the sum of such products. */
#define OUTPUTS(m)                                                                                 \
	static inline __attribute__((always_inline))                                               \
	vf outputs_vector_##m(const float *from, int64_t point, int64_t part, vf bias, bool relu,  \
			      float *y, int64_t row, int64_t column)                               \
	{                                                                                          \
		enum { SIDE = (m) + 2 };                                                           \
		vf half[m][SIDE], p[SIDE], r[m], sum = v_set(0);                                   \
		UNROLL for (int j = 0; j < SIDE; j++)                                              \
		{                                                                                  \
			UNROLL for (int i = 0; i < SIDE; i++) p[i] =                               \
				v_load(from + (i * SIDE + j) * point);                             \
			outputs_##m(p, r);                                                         \
			UNROLL for (int i = 0; i < (m); i++) half[i][j] = r[i];                    \
		}                                                                                  \
		UNROLL for (int i = 0; i < (m); i++)                                               \
		{                                                                                  \
			outputs_##m(half[i], r);                                                   \
			UNROLL for (int j = 0; j < (m); j++)                                       \
			{                                                                          \
				float *to = y + i * row + j * column;                              \
				sum = v_fma(r[j], v_set(0), sum);                                  \
				r[j] += bias;                                                      \
				r[j] = relu ? v_max(v_set(0), r[j]) : r[j];                        \
				if (part)                                                          \
					v_store_part(to, part, r[j]);                              \
				else                                                               \
					v_store(to, r[j]);                                         \
			}                                                                          \
		}                                                                                  \
		return sum;                                                                        \
	}                                                                                          \
	static bool outputs_tile_##m(const float *points, int64_t point, int64_t n,                \
				     const float *bias, bool relu, float *y, int64_t row,          \
				     int64_t column)                                               \
	{                                                                                          \
		vf sum = v_set(0);                                                                 \
		int64_t i = 0;                                                                     \
		for (; i + VW <= n; i += VW) {                                                     \
			vf b = bias ? v_load(bias + i) : v_set(0);                                 \
			sum += relu ? outputs_vector_##m(points + i, point, 0, b, true, y + i,     \
							 row, column)                              \
				    : outputs_vector_##m(points + i, point, 0, b, false, y + i,    \
							 row, column);                             \
		}                                                                                  \
		if (i < n) {                                                                       \
			vf b = bias ? v_load_part(bias + i, n - i, v_set(0)) : v_set(0);           \
			sum += outputs_vector_##m(points + i, point, n - i, b, relu, y + i, row,   \
						  column);                                         \
		}                                                                                  \
		return !v_any(v_isnan(sum));                                                       \
	}
OUTPUTS(2)
OUTPUTS(4)

/* ---- weights -------------------------------------------------------------------------------------------- */

/* In double, as it is done once and the factors are no binary fractions. */
static inline void weights_2(const double g[3], double to[4])
{
	to[0] = g[0];
	to[1] = (g[0] + g[1] + g[2]) / 2;
	to[2] = (g[0] - g[1] + g[2]) / 2;
	to[3] = g[2];
}

static inline void weights_4(const double g[3], double to[6])
{
	const double a = (double)NEAR, b = (double)FAR, a2 = a * a, b2 = b * b;
	const double near = 1 / (2 * a2 * (a2 - b2)), far = 1 / (2 * b2 * (b2 - a2));

	to[0] = g[0] / (a2 * b2);
	to[1] = near * (g[0] + a * g[1] + a2 * g[2]);
	to[2] = near * (g[0] - a * g[1] + a2 * g[2]);
	to[3] = far * (g[0] + b * g[1] + b2 * g[2]);
	to[4] = far * (g[0] - b * g[1] + b2 * g[2]);
	to[5] = g[2];
}

#define WEIGHTS(m)                                                                                 \
	static void weights_strip_##m(const float *w, int64_t strip, float *to, int64_t point)     \
	{                                                                                          \
		enum { SIDE = (m) + 2 };                                                           \
		for (int64_t l = 0; l < strip; l++) {                                              \
			double half[SIDE][3], g[3], p[SIDE];                                       \
			for (int j = 0; j < 3; j++) {                                              \
				for (int i = 0; i < 3; i++)                                        \
					g[i] = (double)w[(i * 3 + j) * strip + l];                 \
				weights_##m(g, p);                                                 \
				for (int i = 0; i < SIDE; i++)                                     \
					half[i][j] = p[i];                                         \
			}                                                                          \
			for (int i = 0; i < SIDE; i++) {                                           \
				weights_##m(half[i], p);                                           \
				for (int j = 0; j < SIDE; j++)                                     \
					to[(i * SIDE + j) * point + l] = (float)p[j];              \
			}                                                                          \
		}                                                                                  \
	}
WEIGHTS(2)
WEIGHTS(4)

const struct winograd_kernels V(winograd_kernels)[2] = {
	{weights_strip_2, pixels_tile_2, outputs_tile_2},
	{weights_strip_4, pixels_tile_4, outputs_tile_4},
};
