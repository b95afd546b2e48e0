/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_PROCESSES_H
#define GPU_DRIVER_PROCESSES_H
/* Device memory of other processes, as NVML counts it, and the path of CUPTI. */
#include "backend/observe.h"

extern const struct process_ops cuda_processes;

#endif
