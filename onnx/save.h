/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_SAVE_H
#define ONNX_SAVE_H
/*
 * Parts of a model file as models of their own. The nodes, opset imports, functions and metadata are the
 * file's own bytes; what the part takes in and gives out, and the constants it needs, are written anew.
 */
#include "ir/tensor.h"

#include <stdbool.h>

/* A node of the file's graph. */
struct onnx_node {
	const char *title; /* its name, or OP_K as the loader calls it */
	const char *op;
	const char *const *in; /* with the names that its bodies capture; "" where left out */
	const char *const *out;
	uint32_t nin, nout;
	bool constant; /* a Constant */
};

struct onnx_file;
struct onnx_file *onnx_file_open(const char *path, struct diag *d); /* E-MODEL-* */
void onnx_file_close(struct onnx_file *f);
uint32_t onnx_file_nodes(const struct onnx_file *f);
const struct onnx_node *onnx_file_node(const struct onnx_file *f, uint32_t i);
/* The outputs of the file's graph. */
uint32_t onnx_file_outputs(const struct onnx_file *f);
const char *onnx_file_output(const struct onnx_file *f, uint32_t i);

/* A value at the border of a part. type.kind V_NONE: not known. */
struct onnx_border {
	const char *name;
	const struct tensor *t; /* type and shape; of a constant: its data, too. NULL: not known */
};
struct onnx_part {
	const uint32_t *node; /* numbers, ascending */
	uint32_t nnodes;
	const struct onnx_border *in, *constant, *out;
	uint32_t nin, nconstant, nout;
};
/* Written whole or not at all. E-OUTPUT; E-SIZE where it would be larger than protobuf allows. */
int onnx_save_part(const struct onnx_file *f, const struct onnx_part *part, const char *path,
		   struct diag *d);

#endif
