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

enum { RECORD_KINDS = MEM_KINDS, RECORD_PURPOSES = MEM_PURPOSES, RECORD_REFERENCES = 3 };

/* What was measured, on what: two measurements are only comparable if it is the same. */
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
	double seconds;		   /* duration of the phase */
	double rss, private, peak; /* of this process */
	double device_used;	   /* of all processes; 0 without a device */
	double live[RECORD_KINDS][RECORD_PURPOSES];
};

/* A device kernel that a node launches. */
struct record_kernel {
	const char *name;
	double count, seconds; /* per run */
};

struct record_node {
	const char *name, *op, *kernel, *place;
	const char *fused;  /* names of the nodes that were fused into it, "a, b"; NULL */
	int64_t depth;	    /* nesting in bodies of control flow; 0: none */
	double calls;	    /* per run */
	const double *time; /* in each observed run, without the nodes of its bodies */
	size_t n;
	double typical; /* mean over the faster half of the observed runs; those of all nodes add up to the run's */
	double low;			    /* tenth percentile */
	double share;			    /* typical as a share of record.observed */
	double flops, bytes;		    /* per run; 0: not known */
	double out_bytes, workspace;	    /* bytes of its outputs, and of scratch memory */
	double live;			    /* planned memory in use while it runs */
	double grown;			    /* resident memory that its first run added */
	const struct record_kernel *launch; /* none unless CUPTI timed the nodes */
	size_t nlaunches;
};

struct record_point {
	const char *label;	    /* "batch=4"; "" without a sweep */
	const double *size;	    /* indexed by dimension of the sweep */
	double prepare, first;	    /* seconds of planning for a new shape, and of its first run */
	const double *time, *start; /* of each run; start: seconds since the measurement began */
	const double *delay; /* of each run: seconds that threads waited for a core during it; NULL: not known */
	size_t n;
	double copy_in, copy_out; /* seconds in an observed run, to and from the device */
	double items;		  /* processed by one run: the size of the batch */
	double slab, device_slab, values, weights; /* bytes, as planned */
	double span; /* seconds of all runs; if sessions run side by side, from the first begin to the last end */
	double waited; /* seconds that threads waited for a core while the point was measured */
	const size_t *rounds; /* number of runs from each process; NULL: all from one */
	size_t nrounds;
};

/*
 * Memory over time, sampled between runs; not after each if runs are shorter than a millisecond, and thinned out if there are
 * many samples. run: how many runs of the point had ended (of the first session); -1: the sample was not taken after a
 * counted run. host, device: our own counters; device_used: of all processes.
 */
struct record_timeline {
	const double *at, *run, *rss, *private, *host, *device, *device_used;
	size_t n;
};

/* Samples of the device's clocks during the measurement, some a second. */
struct record_clocks {
	const double *at, *sm, *memory; /* MHz */
	const double *celsius, *watts;
	const double *reasons; /* why the clock was lowered: NVML's bits */
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
	double gaps; /* observed, less the typical times of all nodes */
	double copy_in,
		copy_out; /* seconds in an observed run of the first point, to and from the device */
	double in_bytes, out_bytes; /* of these copies; 0: not known */
	const char *timed_by;	    /* what timed the nodes: "clock", "CUDA events", "CUPTI 13.0" */
	const char *timed_why;	    /* why CUPTI did not time them; NULL */
	double held; /* seconds for which the device was held until a run was queued; not part of the observed run */
	double peak_flops, peak_bytes; /* peak rates per second, as measured; 0: not measured */
	double flops, bytes;	       /* of a run, as far as known */
	struct record_timeline timeline;
	struct record_clocks clocks;
	const double *reference_time[RECORD_REFERENCES]; /* seconds of each reference workload: enum reference_kind */
	const double *reference_wait[RECORD_REFERENCES]; /* seconds that threads waited for a core during each of them; NULL: not known */
	size_t nreference;
	double faults_minor, faults_major, forced; /* while measuring */
	double clock_low, clock_high;		   /* kHz seen; 0: not known */
	bool stopped;				   /* before its end */
	const char *failed; /* label of the point at which an error ended the sweep, the one after `point`; NULL */
};

/* Writes the record, with all samples, as members of the JSON object that is open. */
void record_write(const struct record *r, struct json *j);
/* NULL if the value is not a record. */
struct record *record_read(const struct jvalue *v);
void record_free(struct record *r);

const char *record_kind_name(int kind); /* "host", "pinned", "device" */

#endif
