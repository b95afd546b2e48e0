/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_POOL_H
#define OPS_POOL_H
#include "ops/window.h"

/* The .variant of a row; the variants from POOL_GLOBAL_MAX on pool a whole image. */
enum pool_variant {
	POOL_MAX,
	POOL_AVERAGE,
	POOL_LP,
	POOL_GLOBAL_MAX,
	POOL_GLOBAL_AVERAGE,
	POOL_GLOBAL_LP
};

/* MaxPool, AveragePool, LpPool */
struct pool {
	struct window_attrs window;
	int64_t ceil_mode;
	int64_t count_include_pad; /* AveragePool */
	int64_t storage_order;	   /* 1 if MaxPool's output Indices counts in column-major order */
	int64_t p;		   /* LpPool */
	/* p of LpPool-1, a float that need not be whole; 0 if the member p has the value */
	float old_p;
};

struct global_lp {
	int64_t p;
	float old_p;
};

struct max_unpool {
	struct window_attrs window;
};

struct max_roi_pool {
	struct ints pooled_shape;
	float spatial_scale;
};

enum { ROI_HALF_PIXEL, ROI_OUTPUT_HALF_PIXEL };
enum { ROI_AVG, ROI_MAX };
struct roi_align {
	int coordinate_transformation_mode, mode;
	int64_t output_height, output_width, sampling_ratio;
	float spatial_scale;
};

/*
 * Sets *y to the output shape of MaxUnpool that follows from kernel, strides and pads; x->rank must be at least 2.
 * Returns NULL, or a text that says what is wrong.
 */
const char *max_unpool_shape(const struct max_unpool *p, const struct shape *x, struct shape *y,
			     struct diag *d);

#endif
