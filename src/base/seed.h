/* SPDX-License-Identifier: Apache-2.0 */
/* A seed where a model gives none (ONNX: "if not specified, a random seed is generated"). */
#ifndef INFER_BASE_SEED_H
#define INFER_BASE_SEED_H

#include "base/clock.h"

#include <sys/random.h>

/* New each time; the clock alone is not, where it goes in steps. */
static inline uint64_t seed_new(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : clock_ns();
}

#endif
