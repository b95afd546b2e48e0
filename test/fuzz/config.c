/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file in YAML, with the options of all commands. */
#include "base/yaml.h"
#include "cmd/options/options.h"
#include "test/fuzz/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options o = {0};
	struct diag d = {0};

	yaml_load(file_with(data, size), options_table, 0, &o, NULL, NULL, &o.arena, &d);
	diag_free(&d);
	arena_free(&o.arena);
	return 0;
}
