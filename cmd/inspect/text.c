/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/inspect/inspect.h"
#include "cmd/output/table.h"

#include "base/columns.h"
#include "base/str.h"
#include "base/tame.h"
#include "base/utf8.h"
#include "output/graph_text.h"

#include <inttypes.h>
#include <string.h>

const char *human_bytes(struct arena *a, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	int u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	return u ? arena_printf(a, "%.1f %s", v, units[u]) : arena_printf(a, "%" PRIu64 " B", bytes);
}

static const char *human_count(struct arena *a, double n)
{
	static const char *const units[] = {"", " k", " M", " G", " T", " P"};
	int u = 0;

	while (n >= 1000 && u < 5) {
		n /= 1000;
		u++;
	}
	return u ? arena_printf(a, "%.2f%s", n, units[u]) : arena_printf(a, "%.0f", n);
}

const char *metadata_text(const char *value, struct arena *a)
{
	size_t n = strlen(value), shown = n <= 72 ? n : 48;

	while (shown < n && shown && utf8_continues(value[shown]))
		shown--; /* do not cut a UTF-8 character in two */
	/* a list with one item a line is shown in a row */
	char *text = arena_strn(a, value, shown);
	for (char *p = text; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	return shown == n ? text : arena_printf(a, "%s... (%zu bytes)", text, n);
}

static void print_devices(const struct model *m, struct arena *a, FILE *f)
{
	for (size_t i = 0; i < m->nconfigurations; i++) {
		const struct device_configuration *c = &m->configuration[i];
		size_t nodes = 0;
		for (size_t k = 0; k < m->nplacements; k++)
			nodes += !strcmp(m->placement[k].configuration, c->name);
		fprintf(f, "devices     %s  %s", tame_word(a, c->name),
			str_many(a, (uint64_t)(c->devices < 0 ? 0 : c->devices), "device"));
		for (size_t k = 0; k < c->ndevice; k++)
			fprintf(f, "%s%s", k ? ", " : ": ", tame_word(a, c->device[k]));
		fprintf(f, "; %s annotated\n", str_many(a, nodes, "node"));
	}
}

static void print_head(const struct inspection *x, struct arena *a, FILE *f)
{
	const struct model *m = x->model;

	fprintf(f, "model       %s  %s, IR version %" PRId64, x->path,
		human_bytes(a, m->file_bytes), m->ir_version);
	if (m->external_bytes)
		fprintf(f, ", external data %s", human_bytes(a, m->external_bytes));
	fputc('\n', f);
	if (m->producer && *m->producer)
		fprintf(f, "producer    %s %s\n", m->producer,
			m->producer_version ? m->producer_version : "");
	if (*m->graph->name)
		fprintf(f, "graph       %s\n", m->graph->name);
	fprintf(f, "opsets     ");
	for (size_t i = 0; i < m->nopsets; i++)
		fprintf(f, " %s %" PRId64, *m->opsets[i].domain ? m->opsets[i].domain : "ai.onnx",
			m->opsets[i].version);
	fputc('\n', f);
	if (m->nfunctions)
		fprintf(f, "functions   %zu model-local, inlined\n", m->nfunctions);
	for (size_t i = 0; i < m->nmeta; i++) {
		fprintf(f, "metadata    %s  %s\n", tame_word(a, m->meta[i].key),
			metadata_text(m->meta[i].value, a));
	}
	print_devices(m, a, f);
}

/* Returns the names by which --dim binds dimensions that have none in the model: "  (x.2, x.3: --dim x.2=N)", or "". */
static const char *unnamed_dims(const struct inspection *x, const struct value *v, struct arena *a)
{
	struct str names = {.arena = a};
	const char *first = NULL;

	for (int k = 0; v->info.type.kind == V_TENSOR && k < v->info.shape.rank; k++) {
		int64_t dim = v->info.shape.dim[k];
		if (dim >= 0 || (dim_is_sym(dim) && *x->model->symbols[DIM_SYM_ID(dim)] != '?'))
			continue;
		const char *name = tame_word(a, input_dim_name(x->model, v, k, a));
		str_addf(&names, "%s%s", names.n ? ", " : "", name);
		first = first ? first : name;
	}
	return first ? arena_printf(a, "  (unnamed: %s; --dim %s=N)", str_get(&names), first) : "";
}

/* Explains the symbols ?1, ?2, ... of an output, which the model does not name: "  (?13 follows from the inputs)", or "". */
static const char *unnamed_symbols(const struct inspection *x, const struct value *v, struct arena *a)
{
	struct str names = {.arena = a};
	int n = 0;

	for (int k = 0; v->info.type.kind == V_TENSOR && k < v->info.shape.rank; k++) {
		int64_t dim = v->info.shape.dim[k];
		const char *name = dim_is_sym(dim) ? x->model->symbols[DIM_SYM_ID(dim)] : "";
		if (*name == '?' && name[1])
			str_addf(&names, "%s%s", n++ ? ", " : "", name);
	}
	return n ? arena_printf(a, "  (%s: known once the inputs are)", str_get(&names)) : "";
}

/* A formula as the name of a size may have hundreds of characters; --json and the page have it whole. */
static const char *port_shape(const struct inspection *x, const struct vinfo *v, struct arena *a)
{
	enum { LONGEST = 48 };
	const struct model *m = x->model;
	const char **symbol = arena_new_n(a, const char *, m->nsymbols + 1);

	for (uint32_t i = 0; i < m->nsymbols; i++)
		symbol[i] = columns_shorten(m->symbols[i], LONGEST, a);
	return v->type.kind == V_TENSOR ? shape_str(a, &v->shape, symbol) : "";
}

static void print_ports(const struct inspection *x, struct arena *a, FILE *f)
{
	const struct graph *g = x->model->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct vinfo *v = &g->value[g->in[i]]->info;
		fprintf(f, "%-11s %s  %s %s%s\n", i ? "" : "inputs",
			tame_word(a, g->value[g->in[i]]->name), type_str(a, v->type),
			port_shape(x, v, a), unnamed_dims(x, g->value[g->in[i]], a));
	}
	const char *defaults = model_defaults(x->model, a);
	if (defaults)
		fprintf(f, "defaults    %s  (inputs that have a value if none is given)\n",
			tame_word(a, defaults));
	for (uint32_t i = 0; i < g->nout; i++) {
		const struct vinfo *v = &g->value[g->out[i]]->info;
		fprintf(f, "%-11s %s  %s %s%s\n", i ? "" : "outputs", tame_word(a, g->out_name[i]),
			type_str(a, v->type), port_shape(x, v, a),
			unnamed_symbols(x, g->value[g->out[i]], a));
	}
}

static void print_parameters(const struct inspection *x, struct arena *a, FILE *f)
{
	const struct weight_sum *all = &x->weights[0];

	fprintf(f, "parameters  %s in %" PRIu64 " initializer%s, %s",
		human_count(a, (double)all->elements), all->tensors, all->tensors == 1 ? "" : "s",
		human_bytes(a, all->bytes));
	const char *sep = ":";
	for (int t = 1; t < DT_COUNT; t++) {
		const struct weight_sum *s = &x->weights[t];
		if (!s->tensors)
			continue;
		fprintf(f, "%s %s %s (%s)", sep, dtype_name((enum dtype)t),
			human_count(a, (double)s->elements), human_bytes(a, s->bytes));
		sep = ",";
	}
	if (all->missing)
		fprintf(f, "; the data of %" PRIu64 " %s missing", all->missing,
			all->missing > 1 ? "are" : "is");
	fputc('\n', f);
}

/* "-17"; "" for an unknown operator. */
static const char *version_suffix(int since, struct arena *a)
{
	return since ? arena_printf(a, "-%d", since) : "";
}

static void print_operators(const struct inspection *x, struct arena *a, FILE *f)
{
	uint32_t total = 0, missing = 0;

	for (size_t i = 0; i < x->nops; i++) {
		total += x->ops[i].count;
		missing += x->ops[i].on[HOST_BACKEND] ? 0 : x->ops[i].count;
	}
	fprintf(f, "operators   %u node%s", total, total == 1 ? "" : "s");
	if (total > x->model->file_nodes)
		fprintf(f, " (%u in bodies)", total - x->model->file_nodes);
	fprintf(f, ", %zu kind%s, ", x->nops, x->nops == 1 ? "" : "s");
	if (missing)
		fprintf(f, "%u node%s not supported\n", missing, missing == 1 ? "" : "s");
	else
		fputs("all supported\n", f);
	for (size_t i = 0; i < x->nops; i++)
		fprintf(f, "  %6u  %s%s  %s\n", x->ops[i].count, x->ops[i].name,
			version_suffix(x->ops[i].since, a), report_devices(&x->ops[i], a));
}

static void print_nodes(const struct inspection *x, struct arena *a, FILE *f)
{
	fputs("nodes\n", f);
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		fprintf(f, "%6zu  %s%s  %s\n", i, r->node->origin->op,
			version_suffix(r->node->origin->since, a),
			tame_word(a, r->node->origin->name));
		for (uint32_t k = 0; k < r->node->nin; k++)
			if (r->node->in[k] != NO_VALUE)
				fprintf(f, "          in   %s%s\n",
					dump_value(a, r->graph, r->node->in[k], NULL),
					r->graph->value[r->node->in[k]]->init ? "  initializer" : "");
		for (uint32_t k = 0; k < r->node->nout; k++)
			if (r->node->out[k] != NO_VALUE)
				fprintf(f, "          out  %s\n",
					dump_value(a, r->graph, r->node->out[k], NULL));
		const char *params = dump_params(a, r->node);
		if (*params)
			fprintf(f, "         %s\n", params);
		arena_free(a);
	}
}

static void print_placements(const struct model *m, struct arena *a, FILE *f)
{
	if (m->nplacements)
		fputs("placements\n", f);
	for (size_t i = 0; i < m->nplacements; i++) {
		const struct placement *p = &m->placement[i];
		fprintf(f, "     %s  %s  %s", tame_word(a, p->configuration), tame_word(a, p->op),
			tame_word(a, p->node));
		if (p->stage >= 0)
			fprintf(f, "  stage %" PRId64, p->stage);
		fputc('\n', f);
		for (size_t k = 0; k < p->nsharded; k++)
			fprintf(f, "          %s  %s\n", tame_word(a, p->sharded[k].key),
				tame_word(a, p->sharded[k].value));
	}
}

static void weight_row(const struct value *v, void *arg)
{
	const struct tensor *w = v->init ? v->init : v->missing;
	struct table *t = arg;
	struct arena *a = t->arena;
	bool numbers = !v->missing && tensor_dtype(w) != DT_STRING;
	struct statistics s = numbers ? report_statistics(w) : (struct statistics){0};
	const double shown[] = {s.min, s.max, s.mean, s.std};
	const char *odd = "";

	if (!*v->name)
		return;
	table_text(t, v->name);
	table_text(t, dtype_name(tensor_dtype(w)));
	table_text(t, shape_str(a, &w->shape, NULL));
	table_text(t, arena_printf(a, "%zu", w->bytes));
	for (int i = 0; i < 4; i++)
		table_text(t, numbers ? arena_printf(a, "%.4g", shown[i]) : "");
	if (v->missing)
		odd = "missing";
	else if (s.nans || s.infs)
		odd = arena_printf(a, "%" PRId64 " NaN, %" PRId64 " Inf", s.nans, s.infs);
	table_text(t, odd);
}

static void print_weights(const struct inspection *x, struct arena *a, FILE *f)
{
	static const char *const heads[] = {"name", "type", "shape", "bytes", "min",
					    "max",  "mean", "std",   "",      NULL};
	struct table t;

	table_begin(&t, a, heads, "lllrrrrrl");
	t.ranks = "021311220";
	report_each_weight(x->model->graph, weight_row, &t);
	fputs("weights\n", f);
	table_print(&t, "  ", f);
	arena_free(a);
}

static void print_cost(const struct inspection *x, struct arena *a, FILE *f)
{
	static const char *const heads[] = {"MACs", "FLOPs", "bytes", "operator", "node", NULL};
	struct table t;

	fprintf(f, "cost        %s MACs, %s FLOPs, %s moved%s\n",
		human_count(a, (double)x->total.macs), human_count(a, (double)x->total.flops),
		human_bytes(a, (uint64_t)x->total.bytes),
		x->total.known
			? ""
			: " (without nodes whose shapes are not known: set free dimensions with --dim)");
	table_begin(&t, a, heads, "rrrll");
	t.ranks = "21110";
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		const int64_t cost[] = {r->cost.macs, r->cost.flops, r->cost.bytes};
		for (int k = 0; k < 3; k++)
			table_text(&t, r->cost.known ? arena_printf(a, "%" PRId64, cost[k]) : "?");
		table_text(&t, r->node->origin->op);
		table_text(&t, r->node->origin->name);
	}
	table_print(&t, "  ", f);
}

static void print_memory(const struct inspection *x, struct arena *a, FILE *f)
{
	const struct segment_report *p = &x->plan;

	fprintf(f,
		"memory      planned peak %s: weights read in place in the file %s, copied weights %s, packed weights %s, "
		"activations and workspace %s\n",
		human_bytes(a, x->peak_bytes), human_bytes(a, x->in_place_bytes),
		human_bytes(a, x->copied_bytes), human_bytes(a, x->packed_bytes),
		human_bytes(a, p->slab_bytes));
	fprintf(f,
		"            without sharing, the activations would take %s; largest workspace %s\n",
		human_bytes(a, p->value_bytes), human_bytes(a, p->workspace));
	if (!p->whole)
		fprintf(f,
			"            the plan covers the steps up to %u: later shapes depend on data\n",
			p->nsteps);
}

void inspect_print_text(const struct inspection *x, FILE *f)
{
	struct arena a = {0};

	print_head(x, &a, f);
	print_ports(x, &a, f);
	print_parameters(x, &a, f);
	print_operators(x, &a, f);
	if (x->o->memory)
		print_memory(x, &a, f);
	if (x->o->cost)
		print_cost(x, &a, f);
	if (x->o->weights)
		print_weights(x, &a, f);
	if (x->o->nodes)
		print_nodes(x, &a, f);
	if (x->o->nodes)
		print_placements(x->model, &a, f);
	arena_free(&a);
}
