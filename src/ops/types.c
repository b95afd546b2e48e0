/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <string.h>

const struct slot *slot_at(const struct slot *slots, uint32_t i)
{
	const struct slot *s = slots;

	for (uint32_t k = 0; s->name; k++, s++)
		if (k == i || s->variadic)
			return s;
	return NULL;
}

enum { MAX_TVARS = 8 };

/* The types that the type variables are bound to in one node. */
struct binding {
	const char *tvar[MAX_TVARS];
	struct type type[MAX_TVARS];
	int slot[MAX_TVARS]; /* the input that bound the variable */
	int n;
};

static struct type *bound_type(struct binding *b, const char *tvar)
{
	for (int i = 0; i < b->n; i++)
		if (!strcmp(b->tvar[i], tvar))
			return &b->type[i];
	return NULL;
}

/* Number of slots; *variadic is set if the last one is variadic. */
static uint32_t count_slots(const struct slot *slots, bool *variadic)
{
	uint32_t n = 0;

	*variadic = false;
	for (const struct slot *s = slots; s->name; s++, n++)
		*variadic |= s->variadic;
	return n;
}

/* Whether input i, which belongs to slot number `at`, may be left out: every operand of a variadic slot must be given. */
static bool may_be_absent(const struct node *n, const struct slot *s, uint32_t at)
{
	return s->optional && (!s->variadic || n->nin <= at);
}

static bool given(const struct node *n, uint32_t i)
{
	return i < n->nin && n->in[i] != NO_VALUE;
}

static int check_with(const struct infer *c, const struct op *op, uint32_t i, const struct slot *s)
{
	for (uint32_t k = 0; s->with && given(c->node, i) && op->in[k].name; k++)
		if (!strcmp(op->in[k].name, s->with) && !given(c->node, k))
			return infer_fail_saying(
				c, E_OP_INPUTS, (int)k,
				fmt(c->diag, "it is missing, although '%s' is given", s->name));
	return 0;
}

static int check_counts(const struct infer *c, const struct op *op)
{
	const struct node *n = c->node;
	bool many_in, many_out;
	uint32_t slots = count_slots(op->in, &many_in), outs = count_slots(op->out, &many_out);
	int err = 0;

	if (n->nin > slots && !many_in)
		return infer_fail(c, E_OP_INPUTS, -1,
				  fmt(c->diag, "at most %u input%s", slots, slots == 1 ? "" : "s"),
				  fmt(c->diag, "%u", n->nin));
	if (n->nout > outs && !many_out)
		return infer_fail(c, E_OP_INPUTS, -1,
				  fmt(c->diag, "at most %u output%s", outs, outs == 1 ? "" : "s"),
				  fmt(c->diag, "%u", n->nout));
	for (uint32_t i = 0; !err && (i < slots || i < n->nin); i++) {
		const struct slot *s = slot_at(op->in, i);
		if (!given(n, i) && !may_be_absent(n, s, i < slots ? i : slots - 1))
			err = infer_fail_saying(c, E_OP_INPUTS, -1,
						fmt(c->diag, "input %u '%s' is missing", i, s->name));
		if (!err)
			err = check_with(c, op, i, s);
	}
	return err;
}

static bool types_agree(struct type a, struct type b)
{
	return a.kind == V_NONE || b.kind == V_NONE ||
	       (a.kind == b.kind && (a.dtype == b.dtype || !a.dtype || !b.dtype));
}

static uint64_t slot_types(const struct op *op, const struct slot *s)
{
	return op->types && s->tvar && !strcmp(s->tvar, "T") ? op->types : s->types;
}

static bool slot_takes(const struct op *op, const struct slot *s, struct type t)
{
	if (!s || t.kind == V_NONE)
		return true;
	uint64_t mask = slot_types(op, s);
	return !mask || type_in(t, mask);
}

const char *op_types_text(uint64_t types, struct arena *a)
{
	const char *text = "";

	for (int t = 1; t < DT_COUNT; t++)
		if (types & T_BIT(t))
			text = arena_printf(a, "%s%s%s", text, *text ? ", " : "",
					    dtype_name((enum dtype)t));
	return text;
}

bool op_takes(const struct op *resolved, uint32_t i, struct type t)
{
	return slot_takes(resolved, slot_at(resolved->in, i), t);
}

int infer_check_outputs(const struct infer *c)
{
	const struct op op = op_resolved(c->node->op);
	struct arena *a = c->diag ? &c->diag->arena : c->arena;

	for (uint32_t i = 0; i < c->node->nout; i++) {
		const struct vinfo *v = infer_out(c, i);
		const struct slot *s = slot_at(op.out, i);
		if (v && v->type.dtype && !slot_takes(&op, s, v->type))
			return infer_fail(c, E_TYPE, -1,
					  fmt(c->diag, "for output '%s' one of %s (%s-%d)", s->name,
					      op_types_text(slot_types(&op, s), a), op.name, op.since),
					  type_str(a, v->type));
	}
	return 0;
}

static int check_input(const struct infer *c, const struct op *op, uint32_t i, struct binding *b)
{
	const struct vinfo *v = infer_in(c, i);
	const struct slot *s = slot_at(op->in, i);
	struct arena *a = c->diag ? &c->diag->arena : c->arena;

	if (!v || !s || v->type.kind == V_NONE)
		return 0;
	if (!op_takes(op, i, v->type))
		return infer_fail(c, E_TYPE, (int)i,
				  fmt(c->diag, "one of %s (%s-%d)",
				      op_types_text(slot_types(op, s), a), op->name, op->since),
				  type_str(a, v->type));
	if (!s->tvar || s->heterogeneous)
		return 0;
	struct type *t = bound_type(b, s->tvar);
	if (t && !types_agree(*t, v->type))
		return infer_fail(
			c, E_TYPE, (int)i,
			fmt(c->diag, "%s as the other inputs of type %s", type_str(a, *t), s->tvar),
			type_str(a, v->type));
	if (!t && b->n < MAX_TVARS) {
		b->tvar[b->n] = s->tvar;
		b->slot[b->n] = (int)i;
		b->type[b->n++] = v->type;
	}
	return 0;
}

int op_fail_unknown_size(struct diag *d, const struct node *n, const char *slot,
			 const struct shape *shape)
{
	return FAIL(d, E_SHAPE, .node = n->origin->name, .op = n->origin->op, .slot = slot,
		    .expected = "operands from which the output's size follows",
		    .actual = shape_str(&d->arena, shape, NULL));
}

int infer_types(struct infer *c)
{
	struct op op = op_resolved(c->node->op);
	struct binding b = {0};
	int err = check_counts(c, &op);

	for (uint32_t i = 0; !err && i < c->node->nin; i++)
		err = check_input(c, &op, i, &b);
	if (!err)
		err = infer_dims(c, &op);
	for (uint32_t i = 0; !err && i < c->node->nout; i++) {
		struct vinfo *v = infer_out(c, i);
		const struct slot *s = slot_at(op.out, i);
		const struct type *t = s && s->tvar ? bound_type(&b, s->tvar) : NULL;
		if (v && t && !s->heterogeneous)
			v->type = *t;
	}
	return err;
}
