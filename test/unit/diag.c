/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"

#include "unit.h"

#include <stdlib.h>

static char *printed(const struct diag *d)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	diag_print(d, f, false);
	fclose(f);
	return text;
}

static void a_finding_is_kept_and_printed(void)
{
	struct diag d = {0};
	int rc = FAIL(&d, E_SHAPE, .node = "fc1", .op = "MatMul", .slot = "input B",
		      .expected = fmt(&d, "dim 0 = %d", 128), .actual = "64",
		      .hint = "turn it round");
	char *text = printed(&d);

	CHECK_INT(rc, -E_SHAPE);
	CHECK_INT(d.errors, 1);
	CHECK_STR(text,
		  "error[E-SHAPE]: node 'fc1' (MatMul) input B: shapes do not match: expected dim 0 = 128, got 64\n"
		  "  hint: turn it round\n");
	free(text);
	diag_free(&d);
}

static void names_do_not_command_the_terminal(void)
{
	struct diag d = {0};

	FAIL(&d, E_SHAPE, .node = "a\033[31mb\r\x7f", .message = "m");
	char *text = printed(&d);
	CHECK_STR(text, "error[E-SHAPE]: node 'a\\x1b[31mb\\x0d\\x7f': m\n");
	free(text);
	diag_free(&d);
	/* nor look like a message of their own */
	FAIL(&d, E_SHAPE, .node = "a\nerror[E-FAKE]: b", .message = "m", .expected = "c\nd",
	     .hint = "e\nf");
	text = printed(&d);
	CHECK_STR(text, "error[E-SHAPE]: node 'a\\x0aerror[E-FAKE]: b': m: expected c\\x0ad\n"
			"  hint: e\\x0af\n");
	free(text);
	diag_free(&d);
}

static void a_path_is_said_once(void)
{
	struct diag d = {0};

	FAIL(&d, E_MODEL_OPEN, .model = "x.onnx", .message = "x.onnx: cannot open");
	char *text = printed(&d);
	CHECK(strncmp(text, "error[E-MODEL-OPEN]: x.onnx: cannot open\n", 41) == 0);
	free(text);
	diag_free(&d);
}

static void an_output_comes_before_its_node(void)
{
	struct diag d = {0};
	struct diag_row row = {"first node", "'fc1' (MatMul)"};

	FAIL(&d, E_OUT_ZERO, .node = "fc1", .op = "MatMul", .slot = "output 'y' f32 [2]",
	     .message = "all 2 elements are 0", .rows = &row, .nrows = 1);
	char *text = printed(&d);
	CHECK_STR(text, "error[E-OUT-ZERO]: output 'y' f32 [2]: all 2 elements are 0\n"
			"  first node  'fc1' (MatMul)\n");
	free(text);
	diag_free(&d);
}

static void rows_replace_expected_and_hint(void)
{
	struct diag d = {0};
	struct diag_row rows[] = {{"model expects", "f32 [1]"}, {"try", "less"}};

	FAIL(&d, E_INPUT_BYTES, .message = "it does not fit", .rows = rows, .nrows = 2);
	rows[0].text = "changed afterwards";
	char *text = printed(&d);
	CHECK_STR(text,
		  "error[E-INPUT-BYTES]: it does not fit\n  model expects  f32 [1]\n  try            less\n");
	free(text);
	diag_free(&d);
}

static void a_finding_outlives_what_it_names(void)
{
	struct diag d = {0};
	char node[] = "fc1", op[] = "MatMul", slot[] = "input B", want[] = "1", got[] = "2",
	     hint[] = "less";
	char label[] = "try", text[] = "more";
	struct diag_row row = {label, text};
	char *const all[] = {node, op, slot, want, got, hint, label, text};

	FAIL(&d, E_SHAPE, .node = node, .op = op, .slot = slot, .expected = want, .actual = got,
	     .hint = hint);
	FAIL(&d, E_INPUT_BYTES, .message = want, .rows = &row, .nrows = 1);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		all[i][0] = 'X';
	char *shown = printed(&d);
	CHECK_STR(shown,
		  "error[E-SHAPE]: node 'fc1' (MatMul) input B: shapes do not match: expected 1, got 2\n"
		  "  hint: less\n"
		  "error[E-INPUT-BYTES]: 1\n  try  more\n");
	free(shown);
	diag_free(&d);
}

static void ids_say_the_severity(void)
{
	CHECK_STR(code_id(E_DIM_DEFAULT, SEV_WARNING), "W-DIM-DEFAULT");
	CHECK_STR(code_id(E_DIM_DEFAULT, SEV_NOTE), "N-DIM-DEFAULT");
	CHECK_STR(code_id(E_MODEL_OPEN, SEV_ERROR), "E-MODEL-OPEN");
}

static void ids_are_unique_and_have_a_class(void)
{
	for (int c = 1; c < E_COUNT; c++) {
		int status = code_exit((enum code)c);
		CHECK((status >= 1 && status <= 10) || status == 124 || status == 130);
		CHECK(code_title((enum code)c) && *code_title((enum code)c));
		for (int k = 1; k < c; k++)
			CHECK(strcmp(code_id((enum code)c, SEV_ERROR),
				     code_id((enum code)k, SEV_ERROR)) != 0);
	}
}

static void the_lowest_class_counts(void)
{
	struct diag d = {0};

	CHECK_INT(diag_exit(&d), 0);
	WARN(&d, E_OPTION, .message = "only a warning");
	CHECK_INT(diag_exit(&d), 0);
	FAIL(&d, E_INPUT_BYTES, .message = "a");
	CHECK_INT(diag_exit(&d), 4);
	FAIL(&d, E_SHAPE, .message = "b");
	FAIL(&d, E_DEVICE, .message = "c");
	CHECK_INT(diag_exit(&d), 3);
	CHECK_INT(d.errors, 3);
	CHECK_INT(d.warnings, 1);
	diag_free(&d);
}

static void where_fills_what_is_empty(void)
{
	struct diag d = {0};

	FAIL(&d, E_SHAPE, .node = "own");
	diag_where(&d, "m.onnx", "other", "Conv");
	CHECK_STR(d.last->node, "own");
	CHECK_STR(d.last->model, "m.onnx");
	CHECK_STR(d.last->op, "Conv");
	diag_free(&d);
	diag_where(&d, "nothing", "to", "fill");
	diag_where(NULL, "nothing", "to", "fill");
}

static void without_a_diag_the_code_remains(void)
{
	struct diag *none = NULL;

	CHECK_INT(FAIL(none, E_TYPE, .message = fmt(none, "%d", 1)), -E_TYPE);
}

static void what_says_the_same_is_found(void)
{
	struct diag d = {0};
	const struct diag_row row[] = {{"a", "b"}}, other[] = {{"a", "c"}};
	struct finding f = {.code = E_SHAPE, .severity = SEV_ERROR, .slot = "A", .message = "m"};

	FAIL(&d, E_SHAPE, .slot = "A", .message = "m", .rows = row, .nrows = 1);
	CHECK(!diag_find(&d, &f));
	f.rows = other;
	f.nrows = 1;
	CHECK(!diag_find(&d, &f));
	f.rows = row;
	CHECK(diag_find(&d, &f) == d.first);
	f.severity = SEV_WARNING;
	CHECK(!diag_find(&d, &f));
	CHECK_STR(finding_hint(d.first), "");
	f.code = E_MODEL_TRUNCATED;
	CHECK_STR(finding_hint(&f), code_hint(E_MODEL_TRUNCATED));
	f.hint = "";
	CHECK_STR(finding_hint(&f), "");
	diag_free(&d);
}

int main(void)
{
	UNIT(a_finding_is_kept_and_printed);
	UNIT(names_do_not_command_the_terminal);
	UNIT(a_path_is_said_once);
	UNIT(an_output_comes_before_its_node);
	UNIT(rows_replace_expected_and_hint);
	UNIT(a_finding_outlives_what_it_names);
	UNIT(ids_say_the_severity);
	UNIT(ids_are_unique_and_have_a_class);
	UNIT(the_lowest_class_counts);
	UNIT(where_fills_what_is_empty);
	UNIT(without_a_diag_the_code_remains);
	UNIT(what_says_the_same_is_found);
	return unit_end();
}
