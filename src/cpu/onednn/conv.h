/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_CONV_H
#define CPU_ONEDNN_CONV_H
/* What convolutions of floats and of 8-bit integers share. Only for the files in src/cpu/onednn/. */
#include "cpu/onednn/build.h"

#if HAVE_DNNL

#include "ops/window.h"

struct conv_step {
	struct window w;
	int64_t group;
	int act;
	float alpha, beta;
	bool transposed, from_zero; /* from_zero: codes whose zero point is not 0 */
	uint32_t bias, sum;	    /* indices of inputs; UINT32_MAX if there is no such input */
	/*
	 * arguments of oneDNN's functions: dims and strides of the tensors; strides, dilations and pads of the window
	 */
	int rank;
	dnnl_dims_t src, dst, weights, weight_strides, strides, dilates, begin, end;
};

/* Sets the arguments of oneDNN's functions from the shapes of the node's input 0, its weights (input w) and its output. */
void conv_dims(const struct site *s, struct conv_step *c, uint32_t w);
/* Lets oneDNN choose an implementation for these descriptors, with the attributes of m. */
int conv_describe(struct build *b, struct made *m, const struct conv_step *c,
		  const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t w,
		  const_dnnl_memory_desc_t dst);

#endif
#endif
