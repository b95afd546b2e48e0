/* SPDX-License-Identifier: Apache-2.0 */
#include "test/mutants/internal.h"

#include "base/asan.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char no_name[1];

enum { MAX_MODEL_BYTES = 64 << 10, MAX_GRAPHS = 32, MAX_EDITS = 4, MAX_BORROWED = 1 << 16 };

/* ---- random numbers and memory ---- */

uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9E3779B97F4A7C15u;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return n ? rng_next(r) % n : 0;
}

bool rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

void *pile_alloc(struct pile *p, size_t bytes)
{
	size_t rounded = ((bytes + 15) & ~(size_t)15) + (WITH_ASAN ? 16 : 0);

	if (rounded < bytes || rounded > p->size - p->used) {
		p->full = true;
		return NULL;
	}
	void *at = p->at + p->used;
	p->used += rounded;
	asan_poison(at, rounded);
	asan_unpoison(at, bytes);
	return memset(at, 0, bytes);
}

static void *alloc_in_pile(void *of, size_t bytes)
{
	return pile_alloc(of, bytes);
}

static void free_in_pile(void *of, void *at)
{
	(void)of, (void)at;
}

static void *keep_alloc(void *of, size_t bytes)
{
	(void)of;
	return calloc(1, bytes ? bytes : 1);
}

static void keep_free(void *of, void *at)
{
	(void)of;
	free(at);
}

static ProtobufCAllocator keep = {.alloc = keep_alloc, .free = keep_free};

static ProtobufCAllocator in_pile(struct pile *p)
{
	return (ProtobufCAllocator){.alloc = alloc_in_pile, .free = free_in_pile, .allocator_data = p};
}

char *pile_text(struct pile *p, const char *s)
{
	char *to = pile_alloc(p, strlen(s) + 1);

	return to ? strcpy(to, s) : no_name;
}

/* A copy of a message, through its bytes. */
void *duplicate_message(struct pile *p, const ProtobufCMessage *m)
{
	ProtobufCAllocator a = in_pile(p);
	size_t n = protobuf_c_message_get_packed_size(m);
	unsigned char *bytes = n <= MAX_BORROWED ? pile_alloc(p, n + 1) : NULL;

	if (!bytes)
		return NULL;
	protobuf_c_message_pack(m, bytes);
	return protobuf_c_message_unpack(m->descriptor, &a, n, bytes);
}

bool grow_list(struct pile *p, void **list, size_t n)
{
	void **old = *list, **more = pile_alloc(p, (n + 1) * sizeof(void *));

	if (!more)
		return false;
	if (n)
		memcpy(more, old, n * sizeof(void *));
	*list = (void *)more;
	return true;
}

void remove_at(void *list, size_t *n, size_t i)
{
	void **v = list;

	memmove(v + i, v + i + 1, (*n - i - 1) * sizeof(void *));
	--*n;
}

/* ---- the corpus ---- */

static struct bytes read_file(const char *path, size_t most)
{
	struct bytes b = {0};
	FILE *f = fopen(path, "rbe");

	if (!f)
		return b;
	b.data = malloc(most + 1);
	b.size = b.data ? fread(b.data, 1, most + 1, f) : 0;
	if (b.size > most || !b.data) {
		free(b.data);
		b = (struct bytes){0};
	} else if (b.size) {
		unsigned char *fits = realloc(b.data, b.size);
		b.data = fits ? fits : b.data;
	}
	fclose(f);
	return b;
}

static void pool_attribute(struct pool *p, Onnx__AttributeProto *a)
{
	if (p->nattributes % 1024 == 0)
		p->attribute = realloc(p->attribute, (p->nattributes + 1024) * sizeof(*p->attribute));
	p->attribute[p->nattributes++] = a;
}

static void pool_graph(struct pool *p, const Onnx__GraphProto *g)
{
	for (size_t i = 0; g && i < g->n_node; i++) {
		if (p->nnodes % 1024 == 0)
			p->node = realloc(p->node, (p->nnodes + 1024) * sizeof(*p->node));
		p->node[p->nnodes++] = g->node[i];
		for (size_t k = 0; k < g->node[i]->n_attribute; k++) {
			pool_attribute(p, g->node[i]->attribute[k]);
			pool_graph(p, g->node[i]->attribute[k]->g);
		}
	}
}

static bool is_initializer(const Onnx__GraphProto *g, const char *name)
{
	for (size_t i = 0; i < g->n_initializer; i++)
		if (g->initializer[i]->name && !strcmp(g->initializer[i]->name, name))
			return true;
	return false;
}

static void add_case(struct corpus *c, const char *dir, const char *name)
{
	char path[4096];
	struct seed_case s = {.name = strdup(name)};

	snprintf(path, sizeof(path), "%s/%s/model.onnx", dir, name);
	s.model = read_file(path, MAX_MODEL_BYTES);
	Onnx__ModelProto *m =
		s.model.data ? onnx__model_proto__unpack(&keep, s.model.size, s.model.data) : NULL;
	if (!m || !m->graph || !s.name) {
		if (m)
			onnx__model_proto__free_unpacked(m, &keep);
		free(s.model.data);
		free(s.name);
		return;
	}
	for (size_t i = 0; i < m->graph->n_input && s.ninputs < MAX_CASE_INPUTS; i++) {
		const char *input = m->graph->input[i]->name;
		if (!input || is_initializer(m->graph, input))
			continue;
		snprintf(path, sizeof(path), "%s/%s/test_data_set_0/input_%u.pb", dir, name,
			 s.ninputs);
		s.input_name[s.ninputs] = strdup(input);
		s.input[s.ninputs++] = read_file(path, 1 << 20);
	}
	pool_graph(c->pool, m->graph);
	s.unpacked = m;
	if (c->n % 1024 == 0)
		c->cases = realloc(c->cases, (c->n + 1024) * sizeof(*c->cases));
	c->cases[c->n++] = s;
}

/* A model's first mention of an operator, for sorting. */
struct mention {
	const char *op;
	uint32_t from;
};

static int by_operator(const void *a, const void *b)
{
	const struct mention *x = a, *y = b;
	int order = strcmp(x->op, y->op);

	return order ? order : x->from < y->from ? -1 : x->from > y->from;
}

/* Fills c->by_operator: for each operator PIECE of its cases, the same ones again where it has fewer. */
static void sort_by_operator(struct corpus *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += ((const Onnx__ModelProto *)c->cases[i].unpacked)->graph->n_node;
	struct mention *all = calloc(n + 1, sizeof(*all));
	c->by_operator = calloc((n + 1) * PIECE, sizeof(*c->by_operator));
	n = 0;
	for (uint32_t i = 0; all && i < c->n; i++) {
		const Onnx__GraphProto *g = ((const Onnx__ModelProto *)c->cases[i].unpacked)->graph;
		for (size_t k = 0; k < g->n_node; k++)
			if (g->node[k]->op_type)
				all[n++] = (struct mention){g->node[k]->op_type, i};
	}
	if (n)
		qsort(all, n, sizeof(*all), by_operator);
	for (size_t first = 0, end; first < n && c->by_operator; first = end) {
		for (end = first; end < n && !strcmp(all[end].op, all[first].op);)
			end++;
		for (size_t k = 0; k < PIECE; k++)
			c->by_operator[c->noperators * PIECE + k] =
				all[first + (end - first <= PIECE ? k % (end - first)
								  : k * (end - first) / PIECE)]
					.from;
		c->noperators++;
	}
	free(all);
}

static int by_case_name(const void *a, const void *b)
{
	return strcmp(((const struct seed_case *)a)->name, ((const struct seed_case *)b)->name);
}

bool corpus_read(struct corpus *c, const char *dir)
{
	char path[4096], name[1024];
	DIR *kinds = opendir(dir);

	*c = (struct corpus){.pool = calloc(1, sizeof(*c->pool))};
	for (struct dirent *kind; kinds && (kind = readdir(kinds));) {
		snprintf(path, sizeof(path), "%s/%s", dir, kind->d_name);
		DIR *d = kind->d_name[0] == '.' ? NULL : opendir(path);
		for (struct dirent *e; d && (e = readdir(d));) {
			snprintf(name, sizeof(name), "%s/%s", kind->d_name, e->d_name);
			if (e->d_name[0] != '.')
				add_case(c, dir, name);
		}
		if (d)
			closedir(d);
	}
	if (kinds)
		closedir(kinds);
	if (!c->n) {
		fprintf(stderr, "%s: no KIND/CASE/model.onnx in it\n", dir);
		return false;
	}
	/* the order of a folder differs from machine to machine, that of names does not */
	qsort(c->cases, c->n, sizeof(*c->cases), by_case_name);
	sort_by_operator(c);
	return true;
}

/* ---- values ---- */

int64_t odd_int(struct rng *r)
{
	static const int64_t odd[] = {0,
				      1,
				      -1,
				      2,
				      -2,
				      3,
				      4,
				      5,
				      7,
				      8,
				      16,
				      -3,
				      64,
				      127,
				      -128,
				      255,
				      256,
				      1000,
				      65535,
				      65536,
				      1 << 20,
				      INT32_MAX,
				      INT32_MIN,
				      1LL << 31,
				      1LL << 32,
				      1LL << 40,
				      1LL << 61,
				      1LL << 62,
				      INT64_MAX,
				      INT64_MIN,
				      INT64_MAX - 1};

	return rng_chance(r, 25) ? (int64_t)rng_below(r, 12) - 3
				 : odd[rng_below(r, sizeof(odd) / sizeof(*odd))];
}

float odd_float(struct rng *r)
{
	static const uint32_t odd[] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000,
				       0x7f800000, 0xff800000, 0x7fc00000, 0x00000001,
				       0x7f7fffff, 0xff7fffff, 0x3f000000, 0x40000000,
				       0x4f000000, 0x5f000000, 0x34000000, 0x3c23d70a};
	uint32_t bits = odd[rng_below(r, sizeof(odd) / sizeof(*odd))];
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

int64_t small_dim(struct rng *r)
{
	static const int64_t dims[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 16};

	return dims[rng_below(r, sizeof(dims) / sizeof(*dims))];
}

size_t element_bytes(int type)
{
	static const unsigned char bytes[] = {0, 4, 1, 1, 2,  2, 4, 8, 0, 1, 2,
					      8, 4, 8, 8, 16, 2, 1, 1, 1, 1};

	return type > 0 && type < (int)sizeof(bytes) ? bytes[type] : 0;
}

int some_type(struct rng *r)
{
	static const int types[] = {1,	1, 1, 7,  7,  6, 9,  10, 11, 2,	 3,
				    16, 4, 5, 12, 13, 8, 14, 17, 19, 21, 22};

	return types[rng_below(r, sizeof(types) / sizeof(*types))];
}

void fill_raw(struct rng *r, int type, unsigned char *to, size_t n)
{
	size_t size = element_bytes(type);
	bool odd = rng_chance(r, 30);

	for (size_t k = 0; k < n; k += size ? size : 1) {
		int64_t v = odd ? odd_int(r) : (int64_t)rng_below(r, 9) - 2;
		float f = odd ? odd_float(r) : (float)v;
		double d = f;
		const void *from = type == 1 ? (void *)&f : type == 11 ? (void *)&d : (void *)&v;
		size_t some = size && size <= 8 ? size : 1;
		memcpy(to + k, from, some < n - k ? some : n - k);
	}
}

void odd_elements(struct rng *r, int type, unsigned char *to, size_t n)
{
	size_t size = element_bytes(type) ? element_bytes(type) : 1, count = n / size;

	for (uint64_t left = 1 + rng_below(r, 4); count && left--;)
		fill_raw(r, type, to + rng_below(r, count) * size, size);
}

Onnx__TensorProto *make_tensor(struct rng *r, struct pile *p, const char *name, int type, int rank,
			       const int64_t *dims)
{
	Onnx__TensorProto *t = pile_alloc(p, sizeof(*t));
	size_t count = 1;

	if (!t)
		return NULL;
	onnx__tensor_proto__init(t);
	t->name = pile_text(p, name);
	t->data_type = type;
	t->has_data_type = 1;
	t->dims = pile_alloc(p, 8 * sizeof(*t->dims));
	for (int i = 0; t->dims && i < rank && i < 8; i++) {
		t->dims[i] = dims[i];
		count *= (size_t)dims[i];
	}
	t->n_dims = t->dims ? (size_t)rank : 0;
	count = count > 4096 ? 4096 : count;
	t->raw_data.len = count * element_bytes(t->data_type);
	t->raw_data.data = pile_alloc(p, t->raw_data.len + 1);
	t->has_raw_data = t->raw_data.data != NULL;
	if (t->has_raw_data)
		fill_raw(r, t->data_type, t->raw_data.data, t->raw_data.len);
	return t;
}

Onnx__TensorProto *some_tensor(struct rng *r, struct pile *p, const char *name)
{
	int rank = (int)rng_below(r, 5), type;
	int64_t dims[8];

	do
		type = some_type(r);
	while (!element_bytes(type));
	for (int i = 0; i < rank; i++)
		dims[i] = small_dim(r);
	return make_tensor(r, p, name, type, rank, dims);
}

static void edit_numbers(struct rng *r, Onnx__TensorProto *t)
{
	if (t->n_int64_data)
		t->int64_data[rng_below(r, t->n_int64_data)] = odd_int(r);
	else if (t->n_int32_data)
		t->int32_data[rng_below(r, t->n_int32_data)] = (int32_t)odd_int(r);
	else if (t->n_float_data)
		t->float_data[rng_below(r, t->n_float_data)] = odd_float(r);
	else if (t->has_raw_data && t->raw_data.len && element_bytes(t->data_type)) {
		size_t size = element_bytes(t->data_type), count = t->raw_data.len / size;
		size_t k = rng_below(r, count) * size;
		fill_raw(r, t->data_type, t->raw_data.data + k, count ? size : t->raw_data.len);
	}
}

static void edit_tensor(struct rng *r, struct pile *p, Onnx__TensorProto *t)
{
	int64_t *dims;

	switch (rng_below(r, 6)) {
	case 0: t->data_type = some_type(r); break;
	case 1:
		if (t->n_dims)
			t->dims[rng_below(r, t->n_dims)] =
				rng_chance(r, 70) ? small_dim(r) : odd_int(r);
		break;
	case 2:
		dims = pile_alloc(p, (t->n_dims + 2) * sizeof(*dims));
		if (dims && t->n_dims)
			memcpy(dims, t->dims, t->n_dims * sizeof(*dims));
		if (dims) {
			dims[t->n_dims++] = rng_chance(r, 60) ? 1 : small_dim(r);
			t->dims = dims;
		}
		break;
	case 3: /* one row more or less, with the bytes for it */
		if (t->n_dims && t->has_raw_data && t->dims[0] > 0) {
			size_t row = t->raw_data.len / (size_t)t->dims[0];
			if (rng_chance(r, 50)) {
				t->dims[0]--;
				t->raw_data.len -= row;
			} else {
				unsigned char *more = pile_alloc(p, t->raw_data.len + row + 1);
				if (more) {
					if (t->raw_data.len)
						memcpy(more, t->raw_data.data, t->raw_data.len);
					t->raw_data.data = more;
					t->raw_data.len += row;
					t->dims[0]++;
				}
			}
		}
		break;
	default:
		for (int k = 0; k < 3; k++)
			edit_numbers(r, t);
	}
}

/* ---- names in scope ---- */

void name_add(struct names *s, const char *name, int type)
{
	if (!name || !*name || s->n == MAX_NAMES)
		return;
	s->type[s->n] = type;
	s->v[s->n++] = name;
}

static int declared_type(const Onnx__ValueInfoProto *v)
{
	return v->type && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
		       ? v->type->tensor_type->elem_type
		       : 0;
}

static void names_of(struct names *s, const Onnx__GraphProto *g)
{
	for (size_t i = 0; i < g->n_input; i++)
		name_add(s, g->input[i]->name, declared_type(g->input[i]));
	for (size_t i = 0; i < g->n_initializer; i++)
		name_add(s, g->initializer[i]->name, g->initializer[i]->data_type);
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++)
			name_add(s, g->node[i]->output[k], 0);
}

static void graphs_of(Onnx__GraphProto *g, Onnx__GraphProto **list, size_t *n)
{
	if (*n == MAX_GRAPHS)
		return;
	list[(*n)++] = g;
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_attribute; k++)
			if (g->node[i]->attribute[k]->g)
				graphs_of(g->node[i]->attribute[k]->g, list, n);
}

/* ---- edits ---- */

Onnx__NodeProto *some_node(struct mutant *m)
{
	return m->graph->n_node ? m->graph->node[rng_below(m->r, m->graph->n_node)] : NULL;
}

char *new_name(struct mutant *m)
{
	char text[32];

	snprintf(text, sizeof(text), "mutant_%u", m->made++);
	return pile_text(m->p, text);
}

char *some_name(struct mutant *m)
{
	return m->names.n ? pile_text(m->p, m->names.v[rng_below(m->r, m->names.n)]) : no_name;
}

void add_initializer(struct mutant *m, Onnx__TensorProto *t)
{
	if (t)
		PUSH(m->p, m->graph->initializer, m->graph->n_initializer, t);
}

void add_output(struct mutant *m, char *name)
{
	Onnx__ValueInfoProto *v = pile_alloc(m->p, sizeof(*v));

	if (!v)
		return;
	onnx__value_info_proto__init(v);
	v->name = name;
	PUSH(m->p, m->model->graph->output, m->model->graph->n_output, v);
}

static void edit_attribute_ints(struct mutant *m, Onnx__AttributeProto *a)
{
	int64_t *more;

	switch (rng_below(m->r, 4)) {
	case 0:
		more = pile_alloc(m->p, (a->n_ints + 2) * sizeof(*more));
		if (!more)
			return;
		if (a->n_ints)
			memcpy(more, a->ints, a->n_ints * sizeof(*more));
		more[a->n_ints++] =
			rng_chance(m->r, 60) ? (int64_t)rng_below(m->r, 4) : odd_int(m->r);
		a->ints = more;
		break;
	case 1:
		if (a->n_ints)
			a->n_ints--;
		break;
	default:
		if (a->n_ints)
			a->ints[rng_below(m->r, a->n_ints)] = odd_int(m->r);
	}
}

static void edit_attribute(struct mutant *m)
{
	Onnx__NodeProto *n = some_node(m);
	Onnx__AttributeProto *a =
		n && n->n_attribute ? n->attribute[rng_below(m->r, n->n_attribute)] : NULL;
	const struct pool *pool = m->corpus->pool;

	if (!a)
		return;
	if (a->n_ints || a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS)
		edit_attribute_ints(m, a);
	else if (a->has_i)
		a->i = odd_int(m->r);
	else if (a->has_f)
		a->f = odd_float(m->r);
	else if (a->n_floats)
		a->floats[rng_below(m->r, a->n_floats)] = odd_float(m->r);
	else if (a->t)
		edit_tensor(m->r, m->p, a->t);
	else if (a->has_s)
		for (int k = 0; k < 64; k++) { /* a word that some model says */
			const Onnx__AttributeProto *other =
				pool->attribute[rng_below(m->r, pool->nattributes)];
			if (other->has_s) {
				a->s = other->s;
				break;
			}
		}
}

/* An attribute that some node of the same operator has, or one left out. */
static void swap_attribute(struct mutant *m)
{
	Onnx__NodeProto *n = some_node(m);
	const struct pool *pool = m->corpus->pool;

	if (!n)
		return;
	if (n->n_attribute && rng_chance(m->r, 40)) {
		remove_at(n->attribute, &n->n_attribute, rng_below(m->r, n->n_attribute));
		return;
	}
	for (int k = 0; k < 256; k++) {
		const Onnx__NodeProto *other = pool->node[rng_below(m->r, pool->nnodes)];
		if (!other->n_attribute || !other->op_type || !n->op_type ||
		    strcmp(other->op_type, n->op_type) != 0)
			continue;
		Onnx__AttributeProto *a = duplicate_message(
			m->p, &other->attribute[rng_below(m->r, other->n_attribute)]->base);
		if (!a)
			return;
		for (size_t i = 0; i < n->n_attribute; i++)
			if (n->attribute[i]->name && a->name &&
			    !strcmp(n->attribute[i]->name, a->name)) {
				n->attribute[i] = a;
				return;
			}
		PUSH(m->p, n->attribute, n->n_attribute, a);
		return;
	}
}

static void edit_wires(struct mutant *m)
{
	Onnx__NodeProto *n = some_node(m);

	if (!n)
		return;
	size_t i = rng_below(m->r, n->n_input), k = rng_below(m->r, n->n_input);
	switch (rng_below(m->r, 7)) {
	case 0:
	case 1: /* left out */
		if (n->n_input)
			n->input[i] = no_name;
		break;
	case 2:
		if (n->n_input)
			n->n_input--;
		break;
	case 3:
		if (n->n_input) {
			char *t = n->input[i];
			n->input[i] = n->input[k];
			n->input[k] = t;
		}
		break;
	case 4:
		if (n->n_input)
			n->input[i] = some_name(m);
		break;
	case 5: PUSH(m->p, n->input, n->n_input, some_name(m)); break;
	default: {
		char *name = new_name(m);
		add_initializer(m, some_tensor(m->r, m->p, name));
		if (n->n_input)
			n->input[i] = name;
	}
	}
}

static void edit_outputs(struct mutant *m)
{
	Onnx__NodeProto *n = some_node(m);

	if (!n)
		return;
	if (n->n_output > 1 && rng_chance(m->r, 50))
		n->n_output--;
	else if (n->n_output && rng_chance(m->r, 30))
		n->output[rng_below(m->r, n->n_output)] = no_name;
	else
		PUSH(m->p, n->output, n->n_output, new_name(m));
}

/* A node of another model behind those of this one, fed with what is there. */
static void append_node(struct mutant *m)
{
	const struct pool *pool = m->corpus->pool;
	Onnx__NodeProto *n =
		duplicate_message(m->p, &pool->node[rng_below(m->r, pool->nnodes)]->base);

	if (!n)
		return;
	for (size_t i = 0; i < n->n_input; i++) {
		if (!*n->input[i])
			continue;
		if (rng_chance(m->r, 65)) {
			n->input[i] = some_name(m);
		} else {
			n->input[i] = new_name(m);
			add_initializer(m, some_tensor(m->r, m->p, n->input[i]));
		}
	}
	for (size_t i = 0; i < n->n_output; i++) {
		n->output[i] = new_name(m);
		name_add(&m->names, n->output[i], 0);
	}
	PUSH(m->p, m->graph->node, m->graph->n_node, n);
	if (n->n_output && m->graph == m->model->graph)
		add_output(m, n->output[0]);
}

static void change_operator(struct mutant *m)
{
	Onnx__NodeProto *n = some_node(m);
	const struct pool *pool = m->corpus->pool;

	for (int k = 0; n && k < 64; k++) {
		const Onnx__NodeProto *other = pool->node[rng_below(m->r, pool->nnodes)];
		if (other->n_input != n->n_input || other->n_output != n->n_output)
			continue;
		n->op_type = other->op_type;
		n->domain = other->domain;
		if (rng_chance(m->r, 60)) {
			const Onnx__NodeProto *copy = duplicate_message(m->p, &other->base);
			if (copy) {
				n->attribute = copy->attribute;
				n->n_attribute = copy->n_attribute;
			}
		}
		return;
	}
}

static void edit_initializer(struct mutant *m)
{
	if (m->graph->n_initializer)
		edit_tensor(m->r, m->p,
			    m->graph->initializer[rng_below(m->r, m->graph->n_initializer)]);
}

/* An input becomes a constant with the case's value, so that optimizing meets it. */
static void freeze_input(struct mutant *m)
{
	Onnx__GraphProto *g = m->model->graph;
	ProtobufCAllocator a = in_pile(m->p);
	size_t i = rng_below(m->r, g->n_input);

	if (!g->n_input)
		return;
	for (unsigned k = 0; k < m->seed->ninputs; k++) {
		if (!m->seed->input[k].data || !g->input[i]->name ||
		    strcmp(m->seed->input_name[k], g->input[i]->name) != 0)
			continue;
		Onnx__TensorProto *t = onnx__tensor_proto__unpack(&a, m->seed->input[k].size,
								  m->seed->input[k].data);
		if (!t || !t->has_data_type)
			return;
		t->name = g->input[i]->name;
		if (rng_chance(m->r, 40))
			edit_tensor(m->r, m->p, t);
		PUSH(m->p, g->initializer, g->n_initializer, t);
		remove_at(g->input, &g->n_input, i);
		return;
	}
}

static void freeze_all(struct mutant *m)
{
	for (size_t n = m->model->graph->n_input * 2; n--;)
		freeze_input(m);
}

static void edit_type(struct mutant *m)
{
	Onnx__GraphProto *g = m->graph;
	bool in = rng_chance(m->r, 70);
	size_t n = in ? g->n_input : g->n_output;
	Onnx__ValueInfoProto *v = n ? (in ? g->input : g->output)[rng_below(m->r, n)] : NULL;

	if (!v || !v->type || v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
		return;
	Onnx__TypeProto__Tensor *t = v->type->tensor_type;
	if (rng_chance(m->r, 25) || !t->shape) {
		t->elem_type = some_type(m->r);
		return;
	}
	Onnx__TensorShapeProto *s = t->shape;
	size_t i = rng_below(m->r, s->n_dim);
	switch (rng_below(m->r, 5)) {
	case 0: t->shape = NULL; break;
	case 1:
		if (s->n_dim)
			s->n_dim--;
		break;
	case 2:
		if (s->n_dim)
			PUSH(m->p, s->dim, s->n_dim, s->dim[i]);
		break;
	default:
		if (s->n_dim &&
		    s->dim[i]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
			s->dim[i]->dim_value = rng_chance(m->r, 70) ? small_dim(m->r) : odd_int(m->r);
	}
}

static void free_shape(Onnx__ValueInfoProto *v, struct mutant *m)
{
	if (declared_type(v) == 0 || !v->type->tensor_type->shape)
		return;
	Onnx__TensorShapeProto *s = v->type->tensor_type->shape;
	for (size_t i = 0; i < s->n_dim; i++) {
		if (rng_chance(m->r, 30))
			continue;
		s->dim[i]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
		/* a name that several dimensions share must have one size */
		s->dim[i]->dim_param = rng_chance(m->r, 30) ? pile_text(m->p, "n") : new_name(m);
	}
	if (rng_chance(m->r, 15))
		v->type->tensor_type->shape = NULL;
}

/* Inputs whose sizes are known only at the run, where they differ from run to run. */
static void free_shapes(struct mutant *m)
{
	Onnx__GraphProto *g = m->model->graph;

	for (size_t i = 0; i < g->n_input; i++)
		free_shape(g->input[i], m);
	for (size_t i = 0; i < g->n_output; i++)
		if (declared_type(g->output[i]))
			g->output[i]->type->tensor_type->shape = NULL;
	g->n_value_info = 0;
}

static void retype_value(Onnx__ValueInfoProto *v, int from, int to)
{
	if (declared_type(v) == from)
		v->type->tensor_type->elem_type = to;
}

/* The same model over another element type. */
static void retype(struct mutant *m)
{
	static const int types[] = {1, 10, 11, 16, 6, 7, 9, 2, 3};
	Onnx__GraphProto *g = m->model->graph;
	int from = g->n_input ? declared_type(g->input[rng_below(m->r, g->n_input)]) : 1;
	int to = types[rng_below(m->r, sizeof(types) / sizeof(*types))];

	if (!from) /* a sequence, an optional */
		return;
	for (size_t i = 0; i < g->n_input; i++)
		retype_value(g->input[i], from, to);
	for (size_t i = 0; i < g->n_output; i++)
		retype_value(g->output[i], from, to);
	g->n_value_info = 0;
	for (size_t i = 0; i < g->n_initializer; i++) {
		Onnx__TensorProto *t = g->initializer[i];
		if (t->data_type == from && t->n_dims <= 8)
			g->initializer[i] =
				make_tensor(m->r, m->p, t->name, to, (int)t->n_dims, t->dims);
		if (!g->initializer[i])
			g->initializer[i] = t;
	}
}

static void edit_opset(struct mutant *m)
{
	if (m->model->n_opset_import)
		m->model->opset_import[rng_below(m->r, m->model->n_opset_import)]->version =
			1 + (int64_t)rng_below(m->r, 26);
}

static void drop_node(struct mutant *m)
{
	if (m->graph->n_node > 1)
		remove_at(m->graph->node, &m->graph->n_node, rng_below(m->r, m->graph->n_node));
}

static void edit(struct mutant *m)
{
	static void (*const edits[])(struct mutant *) = {
		edit_attribute,	   edit_attribute,    edit_attribute,	 swap_attribute,
		edit_wires,	   edit_wires,	      edit_wires,	 edit_outputs,
		append_node,	   append_node,	      append_node,	 change_operator,
		change_operator,   edit_initializer,  edit_initializer,	 freeze_input,
		freeze_all,	   edit_type,	      edit_type,	 edit_opset,
		drop_node,	   free_shapes,	      free_shapes,	 retype,
		append_neighbours, append_neighbours, append_neighbours, wrap_node,
		wrap_value,	   invent_node,	      invent_node,	 invent_node};
	Onnx__GraphProto *graphs[MAX_GRAPHS];
	size_t n = 0;

	graphs_of(m->model->graph, graphs, &n);
	m->graph = graphs[rng_chance(m->r, 50) ? 0 : rng_below(m->r, n)];
	m->names.n = 0;
	names_of(&m->names, m->graph);
	if (m->graph != m->model->graph)
		names_of(&m->names, m->model->graph);
	edits[rng_below(m->r, sizeof(edits) / sizeof(*edits))](m);
}

/* Every domain that a borrowed node may come from is imported, or it would always be refused for that alone. */
static void import_domains(struct mutant *m)
{
	static const struct {
		const char *domain;
		int64_t version;
	} known[] = {{"com.microsoft", 1},
		     {"ai.onnx.ml", 5},
		     {"ai.onnx.preview", 1},
		     {"ai.onnx.preview.training", 1}};

	for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
		bool there = false;
		for (size_t i = 0; i < m->model->n_opset_import; i++)
			there |= m->model->opset_import[i]->domain &&
				 !strcmp(m->model->opset_import[i]->domain, known[k].domain);
		Onnx__OperatorSetIdProto *o = there ? NULL : pile_alloc(m->p, sizeof(*o));
		if (!o)
			continue;
		onnx__operator_set_id_proto__init(o);
		o->domain = pile_text(m->p, known[k].domain);
		o->version = known[k].version;
		o->has_version = 1;
		PUSH(m->p, m->model->opset_import, m->model->n_opset_import, o);
	}
}

static void meet_operators(const struct mutant *m, void (*met)(const char *domain, const char *op))
{
	Onnx__GraphProto *graphs[MAX_GRAPHS];
	size_t n = 0;

	graphs_of(m->model->graph, graphs, &n);
	for (size_t g = 0; g < n; g++)
		for (size_t i = 0; i < graphs[g]->n_node; i++)
			met(graphs[g]->node[i]->domain, graphs[g]->node[i]->op_type);
}

/* Half of them by the operator, or those with most cases would take most mutants. */
static size_t pick_case(const struct corpus *c, struct rng *r)
{
	if (!c->noperators || rng_chance(r, 50))
		return rng_below(r, c->n);
	return c->by_operator[rng_below(r, c->noperators) * PIECE + rng_below(r, PIECE)];
}

/*
 * A Loop whose count of turns is left out or large may never end, by its meaning. Most mutants get a small count instead; of the
 * others the caller learns it.
 */
static bool may_be_endless(struct mutant *m)
{
	Onnx__GraphProto *graphs[MAX_GRAPHS];
	bool bound = rng_chance(m->r, 90), loops = false;
	size_t n = 0;

	graphs_of(m->model->graph, graphs, &n);
	for (size_t g = 0; g < n; g++)
		for (size_t i = 0; i < graphs[g]->n_node; i++) {
			Onnx__NodeProto *node = graphs[g]->node[i];
			if (!node->op_type || strcmp(node->op_type, "Loop") != 0)
				continue;
			loops = true;
			m->graph = graphs[g];
			if (bound && node->n_input)
				node->input[0] = count_of_turns(m);
		}
	return loops && !bound;
}

static struct rng rng_of(uint64_t seed, uint64_t i)
{
	struct rng r = {seed * 0x2545F4914F6CDD1Du + i * 0x9E3779B97F4A7C15u};

	rng_next(&r);
	return r;
}

size_t mutant_case(const struct corpus *c, uint64_t seed, uint64_t i)
{
	struct rng r = rng_of(seed, i);

	return pick_case(c, &r);
}

bool mutant_make(const struct corpus *c, uint64_t seed, uint64_t i, struct pile *p, size_t *from,
		 struct bytes *out, void (*met)(const char *domain, const char *op))
{
	struct rng r = rng_of(seed, i);
	ProtobufCAllocator a = in_pile(p);

	p->used = 0;
	p->full = false;
	*from = pick_case(c, &r);
	struct mutant m = {.corpus = c, .seed = &c->cases[*from], .r = &r, .p = p};
	m.model = onnx__model_proto__unpack(&a, m.seed->model.size, m.seed->model.data);
	if (!m.model || !m.model->graph || p->full)
		return false;
	import_domains(&m);
	/* most have one edit: more are refused more often, and say less of why */
	for (int k = 0; k < MAX_EDITS && (k == 0 || rng_chance(&r, 45)); k++)
		edit(&m);
	out->endless = may_be_endless(&m);
	out->size = p->full ? 0 : onnx__model_proto__get_packed_size(m.model);
	out->data = out->size && out->size <= p->size ? pile_alloc(p, out->size) : NULL;
	if (!out->data)
		return false;
	onnx__model_proto__pack(m.model, out->data);
	if (met)
		meet_operators(&m, met);
	return true;
}
