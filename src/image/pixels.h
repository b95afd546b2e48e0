/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PIXELS_H
#define IMAGE_PIXELS_H
/*
 * Converts pictures and batches of pictures to the elements of a tensor: changes the order of axes,
 * the size, the order of channels, the values by arithmetic, and the element type.
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
/*
 * The arithmetic (v * scale - mean) / std, with one mean and std for all channels or one for each
 * channel.
 */
struct arithmetic {
	bool given;
	double scale;
	double mean[MAX_MEANS], std[MAX_MEANS];
	int nmean, nstd; /* 0: none */
};

struct resize {
	bool given, letterbox;
	/* wanted size; 0 for a side that is chosen so that the aspect ratio stays the same */
	int64_t width, height;
	double pad; /* value of the letterbox's border pixels, before arithmetic */
};
/*
 * Computes the size of the result for a picture of width x height. Returns false if the picture is
 * empty or if the result exceeds 2^31.
 */
bool resize_to(const struct resize *r, int64_t width, int64_t height, int64_t *w2, int64_t *h2);

/*
 * Returns the number of channels after reordering c channels, or -1 if such channels cannot be
 * reordered in this way.
 */
int64_t order_channels(enum channel_order order, int64_t c);

struct pixels {
	enum dtype dtype;
	enum axes axes;
	int64_t n, c, h, w;
	void *data;
};
/*
 * Converts src to dst. The sizes of dst must come from resize_to() and order_channels(), and
 * dst->data must be allocated. Fails with E-MEMORY.
 */
int pixels_convert(const struct pixels *src, const struct pixels *dst, const struct resize *resize,
		   enum channel_order order, const struct arithmetic *math, struct diag *d);

/*
 * Converts `count` elements without changing their order. If mean and std differ between channels,
 * each channel has `channel` consecutive elements, and after `channels` channels the first channel
 * follows again.
 */
void elements_convert(enum dtype from, const void *src, enum dtype to, void *dst, int64_t count,
		      const struct arithmetic *math, int64_t channel, int64_t channels);

#endif
