/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H
/*
 * A model on a device, ready to run. cmd/ and the benchmarks run models only by these functions; src/check and
 * src/profile observe the steps by session_runtime() as well.
 *
 *   session_open -> session_model (names, types, shapes of inputs) -> session_run ... -> session_close
 */
#include "backend/config.h"
#include "ir/graph.h"
#include "plan/plan.h"

struct session;

struct session_times {	   /* nanoseconds */
	uint64_t load;	   /* file to graph */
	uint64_t optimize; /* generic passes */
	uint64_t open;	   /* time to open the device, at the first prepare or run */
	uint64_t plan; /* time to make the newest plan: shapes, kernels, packed weights, memory */
	uint64_t run;  /* time of the newest run, with the plans that it had to make */
	uint64_t planned; /* time of all plans so far */
};

/*
 * Loads and optimizes the model. No device is opened and no memory for tensors is taken before the
 * first prepare or run, so that the caller can check inputs in between. On failure, returns NULL
 * and adds findings to d.
 */
struct session *session_open(const char *path, const struct run_config *config, struct diag *d);
void session_close(struct session *s);

/*
 * Returns the model after the optimizations that do not depend on the device. The inputs and
 * outputs of session_run() have the order of its graph's `in` and `out`.
 */
const struct model *session_model(const struct session *s);
const struct run_config *session_config(const struct session *s);
/* The device and why it is that one. Both texts live as long as the session and are never NULL. */
const char *session_device(const struct session *s);	 /* "cpu"; "none" before session_start() */
bool session_has_device(const struct session *s);	 /* false: it runs on the host alone */
const char *session_device_why(const struct session *s); /* "no CUDA driver: ..." */
/*
 * Returns the device for people, such as "cuda (auto found it)". A machine without a GPU is not worth a word at every start,
 * so that the reason is left out unless the user named a device or the machine has a GPU.
 */
const char *session_device_text(const struct session *s, struct arena *a);

/* Opens the device, if it is not open yet. Without this call the first prepare or run does so. */
int session_start(struct session *s, struct diag *d);
/*
 * Makes the plan for inputs of these types and shapes. The inputs' contents matter only if a shape
 * depends on them. *report is filled in unless it is NULL; its steps belong to the plan, and so live until the
 * session makes another plan or is closed.
 */
int session_prepare(struct session *s, const struct tensor *const *in,
		    struct segment_report *report, struct diag *d);
/*
 * Runs the model once. in: one tensor for each of the graph's inputs, in order. The caller owns
 * these tensors, which are in host memory or come from session_upload(). out: receives pointers to
 * the outputs, which are valid until the next run or close. Every tensor is checked against the
 * model's declared types and shapes first (E-INPUT-*).
 */
int session_run(struct session *s, const struct tensor *const *in, const struct tensor **out,
		struct diag *d);
void session_observe(struct session *s, struct observer *o); /* NULL ends it */
/*
 * Has `inputs(arg)` called in each run whose outputs stay on the device, between the launches and the wait for them: *out of
 * session_run is filled in, but its contents are not there yet. It returns what the next run will probably be given, whose plan
 * is then made while the device works, or NULL. Of tensors on the device only types, sizes and addresses count. It may call
 * session_place() for that run. With parity 1 the next run is one of session_launch(), for which only a plan is made.
 */
typedef const struct tensor *const *session_foresee(void *arg);
void session_plan_ahead(struct session *s, session_foresee *inputs, void *arg, unsigned parity);

/*
 * Runs that are queued while the one before is still under way alternate between parity 0 and 1: the host must be done with the data of the
 * run before the last when it queues another one. session_foresees() plans one, sets bytes[] to the sizes of its outputs, and returns whether
 * it can be launched so. session_launch() does, and leaves the outputs on the device; their contents are there when the device has worked off
 * its queue.
 */
bool session_foresees(struct session *s, const struct tensor *const *in, unsigned parity,
		      size_t *bytes);
/* Whether the run that has just been foreseen can append to the state in place: instance_grows(). */
bool session_grows(const struct session *s, uint32_t in, uint32_t out, instance_fed *fed,
		   const void *arg, uint32_t *at);
int session_launch(struct session *s, const struct tensor *const *in, unsigned parity,
		   const struct tensor **out, struct diag *d);

/* Call after memory has been freed that recorded launches of the session may name. The device must have nothing to do. */
void session_forget_recordings(struct session *s);

/*
 * Functions for tensors in the memory of the session's device, which is host memory on the CPU.
 * session_upload copies a tensor to the device for use as an input. The copy lives as long as the
 * session; on failure the function returns NULL and adds a finding. After
 * session_outputs_stay(true), outputs stay in device memory, as their `device` member shows. The
 * host can read tensors in device memory only by session_fetch. An input may begin at any address
 * of the device; where kernels need it aligned (backend.alignment), a copy of it is used.
 */
const struct tensor *session_upload(struct session *s, const struct tensor *t, struct diag *d);
int session_outputs_stay(struct session *s, bool stay, struct diag *d);
/* Copies a tensor to host memory of as many bytes as it has without spare capacity, and waits for the copy. */
int session_fetch(struct session *s, void *to, const struct tensor *t, struct diag *d);
/* Makes a dense copy of a tensor, which may have spare capacity, in memory of the host (0) or of the device (1). */
int session_copy(struct session *s, void *to, int device, const struct tensor *t, struct diag *d);

/*
 * Asks the session to write output k of its next run to this memory, which is on the session's device. The output's data pointer tells whether
 * it did so: an output that is a view of an input or whose size depends on data stays where it is, and so does one that needs more bytes, or
 * an aligned address, or cannot be written with spare capacity. The first call, perhaps without memory, must come before the plan is made.
 */
int session_place(struct session *s, uint32_t k, struct placed to, struct diag *d);

/*
 * Returns the bytes of device memory that all processes together use, as the driver counts them.
 * Returns 0 before a device is open, and on the CPU.
 */
uint64_t session_device_used(struct session *s);
/*
 * Uses the caller's stream (a CUstream) on a GPU instead of the session's own stream. It must
 * belong to the session's context (E-CTX-STREAM) and exist until the session is closed or another
 * stream replaces it. Opens the device, and waits for work that is already queued.
 */
int session_use_stream(struct session *s, void *stream, struct diag *d);
struct session_times session_times(const struct session *s);
/*
 * Describes how the device's kernels were chosen: "41 choices known, 12 tried in 0.42 s"; with
 * `each`, also in one line for every choice. Returns NULL if nothing was chosen.
 */
const char *session_choices(const struct session *s, bool each, struct arena *a);
/*
 * Describes the i-th node that runs by a slower kernel than the one meant for its operator, with
 * the reason. Returns NULL after the last such node.
 */
const char *session_fallback(const struct session *s, size_t i, struct arena *a);
/*
 * Returns the session's backend, device and stream, for observers that read the device's clock and
 * memory.
 */
struct runtime *session_runtime(struct session *s);

#endif
