/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_SUMMARY_H
#define OUTPUT_SUMMARY_H
/* What a run was: model, device, inputs, outputs, times, memory. As lines for people, and as JSON. */
#include "input/input.h"
#include "output/result.h"
#include "session/session.h"

/* Resident memory of this process, in bytes; 0 where the system does not say. */
struct rss {
	uint64_t now, peak;
};
struct rss rss_now(void);

enum moment { AT_START, AFTER_LOAD, AFTER_INPUTS, AFTER_PREPARE, AFTER_RUN, MOMENTS };

struct summary {
	const struct session *session;
	const struct input_set *inputs;
	const struct output *outputs;
	size_t noutputs;
	const char *path; /* of the model, as given */
	struct rss rss[MOMENTS];
	uint64_t device[MOMENTS]; /* bytes of the device in use, as its driver says; 0: not asked */
	struct session_times times;
	uint64_t first_run; /* nanoseconds: plan left out */
	uint64_t prepare;   /* device, shapes, kernels, packed weights, memory plan */
	uint64_t total;	    /* since exec */
	bool verbose;	    /* every choice of a kernel */
};

/* Nanoseconds since exec, which the system knows to 10 ms only, but no less than since `start` (clock_ns). */
uint64_t summary_total(uint64_t start);
void summary_print(const struct summary *s, FILE *stream);
/* Members model, device, inputs, times, memory of the open object. */
void summary_json(const struct summary *s, struct json *j);
/* Name, type, shape, statistics of one output: members of the open object. */
void summary_json_tensor(struct json *j, const char *name, struct type type, const struct tensor *t);

#endif
