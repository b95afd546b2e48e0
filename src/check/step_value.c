/* SPDX-License-Identifier: Apache-2.0 */
#include "check/step_value.h"

#include "base/str.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool step_moves(const struct runtime *rt, const struct step *s)
{
	return s->kernel == rt->backend->reorder || s->kernel == rt->cpu->reorder;
}

enum { MOST_VIEWS = 64 };

uint32_t follow_views(const struct graph *g, uint32_t id, bool any, value_test *stop, const void *arg)
{
	for (int k = 0; k < MOST_VIEWS && !(stop && stop(arg, id)); k++) {
		const struct value *v = g->value[id];
		const struct node *n = v->init ? NULL : value_maker(g, v);
		if (!n || !n->nin || n->in[0] == NO_VALUE ||
		    !(any || (n->op && (n->op->flags & OP_VIEW))))
			break;
		id = n->in[0];
	}
	return id;
}

static int fail_copy(struct diag *d, size_t bytes)
{
	return FAIL(d, E_MEMORY,
		    .message = fmt(d, "no memory for a copy of %zu bytes of a value", bytes));
}

/*
 * Gets the tensor's bytes into host memory without changing their layout. Borrows bytes that are already there unless
 * `keep` is set.
 */
static int fetch_bytes(const struct runtime *rt, const struct call *c, const struct tensor *t,
		       bool keep, struct value_copy *v, struct diag *d)
{
	v->t = *t;
	if (!t->device && !keep)
		return 0;
	v->own = mem_alloc(t->bytes ? t->bytes : 1, MEM_STAGING);
	if (!v->own)
		return fail_copy(d, t->bytes);
	v->t.data = v->own;
	v->t.device = 0;
	if (!t->device) {
		memcpy(v->own, t->data, t->bytes);
		return 0;
	}
	int err = rt->backend->copy(c->stream, v->own, 0, t->data, t->device, t->bytes, d);
	return err ? err : rt->backend->wait(c->stream, d);
}

/* Reorders the copy to row-major, in a new block of memory. */
static int reorder_to_rows(const struct runtime *rt, struct value_copy *v, struct diag *d)
{
	struct tensor row = v->t;
	const struct tensor *in[] = {&v->t};
	struct tensor *out[] = {&row};
	const struct step step = {.nin = 1, .nout = 1};
	const struct call call = {.step = &step, .in = in, .out = out, .diag = d};

	row.layout = LAYOUT_ROW;
	if (!tensor_bytes(tensor_dtype(&row), &row.shape, LAYOUT_ROW, &row.bytes))
		return FAIL(d, E_SIZE, .message = "a value's bytes cannot be counted");
	row.data = mem_alloc(row.bytes ? row.bytes : 1, MEM_STAGING);
	if (!row.data)
		return fail_copy(d, row.bytes);
	int err = rt->cpu->reorder->run(&call);
	mem_free(v->own);
	v->own = row.data;
	v->t = row;
	return err;
}

int value_fetch(const struct runtime *rt, const struct call *c, const struct tensor *t, bool keep,
		struct value_copy *v, struct diag *d)
{
	*v = (struct value_copy){0};
	if (t->type.kind != V_TENSOR || tensor_dtype(t) == DT_STRING) {
		struct tensor *copy = keep ? tensor_copy(&v->arena, t) : NULL;
		v->t = copy ? *copy : *t;
		return 0;
	}
	int err = fetch_bytes(rt, c, t, keep && t->layout == LAYOUT_ROW, v, d);
	if (!err && v->t.layout != LAYOUT_ROW)
		err = reorder_to_rows(rt, v, d);
	if (err)
		value_free(v);
	return err;
}

void value_free(struct value_copy *v)
{
	mem_free(v->own);
	arena_free(&v->arena);
	*v = (struct value_copy){0};
}

/* ---- statistics ----------------------------------------------------------------------------- */

static double smallest_normal(enum dtype t)
{
	return t == DT_F64 ? 0x1p-1022 : t == DT_F16 ? 0x1p-14 : 0x1p-126;
}

static void count_number(struct value_stats *s, double v, double normal)
{
	if (isnan(v)) {
		s->nan++;
		return;
	}
	if (isinf(v)) {
		s->inf++;
		return;
	}
	s->zero += v == 0;
	s->denormal += v != 0 && fabs(v) < normal;
	if (!(s->min <= v))
		s->min = v;
	if (!(s->max >= v))
		s->max = v;
}

struct value_stats value_stats(const struct tensor *t)
{
	struct value_stats s = {.min = NAN, .max = NAN};
	enum dtype type = tensor_dtype(t);
	const uint64_t floats = T_FLOATS_BF | T_F8;

	if (t->type.kind != V_TENSOR || !(T_BIT(type) & (floats | T_INTS | T_BIT(DT_BOOL))) ||
	    (!t->data && t->bytes))
		return s;
	s.number = true;
	s.count = tensor_count(t);
	double normal = T_BIT(type) & T_FLOATS_BF ? smallest_normal(type) : 0;
	if (type == DT_F32)
		for (int64_t i = 0; i < s.count; i++) {
			float f;
			memcpy(&f, (const char *)t->data + 4 * i, 4);
			count_number(&s, (double)f, normal);
		}
	else
		for (int64_t i = 0; i < s.count; i++)
			count_number(&s, elem_f64(type, t->data, i), normal);
	s.constant = s.count > 1 && !s.nan && !s.inf && s.min == s.max;
	return s;
}

const char *value_say(struct diag *d, const struct value_stats *s)
{
	struct str b = {.arena = &d->arena};

	if (!s->number)
		return "has no numbers";
	if (!s->count)
		return "empty";
	if (s->constant)
		str_addf(&b, "%s %.6g", str_all(&d->arena, (uint64_t)s->count, "element"), s->min);
	else if (!isnan(s->min))
		str_addf(&b, "min %.6g, max %.6g", s->min, s->max);
	if (s->nan)
		str_addf(&b, "%s%s NaN", b.n ? ", " : "", str_count(&d->arena, s->nan));
	if (s->inf)
		str_addf(&b, "%s%s Inf", b.n ? ", " : "", str_count(&d->arena, s->inf));
	if (s->nan || s->inf)
		str_addf(&b, " of %s", str_count(&d->arena, s->count));
	return str_get(&b);
}
