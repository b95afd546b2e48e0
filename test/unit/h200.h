/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_UNIT_H200_H
#define TEST_UNIT_H200_H
/* What cuDNN's deviceless mode is told of the device that it shall plan for: cudnnGetDeviceProperties of an H200. */

static const char h200[] =
	"{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
	"\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
	"\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
	"\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
	"\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":6,\"isTccDriver\":0,"
	"\"supportCoopLaunch\":1,\"totalGlobalMem\":150109880320,\"smClockRateKHz\":1980000,"
	"\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,"
	"\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\"}";

#endif
