/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/signal.h"

#include "base/mem.h"
#include "base/pool.h"
#include "cpu/math/fft.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

static int64_t integer_or_default(const struct tensor *t, int64_t absent)
{
	return t && tensor_count(t) ? elem_i64(tensor_dtype(t), t->data, 0) : absent;
}

/* Returns element i of x, which is complex if parts is 2 and real if parts is 1. */
static struct complex64 load_complex(enum dtype t, const void *x, int64_t i, int64_t parts)
{
	return (struct complex64){elem_f64(t, x, i * parts),
				  parts == 2 ? elem_f64(t, x, i * 2 + 1) : 0};
}

static void store_complex(enum dtype t, void *y, int64_t i, struct complex64 v, int64_t parts)
{
	elem_set_f64(t, y, i * parts, v.re);
	if (parts == 2)
		elem_set_f64(t, y, i * 2 + 1, v.im);
}

/* ---- DFT -------------------------------------------------------------------------------------- */

struct dft_job {
	struct fft fft;
	enum dtype type;
	bool inverse;
	/* The input is half of a real signal's spectrum; the other half is its mirrored conjugate. */
	bool mirror;
	int64_t in, out, inner, in_parts, out_parts;
	const void *x;
	void *y;
	char *work;
	size_t work_one;
};

static void dft_line(const struct dft_job *j, int64_t line, struct complex64 *v, void *work)
{
	int64_t outer = line / j->inner, i = line % j->inner, n = j->fft.n;

	for (int64_t k = 0; k < n; k++) {
		int64_t from = k;
		bool flip = j->mirror && k > n / 2;
		if (flip)
			from = n - k;
		v[k] = from < j->in
			       ? load_complex(j->type, j->x, (outer * j->in + from) * j->inner + i,
					      j->in_parts)
			       : (struct complex64){0, 0};
		if (flip)
			v[k].im = -v[k].im;
		if (j->mirror && (k == 0 || 2 * k == n))
			v[k].im = 0;
	}
	fft_run(&j->fft, j->inverse, v, work);
	for (int64_t k = 0; k < j->out; k++)
		store_complex(j->type, j->y, (outer * j->out + k) * j->inner + i, v[k], j->out_parts);
}

static void dft_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct dft_job *j = arg;
	char *work = j->work + (size_t)thread * j->work_one;
	struct complex64 *v = (struct complex64 *)(void *)work;

	for (int64_t i = begin; i < end; i++)
		dft_line(j, i, v, work + scratch_size((size_t)j->fft.n * sizeof(*v)));
}

static size_t line_bytes(int64_t n)
{
	return scratch_size((size_t)n * sizeof(struct complex64)) + scratch_size(fft_work_bytes(n));
}

/*
 * Returns an upper bound of the length n of a transform whose output has `out` elements; a
 * one-sided output has n / 2 + 1 elements.
 */
static int64_t longest_transform(int64_t out, bool onesided)
{
	int64_t n = onesided ? 2 * out : out;

	return n < 1 ? 1 : n;
}

static int dft_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct dft *p = site_params(site);
	const struct shape *y = &site_out(site, 0)->shape;
	int64_t most = 1;

	(void)d;
	/* the axis may be known only in the run, so allow for any axis */
	for (int i = 0; i < y->rank - 1; i++)
		most = y->dim[i] > most ? y->dim[i] : most;
	most = longest_transform(most, p->onesided && !p->inverse);
	step->workspace =
		scratch_size(fft_table_bytes(most)) + (size_t)pool_threads() * line_bytes(most);
	return 0;
}

static int dft_run(const struct call *c)
{
	const struct dft *p = call_params(c);
	const struct shape *x = &c->in[DFT_X]->shape, *y = &c->out[0]->shape;
	struct scratch s = scratch_of(c);
	struct dft_job j = {.type = tensor_dtype(c->in[DFT_X]),
			    .inverse = p->inverse != 0,
			    .x = c->in[DFT_X]->data,
			    .y = c->out[0]->data};
	int a = axis_of(integer_or_default(optional_in(c, DFT_AXIS), -2), x->rank);
	int64_t length;

	if (a < 0 || a == x->rank - 1)
		return call_fail(c, E_VALUE, "an axis before the last one", NULL);
	j.mirror = p->inverse && p->onesided;
	length = integer_or_default(optional_in(c, DFT_LENGTH),
				    j.mirror ? 2 * (x->dim[a] - 1) : x->dim[a]);
	j.in = x->dim[a];
	j.out = y->dim[a];
	j.in_parts = x->dim[x->rank - 1];
	j.out_parts = y->dim[y->rank - 1];
	j.inner = shape_span(x, a + 1, x->rank - 1);
	if (length < 0 || (p->onesided && !p->inverse ? length / 2 + 1 : length) != j.out)
		return call_fail(c, E_VALUE, "a dft_length as it was planned", NULL);
	if (length == 0 || tensor_count(c->out[0]) == 0) {
		memset(c->out[0]->data, 0, c->out[0]->bytes);
		return 0;
	}
	fft_init(&j.fft, length, j.inverse, scratch_take(&s, fft_table_bytes(length)));
	j.work_one = line_bytes(length);
	j.work = s.at;
	pool_for(shape_span(x, 0, a) * j.inner, 1 + 4096 / (length + 1), dft_part, &j);
	return 0;
}

/* ---- STFT ------------------------------------------------------------------------------------- */

struct stft_job {
	struct fft fft;
	enum dtype type, window_type;
	int64_t length, step, frames, bins, parts; /* length: samples of the signal */
	int64_t taps;				   /* elements of the window */
	const void *x, *window;
	void *y;
	char *work;
	size_t work_one;
};

static void stft_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct stft_job *j = arg;
	char *work = j->work + (size_t)thread * j->work_one;
	struct complex64 *v = (struct complex64 *)(void *)work;

	for (int64_t f = begin; f < end; f++) { /* f counts the frames of all batch items */
		int64_t from = f / j->frames * j->length, at = f % j->frames * j->step;
		for (int64_t k = 0; k < j->fft.n; k++) {
			double w = !j->window	 ? 1
				   : k < j->taps ? elem_f64(j->window_type, j->window, k)
						 : 0;
			v[k] = (struct complex64){0, 0};
			if (at + k < j->length && k < j->taps)
				v[k] = load_complex(j->type, j->x, from + at + k, j->parts);
			v[k].re *= w;
			v[k].im *= w;
		}
		fft_run(&j->fft, false, v, work + scratch_size((size_t)j->fft.n * sizeof(*v)));
		for (int64_t k = 0; k < j->bins; k++)
			store_complex(j->type, j->y, f * j->bins + k, v[k], 2);
	}
}

static int stft_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct stft *p = site_params(site);
	int64_t most = longest_transform(site_out(site, 0)->shape.dim[2], p->onesided != 0);

	(void)d;
	step->workspace =
		scratch_size(fft_table_bytes(most)) + (size_t)pool_threads() * line_bytes(most);
	return 0;
}

static int stft_run(const struct call *c)
{
	const struct stft *p = call_params(c);
	const struct tensor *x = c->in[STFT_X], *w = optional_in(c, STFT_WINDOW), *y = c->out[0];
	struct scratch s = scratch_of(c);
	struct stft_job j = {.type = tensor_dtype(x),
			     .length = x->shape.dim[1],
			     .frames = y->shape.dim[1],
			     .bins = y->shape.dim[2],
			     .x = x->data,
			     .y = y->data};
	int64_t length;

	j.parts = x->shape.rank == 3 ? x->shape.dim[2] : 1;
	j.step = integer_or_default(c->in[STFT_STEP], 1);
	length = integer_or_default(optional_in(c, STFT_LENGTH),
				    w ? w->shape.dim[0] : x->shape.dim[1]);
	j.taps = length;
	if (w) {
		j.window = w->data;
		j.window_type = tensor_dtype(w);
		j.taps = w->shape.dim[0];
	}
	if (length < 1 || (p->onesided ? length / 2 + 1 : length) != j.bins || j.step < 1)
		return call_fail(c, E_VALUE, "a frame length and step as they were planned", NULL);
	fft_init(&j.fft, length, false, scratch_take(&s, fft_table_bytes(length)));
	j.work_one = line_bytes(length);
	j.work = s.at;
	pool_for(x->shape.dim[0] * j.frames, 1 + 4096 / (length + 1), stft_part, &j);
	return 0;
}

/* ---- windows ---------------------------------------------------------------------------------- */

/* Fills y[k] = a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n). */
static int window_run(const struct call *c, double a0, double a1, double a2)
{
	const struct signal_window *p = call_params(c);
	const struct tensor *y = c->out[0];
	int64_t size = tensor_count(y), n = p->periodic ? size : size - 1;

	for (int64_t k = 0; k < size; k++) {
		/* A symmetric window of size 1 gives 0 / 0, a NaN, like the function in the ONNX specification. */
		double angle = 2 * PI * (double)k / (double)n;
		elem_set_f64(tensor_dtype(y), y->data, k, a0 - a1 * cos(angle) + a2 * cos(2 * angle));
	}
	return 0;
}

static int hann_run(const struct call *c)
{
	return window_run(c, 0.5, 0.5, 0);
}

static int hamming_run(const struct call *c)
{
	return window_run(c, 25.0 / 46, 21.0 / 46, 0);
}

static int blackman_run(const struct call *c)
{
	return window_run(c, 0.42, 0.5, 0.08);
}

/* ---- MelWeightMatrix -------------------------------------------------------------------------- */

/* The mel value of a frequency in hertz, computed in the type of the input. */
static double mel_of(const struct tensor *hertz)
{
	double f = elem_f64(tensor_dtype(hertz), hertz->data, 0);

	if (tensor_dtype(hertz) == DT_F64)
		return 2595 * log10(1 + f / 700);
	return (double)(2595 * log10f(1 + (float)f / 700));
}

static void set_mel_weight(const struct tensor *y, int64_t bins, int64_t rows, int64_t row,
			   int64_t bin, double v)
{
	if (row >= 0 && row < rows)
		elem_set_f64(tensor_dtype(y), y->data, row * bins + bin, v);
}

static int mel_run(const struct call *c)
{
	const struct tensor *y = c->out[0];
	int64_t bins = y->shape.dim[1], rows = y->shape.dim[0],
		length = integer_or_default(c->in[1], 0);
	double rate = (double)integer_or_default(c->in[2], 0), low = mel_of(c->in[3]),
	       high = mel_of(c->in[4]);
	double step = (high - low) / (double)(bins + 2);
	int64_t edge[3];

	if (!(rate > 0))
		return call_fail(c, E_VALUE, "a sample_rate over 0", NULL);
	if (tensor_dtype(c->in[3]) != DT_F64)
		step = (double)(float)step;
	memset(y->data, 0, y->bytes);
	for (int64_t i = 0; i < bins; i++) {
		for (int k = 0; k < 3; k++) {
			double hertz = 700 * (pow(10, ((double)(i + k) * step + low) / 2595) - 1);
			double at = floor((double)(length + 1) * hertz / rate);
			edge[k] = at > -1e9 && at < 1e9 ? (int64_t)at : -1;
			edge[k] = edge[k] < 2 * rows ? edge[k] : 2 * rows;
		}
		int64_t up = edge[1] - edge[0], down = edge[2] - edge[1];
		if (up == 0)
			set_mel_weight(y, bins, rows, edge[1], i, 1);
		for (int64_t j = edge[0] > 0 ? edge[0] : 0; up > 0 && j <= edge[1]; j++)
			set_mel_weight(y, bins, rows, j, i, (double)(j - edge[0]) / (double)up);
		for (int64_t j = edge[1] > 0 ? edge[1] : 0; down > 0 && j < edge[2]; j++)
			set_mel_weight(y, bins, rows, j, i, (double)(edge[2] - j) / (double)down);
	}
	return 0;
}

#define REFERENCE(name, types, reshape, run)                                                       \
	{                                                                                          \
		name, types, K_REFERENCE, NULL, NULL, reshape, run, NULL, NULL                     \
	}
/* ---- DynamicTimeWarping ------------------------------------------------------------------------ */

/* From where the cheapest path reaches a point (r, c): from (r - 1, c - 1), from (r - 1, c), or from (r, c - 1). */
enum { FROM_BOTH, FROM_ROW, FROM_COLUMN };

/*
 * Sets from[r * (cols + 1) + c] for each point; row and column 0 are outside the matrix. `cost` has room for two rows. Of equal
 * costs the column before is taken, as ONNX Runtime does.
 */
static void find_paths(const float *x, int64_t rows, int64_t cols, float *cost, uint8_t *from)
{
	float *above = cost, *now = cost + cols + 1;

	for (int64_t c = 0; c <= cols; c++)
		above[c] = c ? INFINITY : 0;
	for (int64_t r = 1; r <= rows; r++) {
		now[0] = INFINITY;
		for (int64_t c = 1; c <= cols; c++) {
			float both = above[c - 1], row = above[c], column = now[c - 1],
			      least = column;
			uint8_t at = FROM_COLUMN;
			if (both < row && both < column) {
				least = both;
				at = FROM_BOTH;
			} else if (row < both && row < column) {
				least = row;
				at = FROM_ROW;
			}
			now[c] = least + x[(r - 1) * cols + c - 1];
			from[r * (cols + 1) + c] = at;
		}
		float *swap = above;
		above = now;
		now = swap;
	}
}

/* Goes back from the last point to the first. Returns the number of points; writes them, last first, to at if it is not NULL. */
static int64_t trace_path(const uint8_t *from, int64_t rows, int64_t cols, int32_t (*at)[2])
{
	int64_t n = 0;

	for (int64_t r = rows, c = cols; r > 0 || c > 0; n++) {
		uint8_t step = !r ? FROM_COLUMN : !c ? FROM_ROW : from[r * (cols + 1) + c];
		if (at) {
			at[n][0] = (int32_t)r - 1;
			at[n][1] = (int32_t)c - 1;
		}
		r -= step != FROM_COLUMN;
		c -= step != FROM_ROW;
	}
	return n;
}

static int warping_run(const struct call *c)
{
	const struct shape *x = &c->in[0]->shape;
	int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1];
	size_t points = (size_t)(rows + 1) * (size_t)(cols + 1), path = (size_t)(rows + cols);
	float *cost = mem_alloc((size_t)(cols + 1) * 2 * sizeof(float), MEM_WORKSPACE);
	uint8_t *from = mem_alloc(points, MEM_WORKSPACE);
	int32_t(*at)[2] = mem_alloc(path * sizeof(*at) + 1, MEM_WORKSPACE);
	int err = 0;

	if (!cost || !from || !at) {
		err = call_fail(c, E_MEMORY, NULL, NULL);
	} else {
		find_paths(c->in[0]->data, rows, cols, cost, from);
		int64_t n = trace_path(from, rows, cols, at);
		err = call_alloc(c, 0, DT_I32, &(struct shape){.rank = 2, .dim = {2, n}});
		for (int64_t i = 0; i < n && !err; i++)
			for (int k = 0; k < 2; k++)
				((int32_t *)c->out[0]->data)[k * n + i] = at[n - 1 - i][k];
	}
	mem_free(cost);
	mem_free(from);
	mem_free(at);
	return err;
}

const struct kernel cpu_signal[] = {
	REFERENCE("DFT", T_FLOATS_BF, dft_reshape, dft_run),
	REFERENCE("STFT", T_FLOATS_BF, stft_reshape, stft_run),
	REFERENCE("HannWindow", 0, NULL, hann_run),
	REFERENCE("HammingWindow", 0, NULL, hamming_run),
	REFERENCE("BlackmanWindow", 0, NULL, blackman_run),
	REFERENCE("MelWeightMatrix", 0, NULL, mel_run),
	REFERENCE("com.microsoft::DynamicTimeWarping", 0, NULL, warping_run),
	{0}};
