/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_WEIGHT_STORE_H
#define BACKEND_WEIGHT_STORE_H
/*
 * Packed weights of a session, shared by its plans. The key of a packed weight is its initializer
 * and a text that describes the layout.
 */
#include "ir/tensor.h"

struct store;

/*
 * Creates a store. `packed` (may be NULL) is called for each initializer after it has been packed,
 * because the original bytes are then seldom read again and the system can drop them from memory.
 */
struct store *store_new(void (*packed)(void *arg, const struct tensor *t), void *arg);
void store_free(struct store *s);

/*
 * Returns the packed form of `t` under `key`, a text that describes layout and use. The first call
 * for a key calls make() to fill `bytes` bytes at dst (64-byte aligned, counted as weights); make()
 * returns 0 or -code. The store owns the result. On failure returns NULL and adds a finding. Any
 * thread may call this function.
 */
const void *store_get(struct store *s, const struct tensor *t, const char *key, size_t bytes,
		      int (*make)(void *dst, const struct tensor *t, void *arg), void *arg,
		      struct diag *d);

#endif
