/* SPDX-License-Identifier: Apache-2.0 */
#include "input/random.h"

#include "base/hash.h"
#include "input/mask.h"
#include "input/use.h"
#include "ops/op.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014) */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t random_start(int64_t seed, const char *name)
{
	uint64_t s = (uint64_t)seed ^ hash_text(name);

	return next_random(&s);
}

double random_unit(uint64_t *state)
{
	return (double)(next_random(state) >> 11) * 0x1p-53;
}

static bool is_integer(enum dtype t)
{
	return dtype_class(t) == DT_INT || dtype_class(t) == DT_UINT;
}

/* Returns true if the name contains the word, in upper or lower case. */
static bool name_contains(const char *name, const char *word)
{
	size_t n = strlen(word);

	for (; *name; name++) {
		size_t i = 0;
		while (i < n && tolower((unsigned char)name[i]) == word[i])
			i++;
		if (i == n)
			return true;
	}
	return false;
}

/*
 * Returns the number of rows of the smallest table that a Gather node indexes with the value,
 * directly or after up to `depth` nodes that keep its elements; 0 if there is no such Gather.
 */
static int64_t table_rows(const struct graph *g, const struct value *v, int depth)
{
	int64_t least = 0;

	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = g->node[v->users[k]];
		const char *op = n->dead || !n->type ? "" : n->type;
		int64_t rows = 0;
		if (!strcmp(op, "Gather") && node_in(g, n, 1) == v && node_in(g, n, 0)) {
			const struct shape *s = &node_in(g, n, 0)->info.shape;
			if (node_in(g, n, 0)->init)
				s = &node_in(g, n, 0)->init->shape;
			rows = s->rank > 0 ? s->dim[0] : 0;
		} else if (depth && node_out(g, n, 0) && node_in(g, n, 0) == v && keeps_elements(n)) {
			rows = table_rows(g, node_out(g, n, 0), depth - 1);
		}
		if (rows > 0 && (!least || rows < least))
			least = rows;
	}
	return least;
}

/*
 * Chooses what hides nothing if the input is a mask: one by its type or name or, with `by_use`, any other numbers by what a Softmax makes of
 * them. Returns whether it is one.
 */
static bool choose_mask(struct range *r, const struct graph *g, const struct value *v, bool by_use)
{
	enum dtype t = (enum dtype)v->info.type.dtype;
	bool called_mask = name_contains(v->name, "mask");
	bool called_so = called_mask || name_contains(v->name, "pad") || t == DT_BOOL;
	bool whole = is_integer(t) || t == DT_BOOL;
	int hides = 0;

	if ((whole || dtype_class(t) == DT_FLOAT) && v->info.shape.rank != 0 && by_use != called_so)
		hides = mask_hides(g, v, by_use);
	if (!hides && (!called_mask || !whole))
		return false;
	r->kind = hides > 0 ? RANGE_CLEAR : RANGE_ONES;
	return true;
}

/*
 * Chooses for lengths and sizes, by the nodes that read the input. *position tells whether the input has positions, and becomes true if lengths
 * would be, but the nodes use them as indices: positions in a cache are compared as well, to make the mask of what came before.
 */
static bool choose_by_use(struct range *r, const struct graph *g, const struct value *v, bool *position)
{
	int rank = v->info.shape.rank;
	bool compared = rank == 1 && use_as_lengths(g, v, &r->whole);

	*position |= compared && use_as_indices(g, v);
	if (compared && !*position)
		r->kind = RANGE_LENGTH;
	else if (rank <= 1 && r->lo < 1 &&
		 use_as_size(g, v)) /* 3..3 says which size, -1..1 is meant for other inputs */
		r->kind = RANGE_SIZE;
	else
		return false;
	return true;
}

/* Chooses for integers that are no masks: lengths, sizes, positions and ids. Returns whether the input is one of these. */
static bool choose_integers(struct range *r, const struct graph *g, const struct value *v)
{
	bool position = name_contains(v->name, "position");

	if (choose_by_use(r, g, v, &position))
		return true;
	int64_t rows = table_rows(g, v, 3);
	bool types = name_contains(v->name, "token_type") || name_contains(v->name, "segment");
	if (types || position) {
		r->kind = types ? RANGE_ZERO : RANGE_COUNT;
		r->hi = rows > 0 ? (double)(rows - 1) : 511;
	} else if (rows > 0 || name_contains(v->name, "ids") || name_contains(v->name, "token")) {
		r->kind = RANGE_IDS;
		r->lo = 0;
		r->hi = rows > 0 ? (double)(rows - 1) : 99;
	} else {
		return false;
	}
	return true;
}

void random_choose(struct range *r, const struct graph *g, const struct value *v)
{
	enum dtype t = (enum dtype)v->info.type.dtype;

	if (r->named || choose_mask(r, g, v, false))
		return;
	/* bytes of three or four axes are pixels, of which 0 to 1 would leave a black picture */
	if (t == DT_U8 && v->info.shape.rank >= 3 && r->lo == 0 && r->hi == 1)
		r->hi = 255;
	else if (!is_integer(t) || dtype_bits(t) < 32 || !choose_integers(r, g, v))
		(void)choose_mask(r, g, v, true);
}

bool random_is_arbitrary(const struct range *r, enum dtype t)
{
	bool told = r->whole.input || r->whole.number;

	return !r->named && (is_integer(t) || t == DT_BOOL) &&
	       (r->kind == RANGE_UNIFORM || r->kind == RANGE_SIZE ||
		(r->kind == RANGE_LENGTH && !told));
}

const char *random_text(const struct range *r, int64_t seed, enum dtype t, struct arena *a)
{
	const char *what = t == DT_STRING ? "random words"
			   : t == DT_BOOL ? "random"
					  : "random integers";

	if (r->kind == RANGE_ONES)
		return "generated: all ones (a mask)";
	if (r->kind == RANGE_CLEAR)
		return "generated: all zeros (a mask of what is hidden)";
	if (r->kind == RANGE_ZERO)
		return "generated: all zeros (token types)";
	if (r->kind == RANGE_SIZE)
		return "generated: all ones (sizes)";
	if (r->kind == RANGE_LENGTH)
		return "generated: whole lengths";
	if (r->kind == RANGE_COUNT)
		return "generated: 0, 1, 2, ... (positions)";
	if (t == DT_STRING || (t == DT_BOOL && !r->named))
		return arena_printf(a, "%s, seed %" PRId64, what, seed);
	return arena_printf(a, "%s %g..%g%s, seed %" PRId64, is_integer(t) ? what : "random", r->lo,
			    r->hi, r->kind == RANGE_IDS ? " (ids)" : "", seed);
}

static int64_t random_integer(const struct range *r, uint64_t *state)
{
	int64_t lo = (int64_t)ceil(r->lo), hi = (int64_t)floor(r->hi);

	if (hi < lo)
		hi = lo;
	return lo + (int64_t)(random_unit(state) * ((double)hi - (double)lo + 1));
}

static double random_real(const struct range *r, uint64_t *state)
{
	return r->lo + random_unit(state) * (r->hi - r->lo);
}

void random_fill(const struct range *r, int64_t seed, const char *name, struct tensor *t)
{
	enum dtype type = tensor_dtype(t);
	bool whole = is_integer(type);
	uint64_t state = random_start(seed, name);
	int64_t n = tensor_count(t), last = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;
	int parts = dtype_class(type) == DT_COMPLEX ? 2 : 1;

	if (t->bytes)
		/* clear all bytes, because packed types may not use all bits of the last byte */
		memset(t->data, 0, t->bytes);
	if (parts == 2)
		type = type == DT_C64 ? DT_F32 : DT_F64;
	for (int64_t i = 0; i < n * parts; i++) {
		/* the usual case, without a call for each element: sizes are searched with inputs of up to millions of them */
		if (type == DT_F32 && r->kind == RANGE_UNIFORM)
			((float *)t->data)[i] = (float)random_real(r, &state);
		else if (r->kind == RANGE_ONES || r->kind == RANGE_SIZE)
			elem_set_i64(type, t->data, i, 1);
		else if (r->kind == RANGE_ZERO || r->kind == RANGE_CLEAR)
			elem_set_i64(type, t->data, i, 0);
		else if (r->kind == RANGE_LENGTH)
			elem_set_i64(type, t->data, i, (int64_t)r->hi);
		else if (r->kind == RANGE_COUNT)
			elem_set_i64(type, t->data, i,
				     i % last < (int64_t)r->hi ? i % last : (int64_t)r->hi);
		else if (type == DT_BOOL && !r->named)
			elem_set_i64(type, t->data, i, (int64_t)(next_random(&state) >> 63));
		else if (whole)
			elem_set_i64(type, t->data, i, random_integer(r, &state));
		else
			elem_set_f64(type, t->data, i, random_real(r, &state));
	}
}

static const struct texts *list_of_texts(const struct node *n, const char *name)
{
	struct op row = n->op ? op_resolved(n->op) : (struct op){0};
	const struct field *f = row.attrs && n->params ? field_find(row.attrs, name) : NULL;
	const struct texts *list =
		f && f->type == F_STRINGS ? (const void *)((const char *)n->params + f->off) : NULL;

	return list && list->n > 0 ? list : NULL;
}

/* Returns at which place node n puts column `column` of the value, which it picks along the last axis; -1 if it does not. */
static int64_t picked_place(const struct graph *g, const struct node *n, const struct value *v,
			    int64_t column)
{
	const struct tensor *t = elements_of(node_in(g, n, 1));
	struct op row = n->op ? op_resolved(n->op) : (struct op){0};
	const struct field *f = row.attrs ? field_find(row.attrs, "axis") : NULL;
	bool gather = !strcmp(live_op(n), "Gather");
	int64_t axis = -1;

	if ((!gather && strcmp(live_op(n), "ArrayFeatureExtractor") != 0) || !t ||
	    !is_integer(tensor_dtype(t)))
		return -1;
	if (gather && f && f->type == F_INT && n->params)
		memcpy(&axis, (const char *)n->params + f->off, sizeof(axis));
	if (axis != -1 && axis != v->info.shape.rank - 1)
		return -1;
	for (int64_t i = 0; i < tensor_count(t); i++)
		if (elem_i64(tensor_dtype(t), t->data, i) == column)
			return i;
	return -1;
}

/* Returns the categories that an encoder knows of a column of the value, or NULL. */
static const struct texts *categories(const struct graph *g, const struct value *v, int64_t column,
				      int depth)
{
	for (uint32_t k = 0; depth && k < v->nusers && k < 256; k++) {
		const struct node *n = g->node[v->users[k]];
		const struct texts *list = list_of_texts(n, "cats_strings");
		list = list ? list : list_of_texts(n, "keys_strings");
		int64_t at =
			n->op && op_flags(n->op) & OP_VIEW ? column : picked_place(g, n, v, column);
		if (node_in(g, n, 0) != v)
			continue;
		if (!list && at >= 0 && node_out(g, n, 0))
			list = categories(g, node_out(g, n, 0), at, depth - 1);
		if (list)
			return list;
	}
	return NULL;
}

struct tensor *random_strings(int64_t seed, const char *name, const struct graph *g,
			      const struct value *v, const struct shape *s, struct arena *a)
{
	int64_t n = shape_count(s), columns = s->rank ? s->dim[s->rank - 1] : 1;
	uint64_t state = random_start(seed, name);
	struct arena scratch = {0};
	const char **text = arena_new_n(&scratch, const char *, (size_t)n + 1);
	size_t *length = arena_new_n(&scratch, size_t, (size_t)n + 1);
	/* of the first columns, so that an input of many strings is not looked at for each of them */
	enum { COLUMNS = 1024 };
	const struct texts **known = arena_new_n(&scratch, const struct texts *, COLUMNS);

	for (int64_t k = 0; g && v && n && k < columns && k < COLUMNS; k++)
		known[k] = categories(g, v, k, 4);
	for (int64_t i = 0; i < n; i++) {
		const struct texts *list = i % columns < COLUMNS ? known[i % columns] : NULL;
		if (list) {
			/* not the first of several, whose code is often 0, so that outputs would be all 0 */
			int64_t first = list->n > 1;
			double drawn = random_unit(&state) * (double)(list->n - first);
			const struct text *word = &list->v[first + (int64_t)drawn];
			text[i] = word->s;
			length[i] = word->n;
			continue;
		}
		char word[8];
		length[i] = 1 + (size_t)(random_unit(&state) * 8);
		for (size_t k = 0; k < length[i]; k++)
			word[k] = (char)('a' + (int)(random_unit(&state) * 26));
		text[i] = arena_strn(&scratch, word, length[i]);
	}
	struct tensor *t = tensor_strings(a, s, text, length);
	arena_free(&scratch);
	return t;
}
