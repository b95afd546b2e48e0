/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_API_H
#define GPU_DRIVER_API_H
/*
 * The functions that the backend calls in NVIDIA's libraries. Each library is opened when it is first needed. No other
 * header includes CUDA's headers. HAVE_CUDNN tells whether the build found cuDNN's headers.
 */
#include "backend/observe.h"
#include "base/dl.h"

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define HAVE_CUDNN 1
#else
#define HAVE_CUDNN 0
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
int cudnnGraphVersionCheck(void);
#endif

/* The few functions of NVML that we use are declared here, so that the build does not need its headers. */
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *version, unsigned length);
int nvmlSystemGetNVMLVersion(char *version, unsigned length);
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned *n, nvmlProcessInfo_t *);
int nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, unsigned *n, nvmlProcessInfo_t *);
typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;
int nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);

int nvmlDeviceGetClockInfo(nvmlDevice_t, int type, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(nvmlDevice_t, int type, unsigned *mhz);
int nvmlDeviceGetTemperature(nvmlDevice_t, int sensor, unsigned *celsius);
int nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, unsigned *milliwatts);
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, unsigned long long *reasons);

/*
 * CUPTI's functions are declared here, so that the build does not need its headers. gpu/driver/cupti_records.h declares
 * its records.
 */
struct cupti_subscriber;
struct cupti_params;
int cuptiGetVersion(uint32_t *);
int cuptiGetResultString(int result, const char **);
int cuptiGetTimestamp(uint64_t *);
int cuptiSubscribe(struct cupti_subscriber **, void (*)(void), void *user);
int cuptiSubscribe_v2(struct cupti_subscriber **, void (*)(void), void *user, struct cupti_params *);
int cuptiUnsubscribe(struct cupti_subscriber *);
int cuptiFinalize(void);
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *bytes, size_t *most),
				   void (*complete)(CUcontext, uint32_t stream, uint8_t *,
						    size_t bytes, size_t valid));
int cuptiActivityEnable(int kind);
int cuptiActivityDisable(int kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);

/*
 * Newer headers map these names to functions that the driver of CUDA 12.0 lacks. The older functions of that driver do
 * the same.
 */
#undef cuCtxCreate
#undef cuEventElapsedTime
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuEventElapsedTime(float *, CUevent, CUevent);

/* Headers before CUDA 12.3 lack this, and those before 13.0 have the name for an older function. */
#if CUDA_VERSION < 12030
typedef struct {
	unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;
#define CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC 1
#define CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC  1
#endif
CUresult cuGraphAddDependencies_v2(CUgraph, const CUgraphNode *, const CUgraphNode *,
				   const CUgraphEdgeData *, size_t);

#define SYM(f, required) __typeof__(&f) p_##f;
struct cuda_api {
#include "gpu/driver/cuda.def"
};
struct nvrtc_api {
#include "gpu/driver/nvrtc.def"
};
struct cublaslt_api {
#include "gpu/driver/cublaslt.def"
};
struct cudnn_api {
#include "gpu/driver/cudnn.def"
};
struct nvml_api {
#include "gpu/driver/nvml.def"
};
struct cupti_api {
#include "gpu/driver/cupti.def"
};
#undef SYM

/*
 * Return the functions of a library. The library is opened at the first call, from any thread. On failure the result is
 * NULL, with a finding (E-LIBRARY) that names what was searched, where, and which version was found and expected. A
 * failure is remembered and not tried again.
 */
const struct cuda_api *cuda_api(struct diag *d);
const struct cublaslt_api *cublaslt_api(struct diag *d);
const struct cudnn_api *cudnn_api(struct diag *d);
const struct cudnn_api *cudnn_alone(struct diag *d); /* also works without a driver */
const struct nvrtc_api *nvrtc_api(struct diag *d);
const struct nvml_api *nvml_api(struct diag *d);
const struct cupti_api *cupti_api(struct diag *d);

/*
 * Keeps open the libraries that cuDNN and others have opened themselves. Each time that one of them is closed and
 * opened again, its start-up memory leaks (72 KiB for one C++ library). Must be called while these libraries are open.
 */
void libraries_keep(void);

/* Fills in what infer doctor reports about each library; returns the number of libraries. Strings live in d's arena. */
int libraries_probe(struct library_info *out, struct diag *d);
/*
 * Versions of the libraries opened so far, for reports: "CUDA driver CUDA 13.0, cuBLASLt 13.1.1". A key of a cache must not contain them, because which
 * libraries are open depends on what ran before.
 */
void libraries_versions(char *out, size_t bytes);
/* The version of cuBLASLt, as it tells it, or 0 if it is not open. */
size_t cublaslt_version(void);

#endif
