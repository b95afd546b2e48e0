/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_WEIGHT_STORE_H
#define BACKEND_WEIGHT_STORE_H
/* Packed weights of a session, shared by its plans. The key of one is its initializer and a text for the layout. */
#include "ir/tensor.h"

struct store;

/* `packed` (may be NULL) is called for each initializer once it is packed: its own bytes are seldom read again. */
struct store *store_new(void (*packed)(void *arg, const struct tensor *t), void *arg);
void store_free(struct store *s);

/*
 * The packed form of `t` under `key`, any text that describes layout and use. The first call for a key calls make()
 * to fill `bytes` bytes at dst (64-byte aligned, counted as weights); make returns 0 or -code. The store owns the
 * result. NULL with a finding on failure. Any thread may call.
 */
const void *store_get(struct store *s, const struct tensor *t, const char *key, size_t bytes,
		      int (*make)(void *dst, const struct tensor *t, void *arg), void *arg,
		      struct diag *d);

#endif
