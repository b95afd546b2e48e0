/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sort.h"

#include "base/pool.h"
#include "cpu/math/move.h"

/* ---- keys: unsigned numbers that compare like the elements -------------------------------------------- */

/* NaN has the greatest key, and -0 the key of 0. */
static uint64_t key_f64(double v)
{
	uint64_t u;

	if (v != v)
		return UINT64_MAX;
	v += 0.0;
	memcpy(&u, &v, sizeof(u));
	return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}

static uint32_t key_f32(float v)
{
	uint32_t u;

	if (v != v)
		return UINT32_MAX;
	v += 0.0f;
	memcpy(&u, &v, sizeof(u));
	return u >> 31 ? ~u : u | UINT32_C(1) << 31;
}

static uint64_t key_of(enum dtype t, const void *data, int64_t i)
{
	if (t == DT_F32)
		return key_f32(((const float *)data)[i]);
	if (dtype_class(t) == DT_FLOAT)
		return key_f64(elem_f64(t, data, i));
	uint64_t v = (uint64_t)elem_i64(t, data, i);
	return dtype_class(t) == DT_INT ? v ^ UINT64_C(1) << 63 : v;
}

struct item {
	uint64_t key;
	int64_t index;
};

/* Whether a comes before b: larger keys come first, equal keys in the order of their indices. */
static inline bool before(struct item a, struct item b)
{
	return a.key > b.key || (a.key == b.key && a.index < b.index);
}

/*
 * Moves v[i] down the heap v of n items until v is a valid heap again. The top of the heap is the
 * item that comes last in the sort order.
 */
static void sift_down(struct item *v, int64_t n, int64_t i)
{
	struct item x = v[i];

	for (int64_t k = 2 * i + 1; k < n; k = 2 * i + 1) {
		if (k + 1 < n && before(v[k], v[k + 1]))
			k++; /* the child that comes later in the sort order moves up */
		if (!before(x, v[k]))
			break;
		v[i] = v[k];
		i = k;
	}
	v[i] = x;
}

static void heap_make(struct item *v, int64_t n)
{
	for (int64_t i = n / 2 - 1; i >= 0; i--)
		sift_down(v, n, i);
}

/* Turns a heap, whose top is the item that comes last in the sort order, into a sorted list. */
static void heap_sort(struct item *v, int64_t n)
{
	while (n-- > 1) {
		struct item x = v[0];
		v[0] = v[n];
		v[n] = x;
		sift_down(v, n, 0);
	}
}

/* The median of three items. */
static struct item median(struct item a, struct item b, struct item c)
{
	if (before(b, a)) {
		struct item t = a;
		a = b;
		b = t;
	}
	return before(c, a) ? a : before(c, b) ? c : b;
}

/*
 * Partitions v until its first k items are the k items that come first in the sort order. With
 * `all`, also sorts these items. Heap sort takes over if pivots are so bad that many partitions are
 * not enough.
 */
static void sort_items(struct item *v, int64_t n, int64_t k, bool all)
{
	int depth = 2 * (64 - __builtin_clzll((unsigned long long)n | 1));

	while (n > 24) {
		if (!depth--) {
			heap_make(v, n);
			heap_sort(v, n);
			return;
		}
		struct item pivot = median(v[0], v[n / 2], v[n - 1]);
		int64_t i = 0, j = n - 1;
		for (;; i++, j--) {
			while (before(v[i], pivot))
				i++;
			while (before(pivot, v[j]))
				j--;
			if (i >= j)
				break;
			struct item t = v[i];
			v[i] = v[j];
			v[j] = t;
		}
		/*
		 * Now no item in [0, i) comes after the pivot, and no item in [i, n) comes before
		 * the pivot.
		 */
		if (all && i < k) {
			sort_items(v, i, i, true);
			v += i;
			n -= i;
			k -= i;
		} else if (k <= i) {
			n = i;
		} else {
			v += i;
			n -= i;
			k -= i;
		}
		if (k <= 0)
			return;
	}
	for (int64_t i = 1; i < n; i++) {
		struct item x = v[i];
		int64_t j = i;
		for (; j > 0 && before(x, v[j - 1]); j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

/* ---- TopK ----------------------------------------------------------------------------------------------- */

struct topk {
	int64_t n, k, inner, lanes;
	bool largest, sorted;
	int64_t room; /* items that a thread sorts */
	int64_t each; /* items from one thread's scratch to the next: two cache lines more, as lines are fetched in pairs */
	int64_t parts; /* number of parts of each lane if lanes are few and long, otherwise 0 */
};

static int topk_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct topk_params *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape;
	const struct vinfo *o = site_out(s, 0) ? site_out(s, 0) : site_out(s, 1);
	int axis = axis_of(p->axis, x->rank);
	struct topk *t = arena_new(s->plan_arena, struct topk);
	size_t bytes;

	t->n = x->dim[axis];
	t->k = o ? o->shape.dim[axis] : 0;
	t->inner = shape_span(x, axis + 1, x->rank);
	t->lanes = shape_span(x, 0, axis) * t->inner;
	t->largest = p->largest != 0;
	t->sorted = p->sorted != 0;
	/* a small k needs only a heap of k items; otherwise all n items are sorted */
	t->room = t->k <= t->n / 8 ? t->k : t->n;
	if (t->lanes < pool_threads() && t->room == t->k && t->k < t->n &&
	    t->n / pool_threads() > 8 * (t->k + 1024))
		t->parts = pool_threads();
	t->each = t->room + 8;
	if (!size_mul((size_t)t->each, (size_t)pool_threads() * sizeof(struct item), &bytes))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = t;
	st->workspace = bytes;
	return 0;
}

struct topk_job {
	const struct topk *t;
	const struct tensor *x;
	char *values;
	int64_t *indices;
	struct item *scratch;
	size_t size;
	int64_t lane; /* the lane that the threads process in parts */
};

/*
 * Returns the item (key and index) of element i of a lane. If `largest` is false, the key is
 * inverted, so that smaller elements come first.
 */
static inline struct item lane_item(const struct topk_job *j, int64_t base, int64_t i)
{
	enum dtype t = tensor_dtype(j->x);
	int64_t at = base + i * j->t->inner;
	uint64_t key = t == DT_F32 ? key_f32(((const float *)j->x->data)[at])
		       : t == DT_I64
			       ? (uint64_t)((const int64_t *)j->x->data)[at] ^ (UINT64_C(1) << 63)
			       : key_of(t, j->x->data, at);

	return (struct item){j->t->largest ? key : ~key, i};
}

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

/*
 * Returns whether any of 16 floats may come before `top`, the value of the last of the k items in
 * the heap. The result is true if a float is NaN, because NaNs can be compared only by their keys.
 */
static inline bool may_enter(const float *x, float top, bool largest)
{
	v4f a[4], t = {top, top, top, top};
	v4i m = {0};
	uint64_t w[2];

	memcpy(a, x, sizeof(a));
	for (int k = 0; k < 4; k++)
		m |= largest ? ~(a[k] <= t) : ~(a[k] >= t);
	memcpy(w, &m, sizeof(w));
	return w[0] | w[1];
}

/*
 * Defines skip_T, which returns the index of the first of elements i..to-1 that comes before `top`,
 * or `to` if there is none.
 */
#define DEFINE_SKIP(T)                                                                             \
	static int64_t skip_##T(const T *x, int64_t i, int64_t to, T top, bool largest)            \
	{                                                                                          \
		if (largest)                                                                       \
			while (i < to && x[i] <= top)                                              \
				i++;                                                               \
		else                                                                               \
			while (i < to && x[i] >= top)                                              \
				i++;                                                               \
		return i;                                                                          \
	}
DEFINE_SKIP(int32_t)
DEFINE_SKIP(int64_t)

/*
 * Skips elements that cannot enter the heap. Returns an index from i on such that no skipped
 * element comes before element `last`, the last item of the heap. For most types, no element is
 * skipped.
 */
static int64_t next_entry(const struct topk_job *j, int64_t base, int64_t i, int64_t to, int64_t last)
{
	const struct topk *t = j->t;
	const char *x = j->x->data;

	if (t->inner != 1)
		return i;
	if (tensor_dtype(j->x) == DT_I64) {
		const int64_t *v = (const int64_t *)(const void *)x + base;
		return skip_int64_t(v, i, to, v[last], t->largest);
	}
	if (tensor_dtype(j->x) == DT_I32) {
		const int32_t *v = (const int32_t *)(const void *)x + base;
		return skip_int32_t(v, i, to, v[last], t->largest);
	}
	if (tensor_dtype(j->x) != DT_F32)
		return i;
	const float *v = (const float *)(const void *)x + base;
	while (to - i >= 16 && !may_enter(v + i, v[last], t->largest))
		i += 16;
	return i;
}

/*
 * Compares elements from..to-1 of the lane with the k items in the heap v and keeps in v the k
 * items of both that come first.
 */
static void heap_scan(const struct topk_job *j, int64_t base, struct item *v, int64_t from, int64_t to)
{
	const struct topk *t = j->t;
	/* number of elements that next_entry tests together */
	int64_t block = tensor_dtype(j->x) == DT_F32 ? 16 : 1;
	struct item last = v[0];

	for (int64_t i = from; i < to;) {
		i = next_entry(j, base, i, to, last.index);
		for (int64_t stop = i + block < to ? i + block : to; i < stop; i++) {
			struct item e = lane_item(j, base, i);
			/* an element with the same key has a higher index, so it comes later */
			if (e.key <= last.key)
				continue;
			v[0] = e;
			sift_down(v, t->k, 0);
			last = v[0];
		}
	}
}

/*
 * Puts the first k of elements from..to-1 of the lane, in order, into v. There are at least k elements;
 * v has t->room items.
 */
static void select_lane(const struct topk_job *j, int64_t base, struct item *v, int64_t from,
			int64_t to)
{
	const struct topk *t = j->t;
	int64_t filled = t->room < t->n ? t->k : to - from;

	for (int64_t i = 0; i < filled; i++)
		v[i] = lane_item(j, base, from + i);
	if (filled == to - from) {
		sort_items(v, filled, t->k, true);
		return;
	}
	if (!t->k)
		return;
	heap_make(v, t->k);
	heap_scan(j, base, v, from + filled, to);
	heap_sort(v, t->k);
}

static void topk_store(const struct topk_job *j, int64_t lane, const struct item *v)
{
	const struct topk *t = j->t;
	int64_t o = lane / t->inner, r = lane % t->inner;
	int64_t from = o * t->n * t->inner + r, to = o * t->k * t->inner + r;

	for (int64_t i = 0; i < t->k; i++, to += t->inner) {
		int64_t at = from + v[i].index * t->inner;
		if (j->values)
			copy_run(j->values + (size_t)to * j->size,
				 (const char *)j->x->data + (size_t)at * j->size, j->size);
		if (j->indices)
			j->indices[to] = v[i].index;
	}
}

static int64_t lane_base(const struct topk *t, int64_t lane)
{
	return lane / t->inner * t->n * t->inner + lane % t->inner;
}

static void topk_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct topk_job *j = arg;
	const struct topk *t = j->t;
	struct item *v = j->scratch + thread * t->each;

	for (int64_t l = begin; l < end; l++) {
		select_lane(j, lane_base(t, l), v, 0, t->n);
		topk_store(j, l, v);
	}
}

/* Selects the first k elements of each of parts begin..end-1 of one long lane. */
static void topk_parts_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct topk_job *j = arg;
	const struct topk *t = j->t;

	(void)thread;
	for (int64_t p = begin; p < end; p++)
		select_lane(j, lane_base(t, j->lane), j->scratch + p * t->k, t->n * p / t->parts,
			    t->n * (p + 1) / t->parts);
}

static int topk_run(const struct call *c)
{
	const struct topk *t = c->step->state;
	const struct tensor *y = c->out[0], *i = c->step->nout > 1 ? c->out[1] : NULL;
	struct topk_job j = {.t = t,
			     .x = c->in[0],
			     .values = y ? y->data : NULL,
			     .indices = i ? i->data : NULL,
			     .scratch = c->workspace,
			     .size = dtype_bits(tensor_dtype(c->in[0])) / 8};

	if (!t->lanes || !t->k)
		return 0;
	if (!t->parts) {
		pool_for(t->lanes, move_grain(16 * t->n), topk_piece, &j);
		return 0;
	}
	for (j.lane = 0; j.lane < t->lanes; j.lane++) {
		pool_for(t->parts, 1, topk_parts_piece, &j);
		sort_items(j.scratch, t->parts * t->k, t->k, true);
		topk_store(&j, j.lane, j.scratch);
	}
	return 0;
}

/* ---- Unique --------------------------------------------------------------------------------------------- */

/* The n slices along the axis of Unique. Without an axis each element is a slice. */
struct slices {
	enum dtype type;
	const void *data; /* strings: struct text */
	int64_t n, outer, inner;
};

static int compare_text(const struct text *a, const struct text *b)
{
	size_t n = a->n < b->n ? a->n : b->n;
	int r = n ? memcmp(a->s, b->s, n) : 0;

	return r ? r : (a->n > b->n) - (a->n < b->n);
}

static int compare_keys(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_elements(const struct slices *s, int64_t a, int64_t b)
{
	int r;

	if (s->type == DT_STRING)
		return compare_text((const struct text *)s->data + a,
				    (const struct text *)s->data + b);
	if (s->type == DT_C64) {
		const float *v = s->data;
		r = compare_keys(key_f32(v[2 * a]), key_f32(v[2 * b]));
		return r ? r : compare_keys(key_f32(v[2 * a + 1]), key_f32(v[2 * b + 1]));
	}
	if (s->type == DT_C128) {
		const double *v = s->data;
		r = compare_keys(key_f64(v[2 * a]), key_f64(v[2 * b]));
		return r ? r : compare_keys(key_f64(v[2 * a + 1]), key_f64(v[2 * b + 1]));
	}
	return compare_keys(key_of(s->type, s->data, a), key_of(s->type, s->data, b));
}

static int compare_slices(const struct slices *s, int64_t a, int64_t b)
{
	for (int64_t o = 0; o < s->outer; o++) {
		for (int64_t i = 0; i < s->inner; i++) {
			int64_t base = o * s->n * s->inner + i;
			int r = compare_elements(s, base + a * s->inner, base + b * s->inner);
			if (r)
				return r;
		}
	}
	return 0;
}

/* Sorts n slice indices v with a stable merge sort. */
static void sort_slices(const struct slices *s, int64_t *v, int64_t *tmp, int64_t n)
{
	for (int64_t width = 1; width < n; width *= 2) {
		for (int64_t low = 0; low < n; low += 2 * width) {
			int64_t mid = low + width < n ? low + width : n;
			int64_t high = low + 2 * width < n ? low + 2 * width : n;
			int64_t a = low, b = mid;
			for (int64_t k = low; k < high; k++)
				tmp[k] = a < mid && (b >= high || compare_slices(s, v[a], v[b]) <= 0)
						 ? v[a++]
						 : v[b++];
		}
		memcpy(v, tmp, (size_t)n * sizeof(*v));
	}
}

struct groups {
	int64_t n, count;
	int64_t *order;	  /* slice indices in sorted order; equal slices by index */
	int64_t *scratch; /* room for 2n numbers */
	int64_t *first;	  /* per group: index of its first slice */
	int64_t *total;	  /* per group: number of its slices */
	int64_t *inverse; /* per slice: its group */
};

/*
 * Sorts v by key, larger keys first like sort_items(), with a stable radix sort of one pass per byte;
 * bytes that are equal in all keys need no pass. tmp has room for n items.
 */
static void radix_sort(struct item *v, struct item *tmp, int64_t n)
{
	int64_t count[8][256] = {{0}};
	struct item *from = v, *to = tmp;

	for (int64_t i = 0; i < n; i++)
		for (int b = 0; b < 8; b++)
			count[b][(uint8_t)(~v[i].key >> 8 * b)]++;
	for (int b = 0; b < 8; b++) {
		int64_t at = 0;
		if (count[b][(uint8_t)(~from[0].key >> 8 * b)] == n)
			continue;
		for (int k = 0; k < 256; k++) {
			int64_t c = count[b][k];
			count[b][k] = at;
			at += c;
		}
		for (int64_t i = 0; i < n; i++)
			to[count[b][(uint8_t)(~from[i].key >> 8 * b)]++] = from[i];
		struct item *t = from;
		from = to;
		to = t;
	}
	if (from != v)
		memcpy(v, from, (size_t)n * sizeof(*v));
}

static void sort_numbers(const struct slices *s, struct groups *g)
{
	struct item *v = (struct item *)(void *)g->scratch;

	/* inverted keys, because sort_items() puts larger keys first */
	for (int64_t i = 0; i < s->n; i++)
		v[i] = (struct item){~key_of(s->type, s->data, i), i};
	if (s->n > 1024)
		/* order and first are adjacent and still unused: together they hold n items */
		radix_sort(v, (struct item *)(void *)g->order, s->n);
	else
		sort_items(v, s->n, s->n, true);
	g->count = 0;
	for (int64_t i = 0; i < s->n; i++) {
		if (!i || v[i].key != v[i - 1].key) {
			g->first[g->count] = v[i].index;
			g->total[g->count++] = 0;
		}
		g->total[g->count - 1]++;
		g->inverse[v[i].index] = g->count - 1;
	}
}

static void group_slices(const struct slices *s, struct groups *g)
{
	bool numbers = s->type != DT_STRING && dtype_class(s->type) != DT_COMPLEX;

	if (numbers && s->outer * s->inner == 1) {
		sort_numbers(s, g);
		return;
	}
	for (int64_t i = 0; i < s->n; i++)
		g->order[i] = i;
	sort_slices(s, g->order, g->scratch, s->n);
	g->count = 0;
	for (int64_t i = 0; i < s->n; i++) {
		if (!i || compare_slices(s, g->order[i - 1], g->order[i])) {
			g->first[g->count] = g->order[i];
			g->total[g->count++] = 0;
		}
		g->total[g->count - 1]++;
		g->inverse[g->order[i]] = g->count - 1;
	}
}

/* Renumbers the groups in the order of their first slices, as Unique does when `sorted` is 0. */
static void sort_groups_by_first(struct groups *g)
{
	int64_t *rank = g->order, *by_rank = g->scratch, *old = g->scratch + g->n, next = 0;

	for (int64_t i = 0; i < g->count; i++)
		rank[i] = -1;
	for (int64_t i = 0; i < g->n; i++) {
		int64_t k = g->inverse[i];
		if (rank[k] < 0) {
			by_rank[next] = k;
			rank[k] = next++;
		}
		g->inverse[i] = rank[k];
	}
	memcpy(old, g->total, (size_t)g->count * sizeof(*old));
	for (int64_t i = 0; i < g->count; i++)
		g->total[i] = old[by_rank[i]];
	memcpy(old, g->first, (size_t)g->count * sizeof(*old));
	for (int64_t i = 0; i < g->count; i++)
		g->first[i] = old[by_rank[i]];
}

static int store_list(const struct call *c, uint32_t i, const int64_t *v, int64_t n)
{
	struct shape s = {.rank = 1, .dim = {n}};

	if (i >= c->step->nout || !c->out[i])
		return 0;
	int err = call_alloc(c, i, DT_I64, &s);
	if (!err && n)
		memcpy(c->out[i]->data, v, (size_t)n * sizeof(*v));
	return err;
}

static int store_unique(struct mover *m, const struct slices *s, const struct groups *g, int axis)
{
	const struct call *c = m->call;
	const struct unique_params *p = call_params(c);
	struct shape y = p->axis == INT_ABSENT ? (struct shape){.rank = 1} : c->in[0]->shape;
	size_t run = (size_t)s->inner * m->size;

	y.dim[axis] = g->count;
	char *to = c->out[0] ? move_out(m, 0, &y) : NULL;
	if (c->out[0] && !to)
		return shape_count(&y) ? -E_RUN : 0;
	for (int64_t o = 0; to && o < s->outer; o++)
		for (int64_t k = 0; k < g->count; k++, to += run)
			copy_run(to, (const char *)s->data + (size_t)(o * s->n + g->first[k]) * run,
				 run);
	int err = store_list(c, 1, g->first, g->count);
	if (!err)
		err = store_list(c, 2, g->inverse, g->n);
	return err ? err : store_list(c, 3, g->total, g->count);
}

static int unique_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct unique_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	bool flat = p->axis == INT_ABSENT;
	int axis = flat ? 0 : axis_of(p->axis, x->rank);
	struct slices s = {.type = tensor_dtype(c->in[0]),
			   .data = move_in(m, 0),
			   .n = flat ? shape_count(x) : x->dim[axis],
			   .outer = flat ? 1 : shape_span(x, 0, axis),
			   .inner = flat ? 1 : shape_span(x, axis + 1, x->rank)};
	struct groups g = {.n = s.n};
	int64_t *all = mem_alloc((size_t)(s.n + 1) * 6 * sizeof(*all), MEM_WORKSPACE);

	if (!all)
		return call_fail(c, E_MEMORY, NULL, NULL);
	g.scratch = all; /* at the start of `all`, because struct item needs that alignment */
	g.order = all + 2 * s.n;
	g.first = all + 3 * s.n;
	g.total = all + 4 * s.n;
	g.inverse = all + 5 * s.n;
	group_slices(&s, &g);
	if (!p->sorted)
		sort_groups_by_first(&g);
	int err = store_unique(m, &s, &g, axis);
	mem_free(all);
	return err;
}

static int unique_run(const struct call *c)
{
	return move_run(c, 0, unique_core);
}

/* ---- NonZero -------------------------------------------------------------------------------------------- */

static bool element_zero(enum dtype t, const struct tensor *x, int64_t i)
{
	size_t n;

	if (t == DT_STRING) {
		tensor_string(x, i, &n);
		return !n;
	}
	if (t == DT_C64)
		return !(((const float *)x->data)[2 * i] != 0 ||
			 ((const float *)x->data)[2 * i + 1] != 0);
	if (t == DT_C128)
		return !(((const double *)x->data)[2 * i] != 0 ||
			 ((const double *)x->data)[2 * i + 1] != 0);
	if (dtype_class(t) == DT_FLOAT)
		return elem_f64(t, x->data, i) == 0;
	return !elem_i64(t, x->data, i);
}

/* Sets mark[i] to whether element i is not zero. */
#define MARK_NON_ZERO(type)                                                                        \
	for (int64_t i = 0; i < n; i++)                                                            \
	mark[i] = ((const type *)x->data)[i] != 0

/* Sets mark[i] to whether element i is not zero, and returns the number of these elements. */
static int64_t mark_non_zero(const struct tensor *x, uint8_t *mark)
{
	enum dtype t = tensor_dtype(x);
	int64_t n = tensor_count(x), count = 0;

	if (t == DT_F32)
		MARK_NON_ZERO(float);
	else if (t == DT_BOOL || t == DT_U8 || t == DT_I8)
		MARK_NON_ZERO(uint8_t);
	else if (t == DT_I64 || t == DT_U64)
		MARK_NON_ZERO(int64_t);
	else if (t == DT_I32 || t == DT_U32)
		MARK_NON_ZERO(int32_t);
	else
		for (int64_t i = 0; i < n; i++)
			mark[i] = !element_zero(t, x, i);
	for (int64_t i = 0; i < n; i++)
		count += mark[i];
	return count;
}

/* Writes the indices of the marked elements; `at` counts through all dimensions but the last. */
static void store_non_zero_indices(const struct shape *s, const uint8_t *mark, int64_t count,
				   int64_t *y)
{
	int64_t at[MAX_RANK] = {0}, last = s->dim[s->rank - 1],
		rows = shape_span(s, 0, s->rank - 1), k = 0;

	for (int64_t r = 0; r < rows; r++, mark += last) {
		for (int64_t i = 0; i < last; i++) {
			if (!mark[i])
				continue;
			for (int d = 0; d < s->rank - 1; d++)
				y[d * count + k] = at[d];
			y[(s->rank - 1) * count + k++] = i;
		}
		for (int d = s->rank - 2; d >= 0 && ++at[d] == s->dim[d]; d--)
			at[d] = 0;
	}
}

static int non_zero_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x);
	uint8_t *mark = mem_alloc((size_t)n + 1, MEM_WORKSPACE);
	struct shape s = {.rank = 2, .dim = {x->shape.rank}};

	if (!mark)
		return call_fail(c, E_MEMORY, NULL, NULL);
	s.dim[1] = mark_non_zero(x, mark);
	int err = call_alloc(c, 0, DT_I64, &s);
	if (!err && s.dim[1] && x->shape.rank)
		store_non_zero_indices(&x->shape, mark, s.dim[1], c->out[0]->data);
	mem_free(mark);
	return err;
}

const struct kernel cpu_sort[] = {
	{.op = "TopK", .flags = K_REFERENCE, .reshape = topk_reshape, .run = topk_run},
	{.op = "Unique", .flags = K_REFERENCE, .run = unique_run},
	{.op = "NonZero", .flags = K_REFERENCE, .run = non_zero_run},
	{0}};
