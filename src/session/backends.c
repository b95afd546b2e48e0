/* SPDX-License-Identifier: Apache-2.0 */
#include "session/backends.h"

#include "base/str.h"
#include "cpu/cpu.h"
#include "gpu/backend.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LISTED = 64 };

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
static size_t list_all(const char **device, size_t room, struct arena *a)
{
	struct device_info info[MAX_LISTED];
	size_t n = 0;

	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++) {
		struct diag why = {0};
		int found = backends[i]->probe(info, MAX_LISTED, &why);
		for (int k = 0; k < found && n < room; k++)
			device[n++] =
				arena_printf(a, "%s:%d", backends[i]->name, info[k].ordinal);
		diag_free(&why);
	}
	if (!n)
		device[n++] = host_backend()->name;
	return n;
}

const char *const *device_list(const char *text, size_t *n, struct arena *a, struct diag *d)
{
	const char **device = arena_new_n(a, const char *, MAX_LISTED + 1);
	const struct backend *b = NULL;

	*n = 0;
	if (!text || !strcmp(text, "all")) {
		*n = text ? list_all(device, MAX_LISTED, a) : 1;
		return device;
	}
	for (const char *p = text, *end; *n < MAX_LISTED; p = end + 1) {
		end = p + strcspn(p, ",");
		const char *word = arena_strn(a, p, (size_t)(end - p));
		if (b && *word && strspn(word, "0123456789") == strlen(word))
			word = arena_printf(a, "%s:%s", b->name, word);
		b = backend_named(word, NULL);
		if (!b && strcmp(text, "auto") != 0) {
			FAIL(d, E_DEVICE,
			     .expected = fmt(d, "%s, several of them with commas, or all",
					     backend_words(a)),
			     .actual = fmt(d, "%s", text));
			return NULL;
		}
		device[(*n)++] = word;
		if (!*end)
			return device;
	}
	FAIL(d, E_DEVICE, .message = fmt(d, "more than %d devices", MAX_LISTED));
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
