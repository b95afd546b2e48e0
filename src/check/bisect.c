/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --bisect: the smallest part of the model that still shows a finding. The node that the finding names is where it
 * begins: first each of the file's nodes that it stands for, then several, then with those before it.
 */
#include "base/file.h"
#include "check/check.h"
#include "check/pair.h"
#include "check/part.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NODES = 24, MOST_MORE = 8, LEAK_RUNS = 200, BITS_RUNS = 20 };

struct bisect;
/* Whether a part, run by itself on its inputs, shows what the finding says. */
typedef bool shows(struct bisect *b, const struct part *x);

struct bisect {
	struct check_context *c;
	struct parts parts;
	struct run_config reference; /* whose values go into the part, and which its outputs should be */
	const struct finding *finding;
	shows *shows;
	struct pair sides;	      /* of --compare; configurations only */
	uint32_t node[MOST_NODES], n; /* candidates, ascending */
	const char *tmp;	      /* folder of the tries */
	uint32_t tries;
};

/* ---- running a part by itself ------------------------------------------------------------------ */

/* A context of its own for the part: what is found there is not told. */
static struct check_context alone(struct bisect *b, const struct part *x, struct diag *d)
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

/* Runs it `runs` times; look says after each whether to stop, and is given the outputs. */
struct trial {
	uint32_t runs, run, nout;
	const struct tensor **out;
	bool (*look)(struct trial *);
	void *arg;
	bool found;
	int err;
	enum code code;
};

static void try_part(struct bisect *b, const struct part *x, const struct run_config *config,
		     struct trial *t)
{
	struct diag d = {0};
	struct arena a = {0};
	struct session *s = session_open(x->model, config, &d);

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

/* ---- what shows ------------------------------------------------------------------------------- */

static bool any_nan(struct trial *t)
{
	for (uint32_t k = 0; k < t->nout; k++) {
		struct value_stats s = t->out[k] ? value_stats(t->out[k]) : (struct value_stats){0};
		if (s.nan || s.inf)
			return true;
	}
	return false;
}

static bool finite_inputs(const struct part *x)
{
	for (uint32_t k = 0; k < x->nin; k++) {
		struct value_stats s = value_stats(x->in[k]);
		if (s.nan || s.inf)
			return false;
	}
	return true;
}

static bool shows_nan(struct bisect *b, const struct part *x)
{
	struct trial t = {.runs = 1, .look = any_nan};

	try_part(b, x, b->c->config, &t);
	return t.found && finite_inputs(x);
}

static bool any_flat(struct trial *t)
{
	for (uint32_t k = 0; k < t->nout; k++) {
		struct value_stats s = t->out[k] ? value_stats(t->out[k]) : (struct value_stats){0};
		if (s.count > 1 && (s.zero == s.count || s.constant))
			return true;
	}
	return false;
}

static bool shows_zero(struct bisect *b, const struct part *x)
{
	struct trial t = {.runs = 1, .look = any_flat};

	try_part(b, x, b->c->config, &t);
	return t.found;
}

static bool shows_difference(struct bisect *b, const struct part *x)
{
	struct diag d = {0};
	struct check_context c = alone(b, x, &d);
	struct pair p = b->sides;
	bool found = false;

	p.path = x->model;
	p.ref.session = p.got.session = NULL;
	p.ref.borrowed = p.got.borrowed = false;
	if (!pair_run(&c, &p, x->in)) {
		const struct graph *g = session_model(p.got.session)->graph;
		double limit = pair_limit(&c, &p);
		for (uint32_t k = 0; k < p.noutputs; k++)
			found |= distance_over(&p.outputs[k],
					       (enum dtype)g->value[g->out[k]]->info.type.dtype,
					       limit);
	}
	pair_end(&p);
	arena_free(&c.arena);
	diag_free(&d);
	b->tries++;
	return found;
}

/* Outputs of the first run. */
struct kept {
	struct arena arena;
	const struct tensor **out;
};
static bool other_bits(struct trial *t)
{
	struct kept *kept = t->arg;

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

static bool shows_bits(struct bisect *b, const struct part *x)
{
	struct kept kept = {0};
	struct trial t = {.runs = BITS_RUNS, .look = other_bits, .arg = &kept};

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

/* Bytes after the first runs, at the middle and at the end: both halves must grow. */
struct growth {
	size_t first, middle, last;
};
static bool watch_bytes(struct trial *t)
{
	struct growth *g = t->arg;
	size_t now = bytes_held();

	if (t->run == t->runs / 2)
		g->first = now;
	if (t->run == t->runs * 3 / 4)
		g->middle = now;
	if (t->run + 1 == t->runs)
		g->last = now;
	return false;
}

static bool shows_leak(struct bisect *b, const struct part *x)
{
	struct growth g = {0};
	struct trial t = {.runs = LEAK_RUNS, .look = watch_bytes, .arg = &g};

	try_part(b, x, b->c->config, &t);
	return !t.err && g.middle >= g.first + LEAK_RUNS / 8 && g.last >= g.middle + LEAK_RUNS / 8;
}

static bool shows_failure(struct bisect *b, const struct part *x)
{
	struct trial t = {.runs = 1};

	try_part(b, x, b->c->config, &t);
	return t.err && t.code == b->finding->code;
}

/* ---- which finding ----------------------------------------------------------------------------- */

static const struct {
	enum code code;
	shows *shows;
} kinds[] = {
	{E_COMPARE_NODE, shows_difference},
	{E_OUT_NAN, shows_nan},
	{E_OUT_ZERO, shows_zero},
	{E_OUT_INDEPENDENT, shows_zero},
	{E_DETERMINISM, shows_bits},
	{E_LEAK, shows_leak},
	{E_RUN, shows_failure},
	{E_MEMORY, shows_failure},
	{E_VALUE, shows_failure},
	{E_SHAPE, shows_failure},
	{E_NUM_NAN, shows_nan},
};

static const struct finding *find_code(const struct check_context *c, enum code code)
{
	for (const struct finding *f = c->d->first; f; f = f->next)
		if (f->code == code && f->node && f->severity > SEV_NOTE)
			return f;
	return NULL;
}

static bool choose(struct bisect *b)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		b->finding = find_code(b->c, kinds[i].code);
		b->shows = kinds[i].shows;
		if (b->finding)
			return true;
	}
	return false;
}

/* ---- candidates ------------------------------------------------------------------------------- */

static void add_candidate(struct bisect *b, int64_t i)
{
	uint32_t at = 0;

	if (i < 0 || b->n == MOST_NODES)
		return;
	while (at < b->n && b->node[at] < (uint32_t)i)
		at++;
	if (at < b->n && b->node[at] == (uint32_t)i)
		return;
	memmove(&b->node[at + 1], &b->node[at], (b->n - at) * sizeof(*b->node));
	b->node[at] = (uint32_t)i;
	b->n++;
}

/* The nodes of the file that an origin stands for. */
static void add_leaves(struct bisect *b, const struct origin *o, int depth)
{
	if (!o->nfused || depth > 16)
		add_candidate(b, parts_find(&b->parts, o->name));
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

/* In a body: the node of the model's graph that has it. */
static const struct node *owner(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; !g->node[i]->dead && k < g->node[i]->nsub; k++)
			if (find_origin(g->node[i]->sub[k], name) || owner(g->node[i]->sub[k], name))
				return g->node[i];
	return NULL;
}

static void find_candidates(struct bisect *b)
{
	const struct graph *g = session_model(b->c->session)->graph;
	const struct origin *o = find_origin(g, b->finding->node);
	const struct node *n = o ? NULL : owner(g, b->finding->node);

	if (o)
		add_leaves(b, o, 0);
	else if (n)
		add_leaves(b, n->origin, 0);
	else
		add_candidate(b, parts_find(&b->parts, b->finding->node));
}

/* ---- searching --------------------------------------------------------------------------------- */

static bool try_nodes(struct bisect *b, const uint32_t *node, uint32_t n)
{
	struct part x;
	struct diag *d = b->c->d, quiet = {0};
	struct arena a = {0};
	bool found = false;

	b->c->d = &quiet;
	if (!part_write(&b->parts, node, n,
			path_join(&a, b->tmp, arena_printf(&a, "try%" PRIu32, b->tries)), &x)) {
		b->c->d = d;
		found = b->shows(b, &x);
		part_free(&x);
	}
	b->c->d = d;
	diag_free(&quiet);
	arena_free(&a);
	return found;
}

/* Runs of neighbours among the candidates, shortest first. */
static bool try_leaves(struct bisect *b, uint32_t *node, uint32_t *n)
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

/* The last of the nodes before that makes an input of the candidates. */
static int64_t producer_before(struct bisect *b)
{
	int64_t best = -1;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct onnx_node *x = onnx_file_node(b->parts.file, b->node[i]);
		for (uint32_t k = 0; k < x->nin; k++) {
			int64_t m = map_get(&b->parts.maker_of, x->in[k], strlen(x->in[k]));
			bool inside = false;
			for (uint32_t j = 0; j < b->n; j++)
				inside |= b->node[j] == m;
			if (m > best && !inside &&
			    !onnx_file_node(b->parts.file, (uint32_t)m)->constant)
				best = m;
		}
	}
	return best;
}

/* What shows only in company: with what comes before it, nodes are taken in until it shows. */
static bool search(struct bisect *b, uint32_t *node, uint32_t *n)
{
	struct bisect all;
	int64_t more[MOST_MORE];
	int count = 0;
	bool found = try_leaves(b, node, n);

	if (found)
		return true;
	for (all = *b; count < MOST_MORE && all.n < MOST_NODES; count++) {
		more[count] = producer_before(&all);
		if (more[count] < 0)
			break;
		add_candidate(&all, more[count]);
	}
	/* one run of the whole gives what all of them read */
	if (!count || parts_capture(&b->parts, &b->reference, all.node, all.n))
		return false;
	for (int i = 0; i < count && !found; i++) {
		add_candidate(b, more[i]);
		/* it shows: perhaps it is one of those before by itself */
		found = try_nodes(b, b->node, b->n) && try_leaves(b, node, n);
	}
	return found;
}

/* ---- the end ----------------------------------------------------------------------------------- */

/* What the part's outputs should be. */
static int write_outputs(struct bisect *b, const struct part *x)
{
	struct run_config config = b->reference;
	struct diag d = {0};
	struct arena a = {0};
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

static const char *say_nodes(struct bisect *b, const uint32_t *node, uint32_t n)
{
	const char *text = "";

	for (uint32_t i = 0; i < n; i++) {
		const struct onnx_node *x = onnx_file_node(b->parts.file, node[i]);
		text = fmt(b->c->d, "%s%s'%s' (%s)", text, i ? ", " : "", x->title, x->op);
	}
	return text;
}

static int tell(struct bisect *b, const uint32_t *node, uint32_t n)
{
	struct check_context *c = b->c;
	struct diag_row rows[5];
	size_t k = 0;
	struct part x;

	rows[k++] = (struct diag_row){"nodes", say_nodes(b, node, n)};
	rows[k++] = (struct diag_row){"shows", code_id(b->finding->code, b->finding->severity)};
	check_say(c, "%" PRIu32 " node%s of %" PRIu32, n, n == 1 ? "" : "s",
		  onnx_file_nodes(b->parts.file));
	if (c->options->save) {
		int err = part_write(&b->parts, node, n, c->options->save, &x);
		if (err)
			return err;
		bool outputs = !write_outputs(b, &x);
		rows[k++] = (struct diag_row){"written", fmt(c->d, "%s, %s", x.model, x.data)};
		rows[k++] = (struct diag_row){
			"try", fmt(c->d, "infer %s %s --data-set %s%s%s", outputs ? "check" : "run",
				   x.model, x.data, b->shows == shows_difference ? " --compare " : "",
				   b->shows == shows_difference ? pair_text(c) : "")};
		part_free(&x);
	} else {
		rows[k++] = (struct diag_row){
			"try", "-o DIR to have it written as a model with its inputs"};
	}
	NOTE(c->d, E_BISECT, .node = b->finding->node, .op = b->finding->op, .rows = rows, .nrows = k);
	return 0;
}

static void remove_folder(const char *dir)
{
	/* names of our own making: model.onnx, test_data_set_0/input_K.pb */
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

static int bisect(struct bisect *b)
{
	struct check_context *c = b->c;
	uint32_t node[MOST_NODES], n = 0;
	int err = parts_open(c, &b->parts);

	if (err)
		return err;
	find_candidates(b);
	if (!b->n) {
		check_say(c, "the finding names no node of the file");
		return 0;
	}
	err = parts_capture(&b->parts, &b->reference, b->node, b->n);
	if (err)
		return err;
	if (search(b, node, &n))
		return tell(b, node, n);
	check_say(c, "no part of up to %" PRIu32 " nodes shows %s by itself", b->n,
		  code_id(b->finding->code, b->finding->severity));
	return 0;
}

static int run(struct check_context *c)
{
	struct bisect *b = arena_new(&c->arena, struct bisect);
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(&c->arena, "%s/infer-bisect-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	b->c = c;
	if (!choose(b)) {
		check_say(c, "no finding that a node is to blame for");
		return 0;
	}
	b->reference = *c->config;
	if (b->shows == shows_difference) {
		int err = pair_parse(c, pair_text(c), &b->sides);
		if (err)
			return err;
		b->reference = b->sides.ref.config;
	}
	b->tmp = mkdtemp(dir);
	if (!b->tmp)
		return FAIL(c->d, E_OUTPUT, .slot = dir,
			    .message = "cannot make a folder for the tries");
	int err = bisect(b);
	for (uint32_t i = 0; i <= b->tries; i++)
		remove_folder(path_join(&c->arena, b->tmp, arena_printf(&c->arena, "try%" PRIu32, i)));
	(void)rmdir(b->tmp);
	parts_close(&b->parts);
	return err;
}

static bool applies(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->bisect;
}

const struct check check_bisect = {
	.name = "bisect",
	.what = "the smallest part that still shows a finding",
	.need = NEED_INPUTS,
	.cost = COST_LONG,
	.applies = applies,
	.run = run,
};
