/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect TENSOR: shows what a .npy, .npz, .safetensors or .pb file contains. */
#include "cmd/options/subcommand.h"
#include "cmd/inspect/inspect.h"
#include "io/io.h"
#include "ir/safetensors.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <string.h>

/* The facts that are shown about a tensor. */
struct tensor_facts {
	const char *name, *note;
	enum dtype dtype;
	struct shape shape;
	size_t bytes;
	struct statistics stats;
	struct tensor_facts *next;
};

struct tensor_list {
	struct arena *arena;
	struct tensor_facts *first, **end;
};

/*
 * Guesses the position of the channel axis: pictures have 1, 3 or 4 channels. Returns NULL if the
 * sizes do not show it.
 */
static const char *likely_layout(const struct shape *s)
{
	int r = s->rank;
	if (r != 3 && r != 4)
		return NULL;
	int64_t first = s->dim[r - 3], last = s->dim[r - 1];
	bool front = first == 1 || first == 3 || first == 4,
	     back = last == 1 || last == 3 || last == 4;

	if (front == back)
		return NULL;
	return front ? (r == 4 ? "NCHW" : "CHW") : (r == 4 ? "NHWC" : "HWC");
}

static void print_tensor(const struct tensor_facts *t, struct arena *a, FILE *f)
{
	const struct statistics *s = &t->stats;
	const char *layout = likely_layout(&t->shape);

	fprintf(f, "%s  %s %s  %" PRId64 " elements, %s%s%s\n", t->name, dtype_name(t->dtype),
		shape_str(a, &t->shape, NULL), s->count, human_bytes(a, t->bytes),
		*t->note ? ", " : "", t->note);
	if (t->dtype == DT_STRING)
		return;
	fprintf(f,
		"  min %g, max %g, mean %g, std %g; %" PRId64 " zeros, %" PRId64 " NaN, %" PRId64
		" Inf\n",
		s->min, s->max, s->mean, s->std, s->zeros, s->nans, s->infs);
	if (layout)
		fprintf(f, "  likely layout %s\n", layout);
}

static void write_tensor(const struct tensor_facts *t, struct json *j)
{
	const struct statistics *s = &t->stats;

	json_object(j, NULL);
	json_string(j, "name", t->name);
	json_string(j, "type", dtype_name(t->dtype));
	io_json_shape(j, &t->shape);
	json_int(j, "bytes", (int64_t)t->bytes);
	if (*t->note)
		json_string(j, "note", t->note);
	if (t->dtype != DT_STRING) {
		json_number(j, "min", s->min);
		json_number(j, "max", s->max);
		json_number(j, "mean", s->mean);
		json_number(j, "std", s->std);
		json_int(j, "zeros", s->zeros);
		json_int(j, "nan", s->nans);
		json_int(j, "inf", s->infs);
	}
	json_string(j, "likely_layout", likely_layout(&t->shape));
	json_end(j, '}');
}

static void append_tensor(struct tensor_list *f, const char *name, const struct tensor *t,
			  const char *note)
{
	struct tensor_facts *x = arena_new(f->arena, struct tensor_facts);

	*x = (struct tensor_facts){.name = arena_str(f->arena, name),
				   .note = note,
				   .dtype = tensor_dtype(t),
				   .shape = t->shape,
				   .bytes = t->bytes,
				   .stats = report_statistics(t)};
	*f->end = x;
	f->end = &x->next;
}

static int read_npy(struct tensor_list *f, const char *name, const unsigned char *p, size_t n,
		    struct diag *d)
{
	struct npy h;
	int err = npy_head(p, n, name, &h, d);

	if (err)
		return err;
	const char *note = h.fortran ? "Fortran order" : h.big_endian ? "big-endian" : "";
	if (h.kind == 'U' || h.kind == 'S') {
		const struct tensor *t = npy_strings(&h, p, f->arena);
		if (!t)
			return FAIL(d, E_INPUT_FORMAT, .slot = name);
		append_tensor(f, name, t, note);
		return 0;
	}
	if (h.dtype == DT_NONE || h.big_endian)
		return FAIL(d, E_INPUT_FORMAT, .slot = name,
			    .message = h.big_endian ? "its elements are big-endian"
						    : "its element type does not exist in ONNX",
			    .expected = "a little-endian type of ONNX",
			    .actual = fmt(d, "numpy's '%s'", h.descr),
			    .hint = h.big_endian ? "save it little-endian: numpy.save(file, "
						   "a.astype(a.dtype.newbyteorder('<')))"
						 : "save it as another type: numpy.save(file, "
						   "a.astype(...))");
	if (n < h.data || n - h.data < h.bytes)
		return FAIL(d, E_INPUT_BYTES, .slot = name, .message = "the file is truncated",
			    .expected = fmt(d, "%zu bytes of elements", h.bytes),
			    .actual = fmt(d, "%zu", n < h.data ? 0 : n - h.data),
			    .hint = "copy or create the file again");
	struct tensor t = {.type = type_tensor(h.dtype), .shape = h.shape, .bytes = h.bytes};
	/* copied, because elements in the file may not be aligned */
	t.data = arena_dup(f->arena, p + h.data, h.bytes);
	append_tensor(f, name, &t, note);
	return 0;
}

static int read_npz(struct tensor_list *f, const char *path, const struct file_map *m, struct diag *d)
{
	struct zip z;
	int err = zip_open(m->data, m->size, path, f->arena, &z, d);

	for (size_t i = 0; i < z.n && !err; i++) {
		unsigned char *p = mem_alloc(z.entry[i].size + 1, MEM_STAGING);
		err = p ? zip_read(&z.entry[i], p, d) : FAIL(d, E_MEMORY, .slot = z.entry[i].name);
		if (!err)
			err = read_npy(f, z.entry[i].name, p, z.entry[i].size, d);
		mem_free(p);
	}
	return err;
}

static int read_safetensors(struct tensor_list *f, const char *path, const struct file_map *m,
			    struct diag *d)
{
	struct safetensors all;
	int err = safetensors_head(m->data, m->size, path, E_INPUT_FORMAT, f->arena, &all, d);

	for (size_t i = 0; i < all.n && !err; i++) {
		const struct safetensor *x = &all.list[i];
		struct tensor t = {
			.type = type_tensor(x->dtype), .shape = x->shape, .bytes = (size_t)x->bytes};
		const void *p = m->data + x->at;
		/* a copy if elements are not aligned in the file */
		void *copy = (uintptr_t)p % 8 && t.bytes ? mem_alloc(t.bytes, MEM_STAGING) : NULL;
		if ((uintptr_t)p % 8 && t.bytes && !copy)
			return FAIL(d, E_MEMORY, .slot = x->name);
		if (copy)
			memcpy(copy, p, t.bytes);
		t.data = copy ? copy : (void *)(uintptr_t)p;
		append_tensor(f, x->name, &t, "");
		mem_free(copy);
	}
	return err;
}

static int read_tensor_file(struct tensor_list *f, const char *path, struct diag *d)
{
	struct file_map m;
	int err = file_map(path, &m, E_INPUT_OPEN, d);

	if (err)
		return err;
	enum io_kind kind = io_kind_of(path, m.data, m.size);
	if (kind == IO_NPY) {
		err = read_npy(f, path_base(path), m.data, m.size, d);
	} else if (kind == IO_NPZ) {
		err = read_npz(f, path, &m, d);
	} else if (kind == IO_SAFETENSORS) {
		err = read_safetensors(f, path, &m, d);
	} else {
		const struct tensor *t = tensor_pb_read(path, type_tensor(DT_NONE), f->arena, d);
		err = t ? 0 : -(int)E_INPUT_FORMAT;
		if (t)
			append_tensor(f, path_base(path), t, "");
	}
	file_unmap(&m);
	return err;
}

bool inspect_is_tensor(const char *path)
{
	const char *ext = path_ext(path);

	return !strcmp(ext, ".npy") || !strcmp(ext, ".npz") || !strcmp(ext, ".safetensors") ||
	       !strcmp(ext, ".pb");
}

static void print_all(const char *path, const struct tensor_facts *first, struct arena *a)
{
	FILE *f = listing_begin(stdout);

	if (!first)
		fprintf(f, "%s  contains no array\n", path_base(path));
	for (const struct tensor_facts *t = first; t; t = t->next)
		print_tensor(t, a, f);
	listing_end(f);
}

int inspect_tensor(struct options *o, const char *path, struct diag *d)
{
	struct arena a = {0};
	struct tensor_list f = {.arena = &a, .end = &f.first};
	struct json j;
	int err = read_tensor_file(&f, path, d);

	if (!err && o->json) {
		json_envelope_begin(&j, o, d);
		json_array(&j, "tensors");
		for (const struct tensor_facts *t = f.first; t; t = t->next)
			write_tensor(t, &j);
		json_end(&j, ']');
		json_envelope_end(&j, d);
	}
	if (!err && !o->json)
		print_all(path, f.first, &a);
	arena_free(&a);
	return err;
}
