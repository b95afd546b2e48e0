/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the operators of this build for `infer inspect --ops` and infer-operators(7), from the tables of operators and kernels. */
#include "cmd/options/subcommand.h"
#include "cmd/inspect/inspect.h"
#include "cmd/options/version.h"
#include "session/backends.h"

#include <string.h>

/*
 * Returns the types that the first input accepts, or the types of the output if the operator has no
 * inputs.
 */
static const char *op_types(struct arena *a, const struct op *row)
{
	struct op r = op_resolved(row);
	uint64_t mask = row->types	     ? row->types
			: r.in && r.in->name ? r.in->types
			: r.out		     ? r.out->types
					     : 0;
	return op_types_text(mask, a);
}

static bool has_kernel(const struct backend *b, const struct op *row)
{
	return backend_kernel(b, op_named(op_qualified(row)), 0);
}

static const char *op_device(const struct op *row)
{
	const struct op *newest = op_named(op_qualified(row));

	if (backend_kernel(host_backend(), newest, 0))
		return "cpu";
	/* if even the newest version has an upgrade, it turns the node into another operator (Upsample) */
	return op_expressed(newest) ? "cpu (expands)" : "none";
}

/*
 * Returns the devices of this build that run the operator. The manual uses op_device() instead, so
 * that its text is the same for builds with and without CUDA.
 */
static const char *op_devices(const struct op *row, struct arena *a)
{
	const char *text = op_device(row);

	for (int b = FIRST_ACCELERATOR; b < BACKENDS; b++)
		if (has_kernel(backends[b], row))
			text = arena_printf(a, "%s, %s", text, backends[b]->name);
	return text;
}

struct support {
	struct arena arena;
	struct json *json;
};

static int print_support_row(const struct op *op, void *arg)
{
	struct support *s = arg;

	if (op->flags & OP_INTERNAL || (op->domain && !strcmp(op->domain, "infer")))
		return 0;
	const char *types = op_types(&s->arena, op);
	if (s->json) {
		json_object(s->json, NULL);
		json_string(s->json, "domain", op->domain ? op->domain : "ai.onnx");
		json_string(s->json, "operator", op->name);
		json_int(s->json, "since", op->since);
		json_string(s->json, "types", types);
		json_string(s->json, "device", op_device(op));
		for (int b = FIRST_ACCELERATOR; b < BACKENDS; b++)
			json_bool(s->json, backends[b]->name, has_kernel(backends[b], op));
		json_end(s->json, '}');
	} else {
		printf("%-40s %4d  %-14s %s\n", op_qualified(op), op->since,
		       op_devices(op, &s->arena), types);
	}
	arena_free(&s->arena);
	return 0;
}

void inspect_print_support(struct options *o, const struct diag *d)
{
	struct json j;
	struct support s = {.json = o->json ? &j : NULL};

	if (o->json) {
		json_envelope_begin(&j, o, d);
		json_array(&j, "operators");
	} else {
		printf("%-40s %4s  %-14s %s\n", "operator", "since", "device",
		       "types of the first input");
	}
	op_each(print_support_row, &s);
	if (o->json) {
		json_end(&j, ']');
		json_envelope_end(&j, d);
	}
}

/* ---- infer-operators(7) ---------------------------------------------------------------------- */

static bool is_newest(const struct op *op)
{
	return op == op_named(op_qualified(op));
}

struct page {
	struct arena arena;
	FILE *f;
	const char *versions, *name;
};

static void end_operator(struct page *p)
{
	if (p->versions)
		fprintf(p->f, "Versions since opset %s.\n", p->versions);
	p->versions = NULL;
	arena_free(&p->arena);
}

static int print_page_row(const struct op *op, void *arg)
{
	struct page *p = arg;

	if (op->flags & OP_INTERNAL || (op->domain && !strcmp(op->domain, "infer")))
		return 0;
	if (!is_newest(op)) {
		p->versions =
			arena_printf(&p->arena, "%s, %d", p->versions ? p->versions : "", op->since);
		return 0;
	}
	end_operator(p);
	fprintf(p->f, ".TP\n.B %s\nOn %s. Types of the first input: %s.\n", op_qualified(op),
		op_device(op), op_types(&p->arena, op));
	p->versions = arena_printf(&p->arena, "%d", op->since);
	return 0;
}

void operators_page(FILE *f)
{
	struct page p = {.f = f};

	fputs(".\\\" Written by `infer __gen man'; the sources are the operator tables in src/ops/.\n",
	      f);
	fprintf(f, ".TH INFER-OPERATORS 7 \"%s\" \"infer %s\" \"Operators\"\n", INFER_DATE,
		INFER_VERSION);
	fputs(".SH NAME\ninfer\\-operators \\- the ONNX operators that infer runs\n.SH DESCRIPTION\n",
	      f);
	fputs("A model's opset number selects the version of each operator: the highest one that does not exceed it.\n"
	      "\"cpu (expands)\" means that infer replaces the operator by others. In a build with CUDA,\n"
	      "infer inspect \\-\\-ops also lists which operators run on a GPU.\n"
	      ".SH OPERATORS\n.ad l\n",
	      f);
	op_each(print_page_row, &p);
	end_operator(&p);
	fputs(".SH SEE ALSO\n.BR infer (1),\n.BR infer\\-inspect (1)\n", f);
}
