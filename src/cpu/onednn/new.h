/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_NEW_H
#define CPU_ONEDNN_NEW_H
#include "base/dl.h"

/* Lets a refusal of memory for one of oneDNN's objects end the program with E-MEMORY instead of a crash. */
void onednn_check_memory(const struct dl *lib);

#endif
