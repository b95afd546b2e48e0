/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TOOLS_LAUNCHES_H
#define TEST_TOOLS_LAUNCHES_H
/*
 * Which kernels a test launches. Where LAUNCHES names a file, "WHO TAB KERNEL" is added to it for each that
 * was launched since the last call; where KERNELS names one, it gets the names of all kernels that the
 * program holds. For one thread. Without a device, or with a driver older than CUDA 12.4, nothing is told.
 */
#if HAVE_CUDA
#include "gpu/driver/api.h"
#include "gpu/kernels/image.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCHES_MOST = 2048 };

static struct {
	FILE *to;
	char *name[LAUNCHES_MOST]; /* of those since the last call; a hash table */
	__typeof__(((struct cuda_api *)0)->p_cuLaunchKernel) launch;
	__typeof__(((struct cuda_api *)0)->p_cuLaunchKernelEx) launch_ex;
	CUresult (*func_name)(const char **, CUfunction);
} launches;

static void launches_note(CUfunction f)
{
	const char *name = NULL;
	unsigned at = 5381;

	if (!launches.func_name(&name, f) && name) {
		for (const char *p = name; *p; p++)
			at = at * 33 + (unsigned char)*p;
		for (int i = 0; i < LAUNCHES_MOST; i++) {
			char **slot = &launches.name[(at + (unsigned)i) % LAUNCHES_MOST];
			if (!*slot)
				*slot = strdup(name);
			if (*slot && !strcmp(*slot, name))
				break;
		}
	}
}

static CUresult launches_plain(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned x,
			       unsigned y, unsigned z, unsigned shared, CUstream stream,
			       void **params, void **extra)
{
	launches_note(f);
	return launches.launch(f, gx, gy, gz, x, y, z, shared, stream, params, extra);
}

static CUresult launches_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	launches_note(f);
	return launches.launch_ex(config, f, params, extra);
}

/* Names of all kernels of the program's images. */
static void launches_list(void *driver, FILE *to)
{
	const struct cuda_api *api = cuda_api(NULL);
	CUresult (*count)(unsigned *, CUlibrary);
	CUresult (*each)(CUkernel *, unsigned, CUlibrary);
	CUresult (*name_of)(const char **, CUkernel);

	*(void **)&count = dlsym(driver, "cuLibraryGetKernelCount");
	*(void **)&each = dlsym(driver, "cuLibraryEnumerateKernels");
	*(void **)&name_of = dlsym(driver, "cuKernelGetName");
	for (const struct gpu_image *m = gpu_images; m->name && count && each && name_of; m++) {
		CUlibrary library;
		CUkernel kernel[1024];
		unsigned n = 0;
		const char *name;
		if (api->p_cuLibraryLoadData(&library, m->data, NULL, NULL, 0, NULL, NULL, 0))
			continue;
		if (!count(&n, library) && n <= 1024 && !each(kernel, n, library))
			for (unsigned i = 0; i < n; i++)
				if (!name_of(&name, kernel[i]))
					fprintf(to, "%s\n", name);
		api->p_cuLibraryUnload(library);
	}
}

/* Once the device is open. */
static void launches_begin(void)
{
	const char *to = getenv("LAUNCHES"), *all = getenv("KERNELS");
	const struct cuda_api *api = to || all ? cuda_api(NULL) : NULL;
	Dl_info of_driver = {0};
	bool found = api && dladdr(*(void *const *)&api->p_cuInit, &of_driver);
	void *driver = found ? dlopen(of_driver.dli_fname, RTLD_NOW) : NULL;
	FILE *list = driver && all ? fopen(all, "we") : NULL;
	struct cuda_api *table;

	if (list) {
		launches_list(driver, list);
		fclose(list);
	}
	if (!driver || !to)
		return;
	*(void **)&launches.func_name = dlsym(driver, "cuFuncGetName");
	launches.to = launches.func_name ? fopen(to, "ae") : NULL;
	if (!launches.to)
		return;
	memcpy(&table, &api, sizeof(table)); /* it is of this program, and const only for its users */
	launches.launch = api->p_cuLaunchKernel;
	launches.launch_ex = api->p_cuLaunchKernelEx;
	table->p_cuLaunchKernel = launches_plain;
	table->p_cuLaunchKernelEx = launches_ex;
}

static void launches_of(const char *who)
{
	for (int i = 0; i < LAUNCHES_MOST && launches.to; i++) {
		if (launches.name[i])
			fprintf(launches.to, "%s\t%s\n", who, launches.name[i]);
		free(launches.name[i]);
		launches.name[i] = NULL;
	}
	if (launches.to)
		fflush(launches.to);
}

#else

static void launches_begin(void)
{
}

static void launches_of(const char *who)
{
	(void)who;
}

#endif
#endif
