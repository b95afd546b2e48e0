/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/subcommand.h"

#include <string.h>

/* clang-format off */
#define EXAMPLES(...) (const struct example[]){__VA_ARGS__, {NULL, NULL}}
/* clang-format on */

const struct command commands[] = {
#define COMMAND(bit_, name_, ...)                                                                  \
	{.name = #name_, .run = cmd_##name_, .bit = CMD_##bit_, __VA_ARGS__},
#include "cmd/options/commands.def"
#undef COMMAND
	{.name = NULL},
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}
