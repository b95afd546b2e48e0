/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_NODE_ERRORS_H
#define CHECK_NODE_ERRORS_H
/*
 * Divides the loss of a changed model (quantized, or of less precision) among its nodes.
 *
 * The error of a node is its value in the changed model less what the node of the reference makes of the changed model's own
 * inputs: the node's rounding of weights and output, without what it inherits. The reference with these errors added to its
 * values is the changed model, whatever form the quantization has. To undo a node is to take its error away and to keep the
 * errors of all others: the nodes after it are computed again from the reference's operators. (Where the nodes after it
 * are quantized anew instead, each element that crosses a rounding step adds a difference as large as what was taken away, and
 * nodes rank differently for every input.)
 *
 * One pass backwards gives all derivatives of the loss by these errors (check/derivative.h), and so, without any further
 * run, a first-order estimate of what undoing each node would change.
 */
#include "check/held_run.h"
#include "check/loss.h"
#include "check/pair.h"

/*
 * A node with an error of its own, or an input that the changed model quantizes. Nodes of the reference whose values have no
 * counterpart count to the next one that has: all of them go by the name that the changed model's node has, if the reference has a
 * node of that name.
 */
struct node_error {
	uint32_t value;	       /* of the reference's graph, which has the error */
	uint32_t input;	       /* number of the model's input, NO_VALUE for a node */
	const char *node, *op; /* of the reference's file; names live as long as the context */
	double size; /* norm of the error by the norm of the value, on the first input with an error */
	/* sums over the inputs seen, in units of the loss */
	double slope; /* derivative of the loss by the error, times the error */
	double bend; /* second derivative, times the error twice, as random probes estimate it; 0 without */
	double undone;	     /* loss less the loss with the node undone; valid if `tried` */
	double requantized;  /* the same by node_errors_requantize; valid if `rerun` */
	bool tried, failed;  /* undone on each input seen; could not be undone */
	bool rerun, refused; /* the same by node_errors_requantize */
	bool opaque;	     /* an operator after it has no derivative: slope is not known */
	double output_part; /* share of the error that its output's own quantization makes, 0 to 1; NAN if not known */
	const char *scale; /* name of that quantization's scale; NULL if there is none */
};

/* Whether the error comes from the rounding of the value, which is undone only if the nodes that read it are not quantized either. */
static inline bool node_error_is_rounding(const struct node_error *e)
{
	return e->input != NO_VALUE || e->output_part > 0.5;
}

struct node_errors {
	struct check_context *c;
	struct session *ref, *got;  /* open; the reference on the host */
	struct pair_side *sides[2]; /* reference, changed: names and paths, for messages */
	enum check_metric metric;
	struct arena arena;
	struct node_error *node; /* in the order of the reference's run */
	size_t n, cap;
	double loss;	  /* sum over the inputs seen of the mean over the outputs */
	size_t inputs;	  /* inputs seen */
	uint64_t seed;	  /* of the probes */
	uint32_t outputs; /* outputs that are compared */
	uint32_t matched,
		steps; /* values of the reference that have a counterpart; nodes that it has */
	size_t peak;   /* most bytes of values held at once */
	/* the first node that gives NaN or infinity in the changed model alone; NULL if there is none */
	const char *not_finite, *not_finite_op;
	/* quantized nodes of the changed model to which none of the reference corresponds */
	struct check_names lost;
	struct node_errors_work *work;
};

/* Set c, sides, ref, got and metric of *x before. Matches the two models. Returns 0 or -code; call node_errors_end in any case. */
int node_errors_begin(struct node_errors *x);
void node_errors_end(struct node_errors *x);
/*
 * Runs both models on `in`, which is in the order of the context's model, and holds the values until node_errors_drop. Adds to loss and
 * inputs, and adds nodes that have an error. Returns 0 or -code.
 */
int node_errors_run(struct node_errors *x, const struct tensor *const *in);
void node_errors_drop(struct node_errors *x);
/*
 * Adds to the slope of each node, for the input that is held, and to its bend: the mean of so many estimates (0: none) of one degree of
 * freedom, so that the sum is worth something after several inputs only. Returns 0 or -code.
 */
int node_errors_slopes(struct node_errors *x, unsigned probes);
/*
 * Sets *loss to the loss on the held input with these nodes (numbers of x->node) undone together. Returns 0; -E_OP_UNSUPPORTED if a
 * node after them cannot be computed again, because its shape depends on values that change; or another -code.
 */
int node_errors_undo(struct node_errors *x, const size_t *nodes, size_t n, double *loss);
/*
 * Runs the changed model itself on the held input with these nodes computed by the reference's, and sets *loss. All that comes after
 * them is quantized anew: what an error before has clipped is not. Returns 0; -E_OP_UNSUPPORTED if a value could not be
 * put into the run; or another -code.
 */
int node_errors_requantize(struct node_errors *x, const size_t *nodes, size_t n, double *loss);
/*
 * The same as if these nodes were not quantized: codes cannot hold the exact value of a node whose rounding is at fault, so that the
 * nodes which read them are computed by the reference's as well.
 */
int node_errors_exclude(struct node_errors *x, const size_t *nodes, size_t n, double *loss);

#endif
