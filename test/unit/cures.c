/* SPDX-License-Identifier: Apache-2.0 */
/* Every finding has a cause and a cure for infer-check(1). */
#include "base/diag.h"

#include "unit.h"

static void every_code_has_a_cure(void)
{
	for (int c = E_OK + 1; c < E_COUNT; c++) {
		if (!code_cure((enum code)c) || !*code_cure((enum code)c))
			printf("# no cure: %s\n", code_id((enum code)c, SEV_ERROR));
		CHECK(code_cure((enum code)c) && *code_cure((enum code)c));
		CHECK(code_title((enum code)c) && *code_title((enum code)c));
	}
}

int main(void)
{
	UNIT(every_code_has_a_cure);
	return unit_end();
}
