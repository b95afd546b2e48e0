/* SPDX-License-Identifier: Apache-2.0 */
/* A .safetensors file. What is read as one must hold together, and must be read the same after it was written again. */
#include "ir/safetensors.h"
#include "test/fuzz/file.h"

#include <string.h>

static void check(bool holds)
{
	if (!holds)
		__builtin_trap();
}

/* The tensors' bytes are all bytes to the file's end, one after the other. */
static void tile(const struct safetensors *s, size_t size)
{
	uint64_t at = s->n ? s->list[0].at : size;

	for (size_t i = 0; i < s->n; at += s->list[i++].bytes) {
		size_t bytes;
		check(dtype_bytes(s->list[i].dtype, shape_count(&s->list[i].shape), &bytes));
		check(s->list[i].at == at && s->list[i].bytes == bytes);
	}
	check(at == size);
}

static void write_again(const struct safetensors *s, struct arena *a)
{
	struct safetensor *list = arena_new_n(a, struct safetensor, s->n + 1);
	struct safetensors back;
	size_t head, total = 0;

	for (size_t i = 0; i < s->n; i++) {
		list[i] = s->list[i];
		total += (size_t)list[i].bytes;
	}
	const void *text = safetensors_make(list, s->n, a, &head);
	char *file = arena_alloc(a, head + total + 1);
	memcpy(file, text, head);
	memset(file + head, 0, total);
	check(!safetensors_head(file, head + total, "x", E_INPUT_FORMAT, a, &back, NULL));
	check(back.n == s->n);
	for (size_t i = 0; i < s->n; i++) {
		const struct safetensor *x = safetensors_find(&back, s->list[i].name);
		check(x && x->dtype == s->list[i].dtype && shape_equal(&x->shape, &s->list[i].shape));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = {0};
	struct diag d = {0};
	struct safetensors s;

	if (!safetensors_head(data, size, "x", E_INPUT_FORMAT, &a, &s, &d)) {
		tile(&s, size);
		write_again(&s, &a);
	}
	diag_free(&d);
	arena_free(&a);
	return 0;
}
