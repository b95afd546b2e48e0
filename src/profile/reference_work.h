/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_REFERENCE_WORK_H
#define PROFILE_REFERENCE_WORK_H
/*
 * Reference workloads of the performance gate (docs/gate.md): work of fixed size, on all threads of the pool, some
 * hundred microseconds each. If a workload takes longer than it took for the baseline, the machine is slower, not the
 * model.
 */

struct reference_work;
enum reference_kind {
	REFERENCE_ARITHMETIC, /* multiply and add, data in the core's own cache */
	REFERENCE_MEMORY,     /* sum of data that does not fit into that cache */
	REFERENCE_EXCHANGE,   /* each thread reads data that another thread wrote */
	REFERENCE_KINDS
};
struct reference_work *reference_work_new(void); /* NULL if the system refuses memory */
void reference_work_free(struct reference_work *w);
/* Runs a workload; returns the seconds that it took. */
double reference_work_time(struct reference_work *w, enum reference_kind kind);

#endif
