/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/whole_line.h"

#include "base/file.h"
#include "base/str.h"
#include "cmd/options/foreign.h"
#include "cmd/options/options.h"
#include "cmd/options/subcommand.h"
#include "input/list.h"
#include "io/io.h"
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

/* What becomes of a word of another tool, with or without the value behind it. */
enum becomes { OPTION, TEXT, THE_MODEL, THE_FILE, THE_DEVICE, THE_SHAPES, NOTHING, NOTHING_OF_TWO };

static const struct alike {
	const char *words;
	enum becomes becomes;
	const char *ours;
} alike[] = {
#define FOREIGN(words, hint)
#define FOREIGN_IN(commands, words, hint)
#define FOREIGN_VALUE(option, values, hint)
#define IN_A_LINE(words, becomes, ours) {words, becomes, ours},
#include "cmd/options/foreign.def"
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
#undef IN_A_LINE
};

static bool same_letters(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((a[i] == '_' ? '-' : a[i]) != b[i])
			return false;
	return true;
}

/* The option of ours that a word with one dash or two is, or NULL. */
static const struct field *find_own(const struct line *l, const char *word)
{
	bool brief = word[1] != '-';
	const char *name = word + (brief ? 1 : 2);
	size_t n = strcspn(name, "= ");

	for (const struct field *f = options_table; f->name; f++) {
		bool same = brief ? n == 1 && f->sh == *name
				  : strlen(f->name) == n && !strncmp(f->name, name, n);
		if (same && f->cmds & l->command->bit)
			return f;
	}
	return NULL;
}

/* A row whose option the command does not have is not found. */
static const struct alike *find_alike(const struct line *l, const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++) {
		const char *p = alike[i].words;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && same_letters(name, p, n) &&
			    (!*alike[i].ours || find_own(l, alike[i].ours)))
				return &alike[i];
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

static bool has_word(const struct line *l, const char *word)
{
	for (int i = 0; i < l->argc; i++)
		if (!strcmp(l->argv[i], word))
			return true;
	return false;
}

/* Devices as other tools write them: CPU, GPU.0. */
static const char *device_word(struct diag *d, const char *word)
{
	if (!strcasecmp(word, "cpu"))
		return "cpu";
	if (!strncasecmp(word, "gpu", 3))
		return word[3] ? fmt(d, "cuda:%s", word + 4) : "cuda";
	return word;
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
	/* benchmark_app and onnxruntime_perf_test, which have -m, count seconds by -t */
	if (f->sh == 't' && value && has_word(l, "-m")) {
		str_addf(&l->rest, " --duration %ss", next);
		return 2;
	}
	add_word(l, l->argv[i]);
	const char *word = value && !strcmp(f->name, "device") ? device_word(l->d, next) : next;
	l->foreign += word != next;
	if (value)
		add_word(l, word);
	return 1 + value;
}

static bool set_once(const char **place, const char *word)
{
	if (*place)
		return false;
	*place = word;
	return true;
}

/* Adds --shape x=1x3x8x8 for each of x:1x3x8x8,y:1x2, x:1,3,8,8, x:[1,3,8,8] or x[1,3,8,8]. Returns false for other texts. */
static bool add_shapes(struct line *l, const char *p)
{
	while (*p) {
		size_t n = strcspn(p, ":[");
		if (!n || !isdigit((unsigned char)p[n + strspn(p + n, ":[")]))
			return false;
		str_addf(&l->rest,
			 " --shape %s=", str_quoted(&l->d->arena, fmt(l->d, "%.*s", (int)n, p)));
		p += n + strspn(p + n, ":[");
		for (; isdigit((unsigned char)*p) ||
		       (strchr("x,", *p) && isdigit((unsigned char)p[1]));
		     p++)
			str_addf(&l->rest, "%c", *p == ',' ? 'x' : *p);
		p += *p == ']';
		if (*p && *p++ != ',')
			return false;
	}
	l->foreign++; /* one such word is enough for a line */
	return true;
}

/* Adds -d for CPUExecutionProvider, GPU or cuda. */
static bool add_provider(struct line *l, const char *value)
{
	bool cpu = !strncasecmp(value, "cpu", 3);

	if (!cpu && strncasecmp(value, "cuda", 4) != 0 && strncasecmp(value, "gpu", 3) != 0)
		return false;
	str_addf(&l->rest, " -d %s", cpu ? "cpu" : "cuda");
	return true;
}

/* Takes another tool's word and its value, "" if there is none. Returns the number of words, which are two with a value, or 0. */
static int take_alike(struct line *l, const struct alike *x, const char *value)
{
	bool has_value = *value && *value != '-';

	l->foreign++;
	switch (x->becomes) {
	case THE_MODEL:
		/* onnxruntime_perf_test has -m times */
		if (has_value && !path_names_model(value) && access(value, F_OK) != 0)
			return 2;
		return has_value && set_once(&l->model, value) ? 2 : 0;
	case THE_DEVICE: return add_provider(l, value) ? 2 : 0;
	case THE_SHAPES: return add_shapes(l, value) ? 2 : 0;
	case THE_FILE:
		return has_value && set_once(&l->file, foreign_input(value, &l->d->arena)) ? 2 : 0;
	case NOTHING: return 1;
	case NOTHING_OF_TWO: return has_value ? 2 : 0;
	case OPTION:
	case TEXT: break;
	}
	if (x->becomes == OPTION && !has_value)
		return 0;
	str_addf(&l->rest, " %s", x->ours);
	if (x->becomes == OPTION)
		add_word(l, value);
	return x->becomes == OPTION ? 2 : 1;
}

/* Takes the word at i. Returns the number of words that belong to it, or 0 if it cannot be carried over. */
static int take_word(struct line *l, int i)
{
	const char *w = l->argv[i], *equals = strchr(w, '='), *attached = equals ? equals + 1 : NULL;

	if (*w != '-')
		return set_once(path_names_model(w) && !l->model ? &l->model : &l->file, w);
	const struct field *own = find_own(l, w);
	if (own)
		return take_own(l, own, i, attached);
	const char *name = w + 1 + (w[1] == '-');
	const char *value = attached ? attached : i + 1 < l->argc ? l->argv[i + 1] : "";
	size_t n = strcspn(name, "=");
	const struct alike *x = find_alike(l, name, n);
	int taken = x ? take_alike(l, x, value)
		    : w[1] == '-' && is_input_key(name, n) && add_key(l, name, n, value) ? 2
											 : 0;
	return taken == 2 && attached ? 1 : taken;
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

const char *whole_line(const struct command *command, int foreign, int argc, char *const *argv,
		       struct diag *d)
{
	struct line l = {.command = command, .foreign = foreign, .argc = argc, .argv = argv, .d = d};

	l.keys.arena = l.rest.arena = &d->arena;
	for (int i = 0; i < argc;) {
		int n = take_word(&l, i);
		if (!n)
			return NULL;
		i += n;
	}
	if (!l.model || access(l.model, F_OK) != 0 || !(command->bit & CMD_RUNS) || !l.foreign)
		return NULL;
	if (l.file && io_kind_of(l.file, "", 0) == IO_IMAGE)
		add_size(&l);
	if ((!l.keys.n && l.foreign < 2) || (l.keys.n && !l.file))
		return NULL;
	if (wants_scale(argc, argv))
		str_add(&l.keys, ",scale=1/255");
	struct str out = {.arena = &d->arena};
	str_addf(&out, "infer %s %s", command->name, str_quoted(&d->arena, l.model));
	if (l.file)
		str_addf(&out, "%s %s", strpbrk(l.file, "=:") ? " --input" : "",
			 str_quoted(&d->arena,
				    fmt(d, "%s%s", l.file, l.keys.n ? str_get(&l.keys) : "")));
	else if (command->bit & CMD_RUN && !strstr(l.rest.n ? str_get(&l.rest) : "", "--random"))
		str_add(&out, " --random");
	str_add(&out, l.rest.n ? str_get(&l.rest) : "");
	return str_get(&out);
}
