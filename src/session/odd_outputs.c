/* SPDX-License-Identifier: Apache-2.0 */
#include "session/odd_outputs.h"

#include "base/str.h"
#include "session/model_report.h"

#include <string.h>

enum oddity { SOUND, NOT_FINITE, ALL_ZERO };

/*
 * Looks at the bits of fp32 elements, without a branch in the loop, so that the compiler vectorizes it: an output has
 * millions of elements at times.
 */
static enum oddity look_at_f32(const char *p, int64_t n)
{
	const uint32_t exponent = UINT32_C(0x7f800000);
	uint32_t any = 0, odd = 0;

	for (int64_t i = 0; i < n; i++) {
		uint32_t bits;
		memcpy(&bits, p + 4 * i, 4);
		any |= bits << 1; /* -0 is a zero as well */
		odd |= (bits & exponent) == exponent;
	}
	return odd ? NOT_FINITE : any ? SOUND : ALL_ZERO;
}

/* Only floating-point outputs are judged: zeros are common in integers. A single zero may well be right. */
static enum oddity look_at(const struct tensor *t)
{
	if (!t || t->type.kind != V_TENSOR || t->device || !t->data || t->layout != LAYOUT_ROW ||
	    !(T_BIT(tensor_dtype(t)) & T_FLOATS_BF))
		return SOUND;
	int64_t n = tensor_count(t);
	enum oddity odd;
	if (tensor_dtype(t) == DT_F32) {
		odd = look_at_f32(t->data, n);
	} else {
		struct statistics s = report_statistics(t);
		odd = s.nans + s.infs ? NOT_FINITE : s.zeros == s.count ? ALL_ZERO : SOUND;
	}
	return odd == ALL_ZERO && n < 2 ? SOUND : odd;
}

static const char *describe(const struct tensor *t, enum oddity odd, struct diag *d)
{
	struct statistics s = report_statistics(t);
	struct str b = {.arena = &d->arena};

	if (odd == ALL_ZERO)
		return fmt(d, "%s 0", str_all(&d->arena, (uint64_t)s.count, "element"));
	if (s.nans)
		str_addf(&b, "%s NaN", str_count(&d->arena, s.nans));
	if (s.infs)
		str_addf(&b, "%s%s infinite", b.n ? " and " : "", str_count(&d->arena, s.infs));
	return fmt(d, "%s of %s", str_get(&b), str_many(&d->arena, (uint64_t)s.count, "element"));
}

/* Warns of the first output with this oddity, and counts the others. */
static void warn_of(const struct session *s, const struct tensor *const *out,
		    const enum oddity *found, enum oddity odd, struct diag *d)
{
	const struct graph *g = session_model(s)->graph;
	const char *others = "", *text = NULL;
	uint32_t first = 0, more = 0;

	for (uint32_t i = 0; i < g->nout; i++) {
		if (found[i] != odd)
			continue;
		if (text)
			more++;
		else
			first = i;
		text = text ? text : describe(out[i], odd, d);
	}
	if (!text)
		return;
	if (more)
		others = fmt(d, "; %u other output%s like it", more, more > 1 ? "s are" : " is");
	WARN(d, odd == ALL_ZERO ? E_OUT_ZERO : E_OUT_NAN,
	     .slot = fmt(d, "output '%s' %s %s", g->out_name[first],
			 type_str(&d->arena, out[first]->type),
			 shape_str(&d->arena, &out[first]->shape, NULL)),
	     .message = fmt(d, "%s%s", text, others),
	     .hint = "infer check with the same model and inputs looks for the node that causes it");
}

void warn_of_odd_outputs(const struct session *s, const struct tensor *const *out, struct diag *d)
{
	uint32_t n = session_model(s)->graph->nout;
	struct arena a = {0};
	enum oddity *found = arena_new_n(&a, enum oddity, n + 1);

	for (uint32_t i = 0; i < n; i++)
		found[i] = look_at(out[i]);
	warn_of(s, out, found, NOT_FINITE, d);
	warn_of(s, out, found, ALL_ZERO, d);
	arena_free(&a);
}
