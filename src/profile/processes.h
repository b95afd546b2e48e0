/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROCESSES_H
#define PROFILE_PROCESSES_H
/* A measurement in a child process, at one go or in turns with others. Private to src/profile. */
#include "base/child.h"
#include "profile/profile.h"

#include <semaphore.h>
#include <stdatomic.h>

/* Memory that parent and child share while the child measures. */
struct measuring_shared {
	_Atomic bool stop; /* set by the parent: the child shall end its measurement */
	_Atomic bool last; /* set by the parent: there is no further turn */
	_Atomic double done; /* set by the child: the part of the measurement that is done, from 0 to 1 */
	/*
	 * Set by the child: the name of its current step. The text is a constant of the program, whose address is the
	 * same in parent and child.
	 */
	const char *_Atomic step;
	sem_t go;   /* posted by the parent: the next turn begins */
	sem_t over; /* posted by the child: it is ready for its next turn */
};

struct measuring {
	const struct profile_job *job;
	struct measuring_shared *shared;
	struct child child;
	off_t input_at; /* position of standard input before the child read it; negative if it has none */
	bool running;
};

/* Starts to measure a job, in turns if job->turns is set. Fails with E-MEMORY. */
bool measuring_begin(struct measuring *m, const struct profile_job *job, struct diag *d);
/*
 * Waits until the child is ready for its next turn, and reports `base` as progress meanwhile. Returns false if the child ended before,
 * with an error.
 */
bool measuring_wait(struct measuring *m, double base);
/* Lets the child measure for one turn, and waits until that is over. Returns false as measuring_wait() does. */
bool measuring_turn(struct measuring *m, double base);
/* Lets the next child read standard input from where this one did; for a child that is ready. */
void measuring_rewind_input(const struct measuring *m);
/*
 * Has the child finish, waits for it, and returns its record, or NULL with its findings in d. Progress is reported as `base` plus
 * `share` times the part that is done. Returns NULL if the child was not started.
 */
struct record *measuring_end(struct measuring *m, double base, double share, struct diag *d);

/* Joins the measurements of n processes to r[0], which is `to`. */
void records_join(struct record *to, const struct record *const *r, size_t n);

#endif
