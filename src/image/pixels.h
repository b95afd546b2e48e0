/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PIXELS_H
#define IMAGE_PIXELS_H
/*
 * Pictures and arrays that hold some, on their way into a tensor: order of the
 * axes, size, order of the channels, arithmetic, element type.
 */
#include "base/diag.h"
#include "ir/dtype.h"

enum axes { AXES_NONE, AXES_NCHW, AXES_NHWC, AXES_CHW, AXES_HWC };
enum channel_order { ORDER_NONE, ORDER_RGB, ORDER_BGR, ORDER_GRAY };

static inline bool axes_last(enum axes a) /* channels last */
{
	return a == AXES_NHWC || a == AXES_HWC;
}

/* (v x scale - mean) / std, by channel; n: 1 or the number of channels. */
enum { MAX_MEANS = 16 };
struct arithmetic {
	bool given;
	double scale;
	double mean[MAX_MEANS], std[MAX_MEANS];
	int nmean, nstd; /* 0: none */
};

struct resize {
	bool given, letterbox;
	int64_t width, height; /* 0: keeps the aspect */
	double pad;
};
/* The size that comes out. False where it is none (0 or over 2^31). */
bool resize_to(const struct resize *r, int64_t width, int64_t height, int64_t *w2, int64_t *h2);

/* Channels after ordering; -1 where there is no way from c to that order. */
int64_t order_channels(enum channel_order order, int64_t c);

struct pixels {
	enum dtype dtype;
	enum axes axes;
	int64_t n, c, h, w;
	void *data;
};
/* dst's sizes are what resize_to and order_channels say. 0 or -code (memory). */
int pixels_convert(const struct pixels *src, const struct pixels *dst, const struct resize *resize,
		   enum channel_order order, const struct arithmetic *math, struct diag *d);

/*
 * Elements in their order. channel: elements that follow one another with the same channel;
 * channels: how many there are.
 */
void elements_convert(enum dtype from, const void *src, enum dtype to, void *dst, int64_t count,
		      const struct arithmetic *math, int64_t channel, int64_t channels);

#endif
