/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CHOOSE_IDS_H
#define GPU_DRIVER_CHOOSE_IDS_H
#include "backend/choose_ids.h"

extern const struct choose_ops cuda_choose;

#endif
