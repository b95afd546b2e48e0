/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_MODEL_REPORT_H
#define SESSION_MODEL_REPORT_H
/* What can be told of a model without running it: operators, weights, cost. Needs no device. */
#include "backend/backend.h"
#include "ir/graph.h"
#include "session/backends.h"

struct op_count {
	const char *name; /* qualified */
	int since;	  /* of the row that the imported opset selects; 0: no row */
	uint32_t count;
	/*
	 * By backend: whether this build has a kernel for the operator, or on the host an expansion. Types and
	 * attributes may still keep a single node off an accelerator.
	 */
	bool on[BACKENDS];
};
/* By count, bodies included; n gets the number. In the arena. */
struct op_count *report_ops(const struct graph *g, struct arena *a, size_t *n);
/* The backends that run it: "cpu, cuda", or "no device". In the arena. */
const char *report_devices(const struct op_count *op, struct arena *a);

struct weight_sum {
	enum dtype dtype;
	uint64_t tensors, elements, bytes;
};
/* Initializers by dtype, bodies included; sums[DT_COUNT], index is the dtype; [0] sums all. */
void report_weights(const struct graph *g, struct weight_sum *sums);

struct statistics {
	int64_t count, zeros, nans, infs;
	double min, max, mean, std; /* of the finite elements; NAN where there are none */
};
/* Of a tensor that is no string tensor. */
struct statistics report_statistics(const struct tensor *t);

struct cost {
	int64_t macs;  /* multiply-adds of the operators that are made of them */
	int64_t flops; /* 2 * macs, or one an output element */
	int64_t bytes; /* inputs, weights and outputs once each */
	bool known;    /* false: a shape is not known */
};
/* info: by value id, with shapes as far as known. */
struct cost report_cost(const struct graph *g, const struct node *n, struct vinfo *info,
			struct arena *a);

/* Nodes of a graph and all bodies below it: f(graph, node, arg). */
void report_each(const struct graph *g,
		 void (*f)(const struct graph *, const struct node *, void *), void *arg);

#endif
