/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as a tree, and a record of infer profile that is read from it. */
#include "profile/record.h"
#include "test/fuzz/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = {0};
	struct diag d = {0};
	const struct jvalue *v = jread((const char *)data, size, "baseline", E_BASELINE_FILE, &a, &d);
	const struct jvalue *all = jget(v, "records");

	for (const struct jvalue *r = all ? all->first : NULL; r; r = r->next)
		record_free(record_read(r));
	diag_free(&d);
	arena_free(&a);
	return 0;
}
