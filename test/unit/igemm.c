/* SPDX-License-Identifier: Apache-2.0 */
/* The integer loops of every instruction set that this machine has, against plain ones. */
#include "cpu/math/igemm.h"

#include "cpu/math/level.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>

/* Neither whole tiles of AMX, 16 rows and 64 bytes along k, nor less than one. */
enum { M = 27, N = 3 * IGEMM_NR, K = 149, LONG = 1301 };

static uint8_t byte(void)
{
	return (uint8_t)(rand() >> 7);
}

static int value(uint8_t b, bool is_signed)
{
	return is_signed ? (int8_t)b : b;
}

/* Kernels of instruction set i of x86-64, NULL if the machine lacks it; elsewhere the plain ones. */
enum { LEVELS = 4 };
static const struct igemm_kernels *level(int i)
{
#if defined(__x86_64__)
	bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

	if (i == 0)
		return &igemm_kernels_v2;
	if (i == 1)
		return v3 ? &igemm_kernels_v3 : NULL;
	if (simd_level() < 4)
		return NULL;
	if (i == 2)
		return __builtin_cpu_supports("avx512vnni") ? &igemm_kernels_v4 : NULL;
	return &igemm_kernels_v4_bytes;
#else
	return i ? NULL : &igemm_kernels_v0;
#endif
}

/* A product of m rows of `depth` bytes and N columns. */
static struct igemm_block block(const uint8_t *a, bool a_signed, const uint8_t *b, int64_t m,
				int64_t depth, int32_t *c)
{
	return (struct igemm_block){.a = a,
				    .b = b,
				    .lda = depth,
				    .ldc = N,
				    .k4 = depth / 4,
				    .m = m,
				    .panels = N / IGEMM_NR,
				    .c = c,
				    .a_signed = a_signed};
}

static void product(const struct igemm_kernels *k, bool a_signed)
{
	static uint8_t a[M][K + 3], b[K][N], panels[(K + 3) * N];
	static int32_t c[M][N], column[N];
	struct igemm_block g = block(a[0], a_signed, panels, M, igemm_depth(K), c[0]);
	int wrong = 0;

	memset(a, 0, sizeof(a));
	for (int i = 0; i < M; i++)
		for (int j = 0; j < K; j++)
			a[i][j] = byte();
	for (int i = 0; i < K * N; i++)
		b[i / N][i % N] = byte();
	for (int p = 0; p < N / IGEMM_NR; p++) {
		struct igemm_rows rows = {.base = &b[0][p * IGEMM_NR], .row = N};
		uint8_t *panel = panels + (size_t)p * igemm_panel(K);
		k->pack(&rows, K, IGEMM_NR, 0, panel);
		k->column_sums(panel, g.k4, !a_signed, column + p * IGEMM_NR);
	}
	k->panels(&g);
	for (int i = 0; i < M; i++) {
		int32_t row = 0;
		for (int n = 0; n < N; n++) {
			int32_t sum = 0;
			for (int j = 0; j < K; j++)
				sum += value(a[i][j], a_signed) * value(b[j][n], !a_signed);
			wrong += sum != c[i][n];
		}
		for (int j = 0; j < K; j++)
			row += value(a[i][j], a_signed);
		wrong += row != k->row_sum(a[i], K, a_signed);
	}
	for (int n = 0; n < N; n++) {
		int32_t sum = 0;
		for (int j = 0; j < K; j++)
			sum += value(b[j][n], !a_signed);
		wrong += sum != column[n];
	}
	CHECK_INT(wrong, 0);
}

static void products(void)
{
	for (int i = 0; i < LEVELS; i++)
		for (int s = 0; s < 2 && level(i); s++)
			product(level(i), s);
}

/* An operand of a product: N rows or columns of PART values of k, as rows and as panels. */
enum { PART = 48 };
struct operand {
	uint8_t rows[N][PART], panels[N * PART];
};

static void make_operand(const struct igemm_kernels *k, struct operand *o, int least, int most)
{
	uint8_t columns[PART][N];

	for (int i = 0; i < N; i++)
		for (int j = 0; j < PART; j++)
			columns[j][i] = o->rows[i][j] =
				(uint8_t)(least + rand() % (most - least + 1));
	for (int p = 0; p < N / IGEMM_NR; p++)
		k->pack(&(struct igemm_rows){.base = &columns[0][p * IGEMM_NR], .row = N}, PART,
			IGEMM_NR, 0, o->panels + p * PART * IGEMM_NR);
}

/* Returns how many of m x N sums are wrong: of rows of a and of b, which has zero points. */
static int wrong_sums(const struct operand *a, const struct operand *b, bool a_signed,
		      bool b_signed, const int8_t *zero, int m, const int32_t *c)
{
	int wrong = 0;

	for (int i = 0; i < m; i++)
		for (int n = 0; n < N; n++) {
			int32_t sum = 0;
			for (int j = 0; j < PART; j++)
				sum += value(a->rows[i][j], a_signed) *
				       (value(b->rows[n][j], b_signed) - (zero ? zero[n] : 0));
			wrong += sum != c[i * N + n];
		}
	return wrong;
}

static void wide_product(const struct igemm_kernels *k, bool a_signed, int m)
{
	static struct operand a, b;
	static int32_t c[N * N];
	static int16_t wide[N * PART];
	struct igemm_block g = block(NULL, a_signed, b.panels, m, PART, c);

	make_operand(k, &a, 0, 255);
	make_operand(k, &b, 0, 255);
	k->widen(a.rows[0], PART, m, PART / 4, a_signed, wide);
	k->panels_wide(&g, wide);
	CHECK_INT(wrong_sums(&a, &b, a_signed, !a_signed, NULL, m, c), 0);
}

/*
 * Weights between `least` and `most` are split into narrow groups and multiplied by codes near 255, where sums of 16 bits would overflow
 * first: once as the columns of the right operand, once as the rows of the left one.
 */
static void narrow_product(const struct igemm_kernels *k, int least, int most, int m)
{
	enum { GROUP = IGEMM_NARROW * IGEMM_NR, GROUPS = PART / IGEMM_NARROW, MOST = 8 };
	static struct operand a, b;
	static int32_t c[N * N], at[N / IGEMM_NR * GROUPS * MOST], start[N / IGEMM_NR + 1];
	static int8_t zero[N];
	static uint8_t data[N / IGEMM_NR * GROUPS * MOST][GROUP];
	struct igemm_narrow w = {start, at, data[0]};
	struct igemm_block g = block(a.rows[0], false, a.panels, m, PART, c);
	int n = 0, wrong = 0;

	make_operand(k, &a, 250, 255);
	make_operand(k, &b, least, most);
	for (int i = 0; i < N; i++)
		zero[i] = (int8_t)(rand() % 255 - 127);
	for (int p = 0; p < N / IGEMM_NR; p++) {
		for (int i = 0; i < GROUPS; i++) {
			const uint8_t *from = b.panels + (p * GROUPS + i) * GROUP;
			int count = k->split(from, zero + p * IGEMM_NR, data[n]);
			CHECK_INT(k->split(from, zero + p * IGEMM_NR, NULL), count);
			CHECK(count <= MOST);
			for (; count; count--)
				at[n++] = i * IGEMM_NARROW;
		}
		start[p + 1] = n;
	}
	k->panels_narrow(&g, &w);
	CHECK_INT(wrong_sums(&a, &b, false, true, zero, m, c), 0);
	k->rows_narrow(&g, &w);
	for (int i = 0; i < m; i++)
		for (int col = 0; col < N; col++) {
			int32_t sum = 0;
			for (int j = 0; j < PART; j++)
				sum += a.rows[col][j] * ((int8_t)b.rows[i][j] - zero[i]);
			wrong += sum != c[i * N + col];
		}
	CHECK_INT(wrong, 0);
}

/* Whether no two bytes of clipped rows that are multiplied together have sums beyond 16 bits. */
static bool pairs_fit(const uint8_t *a, int64_t n, bool is_signed)
{
	for (int64_t i = 0; i < n; i += 2) {
		int u = value(a[i], is_signed), v = value(a[i + 1], is_signed);
		int up = (u > 0 ? u : 0) + (v > 0 ? v : 0), down = (u < 0 ? u : 0) + (v < 0 ? v : 0);
		if (up * (is_signed ? 255 : 127) > INT16_MAX || down * 255 < INT16_MIN ||
		    (!is_signed && up * -128 < INT16_MIN))
			return false;
	}
	return true;
}

/* How codes are made: up to `spread` from a zero point, but for one in eight. */
struct codes {
	bool is_signed;
	int zero, spread;
};

/* Codes are clipped; the rests make their products exact again. */
static void clipped_product(const struct igemm_kernels *k, const struct codes *d, int m)
{
	enum { LENGTH = PART - 3 };
	static struct operand a, b;
	static int32_t c[N * N];
	static uint8_t clipped[N * PART];
	static struct igemm_rest rest[N][PART];
	struct igemm_block g = block(clipped, d->is_signed, b.panels, m, PART, c);
	int64_t count[N];
	int wrong = 0, zero = d->is_signed ? d->zero : 0;

	make_operand(k, &b, -128, 127);
	for (int i = 0; i < m; i++) {
		for (int j = 0; j < LENGTH; j++) {
			int v = d->zero - d->spread + rand() % (2 * d->spread + 1);
			v = rand() % 8 ? v : byte();
			a.rows[i][j] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
		}
		uint8_t *to = clipped + i * PART;
		count[i] = k->clip(a.rows[i], LENGTH, d->is_signed, d->zero, to, rest[i], PART,
				   (m - 1 - i) * PART);
		CHECK(count[i] >= 0 && pairs_fit(to, PART, d->is_signed));
		for (int64_t r = 0; r < count[i]; r++)
			CHECK(pairs_fit(rest[i][r].value, 4, d->is_signed));
	}
	k->panels_clipped(&g);
	for (int i = 0; i < m; i++) {
		k->add_rest(&g, rest[i], count[i], c + i * N);
		for (int n = 0; n < N; n++) {
			int32_t sum = 0;
			for (int j = 0; j < LENGTH; j++)
				sum += (a.rows[i][j] - zero) *
				       (value(b.rows[n][j], true) + (d->is_signed ? IGEMM_FLIP : 0));
			wrong += sum != c[i * N + n];
		}
	}
	CHECK_INT(wrong, 0);
	CHECK_INT(k->clip(a.rows[0], LENGTH, d->is_signed, d->zero, clipped, rest[0], 0, 0),
		  count[0] ? -1 : 0);
}

static void products_without_vnni(void)
{
	for (int i = 0; i < LEVELS; i++)
		for (int m = 1; m <= N && level(i) && level(i)->widen; m += 1 + m / 9) {
			wide_product(level(i), false, m);
			wide_product(level(i), true, m);
			narrow_product(level(i), -128, 127, m);
			narrow_product(level(i), -20, 30, m);
			narrow_product(level(i), 120, 127, m);
			for (int s = 0; s < 2; s++) {
				struct codes near = {s, 120 + m % 17, 20 + m};
				struct codes far = {s, m % 2 ? 255 : 0, 3};
				clipped_product(level(i), &near, m);
				clipped_product(level(i), &far, m);
			}
		}
}

/* Rows by offsets, flipped, and fewer columns than a panel has. */
static void packs_parts(void)
{
	uint8_t b[120], panel[8 * IGEMM_NR];
	int32_t offset[6] = {100, 0, 40, 20, 80, 60};

	for (int i = 0; i < 120; i++)
		b[i] = byte();
	for (int i = 0; i < LEVELS; i++) {
		struct igemm_rows rows = {.base = b, .offset = offset};
		int wrong = 0;
		if (!level(i))
			continue;
		level(i)->pack(&rows, 6, 5, IGEMM_FLIP, panel);
		for (int k = 0; k < 8; k++)
			for (int n = 0; n < IGEMM_NR; n++) {
				uint8_t got = panel[k / 4 * 4 * IGEMM_NR + 4 * n + k % 4], want = 0;
				if (k < 6 && n < 5)
					want = b[offset[k] + n] ^ IGEMM_FLIP;
				wrong += got != want;
			}
		CHECK_INT(wrong, 0);
	}
}

static void takes_zero_points_off(void)
{
	for (int i = 0; i < LEVELS; i++) {
		int32_t c[5] = {1000, -5, 0, 77, INT32_MIN}, column[5] = {1, 2, 3, -4, 1},
			zero[5] = {7, 0, -1, 2, 0};
		if (!level(i))
			continue;
		level(i)->correct(c, 5, 10, column, 3, zero);
		CHECK_INT(c[0], 1000 - 10 - 21);
		CHECK_INT(c[1], -5 - 20);
		CHECK_INT(c[2], 0 - 30 + 3);
		CHECK_INT(c[3], 77 + 40 - 6);
		CHECK_INT(c[4], INT32_MAX - 9);
	}
}

static int code(float v, int zero)
{
	v = rintf(v) + (float)zero;
	return v < 0 ? 0 : v > 255 ? 255 : (int)v;
}

static void adds_and_multiplies_codes(void)
{
	static uint8_t a[LONG], b[LONG], sum[LONG], product_[LONG];
	struct igemm_codes j = {
		.a_scale = 0.75f, .b_scale = 1.25f, .a_zero = 130, .b_zero = 3, .zero = 17};

	for (int i = 0; i < LONG; i++) {
		a[i] = byte();
		b[i] = byte();
	}
	for (int i = 0; i < 2 * LEVELS; i++) {
		const struct igemm_kernels *k = level(i / 2);
		int wrong = 0;
		j.flip = (uint8_t)(i & 1 ? IGEMM_FLIP : 0);
		if (!k)
			continue;
		k->add8(&j, a, b, sum, LONG);
		k->multiply8(&j, a, b, product_, LONG);
		for (int e = 0; e < LONG; e++) {
			int x = (a[e] ^ j.flip) - j.a_zero, y = (b[e] ^ j.flip) - j.b_zero;
			int s = code((float)x * j.a_scale + (float)y * j.b_scale, 17);
			int p = code((float)(x * y) * j.a_scale, 17);
			wrong += abs((sum[e] ^ j.flip) - s) > 1 || (product_[e] ^ j.flip) != p;
		}
		CHECK_INT(wrong, 0);
	}
}

static void looks_up_and_sums(void)
{
	static uint8_t x[LONG], y[LONG], table[256];

	for (int i = 0; i < 256; i++)
		table[i] = byte();
	for (int i = 0; i < LONG; i++)
		x[i] = byte();
	for (int i = 0; i < LEVELS; i++) {
		int64_t sum = 0;
		int wrong = 0;
		if (!level(i))
			continue;
		level(i)->look_up(x, y, LONG, table);
		for (int e = 0; e < LONG; e++) {
			wrong += y[e] != table[x[e]];
			sum += x[e] ^ IGEMM_FLIP;
		}
		CHECK_INT(wrong, 0);
		CHECK_INT(level(i)->sum_bytes(x, LONG, IGEMM_FLIP), sum);
	}
}

static void adds_rows(void)
{
	static uint8_t b[5][LONG], half[LONG / 2];
	static int32_t got[LONG];
	int8_t w[5] = {3, -100, 127, -128, 1};

	for (int i = 0; i < 5 * LONG; i++)
		b[i / LONG][i % LONG] = byte();
	for (int i = 0; i < 2 * LEVELS; i++) {
		const struct igemm_kernels *k = level(i / 2);
		struct igemm_rows rows = {.base = b[0], .row = LONG};
		uint8_t flip = (uint8_t)(i & 1 ? IGEMM_FLIP : 0);
		int wrong = 0;
		if (!k)
			continue;
		k->add_rows(&rows, w, 9, 5, flip, -77, LONG, got);
		for (int e = 0; e < LONG; e++) {
			int32_t want = -77;
			for (int r = 0; r < 5; r++)
				want += (w[r] - 9) * (b[r][e] ^ flip);
			wrong += got[e] != want;
		}
		k->every_other(b[0], LONG / 2, half);
		for (int e = 0; e < LONG / 2; e++)
			wrong += half[e] != b[0][2 * e];
		CHECK_INT(wrong, 0);
	}
}

static void multiplies_nibbles(void)
{
	enum { BLOCKS = 3 };
	static float a[BLOCKS * 32], wide[32];
	uint8_t w[BLOCKS * 16];
	float scale[BLOCKS] = {0.5f, 2, 0.25f};

	for (int i = 0; i < BLOCKS * 32; i++)
		a[i] = (float)(byte() % 9) - 4;
	for (int i = 0; i < BLOCKS * 16; i++)
		w[i] = byte();
	for (int i = 0; i < 2 * LEVELS; i++) {
		const struct igemm_kernels *k = level(i / 2);
		int blob = i & 1 ? 8 : 16, wrong = 0;
		float want = 0;
		if (!k)
			continue;
		for (int b = 0; b < BLOCKS; b++)
			for (int e = 0; e < blob; e++) {
				const float *at = a + 2 * b * blob;
				uint8_t q = w[b * blob + e];
				want += scale[b] * ((float)(q & 15) - 8) * at[e] +
					scale[b] * ((float)(q >> 4) - 8) * at[blob + e];
			}
		CHECK(fabsf(k->nibbles(a, w, 8, scale, BLOCKS, blob) - want) < 1e-2f);
		k->widen_nibbles(w, 31, 8, 0.5f, wide);
		for (int e = 0; e < 31; e++)
			wrong += wide[e] != ((float)(w[e / 2] >> (e & 1) * 4 & 15) - 8) * 0.5f;
		CHECK_INT(wrong, 0);
	}
}

/* Columns whose bytes are apart, of codes of each width, in blocks of whole and of part loads. */
static void widens_columns(void)
{
	enum { MOST = 16, COLUMN = 83, STEP = 19, CODES = 80 };
	static float y[CODES * STEP];
	uint8_t w[MOST * COLUMN];
	float zero[MOST], scale[MOST];

	for (int i = 0; i < MOST * COLUMN; i++)
		w[i] = byte();
	for (int i = 0; i < MOST; i++) {
		zero[i] = (float)(byte() % 16) + (i % 2 ? 0.5f : 0);
		scale[i] = (float)(byte() + 1) / 64;
	}
	for (int i = 0; i < 9 * LEVELS; i++) {
		static const int codes[] = {16, 48, CODES};
		const struct igemm_kernels *k = level(i / 9);
		int bits = 2 << i % 3, n = codes[i / 3 % 3], wrong = 0;
		if (!k || !k->widen_columns)
			continue;
		memset(y, 0xff, sizeof(y));
		k->widen_columns(w, COLUMN, n, bits, zero, scale, y, STEP);
		for (int e = 0; e < CODES; e++)
			for (int c = 0; c < STEP; c++) {
				const uint8_t *at = w + c * COLUMN + e * bits / 8;
				float got = y[e * STEP + c];
				if (e < n && c < k->widened)
					wrong += got !=
						 ((float)(*at >> e * bits % 8 & ((1 << bits) - 1)) -
						  zero[c]) *
							 scale[c];
				else
					wrong += !isnan(got);
			}
		if (!CHECK_INT(wrong, 0))
			printf("# %d codes of %d bits\n", n, bits);
	}
}

/* Sums of small whole numbers, which are exact: blocks of every size, rows up to IGEMM_CODE_ROWS, a column that ends within a load. */
static void multiplies_codes_by_nibbles(void)
{
	enum { MOST = 256, FACTORS = 64, CODES = 2 * MOST + 128 };
	static int8_t a[IGEMM_CODE_ROWS * CODES];
	static float scale[2][IGEMM_CODE_ROWS * FACTORS], sum[IGEMM_CODE_ROWS * FACTORS],
		less[2 * FACTORS];
	uint8_t w[2 * MOST];
	float y[2 * IGEMM_CODE_ROWS];

	for (int i = 0; i < 2 * MOST; i++)
		w[i] = byte();
	for (int i = 0; i < 5 * LEVELS * IGEMM_CODE_ROWS; i++) {
		const struct igemm_kernels *k = level(i % LEVELS);
		int blob = 8 << i / LEVELS % 5, rows = 1 + i / (5 * LEVELS),
		    bytes = blob < 64 ? 7 * blob : 2 * blob, wrong = 0;
		if (!k || !k->nibble_codes)
			continue;
		int blocks = bytes / blob, unit = 4 * k->widened;
		memset(a, 0, sizeof(a));
		memset(scale, 0, sizeof(scale));
		memset(sum, 0, sizeof(sum));
		memset(less, 0, sizeof(less));
		for (int r = 0; r < rows; r++)
			for (int b = 0; b < blocks; b++) {
				scale[0][r * FACTORS + b] = (float)(1 << (b + r) % 3);
				sum[r * FACTORS + b] = (float)(b - r);
			}
		for (int c = 0; c < 2; c++)
			for (int b = 0; b < blocks; b++) {
				scale[1][c * FACTORS + b] = (float)(1 + (b + c) % 2);
				less[c * FACTORS + b] = (float)(b % 4);
			}
		struct igemm_nibbles p = {.a = a,
					  .a_row = CODES,
					  .w = w,
					  .column = MOST,
					  .bytes = bytes,
					  .blob = blob,
					  .blocks = blocks,
					  .a_scale = scale[0],
					  .a_sum = sum,
					  .scale = scale[1],
					  .zero = less,
					  .factors = FACTORS};
		double want[2 * IGEMM_CODE_ROWS] = {0};
		for (int r = 0; r < rows; r++)
			for (int e = 0; e < 2 * bytes; e++) {
				int at = e / 2 / unit * 2 * unit + e % 2 * unit + e / 2 % unit;
				int code = e % 5 == r ? 127 : e % 7 == r ? -127 : (e + r) % 19 - 9;
				a[r * CODES + at] = (int8_t)code;
				for (int c = 0; c < 2; c++)
					want[2 * r + c] +=
						(double)(w[c * MOST + e / 2] >> e % 2 * 4 & 15) *
						code * (double)scale[0][r * FACTORS + e / 2 / blob] *
						(double)scale[1][c * FACTORS + e / 2 / blob];
			}
		for (int q = 0; q < 2 * rows; q++)
			for (int b = 0; b < blocks; b++)
				want[q] -= (double)sum[q / 2 * FACTORS + b] *
					   (double)less[q % 2 * FACTORS + b];
		k->nibble_codes(&p, rows, y);
		for (int q = 0; q < 2 * rows; q++)
			wrong += (double)y[q] != want[q];
		if (!CHECK_INT(wrong, 0))
			printf("# %d rows, blocks of %d bytes\n", rows, blob);
	}
}

/* A convolution of one tile: CHANNELS codes of 4 x 4 pixels, and IGEMM_NR maps of weights without their zero points. */
static void tile_of(const struct igemm_kernels *k, bool is_signed, int zero)
{
	enum { CHANNELS = 75, DEPTH = 96, ROWS = 19, SIDE = 4 };
	static uint8_t x[ROWS][IGEMM_POINTS][CHANNELS];
	static int16_t w[9][CHANNELS][IGEMM_NR], codes[IGEMM_POINTS][ROWS][DEPTH],
		weights[IGEMM_POINTS][DEPTH / 2][IGEMM_NR][2];
	static int32_t sums[IGEMM_POINTS][ROWS][IGEMM_NR];
	/* twice the factors by which a row, or a column, of a tile's points takes the three rows, or columns, of the weights */
	static const int part[SIDE][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
	int wrong = 0;

	for (int i = 0; i < ROWS * IGEMM_POINTS * CHANNELS; i++)
		x[i / CHANNELS / IGEMM_POINTS][i / CHANNELS % IGEMM_POINTS][i % CHANNELS] =
			i % 7	? byte()
			: i % 2 ? 255
				: 0;
	for (int i = 0; i < 9 * CHANNELS * IGEMM_NR; i++)
		w[i / IGEMM_NR / CHANNELS][i / IGEMM_NR % CHANNELS][i % IGEMM_NR] =
			(int16_t)(i % 5	  ? rand() % 511 - 255
				  : i % 2 ? 255
					  : -255);
	memset(weights, 0, sizeof(weights));
	for (int p = 0; p < IGEMM_POINTS; p++)
		for (int i = 0; i < 9 * CHANNELS * IGEMM_NR; i++) {
			int t = i / IGEMM_NR / CHANNELS, c = i / IGEMM_NR % CHANNELS,
			    n = i % IGEMM_NR;
			int by = part[p / SIDE][t / 3] * part[p % SIDE][t % 3];
			weights[p][c / 2][n][c % 2] =
				(int16_t)(weights[p][c / 2][n][c % 2] + by * w[t][c][n]);
		}
	memset(codes, 1, sizeof(codes));
	for (int r = 0; r < ROWS; r++) {
		const uint8_t *pixel[IGEMM_POINTS];
		for (int p = 0; p < IGEMM_POINTS; p++)
			pixel[p] = x[r][p];
		k->tile_codes(pixel, CHANNELS, is_signed, zero, codes[0][r], ROWS * DEPTH);
	}
	for (int p = 0; p < IGEMM_POINTS; p++)
		k->words(codes[p][0], DEPTH, weights[p][0][0], DEPTH, ROWS, sums[p][0]);
	for (int r = 0; r < ROWS; r++) {
		int32_t y[4 * IGEMM_NR];
		k->tile_sums(sums[0][r], ROWS * IGEMM_NR, y);
		for (int i = 0; i < 4 * IGEMM_NR; i++) {
			int32_t want = 0;
			for (int t = 0; t < 9; t++) {
				int at = (i / IGEMM_NR / 2 + t / 3) * SIDE + i / IGEMM_NR % 2 + t % 3;
				for (int c = 0; c < CHANNELS; c++)
					want += (value(x[r][at][c], is_signed) - zero) *
						w[t][c][i % IGEMM_NR];
			}
			wrong += want != y[i];
		}
	}
	CHECK_INT(wrong, 0);
}

static void convolves_tiles(void)
{
	for (int i = 0; i < LEVELS; i++) {
		if (!level(i) || !level(i)->words)
			continue;
		tile_of(level(i), false, 0);
		tile_of(level(i), false, 255);
		tile_of(level(i), true, -128);
		tile_of(level(i), true, 5);
	}
}

static void requantizes_tails(void)
{
	int32_t x[LONG], add[LONG];
	float scale[LONG];
	uint8_t y[LONG];

	for (int i = 0; i < LONG; i++) {
		x[i] = rand() % 4001 - 2000;
		add[i] = rand() % 501 - 250;
		scale[i] = 0.125f * (float)(1 + i % 3);
	}
	for (int i = 0; i < LEVELS; i++)
		for (int n = 0; n < 80 && level(i); n++) {
			bool adds = n % 2, each = n % 3;
			int wrong = 0;
			memset(y, 99, sizeof(y));
			level(i)->requantize(x, adds ? add : NULL, y, n, scale, each, 5, 0, 255);
			for (int e = 0; e < n; e++)
				wrong += y[e] != code((float)(x[e] + (adds ? add[e] : 0)) *
							      scale[each ? e : 0],
						      5);
			CHECK(y[n] == 99 && !wrong);
		}
}

int main(void)
{
	UNIT(products);
	UNIT(products_without_vnni);
	UNIT(packs_parts);
	UNIT(takes_zero_points_off);
	UNIT(adds_and_multiplies_codes);
	UNIT(looks_up_and_sums);
	UNIT(adds_rows);
	UNIT(multiplies_nibbles);
	UNIT(widens_columns);
	UNIT(multiplies_codes_by_nibbles);
	UNIT(convolves_tiles);
	UNIT(requantizes_tails);
	return unit_end();
}
