/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H
/*
 * Decode pictures, with the system's libraries, each of which is opened when the first picture of its format is
 * read, or with small readers of our own (BMP, PNM).
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
	IMAGE_KINDS
};

enum { IMAGE_MAX_SIDE = 1 << 16, IMAGE_MAX_BYTES = 1 << 30 };

/* Rows from top to bottom, pixels from left to right, the samples of a pixel next to each other. */
struct image {
	enum image_kind kind;
	int64_t width, height;
	int channels;	       /* 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha */
	int bits;	       /* 8, or 16: uint16_t in the machine's byte order */
	unsigned char *pixels; /* NULL: only the head was read */
};

/* Recognize the format by the first bytes of a file. IMAGE_NONE: no picture. */
enum image_kind image_kind(const void *p, size_t n);
const char *image_kind_name(enum image_kind kind); /* "PNG" */
const char *image_channels_name(int channels);	   /* "gray", "RGB", "RGBA" */

/* Read size, channels and bits; allocates no pixels. code: of the finding if the picture cannot be read. */
int image_head(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
/* Read the whole picture; im->pixels is freed by image_free(). */
int image_decode(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
void image_free(struct image *im);

/* Write a picture of 8-bit samples as PNG, through calls of put(). E-MEMORY. */
int image_write_png(const struct image *im, void (*put)(void *to, const void *p, size_t n),
		    void *to, struct diag *d);

#endif
