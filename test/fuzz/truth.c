/* SPDX-License-Identifier: Apache-2.0 */
/* What --score compares with: tables, COCO's files, and the sums in lines of --jsonl. */
#include "score/score.h"
#include "test/fuzz/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"a.png", "pics/b.png", "c"};
	const char *text = (const char *)data;
	struct arena a = {0};
	struct score_sums sums;
	struct truth t;

	if (!truth_parse_table(&t, "x.csv", text, size, &a, NULL))
		(void)truth_assign(&t, names, names, 3, &a, NULL);
	if (!truth_read_coco(&t, file_with(data, size), &a, NULL))
		(void)truth_assign(&t, names, names, 3, &a, NULL);
	const struct jvalue *v = jread(text, size, "x", E_OUTPUT, &a, NULL);
	for (int kind = SCORE_TOP; v && kind <= SCORE_COSINE; kind++)
		if (score_sums_read((enum score_kind)kind, &sums, v, &a))
			(void)score_value((enum score_kind)kind, &sums);
	arena_free(&a);
	return 0;
}
