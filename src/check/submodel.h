/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_SUBMODEL_H
#define CHECK_SUBMODEL_H
/*
 * Writes some nodes of the model's file as a model of their own, together with the inputs that these nodes get in a run
 * of the whole model: DIR/model.onnx and DIR/test_data_set_0/input_K.pb.
 */
#include "base/hash.h"
#include "check/check.h"
#include "check/step_value.h"
#include "onnx/save.h"

/* The model's file, with the values that have been captured so far. */
struct extractor {
	struct check_context *c;
	struct onnx_file *file;
	struct map node_of; /* maps a node's title to its position in the file */
	struct map maker_of; /* maps a value's name to the position of the node that makes the value */
	struct map weight; /* maps a value's name to its id in the graph of c->file */
	struct arena arena;
	struct map captured;	  /* value's name: index in value[] */
	struct value_copy *value; /* t.type.kind is V_NONE if the value is wanted but not captured yet */
	uint32_t nvalues, cap;
};

/* A part of the model that has been written. */
struct submodel {
	/* paths of the folder, of the model and of the folder with the model's inputs */
	const char *dir, *model, *data;
	uint32_t nnodes, nin, nout;
	const struct tensor **in; /* tensors of the inputs, in their order; owned by the extractor */
	const char **out;	  /* names, by position */
	struct arena arena;
};

/* Opens the model's file so that its nodes can be copied one by one. Returns 0 or -code. */
int extractor_open(struct check_context *c, struct extractor *p);
void extractor_close(struct extractor *p);
/*
 * Returns the position of the file's node with this title. For a title inside a function or body ("outer/inner"),
 * returns the position of the file's node to which the title belongs. Returns -1 if there is none.
 */
int64_t extractor_find_node(const struct extractor *p, const char *title);
/*
 * Runs the whole model with config and captures what the given nodes read and write. The run is not optimized, so
 * that every value which the file names exists. If the run fails, the values made before the failure are still
 * captured. Returns 0 or -code.
 */
int extractor_run(struct extractor *p, const struct run_config *config, const uint32_t *node,
		  uint32_t n);
/* Captures only the model's inputs, without a run. Returns 0 or -code. */
int extractor_add_model_inputs(struct extractor *p);
/* Adds a value that the caller has captured elsewhere; the extractor becomes the owner of *v. */
void extractor_add_value(struct extractor *p, const char *name, struct value_copy *v);
/*
 * Writes n nodes, given by ascending positions, to the folder dir, which is created. The nodes' inputs must have been
 * captured; otherwise fails with E-BISECT. Returns 0 or -code. Free *out with submodel_free.
 */
int submodel_write(struct extractor *p, const uint32_t *node, uint32_t n, const char *dir,
		   struct submodel *out);
void submodel_free(struct submodel *x);

#endif
