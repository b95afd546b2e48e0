/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "onnx/forms.h"

#include <inttypes.h>

/* Since this IR version an initializer need not also be listed as an input. */
enum { IR_INITIALIZERS = 4 };

struct onnx_file {
	struct arena arena;
	struct model shell;	/* empty; it owns `store` */
	struct weights *store;	/* the file, and its external data */
	struct pb_span *info;	/* ValueInfoProtos; info_of has their numbers by name */
	struct pb_span *weight; /* initializers; weight_of has their numbers by name */
	bool *sparse;		/* by weight */
	uint32_t nweights, cap_weights;
	struct map info_of, weight_of;
	struct map inner;    /* names that bodies define: how often */
	struct map title_of; /* names of nodes, once a branch has taken the place of a node */
	struct pb_span *annotation; /* of quantization */
	uint32_t nannotations;
	struct pb_span model, graph;
	struct pb_span *bytes; /* of the nodes */
	bool *named;	       /* indexed by node: whether the file gives the node a name */
	struct onnx_node *node;
	uint32_t nnodes, cap_nodes;
	const char **output;
	uint32_t noutputs;
};

/* ---- reading ---------------------------------------------------------------------------------- */

struct names {
	struct arena *arena;
	const char **v;
	uint32_t n, cap;
};

static void add_name(struct names *x, struct pb_span s)
{
	if (x->n == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 4;
		x->v = arena_grow(x->arena, x->v, x->n, x->cap, sizeof(*x->v));
	}
	x->v[x->n++] = span_text(x->arena, s);
}

/* Counts how often bodies define a name. */
struct tally {
	struct map *of;
	int by; /* -1: these bodies go away */
};

/* Names that a body defines. A name that the body itself or an enclosing body defines is not captured from outside. */
struct inner {
	struct map names;
	const struct tally *all; /* NULL: nobody asks */
	const struct inner *up;
};

static void define_name(struct inner *s, struct pb_span name)
{
	if (!name.n)
		return;
	map_set(&s->names, (const char *)name.p, name.n, 1);
	if (!s->all)
		return;
	int64_t n = map_get(s->all->of, (const char *)name.p, name.n);
	map_set(s->all->of, (const char *)name.p, name.n, (uint32_t)((n < 0 ? 0 : n) + s->all->by));
}

static bool defined(const struct inner *s, struct pb_span name)
{
	for (; s; s = s->up)
		if (map_get(&s->names, (const char *)name.p, name.n) >= 0)
			return true;
	return false;
}

/* Enters what a body defines. */
static void define_body(struct inner *s, struct pb_span graph)
{
	struct pb_span rest, m, name;

	for (rest = graph; pb_each(&rest, GRAPH_INPUT, &m);)
		define_name(s, pb_last(m, 1));
	for (rest = graph; pb_each(&rest, GRAPH_INITIALIZER, &m);)
		define_name(s, pb_last(m, 8));
	for (rest = graph; pb_each(&rest, GRAPH_SPARSE, &m);)
		define_name(s, pb_last(pb_last(m, 1), 8));
	for (rest = graph; pb_each(&rest, GRAPH_NODE, &m);) {
		struct pb_span outs = m;
		while (pb_each(&outs, NODE_OUTPUT, &name))
			define_name(s, name);
	}
}

static void capture_body(struct pb_span graph, const struct inner *up, const struct tally *all,
			 struct names *out);

/* Collects the names that the node's bodies read from the enclosing graph. */
static void capture_node(struct pb_span node, const struct inner *up, const struct tally *all,
			 struct names *out)
{
	struct pb_span attributes = node, attribute, graphs, g;

	while (pb_each(&attributes, NODE_ATTRIBUTE, &attribute)) {
		for (graphs = attribute; pb_each(&graphs, ATTRIBUTE_G, &g);)
			capture_body(g, up, all, out);
		for (graphs = attribute; pb_each(&graphs, ATTRIBUTE_GRAPHS, &g);)
			capture_body(g, up, all, out);
	}
}

static void capture_body(struct pb_span graph, const struct inner *up, const struct tally *all,
			 struct names *out)
{
	struct arena a = {0};
	struct inner s = {.names = {.arena = &a}, .all = all, .up = up};
	struct pb_span rest, m, name;

	define_body(&s, graph);
	for (rest = graph; pb_each(&rest, GRAPH_NODE, &m);) {
		struct pb_span ins = m;
		while (pb_each(&ins, NODE_INPUT, &name))
			if (name.n && !defined(&s, name))
				add_name(out, name);
		capture_node(m, &s, all, out);
	}
	for (rest = graph; pb_each(&rest, GRAPH_OUTPUT, &m);) {
		name = pb_last(m, 1);
		if (name.n && !defined(&s, name))
			add_name(out, name);
	}
	arena_free(&a);
}

static void read_node(struct onnx_file *f, uint32_t i, struct pb_span bytes, const struct tally *all)
{
	static const struct scope top = {.prefix = ""};
	struct node_view v = node_view(bytes, i);
	struct names in = {.arena = &f->arena}, out = {.arena = &f->arena};
	struct pb_span rest, name;

	for (rest = bytes; pb_each(&rest, NODE_INPUT, &name);)
		add_name(&in, name);
	uint32_t noperands = in.n;
	capture_node(bytes, NULL, all, &in);
	for (rest = bytes; pb_each(&rest, NODE_OUTPUT, &name);)
		add_name(&out, name);
	f->bytes[i] = bytes;
	f->named[i] = v.name.n != 0;
	f->node[i] = (struct onnx_node){.title = node_title(&f->arena, &top, &v),
					.op = span_text(&f->arena, v.type),
					.in = in.v,
					.out = out.v,
					.nin = in.n,
					.nout = out.n,
					.noperands = noperands,
					.bytes = bytes.n,
					.constant = !v.domain.n && span_is(v.type, "Constant"),
					.annotated = pb_occurs(bytes, NODE_DEVICES) != 0};
}

static void read_graph(struct onnx_file *f)
{
	size_t n = pb_occurs(f->graph, GRAPH_NODE);
	struct pb_span rest = f->graph, m;
	struct names out = {.arena = &f->arena};
	const struct tally all = {&f->inner, 1};

	f->cap_nodes = (uint32_t)n + 1;
	f->bytes = arena_new_n(&f->arena, struct pb_span, n + 1);
	f->named = arena_new_n(&f->arena, bool, n + 1);
	f->node = arena_new_n(&f->arena, struct onnx_node, n + 1);
	while (f->nnodes < n && pb_each(&rest, GRAPH_NODE, &m)) {
		read_node(f, f->nnodes, m, &all);
		f->nnodes++;
		file_pass(m.p, m.n);
	}
	for (rest = f->graph; pb_each(&rest, GRAPH_OUTPUT, &m);)
		add_name(&out, pb_last(m, 1));
	f->output = out.v;
	f->noutputs = out.n;
}

/* Name of a TensorProto, or of a SparseTensorProto, which is that of its values. */
static struct pb_span weight_name(struct pb_span m, bool sparse)
{
	return pb_last(sparse ? pb_last(m, 1) : m, 8);
}

static void read_weights(struct onnx_file *f)
{
	static const uint32_t fields[] = {GRAPH_SPARSE, GRAPH_INITIALIZER};
	size_t n = pb_occurs(f->graph, GRAPH_SPARSE) + pb_occurs(f->graph, GRAPH_INITIALIZER);
	struct pb_span rest, m;
	uint32_t at = 0;

	f->weight = arena_new_n(&f->arena, struct pb_span, n + 1);
	f->sparse = arena_new_n(&f->arena, bool, n + 1);
	for (int i = 0; i < 2; i++) {
		for (rest = f->graph; at < n && pb_each(&rest, fields[i], &m); at++) {
			struct pb_span name = weight_name(m, i == 0);
			f->weight[at] = m;
			f->sparse[at] = i == 0;
			/* the map's keys are copies: in the file each look-up would bring a page of it back */
			if (name.n)
				map_set(&f->weight_of, span_text(&f->arena, name), name.n, at);
			file_pass(m.p, m.n);
		}
	}
	f->nweights = at;
	f->cap_weights = (uint32_t)n + 1;
}

static void read_infos(struct onnx_file *f)
{
	/* what is said last of a name counts: an input says more than a note on a value */
	static const uint32_t fields[] = {GRAPH_VALUE_INFO, GRAPH_OUTPUT, GRAPH_INPUT};
	struct pb_span rest, m;
	size_t n = 0;
	uint32_t at = 0;

	for (int i = 0; i < 3; i++)
		n += pb_occurs(f->graph, fields[i]);
	f->info = arena_new_n(&f->arena, struct pb_span, n + 1);
	for (int i = 0; i < 3; i++) {
		for (rest = f->graph; at < n && pb_each(&rest, fields[i], &m); at++) {
			struct pb_span name = pb_last(m, 1);
			f->info[at] = m;
			if (name.n)
				map_set(&f->info_of, (const char *)name.p, name.n, at);
		}
	}
}

static void read_annotations(struct onnx_file *f)
{
	struct pb_span rest = f->graph, m;
	size_t n = pb_occurs(f->graph, GRAPH_QUANTIZATION);

	f->annotation = arena_new_n(&f->arena, struct pb_span, n + 1);
	while (f->nannotations < n && pb_each(&rest, GRAPH_QUANTIZATION, &m))
		f->annotation[f->nannotations++] = m;
}

struct onnx_file *onnx_file_open(const char *path, const char *external_root, struct diag *d)
{
	static const struct pb_codes codes = {E_MODEL_FORMAT, E_MODEL_TRUNCATED, E_MODEL_DEPTH};
	struct onnx_file *f = mem_zalloc(sizeof(*f), MEM_MODEL);

	if (!f) {
		FAIL(d, E_MEMORY);
		return NULL;
	}
	f->info_of.arena = f->weight_of.arena = f->inner.arena = f->title_of.arena = &f->arena;
	f->store = weights_open(&f->shell, path, external_root, true);
	const struct file_map *map = weights_file(f->store);
	if (weights_map(f->store, path, d)) {
		onnx_file_close(f);
		return NULL;
	}
	if (binary_form((struct pb_span){map->data, map->size}, &f->arena, &f->model, d) ||
	    pb_check(&onnx__model_proto__descriptor, f->model, &codes, d)) {
		onnx_file_close(f);
		return NULL;
	}
	f->graph = pb_sub(f->model, MODEL_GRAPH, &f->arena);
	read_graph(f);
	read_weights(f);
	read_infos(f);
	read_annotations(f);
	return f;
}

void onnx_file_close(struct onnx_file *f)
{
	if (!f)
		return;
	weights_close(&f->shell);
	arena_free(&f->shell.arena);
	arena_free(&f->arena);
	mem_free(f);
}

uint32_t onnx_file_nodes(const struct onnx_file *f)
{
	return f->nnodes;
}

const struct onnx_node *onnx_file_node(const struct onnx_file *f, uint32_t i)
{
	return &f->node[i];
}

uint32_t onnx_file_outputs(const struct onnx_file *f)
{
	return f->noutputs;
}

const char *onnx_file_output(const struct onnx_file *f, uint32_t i)
{
	return f->output[i];
}

static int64_t find_name(const struct map *m, const char *name)
{
	return map_get(m, name, strlen(name));
}

bool onnx_file_weight(const struct onnx_file *f, const char *name)
{
	return find_name(&f->weight_of, name) >= 0;
}

bool onnx_file_inner_name(const struct onnx_file *f, const char *name)
{
	return find_name(&f->inner, name) > 0;
}

uint32_t onnx_file_parameters(struct onnx_file *f, const char *name, const char *const **names)
{
	struct names out = {.arena = &f->arena};
	struct pb_span entry;

	for (uint32_t i = 0; i < f->nannotations; i++) {
		struct pb_span m = f->annotation[i];
		if (!span_is(pb_last(m, ANNOTATION_TENSOR), name))
			continue;
		for (struct pb_span r = m; pb_each(&r, ANNOTATION_PARAMETER, &entry);)
			add_name(&out, pb_last(entry, 2));
	}
	*names = out.v;
	return out.n;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* Adds a TypeProto.Tensor. s is NULL for the tensors of a sequence, which have no common shape. */
static void add_tensor_type(struct message *m, uint32_t field, enum dtype t, const struct shape *s,
			    const char *const *symbols)
{
	struct message x = {.arena = m->arena}, shape = {.arena = m->arena};

	msg_number(&x, 1, (uint64_t)t);
	for (int i = 0; s && i < s->rank; i++) {
		struct message dim = {.arena = m->arena};
		const char *name =
			symbols && s->dim[i] <= DIM_SYM(0) ? symbols[DIM_SYM_ID(s->dim[i])] : NULL;
		if (s->dim[i] >= 0)
			msg_number(&dim, 1, (uint64_t)s->dim[i]);
		else if (name && *name && *name != '?') /* which begins the names that we give */
			msg_text(&dim, 2, name);
		msg_message(&shape, 1, &dim);
	}
	if (s && s->rank >= 0)
		msg_message(&x, 2, &shape);
	msg_message(m, field, &x);
}

static void add_nested(struct message *m, uint32_t field, uint32_t inner, const struct message *type)
{
	struct message x = {.arena = m->arena};

	msg_message(&x, inner, type);
	msg_message(m, field, &x);
}

/* TypeProto */
static bool make_type(struct message *m, const struct type *t, const struct shape *s,
		      const char *const *symbols)
{
	struct message tensor = {.arena = m->arena}, sequence = {.arena = m->arena};

	if (t->kind == V_TENSOR) {
		add_tensor_type(m, 1, (enum dtype)t->dtype, s, symbols);
		return true;
	}
	add_tensor_type(&tensor, 1, (enum dtype)t->dtype, NULL, NULL);
	add_nested(&sequence, 4, 1, &tensor);
	if (t->kind == V_SEQUENCE && t->of == V_TENSOR)
		add_nested(m, 4, 1, &tensor);
	else if (t->kind == V_OPTIONAL && t->of == V_TENSOR)
		add_nested(m, 9, 1, &tensor);
	else if (t->kind == V_OPTIONAL && t->of == V_SEQUENCE)
		add_nested(m, 9, 1, &sequence);
	else
		return false;
	return true;
}

/* ValueInfoProto: what the file says of the value, but with the type that the whole model gives it, if that is known. */
static void add_border(struct message *m, uint32_t field, const struct onnx_file *f,
		       const struct onnx_border *b)
{
	struct message x = {.arena = m->arena}, type = {.arena = m->arena};
	int64_t known = find_name(&f->info_of, b->name);
	struct pb_span info = known >= 0 ? f->info[known] : (struct pb_span){0};
	struct pb_span own = pb_last(info, VALUE_TYPE);
	bool made = b->t && !(b->keep && own.p) &&
		    make_type(&type, &b->t->type, &b->t->shape, b->symbols);

	msg_text(&x, 1, b->name);
	if (made)
		msg_message(&x, VALUE_TYPE, &type);
	else if (own.p)
		msg_bytes(&x, VALUE_TYPE, own.p, own.n);
	for (struct pb_span rest = info, raw; info.p;) {
		struct pb_field g;
		if (!pb_next_raw(&rest, &g, &raw))
			break;
		if (g.number != 1 && g.number != VALUE_TYPE)
			msg_piece(&x, raw.p, raw.n);
	}
	msg_message(m, field, &x);
}

/* TensorProto of a tensor in memory */
static int add_tensor(struct copier *c, struct message *m, const struct onnx_border *b)
{
	struct message x = {.arena = m->arena};
	const struct tensor *t = b->t;
	int rc = 0;

	for (int i = 0; i < t->shape.rank; i++)
		msg_number(&x, 1, (uint64_t)t->shape.dim[i]);
	msg_number(&x, 2, t->type.dtype);
	for (int64_t i = 0; tensor_dtype(t) == DT_STRING && i < tensor_count(t); i++) {
		size_t n;
		const char *s = tensor_string(t, i, &n);
		msg_bytes(&x, 6, s, n);
	}
	msg_text(&x, 8, b->name);
	if (tensor_dtype(t) != DT_STRING)
		rc = put_weight_data(c, (struct pb_span){t->data, t->bytes}, &x);
	msg_message(m, GRAPH_INITIALIZER, &x);
	return rc;
}

static int copy_weight(struct copier *c, struct message *m, const struct onnx_file *f, uint32_t i)
{
	struct message x = {.arena = m->arena};

	if (!f->sparse[i])
		return copy_tensor(c, GRAPH_INITIALIZER, f->weight[i], true, m);
	int rc = copy_message(c, &onnx__sparse_tensor_proto__descriptor, f->weight[i], &x);
	msg_message(m, GRAPH_SPARSE, &x);
	return rc;
}

/* Adds the constants; those that are copied have the order of the file. */
static int add_constants(struct copier *c, struct message *m, const struct onnx_file *f,
			 const struct onnx_part *part)
{
	bool *chosen = arena_new_n(m->arena, bool, f->nweights + 1);
	int rc = 0;

	for (uint32_t i = 0; !rc && i < part->nconstant; i++) {
		const struct onnx_border *b = &part->constant[i];
		int64_t at = find_name(&f->weight_of, b->name);
		if (b->t)
			rc = add_tensor(c, m, b);
		else if (at >= 0)
			chosen[at] = true;
		else
			return FAIL(c->d, E_MODEL_NAME,
				    .slot = fmt(c->d, "initializer '%s'", b->name),
				    .expected = "an initializer of the model", .actual = "none");
	}
	for (uint32_t i = 0; !rc && i < f->nweights; i++)
		if (chosen[i])
			rc = copy_weight(c, m, f, i);
	return rc;
}

/* ---- a node with other names */

/* A node that is copied, and what its names become. */
struct renaming {
	struct copier *c;
	onnx_rename *rename;
	void *arg;
	uint32_t node;
	const char *title; /* the node's new name; NULL: it keeps its own */
};

static void add_renamed(const struct renaming *r, struct message *m, uint32_t field,
			int64_t operand, struct pb_span name)
{
	struct arena a = {0};
	const char *now = name.n ? r->rename(r->arg, r->node, operand, span_text(&a, name)) : "";

	msg_text(m, field, now);
	arena_free(&a);
}

/* The role of a name that no body defines, as rename() takes it: an operand's number, ONNX_CAPTURE (a body's node reads it) or ONNX_RESULT. */
static int64_t role_of(struct pb_span node, const struct inner *up, struct pb_span name)
{
	struct pb_span in;

	for (int64_t k = 0; pb_each(&node, NODE_INPUT, &in); k++)
		if (in.n == name.n && !memcmp(in.p, name.p, in.n))
			return up ? ONNX_CAPTURE : k;
	return ONNX_RESULT;
}

/* Copies a message about devices at this depth: 0 is the annotation of a node, 1 how a tensor is spread, whose name is renamed. */
static void rename_devices(const struct renaming *r, const struct inner *up, struct pb_span node,
			   struct pb_span s, int depth, struct message *out)
{
	enum { SPECS = 2, TENSOR_NAME = 1 };
	struct pb_span rest = s, raw;
	struct pb_field f;

	while (pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		if (depth == 0 && f.number == SPECS && f.wire == PB_BYTES) {
			rename_devices(r, up, node, f.bytes, 1, &x);
			msg_message(out, SPECS, &x);
		} else if (depth == 1 && f.number == TENSOR_NAME && f.wire == PB_BYTES &&
			   !(up && defined(up, f.bytes))) {
			add_renamed(r, out, TENSOR_NAME, role_of(node, up, f.bytes), f.bytes);
		} else {
			msg_piece(out, raw.p, raw.n);
		}
	}
}

static int rename_attribute(const struct renaming *r, const struct inner *up, struct pb_span s,
			    struct message *out);

static void add_devices(const struct renaming *r, const struct inner *up, struct pb_span node,
			struct pb_span s, struct message *out)
{
	struct message x = {.arena = out->arena};

	rename_devices(r, up, node, s, 0, &x);
	msg_message(out, NODE_DEVICES, &x);
}

/* Copies a node of a body. Names that no body defines are captured from the file's graph. */
static int rename_in_node(const struct renaming *r, const struct inner *up, struct pb_span s,
			  struct message *out)
{
	struct pb_span rest = s, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		if (f.number == NODE_INPUT && f.wire == PB_BYTES && !defined(up, f.bytes))
			add_renamed(r, out, NODE_INPUT, ONNX_CAPTURE, f.bytes);
		else if (f.number == NODE_ATTRIBUTE && f.wire == PB_BYTES)
			rc = rename_attribute(r, up, f.bytes, out);
		else if (f.number == NODE_DEVICES && f.wire == PB_BYTES)
			add_devices(r, up, s, f.bytes, out);
		else
			msg_piece(out, raw.p, raw.n);
	}
	return rc;
}

/* An output of a body, which may be a value that the body captures. */
static void rename_in_output(const struct renaming *r, const struct inner *up, struct pb_span s,
			     struct message *out)
{
	struct pb_span rest = s, raw;
	struct pb_field f;

	while (pb_next_raw(&rest, &f, &raw)) {
		if (f.number == 1 && f.wire == PB_BYTES && !defined(up, f.bytes))
			add_renamed(r, out, 1, ONNX_CAPTURE, f.bytes);
		else
			msg_piece(out, raw.p, raw.n);
	}
}

static int rename_in_body(const struct renaming *r, const struct inner *up, struct pb_span s,
			  struct message *out)
{
	struct arena a = {0};
	struct inner own = {.names = {.arena = &a}, .up = up};
	struct pb_span rest = s, raw;
	struct pb_field f;
	int rc = 0;

	define_body(&own, s);
	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		if (f.number == GRAPH_NODE) {
			rc = rename_in_node(r, &own, f.bytes, &x);
			msg_message(out, f.number, &x);
		} else if (f.number == GRAPH_OUTPUT) {
			rename_in_output(r, &own, f.bytes, &x);
			msg_message(out, f.number, &x);
		} else {
			rc = copy_message(r->c, &onnx__graph_proto__descriptor, raw, out);
		}
	}
	arena_free(&a);
	return rc;
}

static int rename_attribute(const struct renaming *r, const struct inner *up, struct pb_span s,
			    struct message *out)
{
	struct message attribute = {.arena = out->arena};
	struct pb_span rest = s, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		if (f.number != ATTRIBUTE_G && f.number != ATTRIBUTE_GRAPHS) {
			rc = copy_message(r->c, &onnx__attribute_proto__descriptor, raw, &attribute);
			continue;
		}
		rc = rename_in_body(r, up, f.bytes, &x);
		msg_message(&attribute, f.number, &x);
	}
	msg_message(out, NODE_ATTRIBUTE, &attribute);
	return rc;
}

static int rename_node(const struct renaming *r, struct pb_span s, struct message *out)
{
	struct pb_span rest = s, raw;
	struct pb_field f;
	int64_t operand = 0;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		if (f.number == NODE_INPUT)
			add_renamed(r, out, NODE_INPUT, operand++, f.bytes);
		else if (f.number == NODE_OUTPUT)
			add_renamed(r, out, NODE_OUTPUT, ONNX_RESULT, f.bytes);
		else if (f.number == NODE_ATTRIBUTE)
			rc = rename_attribute(r, NULL, f.bytes, out);
		else if (f.number == NODE_DEVICES)
			add_devices(r, NULL, s, f.bytes, out);
		else if (f.number != NODE_NAME || !r->title)
			msg_piece(out, raw.p, raw.n);
	}
	if (r->title)
		msg_text(out, NODE_NAME, r->title);
	return rc;
}

static int add_node(struct copier *c, struct message *m, const struct onnx_file *f,
		    const struct onnx_part *part, uint32_t i)
{
	const struct renaming r = {c, part->rename, part->rename_arg, i, NULL};
	struct arena a = {0};
	struct message x = {.arena = &a};
	int rc = part->rename ? rename_node(&r, f->bytes[i], &x)
			      : copy_message(c, &onnx__node_proto__descriptor, f->bytes[i], &x);

	if (!f->named[i]) /* an unnamed node is called by its number, which changes in the part: write its old title as its name */
		msg_text(&x, NODE_NAME, f->node[i].title);
	msg_message(m, GRAPH_NODE, &x);
	arena_free(&a);
	return rc;
}

/* ---- the graph */

/* Enters the values that the part's nodes make, its constants and its inputs (1), and of these its inputs and outputs (2). */
static void name_values(struct map *to, const struct onnx_file *f, const struct onnx_part *part)
{
	for (uint32_t i = 0; i < part->nnodes; i++) {
		const struct onnx_node *n = &f->node[part->node[i]];
		for (uint32_t k = 0; k < n->nout; k++) {
			const char *name = n->out[k];
			if (part->rename && *name)
				name = part->rename(part->rename_arg, part->node[i], ONNX_RESULT,
						    name);
			map_set(to, name, strlen(name), 1);
		}
	}
	for (uint32_t i = 0; i < part->nconstant; i++)
		map_set(to, part->constant[i].name, strlen(part->constant[i].name), 1);
	for (uint32_t i = 0; i < part->nin; i++)
		map_set(to, part->in[i].name, strlen(part->in[i].name), 2);
	for (uint32_t i = 0; i < part->nout; i++)
		map_set(to, part->out[i].name, strlen(part->out[i].name), 2);
}

static int64_t value_of(const struct map *values, struct pb_span name)
{
	return name.n ? map_get(values, (const char *)name.p, name.n) : -1;
}

/* Whether the part has a tensor and all parameters of its quantization. */
static bool has_annotation(const struct map *values, struct pb_span m)
{
	struct pb_span entry;
	bool has = value_of(values, pb_last(m, ANNOTATION_TENSOR)) > 0;

	while (has && pb_each(&m, ANNOTATION_PARAMETER, &entry))
		has = value_of(values, pb_last(entry, 2)) > 0;
	return has;
}

/* Copies the other fields of the GraphProto (documentation, metadata, quantization annotations) that concern the part. */
static void add_notes(struct message *m, const struct onnx_file *f, const struct onnx_part *part)
{
	struct arena a = {0};
	struct map values = {.arena = &a};
	struct pb_span rest = f->graph, raw;
	struct pb_field g;

	name_values(&values, f, part);
	while (pb_next_raw(&rest, &g, &raw)) {
		if (g.number == GRAPH_NODE || g.number == GRAPH_NAME || g.number == GRAPH_INITIALIZER ||
		    g.number == GRAPH_INPUT || g.number == GRAPH_OUTPUT || g.number == GRAPH_SPARSE)
			continue;
		if (g.number == GRAPH_VALUE_INFO &&
		    (part->retyped || value_of(&values, pb_last(g.bytes, 1)) != 1))
			continue;
		if (g.number == GRAPH_QUANTIZATION && !has_annotation(&values, g.bytes))
			continue;
		msg_piece(m, raw.p, raw.n);
	}
	for (uint32_t i = 0; i < part->ninner; i++)
		if (value_of(&values, (struct pb_span){(const uint8_t *)part->inner[i].name,
						       strlen(part->inner[i].name)}) == 1)
			add_border(m, GRAPH_VALUE_INFO, f, &part->inner[i]);
	arena_free(&a);
}

static int make_graph(struct copier *c, struct message *m, const struct onnx_file *f,
		      const struct onnx_part *part)
{
	struct pb_span name = pb_last(f->graph, GRAPH_NAME);
	int rc = 0;

	for (uint32_t i = 0; !rc && i < part->nnodes; i++)
		rc = add_node(c, m, f, part, part->node[i]);
	msg_bytes(m, GRAPH_NAME, name.n ? (const void *)name.p : "part", name.n ? name.n : 4);
	rc = rc ? rc : add_constants(c, m, f, part);
	for (uint32_t i = 0; i < part->nin; i++)
		add_border(m, GRAPH_INPUT, f, &part->in[i]);
	for (uint32_t i = 0; i < part->nout; i++)
		add_border(m, GRAPH_OUTPUT, f, &part->out[i]);
	add_notes(m, f, part);
	return rc;
}

static int make_model(struct copier *c, struct message *m, const struct onnx_file *f,
		      const struct onnx_part *part)
{
	struct message graph = {.arena = m->arena};
	struct pb_span rest = f->model, raw;
	struct pb_field field;
	uint64_t ir = IR_INITIALIZERS;
	int rc = 0;

	for (struct pb_span r = f->model; pb_next(&r, &field);)
		if (field.number == 1 && field.wire == PB_VARINT && field.value > ir)
			ir = field.value;
	msg_number(m, 1, ir);
	while (!rc && pb_next_raw(&rest, &field, &raw)) {
		if (field.number == 1 || field.number == MODEL_GRAPH || field.number == MODEL_TRAINING)
			continue;
		rc = copy_message(c, &onnx__model_proto__descriptor, raw, m);
	}
	rc = rc ? rc : make_graph(c, &graph, f, part);
	msg_message(m, MODEL_GRAPH, &graph);
	return rc;
}

/* ---- a branch in the place of its node ----------------------------------------------------------- */

static bool has_body(struct pb_span node)
{
	struct pb_span m;

	while (pb_each(&node, NODE_ATTRIBUTE, &m))
		if (pb_occurs(m, ATTRIBUTE_G) || pb_occurs(m, ATTRIBUTE_GRAPHS))
			return true;
	return false;
}

struct branch {
	struct onnx_file *f;
	struct copier *c;
	struct onnx_node owner; /* the node that the branch takes the place of */
	struct pb_span graph;
	struct map number; /* by such a name: its place in `now` */
	const char **now;  /* what the name becomes */
	uint32_t n;
	onnx_fresh *fresh;
	void *arg;
	struct message *out; /* the body that the branch becomes a part of; NULL: the file's graph does */
};

static const char *now_of(const struct branch *b, struct pb_span name)
{
	int64_t k = map_get(&b->number, (const char *)name.p, name.n);

	return k < 0 ? NULL : b->now[k];
}

static const char *rename_in_branch(void *arg, uint32_t node, int64_t operand, const char *name)
{
	const struct branch *b = arg;
	const char *now = now_of(b, (struct pb_span){(const uint8_t *)name, strlen(name)});

	(void)node, (void)operand;
	return now ? now : name;
}

static void set_now(struct branch *b, struct pb_span name, const char *now)
{
	if (!name.n || now_of(b, name))
		return;
	map_set(&b->number, (const char *)name.p, name.n, b->n);
	b->now[b->n++] = now ? now : b->fresh(b->arg, span_text(&b->f->arena, name));
}

/*
 * Says what each name of the branch becomes. A result of a node that is an output of the branch gets the name that the owner's
 * output has; a second output of the same value, or one of a value from outside, is left to an Identity.
 */
static void name_branch(struct branch *b)
{
	struct map made = {.arena = b->c->arena};
	struct pb_span rest, m, name;
	size_t n = pb_occurs(b->graph, GRAPH_INITIALIZER) + pb_occurs(b->graph, GRAPH_SPARSE);
	uint32_t k = 0;

	for (rest = b->graph; pb_each(&rest, GRAPH_NODE, &m);)
		for (struct pb_span outs = m; pb_each(&outs, NODE_OUTPUT, &name); n++)
			if (name.n)
				map_set(&made, (const char *)name.p, name.n, 1);
	b->now = arena_new_n(b->c->arena, const char *, n + 1);
	for (rest = b->graph; pb_each(&rest, GRAPH_OUTPUT, &m) && k < b->owner.nout; k++) {
		name = pb_last(m, 1);
		if (*b->owner.out[k] && map_get(&made, (const char *)name.p, name.n) > 0)
			set_now(b, name, b->owner.out[k]);
	}
	for (rest = b->graph; pb_each(&rest, GRAPH_INITIALIZER, &m);)
		set_now(b, pb_last(m, 8), NULL);
	for (rest = b->graph; pb_each(&rest, GRAPH_SPARSE, &m);)
		set_now(b, pb_last(pb_last(m, 1), 8), NULL);
	for (rest = b->graph; pb_each(&rest, GRAPH_NODE, &m);)
		for (struct pb_span outs = m; pb_each(&outs, NODE_OUTPUT, &name);)
			set_now(b, name, NULL);
}

/* A name for a node that no node has yet; title: what it was called in the branch. */
static const char *fresh_title(struct branch *b, const char *title)
{
	struct onnx_file *f = b->f;
	bool first = !f->title_of.used;

	for (uint32_t i = 0; first && i < f->nnodes; i++)
		map_set(&f->title_of, f->node[i].title, strlen(f->node[i].title), 1);
	if (find_name(&f->title_of, title) >= 0)
		title = arena_printf(&f->arena, "%s/%s", b->owner.title, title);
	while (find_name(&f->title_of, title) >= 0)
		title = arena_printf(&f->arena, "%s_", title);
	map_set(&f->title_of, title, strlen(title), 1);
	return title;
}

static void append_node(struct onnx_file *f, const struct message *m)
{
	if (f->nnodes == f->cap_nodes) {
		uint32_t cap = 2 * f->cap_nodes;
		f->bytes = arena_grow(&f->arena, f->bytes, f->nnodes, cap, sizeof(*f->bytes));
		f->named = arena_grow(&f->arena, f->named, f->nnodes, cap, sizeof(*f->named));
		f->node = arena_grow(&f->arena, f->node, f->nnodes, cap, sizeof(*f->node));
		f->cap_nodes = cap;
	}
	read_node(f, f->nnodes, msg_flat(m, &f->arena), NULL);
	f->nnodes++;
}

static int take_nodes(struct branch *b)
{
	static const struct scope top = {.prefix = ""};
	struct pb_span rest = b->graph, m;
	int rc = 0;

	for (uint32_t i = 0; !rc && pb_each(&rest, GRAPH_NODE, &m); i++) {
		struct message x = {.arena = b->c->arena};
		struct node_view v = node_view(m, i);
		const struct renaming r = {
			b->c, rename_in_branch, b, 0,
			b->out ? NULL : fresh_title(b, node_title(&b->f->arena, &top, &v))};
		rc = rename_node(&r, m, &x);
		if (!rc && b->out)
			msg_message(b->out, GRAPH_NODE, &x);
		else if (!rc)
			append_node(b->f, &x);
	}
	return rc;
}

/* Names of initializers are in their messages: one that changes is copied. */
static struct pb_span renamed_weight(struct branch *b, struct pb_span m, bool sparse, const char *now)
{
	struct message x = {.arena = b->c->arena};
	struct pb_span rest = m, raw;
	struct pb_field f;

	while (pb_next_raw(&rest, &f, &raw)) {
		if (sparse && f.number == 1) {
			struct pb_span values = renamed_weight(b, f.bytes, false, now);
			msg_bytes(&x, 1, values.p, values.n);
		} else if (sparse || f.number != 8) {
			msg_piece(&x, raw.p, raw.n);
		}
	}
	if (!sparse)
		msg_text(&x, 8, now);
	return msg_flat(&x, &b->f->arena);
}

static void take_weights(struct branch *b, bool sparse)
{
	struct onnx_file *f = b->f;
	struct pb_span rest = b->graph, m;

	while (pb_each(&rest, sparse ? GRAPH_SPARSE : GRAPH_INITIALIZER, &m)) {
		struct pb_span name = weight_name(m, sparse);
		const char *now = now_of(b, name);
		if (!now)
			continue;
		struct pb_span weight = span_is(name, now) ? m : renamed_weight(b, m, sparse, now);
		if (b->out) {
			msg_bytes(b->out, sparse ? GRAPH_SPARSE : GRAPH_INITIALIZER, weight.p,
				  weight.n);
			continue;
		}
		if (f->nweights == f->cap_weights) {
			uint32_t cap = 2 * f->cap_weights;
			f->weight = arena_grow(&f->arena, f->weight, f->nweights, cap,
					       sizeof(*f->weight));
			f->sparse = arena_grow(&f->arena, f->sparse, f->nweights, cap,
					       sizeof(*f->sparse));
			f->cap_weights = cap;
		}
		f->weight[f->nweights] = weight;
		f->sparse[f->nweights] = sparse;
		map_set(&f->weight_of, now, strlen(now), f->nweights++);
	}
}

/* Adds an Identity for each output of the owner that no node of the branch makes under its name. */
static void pass_outputs(struct branch *b)
{
	struct pb_span rest = b->graph, m;

	for (uint32_t k = 0; k < b->owner.nout && pb_each(&rest, GRAPH_OUTPUT, &m); k++) {
		struct pb_span name = pb_last(m, 1);
		const char *to = b->owner.out[k], *from = now_of(b, name);
		struct message x = {.arena = b->c->arena};
		if (!from)
			from = span_text(b->c->arena, name);
		if (!*to || !strcmp(from, to))
			continue;
		msg_text(&x, NODE_INPUT, from);
		msg_text(&x, NODE_OUTPUT, to);
		msg_text(&x, NODE_NAME, b->out ? to : fresh_title(b, to));
		msg_text(&x, NODE_TYPE, "Identity");
		if (b->out)
			msg_message(b->out, GRAPH_NODE, &x);
		else
			append_node(b->f, &x);
	}
}

static struct pb_span find_branch(struct pb_span node, const char *attribute)
{
	struct pb_span rest = node, m, none = {0};

	while (pb_each(&rest, NODE_ATTRIBUTE, &m))
		if (span_is(pb_last(m, 1), attribute))
			return pb_occurs(m, ATTRIBUTE_G) == 1 ? pb_last(m, ATTRIBUTE_G) : none;
	return none;
}

int onnx_file_inline(struct onnx_file *f, uint32_t node, const char *attribute, onnx_fresh *fresh,
		     void *arg, struct diag *d)
{
	struct arena a = {0};
	struct copier c = {.arena = &a, .d = d, .store = f->store, .data = {.arena = &a}};
	struct branch b = {.f = f,
			   .c = &c,
			   .owner = f->node[node],
			   .graph = find_branch(f->bytes[node], attribute),
			   .number = {.arena = &a},
			   .fresh = fresh,
			   .arg = arg};
	struct names unread = {.arena = &a};
	const struct tally less = {&f->inner, -1}, more = {&f->inner, 1};
	struct pb_span rest = b.graph, m;

	if (!b.graph.p)
		return ONNX_NO_BRANCH;
	/* the bodies of the branch's own nodes stay, and hide what they define */
	capture_node(f->bytes[node], NULL, &less, &unread);
	while (pb_each(&rest, GRAPH_NODE, &m))
		capture_node(m, NULL, &more, &unread);
	name_branch(&b);
	int rc = take_nodes(&b);
	take_weights(&b, false);
	take_weights(&b, true);
	pass_outputs(&b);
	f->node[node] =
		(struct onnx_node){.title = b.owner.title, .op = "", .annotated = b.owner.annotated};
	arena_free(&a);
	return rc;
}

/* ---- branches inside of bodies ------------------------------------------------------------------- */

/* A node of the file's graph whose bodies are looked through. */
struct taking {
	struct onnx_file *f;
	struct copier *c;
	onnx_takes *takes;
	onnx_fresh *fresh;
	void *arg;
	bool changed;
};

static int take_in_graph(struct taking *t, struct pb_span graph, struct message *out);

/* The attribute that holds the branch which a node, an If, gives way to; NULL: the node stays. */
static const char *attribute_taken(const struct taking *t, struct pb_span node)
{
	static const char *const attributes[] = {"then_branch", "else_branch"};

	for (int k = 0; k < 2; k++) {
		struct pb_span g = find_branch(node, attributes[k]);
		if (g.p && t->takes(t->arg, (size_t)(g.p - t->f->model.p)))
			return attributes[k];
	}
	return NULL;
}

/* Puts what node's branch consists of into the body `out`. */
static int take_branch(struct taking *t, struct pb_span node, const char *attribute,
		       struct message *out)
{
	struct arena *a = &t->f->arena;
	struct message flat = {.arena = a};
	struct names outs = {.arena = a};
	struct pb_span rest = node, name;

	while (pb_each(&rest, NODE_OUTPUT, &name))
		add_name(&outs, name);
	int rc = take_in_graph(t, find_branch(node, attribute), &flat);
	if (rc)
		return rc;
	struct branch b = {.f = t->f,
			   .c = t->c,
			   .owner = {.out = outs.v, .nout = outs.n},
			   .graph = msg_flat(&flat, a),
			   .number = {.arena = a},
			   .fresh = t->fresh,
			   .arg = t->arg,
			   .out = out};
	t->changed = true;
	name_branch(&b);
	rc = take_nodes(&b);
	take_weights(&b, false);
	take_weights(&b, true);
	pass_outputs(&b);
	return rc;
}

/* Copies an attribute, with other bodies if branches are taken in them. */
static int take_in_attribute(struct taking *t, struct pb_span attribute, struct message *out)
{
	struct pb_span rest = attribute, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		if (f.number != ATTRIBUTE_G && f.number != ATTRIBUTE_GRAPHS) {
			msg_piece(out, raw.p, raw.n);
			continue;
		}
		rc = take_in_graph(t, f.bytes, &x);
		msg_message(out, f.number, &x);
	}
	return rc;
}

static int take_in_node(struct taking *t, struct pb_span node, struct message *out)
{
	struct pb_span rest = node, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		if (f.number != NODE_ATTRIBUTE) {
			msg_piece(out, raw.p, raw.n);
			continue;
		}
		rc = take_in_attribute(t, f.bytes, &x);
		msg_message(out, NODE_ATTRIBUTE, &x);
	}
	return rc;
}

static int take_in_graph(struct taking *t, struct pb_span graph, struct message *out)
{
	struct pb_span rest = graph, raw;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next_raw(&rest, &f, &raw)) {
		struct message x = {.arena = out->arena};
		const char *attribute = f.number == GRAPH_NODE ? attribute_taken(t, f.bytes) : NULL;
		if (attribute) {
			rc = take_branch(t, f.bytes, attribute, out);
		} else if (f.number == GRAPH_NODE) {
			rc = take_in_node(t, f.bytes, &x);
			msg_message(out, GRAPH_NODE, &x);
		} else {
			msg_piece(out, raw.p, raw.n);
		}
	}
	return rc;
}

int onnx_file_take_branches(struct onnx_file *f, onnx_takes *takes, onnx_fresh *fresh, void *arg,
			    struct diag *d)
{
	struct copier c = {
		.arena = &f->arena, .d = d, .store = f->store, .data = {.arena = &f->arena}};
	const struct tally less = {&f->inner, -1}, more = {&f->inner, 1};
	int rc = 0;

	for (uint32_t i = 0; !rc && i < f->nnodes; i++) {
		struct taking t = {f, &c, takes, fresh, arg, false};
		struct arena a = {0};
		struct message x = {.arena = &a};
		struct names unread = {.arena = &a};
		if (!has_body(f->bytes[i]))
			continue;
		rc = take_in_node(&t, f->bytes[i], &x);
		if (!rc && t.changed) {
			bool named = f->named[i];
			const char *title = f->node[i].title;
			capture_node(f->bytes[i], NULL, &less, &unread);
			read_node(f, i, msg_flat(&x, &f->arena), &more);
			f->named[i] = named;
			f->node[i].title = title;
		}
		arena_free(&a);
	}
	return rc;
}

int onnx_save_part(const struct onnx_file *f, const struct onnx_part *part, const char *path,
		   struct diag *d)
{
	struct arena a = {0};
	struct message m = {.arena = &a};
	struct copier c = {.arena = &a,
			   .d = d,
			   .store = f->store,
			   .location = part->external,
			   .strip = part->strip,
			   .data = {.arena = &a}};
	int rc = make_model(&c, &m, f, part);

	rc = rc ? rc : copy_write(&c, &m, path);
	arena_free(&a);
	return rc;
}
