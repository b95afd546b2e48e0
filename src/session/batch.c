/* SPDX-License-Identifier: Apache-2.0 */
#include "session/batch.h"

#include "base/mem.h"
#include "opt/infer.h"
#include "session/backends.h"

#include <inttypes.h>
#include <string.h>

/* ---- which inputs are stacked */

static const struct value *input_value(const struct batch *b, uint32_t i)
{
	return b->model->graph->value[b->model->graph->in[i]];
}

/* Returns true if the first dimension of input i is the batch. `dim` is the first dimension of the first varying input. */
static bool has_batch(const struct value *v, int64_t dim, bool varies)
{
	if (v->info.shape.rank < 0)
		return varies;
	if (v->info.shape.rank == 0)
		return false;
	return v->info.shape.dim[0] == dim && (varies || dim_is_sym(dim));
}

static int refuse_input(const struct batch *b, const struct value *v, const char *why, struct diag *d)
{
	return FAIL(d, E_BATCH, .slot = fmt(d, "input '%s'", v->name),
		    .message = fmt(d, "%s, so %" PRId64 " inputs cannot share a run", why, b->limit),
		    .expected = "a first dimension that is the batch, and numbers",
		    .actual = fmt(d, "%s %s", type_str(&d->arena, v->info.type),
				  shape_str(&d->arena, &v->info.shape, b->model->symbols)),
		    .hint = "use --batch 1");
}

/* ---- where the batch is in the outputs */

/*
 * Infers the graph with one row more than the model fixes. Returns false if a node does not take that, or leaves open what the model
 * knows; what is known in info is right all the same.
 */
static bool infer_grown(const struct batch *b, struct vinfo *info, struct arena *a)
{
	const struct graph *g = b->model->graph;
	struct diag quiet = {0};
	struct infer c;
	bool all = true;

	infer_constants(g, info);
	for (uint32_t i = 0; i < g->nin; i++) {
		struct vinfo *v = &info[g->in[i]];
		*v = input_value(b, i)->info;
		if (b->stacked[i] && v->shape.rank > 0)
			v->shape.dim[0] = b->fixed + 1;
	}
	infer_begin(&c, g, info, a, false, NULL, host_backend(), &quiet);
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = c.node = g->node[g->order[i]];
		all &= !infer_node(&c);
		for (uint32_t k = 0; k < n->nout; k++) {
			const struct value *v = node_out(g, n, k);
			all &= !v || shape_known(&info[v->id].shape) || !shape_known(&v->info.shape);
		}
	}
	diag_free(&quiet);
	return all;
}

/* is, grown: the shape of an output in the model and with one row more. all: every node takes one row more. */
static enum batch_place place_of(const struct shape *is, const struct shape *grown, int64_t fixed,
				 bool all)
{
	bool others = false;

	if (is->rank < 1 || grown->rank != is->rank || is->dim[0] != fixed)
		return PLACE_UNKNOWN;
	for (int k = 1; k < is->rank; k++) {
		if (is->dim[k] != fixed || grown->dim[k] == fixed)
			continue;
		if (grown->dim[k] < 0)
			return PLACE_UNKNOWN;
		others = true;
	}
	if (grown->dim[0] == fixed + 1)
		return others ? PLACE_ELSEWHERE : PLACE_FIRST;
	return grown->dim[0] == fixed && (all || others) ? PLACE_ELSEWHERE : PLACE_UNKNOWN;
}

/*
 * Finds where the outputs have a batch that the model fixes. Another dimension may have the same size by chance, say as many classes, but only the batch grows
 * when the inputs have one row more. Behind a node that does not take one row more, such as a Reshape to constant sizes, the place stays unknown.
 */
static void find_places(struct batch *b)
{
	const struct graph *g = b->model->graph;
	struct arena a = {0};

	if (b->fixed < 2 || b->fixed == INT64_MAX)
		return;
	b->place = arena_new_n(&b->arena, enum batch_place, g->nout + 1);
	struct vinfo *info = arena_new_n(&a, struct vinfo, (size_t)g->nvalues + 1);
	const bool all = infer_grown(b, info, &a);
	for (uint32_t o = 0; o < g->nout; o++)
		b->place[o] = place_of(&g->value[g->out[o]]->info.shape, &info[g->out[o]].shape,
				       b->fixed, all);
	arena_free(&a);
}

int batch_begin(struct batch *b, const struct model *m, const bool *varies, int64_t limit,
		struct diag *d)
{
	const struct graph *g = m->graph;
	const struct value *lead = NULL;

	*b = (struct batch){.model = m};
	b->stacked = arena_new_n(&b->arena, bool, g->nin + 1);
	b->tensor = arena_new_n(&b->arena, struct tensor, g->nin + 1);
	b->in = arena_new_n(&b->arena, const struct tensor *, g->nin + 1);
	b->owned = arena_new_n(&b->arena, void *, g->nin + 1);
	b->room = arena_new_n(&b->arena, size_t, g->nin + 1);
	for (uint32_t i = 0; i < g->nin && !lead; i++)
		lead = varies[i] ? input_value(b, i) : NULL;
	const struct shape *s = lead ? &lead->info.shape : NULL;
	int64_t dim = s && s->rank > 0 ? s->dim[0] : DIM_UNKNOWN;
	b->dim = dim;
	b->fixed = dim > 0 ? dim : 0;
	b->limit = limit ? limit : b->fixed ? b->fixed : 1;
	b->first = arena_new_n(&b->arena, int64_t, (size_t)b->limit + 1);
	if (b->fixed && b->limit > b->fixed)
		return FAIL(d, E_BATCH, .slot = fmt(d, "input '%s'", lead->name),
			    .message = "the model fixes its batch",
			    .expected = fmt(d, "--batch %" PRId64 " at most", b->fixed),
			    .actual = fmt(d, "%" PRId64, b->limit),
			    .hint = "export the model with a free batch dimension");
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = input_value(b, i);
		b->stacked[i] = has_batch(v, dim, varies[i]);
		bool numbers = v->info.type.kind == V_TENSOR &&
			       dtype_bits((enum dtype)v->info.type.dtype) >= 8 &&
			       v->info.type.dtype != DT_STRING;
		if (b->limit > 1 && b->stacked[i] && !numbers)
			return refuse_input(b, v, "its values cannot be stacked", d);
		if (b->limit > 1 && varies[i] && !b->stacked[i])
			return refuse_input(b, v, "it differs between inputs but has no batch", d);
	}
	find_places(b);
	return 0;
}

/* ---- stacking */

static int64_t rows_of(const struct batch *b, const struct tensor *const *in)
{
	for (uint32_t i = 0; i < b->model->graph->nin; i++)
		if (b->stacked[i] && in[i]->type.kind == V_TENSOR && in[i]->shape.rank > 0)
			return in[i]->shape.dim[0];
	return 1;
}

static bool has_rows(const struct tensor *t, int64_t rows)
{
	return t->type.kind == V_TENSOR && t->shape.rank > 0 && t->shape.dim[0] == rows;
}

/*
 * Returns the first stacked input that has not the number of rows of the others, as one whose rank the model does not
 * declare may come with any; -1: none.
 */
static int64_t find_uneven(const struct batch *b, const struct tensor *const *in)
{
	const int64_t rows = rows_of(b, in);

	for (uint32_t i = 0; i < b->model->graph->nin; i++)
		if (b->stacked[i] && !has_rows(in[i], rows))
			return i;
	return -1;
}

bool batch_takes(const struct batch *b, const struct tensor *const *const *cases, size_t n,
		 const struct tensor *const *next)
{
	int64_t rows = rows_of(b, next);

	if ((int64_t)n >= b->limit)
		return false;
	if (n && (find_uneven(b, next) >= 0 || find_uneven(b, cases[0]) >= 0))
		return false;
	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(rows, rows_of(b, cases[i]), &rows))
			return false;
	if (n && b->fixed && rows > b->fixed)
		return false;
	for (uint32_t i = 0; n && i < b->model->graph->nin; i++) {
		const struct tensor *x = cases[0][i], *y = next[i];
		if (!b->stacked[i])
			continue;
		if (x->shape.rank != y->shape.rank || x->shape.rank < 1)
			return false;
		for (int k = 1; k < x->shape.rank; k++)
			if (x->shape.dim[k] != y->shape.dim[k])
				return false;
	}
	return true;
}

/* Returns whether the cases' values of input i are contiguous already, as slices of an array are. */
static bool one_piece(const struct tensor *const *const *cases, size_t n, uint32_t i)
{
	const unsigned char *at = cases[0][i]->data;

	for (size_t k = 0; k < n; k++) {
		if (cases[k][i]->data != at)
			return false;
		at += cases[k][i]->bytes;
	}
	return true;
}

/* Makes input i of all cases contiguous, unless it is, and repeats the last row up to b->rows. */
static int stack_input(struct batch *b, const struct tensor *const *const *cases, size_t n,
		       uint32_t i, struct diag *d)
{
	struct tensor *t = &b->tensor[i];
	unsigned char *to;
	size_t bytes, row;

	*t = *cases[0][i];
	t->shape.dim[0] = b->rows;
	if (!tensor_bytes(tensor_dtype(t), &t->shape, LAYOUT_ROW, &bytes))
		return FAIL(d, E_SIZE, .slot = fmt(d, "input '%s'", input_value(b, i)->name));
	b->in[i] = t;
	t->bytes = bytes;
	if (b->rows == b->first[n] && one_piece(cases, n, i))
		return 0;
	if (bytes > b->room[i]) {
		mem_free(b->owned[i]);
		b->owned[i] = mem_alloc(bytes, MEM_STAGING);
		b->room[i] = b->owned[i] ? bytes : 0;
	}
	if (!b->owned[i] && bytes)
		return FAIL(d, E_MEMORY, .message = fmt(d, "no memory for a batch of %zu inputs", n));
	t->data = to = b->owned[i];
	for (size_t k = 0; k < n; k++) {
		if (cases[k][i]->bytes)
			memcpy(to, cases[k][i]->data, cases[k][i]->bytes);
		to += cases[k][i]->bytes;
	}
	row = b->rows ? bytes / (size_t)b->rows : 0;
	for (const unsigned char *end = (unsigned char *)t->data + bytes; row && to < end; to += row)
		memcpy(to, to - row, row);
	return 0;
}

int batch_stack(struct batch *b, const struct tensor *const *const *cases, size_t n,
		const struct tensor *const **in, struct diag *d)
{
	int rc = 0;

	b->ncases = n;
	for (size_t k = 0; k < n; k++)
		b->first[k + 1] = b->first[k] + rows_of(b, cases[k]);
	b->rows = b->first[n] < b->fixed ? b->fixed : b->first[n];
	*in = b->in;
	const bool stack = n > 1 || b->rows != b->first[n];
	/* cases that share a run were looked at by batch_takes() */
	const int64_t uneven = stack && n == 1 ? find_uneven(b, cases[0]) : -1;
	if (uneven >= 0)
		return refuse_input(b, input_value(b, (uint32_t)uneven),
				    "it has another number of rows than the other inputs", d);
	for (uint32_t i = 0; !rc && i < b->model->graph->nin; i++) {
		b->in[i] = cases[0][i];
		if (b->stacked[i] && stack)
			rc = stack_input(b, cases, n, i, d);
	}
	return rc;
}

/* ---- taking outputs apart */

/*
 * Returns true if the first dimension of output o is the batch, as far as the model's shapes tell: a first dimension of another
 * size may have as many elements by chance, and if another dimension is the batch as well, a row depends on several cases. Where
 * the model fixes the batch, find_places() has told the dimensions apart. Where it could not, an output of rank 2 has a row for each case even if both
 * dimensions are as large as the batch, as there may be as many classes. One of a higher rank whose second dimension is as large as the batch has not: that may be
 * the batch, as in the states and sequences of recurrent layers.
 */
static bool output_has_rows(const struct batch *b, uint32_t o, const struct tensor *out)
{
	const struct graph *g = b->model->graph;
	const struct shape *s = &g->value[g->out[o]]->info.shape;

	if (!has_rows(out, b->rows))
		return false;
	if (b->place && b->place[o] != PLACE_UNKNOWN)
		return b->place[o] == PLACE_FIRST;
	if (s->rank != out->shape.rank || b->dim == DIM_UNKNOWN)
		return true;
	if (s->dim[0] >= 0 && s->dim[0] != b->dim)
		return false;
	if (!dim_is_sym(b->dim))
		return s->rank < 3 || s->dim[1] != b->dim;
	for (int k = 1; k < s->rank; k++)
		if (s->dim[k] == b->dim)
			return false;
	return true;
}

int batch_part(const struct batch *b, uint32_t o, const struct tensor *out, size_t i,
	       struct tensor *part, struct diag *d)
{
	bool whole = b->ncases == 1 && b->rows == b->first[1];

	*part = *out;
	if (whole)
		return 0;
	size_t bits = out->type.kind == V_TENSOR ? dtype_bits(tensor_dtype(out)) : 0;
	bool strings = tensor_dtype(out) == DT_STRING;
	if (!output_has_rows(b, o, out) || (!strings && bits < 8))
		return FAIL(d, E_BATCH, .slot = fmt(d, "output '%s'", b->model->graph->out_name[o]),
			    .message = "its values cannot be told apart by input",
			    .expected = fmt(d,
					    "a first dimension of %" PRId64
					    ", the batch, and the batch in no other dimension",
					    b->rows),
			    .actual = fmt(d, "%s %s", type_str(&d->arena, out->type),
					  out->type.kind == V_TENSOR
						  ? shape_str(&d->arena, &out->shape, NULL)
						  : ""),
			    .hint = b->fixed ? "export the model with a free batch dimension"
					     : "use --batch 1");
	size_t all = strings ? (size_t)tensor_count(out) * sizeof(struct str_ref) : out->bytes;
	size_t row = b->rows ? all / (size_t)b->rows : 0;
	part->shape.dim[0] = b->first[i + 1] - b->first[i];
	part->bytes = (size_t)part->shape.dim[0] * row;
	part->data = out->data ? (unsigned char *)out->data + (size_t)b->first[i] * row : NULL;
	return 0;
}

void batch_free(struct batch *b)
{
	for (uint32_t i = 0; b->model && i < b->model->graph->nin; i++)
		mem_free(b->owned[i]);
	arena_free(&b->arena);
}
