/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_RECORD_H
#define PROFILE_RECORD_H
/*
 * A record holds the result of one measurement of a model on a device with one set of settings. It is made by
 * src/profile/profile.c, written as JSON and read back (from a child process, from a baseline), printed by cmd/.
 * Times are in seconds, sizes in bytes, and arrays lie in the record's arena.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/mem.h"

enum { RECORD_KINDS = MEM_KINDS, RECORD_PURPOSES = MEM_PURPOSES, RECORD_REFERENCES = 3 };

/*
 * The model that was measured, the machine and the settings. Two measurements are only comparable if these are the
 * same.
 */
struct identity {
	const char *model, *hash; /* file name; "fnv1a:..." of its bytes */
	/* inputs of the first point, such as "x f32 [1,3,224,224], ..."; NULL if not known */
	const char *inputs;
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
	double device_used;	   /* device memory used by all processes; 0 without a device */
	double live[RECORD_KINDS][RECORD_PURPOSES];
};

/* A device kernel that a node launches. */
struct record_kernel {
	const char *name;
	double count, seconds; /* per run */
};

struct record_node {
	const char *name, *op, *kernel, *place;
	const char *fused; /* names of the nodes that were fused into it, such as "a, b"; or NULL */
	int64_t depth;	   /* nesting depth in bodies of control flow; 0 if not in a body */
	double calls;	   /* per run */
	const double *time; /* seconds in each observed run, without the nodes of its bodies */
	size_t n;
	/* mean over the faster half of the observed runs; the means of all nodes add up to the run's mean */
	double typical;
	double low;			    /* tenth percentile */
	double share;			    /* typical as a share of record.observed */
	double flops, bytes;		    /* per run; 0: not known */
	double out_bytes, workspace;	    /* bytes of its outputs, and of scratch memory */
	double live;			    /* planned memory in use while the node runs */
	double grown;			    /* resident memory that its first run added */
	const struct record_kernel *launch; /* none unless CUPTI timed the nodes */
	size_t nlaunches;
};

struct record_point {
	const char *label;  /* "batch=4"; "" without a sweep */
	const double *size; /* indexed by dimension of the sweep */
	/* seconds of planning for a new shape, and of the first run with this shape */
	double prepare, first;
	/* duration and start of each run; `start` counts from the begin of the measurement */
	const double *time, *start;
	const double *delay; /* for each run the seconds that threads waited for a core; NULL if not known */
	const double *cpu; /* for each run the seconds that all threads together worked on cores: core_waits_cpu(); NULL if not known */
	size_t n;
	double copy_in, copy_out; /* seconds of copies to and from the device in an observed run */
	double items; /* number of items that one run processes: the size of the batch */
	double slab, device_slab, values, weights; /* bytes, as planned */
	double span; /* seconds of all runs; if sessions run side by side, from the first begin to the last end */
	double waited; /* seconds that threads waited for a core while the point was measured */
	const size_t *rounds; /* number of runs from each process; NULL if all are from one process */
	size_t nrounds;
	/*
	 * If models took turns: the mean time of a run in each turn, and how many turns in a row each process had. Turn i of each of
	 * the models was measured at about the same time.
	 */
	const double *turn_mean;
	size_t nturns;
	int64_t process_turns;
};

/*
 * Memory over time, sampled between runs. There is not a sample after each run if runs are shorter than a
 * millisecond, and samples are thinned out if there are many. `run` is the number of runs of the point that the first
 * session had completed, or -1 if the sample was not taken after a counted run. `host` and `device` are our own
 * counters; `device_used` is the use by all processes.
 */
struct record_timeline {
	const double *at, *run, *rss, *private, *host, *device, *device_used;
	size_t n;
};

/* Samples of the device's clocks, taken a few times per second during the measurement. */
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
	double observed; /* mean of the faster half of the observed runs; 0 if there are none */
	const double *observed_time;
	size_t nobserved;
	double gaps; /* `observed` minus the typical times of all nodes */
	double copy_in,
		copy_out; /* seconds of copies to and from the device in an observed run of the first point */
	double in_bytes, out_bytes; /* of these copies; 0: not known */
	const char *timed_by;	    /* what timed the nodes: "clock", "CUDA events", "CUPTI 13.0" */
	const char *timed_why;	    /* why CUPTI did not time them; NULL */
	/* seconds for which the device was held until a run was queued; these are not part of the observed run */
	double held;
	double peak_flops, peak_bytes; /* measured peak rates per second; 0 if not measured */
	double flops, bytes;	       /* work of a run, as far as known */
	double watts; /* mean power while runs were measured, of the whole package or device; 0: not known */
	struct record_timeline timeline;
	struct record_clocks clocks;
	/* samples of each reference workload, in seconds; indexed by enum reference_kind */
	const double *reference_time[RECORD_REFERENCES];
	/* seconds that threads waited for a core during each sample; NULL if not known */
	const double *reference_wait[RECORD_REFERENCES];
	size_t nreference;
	double faults_minor, faults_major, forced; /* while measuring */
	double clock_low, clock_high;		   /* kHz seen; 0: not known */
	bool stopped;				   /* before its end */
	/* label of the point at which an error ended the sweep, after the last in `point`; or NULL */
	const char *failed;
};

/* Writes the record, with all samples, as members of the JSON object that is open. */
void record_write(const struct record *r, struct json *j);
/* Reads a record from JSON. Returns NULL if the value is not a record. */
struct record *record_read(const struct jvalue *v);
void record_free(struct record *r);

const char *record_kind_name(int kind); /* "host", "pinned", "device" */

#endif
