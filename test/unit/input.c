/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "input/internal.h"
#include "input/random.h"
#include "unit.h"

#include <math.h>

static const char *const names[] = {"x", "x=y", "a,b", "long.name:0"};

static int parse(const char *text, struct input_spec *s, struct arena *a)
{
	return spec_parse(text, names, 4, s, a, NULL);
}

static void specs(void)
{
	struct arena a = {0};
	struct input_spec s;

	CHECK_INT(parse("x=f.npy", &s, &a), 0);
	CHECK_STR(s.name, "x");
	CHECK_STR(s.file, "f.npy");
	CHECK_INT(parse("x=y=f.npy", &s, &a), 0); /* the longest name */
	CHECK_STR(s.name, "x=y");
	CHECK_INT(parse("a,b=f,1.npy,dtype=u8,shape=1,2,3,scale=1/255", &s, &a), 0);
	CHECK_STR(s.name, "a,b");
	CHECK_STR(s.file, "f,1.npy");
	CHECK_STR(s.keys_text, "dtype=u8,shape=1,2,3,scale=1/255");
	CHECK(s.keys.dtype == DT_U8 && s.keys.shape.rank == 3 &&
	      fabs(s.keys.math.scale - 1 / 255.0) < 1e-12);
	CHECK_INT(parse("long.name:0:f.npy,mean=1/2/3,std=4", &s, &a), 0);
	CHECK_STR(s.name, "long.name:0");
	CHECK(s.keys.math.nmean == 3 && s.keys.math.mean[2] == 3 && s.keys.math.nstd == 1);
	CHECK_INT(parse("f.npy", &s, &a), 0);
	CHECK(s.name == NULL);
	CHECK_INT(parse("y=f.npy", &s, &a), -E_INPUT_NAME);
	CHECK_INT(parse("x=f.npy,dtyp=u8", &s, &a), -E_INPUT_KEY);
	CHECK_INT(parse("x=", &s, &a), -E_INPUT_OPEN);
	arena_free(&a);
}

static void keys(void)
{
	static const char *const good[][2] = {
		{"dtype", "float32"}, {"layout", "nhwc"},      {"order", "bgr"},
		{"resize", "x48"},    {"resize", "48x"},       {"resize", "letterbox:640x480"},
		{"pad", "-1.5"},      {"mean", "0.1/.2/3e-1"}, {"scale", "1/255"},
		{"shape", "1x3x4"},   {"shape", "scalar"},     {"shape", "0x3"},
		{"format", "raw"},
	};
	static const char *const bad[][2] = {
		{"dtype", "u7"},
		{"layout", "hcw"},
		{"order", "rbg"},
		{"resize", "48"},
		{"resize", "x"},
		{"resize", "0x4"},
		{"resize", "letterbox:x4"},
		{"resize", "99999999x1"},
		{"pad", "x"},
		{"mean", "1//2"},
		{"mean", ""},
		{"std", "0"},
		{"std", "1/0/1"},
		{"scale", "1/0"},
		{"scale", "nan"},
		{"shape", "1x"},
		{"shape", "-1x2"},
		{"shape", "9999999999x9999999999x9"},
		{"format", "gif"},
		{"color", "red"},
	};
	struct input_keys k = NO_KEYS;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK_INT(keys_set(&k, good[i][0], good[i][1], NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK_INT(keys_set(&k, bad[i][0], bad[i][1], NULL), -E_INPUT_KEY))
			printf("# %s=%s\n", bad[i][0], bad[i][1]);
}

static struct want want4(int64_t n, int64_t c, int64_t h, int64_t w)
{
	return (struct want){.name = "x", .dtype = DT_F32, .shape = {.rank = 4, .dim = {n, c, h, w}}};
}

static struct item raw(size_t bytes)
{
	return (struct item){
		.kind = IO_RAW, .shape = SHAPE_UNKNOWN, .count = -1, .bytes = bytes, .need = bytes};
}

static struct item typed(enum dtype t, int rank, const int64_t *dims)
{
	struct item it = {.kind = IO_NPY, .dtype = t, .shape = shape_of(rank, dims), .count = -1};

	dtype_bytes(t, shape_count(&it.shape), &it.bytes);
	it.need = it.bytes;
	return it;
}

static void fits_raw(void)
{
	struct input_keys k = NO_KEYS;
	struct fit f;
	struct want w = want4(1, 3, 4, 5);
	struct item it = raw(240);

	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	CHECK(!f.convert && !f.pixels);
	w.shape.dim[0] = DIM_SYM(0);
	it = raw(480);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	CHECK(f.shape.dim[0] == 2 && f.derived == 0);
	it = raw(481);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_BYTES);
	w.shape.dim[2] = DIM_SYM(1);
	it = raw(480);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_DIM);
	keys_set(&k, "shape", "2x3x4x5", NULL);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	w = want4(1, 3, 4, 5);
	k = NO_KEYS;
	it = raw(3 * 6 * 5);
	w = want4(1, 3, 6, 5);
	keys_set(&k, "dtype", "u8", NULL);
	keys_set(&k, "layout", "hwc", NULL);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	CHECK(f.pixels && f.src.h == 6 && f.src.w == 5 && f.src.c == 3 && !axes_last(f.dst.axes));
	w = want4(1, 6, 5, 3); /* the model takes NHWC */
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	CHECK(f.src.h == 6 && f.src.w == 5 && axes_last(f.dst.axes));
}

static void fits_typed(void)
{
	struct input_keys k = NO_KEYS;
	struct fit f;
	struct want w = want4(DIM_SYM(0), 3, 4, 5);
	struct item it = typed(DT_F32, 4, (int64_t[]){2, 3, 4, 5});

	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	it.dtype = DT_F64;
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_TYPE);
	keys_set(&k, "dtype", "i8", NULL);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_KEY);
	k = NO_KEYS;
	it = typed(DT_F32, 4, (int64_t[]){1, 4, 5, 3});
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_LAYOUT);
	keys_set(&k, "layout", "nhwc", NULL);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	CHECK(f.shape.dim[1] == 3 && f.shape.dim[2] == 4);
	k = NO_KEYS;
	it = typed(DT_F32, 3, (int64_t[]){3, 4, 5});
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_RANK);
	it = typed(DT_F32, 4, (int64_t[]){1, 3, 4, 6});
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_SHAPE);
	it.bytes--;
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_BYTES);
	it.big_endian = true;
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_FORMAT);
	/* the same free dimension twice */
	w.shape = (struct shape){.rank = 2, .dim = {DIM_SYM(0), DIM_SYM(0)}};
	it = typed(DT_F32, 2, (int64_t[]){3, 4});
	CHECK_INT(input_fit(&w, &it, &k, &f), E_INPUT_SHAPE);
	it = typed(DT_F32, 2, (int64_t[]){3, 3});
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	w.shape = (struct shape){.rank = 0};
	it = typed(DT_F32, 0, NULL);
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
	w.shape = SHAPE_UNKNOWN;
	CHECK_INT(input_fit(&w, &it, &k, &f), E_OK);
}

static void random_values(void)
{
	float a[64], b[64];
	struct range r = {.lo = -1, .hi = 1};
	struct tensor t = {.type = type_tensor(DT_F32),
			   .shape = {.rank = 1, .dim = {64}},
			   .data = a,
			   .bytes = sizeof(a)};
	double sum = 0;

	random_fill(&r, 1, "x", &t);
	t.data = b;
	random_fill(&r, 1, "x", &t);
	CHECK(!memcmp(a, b, sizeof(a)));
	random_fill(&r, 1, "y", &t);
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	for (int i = 0; i < 64; i++) {
		CHECK(a[i] >= -1 && a[i] <= 1);
		sum += a[i];
	}
	CHECK(fabs(sum) < 20);
	int64_t v[64];
	r = (struct range){.lo = 2.5, .hi = 4, .named = true};
	t = (struct tensor){.type = type_tensor(DT_I64),
			    .shape = {.rank = 1, .dim = {64}},
			    .data = v,
			    .bytes = sizeof(v)};
	random_fill(&r, 1, "x", &t);
	for (int i = 0; i < 64; i++)
		CHECK(v[i] == 3 || v[i] == 4);
}

int main(void)
{
	UNIT(specs);
	UNIT(keys);
	UNIT(fits_raw);
	UNIT(fits_typed);
	UNIT(random_values);
	return unit_end();
}
