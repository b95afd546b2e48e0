/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if HAVE_CUDA

enum { MIN_DRIVER = 12000 };

#define TEXT_(x)	 #x
#define TEXT(x)		 TEXT_(x)
#define SYM(f, required) {TEXT(f), required},
static const struct dl_symbol cuda_symbols[] = {
#include "gpu/cuda.def"
};
static const struct dl_symbol nvrtc_symbols[] = {
#include "gpu/nvrtc.def"
};
static const struct dl_symbol cublaslt_symbols[] = {
#include "gpu/cublaslt.def"
};
static const struct dl_symbol cudnn_symbols[] = {
#include "gpu/cudnn.def"
};
static const struct dl_symbol nvml_symbols[] = {
#include "gpu/nvml.def"
};
#undef SYM
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static const char *const cuda_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
					  "/usr/local/cuda/lib64/libnvrtc.so", NULL};
static const char *const cublaslt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
					     "/usr/local/cuda/lib64/libcublasLt.so", NULL};
static const char *const cudnn_names[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
					  NULL};
static const char *const nvml_names[] = {"libnvidia-ml.so.1", NULL};

/* The table of opened libraries: filled once, under the lock, and kept until the program ends. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct dl cuda;
	struct cuda_api cuda_api;
} opened;

static int check_driver(const struct cuda_api *api, struct diag *d)
{
	int version = 0;

	if (api->p_cuDriverGetVersion(&version) || version < MIN_DRIVER)
		return FAIL(d, E_LIBRARY,
			    .message = fmt(d, "the CUDA driver %s is too old", opened.cuda.path),
			    .expected = fmt(d, "CUDA %d.%d or newer", MIN_DRIVER / 1000,
					    MIN_DRIVER % 1000 / 10),
			    .actual = fmt(d, "CUDA %d.%d", version / 1000, version % 1000 / 10));
	return 0;
}

const struct cuda_api *cuda_api(struct diag *d)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!opened.cuda.handle) {
		err = dl_open(&opened.cuda, cuda_names, cuda_symbols, (void **)&opened.cuda_api,
			      COUNT(cuda_symbols), d);
		/* modules load their kernels when they are first used: seconds and memory less */
		if (!err)
			setenv("CUDA_MODULE_LOADING", "LAZY", 0);
	}
	pthread_mutex_unlock(&lock);
	if (!err)
		err = check_driver(&opened.cuda_api, d);
	return err ? NULL : &opened.cuda_api;
}

/* ---- for doctor ------------------------------------------------------------------------------ */

static void version_text(struct library_info *i, size_t v, size_t major, size_t minor)
{
	snprintf(i->version, sizeof(i->version), "%zu.%zu.%zu", v / major, v % major / minor,
		 v % minor);
}

static void version_of(int k, void *const *table, struct library_info *i)
{
	int major = 0, minor = 0;

	if (k == 0) {
		const struct cuda_api *a = (const void *)table;
		if (!a->p_cuDriverGetVersion(&major))
			snprintf(i->version, sizeof(i->version), "CUDA %d.%d", major / 1000,
				 major % 1000 / 10);
	} else if (k == 1) {
		const struct nvml_api *a = (const void *)table;
		char text[40] = "";
		if (!a->p_nvmlInit_v2() && !a->p_nvmlSystemGetDriverVersion(text, sizeof(text)))
			snprintf(i->version, sizeof(i->version), "driver %s", text);
		a->p_nvmlShutdown();
	} else if (k == 2) {
		version_text(
			i, ((const struct cublaslt_api *)(const void *)table)->p_cublasLtGetVersion(),
			10000, 100);
	} else if (k == 3) {
		version_text(i, ((const struct cudnn_api *)(const void *)table)->p_cudnnGetVersion(),
			     10000, 100);
	} else if (!((const struct nvrtc_api *)(const void *)table)->p_nvrtcVersion(&major, &minor)) {
		snprintf(i->version, sizeof(i->version), "%d.%d", major, minor);
	}
}

void libraries_probe(struct library_info out[LIBRARIES], struct diag *d)
{
	static const struct {
		const char *name, *use;
		const char *const *sonames;
		const struct dl_symbol *symbols;
		size_t n;
	} libs[LIBRARIES] = {
		{"CUDA driver", "everything on a GPU", cuda_names, cuda_symbols, COUNT(cuda_symbols)},
		{"NVML", "names the driver", nvml_names, nvml_symbols, COUNT(nvml_symbols)},
		{"cuBLASLt", "not used yet: own kernels do matrix products", cublaslt_names,
		 cublaslt_symbols, COUNT(cublaslt_symbols)},
		{"cuDNN", "not used yet: own kernels do convolutions", cudnn_names, cudnn_symbols,
		 COUNT(cudnn_symbols)},
		{"NVRTC", "not used yet: pointwise groups are interpreted", nvrtc_names,
		 nvrtc_symbols, COUNT(nvrtc_symbols)},
	};
	for (int k = 0; k < LIBRARIES; k++) {
		void *table[64] = {0};
		struct dl lib;
		out[k] = (struct library_info){.name = libs[k].name, .use = libs[k].use};
		out[k].found =
			!dl_open(&lib, libs[k].sonames, libs[k].symbols, table, libs[k].n, NULL);
		snprintf(out[k].path, sizeof(out[k].path), "%s", lib.path);
		if (out[k].found)
			version_of(k, table, &out[k]);
		else
			out[k].why = fmt(d, "%s", lib.tried);
	}
}

#else

void libraries_probe(struct library_info out[LIBRARIES], struct diag *d)
{
	static const char *const names[LIBRARIES] = {"CUDA driver", "NVML", "cuBLASLt", "cuDNN",
						     "NVRTC"};

	(void)d;
	for (int k = 0; k < LIBRARIES; k++)
		out[k] = (struct library_info){
			.name = names[k], .use = "", .why = "this build has no CUDA backend"};
}

#endif
