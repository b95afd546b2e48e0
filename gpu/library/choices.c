/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library/choices.h"

#include "base/str.h"
#include "gpu/library/conv_plan.h"
#include "gpu/library/cudnn_attention.h"
#include "gpu/driver/tune.h"

#include <string.h>

enum { MAX_FALLBACKS = 1024 };

struct fallback {
	const char *node, *op, *by, *why;
};
struct fallbacks {
	struct arena arena;
	struct fallback *v;
	uint32_t n, cap;
};

void gpu_fell_back(const struct site *s, const char *by, const char *why)
{
	struct fallbacks *t =
		s->device ? gpu_slot_new(s->device, GPU_FALLBACKS, sizeof(*t), NULL) : NULL;
	const struct origin *o = s->node->origin;

	if (!t)
		return;

	if (!why)
		why = "no reason given";
	for (uint32_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].node, o->name) && !strcmp(t->v[i].why, why))
			return;
	if (t->n == MAX_FALLBACKS)
		return;
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 16;
		t->v = arena_grow(&t->arena, t->v, t->n, t->cap, sizeof(*t->v));
	}
	t->v[t->n++] = (struct fallback){arena_str(&t->arena, o->name),
					 arena_str(&t->arena, o->op ? o->op : s->node->op->name),
					 arena_str(&t->arena, by), arena_str(&t->arena, why)};
}

const char *gpu_fallback(const struct device *device, size_t i, struct arena *a)
{
	const struct fallbacks *t = gpu_slot(device, GPU_FALLBACKS);

	if (!t || i >= t->n)
		return NULL;
	const struct fallback *f = &t->v[i];
	return arena_printf(a, "%s (%s): %s: %s", f->node, f->op, f->by, f->why);
}

/*
 * Appends to the text b how many nodes use another kernel than the library's. With `each`, also lists these nodes,
 * each with its kernel and the reason.
 */
static void add_fallbacks(struct str *b, const struct device *device, bool each)
{
	const struct fallbacks *t = gpu_slot(device, GPU_FALLBACKS);

	if (t && t->n)
		str_addf(b, "%s%u nodes by another kernel than the library's%s",
			 str_get(b)[0] ? "\n        " : "", t->n, each ? "" : ": -v says why");
	for (uint32_t i = 0; t && each && i < t->n; i++)
		str_addf(b, "\n          %s (%s): %s: %s", t->v[i].node, t->v[i].op, t->v[i].by,
			 t->v[i].why);
}

const char *gpu_choices(struct device *device, bool each, struct arena *a)
{
	struct str b = {.arena = a};
	struct tune_report r;

	tune_report(device, &r);
	if (r.known || r.tried || r.untried) {
		str_addf(&b, "%u choices known, %u found in %.2f s", r.known, r.tried, r.seconds);
		if (r.untried)
			str_addf(&b, ", %u not tried: --tune full does", r.untried);
		if (r.trouble)
			str_addf(&b, "; not kept: %s", r.trouble);
		else if (r.folder)
			str_addf(&b, "; kept in %s", r.folder);
	}
	if (each) {
		conv_choices(device, &b);
		sdpa_choices(device, &b);
	}
	add_fallbacks(&b, device, each);
	return str_get(&b)[0] ? str_get(&b) : NULL;
}
