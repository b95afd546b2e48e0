/* SPDX-License-Identifier: Apache-2.0 */
/* Divisions of kernels as products: what C's own say, around every multiple and at both ends. */
#include "gpu/kernels/divide.h"

#include "test/unit/unit.h"

static void agrees(uint32_t n, struct gpu_divisor d, int *bad)
{
	*bad += gpu_over(n, d) != n / d.by || gpu_rest(n, d) != n % d.by;
}

static void one_divisor(int64_t by, int *bad)
{
	struct gpu_divisor d = gpu_divisor(by);
	uint32_t last = INT32_MAX, steps[] = {0, 1, 2, 3, 1000, 65535, 65536, last / (uint32_t)by};

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		for (int64_t n = steps[i] * by - 1; n <= steps[i] * by + 1; n++)
			if (n >= 0 && n <= last)
				agrees((uint32_t)n, d, bad);
	agrees(last, d, bad);
}

static void small_and_large(void)
{
	int bad = 0;

	for (int64_t by = 1; by <= 5000; by++)
		one_divisor(by, &bad);
	for (int shift = 2; shift < 31; shift++)
		for (int64_t by = ((int64_t)1 << shift) - 2; by <= ((int64_t)1 << shift) + 2; by++)
			one_divisor(by, &bad);
	one_divisor(INT32_MAX, &bad);
	one_divisor((int64_t)INT32_MAX + 1, &bad);
	CHECK_INT(bad, 0);
}

int main(void)
{
	UNIT(small_and_large);
	return unit_end();
}
