/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_INT8_BOXES_H
#define GPU_OPS_INT8_BOXES_H
/* Launches of gpu/kernels/int8_boxes.cu: convolutions of 8-bit codes on devices of compute capability 9.0. */
#include "gpu/kernels/int8_boxes.h"
#include "gpu/launch/util.h"

/* A tile's number is twice that of its kernel, and one more if a processor takes one block, which has all of the memory for steps in flight. */
#define COUNT(...) +2
enum { GPU_CODES_BOX_TILES = GPU_CODES_BOXES(COUNT) };
#undef COUNT

/* Whether the device has the kernels, and they compute this convolution. from_0: x's zero point is known to be 0. */
bool gpu_codes_boxes_accept(const struct device *device, const struct gpu_codes_conv *conv,
			    bool from_0);
/*
 * Fills in a job and its grid, but for addresses. Returns the kernel of a tile, or NULL if the tile does not fit the convolution, or this
 * build has only PTX, which does not have the kernel.
 */
void *gpu_codes_boxes_plan(const struct site *s, int tile, bool is_signed,
			   const struct gpu_codes_conv *conv, struct gpu_codes_boxes *job,
			   struct gpu_grid *grid);
/* Launches the kernel on the operands of job->conv. Returns 0 or -code. */
int gpu_codes_boxes_launch(const struct call *c, void *fn, int tile, struct gpu_grid grid,
			   struct gpu_codes_boxes *job);

#endif
