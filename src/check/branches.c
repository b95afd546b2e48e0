/* SPDX-License-Identifier: Apache-2.0 */
#include "check/branches.h"

#include "onnx/load.h"
#include "ops/op.h"
#include "opt/infer.h"
#include "opt/params.h"
#include "session/backends.h"

#include <string.h>

/* Whether the If's condition is constant and never takes body k, or always does; 0 if it is not constant. */
enum taken { TAKEN_AT_TIMES, TAKEN_NEVER, TAKEN_ALWAYS };

static enum taken is_taken(const struct infer *c, const char *attribute)
{
	const struct value *v = node_in(c->graph, c->node, 0);
	const struct tensor *t = !v ? NULL : v->init ? v->init : c->info[v->id].known;

	if (!t || t->type.kind != V_TENSOR || t->type.dtype != DT_BOOL || tensor_count(t) != 1 ||
	    !t->data)
		return TAKEN_AT_TIMES;
	bool taken = (elem_i64(DT_BOOL, t->data, 0) != 0) == !strcmp(attribute, "then_branch");
	return taken ? TAKEN_ALWAYS : TAKEN_NEVER;
}

static void report_branch(const struct infer *n, uint32_t k, const struct diag *why, void *arg)
{
	struct check_context *c = arg;
	uint32_t rank;
	const struct field *f = params_body(n->node, k, &rank);
	enum taken taken = is_taken(n, f ? f->name : "");
	const struct finding *first = why->first;

	while (first && first->severity != SEV_ERROR)
		first = first->next;
	/* what always runs was refused when the session was opened */
	if (!first || !f || taken == TAKEN_ALWAYS)
		return;
	struct finding told = *first;
	told.severity = taken == TAKEN_NEVER ? SEV_NOTE : SEV_WARNING;
	told.message = fmt(c->d, "%s, in %s of '%s'%s",
			   first->message ? first->message : code_title(first->code), f->name,
			   check_node(n->node),
			   taken == TAKEN_NEVER ? ", which its constant condition never takes"
						: ": a run that takes it fails");
	told.file = __FILE__;
	told.line = __LINE__;
	diag_add(c->d, &told);
}

static void find_choice(const struct graph *g, const struct node *n, void *arg)
{
	(void)g;
	*(bool *)arg |= n->op && op_flags(n->op) & OP_BRANCHES;
}

void branches_report(struct check_context *c)
{
	bool any = false;
	struct arena a = {0};
	struct diag quiet = {0};
	struct infer n;

	graph_each_node(c->file->graph, find_choice, &any);
	struct model *m = any ? check_import(c, true) : NULL;
	if (m) {
		const struct graph *g = m->graph;
		struct vinfo *info = arena_new_n(&a, struct vinfo, (size_t)g->nvalues + 1);
		for (uint32_t i = 0; i < g->nvalues; i++)
			info[i] = g->value[i]->info;
		infer_begin(&n, g, info, &a, false, m, host_backend(), &quiet);
		struct infer_env *env = n.body_ctx;
		env->unfit = report_branch;
		env->arg = c;
		for (uint32_t i = 0; i < g->norder; i++) {
			n.node = g->node[g->order[i]];
			if (n.node->nsub)
				(void)infer_node(&n); /* other faults were found when the model was imported */
		}
	}
	onnx_unload(m);
	diag_free(&quiet);
	arena_free(&a);
}
