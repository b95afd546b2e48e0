/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/nvrtc.h"

#include "base/hash.h"
#include "gpu/driver/api.h"
#include "gpu/driver/tune.h"

#include <string.h>

/* Returns the first error message of the compiler. */
static const char *log_of(const struct nvrtc_api *api, nvrtcProgram program, struct arena *a)
{
	size_t n = 0;

	if (api->p_nvrtcGetProgramLogSize(program, &n) || !n)
		return "no log";
	char *log = arena_new_n(a, char, n + 1);
	if (api->p_nvrtcGetProgramLog(program, log))
		return "no log";
	log[strcspn(log, "\n")] = 0;
	return log;
}

const void *nvrtc_compile(const char *source, const char *arch, struct arena *a, size_t *n,
			  const char **why)
{
	const struct nvrtc_api *api = nvrtc_api(NULL);
	char option[64];
	const char *const options[] = {option, "--std=c++17"};
	nvrtcProgram program;
	void *image = NULL;

	*why = "NVRTC is not there";
	if (!api)
		return NULL;
	snprintf(option, sizeof(option), "--gpu-architecture=%s", arch);
	nvrtcResult r = api->p_nvrtcCreateProgram(&program, source, "pointwise.cu", 0, NULL, NULL);
	*why = "NVRTC takes no program";
	if (r)
		return NULL;
	r = api->p_nvrtcCompileProgram(program, 2, options);
	if (r)
		*why = arena_printf(a, "NVRTC (%s): %s", arch, log_of(api, program, a));
	if (!r)
		r = api->p_nvrtcGetCUBINSize(program, n);
	if (!r) {
		image = arena_new_n(a, char, *n + 1);
		r = api->p_nvrtcGetCUBIN(program, image);
	}
	api->p_nvrtcDestroyProgram(&program);
	return r ? NULL : image;
}

const void *nvrtc_program(struct device *device, const char *source, struct arena *a, const char **why)
{
	const struct device_facts *f = cuda_facts(device);
	const struct nvrtc_api *api = nvrtc_api(NULL);
	int major = 0, minor = 0;
	char key[128], arch[16];
	size_t n = 0;

	if (api)
		api->p_nvrtcVersion(&major, &minor);
	snprintf(arch, sizeof(arch), "sm_%d%d", f->major, f->minor);
	snprintf(key, sizeof(key), "nvrtc%d.%d pointwise %s %016llx", major, minor, arch,
		 (unsigned long long)hash_bytes(source, strlen(source), 0));
	const void *image = api ? tune_blob_get(device, key, a, &n) : NULL;
	if (image)
		return image;
	image = nvrtc_compile(source, arch, a, &n, why);
	if (image)
		tune_blob_put(device, key, image, n);
	return image;
}
