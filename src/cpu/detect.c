/* SPDX-License-Identifier: Apache-2.0 */
/* NonMaxSuppression. */
#include "ops/detect.h"

#include "base/pool.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <string.h>

/*
 * Arguments of NonMaxSuppression. Each class of each batch is handled separately: a heap returns
 * the boxes of the class in order of falling score.
 */
struct nms_job {
	const float *boxes, *scores;
	/* n is the number of boxes, most the limit of picked boxes per class */
	int64_t classes, n, most;
	float iou, score;
	bool center, filter;
	int32_t *picked; /* [batches * classes, most] */
	int64_t *count;	 /* number of picked boxes of each batch and class */
	int32_t *heaps;	 /* [threads, n] */
	float *corners;	 /* [batches, n, 5]: y0, x0, y1, x1, area */
};

/* Whether box a ranks before box b: it has a greater score, or the same score and a lower index. */
static bool ranks_before(const float *s, int32_t a, int32_t b)
{
	return s[a] > s[b] || (s[a] == s[b] && a < b);
}

static void sift_down(const float *s, int32_t *heap, int64_t i, int64_t n)
{
	for (int64_t k; (k = 2 * i + 1) < n; i = k) {
		int32_t t = heap[i];
		if (k + 1 < n && ranks_before(s, heap[k + 1], heap[k]))
			k++;
		if (!ranks_before(s, heap[k], t))
			return;
		heap[i] = heap[k];
		heap[k] = t;
	}
}

static bool overlaps(const float *a, const float *b, float iou)
{
	float y0 = a[0] > b[0] ? a[0] : b[0], x0 = a[1] > b[1] ? a[1] : b[1];
	float y1 = a[2] < b[2] ? a[2] : b[2], x1 = a[3] < b[3] ? a[3] : b[3];

	if (!(y1 > y0) || !(x1 > x0))
		return false;
	float inner = (x1 - x0) * (y1 - y0), all = a[4] + b[4] - inner;
	if (inner <= 0 || a[4] <= 0 || b[4] <= 0 || all <= 0)
		return false;
	return inner / all > iou;
}

static void nms_class(const struct nms_job *j, int64_t i, int32_t *heap)
{
	const float *s = j->scores + i * j->n, *c = j->corners + i / j->classes * j->n * 5;
	int32_t *picked = j->picked + i * j->most;
	int64_t left = 0, got = 0;

	for (int64_t k = 0; k < j->n; k++)
		if (!j->filter || s[k] > j->score)
			heap[left++] = (int32_t)k;
	for (int64_t k = left / 2 - 1; k >= 0; k--)
		sift_down(s, heap, k, left);
	while (left > 0 && got < j->most) {
		int32_t top = heap[0];
		bool keep = true;
		heap[0] = heap[--left];
		sift_down(s, heap, 0, left);
		for (int64_t k = 0; keep && k < got; k++)
			keep = !overlaps(c + (int64_t)top * 5, c + (int64_t)picked[k] * 5, j->iou);
		if (keep)
			picked[got++] = top;
	}
	j->count[i] = got;
}

static void nms_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nms_job *j = arg;

	for (int64_t i = begin; i < end; i++)
		nms_class(j, i, j->heaps + (int64_t)thread * j->n);
}

static void set_corners(const struct nms_job *j, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		const float *b = j->boxes + i * 4;
		float *c = j->corners + i * 5;
		if (j->center) { /* x, y, width, height */
			c[0] = b[1] - b[3] / 2;
			c[1] = b[0] - b[2] / 2;
			c[2] = b[1] + b[3] / 2;
			c[3] = b[0] + b[2] / 2;
		} else {
			c[0] = b[0] < b[2] ? b[0] : b[2];
			c[1] = b[1] < b[3] ? b[1] : b[3];
			c[2] = b[0] < b[2] ? b[2] : b[0];
			c[3] = b[1] < b[3] ? b[3] : b[1];
		}
		c[4] = (c[3] - c[1]) * (c[2] - c[0]);
	}
}

static int64_t max_picked_boxes(const struct tensor *max, int64_t n)
{
	int64_t most = max && tensor_count(max) ? *(const int64_t *)max->data : 0;

	return most < 0 ? 0 : most < n ? most : n;
}

static int nms_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct shape *b = &site_in(site, NMS_BOXES)->shape,
			   *s = &site_in(site, NMS_SCORES)->shape;
	const struct tensor *max = site_known(site, NMS_MAX);
	size_t n = (size_t)b->dim[1], each = (size_t)(s->dim[0] * s->dim[1]);
	size_t most = max ? (size_t)max_picked_boxes(max, b->dim[1]) : n;

	if (n > INT32_MAX)
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = "NonMaxSuppression");
	step->workspace = scratch_size(each * most * sizeof(int32_t)) +
			  scratch_size(each * sizeof(int64_t)) +
			  scratch_size((size_t)pool_threads() * n * sizeof(int32_t)) +
			  scratch_size((size_t)b->dim[0] * n * 5 * sizeof(float));
	return 0;
}

static float scalar_input_or(const struct call *c, uint32_t i, float absent)
{
	const struct tensor *t = optional_in(c, i);

	return t && tensor_count(t) ? *(const float *)t->data : absent;
}

static int nms_run(const struct call *c)
{
	const struct nms *p = call_params(c);
	const struct shape *b = &c->in[NMS_BOXES]->shape, *ss = &c->in[NMS_SCORES]->shape;
	const struct tensor *score = optional_in(c, NMS_SCORE);
	struct scratch s = scratch_of(c);
	int64_t each = ss->dim[0] * ss->dim[1], total = 0;
	struct nms_job j = {.boxes = c->in[NMS_BOXES]->data,
			    .scores = c->in[NMS_SCORES]->data,
			    .classes = ss->dim[1],
			    .n = b->dim[1],
			    .iou = scalar_input_or(c, NMS_IOU, 0),
			    .score = scalar_input_or(c, NMS_SCORE, 0),
			    .center = p->center_point_box != 0};

	if (!nms_iou_valid(j.iou))
		return call_fail(c, E_VALUE, "an iou_threshold from 0 to 1",
				 fmt(c->diag, "%g", (double)j.iou));
	j.filter = score && tensor_count(score);
	j.most = max_picked_boxes(optional_in(c, NMS_MAX), j.n);
	j.count = scratch_take(&s, (size_t)each * sizeof(int64_t));
	j.heaps = scratch_take(&s, (size_t)pool_threads() * (size_t)j.n * sizeof(int32_t));
	j.corners = scratch_take(&s, (size_t)(b->dim[0] * j.n) * 5 * sizeof(float));
	j.picked = scratch_take(&s, (size_t)(each * j.most) * sizeof(int32_t));
	set_corners(&j, b->dim[0] * j.n);
	pool_for(each, 1, nms_part, &j);
	for (int64_t i = 0; i < each; i++)
		total += j.count[i];
	struct shape y = shape_of(2, (int64_t[]){total, 3});
	int rc = call_alloc(c, 0, DT_I64, &y);
	if (rc)
		return rc;
	int64_t *to = c->out[0]->data;
	for (int64_t i = 0; i < each; i++)
		for (int64_t k = 0; k < j.count[i]; k++) {
			*to++ = i / j.classes;
			*to++ = i % j.classes;
			*to++ = j.picked[i * j.most + k];
		}
	return 0;
}

const struct kernel cpu_detect[] = {
	{"NonMaxSuppression", T_F32, K_REFERENCE, NULL, NULL, nms_reshape, nms_run, NULL, NULL}, {0}};
