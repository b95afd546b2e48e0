/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as cuDNN has it, asked without a device: which forms it has an engine for. Skipped without cuDNN and
 * without a driver's library (the toolkit's stub will do), which the engines of attention want.
 */
#include "gpu/library/cudnn_attention.h"

#include "gpu/library/cudnn.h"
#include "test/unit/h200.h"
#include "test/unit/unit.h"

#include <dlfcn.h>

enum form { FREE, CAUSAL, MASK_KEYS, MASK_ALL, FORMS };

/* 12 heads of 64, q, k and v side by side in one tensor. */
static struct gpu_attend usual(enum form form, enum dtype t)
{
	int64_t s = 128, row = 3 * 768;
	struct gpu_attend j = {.batch = 8,
			       .heads = 12,
			       .kv_heads = 12,
			       .s = s,
			       .t = s,
			       .d = 64,
			       .dv = 64,
			       .qs = {s * row, 64, row},
			       .ks = {s * row, 64, row},
			       .vs = {s * row, 64, row},
			       .ys = {s * 768, 64, 768},
			       .kd = 1,
			       .left = -1,
			       .right = form == CAUSAL ? 0 : -1,
			       .mask_keys = s,
			       .scale = 0.125F};

	if (form >= MASK_KEYS)
		j.mask_type = (int)t;
	if (form == MASK_KEYS)
		j.ms[0] = s, j.ms[3] = 1;
	if (form == MASK_ALL)
		j.ms[0] = s * s, j.ms[2] = s, j.ms[3] = 1;
	return j;
}

static int engines(struct dn *dn, const struct gpu_attend *j, enum dtype t)
{
	struct arena a = {0};
	struct why why = {.arena = &a};
	struct dn_choice choice[8];
	struct dn_graph *g = sdpa_graph(dn, j, t, &why);
	int n = g ? dn_choices(g, DN_BEST, 0, choice, 8) : -1;

	if (!g)
		printf("# %s\n", why.text ? why.text : "?");
	dn_graph_free(g);
	arena_free(&a);
	return n;
}

static void every_form_has_an_engine(void)
{
	struct arena a = {0};
	struct why why = {.arena = &a};
	struct dn *dn = dn_deviceless(h200, strlen(h200), &why);
	static const enum dtype types[] = {DT_F16, DT_BF16};

	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!dn || !driver)
		printf("# skipped: %s\n", why.text ? why.text : "no CUDA driver");
	for (int t = 0; dn && driver && t < 2; t++) {
		for (int f = 0; f < FORMS; f++) {
			struct gpu_attend j = usual((enum form)f, types[t]);
			int n = engines(dn, &j, types[t]);
			printf("# %s form %d: %d engines\n", dtype_name(types[t]), f, n);
			CHECK(n > 0);
		}
	}
	dn_deviceless_free(dn);
	arena_free(&a);
}

/* What the library would do otherwise, or not at all, is refused before it is asked. */
static void other_forms_are_refused(void)
{
	struct gpu_attend j = usual(FREE, DT_F16);

	CHECK_INT(engines(NULL, &j, DT_F32), -1);
	j.d = 63;
	CHECK_INT(engines(NULL, &j, DT_F16), -1);
	j = usual(MASK_KEYS, DT_F16);
	j.mask_type = DT_BOOL;
	CHECK_INT(engines(NULL, &j, DT_F16), -1);
	j = usual(MASK_KEYS, DT_F16);
	j.safe = 1;
	CHECK_INT(engines(NULL, &j, DT_F16), -1);
	j = usual(CAUSAL, DT_F16);
	j.offset = 3;
	CHECK_INT(engines(NULL, &j, DT_F16), -1);
}

int main(void)
{
	UNIT(every_form_has_an_engine);
	UNIT(other_forms_are_refused);
	return unit_end();
}
