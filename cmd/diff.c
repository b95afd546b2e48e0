/* SPDX-License-Identifier: Apache-2.0 */
/* infer diff: says what differs between two models. */
#include "diff/diff.h"

#include "base/file.h"
#include "base/str.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"
#include "onnx/load.h"
#include "output/html.h"
#include "session/session.h"

#include <inttypes.h>
#include <string.h>

/* Number of nodes up to which a page lists all of them, and not only those that differ. */
enum { PAGE_NODES = 5000 };

struct view {
	struct options *o;
	const struct model *model[2];
	/* the same models in normal form, if they are not the same as they stand in the files */
	struct session *session[2];
	bool normal;	 /* `report` is about the normal forms */
	size_t reworded; /* differences of the files that leave what is computed */
	const struct diff_report *report;
	bool ignored[DIFF_KINDS];
	size_t shown; /* differences that are not ignored */
	struct arena arena;
};

static const char *either(const char *s)
{
	return s ? s : "-";
}

/* ---- options */

static bool ignore_one(struct view *x, const char *word, size_t n)
{
	for (int k = 0; k < DIFF_KINDS; k++) {
		const char *name = diff_kind_name((enum diff_kind)k);
		if (strlen(name) == n && !memcmp(name, word, n)) {
			x->ignored[k] = true;
			return true;
		}
	}
	return false;
}

static int read_ignored(struct view *x, struct diag *d)
{
	const char *names[DIFF_KINDS];

	for (int k = 0; k < DIFF_KINDS; k++)
		names[k] = diff_kind_name((enum diff_kind)k);
	for (int64_t i = 0; i < x->o->ignore.n; i++)
		for (const char *s = x->o->ignore.v[i].s; *s;) {
			size_t n = strcspn(s, ",");
			if (!ignore_one(x, s, n)) {
				const char *word = fmt(d, "%.*s", (int)n, s);
				const char *near = str_nearest(word, names, DIFF_KINDS);
				return options_fail(
					x->o, "ignore",
					fmt(d, "there is no kind of differences '%s'", word),
					near ? fmt(d, "did you mean '%s'?", near)
					     : "the kinds are interface, operators, attributes, "
					       "weights, opsets, metadata",
					d);
			}
			s += n + (s[n] == ',');
		}
	return 0;
}

/* ---- text */

static void print_item(struct view *x, const struct diff_item *i, FILE *f)
{
	const char *far = diff_far_text(i, &x->arena);

	fprintf(f, "  %s", tame_word(&x->arena, i->what));
	if (i->where[0] && i->where[1] && !strcmp(i->where[0], i->where[1]))
		fprintf(f, "  at %s", tame_word(&x->arena, i->where[0]));
	else if (i->where[0] || i->where[1])
		fprintf(f, "  at %s | %s", tame_word(&x->arena, either(i->where[0])),
			tame_word(&x->arena, either(i->where[1])));
	fputc('\n', f);
	if (i->value[0] && i->value[1] && !strcmp(i->value[0], i->value[1])) {
		fprintf(f, "    %s\n", tame_word(&x->arena, i->value[0]));
	} else {
		if (i->value[0])
			fprintf(f, "    < %s\n", tame_word(&x->arena, i->value[0]));
		if (i->value[1])
			fprintf(f, "    > %s\n", tame_word(&x->arena, i->value[1]));
	}
	if (*far)
		fprintf(f, "    %s\n", far);
}

static void print_summary(struct view *x, FILE *f)
{
	const struct diff_report *r = x->report;
	struct arena *a = &x->arena;

	fprintf(f, "%s: %s of %s and %s correspond%s, %s compared\n",
		x->shown ? "the models differ" : "no difference", str_many(a, r->pairs, "node"),
		str_count(a, r->nodes[0]), str_count(a, r->nodes[1]),
		x->normal ? " in normal form" : "", str_many(a, r->weights, "weight"));
	if (r->rounded)
		fprintf(f, "  %s equal within rounding, %.2g at most\n",
			str_many(a, r->rounded, "weight"), r->rounding);
	if (x->reworded)
		fprintf(f,
			"  written in other words in %s, which change nothing of what is computed (--exact tells them)\n",
			str_many(a, x->reworded, "place"));
	for (int k = 0; k < DIFF_KINDS; k++)
		if (r->count[k])
			fprintf(f, "  %-10s  %s%s\n", diff_kind_name((enum diff_kind)k),
				str_many(a, r->count[k], "difference"),
				x->ignored[k] ? ", ignored" : "");
}

static void print_report(struct view *x)
{
	const struct diff_report *r = x->report;
	int kind = -1;
	FILE *f = listing_begin(stdout);

	if (x->shown)
		fprintf(f, "< %s\n> %s\n", tame_word(&x->arena, x->model[0]->path),
			tame_word(&x->arena, x->model[1]->path));
	for (size_t i = 0; i < r->nitems; i++) {
		if (x->ignored[r->item[i].kind])
			continue;
		if (kind != (int)r->item[i].kind)
			fprintf(f, "%s\n", diff_kind_name(r->item[i].kind));
		kind = (int)r->item[i].kind;
		print_item(x, &r->item[i], f);
	}
	print_summary(x, f);
	listing_end(f);
}

/* ---- JSON */

static void json_item(struct json *j, const struct diff_item *i)
{
	json_object(j, NULL);
	json_string(j, "kind", diff_kind_name(i->kind));
	json_string(j, "what", i->what);
	json_string(j, "where_a", i->where[0]);
	json_string(j, "where_b", i->where[1]);
	json_string(j, "a", i->value[0]);
	json_string(j, "b", i->value[1]);
	if (i->measured) {
		json_object(j, "far");
		json_int(j, "elements", i->far.count);
		json_int(j, "differ", i->elements);
		json_number(j, "max_abs", i->far.max_abs);
		json_number(j, "max_a", i->far.max_want);
		json_number(j, "relative", difference_l2(&i->far));
		json_number(j, "cosine_distance", difference_cosine(&i->far));
		json_int(j, "worst", i->far.worst);
		json_int(j, "first", i->far.first);
		json_end(j, '}');
	}
	json_end(j, '}');
}

static void print_json(struct view *x, const struct diag *d)
{
	const struct diff_report *r = x->report;
	struct json j;

	json_envelope_begin(&j, x->o, d);
	json_string(&j, "a", x->model[0]->path);
	json_string(&j, "b", x->model[1]->path);
	json_bool(&j, "same", !x->shown);
	json_uint(&j, "nodes_a", r->nodes[0]);
	json_uint(&j, "nodes_b", r->nodes[1]);
	json_uint(&j, "nodes_matched", r->pairs);
	json_uint(&j, "weights_compared", r->weights);
	json_uint(&j, "weights_rounded", r->rounded);
	json_number(&j, "rounding", r->rounding);
	json_bool(&j, "normal_form", x->normal);
	json_uint(&j, "reworded", x->reworded);
	json_object(&j, "counts");
	for (int k = 0; k < DIFF_KINDS; k++)
		json_uint(&j, diff_kind_name((enum diff_kind)k), r->count[k]);
	json_end(&j, '}');
	json_array(&j, "ignored");
	for (int k = 0; k < DIFF_KINDS; k++)
		if (x->ignored[k])
			json_string(&j, NULL, diff_kind_name((enum diff_kind)k));
	json_end(&j, ']');
	json_array(&j, "differences");
	for (size_t i = 0; i < r->nitems; i++)
		if (!x->ignored[r->item[i].kind])
			json_item(&j, &r->item[i]);
	json_end(&j, ']');
	json_envelope_end(&j, d);
}

/* ---- page */

static void page_items(struct view *x, struct page *p)
{
	static const char *const heads[] = {"what", "place in A", "place in B", "A",
					    "B",    "how far",	  NULL};
	const struct diff_report *r = x->report;

	for (int k = 0; k < DIFF_KINDS; k++) {
		if (!r->count[k] || x->ignored[k])
			continue;
		page_section(p, diff_kind_name((enum diff_kind)k), NULL);
		page_table(p, heads, "tttttt");
		for (size_t n = 0; n < r->nitems; n++) {
			const struct diff_item *i = &r->item[n];
			if (i->kind != (enum diff_kind)k)
				continue;
			page_cell(p, i->what);
			for (int side = 0; side < 2; side++)
				page_cell(p, i->where[side] ? i->where[side] : "");
			for (int side = 0; side < 2; side++)
				page_cell(p, i->value[side] ? i->value[side] : "");
			page_cell(p, diff_far_text(i, &x->arena));
		}
		page_table_end(p);
	}
}

struct nodes_page {
	struct view *x;
	struct page *p;
	const bool *differs[2];
	bool all;
};

static const char *node_text(struct view *x, int side, uint32_t i)
{
	const struct match_node *n = &x->report->match->side[side].node[i];

	return arena_printf(&x->arena, "%s  %s", match_operator(n, &x->arena), n->node->origin->name);
}

static void page_row(struct nodes_page *v, uint32_t a, uint32_t b)
{
	bool alone = a == NO_MATCH || b == NO_MATCH;
	bool differs = a != NO_MATCH ? v->differs[0][a] : v->differs[1][b];

	if (!differs && !v->all)
		return;
	page_cell(v->p, a == NO_MATCH ? "" : node_text(v->x, 0, a));
	page_cell(v->p, b == NO_MATCH ? "" : node_text(v->x, 1, b));
	page_state(v->p,
		   !differs ? PAGE_PASSED
		   : alone  ? PAGE_FAILED
			    : PAGE_WARNED,
		   !differs ? (alone ? "computed twice" : "same")
		   : alone  ? (a == NO_MATCH ? "added" : "removed")
			    : "differs");
}

/* Lists the nodes of A in order, each beside its partner, and those of B alone where they stand in B. */
static void page_nodes(struct view *x, struct page *p)
{
	static const char *const heads[] = {"A", "B", "", NULL};
	const struct match_side *a = &x->report->match->side[0], *b = &x->report->match->side[1];
	bool *differs[2] = {arena_new_n(&x->arena, bool, (size_t)a->nnodes + 1),
			    arena_new_n(&x->arena, bool, (size_t)b->nnodes + 1)};
	struct nodes_page v = {x, p, {differs[0], differs[1]}, a->nnodes + b->nnodes <= 2 * PAGE_NODES};
	uint32_t next = 0;

	for (size_t i = 0; i < x->report->nitems; i++)
		for (int side = 0; side < 2; side++)
			if (!x->ignored[x->report->item[i].kind] &&
			    x->report->item[i].node[side] != NO_MATCH)
				differs[side][x->report->item[i].node[side]] = true;
	page_section(p, "Nodes side by side",
		     v.all ? "Nodes that no output needs are left out."
			   : "Only nodes that differ, because the models have so many.");
	page_table(p, heads, "ttl");
	for (uint32_t i = 0; i <= a->nnodes; i++) {
		uint32_t partner = i < a->nnodes ? a->node[i].partner : b->nnodes;
		if (partner == NO_MATCH && a->node[i].live)
			page_row(&v, i, NO_MATCH);
		for (; partner != NO_MATCH && next < partner; next++)
			if (b->node[next].live && b->node[next].partner == NO_MATCH)
				page_row(&v, NO_MATCH, next);
		if (partner != NO_MATCH && i < a->nnodes)
			page_row(&v, i, partner);
	}
	page_table_end(p);
}

static int write_page(struct view *x, struct diag *d)
{
	const struct diff_report *r = x->report;
	struct arena *a = &x->arena;
	struct page p;

	page_begin(&p, a, "infer diff", NULL);
	page_fact(&p, "A", x->model[0]->path);
	page_fact(&p, "B", x->model[1]->path);
	page_tile(&p, "nodes that correspond", str_count(a, r->pairs),
		  arena_printf(a, "of %s and %s", str_count(a, r->nodes[0]),
			       str_count(a, r->nodes[1])));
	for (int k = 0; k < DIFF_KINDS; k++)
		page_tile(&p, diff_kind_name((enum diff_kind)k), str_count(a, (int64_t)r->count[k]),
			  x->ignored[k] ? "ignored" : "differences");
	if (!x->shown) {
		page_section(&p, "Differences", NULL);
		page_good(&p, "The models are the same.");
	}
	page_items(x, &p);
	page_nodes(x, &p);
	page_origin(&p, x->o, a);
	return page_save(&p, x->o->html, d);
}

/* ---- the command */

/* Lists "NAME=SIZE" for each free dimension of an input that has a size in the other model. */
static struct texts sizes_of_other(struct view *x, int side)
{
	const struct match *m = x->report->match;
	const struct graph *g = x->model[side]->graph, *h = x->model[!side]->graph;
	struct text *v = arena_new_n(&x->arena, struct text, (size_t)g->nin * MAX_RANK + 1);
	struct texts sizes = {v, 0};

	for (uint32_t i = 0; i < g->nin; i++) {
		uint32_t p = m->side[side].in_partner[i];
		const struct value *in = g->value[g->in[i]], *other;
		if (p == NO_MATCH)
			continue;
		other = h->value[h->in[p]];
		for (int k = 0; k < in->info.shape.rank && k < other->info.shape.rank; k++) {
			if (in->info.shape.dim[k] >= 0 || other->info.shape.dim[k] < 0)
				continue;
			const char *s = arena_printf(&x->arena, "%s=%" PRId64,
						     input_dim_name(x->model[side], in, k, &x->arena),
						     other->info.shape.dim[k]);
			v[sizes.n++] = (struct text){s, strlen(s)};
		}
	}
	return sizes;
}

/*
 * Compares the normal forms of the models, and takes what differs between them if that is less than between the files. A planted
 * edit may be told with fewer words by the files, and models that this build cannot optimize have no normal form.
 */
static void compare_normal_forms(struct view *x)
{
	struct run_config config = x->o->config;
	struct diag quiet = {0};
	const struct model *m[2] = {NULL, NULL};

	config.optimize = OPTIMIZE_BASIC;
	config.device = "cpu";
	config.compared = true;
	for (int side = 0; side < 2; side++) {
		config.fixed_dims = sizes_of_other(x, side);
		x->session[side] = session_open(x->o->operand[side], &config, &quiet);
		m[side] = x->session[side] ? session_model(x->session[side]) : NULL;
	}
	diag_free(&quiet);
	if (!m[0] || !m[1])
		return;
	struct diff_report *r = diff_models(m[0], m[1], DIFF_ROUNDING, &x->arena);
	if (diff_within(r) >= diff_within(x->report))
		return;
	x->reworded = diff_within(r) ? 0 : diff_within(x->report);
	diff_take_heads(r, x->report);
	x->report = r;
	x->normal = true;
}

static int compare(struct view *x, struct diag *d)
{
	const struct load_options load = {.external_root = x->o->config.external_root};
	int rc = read_ignored(x, d);

	if (!rc && x->o->exact && x->o->simplify)
		rc = FAIL(d, E_USAGE, .message = "--exact and --simplify are opposites");
	for (int side = 0; !rc && side < 2; side++) {
		x->model[side] = onnx_load(x->o->operand[side], &load, d);
		if (!x->model[side])
			rc = d->last ? -(int)d->last->code : -E_MODEL_OPEN;
		if (rc == -E_MODEL_FORMAT && str_starts(path_ext(x->o->operand[side]), ".np"))
			d->last->hint =
				fmt(d,
				    "infer diff compares models; infer check MODEL FILE --expect %s --atol 1e-3 compares an "
				    "output with a file",
				    x->o->operand[0]);
	}
	if (rc)
		return rc;
	x->report = diff_models(x->model[0], x->model[1], DIFF_EXACT, &x->arena);
	if (!x->o->exact && diff_within(x->report))
		compare_normal_forms(x);
	for (int k = 0; k < DIFF_KINDS; k++)
		x->shown += x->ignored[k] ? 0 : x->report->count[k];
	x->o->status = x->shown != 0;
	if (x->o->html)
		rc = write_page(x, d);
	if (rc)
		return rc;
	if (x->o->json)
		print_json(x, d);
	else if (!x->o->quiet)
		print_report(x);
	return 0;
}

int cmd_diff(struct options *o, struct diag *d)
{
	struct view x = {.o = o};
	int rc = compare(&x, d);

	if (rc) { /* as diff(1) has it; the finding still says what kind of trouble it is */
		o->status = 2;
		o->status_stands = true;
	}
	for (int side = 0; side < 2; side++) {
		onnx_unload((struct model *)(uintptr_t)x.model[side]);
		session_close(x.session[side]);
	}
	arena_free(&x.arena);
	return rc;
}
