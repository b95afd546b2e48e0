/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_DTYPE_H
#define IR_DTYPE_H
/* Element types. The numbers are ONNX's (TensorProto.DataType). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
	DT_NONE = 0,
#define DTYPE(NAME, text, number, bits, cls, other) DT_##NAME = number,
#include "ir/element_types.def"
#undef DTYPE
	DT_COUNT
};

enum dtype_class { DT_FLOAT, DT_INT, DT_UINT, DT_COMPLEX, DT_OTHER };

const char *dtype_name(enum dtype t); /* "f32"; "?" for an unknown number */
unsigned dtype_bits(enum dtype t);    /* bits of one element; 0 if t is no known type */
enum dtype_class dtype_class(enum dtype t);
/* accepts "f32", "float" or "float32"; DT_NONE if the name is unknown */
enum dtype dtype_parse(const char *name);

/*
 * Sets *bytes to the memory that `count` elements take; types of less than a byte are packed. Returns false on
 * overflow.
 */
bool dtype_bytes(enum dtype t, int64_t count, size_t *bytes);

/* Type masks: one bit per dtype, and bits for sequences, optionals and maps. */
#define T_BIT(t)     (UINT64_C(1) << (t))
#define T_SEQ	     (UINT64_C(1) << 40)
#define T_OPT	     (UINT64_C(1) << 41)
#define T_MAP	     (UINT64_C(1) << 42)
#define T_F32	     T_BIT(DT_F32)
#define T_F64	     T_BIT(DT_F64)
#define T_F16	     T_BIT(DT_F16)
#define T_BF16	     T_BIT(DT_BF16)
#define T_BOOL	     T_BIT(DT_BOOL)
#define T_STRING     T_BIT(DT_STRING)
#define T_I8	     T_BIT(DT_I8)
#define T_I16	     T_BIT(DT_I16)
#define T_I32	     T_BIT(DT_I32)
#define T_I64	     T_BIT(DT_I64)
#define T_U8	     T_BIT(DT_U8)
#define T_U16	     T_BIT(DT_U16)
#define T_U32	     T_BIT(DT_U32)
#define T_U64	     T_BIT(DT_U64)
#define T_SIGNED     (T_I8 | T_I16 | T_I32 | T_I64)
#define T_UNSIGNED   (T_U8 | T_U16 | T_U32 | T_U64)
#define T_INTS	     (T_SIGNED | T_UNSIGNED)
#define T_FLOATS     (T_F16 | T_F32 | T_F64) /* what early opsets call float types */
#define T_FLOATS_BF  (T_FLOATS | T_BF16)
#define T_NUMERIC    (T_INTS | T_FLOATS)
#define T_NUMERIC_BF (T_NUMERIC | T_BF16)
#define T_COMPLEX    (T_BIT(DT_C64) | T_BIT(DT_C128))
#define T_F8	     (T_BIT(DT_F8E4M3FN) | T_BIT(DT_F8E4M3FNUZ) | T_BIT(DT_F8E5M2) | T_BIT(DT_F8E5M2FNUZ))
#define T_F8E8M0     T_BIT(DT_F8E8M0)
#define T_4BIT	     (T_BIT(DT_U4) | T_BIT(DT_I4))
#define T_F4	     T_BIT(DT_F4E2M1)
#define T_F6	     (T_BIT(DT_F6E2M3) | T_BIT(DT_F6E3M2))
#define T_2BIT	     (T_BIT(DT_U2) | T_BIT(DT_I2))
/* every tensor type, as of the newest opset, but float6, which only Cast, quantization and optionals take */
#define T_ALL                                                                                      \
	(T_NUMERIC_BF | T_BOOL | T_STRING | T_COMPLEX | T_F8 | T_F8E8M0 | T_4BIT | T_F4 | T_2BIT)
/* every tensor type of opsets below 13 */
#define T_ALL_OLD (T_NUMERIC | T_BOOL | T_STRING | T_COMPLEX)
/* every tensor type as of opset 13, 19, ... */
#define T_ALL_13 (T_ALL_OLD | T_BF16)
#define T_ALL_19 (T_ALL_13 | T_F8)
#define T_ALL_21 (T_ALL_19 | T_4BIT)
#define T_ALL_23 (T_ALL_21 | T_F4)
#define T_ALL_24 (T_ALL_23 | T_F8E8M0)

/* The largest finite number of a float of 16 bits or more; infinity for other types. */
double float_largest(enum dtype t);

/*
 * Conversions of one number. Narrowing rounds half to even; overflow becomes infinity if the type has one. Cast may ask
 * for saturation of float8 instead, see f32_to_f8.
 */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
static inline float bf16_to_f32(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;
	float f;
	memcpy(&f, &u, sizeof(f));
	return f;
}
static inline uint16_t f32_to_bf16(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof(u));
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 |
				  0x40); /* a NaN must not become an infinity when its low bits are cut */
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* t is one of the five float8 types. With `saturate`, overflow becomes the largest finite value. */
float f8_to_f32(enum dtype t, uint8_t bits);
uint8_t f32_to_f8(enum dtype t, float f, bool saturate);

/*
 * Returns element i of the data as a double, or as an int64, which represents every integer exactly. Types smaller
 * than a byte are packed; strings are not supported.
 */
double elem_f64(enum dtype t, const void *data, int64_t i);
int64_t elem_i64(enum dtype t, const void *data, int64_t i);
/* Sets element i: floats are rounded half to even, integers wrap around. */
void elem_set_f64(enum dtype t, void *data, int64_t i, double v);
void elem_set_i64(enum dtype t, void *data, int64_t i, int64_t v);

/*
 * Convert n elements from index `first` on, for kernels that compute in fp32. t is F16, BF16, F32, F64, F8*, F6* or F4.
 */
void to_f32(enum dtype t, const void *src, int64_t first, int64_t n, float *dst);
void from_f32(enum dtype t, const float *src, int64_t n, void *dst, int64_t first);

#endif
