/* SPDX-License-Identifier: Apache-2.0 */
/* A saved report, printed by infer inspect. */
#include "cmd/inspect/inspect.h"
#include "test/fuzz/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options o = {0};
	struct diag d = {0};
	static FILE *none;

	if (!none)
		none = freopen("/dev/null", "w", stdout);
	inspect_report(&o, file_with(data, size), &d);
	diag_free(&d);
	arena_free(&o.arena);
	return 0;
}
