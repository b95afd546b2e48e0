/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that patterns, folders and lists name. */
#include "input/list.h"

#include "base/hash.h"
#include "base/str.h"
#include "input/internal.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FOLDER_DEPTH = 32 };

/* The paths that one word names, in the order in which they are read. */
struct paths {
	const char **v;
	size_t n, room;
	size_t base; /* number of leading characters that all paths share and that no result's name needs */
	bool many; /* false: the word names one file, whose path is the word itself */
};

static void add_path(struct input_list *l, struct paths *p, const char *path)
{
	if (p->n == p->room) {
		size_t room = p->room ? p->room * 2 : 64;
		p->v = arena_grow(&l->arena, p->v, p->n, room, sizeof(*p->v));
		p->room = room;
	}
	p->v[p->n++] = arena_str(&l->arena, path);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- patterns, folders and lists */

static bool is_pattern(const char *word)
{
	return strpbrk(word, "*?[") != NULL;
}

static int expand_pattern(struct input_list *l, const char *word, struct paths *p, struct diag *d)
{
	glob_t found = {0};
	int rc = glob(word, GLOB_NOSORT, NULL, &found);

	if (rc == GLOB_NOSPACE) {
		globfree(&found);
		return FAIL(d, E_MEMORY, .message = fmt(d, "no memory for the files of %s", word));
	}
	for (size_t i = 0; !rc && i < found.gl_pathc; i++)
		add_path(l, p, found.gl_pathv[i]);
	globfree(&found);
	for (size_t i = 0, fixed = strcspn(word, "*?["); i < fixed; i++)
		p->base = word[i] == '/' ? i + 1 : p->base;
	return 0;
}

/*
 * Adds the files of a folder and of the folders in it. Hidden files are left out, links to folders are not followed, and
 * folders nested deeper than MAX_FOLDER_DEPTH are left out.
 */
static int add_folder(struct input_list *l, const char *folder, int depth, struct paths *p,
		      struct diag *d)
{
	DIR *dir = opendir(folder);
	int rc = 0;

	if (!dir)
		return FAIL(d, E_INPUT_OPEN,
			    .message = fmt(d, "%s: cannot open: %s", folder, strerror(errno)));
	for (struct dirent *e; !rc && (e = readdir(dir));) {
		const char *path = path_join(&l->arena, folder, e->d_name);
		struct stat st;
		if (e->d_name[0] == '.' || lstat(path, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode))
			rc = depth < MAX_FOLDER_DEPTH ? add_folder(l, path, depth + 1, p, d) : 0;
		else if (!path_is_folder(path))
			add_path(l, p, path);
	}
	closedir(dir);
	return rc;
}

/* Returns the length of the longest folder, with its slash, that begins all paths. */
static size_t common_folder(const struct paths *p)
{
	size_t n = p->n ? (size_t)(path_base(p->v[0]) - p->v[0]) : 0;

	for (size_t i = 1; i < p->n; i++)
		while (n && strncmp(p->v[i], p->v[0], n) != 0)
			for (n--; n && p->v[0][n - 1] != '/';)
				n--;
	return n;
}

/* Adds the paths that a file lists, one a line. They are relative to the current folder, as on the command line. */
static int add_listed(struct input_list *l, const char *file, struct paths *p, struct diag *d)
{
	struct file_map m;
	int rc = file_map(file, &m, E_INPUT_OPEN, d);

	if (rc)
		return rc;
	for (const char *s = (const char *)m.data, *end = s + m.size; s < end;) {
		const char *nl = memchr(s, '\n', (size_t)(end - s)), *stop = nl ? nl : end;
		size_t n = (size_t)(stop - s);
		n -= n && s[n - 1] == '\r';
		if (n)
			add_path(l, p, arena_strn(&l->arena, s, n));
		s = nl ? nl + 1 : end;
	}
	file_unmap(&m);
	p->base = common_folder(p);
	return 0;
}

/* Finds the paths of a word. `folders`: the word names folders, so a folder is one path and not the files in it. */
static int expand_word(struct input_list *l, const char *word, bool folders, struct paths *p,
		       struct diag *d)
{
	const char *kind = folders ? "folder" : "file";
	bool list = *word == '@', folder = !folders && path_is_folder(word);
	int rc;

	*p = (struct paths){0};
	if ((!folder && access(word, F_OK) == 0) || !(list || folder || is_pattern(word)) ||
	    (!folders && spec_is_literal(word))) {
		add_path(l, p, word);
		p->base = (size_t)(path_base(word) - word);
		return 0;
	}
	p->many = true;
	if (list)
		return (rc = add_listed(l, word + 1, p, d)) || p->n
			       ? rc
			       : FAIL(d, E_INPUT_OPEN,
				      .message = fmt(d, "%s lists no %s", word + 1, kind));
	if (folder) {
		rc = add_folder(l, word, 0, p, d);
		p->base = strlen(word);
	} else {
		rc = expand_pattern(l, word, p, d);
	}
	if (rc)
		return rc;
	if (!p->n)
		return FAIL(d, E_INPUT_OPEN,
			    .message = folder ? fmt(d, "%s: the folder holds no file", word)
					      : fmt(d, "%s: no %s matches this pattern", word, kind));
	qsort(p->v, p->n, sizeof(*p->v), by_bytes);
	return 0;
}

/* ---- does a request name many inputs? */

/* Returns the next place where the file of a text may begin, as names of inputs may hold '=' and ':'. */
static const char *next_start(const char *p)
{
	const char *mark = strpbrk(p, "=:");

	return mark ? mark + 1 : NULL;
}

bool input_text_names_many(const char *text)
{
	struct arena a = {0};
	bool many = false, split;

	for (const char *p = text; p; p = next_start(p))
		/* before keys are cut off, since a string may hold what looks like one */
		if ((*p == '[' || *p == '"') && (spec_is_literal(p) || spec_is_broken_json(p)))
			return false;
	char *work = arena_str(&a, text);
	many = split = spec_cut_keys(work, "split");
	for (const char *p = work; p; p = next_start(p)) {
		bool folder = path_is_folder(p);
		if (folder || access(p, F_OK) == 0 || spec_is_literal(p)) {
			many = folder || split;
			break;
		}
		many |= *p == '@' || is_pattern(p);
	}
	arena_free(&a);
	return many;
}

bool input_text_names_file(const char *text)
{
	struct arena a = {0};
	char *work = arena_str(&a, text);
	bool file = access(text, F_OK) == 0 || input_text_names_many(text);

	(void)spec_cut_keys(work, "");
	for (const char *p = work; !file && p; p = next_start(p)) {
		/* behind the comma stands a key that does not exist, of which the reader of the input tells */
		size_t n = strcspn(p, ",");
		file = access(p, F_OK) == 0 || (p[n] && access(arena_strn(&a, p, n), F_OK) == 0);
	}
	arena_free(&a);
	return file;
}

bool input_names_many(const struct input_request *r)
{
	bool many = r->data_set && access(r->data_set, F_OK) != 0 &&
		    (*r->data_set == '@' || is_pattern(r->data_set));

	for (int64_t i = 0; !many && i < r->input.n; i++)
		many = input_text_names_many(r->input.v[i].s);
	return many;
}

/* ---- names of results */

/* Makes a relative path that stays in the folder of the results: no part of it is empty, "." or "..". */
static char *safe_name(struct arena *a, const char *path, bool extension)
{
	struct arena scratch = {0};
	struct str b = {.arena = &scratch};
	size_t end = strlen(path) - (extension ? 0 : strlen(path_ext(path)));

	for (size_t i = 0; i < end;) {
		size_t n = strcspn(path + i, "/");
		n = i + n > end ? end - i : n;
		const char *part = arena_strn(&scratch, path + i, n);
		if (n && strcmp(part, ".") != 0)
			str_addf(&b, "%s%s", b.n ? "/" : "", io_file_name(&scratch, part));
		i += n + 1;
	}
	char *name = arena_str(a, b.n ? str_get(&b) : "input");
	arena_free(&scratch);
	return name;
}

/* Appends a number to the name of a result. The name remains one that io_file_name() would not change: files are called after it. */
static const char *number_name(struct arena *a, const char *name, unsigned k)
{
	struct arena scratch = {0};
	const char *last = path_base(name), *number = arena_printf(&scratch, "_%u", k);
	int most = IO_NAME_BYTES - (int)strlen(number);
	const char *part = arena_printf(&scratch, "%.*s%s", most, last, number);

	name = arena_printf(a, "%.*s%s", (int)(last - name), name, io_file_name(&scratch, part));
	arena_free(&scratch);
	return name;
}

/*
 * Names the results of paths: without their extension, unless two paths differ only there. What is still not unique,
 * because a list names a file twice or characters became '_', gets a number.
 */
static void name_paths(struct input_list *l, const struct paths *p)
{
	struct arena scratch = {0};
	struct map once = {.arena = &scratch}, twice = once, taken = once;

	for (size_t i = 0; i < l->n; i++) {
		const char *stem = safe_name(&l->arena, p->v[i] + p->base, false);
		if (!map_set(&once, stem, strlen(stem), 0))
			map_set(&twice, stem, strlen(stem), 0);
		l->name[i] = stem;
	}
	for (size_t i = 0; i < l->n; i++) {
		const char *name = l->name[i];
		if (map_get(&twice, name, strlen(name)) >= 0)
			name = safe_name(&l->arena, p->v[i] + p->base, true);
		l->name[i] = name;
		for (unsigned k = 2; !map_set(&taken, l->name[i], strlen(l->name[i]), 0); k++)
			l->name[i] = number_name(&l->arena, name, k);
	}
	arena_free(&scratch);
}

/* ---- the cases */

struct text_files {
	const char *input; /* name of the model's input; NULL if the text has none */
	const char *word;
	int split; /* axis, or -1 */
	struct paths paths;
};

static void allocate_cases(struct input_list *l, size_t n, size_t texts)
{
	l->n = n;
	l->label = arena_new_n(&l->arena, const char *, n);
	l->name = arena_new_n(&l->arena, const char *, n);
	l->files = arena_new_n(&l->arena, const char *, n *texts + 1);
}

static int differ_in_number(const char *a, size_t na, const char *b, size_t nb, struct diag *d)
{
	return FAIL(d, E_INPUT_COUNT, .message = "each input of a case comes from one file of each",
		    .expected = fmt(d, "%zu files, as in %s", na, a),
		    .actual = fmt(d, "%zu in %s", nb, b));
}

static void mark_varying(struct input_list *l, const struct model *m, const char *input)
{
	for (uint32_t i = 0; i < m->graph->nin; i++)
		if (!input || !strcmp(m->graph->value[m->graph->in[i]]->name, input))
			l->varies[i] = true;
}

/* Makes the cases of one array: a case for each index along the axis. */
static int make_slices(struct input_list *l, struct text_files *t, size_t texts, struct diag *d)
{
	int64_t parts = 0;
	int rc = file_map(t->word, &l->array, E_INPUT_OPEN, d);
	rc = rc ? rc : input_count_slices(t->word, &l->array, t->split, t->input, &parts, d);

	if (rc)
		return rc;
	const char *stem = safe_name(&l->arena, path_base(t->word), false);
	int width = snprintf(NULL, 0, "%" PRId64, parts - 1);
	allocate_cases(l, (size_t)parts, texts);
	l->split = true;
	for (size_t i = 0; i < l->n; i++) {
		l->label[i] = arena_printf(&l->arena, "%s[%zu]", t->word, i);
		l->name[i] = arena_printf(&l->arena, "%s-%0*zu", stem, width, i);
	}
	return 0;
}

static int make_cases(struct input_list *l, const struct model *m, struct text_files *text,
		      size_t n, struct paths *sets, struct diag *d)
{
	struct text_files *first = NULL;

	for (size_t i = 0; i < n; i++) {
		struct text_files *t = &text[i];
		if (!t->paths.many && t->split < 0)
			continue;
		mark_varying(l, m, t->input);
		if (!first)
			first = t;
		else if (t->split >= 0 || first->split >= 0)
			return FAIL(d, E_INPUT_COUNT,
				    .message = "split= is given beside another text that names many inputs",
				    .expected = "one text that names many inputs",
				    .actual = fmt(d, "%s and %s", first->word, t->word));
		else if (t->paths.n != first->paths.n)
			return differ_in_number(first->word, first->paths.n, t->word, t->paths.n, d);
	}
	if (sets->many && first && (first->split >= 0 || first->paths.n != sets->n))
		return differ_in_number(first->word, first->paths.n, l->request.data_set, sets->n, d);
	if (first && first->split >= 0)
		return make_slices(l, first, n, d);
	const struct paths *p = first ? &first->paths : sets->n ? sets : n ? &text[0].paths : NULL;
	allocate_cases(l, p ? p->n : 1, n);
	for (size_t i = 0; i < l->n; i++) {
		l->label[i] = p ? p->v[i] : l->request.random.n ? "random values" : "no file";
		for (size_t k = 0; k < n; k++)
			l->files[i * n + k] = text[k].paths.many ? text[k].paths.v[i] : NULL;
	}
	if (sets->many) {
		mark_varying(l, m, NULL);
		l->sets = sets->v;
	}
	if (p)
		name_paths(l, p);
	else
		l->name[0] = "random";
	return 0;
}

static int expand_text(struct input_list *l, const char *text, const char *const *names, uint32_t n,
		       struct text_files *t, struct diag *d)
{
	struct input_spec spec;
	int rc = spec_parse(text, names, n, &spec, &l->arena, d);

	if (rc)
		return rc;
	*t = (struct text_files){.input = spec.name, .word = spec.file, .split = spec.keys.split};
	rc = expand_word(l, spec.file, false, &t->paths, d);
	if (!rc && t->split >= 0 && t->paths.many)
		return FAIL(d, E_INPUT_KEY, .message = "split= takes one array",
			    .expected = "one file", .actual = fmt(d, "'%s'", spec.file));
	return rc;
}

int input_list_open(struct input_list *l, const struct model *m, const struct input_request *r,
		    struct diag *d)
{
	const struct graph *g = m->graph;
	size_t n = (size_t)r->input.n;
	struct paths sets = {0};
	int rc = 0;

	*l = (struct input_list){.request = *r};
	l->varies = arena_new_n(&l->arena, bool, g->nin + 1);
	const char **names = arena_new_n(&l->arena, const char *, g->nin + 1);
	for (uint32_t i = 0; i < g->nin; i++)
		names[i] = g->value[g->in[i]]->name;
	struct text_files *text = arena_new_n(&l->arena, struct text_files, n + 1);
	for (size_t i = 0; !rc && i < n; i++)
		rc = expand_text(l, r->input.v[i].s, names, g->nin, &text[i], d);
	if (!rc && r->data_set)
		rc = expand_word(l, r->data_set, true, &sets, d);
	return rc ? rc : make_cases(l, m, text, n, &sets, d);
}

struct input_request input_list_case(const struct input_list *l, size_t i)
{
	struct input_request r = l->request;

	r.files = l->files + i * (size_t)r.input.n;
	r.part = l->split ? (int64_t)i : -1;
	r.array = l->split ? &l->array : NULL;
	if (l->sets)
		r.data_set = l->sets[i];
	return r;
}

void input_list_free(struct input_list *l)
{
	file_unmap(&l->array);
	arena_free(&l->arena);
}
