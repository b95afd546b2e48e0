/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_OBSERVE_H
#define BACKEND_OBSERVE_H
/*
 * Information that a backend can give to observers (profile, check, doctor). Each kind of
 * information has a table of functions, or one function, to which struct backend points. The
 * pointer is NULL if the backend cannot give that information.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct stream;

/* ---- reports --------------------------------------------------------------------------------- */

/*
 * Describes the hardware and software that run a session, for records of measurements. Strings live
 * in the caller's arena and are NULL if unknown.
 */
struct device_description {
	const char *name;      /* of the device */
	const char *driver;    /* the driver's version and release */
	const char *libraries; /* libraries whose kernels are used, with their versions */
};

/* A library that the backend opens while the program runs, for infer doctor. */
struct library_info {
	const char *name, *use;
	const char *without; /* what does not work if the library is missing */
	bool found;
	char path[512], version[64];
	const char *how; /* where it was found: "beside the program" */
	/* if the library is missing, the names and places that were searched; else NULL */
	const char *why;
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
	uint64_t tag; /* the tag that push had set when the work was queued; 0 if there was none */
	const char *name; /* name of a kernel; NULL for copies and fills */
	uint64_t bytes;	  /* size of a copy or fill */
	enum activity_kind kind;
};

/*
 * A recorder of the kernels, copies and fills that the device runs. Nothing is recorded before open
 * and after close, so that runs without an observer are not slowed down.
 */
struct activities;
struct activity_ops {
	/*
	 * Opens the recorder, of which a process can have only one. On failure returns NULL and
	 * adds a finding (E-LIBRARY) with the reason.
	 */
	struct activities *(*open)(struct diag *d);
	void (*close)(struct activities *a);		   /* NULL is fine */
	const char *(*source)(const struct activities *a); /* "CUPTI 13.0" */
	/*
	 * Work that the calling thread queues between push and pop gets the tag. Pairs of push and
	 * pop may nest.
	 */
	void (*push)(struct activities *a, uint64_t tag);
	void (*pop)(struct activities *a);
	/*
	 * Returns the activities since the last read, sorted by start. The caller must have waited
	 * for the stream. The array is valid until the next read, and the names until close.
	 * Returns 0 or -code.
	 */
	int (*read)(struct activities *a, const struct activity **v, size_t *n, struct diag *d);
};

/*
 * Keeps a stream waiting while the host queues work. Otherwise a device that is faster than the
 * host would wait for the host between any two events, and the time between the events would
 * include the host's time.
 */
struct hold;
struct hold_ops {
	/* returns NULL if the backend cannot hold a stream */
	struct hold *(*create)(struct device *device, struct stream *stream);
	void (*destroy)(struct hold *h); /* NULL is fine */
	/*
	 * Work that is queued after begin waits until end is called, but for `ns` nanoseconds at
	 * most. Returns 0 or -code.
	 */
	int (*begin)(struct hold *h, uint64_t ns, struct diag *d);
	void (*end)(struct hold *h);
	/*
	 * Queues one kernel that takes `ns` nanoseconds by the device's clock. Returns 0 or -code.
	 */
	int (*spin)(struct hold *h, uint64_t ns, struct diag *d);
};

/* ---- clocks ---------------------------------------------------------------------------------- */

struct clock_sample {
	uint64_t at;	     /* in nanoseconds of clock_ns */
	unsigned sm, memory; /* MHz */
	unsigned celsius;
	double watts;
	uint64_t reasons; /* CLOCK_* bits: reasons why the clock is lower than its maximum */
};
/*
 * The bits have the values that NVML uses. They must not change, because records of measurements on
 * disk contain them.
 */
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
	/*
	 * Starts to take a sample every `every_ns` nanoseconds. Returns NULL if the device cannot
	 * be queried.
	 */
	struct clock_watch *(*begin)(const struct device *device, uint64_t every_ns);
	/*
	 * Takes a last sample, stops, and returns all n samples. The caller frees the samples with
	 * free().
	 */
	struct clock_sample *(*end)(struct clock_watch *w, size_t *n, struct clock_limits *limits);
};

/*
 * Describes the reasons for which the clock was lowered while the device worked, as text in the
 * arena ("power cap, heat"). Returns NULL if the clock was not lowered.
 */
const char *clock_reasons(uint64_t reasons, struct arena *a);

/* ---- other users of the device --------------------------------------------------------------- */

struct device_process {
	unsigned pid;
	uint64_t memory; /* bytes of device memory in use; 0 if not known */
	char name[64];	 /* name of the program; "" if the system does not give it */
};

/* The contexts of a CUDA device, in this process and in others. */
struct device_contexts {
	bool own; /* the session created its own context instead of using the primary one */
	const void *session; /* the session's context */
	/* context that was current on the calling thread before the session's; NULL if none was */
	const void *current;
	bool primary_active; /* something in this process holds the device's primary context */
	/* bytes of device memory that were taken when a library activated the primary context */
	uint64_t woken;
	unsigned primary_flags;
	/* how a thread waits for the device, according to the primary context's flags */
	const char *schedule;
	bool host_memory; /* the flags allow to map pinned host memory into the device */
	bool blocked;	  /* CUDA_LAUNCH_BLOCKING is set */
	/* reason why other processes cannot be listed; NULL if they are listed */
	const char *no_list;
	struct device_process process[32];
	unsigned nprocesses; /* without this process */
	/* bytes of this process according to the management library (NVML); 0 if not known */
	uint64_t ours;
};

/* Information from the driver on processes that use its devices, for watching another program. */
struct process_ops {
	/*
	 * Gives the device memory that process `pid` uses, in bytes, summed over all devices.
	 * Returns false if the driver does not report it.
	 */
	bool (*memory)(int pid, uint64_t *bytes);
	/* free bytes of the device with the least free memory; 0 if not known */
	uint64_t (*least_free)(void);
	void (*end)(void); /* releases the libraries that the two functions above opened */
	/*
	 * Returns the path of the library that records the watched program's calls (libcupti), in
	 * d's arena, or "" if only the dynamic loader knows the path. Returns NULL and adds a
	 * finding if there is no such library.
	 */
	const char *(*recorder)(struct diag *d);
};

#endif
