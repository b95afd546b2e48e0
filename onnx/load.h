/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_LOAD_H
#define ONNX_LOAD_H
/* Bytes of an ONNX file to a struct model. */
#include "base/field.h"
#include "ir/graph.h"

struct load_options {
	const char *external_root; /* a folder that external data may lie in, too; or NULL */
	/*
	 * Lists of texts "NAME=..." or "NAME:...": an input that has an initializer, which is its default, is
	 * an input like others where one of them names it; else it is a constant.
	 */
	const struct texts *given;
	uint32_t ngiven;
	bool collect; /* go on after faults of single nodes and weights, reporting each */
};

/*
 * The model, or NULL with a finding. With `collect` a model may come back although findings were
 * added: what was at fault is left out of it, so it may be looked at but not run.
 * options may be NULL.
 */
struct model *onnx_load(const char *path, const struct load_options *options, struct diag *d);
/* The same from memory, which must stay as long as the model. External data: only under external_root. */
struct model *onnx_load_bytes(const void *bytes, size_t n, const struct load_options *options,
			      struct diag *d);
void onnx_unload(struct model *m);

#endif
