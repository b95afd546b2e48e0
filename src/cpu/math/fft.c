/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/fft.h"

#include <math.h>
#include <string.h>

/* 128 bits hold k * k for any 64-bit index k. */
__extension__ typedef unsigned __int128 uint128;

#define TWO_PI 6.28318530717958647692

static int64_t next_power_of_two(int64_t n)
{
	int64_t m = 1;

	while (m < n)
		m *= 2;
	return m;
}

static size_t aligned_bytes(int64_t n)
{
	return ((size_t)n * sizeof(struct complex64) + 63) & ~(size_t)63;
}

size_t fft_table_bytes(int64_t n)
{
	int64_t m = next_power_of_two(2 * n);

	return aligned_bytes(m / 2 + 1) + aligned_bytes(n) + aligned_bytes(m);
}

size_t fft_work_bytes(int64_t n)
{
	return aligned_bytes(next_power_of_two(2 * n));
}

/*
 * Runs a radix-2 FFT (Cooley-Tukey) in place and without scaling. m is a power of two and turn[k] = exp(-2 pi i k /
 * m). The first loop puts x into bit-reversed order, the second one runs the butterflies.
 */
static void fft_radix2(struct complex64 *x, int64_t m, const struct complex64 *turn, bool inverse)
{
	for (int64_t i = 1, j = 0; i < m; i++) {
		int64_t bit = m >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			struct complex64 t = x[i];
			x[i] = x[j];
			x[j] = t;
		}
	}
	for (int64_t half = 1; half < m; half *= 2) {
		int64_t step = m / (2 * half);
		for (int64_t i = 0; i < m; i += 2 * half)
			for (int64_t k = 0; k < half; k++) {
				struct complex64 w = turn[k * step], *a = x + i + k, *b = a + half;
				double im = inverse ? -w.im : w.im;
				double re = b->re * w.re - b->im * im;
				im = b->re * im + b->im * w.re;
				b->re = a->re - re;
				b->im = a->im - im;
				a->re += re;
				a->im += im;
			}
	}
}

void fft_init(struct fft *f, int64_t n, bool inverse, void *tables)
{
	char *at = tables;
	bool whole = next_power_of_two(n) == n;

	f->n = n;
	f->m = whole ? n : next_power_of_two(2 * n);
	f->turn = (struct complex64 *)tables;
	for (int64_t k = 0; k < f->m / 2; k++) {
		double a = TWO_PI * (double)k / (double)f->m;
		f->turn[k] = (struct complex64){cos(a), -sin(a)};
	}
	f->chirp = f->filter = NULL;
	if (whole)
		return;
	at += aligned_bytes(f->m / 2 + 1);
	f->chirp = (struct complex64 *)(void *)at;
	f->filter = (struct complex64 *)(void *)(at + aligned_bytes(n));
	memset(f->filter, 0, (size_t)f->m * sizeof(*f->filter));
	for (int64_t k = 0; k < n; k++) {
		int64_t square = (int64_t)((uint128)k * (uint64_t)k % (uint64_t)(2 * n));
		double a = TWO_PI / 2 * (double)square / (double)n;
		f->chirp[k] = (struct complex64){cos(a), inverse ? sin(a) : -sin(a)};
		struct complex64 back = {f->chirp[k].re, -f->chirp[k].im};
		f->filter[k] = back;
		if (k)
			f->filter[f->m - k] = back;
	}
	fft_radix2(f->filter, f->m, f->turn, false);
}

static struct complex64 complex_multiply(struct complex64 a, struct complex64 b)
{
	return (struct complex64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

void fft_run(const struct fft *f, bool inverse, struct complex64 *x, void *work)
{
	struct complex64 *w = work;
	double scale = inverse ? 1 / (double)f->n : 1;

	if (!f->chirp) {
		fft_radix2(x, f->m, f->turn, inverse);
	} else {
		memset(w, 0, (size_t)f->m * sizeof(*w));
		for (int64_t k = 0; k < f->n; k++)
			w[k] = complex_multiply(x[k], f->chirp[k]);
		fft_radix2(w, f->m, f->turn, false);
		for (int64_t k = 0; k < f->m; k++)
			w[k] = complex_multiply(w[k], f->filter[k]);
		fft_radix2(w, f->m, f->turn, true);
		for (int64_t k = 0; k < f->n; k++) {
			struct complex64 v = {w[k].re / (double)f->m, w[k].im / (double)f->m};
			x[k] = complex_multiply(v, f->chirp[k]);
		}
	}
	for (int64_t k = 0; inverse && k < f->n; k++) {
		x[k].re *= scale;
		x[k].im *= scale;
	}
}
