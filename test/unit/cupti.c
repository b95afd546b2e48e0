/* SPDX-License-Identifier: Apache-2.0 */
/* The records of CUPTI's that gpu/driver/cupti.c reads, against the toolkit's header. */
#include "gpu/driver/cupti_records.h"
#include "test/unit/unit.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#endif

/* Older headers have not all names. */
#if defined(CUPTI_API_VERSION) && CUPTI_API_VERSION >= 130000
#define AT(ours, a, theirs, b) CHECK_INT(offsetof(struct ours, a), offsetof(theirs, b))

static void records(void)
{
	CHECK_INT(CUPTI_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK_INT(CUPTI_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
	CHECK_INT(CUPTI_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
	CHECK_INT(CUPTI_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
	CHECK_INT(CUPTI_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	CHECK_INT(CUPTI_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
	CHECK_INT(CUPTI_CUSTOM0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0);
	CHECK_INT(CUPTI_HTOD, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
	CHECK_INT(CUPTI_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
	CHECK_INT(CUPTI_TAKEN, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	AT(cupti_kernel, start, CUpti_ActivityKernel10, start);
	AT(cupti_kernel, end, CUpti_ActivityKernel10, end);
	AT(cupti_kernel, device, CUpti_ActivityKernel10, deviceId);
	AT(cupti_kernel, correlation, CUpti_ActivityKernel10, correlationId);
	AT(cupti_kernel, name, CUpti_ActivityKernel10, name);
	AT(cupti_memcpy, copy, CUpti_ActivityMemcpy6, copyKind);
	AT(cupti_memcpy, bytes, CUpti_ActivityMemcpy6, bytes);
	AT(cupti_memcpy, start, CUpti_ActivityMemcpy6, start);
	AT(cupti_memcpy, end, CUpti_ActivityMemcpy6, end);
	AT(cupti_memcpy, correlation, CUpti_ActivityMemcpy6, correlationId);
	AT(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
	AT(cupti_memset, start, CUpti_ActivityMemset4, start);
	AT(cupti_memset, end, CUpti_ActivityMemset4, end);
	AT(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId);
	AT(cupti_external, of, CUpti_ActivityExternalCorrelation, externalKind);
	AT(cupti_external, id, CUpti_ActivityExternalCorrelation, externalId);
	AT(cupti_external, correlation, CUpti_ActivityExternalCorrelation, correlationId);
}
#else
static void records(void)
{
}
#endif

int main(void)
{
	UNIT(records);
	return unit_end();
}
