/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io.h"

#include "base/mem.h"
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#define DATA "test/data/run/"

static int head(const char *dict, int version, struct npy *h)
{
	unsigned char f[512] = "\x93NUMPY";
	size_t n = strlen(dict), at = version == 1 ? 10 : 12;

	f[6] = (unsigned char)version;
	f[8] = (unsigned char)n;
	memcpy(f + at, dict, n);
	return npy_head(f, at + n, "x.npy", h, NULL);
}

static void npy_heads(void)
{
	struct npy h;

	for (int v = 1; v <= 3; v++) {
		CHECK_INT(head("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", v, &h),
			  0);
		CHECK(h.dtype == DT_F32 && h.shape.rank == 2 && h.shape.dim[1] == 3 && h.bytes == 24);
	}
	CHECK_INT(head("{\"shape\":(5,),\"fortran_order\":True,\"descr\":\">i8\"}", 1, &h), 0);
	CHECK(h.dtype == DT_I64 && h.big_endian && !h.fortran); /* one axis: no difference */
	CHECK_INT(head("{'descr': '|b1', 'fortran_order': True, 'shape': (2, 2)}", 1, &h), 0);
	CHECK(h.dtype == DT_BOOL && h.fortran && !h.big_endian);
	CHECK_INT(head("{'descr': '<U5', 'fortran_order': False, 'shape': ()}", 1, &h), 0);
	CHECK(h.dtype == DT_STRING && h.size == 20 && h.shape.rank == 0 && h.bytes == 20);
	CHECK_INT(head("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,)}",
		       1, &h),
		  0);
	CHECK(h.dtype == DT_NONE);
	CHECK_STR(h.descr, "structured");
	CHECK_INT(head("{'descr': '<V2', 'fortran_order': False, 'shape': (3,)}", 1, &h), 0);
	CHECK(h.dtype == DT_NONE && h.kind == 'V' && h.size == 2);
}

static void npy_bad_heads(void)
{
	struct npy h;
	static const char *const bad[] = {
		"",
		"{",
		"{}",
		"{'descr': '<f4'}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
		"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
		"{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
		"{'unknown': '<f4', 'fortran_order': False, 'shape': (2,)}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK_INT(head(bad[i], 1, &h), -E_INPUT_FORMAT))
			printf("# %s\n", bad[i]);
	CHECK_INT(head("{}", 4, &h), -E_INPUT_FORMAT);
	CHECK_INT(npy_head("\x93NUMPY\1\0\377\377{", 11, "x", &h, NULL), -E_INPUT_FORMAT);
	CHECK_INT(npy_head("abc", 3, "x", &h, NULL), -E_INPUT_FORMAT);
}

/* Archives, whole and damaged. */
static void archives(void)
{
	static const char *const files[] = {DATA "ab.npz", DATA "ab_packed.npz", DATA "ab64.npz"};
	unsigned seed = 1;

	for (size_t i = 0; i < 3; i++) {
		struct file_map m;
		struct arena a = {0};
		struct zip z;
		struct npy h;
		unsigned char bytes[1024], peek[80];
		if (!CHECK(file_map(files[i], &m, E_INPUT_OPEN, NULL) == 0))
			continue;
		CHECK_INT(zip_open(m.data, m.size, "x", &a, &z, NULL), 0);
		CHECK(z.n == 2);
		CHECK_STR(z.entry[0].name, "a");
		CHECK(z.entry[1].size <= sizeof(bytes));
		CHECK_INT(zip_read(&z.entry[1], bytes, NULL), 0);
		CHECK_INT(npy_head(bytes, (size_t)z.entry[1].size, "b", &h, NULL), 0);
		CHECK(h.dtype == DT_F32 && h.shape.dim[0] == 2 && h.bytes == 32);
		CHECK(zip_peek(&z.entry[1], peek, sizeof(peek)) == sizeof(peek));
		CHECK(!memcmp(peek, bytes, sizeof(peek)));
		for (int k = 0; k < 400; k++) {
			unsigned char *copy = malloc(m.size);
			memcpy(copy, m.data, m.size);
			for (int j = 0; j < 1 + k % 3; j++) {
				seed = seed * 1103515245 + 12345;
				copy[(seed >> 8) % m.size] = (unsigned char)(seed >> 24);
			}
			struct zip y;
			size_t n = k % 4 ? m.size : (seed >> 4) % m.size;
			if (zip_open(copy, n, "x", &a, &y, NULL) == 0)
				for (size_t e = 0; e < y.n; e++) {
					zip_peek(&y.entry[e], peek, sizeof(peek));
					if (y.entry[e].size <= sizeof(bytes))
						zip_read(&y.entry[e], bytes, NULL);
				}
			free(copy);
		}
		arena_free(&a);
		file_unmap(&m);
	}
}

/* crc32() of zlib begins anew when its buffer is NULL, and the data of a tensor without elements are. */
static void no_elements_in_an_archive(void)
{
	char dir[] = "/tmp/infer-io-XXXXXX";
	struct arena a = {0};
	struct shape shape = {.rank = 2, .dim = {0, 3}};
	struct tensor *t = tensor_new(&a, DT_F32, &shape);
	const struct io_output out = {.name = "y", .tensor = t};
	const char *path;
	struct file_map m;
	struct zip z;
	unsigned char bytes[1024];

	t->data = NULL;
	if (!CHECK(mkdtemp(dir)) || !CHECK_INT(io_save(dir, IO_SAVE_NPZ, &out, 1, &path, &a, NULL), 0))
		return;
	CHECK_INT(file_map(path, &m, E_INPUT_OPEN, NULL), 0);
	CHECK_INT(zip_open(m.data, m.size, "x", &a, &z, NULL), 0);
	CHECK(z.n == 1 && z.entry[0].size <= sizeof(bytes));
	CHECK_INT(zip_read(&z.entry[0], bytes, NULL), 0);
	file_unmap(&m);
	unlink(path);
	rmdir(dir);
	arena_free(&a);
}

static struct tensor *parse(enum io_kind kind, const char *s, enum dtype want, struct arena *a,
			    struct text_head *h)
{
	if (text_scan(kind, s, strlen(s), "x", want, h, NULL))
		return NULL;
	struct shape shape =
		h->shape.rank >= 0 ? h->shape : (struct shape){.rank = 1, .dim = {h->count}};
	return text_read(kind, s, strlen(s), want, &shape, a);
}

static void texts(void)
{
	struct arena a = {0};
	struct text_head h;
	struct tensor *t = parse(IO_JSON, " [[1, 2.5e0], [-3, \"NaN\"]] ", DT_F32, &a, &h);

	CHECK(t && h.shape.rank == 2 && h.shape.dim[0] == 2 && h.count == 4);
	CHECK(t && ((float *)t->data)[1] == 2.5f && ((float *)t->data)[3] != ((float *)t->data)[3]);
	t = parse(IO_JSON,
		  "{\"dtype\": \"i64\", \"shape\": [1, 2], \"data\": [9223372036854775807, -9223372036854775808]}",
		  DT_I64, &a, &h);
	CHECK(t && h.dtype == DT_I64 && h.shape.rank == 2 && ((int64_t *)t->data)[1] == INT64_MIN);
	t = parse(IO_JSON, "18446744073709551615", DT_U64, &a, &h);
	CHECK(t && h.shape.rank == 0 && *(uint64_t *)t->data == UINT64_MAX);
	t = parse(IO_JSON, "[[], []]", DT_F32, &a, &h);
	CHECK(t && h.shape.rank == 2 && h.shape.dim[0] == 2 && h.shape.dim[1] == 0);
	t = parse(IO_JSON, "[true, false, 1]", DT_BOOL, &a, &h);
	CHECK(t && ((uint8_t *)t->data)[0] == 1 && ((uint8_t *)t->data)[1] == 0);
	t = parse(IO_JSON, "[\"a\\u00e9\\ud83d\\ude00\\n\"]", DT_STRING, &a, &h);
	size_t n;
	CHECK(t && !memcmp(tensor_string(t, 0, &n), "a\xc3\xa9\xf0\x9f\x98\x80\n", 8) && n == 8);
	t = parse(IO_TEXT, "1 2,3;4\n# five\n-6", DT_I8, &a, &h);
	CHECK(t && h.count == 5 && ((int8_t *)t->data)[4] == -6);
	t = parse(IO_TEXT, "one\r\n\ntwo", DT_STRING, &a, &h);
	CHECK(t && h.count == 3 && tensor_string(t, 2, &n) && n == 3);
	arena_free(&a);
}

static void bad_texts(void)
{
	struct arena a = {0};
	struct text_head h;
	static const char *const bad[] = {"",
					  "[",
					  "[1",
					  "[1,",
					  "[1 2]",
					  "[[1], 2]",
					  "[1, [2]]",
					  "[[1], [2, 3]]",
					  "]",
					  "[1]]",
					  "{\"data\" [1]}",
					  "{\"shape\": [2], \"data\": [1]}",
					  "{}",
					  "[\"a]",
					  "[1e]",
					  "[0x10]",
					  "[nul]",
					  "[\"\\x\"]",
					  "[--1]",
					  "[1,,2]",
					  "[[],2]",
					  "[[[],[]],2]",
					  "{\"data\": [1], \"data\": [2]}",
					  "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK(parse(IO_JSON, bad[i], DT_F32, &a, &h) == NULL))
			printf("# %s\n", bad[i]);
	CHECK(parse(IO_JSON, "{\"shape\": [1], \"data\": [1, 2, 3]}", DT_C64, &a, &h) == NULL);
	/* a file that has changed since its numbers were counted */
	CHECK(text_read(IO_JSON, "[1,2,3]", 7, DT_F32, &(struct shape){.rank = 1, .dim = {2}}, &a) ==
	      NULL);
	CHECK(text_read(IO_TEXT, "a\nb\nc", 5, DT_STRING, &(struct shape){.rank = 1, .dim = {2}},
			&a) == NULL);
	CHECK(text_read(IO_TEXT, "1", 1, DT_F32, &(struct shape){.rank = 1, .dim = {2}}, &a) == NULL);
	CHECK(parse(IO_JSON, "[300]", DT_U8, &a, &h) == NULL);
	CHECK(parse(IO_JSON, "[-1]", DT_U8, &a, &h) == NULL);
	CHECK(parse(IO_JSON, "[1.5]", DT_I32, &a, &h) == NULL);
	CHECK(parse(IO_JSON, "[1]", DT_STRING, &a, &h) == NULL);
	CHECK(parse(IO_JSON, "[\"1\"]", DT_I32, &a, &h) == NULL);
	CHECK(parse(IO_TEXT, "1 two", DT_F32, &a, &h) == NULL);
	arena_free(&a);
}

static void kinds(void)
{
	CHECK_INT(io_kind_of("x.npy", "", 0), IO_NPY);
	CHECK_INT(io_kind_of("x.PNG", "", 0), IO_IMAGE);
	CHECK_INT(io_kind_of("x.npy", "PK\3\4", 4), IO_NPZ);
	CHECK_INT(io_kind_of("x.bin", "\x93NUMPY", 6), IO_RAW);
	CHECK_INT(io_kind_of("x", "\x93NUMPY", 6), IO_NPY);
	CHECK_INT(io_kind_of("x.weights", "abc", 3), IO_RAW);
	CHECK_INT(io_kind_of("-", "[1]", 3), IO_JSON);
	CHECK_INT(io_kind_of("-", "1 2", 3), IO_TEXT);
	CHECK_INT(io_kind_of("-", "\0\1", 2), IO_RAW);
}

static void file_names(void)
{
	struct arena a = {0};

	CHECK_STR(io_file_name(&a, "a/b:c d"), "a_b_c_d");
	CHECK_STR(io_file_name(&a, "../../etc"), "_._.._etc");
	CHECK_STR(io_file_name(&a, "-rf"), "_rf");
	CHECK_STR(io_file_name(&a, ""), "output");
	CHECK_STR(io_file_name(&a, "softmax_11.tmp_0"), "softmax_11.tmp_0");
	arena_free(&a);
}

/* Names that become the same file name stay apart; what is written reads back. */
static void saving(void)
{
	char dir[] = "/tmp/infer-unit-XXXXXX";
	struct arena a = {0};
	struct diag d = {0};
	float v[6] = {1, 2, 3, 4, 5, 6};
	struct tensor t = {.type = type_tensor(DT_F32),
			   .shape = {.rank = 2, .dim = {2, 3}},
			   .data = v,
			   .bytes = sizeof(v)};
	struct io_output out[] = {{.name = "a/b", .tensor = &t}, {.name = "a:b", .tensor = &t}};
	const char *paths[2];

	if (!CHECK(mkdtemp(dir) != NULL))
		return;
	CHECK_INT(io_save(dir, IO_SAVE_NPY, out, 2, paths, &a, &d), 0);
	CHECK(strcmp(paths[0], paths[1]) != 0);
	for (int i = 0; i < 2; i++) {
		struct file_map m;
		struct npy h;
		if (!CHECK(file_map(paths[i], &m, E_INPUT_OPEN, &d) == 0))
			continue;
		CHECK_INT(npy_head(m.data, m.size, "x", &h, &d), 0);
		CHECK(h.data % 64 == 0 && h.data + h.bytes == m.size && h.dtype == DT_F32);
		CHECK(!memcmp(m.data + h.data, v, sizeof(v)));
		file_unmap(&m);
		unlink(paths[i]);
	}
	CHECK_INT(io_save(dir, IO_SAVE_NPZ, out, 2, paths, &a, &d), 0);
	struct file_map m;
	struct zip z;
	if (CHECK(file_map(paths[0], &m, E_INPUT_OPEN, &d) == 0)) {
		unsigned char bytes[256];
		CHECK_INT(zip_open(m.data, m.size, "x", &a, &z, &d), 0);
		CHECK(z.n == 2 && z.entry[1].size <= sizeof(bytes));
		CHECK_STR(z.entry[1].name, "a:b");
		CHECK_INT(zip_read(&z.entry[1], bytes, &d), 0);
		file_unmap(&m);
	}
	unlink(paths[0]);
	CHECK_INT(rmdir(dir), 0);
	diag_free(&d);
	arena_free(&a);
}

int main(void)
{
	UNIT(npy_heads);
	UNIT(npy_bad_heads);
	UNIT(archives);
	UNIT(no_elements_in_an_archive);
	UNIT(texts);
	UNIT(bad_texts);
	UNIT(kinds);
	UNIT(file_names);
	UNIT(saving);
	return unit_end();
}
