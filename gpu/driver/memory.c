/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, pinned host memory, and copies between host and device. */
#include "gpu/driver/device.h"

#include "base/pool.h"

#include <inttypes.h>
#include <string.h>

int cuda_memory(struct device *dev, uint64_t *unused, uint64_t *total, struct diag *d)
{
	size_t f = 0, t = 0;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuMemGetInfo(&f, &t);
	cuda_leave(dev, pushed);
	*unused = f;
	*total = t;
	return r ? cuda_failed(dev, (int)r, "asking for free memory", d) : 0;
}

uint64_t gpu_unused(struct device *dev)
{
	uint64_t unused = 0, total;

	return cuda_memory(dev, &unused, &total, NULL) ? 0 : unused;
}

/*
 * cuDNN activates the primary context even if the session has a context of its own, and that takes device
 * memory. The CUDA runtime inside cuDNN works in the current context, except for cudaSetDevice() and
 * cudaInitDevice(), which initialize the primary one (CUDA Runtime API, Interactions with the CUDA Driver API).
 * No caller can prevent that.
 */
static bool primary_just_activated(struct device *dev)
{
	unsigned flags;
	int active = 0;

	return dev->own && !dev->primary_before && !dev->woken &&
	       !dev->api->p_cuDevicePrimaryCtxGetState(dev->id, &flags, &active) && active;
}

void gpu_note_taken(struct device *dev, uint64_t before, enum mem_purpose purpose)
{
	uint64_t now = gpu_unused(dev);

	if (!now || now >= before)
		return;
	if (primary_just_activated(dev)) {
		dev->woken = before - now;
		purpose = MEM_CONTEXT;
	}
	dev->noted[purpose] += before - now;
	mem_note(MEM_DEVICE, purpose, (int64_t)(before - now));
}

static int fail_allocation(struct device *dev, CUresult r, const char *where, size_t bytes,
			   enum mem_purpose purpose, struct diag *d)
{
	size_t unused = 0, total = 0;

	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return cuda_failed(dev, (int)r, "taking memory", d);
	dev->api->p_cuMemGetInfo(&unused, &total);
	return FAIL(d, E_MEMORY, .message = fmt(d, "%s%d refused memory", where, dev->facts.ordinal),
		    .expected = fmt(d, "%zu bytes for %s", bytes, mem_purpose_name(purpose)),
		    .actual = fmt(d, "%zu of %zu bytes free; %s", unused, total,
				  cuda_error_text(dev->api, r, d)));
}

int cuda_alloc(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
	       struct diag *d)
{
	CUdeviceptr p = 0;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuMemAlloc(&p, bytes ? bytes : 1);
	if (r)
		err = fail_allocation(dev, r, "cuda:", bytes, purpose, d);
	cuda_leave(dev, pushed);
	if (err)
		return err;
	*b = (struct buffer){(void *)(uintptr_t)p, bytes, purpose};
	mem_note(MEM_DEVICE, purpose, (int64_t)bytes);
	return 0;
}

void cuda_free(struct device *dev, struct buffer *b)
{
	bool pushed;

	if (b->ptr && !cuda_enter(dev, &pushed, NULL)) {
		dev->api->p_cuStreamSynchronize(dev->stream.stream);
		dev->api->p_cuMemFree((CUdeviceptr)(uintptr_t)b->ptr);
		cuda_leave(dev, pushed);
	}
	if (b->ptr)
		mem_note(MEM_DEVICE, b->purpose, -(int64_t)b->bytes);
	*b = (struct buffer){0};
}

static void note_pinned(struct device *dev, const struct buffer *b)
{
	if (dev->npinned == dev->cap_pinned) {
		dev->cap_pinned = dev->cap_pinned ? 2 * dev->cap_pinned : 16;
		dev->pinned = arena_grow(&dev->arena, dev->pinned, dev->npinned, dev->cap_pinned,
					 sizeof(*dev->pinned));
	}
	dev->pinned[dev->npinned++] = *b;
}

static void forget_pinned(struct device *dev, const void *p)
{
	for (uint32_t i = 0; i < dev->npinned; i++)
		if (dev->pinned[i].ptr == p)
			dev->pinned[i--] = dev->pinned[--dev->npinned];
}

/*
 * Returns whether p is in pinned memory, which the device reads while the host goes on. Data in other host memory is
 * first copied to pinned memory.
 */
static bool is_pinned(const struct device *dev, const void *p)
{
	uintptr_t at = (uintptr_t)p;

	for (uint32_t i = 0; i < dev->npinned; i++)
		if (at - (uintptr_t)dev->pinned[i].ptr < dev->pinned[i].bytes)
			return true;
	return false;
}

int cuda_alloc_host(struct device *dev, size_t bytes, enum mem_purpose purpose, struct buffer *b,
		    struct diag *d)
{
	void *p = NULL;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuMemAllocHost(&p, bytes ? bytes : 1);
	if (r)
		err = fail_allocation(dev, r, "the host's memory for cuda:", bytes, purpose, d);
	cuda_leave(dev, pushed);
	if (err)
		return err;
	*b = (struct buffer){p, bytes, purpose};
	note_pinned(dev, b);
	mem_note(MEM_PINNED, purpose, (int64_t)bytes);
	return 0;
}

void cuda_free_host(struct device *dev, struct buffer *b)
{
	bool pushed;

	if (b->ptr && !cuda_enter(dev, &pushed, NULL)) {
		dev->api->p_cuStreamSynchronize(dev->stream.stream);
		dev->api->p_cuMemFreeHost(b->ptr);
		cuda_leave(dev, pushed);
	}
	forget_pinned(dev, b->ptr);
	if (b->ptr)
		mem_note(MEM_PINNED, b->purpose, -(int64_t)b->bytes);
	*b = (struct buffer){0};
}

/* ---- copies ------------------------------------------------------------------------------------- */

int device_fault(struct device *dev, uint64_t who, struct diag *d)
{
	if (!who)
		return 0;
	*dev->fault = 0;
	const struct origin *o = (const struct origin *)(uintptr_t)who;
	return FAIL(d, E_VALUE, .node = o->name, .op = o->op,
		    .expected = "indices within the dimension", .actual = "one outside of it");
}

int device_wait(struct device *dev, struct diag *d)
{
	CUresult r = dev->api->p_cuStreamSynchronize(dev->stream.stream);

	return r ? cuda_failed(dev, (int)r, "the wait for queued work", d)
		 : device_fault(dev, *dev->fault, d);
}

static CUresult make_stage(struct device *dev, struct stage *s)
{
	CUresult r = CUDA_SUCCESS;

	if (!s->event)
		r = dev->api->p_cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING);
	if (!r && !s->ptr) {
		r = dev->api->p_cuMemAllocHost(&s->ptr, STAGE_BYTES);
		if (!r)
			mem_note(MEM_PINNED, MEM_STAGING, STAGE_BYTES);
	}
	return r;
}

/*
 * Finds a stage (a piece of pinned memory) with room for `bytes` bytes. This is the current stage, or the next one
 * after the device has read it.
 */
static CUresult take_stage(struct device *dev, size_t bytes, struct stage **out)
{
	struct stage *s = &dev->stage[dev->next_stage % STAGES];
	CUresult r = CUDA_SUCCESS;

	if (s->used + bytes > STAGE_BYTES) {
		s = &dev->stage[++dev->next_stage % STAGES];
		if (s->used)
			r = dev->api->p_cuEventSynchronize(s->event);
		s->used = 0;
	}
	*out = s;
	return r ? r : make_stage(dev, s);
}

struct move {
	char *to;
	const char *from;
	size_t bytes;
};
/*
 * Number of bytes that one thread copies. Smaller pieces would wake more threads, and waking a thread would take longer
 * than its copy.
 */
enum { MOVE_BYTES = 1 << 20 };

static void move_some(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct move *m = arg;
	size_t at = (size_t)begin * MOVE_BYTES, to = (size_t)end * MOVE_BYTES;

	(void)thread;
	memcpy(m->to + at, m->from + at, (to < m->bytes ? to : m->bytes) - at);
}

/* Copies with all threads, because one thread alone copies more slowly than the device reads. */
static void move_bytes(void *to, const void *from, size_t bytes)
{
	struct move m = {to, from, bytes};

	pool_for((int64_t)((bytes + MOVE_BYTES - 1) / MOVE_BYTES), 1, move_some, &m);
}

/* Copies through pinned memory. The host fills some stages (pieces of it) while the device reads others. */
static CUresult copy_staged(struct device *dev, CUstream stream, CUdeviceptr to, const char *src,
			    size_t bytes)
{
	for (size_t at = 0; at < bytes; at += STAGE_BYTES) {
		size_t n = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
		struct stage *s;
		CUresult r = take_stage(dev, n, &s);
		if (r)
			return r;
		char *by = (char *)s->ptr + s->used;
		move_bytes(by, src + at, n);
		s->used += (n + STAGE_ALIGN - 1) & ~(size_t)(STAGE_ALIGN - 1);
		r = dev->api->p_cuMemcpyHtoDAsync(to + at, by, n, stream);
		if (!r)
			r = dev->api->p_cuEventRecord(s->event, stream);
		if (r)
			return r;
	}
	return CUDA_SUCCESS;
}

void stages_free(struct device *dev)
{
	for (int i = 0; i < STAGES; i++) {
		struct stage *s = &dev->stage[i];
		if (s->event && !dev->lost)
			dev->api->p_cuEventDestroy(s->event);
		if (s->ptr) {
			if (!dev->lost)
				dev->api->p_cuMemFreeHost(s->ptr);
			mem_note(MEM_PINNED, MEM_STAGING, -(int64_t)STAGE_BYTES);
		}
		*s = (struct stage){0};
	}
}

/* Up to this many bytes, the driver itself copies plain host memory to a buffer of its own before its call returns. */
enum { DIRECT_BYTES = 64 << 10 };

static CUresult queue_bytes(struct device *dev, CUstream stream, void *dst, int dst_device,
			    const void *src, int src_device, size_t bytes)
{
	CUdeviceptr to = (CUdeviceptr)(uintptr_t)dst, from = (CUdeviceptr)(uintptr_t)src;

	if (dst_device && src_device)
		return dev->api->p_cuMemcpyDtoDAsync(to, from, bytes, stream);
	if (dst_device)
		return dev->api->p_cuMemcpyHtoDAsync(to, src, bytes, stream);
	if (src_device)
		return dev->api->p_cuMemcpyDtoHAsync(dst, from, bytes, stream);
	memcpy(dst, src, bytes);
	return CUDA_SUCCESS;
}

int cuda_queue_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
		    size_t bytes, struct diag *d)
{
	bool pushed;

	if (!bytes)
		return 0;
	if (s->listing)
		return listing_copy(s->listing, dst, dst_device, src, src_device, bytes);
	int err = cuda_enter(s->device, &pushed, d);
	if (err)
		return err;
	CUresult r = queue_bytes(s->device, s->stream, dst, dst_device, src, src_device, bytes);
	if (r)
		err = cuda_failed(s->device, (int)r, "a copy", d);
	cuda_leave(s->device, pushed);
	return err;
}

/* After this function returns, the host may change src and read dst. */
int cuda_copy(struct stream *s, void *dst, int dst_device, const void *src, int src_device,
	      size_t bytes, struct diag *d)
{
	struct device *dev = s->device;
	CUresult r;
	bool pushed;

	if (!bytes)
		return 0;
	int err = cuda_queue_directly(s);
	err = err ? err : cuda_enter(dev, &pushed, d);
	if (err)
		return err;
	if (dst_device && !src_device && (bytes > DIRECT_BYTES || is_pinned(dev, src)))
		r = copy_staged(dev, s->stream, (CUdeviceptr)(uintptr_t)dst, src, bytes);
	else
		r = queue_bytes(dev, s->stream, dst, dst_device, src, src_device, bytes);
	if (r)
		err = cuda_failed(dev, (int)r, "a copy", d);
	else if (!dst_device && src_device)
		err = device_wait(dev, d);
	cuda_leave(dev, pushed);
	return err;
}
