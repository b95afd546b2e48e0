/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tensors of planned inputs. */
#include "base/mem.h"
#include "base/str.h"
#include "input/internal.h"
#include "input/use.h"
#include "onnx/tensor_pb.h"

#include <string.h>

static int too_large(const struct input *in, struct diag *d)
{
	return FAIL(d, E_SIZE, .slot = fmt(d, "input '%s'", in->info.name),
		    .expected = "at most 2^40 elements",
		    .actual = d ? shape_str(&d->arena, &in->shape, NULL) : NULL);
}

static int no_memory(const struct input *in, struct diag *d)
{
	const char *shape = d ? shape_str(&d->arena, &in->shape, NULL) : "";
	size_t bytes = 0;

	(void)tensor_bytes(tensor_dtype(&in->tensor), &in->shape, LAYOUT_ROW, &bytes);
	return FAIL(d, E_MEMORY, .slot = fmt(d, "input '%s'", in->info.name),
		    .message = fmt(d, "the system refused %s for %s %s",
				   d ? str_bytes(&d->arena, (int64_t)bytes) : "",
				   dtype_name(tensor_dtype(&in->tensor)), shape));
}

/* Allocates memory for the tensor of an input. The input owns the memory. */
static int allocate_tensor(struct input *in, struct diag *d)
{
	size_t bytes;

	if (!tensor_bytes(tensor_dtype(&in->tensor), &in->shape, LAYOUT_ROW, &bytes))
		return too_large(in, d);
	in->owned = mem_alloc(bytes ? bytes : 1, MEM_STAGING);
	if (!in->owned)
		return no_memory(in, d);
	in->tensor.data = in->owned;
	in->tensor.bytes = bytes;
	return 0;
}

/*
 * Makes the tensor from the elements at p. If the elements are aligned and need no conversion, the
 * tensor refers to them; otherwise it gets a converted copy.
 */
static int use_elements(struct input *in, const unsigned char *p, struct diag *d)
{
	const struct fit *f = &in->fit;
	size_t size = dtype_bits(f->from) / 8, bytes;

	if (!tensor_bytes(f->from, &in->shape, LAYOUT_ROW, &bytes))
		return too_large(in, d);
	bool aligned = !size || (uintptr_t)p % (size > 8 ? 8 : size) == 0;
	if (!f->convert && !f->pixels && aligned) {
		/* cast away const: the data lie in the mapped file, but inputs are never written to */
		in->tensor.data = (void *)(uintptr_t)p;
		in->tensor.bytes = bytes;
		return 0;
	}
	unsigned char *copy = NULL;
	if (!aligned && (f->convert || f->pixels)) {
		copy = mem_alloc(bytes, MEM_STAGING);
		if (!copy)
			return no_memory(in, d);
		p = memcpy(copy, p, bytes);
	}
	int rc = allocate_tensor(in, d);
	if (!rc && f->pixels) {
		struct pixels src = f->src, dst = f->dst;
		const struct input_keys *k = &in->source->spec.keys;
		src.data = (void *)(uintptr_t)p;
		dst.data = in->tensor.data;
		rc = pixels_convert(&src, &dst, &k->resize, k->order, &k->math, d);
	} else if (!rc && f->convert) {
		elements_convert(f->from, p, tensor_dtype(&in->tensor), in->tensor.data,
				 shape_count(&in->shape), &in->source->spec.keys.math, f->channel,
				 f->channels);
	} else if (!rc && bytes) {
		memcpy(in->tensor.data, p, bytes);
	}
	mem_free(copy);
	return rc;
}

/* Copies elements of `size` bytes from Fortran order, in which the first index changes fastest, to row-major order. */
static void copy_by_rows(const struct shape *s, size_t size, const unsigned char *from,
			 unsigned char *to)
{
	int64_t index[MAX_RANK] = {0}, n = shape_count(s);

	for (int64_t i = 0; i < n; i++) {
		int64_t at = 0;
		for (int k = s->rank - 1; k >= 0; k--)
			at = at * s->dim[k] + index[k];
		memcpy(to + (size_t)i * size, from + (size_t)at * size, size);
		for (int k = s->rank - 1; k >= 0 && ++index[k] == s->dim[k]; k--)
			index[k] = 0;
	}
}

/* Makes the tensor from elements in Fortran order, by the shape that the file states. */
static int use_fortran_elements(struct input *in, const unsigned char *p, struct diag *d)
{
	const struct item *it = &in->source->item;
	unsigned char *rows = mem_alloc(it->need, MEM_STAGING);
	int rc = rows ? 0 : no_memory(in, d);

	if (!rc) {
		copy_by_rows(&it->shape, dtype_bits(in->fit.from) / 8, p, rows);
		rc = use_elements(in, rows, d);
	}
	if (!rc && in->tensor.data == rows)
		in->owned = rows;
	else
		mem_free(rows);
	return rc;
}

static int read_image(struct input *in, struct diag *d)
{
	const struct file_map *m = &in->source->map;
	struct image im;
	int rc = image_decode(m->data, m->size, &im, E_INPUT_FORMAT, d);

	if (!rc && !in->source->spec.keys.as_stored) {
		rc = image_upright(m->data, m->size, &im, d);
		if (rc)
			image_free(&im);
	}
	if (rc) {
		if (d && d->last && !d->last->model)
			d->last->model = fmt(d, "%s", in->source->spec.file);
		return rc;
	}
	rc = allocate_tensor(in, d);
	if (!rc) {
		struct pixels src = in->fit.src, dst = in->fit.dst;
		const struct input_keys *k = &in->source->spec.keys;
		src.data = im.pixels;
		dst.data = in->tensor.data;
		rc = pixels_convert(&src, &dst, &k->resize, k->order, &k->math, d);
	}
	image_free(&im);
	return rc;
}

static int read_sound(struct input *in, struct diag *d)
{
	const struct source *x = in->source;
	const struct sound *s = &x->item.sound;
	float *samples = mem_alloc((size_t)(s->frames * s->channels) * sizeof(*samples), MEM_STAGING);

	if (!samples)
		return no_memory(in, d);
	int rc = sound_decode(x->map.data, x->map.size, s, samples, E_INPUT_FORMAT, d);
	if (rc && d && d->last && !d->last->model)
		d->last->model = fmt(d, "%s", x->spec.file);
	rc = rc ? rc : use_elements(in, (const unsigned char *)samples, d);
	if (!rc && in->tensor.data == samples)
		in->owned = samples;
	else
		mem_free(samples);
	return rc;
}

/*
 * Makes the tensor from an .npy file or from a member of an .npz archive, which is inflated first
 * if necessary.
 */
static int read_numpy(struct input_set *s, struct input *in, struct diag *d)
{
	const struct source *x = in->source;
	const unsigned char *p = x->map.data;
	unsigned char *unpacked = NULL;
	int rc = 0;

	if (x->member) {
		unpacked = x->member->deflated ? mem_alloc((size_t)x->member->size, MEM_STAGING)
					       : NULL;
		if (x->member->deflated && !unpacked)
			return no_memory(in, d);
		p = unpacked ? unpacked : x->member->data;
		rc = zip_read(x->member, (void *)(uintptr_t)p, d);
	}
	if (!rc && in->fit.from == DT_STRING) {
		struct npy h;
		rc = npy_head(p, x->item.header + x->item.bytes, x->spec.file, &h, d);
		struct tensor *t = rc ? NULL : npy_strings(&h, p + h.data, &s->arena);
		if (!rc && !t)
			rc = no_memory(in, d);
		if (t) {
			in->tensor = *t;
			in->tensor.shape = in->shape;
		}
	} else if (!rc) {
		rc = x->item.fortran ? use_fortran_elements(in, p + x->item.header, d)
				     : use_elements(in, p + x->item.header, d);
	}
	bool borrowed = unpacked && !rc && !in->owned && in->fit.from != DT_STRING;
	if (borrowed)
		in->owned = unpacked;
	else
		mem_free(unpacked);
	return rc;
}

static int read_pb(struct input_set *s, struct input *in, struct diag *d)
{
	const struct source *x = in->source;

	if (x->item.data)
		return use_elements(in, x->item.data, d);
	struct tensor *t = tensor_pb_parse(x->map.data, x->map.size, in->info.type, &s->arena, d);
	if (!t) {
		if (d && d->last && !d->last->model)
			d->last->model = fmt(d, "%s", x->spec.file);
		return d && d->last ? -(int)d->last->code : -E_INPUT_FORMAT;
	}
	if (t->type.kind != V_TENSOR || tensor_dtype(t) == DT_STRING) {
		in->tensor = *t;
		if (t->type.kind == V_TENSOR)
			in->tensor.shape = in->shape;
		return 0;
	}
	return use_elements(in, t->data, d);
}

static int read_text(struct input_set *s, struct input *in, struct diag *d)
{
	const struct source *x = in->source;
	enum dtype want = (enum dtype)in->info.type.dtype;
	if (in->info.type.kind != V_TENSOR) {
		const struct tensor *maps = text_maps((const char *)x->map.data, x->map.size,
						      x->spec.file, in->info.type, &s->arena, d);
		if (!maps)
			return -E_INPUT_FORMAT;
		in->tensor = *maps;
		return 0;
	}
	struct tensor *t = text_read(x->item.kind, (const char *)x->map.data, x->map.size, want,
				     &in->fit.shape, &s->arena);

	if (!t)
		return no_memory(in, d);
	if (in->fit.convert || in->fit.pixels)
		return use_elements(in, t->data, d);
	in->tensor = *t;
	return 0;
}

/*
 * The axis along which lengths most likely count if no node tells: one that is neither the batch, which is the dimension of the lengths
 * themselves or else the first, nor of a size that the model fixes.
 */
static int length_axis(const struct input *x, const struct input *lengths)
{
	const struct shape *file = &x->value->info.shape, *own = &lengths->value->info.shape;
	int batch = 0, fixed = -1;

	if (x == lengths || x->info.type.kind != V_TENSOR || file->rank < 2)
		return -1;
	for (int k = file->rank - 1; k >= 0; k--)
		if (own->rank == 1 && file->dim[k] == own->dim[0])
			batch = k;
	for (int k = 0; k < file->rank && k < x->shape.rank; k++) {
		if (k != batch && file->dim[k] < 0)
			return k;
		fixed = k != batch && fixed < 0 ? k : fixed;
	}
	return fixed;
}

/*
 * The length of the sequences that these lengths are of, if no node tells: of the input after which they are called, or else of one whose size
 * the model leaves free, or else of the nearest.
 */
static int64_t likely_length(const struct input_set *s, const struct input *lengths)
{
	int64_t at = lengths - s->in, best = -1, length = 1;

	for (int64_t i = 0; i < (int64_t)s->n; i++) {
		int k = length_axis(&s->in[i], lengths);
		if (k < 0)
			continue;
		/* x, x_lengths, y, y_lengths is the usual order */
		int64_t score = i < at ? s->n + i : s->n - i;
		score += s->in[i].value->info.shape.dim[k] < 0 ? 2 * (int64_t)s->n : 0;
		score += names_belong(s->in[i].info.name, lengths->info.name) ? 4 * (int64_t)s->n : 0;
		if (score > best) {
			best = score;
			length = s->in[i].shape.dim[k];
		}
	}
	return length;
}

static int64_t whole_length(const struct input_set *s, const struct input *lengths)
{
	const struct whole_length *whole = &lengths->range.whole;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->in[i].value == whole->input && whole->axis < s->in[i].shape.rank)
			return s->in[i].shape.dim[whole->axis];
	return whole->number ? whole->number : likely_length(s, lengths);
}

static int read_random(struct input_set *s, struct input *in, struct diag *d)
{
	if (in->range.kind == RANGE_LENGTH)
		in->range.hi = (double)whole_length(s, in);
	if ((enum dtype)in->info.type.dtype == DT_STRING) {
		struct tensor *t = random_strings(s->request->seed, in->info.name, s->model->graph,
						  in->value, &in->shape, &s->arena);
		if (!t)
			return no_memory(in, d);
		in->tensor = *t;
		return 0;
	}
	int rc = allocate_tensor(in, d);
	if (!rc)
		random_fill(&in->range, s->request->seed, in->info.name, &in->tensor);
	return rc;
}

static int read_zeros(struct input *in, struct diag *d)
{
	int rc = allocate_tensor(in, d);

	if (!rc)
		memset(in->tensor.data, 0, in->tensor.bytes);
	return rc;
}

static int read_positions(const struct input_set *s, struct input *in, struct diag *d)
{
	enum derive_rule rule = steps_derive_of(s->request->steps, (uint32_t)(in - s->in))->rule;
	int rc = allocate_tensor(in, d);

	if (!rc && !derive_fill(rule, in->at, &in->tensor))
		rc = derive_fail(in->info.name, in->at, &in->tensor, d);
	return rc;
}

static int read_input(struct input_set *s, struct input *in, struct diag *d)
{
	in->tensor = (struct tensor){.type = in->info.type, .shape = in->shape};
	if (in->how == FROM_RANDOM)
		return read_random(s, in, d);
	if (in->how == FROM_ZEROS)
		return read_zeros(in, d);
	if (in->how == FROM_POSITIONS)
		return read_positions(s, in, d);
	enum io_kind kind = in->source->item.kind;
	if (in->source->sliced)
		return use_elements(in, in->source->item.data, d);
	if (kind == IO_IMAGE)
		return read_image(in, d);
	if (kind == IO_SOUND)
		return read_sound(in, d);
	if (kind == IO_NPY || kind == IO_NPZ)
		return read_numpy(s, in, d);
	if (kind == IO_PB)
		return read_pb(s, in, d);
	if (kind == IO_RAW || kind == IO_SAFETENSORS)
		return use_elements(in, in->source->item.data, d);
	return read_text(s, in, d);
}

int input_read(struct input_set *s, struct diag *d)
{
	for (uint32_t i = 0; i < s->n; i++) {
		int rc = read_input(s, &s->in[i], d);
		if (rc)
			return rc;
		s->in[i].info.tensor = s->tensors[i] = &s->in[i].tensor;
	}
	return 0;
}
