/* SPDX-License-Identifier: Apache-2.0 */
#include "check/distance.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_float(enum dtype t)
{
	return T_BIT(t) & (T_FLOATS_BF | T_F8 | T_F4 | T_F6 | T_F8E8M0);
}

static void add_element(struct distance *d, int64_t i, double got, double want)
{
	if (!isfinite(got) || !isfinite(want)) {
		if ((isnan(got) && isnan(want)) || got == want)
			return;
		if (!d->wrong++) {
			d->at = i;
			d->got = got;
			d->want = want;
		}
		return;
	}
	double diff = fabs(got - want);
	if (fabs(want) > d->max_want)
		d->max_want = fabs(want);
	if (diff <= d->max_abs)
		return;
	d->max_abs = diff;
	if (!d->wrong) {
		d->at = i;
		d->got = got;
		d->want = want;
	}
}

static void add_f32_elements(struct distance *d, const struct tensor *got, const struct tensor *want)
{
	const char *a = got->data, *b = want->data;

	for (int64_t i = 0; i < d->count; i++) {
		float x, y;
		memcpy(&x, a + 4 * i, 4);
		memcpy(&y, b + 4 * i, 4);
		add_element(d, i, (double)x, (double)y);
	}
}

/*
 * Quantized values (integers of up to 16 bits) may differ by 1, the rounding of their last bit. Longer integers are
 * indices and counts, which must be equal. The distance of integers is the share of those that differ.
 */
static void add_integers(struct distance *d, const struct tensor *got, const struct tensor *want)
{
	enum dtype t = tensor_dtype(got), u = tensor_dtype(want);
	int64_t slack = dtype_bits(t) <= 16 && t != DT_BOOL ? 1 : 0;

	for (int64_t i = 0; i < d->count; i++) {
		int64_t x = elem_i64(t, got->data, i), y = elem_i64(u, want->data, i);
		add_element(d, i, (double)x, (double)y);
		bool wrong = x > y + slack || x < y - slack;
		d->wrong += wrong;
		d->steps += x != y && !wrong;
	}
	d->rel = d->count ? (double)d->wrong / (double)d->count : 0;
	d->wrong = 0;
}

static bool all_zeros(const struct tensor *t, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (elem_f64(tensor_dtype(t), t->data, i) != 0)
			return false;
	return n > 0;
}

/* Reads a whole text that is a number with a fraction or an exponent. */
static bool read_fraction(const char *s, size_t n, double *v)
{
	char text[40], *end;

	if (!n || n >= sizeof(text) || !memchr("+-.0123456789", *s, 13))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	*v = strtod(text, &end);
	return end == text + n && strpbrk(text, ".eE") && isfinite(*v);
}

/* Whether both are the same number in 8 digits, to which ONNX Runtime prints a float; ONNX's text does not say how many they are. */
static bool same_number(const char *a, size_t n, const char *b, size_t m)
{
	double x, y;

	return read_fraction(a, n, &x) && read_fraction(b, m, &y) &&
	       fabs(x - y) <= 1e-7 * fmax(fabs(x), fabs(y));
}

/* The distance of strings is the share of those that differ. */
static struct distance distance_of_strings(const struct tensor *got, const struct tensor *want)
{
	struct distance d = {.known = true, .text = true, .at = -1};

	d.fits = shape_equal(&got->shape, &want->shape);
	d.count = d.fits ? tensor_count(want) : 0;
	int64_t other = 0;
	for (int64_t i = 0; i < d.count; i++) {
		size_t n, m;
		const char *a = tensor_string(got, i, &n), *b = tensor_string(want, i, &m);
		if ((n == m && (!n || !memcmp(a, b, n))) || same_number(a, n, b, m))
			continue;
		if (!other++)
			d.at = i;
	}
	d.exact = d.fits && !other;
	d.rel = d.count ? (double)other / (double)d.count : 0;
	return d;
}

/* The distance of a sequence, an optional or a map is that of its tensor that is farthest away. */
static struct distance distance_of_items(const struct tensor *got, const struct tensor *want)
{
	struct distance most = {.known = true, .fits = true, .exact = true, .at = -1};
	bool exact = true;

	if (got->nitems != want->nitems)
		return (struct distance){.known = true, .at = -1};
	for (size_t i = 0; i < got->nitems; i++) {
		struct distance d = distance_of(got->items[i], want->items[i]);
		exact &= d.exact;
		if (distance_rank(&d) > distance_rank(&most) || !i)
			most = d;
		if (!d.known)
			return d;
	}
	most.exact = exact;
	return most;
}

double distance_rank(const struct distance *d)
{
	return !d->known ? -1 : !d->fits || d->wrong ? INFINITY : d->rel;
}

struct distance distance_of(const struct tensor *got, const struct tensor *want)
{
	struct distance d = {.known = true, .at = -1};
	const uint64_t numbers =
		T_NUMERIC_BF | T_BIT(DT_BOOL) | T_F8 | T_4BIT | T_F4 | T_F6 | T_2BIT | T_F8E8M0;
	enum dtype t = tensor_dtype(got), u = tensor_dtype(want);

	if (got->type.kind != want->type.kind)
		return d;
	if (got->type.kind != V_TENSOR)
		return distance_of_items(got, want);
	if (t == DT_STRING && u == DT_STRING)
		return distance_of_strings(got, want);
	if (!(T_BIT(t) & numbers) || !(T_BIT(u) & numbers)) {
		d.known = false;
		return d;
	}
	if (is_float(t) != is_float(u) || !shape_equal(&got->shape, &want->shape))
		return d;
	d.fits = true;
	d.count = tensor_count(want);
	d.exact = t == u && got->bytes == want->bytes &&
		  (!got->bytes || !memcmp(got->data, want->data, got->bytes));
	if (!is_float(t)) {
		add_integers(&d, got, want);
		return d;
	}
	if (t == DT_F32 && u == DT_F32)
		add_f32_elements(&d, got, want);
	else
		for (int64_t i = 0; i < d.count; i++)
			add_element(&d, i, elem_f64(t, got->data, i), elem_f64(u, want->data, i));
	d.rel = d.max_abs == 0 ? 0 : d.max_want == 0 ? INFINITY : d.max_abs / d.max_want;
	d.zero = d.max_abs > 0 && d.max_abs == d.max_want && all_zeros(got, d.count);
	return d;
}

double distance_limit(enum dtype t, double limit)
{
	/*
	 * for floats, the error that one rounding of the short type can add, with a margin; for integers, the share
	 * of wrong elements
	 */
	double least = t == DT_BF16			 ? 3e-2
		       : t == DT_F16			 ? 4e-3
		       : T_BIT(t) & (T_F8 | T_F4 | T_F6) ? 0.25
		       : T_BIT(t) & T_INTS		 ? 1e-2
							 : 0;

	return limit > least ? limit : least;
}

const char *distance_limit_say(struct diag *d, const struct distance *x, enum dtype t, double limit)
{
	if (x->text)
		return "none: strings must be equal, or the same number in 8 digits";
	return fmt(d, "%.2g of the %s", limit,
		   T_BIT(t) & (T_INTS | T_BIT(DT_BOOL)) ? "elements" : "largest element");
}

bool distance_over(const struct distance *d, enum dtype t, double limit)
{
	if (!d->known)
		return false;
	if (d->text)
		return !d->exact;
	return !d->fits || d->wrong || d->rel > distance_limit(t, limit);
}

const char *distance_say(struct diag *d, const struct distance *x)
{
	if (!x->known)
		return "not comparable";
	if (!x->fits)
		return "another type or shape";
	if (x->exact)
		return "the same to the bit";
	if (x->zero)
		return fmt(d, "all 0; the reference's largest is %.4g", x->max_want);
	if (x->wrong)
		return fmt(d,
			   "%" PRId64 " of %" PRId64
			   " not finite on one side only, first at %" PRId64 ": %.6g for %.6g",
			   x->wrong, x->count, x->at, x->got, x->want);
	if (x->at < 0)
		return "equal";
	if (x->steps && x->rel == 0)
		return fmt(d,
			   "%" PRId64 " of %" PRId64
			   " elements differ by 1, as roundings do; element %" PRId64
			   ": %.6g in place of %.6g",
			   x->steps, x->count, x->at, x->got, x->want);
	if (x->text)
		return fmt(d, "%.0f of %s differ, first element %" PRId64,
			   round(x->rel * (double)x->count),
			   str_many(&d->arena, (uint64_t)x->count, "string"), x->at);
	return fmt(d,
		   "max diff %.3g, %.2g of the largest element (%.4g); element %" PRId64
		   ": %.7g in place of %.7g",
		   x->max_abs, x->rel, x->max_want, x->at, x->got, x->want);
}
