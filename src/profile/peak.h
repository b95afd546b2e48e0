/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PEAK_H
#define PROFILE_PEAK_H
/*
 * The peak rates of the machine: on the CPU by multiply-adds between registers and by reading memory, on a device by the
 * largest matrix product and a copy.
 */
#include "plan/plan.h"

struct peak {
	double flops, bytes; /* peak rates per second; 0 if they could not be measured */
};
/* Measures the peak rates, which takes about a third of a second. rt is the runtime of a session that has run. */
struct peak peak_measure(const struct runtime *rt);

#endif
