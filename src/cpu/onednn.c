/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening libdnnl; programs of primitives; convolution, product and pooling kernels on them.
 *
 * Types: fp32 as it is. fp16 and bf16 are widened to fp32 on the way in and rounded once on the
 * way out, so that they compute in fp32 on every processor; their weights are widened when packed.
 */
#include "cpu/onednn.h"

#if HAVE_DNNL

#include "base/arena.h"
#include "base/dl.h"
#include "base/pool.h"
#include "cpu/pack.h"
#include "cpu/simd.h"
#include "ops/conv.h"
#include "ops/fused.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/window.h"

#include <oneapi/dnnl/dnnl.h>

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { MAX_ARGS = 10, MAX_ACTIONS = 12, ALIGN = 64, KEY_MAX = 400 };

/* ---- the library ---------------------------------------------------------------------------- */

static const struct dl_symbol symbols[] = {
#define SYM(name) {#name, true},
#include "cpu/dnnl.def"
#undef SYM
};
enum { NSYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

/* Opened once for the process, and then only read. */
static struct {
#define SYM(name) __typeof__(name) *name;
#include "cpu/dnnl.def"
#undef SYM
} api;
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static const char *missing; /* why it cannot be used; NULL: it can */
static char about[512];

static void library_open(void)
{
	static const char *const names[] = {"libdnnl.so.3", NULL};
	static struct dl lib;
	void *table[NSYMBOLS];

	missing = about;
	if (dl_open(&lib, names, symbols, table, NSYMBOLS, NULL)) {
		snprintf(about, sizeof(about), "libdnnl.so.3 cannot be opened: %.400s", lib.tried);
		return;
	}
	_Static_assert(sizeof(api) == sizeof(table), "one pointer a symbol");
	memcpy(&api, table, sizeof(api));
	const dnnl_version_t *v = api.dnnl_version();
	if (v->major != 3) {
		snprintf(about, sizeof(about), "%.400s is version %d, 3 is needed", lib.path,
			 v->major);
		return;
	}
	if (api.dnnl_engine_create(&engine, dnnl_cpu, 0) ||
	    api.dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)) {
		snprintf(about, sizeof(about), "%.400s makes no CPU engine", lib.path);
		return;
	}
	snprintf(about, sizeof(about), "oneDNN %d.%d.%d (%.400s)", v->major, v->minor, v->patch,
		 lib.path);
	missing = NULL;
}

static bool usable(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, library_open);
	return !missing;
}

bool onednn_usable(struct why *w)
{
	return usable() || refuse(w, "%s", missing);
}

const char *onednn_about(void)
{
	usable();
	return about;
}

static const char *status_text(dnnl_status_t s)
{
	static const char *const text[] = {"success",
					   "out of memory",
					   "invalid arguments",
					   "unimplemented",
					   "last implementation reached",
					   "runtime error",
					   "not required"};
	return (size_t)s < sizeof(text) / sizeof(text[0]) ? text[s] : "unknown status";
}

/* The one place where the library's statuses become ours; what: the call that failed. */
static int failed(struct diag *d, dnnl_status_t s, const char *what)
{
	return FAIL(d, s == dnnl_out_of_memory ? E_MEMORY : E_LIBRARY,
		    .message = "oneDNN refused a call",
		    .actual = fmt(d, "%s: %s", what, status_text(s)));
}

#define TRY(d, call)                                                                               \
	do {                                                                                       \
		dnnl_status_t status_ = api.call;                                                  \
		if (status_ != dnnl_success)                                                       \
			return failed((d), status_, #call);                                        \
	} while (0)

/* ---- programs ------------------------------------------------------------------------------- */

enum place {
	AT_NONE,
	AT_IN,	    /* input index */
	AT_OUT,	    /* output index */
	AT_WORK,    /* offset in the workspace */
	AT_SCRATCH, /* the primitives' common scratchpad, behind the rest of the workspace */
	AT_FIXED,   /* an address: packed weights */
};
struct at {
	enum place place;
	uint32_t index;
	size_t offset;
	const void *fixed;
};
#define IN(i)	((struct at){.place = AT_IN, .index = (i)})
#define OUT0	((struct at){.place = AT_OUT})
#define WORK(o) ((struct at){.place = AT_WORK, .offset = (o)})

enum action_kind {
	DO_PRIMITIVE,
	DO_WIDEN,  /* count elements of dtype at[0] to fp32 at[1] */
	DO_NARROW, /* the other way */
	DO_COPY,   /* bytes, unless both are one place */
	DO_EXPAND, /* count fp32 elements of at[0] repeated to fill rows * cols of at[1]: see repeat */
};
struct action {
	enum action_kind kind;
	uint32_t n;
	struct at at[MAX_ARGS];
	dnnl_exec_arg_t arg[MAX_ARGS];
	dnnl_primitive_t primitive;
	enum dtype dtype;
	int64_t count;
	/* DO_EXPAND: shape of the target, strides of the source in elements */
	int rank;
	int64_t dim[MAX_RANK], stride[MAX_RANK];
};
struct program {
	uint32_t n;
	struct action action[MAX_ACTIONS];
	size_t work, scratch;
};

/* What reshape functions share while they make a program. */
struct build {
	struct site *s;
	struct step *step;
	struct program *p;
	struct diag *d;
};

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static struct at take_work(struct build *b, size_t bytes)
{
	struct at at = WORK(b->p->work);
	b->p->work += aligned(bytes);
	return at;
}

static struct action *add_action(struct build *b, enum action_kind kind)
{
	struct action *a = &b->p->action[b->p->n++];
	a->kind = kind;
	return a;
}

static void build_start(struct build *b, struct site *s, struct step *step, struct diag *d)
{
	*b = (struct build){.s = s, .step = step, .d = d};
	b->p = arena_new(s->plan_arena, struct program);
	step->state = b->p;
}

static int build_end(struct build *b)
{
	b->step->workspace = b->p->work + b->p->scratch;
	return 0;
}

static void *address(const struct call *c, const struct program *p, const struct at *at)
{
	switch (at->place) {
	case AT_IN: return (char *)c->in[at->index]->data + at->offset;
	case AT_OUT: return (char *)c->out[at->index]->data + at->offset;
	case AT_WORK: return (char *)c->workspace + at->offset;
	case AT_SCRATCH: return (char *)c->workspace + p->work;
	case AT_FIXED: return (void *)(uintptr_t)at->fixed;
	case AT_NONE: break;
	}
	return NULL;
}

struct conversion {
	enum action_kind kind;
	enum dtype dtype;
	const void *from;
	void *to;
};

static void convert_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct conversion *v = arg;
	(void)thread;
	if (v->kind == DO_WIDEN)
		simd_to_f32(v->dtype, v->from, begin, end - begin, (float *)v->to + begin);
	else
		simd_from_f32(v->dtype, (const float *)v->from + begin, end - begin, v->to, begin);
}

/* The strided source repeated over the dense target. */
static void expand(const struct action *a, const float *from, float *to)
{
	int64_t pos[MAX_RANK] = {0}, inner = a->dim[a->rank - 1], step = a->stride[a->rank - 1];
	for (int64_t done = 0; done < a->count; done += inner) {
		const float *row = from;
		for (int i = 0; i < a->rank - 1; i++)
			row += pos[i] * a->stride[i];
		if (step)
			memcpy(to + done, row, (size_t)inner * sizeof(float));
		else
			for (int64_t k = 0; k < inner; k++)
				to[done + k] = *row;
		for (int i = a->rank - 2; i >= 0 && ++pos[i] == a->dim[i]; i--)
			pos[i] = 0;
	}
}

static int run_primitive(const struct call *c, const struct program *p, const struct action *a)
{
	for (uint32_t i = 0; i < a->n; i++) {
		dnnl_status_t s =
			api.dnnl_memory_set_data_handle(a->arg[i].memory, address(c, p, &a->at[i]));
		if (s != dnnl_success)
			return failed(c->diag, s, "dnnl_memory_set_data_handle");
	}
	dnnl_status_t s = api.dnnl_primitive_execute(a->primitive, stream, (int)a->n, a->arg);
	return s == dnnl_success ? 0 : failed(c->diag, s, "dnnl_primitive_execute");
}

int onednn_run(const struct call *c)
{
	const struct program *p = c->step->state;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct action *a = &p->action[i];
		if (a->kind == DO_PRIMITIVE) {
			int r = run_primitive(c, p, a);
			if (r)
				return r;
			continue;
		}
		const void *from = address(c, p, &a->at[0]);
		void *to = address(c, p, &a->at[1]);
		if (a->kind == DO_EXPAND) {
			expand(a, from, to);
		} else if (a->kind == DO_COPY) {
			if (from != to)
				memcpy(to, from, (size_t)a->count);
		} else {
			struct conversion v = {a->kind, a->dtype, from, to};
			pool_for(a->count, 16384, convert_piece, &v);
		}
	}
	return 0;
}

void onednn_drop(struct step *step)
{
	struct program *p = step->state;
	for (uint32_t i = 0; p && i < p->n; i++) {
		struct action *a = &p->action[i];
		for (uint32_t k = 0; k < a->n; k++)
			if (a->arg[k].memory)
				api.dnnl_memory_destroy(a->arg[k].memory);
		if (a->primitive)
			api.dnnl_primitive_destroy(a->primitive);
	}
	if (p)
		p->n = 0;
}

static int add_argument(struct build *b, struct action *a, int which, const_dnnl_memory_desc_t md,
			struct at at)
{
	dnnl_exec_arg_t *arg = &a->arg[a->n];
	TRY(b->d, dnnl_memory_create(&arg->memory, md, engine, DNNL_MEMORY_NONE));
	arg->arg = which;
	a->at[a->n++] = at;
	return 0;
}

static const_dnnl_memory_desc_t pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
	return api.dnnl_primitive_desc_query_md(pd, what, 0);
}

/* The primitive of pd as the program's next action, its scratchpad taken care of. */
static int add_primitive(struct build *b, const_dnnl_primitive_desc_t pd, struct action **out)
{
	struct action *a = *out = add_action(b, DO_PRIMITIVE);
	TRY(b->d, dnnl_primitive_create(&a->primitive, pd));
	const_dnnl_memory_desc_t md = pd_md(pd, dnnl_query_scratchpad_md);
	size_t bytes = md ? api.dnnl_memory_desc_get_size(md) : 0;
	if (!bytes)
		return 0;
	if (bytes > b->p->scratch)
		b->p->scratch = aligned(bytes);
	return add_argument(b, a, DNNL_ARG_SCRATCHPAD, md, (struct at){.place = AT_SCRATCH});
}

static void add_convert(struct build *b, enum action_kind kind, enum dtype t, int64_t count,
			struct at from, struct at to)
{
	struct action *a = add_action(b, kind);
	a->dtype = t;
	a->count = count;
	a->at[0] = from;
	a->at[1] = to;
}

static size_t f32_bytes(int64_t count)
{
	return (size_t)count * sizeof(float);
}

/* Whether the program's data fit in memory at all: counts are checked before sizes are made of them. */
static bool counts_fit(const struct site *s)
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

/* ---- memory descriptors ---------------------------------------------------------------------- */

/* Everything that a reshape makes and must destroy, whatever happens. */
struct made {
	dnnl_memory_desc_t md[12];
	int nmd;
	dnnl_post_ops_t ops;
	dnnl_primitive_attr_t attr;
	dnnl_primitive_desc_t pd;
};

static void made_free(struct made *m)
{
	for (int i = 0; i < m->nmd; i++)
		api.dnnl_memory_desc_destroy(m->md[i]);
	if (m->ops)
		api.dnnl_post_ops_destroy(m->ops);
	if (m->attr)
		api.dnnl_primitive_attr_destroy(m->attr);
	if (m->pd)
		api.dnnl_primitive_desc_destroy(m->pd);
	*m = (struct made){0};
}

/* NULL where the library refuses, which the call that uses it will then tell. */
static dnnl_memory_desc_t md_tag(struct made *m, int n, const dnnl_dim_t *dims, dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t md;
	if (api.dnnl_memory_desc_create_with_tag(&md, n, dims, dnnl_f32, tag))
		return NULL;
	return m->md[m->nmd++] = md;
}

static dnnl_memory_desc_t md_strides(struct made *m, int n, const dnnl_dim_t *dims,
				     const dnnl_dim_t *strides)
{
	dnnl_memory_desc_t md;
	if (api.dnnl_memory_desc_create_with_strides(&md, n, dims, dnnl_f32, strides))
		return NULL;
	return m->md[m->nmd++] = md;
}

static dnnl_memory_desc_t md_vector(struct made *m, dnnl_dim_t n)
{
	dnnl_dims_t dims = {n};
	return md_tag(m, 1, dims, dnnl_a);
}

/* Row-major. */
static dnnl_memory_desc_t md_row(struct made *m, int n, const dnnl_dim_t *dims)
{
	dnnl_dims_t strides;
	dnnl_dim_t step = 1;
	for (int i = n - 1; i >= 0; i--) {
		strides[i] = step;
		step *= dims[i];
	}
	return md_strides(m, n, dims, strides);
}

static dnnl_format_tag_t layout_tag(enum layout l, int rank)
{
	static const dnnl_format_tag_t tags[][3] = {
		[LAYOUT_ROW] = {dnnl_ncw, dnnl_nchw, dnnl_ncdhw},
		[LAYOUT_CHANNELS_LAST] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc},
		[LAYOUT_BLOCK8] = {dnnl_nCw8c, dnnl_nChw8c, dnnl_nCdhw8c},
		[LAYOUT_BLOCK16] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c},
	};
	return tags[l][rank - 3];
}

/* Whether two layouts put this shape's elements in the same places. */
static bool layouts_same(const struct shape *s, enum layout a, enum layout b)
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

/* Our name for the library's choice; false where we have none. */
static bool layout_find(const_dnnl_memory_desc_t md, const struct shape *s, enum layout *out)
{
	for (int l = LAYOUT_ROW; l <= LAYOUT_BLOCK16; l++) {
		dnnl_memory_desc_t is;
		if (api.dnnl_memory_desc_create_with_tag(&is, s->rank, s->dim, dnnl_f32,
							 layout_tag((enum layout)l, s->rank)))
			continue;
		bool same = api.dnnl_memory_desc_equal(is, md);
		api.dnnl_memory_desc_destroy(is);
		if (same) {
			*out = (enum layout)l;
			return true;
		}
	}
	return false;
}

/* A description of md that is equal where the bytes lie equally: a key of the store. */
static const char *md_text(struct arena *a, const_dnnl_memory_desc_t md, const char *use)
{
	int n = 0, blocks = 0;
	const dnnl_dims_t *padded = NULL, *strides = NULL, *sizes = NULL, *which = NULL;
	api.dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &n);
	api.dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded);
	api.dnnl_memory_desc_query(md, dnnl_query_strides, &strides);
	api.dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &blocks);
	api.dnnl_memory_desc_query(md, dnnl_query_inner_blks, &sizes);
	api.dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &which);
	if (!padded || !strides)
		return NULL; /* opaque: cannot be shared */
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

/* ---- operands -------------------------------------------------------------------------------- */

/* fp32 elements that the value takes in the layout: those that pad its blocks too. */
static int64_t stored(const struct vinfo *v, enum layout l)
{
	size_t bytes = 0;
	tensor_bytes(DT_F32, &v->shape, l, &bytes);
	return (int64_t)(bytes / sizeof(float));
}

/* Input i as fp32 in the layout it comes in, widened at run where its type asks for that. */
static struct at operand_in(struct build *b, uint32_t i, enum layout l)
{
	const struct vinfo *v = site_in(b->s, i);
	if (v->type.dtype == DT_F32)
		return IN(i);
	int64_t count = stored(v, l);
	struct at to = take_work(b, f32_bytes(count));
	add_convert(b, DO_WIDEN, (enum dtype)v->type.dtype, count, IN(i), to);
	return to;
}

static struct at operand(struct build *b, uint32_t i)
{
	return operand_in(b, i, LAYOUT_ROW);
}

struct packing {
	const_dnnl_memory_desc_t from, to;
	float scale;
	struct diag *d;
};

/* Moves data between two descriptions of the same elements, now. */
static int reorder_now(const struct packing *p, const void *src, void *dst)
{
	dnnl_primitive_desc_t pd = NULL;
	dnnl_primitive_t primitive = NULL;
	dnnl_memory_t from = NULL, to = NULL;
	dnnl_status_t s;
	(void)((s = api.dnnl_reorder_primitive_desc_create(&pd, p->from, engine, p->to, engine, NULL)) ||
	       (s = api.dnnl_primitive_create(&primitive, pd)) ||
	       (s = api.dnnl_memory_create(&from, p->from, engine, (void *)(uintptr_t)src)) ||
	       (s = api.dnnl_memory_create(&to, p->to, engine, dst)));
	if (!s) {
		dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
		s = api.dnnl_primitive_execute(primitive, stream, 2, arg);
	}
	if (from)
		api.dnnl_memory_destroy(from);
	if (to)
		api.dnnl_memory_destroy(to);
	if (primitive)
		api.dnnl_primitive_destroy(primitive);
	if (pd)
		api.dnnl_primitive_desc_destroy(pd);
	return s ? failed(p->d, s, "packing weights") : 0;
}

/* What pack_f32 is told of the two layouts; false where it cannot do them. */
static bool pack_plan(const struct packing *p, struct pack *out)
{
	const dnnl_dims_t *dims = NULL, *from = NULL, *to = NULL, *padded = NULL, *blks = NULL,
			  *idxs = NULL;
	dnnl_format_kind_t kind = dnnl_format_kind_undef;
	int blocked = 0;
	api.dnnl_memory_desc_query(p->to, dnnl_query_format_kind, &kind);
	if (kind != dnnl_blocked)
		return false;
	api.dnnl_memory_desc_query(p->to, dnnl_query_ndims_s32, &out->rank);
	api.dnnl_memory_desc_query(p->to, dnnl_query_dims, &dims);
	api.dnnl_memory_desc_query(p->to, dnnl_query_padded_dims, &padded);
	api.dnnl_memory_desc_query(p->to, dnnl_query_strides, &to);
	api.dnnl_memory_desc_query(p->to, dnnl_query_inner_nblks_s32, &out->blocks);
	api.dnnl_memory_desc_query(p->to, dnnl_query_inner_blks, &blks);
	api.dnnl_memory_desc_query(p->to, dnnl_query_inner_idxs, &idxs);
	api.dnnl_memory_desc_query(p->from, dnnl_query_strides, &from);
	api.dnnl_memory_desc_query(p->from, dnnl_query_inner_nblks_s32, &blocked);
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
	out->bytes = api.dnnl_memory_desc_get_size(p->to);
	return true;
}

static int pack_now(const struct packing *p, const float *src, void *dst)
{
	struct pack plan = {0};
	if (pack_plan(p, &plan) && pack_f32(&plan, src, dst))
		return 0;
	return reorder_now(p, src, dst);
}

/* For store_get: t in the layout `to`, as fp32, times scale. */
static int pack(void *dst, const struct tensor *t, void *arg)
{
	const struct packing *p = arg;
	int64_t count = tensor_count(t);
	if (tensor_dtype(t) == DT_F32 && p->scale == 1)
		return pack_now(p, t->data, dst);
	float *wide = mem_alloc(f32_bytes(count), MEM_STAGING);
	if (!wide)
		return FAIL(p->d, E_MEMORY, .actual = fmt(p->d, "%zu bytes", f32_bytes(count)));
	simd_to_f32(tensor_dtype(t), t->data, 0, count, wide);
	for (int64_t i = 0; p->scale != 1 && i < count; i++)
		wide[i] *= p->scale;
	int r = pack_now(p, wide, dst);
	mem_free(wide);
	return r;
}

/* Both layouts: one initializer may be used as it is and transposed. */
static const char *weights_key(struct arena *a, const_dnnl_memory_desc_t from,
			       const_dnnl_memory_desc_t to, float scale)
{
	const char *f = md_text(a, from, "as"), *t = md_text(a, to, "to");
	if (!f || !t || strlen(f) + strlen(t) > KEY_MAX)
		return NULL;
	return arena_printf(a, "onednn * %a %s %s", (double)scale, f, t);
}

/*
 * Input i, whose elements lie as `from` says, in the layout `to`: packed once into the session's
 * store where it is a weight, else at each run. scale is for weights only.
 */
static int weights(struct build *b, uint32_t i, const_dnnl_memory_desc_t from,
		   const_dnnl_memory_desc_t to, float scale, struct at *out)
{
	const struct vinfo *v = site_in(b->s, i);
	bool same = api.dnnl_memory_desc_equal(from, to);
	if (same && v->type.dtype == DT_F32 && scale == 1) {
		*out = IN(i);
		return 0;
	}
	size_t bytes = api.dnnl_memory_desc_get_size(to);
	const char *key = NULL;
	if (b->s->store && site_is_weight(b->s, i) && site_known(b->s, i))
		key = weights_key(b->s->plan_arena, from, to, scale);
	if (key) {
		struct packing p = {from, to, scale, b->d};
		const void *fixed =
			store_get(b->s->store, site_known(b->s, i), key, bytes, pack, &p, b->d);
		*out = (struct at){.place = AT_FIXED, .fixed = fixed};
		return fixed ? 0 : -E_MEMORY;
	}
	*out = operand(b, i);
	if (same)
		return 0;
	struct action *a;
	struct made m = {0};
	struct at packed = take_work(b, bytes);
	dnnl_status_t s =
		api.dnnl_reorder_primitive_desc_create(&m.pd, from, engine, to, engine, NULL);
	int r = s ? failed(b->d, s, "reorder of weights") : add_primitive(b, m.pd, &a);
	r = r ? r : add_argument(b, a, DNNL_ARG_FROM, from, *out);
	r = r ? r : add_argument(b, a, DNNL_ARG_TO, to, packed);
	made_free(&m);
	*out = packed;
	return r;
}

/* The output as the primitives see it: fp32; result_end rounds it where the type asks for that. */
static struct at result(struct build *b, enum layout l)
{
	const struct vinfo *v = site_out(b->s, 0);
	return v->type.dtype == DT_F32 ? OUT0 : take_work(b, f32_bytes(stored(v, l)));
}

static void result_end(struct build *b, enum layout l, struct at at)
{
	const struct vinfo *v = site_out(b->s, 0);
	if (v->type.dtype != DT_F32)
		add_convert(b, DO_NARROW, (enum dtype)v->type.dtype, stored(v, l), at, OUT0);
}

/* Input i into the result's memory, for a sum: in place where the plan can have it so. */
static void residual(struct build *b, uint32_t i, enum layout l, struct at to)
{
	const struct vinfo *v = site_in(b->s, i);
	if (v->type.dtype != DT_F32) {
		add_convert(b, DO_WIDEN, (enum dtype)v->type.dtype, stored(v, l), IN(i), to);
		return;
	}
	struct action *a = add_action(b, DO_COPY);
	a->at[0] = IN(i);
	a->at[1] = to;
	a->count = (int64_t)f32_bytes(stored(v, l));
	b->step->inplace[b->step->ninplace].out = 0;
	b->step->inplace[b->step->ninplace++].in = (uint8_t)i;
}

/* ---- activations ----------------------------------------------------------------------------- */

static int add_eltwise(struct build *b, struct made *m, dnnl_alg_kind_t alg, float alpha, float beta)
{
	TRY(b->d, dnnl_post_ops_append_eltwise(m->ops, alg, alpha, beta));
	return 0;
}

static int add_activation(struct build *b, struct made *m, int act, float alpha, float beta)
{
	static const dnnl_alg_kind_t alg[ACT_COUNT] = {
		[ACT_RELU] = dnnl_eltwise_relu,
		[ACT_CLIP] = dnnl_eltwise_clip,
		[ACT_SIGMOID] = dnnl_eltwise_logistic,
		[ACT_SILU] = dnnl_eltwise_swish,
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
	if (act == ACT_NONE)
		return 0;
	if (act == ACT_RELU)
		alpha = beta = 0;
	if (act == ACT_SOFTPLUS)
		alpha = 1;
	return add_eltwise(b, m, alg[act], alpha, beta);
}

/* post-ops and a scratchpad of ours */
static int attributes(struct build *b, struct made *m)
{
	TRY(b->d, dnnl_primitive_attr_create(&m->attr));
	TRY(b->d, dnnl_primitive_attr_set_scratchpad_mode(m->attr, dnnl_scratchpad_mode_user));
	TRY(b->d, dnnl_primitive_attr_set_post_ops(m->attr, m->ops));
	return 0;
}

/* ---- convolution ----------------------------------------------------------------------------- */

struct conv_step {
	struct window w;
	int64_t group;
	int act;
	float alpha, beta;
	bool transposed;
	uint32_t bias, sum; /* inputs; UINT32_MAX: none */
	/* as the library wants them */
	int rank;
	dnnl_dims_t src, dst, weights, weight_strides, strides, dilates, begin, end;
};

/* W's dims and where its elements lie; of a transposed one the first two dims change places. */
static void conv_weights(struct conv_step *c, const struct shape *w)
{
	int64_t g = c->group, n = c->w.n, kernel = window_size(&c->w), ic, oc, i_step, o_step, g_step;
	if (c->transposed) {
		ic = w->dim[0] / g;
		oc = w->dim[1];
		o_step = kernel;
		i_step = oc * kernel;
		g_step = ic * i_step;
	} else {
		oc = w->dim[0] / g;
		ic = w->dim[1];
		i_step = kernel;
		o_step = ic * kernel;
		g_step = oc * o_step;
	}
	int k = 0;
	if (g > 1) {
		c->weights[k] = g;
		c->weight_strides[k++] = g_step;
	}
	c->weights[k] = oc;
	c->weight_strides[k++] = o_step;
	c->weights[k] = ic;
	c->weight_strides[k++] = i_step;
	for (int i = 0; i < n; i++, k++) {
		c->weights[k] = c->w.kernel[i];
		kernel /= c->w.kernel[i];
		c->weight_strides[k] = kernel;
	}
}

static void conv_dims(const struct site *s, struct conv_step *c)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	c->rank = x->rank;
	for (int i = 0; i < x->rank; i++) {
		c->src[i] = x->dim[i];
		c->dst[i] = y->dim[i];
	}
	for (int i = 0; i < c->w.n; i++) {
		c->strides[i] = c->w.stride[i];
		c->dilates[i] = c->w.dilation[i] - 1;
		c->begin[i] = c->w.begin[i];
		c->end[i] = c->w.end[i];
	}
	conv_weights(c, &site_in(s, 1)->shape);
}

/* The library's choice for these layouts of input and output (`any` where tag says so). */
static int conv_choose(struct build *b, struct made *m, const struct conv_step *c,
		       dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t src = md_tag(m, c->rank, c->src, tag),
			   dst = md_tag(m, c->rank, c->dst, tag);
	dnnl_memory_desc_t w = md_tag(m, c->rank + (c->group > 1), c->weights, dnnl_format_tag_any);
	dnnl_memory_desc_t bias = NULL;
	dnnl_dims_t strides, dilates, begin, end;
	if (c->bias != UINT32_MAX)
		bias = md_vector(m, c->dst[1]);
	memcpy(strides, c->strides, sizeof(strides));
	memcpy(dilates, c->dilates, sizeof(dilates));
	memcpy(begin, c->begin, sizeof(begin));
	memcpy(end, c->end, sizeof(end));
	if (m->pd)
		api.dnnl_primitive_desc_destroy(m->pd);
	m->pd = NULL;
	if (c->transposed)
		TRY(b->d, dnnl_deconvolution_forward_primitive_desc_create(
				  &m->pd, engine, dnnl_forward_inference, dnnl_deconvolution_direct,
				  src, w, bias, dst, strides, dilates, begin, end, m->attr));
	else
		TRY(b->d, dnnl_convolution_forward_primitive_desc_create(
				  &m->pd, engine, dnnl_forward_inference, dnnl_convolution_direct,
				  src, w, bias, dst, strides, dilates, begin, end, m->attr));
	return 0;
}

static bool is_reference(const_dnnl_primitive_desc_t pd)
{
	const char *name = NULL;
	api.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
	return name && strncmp(name, "ref", 3) == 0;
}

/* Chooses, and finds our names for the chosen layouts. */
static int conv_layouts(struct build *b, struct made *m, const struct conv_step *c,
			enum layout *src, enum layout *dst)
{
	const struct shape *x = &site_in(b->s, 0)->shape, *y = &site_out(b->s, 0)->shape;
	int r = conv_choose(b, m, c, dnnl_format_tag_any);
	if (r)
		return r;
	if (layout_find(pd_md(m->pd, dnnl_query_src_md), x, src) &&
	    layout_find(pd_md(m->pd, dnnl_query_dst_md), y, dst) && !is_reference(m->pd))
		return 0;
	/* no layout of ours, or slow: see whether a common one is better */
	static const enum layout others[] = {LAYOUT_CHANNELS_LAST, LAYOUT_ROW};
	for (size_t i = 0; i < 2; i++) {
		*src = *dst = others[i];
		r = conv_choose(b, m, c, layout_tag(others[i], c->rank));
		if (r || !is_reference(m->pd))
			return r;
	}
	return 0;
}

/* The layouts that the plan should bring and may expect. */
static void conv_declare(struct build *b, const struct conv_step *c, enum layout src, enum layout dst)
{
	const struct vinfo *x = site_in(b->s, 0), *y = site_out(b->s, 0);
	enum layout *want = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nin);
	enum layout *give = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nout);
	want[0] = layouts_same(&x->shape, src, x->layout) ? x->layout : src;
	give[0] = layouts_same(&y->shape, dst, LAYOUT_ROW) ? LAYOUT_ROW : dst;
	if (c->sum != UINT32_MAX)
		want[c->sum] = give[0];
	b->step->want = want;
	b->step->give = give;
}

static int conv_operands(struct build *b, struct made *m, const struct conv_step *c,
			 enum layout src, enum layout dst)
{
	struct at x, w, bias = {0}, y;
	struct action *a;
	dnnl_memory_desc_t given =
		md_strides(m, c->rank + (c->group > 1), c->weights, c->weight_strides);
	int r = weights(b, 1, given, pd_md(m->pd, dnnl_query_weights_md), 1, &w);
	if (r)
		return r;
	x = operand_in(b, 0, src);
	if (c->bias != UINT32_MAX)
		bias = operand(b, c->bias);
	y = result(b, dst);
	if (c->sum != UINT32_MAX)
		residual(b, c->sum, dst, y);
	r = add_primitive(b, m->pd, &a);
	r = r ? r : add_argument(b, a, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), x);
	r = r ? r : add_argument(b, a, DNNL_ARG_WEIGHTS, pd_md(m->pd, dnnl_query_weights_md), w);
	if (!r && c->bias != UINT32_MAX) {
		dnnl_memory_desc_t md = md_vector(m, c->dst[1]);
		r = add_argument(b, a, DNNL_ARG_BIAS, md, bias);
	}
	r = r ? r : add_argument(b, a, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), y);
	result_end(b, dst, y);
	return r;
}

static int conv_build(struct build *b, struct conv_step *c)
{
	struct made m = {0};
	enum layout src, dst;
	int r = 0;
	conv_dims(b->s, c);
	if (api.dnnl_post_ops_create(&m.ops))
		return failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	if (c->sum != UINT32_MAX && api.dnnl_post_ops_append_sum(m.ops, 1, 0, dnnl_f32))
		r = failed(b->d, dnnl_invalid_arguments, "dnnl_post_ops_append_sum");
	r = r ? r : add_activation(b, &m, c->act, c->alpha, c->beta);
	r = r ? r : attributes(b, &m);
	r = r ? r : conv_layouts(b, &m, c, &src, &dst);
	if (!r) {
		conv_declare(b, c, src, dst);
		r = conv_operands(b, &m, c, src, dst);
	}
	made_free(&m);
	return r ? r : build_end(b);
}

static bool known_zero(const struct shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] == 0)
			return true;
	return false;
}

/* Generated code counts elements in 32 bits here and there. */
static bool sizes_accept(const struct site *s, struct why *w)
{
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (site_in(s, i) && shape_count(&site_in(s, i)->shape) > INT32_MAX)
			return refuse(w, "input %u has more than 2^31 elements", i);
	if (shape_count(&site_out(s, 0)->shape) > INT32_MAX)
		return refuse(w, "the output has more than 2^31 elements");
	return true;
}

/* What conv, deconv and pooling ask of their first two inputs. */
static bool spatial_accepts(const struct site *s, struct why *w)
{
	const struct vinfo *x = site_in(s, 0);
	if (!onednn_usable(w))
		return false;
	if (x->shape.rank < 3 || x->shape.rank > 5)
		return refuse(w, "rank %d", x->shape.rank);
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (site_in(s, i) && known_zero(&site_in(s, i)->shape))
			return refuse(w, "input %u is empty", i);
	if (known_zero(&site_out(s, 0)->shape))
		return refuse(w, "the output is empty");
	return sizes_accept(s, w);
}

/* Pads that the library takes. */
static bool pads_accept(const struct ints *pads, struct why *w)
{
	for (int64_t i = 0; i < pads->n; i++)
		if (pads->v[i] < 0)
			return refuse(w, "a negative pad");
	return true;
}

static bool nothing_to_do(const struct site *s)
{
	return shape_count(&site_out(s, 0)->shape) == 0;
}

/* The window of a Conv's attributes, and the rest. */
static int conv_reshape(struct build *b, struct conv_step *c, const struct window_attrs *a)
{
	const struct site *s = b->s;
	if (nothing_to_do(s))
		return 0;
	const char *wrong = counts_fit(s) ? window_set(&c->w, a, &site_in(s, 0)->shape,
						       &site_in(s, 1)->shape, false, b->d)
					  : "sizes that fit in memory";
	if (wrong)
		return FAIL(b->d, E_SHAPE, .expected = wrong);
	return conv_build(b, c);
}

bool onednn_conv_accepts(const struct site *s, struct why *w)
{
	const struct conv *p = site_params(s);
	return spatial_accepts(s, w) && pads_accept(&p->window.pads, w);
}

int onednn_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct conv *p = site_params(s);
	struct conv_step c = {
		.group = p->group, .bias = site_in(s, 2) ? 2 : UINT32_MAX, .sum = UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	return conv_reshape(&b, &c, &p->window);
}

static struct window_attrs fused_window(const struct fused_conv *p)
{
	return (struct window_attrs){p->auto_pad, p->dilations, p->kernel_shape, p->pads, p->strides};
}

bool onednn_fused_conv_accepts(const struct site *s, struct why *w)
{
	const struct fused_conv *p = site_params(s);
	return spatial_accepts(s, w) && pads_accept(&p->pads, w);
}

int onednn_fused_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	struct window_attrs a = fused_window(p);
	struct conv_step c = {.group = p->group,
			      .act = p->act,
			      .alpha = p->act_alpha,
			      .beta = p->act_beta,
			      .bias = site_in(s, 2) ? 2 : UINT32_MAX,
			      .sum = site_in(s, 3) ? 3 : UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	return conv_reshape(&b, &c, &a);
}

bool onednn_deconv_accepts(const struct site *s, struct why *w)
{
	const struct conv_transpose *p = site_params(s);
	if (!spatial_accepts(s, w) || !pads_accept(&p->window.pads, w))
		return false;
	/* these make the window end beyond what the library's formula gives */
	for (int64_t i = 0; i < p->output_padding.n; i++)
		if (p->output_padding.v[i])
			return refuse(w, "output_padding");
	return p->output_shape.n <= 0 || refuse(w, "output_shape");
}

int onednn_deconv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct conv_transpose *p = site_params(s);
	struct conv_step c = {.group = p->group,
			      .transposed = true,
			      .bias = site_in(s, 2) ? 2 : UINT32_MAX,
			      .sum = UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	if (nothing_to_do(s))
		return 0;
	const char *wrong = counts_fit(s) ? conv_transpose_window(&c.w, p, &site_in(s, 0)->shape,
								  &site_in(s, 1)->shape, d)
					  : "sizes that fit in memory";
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	return conv_build(&b, &c);
}

/* ---- matrix product -------------------------------------------------------------------------- */

enum { NO_INPUT = UINT8_MAX };

struct product {
	float alpha, beta;
	bool trans_a, trans_b;
	int act;
	float act_alpha, act_beta;
	uint8_t c, r; /* inputs; NO_INPUT: none */
	/* batch dims, then rows and columns; a batch dim of 1 repeats */
	int rank;
	dnnl_dims_t a, a_step, b, b_step, y;
};

/* Batch dims of A and B as few as can be: those that behave alike are taken together. */
static void product_batch(struct product *p, const struct shape *a, const struct shape *b, int n)
{
	int64_t as[MAX_RANK + 1], bs[MAX_RANK + 1]; /* of the merged dims, outermost first */
	int last = -1, k = 0;
	for (int i = 0; i < n; i++) {
		int ia = i - n + a->rank - 2, ib = i - n + b->rank - 2;
		int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
		int kind = da == db ? 0 : da == 1 ? 1 : 2;
		if (da == 1 && db == 1)
			continue;
		if (kind == last) {
			as[k - 1] *= da;
			bs[k - 1] *= db;
		} else {
			as[k] = da;
			bs[k++] = db;
		}
		last = kind;
	}
	p->rank = k + 2;
	for (int i = 0; i < k; i++) {
		p->a[i] = as[i];
		p->b[i] = bs[i];
		p->y[i] = as[i] > bs[i] ? as[i] : bs[i];
	}
}

/* Strides of an operand whose last two dims are rows x cols, dense, perhaps transposed. */
static void product_steps(int rank, const dnnl_dim_t *dim, bool transposed, dnnl_dim_t *step)
{
	int64_t rows = dim[rank - 2], cols = dim[rank - 1], at = rows * cols;
	step[rank - 2] = transposed ? 1 : cols;
	step[rank - 1] = transposed ? rows : 1;
	for (int i = rank - 3; i >= 0; i--) {
		step[i] = at;
		at *= dim[i];
	}
}

static void product_dims(struct product *p, struct shape a, struct shape b)
{
	if (a.rank == 1)
		a = shape_of(2, (int64_t[]){1, a.dim[0]});
	if (b.rank == 1)
		b = shape_of(2, (int64_t[]){b.dim[0], 1});
	if (shape_span(&b, 0, b.rank - 2) == 1) {
		b = shape_of(2, &b.dim[b.rank - 2]);
		if (!p->trans_a) /* one product of all rows */
			a = shape_of(2, (int64_t[]){shape_span(&a, 0, a.rank - 1), a.dim[a.rank - 1]});
	}
	int n = (a.rank > b.rank ? a.rank : b.rank) - 2;
	product_batch(p, &a, &b, n);
	int64_t *da = &p->a[p->rank - 2], *db = &p->b[p->rank - 2];
	da[0] = a.dim[a.rank - (p->trans_a ? 1 : 2)];
	da[1] = a.dim[a.rank - (p->trans_a ? 2 : 1)];
	db[0] = b.dim[b.rank - (p->trans_b ? 1 : 2)];
	db[1] = b.dim[b.rank - (p->trans_b ? 2 : 1)];
	p->y[p->rank - 2] = da[0];
	p->y[p->rank - 1] = db[1];
	product_steps(p->rank, p->a, p->trans_a, p->a_step);
	product_steps(p->rank, p->b, p->trans_b, p->b_step);
}

/* What becomes of C: nothing, a bias of the product, or the start of the result that is summed on. */
enum addend { C_NONE, C_BIAS, C_SUM };

static enum addend addend_kind(const struct build *b, const struct product *p)
{
	if (p->c == NO_INPUT || p->beta == 0)
		return C_NONE;
	const struct shape *c = &site_in(b->s, p->c)->shape;
	int64_t n = p->y[p->rank - 1];
	bool row = c->rank >= 1 && c->dim[c->rank - 1] == n && shape_count(c) == n;
	return row && p->beta == 1 && p->alpha == 1 ? C_BIAS : C_SUM;
}

/* C, repeated over the result. */
static void addend_expand(struct build *b, const struct product *p, struct at to)
{
	const struct vinfo *c = site_in(b->s, p->c), *y = site_out(b->s, 0);
	struct at from = operand(b, p->c);
	struct action *a = add_action(b, DO_EXPAND);
	struct shape as = y->shape;
	if (!as.rank)
		as = shape_of(1, (int64_t[]){1});
	a->at[0] = from;
	a->at[1] = to;
	a->count = shape_count(&as);
	a->rank = as.rank;
	memcpy(a->dim, as.dim, sizeof(a->dim));
	shape_broadcast_strides(&c->shape, &as, a->stride);
}

static int product_ops(struct build *b, struct made *m, const struct product *p, enum addend c)
{
	if (api.dnnl_post_ops_create(&m->ops))
		return failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	int r = 0;
	if (p->alpha != 1)
		r = add_eltwise(b, m, dnnl_eltwise_linear, p->alpha, 0);
	if (r)
		return r;
	if (c == C_SUM)
		TRY(b->d, dnnl_post_ops_append_sum(m->ops, p->beta, 0, dnnl_f32));
	if (p->r != NO_INPUT && c == C_SUM)
		TRY(b->d,
		    dnnl_post_ops_append_binary(m->ops, dnnl_binary_add, md_row(m, p->rank, p->y)));
	else if (p->r != NO_INPUT)
		TRY(b->d, dnnl_post_ops_append_sum(m->ops, 1, 0, dnnl_f32));
	r = add_activation(b, m, p->act, p->act_alpha, p->act_beta);
	return r ? r : attributes(b, m);
}

static int product_choose(struct build *b, struct made *m, struct product *p, enum addend c,
			  dnnl_memory_desc_t *bias)
{
	dnnl_dims_t dims;
	bool packed = site_is_weight(b->s, 1) && b->s->store;
	dnnl_memory_desc_t a = md_strides(m, p->rank, p->a, p->a_step), y = md_row(m, p->rank, p->y);
	dnnl_memory_desc_t w = packed ? md_tag(m, p->rank, p->b, dnnl_format_tag_any)
				      : md_strides(m, p->rank, p->b, p->b_step);
	for (int i = 0; i < p->rank; i++)
		dims[i] = i == p->rank - 1 ? p->y[i] : 1;
	*bias = c == C_BIAS ? md_row(m, p->rank, dims) : NULL;
	TRY(b->d, dnnl_matmul_primitive_desc_create(&m->pd, engine, a, w, *bias, y, m->attr));
	return 0;
}

static int product_operands(struct build *b, struct made *m, struct product *p, enum addend c,
			    const_dnnl_memory_desc_t bias_md)
{
	struct at a, w, bias = {0}, y, sum = {0};
	struct action *act;
	const_dnnl_memory_desc_t given = md_strides(m, p->rank, p->b, p->b_step);
	int r = weights(b, 1, given, pd_md(m->pd, dnnl_query_weights_md), 1, &w);
	if (r)
		return r;
	a = operand(b, 0);
	if (c == C_BIAS)
		bias = operand(b, p->c);
	y = result(b, LAYOUT_ROW);
	if (c == C_SUM) {
		addend_expand(b, p, y);
		if (p->r != NO_INPUT)
			sum = operand(b, p->r);
	} else if (p->r != NO_INPUT) {
		residual(b, p->r, LAYOUT_ROW, y);
	}
	r = add_primitive(b, m->pd, &act);
	r = r ? r : add_argument(b, act, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), a);
	r = r ? r : add_argument(b, act, DNNL_ARG_WEIGHTS, pd_md(m->pd, dnnl_query_weights_md), w);
	if (!r && c == C_BIAS)
		r = add_argument(b, act, DNNL_ARG_BIAS, bias_md, bias);
	if (!r && sum.place != AT_NONE) /* behind the sum, and behind alpha where there is one */
		r = add_argument(b, act,
				 DNNL_ARG_ATTR_MULTIPLE_POST_OP(p->alpha != 1 ? 2 : 1) | DNNL_ARG_SRC_1,
				 md_row(m, p->rank, p->y), sum);
	r = r ? r : add_argument(b, act, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), y);
	result_end(b, LAYOUT_ROW, y);
	return r;
}

static int product_build(struct site *s, struct step *step, struct product *p, struct diag *d)
{
	struct made m = {0};
	struct build b;
	dnnl_memory_desc_t bias;
	build_start(&b, s, step, d);
	if (nothing_to_do(s))
		return 0;
	if (!counts_fit(s))
		return FAIL(d, E_SIZE, .expected = "sizes that fit in memory");
	product_dims(p, site_in(s, 0)->shape, site_in(s, 1)->shape);
	if (p->rank > DNNL_MAX_NDIMS)
		return FAIL(d, E_RANK, .actual = fmt(d, "%d dimensions", p->rank));
	enum addend c = addend_kind(&b, p);
	int r = product_ops(&b, &m, p, c);
	r = r ? r : product_choose(&b, &m, p, c, &bias);
	r = r ? r : product_operands(&b, &m, p, c, bias);
	made_free(&m);
	return r ? r : build_end(&b);
}

static bool product_accepts(const struct site *s, struct why *w)
{
	if (!onednn_usable(w))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		const struct shape *x = &site_in(s, i)->shape;
		if (x->rank < 0)
			return refuse(w, "unknown rank");
		if (x->rank > 0 && known_zero(x) && !known_zero(&site_out(s, 0)->shape))
			return refuse(w, "a sum over nothing");
	}
	return sizes_accept(s, w);
}

bool onednn_matmul_accepts(const struct site *s, struct why *w)
{
	return product_accepts(s, w);
}

int onednn_matmul_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct product p = {.alpha = 1, .beta = 1, .c = NO_INPUT, .r = NO_INPUT};
	return product_build(s, step, &p, d);
}

bool onednn_fused_gemm_accepts(const struct site *s, struct why *w)
{
	return product_accepts(s, w);
}

int onednn_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm *f = site_params(s);
	struct product p = {.alpha = f->alpha,
			    .beta = f->beta,
			    .trans_a = f->transA != 0,
			    .trans_b = f->transB != 0,
			    .act = f->act,
			    .act_alpha = f->act_alpha,
			    .act_beta = f->act_beta,
			    .c = site_in(s, 2) ? 2 : NO_INPUT,
			    .r = site_in(s, 3) ? 3 : NO_INPUT};
	return product_build(s, step, &p, d);
}

bool onednn_gemm_accepts(const struct site *s, struct why *w)
{
	return product_accepts(s, w);
}

int onednn_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct gemm_params *g = site_params(s);
	struct product p = {.alpha = g->alpha,
			    .beta = g->beta,
			    .trans_a = g->transA != 0,
			    .trans_b = g->transB != 0,
			    .c = site_in(s, 2) ? 2 : NO_INPUT,
			    .r = NO_INPUT};
	return product_build(s, step, &p, d);
}

/* ---- pooling --------------------------------------------------------------------------------- */

static bool is_op(const struct site *s, const char *name)
{
	return strcmp(s->node->op->name, name) == 0;
}

static bool is_global(const struct site *s)
{
	return strncmp(s->node->op->name, "Global", 6) == 0;
}

/* The window of a MaxPool or AveragePool, or one over the whole image. */
static const char *pool_window(const struct site *s, struct window *w, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	const struct pool *p = site_params(s);
	if (!is_global(s))
		return window_set(w, &p->window, x, NULL, p->ceil_mode != 0, d);
	*w = (struct window){.n = x->rank - 2};
	for (int i = 0; i < w->n; i++) {
		w->in[i] = w->kernel[i] = x->dim[i + 2];
		w->stride[i] = w->dilation[i] = w->out[i] = 1;
	}
	return NULL;
}

bool onednn_pool_accepts(const struct site *s, struct why *w)
{
	const struct pool *p = site_params(s);
	struct window win;
	if (!spatial_accepts(s, w))
		return false;
	if (site_out(s, 1))
		return refuse(w, "indices are wanted");
	if (is_global(s))
		return true;
	if (!pads_accept(&p->window.pads, w))
		return false;
	if (p->ceil_mode && is_op(s, "AveragePool"))
		return refuse(w, "an average with ceil_mode");
	if (pool_window(s, &win, NULL))
		return refuse(w, "a window that does not fit");
	for (int i = 0; i < win.n; i++)
		if (win.begin[i] >= win.kernel[i] || win.end[i] >= win.kernel[i])
			return refuse(w, "pads as large as the window");
	/* the library's plain loops are slower than ours */
	for (int i = 0; i < win.n; i++)
		if (win.dilation[i] > 1)
			return refuse(w, "a dilated window");
	if (site_in(s, 0)->layout == LAYOUT_ROW && site_in(s, 0)->shape.dim[1] < 16)
		return refuse(w, "few channels");
	return true;
}

static int pool_choose(struct build *b, struct made *m, const struct window *w, enum layout l)
{
	const struct site *s = b->s;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	const struct pool *p = site_params(s);
	dnnl_dims_t src, dst, stride, kernel, dilate, begin, end;
	dnnl_alg_kind_t alg = dnnl_pooling_avg_exclude_padding;
	if (is_op(s, "MaxPool") || is_op(s, "GlobalMaxPool"))
		alg = dnnl_pooling_max;
	else if (!is_global(s) && p->count_include_pad)
		alg = dnnl_pooling_avg_include_padding;
	for (int i = 0; i < x->rank; i++) {
		src[i] = x->dim[i];
		dst[i] = y->dim[i];
	}
	for (int i = 0; i < w->n; i++) {
		stride[i] = w->stride[i];
		kernel[i] = w->kernel[i];
		dilate[i] = w->dilation[i] - 1;
		begin[i] = w->begin[i];
		int64_t need = (w->out[i] - 1) * w->stride[i] +
			       (w->kernel[i] - 1) * w->dilation[i] + 1 - w->in[i] - w->begin[i];
		end[i] = need > w->end[i] ? need : w->end[i];
	}
	dnnl_memory_desc_t from = md_tag(m, x->rank, src, layout_tag(l, x->rank));
	dnnl_memory_desc_t to = md_tag(m, x->rank, dst, layout_tag(l, x->rank));
	TRY(b->d, dnnl_pooling_forward_primitive_desc_create(&m->pd, engine, dnnl_forward_inference,
							     alg, from, to, stride, kernel, dilate,
							     begin, end, m->attr));
	return 0;
}

static int pool_operands(struct build *b, struct made *m, enum layout l)
{
	struct action *a;
	struct at x = operand_in(b, 0, l), y = result(b, l);
	int r = add_primitive(b, m->pd, &a);
	r = r ? r : add_argument(b, a, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), x);
	r = r ? r : add_argument(b, a, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), y);
	result_end(b, l, y);
	return r;
}

int onednn_pool_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *y = &site_out(s, 0)->shape;
	enum layout l = site_in(s, 0)->layout;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, 1);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	struct made m = {0};
	struct window w;
	struct build b;
	build_start(&b, s, step, d);
	want[0] = l;
	give[0] = layouts_same(y, l, LAYOUT_ROW) ? LAYOUT_ROW : l;
	step->want = want;
	step->give = give;
	const char *wrong = counts_fit(s) ? pool_window(s, &w, d) : "sizes that fit in memory";
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	if (api.dnnl_post_ops_create(&m.ops))
		return failed(d, dnnl_out_of_memory, "dnnl_post_ops_create");
	int r = attributes(&b, &m);
	r = r ? r : pool_choose(&b, &m, &w, l);
	r = r ? r : pool_operands(&b, &m, l);
	made_free(&m);
	return r ? r : build_end(&b);
}

#else /* HAVE_DNNL */

/* Built without oneDNN's headers: every kernel refuses, and no step of it is ever made. */

bool onednn_usable(struct why *w)
{
	return refuse(w, "built without oneDNN");
}

const char *onednn_about(void)
{
	return "built without oneDNN";
}

int onednn_run(const struct call *c)
{
	return call_fail(c, E_LIBRARY, "oneDNN", onednn_about());
}

void onednn_drop(struct step *step)
{
	(void)step;
}

#define ABSENT(what)                                                                               \
	bool onednn_##what##_accepts(const struct site *s, struct why *w)                          \
	{                                                                                          \
		(void)s;                                                                           \
		return onednn_usable(w);                                                           \
	}                                                                                          \
	int onednn_##what##_reshape(struct site *s, struct step *step, struct diag *d)             \
	{                                                                                          \
		(void)s;                                                                           \
		(void)step;                                                                        \
		return FAIL(d, E_LIBRARY, .actual = onednn_about());                               \
	}
ABSENT(conv)
ABSENT(deconv)
ABSENT(fused_conv)
ABSENT(gemm)
ABSENT(matmul)
ABSENT(fused_gemm)
ABSENT(pool)

#endif
