/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the heads of input files: element type, shape, and the place of the elements. */
#include "base/mem.h"
#include "base/str.h"
#include "input/internal.h"
#include "ir/safetensors.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <string.h>

/*
 * Number of bytes to inflate from a compressed .npy member in order to read its head. Heads of
 * version 1 have at most 64 KiB.
 */
enum { MAX_NPY_HEAD = 64 * 1024 + 16 };

int item_npy(const unsigned char *p, size_t n, size_t total, const char *what, struct item *it,
	     struct arena *a, struct diag *d)
{
	struct npy h;
	int rc = npy_head(p, n, what, &h, d);

	if (rc)
		return rc;
	*it = (struct item){.kind = IO_NPY,
			    .dtype = h.dtype,
			    .shape = h.shape,
			    .count = -1,
			    .need = h.bytes,
			    .header = h.data,
			    .bytes = total - h.data,
			    .fortran = h.fortran,
			    .big_endian = h.big_endian,
			    .void_type = h.kind == 'V'};
	if (h.dtype == DT_NONE)
		it->descr = arena_str(a, h.descr);
	if (n == total)
		it->data = p + h.data;
	return 0;
}

static int head_npz(struct source *s, const char *what, const char *input, struct arena *a,
		    struct diag *d)
{
	struct zip z;
	int rc = s->member ? 0 : zip_open(s->map.data, s->map.size, what, a, &z, d);

	if (rc)
		return rc;
	for (size_t i = 0; !s->member && i < z.n; i++)
		if (!strcmp(z.entry[i].name, input) || z.n == 1)
			s->member = &z.entry[i];
	if (!s->member) {
		const char **names = arena_new_n(a, const char *, z.n + 1);
		for (size_t i = 0; i < z.n; i++)
			names[i] = z.entry[i].name;
		return FAIL(d, E_INPUT_NAME, .message = fmt(d, "%s has no member '%s'", what, input),
			    .hint = z.n ? fmt(d, "its members are %s", input_names(a, names, z.n))
					: "it is empty");
	}
	const struct zip_entry *e = s->member;
	size_t n = e->size < MAX_NPY_HEAD ? (size_t)e->size : MAX_NPY_HEAD;
	const unsigned char *p = e->data;
	if (e->deflated) {
		unsigned char *head = arena_alloc(a, n);
		n = zip_peek(e, head, n);
		p = head;
	} else {
		n = (size_t)e->size;
	}
	rc = item_npy(p, n, (size_t)e->size, fmt(d, "%s: member '%s'", what, e->name), &s->item, a, d);
	s->item.kind = IO_NPZ;
	if (e->deflated)
		s->item.data = NULL;
	return rc;
}

static int head_safetensors(struct source *s, const char *what, const char *input, struct arena *a,
			    struct diag *d)
{
	const char *name = s->spec.member ? s->spec.member : input;
	struct safetensors all = {0};
	int rc = s->tensor ? 0
			   : safetensors_head(s->map.data, s->map.size, what, E_INPUT_FORMAT, a,
					      &all, d);

	if (rc)
		return rc;
	if (!s->tensor)
		s->tensor = safetensors_find(&all, name);
	if (!s->tensor && all.n == 1 && !s->spec.member)
		s->tensor = &all.list[0];
	if (!s->tensor) {
		const char **names = arena_new_n(a, const char *, all.n + 1);
		for (size_t i = 0; i < all.n; i++)
			names[i] = all.list[i].name;
		return FAIL(d, E_INPUT_NAME, .message = fmt(d, "%s has no tensor '%s'", what, name),
			    .hint = all.n ? fmt(d, "write FILE.safetensors:TENSOR; its tensors are %s",
						input_names(a, names, all.n))
					  : "it is empty");
	}
	s->item = (struct item){.kind = IO_SAFETENSORS,
				.dtype = s->tensor->dtype,
				.shape = s->tensor->shape,
				.count = -1,
				.need = (size_t)s->tensor->bytes,
				.bytes = (size_t)s->tensor->bytes,
				.data = s->map.data + s->tensor->at};
	return 0;
}

static int head_pb(struct source *s, const char *what, struct type type, struct diag *d)
{
	struct tensor head;
	size_t need;

	s->item = (struct item){.kind = IO_PB, .shape = SHAPE_UNKNOWN, .count = -1};
	if (type.kind != V_TENSOR)
		return 0; /* the parts of a sequence, map or optional are checked when they are read */
	int rc = tensor_pb_head(s->map.data, s->map.size, &head, d);
	if (rc) {
		if (d && d->last && !d->last->model)
			d->last->model = arena_str(&d->arena, what);
		return rc;
	}
	s->item.dtype = tensor_dtype(&head);
	s->item.shape = head.shape;
	if (!tensor_bytes(s->item.dtype, &head.shape, LAYOUT_ROW, &need))
		return FAIL(d, E_INPUT_FORMAT, .message = fmt(d, "%s: its shape overflows", what));
	if (head.data && s->item.dtype != DT_STRING) {
		s->item.data = head.data;
		s->item.bytes = head.bytes;
		s->item.need = need;
	}
	return 0;
}

static int head_image(struct source *s, const char *what, struct arena *a, struct diag *d)
{
	struct image im;
	int rc = image_head(s->map.data, s->map.size, &im, E_INPUT_FORMAT, d);

	if (!rc && !s->spec.keys.as_stored)
		rc = image_upright(s->map.data, s->map.size, &im, d);
	if (rc) {
		if (d && d->last && !d->last->model)
			d->last->model = arena_str(&d->arena, what);
		return rc;
	}
	s->item =
		(struct item){.kind = IO_IMAGE, .dtype = im.bits == 16 ? DT_U16 : DT_U8, .count = -1};
	s->item.shape = shape_of(3, (int64_t[]){im.height, im.width, im.channels});
	s->item.picture = arena_printf(a, "%s, %s", image_kind_name(im.kind),
				       image_channels_name(im.channels));
	return 0;
}

static int head_sound(struct source *s, const char *what, struct diag *d)
{
	struct sound sound;
	int rc = sound_head(s->map.data, s->map.size, &s->spec.keys.sound, &sound, E_INPUT_FORMAT, d);

	if (rc) {
		if (d && d->last && !d->last->model)
			d->last->model = arena_str(&d->arena, what);
		return rc;
	}
	s->item = (struct item){.kind = IO_SOUND, .dtype = DT_F32, .count = -1, .sound = sound};
	s->item.shape = shape_of(2, (int64_t[]){sound.channels, sound.frames});
	return 0;
}

/* Refuses keys that would have no effect on a file of this kind. */
static int refuse_vain_keys(const struct source *s, enum io_kind kind, const char *what,
			    struct diag *d)
{
	const struct input_keys *k = &s->spec.keys;
	bool sound = k->sound_given && kind != IO_SOUND;

	if (!sound && !(k->exif_given && kind != IO_IMAGE))
		return 0;
	return FAIL(d, E_INPUT_KEY,
		    .message = sound ? "rate, mono, start and duration are for sound files"
				     : "exif is for pictures",
		    .actual = fmt(d, "%s is %s", what, io_kind_name(kind)));
}

int source_head(struct source *s, enum io_kind kind, const char *what, const char *input,
		struct type type, struct arena *a, struct diag *d)
{
	const unsigned char *p = s->map.data;
	size_t n = s->map.size;
	int rc = refuse_vain_keys(s, kind, what, d);

	if (rc)
		return rc;
	if (kind == IO_NPY)
		return item_npy(p, n, n, what, &s->item, a, d);
	if (kind == IO_NPZ)
		return head_npz(s, what, input, a, d);
	if (kind == IO_SAFETENSORS)
		return head_safetensors(s, what, input, a, d);
	if (kind == IO_PB)
		return head_pb(s, what, type, d);
	if (kind == IO_IMAGE)
		return head_image(s, what, a, d);
	if (kind == IO_SOUND)
		return head_sound(s, what, d);
	s->item = (struct item){.kind = kind, .shape = SHAPE_UNKNOWN, .count = -1};
	if (kind == IO_RAW) {
		s->item.data = p;
		s->item.bytes = s->item.need = n;
		return 0;
	}
	if (kind == IO_JSON && text_holds_maps(type))
		return 0; /* keys and values are checked when they are read */
	rc = text_scan(kind, (const char *)p, n, what, (enum dtype)type.dtype, &s->text, d);
	s->item.count = s->text.count;
	s->item.shape = s->text.shape;
	return rc;
}

/* ---- slices of an array */

int source_slice(struct source *s, int axis, int64_t part, const char *what, struct arena *a,
		 struct diag *d)
{
	struct item *it = &s->item;
	size_t size = dtype_bits(it->dtype) / 8, inner = size, outer = 1;

	if (!it->data || it->shape.rank < 0 || it->fortran || !size || it->dtype == DT_STRING)
		return FAIL(d, E_INPUT_FORMAT,
			    .message = fmt(d, "%s cannot be split along an axis", what),
			    .expected =
				    "an uncompressed .npy, .npz, .safetensors or .pb array of numbers in C order",
			    .actual = it->fortran ? "Fortran order" : io_kind_name(it->kind));
	if (axis >= it->shape.rank || part >= it->shape.dim[axis])
		return FAIL(d, E_INPUT_KEY,
			    .message = fmt(d, "%s has no axis %d to split", what, axis),
			    .actual = shape_str(&d->arena, &it->shape, NULL));
	for (int i = 0; i < it->shape.rank; i++)
		if (i < axis)
			outer *= (size_t)it->shape.dim[i];
		else if (i > axis)
			inner *= (size_t)it->shape.dim[i];
	size_t step = inner * (size_t)it->shape.dim[axis];
	if (it->bytes < it->need)
		return FAIL(d, E_INPUT_BYTES,
			    .message = fmt(d, "%s is shorter than its head says", what),
			    .expected = fmt(d, "%zu bytes", it->need),
			    .actual = fmt(d, "%zu bytes", it->bytes));
	const unsigned char *from = it->data + (size_t)part * inner;
	if (outer > 1) {
		unsigned char *copy = arena_array(a, outer, inner);
		for (size_t i = 0; i < outer; i++)
			memcpy(copy + i * inner, from + i * step, inner);
		from = copy;
	}
	s->sliced = true;
	it->data = from;
	it->shape.dim[axis] = 1;
	it->bytes = it->need = outer * inner;
	return 0;
}

int input_count_slices(const char *file, const struct file_map *map, int axis, const char *input,
		       int64_t *parts, struct diag *d)
{
	struct source s = {.spec.file = file, .spec.keys = NO_KEYS, .map = *map};
	struct arena a = {0};
	int rc = source_head(&s, io_kind_of(file, s.map.data, s.map.size), file, input ? input : "",
			     type_tensor(DT_NONE), &a, d);
	const int64_t size = !rc && axis < s.item.shape.rank ? s.item.shape.dim[axis] : 0;
	if (!rc && size > 0)
		rc = source_slice(&s, axis, 0, file, &a, d);
	else if (!rc)
		rc = FAIL(d, E_INPUT_KEY,
			  .message = fmt(d, "%s has nothing to split along axis %d", file, axis),
			  .actual = s.item.shape.rank < 0
					    ? io_kind_name(s.item.kind)
					    : shape_str(&d->arena, &s.item.shape, NULL));
	*parts = size;
	arena_free(&a);
	return rc;
}
