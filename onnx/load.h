/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_LOAD_H
#define ONNX_LOAD_H
/* Reads an ONNX file, or the bytes of one, into a struct model. */
#include "base/field.h"
#include "ir/graph.h"

struct load_options {
	/* a further folder in which external data may lie, besides the model's own; or NULL */
	const char *external_root;
	/*
	 * The user's words for inputs, "NAME=..." or "NAME:...". A graph input that also has an initializer has a default
	 * value: it is loaded as an input if one of these words names it, and as a constant if none does.
	 */
	const struct texts *given;
	uint32_t ngiven;
	bool to_file; /* the model is written and not run: little of its file shall be in memory at once (onnx/weights.h) */
	bool collect; /* report each faulty node and weight and go on, instead of ending at the first */
	/* go on, as with `collect`, after external data that cannot be read, and after nothing else */
	bool without_data;
};

/*
 * Returns the model, which the caller gives back with onnx_unload, or NULL with a finding (E-MODEL-*). With `collect` a model
 * may be returned although errors were added: faulty nodes and weights are missing from it, so it can be inspected but
 * must not be run. options may be NULL.
 */
struct model *onnx_load(const char *path, const struct load_options *options, struct diag *d);
/*
 * Does the same from n bytes of memory, which must outlive the model. External data are searched under external_root
 * only.
 */
struct model *onnx_load_bytes(const void *bytes, size_t n, const struct load_options *options,
			      struct diag *d);
void onnx_unload(struct model *m);

#endif
