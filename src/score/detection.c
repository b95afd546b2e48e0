/* SPDX-License-Identifier: Apache-2.0 */
#include "score/detection.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RECALLS = 101 };

/* The steps of numpy.linspace, by which cocoeval.py makes thresholds and recalls: other roundings would move a match. */
static double threshold(int t)
{
	const double step = (0.95 - 0.5) / (MATCH_THRESHOLDS - 1);

	return t == MATCH_THRESHOLDS - 1 ? 0.95 : 0.5 + t * step;
}

static double recall_at(int r)
{
	return r == RECALLS - 1 ? 1 : r * (1. / (RECALLS - 1));
}

bool box_area_counts(double area)
{
	return area >= 0 && area <= 1e10;
}

/* ---- matching in one picture and category */

/* Intersection over union; for a crowd, over the area of the box that was found. */
static double overlap(const struct found_box *f, const struct true_box *t)
{
	double w = fmin(f->x + f->width, t->x + t->width) - fmax(f->x, t->x);
	double h = fmin(f->y + f->height, t->y + t->height) - fmax(f->y, t->y);

	if (w <= 0 || h <= 0)
		return 0;
	double both = w * h, own = f->width * f->height;
	return both / (t->crowd ? own : own + t->width * t->height - both);
}

struct scene {
	const struct true_box **truth;	/* of one category, ignored ones last */
	const struct found_box **found; /* of that category, best first */
	size_t ntruth, nfound;
	bool *taken;
};

/*
 * Returns the box of the truth that a found one matches at a threshold, or -1: the one of most overlap that is not taken,
 * and an ignored one only if no other is left.
 */
static int64_t match_of(const struct scene *s, const struct found_box *f, double least)
{
	double most = fmin(least, 1 - 1e-10);
	int64_t best = -1;

	for (size_t i = 0; i < s->ntruth; i++) {
		const struct true_box *t = s->truth[i];
		if (s->taken[i] && !t->crowd)
			continue;
		if (best >= 0 && !s->truth[best]->ignored && t->ignored)
			break;
		double shared = overlap(f, t);
		if (shared < most)
			continue;
		most = shared;
		best = (int64_t)i;
	}
	return best;
}

static void match_scene(const struct scene *s, struct match *to)
{
	for (int t = 0; t < MATCH_THRESHOLDS; t++) {
		memset(s->taken, 0, s->ntruth * sizeof(*s->taken));
		for (size_t i = 0; i < s->nfound; i++) {
			int64_t k = match_of(s, s->found[i], threshold(t));
			if (k < 0) {
				double area = s->found[i]->width * s->found[i]->height;
				to[i].ignored |= box_area_counts(area) ? 0 : 1u << t;
				continue;
			}
			s->taken[k] = true;
			to[i].right |= 1u << t;
			to[i].ignored |= s->truth[k]->ignored ? 1u << t : 0;
		}
	}
}

/* ---- the matches of many pictures */

static void count_boxes(struct matches *m, int64_t category, int64_t n, struct arena *a)
{
	size_t at = 0;

	while (at < m->ncounts && m->count[at].category < category)
		at++;
	if (at == m->ncounts || m->count[at].category != category) {
		m->count = arena_append(a, m->count, m->ncounts, sizeof(*m->count));
		memmove(m->count + at + 1, m->count + at, (m->ncounts - at) * sizeof(*m->count));
		m->count[at] = (struct category_count){category, 0};
		m->ncounts++;
	}
	m->count[at].n += n;
}

static struct match *add_match(struct matches *m, const struct match *x, struct arena *a)
{
	if (m->n == m->room) {
		size_t room = m->room ? 2 * m->room : 256;
		m->v = arena_grow(a, m->v, m->n, room, sizeof(*m->v));
		m->room = room;
	}
	m->v[m->n] = *x;
	return &m->v[m->n++];
}

struct ordered {
	const struct found_box *box;
	size_t at;
};

/* By category, then the best first; equal scores stay in the order in which they were found. */
static int by_category(const void *x, const void *y)
{
	const struct ordered *a = x, *b = y;

	if (a->box->category != b->box->category)
		return a->box->category < b->box->category ? -1 : 1;
	if (a->box->score != b->box->score)
		return a->box->score > b->box->score ? -1 : 1;
	return a->at < b->at ? -1 : 1;
}

static void choose_truth(struct scene *s, int64_t category, const struct true_box *truth, size_t n)
{
	s->ntruth = 0;
	for (int ignored = 0; ignored <= 1; ignored++)
		for (size_t i = 0; i < n; i++)
			if (truth[i].category == category && truth[i].ignored == ignored)
				s->truth[s->ntruth++] = &truth[i];
}

void matches_add(struct matches *m, int64_t image, const struct true_box *truth, size_t ntruth,
		 const struct found_box *found, size_t nfound, struct arena *a)
{
	struct arena scratch = {0};
	struct ordered *order = arena_new_n(&scratch, struct ordered, nfound + 1);
	struct scene s = {.truth = arena_new_n(&scratch, const struct true_box *, ntruth + 1),
			  .found = arena_new_n(&scratch, const struct found_box *, MAX_DETECTIONS),
			  .taken = arena_new_n(&scratch, bool, ntruth + 1)};
	size_t n = 0;

	for (size_t i = 0; i < ntruth; i++)
		count_boxes(m, truth[i].category, !truth[i].ignored, a);
	for (size_t i = 0; i < nfound; i++)
		if (isfinite(found[i].score))
			order[n++] = (struct ordered){&found[i], i};
	qsort(order, n, sizeof(*order), by_category);
	for (size_t first = 0, next; first < n; first = next) {
		const int64_t category = order[first].box->category;
		const size_t start = m->n;
		s.nfound = 0;
		for (next = first; next < n && order[next].box->category == category; next++) {
			if (s.nfound == MAX_DETECTIONS)
				continue;
			add_match(m,
				  &(struct match){.category = category,
						  .image = image,
						  .rank = (int64_t)s.nfound,
						  .score = order[next].box->score},
				  a);
			s.found[s.nfound++] = order[next].box;
		}
		choose_truth(&s, category, truth, ntruth);
		match_scene(&s, m->v + start);
	}
	arena_free(&scratch);
}

void matches_merge(struct matches *to, const struct matches *from, struct arena *a)
{
	for (size_t i = 0; i < from->n; i++)
		add_match(to, &from->v[i], a);
	for (size_t i = 0; i < from->ncounts; i++)
		count_boxes(to, from->count[i].category, from->count[i].n, a);
}

/* ---- average precision */

/* By category, then the best first; among equals by picture, so that the order of the runs does not matter. */
static int by_score(const void *x, const void *y)
{
	const struct match *a = x, *b = y;

	if (a->category != b->category)
		return a->category < b->category ? -1 : 1;
	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* The mean of the precision at all recalls, of n matches of one category at one threshold. */
static double average_precision(const struct match *v, size_t n, int t, int64_t boxes,
				double *precision, double *recall)
{
	int64_t right = 0, wrong = 0;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		bool is_right = v[i].right >> t & 1, ignored = v[i].ignored >> t & 1;
		right += is_right && !ignored;
		wrong += !is_right && !ignored;
		recall[i] = (double)right / (double)boxes;
		/* cocoeval.py adds numpy.spacing(1), so that 0 of 0 is 0 */
		precision[i] = (double)right / ((double)(right + wrong) + 0x1p-52);
	}
	for (size_t i = n; i-- > 1;)
		precision[i - 1] = fmax(precision[i - 1], precision[i]);
	size_t at = 0;
	for (int r = 0; r < RECALLS; r++) {
		while (at < n && recall[at] < recall_at(r))
			at++;
		sum += at < n ? precision[at] : 0;
	}
	return sum / RECALLS;
}

double matches_map(const struct matches *m)
{
	struct arena a = {0};
	struct match *v = arena_new_n(&a, struct match, m->n + 1);
	double *precision = arena_new_n(&a, double, m->n + 1),
	       *recall = arena_new_n(&a, double, m->n + 1);
	double sum = 0;
	int64_t categories = 0;
	size_t at = 0;

	if (m->n)
		memcpy(v, m->v, m->n * sizeof(*v));
	qsort(v, m->n, sizeof(*v), by_score);
	for (size_t c = 0; c < m->ncounts; c++) {
		const struct category_count *count = &m->count[c];
		size_t first, end;
		while (at < m->n && v[at].category < count->category)
			at++;
		for (first = end = at; end < m->n && v[end].category == count->category;)
			end++;
		if (count->n <= 0)
			continue;
		for (int t = 0; t < MATCH_THRESHOLDS; t++)
			sum += average_precision(v + first, end - first, t, count->n, precision,
						 recall);
		categories++;
	}
	arena_free(&a);
	return categories ? sum / (double)(categories * MATCH_THRESHOLDS) : NAN;
}

/* ---- as JSON */

void matches_write(const struct matches *m, struct json *j)
{
	json_array(j, "boxes");
	for (size_t i = 0; i < m->ncounts; i++) {
		json_array(j, NULL);
		json_int(j, NULL, m->count[i].category);
		json_int(j, NULL, m->count[i].n);
		json_end(j, ']');
	}
	json_end(j, ']');
	json_array(j, "matches");
	for (size_t i = 0; i < m->n; i++) {
		const struct match *x = &m->v[i];
		json_array(j, NULL);
		json_int(j, NULL, x->category);
		json_int(j, NULL, x->image);
		json_int(j, NULL, x->rank);
		json_number(j, NULL, x->score);
		json_int(j, NULL, x->right);
		json_int(j, NULL, x->ignored);
		json_end(j, ']');
	}
	json_end(j, ']');
}

/* Reads an array of exactly n numbers. */
static bool read_numbers(const struct jvalue *v, double *to, size_t n)
{
	if (v->type != J_ARRAY || v->n != n)
		return false;
	for (const struct jvalue *x = v->first; x; x = x->next) {
		if (x->type != J_NUMBER || !(fabs(x->number) <= 0x1p53))
			return false;
		*to++ = x->number;
	}
	return true;
}

bool matches_read(struct matches *m, const struct jvalue *v, struct arena *a)
{
	const struct jvalue *boxes = jget(v, "boxes"), *found = jget(v, "matches");
	double n[6];

	*m = (struct matches){0};
	if (!boxes || boxes->type != J_ARRAY || !found || found->type != J_ARRAY)
		return false;
	for (const struct jvalue *x = boxes->first; x; x = x->next) {
		if (!read_numbers(x, n, 2) || n[1] < 0)
			return false;
		count_boxes(m, (int64_t)n[0], (int64_t)n[1], a);
	}
	for (const struct jvalue *x = found->first; x; x = x->next) {
		const unsigned all = (1u << MATCH_THRESHOLDS) - 1;
		if (!read_numbers(x, n, 6) || n[4] < 0 || n[4] > all || n[5] < 0 || n[5] > all)
			return false;
		add_match(m,
			  &(struct match){.category = (int64_t)n[0],
					  .image = (int64_t)n[1],
					  .rank = (int64_t)n[2],
					  .score = n[3],
					  .right = (unsigned)n[4],
					  .ignored = (unsigned)n[5]},
			  a);
	}
	return true;
}
