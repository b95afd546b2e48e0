/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/infer_util.h"

#include <inttypes.h>
#include <string.h>

const struct vinfo *infer_in(const struct infer *c, uint32_t i)
{
	const struct node *n = c->node;
	return i < n->nin && n->in[i] != NO_VALUE ? &c->info[n->in[i]] : NULL;
}

struct vinfo *infer_out(const struct infer *c, uint32_t i)
{
	const struct node *n = c->node;
	return i < n->nout && n->out[i] != NO_VALUE ? &c->info[n->out[i]] : NULL;
}

static bool add_bytes(int64_t *sum, const struct vinfo *v)
{
	size_t bytes;

	if (!v || v->type.kind != V_TENSOR)
		return true;
	if (!shape_known(&v->shape) ||
	    !tensor_bytes((enum dtype)v->type.dtype, &v->shape, LAYOUT_ROW, &bytes))
		return false;
	return !__builtin_add_overflow(*sum, (int64_t)bytes, sum);
}

bool infer_bytes(const struct infer *c, int64_t *bytes)
{
	const struct node *n = c->node;
	/* an operator that reads only part of its data, such as an embedding, reads as many bytes as it writes */
	bool part = n->op && n->nout && op_flags(n->op) & OP_READS_PART, known = true;

	*bytes = 0;
	for (uint32_t i = 0; i < n->nin; i++)
		known &= add_bytes(bytes, !i && part ? infer_out(c, 0) : infer_in(c, i));
	for (uint32_t i = 0; i < n->nout; i++)
		known &= add_bytes(bytes, infer_out(c, i));
	return known;
}

static void note_wanted(struct infer *c, uint32_t i)
{
	if (i < 64)
		c->wanted |= UINT64_C(1) << i;
}

const struct tensor *infer_value(struct infer *c, uint32_t i)
{
	const struct vinfo *v = infer_in(c, i);

	if (!v)
		return NULL;
	if (!v->known)
		note_wanted(c, i);
	return v->known;
}

bool infer_ints(struct infer *c, uint32_t i, struct shape *out)
{
	const struct vinfo *v = infer_in(c, i);

	if (!v)
		return false;
	if (v->known) {
		int64_t n = tensor_count(v->known);
		if (n < 0 || n > MAX_RANK)
			return false;
		out->rank = (int32_t)n;
		for (int64_t k = 0; k < n; k++)
			out->dim[k] = elem_i64(tensor_dtype(v->known), v->known->data, k);
		return true;
	}
	note_wanted(c, i);
	if (!v->ints)
		return false;
	*out = *v->ints;
	return true;
}

void infer_set(struct infer *c, uint32_t i, enum dtype t, const struct shape *s)
{
	struct vinfo *v = infer_out(c, i);

	if (!v)
		return;
	v->type = type_tensor(t);
	v->shape = *s;
}

void infer_set_ints(struct infer *c, uint32_t i, const struct shape *ints)
{
	struct vinfo *v = infer_out(c, i);

	if (v && ints->rank >= 0)
		v->ints = arena_dup(c->arena, ints, sizeof(*ints));
}

/* Text such as "input 1 'B'", with the name from the row; NULL if slot is negative */
static const char *slot_name(const struct infer *c, int slot)
{
	const struct slot *s = c->node->op ? op_resolved(c->node->op).in : NULL;
	int k = 0;

	if (slot < 0)
		return NULL;
	while (s && k < slot && s[k].name && !s[k].variadic)
		k++;
	if (!s || !s[k].name)
		return fmt(c->diag, "input %d", slot);
	return fmt(c->diag, "input %d '%s'", slot, s[k].name);
}

/*
 * The node of the file that a finding names: of those that were fused into the node, the one with its operator, since it is
 * this one's operands that the slots name.
 */
static const struct origin *blamed_origin(const struct node *n)
{
	const struct origin *o = n->origin;

	for (uint32_t i = 0; n->op && i < o->nfused; i++)
		if (!strcmp(o->fused[i]->op, n->op->name))
			return o->fused[i];
	return o;
}

int infer_fail(const struct infer *c, enum code code, int slot, const char *expected,
	       const char *actual)
{
	const struct origin *o = blamed_origin(c->node);

	return FAIL(c->diag, code, .node = o->name, .op = o->op, .slot = slot_name(c, slot),
		    .expected = expected, .actual = actual);
}

int infer_fail_saying(const struct infer *c, enum code code, int slot, const char *message)
{
	const struct origin *o = blamed_origin(c->node);

	return FAIL(c->diag, code, .node = o->name, .op = o->op, .slot = slot_name(c, slot),
		    .message = message);
}

const char *infer_shape_text(const struct infer *c, const struct shape *s)
{
	return c->diag ? shape_str(&c->diag->arena, s, NULL) : "";
}

int infer_fail_shape(const struct infer *c, int slot, const char *expected, const struct shape *actual)
{
	return infer_fail(c, E_SHAPE, slot, expected, infer_shape_text(c, actual));
}

int infer_refuse_shape(const struct infer *c, int slot, const char *expected)
{
	struct shape s = infer_shape(c, (uint32_t)slot);

	return infer_fail_shape(c, slot, expected, &s);
}

struct shape infer_shape(const struct infer *c, uint32_t i)
{
	const struct vinfo *v = infer_in(c, i);
	return v ? v->shape : SHAPE_UNKNOWN;
}

enum dtype infer_dtype(const struct infer *c, uint32_t i)
{
	const struct vinfo *v = infer_in(c, i);
	return v ? (enum dtype)v->type.dtype : DT_NONE;
}

int infer_same(struct infer *c)
{
	const struct vinfo *x = infer_in(c, 0);

	for (uint32_t i = 0; x && i < c->node->nout; i++) {
		struct vinfo *y = infer_out(c, i);
		if (y) {
			y->type = x->type;
			y->shape = x->shape;
		}
	}
	return 0;
}

int infer_same_as(struct infer *c, enum dtype t)
{
	struct shape s = infer_shape(c, 0);

	infer_set(c, 0, t, &s);
	return 0;
}

static int broadcast_all(struct infer *c, enum dtype t)
{
	struct shape r = infer_shape(c, 0);

	for (uint32_t i = 1; i < c->node->nin; i++) {
		const struct vinfo *v = infer_in(c, i);
		struct shape before = r;
		if (v && !shape_broadcast(&before, &v->shape, &r))
			return infer_fail(c, E_SHAPE, (int)i,
					  fmt(c->diag, "a shape that broadcasts with %s",
					      infer_shape_text(c, &before)),
					  infer_shape_text(c, &v->shape));
	}
	infer_set(c, 0, t, &r);
	return 0;
}

int infer_broadcast(struct infer *c)
{
	const struct vinfo *y = infer_out(c, 0);
	enum dtype t = y && y->type.dtype ? (enum dtype)y->type.dtype : infer_dtype(c, 0);

	return broadcast_all(c, t);
}

int infer_broadcast_bool(struct infer *c)
{
	return broadcast_all(c, DT_BOOL);
}

int infer_axis(const struct infer *c, uint32_t i, int64_t axis, int *out)
{
	struct shape s = infer_shape(c, i);

	*out = -1;
	if (s.rank < 0)
		return 0;
	*out = axis_of(axis, s.rank);
	if (*out < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, (int)i,
				  fmt(c->diag, "axis within rank %d", s.rank),
				  fmt(c->diag, "axis %" PRId64, axis));
	return 0;
}

int infer_unify(const struct infer *c, int slot, int64_t a, int64_t b, int64_t *out)
{
	if (a >= 0 && b >= 0 && a != b)
		return infer_fail(c, E_SHAPE, slot, fmt(c->diag, "a dimension of %" PRId64, a),
				  fmt(c->diag, "%" PRId64, b));
	*out = a >= 0 ? a : b >= 0 ? b : a != DIM_UNKNOWN ? a : b;
	return 0;
}

int infer_gathered(const struct infer *c, const struct shape *x, int axis, const struct shape *i,
		   struct shape *out)
{
	*out = SHAPE_UNKNOWN;
	if (x->rank < 0 || i->rank < 0)
		return 0;
	if (x->rank - 1 + i->rank > MAX_RANK)
		return infer_fail(c, E_RANK, -1,
				  fmt(c->diag, "a result of at most %d dimensions", MAX_RANK),
				  fmt(c->diag, "%d", x->rank - 1 + i->rank));
	out->rank = 0;
	for (int k = 0; k < axis; k++)
		out->dim[out->rank++] = x->dim[k];
	for (int k = 0; k < i->rank; k++)
		out->dim[out->rank++] = i->dim[k];
	for (int k = axis + 1; k < x->rank; k++)
		out->dim[out->rank++] = x->dim[k];
	return 0;
}

int64_t conv_dim(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin,
		 int64_t end, bool ceil)
{
	int64_t span, room;

	/* the pads add what the kernel takes away: the size stays, even a symbolic one */
	if (dim_is_sym(in) && stride == 1 && !__builtin_mul_overflow(kernel - 1, dilation, &span) &&
	    !__builtin_add_overflow(begin, end, &room) && kernel > 0 && span == room)
		return in;
	if (in < 0)
		return DIM_UNKNOWN;
	/* attributes may be hostile: when a sum overflows, return an impossible size, which the caller reports */
	if (kernel < 1 || stride < 1 || dilation < 1 ||
	    __builtin_mul_overflow(kernel - 1, dilation, &span) ||
	    __builtin_add_overflow(in, begin, &room) || __builtin_add_overflow(room, end, &room) ||
	    __builtin_sub_overflow(room, span + 1, &room))
		return 0;
	/* with ceil_mode a window larger than the padded input still fits once if it is by less than a stride */
	if (room < 0)
		return ceil && in && -room < stride ? 1 : 0;
	int64_t out = room / stride + 1 + (ceil && room % stride ? 1 : 0);
	/* with ceil_mode the last window must still start inside the input or its leading padding */
	if (ceil && (out - 1) > (in + begin - 1) / stride)
		out--;
	return out;
}

int infer_float_attribute(const struct infer *c, const char *name, int64_t type, bool may_be_absent)
{
	if ((!type && may_be_absent) || type == DT_F32 || type == DT_F64 || type == DT_F16 ||
	    type == DT_BF16)
		return 0;
	return infer_fail(c, E_OP_ATTRIBUTE, -1,
			  fmt(c->diag, "%s as %d, %d, %d or %d, a float type", name, DT_F32, DT_F16,
			      DT_F64, DT_BF16),
			  fmt(c->diag, "%" PRId64, type));
}

bool inputs_agree(const struct graph *g, const struct node *n, uint32_t a, uint32_t b)
{
	const struct value *x = node_in(g, n, a), *y = node_in(g, n, b);

	if (!x || !y || x->info.shape.rank < 0 || x->info.shape.rank != y->info.shape.rank)
		return false;
	for (int i = 0; i < x->info.shape.rank; i++)
		if (x->info.shape.dim[i] == DIM_UNKNOWN ||
		    x->info.shape.dim[i] != y->info.shape.dim[i])
			return false;
	return true;
}
