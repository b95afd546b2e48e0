/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_GENAI_H
#define SESSION_GENAI_H
/* Reads genai_config.json, by which ONNX Runtime GenAI tells the models of a folder: what each is for, and how its decoder is run. */
#include "base/json_read.h"

struct genai_part {
	const char *name; /* "decoder", "vision", "decoder.NAME" for a stage of a pipeline */
	const char *file; /* as given */
	const char *path; /* beside the configuration */
	int64_t bytes;	  /* of the file; -1: it is not there */
	const struct jvalue *inputs, *outputs; /* the configuration's objects; NULL */
};
struct genai {
	const char *path, *type;	     /* "llama" */
	int64_t vocabulary, context, layers; /* 0: not given */
	struct genai_part *part;
	size_t nparts;
	const char *command; /* the line that runs the decoder; NULL with `why_not` */
	const char *why_not;
	const char *first; /* lines for the first step of a decoder that takes embeddings, from the other parts; NULL: none */
};
/* The configuration that the path names: itself, or a folder's. NULL if it is neither. */
const char *genai_path(const char *path, struct arena *a);
/* Reads the configuration. Fails with E-MODEL-FORMAT or E-MODEL-OPEN. */
int genai_read(const char *path, struct arena *a, struct genai *out, struct diag *d);
/* Returns the path of the decoder's model; NULL if the configuration names none, or one outside of its folder. */
const char *genai_decoder(const struct genai *g);

#endif
