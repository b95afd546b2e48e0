/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "onnx/forms.h"
#include "onnx/internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { NEWEST_IR_VERSION = 14, MAX_OPSETS = 256, MAX_SHOWN_BYTES = 80 };

const char *span_show(struct loader *l, struct pb_span s)
{
	if (!l->d)
		return "";
	return fmt(l->d, "%.*s%s", (int)(s.n < MAX_SHOWN_BYTES ? s.n : MAX_SHOWN_BYTES),
		   s.n ? (const char *)s.p : "", s.n > MAX_SHOWN_BYTES ? "..." : "");
}

int load_excuse(struct loader *l, int rc)
{
	/* one missing file is the fault of thousands of weights at times */
	if (rc == -E_WEIGHT_EXTERNAL && (l->options->collect || l->options->without_data))
		return 0;
	if (!rc || !l->options->collect || rc == -E_MEMORY || l->faults >= COLLECT_MAX)
		return rc;
	l->faults++;
	return 0;
}

int load_tensor(struct loader *l, struct pb_span m, bool sparse, const char *what,
		struct tensor **out, struct pb_span *name)
{
	struct weights_to to = {l->a, l->store, l->d, what, false};
	const char *key = l->calls ? arena_dup(&l->scratch, &m.p, sizeof(m.p)) : NULL;
	int64_t known = key ? map_get(&l->tensor_of, key, sizeof(m.p)) : -1;
	int rc;

	if (known >= 0 && !name) {
		*out = l->tensors[known];
		return 0;
	}
	rc = sparse ? weights_sparse(&to, m, out, name) : weights_tensor(&to, m, out, name);
	if (rc || !key)
		return rc;
	if (l->ntensors == l->cap_tensors) {
		l->cap_tensors = l->cap_tensors ? 2 * l->cap_tensors : 16;
		l->tensors = arena_grow(&l->scratch, l->tensors, l->ntensors, l->cap_tensors,
					sizeof(*l->tensors));
	}
	l->tensors[l->ntensors] = *out;
	map_set(&l->tensor_of, key, sizeof(m.p), l->ntensors++);
	return 0;
}

/* ---- files of other formats */

static const char *hint_for_other_format(struct pb_span f)
{
	static const struct {
		size_t at;
		const char *magic, *hint;
	} kinds[] = {
		{0, "version https://git-lfs",
		 "this is a Git LFS pointer: fetch the file itself (git lfs pull)"},
		{0, "PK\3\4",
		 "this is a zip archive, perhaps PyTorch's own format: export the model to ONNX"},
		{4, "ORTM",
		 "this is ONNX Runtime's .ort format: use the .onnx file that it was made from"},
		{4, "TFL3", "this is a TensorFlow Lite model: convert it to ONNX"},
		{0, "\x89HDF", "this is an HDF5 file, perhaps a Keras model: convert it to ONNX"},
		{0, "\x93NUMPY", "this is a NumPy array: it belongs to --input"},
		{0, "\x1f\x8b", "this is a gzip file: unpack it first"},
		{0, "\x89PNG", "this is a picture: it belongs to --input"},
		{0, "\xff\xd8\xff", "this is a picture: it belongs to --input"},
		{8, "WEBP", "this is a picture: it belongs to --input"},
		{0, "GIF8",
		 "this is a picture, of a format that is not read: save it as PNG, for --input"},
		{0, "II*", "this is a picture: it belongs to --input"},
		{0, "RIFF", "this is a sound: it belongs to --input"},
		{0, "fLaC", "this is a sound: it belongs to --input"},
		{0, "OggS", "this is a sound: it belongs to --input"},
		{0, "\x80\2", "this is a Python pickle, perhaps PyTorch's: export the model to ONNX"},
		{0, "\x80\3", "this is a Python pickle, perhaps PyTorch's: export the model to ONNX"},
		{0, "\x80\4", "this is a Python pickle, perhaps PyTorch's: export the model to ONNX"},
		{0, "\x80\5", "this is a Python pickle, perhaps PyTorch's: export the model to ONNX"},
		{0, "\xfd\x37zXZ", "this is an xz file: unpack it first"},
		{0, "(\xb5/\xfd", "this is a zstd file: unpack it first"},
		{257, "ustar", "this is a tar file: unpack it first"},
		{0, "\x7f\x45LF", "this is a program or a library, and no model"},
		{0, "GGUF",
		 "this is a GGUF model: use the model that it was made from, exported to ONNX"},
		{8, "{\"", "these are safetensors, weights without a graph: export the model to ONNX"},
		{0, "<!DOCTYPE", "this is a web page: the download did not give the file"},
		{0, "<html", "this is a web page: the download did not give the file"},
		{0, "<?xml",
		 "this is XML, perhaps OpenVINO's form: use the ONNX file that it was made from"},
		{0, "ftrt", "this is a TensorRT engine: use the ONNX file that it was built from"},
		{0, "ptrt", "this is a TensorRT engine: use the ONNX file that it was built from"},
	};

	/* the name of the first member stands at byte 30 of a zip archive */
	if (f.n > 64 && !memcmp(f.p, "PK\3\4", 4) && memmem(f.p + 30, 34, ".onnx", 5))
		return "this is a zip archive with an ONNX model: unpack it first";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		size_t n = strlen(kinds[i].magic);
		if (f.n >= kinds[i].at + n && !memcmp(f.p + kinds[i].at, kinds[i].magic, n))
			return kinds[i].hint;
	}
	return NULL;
}

/* Whether the file begins with at least four characters of text and holds no others in its first bytes. */
static bool is_plain_text(struct pb_span f)
{
	size_t n = f.n < 256 ? f.n : 256;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)f.p[i];
		if (c == 0x7f || (c < ' ' && c != '\n' && c != '\r' && c != '\t'))
			return false;
	}
	return n >= 4;
}

/*
 * Whether the file begins as TensorFlow's SavedModel does: schema version 1, and a message whose first field is a message. A model of
 * IR version 1 has the name of its producer there, which does not begin with a newline.
 */
static bool is_saved_model(struct pb_span f)
{
	size_t i = 3;

	if (f.n < 16 || memcmp(f.p, "\x08\x01\x12", 3) != 0)
		return false;
	while (i < 12 && (unsigned char)f.p[i] & 0x80)
		i++;
	return f.p[i + 1] == '\n';
}

/* Returns a hint about a file that is no ONNX model and has no magic number of another kind, or NULL. */
static const char *hint_for_content(struct pb_span f)
{
	if (is_plain_text(f))
		return "this is a text file, and no model";
	/* a model begins with the number of its IR version, which is field 1 */
	if (f.n && f.p[0] == '\n')
		return "this is perhaps a graph of TensorFlow, or a graph or tensor without a model: export the model to ONNX";
	return NULL;
}

/* Sets *model to the file's bytes in protobuf's binary form: the file itself, or a translation of ONNX's text form or of JSON. */
static int check_file(struct loader *l, struct pb_span f, struct pb_span *model)
{
	static const struct pb_codes codes = {E_MODEL_FORMAT, E_MODEL_TRUNCATED, E_MODEL_DEPTH};
	const char *hint = hint_for_other_format(f);

	if (hint)
		return FAIL(l->d, E_MODEL_FORMAT, .hint = hint);
	if (!f.n)
		return FAIL(l->d, E_MODEL_FORMAT, .message = "the file is empty");
	if (is_saved_model(f))
		return FAIL(
			l->d, E_MODEL_FORMAT,
			.hint = "this is a SavedModel of TensorFlow: convert its folder to ONNX (tf2onnx)");
	int rc = binary_form(f, l->a, model, l->d);
	rc = rc ? rc : pb_check(&onnx__model_proto__descriptor, *model, &codes, l->d);
	if (rc && form_of(f) == ONNX_BINARY && l->d && l->d->last && !l->d->last->hint &&
	    hint_for_content(f))
		l->d->last->hint = hint_for_content(f);
	return rc;
}

/* ---- the model's own fields */

/* These fields of ModelProto may be large: pb_decode skips them, and they are read where they lie. */
static const struct pb_lazy model_lazy[] = {
	{&onnx__model_proto__descriptor, 1u << MODEL_GRAPH | 1u << MODEL_OPSET | 1u << MODEL_META |
						 1u << MODEL_TRAINING | 1u << MODEL_FUNCTIONS |
						 1u << MODEL_CONFIGURATION},
	{NULL, 0},
};

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static int load_head(struct loader *l, struct pb_span f)
{
	struct pb_decoder c = pb_decoder(l->a, model_lazy, f.n);
	const Onnx__ModelProto *p = pb_decode(&c, &onnx__model_proto__descriptor, f);
	struct model *m = l->m;

	if (!p)
		return FAIL(l->d, E_MODEL_FORMAT, .message = "the file is damaged");
	m->ir_version = p->has_ir_version ? p->ir_version : 0;
	m->model_version = p->has_model_version ? p->model_version : 0;
	m->producer = or_empty(p->producer_name);
	m->producer_version = or_empty(p->producer_version);
	m->domain = or_empty(p->domain);
	m->doc = or_empty(p->doc_string);
	if (m->ir_version >= 1 && m->ir_version <= NEWEST_IR_VERSION)
		return 0;
	if (!m->ir_version)
		return FAIL(l->d, E_MODEL_FORMAT, .expected = "a model with an IR version",
			    .actual = "none");
	return FAIL(l->d, E_MODEL_VERSION, .slot = "IR version",
		    .expected = fmt(l->d, "1 to %d", NEWEST_IR_VERSION),
		    .actual = fmt(l->d, "%" PRId64, m->ir_version));
}

static int load_meta(struct loader *l, struct pb_span f)
{
	struct model *m = l->m;
	struct pb_span rest = f, s;

	m->meta = arena_new_n(l->a, struct meta, pb_occurs(f, MODEL_META));
	while (pb_each(&rest, MODEL_META, &s)) {
		struct arena tmp = {0};
		struct pb_decoder c = pb_decoder(&tmp, NULL, s.n);
		const Onnx__StringStringEntryProto *p =
			pb_decode(&c, &onnx__string_string_entry_proto__descriptor, s);
		if (p && p->key && *p->key)
			m->meta[m->nmeta++] = (struct meta){arena_str(l->a, p->key),
							    arena_str(l->a, or_empty(p->value))};
		arena_free(&tmp);
	}
	return 0;
}

static int load_opset(struct loader *l, struct pb_span m, struct opset *out)
{
	struct arena tmp = {0};
	struct pb_decoder c = pb_decoder(&tmp, NULL, m.n);
	const Onnx__OperatorSetIdProto *p =
		pb_decode(&c, &onnx__operator_set_id_proto__descriptor, m);
	int64_t newest = op_domain_version("");
	int rc = 0;

	*out = (struct opset){.domain = ""};
	if (p && p->domain && strcmp(p->domain, "ai.onnx"))
		out->domain = arena_str(l->a, p->domain);
	if (p && p->has_version)
		out->version = p->version;
	if (!p || out->version < 1)
		rc = FAIL(l->d, E_MODEL_VERSION,
			  .slot = fmt(l->d, "opset of '%s'", *out->domain ? out->domain : "ai.onnx"),
			  .expected = "1 or more", .actual = fmt(l->d, "%" PRId64, out->version));
	else if (!*out->domain && out->version > newest)
		rc = FAIL(l->d, E_MODEL_VERSION, .slot = "opset of 'ai.onnx'",
			  .expected = fmt(l->d, "at most %" PRId64, newest),
			  .actual = fmt(l->d, "%" PRId64, out->version));
	arena_free(&tmp);
	return rc;
}

int load_opsets(struct loader *l, struct pb_span bytes, uint32_t number, struct opsets *out)
{
	size_t n = pb_occurs(bytes, number);
	struct opset *v = arena_new_n(l->a, struct opset, n <= MAX_OPSETS ? n : 0);
	struct pb_span rest = bytes, m;

	if (n > MAX_OPSETS)
		return FAIL(l->d, E_MODEL_FORMAT,
			    .expected = fmt(l->d, "at most %d imported opsets", MAX_OPSETS),
			    .actual = fmt(l->d, "%zu", n));
	*out = (struct opsets){v, 0};
	while (out->n < n && pb_each(&rest, number, &m)) {
		int rc = load_opset(l, m, &v[out->n]);
		if (rc)
			return rc;
		out->n++;
	}
	return 0;
}

/* ---- the model as a whole */

static int load_model(struct loader *l, struct pb_span f)
{
	struct pb_span graph;
	struct scope *scope;

	l->m->file_bytes = f.n;
	int rc = check_file(l, f, &f);
	l->bytes = f;
	if (!rc)
		rc = load_head(l, f);
	if (!rc)
		rc = load_meta(l, f);
	if (!rc)
		rc = load_opsets(l, f, MODEL_OPSET, &l->opsets);
	if (rc)
		return rc;
	l->m->opsets = (struct opset *)(uintptr_t)l->opsets.v;
	l->m->nopsets = l->opsets.n;
	graph = pb_sub(f, MODEL_GRAPH, l->a);
	if (!graph.p)
		return FAIL(l->d, E_MODEL_FORMAT, .expected = "a model with a graph",
			    .actual = "none", .hint = "was the file cut short?");
	rc = functions_index(l, f);
	if (!rc)
		rc = load_graph(l, graph, NULL, &scope);
	if (rc)
		return rc;
	load_devices(l, f, graph);
	l->m->graph = scope->g;
	l->m->name = scope->g->name;
	l->m->file_nodes = scope->g->nnodes;
	if (pb_occurs(f, MODEL_TRAINING))
		NOTE(l->d, E_MODEL_GRAPH, .message = "the model's training information is ignored");
	return 0;
}

static struct model *model_new(const char *path, struct diag *d)
{
	struct model *m = mem_zalloc(sizeof(*m), MEM_MODEL);

	if (!m) {
		FAIL(d, E_MEMORY, .message = "no memory for a model");
		return NULL;
	}
	m->path = arena_str(&m->arena, path ? path : "");
	m->name = m->producer = m->producer_version = m->domain = m->doc = "";
	return m;
}

/* Adds the name of this file to every finding that the load has added. */
static void name_model_in_findings(struct diag *d, const struct finding *before, const char *path)
{
	if (!d || !path)
		return;
	for (struct finding *f = before ? before->next : d->first; f; f = f->next)
		if (!f->model)
			f->model = arena_str(&d->arena, path);
}

/*
 * Tells the system how the mapped file will be read. The loader jumps from field to field, so pages around the ones
 * it touches must not be read ahead; afterwards weights are read from front to back.
 */
static void expect_sequential_reads(const struct file_map *f, bool on)
{
	if (f->mapped && f->size)
		(void)madvise((void *)(uintptr_t)f->data, f->size, on ? MADV_NORMAL : MADV_RANDOM);
}

enum { MAX_LISTED = 1000 };

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns the number of .onnx files in a folder, at most MAX_LISTED, and their names in order. */
static size_t list_models(const char *folder, const char **name, struct arena *a)
{
	DIR *dir = opendir(folder);
	size_t n = 0;

	for (struct dirent *e; dir && n < MAX_LISTED && (e = readdir(dir));)
		if (!strcmp(path_ext(e->d_name), ".onnx"))
			name[n++] = arena_str(a, e->d_name);
	if (dir)
		closedir(dir);
	qsort(name, n, sizeof(*name), compare_names);
	return n;
}

enum { MAX_TOLD = 5 };

/* Names the first models of the folder in which a missing one was looked for, or says that the folder is missing, too. */
static const char *models_beside(const char *path, struct diag *d)
{
	struct arena *a = &d->arena;
	const char *base = path_base(path), **name = arena_new_n(a, const char *, MAX_LISTED);
	const char *folder = base > path ? arena_strn(a, path, (size_t)(base - path)) : ".";
	struct str all = {.arena = a};

	if (!path_is_folder(folder))
		return fmt(d, "there is no folder %s", folder);
	size_t n = list_models(folder, name, a);
	for (size_t i = 0; i < n && i < MAX_TOLD; i++)
		str_addf(&all, "%s%s%s", i ? ", " : "", base > path ? folder : "", name[i]);
	if (n > MAX_TOLD)
		str_addf(&all, " and %s%zu more", n == MAX_LISTED ? "at least " : "", n - MAX_TOLD);
	return n ? fmt(d, "the model%s there %s %s", n == 1 ? "" : "s", n == 1 ? "is" : "are",
		       str_get(&all))
		 : "there is no .onnx file in that folder; check the path";
}

/* Hints at the models that are there if the path is a folder or is not there. */
static void hint_at_models(const char *path, struct diag *d)
{
	struct stat st;
	bool there = stat(path, &st) == 0;

	if (!d || !d->last || d->last->hint || (there ? !S_ISDIR(st.st_mode) : errno != ENOENT))
		return;
	const char **name = arena_new_n(&d->arena, const char *, MAX_LISTED);
	size_t n = there ? list_models(path, name, &d->arena) : 0;
	if (!there) {
		const char *near = path_near(&d->arena, path, ".onnx");
		d->last->hint = near ? fmt(d, "did you mean %s?", near) : models_beside(path, d);
	} else if (n == 1) {
		d->last->hint =
			fmt(d, "the folder has one model: %s", path_join(&d->arena, path, name[0]));
	} else {
		d->last->hint = !n ? "the folder has no .onnx file"
				   : fmt(d, "name one of the folder's models, such as %s",
					 path_join(&d->arena, path, name[0]));
	}
}

static struct model *load_file_or_bytes(const char *path, struct pb_span bytes,
					const struct load_options *options, struct diag *d)
{
	static const struct load_options none;
	const struct finding *before = d ? d->last : NULL;
	struct model *m = model_new(path, d);
	int rc = 0;

	if (!m)
		return NULL;
	struct loader l = {.m = m, .d = d, .a = &m->arena, .options = options ? options : &none};
	l.function_of.arena = l.symbol_of.arena = l.tensor_of.arena = &l.scratch;
	l.store = weights_open(m, path, l.options->external_root, l.options->to_file);
	if (path) {
		struct file_map *map = weights_file(l.store);
		rc = weights_map(l.store, path, d);
		bytes = (struct pb_span){map->data, map->size};
		if (rc)
			hint_at_models(path, d);
		if (rc)
			path = NULL; /* the message of file_map already names the file */
		expect_sequential_reads(map, false);
	}
	if (!rc)
		rc = load_model(&l, bytes);
	expect_sequential_reads(weights_file(l.store), true);
	arena_free(&l.scratch);
	name_model_in_findings(d, before, path);
	if (!rc)
		return m;
	onnx_unload(m);
	return NULL;
}

struct model *onnx_load(const char *path, const struct load_options *options, struct diag *d)
{
	return load_file_or_bytes(path, (struct pb_span){0}, options, d);
}

struct model *onnx_load_bytes(const void *bytes, size_t n, const struct load_options *options,
			      struct diag *d)
{
	return load_file_or_bytes(NULL, (struct pb_span){bytes, n}, options, d);
}

void onnx_unload(struct model *m)
{
	if (!m)
		return;
	weights_close(m);
	/* struct model is not in its own arena, so it is freed separately */
	struct arena a = m->arena;
	arena_free(&a);
	mem_free(m);
}
