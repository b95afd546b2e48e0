/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PIXELS_H
#define IMAGE_PIXELS_H
/*
 * Convert pictures, and arrays of pictures, to the elements of a tensor: order of the axes, size, order of the
 * channels, arithmetic, element type.
 */
#include "base/diag.h"
#include "ir/dtype.h"

enum axes { AXES_NONE, AXES_NCHW, AXES_NHWC, AXES_CHW, AXES_HWC };
enum channel_order { ORDER_NONE, ORDER_RGB, ORDER_BGR, ORDER_GRAY };

static inline bool axes_last(enum axes a) /* channels last */
{
	return a == AXES_NHWC || a == AXES_HWC;
}

enum { MAX_MEANS = 16 };
/* (v * scale - mean) / std, with one mean and std for all channels or one for each. */
struct arithmetic {
	bool given;
	double scale;
	double mean[MAX_MEANS], std[MAX_MEANS];
	int nmean, nstd; /* 0: none */
};

struct resize {
	bool given, letterbox;
	int64_t width, height; /* 0: chosen so that the aspect ratio stays */
	double pad;	       /* value of the border of a letterbox, before arithmetic */
};
/* Size of the result for a picture of width x height. false: the picture is empty, or the result exceeds 2^31. */
bool resize_to(const struct resize *r, int64_t width, int64_t height, int64_t *w2, int64_t *h2);

/* Number of channels after reordering c channels; -1: that is not possible. */
int64_t order_channels(enum channel_order order, int64_t c);

struct pixels {
	enum dtype dtype;
	enum axes axes;
	int64_t n, c, h, w;
	void *data;
};
/* Convert src to dst, whose sizes must be those of resize_to() and order_channels(); dst->data exists. E-MEMORY. */
int pixels_convert(const struct pixels *src, const struct pixels *dst, const struct resize *resize,
		   enum channel_order order, const struct arithmetic *math, struct diag *d);

/*
 * Convert `count` elements without changing their order. For arithmetic by channel, each channel is a run of `channel`
 * elements, and after `channels` runs the first channel follows again.
 */
void elements_convert(enum dtype from, const void *src, enum dtype to, void *dst, int64_t count,
		      const struct arithmetic *math, int64_t channel, int64_t channels);

#endif
