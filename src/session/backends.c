/* SPDX-License-Identifier: Apache-2.0 */
#include "session/backends.h"

#include "base/str.h"
#include "cpu/cpu.h"
#include "gpu/backend.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROBED = 64 };

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

/* Adds the devices of all accelerators. */
static size_t list_all(const char **device, struct arena *a)
{
	struct device_info info[MAX_PROBED];
	size_t n = 0;

	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++) {
		struct diag why = {0};
		int found = backends[i]->probe(info, MAX_PROBED, &why);
		for (int k = 0; k < found && n < MAX_PROBED; k++)
			device[n++] = arena_printf(a, "%s:%d", backends[i]->name, info[k].ordinal);
		diag_free(&why);
	}
	if (!n)
		device[n++] = host_backend()->name;
	return n;
}

const char *const *device_list(const char *text, size_t *n, struct arena *a)
{
	size_t room = strlen(text) / 2 + 1;
	const char **device = arena_new_n(a, const char *, (room > MAX_PROBED ? room : MAX_PROBED));
	const struct backend *b = NULL;

	*n = 0;
	if (!strcmp(text, "all")) {
		*n = list_all(device, a);
		return device;
	}
	for (const char *p = text, *end = p; *n < room; p = end + 1) {
		end = p + strcspn(p, ",");
		const char *word = arena_strn(a, p, (size_t)(end - p));
		if (b && b != host_backend() && *word && strspn(word, "0123456789") == strlen(word))
			word = arena_printf(a, "%s:%s", b->name, word);
		b = backend_named(word, NULL);
		device[(*n)++] = word;
		if (!*end)
			break;
	}
	return device;
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

bool backends_may_exit_quickly(void)
{
	for (int i = 0; i < BACKENDS; i++)
		if (backends[i]->may_exit_quickly && backends[i]->may_exit_quickly())
			return true;
	return false;
}
