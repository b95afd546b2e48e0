/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_UPLOAD_H
#define PLAN_UPLOAD_H
/* Copies of initializers on the device, made once per session, and copies of values back on the host. */
#include "plan/segment.h"

/*
 * Sets *on_device to tensor t with its bytes on the device. The first call for these bytes queues the copy. Returns 0
 * or -code.
 */
int upload(struct runtime *rt, const struct tensor *t, struct tensor *on_device, struct diag *d);
void uploads_free(struct runtime *rt);
size_t uploads_bytes(const struct runtime *rt); /* device memory that initializers take */

/*
 * Returns the value in host memory: t itself if it is there already, otherwise a copy in the arena. Returns NULL with
 * a finding on error.
 */
const struct tensor *on_host(struct runtime *rt, const struct tensor *t, struct arena *a,
			     struct diag *d);

#endif
