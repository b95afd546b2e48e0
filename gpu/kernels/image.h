/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_IMAGE_H
#define GPU_KERNELS_IMAGE_H
/* The compiled kernels inside the program: one image a file, the last without a name. */
struct gpu_image {
	const char *name;
	const unsigned char *data; /* machine code */
	const unsigned char *ptx;  /* NULL: not built */
};
extern const struct gpu_image gpu_images[];
/* Architectures that the machine code is for, 90 is sm_90; 0 ends. And that of the PTX; 0: none. */
extern const int gpu_archs[];
extern const int gpu_ptx;
#endif
