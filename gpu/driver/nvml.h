/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_NVML_H
#define GPU_DRIVER_NVML_H
/* Reads clocks and the driver's release from NVML, the management library of the driver. */
#include "backend/observe.h"

extern const struct clock_ops nvml_clocks;

/*
 * Fills `out` with the driver's release, for example "580.65.06". Returns false if NVML is missing or does not report
 * it.
 */
bool driver_release(char *out, size_t room);

#endif
