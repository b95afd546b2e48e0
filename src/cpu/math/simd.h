/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_SIMD_H
#define CPU_MATH_SIMD_H
/*
 * Tables of inner loops, one for each instruction set level that the build knows; simd() is the
 * best one that the machine runs. Every loop works in place too (y the same as an input), over
 * dense runs of n elements. Callers split the work over threads.
 */
#include "ir/dtype.h"

/* Functions of one fp32 vector, those of ops/unary.def; p: their parameters a and b, or NULL if they have none. */
enum vfun {
#define FUNCTION(id, cost, formula) VF_##id,
#include "ops/unary.def"
	VF_COUNT
};
typedef void simd_map(const float *x, float *y, int64_t n, const float *p);

/* Functions of two vectors of one type; the last three give bool. */
enum vbin {
	VB_ADD,
	VB_SUB,
	VB_MUL,
	VB_DIV, /* floats, integers of up to 32 bits: by 0 gives 0 */
	VB_MAX, /* NaN wins */
	VB_MIN,
	VB_AND, /* integers, bool */
	VB_OR,
	VB_XOR,
	VB_PRELU, /* a < 0 ? a * b : a */
	VB_EQ,
	VB_LT,
	VB_LE,
	VB_COUNT
};
typedef void simd_bin(const void *a, const void *b, void *y, int64_t n);

/* Functions of one integer; those that have none for a type are NULL. Of a bool: VI_NOT. */
enum vint { VI_ABS, VI_NEG, VI_SIGN, VI_RELU, VI_NOT, VI_COUNT };
typedef void simd_int(const void *x, void *y, int64_t n);

struct simd {
	const char *name;
	simd_int *ints[VI_COUNT][DT_COUNT];
	simd_map *map[VF_COUNT];
	simd_bin *bin[VB_COUNT][DT_COUNT]; /* NULL where there is none */
	/* clamp to lo..hi, which point at one element each; NaN stays */
	void (*clip[DT_COUNT])(const void *x, void *y, int64_t n, const void *lo, const void *hi);
	/* of 1, 2, 4, 8 bytes: y = c ? a : b */
	void (*where[4])(const uint8_t *c, const void *a, const void *b, void *y, int64_t n);
	/* of fp32, to bool */
	void (*is_nan)(const float *x, uint8_t *y, int64_t n);
	void (*is_inf)(const float *x, uint8_t *y, int64_t n, bool neg, bool pos);
	void (*f16_to_f32)(const uint16_t *x, float *y, int64_t n);
	void (*f32_to_f16)(const float *x, uint16_t *y, int64_t n);
	void (*bf16_to_f32)(const uint16_t *x, float *y, int64_t n);
	void (*f32_to_bf16)(const float *x, uint16_t *y, int64_t n);
	/* reductions of a run */
	float (*max)(const float *x, int64_t n); /* -inf for none; NaN wins */
	float (*min)(const float *x, int64_t n);
	float (*sum)(const float *x, int64_t n);
	float (*sum_abs)(const float *x, int64_t n);
	float (*sum_square)(const float *x, int64_t n);
	float (*sum_deviation)(const float *x, int64_t n, float mean); /* of (x - mean)^2 */
	float (*sum_exp)(const float *x, int64_t n, float max);	       /* of exp(x - max) */
	float (*dot)(const float *a, const float *b, int64_t n);
	float (*exp_sum)(const float *x, float *y, int64_t n, float max); /* y = exp(x - max); their sum */
	/* y = (x - mean) * scale, then y * w + b where w, b are not NULL */
	void (*normalize)(const float *x, float *y, int64_t n, float mean, float scale,
			  const float *w, const float *b);
	/* y = (x - center) * scale + shift */
	void (*scale_shift)(const float *x, float *y, int64_t n, float center, float scale,
			    float shift);
	/* y = act(a + b) for the gelus */
	void (*bias_map)(const float *x, const float *b, float *y, int64_t n, enum vfun f);
};

const struct simd *simd(void);

/* Runs of floating-point data to and from fp32, by the fast loops where there are any. */
void simd_to_f32(enum dtype t, const void *src, int64_t first, int64_t n, float *dst);
void simd_from_f32(enum dtype t, const float *src, int64_t n, void *dst, int64_t first);

#endif
