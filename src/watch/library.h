/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_LIBRARY_H
#define WATCH_LIBRARY_H
/* The library that `check -- CMD` injects into a watched program (src/watch/inject), CUPTI's path, and GPU memory. */
#include "base/diag.h"

/*
 * Returns the size of the injected library, which is embedded in this program, and sets *data. Returns 0 if the build
 * lacks the library.
 */
size_t watch_library(const unsigned char **data);
/* Returns the path of libcupti, in d's arena. If libcupti is not found, adds a finding and returns NULL. */
const char *watch_cupti(struct diag *d);

/*
 * Sets *bytes to the memory that process `pid` uses on all devices, as NVML shows it. Returns false if NVML is
 * missing or does not show the process, as in some containers. NVML is opened by the first call and stays open until
 * watch_gpu_end.
 */
bool watch_gpu_memory(int pid, uint64_t *bytes);
/* Returns the free bytes of the device that has the fewest free bytes, or 0 if this is unknown. */
uint64_t watch_gpu_left(void);
void watch_gpu_end(void);

#endif
