/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_MODEL_REPORT_H
#define SESSION_MODEL_REPORT_H
/* Reports on a model's operators, weights and cost, which need neither a run nor a device. */
#include "backend/backend.h"
#include "ir/graph.h"
#include "session/backends.h"

struct op_count {
	const char *name; /* qualified */
	/*
	 * opset version that introduced the version of the operator that the model uses; 0 for an
	 * unknown operator
	 */
	int since;
	uint32_t count;
	/*
	 * For each backend, true if this build has a kernel for the operator. On the host, an
	 * expansion into other operators counts too. A single node may still be refused by an
	 * accelerator because of its types or attributes.
	 */
	bool on[BACKENDS];
};
/*
 * Returns the operators of the graph and of its control-flow bodies, the most frequent first, as an
 * array of *n elements in the arena.
 */
struct op_count *report_ops(const struct graph *g, struct arena *a, size_t *n);
/*
 * Returns the names of the backends that run the operator, in the arena: "cpu, cuda", or "no
 * device".
 */
const char *report_devices(const struct op_count *op, struct arena *a);

struct weight_sum {
	enum dtype dtype;
	uint64_t tensors, elements, bytes;
	uint64_t missing; /* in element 0: tensors whose external data cannot be read */
};
/*
 * Calls f with each weight of the graph and its control-flow bodies. Weights are tensors in initializers and Constant nodes; one
 * that several bodies read counts once.
 */
void report_each_weight(const struct graph *g, void (*f)(const struct value *, void *), void *arg);
/*
 * Sums the weights of each dtype. sums has DT_COUNT
 * elements, indexed by dtype; element 0 sums all of them.
 */
void report_weights(const struct graph *g, struct weight_sum *sums);

struct statistics {
	int64_t count, zeros, nans, infs;
	double min, max, mean, std; /* statistics of the finite elements; NAN if there are none */
};
/* Computes the statistics of a tensor of any type except strings. */
struct statistics report_statistics(const struct tensor *t);

struct cost {
	/* number of multiply-adds of matrix products and convolutions; 0 for other operators */
	int64_t macs;
	int64_t flops; /* 2 * macs, or one operation for each output element if macs is 0 */
	int64_t bytes; /* inputs, weights and outputs, each counted once */
	bool known;    /* false if some shape is not known; the numbers are then 0 */
};
/*
 * Returns the cost of one run of the node. `info` is indexed by value id and has all shapes that
 * are known.
 */
struct cost report_cost(const struct graph *g, const struct node *n, struct vinfo *info,
			struct arena *a);

#endif
