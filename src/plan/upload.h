/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_UPLOAD_H
#define PLAN_UPLOAD_H
/* Copies of initializers on the device, made once per session, and copies of values back on the host. */
#include "plan/segment.h"

/* *on_device becomes t with its bytes on the device; the first call for these bytes queues the copy. 0 or -code. */
int upload(struct runtime *rt, const struct tensor *t, struct tensor *on_device, struct diag *d);
void uploads_free(struct runtime *rt);
size_t uploads_bytes(const struct runtime *rt); /* device memory that initializers take */

/* The value in host memory: t itself if it is there already, or a copy in the arena. NULL with a finding. */
const struct tensor *on_host(struct runtime *rt, const struct tensor *t, struct arena *a,
			     struct diag *d);

#endif
