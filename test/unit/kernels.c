/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, kernels and the support table agree: nothing is named that is not there, nothing is left without a kernel. */
#include "cpu/cpu.h"
#include "ops/op.h"
#include "test/unit/unit.h"

#include <string.h>

#define FAMILY(F) extern const struct kernel cpu_##F[];
#define EXPRESSED(F)
#include "ops/families.def"
#undef FAMILY

static const struct {
	const char *family;
	const struct kernel *kernels;
} tables[] = {
#define FAMILY(F) {#F, cpu_##F},
#define EXPRESSED(F)
#include "ops/families.def"
#undef FAMILY
};

static void tables_are_well_formed(void)
{
	struct diag d = {0};

	CHECK(op_selfcheck(&d) == 0);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static void kernels_name_operators(void)
{
	for (size_t f = 0; f < sizeof(tables) / sizeof(*tables); f++) {
		for (const struct kernel *k = tables[f].kernels; k->op; k++) {
			if (!CHECK(op_named(k->op) != NULL) || !CHECK(k->run != NULL))
				printf("# cpu_%s: %s\n", tables[f].family, k->op);
		}
	}
}

static bool newest(const struct op *op)
{
	return op == op_named(op_qualified(op));
}

static int has_kernel(const struct op *op, void *arg)
{
	(void)arg;
	if (newest(op) && !CHECK(op_expressed(op) || backend_kernel(&cpu_backend, op, 0)))
		printf("# %s has neither a CPU kernel nor an expansion\n", op_qualified(op));
	return 0;
}

static void operators_have_kernels(void)
{
	op_each(has_kernel, NULL);
}

static int reference_last(const struct op *op, void *arg)
{
	const struct kernel *last = NULL;

	(void)arg;
	for (unsigned k = 0; backend_kernel(&cpu_backend, op, k); k++)
		last = backend_kernel(&cpu_backend, op, k);
	if (last && newest(op) && !CHECK(last->flags & K_REFERENCE))
		printf("# the last kernel of %s is no reference\n", op_qualified(op));
	return 0;
}

static void references_come_last(void)
{
	op_each(reference_last, NULL);
}

int main(void)
{
	UNIT(tables_are_well_formed);
	UNIT(kernels_name_operators);
	UNIT(operators_have_kernels);
	UNIT(references_come_last);
	return unit_end();
}
