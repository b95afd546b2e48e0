/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H
/*
 * Pictures: decoded by the system's libraries, which are opened when the first
 * picture of their kind is read, or by small readers of our own (BMP, PNM).
 *
 * Hostile files: a head is read before any pixel memory is asked for; sizes over
 * IMAGE_MAX_SIDE or IMAGE_MAX_BYTES are refused; what the file does not hold is an
 * error and never padding, so that memory is only touched as data come.
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

/* Rows from the top, pixels from the left, samples of a pixel side by side. */
struct image {
	enum image_kind kind;
	int64_t width, height;
	int channels;	       /* 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha */
	int bits;	       /* 8, or 16: uint16_t in the machine's byte order */
	unsigned char *pixels; /* NULL: only the head was read */
};

/* By content: the first bytes of a file. */
enum image_kind image_kind(const void *p, size_t n);
const char *image_kind_name(enum image_kind kind); /* "PNG" */
const char *image_channels_name(int channels);	   /* "gray", "RGB", "RGBA" */

/* Size, channels and bits. No memory for pixels is asked for. code: the finding where it fails. */
int image_head(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
int image_decode(const void *p, size_t n, struct image *im, enum code code, struct diag *d);
void image_free(struct image *im);

/* Writes 8-bit pixels as PNG through put(). Returns 0 or -code (memory). */
int image_write_png(const struct image *im, void (*put)(void *to, const void *p, size_t n),
		    void *to, struct diag *d);

#endif
