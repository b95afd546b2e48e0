/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool refuse(struct why *w, const char *format, ...)
{
	va_list ap;

	if (!w || !w->arena)
		return false;
	va_start(ap, format);
	w->text = arena_vprintf(w->arena, format, ap);
	va_end(ap);
	return false;
}

const struct vinfo *site_in(const struct site *s, uint32_t i)
{
	const struct node *n = s->node;
	return i < n->nin + n->ncap && n->in[i] != NO_VALUE ? &s->info[n->in[i]] : NULL;
}

const struct vinfo *site_out(const struct site *s, uint32_t i)
{
	const struct node *n = s->node;
	return i < n->nout && n->out[i] != NO_VALUE ? &s->info[n->out[i]] : NULL;
}

const struct tensor *site_known(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);
	return v ? v->known : NULL;
}

bool site_is_weight(const struct site *s, uint32_t i)
{
	const struct value *v = node_in(s->graph, s->node, i);
	return v && v->init;
}

int call_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s)
{
	return c->alloc(c, i, t, s);
}

struct arena *call_values(const struct call *c, uint32_t i)
{
	return c->values(c, i);
}

int call_strings(const struct call *c, uint32_t i, const struct shape *s, const char *const *text,
		 const size_t *length)
{
	struct tensor *t = tensor_strings(call_values(c, i), s, text, length);

	if (!t)
		return call_fail(c, E_SIZE, "a size that can be counted", "an overflow");
	*c->out[i] = *t;
	return 0;
}

int call_copy(const struct call *c, uint32_t i, const struct tensor *t)
{
	if (t->type.kind == V_TENSOR && t->type.dtype != DT_STRING) {
		int err = call_alloc(c, i, tensor_dtype(t), &t->shape);
		if (!err && t->bytes)
			memcpy(c->out[i]->data, t->data, t->bytes);
		return err;
	}
	*c->out[i] = *tensor_copy(call_values(c, i), t);
	return 0;
}

int call_fail(const struct call *c, enum code code, const char *expected, const char *actual)
{
	const struct origin *o = c->step->from;

	return FAIL(c->diag, code, .node = o ? o->name : NULL, .op = o ? o->op : NULL,
		    .expected = expected, .actual = actual);
}

/* ---- kernels by operator -------------------------------------------------------------------- */

enum { MAX_BACKENDS = 4 };

#define FAMILY(name) +1
enum {
	NFAMILIES = 0
#include "ops/families.def"
};
#undef FAMILY

/*
 * Lists, for each operator, its kernels in the order in which they are tried. Each backend has one
 * such index.
 */
struct kernel_index {
	const struct backend *backend;
	struct arena arena;
	uint32_t *first; /* indexed by op id; kernels of id k are list[first[k]] to list[first[k + 1] - 1] */
	const struct kernel **list;
};
static struct kernel_index indexes[MAX_BACKENDS];
/* Kernels of operators that op_add() has added, which are in no family. */
struct added_kernel {
	const struct backend *backend;
	const struct kernel *kernel;
	struct added_kernel *next;
};
static struct added_kernel *added;
static struct arena added_arena;
static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;

static void release_indexes(void)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
		arena_free(&indexes[i].arena);
	arena_free(&added_arena);
}

static bool has_index(const struct backend *b)
{
	for (int i = 0; i < MAX_BACKENDS; i++)
		if (indexes[i].backend == b)
			return true;
	return false;
}

bool backend_add_kernel(const struct backend *b, const struct kernel *k)
{
	pthread_mutex_lock(&index_lock);
	bool in_time = !has_index(b);
	if (in_time) {
		struct added_kernel *x = arena_new(&added_arena, struct added_kernel);
		*x = (struct added_kernel){b, k, added};
		added = x;
	}
	pthread_mutex_unlock(&index_lock);
	return in_time;
}

static void count_kernel(struct kernel_index *x, const struct kernel *k)
{
	const struct op *op = op_named(k->op);

	/* skip kernels of unknown operators: test/unit/kernels.c fails if there are any */
	if (op)
		x->first[op_id(op) + 2]++;
}

static void list_kernel(struct kernel_index *x, const struct kernel *k)
{
	const struct op *op = op_named(k->op);

	if (op)
		x->list[x->first[op_id(op) + 1]++] = k;
}

static void fill_index(struct kernel_index *x, const struct backend *b)
{
	uint32_t ids = op_ids();

	x->first = arena_new_n(&x->arena, uint32_t, ids + 2);
	for (int f = 0; f < NFAMILIES; f++)
		for (const struct kernel *k = b->families[f]; k->op; k++)
			count_kernel(x, k);
	for (const struct added_kernel *k = added; k; k = k->next)
		if (k->backend == b)
			count_kernel(x, k->kernel);
	for (uint32_t i = 2; i < ids + 2; i++)
		x->first[i] += x->first[i - 1];
	x->list = arena_new_n(&x->arena, const struct kernel *, x->first[ids + 1] + 1);
	for (int f = 0; f < NFAMILIES; f++)
		for (const struct kernel *k = b->families[f]; k->op; k++)
			list_kernel(x, k);
	for (const struct added_kernel *k = added; k; k = k->next)
		if (k->backend == b)
			list_kernel(x, k->kernel);
	x->backend = b;
}

static const struct kernel_index *index_of(const struct backend *b)
{
	struct kernel_index *found = NULL;

	pthread_mutex_lock(&index_lock);
	for (int i = 0; i < MAX_BACKENDS && !found; i++) {
		if (!indexes[i].backend) {
			if (!i)
				atexit(release_indexes);
			fill_index(&indexes[i], b);
		}
		if (indexes[i].backend == b)
			found = &indexes[i];
	}
	pthread_mutex_unlock(&index_lock);
	return found;
}

const struct kernel *backend_kernel(const struct backend *b, const struct op *op, unsigned k)
{
	const struct kernel_index *x = index_of(b);
	uint32_t id = op_id(op);

	return k < x->first[id + 1] - x->first[id] ? x->list[x->first[id] + k] : NULL;
}

const struct kernel *backend_choose(const struct backend *b, const struct site *s, unsigned from,
				    struct why *why)
{
	const struct vinfo *x = NULL;

	for (uint32_t i = 0; i < s->node->nin && !x; i++)
		x = site_in(s, i);
	for (uint32_t i = 0; i < s->node->nout && !x; i++)
		x = site_out(s, i);
	for (unsigned k = from;; k++) {
		const struct kernel *kernel = backend_kernel(b, s->node->op, k);
		if (!kernel)
			break;
		if (kernel->types && x && !type_in(x->type, kernel->types)) {
			refuse(why, "no kernel for %s",
			       why && why->arena ? type_str(why->arena, x->type) : "");
			continue;
		}
		if (!kernel->accepts || kernel->accepts(s, why))
			return kernel;
	}
	if (why && !why->text)
		refuse(why, "no kernel");
	return NULL;
}
