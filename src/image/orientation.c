/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The EXIF tag Orientation (CIPA DC-008, tag 0x0112): cameras store the rows as the sensor read them, and say in
 * this tag how to turn and mirror them for display.
 */
#include "image/image.h"

#include "base/mem.h"

#include <string.h>

enum { ORIENTATION_TAG = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

/* ---- the TIFF structure that holds the tags */

static uint32_t number(const unsigned char *p, int bytes, bool little)
{
	uint32_t v = 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | p[little ? bytes - 1 - i : i];
	return v;
}

/* Reads the tag from the first directory of a TIFF structure of n bytes. */
static int tag_of_tiff(const unsigned char *p, size_t n)
{
	if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0))
		return 1;
	bool little = *p == 'I';
	size_t at = number(p + 4, 4, little);
	if (at > n || n - at < 2)
		return 1;
	size_t entries = number(p + at, 2, little);
	for (at += 2; entries && n - at >= ENTRY_BYTES; entries--, at += ENTRY_BYTES) {
		const unsigned char *e = p + at;
		if (number(e, 2, little) != ORIENTATION_TAG)
			continue;
		uint32_t v = number(e + 8, 2, little);
		return number(e + 2, 2, little) == TYPE_SHORT && v >= 1 && v <= 8 ? (int)v : 1;
	}
	return 1;
}

/* Writers of PNG and WebP disagree whether the structure begins with JPEG's six bytes "Exif". */
static int tag_of_exif(const unsigned char *p, size_t n)
{
	bool prefixed = n >= 6 && !memcmp(p, "Exif\0\0", 6);

	return prefixed ? tag_of_tiff(p + 6, n - 6) : tag_of_tiff(p, n);
}

/* ---- where each format keeps it */

static int tag_of_jpeg(const unsigned char *p, size_t n)
{
	enum { START_OF_SCAN = 0xda, APP1 = 0xe1, FILL = 0xff };

	for (size_t at = 2; n - at >= 4 && p[at] == 0xff;) {
		if (p[at + 1] == FILL) {
			at++;
			continue;
		}
		size_t length = number(p + at + 2, 2, false);
		if (p[at + 1] == START_OF_SCAN || length < 2 || length > n - at - 2)
			break;
		if (p[at + 1] == APP1 && length >= 8 && !memcmp(p + at + 4, "Exif\0\0", 6))
			return tag_of_exif(p + at + 4, length - 2);
		at += 2 + length;
	}
	return 1;
}

static int tag_of_png(const unsigned char *p, size_t n)
{
	for (size_t at = 8; n - at >= 12;) {
		size_t length = number(p + at, 4, false);
		if (length > n - at - 12)
			break;
		if (!memcmp(p + at + 4, "eXIf", 4))
			return tag_of_exif(p + at + 8, length);
		at += 12 + length;
	}
	return 1;
}

static int tag_of_webp(const unsigned char *p, size_t n)
{
	for (size_t at = 12; n > at && n - at >= 8;) {
		size_t length = number(p + at + 4, 4, true);
		if (length > n - at - 8)
			break;
		if (!memcmp(p + at, "EXIF", 4))
			return tag_of_exif(p + at + 8, length);
		at += 8 + length + (length & 1);
	}
	return 1;
}

/* libheif turns pictures of its formats by the properties irot and imir; the EXIF tag in them is to be ignored. */
static int orientation_of(enum image_kind kind, const unsigned char *p, size_t n)
{
	/* each format is recognized by more bytes than these functions skip */
	return kind == IMAGE_JPEG   ? tag_of_jpeg(p, n)
	       : kind == IMAGE_PNG  ? tag_of_png(p, n)
	       : kind == IMAGE_WEBP ? tag_of_webp(p, n)
	       : kind == IMAGE_TIFF ? tag_of_tiff(p, n)
				    : 1;
}

/* ---- turning */

static bool swaps_sides(int orientation)
{
	return orientation >= 5;
}

/*
 * The values name the display's row and column of the stored picture's first row and column: 2 top right, 3 bottom
 * right, 4 bottom left, 5 left top, 6 right top, 7 right bottom, 8 left bottom.
 */
static void turn_pixels(const struct image *from, int orientation, struct image *to)
{
	size_t size = (size_t)from->channels * (size_t)(from->bits / 8);
	int64_t w = from->width, h = from->height;
	bool swap = swaps_sides(orientation);
	bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
	bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;

	for (int64_t y = 0; y < to->height; y++)
		for (int64_t x = 0; x < to->width; x++) {
			int64_t sx = swap ? y : x, sy = swap ? x : y;
			sx = flip_x ? w - 1 - sx : sx;
			sy = flip_y ? h - 1 - sy : sy;
			memcpy(to->pixels + (size_t)(y * to->width + x) * size,
			       from->pixels + (size_t)(sy * w + sx) * size, size);
		}
}

int image_upright(const void *p, size_t n, struct image *im, struct diag *d)
{
	const int orientation = orientation_of(im->kind, p, n);
	struct image to = *im;

	if (orientation <= 1)
		return 0;
	if (swaps_sides(orientation)) {
		to.width = im->height;
		to.height = im->width;
	}
	if (im->pixels) {
		size_t bytes = (size_t)(im->width * im->height * im->channels * (im->bits / 8));
		to.pixels = mem_alloc(bytes, MEM_STAGING);
		if (!to.pixels)
			return FAIL(d, E_MEMORY, .message = "no memory for a picture's pixels");
		turn_pixels(im, orientation, &to);
		mem_free(im->pixels);
	}
	*im = to;
	return 0;
}
