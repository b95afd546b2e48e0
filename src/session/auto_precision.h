/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_AUTO_PRECISION_H
#define SESSION_AUTO_PRECISION_H
/*
 * --precision auto: the fastest of fp32, tf32, fp16 and bf16 whose outputs stay near those of strict fp32, found by
 * trying each on the inputs that are given. What was found is kept in the cache of tuning results.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "backend/config.h"
#include "input/input.h"

enum { PRECISIONS = 4 };
extern const char *const precision_names[PRECISIONS + 1]; /* enum precision */

/* Largest error that is taken, of the largest value of the output. */
#define PRECISION_LIMIT 1e-2

struct precision_trial {
	int precision;
	bool fits;
	double seconds;	    /* median of a run; 0: it was not measured */
	double error;	    /* the largest of all outputs */
	const char *output; /* whose it is; NULL: none */
	const char *why;    /* why it does not fit; NULL: it does */
};
struct precision_choice {
	int taken;	 /* enum precision */
	bool known;	 /* found in the cache */
	bool doubtful;	 /* what fp32 gave can judge nothing: fp32 it is, with a warning */
	const char *why; /* why there was nothing to choose, or to compare; NULL: the trials say it */
	const char *label; /* of several: whose; NULL */
	size_t n;
	struct precision_trial trial[PRECISIONS];
};

/*
 * In a process of its own, so that this one begins with nothing afterwards: no device, no memory, no threads may be
 * in use here yet. What cannot be run at all is fp32's business: whoever opens the session then says why.
 * warm: this process begins to open the GPU's libraries meanwhile; not where it will fork.
 */
struct precision_choice precision_auto(const char *path, const struct run_config *config,
				       const struct input_request *request, bool warm,
				       struct arena *a);

/* Which of the trials to take: fills fits, why and taken. zeros: fp32's outputs are all 0 or no numbers. */
void precision_judge(struct precision_choice *c, bool zeros);

/* Members of the open object, and back. */
void precision_write(const struct precision_choice *c, struct json *j);
struct precision_choice precision_read(const struct jvalue *v, struct arena *a);

#endif
