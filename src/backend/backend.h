/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
/*
 * A backend runs models on one kind of device: a const table with its functions for devices and memory, and its kernels.
 *
 * The functions of a kernel, in the order in which they are called:
 *   accepts   whether the kernel can run a node with these types and shapes, and why not
 *   create    once for a node of a session: chooses the kind of algorithm, packs weights
 *   reshape   once for a plan, which is for one set of shapes: sizes, workspace, primitives
 *   run       launches; it allocates, parses and chooses nothing
 */
#include "base/mem.h"
#include "backend/config.h"
#include "ir/graph.h"
#include "ops/op.h"

struct device;
struct stream;
struct event;	 /* a point in a stream's time */
struct captured; /* recorded launches that can be run again by one call */
struct backend;
struct step;

/* Why a kernel refused a node. The text lives in the caller's arena. */
struct why {
	struct arena *arena; /* NULL: nobody wants to know */
	const char *text;
};
/* return REFUSE(why, "group %d", g); */
bool refuse(struct why *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct store; /* packed weights of a session: backend/weight_store.h */

/* The body of a control-flow node (If, Loop, Scan), ready to run; made by src/plan. */
struct body;
struct body_ops {
	/*
	 * Runs the body. in: the body's formal inputs; values that it captures from outside are already bound.
	 * out: the outputs, valid until the next run of this body. 0 or -code.
	 */
	int (*run)(struct body *b, const struct tensor *const *in, uint32_t nin,
		   const struct tensor **out, uint32_t nout, struct diag *d);
	/*
	 * Asks the body to write output i of its next run to the caller's memory, so that a value that a loop
	 * carries need not be copied. The output's data pointer tells whether the body did so.
	 */
	void (*place)(struct body *b, uint32_t i, void *data, size_t bytes);
};
struct body {
	const struct body_ops *ops;
	const struct graph *graph;
};

/*
 * Everything that a kernel may use in accepts, create and reshape. It does not exist any more when the kernel
 * runs.
 */
struct site {
	const struct graph *graph;
	const struct node *node;
	const struct vinfo *info; /* indexed by value id: types, concrete shapes, known values, layouts */
	struct device *device;
	const struct run_config *config;
	struct store *store;
	struct arena *node_arena; /* lives as long as the session */
	struct arena *plan_arena; /* lives as long as the plan */
	void *state;		  /* what create left, for reshape */
};
const struct vinfo *site_in(const struct site *s, uint32_t i);	/* NULL: left out */
const struct vinfo *site_out(const struct site *s, uint32_t i); /* NULL: left out */
static inline const void *site_params(const struct site *s)
{
	return s->node->params;
}
/* The value of input i if it is known before the run (an initializer, for example), else NULL. */
const struct tensor *site_known(const struct site *s, uint32_t i);
/*
 * Whether input i is an initializer, whose value does not change with the shapes: only such a value may be
 * packed in the store.
 */
bool site_is_weight(const struct site *s, uint32_t i);

enum kernel_flags {
	K_REFERENCE = 1,  /* plain code for every type; faster kernels are compared with it */
	K_ANY_LAYOUT = 2, /* elementwise: takes inputs in any dense layout that all of them share */
	K_HOST = 4,	  /* in a GPU backend: runs on the host and needs its inputs there */
	K_NO_CAPTURE = 8, /* its run waits for the device or touches host memory: no CUDA graph can hold it */
};

enum { MAX_INPLACE = 4 };

/*
 * One launch. The kernel's reshape fills the members marked with <, lowering (src/plan) the others. Operands
 * are the node's inputs (formal ones, then captures) and outputs.
 */
struct step {
	const struct kernel *kernel;
	const struct node *node;
	const void *params;
	void *node_state; /* what create left */
	void *state;	  /* < private to the kernel; in plan_arena, or released by drop */
	size_t workspace; /* < bytes of scratch memory that run needs */
	const enum layout *want; /* < by input: the layout that run needs; NULL: all LAYOUT_ROW (or K_ANY_LAYOUT) */
	const enum layout *give; /* < per output; NULL: LAYOUT_ROW */
	struct {
		uint8_t out, in;
	} inplace[MAX_INPLACE]; /* < `out` may use the memory of `in` if nothing reads `in` later and the sizes agree */
	uint8_t ninplace; /* < */
	bool nop;	  /* < nothing to run: every output is a view of input 0 */
	uint64_t unread; /* < bit i (i < 64): run does not read input i, since it is packed or part of state */
	bool dynamic;	 /* some output's shape is known only after the run: call_alloc */
	bool no_capture; /* < like K_NO_CAPTURE, for this step alone */
	uint32_t nin, nout;
	struct body **body; /* bodies of a control-flow node, by index of the subgraph */
	const struct origin *from;
};

/* The arguments of run. in[i] and out[i] are NULL for operands that the node leaves out. */
struct call {
	const struct step *step;
	const struct tensor *const *in;
	struct tensor *const *out;
	void *workspace; /* step->workspace bytes, 64-byte aligned */
	struct stream *stream;
	struct diag *diag;
	void *owner; /* the executor's */
	/* see call_alloc */
	int (*alloc)(const struct call *, uint32_t out, enum dtype t, const struct shape *s);
	struct arena *(*values)(const struct call *, uint32_t out);
};
static inline const void *call_params(const struct call *c)
{
	return c->step->params;
}
/*
 * In a dynamic step: sets shape and dtype of output i and allocates it; out[i]->data is valid afterwards.
 * String outputs use call_strings instead.
 */
int call_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s);
/*
 * The arena for the contents of output i (a string tensor or host value). It is emptied before the step runs
 * again.
 */
struct arena *call_values(const struct call *c, uint32_t i);
/*
 * Makes output i a string tensor with copies of these texts. In a step that is not dynamic the shape must be
 * the planned one.
 */
int call_strings(const struct call *c, uint32_t i, const struct shape *s, const char *const *text,
		 const size_t *length);
/* Makes output i a deep copy of any value (tensor, sequence, ...). */
int call_copy(const struct call *c, uint32_t i, const struct tensor *t);
/* Fails with a finding that names the step's node. Returns -code. */
int call_fail(const struct call *c, enum code code, const char *expected, const char *actual);

struct kernel {
	const char *op; /* "Softmax", "com.microsoft::Gelu", "infer::Conv" */
	uint64_t types; /* types that it takes, of input 0 (of output 0 if there is no input): T_*; 0: any */
	unsigned flags;					    /* K_* */
	bool (*accepts)(const struct site *, struct why *); /* NULL: always */
	int (*create)(struct site *, struct diag *);	    /* NULL: none; leaves site->state */
	int (*reshape)(struct site *, struct step *, struct diag *); /* NULL: none */
	int (*run)(const struct call *);
	void (*drop)(struct step *);	/* releases step->state; NULL: nothing to release */
	void (*drop_node)(void *state); /* releases what create left; NULL: nothing to release */
};

struct device_info {
	char name[128];
	int ordinal;
	uint64_t memory; /* bytes */
	/* For infer doctor; NULL or 0 on the CPU. */
	const char *kernels; /* whether this build has kernels for the device: "kernels", "no kernels" */
	int compute_major, compute_minor;
	int multiprocessors;
};

/* What a model will want soon, so that it can be started while something else goes on. */
enum warm_part { WARM_DRIVER = 1, WARM_PRODUCTS = 2, WARM_CONVOLUTIONS = 4 };

/* Tables of backend/observe.h. */
struct activity_ops;
struct hold_ops;
struct clock_ops;
struct process_ops;
struct device_contexts;
struct device_description;
struct library_info;

struct buffer {
	void *ptr;
	size_t bytes;
	enum mem_purpose purpose; /* as passed to alloc; for the backend's own use */
};

#ifdef FAULTS
/* A fault that only this backend has and the fault-injection build can plant; see plan/fault.h. */
struct fault_kind {
	const char *name;
	double def; /* value where none is given */
	int (*run)(const struct call *, int (*kernel)(const struct call *), double value);
	bool launches; /* the fault is only launches on the stream, so that a CUDA graph may hold it */
};
#endif

struct backend {
	const char *name; /* "cpu", "cuda" */
#ifdef FAULTS
	const struct fault_kind *faults; /* ends with a row without name; NULL: none */
#endif
	/*
	 * Fills in the devices that can be used and returns how many, at most max. When there is none, which is
	 * no error, *why says why.
	 */
	int (*probe)(struct device_info *, int max, struct diag *why);
	struct device *(*open)(int ordinal, const struct run_config *, struct diag *);
	void (*close)(struct device *);
	int (*alloc)(struct device *, size_t bytes, enum mem_purpose, struct buffer *, struct diag *);
	void (*free)(struct device *, struct buffer *);
	/*
	 * Copies between host and device memory: dst_device and src_device tell which of the two each pointer
	 * is. When it returns, the host may change src and read dst.
	 */
	int (*copy)(struct stream *, void *dst, int dst_device, const void *src, int src_device,
		    size_t bytes, struct diag *);
	/* one table a family, in the order of families.def */
	const struct kernel *const *families;
	/* The kernel of Reorder steps: converts input 0 to the layout of output 0. */
	const struct kernel *reorder;
	int (*wait)(struct stream *, struct diag *);
	/* Describes the device and its libraries for records. Strings live in the arena. */
	void (*describe)(const struct device *, struct device_description *out, struct arena *);

	/* The rest may be NULL. */

	/* The stream in which a session queues its work; without the function it has none. */
	struct stream *(*stream)(struct device *);
	/* Queues on the caller's stream from now on; it must be of the device's context (E-CTX-STREAM). */
	int (*use_stream)(struct device *, void *handle, struct diag *);

	/* Applies environment variables of the device's driver (CUDA_LAUNCH_BLOCKING) to the configuration. */
	void (*configure)(struct run_config *);
	/*
	 * Starts the driver and opens libraries (WARM_*) on threads of their own, each once a process, without taking
	 * memory of a device. warm_end waits for them.
	 */
	void (*warm_begin)(unsigned parts);
	void (*warm_end)(void);

	/*
	 * How the kernels of the device were chosen, in words; `each`: a line for every choice, too. NULL: nothing was
	 * chosen. fallback gives the i-th node that runs by a plainer kernel than the one meant for it, with the
	 * reason; NULL after the last. Both in the arena.
	 */
	const char *(*choices)(struct device *, bool each, struct arena *);
	const char *(*fallback)(const struct device *, size_t i, struct arena *);
	/*
	 * The folder of the device's results in the tuning cache (backend/tuning_cache.h), named by what the results
	 * depend on; NULL when there is no such device. Opens no device.
	 */
	const char *(*cache_folder)(int ordinal, struct arena *);
	/* Versions of the driver and of the libraries opened so far, one text for keys of the tuning cache. */
	void (*versions)(char *out, size_t bytes);
	/* Opens every library and reports it; returns how many, at most MAX_LIBRARIES. Strings live in d's arena. */
	int (*libraries)(struct library_info *out, struct diag *d);

	const struct activity_ops *activities;
	const struct hold_ops *hold;
	const struct clock_ops *clocks;
	const struct process_ops *processes;
	/* Which contexts there are on the device. Strings live in d's arena. */
	int (*contexts)(struct device *, struct device_contexts *out, struct diag *d);

	/*
	 * Called around each entry of a session: enter makes the device usable from the calling thread, leave
	 * restores what the thread had before. Both report errors of the caller, such as a destroyed context.
	 */
	int (*enter)(struct device *, struct diag *);
	int (*leave)(struct device *, struct diag *);

	/* Pinned host memory: the device copies from and to it without the host's help. */
	int (*alloc_host)(struct device *, size_t bytes, enum mem_purpose, struct buffer *,
			  struct diag *);
	void (*free_host)(struct device *, struct buffer *);
	/*
	 * Queues a copy and returns at once. Host memory must be from alloc_host; both sides must stay
	 * unchanged until the next wait.
	 */
	int (*queue_copy)(struct stream *, void *dst, int dst_device, const void *src,
			  int src_device, size_t bytes, struct diag *);

	/*
	 * Points in a stream's time. elapsed waits for the second and gives nanoseconds. event_clock names this way of
	 * measuring in records: "CUDA events".
	 */
	const char *event_clock;
	struct event *(*event_new)(struct device *, struct diag *);
	void (*event_free)(struct event *);
	int (*mark)(struct stream *, struct event *, struct diag *);
	int (*elapsed)(struct event *from, struct event *to, uint64_t *ns, struct diag *);

	/* Free and total bytes of the device's memory by the driver's count, which includes other processes. */
	int (*memory)(struct device *, uint64_t *unused, uint64_t *total, struct diag *);

	/*
	 * Work queued on the stream between begin and end is recorded instead of run; launch runs all of it
	 * again, at the same addresses. end finishes the recording in any case, and leaves *out NULL on
	 * failure.
	 */
	int (*capture_begin)(struct stream *, struct diag *);
	int (*capture_end)(struct stream *, struct captured **out, struct diag *);
	int (*capture_launch)(struct captured *, struct stream *, struct diag *);
	void (*capture_drop)(struct captured *);

	/* Reports an error of queued work that has occurred by now, without waiting. */
	int (*check)(struct stream *, struct diag *);
	/* Whether an earlier error made the device unusable for the rest of this process. */
	bool (*lost)(const struct device *);
};

/* Kernel number k of those for the operator, in the order in which they are tried; NULL after the last. */
const struct kernel *backend_kernel(const struct backend *b, const struct op *op, unsigned k);

/*
 * The first kernel, from number `from` on, that takes the site's node with its types and shapes; NULL when all
 * refuse, with the last refusal in *why.
 */
const struct kernel *backend_choose(const struct backend *b, const struct site *s, unsigned from,
				    struct why *why);

#endif
