/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image.h"

#include "base/file.h"
#include "base/mem.h"
#include "image/pixels.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

#define DATA "test/data/run/"

static void put16(unsigned char *p, unsigned v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

static void put32(unsigned char *p, unsigned v)
{
	put16(p, v);
	put16(p + 2, v >> 16);
}

/* A BMP's heads for w x h pixels of bpp bits; returns the offset of the pixels. */
static size_t bmp_head(unsigned char *p, int w, int h, unsigned bpp, unsigned compression,
		       unsigned colors)
{
	size_t extra = compression == 3 ? 12 : 0, at = 54 + extra + colors * 4;

	memset(p, 0, 54);
	memcpy(p, "BM", 2);
	put32(p + 10, (unsigned)at);
	put32(p + 14, 40);
	put32(p + 18, (unsigned)w);
	put32(p + 22, (unsigned)h);
	put16(p + 26, 1);
	put16(p + 28, bpp);
	put32(p + 30, compression);
	put32(p + 46, colors);
	return at;
}

static bool pixels_are(const void *file, size_t n, int channels, const unsigned char *want,
		       size_t nwant)
{
	struct image im;
	struct diag d = {0};
	int rc = image_decode(file, n, &im, E_INPUT_FORMAT, &d);
	bool ok = !rc && im.channels == channels && !memcmp(im.pixels, want, nwant);

	if (rc)
		diag_print(&d, stdout, false);
	image_free(&im);
	diag_free(&d);
	return ok;
}

static void bmp_kinds(void)
{
	unsigned char f[256] = {0};
	size_t at = bmp_head(f, 2, 2, 24, 0, 0);

	memcpy(f + at, "\3\2\1\6\5\4\0\0\11\10\7\14\13\12\0\0", 16);
	CHECK(pixels_are(f, at + 16, 3, (const unsigned char *)"\7\10\11\12\13\14\1\2\3\4\5\6", 12));
	CHECK(pixels_are(f, at + 14, 3, (const unsigned char *)"\7\10\11", 3)); /* no padding at the end */
	put32(f + 22, (unsigned)-2);						/* from the top */
	CHECK(pixels_are(f, at + 16, 3, (const unsigned char *)"\1\2\3\4\5\6\7\10\11\12\13\14", 12));

	at = bmp_head(f, 3, 1, 1, 0, 2); /* black and white */
	memcpy(f + 54, "\0\0\0\0\377\377\377\0", 8);
	f[at] = 0xa0;
	CHECK(pixels_are(f, at + 4, 1, (const unsigned char *)"\377\0\377", 3));

	at = bmp_head(f, 2, 1, 4, 0, 2); /* a palette of two colors */
	memcpy(f + 54, "\1\2\3\0\4\5\6\0", 8);
	f[at] = 0x1f; /* the second index is out of the palette: its first color */
	CHECK(pixels_are(f, at + 4, 3, (const unsigned char *)"\6\5\4\3\2\1", 6));

	at = bmp_head(f, 1, 1, 16, 0, 0);
	put16(f + at, 0x7c1f);
	CHECK(pixels_are(f, at + 4, 3, (const unsigned char *)"\377\0\377", 3));
	at = bmp_head(f, 1, 1, 16, 3, 0);
	put32(f + 54, 0xf800);
	put32(f + 58, 0x07e0);
	put32(f + 62, 0x001f);
	put16(f + at, 0x07ff);
	CHECK(pixels_are(f, at + 4, 3, (const unsigned char *)"\0\377\377", 3));
	at = bmp_head(f, 1, 1, 32, 0, 0);
	put32(f + at, 0x00010203);
	CHECK(pixels_are(f, at + 4, 3, (const unsigned char *)"\1\2\3", 3));
}

static void pnm_kinds(void)
{
#define PNM(text, c, want, n)                                                                      \
	CHECK(pixels_are(text, sizeof(text) - 1, c, (const unsigned char *)(want), n))
	PNM("P1\n3 1\n101", 1, "\0\377\0", 3);
	PNM("P2 # c\n2 1 100\n0 100", 1, "\0\377", 2);
	PNM("P3\n1 1\n255\n1 2 3", 3, "\1\2\3", 3);
	PNM("P4\n3 2\n\xa0\x40", 1, "\0\377\0\377\0\377", 6);
	PNM("P5\n2 1\n255\n\1\2", 1, "\1\2", 2);
	PNM("P6\n1 1\n255\n\1\2\3", 3, "\1\2\3", 3);
#undef PNM
}

static int refused(const char *p, size_t n)
{
	struct image im;
	int rc = image_decode(p, n, &im, E_INPUT_FORMAT, NULL);

	image_free(&im);
	return rc;
}

static void hostile_heads(void)
{
#define BAD(text) CHECK_INT(refused(text, sizeof(text) - 1), -E_INPUT_FORMAT)
	BAD("P6\n99999 99999\n255\n");
	BAD("P6\n65536 65536\n255\n");
	BAD("P5\n2 2\n70000\n");
	BAD("P5\n2 2\n255\n\1\2\3");
	BAD("P3\n2 2\n255\n1 2 3");
	BAD("P6\n0 2\n255\n");
	BAD("BM0123\0\0\0\0....(\0\0\0\377\377\377\177\377\377\377\177");
	BAD("not a picture at all");
	BAD("");
#undef BAD
	unsigned char f[64];
	for (unsigned bpp = 0; bpp < 40; bpp++) {
		bmp_head(f, INT32_MAX, INT32_MIN, bpp, 0, 0x7fffffff);
		CHECK(refused((char *)f, sizeof(f)) != 0);
	}
}

/* Damaged pictures end in a finding or in pixels, never in a fault: for the sanitizers. */
static void damaged_files(void)
{
	static const char *const files[] = {"rgb.png",	"palette.png", "deep.png", "rgb.jpg",
					    "rgb.bmp",	"rgb.ppm",     "text.ppm", "rgb.webp",
					    "rgb.tiff", "rgb.jp2"};
	unsigned seed = 1;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[64];
		struct file_map m;
		snprintf(path, sizeof(path), DATA "%s", files[i]);
		if (!CHECK(file_map(path, &m, E_INPUT_OPEN, NULL) == 0))
			continue;
		unsigned char *copy = mem_alloc(m.size, MEM_STAGING);
		for (int k = 0; k < 150; k++) {
			struct image im;
			struct diag d = {0};
			memcpy(copy, m.data, m.size);
			for (int j = 0; j < 1 + k % 4; j++) {
				seed = seed * 1103515245 + 12345;
				copy[(seed >> 8) % m.size] = (unsigned char)(seed >> 24);
			}
			size_t n = k % 3 ? m.size : (seed >> 4) % m.size;
			if (image_decode(copy, n, &im, E_INPUT_FORMAT, &d) == 0)
				CHECK(im.pixels && im.channels >= 1 && im.channels <= 4);
			image_free(&im);
			diag_free(&d);
		}
		mem_free(copy);
		file_unmap(&m);
	}
}

static void heads_agree(void)
{
	static const char *const files[] = {"rgb.png", "rgba.png", "deep.png", "rgb.jpg",
					    "rgb.bmp", "rgb.webp", "rgb.tiff", "rgb.jp2"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[64];
		struct file_map m;
		struct image head, im;
		uint64_t calls;
		snprintf(path, sizeof(path), DATA "%s", files[i]);
		if (!CHECK(file_map(path, &m, E_INPUT_OPEN, NULL) == 0))
			continue;
		calls = mem_calls();
		CHECK_INT(image_head(m.data, m.size, &head, E_INPUT_FORMAT, NULL), 0);
		CHECK(mem_calls() == calls && !head.pixels);
		CHECK_INT(image_decode(m.data, m.size, &im, E_INPUT_FORMAT, NULL), 0);
		CHECK(head.width == 24 && head.height == 16 && im.width == 24 && im.height == 16);
		CHECK(head.channels == im.channels && head.bits == im.bits);
		image_free(&im);
		file_unmap(&m);
	}
}

static void collect(void *to, const void *p, size_t n)
{
	struct file_map *m = to;

	memcpy((unsigned char *)(uintptr_t)m->data + m->size, p, n);
	m->size += n;
}

static void png_round_trip(void)
{
	unsigned char file[4096], pixels[5 * 3 * 4];
	struct file_map m = {.data = file};

	for (size_t i = 0; i < sizeof(pixels); i++)
		pixels[i] = (unsigned char)(i * 7);
	for (int c = 1; c <= 4; c++) {
		struct image im = {.width = 5, .height = 3, .channels = c, .bits = 8, .pixels = pixels};
		m.size = 0;
		CHECK_INT(image_write_png(&im, collect, &m, NULL), 0);
		CHECK(pixels_are(file, m.size, c, pixels, (size_t)(15 * c)));
	}
}

static void resize_sizes(void)
{
	struct resize r = {.given = true, .height = 48};
	int64_t w, h;

	CHECK(resize_to(&r, 240, 41, &w, &h) && w == 281 && h == 48);
	r = (struct resize){.given = true, .width = 10};
	CHECK(resize_to(&r, 1000, 1, &w, &h) && w == 10 && h == 1);
	CHECK(!resize_to(&r, 0, 1, &w, &h));
	r = (struct resize){0};
	CHECK(resize_to(&r, 7, 5, &w, &h) && w == 7 && h == 5);
}

/* Types, axes and order, against the plain formula. */
static void conversions(void)
{
	static const enum dtype types[] = {DT_U8, DT_F32, DT_F16, DT_I64, DT_F64};
	const struct resize none = {0};
	const struct arithmetic math = {
		.given = true, .scale = 0.5, .mean = {1, 2, 3}, .nmean = 3, .std = {2}, .nstd = 1};
	unsigned char src[2 * 3 * 3], to[2 * 3 * 3 * 8];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (unsigned char)(20 + i * 10);
	for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
		for (int last = 0; last <= 1; last++) {
			struct pixels a = {DT_U8, AXES_HWC, 1, 3, 2, 3, src};
			struct pixels b = {types[k], last ? AXES_NHWC : AXES_NCHW, 1, 3, 2, 3, to};
			CHECK_INT(pixels_convert(&a, &b, &none, ORDER_BGR, &math, NULL), 0);
			for (int y = 0; y < 2; y++)
				for (int x = 0; x < 3; x++)
					for (int c = 0; c < 3; c++) {
						int at = last ? (y * 3 + x) * 3 + c
							      : (c * 2 + y) * 3 + x;
						double want = (src[(y * 3 + x) * 3 + 2 - c] * 0.5 -
							       (c + 1)) /
							      2;
						if (types[k] == DT_U8 || types[k] == DT_I64)
							want = nearbyint(want < 0 && types[k] == DT_U8
										 ? 0
										 : want);
						CHECK(fabs(elem_f64(types[k], to, at) - want) < 0.05);
					}
		}
}

/*
 * Pictures of bytes have loops of their own. The same picture as floats takes the general ones, and the values must be
 * the same to the last bit. The source ends where its memory ends, so the sanitizers see a read behind its last pixel.
 */
static void check_bytes_as_floats(int64_t c, enum channel_order order, const struct resize *r,
				  bool last)
{
	enum { N = 2, H = 7, W = 9 };
	const struct arithmetic math = {.given = true,
					.scale = 1.0 / 255,
					.mean = {0.485, 0.456, 0.406, 0.4},
					.nmean = 4,
					.std = {0.229, 0.224, 0.225, 0.2},
					.nstd = 4};
	size_t count = (size_t)(N * H * W * c), most = N * 4 * 20 * 20;
	unsigned char *bytes = malloc(count);
	float *floats = malloc(count * sizeof(float));
	float *to = malloc(2 * most * sizeof(float));

	for (size_t i = 0; i < count; i++)
		floats[i] = bytes[i] = (unsigned char)(i * i * 31 + i * 7);
	struct pixels a = {DT_U8, AXES_NHWC, N, c, H, W, bytes}, b = a;
	struct pixels to_a = {.dtype = DT_F32, .axes = last ? AXES_NHWC : AXES_NCHW, .n = N};
	b.dtype = DT_F32;
	b.data = floats;
	to_a.c = order_channels(order, c);
	to_a.w = r->given ? r->width : W;
	to_a.h = r->given ? r->height : H;
	to_a.data = to;
	struct pixels to_b = to_a;
	to_b.data = to + most;
	CHECK_INT(pixels_convert(&a, &to_a, r, order, &math, NULL), 0);
	CHECK_INT(pixels_convert(&b, &to_b, r, order, &math, NULL), 0);
	CHECK(!memcmp(to, to + most, (size_t)(N * to_a.c * to_a.h * to_a.w) * sizeof(float)));
	free(bytes);
	free(floats);
	free(to);
}

static void bytes_as_floats(void)
{
	static const struct resize sizes[] = {
		{0},
		{.given = true, .width = 4, .height = 3},
		{.given = true, .width = 9, .height = 20},
		{.given = true, .width = 20, .height = 19},
		{.given = true, .letterbox = true, .width = 20, .height = 8, .pad = 114},
		{.given = true, .letterbox = true, .width = 5, .height = 12, .pad = 114},
	};

	for (int64_t c = 1; c <= 4; c++)
		for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
			for (enum channel_order o = ORDER_NONE; o <= ORDER_GRAY; o++) {
				check_bytes_as_floats(c, o, &sizes[k], false);
				check_bytes_as_floats(c, o, &sizes[k], true);
			}
}

static void exact_integers(void)
{
	int64_t src[6] = {INT64_MAX, INT64_MIN, 1, 2, 3, (int64_t)1 << 60}, to[6];
	struct pixels a = {DT_I64, AXES_HWC, 1, 3, 1, 2, src},
		      b = {DT_I64, AXES_NCHW, 1, 3, 1, 2, to};
	const struct resize none = {0};
	const struct arithmetic math = {.scale = 1};

	CHECK_INT(pixels_convert(&a, &b, &none, ORDER_NONE, &math, NULL), 0);
	CHECK(to[0] == src[0] && to[1] == src[3] && to[2] == src[1] && to[5] == src[5]);
}

int main(void)
{
	UNIT(bmp_kinds);
	UNIT(pnm_kinds);
	UNIT(hostile_heads);
	UNIT(heads_agree);
	UNIT(damaged_files);
	UNIT(png_round_trip);
	UNIT(resize_sizes);
	UNIT(conversions);
	UNIT(bytes_as_floats);
	UNIT(exact_integers);
	return unit_end();
}
