/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_IMAGE_H
#define GPU_KERNELS_IMAGE_H
/* The compiled kernels inside the program: one image a file, the last without a name. */
struct gpu_image {
	const char *name;
	const unsigned char *data;
};
extern const struct gpu_image gpu_images[];
#endif
