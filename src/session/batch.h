/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_BATCH_H
#define SESSION_BATCH_H
/*
 * Stacks the inputs of several cases along the batch, which is the first dimension, and takes the outputs apart again.
 *
 *   batch_begin -> { batch_takes ... batch_stack -> session_run -> batch_part ... } -> batch_free
 */
#include "ir/graph.h"

/* where an output has the batch: in its first dimension alone, or not there or in another one, too */
enum batch_place { PLACE_UNKNOWN, PLACE_FIRST, PLACE_ELSEWHERE };

struct batch {
	struct arena arena;
	const struct model *model;
	int64_t limit; /* most cases in a run */
	int64_t dim;   /* the batch in the model's shapes: a size, a symbol or DIM_UNKNOWN */
	int64_t fixed; /* the batch size that the model fixes; 0 if it is free */
	bool *stacked; /* for each input: its first dimension is the batch */
	/* of a batch that the model fixes, for each output, as far as shape inference tells; NULL if the batch is free */
	enum batch_place *place;
	/* of the newest stack */
	size_t ncases;
	int64_t *first; /* row at which case i begins; first[ncases] is the number of rows without padding */
	int64_t rows; /* with padding */
	struct tensor *tensor;
	const struct tensor **in;
	void **owned;
	size_t *room;
};

/*
 * varies: for each input of the model, whether it differs between cases. limit: most cases in a run, or 0 for as many as
 * the model fixes, else 1. Fails with E-BATCH if the model or an input does not allow that many.
 */
int batch_begin(struct batch *b, const struct model *m, const bool *varies, int64_t limit,
		struct diag *d);
/* Returns true if a run with n cases, the first of which has the inputs `first`, may take a case with the inputs `next`. */
bool batch_takes(const struct batch *b, const struct tensor *const *const *cases, size_t n,
		 const struct tensor *const *next);
/*
 * Sets *in to the inputs of a run with all n cases. A batch that the model fixes is filled by repeating the last row.
 * Inputs that are contiguous already stay where they are. The tensors are valid until the next call, as long as the cases are.
 */
int batch_stack(struct batch *b, const struct tensor *const *const *cases, size_t n,
		const struct tensor *const **in, struct diag *d);
/*
 * Sets *part to the rows of output o of the model, `out`, that belong to case i. The part points into the output. Fails with
 * E-BATCH if rows and cases do not correspond by the model's shapes.
 */
int batch_part(const struct batch *b, uint32_t o, const struct tensor *out, size_t i,
	       struct tensor *part, struct diag *d);
void batch_free(struct batch *b);

#endif
