/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The management library without a GPU. Built as libnvidia-ml.so.1.
 *
 *   FAKE_NVML_REASONS=N   why the clock is lowered: bits of NVML's
 */
#include <stdio.h>
#include <stdlib.h>

#define API __attribute__((visibility("default"))) int

API nvmlInit_v2(void)
{
	return 0;
}

API nvmlShutdown(void)
{
	return 0;
}

API nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "1.0");
	return 0;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
	(void)bus;
	*device = stdout;
	return 0;
}

API nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	(void)device;
	*mhz = type == 1 ? 1200 : 3000;
	return 0;
}

API nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz)
{
	(void)device;
	*mhz = type == 1 ? 1980 : 3200;
	return 0;
}

API nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
	(void)device, (void)sensor;
	*celsius = 61;
	return 0;
}

API nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
	(void)device;
	*milliwatts = 512000;
	return 0;
}

API nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts)
{
	(void)device;
	*milliwatts = 700000;
	return 0;
}

API nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	const char *s = getenv("FAKE_NVML_REASONS");

	(void)device;
	*reasons = s ? strtoull(s, NULL, 0) : 0;
	return 0;
}
