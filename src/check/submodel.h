/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_SUBMODEL_H
#define CHECK_SUBMODEL_H
/*
 * Parts of the model as models of their own, with the inputs that they have in a run of the whole:
 * DIR/model.onnx, DIR/test_data_set_0/input_K.pb.
 */
#include "base/hash.h"
#include "check/check.h"
#include "check/step_value.h"
#include "onnx/save.h"

struct extractor {
	struct check_context *c;
	struct onnx_file *file;
	struct map node_of;  /* title to node */
	struct map maker_of; /* value to the node that makes it */
	struct map weight;   /* name to value id, in c->file's graph */
	struct arena arena;
	/* what was captured */
	struct map captured; /* name to number */
	struct value_copy *value;
	uint32_t nvalues, cap;
};

/* A part as it was written. */
struct submodel {
	const char *dir, *model, *data;
	uint32_t nnodes, nin, nout;
	const struct tensor **in; /* by position */
	const char **out;	  /* names */
	struct arena arena;
};

int extractor_open(struct check_context *c, struct extractor *p);
void extractor_close(struct extractor *p);
/* The node of the file with this title, or that a title in a function or body belongs to; -1. */
int64_t extractor_find_node(const struct extractor *p, const char *title);
/*
 * Runs the whole model with config (unoptimized: every value that the file names is there) and keeps what
 * the nodes read and write.
 */
int extractor_run(struct extractor *p, const struct run_config *config, const uint32_t *node,
		  uint32_t n);
/* The same of the model's inputs alone, without a run. */
int extractor_add_model_inputs(struct extractor *p);
/* A value that was made elsewhere; v is taken over. */
void extractor_add_value(struct extractor *p, const char *name, struct value_copy *v);
/* Writes the nodes (ascending) to dir, which is made. */
int submodel_write(struct extractor *p, const uint32_t *node, uint32_t n, const char *dir,
		   struct submodel *out);
void submodel_free(struct submodel *x);

#endif
