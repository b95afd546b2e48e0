/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include "gpu/api.h"
#include "gpu/cuda.h"

#include <string.h>

void environment_of(const struct runtime *rt, struct identity *id, struct arena *a)
{
	bool device = rt->backend != rt->cpu;
	struct device_info cpu = {.name = ""};
	char versions[256] = "";

	if (device) {
		const struct device_facts *f = cuda_facts(rt->device);
		id->device_name = arena_str(a, f ? f->name : "?");
		libraries_versions(versions, sizeof(versions));
		size_t n = strcspn(versions, ",");
		id->driver = arena_strn(a, versions, n);
		id->libraries = arena_str(a, versions + n + strspn(versions + n, ", "));
		return;
	}
	rt->cpu->probe(&cpu, 1, NULL);
	id->device_name = arena_str(a, cpu.name);
}
