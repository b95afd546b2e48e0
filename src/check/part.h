/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PART_H
#define CHECK_PART_H
/*
 * Parts of the model as models of their own, with the inputs that they have in a run of the whole:
 * DIR/model.onnx, DIR/test_data_set_0/input_K.pb.
 */
#include "base/hash.h"
#include "check/check.h"
#include "check/value.h"
#include "onnx/save.h"

struct parts {
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
struct part {
	const char *dir, *model, *data;
	uint32_t nnodes, nin, nout;
	const struct tensor **in; /* by position */
	const char **out;	  /* names */
	struct arena arena;
};

int parts_open(struct check_context *c, struct parts *p);
void parts_close(struct parts *p);
/* The node of the file with this title, or that a title in a function or body belongs to; -1. */
int64_t parts_find(const struct parts *p, const char *title);
/*
 * Runs the whole model with config (unoptimized: every value that the file names is there) and keeps what
 * the nodes read and write.
 */
int parts_capture(struct parts *p, const struct run_config *config, const uint32_t *node, uint32_t n);
/* The same of the model's inputs alone, without a run. */
int parts_inputs(struct parts *p);
/* A value that was made elsewhere; v is taken over. */
void parts_put(struct parts *p, const char *name, struct value_copy *v);
/* Writes the nodes (ascending) to dir, which is made. */
int part_write(struct parts *p, const uint32_t *node, uint32_t n, const char *dir, struct part *out);
void part_free(struct part *x);

#endif
