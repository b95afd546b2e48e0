/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_DEVICE_H
#define GPU_DRIVER_DEVICE_H
/* What the files of the CUDA runtime share: device.c, context.c, memory.c, module.c, capture.c. Nobody else includes it. */
#include "gpu/driver/api.h"
#include "gpu/driver/cuda.h"

#include "base/hash.h"

/* Devices of a machine beyond this number are ignored. */
enum { MAX_DEVICES = 16 };
enum { MAX_IMAGES = 64, STAGES = 8, STAGE_BYTES = 4 << 20, STAGE_ALIGN = 256 };

struct loaded {
	CUlibrary library;
	const void *image;
};

/* Code made while the program runs. */
struct compiled {
	CUlibrary library;
	struct compiled *next;
};

struct stream {
	CUstream stream;
	struct device *device;
	bool borrowed; /* the caller's */
};

struct event {
	CUevent event;
	struct device *device;
};

/* Pinned memory on its way to the device; free again when its event is over. */
struct stage {
	void *ptr;
	CUevent event;
	size_t used; /* 0: the device reads nothing of it */
};

struct device {
	const struct cuda_api *api;
	struct device_facts facts;
	const struct run_config *config; /* never NULL */
	CUdevice id;
	CUcontext context;
	bool own; /* the context is ours alone, not the device's primary one */
	struct stream stream;
	struct arena arena;
	struct map functions; /* "file:kernel" to its number */
	CUfunction *function;
	uint32_t nfunctions, cap_functions;
	struct loaded loaded[MAX_IMAGES];
	int nloaded;
	struct compiled *compiled;
	struct stage stage[STAGES];
	unsigned next_stage;
	struct buffer *pinned; /* of cuda_alloc_host */
	uint32_t npinned, cap_pinned;
	struct {
		void *p;
		void (*drop)(struct device *, void *);
	} slot[GPU_SLOTS];
	uint64_t *fault; /* pinned: written by kernels */
	/* What follows each launch: nothing, or in --sync launch a wait. */
	int (*launched)(struct device *, struct diag *);
	uint64_t noted[MEM_PURPOSES]; /* bytes measured, to be taken back when it closes */
	bool lost;		      /* a sticky error: nothing works any more */
	bool told_foreign;
	bool primary_before; /* the primary context was there when the session's own was made */
	uint64_t woken;	     /* bytes that it took when a library woke it later */
	int lost_result;
};

/* context.c */
CUresult device_alive(struct device *dev);
int device_open_context(struct device *dev, struct diag *d);
void device_close_context(struct device *dev);
const char *cuda_error_text(const struct cuda_api *api, CUresult r, struct diag *d);

/* device.c: whether CUDA_LAUNCH_BLOCKING asks, as it does of the CUDA runtime, that every launch waits */
bool launches_block(void);

/* memory.c */
void stages_free(struct device *dev);
/* Waits for the stream, then tells what kernels found wrong with the data. */
int device_wait(struct device *dev, struct diag *d);

/* module.c */
void modules_free(struct device *dev);

#endif
