/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_API_H
#define GPU_API_H
/*
 * The libraries of NVIDIA's that the backend calls, opened when they are first wanted. The only header
 * that includes CUDA's. A build without them (HAVE_CUDA 0) has none of this.
 */
#include "base/dl.h"

#if HAVE_CUDA
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

/* Few functions: declared here, so that the build does not want the headers. */
size_t cudnnGetVersion(void);
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *version, unsigned length);

#define SYM(f, required) __typeof__(&f) p_##f;
struct cuda_api {
#include "gpu/cuda.def"
};
struct nvrtc_api {
#include "gpu/nvrtc.def"
};
struct cublaslt_api {
#include "gpu/cublaslt.def"
};
struct cudnn_api {
#include "gpu/cudnn.def"
};
struct nvml_api {
#include "gpu/nvml.def"
};
#undef SYM

/* Opened at the first call; NULL with a finding where it is missing or too old. */
const struct cuda_api *cuda_api(struct diag *d);
#endif

/* What doctor tells of a library. */
struct library_info {
	const char *name, *use;
	bool found;
	char path[512], version[64];
	const char *why; /* where it is missing: what was looked for */
};
enum { LIBRARIES = 5 };
/* Fills all; strings live in d's arena. */
void libraries_probe(struct library_info out[LIBRARIES], struct diag *d);

#endif
