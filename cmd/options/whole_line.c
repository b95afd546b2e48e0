/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/whole_line.h"

#include "base/file.h"
#include "base/str.h"
#include "cmd/options/options.h"
#include "cmd/options/subcommand.h"
#include "input/list.h"
#include "ir/graph.h"
#include "onnx/load.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bool is_input_key(const char *word, size_t n)
{
	for (const char *key = input_key_words(""); *key;) {
		size_t len = strcspn(key, "|");
		if (len == n && !strncmp(key, word, n))
			return true;
		key += len + (key[len] == '|');
	}
	return false;
}

bool wants_scale(int argc, char *const *argv)
{
	bool small = false;

	for (int i = 0; i < argc; i++) {
		const char *w = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
		if (str_starts(w, "--scale"))
			return false;
		if (str_starts(w, "--mean=") || str_starts(w, "--std="))
			value = strchr(w, '=') + 1;
		else if (strcmp(w, "--mean") != 0 && strcmp(w, "--std") != 0)
			continue;
		small |= str_starts(value, "0.");
	}
	return small;
}

struct line {
	const struct command *command;
	int argc;
	char *const *argv;
	struct diag *d;
	const char *model, *file;
	struct str keys, rest;
	bool resized;
	int foreign; /* words that are not ours */
};

/* Options of other tools that need nothing but another name here. */
static const char *our_name(const char *name, size_t n)
{
	static const struct {
		const char *words, *ours;
	} rows[] = {
		{"topk top-k top_k print-top num-top", "top"},
		{"names class-names class_names label-file labels-file label-path class-file",
		 "labels"},
		{"batch-size batch_size batchsize bs", "batch"},
		{"num-threads num_threads nthreads", "threads"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *p = rows[i].words;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && !strncmp(p, name, n))
				return rows[i].ours;
		}
	}
	return NULL;
}

static void add_word(struct line *l, const char *word)
{
	str_addf(&l->rest, " %s", str_quoted(&l->d->arena, word));
}

/* Adds a key with its value: numbers have slashes between them, and one side stands for both. */
static bool add_key(struct line *l, const char *key, size_t n, const char *value)
{
	bool resize = n == 6 && !strncmp(key, "resize", n);

	if (!*value || *value == '-')
		return false;
	str_addf(&l->keys, ",%.*s=", (int)n, key);
	for (const char *p = value; *p; p++)
		str_addf(&l->keys, "%c", !resize && strchr(", ;", *p) ? '/' : *p);
	if (resize && !value[strspn(value, "0123456789")])
		str_addf(&l->keys, "x%s", value);
	l->resized |= resize;
	l->foreign++;
	return true;
}

/* Takes an option of ours with its value, if it takes one. Returns the number of words, or 0. */
static int take_own(struct line *l, const struct field *f, int i, const char *attached)
{
	const char *next = i + 1 < l->argc ? l->argv[i + 1] : NULL;
	bool value = f->arg && !attached && option_takes_next(f, next);
	const char *file = attached ? attached : value ? next : NULL;

	if (!strcmp(f->name, "input")) {
		if (l->file || !file)
			return 0;
		l->file = file;
		return 1 + value;
	}
	add_word(l, l->argv[i]);
	if (value)
		add_word(l, next);
	return 1 + value;
}

/* Takes the word at i. Returns the number of words that belong to it, or 0 if it cannot be carried over. */
static int take_word(struct line *l, int i)
{
	const char *w = l->argv[i], *equals = strchr(w, '='), *attached = equals ? equals + 1 : NULL;

	if (*w != '-') {
		const char **place = path_names_model(w) ? &l->model : &l->file;
		if (*place)
			return 0;
		*place = w;
		return 1;
	}
	bool brief = w[1] != '-';
	const char *name = w + (brief ? 1 : 2);
	size_t n = strcspn(name, "=");
	for (const struct field *f = options_table; f->name; f++) {
		bool same = brief ? n == 1 && f->sh == *name
				  : strlen(f->name) == n && !strncmp(f->name, name, n);
		if (same && f->cmds & l->command->bit)
			return take_own(l, f, i, attached);
	}
	const char *value = attached ? attached : i + 1 < l->argc ? l->argv[i + 1] : "";
	const char *ours = brief ? NULL : our_name(name, n);
	if (ours && *value && *value != '-') {
		str_addf(&l->rest, " --%s", ours);
		add_word(l, value);
		l->foreign++;
		return attached ? 1 : 2;
	}
	if (brief || !is_input_key(name, n) || !add_key(l, name, n, value))
		return 0;
	return attached ? 1 : 2;
}

static bool is_picture(const char *file)
{
	static const char *const kinds[] = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".gif"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcasecmp(path_ext(file), kinds[i]))
			return true;
	return false;
}

/* Adds the size of the pictures that the model takes, if its only input of four axes says it. */
static void add_size(struct line *l)
{
	const struct load_options load = {.without_data = true};
	struct diag quiet = {0};
	struct model *m = onnx_load(l->model, &load, &quiet);

	for (uint32_t i = 0; m && m->graph && i < m->graph->nin && !l->resized; i++) {
		const struct value *v = m->graph->value[m->graph->in[i]];
		const struct shape *s = &v->info.shape;
		if (v->init || s->rank != 4)
			continue;
		int h = s->dim[3] == 3 || s->dim[3] == 1 ? 1 : 2;
		if (s->dim[h] < 2 || s->dim[h + 1] < 2)
			continue;
		str_addf(&l->keys, ",resize=%" PRId64 "x%" PRId64, s->dim[h + 1], s->dim[h]);
		l->resized = true;
	}
	onnx_unload(m);
	diag_free(&quiet);
}

const char *whole_line(const struct command *command, int argc, char *const *argv, struct diag *d)
{
	struct line l = {.command = command, .argc = argc, .argv = argv, .d = d};

	l.keys.arena = l.rest.arena = &d->arena;
	for (int i = 0; i < argc;) {
		int n = take_word(&l, i);
		if (!n)
			return NULL;
		i += n;
	}
	if (!l.model || !l.file || access(l.model, F_OK) != 0 || !(command->bit & CMD_RUNS))
		return NULL;
	if (!l.foreign)
		return NULL;
	if (is_picture(l.file))
		add_size(&l);
	if (!l.keys.n && l.foreign < 2)
		return NULL;
	if (wants_scale(argc, argv))
		str_add(&l.keys, ",scale=1/255");
	const char *input = arena_printf(&d->arena, "%s%s", l.file, l.keys.n ? str_get(&l.keys) : "");
	return arena_printf(&d->arena, "infer %s %s %s%s", command->name,
			    str_quoted(&d->arena, l.model), str_quoted(&d->arena, input),
			    l.rest.n ? str_get(&l.rest) : "");
}
