/* SPDX-License-Identifier: Apache-2.0 */
/* Loads graphs, bodies and nodes; replaces the names of values by ids. */
#include "base/file.h"
#include "onnx/internal.h"

#include <inttypes.h>

/* ---- names */

static struct scope *scope_new(struct loader *l, struct graph *g, struct scope *up)
{
	struct scope *s = arena_new(&l->scratch, struct scope);

	s->g = g;
	s->names.arena = &l->scratch;
	s->up = up;
	s->opsets = up ? up->opsets : l->opsets;
	s->env = up ? up->env : NULL;
	s->prefix = up ? up->prefix : "";
	return s;
}

static int64_t own_name(const struct scope *s, struct pb_span name)
{
	return map_get(&s->names, (const char *)name.p, name.n);
}

static void set_name(struct scope *s, struct pb_span name, uint32_t id)
{
	map_set(&s->names, (const char *)name.p, name.n, id);
}

static struct value *new_value(struct loader *l, struct scope *s, struct pb_span name)
{
	struct value *v = graph_add_value(s->g, NULL);

	v->name = *s->prefix ? arena_printf(l->a, "%s%.*s", s->prefix,
					    (int)(name.n < TITLE ? name.n : TITLE), name.p)
			     : span_text(l->a, name);
	/* a name in a mapped file would bring its page back into memory at each look-up */
	map_set(&s->names, *s->prefix ? (const char *)name.p : v->name, name.n, v->id);
	return v;
}

static void set_const(struct value *v, const struct tensor *t)
{
	v->init = t;
	v->info.type = t->type;
	v->info.shape = t->shape;
	v->info.known = t;
}

static void set_missing(struct value *v, const struct tensor *t)
{
	v->missing = t;
	v->info.type = t->type;
	v->info.shape = t->shape;
}

/*
 * A body uses value `outer` of the enclosing graph. It gets a value of its own: a constant if the outer value is one,
 * otherwise a capture, which becomes an extra input of the control-flow node.
 */
static uint32_t capture_value(struct loader *l, struct scope *s, uint32_t outer)
{
	const struct value *o = s->up->g->value[outer];
	struct value *v = graph_add_value(s->g, NULL);

	v->name = o->name;
	v->info = o->info;
	if (o->init) {
		set_const(v, o->init);
		return v->id;
	}
	v->is_input = true;
	if (s->ncaptures == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 8;
		s->captures = arena_grow(&l->scratch, s->captures, s->ncaptures, s->cap,
					 sizeof(*s->captures));
	}
	s->captures[s->ncaptures++] = (struct capture){outer, v->id};
	return v->id;
}

bool scope_find(struct loader *l, struct scope *s, struct pb_span name, uint32_t *id)
{
	int64_t own = own_name(s, name);
	uint32_t outer;

	if (own >= 0) {
		*id = (uint32_t)own;
		return true;
	}
	if (!s->up || !scope_find(l, s->up, name, &outer))
		return false;
	*id = outer == NO_VALUE || s->g == s->up->g ? outer : capture_value(l, s, outer);
	set_name(s, name, *id);
	return true;
}

static int name_fail(struct loader *l, struct pb_span name, const char *expected, const char *actual)
{
	return FAIL(l->d, E_MODEL_NAME, .slot = fmt(l->d, "value '%s'", span_show(l, name)),
		    .expected = expected, .actual = actual);
}

static int check_name(struct loader *l, struct pb_span name)
{
	if (name.n > UINT16_MAX)
		return name_fail(l, name, "a name of at most 65535 bytes", fmt(l->d, "%zu", name.n));
	if (name.n && memchr(name.p, 0, name.n))
		return name_fail(l, name, "a name without NUL bytes", "one with");
	return 0;
}

/* ---- initializers, inputs, declared types */

static int add_initializers(struct loader *l, struct scope *s, struct pb_span bytes, bool sparse)
{
	struct pb_span rest = bytes, m;

	while (pb_each(&rest, sparse ? GRAPH_SPARSE : GRAPH_INITIALIZER, &m)) {
		struct tensor *t = NULL;
		struct pb_span name = {0};
		int rc = load_tensor(l, m, sparse, "initializer", &t, &name);
		if (!rc)
			rc = check_name(l, name);
		if (!rc && !name.n)
			rc = FAIL(l->d, E_MODEL_NAME, .slot = "initializer",
				  .message = "it has no name");
		if (!rc && own_name(s, name) >= 0)
			rc = name_fail(l, name, "one initializer of this name", "a second one");
		int fatal = load_excuse(l, rc);
		if (fatal)
			return fatal;
		if (name.n && own_name(s, name) < 0) {
			struct value *v = new_value(l, s, name);
			if (t && rc == -E_WEIGHT_EXTERNAL)
				set_missing(v, t);
			else if (t)
				set_const(v, t);
		}
		file_pass(m.p, m.n);
	}
	return 0;
}

/* Only the name and type of a ValueInfoProto are used: doc strings and metadata are not decoded. */
static const struct pb_lazy value_info_lazy[] = {
	{&onnx__value_info_proto__descriptor, 1u << 3 | 1u << 4},
	{NULL, 0},
};

static int read_value_info(struct loader *l, struct arena *a, struct pb_span m,
			   const Onnx__ValueInfoProto **out, struct pb_span *name)
{
	struct pb_decoder c = pb_decoder(a, value_info_lazy, m.n);
	struct pb_span rest = m;
	const Onnx__ValueInfoProto *p = pb_decode(&c, &onnx__value_info_proto__descriptor, m);

	*name = (struct pb_span){0};
	while (pb_each(&rest, 1, name))
		;
	*out = p;
	if (!p)
		return FAIL(l->d, E_MODEL_FORMAT, .slot = "value info",
			    .message = "the declared type of a value is malformed");
	return check_name(l, *name);
}

/*
 * Whether the user gives a value for this input, that is, whether one of the user's words begins with the input's
 * name and '=' or ':'.
 */
static bool is_given(const struct loader *l, struct pb_span name)
{
	for (uint32_t k = 0; k < l->options->ngiven; k++)
		for (int64_t i = 0; i < l->options->given[k].n; i++) {
			const struct text *t = &l->options->given[k].v[i];
			if (t->n > name.n && !memcmp(t->s, name.p, name.n) &&
			    (t->s[name.n] == '=' || t->s[name.n] == ':'))
				return true;
		}
	return false;
}

/* Refuses an input whose default has another type or shape, as ONNX Runtime does. */
static int check_default(struct loader *l, const struct value *v, const Onnx__ValueInfoProto *p)
{
	struct vinfo told = {.shape = SHAPE_UNKNOWN};
	struct diag *d = l->d;

	if (!p->type || load_type(l, p->type, true, &told.type, &told.shape) ||
	    !vinfo_contradicts(&told, &v->info))
		return 0;
	return FAIL(d, E_MODEL_DECLARED, .slot = fmt(d, "input '%s'", v->name),
		    .message = fmt(d, "the initializer of this name has another type or shape"),
		    .expected = fmt(d, "%s %s, as the initializer", type_str(&d->arena, v->info.type),
				    shape_str(&d->arena, &v->info.shape, NULL)),
		    .actual = fmt(d, "%s %s, as declared", type_str(&d->arena, told.type),
				  shape_str(&d->arena, &told.shape, NULL)));
}

static void keep_false_hint(struct loader *l, struct scope *s, const struct false_hint *hint)
{
	struct false_hint *h = arena_dup(l->a, hint, sizeof(*hint));

	h->next = s->g->false_hints;
	s->g->false_hints = h;
}

/* Keeps a declaration that contradicts the constant that it is about, or an earlier one; the constant, or the earlier one, counts. */
static void keep_contradiction(struct loader *l, struct scope *s, const struct value *v,
			       const Onnx__ValueInfoProto *p)
{
	struct vinfo told = {.shape = SHAPE_UNKNOWN};

	if (p->type && !load_type(l, p->type, true, &told.type, &told.shape) &&
	    vinfo_contradicts(&told, &v->info))
		keep_false_hint(l, s, &(struct false_hint){.value = v->id, .told = told});
}

static void keep_negative(struct loader *l, struct scope *s, const struct value *v,
			  const Onnx__ValueInfoProto *p)
{
	const Onnx__TensorShapeProto *shape =
		p->type && p->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
			? p->type->tensor_type->shape
			: NULL;

	for (size_t i = 0; shape && i < shape->n_dim; i++)
		if (shape->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
		    shape->dim[i]->dim_value < 0) {
			keep_false_hint(l, s,
					&(struct false_hint){.value = v->id,
							     .negative = shape->dim[i]->dim_value});
			return;
		}
}

/* The user overrides a default: the value becomes an input. If no type is declared for it, the initializer's type stays. */
static int override_default(struct loader *l, struct scope *s, struct value *v,
			    const Onnx__ValueInfoProto *p)
{
	v->init = v->info.known = NULL;
	v->is_input = true;
	s->g->in[s->g->nin++] = v->id;
	return p->type ? load_type(l, p->type, false, &v->info.type, &v->info.shape) : 0;
}

static int add_input(struct loader *l, struct scope *s, struct pb_span m)
{
	struct arena tmp = {0};
	const Onnx__ValueInfoProto *p;
	struct pb_span name;
	int rc = read_value_info(l, &tmp, m, &p, &name);
	int64_t known = rc ? -1 : own_name(s, name);

	if (!rc && !name.n)
		rc = FAIL(l->d, E_MODEL_NAME, .slot = "graph input", .message = "it has no name");
	else if (!rc && !p->type && !s->up)
		rc = FAIL(l->d, E_MODEL_GRAPH, .slot = fmt(l->d, "input '%s'", span_show(l, name)),
			  .expected = "a type", .actual = "none");
	else if (!rc && known >= 0 && !s->g->value[known]->init)
		rc = name_fail(l, name, "one input of this name", "a second one");
	else if (!rc && known >= 0 && !s->up)
		rc = check_default(l, s->g->value[known], p);
	/* An initializer that is also listed as an input is that input's default. */
	if (!rc && known >= 0 && !s->up && is_given(l, name))
		rc = override_default(l, s, s->g->value[known], p);
	else if (!rc && known >= 0 && !s->up)
		s->g->value[known]->is_default = true;
	if (rc || known >= 0)
		goto out;
	struct value *v = new_value(l, s, name);
	v->is_input = true;
	s->g->in[s->g->nin++] = v->id;
	keep_negative(l, s, v, p);
	if (p->type) {
		rc = load_type(l, p->type, false, &v->info.type, &v->info.shape);
		if (rc && l->d && !l->d->last->slot)
			l->d->last->slot = fmt(l->d, "input '%s'", v->name);
	}
out:
	arena_free(&tmp);
	return rc;
}

static int add_inputs(struct loader *l, struct scope *s, struct pb_span bytes)
{
	struct pb_span rest = bytes, m;

	s->g->in = arena_new_n(l->a, uint32_t, pb_occurs(bytes, GRAPH_INPUT));
	while (pb_each(&rest, GRAPH_INPUT, &m)) {
		int rc = load_excuse(l, add_input(l, s, m));
		if (rc)
			return rc;
	}
	return 0;
}

/* Reads the declared types of inner values. They are hints only: shape inference may correct them. */
static int add_hints(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number)
{
	struct pb_span rest = bytes, m, name;
	const Onnx__ValueInfoProto *p;

	while (pb_each(&rest, number, &m)) {
		struct arena tmp = {0};
		int rc = load_excuse(l, read_value_info(l, &tmp, m, &p, &name));
		int64_t id = p && !rc ? own_name(s, name) : -1;
		struct value *v = id >= 0 && id != NO_VALUE ? s->g->value[id] : NULL;
		if (v && (v->init || v->info.type.kind != V_NONE))
			keep_contradiction(l, s, v, p);
		else if (v && p->type && !v->is_input)
			(void)load_type(l, p->type, true, &v->info.type, &v->info.shape);
		if (v)
			keep_negative(l, s, v, p);
		arena_free(&tmp);
		if (rc)
			return rc;
	}
	return 0;
}

static int add_outputs(struct loader *l, struct scope *s, struct pb_span bytes)
{
	size_t n = pb_occurs(bytes, GRAPH_OUTPUT);
	struct pb_span rest = bytes, m;
	struct graph *g = s->g;

	g->out = arena_new_n(l->a, uint32_t, n);
	g->out_name = arena_new_n(l->a, const char *, n);
	while (pb_each(&rest, GRAPH_OUTPUT, &m)) {
		struct pb_span inner = m, name = {0};
		uint32_t id = NO_VALUE;
		int rc;
		while (pb_each(&inner, 1, &name))
			;
		rc = check_name(l, name);
		if (!rc && (!name.n || !scope_find(l, s, name, &id) || id == NO_VALUE))
			rc = FAIL(l->d, E_MODEL_NAME,
				  .slot = fmt(l->d, "graph output '%s'", span_show(l, name)),
				  .message = name.n ? "no node, input or initializer gives it"
						    : "it has no name");
		if (rc) {
			rc = load_excuse(l, rc);
			if (rc)
				return rc;
			continue;
		}
		g->value[id]->is_output = true;
		g->out_name[g->nout] = span_text(l->a, name);
		g->out[g->nout++] = id;
	}
	return 0;
}

/* ---- nodes */

struct node_view node_view(struct pb_span bytes, uint32_t index)
{
	struct node_view v = {.bytes = bytes, .index = index};
	struct pb_span rest = bytes;
	struct pb_field f;

	while (pb_next(&rest, &f)) {
		if (f.wire != PB_BYTES)
			continue;
		v.nin += f.number == NODE_INPUT;
		v.nout += f.number == NODE_OUTPUT;
		if (f.number == NODE_NAME)
			v.name = f.bytes;
		else if (f.number == NODE_TYPE)
			v.type = f.bytes;
		else if (f.number == NODE_DOMAIN)
			v.domain = f.bytes;
		else if (f.number == NODE_OVERLOAD)
			v.overload = f.bytes;
	}
	if (span_is(v.domain, "ai.onnx"))
		v.domain.n = 0;
	return v;
}

const char *node_title(struct arena *a, const struct scope *s, const struct node_view *v)
{
	struct pb_span name = v->name.n ? v->name : v->type;
	/* A name is cut only in the body of a function, which may be expanded many times: cut names look alike. */
	int n = *s->prefix && name.n > TITLE ? TITLE : (int)name.n;

	if (v->name.n)
		return arena_printf(a, "%s%.*s", s->prefix, n, name.p);
	return arena_printf(a, "%s%.*s_%" PRIu32, s->prefix, n, n ? name.p : (const uint8_t *)"",
			    v->index);
}

/* Puts the node's name and operator into the newest finding. */
static int at_node(struct loader *l, const struct scope *s, const struct node_view *v, int rc)
{
	if (rc && l->d) {
		const char *type = span_show(l, v->type);
		if (v->domain.n)
			type = fmt(l->d, "%s::%s", span_show(l, v->domain), type);
		diag_where(l->d, NULL, node_title(&l->scratch, s, v), type);
	}
	return rc;
}

static bool is_constant(struct loader *l, const struct node_view *v)
{
	return !v->domain.n && span_is(v->type, "Constant") && !function_find(l, v);
}

/*
 * Enters the name of a node's output: a new value or, for a function's result, the value that the caller has made. Values from
 * `first` on are those that the node has made itself.
 */
static int declare_output(struct loader *l, struct scope *s, struct pb_span name, uint32_t first,
			  uint32_t *id)
{
	int64_t known = own_name(s, name);
	int rc = check_name(l, name);

	if (rc)
		return rc;
	if (known < 0) {
		*id = new_value(l, s, name)->id;
		return 0;
	}
	*id = (uint32_t)known;
	for (uint32_t k = 0; k < s->nresults; k++) {
		if (span_same(s->result[k], name) && !s->written[k]) {
			s->written[k] = true;
			return 0;
		}
	}
	const struct value *v = known == NO_VALUE ? NULL : s->g->value[known];
	return name_fail(l, name, "one place that makes it",
			 !v || v->is_input ? "a node's output that is an input, too"
			 : v->init	   ? "a node's output that is a constant, too"
			 : v->id >= first  ? "an output that the node lists twice"
					   : "an output of two nodes");
}

/* Keeps the name and the value of a Constant node, so that `infer check` sees names that occur twice and nodes out of order. */
static void keep_constant(struct loader *l, struct scope *s, const struct node_view *v, uint32_t value)
{
	struct constant_node *c = arena_new(l->a, struct constant_node);

	*c = (struct constant_node){v->name.n ? node_title(l->a, s, v) : "", value, s->g->constants};
	s->g->constants = c;
}

static int declare_node(struct loader *l, struct scope *s, const struct node_view *v)
{
	struct pb_span rest = v->bytes, name;
	uint32_t id = NO_VALUE, first = s->g->nvalues;
	struct tensor *t;
	int rc = 0;

	if (!v->type.n)
		return FAIL(l->d, E_MODEL_GRAPH, .expected = "an operator", .actual = "none");
	while (!rc && pb_each(&rest, NODE_OUTPUT, &name))
		if (name.n)
			rc = declare_output(l, s, name, first, &id);
	if (rc || !is_constant(l, v))
		return rc;
	if (v->nout != 1 || v->nin || id == NO_VALUE)
		return FAIL(l->d, E_OP_INPUTS, .expected = "no input and one output",
			    .actual = fmt(l->d, "%" PRIu32 " and %" PRIu32, v->nin, v->nout));
	rc = attrs_constant(l, s, v, &t);
	if (!rc)
		set_const(s->g->value[id], t);
	if (!rc)
		keep_constant(l, s, v, id);
	return rc;
}

int load_declare(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number)
{
	struct pb_span rest = bytes, m;
	uint32_t index = 0;

	while (pb_each(&rest, number, &m)) {
		struct node_view v = node_view(m, index++);
		int rc = load_excuse(l, at_node(l, s, &v, declare_node(l, s, &v)));
		if (rc)
			return rc;
		file_pass(m.p, m.n);
	}
	return 0;
}

static int node_inputs(struct loader *l, struct scope *s, const struct node_view *v, uint32_t *in,
		       uint32_t *nin)
{
	struct pb_span rest = v->bytes, name;
	uint32_t n = 0, used = 0;

	while (pb_each(&rest, NODE_INPUT, &name)) {
		int rc = check_name(l, name);
		in[n] = NO_VALUE;
		if (!rc && name.n && !scope_find(l, s, name, &in[n]))
			rc = FAIL(l->d, E_MODEL_NAME, .slot = fmt(l->d, "input %" PRIu32, n),
				  .message = fmt(
					  l->d,
					  "it reads '%s', which no node, input or initializer gives",
					  span_show(l, name)));
		if (rc)
			return rc;
		if (in[n++] != NO_VALUE)
			used = n;
	}
	*nin = used; /* trailing omitted inputs are dropped */
	return 0;
}

/* Looks up the ids of the node's outputs; load_declare has entered their names. */
static void node_outputs(const struct scope *s, const struct node_view *v, uint32_t *out,
			 uint32_t *nout)
{
	struct pb_span rest = v->bytes, name;
	uint32_t n = 0, used = 0;

	while (pb_each(&rest, NODE_OUTPUT, &name)) {
		int64_t id = name.n ? own_name(s, name) : -1;
		out[n++] = id < 0 ? NO_VALUE : (uint32_t)id;
		if (id >= 0 && id != NO_VALUE)
			used = n;
	}
	*nout = used;
}

static void slot_limits(const struct slot *slots, uint32_t *min, uint32_t *max)
{
	uint32_t n = 0;

	*min = *max = 0;
	for (const struct slot *s = slots; s && s->name; s++) {
		n++;
		if (!s->optional)
			*min = n;
		*max = s->variadic ? UINT32_MAX : n;
	}
}

static int count_fail(struct loader *l, const char *what, uint32_t min, uint32_t max, uint32_t n)
{
	const char *expected = min == max	   ? fmt(l->d, "%" PRIu32, min)
			       : max == UINT32_MAX ? fmt(l->d, "at least %" PRIu32, min)
						   : fmt(l->d, "%" PRIu32 " to %" PRIu32, min, max);

	return FAIL(l->d, E_OP_INPUTS, .slot = what, .message = "their number is wrong",
		    .expected = expected, .actual = fmt(l->d, "%" PRIu32, n));
}

static int check_inputs(struct loader *l, const struct op *op, const uint32_t *in, uint32_t nin)
{
	uint32_t min, max, i = 0;

	if (!op->in)
		return 0;
	slot_limits(op->in, &min, &max);
	if (nin < min || nin > max)
		return count_fail(l, "inputs", min, max, nin);
	for (const struct slot *s = op->in; s->name && i < nin; s++, i++)
		if (!s->optional && in[i] == NO_VALUE)
			return FAIL(l->d, E_OP_INPUTS,
				    .slot = fmt(l->d, "input %" PRIu32 " '%s'", i, s->name),
				    .message = "it is missing");
	return 0;
}

/* Gives every output that the operator always writes a value, even if the model does not name that output. */
static int check_outputs(struct loader *l, struct graph *g, const struct op *op, uint32_t *out,
			 uint32_t given, uint32_t *nout)
{
	uint32_t min, max, i = 0;

	if (!op->out)
		return 0;
	slot_limits(op->out, &min, &max);
	if (given < min || given > max)
		return count_fail(l, "outputs", min, max, given);
	for (const struct slot *s = op->out; s->name && i < given; s += !s->variadic, i++) {
		if (out[i] != NO_VALUE || s->optional || (op->flags & OP_OPTIONAL_OUT))
			continue;
		out[i] = graph_add_value(g, NULL)->id;
		if (*nout <= i)
			*nout = i + 1;
	}
	return 0;
}

/* Version of the domain that the function or the model imports; 0 if neither imports the domain. */
static int64_t scope_version(const struct loader *l, const struct scope *s, struct pb_span domain)
{
	const struct opsets *lists[] = {&s->opsets, &l->opsets};

	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			if (span_is(domain, lists[k]->v[i].domain))
				return lists[k]->v[i].version;
	return !domain.n && l->m->ir_version < 3 ? 1 : 0;
}

/*
 * Newest version of a domain. Some domains have got a newer version that changed no operator we have a row for; the
 * function lists such versions.
 */
static int64_t newest_version(const char *domain)
{
	static const struct opset known[] = {{"ai.onnx.ml", 5},
					     {"ai.onnx.preview.training", 1},
					     {"ai.onnx.training", 1},
					     {"com.microsoft", 1}};
	int64_t newest = op_domain_version(domain);

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(known[i].domain, domain) && known[i].version > newest)
			newest = known[i].version;
	return newest;
}

/* Finds the operator's row for the imported opset; *row is NULL if the operator is unknown. */
static int find_row(struct loader *l, const struct scope *s, const struct node_view *v,
		    const char *domain, const char *type, int64_t *version, const struct op **row)
{
	*row = NULL;
	*version = scope_version(l, s, v->domain);
	if (!*version)
		return FAIL(l->d, E_MODEL_DOMAIN,
			    .expected = fmt(l->d, "an opset_import of domain '%s'",
					    *domain ? domain : "ai.onnx"),
			    .actual = "none");
	if (op_domain_known(domain) && *version > newest_version(domain))
		return FAIL(l->d, E_MODEL_VERSION,
			    .slot = fmt(l->d, "opset of '%s'", *domain ? domain : "ai.onnx"),
			    .expected = fmt(l->d, "at most %" PRId64, newest_version(domain)),
			    .actual = fmt(l->d, "%" PRId64, *version));
	const struct op *op = op_find(domain, type, *version);
	if (op && !(op->flags & OP_INTERNAL) && !strcmp(op->name, type))
		*row = op;
	return 0;
}

/* Lists the outer values that the bodies capture, each value once: they become inputs of the control-flow node. */
static uint32_t *gather_captures(struct loader *l, struct arena *tmp, const struct bodies *b,
				 uint32_t *ncap)
{
	struct map seen = {.arena = tmp};
	uint32_t total = 0, n = 0;

	for (uint32_t k = 0; k < b->n; k++)
		total += b->scope[k]->ncaptures;
	uint32_t *caps = arena_new_n(tmp, uint32_t, total);
	for (uint32_t k = 0; k < b->n; k++) {
		struct scope *s = b->scope[k];
		struct graph *g = b->graph[k];
		g->ncap = s->ncaptures;
		g->capture = arena_new_n(l->a, uint32_t, g->ncap);
		g->in = arena_grow(l->a, g->in, g->nin, g->nin + g->ncap, sizeof(*g->in));
		for (uint32_t j = 0; j < g->ncap; j++) {
			const uint32_t *outer = &s->captures[j].outer;
			int64_t at = map_get(&seen, (const char *)outer, sizeof(*outer));
			if (at < 0) {
				at = n;
				caps[n] = *outer;
				map_set(&seen, (const char *)outer, sizeof(*outer), n++);
			}
			g->capture[j] = (uint32_t)at;
			g->in[g->nin + j] = s->captures[j].inner;
		}
	}
	*ncap = n;
	return caps;
}

const struct origin *next_origin(struct loader *l, const char *name, const char *op,
				 const struct op *row)
{
	struct origin *o = origin_new(l->a, name, op, row ? row->since : 0);

	o->number = ++l->nodes;
	return o;
}

static void make_node(struct loader *l, struct arena *tmp, struct scope *s, const struct node_view *v,
		      const struct op *op, struct node *like, const struct bodies *b)
{
	uint32_t ncap;
	uint32_t *caps = gather_captures(l, tmp, b, &ncap);
	uint32_t *in = arena_grow(tmp, like->in, like->nin, like->nin + ncap, sizeof(*in));
	const char *type =
		*like->domain ? arena_printf(tmp, "%s::%s", like->domain, like->type) : like->type;

	if (ncap)
		memcpy(in + like->nin, caps, ncap * sizeof(*in));
	struct node *n = graph_add_node(s->g, op, like->params, in, like->nin + ncap, like->out,
					like->nout, next_origin(l, node_title(tmp, s, v), type, op));
	n->nin -= ncap;
	n->ncap = ncap;
	n->type = like->type;
	n->domain = like->domain;
	n->version = like->version;
	n->nsub = b->n;
	n->unread = b->unread;
	if (b->n)
		n->sub = arena_dup(l->a, b->graph, b->n * sizeof(*n->sub));
}

/* Loads a node that is an operator, not a function call. */
static int load_operator(struct loader *l, struct arena *tmp, struct scope *s,
			 const struct node_view *v, struct node *n)
{
	struct bodies bodies = {0};
	const struct op *op;
	struct op row = {0};
	int64_t version;

	if ((v->type.n && memchr(v->type.p, 0, v->type.n)) ||
	    (v->domain.n && memchr(v->domain.p, 0, v->domain.n)))
		return FAIL(l->d, E_MODEL_GRAPH, .message = "the operator's name holds a NUL byte");
	n->type = span_text(l->a, v->type);
	n->domain = v->domain.n ? span_text(l->a, v->domain) : "";
	int rc = find_row(l, s, v, n->domain, n->type, &version, &op);
	if (rc)
		return rc;
	n->version = (int)(version < INT32_MAX ? version : INT32_MAX);
	if (op) {
		row = op_resolved(op);
		n->type = op->name;
	}
	rc = attrs_load(l, s, v, op ? &row : NULL, &n->params, &bodies);
	if (!rc && op)
		rc = check_inputs(l, &row, n->in, n->nin);
	if (!rc && op)
		rc = check_outputs(l, s->g, &row, n->out, v->nout, &n->nout);
	if (!rc)
		make_node(l, tmp, s, v, op, n, &bodies);
	return rc;
}

static int load_node(struct loader *l, struct scope *s, const struct node_view *v)
{
	struct arena tmp = {0};
	struct node n = {0};
	struct function *f = function_find(l, v);

	n.in = arena_new_n(&tmp, uint32_t, v->nin);
	n.out = arena_new_n(&tmp, uint32_t, v->nout);
	int rc = node_inputs(l, s, v, n.in, &n.nin);
	if (!rc && !f)
		rc = function_refuse_overload(l, v);
	if (!rc) {
		node_outputs(s, v, n.out, &n.nout);
		rc = f ? function_call(l, s, v, f, n.in, n.nin, n.out, n.nout)
		       : load_operator(l, &tmp, s, v, &n);
	}
	arena_free(&tmp);
	return rc;
}

int load_nodes(struct loader *l, struct scope *s, struct pb_span bytes, uint32_t number)
{
	struct pb_span rest = bytes, m;
	uint32_t index = 0;

	while (pb_each(&rest, number, &m)) {
		struct node_view v = node_view(m, index++);
		if (!v.type.n || is_constant(l, &v))
			continue;
		int rc = load_excuse(l, at_node(l, s, &v, load_node(l, s, &v)));
		if (rc)
			return rc;
		file_pass(m.p, m.n);
	}
	return 0;
}

int load_graph(struct loader *l, struct pb_span bytes, struct scope *up, struct scope **scope)
{
	struct pb_span rest = bytes, name = {0};

	while (pb_each(&rest, GRAPH_NAME, &name))
		;
	struct graph *g = graph_new(l->a, l->m, span_text(l->a, name));
	struct scope *s = scope_new(l, g, up);
	uintptr_t at = (uintptr_t)bytes.p - (uintptr_t)l->bytes.p;

	g->place = up && bytes.p && at < l->bytes.n ? at : 0;
	int rc = add_initializers(l, s, bytes, false);
	if (!rc)
		rc = add_initializers(l, s, bytes, true);
	if (!rc)
		rc = add_inputs(l, s, bytes);
	if (!rc)
		rc = load_declare(l, s, bytes, GRAPH_NODE);
	if (!rc)
		rc = add_hints(l, s, bytes, GRAPH_OUTPUT);
	if (!rc)
		rc = add_hints(l, s, bytes, GRAPH_VALUE_INFO);
	if (!rc)
		rc = load_nodes(l, s, bytes, GRAPH_NODE);
	if (!rc)
		rc = add_outputs(l, s, bytes);
	if (!rc)
		rc = load_excuse(l, graph_sort(g, l->d));
	*scope = s;
	return rc;
}
