/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_BUILD_H
#define CPU_ONEDNN_BUILD_H
/*
 * How a reshape function builds the program of oneDNN primitives that onednn_run executes. Only for the files
 * in src/cpu/onednn/.
 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include <oneapi/dnnl/dnnl.h>

/* ---- the library ---------------------------------------------------------------------------- */

/* Function pointers of libdnnl, filled once per process when the library is opened and only read afterwards. */
struct onednn_api {
#define SYM(name) __typeof__(name) *name;
#include "cpu/onednn/dnnl.def"
#undef SYM
};
extern struct onednn_api onednn_api;
extern dnnl_engine_t onednn_engine;
extern dnnl_stream_t onednn_stream;

/*
 * Reports status s of a oneDNN call as a diag and returns our error code. `what` is the source text of the failed
 * call.
 */
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
	AT_SCRATCH, /* scratchpad at the end of the workspace, which all primitives share */
	AT_FIXED,   /* a constant address: packed weights */
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
	DO_WIDEN,  /* convert `count` elements from dtype in at[0] to fp32 in at[1] */
	DO_NARROW, /* convert `count` elements from fp32 in at[0] to dtype in at[1] */
	DO_COPY,   /* copy `count` bytes from at[0] to at[1], unless the addresses are equal */
	DO_EXPAND, /* broadcast the fp32 tensor in at[0] to the `count` elements of at[1] */
	DO_DECODE, /* subtract `zero` from `count` 8-bit codes of dtype in at[0], to fp32 in at[1] */
	/* multiply `count` fp32 sums in at[0] by the `width` floats of `scale` in turn, and round to codes of dtype in at[1] with zero point `zero` */
	DO_ENCODE,
};
struct action {
	enum action_kind kind;
	uint32_t n;
	struct at at[MAX_ARGS];
	dnnl_exec_arg_t arg[MAX_ARGS];
	dnnl_primitive_t primitive;
	enum dtype dtype;
	int64_t count;
	int32_t zero;
	/* only for DO_ENCODE */
	const float *scale;
	int64_t width;
	/* only for DO_EXPAND: shape of the target, and strides of the source in elements */
	int rank;
	int64_t dim[MAX_RANK], stride[MAX_RANK];
};
/*
 * What replaces the last primitive of a program if numbers come that its fused activation does not keep: the same
 * primitive without the activation, and then the activation as a loop of our own.
 */
struct apart {
	int exceptions; /* those of fenv.h that such numbers raise; 0 if there is no activation */
	bool now;	/* the program has met such numbers */
	dnnl_primitive_desc_t desc;
	struct action action; /* its primitive is created when it is needed first */
	int act;
	float alpha, beta;
	struct at y;
	enum dtype type; /* of y */
	int64_t count;
};

struct program {
	uint32_t n;
	struct action action[MAX_ACTIONS];
	size_t work, scratch;
	const struct action *fused; /* the action that `apart` can replace */
	struct apart apart;
};

/* State of a reshape function while it builds a program. */
struct build {
	struct site *s;
	struct step *step;
	struct program *p;
	struct diag *d;
	/*
	 * The type in which primitives read and write the node's tensors: bf16 if the node computes in bf16 and the
	 * processor has AMX, else fp32. Where it is bf16 nothing is widened or narrowed.
	 */
	enum dtype type;
};

void build_start(struct build *b, struct site *s, struct step *step, struct diag *d);
int build_end(struct build *b);
struct action *build_action(struct build *b, enum action_kind kind);
/* Reserves `bytes` bytes of the workspace. */
struct at build_work(struct build *b, size_t bytes);
int build_argument(struct build *b, struct action *a, int which, const_dnnl_memory_desc_t md,
		   struct at at);
/* Appends the primitive that pd describes to the program and reserves its scratchpad. */
int build_primitive(struct build *b, const_dnnl_primitive_desc_t pd, struct action **out);

/* ---- memory descriptors ---------------------------------------------------------------------- */

/* oneDNN objects that a reshape function creates and must destroy by made_free, also after a failure. */
struct made {
	dnnl_data_type_t type; /* of the elements that the descriptors describe */
	dnnl_memory_desc_t md[12];
	int nmd;
	dnnl_post_ops_t ops;
	dnnl_primitive_attr_t attr;
	dnnl_primitive_desc_t pd;
};
struct made made_new(const struct build *b);
void made_free(struct made *m);

/*
 * Memory descriptors, owned by m. They are NULL if oneDNN refuses to make them; the call that is given the NULL
 * descriptor then fails and reports the error.
 */
dnnl_memory_desc_t md_tag(struct made *m, int n, const dnnl_dim_t *dims, dnnl_format_tag_t tag);
dnnl_memory_desc_t md_strides(struct made *m, int n, const dnnl_dim_t *dims,
			      const dnnl_dim_t *strides);
dnnl_memory_desc_t md_vector(struct made *m, dnnl_dim_t n);
/* Dense, row-major. */
dnnl_memory_desc_t md_row(struct made *m, int n, const dnnl_dim_t *dims);
dnnl_format_tag_t md_layout_tag(enum layout l, int rank);
/* Returns whether layouts a and b place the elements of a tensor of shape s at the same offsets. */
bool md_layouts_same(const struct shape *s, enum layout a, enum layout b);
/*
 * Sets *out to the enum layout that has the same memory order as md, a descriptor that oneDNN chose. Returns false if
 * enum layout has no such layout.
 */
bool md_layout_find(const_dnnl_memory_desc_t md, const struct shape *s, enum layout *out);
static inline const_dnnl_memory_desc_t pd_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
	return onednn_api.dnnl_primitive_desc_query_md(pd, what, 0);
}

/* Describes where md places the elements, as text for a key of the weight store; NULL for an opaque layout. */
const char *build_layout_text(struct arena *a, const_dnnl_memory_desc_t md);
/* Copies data from one layout to the other immediately, by a reorder primitive of oneDNN. */
int build_reorder_now(const_dnnl_memory_desc_t from_md, const_dnnl_memory_desc_t to_md,
		      const void *src, void *dst, struct diag *d);

/* ---- operands -------------------------------------------------------------------------------- */

/*
 * Returns where primitives find input i as b->type in layout l, which the input has. An input of a smaller type is
 * widened to fp32 at each run.
 */
struct at build_operand_in(struct build *b, uint32_t i, enum layout l);
struct at build_operand(struct build *b, uint32_t i);
/*
 * Sets *out to where primitives find input i after its conversion from the layout `from` to the layout `to`. A
 * constant weight is converted once, into the session's weight store, and its elements are multiplied by scale; any
 * other input is converted at each run, and scale must be 1.
 */
int build_weights(struct build *b, uint32_t i, const_dnnl_memory_desc_t from,
		  const_dnnl_memory_desc_t to, float scale, struct at *out);
/* Returns how many elements the value occupies in layout l, including the padding of blocks. */
int64_t build_elements(const struct vinfo *v, enum layout l);
/*
 * Where the primitives write their result, as b->type: the output itself, or a work buffer if the output has a smaller
 * type. Call build_result_end after adding the primitives: it rounds a work buffer's elements into the output.
 */
struct at build_result(struct build *b, enum layout l);
void build_result_end(struct build *b, enum layout l, struct at at);
/*
 * Copies input i into the result's buffer `to`, so that the primitive adds its result to that input. Lets the plan
 * give input and output the same memory, which makes the copy unnecessary.
 */
void build_residual(struct build *b, uint32_t i, enum layout l, struct at to);
int build_eltwise(struct build *b, struct made *m, dnnl_alg_kind_t alg, float alpha, float beta);
int build_activation(struct build *b, struct made *m, int act, float alpha, float beta);
/*
 * Prepares program->apart for the action `fused`. plain->pd, which is taken over, describes the primitive without
 * activation; y has count elements. The caller adds the arguments to *out.
 */
int build_apart(struct build *b, struct made *plain, const struct action *fused, struct at y,
		int64_t count, struct action **out);
/* Creates m->attr with the post-ops m->ops and a scratchpad that we allocate. */
int build_attributes(struct build *b, struct made *m);

/* ---- checks of the accepts functions ---------------------------------------------------------- */

bool onednn_empty(const struct shape *s);
/* Returns whether oneDNN has this activation (enum act) with these parameters. */
bool onednn_activation_accepts(int act, float alpha, float beta, struct why *w);
/* Refuses tensors of more than 2^31 - 1 elements: some of oneDNN's generated code has 32-bit indices. */
bool onednn_sizes_accept(const struct site *s, struct why *w);
/*
 * Makes the checks that convolution, deconvolution and pooling share: the rank is 3 to 5, no tensor is empty, and
 * sizes fit in 32 bits.
 */
bool onednn_spatial_accept(const struct site *s, struct why *w);
/* Refuses negative pads, which oneDNN does not support. */
bool onednn_pads_accept(const struct ints *pads, struct why *w);
bool onednn_nothing_to_do(const struct site *s);
/* Returns whether all element counts are small enough that sizes in bytes can be computed without overflow. */
bool onednn_counts_fit(const struct site *s);

#endif
#endif
