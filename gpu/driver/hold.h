/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_HOLD_H
#define GPU_DRIVER_HOLD_H
/*
 * For observers: keeps what is queued on a stream waiting, so that launches lie ready when the device comes to
 * them. Else a device that is faster than the host waits for it between any two events.
 */
#include "backend/backend.h"

struct hold;
/* NULL where there is no device, or no kernel for it. */
struct hold *hold_new(struct device *device, struct stream *stream);
void hold_free(struct hold *h);

/* What is queued after it waits until hold_end, or for ns. 0 or -code. */
int hold_begin(struct hold *h, uint64_t ns, struct diag *d);
void hold_end(struct hold *h);
/* One launch that takes ns, as far as the device's clock tells. */
int hold_spin(struct hold *h, uint64_t ns, struct diag *d);

#endif
