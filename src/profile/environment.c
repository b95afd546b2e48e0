/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/environment.h"

#include "cpu/onednn/onednn.h"
#include "gpu/driver/api.h"
#include "gpu/driver/clocks.h"
#include "gpu/driver/cuda.h"

#include <string.h>

void environment_of(const struct runtime *rt, struct identity *id, struct arena *a)
{
	bool device = rt->backend != rt->cpu;
	struct device_info cpu = {.name = ""};
	char versions[256] = "", release[96] = "";

	if (device) {
		const struct device_facts *f = cuda_facts(rt->device);
		id->device_name = arena_str(a, f ? f->name : "?");
		libraries_versions(versions, sizeof(versions));
		size_t n = strcspn(versions, ",");
		id->driver = arena_strn(a, versions, n);
		if (driver_release(release, sizeof(release)))
			id->driver = arena_printf(a, "%s, release %s", id->driver, release);
		id->libraries = arena_str(a, versions + n + strspn(versions + n, ", "));
		return;
	}
	rt->cpu->probe(&cpu, 1, NULL);
	id->device_name = arena_str(a, cpu.name);
	/* "oneDNN 3.2.0 (where it lies)", or why there is none */
	const char *dnnl = onednn_about(), *place = strstr(dnnl, " (");
	bool there = place && !strncmp(dnnl, "oneDNN ", 7);
	id->libraries = there ? arena_strn(a, dnnl, (size_t)(place - dnnl)) : "no oneDNN";
}
