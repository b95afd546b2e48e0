/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the functions of a library's operator: operands in the form of infer/op.h, and which node runs, for a crash. */
#include "custom/custom.h"

#include "base/pool.h"
#include "custom/internal.h"
#include "ops/infer_util.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

_Static_assert((int)INFER_MAX_RANK == (int)MAX_RANK, "shapes have one form inside and outside");

/* ---- the node that runs, for a signal handler -------------------------------------------------- */

static _Thread_local const struct origin *volatile here;
static const struct origin *_Atomic newest;

const char *custom_running(const char **op)
{
	const struct origin *o = here ? here : atomic_load(&newest);

	*op = o ? o->op : NULL;
	return o ? o->name : NULL;
}

/* ---- the call ---------------------------------------------------------------------------------- */

/* What `fail` and `parallel` find behind the struct that the library sees. */
struct outer_call {
	struct infer_call call; /* first */
	const struct origin *origin;
	struct diag *d;
	enum code code; /* of what `fail` reports */
	bool failed;
};

static int note_failure(const struct infer_call *call, const char *message)
{
	struct outer_call *x = (struct outer_call *)(uintptr_t)call;

	if (!x->failed)
		FAIL(x->d, x->code, .node = x->origin->name, .op = x->origin->op,
		     .message = fmt(x->d, "%s", message ? message : "the operator failed"),
		     .hint = "");
	x->failed = true;
	return -1;
}

struct pieces {
	void (*body)(void *arg, int64_t begin, int64_t end);
	void *arg;
	const struct origin *origin;
};

static void run_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pieces *p = arg;
	const struct origin *before = here;

	(void)thread;
	here = p->origin;
	p->body(p->arg, begin, end);
	here = before;
}

static void run_pieces(const struct infer_call *call, int64_t n, int64_t grain,
		       void (*body)(void *arg, int64_t begin, int64_t end), void *arg)
{
	const struct outer_call *x = (const struct outer_call *)call;
	struct pieces p = {body, arg, x->origin};

	if (n > 0)
		pool_for(n, grain > 0 ? grain : 1, run_piece, &p);
}

/* Calls a function of the library. Returns 0 or -code. */
static int call_library(struct outer_call *x, int (*function)(const struct infer_call *),
			const char *name)
{
	x->call.size = sizeof(x->call);
	x->call.fail = note_failure;
	x->call.parallel = run_pieces;
	here = x->origin;
	atomic_store(&newest, x->origin);
	int rc = function(&x->call);
	atomic_store(&newest, NULL);
	here = NULL;
	if (rc && !x->failed)
		note_failure(&x->call, fmt(x->d, "%s() of the operator returned %d without a reason",
					   name, rc));
	return rc || x->failed ? -(int)x->code : 0;
}

static struct infer_tensor absent_tensor(void)
{
	return (struct infer_tensor){.rank = -1};
}

static struct infer_tensor describe(const struct vinfo *v)
{
	struct infer_tensor t = absent_tensor();

	if (!v)
		return t;
	t.type = v->type.dtype;
	t.rank = v->shape.rank;
	for (int i = 0; i < t.rank; i++)
		t.dim[i] = v->shape.dim[i];
	return t;
}

static const struct custom_op *custom_of(const struct node *n)
{
	return (const struct custom_op *)(const void *)n->op;
}

/* ---- shape ------------------------------------------------------------------------------------- */

/* A negative size must be unknown or the symbol of some input; everything else counts as unknown. */
static int64_t known_dim(const struct infer_call *call, int64_t dim)
{
	for (uint32_t i = 0; dim < DIM_UNKNOWN && i < call->nin; i++)
		for (int k = 0; k < call->in[i].rank; k++)
			if (call->in[i].dim[k] == dim)
				return dim;
	return dim >= 0 ? dim : DIM_UNKNOWN;
}

static int take_output(struct infer *c, const struct infer_call *call, uint32_t i)
{
	const struct infer_tensor *t = &call->out[i];
	struct vinfo *v = infer_out(c, i);
	struct shape s = SHAPE_UNKNOWN;

	if (!v)
		return 0;
	if (t->rank < -1 || t->rank > MAX_RANK)
		return infer_fail(c, E_RANK, -1, fmt(c->diag, "at most %d dimensions", MAX_RANK),
				  fmt(c->diag, "%" PRId32 ", from shape() of the operator", t->rank));
	if (t->type < 0 || t->type >= DT_COUNT || (c->concrete && !t->type) ||
	    (v->type.dtype && t->type && t->type != v->type.dtype))
		return infer_fail(c, E_TYPE, -1,
				  fmt(c->diag, "for output %" PRIu32 " %s", i,
				      v->type.dtype ? "the type of its type variable"
						    : "a type that the operator's table allows"),
				  fmt(c->diag, "%" PRId32 ", from shape() of the operator", t->type));
	s.rank = t->rank;
	for (int k = 0; k < t->rank; k++)
		s.dim[k] = known_dim(call, t->dim[k]);
	if (!shape_countable(&s))
		return infer_fail(c, E_SIZE, -1, "an output whose elements can be counted",
				  fmt(c->diag, "output %" PRIu32 " of shape() of the operator", i));
	infer_set(c, i, (enum dtype)t->type, &s);
	return 0;
}

static void *value_of(struct infer *c, const struct slot *slot, const struct infer_operand *p,
		      uint32_t i, size_t *bytes)
{
	const struct tensor *t =
		slot && p[slot - c->node->op->in].flags & INFER_VALUE ? infer_value(c, i) : NULL;

	*bytes = t ? t->bytes : 0;
	return t ? t->data : NULL;
}

int custom_infer(struct infer *c)
{
	const struct custom_op *op = custom_of(c->node);
	const struct node *n = c->node;
	struct infer_tensor *in = arena_new_n(c->arena, struct infer_tensor, n->nin + 1);
	struct infer_tensor *out = arena_new_n(c->arena, struct infer_tensor, n->nout + 1);
	struct outer_call x = {.call = {.nin = n->nin, .nout = n->nout, .in = in, .out = out},
			       .origin = n->origin,
			       .d = c->diag,
			       .code = E_SHAPE};

	x.call.params = op->row.params_size ? n->params : NULL;
	for (uint32_t i = 0; i < n->nin; i++) {
		in[i] = describe(infer_in(c, i));
		in[i].data = value_of(c, slot_at(op->row.in, i), op->def->inputs, i, &in[i].bytes);
	}
	for (uint32_t i = 0; i < n->nout; i++) {
		out[i] = absent_tensor();
		out[i].type = infer_out(c, i) ? infer_out(c, i)->type.dtype : 0;
	}
	int err = call_library(&x, op->def->shape, "shape");
	for (uint32_t i = 0; i < n->nout && !err; i++)
		err = take_output(c, &x.call, i);
	return err;
}

/* ---- run --------------------------------------------------------------------------------------- */

/* The operands of a step: types and shapes are set when it is planned, addresses when it runs. */
struct custom_step {
	const struct custom_op *op;
	struct infer_tensor *in, *out;
};

int custom_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct node *n = s->node;
	struct custom_step *k = arena_new(s->plan_arena, struct custom_step);

	k->op = custom_of(n);
	k->in = arena_new_n(s->plan_arena, struct infer_tensor, n->nin + 1);
	k->out = arena_new_n(s->plan_arena, struct infer_tensor, n->nout + 1);
	for (uint32_t i = 0; i < n->nin; i++)
		k->in[i] = describe(site_in(s, i));
	for (uint32_t i = 0; i < n->nout; i++)
		k->out[i] = describe(site_out(s, i));
	step->state = k;
	if (!k->op->def->workspace)
		return 0;
	struct outer_call x = {
		.call = {.nin = n->nin, .nout = n->nout, .in = k->in, .out = k->out, .fail = note_failure},
		.origin = n->origin,
		.d = d,
		.code = E_RUN};
	x.call.size = sizeof(x.call);
	x.call.params = k->op->row.params_size ? n->params : NULL;
	here = n->origin;
	int64_t bytes = k->op->def->workspace(&x.call);
	here = NULL;
	if (bytes < 0 && !x.failed)
		note_failure(&x.call, "workspace() of the operator returned a negative size");
	step->workspace = bytes > 0 ? (size_t)bytes : 0;
	return x.failed ? -(int)E_RUN : 0;
}

static void set_data(struct infer_tensor *t, const struct tensor *from)
{
	t->data = from ? from->data : NULL;
	t->bytes = from ? from->bytes : 0;
}

static int run(const struct call *c, int (*function)(const struct infer_call *), const char *name,
	       void *stream)
{
	const struct step *step = c->step;
	struct custom_step *k = step->state;
	struct outer_call x = {.call = {.nin = step->node->nin, .nout = step->nout},
			       .origin = step->from ? step->from : step->node->origin,
			       .d = c->diag,
			       .code = E_RUN};

	for (uint32_t i = 0; i < x.call.nin; i++)
		set_data(&k->in[i], c->in[i]);
	for (uint32_t i = 0; i < x.call.nout; i++)
		set_data(&k->out[i], c->out[i]);
	x.call.in = k->in;
	x.call.out = k->out;
	x.call.params = k->op->row.params_size ? step->params : NULL;
	x.call.workspace = step->workspace ? c->workspace : NULL;
	x.call.stream = stream;
	return call_library(&x, function, name);
}

int custom_run_host(const struct call *c)
{
	const struct custom_step *k = c->step->state;

	return run(c, k->op->def->cpu, "cpu", NULL);
}

int custom_run_device(const struct call *c)
{
	const struct custom_step *k = c->step->state;

	return run(c, k->op->def->cuda, "cuda", k->op->stream_handle(c->stream));
}
