/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/observe.h"

#include "base/str.h"

const char *clock_reasons(uint64_t reasons, struct arena *a)
{
	static const struct {
		uint64_t bit;
		const char *text;
	} all[] = {{CLOCK_POWER_CAP, "power cap"},
		   {CLOCK_HARDWARE, "slowed by the hardware"},
		   {CLOCK_HEAT, "heat"},
		   {CLOCK_HARDWARE_HEAT, "heat (hardware)"},
		   {CLOCK_POWER_BRAKE, "power brake"}};
	struct str b = {.arena = a};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (reasons & all[i].bit)
			str_addf(&b, "%s%s", b.n ? ", " : "", all[i].text);
	return b.n ? str_get(&b) : NULL;
}
