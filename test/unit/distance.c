/* SPDX-License-Identifier: Apache-2.0 */
/* How far values are apart: the measure of --compare, and the metrics of references. */
#include "check/distance.h"
#include "ir/difference.h"
#include "unit.h"

#include <math.h>

static struct tensor floats(float *v, int64_t n)
{
	return (struct tensor){.type = type_tensor(DT_F32),
			       .shape = {1, {n}},
			       .data = v,
			       .bytes = (size_t)n * sizeof(*v)};
}

static struct tensor bytes(uint8_t *v, int64_t n)
{
	return (struct tensor){
		.type = type_tensor(DT_U8), .shape = {1, {n}}, .data = v, .bytes = (size_t)n};
}

static struct tensor longs(int64_t *v, int64_t n)
{
	return (struct tensor){.type = type_tensor(DT_I64),
			       .shape = {1, {n}},
			       .data = v,
			       .bytes = (size_t)n * sizeof(*v)};
}

static void test_floats(void)
{
	float a[4] = {1, 2, 3, -8}, b[4] = {1, 2, 3.5f, -8}, z[4] = {0};
	struct tensor x = floats(a, 4), y = floats(b, 4), zero = floats(z, 4);
	struct distance d = distance_of(&x, &x);

	CHECK(d.known && d.fits && d.exact && d.rel == 0);
	d = distance_of(&x, &y);
	CHECK(d.fits && !d.exact && d.at == 2 && d.got == 3 && d.want == 3.5);
	CHECK(fabs(d.rel - 0.5 / 8) < 1e-12);
	CHECK(distance_over(&d, DT_F32, 0.06) && !distance_over(&d, DT_F32, 0.07));
	d = distance_of(&zero, &x);
	CHECK(d.zero && d.rel == 1);
	d = distance_of(&x, &zero);
	CHECK(!d.zero && isinf(d.rel) && distance_over(&d, DT_F32, 0.5));
}

/* Not finite on both sides alike is equal; on one side only it is wrong, however small the rest. */
static void test_not_finite(void)
{
	float a[3] = {1, NAN, INFINITY}, b[3] = {1, NAN, INFINITY}, c[3] = {1, 2, INFINITY};
	struct tensor x = floats(a, 3), y = floats(b, 3), z = floats(c, 3);
	struct distance d = distance_of(&x, &y);

	CHECK(!d.wrong && !distance_over(&d, DT_F32, 1e-6));
	d = distance_of(&x, &z);
	CHECK(d.wrong == 1 && d.at == 1 && distance_over(&d, DT_F32, 0.9));
}

/* Strings are the same or not, however few differ; a sequence is as far away as its farthest tensor. */
static void test_strings_and_items(void)
{
	struct arena a = {0};
	const struct shape three = {1, {3}};
	const char *const words[3] = {"a", "bc", ""}, *const others[3] = {"a", "bd", ""};
	const size_t lengths[3] = {1, 2, 0};
	struct tensor *s = tensor_strings(&a, &three, words, lengths),
		      *t = tensor_strings(&a, &three, others, lengths);
	struct distance d = distance_of(s, s);

	CHECK(d.known && d.fits && d.exact && !distance_over(&d, DT_STRING, 0));
	d = distance_of(s, t);
	CHECK(d.known && d.fits && !d.exact && d.at == 1 && distance_over(&d, DT_STRING, 0.9));
	float one[2] = {1, 2}, two[2] = {1, 3};
	struct tensor x = floats(one, 2), y = floats(two, 2);
	struct tensor *xx[2] = {&x, &x}, *xy[2] = {&x, &y};
	const struct type sequence = {.kind = V_SEQUENCE, .dtype = DT_F32, .of = V_TENSOR};
	struct tensor p = {.type = sequence, .items = xx, .nitems = 2},
		      q = {.type = sequence, .items = xy, .nitems = 2},
		      r = {.type = sequence, .items = xx, .nitems = 1};
	d = distance_of(&p, &p);
	CHECK(d.known && d.exact);
	d = distance_of(&p, &q);
	CHECK(d.known && d.fits && !d.exact && d.at == 1 && distance_over(&d, DT_F32, 0.3));
	d = distance_of(&p, &r);
	CHECK(d.known && !d.fits);
	d = distance_of(&p, &x);
	CHECK(d.known && !d.fits);
	arena_free(&a);
}

/* A short integer may round to its neighbour; of long ones each is an answer. */
static void test_integers(void)
{
	uint8_t a[4] = {1, 2, 3, 4}, b[4] = {1, 3, 2, 4}, c[4] = {1, 2, 3, 9};
	int64_t i[4] = {1, 2, 3, 4}, k[4] = {1, 2, 3, 5};
	struct tensor x = bytes(a, 4), y = bytes(b, 4), z = bytes(c, 4), m = longs(i, 4),
		      n = longs(k, 4);
	struct distance d = distance_of(&x, &y);

	CHECK(!d.exact && d.rel == 0);
	d = distance_of(&x, &z);
	CHECK(d.rel == 0.25 && distance_over(&d, DT_U8, 1e-3));
	d = distance_of(&m, &n);
	CHECK(d.rel == 0.25 && distance_over(&d, DT_I64, 1e-3));
}

static void test_shapes(void)
{
	float a[4] = {1, 2, 3, 4};
	int64_t i[4] = {1, 2, 3, 4};
	struct tensor x = floats(a, 4), y = floats(a, 3), z = longs(i, 4);
	struct distance d = distance_of(&x, &y);

	CHECK(d.known && !d.fits && distance_over(&d, DT_F32, 0.9));
	d = distance_of(&x, &z);
	CHECK(!d.fits);
}

static void test_metrics(void)
{
	float a[3] = {2, 4, 6}, b[3] = {1, 2, 3}, c[3] = {-1, -2, -3}, z[3] = {0};
	struct tensor x = floats(a, 3), y = floats(b, 3), w = floats(c, 3), zero = floats(z, 3);
	const struct tolerance t = {1e-3, 1e-7};
	struct difference f;

	CHECK(!compare_tensors(&x, &y, t, &f));
	CHECK(f.worst == 2 && f.worst_got == 6 && f.worst_want == 3 && f.first == 0 && f.beyond == 3);
	CHECK(difference_cosine(&f) < 1e-12 && fabs(difference_l2(&f) - 1) < 1e-12);
	compare_tensors(&w, &y, t, &f);
	CHECK(fabs(difference_cosine(&f) - 2) < 1e-12);
	compare_tensors(&zero, &y, t, &f);
	CHECK(difference_cosine(&f) == 1 && difference_l2(&f) == 1);
	CHECK(compare_tensors(&y, &y, t, &f) && difference_l2(&f) == 0);
}

int main(void)
{
	UNIT(test_floats);
	UNIT(test_not_finite);
	UNIT(test_strings_and_items);
	UNIT(test_integers);
	UNIT(test_shapes);
	UNIT(test_metrics);
	return unit_end();
}
