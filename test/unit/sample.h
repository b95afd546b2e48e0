/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_UNIT_SAMPLE_H
#define TEST_UNIT_SAMPLE_H
/* Operators on random data, for tests that compare one kernel with another. */
#include "ir/tensor.h"
#include "ops/op.h"
#include "test/unit/unit.h"

#include <string.h>

static uint64_t sample_seed; /* set it, and the numbers are the same again */

/* 0 to 1. */
__attribute__((unused)) static double sample_number(void)
{
	sample_seed = sample_seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(sample_seed >> 11) * 0x1p-53;
}

/* Numbers from low to high; whole ones, to the nearest, where the type has no others. */
__attribute__((unused)) static struct tensor *sample_tensor(struct arena *a, enum dtype t,
							    const struct shape *s, double low,
							    double high)
{
	struct tensor *x = tensor_new(a, t, s);

	for (int64_t i = 0; i < tensor_count(x); i++) {
		double v = low + (high - low) * sample_number();
		if (dtype_class(t) != DT_FLOAT)
			elem_set_i64(t, x->data, i, (int64_t)(v < 0 ? v - 0.5 : v + 0.5));
		else
			elem_set_f64(t, x->data, i, v);
	}
	return x;
}

/* The operator's params: its defaults, and what the text ("axis=1 largest=0") says. */
__attribute__((unused)) static void *sample_params(struct arena *a, const struct op *op,
						   const char *text)
{
	void *params = arena_alloc(a, op->params_size + 1);

	if (op->attrs)
		field_defaults(op->attrs, params, a);
	for (char *word = strtok(arena_str(a, text), " "); word; word = strtok(NULL, " ")) {
		char *value = strchr(word, '=');
		*value++ = 0;
		const struct field *f = op->attrs ? field_find(op->attrs, word) : NULL;
		CHECK(f && !field_set(f, params, value, "test", a, NULL));
	}
	return params;
}

#endif
