/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that the device has yet to make while the host goes on: what may be changed, switched or given back
 * meanwhile. Passes without a look where there is no GPU; test/cli/gpu_late.bats lends it a driver that does nothing
 * before somebody waits for it (on a GPU the stream is held for a moment).
 */
#include "base/mem.h"
#include "gpu/driver/api.h"
#include "gpu/backend.h"
#include "gpu/driver/cuda.h"
#include "session/session.h"
#include "test/unit/unit.h"

#include <stdlib.h>

enum { MOST = 33 << 20, HELD_NS = 20000000 };

static const struct backend *const gpu = &cuda_backend;

static unsigned char pattern(size_t i, unsigned seed)
{
	return (unsigned char)(i * 7 + i / 251 + seed);
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(i, seed);
}

static bool holds(const unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != pattern(i, seed))
			return false;
	return true;
}

/* `count` copies of n bytes each from `from`, which is changed after each of them. */
static void changed_after_each(struct device *dev, unsigned char *from, size_t n, unsigned count)
{
	struct stream *s = cuda_stream(dev);
	struct hold *hold = gpu->hold->create(dev, s);
	struct buffer there = {0};
	unsigned char *back = malloc(n * count);
	struct diag d = {0};

	CHECK(back && !gpu->alloc(dev, n * count, MEM_ACTIVATIONS, &there, &d));
	CHECK(!hold || !gpu->hold->begin(hold, HELD_NS, &d));
	for (unsigned i = 0; i < count; i++) {
		fill(from, n, i);
		CHECK(!gpu->copy(s, (char *)there.ptr + i * n, 1, from, 0, n, &d));
		memset(from, 0xEE, n);
	}
	gpu->hold->destroy(hold);
	CHECK(!gpu->copy(s, back, 0, there.ptr, 1, n * count, &d));
	for (unsigned i = 0; i < count; i++)
		CHECK(holds(back + i * n, n, i));
	gpu->free(dev, &there);
	free(back);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static void what_was_copied_to_the_device_may_be_changed(void)
{
	static const struct {
		size_t bytes;
		unsigned count;
	} cases[] = {{4, 40}, {1200, 20}, {65536, 70}, {65537, 9}, {5 << 20, 2}, {MOST, 1}};
	struct diag d = {0};
	struct device *dev = gpu->open(0, NULL, &d);
	unsigned char *plain = malloc(MOST);
	struct buffer pinned = {0};

	CHECK(dev && plain && !gpu->alloc_host(dev, MOST, MEM_STAGING, &pinned, &d));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		changed_after_each(dev, plain, cases[i].bytes, cases[i].count);
		changed_after_each(dev, pinned.ptr, cases[i].bytes, cases[i].count);
	}
	changed_after_each(dev, (unsigned char *)pinned.ptr + MOST - 100, 100, 3);
	gpu->free_host(dev, &pinned);
	free(plain);
	gpu->close(dev);
	CHECK_INT(mem_count(MEM_PINNED, MEM_STAGING).live, 0);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

/* A queued copy from pinned memory, and one to it, whose memory goes before anybody has waited. */
static void memory_that_is_given_back_was_waited_for(void)
{
	struct diag d = {0};
	struct device *dev = gpu->open(0, NULL, &d);
	struct stream *s = cuda_stream(dev);
	struct hold *hold = gpu->hold->create(dev, s);
	struct buffer pinned = {0}, there = {0}, more = {0};
	unsigned char back[4096];

	CHECK(!gpu->alloc_host(dev, sizeof(back), MEM_STAGING, &pinned, &d));
	CHECK(!gpu->alloc(dev, sizeof(back), MEM_ACTIVATIONS, &there, &d));
	CHECK(!gpu->alloc(dev, sizeof(back), MEM_ACTIVATIONS, &more, &d));
	CHECK(!hold || !gpu->hold->begin(hold, HELD_NS, &d));
	fill(pinned.ptr, sizeof(back), 5);
	CHECK(!gpu->queue_copy(s, there.ptr, 1, pinned.ptr, 0, sizeof(back), &d));
	CHECK(!gpu->queue_copy(s, more.ptr, 1, there.ptr, 1, sizeof(back), &d));
	gpu->free_host(dev, &pinned);
	gpu->free(dev, &there);
	CHECK(!gpu->copy(s, back, 0, more.ptr, 1, sizeof(back), &d));
	CHECK(holds(back, sizeof(back), 5));
	gpu->free(dev, &more);
	gpu->hold->destroy(hold);
	gpu->close(dev);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

/* What the session had queued on its own stream is done before the caller's goes on with it. */
static void a_stream_of_the_caller_comes_after_what_was_queued(void)
{
	static const struct run_config config = {
		.device = "cuda", .optimize = OPTIMIZE_NONE, .memory_plan = true, .arena = true};
	static float x[2 * 64], y[2 * 64];
	struct diag d = {0};
	const struct cuda_api *api = cuda_api(&d);
	struct session *s = session_open("test/gpu/data/chain.onnx", &config, &d);
	struct tensor t = {
		.type = type_tensor(DT_F32), .shape = {2, {2, 64}}, .data = x, .bytes = sizeof(x)};
	CUcontext primary = NULL;
	CUstream theirs[2] = {NULL};
	CUdevice device;

	for (int i = 0; i < 2 * 64; i++)
		x[i] = (float)i + 1;
	CHECK(!api->p_cuDeviceGet(&device, 0) && !api->p_cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(!api->p_cuCtxPushCurrent(primary));
	for (int k = 0; k < 2; k++) {
		CHECK(!api->p_cuStreamCreate(&theirs[k], CU_STREAM_NON_BLOCKING));
		const struct tensor *in = s ? session_upload(s, &t, &d) : NULL;
		CHECK(in && !session_use_stream(s, theirs[k], &d));
		memset(y, 0, sizeof(y));
		CHECK(in && !session_fetch(s, y, in, &d));
		CHECK(!memcmp(x, y, sizeof(y)));
	}
	session_close(s);
	for (int k = 0; k < 2; k++)
		api->p_cuStreamDestroy(theirs[k]);
	api->p_cuCtxPopCurrent(&primary);
	api->p_cuDevicePrimaryCtxRelease(device);
	diag_print(&d, stdout, false);
	diag_free(&d);
}

static void copies_on_a_gpu(void)
{
}

int main(void)
{
	struct device_facts f;

	if (!gpu_devices(&f, 1, NULL)) { /* the test is that this is no failure */
		UNIT(copies_on_a_gpu);
		return unit_end();
	}
	UNIT(what_was_copied_to_the_device_may_be_changed);
	UNIT(memory_that_is_given_back_was_waited_for);
	UNIT(a_stream_of_the_caller_comes_after_what_was_queued);
	return unit_end();
}
