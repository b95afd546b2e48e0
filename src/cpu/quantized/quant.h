/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QUANT_H
#define CPU_QUANTIZED_QUANT_H
/* Helpers of the quantized operators' kernels: reading codes, scales and zero points, and clamping to codes. */
#include "backend/backend.h"
#include "cpu/math/igemm.h"
#include "cpu/math/util.h"

#include <math.h>

static inline int64_t int8_at(const void *p, bool is_signed, int64_t i)
{
	return is_signed ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

static inline void int_range(enum dtype t, float *low, float *high)
{
	int bits = (int)dtype_bits(t);

	*low = dtype_class(t) == DT_INT ? -ldexpf(1, bits - 1) : 0;
	*high = dtype_class(t) == DT_INT ? ldexpf(1, bits - 1) - 1 : ldexpf(1, bits) - 1;
}

/* Clamps a rounded value to the range of codes. */
static inline float clamped(float v, float low, float high)
{
	v = v >= low ? v : low; /* also for NaN */
	return v <= high ? v : high;
}

static inline float scale_at(const struct tensor *t, int64_t i)
{
	return tensor_dtype(t) == DT_F32 ? ((const float *)t->data)[i]
					 : (float)elem_f64(tensor_dtype(t), t->data, i);
}

/*
 * Returns the scale of row or column i of n. t holds one scale for all rows, one for each of the n rows, or one for
 * each row of all batches. In the last case the scales of this batch start at index batch_first.
 */
static inline float scale_of(const struct tensor *t, int64_t i, int64_t n, int64_t batch_first)
{
	int64_t count = tensor_count(t);

	if (count == 1)
		return scale_at(t, 0);
	return scale_at(t, count == n ? i : batch_first + i);
}

/* Returns the zero point of row or column i of n, or 0 if z is NULL. z has the same forms as t in scale_of. */
static inline int32_t zero_of(const struct tensor *z, int64_t i, int64_t n, int64_t first)
{
	if (!z)
		return 0;
	int64_t count = tensor_count(z);
	bool is_signed = tensor_dtype(z) == DT_I8;
	return (int32_t)int8_at(z->data, is_signed, count == 1 ? 0 : count == n ? i : first + i);
}

/*
 * igemm multiplies signed bytes of one operand by unsigned bytes of the other. flip_to returns the mask for XOR that
 * makes codes of type t signed or unsigned. The mask is 0 if the codes need no change, otherwise 128, which shifts
 * the codes by 128. zero_move returns the shift that the zero points then need.
 */
static inline uint8_t flip_to(bool want_signed, enum dtype t)
{
	return (t == DT_I8) == want_signed ? 0 : IGEMM_FLIP;
}

static inline int32_t zero_move(bool want_signed, uint8_t flip)
{
	return want_signed ? -flip : flip;
}

#endif
