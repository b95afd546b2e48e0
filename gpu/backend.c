/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend's function table: the functions of driver/ and library/ that work with a device, and the kernels of
 * ops/, in one list for each family of operators.
 */
#include "gpu/backend.h"

#include "backend/observe.h"

#if HAVE_CUDA

#include "gpu/driver/api.h"
#include "gpu/driver/choose_ids.h"
#include "gpu/driver/context_list.h"
#include "gpu/driver/cuda.h"
#include "gpu/driver/cupti.h"
#include "gpu/driver/hold.h"
#include "gpu/driver/nvml.h"
#include "gpu/driver/processes.h"
#include "gpu/driver/tune.h"
#include "gpu/launch/channels_last.h"
#include "gpu/library/choices.h"
#include "gpu/library/cublaslt.h"

#define FAMILY(F) extern const struct kernel gpu_##F[];
#define EXPRESSED(F)
#include "ops/families.def"
#undef FAMILY

static const struct kernel no_kernels[] = {{0}};
static const struct kernel *const families[] = {
#define FAMILY(F)    gpu_##F,
#define EXPRESSED(F) no_kernels,
#include "ops/families.def"
#undef FAMILY
};

#ifdef FAULTS
extern const struct fault_kind gpu_faults[];
#endif

const struct backend cuda_backend = {
	.name = "cuda",
#ifdef FAULTS
	.faults = gpu_faults,
#endif
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.alignment = BLASLT_ALIGN,
	.families = families,
	.reorder = &gpu_reorder,
	.wait = cuda_wait,
	.describe = cuda_describe,
	.stream = cuda_stream,
	.stream_handle = cuda_stream_handle,
	.use_stream = cuda_use_stream,
	.configure = cuda_configure,
	.warm_begin = cuda_warm_begin,
	.warm_end = cuda_warm_end,
	.may_exit_quickly = cuda_may_exit_quickly,
	.choices = gpu_choices,
	.fallback = gpu_fallback,
	.cache_folder = tune_folder,
	.versions = libraries_versions,
	.libraries = libraries_probe,
	.activities = &cupti_activities,
	.hold = &cuda_hold,
	.choose = &cuda_choose,
	.clocks = &nvml_clocks,
	.processes = &cuda_processes,
	.contexts = cuda_contexts,
	.enter = device_enter,
	.leave = device_leave,
	.alloc_host = cuda_alloc_host,
	.free_host = cuda_free_host,
	.queue_copy = cuda_queue_copy,
	.event_clock = "CUDA events",
	.event_new = cuda_event_new,
	.event_free = cuda_event_free,
	.mark = cuda_mark,
	.elapsed = cuda_elapsed,
	.memory = cuda_memory,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.capture_launch = cuda_capture_launch,
	.capture_drop = cuda_capture_drop,
	.list_begin = cuda_list_begin,
	.list_end = cuda_list_end,
	.check = cuda_check,
	.lost = cuda_lost,
};

#else

/*
 * A build without CUDA compiles only this part of gpu/. Its backend has no kernels and finds no device, so that nothing
 * calls the functions that are left NULL here.
 */
static const struct kernel no_kernels[] = {{0}};

static const struct kernel *const families[] = {
#define FAMILY(F) no_kernels,
#include "ops/families.def"
#undef FAMILY
};

static int find_no_device(struct device_info *info, int max, struct diag *why)
{
	(void)info, (void)max;
	FAIL(why, E_DEVICE, .message = "infer was built without CUDA",
	     .hint = "build it where nvcc and the CUDA headers are");
	return 0;
}

static struct device *open_no_device(int ordinal, const struct run_config *config, struct diag *d)
{
	(void)ordinal, (void)config;
	find_no_device(NULL, 0, d);
	return NULL;
}

const struct backend cuda_backend = {
	.name = "cuda",
	.probe = find_no_device,
	.open = open_no_device,
	.families = families,
};

#endif
