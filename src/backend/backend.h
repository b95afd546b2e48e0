/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
/*
 * A backend runs models on one kind of device. It is a const table with functions for devices and
 * memory, and with kernels.
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

/* The reason why a kernel refused a node. The text lives in the caller's arena. */
struct why {
	struct arena *arena; /* arena for the text; NULL if the caller does not want the reason */
	const char *text;
};
/* return REFUSE(why, "group %d", g); */
bool refuse(struct why *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct store; /* packed weights of a session, see backend/weight_store.h */

/*
 * The body of a control-flow node (If, Loop, Scan), ready to run. The planner (src/plan) creates
 * it.
 */
struct body;
struct body_ops {
	/*
	 * Runs the body. `in` holds the body's formal inputs; values that the body captures from
	 * outer graphs are already bound. `out` receives the outputs, which are valid until the
	 * next run of this body. Returns 0 or -code.
	 */
	int (*run)(struct body *b, const struct tensor *const *in, uint32_t nin,
		   const struct tensor **out, uint32_t nout, struct diag *d);
	/*
	 * Asks the body to write output i of its next run to the caller's memory, so that a value
	 * that the loop carries to its next turn need not be copied. The output's data pointer
	 * tells whether the body did so.
	 */
	void (*place)(struct body *b, uint32_t i, void *data, size_t bytes);
};
struct body {
	const struct body_ops *ops;
	const struct graph *graph;
};

/*
 * Everything that a kernel may use in its functions accepts, create and reshape. The site no longer
 * exists when the kernel runs.
 */
struct site {
	const struct graph *graph;
	const struct node *node;
	const struct vinfo *info; /* indexed by value id: types, concrete shapes, known values, layouts */
	struct device *device;
	const struct run_config *config;
	struct store *store;
	struct arena *node_arena; /* an arena that lives as long as the session */
	struct arena *plan_arena; /* an arena that lives as long as the plan */
	void *state;		  /* state that create made, for use by reshape */
};
/* Return the description of input or output i, or NULL if the node leaves that operand out. */
const struct vinfo *site_in(const struct site *s, uint32_t i);
const struct vinfo *site_out(const struct site *s, uint32_t i);
static inline const void *site_params(const struct site *s)
{
	return s->node->params;
}
/* Returns the value of input i if it is known before the run (as an initializer is), else NULL. */
const struct tensor *site_known(const struct site *s, uint32_t i);
/*
 * Returns true if input i is an initializer. Only initializers may be packed in the store, because
 * their values do not change with the shapes.
 */
bool site_is_weight(const struct site *s, uint32_t i);

enum kernel_flags {
	K_REFERENCE = 1, /* plain code for every type, with which tests compare faster kernels */
	/* an elementwise kernel: accepts inputs in any dense layout that all of them share */
	K_ANY_LAYOUT = 2,
	/* a kernel of a GPU backend that runs on the host and needs its inputs in host memory */
	K_HOST = 4,
	/*
	 * run waits for the device or touches host memory, so a CUDA graph cannot hold the kernel
	 */
	K_NO_CAPTURE = 8,
};

enum { MAX_INPLACE = 4, MAX_GROW = 2 };

/*
 * One launch of a kernel in a plan. The kernel's reshape fills the members marked with <, and the
 * planner (src/plan) fills the others. Operands are the node's inputs (formal inputs, then values
 * captured from outer graphs) and outputs.
 */
struct step {
	const struct kernel *kernel;
	const struct node *node;
	const void *params;
	void *node_state; /* state that create made */
	void *state;	  /* < private data of the kernel, in plan_arena or released by drop */
	size_t workspace; /* < bytes of scratch memory that the kernel's run needs */
	bool keep_workspace; /* < which holds something for those who read output 0, as long as they do */
	/*
	 * < for each input, the layout that run needs; NULL if all are LAYOUT_ROW (or the kernel
	 * has K_ANY_LAYOUT)
	 */
	const enum layout *want;
	/* < for each output, the layout that run writes; NULL if all are LAYOUT_ROW */
	const enum layout *give;
	struct {
		uint8_t out, in;
	} inplace[MAX_INPLACE]; /* < `out` may use the memory of `in` if nothing reads `in` later and the sizes agree */
	uint8_t ninplace; /* < */
	/*
	 * < `out` is `in`, copied, with positions added along the last axis but one. run takes either with spare capacity
	 * (tensor.capacity), and copies nothing if both have the same address and capacity
	 */
	struct {
		uint8_t out, in;
	} grow[MAX_GROW];
	uint8_t ngrow; /* < */
	/* < of such a step: number + 1 of the input that says where positions are added; 0 if it is behind those that there are */
	uint8_t grow_at;
	bool nop; /* < there is nothing to run, because every output is a view of input 0 */
	/*
	 * < bit i (i < 64) is set if run does not read input i, since its data are packed or part
	 * of state
	 */
	uint64_t unread;
	/*
	 * the shape of some output is known only when the kernel runs, which then allocates it with
	 * call_alloc
	 */
	bool dynamic;
	bool no_capture; /* < has the meaning of K_NO_CAPTURE, for this step alone */
	/* run must not compute anything in a way for which it has returned RUN_AGAIN */
	bool careful;
	uint32_t nin, nout;
	/*
	 * its place in the plan, and that of the last step that reads output 0 itself; UINT32_MAX if more than steps of this plan may
	 * read it, or where its bytes are is not planned
	 */
	uint32_t number, last_reader;
	uint64_t outside; /* bit i (i < 64) is set if input i was there before the plan's first step, and none of them writes it */
	int threads; /* how many threads the work is worth; 0: all. It holds for reshape and run, see pool_limit() */
	struct body **body; /* bodies of a control-flow node, indexed like the node's subgraphs */
	const struct origin *from;
};

/*
 * What run may return beside 0 and -code: the values that it met need another way of computing, and it has already
 * overwritten an input. The segment is then run once more from its start, with `careful` set in all its steps.
 */
enum { RUN_AGAIN = 1 };

/* The arguments of run. in[i] and out[i] are NULL for operands that the node leaves out. */
struct call {
	const struct step *step;
	const struct tensor *const *in;
	struct tensor *const *out;
	void *workspace; /* scratch memory of step->workspace bytes, 64-byte aligned */
	struct stream *stream;
	struct diag *diag;
	void *owner;	   /* the executor's */
	size_t host_limit; /* bytes of host memory that an output may take, 0 for any number */
	/* see call_alloc */
	int (*alloc)(const struct call *, uint32_t out, enum dtype t, const struct shape *s);
	struct arena *(*values)(const struct call *, uint32_t out);
};
static inline const void *call_params(const struct call *c)
{
	return c->step->params;
}
/*
 * Sets shape and dtype of output i in a dynamic step, and allocates its memory. Afterwards
 * out[i]->data is valid. String outputs use call_strings instead.
 */
int call_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s);
/*
 * Returns the arena for the contents of output i (a string tensor or host value). The arena is
 * emptied before the step runs again.
 */
struct arena *call_values(const struct call *c, uint32_t i);
/*
 * Makes output i a string tensor of shape s with copies of the texts. In a step that is not dynamic
 * the shape must be the planned one.
 */
int call_strings(const struct call *c, uint32_t i, const struct shape *s, const char *const *text,
		 const size_t *length);
/* Makes output i a deep copy of any value (tensor, sequence, ...). */
int call_copy(const struct call *c, uint32_t i, const struct tensor *t);
/* Fails with a finding that names the step's node. Returns -code. */
int call_fail(const struct call *c, enum code code, const char *expected, const char *actual);

struct kernel {
	const char *op; /* "Softmax", "com.microsoft::Gelu", "infer::Conv" */
	/*
	 * bits T_* of the types that the kernel accepts for input 0 (for output 0 if there is no
	 * input); 0 if any
	 */
	uint64_t types;
	unsigned flags;					    /* K_* */
	bool (*accepts)(const struct site *, struct why *); /* NULL: always */
	/* makes site->state; NULL if the kernel needs no state */
	int (*create)(struct site *, struct diag *);
	int (*reshape)(struct site *, struct step *, struct diag *); /* NULL: none */
	int (*run)(const struct call *);
	void (*drop)(struct step *); /* releases step->state; NULL if there is nothing to release */
	/* releases the state that create made; NULL if there is nothing to release */
	void (*drop_node)(void *state);
};

struct device_info {
	char name[128];
	int ordinal;
	uint64_t memory; /* bytes */
	/* The following members are shown by infer doctor; on the CPU they are NULL or 0. */
	/* says whether this build has kernels for the device: "kernels" or "no kernels" */
	const char *kernels;
	int compute_major, compute_minor;
	int multiprocessors;
};

/*
 * Parts of a device's software that a model will need soon, so that they can be started in the
 * background.
 */
enum warm_part { WARM_DRIVER = 1, WARM_PRODUCTS = 2, WARM_CONVOLUTIONS = 4 };

/* Tables of backend/observe.h. */
struct activity_ops;
struct hold_ops;
struct choose_ops;
struct clock_ops;
struct process_ops;
struct device_contexts;
struct device_description;
struct library_info;

struct buffer {
	void *ptr;
	size_t bytes;
	enum mem_purpose purpose; /* purpose as passed to alloc; for the backend's own use */
};

#ifdef FAULTS
/*
 * A fault of this backend only that the fault-injection build can inject into a run; see
 * plan/fault.h.
 */
struct fault_kind {
	const char *name;
	double def; /* value where none is given */
	int (*run)(const struct call *, int (*kernel)(const struct call *), double value);
	/* the fault consists only of launches on the stream, so that a CUDA graph may hold it */
	bool launches;
};
#endif

struct backend {
	const char *name; /* "cpu", "cuda" */
#ifdef FAULTS
	/* table that ends with a row without name, or NULL if there are none */
	const struct fault_kind *faults;
#endif
	/*
	 * Fills in the devices that can be used and returns their number, at most max. If there is
	 * no device, which is no error, *why gets the reason.
	 */
	int (*probe)(struct device_info *, int max, struct diag *why);
	struct device *(*open)(int ordinal, const struct run_config *, struct diag *);
	void (*close)(struct device *);
	int (*alloc)(struct device *, size_t bytes, enum mem_purpose, struct buffer *, struct diag *);
	void (*free)(struct device *, struct buffer *);
	/*
	 * Copies between host and device memory: dst_device and src_device are nonzero for pointers
	 * to device memory. When the function returns, the host may change src and read dst.
	 */
	int (*copy)(struct stream *, void *dst, int dst_device, const void *src, int src_device,
		    size_t bytes, struct diag *);
	/* Kernels take operands in the device's memory at multiples of this many bytes. 0: anywhere. */
	size_t alignment;
	/* one table for each family of operators, in the order of families.def */
	const struct kernel *const *families;
	/*
	 * The kernel that plans use to change layouts (Reorder steps): converts input 0 to the
	 * layout of output 0.
	 */
	const struct kernel *reorder;
	int (*wait)(struct stream *, struct diag *);
	/*
	 * Describes the device and its libraries for records of measurements. Strings live in the
	 * arena.
	 */
	void (*describe)(const struct device *, struct device_description *out, struct arena *);
	/*
	 * Makes the calling thread do multiply-adds of fp32 between registers, and returns how many floating-point operations
	 * they were: what the machine can do, whatever the kernels do. NULL if the backend has no such loop.
	 */
	double (*multiply_add)(int64_t rounds);

	/* The rest may be NULL. */

	/*
	 * Returns the stream in which a session queues its work. NULL if the backend has no
	 * streams.
	 */
	struct stream *(*stream)(struct device *);
	/* The driver's own handle of a stream (CUstream), for operators of the user's libraries. */
	void *(*stream_handle)(const struct stream *);
	/*
	 * Queues work on the caller's stream from now on. The stream must belong to the device's
	 * context (E-CTX-STREAM).
	 */
	int (*use_stream)(struct device *, void *handle, struct diag *);

	/* Applies environment variables of the device's driver (CUDA_LAUNCH_BLOCKING) to the configuration. */
	void (*configure)(struct run_config *);
	/*
	 * Starts the driver and opens libraries (WARM_*), each once per process and on a thread of
	 * its own, without taking device memory. warm_end waits for these threads.
	 */
	void (*warm_begin)(unsigned parts);
	void (*warm_end)(void);
	/*
	 * Whether the process may end with _exit(): the device's libraries are open, whose exit handlers take long and only
	 * give back what the system takes back anyway.
	 */
	bool (*may_exit_quickly)(void);

	/*
	 * choices describes how the kernels of the device were chosen, with `each` also in one line
	 * for every choice; it returns NULL if nothing was chosen. fallback describes the i-th node
	 * that runs by a slower kernel than the one meant for its operator, with the reason; it
	 * returns NULL after the last such node. Both texts are in the arena.
	 */
	const char *(*choices)(struct device *, bool each, struct arena *);
	const char *(*fallback)(const struct device *, size_t i, struct arena *);
	/*
	 * Returns the name of the device's folder in the tuning cache (backend/tuning_cache.h),
	 * made of the properties on which the results depend, or NULL if there is no such device.
	 * Opens no device.
	 */
	const char *(*cache_folder)(int ordinal, struct arena *);
	/*
	 * Writes the versions of the driver and of the libraries opened so far as one text, for
	 * keys of the tuning cache.
	 */
	void (*versions)(char *out, size_t bytes);
	/*
	 * Opens every library that the backend may use, and describes each in out. Returns their
	 * number, at most MAX_LIBRARIES. Strings live in d's arena.
	 */
	int (*libraries)(struct library_info *out, struct diag *d);

	const struct activity_ops *activities;
	const struct hold_ops *hold;
	const struct choose_ops *choose; /* backend/choose_ids.h */
	const struct clock_ops *clocks;
	const struct process_ops *processes;
	/* Describes the contexts that exist on the device. Strings live in d's arena. */
	int (*contexts)(struct device *, struct device_contexts *out, struct diag *d);

	/*
	 * Called at the begin and end of each public session function: enter makes the device's
	 * context current on the calling thread, leave restores the context that was current
	 * before. Both report errors of the caller, such as a destroyed context.
	 */
	int (*enter)(struct device *, struct diag *);
	int (*leave)(struct device *, struct diag *);

	/*
	 * Allocates pinned host memory, which the device can read and write without the host's
	 * help.
	 */
	int (*alloc_host)(struct device *, size_t bytes, enum mem_purpose, struct buffer *,
			  struct diag *);
	void (*free_host)(struct device *, struct buffer *);
	/*
	 * Queues a copy and returns at once. Host memory must come from alloc_host. Source and
	 * destination must stay unchanged until the next wait.
	 */
	int (*queue_copy)(struct stream *, void *dst, int dst_device, const void *src,
			  int src_device, size_t bytes, struct diag *);

	/*
	 * Events mark points in a stream's time. elapsed waits for the second event and gives the
	 * nanoseconds between the two. event_clock names this clock in records of measurements:
	 * "CUDA events".
	 */
	const char *event_clock;
	struct event *(*event_new)(struct device *, struct diag *);
	void (*event_free)(struct event *);
	int (*mark)(struct stream *, struct event *, struct diag *);
	int (*elapsed)(struct event *from, struct event *to, uint64_t *ns, struct diag *);

	/*
	 * Gives the free and total bytes of the device's memory as the driver counts them, other
	 * processes included.
	 */
	int (*memory)(struct device *, uint64_t *unused, uint64_t *total, struct diag *);

	/*
	 * Work that is queued on the stream between capture_begin and capture_end is recorded instead of run. Each
	 * call of capture_launch runs all recorded work, with the addresses that were recorded. capture_end finishes
	 * the recording in any case, and leaves *out NULL on failure.
	 */
	int (*capture_begin)(struct stream *, struct diag *);
	int (*capture_end)(struct stream *, struct captured **out, struct diag *);
	int (*capture_launch)(struct captured *, struct stream *, struct diag *);
	void (*capture_drop)(struct captured *);

	/*
	 * The same for work that needs no library, which is written down without asking the driver. What fails between the two
	 * calls, or in list_end, leaves no recording. list_end takes over a recording that list_end has made before, in *out,
	 * which may still be running: to change one whose launches are alike is much quicker than to make a new one. `soon` tells that
	 * the recording is launched at once, so that nothing is won by bringing it to the device before.
	 */
	int (*list_begin)(struct stream *, struct diag *);
	int (*list_end)(struct stream *, struct captured **out, bool soon);

	/* Reports an error of queued work if one has occurred by now. Does not wait. */
	int (*check)(struct stream *, struct diag *);
	/*
	 * Returns true if an earlier error made the device unusable for the rest of this process.
	 */
	bool (*lost)(const struct device *);
};

/*
 * Returns the operator's kernel number k, in the order in which kernels are tried, or NULL after
 * the last one.
 */
const struct kernel *backend_kernel(const struct backend *b, const struct op *op, unsigned k);

/*
 * Returns the first kernel, from number `from` on, that accepts the site's node with its types and
 * shapes. If all kernels refuse, returns NULL and stores the last refusal in *why.
 */
const struct kernel *backend_choose(const struct backend *b, const struct site *s, unsigned from,
				    struct why *why);

/*
 * Adds a kernel of an operator that op_add() has added. The kernel must live as long as the program. Returns false if the
 * backend's kernels have been asked for already.
 */
bool backend_add_kernel(const struct backend *b, const struct kernel *k);

#endif
