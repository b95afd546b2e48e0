/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-device annotations: the model's configurations, and how nodes are spread over their devices. They are only told. */
#include "onnx/internal.h"

#include "base/str.h"

#include <inttypes.h>

static void add_numbers(struct str *b, const int64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		str_addf(b, "%s%" PRId64, i ? ", " : "", v[i]);
}

/* "8 in 2 parts" of an axis, of which sizes may be names */
static void add_axis(struct str *b, const Onnx__ShardedDimProto *x)
{
	str_addf(b, "%saxis %" PRId64, b->n ? "; " : "", x->axis);
	for (size_t i = 0; i < x->n_simple_sharding; i++) {
		const Onnx__SimpleShardedDimProto *s = x->simple_sharding[i];
		str_add(b, i ? " and " : " ");
		if (s->dim_case == ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE)
			str_addf(b, "(%" PRId64 ") ", s->dim_value);
		else if (s->dim_case == ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_PARAM)
			str_addf(b, "(%s) ", s->dim_param);
		str_addf(b, "in %s", str_many(b->arena, (uint64_t)s->num_shards, "part"));
	}
}

/* "on devices 0, 1; axis 1 (8) in 2 parts; -1 stands for 0, 1" */
static const char *sharding_text(struct arena *a, const Onnx__ShardingSpecProto *p)
{
	struct str b = {.arena = a};

	if (p->n_device) {
		str_add(&b, p->n_device == 1 ? "on device " : "on devices ");
		add_numbers(&b, p->device, p->n_device);
	}
	for (size_t i = 0; i < p->n_sharded_dim; i++)
		add_axis(&b, p->sharded_dim[i]);
	for (size_t i = 0; i < p->n_index_to_device_group_map; i++) {
		const Onnx__IntIntListEntryProto *g = p->index_to_device_group_map[i];
		str_addf(&b, "; %" PRId64 " stands for ", g->key);
		add_numbers(&b, g->value, g->n_value);
	}
	return str_get(&b);
}

static const char *copy(struct arena *a, const char *s)
{
	return arena_str(a, s ? s : "");
}

static void load_configuration(struct arena *a, struct pb_span s, struct device_configuration *out)
{
	struct arena tmp = {0};
	struct pb_decoder c = pb_decoder(&tmp, NULL, s.n);
	const Onnx__DeviceConfigurationProto *p =
		pb_decode(&c, &onnx__device_configuration_proto__descriptor, s);

	*out = (struct device_configuration){.name = copy(a, p ? p->name : NULL),
					     .devices = p ? p->num_devices : 0};
	if (p && p->n_device) {
		out->device = arena_new_n(a, const char *, p->n_device);
		out->ndevice = p->n_device;
		for (size_t i = 0; i < p->n_device; i++)
			out->device[i] = copy(a, p->device[i]);
	}
	arena_free(&tmp);
}

static void load_placement(struct arena *a, struct pb_span s, struct placement *out)
{
	struct arena tmp = {0};
	struct pb_decoder c = pb_decoder(&tmp, NULL, s.n);
	const Onnx__NodeDeviceConfigurationProto *p =
		pb_decode(&c, &onnx__node_device_configuration_proto__descriptor, s);

	out->configuration = copy(a, p ? p->configuration_id : NULL);
	out->stage = p && p->has_pipeline_stage ? p->pipeline_stage : -1;
	out->sharded = arena_new_n(a, struct meta, p ? p->n_sharding_spec : 0);
	for (size_t i = 0; p && i < p->n_sharding_spec; i++)
		out->sharded[out->nsharded++] =
			(struct meta){copy(a, p->sharding_spec[i]->tensor_name),
				      sharding_text(a, p->sharding_spec[i])};
	arena_free(&tmp);
}

static const char *text_of(struct arena *a, struct pb_span node, uint32_t number)
{
	struct pb_span s = pb_sub(node, number, a);

	return s.n ? arena_strn(a, (const char *)s.p, s.n) : "";
}

/* Adds the annotations of the nodes that lie in `field` of the message, and of those in their bodies, or counts them if `to` is NULL. */
static size_t add_placements(struct arena *a, struct pb_span message, uint32_t field,
			     struct placement *to)
{
	struct pb_span node, rest, s;
	struct pb_field f;
	size_t n = 0;

	while (pb_each(&message, field, &node)) {
		for (rest = node; pb_each(&rest, NODE_DEVICES, &s); n++) {
			if (!to)
				continue;
			to[n] = (struct placement){.node = text_of(a, node, NODE_NAME),
						   .op = text_of(a, node, NODE_TYPE)};
			load_placement(a, s, &to[n]);
		}
		for (rest = node; pb_each(&rest, NODE_ATTRIBUTE, &s);)
			while (pb_next(&s, &f))
				if (f.wire == PB_BYTES &&
				    (f.number == ATTRIBUTE_G || f.number == ATTRIBUTE_GRAPHS))
					n += add_placements(a, f.bytes, GRAPH_NODE,
							    to ? to + n : NULL);
	}
	return n;
}

/* The same for the graph and the model's functions. */
static size_t load_placements(struct arena *a, struct pb_span model, struct pb_span graph,
			      struct placement *to)
{
	size_t n = add_placements(a, graph, GRAPH_NODE, to);
	struct pb_span s;

	while (pb_each(&model, MODEL_FUNCTIONS, &s))
		n += add_placements(a, s, FUNCTION_NODE, to ? to + n : NULL);
	return n;
}

void load_devices(struct loader *l, struct pb_span model, struct pb_span graph)
{
	struct model *m = l->m;
	struct pb_span rest = model, s;

	/* without a configuration that they could name, annotations of nodes mean nothing */
	if (!pb_occurs(model, MODEL_CONFIGURATION))
		return;
	m->configuration = arena_new_n(l->a, struct device_configuration,
				       pb_occurs(model, MODEL_CONFIGURATION));
	while (pb_each(&rest, MODEL_CONFIGURATION, &s))
		load_configuration(l->a, s, &m->configuration[m->nconfigurations++]);
	m->placement = arena_new_n(l->a, struct placement, load_placements(l->a, model, graph, NULL));
	m->nplacements = load_placements(l->a, model, graph, m->placement);
}
