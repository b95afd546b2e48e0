/* SPDX-License-Identifier: Apache-2.0 */
/* `infer inspect --html`: shows a model on an HTML page. */
#include "cmd/inspect/inspect.h"

#include "base/file.h"
#include "base/str.h"
#include "output/graph_drawing.h"
#include "output/html.h"

#include <inttypes.h>
#include <math.h>

static const char *shape_text(const struct inspection *x, const struct vinfo *v, struct arena *a)
{
	if (v->type.kind != V_TENSOR)
		return "";
	return v->shape.rank < 0 ? "?" : shape_str(a, &v->shape, x->model->symbols);
}

static void add_ports(const struct inspection *x, struct page *p, struct arena *a)
{
	static const char *const heads[] = {"name", "role", "type", "shape", NULL};
	const struct graph *g = x->model->graph;

	page_section(p, "Inputs and outputs", NULL);
	page_table(p, heads, "lllm");
	for (uint32_t i = 0; i < g->nin + g->nout; i++) {
		bool in = i < g->nin;
		const struct value *v = g->value[in ? g->in[i] : g->out[i - g->nin]];
		page_cell(p, in ? v->name : g->out_name[i - g->nin]);
		page_cell(p, in ? "input" : "output");
		page_cell(p, type_str(a, v->info.type));
		page_cell(p, shape_text(x, &v->info, a));
	}
	page_table_end(p);
}

static void add_operators(const struct inspection *x, struct page *p, struct arena *a)
{
	const char *heads[3 + BACKENDS + 1] = {"operator", "since", "count"};
	char align[3 + BACKENDS + 1] = "lrr";

	for (int b = 0; b < BACKENDS; b++) {
		heads[3 + b] = backends[b]->name;
		align[3 + b] = 'l';
	}
	page_section(p, "Operators", NULL);
	page_table(p, heads, align);
	for (size_t i = 0; i < x->nops; i++) {
		page_cell(p, x->ops[i].name);
		page_number(p, x->ops[i].since,
			    x->ops[i].since ? arena_printf(a, "%d", x->ops[i].since) : "?");
		page_number(p, x->ops[i].count, arena_printf(a, "%" PRIu32, x->ops[i].count));
		for (int b = 0; b < BACKENDS; b++)
			page_cell(p, x->ops[i].on[b] ? "yes" : "no");
	}
	page_table_end(p);
}

static void add_nodes(const struct inspection *x, struct page *p, struct arena *a)
{
	static const char *const heads[] = {"node",  "operator", "first output",
					    "FLOPs", "bytes",	 NULL};

	page_section(p, "Nodes", "In the order of execution. Click a column heading to sort.");
	page_table(p, heads, "llmrr");
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		const struct value *out = node_out(r->graph, r->node, 0);
		page_cell(p, r->node->origin->name);
		page_cell(p, r->node->origin->op);
		page_cell(p, out ? shape_text(x, &out->info, a) : "");
		page_number(p, (double)r->cost.flops,
			    r->cost.known ? str_count(a, r->cost.flops) : "?");
		page_number(p, (double)r->cost.bytes,
			    r->cost.known ? str_count(a, r->cost.bytes) : "?");
	}
	page_table_end(p);
}

struct weight_rows {
	struct page *p;
	struct arena *a;
};

static void add_weight(const struct value *v, void *arg)
{
	const struct weight_rows *rows = arg;
	const struct tensor *w = v->init ? v->init : v->missing;
	bool numbers = !v->missing && tensor_dtype(w) != DT_STRING;

	if (!*v->name)
		return;
	struct statistics s = numbers ? report_statistics(w) : (struct statistics){0};
	const double shown[] = {s.min, s.max, s.mean, s.std};
	page_cell(rows->p, v->name);
	page_cell(rows->p, dtype_name(tensor_dtype(w)));
	page_cell(rows->p, shape_str(rows->a, &w->shape, NULL));
	page_number(rows->p, (double)w->bytes, str_count(rows->a, (int64_t)w->bytes));
	for (int k = 0; k < 4; k++)
		page_number(rows->p, numbers ? shown[k] : NAN,
			    numbers ? arena_printf(rows->a, "%.4g", shown[k]) : "");
}

static void add_weights(const struct inspection *x, struct page *p, struct arena *a)
{
	static const char *const heads[] = {"weight", "type", "shape", "bytes", "min",
					    "max",    "mean", "std",   NULL};
	struct weight_rows rows = {p, a};

	if (!x->weights[0].tensors)
		return;
	page_section(p, "Weights", NULL);
	page_table(p, heads, "llmrrrrr");
	report_each_weight(x->model->graph, add_weight, &rows);
	page_table_end(p);
}

static void add_memory(const struct inspection *x, struct page *p, struct arena *a)
{
	if (!x->planned)
		return;
	struct page_bar bars[] = {
		{"weights read in place in the file", NULL, (double)x->in_place_bytes},
		{"copied weights", NULL, (double)x->copied_bytes},
		{"packed weights", NULL, (double)x->packed_bytes},
		{"activations and workspace", NULL, (double)x->plan.slab_bytes},
		{"activations, not shared", NULL, (double)x->plan.value_bytes}};

	for (size_t i = 0; i < sizeof(bars) / sizeof(*bars); i++)
		bars[i].text = str_bytes(a, (int64_t)bars[i].value);
	page_section(
		p, "Memory",
		arena_printf(a,
			     "A run with these sizes takes %s at most, beside about 30 MiB for the "
			     "program and its libraries. Free dimensions count as 1 unless --dim gives their sizes.",
			     str_bytes(a, (int64_t)x->peak_bytes)));
	page_bars(p, "Planned memory", bars, sizeof(bars) / sizeof(*bars));
}

static void add_graph(const struct inspection *x, struct page *p, struct arena *a)
{
	struct drawn_node *all = arena_new_n(a, struct drawn_node, x->nnodes + 1);

	if (!x->nnodes)
		return;
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		const struct value *out = node_out(r->graph, r->node, 0);
		all[i] = (struct drawn_node){
			r->node, r->node->origin->name, r->node->origin->op,
			out ? shape_text(x, &out->info, a) : "",
			r->cost.known && r->cost.flops
				? arena_printf(a, "%s FLOPs", str_count(a, r->cost.flops))
				: ""};
	}
	page_section(p, "Graph", "Drag to move, turn the wheel or use two fingers to zoom.");
	page_graph(p, x->nodes[0].graph, all, x->nnodes);
}

int inspect_page(const struct inspection *x, const char *path, struct diag *d)
{
	struct arena a = {0};
	struct page p;
	const struct model *m = x->model;

	page_begin(&p, &a, arena_printf(&a, "infer inspect: %s", path_base(x->path)), NULL);
	page_fact(&p, "model", x->path);
	page_fact(&p, "IR version", arena_printf(&a, "%" PRId64, m->ir_version));
	for (size_t i = 0; i < m->nopsets; i++)
		page_fact(&p, *m->opsets[i].domain ? m->opsets[i].domain : "ai.onnx",
			  arena_printf(&a, "opset %" PRId64, m->opsets[i].version));
	if (m->producer && *m->producer)
		page_fact(&p, "producer", m->producer);
	for (size_t i = 0; i < m->nmeta; i++)
		page_fact(&p, m->meta[i].key, metadata_text(m->meta[i].value, &a));
	page_tile(&p, "nodes", str_count(&a, (int64_t)x->nnodes), NULL);
	page_tile(&p, "parameters", str_count(&a, (int64_t)x->weights[0].elements),
		  str_bytes(&a, (int64_t)x->weights[0].bytes));
	if (x->total.known)
		page_tile(&p, "FLOPs per run", str_count(&a, x->total.flops), NULL);
	else
		page_tile(&p, "FLOPs per run", "?",
			  "depends on free dimensions: set them with --dim, or use --cost");
	add_ports(x, &p, &a);
	add_memory(x, &p, &a);
	add_graph(x, &p, &a);
	add_operators(x, &p, &a);
	add_weights(x, &p, &a);
	add_nodes(x, &p, &a);
	page_origin(&p, x->o, &a);
	int rc = page_save(&p, path, d);
	arena_free(&a);
	return rc;
}
