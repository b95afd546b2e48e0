/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/wide.h"

#include "base/pool.h"
#include "cpu/math/simd.h"

enum { MIN_ELEMS_PER_THREAD = 1 << 15 };

static bool is_converted(enum dtype t)
{
	return dtype_class(t) == DT_FLOAT && !wide_as_is(t);
}

size_t wide_bytes(enum dtype t, const struct shape *s)
{
	int64_t n = is_converted(t) ? shape_count(s) : 0;

	return n > 0 ? scratch_size((size_t)n * sizeof(float)) : 0;
}

static size_t vinfo_wide_bytes(const struct vinfo *v)
{
	return v && v->type.kind == V_TENSOR ? wide_bytes((enum dtype)v->type.dtype, &v->shape) : 0;
}

size_t wide_workspace(const struct site *site)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < site->node->nin; i++)
		sum += vinfo_wide_bytes(site_in(site, i));
	for (uint32_t i = 0; i < site->node->nout; i++)
		sum += vinfo_wide_bytes(site_out(site, i));
	return sum;
}

int wide_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace = wide_workspace(site);
	return 0;
}

struct convert {
	enum dtype type;
	const void *from;
	void *to;
};

static void convert_to_f32(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct convert *c = arg;

	(void)thread;
	simd_to_f32(c->type, c->from, begin, end - begin, (float *)c->to + begin);
}

static void convert_from_f32(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct convert *c = arg;

	(void)thread;
	simd_from_f32(c->type, (const float *)c->from + begin, end - begin, c->to, begin);
}

const void *wide_in(struct scratch *s, const struct tensor *t)
{
	struct convert c;
	int64_t n;

	if (!t || !is_converted(tensor_dtype(t)))
		return t ? t->data : NULL;
	n = tensor_count(t);
	c = (struct convert){tensor_dtype(t), t->data, scratch_take(s, (size_t)n * sizeof(float))};
	pool_for(n, MIN_ELEMS_PER_THREAD, convert_to_f32, &c);
	return c.to;
}

void *wide_out(struct scratch *s, const struct tensor *t)
{
	if (!t || !is_converted(tensor_dtype(t)))
		return t ? t->data : NULL;
	return scratch_take(s, (size_t)tensor_count(t) * sizeof(float));
}

void wide_done(const struct tensor *t, const void *from)
{
	struct convert c;

	if (!t || !is_converted(tensor_dtype(t)))
		return;
	c = (struct convert){tensor_dtype(t), from, t->data};
	pool_for(tensor_count(t), MIN_ELEMS_PER_THREAD, convert_from_f32, &c);
}
