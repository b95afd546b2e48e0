/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_H
#define GPU_LIBRARY_CUDNN_H
/*
 * Graphs of operations for cuDNN's backend interface, without a type of its own: tensors by dims, strides
 * and type, operations between them, the library's engines for the whole, a plan, a run.
 *
 *	g = dn_graph_new(dn, why);
 *	x = dn_tensor(g, &(struct dn_tensor){.uid = 1, ...});  ...
 *	dn_conv(g, x, w, v, &window); dn_pointwise(g, DN_RELU, v, -1, -1, y, NULL);
 *	n = dn_graph_end(g, why) ? dn_choices(g, DN_BEST, avoid, choices, max) : 0;
 *	plan = dn_plan_new(g, &choices[0], why); dn_graph_free(g);	the plan keeps what it needs of it
 *
 * The first thing that goes wrong while a graph is made is kept and told by dn_graph_end.
 */
#include "gpu/driver/cuda.h"

struct dn;	 /* the library, opened for a device */
struct dn_graph; /* operations */
struct dn_plan;	 /* an engine made ready for a graph */

enum { DN_DIMS = 8, DN_TENSORS = 32, DN_TEXT = 240 };

/* NULL, with the reason, where the library is missing. Kept by the device. */
struct dn *dn_of(struct device *device, struct why *why);
/* The library without a device, for tests: engines are listed and checked for the device that `json` tells of. */
struct dn *dn_deviceless(const char *json, size_t n, struct why *why);
void dn_deviceless_free(struct dn *dn);
size_t dn_version(const struct dn *dn); /* 91900 */

struct dn_tensor {
	int64_t uid; /* of its pointer when the plan runs; each tensor its own, virtual ones too */
	enum dtype type;
	int rank;
	int64_t dim[DN_DIMS], stride[DN_DIMS]; /* elements */
	bool is_virtual;		       /* lives between two operations only */
	bool by_value;			       /* one number, in host memory */
};

struct dn_window { /* cross-correlation; n spatial dims */
	int n;
	int64_t begin[3], end[3], stride[3], dilation[3];
};

/* In the order of the table in cudnn.c. One operand up to RELU's line, two from ADD, three: SELECT. */
enum dn_op {
	DN_IDENTITY,
	DN_ABS,
	DN_NEG,
	DN_SQRT,
	DN_RSQRT,
	DN_EXP,
	DN_LOG,
	DN_ERF,
	DN_RECIPROCAL,
	DN_RELU, /* lower, upper: clips; slope below the lower one */
	DN_TANH,
	DN_SIGMOID,
	DN_ELU, /* alpha */
	DN_GELU,
	DN_GELU_TANH,
	DN_SOFTPLUS,
	DN_SWISH,     /* alpha: x * sigmoid(alpha * x) */
	DN_GEN_INDEX, /* alpha: the axis whose index it gives */
	DN_ADD,
	DN_SUB,
	DN_MUL,
	DN_DIV,
	DN_MIN,
	DN_MAX,
	DN_POW,
	DN_CMP_GE,
	DN_CMP_GT,
	DN_CMP_LE,
	DN_CMP_LT,
	DN_CMP_EQ,
	DN_AND,
	DN_OR,
	DN_SELECT, /* y = t ? x : b */
	DN_OPS
};
struct dn_arg {
	double alpha, lower, upper, slope;
	bool has_alpha, has_lower, has_upper;
};

enum dn_reduce { DN_REDUCE_SUM, DN_REDUCE_MAX, DN_REDUCE_MIN, DN_REDUCE_MEAN };

struct dn_graph *dn_graph_new(struct dn *dn, struct why *why);
void dn_graph_free(struct dn_graph *g); /* the caller's hold on it; NULL: nothing */
/* Numbers of tensors are 0, 1, ...; -1 where one is left out. */
int dn_tensor(struct dn_graph *g, const struct dn_tensor *t);
void dn_conv(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
/* What a convolution of y with w would have come from: a transposed convolution of y to x. */
void dn_conv_back(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
void dn_pointwise(struct dn_graph *g, enum dn_op op, int x, int b, int t, int y,
		  const struct dn_arg *arg);
void dn_matmul(struct dn_graph *g, int a, int b, int c);
void dn_reduction(struct dn_graph *g, enum dn_reduce op, int x, int y);
bool dn_graph_end(struct dn_graph *g, struct why *why);

/* What engines say of themselves; bits. */
enum {
	DN_TENSOR_CORE = 1, /* with f32: rounds to tf32 */
	DN_DOWN_CONVERT = 2,
	DN_REDUCED_SUM = 4,
	DN_FFT = 8,
	DN_NOT_DETERMINISTIC = 16,
	DN_WINOGRAD = 32
};
#define DN_STRICT (DN_TENSOR_CORE | DN_DOWN_CONVERT | DN_REDUCED_SUM)

struct dn_choice {
	char text[DN_TEXT]; /* "e41,2=5,13=1": engine and knobs */
	void *config;	    /* the graph's */
	unsigned notes;
	bool compiled; /* when the plan is made: hundreds of milliseconds */
};
enum dn_list { DN_BEST, DN_FALLBACK };
/* The engines the library proposes, best first, less those with a note of `avoid`; their number. */
int dn_choices(struct dn_graph *g, enum dn_list list, unsigned avoid, struct dn_choice *out, int max);

/* NULL with the reason. A graph may have several plans; it lives until all of them are gone. */
struct dn_plan *dn_plan_new(struct dn_graph *g, const struct dn_choice *c, struct why *why);
struct dn_plan *dn_plan_of_text(struct dn_graph *g, const char *text, struct why *why);
/* What dn_plan_save gave, in another process: no graph is wanted. */
struct dn_plan *dn_plan_of_json(struct dn *dn, const void *json, size_t n, struct why *why);
/* In the arena; NULL where the library cannot. */
char *dn_plan_save(const struct dn_plan *p, struct arena *a, size_t *n);
size_t dn_plan_workspace(const struct dn_plan *p);
void dn_plan_free(struct dn_plan *p); /* NULL: nothing */

/* Queues it on the device's stream: the pointers of n tensors by uid. 0 or -code. */
int dn_plan_run(const struct dn_plan *p, int n, const int64_t *uid, void *const *pointer,
		void *workspace, struct diag *d);

#endif
