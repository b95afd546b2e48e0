/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_TENSOR_PB_H
#define ONNX_TENSOR_PB_H
/*
 * Values in ONNX's .pb files: one message, whose kind is not said in the file
 * but follows from the type of the input or output that it is for: TensorProto,
 * SequenceProto, OptionalProto, MapProto.
 */
#include "ir/tensor.h"

/* The value in the arena, or NULL with a finding (E-INPUT-OPEN, E-INPUT-FORMAT). */
struct tensor *tensor_pb_read(const char *path, struct type expect, struct arena *a, struct diag *d);
struct tensor *tensor_pb_parse(const void *bytes, size_t n, struct type expect, struct arena *a,
			       struct diag *d);
/*
 * A TensorProto's type and shape, and where its raw_data lie, if it has such: nothing is copied, and
 * the data are not checked against the shape. 0 or -code.
 */
int tensor_pb_head(const void *bytes, size_t n, struct tensor *head, struct diag *d);
/* Written whole or not at all; name may be NULL. */
int tensor_pb_write(const char *path, const struct tensor *t, const char *name, struct diag *d);

#endif
