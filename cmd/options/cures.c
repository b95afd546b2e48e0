/* SPDX-License-Identifier: Apache-2.0 */
/* What helps against each finding, for the manual: the code's hint, or for those without one what stands here. */
#include "cmd/options/command.h"

#include <string.h>

#define SANITIZE "repeat it with --sync launch, which names the node; report it with the model"
#define VALID	 "export the model again; onnx.checker and this program's --bisect narrow it down"

static const struct {
	enum code code;
	const char *cure;
} cures[] = {
	{E_CHECK, "the message says what"},
	{E_COPY_HOST, "make the copy as large as what it is copied from or to"},
	{E_HOST_DEVPTR, "copy to host memory first"},
	{E_WATCH_EXEC, "watch a program that runs by itself and may be traced"},
	{E_UNSTEADY, "close other programs, fix the clocks, measure longer"},
	{E_CONFIG, "correct the line that the message names"},
	{E_MEMORY, "a smaller batch or shape, or a machine with more memory"},
	{E_MODEL_OPEN, "check the path, and whether the file may be read"},
	{E_MODEL_FORMAT,
	 "give the .onnx file itself, not what a download page or another framework wrote"},
	{E_MODEL_DEPTH, VALID},
	{E_MODEL_DOMAIN, "add the opset_import entry of that domain"},
	{E_MODEL_GRAPH, VALID},
	{E_MODEL_CYCLE, "break it: one of the named nodes must not read what the others make"},
	{E_MODEL_NAME, "give every node a name and every value one maker"},
	{E_MODEL_FUNCTION, VALID},
	{E_WEIGHT_SIZE, "copy or export the model again: dims and data of the initializer must agree"},
	{E_WEIGHT_TYPE, "export the model again: type and data field of the initializer must agree"},
	{E_OP_ATTRIBUTE, "look the attribute up for the opset that the model imports"},
	{E_OP_INPUTS, "look the operator up for the opset that the model imports"},
	{E_TYPE, "insert a Cast before the node, or correct what makes its input"},
	{E_SHAPE,
	 "follow the named input back to where its shape stops being what you expect: inspect --nodes"},
	{E_RANK, "fold dimensions: at most 16"},
	{E_SIZE, "correct the sizes: their product has more than 63 bits"},
	{E_VALUE, "correct the value, or what computes it"},
	{E_RUN, SANITIZE},
	{E_MEMORY_LIMIT, "a smaller shape, --memory-plan on, or a larger limit"},
	{E_INPUT_NAME, "give a name of the list in the message"},
	{E_INPUT_OPEN, "check the path, and whether the file may be read"},
	{E_INPUT_FORMAT, "name the format: --input x=FILE,format=raw"},
	{E_INPUT_BYTES, "say how the file's bytes are to be read: dtype=, layout=, shape="},
	{E_INPUT_TYPE, "say what the file holds with dtype=, or convert it"},
	{E_INPUT_RANK, "add or drop the axis: shape="},
	{E_INPUT_SHAPE, "resize or cut the data, or export the model with that dimension free"},
	{E_INPUT_LAYOUT, "say the file's layout: layout=nhwc"},
	{E_INPUT_KEY, "give a key of the list under --input"},
	{E_DIM, "give a dimension of the list in the message, once"},
	{E_OUTPUT, "check the folder, its rights, and the space that is left"},
	{E_LABELS, "give a file with a line for each class"},
	{E_OUT_NAN, "the first node that is not finite is named: look at its inputs and weights"},
	{E_OUT_ZERO,
	 "the first node that is all zero is named: look at its inputs, weights and device"},
	{E_OUT_CONSTANT,
	 "the first node that is constant is named: a Clip or Relu that cuts all, or weights of zero"},
	{E_OUT_INDEPENDENT, "look for the node where the input's influence ends"},
	{E_NUM_NAN, "look at the inputs and weights of the named node"},
	{E_NUM_INF, "look for a division by zero, an Exp of a large number, an overflow in fp16"},
	{E_NUM_DENORMAL, "scale the values, or compute in a wider type"},
	{E_DETERMINISM,
	 "an operator that draws random numbers, or a kernel that adds in changing order"},
	{E_COMPARE_NODE, "report the node with what --bisect writes"},
	{E_COMPARE_DRIFT, "a stricter --precision, or a tolerance that the task really needs"},
	{E_BISECT, "attach the folder that it wrote to a report"},
	{E_COMPARE, "--compare names the node where it begins"},
	{E_LEAK, "the node and the place are named; --recreate tells what a session leaves behind"},
	{E_CTX_FOREIGN, "let both libraries use the device's primary context"},
	{E_CTX_STATE, "a note; where it warns, the message says what to do"},
	{E_CTX_OTHER, "end them, or measure on another device"},
	{E_CUDA, SANITIZE},
	{E_CUDA_LATE,
	 "look at what each call returns, where it is made, and at cudaGetLastError() after each launch"},
	{E_CUDA_1, SANITIZE},
	{E_CUDA_3,
	 "infer doctor says what is there and what is missing; a child of fork() must be spawned instead"},
	{E_CUDA_101, "infer doctor lists the devices"},
	{E_CUDA_201, "let nothing else destroy or change the context"},
	{E_CUDA_400, "let nothing else destroy what belongs to the session"},
	{E_CUDA_700, SANITIZE},
	{E_CUDA_701, SANITIZE},
	{E_CUDA_709, "let nothing else destroy or reset the context"},
	{E_CUDA_710, SANITIZE},
	{E_CUDA_714, SANITIZE},
	{E_CUDA_715, SANITIZE},
	{E_CUDA_716, SANITIZE},
	{E_CUDA_717, SANITIZE},
	{E_CUDA_718, SANITIZE},
	{E_CUDA_719, SANITIZE},
	{E_CUDA_720, SANITIZE},
	{E_CUDA_999, "repeat it; look at the system's log for the driver's own message (Xid)"},
	{E_BASELINE, "--nodes of both reports shows which node became slower"},
	{E_TIMEOUT, "the node that was running is named; a longer --timeout where it is only slow"},
	{E_INTERRUPTED, "what was gathered before is printed"},
};

const char *code_cure(enum code code)
{
	const char *hint = code_hint(code);

	for (size_t i = 0; !hint && i < sizeof(cures) / sizeof(*cures); i++)
		if (cures[i].code == code)
			hint = cures[i].cure;
	return hint;
}
