/* SPDX-License-Identifier: Apache-2.0 */
/* Every encoding of a tensor's data. */
#include "onnx/weights.h"

#include "../tools/models.h"
#include "base/mem.h"
#include "onnx/load.h"
#include "unit.h"

enum {
	U16 = 4,
	I16 = 5,
	U32 = 12,
	U64 = 13,
	C64 = 14,
	C128 = 15,
	BF16 = 16,
	F8 = 17,
	F4 = 23,
	F6 = 27,
	U2 = 25
};

static struct arena arena;
static struct diag diag;

/* The tensor, or NULL; frees the message and forgets the last one. */
static struct tensor *read_tensor(struct w m)
{
	struct weights_to to = {&arena, NULL, &diag, "tensor", false};
	struct tensor *t = NULL;

	diag_free(&diag);
	int rc = weights_tensor(&to, (struct pb_span){m.p, m.n}, &t, NULL);
	w_free(&m);
	return rc ? NULL : t;
}

static struct w typed(int elem, struct dims dims, unsigned field, const int64_t *v, int n)
{
	struct w t = m_tensor("t", elem, dims), pack = {0};

	for (int i = 0; i < n; i++)
		w_varint(&pack, (uint64_t)v[i]);
	w_msg(&t, field, pack);
	return t;
}
#define TYPED(elem, dims, field, ...)                                                              \
	typed(elem, dims, field, (const int64_t[]){__VA_ARGS__},                                   \
	      (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static void integers_in_int32_data(void)
{
	static const struct {
		int elem;
		int64_t want[3];
	} types[] = {{I8, {-1, 5, -128}},      {U8, {255, 5, 128}},  {I16, {-1, 5, -128}},
		     {U16, {65535, 5, 65408}}, {I32, {-1, 5, -128}}, {BOOL, {1, 1, 1}}};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		const struct tensor *t = read_tensor(TYPED(types[i].elem, DIMS(3), 5, -1, 5, -128));
		for (int k = 0; t && k < 3; k++)
			CHECK_INT(elem_i64(tensor_dtype(t), t->data, k), types[i].want[k]);
		CHECK(t && tensor_count(t) == 3 && t->shape.rank == 1);
	}
}

static void wide_integers(void)
{
	const struct tensor *t = read_tensor(TYPED(I64, DIMS(2), 7, INT64_MIN, 3));
	CHECK(t && elem_i64(DT_I64, t->data, 0) == INT64_MIN && elem_i64(DT_I64, t->data, 1) == 3);
	t = read_tensor(TYPED(U64, DIMS(1), 11, -1));
	CHECK(t && *(const uint64_t *)t->data == UINT64_MAX);
	t = read_tensor(TYPED(U32, DIMS(1), 11, 4000000000));
	CHECK(t && *(const uint32_t *)t->data == 4000000000u);
	CHECK(!read_tensor(TYPED(U32, DIMS(1), 5, 4)));
}

static void floats(void)
{
	const struct tensor *t = read_tensor(m_floats("t", 3));
	CHECK(t && elem_f64(DT_F32, t->data, 2) == 2.0);
	struct w m = m_tensor("t", F32, DIMS(2));
	w_float(&m, 4, 1);
	w_float(&m, 4, 2.5f);
	t = read_tensor(m);
	CHECK(t && elem_f64(DT_F32, t->data, 1) == 2.5);
	t = read_tensor(TYPED(F16, DIMS(2), 5, 0x3c00, 0xc000));
	CHECK(t && elem_f64(DT_F16, t->data, 0) == 1.0 && elem_f64(DT_F16, t->data, 1) == -2.0);
	t = read_tensor(TYPED(BF16, DIMS(1), 5, 0x3f80));
	CHECK(t && elem_f64(DT_BF16, t->data, 0) == 1.0);
	t = read_tensor(TYPED(F8, DIMS(1), 5, 0x38));
	CHECK(t && elem_f64(DT_F8E4M3FN, t->data, 0) == 1.0);
	m = m_tensor("t", F64, DIMS(1));
	double v = 1e300;
	w_bytes(&m, 10, &v, 8);
	t = read_tensor(m);
	CHECK(t && elem_f64(DT_F64, t->data, 0) == 1e300);
	float pair[4] = {1, 2, 3, 4};
	m = m_tensor("t", C64, DIMS(2));
	w_bytes(&m, 4, pair, sizeof(pair));
	t = read_tensor(m);
	CHECK(t && t->bytes == 16 && ((const float *)t->data)[3] == 4.0f);
	m = m_tensor("t", C128, DIMS(1));
	w_bytes(&m, 10, (double[2]){1, 2}, 16);
	t = read_tensor(m);
	CHECK(t && ((const double *)t->data)[1] == 2.0);
}

/* Elements of less than a byte: packed, and one a number. */
static void small_elements(void)
{
	const struct tensor *t = read_tensor(TYPED(U4, DIMS(3), 5, 0x21, 0x03));
	for (int i = 0; t && i < 3; i++)
		CHECK_INT(elem_i64(DT_U4, t->data, i), i + 1);
	CHECK(t && t->bytes == 2);
	t = read_tensor(TYPED(U4, DIMS(3), 5, 1, 2, 3));
	for (int i = 0; t && i < 3; i++)
		CHECK_INT(elem_i64(DT_U4, t->data, i), i + 1);
	t = read_tensor(TYPED(I4, DIMS(2), 5, 0x8f));
	CHECK(t && elem_i64(DT_I4, t->data, 0) == -1 && elem_i64(DT_I4, t->data, 1) == -8);
	t = read_tensor(TYPED(I4, DIMS(3), 5, -1, -8, 7));
	CHECK(t && elem_i64(DT_I4, t->data, 0) == -1 && elem_i64(DT_I4, t->data, 1) == -8 &&
	      elem_i64(DT_I4, t->data, 2) == 7);
	t = read_tensor(TYPED(U2, DIMS(5), 5, 0xe4, 0x01));
	CHECK(t && elem_i64(DT_U2, t->data, 3) == 3 && elem_i64(DT_U2, t->data, 4) == 1);
	t = read_tensor(TYPED(U2, DIMS(5), 5, 0, 1, 2, 3, 1));
	CHECK(t && elem_i64(DT_U2, t->data, 3) == 3 && elem_i64(DT_U2, t->data, 4) == 1);
	t = read_tensor(m_raw("t", F4, DIMS(3), "\x21\x03", 2));
	CHECK(t && elem_f64(DT_F4E2M1, t->data, 1) == 1.0);
	/* float6e2m3: four elements in three bytes, or each in a number of its own, of which the low six bits count */
	t = read_tensor(m_raw("t", F6, DIMS(5), "\x01\xf2\x81\x08", 4));
	CHECK(t && t->bytes == 4 && elem_f64(DT_F6E2M3, t->data, 0) == 0.125 &&
	      elem_f64(DT_F6E2M3, t->data, 1) == 1.0 && elem_f64(DT_F6E2M3, t->data, 2) == 7.5 &&
	      elem_f64(DT_F6E2M3, t->data, 3) == -0.0 && elem_f64(DT_F6E2M3, t->data, 4) == 1.0);
	t = read_tensor(TYPED(F6, DIMS(5), 5, 1, 8, 0x7f, 32, 8));
	CHECK(t && t->bytes == 4 && elem_f64(DT_F6E2M3, t->data, 1) == 1.0 &&
	      elem_f64(DT_F6E2M3, t->data, 2) == -7.5 && elem_f64(DT_F6E2M3, t->data, 4) == 1.0);
	t = read_tensor(TYPED(F6, DIMS(2), 5, 8, 31));
	CHECK(t && t->bytes == 2 && elem_f64(DT_F6E2M3, t->data, 1) == 7.5);
	CHECK(!read_tensor(m_raw("t", F6, DIMS(5), "12345", 5)));
	CHECK(!read_tensor(TYPED(F6, DIMS(4), 5, 1, 2, 3)));
	CHECK(!read_tensor(m_raw("t", U4, DIMS(3), "123", 3)));
}

static void strings(void)
{
	struct w m = m_tensor("t", STRING, DIMS(3));
	size_t n;

	w_str(&m, 6, "one");
	w_str(&m, 6, "");
	w_bytes(&m, 6, "t\0o", 3);
	const struct tensor *t = read_tensor(m);
	CHECK(t && !strncmp(tensor_string(t, 0, &n), "one", 3) && n == 3);
	CHECK(t && (tensor_string(t, 1, &n), n == 0));
	CHECK(t && !memcmp(tensor_string(t, 2, &n), "t\0o", 3) && n == 3);
	CHECK(!read_tensor(m_tensor("t", STRING, DIMS(1))));
	t = read_tensor(m_tensor("t", STRING, DIMS(0)));
	CHECK(t && tensor_count(t) == 0 && t->blob);
}

static void sizes(void)
{
	const struct tensor *t = read_tensor(m_tensor("t", F32, DIMS(0, 1 << 20, 1 << 20)));
	CHECK(t && tensor_count(t) == 0 && t->bytes == 0 && t->data);
	/* empty all the same, but strides and rows would overflow */
	CHECK(!read_tensor(m_tensor("t", F32, DIMS(0, INT64_MAX, INT64_MAX))));
	t = read_tensor(m_raw("t", F32, scalar_dims, "1234", 4));
	CHECK(t && t->shape.rank == 0 && t->bytes == 4);
	CHECK(!read_tensor(m_raw("t", F32, DIMS(2), "1234", 4)));
	CHECK_STR(diag.last ? diag.last->expected : NULL, "8 bytes for f32 [2]");
	CHECK_STR(diag.last ? diag.last->actual : NULL, "4");
	t = read_tensor(m_raw("t", BOOL, DIMS(3), "\0\2\1", 3));
	CHECK(t && !memcmp(t->data, "\0\1\1", 3));
}

static void sparse(void)
{
	struct weights_to to = {&arena, NULL, &diag, "tensor", false};
	struct w m = {0};
	struct tensor *t = NULL;
	struct pb_span name;

	w_msg(&m, 1, m_floats("s", 3)); /* 0, 1, 2 */
	w_msg(&m, 2, TYPED(I64, DIMS(3, 2), 7, 0, 0, 1, 0, 1, 2));
	w_int(&m, 3, 2);
	w_int(&m, 3, 3);
	CHECK_INT(weights_sparse(&to, (struct pb_span){m.p, m.n}, &t, &name), 0);
	CHECK(t && t->shape.rank == 2 && elem_f64(DT_F32, t->data, 3) == 1.0 &&
	      elem_f64(DT_F32, t->data, 5) == 2.0 && elem_f64(DT_F32, t->data, 4) == 0.0);
	CHECK(name.n == 1 && *name.p == 's');
	w_free(&m);
}

/* Large data stay in the file; small ones are brought into alignment. */
static void large_data_are_not_copied(void)
{
	enum { N = UNALIGNED_MIN };
	struct w g = m_graph(), m = {0};
	float *v = calloc(N, sizeof(*v));
	struct diag d = {0};

	v[N - 1] = 42;
	w_msg(&g, 5, m_raw("big", F32, DIMS(N), v, N * sizeof(*v)));
	w_msg(&g, 5, m_raw("small", F32, DIMS(8), v, 8 * sizeof(*v)));
	relu(&m, g);
	char path[] = "/tmp/infer-unit-weights-XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "wb");
	CHECK(f && fwrite(m.p, 1, m.n, f) == m.n && !fclose(f));
	uint64_t before = mem_count(MEM_HOST, MEM_WEIGHTS).live + mem_count(MEM_HOST, MEM_MODEL).live;
	struct model *x = onnx_load(path, NULL, &d);
	uint64_t after = mem_count(MEM_HOST, MEM_WEIGHTS).live + mem_count(MEM_HOST, MEM_MODEL).live;
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
	CHECK(after - before < N * sizeof(*v) / 2); /* the operators' index may be made meanwhile */
#else
	CHECK(after - before < 2 * N * sizeof(*v));
#endif
	for (uint32_t i = 0; x && i < x->graph->nvalues; i++) {
		const struct tensor *t = x->graph->value[i]->init;
		if (!t || tensor_count(t) != N)
			continue;
		CHECK(elem_f64(DT_F32, t->data, N - 1) == 42.0);
		weights_drop(x, t);
		CHECK(elem_f64(DT_F32, t->data, N - 1) == 42.0);
	}
	CHECK(x && !d.errors);
	onnx_unload(x);
	diag_free(&d);
	remove(path);
	free(v);
	w_free(&m);
}

int main(void)
{
	UNIT(integers_in_int32_data);
	UNIT(wide_integers);
	UNIT(floats);
	UNIT(small_elements);
	UNIT(strings);
	UNIT(sizes);
	UNIT(sparse);
	UNIT(large_data_are_not_copied);
	arena_free(&arena);
	diag_free(&diag);
	return unit_end();
}
