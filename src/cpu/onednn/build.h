/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_BUILD_H
#define CPU_ONEDNN_BUILD_H
/* How oneDNN's kernels make their programs in reshape. For src/cpu/onednn*.c alone. */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include <oneapi/dnnl/dnnl.h>

/* ---- the library ---------------------------------------------------------------------------- */

/* Opened once for the process, and then only read. */
struct onednn_api {
#define SYM(name) __typeof__(name) *name;
#include "cpu/onednn/dnnl.def"
#undef SYM
};
extern struct onednn_api onednn_api;
extern dnnl_engine_t onednn_engine;
extern dnnl_stream_t onednn_stream;

/* The one place where the library's statuses become ours; what: the call that failed. */
int onednn_failed(struct diag *d, dnnl_status_t s, const char *what);

#define TRY(d, call)                                                                               \
	do {                                                                                       \
		dnnl_status_t status_ = onednn_api.call;                                           \
		if (status_ != dnnl_success)                                                       \
			return onednn_failed((d), status_, #call);                                 \
	} while (0)

/* ---- programs ------------------------------------------------------------------------------- */

enum { MAX_ARGS = 10, MAX_ACTIONS = 12 };

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

void build_start(struct build *b, struct site *s, struct step *step, struct diag *d);
int build_end(struct build *b);
struct action *build_action(struct build *b, enum action_kind kind);
int build_argument(struct build *b, struct action *a, int which, const_dnnl_memory_desc_t md,
		   struct at at);
/* The primitive of pd as the program's next action, its scratchpad taken care of. */
int build_primitive(struct build *b, const_dnnl_primitive_desc_t pd, struct action **out);

/* ---- memory descriptors ---------------------------------------------------------------------- */

/* Everything that a reshape makes and must destroy, whatever happens. */
struct made {
	dnnl_memory_desc_t md[12];
	int nmd;
	dnnl_post_ops_t ops;
	dnnl_primitive_attr_t attr;
	dnnl_primitive_desc_t pd;
};
void made_free(struct made *m);

/* NULL where the library refuses, which the call that uses it will then tell. */
dnnl_memory_desc_t md_tag(struct made *m, int n, const dnnl_dim_t *dims, dnnl_format_tag_t tag);
dnnl_memory_desc_t md_strides(struct made *m, int n, const dnnl_dim_t *dims,
			      const dnnl_dim_t *strides);
dnnl_memory_desc_t md_vector(struct made *m, dnnl_dim_t n);
/* Row-major. */
dnnl_memory_desc_t md_row(struct made *m, int n, const dnnl_dim_t *dims);
dnnl_format_tag_t md_layout_tag(enum layout l, int rank);
/* Whether two layouts put this shape's elements in the same places. */
bool md_layouts_same(const struct shape *s, enum layout a, enum layout b);
/* Our name for the library's choice; false where we have none. */
bool md_layout_find(const_dnnl_memory_desc_t md, const struct shape *s, enum layout *out);
static inline const_dnnl_memory_desc_t pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
	return onednn_api.dnnl_primitive_desc_query_md(pd, what, 0);
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Input i as fp32 in the layout it comes in, widened at run where its type asks for that. */
struct at build_operand_in(struct build *b, uint32_t i, enum layout l);
struct at build_operand(struct build *b, uint32_t i);
/*
 * Input i, whose elements lie as `from` says, in the layout `to`: packed once into the session's
 * store where it is a weight, else at each run. scale is for weights only.
 */
int build_weights(struct build *b, uint32_t i, const_dnnl_memory_desc_t from,
		  const_dnnl_memory_desc_t to, float scale, struct at *out);
/* The output as the primitives see it: fp32; result_end rounds it where the type asks for that. */
struct at build_result(struct build *b, enum layout l);
void build_result_end(struct build *b, enum layout l, struct at at);
/* Input i into the result's memory, for a sum: in place where the plan can have it so. */
void build_residual(struct build *b, uint32_t i, enum layout l, struct at to);
int build_eltwise(struct build *b, struct made *m, dnnl_alg_kind_t alg, float alpha, float beta);
int build_activation(struct build *b, struct made *m, int act, float alpha, float beta);
/* post-ops and a scratchpad of ours */
int build_attributes(struct build *b, struct made *m);

/* ---- what kernels ask first ------------------------------------------------------------------- */

bool onednn_empty(const struct shape *s);
/* Whether oneDNN has this activation (enum act). */
bool onednn_activation_accepts(int act, struct why *w);
/* Generated code counts elements in 32 bits here and there. */
bool onednn_sizes_accept(const struct site *s, struct why *w);
/* What conv, deconv and pooling ask of their first two inputs. */
bool onednn_spatial_accept(const struct site *s, struct why *w);
/* Pads that the library takes. */
bool onednn_pads_accept(const struct ints *pads, struct why *w);
bool onednn_nothing_to_do(const struct site *s);
/* Whether the program's data fit in memory at all: counts are checked before sizes are made of them. */
bool onednn_counts_fit(const struct site *s);

#endif
#endif
