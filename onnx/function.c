/* SPDX-License-Identifier: Apache-2.0 */
/* Expands model-local functions: each call is replaced by the nodes of the function's body. */
#include "onnx/internal.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_ATTRIBUTES = 1024, KEY = 512 };

/* ---- which function a node calls */

static struct pb_span last_occurrence(struct pb_span m, uint32_t number)
{
	struct pb_span s = {0};

	while (pb_each(&m, number, &s))
		;
	return s;
}

/* Makes the key "domain\0name\0overload" of a function and returns its length; 0 if it does not fit. */
static size_t make_key(char key[KEY], struct pb_span domain, struct pb_span name,
		       struct pb_span overload)
{
	const struct pb_span parts[] = {domain, name, overload};
	size_t n = 0;

	if (domain.n > KEY || name.n > KEY || overload.n > KEY ||
	    domain.n + name.n + overload.n + 3 > KEY)
		return 0;
	for (int i = 0; i < 3; i++) {
		if (parts[i].n)
			memcpy(key + n, parts[i].p, parts[i].n);
		n += parts[i].n;
		key[n++] = '\0';
	}
	return n;
}

static int index_function(struct loader *l, struct pb_span m, uint32_t i)
{
	struct function *f = &l->functions[i];
	struct pb_span domain = last_occurrence(m, FUNCTION_DOMAIN);
	char key[KEY];

	*f = (struct function){.bytes = m, .name = last_occurrence(m, FUNCTION_NAME)};
	if (span_is(domain, "ai.onnx"))
		domain.n = 0;
	size_t n = make_key(key, domain, f->name, last_occurrence(m, FUNCTION_OVERLOAD));
	if (!f->name.n || !n)
		return FAIL(l->d, E_MODEL_FUNCTION, .slot = fmt(l->d, "function %" PRIu32, i),
			    .expected = "a name", .actual = f->name.n ? "a very long one" : "none");
	if (!map_set(&l->function_of, arena_dup(&l->scratch, key, n), n, i))
		return FAIL(l->d, E_MODEL_FUNCTION,
			    .slot = fmt(l->d, "function '%s'", span_show(l, f->name)),
			    .expected = "one of this name, domain and overload",
			    .actual = "a second one");
	return load_opsets(l, m, FUNCTION_OPSET, &f->opsets);
}

int functions_index(struct loader *l, struct pb_span model)
{
	struct pb_span rest = model, m;
	size_t n = pb_occurs(model, MODEL_FUNCTIONS);
	uint32_t i = 0;

	l->functions = arena_new_n(&l->scratch, struct function, n);
	while (i < n && pb_each(&rest, MODEL_FUNCTIONS, &m)) {
		int rc = index_function(l, m, i++);
		if (rc)
			return rc;
	}
	l->nfunctions = l->m->nfunctions = i;
	return 0;
}

struct function *function_find(struct loader *l, const struct node_view *v)
{
	char key[KEY];

	if (!l->nfunctions)
		return NULL;
	size_t n = make_key(key, v->domain, v->type, v->overload);
	int64_t i = n ? map_get(&l->function_of, key, n) : -1;
	return i < 0 ? NULL : &l->functions[i];
}

/* No more functions of a model are searched, and no more bytes of them, so that many nodes and large functions do not take long. */
enum { MAX_LISTED = 1000, MAX_LISTED_BYTES = 16 << 20 };

int function_refuse_overload(struct loader *l, const struct node_view *v)
{
	const char *have = "";

	if (l->nfunctions > MAX_LISTED || op_domain_known(span_text(l->a, v->domain)))
		return 0;
	for (uint32_t i = 0; i < l->nfunctions; i++) {
		const struct function *f = &l->functions[i];
		if (f->name.n != v->type.n || memcmp(f->name.p, v->type.p, v->type.n) != 0)
			continue;
		l->listed += f->bytes.n; /* each node may list functions of megabytes */
		if (l->listed > MAX_LISTED_BYTES)
			return 0;
		struct pb_span domain = last_occurrence(f->bytes, FUNCTION_DOMAIN);
		if (domain.n == v->domain.n && !memcmp(domain.p, v->domain.p, domain.n))
			have = fmt(l->d, "%s%s'%s'", have, *have ? ", " : "",
				   span_show(l, last_occurrence(f->bytes, FUNCTION_OVERLOAD)));
	}
	return !*have ? 0
		      : FAIL(l->d, E_MODEL_FUNCTION,
			     .slot = fmt(l->d, "function '%s'", span_show(l, v->type)),
			     .message = "no function of the model has this overload",
			     .expected = fmt(l->d, "an overload that the model has: %s", have),
			     .actual = fmt(l->d, "'%s'", span_show(l, v->overload)),
			     .hint = "correct the node's overload, or add the function");
}

/* ---- the cost of a call, computed before anything is expanded so that a small file cannot grow without bound */

static int count_function(struct loader *l, struct function *f, unsigned depth);

static void add_cost(uint64_t *sum, uint64_t cost)
{
	if (__builtin_add_overflow(*sum, cost, sum))
		*sum = UINT64_MAX;
}

/* Cost of walking over a message: 8 for each field, because a field is visited several times. */
static uint64_t walk_cost(struct pb_span m)
{
	struct pb_field f;
	uint64_t n = 0;

	while (pb_next(&m, &f))
		n += 8;
	return n;
}

static int count_nodes(struct loader *l, struct pb_span bytes, uint32_t number, unsigned depth,
		       uint64_t *sum);

/* Adds the cost of an attribute, which every call copies. Tensors are free because calls share them; bodies count like nodes. */
static int count_attribute(struct loader *l, struct pb_span attr, unsigned depth, uint64_t *sum)
{
	struct pb_span rest = attr;
	struct pb_field f;
	int rc = 0;

	while (!rc && pb_next(&rest, &f)) {
		if (f.number == ATTRIBUTE_G || f.number == ATTRIBUTE_GRAPHS)
			rc = count_nodes(l, f.bytes, GRAPH_NODE, depth, sum);
		else if (f.number != ATTRIBUTE_T && f.number != ATTRIBUTE_TENSORS &&
			 f.number != ATTRIBUTE_SPARSE)
			add_cost(sum, 8 + f.bytes.n * 8);
	}
	return rc;
}

static int count_nodes(struct loader *l, struct pb_span bytes, uint32_t number, unsigned depth,
		       uint64_t *sum)
{
	struct pb_span rest = bytes, m;

	add_cost(sum, walk_cost(bytes));
	while (pb_each(&rest, number, &m)) {
		struct node_view v = node_view(m, 0);
		struct function *f = function_find(l, &v);
		struct pb_span attrs = m, attr;
		int rc = f ? count_function(l, f, depth + 1) : 0;
		add_cost(sum, (f ? f->cost : EXPANDED_NODE) + walk_cost(m));
		while (!rc && pb_each(&attrs, NODE_ATTRIBUTE, &attr))
			rc = count_attribute(l, attr, depth, sum);
		if (rc)
			return rc;
	}
	return 0;
}

static int count_function(struct loader *l, struct function *f, unsigned depth)
{
	const char *slot;
	uint64_t sum = EXPANDED_NODE;

	if (f->cost)
		return 0;
	slot = fmt(l->d, "function '%s'", span_show(l, f->name));
	if (f->counting)
		return FAIL(l->d, E_MODEL_FUNCTION, .slot = slot,
			    .expected = "functions that do not call themselves",
			    .actual = "one that does, directly or through others");
	if (depth >= CALL_DEPTH)
		return FAIL(l->d, E_MODEL_FUNCTION, .slot = slot,
			    .expected = fmt(l->d, "at most %d calls in one another", CALL_DEPTH),
			    .actual = "more");
	f->counting = true;
	int rc = count_nodes(l, f->bytes, FUNCTION_NODE, depth, &sum);
	f->counting = false;
	if (!rc)
		f->cost = sum;
	return rc;
}

static int admit(struct loader *l, struct function *f)
{
	int rc = count_function(l, f, 0);

	if (rc || l->calls)
		return rc;
	add_cost(&l->expanded, f->cost);
	if (l->expanded <= EXPANDED_BASE + 8 * (uint64_t)l->m->file_bytes)
		return 0;
	return FAIL(l->d, E_MODEL_FUNCTION, .slot = fmt(l->d, "function '%s'", span_show(l, f->name)),
		    .expected = "functions that expand to a graph of bearable size",
		    .actual = "more nodes than that");
}

/* ---- a call */

static const struct env_attr *env_find(const struct env *e, struct pb_span name)
{
	for (size_t i = 0; i < e->n; i++)
		if (span_same(e->v[i].name, name))
			return &e->v[i];
	return NULL;
}

static bool declared(const struct function *f, struct pb_span name)
{
	struct pb_span rest = f->bytes, s;

	while (pb_each(&rest, FUNCTION_ATTRIBUTE, &s))
		if (span_same(s, name))
			return true;
	for (rest = f->bytes; pb_each(&rest, FUNCTION_DEFAULTS, &s);)
		if (span_same(last_occurrence(s, 1), name))
			return true;
	return false;
}

/* Collects the attributes that the body may refer to: those of the call, then the function's defaults. */
static int make_env(struct loader *l, struct scope *s, struct arena *a, const struct node_view *v,
		    const struct function *f, struct env *env)
{
	struct pb_span rest = v->bytes, m;
	size_t most = pb_occurs(v->bytes, NODE_ATTRIBUTE) + pb_occurs(f->bytes, FUNCTION_DEFAULTS);

	if (most > MAX_ATTRIBUTES || pb_occurs(f->bytes, FUNCTION_ATTRIBUTE) > MAX_ATTRIBUTES)
		return FAIL(l->d, E_MODEL_FUNCTION,
			    .expected = fmt(l->d, "at most %d attributes", MAX_ATTRIBUTES),
			    .actual = "more");
	env->v = arena_new_n(a, struct env_attr, most);
	while (pb_each(&rest, NODE_ATTRIBUTE, &m)) {
		struct env_attr *e = &env->v[env->n];
		int rc = attr_read(l, s, a, m, e);
		if (!rc && !declared(f, e->name))
			rc = FAIL(l->d, E_OP_ATTRIBUTE,
				  .slot = fmt(l->d, "attribute '%s'", span_show(l, e->name)),
				  .message = "the function has no such attribute");
		if (rc)
			return rc;
		env->n += e->attr != NULL;
	}
	for (rest = f->bytes; pb_each(&rest, FUNCTION_DEFAULTS, &m);) {
		struct env_attr *e = &env->v[env->n];
		int rc = attr_read(l, s, a, m, e);
		if (rc)
			return rc;
		e->scope = NULL;
		env->n += e->attr && !env_find(env, e->name);
	}
	return 0;
}

static int bind_inputs(struct loader *l, struct scope *fs, const struct function *f,
		       const uint32_t *in, uint32_t nin)
{
	struct pb_span rest = f->bytes, name;
	uint32_t i = 0;

	for (; pb_each(&rest, FUNCTION_INPUT, &name); i++)
		if (!map_set(&fs->names, (const char *)name.p, name.n, i < nin ? in[i] : NO_VALUE))
			return FAIL(l->d, E_MODEL_FUNCTION, .expected = "inputs of different names",
				    .actual = fmt(l->d, "'%s' twice", span_show(l, name)));
	if (i < nin)
		return FAIL(l->d, E_OP_INPUTS, .slot = "inputs",
			    .expected = fmt(l->d, "at most %" PRIu32, i),
			    .actual = fmt(l->d, "%" PRIu32, nin));
	return 0;
}

/* Maps the function's outputs to the caller's values, so that the body writes those directly. */
static int bind_outputs(struct loader *l, struct scope *fs, struct arena *a,
			const struct function *f, const uint32_t *out, uint32_t nout)
{
	struct pb_span rest = f->bytes, *name;
	size_t n = pb_occurs(f->bytes, FUNCTION_OUTPUT);

	if (n < nout)
		return FAIL(l->d, E_OP_INPUTS, .slot = "outputs",
			    .expected = fmt(l->d, "at most %zu", n),
			    .actual = fmt(l->d, "%" PRIu32, nout));
	name = arena_new_n(a, struct pb_span, n);
	fs->result = name;
	fs->written = arena_new_n(a, bool, n);
	fs->nresults = nout;
	for (uint32_t i = 0; i < nout && pb_each(&rest, FUNCTION_OUTPUT, &name[i]); i++) {
		if (out[i] == NO_VALUE || map_get(&fs->names, (const char *)name[i].p, name[i].n) >= 0)
			fs->written[i] = true; /* not by a node */
		else
			map_set(&fs->names, (const char *)name[i].p, name[i].n, out[i]);
	}
	return 0;
}

/* A function output that is also an input or another output needs a node: an Identity copies it to the caller's value. */
static void copy_to_output(struct loader *l, struct scope *fs, uint32_t from, uint32_t to)
{
	const struct op *op = op_named("Identity");
	const char *name = arena_printf(l->a, "%sIdentity_%" PRIu32, fs->prefix, to);
	void *params = op ? arena_alloc(l->a, op->params_size) : NULL;
	struct node *n = graph_add_node(fs->g, op, params, &from, 1, &to, 1,
					next_origin(l, name, "Identity", op));

	n->type = "Identity";
	n->version = (int)op_domain_version("");
}

static int finish_outputs(struct loader *l, struct scope *fs, const uint32_t *out, uint32_t nout)
{
	for (uint32_t i = 0; i < nout; i++) {
		uint32_t id;
		if (out[i] == NO_VALUE)
			continue;
		bool found = scope_find(l, fs, fs->result[i], &id) && id != NO_VALUE;
		if (!found || (id == out[i] && !fs->written[i]))
			return FAIL(l->d, E_MODEL_FUNCTION,
				    .slot = fmt(l->d, "output '%s'", span_show(l, fs->result[i])),
				    .expected = "a node that writes it", .actual = "none");
		if (id != out[i])
			copy_to_output(l, fs, id, out[i]);
	}
	return 0;
}

/* Makes the prefix "caller/" for the names inside of the function; only the end of a long caller's name is kept. */
static const char *prefix(struct loader *l, const struct scope *s, const struct node_view *v)
{
	const char *title = node_title(&l->scratch, s, v);
	size_t n = strlen(title);

	return n <= TITLE ? arena_printf(&l->scratch, "%s/", title)
			  : arena_printf(&l->scratch, "...%s/", title + n - TITLE);
}

int function_call(struct loader *l, struct scope *s, const struct node_view *v, struct function *f,
		  const uint32_t *in, uint32_t nin, const uint32_t *out, uint32_t nout)
{
	struct arena a = {0};
	struct env env = {0};
	struct scope *fs = arena_new(&l->scratch, struct scope);
	int rc = admit(l, f);

	l->calls++;
	fs->g = s->g;
	fs->names.arena = &l->scratch;
	fs->opsets = f->opsets;
	fs->env = &env;
	fs->prefix = prefix(l, s, v);
	if (!rc)
		rc = make_env(l, s, &a, v, f, &env);
	if (!rc)
		rc = bind_inputs(l, fs, f, in, nin);
	if (!rc)
		rc = bind_outputs(l, fs, &a, f, out, nout);
	if (!rc)
		rc = load_declare(l, fs, f->bytes, FUNCTION_NODE);
	if (!rc)
		rc = load_nodes(l, fs, f->bytes, FUNCTION_NODE);
	if (!rc)
		rc = finish_outputs(l, fs, out, nout);
	l->calls--;
	arena_free(&a);
	return rc;
}
