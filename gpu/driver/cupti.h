/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CUPTI_H
#define GPU_DRIVER_CUPTI_H
/*
 * Records of a device's kernels, copies and fills, made by CUPTI. CUPTI is opened only when an observer asks for
 * records.
 */
#include "backend/observe.h"

extern const struct activity_ops cupti_activities;

#endif
