/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SLICE_H
#define OPS_SLICE_H
#include "ops/ints.h"

struct split_params {
	int64_t axis;
	int64_t num_outputs; /* INT_ABSENT */
};
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };
struct pad_params {
	int mode; /* enum pad_mode */
};
struct trilu_params {
	int64_t upper;
};
struct reverse_sequence_params {
	int64_t batch_axis, time_axis;
};
struct center_crop_pad_params {
	struct ints axes;
};
struct crop_params {
	struct ints border, scale;
};

/* The elements that Slice takes along each dimension: from, from + step, ..., len of them. */
struct slice_spec {
	int64_t from[MAX_RANK], step[MAX_RANK], len[MAX_RANK];
};
/*
 * Fills *out from the inputs of Slice (axes and steps are NULL if left out) and the shape of its data, which must be
 * known. Returns NULL, or a text that says what is wrong.
 */
const char *slice_spec(const struct shape *x, const struct int_list *starts,
		       const struct int_list *ends, const struct int_list *axes,
		       const struct int_list *steps, struct slice_spec *out);

/* Size of output k when dim is split in n outputs of equal size, the last one smaller; -1 if that is impossible. */
int64_t split_part(int64_t dim, int64_t n, int64_t k);

/*
 * Computes the padding before and behind each dimension from pads and axes (NULL stands for all axes); returns false
 * if they do not fit the rank.
 */
bool pad_spec(int rank, const struct int_list *pads, const struct int_list *axes, int64_t *begin,
	      int64_t *end);

#endif
