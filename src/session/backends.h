/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_BACKENDS_H
#define SESSION_BACKENDS_H
/*
 * The backends of this build. backends.def and backends.c alone name them; everything else above src/cpu and gpu/
 * works on this table, by the functions that struct backend has or leaves NULL.
 */
#include "backend/backend.h"

enum { HOST_BACKEND = 0, FIRST_ACCELERATOR = 1 };
enum {
#define BACKEND(name) +1
	BACKENDS = 0
#include "session/backends.def"
#undef BACKEND
};
extern const struct backend *const backends[BACKENDS];

static inline const struct backend *host_backend(void)
{
	return backends[HOST_BACKEND];
}

/*
 * The backend that a device's name asks for, and the number of its device: "cpu", "cuda" (number 0), "cuda:1" (at
 * most four digits). NULL for any other text, `auto` among it. ordinal may be NULL.
 */
const struct backend *backend_named(const char *device, int *ordinal);
/* What a user may write for a device, in the arena: "cpu, cuda or cuda:N". */
const char *backend_words(struct arena *a);

/* Whether some accelerator has a device; opens none. When not, `why` gets the reasons. */
bool accelerator_found(struct diag *why);

/* warm_begin and warm_end of all accelerators that `device` (NULL: auto) may mean. */
void backends_warm_begin(const char *device, unsigned parts);
void backends_warm_end(void);

#endif
