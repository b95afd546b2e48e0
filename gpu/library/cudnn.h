/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_H
#define GPU_LIBRARY_CUDNN_H
/*
 * Graphs of operations for cuDNN's backend interface, without cuDNN's types: declare tensors by dims, strides and type, add
 * operations between them, list cuDNN's engines for the whole graph, make a plan from one, run it.
 *
 *	g = dn_graph_new(dn, why);
 *	x = dn_tensor(g, &(struct dn_tensor){.uid = 1, ...});  ...
 *	dn_conv(g, x, w, v, &window); dn_pointwise(g, DN_RELU, v, -1, -1, y, NULL);
 *	n = dn_graph_end(g, why) ? dn_choices(g, DN_BEST, avoid, choices, max) : 0;
 *	plan = dn_plan_new(g, &choices[0], why); dn_graph_free(g);	the plan keeps the graph alive
 *
 * The first error while a graph is made is kept, and dn_graph_end reports it.
 */
#include "gpu/driver/cuda.h"

struct dn;	 /* the library, opened for a device */
struct dn_graph; /* operations */
struct dn_plan;	 /* an engine prepared for a graph */

enum { DN_DIMS = 8, DN_TENSORS = 32, DN_TEXT = 240 };

/* The library for a device, which owns it; NULL with the reason if it is missing. */
struct dn *dn_of(struct device *device, struct why *why);
/* The library without a device, for tests: it lists and checks engines for the device that the JSON text describes. */
struct dn *dn_deviceless(const char *json, size_t n, struct why *why);
void dn_deviceless_free(struct dn *dn);
size_t dn_version(const struct dn *dn); /* 91900 */

struct dn_tensor {
	int64_t uid; /* names its pointer when the plan runs; unique, also among virtual tensors */
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

/* DN_IDENTITY to DN_GEN_INDEX take one operand, DN_ADD to DN_OR two, DN_SELECT three. */
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
	DN_RELU, /* lower, upper: bounds; slope: factor below the lower bound */
	DN_TANH,
	DN_SIGMOID,
	DN_ELU, /* alpha */
	DN_GELU,
	DN_GELU_TANH,
	DN_SOFTPLUS,
	DN_SWISH,     /* alpha: x * sigmoid(alpha * x) */
	DN_GEN_INDEX, /* gives each element's index along axis alpha */
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
void dn_graph_free(struct dn_graph *g); /* ends the caller's use; plans may still use it; NULL: nothing */
/* Returns the tensor's number: 0, 1, ... Operations take these; -1 stands for no tensor. */
int dn_tensor(struct dn_graph *g, const struct dn_tensor *t);
void dn_conv(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
/* The transposed convolution of y with w, giving x: the gradient of dn_conv. */
void dn_conv_back(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
void dn_pointwise(struct dn_graph *g, enum dn_op op, int x, int b, int t, int y,
		  const struct dn_arg *arg);
void dn_matmul(struct dn_graph *g, int a, int b, int c);
void dn_reduction(struct dn_graph *g, enum dn_reduce op, int x, int y);
bool dn_graph_end(struct dn_graph *g, struct why *why);

/* Numerical notes of engines, as bits. */
enum {
	DN_TENSOR_CORE = 1, /* an engine for f32 rounds to tf32 */
	DN_DOWN_CONVERT = 2,
	DN_REDUCED_SUM = 4,
	DN_FFT = 8,
	DN_NOT_DETERMINISTIC = 16,
	DN_WINOGRAD = 32
};
#define DN_STRICT (DN_TENSOR_CORE | DN_DOWN_CONVERT | DN_REDUCED_SUM)

struct dn_choice {
	char text[DN_TEXT]; /* "e41,2=5,13=1": engine and knobs */
	void *config;	    /* owned by the graph */
	unsigned notes;
	bool compiled; /* making a plan compiles code, which takes hundreds of milliseconds */
};
enum dn_list { DN_BEST, DN_FALLBACK };
/* Lists the engines that cuDNN proposes, best first, without those that have a note in `avoid`; returns how many. */
int dn_choices(struct dn_graph *g, enum dn_list list, unsigned avoid, struct dn_choice *out, int max);

/* NULL with the reason. A graph may have several plans; it lives until all of them are gone. */
struct dn_plan *dn_plan_new(struct dn_graph *g, const struct dn_choice *c, struct why *why);
struct dn_plan *dn_plan_of_text(struct dn_graph *g, const char *text, struct why *why);
/* A plan from the JSON of dn_plan_save, also another process's; it needs no graph. */
struct dn_plan *dn_plan_of_json(struct dn *dn, const void *json, size_t n, struct why *why);
/* The plan as JSON, in the arena; NULL: cuDNN cannot save it. */
char *dn_plan_save(const struct dn_plan *p, struct arena *a, size_t *n);
size_t dn_plan_workspace(const struct dn_plan *p);
void dn_plan_free(struct dn_plan *p); /* NULL: nothing */

/* Queues the plan on the device's stream; uid, pointer: ids and addresses of n tensors. 0 or -code. */
int dn_plan_run(const struct dn_plan *p, int n, const int64_t *uid, void *const *pointer,
		void *workspace, struct diag *d);

#endif
