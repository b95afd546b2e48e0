/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_VMATH_H
#define CPU_MATH_VMATH_H
/*
 * Vectors of floats and the elementary functions on them, accurate to about two units in the last
 * place. Only for *.simd.c files, which are compiled once for each SIMD_LEVEL (2, 3 and 4 are
 * x86-64-v2, v3 and v4; 0 is any other machine, with NEON where that is 64-bit ARM). V(F) appends the level to the name F.
 *
 * We fitted the polynomials ourselves, to nearly the least maximum error: by weighted least squares on
 * Chebyshev nodes, rounding one coefficient after the other to fp32.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define V_PASTE2(name, level) name##_v##level
#define V_PASTE(name, level)  V_PASTE2(name, level)
#define V(name)		      V_PASTE(name, SIMD_LEVEL)

#if SIMD_LEVEL >= 2
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if SIMD_LEVEL == 4
enum { VW = 16 };
typedef __m512 vf;
typedef __mmask16 vm;
#elif SIMD_LEVEL == 3
enum { VW = 8 };
typedef __m256 vf;
typedef __m256 vm;
#else
enum { VW = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));
#endif
typedef int32_t vi __attribute__((vector_size(4 * VW)));
typedef uint32_t vu __attribute__((vector_size(4 * VW))); /* unsigned, because its arithmetic wraps */

static inline vf v_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof(v));
	return v;
}
static inline void v_store(float *p, vf v)
{
	memcpy(p, &v, sizeof(v));
}

/* ---- operations that are alike in all instruction sets */

#if SIMD_LEVEL == 4
#define MM(op)		     _mm512_##op
#define RAW(v)		     ((__m512)(v))
#define RAWI(v)		     ((__m512i)(v))
#define v_roundto(a, mode)   _mm512_roundscale_ps((a), (mode))
#define V_COMPARE(a, b, how) _mm512_cmp_ps_mask((a), (b), (how))
#elif SIMD_LEVEL == 3
#define MM(op)		     _mm256_##op
#define RAW(v)		     ((__m256)(v))
#define RAWI(v)		     ((__m256i)(v))
#define v_roundto(a, mode)   _mm256_round_ps((a), (mode))
#define V_COMPARE(a, b, how) _mm256_cmp_ps((a), (b), (how))
#elif SIMD_LEVEL == 2
#define MM(op)		   _mm_##op
#define RAW(v)		   ((__m128)(v))
#define RAWI(v)		   ((__m128i)(v))
#define v_roundto(a, mode) ((vf)_mm_round_ps((__m128)(a), (mode)))
#endif

#if SIMD_LEVEL >= 2
/* v_min and v_max return the second argument, b, if either argument is NaN. */
static inline vf v_min(vf a, vf b)
{
	return (vf)MM(min_ps)(RAW(a), RAW(b));
}
static inline vf v_max(vf a, vf b)
{
	return (vf)MM(max_ps)(RAW(a), RAW(b));
}
static inline vf v_sqrt(vf a)
{
	return (vf)MM(sqrt_ps)(RAW(a));
}
static inline vi v_toi(vf a)
{
	return (vi)MM(cvtps_epi32)(RAW(a));
}
static inline vf v_tof(vi a)
{
	return (vf)MM(cvtepi32_ps)(RAWI(a));
}
#endif

#if SIMD_LEVEL >= 3
static inline vf v_set(float c)
{
	return MM(set1_ps)(c);
}
static inline vf v_fma(vf a, vf b, vf c)
{
	return MM(fmadd_ps)(a, b, c);
}
static inline vm v_lt(vf a, vf b)
{
	return V_COMPARE(a, b, _CMP_LT_OQ);
}
static inline vm v_le(vf a, vf b)
{
	return V_COMPARE(a, b, _CMP_LE_OQ);
}
static inline vm v_eq(vf a, vf b)
{
	return V_COMPARE(a, b, _CMP_EQ_OQ);
}
static inline vm v_isnan(vf a)
{
	return V_COMPARE(a, a, _CMP_UNORD_Q);
}
#endif

/* ---- operations that differ between the instruction sets */

#if SIMD_LEVEL == 4
static inline vf v_sel(vm m, vf a, vf b)
{
	return _mm512_mask_blend_ps(m, b, a);
}
static inline vm v_or(vm a, vm b)
{
	return a | b;
}
static inline int v_any(vm m)
{
	return m != 0;
}
#elif SIMD_LEVEL == 3
static inline vf v_sel(vm m, vf a, vf b)
{
	return _mm256_blendv_ps(b, a, m);
}
static inline vm v_or(vm a, vm b)
{
	return _mm256_or_ps(a, b);
}
static inline int v_any(vm m)
{
	return _mm256_movemask_ps(m) != 0;
}
#else
static inline vf v_set(float c)
{
	return (vf){c, c, c, c};
}
static inline vf v_fma(vf a, vf b, vf c)
{
#if defined(__aarch64__)
	return vfmaq_f32(c, a, b);
#else
	return a * b + c;
#endif
}
static inline vm v_lt(vf a, vf b)
{
	return (vm)(a < b);
}
static inline vm v_le(vf a, vf b)
{
	return (vm)(a <= b);
}
static inline vm v_eq(vf a, vf b)
{
	return (vm)(a == b);
}
static inline vm v_isnan(vf a)
{
	return (vm)(a != a);
}
static inline vf v_sel(vm m, vf a, vf b)
{
	return (vf)(((vi)a & m) | ((vi)b & ~m));
}
static inline vm v_or(vm a, vm b)
{
	return a | b;
}
static inline int v_any(vm m)
{
	return (m[0] | m[1] | m[2] | m[3]) != 0;
}
#if SIMD_LEVEL != 2
static inline vf v_min(vf a, vf b)
{
	return v_sel(v_lt(a, b), a, b);
}
static inline vf v_max(vf a, vf b)
{
	return v_sel(v_lt(b, a), a, b);
}
#if defined(__aarch64__)
static inline vf v_sqrt(vf a)
{
	return vsqrtq_f32(a);
}
static inline vf v_rint(vf a)
{
	return vrndnq_f32(a);
}
static inline vf v_floor(vf a)
{
	return vrndmq_f32(a);
}
static inline vf v_ceil(vf a)
{
	return vrndpq_f32(a);
}
/* NEON turns what does not fit into the nearest integer; the other instruction sets, and so this, into INT32_MIN. */
static inline vi v_toi(vf a)
{
	vi fits = (vi)(a > -2e9f) & (vi)(a < 2e9f);
	return (vcvtnq_s32_f32(a) & fits) | (INT32_MIN & ~fits);
}
static inline vf v_tof(vi a)
{
	return vcvtq_f32_s32(a);
}
#else
static inline vf v_sqrt(vf a)
{
	return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])};
}
static inline vf v_rint(vf a)
{
	return (vf){rintf(a[0]), rintf(a[1]), rintf(a[2]), rintf(a[3])};
}
static inline vf v_floor(vf a)
{
	return (vf){floorf(a[0]), floorf(a[1]), floorf(a[2]), floorf(a[3])};
}
static inline vf v_ceil(vf a)
{
	return (vf){ceilf(a[0]), ceilf(a[1]), ceilf(a[2]), ceilf(a[3])};
}
static inline int32_t v_toi1(float a)
{
	return a > -2e9f && a < 2e9f ? (int32_t)rintf(a) : INT32_MIN;
}
static inline vi v_toi(vf a)
{
	return (vi){v_toi1(a[0]), v_toi1(a[1]), v_toi1(a[2]), v_toi1(a[3])};
}
static inline vf v_tof(vi a)
{
	return (vf){(float)a[0], (float)a[1], (float)a[2], (float)a[3]};
}
#endif
#endif
#endif

#if SIMD_LEVEL >= 2
static inline vf v_rint(vf a)
{
	return v_roundto(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_floor(vf a)
{
	return v_roundto(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vf v_ceil(vf a)
{
	return v_roundto(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
#endif

/* Loading n < VW elements fills the remaining lanes from `fill`; storing writes only the first n < VW lanes. */
#if SIMD_LEVEL == 4
static inline vf v_load_part(const float *p, int64_t n, vf fill)
{
	return _mm512_mask_loadu_ps(fill, (__mmask16)((1u << n) - 1), p);
}
static inline void v_store_part(float *p, int64_t n, vf v)
{
	_mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
#elif SIMD_LEVEL == 3
static inline __m256i v_first(int64_t n)
{
	__m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}
static inline vf v_load_part(const float *p, int64_t n, vf fill)
{
	__m256i m = v_first(n);
	return _mm256_blendv_ps(fill, _mm256_maskload_ps(p, m), (__m256)m);
}
static inline void v_store_part(float *p, int64_t n, vf v)
{
	_mm256_maskstore_ps(p, v_first(n), v);
}
#else
static inline vf v_load_part(const float *p, int64_t n, vf fill)
{
	memcpy(&fill, p, (size_t)n * sizeof(float));
	return fill;
}
static inline void v_store_part(float *p, int64_t n, vf v)
{
	memcpy(p, &v, (size_t)n * sizeof(float));
}
#endif

static inline vi v_seti(int32_t c)
{
	return (vi){0} + c;
}
static inline vf v_abs(vf a)
{
	return (vf)((vi)a & v_seti(0x7fffffff));
}
static inline vf v_copysign(vf mag, vf sign)
{
	vi s = v_seti(INT32_MIN);
	return (vf)(((vi)mag & ~s) | ((vi)sign & s));
}
/* Returns 2^n for n in -126..127, by setting the exponent bits. */
static inline vf v_pow2(vi n)
{
	return (vf)(((vu)n + 127u) << 23);
}

/*
 * Reduces the argument of exp: returns r with x = r + *n * ln 2, *n an integer and |r| <= ln 2 / 2. x must be in
 * -150..150. ln 2 is subtracted in two parts to keep the digits that one fp32 constant would lose.
 */
static inline vf v_exp_reduce(vf x, vf *n)
{
#if SIMD_LEVEL == 3
	/* as v_exp_near rounds, so that an element does not depend on its neighbours in the vector */
	*n = v_fma(x, v_set(1.44269504f), v_set(0x1.8p23f)) - v_set(0x1.8p23f);
#else
	*n = v_rint(x * v_set(1.44269504f));
#endif
	x = v_fma(*n, v_set(-0.693359375f), x);
	return v_fma(*n, v_set(2.12194442e-4f), x);
}
/* exp(r) - 1 */
static inline vf v_exp_poly(vf r)
{
	vf q = v_set(1.39378617e-3f);
	q = v_fma(q, r, v_set(8.36898386e-3f));
	q = v_fma(q, r, v_set(4.16664332e-2f));
	q = v_fma(q, r, v_set(0.166665182f));
	q = v_fma(q, r, v_set(0.5f));
	return v_fma(r * r, q, r);
}
#if SIMD_LEVEL == 3
/*
 * exp of -87..87, where the result is normal. A sum with 1.5 * 2^23 has the rounded product in its low bits, from where a shift brings it to the exponent.
 * That and a single scaling by an integer addition take half of the time of what works for all x.
 */
static inline vf v_exp_near(vf x)
{
	const vf magic = v_set(0x1.8p23f);
	vf sum = v_fma(x, v_set(1.44269504f), magic), n = sum - magic;
	vf r = v_fma(n, v_set(2.12194442e-4f), v_fma(n, v_set(-0.693359375f), x));

	return (vf)((vu)(v_exp_poly(r) + v_set(1.0f)) + ((vu)sum << 23));
}
#endif
static inline vf v_exp(vf x)
{
	vf n, p;
	/* Where the result is 0 nothing is scaled: that takes a hundred times as long when it underflows. */
#if SIMD_LEVEL == 4
	__mmask16 some = _mm512_cmp_ps_mask(x, v_set(-104.0f), _CMP_NLT_UQ);
#else
	vm none = v_lt(x, v_set(-104.0f));
#endif
#if SIMD_LEVEL == 3
	/* as integers, infinities and NaN are above 87, too */
	if (__builtin_expect(!v_any((vm)((vi)v_abs(x) > v_seti(0x42ae0000))), 1))
		return v_exp_near(x);
#endif
	x = v_min(v_set(89.5f), v_max(v_set(-105.0f), x)); /* a NaN stays */
#if SIMD_LEVEL != 4
	x = v_sel(none, v_set(0), x);
#endif
	p = v_exp_poly(v_exp_reduce(x, &n)) + v_set(1.0f);
#if SIMD_LEVEL == 4
	return _mm512_maskz_scalef_ps(some, p, n);
#else
	/* multiply by 2^n in two factors, since n may exceed fp32's exponents */
	vi i = v_toi(n), half = i >> 1;
	return v_sel(none, v_set(0), p * v_pow2(half) * v_pow2(i - half));
#endif
}
/* exp(x) - 1 for x <= 0 */
static inline vf v_expm1_neg(vf x)
{
	vf n, t, s;
	x = v_max(v_set(-80.0f), x);
	t = v_exp_poly(v_exp_reduce(x, &n));
	s = v_pow2(v_toi(n));
	t = v_fma(s, t, s - v_set(1.0f));
	return v_sel(v_isnan(x), x, t);
}
/* exp(x) - 1; for small positive x from that of -x, because the difference would lose digits. */
static inline vf v_expm1(vf x)
{
	vf one = v_set(1.0f), t = v_expm1_neg(-v_abs(x)), y = -t / (one + t);
	return v_sel(v_le(x, v_set(0)), t, v_sel(v_lt(x, one), y, v_exp(x) - one));
}

/* Returns log(x) + e0 * ln 2 for a positive normal x. */
static inline vf v_log_normal(vf x, vf e0)
{
	vu i = (vu)x;
	vi e = (vi)(i - 0x3f3504f3u) >> 23; /* mantissa in sqrt(1/2) .. sqrt(2) */
	vf f = (vf)(i - ((vu)e << 23)) - v_set(1.0f), z = f * f, n = v_tof(e) + e0;
	vf p = v_set(-7.63745829e-2f);
	p = v_fma(p, f, v_set(0.127647385f));
	p = v_fma(p, f, v_set(-0.13160409f));
	p = v_fma(p, f, v_set(0.142012984f));
	p = v_fma(p, f, v_set(-0.166233033f));
	p = v_fma(p, f, v_set(0.20001249f));
	p = v_fma(p, f, v_set(-0.250008225f));
	p = v_fma(p, f, v_set(0.333333313f));
	p = v_fma(n, v_set(-2.12194442e-4f), p * z * f);
	p = v_fma(z, v_set(-0.5f), p);
	return v_fma(n, v_set(0.693359375f), f + p);
}
static inline vf v_log(vf x)
{
	vm tiny = v_lt(x, v_set(1.17549435e-38f));
	vf r = v_log_normal(v_sel(tiny, x * v_set(8388608.0f), x),
			    v_sel(tiny, v_set(-23.0f), v_set(0)));
	r = v_sel(v_eq(x, v_set(INFINITY)), x, r);
	r = v_sel(v_eq(x, v_set(0)), v_set(-INFINITY), r);
	r = v_sel(v_lt(x, v_set(0)), v_set(NAN), r);
	return v_sel(v_isnan(x), x, r);
}
/* Returns log(1 + x) for x in 0..1. The second term corrects the rounding of 1 + x. */
static inline vf v_log1p_unit(vf x)
{
	vf u = v_set(1.0f) + x;
	return v_log_normal(u, v_set(0)) + (x - (u - v_set(1.0f))) / u;
}

static inline vf v_sigmoid(vf x)
{
	return v_set(1.0f) / (v_set(1.0f) + v_exp(-x));
}
/*
 * Computes tanh(x) as x times a ratio of two polynomials in x^2. Beyond |x| = 9.02 the result rounds to 1 or -1 in
 * fp32.
 */
static inline vf v_tanh(vf x)
{
	vf c = v_copysign(v_min(v_set(9.02f), v_abs(x)), x), s = c * c;
	vf p = v_set(1.33178386e-8f), q = v_set(7.76152342e-7f);
	p = v_fma(p, s, v_set(2.05826246e-5f));
	q = v_fma(q, s, v_set(3.28300959e-4f));
	p = v_fma(p, s, v_set(3.49398472e-3f));
	q = v_fma(q, s, v_set(2.58708866e-2f));
	p = v_fma(p, s, v_set(0.13379677f));
	q = v_fma(q, s, v_set(0.467129924f));
	p = v_fma(p, s, v_set(1.0f));
	q = v_fma(q, s, v_set(1.0f));
	p = c * (p / q);
	return v_sel(v_lt(v_set(1.0f), v_abs(p)), v_copysign(v_set(1.0f), x), p);
}
static inline vf v_softplus(vf x)
{
	return v_max(v_set(0), x) + v_log1p_unit(v_exp(-v_abs(x)));
}

/* Returns erfc(t) for t >= 0.92, computed as exp of a polynomial. */
static inline vf v_erfc_big(vf t)
{
	t = v_min(v_set(10.0f), t);
	vf p = v_set(4.93676907e-6f);
	p = v_fma(p, t, v_set(-4.55674417e-5f));
	p = v_fma(p, t, v_set(-4.96402608e-5f));
	p = v_fma(p, t, v_set(2.93026795e-3f));
	p = v_fma(p, t, v_set(-2.26742681e-2f));
	p = v_fma(p, t, v_set(0.105262786f));
	p = v_fma(p, t, v_set(0.635625243f));
	p = v_fma(p, t, v_set(0.128551751f));
	return v_exp(v_fma(-t, p, -t));
}
/* erf(x) for |x| < 0.9375 */
static inline vf v_erf_small(vf x)
{
	vf s = x * x;
	vf p = v_set(8.27498006e-5f);
	p = v_fma(p, s, v_set(-8.11946113e-4f));
	p = v_fma(p, s, v_set(5.19887917e-3f));
	p = v_fma(p, s, v_set(-2.68584546e-2f));
	p = v_fma(p, s, v_set(0.112836756f));
	p = v_fma(p, s, v_set(-0.376126319f));
	p = v_fma(p, s, v_set(0.128379166f));
	return v_fma(p, x, x);
}
static inline vf v_erf(vf x)
{
	vf a = v_abs(x), big = v_set(1.0f) - v_erfc_big(a);
	return v_sel(v_lt(a, v_set(0.9375f)), v_erf_small(x), v_copysign(big, x));
}
/*
 * Phi(-a) for a in 0..14.25, where Phi is the normal distribution function: e^(-a^2 / 2) by a polynomial of 1 / (a + 3). It keeps the
 * relative accuracy that 1 - Phi(a) would lose by cancellation, but for what the rounding of a^2 does to the exponential.
 */
static inline vf v_normal_tail(vf a)
{
	vf d = v_set(1.0f) / (a + v_set(3.0f)), w = v_fma(v_set(-6.0f), d, v_set(1.0f));
	vf p = v_set(-2.65859038e-4f);
	p = v_fma(p, w, v_set(-9.00845975e-4f));
	p = v_fma(p, w, v_set(1.07712892e-3f));
	p = v_fma(p, w, v_set(6.92239963e-3f));
	p = v_fma(p, w, v_set(-1.04810139e-2f));
	p = v_fma(p, w, v_set(-4.72558253e-2f));
	p = v_fma(p, w, v_set(0.230019584f));
	p = v_fma(p, w, v_set(-0.509332299f));
	p = v_fma(p, w, v_set(0.729083657f));
	return v_exp(v_set(-0.5f) * a * a) * (p * d);
}
#if SIMD_LEVEL == 4
/*
 * Coefficients of Phi(-a) around each multiple of 3/16, by power: a polynomial that is looked up takes a third of the time of one formula for
 * all numbers. The relative error of one is at most 1e-6 (at 5.9) and mostly 1e-8.
 */
/* clang-format off */
static const float v_gelu_table[6][32] = {
	{0.5f, 0.425634325f, 0.353830248f, 0.286887705f, 0.22662735f, 0.174250707f, 0.130294517f, 0.0946757421f,
	 0.066807203f, 0.0457536243f, 0.0303963609f, 0.0195800792f, 0.0122244731f, 0.00739460718f, 0.00433244836f,
	 0.00245790114f, 0.00134989806f, 0.000717542309f, 0.000369078451f, 0.000183669952f, 8.84172914e-05f,
	 4.11674664e-05f, 1.85367389e-05f, 8.07094511e-06f, 3.39767348e-06f, 1.38281371e-06f, 5.44042393e-07f,
	 2.06897099e-07f, 7.60496306e-08f, 2.70166876e-08f, 9.27540444e-09f, 3.07733639e-09f},
	{-0.398942292f, -0.39199093f, -0.37185514f, -0.340567589f, -0.301137418f, -0.257073879f, -0.211876646f,
	 -0.168593183f, -0.1295176f, -0.0960614979f, -0.0687862709f, -0.0475538932f, -0.0317396522f, -0.0204526745f,
	 -0.0127241816f, -0.00764260581f, -0.00443184841f, -0.00248119095f, -0.00134111871f, -0.000699851895f,
	 -0.000352595671f, -0.000171506064f, -8.05404197e-05f, -3.6515743e-05f, -1.59837309e-05f, -6.75473029e-06f,
	 -2.7559397e-06f, -1.08558345e-06f, -4.12846333e-07f, -1.51581276e-07f, -5.3732176e-08f, -1.83888709e-08f},
	{4.65258942e-09f, 0.0367433019f, 0.0697159991f, 0.0957829282f, 0.112927586f, 0.120505527f, 0.119180776f,
	 0.110639691f, 0.0971374288f, 0.0810522363f, 0.0644875765f, 0.0490397811f, 0.0357069559f, 0.0249266867f,
	 0.0167005025f, 0.0107474336f, 0.00664775819f, 0.00395438308f, 0.00226313341f, 0.00124660681f,
	 0.000661109632f, 0.000337649341f, 0.00016611212f, 7.87353856e-05f, 3.59625228e-05f, 1.58309176e-05f,
	 6.71734642e-06f, 2.74775243e-06f, 1.08366282e-06f, 4.12084631e-07f, 1.51109958e-07f, 5.34378835e-08f},
	{0.0664943829f, 0.0630493537f, 0.0532804206f, 0.0388004072f, 0.0219519716f, 0.00517686876f, -0.00938009657f,
	 -0.0203063022f, -0.0269805733f, -0.0295827109f, -0.0288421549f, -0.025788404f, -0.0214900803f,
	 -0.0168438684f, -0.0124922218f, -0.0088019548f, -0.00590912439f, -0.00378797203f, -0.00232258136f,
	 -0.00136376044f, -0.000767635822f, -0.000414605398f, -0.000214996515f, -0.00010710505f, -5.12855586e-05f,
	 -2.36132564e-05f, -1.04580286e-05f, -4.45673277e-06f, -1.82803262e-06f, -7.21833089e-07f, -2.7446174e-07f,
	 -1.00508061e-07f},
	{-8.44671376e-07f, -0.0085333297f, -0.0159671083f, -0.0212357324f, -0.0230057593f, -0.0214726515f,
	 -0.0172281172f, -0.0118125211f, -0.00600706553f, -0.00107146101f, 0.00271757506f, 0.0051279068f,
	 0.00614197226f, 0.00610500108f, 0.00541053945f, 0.00439543976f, 0.00332621904f, 0.00236254092f,
	 0.00158463407f, 0.00100876321f, 0.00061134994f, 0.000352998875f, 0.000194820008f, 0.000102851292f,
	 5.19833375e-05f, 2.51879192e-05f, 1.17073478e-05f, 5.22321488e-06f, 2.23760139e-06f, 9.21150217e-07f,
	 3.64500039e-07f, 1.38673272e-07f},
	{-0.0102808904f, -0.0104147205f, -0.008515778f, -0.00334628671f, 0.00066111784f, 0.00420308905f,
	 0.00529279374f, 0.00616971031f, 0.00564588374f, 0.00489504868f, 0.00346979243f, 0.00167109282f,
	 0.00042928668f, -0.000475452136f, -0.000967437052f, -0.00114955602f, -0.00110813917f, -0.000939391262f,
	 -0.000713513233f, -0.00050835486f, -0.000341665815f, -0.000213242572f, -0.000126903731f, -7.17594667e-05f,
	 -3.85218555e-05f, -1.97525078e-05f, -9.68202676e-06f, -4.53868506e-06f, -2.03340869e-06f, -8.74697605e-07f,
	 -3.60602399e-07f, -1.42568481e-07f}};
/* clang-format on */
/* The coefficients of power k for the lanes' multiples of 3/16, whose numbers the last bits of i hold. */
static inline vf v_gelu_power(int k, vf i)
{
	const float *t = v_gelu_table[k];
	return _mm512_permutex2var_ps(v_load(t), (__m512i)i, v_load(t + VW));
}
/* Returns x * Phi(x). */
static inline vf v_gelu(vf x)
{
	/* A sum with the magic number is rounded to an integer, which its last bits hold. Denormal factors would be slow. */
	const vf magic = v_set(12582912.0f);
	vf a = v_max(v_set(0x1p-60f), v_min(v_set(5.9f), v_abs(x)));
	vf i = v_fma(a, v_set(5.33333333f), magic), r = v_fma(i - magic, v_set(-0.1875f), a);
	vf q = v_gelu_power(5, i);
	vm far = v_lt(x, v_set(-5.9f));
	q = v_fma(q, r, v_gelu_power(4, i));
	q = v_fma(q, r, v_gelu_power(3, i));
	q = v_fma(q, r, v_gelu_power(2, i));
	q = v_fma(q, r, v_gelu_power(1, i));
	q = v_fma(q, r, v_gelu_power(0, i));
	if (v_any(far))
		q = v_sel(far, v_normal_tail(v_min(v_set(14.25f), v_abs(x))), q);
	return x * v_sel(v_lt(x, v_set(0)), q, v_set(1.0f) - q);
}
#else
static inline vf v_gelu(vf given)
{
	/* Of a tiny number it is the half. Were that number denormal, each multiplication by it would be slow: so there is but one. */
	vm tiny = v_lt(v_abs(given), v_set(0x1p-60f));
	vf x = v_sel(tiny, v_set(0), given), half = v_set(0.5f);
	vf a = v_min(v_abs(x), v_set(14.25f)), t = x * v_set(0.707106781f);
	vf tail = v_normal_tail(a);
	vf phi = v_sel(v_lt(x, v_set(0)), tail, v_set(1.0f) - tail);
	phi = v_sel(v_lt(a, v_set(1.3f)), v_fma(half, v_erf_small(t), half), phi);
	return v_sel(tiny, given * half, x * phi);
}
#endif
static inline vf v_gelu_tanh(vf x)
{
	/* 1 + tanh(u) = 2 sigmoid(2u) */
	vf u = x * v_fma(x * x, v_set(0.0356774081f), v_set(0.797884561f));
	return x * v_sigmoid(u + u);
}
/* Returns x tanh(log(1 + e^x)), computed as x n / (n + 2) with n = e^x (e^x + 2). */
static inline vf v_mish(vf x)
{
	vf e = v_exp(v_min(v_set(30.0f), x)), n = e * (e + v_set(2.0f));
	vf y = x * (n / (n + v_set(2.0f)));
	return v_sel(v_lt(v_set(30.0f), x), x, y);
}
/* x sigmoid(alpha x) */
static inline vf v_swish(vf x, vf alpha)
{
	return x * v_sigmoid(alpha * x);
}

/* Returns sin(x) if add is 0 and cos(x) if add is 1, for |x| <= 8192. */
static inline vf v_sincos(vf x, int add)
{
	vf n = v_rint(x * v_set(0.636619772f));
	vu q = (vu)v_toi(n) + (vu)v_seti(add);
	vf r = v_fma(n, v_set(-1.5703125f), x);
	r = v_fma(n, v_set(-4.83751297e-4f), r);
	r = v_fma(n, v_set(-7.54979013e-8f), r);
	vf s = r * r;
	vf a = v_fma(v_set(-1.95185727e-4f), s, v_set(8.33219104e-3f));
	a = v_fma(a, s, v_set(-0.166666552f));
	a = v_fma(a * s, r, r);
	vf b = v_fma(v_set(2.44327421e-5f), s, v_set(-1.38873118e-3f));
	b = v_fma(b, s, v_set(4.16666456e-2f));
	b = v_fma(b * s, s, v_fma(s, v_set(-0.5f), v_set(1.0f)));
	vu odd = 0u - (q & 1u), sign = (q & 2u) << 30;
	vu bits = ((vu)b & odd) | ((vu)a & ~odd);
	return (vf)(bits ^ sign);
}

/* tan of |x| <= 8192 */
static inline vf v_tan(vf x)
{
	vf c = v_sincos(x, 1);
	return v_sincos(x, 0) / c;
}

/* asin of 0 <= x <= 1/2 */
static inline vf v_asin_small(vf x)
{
	vf s = x * x;
	vf p = v_set(3.76014747e-2f);
	p = v_fma(p, s, v_set(1.43743651e-2f));
	p = v_fma(p, s, v_set(3.18259411e-2f));
	p = v_fma(p, s, v_set(4.45145741e-2f));
	p = v_fma(p, s, v_set(7.50051811e-2f));
	p = v_fma(p, s, v_set(0.166666597f));
	return v_fma(p * s, x, x);
}
static inline vf v_asin(vf x)
{
	vf a = v_abs(x), half = v_set(0.5f);
	vm big = v_lt(half, a);
	vf t = v_sel(big, v_sqrt((v_set(1.0f) - a) * half), a), y = v_asin_small(t);
	y = v_sel(big, v_fma(v_set(-2.0f), y, v_set(1.57079633f)), y);
	return v_copysign(y, x);
}
static inline vf v_acos(vf x)
{
	vf a = v_abs(x), half = v_set(0.5f);
	vm big = v_lt(half, a);
	vf t = v_sel(big, v_sqrt((v_set(1.0f) - a) * half), a), y = v_asin_small(t), twice = y + y;
	vf far = v_sel(v_lt(x, v_set(0)), v_set(3.14159265f) - twice, twice);
	return v_sel(big, far, v_set(1.57079633f) - v_copysign(y, x));
}
static inline vf v_atan(vf x)
{
	vf a = v_abs(x);
	vm big = v_lt(v_set(1.0f), a);
	vf t = v_sel(big, v_set(1.0f) / a, a), s = t * t;
	vf p = v_set(-1.79122353e-3f);
	p = v_fma(p, s, v_set(1.09034106e-2f));
	p = v_fma(p, s, v_set(-3.11559234e-2f));
	p = v_fma(p, s, v_set(5.7934247e-2f));
	p = v_fma(p, s, v_set(-8.40198547e-2f));
	p = v_fma(p, s, v_set(0.109516382f));
	p = v_fma(p, s, v_set(-0.142641246f));
	p = v_fma(p, s, v_set(0.199985355f));
	p = v_fma(p, s, v_set(-0.333332986f));
	p = v_fma(p * s, t, t);
	return v_copysign(v_sel(big, v_set(1.57079633f) - p, p), x);
}

/*
 * Returns e^a / 2, computed as the square of e^(a/2) divided by 2, because e^a alone overflows for some a for which
 * e^a / 2 is finite.
 */
static inline vf v_half_exp(vf a)
{
	vf h = v_exp(a * v_set(0.5f));
	return v_set(0.5f) * h * h;
}
static inline vf v_sinh(vf x)
{
	vf a = v_abs(x), s = x * x, u = v_half_exp(a);
	vf p = v_set(2.79153824e-6f);
	p = v_fma(p, s, v_set(1.984142e-4f));
	p = v_fma(p, s, v_set(8.33331607e-3f));
	p = v_fma(p, s, v_set(0.166666672f));
	p = v_fma(p * s, x, x);
	return v_sel(v_lt(a, v_set(1.0f)), p, v_copysign(u - v_set(0.25f) / u, x));
}
static inline vf v_cosh(vf x)
{
	vf u = v_half_exp(v_abs(x));
	return u + v_set(0.25f) / u;
}
static inline vf v_log1p(vf x)
{
	vf u = v_set(1.0f) + x, c = (x - (u - v_set(1.0f))) / u;
	return v_log(u) + v_sel(v_lt(v_abs(c), v_set(1.0f)), c, v_set(0));
}
static inline vf v_asinh(vf x)
{
	vf a = v_abs(x), one = v_set(1.0f), s = a * a;
	vf y = v_log1p(a + s / (one + v_sqrt(s + one)));
	y = v_sel(v_lt(v_set(1e18f), a), v_log(a) + v_set(0.693147181f), y);
	return v_copysign(y, x);
}
static inline vf v_acosh(vf x)
{
	vf t = x - v_set(1.0f);
	vf y = v_log1p(t + v_sqrt(v_fma(t, t, t + t)));
	return v_sel(v_lt(v_set(1e18f), x), v_log(x) + v_set(0.693147181f), y);
}
static inline vf v_atanh(vf x)
{
	vf a = v_abs(x);
	return v_copysign(v_set(0.5f) * v_log1p((a + a) / (v_set(1.0f) - a)), x);
}

/* v_hsum returns the sum of all lanes, v_hmax the maximum, which requires that no lane is NaN. */
#if SIMD_LEVEL == 4
static inline float v_hsum(vf v)
{
	return _mm512_reduce_add_ps(v);
}
static inline float v_hmax(vf v)
{
	return _mm512_reduce_max_ps(v);
}
#elif SIMD_LEVEL == 3
static inline float v_hsum(vf v)
{
	__m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	h = _mm_add_ps(h, _mm_movehl_ps(h, h));
	return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
static inline float v_hmax(vf v)
{
	__m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	h = _mm_max_ps(h, _mm_movehl_ps(h, h));
	return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
#else
static inline float v_hsum(vf v)
{
	return (v[0] + v[2]) + (v[1] + v[3]);
}
static inline float v_hmax(vf v)
{
	float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
	return a > b ? a : b;
}
#endif

#endif
