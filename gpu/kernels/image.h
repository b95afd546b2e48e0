/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_IMAGE_H
#define GPU_KERNELS_IMAGE_H
/*
 * The compiled kernels inside the program. Each file of kernels has one image; an image without a name ends the list.
 */
struct gpu_image {
	const char *name;
	const unsigned char *data; /* machine code */
	const unsigned char *ptx;  /* NULL if the PTX was not built */
};
extern const struct gpu_image gpu_images[];
/*
 * gpu_archs: architectures of the machine code (90 is sm_90), ended by 0. gpu_ptx: architecture of the PTX, or 0 if
 * there is no PTX.
 */
extern const int gpu_archs[];
extern const int gpu_ptx;
#endif
