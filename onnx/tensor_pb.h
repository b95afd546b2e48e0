/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_TENSOR_PB_H
#define ONNX_TENSOR_PB_H
/*
 * Reads and writes values in ONNX's .pb files. Such a file is one message: a TensorProto, SequenceProto,
 * OptionalProto or MapProto. The file does not say which of these it holds; that follows from the type of the input
 * or output that the value is for.
 */
#include "ir/tensor.h"

/* Returns the value, in the arena, or NULL with a finding (E-INPUT-OPEN, E-INPUT-FORMAT). */
struct tensor *tensor_pb_read(const char *path, struct type expect, struct arena *a, struct diag *d);
struct tensor *tensor_pb_parse(const void *bytes, size_t n, struct type expect, struct arena *a,
			       struct diag *d);
/*
 * Reads type and shape of a TensorProto and points *head to its raw_data, if it has any. Nothing is copied, and the
 * size of the data is not checked against the shape. Returns 0 or -code.
 */
int tensor_pb_head(const void *bytes, size_t n, struct tensor *head, struct diag *d);
/* Writes the value to path, whole or not at all; name may be NULL. Returns 0 or -code (E-OUTPUT). */
int tensor_pb_write(const char *path, const struct tensor *t, const char *name, struct diag *d);

#endif
