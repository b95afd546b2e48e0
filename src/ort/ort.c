/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX Runtime's C API is a struct of function pointers to which each version only appends. The indices below are those of
 * onnxruntime_c_api.h (MIT), whose build asserts the positions of the last function of each version: 101 for version 1, 124 for
 * version 3. The functions used here are of version 4 and earlier; version 11 (ONNX Runtime 1.11, 2022) is asked for, which
 * every later library serves.
 */
#include "ort/ort.h"

#include "base/dl.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ORT_API = 11 };

/* Positions in struct OrtApi. */
enum {
	GET_ERROR_MESSAGE = 2,
	CREATE_ENV = 3,
	CREATE_SESSION = 7,
	CREATE_SESSION_FROM_ARRAY = 8,
	RUN = 9,
	CREATE_SESSION_OPTIONS = 10,
	DISABLE_MEM_PATTERN = 17,
	DISABLE_CPU_MEM_ARENA = 19,
	SET_GRAPH_OPTIMIZATION_LEVEL = 23,
	SET_INTRA_OP_NUM_THREADS = 24,
	CREATE_TENSOR = 48,
	CREATE_TENSOR_WITH_DATA = 49,
	IS_TENSOR = 50,
	GET_TENSOR_MUTABLE_DATA = 51,
	FILL_STRING_TENSOR = 52,
	GET_STRING_TENSOR_DATA_LENGTH = 53,
	GET_STRING_TENSOR_CONTENT = 54,
	GET_TENSOR_ELEMENT_TYPE = 60,
	GET_DIMENSIONS_COUNT = 61,
	GET_DIMENSIONS = 62,
	GET_TENSOR_TYPE_AND_SHAPE = 65,
	CREATE_CPU_MEMORY_INFO = 69,
	GET_DEFAULT_ALLOCATOR = 78,
	RELEASE_ENV = 92,
	RELEASE_STATUS = 93,
	RELEASE_MEMORY_INFO = 94,
	RELEASE_SESSION = 95,
	RELEASE_VALUE = 96,
	RELEASE_TENSOR_INFO = 99,
	RELEASE_SESSION_OPTIONS = 100,
	ADD_SESSION_CONFIG_ENTRY = 130,
};

enum {
	LOG_FATAL = 4, /* OrtLoggingLevel: the library prints nothing; errors come as a status */
	OPTIMIZE_DISABLED = 0, /* GraphOptimizationLevel */
	ARENA_ALLOCATOR = 1,   /* OrtAllocatorType */
	MEMORY_DEFAULT = 0,    /* OrtMemType */
	/* ONNXTensorElementDataType has ONNX's numbers up to this one */
	LAST_COMMON_TYPE = DT_F4E2M1,
};

typedef void (*any_function)(void);
struct api_base {
	const any_function *(*get_api)(uint32_t version);
	const char *(*version)(void);
};

struct ort {
	struct dl lib;
	struct arena arena;
	const char *version;
	const any_function *api;
	void *env, *options, *memory;
};

struct ort_session {
	struct ort *o;
	void *handle;
};

/* Calls function `index` of the API, whose parameters have the given types and which returns a status. */
#define CALL(o, index, types, ...) (((void *(*)types)(o)->api[index])(__VA_ARGS__))
#define RELEASE(o, index, p)	   (((void (*)(void *))(o)->api[index])(p))

/* ---- the library ------------------------------------------------------------------------------- */

enum { MAX_PLACES = 64, MAX_NAMES = 16 };

struct places {
	struct arena *arena;
	const char *environment[MAX_PLACES + 1];
	const char *name[MAX_NAMES + 3];
	size_t nenvironments, nnames;
};

static void add_environment(struct places *p, const char *base, size_t len, const char *rest)
{
	if (base && len && p->nenvironments < MAX_PLACES)
		p->environment[p->nenvironments++] =
			arena_printf(p->arena, "%.*s%s", (int)len, base, rest);
}

static void add_name(struct places *p, const char *name)
{
	for (size_t i = 0; i < p->nnames; i++)
		if (!strcmp(p->name[i], name))
			return;
	if (p->nnames < MAX_NAMES + 2)
		p->name[p->nnames++] = arena_str(p->arena, name);
}

/* A wheel's library has its whole version in its file's name, so that the names are those of the files that are there. */
static void add_names(struct places *p, const char *folder)
{
	glob_t g;

	if (!glob(arena_printf(p->arena, "%s/libonnxruntime.so*", folder), 0, NULL, &g)) {
		for (size_t i = 0; i < g.gl_pathc; i++)
			add_name(p, path_base(g.gl_pathv[i]));
		globfree(&g);
	}
}

static void add_python_paths(struct places *p)
{
	static const char capi[] = "/lib/python3*/site-packages/onnxruntime/capi";
	const char *venv = getenv("VIRTUAL_ENV"), *conda = getenv("CONDA_PREFIX"),
		   *home = getenv("HOME");

	for (const char *s = getenv("PYTHONPATH"); s && *s;) {
		size_t len = strcspn(s, ":");
		add_environment(p, s, len, "/onnxruntime/capi");
		s += len + (s[len] == ':');
	}
	add_environment(p, venv, venv ? strlen(venv) : 0, capi);
	add_environment(p, conda, conda ? strlen(conda) : 0, capi);
	add_environment(p, conda, conda ? strlen(conda) : 0, "/lib");
	for (const char *s = getenv("PATH"); s && *s;) {
		size_t len = strcspn(s, ":");
		const char *python = arena_printf(p->arena, "%.*s/python3", (int)len, s);
		if (len > 4 && !strncmp(s + len - 4, "/bin", 4) && access(python, X_OK) == 0)
			add_environment(p, s, len - 4, capi);
		s += len + (s[len] == ':');
	}
	if (home)
		add_environment(p, home, strlen(home),
				"/.local/lib/python3*/site-packages/onnxruntime/capi");
	add_environment(p, "/usr/local", 10, "/lib/python3*/dist-packages/onnxruntime/capi");
	add_environment(p, "/usr", 4, "/lib/python3/dist-packages/onnxruntime/capi");
}

static void find_places(struct places *p)
{
	add_name(p, "libonnxruntime.so.1");
	add_name(p, "libonnxruntime.so");
	for (const char *s = getenv("INFER_LIBRARY_PATH"); s && *s;) {
		size_t len = strcspn(s, ":");
		add_names(p, arena_strn(p->arena, s, len));
		s += len + (s[len] == ':');
	}
	add_python_paths(p);
	for (size_t i = 0; i < p->nenvironments; i++)
		add_names(p, p->environment[i]);
}

static const struct api_base *call_base(void *function)
{
	const struct api_base *(*base)(void);

	memcpy(&base, &function, sizeof(base));
	return base();
}

static bool serves_version(void *const *table, char *found, size_t room)
{
	const struct api_base *base = call_base(table[0]);

	if (base && base->get_api(ORT_API))
		return true;
	snprintf(found, room, "version %s", base ? base->version() : "?");
	return false;
}

static const char *status_text(struct ort *o, void *status, struct diag *d)
{
	const char *(*message)(const void *) =
		(const char *(*)(const void *))o->api[GET_ERROR_MESSAGE];
	const char *words = message(status);
	size_t n = strlen(words);
	while (n && (words[n - 1] == '\n' || words[n - 1] == ' '))
		n--;
	const char *text = fmt(d, "%.*s", (int)n, words);

	RELEASE(o, RELEASE_STATUS, status);
	return text;
}

/* Returns 0 if status is NULL, which is success; otherwise frees it and returns -E_REFERENCE with a finding. */
static int check_status(struct ort *o, void *status, struct diag *d, const char *what)
{
	if (!status)
		return 0;
	return FAIL(d, E_REFERENCE,
		    .message = fmt(d, "ONNX Runtime %s %s: %s", o->version, what,
				   status_text(o, status, d)));
}

static int create_environment(struct ort *o, struct diag *d)
{
	void *status = CALL(o, CREATE_ENV, (int, const char *, void **), LOG_FATAL, "infer", &o->env);

	if (!status)
		status = CALL(o, CREATE_SESSION_OPTIONS, (void **), &o->options);
	if (!status)
		status = CALL(o, SET_GRAPH_OPTIMIZATION_LEVEL, (void *, int), o->options,
			      OPTIMIZE_DISABLED);
	/* neither keep memory from one run to the next nor plan for it: tensors are compared one after the other */
	if (!status)
		status = CALL(o, DISABLE_CPU_MEM_ARENA, (void *), o->options);
	if (!status)
		status = CALL(o, DISABLE_MEM_PATTERN, (void *), o->options);
	if (!status)
		status = CALL(o, CREATE_CPU_MEMORY_INFO, (int, int, void **), ARENA_ALLOCATOR,
			      MEMORY_DEFAULT, &o->memory);
	return check_status(o, status, d, "cannot be started");
}

struct ort *ort_open(struct diag *d)
{
	static const struct dl_symbol symbols[] = {{"OrtGetApiBase", true}};
	struct arena arena = {0};
	struct ort *o = arena_new(&arena, struct ort);
	struct places *p = arena_new(&arena, struct places);
	void *table[1];
	struct diag quiet = {0};

	o->arena = arena;
	p->arena = &o->arena;
	find_places(p);
	const struct dl_search search = {.environments = p->environment,
					 .suits = serves_version,
					 .expected = "ONNX Runtime 1.11 or newer"};
	if (dl_find(&o->lib, p->name, &search, symbols, table, 1, &quiet)) {
		FAIL(d, E_LIBRARY,
		     .message = "ONNX Runtime's library (libonnxruntime.so) cannot be opened",
		     .expected = search.expected,
		     .actual = d ? dl_brief(o->lib.tried, &d->arena) : NULL,
		     .hint = "install it (pip install onnxruntime), or name its folder in INFER_LIBRARY_PATH");
		diag_free(&quiet);
		ort_close(o);
		return NULL;
	}
	diag_free(&quiet);
	const struct api_base *base = call_base(table[0]);
	o->version = base->version();
	o->api = base->get_api(ORT_API);
	if (create_environment(o, d)) {
		ort_close(o);
		return NULL;
	}
	return o;
}

void ort_close(struct ort *o)
{
	if (!o)
		return;
	struct arena arena = o->arena;

	if (o->memory)
		RELEASE(o, RELEASE_MEMORY_INFO, o->memory);
	if (o->options)
		RELEASE(o, RELEASE_SESSION_OPTIONS, o->options);
	if (o->env)
		RELEASE(o, RELEASE_ENV, o->env);
	arena_free(&arena);
}

const char *ort_version(const struct ort *o)
{
	return o->version;
}

const char *ort_path(const struct ort *o)
{
	return o->lib.path;
}

/* ---- a model with more outputs ------------------------------------------------------------------ */

/* Writes a protobuf tag (field number, wire type 2) and a length at `to`, or nowhere if that is NULL; returns their size. */
static size_t put_head(unsigned char *to, unsigned field, size_t length)
{
	size_t n = 0;
	uint64_t number[2] = {field << 3 | 2, length};

	for (int i = 0; i < 2; i++) {
		do {
			unsigned char byte =
				(unsigned char)((number[i] & 0x7f) | (number[i] > 0x7f ? 0x80 : 0));
			if (to)
				to[n] = byte;
			n++;
			number[i] >>= 7;
		} while (number[i]);
	}
	return n;
}

/* Size of a ValueInfoProto that has only its field 1, the name. */
static size_t value_size(const char *name)
{
	return put_head(NULL, 1, strlen(name)) + strlen(name);
}

/*
 * Returns the bytes of the model with the extra outputs. A message of which a file has two pieces is merged from both
 * (protobuf's encoding, "Last One Wins"), so that a second ModelProto.graph (field 7) that has only outputs (field 12) is
 * appended to the file's bytes, which need not be parsed.
 */
static unsigned char *append_outputs(const struct file_map *m, const char *const *extra, size_t n,
				     size_t *size, struct diag *d)
{
	size_t graph = 0, all;

	for (size_t i = 0; i < n; i++)
		graph += put_head(NULL, 12, value_size(extra[i])) + value_size(extra[i]);
	if (!size_add(m->size, graph + put_head(NULL, 7, graph), &all))
		all = SIZE_MAX;
	unsigned char *bytes = mem_alloc(all, MEM_STAGING), *to = bytes;
	if (!bytes) {
		FAIL(d, E_MEMORY,
		     .message = fmt(d, "no memory for a copy of the model of %zu bytes", all));
		return NULL;
	}
	memcpy(to, m->data, m->size);
	to += m->size;
	to += put_head(to, 7, graph);
	for (size_t i = 0; i < n; i++) {
		to += put_head(to, 12, value_size(extra[i]));
		to += put_head(to, 1, strlen(extra[i]));
		memcpy(to, extra[i], strlen(extra[i]));
		to += strlen(extra[i]);
	}
	*size = all;
	return bytes;
}

/* External data of a model in memory are looked for in this folder. A library older than 1.19 ignores the entry. */
static void *set_folder(struct ort *o, const char *path)
{
	struct arena a = {0};
	void *status =
		CALL(o, ADD_SESSION_CONFIG_ENTRY, (void *, const char *, const char *), o->options,
		     "session.model_external_initializers_file_folder_path", path_dir(&a, path));

	arena_free(&a);
	return status;
}

static int open_with_outputs(struct ort_session *s, const char *path, const char *const *extra,
			     size_t n, struct diag *d)
{
	struct ort *o = s->o;
	struct file_map m;
	size_t size;
	int err = file_map(path, &m, E_MODEL_OPEN, d);

	if (err)
		return err;
	unsigned char *bytes = append_outputs(&m, extra, n, &size, d);
	file_unmap(&m);
	if (!bytes)
		return -E_MEMORY;
	void *status = set_folder(o, path);
	if (!status)
		status = CALL(o, CREATE_SESSION_FROM_ARRAY,
			      (void *, const void *, size_t, void *, void **), o->env, bytes, size,
			      o->options, &s->handle);
	mem_free(bytes);
	return check_status(o, status, d, "cannot open the model");
}

struct ort_session *ort_session_open(struct ort *o, const char *path, const char *const *extra,
				     size_t n, int64_t threads, struct diag *d)
{
	struct ort_session *s = mem_zalloc(sizeof(*s), MEM_STAGING);
	int err = s ? 0 : FAIL(d, E_MEMORY, .message = "no memory for a session of ONNX Runtime");

	if (!err) {
		s->o = o;
		err = check_status(o,
				   CALL(o, SET_INTRA_OP_NUM_THREADS, (void *, int), o->options,
					(int)(threads > 0 && threads < 1024 ? threads : 0)),
				   d, "cannot be configured");
	}
	if (!err && n)
		err = open_with_outputs(s, path, extra, n, d);
	else if (!err)
		err = check_status(o,
				   CALL(o, CREATE_SESSION, (void *, const char *, void *, void **),
					o->env, path, o->options, &s->handle),
				   d, "cannot open the model");
	if (!err)
		return s;
	ort_session_close(s);
	return NULL;
}

void ort_session_close(struct ort_session *s)
{
	if (s && s->handle)
		RELEASE(s->o, RELEASE_SESSION, s->handle);
	mem_free(s);
}

/* ---- a run ------------------------------------------------------------------------------------- */

static int create_strings(struct ort *o, const struct tensor *t, void **value, struct diag *d)
{
	struct arena a = {0};
	int64_t n = tensor_count(t);
	const char **text = arena_new_n(&a, const char *, (size_t)n + 1);
	void *allocator = NULL;

	for (int64_t i = 0; i < n; i++) {
		size_t length;
		const char *s = tensor_string(t, i, &length);
		text[i] = arena_strn(&a, s, length);
	}
	void *status = CALL(o, GET_DEFAULT_ALLOCATOR, (void **), &allocator);
	if (!status)
		status = CALL(o, CREATE_TENSOR, (void *, const int64_t *, size_t, int, void **),
			      allocator, t->shape.dim, (size_t)t->shape.rank, DT_STRING, value);
	if (!status)
		status = CALL(o, FILL_STRING_TENSOR, (void *, const char *const *, size_t), *value,
			      text, (size_t)n);
	arena_free(&a);
	return check_status(o, status, d, "does not take an input");
}

static int create_input(struct ort *o, const char *name, const struct tensor *t, void **value,
			struct diag *d)
{
	static char nothing[64];

	if (t->type.kind != V_TENSOR || tensor_dtype(t) > (enum dtype)LAST_COMMON_TYPE)
		return FAIL(d, E_REFERENCE, .slot = fmt(d, "input '%s'", name),
			    .message = "an input of this type cannot be handed to ONNX Runtime");
	if (tensor_dtype(t) == DT_STRING)
		return create_strings(o, t, value, d);
	return check_status(o,
			    CALL(o, CREATE_TENSOR_WITH_DATA,
				 (void *, void *, size_t, const int64_t *, size_t, int, void **),
				 o->memory, t->bytes ? t->data : nothing, t->bytes, t->shape.dim,
				 (size_t)t->shape.rank, (int)tensor_dtype(t), value),
			    d, "does not take an input");
}

/* Copies the strings of an output, whose shape is set, into the arena. */
static void *copy_strings(struct ort *o, void *value, struct tensor *t, struct arena *a)
{
	int64_t n = tensor_count(t);
	size_t *offset = arena_new_n(a, size_t, (size_t)n + 1), bytes = 0;
	void *status = CALL(o, GET_STRING_TENSOR_DATA_LENGTH, (void *, size_t *), value, &bytes);
	char *blob = status ? NULL : arena_alloc(a, bytes + 1);

	if (!status)
		status = CALL(o, GET_STRING_TENSOR_CONTENT,
			      (void *, void *, size_t, size_t *, size_t), value, blob, bytes,
			      offset, (size_t)n);
	if (status)
		return status;
	struct str_ref *ref = arena_new_n(a, struct str_ref, (size_t)n + 1);
	offset[n] = bytes;
	for (int64_t i = 0; i < n; i++)
		ref[i] = (struct str_ref){offset[i], offset[i + 1] - offset[i]};
	t->data = ref;
	t->blob = blob;
	t->blob_bytes = bytes;
	t->type = type_tensor(DT_STRING);
	return NULL;
}

/* Describes an output by *t if it is a tensor of a type and rank that we have. */
static void *describe_output(struct ort *o, void *value, struct tensor *t, struct arena *a)
{
	void *info = NULL;
	int is_tensor = 0, type = 0;
	size_t rank = 0;
	void *status = value ? CALL(o, IS_TENSOR, (void *, int *), value, &is_tensor) : NULL;

	if (status || !is_tensor)
		return status;
	status = CALL(o, GET_TENSOR_TYPE_AND_SHAPE, (void *, void **), value, &info);
	if (!status)
		status = CALL(o, GET_TENSOR_ELEMENT_TYPE, (void *, int *), info, &type);
	if (!status)
		status = CALL(o, GET_DIMENSIONS_COUNT, (void *, size_t *), info, &rank);
	if (!status && rank <= MAX_RANK)
		status = CALL(o, GET_DIMENSIONS, (void *, int64_t *, size_t), info, t->shape.dim,
			      rank);
	if (info)
		RELEASE(o, RELEASE_TENSOR_INFO, info);
	if (status || rank > MAX_RANK || type <= 0 || type > LAST_COMMON_TYPE)
		return status;
	t->shape.rank = (int32_t)rank;
	if (!tensor_bytes((enum dtype)type, &t->shape, LAYOUT_ROW, &t->bytes))
		return NULL;
	if (type == DT_STRING)
		return copy_strings(o, value, t, a);
	status = CALL(o, GET_TENSOR_MUTABLE_DATA, (void *, void **), value, &t->data);
	if (!status)
		t->type = type_tensor((enum dtype)type);
	return status;
}

int ort_run(struct ort_session *s, const char *const *in_name, const struct tensor *const *in,
	    size_t nin, const char *const *out_name, size_t nout, struct ort_value *out,
	    struct diag *d)
{
	struct ort *o = s->o;
	struct arena a = {0};
	void **value = arena_new_n(&a, void *, nin + 1), **result = arena_new_n(&a, void *, nout + 1);
	const char **name = arena_new_n(&a, const char *, nin + 1);
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; i < nin && !err; i++) {
		if (!in[i])
			continue;
		name[n] = in_name[i];
		err = create_input(o, in_name[i], in[i], &value[n++], d);
	}
	if (!err)
		err = check_status(o,
				   CALL(o, RUN,
					(void *, void *, const char *const *, void *const *, size_t,
					 const char *const *, size_t, void **),
					s->handle, NULL, name, value, n, out_name, nout, result),
				   d, "cannot run the model");
	for (size_t i = 0; i < nout; i++) {
		out[i] = (struct ort_value){.handle = result[i], .from = o};
		if (!err)
			err = check_status(o,
					   describe_output(o, result[i], &out[i].t, &out[i].strings),
					   d, "does not tell an output");
	}
	for (size_t i = 0; i < n; i++)
		if (value[i])
			RELEASE(o, RELEASE_VALUE, value[i]);
	arena_free(&a);
	return err;
}

void ort_value_free(struct ort_value *v)
{
	if (v->handle)
		RELEASE(v->from, RELEASE_VALUE, v->handle);
	arena_free(&v->strings);
	*v = (struct ort_value){0};
}
