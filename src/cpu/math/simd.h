/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_SIMD_H
#define CPU_MATH_SIMD_H
/*
 * Tables of inner loops, one for each instruction set level of the build; simd() returns the best one
 * that this machine supports. The loops run over dense arrays of n elements; the output may be the
 * same array as an input. The caller divides the work among threads.
 */
#include "ir/dtype.h"

/* The functions of ops/unary.def on fp32. p points at the parameters a and b, or is NULL if the function has none. */
enum vfun {
#define FUNCTION(id, cost, formula) VF_##id,
#include "ops/unary.def"
	VF_COUNT
};
typedef void simd_map(const float *x, float *y, int64_t n, const float *p);

/* Functions of two arrays of the same type. The last three functions return bool. */
enum vbin {
	VB_ADD,
	VB_SUB,
	VB_MUL,
	VB_DIV, /* for floats, and for integers of up to 32 bits, where x / 0 = 0 */
	VB_MAX, /* NaN if either operand is NaN */
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

/* Functions of one integer. The table `ints` has NULL for a type that lacks the function; bool has only VI_NOT. */
enum vint { VI_ABS, VI_NEG, VI_SIGN, VI_RELU, VI_NOT, VI_COUNT };
typedef void simd_int(const void *x, void *y, int64_t n);

/* an odd number of cache lines: neighbouring positions share no sets of the cache */
enum { DEPTHWISE_PITCH = 80 };

/* Means of the windows of a plane. */
struct simd_means {
	int64_t width, height; /* of the plane */
	int64_t rows, n;       /* of the means: their rows, and how many a row has */
	int64_t taps, step,
		down; /* elements of a window; from one mean to the next along a row, and between rows */
	const int32_t *tap; /* where in the plane with pads the elements of the first window lie */
	int64_t first, pitch; /* of the plane with pads: where the plane begins, and from row to row */
	const float *by;      /* what each sum is divided by; SIMD_MOST more numbers may be read */
};
enum { SIMD_MOST = 16 }; /* floats of a vector */

struct simd {
	const char *name;
	simd_int *ints[VI_COUNT][DT_COUNT];
	simd_map *map[VF_COUNT];
	simd_bin *bin[VB_COUNT][DT_COUNT]; /* NULL: not for this type */
	/* clamp to *lo..*hi; NaN stays NaN */
	void (*clip[DT_COUNT])(const void *x, void *y, int64_t n, const void *lo, const void *hi);
	/* y = c ? a : b, for elements of 1, 2, 4 and 8 bytes */
	void (*where[4])(const uint8_t *c, const void *a, const void *b, void *y, int64_t n);
	/* from fp32 to bool */
	void (*is_nan)(const float *x, uint8_t *y, int64_t n);
	void (*is_inf)(const float *x, uint8_t *y, int64_t n, bool neg, bool pos);
	void (*f16_to_f32)(const uint16_t *x, float *y, int64_t n);
	void (*f32_to_f16)(const float *x, uint16_t *y, int64_t n);
	void (*bf16_to_f32)(const uint16_t *x, float *y, int64_t n);
	void (*f32_to_bf16)(const float *x, uint16_t *y, int64_t n);
	/* reductions of n elements */
	float (*max)(const float *x, int64_t n); /* -inf if n is 0; NaN if any element is NaN */
	float (*min)(const float *x, int64_t n);
	float (*sum)(const float *x, int64_t n);
	float (*sum_abs)(const float *x, int64_t n);
	float (*sum_square)(const float *x, int64_t n);
	float (*sum_deviation)(const float *x, int64_t n, float mean); /* sum of (x - mean)^2 */
	float (*sum_exp)(const float *x, int64_t n, float max);	       /* sum of exp(x - max) */
	/* In double, where products of a row are seldom denormal, which would be slow. */
	double (*product)(const float *x, int64_t n);
	float (*dot)(const float *a, const float *b, int64_t n);
	float (*exp_sum)(const float *x, float *y, int64_t n,
			 float max); /* y = exp(x - max); returns the sum of y */
	/* y = (x - mean) * scale, then times w if w is not NULL, then plus b if b is not NULL too */
	void (*normalize)(const float *x, float *y, int64_t n, float mean, float scale,
			  const float *w, const float *b);
	/* y = (x - center) * scale + shift */
	void (*scale_shift)(const float *x, float *y, int64_t n, float center, float scale,
			    float shift);
	/*
	 * Does `rounds` rounds of multiply-adds between registers, as many side by side as keep the units busy. Returns the
	 * number of multiply-adds of a round; *keep takes a result, so that no compiler leaves them out.
	 */
	int (*multiply_add)(int64_t rounds, float *keep);
	/* y = f(x + b); f is VF_GELU or VF_GELU_TANH */
	void (*bias_map)(const float *x, const float *b, float *y, int64_t n, enum vfun f);
	/* Convert `rows` rows of n elements, whose beginnings are x_step and y_step elements apart. */
	void (*bf16_rows_to_f32)(const uint16_t *x, int64_t x_step, float *y, int64_t y_step,
				 int64_t n, int64_t rows);
	void (*f32_rows_to_bf16)(const float *x, int64_t x_step, uint16_t *y, int64_t y_step,
				 int64_t n, int64_t rows);
	/*
	 * A row of a convolution of each channel with a window of its own: y[o][c] = b[c] + the sum over i and j of
	 * rows[i][o * stride + j][c] * w[i * kernel + j][c]. The positions of a row are DEPTHWISE_PITCH elements apart, `channels`
	 * is a multiple of 16 below that, `kernel` is 3, 5 or 7.
	 */
	void (*depthwise_row)(const float *const *rows, int kernel, int64_t stride, const float *w,
			      const float *b, float *y, int64_t channels, int64_t n);
	/* y[i] += the sum over k of x[i + k] * w[k] */
	void (*correlate)(const float *x, const float *w, int64_t taps, float *y, int64_t n);
	/*
	 * Turn n pairs (u, v) by angles whose cosines and sines are given: u' = cos u - sin v, v' = sin u + cos v. A pair lies n
	 * elements apart, or side by side. y may be x.
	 */
	void (*turn_halves)(const float *x, float *y, int64_t n, const float *co, const float *si);
	void (*turn_pairs)(const float *x, float *y, int64_t n, const float *co, const float *si);
	/* y[i] = the maximum of x[i * step + k * gap] over k below `taps`, for the types of MaxPool; NaN if any is NaN */
	void (*max_windows[DT_COUNT])(const void *x, int64_t step, int64_t taps, int64_t gap,
				      void *y, int64_t n);
	/*
	 * Writes the means of plane x to y. `room` is the plane with pads, which are 0; behind it lie SIMD_MOST * (step + 1) more zeros.
	 */
	void (*window_means)(const struct simd_means *j, const float *x, float *room, float *y);
	/* y[i] += x[i * step] */
	void (*add_every)(const float *x, int64_t step, float *y, int64_t n);
};

const struct simd *simd(void);

/*
 * Convert n elements of a floating-point type, from index `first` of that type's array on, to and from fp32. fp16 and
 * bf16 use SIMD loops.
 */
void simd_to_f32(enum dtype t, const void *src, int64_t first, int64_t n, float *dst);
void simd_from_f32(enum dtype t, const float *src, int64_t n, void *dst, int64_t first);

#endif
