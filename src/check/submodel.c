/* SPDX-License-Identifier: Apache-2.0 */
#include "check/submodel.h"

#include "base/file.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <string.h>

/* ---- the file --------------------------------------------------------------------------------- */

static void index_file(struct extractor *p)
{
	for (uint32_t i = 0; i < onnx_file_nodes(p->file); i++) {
		const struct onnx_node *n = onnx_file_node(p->file, i);
		map_set(&p->node_of, n->title, strlen(n->title), i);
		for (uint32_t k = 0; k < n->nout; k++)
			if (*n->out[k])
				map_set(&p->maker_of, n->out[k], strlen(n->out[k]), i);
	}
	const struct graph *g = p->c->file->graph;
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->init && *g->value[i]->name)
			map_set(&p->weight, g->value[i]->name, strlen(g->value[i]->name), i);
}

int extractor_open(struct check_context *c, struct extractor *p)
{
	*p = (struct extractor){.c = c};
	p->node_of.arena = p->maker_of.arena = p->weight.arena = p->captured.arena = &p->arena;
	p->file = onnx_file_open(c->path, c->config->external_root, c->d);
	if (!p->file)
		return c->d->last ? -(int)c->d->last->code : -E_MODEL_OPEN;
	index_file(p);
	return 0;
}

void extractor_close(struct extractor *p)
{
	for (uint32_t i = 0; i < p->nvalues; i++)
		value_free(&p->value[i]);
	onnx_file_close(p->file);
	arena_free(&p->arena);
}

int64_t extractor_find_node(const struct extractor *p, const char *title)
{
	size_t n = strlen(title);

	for (;;) {
		int64_t i = map_get(&p->node_of, title, n);
		if (i >= 0)
			return i;
		while (n && title[n - 1] != '/')
			n--;
		if (n < 2)
			return -1;
		n--;
	}
}

/* ---- values of a run --------------------------------------------------------------------------- */

struct capture {
	struct observer observer;
	struct extractor *p;
	const struct runtime *rt;
	const struct graph *g;
	int err;
};

/* Copies the value if it is wanted and has not been captured yet. */
static void capture_value(struct capture *x, const struct call *call, uint32_t id,
			  const struct tensor *t)
{
	struct extractor *p = x->p;
	const char *name = id == NO_VALUE ? "" : x->g->value[id]->name;
	int64_t k = *name ? map_get(&p->captured, name, strlen(name)) : -1;

	if (k < 0 || p->value[k].t.type.kind != V_NONE || !t || x->err)
		return;
	x->err = value_fetch(x->rt, call, t, true, &p->value[k], p->c->d);
}

static void capture_in(struct observer *o, const struct step *s, const struct call *call)
{
	struct capture *x = (struct capture *)o;

	if (!step_computes(x->rt, x->g, s))
		return;
	for (uint32_t i = 0; i < s->nin; i++)
		capture_value(x, call, s->node->in[i], call->in[i]);
}

static void capture_out(struct observer *o, const struct step *s, const struct call *call)
{
	struct capture *x = (struct capture *)o;

	if (!step_computes(x->rt, x->g, s))
		return;
	for (uint32_t i = 0; i < s->nout; i++)
		capture_value(x, call, s->node->out[i], call->out[i]);
}

static void want_value(struct extractor *p, const char *name)
{
	if (!*name || !map_set(&p->captured, name, strlen(name), p->nvalues))
		return;
	if (p->nvalues == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 32;
		p->value = arena_grow(&p->arena, p->value, p->nvalues, p->cap, sizeof(*p->value));
	}
	p->value[p->nvalues++] = (struct value_copy){0};
}

static const struct value *find_weight(const struct extractor *p, const char *name)
{
	int64_t id = map_get(&p->weight, name, strlen(name));
	return id < 0 ? NULL : p->c->file->graph->value[id];
}

static void want_node(struct extractor *p, const struct onnx_node *n)
{
	for (uint32_t i = 0; i < n->nin; i++)
		if (!find_weight(p, n->in[i]) && map_get(&p->captured, n->in[i], strlen(n->in[i])) < 0)
			want_value(p, n->in[i]);
	for (uint32_t i = 0; i < n->nout; i++)
		if (map_get(&p->captured, n->out[i], strlen(n->out[i])) < 0)
			want_value(p, n->out[i]);
}

/*
 * Captures the values that are known without a run: the model's inputs, and values that are constant after loading.
 */
static void capture_known(struct capture *x, const struct tensor *const *in)
{
	const struct call none = {0};

	for (uint32_t i = 0; i < x->g->nin; i++)
		capture_value(x, &none, x->g->in[i], in[i]);
	for (uint32_t i = 0; i < x->g->nvalues; i++)
		if (x->g->value[i]->init)
			capture_value(x, &none, i, x->g->value[i]->init);
}

int extractor_run(struct extractor *p, const struct run_config *config, const uint32_t *node,
		  uint32_t n)
{
	struct check_context *c = p->c;
	struct run_config plain = *config;

	for (uint32_t i = 0; i < n; i++)
		want_node(p, onnx_file_node(p->file, node[i]));
	plain.optimize = OPTIMIZE_NONE;
	plain.outputs.n = 0; /* the part may hold nodes that the chosen outputs do not need */
	struct session *s = session_open(c->path, &plain, c->d);
	if (!s)
		return c->d->last ? -(int)c->d->last->code : -E_INTERNAL;
	const struct graph *g = session_model(s)->graph;
	const struct tensor **out = arena_new_n(&p->arena, const struct tensor *, g->nout + 1);
	struct capture x = {.observer = {.begin = capture_in, .end = capture_out}, .p = p, .g = g};
	int err = session_prepare(s, c->in, NULL, c->d);
	x.rt = session_runtime(s);
	/* a run that fails has still made the values up to its failure, so its findings are dropped */
	struct diag quiet = {0};
	int failed = 0;
	if (!err) {
		capture_known(&x, c->in);
		session_observe(s, &x.observer);
		failed = session_run(s, c->in, out, &quiet);
		session_observe(s, NULL);
	}
	diag_free(&quiet);
	for (uint32_t k = 0; k < g->nout && !err && !failed; k++) {
		const struct call none = {0};
		int64_t at = map_get(&p->captured, g->out_name[k], strlen(g->out_name[k]));
		if (at >= 0 && p->value[at].t.type.kind == V_NONE && out[k])
			err = value_fetch(x.rt, &none, out[k], true, &p->value[at], c->d);
	}
	session_close(s);
	return err ? err : x.err;
}

int extractor_add_model_inputs(struct extractor *p)
{
	const struct graph *g = session_model(p->c->session)->graph;
	const struct call none = {0};
	int err = 0;

	for (uint32_t i = 0; i < g->nin && !err; i++) {
		struct value_copy v;
		err = value_fetch(NULL, &none, p->c->in[i], true, &v, p->c->d);
		if (!err)
			extractor_add_value(p, g->value[g->in[i]]->name, &v);
	}
	return err;
}

void extractor_add_value(struct extractor *p, const char *name, struct value_copy *v)
{
	const char *key = arena_str(&p->arena, name);

	if (map_get(&p->captured, key, strlen(key)) < 0)
		want_value(p, key);
	int64_t k = map_get(&p->captured, key, strlen(key));
	if (k < 0) {
		value_free(v);
		return;
	}
	value_free(&p->value[k]);
	p->value[k] = *v;
}

static const struct tensor *find_captured(const struct extractor *p, const char *name)
{
	int64_t k = map_get(&p->captured, name, strlen(name));

	return k >= 0 && p->value[k].t.type.kind != V_NONE ? &p->value[k].t : NULL;
}

/* ---- a part ------------------------------------------------------------------------------------ */

struct border_list {
	struct onnx_border *v;
	uint32_t n;
};

static bool is_listed(const struct border_list *b, const char *name)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (!strcmp(b->v[i].name, name))
			return true;
	return false;
}

static bool is_member(const uint32_t *node, uint32_t n, uint32_t i)
{
	for (uint32_t k = 0; k < n; k++)
		if (node[k] == i)
			return true;
	return false;
}

static int64_t maker_of_value(const struct extractor *p, const char *name)
{
	return map_get(&p->maker_of, name, strlen(name));
}

/*
 * Collects the values that the nodes read and do not make. Values that are constant in the model stay constants of
 * the part, because they may be shapes, which operators need to know before a run.
 */
static int gather_inputs(struct extractor *p, const uint32_t *node, uint32_t n,
			 struct border_list *in, struct border_list *constant)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct onnx_node *x = onnx_file_node(p->file, node[i]);
		for (uint32_t k = 0; k < x->nin; k++) {
			const char *name = x->in[k];
			int64_t from = maker_of_value(p, name);
			if (!*name || is_listed(in, name) || is_listed(constant, name) ||
			    (from >= 0 && is_member(node, n, (uint32_t)from)))
				continue;
			const struct value *w = find_weight(p, name);
			const struct tensor *t = w ? w->init : find_captured(p, name);
			if (!t)
				return FAIL(p->c->d, E_BISECT, .node = x->title, .op = x->op,
					    .message = fmt(p->c->d,
							   "no value of its input '%s' could be captured",
							   name));
			struct border_list *b = w ? constant : in;
			b->v[b->n++] = (struct onnx_border){.name = name, .t = t};
		}
	}
	return 0;
}

/* Whether the value is an output of the part: a node outside of the part reads it, or no node at all does. */
static bool used_outside(const struct extractor *p, const uint32_t *node, uint32_t n, const char *name)
{
	bool inside = false;

	for (uint32_t k = 0; k < onnx_file_outputs(p->file); k++)
		if (!strcmp(onnx_file_output(p->file, k), name))
			return true;
	for (uint32_t i = 0; i < onnx_file_nodes(p->file); i++) {
		const struct onnx_node *x = onnx_file_node(p->file, i);
		for (uint32_t k = 0; k < x->nin; k++) {
			if (strcmp(x->in[k], name) != 0)
				continue;
			if (!is_member(node, n, i))
				return true;
			inside = true;
		}
	}
	return !inside;
}

static void gather_outputs(struct extractor *p, const uint32_t *node, uint32_t n,
			   struct border_list *out)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct onnx_node *x = onnx_file_node(p->file, node[i]);
		for (uint32_t k = 0; k < x->nout; k++)
			if (*x->out[k] && (used_outside(p, node, n, x->out[k])))
				out->v[out->n++] = (struct onnx_border){
					.name = x->out[k], .t = find_captured(p, x->out[k])};
	}
}

static size_t count_names(const struct extractor *p, const uint32_t *node, uint32_t n)
{
	size_t sum = 1;

	for (uint32_t i = 0; i < n; i++)
		sum += onnx_file_node(p->file, node[i])->nin + onnx_file_node(p->file, node[i])->nout;
	return sum;
}

static int write_inputs(struct submodel *x, const struct border_list *in, struct diag *d)
{
	int err = file_make_dir(x->data, E_OUTPUT, d);

	x->in = arena_new_n(&x->arena, const struct tensor *, in->n + 1);
	for (uint32_t k = 0; k < in->n && !err; k++) {
		const char *name = arena_printf(&x->arena, "input_%" PRIu32 ".pb", k);
		x->in[k] = in->v[k].t;
		err = tensor_pb_write(path_join(&x->arena, x->data, name), in->v[k].t,
				      in->v[k].name, d);
	}
	x->nin = in->n;
	return err;
}

int submodel_write(struct extractor *p, const uint32_t *node, uint32_t n, const char *dir,
		   struct submodel *out)
{
	struct submodel x = {.nnodes = n};
	size_t names = count_names(p, node, n);
	struct border_list in = {0}, constant = {0}, outs = {0};

	in.v = arena_new_n(&x.arena, struct onnx_border, names);
	constant.v = arena_new_n(&x.arena, struct onnx_border, names);
	outs.v = arena_new_n(&x.arena, struct onnx_border, names);
	x.dir = arena_str(&x.arena, dir);
	x.model = path_join(&x.arena, dir, "model.onnx");
	x.data = path_join(&x.arena, dir, "test_data_set_0");
	int err = gather_inputs(p, node, n, &in, &constant);
	if (!err) {
		gather_outputs(p, node, n, &outs);
		const struct onnx_part part = {.node = node,
					       .nnodes = n,
					       .in = in.v,
					       .nin = in.n,
					       .constant = constant.v,
					       .nconstant = constant.n,
					       .out = outs.v,
					       .nout = outs.n};
		x.nout = outs.n;
		err = file_make_dir(dir, E_OUTPUT, p->c->d);
		err = err ? err : onnx_save_part(p->file, &part, x.model, p->c->d);
		err = err ? err : write_inputs(&x, &in, p->c->d);
	}
	x.out = arena_new_n(&x.arena, const char *, outs.n + 1);
	for (uint32_t k = 0; k < outs.n; k++)
		x.out[k] = outs.v[k].name;
	*out = x;
	if (err)
		submodel_free(out);
	return err;
}

void submodel_free(struct submodel *x)
{
	struct arena a = x->arena;

	arena_free(&a);
	*x = (struct submodel){0};
}
