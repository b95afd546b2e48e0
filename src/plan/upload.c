/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/upload.h"

#include "base/hash.h"

enum {
	FIRST_BYTES = 1 << 20, /* size of the first shared block: enough for a small model */
	BLOCK_BYTES = 8 << 20, /* size of the later ones */
	OWN_BYTES = 1 << 20,   /* larger initializers get a block of their own */
	ALIGN_BYTES = 256,
};

/* Initializers on the device. Small ones share blocks. */
struct uploads {
	struct arena arena;
	struct map by_data; /* maps an initializer's address and size on the host to its index in items[] */
	char **items; /* addresses on the device */
	uint32_t n, cap;
	struct buffer *blocks;
	uint32_t nblocks, cap_blocks;
	size_t used, room; /* bytes taken and total bytes of the newest shared block */
	char *shared;
	size_t bytes; /* of all blocks */
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

static int new_block(struct runtime *rt, struct uploads *u, size_t bytes, char **out, struct diag *d)
{
	struct buffer b = {0};
	int err = rt->backend->alloc(rt->device, bytes, MEM_WEIGHTS, &b, d);

	if (err)
		return err;
	if (u->nblocks == u->cap_blocks) {
		u->cap_blocks = u->cap_blocks ? 2 * u->cap_blocks : 16;
		u->blocks = arena_grow(&u->arena, u->blocks, u->nblocks, u->cap_blocks,
				       sizeof(*u->blocks));
	}
	u->blocks[u->nblocks++] = b;
	u->bytes += bytes;
	*out = b.ptr;
	return 0;
}

/* Finds device memory for an initializer: a block of its own if it is large, otherwise part of the shared block. */
static int find_room(struct runtime *rt, struct uploads *u, size_t bytes, char **out, struct diag *d)
{
	size_t whole;

	if (!size_add(bytes ? bytes : 1, ALIGN_BYTES - 1, &whole))
		return FAIL(d, E_SIZE);
	whole &= ~(size_t)(ALIGN_BYTES - 1);
	if (whole > OWN_BYTES)
		return new_block(rt, u, bytes, out, d);
	if (u->used + whole > u->room) {
		size_t room = u->room ? BLOCK_BYTES : FIRST_BYTES;
		int err = new_block(rt, u, room, &u->shared, d);
		if (err)
			return err;
		u->used = 0;
		u->room = room;
	}
	*out = u->shared + u->used;
	u->used += whole;
	return 0;
}

int upload(struct runtime *rt, const struct tensor *t, struct tensor *on_device, struct diag *d)
{
	struct uploads *u = get_uploads(rt);
	/* the address alone is ambiguous: an empty initializer may have the address of the next one */
	const uintptr_t which[] = {(uintptr_t)t->data, t->bytes};
	int64_t k = map_get(&u->by_data, (const char *)which, sizeof(which));
	char *room = NULL;

	if (k < 0) {
		int err = find_room(rt, u, t->bytes, &room, d);
		/* the copy is only queued, and proceeds while the plan is made */
		if (!err)
			err = rt->backend->copy(rt->stream, room, DEVICE, t->data, HOST, t->bytes, d);
		if (err)
			return err;
		if (u->n == u->cap) {
			u->cap = u->cap ? 2 * u->cap : 64;
			u->items = arena_grow(&u->arena, u->items, u->n, u->cap, sizeof(*u->items));
		}
		k = u->n;
		u->items[u->n] = room;
		map_set(&u->by_data, arena_dup(&u->arena, which, sizeof(which)), sizeof(which),
			u->n++);
	}
	*on_device = *t;
	on_device->data = u->items[k];
	on_device->device = DEVICE;
	return 0;
}

void uploads_free(struct runtime *rt)
{
	struct uploads *u = rt->uploads;

	for (uint32_t i = 0; u && i < u->nblocks; i++)
		rt->backend->free(rt->device, &u->blocks[i]);
	if (u) {
		struct arena a = u->arena;
		arena_free(&a);
	}
	rt->uploads = NULL;
}

size_t uploads_bytes(const struct runtime *rt)
{
	return rt->uploads ? rt->uploads->bytes : 0;
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
