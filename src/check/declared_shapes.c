/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares declared types and shapes with those that shape inference finds, in the main graph and in bodies. Also reports sizes that exporters fix by
 * accident: a batch of 1 although the input's batch is free, or a Reshape to the sizes of the example input. These
 * are suspicions until a run with another size has been tried (fixed_size.c).
 */
#include "check/branches.h"
#include "check/fixed_size.h"
#include "base/hash.h"
#include "base/str.h"
#include "opt/infer.h"
#include "opt/params.h"
#include "session/backends.h"

#include <inttypes.h>
#include <string.h>

/* A body of the inferred model. */
struct body_info {
	const struct graph *graph;
	const struct vinfo *info; /* by value id */
};

struct shapes {
	struct check_context *c;
	const struct model *file;  /* with declared shapes */
	const struct model *model; /* with inferred shapes */
	struct arena a;
	struct map names; /* position in the inferred graph of each value with a name */
	size_t compared;  /* number of declared types compared */
	struct body_info *body;
	uint32_t nbodies, cap_bodies;
	struct map places; /* position in `body` by the place in the file */
};

static const char *type_and_shape(const struct shapes *x, const struct vinfo *v, const struct model *m)
{
	struct arena *a = &x->c->d->arena;

	if (v->type.kind != V_TENSOR)
		return type_str(a, v->type);
	return arena_printf(a, "%s %s", type_str(a, v->type), shape_str(a, &v->shape, m->symbols));
}

/*
 * Returns the name by which --dim binds the symbol: that of the first input's dimension that has it. Returns NULL if no
 * input has it.
 */
static const char *name_to_bind(const struct shapes *x, int64_t dim)
{
	const struct graph *g = x->model->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		for (int k = 0; v->info.type.kind == V_TENSOR && k < v->info.shape.rank; k++)
			if (v->info.shape.dim[k] == dim)
				/* the model is gone when the name is used */
				return arena_str(&x->c->arena,
						 input_dim_name(x->model, v, k, &x->c->arena));
	}
	return NULL;
}

/* ---- bodies */

static void keep_body(struct shapes *x, const struct graph *g, const struct vinfo *info)
{
	int64_t at = g->place ? map_get(&x->places, (const char *)&g->place, sizeof(g->place)) : -1;

	if (!g->place)
		return;
	/* a function that is called twice has a body twice: the first counts */
	if (at >= 0 && x->body[at].graph != g)
		return;
	if (at < 0) {
		if (x->nbodies == x->cap_bodies) {
			x->cap_bodies = x->cap_bodies ? 2 * x->cap_bodies : 8;
			x->body = arena_grow(&x->a, x->body, x->nbodies, x->cap_bodies,
					     sizeof(*x->body));
		}
		at = x->nbodies++;
		map_set(&x->places, (const char *)&g->place, sizeof(g->place), (uint32_t)at);
	}
	x->body[at] = (struct body_info){g, info};
}

/* Keeps the branches whose nodes took the place of an If in graph g, which has these types and shapes. */
static void keep_inlined(struct shapes *x, const struct graph *g, const struct vinfo *info)
{
	for (const struct inlined *n = g->inlined; n; n = n->next) {
		struct vinfo *own = arena_new_n(&x->a, struct vinfo, (size_t)n->body->nvalues + 1);
		for (uint32_t i = 0; i < n->body->nvalues; i++)
			own[i] = n->id[i] == NO_VALUE ? (struct vinfo){.shape = SHAPE_UNKNOWN}
						      : info[n->id[i]];
		keep_body(x, n->body, own);
	}
}

static void body_inferred(const struct infer *c, uint32_t k, const struct vinfo *info, void *arg)
{
	keep_body(arg, c->node->sub[k], info);
	keep_inlined(arg, c->node->sub[k], info);
}

/* Infers the nodes with bodies once more, as the model keeps no types and shapes that hold in each iteration. */
static void infer_bodies(struct shapes *x, struct vinfo *info)
{
	struct model *m = x->c->imported;
	const struct graph *g = m->graph;
	struct diag quiet = {0};
	struct infer c;

	keep_inlined(x, g, info);
	infer_begin(&c, g, info, &x->a, false, m, host_backend(), &quiet);
	struct infer_env *env = c.body_ctx;
	env->inferred = body_inferred;
	env->arg = x;
	for (uint32_t i = 0; i < g->norder; i++) {
		c.node = g->node[g->order[i]];
		if (c.node->nsub)
			(void)infer_node(&c); /* what does not fit was refused when the model was imported */
	}
	diag_free(&quiet);
}

/* ---- declared against inferred */

/*
 * Whether a dimension is declared with the name of an input's dimension and inference knows it as a multiple of that dimension. A
 * name that no input has says nothing.
 */
static bool multiples_contradict(const struct shapes *x, const struct vinfo *declared,
				 const struct vinfo *inferred)
{
	const struct shape *s = &declared->shape, *t = &inferred->shape;
	int64_t base;

	if (declared->type.kind != V_TENSOR || inferred->type.kind != V_TENSOR || s->rank != t->rank)
		return false;
	for (int i = 0; i < s->rank; i++)
		if (dim_is_sym(s->dim[i]) && dim_is_sym(t->dim[i]) &&
		    dim_parts(x->model, t->dim[i], &base) > 1 &&
		    !strcmp(x->file->symbols[DIM_SYM_ID(s->dim[i])],
			    x->model->symbols[DIM_SYM_ID(base)]) &&
		    name_to_bind(x, base))
			return true;
	return false;
}

/* n is the node that makes the value, or the owner of the body whose input it is; NULL if there is none. */
static void compare_value(struct shapes *x, const struct vinfo *declared,
			  const struct vinfo *inferred, const struct node *n, const char *slot)
{
	struct diag *d = x->c->d;

	x->compared++;
	if (!vinfo_contradicts(declared, inferred) && !multiples_contradict(x, declared, inferred))
		return;
	bool type = declared->type.dtype != inferred->type.dtype ||
		    declared->type.kind != inferred->type.kind;
	const struct finding f = {
		.code = E_MODEL_DECLARED,
		/* other runtimes refuse a wrong element type; a wrong shape is only a hint, and the model runs */
		.severity = type ? SEV_ERROR : SEV_WARNING,
		.node = n ? check_node(n) : NULL,
		.op = n ? n->origin->op : NULL,
		.slot = slot,
		.message = "the declared type or shape is not the computed one",
		.expected = fmt(d, "%s, as declared", type_and_shape(x, declared, x->file)),
		.actual = type_and_shape(x, inferred, x->model),
		.file = __FILE__,
		.line = __LINE__,
	};
	diag_add(d, &f);
}

/* What is declared for a constant is only a hint, which no runtime needs. */
static void report_false_hints(struct shapes *x, const struct graph *g, const char *where)
{
	struct diag *d = x->c->d;

	for (const struct false_hint *h = g->false_hints; h; h = h->next) {
		const struct value *v = g->value[h->value];
		const char *slot = fmt(d, "value '%s'%s", v->name, where);
		if (h->negative)
			NOTE(d, E_MODEL_DECLARED, .slot = slot,
			     .message = fmt(d,
					    "it is declared with a size of %" PRId64
					    ", which ONNX does not know: it is taken as a free one",
					    h->negative),
			     .hint = "give the size a name or leave it out: ONNX's checker refuses the model if it infers a number there");
		else
			WARN(d, E_MODEL_DECLARED, .slot = slot,
			     .message =
				     v->init ? "the type or shape that is declared for this constant is not its own"
					     : "it is declared twice, and not alike: the first declaration counts",
			     .expected =
				     fmt(d, "%s, as declared", type_and_shape(x, &h->told, x->file)),
			     .actual = type_and_shape(x, &v->info, x->file));
	}
}

static void note_names(struct arena *a, struct map *names, const struct graph *g)
{
	names->arena = a;
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->name && *g->value[i]->name)
			map_set(names, g->value[i]->name, strlen(g->value[i]->name), i);
}

static const struct node *maker(const struct graph *g, uint32_t value, const struct node *otherwise)
{
	uint32_t n = g->value[value]->producer;

	return n == NO_NODE ? otherwise : g->node[n];
}

/*
 * Compares what the file declares in graph f with the types and shapes `info` of its inferred form g. In a body, `owner` is its
 * node in the file and `where` says which body it is.
 */
static void compare_declared(struct shapes *x, const struct graph *f, const struct graph *g,
			     const struct vinfo *info, const struct map *names,
			     const struct node *owner, const char *where)
{
	struct diag *d = x->c->d;

	report_false_hints(x, f, where);
	for (uint32_t i = 0; owner && i < f->nin && i < g->nin; i++)
		if (f->value[f->in[i]]->info.type.kind != V_NONE)
			compare_value(x, &f->value[f->in[i]]->info, &info[g->in[i]], owner,
				      fmt(d, "input '%s'%s", f->value[f->in[i]]->name, where));
	for (uint32_t i = 0; i < f->nout && i < g->nout; i++)
		compare_value(x, &f->value[f->out[i]]->info, &info[g->out[i]],
			      maker(g, g->out[i], owner),
			      fmt(d, "output '%s'%s", f->out_name[i], where));
	for (uint32_t i = 0; i < f->nvalues; i++) {
		const struct value *v = f->value[i];
		int64_t at = v->name ? map_get(names, v->name, strlen(v->name)) : -1;
		if (v->is_input || v->init || v->is_output || v->info.type.kind == V_NONE || at < 0)
			continue;
		compare_value(x, &v->info, &info[at], maker(g, (uint32_t)at, owner),
			      fmt(d, "value '%s'%s", v->name, where));
	}
}

/* The attribute of node n that holds body k. */
static const char *body_attribute(const struct node *n, uint32_t k)
{
	uint32_t rank;
	const struct field *f = params_body(n, k, &rank);

	return f ? f->name : "a body";
}

/* Compares the bodies of graph f of the file, and those inside of them. */
static void compare_bodies(struct shapes *x, const struct graph *f)
{
	for (uint32_t i = 0; i < f->nnodes; i++)
		for (uint32_t k = 0; k < f->node[i]->nsub; k++) {
			const struct graph *s = f->node[i]->sub[k];
			int64_t at = map_get(&x->places, (const char *)&s->place, sizeof(s->place));
			const struct body_info *b = at < 0 ? NULL : &x->body[at];
			if (b && b->graph) {
				struct map names = {0};
				note_names(&x->a, &names, b->graph);
				compare_declared(x, s, b->graph, b->info, &names, f->node[i],
						 fmt(x->c->d, " in %s of '%s'",
						     body_attribute(f->node[i], k),
						     check_node(f->node[i])));
				x->body[at].graph = NULL; /* a function's body is there once a call */
			}
			compare_bodies(x, s);
		}
}

/* ---- types that came with a later version of an operator */

/* An input that a version of a node's operator does not take. */
struct refusal {
	int64_t input; /* -1: none */
	const char *with; /* name of another input whose type it should have; NULL: the version takes no such type */
	bool size;		/* its shape is what the version does not take */
	const struct vinfo *is; /* of the input */
};

/* Position of input i of a node of the file in the inferred graph, or NO_VALUE. */
static uint32_t inferred_input(const struct shapes *x, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(x->file->graph, n, i);
	int64_t at = v ? map_get(&x->names, v->name, strlen(v->name)) : -1;

	return at < 0 ? NO_VALUE : (uint32_t)at;
}

/* Whether the sizes of the node's inputs contradict the row; in[] are their positions in the inferred graph. */
static bool sizes_contradict(const struct shapes *x, const struct node *n, const struct op *row,
			     uint32_t *in)
{
	struct vinfo *info = arena_new_n(&x->c->arena, struct vinfo, n->nin + 1);
	struct node own = *n;
	struct infer c = {.graph = x->model->graph, .node = &own, .info = info, .arena = &x->c->arena};

	for (uint32_t i = 0; i < n->nin; i++) {
		if (in[i] == NO_VALUE)
			info[i].shape = SHAPE_UNKNOWN;
		else
			info[i] = x->model->graph->value[in[i]]->info;
		in[i] = node_in(x->file->graph, n, i) ? i : NO_VALUE;
	}
	own.in = in;
	return infer_dims(&c, row) != 0;
}

/* Looks for the first input of a node of the file that this version of its operator does not take. */
static struct refusal find_refusal(const struct shapes *x, const struct node *n,
				   const struct op *version)
{
	const struct op row = op_resolved(version);
	uint32_t *in = arena_new_n(&x->c->arena, uint32_t, n->nin + 1);
	struct refusal r = {.input = -1};
	struct seen_type {
		const struct slot *slot;
		enum dtype dtype;
	} seen[16]; /* the first input of each type variable */
	uint32_t nseen = 0;

	for (uint32_t i = 0; i < n->nin; i++) {
		in[i] = inferred_input(x, n, i);
		const struct slot *s = slot_at(row.in, i);
		if (in[i] == NO_VALUE || !s)
			continue;
		const struct vinfo *v = &x->model->graph->value[in[i]]->info;
		r = (struct refusal){.input = i, .is = v};
		if (!op_takes(&row, i, v->type))
			return r;
		if (!s->tvar || s->heterogeneous || !v->type.dtype)
			continue;
		uint32_t k = 0;
		while (k < nseen && strcmp(seen[k].slot->tvar, s->tvar) != 0)
			k++;
		if (k == nseen && nseen < sizeof(seen) / sizeof(*seen))
			seen[nseen++] = (struct seen_type){s, v->type.dtype};
		if (k < nseen && seen[k].dtype != v->type.dtype) {
			r.with = seen[k].slot->name;
			return r;
		}
	}
	r = (struct refusal){.input = -1};
	/* a version with operands of its own has sizes of its own */
	if (version->flags & OP_READ_AS_NEWEST && n->params && version == n->op &&
	    sizes_contradict(x, n, &row, in))
		r = (struct refusal){.input = 1, .size = true};
	return r;
}

/* Returns the first later version of n's operator that takes the inputs; 0 if there is none. */
static int since_which_takes(const struct shapes *x, const struct node *n)
{
	for (int version = n->op->since + 1; version <= op_named(op_qualified(n->op))->since;
	     version++) {
		const struct op *row = op_find(n->domain, n->type, version);
		if (row->since == version && find_refusal(x, n, row).input < 0)
			return version;
	}
	return 0;
}

/*
 * Reports operands that only a later version of an operator takes. Kernels have the newest meaning, so that the model runs here;
 * ONNX Runtime and ONNX's checker refuse it.
 */
static void report_later_types(struct shapes *x)
{
	const struct graph *f = x->file->graph;
	const struct node *first = NULL;
	struct refusal r = {.input = -1}, found;
	struct diag *d = x->c->d;
	size_t count = 0;

	/* the types are then what --precision makes of the file's */
	if (x->c->config->precision == PRECISION_FP16 || x->c->config->precision == PRECISION_BF16)
		return;
	for (uint32_t k = 0; k < f->nnodes; k++) {
		const struct node *n = f->node[k];
		if (n->dead || !n->op || n->op == op_named(op_qualified(n->op)))
			continue;
		found = find_refusal(x, n, n->op);
		if (found.input < 0 || count++)
			continue;
		first = n;
		r = found;
	}
	if (!first)
		return;
	int since = since_which_takes(x, first);
	const struct op row = op_resolved(first->op);
	const char *takes = r.size   ? "wants other sizes of its operands"
			    : r.with ? fmt(d, "wants it in the type of '%s', not in %s", r.with,
					   type_str(&d->arena, r.is->type))
				     : fmt(d, "does not take %s", type_str(&d->arena, r.is->type));
	WARN(d, E_MODEL_OPSET, .node = check_node(first), .op = first->type,
	     .slot = fmt(d, "input %" PRId64 " '%s'", r.input,
			 slot_at(row.in, (uint32_t)r.input)->name),
	     .message = fmt(d, "opset %d has %s-%d, which %s: ONNX Runtime refuses such a model%s",
			    first->version, first->type, first->op->since, takes,
			    count > 1 ? fmt(d, " (%zu nodes)", count) : ""),
	     .hint = r.size  ? fmt(d, "import opset %d or later, or give the sizes of this version",
				   since)
		     : since ? fmt(d, "import opset %d or later, or cast the input", since)
			     : "cast the input to a type that the operator takes");
}

/* Reports a Mod of floats without fmod in a version before 28, which forbids it. Here it has the meaning that Mod-28 gives it. */
static void report_float_mod(const struct shapes *x)
{
	const struct graph *f = x->file->graph;
	struct diag *d = x->c->d;

	for (uint32_t k = 0; k < f->nnodes; k++) {
		const struct node *n = f->node[k];
		double fmod = 0;
		if (n->dead || !n->op || !check_is(n, "Mod") || n->op->since >= 28 ||
		    (check_number(n, "fmod", &fmod) && fmod != 0))
			continue;
		uint32_t in = inferred_input(x, n, 0);
		enum dtype t = in == NO_VALUE ? DT_NONE : x->model->graph->value[in]->info.type.dtype;
		if (!t || !(T_BIT(t) & T_FLOATS_BF))
			continue;
		WARN(d, E_MODEL_OPSET, .node = check_node(n), .op = n->type,
		     .message = fmt(
			     d, "opset %d has Mod-%d, which asks for fmod = 1 with %s: ONNX Runtime refuses such a model",
			     n->version, n->op->since, dtype_name(t)),
		     .hint = "import opset 28, or give fmod = 1 if the remainder may have the sign of the dividend");
		return;
	}
}

/* ---- sizes fixed by accident */

/* Returns the symbol in dimension 0 of the first input that has one there, or 0. */
static int64_t batch_of_inputs(const struct shapes *x)
{
	const struct graph *g = x->model->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct vinfo *v = &g->value[g->in[i]]->info;
		if (v->type.kind == V_TENSOR && v->shape.rank > 0 && dim_is_sym(v->shape.dim[0]))
			return v->shape.dim[0];
	}
	return 0;
}

/*
 * Keeps a warning until a run with another size agrees: dimension `dim` works with size `fixed` only (0: with that of
 * the first run), which `output` declares if it is not -1. A symbol that no input has depends on other sizes; the batch
 * is tried in its place.
 */
static void suspect(struct shapes *x, int64_t dim, int64_t fixed, int32_t output,
		    const struct finding *f)
{
	const char *own = name_to_bind(x, dim);
	const struct suspect s = {.dim = own ? own : name_to_bind(x, batch_of_inputs(x)),
				  .derived = !own,
				  .fixed = fixed,
				  .output = output,
				  .batch = f->code == E_MODEL_BATCH};

	if (s.dim)
		suspect_fixed_size(x->c, &s, f);
}
#define SUSPECT(x, code_, dim, fixed, output, ...)                                                 \
	suspect((x), (dim), (fixed), (output),                                                     \
		&(struct finding){.code = (code_),                                                 \
				  .severity = SEV_WARNING,                                         \
				  .file = __FILE__,                                                \
				  .line = __LINE__,                                                \
				  __VA_ARGS__})

/* Whether dim is a symbol that stands in dimension 0 of an input: the batch size by convention. */
static bool is_batch(const struct shapes *x, int64_t dim)
{
	const struct graph *g = x->model->graph;

	for (uint32_t i = 0; dim_is_sym(dim) && i < g->nin; i++) {
		const struct vinfo *v = &g->value[g->in[i]]->info;
		if (v->type.kind == V_TENSOR && v->shape.rank > 0 && v->shape.dim[0] == dim)
			return true;
	}
	return false;
}

static bool has_dim(const struct shape *s, int64_t dim)
{
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] == dim)
			return true;
	return false;
}

/*
 * Returns the index of the input's first free dimension that the output does not have, or -1 if the output has them
 * all.
 */
static int lost_free_dim(const struct shape *in, const struct shape *out)
{
	for (int i = 0; i < in->rank; i++)
		if (dim_is_sym(in->dim[i]) && !has_dim(out, in->dim[i]))
			return i;
	return -1;
}

static const char *target_text(const struct tensor *t, struct diag *d)
{
	struct shape s = {.rank = (int32_t)tensor_count(t)};
	char text[MAX_RANK * 22], *p = text;

	for (int i = 0; i < s.rank; i++)
		p += snprintf(p, 22, "%s%" PRId64, i ? "," : "", elem_i64(DT_I64, t->data, i));
	return fmt(d, "[%.*s]", (int)(p - text), text);
}

/*
 * Reports a Reshape with a constant target that loses a free dimension of its input. If the target starts with a size,
 * it fixes the batch: a -1 elsewhere then absorbs the batch, which is wrong for any batch but the example's. If all
 * elements are sizes, the target fits only one size of the input.
 */
static void check_reshape_target(struct shapes *x, const struct graph *g, const struct node *n)
{
	const struct value *in = node_in(g, n, 0), *out = node_out(g, n, 0);
	const struct tensor *t = check_const(g, n, 1);
	struct diag *d = x->c->d;
	bool any = false;

	if (!check_is(n, "Reshape") || !in || !out || !t || t->type.dtype != DT_I64 ||
	    in->info.shape.rank < 1 || tensor_count(t) < 1 || tensor_count(t) > MAX_RANK)
		return;
	for (int64_t i = 0; i < tensor_count(t); i++)
		any |= elem_i64(DT_I64, t->data, i) <= 0;
	int at = lost_free_dim(&in->info.shape, &out->info.shape);
	int64_t first = elem_i64(DT_I64, t->data, 0);
	if (at < 0)
		return;
	const char *name = x->model->symbols[DIM_SYM_ID(in->info.shape.dim[at])];
	if (at == 0 && first > 0 && is_batch(x, in->info.shape.dim[0]))
		SUSPECT(x, E_MODEL_BATCH, in->info.shape.dim[0], first, -1, .node = check_node(n),
			.op = n->origin->op,
			.message = fmt(d,
				       "its target %s fixes dimension 0 at %" PRId64
				       ", which is free in its input %s",
				       target_text(t, d), first,
				       type_and_shape(x, &in->info, x->model)),
			.hint = "use -1 or 0 for that dimension");
	else if (!any)
		SUSPECT(x,
			is_batch(x, in->info.shape.dim[at]) || !name_to_bind(x, in->info.shape.dim[at])
				? E_MODEL_BATCH
				: E_MODEL_RESHAPE,
			in->info.shape.dim[at], 0, -1, .node = check_node(n), .op = n->origin->op,
			.message =
				fmt(d, "its target %s fits one size of '%s' only; its input is %s",
				    target_text(t, d), name, type_and_shape(x, &in->info, x->model)));
}

/*
 * Reports an initial state of a recurrent layer whose batch is a fixed size, while that of the layer's input is free: the
 * layer then runs with this one batch only, as ONNX does not broadcast states.
 */
static void check_initial_states(struct shapes *x, const struct graph *g, const struct node *n)
{
	enum { X = 0, INITIAL_H = 5, INITIAL_C = 6 };
	const struct value *in = node_in(g, n, X);
	struct diag *d = x->c->d;
	double layout = 0;

	if (!check_is(n, "LSTM") && !check_is(n, "GRU") && !check_is(n, "RNN"))
		return;
	check_number(n, "layout", &layout);
	int at = layout != 0 ? 0 : 1;
	if (!in || in->info.shape.rank != 3 || in->info.shape.dim[at] >= 0)
		return;
	for (uint32_t i = INITIAL_H; i <= INITIAL_C; i++) {
		const struct value *state = node_in(g, n, i);
		const struct shape *s = state ? &state->info.shape : NULL;
		if (!s || s->rank != 3 || s->dim[at] < 0)
			continue;
		SUSPECT(x, E_MODEL_BATCH, in->info.shape.dim[at], s->dim[at], -1,
			.node = check_node(n), .op = n->origin->op,
			.message = fmt(d,
				       "its %s %s fixes the batch at %" PRId64
				       ", which is free in its input %s",
				       i == INITIAL_H ? "initial_h" : "initial_c",
				       type_and_shape(x, &state->info, x->model), s->dim[at],
				       type_and_shape(x, &in->info, x->model)),
			.hint = "leave the state out if it is zero, or make it with Shape and Expand from the input's batch");
	}
}

/* Reports outputs that are declared with a batch of 1 although every input has the same free batch dimension. */
static void check_output_batch(struct shapes *x)
{
	const struct graph *f = x->file->graph;
	struct diag *d = x->c->d;
	int64_t batch = 0;

	for (uint32_t i = 0; i < f->nin; i++) {
		const struct vinfo *v = &f->value[f->in[i]]->info;
		if (v->type.kind != V_TENSOR || v->shape.rank < 2 || !dim_is_sym(v->shape.dim[0]))
			return;
		if (batch && batch != v->shape.dim[0])
			return;
		batch = v->shape.dim[0];
	}
	for (uint32_t i = 0; batch && i < f->nout; i++) {
		const struct shape *s = &f->value[f->out[i]]->info.shape;
		const struct vinfo *inferred = &x->model->graph->value[x->model->graph->out[i]]->info;
		if (s->rank < 2 || s->dim[0] != 1 || has_dim(s, batch))
			continue;
		SUSPECT(x, E_MODEL_BATCH,
			x->model->graph->value[x->model->graph->in[0]]->info.shape.dim[0], 1,
			(int32_t)i, .slot = fmt(d, "output '%s'", f->out_name[i]),
			.message = fmt(
				d, "it is declared with a batch of 1, but the batch of the inputs is free ('%s')",
				x->file->symbols[DIM_SYM_ID(batch)]),
			.actual = type_and_shape(x, inferred, x->model));
	}
}

static int run_shape(struct check_context *c)
{
	struct shapes x = {.c = c, .file = c->file, .model = check_imported(c)};
	const struct graph *g = x.model ? x.model->graph : NULL;

	if (!g)
		return 0;
	struct vinfo *info = arena_new_n(&x.a, struct vinfo, (size_t)g->nvalues + 1);
	for (uint32_t i = 0; i < g->nvalues; i++)
		info[i] = g->value[i]->info;
	note_names(&x.a, &x.names, g);
	compare_declared(&x, x.file->graph, g, info, &x.names, NULL, "");
	x.places.arena = &x.a;
	infer_bodies(&x, info);
	compare_bodies(&x, x.file->graph);
	report_later_types(&x);
	report_float_mod(&x);
	for (uint32_t i = 0; i < g->norder; i++) {
		check_reshape_target(&x, g, g->node[g->order[i]]);
		check_initial_states(&x, g, g->node[g->order[i]]);
	}
	check_output_batch(&x);
	branches_report(c);
	const char *shapes = str_many(&x.a, x.compared, "declared shape");
	check_say(c, "%s, no contradiction to the inferred ones", shapes);
	if (check_found(c, E_MODEL_DECLARED))
		check_say(c, "of %s", shapes);
	arena_free(&x.a);
	check_imported_end(c);
	return 0;
}

const struct check check_shape = {
	.name = "shapes",
	.what = "declared shapes against inferred ones; fixed dimensions",
	.need = NEED_SESSION,
	.cost = COST_HEAD,
	.run = run_shape,
};
