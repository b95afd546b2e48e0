/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect.h"

#include "cpu/cpu.h"
#include "dump.h"

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

const char *human_count(struct arena *a, double n)
{
	static const char *const units[] = {"", " k", " M", " G", " T", " P"};
	int u = 0;

	while (n >= 1000 && u < 5) {
		n /= 1000;
		u++;
	}
	return u ? arena_printf(a, "%.2f%s", n, units[u]) : arena_printf(a, "%.0f", n);
}

static void print_head(const struct inspection *x, struct arena *a)
{
	const struct model *m = x->model;

	printf("model       %s  %s, IR version %" PRId64, x->path, human_bytes(a, m->file_bytes),
	       m->ir_version);
	if (m->external_bytes)
		printf(", external data %s", human_bytes(a, m->external_bytes));
	putchar('\n');
	if (m->producer && *m->producer)
		printf("producer    %s %s\n", m->producer,
		       m->producer_version ? m->producer_version : "");
	if (*m->graph->name)
		printf("graph       %s\n", m->graph->name);
	printf("opsets     ");
	for (size_t i = 0; i < m->nopsets; i++)
		printf(" %s %" PRId64, *m->opsets[i].domain ? m->opsets[i].domain : "ai.onnx",
		       m->opsets[i].version);
	putchar('\n');
	if (m->nfunctions)
		printf("functions   %zu model-local, inlined\n", m->nfunctions);
	for (size_t i = 0; i < m->nmeta; i++) {
		size_t n = strlen(m->meta[i].value), line = strcspn(m->meta[i].value, "\n");
		bool whole = n == line && n <= 72;
		printf("metadata    %s  %.*s%s\n", m->meta[i].key,
		       (int)(whole	 ? n
			     : line < 48 ? line
					 : 48),
		       m->meta[i].value, whole ? "" : arena_printf(a, "... (%zu bytes)", n));
	}
}

static void print_ports(const struct inspection *x, struct arena *a)
{
	const struct graph *g = x->model->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct vinfo *v = &g->value[g->in[i]]->info;
		printf("%-11s %s  %s %s\n", i ? "" : "inputs", g->value[g->in[i]]->name,
		       type_str(a, v->type),
		       v->type.kind == V_TENSOR ? shape_str(a, &v->shape, x->model->symbols) : "");
	}
	for (uint32_t i = 0; i < g->nout; i++) {
		const struct vinfo *v = &g->value[g->out[i]]->info;
		printf("%-11s %s  %s %s\n", i ? "" : "outputs", g->out_name[i], type_str(a, v->type),
		       v->type.kind == V_TENSOR ? shape_str(a, &v->shape, x->model->symbols) : "");
	}
}

static void print_parameters(const struct inspection *x, struct arena *a)
{
	const struct weight_sum *all = &x->weights[0];

	printf("parameters  %s in %" PRIu64 " initializers, %s",
	       human_count(a, (double)all->elements), all->tensors, human_bytes(a, all->bytes));
	const char *sep = ":";
	for (int t = 1; t < DT_COUNT; t++) {
		const struct weight_sum *s = &x->weights[t];
		if (!s->tensors)
			continue;
		printf("%s %s %s (%s)", sep, dtype_name((enum dtype)t),
		       human_count(a, (double)s->elements), human_bytes(a, s->bytes));
		sep = ",";
	}
	putchar('\n');
}

static void print_operators(const struct inspection *x)
{
	uint32_t total = 0, missing = 0;

	for (size_t i = 0; i < x->nops; i++) {
		total += x->ops[i].count;
		missing += x->ops[i].cpu ? 0 : x->ops[i].count;
	}
	printf("operators   %u node%s, %zu kind%s, ", total, total == 1 ? "" : "s", x->nops,
	       x->nops == 1 ? "" : "s");
	if (missing)
		printf("%u nodes not supported\n", missing);
	else
		puts("all supported");
	for (size_t i = 0; i < x->nops; i++)
		printf("  %6u  %s-%d%s\n", x->ops[i].count, x->ops[i].name, x->ops[i].since,
		       x->ops[i].cpu ? "  cpu" : "  no device");
}

static void print_nodes(const struct inspection *x, struct arena *a)
{
	puts("nodes");
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		printf("%6zu  %s-%d  %s\n", i, r->node->origin->op, r->node->origin->since,
		       r->node->origin->name);
		for (uint32_t k = 0; k < r->node->nin; k++)
			if (r->node->in[k] != NO_VALUE)
				printf("          in   %s%s\n",
				       dump_value(a, r->graph, r->node->in[k], NULL),
				       r->graph->value[r->node->in[k]]->init ? "  initializer" : "");
		for (uint32_t k = 0; k < r->node->nout; k++)
			if (r->node->out[k] != NO_VALUE)
				printf("          out  %s\n",
				       dump_value(a, r->graph, r->node->out[k], NULL));
		const char *params = dump_params(a, r->node);
		if (*params)
			printf("         %s\n", params);
		arena_free(a);
	}
}

static void print_weights(const struct inspection *x, struct arena *a)
{
	const struct graph *g = x->model->graph;

	printf("weights\n  %-40s %-8s %-20s %12s %11s %11s %11s %11s\n", "name", "type", "shape",
	       "bytes", "min", "max", "mean", "std");
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct tensor *t = g->value[i]->init;
		if (!t || t->type.kind != V_TENSOR || !*g->value[i]->name)
			continue;
		printf("  %-40s %-8s %-20s %12zu", g->value[i]->name, dtype_name(tensor_dtype(t)),
		       shape_str(a, &t->shape, NULL), t->bytes);
		if (tensor_dtype(t) != DT_STRING) {
			struct statistics s = report_statistics(t);
			printf(" %11.4g %11.4g %11.4g %11.4g", s.min, s.max, s.mean, s.std);
			if (s.nans || s.infs)
				printf("  %" PRId64 " NaN, %" PRId64 " Inf", s.nans, s.infs);
		}
		putchar('\n');
		arena_free(a);
	}
}

static void print_cost(const struct inspection *x, struct arena *a)
{
	printf("cost        %s MACs, %s FLOPs, %s moved%s\n", human_count(a, (double)x->total.macs),
	       human_count(a, (double)x->total.flops), human_bytes(a, (uint64_t)x->total.bytes),
	       x->total.known ? ""
			      : " (without nodes whose shapes are not known: bind them with --dim)");
	printf("  %12s %12s %12s  %s\n", "MACs", "FLOPs", "bytes", "node");
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		if (!r->cost.known)
			printf("  %12s %12s %12s", "?", "?", "?");
		else
			printf("  %12" PRId64 " %12" PRId64 " %12" PRId64, r->cost.macs,
			       r->cost.flops, r->cost.bytes);
		printf("  %s (%s)\n", r->node->origin->name, r->node->origin->op);
	}
}

static void print_memory(const struct inspection *x, struct arena *a)
{
	const struct segment_report *p = &x->plan;
	uint64_t weights = x->weights[0].bytes;

	printf("memory      planned peak %s: weights %s, packed for the kernels %s, activations and workspace %s\n",
	       human_bytes(a, weights + x->packed_bytes + p->slab_bytes), human_bytes(a, weights),
	       human_bytes(a, x->packed_bytes), human_bytes(a, p->slab_bytes));
	printf("            without reuse the activations would take %s; largest workspace %s\n",
	       human_bytes(a, p->value_bytes), human_bytes(a, p->workspace));
	if (!p->whole)
		printf("            the plan holds up to step %u: shapes behind it depend on data\n",
		       p->nsteps);
}

void inspect_print_text(const struct inspection *x)
{
	struct arena a = {0};

	print_head(x, &a);
	print_ports(x, &a);
	print_parameters(x, &a);
	print_operators(x);
	if (x->o->memory)
		print_memory(x, &a);
	if (x->o->cost)
		print_cost(x, &a);
	if (x->o->weights)
		print_weights(x, &a);
	if (x->o->nodes)
		print_nodes(x, &a);
	arena_free(&a);
}
