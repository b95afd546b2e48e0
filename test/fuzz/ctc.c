/* SPDX-License-Identifier: Apache-2.0 */
/* CTC decoding of any scores: the first bytes are blank, labels, batch, steps and classes, the others the scores. */
#include "output/result.h"
#include "test/fuzz/file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *words[] = {"a", "b", "", "\xf0\x9f\x98\x80", "e"};
	struct arena a = {0};
	struct diag d = {0};
	struct decoded to;

	if (size < 5)
		return 0;
	struct shape s = {3, {data[2] % 4, data[3] % 16, data[4] % 8}};
	if (data[1] & 16)
		s = (struct shape){2, {data[3] % 16, data[4] % 8}};
	struct labels labels = {words, data[1] & 64 ? data[1] % 6 : 0};
	struct tensor *t = tensor_new(&a, data[1] & 32 ? DT_F16 : DT_F32, &s);
	if (t && t->data && t->bytes) {
		size_t n = size - 5 < t->bytes ? size - 5 : t->bytes;
		memset(t->data, 0, t->bytes);
		memcpy(t->data, data + 5, n);
	}
	struct output out = {.name = "y", .tensor = t};
	decode_ctc(&out, 1, (int8_t)data[0], &labels, &to, &a, &d);
	diag_free(&d);
	arena_free(&a);
	return 0;
}
