/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/output.h"

#include <stdlib.h>
#include <string.h>

static int write_script_document(const char *shell, struct options *o, struct diag *d)
{
	struct json j;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return FAIL(d, E_MEMORY, .message = "no memory for the script");
	shell_script(shell, f);
	if (fclose(f) != 0) {
		free(text);
		return FAIL(d, E_MEMORY, .message = "no memory for the script");
	}
	json_envelope_begin(&j, o, d);
	json_string(&j, "shell", shell);
	json_string_n(&j, "script", text, n);
	json_envelope_end(&j, d);
	free(text);
	return 0;
}

int cmd_completion(struct options *o, struct diag *d)
{
	static const char *const shells[] = {"bash", "zsh", "fish"};
	const char *shell = o->operand[0], *near;

	for (size_t i = 0; i < 3; i++) {
		if (strcmp(shells[i], shell) != 0)
			continue;
		if (o->json)
			return write_script_document(shell, o, d);
		shell_script(shell, stdout);
		return 0;
	}
	near = str_nearest(shell, shells, 3);
	return FAIL(d, E_OPTION,
		    .message = fmt(d, "there is no completion script for the shell '%s'", shell),
		    .hint = near ? fmt(d, "did you mean '%s'?", near) : "use bash, zsh or fish");
}
