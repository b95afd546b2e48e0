/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PEAK_H
#define PROFILE_PEAK_H
/* What a device can do, measured: a large matrix product and a large copy; and work of known size as a yardstick. */
#include "plan/plan.h"

struct peak {
	double flops, bytes; /* a second; 0: could not be measured */
};
/* About a third of a second. rt: of a session that has run. */
struct peak peak_measure(const struct runtime *rt);

/*
 * Work that is always the same, on all threads of the pool, some hundred microseconds each: when it takes longer,
 * the machine is slower, not the model.
 */
struct yard;
enum yard_kind { YARD_ARITHMETIC, YARD_MEMORY, YARD_EXCHANGE, YARDS };
struct yard *yard_new(void); /* NULL where the system refuses memory */
void yard_free(struct yard *y);
/* Seconds that it takes now. */
double yard_measure(struct yard *y, enum yard_kind kind);

#endif
