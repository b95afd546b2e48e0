/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/broadcast.h"

#include "cpu/math/util.h"

#include <string.h>

enum {
	BUFFER_ELEMS = 512, /* elements of one operand's buffer */
	SHORT_RUN = 128,    /* inner runs shorter than this are gathered into a buffer */
};

/*
 * Returns whether dimensions i and i + 1 can be merged into one, because every operand can walk through both with a
 * single stride.
 */
static bool can_merge(const struct bcast *b, int i)
{
	for (int k = 0; k < b->nin; k++)
		if (b->step[k][i] != b->step[k][i + 1] * b->dim[i + 1])
			return false;
	return true;
}

static void drop_dim(struct bcast *b, int i)
{
	for (int j = i; j + 1 < b->rank; j++) {
		b->dim[j] = b->dim[j + 1];
		for (int k = 0; k < b->nin; k++)
			b->step[k][j] = b->step[k][j + 1];
	}
	b->rank--;
}

static void merge_dims(struct bcast *b)
{
	for (int i = b->rank - 1; i >= 0; i--)
		if (b->dim[i] == 1)
			drop_dim(b, i);
	for (int i = b->rank - 2; i >= 0; i--) {
		if (!can_merge(b, i))
			continue;
		b->dim[i + 1] *= b->dim[i];
		drop_dim(b, i);
	}
	if (!b->rank) {
		b->rank = 1;
		b->dim[0] = 1;
		for (int k = 0; k < b->nin; k++)
			b->step[k][0] = 1;
	}
}

void bcast_make(struct bcast *b, const struct shape *out, const struct shape *const *in, int nin,
		const int64_t *in_size, int64_t out_size)
{
	*b = (struct bcast){.rank = out->rank, .nin = nin, .n = shape_count(out)};
	memcpy(b->dim, out->dim, sizeof(b->dim));
	b->size[BCAST_MAX] = out_size;
	for (int k = 0; k < nin; k++) {
		b->size[k] = in_size[k];
		shape_broadcast_strides(in[k], out, b->step[k]);
		b->whole[k] = shape_count(in[k]) == b->n;
	}
	merge_dims(b);
}

/*
 * Returns the dimensions in memory order, padded with leading 1s to `rank`. In a channels-last layout the channels
 * come last.
 */
static struct shape memory_dims(const struct shape *s, int rank, enum layout layout)
{
	struct shape r = {.rank = rank};

	for (int i = 0; i < rank; i++)
		r.dim[i] = i < rank - s->rank ? 1 : s->dim[i - (rank - s->rank)];
	if (layout == LAYOUT_CHANNELS_LAST && rank > 2) {
		int64_t c = r.dim[1];
		memmove(&r.dim[1], &r.dim[2], (size_t)(rank - 2) * sizeof(r.dim[0]));
		r.dim[rank - 1] = c;
	}
	return r;
}

bool bcast_tensors(struct bcast *b, const struct tensor *out, const struct tensor *const *in, int nin)
{
	struct shape o, s[BCAST_MAX];
	const struct shape *p[BCAST_MAX];
	int64_t size[BCAST_MAX];
	bool blocked = out->layout == LAYOUT_BLOCK8 || out->layout == LAYOUT_BLOCK16;

	o = memory_dims(&out->shape, out->shape.rank, out->layout);
	if (blocked)
		o = (struct shape){.rank = 1, .dim = {physical_count(out)}};
	for (int k = 0; k < nin; k++) {
		bool one = tensor_count(in[k]) == 1;
		if (!one && in[k]->layout != out->layout)
			return false;
		size[k] = elem_size(tensor_dtype(in[k]));
		s[k] = memory_dims(&in[k]->shape, out->shape.rank, in[k]->layout);
		if (blocked && !one) {
			if (!shape_equal(&in[k]->shape, &out->shape))
				return false;
			s[k] = o;
		} else if (one) {
			s[k] = (struct shape){0};
		}
		p[k] = &s[k];
	}
	bcast_make(b, &o, p, nin, size, elem_size(tensor_dtype(out)));
	return true;
}

struct bcast_job {
	const struct bcast *b;
	const void *const *in;
	void *out;
	bcast_loop *loop;
	void *arg;
};

#define FILL(T)                                                                                    \
	do {                                                                                       \
		T v = *(const T *)src, *d = dst;                                                   \
		for (int64_t i = 0; i < n; i++)                                                    \
			d[i] = v;                                                                  \
	} while (0)

struct bytes16 {
	uint64_t a, b;
};

/* Writes n copies of the one element at src to dst. */
static void fill_elements(void *dst, const void *src, int64_t n, int64_t size)
{
	if (size == 4)
		FILL(uint32_t);
	else if (size == 8)
		FILL(uint64_t);
	else if (size == 2)
		FILL(uint16_t);
	else if (size == 1)
		memset(dst, *(const uint8_t *)src, (size_t)n);
	else
		FILL(struct bytes16);
}

static void odometer_start(const struct bcast *b, int64_t at_element, int64_t *pos)
{
	for (int i = b->rank - 1; i >= 0; i--) {
		pos[i] = at_element % b->dim[i];
		at_element /= b->dim[i];
	}
}

static int64_t offset_of(const struct bcast *b, int k, const int64_t *pos)
{
	int64_t off = 0;

	for (int i = 0; i < b->rank; i++)
		off += pos[i] * b->step[k][i];
	return off;
}

static void advance_pos(const struct bcast *b, int64_t *pos, int64_t by)
{
	int i = b->rank - 1;

	pos[i] += by;
	while (i > 0 && pos[i] >= b->dim[i]) {
		pos[i] = 0;
		pos[--i]++;
	}
}

#define GATHER(T)                                                                                  \
	do {                                                                                       \
		const T *s = src;                                                                  \
		T *d = dst;                                                                        \
		for (int64_t j = 0; j < m; j++)                                                    \
			d[j] = s[j * step];                                                        \
	} while (0)

static void gather_run(void *dst, const void *src, int64_t m, int64_t step, int64_t size)
{
	if (step == 1 && m > 8)
		memcpy(dst, src, (size_t)(m * size));
	else if (step == 0)
		fill_elements(dst, src, m, size);
	else if (size == 4)
		GATHER(uint32_t);
	else if (size == 8)
		GATHER(uint64_t);
	else if (size == 2)
		GATHER(uint16_t);
	else if (size == 1)
		GATHER(uint8_t);
	else
		GATHER(struct bytes16);
}

/*
 * Copies to dst the elements of operand k that n consecutive output elements need, in their order. start: the first
 * of these output elements, as one index per dimension.
 */
static void gather(const struct bcast *b, int k, const void *src, const int64_t *start, int64_t n,
		   void *dst)
{
	int64_t pos[MAX_RANK], last = b->rank - 1;

	memcpy(pos, start, sizeof(pos));
	for (int64_t done = 0; done < n;) {
		int64_t m = b->dim[last] - pos[last];
		if (m > n - done)
			m = n - done;
		gather_run(at_mut(dst, done * b->size[k]), at(src, offset_of(b, k, pos) * b->size[k]),
			   m, b->step[k][last], b->size[k]);
		advance_pos(b, pos, m);
		done += m;
	}
}

/*
 * Runs the loop on long inner runs. The loop reads each run directly from the operand; an operand that has stride 0
 * along the run is first repeated into a buffer, once for each run.
 */
static void run_long(const struct bcast_job *j, int64_t begin, int64_t end)
{
	const struct bcast *b = j->b;
	_Alignas(64) char buf[BCAST_MAX][BUFFER_ELEMS * 16];
	int64_t pos[MAX_RANK], last = b->rank - 1;
	const void *in[BCAST_MAX];

	odometer_start(b, begin, pos);
	while (begin < end) {
		int64_t m = b->dim[last] - pos[last];
		if (m > end - begin)
			m = end - begin;
		bool spread = false;
		for (int k = 0; k < b->nin; k++) {
			in[k] = at(j->in[k], offset_of(b, k, pos) * b->size[k]);
			if (b->step[k][last] == 0) {
				fill_elements(buf[k], in[k], m < BUFFER_ELEMS ? m : BUFFER_ELEMS,
					      b->size[k]);
				in[k] = buf[k];
				spread = true;
			}
		}
		for (int64_t i = 0, n; i < m; i += n) {
			n = spread && m - i > BUFFER_ELEMS ? BUFFER_ELEMS : m - i;
			const void *now[BCAST_MAX];
			for (int k = 0; k < b->nin; k++)
				now[k] = in[k] == buf[k] ? in[k] : at(in[k], i * b->size[k]);
			j->loop(j->arg, now, at_mut(j->out, (begin + i) * b->size[BCAST_MAX]), n);
		}
		advance_pos(b, pos, m);
		begin += m;
	}
}

/*
 * Returns whether operand k depends only on the last dimension, so that its elements repeat in the output with a
 * period of that dimension's size.
 */
static bool periodic(const struct bcast *b, int k)
{
	for (int i = 0; i < b->rank - 1; i++)
		if (b->step[k][i])
			return false;
	return b->step[k][b->rank - 1] == 1;
}

/*
 * Runs the loop on short inner runs. Operands with fewer elements than the output are gathered into buffers that span
 * several runs.
 */
static void run_short(const struct bcast_job *j, int64_t begin, int64_t end)
{
	const struct bcast *b = j->b;
	_Alignas(64) char buf[BCAST_MAX][(BUFFER_ELEMS + SHORT_RUN) * 16];
	int64_t pos[MAX_RANK], start[MAX_RANK] = {0}, period = b->dim[b->rank - 1];
	const void *in[BCAST_MAX];

	/* A periodic operand is gathered only once; one extra period lets a block begin anywhere in the period. */
	for (int k = 0; k < b->nin; k++)
		if (periodic(b, k))
			gather(b, k, j->in[k], start,
			       b->n < BUFFER_ELEMS + period ? b->n : BUFFER_ELEMS + period, buf[k]);
	odometer_start(b, begin, pos);
	while (begin < end) {
		int64_t n = end - begin < BUFFER_ELEMS ? end - begin : BUFFER_ELEMS;
		for (int k = 0; k < b->nin; k++) {
			if (periodic(b, k)) {
				in[k] = buf[k] + begin % period * b->size[k];
				if (b->n >= BUFFER_ELEMS + period)
					continue;
			}
			if (b->whole[k]) {
				in[k] = at(j->in[k], begin * b->size[k]);
				continue;
			}
			gather(b, k, j->in[k], pos, n, buf[k]);
			in[k] = buf[k];
		}
		j->loop(j->arg, in, at_mut(j->out, begin * b->size[BCAST_MAX]), n);
		begin += n;
		odometer_start(b, begin, pos);
	}
}

static void bcast_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct bcast_job *j = arg;

	(void)thread;
	if (j->b->dim[j->b->rank - 1] >= SHORT_RUN || j->b->rank == 1)
		run_long(j, begin, end);
	else
		run_short(j, begin, end);
}

void bcast_run(const struct bcast *b, const void *const *in, void *out, int64_t grain,
	       bcast_loop *loop, void *arg)
{
	struct bcast_job j = {b, in, out, loop, arg};

	if (b->n > 0)
		pool_for(b->n, grain, bcast_piece, &j);
}
