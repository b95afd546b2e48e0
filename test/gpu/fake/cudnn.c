/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDNN without a GPU, built as libcudnn.so.9: graphs of one convolution, or of one gradient of a convolution by its
 * input, are a kernel of test/gpu/emulate/libraries.cu, launched by the stand-in driver. It supports no other graph,
 * so that what would be fused is left to kernels of ours.
 */
#include "library.h"

#include "../emulate/libraries.h"

#include <cudnn.h>
#include <stdlib.h>

enum { ATTRIBUTES = 24 };

struct attribute {
	cudnnBackendAttributeName_t name;
	int64_t n;
	void *v;
};
struct descriptor {
	cudnnBackendDescriptorType_t type;
	struct attribute a[ATTRIBUTES];
	int na;
	struct descriptor *own; /* goes with it */
};
struct cudnnContext {
	void *stream;
};

LIBRARY_API size_t cudnnGetVersion(void)
{
	return 91900;
}

LIBRARY_API size_t cudnnGetCudartVersion(void)
{
	return 13000;
}

LIBRARY_API cudnnStatus_t cudnnGraphVersionCheck(void)
{
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
	*h = calloc(1, sizeof(**h));
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
	free(h);
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
	h->stream = s;
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API const char *cudnnGetErrorString(cudnnStatus_t s)
{
	return s ? "CUDNN_STATUS_FAKE" : "CUDNN_STATUS_SUCCESS";
}

LIBRARY_API void cudnnGetLastErrorString(char *text, size_t room)
{
	snprintf(text, room, "the stand-in takes single convolutions");
}

/* ---- descriptors: what was set, as it was */

static size_t size_of(cudnnBackendAttributeType_t t)
{
	switch (t) {
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR: return 1;
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_DOUBLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
	default: return 4; /* enums, float */
	}
}

static const struct attribute *find(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
	for (int i = 0; d && i < d->na; i++)
		if (d->a[i].name == name)
			return &d->a[i];
	return NULL;
}

static struct descriptor *child(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
	const struct attribute *a = find(d, name);
	return a ? *(struct descriptor **)a->v : NULL;
}

static const int64_t *numbers(const struct descriptor *d, cudnnBackendAttributeName_t name, int64_t *n)
{
	const struct attribute *a = find(d, name);

	*n = a ? a->n : 0;
	return a ? a->v : NULL;
}

LIBRARY_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
						       cudnnBackendDescriptor_t *out)
{
	struct descriptor *d = calloc(1, sizeof(*d));

	d->type = type;
	*out = d;
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
	struct descriptor *d = p;

	if (!d)
		return CUDNN_STATUS_SUCCESS;
	for (int i = 0; i < d->na; i++)
		free(d->a[i].v);
	cudnnBackendDestroyDescriptor(d->own);
	free(d);
	return CUDNN_STATUS_SUCCESS;
}

LIBRARY_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p,
						   cudnnBackendAttributeName_t name,
						   cudnnBackendAttributeType_t type, int64_t n,
						   const void *v)
{
	struct descriptor *d = p;
	size_t bytes = (size_t)n * size_of(type);

	if (d->na == ATTRIBUTES)
		return CUDNN_STATUS_INTERNAL_ERROR;
	struct attribute *a = &d->a[d->na++];
	*a = (struct attribute){name, n, malloc(bytes + 8)};
	memcpy(a->v, v, bytes);
	return CUDNN_STATUS_SUCCESS;
}

/* The one operation of a graph; NULL where it is another. */
static struct descriptor *operation(const struct descriptor *graph)
{
	const struct attribute *ops = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
	struct descriptor *op = ops && ops->n == 1 ? *(struct descriptor **)ops->v : NULL;

	return op && (op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
		      op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
		       ? op
		       : NULL;
}

LIBRARY_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
	const struct descriptor *d = p;

	if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !operation(d))
		return CUDNN_STATUS_NOT_SUPPORTED;
	if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
	    !find(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG))
		return CUDNN_STATUS_NOT_SUPPORTED; /* of JSON */
	return CUDNN_STATUS_SUCCESS;
}

static struct descriptor *graph_of_config(const struct descriptor *config)
{
	return child(child(config, CUDNN_ATTR_ENGINECFG_ENGINE), CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

/* An engine's configuration: a descriptor of the caller's is filled, and has the engine. */
static void fill_config(struct descriptor *to, struct descriptor *graph)
{
	int64_t one = 1;
	struct descriptor *e = calloc(1, sizeof(*e));

	e->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
	cudnnBackendSetAttribute(e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
				 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
	cudnnBackendSetAttribute(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one);
	cudnnBackendSetAttribute(to, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
				 &e);
	to->own = e;
}

LIBRARY_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t p,
						   cudnnBackendAttributeName_t name,
						   cudnnBackendAttributeType_t type, int64_t room,
						   int64_t *n, void *out)
{
	const struct descriptor *d = p;
	int64_t number = 0;

	(void)type;
	*n = 1;
	switch (name) {
	case CUDNN_ATTR_ENGINEHEUR_RESULTS:
		if (room)
			fill_config(*(struct descriptor **)out,
				    child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
		return CUDNN_STATUS_SUCCESS;
	case CUDNN_ATTR_ENGINECFG_ENGINE: return CUDNN_STATUS_SUCCESS; /* all are alike */
	case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: number = 1; break;
	case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: break;
	case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
	case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
	case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: *n = 0; return CUDNN_STATUS_SUCCESS;
	default: return CUDNN_STATUS_NOT_SUPPORTED;
	}
	memcpy(out, &number, sizeof(number));
	return CUDNN_STATUS_SUCCESS;
}

/* ---- running */

static void *pointer_of(const struct descriptor *pack, const struct descriptor *tensor)
{
	int64_t n, one;
	const int64_t *uid = numbers(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &n),
		      *own = numbers(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, &one);
	const struct attribute *at = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

	for (int64_t i = 0; i < n; i++)
		if (uid[i] == *own)
			return ((void **)at->v)[i];
	return NULL;
}

static struct library_tensor tensor_of(const struct descriptor *d)
{
	struct library_tensor t;
	int64_t n, k;
	const int64_t *dim = numbers(d, CUDNN_ATTR_TENSOR_DIMENSIONS, &n),
		      *step = numbers(d, CUDNN_ATTR_TENSOR_STRIDES, &k);

	for (int i = 0; i < 2 + LIBRARY_SPACE; i++) {
		int64_t from = i < 2 ? i : i - (2 + LIBRARY_SPACE - n);
		t.dim[i] = i < 2 || from >= 2 ? dim[from] : 1;
		t.step[i] = i < 2 || from >= 2 ? step[from] : 0;
	}
	return t;
}

static void window_of(const struct descriptor *d, cudnnBackendAttributeName_t name, int64_t absent,
		      int64_t *to)
{
	int64_t n;
	const int64_t *v = numbers(d, name, &n);

	for (int i = 0; i < LIBRARY_SPACE; i++)
		to[i] = i < LIBRARY_SPACE - n ? absent : v[i - (LIBRARY_SPACE - n)];
}

static int type_of(const struct descriptor *tensor)
{
	const struct attribute *a = find(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE);
	cudnnDataType_t t = *(cudnnDataType_t *)a->v;

	return t == CUDNN_DATA_HALF	  ? LIBRARY_F16
	       : t == CUDNN_DATA_BFLOAT16 ? LIBRARY_BF16
					  : LIBRARY_F32;
}

LIBRARY_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
					      cudnnBackendDescriptor_t variant)
{
	const struct descriptor *pack = variant,
				*op = operation(graph_of_config(
					child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)));
	int back = op && op->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;

	if (!op)
		return CUDNN_STATUS_BAD_PARAM;
	const struct descriptor *x = child(op, back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
						    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
				*w = child(op, back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
						    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
				*y = child(op, back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
						    : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
				*window = child(
					op,
					back ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
					     : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
	struct library_conv job = {.x = pointer_of(pack, x),
				   .w = pointer_of(pack, w),
				   .y = pointer_of(pack, y),
				   .to = pointer_of(pack, back ? x : y),
				   .type = type_of(x),
				   .back = back,
				   .tx = tensor_of(x),
				   .tw = tensor_of(w),
				   .ty = tensor_of(y)};
	int64_t n = 1;

	if (!job.x || !job.w || !job.y)
		return CUDNN_STATUS_BAD_PARAM;
	window_of(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, job.begin);
	window_of(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, job.stride);
	window_of(window, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, job.dilation);
	for (int i = 0; i < 2 + LIBRARY_SPACE; i++)
		n *= back ? job.tx.dim[i] : job.ty.dim[i];
	return library_run("library_conv", n, &job, sizeof(job), h->stream)
		       ? CUDNN_STATUS_EXECUTION_FAILED
		       : CUDNN_STATUS_SUCCESS;
}
