/* SPDX-License-Identifier: Apache-2.0 */
#include "check/input_bytes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Elements that are looked at, spread over the file, and the fewest from which anything is concluded. */
enum { MAX_LOOKS = 4096, MIN_LOOKS = 16 };

/* What the bytes are like if they are read as elements of one type. */
struct reading {
	int64_t looks;
	double odd; /* share of elements that data hardly have: not finite, or of an extreme magnitude */
	double zero; /* share of zeros */
	/* mean and standard deviation of log2 of the magnitudes of the other elements; NAN without any */
	double mean, spread;
};

/* The statistics of every step-th element from `first` on. */
static struct reading read_as(enum dtype t, const void *data, size_t bytes, int64_t first, int64_t step)
{
	struct reading r = {0};
	int64_t n = (int64_t)(bytes * 8 / dtype_bits(t)), sane = 0;
	bool real = T_BIT(t) & T_FLOATS_BF;
	double least = real ? 1e-20 : 1, most = real ? 1e20 : 1e9;
	double sum = 0, squares = 0;

	step *= n / step / MAX_LOOKS + 1;
	for (int64_t i = first; i < n; i += step) {
		double v = fabs(elem_f64(t, data, i));
		r.looks++;
		if (v == 0) {
			r.zero++;
		} else if (!(v >= least && v <= most)) {
			r.odd++;
		} else {
			double x = log2(v);
			sum += x;
			squares += x * x;
			sane++;
		}
	}
	r.odd /= r.looks ? (double)r.looks : 1;
	r.zero /= r.looks ? (double)r.looks : 1;
	r.mean = r.spread = NAN;
	if (sane) {
		r.mean = sum / (double)sane;
		double square = squares / (double)sane - r.mean * r.mean;
		r.spread = sqrt(square > 0 ? square : 0);
	}
	return r;
}

/*
 * The limits of spread here and below lie between what data and other bytes have: evenly distributed numbers have a spread of 1.4, normally
 * distributed ones 1.6, and channels of other scales add to it, while bits of another type that are read as floats have up to 38, since
 * magnitudes from 1e-20 to 1e20 count. Between 6 and 16 nothing is concluded.
 */

/* Whether the reading looks like data: usual magnitudes, which differ by a few powers of two, and not only zeros. */
static bool is_plausible(const struct reading *r)
{
	return r->looks >= MIN_LOOKS && r->odd < 0.001 && r->zero < 0.9 && r->spread < 6;
}

static bool is_absurd(const struct reading *r)
{
	return r->looks >= MIN_LOOKS && (r->odd > 0.05 || r->spread > 16);
}

/*
 * Whether pairs of 32-bit words are doubles that were made of floats or integers: their low words end in 29 zero
 * bits, and their high words, read as floats, have nearly the same magnitude, since three bits of the exponent are
 * taken for digits.
 */
static bool are_short_doubles(const struct tensor *t)
{
	const size_t n = t->bytes / 8;
	size_t round_low = 0, looks = 0, step = n / MAX_LOOKS + 1;

	for (size_t i = 0; i < n; i += step, looks++) {
		uint32_t low;
		memcpy(&low, (const char *)t->data + 8 * i, 4);
		round_low += !(low & UINT32_C(0x1fffffff));
	}
	const struct reading high = read_as(DT_F32, t->data, t->bytes, 1, 2),
			     pairs = read_as(DT_F64, t->data, t->bytes, 0, 1);
	return looks >= MIN_LOOKS && round_low == looks && is_plausible(&pairs) &&
	       high.spread < 1 && high.zero == pairs.zero;
}

/*
 * Whether both halves of each element are floats of type `half`: even and odd ones then have the same magnitudes. The low
 * half of a longer float is made of the last digits of its fraction, which are nearly random bits, or zeros.
 */
static bool are_pairs(const struct tensor *t, enum dtype half)
{
	const struct reading low = read_as(half, t->data, t->bytes, 0, 2),
			     high = read_as(half, t->data, t->bytes, 1, 2);

	return is_plausible(&low) && is_plausible(&high) && low.spread > 0 && high.spread > 0 &&
	       fabs(low.mean - high.mean) < 1 && fabs(low.spread - high.spread) < 1 &&
	       fabs(low.zero - high.zero) < 0.1;
}

/* Returns the first of n types as which the bytes look like data, or DT_NONE. */
static enum dtype first_plausible(const struct tensor *t, const enum dtype *types, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct reading r = read_as(types[i], t->data, t->bytes, 0, 1);
		if (t->bytes % (dtype_bits(types[i]) / 8) == 0 && is_plausible(&r))
			return types[i];
	}
	return DT_NONE;
}

static enum dtype floats_look_like(const struct tensor *t)
{
	static const enum dtype others[] = {DT_F64, DT_I64, DT_I32};
	const bool wide = tensor_dtype(t) == DT_F64;
	const struct reading now = read_as(tensor_dtype(t), t->data, t->bytes, 0, 1);

	if (!wide && t->bytes % 8 == 0 && are_short_doubles(t))
		return DT_F64;
	if (wide && are_pairs(t, DT_F32))
		return DT_F32;
	if (!wide && are_pairs(t, DT_BF16))
		return DT_BF16;
	/* a shorter exponent is taken for a part of a longer one, which multiplies the spread by 8 */
	if (!wide && now.spread > 3 && are_pairs(t, DT_F16))
		return DT_F16;
	return is_absurd(&now) ? first_plausible(t, others, sizeof(others) / sizeof(*others))
			       : DT_NONE;
}

/* Integers of twice or half the size, or floats, whose bits are taken for huge integers. */
static enum dtype integers_look_like(const struct tensor *t)
{
	const bool wide = dtype_bits(tensor_dtype(t)) == 64;
	const enum dtype others[] = {wide ? DT_I32 : DT_I64, DT_F32, DT_F64};
	const struct reading now = read_as(tensor_dtype(t), t->data, t->bytes, 0, 1);

	/* small integers of 64 bits, read as 32 bits: every second one is 0 */
	if (!wide && t->bytes % 8 == 0) {
		const struct reading high = read_as(DT_I32, t->data, t->bytes, 1, 2),
				     low = read_as(DT_I32, t->data, t->bytes, 0, 2);
		if (high.looks >= MIN_LOOKS && high.zero == 1 && low.zero < 0.2 && low.odd == 0)
			return DT_I64;
	}
	if (now.looks < MIN_LOOKS || now.odd < 0.5)
		return DT_NONE;
	return first_plausible(t, others, sizeof(others) / sizeof(*others));
}

enum dtype bytes_look_like(const struct tensor *t)
{
	switch (tensor_dtype(t)) {
	case DT_F32:
	case DT_F64: return floats_look_like(t);
	case DT_I32:
	case DT_I64: return integers_look_like(t);
	default: return DT_NONE;
	}
}
