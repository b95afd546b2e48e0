/* SPDX-License-Identifier: Apache-2.0 */
#include "check/input_scale.h"

#include "check/check.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_CHANNELS = 16, POSITIONS = 96, MAX_SPATIAL = 3 };

/* Where the sampled values come from: the input itself, or a convolution of it without padding. */
struct sample {
	const struct tensor *x, *w; /* w: weights of the Conv, or NULL */
	int64_t channels;	    /* of x */
	int spatial;
	int64_t size[MAX_SPATIAL], kernel[MAX_SPATIAL], dilation[MAX_SPATIAL];
	int64_t span[MAX_SPATIAL]; /* elements of x that a window covers on this axis */
};

/* Returns the next node if it is the only reader of v; skips Identity and Cast, which keep the values. */
static const struct node *only_reader(const struct graph *g, const struct value *v)
{
	for (int depth = 0; depth < 8 && v && v->nusers == 1; depth++) {
		const struct node *n = g->node[v->users[0]];
		if (!check_is(n, "Identity") && !check_is(n, "Cast"))
			return node_in(g, n, 0) == v ? n : NULL;
		v = node_out(g, n, 0);
	}
	return NULL;
}

/* Returns the constant input i of n, also if an Identity stands between. */
static const struct tensor *constant_input(const struct graph *g, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(g, n, i);

	while (v && !v->init && v->producer != NO_NODE && check_is(g->node[v->producer], "Identity"))
		v = node_in(g, g->node[v->producer], 0);
	return v ? v->init : NULL;
}

static bool is_float_tensor(const struct tensor *t)
{
	return t && t->data && t->type.kind == V_TENSOR && (T_BIT(tensor_dtype(t)) & T_FLOATS_BF);
}

static bool sample_input(struct sample *s, const struct tensor *x)
{
	*s = (struct sample){.x = x, .spatial = x->shape.rank - 2};
	if (s->spatial < 0 || s->spatial > MAX_SPATIAL || x->shape.dim[0] < 1)
		return false;
	s->channels = x->shape.dim[1];
	for (int i = 0; i < s->spatial; i++) {
		s->size[i] = x->shape.dim[2 + i];
		s->kernel[i] = s->span[i] = s->dilation[i] = 1;
		if (s->size[i] < 1)
			return false;
	}
	return true;
}

static bool sample_conv(struct sample *s, const struct node *conv, const struct tensor *w)
{
	const struct ints *dilations = check_ints(conv, "dilations");
	double group = 1;

	if (!is_float_tensor(w) || w->shape.rank != s->spatial + 2 || s->spatial < 1 ||
	    (check_number(conv, "group", &group) && group != 1) || w->shape.dim[1] != s->channels)
		return false;
	s->w = w;
	for (int i = 0; i < s->spatial; i++) {
		s->kernel[i] = w->shape.dim[2 + i];
		s->dilation[i] = dilations && dilations->n == s->spatial ? dilations->v[i] : 1;
		if (s->kernel[i] < 1 || s->dilation[i] < 1 || s->kernel[i] > s->size[i])
			return false;
		s->span[i] = (s->kernel[i] - 1) * s->dilation[i] + 1;
		if (s->span[i] > s->size[i])
			return false;
	}
	return true;
}

/* The value of output channel m for the window that begins at `at` in picture n. */
static double value_at(const struct sample *s, int64_t m, int64_t n, const int64_t *at)
{
	int64_t taps = 1, plane = 1;
	double sum = 0;

	for (int i = 0; i < s->spatial; i++) {
		taps *= s->kernel[i];
		plane *= s->size[i];
	}
	for (int64_t c = s->w ? 0 : m; c < (s->w ? s->channels : m + 1); c++)
		for (int64_t k = 0; k < taps; k++) {
			int64_t offset = 0, rest = k, place = taps;
			for (int i = 0; i < s->spatial; i++) {
				place /= s->kernel[i];
				offset = offset * s->size[i] + at[i] + rest / place * s->dilation[i];
				rest %= place;
			}
			double x = elem_f64(tensor_dtype(s->x), s->x->data,
					    (n * s->channels + c) * plane + offset);
			sum += s->w ? x * elem_f64(tensor_dtype(s->w), s->w->data,
						   (m * s->channels + c) * taps + k)
				    : x;
		}
	return sum;
}

/* Standard deviation of channel m over windows at random places, which are the same in each call. */
static double deviation(const struct sample *s, int64_t m)
{
	uint64_t random = 1;
	double sum = 0, squares = 0;

	for (int p = 0; p < POSITIONS; p++) {
		int64_t at[MAX_SPATIAL];
		for (int i = 0; i < s->spatial; i++) {
			random = random * UINT64_C(6364136223846793005) +
				 UINT64_C(1442695040888963407);
			at[i] = (int64_t)((random >> 33) % (uint64_t)(s->size[i] - s->span[i] + 1));
		}
		double v = value_at(s, m, p % s->x->shape.dim[0], at);
		sum += v;
		squares += v * v;
	}
	double mean = sum / POSITIONS, square = squares / POSITIONS - mean * mean;
	return sqrt(square > 0 ? square : 0);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_doubles);
	return v[n / 2];
}

static bool compare_channels(const struct sample *s, const struct tensor *variance,
			     struct scale_evidence *e)
{
	double trained[MAX_CHANNELS], given[MAX_CHANNELS], ratio[MAX_CHANNELS];
	int64_t channels = s->w ? s->w->shape.dim[0] : s->channels;
	size_t n = 0;

	if (tensor_count(variance) != channels)
		return false;
	for (int64_t m = 0; m < channels && n < MAX_CHANNELS; m++) {
		double v = elem_f64(tensor_dtype(variance), variance->data, m);
		if (!(v > 1e-6)) /* a dead channel */
			continue;
		trained[n] = sqrt(v);
		given[n] = deviation(s, m);
		ratio[n] = given[n] / trained[n];
		n++;
	}
	if (!n)
		return false;
	e->trained = median(trained, n);
	e->given = median(given, n);
	e->ratio = median(ratio, n);
	return isfinite(e->ratio);
}

bool measure_scale(const struct graph *g, const struct value *v, const struct tensor *t,
		   struct scale_evidence *e)
{
	const struct node *n = only_reader(g, v);
	struct sample s;
	double training = 0;

	*e = (struct scale_evidence){0};
	if (!n || tensor_count(t) < POSITIONS || !sample_input(&s, t))
		return false;
	if (check_is(n, "Conv")) {
		e->conv = n;
		if (!sample_conv(&s, n, constant_input(g, n, 1)))
			return false;
		n = only_reader(g, node_out(g, n, 0));
	}
	if (!n || !check_is(n, "BatchNormalization") ||
	    (check_number(n, "training_mode", &training) && training != 0))
		return false;
	const struct tensor *variance = constant_input(g, n, 4);
	e->norm = n;
	return is_float_tensor(variance) && compare_channels(&s, variance, e);
}
