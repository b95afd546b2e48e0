/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
/*
 * What a backend is: a device table, kernels, memory. One const object a backend.
 *
 * A kernel has four moments:
 *   accepts   may it take this node, with these types and shapes (why not: said)
 *   create    once a node and session: choose the algorithm family, pack weights
 *   reshape   once a plan (per shape): sizes, workspace, primitives
 *   run       launch; allocates nothing, parses nothing, chooses nothing
 */
#include "base/mem.h"
#include "backend/config.h"
#include "ir/graph.h"
#include "ops/op.h"

struct device;
struct stream;
struct event;	 /* a point in a stream's time */
struct captured; /* launches recorded, to be run again at once */
struct backend;
struct step;

/* Why a kernel did not take a node; text in the arena of whoever asks. */
struct why {
	struct arena *arena; /* NULL: nobody wants to know */
	const char *text;
};
/* return REFUSE(why, "group %d", g); */
bool refuse(struct why *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct store; /* packed weights of a session: backend/weight_store.h */

/* A body of a control-flow node, ready to run (made by src/plan). */
struct body;
struct body_ops {
	/*
	 * Runs the body: in: formal inputs followed by nothing (captures are bound by the caller of
	 * the step), out: filled with the outputs; they stay valid until the next run of this body
	 * or body_keep. 0 or -code.
	 */
	int (*run)(struct body *b, const struct tensor *const *in, uint32_t nin,
		   const struct tensor **out, uint32_t nout, struct diag *d);
	/*
	 * Output i of the next run shall lie in this memory of the caller's, if it can (its data then say
	 * so): what a loop carries need not be copied.
	 */
	void (*place)(struct body *b, uint32_t i, void *data, size_t bytes);
};
struct body {
	const struct body_ops *ops;
	const struct graph *graph;
};

/* Everything a kernel may ask while it is chosen and prepared; gone while it runs. */
struct site {
	const struct graph *graph;
	const struct node *node;
	const struct vinfo *info; /* by value id: types, concrete shapes, known values, layouts */
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
/* Value of an initializer (or otherwise known input), else NULL. */
const struct tensor *site_known(const struct site *s, uint32_t i);
/* Whether that value is the same for all shapes (an initializer), so that it may be packed in the store. */
bool site_is_weight(const struct site *s, uint32_t i);

enum kernel_flags {
	K_REFERENCE = 1,  /* plain and for every type: what others are compared with */
	K_ANY_LAYOUT = 2, /* elementwise: takes inputs of one common dense layout as they are */
	K_HOST = 4,	  /* on a GPU backend: runs on the host, wants its inputs there */
	K_NO_CAPTURE = 8, /* its run waits, or reads or writes host memory: no CUDA graph can hold it */
};

enum { MAX_INPLACE = 4 };

/*
 * One launch. reshape fills what is marked <; lowering fills the rest.
 * Operands are the node's inputs (formal, then captures) and outputs.
 */
struct step {
	const struct kernel *kernel;
	const struct node *node;
	const void *params;
	void *node_state;	 /* what create left */
	void *state;		 /* < the kernel's own, in plan_arena or released by drop */
	size_t workspace;	 /* < bytes of scratch wanted while it runs */
	const enum layout *want; /* < per input: wanted layout; NULL: all LAYOUT_ROW (or K_ANY_LAYOUT) */
	const enum layout *give; /* < per output; NULL: LAYOUT_ROW */
	struct {
		uint8_t out, in;
	} inplace[MAX_INPLACE]; /* < out may lie on in's memory where in dies here and sizes agree */
	uint8_t ninplace;	/* < */
	bool nop;		/* < nothing to run: every output is a view of input 0 */
	uint64_t unread; /* < inputs (bit i < 64) that run does not read: packed, or folded into state */
	bool dynamic;	 /* some output's shape is known only after it ran: call_alloc */
	bool no_capture; /* < as K_NO_CAPTURE, of this step alone */
	uint32_t nin, nout;
	struct body **body; /* of a control-flow node, by sub index */
	const struct origin *from;
};

/* What run sees. in[i] / out[i] are NULL where left out. */
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
 * Of a dynamic step: give output i its shape (and dtype) and memory; out[i]->data is valid
 * afterwards. For string outputs the blob is made with call_strings.
 */
int call_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s);
/* The arena for the contents of output i (string tensor or host value); emptied before the step runs again. */
struct arena *call_values(const struct call *c, uint32_t i);
/* Make output i this string tensor; text is copied. The shape must be known (dynamic: any). */
int call_strings(const struct call *c, uint32_t i, const struct shape *s, const char *const *text,
		 const size_t *length);
/* Make output i a deep copy of any value (tensor, sequence, ...). */
int call_copy(const struct call *c, uint32_t i, const struct tensor *t);
/* FAIL with the step's node named. */
int call_fail(const struct call *c, enum code code, const char *expected, const char *actual);

struct kernel {
	const char *op; /* "Softmax", "com.microsoft::Gelu", "infer::Conv" */
	uint64_t types; /* of input 0 (of output 0 where there is no input): T_*; 0: any */
	unsigned flags; /* K_* */
	bool (*accepts)(const struct site *, struct why *); /* NULL: always */
	int (*create)(struct site *, struct diag *);	    /* NULL: none; leaves site->state */
	int (*reshape)(struct site *, struct step *, struct diag *); /* NULL: none */
	int (*run)(const struct call *);
	void (*drop)(struct step *);	/* NULL: nothing to release of step->state */
	void (*drop_node)(void *state); /* NULL: nothing to release of create's state */
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
	enum mem_purpose purpose; /* of the backend's: what alloc was told */
};

#ifdef FAULTS
/* A fault of the backend's own that the fault-injection build can plant; see plan/fault.h. */
struct fault_kind {
	const char *name;
	double def; /* value where none is given */
	int (*run)(const struct call *, int (*kernel)(const struct call *), double value);
	bool launches; /* it only launches on the stream, so that a CUDA graph may hold it */
};
#endif

struct backend {
	const char *name; /* "cpu", "cuda" */
#ifdef FAULTS
	const struct fault_kind *faults; /* ends with a row without name; NULL: none */
#endif
	/* Devices that can be used; 0 is normal, *why then says why. */
	int (*probe)(struct device_info *, int max, struct diag *why);
	struct device *(*open)(int ordinal, const struct run_config *, struct diag *);
	void (*close)(struct device *);
	int (*alloc)(struct device *, size_t bytes, enum mem_purpose, struct buffer *, struct diag *);
	void (*free)(struct device *, struct buffer *);
	/* dst and src device memory or host memory as the flags of the two say; NULL: memcpy */
	int (*copy)(struct stream *, void *dst, int dst_device, const void *src, int src_device,
		    size_t bytes, struct diag *);
	/* one table a family, in the order of families.def */
	const struct kernel *const *families;
	/* Convert input 0 to output 0's layout: the kernel of Reorder steps. */
	const struct kernel *reorder;
	int (*wait)(struct stream *, struct diag *);
	/* What a session on the device runs on, for records. Strings live in the arena. */
	void (*describe)(const struct device *, struct device_description *out, struct arena *);

	/* The rest may be NULL. */

	/* The stream in which a session queues its work; without the function it has none. */
	struct stream *(*stream)(struct device *);
	/* Queues on the caller's stream from now on; it must be of the device's context (E-CTX-STREAM). */
	int (*use_stream)(struct device *, void *handle, struct diag *);

	/* Changes the configuration as environment variables of the backend's driver ask. */
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
	 * Around each entry of a session: what the thread must hold to call the device, and after it what it
	 * held before. Errors of the caller's (a context destroyed or left behind) are found here.
	 */
	int (*enter)(struct device *, struct diag *);
	int (*leave)(struct device *, struct diag *);

	/* Host memory that the device copies from and to by itself, while the host goes on. */
	int (*alloc_host)(struct device *, size_t bytes, enum mem_purpose, struct buffer *,
			  struct diag *);
	void (*free_host)(struct device *, struct buffer *);
	/*
	 * A copy that is queued: host memory of alloc_host, or device memory, which must stay as it is until
	 * the next wait.
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

	/* What the driver says of the device's memory, all processes together. */
	int (*memory)(struct device *, uint64_t *unused, uint64_t *total, struct diag *);

	/*
	 * What the stream is given between begin and end is recorded, not run; launch runs all of it again, at
	 * the same addresses. end leaves *out NULL on failure; it ends the recording in any case.
	 */
	int (*capture_begin)(struct stream *, struct diag *);
	int (*capture_end)(struct stream *, struct captured **out, struct diag *);
	int (*capture_launch)(struct captured *, struct stream *, struct diag *);
	void (*capture_drop)(struct captured *);

	/* An error of work queued before that has shown by now; does not wait. */
	int (*check)(struct stream *, struct diag *);
	/* The device is lost: nothing on it works any more in this process. */
	bool (*lost)(const struct device *);
};

/* Kernels for the operator in the order they are tried; NULL ends. */
const struct kernel *backend_kernel(const struct backend *b, const struct op *op, unsigned k);

/*
 * The first kernel, from number `from` on, that takes the site's node with its types and shapes;
 * NULL with the last refusal in *why.
 */
const struct kernel *backend_choose(const struct backend *b, const struct site *s, unsigned from,
				    struct why *why);

#endif
