/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/driver/choose_ids.h"

#include "gpu/driver/device.h"
#include "gpu/kernels/choose.h"

#include <string.h>

enum { THREADS = 1024 }; /* of a block, which looks at a row */

struct chooser {
	struct stream *stream;
	CUfunction kernel;
	enum dtype type;
	int64_t rows, nuntil;
	struct buffer ids, until; /* on the device */
	struct buffer chosen[2];  /* pinned, by parity: the ids, then the device's fault */
	struct event *made[2];
};

static void chooser_free(struct chooser *c)
{
	if (!c)
		return;
	struct device *dev = c->stream->device;
	cuda_free(dev, &c->ids); /* waits for the stream */
	cuda_free(dev, &c->until);
	for (int i = 0; i < 2; i++) {
		cuda_free_host(dev, &c->chosen[i]);
		cuda_event_free(c->made[i]);
	}
	mem_free(c);
}

static int take_memory(struct chooser *c, const int64_t *until, struct diag *d)
{
	struct device *dev = c->stream->device;
	size_t rows = (size_t)c->rows, ids, chosen, n;

	if (!size_mul(rows, sizeof(int64_t), &ids) || !size_add(ids, sizeof(int64_t), &chosen) ||
	    !size_mul((size_t)c->nuntil, sizeof(*until), &n) || rows > INT32_MAX)
		return FAIL(d, E_SIZE);
	int err = cuda_alloc(dev, ids, MEM_ACTIVATIONS, &c->ids, d);
	err = err ? err : cuda_alloc(dev, n, MEM_ACTIVATIONS, &c->until, d);
	for (int i = 0; i < 2 && !err; i++) {
		err = cuda_alloc_host(dev, chosen, MEM_STAGING, &c->chosen[i], d);
		c->made[i] = err ? NULL : cuda_event_new(dev, d);
		err = err || c->made[i] ? err : -E_DEVICE;
	}
	return err ? err : cuda_copy(c->stream, c->until.ptr, 1, until, 0, n, d);
}

static struct chooser *chooser_new(struct device *dev, struct stream *stream, enum dtype ids,
				   int64_t rows, const int64_t *until, int64_t n, struct diag *d)
{
	const struct site site = {.device = dev};
	struct chooser *c = mem_zalloc(sizeof(*c), MEM_CONTEXT);

	if (!c) {
		FAIL(d, E_MEMORY);
		return NULL;
	}
	*c = (struct chooser){.stream = stream, .type = ids, .rows = rows, .nuntil = n > 0 ? n : 0};
	c->kernel = gpu_kernel(&site, "choose", "choose_ids", d);
	if (c->kernel && !take_memory(c, until, d))
		return c;
	chooser_free(c);
	return NULL;
}

static void *chooser_ids(const struct chooser *c)
{
	return c->ids.ptr;
}

static int give_ids(struct chooser *c, const int64_t *ids, struct diag *d)
{
	size_t bytes = (size_t)c->rows * (c->type == DT_I64 ? sizeof(int64_t) : sizeof(int32_t));
	void *as = mem_alloc(bytes, MEM_STAGING);

	if (!as)
		return FAIL(d, E_MEMORY);
	for (int64_t i = 0; i < c->rows; i++)
		elem_set_i64(c->type, as, i, ids[i]);
	int err = cuda_copy(c->stream, c->ids.ptr, 1, as, 0, bytes, d);
	mem_free(as);
	return err;
}

static int queue_choice(struct chooser *c, unsigned parity, const struct scores *s, struct diag *d)
{
	struct device *dev = c->stream->device;
	struct gpu_choose p = {.scores = s->data,
			       .n = s->n,
			       .step = s->step,
			       .type = (int)s->type,
			       .wide = c->type == DT_I64,
			       .ids = c->ids.ptr,
			       .until = c->until.ptr,
			       .nuntil = c->nuntil,
			       .chosen = c->chosen[parity].ptr,
			       .fault = (const volatile unsigned long long *)dev->fault};
	int err = device_launch(c->stream, c->kernel, (unsigned)c->rows, THREADS, &p, sizeof(p),
				"choosing ids", d);

	return err ? err : cuda_mark(c->stream, c->made[parity], d);
}

static int wait_for_choice(struct chooser *c, unsigned parity, const int64_t **ids, struct diag *d)
{
	struct device *dev = c->stream->device;
	bool pushed;
	int err = cuda_enter(dev, &pushed, d);

	if (err)
		return err;
	CUresult r = dev->api->p_cuEventSynchronize(c->made[parity]->event);
	cuda_leave(dev, pushed);
	if (r)
		return cuda_failed(dev, (int)r, "the wait for chosen ids", d);
	*ids = c->chosen[parity].ptr;
	return (*ids)[c->rows] ? device_fault(dev, (uint64_t)(*ids)[c->rows], d) : 0;
}

const struct choose_ops cuda_choose = {
	.create = chooser_new,
	.destroy = chooser_free,
	.ids = chooser_ids,
	.give = give_ids,
	.queue = queue_choice,
	.wait = wait_for_choice,
};
