/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_CPU_H
#define CPU_CPU_H
/* The CPU backend: kernels of every family, oneDNN behind the heavy ones. */
#include "backend.h"

extern const struct backend cpu_backend;

/* Of Reorder steps: any layout to any other. */
extern const struct kernel cpu_reorder;

#endif
