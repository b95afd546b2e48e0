/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_RNG_H
#define CPU_MATH_RNG_H
/*
 * Counter-based random numbers: number i is a hash (splitmix64) of the seed and i, so that the values
 * do not depend on how the work is divided among threads.
 */
#include "base/field.h"
#include "base/seed.h"

#include <math.h>
#include <string.h>

static inline uint64_t rng_bits(uint64_t seed, uint64_t i)
{
	uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}
/* uniform in [0, 1) */
static inline double rng_unit(uint64_t seed, uint64_t i)
{
	return (double)(rng_bits(seed, i) >> 11) * 0x1p-53;
}
/* Returns number i of a normal distribution with mean 0 and standard deviation 1 (Box-Muller). */
static inline double rng_normal(uint64_t seed, uint64_t i)
{
	double u = rng_unit(seed, 2 * i), v = rng_unit(seed, 2 * i + 1);

	return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}
/*
 * Returns the seed for the float attribute `seed`: the bits of the float, or a new seed at each call if the attribute
 * is absent (NaN).
 */
static inline uint64_t rng_seed_float(float seed)
{
	uint32_t bits;

	if (isnan(seed))
		return seed_new();
	memcpy(&bits, &seed, sizeof(bits));
	return bits;
}
static inline uint64_t rng_seed_int(int64_t seed)
{
	return seed == INT_ABSENT ? seed_new() : (uint64_t)seed;
}

#endif
