/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_DEPTHWISE_H
#define GPU_KERNELS_DEPTHWISE_H
/* A tile of the kernels of depthwise.cu, whose parameters are struct gpu_depthwise: so many rows and columns of so many channels. */
enum { DEPTHWISE_SIDE = 7, DEPTHWISE_CHANNELS = 16, DEPTHWISE_THREADS = 128 };

/*
 * Elements of shared memory from DEPTHWISE_CHANNELS channels of a piece of the image to the next: an odd multiple of their number, so that the halves of a warp
 * do not read the same banks.
 */
#define DEPTHWISE_PLANE(rows, columns) (((rows) * (columns) | 1) * DEPTHWISE_CHANNELS)

#endif
