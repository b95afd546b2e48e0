/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_FFT_H
#define CPU_MATH_FFT_H
/*
 * Discrete Fourier transforms of any length, in f64: radix-2 (Cooley-Tukey) if the length is a power of
 * two, otherwise Bluestein's algorithm, a convolution with a chirp that is padded to a power of two.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct complex64 {
	double re, im;
};

struct fft {
	int64_t n; /* length of the transform */
	/*
	 * length of the radix-2 transforms: n if n is a power of two, otherwise a power of two that is at least 2 n
	 */
	int64_t m;
	struct complex64 *turn;	  /* m / 2 roots of unity */
	struct complex64 *chirp;  /* n elements; NULL if n is a power of two */
	struct complex64 *filter; /* m elements: the transform of the conjugate chirp */
};

/*
 * Return the bytes of the tables, and the bytes of one thread's work buffer, that suffice for any transform of length
 * n or less.
 */
size_t fft_table_bytes(int64_t n);
size_t fft_work_bytes(int64_t n);
void fft_init(struct fft *f, int64_t n, bool inverse, void *tables);
/* Transforms x[0..n) in place; `work` has fft_work_bytes(n) bytes. The inverse transform also divides by n. */
void fft_run(const struct fft *f, bool inverse, struct complex64 *x, void *work);

#endif
