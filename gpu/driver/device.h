/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_DEVICE_H
#define GPU_DRIVER_DEVICE_H
/*
 * Types shared by the files of gpu/driver that manage a device (device.c, context.c, memory.c, module.c,
 * capture.c and others). Nothing outside of gpu/driver includes it.
 */
#include "gpu/driver/api.h"
#include "gpu/driver/cuda.h"

#include "base/hash.h"

/* Devices of a machine beyond this number are ignored. */
enum { MAX_DEVICES = 16 };
enum { MAX_IMAGES = 64, STAGES = 4, STAGE_BYTES = 4 << 20, STAGE_ALIGN = 256 };

struct loaded {
	CUlibrary library;
	const void *image;
};

/* A library of kernels compiled at run time. */
struct compiled {
	CUlibrary library;
	struct compiled *next;
};

struct stream {
	CUstream stream;
	struct device *device;
	bool borrowed;		 /* the stream belongs to the caller */
	struct listing *listing; /* where work is written down in place of being queued, or NULL */
	struct listing *spare;	 /* memory for the next one */
};

struct event {
	CUevent event;
	struct device *device;
};

/*
 * A piece of pinned memory through which data is copied to the device. The piece is free again once its event has
 * occurred.
 */
struct stage {
	void *ptr;
	CUevent event;
	size_t used; /* number of bytes filled and queued, or 0 if the piece is free */
};

struct device {
	const struct cuda_api *api;
	struct device_facts facts;
	const struct run_config *config; /* never NULL */
	CUdevice id;
	CUcontext context;
	/* true if the context was made for this session, false if it is the device's primary one */
	bool own;
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
	struct buffer *pinned; /* memory allocated by cuda_alloc_host() */
	uint32_t npinned, cap_pinned;
	struct {
		void *p;
		void (*drop)(struct device *, void *);
	} slot[GPU_SLOTS];
	uint64_t *fault; /* in pinned memory, written by kernels */
	/* Called after each launch. The function does nothing, or waits for the device with --sync launch. */
	int (*launched)(struct device *, struct diag *);
	/* bytes measured for this device, for each purpose; subtracted from the counters when the device closes */
	uint64_t noted[MEM_PURPOSES];
	bool early; /* gpu_can_launch_early() */
	bool lost;  /* a sticky error has occurred, after which nothing works on the device */
	bool told_foreign;
	/* the primary context was already active when the session made its own context */
	bool primary_before;
	/* bytes that the primary context took when a library activated it later */
	uint64_t woken;
	int lost_result;
};

/* context.c */
CUresult device_alive(struct device *dev);
int device_open_context(struct device *dev, struct diag *d);
void device_close_context(struct device *dev);
const char *cuda_error_text(const struct cuda_api *api, CUresult r, struct diag *d);

/*
 * device.c. Returns whether the environment variable CUDA_LAUNCH_BLOCKING is set to anything but 0: the user wants
 * a wait after every launch.
 */
bool launches_block(void);

/* memory.c */
void stages_free(struct device *dev);
/* Waits for the stream, then reports invalid data that kernels found. Returns 0 or -code. */
int device_wait(struct device *dev, struct diag *d);
/* Reports invalid data that a kernel has found, as gpu_fault() held it, once. Returns 0 or -code. */
int device_fault(struct device *dev, uint64_t who, struct diag *d);

/* module.c */
void modules_free(struct device *dev);
/* Launches a kernel that belongs to no step of a plan; `what` it is for is told if that fails. Returns 0 or -code. */
int device_launch(struct stream *s, CUfunction fn, unsigned blocks, unsigned threads,
		  const void *params, size_t bytes, const char *what, struct diag *d);

/* ---- listing.c: work that is written down in place of being queued */
int listing_launch(struct listing *l, const struct step *by, void *fn, struct gpu_grid g,
		   const void *params, size_t bytes, bool early);
/* Gives the job to the launch that was written down last, if add() agrees: gpu_launch_several(). */
bool listing_add_job(struct listing *l, const struct step *by, void *fn, struct gpu_grid g,
		     const void *job, gpu_add_job *add);
/* gpu_written(), gpu_unwrite() */
bool listing_written(struct listing *l, unsigned back, struct gpu_written *out);
void listing_unwrite(struct listing *l, unsigned back);
int listing_copy(struct listing *l, void *to, int to_device, const void *from, int from_device,
		 size_t bytes);
/* Empties a listing for new work, or makes one out of NULL. Returns NULL without memory. */
struct listing *listing_clear(struct listing *l);
void listing_free(struct device *dev, struct listing *l);
/* Whether all work was written down. */
bool listing_usable(const struct listing *l);
/* Makes a graph, which the listing keeps. */
CUresult listing_graph(struct device *dev, struct listing *l, CUgraph *out);
/*
 * Gives an executable graph that was made of `old` the operations of `now`, which takes over the graph. Returns false if they are not
 * alike, or the driver refuses; the executable graph is then of no use.
 */
bool listing_change(struct device *dev, CUgraphExec exec, struct listing *old, struct listing *now);

#endif
