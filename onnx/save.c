/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "onnx/internal.h"

#include <inttypes.h>

/* Since this IR version an initializer need not also be listed as an input. */
enum { IR_INITIALIZERS = 4 };

struct onnx_file {
	struct arena arena;
	struct file_map map;
	struct pb_span model, graph;
	struct pb_span *bytes; /* of the nodes */
	bool *named;	       /* indexed by node: whether the file gives the node a name */
	struct onnx_node *node;
	uint32_t nnodes;
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

/* Returns the last occurrence of a singular field, the one that counts in protobuf. */
static struct pb_span last_of(struct pb_span m, uint32_t number)
{
	struct pb_span s = {0};

	while (pb_each(&m, number, &s))
		;
	return s;
}

/* Names that a body defines. A name that the body itself or an enclosing body defines is not captured from outside. */
struct inner {
	struct map names;
	const struct inner *up;
};

static void define_name(struct inner *s, struct pb_span name)
{
	if (name.n)
		map_set(&s->names, (const char *)name.p, name.n, 1);
}

static bool defined(const struct inner *s, struct pb_span name)
{
	for (; s; s = s->up)
		if (map_get(&s->names, (const char *)name.p, name.n) >= 0)
			return true;
	return false;
}

static void capture_body(struct pb_span graph, const struct inner *up, struct names *out);

/* Collects the names that the node's bodies read from the enclosing graph. */
static void capture_node(struct pb_span node, const struct inner *up, struct names *out)
{
	struct pb_span attributes = node, attribute, graphs, g;

	while (pb_each(&attributes, NODE_ATTRIBUTE, &attribute)) {
		for (graphs = attribute; pb_each(&graphs, ATTRIBUTE_G, &g);)
			capture_body(g, up, out);
		for (graphs = attribute; pb_each(&graphs, ATTRIBUTE_GRAPHS, &g);)
			capture_body(g, up, out);
	}
}

static void capture_body(struct pb_span graph, const struct inner *up, struct names *out)
{
	struct arena a = {0};
	struct inner s = {.names = {.arena = &a}, .up = up};
	struct pb_span rest, m, name;

	for (rest = graph; pb_each(&rest, GRAPH_INPUT, &m);)
		define_name(&s, last_of(m, 1));
	for (rest = graph; pb_each(&rest, GRAPH_INITIALIZER, &m);)
		define_name(&s, last_of(m, 8));
	for (rest = graph; pb_each(&rest, GRAPH_SPARSE, &m);)
		define_name(&s, last_of(last_of(m, 1), 8));
	for (rest = graph; pb_each(&rest, GRAPH_NODE, &m);) {
		struct pb_span outs = m;
		while (pb_each(&outs, NODE_OUTPUT, &name))
			define_name(&s, name);
	}
	for (rest = graph; pb_each(&rest, GRAPH_NODE, &m);) {
		struct pb_span ins = m;
		while (pb_each(&ins, NODE_INPUT, &name))
			if (name.n && !defined(&s, name))
				add_name(out, name);
		capture_node(m, &s, out);
	}
	for (rest = graph; pb_each(&rest, GRAPH_OUTPUT, &m);) {
		name = last_of(m, 1);
		if (name.n && !defined(&s, name))
			add_name(out, name);
	}
	arena_free(&a);
}

static void read_node(struct onnx_file *f, uint32_t i, struct pb_span bytes)
{
	static const struct scope top = {.prefix = ""};
	struct node_view v = node_view(bytes, i);
	struct names in = {.arena = &f->arena}, out = {.arena = &f->arena};
	struct pb_span rest, name;

	for (rest = bytes; pb_each(&rest, NODE_INPUT, &name);)
		add_name(&in, name);
	capture_node(bytes, NULL, &in);
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
					.constant = !v.domain.n && span_is(v.type, "Constant")};
}

static void read_graph(struct onnx_file *f)
{
	size_t n = pb_occurs(f->graph, GRAPH_NODE);
	struct pb_span rest = f->graph, m;
	struct names out = {.arena = &f->arena};

	f->bytes = arena_new_n(&f->arena, struct pb_span, n + 1);
	f->named = arena_new_n(&f->arena, bool, n + 1);
	f->node = arena_new_n(&f->arena, struct onnx_node, n + 1);
	while (f->nnodes < n && pb_each(&rest, GRAPH_NODE, &m)) {
		read_node(f, f->nnodes, m);
		f->nnodes++;
	}
	for (rest = f->graph; pb_each(&rest, GRAPH_OUTPUT, &m);)
		add_name(&out, last_of(m, 1));
	f->output = out.v;
	f->noutputs = out.n;
}

struct onnx_file *onnx_file_open(const char *path, struct diag *d)
{
	static const struct pb_codes codes = {E_MODEL_FORMAT, E_MODEL_TRUNCATED, E_MODEL_DEPTH};
	struct onnx_file *f = mem_zalloc(sizeof(*f), MEM_MODEL);

	if (!f) {
		FAIL(d, E_MEMORY);
		return NULL;
	}
	if (file_map(path, &f->map, E_MODEL_OPEN, d)) {
		mem_free(f);
		return NULL;
	}
	f->model = (struct pb_span){f->map.data, f->map.size};
	if (pb_check(&onnx__model_proto__descriptor, f->model, &codes, d)) {
		onnx_file_close(f);
		return NULL;
	}
	f->graph = pb_sub(f->model, MODEL_GRAPH, &f->arena);
	read_graph(f);
	return f;
}

void onnx_file_close(struct onnx_file *f)
{
	if (!f)
		return;
	file_unmap(&f->map);
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

/* ---- writing: a message is a list of pieces, so that weights are written from where they are -------- */

struct piece {
	const void *p;
	size_t n;
};
struct message {
	struct arena *arena;
	struct piece *v;
	size_t n, cap, bytes;
};

static void add_piece(struct message *m, const void *p, size_t n)
{
	if (m->n == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 16;
		m->v = arena_grow(m->arena, m->v, m->n, m->cap, sizeof(*m->v));
	}
	m->v[m->n++] = (struct piece){p, n};
	m->bytes += n;
}

static void add_varint(struct message *m, uint64_t v)
{
	uint8_t b[10];
	size_t n = 0;

	while (v >= 0x80) {
		b[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	b[n++] = (uint8_t)v;
	add_piece(m, arena_dup(m->arena, b, n), n);
}

static void add_number(struct message *m, uint32_t field, uint64_t v)
{
	add_varint(m, (uint64_t)field << 3 | PB_VARINT);
	add_varint(m, v);
}

static void add_bytes(struct message *m, uint32_t field, const void *p, size_t n)
{
	add_varint(m, (uint64_t)field << 3 | PB_BYTES);
	add_varint(m, n);
	if (n)
		add_piece(m, p, n);
}

static void add_text(struct message *m, uint32_t field, const char *s)
{
	add_bytes(m, field, s, strlen(s));
}

static void add_message(struct message *m, uint32_t field, const struct message *x)
{
	add_varint(m, (uint64_t)field << 3 | PB_BYTES);
	add_varint(m, x->bytes);
	for (size_t i = 0; i < x->n; i++)
		add_piece(m, x->v[i].p, x->v[i].n);
}

/* Adds a TypeProto.Tensor. s is NULL for the tensors of a sequence, which have no common shape. */
static void add_tensor_type(struct message *m, uint32_t field, enum dtype t, const struct shape *s,
			    const char *const *symbols)
{
	struct message x = {.arena = m->arena}, shape = {.arena = m->arena};

	add_number(&x, 1, (uint64_t)t);
	for (int i = 0; s && i < s->rank; i++) {
		struct message dim = {.arena = m->arena};
		const char *name =
			symbols && s->dim[i] <= DIM_SYM(0) ? symbols[DIM_SYM_ID(s->dim[i])] : NULL;
		if (s->dim[i] >= 0)
			add_number(&dim, 1, (uint64_t)s->dim[i]);
		else if (name && *name && *name != '?') /* which begins the names that we give */
			add_text(&dim, 2, name);
		add_message(&shape, 1, &dim);
	}
	if (s && s->rank >= 0)
		add_message(&x, 2, &shape);
	add_message(m, field, &x);
}

static void add_nested(struct message *m, uint32_t field, uint32_t inner, const struct message *type)
{
	struct message x = {.arena = m->arena};

	add_message(&x, inner, type);
	add_message(m, field, &x);
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

/* ValueInfoProto */
static void add_border(struct message *m, uint32_t field, const struct onnx_border *b)
{
	struct message x = {.arena = m->arena}, type = {.arena = m->arena};

	add_text(&x, 1, b->name);
	if (b->t && make_type(&type, &b->t->type, &b->t->shape, b->symbols))
		add_message(&x, 2, &type);
	add_message(m, field, &x);
}

/* TensorProto */
static void add_initializer(struct message *m, const struct onnx_border *b)
{
	struct message x = {.arena = m->arena};
	const struct tensor *t = b->t;

	for (int i = 0; i < t->shape.rank; i++)
		add_number(&x, 1, (uint64_t)t->shape.dim[i]);
	add_number(&x, 2, t->type.dtype);
	for (int64_t i = 0; tensor_dtype(t) == DT_STRING && i < tensor_count(t); i++) {
		size_t n;
		const char *s = tensor_string(t, i, &n);
		add_bytes(&x, 6, s, n);
	}
	add_text(&x, 8, b->name);
	if (tensor_dtype(t) != DT_STRING)
		add_bytes(&x, 9, t->data, t->bytes);
	add_message(m, GRAPH_INITIALIZER, &x);
}

static void add_node(struct message *m, const struct onnx_file *f, uint32_t i)
{
	struct message x = {.arena = m->arena};

	add_piece(&x, f->bytes[i].p, f->bytes[i].n);
	if (!f->named[i]) /* an unnamed node is called by its number, which changes in the part: write its old title as its name */
		add_text(&x, NODE_NAME, f->node[i].title);
	add_message(m, GRAPH_NODE, &x);
}

static void make_graph(struct message *m, const struct onnx_file *f, const struct onnx_part *part)
{
	struct pb_span name = last_of(f->graph, GRAPH_NAME);

	for (uint32_t i = 0; i < part->nnodes; i++)
		add_node(m, f, part->node[i]);
	add_bytes(m, GRAPH_NAME, name.n ? (const void *)name.p : "part", name.n ? name.n : 4);
	for (uint32_t i = 0; i < part->nconstant; i++)
		add_initializer(m, &part->constant[i]);
	for (uint32_t i = 0; i < part->nin; i++)
		add_border(m, GRAPH_INPUT, &part->in[i]);
	for (uint32_t i = 0; i < part->nout; i++)
		add_border(m, GRAPH_OUTPUT, &part->out[i]);
}

static void make_model(struct message *m, const struct onnx_file *f, const struct onnx_part *part)
{
	struct message graph = {.arena = m->arena};
	struct pb_span rest = f->model;
	struct pb_field field;
	uint64_t ir = IR_INITIALIZERS;

	for (struct pb_span r = f->model; pb_next(&r, &field);)
		if (field.number == 1 && field.wire == PB_VARINT && field.value > ir)
			ir = field.value;
	add_number(m, 1, ir);
	while (pb_next(&rest, &field)) {
		if (field.number == 1 || field.number == MODEL_GRAPH || field.number == MODEL_TRAINING)
			continue;
		if (field.wire == PB_BYTES)
			add_bytes(m, field.number, field.bytes.p, field.bytes.n);
		else if (field.wire == PB_VARINT)
			add_number(m, field.number, field.value);
	}
	make_graph(&graph, f, part);
	add_message(m, MODEL_GRAPH, &graph);
}

int onnx_save_part(const struct onnx_file *f, const struct onnx_part *part, const char *path,
		   struct diag *d)
{
	struct arena a = {0};
	struct message m = {.arena = &a};

	make_model(&m, f, part);
	if (m.bytes >= INT32_MAX) {
		arena_free(&a);
		return FAIL(d, E_SIZE, .slot = path ? arena_str(&d->arena, path) : NULL,
			    .expected = "a model of less than 2 GiB",
			    .actual = fmt(d, "%zu bytes", m.bytes));
	}
	struct file_out *out = file_create(path, E_OUTPUT, d);
	for (size_t i = 0; out && i < m.n; i++)
		file_write(out, m.v[i].p, m.v[i].n);
	arena_free(&a);
	return out ? file_commit(out, d) : -E_OUTPUT;
}
