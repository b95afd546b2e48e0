/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_FFT_H
#define CPU_MATH_FFT_H
/*
 * Discrete Fourier transforms of any length in f64: by halves where the length is a power of two,
 * else as a convolution with a chirp of such a length.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct complex64 {
	double re, im;
};

struct fft {
	int64_t n;		  /* length of the transform */
	int64_t m;		  /* power of two that is worked with */
	struct complex64 *turn;	  /* m / 2 roots of unity */
	struct complex64 *chirp;  /* n; NULL where n is a power of two */
	struct complex64 *filter; /* m: transform of the chirp */
};

/* Bytes of tables, and of one thread's work, that suffice for every length up to n. */
size_t fft_table_bytes(int64_t n);
size_t fft_work_bytes(int64_t n);
void fft_init(struct fft *f, int64_t n, bool inverse, void *tables);
/* x[0..n) in place; work of fft_work_bytes. The inverse divides by n. */
void fft_run(const struct fft *f, bool inverse, struct complex64 *x, void *work);

#endif
