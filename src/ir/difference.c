/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/difference.h"

#include <math.h>
#include <string.h>

static void add_difference(struct difference *d, int64_t i, double got, double want)
{
	if (!d->beyond++) {
		d->first = i;
		d->first_in = d->now;
		d->got = got;
		d->want = want;
	}
}

static void compare_number(struct difference *d, int64_t i, double got, double want,
			   struct tolerance t)
{
	if (isnan(got) || isnan(want) || isinf(got) || isinf(want)) {
		if (!(isnan(got) && isnan(want)) && !(got == want)) {
			d->odd++;
			d->nan_got += isnan(got);
			d->nan_want += isnan(want);
			add_difference(d, i, got, want);
		}
		return;
	}
	double diff = fabs(got - want);
	if (diff > d->max_abs) {
		d->max_abs = diff;
		d->worst = i;
		d->worst_in = d->now;
		d->worst_got = got;
		d->worst_want = want;
	}
	if (diff > 0 && (d->farthest < 0 || diff - t.rtol * fabs(want) > d->least_atol)) {
		d->least_atol = diff - t.rtol * fabs(want);
		d->farthest = i;
		d->farthest_in = d->now;
		d->farthest_got = got;
		d->farthest_want = want;
	}
	if (fabs(want) > d->max_want)
		d->max_want = fabs(want);
	d->dot += got * want;
	d->norm_got += got * got;
	d->norm_want += want * want;
	d->norm_diff += diff * diff;
	if (diff > t.atol + t.rtol * fabs(want))
		add_difference(d, i, got, want);
}

/* Compares complex elements as pairs of numbers; indices count the elements, not the numbers. */
static void compare_complex(struct difference *d, const struct tensor *got,
			    const struct tensor *want, int64_t n, struct tolerance t)
{
	enum dtype part = tensor_dtype(want) == DT_C64 ? DT_F32 : DT_F64;

	for (int64_t i = 0; i < 2 * n; i++)
		compare_number(d, i / 2, elem_f64(part, got->data, i),
			       elem_f64(part, want->data, i), t);
}

static void compare_strings(struct difference *d, const struct tensor *got,
			    const struct tensor *want, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		size_t lg, lw;
		const char *g = tensor_string(got, i, &lg), *w = tensor_string(want, i, &lw);
		if (lg != lw || (lg && memcmp(g, w, lg)))
			add_difference(d, i, NAN, NAN);
	}
}

static bool is_64_bit_integer(enum dtype t)
{
	return t == DT_I64 || t == DT_U64;
}

static void compare_parts(const struct tensor *got, const struct tensor *want, struct tolerance t,
			  struct difference *d)
{
	enum dtype type = tensor_dtype(want);

	if (got->type.kind != want->type.kind || got->nitems != want->nitems) {
		d->same_type &= got->type.kind == want->type.kind;
		d->same_shape &= got->nitems == want->nitems;
		return;
	}
	for (size_t i = 0; i < want->nitems; i++)
		compare_parts(got->items[i], want->items[i], t, d);
	if (want->type.kind != V_TENSOR)
		return;
	if (tensor_dtype(got) != type) {
		d->same_type = false;
		return;
	}
	if (!shape_equal(&got->shape, &want->shape)) {
		d->same_shape = false;
		return;
	}
	int64_t n = tensor_count(want);
	d->count += n;
	d->now = (struct tensor_pair){got, want};
	if (type == DT_STRING) {
		compare_strings(d, got, want, n);
	} else if (type == DT_C64 || type == DT_C128) {
		compare_complex(d, got, want, n, t);
	} else if (is_64_bit_integer(type)) { /* a double may round them to the same number: compare as integers first */
		for (int64_t i = 0; i < n; i++)
			if (elem_i64(type, got->data, i) != elem_i64(type, want->data, i))
				compare_number(d, i, elem_f64(type, got->data, i),
					       elem_f64(type, want->data, i), t);
	} else {
		for (int64_t i = 0; i < n; i++)
			compare_number(d, i, elem_f64(type, got->data, i),
				       elem_f64(type, want->data, i), t);
	}
}

bool compare_tensors(const struct tensor *got, const struct tensor *want, struct tolerance t,
		     struct difference *d)
{
	*d = (struct difference){
		.same_type = true, .same_shape = true, .first = -1, .worst = -1, .farthest = -1};
	if (want->type.kind == V_TENSOR && tensor_dtype(want) == DT_BF16 && t.rtol < 0x1p-6)
		t.rtol = 0x1p-6;
	compare_parts(got, want, t, d);
	return d->same_type && d->same_shape && !d->beyond;
}

void compare_as_numbers(const struct tensor *got, const struct tensor *want, struct tolerance t,
			struct difference *d)
{
	int64_t n = tensor_count(want);

	*d = (struct difference){.same_type = tensor_dtype(got) == tensor_dtype(want),
				 .same_shape = true,
				 .count = n,
				 .first = -1,
				 .worst = -1,
				 .farthest = -1};
	for (int64_t i = 0; i < n; i++)
		compare_number(d, i, elem_f64(tensor_dtype(got), got->data, i),
			       elem_f64(tensor_dtype(want), want->data, i), t);
}

double difference_cosine(const struct difference *d)
{
	if (d->norm_got == 0 && d->norm_want == 0)
		return 0;
	if (d->norm_got == 0 || d->norm_want == 0)
		return 1;
	double cosine = d->dot / (sqrt(d->norm_got) * sqrt(d->norm_want));
	return cosine > 1 ? 0 : 1 - cosine;
}

double difference_l2(const struct difference *d)
{
	if (d->norm_diff == 0)
		return 0;
	return d->norm_want > 0 ? sqrt(d->norm_diff / d->norm_want) : INFINITY;
}
