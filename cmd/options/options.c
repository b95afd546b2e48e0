/* SPDX-License-Identifier: Apache-2.0 */
/* Fills struct options from the command line, the environment and a configuration file. */
#include "cmd/options/options.h"

#include "base/file.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cmd/options/foreign.h"
#include "cmd/options/subcommand.h"
#include "cmd/options/whole_line.h"
#include "input/list.h"
#include "ir/graph.h"
#include "session/backends.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool takes_argument(const struct field *f)
{
	return f->arg != NULL;
}

bool option_optional(const struct field *f)
{
	return f->arg && f->implied;
}

/*
 * ---- the command line, whose options are collected in order, and applied after the file and the
 * environment
 */

struct given {
	const struct field *field;
	const char *text; /* NULL: a flag */
	const char *where;
};

struct parser {
	struct options *o;
	struct given *given;
	size_t ngiven;
	const char **operand;
	size_t noperands;
	int argc, next;
	char *const *argv;
	struct diag *diag;
};

/* Returns what may be the value of an option that is not ours: the text behind its '=', or the next word; or "". */
static const char *likely_value(const struct parser *p, const char *word, size_t n)
{
	return word[n] == '=' ? word + n + 1 : p->next < p->argc ? p->argv[p->next] : "";
}

static const char *hint_for_foreign(const struct parser *p, const char *word, size_t n)
{
	return foreign_hint(word, n, p->o->command->bit, likely_value(p, word, n), p->diag);
}

/* Returns the last word of the command line that names a file which is no model, with its keys, or "FILE". */
static const char *likely_input(const struct parser *p)
{
	const char *found = "FILE";

	for (int i = 0; i < p->argc; i++) {
		const struct field *f = i && str_starts(p->argv[i - 1], "--")
						? field_find(options_table, p->argv[i - 1] + 2)
						: NULL;
		if (*p->argv[i] != '-' && (!f || !f->arg || !strcmp(f->name, "input")) &&
		    input_text_names_file(p->argv[i]) && !path_names_model(p->argv[i]))
			found = p->argv[i];
	}
	return found;
}

/*
 * Returns what to write if the word is a key of --input, such as resize, which --resize 224x224 was meant to be; or NULL. Keys in
 * later words, as in --resize 224x224 --mean 0.5, are joined. `format` is left to the words of other tools, of which it means
 * that of the report.
 */
static const char *key_hint(const struct parser *p, const char *word, size_t n)
{
	struct str s = {.arena = &p->diag->arena};

	if (!(p->o->command->bit & CMD_RUNS) || !is_input_key(word, n) || !strncmp(word, "format", n))
		return NULL;
	str_add(&s, likely_input(p));
	if (wants_scale(p->argc, p->argv))
		str_add(&s, ",scale=1/255");
	for (int i = p->next - 1; i < p->argc; i++) {
		const char *w = p->argv[i];
		size_t len = strcspn(w, "=");
		if (len < 3 || !str_starts(w, "--") || !is_input_key(w + 2, len - 2) ||
		    (i >= p->next &&
		     field_find(options_table, arena_strn(&p->o->arena, w + 2, len - 2))))
			continue;
		const char *value = w[len] ? w + len + 1 : i + 1 < p->argc ? p->argv[i + 1] : "";
		str_addf(&s, ",%.*s=%s", (int)len - 2, w + 2,
			 *value && *value != '-' ? value : "VALUE");
		if (!strncmp(w + 2, "resize", len - 2) && *value &&
		    !value[strspn(value, "0123456789")])
			str_addf(&s, "x%s", value);
	}
	return fmt(p->diag, "%.*s is a key of --input: --input %s", (int)n, word,
		   str_quoted(&p->diag->arena, str_get(&s)));
}

/*
 * Returns what to write for a name that has a verb before a word of ours or of another tool, as --use-fp16 and --enable-trace
 * have, or NULL. Two dashes precede `name`.
 */
static const char *hint_without_verb(const struct parser *p, const char *name, size_t n)
{
	static const char *const verbs[] = {"use", "enable", "allow", "with",
					    "do",  "set",    "show",  "print"};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		size_t k = strlen(verbs[i]);
		if (n < k + 3 || strncmp(name, verbs[i], k) != 0 || (name[k] != '-' && name[k] != '_'))
			continue;
		const char *rest = fmt(p->diag, "--%.*s", (int)(n - k - 1), name + k + 1);
		const struct field *f = field_find(options_table, rest + 2);
		if (f && f->cmds & p->o->command->bit)
			return fmt(p->diag, "did you mean '%s'?", rest);
		return foreign_hint(rest, strlen(rest), p->o->command->bit,
				    likely_value(p, name, n), p->diag);
	}
	return NULL;
}

/* Returns the hint with the line that was meant behind it, if there is more than the one word to change. */
static const char *with_whole_line(const struct parser *p, const char *hint)
{
	const char *line = whole_line(p->o->command, 0, p->argc, p->argv, p->diag);

	return line ? fmt(p->diag, "%s; the whole line: %s", hint, line) : hint;
}

/* Two dashes precede `name`. */
static int unknown_option(const struct parser *p, const char *name, size_t n)
{
	struct diag *d = p->diag;
	const char *word = arena_strn(&p->o->arena, name, n);
	const struct field *elsewhere = field_find(options_table, word);
	const char *near = NULL, *other = key_hint(p, name, n);

	if (!other)
		other = hint_for_foreign(p, name - 2, n + 2);
	if (!other && !elsewhere)
		other = hint_without_verb(p, name, n);

	if (elsewhere) {
		struct str s = {.arena = &p->o->arena};
		for (const struct command *c = commands; c->name; c++)
			if (elsewhere->cmds & c->bit)
				str_addf(&s, "%sinfer %s", s.n ? ", " : "", c->name);
		return FAIL(
			d, E_OPTION,
			.message = fmt(d, "'infer %s' has no option --%s", p->o->command->name, word),
			.hint = other ? fmt(d, "it belongs to %s; %s", str_get(&s), other)
				: strchr(str_get(&s), ',')
					? fmt(d, "it belongs to %s", str_get(&s))
					: fmt(d, "it belongs to %s: %s MODEL --%s%s%s", str_get(&s),
					      str_get(&s), word, elsewhere->arg ? " " : "",
					      elsewhere->arg ? elsewhere->arg : ""));
	}
	for (const struct field *f = options_table; f->name; f++) {
		const char *pair[2] = {near, f->cmds & p->o->command->bit ? f->name : NULL};
		const char *now = str_nearest(word, pair, 2);
		near = now ? now : near;
	}
	if (!other && !near)
		other = foreign_near(name - 2, n + 2, p->o->command->bit, likely_value(p, name, n), d);
	return FAIL(d, E_OPTION, .message = fmt(d, "unknown option '--%s'", word),
		    .hint = other  ? with_whole_line(p, other)
			    : near ? fmt(d, "did you mean '--%s'?", near)
				   : fmt(d, "see infer %s --help", p->o->command->name));
}

/* Of a letter with two dashes, as in --n 20, the short option of that letter is meant rather than an abbreviation. */
static int ambiguous(const struct parser *p, const char *name, size_t n, const struct field *match,
		     const struct field *other)
{
	struct diag *d = p->diag;
	const struct field *brief = NULL;

	for (const struct field *f = options_table; f->name && n == 1; f++)
		if (f->sh == *name && f->cmds & p->o->command->bit)
			brief = f;
	const char *hint = brief ? fmt(d, "write -%c, with one dash, or --%s", *name, brief->name)
				 : fmt(d, "it matches --%s and --%s", match->name, other->name);
	return FAIL(d, E_OPTION, .message = fmt(d, "'--%.*s' is ambiguous", (int)n, name),
		    .hint = hint);
}

/* Finds the option of this name, or the only option that starts with it. Two dashes precede `name`. */
static int find_long(const struct parser *p, const char *name, size_t n, const struct field **out)
{
	const struct field *match = NULL, *other = NULL;
	bool elsewhere = false;

	for (const struct field *f = options_table; f->name; f++) {
		if (strncmp(f->name, name, n) != 0)
			continue;
		if (!(f->cmds & p->o->command->bit)) {
			elsewhere |= f->name[n] == '\0';
			continue;
		}
		if (f->name[n] == '\0') {
			*out = f;
			return 0;
		}
		if (match)
			other = f;
		else
			match = f;
	}
	/*
	 * Another tool's word, or the full name of another subcommand's option, may happen to be an abbreviation: --shapes is
	 * not meant as --shapes-sweep, nor --memory, which infer inspect has, as --memory-limit.
	 */
	if (!match || n == 0 || elsewhere || hint_for_foreign(p, name - 2, n + 2))
		return unknown_option(p, name, n);
	if (other)
		return ambiguous(p, name, n, match, other);
	*out = match;
	return 0;
}

static void record_given(struct parser *p, const struct field *f, const char *text, const char *where)
{
	p->given[p->ngiven++] = (struct given){f, text, where};
}

static bool is_number(const char *s)
{
	return s && isdigit((unsigned char)*s) && s[strspn(s, "0123456789")] == '\0';
}

/*
 * Returns true for the full name of an option, such as "--dim", which no option takes as its value.
 */
static bool is_option(const struct parser *p, const char *word)
{
	const struct field *f = str_starts(word, "--") ? field_find(options_table, word + 2) : NULL;

	return f && f->cmds & p->o->command->bit;
}

bool option_takes_next(const struct field *f, const char *next)
{
	if (!f->arg || !next)
		return false;
	if (!option_optional(f))
		return true;
	if (f->type == F_INT)
		return is_number(next);
	if (f->metavar_kind && !strcmp(f->metavar_kind, "library"))
		return strstr(next, ".so") != NULL;
	/* an optional text is the next word unless that is an option or a file, such as the model */
	return (*next != '-' || isdigit((unsigned char)next[1])) && access(next, F_OK) != 0;
}

/* Behind the model, the file that an option writes may be there already: otherwise a command would fail the second time. */
static bool takes_file(const struct parser *p, const struct field *f, const char *next)
{
	return next && *next != '-' && f->metavar_kind && !strcmp(f->metavar_kind, "file") &&
	       p->noperands >= p->o->command->least && !path_names_model(next);
}

/* Takes the argument of f: `attached` if it was part of the same word ("--dim=N", "-t4"), otherwise the next word. */
static int take_argument(struct parser *p, const struct field *f, const char *attached,
			 const char *where)
{
	struct diag *d = p->diag;
	const char *next = p->next < p->argc ? p->argv[p->next] : NULL;

	if (attached || !takes_argument(f)) {
		record_given(p, f, attached, where);
		return 0;
	}
	if (option_optional(f) && !option_takes_next(f, next) && !takes_file(p, f, next)) {
		record_given(p, f, f->implied, where);
		return 0;
	}
	if (!next || is_option(p, next))
		return FAIL(d, E_OPTION, .slot = fmt(d, "%s", where),
			    .message = fmt(d, "the value is missing: %s", f->arg),
			    .hint = next ? fmt(d, "%s is the next option; if it is meant as the value, write --%s=%s",
					       next, f->name, next)
					 : fmt(d, "see infer %s --help", p->o->command->name));
	p->next++;
	record_given(p, f, next, where);
	return 0;
}

static int parse_long(struct parser *p, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	const struct field *f = NULL;
	int rc = find_long(p, word, n, &f);

	if (rc)
		return rc;
	return take_argument(p, f, equals ? equals + 1 : NULL,
			     arena_printf(&p->o->arena, "--%s", f->name));
}

/*
 * Refuses the words of another tool, such as "-niter" or "-t=4", and long options with one dash: they would pass as letters
 * of ours. word begins with the dash. A word of one letter is another tool's only if the subcommand has no such option.
 */
static int refuse_foreign(const struct parser *p, const char *word)
{
	size_t n = strcspn(word, "=");
	const char *hint = n > 2 ? hint_for_foreign(p, word, n) : NULL;
	struct diag *d = p->diag;

	for (const struct field *f = options_table; n > 2 && !hint && f->name; f++)
		if (f->cmds & p->o->command->bit && strlen(f->name) == n - 1 &&
		    !strncmp(f->name, word + 1, n - 1))
			hint = fmt(d, "write --%s, with two dashes", f->name);
	/* gflags and abseil take one dash for two: -cache_dir, -num_streams */
	if (n > 3 && !hint) {
		const char *two = fmt(d, "-%s", word);
		hint = hint_for_foreign(p, two, n + 1);
	}

	return hint ? FAIL(d, E_OPTION, .message = fmt(d, "unknown option '%.*s'", (int)n, word),
			   .hint = with_whole_line(p, hint))
		    : 0;
}

/*
 * Refuses the letter *word of a word of short options that begins with *first. A word such as -stream_output, whose first letter
 * is no option, is another tool's option, of which the letters alone mean nothing.
 */
static int unknown_letter(const struct parser *p, const char *word, const char *first)
{
	const char two[] = {'-', *word, '\0'}, *help = p->o->command->name;
	struct diag *d = p->diag;

	const char *file = fmt(d, "-%s", word);
	if (word == first &&
	    (access(file, F_OK) == 0 || (strlen(path_ext(word)) > 1 && !strchr(word, '='))))
		return FAIL(
			d, E_OPTION, .message = fmt(d, "unknown option '%s'", file),
			.hint = fmt(d, "a file whose name begins with a dash is named ./%s", file));
	if (word == first && isalpha((unsigned char)word[1]))
		return FAIL(
			d, E_OPTION,
			.message = fmt(d, "unknown option '-%.*s'", (int)strcspn(word, "="), word),
			.hint = fmt(d, "see infer %s --help; words of several letters have two dashes",
				    help));
	const char *value = word[1] == '=' ? word + 2
			    : word[1]	   ? word + 1
					   : likely_value(p, two, 2);
	const char *hint = foreign_hint(two, 2, p->o->command->bit, value, d);
	return FAIL(d, E_OPTION, .message = fmt(d, "unknown option '-%c'", *word),
		    .hint = hint ? with_whole_line(p, hint) : fmt(d, "see infer %s --help", help));
}

static int parse_short(struct parser *p, const char *word)
{
	const char *first = word;
	int rc = refuse_foreign(p, word - 1);

	if (rc)
		return rc;

	for (; *word; word++) {
		const struct field *f = options_table;
		while (f->name && !(f->sh == *word && f->cmds & p->o->command->bit))
			f++;
		if (!f->name)
			return unknown_letter(p, word, first);
		const char *where = arena_printf(&p->o->arena, "-%c", *word);
		if (takes_argument(f))
			return take_argument(p, f, word[1] ? word + 1 : NULL, where);
		record_given(p, f, NULL, where);
	}
	return 0;
}

static int parse_words(struct parser *p)
{
	bool only_operands = false;
	int rc = 0;

	while (p->next < p->argc && !rc) {
		const char *word = p->argv[p->next++];
		if (only_operands || word[0] != '-' || word[1] == '\0') {
			p->operand[p->noperands++] = word;
		} else if (strcmp(word, "--") == 0) {
			only_operands = true;
			p->o->after_dashes = p->noperands == 0;
		} else if (word[1] == '-') {
			rc = parse_long(p, word + 2);
		} else {
			rc = parse_short(p, word + 1);
		}
	}
	return rc;
}

/* ---- the sources, in order of precedence */

static const char **origin_of(struct options *o, const struct field *f)
{
	return &o->origin[f - options_table];
}

struct given_item {
	const struct field *field;
	const char *text, *where;
	struct given_item *next;
};

/* Records the origin of the last text of a list option, right after it was added. */
static void record_item_origin(struct options *o, const struct field *f, const char *where)
{
	const struct texts *list = (const struct texts *)(const void *)((const char *)o + f->off);

	if (f->type != F_LIST || list->n < 1)
		return;
	struct given_item *item = arena_new(&o->arena, struct given_item);
	*item = (struct given_item){f, list->v[list->n - 1].s, where, o->item};
	o->item = item;
}

static void record_file_origin(void *ctx, const struct field *f, const char *where)
{
	*origin_of(ctx, f) = where;
	record_item_origin(ctx, f,
			   arena_printf(&((struct options *)ctx)->arena, "%s: %s", where, f->name));
}

/* Warns about a variable with a misspelt name, such as INFER_THREAD, which would otherwise be ignored silently. */
static void warn_variable(const struct options *o, const char *entry, struct diag *d)
{
	static const char *const others[] = {"LIBRARY_PATH",   "OPENMP",  "FAULT",
					     "FAIL_ALLOC",     "WITHOUT", "BLAME_FD",
					     "AUTO_PRECISION", NULL};
	size_t n = strcspn(entry, "="), prefix = strlen("INFER_");
	const char *near = NULL;

	if (!str_starts(entry, "INFER_") || str_starts(entry, "INFER_WATCH_"))
		return;
	const char *name = fmt(d, "%.*s", (int)(n - prefix), entry + prefix);
	for (const char *const *k = others; *k; k++)
		if (!strcmp(*k, name))
			return;
	for (const struct field *f = options_table; f->name; f++) {
		const char *pair[2] = {near, f->env ? f->env + prefix : NULL};
		if (f->env && !strcmp(pair[1], name))
			return;
		const char *now = str_nearest(name, pair, 2);
		near = now ? now : near;
	}
	near = near ? near : str_nearest(name, others, 2);
	if (near && !o->quiet)
		WARN(d, E_OPTION, .slot = fmt(d, "INFER_%s", name),
		     .message = "this variable is not known and has no effect",
		     .hint = fmt(d, "did you mean INFER_%s?", near));
}

static int apply_environment(struct options *o, struct diag *d)
{
	for (char **e = environ; e && *e; e++)
		warn_variable(o, *e, d);
	for (const struct field *f = options_table; f->name; f++) {
		const char *value = f->env && f->cmds & o->command->bit ? getenv(f->env) : NULL;
		if (!value || !*value)
			continue;
		int rc = field_set(f, o, value, f->env, &o->arena, d);
		if (rc)
			return rc;
		*origin_of(o, f) = f->env;
	}
	return 0;
}

static int apply_given(struct options *o, const struct given *all, size_t k, struct diag *d)
{
	const struct given *g = &all[k];
	const struct field *f = g->field;
	char *member = (char *)o + f->off;
	bool first = true;

	for (size_t i = 0; i < k; i++)
		first &= all[i].field != f;
	if (first && f->type == F_LIST)
		*(struct texts *)(void *)member = (struct texts){NULL, 0};
	*origin_of(o, f) = g->where;
	if (g->text || f->type == F_BOOL) {
		int rc = field_set(f, o, g->text ? g->text : "on", g->where, &o->arena, d);
		if (!rc)
			record_item_origin(o, f, g->where);
		const char *meant =
			rc == -E_OPTION ? foreign_value_hint(f->name, g->text ? g->text : "") : NULL;
		if (rc == -E_OPTION && !strcmp(f->name, "batch") && o->command->bit & CMD_PROFILE)
			meant = fmt(d,
				    "infer profile MODEL --shapes-sweep batch=%s measures several sizes",
				    g->text);
		if (meant && d->last)
			d->last->hint = meant;
		return rc;
	}
	/*
	 * This is a counting flag (-v). Its first use on the command line replaces the count from
	 * the configuration file.
	 */
	int64_t *count = (int64_t *)(void *)member;
	*count = first ? 1 : *count + 1;
	return 0;
}

static bool was_given(const struct parser *p, const char *name)
{
	for (size_t i = 0; i < p->ngiven; i++)
		if (strcmp(p->given[i].field->name, name) == 0)
			return true;
	return false;
}

const char *options_user_config(struct arena *a)
{
	const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	/* the specification of XDG has relative paths ignored */
	if (folder && *folder == '/')
		return arena_printf(a, "%s/infer/config.yaml", folder);
	if (home && *home == '/')
		return arena_printf(a, "%s/.config/infer/config.yaml", home);
	return NULL;
}

static int load_config(struct parser *p)
{
	const char *path = getenv("INFER_CONFIG");

	for (size_t i = 0; i < p->ngiven; i++)
		if (strcmp(p->given[i].field->name, "config") == 0)
			path = p->given[i].text;
	if (!path) {
		path = options_user_config(&p->o->arena);
		path = path && access(path, R_OK) == 0 ? path : NULL;
	}
	if (!path || !*path)
		return 0;
	int rc = yaml_load(path, options_table, OPTION_COMMAND_LINE, p->o, record_file_origin, p->o,
			   &p->o->arena, p->diag);
	/* doctor is what one asks about a file that has no effect: it tells the error, and everything else */
	return p->o->command->bit & CMD_DOCTOR ? 0 : rc;
}

static int check_device_name(const struct options *o, const char *name, struct diag *d)
{
	const char *names[1 + BACKENDS] = {"auto"};
	const char *near;

	for (int i = 0; i < BACKENDS; i++)
		names[1 + i] = backends[i]->name;
	if (!strcmp(o->config.device, "auto") || backend_named(name, NULL))
		return 0;
	const char *accelerator = backends[FIRST_ACCELERATOR]->name;
	if (is_number(name)) /* as trtexec and torch number them */
		near = fmt(d, "%s:%s", accelerator, name);
	else if (!strncasecmp(name, "gpu", 3) || !strncasecmp(name, accelerator, strlen(accelerator)))
		near = accelerator;
	else
		near = !strcasecmp(name, "cpu") ? "cpu" : str_nearest(name, names, 1 + BACKENDS);
	return options_fail(o, "device", fmt(d, "unknown device '%s'", name),
			    near ? fmt(d, "did you mean '%s'?", near)
				 : fmt(d, "use auto, %s", backend_words(&d->arena)),
			    d);
}

static int check_device(const struct options *o, struct diag *d)
{
	const char *text = o->config.device;
	bool all = !strcmp(text, "all");
	size_t n = 0;
	int rc = 0;

	if ((all || strchr(text, ',')) && o->command->bit != CMD_RUN)
		return options_fail(o, "device", fmt(d, "'%s' names several devices", text),
				    "only infer run takes several, for many inputs", d);
	if (all)
		return 0;
	const char *const *name = device_list(text, &n, &d->arena);
	for (size_t i = 0; !rc && i < n; i++)
		rc = check_device_name(o, name[i], d);
	return rc;
}

/* Refuses a list of values for any command but profile, which alone compares several. */
static int check_axes(const struct options *o, struct diag *d)
{
	for (const struct field *f = options_table; f->name; f++) {
		const struct texts *list =
			(const struct texts *)(const void *)((const char *)o + f->axis);
		if (f->axis && list->n > 1 && o->command->bit != CMD_PROFILE)
			return options_fail(o, f->name, "expected one value, found a list",
					    "only infer profile compares several values", d);
	}
	return 0;
}

/* Whether an operand after the first is a model to compare with the others, which only infer profile does. */
static bool is_another_model(const struct options *o, size_t k)
{
	return (o->command->bit & CMD_PROFILE) && path_names_model(o->operand[k]);
}

/* Whether the first operand is another tool's word, as in "inspect model m.onnx", which polygraphy takes. */
static bool word_precedes_model(const struct options *o)
{
	return o->noperands > 1 && access(o->operand[0], F_OK) != 0 &&
	       !strcmp(path_ext(o->operand[1]), ".onnx") && access(o->operand[1], F_OK) == 0;
}

/* Whether the operand after the model is the file of an input, or standard input: "infer run MODEL FILE" stands for --input FILE. */
static bool second_is_input(const struct options *o)
{
	return o->command->bit & CMD_RUNS && !o->after_dashes && o->noperands == 2 &&
	       (!strcmp(o->operand[1], "-") || input_text_names_file(o->operand[1])) &&
	       !path_names_model(o->operand[1]) && !word_precedes_model(o);
}

static void take_second_as_input(struct options *o)
{
	struct text *all = arena_new_n(&o->arena, struct text, (size_t)o->input.n + 1);

	for (int i = 0; i < (int)o->input.n; i++)
		all[i] = o->input.v[i];
	all[o->input.n].s = o->operand[1];
	o->input = (struct texts){all, o->input.n + 1};
	o->noperands = 1;
}

/* Returns the name of the file that the command line gives for an input, or "FILE". */
static const char *named_input(const struct options *o)
{
	if (o->input.n > 0)
		return o->input.v[0].s;
	return o->noperands > 2 && input_text_names_file(o->operand[1]) ? o->operand[1] : "FILE";
}

/*
 * Returns what to write instead of an operand KEY=VALUE, as Ultralytics has options, or NULL: a key of --input such as
 * resize=224x224, or a word that another tool has with two dashes.
 */
static const char *hint_for_assignment(const struct options *o, const char *word, struct diag *d)
{
	size_t n = strcspn(word, "=");

	if (!word[n] || access(word, F_OK) == 0)
		return NULL;
	if (o->command->bit & CMD_RUNS && is_input_key(word, n))
		return fmt(d, "%.*s is a key of --input: --input %s,%s", (int)n, word,
			   named_input(o), word);
	return foreign_hint(fmt(d, "--%.*s", (int)n, word), n + 2, o->command->bit, word + n + 1, d);
}

/* Whether several models are named, and nothing else that is a file: a word such as "vs" may stand between them. */
static bool names_models_only(const struct options *o)
{
	size_t models = 0;

	for (size_t i = 0; i < o->noperands; i++) {
		bool model = path_names_model(o->operand[i]);
		if (!model && access(o->operand[i], F_OK) == 0)
			return false;
		models += model;
	}
	return models > 1 && o->command->bit & (CMD_PROFILE | CMD_CHECK | CMD_RUN | CMD_INSPECT);
}

/* Returns the line that takes all the models that are named. */
static const char *line_of_models(const struct options *o, struct diag *d)
{
	const bool each = o->command->bit & CMD_INSPECT;
	struct str s = {.arena = &d->arena};

	for (size_t i = 0; i < o->noperands; i++)
		if (path_names_model(o->operand[i]))
			str_addf(&s, "%s %s", each ? s.n ? " && infer inspect" : "infer inspect" : "",
				 str_quoted(&d->arena, o->operand[i]));
	if (each)
		return str_get(&s);
	if (o->command->bit & CMD_PROFILE)
		return fmt(d, "infer profile%s", str_get(&s));
	return fmt(d, "infer suite%s checks and measures several models", str_get(&s));
}

/*
 * Returns what to write instead of an operand that was meant as the value of the option before it, which takes none or was
 * given another one; or NULL.
 */
static const char *hint_for_value(const struct options *o, const char *word, struct diag *d)
{
	bool number = is_number(word), file = strchr(word, '.') != NULL;

	if (number && o->dim.n && !strchr(o->dim.v[o->dim.n - 1].s, '='))
		return fmt(d, "write --dim %s=%s", o->dim.v[o->dim.n - 1].s, word);
	if (number && o->nodes && o->command->bit & CMD_PROFILE)
		return fmt(d, "write --nodes --top %s", word);
	if (!number && !file && *options_origin(o, "print") == '-')
		return fmt(d, "write --output %s --print; --print takes a number", word);
	if (!strcmp(path_ext(word), ".json") && o->json)
		return fmt(d, "write --json > %s", word);
	return NULL;
}

/* Refuses operand k, which is one too many, or the first one if it is another tool's word before the model. */
static int refuse_operand(const struct options *o, size_t k, struct diag *d)
{
	const struct command *c = o->command;
	const char *hint = NULL;

	for (size_t i = k; !hint && i < o->noperands; i++) {
		hint = hint_for_assignment(o, o->operand[i], d);
		k = hint ? i : k;
	}
	const struct texts *ops = &o->config.ops;
	for (int64_t i = 0; !hint && i < ops->n; i++)
		if (!ops->v[i].n && path_names_model(o->operand[k]))
			hint = fmt(d,
				   "--ops takes a library with operators, --ops LIBRARY.so; infer inspect %s names the operators of a model",
				   str_quoted(&d->arena, o->operand[k]));
	if (!hint && k == 1 && word_precedes_model(o)) {
		k = 0;
		hint = fmt(d, "infer %s %s", c->name, str_quoted(&d->arena, o->operand[1]));
	} else if (!hint && names_models_only(o)) {
		hint = line_of_models(o, d);
	} else if (!hint && (hint = hint_for_value(o, o->operand[k], d))) {
	} else if (!hint && c->bit & CMD_EXTRACT && o->save) {
		hint = fmt(d,
			   "--from and --to name the tensors or nodes between which to cut: --to %s",
			   str_quoted(&d->arena, o->operand[k]));
	} else if (!hint && c->bit & (CMD_EXTRACT | CMD_SIMPLIFY)) {
		hint = fmt(d, "the file to write is named by -o %s",
			   str_quoted(&d->arena, o->operand[k]));
	} else if (!hint && c->bit & CMD_DOCTOR) {
		hint = path_names_model(o->operand[k])
			       ? fmt(d,
				     "infer doctor looks at this machine; infer check %s looks at a model",
				     o->operand[k])
			       : "infer doctor takes no operand: it lists all devices and libraries, and what is missing";
	} else if (!hint && k == 1 && path_names_model(o->operand[1]) &&
		   !path_names_model(o->operand[0]) && access(o->operand[1], F_OK) == 0) {
		hint = fmt(d, "the model comes first: infer %s %s %s", c->name,
			   str_quoted(&d->arena, o->operand[1]),
			   str_quoted(&d->arena, o->operand[0]));
	} else if (!hint && c->bit & CMD_RUNS && o->noperands == 2) {
		const char *near = path_near(&d->arena, o->operand[k], NULL);
		hint = fmt(d, "a file after the model is its input, but there is no such file%s%s%s",
			   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	} else if (!hint && c->bit & CMD_RUNS && k == 1 && input_text_names_file(o->operand[1]) &&
		   !is_another_model(o, 2)) {
		k = 2;
		hint = fmt(d,
			   "one file may stand behind the model; name the others: --input NAME=FILE for each of a model's inputs%s",
			   c->bit & CMD_RUN
				   ? ", and for many pictures a pattern in quotes or a list, --input 'pics/*.png' or --input @LIST"
				   : "");
	}
	return FAIL(d, E_USAGE, .message = fmt(d, "unexpected operand '%s'", o->operand[k]),
		    .hint = hint ? hint : fmt(d, "infer %s %s", c->name, c->synopsis));
}

static int check_operands(const struct options *o, struct diag *d)
{
	const struct command *c = o->command;
	size_t most = c->most;

	while (most < o->noperands && is_another_model(o, most))
		most++;
	if (o->noperands < c->least && !(c->bit == CMD_CHECK && o->watch.pid != INT_ABSENT))
		return FAIL(d, E_USAGE,
			    .message = o->after_dashes && c->bit == CMD_CHECK
					       ? "no command is given behind --"
				       : o->noperands
					       ? fmt(d, "'infer %s' needs %zu operands, got %zu",
						     c->name, c->least, o->noperands)
					       : fmt(d, "'infer %s' needs %s", c->name,
						     c->least > 1 ? fmt(d, "%zu operands", c->least)
								  : "an operand"),
			    .hint = fmt(d, "infer %s %s", c->name, c->synopsis));
	if (o->noperands > most && !(o->after_dashes && c->bit == CMD_CHECK))
		return refuse_operand(o, most, d);
	return 0;
}

/* Whether infer check writes its report to a file of this name. */
static bool names_report(const char *path)
{
	static const char *const ends[] = {".txt", ".json", ".html", ".xml"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!strcmp(path_ext(path), ends[i]))
			return true;
	return false;
}

static void add_export(struct options *o, const char *path)
{
	struct text *all = arena_new_n(&o->arena, struct text, (size_t)o->exports.n + 1);

	for (int64_t i = 0; i < o->exports.n; i++)
		all[i] = o->exports.v[i];
	all[o->exports.n] = (struct text){path, strlen(path)};
	o->exports = (struct texts){all, o->exports.n + 1};
}

/*
 * Expands short forms: -o FILE of infer check and --html FILE of infer profile become --export FILE, and --top and --sort of infer
 * profile imply --nodes. Also notes whether --rtol was given, and --atol without it.
 */
static void take_short_forms(struct options *o)
{
	o->check.rtol_given = strcmp(options_origin(o, "rtol"), "default") != 0;
	o->check.atol_alone =
		strcmp(options_origin(o, "atol"), "default") != 0 && !o->check.rtol_given;
	if (o->command->bit & CMD_PROFILE &&
	    (*options_origin(o, "top") == '-' || *options_origin(o, "sort") == '-'))
		o->nodes = true;
	if (o->command->bit & CMD_CHECK && o->save && names_report(o->save)) {
		add_export(o, o->save);
		o->save = NULL;
	}
	if (o->command->bit & CMD_PROFILE && o->html) {
		add_export(o, o->html);
		o->html = NULL;
	}
}

static void append_text(struct options *o, struct texts *to, const char *s)
{
	struct text *v = arena_append(&o->arena, to->v, (size_t)to->n, sizeof(*v));

	v[to->n++] = (struct text){s, strlen(s)};
	to->v = v;
}

/* Appends a pattern of fnmatch(3) that matches n bytes of text; with `stars`, * stands for any text. */
static void add_pattern(struct options *o, struct texts *to, const char *text, size_t n, bool stars)
{
	struct str s = {.arena = &o->arena};

	for (size_t i = 0; i < n; i++)
		str_addf(&s, "%s%c", strchr(stars ? "?[\\" : "*?[\\", text[i]) ? "\\" : "", text[i]);
	append_text(o, to, str_get(&s));
}

/*
 * --output leaves the outputs that --feed and --next read in the model, and may name those that --next makes. As names may hold '=' and
 * commas, each of them may end a name; what matches no output does no harm.
 */
static void keep_step_outputs(struct options *o)
{
	struct texts needed = {0}, made = {0};
	static const char *const how[] = {"=argmax:", "=sample:"};

	for (int64_t i = 0; i < o->steps.feed.n; i++) {
		const char *text = o->steps.feed.v[i].s;
		for (const char *eq = strchr(text, '='); eq; eq = strchr(eq + 1, '='))
			add_pattern(o, &needed, text, (size_t)(eq - text), true);
		append_text(o, &needed, "");
	}
	for (int64_t i = 0; i < o->steps.next.n; i++)
		for (int k = 0; k < 2; k++) {
			const char *text = o->steps.next.v[i].s, *at = strstr(text, how[k]);
			if (!at)
				continue;
			const char *out = at + strlen(how[k]);
			append_text(o, &made,
				    arena_printf(&o->arena, "%.*s.next", (int)(at - text), text));
			for (const char *end = strchr(out, ','); end; end = strchr(end + 1, ','))
				add_pattern(o, &needed, out, (size_t)(end - out), false);
			add_pattern(o, &needed, out, strlen(out), false);
			append_text(o, &needed, "");
		}
	o->config.step_outputs = needed;
	o->config.made_outputs = made;
}

/* Only infer run stacks files. */
static int check_batch(const struct options *o, struct diag *d)
{
	if (o->batch <= 0 || o->command->bit & CMD_RUN || !(o->input.n || o->data_set))
		return 0;
	return options_fail(
		o, "batch",
		fmt(d, "infer %s takes one file for each input, and stacks none", o->command->name),
		"without files it makes a batch of random values; a file may hold the batch as its first dimension",
		d);
}

/* Refuses to read both the model and an input from standard input: the second reader would find it empty. */
static int check_stdin(const struct options *o, struct diag *d)
{
	bool model = o->command->bit & CMD_RUNS && o->noperands && !strcmp(o->operand[0], "-");

	if (!model || o->after_dashes || !input_from_stdin(&o->input))
		return 0;
	return options_fail(o, "input", "standard input already holds the model",
			    "give the model or the input as a file", d);
}

static int apply_all(struct parser *p)
{
	struct options *o = p->o;
	int rc = load_config(p);

	if (!rc)
		rc = apply_environment(o, p->diag);
	for (size_t i = 0; i < p->ngiven && !rc; i++)
		rc = apply_given(o, p->given, i, p->diag);
	if (!rc)
		rc = check_axes(o, p->diag);
	if (!rc && o->command->bit & CMD_RUNS)
		rc = check_device(o, p->diag);
	if (!rc && second_is_input(o))
		take_second_as_input(o);
	take_short_forms(o);
	if (!rc)
		rc = check_stdin(o, p->diag);
	if (!rc && o->command->bit & CMD_RUNS)
		rc = check_batch(o, p->diag);
	o->config.given[0] = o->input;
	o->config.given[1] = o->random;
	if (o->config.outputs.n > 0)
		keep_step_outputs(o);
	return rc ? rc : check_operands(o, p->diag);
}

int options_parse(struct options *o, const struct command *c, int argc, char *const *argv,
		  struct diag *d)
{
	struct parser p = {.o = o, .argc = argc, .argv = argv, .diag = d};
	size_t rows = 0, letters = 1;

	*o = (struct options){.command = c, .config.arena = true};
	if (!field_defaults(options_table, o, &o->arena))
		return FAIL(d, E_INTERNAL, .message = "an option in the table has an invalid default");
	while (options_table[rows].name)
		rows++;
	o->origin = arena_new_n(&o->arena, const char *, rows + 1);
	/* A word holds at most as many options as it has letters ("-vvq"). */
	for (int i = 0; i < argc; i++)
		letters += strlen(argv[i]);
	p.given = arena_new_n(&o->arena, struct given, letters);
	p.operand = arena_new_n(&o->arena, const char *, (size_t)argc + 1);
	int rc = parse_words(&p);
	o->operand = p.operand;
	o->noperands = p.noperands;
	o->json = was_given(&p, "json");
	o->help = was_given(&p, "help");
	o->version = was_given(&p, "version");
	if (rc || o->help || o->version)
		return rc;
	rc = apply_all(&p);
	o->config.device_given = strcmp(options_origin(o, "device"), "default") != 0;
	if (rc == -E_OPTION && d->last && !d->last->hint)
		d->last->hint = fmt(d, "see infer %s --help", c->name);
	return rc;
}

void options_free(struct options *o)
{
	arena_free(&o->arena);
}

const char *options_origin(const struct options *o, const char *name)
{
	const struct field *f = field_find(options_table, name);
	const char *origin = f && o->origin ? o->origin[f - options_table] : NULL;

	return origin ? origin : "default";
}

const char *options_item_origin(const void *options, const char *name, const char *text)
{
	const struct options *o = options;

	for (const struct given_item *i = o->item; i; i = i->next)
		if (!strcmp(i->field->name, name) && !strcmp(i->text, text))
			return i->where;
	return NULL;
}

struct input_request options_request(const struct options *o)
{
	return (struct input_request){.input = o->input,
				      .random = o->random,
				      .shape = o->shape,
				      .dim = o->dim,
				      .data_set = o->data_set,
				      .seed = o->seed,
				      .batch = o->input.n || o->data_set ? 0 : o->batch,
				      .strict = o->strict,
				      .origin = options_item_origin,
				      .options = o};
}

int options_blame(const struct options *o, const char *name, int rc, struct diag *d)
{
	const char *origin = options_origin(o, name);

	if (rc && d->last && !d->last->slot && strchr(origin, ':'))
		d->last->slot = fmt(d, "%s: %s", origin, name);
	return rc;
}

int options_fail(const struct options *o, const char *name, const char *message, const char *hint,
		 struct diag *d)
{
	const char *origin = options_origin(o, name);
	bool file = strchr(origin, ':') != NULL;

	return FAIL(d, file ? E_CONFIG : E_OPTION,
		    .slot = !strcmp(origin, "default") ? fmt(d, "--%s", name)
			    : file || *origin != '-'   ? fmt(d, "%s: %s", origin, name)
						       : fmt(d, "%s", origin),
		    .message = message, .hint = hint);
}

int options_external(const struct options *o, const char *path, const char **location, struct diag *d)
{
	const char *name = o->external;

	*location = NULL;
	if (!name)
		return 0;
	if (!strcmp(path, "-"))
		return options_fail(o, "external", "standard output has no folder for the weights",
				    "write the model to a file", d);
	if (!*name)
		name = arena_printf(&d->arena, "%s.data", path_base(path));
	if (strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..") ||
	    !strcmp(name, path_base(path)))
		return options_fail(
			o, "external",
			fmt(d, "'%s' is no name of another file in the model's folder", name),
			"give a name without '/'", d);
	*location = name;
	return 0;
}
