/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

#include <string.h>

const struct opt_pass opt_passes[OPT_PASSES + 1] = {
	{"import", "old versions become the newest meaning; types and shapes", pass_import,
	 OPTIMIZE_NONE},
	{"expand", "operators without a kernel become others", pass_expand, OPTIMIZE_NONE},
	{"fold", "what is known before the run is a constant", pass_fold, OPTIMIZE_NONE},
	{"cse", "equal nodes and constants become one", pass_cse, OPTIMIZE_BASIC},
	{"simplify", "rules that take away", pass_simplify, OPTIMIZE_BASIC},
	{"fold again", "constants the rules made", pass_fold, OPTIMIZE_BASIC},
	{"fuse", "rules that join nodes", pass_fuse, OPTIMIZE_BASIC},
	{"fold weights", "scales and biases that went into weights", pass_fold_weights, OPTIMIZE_BASIC},
	{"infer again", "what the rules made is better known", pass_infer, OPTIMIZE_BASIC},
	{"fuse again", "rules that waited for a constant's value", pass_fuse, OPTIMIZE_BASIC},
	{"fold weights", "what they made of constants", pass_fold_weights, OPTIMIZE_BASIC},
	{"cse again", "equal nodes and constants become one", pass_cse, OPTIMIZE_BASIC},
	{"dce", "what nothing uses goes", pass_dce, OPTIMIZE_NONE},
	{"pointwise", "chains of elementwise nodes become one pass", pass_pointwise, OPTIMIZE_FULL},
	{"dce again", "what nothing uses goes", pass_dce, OPTIMIZE_FULL},
	{"precision", "--precision fp16, bf16: what may goes to the smaller type", pass_precision,
	 OPTIMIZE_NONE},
	{"dce at last", "what nothing uses goes", pass_dce, OPTIMIZE_NONE},
	{"infer", "types and shapes of what came out", pass_infer, OPTIMIZE_NONE},
	{0}};

static int rules(struct optimizer *o, struct graph *g, enum rule_kind most)
{
	struct made made = {o, g};
	struct diag quiet = {0}, *loud = o->diag;
	int r;

	/* a replacement that cannot be made is not: nothing that the model's owner must know */
	o->diag = &quiet;
	struct rewriter w = opt_rewriter(&made);
	r = rewrite_graph(&w, &o->rules, most, o->config->optimize < OPTIMIZE_FULL, o->fired);
	o->diag = loud;
	diag_free(&quiet);
	return r < 0 ? FAIL(loud, E_INTERNAL, .message = "the rewritten graph cannot be sorted") : r;
}

int pass_simplify(struct optimizer *o, struct graph *g)
{
	return rules(o, g, SIMPLIFY);
}

int pass_fuse(struct optimizer *o, struct graph *g)
{
	return rules(o, g, FUSE);
}

/* One pass over a graph and then its bodies (import goes into them by itself). */
static int run_pass(struct optimizer *o, const struct opt_pass *p, struct graph *g)
{
	int changes = p->run(o, g), r;

	for (uint32_t i = 0; changes >= 0 && p->run != pass_import && i < g->nnodes; i++) {
		struct node *n = g->node[i];
		if (n->dead || !n->nsub)
			continue;
		opt_sync_captures(o, g, n);
		for (uint32_t k = 0; k < n->nsub && changes >= 0; k++) {
			r = run_pass(o, p, n->sub[k]);
			changes = r < 0 ? r : changes + r;
		}
	}
	return changes;
}

static uint32_t count_nodes(const struct graph *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *x = g->node[i];
		n += !x->dead;
		for (uint32_t k = 0; !x->dead && k < x->nsub; k++)
			n += count_nodes(x->sub[k]);
	}
	return n;
}

static void report_rules(struct optimizer *o)
{
	struct opt_report *r = o->report;

	if (!r)
		return;
	r->nrules = o->rules.n;
	r->rule = arena_new_n(&o->model->arena, const char *, o->rules.n + 1);
	r->fired = arena_new_n(&o->model->arena, uint32_t, o->rules.n + 1);
	for (uint32_t i = 0; i < o->rules.n; i++) {
		r->rule[i] = o->rules.rules[i].rule->name;
		r->fired[i] = o->fired[i];
	}
}

int opt_run_report(struct model *m, const struct backend *cpu, const struct run_config *cfg,
		   struct opt_report *report, struct diag *d)
{
	struct optimizer o = {.model = m, .cpu = cpu, .config = cfg, .report = report, .diag = d};
	int r = 0;

	if (cfg->optimize > OPTIMIZE_NONE)
		r = rules_parse(&o.rules, &o.scratch, NULL);
	o.fired = arena_new_n(&o.scratch, uint32_t, o.rules.n + 1);
	if (report)
		report->nodes = count_nodes(m->graph);
	for (int i = 0; r >= 0 && opt_passes[i].name; i++) {
		if (opt_passes[i].level > cfg->optimize)
			continue;
		r = run_pass(&o, &opt_passes[i], m->graph);
		if (report && r >= 0)
			report->done[i] = (struct opt_done){true, r, count_nodes(m->graph)};
	}
	report_rules(&o);
	arena_free(&o.scratch);
	return r < 0 ? r : 0;
}

int opt_run(struct model *m, const struct backend *cpu, const struct run_config *cfg, struct diag *d)
{
	return opt_run_report(m, cpu, cfg, NULL, d);
}
