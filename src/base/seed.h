/* SPDX-License-Identifier: Apache-2.0 */
/* A seed for random operators whose model gives none (ONNX: "if not specified, a random seed is generated"). */
#ifndef INFER_BASE_SEED_H
#define INFER_BASE_SEED_H

#include "base/clock.h"

#include <sys/random.h>

/*
 * Returns a new seed at each call, from the system's random numbers. The clock is only the
 * fallback, because a clock with coarse steps could return the same value twice.
 */
static inline uint64_t seed_new(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : clock_ns();
}

#endif
