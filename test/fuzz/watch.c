/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a watched process, which the watched program may have written to, and the findings in it. */
#include "test/fuzz/file.h"
#include "watch/ledger.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ledger_options all = {
		.errors = REPORT_ALL, .contexts = true, .calls = true};
	const char *at = (const char *)data, *end = at + size;
	struct ledger l = {.pid = 4711};
	struct diag d = {0};

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		ledger_line(&l, at, (size_t)(stop - at));
		at = stop + 1;
	}
	ledger_findings(&l, &all, &d);
	diag_free(&d);
	ledger_free(&l);
	return 0;
}
