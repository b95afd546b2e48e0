/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/move.h"

#include "base/arena.h"
#include "base/pool.h"
#include "ops/ints.h"

/* ---- spreading and packing ------------------------------------------------------------------ */

static bool needs_spreading(enum dtype t)
{
	return t == DT_STRING || dtype_bits(t) < 8;
}

size_t move_size(enum dtype t)
{
	return t == DT_STRING ? sizeof(struct text) : dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

void *move_spread(const struct tensor *t)
{
	int64_t n = tensor_count(t);
	enum dtype type = tensor_dtype(t);
	unsigned bits = dtype_bits(type), per = bits && bits < 8 ? 8 / bits : 1;
	size_t bytes;

	if (n < 0 || !size_mul((size_t)n, move_size(type), &bytes))
		return NULL;
	void *p = mem_alloc(bytes + 1, MEM_WORKSPACE);
	if (!p)
		return NULL;
	if (type == DT_STRING) {
		struct text *v = p;
		for (int64_t i = 0; i < n; i++)
			v[i].s = tensor_string(t, i, &v[i].n);
	} else if (bits < 8) {
		const uint8_t *src = t->data;
		for (int64_t i = 0; i < n; i++)
			((uint8_t *)p)[i] =
				(uint8_t)(src[i / per] >> (i % per * bits) & ((1u << bits) - 1));
	} else if (bytes) {
		memcpy(p, t->data, bytes);
	}
	return p;
}

static int pack_strings(const struct call *c, uint32_t i, const struct shape *s, const struct text *v)
{
	int64_t n = shape_count(s);
	const char **text = mem_alloc((size_t)n * sizeof(*text) + 1, MEM_WORKSPACE);
	size_t *length = mem_alloc((size_t)n * sizeof(*length) + 1, MEM_WORKSPACE);
	int err;

	for (int64_t k = 0; text && length && k < n; k++) {
		text[k] = v[k].s ? v[k].s : "";
		length[k] = v[k].n;
	}
	err = text && length ? call_strings(c, i, s, text, length)
			     : call_fail(c, E_MEMORY, NULL, NULL);
	mem_free(text);
	mem_free(length);
	return err;
}

static void pack_bits(enum dtype t, const uint8_t *src, int64_t n, uint8_t *dst)
{
	unsigned bits = dtype_bits(t), per = 8 / bits;

	for (int64_t k = 0; k < n; k += per) {
		unsigned b = 0;
		for (unsigned j = 0; j < per && k + j < n; j++)
			b |= (unsigned)src[k + j] << j * bits;
		dst[k / per] = (uint8_t)b;
	}
}

int move_pack(const struct call *c, uint32_t i, enum dtype t, const struct shape *s, const void *data)
{
	int64_t n = shape_count(s);

	if (t == DT_STRING)
		return pack_strings(c, i, s, data);
	int err = call_alloc(c, i, t, s);
	if (err || !n)
		return err;
	if (dtype_bits(t) < 8)
		pack_bits(t, data, n, c->out[i]->data);
	else
		move_bytes(c->out[i]->data, data, (size_t)n * dtype_bits(t) / 8);
	return 0;
}

struct tensor *move_tensor(struct arena *a, enum dtype t, const struct shape *s, const void *data)
{
	struct tensor *x = tensor_new(a, t, s);
	int64_t n = shape_count(s);

	if (!x)
		return NULL;
	if (t == DT_STRING) {
		const struct text *v = data;
		struct str_ref *ref = x->data;
		for (int64_t i = 0; i < n; i++) {
			ref[i] = (struct str_ref){x->blob_bytes, v[i].n};
			x->blob_bytes += v[i].n;
		}
		x->blob = arena_alloc(a, x->blob_bytes + 1);
		for (int64_t i = 0; i < n; i++)
			if (v[i].n)
				memcpy(x->blob + ref[i].offset, v[i].s, v[i].n);
	} else if (dtype_bits(t) < 8) {
		pack_bits(t, data, n, x->data);
	} else if (n) {
		memcpy(x->data, data, (size_t)n * dtype_bits(t) / 8);
	}
	return x;
}

int out_ready(const struct call *c, uint32_t i, enum dtype t, const struct shape *s)
{
	return c->step->dynamic ? call_alloc(c, i, t, s) : 0;
}

static int run_spread(struct mover *m, enum dtype t, int (*core)(struct mover *))
{
	const struct call *c = m->call;
	uint32_t nin = c->step->nin, nout = c->step->nout;
	size_t bytes = (nin + nout) * sizeof(void *) + nout * sizeof(struct shape);
	void **all = mem_zalloc(bytes + 1, MEM_WORKSPACE);
	int err = 0;

	if (!all)
		return call_fail(c, E_MEMORY, NULL, NULL);
	m->in = all;
	m->out = all + nin;
	m->shape = (void *)(all + nin + nout);
	m->size = move_size(t);
	for (uint32_t i = 0; i < nin && !err; i++) {
		if (!c->in[i] || c->in[i]->type.kind != V_TENSOR || tensor_dtype(c->in[i]) != t)
			continue;
		m->in[i] = move_spread(c->in[i]);
		if (!m->in[i])
			err = call_fail(c, E_MEMORY, NULL, NULL);
	}
	if (!err)
		err = core(m);
	for (uint32_t i = 0; i < nout && !err; i++)
		if (m->out[i])
			err = move_pack(c, i, t, &m->shape[i], m->out[i]);
	for (uint32_t i = 0; i < nin + nout; i++)
		mem_free(all[i]);
	mem_free(all);
	return err;
}

int move_run(const struct call *c, uint32_t like, int (*core)(struct mover *))
{
	enum dtype t = tensor_dtype(c->in[like]);
	struct mover m = {.call = c, .size = dtype_bits(t) / 8};

	return needs_spreading(t) ? run_spread(&m, t, core) : core(&m);
}

const void *move_in(const struct mover *m, uint32_t i)
{
	return m->in && m->in[i] ? m->in[i] : m->call->in[i]->data;
}

void *move_out(struct mover *m, uint32_t i, const struct shape *s)
{
	const struct call *c = m->call;
	const struct tensor *like = c->in[0] && c->in[0]->type.kind == V_TENSOR ? c->in[0] : NULL;
	size_t bytes;

	if (!m->in) {
		enum dtype t = c->out[i] && c->out[i]->type.dtype ? tensor_dtype(c->out[i])
			       : like				  ? tensor_dtype(like)
								  : DT_NONE;
		return out_ready(c, i, t, s) ? NULL : c->out[i]->data;
	}
	if (m->out[i])
		return m->out[i];
	int64_t n = shape_count(s);
	if (n < 0 || !size_mul((size_t)n, m->size, &bytes) ||
	    !(m->out[i] = mem_zalloc(bytes + 1, MEM_WORKSPACE))) {
		call_fail(c, E_MEMORY, NULL, NULL);
		return NULL;
	}
	m->shape[i] = *s;
	return m->out[i];
}

/* ---- strided copies -------------------------------------------------------------------------- */

static enum layout layout_of_most(const struct site *s, uint32_t images)
{
	int64_t last = 0, rows = 0;

	for (uint32_t i = 0; i < images; i++) {
		const struct vinfo *v = site_in(s, i);
		int64_t n = v ? shape_count(&v->shape) : 0;
		if (!v || v->shape.rank < 3 || v->shape.rank > 5 || n < 0)
			return LAYOUT_ROW;
		rows += v->layout == LAYOUT_ROW ? n : 0;
		last += v->layout == LAYOUT_CHANNELS_LAST ? n : 0;
	}
	return last > rows ? LAYOUT_CHANNELS_LAST : LAYOUT_ROW;
}

enum layout move_in_layout(struct site *s, struct step *step, uint32_t images)
{
	enum layout l = layout_of_most(s, images);

	if (l == LAYOUT_ROW)
		return l;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	for (uint32_t i = 0; i < s->node->nin; i++)
		want[i] = i < images ? l : LAYOUT_ROW;
	for (uint32_t i = 0; i < s->node->nout; i++)
		give[i] = l;
	step->want = want;
	step->give = give;
	return l;
}

int stored_dim(int i, int rank, enum layout l)
{
	return l == LAYOUT_ROW || i == 0 ? i : i == 1 ? rank - 1 : i - 1;
}

struct shape stored_shape(const struct shape *s, enum layout l)
{
	struct shape to = {.rank = s->rank};

	for (int i = 0; i < s->rank; i++)
		to.dim[stored_dim(i, s->rank, l)] = s->dim[i];
	return to;
}

void dense_strides(const struct shape *s, int64_t *strides)
{
	int64_t step = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		strides[i] = step;
		step *= s->dim[i] ? s->dim[i] : 1;
	}
}

void strided_set(struct strided *s, int rank, const int64_t *n, const int64_t *in, const int64_t *out)
{
	*s = (struct strided){.total = 1, .tile = -1};
	for (int i = 0; i < rank; i++)
		if (!n[i])
			s->total = 0;
	for (int i = 0; i < rank && s->total; i++) {
		int k = s->rank - 1;
		s->total *= n[i];
		if (n[i] == 1)
			continue;
		if (k >= 0 && s->in[k] == in[i] * n[i] && s->out[k] == out[i] * n[i]) {
			s->n[k] *= n[i];
			s->in[k] = in[i];
			s->out[k] = out[i];
			continue;
		}
		s->n[s->rank] = n[i];
		s->in[s->rank] = in[i];
		s->out[s->rank++] = out[i];
	}
	int last = s->rank - 1;
	if (s->total && last > 0 && s->out[last] == 1 && s->in[last] != 1 && s->in[last] != 0)
		for (int i = 0; i < last; i++)
			if (s->in[i] == 1 && s->n[i] > 3)
				s->tile = i;
}

void fill_run(void *dst, const void *src, int64_t n, size_t size)
{
	if (size == 1)
		memset(dst, *(const uint8_t *)src, (size_t)n);
	else if (size == 4)
		for (int64_t i = 0; i < n; i++)
			((uint32_t *)dst)[i] = *(const uint32_t *)src;
	else if (size == 8)
		for (int64_t i = 0; i < n; i++)
			((uint64_t *)dst)[i] = *(const uint64_t *)src;
	else if (size == 2)
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)dst)[i] = *(const uint16_t *)src;
	else
		for (int64_t i = 0; i < n; i++)
			copy_run((char *)dst + (size_t)i * size, src, size);
}

#define STRIDED_LOOP(type)                                                                         \
	do {                                                                                       \
		const type *a = src;                                                               \
		type *b = dst;                                                                     \
		if (is == 2 && os == 1) /* the compiler has shuffles for it */                     \
			for (int64_t i = 0; i < n; i++)                                            \
				b[i] = a[2 * i];                                                   \
		else                                                                               \
			for (int64_t i = 0; i < n; i++)                                            \
				b[i * os] = a[i * is];                                             \
	} while (0)

struct wide {
	uint64_t v[2];
};

/* Copies n elements with stride `is` at src and stride `os` at dst, both in elements of `size` bytes. */
static void copy_row(void *dst, const void *src, int64_t n, int64_t is, int64_t os, size_t size)
{
	if (is == 1 && os == 1)
		copy_run(dst, src, (size_t)n * size);
	else if (is == 0 && os == 1)
		fill_run(dst, src, n, size);
	else if (size == 4)
		STRIDED_LOOP(uint32_t);
	else if (size == 8)
		STRIDED_LOOP(uint64_t);
	else if (size == 2)
		STRIDED_LOOP(uint16_t);
	else if (size == 1)
		STRIDED_LOOP(uint8_t);
	else
		STRIDED_LOOP(struct wide);
}

struct job {
	const struct strided *s;
	const char *in;
	char *out;
	size_t size;
	int dims;      /* number of leading dims that are divided among the threads */
	int64_t block; /* for a transposition: how many elements of the tiled dimension a piece covers */
	int64_t blocks;
};

/*
 * Sets the index `at` and the offsets *in and *out of iteration k over the first `dims` dimensions, leaving out
 * dimension `skip`.
 */
static void offsets_of(const struct strided *s, int dims, int skip, int64_t k, int64_t *at,
		       int64_t *in, int64_t *out)
{
	*in = *out = 0;
	for (int i = dims - 1; i >= 0; i--) {
		if (i == skip)
			continue;
		at[i] = k % s->n[i];
		k /= s->n[i];
		*in += at[i] * s->in[i];
		*out += at[i] * s->out[i];
	}
}

/* Copies rows of `size` bytes, whose beginnings are is and os bytes apart. A short row of a known length takes a few instructions. */
static void copy_rows(char *dst, const char *src, int64_t rows, int64_t is, int64_t os, size_t bytes)
{
#define ROWS_OF(length)                                                                            \
	if (bytes == (length)) {                                                                   \
		for (int64_t i = 0; i < rows; i++)                                                 \
			memcpy(dst + i * os, src + i * is, length);                                \
		return;                                                                            \
	}
	ROWS_OF(8)
	ROWS_OF(16)
	ROWS_OF(32)
	ROWS_OF(64)
#undef ROWS_OF
	for (int64_t i = 0; i < rows; i++)
		copy_run(dst + i * os, src + i * is, bytes);
}

/* Copies the rows begin to end - 1; those along the last dimension but one are copied together. */
static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct strided *s = j->s;
	int last = s->rank - 1, d = last - 1;
	bool dense = s->in[last] == 1 && s->out[last] == 1;
	int64_t at[MAX_RANK], in, out, rows, size = (int64_t)j->size;

	(void)thread;
	offsets_of(s, last, -1, begin, at, &in, &out);
	for (int64_t k = begin; k < end; k += rows) {
		rows = s->n[d] - at[d] < end - k ? s->n[d] - at[d] : end - k;
		if (dense)
			copy_rows(j->out + out * size, j->in + in * size, rows, s->in[d] * size,
				  s->out[d] * size, (size_t)(s->n[last] * size));
		for (int64_t i = 0; !dense && i < rows; i++)
			copy_row(j->out + (out + i * s->out[d]) * size,
				 j->in + (in + i * s->in[d]) * size, s->n[last], s->in[last],
				 s->out[last], j->size);
		in += s->in[d] * (rows - 1);
		out += s->out[d] * (rows - 1);
		at[d] += rows - 1;
		for (int i = d; i >= 0; i--) {
			in += s->in[i];
			out += s->out[i];
			if (++at[i] < s->n[i])
				break;
			in -= s->in[i] * s->n[i];
			out -= s->out[i] * s->n[i];
			at[i] = 0;
		}
	}
}

/* Copies a piece, the elements begin to end - 1, of a copy that has only one dimension. */
static void row_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct strided *s = j->s;
	int64_t size = (int64_t)j->size, is = s->in[0], os = s->out[0];

	(void)thread;
	copy_row(j->out + begin * os * size, j->in + begin * is * size, end - begin, is, os, j->size);
}

typedef uint32_t v4u32 __attribute__((vector_size(16)));

/* Transposes a tile of 4 x 4 32-bit elements: rows of a (stride as) become columns of b (stride bs). */
static inline void tile4(const uint32_t *a, int64_t as, uint32_t *b, int64_t bs)
{
	v4u32 r0, r1, r2, r3;

	memcpy(&r0, a, 16);
	memcpy(&r1, a + as, 16);
	memcpy(&r2, a + 2 * as, 16);
	memcpy(&r3, a + 3 * as, 16);
	v4u32 t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
	      t1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
	v4u32 t2 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),
	      t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
	r0 = __builtin_shufflevector(t0, t1, 0, 1, 4, 5);
	r1 = __builtin_shufflevector(t0, t1, 2, 3, 6, 7);
	r2 = __builtin_shufflevector(t2, t3, 0, 1, 4, 5);
	r3 = __builtin_shufflevector(t2, t3, 2, 3, 6, 7);
	memcpy(b, &r0, 16);
	memcpy(b + bs, &r1, 16);
	memcpy(b + 2 * bs, &r2, 16);
	memcpy(b + 3 * bs, &r3, 16);
}

typedef uint16_t v8u16 __attribute__((vector_size(16)));
typedef uint8_t v16u8 __attribute__((vector_size(16)));
typedef uint64_t v2u64 __attribute__((vector_size(16)));

/* LOWn and HIGHn interleave the low or the high halves of two vectors, in units of n bits. */
#define LOW16(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW32(a, b)  __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11)
#define HIGH32(a, b) __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15)
#define LOW64(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH64(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

/* Transposes a tile of 8 x 8 elements of two bytes. */
static inline void tile8x2(const uint16_t *a, int64_t as, uint16_t *b, int64_t bs)
{
	v8u16 r[8], t[8];

	for (int i = 0; i < 8; i++)
		memcpy(&r[i], a + i * as, 16);
	for (int i = 0; i < 4; i++) {
		t[2 * i] = LOW16(r[2 * i], r[2 * i + 1]);
		t[2 * i + 1] = HIGH16(r[2 * i], r[2 * i + 1]);
	}
	for (int i = 0; i < 2; i++) {
		r[4 * i] = LOW32(t[4 * i], t[4 * i + 2]);
		r[4 * i + 1] = HIGH32(t[4 * i], t[4 * i + 2]);
		r[4 * i + 2] = LOW32(t[4 * i + 1], t[4 * i + 3]);
		r[4 * i + 3] = HIGH32(t[4 * i + 1], t[4 * i + 3]);
	}
	for (int i = 0; i < 4; i++) {
		t[2 * i] = LOW64(r[i], r[i + 4]);
		t[2 * i + 1] = HIGH64(r[i], r[i + 4]);
	}
	for (int i = 0; i < 8; i++)
		memcpy(b + i * bs, &t[i], 16);
}

/*
 * Transposes a tile of 8 x 8 bytes. Interleaving the bytes of two rows gives one row of 8 elements of two bytes;
 * interleaving such rows again gives elements of four bytes, and then elements of eight bytes, which are the result's
 * rows.
 */
static inline void tile8x1(const uint8_t *a, int64_t as, uint8_t *b, int64_t bs)
{
	v16u8 r[8];
	v8u16 p[4], q[4];

	for (int i = 0; i < 8; i++) {
		uint64_t w;
		memcpy(&w, a + i * as, 8);
		r[i] = (v16u8)(v2u64){w, 0};
	}
	for (int i = 0; i < 4; i++)
		p[i] = (v8u16)__builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 16, 1, 17, 2, 18,
						      3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	for (int i = 0; i < 2; i++) {
		q[2 * i] = LOW16(p[2 * i], p[2 * i + 1]);
		q[2 * i + 1] = HIGH16(p[2 * i], p[2 * i + 1]);
	}
	p[0] = LOW32(q[0], q[2]);
	p[1] = HIGH32(q[0], q[2]);
	p[2] = LOW32(q[1], q[3]);
	p[3] = HIGH32(q[1], q[3]);
	for (int i = 0; i < 8; i++) {
		uint64_t w = ((v2u64)p[i / 2])[i % 2];
		memcpy(b + i * bs, &w, 8);
	}
}

#define SMALL_TILES(type, tile)                                                                    \
	do {                                                                                       \
		const type *a = src;                                                               \
		type *b = dst;                                                                     \
		int64_t x8 = nx & ~(int64_t)7, y8 = ny & ~(int64_t)7;                              \
		for (int64_t x = 0; x < x8; x += 8) {                                              \
			for (int64_t y = 0; y < y8; y += 8)                                        \
				tile(a + y * is + x, is, b + x * os + y, os);                      \
			for (int64_t y = y8; y < ny; y++)                                          \
				for (int64_t i = x; i < x + 8; i++)                                \
					b[i * os + y] = a[y * is + i];                             \
		}                                                                                  \
		for (int64_t x = x8; x < nx; x++)                                                  \
			for (int64_t y = 0; y < ny; y++)                                           \
				b[x * os + y] = a[y * is + x];                                     \
	} while (0)

#define TILE_LOOP(type)                                                                            \
	do {                                                                                       \
		const type *a = src;                                                               \
		type *b = dst;                                                                     \
		for (int64_t x = 0; x < nx; x++)                                                   \
			for (int64_t y = 0; y < ny; y++)                                           \
				b[x * os + y] = a[y * is + x];                                     \
	} while (0)

enum { LINE = 64 }; /* bytes that come from memory at once */

/* The block after one that is transposed: where it begins, and how many rows it has. */
struct ahead {
	const char *from;
	char *to;
	int64_t rows;
};

/*
 * Transposes a block: b[x][y] = a[y][x]. x has stride 1 in a and `os` in b; y has stride `is` in a and 1 in b. Blocks of
 * four-byte elements ask meanwhile for the lines of the next block, which no machine foresees, because they lie a row apart.
 */
static void transpose_block(const void *src, void *dst, int64_t nx, int64_t ny, int64_t is,
			    int64_t os, size_t size, const struct ahead *next)
{
	if (size == 4) {
		const uint32_t *a = src;
		uint32_t *b = dst;
		int64_t rows = next->rows;
		int64_t x4 = nx & ~(int64_t)3, y4 = ny & ~(int64_t)3, asked = 0;
		for (int64_t x = 0; x < x4; x += 4) {
			for (; asked * nx < rows * (x + 4) && asked < rows; asked++)
				for (int64_t i = 0; i < nx; i += LINE / 4)
					__builtin_prefetch(next->from + (asked * is + i) * 4);
			for (int64_t i = x; i < x + 4; i++)
				for (int64_t y = 0; y < rows; y += LINE / 4)
					__builtin_prefetch(next->to + (i * os + y) * 4, 1);
			for (int64_t y = 0; y < y4; y += 4)
				tile4(a + y * is + x, is, b + x * os + y, os);
			for (int64_t y = y4; y < ny; y++)
				for (int64_t i = x; i < x + 4; i++)
					b[i * os + y] = a[y * is + i];
		}
		for (int64_t x = x4; x < nx; x++)
			for (int64_t y = 0; y < ny; y++)
				b[x * os + y] = a[y * is + x];
	} else if (size == 8) {
		TILE_LOOP(uint64_t);
	} else if (size == 2) {
		SMALL_TILES(uint16_t, tile8x2);
	} else if (size == 1) {
		SMALL_TILES(uint8_t, tile8x1);
	} else {
		TILE_LOOP(struct wide);
	}
}

enum { TILE_X = 64, TILE_Y = 32 };

/*
 * Transposes the pieces begin to end - 1. There is one piece for each block of TILE_X elements along the tiled
 * dimension and each combination of indices of the dimensions other than the tiled and the last one.
 */
static void tile_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct strided *s = j->s;
	int last = s->rank - 1, t = s->tile;
	int64_t at[MAX_RANK], in, out, size = (int64_t)j->size, is = s->in[last], os = s->out[t];

	(void)thread;
	for (int64_t k = begin; k < end; k++) {
		int64_t x = k % j->blocks * TILE_X;
		int64_t nx = s->n[t] - x < TILE_X ? s->n[t] - x : TILE_X;
		offsets_of(s, last, t, k / j->blocks, at, &in, &out);
		const char *a = j->in + (in + x) * size;
		char *b = j->out + (out + x * os) * size;
		for (int64_t y = 0; y < s->n[last]; y += TILE_Y) {
			int64_t ny = s->n[last] - y < TILE_Y ? s->n[last] - y : TILE_Y;
			bool below = y + TILE_Y < s->n[last], beside = x + TILE_X < s->n[t];
			int64_t left = below ? s->n[last] - y - TILE_Y : beside ? s->n[last] : 0;
			struct ahead next = {below ? a + (y + TILE_Y) * is * size : a + TILE_X * size,
					     below ? b + (y + TILE_Y) * size : b + TILE_X * os * size,
					     left < TILE_Y ? left : TILE_Y};
			transpose_block(a + y * is * size, b + y * size, nx, ny, is, os, j->size,
					&next);
		}
	}
}

void strided_copy(const struct strided *s, const void *in, void *out, size_t size)
{
	struct job j = {.s = s, .in = in, .out = out, .size = size};
	int last = s->rank - 1;

	if (!s->total)
		return;
	if (!s->rank) {
		copy_run(out, in, size);
		return;
	}
	if (s->rank == 1) {
		pool_for(s->n[0], MOVE_GRAIN / (int64_t)size, row_piece, &j);
		return;
	}
	if (s->tile >= 0) {
		j.blocks = (s->n[s->tile] + TILE_X - 1) / TILE_X;
		int64_t pieces = s->total / s->n[s->tile] / s->n[last] * j.blocks;
		pool_for(pieces, move_grain(TILE_X * s->n[last] * (int64_t)size), tile_piece, &j);
		return;
	}
	pool_for(s->total / s->n[last], move_grain(s->n[last] * (int64_t)size), rows_piece, &j);
}

struct bytes_job {
	char *dst;
	const char *src;
};

static void bytes_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct bytes_job *j = arg;

	(void)thread;
	memcpy(j->dst + begin, j->src + begin, (size_t)(end - begin));
}

void move_bytes(void *dst, const void *src, size_t bytes)
{
	struct bytes_job j = {dst, src};

	if (bytes && dst != src)
		pool_for((int64_t)bytes, 4 * MOVE_GRAIN, bytes_piece, &j);
}

bool site_list(const struct site *s, uint32_t i, struct int_list *out)
{
	const struct tensor *t = site_known(s, i);

	if (t)
		return list_of(t, out);
	return list_of_info(site_in(s, i), out);
}

int site_fail(const struct site *s, struct diag *d, enum code code, const char *expected,
	      const char *actual)
{
	return FAIL(d, code, .node = s->node->origin->name, .op = s->node->origin->op,
		    .expected = expected, .actual = actual);
}
