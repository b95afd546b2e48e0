/* SPDX-License-Identifier: Apache-2.0 */
/* Models to graphs: every case of test/tools/models.h, and what becomes of the good ones. */
#include "onnx/load.h"

#include "../tools/models.h"
#include "base/mem.h"
#include "onnx/internal.h"
#include "ops/supported.h"
#include "unit.h"

#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/infer-unit-load-XXXXXX"; /* the models' folder is dir/m */

static void put_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static bool set_up(void)
{
	if (!mkdtemp(dir) || chdir(dir) || mkdir("m", 0777) || mkdir("m/sub", 0777))
		return false;
	put_file("secret.bin", "012345678901234567890123", 24);
	put_file("m/weights.bin", "012345678901234567890123", 24);
	return !symlink("../secret.bin", "m/link.bin");
}

static void tear_down(void)
{
	static const char *const files[] = {"m/model.onnx", "m/weights.bin", "m/link.bin",
					    "secret.bin", "elsewhere/model.onnx"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		unlink(files[i]);
	rmdir("elsewhere");
	rmdir("m/sub");
	rmdir("m");
	if (!chdir("/"))
		rmdir(dir);
}

static struct model *load_case(void (*make)(struct w *), const struct load_options *o, struct diag *d)
{
	struct w w = {0};

	make(&w);
	put_file("m/model.onnx", w.p ? w.p : (unsigned char *)dir, w.n);
	w_free(&w);
	return onnx_load("m/model.onnx", o, d);
}

static const struct model_case *current;

/* The model loads, or is refused with the case's code, exit status 3 and little memory. */
static void one_case(void)
{
	struct diag d = {0};
	char id[64] = "";
	struct stat st;
	uint64_t before = mem_count(MEM_HOST, MEM_MODEL).live;
	struct model *m = load_case(current->make, NULL, &d);
	uint64_t peak = mem_count(MEM_HOST, MEM_MODEL).peak;

	if (d.last && d.last->severity == SEV_ERROR)
		snprintf(id, sizeof(id), "%s", code_id(d.last->code, SEV_ERROR) + 2);
	for (char *p = id; *p; p++)
		*p = *p == '-' ? '_' : *p;
	CHECK_STR(id, current->code);
	CHECK((m != NULL) == !*current->code);
	CHECK(d.errors == (*current->code != 0));
	CHECK(m || diag_exit(&d) == 3);
	CHECK(stat("m/model.onnx", &st) || peak < before + 2 * (uint64_t)st.st_size + (32 << 20));
	onnx_unload(m);
	diag_free(&d);
}

static void all_cases(void)
{
	for (int i = 0; i < MODEL_CASES; i++) {
		current = &model_cases[i];
		unit_test(one_case, current->name);
	}
}

/* With `collect` no case does harm either. */
static void collecting(void)
{
	struct load_options o = {.collect = true};

	for (int i = 0; i < MODEL_CASES; i++) {
		struct diag d = {0};
		struct model *m = load_case(model_cases[i].make, &o, &d);
		CHECK(*model_cases[i].code ? d.errors > 0 : m && !d.errors);
		onnx_unload(m);
		diag_free(&d);
	}
	struct diag d = {0};
	struct model *m = load_case(bad_missing_name, &o, &d);
	CHECK(m && m->graph->nin == 1 && m->graph->nout == 1);
	onnx_unload(m);
	diag_free(&d);
}

static const struct node *writer(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; k < g->node[i]->nout; k++)
			if (g->node[i]->out[k] != NO_VALUE &&
			    !strcmp(g->value[g->node[i]->out[k]]->name, name))
				return g->node[i];
	return NULL;
}

static const char *in_name(const struct graph *g, const struct node *n, uint32_t i)
{
	return n->in[i] == NO_VALUE ? "-" : g->value[n->in[i]]->name;
}

static void names_become_ids(void)
{
	struct diag d = {0};
	struct model *m = load_case(good_unsorted, NULL, &d);
	const struct graph *g = m ? m->graph : NULL;

	CHECK(g && g->nin == 1 && g->nout == 1 && g->nnodes == 3 && g->norder == 3);
	if (g) {
		CHECK_STR(g->node[g->order[0]]->type, "Abs");
		CHECK_STR(g->node[g->order[2]]->type, "Relu");
		CHECK_STR(g->node[0]->origin->name, "Relu_0");
		CHECK_INT(g->node[0]->version, 17);
		CHECK_STR(g->out_name[0], "y");
		CHECK_INT(g->value[g->in[0]]->info.shape.dim[1], 3);
		CHECK_STR(m->producer, "test");
		CHECK_INT(m->ir_version, 8);
		CHECK(m->nopsets == 1 && m->opsets[0].version == 17);
	}
	onnx_unload(m);
	diag_free(&d);
}

static void initializers_are_no_inputs(void)
{
	struct diag d = {0};
	struct model *m = load_case(good_ir3, NULL, &d);
	const struct graph *g = m ? m->graph : NULL;
	const struct node *add = g ? writer(g, "y") : NULL;

	CHECK(g && g->nin == 1);
	CHECK(add && g->value[add->in[1]]->init && tensor_count(g->value[add->in[1]]->init) == 3);
	onnx_unload(m);
	diag_free(&d);
}

static void captures_become_inputs(void)
{
	struct diag d = {0};
	struct model *m = load_case(good_captures, NULL, &d);
	const struct graph *g = m ? m->graph : NULL;
	const struct node *n = g ? writer(g, "y") : NULL, *inner;

	CHECK(n && n->nin == 1 && n->ncap == 3 && n->nsub == 2);
	if (n && n->nsub == 2 && n->ncap == 3) {
		const struct graph *then = n->sub[0], *other = n->sub[1];
		/* the condition is captured as well, for the If inside */
		CHECK(then->nin == 0 && then->ncap == 3 && other->ncap == 1);
		for (uint32_t j = 0; j < then->ncap; j++)
			CHECK_STR(then->value[then->in[j]]->name, in_name(g, n, 1 + then->capture[j]));
		CHECK_STR(in_name(g, n, 1 + other->capture[0]), "x");
		inner = writer(then, "t");
		CHECK(inner && inner->nsub == 2 && inner->ncap == 2);
		const struct node *add = writer(other, "e");
		CHECK(add && other->value[add->in[1]]->init);
	}
	onnx_unload(m);
	diag_free(&d);
}

static void functions_are_expanded(void)
{
	struct diag d = {0};
	struct model *m = load_case(good_functions, NULL, &d);
	const struct graph *g = m ? m->graph : NULL;
	const struct node *pass = g ? writer(g, "p") : NULL, *neg = g ? writer(g, "y") : NULL;
	const struct node *mul = g ? writer(g, "q") : NULL;

	CHECK(m && m->nfunctions == 3);
	CHECK(pass && !strcmp(pass->type, "Identity") && !strcmp(in_name(g, pass, 0), "x"));
	CHECK(neg && !strcmp(neg->type, "Neg") && !strcmp(in_name(g, neg, 0), "q"));
	CHECK(mul && !strcmp(mul->type, "Mul"));
	if (mul) {
		const struct tensor *h = g->value[mul->in[1]]->init;
		CHECK_STR(mul->origin->name, "call/Inner_0/Mul_2");
		CHECK(h && elem_f64(DT_F32, h->data, 0) == 0.5);
	}
	bool seven = false;
	for (uint32_t i = 0; g && i < g->nvalues; i++)
		if (g->value[i]->init && tensor_dtype(g->value[i]->init) == DT_I64)
			seven |= elem_i64(DT_I64, g->value[i]->init->data, 0) == 7;
	CHECK(seven);
	onnx_unload(m);
	diag_free(&d);
}

static void unsupported_operators_in_one_message(void)
{
	struct diag d = {0};
	struct model *m = load_case(good_unsupported, NULL, &d);

	CHECK(m && ops_supported(m, &d) == -E_OP_UNSUPPORTED);
	CHECK(d.errors == 1 && d.last->nrows == 3);
	if (d.errors == 1 && d.last->nrows == 3) {
		CHECK_STR(d.last->rows[0].label, "my::Nobody-3");
		CHECK(strstr(d.last->rows[0].text, "2 nodes: 'Nobody_0', 'Nobody_0'"));
		CHECK_STR(d.last->rows[1].label, "Nowhere-17");
		CHECK(strstr(d.last->rows[2].text, "--ops LIBRARY.so"));
	}
	onnx_unload(m);
	diag_free(&d);
	m = load_case(good, NULL, &d);
	CHECK(m && !ops_supported(m, &d) && !d.errors);
	onnx_unload(m);
	diag_free(&d);
}

/* Hugging Face's cache: the model's name is a link, and the data lie where it leads. */
static void a_linked_model_finds_its_data(void)
{
	struct diag d = {0};
	struct w w = {0};

	good_external(&w);
	put_file("m/model.onnx", w.p, w.n);
	CHECK(!mkdir("elsewhere", 0777) && !symlink("../m/model.onnx", "elsewhere/model.onnx"));
	struct model *m = onnx_load("elsewhere/model.onnx", NULL, &d);
	CHECK(m && m->external_bytes == 24);
	onnx_unload(m);
	diag_free(&d);
	m = onnx_load_bytes(w.p, w.n, NULL, &d);
	CHECK(!m && d.errors && d.last->code == E_WEIGHT_EXTERNAL);
	onnx_unload(m);
	diag_free(&d);
	m = onnx_load_bytes(w.p, w.n, &(struct load_options){.external_root = "m"}, &d);
	CHECK(m && !d.errors);
	onnx_unload(m);
	diag_free(&d);
	w_free(&w);
}

/* The link that leads out of the folder is fine where its folder is allowed. */
static void external_root_allows_a_folder(void)
{
	struct diag d = {0};
	struct load_options o = {.external_root = "."};
	struct model *m = load_case(bad_external_link, &o, &d);

	CHECK(m && !d.errors);
	onnx_unload(m);
	diag_free(&d);
	m = load_case(bad_external_parent, &o, &d);
	CHECK(!m && d.last && d.last->code == E_WEIGHT_PATH);
	onnx_unload(m);
	diag_free(&d);
}

static void field_numbers_are_the_schemas(void)
{
	static const struct {
		const ProtobufCMessageDescriptor *desc;
		const char *name;
		uint32_t number;
	} fields[] = {
		{&onnx__model_proto__descriptor, "graph", MODEL_GRAPH},
		{&onnx__model_proto__descriptor, "opset_import", MODEL_OPSET},
		{&onnx__model_proto__descriptor, "metadata_props", MODEL_META},
		{&onnx__model_proto__descriptor, "training_info", MODEL_TRAINING},
		{&onnx__model_proto__descriptor, "functions", MODEL_FUNCTIONS},
		{&onnx__graph_proto__descriptor, "node", GRAPH_NODE},
		{&onnx__graph_proto__descriptor, "name", GRAPH_NAME},
		{&onnx__graph_proto__descriptor, "initializer", GRAPH_INITIALIZER},
		{&onnx__graph_proto__descriptor, "input", GRAPH_INPUT},
		{&onnx__graph_proto__descriptor, "output", GRAPH_OUTPUT},
		{&onnx__graph_proto__descriptor, "value_info", GRAPH_VALUE_INFO},
		{&onnx__graph_proto__descriptor, "sparse_initializer", GRAPH_SPARSE},
		{&onnx__node_proto__descriptor, "input", NODE_INPUT},
		{&onnx__node_proto__descriptor, "output", NODE_OUTPUT},
		{&onnx__node_proto__descriptor, "name", NODE_NAME},
		{&onnx__node_proto__descriptor, "op_type", NODE_TYPE},
		{&onnx__node_proto__descriptor, "attribute", NODE_ATTRIBUTE},
		{&onnx__node_proto__descriptor, "domain", NODE_DOMAIN},
		{&onnx__node_proto__descriptor, "overload", NODE_OVERLOAD},
		{&onnx__node_proto__descriptor, "device_configurations", NODE_DEVICES},
		{&onnx__model_proto__descriptor, "configuration", MODEL_CONFIGURATION},
		{&onnx__attribute_proto__descriptor, "t", ATTRIBUTE_T},
		{&onnx__attribute_proto__descriptor, "g", ATTRIBUTE_G},
		{&onnx__attribute_proto__descriptor, "floats", ATTRIBUTE_FLOATS},
		{&onnx__attribute_proto__descriptor, "ints", ATTRIBUTE_INTS},
		{&onnx__attribute_proto__descriptor, "strings", ATTRIBUTE_STRINGS},
		{&onnx__attribute_proto__descriptor, "tensors", ATTRIBUTE_TENSORS},
		{&onnx__attribute_proto__descriptor, "graphs", ATTRIBUTE_GRAPHS},
		{&onnx__attribute_proto__descriptor, "sparse_tensor", ATTRIBUTE_SPARSE},
		{&onnx__function_proto__descriptor, "name", FUNCTION_NAME},
		{&onnx__function_proto__descriptor, "input", FUNCTION_INPUT},
		{&onnx__function_proto__descriptor, "output", FUNCTION_OUTPUT},
		{&onnx__function_proto__descriptor, "attribute", FUNCTION_ATTRIBUTE},
		{&onnx__function_proto__descriptor, "node", FUNCTION_NODE},
		{&onnx__function_proto__descriptor, "opset_import", FUNCTION_OPSET},
		{&onnx__function_proto__descriptor, "domain", FUNCTION_DOMAIN},
		{&onnx__function_proto__descriptor, "attribute_proto", FUNCTION_DEFAULTS},
		{&onnx__function_proto__descriptor, "overload", FUNCTION_OVERLOAD},
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(
			fields[i].desc, fields[i].name);
		CHECK_INT(f ? f->id : 0, fields[i].number);
	}
}

int main(void)
{
	if (!set_up())
		return 1;
	all_cases();
	UNIT(collecting);
	UNIT(names_become_ids);
	UNIT(initializers_are_no_inputs);
	UNIT(captures_become_inputs);
	UNIT(functions_are_expanded);
	UNIT(unsupported_operators_in_one_message);
	UNIT(a_linked_model_finds_its_data);
	UNIT(external_root_allows_a_folder);
	UNIT(field_numbers_are_the_schemas);
	tear_down();
	return unit_end();
}
