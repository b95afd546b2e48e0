/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a file's content fits an input of the model, and plans the conversion. Only
 * types, shapes and sizes count, never the elements. explain.c tries the --input keys that it proposes
 * with the same function, input_fit(), so every proposal is known to fit.
 */
#include "input/internal.h"

#include <string.h>

static enum code refuse(struct fit *f, enum code code, const char *why)
{
	f->code = code;
	f->why = why;
	return code;
}

static bool is_number(enum dtype t)
{
	return t != DT_STRING && t != DT_NONE;
}

/*
 * Compares a shape with the wanted shape. Two dimensions with the same symbol must have the same
 * size.
 */
static enum code compare_shapes(const struct shape *want, const struct shape *have)
{
	if (want->rank < 0)
		return E_OK;
	if (want->rank != have->rank)
		return E_INPUT_RANK;
	for (int i = 0; i < want->rank; i++) {
		if (want->dim[i] >= 0 && want->dim[i] != have->dim[i])
			return E_INPUT_SHAPE;
		for (int k = 0; k < i; k++)
			if (dim_is_sym(want->dim[i]) && want->dim[k] == want->dim[i] &&
			    have->dim[k] != have->dim[i])
				return E_INPUT_SHAPE;
	}
	return E_OK;
}

/*
 * Completes the wanted shape: computes the size of its only free dimension from the number of
 * elements. Sets *derived to that dimension, or to -1 if no dimension is free.
 */
static enum code derive_free_dim(const struct shape *want, int64_t count, struct shape *out,
				 int *derived, const char **why)
{
	int free = -1;

	*derived = -1;
	if (want->rank < 0) {
		*why = "the model leaves even the rank open: give shape=";
		return E_DIM;
	}
	*out = *want;
	for (int i = 0; i < want->rank; i++) {
		if (want->dim[i] >= 0)
			continue;
		if (free >= 0 && !(dim_is_sym(want->dim[i]) && want->dim[i] == want->dim[free])) {
			*why = "more than one dimension is free, and the file does not say them";
			return E_DIM;
		}
		if (free >= 0) {
			*why = "a dimension is free in two places: give shape=";
			return E_DIM;
		}
		free = i;
	}
	if (free < 0)
		return shape_count(want) == count ? E_OK : E_INPUT_BYTES;
	/* a size of 0 would fit, but it is more likely that the file is empty by mistake */
	if (count == 0) {
		*why = "an empty file";
		return E_INPUT_BYTES;
	}
	out->dim[free] = 1;
	int64_t each = shape_count(out);
	if (each <= 0 || count % each)
		return E_INPUT_BYTES;
	out->dim[free] = count / each;
	*derived = free;
	return E_OK;
}

/* ---- axes */

static void axes_shape(enum axes a, int64_t n, int64_t c, int64_t h, int64_t w, int rank,
		       struct shape *s)
{
	int64_t dims[4];

	dims[0] = n;
	dims[1] = axes_last(a) ? h : c;
	dims[2] = axes_last(a) ? w : h;
	dims[3] = axes_last(a) ? c : w;
	*s = shape_of(rank, rank == 4 ? dims : dims + 1);
}

/*
 * Sets n, c, h and w (batch, channels, height, width) from a shape of rank 2 (one channel), 3 or 4.
 */
static bool split_axes(const struct shape *s, enum axes a, struct pixels *p)
{
	const int64_t *d = s->dim + (s->rank == 4);

	p->axes = axes_last(a) ? AXES_NHWC : AXES_NCHW;
	p->n = s->rank == 4 ? s->dim[0] : 1;
	if (s->rank == 2) {
		p->c = 1;
		p->h = s->dim[0];
		p->w = s->dim[1];
		return true;
	}
	if (s->rank < 3 || s->rank > 4)
		return false;
	p->c = axes_last(a) ? d[2] : d[0];
	p->h = axes_last(a) ? d[0] : d[1];
	p->w = axes_last(a) ? d[1] : d[2];
	return true;
}

static bool is_channel_count(int64_t c)
{
	return c == 1 || c == 3 || c == 4;
}

bool want_image(const struct want *w, enum axes *axes, int64_t *channels, int64_t *h, int64_t *w2)
{
	const struct shape *s = &w->shape;
	int r = s->rank;

	if (r != 3 && r != 4)
		return false;
	bool first = is_channel_count(s->dim[r - 3]),
	     last = is_channel_count(s->dim[r - 1]) && s->dim[r - 2] != 1;
	if (!first && !last)
		return false;
	*axes = first ? AXES_NCHW : AXES_NHWC;
	*channels = s->dim[first ? r - 3 : r - 1];
	*h = s->dim[first ? r - 2 : r - 3];
	*w2 = s->dim[first ? r - 1 : r - 2];
	return true;
}

/* ---- conversion as pixels */

/*
 * Derives the shape of a file that does not state one: the wanted shape with its axes in the order
 * of layout=.
 */
static enum code derive_pixel_shape(const struct want *w, const struct input_keys *k, struct fit *f)
{
	enum code first = E_INPUT_BYTES;

	if (k->resize.given)
		return refuse(f, E_INPUT_KEY,
			      "resize needs shape= for a file that does not say its own");
	if (w->shape.rank != 3 && w->shape.rank != 4)
		return refuse(f, E_INPUT_KEY, "layout is for inputs of rank 3 or 4");
	for (int last = 0; last <= 1; last++) {
		struct pixels p;
		struct shape s;
		const char *why = NULL;
		int derived;
		enum axes target = last ? AXES_NHWC : AXES_NCHW;
		split_axes(&w->shape, target, &p);
		/*
		 * If only the size of the last axis can be a number of channels (1, 3 or 4), the
		 * model takes channels last.
		 */
		if (last == 0 && is_channel_count(w->shape.dim[w->shape.rank - 1]) &&
		    !is_channel_count(w->shape.dim[w->shape.rank - 3]))
			continue;
		axes_shape(k->layout, p.n, p.c, p.h, p.w, w->shape.rank, &s);
		enum code code = derive_free_dim(&s, f->count, &f->file, &derived, &why);
		if (code == E_OK) {
			f->dst.axes = target;
			for (int i = 0; i < w->shape.rank; i++)
				f->derived = w->shape.dim[i] < 0 ? i : f->derived;
			return E_OK;
		}
		first = code;
		f->why = why;
		if (is_channel_count(w->shape.dim[w->shape.rank - 3]))
			break;
	}
	return refuse(f, first, f->why);
}

static enum code choose_target_axes(const struct want *w, const struct item *it,
				    const struct input_keys *k, struct fit *f)
{
	struct pixels *t = &f->dst;
	int rank = w->shape.rank < 0 ? 4 : w->shape.rank;
	bool flat = rank == 2 || (rank == 3 && t->n > 1);
	enum code best = E_INPUT_RANK;
	enum axes asked = it->kind == IO_IMAGE ? k->layout : AXES_NONE, guess;
	int64_t c, h, w2;

	if (flat ? t->c != 1 || (rank == 2 && t->n != 1) : rank != 3 && rank != 4)
		return refuse(f, E_INPUT_RANK, NULL);
	if (!asked && t->axes)
		asked = t->axes;
	for (int last = 0; last <= 1; last++) {
		struct shape s;
		enum axes a = last ? AXES_NHWC : AXES_NCHW;
		if (asked && axes_last(asked) != last)
			continue;
		axes_shape(a, t->n, t->c, t->h, t->w, rank == 4 ? 4 : 3, &s);
		if (flat)
			s = shape_of(rank, rank == 2 ? (int64_t[]){t->h, t->w}
						     : (int64_t[]){t->n, t->h, t->w});
		enum code code = compare_shapes(&w->shape, &s);
		/* If no order of axes fits, the message shows the more likely order. */
		if (code == E_OK || best == E_INPUT_RANK ||
		    (want_image(w, &guess, &c, &h, &w2) && axes_last(guess) == last)) {
			best = code;
			f->shape = s;
			t->axes = a;
		}
		if (code == E_OK)
			return E_OK;
	}
	return refuse(f, best, NULL);
}

static enum code fit_pixels(const struct want *w, const struct item *it, const struct input_keys *k,
			    struct fit *f)
{
	enum axes from = it->kind == IO_IMAGE ? AXES_HWC : k->layout;

	f->pixels = true;
	if (!is_number(w->dtype) || !is_number(f->from))
		return refuse(f, E_INPUT_TYPE, "strings have no layout");
	if (from == AXES_NONE)
		return refuse(f, E_INPUT_KEY, "order and resize need layout=, to know the axes");
	if (f->file.rank < 0 && derive_pixel_shape(w, k, f))
		return f->code;
	if (!split_axes(&f->file, from, &f->src))
		return refuse(f, E_INPUT_RANK, NULL);
	enum axes target = f->dst.axes;
	f->src.dtype = f->from;
	f->dst = (struct pixels){.dtype = w->dtype, .axes = target, .n = f->src.n};
	f->dst.c = order_channels(k->order, f->src.c);
	if (f->dst.c < 0)
		return refuse(f, E_INPUT_KEY, "order is for pictures of 1 to 4 channels");
	if (!resize_to(&k->resize, f->src.w, f->src.h, &f->dst.w, &f->dst.h))
		return refuse(f, E_INPUT_KEY, "resize is for pictures that have pixels");
	if (choose_target_axes(w, it, k, f))
		return f->code;
	int64_t most = k->math.nmean > k->math.nstd ? k->math.nmean : k->math.nstd;
	if ((k->math.nmean > 1 && k->math.nmean != f->dst.c) ||
	    (k->math.nstd > 1 && k->math.nstd != f->dst.c) || most > MAX_MEANS)
		return refuse(f, E_INPUT_KEY, "mean and std take one number, or one a channel");
	return f->code = E_OK;
}

/* ---- conversion element by element */

/*
 * Returns true if two shapes have the same sizes in any order, like the shapes of a picture in NHWC
 * and NCHW.
 */
static bool same_sizes(const struct shape *a, const struct shape *b)
{
	bool used[MAX_RANK] = {false};

	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++) {
		int k = 0;
		while (k < b->rank && (used[k] || (a->dim[i] >= 0 && a->dim[i] != b->dim[k])))
			k++;
		if (k == b->rank)
			return false;
		used[k] = true;
	}
	return true;
}

/*
 * Finds the channel axis if mean or std has a number for each channel and no layout= was given: the
 * axis whose size is the number of these numbers.
 */
static bool find_channels(const struct input_keys *k, struct fit *f)
{
	int64_t n = k->math.nmean > k->math.nstd ? k->math.nmean : k->math.nstd;
	int rank = f->shape.rank, axis = -1;

	f->channel = f->channels = 1;
	if (n <= 1)
		return true;
	if ((k->math.nmean > 1 && k->math.nmean != n) || (k->math.nstd > 1 && k->math.nstd != n))
		return false;
	if (rank >= 3 && f->shape.dim[rank - 3] == n)
		axis = rank - 3;
	else if (rank >= 1 && f->shape.dim[rank - 1] == n)
		axis = rank - 1;
	if (axis < 0)
		return false;
	f->channels = n;
	f->channel = shape_span(&f->shape, axis + 1, rank);
	return true;
}

static enum code fit_plain(const struct want *w, const struct input_keys *k, struct fit *f)
{
	if (f->file.rank < 0) {
		enum code code =
			derive_free_dim(&w->shape, f->count, &f->shape, &f->derived, &f->why);
		if (code)
			return refuse(f, code, f->why);
	} else {
		enum code code = compare_shapes(&w->shape, &f->file);
		bool image = f->file.rank == 3 || f->file.rank == 4;
		f->shape = f->file;
		if (code == E_INPUT_SHAPE && image && same_sizes(&w->shape, &f->file))
			code = E_INPUT_LAYOUT;
		if (code)
			return refuse(f, code, NULL);
	}
	f->convert = f->from != w->dtype || k->math.given;
	if (k->math.given && !find_channels(k, f))
		return refuse(f, E_INPUT_KEY, "mean and std by channel need layout=");
	return f->code = E_OK;
}

/* ---- types, sizes */

static bool is_complex(enum dtype t)
{
	return t == DT_C64 || t == DT_C128;
}

static enum code fit_type(const struct want *w, const struct item *it, const struct input_keys *k,
			  struct fit *f)
{
	bool typed = it->dtype != DT_NONE;

	f->from = typed ? it->dtype : k->dtype ? k->dtype : w->dtype;
	if (it->void_type && !k->dtype)
		f->from = w->dtype;
	if (it->kind == IO_TEXT || it->kind == IO_JSON) {
		f->from = w->dtype;
		typed = false;
	}
	if (!f->from)
		return refuse(f, E_INPUT_TYPE, "the model leaves the type open: give dtype=");
	if (typed && k->dtype && k->dtype != it->dtype && k->dtype != w->dtype)
		return refuse(f, E_INPUT_KEY, "dtype is neither the file's type nor the model's");
	if (w->dtype == f->from || w->dtype == DT_NONE)
		return E_OK;
	if (!is_number(f->from) || !is_number(w->dtype))
		return refuse(f, E_INPUT_TYPE, NULL);
	/* dtype= says what a file holds, and asks for no loss: a model of real numbers has no place for the imaginary parts */
	if (is_complex(f->from) && !is_complex(w->dtype))
		return refuse(f, E_INPUT_TYPE,
			      "its elements are complex, and the model takes real numbers");
	bool asked = k->dtype || k->math.given || it->kind == IO_IMAGE ||
		     (it->kind == IO_SOUND && dtype_class(w->dtype) == DT_FLOAT);
	return asked ? E_OK : refuse(f, E_INPUT_TYPE, NULL);
}

/*
 * Returns the number of elements in the file, or -1 if its bytes are not a whole number of
 * elements.
 */
static int64_t count_elements(const struct item *it, enum dtype t)
{
	unsigned bits = dtype_bits(t);

	if (it->count >= 0)
		return it->count;
	if (it->shape.rank >= 0)
		return shape_count(&it->shape);
	if (!bits || t == DT_STRING || it->bytes > INT64_MAX / 8)
		return -1;
	return it->bytes * 8 % bits ? -1 : (int64_t)(it->bytes * 8 / bits);
}

/*
 * Returns true if a raw file has exactly the bytes of this shape. Types below 8 bits may leave bits
 * of the last byte unused.
 */
static bool raw_holds(const struct item *it, enum dtype t, const struct shape *s)
{
	size_t bytes;

	return tensor_bytes(t, s, LAYOUT_ROW, &bytes) && bytes == it->bytes;
}

/*
 * A sound is [channels, samples]. Models take a single channel also as [samples], and have further axes of 1 before
 * the channels.
 */
static void fit_sound(const struct want *w, struct fit *f)
{
	const int64_t channels = f->file.dim[0], samples = f->file.dim[1];

	if (w->shape.rank == 1 && channels == 1)
		f->file = shape_of(1, &samples);
	for (; f->file.rank < w->shape.rank; f->file.rank++) {
		memmove(f->file.dim + 1, f->file.dim, (size_t)f->file.rank * sizeof(*f->file.dim));
		f->file.dim[0] = 1;
	}
}

enum code input_fit(const struct want *w, const struct item *it, const struct input_keys *k,
		    struct fit *f)
{
	bool raw = it->kind == IO_RAW;

	*f = (struct fit){
		.shape = SHAPE_UNKNOWN, .file = it->shape, .derived = -1, .channel = 1, .channels = 1};
	enum code type = fit_type(w, it, k, f);
	f->count = count_elements(it, f->from);
	if (it->fortran && it->dtype == DT_STRING)
		return refuse(f, E_INPUT_FORMAT,
			      "its strings are in Fortran order (column by column)");
	if (it->big_endian)
		return refuse(f, E_INPUT_FORMAT, "its elements are big-endian");
	if (it->descr && !it->void_type)
		return refuse(f, E_INPUT_TYPE, "its elements are of a type that ONNX has not");
	if (it->need > it->bytes)
		return refuse(f, E_INPUT_BYTES, "it is cut short");
	size_t bytes;
	if (it->void_type && f->from &&
	    (!tensor_bytes(f->from, &it->shape, LAYOUT_ROW, &bytes) || bytes != it->need))
		return refuse(f, E_INPUT_TYPE, "its elements are of another size");
	if (type == E_INPUT_KEY)
		return type;
	if (raw && k->shape.rank < 0 && w->dtype != DT_STRING && dtype_bits(f->from) < 8 &&
	    shape_known(&w->shape) && raw_holds(it, f->from, &w->shape))
		f->count = shape_count(&w->shape);
	if (raw && f->from == DT_STRING)
		return refuse(f, E_INPUT_FORMAT, "raw bytes are no strings");
	if (it->kind == IO_SOUND)
		fit_sound(w, f);
	if (k->shape.rank >= 0) {
		f->file = k->shape;
		if (raw ? !raw_holds(it, f->from, &k->shape) : f->count != shape_count(&k->shape))
			return refuse(f, E_INPUT_BYTES, "shape= is for another number of elements");
		f->count = shape_count(&k->shape);
	}
	if (f->count < 0)
		return refuse(f, E_INPUT_BYTES, "its bytes are no whole number of elements");
	bool pixels = it->kind == IO_IMAGE || k->layout || k->order || k->resize.given;
	enum code code = pixels ? fit_pixels(w, it, k, f) : fit_plain(w, k, f);
	return type ? refuse(f, code == E_INPUT_LAYOUT ? code : type, NULL) : code;
}
