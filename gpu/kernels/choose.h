/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_CHOOSE_H
#define GPU_KERNELS_CHOOSE_H
struct gpu_choose {
	const void *scores; /* of the first row */
	long long n, step;  /* scores of a row, and elements from one row to the next */
	int type;	    /* of the scores, as ONNX numbers it: float32, float16 or bfloat16 */
	int wide;	    /* ids have 64 bits, not 32 */
	void *ids;	    /* the id that each row had last, and gets */
	const long long *until; /* a row whose last id is one of these keeps it */
	long long nuntil;
	/* in host memory: the ids, -1 if all scores are NaN, and what gpu_fault() of the runtime holds by now */
	long long *chosen;
	const volatile unsigned long long *fault;
};
#endif
