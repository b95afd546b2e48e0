/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_WEIGHTS_H
#define ONNX_WEIGHTS_H
/*
 * Tensors of a file, as far as possible where they lie in it. raw_data and
 * packed floats are not copied but where they are small and not aligned (below);
 * external data are mapped, once a file.
 *
 * Protobuf aligns nothing. On x86, where the processor does not mind, data of
 * UNALIGNED_MIN bytes and more are left where they lie: whoever reads initializers
 * through wider types there must bear that. Elsewhere, and with INFER_ALIGN_ALL
 * (sanitizers set it), everything is copied into alignment.
 */
#include "ir/graph.h"
#include "onnx/decode.h"

enum { UNALIGNED_MIN = 256 * 1024 };

/* What a loaded model holds besides its arena: maps and blocks. */
struct weights;

/* Where tensors go and how their faults are told. */
struct weights_to {
	struct arena *arena;   /* of struct tensor and small data */
	struct weights *store; /* NULL: all data are copied into the arena */
	struct diag *d;
	const char *what; /* "initializer", "attribute 'value'", ... */
	bool is_input;	  /* faults are an input's, not a model's */
};

/* A TensorProto. *name (may be NULL) gets its name, where it lies. */
int weights_tensor(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name);
/* A SparseTensorProto, made dense. */
int weights_sparse(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name);

/* The store of a model read from path (NULL: from memory); external_root may be NULL. */
struct weights *weights_open(struct model *m, const char *path, const char *external_root);
/* The model's own file, mapped for as long as the model lives. */
struct file_map *weights_file(struct weights *w);
void weights_close(struct model *m);

/* The tensor's pages are not needed soon: they may leave memory (and come back from the file). */
void weights_drop(struct model *m, const struct tensor *t);

#endif
