/* SPDX-License-Identifier: Apache-2.0 */
/* infer convert: writes a model in another form of file (onnx/convert.h). */
#include "base/file.h"
#include "base/str.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"
#include "onnx/convert.h"

#include <strings.h>

static const struct {
	const char *end;
	enum onnx_form form;
} endings[] = {
	{".onnx", ONNX_BINARY}, {".pb", ONNX_BINARY}, {".onnxtxt", ONNX_TEXT},
	{".txt", ONNX_TEXT},	{".json", ONNX_JSON}, {".onnxjson", ONNX_JSON},
};

/* The form of --form or, without it, of the file's ending. */
static int find_form(const struct options *o, const char *path, enum onnx_form *out, struct diag *d)
{
	const char *end = path_ext(path);

	if (o->form != FORM_AUTO) {
		*out = o->form == FORM_JSON   ? ONNX_JSON
		       : o->form == FORM_TEXT ? ONNX_TEXT
					      : ONNX_BINARY;
		return 0;
	}
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		if (!strcasecmp(end, endings[i].end)) {
			*out = endings[i].form;
			return 0;
		}
	}
	return FAIL(
		d, E_OPTION,
		.message = fmt(d, "the ending of '%s' does not say which form to write", path),
		.hint = "add --form binary, text or json; infer writes models as ONNX only, in one of these forms");
}

/* The file to write, as an operand or by -o. NULL if there is none, or two. */
static const char *find_target(const struct options *o, struct diag *d)
{
	bool operand = o->noperands > 1;

	if (operand != (o->save != NULL))
		return operand ? o->operand[1] : o->save;
	FAIL(d, E_OPTION,
	     .message = operand ? "two files to write, one as an operand and one by --save"
				: "no file to write is given",
	     .hint = "infer convert MODEL OUT, or infer convert MODEL -o OUT");
	return NULL;
}

int cmd_convert(struct options *o, struct diag *d)
{
	static const char *const names[] = {
		[ONNX_BINARY] = "binary", [ONNX_JSON] = "json", [ONNX_TEXT] = "text"};
	struct onnx_conversion c = {.from = o->operand[0], .to = find_target(o, d)};
	struct json j;

	if (!c.to)
		return -E_OPTION;
	int rc = find_form(o, c.to, &c.form, d);

	rc = rc ? rc : options_external(o, c.to, &c.external, d);
	rc = rc ? rc : onnx_convert(&c, d);
	if (rc || !o->json)
		return rc;
	json_envelope_begin(&j, o, d);
	json_string(&j, "path", c.to);
	json_string(&j, "form", names[c.form]);
	json_envelope_end(&j, d);
	return 0;
}
