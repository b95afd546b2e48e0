/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include "base/hash.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FAMILY(name) extern const struct op ops_##name[];
#include "ops/families.def"
#undef FAMILY

static const struct op *const families[] = {
#define FAMILY(name) ops_##name,
#include "ops/families.def"
#undef FAMILY
};
enum { NFAMILIES = sizeof(families) / sizeof(*families) };

/* One operator: its rows, which are adjacent in the table, newest version first. */
struct entry {
	const struct op *first;
	const char *qualified;
	uint32_t rows;
};

/* Index of all operators; built at first use. Only op_add() changes it afterwards. */
static struct {
	struct arena arena;
	struct map by_name; /* qualified name -> entry */
	struct entry *entries;
	uint32_t count;
	const struct op **added; /* rows of op_add() */
	uint32_t nadded;
} index_;
static pthread_once_t index_once = PTHREAD_ONCE_INIT;

static const char *domain_of(const struct op *op)
{
	return op->domain ? op->domain : "";
}

static bool same_op(const struct op *a, const struct op *b)
{
	return b->name && !strcmp(a->name, b->name) && !strcmp(domain_of(a), domain_of(b));
}

static const char *qualify(struct arena *a, const char *domain, const char *name)
{
	if (!*domain || !strcmp(domain, "ai.onnx"))
		return arena_str(a, name);
	return arena_printf(a, "%s::%s", domain, name);
}

static void release_index(void)
{
	arena_free(&index_.arena);
}

static void build_index(void)
{
	uint32_t cap = 0;

	for (int f = 0; f < NFAMILIES; f++)
		for (const struct op *op = families[f]; op->name; op++)
			cap++;
	index_.by_name.arena = &index_.arena;
	index_.entries = arena_new_n(&index_.arena, struct entry, cap + MAX_ADDED_OPS + 1);
	index_.added = arena_new_n(&index_.arena, const struct op *, MAX_ADDED_OPS);
	for (int f = 0; f < NFAMILIES; f++) {
		const struct op *op = families[f];
		while (op->name) {
			struct entry *e = &index_.entries[index_.count];
			*e = (struct entry){op, qualify(&index_.arena, domain_of(op), op->name), 0};
			while (same_op(e->first, op)) {
				e->rows++;
				op++;
			}
			map_set(&index_.by_name, e->qualified, strlen(e->qualified), index_.count++);
		}
	}
	atexit(release_index);
}

bool op_add(const struct op *row)
{
	pthread_once(&index_once, build_index);
	if (index_.nadded == MAX_ADDED_OPS)
		return false;
	const char *name = qualify(&index_.arena, domain_of(row), row->name);
	if (map_get(&index_.by_name, name, strlen(name)) >= 0)
		return false;
	index_.entries[index_.count] = (struct entry){row, name, 1};
	map_set(&index_.by_name, name, strlen(name), index_.count++);
	index_.added[index_.nadded++] = row;
	return true;
}

static const struct entry *entry_named(const char *qualified)
{
	pthread_once(&index_once, build_index);
	int64_t k = map_get(&index_.by_name, qualified, strlen(qualified));
	return k < 0 ? NULL : &index_.entries[k];
}

static const struct entry *entry_find(const char *domain, const char *name)
{
	char buf[256];

	if (!domain || !*domain || !strcmp(domain, "ai.onnx"))
		return entry_named(name);
	int n = snprintf(buf, sizeof(buf), "%s::%s", domain, name);
	return n < 0 || (size_t)n >= sizeof(buf) ? NULL : entry_named(buf);
}

const struct op *op_find(const char *domain, const char *name, int64_t version)
{
	const struct entry *e = entry_find(domain, name);

	for (uint32_t i = 0; e && i < e->rows; i++)
		if (e->first[i].since <= version)
			return &e->first[i];
	return NULL;
}

const struct op *op_newest(const char *domain, const char *name)
{
	const struct entry *e = entry_find(domain, name);
	return e ? e->first : NULL;
}

const struct op *op_oldest(const char *domain, const char *name)
{
	const struct entry *e = entry_find(domain, name);
	return e ? e->first + e->rows - 1 : NULL;
}

const struct op *op_named(const char *qualified)
{
	const struct entry *e = entry_named(qualified);
	return e ? e->first : NULL;
}

static const struct entry *entry_of(const struct op *op)
{
	return entry_find(domain_of(op), op->name);
}

const char *op_qualified(const struct op *op)
{
	const struct entry *e = entry_of(op);
	return e ? e->qualified : op->name;
}

unsigned op_flags(const struct op *op)
{
	const struct entry *e = entry_of(op);
	return e ? e->first->flags : op->flags;
}

uint32_t op_id(const struct op *op)
{
	return (uint32_t)(entry_of(op) - index_.entries);
}

uint32_t op_ids(void)
{
	pthread_once(&index_once, build_index);
	return index_.count;
}

bool op_domain_known(const char *domain)
{
	return op_domain_version(domain) > 0;
}

int64_t op_domain_version(const char *domain)
{
	int64_t newest = 0;

	if (!*domain || !strcmp(domain, "ai.onnx"))
		/*
		 * the newest opset that the tables were checked against; an opset changes few operators, so perhaps
		 * no row has its number
		 */
		return 28;
	for (int f = 0; f < NFAMILIES; f++)
		for (const struct op *op = families[f]; op->name; op++)
			if (!strcmp(domain_of(op), domain) && op->since > newest)
				newest = op->since;
	for (uint32_t i = 0; i < index_.nadded; i++)
		if (!strcmp(domain_of(index_.added[i]), domain) && index_.added[i]->since > newest)
			newest = index_.added[i]->since;
	return newest;
}

int op_each(int (*f)(const struct op *, void *), void *arg)
{
	for (int k = 0; k < NFAMILIES; k++) {
		for (const struct op *op = families[k]; op->name; op++) {
			int stop = f(op, arg);
			if (stop)
				return stop;
		}
	}
	for (uint32_t i = 0; i < index_.nadded; i++) {
		int stop = f(index_.added[i], arg);
		if (stop)
			return stop;
	}
	return 0;
}

struct op op_resolved(const struct op *row)
{
	struct op r = *row;

	if (r.in && r.out && r.infer)
		return r;
	const struct entry *e = entry_of(row);
	/* a row inherits what it leaves out from the nearest newer row that has it */
	for (const struct op *p = row; p >= e->first && !r.upgrade && (!r.in || !r.infer); p--) {
		if (!r.in)
			r.in = p->in;
		if (!r.out)
			r.out = p->out;
		if (!r.attrs && !r.params_size) {
			r.attrs = p->attrs;
			r.params_size = p->params_size;
		}
		if (!r.infer)
			r.infer = p->infer;
		if (!r.expand && !r.expand_as) {
			r.expand = p->expand;
			r.expand_as = p->expand_as;
		}
		r.flags |= p->flags;
		if (p != row && p->upgrade)
			r.upgrade = p->upgrade;
	}
	if (!r.in)
		r.in = e->first->in;
	if (!r.out)
		r.out = e->first->out;
	return r;
}

/* Limit of nodes to look at. Constants are folded between passes, so chains of constant nodes are short. */
enum { CONSTANT_NODES = 64 };

static bool made_of_constants(const struct graph *g, const struct value *v, int *left)
{
	if (!v || v->init)
		return v != NULL;
	if (v->producer == NO_NODE || --*left < 0)
		return false;
	const struct node *n = g->node[v->producer];
	if (!n->op || (op_flags(n->op) & (OP_RANDOM | OP_CONTROL)) || !n->nin)
		return false;
	for (uint32_t i = 0; i < n->nin; i++)
		if (n->in[i] != NO_VALUE && !made_of_constants(g, g->value[n->in[i]], left))
			return false;
	return true;
}

bool op_makes_constant(const struct graph *g, const struct value *v)
{
	int left = CONSTANT_NODES;

	return made_of_constants(g, v, &left);
}

bool op_has_output_type(const struct op *op, uint32_t i)
{
	const struct slot *in = slot_at(op->in, i), *out = slot_at(op->out, 0);

	return in && out && in->tvar && out->tvar && !strcmp(in->tvar, out->tvar);
}

bool op_lowers_input(const struct op *op, uint32_t i)
{
	return (i < 32 && op->reduced_in >> i & 1) || op_has_output_type(op, i);
}

static bool slot_named(const struct slot *slots, const char *name)
{
	for (; slots->name; slots++)
		if (!strcmp(slots->name, name))
			return true;
	return false;
}

static int check_row(const struct op *op, void *arg)
{
	struct diag *d = arg;
	struct op r = op_resolved(op);
	const struct entry *e = entry_of(op);

	if (!r.in || !r.out)
		return FAIL(d, E_INTERNAL, .op = op->name, .message = "a row without slots");
	if (op == e->first && !r.infer && !op_expressed(&r))
		return FAIL(d, E_INTERNAL, .op = op->name,
			    .message = "a newest row without shape function");
	if (op != e->first && (op - 1)->since <= op->since)
		return FAIL(d, E_INTERNAL, .op = op->name, .message = "versions are not newest first");
	for (const struct slot *i = r.in; i->name; i++) {
		if (i->dims && !dims_valid(&r, i->dims))
			return FAIL(d, E_INTERNAL, .op = op->name, .slot = i->name,
				    .message = "a text of dims that is not well formed");
		if (i->with && !slot_named(r.in, i->with))
			return FAIL(d, E_INTERNAL, .op = op->name, .slot = i->name,
				    .message = "a companion that is no input of the operator");
	}
	for (const struct field *f = r.attrs; f && f->name; f++)
		if (f->off >= r.params_size)
			return FAIL(d, E_INTERNAL, .op = op->name, .slot = f->name,
				    .message = "an attribute outside its params");
	for (uint32_t i = 0; i < index_.count; i++)
		if (&index_.entries[i] != e && same_op(index_.entries[i].first, op))
			return FAIL(d, E_INTERNAL, .op = op->name,
				    .message = "rows of one operator lie apart");
	return 0;
}

int op_selfcheck(struct diag *d)
{
	pthread_once(&index_once, build_index);
	return op_each(check_row, d);
}
