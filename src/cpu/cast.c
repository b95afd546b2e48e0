/* SPDX-License-Identifier: Apache-2.0 */
/* Cast and CastLike: conversions of the element type. */
#include "ops/cast.h"

#include "cpu/math/simd.h"
#include "cpu/math/util.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

struct how {
	enum dtype from, to;
	bool saturate, finite;
	int round_mode;
};

/* ---- between types that C has ---------------------------------------------------------------- */

typedef void cast_loop(const void *x, void *y, int64_t n);

#define LOOP_CAST(name, FROM, TO, expr)                                                            \
	static void name(const void *px, void *py, int64_t n)                                      \
	{                                                                                          \
		const FROM *x = px;                                                                \
		TO *y = py;                                                                        \
		LOOP for (int64_t i = 0; i < n; i++)                                               \
		{                                                                                  \
			FROM v = x[i];                                                             \
			y[i] = (TO)(expr);                                                         \
		}                                                                                  \
	}
/*
 * Floats are truncated toward zero. Small integer types are converted through a wider one, so that a value out of
 * range keeps the low bits of the wider integer. NaN and what is out of the wider one's range become its least number.
 * docs/special-values.md promises this; a plain cast of such a value would be undefined in C.
 */
#define DEFINE_WHOLE(f, F)                                                                         \
	static inline int32_t whole32_##f(F v)                                                     \
	{                                                                                          \
		return v > (F)INT32_MIN - 1 && v < -(F)INT32_MIN ? (int32_t)v : INT32_MIN;         \
	}                                                                                          \
	static inline int64_t whole64_##f(F v)                                                     \
	{                                                                                          \
		return v >= (F)INT64_MIN && v < -(F)INT64_MIN ? (int64_t)v : INT64_MIN;            \
	}
#define DEFINE_NATURAL(f, F)                                                                       \
	static inline uint64_t natural64_##f(F v)                                                  \
	{                                                                                          \
		return v >= -(F)INT64_MIN && v < -2 * (F)INT64_MIN ? (uint64_t)v                   \
								   : (uint64_t)whole64_##f(v);     \
	}
#if defined(__x86_64__)
/* The instructions give the least number themselves. */
static inline int32_t whole32_f32(float v)
{
	return _mm_cvttss_si32(_mm_set_ss(v));
}
static inline int64_t whole64_f32(float v)
{
	return _mm_cvttss_si64(_mm_set_ss(v));
}
#else
DEFINE_WHOLE(f32, float)
#endif
DEFINE_WHOLE(f64, double)
DEFINE_NATURAL(f32, float)
DEFINE_NATURAL(f64, double)
#define FROM_FLOAT(f, F)                                                                           \
	LOOP_CAST(f##_f32, F, float, v)                                                            \
	LOOP_CAST(f##_f64, F, double, v)                                                           \
	LOOP_CAST(f##_u32, F, uint32_t, whole64_##f(v))                                            \
	LOOP_CAST(f##_i64, F, int64_t, whole64_##f(v))                                             \
	LOOP_CAST(f##_u64, F, uint64_t, natural64_##f(v))
#define FROM_FLOAT_32(f, F)                                                                        \
	LOOP_CAST(f##_i8, F, int8_t, whole32_##f(v))                                               \
	LOOP_CAST(f##_u8, F, uint8_t, whole32_##f(v))                                              \
	LOOP_CAST(f##_i16, F, int16_t, whole32_##f(v))                                             \
	LOOP_CAST(f##_u16, F, uint16_t, whole32_##f(v))                                            \
	LOOP_CAST(f##_i32, F, int32_t, whole32_##f(v))
#define FROM_INT(f, F)                                                                             \
	LOOP_CAST(f##_f32, F, float, v)                                                            \
	LOOP_CAST(f##_f64, F, double, v)                                                           \
	LOOP_CAST(f##_8, F, uint8_t, v)                                                            \
	LOOP_CAST(f##_16, F, uint16_t, v)                                                          \
	LOOP_CAST(f##_32, F, uint32_t, v)                                                          \
	LOOP_CAST(f##_64, F, uint64_t, v)                                                          \
	LOOP_CAST(f##_bool, F, uint8_t, v != 0)
FROM_FLOAT(f32, float)
FROM_FLOAT(f64, double)
FROM_FLOAT_32(f64, double)
LOOP_CAST(f64_bool, double, uint8_t, v != 0)

/* Truncates n floats. */
static void whole_chunk(const float *x, int32_t *y, int64_t n)
{
	int64_t i = 0;

#if defined(__x86_64__)
	for (; i + 4 <= n; i += 4)
		_mm_storeu_si128((__m128i *)(void *)(y + i), _mm_cvttps_epi32(_mm_loadu_ps(x + i)));
#endif
	for (; i < n; i++)
		y[i] = whole32_f32(x[i]);
}

static void f32_i32(const void *x, void *y, int64_t n)
{
	whole_chunk(x, y, n);
}

enum { WHOLE_CHUNK = 256 };
#define FROM_WHOLE(name, T)                                                                        \
	static void f32_##name(const void *px, void *py, int64_t n)                                \
	{                                                                                          \
		const float *x = px;                                                               \
		T *y = py;                                                                         \
		int32_t whole[WHOLE_CHUNK];                                                        \
		for (int64_t w; n > 0; n -= w, x += w, y += w) {                                   \
			w = n < WHOLE_CHUNK ? n : WHOLE_CHUNK;                                     \
			whole_chunk(x, whole, w);                                                  \
			LOOP for (int64_t i = 0; i < w; i++) y[i] = (T)whole[i];                   \
		}                                                                                  \
	}
FROM_WHOLE(i8, int8_t)
FROM_WHOLE(u8, uint8_t)
FROM_WHOLE(i16, int16_t)
FROM_WHOLE(u16, uint16_t)

enum { ZERO_CHUNK = 1024 };

static void f32_bool(const void *from, void *to, int64_t n)
{
	static const float zero[ZERO_CHUNK];
	uint8_t *y = to;

	for (int64_t i = 0, w; i < n; i += w) {
		w = n - i < ZERO_CHUNK ? n - i : ZERO_CHUNK;
		simd()->bin[VB_EQ][DT_F32]((const float *)from + i, zero, y + i, w);
		for (int64_t k = 0; k < w; k++)
			y[i + k] ^= 1;
	}
}

FROM_INT(i8, int8_t)
FROM_INT(u8, uint8_t)
FROM_INT(i16, int16_t)
FROM_INT(u16, uint16_t)
FROM_INT(i32, int32_t)
FROM_INT(u32, uint32_t)
FROM_INT(i64, int64_t)
FROM_INT(u64, uint64_t)
/* Any nonzero byte of a bool tensor is true, so it is normalized to 1 before the conversion. */
LOOP_CAST(bool_f32, uint8_t, float, v != 0)
LOOP_CAST(bool_f64, uint8_t, double, v != 0)
LOOP_CAST(bool_8, uint8_t, uint8_t, v != 0)
LOOP_CAST(bool_16, uint8_t, uint16_t, v != 0)
LOOP_CAST(bool_32, uint8_t, uint32_t, v != 0)
LOOP_CAST(bool_64, uint8_t, uint64_t, v != 0)

#define FLOAT_ROW(f)                                                                               \
	{                                                                                          \
		[DT_F32] = f##_f32, [DT_F64] = f##_f64, [DT_I8] = f##_i8, [DT_U8] = f##_u8,        \
		[DT_I16] = f##_i16, [DT_U16] = f##_u16, [DT_I32] = f##_i32, [DT_U32] = f##_u32,    \
		[DT_I64] = f##_i64, [DT_U64] = f##_u64, [DT_BOOL] = f##_bool                       \
	}
#define INT_ROW(f)                                                                                 \
	{                                                                                          \
		[DT_F32] = f##_f32, [DT_F64] = f##_f64, [DT_I8] = f##_8, [DT_U8] = f##_8,          \
		[DT_I16] = f##_16, [DT_U16] = f##_16, [DT_I32] = f##_32, [DT_U32] = f##_32,        \
		[DT_I64] = f##_64, [DT_U64] = f##_64, [DT_BOOL] = f##_bool                         \
	}
#define bool_bool bool_8

static cast_loop *const loops[DT_COUNT][DT_COUNT] = {
	[DT_F32] = FLOAT_ROW(f32), [DT_F64] = FLOAT_ROW(f64), [DT_I8] = INT_ROW(i8),
	[DT_U8] = INT_ROW(u8),	   [DT_I16] = INT_ROW(i16),   [DT_U16] = INT_ROW(u16),
	[DT_I32] = INT_ROW(i32),   [DT_U32] = INT_ROW(u32),   [DT_I64] = INT_ROW(i64),
	[DT_U64] = INT_ROW(u64),   [DT_BOOL] = INT_ROW(bool),
};

/* ---- narrow floats --------------------------------------------------------------------------- */

/* Rounds to fp32 with round-to-odd, so that rounding again to a narrower type gives the same as rounding v directly. */
static float round_to_odd(double v)
{
	float f = (float)v;
	uint32_t u;

	if ((double)f == v || isnan(v) || isinf(f))
		return f;
	memcpy(&u, &f, sizeof(u));
	if (fabs((double)f) > fabs(v))
		u--;
	u |= 1;
	memcpy(&f, &u, sizeof(f));
	return f;
}

static uint8_t to_e8m0(float v, bool saturate, int mode)
{
	int e;

	if (isnan(v))
		return 0xff;
	v = fabsf(v);
	if (isinf(v))
		return saturate ? 0xfe : 0xff;
	if (v < 0x1p-127f)
		return saturate ? 0 : 0xff;
	float m = frexpf(v, &e); /* v = m 2^e, m in 1/2 .. 1 */
	e += 126;
	if (mode == CAST_UP ? m > 0.5f : mode == CAST_NEAREST && m >= 0.75f)
		e++;
	if (e > 254)
		return saturate ? 0xfe : 0xff;
	return (uint8_t)e;
}

static void store_narrow(const struct how *h, const float *f, int64_t n, void *y, int64_t first)
{
	if (h->to == DT_F16 || h->to == DT_BF16 || dtype_bits(h->to) < 8) {
		simd_from_f32(h->to, f, n, y, first);
		return;
	}
	uint8_t *o = (uint8_t *)y + first;
	for (int64_t i = 0; i < n; i++)
		o[i] = h->to == DT_F8E8M0 ? to_e8m0(f[i], h->saturate, h->round_mode)
					  : f32_to_f8(h->to, f[i], h->saturate);
}

/* Finite numbers beyond the range of fp16 or bf16 become the largest number. */
static void store_finite(const struct how *h, const float *x, int64_t n, void *y, int64_t first)
{
	const float most = (float)float_largest(h->to);
	float f[BLOCK];

	for (int64_t w; n > 0; n -= w, x += w, first += w) {
		w = n < BLOCK ? n : BLOCK;
		LOOP for (int64_t i = 0; i < w; i++)
		{
			float v = x[i], m = fabsf(v);
			f[i] = m > most && m <= FLT_MAX ? copysignf(most, v) : v;
		}
		store_narrow(h, f, w, y, first);
	}
}

static bool is_narrow_float(enum dtype t)
{
	return computes_in_f32(t);
}

/* Converts through fp32, a block at a time. Both types must be narrow floats or have loops from and to fp32. */
static void cast_through_f32(const struct how *h, const void *x, void *y, int64_t begin, int64_t end)
{
	float f[BLOCK];

	if (h->to == DT_F32) {
		simd_to_f32(h->from, x, begin, end - begin, (float *)y + begin);
		return;
	}
	if (h->from == DT_F32 && h->finite) {
		store_finite(h, (const float *)x + begin, end - begin, y, begin);
		return;
	}
	if (h->from == DT_F32) {
		store_narrow(h, (const float *)x + begin, end - begin, y, begin);
		return;
	}
	for (int64_t n; begin < end; begin += n) {
		n = end - begin < BLOCK ? end - begin : BLOCK;
		if (h->from == DT_F64)
			for (int64_t i = 0; i < n; i++)
				f[i] = round_to_odd(((const double *)x)[begin + i]);
		else if (is_narrow_float(h->from))
			simd_to_f32(h->from, x, begin, n, f);
		else
			loops[h->from][DT_F32](at(x, begin * elem_size(h->from)), f, n);
		if (is_narrow_float(h->to))
			store_narrow(h, f, n, y, begin);
		else
			loops[DT_F32][h->to](f, at_mut(y, begin * elem_size(h->to)), n);
	}
}

static bool has_loop(enum dtype t)
{
	return loops[t][DT_F32] != NULL;
}

/* Converts one element at a time, for conversions from or to integers of less than a byte, which have no loops. */
static void cast_each(const struct how *h, const void *x, void *y, int64_t begin, int64_t end)
{
	bool whole = dtype_class(h->from) != DT_FLOAT;
	float f;

	for (int64_t i = begin; i < end; i++) {
		if (is_narrow_float(h->to)) {
			f = (float)elem_f64(h->from, x, i);
			store_narrow(h, &f, 1, y, i);
		} else if (whole) {
			elem_set_i64(h->to, y, i, elem_i64(h->from, x, i));
		} else {
			elem_set_f64(h->to, y, i, elem_f64(h->from, x, i));
		}
	}
}

struct job {
	const struct how *h;
	const void *x;
	void *y;
	int64_t n;
};

/* begin and end count groups of eight elements, so that two threads never write to one byte of a packed output. */
static void cast_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct how *h = j->h;

	(void)thread;
	begin *= 8;
	end = end * 8 < j->n ? end * 8 : j->n;
	if (loops[h->from][h->to])
		loops[h->from][h->to](at(j->x, begin * elem_size(h->from)),
				      at_mut(j->y, begin * elem_size(h->to)), end - begin);
	else if ((is_narrow_float(h->from) || has_loop(h->from)) &&
		 (is_narrow_float(h->to) || has_loop(h->to)))
		cast_through_f32(h, j->x, j->y, begin, end);
	else
		cast_each(h, j->x, j->y, begin, end);
}

static int cast_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct how *h = arena_new(s->plan_arena, struct how);
	bool like = s->node->op->name[4];
	const struct cast *c = s->node->params;
	const struct cast_like *l = s->node->params;

	(void)d;
	h->from = site_type(s, 0);
	h->to = site_out_type(s, 0);
	h->saturate = (like ? l->saturate : c->saturate) != 0;
	h->finite = !like && c->finite;
	h->round_mode = like ? l->round_mode : c->round_mode;
	step->state = h;
	if (dtype_bits(h->from) == dtype_bits(h->to))
		allow_inplace(step, 0, 0);
	return 0;
}

static int cast_run(const struct call *c)
{
	const struct how *h = c->step->state;
	struct job j = {h, c->in[0]->data, c->out[0]->data, physical_count(c->in[0])};

	if (h->from == h->to && h->from != DT_BOOL) {
		if (c->in[0]->bytes && j.x != j.y)
			memcpy(j.y, j.x, c->in[0]->bytes);
		return 0;
	}
	pool_for((j.n + 7) / 8, GRAIN / 8, cast_piece, &j);
	return 0;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool involves_strings(const struct site *s, struct why *w)
{
	if (site_type(s, 0) != DT_STRING && site_out_type(s, 0) != DT_STRING)
		return refuse(w, "no strings");
	return true;
}

static bool involves_no_strings(const struct site *s, struct why *w)
{
	if (site_type(s, 0) == DT_STRING || site_out_type(s, 0) == DT_STRING)
		return refuse(w, "strings");
	return true;
}

enum { MAX_NUMBER_TEXT = 48 };

/* Returns the number that results when the text is parsed and rounded to type t. */
static double parse_as_type(enum dtype t, const char *text)
{
	uint64_t bits = 0;

	if (t == DT_F64)
		return strtod(text, NULL);
	if (t == DT_F32)
		return (double)strtof(text, NULL);
	elem_set_f64(t, &bits, 0, (double)strtof(text, NULL));
	return elem_f64(t, &bits, 0);
}

/* Writes the number d.ddd * 10^e, whose nd digits are given, as Python's repr does: 0.00ddd, ddd00.0 or d.dde+XX. */
static void write_float(const char *digits, int nd, int e, bool neg, char *out)
{
	char *p = out;

	if (neg)
		*p++ = '-';
	if (e < -4 || e >= 16) {
		*p++ = digits[0];
		if (nd > 1) {
			*p++ = '.';
			memcpy(p, digits + 1, (size_t)nd - 1);
			p += nd - 1;
		}
		snprintf(p, MAX_NUMBER_TEXT - (size_t)(p - out), "e%c%02d", e < 0 ? '-' : '+', abs(e));
		return;
	}
	if (e < 0) {
		*p++ = '0';
		*p++ = '.';
		for (int i = -1; i > e; i--)
			*p++ = '0';
		memcpy(p, digits, (size_t)nd);
		p += nd;
	}
	for (int i = 0; e >= 0 && (i <= e + 1 || i < nd); i++) {
		if (i == e + 1)
			*p++ = '.';
		*p++ = i < nd ? digits[i] : '0';
	}
	*p = 0;
}

/* Writes the shortest text that, parsed as type t, gives the same number. */
static void float_text(enum dtype t, double v, char *out)
{
	char text[MAX_NUMBER_TEXT], digits[24];
	int nd = 0, precision = 0;

	if (isnan(v) || isinf(v)) {
		snprintf(out, MAX_NUMBER_TEXT, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
		return;
	}
	do
		snprintf(text, sizeof(text), "%.*e", precision, fabs(v));
	while (parse_as_type(t, text) != fabs(v) && precision++ < 17);
	char *e = strchr(text, 'e');
	for (const char *p = text; p < e; p++)
		if (*p >= '0' && *p <= '9' && nd < (int)sizeof(digits))
			digits[nd++] = *p;
	while (nd > 1 && digits[nd - 1] == '0')
		nd--;
	write_float(digits, nd, (int)strtol(e + 1, NULL, 10), signbit(v), out);
}

static void number_text(enum dtype t, const void *x, int64_t i, char *out)
{
	if (dtype_class(t) == DT_FLOAT)
		float_text(t, elem_f64(t, x, i), out);
	else if (t == DT_U64)
		snprintf(out, MAX_NUMBER_TEXT, "%" PRIu64, ((const uint64_t *)x)[i]);
	else
		snprintf(out, MAX_NUMBER_TEXT, "%" PRId64, elem_i64(t, x, i));
}

static int to_strings(const struct call *c)
{
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x);
	struct arena *a = call_values(c, 0);
	const char **text = arena_new_n(a, const char *, (size_t)n + 1);
	size_t *length = arena_new_n(a, size_t, (size_t)n + 1);
	char buf[MAX_NUMBER_TEXT];

	for (int64_t i = 0; i < n; i++) {
		number_text(tensor_dtype(x), x->data, i, buf);
		text[i] = arena_str(a, buf);
		length[i] = strlen(buf);
	}
	return call_strings(c, 0, &x->shape, text, length);
}

/* Parses the text s into element i of y, which has type t. Returns false if s is not a number. */
static bool parse_number(enum dtype t, const char *s, void *y, int64_t i, const struct how *h)
{
	char *end;
	bool whole = dtype_class(t) != DT_FLOAT;

	while (*s == ' ' || *s == '\t')
		s++;
	if (t == DT_BOOL && (!strcasecmp(s, "true") || !strcasecmp(s, "false"))) {
		elem_set_i64(t, y, i, !strcasecmp(s, "true"));
		return true;
	}
	if (whole) {
		errno = 0;
		int64_t v = *s == '-' ? strtoll(s, &end, 10) : (int64_t)strtoull(s, &end, 10);
		if (end != s && !end[strspn(end, " \t\r\n")] && !errno) {
			elem_set_i64(t, y, i, v);
			return true;
		}
	}
	double d = strtod(s, &end);
	if (end == s || end[strspn(end, " \t\r\n")])
		return false;
	float f = strtof(s, NULL);
	if (t == DT_F32)
		((float *)y)[i] = f;
	else if (is_narrow_float(t))
		store_narrow(h, &f, 1, y, i);
	else
		elem_set_f64(t, y, i, d);
	return true;
}

static int from_strings(const struct call *c, const struct how *h)
{
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x);
	char text[256];

	for (int64_t i = 0; i < n; i++) {
		size_t length;
		const char *s = tensor_string(x, i, &length);
		snprintf(text, sizeof(text), "%.*s",
			 (int)(length < sizeof(text) ? length : sizeof(text) - 1), s);
		if (!parse_number(h->to, text, c->out[0]->data, i, h))
			return call_fail(c, E_VALUE, "strings that are numbers",
					 fmt(c->diag, "\"%s\"", text));
	}
	return 0;
}

static int strings_run(const struct call *c)
{
	const struct how *h = c->step->state;

	if (h->from == h->to)
		return call_copy(c, 0, c->in[0]);
	return h->to == DT_STRING ? to_strings(c) : from_strings(c, h);
}

static int strings_reshape(struct site *s, struct step *step, struct diag *d)
{
	int err = cast_reshape(s, step, d);

	step->ninplace = 0;
	return err;
}

#define ROWS(name)                                                                                 \
	{.op = (name),                                                                             \
	 .flags = K_REFERENCE,                                                                     \
	 .accepts = involves_strings,                                                              \
	 .reshape = strings_reshape,                                                               \
	 .run = strings_run},                                                                      \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE | K_ANY_LAYOUT, .accepts = involves_no_strings, \
		.reshape = cast_reshape, .run = cast_run                                           \
	}

const struct kernel cpu_cast[] = {ROWS("Cast"), ROWS("CastLike"), {0}};
