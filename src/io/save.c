/* SPDX-License-Identifier: Apache-2.0 */
/* Writes outputs to files. */
#include "base/hash.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tame.h"
#include "base/utf8.h"
#include "image/image.h"
#include "io/io.h"
#include "ir/safetensors.h"
#include "onnx/tensor_pb.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

const char *io_file_name(struct arena *a, const char *name)
{
	size_t n = strlen(name);
	char *s = arena_strn(a, name, n < IO_NAME_BYTES ? n : IO_NAME_BYTES);

	for (char *p = s, *end = s + strlen(s), shown[TAMED_BYTES]; p < end;) {
		size_t length = tame_char(p, (size_t)(end - p), false, shown);
		/* a character that would be shown by its number, or one that a shell may interpret */
		if (memcmp(shown, p, length) != 0 ||
		    (length == 1 && !isalnum((unsigned char)*p) && !strchr("._-+@", *p)))
			memset(p, '_', length);
		p += length;
	}
	if (*s == '.' || *s == '-')
		*s = '_';
	return *s ? s : "output";
}

int io_probe_folder(const char *dir, struct diag *d)
{
	struct arena a = {0};
	int rc = file_make_dir(dir, E_OUTPUT, d);

	if (!rc) {
		struct file_out *f = file_create(path_join(&a, dir, ".infer-probe"), E_OUTPUT, d);
		rc = f ? 0 : -E_OUTPUT;
		file_abort(f);
	}
	arena_free(&a);
	return rc;
}

/* ---- .npy */

/*
 * Returns numpy's name of the type. If numpy lacks the type, returns NULL and sets *as to a type
 * that can hold all its values.
 */
static const char *numpy_type(enum dtype t, enum dtype *as)
{
	static const struct {
		enum dtype t;
		const char *descr;
	} own[] = {
		{DT_F32, "<f4"}, {DT_F64, "<f8"},   {DT_F16, "<f2"}, {DT_I8, "|i1"},
		{DT_I16, "<i2"}, {DT_I32, "<i4"},   {DT_I64, "<i8"}, {DT_U8, "|u1"},
		{DT_U16, "<u2"}, {DT_U32, "<u4"},   {DT_U64, "<u8"}, {DT_BOOL, "|b1"},
		{DT_C64, "<c8"}, {DT_C128, "<c16"},
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (own[i].t == t)
			return own[i].descr;
	*as = dtype_class(t) == DT_FLOAT ? DT_F32 : dtype_class(t) == DT_INT ? DT_I8 : DT_U8;
	return NULL;
}

/*
 * Converts strings to numpy's type 'U': UTF-32, with every string padded to the longest, which has
 * *chars characters.
 */
static struct tensor *utf32_strings(const struct tensor *t, struct arena *a, size_t *chars)
{
	int64_t n = tensor_count(t);
	size_t bytes;

	*chars = 1;
	for (int64_t i = 0; i < n; i++) {
		size_t len, used = 0;
		const char *s = tensor_string(t, i, &len);
		for (const char *p = s; p < s + len; p += bytes, used++)
			utf8_get(p, s + len, &bytes);
		*chars = used > *chars ? used : *chars;
	}
	struct shape shape = {.rank = 2, .dim = {n, (int64_t)*chars}};
	struct tensor *out = tensor_new(a, DT_U32, &shape);
	for (int64_t i = 0; out && i < n; i++) {
		size_t len;
		const char *s = tensor_string(t, i, &len);
		uint32_t *to = (uint32_t *)out->data + (size_t)i * *chars;
		for (const char *p = s; p < s + len; p += bytes)
			*to++ = utf8_get(p, s + len, &bytes);
	}
	return out;
}

struct npy_image {
	const char *head; /* with magic and length */
	size_t head_bytes;
	const void *data;
	size_t bytes;
	void *owned;
};

static const char *npy_dict(struct arena *a, const char *type, const struct shape *s, size_t *n)
{
	struct str b = {.arena = a};

	str_addf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
	for (int i = 0; i < s->rank; i++)
		str_addf(&b, "%" PRId64 "%s", s->dim[i],
			 s->rank == 1	   ? ","
			 : i + 1 < s->rank ? ", "
					   : "");
	str_add(&b, "), }");
	while ((10 + b.n + 1) % 64)
		str_add(&b, " ");
	str_add(&b, "\n");
	char *head = arena_alloc(a, 10 + b.n + 1);
	memcpy(head, "\x93NUMPY\1\0", 8);
	head[8] = (char)(b.n & 0xff);
	head[9] = (char)(b.n >> 8);
	memcpy(head + 10, b.s, b.n);
	*n = 10 + b.n;
	return head;
}

/* Makes the content of an .npy file: head and data. The caller frees out->owned with mem_free(). */
static int npy_make(const struct tensor *t, const char *name, struct arena *a,
		    struct npy_image *out, struct diag *d)
{
	enum dtype type = tensor_dtype(t), as = type;
	const char *text = type == DT_STRING ? NULL : numpy_type(type, &as);
	int64_t n = tensor_count(t);

	*out = (struct npy_image){.data = t->data, .bytes = t->bytes};
	if (type == DT_STRING) {
		size_t chars;
		struct tensor *wide = utf32_strings(t, a, &chars);
		if (!wide)
			return FAIL(d, E_MEMORY, .message = fmt(d, "no memory to write '%s'", name));
		text = arena_printf(a, "<U%zu", chars);
		out->data = wide->data;
		out->bytes = wide->bytes;
	} else if (!text) {
		NOTE(d, E_OUTPUT,
		     .message = fmt(d, "numpy has no type %s: '%s' is written as %s",
				    dtype_name(type), name, dtype_name(as)));
		text = numpy_type(as, &as);
		out->bytes = (size_t)n * (dtype_bits(as) / 8);
		out->owned = mem_alloc(out->bytes + 1, MEM_STAGING);
		if (!out->owned)
			return FAIL(d, E_MEMORY, .message = fmt(d, "no memory to write '%s'", name));
		for (int64_t i = 0; i < n; i++)
			elem_set_f64(as, out->owned, i, elem_f64(type, t->data, i));
		out->data = out->owned;
	}
	out->head = npy_dict(a, text, &t->shape, &out->head_bytes);
	return 0;
}

/* ---- .npz: stored members, with all sizes in zip64 fields because a member may have 4 GiB and more */

struct zip_writer {
	struct file_out *f;
	struct str directory;
	uint64_t at, members;
};

static void add_le(struct str *b, uint64_t v, int bytes)
{
	char c[8];

	for (int i = 0; i < bytes; i++)
		c[i] = (char)(v >> (8 * i));
	str_add_n(b, c, (size_t)bytes);
}

/*
 * Writes the fields that local and central headers have in common. The 32-bit sizes get the value
 * that refers to the zip64 extra field.
 */
static void zip_fields(struct str *b, uint32_t crc, size_t name)
{
	add_le(b, 45, 2);    /* version that knows zip64 */
	add_le(b, 0x800, 2); /* names are UTF-8 */
	add_le(b, 0, 2);     /* stored */
	add_le(b, 0, 2);
	/* the date 1 January 1980, so that the same outputs always give the same file */
	add_le(b, 0x21, 2);
	add_le(b, crc, 4);
	add_le(b, 0xffffffff, 4);
	add_le(b, 0xffffffff, 4);
	add_le(b, name, 2);
}

static void zip_add(struct zip_writer *z, const char *name, const struct npy_image *m, struct arena *a)
{
	struct str b = {.arena = a}, *c = &z->directory;
	uint64_t bytes = m->head_bytes + m->bytes;
	uLong crc = crc32_z(0, (const Bytef *)m->head, m->head_bytes);
	size_t len = strlen(name);

	/*
	 * a tensor without elements has no data, and crc32_z() with a NULL pointer would restart the
	 * checksum
	 */
	if (m->bytes)
		crc = crc32_z(crc, m->data, m->bytes);
	add_le(&b, 0x04034b50, 4);
	zip_fields(&b, (uint32_t)crc, len);
	add_le(&b, 20, 2);
	str_add_n(&b, name, len);
	add_le(&b, 1, 2);
	add_le(&b, 16, 2);
	add_le(&b, bytes, 8);
	add_le(&b, bytes, 8);
	file_write(z->f, b.s, b.n);
	file_write(z->f, m->head, m->head_bytes);
	file_write(z->f, m->data, m->bytes);
	add_le(c, 0x02014b50, 4);
	add_le(c, 45, 2);
	zip_fields(c, (uint32_t)crc, len);
	add_le(c, 28, 2);
	add_le(c, 0, 2); /* comment */
	add_le(c, 0, 2);
	add_le(c, 0, 2);
	add_le(c, 0, 4);
	add_le(c, 0xffffffff, 4);
	str_add_n(c, name, len);
	add_le(c, 1, 2);
	add_le(c, 24, 2);
	add_le(c, bytes, 8);
	add_le(c, bytes, 8);
	add_le(c, z->at, 8);
	z->at += b.n + bytes;
	z->members++;
}

static void zip_finish(struct zip_writer *z, struct arena *a)
{
	struct str b = {.arena = a};
	uint64_t size = z->directory.n;

	add_le(&b, 0x06064b50, 4);
	add_le(&b, 44, 8);
	add_le(&b, 45, 2);
	add_le(&b, 45, 2);
	add_le(&b, 0, 4);
	add_le(&b, 0, 4);
	add_le(&b, z->members, 8);
	add_le(&b, z->members, 8);
	add_le(&b, size, 8);
	add_le(&b, z->at, 8);
	add_le(&b, 0x07064b50, 4);
	add_le(&b, 0, 4);
	add_le(&b, z->at + size, 8);
	add_le(&b, 1, 4);
	add_le(&b, 0x06054b50, 4);
	add_le(&b, 0, 4);
	add_le(&b, z->members < 0xffff ? z->members : 0xffff, 2);
	add_le(&b, z->members < 0xffff ? z->members : 0xffff, 2);
	add_le(&b, size < 0xffffffff ? size : 0xffffffff, 4);
	add_le(&b, z->at < 0xffffffff ? z->at : 0xffffffff, 4);
	add_le(&b, 0, 2);
	file_write(z->f, z->directory.s, z->directory.n);
	file_write(z->f, b.s, b.n);
}

/* ---- .json */

void io_json_element(struct json *j, const struct tensor *t, int64_t i)
{
	enum dtype type = tensor_dtype(t);
	size_t n;

	if (type == DT_STRING) {
		const char *s = tensor_string(t, i, &n);
		json_string_n(j, NULL, s, n);
	} else if (type == DT_BOOL) {
		json_bool(j, NULL, elem_i64(type, t->data, i) != 0);
	} else if (type == DT_U64) {
		json_uint(j, NULL, (uint64_t)elem_i64(type, t->data, i));
	} else if (dtype_class(type) == DT_COMPLEX) {
		enum dtype part = type == DT_C64 ? DT_F32 : DT_F64;
		json_number(j, NULL, elem_f64(part, t->data, 2 * i));
		json_number(j, NULL, elem_f64(part, t->data, 2 * i + 1));
	} else if (type == DT_F64) {
		json_number(j, NULL, elem_f64(type, t->data, i));
	} else if (dtype_class(type) == DT_FLOAT) {
		json_float(j, NULL, (float)elem_f64(type, t->data, i));
	} else {
		json_int(j, NULL, elem_i64(type, t->data, i));
	}
}

void io_json_shape(struct json *j, const struct shape *s)
{
	json_array(j, "shape");
	for (int i = 0; i < s->rank; i++)
		json_int(j, NULL, s->dim[i]);
	json_end(j, ']');
}

static void json_value(struct json *j, const char *key, const struct tensor *t, struct arena *a)
{
	json_object(j, key);
	json_string(j, "type", type_str(a, t->type));
	if (t->type.kind != V_TENSOR) {
		json_array(j, "items");
		for (size_t i = 0; i < t->nitems; i++)
			json_value(j, NULL, t->items[i], a);
		json_end(j, ']');
		json_end(j, '}');
		return;
	}
	json_string(j, "dtype", dtype_name(tensor_dtype(t)));
	io_json_shape(j, &t->shape);
	json_array(j, "data");
	for (int64_t i = 0, n = tensor_count(t); i < n; i++)
		io_json_element(j, t, i);
	json_end(j, ']');
	json_end(j, '}');
}

/* ---- maps, as a JSON object each */

static bool is_json_map(const struct tensor *t)
{
	const struct tensor *keys = t->nitems == 2 ? t->items[0] : NULL,
			    *values = keys ? t->items[1] : NULL;

	return keys && keys->type.kind == V_TENSOR && values->type.kind == V_TENSOR &&
	       tensor_count(keys) == tensor_count(values) &&
	       dtype_class(tensor_dtype(values)) != DT_COMPLEX;
}

/* Returns true for a map, and for a sequence of maps such as ZipMap gives, that JSON objects can hold. */
static bool holds_maps(const struct tensor *t)
{
	if (t->type.kind == V_MAP)
		return is_json_map(t);
	if (t->type.kind != V_SEQUENCE || t->type.of != V_MAP)
		return false;
	for (size_t i = 0; i < t->nitems; i++)
		if (t->items[i]->type.kind != V_MAP || !is_json_map(t->items[i]))
			return false;
	return true;
}

/* Writes a map on a line of its own. An integer key is written as decimal text. */
static void json_map(struct json *j, const struct tensor *t)
{
	const struct tensor *keys = t->items[0];
	enum dtype type = tensor_dtype(keys);
	char text[32];
	size_t n;

	json_object(j, NULL);
	j->one_line = true;
	for (int64_t i = 0, count = tensor_count(keys); i < count; i++) {
		const char *key = text;
		if (type == DT_STRING)
			key = tensor_string(keys, i, &n);
		else if (type == DT_U64)
			n = (size_t)snprintf(text, sizeof(text), "%" PRIu64,
					     (uint64_t)elem_i64(type, keys->data, i));
		else
			n = (size_t)snprintf(text, sizeof(text), "%" PRId64,
					     elem_i64(type, keys->data, i));
		json_key_n(j, key, n);
		io_json_element(j, t->items[1], i);
	}
	json_end(j, '}');
	j->one_line = false;
}

static void json_maps(struct json *j, const struct tensor *t)
{
	if (t->type.kind == V_MAP) {
		json_map(j, t);
		return;
	}
	json_array(j, NULL);
	for (size_t i = 0; i < t->nitems; i++)
		json_map(j, t->items[i]);
	json_end(j, ']');
}

static ssize_t cookie_write(void *f, const char *p, size_t n)
{
	file_write(f, p, n);
	return (ssize_t)n;
}

static int json_file(struct file_out *f, const struct tensor *t, struct arena *a, struct diag *d)
{
	FILE *stream = fopencookie(f, "w", (cookie_io_functions_t){.write = cookie_write});
	struct json j;

	if (!stream)
		return FAIL(d, E_MEMORY, .message = "no memory to write JSON");
	json_begin(&j, stream);
	if (holds_maps(t))
		json_maps(&j, t);
	else
		json_value(&j, NULL, t, a);
	json_finish(&j);
	fclose(stream);
	return 0;
}

/* ---- .png */

/*
 * Returns true if the tensor can be written as a picture, and sets channels, height and width.
 * *last is set if channels are the last axis.
 */
static bool picture_size(const struct tensor *t, int64_t *c, int64_t *h, int64_t *w, bool *last)
{
	int64_t d[3];
	int r = t->shape.rank;

	while (r > 3 && t->shape.dim[t->shape.rank - r] == 1)
		r--;
	if (r < 2 || r > 3 || tensor_dtype(t) == DT_STRING || !tensor_count(t))
		return false;
	const int64_t *dim = t->shape.dim + (t->shape.rank - r);
	d[0] = r == 3 ? dim[0] : 1;
	d[1] = dim[r - 2];
	d[2] = dim[r - 1];
	*last = r == 3 && d[0] > 4 && d[2] <= 4;
	*c = *last ? d[2] : d[0];
	*h = *last ? d[0] : d[1];
	*w = *last ? d[1] : d[2];
	return *c <= 4 && *h <= IMAGE_MAX_SIDE && *w <= IMAGE_MAX_SIDE &&
	       *h * *w * *c <= IMAGE_MAX_BYTES;
}

/*
 * Chooses a linear map of the values to 0..255: u8 stays; values from 0 to 1 are multiplied by 255;
 * others are stretched so that the smallest becomes 0 and the largest 255.
 */
static void choose_levels(const struct tensor *t, double *add, double *times)
{
	enum dtype type = tensor_dtype(t);
	double lo = INFINITY, hi = -INFINITY;

	*add = 0;
	*times = 1;
	if (type == DT_U8)
		return;
	for (int64_t i = 0, n = tensor_count(t); i < n; i++) {
		double v = elem_f64(type, t->data, i);
		lo = isfinite(v) && v < lo ? v : lo;
		hi = isfinite(v) && v > hi ? v : hi;
	}
	if (lo >= 0 && hi <= 1) {
		*times = 255;
	} else if (dtype_class(type) != DT_FLOAT && lo >= 0 && hi <= 255) {
		*times = 1;
	} else if (hi > lo) {
		*add = -lo;
		*times = 255 / (hi - lo);
	}
}

static void put_bytes(void *f, const void *p, size_t n)
{
	file_write(f, p, n);
}

static int png_file(struct file_out *f, const struct tensor *t, const char *name, struct diag *d)
{
	struct image im = {.kind = IMAGE_PNG, .bits = 8};
	double add, times;
	int64_t c;
	bool last;

	if (!picture_size(t, &c, &im.height, &im.width, &last))
		return FAIL(d, E_OUTPUT, .message = fmt(d, "output '%s' is no picture", name),
			    .expected = "[h,w], or 1 to 4 channels of it",
			    .actual = d ? shape_str(&d->arena, &t->shape, NULL) : "",
			    .hint = "save it as npy");
	im.channels = (int)c;
	im.pixels = mem_alloc((size_t)(c * im.width * im.height), MEM_STAGING);
	if (!im.pixels)
		return FAIL(d, E_MEMORY, .message = "no memory to write a picture");
	choose_levels(t, &add, &times);
	int64_t plane = im.width * im.height;
	for (int64_t i = 0; i < plane; i++)
		for (int64_t k = 0; k < c; k++) {
			int64_t from = last ? i * c + k : k * plane + i;
			double v = rint((elem_f64(tensor_dtype(t), t->data, from) + add) * times);
			im.pixels[i * c + k] = (unsigned char)(v >= 255 ? 255 : v > 0 ? v : 0);
		}
	int rc = image_write_png(&im, put_bytes, f, d);
	image_free(&im);
	return rc;
}

/* ---- one file an output */

static const char *const endings[] = {".npy",  ".npz", ".pb",	      ".bin",
				      ".json", ".png", ".safetensors"};

static int bin_file(struct file_out *f, const struct tensor *t, const char *name, struct diag *d)
{
	if (tensor_dtype(t) == DT_STRING)
		return FAIL(d, E_OUTPUT, .message = fmt(d, "output '%s' holds strings", name),
			    .expected = "numbers, for bare bytes", .hint = "save it as json");
	file_write(f, t->data, t->bytes);
	return 0;
}

static int write_file(const char *path, enum io_format format, const struct tensor *t,
		      const char *name, struct arena *a, struct diag *d)
{
	struct npy_image npy = {0};
	struct file_out *f;
	int rc = 0;

	if (format == IO_SAVE_PB)
		return tensor_pb_write(path, t, name, d);
	if (format == IO_SAVE_NPY && (rc = npy_make(t, name, a, &npy, d)))
		return rc;
	f = file_create(path, E_OUTPUT, d);
	if (!f) {
		mem_free(npy.owned);
		return -E_OUTPUT;
	}
	if (format == IO_SAVE_NPY) {
		file_write(f, npy.head, npy.head_bytes);
		file_write(f, npy.data, npy.bytes);
	} else if (format == IO_SAVE_BIN) {
		rc = bin_file(f, t, name, d);
	} else if (format == IO_SAVE_JSON) {
		rc = json_file(f, t, a, d);
	} else {
		rc = png_file(f, t, name, d);
	}
	mem_free(npy.owned);
	if (!rc)
		return file_commit(f, d);
	file_abort(f);
	return rc;
}

/*
 * One tensor of a sequence, map or optional. Most formats hold one tensor per file, so each tensor
 * gets its own file.
 */
struct part {
	const char *name;
	const struct tensor *t;
};

static size_t count_parts(const struct tensor *t)
{
	size_t n = 0;

	if (!t || t->type.kind == V_NONE)
		return 0;
	if (t->type.kind == V_TENSOR)
		return 1;
	for (size_t i = 0; i < t->nitems; i++)
		n += count_parts(t->items[i]);
	return n;
}

static void add_parts(const struct tensor *t, const char *name, struct part *to, size_t *n,
		      struct arena *a)
{
	if (!t || t->type.kind == V_NONE)
		return;
	if (t->type.kind == V_TENSOR) {
		to[(*n)++] = (struct part){name, t};
		return;
	}
	for (size_t i = 0; i < t->nitems; i++) {
		const char *key = i ? "values" : "keys";
		if (t->type.kind == V_OPTIONAL)
			add_parts(t->items[i], name, to, n, a);
		else if (t->type.kind == V_MAP)
			add_parts(t->items[i], arena_printf(a, "%s.%s", name, key), to, n, a);
		else
			add_parts(t->items[i], arena_printf(a, "%s.%zu", name, i), to, n, a);
	}
}

/*
 * Returns a path in dir that no other output of this run has. Appends a number if the name is
 * already taken.
 */
static const char *unique_path(struct map *taken, const char *dir, const char *name,
			       const char *ending, struct arena *a)
{
	const char *base = io_file_name(a, name), *path;

	for (unsigned k = 0;; k++) {
		path = arena_printf(a, k ? "%s_%u%s" : "%s%.0u%s", base, k, ending);
		if (map_set(taken, path, strlen(path), 0))
			return path_join(a, dir, path);
	}
}

/* Adds a part to an archive, whose names of members are unique and whose fields for their lengths have 16 bits. */
static int add_member(struct zip_writer *z, const struct part *p, struct map *names,
		      struct arena *a, struct diag *d)
{
	const char *member = arena_printf(a, "%s.npy", p->name);
	struct npy_image m;

	if (strlen(member) > UINT16_MAX || !map_set(names, p->name, strlen(p->name), 0))
		return FAIL(d, E_OUTPUT,
			    .message = fmt(d, "an .npz file cannot name an array '%s'%s", p->name,
					   strlen(member) > UINT16_MAX ? "" : " twice"),
			    .hint = "save the outputs as npy");
	int rc = npy_make(p->t, p->name, a, &m, d);
	if (!rc)
		zip_add(z, member, &m, a);
	mem_free(m.owned);
	return rc;
}

static int save_npz(const char *path, const struct part *parts, size_t n, struct arena *a,
		    struct diag *d)
{
	struct zip_writer z = {.directory.arena = a};
	struct map names = {.arena = a};
	int rc = 0;

	z.f = file_create(path, E_OUTPUT, d);
	if (!z.f)
		return -E_OUTPUT;
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_member(&z, &parts[i], &names, a, d);
	if (rc) {
		file_abort(z.f);
		return rc;
	}
	zip_finish(&z, a);
	return file_commit(z.f, d);
}

/* Returns the type in which the format holds the tensor: its own, or else one that holds all its values. DT_NONE if there is none. */
static enum dtype safetensors_as(const struct tensor *t)
{
	enum dtype type = tensor_dtype(t);

	if (type == DT_STRING || type == DT_C128)
		return DT_NONE;
	/* elements may not end within a byte */
	if (safetensors_type(type) && (uint64_t)tensor_count(t) * dtype_bits(type) % 8 == 0)
		return type;
	return dtype_class(type) == DT_FLOAT ? DT_F32 : dtype_class(type) == DT_INT ? DT_I8 : DT_U8;
}

/* Writes a tensor's elements, converted to another type a piece at a time. */
static void write_as(struct file_out *f, const struct tensor *t, enum dtype as)
{
	char piece[4096];
	int64_t n = tensor_count(t), most = (int64_t)sizeof(piece) / (dtype_bits(as) / 8);

	for (int64_t i = 0, k; i < n; i += k) {
		k = n - i < most ? n - i : most;
		for (int64_t e = 0; e < k; e++)
			elem_set_f64(as, piece, e, elem_f64(tensor_dtype(t), t->data, i + e));
		file_write(f, piece, (size_t)k * (dtype_bits(as) / 8));
	}
}

/* Lists a part, and its number `k` under its name. */
static int list_part(const struct part *p, uint32_t k, struct safetensor *to, struct map *names,
		     struct diag *d)
{
	enum dtype type = tensor_dtype(p->t), as = safetensors_as(p->t);
	size_t bytes;

	if (!as)
		return FAIL(d, E_OUTPUT,
			    .message = fmt(d, "output '%s' is of type %s", p->name, dtype_name(type)),
			    .expected = "a type that .safetensors files hold",
			    .hint = "save it as npz or json");
	if (!strcmp(p->name, "__metadata__") || !map_set(names, p->name, strlen(p->name), k))
		return FAIL(d, E_OUTPUT,
			    .message = fmt(d, "a .safetensors file cannot name a tensor '%s'%s",
					   p->name, *p->name == '_' ? "" : " twice"),
			    .hint = "save the outputs as npz");
	if (as != type)
		NOTE(d, E_OUTPUT,
		     .message = fmt(
			     d, "a .safetensors file does not hold '%s' as %s: it is written as %s",
			     p->name, dtype_name(type), dtype_name(as)));
	if (!dtype_bytes(as, tensor_count(p->t), &bytes))
		return FAIL(d, E_OUTPUT, .message = fmt(d, "output '%s' is too large", p->name));
	*to = (struct safetensor){.name = p->name, .dtype = as, .shape = p->t->shape, .bytes = bytes};
	return 0;
}

static int save_safetensors(const char *path, const struct part *parts, size_t n, struct arena *a,
			    struct diag *d)
{
	struct safetensor *list = arena_new_n(a, struct safetensor, n + 1);
	struct map names = {.arena = a};
	size_t head_bytes;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++)
		rc = list_part(&parts[i], (uint32_t)i, &list[i], &names, d);
	if (rc)
		return rc;
	const void *head = safetensors_make(list, n, a, &head_bytes);
	struct file_out *f = file_create(path, E_OUTPUT, d);
	if (!f)
		return -E_OUTPUT;
	file_write(f, head, head_bytes);
	for (size_t i = 0; i < n; i++) {
		const struct tensor *t = parts[map_get(&names, list[i].name, strlen(list[i].name))].t;
		if (list[i].dtype == tensor_dtype(t))
			file_write(f, t->data, t->bytes);
		else
			write_as(f, t, list[i].dtype);
	}
	return file_commit(f, d);
}

static int save_parts(const char *dir, enum io_format format, const struct io_output *out,
		      const char **path, struct map *taken, struct arena *a, struct diag *d)
{
	struct part *parts = arena_new_n(a, struct part, count_parts(out->tensor) + 1);
	size_t n = 0;
	int rc = 0;

	add_parts(out->tensor, out->name, parts, &n, a);
	if (!n)
		NOTE(d, E_OUTPUT,
		     .message = fmt(d, "output '%s' is empty; no file is written", out->name));
	for (size_t i = 0; !rc && i < n; i++) {
		const char *file = unique_path(taken, dir, parts[i].name, endings[format], a);
		rc = write_file(file, format, parts[i].t, parts[i].name, a, d);
		*path = *path ? *path : file;
	}
	return rc;
}

/* Returns true for a format of which one file holds all outputs. */
static bool is_one_file(enum io_format format)
{
	return format == IO_SAVE_NPZ || format == IO_SAVE_SAFETENSORS;
}

static const char *one_file(const char *dir, enum io_format format, struct arena *a)
{
	return path_join(a, dir, arena_printf(a, "outputs%s", endings[format]));
}

int io_save_one(const char *path, enum io_format format, const struct io_output *out, size_t n,
		const char **paths, struct arena *a, struct diag *d)
{
	size_t total = 0, used = 0;

	for (size_t i = 0; i < n; i++)
		total += count_parts(out[i].tensor);
	struct part *parts = arena_new_n(a, struct part, total + 1);
	for (size_t i = 0; i < n; i++)
		add_parts(out[i].tensor, out[i].name, parts, &used, a);
	int rc = format == IO_SAVE_NPZ ? save_npz(path, parts, used, a, d)
				       : save_safetensors(path, parts, used, a, d);
	for (size_t i = 0; i < n; i++)
		paths[i] = path;
	return rc;
}

int io_save(const char *dir, enum io_format format, const struct io_output *out, size_t n,
	    const char **paths, struct arena *a, struct diag *d)
{
	struct map taken = {.arena = a};
	int rc = 0;

	memset(paths, 0, n * sizeof(*paths));
	if (is_one_file(format))
		return io_save_one(one_file(dir, format, a), format, out, n, paths, a, d);
	for (size_t i = 0; !rc && i < n; i++) {
		const struct tensor *t = out[i].tensor;
		bool value = t && t->type.kind != V_NONE;
		/* keys and values in files of their own would have to be matched by whoever reads them */
		enum io_format as =
			value && format != IO_SAVE_PB && holds_maps(t) ? IO_SAVE_JSON : format;
		if (value && (as == IO_SAVE_PB || as == IO_SAVE_JSON)) {
			paths[i] = as == IO_SAVE_PB
					   ? path_join(a, dir, arena_printf(a, "output_%zu.pb", i))
					   : unique_path(&taken, dir, out[i].name, ".json", a);
			rc = write_file(paths[i], as, t, out[i].name, a, d);
		} else {
			rc = save_parts(dir, format, &out[i], &paths[i], &taken, a, d);
		}
	}
	return rc;
}

const char *io_last_file(const char *dir, enum io_format format, const struct io_output *out,
			 size_t n, struct arena *a)
{
	struct map taken = {.arena = a};
	const char *last = NULL;

	if (is_one_file(format))
		return one_file(dir, format, a);
	if (format == IO_SAVE_PB)
		return n ? path_join(a, dir, arena_printf(a, "output_%zu.pb", n - 1)) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct type t = out[i].type;
		bool maps = t.kind == V_MAP || (t.kind == V_SEQUENCE && t.of == V_MAP);
		last = unique_path(&taken, dir, out[i].name, maps ? ".json" : endings[format], a);
	}
	return last;
}
