/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H
/*
 * A model on a device, ready to run: the only API that cmd/ and the benchmarks use.
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
	uint64_t open;	   /* device, at the first prepare or run */
	uint64_t plan;	   /* the newest plan: shapes, kernels, packed weights, memory */
	uint64_t run;	   /* the newest run, plan left out */
};

/*
 * Loads and optimizes; no device is touched and no tensor memory taken before the first prepare or run,
 * so that inputs can be checked in between. NULL with findings in d on failure.
 */
struct session *session_open(const char *path, const struct run_config *config, struct diag *d);
void session_close(struct session *s);

/* The model after the generic passes; its graph's in/out are the inputs and outputs by position. */
const struct model *session_model(const struct session *s);
const char *session_device(const struct session *s);	 /* "cpu" */
const char *session_device_why(const struct session *s); /* "no CUDA driver: ..." */

/* Makes the plan for these inputs (types and shapes count; contents only where a shape depends on them). */
int session_prepare(struct session *s, const struct tensor *const *in,
		    struct segment_report *report, struct diag *d);
/*
 * One inference. in: a tensor for each of the graph's inputs by position, borrowed: in host memory, or of
 * session_upload. out: pointers to the outputs, valid until the next run or close. Every tensor is checked against
 * the model's declared types and shapes first (E-INPUT-*).
 */
int session_run(struct session *s, const struct tensor *const *in, const struct tensor **out,
		struct diag *d);
void session_observe(struct session *s, struct observer *o); /* NULL ends it */

/*
 * Tensors on the session's device (on the CPU: in host memory). upload makes one of a tensor in host memory, for
 * use as an input as long as the session lives; NULL with a finding. Outputs stay on the device where that
 * was asked for; their `device` says so. The host reads either by session_fetch alone.
 */
const struct tensor *session_upload(struct session *s, const struct tensor *t, struct diag *d);
int session_outputs_stay(struct session *s, bool stay, struct diag *d);
int session_fetch(struct session *s, void *to, const struct tensor *t, struct diag *d); /* t->bytes */

/* Bytes of the device in use by all who use it, as its driver says; 0 before a device is open, and on the CPU. */
uint64_t session_device_used(struct session *s);
/*
 * On a GPU: the caller's stream (CUstream) in place of the session's own. It must be of the session's context
 * (E-CTX-STREAM), and stay until another takes its place or the session is closed. Opens the device; waits for
 * what is queued.
 */
int session_use_stream(struct session *s, void *stream, struct diag *d);
struct session_times session_times(const struct session *s);
/*
 * How the device's kernels were chosen: "41 choices known, 12 tried in 0.42 s", with `each` a line for every choice,
 * too. NULL where nothing was chosen.
 */
const char *session_choices(const struct session *s, bool each, struct arena *a);
/* The i-th node that a plainer kernel runs than the one meant for it, with the reason; NULL behind the last. */
const char *session_fallback(const struct session *s, size_t i, struct arena *a);
/* What it runs on, for observers that read a device's clock and memory. */
struct runtime *session_runtime(struct session *s);

#endif
