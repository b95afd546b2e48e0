/* SPDX-License-Identifier: Apache-2.0 */
#include "check/loss.h"

#include <math.h>
#include <string.h>

enum { MAXABS_EXPONENT = 8 };
/* Probabilities below this count as this: ln 0 would make one element that underflows the whole loss. */
static const double MIN_PROBABILITY = 1e-12;

static double maxabs(const float *y, const float *r, int64_t n, float *slope)
{
	double most = 0, ref = 0, sum = 0;

	for (int64_t i = 0; i < n; i++) {
		most = fmax(most, fabs((double)y[i] - (double)r[i]));
		ref = fmax(ref, fabs((double)r[i]));
	}
	if (most == 0)
		return 0;
	ref = ref > 0 ? ref : 1;
	for (int64_t i = 0; i < n && slope; i++)
		sum += pow(fabs((double)y[i] - (double)r[i]) / most, MAXABS_EXPONENT);
	/* the derivative of |e|_p is sign(e_i) (|e_i| / |e|_p)^(p - 1) */
	double norm = pow(sum, 1.0 / MAXABS_EXPONENT);
	for (int64_t i = 0; i < n && slope; i++) {
		double e = ((double)y[i] - (double)r[i]) / most;
		slope[i] = (float)(copysign(pow(fabs(e) / norm, MAXABS_EXPONENT - 1), e) / ref);
	}
	return most / ref;
}

static double cosine(const float *y, const float *r, int64_t n, float *slope)
{
	double yy = 0, rr = 0, yr = 0;

	for (int64_t i = 0; i < n; i++) {
		yy += (double)y[i] * (double)y[i];
		rr += (double)r[i] * (double)r[i];
		yr += (double)y[i] * (double)r[i];
	}
	double norm = sqrt(yy) * sqrt(rr);
	if (norm == 0)
		return yy == rr ? 0 : 1;
	for (int64_t i = 0; i < n && slope; i++)
		slope[i] = (float)((yr / yy * (double)y[i] - (double)r[i]) / norm);
	return fmax(0, 1 - yr / norm);
}

static double square(const float *y, const float *r, int64_t n, float *slope)
{
	double ee = 0, rr = 0;

	for (int64_t i = 0; i < n; i++) {
		double e = (double)y[i] - (double)r[i];
		ee += e * e;
		rr += (double)r[i] * (double)r[i];
	}
	rr = rr > 0 ? rr : 1;
	for (int64_t i = 0; i < n && slope; i++)
		slope[i] = (float)(2 * ((double)y[i] - (double)r[i]) / rr);
	return ee / rr;
}

/* ---- kl ---------------------------------------------------------------------------------------- */

static bool are_distributions(const float *r, int64_t rows, int64_t n)
{
	for (int64_t i = 0; i < rows; i++) {
		double sum = 0;
		for (int64_t k = 0; k < n; k++) {
			if (r[i * n + k] < 0)
				return false;
			sum += (double)r[i * n + k];
		}
		if (fabs(sum - 1) > 1e-3)
			return false;
	}
	return true;
}

static bool are_shares(const float *r, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (r[i] < 0 || r[i] > 1)
			return false;
	return true;
}

static double log_sum(const float *x, int64_t n)
{
	double most = (double)x[0], sum = 0;

	for (int64_t i = 1; i < n; i++)
		most = fmax(most, (double)x[i]);
	for (int64_t i = 0; i < n; i++)
		sum += exp((double)x[i] - most);
	return most + log(sum);
}

static double row_kl(const float *y, const float *r, int64_t n, bool probabilities, float *slope)
{
	double ly = probabilities ? 0 : log_sum(y, n), lr = probabilities ? 0 : log_sum(r, n),
	       sum = 0;

	for (int64_t i = 0; i < n; i++) {
		double p = probabilities ? (double)r[i] : exp((double)r[i] - lr);
		double q = probabilities ? (double)y[i] : exp((double)y[i] - ly);
		sum += p > 0 ? p * log(fmax(p, MIN_PROBABILITY) / fmax(q, MIN_PROBABILITY)) : 0;
		if (slope)
			slope[i] = (float)(probabilities ? -p / fmax(q, MIN_PROBABILITY) : q - p);
	}
	return sum;
}

static double two_classes(double y, double r, bool probabilities, float *slope)
{
	double p = probabilities ? r : 1 / (1 + exp(-r)), q = probabilities ? y : 1 / (1 + exp(-y));

	q = fmin(fmax(q, MIN_PROBABILITY), 1 - MIN_PROBABILITY);
	if (slope)
		*slope = (float)(probabilities ? (q - p) / (q * (1 - q)) : q - p);
	return p * log(fmax(p, MIN_PROBABILITY) / q) +
	       (1 - p) * log(fmax(1 - p, MIN_PROBABILITY) / (1 - q));
}

static double divergence(const struct tensor *y, const struct tensor *r, float *slope)
{
	int64_t count = tensor_count(r), n = r->shape.rank > 0 ? r->shape.dim[r->shape.rank - 1] : 1;
	int64_t rows = n > 0 ? count / n : 0;
	const float *a = y->data, *b = r->data;
	double sum = 0;
	bool probabilities = n > 1 ? are_distributions(b, rows, n) : are_shares(b, count);

	for (int64_t i = 0; i < rows; i++) {
		float *s = slope ? slope + i * n : NULL;
		sum += n > 1 ? row_kl(a + i * n, b + i * n, n, probabilities, s)
			     : two_classes((double)a[i], (double)b[i], probabilities, s);
	}
	for (int64_t i = 0; i < count && slope; i++)
		slope[i] /= (float)rows;
	return rows ? fmax(0, sum / (double)rows) : 0;
}

static bool all_finite(const float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return false;
	return true;
}

double loss_of(const struct tensor *y, const struct tensor *r, enum check_metric metric, float *slope)
{
	int64_t n = tensor_count(r);

	if (!n || !all_finite(y->data, n) || !all_finite(r->data, n)) {
		if (slope)
			memset(slope, 0, (size_t)n * sizeof(*slope));
		return n ? INFINITY : 0;
	}
	switch (metric) {
	case METRIC_COSINE: return cosine(y->data, r->data, n, slope);
	case METRIC_L2: return square(y->data, r->data, n, slope);
	case METRIC_KL: return divergence(y, r, slope);
	default: return maxabs(y->data, r->data, n, slope);
	}
}

/* ---- probes of the second derivative ------------------------------------------------------------- */

/* 1 or -1, by a generator of Marsaglia, "Xorshift RNGs" (2003). */
static float random_sign(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed >> 63 ? 1 : -1;
}

static double norm_of(const float *v, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += (double)v[i] * (double)v[i];
	return sqrt(sum);
}

/* Near r, 1 - cos is half the square of what y has at right angles to r, by |y| |r|. */
static void probe_cosine(const float *y, const float *r, int64_t n, float *to)
{
	double yy = norm_of(y, n), norm = yy * norm_of(r, n), along = 0;

	for (int64_t i = 0; i < n; i++)
		along += (double)to[i] * (double)y[i];
	for (int64_t i = 0; i < n; i++)
		to[i] = norm > 0 ? (float)(((double)to[i] - along * (double)y[i] / (yy * yy)) /
					   sqrt(norm))
				 : 0;
}

/* By the logits: diag(q) - q q'; by probabilities: diag(p / q^2). */
static void probe_row(const float *y, const float *r, int64_t n, bool probabilities, int64_t rows,
		      float *to)
{
	double all = probabilities ? 0 : log_sum(y, n), along = 0;

	for (int64_t i = 0; i < n && !probabilities; i++)
		along += sqrt(exp((double)y[i] - all)) * (double)to[i];
	for (int64_t i = 0; i < n; i++) {
		double q = probabilities ? fmax((double)y[i], MIN_PROBABILITY)
					 : exp((double)y[i] - all);
		double v = probabilities ? sqrt((double)r[i]) / q * (double)to[i]
					 : sqrt(q) * (double)to[i] - q * along;
		to[i] = (float)(v / sqrt((double)rows));
	}
}

static void probe_divergence(const struct tensor *y, const struct tensor *r, float *to)
{
	int64_t count = tensor_count(r), n = r->shape.rank > 0 ? r->shape.dim[r->shape.rank - 1] : 1;
	int64_t rows = n > 0 ? count / n : 0;
	const float *a = y->data, *b = r->data;
	bool probabilities = n > 1 ? are_distributions(b, rows, n) : are_shares(b, count);

	for (int64_t i = 0; i < rows; i++) {
		double q = probabilities ? (double)a[i] : 1 / (1 + exp(-(double)a[i]));
		q = fmin(fmax(q, MIN_PROBABILITY), 1 - MIN_PROBABILITY);
		if (n > 1)
			probe_row(a + i * n, b + i * n, n, probabilities, rows, to + i * n);
		else
			to[i] *= (float)(sqrt(probabilities ? 1 / (q * (1 - q)) : q * (1 - q)) /
					 sqrt((double)rows));
	}
}

bool loss_probe(const struct tensor *y, const struct tensor *r, enum check_metric metric,
		uint64_t *seed, float *to)
{
	int64_t n = tensor_count(r);

	if (metric == METRIC_MAXABS || !n || !all_finite(y->data, n) || !all_finite(r->data, n))
		return false;
	for (int64_t i = 0; i < n; i++)
		to[i] = random_sign(seed);
	double rr = norm_of(r->data, n);
	if (metric == METRIC_COSINE)
		probe_cosine(y->data, r->data, n, to);
	else if (metric == METRIC_KL)
		probe_divergence(y, r, to);
	for (int64_t i = 0; i < n && metric == METRIC_L2; i++)
		to[i] *= (float)(sqrt(2) / (rr > 0 ? rr : 1));
	return true;
}
