/* SPDX-License-Identifier: Apache-2.0 */
#include "session/backends.h"

#include "base/str.h"
#include "cpu/cpu.h"
#include "gpu/backend.h"

#include <stdlib.h>
#include <string.h>

const struct backend *const backends[BACKENDS] = {
#define BACKEND(name) &name##_backend,
#include "session/backends.def"
#undef BACKEND
};

const struct backend *backend_named(const char *device, int *ordinal)
{
	enum { MAX_DIGITS = 4 };

	for (int i = 0; i < BACKENDS; i++) {
		size_t n = strlen(backends[i]->name);
		if (strncmp(device, backends[i]->name, n) != 0)
			continue;
		const char *number = device + n + 1;
		bool numbered = i != HOST_BACKEND && device[n] == ':' && *number &&
				strlen(number) <= MAX_DIGITS &&
				strspn(number, "0123456789") == strlen(number);
		if (device[n] && !numbered)
			continue;
		if (ordinal)
			*ordinal = numbered ? (int)strtol(number, NULL, 10) : 0;
		return backends[i];
	}
	return NULL;
}

const char *backend_words(struct arena *a)
{
	struct str s = {.arena = a};

	str_addf(&s, "%s", host_backend()->name);
	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++) {
		bool last = i + 1 == BACKENDS;
		str_addf(&s, ", %s%s%s:N", backends[i]->name, last ? " or " : ", ", backends[i]->name);
	}
	return str_get(&s);
}

bool accelerator_found(struct diag *why)
{
	struct device_info info;

	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++)
		if (backends[i]->probe(&info, 1, why) > 0)
			return true;
	return false;
}

void backends_warm_begin(const char *device, unsigned parts)
{
	const struct backend *named = device ? backend_named(device, NULL) : NULL;

	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++)
		if (backends[i]->warm_begin && (!named || named == backends[i]))
			backends[i]->warm_begin(parts);
}

void backends_warm_end(void)
{
	for (int i = 0; i < BACKENDS; i++)
		if (backends[i]->warm_end)
			backends[i]->warm_end();
}
