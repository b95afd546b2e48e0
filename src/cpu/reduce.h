/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_REDUCE_H
#define CPU_REDUCE_H
/* The rows of cpu_reduce[] whose kernels are not in reduce.c: each from a file of its name. */
#include "backend/backend.h"

int arg_reduce_run(const struct call *c); /* ArgMax, ArgMin */
int cumulate_run(const struct call *c);	  /* CumSum, CumProd */

#endif
