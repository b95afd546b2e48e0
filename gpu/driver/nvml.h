/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_NVML_H
#define GPU_DRIVER_NVML_H
/* What NVML, the management library of the driver, tells of clocks, and the driver's release. */
#include "backend/observe.h"

extern const struct clock_ops nvml_clocks;

/* Fills out with the driver's release, "580.65.06"; false when NVML is missing or does not say. */
bool driver_release(char *out, size_t room);

#endif
