/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect TENSOR or FOLDER: shows what a .npy, .npz, .safetensors or .pb file contains, or a folder of such files. */
#include "cmd/options/subcommand.h"
#include "base/json_read.h"
#include "base/str.h"
#include "base/tame.h"
#include "cmd/inspect/inspect.h"
#include "cmd/output/table.h"
#include "io/io.h"
#include "ir/safetensors.h"
#include "onnx/tensor_pb.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	struct arena *data; /* holds copies of elements, which are not needed once the facts are known */
	const char *archive; /* name of the file in a folder, put before the names of several tensors in it; else NULL */
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

	*x = (struct tensor_facts){.name = f->archive ? path_join(f->arena, f->archive, name)
						      : arena_str(f->arena, name),
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
		const struct tensor *t = npy_strings(&h, p, f->data);
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
	t.data = arena_dup(f->data, p + h.data, h.bytes);
	append_tensor(f, name, &t, note);
	return 0;
}

static int read_npz(struct tensor_list *f, const char *path, const struct file_map *m, struct diag *d)
{
	struct zip z;
	int err = zip_open(m->data, m->size, path, f->data, &z, d);

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
	int err = safetensors_head(m->data, m->size, path, E_INPUT_FORMAT, f->data, &all, d);

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

/* ---- .json */

/* Whether a member of a map is a number, or one of those that JSON has no number for. */
static bool is_number(const struct jvalue *v)
{
	return v->type == J_NUMBER || v->type == J_NULL ||
	       (v->type == J_STRING && (!strcmp(v->text, "NaN") || !strcmp(v->text, "Infinity") ||
					!strcmp(v->text, "-Infinity")));
}

/* Whether the value is an object whose members are all numbers: a map, as ZipMap gives, and no report. */
static bool is_map(const struct jvalue *v)
{
	if (v->type != J_OBJECT || !v->first || jget(v, "schema"))
		return false;
	for (const struct jvalue *m = v->first; m; m = m->next)
		if (!is_number(m))
			return false;
	return true;
}

/* Returns the first keys of a map: "'cat', 'dog' and 3 more". */
static const char *map_keys(const struct jvalue *v, struct arena *a)
{
	struct str b = {.arena = a};
	size_t n = 0;

	for (const struct jvalue *m = v->first; m && n < 5; m = m->next, n++)
		str_addf(&b, "%s'%s'", b.n ? ", " : "", m->key);
	if (v->n > n)
		str_addf(&b, " and %zu more", v->n - n);
	return str_get(&b);
}

/*
 * Reads a map, or an array of maps of the same number of keys, as `infer run -o` writes the output of a ZipMap, and shows it as
 * a tensor with a row for each map. Returns false for every other document.
 */
static bool read_maps(struct tensor_list *f, const char *name, const char *p, size_t n)
{
	enum {
		MAX_DOCUMENT = 16 << 20
	}; /* the tree takes many times the text, and a large document is rather a model */
	const struct jvalue *doc =
		n > MAX_DOCUMENT ? NULL : jread(p, n, "", E_INPUT_FORMAT, f->data, NULL);
	const struct jvalue *first = doc && doc->type == J_ARRAY ? doc->first : doc;
	size_t rows = doc && doc->type == J_ARRAY ? doc->n : 1, at = 0;

	if (!first || !is_map(first))
		return false;
	for (const struct jvalue *m = first; doc->type == J_ARRAY && m; m = m->next)
		if (!is_map(m) || m->n != first->n)
			return false;
	double *v = arena_new_n(f->data, double, rows * first->n + 1);
	for (const struct jvalue *m = first; m; m = doc->type == J_ARRAY ? m->next : NULL)
		for (const struct jvalue *x = m->first; x; x = x->next)
			v[at++] = x->type == J_NUMBER ? x->number : jnumber(m, x->key, NAN);
	const struct tensor t = {.type = type_tensor(DT_F64),
				 .shape = {.rank = 2, .dim = {(int64_t)rows, (int64_t)first->n}},
				 .bytes = rows * first->n * sizeof(*v),
				 .data = v};
	append_tensor(f, name, &t,
		      arena_printf(f->arena, "%zu map%s with the keys %s", rows,
				   rows == 1 ? "" : "s", map_keys(first, f->arena)));
	return true;
}

/*
 * Reads a tensor as `infer run --save-format json` writes it, with a member "dtype", maps, or, if `bare`, an array without a type.
 * Returns false for every other document, such as a report, because .json alone does not say that a file is a tensor.
 */
static bool read_json(struct tensor_list *f, const char *path, bool bare)
{
	struct file_map m;
	struct text_head h = {0};
	struct diag why = {0};
	bool read = false;

	if (!file_map(path, &m, E_INPUT_OPEN, &why)) {
		const char *p = (const char *)m.data, *name = path_base(path);
		/* one of these types fits all elements of a tensor; "dtype" then says which type they really have */
		static const enum dtype types[] = {DT_I64, DT_F64, DT_BOOL, DT_STRING};
		enum dtype type = DT_NONE, fits = DT_NONE;
		for (size_t i = 0; i < sizeof(types) / sizeof(*types) && !fits; i++)
			if (!text_scan(IO_JSON, p, m.size, name, types[i], &h, &why))
				fits = types[i];
		type = h.dtype != DT_NONE || !bare ? h.dtype : fits;
		if (fits != DT_NONE && type != DT_NONE && h.shape.rank >= 0 &&
		    !text_scan(IO_JSON, p, m.size, name, type, &h, &why)) {
			const struct tensor *t =
				text_read(IO_JSON, p, m.size, type, &h.shape, f->data);
			read = t;
			if (t)
				append_tensor(f, name, t, "");
		}
		read = read || read_maps(f, name, p, m.size);
		file_unmap(&m);
	}
	diag_free(&why);
	return read;
}

static int read_tensor_file(struct tensor_list *f, const char *path, struct diag *d)
{
	struct file_map m;
	if (!strcmp(path_ext(path), ".json"))
		return read_json(f, path, true) ? 0 : FAIL(d, E_INPUT_FORMAT, .slot = path);
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
		const struct tensor *t = tensor_pb_read(path, type_tensor(DT_NONE), f->data, d);
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

bool inspect_is_json_tensor(const char *path)
{
	struct arena a = {0};
	struct tensor_list f = {.arena = &a, .data = &a, .end = &f.first};
	struct stat st;
	/* a pipe can be read only once */
	bool is = !strcmp(path_ext(path), ".json") && !stat(path, &st) && S_ISREG(st.st_mode) &&
		  read_json(&f, path, true);

	arena_free(&a);
	return is;
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
	struct tensor_list f = {.arena = &a, .data = &a, .end = &f.first};
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

/* ---- a folder of tensor files */

struct folder {
	struct tensor_list tensors;
	const char **left_out; /* names of the files that are no tensors */
	size_t nleft_out;
};

/* Reads one file of the folder. One that is damaged is an error; the others are shown nevertheless. */
static int read_member(struct folder *x, const char *path, struct diag *d)
{
	const char *name = path_base(path), *ext = path_ext(path);
	struct arena data = {0};
	struct stat st;
	/* a pipe or device is not opened, because nobody has named it */
	bool regular = !stat(path, &st) && S_ISREG(st.st_mode);
	bool many = !strcmp(ext, ".npz") || !strcmp(ext, ".safetensors");
	int err = 0;

	x->tensors.data = &data;
	x->tensors.archive = many ? name : NULL;
	if (regular && inspect_is_tensor(path))
		err = read_tensor_file(&x->tensors, path, d);
	else if (!regular || strcmp(ext, ".json") != 0 || !read_json(&x->tensors, path, false))
		x->left_out[x->nleft_out++] = arena_str(x->tensors.arena, name);
	arena_free(&data);
	return err;
}

static int is_shown(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_folder(struct folder *x, const char *path, struct diag *d)
{
	struct dirent **list = NULL;
	int n = scandir(path, &list, is_shown, by_name), err = 0;

	if (n < 0)
		return FAIL(d, E_INPUT_OPEN,
			    .message = fmt(d, "%s: cannot open: %s", path, strerror(errno)));
	x->left_out = arena_new_n(x->tensors.arena, const char *, (size_t)n + 1);
	for (int i = 0; i < n; i++) {
		int one = read_member(x, path_join(x->tensors.arena, path, list[i]->d_name), d);
		err = err ? err : one;
		free(list[i]);
	}
	free(list);
	if (!err && !x->tensors.first)
		return FAIL(d, E_MODEL_OPEN,
			    .message = fmt(d, "%s: the folder has no tensor file", path),
			    .expected = ".npy, .npz, .safetensors, .pb or .json files of tensors, or "
					"genai_config.json",
			    .actual = n ? fmt(d, "%d other files or folders", n) : "an empty folder",
			    .hint = "infer run MODEL -o FOLDER writes such files; infer inspect "
				    "FOLDER/model.onnx shows a model");
	return err;
}

static void table_statistic(struct table *t, double value, bool known)
{
	table_number(t, known ? value : NAN, known ? arena_printf(t->arena, "%g", value) : "-");
}

static void print_folder(const struct folder *x, struct arena *a)
{
	static const char *const heads[] = {"name", "type", "shape", "bytes", "min",
					    "max",  "mean", "NaN",   NULL};
	FILE *f = listing_begin(stdout);
	struct table t;

	table_begin(&t, a, heads, "lllrrrrr");
	t.ranks = "00013342";
	for (const struct tensor_facts *v = x->tensors.first; v; v = v->next) {
		bool known = v->dtype != DT_STRING && v->stats.count > 0;
		table_text(&t, tame_word(a, v->name));
		table_text(&t, dtype_name(v->dtype));
		table_text(&t, shape_str(a, &v->shape, NULL));
		table_number(&t, (double)v->bytes, arena_printf(a, "%zu", v->bytes));
		table_statistic(&t, v->stats.min, known);
		table_statistic(&t, v->stats.max, known);
		table_statistic(&t, v->stats.mean, known);
		table_statistic(&t, (double)v->stats.nans, v->dtype != DT_STRING);
	}
	if (x->tensors.first)
		table_print(&t, "", f);
	for (size_t i = 0; i < x->nleft_out; i++)
		fprintf(f, "%s%s%s",
			i ? ", " : "left out, no tensors: ", tame_word(a, x->left_out[i]),
			i + 1 == x->nleft_out ? "\n" : "");
	listing_end(f);
}

static void write_folder(const struct folder *x, struct json *j)
{
	json_array(j, "tensors");
	for (const struct tensor_facts *t = x->tensors.first; t; t = t->next)
		write_tensor(t, j);
	json_end(j, ']');
	json_array(j, "left_out");
	for (size_t i = 0; i < x->nleft_out; i++)
		json_string(j, NULL, x->left_out[i]);
	json_end(j, ']');
}

int inspect_folder(struct options *o, const char *path, struct diag *d)
{
	struct arena a = {0};
	struct folder x = {.tensors = {.arena = &a, .end = &x.tensors.first}};
	struct json j;
	int err = read_folder(&x, path, d);

	if (x.tensors.first && o->json) {
		json_envelope_begin(&j, o, d);
		write_folder(&x, &j);
		json_envelope_end(&j, d);
	}
	if (x.tensors.first && !o->json)
		print_folder(&x, &a);
	arena_free(&a);
	return err;
}
