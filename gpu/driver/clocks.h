/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CLOCKS_H
#define GPU_DRIVER_CLOCKS_H
/* The device's clocks, temperature and power while something runs, as the management library tells: on a thread. */
#include "backend/backend.h"

struct clock_sample {
	uint64_t at;	     /* of clock_ns */
	unsigned sm, memory; /* MHz */
	unsigned celsius;
	double watts;
	uint64_t reasons; /* CLOCK_* */
};
enum {
	CLOCK_IDLE = 0x1,
	CLOCK_SETTING = 0x2, /* as an administrator asked for */
	CLOCK_POWER_CAP = 0x4,
	CLOCK_HARDWARE = 0x8,
	CLOCK_HEAT = 0x20,
	CLOCK_HARDWARE_HEAT = 0x40,
	CLOCK_POWER_BRAKE = 0x80
};
struct clock_limits { /* 0: not known */
	unsigned sm, memory;
	double watts;
};

/* NULL where the library is missing, or on a device that is none. The last sample is taken at the end. */
struct clock_watch;
struct clock_watch *clock_watch_begin(const struct device *device, uint64_t every_ns);
/* Stops. Samples are freed with free(). */
struct clock_sample *clock_watch_end(struct clock_watch *w, size_t *n, struct clock_limits *limits);

/* The driver's release, "580.65.06"; false where the library is missing or does not say. */
bool driver_release(char *out, size_t room);

/* What lowers the clock though the device works, in words ("power cap, heat"); NULL: nothing. */
const char *clock_reasons(uint64_t reasons, struct arena *a);

#endif
