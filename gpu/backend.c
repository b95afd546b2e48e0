/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA backend's table: what driver/ does with a device, and the kernels of ops/, one list a family. */
#include "gpu/backend.h"

#include "gpu/driver/cuda.h"
#include "gpu/launch/channels_last.h"

#define FAMILY(F) extern const struct kernel gpu_##F[];
#include "ops/families.def"
#undef FAMILY

static const struct kernel *const families[] = {
#define FAMILY(F) gpu_##F,
#include "ops/families.def"
#undef FAMILY
};

#if HAVE_CUDA && defined(FAULTS)
extern const struct fault_kind gpu_faults[];
#endif

const struct backend cuda_backend = {
	.name = "cuda",
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.families = families,
	.reorder = &gpu_reorder,
#if HAVE_CUDA
#ifdef FAULTS
	.faults = gpu_faults,
#endif
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.wait = cuda_wait,
	.enter = device_enter,
	.leave = device_leave,
	.alloc_host = cuda_alloc_host,
	.free_host = cuda_free_host,
	.queue_copy = cuda_queue_copy,
	.event_new = cuda_event_new,
	.event_free = cuda_event_free,
	.mark = cuda_mark,
	.elapsed = cuda_elapsed,
	.memory = cuda_memory,
	.capture_begin = cuda_capture_begin,
	.capture_end = cuda_capture_end,
	.capture_launch = cuda_capture_launch,
	.capture_drop = cuda_capture_drop,
	.check = cuda_check,
	.lost = cuda_lost,
#endif
};
