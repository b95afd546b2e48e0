/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

#include <string.h>

const struct opt_pass opt_passes[OPT_PASSES + 1] = {
	{"import", "old versions are upgraded; types and shapes are inferred", pass_import,
	 OPTIMIZE_NONE},
	{"branches", "an If whose condition is a constant gives way to its branch", pass_branches,
	 OPTIMIZE_NONE},
	{"expand", "operators without a kernel are replaced by others", pass_expand, OPTIMIZE_NONE},
	{"fold", "values known before the run become constants", pass_fold, OPTIMIZE_NONE},
	{"cse", "equal nodes and equal constants are merged", pass_cse, OPTIMIZE_BASIC},
	{"simplify", "rules that remove nodes", pass_simplify, OPTIMIZE_BASIC},
	{"fold again", "constants from the rules are folded", pass_fold, OPTIMIZE_BASIC},
	{"quantize", "rules that compute on 8-bit codes", pass_quantize, OPTIMIZE_FULL},
	{"fold codes", "codes that stay are dequantized", pass_fold_codes, OPTIMIZE_FULL},
	{"fuse", "rules that fuse nodes", pass_fuse, OPTIMIZE_BASIC},
	{"fold weights", "scales and biases are folded into weights", pass_fold_weights,
	 OPTIMIZE_BASIC},
	{"infer again", "types and shapes after the rules", pass_infer, OPTIMIZE_BASIC},
	{"fuse again", "rules that need values of folded constants", pass_fuse, OPTIMIZE_BASIC},
	{"fold weights again", "constants of the rules since then are folded", pass_fold_weights,
	 OPTIMIZE_BASIC},
	{"cse again", "equal nodes and equal constants are merged", pass_cse, OPTIMIZE_BASIC},
	{"dce", "unused nodes are removed", pass_dce, OPTIMIZE_NONE},
	{"pointwise", "chains of elementwise nodes are fused", pass_pointwise, OPTIMIZE_FULL},
	{"dce again", "unused nodes are removed", pass_dce, OPTIMIZE_FULL},
	{"precision", "--precision fp16, bf16, fp8: nodes that can use the smaller type",
	 pass_precision, OPTIMIZE_NONE},
	{"float8", "--precision fp8: products by constant matrices", pass_float8, OPTIMIZE_NONE},
	{"dce at last", "unused nodes are removed", pass_dce, OPTIMIZE_NONE},
	{"infer", "types and shapes of the result", pass_infer, OPTIMIZE_NONE},
	{0}};

static int apply_rules(struct optimizer *o, struct graph *g, unsigned kinds)
{
	struct made made = {o, g};
	struct diag quiet = {0}, *loud = o->diag;
	int r;

	/* a rule whose replacement fails is skipped without a finding: it is no fault of the model */
	o->diag = &quiet;
	struct rewriter w = opt_rewriter(&made);
	bool exact = o->config->optimize < OPTIMIZE_FULL && !o->config->compared;
	r = rewrite_graph(&w, &o->rules, kinds, exact, o->fired);
	o->diag = loud;
	diag_free(&quiet);
	return r < 0 ? FAIL(loud, E_INTERNAL, .message = "the rewritten graph cannot be sorted") : r;
}

int pass_simplify(struct optimizer *o, struct graph *g)
{
	return apply_rules(o, g, KIND(SIMPLIFY));
}

int pass_quantize(struct optimizer *o, struct graph *g)
{
	return opt_keeps_codes(o) ? apply_rules(o, g, KIND(SIMPLIFY) | KIND(QUANTIZE)) : 0;
}

int pass_fuse(struct optimizer *o, struct graph *g)
{
	/* a file has no operators of ours, and what they would absorb, such as the Transpose of a weight, is folded for it */
	if (o->config->to_file)
		return 0;
	return apply_rules(o, g, o->config->compared ? KIND(SIMPLIFY) | KIND(RECOGNIZE) : KINDS_RUN);
}

static int pass_alike(struct optimizer *o, struct graph *g)
{
	return apply_rules(o, g, KINDS_ALIKE);
}

/* Passes that bring a model into the normal form of `infer diff`, repeated until nothing changes. */
static const struct opt_pass alike_passes[] = {{"forms", "", pass_forms, 0},
					       {"rules", "", pass_alike, 0},
					       {"fold", "", pass_fold_weights, 0},
					       {"cse", "", pass_cse, 0},
					       {"infer", "", pass_infer, 0},
					       {"dce", "", pass_dce, 0},
					       {0}};
enum { MAX_ROUNDS = 8 };

/* Runs one pass over a graph and then over its bodies, except for the import pass, which imports bodies itself. */
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

static int make_alike(struct optimizer *o)
{
	static const struct opt_pass sizes = {"sizes", "", pass_sizes, 0};
	int r = run_pass(o, &sizes, o->model->graph);

	for (int round = 0, changes = 1; r >= 0 && changes && round < MAX_ROUNDS; round++) {
		changes = 0;
		for (const struct opt_pass *p = alike_passes; r >= 0 && p->name; p++) {
			r = run_pass(o, p, o->model->graph);
			changes += r > 0;
		}
	}
	return r;
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
	int r = cfg->outputs.n ? opt_choose_outputs(m, cfg, d) : 0;

	if (cfg->optimize > OPTIMIZE_NONE)
		o.rules = *rules_all();
	o.fired = arena_new_n(&o.scratch, uint32_t, o.rules.n + 1);
	if (report)
		report->nodes = count_nodes(m->graph);
	for (int i = 0; r >= 0 && opt_passes[i].name; i++) {
		if (opt_passes[i].level > cfg->optimize ||
		    (cfg->types_only && opt_passes[i].run != pass_import))
			continue;
		r = run_pass(&o, &opt_passes[i], m->graph);
		if (report && r >= 0)
			report->done[i] = (struct opt_done){true, r, count_nodes(m->graph)};
	}
	if (r >= 0 && cfg->compared)
		r = make_alike(&o);
	report_rules(&o);
	arena_free(&o.scratch);
	return r < 0 ? r : 0;
}

int opt_run(struct model *m, const struct backend *cpu, const struct run_config *cfg, struct diag *d)
{
	return opt_run_report(m, cpu, cfg, NULL, d);
}
