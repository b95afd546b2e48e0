/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/convert.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "onnx/forms.h"

#include <ctype.h>

bool is_text(struct pb_span s)
{
	for (size_t i = 0; i < s.n;) {
		size_t n = s.p[i] ? utf8_length(s.p + i, s.n - i) : 0;
		if (!n)
			return false;
		i += n;
	}
	return true;
}

/* Copies the message, and gives back the pages that have been read, and with `pass` those that have been written. */
static void copy_pieces(const struct message *m, uint8_t *to, bool pass)
{
	enum { BLOCK = 1 << 20 };

	for (size_t i = 0; i < m->n; i++) {
		const uint8_t *p = m->v[i].p;
		for (size_t left = m->v[i].n, n; left; left -= n, p += n, to += n) {
			n = left < BLOCK ? left : BLOCK;
			memcpy(to, p, n);
			file_release(p, n);
			if (pass)
				file_pass(to, n);
		}
	}
}

struct pb_span msg_flat(const struct message *m, struct arena *a)
{
	uint8_t *to = arena_alloc(a, m->bytes + 1);

	copy_pieces(m, to, false);
	return (struct pb_span){to, m->bytes};
}

int copy_flat(struct copier *c, struct pb_span tensor, bool initializer, struct arena *a,
	      struct pb_span *out)
{
	struct message m = {.arena = a};
	struct pb_span rest;
	int rc = copy_tensor(c, 1, tensor, initializer, &m);

	*out = tensor;
	if (rc || !tensor.n || m.v[m.n - 1].p == tensor.p) /* copied as it is */
		return rc;
	rest = msg_flat(&m, a);
	pb_each(&rest, 1, out);
	return 0;
}

/* No binary ModelProto begins with '{', '<' or '#': those stand for wire types that it has not. */
enum onnx_form form_of(struct pb_span file)
{
	size_t i = 0;

	while (i < file.n && isspace(file.p[i]))
		i++;
	if (i == file.n)
		return ONNX_BINARY;
	return file.p[i] == '{'			      ? ONNX_JSON
	       : file.p[i] == '<' || file.p[i] == '#' ? ONNX_TEXT
						      : ONNX_BINARY;
}

static int read_form(enum onnx_form form, struct pb_span text, struct message *out,
		     struct file_spill *data, struct diag *d)
{
	return form == ONNX_JSON ? json_to_model(text, out, data, d)
				 : text_to_model(text, out, data, d);
}

int binary_form(struct pb_span file, struct arena *a, struct pb_span *out, struct diag *d)
{
	enum onnx_form form = form_of(file);
	struct message m = {.arena = a};

	*out = file;
	if (form == ONNX_BINARY)
		return 0;
	int rc = read_form(form, file, &m, NULL, d);
	if (!rc)
		*out = msg_flat(&m, a);
	return rc;
}

void *data_room(struct file_spill *data, struct arena *a, size_t n)
{
	void *p = data ? file_spill_room(data, n) : NULL;

	return p ? p : arena_alloc(a, n);
}

void *data_more(struct file_spill *data, struct arena *a, void *p, size_t n, size_t more)
{
	void *to = data_room(data, a, more);

	if (to != p && n)
		memcpy(to, p, n);
	return to;
}

void data_put(struct file_spill *data, struct message *m, uint32_t field, const void *p, size_t n)
{
	if (data && (const unsigned char *)p == data->map.data + data->used)
		file_spill_take(data, n);
	msg_bytes(m, field, p, n);
}

/* Writes the message to a file without a name. */
static bool spill_message(const struct message *m, struct file_map *out)
{
	struct file_spill whole;

	if (!file_spill_open(&whole, m->bytes))
		return false;
	if (!file_spill_room(&whole, m->bytes)) {
		file_spill_close(&whole);
		return false;
	}
	copy_pieces(m, (uint8_t *)(uintptr_t)whole.map.data, true);
	whole.used = m->bytes;
	file_spill_done(&whole, out);
	return true;
}

int binary_map(struct file_map *file, struct diag *d)
{
	enum {
		/* In the binary form numbers take four bytes a byte of text at most (a list "1,1" of doubles). */
		GROWTH = 4,
		MIN_ROOM = 1 << 20
	};
	struct pb_span text = {file->data, file->size};
	enum onnx_form form = form_of(text);
	struct arena a = {0};
	struct message m = {.arena = &a};
	struct file_spill data;
	struct file_map map;
	size_t most;

	if (form == ONNX_BINARY || __builtin_mul_overflow(file->size, (size_t)GROWTH, &most) ||
	    !file_spill_open(&data, most + MIN_ROOM))
		return 0;
	int rc = read_form(form, text, &m, &data, d);
	if (!rc && m.bytes && spill_message(&m, &map)) {
		file_unmap(file);
		*file = map;
	}
	file_spill_close(&data);
	arena_free(&a);
	return rc;
}

bool onnx_is_json_model(const char *path)
{
	struct file_map m;
	struct diag why = {0};
	bool is = !file_map(path, &m, E_MODEL_OPEN, &why) &&
		  form_of((struct pb_span){m.data, m.size}) == ONNX_JSON &&
		  json_is_model((struct pb_span){m.data, m.size});

	file_unmap(&m);
	diag_free(&why);
	return is;
}

/* ---- a conversion */

struct conversion {
	const struct onnx_conversion *c;
	struct diag *d;
	struct arena arena;
	struct model shell; /* empty; it owns the store */
	struct weights *store;
	struct pb_span model; /* in binary form */
};

static int read_source(struct conversion *x)
{
	static const struct pb_codes codes = {E_MODEL_FORMAT, E_MODEL_TRUNCATED, E_MODEL_DEPTH};
	const struct file_map *map = weights_file(x->store);
	int rc = weights_map(x->store, x->c->from, x->d);

	rc = rc ? rc
		: binary_form((struct pb_span){map->data, map->size}, &x->arena, &x->model, x->d);
	rc = rc ? rc : pb_check(&onnx__model_proto__descriptor, x->model, &codes, x->d);
	if (!rc && !pb_occurs(x->model, MODEL_GRAPH))
		rc = FAIL(x->d, E_MODEL_FORMAT, .expected = "a model with a graph", .actual = "none");
	if (rc)
		diag_where(x->d, x->c->from, NULL, NULL);
	return rc;
}

static int write_form(struct copier *c, const struct conversion *x)
{
	struct file_out *out = file_create(x->c->to, E_OUTPUT, x->d);

	if (!out)
		return -E_OUTPUT;
	int rc = x->c->form == ONNX_JSON ? model_to_json(c, x->model, out)
					 : model_to_text(c, x->model, out);
	rc = rc || !c->location ? rc : copy_write_data(c, x->c->to);
	if (!rc)
		return file_commit(out, x->d);
	file_abort(out);
	return rc;
}

int onnx_convert(const struct onnx_conversion *c, struct diag *d)
{
	struct conversion x = {.c = c, .d = d};
	struct arena a = {0};
	struct message m = {.arena = &a};
	int rc;

	x.store = weights_open(&x.shell, c->from, NULL, true);
	rc = read_source(&x);
	struct copier copier = {
		.arena = &a, .d = d, .store = x.store, .location = c->external, .data = {.arena = &a}};
	if (!rc && c->form == ONNX_BINARY) {
		rc = copy_message(&copier, &onnx__model_proto__descriptor, x.model, &m);
		rc = rc ? rc : copy_write(&copier, &m, c->to);
	} else if (!rc) {
		rc = write_form(&copier, &x);
	}
	weights_close(&x.shell);
	arena_free(&x.shell.arena);
	arena_free(&x.arena);
	arena_free(&a);
	return rc;
}
