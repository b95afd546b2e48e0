/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model, and as a value: a finding or a result, no crash, no hang, no leak. */
#include "onnx/load.h"
#include "onnx/tensor_pb.h"
#include "ops/supported.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_model(const uint8_t *data, size_t size, bool collect)
{
	struct load_options options = {.collect = collect};
	struct diag d = {0};
	struct model *m = onnx_load_bytes(data, size, &options, &d);

	if (m)
		ops_supported(m, &d);
	onnx_unload(m);
	diag_free(&d);
}

static void as_value(const uint8_t *data, size_t size, enum vkind kind)
{
	struct arena a = {0};
	struct diag d = {0};
	struct type type = {.kind = (uint8_t)kind, .of = V_TENSOR, .dtype = DT_F32};

	tensor_pb_parse(data, size, type, &a, &d);
	diag_free(&d);
	arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	as_model(data, size, false);
	as_model(data, size, true);
	as_value(data, size, V_TENSOR);
	as_value(data, size, V_SEQUENCE);
	as_value(data, size, V_OPTIONAL);
	as_value(data, size, V_MAP);
	return 0;
}
