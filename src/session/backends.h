/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_BACKENDS_H
#define SESSION_BACKENDS_H
/*
 * The table of the backends of this build. Only backends.def and backends.c name single backends.
 * All other code outside of src/cpu and gpu/ uses this table and the functions in struct backend,
 * which are NULL if a backend lacks them.
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
 * Returns the backend for a device's name, and stores the number of the device in *ordinal: "cpu",
 * "cuda" (number 0), "cuda:1" (at most four digits). Returns NULL for any other text, including
 * `auto`. ordinal may be NULL.
 */
const struct backend *backend_named(const char *device, int *ordinal);
/*
 * Splits the text of --device at commas: "cuda:0,1" names two devices, "all" all accelerators, or the host if there is
 * none. A number alone is of the backend before it. The words are not checked.
 */
const char *const *device_list(const char *text, size_t *n, struct arena *a);
/* Returns the device names that a user may write, in the arena: "cpu, cuda or cuda:N". */
const char *backend_words(struct arena *a);

/*
 * Returns true if any accelerator has a device. Opens no device. If there is none, `why` gets the
 * reasons.
 */
bool accelerator_found(struct diag *why);

/*
 * Call warm_begin() and warm_end() of all accelerators that `device` may mean. NULL stands for
 * auto.
 */
void backends_warm_begin(const char *device, unsigned parts);
void backends_warm_end(void);
/* Whether any accelerator's exit handlers are better left out (may_exit_quickly). */
bool backends_may_exit_quickly(void);

#endif
