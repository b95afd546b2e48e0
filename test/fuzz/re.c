/* SPDX-License-Identifier: Apache-2.0 */
/* A regular expression and a text, separated by the first newline. */
#include "base/re.h"
#include "test/fuzz/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t n = end ? (size_t)(end - data) : size;
	struct arena a = {0};
	struct diag d = {0};
	const struct re *re = re_compile((const char *)data, n, &a, &d);

	if (re && end)
		re_full_match(re, (const char *)end + 1, size - n - 1,
			      arena_alloc(&a, re_scratch(re)));
	diag_free(&d);
	arena_free(&a);
	return 0;
}
