/* SPDX-License-Identifier: Apache-2.0 */
#include "session/step_buffer.h"

#include <string.h>

void step_buffer_free(struct session *s, struct step_buffer *r)
{
	struct runtime *rt = session_runtime(s);

	if (!r->memory.ptr)
		return;
	if (r->device) {
		rt->backend->free(rt->device, &r->memory);
		session_forget_recordings(s);
	} else {
		rt->cpu->free(rt->host, &r->memory);
	}
	r->memory = (struct buffer){0};
}

int step_buffer_reserve(struct session *s, struct step_buffer *r, size_t bytes, int device,
			struct diag *d)
{
	struct runtime *rt = session_runtime(s);

	if (r->memory.ptr && r->device == device && r->memory.bytes >= bytes)
		return 0;
	step_buffer_free(s, r);
	r->device = device;
	bytes = bytes ? bytes : 1;
	return device ? rt->backend->alloc(rt->device, bytes, MEM_ACTIVATIONS, &r->memory, d)
		      : rt->cpu->alloc(rt->host, bytes, MEM_ACTIVATIONS, &r->memory, d);
}

int step_buffer_fill(struct session *s, struct step_buffer *r, const struct tensor *from,
		     int device, struct tensor *to, struct diag *d)
{
	int err = step_buffer_reserve(s, r, from->bytes, device, d);

	if (err)
		return err;
	if (from->bytes && !device && !from->device)
		memcpy(r->memory.ptr, from->data, from->bytes);
	else if (from->bytes)
		err = session_copy(s, r->memory.ptr, device, from, d);
	*to = (struct tensor){.type = from->type,
			      .shape = from->shape,
			      .data = r->memory.ptr,
			      .bytes = from->bytes,
			      .device = device};
	return err;
}

struct placed step_buffer_place(const struct step_buffer *r)
{
	return (struct placed){.data = r->memory.ptr, .bytes = r->memory.bytes};
}
