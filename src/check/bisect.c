/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --bisect: finds the smallest part of the model that still shows a finding when it runs alone. The search starts at
 * the node that the finding names: first it tries each of the file's nodes that were fused into that node, then several
 * of them together, then these with the nodes before them.
 */
#include "base/file.h"
#include "base/str.h"
#include "check/check.h"
#include "check/pair.h"
#include "check/pair_sides.h"
#include "check/path_precision.h"
#include "check/submodel.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_CANDIDATES = 24,  /* nodes of a part */
	MAX_PREDECESSORS = 8, /* nodes added before those that the finding names */
	LEAK_RUNS = 200,      /* runs of a part, to see whether it leaks */
	BITS_RUNS = 20, /* runs of a part, to see whether its outputs differ from run to run */
};

struct bisect;
/* Tells whether a part of the model, run alone on its inputs, shows the fault that the finding reports. */
typedef bool shows(struct bisect *b, const struct submodel *x);

struct bisect {
	struct check_context *c;
	struct extractor extractor;
	/* a run with this configuration provides the part's inputs and expected outputs */
	struct run_config reference;
	const struct finding *finding;
	shows *shows;
	struct pair sides; /* the two configurations of --compare, with neither session run yet */
	uint32_t node[MAX_CANDIDATES], n; /* candidates, ascending */
	const char *tmp;		  /* folder into which the tried parts are written */
	uint32_t tries;
};

/* ---- running a part by itself ------------------------------------------------------------------ */

/*
 * Returns a context for checks of the part. Findings of these checks go to d, so that the user's report does not show
 * them.
 */
static struct check_context make_part_context(struct bisect *b, const struct submodel *x,
					      struct diag *d)
{
	struct check_context c = *b->c;

	c.path = x->model;
	c.d = d;
	c.session = NULL;
	c.file = NULL;
	c.progress = (struct check_progress){0};
	c.arena = (struct arena){0};
	return c;
}

/*
 * Describes repeated runs of a part. There are `runs` runs, or fewer if `look`, which sees the outputs of each run,
 * returns true.
 */
struct trial {
	uint32_t runs;
	uint32_t run; /* number of the current run, from 0 */
	uint32_t nout;
	const struct tensor **out;
	bool (*look)(struct trial *);
	void *arg;
	bool found; /* `look` returned true */
	int err;
	enum code code; /* of the last finding; E_OK: none */
};

static void try_part(struct bisect *b, const struct submodel *x, const struct run_config *config,
		     struct trial *t)
{
	struct diag d = {0};
	struct arena a = {0};
	struct run_config whole = *config;

	whole.outputs.n = 0; /* the part has outputs of its own */
	struct session *s = session_open(x->model, &whole, &d);
	t->err = s ? 0 : -E_INTERNAL;
	if (s) {
		t->nout = session_model(s)->graph->nout;
		t->out = arena_new_n(&a, const struct tensor *, t->nout + 1);
	}
	for (t->run = 0; t->run < t->runs && !t->err && !t->found; t->run++) {
		t->err = session_run(s, x->in, t->out, &d);
		if (!t->err && t->look)
			t->found = t->look(t);
	}
	t->code = d.last ? d.last->code : E_OK;
	session_close(s);
	arena_free(&a);
	diag_free(&d);
	b->tries++;
}

/* ---- whether a part shows the finding --------------------------------------------------------- */

static bool any_nan(struct trial *t)
{
	for (uint32_t k = 0; k < t->nout; k++) {
		struct value_stats s = t->out[k] ? value_stats(t->out[k]) : (struct value_stats){0};
		if (s.nan || s.inf)
			return true;
	}
	return false;
}

static bool finite_inputs(const struct submodel *x)
{
	for (uint32_t k = 0; k < x->nin; k++) {
		struct value_stats s = value_stats(x->in[k]);
		if (s.nan || s.inf)
			return false;
	}
	return true;
}

static bool shows_nan(struct bisect *b, const struct submodel *x)
{
	struct trial t = {.runs = 1, .look = any_nan};

	try_part(b, x, b->c->config, &t);
	return t.found && finite_inputs(x);
}

static bool any_constant(struct trial *t)
{
	for (uint32_t k = 0; k < t->nout; k++) {
		struct value_stats s = t->out[k] ? value_stats(t->out[k]) : (struct value_stats){0};
		if (s.count > 1 && (s.zero == s.count || s.constant))
			return true;
	}
	return false;
}

static bool shows_zero(struct bisect *b, const struct submodel *x)
{
	struct trial t = {.runs = 1, .look = any_constant};

	try_part(b, x, b->c->config, &t);
	return t.found;
}

static bool shows_difference(struct bisect *b, const struct submodel *x)
{
	struct diag d = {0};
	struct check_context c = make_part_context(b, x, &d);
	struct pair p = b->sides;
	bool found = false;

	p.path = x->model;
	p.ref.session = p.got.session = NULL;
	p.ref.borrowed = p.got.borrowed = false;
	if (!pair_run(&c, &p, x->in)) {
		double limit = pair_sides_limit(&c, &p);
		for (uint32_t k = 0; k < p.noutputs; k++)
			found |= pair_sides_output_over(&c, &p.outputs[k], p.output_path[k], limit);
	}
	pair_end(&p);
	arena_free(&c.arena);
	diag_free(&d);
	b->tries++;
	return found;
}

/* Copies of the first run's outputs. */
struct first_outputs {
	struct arena arena;
	const struct tensor **out;
};
static bool outputs_differ(struct trial *t)
{
	struct first_outputs *kept = t->arg;

	if (!t->run)
		kept->out = arena_new_n(&kept->arena, const struct tensor *, t->nout + 1);
	for (uint32_t k = 0; k < t->nout; k++) {
		if (!t->run)
			kept->out[k] = t->out[k] ? tensor_copy(&kept->arena, t->out[k]) : NULL;
		else if (kept->out[k] && t->out[k] && !tensor_same(kept->out[k], t->out[k]))
			return true;
	}
	return false;
}

static bool shows_nondeterminism(struct bisect *b, const struct submodel *x)
{
	struct first_outputs kept = {0};
	struct trial t = {.runs = BITS_RUNS, .look = outputs_differ, .arg = &kept};

	try_part(b, x, b->c->config, &t);
	arena_free(&kept.arena);
	return t.found;
}

static size_t bytes_held(void)
{
	struct mallinfo2 m = mallinfo2();
	size_t sum = m.uordblks + m.hblkhd;

	for (int i = 0; i < MEM_PURPOSES; i++)
		sum += mem_count(MEM_DEVICE, (enum mem_purpose)i).live;
	return sum;
}

/*
 * The number of bytes in use after half, three quarters and all of the runs. The first half fills caches; a leak must
 * show in both quarters after it.
 */
struct leak_samples {
	size_t first, middle, last;
};
static bool sample_bytes(struct trial *t)
{
	struct leak_samples *g = t->arg;
	size_t now = bytes_held();

	if (t->run == t->runs / 2)
		g->first = now;
	if (t->run == t->runs * 3 / 4)
		g->middle = now;
	if (t->run + 1 == t->runs)
		g->last = now;
	return false;
}

static bool shows_leak(struct bisect *b, const struct submodel *x)
{
	struct leak_samples g = {0};
	struct trial t = {.runs = LEAK_RUNS, .look = sample_bytes, .arg = &g};

	try_part(b, x, b->c->config, &t);
	return !t.err && g.middle >= g.first + LEAK_RUNS / 8 && g.last >= g.middle + LEAK_RUNS / 8;
}

static bool shows_failure(struct bisect *b, const struct submodel *x)
{
	struct trial t = {.runs = 1};

	try_part(b, x, b->c->config, &t);
	return t.err && t.code == b->finding->code;
}

/* ---- choosing the finding ---------------------------------------------------------------------- */

/* Findings whose node can be searched for. The first finding of this list that occurs is taken. */
static const struct {
	enum code code;
	shows *shows;
} searchable[] = {
	{E_COMPARE_NODE, shows_difference},
	{E_OUT_NAN, shows_nan},
	{E_OUT_ZERO, shows_zero},
	{E_OUT_INDEPENDENT, shows_zero},
	{E_DETERMINISM, shows_nondeterminism},
	{E_LEAK, shows_leak},
	{E_RUN, shows_failure},
	{E_MEMORY, shows_failure},
	{E_VALUE, shows_failure},
	{E_SHAPE, shows_failure},
	{E_NUM_NAN, shows_nan},
};

static const struct finding *find_finding(const struct check_context *c, enum code code)
{
	for (const struct finding *f = c->d->first; f; f = f->next)
		if (f->code == code && f->node && f->severity > SEV_NOTE)
			return f;
	return NULL;
}

static bool choose_finding(struct bisect *b)
{
	for (size_t i = 0; i < sizeof(searchable) / sizeof(*searchable); i++) {
		b->finding = find_finding(b->c, searchable[i].code);
		b->shows = searchable[i].shows;
		if (b->finding)
			return true;
	}
	return false;
}

/* ---- candidates ------------------------------------------------------------------------------- */

static void add_candidate(struct bisect *b, int64_t i)
{
	uint32_t at = 0;

	if (i < 0 || b->n == MAX_CANDIDATES)
		return;
	while (at < b->n && b->node[at] < (uint32_t)i)
		at++;
	if (at < b->n && b->node[at] == (uint32_t)i)
		return;
	memmove(&b->node[at + 1], &b->node[at], (b->n - at) * sizeof(*b->node));
	b->node[at] = (uint32_t)i;
	b->n++;
}

/* Adds the node of the file that has this name or, as names need not be unique, each of them. */
static void add_named(struct bisect *b, const char *name)
{
	const struct onnx_file *f = b->extractor.file;
	int64_t at = extractor_find_node(&b->extractor, name);
	const char *title = at < 0 ? "" : onnx_file_node(f, (uint32_t)at)->title;

	for (uint32_t i = 0; at >= 0 && i < onnx_file_nodes(f); i++)
		if (!strcmp(onnx_file_node(f, i)->title, title))
			add_candidate(b, i);
}

/* Adds the nodes of the file that were fused into this origin, or the origin itself. */
static void add_leaves(struct bisect *b, const struct origin *o, int depth)
{
	if (!o->nfused || depth > 16)
		add_named(b, o->name);
	for (uint32_t i = 0; i < o->nfused && depth <= 16; i++)
		add_leaves(b, o->fused[i], depth + 1);
}

static const struct origin *find_origin(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (!g->node[i]->dead && !strcmp(g->node[i]->origin->name, name))
			return g->node[i]->origin;
	return NULL;
}

/* Finds the node of graph g that has, in one of its bodies, a node of this name. Returns NULL if there is none. */
static const struct node *find_node_with_body(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; !g->node[i]->dead && k < g->node[i]->nsub; k++)
			if (find_origin(g->node[i]->sub[k], name) ||
			    find_node_with_body(g->node[i]->sub[k], name))
				return g->node[i];
	return NULL;
}

static void find_candidates(struct bisect *b)
{
	const struct graph *g = session_model(b->c->session)->graph;
	const struct origin *o = find_origin(g, b->finding->node);
	const struct node *n = o ? NULL : find_node_with_body(g, b->finding->node);

	if (o)
		add_leaves(b, o, 0);
	else if (n)
		add_leaves(b, n->origin, 0);
	else
		add_named(b, b->finding->node);
}

/* ---- searching --------------------------------------------------------------------------------- */

static bool try_nodes(struct bisect *b, const uint32_t *node, uint32_t n)
{
	struct submodel x;
	struct diag *d = b->c->d, quiet = {0};
	struct arena a = {0};
	bool found = false;

	b->c->d = &quiet;
	if (!submodel_write(&b->extractor, node, n,
			    path_join(&a, b->tmp, arena_printf(&a, "try%" PRIu32, b->tries)), &x)) {
		b->c->d = d;
		found = b->shows(b, &x);
		submodel_free(&x);
	}
	b->c->d = d;
	diag_free(&quiet);
	arena_free(&a);
	return found;
}

/*
 * Tries all contiguous sequences of candidates, the shortest first. Returns true if a sequence shows the finding;
 * node[] then has this sequence.
 */
static bool try_contiguous(struct bisect *b, uint32_t *node, uint32_t *n)
{
	for (uint32_t length = 1; length <= b->n; length++) {
		for (uint32_t from = 0; from + length <= b->n; from++) {
			if (!try_nodes(b, b->node + from, length))
				continue;
			memcpy(node, b->node + from, length * sizeof(*node));
			*n = length;
			return true;
		}
	}
	return false;
}

/*
 * Returns the position of the last node that is no candidate and makes an input of a candidate, or -1 if there is
 * none.
 */
static int64_t producer_before(struct bisect *b)
{
	int64_t best = -1;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct onnx_node *x = onnx_file_node(b->extractor.file, b->node[i]);
		for (uint32_t k = 0; k < x->nin; k++) {
			int64_t m = map_get(&b->extractor.maker_of, x->in[k], strlen(x->in[k]));
			bool inside = false;
			for (uint32_t j = 0; j < b->n; j++)
				inside |= b->node[j] == m;
			if (m > best && !inside &&
			    !onnx_file_node(b->extractor.file, (uint32_t)m)->constant)
				best = m;
		}
	}
	return best;
}

/*
 * Finds the smallest part that shows the finding. If no sequence of candidates does, adds the node before them, one
 * at a time: some faults need a predecessor, such as a kernel that reads memory that the last kernel has left behind.
 */
static bool find_smallest_part(struct bisect *b, uint32_t *node, uint32_t *n)
{
	struct bisect all;
	int64_t more[MAX_PREDECESSORS];
	int count = 0;
	bool found = try_contiguous(b, node, n);

	if (found)
		return true;
	for (all = *b; count < MAX_PREDECESSORS && all.n < MAX_CANDIDATES; count++) {
		more[count] = producer_before(&all);
		if (more[count] < 0)
			break;
		add_candidate(&all, more[count]);
	}
	/* one run of the model captures the inputs of all nodes that may be added */
	if (!count || extractor_run(&b->extractor, &b->reference, all.node, all.n))
		return false;
	for (int i = 0; i < count && !found; i++) {
		add_candidate(b, more[i]);
		/* if all candidates together show the finding, perhaps fewer of them are enough */
		found = try_nodes(b, b->node, b->n) && try_contiguous(b, node, n);
	}
	return found;
}

/* ---- reporting --------------------------------------------------------------------------------- */

/* Writes the outputs of the reference configuration as the part's expected outputs. */
static int write_outputs(struct bisect *b, const struct submodel *x)
{
	struct run_config config = b->reference;
	struct diag d = {0};
	struct arena a = {0};

	config.outputs.n = 0; /* the part has outputs of its own */
	struct session *s = session_open(x->model, &config, &d);
	int err = s ? 0 : -E_INTERNAL;

	if (s) {
		const struct graph *g = session_model(s)->graph;
		const struct tensor **out = arena_new_n(&a, const struct tensor *, g->nout + 1);
		err = session_run(s, x->in, out, &d);
		for (uint32_t k = 0; k < g->nout && !err; k++)
			if (out[k])
				err = tensor_pb_write(
					path_join(&a, x->data,
						  arena_printf(&a, "output_%" PRIu32 ".pb", k)),
					out[k], g->out_name[k], &d);
	}
	session_close(s);
	arena_free(&a);
	diag_free(&d);
	return err;
}

static const char *list_nodes(struct bisect *b, const uint32_t *node, uint32_t n)
{
	const char *text = "";

	for (uint32_t i = 0; i < n; i++) {
		const struct onnx_node *x = onnx_file_node(b->extractor.file, node[i]);
		text = fmt(b->c->d, "%s%s'%s' (%s)", text, i ? ", " : "", x->title, x->op);
	}
	return text;
}

static int report_part(struct bisect *b, const uint32_t *node, uint32_t n)
{
	struct check_context *c = b->c;
	struct diag_row rows[5];
	size_t k = 0;
	struct submodel x;

	rows[k++] = (struct diag_row){"nodes", list_nodes(b, node, n)};
	rows[k++] = (struct diag_row){"shows", code_id(b->finding->code, b->finding->severity)};
	check_say(c, "%" PRIu32 " node%s of %" PRIu32, n, n == 1 ? "" : "s",
		  onnx_file_nodes(b->extractor.file));
	if (c->options->save) {
		int err = submodel_write(&b->extractor, node, n, c->options->save, &x);
		if (err)
			return err;
		/* NaN and zeros that are the fault are not what to expect */
		bool wrong = b->shows == shows_nan || b->shows == shows_zero;
		bool judged = wrong || !write_outputs(b, &x);
		rows[k++] = (struct diag_row){"written", fmt(c->d, "%s, %s", x.model, x.data)};
		rows[k++] = (struct diag_row){
			"try", fmt(c->d, "infer %s %s --data-set %s%s%s", judged ? "check" : "run",
				   x.model, x.data, b->shows == shows_difference ? " --compare " : "",
				   b->shows == shows_difference ? pair_sides_text(c) : "")};
		submodel_free(&x);
	} else {
		rows[k++] = (struct diag_row){
			"try", "-o DIR to write this part as a model with its inputs"};
	}
	NOTE(c->d, E_BISECT, .node = b->finding->node, .op = b->finding->op, .rows = rows, .nrows = k);
	return 0;
}

static void remove_part(const char *dir)
{
	/* removes only files that submodel_write creates: model.onnx and test_data_set_0/input_K.pb */
	struct arena a = {0};
	const char *data = path_join(&a, dir, "test_data_set_0");

	(void)unlink(path_join(&a, dir, "model.onnx"));
	for (uint32_t k = 0; k < 4096; k++)
		if (unlink(path_join(&a, data, arena_printf(&a, "input_%" PRIu32 ".pb", k))))
			break;
	(void)rmdir(data);
	(void)rmdir(dir);
	arena_free(&a);
}

static int search_and_report(struct bisect *b)
{
	struct check_context *c = b->c;
	uint32_t node[MAX_CANDIDATES], n = 0;
	int err = extractor_open(c, &b->extractor);

	if (err)
		return err;
	find_candidates(b);
	if (!b->n) {
		check_say(c, "the finding names no node of the file");
		return 0;
	}
	err = extractor_run(&b->extractor, &b->reference, b->node, b->n);
	if (err)
		return err;
	if (find_smallest_part(b, node, &n))
		return report_part(b, node, n);
	check_say(c, "no part of up to %s shows %s when it runs alone",
		  str_many(&c->arena, b->n, "node"), code_id(b->finding->code, b->finding->severity));
	return 0;
}

static int run_bisect(struct check_context *c)
{
	struct bisect *b = arena_new(&c->arena, struct bisect);
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(&c->arena, "%s/infer-bisect-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	b->c = c;
	if (!choose_finding(b)) {
		check_say(c, "no finding names a node to start from");
		return 0;
	}
	b->reference = *c->config;
	if (b->shows == shows_difference) {
		int err = pair_sides_parse(c, pair_sides_text(c), &b->sides);
		if (err)
			return err;
		b->reference = b->sides.ref.config;
	}
	b->tmp = mkdtemp(dir);
	if (!b->tmp)
		return FAIL(c->d, E_OUTPUT, .slot = dir,
			    .message = "cannot create a temporary folder for the parts to try");
	int err = search_and_report(b);
	for (uint32_t i = 0; i <= b->tries; i++)
		remove_part(path_join(&c->arena, b->tmp, arena_printf(&c->arena, "try%" PRIu32, i)));
	(void)rmdir(b->tmp);
	extractor_close(&b->extractor);
	return err;
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->bisect;
}

const struct check check_bisect = {
	.name = "bisect",
	.what = "the smallest part that still shows a finding",
	.need = NEED_INPUTS,
	.cost = COST_LONG,
	.applies = is_requested,
	.run = run_bisect,
};
