/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the model file itself: the versions in its header, unused domains, its size. Damage inside the file is
 * reported when it is opened.
 */
#include "check/check.h"
#include "base/str.h"
#include "ops/op.h"
#include "session/model_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Returns the IR version that was released with an opset of ai.onnx (table "Released Versions" of ONNX's
 * docs/Versioning.md).
 */
static int64_t ir_of_opset(int64_t opset)
{
	static const struct {
		int64_t opset, ir;
	} table[] = {{1, 3},  {9, 4},	{10, 5},  {11, 6},  {12, 7}, {15, 8},
		     {19, 9}, {21, 10}, {23, 11}, {24, 12}, {25, 13}};
	int64_t ir = 3;

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (opset >= table[i].opset)
			ir = table[i].ir;
	return ir;
}

static const char *domain_name(const char *domain)
{
	return *domain ? domain : "ai.onnx";
}

static void report_opsets(struct check_context *c)
{
	const struct model *m = c->file;
	struct diag *d = c->d;

	for (size_t i = 0; i < m->nopsets; i++) {
		const struct opset *o = &m->opsets[i];
		for (size_t k = 0; k < i; k++)
			if (!strcmp(m->opsets[k].domain, o->domain))
				WARN(d, E_MODEL_OPSET,
				     .slot = fmt(d, "opset of '%s'", domain_name(o->domain)),
				     .message = fmt(d, "imported twice, as %" PRId64 " and %" PRId64,
						    m->opsets[k].version, o->version),
				     .hint = "keep one opset_import entry per domain");
		if (!*o->domain && m->ir_version < ir_of_opset(o->version))
			NOTE(d, E_MODEL_OPSET, .slot = "IR version",
			     .message = fmt(d,
					    "opset %" PRId64 " came with IR version %" PRId64
					    ", the model says %" PRId64,
					    o->version, ir_of_opset(o->version), m->ir_version),
			     .hint = fmt(d, "model.ir_version = %" PRId64, ir_of_opset(o->version)));
	}
}

struct removed {
	const struct op *op; /* the operator's newest row; NULL without any */
	const struct node *first;
	size_t n;
};

static void find_removed(const struct graph *g, const struct node *n, void *arg)
{
	struct removed *x = arg;
	const struct op *op = n->type ? op_newest(n->domain, n->type) : NULL;

	(void)g;
	if (!op || !op->removed || n->version < op->removed || (x->op && x->op != op))
		return;
	x->op = op;
	if (!x->n++)
		x->first = n;
}

/* Operators that are not in the imported opset any more run here, but ONNX's checker and ONNX Runtime refuse them. */
static void report_removed_operators(struct check_context *c)
{
	struct removed x = {NULL, NULL, 0};
	struct diag *d = c->d;

	graph_each_node(c->file->graph, find_removed, &x);
	if (x.op)
		WARN(d, E_MODEL_OPSET, .node = check_node(x.first), .op = x.first->type,
		     .message = fmt(d,
				    "opset %d has no %s any more, and the model imports opset %d: ONNX Runtime "
				    "refuses such a model%s",
				    x.op->removed, x.op->name, x.first->version,
				    x.n > 1 ? fmt(d, " (%zu nodes)", x.n) : ""),
		     .hint = fmt(d, "replace it by %s, or import opset %d", x.op->successor,
				 x.op->removed - 1));
}

struct foreign {
	const struct node *first;
	size_t n;
};

static void find_foreign(const struct graph *g, const struct node *n, void *arg)
{
	struct foreign *x = arg;

	(void)g;
	if (!n->foreign)
		return;
	if (!x->n++)
		x->first = n;
}

/*
 * "an opset from 13 on" for the versions "13-" of an operator. Its versions are numbers of opsets, so that the text holds for the
 * opset, too.
 */
static const char *opsets_text(struct diag *d, const char *versions)
{
	char *end;
	long first = strtol(versions, &end, 10), last = *end == '-' ? strtol(end + 1, NULL, 10) : 0;

	if (first < 0)
		return fmt(d, "opset %ld or earlier", -first);
	return last ? fmt(d, "an opset from %ld to %ld", first, last)
		    : fmt(d, "opset %ld or later", first);
}

/* Attributes that the operator has in other versions only are read all the same, but ONNX Runtime refuses them. */
static void report_foreign_attributes(struct check_context *c)
{
	struct foreign x = {NULL, 0};
	struct diag *d = c->d;

	graph_each_node(c->file->graph, find_foreign, &x);
	if (!x.first)
		return;
	const struct node *n = x.first;
	WARN(d, E_MODEL_OPSET, .node = check_node(n), .op = n->type,
	     .message = fmt(d, "opset %d has %s-%d, which has no %s: ONNX Runtime refuses such a model%s",
			    n->version, n->type, n->op->since, n->foreign->what,
			    x.n > 1 ? fmt(d, " (%zu nodes)", x.n) : ""),
	     .hint = fmt(d, "import %s, which has it", opsets_text(d, n->foreign->versions)));
}

struct domains {
	const struct model *m;
	bool *used;
};

static void mark_used_domain(const struct graph *g, const struct node *n, void *arg)
{
	struct domains *x = arg;

	(void)g;
	for (size_t i = 0; i < x->m->nopsets; i++)
		x->used[i] |= !strcmp(x->m->opsets[i].domain, n->domain ? n->domain : "");
}

/*
 * Reports imported domains without nodes as notes. Models with functions are skipped, because functions are inlined,
 * after which the domains of their nodes seem unused, and so are models with errors, whose nodes did not all load.
 */
static void report_unused_domains(struct check_context *c)
{
	struct domains x = {c->file, arena_new_n(&c->arena, bool, c->file->nopsets + 1)};

	if (c->file->nfunctions || c->d->errors)
		return;
	graph_each_node(c->file->graph, mark_used_domain, &x);
	for (size_t i = 0; i < c->file->nopsets; i++)
		if (!x.used[i] && *c->file->opsets[i].domain)
			NOTE(c->d, E_MODEL_OPSET,
			     .slot = fmt(c->d, "opset of '%s'", c->file->opsets[i].domain),
			     .message = "imported, but no node is of this domain",
			     .hint = "remove the opset_import entry");
}

/*
 * Warns of a file near the limit of protobuf, which cannot read messages of 2 GiB and more. Larger models must keep
 * their weights in external files.
 */
static void report_file_size(struct check_context *c)
{
	const uint64_t limit = UINT64_C(2) << 30;
	uint64_t n = c->file->file_bytes;

	if (n >= limit)
		FAIL(c->d, E_MODEL_INLINE, .expected = "a file of less than 2 GiB",
		     .actual = fmt(c->d, "%" PRIu64 " bytes", n));
	else if (n > limit / 4 * 3)
		WARN(c->d, E_MODEL_INLINE,
		     .message = fmt(c->d,
				    "the file has %" PRIu64
				    " bytes, close to protobuf's limit of 2 GiB",
				    n));
}

static int run_read(struct check_context *c)
{
	const struct model *m = c->file;
	struct weight_sum sums[DT_COUNT];

	if (!m->graph)
		return 0;
	report_opsets(c);
	report_unused_domains(c);
	report_removed_operators(c);
	report_foreign_attributes(c);
	report_file_size(c);
	report_weights(m->graph, sums);
	check_say(c, "IR %" PRId64 ", %s, %s", m->ir_version,
		  str_many(&c->arena, m->graph->norder, "node"),
		  check_weights_text(&c->arena, sums[0].tensors, (int64_t)sums[0].bytes));
	return 0;
}

const struct check check_read = {
	.name = "file",
	.what = "the file is a model, and its versions agree",
	.need = NEED_FILE,
	.cost = COST_HEAD,
	.run = run_read,
};
