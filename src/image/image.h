/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H
/*
 * Decodes pictures with the system's libraries, each of which is opened when the first picture of
 * its format is read, or with our own small readers (BMP, PNM).
 *
 * Pictures may be hostile. The head is read before memory for pixels is allocated, and sizes above IMAGE_MAX_SIDE
 * or IMAGE_MAX_BYTES are refused. Missing data are an error and are never padded, so a small file that claims a large
 * size does not make us touch much memory.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

enum image_kind {
	IMAGE_NONE,
	IMAGE_PNG,
	IMAGE_JPEG,
	IMAGE_BMP,
	IMAGE_PNM,
	IMAGE_WEBP,
	IMAGE_TIFF,
	IMAGE_JP2,
	IMAGE_HEIF,
	IMAGE_AVIF,
	IMAGE_KINDS
};

enum { IMAGE_MAX_SIDE = 1 << 16, IMAGE_MAX_BYTES = 1 << 30 };

/*
 * A decoded picture: rows from top to bottom, pixels from left to right, the samples of a pixel
 * next to each other.
 */
struct image {
	enum image_kind kind;
	int64_t width, height;
	int channels; /* 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha */
	int bits;     /* bits per sample: 8, or 16 (uint16_t in the machine's byte order) */
	unsigned char *pixels; /* the samples; NULL if only the head was read */
};

/*
 * Names of libjpeg, ended by NULL. Its interface differs between versions 62 (Debian), 8 (Ubuntu) and 9, so only that of the header that the
 * program was built with is opened.
 */
extern const char *const image_jpeg_names[];

/*
 * Recognizes the format by the first bytes of a file. Returns IMAGE_NONE if the file is no picture.
 */
enum image_kind image_kind(const void *p, size_t n);
const char *image_kind_name(enum image_kind kind); /* "PNG" */
const char *image_channels_name(int channels);	   /* "gray", "RGB", "RGBA" */

/*
 * Reads size, channels and bits, without allocating pixels. `code` is the code of the finding if
 * the picture cannot be read.
 */
int image_head(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
/* Reads the whole picture. The caller frees im->pixels with image_free(). */
int image_decode(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
/*
 * Turns and mirrors a picture that image_head() or image_decode() has read from these bytes as its EXIF orientation
 * says. Metadata that are missing or damaged say that it is upright. Fails with E-MEMORY; the picture is then as it was.
 */
int image_upright(const void *p, size_t n, struct image *im, struct diag *d);
void image_free(struct image *im);

/* Writes a picture of 8-bit samples as PNG by calls of put(). Fails with E-MEMORY. */
int image_write_png(const struct image *im, void (*put)(void *to, const void *p, size_t n),
		    void *to, struct diag *d);

#endif
