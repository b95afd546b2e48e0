/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/onednn/build.h"

#if HAVE_DNNL

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/clock.h"
#include "cpu/onednn/pack.h"
#include "cpu/math/amx.h"
#include "cpu/math/simd.h"
#include "ops/fused.h"

#include <fenv.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { ALIGN = 64, MAX_KEY_LENGTH = 400 };

/* ---- actions --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

struct at build_work(struct build *b, size_t bytes)
{
	struct at at = WORK(b->p->work);
	b->p->work += aligned(bytes);
	return at;
}

struct action *build_action(struct build *b, enum action_kind kind)
{
	struct action *a = &b->p->action[b->p->n++];
	a->kind = kind;
	return a;
}

void build_start(struct build *b, struct site *s, struct step *step, struct diag *d)
{
	*b = (struct build){.s = s, .step = step, .d = d, .type = DT_F32};
	if (site_in(s, 0)->type.dtype == DT_BF16 && amx_usable())
		b->type = DT_BF16;
	b->p = arena_new(s->plan_arena, struct program);
	step->state = b->p;
}

int build_end(struct build *b)
{
	b->step->workspace = b->p->work + b->p->scratch;
	return 0;
}

int build_argument(struct build *b, struct action *a, int which, const_dnnl_memory_desc_t md,
		   struct at at)
{
	dnnl_exec_arg_t *arg = &a->arg[a->n];
	TRY(b->d, dnnl_memory_create(&arg->memory, md, onednn_engine, DNNL_MEMORY_NONE));
	arg->arg = which;
	a->at[a->n++] = at;
	return 0;
}

/* Reserves the scratchpad of the primitive that pd describes and makes it an argument of the action. */
static int build_scratchpad(struct build *b, const_dnnl_primitive_desc_t pd, struct action *a)
{
	const_dnnl_memory_desc_t md = pd_md(pd, dnnl_query_scratchpad_md);
	size_t bytes = md ? onednn_api.dnnl_memory_desc_get_size(md) : 0;
	if (!bytes)
		return 0;
	if (bytes > b->p->scratch)
		b->p->scratch = aligned(bytes);
	return build_argument(b, a, DNNL_ARG_SCRATCHPAD, md, (struct at){.place = AT_SCRATCH});
}

/*
 * oneDNN keeps its newest primitives, by default 1,024, and 3.2 never frees the code of its convolutions. Inputs of many
 * sizes, as lines of text have them, would fill that cache after some 40 sizes, and then generate and lose code for each
 * input. So very many primitives are kept. When there are too many, all are dropped at once, since oneDNN itself looks
 * through the whole cache for each one that it drops. It does not tell which primitives it had: those took a few
 * microseconds, and new ones more than a hundred.
 */
static void count_generated(uint64_t ns)
{
	enum { KEPT = 16384, GENERATED_NS = 40 * 1000 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int generated = KEPT; /* so that the first one sets the capacity */

	if (ns < GENERATED_NS)
		return;
	pthread_mutex_lock(&lock);
	if (generated++ == KEPT) {
		onednn_api.dnnl_set_primitive_cache_capacity(0);
		onednn_api.dnnl_set_primitive_cache_capacity(2 * KEPT);
		generated = 1;
	}
	pthread_mutex_unlock(&lock);
}

int build_primitive(struct build *b, const_dnnl_primitive_desc_t pd, struct action **out)
{
	struct action *a = *out = build_action(b, DO_PRIMITIVE);
	uint64_t start = clock_ns();
	TRY(b->d, dnnl_primitive_create(&a->primitive, pd));
	count_generated(clock_ns() - start);
	return build_scratchpad(b, pd, a);
}

static void build_convert(struct build *b, enum action_kind kind, enum dtype t, int64_t count,
			  struct at from, struct at to)
{
	struct action *a = build_action(b, kind);
	a->dtype = t;
	a->count = count;
	a->at[0] = from;
	a->at[1] = to;
}

static size_t f32_bytes(int64_t count)
{
	return (size_t)count * sizeof(float);
}

/* ---- memory descriptors ---------------------------------------------------------------------- */

struct made made_new(const struct build *b)
{
	return (struct made){.type = b->type == DT_BF16 ? dnnl_bf16 : dnnl_f32};
}

void made_free(struct made *m)
{
	for (int i = 0; i < m->nmd; i++)
		onednn_api.dnnl_memory_desc_destroy(m->md[i]);
	if (m->ops)
		onednn_api.dnnl_post_ops_destroy(m->ops);
	if (m->attr)
		onednn_api.dnnl_primitive_attr_destroy(m->attr);
	if (m->pd)
		onednn_api.dnnl_primitive_desc_destroy(m->pd);
	*m = (struct made){0};
}

dnnl_memory_desc_t md_tag(struct made *m, int n, const dnnl_dim_t *dims, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md;
	if (onednn_api.dnnl_memory_desc_create_with_tag(&md, n, dims, m->type, tag))
		return NULL;
	return m->md[m->nmd++] = md;
}

dnnl_memory_desc_t md_strides(struct made *m, int n, const dnnl_dim_t *dims, const dnnl_dim_t *strides)
{
	dnnl_memory_desc_t md;
	if (onednn_api.dnnl_memory_desc_create_with_strides(&md, n, dims, m->type, strides))
		return NULL;
	return m->md[m->nmd++] = md;
}

dnnl_memory_desc_t md_vector(struct made *m, dnnl_dim_t n)
{
	dnnl_dims_t dims = {n};
	return md_tag(m, 1, dims, dnnl_a);
}

dnnl_memory_desc_t md_row(struct made *m, int n, const dnnl_dim_t *dims)
{
	dnnl_dims_t strides;
	dnnl_dim_t step = 1;
	for (int i = n - 1; i >= 0; i--) {
		strides[i] = step;
		step *= dims[i];
	}
	return md_strides(m, n, dims, strides);
}

dnnl_format_tag_t md_layout_tag(enum layout l, int rank)
{
	static const dnnl_format_tag_t tags[][3] = {
		[LAYOUT_ROW] = {dnnl_ncw, dnnl_nchw, dnnl_ncdhw},
		[LAYOUT_CHANNELS_LAST] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc},
		[LAYOUT_BLOCK8] = {dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c},
		[LAYOUT_BLOCK16] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c},
	};
	return tags[l][rank - 3];
}

bool md_layouts_same(const struct shape *s, enum layout a, enum layout b)
{
	int64_t spatial = shape_span(s, 2, s->rank);
	if (a == b)
		return true;
	if (a > b) {
		enum layout t = a;
		a = b;
		b = t;
	}
	if (a == LAYOUT_ROW && b == LAYOUT_CHANNELS_LAST)
		return s->dim[1] == 1 || spatial == 1;
	if (a == LAYOUT_ROW)
		return spatial == 1 && s->dim[1] % (b == LAYOUT_BLOCK8 ? 8 : 16) == 0;
	if (a == LAYOUT_CHANNELS_LAST)
		return s->dim[1] == (b == LAYOUT_BLOCK8 ? 8 : 16);
	return false;
}

bool md_layout_find(const_dnnl_memory_desc_t md, const struct shape *s, enum layout *out)
{
	dnnl_data_type_t type = dnnl_f32;
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_data_type, &type);
	for (int l = LAYOUT_ROW; l <= LAYOUT_BLOCK16; l++) {
		dnnl_memory_desc_t is;
		if (onednn_api.dnnl_memory_desc_create_with_tag(
			    &is, s->rank, s->dim, type, md_layout_tag((enum layout)l, s->rank)))
			continue;
		bool same = onednn_api.dnnl_memory_desc_equal(is, md);
		onednn_api.dnnl_memory_desc_destroy(is);
		if (same) {
			*out = (enum layout)l;
			return true;
		}
	}
	return false;
}

/*
 * Describes md as text for a key of the weight store. Two descriptors get the same text if they place the elements
 * alike.
 */
static const char *md_text(struct arena *a, const_dnnl_memory_desc_t md, const char *use)
{
	int n = 0, blocks = 0;
	const dnnl_dims_t *padded = NULL, *strides = NULL, *sizes = NULL, *which = NULL;
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &n);
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded);
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_strides, &strides);
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &blocks);
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_inner_blks, &sizes);
	onednn_api.dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &which);
	if (!padded || !strides)
		return NULL; /* an opaque layout of oneDNN, which cannot be described */
	char text[1024];
	int at = snprintf(text, sizeof(text), "%s", use);
	for (int i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " %" PRId64 "/%" PRId64,
			       (*padded)[i], (*strides)[i]);
	for (int i = 0; sizes && which && i < blocks; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, ", %" PRId64 "@%" PRId64,
			       (*sizes)[i], (*which)[i]);
	return arena_str(a, text);
}

const char *build_layout_text(struct arena *a, const_dnnl_memory_desc_t md)
{
	return md_text(a, md, "");
}

/* ---- operands -------------------------------------------------------------------------------- */

int64_t build_elements(const struct vinfo *v, enum layout l)
{
	size_t bytes = 0;
	tensor_bytes(DT_F32, &v->shape, l, &bytes);
	return (int64_t)(bytes / sizeof(float));
}

struct at build_operand_in(struct build *b, uint32_t i, enum layout l)
{
	const struct vinfo *v = site_in(b->s, i);
	if (v->type.dtype == b->type)
		return IN(i);
	int64_t count = build_elements(v, l);
	struct at to = build_work(b, f32_bytes(count));
	build_convert(b, DO_WIDEN, (enum dtype)v->type.dtype, count, IN(i), to);
	return to;
}

struct at build_operand(struct build *b, uint32_t i)
{
	return build_operand_in(b, i, LAYOUT_ROW);
}

struct packing {
	const_dnnl_memory_desc_t from, to;
	enum dtype type;
	float scale;
	struct diag *d;
};

int build_reorder_now(const_dnnl_memory_desc_t from_md, const_dnnl_memory_desc_t to_md,
		      const void *src, void *dst, struct diag *d)
{
	dnnl_primitive_desc_t pd = NULL;
	dnnl_primitive_t primitive = NULL;
	dnnl_memory_t from = NULL, to = NULL;
	dnnl_status_t s;
	(void)((s = onednn_api.dnnl_reorder_primitive_desc_create(&pd, from_md, onednn_engine,
								  to_md, onednn_engine, NULL)) ||
	       (s = onednn_api.dnnl_primitive_create(&primitive, pd)) ||
	       (s = onednn_api.dnnl_memory_create(&from, from_md, onednn_engine,
						  (void *)(uintptr_t)src)) ||
	       (s = onednn_api.dnnl_memory_create(&to, to_md, onednn_engine, dst)));
	if (!s) {
		dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
		s = onednn_api.dnnl_primitive_execute(primitive, onednn_stream, 2, arg);
	}
	if (from)
		onednn_api.dnnl_memory_destroy(from);
	if (to)
		onednn_api.dnnl_memory_destroy(to);
	if (primitive)
		onednn_api.dnnl_primitive_destroy(primitive);
	if (pd)
		onednn_api.dnnl_primitive_desc_destroy(pd);
	return s ? onednn_failed(d, s, "packing weights") : 0;
}

/* Describes the two layouts for pack_f32. Returns false if pack_f32 does not support layouts of this kind. */
static bool describe_packing(const struct packing *p, struct pack *out)
{
	const dnnl_dims_t *dims = NULL, *from = NULL, *to = NULL, *padded = NULL, *blks = NULL,
			  *idxs = NULL;
	dnnl_format_kind_t kind = dnnl_format_kind_undef;
	int blocked = 0;
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_format_kind, &kind);
	if (kind != dnnl_blocked)
		return false;
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_ndims_s32, &out->rank);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_dims, &dims);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_padded_dims, &padded);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_strides, &to);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_inner_nblks_s32, &out->blocks);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_inner_blks, &blks);
	onednn_api.dnnl_memory_desc_query(p->to, dnnl_query_inner_idxs, &idxs);
	onednn_api.dnnl_memory_desc_query(p->from, dnnl_query_strides, &from);
	onednn_api.dnnl_memory_desc_query(p->from, dnnl_query_inner_nblks_s32, &blocked);
	if (out->rank > PACK_MAX || out->blocks > PACK_BLOCKS || blocked || !dims || !padded ||
	    !to || !from)
		return false;
	for (int i = 0; i < out->rank; i++) {
		out->dim[i] = (*dims)[i];
		out->from[i] = (*from)[i];
		out->to[i] = (*to)[i];
		out->padded |= (*padded)[i] != (*dims)[i];
	}
	for (int i = 0; i < out->blocks; i++) {
		out->block[i] = (*blks)[i];
		out->block_dim[i] = (int)(*idxs)[i];
	}
	out->bytes = onednn_api.dnnl_memory_desc_get_size(p->to);
	return true;
}

static int pack_weights_now(const struct packing *p, const float *src, void *dst)
{
	struct pack plan = {0};
	if (describe_packing(p, &plan) && pack_f32(&plan, src, dst))
		return 0;
	return build_reorder_now(p->from, p->to, src, dst, p->d);
}

/* Writes t to dst in the layout p->to, as p->type and multiplied by p->scale. This is the callback of store_get. */
static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	const struct packing *p = arg;
	int64_t count = tensor_count(t);
	if (p->type == DT_BF16)
		return build_reorder_now(p->from, p->to, t->data, dst, p->d);
	if (tensor_dtype(t) == DT_F32 && p->scale == 1)
		return pack_weights_now(p, t->data, dst);
	float *wide = mem_alloc(f32_bytes(count), MEM_STAGING);
	if (!wide)
		return FAIL(p->d, E_MEMORY, .actual = fmt(p->d, "%zu bytes", f32_bytes(count)));
	simd_to_f32(tensor_dtype(t), t->data, 0, count, wide);
	for (int64_t i = 0; p->scale != 1 && i < count; i++)
		wide[i] *= p->scale;
	int r = pack_weights_now(p, wide, dst);
	mem_free(wide);
	return r;
}

/*
 * Returns the key of packed weights in the weight store. The key contains both layouts, because one initializer may
 * be used as it is and also transposed.
 */
static const char *weights_key(struct arena *a, const_dnnl_memory_desc_t from,
			       const_dnnl_memory_desc_t to, enum dtype type, float scale)
{
	const char *f = md_text(a, from, "as"), *t = md_text(a, to, "to");
	if (!f || !t || strlen(f) + strlen(t) > MAX_KEY_LENGTH)
		return NULL;
	return arena_printf(a, "onednn %s * %a %s %s", dtype_name(type), (double)scale, f, t);
}

int build_weights(struct build *b, uint32_t i, const_dnnl_memory_desc_t from,
		  const_dnnl_memory_desc_t to, float scale, struct at *out)
{
	const struct vinfo *v = site_in(b->s, i);
	bool same = onednn_api.dnnl_memory_desc_equal(from, to);
	if (same && v->type.dtype == b->type && scale == 1) {
		*out = IN(i);
		return 0;
	}
	size_t bytes = onednn_api.dnnl_memory_desc_get_size(to);
	const char *key = NULL;
	if (b->s->store && site_is_weight(b->s, i) && site_known(b->s, i))
		key = weights_key(b->s->plan_arena, from, to, b->type, scale);
	if (key) {
		struct packing p = {from, to, b->type, scale, b->d};
		const void *fixed = store_get(b->s->store, site_known(b->s, i), key, bytes,
					      pack_weights, &p, b->d);
		*out = (struct at){.place = AT_FIXED, .fixed = fixed};
		return fixed ? 0 : -E_MEMORY;
	}
	*out = build_operand(b, i);
	if (same)
		return 0;
	struct action *a;
	struct made m = made_new(b);
	struct at packed = build_work(b, bytes);
	dnnl_status_t s = onednn_api.dnnl_reorder_primitive_desc_create(&m.pd, from, onednn_engine,
									to, onednn_engine, NULL);
	int r = s ? onednn_failed(b->d, s, "reorder of weights") : build_primitive(b, m.pd, &a);
	r = r ? r : build_argument(b, a, DNNL_ARG_FROM, from, *out);
	r = r ? r : build_argument(b, a, DNNL_ARG_TO, to, packed);
	made_free(&m);
	*out = packed;
	return r;
}

struct at build_result(struct build *b, enum layout l)
{
	const struct vinfo *v = site_out(b->s, 0);
	return v->type.dtype == b->type ? OUT0 : build_work(b, f32_bytes(build_elements(v, l)));
}

void build_result_end(struct build *b, enum layout l, struct at at)
{
	const struct vinfo *v = site_out(b->s, 0);
	if (v->type.dtype != b->type)
		build_convert(b, DO_NARROW, (enum dtype)v->type.dtype, build_elements(v, l), at, OUT0);
}

void build_residual(struct build *b, uint32_t i, enum layout l, struct at to)
{
	const struct vinfo *v = site_in(b->s, i);
	if (v->type.dtype != b->type) {
		build_convert(b, DO_WIDEN, (enum dtype)v->type.dtype, build_elements(v, l), IN(i), to);
		return;
	}
	struct action *a = build_action(b, DO_COPY);
	a->at[0] = IN(i);
	a->at[1] = to;
	a->count = build_elements(v, l) * (dtype_bits(b->type) / 8);
	b->step->inplace[b->step->ninplace].out = 0;
	b->step->inplace[b->step->ninplace++].in = (uint8_t)i;
}

/* ---- activations ----------------------------------------------------------------------------- */

int build_eltwise(struct build *b, struct made *m, dnnl_alg_kind_t alg, float alpha, float beta)
{
	TRY(b->d, dnnl_post_ops_append_eltwise(m->ops, alg, alpha, beta));
	return 0;
}

/*
 * Maps an activation to oneDNN's algorithm. An activation that has no algorithm is refused, so that another kernel
 * runs the node.
 */
static const dnnl_alg_kind_t algorithms[ACT_COUNT] = {
	[ACT_RELU] = dnnl_eltwise_relu,
	[ACT_CLIP] = dnnl_eltwise_clip,
	[ACT_SIGMOID] = dnnl_eltwise_logistic,
	[ACT_SWISH] = dnnl_eltwise_swish,
	[ACT_HARDSIGMOID] = dnnl_eltwise_hardsigmoid,
	[ACT_HARDSWISH] = dnnl_eltwise_hardswish,
	[ACT_GELU] = dnnl_eltwise_gelu_erf,
	[ACT_GELU_TANH] = dnnl_eltwise_gelu_tanh,
	[ACT_TANH] = dnnl_eltwise_tanh,
	[ACT_LEAKYRELU] = dnnl_eltwise_relu,
	[ACT_ELU] = dnnl_eltwise_elu,
	[ACT_SOFTPLUS] = dnnl_eltwise_soft_relu,
	[ACT_MISH] = dnnl_eltwise_mish,
};

bool onednn_activation_accepts(int act, float alpha, float beta, struct why *w)
{
	if (act == ACT_NONE)
		return true;
	if (algorithms[act] == dnnl_alg_kind_undef)
		return refuse(w, "oneDNN has no activation %s", activations[act].text);
	return act != ACT_CLIP || alpha <= beta ||
	       refuse(w, "oneDNN wants bounds of Clip that are numbers in order");
}

/*
 * Returns the floating-point exceptions that are raised whenever oneDNN's code for the activation gets a number for
 * which its result is wrong. Code for Relu, Clip, HardSigmoid and, with SSE4.1, Sigmoid clamps by MAXPS and MINPS, which drop
 * a NaN and raise FE_INVALID. That for GELU multiplies infinity by 0 with AVX-512, and overflows above half of the largest
 * number.
 */
static int activation_exceptions(int act)
{
	return act == ACT_GELU ? FE_INVALID | FE_OVERFLOW : FE_INVALID;
}

int build_activation(struct build *b, struct made *m, int act, float alpha, float beta)
{
	if (act == ACT_NONE)
		return 0;
	b->p->apart.exceptions = activation_exceptions(act);
	b->p->apart.act = act;
	b->p->apart.alpha = alpha;
	b->p->apart.beta = beta;
	if (act == ACT_RELU)
		alpha = beta = 0;
	if (act == ACT_SOFTPLUS)
		alpha = 1;
	return build_eltwise(b, m, algorithms[act], alpha, beta);
}

int build_apart(struct build *b, struct made *plain, const struct action *fused, struct at y,
		int64_t count, struct action **out)
{
	struct apart *x = &b->p->apart;
	b->p->fused = fused;
	x->desc = plain->pd;
	plain->pd = NULL;
	x->y = y;
	x->count = count;
	x->type = b->type;
	*out = &x->action;
	return build_scratchpad(b, x->desc, &x->action);
}

int build_attributes(struct build *b, struct made *m)
{
	TRY(b->d, dnnl_primitive_attr_create(&m->attr));
	TRY(b->d, dnnl_primitive_attr_set_scratchpad_mode(m->attr, dnnl_scratchpad_mode_user));
	TRY(b->d, dnnl_primitive_attr_set_post_ops(m->attr, m->ops));
	return 0;
}

/* ---- checks of the accepts functions ---------------------------------------------------------- */

bool onednn_empty(const struct shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] == 0)
			return true;
	return false;
}

bool onednn_sizes_accept(const struct site *s, struct why *w)
{
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (site_in(s, i) && shape_count(&site_in(s, i)->shape) > INT32_MAX)
			return refuse(w, "input %u has more than 2^31 elements", i);
	if (shape_count(&site_out(s, 0)->shape) > INT32_MAX)
		return refuse(w, "the output has more than 2^31 elements");
	return true;
}

bool onednn_spatial_accept(const struct site *s, struct why *w)
{
	const struct vinfo *x = site_in(s, 0);
	if (!onednn_usable(w))
		return false;
	if (x->shape.rank < 3 || x->shape.rank > 5)
		return refuse(w, "rank %d", x->shape.rank);
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (site_in(s, i) && onednn_empty(&site_in(s, i)->shape))
			return refuse(w, "input %u is empty", i);
	if (onednn_empty(&site_out(s, 0)->shape))
		return refuse(w, "the output is empty");
	return onednn_sizes_accept(s, w);
}

bool onednn_pads_accept(const struct ints *pads, struct why *w)
{
	for (int64_t i = 0; i < pads->n; i++)
		if (pads->v[i] < 0)
			return refuse(w, "a negative pad");
	return true;
}

bool onednn_nothing_to_do(const struct site *s)
{
	return shape_count(&site_out(s, 0)->shape) == 0;
}

bool onednn_counts_fit(const struct site *s)
{
	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct vinfo *v = site_in(s, i);
		int64_t n = v ? shape_count(&v->shape) : 0;
		if (n < 0 || n > INT64_MAX / 16)
			return false;
	}
	int64_t n = shape_count(&site_out(s, 0)->shape);
	return n >= 0 && n <= INT64_MAX / 16;
}

#endif
