/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/options.h"

#include "cmd/options/subcommand.h"
#include "unit.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

static struct options o;
static struct diag d;

enum { MAX_WORDS = 32 };

/* Parses the words of a line (no quoting) as what follows `infer COMMAND`. */
static int parse(const char *command, const char *line)
{
	static char words[512];
	char *argv[MAX_WORDS], *save = NULL;
	int argc = 0;

	options_free(&o);
	diag_free(&d);
	snprintf(words, sizeof(words), "%s", line);
	for (char *w = strtok_r(words, " ", &save); w && argc < MAX_WORDS;
	     w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return options_parse(&o, command_find(command), argc, argv, &d);
}

static const char *message(void)
{
	return d.last && d.last->message ? d.last->message : "(none)";
}

static void the_table_is_sound(void)
{
	for (const struct field *f = options_table; f->name; f++) {
		CHECK(f->help && f->group && f->cmds);
		CHECK(f->type == F_BOOL || f->type == F_INT || f->arg);
		CHECK(!f->implied || f->arg);
		CHECK(strspn(f->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(f->name));
		CHECK(f->type != F_ENUM || f->choices);
		CHECK(f->off + sizeof(bool) <= sizeof(struct options));
		CHECK(f->help && islower((unsigned char)*f->help) | isupper((unsigned char)*f->help));
		CHECK(f->help[strlen(f->help) - 1] != '.');
		for (const struct field *g = options_table; g < f; g++) {
			CHECK(strcmp(f->name, g->name) != 0);
			CHECK(f->off != g->off);
			CHECK(!f->sh || f->sh != g->sh);
			CHECK(!f->env || !g->env || strcmp(f->env, g->env) != 0);
		}
		if (unit_faults)
			printf("# in the row of --%s\n", f->name);
	}
}

static void groups_stand_together(void)
{
	for (const struct field *f = options_table + 1; f->name; f++)
		for (const struct field *g = options_table; g < f - 1; g++)
			if (strcmp(f->group, g->group) == 0)
				CHECK(strcmp(f->group, (f - 1)->group) == 0);
}

static void every_value_has_a_default(void)
{
	CHECK_INT(parse("run", "m.onnx"), 0);
	CHECK_STR(o.config.device, "auto");
	CHECK(o.config.memory_plan && o.config.arena && o.config.memory_limit == INT_ABSENT);
	CHECK(o.config.optimize == OPTIMIZE_FULL && o.config.precision == PRECISION_FP32);
	CHECK(o.save_format == SAVE_NPY && o.print == INT_ABSENT && o.stage == STAGE_NONE);
	CHECK(o.timeout == 0 && o.color == COLOR_AUTO && !o.save);
	CHECK(o.noperands == 1);
	CHECK_STR(options_origin(&o, "device"), "default");
}

static void enums_are_in_the_order_of_their_choices(void)
{
	CHECK(parse("run", "m --save-format json") == 0 && o.save_format == SAVE_JSON);
	CHECK(parse("run", "m --save-format png") == 0 && o.save_format == SAVE_PNG);
	CHECK(parse("run", "m --optimize none") == 0 && o.config.optimize == OPTIMIZE_NONE);
	CHECK(parse("run", "m --color never") == 0 && o.color == COLOR_NEVER);
	CHECK(parse("inspect", "m --stage plan") == 0 && o.stage == STAGE_PLAN);
	CHECK(parse("inspect", "m --stage file") == 0 && o.stage == STAGE_FILE);
}

static void forms_of_options(void)
{
	CHECK_INT(parse("run", "--input=a=b --input c m -oout -vqv --threads 3"), 0);
	CHECK(o.input.n == 2 && o.verbose == 2 && o.quiet && o.config.threads == 3);
	CHECK_STR(o.input.v[0].s, "a=b");
	CHECK_STR(o.save, "out");
	CHECK_STR(o.operand[0], "m");
	CHECK_INT(parse("run", "-o out --inp x --optim basic -- --strict"), 0);
	CHECK(o.input.n == 1 && o.config.optimize == OPTIMIZE_BASIC && !o.strict);
	CHECK_STR(o.operand[0], "--strict");
	CHECK_INT(parse("run", "- --strict --strict=off"), 0);
	CHECK_STR(o.operand[0], "-");
	CHECK(!o.strict);
	CHECK_INT(parse("run", "m -vo out"), 0);
	CHECK_STR(o.save, "out");
}

static void an_optional_argument(void)
{
	CHECK(parse("run", "m --print") == 0 && o.print == 100);
	CHECK(parse("run", "--print m") == 0 && o.print == 100 && o.noperands == 1);
	CHECK(parse("run", "--print 7 m") == 0 && o.print == 7);
	CHECK(parse("run", "--print=0 m") == 0 && o.print == 0);
	CHECK(parse("run", "--print=x m") == -E_OPTION);
}

static void mistakes_name_the_nearest(void)
{
	CHECK_INT(parse("run", "m --devise cpu"), -E_OPTION);
	CHECK_STR(message(), "unknown option '--devise'");
	CHECK_STR(d.last->hint, "did you mean '--device'?");
	CHECK_INT(parse("run", "m --explain"), -E_OPTION);
	CHECK_STR(d.last->hint, "it belongs to infer inspect: infer inspect MODEL --explain");
	/* the full name of another subcommand's option is no abbreviation of --memory-limit */
	CHECK_INT(parse("run", "m --memory"), -E_OPTION);
	CHECK_STR(message(), "'infer run' has no option --memory");
	CHECK_INT(parse("run", "m --memory-"), -E_OPTION);
	CHECK_STR(message(), "'--memory-' is ambiguous");
	CHECK(parse("inspect", "m --memory") == 0 && o.memory);
	CHECK_INT(parse("run", "m -z"), -E_OPTION);
	CHECK_INT(parse("run", "m --="), -E_OPTION);
	CHECK_INT(parse("run", "m --device"), -E_OPTION);
	CHECK_STR(d.last->slot, "--device");
	CHECK_INT(parse("run", "m --device gpu"), -E_OPTION);
	CHECK_INT(parse("run", "m --device cuda:1"), 0);
	CHECK_INT(parse("run", "m --threads -1"), -E_OPTION);
	CHECK_INT(parse("run", ""), -E_USAGE);
	CHECK_INT(parse("run", "m n"), -E_USAGE);
	CHECK_STR(message(), "unexpected operand 'n'");
	CHECK_INT(parse("inspect", ""), 0);
}

static void help_needs_nothing_else(void)
{
	CHECK(parse("run", "--help") == 0 && o.help);
	CHECK(parse("run", "-h --config=/nowhere") == 0 && o.help);
	CHECK(parse("inspect", "--version") == 0 && o.version);
	CHECK(parse("run", "--json --bogus") == -E_OPTION && o.json);
}

static void precedence(void)
{
	char path[] = "/tmp/infer-unit-XXXXXX", line[128];
	static const char text[] =
		"device: cpu\nthreads: 2\nseed: 5\ninput: [a, b]\ndim: {batch: 2}\nnodes: on\nverbose: 2\n";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	setenv("INFER_THREADS", "3", 1);
	setenv("INFER_DEVICE", "", 1); /* counts as not set */
	snprintf(line, sizeof(line), "m --config %s --input c --seed 9 --input d -v", path);
	CHECK_INT(parse("run", line), 0);
	CHECK_STR(o.config.device, "cpu");
	CHECK(o.config.threads == 3 && o.seed == 9 && o.verbose == 1);
	CHECK(o.input.n == 2 && o.dim.n == 1);
	CHECK_STR(o.input.v[0].s, "c");
	CHECK_STR(o.dim.v[0].s, "batch=2");
	CHECK_STR(options_origin(&o, "threads"), "INFER_THREADS");
	CHECK_STR(options_origin(&o, "seed"), "--seed");
	CHECK_STR(options_origin(&o, "device") + strlen(path), ":1");
	setenv("INFER_THREADS", "some", 1);
	CHECK_INT(parse("run", "m"), -E_OPTION);
	CHECK_STR(d.last->slot, "INFER_THREADS");
	unsetenv("INFER_THREADS");
	setenv("INFER_CONFIG", path, 1);
	CHECK(parse("run", "m") == 0 && o.config.threads == 2);
	unsetenv("INFER_CONFIG");
	setenv("INFER_DEVICE", "gpu", 1);
	CHECK_INT(parse("run", "m"), -E_OPTION);
	CHECK_STR(d.last->slot, "INFER_DEVICE: device");
	unsetenv("INFER_DEVICE");
	unlink(path);
}

static void commands_have_a_page(void)
{
	unsigned bits = 0;

	for (const struct command *c = commands; c->name; c++) {
		CHECK(c->summary && c->synopsis && c->run && c->about && c->operand_kind);
		CHECK(!(bits & c->bit) && c->bit);
		bits |= c->bit;
	}
	CHECK_INT(bits, CMD_ALL);
}

/* Whether the word behind "infer" says what the program does, as in "infer has no tokenizer", and is no subcommand. */
static bool is_verb(const char *word)
{
	static const char *const verbs[] = {
		"has",	     "runs", "ends",	"loads",   "keeps",    "needs",	   "reads",
		"writes",    "sets", "chooses", "changes", "computes", "compares", "measures",
		"optimizes", "does", "tunes",	"lists",   "resizes"};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(word, verbs[i]))
			return true;
	return false;
}

/* What is written instead of another tool's word must exist. */
static void hints_about_other_tools_name_what_exists(void)
{
	static const char *const hints[] = {
#define FOREIGN(words, hint)		    hint,
#define FOREIGN_IN(commands, words, hint)   hint,
#define FOREIGN_VALUE(option, values, hint) hint,
#define IN_A_LINE(words, becomes, ours)
#include "cmd/options/foreign.def"
#undef IN_A_LINE
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
	};
	char word[64];

	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
		int named = 0;
		for (const char *p = hints[i]; (p = strstr(p, "--")); p++) {
			if (sscanf(p, "--%63[a-z-]", word) != 1)
				continue; /* "check -- COMMAND" */
			named++;
			if (!field_find(options_table, word))
				printf("# no option --%s\n", word);
			CHECK(field_find(options_table, word) != NULL);
		}
		for (const char *p = hints[i]; (p = strstr(p, "infer ")); p++) {
			if (sscanf(p, "infer %63[a-z]", word) != 1)
				continue;
			bool sentence = is_verb(word);
			if (!sentence && !command_find(word))
				printf("# no subcommand %s\n", word);
			CHECK(sentence || command_find(word) != NULL);
			named += !sentence;
		}
		bool more = strstr(hints[i], " -") || strstr(hints[i], "-q ") ||
			    strstr(hints[i], "infer has no") || strstr(hints[i], "man infer");
		if (!named && !more)
			printf("# %s\n", hints[i]);
		CHECK(named > 0 || more);
	}
}

int main(void)
{
	static const char *const variables[] = {
		"INFER_CONFIG",	       "INFER_DEVICE",	 "INFER_THREADS", "INFER_SEED",
		"INFER_OPTIMIZE",      "INFER_COLOR",	 "INFER_TIMEOUT", "INFER_MEMORY_LIMIT",
		"INFER_EXTERNAL_ROOT", "INFER_PRECISION"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		unsetenv(variables[i]);
	UNIT(the_table_is_sound);
	UNIT(groups_stand_together);
	UNIT(every_value_has_a_default);
	UNIT(enums_are_in_the_order_of_their_choices);
	UNIT(forms_of_options);
	UNIT(an_optional_argument);
	UNIT(mistakes_name_the_nearest);
	UNIT(help_needs_nothing_else);
	UNIT(precedence);
	UNIT(commands_have_a_page);
	UNIT(hints_about_other_tools_name_what_exists);
	options_free(&o);
	diag_free(&d);
	return unit_end();
}
