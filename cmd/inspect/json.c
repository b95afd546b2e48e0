/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/inspect/inspect.h"

#include "output/graph_text.h"
#include "io/io.h"

static void write_port(const struct inspection *x, struct json *j, const char *name,
		       const struct vinfo *v)
{
	struct arena a = {0};

	json_object(j, NULL);
	json_string(j, "name", name);
	json_string(j, "type", type_str(&a, v->type));
	if (v->type.kind == V_TENSOR && v->shape.rank >= 0) {
		json_array(j, "shape");
		for (int i = 0; i < v->shape.rank; i++) {
			int64_t n = v->shape.dim[i];
			if (n >= 0)
				json_int(j, NULL, n);
			else
				json_string(j, NULL,
					    dim_is_sym(n) ? x->model->symbols[DIM_SYM_ID(n)] : "?");
		}
		json_end(j, ']');
	}
	json_end(j, '}');
	arena_free(&a);
}

static void write_devices(const struct model *m, struct json *j)
{
	json_array(j, "device_configurations");
	for (size_t i = 0; i < m->nconfigurations; i++) {
		const struct device_configuration *c = &m->configuration[i];
		json_object(j, NULL);
		json_string(j, "name", c->name);
		json_int(j, "devices", c->devices);
		json_array(j, "names");
		for (size_t k = 0; k < c->ndevice; k++)
			json_string(j, NULL, c->device[k]);
		json_end(j, ']');
		json_end(j, '}');
	}
	json_end(j, ']');
	json_array(j, "placements");
	for (size_t i = 0; i < m->nplacements; i++) {
		const struct placement *p = &m->placement[i];
		json_object(j, NULL);
		json_string(j, "node", p->node);
		json_string(j, "operator", p->op);
		json_string(j, "configuration", p->configuration);
		if (p->stage >= 0)
			json_int(j, "stage", p->stage);
		json_array(j, "sharded");
		for (size_t k = 0; k < p->nsharded; k++) {
			json_object(j, NULL);
			json_string(j, "tensor", p->sharded[k].key);
			json_string(j, "how", p->sharded[k].value);
			json_end(j, '}');
		}
		json_end(j, ']');
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void write_head(const struct inspection *x, struct json *j)
{
	const struct model *m = x->model;

	json_object(j, "model");
	json_string(j, "path", x->path);
	json_int(j, "bytes", (int64_t)m->file_bytes);
	json_int(j, "external_bytes", (int64_t)m->external_bytes);
	json_int(j, "ir_version", m->ir_version);
	json_string(j, "producer", m->producer);
	json_string(j, "producer_version", m->producer_version);
	json_string(j, "graph", m->graph->name);
	json_object(j, "opsets");
	for (size_t i = 0; i < m->nopsets; i++)
		json_int(j, *m->opsets[i].domain ? m->opsets[i].domain : "ai.onnx",
			 m->opsets[i].version);
	json_end(j, '}');
	json_object(j, "metadata");
	for (size_t i = 0; i < m->nmeta; i++)
		json_string(j, m->meta[i].key, m->meta[i].value);
	json_end(j, '}');
	if (m->nconfigurations)
		write_devices(m, j);
	json_end(j, '}');
}

static void write_ports(const struct inspection *x, struct json *j)
{
	const struct graph *g = x->model->graph;

	json_array(j, "inputs");
	for (uint32_t i = 0; i < g->nin; i++)
		write_port(x, j, g->value[g->in[i]]->name, &g->value[g->in[i]]->info);
	json_end(j, ']');
	json_array(j, "defaults");
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->is_default)
			write_port(x, j, g->value[i]->name, &g->value[i]->info);
	json_end(j, ']');
	/* the names that --dim takes */
	json_array(j, "free");
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		for (int k = 0; v->info.type.kind == V_TENSOR && k < v->info.shape.rank; k++)
			if (v->info.shape.dim[k] < 0)
				json_string(j, NULL, input_dim_name(x->model, v, k, &x->model->arena));
	}
	json_end(j, ']');
	json_array(j, "outputs");
	for (uint32_t i = 0; i < g->nout; i++)
		write_port(x, j, g->out_name[i], &g->value[g->out[i]]->info);
	json_end(j, ']');
}

static void write_parameters(const struct inspection *x, struct json *j)
{
	json_object(j, "parameters");
	json_int(j, "count", (int64_t)x->weights[0].elements);
	json_int(j, "initializers", (int64_t)x->weights[0].tensors);
	json_int(j, "bytes", (int64_t)x->weights[0].bytes);
	json_int(j, "missing", (int64_t)x->weights[0].missing);
	json_object(j, "by_type");
	for (int t = 1; t < DT_COUNT; t++)
		if (x->weights[t].tensors)
			json_int(j, dtype_name((enum dtype)t), (int64_t)x->weights[t].bytes);
	json_end(j, '}');
	json_end(j, '}');
}

static void write_operators(const struct inspection *x, struct json *j)
{
	json_array(j, "operators");
	for (size_t i = 0; i < x->nops; i++) {
		json_object(j, NULL);
		json_string(j, "operator", x->ops[i].name);
		json_int(j, "since", x->ops[i].since);
		json_int(j, "count", x->ops[i].count);
		for (int b = 0; b < BACKENDS; b++)
			json_bool(j, backends[b]->name, x->ops[i].on[b]);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void write_nodes(const struct inspection *x, struct json *j)
{
	json_array(j, "nodes");
	for (size_t i = 0; i < x->nnodes; i++) {
		const struct node_row *r = &x->nodes[i];
		json_object(j, NULL);
		json_string(j, "name", r->node->origin->name);
		json_string(j, "operator", r->node->origin->op);
		json_int(j, "since", r->node->origin->since);
		json_array(j, "outputs");
		for (uint32_t k = 0; k < r->node->nout; k++)
			if (r->node->out[k] != NO_VALUE)
				write_port(x, j, r->graph->value[r->node->out[k]]->name,
					   &r->graph->value[r->node->out[k]]->info);
		json_end(j, ']');
		if (r->cost.known) {
			json_int(j, "macs", r->cost.macs);
			json_int(j, "flops", r->cost.flops);
			json_int(j, "bytes", r->cost.bytes);
		}
		json_end(j, '}');
	}
	json_end(j, ']');
	json_object(j, "cost");
	json_int(j, "macs", x->total.macs);
	json_int(j, "flops", x->total.flops);
	json_int(j, "bytes", x->total.bytes);
	json_bool(j, "complete", x->total.known);
	json_end(j, '}');
}

static void write_weight(const struct value *v, void *arg)
{
	const struct tensor *t = v->init ? v->init : v->missing;
	struct json *j = arg;

	if (!*v->name)
		return;
	json_object(j, NULL);
	json_string(j, "name", v->name);
	json_string(j, "type", dtype_name(tensor_dtype(t)));
	io_json_shape(j, &t->shape);
	json_int(j, "bytes", (int64_t)t->bytes);
	json_bool(j, "missing", v->missing != NULL);
	if (!v->missing && tensor_dtype(t) != DT_STRING) {
		struct statistics s = report_statistics(t);
		json_number(j, "min", s.min);
		json_number(j, "max", s.max);
		json_number(j, "mean", s.mean);
		json_number(j, "std", s.std);
		json_int(j, "zeros", s.zeros);
		json_int(j, "nan", s.nans);
		json_int(j, "inf", s.infs);
	}
	json_end(j, '}');
}

static void write_weights(const struct inspection *x, struct json *j)
{
	json_array(j, "weights");
	report_each_weight(x->model->graph, write_weight, j);
	json_end(j, ']');
}

static void write_memory(const struct inspection *x, struct json *j)
{
	json_object(j, "memory");
	json_int(j, "weights", (int64_t)x->weights[0].bytes);
	json_int(j, "weights_in_place", (int64_t)x->in_place_bytes);
	json_int(j, "copied_weights", (int64_t)x->copied_bytes);
	json_int(j, "packed_weights", (int64_t)x->packed_bytes);
	json_int(j, "activations", (int64_t)x->plan.slab_bytes);
	json_int(j, "activations_without_reuse", (int64_t)x->plan.value_bytes);
	json_int(j, "workspace", (int64_t)x->plan.workspace);
	json_int(j, "peak", (int64_t)x->peak_bytes);
	json_bool(j, "complete", x->plan.whole);
	json_end(j, '}');
}

void inspect_print_json(struct inspection *x, const struct diag *d)
{
	struct printed printed;
	struct json j;

	json_envelope_begin(&j, x->o, d);
	inspect_print_text(x, printed_begin(&printed));
	printed_end(&printed, &j);
	write_head(x, &j);
	write_ports(x, &j);
	write_parameters(x, &j);
	write_operators(x, &j);
	write_nodes(x, &j);
	if (x->o->weights)
		write_weights(x, &j);
	if (x->planned)
		write_memory(x, &j);
	inspect_write_passes(x, &j);
	json_envelope_end(&j, d);
}
