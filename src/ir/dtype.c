/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/dtype.h"

#include <float.h>
#include <math.h>

static const struct {
	const char *name, *other;
	unsigned bits;
	enum dtype_class cls;
} table[DT_COUNT] = {
#define DTYPE(NAME, text, number, bits, cls, other) [number] = {text, other, bits, cls},
#include "ir/element_types.def"
#undef DTYPE
};

static bool is_known(enum dtype t)
{
	return (unsigned)t < DT_COUNT && table[t].name;
}

const char *dtype_name(enum dtype t)
{
	return is_known(t) ? table[t].name : "?";
}

unsigned dtype_bits(enum dtype t)
{
	return is_known(t) ? table[t].bits : 0;
}

enum dtype_class dtype_class(enum dtype t)
{
	return is_known(t) ? table[t].cls : DT_OTHER;
}

enum dtype dtype_parse(const char *name)
{
	static const struct {
		const char *alias;
		enum dtype t;
	} aliases[] = {{"float32", DT_F32}, {"float64", DT_F64}, {"half", DT_F16}};

	for (int t = 1; t < DT_COUNT; t++)
		if (is_known((enum dtype)t) &&
		    (!strcmp(name, table[t].name) || !strcmp(name, table[t].other)))
			return (enum dtype)t;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
		if (!strcmp(name, aliases[i].alias))
			return aliases[i].t;
	return DT_NONE;
}

bool dtype_bytes(enum dtype t, int64_t count, size_t *bytes)
{
	uint64_t bits;

	if (count < 0 || __builtin_mul_overflow((uint64_t)count, (uint64_t)dtype_bits(t), &bits) ||
	    bits > INT64_MAX - 7)
		return false;
	*bytes = (size_t)((bits + 7) / 8);
	return true;
}

double float_largest(enum dtype t)
{
	switch (t) {
	case DT_F16: return 65504;
	case DT_BF16: return 0x1.fep127;
	case DT_F32: return (double)FLT_MAX;
	case DT_F64: return DBL_MAX;
	default: return (double)INFINITY;
	}
}

float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff, u;
	float f;

	if (mag >= 0x7c00) { /* infinity, NaN */
		u = sign | 0x7f800000u | (mag & 0x3ff) << 13;
	} else if (mag >= 0x400) {
		u = sign | ((mag << 13) + 0x38000000u);
	} else { /* zero or denormal: the product mag * 2^-24 is exact */
		f = (float)mag * 0x1p-24f;
		return sign ? -f : f;
	}
	memcpy(&f, &u, sizeof(f));
	return f;
}

uint16_t f32_to_f16(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		return sign | 0x7e00;
	if (u >= 0x477ff000u) /* 65520 and more round to infinity */
		return sign | 0x7c00;
	if (u < 0x38800000u) { /* denormal: let the FPU round at 2^-24 */
		float a;
		memcpy(&a, &u, sizeof(a));
		return sign | (uint16_t)lrintf(a * 0x1p24f);
	}
	u += 0xc8000fffu + (u >> 13 & 1); /* rebias by -112 << 23, round half to even */
	return sign | (uint16_t)(u >> 13);
}

struct f8_format {
	int mantissa, bias;
	bool fnuz;    /* has neither infinities nor a negative zero; 0x80 is its only NaN */
	bool has_inf; /* only E5M2 has infinities */
};

static struct f8_format f8_format(enum dtype t)
{
	if (t == DT_F8E4M3FN)
		return (struct f8_format){3, 7, false, false};
	if (t == DT_F8E4M3FNUZ)
		return (struct f8_format){3, 8, true, false};
	if (t == DT_F8E5M2)
		return (struct f8_format){2, 15, false, true};
	return (struct f8_format){2, 16, true, false};
}

float f8_to_f32(enum dtype t, uint8_t b)
{
	if (t == DT_F8E8M0)
		return b == 0xff ? NAN : ldexpf(1.0f, (int)b - 127);
	struct f8_format f = f8_format(t);
	int mag = b & 0x7f, exp = mag >> f.mantissa, man = mag & ((1 << f.mantissa) - 1);
	float v;

	if (f.fnuz && b == 0x80)
		return NAN;
	if (t == DT_F8E4M3FN && mag == 0x7f)
		return b & 0x80 ? -NAN : NAN;
	if (f.has_inf && exp == 31)
		v = man ? NAN : INFINITY;
	else if (exp)
		v = ldexpf((float)(man | 1 << f.mantissa), exp - f.bias - f.mantissa);
	else
		v = ldexpf((float)man, 1 - f.bias - f.mantissa);
	return b & 0x80 ? -v : v;
}

/* E8M0 represents powers of two only. Other values are rounded up, the default of ONNX's Cast (round_mode "up"). */
static uint8_t f32_to_e8m0(float v)
{
	int e;

	if (isnan(v))
		return 0xff;
	v = fabsf(v);
	if (isinf(v))
		return 0xfe;
	if (v <= 0x1p-127f)
		return 0;
	float m = frexpf(v, &e); /* v = m * 2^e, m in [0.5, 1) */
	e += m > 0.5f ? 127 : 126;
	return (uint8_t)(e > 254 ? 254 : e);
}

uint8_t f32_to_f8(enum dtype t, float v, bool saturate)
{
	if (t == DT_F8E8M0)
		return f32_to_e8m0(v);
	struct f8_format f = f8_format(t);
	uint8_t sign = signbit(v) ? 0x80 : 0;
	uint8_t nan = f.fnuz ? 0x80 : (uint8_t)(sign | 0x7f);
	uint8_t most = t == DT_F8E4M3FN ? 0x7e : t == DT_F8E5M2 ? 0x7b : 0x7f;
	uint8_t over = f.fnuz ? 0x80 : (uint8_t)(sign | (f.has_inf ? 0x7c : 0x7f));
	float a = fabsf(v);
	int e;

	if (isnan(v))
		return nan;
	if (isinf(v))
		return saturate ? sign | most : over;
	frexpf(a, &e);
	if (a == 0)
		return f.fnuz ? 0 : sign;
	if (e - 1 < 1 - f.bias)
		e = 2 - f.bias; /* denormals have the spacing of the smallest normal number */
	/* round to a multiple of the format's spacing; consecutive values have consecutive codes, so the code follows from q */
	float q = nearbyintf(ldexpf(a, f.mantissa + 1 - e));
	int code = (e - 2 + f.bias) * (1 << f.mantissa) + (int)q;
	if (code > most)
		return saturate ? sign | most : over;
	if (!code && f.fnuz)
		return 0;
	return sign | (uint8_t)code;
}

/* float4e2m1 */
static float f4_to_f32(uint8_t n)
{
	static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	return n & 8 ? -values[n & 7] : values[n & 7];
}

/* Values beyond the range become the largest number of their sign, 6 or -6. */
static uint8_t f32_to_f4(float v)
{
	static const float limits[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
	uint8_t sign = signbit(v) ? 8 : 0, code = 0;
	float a = fabsf(v);

	if (isnan(v))
		return 8; /* the type has no NaN; ml_dtypes, ONNX's reference, turns NaN into -0 */
	for (uint8_t i = 0; i < 7; i++) /* ties go to the even code */
		if (a > limits[i] || (a == limits[i] && (i & 1)))
			code = (uint8_t)(i + 1);
	return sign | code;
}

/* float6: a sign, then two bits of exponent and three of mantissa, or three and two */
struct f6_format {
	int mantissa, bias;
};

static struct f6_format f6_format(enum dtype t)
{
	return t == DT_F6E2M3 ? (struct f6_format){3, 1} : (struct f6_format){2, 3};
}

static float f6_to_f32(enum dtype t, uint8_t n)
{
	struct f6_format f = f6_format(t);
	int mag = n & 31, exp = mag >> f.mantissa, man = mag & ((1 << f.mantissa) - 1);
	float v = exp ? ldexpf((float)(man | 1 << f.mantissa), exp - f.bias - f.mantissa)
		      : ldexpf((float)man, 1 - f.bias - f.mantissa);

	return n & 32 ? -v : v;
}

/* Values beyond the range become the largest number of their sign: the types have neither infinities nor NaN. */
static uint8_t f32_to_f6(enum dtype t, float v)
{
	struct f6_format f = f6_format(t);
	uint8_t sign = signbit(v) ? 32 : 0;
	float a = fabsf(v);
	int e;

	if (isnan(v))
		return 32; /* as for float4e2m1 */
	if (a >= 32 || a == 0)
		return a == 0 ? sign : sign | 31;
	frexpf(a, &e);
	if (e - 1 < 1 - f.bias)
		e = 2 - f.bias;
	/* as in f32_to_f8(): consecutive values have consecutive codes */
	int code = (e - 2 + f.bias) * (1 << f.mantissa) +
		   (int)nearbyintf(ldexpf(a, f.mantissa + 1 - e));
	return sign | (uint8_t)(code > 31 ? 31 : code);
}

/* The codes are one stream of bits, the low bits of a byte first; of six bits, a code may lie in two bytes. */
static uint8_t packed_get(const void *data, int64_t i, unsigned bits)
{
	uint64_t at = (uint64_t)i * bits;
	const uint8_t *p = (const uint8_t *)data + at / 8;
	unsigned shift = at % 8, v = (unsigned)p[0] >> shift;

	if (shift + bits > 8)
		v |= (unsigned)p[1] << (8 - shift);
	return (uint8_t)(v & ((1u << bits) - 1));
}

static void packed_set(void *data, int64_t i, unsigned bits, uint8_t v)
{
	uint64_t at = (uint64_t)i * bits;
	uint8_t *p = (uint8_t *)data + at / 8;
	unsigned shift = at % 8, mask = ((1u << bits) - 1) << shift, w = (unsigned)v << shift;

	p[0] = (uint8_t)((p[0] & ~mask) | (w & mask));
	if (shift + bits > 8)
		p[1] = (uint8_t)((p[1] & ~(mask >> 8)) | (w & mask) >> 8);
}

double elem_f64(enum dtype t, const void *data, int64_t i)
{
	switch (t) {
	case DT_F32: return ((const float *)data)[i];
	case DT_F64: return ((const double *)data)[i];
	case DT_F16: return f16_to_f32(((const uint16_t *)data)[i]);
	case DT_BF16: return bf16_to_f32(((const uint16_t *)data)[i]);
	case DT_F8E4M3FN:
	case DT_F8E4M3FNUZ:
	case DT_F8E5M2:
	case DT_F8E5M2FNUZ:
	case DT_F8E8M0: return f8_to_f32(t, ((const uint8_t *)data)[i]);
	case DT_F4E2M1: return f4_to_f32(packed_get(data, i, 4));
	case DT_F6E2M3:
	case DT_F6E3M2: return f6_to_f32(t, packed_get(data, i, 6));
	case DT_C64: return ((const float *)data)[2 * i];
	case DT_C128: return ((const double *)data)[2 * i];
	case DT_U64: return (double)((const uint64_t *)data)[i];
	default: return (double)elem_i64(t, data, i);
	}
}

/*
 * Converts a double for integer type t without the undefined behaviour of a plain cast, as Cast does: a type of up to 32
 * bits takes the low bits of an int32 (uint32 of an int64). NaN and what is out of range of that become its least number.
 */
static int64_t whole_number(enum dtype t, double v)
{
	bool wide = t == DT_U32 || t == DT_I64 || t == DT_U64;

	if (t == DT_U64 && v >= 0x1p63 && v < 0x1p64)
		return (int64_t)(uint64_t)v;
	if (wide)
		return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
	return v > -0x1p31 - 1 && v < 0x1p31 ? (int64_t)v : INT32_MIN;
}

int64_t elem_i64(enum dtype t, const void *data, int64_t i)
{
	switch (t) {
	case DT_U8: return ((const uint8_t *)data)[i];
	case DT_BOOL: return ((const uint8_t *)data)[i] != 0;
	case DT_I8: return ((const int8_t *)data)[i];
	case DT_U16: return ((const uint16_t *)data)[i];
	case DT_I16: return ((const int16_t *)data)[i];
	case DT_U32: return ((const uint32_t *)data)[i];
	case DT_I32: return ((const int32_t *)data)[i];
	case DT_U64: return (int64_t)((const uint64_t *)data)[i];
	case DT_I64: return ((const int64_t *)data)[i];
	case DT_U4: return packed_get(data, i, 4);
	case DT_I4: return (int64_t)(packed_get(data, i, 4) ^ 8) - 8;
	case DT_U2: return packed_get(data, i, 2);
	case DT_I2: return (int64_t)(packed_get(data, i, 2) ^ 2) - 2;
	case DT_NONE:
	case DT_STRING:
	case DT_COUNT: return 0;
	default: return whole_number(DT_I64, elem_f64(t, data, i));
	}
}

void elem_set_i64(enum dtype t, void *data, int64_t i, int64_t v)
{
	switch (t) {
	case DT_U8:
	case DT_I8: ((uint8_t *)data)[i] = (uint8_t)v; break;
	case DT_BOOL: ((uint8_t *)data)[i] = v != 0; break;
	case DT_U16:
	case DT_I16: ((uint16_t *)data)[i] = (uint16_t)v; break;
	case DT_U32:
	case DT_I32: ((uint32_t *)data)[i] = (uint32_t)v; break;
	case DT_U64:
	case DT_I64: ((uint64_t *)data)[i] = (uint64_t)v; break;
	case DT_U4:
	case DT_I4: packed_set(data, i, 4, (uint8_t)v); break;
	case DT_U2:
	case DT_I2: packed_set(data, i, 2, (uint8_t)v); break;
	case DT_NONE:
	case DT_STRING:
	case DT_COUNT: break;
	default: elem_set_f64(t, data, i, (double)v); break;
	}
}

void elem_set_f64(enum dtype t, void *data, int64_t i, double v)
{
	switch (t) {
	case DT_F32: ((float *)data)[i] = (float)v; break;
	case DT_F64: ((double *)data)[i] = v; break;
	case DT_F16: ((uint16_t *)data)[i] = f32_to_f16((float)v); break;
	case DT_BF16: ((uint16_t *)data)[i] = f32_to_bf16((float)v); break;
	case DT_F8E4M3FN:
	case DT_F8E4M3FNUZ:
	case DT_F8E5M2:
	case DT_F8E5M2FNUZ:
	case DT_F8E8M0: ((uint8_t *)data)[i] = f32_to_f8(t, (float)v, true); break;
	case DT_F4E2M1: packed_set(data, i, 4, f32_to_f4((float)v)); break;
	case DT_F6E2M3:
	case DT_F6E3M2: packed_set(data, i, 6, f32_to_f6(t, (float)v)); break;
	case DT_C64:
		((float *)data)[2 * i] = (float)v;
		((float *)data)[2 * i + 1] = 0;
		break;
	case DT_C128:
		((double *)data)[2 * i] = v;
		((double *)data)[2 * i + 1] = 0;
		break;
	case DT_BOOL: ((uint8_t *)data)[i] = v != 0; break;
	default: elem_set_i64(t, data, i, whole_number(t, v)); break;
	}
}

void to_f32(enum dtype t, const void *src, int64_t first, int64_t n, float *dst)
{
	if (t == DT_F32) {
		memcpy(dst, (const float *)src + first, (size_t)n * sizeof(float));
	} else if (t == DT_F16) {
		for (int64_t i = 0; i < n; i++)
			dst[i] = f16_to_f32(((const uint16_t *)src)[first + i]);
	} else if (t == DT_BF16) {
		for (int64_t i = 0; i < n; i++)
			dst[i] = bf16_to_f32(((const uint16_t *)src)[first + i]);
	} else if (t == DT_U8) {
		for (int64_t i = 0; i < n; i++)
			dst[i] = ((const uint8_t *)src)[first + i];
	} else {
		for (int64_t i = 0; i < n; i++)
			dst[i] = (float)elem_f64(t, src, first + i);
	}
}

void from_f32(enum dtype t, const float *src, int64_t n, void *dst, int64_t first)
{
	if (t == DT_F32) {
		memcpy((float *)dst + first, src, (size_t)n * sizeof(float));
	} else if (t == DT_F16) {
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)dst)[first + i] = f32_to_f16(src[i]);
	} else if (t == DT_BF16) {
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)dst)[first + i] = f32_to_bf16(src[i]);
	} else {
		for (int64_t i = 0; i < n; i++)
			elem_set_f64(t, dst, first + i, src[i]);
	}
}
