/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_OBSERVE_H
#define BACKEND_OBSERVE_H
/*
 * What a backend can tell observers (profile, check, doctor) beyond running kernels. Each part is a table of
 * functions, or one function, that struct backend points to; a backend that cannot tell leaves the pointer NULL.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct stream;

/* ---- reports --------------------------------------------------------------------------------- */

/* What a session runs on, for records of measurements. Strings live in the caller's arena; NULL: not known. */
struct device_description {
	const char *name;      /* of the device */
	const char *driver;    /* the driver's version and release */
	const char *libraries; /* libraries that run kernels, with their versions */
};

/* A library that the backend opens while the program runs, for infer doctor. */
struct library_info {
	const char *name, *use;
	const char *without; /* what the user loses when the library is missing */
	bool found;
	char path[512], version[64];
	const char *why; /* when it is missing: what was searched for, and where; else NULL */
};
enum { MAX_LIBRARIES = 16 };

/* ---- what the device did --------------------------------------------------------------------- */

enum activity_kind {
	ACTIVITY_KERNEL,
	ACTIVITY_TO_DEVICE, /* a copy from host to device */
	ACTIVITY_TO_HOST,   /* a copy from device to host */
	ACTIVITY_COPY,	    /* a copy within the device */
	ACTIVITY_SET	    /* memory filled with a constant */
};
struct activity {
	uint64_t start, end; /* in nanoseconds of clock_ns */
	uint64_t tag;	     /* the tag that push had set when the work was queued; 0: none */
	const char *name;    /* of a kernel; NULL for copies and fills */
	uint64_t bytes;	     /* of a copy or fill */
	enum activity_kind kind;
};

/*
 * Records of kernels, copies and fills. Nothing is recorded outside of open and close, so that runs which nobody
 * observes cost nothing.
 */
struct activities;
struct activity_ops {
	/* At most one is open in a process. NULL with a finding (E-LIBRARY) that says why it cannot be opened. */
	struct activities *(*open)(struct diag *d);
	void (*close)(struct activities *a);		   /* NULL is fine */
	const char *(*source)(const struct activities *a); /* "CUPTI 13.0" */
	/* Work that the calling thread queues between push and pop gets the tag. The pairs nest. */
	void (*push)(struct activities *a, uint64_t tag);
	void (*pop)(struct activities *a);
	/*
	 * Activities since the last read, sorted by start; the caller has waited for the stream. The array is
	 * valid until the next read, the names until close. 0 or -code.
	 */
	int (*read)(struct activities *a, const struct activity **v, size_t *n, struct diag *d);
};

/*
 * Keeps a stream waiting while the host queues work. Without that a device that is faster than the host waits for
 * the host between any two events, and the time between the events is the host's.
 */
struct hold;
struct hold_ops {
	struct hold *(*create)(struct device *device, struct stream *stream); /* NULL: not possible here */
	void (*destroy)(struct hold *h);				      /* NULL is fine */
	/* Work queued after begin waits until end, or for `ns` nanoseconds at most. 0 or -code. */
	int (*begin)(struct hold *h, uint64_t ns, struct diag *d);
	void (*end)(struct hold *h);
	/* Queues one kernel that takes `ns` nanoseconds by the device's clock. 0 or -code. */
	int (*spin)(struct hold *h, uint64_t ns, struct diag *d);
};

/* ---- clocks ---------------------------------------------------------------------------------- */

struct clock_sample {
	uint64_t at;	     /* in nanoseconds of clock_ns */
	unsigned sm, memory; /* MHz */
	unsigned celsius;
	double watts;
	uint64_t reasons; /* CLOCK_* bits: why the clock is lower than it could be */
};
/* The bits have NVML's values, and records of measurements keep them: they must not change. */
enum {
	CLOCK_IDLE = 0x1,
	CLOCK_SETTING = 0x2, /* an administrator set the clock */
	CLOCK_POWER_CAP = 0x4,
	CLOCK_HARDWARE = 0x8,
	CLOCK_HEAT = 0x20,
	CLOCK_HARDWARE_HEAT = 0x40,
	CLOCK_POWER_BRAKE = 0x80
};
struct clock_limits {	     /* 0: not known */
	unsigned sm, memory; /* MHz */
	double watts;
};

/* Samples a device's clocks, temperature and power on a thread of its own. */
struct clock_watch;
struct clock_ops {
	/* A sample every `every_ns` nanoseconds. NULL when the device cannot be asked. */
	struct clock_watch *(*begin)(const struct device *device, uint64_t every_ns);
	/* Takes a last sample and stops. The caller frees the samples with free(). */
	struct clock_sample *(*end)(struct clock_watch *w, size_t *n, struct clock_limits *limits);
};

/* Why the clock was lowered while the device worked, as text in the arena ("power cap, heat"); NULL: it was not. */
const char *clock_reasons(uint64_t reasons, struct arena *a);

/* ---- other users of the device --------------------------------------------------------------- */

struct device_process {
	unsigned pid;
	uint64_t memory; /* bytes on the device; 0: not known */
	char name[64];	 /* of the program; "" when the system does not tell */
};

/* The contexts of a CUDA device, in this process and in others. */
struct device_contexts {
	bool own; /* the session made a context of its own instead of using the primary one */
	const void *session; /* the session's context */
	const void *current; /* current on the calling thread before the session's; NULL: none */
	bool primary_active; /* something in this process holds the device's primary context */
	uint64_t woken; /* bytes of device memory taken when a library activated the primary context */
	unsigned primary_flags;
	const char *schedule; /* how a thread waits for the device, by the primary context's flags */
	bool host_memory;     /* by the flags: pinned memory can be mapped into the device */
	bool blocked;	      /* CUDA_LAUNCH_BLOCKING is set */
	const char *no_list;  /* why other processes cannot be listed; NULL: they are */
	struct device_process process[32];
	unsigned nprocesses; /* without this process */
	uint64_t ours; /* bytes that the management library counts as this process's; 0: not known */
};

/* What the driver tells of processes that use its devices, for watching another program. */
struct process_ops {
	/* Bytes that process `pid` uses, summed over all devices; false when the driver does not tell. */
	bool (*memory)(int pid, uint64_t *bytes);
	uint64_t (*least_free)(void); /* free bytes of the device that has the fewest; 0: not known */
	void (*end)(void);	      /* releases what the two above opened */
	/*
	 * The library by which the watched program's calls are recorded (libcupti): its path in d's arena, "" when
	 * only the loader knows it. NULL with a finding when there is none.
	 */
	const char *(*recorder)(struct diag *d);
};

#endif
