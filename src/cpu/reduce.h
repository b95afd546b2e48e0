/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_REDUCE_H
#define CPU_REDUCE_H
/* Kernels of cpu_reduce[] that are defined in arg_reduce.c and cumulate.c, not in reduce.c. */
#include "backend/backend.h"

int arg_reduce_run(const struct call *c); /* ArgMax, ArgMin */
int cumulate_run(const struct call *c);	  /* CumSum, CumProd */

#endif
