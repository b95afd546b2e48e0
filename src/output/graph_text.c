/* SPDX-License-Identifier: Apache-2.0 */
#include "output/graph_text.h"

#include "base/tame.h"
#include "ops/op.h"

#include <inttypes.h>
#include <string.h>

static const char *dump_name(struct arena *a, const struct graph *g, uint32_t v)
{
	if (v == NO_VALUE)
		return "_";
	return *g->value[v]->name ? tame_word(a, g->value[v]->name) : arena_printf(a, "%%%u", v);
}

const char *dump_value(struct arena *a, const struct graph *g, uint32_t v, const struct vinfo *info)
{
	const struct vinfo *i = info ? &info[v] : &g->value[v]->info;
	const char *const *symbols = g->model ? g->model->symbols : NULL;
	const char *shape = i->type.kind == V_TENSOR ? shape_str(a, &i->shape, symbols) : "";

	return arena_printf(a, "%s: %s%s%s", dump_name(a, g, v), type_str(a, i->type),
			    *shape ? " " : "", shape);
}

static bool is_default(const struct field *f, const void *params, struct arena *a)
{
	const char *text = field_print(f, params, a);

	if (f->flags & FIELD_REQUIRED)
		return false;
	return !text || !*text || (f->def && !strcmp(text, f->def));
}

const char *dump_params(struct arena *a, const struct node *n)
{
	struct op op = n->op ? op_resolved(n->op) : (struct op){0};
	const char *text = "";

	for (const struct field *f = op.attrs; f && f->name && n->params; f++) {
		if (f->type == F_GRAPH || f->type == F_TENSOR || f->type == F_TENSORS ||
		    f->type == F_TYPE)
			continue;
		if (is_default(f, n->params, a))
			continue;
		text = arena_printf(a, "%s%s%s=%s", text, *text ? ", " : "", f->name,
				    field_print(f, n->params, a));
	}
	return *text ? arena_printf(a, " {%s}", text) : "";
}

static void indent(FILE *f, int depth)
{
	for (int i = 0; i < depth; i++)
		fputs("  ", f);
}

static void dump_node(FILE *f, const struct graph *g, const struct node *n,
		      const struct vinfo *info, int depth, struct arena *a)
{
	indent(f, depth);
	for (uint32_t i = 0; i < n->nout; i++)
		fprintf(f, "%s%s", i ? ", " : "",
			n->out[i] == NO_VALUE ? "_" : dump_value(a, g, n->out[i], info));
	fprintf(f, " = %s(", n->op ? op_qualified(n->op) : n->type);
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		fprintf(f, "%s%s",
			i == n->nin && n->ncap ? "; captures "
			: i		       ? ", "
					       : "",
			dump_name(a, g, n->in[i]));
	fprintf(f, ")%s", dump_params(a, n));
	fprintf(f, "  # %s", tame_word(a, n->origin->name));
	for (uint32_t i = 0; i < n->origin->nfused; i++)
		if (n->origin->fused[i]->number != n->origin->number)
			fprintf(f, ", %s", tame_word(a, n->origin->fused[i]->name));
	fputc('\n', f);
}

static void dump_body(FILE *f, const struct graph *g, const struct vinfo *info, int depth)
{
	struct arena a = {0};

	indent(f, depth);
	fprintf(f, "graph %s(", *g->name ? g->name : "main");
	for (uint32_t i = 0; i < g->nin + g->ncap; i++)
		fprintf(f, "%s%s",
			i == g->nin && g->ncap ? "; captures "
			: i		       ? ", "
					       : "",
			dump_value(&a, g, g->in[i], info));
	fputs(") {\n", f);
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		if (n->dead)
			continue;
		dump_node(f, g, n, info, depth + 1, &a);
		for (uint32_t k = 0; k < n->nsub; k++)
			dump_body(f, n->sub[k], NULL, depth + 2);
		arena_free(&a);
	}
	indent(f, depth + 1);
	fputs("return ", f);
	for (uint32_t i = 0; i < g->nout; i++)
		fprintf(f, "%s%s", i ? ", " : "", dump_name(&a, g, g->out[i]));
	fputc('\n', f);
	indent(f, depth);
	fputs("}\n", f);
	arena_free(&a);
}

void dump_graph(FILE *f, const struct graph *g, const struct vinfo *info)
{
	dump_body(f, g, info, 0);
}

static void dot_string(FILE *f, const char *s)
{
	struct arena a = {0};

	fputc('"', f);
	for (s = tame_word(&a, s); *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc('"', f);
	arena_free(&a);
}

static void dot_edges(FILE *f, const struct graph *g, const struct node *n, struct arena *a)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		if (n->in[i] == NO_VALUE)
			continue;
		const struct value *v = g->value[n->in[i]];
		if (v->init)
			continue;
		if (v->producer == NO_NODE)
			fprintf(f, "  v%u -> n%u", v->id, n->id);
		else
			fprintf(f, "  n%u -> n%u", v->producer, n->id);
		fputs(" [label=", f);
		dot_string(f, v->info.type.kind == V_TENSOR
				      ? shape_str(a, &v->info.shape, g->model ? g->model->symbols : NULL)
				      : type_str(a, v->info.type));
		fputs("];\n", f);
	}
}

void dump_dot(FILE *f, const struct graph *g)
{
	struct arena a = {0};

	fputs("digraph model {\n  node [shape=box, fontname=Helvetica];\n", f);
	for (uint32_t i = 0; i < g->nin; i++) {
		fprintf(f, "  v%u [shape=ellipse, label=", g->in[i]);
		dot_string(f, dump_value(&a, g, g->in[i], NULL));
		fputs("];\n", f);
	}
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		fprintf(f, "  n%u [label=", n->id);
		dot_string(f, arena_printf(&a, "%s  %s", n->op ? op_qualified(n->op) : n->type,
					   n->origin->name));
		fputs("];\n", f);
		dot_edges(f, g, n, &a);
		arena_free(&a);
	}
	for (uint32_t i = 0; i < g->nout; i++) {
		fprintf(f, "  o%u [shape=ellipse, label=", i);
		dot_string(f, g->out_name[i]);
		fputs("];\n", f);
		const struct value *v = g->value[g->out[i]];
		if (v->producer != NO_NODE)
			fprintf(f, "  n%u -> o%u;\n", v->producer, i);
	}
	fputs("}\n", f);
	arena_free(&a);
}
