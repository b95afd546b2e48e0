/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_LIBRARY_H
#define WATCH_LIBRARY_H
/* What `check -- CMD` puts into a watched program: src/watch/inject, and where its CUPTI is. */
#include "base/diag.h"

/* The injected library's bytes inside this program; 0 where the build has none. */
size_t watch_library(const unsigned char **data);
/* The path of libcupti in the diag's arena; NULL with a finding where there is none. */
const char *watch_cupti(struct diag *d);

/*
 * Bytes of all devices that process `pid` uses, as NVML tells; false where it does not (no NVML, or a container
 * that hides processes). Opened at the first call, kept until watch_gpu_end.
 */
bool watch_gpu_memory(int pid, uint64_t *bytes);
/* Free bytes of the device that has the fewest; 0: not known. */
uint64_t watch_gpu_left(void);
void watch_gpu_end(void);

#endif
