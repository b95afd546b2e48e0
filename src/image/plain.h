/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PLAIN_H
#define IMAGE_PLAIN_H
/*
 * Readers and writers of picture formats that need no library. This header is internal to its
 * folder.
 */
#include "image/image.h"

/* One picture to decode. */
struct image_job {
	const unsigned char *data;
	size_t size;
	struct image *im;
	bool head; /* read the head only */
	enum code code;
	struct diag *d;
};

/* Adds the finding "this PNG <what>". Returns -job->code. */
int image_fail(const struct image_job *job, const char *what, const char *hint);
/* Checks the sizes in the head, and allocates the pixels unless only the head is wanted. */
int image_room(const struct image_job *job);

int image_bmp(const struct image_job *job);
int image_pnm(const struct image_job *job);

#endif
