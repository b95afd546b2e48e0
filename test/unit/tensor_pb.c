/* SPDX-License-Identifier: Apache-2.0 */
/* Values in .pb files, there and back. */
#include "onnx/tensor_pb.h"

#include "../tools/models.h"
#include "unit.h"

#include <unistd.h>

static struct arena arena;
static char path[] = "/tmp/infer-unit-pb-XXXXXX";

static bool round_trip(const struct tensor *t)
{
	struct diag d = {0};
	int rc = tensor_pb_write(path, t, "name", &d);
	const struct tensor *u = rc ? NULL : tensor_pb_read(path, t->type, &arena, &d);
	bool same = u && tensor_same(t, u) && !d.errors;

	diag_free(&d);
	return same;
}

static struct tensor *floats(int64_t n)
{
	struct tensor *t = tensor_new(&arena, DT_F32, &(struct shape){.rank = 2, .dim = {1, n}});

	for (int64_t i = 0; i < n; i++)
		elem_set_f64(DT_F32, t->data, i, (double)i / 2);
	return t;
}

static struct tensor *holder(struct type type, struct tensor **items, size_t n)
{
	struct tensor *t = arena_new(&arena, struct tensor);

	t->type = type;
	t->items = items;
	t->nitems = n;
	return t;
}

static void tensors(void)
{
	CHECK(round_trip(floats(5)));
	CHECK(round_trip(floats(0)));
	for (int i = 1; i < DT_COUNT; i++)
		if (i != DT_STRING)
			CHECK(round_trip(tensor_new(&arena, (enum dtype)i,
						    &(struct shape){.rank = 1, .dim = {3}})));
	const char *text[] = {"a", "", "b\0c"};
	size_t length[] = {1, 0, 3};
	CHECK(round_trip(tensor_strings(&arena, &(struct shape){.rank = 1, .dim = {3}}, text, length)));
}

static void holders(void)
{
	struct type seq = {.kind = V_SEQUENCE, .of = V_TENSOR, .dtype = DT_F32};
	struct type opt = {.kind = V_OPTIONAL, .of = V_TENSOR, .dtype = DT_F32};
	struct type opt_seq = {
		.kind = V_OPTIONAL, .of = V_SEQUENCE, .of_of = V_TENSOR, .dtype = DT_F32};
	struct type map = {.kind = V_MAP, .dtype = DT_F32, .key = DT_I64};
	struct type maps = {.kind = V_SEQUENCE, .of = V_MAP, .dtype = DT_F32, .key = DT_I64};
	struct tensor *two[] = {floats(2), floats(3)};
	struct tensor *s = holder(seq, two, 2);
	struct tensor *values = tensor_new(&arena, DT_F32, &(struct shape){.rank = 1, .dim = {2}});
	struct tensor *pair[] = {tensor_i64(&arena, 1, (int64_t[]){7, -9}, 2), values};
	struct tensor *m = holder(map, pair, 2);

	elem_set_f64(DT_F32, values->data, 1, 0.25);
	CHECK(round_trip(s));
	CHECK(round_trip(holder(seq, NULL, 0)));
	CHECK(round_trip(holder(opt, two, 1)));
	CHECK(round_trip(holder(opt, NULL, 0)));
	CHECK(round_trip(holder(opt_seq, &s, 1)));
	CHECK(round_trip(m));
	CHECK(round_trip(holder(maps, &m, 1)));
}

static enum code fault(const void *p, size_t n, struct type type)
{
	struct diag d = {0};
	const struct tensor *t = tensor_pb_parse(p, n, type, &arena, &d);
	enum code code = d.last ? d.last->code : E_OK;

	CHECK(!t == (code != E_OK));
	diag_free(&d);
	return code;
}

static void faults(void)
{
	struct type f32 = type_tensor(DT_F32),
		    seq = {.kind = V_SEQUENCE, .of = V_TENSOR, .dtype = DT_F32};
	struct w w = m_raw("t", F32, DIMS(2), "12345678", 8);

	CHECK_INT(fault(w.p, w.n, f32), E_OK);
	for (size_t n = 0; n < w.n; n++)
		fault(w.p, n, f32);
	CHECK_INT(fault(w.p, w.n - 1, f32), E_INPUT_FORMAT);
	CHECK_INT(fault(w.p, w.n, seq), E_INPUT_FORMAT);
	CHECK_INT(fault("", 0, f32), E_INPUT_FORMAT);
	CHECK_INT(fault("\x93NUMPY\1\0", 8, f32), E_INPUT_FORMAT);
	w_free(&w);
	w = m_external("t", DIMS(2), "weights.bin", NULL, NULL);
	CHECK_INT(fault(w.p, w.n, f32), E_INPUT_FORMAT);
	w_free(&w);
	struct diag d = {0};
	CHECK(!tensor_pb_read("/nonexistent/input_0.pb", f32, &arena, &d) && d.last &&
	      d.last->code == E_INPUT_OPEN);
	CHECK_INT(tensor_pb_write("/dev/null/output_0.pb", floats(1), NULL, &d), -E_OUTPUT);
	diag_free(&d);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	close(fd);
	UNIT(tensors);
	UNIT(holders);
	UNIT(faults);
	unlink(path);
	arena_free(&arena);
	return unit_end();
}
