/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/hold.h"

#include "gpu/driver/device.h"
#include "gpu/kernels/hold.h"

#include <stdlib.h>

struct hold {
	struct stream *stream;
	CUfunction kernel;
	struct buffer over; /* one word of pinned memory; the kernel ends when the word is 1 */
};

static struct hold *hold_new(struct device *device, struct stream *stream)
{
	const struct site site = {.device = device};
	struct hold *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->stream = stream;
	h->kernel = gpu_kernel(&site, "hold", "hold_stream", NULL);
	if (!h->kernel || cuda_alloc_host(device, sizeof(unsigned), MEM_STAGING, &h->over, NULL)) {
		free(h);
		return NULL;
	}
	return h;
}

static void hold_end(struct hold *h)
{
	*(volatile unsigned *)h->over.ptr = 1;
}

static void hold_free(struct hold *h)
{
	if (!h)
		return;
	hold_end(h); /* cuda_free_host() waits for the stream */
	cuda_free_host(h->stream->device, &h->over);
	free(h);
}

static int launch_hold(struct hold *h, void *over, uint64_t ns, struct diag *d)
{
	struct gpu_hold p = {over, ns};

	return device_launch(h->stream, h->kernel, 1, 1, &p, sizeof(p), "holding the stream", d);
}

static int hold_begin(struct hold *h, uint64_t ns, struct diag *d)
{
	*(volatile unsigned *)h->over.ptr = 0;
	return launch_hold(h, h->over.ptr, ns, d);
}

static int hold_spin(struct hold *h, uint64_t ns, struct diag *d)
{
	return launch_hold(h, NULL, ns, d);
}

const struct hold_ops cuda_hold = {
	.create = hold_new,
	.destroy = hold_free,
	.begin = hold_begin,
	.end = hold_end,
	.spin = hold_spin,
};
