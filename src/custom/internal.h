/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUSTOM_INTERNAL_H
#define CUSTOM_INTERNAL_H
/* What the files of this folder share: an operator of a library, and its functions as the registry and the backends call them. */
#include "backend/backend.h"
#include "custom/infer/op.h"

struct custom_op {
	struct op row; /* first: nodes point to it */
	const struct infer_op *def;
	void *(*stream_handle)(const struct stream *); /* of the backend that runs def->cuda */
};

/* The shape function of all such operators. */
int custom_infer(struct infer *c);
/* Functions of their kernels. */
int custom_reshape(struct site *s, struct step *step, struct diag *d);
int custom_run_host(const struct call *c);
int custom_run_device(const struct call *c);

#endif
