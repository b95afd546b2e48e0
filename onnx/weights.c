/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/weights.h"

#include "base/asan.h"
#include "base/file.h"
#include "base/mem.h"
#include "ir/safetensors.h"
#include "onnx.pb-c.h"
#include "onnx/forms.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define SANITIZED 1
#endif
#endif
#if WITH_ASAN && !defined(SANITIZED)
#define SANITIZED 1
#endif

/* Whether tensors of at least UNALIGNED_MIN bytes may lie anywhere (weights.h). */
#if (defined(__x86_64__) || defined(__i386__)) && !defined(SANITIZED)
enum { UNALIGNED_FINE = 1 };
#else
enum { UNALIGNED_FINE = 0 };
#endif
/* Instrumented builds copy tensors of fewer bytes than this out of the file, so that reads beyond them are noticed. */
static const size_t copied_below = WITH_ASAN ? 64 << 10 : 1;

enum { LEAN_UNALIGNED_MIN = 512 }; /* the same of a model that is written and not run */
enum { MAX_ARENA_BYTES = 4096 };   /* data of at most this many bytes are copied into the arena */
/*
 * Limit of the memory of all sparse tensors together, once they are stored as dense tensors: DENSE_BASE bytes plus
 * DENSE_TIMES their size in the file. It keeps a small file from filling the memory.
 */
enum { DENSE_BASE = 32 << 20, DENSE_TIMES = 64 };

/* ---- the store */

struct external {
	const char *path; /* resolved */
	struct file_map map;
	bool listed;		    /* the next member is set */
	struct safetensors tensors; /* of a .safetensors file */
	struct external *next;
};

struct block {
	void *p;
	struct block *next;
};

enum { MAX_ROOTS = 3 };

struct weights {
	struct model *model;
	struct file_map file;
	bool to_file; /* weights_open() */
	struct external *externals;
	struct block *blocks;
	const char *roots[MAX_ROOTS]; /* folders that external data may lie in, as resolved paths */
	int root_fd[MAX_ROOTS];
	const char *dir; /* the model's folder as given */
	int nroots;
	/* bytes of all sparse tensors so far, as dense tensors and as stored in the file */
	size_t dense, sparse;
};

static void add_root(struct weights *w, const char *dir)
{
	char *real = dir ? realpath(dir, NULL) : NULL;
	bool there = !real;
	int fd;

	for (int i = 0; real && i < w->nroots; i++)
		there |= !strcmp(w->roots[i], real);
	if (!there && w->nroots < MAX_ROOTS &&
	    (fd = open(real, O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0) {
		w->root_fd[w->nroots] = fd;
		w->roots[w->nroots++] = arena_str(&w->model->arena, real);
	}
	free(real);
}

struct weights *weights_open(struct model *m, const char *path, const char *external_root, bool to_file)
{
	struct weights *w = arena_new(&m->arena, struct weights);

	w->model = m;
	w->to_file = to_file;
	m->maps = w;
	if (path) {
		char *real = realpath(path, NULL);
		w->dir = strcmp(path, "-") ? path_dir(&m->arena, path) : ".";
		add_root(w, w->dir);
		if (real)
			add_root(w, path_dir(&m->arena, real));
		free(real);
	}
	add_root(w, external_root);
	return w;
}

int weights_map(struct weights *w, const char *path, struct diag *d)
{
	int rc = file_map(path, &w->file, E_MODEL_OPEN, d);

	if (rc || !w->to_file)
		return rc;
	file_map_lean(&w->file);
	return binary_map(&w->file, d);
}

struct file_map *weights_file(struct weights *w)
{
	return &w->file;
}

void weights_close(struct model *m)
{
	struct weights *w = m->maps;

	if (!w)
		return;
	for (struct block *b = w->blocks; b; b = b->next)
		mem_free(b->p);
	for (struct external *e = w->externals; e; e = e->next)
		file_unmap(&e->map);
	file_unmap(&w->file);
	for (int i = 0; i < w->nroots; i++)
		close(w->root_fd[i]);
	m->maps = NULL;
}

static bool lies_in(const struct file_map *f, const void *p)
{
	uintptr_t at = (uintptr_t)p, start = (uintptr_t)f->data;

	return f->mapped && at >= start && at < start + f->size;
}

void weights_drop(struct model *m, const struct tensor *t)
{
	const struct weights *w = m->maps;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool mapped;

	if (!w || !t || !t->data)
		return;
	mapped = lies_in(&w->file, t->data);
	for (const struct external *e = w->externals; e && !mapped; e = e->next)
		mapped = lies_in(&e->map, t->data);
	if (!mapped)
		return;
	m->dropped_bytes += t->bytes;
	uintptr_t from = ((uintptr_t)t->data + page - 1) / page * page;
	uintptr_t to = ((uintptr_t)t->data + t->bytes) / page * page;
	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

/* ---- findings */

/*
 * Adds a finding about this tensor. Any fault of an input file is reported as E-INPUT-FORMAT, because the file is not
 * the .pb file that its name promises.
 */
static int tensor_fail(const struct weights_to *to, enum code code, struct pb_span name,
		       const char *expected, const char *actual)
{
	const char *slot = to->what;

	if (name.n)
		slot = fmt(to->d, "%s '%.*s'", to->what, (int)(name.n < 200 ? name.n : 200), name.p);
	return FAIL(to->d, to->is_input ? E_INPUT_FORMAT : code, .slot = slot, .expected = expected,
		    .actual = actual);
}

/* ---- memory for data */

static void *new_data(const struct weights_to *to, size_t bytes)
{
	if (!to->store || bytes <= MAX_ARENA_BYTES)
		return arena_alloc(to->arena, bytes);
	void *p = mem_alloc(bytes, MEM_WEIGHTS);
	if (!p)
		return NULL;
	struct block *b = arena_new(&to->store->model->arena, struct block);
	to->store->model->copied_bytes += bytes;
	*b = (struct block){p, to->store->blocks};
	to->store->blocks = b;
	return p;
}

static int no_memory(const struct weights_to *to, size_t bytes)
{
	return FAIL(to->d, E_MEMORY, .slot = to->what, .expected = fmt(to->d, "%zu bytes", bytes));
}

/*
 * Makes the tensor use its data in the mapped file, or a copy of the data if they are not aligned. The type does not say which
 * alignment is enough: kernels that move elements take adjacent ones as words of up to WORD bytes.
 */
static int place(const struct weights_to *to, struct tensor *t, const uint8_t *p)
{
	enum { WORD = 8 };
	size_t least = to->store && to->store->to_file ? LEAN_UNALIGNED_MIN : UNALIGNED_MIN;
	bool aligned = (uintptr_t)p % WORD == 0 || (UNALIGNED_FINE && t->bytes >= least);

	if (to->store && aligned && t->bytes >= copied_below) {
		t->data = (void *)(uintptr_t)p;
		return 0;
	}
	t->data = new_data(to, t->bytes);
	if (!t->data)
		return no_memory(to, t->bytes);
	if (t->bytes)
		memcpy(t->data, p, t->bytes);
	file_pass(p, t->bytes);
	return 0;
}

/*
 * Kernels expect 0 or 1 for a bool, but a file may hold any byte. If the tensor has other bytes, replaces its data by
 * a copy with 1 for every non-zero byte.
 */
static int normal_bools(const struct weights_to *to, struct tensor *t)
{
	const uint8_t *p = t->data;
	uint8_t any = 0;

	for (size_t i = 0; i < t->bytes; i++)
		any |= p[i];
	if (any <= 1)
		return 0;
	uint8_t *q = new_data(to, t->bytes);
	if (!q)
		return no_memory(to, t->bytes);
	for (size_t i = 0; i < t->bytes; i++)
		q[i] = p[i] != 0;
	t->data = q;
	return 0;
}

/* ---- external data */

/* Returns the folder that a resolved path lies in, and sets *rest to the path from there; -1 if it lies in none. */
static int root_of(const struct weights *w, const char *real, const char **rest)
{
	for (int i = 0; i < w->nroots; i++) {
		size_t n = strlen(w->roots[i]);
		n -= w->roots[i][n - 1] == '/';
		if (!strncmp(real, w->roots[i], n) && real[n] == '/') {
			*rest = real + n + 1;
			return i;
		}
	}
	return -1;
}

static bool climbs(const char *location)
{
	for (const char *p = location; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
			return true;
	}
	return false;
}

/* Resolves the path of external data and refuses one outside of the allowed folders, also through a symbolic link. */
static int resolve(const struct weights_to *to, struct pb_span name, const char *location,
		   const char **path, int *root, const char **rest)
{
	struct weights *w = to->store;
	struct diag *d = to->d;
	int err = ENOENT;

	if (!*location)
		return tensor_fail(to, E_WEIGHT_EXTERNAL, name, "the name of a file", "none");
	if (*location == '/' || climbs(location))
		return tensor_fail(to, E_WEIGHT_PATH, name, "a path in the model's folder",
				   fmt(d, "'%s'", location));
	if (!w || !w->nroots)
		return tensor_fail(to, E_WEIGHT_EXTERNAL, name, "a model read from a file",
				   "one without a folder");
	for (int i = 0; i < w->nroots; i++) {
		char *real = realpath(path_join(to->arena, w->roots[i], location), NULL);
		if (!real) {
			err = errno != ENOENT ? errno : err;
			continue;
		}
		*path = arena_str(to->arena, real);
		free(real);
		*root = root_of(w, *path, rest);
		if (*root >= 0)
			return 0;
		return tensor_fail(to, E_WEIGHT_PATH, name, "a path in the model's folder",
				   fmt(d, "'%s', which leads to %s", location, *path));
	}
	return tensor_fail(to, E_WEIGHT_EXTERNAL, name, fmt(d, "the file '%s'", location),
			   err == ENOENT ? fmt(d, "no such file in '%s'", w->dir) : strerror(err));
}

static int map_external(const struct weights_to *to, struct pb_span name, const char *location,
			struct external **out)
{
	struct weights *w = to->store;
	const char *path = NULL, *rest = NULL;
	int root = -1, rc = resolve(to, name, location, &path, &root, &rest);

	if (rc)
		return rc;
	for (struct external *e = w->externals; e; e = e->next) {
		if (!strcmp(e->path, path)) {
			*out = e;
			return 0;
		}
	}
	/*
	 * The path has been resolved, but another program may have changed it since then: it is opened
	 * without following any link, from the folder as we opened it.
	 */
	struct external *e = arena_new(&w->model->arena, struct external);
	rc = file_map_beneath(w->root_fd[root], rest, path, &e->map, E_WEIGHT_EXTERNAL, to->d);
	if (rc)
		return rc;
	if (w->to_file)
		file_map_lean(&e->map);
	e->path = path;
	e->next = w->externals;
	w->externals = e;
	w->model->external_bytes += e->map.size;
	*out = e;
	return 0;
}

/*
 * Compares the place of an initializer's data with what a .safetensors file says of itself. Only bytes count for the model, so
 * a difference is a warning.
 */
static void compare_safetensors(const struct weights_to *to, struct pb_span name,
				struct external *e, uint64_t offset, const struct tensor *t)
{
	const struct safetensor *there = NULL;
	struct arena *a = &to->store->model->arena;
	struct diag *d = to->d;
	size_t low = 0, high;

	if (strcmp(path_ext(e->path), ".safetensors"))
		return;
	if (!e->listed && safetensors_head(e->map.data, e->map.size, e->path, E_WEIGHT_EXTERNAL, a,
					   &e->tensors, NULL))
		WARN(d, E_WEIGHT_EXTERNAL,
		     .message = fmt(d,
				    "%s is no valid .safetensors file; its bytes are taken as the model "
				    "says",
				    e->path),
		     .hint = "if the file was written anew, give the model its offsets");
	e->listed = true;
	for (high = e->tensors.n; low < high;) { /* the last one that does not begin behind the offset */
		size_t middle = low + (high - low) / 2;
		if (e->tensors.list[middle].at <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!e->tensors.n || !t->bytes)
		return;
	there = low ? &e->tensors.list[low - 1] : NULL;
	const char *fact = !there		 ? "the file's header"
			   : there->at != offset ? fmt(d, "byte %" PRIu64 " of its tensor '%s'",
						       offset - there->at, there->name)
			   : there->dtype != tensor_dtype(t) || !shape_equal(&there->shape, &t->shape)
				   ? fmt(d, "its tensor '%s', %s %s", there->name,
					 dtype_name(there->dtype), shape_str(a, &there->shape, NULL))
				   : NULL;
	if (fact)
		WARN(d, E_WEIGHT_EXTERNAL,
		     .message = fmt(d, "initializer '%.*s' is not what %s says of these bytes",
				    (int)name.n, (const char *)name.p, path_base(e->path)),
		     .expected = fmt(d, "%s %s at offset %" PRIu64, dtype_name(tensor_dtype(t)),
				     shape_str(a, &t->shape, NULL), offset),
		     .actual = fact,
		     .hint = "the model takes the bytes as they are; if the file was written anew, give the "
			     "model its offsets");
}

/* Parses a decimal number of bytes; false if the text is not one. */
static bool parse_bytes(const char *s, uint64_t *out)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++)
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return false;
	*out = v;
	return true;
}

static int external_data(const struct weights_to *to, const Onnx__TensorProto *p,
			 struct pb_span name, struct tensor *t)
{
	const char *location = "";
	uint64_t offset = 0, length = t->bytes;
	struct external *file = NULL;

	for (size_t i = 0; i < p->n_external_data; i++) {
		const char *key = p->external_data[i]->key, *value = p->external_data[i]->value;
		if (!key || !value)
			continue;
		for (size_t k = 0; k < i; k++)
			if (p->external_data[k]->key && !strcmp(p->external_data[k]->key, key))
				WARN(to->d, E_WEIGHT_EXTERNAL,
				     .slot = fmt(to->d, "initializer '%.*s'", (int)name.n,
						 (const char *)name.p),
				     .message = fmt(
					     to->d,
					     "its external data has the key '%s' twice: the last one counts, and ONNX Runtime refuses the model",
					     key),
				     .hint = "keep the entry that is right");
		if (!strcmp(key, "location"))
			location = value;
		if ((!strcmp(key, "offset") && !parse_bytes(value, &offset)) ||
		    (!strcmp(key, "length") && !parse_bytes(value, &length)))
			return tensor_fail(to, E_WEIGHT_EXTERNAL, name,
					   fmt(to->d, "a number of bytes as %s", key),
					   fmt(to->d, "'%s'", value));
	}
	if (tensor_dtype(t) == DT_STRING)
		return tensor_fail(to, E_WEIGHT_TYPE, name, "strings in the model's file",
				   "external data");
	int rc = map_external(to, name, location, &file);
	if (rc)
		return rc;
	if (length != t->bytes)
		return tensor_fail(to, E_WEIGHT_SIZE, name, fmt(to->d, "%zu bytes", t->bytes),
				   fmt(to->d, "a length of %" PRIu64, length));
	if (offset > file->map.size || length > file->map.size - offset)
		return tensor_fail(to, E_WEIGHT_EXTERNAL, name,
				   fmt(to->d, "%" PRIu64 " bytes at offset %" PRIu64 " of '%s'",
				       length, offset, location),
				   fmt(to->d, "a file of %zu bytes", file->map.size));
	compare_safetensors(to, name, file, offset, t);
	return place(to, t, file->map.data + offset);
}

/* ---- the typed fields */

enum {
	F_DIMS = 1,
	F_FLOATS_DATA = 4,
	F_INT32_DATA = 5,
	F_STRING_DATA = 6,
	F_INT64_DATA = 7,
	F_NAME = 8,
	F_DOUBLE_DATA = 10,
	F_UINT64_DATA = 11,
};

/*
 * Fields that pb_decode skips: numbers are read where they lie in the file, and doc strings and metadata are not
 * used.
 */
static const struct pb_lazy lazy[] = {
	{&onnx__tensor_proto__descriptor, 1u << F_DIMS | 1u << F_FLOATS_DATA | 1u << F_INT32_DATA |
						  1u << F_STRING_DATA | 1u << F_INT64_DATA |
						  1u << F_NAME | 1u << F_DOUBLE_DATA |
						  1u << F_UINT64_DATA | 1u << 12 | 1u << 16},
	{NULL, 0},
};

static const struct typed {
	uint32_t number;
	enum pb_wire wire;
	const char *name;
	uint64_t types;
} typed[] = {
	{F_FLOATS_DATA, PB_FIXED32, "float_data", T_F32 | T_BIT(DT_C64)},
	{F_INT32_DATA, PB_VARINT, "int32_data",
	 T_I32 | T_I16 | T_U16 | T_I8 | T_U8 | T_BOOL | T_F16 | T_BF16 | T_F8 | T_F8E8M0 | T_4BIT |
		 T_F4 | T_F6 | T_2BIT},
	{F_STRING_DATA, PB_BYTES, "string_data", T_STRING},
	{F_INT64_DATA, PB_VARINT, "int64_data", T_I64},
	{F_DOUBLE_DATA, PB_FIXED64, "double_data", T_F64 | T_BIT(DT_C128)},
	{F_UINT64_DATA, PB_VARINT, "uint64_data", T_U32 | T_U64},
};
enum { NTYPED = sizeof(typed) / sizeof(*typed) };

static size_t typed_count(struct pb_span m, const struct typed *f)
{
	return f->wire == PB_BYTES ? pb_occurs(m, f->number) : pb_count(m, f->number, f->wire);
}

static int read_strings(const struct weights_to *to, struct pb_span m, struct tensor *t)
{
	struct pb_span rest = m, s;
	struct str_ref *refs = new_data(to, t->bytes);
	size_t total = 0, i = 0;

	if (!refs)
		return no_memory(to, t->bytes);
	for (; pb_each(&rest, F_STRING_DATA, &s); total += s.n)
		refs[i++] = (struct str_ref){total, s.n};
	t->data = refs;
	t->blob = new_data(to, total + 1);
	t->blob_bytes = total;
	if (!t->blob)
		return no_memory(to, total);
	char *p = t->blob;
	for (rest = m; pb_each(&rest, F_STRING_DATA, &s); p += s.n)
		if (s.n)
			memcpy(p, s.p, s.n);
	*p = '\0';
	return 0;
}

/* Packs elements of less than a byte, low bits first: int32_data holds each element in a number of its own. */
static void pack_small(struct pb_span m, unsigned bits, uint8_t *out)
{
	struct pb_values v = pb_values(m, F_INT32_DATA, PB_VARINT);
	uint64_t x;

	for (size_t i = 0; pb_value(&v, &x); i++) {
		unsigned shift = (unsigned)(i * bits % 8);
		unsigned bit = ((unsigned)x & ((1u << bits) - 1)) << shift;
		out[i * bits / 8] = (uint8_t)((shift ? out[i * bits / 8] : 0) | bit);
		if (shift + bits > 8)
			out[i * bits / 8 + 1] = (uint8_t)(bit >> 8);
	}
}

/* Stores the low bytes of each number of the field, as many as an element has. */
static void read_numbers(struct pb_span m, const struct typed *f, enum dtype t, uint8_t *out)
{
	struct pb_values v = pb_values(m, f->number, f->wire);
	size_t size = f->wire == PB_FIXED32 ? 4 : f->wire == PB_FIXED64 ? 8 : dtype_bits(t) / 8;
	uint64_t x;

	if (!size)
		/* elements smaller than a byte are already packed into numbers of one byte each */
		size = 1;
	for (; pb_value(&v, &x); out += size) {
		if (t == DT_BOOL)
			x = x != 0;
		memcpy(out, &x, size);
	}
}

static int typed_data(const struct weights_to *to, struct pb_span m, const struct typed *f,
		      struct pb_span name, size_t have, struct tensor *t)
{
	enum dtype type = tensor_dtype(t);
	unsigned bits = dtype_bits(type);
	size_t n = (size_t)tensor_count(t);
	/* float6 is never packed into numbers */
	bool each = bits < 8 && (bits == 6 || (have == n && have != t->bytes));
	size_t want = bits < 8 && !each ? t->bytes : dtype_class(type) == DT_COMPLEX ? 2 * n : n;

	if (have != want)
		return tensor_fail(to, E_WEIGHT_SIZE, name, fmt(to->d, "%zu numbers", want),
				   fmt(to->d, "%zu in %s", have, f->name));
	if (type == DT_STRING)
		return read_strings(to, m, t);
	if (f->wire != PB_VARINT && to->store) {
		struct pb_span block = pb_block(m, f->number, f->wire);
		if (block.p)
			return place(to, t, block.p);
	}
	uint8_t *p = new_data(to, t->bytes);
	if (!p)
		return no_memory(to, t->bytes);
	t->data = p;
	if (each)
		pack_small(m, bits, p);
	else
		read_numbers(m, f, type, p);
	return 0;
}

/* ---- a tensor */

static int read_dims(const struct weights_to *to, struct pb_span m, struct pb_span name,
		     uint32_t number, struct shape *out)
{
	size_t rank = pb_count(m, number, PB_VARINT);
	struct pb_values v = pb_values(m, number, PB_VARINT);
	uint64_t dim;

	if (rank > MAX_RANK)
		return tensor_fail(to, E_RANK, name, fmt(to->d, "at most %d dimensions", MAX_RANK),
				   fmt(to->d, "%zu", rank));
	*out = (struct shape){0};
	while (out->rank < MAX_RANK && pb_value(&v, &dim)) {
		if ((int64_t)dim < 0)
			return tensor_fail(to, E_SIZE, name, "dims of 0 or more",
					   fmt(to->d, "%" PRId64, (int64_t)dim));
		out->dim[out->rank++] = (int64_t)dim;
	}
	return 0;
}

/* Reads the tensor's type and shape, and computes how many bytes its data must have. */
static int read_head(const struct weights_to *to, const Onnx__TensorProto *p, struct pb_span m,
		     struct pb_span name, struct tensor *t)
{
	int rc = read_dims(to, m, name, F_DIMS, &t->shape);
	int type = p->has_data_type ? p->data_type : 0;

	if (rc)
		return rc;
	if (type <= 0 || type >= DT_COUNT || !dtype_bits((enum dtype)type))
		return tensor_fail(to, E_WEIGHT_TYPE, name, "an element type that ONNX has",
				   fmt(to->d, "type number %d", type));
	t->type = type_tensor((enum dtype)type);
	if (!tensor_bytes((enum dtype)type, &t->shape, LAYOUT_ROW, &t->bytes))
		return tensor_fail(to, E_SIZE, name, "a size that fits into memory",
				   to->d ? shape_str(&to->d->arena, &t->shape, NULL) : NULL);
	if (p->segment)
		return tensor_fail(to, E_WEIGHT_TYPE, name, "a whole tensor", "a segment of one");
	return 0;
}

static int raw_data(const struct weights_to *to, const Onnx__TensorProto *p, struct pb_span name,
		    struct tensor *t)
{
	if (tensor_dtype(t) == DT_STRING)
		return tensor_fail(to, E_WEIGHT_TYPE, name, "strings in string_data", "raw_data");
	if (p->raw_data.len != t->bytes)
		return tensor_fail(to, E_WEIGHT_SIZE, name,
				   to->d ? fmt(to->d, "%zu bytes for %s %s", t->bytes,
					       dtype_name(tensor_dtype(t)),
					       shape_str(&to->d->arena, &t->shape, NULL))
					 : NULL,
				   fmt(to->d, "%zu", p->raw_data.len));
	return place(to, t, p->raw_data.data);
}

/* Finds the tensor's data: external, raw_data, or the field for its type. */
static int read_data(const struct weights_to *to, const Onnx__TensorProto *p, struct pb_span m,
		     struct pb_span name, struct tensor *t)
{
	const struct typed *mine = NULL;
	size_t have = 0;

	if (p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
		if (t->bytes)
			return external_data(to, p, name, t);
		return 0;
	}
	for (int i = 0; i < NTYPED; i++) {
		size_t n = typed_count(m, &typed[i]);
		bool fits = typed[i].types & T_BIT(tensor_dtype(t));
		if (fits) {
			mine = &typed[i];
			have = n;
		}
		if (n && (!fits || p->raw_data.len))
			return tensor_fail(to, E_WEIGHT_TYPE, name,
					   fmt(to->d, "%s in one place", dtype_name(tensor_dtype(t))),
					   fmt(to->d, "%zu numbers in %s%s", n, typed[i].name,
					       p->raw_data.len ? " beside raw_data" : ""));
	}
	if (p->has_raw_data && (p->raw_data.len || !have))
		return raw_data(to, p, name, t);
	if (!mine)
		return tensor_fail(to, E_WEIGHT_TYPE, name, "a type with a place for its data",
				   dtype_name(tensor_dtype(t)));
	if (!t->bytes && !have)
		return 0;
	return typed_data(to, m, mine, name, have, t);
}

int weights_tensor(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name)
{
	struct arena scratch = {0};
	struct pb_decoder c = pb_decoder(&scratch, lazy, m.n);
	struct pb_span rest = m, own = {0};
	struct tensor *t = arena_new(to->arena, struct tensor);
	int rc;

	while (pb_each(&rest, F_NAME, &own))
		;
	if (name)
		*name = own;
	Onnx__TensorProto *p = pb_decode(&c, &onnx__tensor_proto__descriptor, m);
	if (!p) {
		rc = tensor_fail(to, E_MODEL_FORMAT, own, "a TensorProto", "something malformed");
	} else {
		rc = read_head(to, p, m, own, t);
		if (!rc)
			rc = read_data(to, p, m, own, t);
	}
	arena_free(&scratch);
	if (rc == -E_WEIGHT_EXTERNAL) /* the caller may go on with type and shape alone */
		*out = t;
	if (rc)
		return rc;
	if (!t->data) /* an empty tensor still gets an address, because kernels may compute with it */
		t->data = arena_alloc(to->arena, 1);
	if (tensor_dtype(t) == DT_STRING && !t->blob)
		t->blob = arena_alloc(to->arena, 1);
	if (!to->store)
		t->arena = to->arena;
	*out = t;
	return tensor_dtype(t) == DT_BOOL ? normal_bools(to, t) : 0;
}

/* ---- sparse tensors */

/* Offset in the dense tensor of the i-th stored value; -1 if its indices are out of range. */
static int64_t sparse_place(const struct shape *dense, const struct tensor *index, int64_t i)
{
	int64_t at = 0, n = shape_count(dense);

	if (index->shape.rank == 1) {
		at = elem_i64(DT_I64, index->data, i);
		return at >= 0 && at < n ? at : -1;
	}
	for (int k = 0; k < dense->rank; k++) {
		int64_t x = elem_i64(DT_I64, index->data, i * dense->rank + k);
		if (x < 0 || x >= dense->dim[k])
			return -1;
		at = at * dense->dim[k] + x;
	}
	return at;
}

static int sparse_check(const struct weights_to *to, struct pb_span name, const struct tensor *values,
			const struct tensor *index, const struct tensor *dense)
{
	int64_t n = tensor_count(values);
	bool flat = index->shape.rank == 1 && index->shape.dim[0] == n;
	bool full = index->shape.rank == 2 && index->shape.dim[0] == n &&
		    index->shape.dim[1] == dense->shape.rank;

	if (values->shape.rank != 1 || tensor_dtype(values) == DT_STRING ||
	    dtype_bits(tensor_dtype(values)) < 8)
		return tensor_fail(to, E_WEIGHT_TYPE, name, "a list of numbers as values",
				   dtype_name(tensor_dtype(values)));
	if (tensor_dtype(index) != DT_I64 || !(flat || full))
		return tensor_fail(to, E_WEIGHT_SIZE, name,
				   fmt(to->d, "i64 indices [%" PRId64 "] or [%" PRId64 ",%d]", n, n,
				       dense->shape.rank),
				   to->d ? shape_str(&to->d->arena, &index->shape, NULL) : NULL);
	return 0;
}

static int scatter(const struct weights_to *to, struct pb_span name, const struct tensor *values,
		   const struct tensor *index, struct tensor *dense)
{
	size_t size = dtype_bits(tensor_dtype(values)) / 8;
	int64_t last = -1;

	for (int64_t i = 0, n = tensor_count(values); i < n; i++) {
		int64_t at = sparse_place(&dense->shape, index, i);
		if (at < 0)
			return tensor_fail(to, E_WEIGHT_SIZE, name, "indices inside the dims",
					   fmt(to->d, "entry %" PRId64 " outside", i));
		if (at <= last)
			return tensor_fail(
				to, E_WEIGHT_SIZE, name, "indices in ascending order, each once",
				fmt(to->d, "entry %" PRId64 " %s", i,
				    at == last ? "of the same place as the one before"
					       : "of an earlier place than the one before"));
		last = at;
		memcpy((char *)dense->data + (size_t)at * size,
		       (const char *)values->data + (size_t)i * size, size);
	}
	return 0;
}

static bool may_grow(struct weights *w, size_t from, size_t bytes)
{
	struct weights none = {0};

	if (!w)
		w = &none;
	return size_add(w->sparse, from, &w->sparse) && size_add(w->dense, bytes, &w->dense) &&
	       w->dense <= DENSE_BASE + w->sparse * DENSE_TIMES;
}

int weights_sparse(const struct weights_to *to, struct pb_span m, struct tensor **out,
		   struct pb_span *name)
{
	struct arena scratch = {0};
	struct weights_to parts = {&scratch, NULL, to->d, to->what, to->is_input};
	struct tensor *values, *index, *dense = arena_new(to->arena, struct tensor);
	struct pb_span own = {0};
	int rc = weights_tensor(&parts, pb_sub(m, 1, to->arena), &values, &own);

	if (!rc)
		rc = weights_tensor(&parts, pb_sub(m, 2, to->arena), &index, NULL);
	if (!rc)
		rc = read_dims(to, m, own, 3, &dense->shape);
	if (!rc)
		rc = sparse_check(to, own, values, index, dense);
	if (rc)
		goto out;
	dense->type = values->type;
	if (!tensor_bytes(tensor_dtype(values), &dense->shape, LAYOUT_ROW, &dense->bytes) ||
	    !may_grow(to->store, m.n, dense->bytes)) {
		rc = tensor_fail(to, E_SIZE, own, "a sparse tensor that is not that much sparser",
				 to->d ? shape_str(&to->d->arena, &dense->shape, NULL) : NULL);
		goto out;
	}
	dense->data = new_data(to, dense->bytes);
	if (!dense->data) {
		rc = no_memory(to, dense->bytes);
		goto out;
	}
	memset(dense->data, 0, dense->bytes);
	rc = scatter(to, own, values, index, dense);
	*out = dense;
out:
	if (name)
		*name = own;
	arena_free(&scratch);
	return rc;
}
