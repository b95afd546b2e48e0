/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two operators of the domain com.example, as a library for infer --ops:
 *
 *   Swish(x) -> y           y = x * sigmoid(alpha * x), element by element; x of any shape
 *   TakeEvery(x) -> y       each step-th row of a matrix [rows, columns], beginning with row 0
 */
#include "infer/op.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define F32 INFER_TYPE(INFER_F32)

/* ---- Swish --------------------------------------------------------------------------------------- */

struct swish {
	float alpha;
};

static const struct infer_attribute swish_attributes[] = {
	{"alpha", INFER_ATTR_FLOAT, offsetof(struct swish, alpha), "1", 0}, {0}};
/* Both operands have the type variable T, so that y gets the type of x. */
static const struct infer_operand swish_inputs[] = {{"x", "T", F32, NULL, 0}, {0}};
static const struct infer_operand swish_outputs[] = {{"y", "T", F32, NULL, 0}, {0}};

/* The shape of y is that of x, as much of it as is known. */
static int swish_shape(const struct infer_call *call)
{
	const struct infer_tensor *x = &call->in[0];
	struct infer_tensor *y = &call->out[0];

	y->rank = x->rank;
	memcpy(y->dim, x->dim, sizeof(y->dim));
	return 0;
}

struct swish_job {
	const float *x;
	float *y, alpha;
};

static void swish_piece(void *arg, int64_t begin, int64_t end)
{
	const struct swish_job *job = arg;

	for (int64_t i = begin; i < end; i++)
		job->y[i] = job->x[i] / (1 + expf(-job->alpha * job->x[i]));
}

static int swish_cpu(const struct infer_call *call)
{
	const struct swish *p = call->params;
	struct swish_job job = {call->in[0].data, call->out[0].data, p->alpha};

	call->parallel(call, (int64_t)(call->in[0].bytes / sizeof(float)), 4096, swish_piece, &job);
	return 0;
}

#ifdef WITH_CUDA
/* In example.cu: launches a kernel on the stream. Returns CUDA's error. */
extern int swish_launch(const float *x, float *y, int64_t n, float alpha, void *stream);

static int swish_cuda(const struct infer_call *call)
{
	const struct swish *p = call->params;
	int error = swish_launch(call->in[0].data, call->out[0].data,
				 (int64_t)(call->in[0].bytes / sizeof(float)), p->alpha, call->stream);

	return error ? call->fail(call, "the kernel of Swish cannot be launched") : 0;
}
#else
#define swish_cuda NULL
#endif

/* ---- TakeEvery ----------------------------------------------------------------------------------- */

struct take_every {
	int64_t step;
};

static const struct infer_attribute take_attributes[] = {
	{"step", INFER_ATTR_INT, offsetof(struct take_every, step), NULL, 1}, {0}};
static const struct infer_operand take_inputs[] = {{"x", "T", F32, "rows columns", 0}, {0}};
static const struct infer_operand take_outputs[] = {{"y", "T", F32, NULL, 0}, {0}};

static int take_shape(const struct infer_call *call)
{
	const struct take_every *p = call->params;
	const struct infer_tensor *x = &call->in[0];
	struct infer_tensor *y = &call->out[0];

	/* The table cannot say this. A model comes from somebody else: check what you compute with. */
	if (p->step < 1)
		return call->fail(call, "the attribute step must be 1 or more");
	y->rank = 2;
	/* Sizes that are not known yet are negative. What follows from such a size is not known either: -1. */
	y->dim[0] = x->rank == 2 && x->dim[0] >= 0 ? x->dim[0] / p->step + (x->dim[0] % p->step != 0)
						   : -1;
	y->dim[1] = x->rank == 2 ? x->dim[1] : -1;
	return 0;
}

static int take_cpu(const struct infer_call *call)
{
	const struct take_every *p = call->params;
	const struct infer_tensor *x = &call->in[0], *y = &call->out[0];
	size_t row = (size_t)x->dim[1] * sizeof(float);

	for (int64_t i = 0; i < y->dim[0]; i++)
		memcpy((char *)y->data + (size_t)i * row, (const char *)x->data + (size_t)(i * p->step) * row,
		       row);
	return 0;
}

/* ---- the library --------------------------------------------------------------------------------- */

static const struct infer_op ops[] = {
	{.name = "Swish",
	 .domain = "com.example",
	 .version = 1,
	 .flags = INFER_OP_LAUNCHES_ONLY,
	 .inputs = swish_inputs,
	 .outputs = swish_outputs,
	 .attributes = swish_attributes,
	 .params_size = sizeof(struct swish),
	 .shape = swish_shape,
	 .cpu = swish_cpu,
	 .cuda = swish_cuda},
	{.name = "TakeEvery",
	 .domain = "com.example",
	 .version = 1,
	 .inputs = take_inputs,
	 .outputs = take_outputs,
	 .attributes = take_attributes,
	 .params_size = sizeof(struct take_every),
	 .shape = take_shape,
	 .cpu = take_cpu},
};

INFER_OP_EXPORT const struct infer_op_library *infer_op_library(void)
{
	static const struct infer_op_library library = {INFER_OP_VERSION, sizeof(struct infer_op), "example",
							ops, sizeof(ops) / sizeof(*ops)};

	return &library;
}
