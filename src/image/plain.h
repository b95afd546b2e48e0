/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PLAIN_H
#define IMAGE_PLAIN_H
/* The picture formats that need no library; for image.c. */
#include "image/image.h"

/* What a decoder works on. */
struct image_job {
	const unsigned char *data;
	size_t size;
	struct image *im;
	bool head; /* stop after the head */
	enum code code;
	struct diag *d;
};

/* `this PNG ...`: returns -code. */
int image_fail(const struct image_job *job, const char *what, const char *hint);
/* Checks the head's sizes, and unless only it is wanted takes memory for the pixels. */
int image_room(const struct image_job *job);

int image_bmp(const struct image_job *job);
int image_pnm(const struct image_job *job);

#endif
