/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer simplify: writes a model as the optimizer leaves it at --optimize basic, with the nodes of the file. The optimized graph
 * says what became of each value of the file: a constant, or another value that takes its place (graph_became). Nodes whose
 * results are still read are copied from the file with the names of what their operands became. So the model has the file's
 * opsets and its operators only, none of the optimizer's own, and bodies of nodes stay as they are, captured names apart. Before
 * all that, an If with a constant condition is replaced by the nodes of the branch that it takes.
 *
 * All values that became one value form a class. The class is computed by the node of its first member in the order of the file;
 * therefore a node never reads what a later node makes.
 */
#include "base/file.h"
#include "base/str.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/part.h"
#include "opt/params.h"

#include <inttypes.h>
#include <string.h>

struct simplify {
	struct options *o;
	struct diag *d;
	struct source source; /* optimized */
	const struct graph *graph;
	struct onnx_file *file;
	uint32_t nbefore; /* nodes of the file but for Constants, which are written as initializers */
	uint32_t nnodes; /* the same, with those of the branches that have taken the place of their If */
	const char **file_name; /* by value: its name in the file or, of a value of such a branch, its new one */
	struct map taken; /* names of inputs, and those that values of branches have got */
	uint32_t *order; /* the file's nodes in topological order: the order of the file, if it has one */
	uint32_t *place; /* by node: its place in `order` */
	uint32_t *first; /* by value that others became: the value of the file that stands for the class; NO_VALUE */
	uint32_t *made_by; /* by value: the node of the graph, before any rewrite, that makes it; NO_NODE */
	const char **name;   /* by value of the file: its name in the new model */
	const char **unread; /* by value that became an initializer and that a node still makes beside others: that node's name for it */
	bool *is_output;     /* by value */
	bool *seen;	     /* by value: the new model has it */
	bool *chosen;	     /* by node of the file */
	uint32_t **operand; /* by chosen node: the values that it reads in place of its operands; NULL: those of the classes */
	uint32_t *left; /* values that are still to be followed */
	uint32_t nleft, cap_left;
	uint32_t folded; /* constants that nodes have computed */
	struct borders in, constant, out, inner;
};

static const char *file_name(const struct simplify *x, uint32_t v)
{
	return x->file_name[v];
}

static bool is_weight(const struct simplify *x, uint32_t v)
{
	return onnx_file_weight(x->file, file_name(x, v));
}

/* The constant that the value became, or NULL. */
static const struct tensor *constant_of(const struct simplify *x, uint32_t v)
{
	const struct tensor *t = x->graph->value[graph_became(x->graph, v)]->init;

	return t && t->type.kind == V_TENSOR ? t : NULL;
}

/*
 * Whether a value is made by a Constant node that takes far fewer bytes than its elements (of a sparse tensor): it stays a
 * node.
 */
static bool is_compact(const struct simplify *x, uint32_t v)
{
	int64_t i = source_maker(&x->source, file_name(x, v));
	const struct onnx_node *n = i < 0 ? NULL : onnx_file_node(x->file, (uint32_t)i);
	const struct tensor *t = constant_of(x, v);

	return n && n->constant && t && t->bytes / 2 > n->bytes;
}

static bool is_constant(const struct simplify *x, uint32_t v)
{
	return is_weight(x, v) || (constant_of(x, v) && !is_compact(x, v));
}

/* ---- branches */

/* A branch whose values get new names. */
struct branch_names {
	struct simplify *x;
	const struct inlined *branch;
	struct map id; /* by name in the branch: the value */
};

static bool is_taken(const struct simplify *x, const char *name)
{
	return source_maker(&x->source, name) >= 0 || onnx_file_weight(x->file, name) ||
	       onnx_file_inner_name(x->file, name) || source_knows(&x->taken, name);
}

static const char *fresh_name(void *arg, const char *name)
{
	struct branch_names *b = arg;
	struct simplify *x = b->x;
	int64_t id = map_get(&b->id, name, strlen(name));
	const char *now = name;

	for (uint32_t k = 1; is_taken(x, now); k++)
		now = arena_printf(&x->source.arena, "%s_%" PRIu32, name, k);
	map_set(&x->taken, now, strlen(now), 1);
	if (id >= 0) {
		map_set(&x->source.value_of, now, strlen(now), (uint32_t)id);
		x->file_name[id] = now;
	}
	return now;
}

/* Whether an Identity of the file's opset passes on a value of this kind: sequences since 14, optionals since 16. */
static bool can_pass_on(const struct simplify *x, enum vkind kind)
{
	int64_t version = model_opset(session_model(x->source.session), "");

	return kind == V_TENSOR || (kind == V_SEQUENCE && version >= 14) ||
	       (kind == V_OPTIONAL && version >= 16);
}

/* The node of the file that a branch takes the place of: an If whose results an Identity can pass on. -1: there is none. */
static int64_t owner_of(const struct simplify *x, const struct inlined *b)
{
	int64_t owner = -1;

	for (uint32_t k = 0; k < b->node->nout; k++) {
		uint32_t v = b->node->out[k];
		if (v == NO_VALUE)
			continue;
		uint32_t named = source_id(&x->source, x->file_name[v]),
			 now = graph_became(x->graph, v);
		if (named == NO_VALUE || graph_became(x->graph, named) != now ||
		    !can_pass_on(x, x->graph->value[now]->info.type.kind))
			return -1;
		owner = source_maker(&x->source, x->file_name[v]);
	}
	return owner >= 0 && !strcmp(onnx_file_node(x->file, (uint32_t)owner)->op, "If") ? owner : -1;
}

/* Gives the branch's outputs that its nodes make the names of the If's outputs. */
static void name_branch_outputs(struct simplify *x, const struct inlined *b)
{
	for (uint32_t k = b->body->nout; k-- > 0;)
		if (k < b->node->nout && b->node->out[k] != NO_VALUE &&
		    b->body->value[b->body->out[k]]->producer != NO_NODE)
			x->file_name[b->id[b->body->out[k]]] = x->file_name[b->node->out[k]];
}

static int inline_branch(struct simplify *x, const struct inlined *branch)
{
	struct arena a = {0};
	struct branch_names b = {x, branch, {.arena = &a}};
	int64_t owner = owner_of(x, branch);
	uint32_t n = onnx_file_nodes(x->file);
	int rc = 0;

	for (uint32_t i = 0; owner >= 0 && i < branch->body->nvalues; i++) {
		const char *name = branch->body->value[i]->name;
		if (name && *name && !source_knows(&b.id, name))
			map_set(&b.id, name, strlen(name), branch->id[i]);
	}
	if (owner >= 0)
		rc = onnx_file_inline(x->file, (uint32_t)owner, branch->attribute, fresh_name, &b,
				      x->d);
	if (owner >= 0 && !rc)
		name_branch_outputs(x, branch);
	source_index_nodes(&x->source, n);
	arena_free(&a);
	return rc < 0 ? rc : 0;
}

/* Branches that have been taken inside of bodies. */
struct taken {
	struct simplify *x;
	struct map graphs; /* by address: those that have been looked at */
	struct map places;
};

static void find_taken(struct taken *t, const struct graph *g)
{
	bool body = g != t->x->graph;

	if (!map_set(&t->graphs, arena_dup(t->graphs.arena, &g, sizeof(g)), sizeof(g), 1))
		return;
	for (const struct inlined *b = g->inlined; body && b; b = b->next)
		map_set(&t->places, (const char *)&b->body->place, sizeof(b->body->place), 1);
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; k < g->node[i]->nsub; k++)
			find_taken(t, g->node[i]->sub[k]);
}

static bool takes(void *arg, size_t place)
{
	const struct taken *t = arg;

	return place && map_get(&t->places, (const char *)&place, sizeof(place)) >= 0;
}

static const char *fresh_inside(void *arg, const char *name)
{
	struct simplify *x = ((struct taken *)arg)->x;
	struct branch_names b = {.x = x};

	return fresh_name(&b, name);
}

static int take_inside(struct simplify *x)
{
	struct arena a = {0};
	struct taken t = {x, {.arena = &a}, {.arena = &a}};
	int rc = 0;

	find_taken(&t, x->graph);
	if (t.places.used)
		rc = onnx_file_take_branches(x->file, takes, fresh_inside, &t, x->d);
	arena_free(&a);
	return rc;
}

/* Puts the nodes of taken branches in the place of their Ifs: outer branches first, which may hold an If in turn. */
static int inline_branches(struct simplify *x)
{
	const struct inlined **list;
	uint32_t n = 0, at = 0;
	int rc = 0;

	for (const struct inlined *b = x->graph->inlined; b; b = b->next)
		n++;
	list = arena_new_n(&x->source.arena, const struct inlined *, n + 1);
	for (const struct inlined *b = x->graph->inlined; b; b = b->next)
		list[at++] = b;
	for (uint32_t i = 0; i < x->graph->nin; i++)
		map_set(&x->taken, file_name(x, x->graph->in[i]),
			strlen(file_name(x, x->graph->in[i])), 1);
	/* first in bodies, which still lie where the file has them */
	rc = take_inside(x);
	while (!rc && at)
		rc = inline_branch(x, list[--at]);
	return rc;
}

/* ---- the order of the nodes */

/* Returns the next operand's maker that has no place yet, from operand *k on; -1 if all have one. */
static int64_t next_maker(const struct simplify *x, const struct onnx_node *n, uint32_t *k)
{
	while (*k < n->nin) {
		const char *name = n->in[(*k)++];
		int64_t from = *name ? source_maker(&x->source, name) : -1;
		if (from >= 0 && x->place[from] == NO_NODE)
			return from;
	}
	return -1;
}

/* The file was loaded, so that its nodes have a topological order, even if they are not written in one. */
static void sort_nodes(struct simplify *x)
{
	struct arena a = {0};
	uint32_t *stack = arena_new_n(&a, uint32_t, x->nnodes + 1), *at, n = 0, depth = 0;

	at = arena_new_n(&a, uint32_t, x->nnodes + 1);
	x->order = arena_new_n(&x->source.arena, uint32_t, x->nnodes + 1);
	x->place = arena_new_n(&x->source.arena, uint32_t, x->nnodes + 1);
	for (uint32_t i = 0; i < x->nnodes; i++)
		x->place[i] = NO_NODE;
	for (uint32_t i = 0; i < x->nnodes; i++) {
		if (x->place[i] != NO_NODE)
			continue;
		stack[depth++] = i;
		while (depth) {
			uint32_t top = stack[depth - 1];
			int64_t from = next_maker(x, onnx_file_node(x->file, top), &at[top]);
			if (from >= 0 && depth <= x->nnodes) {
				stack[depth++] = (uint32_t)from;
				continue;
			}
			depth--;
			if (x->place[top] != NO_NODE)
				continue;
			x->place[top] = n;
			x->order[n++] = top;
		}
	}
	arena_free(&a);
}

/* ---- classes */

/* Enters v as the first of its class. A value whose name a body redefines represents no class. */
static void enter(struct simplify *x, uint32_t v)
{
	uint32_t *first = v == NO_VALUE ? NULL : &x->first[graph_became(x->graph, v)];

	if (first && *first == NO_VALUE && !onnx_file_inner_name(x->file, file_name(x, v)))
		*first = v;
}

/* The value that is read in place of v. */
static uint32_t stands_for(const struct simplify *x, uint32_t v)
{
	uint32_t first = x->first[graph_became(x->graph, v)];

	/* a Constant that stays a node: its class is no constant in the new model */
	return first == NO_VALUE || is_constant(x, v) != is_constant(x, first) ? v : first;
}

/* Initializers come first, then inputs, then what nodes make, in their order. */
static void find_classes(struct simplify *x)
{
	const struct graph *g = x->graph;

	for (uint32_t v = 0; v < g->nvalues; v++)
		if (*file_name(x, v) && source_id(&x->source, file_name(x, v)) == v && is_weight(x, v))
			enter(x, v);
	for (uint32_t i = 0; i < g->nin; i++)
		enter(x, g->in[i]);
	for (uint32_t i = 0; i < x->nnodes; i++) {
		const struct onnx_node *n = onnx_file_node(x->file, x->order[i]);
		for (uint32_t k = 0; k < n->nout; k++)
			if (*n->out[k])
				enter(x, source_id(&x->source, n->out[k]));
	}
}

/* Gives the value v, which stands for the class of output o, the name of this output, and the reverse. */
static void swap_names(struct simplify *x, uint32_t v, uint32_t o)
{
	const char *name = x->name[v];

	x->name[v] = x->name[o];
	x->name[o] = name;
	x->is_output[v] = true;
}

/*
 * Sees to it that each output of the file is made under its name: by its own node, by the node that makes its class, or as an
 * initializer. Fills *made with the value that gives the output.
 */
static void name_output(struct simplify *x, uint32_t o, uint32_t *made)
{
	const char *const *parameters;
	uint32_t v = stands_for(x, o);

	*made = o;
	if (v == o)
		return;
	if (is_constant(x, o)) {
		if (!is_weight(x, v) && !x->is_output[v])
			x->first[graph_became(x->graph, o)] = o;
		return;
	}
	if (x->is_output[v] || x->graph->value[v]->is_input ||
	    source_maker(&x->source, file_name(x, v)) < 0 ||
	    onnx_file_inner_name(x->file, file_name(x, o)) ||
	    onnx_file_parameters(x->file, file_name(x, v), &parameters))
		return; /* the node that makes the output stays */
	swap_names(x, v, o);
	*made = v;
}

/* ---- operands */

/* The node of the optimized graph that computes a result of node n of the file; NULL if it is no node of the same kind. */
static const struct node *node_now(const struct simplify *x, const struct onnx_node *n,
				   const struct node **before)
{
	const struct graph *g = x->graph;
	uint32_t v = n->nout ? source_id(&x->source, n->out[0]) : NO_VALUE;
	uint32_t was = v == NO_VALUE ? NO_NODE : x->made_by[v];
	uint32_t is = v == NO_VALUE ? NO_NODE : g->value[graph_became(g, v)]->producer;
	const struct node *a = was == NO_NODE ? NULL : g->node[was];
	const struct node *b = is == NO_NODE ? NULL : g->node[is];

	*before = a;
	if (!a || !b || a == b || b->dead || !a->op || a->op != b->op || a->nsub ||
	    a->nin != b->nin || a->nin != n->noperands || b->out[0] != graph_became(g, v) ||
	    !params_same(a->op, a->params, b->params))
		return NULL;
	return b;
}

/*
 * If the optimizer has replaced a node by one of the same operator and attributes with other operands, as for a Reshape behind a
 * Reshape, the new model's node reads these operands: fills x->operand.
 */
static void take_operands(struct simplify *x, uint32_t i)
{
	const struct graph *g = x->graph;
	const struct onnx_node *n = onnx_file_node(x->file, i);
	const struct node *before, *now = node_now(x, n, &before);
	uint32_t *now_read;

	if (!now)
		return;
	now_read = arena_new_n(&x->source.arena, uint32_t, n->noperands + 1);
	for (uint32_t k = 0; k < n->noperands; k++) {
		uint32_t v = *n->in[k] ? source_id(&x->source, n->in[k]) : NO_VALUE;
		now_read[k] = NO_VALUE;
		if ((v == NO_VALUE) != (before->in[k] == NO_VALUE) ||
		    (v == NO_VALUE) != (now->in[k] == NO_VALUE))
			return;
		if (v == NO_VALUE)
			continue;
		if (graph_became(g, v) != graph_became(g, before->in[k]))
			return; /* an old version was upgraded: operands mean something else */
		uint32_t to = graph_became(g, now->in[k]);
		now_read[k] = stands_for(x, v);
		if (to == graph_became(g, v))
			continue;
		now_read[k] = x->first[to];
		if (now_read[k] == NO_VALUE)
			return; /* a value that the optimizer has made */
		int64_t from = source_maker(&x->source, file_name(x, now_read[k]));
		if (!is_constant(x, now_read[k]) && from >= 0 && x->place[from] >= x->place[i])
			return;
	}
	x->operand[i] = now_read;
}

/* The value that operand k of node i of the file reads in the new model; NO_VALUE if the graph has none. */
static uint32_t operand_now(const struct simplify *x, uint32_t i, uint32_t k)
{
	const struct onnx_node *n = onnx_file_node(x->file, i);
	uint32_t v = source_id(&x->source, n->in[k]);

	if (x->operand[i] && k < n->noperands)
		return x->operand[i][k];
	return v == NO_VALUE || onnx_file_inner_name(x->file, n->in[k]) ? v : stands_for(x, v);
}

static const char *rename_one(void *arg, uint32_t node, int64_t operand, const char *name)
{
	const struct simplify *x = arg;
	uint32_t v = source_id(&x->source, name);

	if (operand == ONNX_RESULT && v != NO_VALUE && x->unread[v])
		return x->unread[v];
	if (operand >= 0)
		v = operand_now(x, node, (uint32_t)operand);
	else if (operand == ONNX_CAPTURE && v != NO_VALUE && !onnx_file_inner_name(x->file, name))
		v = stands_for(x, v);
	return v == NO_VALUE ? name : x->name[v];
}

/* ---- what the outputs need */

static void follow(struct simplify *x, uint32_t v)
{
	if (v == NO_VALUE || x->seen[v])
		return;
	x->seen[v] = true;
	if (x->nleft == x->cap_left) {
		x->cap_left = x->cap_left ? 2 * x->cap_left : 64;
		x->left = arena_grow(&x->source.arena, x->left, x->nleft, x->cap_left,
				     sizeof(*x->left));
	}
	x->left[x->nleft++] = v;
}

static void add_constant(struct simplify *x, uint32_t v)
{
	const struct tensor *t = is_weight(x, v) ? NULL : constant_of(x, v);
	int64_t i = source_maker(&x->source, file_name(x, v));

	x->folded += t && i >= 0 && !onnx_file_node(x->file, (uint32_t)i)->constant;
	borders_put(&x->source, &x->constant, &(struct onnx_border){.name = x->name[v], .t = t});
}

/* Takes along the scale and zero point that an annotation of quantization names, if they are initializers. */
static void follow_parameters(struct simplify *x, uint32_t v)
{
	const char *const *names;
	uint32_t n = onnx_file_parameters(x->file, x->name[v], &names);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t p = source_id(&x->source, names[i]);
		if (p != NO_VALUE && is_weight(x, p))
			follow(x, p);
	}
}

static int follow_one(struct simplify *x, uint32_t v)
{
	int64_t i = source_maker(&x->source, file_name(x, v));

	follow_parameters(x, v);
	if (is_constant(x, v)) {
		add_constant(x, v);
		return 0;
	}
	if (i < 0 && !x->graph->value[v]->is_input)
		return FAIL(x->d, E_MODEL_NAME, .slot = fmt(x->d, "value '%s'", file_name(x, v)),
			    .expected = "a node, an initializer or an input that gives it",
			    .actual = "none");
	if (i < 0 || x->chosen[i])
		return 0;
	x->chosen[i] = true;
	take_operands(x, (uint32_t)i);
	for (uint32_t k = 0; k < onnx_file_node(x->file, (uint32_t)i)->nin; k++)
		if (*onnx_file_node(x->file, (uint32_t)i)->in[k])
			follow(x, operand_now(x, (uint32_t)i, k));
	return 0;
}

/* A node that stays for one of its results may make another one that became an initializer: there it gets a name that nothing has. */
static void name_unread(struct simplify *x)
{
	struct arena *a = &x->source.arena;

	for (uint32_t i = 0; i < x->nnodes; i++) {
		const struct onnx_node *n = onnx_file_node(x->file, i);
		for (uint32_t k = 0; x->chosen[i] && k < n->nout; k++) {
			uint32_t v = *n->out[k] ? source_id(&x->source, n->out[k]) : NO_VALUE;
			if (v == NO_VALUE || !x->seen[v] || !is_constant(x, v))
				continue;
			const char *name = n->out[k];
			do
				name = arena_printf(a, "%s_unread", name);
			while (source_id(&x->source, name) != NO_VALUE ||
			       onnx_file_inner_name(x->file, name));
			x->unread[v] = name;
		}
	}
}

/* ---- the new model */

static bool fixes_shapes(const struct simplify *x)
{
	return x->o->dim.n > 0 || x->o->shape.n > 0;
}

/* Adds an input or output. Its type is the file's, unless shapes were fixed or it is a constant, whose shape the file may not know. */
static void add_border(struct simplify *x, struct borders *to, uint32_t v, const char *name)
{
	const struct value *now = x->graph->value[graph_became(x->graph, v)];
	bool known = now->info.type.kind != V_NONE &&
		     (now->info.type.kind != V_TENSOR || now->info.shape.rank >= 0);

	borders_add(&x->source, to, name, now);
	if (!known || !(fixes_shapes(x) || is_constant(x, v)))
		to->v[to->n - 1].keep = true;
}

static int find_borders(struct simplify *x)
{
	const struct graph *g = x->graph;
	uint32_t n = onnx_file_outputs(x->file);

	for (uint32_t i = 0; i < g->nin; i++)
		add_border(x, &x->in, g->in[i], file_name(x, g->in[i]));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t o = source_id(&x->source, onnx_file_output(x->file, i));
		if (o == NO_VALUE)
			return FAIL(
				x->d, E_MODEL_NAME,
				.slot = fmt(x->d, "graph output '%s'", onnx_file_output(x->file, i)),
				.expected = "the name of a value of the graph", .actual = "none");
		x->is_output[o] = true;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t o = source_id(&x->source, onnx_file_output(x->file, i)), made;
		name_output(x, o, &made);
		add_border(x, &x->out, o, onnx_file_output(x->file, i));
		follow(x, made);
	}
	return 0;
}

/* Types of the values inside, as far as the file tells any: with other shapes of the inputs they may be others. */
static void find_inner(struct simplify *x)
{
	for (uint32_t i = 0; fixes_shapes(x) && i < x->nnodes; i++) {
		const struct onnx_node *n = onnx_file_node(x->file, i);
		for (uint32_t k = 0; x->chosen[i] && k < n->nout; k++) {
			uint32_t v = *n->out[k] ? source_id(&x->source, n->out[k]) : NO_VALUE;
			const struct value *now =
				v == NO_VALUE ? NULL : x->graph->value[graph_became(x->graph, v)];
			if (now && !x->unread[v] && now->info.type.kind == V_TENSOR &&
			    now->info.shape.rank >= 0)
				borders_add(&x->source, &x->inner, x->name[v], now);
		}
	}
}

static int prepare(struct simplify *x)
{
	struct arena *a = &x->source.arena;
	struct run_config *c = &x->o->config;

	c->optimize = OPTIMIZE_BASIC;
	c->device = "cpu";
	c->to_file = true;
	c->fixed_dims = x->o->dim;
	c->fixed_shapes = x->o->shape;
	int rc = source_open(&x->source, x->o->operand[0], c, x->d);
	if (rc)
		return rc;
	const struct graph *g = x->graph = x->source.graph;
	x->file = x->source.file;
	for (uint32_t i = 0; i < onnx_file_nodes(x->file); i++)
		x->nbefore += !onnx_file_node(x->file, i)->constant;
	x->taken.arena = a;
	x->file_name = arena_new_n(a, const char *, g->nvalues + 1);
	for (uint32_t v = 0; v < g->nvalues; v++)
		x->file_name[v] = g->value[v]->name;
	rc = inline_branches(x);
	if (rc)
		return rc;
	x->nnodes = onnx_file_nodes(x->file);
	x->first = arena_new_n(a, uint32_t, g->nvalues + 1);
	x->made_by = arena_new_n(a, uint32_t, g->nvalues + 1);
	x->name = arena_new_n(a, const char *, g->nvalues + 1);
	x->unread = arena_new_n(a, const char *, g->nvalues + 1);
	x->is_output = arena_new_n(a, bool, g->nvalues + 1);
	x->seen = arena_new_n(a, bool, g->nvalues + 1);
	x->chosen = arena_new_n(a, bool, x->nnodes + 1);
	x->operand = arena_new_n(a, uint32_t *, x->nnodes + 1);
	for (uint32_t v = 0; v < g->nvalues; v++) {
		x->first[v] = NO_VALUE;
		x->made_by[v] = NO_NODE;
		x->name[v] = x->file_name[v];
	}
	for (uint32_t i = session_model(x->source.session)->file_nodes; i-- > 0;)
		for (uint32_t k = 0; k < g->node[i]->nout; k++)
			if (g->node[i]->out[k] != NO_VALUE)
				x->made_by[g->node[i]->out[k]] = i;
	sort_nodes(x);
	find_classes(x);
	return 0;
}

/* The name of the file of external data; NULL: none. A model without weights says where they would be. */
static int name_external(const struct simplify *x, const char **name)
{
	int rc = options_external(x->o, x->o->save, name, x->d);

	if (!rc && !*name && x->o->strip_weights)
		*name = !strcmp(x->o->save, "-") ? "model.onnx.data"
						 : fmt(x->d, "%s.data", path_base(x->o->save));
	return rc;
}

static int write_model(struct simplify *x, uint32_t *count)
{
	uint32_t *node = arena_new_n(&x->source.arena, uint32_t, x->nnodes + 1), n = 0;
	const char *external = NULL;
	int rc = name_external(x, &external);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < x->nnodes; i++)
		if (x->chosen[x->order[i]])
			node[n++] = x->order[i];
	const struct onnx_part part = {.node = node,
				       .nnodes = n,
				       .rename = rename_one,
				       .rename_arg = x,
				       .in = x->in.v,
				       .nin = x->in.n,
				       .constant = x->constant.v,
				       .nconstant = x->constant.n,
				       .out = x->out.v,
				       .nout = x->out.n,
				       .retyped = fixes_shapes(x),
				       .inner = x->inner.v,
				       .ninner = x->inner.n,
				       .strip = x->o->strip_weights,
				       .external = external};
	*count = n;
	return onnx_save_part(x->file, &part, x->o->save, x->d);
}

/* Says which multi-device annotations are gone with their nodes. */
static void tell_annotations(const struct simplify *x)
{
	const struct onnx_node *first = NULL;
	struct arena a = {0};
	uint64_t n = 0;

	for (uint32_t i = 0; i < x->nnodes; i++) {
		const struct onnx_node *node = onnx_file_node(x->file, i);
		if (x->chosen[i] || !node->annotated)
			continue;
		first = first ? first : node;
		n++;
	}
	if (first)
		WARN(x->d, E_MODEL_FORMAT, .node = first->title, .op = *first->op ? first->op : "If",
		     .message = fmt(x->d, "the multi-device annotations of %s are left out",
				    str_many(&a, n, "node")),
		     .hint = "the model does without these nodes");
	arena_free(&a);
}

static void tell(const struct simplify *x, uint32_t nodes)
{
	struct arena a = {0};
	struct json j;

	if (x->o->json) {
		json_envelope_begin(&j, x->o, x->d);
		json_string(&j, "path", x->o->save);
		json_uint(&j, "nodes", nodes);
		json_uint(&j, "nodes_before", x->nbefore);
		json_uint(&j, "initializers", x->constant.n);
		json_uint(&j, "folded", x->folded);
		borders_json(&j, "inputs", &x->in);
		borders_json(&j, "outputs", &x->out);
		json_envelope_end(&j, x->d);
	} else if (!x->o->quiet) {
		FILE *f = listing_begin(stderr);
		fprintf(f, "model    %s of %" PRIu32 ", %s, %" PRIu32 " of them folded, in %s\n",
			str_many(&a, nodes, "node"), x->nbefore,
			str_many(&a, x->constant.n, "initializer"), x->folded,
			tame_word(&a, x->o->save));
		borders_print(&x->source, "inputs", &x->in, f);
		borders_print(&x->source, "outputs", &x->out, f);
		listing_end(f);
	}
	arena_free(&a);
}

int cmd_simplify(struct options *o, struct diag *d)
{
	struct simplify x = {.o = o, .d = d};
	uint32_t nodes = 0;
	int rc = 0;

	if (!o->save)
		rc = options_fail(o, "save", "no file is named for the model", "add -o OUT.onnx", d);
	rc = rc ? rc : prepare(&x);
	rc = rc ? rc : find_borders(&x);
	while (!rc && x.nleft)
		rc = follow_one(&x, x.left[--x.nleft]);
	if (!rc) {
		name_unread(&x);
		find_inner(&x);
	}
	rc = rc ? rc : write_model(&x, &nodes);
	if (!rc) {
		tell_annotations(&x);
		tell(&x, nodes);
	}
	source_close(&x.source);
	return rc;
}
