/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/packed.h"

#include "base/hash.h"
#include "gpu/launch/job.h"

#include <string.h>

struct packs {
	struct arena arena;
	struct map by_key;
	struct buffer *items;
	uint32_t n, cap;
};

static void drop_packs(struct device *device, void *p)
{
	struct packs *packs = p;

	for (uint32_t i = 0; i < packs->n; i++)
		cuda_free(device, &packs->items[i]);
	struct arena a = packs->arena;
	arena_free(&a);
}

static struct packs *packs_of(struct device *device)
{
	struct packs *p = gpu_slot_new(device, GPU_WEIGHTS, sizeof(*p), drop_packs);

	p->by_key.arena = &p->arena;
	return p;
}

static const void *keep_buffer(struct packs *p, const char *key, size_t n, struct buffer b)
{
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->items = arena_grow(&p->arena, p->items, p->n, p->cap, sizeof(*p->items));
	}
	p->items[p->n] = b;
	map_set(&p->by_key, arena_strn(&p->arena, key, n), n, p->n++);
	return b.ptr;
}

/* Copies the model's bytes to the device, packs them to dst, and frees the copy. */
static int upload_and_pack(struct device *device, const struct tensor *t, void *dst,
			   gpu_form_make *make, const void *arg, struct diag *d)
{
	static const struct step none;
	struct call c = {.step = &none, .stream = cuda_stream(device), .diag = d};
	struct buffer raw = {0};
	int err = cuda_alloc(device, t->bytes ? t->bytes : 1, MEM_STAGING, &raw, d);

	if (!err)
		err = cuda_copy(c.stream, raw.ptr, 1, t->data, 0, t->bytes, d);
	if (!err)
		err = make(&c, dst, raw.ptr, arg);
	if (!err)
		err = cuda_wait(c.stream, d);
	cuda_free(device, &raw);
	return err;
}

const void *gpu_packed(const struct site *s, uint32_t i, const char *form, size_t bytes,
		       gpu_form_make *make, const void *arg, struct diag *d)
{
	struct packs *p = packs_of(s->device);
	const struct tensor *t = site_known(s, i);
	struct buffer b = {0};
	char key[256];
	int n = snprintf(key, sizeof(key), "%p/%zu/%s", t->data, t->bytes, form);

	if (n < 0 || (size_t)n >= sizeof(key)) {
		(void)FAIL(d, E_INTERNAL, .message = "a packed weight's key is too long");
		return NULL;
	}
	int64_t k = map_get(&p->by_key, key, (size_t)n);
	if (k >= 0)
		return p->items[k].ptr;
	int err = cuda_alloc(s->device, bytes ? bytes : 1, MEM_PACKED, &b, d);
	if (!err)
		err = upload_and_pack(s->device, t, b.ptr, make, arg, d);
	if (!err)
		return keep_buffer(p, key, (size_t)n, b);
	cuda_free(s->device, &b);
	return NULL;
}

int gpu_form_take(struct site *s, struct step *step, uint32_t i, const char *form, size_t bytes,
		  gpu_form_make *make, const void *arg, struct gpu_form *f, struct diag *d)
{
	f->made = true;
	if (!site_is_weight(s, i)) {
		f->at = gpu_room(step, bytes);
		return 0;
	}
	f->kept = gpu_packed(s, i, form, bytes, make, arg, d);
	step->unread |= UINT64_C(1) << i;
	return f->kept ? 0 : -E_DEVICE;
}

int gpu_form_give(const struct call *c, uint32_t i, gpu_form_make *make, const void *arg,
		  const struct gpu_form *f, const void **w)
{
	void *to;

	*w = f->kept ? f->kept : gpu_data(c, i);
	if (f->kept || !f->made)
		return 0;
	to = gpu_at(c, f->at);
	*w = to;
	return make(c, to, gpu_data(c, i), arg);
}

const void *gpu_zeros(const struct site *s, size_t bytes, struct diag *d)
{
	struct packs *p = packs_of(s->device);
	struct buffer b = {0};
	char key[32];
	int n = snprintf(key, sizeof(key), "zeros/%zu", bytes);
	int64_t k = map_get(&p->by_key, key, (size_t)n);

	if (k >= 0)
		return p->items[k].ptr;
	void *zero = mem_zalloc(bytes ? bytes : 1, MEM_STAGING);
	int err = zero ? cuda_alloc(s->device, bytes ? bytes : 1, MEM_PACKED, &b, d)
		       : FAIL(d, E_MEMORY);
	if (!err)
		err = cuda_copy(cuda_stream(s->device), b.ptr, 1, zero, 0, bytes, d);
	if (!err)
		err = cuda_wait(cuda_stream(s->device), d);
	mem_free(zero);
	if (!err)
		return keep_buffer(p, key, (size_t)n, b);
	cuda_free(s->device, &b);
	return NULL;
}
