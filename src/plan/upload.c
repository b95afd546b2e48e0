/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/segment.h"

#include "base/hash.h"

/* Initializers on the device, by the address of their bytes on the host. */
struct uploads {
	struct arena arena;
	struct map by_data;
	struct buffer *items;
	uint32_t n, cap;
};

static struct uploads *get_uploads(struct runtime *rt)
{
	struct arena a = {0};

	if (!rt->uploads) {
		rt->uploads = arena_new(&a, struct uploads);
		rt->uploads->arena = a;
		rt->uploads->by_data.arena = &rt->uploads->arena;
	}
	return rt->uploads;
}

int upload(struct runtime *rt, const struct tensor *t, struct tensor *on_device, struct diag *d)
{
	struct uploads *u = get_uploads(rt);
	const void **key = arena_dup(&u->arena, &t->data, sizeof(t->data));
	int64_t k = map_get(&u->by_data, (const char *)key, sizeof(*key));
	int err = 0;

	if (k < 0) {
		struct buffer b = {0};
		err = rt->backend->alloc(rt->device, t->bytes ? t->bytes : 1, MEM_WEIGHTS, &b, d);
		if (!err)
			err = rt->backend->copy(rt->stream, b.ptr, DEVICE, t->data, HOST, t->bytes, d);
		if (!err)
			err = rt->backend->wait(rt->stream, d);
		if (err)
			return err;
		if (u->n == u->cap) {
			u->cap = u->cap ? 2 * u->cap : 64;
			u->items = arena_grow(&u->arena, u->items, u->n, u->cap, sizeof(*u->items));
		}
		k = u->n;
		u->items[u->n] = b;
		map_set(&u->by_data, (const char *)key, sizeof(*key), u->n++);
	}
	*on_device = *t;
	on_device->data = u->items[k].ptr;
	on_device->device = DEVICE;
	return 0;
}

void uploads_free(struct runtime *rt)
{
	struct uploads *u = rt->uploads;

	for (uint32_t i = 0; u && i < u->n; i++)
		rt->backend->free(rt->device, &u->items[i]);
	if (u) {
		struct arena a = u->arena;
		arena_free(&a);
	}
	rt->uploads = NULL;
}

const struct tensor *on_host(struct runtime *rt, const struct tensor *t, struct arena *a,
			     struct diag *d)
{
	if (t->device == HOST)
		return t;
	struct tensor *copy = tensor_new(a, tensor_dtype(t), &t->shape);
	if (!copy || rt->backend->copy(rt->stream, copy->data, HOST, t->data, DEVICE, t->bytes, d) ||
	    rt->backend->wait(rt->stream, d))
		return NULL;
	return copy;
}
