/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ONNX_CONVERT_H
#define ONNX_CONVERT_H
/*
 * Converts a model between the forms that a ModelProto has in files: protobuf's binary encoding, protobuf's JSON mapping
 * (https://protobuf.dev/programming-guides/json/), and ONNX's text form (docs/Syntax.md of onnx; the form of onnx.parser and onnx.printer).
 */
#include "base/diag.h"

#include <stdbool.h>

enum onnx_form { ONNX_BINARY, ONNX_JSON, ONNX_TEXT };

struct onnx_conversion {
	const char *from, *to; /* paths; to may be "-" */
	enum onnx_form form;   /* of what is written; that of `from` follows from its content */
	/* name of a file of external data in the folder of `to` that takes weights of 1 KiB and more; NULL: they are in the model */
	const char *external;
};

/*
 * Writes the model, whole or not at all. Fails with E-MODEL-* if the source is none or says what the other form has no words for,
 * with E-WEIGHT-* if its external data cannot be read, with E-SIZE if a binary model exceeds 2 GiB, and with E-OUTPUT. Warns of
 * notes that the text form does not hold (documentation, metadata of nodes, ...).
 */
int onnx_convert(const struct onnx_conversion *c, struct diag *d);

/* Whether a file is a JSON object whose first member is a field of ModelProto; a report's first member is "schema". */
bool onnx_is_json_model(const char *path);

#endif
