/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of simd.h. This file is compiled once for each SIMD_LEVEL. */
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/vmath.h"

/*
 * Defines the loop map_ID for the function ID of ops/unary.def. expr computes a vector of results from the
 * vector x and the function's parameters a and b.
 */
#define MAP(id, expr)                                                                              \
	static inline vf one_##id(vf x, vf a, vf b)                                                \
	{                                                                                          \
		(void)a;                                                                           \
		(void)b;                                                                           \
		return (expr);                                                                     \
	}                                                                                          \
	static void map_##id(const float *x, float *y, int64_t n, const float *p)                  \
	{                                                                                          \
		vf a = v_set(p ? p[0] : 0), b = v_set(p ? p[1] : 0);                               \
		int64_t i = 0;                                                                     \
		for (; i + VW <= n; i += VW)                                                       \
			v_store(y + i, one_##id(v_load(x + i), a, b));                             \
		if (i < n)                                                                         \
			v_store_part(y + i, n - i,                                                 \
				     one_##id(v_load_part(x + i, n - i, v_set(1)), a, b));         \
	}

#define ZERO v_set(0)
#define ONE  v_set(1.0f)

MAP(ABS, v_abs(x))
MAP(NEG, -x)
MAP(CEIL, v_ceil(x))
MAP(FLOOR, v_floor(x))
MAP(ROUND, v_rint(x))
MAP(SIGN, v_sel(v_lt(ZERO, x), ONE, v_sel(v_lt(x, ZERO), -ONE, x)))
MAP(SQRT, v_sqrt(x))
MAP(RECIPROCAL, ONE / x)
MAP(EXP, v_exp(x))
MAP(LOG, v_log(x))
MAP(TANH, v_tanh(x))
MAP(ERF, v_erf(x))
MAP(SIGMOID, v_sigmoid(x))
MAP(SOFTPLUS, v_softplus(x))
MAP(SOFTSIGN, x / (ONE + v_abs(x)))
MAP(GELU, v_gelu(x))
MAP(GELU_TANH, v_gelu_tanh(x))
MAP(MISH, v_mish(x))
MAP(RELU, v_max(ZERO, x))
MAP(CLIP, v_min(b, v_max(a, x)))
MAP(LEAKYRELU, v_sel(v_lt(x, ZERO), a *x, x))
MAP(ELU, v_sel(v_lt(x, ZERO), a *v_expm1_neg(x), x))
MAP(SELU, b *v_sel(v_le(x, ZERO), a *v_expm1_neg(x), x))
MAP(CELU, v_sel(v_lt(x, ZERO), a *v_expm1(x / a), x))
MAP(HARDSIGMOID, v_max(ZERO, v_min(ONE, v_fma(a, x, b))))
MAP(HARDSWISH, x *v_max(ZERO, v_min(ONE, v_fma(a, x, b))))
MAP(SWISH, v_swish(x, a))
MAP(THRESHOLDEDRELU, v_sel(v_lt(a, x), x, ZERO))
MAP(SHRINK, v_sel(v_lt(x, -a), x + b, v_sel(v_lt(a, x), x - b, ZERO)))
MAP(AFFINE, v_fma(a, x, b))
MAP(SCALEDTANH, a *v_tanh(b *x))
MAP(PARAMETRICSOFTPLUS, a *v_softplus(b *x))
MAP(SQUARE, x *x)
MAP(CUBE, x *x *x)

/*
 * Returns sin(x) if add is 0, cos(x) if it is 1, tan(x) if it is 2. The vector versions reduce x by multiples of
 * pi/2, which loses digits beyond 8192: if any lane is larger or NaN, the C library computes all lanes.
 */
static inline vf sin_cos_tan(vf x, int add)
{
	vf y = add == 2 ? v_tan(x) : v_sincos(x, add);
	if (v_any(v_le(v_abs(x), v_set(8192.0f))) && !v_any(v_lt(v_set(8192.0f), v_abs(x))) &&
	    !v_any(v_isnan(x)))
		return y;
	float in[VW], out[VW];
	v_store(in, x);
	for (int i = 0; i < VW; i++)
		out[i] = add == 2 ? tanf(in[i]) : add ? cosf(in[i]) : sinf(in[i]);
	return v_load(out);
}
MAP(SIN, sin_cos_tan(x, 0))
MAP(COS, sin_cos_tan(x, 1))
MAP(TAN, sin_cos_tan(x, 2))
MAP(ASIN, v_asin(x))
MAP(ACOS, v_acos(x))
MAP(ATAN, v_atan(x))
MAP(SINH, v_sinh(x))
MAP(COSH, v_cosh(x))
MAP(ASINH, v_asinh(x))
MAP(ACOSH, v_acosh(x))
MAP(ATANH, v_atanh(x))

static void is_nan(const float *x, uint8_t *y, int64_t n)
{
	LOOP for (int64_t i = 0; i < n; i++) y[i] = x[i] != x[i];
}
static void is_inf(const float *x, uint8_t *y, int64_t n, bool neg, bool pos)
{
	uint32_t a = pos ? 0x7f800000u : 0xff800000u, b = neg ? 0xff800000u : 0x7f800000u;
	if (!pos && !neg) {
		memset(y, 0, (size_t)n);
		return;
	}
	LOOP for (int64_t i = 0; i < n; i++)
	{
		uint32_t u;
		memcpy(&u, &x[i], sizeof(u));
		y[i] = (uint8_t)((u == a) | (u == b));
	}
}

/* ---- two inputs ----------------------------------------------------------------------------- */

#define BIN(name, T, R, expr)                                                                      \
	static void name(const void *pa, const void *pb, void *py, int64_t n)                      \
	{                                                                                          \
		const T *va = pa, *vb = pb;                                                        \
		R *y = py;                                                                         \
		LOOP for (int64_t i = 0; i < n; i++)                                               \
		{                                                                                  \
			T a = va[i], b = vb[i];                                                    \
			y[i] = (R)(expr);                                                          \
		}                                                                                  \
	}
/*
 * U is an unsigned type at least as wide as T. The loops compute in U, whose arithmetic wraps, because an overflow of
 * T is undefined in C.
 */
#define BIN_INT(t, T, U)                                                                           \
	BIN(add_##t, T, T, (U)((U)a + (U)b))                                                       \
	BIN(sub_##t, T, T, (U)((U)a - (U)b))                                                       \
	BIN(mul_##t, T, T, (U)((U)a * (U)b))                                                       \
	BIN(max_##t, T, T, a > b ? a : b)                                                          \
	BIN(min_##t, T, T, a < b ? a : b)                                                          \
	BIN_COMPARE(t, T)                                                                          \
	CLIP(t, T, v<lo ? lo : v, v> hi ? hi : v)
#define BIN_BITS(t, T)                                                                             \
	BIN(and_##t, T, T, a &b)                                                                   \
	BIN(or_##t, T, T, a | b)                                                                   \
	BIN(xor_##t, T, T, a ^ b)
#define BIN_COMPARE(t, T)                                                                          \
	BIN(eq_##t, T, uint8_t, a == b)                                                            \
	BIN(lt_##t, T, uint8_t, a < b)                                                             \
	BIN(le_##t, T, uint8_t, a <= b)
#define BIN_FLOAT(t, T)                                                                            \
	BIN(add_##t, T, T, a + b)                                                                  \
	BIN(sub_##t, T, T, a - b)                                                                  \
	BIN(mul_##t, T, T, a *b)                                                                   \
	BIN(div_##t, T, T, a / b)                                                                  \
	BIN(max_##t, T, T, ((a > b) | (a != a)) ? a : b)                                           \
	BIN(min_##t, T, T, ((a < b) | (a != a)) ? a : b)                                           \
	BIN_COMPARE(t, T)                                                                          \
	CLIP(t, T, v<lo ? lo : v, v> hi ? hi : v)
#define CLIP(t, T, raise, lower)                                                                    \
	static void clip_##t(const void *px, void *py, int64_t n, const void *plo, const void *phi) \
	{                                                                                           \
		const T *x = px, lo = *(const T *)plo, hi = *(const T *)phi;                        \
		T *y = py;                                                                          \
		LOOP for (int64_t i = 0; i < n; i++)                                                \
		{                                                                                   \
			T v = x[i];                                                                 \
			v = raise;                                                                  \
			y[i] = lower;                                                               \
		}                                                                                   \
	}

#define BIN_PRELU(t, T, U) BIN(prelu_##t, T, T, a < 0 ? (T)(U)((U)a * (U)b) : a)
BIN_PRELU(f32, float, float)
BIN_PRELU(f64, double, double)
BIN_PRELU(i32, int32_t, uint32_t)
BIN_PRELU(i64, int64_t, uint64_t)

BIN(prelu_u32, uint32_t, uint32_t, a | (b & 0)) /* PRelu returns a: no unsigned value is negative */
BIN(prelu_u64, uint64_t, uint64_t, a | (b & 0))

#define WHERE(bits)                                                                                \
	static void where_##bits(const uint8_t *c, const void *pa, const void *pb, void *py,       \
				 int64_t n)                                                        \
	{                                                                                          \
		const uint##bits##_t *a = pa, *b = pb;                                             \
		uint##bits##_t *y = py;                                                            \
		LOOP for (int64_t i = 0; i < n; i++) y[i] = c[i] ? a[i] : b[i];                    \
	}
WHERE(8)
WHERE(16)
WHERE(32)
WHERE(64)

BIN_FLOAT(f32, float)
BIN_FLOAT(f64, double)
BIN_INT(i8, int8_t, uint8_t)
BIN_INT(u8, uint8_t, uint8_t)
BIN_INT(i16, int16_t, uint32_t)
BIN_INT(u16, uint16_t, uint32_t)
BIN_INT(i32, int32_t, uint32_t)
BIN_INT(u32, uint32_t, uint32_t)
BIN_INT(i64, int64_t, uint64_t)
BIN_INT(u64, uint64_t, uint64_t)
BIN_BITS(u8, uint8_t)
BIN_BITS(u16, uint16_t)
BIN_BITS(u32, uint32_t)
BIN_BITS(u64, uint64_t)

/* Divides integers by way of double, which is exact for up to 32 bits and can be vectorized. x / 0 gives 0. */
#define BIN_DIV(t, T) BIN(div_##t, T, T, (int64_t)((double)a / (double)(b ? b : 1)) * (b != 0))
BIN_DIV(i8, int8_t)
BIN_DIV(u8, uint8_t)
BIN_DIV(i16, int16_t)
BIN_DIV(u16, uint16_t)
BIN_DIV(i32, int32_t)
BIN_DIV(u32, uint32_t)

/* ---- one integer ----------------------------------------------------------------------------- */

/* T is the element type. U is its unsigned counterpart, used because its arithmetic wraps. */
#define INT_MAP(name, T, U, expr)                                                                  \
	static void name(const void *px, void *py, int64_t n)                                      \
	{                                                                                          \
		const T *x = px;                                                                   \
		T *y = py;                                                                         \
		LOOP for (int64_t i = 0; i < n; i++)                                               \
		{                                                                                  \
			T v = x[i];                                                                \
			y[i] = (T)(expr);                                                          \
		}                                                                                  \
	}
#define SIGNED_MAPS(t, T, U)                                                                       \
	INT_MAP(intabs_##t, T, U, v < 0 ? (U)0 - (U)v : (U)v)                                      \
	INT_MAP(intneg_##t, T, U, (U)0 - (U)v)                                                     \
	INT_MAP(intsign_##t, T, U, (v > 0) - (v < 0))                                              \
	INT_MAP(intrelu_##t, T, U, v < 0 ? 0 : v)                                                  \
	INT_MAP(intnot_##t, T, U, ~v)
#define UNSIGNED_MAPS(t, T)                                                                        \
	INT_MAP(same_##t, T, T, v)                                                                 \
	INT_MAP(intsign_##t, T, T, v != 0)
SIGNED_MAPS(i8, int8_t, uint8_t)
SIGNED_MAPS(i16, int16_t, uint16_t)
SIGNED_MAPS(i32, int32_t, uint32_t)
SIGNED_MAPS(i64, int64_t, uint64_t)
UNSIGNED_MAPS(u8, uint8_t)
UNSIGNED_MAPS(u16, uint16_t)
UNSIGNED_MAPS(u32, uint32_t)
UNSIGNED_MAPS(u64, uint64_t)
INT_MAP(not_bool, uint8_t, uint8_t, v == 0)

#define SIGNED_ROW(f)	[DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_i32, [DT_I64] = f##_i64
#define UNSIGNED_ROW(f) [DT_U8] = f##_u8, [DT_U16] = f##_u16, [DT_U32] = f##_u32, [DT_U64] = f##_u64
#define INT_MAPS                                                                                             \
	{                                                                                                    \
		[VI_ABS] = {SIGNED_ROW(intabs), UNSIGNED_ROW(same)}, [VI_NEG] = {SIGNED_ROW(intneg)},        \
		[VI_SIGN] = {SIGNED_ROW(intsign), UNSIGNED_ROW(intsign)}, [VI_RELU] = {SIGNED_ROW(intrelu)}, \
		[VI_NOT] = {SIGNED_ROW(intnot),	   [DT_U8] = intnot_i8,	  [DT_U16] = intnot_i16,             \
			    [DT_U32] = intnot_i32, [DT_U64] = intnot_i64, [DT_BOOL] = not_bool},             \
	}

/* ---- conversions ---------------------------------------------------------------------------- */

static void half_to_float(const uint16_t *x, float *y, int64_t n)
{
	int64_t i = 0;
#if SIMD_LEVEL >= 3
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
#endif
	for (; i < n; i++)
		y[i] = f16_to_f32(x[i]);
}

static void float_to_half(const float *x, uint16_t *y, int64_t n)
{
	int64_t i = 0;
#if SIMD_LEVEL >= 3
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(y + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
	for (; i < n; i++)
		y[i] = f32_to_f16(x[i]);
}

static void brain_to_float(const uint16_t *x, float *y, int64_t n)
{
	LOOP for (int64_t i = 0; i < n; i++) y[i] = bf16_to_f32(x[i]);
}

static inline void round_to_brain(const float *x, uint16_t *y, int64_t n)
{
	LOOP for (int64_t i = 0; i < n; i++)
	{
		uint32_t u;
		memcpy(&u, &x[i], sizeof(u));
		uint32_t nan = (u & 0x7fffffffu) > 0x7f800000u;
		y[i] = (uint16_t)(nan ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
	}
}

#if SIMD_LEVEL == 4
/* The instruction rounds alike, but makes 0 of denormal numbers, so what has some is left to the loop. Returns how many were converted. */
__attribute__((target("avx512bf16"))) static int64_t round_by_instruction(const float *x,
									  uint16_t *y, int64_t n)
{
	enum { DENORMAL = 0x20, AT_ONCE = 32 };
	int64_t i = 0;

	for (; i + AT_ONCE <= n; i += AT_ONCE) {
		__m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + 16);
		if (_mm512_fpclass_ps_mask(a, DENORMAL) | _mm512_fpclass_ps_mask(b, DENORMAL)) {
			round_to_brain(x + i, y + i, AT_ONCE);
			continue;
		}
		__m512bh both = _mm512_cvtne2ps_pbh(b, a);
		memcpy(y + i, &both, sizeof(both));
	}
	return i;
}
#endif

static void float_to_brain(const float *x, uint16_t *y, int64_t n)
{
	int64_t done = 0;

#if SIMD_LEVEL == 4
	if (__builtin_cpu_supports("avx512bf16"))
		done = round_by_instruction(x, y, n);
#endif
	round_to_brain(x + done, y + done, n - done);
}

/* A number that is the larger the larger the bf16 number is, and the largest for NaN. */
static inline int16_t brain_order(uint16_t u)
{
	int16_t order = (int16_t)(u ^ ((int16_t)u >> 15 & 0x7fff));

	return (u & 0x7fff) > 0x7f80 ? INT16_MAX : order;
}

static void max_brain(const void *a, const void *b, void *y, int64_t n)
{
	const uint16_t *p = a, *q = b;
	uint16_t *to = y;

	LOOP for (int64_t i = 0; i < n; i++) to[i] =
		brain_order(p[i]) > brain_order(q[i]) ? p[i] : q[i];
}

/* ---- reductions ----------------------------------------------------------------------------- */

/*
 * Defines a function that returns the sum of `term` over all elements v of x. Four independent sums hide the
 * latency of the addition. `none` is a value of v whose term is 0; it fills the lanes behind the last element.
 */
#define SUM(name, params, term, none)                                                              \
	static float name params                                                                   \
	{                                                                                          \
		vf s0 = ZERO, s1 = ZERO, s2 = ZERO, s3 = ZERO, v;                                  \
		int64_t i = 0;                                                                     \
		for (; i + 4 * VW <= n; i += 4 * VW) {                                             \
			v = v_load(x + i);                                                         \
			s0 += term;                                                                \
			v = v_load(x + i + VW);                                                    \
			s1 += term;                                                                \
			v = v_load(x + i + 2 * VW);                                                \
			s2 += term;                                                                \
			v = v_load(x + i + 3 * VW);                                                \
			s3 += term;                                                                \
		}                                                                                  \
		for (; i + VW <= n; i += VW) {                                                     \
			v = v_load(x + i);                                                         \
			s0 += term;                                                                \
		}                                                                                  \
		if (i < n) {                                                                       \
			v = v_load_part(x + i, n - i, v_set(none));                                \
			s1 += term;                                                                \
		}                                                                                  \
		return v_hsum((s0 + s1) + (s2 + s3));                                              \
	}
SUM(sum, (const float *x, int64_t n), v, 0)
SUM(sum_abs, (const float *x, int64_t n), v_abs(v), 0)
SUM(sum_square, (const float *x, int64_t n), v *v, 0)
SUM(sum_deviation, (const float *x, int64_t n, float mean), (v - v_set(mean)) * (v - v_set(mean)), mean)

static float dot(const float *a, const float *b, int64_t n)
{
	vf s0 = ZERO, s1 = ZERO;
	int64_t i = 0;

	for (; i + 2 * VW <= n; i += 2 * VW) {
		s0 = v_fma(v_load(a + i), v_load(b + i), s0);
		s1 = v_fma(v_load(a + i + VW), v_load(b + i + VW), s1);
	}
	float s = v_hsum(s0 + s1);
	for (; i < n; i++)
		s += a[i] * b[i];
	return s;
}

/* Returns the maximum of sign * x[i], or NaN if any x[i] is NaN. Four independent maxima hide the latency. */
static inline float signed_max(const float *x, int64_t n, float sign)
{
	vf m0 = v_set(-INFINITY), m1 = m0, m2 = m0, m3 = m0, f = v_set(sign), a, b, c, d;
	vm nan = v_isnan(m0);
	int64_t i = 0;
	float m;

	for (; i + 4 * VW <= n; i += 4 * VW) {
		a = f * v_load(x + i);
		b = f * v_load(x + i + VW);
		c = f * v_load(x + i + 2 * VW);
		d = f * v_load(x + i + 3 * VW);
		nan = v_or(nan, v_or(v_isnan(a + b), v_isnan(c + d)));
		m0 = v_max(a, m0); /* v_max returns m0 if a is NaN */
		m1 = v_max(b, m1);
		m2 = v_max(c, m2);
		m3 = v_max(d, m3);
	}
	for (; i < n; i += VW) {
		a = n - i < VW ? v_load_part(x + i, n - i, f * v_set(-INFINITY)) : v_load(x + i);
		nan = v_or(nan, v_isnan(a));
		m0 = v_max(f * a, m0);
	}
	m = v_hmax(v_max(v_max(m0, m1), v_max(m2, m3)));
	/* either an x[i] is NaN, or a false alarm: sums of two vectors are also NaN for inf + -inf. Check each element. */
	if (v_any(nan))
		for (i = 0; i < n; i++)
			m = sign * x[i] > m || x[i] != x[i] ? sign * x[i] : m;
	return m;
}

static float run_max(const float *x, int64_t n)
{
	return signed_max(x, n, 1);
}

static float run_min(const float *x, int64_t n)
{
	return -signed_max(x, n, -1);
}

/* Returns the sum of exp(x - max), and stores the terms in y if y is not NULL. */
static inline float exp_run(const float *x, float *y, int64_t n, float max)
{
	vf s = ZERO, m = v_set(max), e;
	int64_t i = 0;

	for (; i + VW <= n; i += VW) {
		e = v_exp(v_load(x + i) - m);
		if (y)
			v_store(y + i, e);
		s += e;
	}
	if (i < n) {
		e = v_exp(v_load_part(x + i, n - i, v_set(-INFINITY)) - m);
		if (y)
			v_store_part(y + i, n - i, e);
		s += e;
	}
	return v_hsum(s);
}
static float exp_sum(const float *x, float *y, int64_t n, float max)
{
	return exp_run(x, y, n, max);
}
static float sum_exp(const float *x, int64_t n, float max)
{
	return exp_run(x, NULL, n, max);
}

static void normalize(const float *x, float *y, int64_t n, float mean, float scale, const float *w,
		      const float *b)
{
	if (w && b) {
		LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + b[i];
	} else if (w) {
		LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i];
	} else {
		LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale;
	}
}

static void scale_shift(const float *x, float *y, int64_t n, float center, float scale, float shift)
{
	LOOP for (int64_t i = 0; i < n; i++) y[i] = (x[i] - center) * scale + shift;
}

static void bias_map(const float *x, const float *b, float *y, int64_t n, enum vfun f)
{
	add_f32(x, b, y, n);
	if (f == VF_GELU)
		map_GELU(y, y, n, NULL);
	else
		map_GELU_TANH(y, y, n, NULL);
}

/* The usual number of channels is a constant, so that the compiler unrolls the loop over them. */
static void brain_rows_to_float(const uint16_t *x, int64_t x_step, float *y, int64_t y_step,
				int64_t n, int64_t rows)
{
	for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step)
		if (n == 64)
			brain_to_float(x, y, 64);
		else
			brain_to_float(x, y, n);
}

static void float_rows_to_brain(const float *x, int64_t x_step, uint16_t *y, int64_t y_step,
				int64_t n, int64_t rows)
{
	for (int64_t r = 0; r < rows; r++, x += x_step, y += y_step)
		if (n == 64)
			float_to_brain(x, y, 64);
		else
			float_to_brain(x, y, n);
}

/*
 * Computes `at_once` outputs of a depthwise row for a vector of channels. Constants come in where this is inlined, but the loop over
 * rows of the window stays: without it, the compiler would keep all elements of the window on the stack.
 */
static inline __attribute__((always_inline)) void depthwise_outputs(const float *const *rows,
								    int kernel, int at_once,
								    int64_t stride, const float *w,
								    int64_t channels, vf b, float *y)
{
	vf sum[8];

#pragma GCC unroll 8
	for (int o = 0; o < at_once; o++)
		sum[o] = b;
#pragma GCC unroll 1
	for (int i = 0; i < kernel; i++)
#pragma GCC unroll 7
		for (int j = 0; j < kernel; j++) {
			vf tap = v_load(w + (i * kernel + j) * channels);
#pragma GCC unroll 8
			for (int o = 0; o < at_once; o++)
				sum[o] = v_fma(v_load(rows[i] + (o * stride + j) * DEPTHWISE_PITCH),
					       tap, sum[o]);
		}
#pragma GCC unroll 8
	for (int o = 0; o < at_once; o++)
		v_store(y + o * channels, sum[o]);
}

/* A chain of sums waits for each of them, so that eight at once keep the units busy. */
static inline __attribute__((always_inline)) void depthwise_window(const float *const *rows,
								   int kernel, int64_t stride,
								   const float *w, const float *b,
								   float *y, int64_t channels,
								   int64_t n)
{
	for (int64_t c = 0; c < channels; c += VW) {
		const float *at[7];
		vf add = v_load(b + c);
#pragma GCC unroll 7
		for (int i = 0; i < kernel; i++)
			at[i] = rows[i] + c;
		float *to = y + c;
		for (int64_t o = 0, count; o < n; o += count, to += count * channels) {
			count = n - o >= 8 ? 8 : n - o >= 4 ? 4 : 1;
			if (count == 8)
				depthwise_outputs(at, kernel, 8, stride, w + c, channels, add, to);
			else if (count == 4)
				depthwise_outputs(at, kernel, 4, stride, w + c, channels, add, to);
			else
				depthwise_outputs(at, kernel, 1, stride, w + c, channels, add, to);
#pragma GCC unroll 7
			for (int i = 0; i < kernel; i++)
				at[i] += count * stride * DEPTHWISE_PITCH;
		}
	}
}

/* Adds the products for `vectors` vectors of outputs, a constant where this is inlined. */
static inline __attribute__((always_inline)) void correlate_vectors(const float *x, const float *w,
								    int64_t taps, float *y,
								    int vectors)
{
	vf sum[8];

#pragma GCC unroll 8
	for (int v = 0; v < vectors; v++)
		sum[v] = v_load(y + v * VW);
	for (int64_t k = 0; k < taps; k++) {
		vf tap = v_set(w[k]);
#pragma GCC unroll 8
		for (int v = 0; v < vectors; v++)
			sum[v] = v_fma(v_load(x + k + v * VW), tap, sum[v]);
	}
#pragma GCC unroll 8
	for (int v = 0; v < vectors; v++)
		v_store(y + v * VW, sum[v]);
}

static void correlate(const float *x, const float *w, int64_t taps, float *y, int64_t n)
{
	int64_t i = 0;

	for (; i + 8 * VW <= n; i += 8 * VW)
		correlate_vectors(x + i, w, taps, y + i, 8);
	for (; i + VW <= n; i += VW)
		correlate_vectors(x + i, w, taps, y + i, 1);
	for (; i < n; i++)
		for (int64_t k = 0; k < taps; k++)
			y[i] += x[i + k] * w[k];
}

#define WINDOW(kernel, stride, channels)                                                           \
	depthwise_window(rows, kernel, stride, w, b, y, channels, n)
#define STRIDES(kernel)                                                                            \
	stride == 1 && channels == 64 ? WINDOW(kernel, 1, 64)                                      \
	: stride == 1		      ? WINDOW(kernel, 1, channels)                                \
	: stride == 2		      ? WINDOW(kernel, 2, channels)                                \
				      : WINDOW(kernel, stride, channels)

static void depthwise_row(const float *const *rows, int kernel, int64_t stride, const float *w,
			  const float *b, float *y, int64_t channels, int64_t n)
{
	if (kernel == 3)
		STRIDES(3);
	else if (kernel == 5)
		STRIDES(5);
	else
		STRIDES(7);
}
#undef STRIDES
#undef WINDOW

/* Multiplies in independent lanes, because in a single chain each multiplication would wait for the one before. */
static double product(const float *x, int64_t n)
{
	enum { LANES = 32 };
	double lane[LANES], r = 1;
	int64_t i = 0;

	for (int k = 0; k < LANES; k++)
		lane[k] = 1;
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lane[k] *= (double)x[i + k];
	for (int k = 0; k < LANES; k++)
		r *= lane[k];
	for (; i < n; i++)
		r *= (double)x[i];
	return r;
}

static void turn_halves(const float *x, float *y, int64_t n, const float *co, const float *si)
{
	LOOP for (int64_t i = 0; i < n; i++)
	{
		float u = x[i], v = x[n + i];
		y[i] = co[i] * u - si[i] * v;
		y[n + i] = si[i] * u + co[i] * v;
	}
}

static void turn_pairs(const float *x, float *y, int64_t n, const float *co, const float *si)
{
	LOOP for (int64_t i = 0; i < n; i++)
	{
		float u = x[2 * i], v = x[2 * i + 1];
		y[2 * i] = co[i] * u - si[i] * v;
		y[2 * i + 1] = si[i] * u + co[i] * v;
	}
}

/* The compiler has shuffles for a step that it knows. */
#define MAX_WINDOWS(t, T)                                                                          \
	static void max_windows_##t(const void *from, int64_t step, int64_t taps, int64_t gap,     \
				    void *to, int64_t n)                                           \
	{                                                                                          \
		const T *x = from;                                                                 \
		T *y = to;                                                                         \
		if (step == 2)                                                                     \
			LOOP for (int64_t i = 0; i < n; i++) y[i] = x[2 * i];                      \
		else                                                                               \
			LOOP for (int64_t i = 0; i < n; i++) y[i] = x[i * step];                   \
		for (int64_t k = 1; k < taps; k++) {                                               \
			x += gap;                                                                  \
			if (step == 1)                                                             \
				max_##t(y, x, y, n);                                               \
			else if (step == 2)                                                        \
				LOOP for (int64_t i = 0; i < n; i++)                               \
				{                                                                  \
					T a = y[i], b = x[2 * i];                                  \
					y[i] = ((a > b) | (a != a)) ? a : b;                       \
				}                                                                  \
			else                                                                       \
				LOOP for (int64_t i = 0; i < n; i++)                               \
				{                                                                  \
					T a = y[i], b = x[i * step];                               \
					y[i] = ((a > b) | (a != a)) ? a : b;                       \
				}                                                                  \
		}                                                                                  \
	}
MAX_WINDOWS(f32, float)
MAX_WINDOWS(f64, double)
MAX_WINDOWS(i8, int8_t)
MAX_WINDOWS(u8, uint8_t)

static void add_every(const float *restrict x, int64_t step, float *restrict y, int64_t n)
{
	if (step == 1)
		LOOP for (int64_t i = 0; i < n; i++) y[i] += x[i];
	else if (step == 2)
		LOOP for (int64_t i = 0; i < n; i++) y[i] += x[2 * i];
	else
		LOOP for (int64_t i = 0; i < n; i++) y[i] += x[i * step];
}

/* The sums of the taps of a vector of means. */
static inline vf sum_of_taps(const struct simd_means *j, const float *x)
{
	vf sum = ZERO;
	float one[VW];

	for (int64_t t = 0; t < j->taps && j->step == 1; t++)
		sum += v_load(x + j->tap[t]);
#if SIMD_LEVEL == 3
	for (int64_t t = 0; t < j->taps && j->step == 2; t++)
		sum += _mm256_shuffle_ps(v_load(x + j->tap[t]), v_load(x + j->tap[t] + VW), 0x88);
	if (j->step == 2)
		return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(sum), 0xd8));
#endif
	for (int64_t t = 0; t < j->taps && j->step != 1; t++) {
		for (int i = 0; i < VW; i++)
			one[i] = x[j->tap[t] + i * j->step];
		sum += v_load(one);
	}
	return sum;
}

static void window_means(const struct simd_means *j, const float *x, float *room, float *y)
{
	float *to = room + j->first;
	const float *by = j->by;

	for (int64_t r = 0; r < j->height; r++, x += j->width, to += j->pitch) {
		int64_t i = 0;
		for (; i + VW <= j->width; i += VW)
			v_store(to + i, v_load(x + i));
		for (; i < j->width; i++)
			to[i] = x[i];
	}
	for (int64_t r = 0; r < j->rows; r++, room += j->down, y += j->n, by += j->n)
		for (int64_t i = 0; i < j->n; i += VW) {
			/* the last vector of a row begins earlier where it can, so that it has no foreign elements */
			i = i + VW > j->n && j->n >= VW ? j->n - VW : i;
			vf mean = sum_of_taps(j, room + i * j->step) / v_load(by + i);
			if (i + VW <= j->n)
				v_store(y + i, mean);
			else
				v_store_part(y + i, j->n - i, mean);
		}
}

/* ---- the table ------------------------------------------------------------------------------ */

#define ARITH(t, T)                                                                                 \
	[VB_ADD][T] = add_##t, [VB_SUB][T] = sub_##t, [VB_MUL][T] = mul_##t, [VB_MAX][T] = max_##t, \
	[VB_MIN][T] = min_##t, [VB_EQ][T] = eq_##t, [VB_LT][T] = lt_##t, [VB_LE][T] = le_##t
#define BITS(t, T) [VB_AND][T] = and_##t, [VB_OR][T] = or_##t, [VB_XOR][T] = xor_##t

#define V_STR2(x) #x
#define V_STR(x)  V_STR2(x)

/* Twelve chains hide a latency of four to six cycles on two units. */
static int multiply_add(int64_t rounds, float *keep)
{
	enum { CHAINS = 12 };
	const vf x = v_set(0.999F), y = v_set(0.001F);
	vf sum[CHAINS];
	float out[VW];

	for (int k = 0; k < CHAINS; k++)
		sum[k] = v_set((float)k);
	for (int64_t i = 0; i < rounds; i++)
#pragma GCC unroll 12
		for (int k = 0; k < CHAINS; k++)
			sum[k] = v_fma(sum[k], x, y);
	for (int k = 1; k < CHAINS; k++)
		sum[0] += sum[k];
	v_store(out, sum[0]);
	*keep = out[0];
	return CHAINS * VW;
}

extern const struct simd V(simd_table);
const struct simd V(simd_table) = {
	.name = "x86-64-v" V_STR(SIMD_LEVEL),
	.ints = INT_MAPS,
	.map =
		{
#define FUNCTION(id, cost, formula) [VF_##id] = map_##id,
#include "ops/unary.def"
		},
	.bin =
		{
			ARITH(f32, DT_F32),
			ARITH(f64, DT_F64),
			ARITH(i8, DT_I8),
			ARITH(u8, DT_U8),
			ARITH(i16, DT_I16),
			ARITH(u16, DT_U16),
			ARITH(i32, DT_I32),
			ARITH(u32, DT_U32),
			ARITH(i64, DT_I64),
			ARITH(u64, DT_U64),
			[VB_MAX][DT_BF16] = max_brain,
			[VB_PRELU][DT_F32] = prelu_f32,
			[VB_PRELU][DT_F64] = prelu_f64,
			[VB_PRELU][DT_I32] = prelu_i32,
			[VB_PRELU][DT_I64] = prelu_i64,
			[VB_PRELU][DT_U32] = prelu_u32,
			[VB_PRELU][DT_U64] = prelu_u64,
			[VB_DIV][DT_F32] = div_f32,
			[VB_DIV][DT_F64] = div_f64,
			[VB_DIV][DT_I8] = div_i8,
			[VB_DIV][DT_U8] = div_u8,
			[VB_DIV][DT_I16] = div_i16,
			[VB_DIV][DT_U16] = div_u16,
			[VB_DIV][DT_I32] = div_i32,
			[VB_DIV][DT_U32] = div_u32,
			BITS(u8, DT_U8),
			BITS(u8, DT_I8),
			BITS(u8, DT_BOOL),
			BITS(u16, DT_U16),
			BITS(u16, DT_I16),
			BITS(u32, DT_U32),
			BITS(u32, DT_I32),
			BITS(u64, DT_U64),
			BITS(u64, DT_I64),
			[VB_EQ][DT_BOOL] = eq_u8,
		},
	.clip = {[DT_F32] = clip_f32,
		 [DT_F64] = clip_f64,
		 [DT_I8] = clip_i8,
		 [DT_U8] = clip_u8,
		 [DT_I16] = clip_i16,
		 [DT_U16] = clip_u16,
		 [DT_I32] = clip_i32,
		 [DT_U32] = clip_u32,
		 [DT_I64] = clip_i64,
		 [DT_U64] = clip_u64},
	.where = {where_8, where_16, where_32, where_64},
	.is_nan = is_nan,
	.is_inf = is_inf,
	.f16_to_f32 = half_to_float,
	.f32_to_f16 = float_to_half,
	.bf16_to_f32 = brain_to_float,
	.f32_to_bf16 = float_to_brain,
	.max = run_max,
	.min = run_min,
	.sum = sum,
	.sum_abs = sum_abs,
	.sum_square = sum_square,
	.sum_deviation = sum_deviation,
	.sum_exp = sum_exp,
	.product = product,
	.dot = dot,
	.exp_sum = exp_sum,
	.normalize = normalize,
	.scale_shift = scale_shift,
	.multiply_add = multiply_add,
	.bias_map = bias_map,
	.bf16_rows_to_f32 = brain_rows_to_float,
	.f32_rows_to_bf16 = float_rows_to_brain,
	.depthwise_row = depthwise_row,
	.correlate = correlate,
	.turn_halves = turn_halves,
	.turn_pairs = turn_pairs,
	.add_every = add_every,
	.window_means = window_means,
	.max_windows =
		{[DT_F32] = max_windows_f32, [DT_F64] = max_windows_f64, [DT_I8] = max_windows_i8, [DT_U8] = max_windows_u8},
};
