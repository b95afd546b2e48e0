/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QUANT_H
#define CPU_QUANTIZED_QUANT_H
/* What kernels of quantized operators share: codes, their scales and their zero points. */
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

/* What is rounded to a code. */
static inline float clamped(float v, float low, float high)
{
	v = v >= low ? v : low; /* NaN too */
	return v <= high ? v : high;
}

static inline float scale_at(const struct tensor *t, int64_t i)
{
	return tensor_dtype(t) == DT_F32 ? ((const float *)t->data)[i]
					 : (float)elem_f64(tensor_dtype(t), t->data, i);
}

/* Number i of n; those of a batch count on from batch_first, where there are that many. */
static inline float scale_of(const struct tensor *t, int64_t i, int64_t n, int64_t batch_first)
{
	int64_t count = tensor_count(t);

	if (count == 1)
		return scale_at(t, 0);
	return scale_at(t, count == n ? i : batch_first + i);
}

static inline int32_t zero_of(const struct tensor *z, int64_t i, int64_t n, int64_t first)
{
	if (!z)
		return 0;
	int64_t count = tensor_count(z);
	bool is_signed = tensor_dtype(z) == DT_I8;
	return (int32_t)int8_at(z->data, is_signed, count == 1 ? 0 : count == n ? i : first + i);
}

/* What bytes of this type are flipped by to be taken as the other kind, and how zero points move. */
static inline uint8_t flip_to(bool want_signed, enum dtype t)
{
	return (t == DT_I8) == want_signed ? 0 : IGEMM_FLIP;
}

static inline int32_t zero_move(bool want_signed, uint8_t flip)
{
	return want_signed ? -flip : flip;
}

#endif
