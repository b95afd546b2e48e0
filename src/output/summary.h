/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_SUMMARY_H
#define OUTPUT_SUMMARY_H
/* The summary of a run: model, device, inputs, outputs, times and memory, as lines for people and as JSON. */
#include "input/input.h"
#include "output/result.h"
#include "session/session.h"

/* Resident memory of this process in bytes; 0 if the system does not tell. */
struct rss {
	uint64_t now, peak;
};

enum moment { AT_START, AFTER_LOAD, AFTER_INPUTS, AFTER_PREPARE, AFTER_RUN, MOMENTS };

struct summary {
	const struct session *session;
	const struct input_set *inputs;
	const struct output *outputs;
	size_t noutputs;
	const char *path; /* of the model, as given */
	struct rss rss[MOMENTS];
	/* at the last moment so far: what is done with the results, as a look at the model for a warning, does not count */
	struct mem_count counted[MEM_KINDS][MEM_PURPOSES];
	/* bytes of the device's memory in use according to its driver, 0 if the driver was not asked */
	uint64_t device[MOMENTS];
	struct session_times times;
	uint64_t first_run; /* nanoseconds, without planning */
	/* nanoseconds to open the device, infer shapes, choose kernels, pack weights and plan memory */
	uint64_t prepare;
	uint64_t total; /* nanoseconds since exec */
	bool verbose;	/* also list every choice of a kernel */
};

/*
 * Returns the nanoseconds since exec started this program. The system knows the time of exec to 10 ms only, so the
 * result is at least the time since `start`, a value of clock_ns.
 */
uint64_t summary_total(uint64_t start);
/* Records the host's resident memory and the program's own counts at this moment. */
void summary_mark(struct summary *s, enum moment m);
void summary_print(const struct summary *s, FILE *stream);
/* Adds the members model, device, inputs, times and memory to the open object. */
void summary_json(const struct summary *s, struct json *j);
/* Adds the name, type, shape and statistics of one output to the open object. */
void summary_json_tensor(struct json *j, const char *name, struct type type, const struct tensor *t);

#endif
