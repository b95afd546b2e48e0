/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why a file does not fit an input, and finds --input keys with which the file would fit.
 * Each guess is tried with input_fit(), which also judges the real inputs. If several element types
 * would fit, the file's bytes decide between them.
 */
#include "base/str.h"
#include "input/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct guesser {
	const struct mismatch *m;
	struct arena *a;
	/*
	 * the source's item, or another one if a raw file turns out to be an .npy file or a picture
	 */
	const struct item *item;
	struct input_keys keys; /* the user's keys and the keys guessed so far */
	struct str added;	/* the guessed keys as text, for the hint */
	const char *left_out; /* that key of the user's without which the picture fits; NULL if no key is to blame */
	const char *reads,
		*note; /* meaning of the file with these keys: "u8 [224,224,3]", "an HWC image" */
	struct fit fit;
};

/* ---- guessing from the bytes */

enum { MAX_SAMPLES = 4096 }; /* most elements that are examined, spread over the file */

static bool typical_float(double v, double least, double most)
{
	return v == 0 || (isfinite(v) && fabs(v) >= least && fabs(v) <= most);
}

/* Returns a score from 0 to 1: how plausible the bytes are as elements of this type. */
static double looks_like(enum dtype t, const unsigned char *p, size_t bytes)
{
	size_t size = dtype_bits(t) / 8, n = size ? bytes / size : 0, step = n / MAX_SAMPLES + 1;
	size_t good = 0, seen = 0, logs = 0;
	double sum = 0, squares = 0;
	unsigned char one[16];

	if (!p || !n)
		return 0;
	for (size_t i = 0; i < n; i += step, seen++) {
		memcpy(one, p + i * size, size);
		double v = elem_f64(t, one, 0);
		bool ok;
		if (t == DT_BOOL)
			ok = one[0] <= 1;
		else if (t == DT_F16)
			ok = typical_float(v, 6e-5, 6e4);
		else if (dtype_class(t) == DT_FLOAT)
			ok = typical_float(v, 1e-12, 1e12);
		else if (size >= 4)
			ok = fabs(v) < 16777216;
		else
			ok = true;
		good += ok;
		if (ok && v != 0) {
			double bits = log2(fabs(v));
			sum += bits;
			squares += bits * bits;
			logs++;
		}
	}
	double part = (double)good / (double)seen;
	if (t == DT_F16 || t == DT_BF16) {
		/*
		 * fp16 read as bf16, or the reverse, still gives finite numbers. But bf16 has 3 more bits of exponent,
		 * so the wrong type spreads the exponents about 8 times more, or less, than is usual.
		 */
		double mean = logs ? sum / (double)logs : 0;
		double spread = logs ? sqrt(fmax(squares / (double)logs - mean * mean, 0)) : 0;
		return spread > 0 ? part * (1 - 0.05 * fmin(fabs(log2(spread / 1.5)), 4))
				  : part * 0.9;
	}
	if (dtype_class(t) == DT_FLOAT)
		return part;
	/* Any bytes are valid integers, so integers score lower: another type that fits the size wins. */
	return part * (t == DT_U8 ? 0.9 : t == DT_BOOL && part == 1 ? 0.95 : 0.8);
}

/*
 * Returns the mean difference between horizontally neighbouring elements of the same channel, for
 * channels last or first.
 */
static double roughness(enum dtype t, const unsigned char *p, int64_t h, int64_t w, int64_t c,
			bool last)
{
	size_t size = dtype_bits(t) / 8;
	int64_t rows = h < 64 ? h : 64, seen = 0;
	double sum = 0;
	unsigned char a[16], b[16];

	for (int64_t r = 0; r < rows; r++) {
		int64_t y = r * h / rows;
		for (int64_t x = 0; x + 1 < w; x++)
			for (int64_t k = 0; k < c; k++, seen++) {
				int64_t i = last ? (y * w + x) * c + k : (k * h + y) * w + x;
				memcpy(a, p + (size_t)i * size, size);
				memcpy(b, p + (size_t)(i + (last ? c : 1)) * size, size);
				double step = elem_f64(t, a, 0) - elem_f64(t, b, 0);
				sum += isfinite(step) ? fabs(step) : 0;
			}
	}
	return seen ? sum / (double)seen : 0;
}

/*
 * Returns true if channels last is the likelier order: with the right order of axes, neighbouring
 * pixels differ little.
 */
static bool looks_hwc(enum dtype t, const unsigned char *p, int64_t h, int64_t w, int64_t c)
{
	return p && dtype_bits(t) >= 8 &&
	       roughness(t, p, h, w, c, true) < roughness(t, p, h, w, c, false);
}

/* ---- guesses */

static bool add_key(struct guesser *g, const char *key, const char *value)
{
	str_addf(&g->added, "%s%s=%s", g->added.n ? "," : "", key, value);
	return keys_set(&g->keys, key, value, NULL) == 0;
}

struct saved {
	struct input_keys keys;
	size_t added;
};

static struct saved save_keys(const struct guesser *g)
{
	return (struct saved){g->keys, g->added.n};
}

static void restore_keys(struct guesser *g, struct saved s)
{
	g->keys = s.keys;
	g->added.n = s.added;
	if (g->added.s)
		g->added.s[s.added] = '\0';
}

static bool keys_fit(struct guesser *g)
{
	return input_fit(g->m->want, g->item, &g->keys, &g->fit) == E_OK;
}

static const char *type_shape(struct guesser *g, enum dtype t, const struct shape *s)
{
	return arena_printf(g->a, "%s %s", dtype_name(t), shape_str(g->a, s, NULL));
}

static bool set_reading(struct guesser *g, enum dtype t, const struct shape *s, const char *note)
{
	g->reads = type_shape(g, t, s);
	g->note = note;
	return true;
}

static bool is_float(enum dtype t)
{
	return dtype_class(t) == DT_FLOAT;
}

/*
 * Proposes scale=1/255 if u8 pixels become floats, because most models expect values from 0 to 1.
 * The hint shows the key.
 */
static void scale_pixels(struct guesser *g, enum dtype t)
{
	enum axes axes;
	int64_t c, h, w;

	if (t == DT_U8 && is_float(g->m->want->dtype) && !g->keys.math.given &&
	    want_image(g->m->want, &axes, &c, &h, &w))
		add_key(g, "scale", "1/255");
}

static const char *layout_word(enum axes a, bool batch, bool *known)
{
	*known = true;
	if (axes_last(a))
		return batch ? "an NHWC image" : "an HWC image without batch axis";
	return batch ? "an NCHW image" : "a CHW image without batch axis";
}

/*
 * Guesses the order of axes (`layout`), and if necessary the order of channels. With `resize`, the
 * picture may have another size than the input.
 */
static bool guess_layout(struct guesser *g, const char *layout, bool resize)
{
	const struct {
		bool order, resize;
	} ways[] = {{false, resize}, {true, resize}};
	struct saved start = save_keys(g);
	enum axes axes;
	int64_t c, h, w;
	bool image = want_image(g->m->want, &axes, &c, &h, &w), known;

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		restore_keys(g, start);
		if (layout)
			add_key(g, "layout", layout);
		if (ways[i].order && (!image || g->keys.order || (c != 1 && c != 3)))
			continue;
		if (ways[i].order)
			add_key(g, "order", c == 1 ? "gray" : "rgb");
		if (ways[i].resize && (!image || g->keys.resize.given || h < 1 || w < 1))
			continue;
		if (ways[i].resize)
			add_key(g, "resize", arena_printf(g->a, "%" PRId64 "x%" PRId64, w, h));
		if (ways[i].resize && !g->keys.math.given &&
		    !strcmp(model_metadata(g->m->model, "author"), "Ultralytics"))
			add_key(g, "scale", "1/255");
		if (!keys_fit(g))
			continue;
		enum axes from = layout ? g->keys.layout : AXES_HWC;
		const char *note = layout_word(from, g->fit.file.rank == 4, &known);
		if (ways[i].resize)
			note = arena_printf(g->a, "%s of another size",
					    image_channels_name((int)g->fit.src.c));
		else if (ways[i].order)
			note = arena_printf(g->a, "%s%s%s", g->fit.src.c == 4 ? "an " : "a ",
					    image_channels_name((int)g->fit.src.c), " image");
		return set_reading(g, g->fit.from, &g->fit.file, note);
	}
	restore_keys(g, start);
	return false;
}

/* Sets the free sizes so that the shape has `count` elements: the first one to what the others leave, the rest to 1. */
static void fill_free_sizes(struct shape *s, int64_t count)
{
	int first = -1;

	for (int i = 0; i < s->rank; i++) {
		first = s->dim[i] < 0 && first < 0 ? i : first;
		s->dim[i] = s->dim[i] < 0 ? 1 : s->dim[i];
	}
	int64_t each = shape_count(s);
	if (first >= 0 && each > 0 && count > 0 && count % each == 0)
		s->dim[first] = count / each;
}

/*
 * Guesses another shape for the same elements: axes of size 1 are added or dropped, or, with
 * `anything`, the model's shape is tried.
 */
static bool guess_shape(struct guesser *g, bool anything)
{
	const struct shape *have = &g->item->shape, *want = &g->m->want->shape;
	struct saved start = save_keys(g);
	struct shape s = {0};
	int k = 0, ones = 0;

	if (have->rank < 0 || want->rank < 0 || g->keys.shape.rank >= 0)
		return false;
	/*
	 * Walk through both shapes. Skip axes of size 1 that only the file has, and insert axes of
	 * size 1 that only the model has.
	 */
	for (int i = 0; i < want->rank && !anything; i++) {
		int left_want = want->rank - i, left_have = have->rank - k;
		while (left_have > left_want && k < have->rank && have->dim[k] == 1) {
			k++;
			left_have--;
			ones++;
		}
		bool fits = k < have->rank && (want->dim[i] < 0 || want->dim[i] == have->dim[k]);
		if (fits && !(left_want > left_have && want->dim[i] < 0)) {
			s.dim[i] = have->dim[k++];
		} else {
			s.dim[i] = 1;
			ones++;
		}
	}
	s.rank = want->rank;
	if (anything)
		s = *want;
	if (anything && !shape_known(&s))
		fill_free_sizes(&s, shape_count(have));
	if (!shape_known(&s) || shape_count(&s) != shape_count(have))
		return false;
	add_key(g, "shape", shape_key(g->a, &s));
	if (!keys_fit(g)) {
		restore_keys(g, start);
		return false;
	}
	const char *note = anything ? "as many elements in another shape"
			   : have->rank + 1 == want->rank && have->dim[0] != 1 ? "no batch axis"
			   : have->rank < want->rank ? "axes of size 1 are missing"
						     : "axes of size 1 too many";
	return set_reading(g, g->item->dtype ? g->item->dtype : g->fit.from, have, note);
}

static const char *type_note(struct guesser *g, enum dtype have)
{
	return arena_printf(g->a, "%s where the model takes %s", dtype_name(have),
			    dtype_name(g->m->want->dtype));
}

static bool guess_type_and_shape(struct guesser *g)
{
	static const char *const layouts[] = {"nhwc", "nchw", "hwc", "chw"};
	enum dtype have = g->item->dtype, want = g->m->want->dtype;
	int rank = g->item->shape.rank;
	bool other = have != want && have != DT_NONE, image = g->item->kind == IO_IMAGE;

	if (other && !image && !g->keys.dtype)
		add_key(g, "dtype", dtype_name(have));
	if (other && keys_fit(g))
		return set_reading(g, have, &g->item->shape, type_note(g, have));
	if (image)
		return guess_layout(g, NULL, false) || guess_layout(g, NULL, true);
	if (guess_shape(g, false))
		return true;
	for (int resize = 0; resize <= 1; resize++) {
		for (size_t i = 0; i < 4; i++)
			if (!g->keys.layout && rank == (int)strlen(layouts[i]) &&
			    guess_layout(g, layouts[i], resize))
				return true;
		if (!resize && guess_shape(g, true))
			return true;
	}
	return false;
}

/* Guesses keys for a file that states its type and shape. */
static bool guess_typed(struct guesser *g)
{
	bool ok = guess_type_and_shape(g);

	if (ok && g->item->kind != IO_IMAGE && g->keys.dtype && !g->m->source->spec.keys.dtype)
		scale_pixels(g, g->item->dtype);
	return ok;
}

/* Resets a key to its default. */
static void clear_key(struct input_keys *k, const char *key)
{
	const struct input_keys none = NO_KEYS;

	if (!strcmp(key, "layout"))
		k->layout = none.layout;
	else if (!strcmp(key, "resize"))
		k->resize = none.resize;
	else if (!strcmp(key, "shape"))
		k->shape = none.shape;
	else if (!strcmp(key, "dtype"))
		k->dtype = none.dtype;
	else if (!strcmp(key, "order"))
		k->order = none.order;
	else if (!strcmp(key, "mean"))
		k->math.nmean = none.math.nmean;
	else
		k->math.nstd = none.math.nstd;
}

/* Returns where KEY= stands in the text of the user's keys, or NULL. */
static const char *find_key(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, key, n) && p[n] == '=')
			return p;
	return NULL;
}

/* Guesses that one of the user's keys is what keeps a picture from fitting, such as layout=nhwc, which is for arrays. */
static bool guess_needless_key(struct guesser *g)
{
	static const char *const keys[] = {"layout", "shape", "dtype", "resize",
					   "order",  "mean",  "std"};
	struct saved start = save_keys(g);

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (!find_key(g->m->source->spec.keys_text, keys[i]))
			continue;
		clear_key(&g->keys, keys[i]);
		if (keys_fit(g) || guess_typed(g)) {
			g->left_out = keys[i];
			return set_reading(g, g->item->dtype, &g->item->shape,
					   arena_printf(g->a,
							!strcmp(keys[i], "resize")
								? "it fits with another %s="
								: "it fits without %s=",
							keys[i]));
		}
		restore_keys(g, start);
	}
	return false;
}

/* Returns the user's keys without the one that is left out. */
static const char *kept_keys(const struct guesser *g)
{
	const char *text = g->m->source->spec.keys_text;
	const char *from = g->left_out ? find_key(text, g->left_out) : NULL, *end = from;

	if (!from)
		return text;
	/* a comma before a number belongs to the value, as in shape=1,3,64,64 */
	do
		end += strcspn(end, ",") + (end[strcspn(end, ",")] == ',');
	while (*end && !isalpha((unsigned char)*end));
	bool last = !*end && from > text;
	return arena_printf(g->a, "%.*s%s", (int)(from - text) - last, text, end);
}

/*
 * Guesses that a raw file holds RGBA or gray pixels for a model that takes RGB. The raw file then
 * needs the key shape=, too.
 */
static bool guess_channels(struct guesser *g, enum dtype t)
{
	static const int64_t channels[] = {4, 1};
	struct saved start = save_keys(g);
	enum axes axes;
	int64_t c, h, w;

	if (!want_image(g->m->want, &axes, &c, &h, &w) || c != 3 || h < 1 || w < 1 || g->keys.layout)
		return false;
	for (size_t i = 0; i < 2; i++) {
		struct shape s = shape_of(3, (int64_t[]){h, w, channels[i]});
		restore_keys(g, start);
		if (t != g->m->want->dtype)
			add_key(g, "dtype", dtype_name(t));
		add_key(g, "layout", "hwc");
		add_key(g, "shape", shape_key(g->a, &s));
		add_key(g, "order", "rgb");
		scale_pixels(g, t);
		if (keys_fit(g) && looks_like(t, g->item->data, g->item->bytes) > 0.7)
			return set_reading(g, t, &s,
					   channels[i] == 4 ? "an RGBA image" : "a gray image");
	}
	restore_keys(g, start);
	return false;
}

static bool guess_pixels(struct guesser *g, enum dtype t)
{
	enum axes axes;
	int64_t c, h, w;
	struct saved start = save_keys(g);

	if (!want_image(g->m->want, &axes, &c, &h, &w) || c == 1 || h < 2 || w < 2 ||
	    axes_last(axes) || g->keys.layout || !looks_hwc(t, g->item->data, h, w, c))
		return false;
	add_key(g, "layout", "hwc");
	if (!keys_fit(g)) {
		restore_keys(g, start);
		return false;
	}
	scale_pixels(g, t);
	bool one = g->fit.src.n == 1;
	struct shape s = shape_of(3, (int64_t[]){h, w, c});
	return set_reading(g, t, one ? &s : &g->fit.file,
			   one ? "an HWC image without batch axis" : "HWC images");
}

/*
 * Returns the score of looks_like() for the wanted type if the file holds a whole number of batch
 * items, else 0. Another type is proposed only if its score is higher.
 */
static double score_of_batch_items(const struct guesser *g)
{
	const struct want *w = g->m->want;
	size_t expect;

	if (w->shape.rank < 2 || w->shape.dim[0] < 2 || !shape_known(&w->shape) ||
	    !dtype_bytes(w->dtype, shape_count(&w->shape), &expect) || !expect)
		return 0;
	expect /= (size_t)w->shape.dim[0];
	if (!g->item->bytes || !expect || g->item->bytes % expect)
		return 0;
	return looks_like(w->dtype, g->item->data, g->item->bytes);
}

/*
 * Guesses the type of a raw file: among the types with which the file's size fits, the one whose
 * elements look most plausible.
 */
static bool guess_raw(struct guesser *g)
{
	static const enum dtype types[] = {DT_F32, DT_U8,  DT_F64, DT_F16, DT_I64, DT_I32, DT_BF16,
					   DT_I8,  DT_I16, DT_U16, DT_U32, DT_U64, DT_BOOL};
	struct saved start = save_keys(g);
	enum dtype best = DT_NONE;
	double score = fmax(0.7, score_of_batch_items(g));

	for (size_t i = 0; i < sizeof(types) / sizeof(*types) && !g->keys.dtype; i++) {
		g->keys.dtype = types[i];
		double like = keys_fit(g) ? looks_like(types[i], g->item->data, g->item->bytes) : 0;
		if (like > score) {
			score = like;
			best = types[i];
		}
		restore_keys(g, start);
	}
	if (best) {
		add_key(g, "dtype", dtype_name(best));
		keys_fit(g);
		struct shape s = g->fit.shape;
		if (guess_pixels(g, best))
			return true;
		scale_pixels(g, best);
		return set_reading(g, best, &s, type_note(g, best));
	}
	restore_keys(g, start);
	enum dtype given[] = {g->keys.dtype ? g->keys.dtype : g->m->want->dtype, DT_U8};
	return guess_channels(g, given[0]) || (!g->keys.dtype && guess_channels(g, given[1]));
}

/* ---- another file format under a raw file's name */

static bool guess_other_kind(struct guesser *g, struct item *npy)
{
	const struct item *it = g->item;
	struct saved start = save_keys(g);
	struct image im;

	if (it->kind != IO_RAW || !it->data)
		return false;
	if (it->bytes >= 10 && !memcmp(it->data, "\x93NUMPY", 6) &&
	    item_npy(it->data, it->bytes, it->bytes, "", npy, g->a, NULL) == 0) {
		g->item = npy;
		add_key(g, "format", "npy");
		if (keys_fit(g) || guess_typed(g))
			return set_reading(g, npy->dtype, &npy->shape,
					   arena_printf(g->a,
							"an .npy file, with a header of %zu bytes",
							npy->header));
		restore_keys(g, start);
		g->item = it;
		g->added.n = 0;
		return set_reading(g, npy->dtype, &npy->shape, "an .npy file");
	}
	if (image_kind(it->data, it->bytes) &&
	    !image_head(it->data, it->bytes, &im, E_INPUT_FORMAT, NULL)) {
		if (!g->keys.as_stored)
			(void)image_upright(it->data, it->bytes, &im, NULL);
		*npy = (struct item){
			.kind = IO_IMAGE, .count = -1, .dtype = im.bits == 16 ? DT_U16 : DT_U8};
		npy->shape = shape_of(3, (int64_t[]){im.height, im.width, im.channels});
		const char *note = arena_printf(g->a, "a %s picture", image_kind_name(im.kind));
		g->item = npy;
		add_key(g, "format", "image");
		if (keys_fit(g) || guess_typed(g))
			return set_reading(g, npy->dtype, &npy->shape, note);
		restore_keys(g, start);
		g->added.n = 0;
		g->item = it;
		return set_reading(g, npy->dtype, &npy->shape, note);
	}
	return false;
}

/* ---- explanations that need no guess */

/* Describes a raw file only by the difference between its size and the expected size. */
static void describe_size(struct guesser *g, size_t expect)
{
	const struct shape *s = &g->m->want->shape;
	size_t have = g->item->bytes, batch = s->rank > 1 && s->dim[0] > 1 ? (size_t)s->dim[0] : 1;

	if (have && have < expect && have % (expect / batch) == 0)
		g->reads =
			arena_printf(g->a, "%zu of a batch of %zu", have / (expect / batch), batch);
	else if (have < expect)
		g->reads = arena_printf(g->a, "a file cut short: %s of %s bytes are missing",
					str_count(g->a, (int64_t)(expect - have)),
					str_count(g->a, (int64_t)expect));
	else if (have > expect && have % expect == 0)
		g->reads = arena_printf(g->a, "%zu tensors of this shape, one behind the other",
					have / expect);
	else if (have > expect)
		g->reads = arena_printf(g->a, "a file with %s bytes too many",
					str_count(g->a, (int64_t)(have - expect)));
}

/*
 * Returns the bytes of the wanted tensor with its free dimension set to 1, or 0 unless exactly one
 * dimension is free.
 */
static size_t bytes_of_one(const struct guesser *g)
{
	struct shape s = g->m->want->shape;
	size_t bytes;
	int free = 0;

	for (int i = 0; i < s.rank; i++) {
		free += s.dim[i] < 0;
		s.dim[i] = s.dim[i] < 0 ? 1 : s.dim[i];
	}
	return free == 1 && dtype_bytes(g->m->fit->from, shape_count(&s), &bytes) ? bytes : 0;
}

static void describe_file(struct guesser *g)
{
	const struct item *it = g->item;
	const struct fit *f = g->m->fit;
	size_t size = dtype_bits(f->from) / 8;
	int64_t want = shape_count(&g->m->want->shape);
	size_t expect;

	if (it->fortran || it->big_endian) {
		set_reading(g, it->dtype, &it->shape, f->why);
		return;
	}
	if (it->need > it->bytes) {
		g->reads = arena_printf(g->a,
					"a file cut short: %s of %s bytes of elements are missing",
					str_count(g->a, (int64_t)(it->need - it->bytes)),
					str_count(g->a, (int64_t)it->need));
		return;
	}
	if (it->kind != IO_RAW || g->keys.shape.rank >= 0)
		want = shape_count(&g->keys.shape);
	if (it->kind == IO_RAW && want > 0 && dtype_bytes(f->from, want, &expect)) {
		describe_size(g, expect);
		return;
	}
	size_t each = it->kind == IO_RAW && it->bytes ? bytes_of_one(g) : 0;
	if (each && it->bytes < each)
		g->reads = arena_printf(g->a, "a file cut short: %s of %s bytes are missing",
					str_count(g->a, (int64_t)(each - it->bytes)),
					str_count(g->a, (int64_t)each));
	else if (each && it->bytes % each)
		g->reads = arena_printf(g->a, "%zu of %s bytes each, and %s bytes more",
					it->bytes / each, str_count(g->a, (int64_t)each),
					str_count(g->a, (int64_t)(it->bytes % each)));
	else if (it->kind == IO_RAW && size && it->bytes % size)
		g->reads = arena_printf(g->a, "a file cut short: its last %s is not whole",
					dtype_name(f->from));
	else if (f->why)
		g->reads = f->why;
}

/* Returns the options that bind all free dimensions, each named once: "--dim batch=N --dim h=N". */
static const char *dim_options(const struct guesser *g)
{
	const struct want *w = g->m->want;
	struct str b = {.arena = g->a};

	for (int i = 0; i < w->shape.rank; i++) {
		int64_t dim = w->shape.dim[i];
		const char *name = dim_is_sym(dim) ? g->m->model->symbols[DIM_SYM_ID(dim)] : "?";
		bool seen = false;
		for (int k = 0; k < i; k++)
			seen |= dim_is_sym(dim) && w->shape.dim[k] == dim;
		if (dim >= 0 || seen)
			continue;
		if (*name == '?')
			str_addf(&b, "%s--dim %s.%d=N", b.n ? " " : "", w->name, i);
		else
			str_addf(&b, "%s--dim %s=N", b.n ? " " : "", name);
	}
	return arena_printf(g->a, "%s (all of them, or all but one)", str_get(&b));
}

/*
 * Returns the name of the first free dimension in the form that --dim accepts, followed by `tail`:
 * "batch=0".
 */
static const char *free_dim_option(const struct guesser *g, const char *tail)
{
	const struct want *w = g->m->want;
	int i = 0;

	while (i + 1 < w->shape.rank && w->shape.dim[i] >= 0)
		i++;
	const char *name = dim_is_sym(w->shape.dim[i]) && g->m->model->symbols
				   ? g->m->model->symbols[DIM_SYM_ID(w->shape.dim[i])]
				   : "?";
	return *name == '?' ? arena_printf(g->a, "%s.%d%s", w->name, i, tail)
			    : arena_printf(g->a, "%s%s", name, tail);
}

/* Whether the file is one row of a batch that an option has set: a picture, or an array whose other dimensions fit. */
static bool is_one_of_batch(const struct guesser *g)
{
	const struct shape *want = &g->m->want->shape, *have = &g->item->shape;

	if (!g->m->because || want->rank < 2 || want->dim[0] < 2 ||
	    strtoll(g->m->because, NULL, 10) != want->dim[0])
		return false;
	if (g->item->kind == IO_IMAGE)
		return true;
	bool fits = have->rank == want->rank && have->dim[0] == 1;
	for (int i = 1; fits && i < want->rank; i++)
		fits = want->dim[i] < 0 || want->dim[i] == have->dim[i];
	return fits;
}

static const char *remedy(const struct guesser *g)
{
	const struct item *it = g->item;

	if (it->fortran)
		return "saving it in C order: numpy.save(file, numpy.ascontiguousarray(a))";
	if (it->big_endian)
		return "saving it little-endian: numpy.save(file, a.astype(a.dtype.newbyteorder('<')))";
	if ((it->dtype == DT_C64 || it->dtype == DT_C128) && g->m->fit->code == E_INPUT_TYPE)
		return "saving what the model takes of it: numpy.save(file, a.real), a.imag or abs(a)";
	if (it->descr)
		return "saving it as another type: numpy.save(file, a.astype(...))";
	if (g->reads && !strcmp(g->reads, "an empty file"))
		return arena_printf(g->a, "another file, or --dim %s where no element is meant",
				    free_dim_option(g, "=0"));
	if (g->reads && str_starts(g->reads, "a file cut short"))
		return "copying or making the file again";
	if (is_one_of_batch(g))
		return arena_printf(
			g->a,
			"leaving out what sets %s: one file is one row of a batch; infer run --input 'FOLDER/*' "
			"--batch %" PRId64 " stacks %" PRId64 " files",
			g->m->because_label, g->m->want->shape.dim[0], g->m->want->shape.dim[0]);
	const struct input_spec *spec = &g->m->source->spec;
	if (spec->literal && spec->file[strspn(spec->file, "0123456789.eE+-")] == '\0')
		return arena_printf(g->a, "--random %s=%s..%s, which fills the whole input with %s",
				    g->m->want->name, spec->file, spec->file, spec->file);
	if (g->m->fit->code == E_DIM)
		return g->m->want->shape.rank < 0 ? "--input FILE,shape=..." : dim_options(g);
	return arena_printf(
		g->a,
		"another file, with the type and shape that the model expects, or random values: --random %s=0..1",
		g->m->want->name);
}

/* ---- rows */

static const char *input_option(struct guesser *g)
{
	const struct input_spec *s = &g->m->source->spec;
	struct str b = {.arena = g->a};

	if (s->name)
		str_addf(&b, "%s=", s->name);
	else if (g->m->named)
		str_addf(&b, "%s=", g->m->want->name);
	str_add(&b, s->listed_by ? s->listed_by : s->file);
	if (s->member)
		str_addf(&b, ":%s", s->member);
	if (*kept_keys(g))
		str_addf(&b, ",%s", kept_keys(g));
	if (g->added.n)
		str_addf(&b, ",%s", str_get(&g->added));
	return arena_printf(g->a, "--input %s", str_quoted(g->a, str_get(&b)));
}

struct row {
	const char *what, *elements, *bytes;
};

/*
 * Describes the tensor that the model expects: type and shape ("f32 [batch,3,4]"), number of
 * elements, and bytes. If one dimension is free, the numbers are given as multiples of its size:
 * "batch x 12 elements".
 */
static struct row want_row(struct guesser *g)
{
	const struct want *w = g->m->want;
	struct row r = {.elements = "", .bytes = ""};
	struct shape s = w->shape;
	int free = -1, nfree = 0;
	size_t bytes;

	r.what = arena_printf(g->a, "%s %s", dtype_name(w->dtype),
			      shape_str(g->a, &s, g->m->model->symbols));
	for (int i = 0; i < s.rank; i++)
		if (s.dim[i] < 0) {
			free = i;
			nfree++;
		}
	const char *times = "";
	if (nfree == 1) {
		int64_t dim = s.dim[free];
		times = arena_printf(g->a, "%s x ",
				     dim_is_sym(dim) && g->m->model->symbols
					     ? g->m->model->symbols[DIM_SYM_ID(dim)]
					     : "?");
		s.dim[free] = 1;
	}
	int64_t n = shape_count(&s);
	if (n < 0 || !dtype_bytes(w->dtype, n, &bytes))
		return r;
	r.elements =
		arena_printf(g->a, "%s%s element%s", times, str_count(g->a, n), n == 1 ? "" : "s");
	if (w->dtype != DT_STRING)
		r.bytes = arena_printf(g->a, "%s%s bytes", times, str_count(g->a, (int64_t)bytes));
	return r;
}

static struct row have_row(struct guesser *g)
{
	const struct item *it = &g->m->source->item;
	const struct fit *f = g->m->fit;
	struct row r = {.what = "", .elements = "", .bytes = ""};
	const char *type = it->dtype ? dtype_name(it->dtype) : it->descr ? it->descr : "";
	size_t bytes = it->bytes, want;

	if (it->shape.rank >= 0) {
		r.what = arena_printf(g->a, "%s%s%s%s", type, *type ? " " : "",
				      shape_str(g->a, &it->shape, NULL),
				      it->picture ? arena_printf(g->a, " (%s)", it->picture) : "");
	}
	bool text = it->kind == IO_TEXT || it->kind == IO_JSON;
	if (it->shape.rank >= 0 || text)
		r.elements = arena_printf(g->a, "%s element%s", str_count(g->a, f->count),
					  f->count == 1 ? "" : "s");
	if (text)
		return r;
	if ((!bytes || it->kind == IO_IMAGE) && it->dtype && it->dtype != DT_STRING)
		dtype_bytes(it->dtype, f->count, &bytes);
	r.bytes = arena_printf(g->a, "%s bytes", str_count(g->a, (int64_t)bytes));
	if (it->kind == IO_RAW && shape_known(&g->m->want->shape) &&
	    dtype_bytes(g->m->want->dtype, shape_count(&g->m->want->shape), &want) && want)
		r.bytes = arena_printf(g->a, "%s (%.1f %%)", r.bytes,
				       100.0 * (double)bytes / (double)want);
	return r;
}

/*
 * Returns the length of a text without " (...)" at its end, so that the numbers of two rows can be
 * aligned.
 */
static int number_width(const char *s)
{
	const char *paren = strstr(s, " (");

	return (int)(paren ? (size_t)(paren - s) : strlen(s));
}

/*
 * Returns a row as one text. Each column is padded to the wider of both rows, so that the two rows
 * are aligned.
 */
static const char *align_columns(struct arena *a, const struct row *r, const struct row *other)
{
	struct str b = {.arena = a};
	int what = (int)strlen(r->what), w2 = (int)strlen(other->what), most = what > w2 ? what : w2;
	int e = (int)strlen(r->elements), e2 = (int)strlen(other->elements),
	    elements = e > e2 ? e : e2;
	int bytes = number_width(r->bytes) > number_width(other->bytes) ? number_width(r->bytes)
									: number_width(other->bytes);

	str_addf(&b, "%-*s", most, r->what);
	if (elements)
		str_addf(&b, "  %*s", elements, r->elements);
	if (*r->bytes)
		str_addf(&b, "  %*s%s", bytes - number_width(r->bytes), "", r->bytes);
	while (b.n && b.s[b.n - 1] == ' ')
		b.s[--b.n] = '\0';
	return str_get(&b);
}

/*
 * Returns the code to report. A wrong rank is reported as a wrong layout if a guessed layout
 * corrects the rank.
 */
static enum code final_code(const struct guesser *g, bool guessed)
{
	enum code code = g->m->fit->code;

	if (guessed && code == E_INPUT_RANK && g->keys.layout && !g->m->source->spec.keys.layout)
		return E_INPUT_LAYOUT;
	return code;
}

static int report_mismatch(struct guesser *g, bool guessed, struct diag *d)
{
	struct row want = want_row(g), have = have_row(g);
	const struct input_spec *s = &g->m->source->spec;
	const char *file = !strcmp(s->file, "-") ? "standard input" : path_base(s->file);
	struct diag_row rows[8];
	size_t n = 0;

	rows[n++] = (struct diag_row){"model expects", align_columns(g->a, &want, &have)};
	if (g->m->because)
		rows[n++] = (struct diag_row){g->m->because_label, g->m->because};
	rows[n++] = (struct diag_row){arena_printf(g->a, "%s has", file),
				      align_columns(g->a, &have, &want)};
	if (g->reads)
		rows[n++] = (struct diag_row){
			"reads as",
			g->note ? arena_printf(g->a, "%s (%s)", g->reads, g->note) : g->reads};
	const char *fix = guessed && (g->added.n || g->left_out) ? input_option(g) : remedy(g);
	rows[n++] = (struct diag_row){"try", fix};
	return FAIL(d, final_code(g, guessed),
		    .message = fmt(d, "input '%s' does not fit the model; nothing was read into it",
				   g->m->want->name),
		    .expected = fmt(d, "%s", rows[0].text),
		    .actual = fmt(d, "%s", align_columns(g->a, &have, &(struct row){"", "", ""})),
		    .hint = fmt(d, "%s", fix), .rows = rows, .nrows = n);
}

static int explain_sound(const struct mismatch *m, struct diag *d)
{
	const struct sound *s = &m->source->item.sound;
	const struct want *w = m->want;
	const int rank = w->shape.rank;
	bool wide = s->channels > 1 &&
		    (rank == 1 || (rank > 1 && w->shape.dim[rank - 2] != s->channels));
	bool numbers = w->dtype != DT_STRING && dtype_class(w->dtype) != DT_FLOAT;

	return FAIL(
		d, m->fit->code, .slot = fmt(d, "input '%s'", w->name),
		.message = fmt(d, "%s does not fit the model; nothing was read", m->source->spec.file),
		.expected = fmt(d, "%s %s", dtype_name(w->dtype),
				shape_str(&d->arena, &w->shape, m->model->symbols)),
		.actual = fmt(d, "%s f32 [%d,%" PRId64 "]: channels and samples of %" PRId64 " Hz",
			      s->format, s->channels, s->frames, s->rate),
		.hint = wide	  ? "add the key mono, which takes the mean of the channels"
			: numbers ? "samples are from -1 to 1; for integers of 16 bits add scale=32768"
				  : "take as much as the model takes with start= and duration=, walk along it "
				    "with --slice, or change its rate with rate=");
}

int input_explain(const struct mismatch *m, struct diag *d)
{
	struct item other;

	if (!d)
		return -(int)m->fit->code;
	if (m->fit->code == E_INPUT_KEY)
		return FAIL(d, E_INPUT_KEY, .slot = fmt(d, "input '%s'", m->want->name),
			    .message = m->fit->why,
			    .hint = m->source->item.kind == IO_IMAGE && m->source->spec.keys.dtype
					    ? "leave dtype= out: the bytes of a picture become the model's type"
					    : NULL);
	if (m->source->item.kind == IO_SOUND)
		return explain_sound(m, d);
	struct guesser g = {.m = m,
			    .a = &d->arena,
			    .item = &m->source->item,
			    .keys = m->source->spec.keys,
			    .added.arena = &d->arena};
	bool typed = g.item->dtype != DT_NONE || g.item->shape.rank >= 0;
	bool broken = g.item->fortran || g.item->big_endian || g.item->need > g.item->bytes ||
		      g.item->descr || g.item->count >= 0;
	bool guessed = !broken &&
		       (guess_other_kind(&g, &other) || (typed ? guess_typed(&g) : guess_raw(&g)));
	if (g.item->count >= 0 && g.item->shape.rank >= 0)
		guessed = guess_typed(&g);
	if (!guessed && g.item->kind == IO_IMAGE)
		guessed = guess_needless_key(&g);
	if (!guessed) {
		restore_keys(&g, (struct saved){m->source->spec.keys, 0});
		describe_file(&g);
	}
	return report_mismatch(&g, guessed, d);
}
