/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a model file: what is in them, and that they load. */
#include "onnx/save.h"

#include "../tools/models.h"
#include "onnx/load.h"
#include "unit.h"

#include <unistd.h>

static char dir[] = "/tmp/infer-unit-save-XXXXXX";

static void put_model(void (*make)(struct w *))
{
	struct w m = {0};
	FILE *f = fopen("whole.onnx", "wb");

	make(&m);
	CHECK(f && fwrite(m.p, 1, m.n, f) == m.n && !fclose(f));
	w_free(&m);
}

static bool reads(const struct onnx_node *n, const char *name)
{
	for (uint32_t i = 0; i < n->nin; i++)
		if (!strcmp(n->in[i], name))
			return true;
	return false;
}

static const struct tensor like = {
	.type = {.kind = V_TENSOR, .dtype = DT_F32}, .shape = {2, {2, 3}}, .bytes = 24};

/* Writes one node with these borders and loads what was written; nodes of the loaded graph, or -1. */
static int64_t part(const struct onnx_file *f, uint32_t node, const struct onnx_border *in,
		    uint32_t nin, const struct onnx_border *constant, uint32_t nconstant,
		    const char *out)
{
	struct diag d = {0};
	const struct onnx_border outs[] = {{.name = out, .t = &like}};
	const struct onnx_part p = {.node = &node,
				    .nnodes = 1,
				    .in = in,
				    .nin = nin,
				    .constant = constant,
				    .nconstant = nconstant,
				    .out = outs,
				    .nout = 1};
	int64_t n = -1;

	CHECK_INT(onnx_save_part(f, &p, "part.onnx", &d), 0);
	struct model *m = onnx_load("part.onnx", NULL, &d);
	if (m) {
		n = m->graph->norder;
		CHECK_INT(m->graph->nin, nin);
		CHECK_INT(m->graph->nout, 1);
	} else {
		diag_print(&d, stdout, false);
	}
	onnx_unload(m);
	diag_free(&d);
	return n;
}

static void test_captures(void)
{
	struct diag d = {0};
	float w[3] = {1, 2, 3}, c[1] = {0};
	struct tensor weight = {
		.type = type_tensor(DT_F32), .shape = {1, {3}}, .data = w, .bytes = sizeof(w)};
	struct tensor flag = {.type = type_tensor(DT_BOOL), .shape = {0, {0}}, .data = c, .bytes = 1};

	put_model(good_captures);
	struct onnx_file *f = onnx_file_open("whole.onnx", NULL, &d);
	CHECK(f && onnx_file_nodes(f) == 2);
	const struct onnx_node *n = onnx_file_node(f, 1);
	CHECK_STR(n->op, "If");
	/* what its bodies, and the bodies in these, take from outside, and nothing of their own */
	CHECK(reads(n, "c") && reads(n, "x") && reads(n, "a") && reads(n, "w"));
	CHECK(!reads(n, "r") && !reads(n, "t") && !reads(n, "e"));
	const struct onnx_border in[] = {
		{.name = "c", .t = &flag}, {.name = "x", .t = &like}, {.name = "a", .t = &like}};
	const struct onnx_border constant[] = {{.name = "w", .t = &weight}};
	CHECK_INT(part(f, 1, in, 3, constant, 1, "y"), 1);
	onnx_file_close(f);
	diag_free(&d);
}

static void test_functions(void)
{
	struct diag d = {0};

	put_model(good_functions);
	struct onnx_file *f = onnx_file_open("whole.onnx", NULL, &d);
	CHECK(f && onnx_file_nodes(f) == 1);
	CHECK_STR(onnx_file_node(f, 0)->title, "call");
	const struct onnx_border in[] = {
		{.name = "x", .t = &like}, {.name = "p", .t = &like}, {.name = "q", .t = &like}};
	/* its functions come along, or it would not load; they are expanded to more than one node */
	CHECK(part(f, 0, in, 1, NULL, 0, "y") > 1);
	onnx_file_close(f);
	diag_free(&d);
}

/* A node without a name keeps the title that its number gave it. */
static void test_titles(void)
{
	struct diag d = {0};

	put_model(good_unsorted);
	struct onnx_file *f = onnx_file_open("whole.onnx", NULL, &d);
	CHECK(f && onnx_file_nodes(f) == 3);
	CHECK_STR(onnx_file_node(f, 2)->title, "Abs_2");
	const struct onnx_border in[] = {{.name = "x", .t = &like}};
	CHECK_INT(part(f, 2, in, 1, NULL, 0, "a"), 1);
	struct onnx_file *g = onnx_file_open("part.onnx", NULL, &d);
	CHECK(g != NULL);
	CHECK_STR(onnx_file_node(g, 0)->title, "Abs_2");
	CHECK_STR(onnx_file_output(g, 0), "a");
	onnx_file_close(g);
	onnx_file_close(f);
	diag_free(&d);
}

static void test_refused(void)
{
	struct diag d = {0};

	put_model(bad_truncated);
	CHECK(!onnx_file_open("whole.onnx", NULL, &d));
	CHECK(d.last && d.last->code == E_MODEL_TRUNCATED);
	CHECK(!onnx_file_open("nowhere.onnx", NULL, &d));
	CHECK(d.last->code == E_MODEL_OPEN);
	diag_free(&d);
}

int main(void)
{
	if (!mkdtemp(dir) || chdir(dir))
		return 1;
	UNIT(test_captures);
	UNIT(test_functions);
	UNIT(test_titles);
	UNIT(test_refused);
	unlink("whole.onnx");
	unlink("part.onnx");
	if (!chdir("/"))
		rmdir(dir);
	return unit_end();
}
