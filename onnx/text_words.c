/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/text_words.h"

#include <string.h>
#include <strings.h>

/* Numbers of TensorProto.DataType */
static const char *const types[] = {
	[1] = "float",	     [2] = "uint8",	      [3] = "int8",
	[4] = "uint16",	     [5] = "int16",	      [6] = "int32",
	[7] = "int64",	     [8] = "string",	      [9] = "bool",
	[10] = "float16",    [11] = "double",	      [12] = "uint32",
	[13] = "uint64",     [14] = "complex64",      [15] = "complex128",
	[16] = "bfloat16",   [17] = "float8e4m3fn",   [18] = "float8e4m3fnuz",
	[19] = "float8e5m2", [20] = "float8e5m2fnuz", [21] = "uint4",
	[22] = "int4",	     [23] = "float4e2m1",     [24] = "float8e8m0",
	[25] = "uint2",	     [26] = "int2",	      [27] = "float6e2m3",
	[28] = "float6e3m2",
};
enum { TYPES = sizeof(types) / sizeof(*types) };

static const char *const attributes[TEXT_ATTRIBUTES] = {
	[TEXT_FLOAT] = "float",
	[TEXT_INT] = "int",
	[TEXT_STRING] = "string",
	[TEXT_TENSOR] = "tensor",
	[TEXT_GRAPH] = "graph",
	[TEXT_FLOATS] = "floats",
	[TEXT_INTS] = "ints",
	[TEXT_STRINGS] = "strings",
	[TEXT_TENSORS] = "tensors",
	[TEXT_GRAPHS] = "graphs",
	[TEXT_SPARSE] = "sparse_tensor",
	[TEXT_SPARSES] = "sparse_tensors",
	[TEXT_TYPE_PROTO] = "type_proto",
	[TEXT_TYPE_PROTOS] = "type_protos",
};

static bool is(struct pb_span s, const char *word)
{
	return word && strlen(word) == s.n && s.n && !memcmp(word, s.p, s.n);
}

const char *text_type_name(uint64_t type)
{
	return type < TYPES ? types[type] : NULL;
}

uint64_t text_type_number(struct pb_span name)
{
	for (uint64_t i = 0; i < TYPES; i++)
		if (is(name, types[i]))
			return i;
	return 0;
}

const char *text_attribute_word(int type)
{
	return type > 0 && type < TEXT_ATTRIBUTES ? attributes[type] : NULL;
}

int text_attribute_number(struct pb_span word)
{
	for (int i = 0; i < TEXT_ATTRIBUTES; i++)
		if (is(word, attributes[i]))
			return i;
	return 0;
}

bool text_is_word(struct pb_span name)
{
	static const char *const kinds[] = {"seq", "map", "optional", "sparse_tensor", "opaque"};
	static const char *const literals[] = {"nan", "inf", "infinity"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (is(name, kinds[i]))
			return true;
	for (size_t i = 0; i < sizeof(literals) / sizeof(*literals); i++)
		if (strlen(literals[i]) == name.n &&
		    !strncasecmp(literals[i], (const char *)name.p, name.n))
			return true;
	return text_type_number(name) != 0;
}

bool text_is_signed(enum dtype type)
{
	return type == DT_I8 || type == DT_I16 || type == DT_I32 || type == DT_I64;
}

unsigned text_number_size(enum dtype type)
{
	unsigned bits = dtype_bits(type);

	if (dtype_class(type) == DT_COMPLEX)
		bits /= 2;
	return bits < 8 ? 1 : bits / 8;
}
