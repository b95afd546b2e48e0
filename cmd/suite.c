/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer suite: checks and profiles several models, each by this program in a process of its own, so that a model that crashes or
 * hangs ends neither the others nor the report.
 */
#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/str.h"
#include "base/yaml.h"
#include "cmd/options/subcommand.h"
#include "cmd/output/ci.h"
#include "cmd/output/output.h"
#include "ir/graph.h"
#include "cmd/output/table.h"
#include "cmd/output/watchdog.h"
#include "cmd/profile/profile.h"

#include <ctype.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DOCUMENT = 512 << 20, MAX_WORDS = 256, COMMANDS = 2, LOOK_MS = 100 };

struct suite_file {
	struct texts models;
	const char *check, *profile;
};

static const struct field suite_fields[] = {
	FIELD(struct suite_file, models, F_LIST, NULL, "models, each with its options"),
	FIELD(struct suite_file, check, F_STRING, "", "options of infer check, or no"),
	FIELD(struct suite_file, profile, F_STRING, "", "options of infer profile, or no"),
	{0},
};

/* What one command said about one model. */
struct outcome {
	bool done;
	int status;
	double seconds;
	double median, low, high, rate; /* of profile; NAN */
	const char *why, *detail;	/* the first error, or why it is not done; or NULL */
	bool wanted;			/* false: the suite's file turns the command off */
	bool unknown; /* the machine did not let profile say whether the model is slower than its baseline */
};

struct suite {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct suite_file file;
	size_t n;
	const char **model;
	struct outcome_pair {
		struct outcome of[COMMANDS]; /* check, profile */
	} * outcome;
};

static const char *const command_names[COMMANDS] = {"check", "profile"};
static const unsigned command_bits[COMMANDS] = {CMD_CHECK, CMD_PROFILE};

/* ---- words */

/*
 * Splits a line into words at blanks; quotes of both kinds keep blanks. Returns the number of words, of which the first
 * `room` are stored. *quote_left (may be NULL) is the quote that is not closed, or 0.
 */
static size_t split_words(const char *line, const char **word, size_t room, char *quote_left,
			  struct arena *a)
{
	size_t n = 0;
	char quote = 0;

	for (;;) {
		line += strspn(line, " \t\n");
		if (!*line)
			break;
		struct str s = {.arena = a};
		for (; *line && (quote || !strchr(" \t\n", *line)); line++)
			if (quote ? *line == quote : *line == '"' || *line == '\'')
				quote = quote ? 0 : *line;
			else
				str_add_n(&s, line, 1);
		if (n++ < room)
			word[n - 1] = arena_str(a, str_get(&s));
	}
	if (quote_left)
		*quote_left = quote;
	return n;
}

static int check_line(const struct suite *s, const char *line)
{
	struct arena a = {0};
	char quote = 0;
	size_t n = split_words(line, NULL, 0, &quote, &a);

	arena_free(&a);
	if (quote)
		return FAIL(s->d, E_CONFIG,
			    .message = fmt(s->d, "%s: a quote is not closed: %c", s->o->operand[0],
					   quote),
			    .actual = fmt(s->d, "%s", line));
	if (n > MAX_WORDS / 2)
		return FAIL(s->d, E_CONFIG,
			    .message = fmt(s->d, "%s: a line has too many words", s->o->operand[0]),
			    .expected = fmt(s->d, "%d at most", MAX_WORDS / 2),
			    .actual = fmt(s->d, "%zu", n));
	return 0;
}

/* Returns the row of the option that a word such as --dim=4 or -n names, or NULL. */
static const struct field *option_of(const char *word)
{
	size_t n = strcspn(word, "=");

	for (const struct field *f = options_table; f->name; f++)
		if (word[1] == '-' ? strlen(f->name) + 2 == n && !strncmp(word + 2, f->name, n - 2)
				   : f->sh && word[1] == f->sh)
			return f;
	return NULL;
}

struct words {
	const char *v[MAX_WORDS];
	size_t n;
};

static void add_word(struct words *w, const char *word)
{
	if (w->n + 1 < MAX_WORDS)
		w->v[w->n++] = word;
}

/* Which options of a line are passed on. */
struct wanted {
	int command;
	bool update; /* baselines are written */
	bool limits; /* there is a baseline to hold limits against */
};

/*
 * Adds those options of a line that the command knows, with their values. An option that no command of the suite knows is added,
 * too: the command says what is wrong with it.
 */
static void add_options(struct words *w, const char *line, const struct wanted *what, struct arena *a)
{
	const char *word[MAX_WORDS];
	size_t n = split_words(line, word, MAX_WORDS, NULL, a);

	for (size_t i = 0; i < n; i++) {
		const struct field *f = *word[i] == '-' && word[i][1] ? option_of(word[i]) : NULL;
		bool apart = f && !strchr(word[i], '=') && (word[i][1] == '-' || !word[i][2]) &&
			     option_takes_next(f, i + 1 < n ? word[i + 1] : NULL);
		bool other = f && !(f->cmds & command_bits[what->command]) &&
			     (f->cmds & command_bits[1 - what->command]);
		bool limit = f && !what->limits && str_starts(f->name, "fail-") &&
			     strcmp(f->name, "fail-above-energy") != 0;
		if (f && what->update && !strcmp(f->name, "baseline") && !other)
			word[i] =
				arena_printf(a, "--save-baseline%s", word[i] + strlen("--baseline"));
		if (!other && !limit)
			add_word(w, word[i]);
		if (apart && i + 1 < n && ++i && !other && !limit)
			add_word(w, word[i]);
	}
}

/* ---- running a command */

static void run_words(void *arg, FILE *out)
{
	char **argv = arg;
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(fileno(out), STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    dup2(null, STDIN_FILENO) < 0)
		_exit(127);
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* Takes a finding over from the document of a command. Notes are left out: a suite is about what is wrong. */
static void take_finding(struct suite *s, const char *model, struct outcome *x, const struct jvalue *v)
{
	const struct jvalue *where = jget(v, "where"), *rows = jget(v, "rows");
	const char *id = jtext(v, "id"), *word = jtext(v, "severity");
	bool error = word && !strcmp(word, "error");
	struct diag_row *row = arena_new_n(&s->arena, struct diag_row, rows ? rows->n + 1 : 1);
	struct finding f = {.code = code_named(id),
			    .severity = error ? SEV_ERROR : SEV_WARNING,
			    .model = model,
			    .node = jtext(where, "node"),
			    .op = jtext(where, "op"),
			    .slot = jtext(where, "slot"),
			    .message = jtext(v, "message"),
			    .expected = jtext(v, "expected"),
			    .actual = jtext(v, "actual"),
			    .hint = jtext(v, "hint") ? jtext(v, "hint") : "",
			    .rows = row};

	if (!id || !word || !strcmp(word, "note"))
		return;
	for (const struct jvalue *r = rows ? rows->first : NULL; r; r = r->next) {
		const char *label = jtext(r, "label"), *text = jtext(r, "text");
		row[f.nrows++] = (struct diag_row){label ? label : "", text ? text : ""};
	}
	(void)diag_add(s->d, &f);
	if (error && !x->why) {
		x->why = arena_printf(&s->arena, "%s: %s", id, f.message ? f.message : "");
		x->detail = ci_finding_text(s->d->last, &s->arena);
	}
}

static void take_document(struct suite *s, const char *model, struct outcome *x,
			  const struct jvalue *v)
{
	const struct jvalue *findings = jget(v, "findings"), *sums = jget(v, "summary");

	x->status = (int)jnumber(v, "exit_code", 0);
	x->unknown = jget(v, "baseline") && !jbool(jget(v, "baseline"), "known");
	for (const struct jvalue *f = findings ? findings->first : NULL; f; f = f->next)
		take_finding(s, model, x, f);
	if (sums && sums->first) {
		const struct jvalue *interval = jget(sums->first, "median_interval");
		x->median = jnumber(sums->first, "median", NAN);
		x->rate = jnumber(sums->first, "items_per_second", NAN);
		if (interval && interval->n == 2) {
			x->low = interval->first->number;
			x->high = interval->first->next->number;
		}
	}
}

static bool names_baseline(const char *line, struct arena *a)
{
	const char *word[MAX_WORDS];
	size_t n = split_words(line, word, MAX_WORDS, NULL, a);

	for (size_t i = 0; i < n; i++) {
		const struct field *f = *word[i] == '-' && word[i][1] ? option_of(word[i]) : NULL;
		if (f && !strcmp(f->name, "baseline"))
			return true;
	}
	return false;
}

static void prepare_outcome(const struct suite *s, struct outcome *x, int command)
{
	const char *common = command ? s->file.profile : s->file.check;

	*x = (struct outcome){.median = NAN, .low = NAN, .high = NAN, .rate = NAN};
	x->wanted = strcmp(common, "no") != 0 && strcmp(common, "false") != 0;
}

static void run_command(struct suite *s, size_t k, int command, const char *line)
{
	const char *common = command ? s->file.profile : s->file.check;
	struct outcome *x = &s->outcome[k].of[command];
	struct words w = {{"infer", command_names[command], "--json"}, 3};
	struct arena a = {0};
	struct diag quiet = {0};
	struct child child;
	uint64_t start = clock_ns();

	if (!x->wanted)
		return;
	/* the check has already reported that the model cannot be read */
	if (command && s->outcome[k].of[0].status == code_exit(E_MODEL_OPEN)) {
		x->why = "not measured: infer check has found that the model cannot be used";
		return;
	}
	const bool update = s->o->update_baselines;
	const struct wanted what = {command, update, !update && names_baseline(line, &a)};
	add_options(&w, line, &what, &a);
	add_options(&w, common, &what, &a);
	x->done = true;
	if (!child_fork(&child, MAX_DOCUMENT, run_words, w.v)) {
		FAIL(s->d, E_MEMORY, .model = s->model[k], .message = "no process could be started");
		x->why = "no process could be started";
		arena_free(&a);
		return;
	}
	/* an interrupt ends the wait, and the report has what was done before */
	while (watchdog_caught() == E_OK && child_read(&child, LOOK_MS))
		;
	child_wait(&child, watchdog_caught() == E_OK ? INFINITY : 0);
	if (watchdog_caught() != E_OK) {
		x->done = false;
		child_free(&child);
		arena_free(&a);
		return;
	}
	x->seconds = (double)(clock_ns() - start) / 1e9;
	const struct jvalue *v =
		child.n ? jread(child.text, child.n, "report", E_INTERNAL, &a, &quiet) : NULL;
	if (v)
		take_document(s, s->model[k], x, v);
	else
		FAIL(s->d, E_RUN, .model = s->model[k],
		     .message = fmt(s->d, "infer %s gave no report", command_names[command]),
		     .actual = child.signal ? fmt(s->d, "it was ended by signal %d", child.signal)
					    : fmt(s->d, "it ended with status %d", child.status));
	if (!v)
		x->why = "no report";
	child_free(&child);
	diag_free(&quiet);
	arena_free(&a);
}

/* ---- the report */

static const char *outcome_text(const struct outcome *x)
{
	return !x->done ? "-" : x->why ? "failed" : x->unknown ? "not known" : "ok";
}

static void print_suite(const struct suite *s, FILE *f)
{
	static const char *const heads[] = {"model",   "check", "profile", "median",
					    "items/s", "took",	NULL};
	struct arena a = {0};
	struct table t;
	size_t failed = 0;

	table_begin(&t, &a, heads, "lllrrr");
	t.ranks = "000123";
	for (size_t k = 0; k < s->n; k++) {
		const struct outcome *x = s->outcome[k].of;
		failed += (x[0].done && x[0].why) || (x[1].done && x[1].why);
		table_text(&t, s->model[k]);
		table_text(&t, outcome_text(&x[0]));
		table_text(&t, outcome_text(&x[1]));
		table_text(&t, isnan(x[1].median) ? "-" : str_seconds(&a, x[1].median));
		table_text(&t, isnan(x[1].rate) ? "-" : profile_rate(&a, x[1].rate, ""));
		table_text(&t, str_seconds(&a, x[0].seconds + x[1].seconds));
	}
	table_print(&t, "", f);
	fprintf(f, "%zu model%s, %zu failed; %zu error%s, %zu warning%s; exit status %d\n", s->n,
		s->n == 1 ? "" : "s", failed, s->d->errors, s->d->errors == 1 ? "" : "s",
		s->d->warnings, s->d->warnings == 1 ? "" : "s", diag_exit(s->d));
	arena_free(&a);
}

static void write_suite(struct suite *s)
{
	struct printed printed;
	struct json j;

	json_envelope_begin(&j, s->o, s->d);
	print_suite(s, printed_begin(&printed));
	printed_end(&printed, &j);
	json_array(&j, "models");
	for (size_t k = 0; k < s->n; k++) {
		json_object(&j, NULL);
		json_string(&j, "model", s->model[k]);
		for (int c = 0; c < COMMANDS; c++) {
			const struct outcome *x = &s->outcome[k].of[c];
			if (!x->done)
				continue;
			json_object(&j, command_names[c]);
			json_int(&j, "exit_code", x->status);
			json_bool(&j, "known", !x->unknown);
			json_number(&j, "seconds", x->seconds);
			if (!isnan(x->median)) {
				json_number(&j, "median", x->median);
				json_number(&j, "items_per_second", x->rate);
			}
			json_end(&j, '}');
		}
		json_end(&j, '}');
	}
	json_end(&j, ']');
	json_envelope_end(&j, s->d);
}

static int export_suite(struct suite *s)
{
	struct ci_case *c = arena_new_n(&s->arena, struct ci_case, COMMANDS * s->n + 1);
	struct ci_measure *m = arena_new_n(&s->arena, struct ci_measure, 2 * s->n + 1);
	struct ci_report r = {.title = "infer suite", .cases = c, .measures = m, .d = s->d};
	bool ended = false;

	for (size_t k = 0; k < s->n; k++) {
		for (int i = 0; i < COMMANDS; i++) {
			const struct outcome *x = &s->outcome[k].of[i];
			if (!x->wanted)
				continue;
			/* what an interruption kept from being done: the first fails, so that the report does not pass */
			const bool cut = !x->done && !x->why;
			const bool unknown = x->done && !x->why && x->unknown;
			const struct ci_measure *measured = &m[r.nmeasures];
			if (!isnan(x->median)) {
				m[r.nmeasures++] =
					(struct ci_measure){s->model[k], "latency", x->median * 1e9,
							    x->low * 1e9, x->high * 1e9};
				m[r.nmeasures++] = (struct ci_measure){s->model[k], "throughput",
								       x->rate, NAN, NAN};
			}
			c[r.ncases++] = (struct ci_case){
				s->model[k],
				command_names[i],
				x->seconds,
				unknown || (!x->done && !(cut && !ended)),
				cut	  ? "not done: the suite was ended early"
				: unknown ? "not known whether it is slower than its baseline"
					  : x->why,
				x->detail,
				measured,
				(size_t)(&m[r.nmeasures] - measured)};
			ended |= cut;
		}
	}
	return ci_export_all(&r, s->o, s->d);
}

/* ---- the command */

/* Returns a path as a line of a suite file has it: in quotes, so that split_words() finds one word. */
static const char *quoted(const char *path, struct arena *a)
{
	struct str s = {.arena = a};

	str_addf(&s, "'");
	for (; *path; path++)
		str_addf(&s, *path == '\'' ? "'\"'\"'" : "%c", *path);
	str_addf(&s, "'");
	return str_get(&s);
}

/* Takes the models from the command line, each without options. */
static int take_models(struct suite *s)
{
	const struct options *o = s->o;
	struct text *all = arena_new_n(&s->arena, struct text, o->noperands);

	for (size_t k = 0; k < o->noperands; k++) {
		if (!path_names_model(o->operand[k]))
			return FAIL(s->d, E_USAGE,
				    .message = fmt(s->d, "'%s' is no model", o->operand[k]),
				    .expected = "models (.onnx), or one file of YAML that lists them",
				    .hint = "options of a model stand in the file: models: [\"a.onnx --dim batch=4\", "
					    "\"b.onnx --input x.npy\"]");
		all[k].s = quoted(o->operand[k], &s->arena);
	}
	s->file.models = (struct texts){all, (int64_t)o->noperands};
	return 0;
}

static int read_suite(struct suite *s)
{
	const char *path = s->o->operand[0], *word[1];
	int rc = 0;

	for (const struct field *f = suite_fields; f->name && !rc; f++)
		if (f->def)
			rc = field_set(f, &s->file, f->def, "", &s->arena, s->d);
	if (!rc && path_is_folder(path))
		return FAIL(s->d, E_USAGE, .message = fmt(s->d, "%s is a folder", path),
			    .expected = "models (.onnx), or one file of YAML that lists them",
			    .hint = !strcmp(path, ".")
					    ? "infer suite *.onnx takes its models"
					    : fmt(s->d, "infer suite %s/*.onnx takes its models",
						  path));
	if (!rc && (s->o->noperands > 1 || path_names_model(path)))
		rc = take_models(s);
	else if (!rc)
		rc = yaml_load(path, suite_fields, 0, &s->file, NULL, NULL, &s->arena, s->d);
	if (!rc && s->file.models.n < 1)
		rc = FAIL(s->d, E_CONFIG, .message = fmt(s->d, "%s: it lists no models", path),
			  .hint = "write models: [\"a.onnx --dim batch=4\", \"b.onnx\"]; infer suite --help shows a file");
	if (rc)
		return rc;
	s->n = (size_t)s->file.models.n;
	s->model = arena_new_n(&s->arena, const char *, s->n);
	s->outcome = arena_new_n(&s->arena, struct outcome_pair, s->n);
	for (size_t k = 0; k < s->n; k++) {
		s->model[k] =
			split_words(s->file.models.v[k].s, word, 1, NULL, &s->arena) ? word[0] : "";
		for (int c = 0; c < COMMANDS; c++)
			prepare_outcome(s, &s->outcome[k].of[c], c);
	}
	for (size_t k = 0; !rc && k < s->n; k++)
		rc = check_line(s, s->file.models.v[k].s);
	rc = rc ? rc : check_line(s, s->file.check);
	return rc ? rc : check_line(s, s->file.profile);
}

int cmd_suite(struct options *o, struct diag *d)
{
	struct suite s = {.o = o, .d = d};
	int rc = ci_check(o, CI_MEASURES, d);

	rc = rc ? rc : read_suite(&s);
	if (!rc)
		watchdog_soft();
	for (size_t k = 0; !rc && k < s.n; k++)
		for (int c = 0; c < COMMANDS && watchdog_caught() == E_OK; c++)
			run_command(&s, k, c, s.file.models.v[k].s);
	if (!rc && watchdog_caught() != E_OK)
		FAIL(d, watchdog_caught(), .message = "ended early; what was done so far is reported");
	if (!rc) {
		rc = export_suite(&s);
		if (o->json) {
			write_suite(&s);
		} else {
			output_findings(o, d, stdout);
			FILE *f = listing_begin(stdout);
			print_suite(&s, f);
			listing_end(f);
		}
	}
	arena_free(&s.arena);
	return rc;
}
