/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_AUTO_PRECISION_H
#define SESSION_AUTO_PRECISION_H
/*
 * --precision auto: finds the fastest of fp32, tf32, fp16 and bf16 whose outputs stay close to those of strict
 * fp32, by running each on the given inputs. The result is kept in the tuning cache.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "backend/config.h"
#include "input/steps.h"

/* How many precisions are tried: the first of enum precision, without fp8, whose outputs are hardly ever close enough. */
enum { PRECISIONS = PRECISION_FP8 };

/*
 * A precision fits if no output differs from fp32's by more than this share of the output's largest magnitude.
 */
#define PRECISION_LIMIT 1e-2

struct precision_trial {
	int precision;
	bool fits;
	double seconds;	    /* median time of a run; 0 if not measured */
	double error;	    /* largest error of all outputs */
	const char *output; /* name of the output with the largest error; NULL if there is none */
	const char *why;    /* reason why the precision does not fit; NULL if it fits */
};
struct precision_choice {
	int taken;  /* enum precision */
	bool known; /* found in the cache */
	/* fp32's outputs are useless for comparison, so fp32 is taken with a warning */
	bool doubtful;
	/* reason why nothing was chosen or compared; NULL if the trials contain the reasons */
	const char *why;
	const char *label; /* name of the job if a command runs several jobs; else NULL */
	size_t n;
	struct precision_trial trial[PRECISIONS];
};

/*
 * Makes the choice by runs of the model, the first of its steps if it has any, in a child process, so that the trials leave nothing behind in this one. This
 * process must not use a device or threads yet. If the model cannot run at all, fp32 is returned,
 * and the session that is opened next reports the error. If `warm` is set, this process begins to
 * open the GPU's libraries meanwhile; it must be false if the caller will fork again.
 */
struct precision_choice precision_auto(const char *path, const struct run_config *config,
				       const struct input_request *request,
				       const struct steps_request *steps, bool warm, struct arena *a);

/*
 * Decides which trial to take, and fills `fits`, `why` and `taken`. `zeros` is true if all outputs
 * of fp32 are 0 or not finite.
 */
void precision_judge(struct precision_choice *c, bool zeros);

/*
 * Write the choice as members of the JSON object that is open, and read it back from such an
 * object.
 */
void precision_write(const struct precision_choice *c, struct json *j);
struct precision_choice precision_read(const struct jvalue *v, struct arena *a);

#endif
