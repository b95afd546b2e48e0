/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_WEIGHTS_H
#define ONNX_WEIGHTS_H
/*
 * Tensors of a file, used in place if possible. raw_data and packed floats are copied only if they are not aligned and
 * small; each file of external data is mapped once.
 *
 * Protobuf does not align data. x86 processors read unaligned data well, so there tensors of at least UNALIGNED_MIN bytes are used in
 * place, and kernels must not assume that initializers are aligned. On other processors and under sanitizers every unaligned
 * tensor is copied. Under AddressSanitizer all are: it notices a read beyond a block of ours, but not one inside a mapped file.
 */
#include "ir/graph.h"
#include "onnx/decode.h"

enum { UNALIGNED_MIN = 256 * 1024 };

/* Memory that a loaded model owns besides its arena: mapped files and copied tensors. */
struct weights;

/* Tells the functions below where to put tensors, and what to call the tensors in findings. */
struct weights_to {
	struct arena *arena;   /* for struct tensor and small data */
	struct weights *store; /* NULL if all data are to be copied into the arena */
	struct diag *d;
	const char *what; /* "initializer", "attribute 'value'", ... */
	/* true if the tensor is an input file: findings are E-INPUT-*, not E-MODEL-* */
	bool is_input;
};

/* Reads a TensorProto. *name, if name is not NULL, is set to the tensor's name in the file. */
int weights_tensor(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name);
/* Reads a SparseTensorProto into a dense tensor. */
int weights_sparse(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name);

/*
 * Opens the store of a model that is read from path (NULL if the model is in memory). external_root is a further
 * folder for external data, or NULL. to_file: the model is written and not run, so that its files are mapped lean (base/file.h), and
 * all but small data stay there wherever they lie, if the processor reads unaligned data.
 */
struct weights *weights_open(struct model *m, const char *path, const char *external_root,
			     bool to_file);
/* Maps the model's own file; the mapping lives as long as the model. */
int weights_map(struct weights *w, const char *path, struct diag *d);
/* That mapping. */
struct file_map *weights_file(struct weights *w);
void weights_close(struct model *m);

/*
 * Tells the system that the tensor's pages are not needed soon. The system may drop the pages; they are read from the
 * file again on use.
 */
void weights_drop(struct model *m, const struct tensor *t);

#endif
