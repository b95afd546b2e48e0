/* SPDX-License-Identifier: Apache-2.0 */
/* --precision fp16: what becomes small, what stays, and where the casts stand. */
#include "cpu/cpu.h"
#include "opt/optimizer.h"
#include "opt/pattern.h"
#include "test/unit/unit.h"

#include <string.h>

struct trial {
	struct model model;
	struct diag diag;
	struct run_config config;
	struct optimizer o;
	struct graph *g;
	struct names vars;
	uint32_t value[MAX_NAMES];
};

static uint32_t named(struct trial *t, const char *name, uint32_t id)
{
	t->value[t->vars.n] = id;
	t->vars.name[t->vars.n++] = name;
	return id;
}

/* x [2,4] and a weight w [4,4] whose last element is beyond fp16; the text's y is the output. */
static bool start(struct trial *t, enum precision p, const char *nodes)
{
	memset(t, 0, sizeof(*t));
	t->config = (struct run_config){.optimize = OPTIMIZE_FULL, .precision = (int)p};
	t->g = t->model.graph = graph_new(&t->model.arena, &t->model, "trial");
	t->g->in = arena_new_n(&t->model.arena, uint32_t, 2);
	t->g->out = arena_new_n(&t->model.arena, uint32_t, 2);
	t->g->out_name = arena_new_n(&t->model.arena, const char *, 2);
	t->o = (struct optimizer){
		.model = &t->model, .cpu = &cpu_backend, .config = &t->config, .diag = &t->diag};
	struct value *x = graph_add_value(t->g, "x");
	x->info.type = type_tensor(DT_F32);
	x->info.shape = shape_of(2, (int64_t[]){2, 4});
	x->is_input = true;
	t->g->in[t->g->nin++] = named(t, "x", x->id);
	struct shape square = shape_of(2, (int64_t[]){4, 4});
	struct tensor *w = tensor_new(&t->model.arena, DT_F32, &square);
	for (int i = 0; i < 16; i++)
		((float *)w->data)[i] = i == 15 ? -1e30F : (float)i / 16;
	named(t, "w", graph_add_const(t->g, "w", w)->id);
	struct made made = {&t->o, t->g};
	struct rewriter rw = opt_rewriter(&made);
	if (!CHECK(text_build(&rw, nodes, &t->vars, t->value) == 0))
		return false;
	uint32_t y = t->value[names_find(&t->vars, "y", 1)];
	t->g->out_name[0] = "y";
	t->g->out[t->g->nout++] = y;
	t->g->value[y]->is_output = true;
	return CHECK_INT(opt_run(&t->model, &cpu_backend, &t->config, &t->diag), 0);
}

static void finish(struct trial *t)
{
	arena_free(&t->o.scratch);
	arena_free(&t->model.arena);
	diag_free(&t->diag);
}

static const struct node *only(const struct trial *t, const char *op)
{
	for (uint32_t i = 0; i < t->g->nnodes; i++)
		if (!t->g->node[i]->dead && t->g->node[i]->op == op_named(op))
			return t->g->node[i];
	return NULL;
}

static int type_of_in(const struct trial *t, const struct node *n, uint32_t i)
{
	return n ? (int)node_in(t->g, n, i)->info.type.dtype : -1;
}

static void products_become_small(void)
{
	struct trial t;

	if (start(&t, PRECISION_FP16, "y = MatMul(x, w)")) {
		const struct node *n = only(&t, "infer::Gemm");
		CHECK_INT(type_of_in(&t, n, 0), DT_F16);
		CHECK_INT(type_of_in(&t, n, 1), DT_F16);
		CHECK_INT(t.g->value[t.g->in[0]]->info.type.dtype, DT_F32);
		CHECK_INT(t.g->value[t.g->out[0]]->info.type.dtype, DT_F32);
		/* what fp16 cannot say is its least number, not -infinity */
		const struct tensor *w = n ? node_in(t.g, n, 1)->init : NULL;
		CHECK(w && ((const uint16_t *)w->data)[15] == 0xfbff);
	}
	finish(&t);
}

static void exponentials_stay(void)
{
	struct trial t;

	if (start(&t, PRECISION_BF16, "y = MatMul(Exp(MatMul(x, w)), w)")) {
		const struct node *n = only(&t, "Exp");
		n = n ? n : only(&t, "infer::Pointwise");
		CHECK_INT(type_of_in(&t, n, 0), DT_F32);
		CHECK_INT(type_of_in(&t, only(&t, "infer::Gemm"), 0), DT_BF16);
	}
	finish(&t);
}

static void fp32_is_left_alone(void)
{
	struct trial t;

	if (start(&t, PRECISION_TF32, "y = MatMul(x, w)")) {
		CHECK(!only(&t, "Cast"));
		CHECK_INT(type_of_in(&t, only(&t, "infer::Gemm"), 1), DT_F32);
	}
	finish(&t);
}

int main(void)
{
	UNIT(products_become_small);
	UNIT(exponentials_stay);
	UNIT(fp32_is_left_alone);
	return unit_end();
}
