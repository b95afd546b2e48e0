/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_IMAGE_H
#define GPU_KERNELS_IMAGE_H
/* The compiled kernels inside the program: one image for each file; an image without a name ends the list. */
struct gpu_image {
	const char *name;
	const unsigned char *data; /* machine code */
	const unsigned char *ptx;  /* NULL: not built */
};
extern const struct gpu_image gpu_images[];
/* Architectures of the machine code (90 is sm_90), ended by 0, and the architecture of the PTX, 0 if there is none. */
extern const int gpu_archs[];
extern const int gpu_ptx;
#endif
