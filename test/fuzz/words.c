/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind options: --input, --shape, --dim, --random, --shapes-sweep, --decode. The first byte chooses. */
#include "input/internal.h"
#include "input/sweep.h"
#include "output/result.h"
#include "test/fuzz/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"x", "x.y", "input=1"};
	struct arena a = {0};
	struct diag d = {0};
	struct input_spec spec;
	struct sweep sweep;
	struct shape shape;
	double lo, hi;
	int64_t blank;

	if (!size)
		return 0;
	const char *word = arena_strn(&a, (const char *)data + 1, size - 1);
	const struct text one = {word, strlen(word)};
	const struct texts texts = {&one, 1};
	switch (data[0] % 5) {
	case 0: spec_parse(word, names, 3, &spec, &a, &d); break;
	case 1:
		if (parse_shape(word, &shape))
			shape_key(&a, &shape);
		break;
	case 2: parse_range(word, &lo, &hi); break;
	case 3:
		if (!sweep_parse(&texts, &sweep, &a, &d))
			for (size_t k = 0; k < sweep.points && k < 100; k++)
				sweep_label(&sweep, k, &a);
		break;
	default: decode_parse(word, &blank);
	}
	diag_free(&d);
	arena_free(&a);
	return 0;
}
