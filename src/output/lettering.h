/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_LETTERING_H
#define OUTPUT_LETTERING_H
/*
 * Writes short texts onto pictures, in capitals of 5 x 7 points: the labels of boxes. A letter is `scale` times as large. Pictures
 * are RGB of 8 bits; what is outside the picture is left out.
 */
#include "image/image.h"

#include <stdint.h>

/* Size in pixels of the field that lettering_draw() fills. */
int64_t lettering_width(const char *text, int scale);
int64_t lettering_height(int scale);
/* Fills a field with the color `paper`, its upper left corner at x, y, and writes the text on it in black or white. */
void lettering_draw(struct image *im, int64_t x, int64_t y, const char *text, int scale,
		    const unsigned char *paper);

#endif
