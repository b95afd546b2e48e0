/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_MODEL_REPORT_H
#define SESSION_MODEL_REPORT_H
/* Reports on a model that need neither a run nor a device: operators, weights, cost. */
#include "backend/backend.h"
#include "ir/graph.h"
#include "session/backends.h"

struct op_count {
	const char *name; /* qualified */
	int since; /* opset version in which the operator got the meaning that the model uses; 0: unknown operator */
	uint32_t count;
	/*
	 * By backend: whether this build has a kernel for the operator, or on the host an expansion. Types and
	 * attributes may still keep a single node off an accelerator.
	 */
	bool on[BACKENDS];
};
/*
 * The graph's operators, bodies of control flow included, the most frequent first. An array of *n in the arena.
 */
struct op_count *report_ops(const struct graph *g, struct arena *a, size_t *n);
/* The names of backends that run the operator: "cpu, cuda", or "no device". In the arena. */
const char *report_devices(const struct op_count *op, struct arena *a);

struct weight_sum {
	enum dtype dtype;
	uint64_t tensors, elements, bytes;
};
/*
 * Sums the initializers by dtype, bodies of control flow included. sums has DT_COUNT elements, indexed by
 * dtype; element 0 sums all of them.
 */
void report_weights(const struct graph *g, struct weight_sum *sums);

struct statistics {
	int64_t count, zeros, nans, infs;
	double min, max, mean, std; /* of the finite elements; NAN if there are none */
};
/* Statistics of any tensor but one of strings. */
struct statistics report_statistics(const struct tensor *t);

struct cost {
	int64_t macs; /* multiply-adds, for operators made of them (products, convolutions); else 0 */
	int64_t flops; /* 2 * macs, or one for each output element */
	int64_t bytes; /* inputs, weights and outputs, each counted once */
	bool known;    /* false: some shape is not known, and the numbers are 0 */
};
/* What one run of the node costs. info: by value id, with shapes as far as they are known. */
struct cost report_cost(const struct graph *g, const struct node *n, struct vinfo *info,
			struct arena *a);

/* Calls f(graph, node, arg) for each node of the graph and of all bodies below it. */
void report_each(const struct graph *g,
		 void (*f)(const struct graph *, const struct node *, void *), void *arg);

#endif
