/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_RECORD_H
#define PROFILE_RECORD_H
/*
 * What one measurement found: a model on a device with one set of settings. Made by src/profile/profile.c, written
 * as JSON and read back (from a child process, from a baseline), printed by cmd/. Times are seconds,
 * sizes bytes, arrays lie in the record's arena.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/mem.h"

enum { RECORD_KINDS = MEM_KINDS, RECORD_PURPOSES = MEM_PURPOSES, RECORD_YARDS = 3 };

/* What makes two measurements comparable. */
struct identity {
	const char *model, *hash; /* file name; "fnv1a:..." of its bytes */
	const char *inputs; /* "x f32 [1,3,224,224], ..." of the first point; NULL: not known */
	const char *device; /* "cpu", "cuda" */
	const char *device_name;
	const char *driver;    /* of a GPU; NULL */
	const char *libraries; /* "oneDNN 3.5, cuDNN 9.19" */
	const char *precision, *optimize;
	const char *sync;
	int64_t threads, cores, sessions;
	bool memory_plan, arena;
};

/* Memory at the end of a phase. */
struct record_phase {
	const char *name;
	double seconds;		   /* that it took */
	double rss, private, peak; /* of this process */
	double device_used;	   /* of all processes; 0 without a device */
	double live[RECORD_KINDS][RECORD_PURPOSES];
};

/* What a node launches on a device, by name. */
struct record_kernel {
	const char *name;
	double count, seconds; /* a run */
};

struct record_node {
	const char *name, *op, *kernel, *place;
	const char *fused;  /* the nodes it stands for, "a, b"; NULL */
	int64_t depth;	    /* in bodies of control flow */
	double calls;	    /* a run */
	const double *time; /* of each observed run, without what runs inside of it */
	size_t n;
	double typical;	     /* mean over the faster half of the observed runs: adds up to theirs */
	double low;	     /* tenth percentile */
	double share;	     /* of the observed run */
	double flops, bytes; /* a run; 0: not known */
	double out_bytes, workspace;	    /* memory it makes and uses */
	double live;			    /* planned memory in use while it runs */
	double grown;			    /* resident memory that its first run added */
	const struct record_kernel *launch; /* where CUPTI tells */
	size_t nlaunches;
};

struct record_point {
	const char *label;	    /* "batch=4"; "" without a sweep */
	const double *size;	    /* by dimension of the sweep */
	double prepare, first;	    /* of a new shape */
	const double *time, *start; /* of each run; start since the measurement's begin */
	const double *delay; /* of each run: how long threads waited for a core meanwhile; NULL: not known */
	size_t n;
	double copy_in, copy_out;		   /* of an observed run: to and from the device */
	double items;				   /* that one run takes: the size of the batch */
	double slab, device_slab, values, weights; /* planned */
	double span; /* seconds that the runs took; of sessions side by side from the first's begin to the last's end */
	double waited;	      /* seconds that threads waited for a core meanwhile */
	const size_t *rounds; /* runs that came from each process; NULL: one */
	size_t nrounds;
};

/*
 * Over time, between runs: where runs are shorter than a millisecond not after each, and thinned where they are many. run: how
 * many of its point were over (of the first session); -1: none of those that count had just ended. host: our own counters.
 */
struct record_timeline {
	const double *at, *run, *rss, *private, *host, *device, *device_used;
	size_t n;
};

/* The device while it was measured; fractions of a second apart. */
struct record_clocks {
	const double *at, *sm, *memory; /* MHz */
	const double *celsius, *watts;
	const double *reasons; /* why the clock was lowered: bits of NVML's */
	size_t n;
	double sm_most, memory_most, watts_most; /* 0: not known */
};

struct record {
	struct arena arena;
	const char *label; /* of the comparison, "threads=2"; "" */
	struct identity id;
	const struct record_phase *phase;
	size_t nphases;
	struct record_point *point;
	size_t npoints;
	const char *const *dim; /* names of the sweep's dimensions */
	size_t ndims;
	const struct record_node *node; /* of the first point */
	size_t nnodes;
	double observed; /* mean of the faster half of the observed runs; 0: none */
	const double *observed_time;
	size_t nobserved;
	double gaps;		  /* what the nodes' times leave of them */
	double copy_in, copy_out; /* of an observed run of the first point: to and from the device */
	double in_bytes, out_bytes; /* of these copies; 0: not known */
	const char *timed_by;  /* who told the nodes' times: "clock", "CUDA events", "CUPTI 13.0" */
	const char *timed_why; /* why not by CUPTI; NULL */
	double held; /* of an observed run, and not part of it: the device waited until all was queued */
	double peak_flops, peak_bytes; /* a second, as measured; 0: not measured */
	double flops, bytes;	       /* of a run, as far as known */
	struct record_timeline timeline;
	struct record_clocks clocks;
	const double *yard[RECORD_YARDS];	/* time of known work: enum yard_kind of peak.h */
	const double *yard_delay[RECORD_YARDS]; /* as delay of a point */
	size_t nyard;
	double faults_minor, faults_major, forced; /* while measuring */
	double clock_low, clock_high;		   /* kHz seen; 0: not known */
	bool stopped;				   /* before its end */
	const char *failed; /* the point at which an error ended the sweep, behind those that are here; NULL */
};

/* Members of the open object; the samples too. */
void record_write(const struct record *r, struct json *j);
/* NULL where the value does not look like one. */
struct record *record_read(const struct jvalue *v);
void record_free(struct record *r);

const char *record_kind_name(int kind); /* "host", "pinned", "device" */

#endif
