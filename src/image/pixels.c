/* SPDX-License-Identifier: Apache-2.0 */
#include "image/pixels.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

bool resize_to(const struct resize *r, int64_t width, int64_t height, int64_t *w2, int64_t *h2)
{
	*w2 = width;
	*h2 = height;
	if (!r->given)
		return true;
	if (width < 1 || height < 1)
		return false;
	*w2 = r->width;
	*h2 = r->height;
	if (!*w2)
		*w2 = llround((double)width * (double)*h2 / (double)height);
	else if (!*h2)
		*h2 = llround((double)height * (double)*w2 / (double)width);
	*w2 = *w2 < 1 ? 1 : *w2;
	*h2 = *h2 < 1 ? 1 : *h2;
	return *w2 < INT32_MAX && *h2 < INT32_MAX;
}

int64_t order_channels(enum channel_order order, int64_t c)
{
	if (order == ORDER_NONE)
		return c;
	if (c < 1 || c > 4)
		return -1;
	return order == ORDER_GRAY ? 1 : 3;
}

/* ---- arithmetic */

static void apply_arithmetic(float *v, int64_t n, const struct arithmetic *m, int channel)
{
	float scale = (float)m->scale;
	float mean = m->nmean ? (float)m->mean[m->nmean > 1 ? channel : 0] : 0;
	float std = m->nstd ? (float)m->std[m->nstd > 1 ? channel : 0] : 1;

	for (int64_t i = 0; i < n; i++)
		v[i] = (v[i] * scale - mean) / std;
}

/*
 * Stores floats as elements of any type. For integer types the floats are rounded and clamped to
 * the type's range; NaN becomes 0.
 */
static void store_row(enum dtype t, float *v, int64_t n, void *dst, int64_t first)
{
	bool is_signed = dtype_class(t) == DT_INT;

	if (t != DT_BOOL && (is_signed || dtype_class(t) == DT_UINT)) {
		unsigned bits = dtype_bits(t);
		float least = is_signed ? -ldexpf(1, (int)bits - 1) : 0;
		float most = ldexpf(1, (int)bits - is_signed) - 1;
		for (int64_t i = 0; i < n; i++) {
			float r = rintf(v[i]);
			v[i] = r < least ? least : r > most ? most : r == r ? r : 0;
		}
	}
	from_f32(t, v, n, dst, first);
}

/*
 * Converts elements without arithmetic. Integers do not pass through doubles, so 64-bit values stay
 * exact.
 */
static void copy_elements(enum dtype from, const void *src, enum dtype to, void *dst, int64_t count)
{
	bool whole = dtype_class(from) == DT_INT || dtype_class(from) == DT_UINT;

	for (int64_t i = 0; i < count; i++)
		if (whole && (dtype_class(to) == DT_INT || dtype_class(to) == DT_UINT))
			elem_set_i64(to, dst, i, elem_i64(from, src, i));
		else
			elem_set_f64(to, dst, i, elem_f64(from, src, i));
}

void elements_convert(enum dtype from, const void *src, enum dtype to, void *dst, int64_t count,
		      const struct arithmetic *math, int64_t channel, int64_t channels)
{
	enum { CHUNK = 1024 };
	float v[CHUNK];

	if (!math->given) {
		copy_elements(from, src, to, dst, count);
		return;
	}
	bool one = math->nmean <= 1 && math->nstd <= 1;
	for (int64_t i = 0; i < count;) {
		int64_t left = one ? count - i : channel - i % channel;
		int64_t n = left < CHUNK ? left : CHUNK;
		if (n > count - i)
			n = count - i;
		to_f32(from, src, i, n, v);
		apply_arithmetic(v, n, math, one ? 0 : (int)(i / channel % channels));
		store_row(to, v, n, dst, i);
		i += n;
	}
}

/* ---- pictures */

/*
 * For each output column (or row), the two source columns (or rows) between which it lies, and the
 * weight of the second one.
 */
struct axis_map {
	/*
	 * number of output columns (or rows) that the picture covers inside a letterbox, and the
	 * first of them
	 */
	int64_t inner, from;
	int64_t *left, *right;
	float *part;
};

struct converter {
	const struct pixels *src, *dst;
	const struct resize *resize;
	enum channel_order order;
	const struct arithmetic *math;
	struct axis_map x, y;
	float *row[2],
		/*
		 * row[]: two source rows; mixed: their interpolation; each has w * c values,
		 * channels last
		 */
		*mixed;
	/*
	 * If bytes_last() holds, two source rows take this form instead: the pixels to the left of each output column, then
	 * those to the right. A pixel is a word whose lowest byte is its first channel.
	 */
	uint32_t *picked[2];
	int64_t held[2]; /* numbers of the source rows in row[] or picked[]; -1: none */
	float *out;	 /* one output row */
	float *plane;	 /* one channel of a row */
};

/*
 * True for decoded pictures of up to 4 channels of a byte each, whose output channels each depend on one source channel.
 * For these only the pixels that the output needs are converted.
 */
static bool bytes_last(const struct converter *k)
{
	const struct pixels *s = k->src;

	return s->dtype == DT_U8 && axes_last(s->axes) && s->c <= 4 &&
	       (k->order != ORDER_GRAY || s->c <= 2);
}

static void fill_map(struct axis_map *m, int64_t size)
{
	for (int64_t i = 0; i < m->inner; i++) {
		double at = ((double)i + 0.5) * (double)size / (double)m->inner - 0.5;
		at = at < 0 ? 0 : at > (double)(size - 1) ? (double)(size - 1) : at;
		m->left[i] = (int64_t)at;
		m->right[i] = m->left[i] + 1 < size ? m->left[i] + 1 : size - 1;
		m->part[i] = (float)(at - (double)m->left[i]);
	}
}

static void place_in_output(struct converter *k)
{
	const struct pixels *s = k->src, *t = k->dst;
	double r = fmin((double)t->w / (double)s->w, (double)t->h / (double)s->h);

	k->x.inner = t->w;
	k->y.inner = t->h;
	if (k->resize->given && k->resize->letterbox) {
		int64_t w = llround((double)s->w * r), h = llround((double)s->h * r);
		k->x.inner = w < 1 ? 1 : w > t->w ? t->w : w;
		k->y.inner = h < 1 ? 1 : h > t->h ? t->h : h;
	}
	k->x.from = (t->w - k->x.inner) / 2;
	k->y.from = (t->h - k->y.inner) / 2;
}

static bool allocate_buffers(struct converter *k, struct arena *a)
{
	const struct pixels *s = k->src, *t = k->dst;
	size_t in = (size_t)s->w * (size_t)s->c, out = (size_t)t->w * (size_t)t->c;

	place_in_output(k);
	struct axis_map *maps[] = {&k->x, &k->y};
	for (int i = 0; i < 2; i++) {
		size_t n = (size_t)maps[i]->inner;
		maps[i]->left = arena_new_n(a, int64_t, n);
		maps[i]->right = arena_new_n(a, int64_t, n);
		maps[i]->part = arena_new_n(a, float, n);
	}
	fill_map(&k->x, s->w);
	fill_map(&k->y, s->h);
	size_t widest = (size_t)(s->w > t->w ? s->w : t->w);
	size_t most = (size_t)(s->c > t->c ? s->c : t->c);
	k->out = mem_alloc((out > (size_t)t->w * most ? out : (size_t)t->w * most) * sizeof(float),
			   MEM_STAGING);
	k->plane = mem_alloc(widest * sizeof(float), MEM_STAGING);
	if (bytes_last(k)) {
		for (int i = 0; i < 2; i++)
			k->picked[i] = arena_new_n(a, uint32_t, 2 * (size_t)k->x.inner);
		return k->out && k->plane;
	}
	for (int i = 0; i < 2; i++)
		k->row[i] = mem_alloc(in * sizeof(float), MEM_STAGING);
	k->mixed = mem_alloc(in * sizeof(float), MEM_STAGING);
	return k->row[0] && k->row[1] && k->mixed && k->out && k->plane;
}

/* Loads row y of picture n as floats, channels last. */
static void load_row(const struct converter *k, int64_t n, int64_t y, float *row)
{
	const struct pixels *s = k->src;

	if (axes_last(s->axes)) {
		to_f32(s->dtype, s->data, (n * s->h + y) * s->w * s->c, s->w * s->c, row);
		return;
	}
	for (int64_t c = 0; c < s->c; c++) {
		to_f32(s->dtype, s->data, ((n * s->c + c) * s->h + y) * s->w, s->w, k->plane);
		for (int64_t x = 0; x < s->w; x++)
			row[x * s->c + c] = k->plane[x];
	}
}

static const float *source_row(struct converter *k, int64_t n, int64_t y)
{
	int slot = (int)(y & 1);

	if (k->held[slot] != y)
		load_row(k, n, y, k->row[slot]);
	k->held[slot] = y;
	return k->row[slot];
}

/*
 * Computes row y of the resized picture by bilinear interpolation, into k->out. The row still has
 * the channels of the source.
 */
static void resample_row(struct converter *k, int64_t n, int64_t y)
{
	const struct pixels *s = k->src;
	int64_t c = s->c, row = s->w * c;
	float part = k->y.part[y];
	const float *a = source_row(k, n, k->y.left[y]), *b = a;

	if (part != 0) {
		b = source_row(k, n, k->y.right[y]);
		for (int64_t i = 0; i < row; i++)
			k->mixed[i] = a[i] + (b[i] - a[i]) * part;
		a = k->mixed;
	}
	float *out = k->out + k->x.from * c;
	if (k->x.inner == s->w) {
		memcpy(out, a, (size_t)row * sizeof(float));
		return;
	}
	for (int64_t x = 0; x < k->x.inner; x++) {
		const float *l = a + k->x.left[x] * c, *r = a + k->x.right[x] * c;
		for (int64_t i = 0; i < c; i++)
			*out++ = l[i] + (r[i] - l[i]) * k->x.part[x];
	}
}

/*
 * Reorders the channels of one pixel. `from` and `to` may overlap, because the pixel is copied
 * first.
 */
static void reorder_pixel(enum channel_order order, const float *from, int64_t c, float *to)
{
	float v[4];

	memcpy(v, from, (size_t)c * sizeof(float));
	if (c <= 2) /* the source is gray, so red, green and blue are equal */
		v[1] = v[2] = v[0];
	if (order == ORDER_GRAY) {
		to[0] = c <= 2 ? v[0] : 0.299f * v[0] + 0.587f * v[1] + 0.114f * v[2];
		return;
	}
	to[0] = order == ORDER_BGR ? v[2] : v[0];
	to[1] = v[1];
	to[2] = order == ORDER_BGR ? v[0] : v[2];
}

static void reorder(struct converter *k)
{
	int64_t c = k->src->c, c2 = k->dst->c, w = k->dst->w;

	if (k->order == ORDER_NONE)
		return;
	/*
	 * The row is converted in place. If pixels get more channels, begin with the last pixel, so
	 * that no pixel is overwritten before it is read.
	 */
	if (c2 > c)
		for (int64_t x = w - 1; x >= 0; x--)
			reorder_pixel(k->order, k->out + x * c, c, k->out + x * c2);
	else
		for (int64_t x = 0; x < w; x++)
			reorder_pixel(k->order, k->out + x * c, c, k->out + x * c2);
}

/* ---- pictures of bytes */

/* Loads the `bytes` (1 to 4) bytes at p, which begin with the channels of one pixel, as one little-endian number. */
static inline uint32_t read_pixel(const unsigned char *p, int64_t bytes)
{
	uint32_t v = p[0];

	for (int i = 1; i < bytes; i++)
		v |= (uint32_t)p[i] << 8 * i;
	return v;
}

static inline void pick_columns(const struct axis_map *m, const unsigned char *row, int64_t c,
				int64_t bytes, uint32_t *to)
{
	for (int64_t x = 0; x < m->inner; x++) {
		to[x] = read_pixel(row + m->left[x] * c, bytes);
		to[m->inner + x] = read_pixel(row + m->right[x] * c, bytes);
	}
}

static const uint32_t *picked_row(struct converter *k, int64_t n, int64_t y)
{
	const struct pixels *s = k->src;
	const unsigned char *row = (const unsigned char *)s->data + (n * s->h + y) * s->w * s->c;
	int slot = (int)(y & 1);
	uint32_t *to = k->picked[slot];

	if (k->held[slot] == y)
		return to;
	k->held[slot] = y;
	if (s->c == 1)
		pick_columns(&k->x, row, 1, 1, to);
	else if (s->c == 2)
		pick_columns(&k->x, row, 2, 2, to);
	else if (s->c == 4)
		pick_columns(&k->x, row, 4, 4, to);
	else if (n == s->n - 1 && y == s->h - 1) /* no byte follows the last pixel */
		pick_columns(&k->x, row, 3, 3, to);
	else /* one load of 4 bytes is faster than loads of 3 */
		pick_columns(&k->x, row, 3, 4, to);
	return to;
}

/* The source channel of an output channel. */
static int64_t channel_from(const struct converter *k, int64_t c)
{
	if (k->order == ORDER_NONE)
		return c;
	if (k->src->c <= 2) /* the source is gray, so red, green and blue are equal */
		return 0;
	return k->order == ORDER_BGR ? 2 - c : c;
}

static inline float channel_of(uint32_t pixel, int shift)
{
	return (float)(int32_t)(pixel >> shift & 255);
}

/* Bilinear interpolation of one channel by the same operations as in resample_row(), so that the values are the same. */
static void interpolate_channel(const struct axis_map *m, const uint32_t *restrict a,
				const uint32_t *restrict b, float part, int shift, float *restrict out)
{
	const int64_t n = m->inner;
	const float *restrict across = m->part;

	for (int64_t x = 0; x < n; x++) {
		float l = channel_of(a[x], shift), r = channel_of(a[n + x], shift);
		l += (channel_of(b[x], shift) - l) * part;
		r += (channel_of(b[n + x], shift) - r) * part;
		out[x] = l + (r - l) * across[x];
	}
}

/* Computes channel c of row y of the output from a picture of bytes, into k->plane. y may be outside the picture. */
static void resample_channel(struct converter *k, int64_t n, int64_t y, int64_t c)
{
	bool inside = y >= 0 && y < k->y.inner;

	if (!inside || k->x.inner < k->dst->w)
		for (int64_t x = 0; x < k->dst->w; x++)
			k->plane[x] = (float)k->resize->pad;
	if (!inside)
		return;
	float part = k->y.part[y];
	const uint32_t *a = picked_row(k, n, k->y.left[y]);
	const uint32_t *b = part != 0 ? picked_row(k, n, k->y.right[y]) : a;
	interpolate_channel(&k->x, a, b, part, 8 * (int)channel_from(k, c), k->plane + k->x.from);
}

/* ---- rows of the output */

static void finish_row(struct converter *k, int64_t n, int64_t y)
{
	const struct pixels *t = k->dst;
	bool last = axes_last(t->axes), bytes = bytes_last(k);

	if (!bytes)
		reorder(k);
	for (int64_t c = 0; c < t->c; c++) {
		if (bytes)
			resample_channel(k, n, y - k->y.from, c);
		for (int64_t x = 0; !bytes && x < t->w; x++)
			k->plane[x] = k->out[x * t->c + c];
		if (k->math->given)
			apply_arithmetic(k->plane, t->w, k->math, (int)c);
		if (!last)
			store_row(t->dtype, k->plane, t->w, t->data,
				  ((n * t->c + c) * t->h + y) * t->w);
		for (int64_t x = 0; last && x < t->w; x++)
			k->out[x * t->c + c] = k->plane[x];
	}
	if (last)
		store_row(t->dtype, k->out, t->w * t->c, t->data, (n * t->h + y) * t->w * t->c);
}

/* Computes row y of the output, into k->out. y may be outside the picture. */
static void resample_padded_row(struct converter *k, int64_t n, int64_t y)
{
	const struct pixels *s = k->src, *t = k->dst;
	bool inside = y >= 0 && y < k->y.inner;

	if (!inside || k->x.inner < t->w)
		for (int64_t i = 0; i < t->w * s->c; i++)
			k->out[i] = (float)k->resize->pad;
	if (inside)
		resample_row(k, n, y);
}

static void convert_rows(struct converter *k, int64_t n)
{
	k->held[0] = k->held[1] = -1;
	for (int64_t y = 0; y < k->dst->h; y++) {
		if (!bytes_last(k))
			resample_padded_row(k, n, y - k->y.from);
		finish_row(k, n, y);
	}
}

static bool exact_in_float(enum dtype t)
{
	return dtype_bits(t) <= (dtype_class(t) == DT_FLOAT ? 32 : 16);
}

/*
 * Changes only the order of the axes. Unlike the conversion through floats, this is exact for all
 * types.
 */
static void permute_axes(const struct pixels *s, const struct pixels *t)
{
	bool whole = dtype_class(s->dtype) == DT_INT || dtype_class(s->dtype) == DT_UINT;
	int64_t i = 0;

	whole = whole && (dtype_class(t->dtype) == DT_INT || dtype_class(t->dtype) == DT_UINT);
	for (int64_t n = 0; n < s->n; n++)
		for (int64_t y = 0; y < s->h; y++)
			for (int64_t x = 0; x < s->w; x++)
				for (int64_t c = 0; c < s->c; c++, i++) {
					int64_t hwc = ((n * s->h + y) * s->w + x) * s->c + c;
					int64_t chw = ((n * s->c + c) * s->h + y) * s->w + x;
					int64_t from = axes_last(s->axes) ? hwc : chw;
					int64_t to = axes_last(t->axes) ? hwc : chw;
					if (whole)
						elem_set_i64(t->dtype, t->data, to,
							     elem_i64(s->dtype, s->data, from));
					else
						elem_set_f64(t->dtype, t->data, to,
							     elem_f64(s->dtype, s->data, from));
				}
}

int pixels_convert(const struct pixels *src, const struct pixels *dst, const struct resize *resize,
		   enum channel_order order, const struct arithmetic *math, struct diag *d)
{
	struct converter k = {.src = src, .dst = dst, .resize = resize, .order = order, .math = math};
	struct arena a = {0};
	int rc = 0;

	if (!src->n || !src->c || !src->h || !src->w)
		return 0;
	if (!resize->given && !math->given && order == ORDER_NONE &&
	    (!exact_in_float(src->dtype) || !exact_in_float(dst->dtype))) {
		permute_axes(src, dst);
		return 0;
	}
	if (allocate_buffers(&k, &a))
		for (int64_t n = 0; n < src->n; n++)
			convert_rows(&k, n);
	else
		rc = FAIL(d, E_MEMORY, .message = "no memory to convert a picture");
	mem_free(k.row[0]);
	mem_free(k.row[1]);
	mem_free(k.mixed);
	mem_free(k.out);
	mem_free(k.plane);
	arena_free(&a);
	return rc;
}
