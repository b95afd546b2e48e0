/* SPDX-License-Identifier: Apache-2.0 */
/* Reads BMP and PNM files, and writes PNG files. */
#include "image/plain.h"

#include "base/mem.h"

#include <string.h>
#include <zlib.h>

static uint32_t le16(const unsigned char *p)
{
	return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t le32(const unsigned char *p)
{
	return le16(p) | le16(p + 2) << 16;
}

/* ---- BMP */

struct bmp {
	uint32_t offset, header, bpp, compression;
	uint32_t mask[4]; /* bit masks of red, green, blue and alpha in pixels of 16 and 32 bits */
	const unsigned char *palette;
	uint32_t colors, entry; /* number of palette entries, and bytes of one entry */
	bool top_down;
	size_t stride;
};

enum { BMP_RGB = 0, BMP_BITFIELDS = 3, BMP_ALPHABITFIELDS = 6 };

static bool gray_palette(const struct bmp *b)
{
	for (uint32_t i = 0; i < b->colors; i++) {
		const unsigned char *p = b->palette + (size_t)i * b->entry;
		uint32_t v = b->bpp == 8 ? i : i * 255 / ((1u << b->bpp) - 1);
		if (p[0] != v || p[1] != v || p[2] != v)
			return false;
	}
	return b->colors == 1u << b->bpp;
}

static void bmp_masks(const struct image_job *job, struct bmp *b)
{
	static const uint32_t usual[2][4] = {{0x7c00, 0x3e0, 0x1f, 0}, {0xff0000, 0xff00, 0xff, 0}};

	memcpy(b->mask, usual[b->bpp == 32], sizeof(b->mask));
	if (b->compression == BMP_RGB)
		return;
	size_t n = b->header >= 56 || b->compression == BMP_ALPHABITFIELDS ? 4 : 3;
	for (size_t i = 0; i < n && 54 + 4 * i + 4 <= job->size; i++)
		b->mask[i] = le32(job->data + 54 + 4 * i);
}

static int bmp_head(const struct image_job *job, struct bmp *b)
{
	const unsigned char *p = job->data;
	int64_t width, height;

	if (job->size < 26)
		return image_fail(job, "is cut short", NULL);
	b->offset = le32(p + 10);
	b->header = le32(p + 14);
	if (b->header == 12) {
		width = le16(p + 18);
		height = le16(p + 20);
		b->bpp = le16(p + 24);
		b->entry = 3;
	} else if (b->header >= 40 && job->size >= 54) {
		width = (int32_t)le32(p + 18);
		height = (int32_t)le32(p + 22);
		b->bpp = le16(p + 28);
		b->compression = le32(p + 30);
		b->colors = le32(p + 46);
		b->entry = 4;
	} else {
		return image_fail(job, "has a header of an unknown version", NULL);
	}
	b->top_down = height < 0;
	height = height < 0 ? -height : height;
	bool plain = b->compression == BMP_RGB;
	bool fields = b->compression == BMP_BITFIELDS || b->compression == BMP_ALPHABITFIELDS;
	bool deep = b->bpp == 16 || b->bpp == 32;
	if (!(plain || (fields && deep)) ||
	    !(deep || b->bpp == 1 || b->bpp == 4 || b->bpp == 8 || b->bpp == 24))
		return image_fail(job, "is compressed in a way that is not supported",
				  "save it as PNG");
	*job->im = (struct image){.kind = IMAGE_BMP, .width = width, .height = height, .bits = 8};
	job->im->channels = 3;
	if (deep) {
		bmp_masks(job, b);
		job->im->channels = b->mask[3] ? 4 : 3;
	} else if (b->bpp <= 8) {
		b->colors = b->colors && b->colors <= 1u << b->bpp ? b->colors : 1u << b->bpp;
		size_t at = 14 + (size_t)b->header;
		if (at > job->size || (size_t)b->colors * b->entry > job->size - at)
			return image_fail(job, "is cut short in its palette", NULL);
		b->palette = p + at;
		job->im->channels = gray_palette(b) ? 1 : 3;
	}
	return 0;
}

/* Returns the bits of v that the mask selects, scaled to 8 bits. */
static unsigned char bmp_field(uint32_t v, uint32_t mask)
{
	if (!mask)
		return 0;
	unsigned shift = (unsigned)__builtin_ctz(mask);
	uint64_t top = mask >> shift;

	return (unsigned char)((((uint64_t)(v & mask) >> shift) * 255 + top / 2) / top);
}

static void bmp_row(const struct bmp *b, const unsigned char *src, const struct image *im,
		    unsigned char *dst)
{
	int c = im->channels;

	for (int64_t x = 0; x < im->width; x++, dst += c) {
		if (b->bpp <= 8) {
			uint32_t per = 8 / b->bpp, shift = 8 - b->bpp * (1 + (uint32_t)(x % per));
			uint32_t k = (uint32_t)src[x / per] >> shift & ((1u << b->bpp) - 1);
			const unsigned char *e =
				b->palette + (size_t)(k < b->colors ? k : 0) * b->entry;
			for (int i = 0; i < c; i++)
				dst[i] = e[c == 1 ? 0 : 2 - i];
		} else if (b->bpp == 24) {
			for (int i = 0; i < 3; i++)
				dst[i] = src[3 * x + 2 - i];
		} else {
			uint32_t v = b->bpp == 16 ? le16(src + 2 * x) : le32(src + 4 * x);
			for (int i = 0; i < c; i++)
				dst[i] = bmp_field(v, b->mask[i]);
		}
	}
}

int image_bmp(const struct image_job *job)
{
	struct bmp b = {0};
	int rc = bmp_head(job, &b);

	rc = rc ? rc : image_room(job);
	if (rc)
		return rc;
	const struct image *im = job->im;
	b.stride = ((size_t)im->width * b.bpp + 31) / 32 * 4;
	/* Do not require the padding of the last row, because some programs leave it out. */
	size_t last = ((size_t)im->width * b.bpp + 7) / 8;
	if (b.offset > job->size || job->size - b.offset < b.stride * ((size_t)im->height - 1) + last)
		return image_fail(job, "is cut short", NULL);
	if (job->head)
		return 0;
	for (int64_t y = 0; y < im->height; y++) {
		size_t from = (size_t)(b.top_down ? y : im->height - 1 - y);
		bmp_row(&b, job->data + b.offset + from * b.stride, im,
			im->pixels + (size_t)y * (size_t)im->width * (size_t)im->channels);
	}
	return 0;
}

/* ---- PNM: P1 to P6 */

struct scan {
	const unsigned char *p, *end;
};

static void pnm_space(struct scan *s)
{
	while (s->p < s->end) {
		if (*s->p == '#')
			while (s->p < s->end && *s->p != '\n')
				s->p++;
		else if (*s->p != ' ' && (*s->p < '\t' || *s->p > '\r'))
			return;
		else
			s->p++;
	}
}

/* Reads a number of at most `digits` digits. Returns -1 if there is none. */
static int64_t pnm_number(struct scan *s, int digits)
{
	int64_t v = 0;
	int n = 0;

	pnm_space(s);
	for (; s->p < s->end && *s->p >= '0' && *s->p <= '9' && n < digits; n++)
		v = v * 10 + *s->p++ - '0';
	return n ? v : -1;
}

static void put_sample(const struct image *im, size_t i, uint64_t v, uint64_t most)
{
	v = v > most ? most : v;
	if (im->bits == 16) {
		uint16_t w = (uint16_t)((v * 65535 + most / 2) / most);
		memcpy(im->pixels + 2 * i, &w, sizeof(w));
	} else {
		im->pixels[i] = (unsigned char)((v * 255 + most / 2) / most);
	}
}

static int pnm_text(const struct image_job *job, struct scan s, size_t n, uint64_t most, bool bitmap)
{
	for (size_t i = 0; i < n; i++) {
		int64_t v = pnm_number(&s, bitmap ? 1 : 9);
		if (v < 0)
			return image_fail(job, "is cut short", NULL);
		put_sample(job->im, i, bitmap ? !v : (uint64_t)v, most);
	}
	return 0;
}

static void pnm_binary(const struct image *im, const unsigned char *p, size_t n, uint64_t most)
{
	if (im->bits == 8 && most == 255)
		memcpy(im->pixels, p, n);
	else if (most < 256)
		for (size_t i = 0; i < n; i++)
			put_sample(im, i, p[i], most);
	else
		for (size_t i = 0; i < n; i++)
			put_sample(im, i, (uint64_t)p[2 * i] << 8 | p[2 * i + 1], most);
}

static void pnm_bitmap(const struct image *im, const unsigned char *p)
{
	size_t w = (size_t)im->width, stride = (w + 7) / 8;

	for (size_t y = 0; y < (size_t)im->height; y++)
		for (size_t x = 0; x < w; x++)
			im->pixels[y * w + x] = p[y * stride + x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
}

int image_pnm(const struct image_job *job)
{
	struct scan s = {job->data + 2, job->data + job->size};
	int kind = job->data[1] - '0';
	bool bitmap = kind == 1 || kind == 4, text = kind <= 3;
	int64_t w = pnm_number(&s, 9), h = pnm_number(&s, 9), most = bitmap ? 1 : pnm_number(&s, 9);

	if (w < 0 || h < 0 || most < 1 || most > 65535)
		return image_fail(job, "has no valid header", NULL);
	if (!text && s.p++ >= s.end)
		return image_fail(job, "is cut short", NULL);
	*job->im = (struct image){
		.kind = IMAGE_PNM, .width = w, .height = h, .bits = most > 255 ? 16 : 8};
	job->im->channels = kind % 3 ? 1 : 3;
	int rc = image_room(job);
	if (rc)
		return rc;
	size_t n = (size_t)(w * h * job->im->channels);
	size_t need = kind == 4 ? ((size_t)w + 7) / 8 * (size_t)h
		      : text	? n
				: n * (most > 255 ? 2 : 1);
	if (need > (size_t)(s.end - s.p))
		return image_fail(job, "is cut short", NULL);
	if (job->head)
		return 0;
	if (text)
		return pnm_text(job, s, n, (uint64_t)most, bitmap);
	if (bitmap)
		pnm_bitmap(job->im, s.p);
	else
		pnm_binary(job->im, s.p, n, (uint64_t)most);
	return 0;
}

/* ---- writing PNG */

static void be32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (24 - 8 * i));
}

static void png_chunk(const char *type, const unsigned char *p, size_t n,
		      void (*put)(void *to, const void *p, size_t n), void *to)
{
	unsigned char word[4];
	uLong crc = crc32(crc32(0, NULL, 0), (const unsigned char *)type, 4);

	be32(word, (uint32_t)n);
	put(to, word, 4);
	put(to, type, 4);
	if (n) {
		put(to, p, n);
		crc = crc32_z(crc, p, n);
	}
	be32(word, (uint32_t)crc);
	put(to, word, 4);
}

int image_write_png(const struct image *im, void (*put)(void *to, const void *p, size_t n),
		    void *to, struct diag *d)
{
	static const unsigned char types[] = {0, 0, 4, 2, 6};
	size_t row = (size_t)im->width * (size_t)im->channels, raw = (row + 1) * (size_t)im->height;
	uLongf size = compressBound(raw);
	unsigned char head[13] = {0}, *lines = mem_alloc(raw, MEM_STAGING);
	unsigned char *packed = lines ? mem_alloc(size, MEM_STAGING) : NULL;

	if (!packed) {
		mem_free(lines);
		return FAIL(d, E_MEMORY, .message = "no memory to write a picture");
	}
	for (size_t y = 0; y < (size_t)im->height; y++) {
		lines[y * (row + 1)] = 0; /* no filter */
		memcpy(lines + y * (row + 1) + 1, im->pixels + y * row, row);
	}
	int z = compress2(packed, &size, lines, raw, 6);
	if (z == Z_OK) {
		be32(head, (uint32_t)im->width);
		be32(head + 4, (uint32_t)im->height);
		head[8] = 8;
		head[9] = types[im->channels];
		put(to, "\x89PNG\r\n\x1a\n", 8);
		png_chunk("IHDR", head, sizeof(head), put, to);
		png_chunk("IDAT", packed, size, put, to);
		png_chunk("IEND", NULL, 0, put, to);
	}
	mem_free(packed);
	mem_free(lines);
	return z == Z_OK ? 0 : FAIL(d, E_MEMORY, .message = "no memory to write a picture");
}
