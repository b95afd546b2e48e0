/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_SAVE_H
#define ONNX_SAVE_H
/*
 * Writes a part of a model file as a model. Nodes, initializers, opset imports, functions, metadata, documentation and fields that
 * the schema does not know are copied byte by byte from the file, names that the caller changes apart; the types of the part's
 * inputs and outputs are written anew.
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
	uint32_t noperands; /* the first of `in` are the node's own; captured names follow */
	size_t bytes;	    /* in the file */
	bool constant;	    /* a Constant */
	bool annotated;	    /* has multi-device annotations */
};

struct onnx_file;
/* external_root is a further folder in which external data may lie, or NULL. Fails with E-MODEL-*. */
struct onnx_file *onnx_file_open(const char *path, const char *external_root, struct diag *d);
void onnx_file_close(struct onnx_file *f);
uint32_t onnx_file_nodes(const struct onnx_file *f);
const struct onnx_node *onnx_file_node(const struct onnx_file *f, uint32_t i);
/* Number of outputs of the file's graph, and the name of output i. */
uint32_t onnx_file_outputs(const struct onnx_file *f);
const char *onnx_file_output(const struct onnx_file *f, uint32_t i);

/* Whether a body of a node defines this name, which hides a value of the file's graph from that body. */
bool onnx_file_inner_name(const struct onnx_file *f, const char *name);
/* Whether the file's graph has an initializer of this name, dense or sparse. */
bool onnx_file_weight(const struct onnx_file *f, const char *name);
/*
 * Puts the nodes of a body in the place of its node, an If whose condition is constant. They become nodes of the file's graph, with
 * higher numbers than all others; the node itself is left without inputs and outputs. A value of the body is called what fresh()
 * returns for its name, which must not be defined anywhere; an output gets the name that the node's output has.
 * Returns 0, ONNX_NO_BRANCH, in which case nothing has changed, or -code.
 */
typedef const char *onnx_fresh(void *arg, const char *name);
enum { ONNX_NO_BRANCH = 1 };
int onnx_file_inline(struct onnx_file *f, uint32_t node, const char *attribute, onnx_fresh *fresh,
		     void *arg, struct diag *d);
/*
 * Does the same for nodes in bodies, at any depth: a branch is taken if takes() accepts the byte offset of its GraphProto in the model
 * (struct graph has the place of each body). Fails with -code.
 */
typedef bool onnx_takes(void *arg, size_t place);
int onnx_file_take_branches(struct onnx_file *f, onnx_takes *takes, onnx_fresh *fresh, void *arg,
			    struct diag *d);
/*
 * Adds the names of the tensors that the graph's quantization annotations give as parameters of the tensor `name`. Returns the number
 * of names in *names, which is in the file's memory.
 */
uint32_t onnx_file_parameters(struct onnx_file *f, const char *name, const char *const **names);

/* An input, output or constant of a part. */
struct onnx_border {
	const char *name;
	/*
	 * type and shape, and the data of a constant; NULL or a tensor of kind V_NONE if not known. A constant with NULL is
	 * copied from the file's initializer of this name.
	 */
	const struct tensor *t;
	bool keep; /* an input or output: the file's type is written, if the file tells one; t is for those that read this */
	/* names of the dimensions that are symbols, numbered as in struct model; NULL: they are written without a name */
	const char *const *symbols;
};

/* In place of the number of an operand: a name that the node's bodies capture, and one that the node writes. */
enum { ONNX_CAPTURE = -1, ONNX_RESULT = -2 };
/*
 * Returns the name to write in place of `name`, which is operand number `operand` of a node of the file, or one of the two above.
 * Names that are written must not be defined in a body (onnx_file_inner_name).
 */
typedef const char *onnx_rename(void *arg, uint32_t node, int64_t operand, const char *name);

struct onnx_part {
	const uint32_t *node; /* numbers, in the order in which the nodes are written */
	uint32_t nnodes;
	onnx_rename *rename; /* NULL: all names stay */
	void *rename_arg;
	const struct onnx_border *in, *constant, *out;
	uint32_t nin, nconstant, nout;
	bool retyped; /* of the values inside, the types of `inner` are written, not what the file says */
	const struct onnx_border *inner;
	uint32_t ninner;
	/* the model says where the file of external data would be, which is not written */
	bool strip;
	/* name of a file of external data that takes the initializers of 1 KiB and more, in the folder of the part; NULL: none */
	const char *external;
};
/*
 * Writes the part to path, whole or not at all; the file of external data is complete before. External data of the source are looked
 * for in its folder (E-WEIGHT-*). Fails with E-OUTPUT, or with E-SIZE if the part exceeds the 2 GiB
 * that protobuf allows.
 */
int onnx_save_part(const struct onnx_file *f, const struct onnx_part *part, const char *path,
		   struct diag *d);

#endif
