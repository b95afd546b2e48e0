/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_TEXT_WORDS_H
#define ONNX_TEXT_WORDS_H
/* The words of ONNX's text form, for its reader and its writer. */
#include "onnx/decode.h"
#include "ir/tensor.h"

/* AttributeProto.AttributeType */
enum {
	TEXT_FLOAT = 1,
	TEXT_INT,
	TEXT_STRING,
	TEXT_TENSOR,
	TEXT_GRAPH,
	TEXT_FLOATS,
	TEXT_INTS,
	TEXT_STRINGS,
	TEXT_TENSORS,
	TEXT_GRAPHS,
	TEXT_SPARSE,
	TEXT_SPARSES,
	TEXT_TYPE_PROTO,
	TEXT_TYPE_PROTOS,
	TEXT_ATTRIBUTES
};

const char *text_type_name(uint64_t type);	/* of a TensorProto.DataType; NULL: none */
uint64_t text_type_number(struct pb_span name); /* 0: no type has this name */
const char *text_attribute_word(int type);	/* "ints"; NULL: none */
int text_attribute_number(struct pb_span word); /* 0: none */
bool text_is_word(struct pb_span name); /* a type, or a word that begins one, or a literal such as nan */
bool text_is_signed(enum dtype type);
/* Bytes of raw_data that one number in braces stands for; elements smaller than a byte are packed into numbers of one byte. */
unsigned text_number_size(enum dtype type);

#endif
