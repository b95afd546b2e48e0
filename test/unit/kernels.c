/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, kernels and the support table agree: nothing is named that is not there, nothing is left without a kernel. */
#include "cpu/cpu.h"
#include "ops/op.h"
#include "test/unit/unit.h"

#include <string.h>

#define FAMILY(F) extern const struct kernel cpu_##F[];
#include "ops/families.def"
#undef FAMILY

static const struct {
	const char *family;
	const struct kernel *kernels;
} tables[] = {
#define FAMILY(F) {#F, cpu_##F},
#include "ops/families.def"
#undef FAMILY
};

static void kernels_name_operators(void)
{
	for (size_t f = 0; f < sizeof(tables) / sizeof(*tables); f++) {
		for (const struct kernel *k = tables[f].kernels; k->op; k++) {
			CHECK(op_named(k->op) != NULL, "cpu_%s: kernel for %s, which no row describes",
			      tables[f].family, k->op);
			CHECK(k->run != NULL, "cpu_%s: the kernel for %s has no run", tables[f].family, k->op);
		}
	}
}

static int has_kernel(const struct op *op, void *arg)
{
	(void)arg;
	if (op != op_named(op_qualified(op))) /* an old version: it is upgraded */
		return 0;
	bool runs = op->expand || backend_kernel(&cpu_backend, op, 0);
	CHECK(runs, "%s has neither a CPU kernel nor an expansion", op_qualified(op));
	return 0;
}

/* The last kernel of an operator is the reference: it takes every type that its row allows. */
static int reference_last(const struct op *op, void *arg)
{
	const struct kernel *last = NULL;

	(void)arg;
	for (unsigned k = 0; backend_kernel(&cpu_backend, op, k); k++)
		last = backend_kernel(&cpu_backend, op, k);
	if (last && op == op_named(op_qualified(op)))
		CHECK(last->flags & K_REFERENCE, "the last kernel of %s is no reference", op_qualified(op));
	return 0;
}

int main(void)
{
	struct diag d = {0};

	op_selfcheck(&d);
	diag_print(&d, stderr, false);
	CHECK(!d.errors, "the operator tables are well formed");
	diag_free(&d);
	kernels_name_operators();
	op_each(has_kernel, NULL);
	op_each(reference_last, NULL);
	return unit_done();
}
