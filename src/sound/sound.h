/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOUND_SOUND_H
#define SOUND_SOUND_H
/*
 * Reads sound files with libsndfile, and resamples them with soxr. Both libraries are opened when they are first needed.
 *
 * Sound files may be hostile. The head is read before memory for samples is allocated, lengths above SOUND_MAX_SAMPLES
 * are refused, and samples that the head promises but the file does not have are an error and are never padded.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SOUND_MAX_SAMPLES = 1 << 30
}; /* of all channels together, after resampling: 18 hours of 16 kHz */

/* What is wanted of a file; {0} wants all of it as it is. */
struct sound_part {
	int64_t rate;		/* samples a second, or 0 for those of the file */
	bool mono;		/* the mean of all channels */
	double start, duration; /* seconds; a duration of 0 reaches to the end */
};

struct sound {
	const char *format; /* "WAV" */
	int64_t file_rate, rate;
	int file_channels, channels;
	int64_t first,
		taken;	/* frames of the file that are read; a frame has a sample of each channel */
	int64_t frames; /* of the result */
};

/* Returns true if a file begins as a WAV, FLAC or Ogg file does. */
bool sound_known(const void *p, size_t n);
/* Reads the head. `code` is the code of the finding if the file cannot be read. */
int sound_head(const void *p, size_t n, const struct sound_part *part, struct sound *s,
	       enum code code, struct diag *d);
/*
 * Writes s->channels rows of s->frames samples each, in the range -1 to 1. *s comes from sound_head() with the same
 * arguments.
 */
int sound_decode(const void *p, size_t n, const struct sound *s, float *to, enum code code,
		 struct diag *d);

#endif
