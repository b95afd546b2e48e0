/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CUPTI_RECORDS_H
#define GPU_DRIVER_CUPTI_RECORDS_H
/*
 * The first members of CUPTI's records, which are the same in all its versions since CUDA 11.4; newer versions
 * add members at the end. Only gpu/driver/cupti.c reads them; test/unit/cupti.c compares them with the
 * toolkit's header.
 */
#include <stddef.h>
#include <stdint.h>

enum cupti_kind {
	CUPTI_MEMCPY = 1,
	CUPTI_MEMSET = 2,
	CUPTI_DRIVER = 4,
	CUPTI_RUNTIME = 5,
	CUPTI_CONCURRENT_KERNEL = 10,
	CUPTI_EXTERNAL_CORRELATION = 39
};
enum { CUPTI_CUSTOM0 = 3, CUPTI_HTOD = 1, CUPTI_DTOH = 2, CUPTI_TAKEN = 39 };

struct cupti_record {
	uint32_t kind;
};
struct cupti_kernel {
	uint32_t kind;
	uint8_t settings[12];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], shared[2];
	uint32_t local[2];
	uint32_t correlation;
	int64_t id;
	const char *name;
};
struct cupti_memcpy {
	uint32_t kind;
	uint8_t copy, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};
struct cupti_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};
struct cupti_external {
	uint32_t kind, of;
	uint64_t id;
	uint32_t correlation;
};
/* Parameters of cuptiSubscribe_v2. */
struct cupti_params {
	size_t bytes;
	const char *name;
	char *other;
	size_t room;
};

#endif
