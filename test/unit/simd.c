/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of every instruction set level that this machine runs, against plain C. */
#include "cpu/math/broadcast.h"
#include "cpu/math/simd.h"
#include "test/unit/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
extern const struct simd simd_table_v2, simd_table_v3, simd_table_v4;
static const struct simd *const all_tables[] = {&simd_table_v2, &simd_table_v3, &simd_table_v4};
#else
extern const struct simd simd_table_v0;
static const struct simd *const all_tables[] = {&simd_table_v0};
#endif
enum { N = 20011 };

/* Tables up to the one that is chosen: those the machine runs. */
static int tables(void)
{
	int n = 1;

	while (all_tables[n - 1] != simd())
		n++;
	return n;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}
static double softplus(double x)
{
	return fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double gelu(double x)
{
	return 0.5 * x * erfc(-x / sqrt(2));
}
static double mish(double x)
{
	return x * tanh(softplus(x));
}

static const struct {
	enum vfun f;
	double (*want)(double);
	double lo, hi, ulps;
} functions[] = {
	{VF_EXP, exp, -87, 88, 2},
	{VF_LOG, log, 1e-3, 1e3, 2},
	{VF_SIN, sin, -30, 30, 3},
	{VF_COS, cos, -30, 30, 3},
	{VF_TAN, tan, -1.5, 1.5, 5},
	{VF_ASIN, asin, -1, 1, 4},
	{VF_ACOS, acos, -1, 1, 3},
	{VF_ATAN, atan, -20, 20, 3},
	{VF_SINH, sinh, -80, 80, 5},
	{VF_COSH, cosh, -80, 80, 5},
	{VF_ASINH, asinh, -50, 50, 4},
	{VF_ACOSH, acosh, 1, 50, 4},
	{VF_ATANH, atanh, -0.99, 0.99, 4},
	{VF_TANH, tanh, -12, 12, 8},
	{VF_ERF, erf, -5, 5, 3},
	{VF_SIGMOID, sigmoid, -80, 20, 4},
	{VF_SOFTPLUS, softplus, -20, 20, 4},
	{VF_GELU, gelu, -13, 8, 8},
	{VF_MISH, mish, -10, 30, 8},
};

static void functions_are_close(void)
{
	static float x[N], y[N];

	for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++) {
		for (int i = 0; i < N; i++)
			x[i] = (float)(functions[k].lo +
				       (functions[k].hi - functions[k].lo) * i / (N - 1));
		for (int t = 0; t < tables(); t++) {
			double worst = 0;
			all_tables[t]->map[functions[k].f](x, y, N, NULL);
			for (int i = 0; i < N; i++) {
				double want = functions[k].want((double)x[i]);
				float near = fabsf((float)want);
				double ulp = (double)(nextafterf(near, INFINITY) - near) + 1e-30;
				/* near a zero of the function the argument's own rounding counts */
				ulp = fmax(ulp, (double)FLT_EPSILON * 0.02);
				worst = fmax(worst, fabs((double)y[i] - want) / ulp);
			}
			if (!CHECK(worst <= functions[k].ulps))
				printf("# function %zu, %s: %g ulps\n", k, all_tables[t]->name, worst);
		}
	}
}

/* What no normal number is for exp, between numbers that are, and at both ends of these. */
static void exp_takes_any_number(void)
{
	static const float x[] = {INFINITY, -INFINITY, NAN,	100,	  -100,	 -110,
				  88.7f,    89,	       87,	-87,	  87.1f, -87.5f,
				  0,	    -0.0f,     FLT_MAX, -FLT_MAX, 1e-40f};
	enum { COUNT = sizeof(x) / sizeof(*x) };
	float in[2 * COUNT], y[2 * COUNT];

	for (int i = 0; i < COUNT; i++) {
		in[2 * i] = x[i];
		in[2 * i + 1] = (float)i - 9;
	}
	for (int t = 0; t < tables(); t++) {
		int wrong = 0;
		all_tables[t]->map[VF_EXP](in, y, 2 * COUNT, NULL);
		for (int i = 0; i < 2 * COUNT; i++) {
			float want = (float)exp((double)in[i]);
			bool close = fabsf(y[i] - want) <= 4e-7f * want + 3e-45f;
			wrong += isnan(in[i]) ? !isnan(y[i]) : !(close || y[i] == want);
		}
		if (!CHECK_INT(wrong, 0))
			printf("# %s\n", all_tables[t]->name);
	}
}

/* What a vector's other elements are, great ones included, changes no bit of an exp. */
static void exp_has_no_neighbours(void)
{
	enum { COUNT = 4096, ALONE = SIMD_MOST };
	float in[ALONE], y[ALONE], z[ALONE];

	for (int t = 0; t < tables(); t++) {
		int wrong = 0;
		for (int i = 0; i < COUNT; i++) {
			/* near halves of ln 2, where one rounding more chooses another power of two */
			float x = ((float)(i - COUNT / 2) / 32 + 0.5f) * 0.693147182f;
			x = i % 3 == 0	 ? nextafterf(x, INFINITY)
			    : i % 3 == 1 ? nextafterf(x, -INFINITY)
					 : x;
			for (int k = 0; k < ALONE; k++)
				in[k] = x;
			all_tables[t]->map[VF_EXP](in, y, ALONE, NULL);
			in[0] = 100;
			all_tables[t]->map[VF_EXP](in, z, ALONE, NULL);
			wrong += memcmp(y + 1, z + 1, (ALONE - 1) * sizeof(*y)) != 0;
		}
		if (!CHECK_INT(wrong, 0))
			printf("# %s\n", all_tables[t]->name);
	}
}

/* Far below zero GELU is a small number: its digits, its limits, and that no neighbour in a vector changes them. */
static void gelu_keeps_its_tail(void)
{
	static float x[N], y[N];
	static const float special[] = {INFINITY, -INFINITY, NAN,     0,       -0.0f,
					1e-40f,	  -1e-40f,   FLT_MAX, -FLT_MAX};
	enum { SPECIAL = sizeof(special) / sizeof(*special) };

	for (int t = 0; t < tables(); t++) {
		simd_map *map = all_tables[t]->map[VF_GELU];
		double worst = 0;
		for (int i = 0; i < N; i++)
			x[i] = -12.5f + 12.4f * (float)i / (N - 1);
		map(x, y, N, NULL);
		for (int i = 0; i < N; i++) {
			double want = gelu((double)x[i]);
			worst = fmax(worst, fabs((double)y[i] - want) / fabs(want));
		}
		if (!CHECK(worst < 1e-5))
			printf("# %s: %g\n", all_tables[t]->name, worst);
		for (int i = 0; i < 64; i++)
			x[i] = i % 2 ? -1.0f - (float)i : special[i / 2 % SPECIAL];
		map(x, y, 64, NULL);
		for (int i = 0; i < 64; i++) {
			float alone;
			map(&x[i], &alone, 1, NULL);
			CHECK(memcmp(&alone, &y[i], sizeof(alone)) == 0 ||
			      (isnan(alone) && isnan(y[i])));
		}
		CHECK(isinf(y[0]) && y[0] > 0 && isnan(y[2]) && isnan(y[4]) && y[6] == 0 && y[8] == 0);
		CHECK(y[10] > 0 && y[10] < 6e-41f && y[12] < 0 && y[14] == FLT_MAX && y[16] == 0);
	}
}

static void reductions_keep_nan(void)
{
	float x[100];

	for (int t = 0; t < tables(); t++) {
		for (int n = 1; n <= 100; n++) {
			for (int i = 0; i < n; i++)
				x[i] = (float)((i * 37) % 101) - 50;
			float most = x[0], least = x[0], sum = 0;
			for (int i = 0; i < n; i++) {
				most = x[i] > most ? x[i] : most;
				least = x[i] < least ? x[i] : least;
				sum += x[i];
			}
			CHECK(all_tables[t]->max(x, n) == most);
			CHECK(all_tables[t]->min(x, n) == least);
			CHECK(all_tables[t]->sum(x, n) == sum);
			x[n / 2] = NAN;
			CHECK(isnan(all_tables[t]->max(x, n)));
			CHECK(isnan(all_tables[t]->min(x, n)));
		}
	}
}

static void narrow_floats_agree(void)
{
	static uint16_t h[1 << 16];
	static float f[1 << 16];

	for (int i = 0; i < 1 << 16; i++)
		h[i] = (uint16_t)i;
	for (int t = 0; t < tables(); t++) {
		int wrong = 0;
		all_tables[t]->f16_to_f32(h, f, 1 << 16);
		for (int i = 0; i < 1 << 16; i++)
			wrong += f[i] != f16_to_f32((uint16_t)i) && !isnan(f[i]);
		for (int i = 0; i < 1 << 16; i++)
			f[i] = (float)(i - 30000) * 1.37f;
		all_tables[t]->f32_to_f16(f, h, 1 << 16);
		for (int i = 0; i < 1 << 16; i++) {
			wrong += h[i] != f32_to_f16(f[i]);
			h[i] = (uint16_t)i;
		}
		CHECK_INT(wrong, 0);
	}
}

/* Every float of 16 bits and what lies beside and between them, denormal numbers and what is no number among them. */
static void brain_floats_agree(void)
{
	static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
	enum { LOW = sizeof(low) / sizeof(*low), COUNT = (1 << 16) * LOW - 5 };
	static uint16_t b[COUNT];
	static float f[COUNT];

	for (int t = 0; t < tables(); t++) {
		int wrong = 0;
		for (int i = 0; i < COUNT; i++) {
			uint32_t u = (uint32_t)(i / LOW) << 16 | low[i % LOW];
			memcpy(&f[i], &u, sizeof(u));
		}
		all_tables[t]->f32_to_bf16(f, b, COUNT);
		for (int i = 0; i < COUNT; i++)
			wrong += b[i] != f32_to_bf16(f[i]);
		CHECK_INT(wrong, 0);
		all_tables[t]->bf16_to_f32(b, f, COUNT);
		for (int i = 0; i < COUNT; i++) {
			float want = bf16_to_f32(b[i]);
			wrong += memcmp(&f[i], &want, sizeof(want)) != 0;
		}
		CHECK_INT(wrong, 0);
	}
}

static void add_loop(void *arg, const void *const *in, void *out, int64_t n)
{
	(void)arg;
	simd()->bin[VB_ADD][DT_I32](in[0], in[1], out, n);
}

/* Shapes of the inputs, of rank 4; a dimension of 1 repeats. */
static void broadcasts(const struct shape *a, const struct shape *b)
{
	struct shape y;
	struct bcast k;
	const struct shape *shapes[2] = {a, b};
	const int64_t size[2] = {4, 4};
	int64_t sa[MAX_RANK], sb[MAX_RANK], wrong = 0;

	CHECK(shape_broadcast(a, b, &y));
	int64_t na = shape_count(a), nb = shape_count(b), n = shape_count(&y);
	int32_t *x0 = malloc((size_t)na * 4), *x1 = malloc((size_t)nb * 4),
		*out = malloc((size_t)n * 4);
	const void *in[2] = {x0, x1};
	for (int64_t i = 0; i < na; i++)
		x0[i] = (int32_t)i * 3;
	for (int64_t i = 0; i < nb; i++)
		x1[i] = (int32_t)i * 1001;
	bcast_make(&k, &y, shapes, 2, size, 4);
	bcast_run(&k, in, out, 64, add_loop, NULL);
	shape_broadcast_strides(a, &y, sa);
	shape_broadcast_strides(b, &y, sb);
	for (int64_t i = 0; i < n; i++) {
		int64_t oa = 0, ob = 0, rest = i;
		for (int d = y.rank - 1; d >= 0; d--) {
			oa += rest % y.dim[d] * sa[d];
			ob += rest % y.dim[d] * sb[d];
			rest /= y.dim[d];
		}
		wrong += out[i] != x0[oa] + x1[ob];
	}
	CHECK_INT(wrong, 0);
	free(x0);
	free(x1);
	free(out);
}

static void shapes_broadcast(void)
{
	static const int64_t dims[] = {5, 3, 40, 300};

	for (unsigned ma = 0; ma < 16; ma++) {
		for (unsigned mb = 0; mb < 16; mb++) {
			struct shape a = {.rank = 4}, b = {.rank = 4};
			for (int d = 0; d < 4; d++) {
				a.dim[d] = ma & 1u << d ? dims[d] : 1;
				b.dim[d] = mb & 1u << d ? dims[d] : 1;
			}
			broadcasts(&a, &b);
			a.dim[3] = a.dim[3] == 1 ? 1 : 7; /* short inner runs */
			b.dim[3] = b.dim[3] == 1 ? 1 : 7;
			broadcasts(&a, &b);
		}
	}
}

/* Means of windows of 3 x 2 with a pad on each side, of rows shorter and longer than a vector, and with all strides. */
static void means_of_windows(void)
{
	enum {
		HEIGHT = 5,
		WIDE = 40,
		PITCH = WIDE + 2,
		ROOM = (HEIGHT + 2) * PITCH + 4 * SIMD_MOST
	};
	static float x[HEIGHT * WIDE], room[ROOM], y[HEIGHT * WIDE + 1],
		by[HEIGHT * WIDE + SIMD_MOST];

	for (int t = 0; t < tables(); t++)
		for (int width = 1; width <= WIDE; width++)
			for (int step = 1; step <= 3; step++) {
				int32_t tap[6];
				int pitch = width + 2, n = (width + step - 1) / step, wrong = 0;
				struct simd_means j = {.width = width,
						       .height = HEIGHT,
						       .rows = HEIGHT,
						       .n = n,
						       .taps = 6,
						       .step = step,
						       .down = pitch,
						       .tap = tap,
						       .first = pitch + 1,
						       .pitch = pitch,
						       .by = by};
				for (int i = 0; i < HEIGHT * width; i++)
					x[i] = (float)(rand() % 1000) / 8;
				for (int i = 0; i < HEIGHT * WIDE + SIMD_MOST; i++)
					by[i] = (float)(1 << i % 5);
				for (int i = 0; i < 6; i++)
					tap[i] = i / 2 * pitch + i % 2;
				memset(room, 0, sizeof(room));
				y[HEIGHT * n] = 7;
				all_tables[t]->window_means(&j, x, room, y);
				for (int i = 0; i < HEIGHT * n; i++) {
					float sum = 0;
					for (int k = 0; k < 6; k++) {
						int row = i / n + k / 2 - 1,
						    col = i % n * step + k % 2 - 1;
						if (row >= 0 && row < HEIGHT && col >= 0)
							sum += x[row * width + col];
					}
					wrong += y[i] != sum / by[i];
				}
				CHECK(!wrong && y[HEIGHT * n] == 7);
			}
}

int main(void)
{
	UNIT(functions_are_close);
	UNIT(exp_takes_any_number);
	UNIT(exp_has_no_neighbours);
	UNIT(means_of_windows);
	UNIT(gelu_keeps_its_tail);
	UNIT(reductions_keep_nan);
	UNIT(narrow_floats_agree);
	UNIT(brain_floats_agree);
	UNIT(shapes_broadcast);
	return unit_end();
}
