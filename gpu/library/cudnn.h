/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUDNN_H
#define GPU_LIBRARY_CUDNN_H
/*
 * Graphs of operations for cuDNN's backend interface, without cuDNN's types. A caller declares tensors by their dims,
 * strides and type, adds operations between them, lists cuDNN's engines for the whole graph, makes a plan from one of the
 * engines, and runs the plan.
 *
 *	g = dn_graph_new(dn, why);
 *	x = dn_tensor(g, &(struct dn_tensor){.uid = 1, ...});  ...
 *	dn_conv(g, x, w, v, &window); dn_pointwise(g, DN_RELU, v, -1, -1, y, NULL);
 *	n = dn_graph_end(g, why) ? dn_choices(g, DN_BEST, avoid, choices, max) : 0;
 *	plan = dn_plan_new(g, &choices[0], why); dn_graph_free(g);	the plan keeps the graph alive
 *
 * Calls that build a graph report no errors; dn_graph_end() reports the first one.
 */
#include "gpu/driver/cuda.h"

struct dn;	 /* the library, opened for a device */
struct dn_graph; /* operations */
struct dn_plan;	 /* an engine prepared for a graph */

enum { DN_DIMS = 8, DN_TENSORS = 32, DN_TEXT = 240 };

/* Returns the library for a device; the device owns it. Returns NULL and sets *why if the library is missing. */
struct dn *dn_of(struct device *device, struct why *why);
/*
 * Opens the library without a device, for tests. It lists and checks engines for the device that the JSON text
 * describes.
 */
struct dn *dn_deviceless(const char *json, size_t n, struct why *why);
void dn_deviceless_free(struct dn *dn);
size_t dn_version(const struct dn *dn); /* 91900 */

struct dn_tensor {
	/* number under which a run passes the tensor's pointer; unique, also among virtual tensors */
	int64_t uid;
	enum dtype type;
	int rank;
	int64_t dim[DN_DIMS], stride[DN_DIMS]; /* strides in elements */
	/* exists only between two operations of the graph */
	bool is_virtual;
	bool by_value; /* one number, in host memory */
};

struct dn_window { /* cross-correlation; n spatial dims */
	int n;
	int64_t begin[3], end[3], stride[3], dilation[3];
};

/* The operations from DN_IDENTITY to DN_GEN_INDEX take one operand, from DN_ADD to DN_OR two, and DN_SELECT three. */
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
	DN_RELU, /* lower, upper: bounds; slope: factor for numbers below the lower bound */
	DN_TANH,
	DN_SIGMOID,
	DN_ELU, /* alpha */
	DN_GELU,
	DN_GELU_TANH,
	DN_SOFTPLUS,
	DN_SWISH,     /* alpha: x * sigmoid(alpha * x) */
	DN_GEN_INDEX, /* returns the index of each element along axis alpha */
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
/* Ends the caller's use of the graph, which plans may still use. Does nothing if g is NULL. */
void dn_graph_free(struct dn_graph *g);
/* Adds a tensor and returns its number: 0, 1, ... Operations take these numbers; -1 stands for no tensor. */
int dn_tensor(struct dn_graph *g, const struct dn_tensor *t);
void dn_conv(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
/* Adds the transposed convolution of y with w, whose result is x. It is the gradient of dn_conv(). */
void dn_conv_back(struct dn_graph *g, int x, int w, int y, const struct dn_window *window);
void dn_pointwise(struct dn_graph *g, enum dn_op op, int x, int b, int t, int y,
		  const struct dn_arg *arg);
void dn_matmul(struct dn_graph *g, int a, int b, int c);
void dn_reduction(struct dn_graph *g, enum dn_reduce op, int x, int y);
bool dn_graph_end(struct dn_graph *g, struct why *why);

/* Numerical notes: bits that say how an engine computes. */
enum {
	DN_TENSOR_CORE = 1, /* for f32, the engine rounds to tf32 */
	DN_DOWN_CONVERT = 2,
	DN_REDUCED_SUM = 4,
	DN_FFT = 8,
	DN_NOT_DETERMINISTIC = 16,
	DN_WINOGRAD = 32
};
#define DN_STRICT (DN_TENSOR_CORE | DN_DOWN_CONVERT | DN_REDUCED_SUM)

struct dn_choice {
	char text[DN_TEXT]; /* engine and its settings ("knobs"), for example "e41,2=5,13=1" */
	void *config;	    /* owned by the graph */
	unsigned notes;
	bool compiled; /* making a plan compiles code, which takes hundreds of milliseconds */
};
enum dn_list { DN_BEST, DN_FALLBACK };
/*
 * Lists the engines that cuDNN proposes, best first, except those that have a note in `avoid`. Returns the number of
 * engines.
 */
int dn_choices(struct dn_graph *g, enum dn_list list, unsigned avoid, struct dn_choice *out, int max);

/*
 * Makes a plan. A graph may have several plans and lives until all of them are freed. Returns NULL and sets *why on
 * failure.
 */
struct dn_plan *dn_plan_new(struct dn_graph *g, const struct dn_choice *c, struct why *why);
struct dn_plan *dn_plan_of_text(struct dn_graph *g, const char *text, struct why *why);
/* Loads a plan from JSON that dn_plan_save() wrote, in this or another process. It needs no graph. */
struct dn_plan *dn_plan_of_json(struct dn *dn, const void *json, size_t n, struct why *why);
/* Returns the plan as JSON, in the arena, or NULL if cuDNN cannot save the plan. */
char *dn_plan_save(const struct dn_plan *p, struct arena *a, size_t *n);
size_t dn_plan_workspace(const struct dn_plan *p);
void dn_plan_free(struct dn_plan *p); /* does nothing if p is NULL */

/*
 * Queues the plan on the device's stream. uid and pointer hold the ids and addresses of n tensors. Returns 0 or -code.
 */
int dn_plan_run(const struct dn_plan *p, int n, const int64_t *uid, void *const *pointer,
		void *workspace, struct diag *d);

#endif
