/* SPDX-License-Identifier: Apache-2.0 */
/* A file for --suppressions, applied to a finding. */
#include "cmd/watch/suppressions.h"
#include "test/fuzz/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = {0};
	struct diag d = {0}, found = {0};
	struct known_list k;

	if (!known_read(&k, file_with(data, size), &a, &d)) {
		FAIL(&found, E_SHAPE, .node = "conv1", .message = "libfoo.so does what it should not");
		known_suppress(&k, &found);
	}
	diag_free(&found);
	diag_free(&d);
	arena_free(&a);
	return 0;
}
