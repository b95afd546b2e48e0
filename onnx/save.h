/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_SAVE_H
#define ONNX_SAVE_H
/*
 * Writes a part of a model file as a model. Nodes, opset imports, functions and metadata are copied byte by byte from the
 * file; the part's inputs, outputs and constants are written anew.
 */
#include "ir/tensor.h"

#include <stdbool.h>

/* A node of the file's graph. */
struct onnx_node {
	/* the node's name, or operator and number, as "Relu_3", if it has none; the loader uses the same */
	const char *title;
	const char *op;
	/* includes the names that the node's bodies capture; "" stands for an omitted input */
	const char *const *in;
	const char *const *out;
	uint32_t nin, nout;
	bool constant; /* a Constant */
};

struct onnx_file;
struct onnx_file *onnx_file_open(const char *path, struct diag *d); /* E-MODEL-* */
void onnx_file_close(struct onnx_file *f);
uint32_t onnx_file_nodes(const struct onnx_file *f);
const struct onnx_node *onnx_file_node(const struct onnx_file *f, uint32_t i);
/* Number of outputs of the file's graph, and the name of output i. */
uint32_t onnx_file_outputs(const struct onnx_file *f);
const char *onnx_file_output(const struct onnx_file *f, uint32_t i);

/* An input, output or constant of a part. */
struct onnx_border {
	const char *name;
	/* type and shape, and the data of a constant; NULL or a tensor of kind V_NONE if not known */
	const struct tensor *t;
	/* names of the dimensions that are symbols, numbered as in struct model; NULL: they are written without a name */
	const char *const *symbols;
};
struct onnx_part {
	const uint32_t *node; /* numbers, ascending */
	uint32_t nnodes;
	const struct onnx_border *in, *constant, *out;
	uint32_t nin, nconstant, nout;
};
/*
 * Writes the part to path, whole or not at all. Fails with E-OUTPUT, or with E-SIZE if the part exceeds the 2 GiB
 * that protobuf allows.
 */
int onnx_save_part(const struct onnx_file *f, const struct onnx_part *part, const char *path,
		   struct diag *d);

#endif
