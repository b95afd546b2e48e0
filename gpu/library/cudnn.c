/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library/cudnn.h"

#include "gpu/driver/api.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if HAVE_CUDNN

typedef cudnnBackendDescriptor_t desc;

struct dn {
	const struct cudnn_api *api;
	struct device *device; /* NULL without a device */
	cudnnHandle_t handle;
	desc properties; /* properties of the described device, if there is no real one */
	struct arena arena;
};

enum { MAX_OPS = 32, MAX_DESCS = 512, WORKSPACE_ALIGN = 256 };

struct dn_graph {
	struct dn *dn;
	int users;
	cudnnStatus_t status; /* the first error; once it is set, later calls do nothing */
	char what[96], text[256];
	int ntensor, nop, ndesc;
	desc tensor[DN_TENSORS], op[MAX_OPS], graph;
	desc all[MAX_DESCS]; /* all descriptors, which are destroyed together with the graph */
};

struct dn_plan {
	struct dn *dn;
	desc plan;
	int64_t workspace;
	/* the plan counts as a user of the graph; NULL if the plan was loaded from JSON */
	struct dn_graph *graph;
};

/* ---- the library ------------------------------------------------------------------------------ */

static void drop_dn(struct device *device, void *p)
{
	struct dn *dn = p;

	if (dn->handle && !cuda_lost(device))
		dn->api->p_cudnnDestroy(dn->handle);
	struct arena a = dn->arena;
	arena_free(&a);
}

static struct dn *new_dn(const struct cudnn_api *api)
{
	struct arena a = {0};
	struct dn *dn = arena_new(&a, struct dn);

	dn->arena = a;
	dn->api = api;
	return dn;
}

static const struct cudnn_api *open_library(const struct cudnn_api *(*open)(struct diag *),
					    struct why *why)
{
	struct diag d = {0};
	const struct cudnn_api *api = open(&d);

	if (!api)
		refuse(why, "cuDNN cannot be opened%s%s", d.first && d.first->actual ? ": " : "",
		       d.first && d.first->actual ? d.first->actual : "");
	diag_free(&d);
	return api;
}

struct dn *dn_of(struct device *device, struct why *why)
{
	struct dn *dn = gpu_slot(device, GPU_CUDNN);
	bool pushed;

	if (dn) {
		if (!dn->handle)
			refuse(why, "cuDNN gave no handle");
		return dn->handle ? dn : NULL;
	}
	const struct cudnn_api *api = open_library(cudnn_api, why);
	if (!api || cuda_enter(device, &pushed, NULL))
		return NULL;
	uint64_t before = gpu_unused(device);
	dn = new_dn(api);
	dn->device = device;
	cudnnStatus_t r = api->p_cudnnCreate(&dn->handle);
	if (r) {
		refuse(why, "cuDNN gave no handle: %s", api->p_cudnnGetErrorString(r));
		/* later calls see that the attempt failed and do not try again */
		dn->handle = NULL;
	}
	gpu_note_taken(device, before, MEM_LIBRARIES);
	cuda_leave(device, pushed);
	gpu_slot_set(device, GPU_CUDNN, dn, drop_dn);
	return r ? NULL : dn;
}

struct dn *dn_deviceless(const char *json, size_t n, struct why *why)
{
	const struct cudnn_api *api = open_library(cudnn_alone, why);

	if (!api)
		return NULL;
	struct dn *dn = new_dn(api);
	cudnnStatus_t r = api->p_cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
							      &dn->properties);
	if (!r)
		r = api->p_cudnnBackendSetAttribute(dn->properties,
						    CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
						    CUDNN_TYPE_CHAR, (int64_t)n, json);
	if (!r)
		r = api->p_cudnnBackendFinalize(dn->properties);
	if (!r)
		return dn;
	refuse(why, "cuDNN without a device: status %d", (int)r);
	dn_deviceless_free(dn);
	return NULL;
}

void dn_deviceless_free(struct dn *dn)
{
	if (!dn)
		return;
	if (dn->properties)
		dn->api->p_cudnnBackendDestroyDescriptor(dn->properties);
	struct arena a = dn->arena;
	arena_free(&a);
}

size_t dn_version(const struct dn *dn)
{
	return dn->api->p_cudnnGetVersion();
}

/* ---- descriptors ------------------------------------------------------------------------------ */

static void keep_error(struct dn_graph *g, cudnnStatus_t r, const char *what)
{
	if (!r || g->status)
		return;
	g->status = r;
	snprintf(g->what, sizeof(g->what), "%s", what);
	g->dn->api->p_cudnnGetLastErrorString(g->text, sizeof(g->text));
}

static desc make_desc(struct dn_graph *g, cudnnBackendDescriptorType_t type)
{
	desc d = NULL;

	if (g->status)
		return NULL;
	if (g->ndesc == MAX_DESCS) {
		keep_error(g, CUDNN_STATUS_BAD_PARAM, "a graph of too many parts");
		return NULL;
	}
	keep_error(g, g->dn->api->p_cudnnBackendCreateDescriptor(type, &d), "a descriptor");
	if (!g->status)
		g->all[g->ndesc++] = d;
	return g->status ? NULL : d;
}

static void set_attribute(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name,
			  cudnnBackendAttributeType_t type, int64_t n, const void *v)
{
	char what[64];

	if (g->status)
		return;
	cudnnStatus_t r = g->dn->api->p_cudnnBackendSetAttribute(d, name, type, n, v);
	snprintf(what, sizeof(what), "attribute %d", (int)name);
	keep_error(g, r, what);
}

static void set_desc(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name, desc v)
{
	set_attribute(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v);
}

static void set_tensor(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name, int t)
{
	if (t >= 0 && t < g->ntensor)
		set_desc(g, d, name, g->tensor[t]);
}

static void set_int(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name, int64_t v)
{
	set_attribute(g, d, name, CUDNN_TYPE_INT64, 1, &v);
}

static void set_double(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name, double v)
{
	set_attribute(g, d, name, CUDNN_TYPE_DOUBLE, 1, &v);
}

static void set_type(struct dn_graph *g, desc d, cudnnBackendAttributeName_t name, cudnnDataType_t v)
{
	set_attribute(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &v);
}

static void finalize(struct dn_graph *g, desc d, const char *what)
{
	if (!g->status)
		keep_error(g, g->dn->api->p_cudnnBackendFinalize(d), what);
}

static cudnnDataType_t type_of(enum dtype t)
{
	switch (t) {
	case DT_F64: return CUDNN_DATA_DOUBLE;
	case DT_F16: return CUDNN_DATA_HALF;
	case DT_BF16: return CUDNN_DATA_BFLOAT16;
	case DT_I8: return CUDNN_DATA_INT8;
	case DT_U8: return CUDNN_DATA_UINT8;
	case DT_I32: return CUDNN_DATA_INT32;
	case DT_I64: return CUDNN_DATA_INT64;
	case DT_BOOL: return CUDNN_DATA_BOOLEAN;
	default: return CUDNN_DATA_FLOAT;
	}
}

/* ---- operations ------------------------------------------------------------------------------- */

struct dn_graph *dn_graph_new(struct dn *dn, struct why *why)
{
	struct dn_graph *g = calloc(1, sizeof(*g));

	if (!g)
		refuse(why, "no memory");
	else
		g->dn = dn, g->users = 1;
	return g;
}

void dn_graph_free(struct dn_graph *g)
{
	if (!g || --g->users)
		return;
	for (int i = g->ndesc; i-- > 0;)
		g->dn->api->p_cudnnBackendDestroyDescriptor(g->all[i]);
	free(g);
}

int dn_tensor(struct dn_graph *g, const struct dn_tensor *t)
{
	desc d = make_desc(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	bool yes = true;

	if (!d)
		return -1;
	if (g->ntensor == DN_TENSORS || t->rank > DN_DIMS) {
		keep_error(g, CUDNN_STATUS_BAD_PARAM, "too many tensors or dimensions");
		return -1;
	}
	set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(t->type));
	set_attribute(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank, t->dim);
	set_attribute(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank, t->stride);
	set_int(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, t->uid);
	set_int(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t->by_value ? 4 : 16);
	if (t->is_virtual)
		set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
	if (t->by_value)
		set_attribute(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
	finalize(g, d, "a tensor");
	g->tensor[g->ntensor] = d;
	return g->ntensor++;
}

static void add_op(struct dn_graph *g, desc op, const char *what)
{
	finalize(g, op, what);
	if (g->nop == MAX_OPS)
		keep_error(g, CUDNN_STATUS_BAD_PARAM, "too many operations");
	if (!g->status)
		g->op[g->nop++] = op;
}

static desc window_desc(struct dn_graph *g, const struct dn_window *w)
{
	desc d = make_desc(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

	set_type(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	set_attribute(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set_int(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, w->n);
	set_attribute(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, w->n, w->begin);
	set_attribute(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, w->n, w->end);
	set_attribute(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, w->n, w->stride);
	set_attribute(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, w->n, w->dilation);
	finalize(g, d, "a window");
	return d;
}

void dn_conv(struct dn_graph *g, int x, int w, int y, const struct dn_window *window)
{
	desc c = window_desc(g, window);
	desc d = make_desc(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	float one = 1, zero = 0;

	set_desc(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
	set_attribute(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
	set_attribute(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
	add_op(g, d, "a convolution");
}

void dn_conv_back(struct dn_graph *g, int x, int w, int y, const struct dn_window *window)
{
	desc c = window_desc(g, window);
	desc d = make_desc(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
	float one = 1, zero = 0;

	set_desc(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, c);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, x);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, y);
	set_attribute(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_TYPE_FLOAT, 1,
		      &one);
	set_attribute(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT, 1,
		      &zero);
	add_op(g, d, "a transposed convolution");
}

static const cudnnPointwiseMode_t modes[DN_OPS] = {
	[DN_IDENTITY] = CUDNN_POINTWISE_IDENTITY,
	[DN_ABS] = CUDNN_POINTWISE_ABS,
	[DN_NEG] = CUDNN_POINTWISE_NEG,
	[DN_SQRT] = CUDNN_POINTWISE_SQRT,
	[DN_RSQRT] = CUDNN_POINTWISE_RSQRT,
	[DN_EXP] = CUDNN_POINTWISE_EXP,
	[DN_LOG] = CUDNN_POINTWISE_LOG,
	[DN_ERF] = CUDNN_POINTWISE_ERF,
	[DN_RECIPROCAL] = CUDNN_POINTWISE_RECIPROCAL,
	[DN_RELU] = CUDNN_POINTWISE_RELU_FWD,
	[DN_TANH] = CUDNN_POINTWISE_TANH_FWD,
	[DN_SIGMOID] = CUDNN_POINTWISE_SIGMOID_FWD,
	[DN_ELU] = CUDNN_POINTWISE_ELU_FWD,
	[DN_GELU] = CUDNN_POINTWISE_GELU_FWD,
	[DN_GELU_TANH] = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD,
	[DN_SOFTPLUS] = CUDNN_POINTWISE_SOFTPLUS_FWD,
	[DN_SWISH] = CUDNN_POINTWISE_SWISH_FWD,
	[DN_GEN_INDEX] = CUDNN_POINTWISE_GEN_INDEX,
	[DN_ADD] = CUDNN_POINTWISE_ADD,
	[DN_SUB] = CUDNN_POINTWISE_SUB,
	[DN_MUL] = CUDNN_POINTWISE_MUL,
	[DN_DIV] = CUDNN_POINTWISE_DIV,
	[DN_MIN] = CUDNN_POINTWISE_MIN,
	[DN_MAX] = CUDNN_POINTWISE_MAX,
	[DN_POW] = CUDNN_POINTWISE_POW,
	[DN_CMP_GE] = CUDNN_POINTWISE_CMP_GE,
	[DN_CMP_GT] = CUDNN_POINTWISE_CMP_GT,
	[DN_CMP_LE] = CUDNN_POINTWISE_CMP_LE,
	[DN_CMP_LT] = CUDNN_POINTWISE_CMP_LT,
	[DN_CMP_EQ] = CUDNN_POINTWISE_CMP_EQ,
	[DN_AND] = CUDNN_POINTWISE_LOGICAL_AND,
	[DN_OR] = CUDNN_POINTWISE_LOGICAL_OR,
	[DN_SELECT] = CUDNN_POINTWISE_BINARY_SELECT,
};

static desc mode_desc(struct dn_graph *g, enum dn_op op, const struct dn_arg *a)
{
	desc d = make_desc(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
	bool logical = op >= DN_CMP_GE && op <= DN_OR;

	set_attribute(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &modes[op]);
	set_type(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC,
		 logical ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
	if (op == DN_RELU || op == DN_MIN || op == DN_MAX)
		set_attribute(g, d, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
			      1, &(cudnnNanPropagation_t){CUDNN_PROPAGATE_NAN});
	if (a && a->has_alpha && op == DN_ELU)
		set_double(g, d, CUDNN_ATTR_POINTWISE_ELU_ALPHA, a->alpha);
	if (a && a->has_alpha && op == DN_SWISH)
		set_double(g, d, CUDNN_ATTR_POINTWISE_SWISH_BETA, a->alpha);
	if (a && a->has_alpha && op == DN_GEN_INDEX)
		set_int(g, d, CUDNN_ATTR_POINTWISE_AXIS, (int64_t)a->alpha);
	if (a && a->has_lower && op == DN_RELU)
		set_double(g, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, a->lower);
	if (a && a->has_upper && op == DN_RELU)
		set_double(g, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, a->upper);
	if (a && a->slope != 0 && op == DN_RELU)
		set_double(g, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, a->slope);
	finalize(g, d, "a pointwise mode");
	return d;
}

void dn_pointwise(struct dn_graph *g, enum dn_op op, int x, int b, int t, int y,
		  const struct dn_arg *arg)
{
	desc m = mode_desc(g, op, arg);
	desc d = make_desc(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

	set_desc(g, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, m);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
	add_op(g, d, "a pointwise operation");
}

void dn_matmul(struct dn_graph *g, int a, int b, int c)
{
	desc m = make_desc(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);

	set_type(g, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
	finalize(g, m, "a product's type");
	desc d = make_desc(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
	set_desc(g, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
	add_op(g, d, "a matrix product");
}

void dn_reduction(struct dn_graph *g, enum dn_reduce op, int x, int y)
{
	static const cudnnReduceTensorOp_t how[] = {CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_MAX,
						    CUDNN_REDUCE_TENSOR_MIN, CUDNN_REDUCE_TENSOR_AVG};
	desc r = make_desc(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);

	set_attribute(g, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
		      &how[op]);
	set_type(g, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	finalize(g, r, "a reduction's kind");
	desc d = make_desc(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
	set_tensor(g, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
	set_desc(g, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
	add_op(g, d, "a reduction");
}

/* Calls of cuDNN that may touch the device must stand between enter_device() and leave_device(). */
static bool enter_device(struct dn *dn, bool *pushed, struct why *why)
{
	*pushed = false;
	if (dn->device && cuda_enter(dn->device, pushed, NULL))
		return refuse(why, "the device is lost");
	return true;
}

static void leave_device(struct dn *dn, bool pushed)
{
	if (dn->device)
		cuda_leave(dn->device, pushed);
}

bool dn_graph_end(struct dn_graph *g, struct why *why)
{
	bool pushed;
	desc d = make_desc(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

	if (!enter_device(g->dn, &pushed, why))
		return false;
	if (g->dn->handle)
		set_attribute(g, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
			      &g->dn->handle);
	set_attribute(g, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->nop,
		      g->op);
	finalize(g, d, "the graph");
	leave_device(g->dn, pushed);
	g->graph = d;
	if (g->status)
		return refuse(why, "cuDNN: %s: %s: %s", g->what,
			      g->dn->api->p_cudnnGetErrorString(g->status), g->text);
	return true;
}

/* ---- engines ---------------------------------------------------------------------------------- */

static unsigned notes_of(const struct cudnn_api *api, desc engine)
{
	static const struct {
		cudnnBackendNumericalNote_t note;
		unsigned bit;
	} known[] = {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, DN_TENSOR_CORE},
		     {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, DN_DOWN_CONVERT},
		     {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, DN_REDUCED_SUM},
		     {CUDNN_NUMERICAL_NOTE_FFT, DN_FFT},
		     {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, DN_NOT_DETERMINISTIC},
		     {CUDNN_NUMERICAL_NOTE_WINOGRAD, DN_WINOGRAD}};
	cudnnBackendNumericalNote_t note[16];
	int64_t n = 0;
	unsigned bits = 0;

	if (api->p_cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
					    CUDNN_TYPE_NUMERICAL_NOTE, 16, &n, note))
		return ~0U; /* an engine that reports no notes may do anything */
	for (int64_t i = 0; i < n && i < 16; i++)
		for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++)
			if (known[k].note == note[i])
				bits |= known[k].bit;
	return bits;
}

static bool is_compiled(const struct cudnn_api *api, desc engine)
{
	cudnnBackendBehaviorNote_t note[16];
	int64_t n = 0;

	if (api->p_cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
					    CUDNN_TYPE_BEHAVIOR_NOTE, 16, &n, note))
		return false;
	for (int64_t i = 0; i < n && i < 16; i++)
		if (note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)
			return true;
	return false;
}

enum { MAX_KNOBS = 48, MAX_FOUND = 48 };

static void knobs_text(const struct cudnn_api *api, desc config, char *out, size_t room)
{
	desc knob[MAX_KNOBS] = {0};
	int64_t found = 0, one;
	size_t used = strlen(out);

	for (int i = 0; i < MAX_KNOBS; i++)
		if (api->p_cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
							&knob[i]))
			knob[i] = NULL;
	api->p_cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
					CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, &found, knob);
	for (int i = 0; i < MAX_KNOBS; i++) {
		cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
		int64_t value = 0;
		if (i < found && knob[i] && used < room &&
		    !api->p_cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
						     CUDNN_TYPE_KNOB_TYPE, 1, &one, &type) &&
		    !api->p_cudnnBackendGetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
						     CUDNN_TYPE_INT64, 1, &one, &value)) {
			int k = snprintf(out + used, room - used, ",%d=%" PRId64, (int)type, value);
			used += k > 0 ? (size_t)k : 0;
		}
		if (knob[i])
			api->p_cudnnBackendDestroyDescriptor(knob[i]);
	}
}

static bool describe_engine(struct dn_graph *g, desc config, struct dn_choice *c)
{
	const struct cudnn_api *api = g->dn->api;
	desc engine = NULL;
	int64_t n = 0, number = -1;

	if (api->p_cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
		return false;
	*c = (struct dn_choice){.config = config};
	bool good = !api->p_cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
						     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) &&
		    !api->p_cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
						     CUDNN_TYPE_INT64, 1, &n, &number);
	if (good) {
		c->notes = notes_of(api, engine);
		c->compiled = is_compiled(api, engine);
		snprintf(c->text, sizeof(c->text), "e%" PRId64, number);
		knobs_text(api, config, c->text, sizeof(c->text));
	}
	api->p_cudnnBackendDestroyDescriptor(engine);
	return good;
}

/* Asks cuDNN's heuristics for engine configurations, which the graph then owns. Returns their number. */
static int64_t ask_heuristics(struct dn_graph *g, enum dn_list list, desc *config)
{
	const struct cudnn_api *api = g->dn->api;
	cudnnBackendHeurMode_t mode = list == DN_BEST ? CUDNN_HEUR_MODE_A : CUDNN_HEUR_MODE_FALLBACK;
	desc h = make_desc(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	int64_t n = 0, found = 0;

	set_desc(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
	set_attribute(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (g->dn->properties)
		set_desc(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->dn->properties);
	finalize(g, h, "heuristics");
	if (!g->status)
		keep_error(g,
			   api->p_cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
							   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL),
			   "heuristics");
	n = n < MAX_FOUND ? n : MAX_FOUND;
	for (int64_t i = 0; i < n; i++)
		config[i] = make_desc(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (!g->status && n)
		keep_error(g,
			   api->p_cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
							   CUDNN_TYPE_BACKEND_DESCRIPTOR, n, &found,
							   config),
			   "heuristics");
	int64_t got = g->status ? 0 : found < n ? found : n;
	g->status = CUDNN_STATUS_SUCCESS; /* the graph itself remains usable */
	return got;
}

int dn_choices(struct dn_graph *g, enum dn_list list, unsigned avoid, struct dn_choice *out, int max)
{
	desc config[MAX_FOUND] = {0};
	bool pushed;
	int n = 0;

	if (g->status || !enter_device(g->dn, &pushed, NULL))
		return 0;
	int64_t found = ask_heuristics(g, list, config);
	for (int64_t i = 0; i < found && n < max; i++) {
		struct dn_choice c;
		if (!describe_engine(g, config[i], &c) || c.notes & avoid)
			continue;
		int k = 0;
		while (k < n && strcmp(out[k].text, c.text))
			k++;
		if (k == n)
			out[n++] = c;
	}
	leave_device(g->dn, pushed);
	return n;
}

/* ---- plans ------------------------------------------------------------------------------------ */

static bool plan_failed(const struct dn *dn, cudnnStatus_t r, struct why *why)
{
	char text[256] = "";

	dn->api->p_cudnnGetLastErrorString(text, sizeof(text));
	return refuse(why, "cuDNN: %s: %s", dn->api->p_cudnnGetErrorString(r), text);
}

static struct dn_plan *finish_plan(struct dn *dn, desc plan, cudnnStatus_t r, struct why *why)
{
	int64_t n, workspace = 0;

	if (!r)
		r = dn->api->p_cudnnBackendFinalize(plan);
	if (!r)
		r = dn->api->p_cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
							CUDNN_TYPE_INT64, 1, &n, &workspace);
	struct dn_plan *p = r ? NULL : calloc(1, sizeof(*p));
	if (p) {
		*p = (struct dn_plan){.dn = dn, .plan = plan, .workspace = workspace};
		return p;
	}
	plan_failed(dn, r, why);
	if (plan)
		dn->api->p_cudnnBackendDestroyDescriptor(plan);
	return NULL;
}

static struct dn_plan *plan_of_config(struct dn_graph *g, desc config, struct why *why)
{
	struct dn *dn = g->dn;
	desc plan = NULL;
	cudnnStatus_t r = dn->api->p_cudnnBackendCreateDescriptor(
		CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);

	if (!r && dn->handle)
		r = dn->api->p_cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
							CUDNN_TYPE_HANDLE, 1, &dn->handle);
	else if (!r)
		r = dn->api->p_cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
							CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
							&dn->properties);
	if (!r)
		r = dn->api->p_cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
							CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
	struct dn_plan *p = finish_plan(dn, plan, r, why);
	if (p) {
		p->graph = g;
		g->users++;
	}
	return p;
}

struct dn_plan *dn_plan_new(struct dn_graph *g, const struct dn_choice *c, struct why *why)
{
	bool pushed;

	if (!enter_device(g->dn, &pushed, why))
		return NULL;
	struct dn_plan *p = plan_of_config(g, c->config, why);
	leave_device(g->dn, pushed);
	return p;
}

/* Returns the engine configuration that a text such as "e41,2=5" names. */
static desc config_of_text(struct dn_graph *g, const char *text)
{
	desc knob[MAX_KNOBS], engine = make_desc(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	int n = 0;
	char *rest;
	int64_t number = text[0] == 'e' ? strtoll(text + 1, &rest, 10) : -1;

	set_desc(g, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph);
	set_int(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
	finalize(g, engine, "an engine");
	for (const char *p = strchr(text, ','); p && n < MAX_KNOBS; p = strchr(p + 1, ',')) {
		cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)strtol(p + 1, &rest, 10);
		if (*rest != '=')
			break;
		desc k = make_desc(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
		set_attribute(g, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
		set_int(g, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, strtoll(rest + 1, &rest, 10));
		finalize(g, k, "a knob");
		knob[n++] = k;
	}
	desc config = make_desc(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	set_desc(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
	if (n)
		set_attribute(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
			      CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knob);
	finalize(g, config, "an engine's configuration");
	return config;
}

struct dn_plan *dn_plan_of_text(struct dn_graph *g, const char *text, struct why *why)
{
	struct dn_plan *p = NULL;
	bool pushed;

	if (!enter_device(g->dn, &pushed, why))
		return NULL;
	desc config = config_of_text(g, text);
	if (g->status)
		refuse(why, "cuDNN: %s: %s", g->what, g->dn->api->p_cudnnGetErrorString(g->status));
	else
		p = plan_of_config(g, config, why);
	g->status = CUDNN_STATUS_SUCCESS;
	leave_device(g->dn, pushed);
	return p;
}

struct dn_plan *dn_plan_of_json(struct dn *dn, const void *json, size_t n, struct why *why)
{
	desc plan = NULL;
	bool pushed;

	if (!enter_device(dn, &pushed, why))
		return NULL;
	cudnnStatus_t r = dn->api->p_cudnnBackendCreateDescriptor(
		CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
	if (!r)
		r = dn->api->p_cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
							CUDNN_TYPE_HANDLE, 1, &dn->handle);
	if (!r)
		r = dn->api->p_cudnnBackendSetAttribute(plan,
							CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
							CUDNN_TYPE_CHAR, (int64_t)n, json);
	struct dn_plan *p = finish_plan(dn, plan, r, why);
	leave_device(dn, pushed);
	return p;
}

char *dn_plan_save(const struct dn_plan *p, struct arena *a, size_t *n)
{
	const struct cudnn_api *api = p->dn->api;
	int64_t room = 0, got = 0;

	if (api->p_cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
					    CUDNN_TYPE_CHAR, 0, &room, NULL) ||
	    room <= 0 || room > 64 << 20)
		return NULL;
	char *text = arena_alloc(a, (size_t)room + 1);
	if (api->p_cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
					    CUDNN_TYPE_CHAR, room, &got, text) ||
	    got > room)
		return NULL;
	*n = (size_t)got;
	return text;
}

/*
 * The result includes bytes to align the workspace: the workspace of a step is less aligned than the memory of the
 * driver with which engines were timed.
 */
size_t dn_plan_workspace(const struct dn_plan *p)
{
	return p->workspace > 0 ? (size_t)p->workspace + WORKSPACE_ALIGN : 0;
}

void dn_plan_free(struct dn_plan *p)
{
	bool pushed;

	if (!p)
		return;
	if (enter_device(p->dn, &pushed, NULL)) {
		p->dn->api->p_cudnnBackendDestroyDescriptor(p->plan);
		leave_device(p->dn, pushed);
	}
	dn_graph_free(p->graph);
	free(p);
}

static cudnnStatus_t execute(const struct dn_plan *p, int n, const int64_t *uid,
			     void *const *pointer, void *workspace)
{
	const struct cudnn_api *api = p->dn->api;
	desc pack = NULL;
	cudnnStatus_t r =
		api->p_cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

	if (r)
		return r;
	r = api->p_cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
					    CUDNN_TYPE_INT64, n, uid);
	if (!r)
		r = api->p_cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
						    CUDNN_TYPE_VOID_PTR, n, pointer);
	if (!r)
		r = api->p_cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
						    CUDNN_TYPE_VOID_PTR, 1, &workspace);
	if (!r)
		r = api->p_cudnnBackendFinalize(pack);
	if (!r)
		r = api->p_cudnnBackendExecute(p->dn->handle, p->plan, pack);
	api->p_cudnnBackendDestroyDescriptor(pack);
	return r;
}

int dn_plan_run(const struct dn_plan *p, int n, const int64_t *uid, void *const *pointer,
		void *workspace, struct diag *d)
{
	bool pushed;
	int err = cuda_queue_directly(cuda_stream(p->dn->device));

	err = err ? err : cuda_enter(p->dn->device, &pushed, d);
	if (err)
		return err;
	if (p->workspace > 0)
		workspace = (char *)workspace + -(uintptr_t)workspace % WORKSPACE_ALIGN;
	cudnnStatus_t r = p->dn->api->p_cudnnSetStream(
		p->dn->handle, cuda_stream_handle(cuda_stream(p->dn->device)));
	if (!r)
		r = execute(p, n, uid, pointer, workspace);
	if (r)
		err = library_failed(p->dn->device, "cuDNN", p->dn->api->p_cudnnGetErrorString(r), d);
	cuda_leave(p->dn->device, pushed);
	return err;
}

#else

struct dn *dn_of(struct device *device, struct why *why)
{
	(void)device;
	refuse(why, "infer was built without cuDNN's headers");
	return NULL;
}

struct dn *dn_deviceless(const char *json, size_t n, struct why *why)
{
	(void)json, (void)n;
	return dn_of(NULL, why);
}

void dn_deviceless_free(struct dn *dn)
{
	(void)dn;
}

size_t dn_version(const struct dn *dn)
{
	(void)dn;
	return 0;
}

/* In this build there is no struct dn, so that none of these functions is ever called. */
struct dn_graph *dn_graph_new(struct dn *dn, struct why *why)
{
	(void)dn, (void)why;
	return NULL;
}

void dn_graph_free(struct dn_graph *g)
{
	(void)g;
}

int dn_tensor(struct dn_graph *g, const struct dn_tensor *t)
{
	(void)g, (void)t;
	return -1;
}

void dn_conv(struct dn_graph *g, int x, int w, int y, const struct dn_window *window)
{
	(void)g, (void)x, (void)w, (void)y, (void)window;
}

void dn_conv_back(struct dn_graph *g, int x, int w, int y, const struct dn_window *window)
{
	(void)g, (void)x, (void)w, (void)y, (void)window;
}

void dn_pointwise(struct dn_graph *g, enum dn_op op, int x, int b, int t, int y,
		  const struct dn_arg *arg)
{
	(void)g, (void)op, (void)x, (void)b, (void)t, (void)y, (void)arg;
}

void dn_matmul(struct dn_graph *g, int a, int b, int c)
{
	(void)g, (void)a, (void)b, (void)c;
}

void dn_reduction(struct dn_graph *g, enum dn_reduce op, int x, int y)
{
	(void)g, (void)op, (void)x, (void)y;
}

bool dn_graph_end(struct dn_graph *g, struct why *why)
{
	(void)g, (void)why;
	return false;
}

int dn_choices(struct dn_graph *g, enum dn_list list, unsigned avoid, struct dn_choice *out, int max)
{
	(void)g, (void)list, (void)avoid, (void)out, (void)max;
	return 0;
}

struct dn_plan *dn_plan_new(struct dn_graph *g, const struct dn_choice *c, struct why *why)
{
	(void)g, (void)c, (void)why;
	return NULL;
}

struct dn_plan *dn_plan_of_text(struct dn_graph *g, const char *text, struct why *why)
{
	(void)g, (void)text, (void)why;
	return NULL;
}

struct dn_plan *dn_plan_of_json(struct dn *dn, const void *json, size_t n, struct why *why)
{
	(void)dn, (void)json, (void)n, (void)why;
	return NULL;
}

char *dn_plan_save(const struct dn_plan *p, struct arena *a, size_t *n)
{
	(void)p, (void)a, (void)n;
	return NULL;
}

size_t dn_plan_workspace(const struct dn_plan *p)
{
	(void)p;
	return 0;
}

void dn_plan_free(struct dn_plan *p)
{
	(void)p;
}

int dn_plan_run(const struct dn_plan *p, int n, const int64_t *uid, void *const *pointer,
		void *workspace, struct diag *d)
{
	(void)p, (void)n, (void)uid, (void)pointer, (void)workspace;
	return FAIL(d, E_INTERNAL);
}

#endif
