/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_OPTIONS_H
#define CMD_OPTIONS_OPTIONS_H
/*
 * The settings that the user asked for. options_table describes every option once: the command line, YAML files,
 * the environment, --help, the manual and the completions all follow from it.
 *
 * To add an option: a member of struct options, and a row in table.c.
 */
#include "base/field.h"
#include "check/check.h"
#include "backend/config.h"
#include "input/steps.h"

/* Bits of struct field.cmds: one CMD_* for each row of commands.def, in its order. */
enum {
#define COMMAND(bit, name, ...) COMMAND_INDEX_##bit,
#include "cmd/options/commands.def"
#undef COMMAND
	COMMAND_COUNT,
};
enum {
#define COMMAND(bit, name, ...) CMD_##bit = 1 << COMMAND_INDEX_##bit,
#include "cmd/options/commands.def"
#undef COMMAND
	CMD_ALL = (1 << COMMAND_COUNT) - 1,
	CMD_RUNS = CMD_RUN | CMD_PROFILE | CMD_CHECK, /* bits of the commands that run a model */
};

/* Bit of struct field.flags: a configuration file may not set this option. */
enum { OPTION_COMMAND_LINE = 256 };

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
enum model_form { FORM_AUTO, FORM_BINARY, FORM_TEXT, FORM_JSON };
enum save_format { SAVE_NPY, SAVE_NPZ, SAVE_PB, SAVE_BIN, SAVE_JSON, SAVE_PNG, SAVE_SAFETENSORS };
enum transfers { TRANSFERS_INCLUDE, TRANSFERS_EXCLUDE, TRANSFERS_SPLIT };
enum node_sort { SORT_TIME, SORT_ORDER, SORT_MEMORY };
enum stage { STAGE_NONE = -1, STAGE_FILE, STAGE_GRAPH, STAGE_OPT, STAGE_PLAN };

struct command;
struct precision_choice;

struct options {
	struct run_config config;
	const char *const *operand; /* MODEL and the other words that are not options */
	size_t noperands;
	bool after_dashes; /* the first operand follows -- */

	/* inputs; the lists hold the texts as the user wrote them */
	struct texts input;   /* [NAME=]FILE[,KEY=VALUE...] */
	struct texts random;  /* [NAME=]LO..HI */
	struct texts shape;   /* NAME=1x3x224x224 */
	struct texts dim;     /* NAME=N or INPUT.NAME=N */
	const char *data_set; /* NULL: none */
	int64_t seed;
	bool strict;   /* free dimensions must be bound */
	int64_t batch; /* number of inputs of a run; 0: as many as the model fixes, else 1 */
	bool keep_going, resume;
	const char *shard; /* I/N; NULL: what the environment says */

	/* steps */
	struct steps_request steps; /* --feed, --slice, --next, --derive */
	struct texts by_step;	    /* [OUT=]last|stack|join:AXIS|each */
	struct ints until;	    /* ids that end the text; n is -1 if absent */
	int64_t step_limit;	    /* INT_ABSENT: none */

	/* outputs */
	struct texts from, to; /* of extract: tensors or nodes */
	struct texts ignore;   /* of diff: kinds of differences */
	struct texts score, fail_below;
	const char *jsonl;  /* file for a JSON line for each input; NULL: none */
	const char *report; /* file for a report that infer merge adds up; NULL: none */
	const char *save; /* folder for the outputs, or file of a part; NULL if they are not written */
	int form;	  /* enum model_form: of the file that convert writes */
	bool exact;	  /* diff compares the files only, not their normal forms */
	bool simplify;	  /* diff compares normal forms, as it does anyway */
	bool strip_weights; /* simplify writes no file of weights */
	const char *external; /* file for a model's weights, "" for one named after the model; NULL: none */
	int save_format; /* enum save_format */
	/* number of values to print of each output; 0 for all, INT_ABSENT for none */
	int64_t print;
	int64_t top;	    /* number of largest values to print along the last axis; 0 for none */
	const char *decode; /* "ctc" or "ctc:blank=N"; in profile a number of ids; NULL */
	const char *labels; /* FILE or "meta:KEY"; NULL */

	/* inspect */
	bool nodes, weights, cost, memory, dot, passes, explain;
	int stage; /* enum stage */

	/* profile */
	int64_t prefill;    /* positions of the prompt; INT_ABSENT: not given */
	int64_t iterations; /* number of runs; INT_ABSENT to run until the duration has passed */
	double duration;    /* seconds; NAN: not given */
	const char *warmup; /* "10" runs or "200ms" */
	struct floats percentile;
	int transfers; /* enum transfers */
	int sort;      /* enum node_sort */
	const char *trace;
	struct texts exports;
	const char *save_baseline, *baseline;
	/* texts such as "5%" and "1MiB"; NULL if not given */
	const char *fail_above, *fail_above_memory;
	double fail_above_energy; /* joules a run; NAN: no limit */
	bool fail_unknown, force;
	bool update_baselines; /* suite */
	const char *compare_device;
	int64_t sessions, streams;
	/* the values to compare of options for which the user gave a list of values */
	struct texts threads_axis, sessions_axis, streams_axis, plan_axis, arena_axis,
		optimize_axis, precision_axis, graph_axis;

	struct texts sweep;	    /* DIM=A..B[:STEP] */
	const char *html;	    /* file for the HTML report; NULL for no report */
	struct check_options check; /* cmd_check copies sweep, html and save into it */

	/* check -- COMMAND */
	struct {
		int64_t pid;	 /* INT_ABSENT: none */
		double interval; /* seconds; NAN: none */
		int errors;	 /* enum report_errors */
		int heap;	 /* enum watch_heap */
		/* exit status after errors; INT_ABSENT for the lowest status among the errors */
		int64_t error_exit;
		const char *suppressions;
		const char *suppress_all; /* file for --write-suppressions */
	} watch;

	bool no_blame; /* do not repeat a failed run to find the node that failed (see blame.h) */

	/* every command */
	bool help, version, quiet, json;
	int64_t verbose; /* 0, 1, 2 */
	int color;	 /* enum color */
	double timeout;	 /* seconds; 0: none */
	const char *config_file;

	/* not options */
	struct precision_choice *chosen; /* what --precision auto chose, one entry for each job */
	size_t nchosen;
	const struct command *command;
	char *const *words; /* of the command line, after the program's name; NULL: not known */
	/*
	 * for each row of the table, where its value comes from: "--device", "INFER_DEVICE",
	 * "x.yaml:7"; NULL for a default
	 */
	const char **origin;
	struct given_item *item; /* every text of a list option with its origin; the latest first */
	struct arena arena;
	/*
	 * exit status if there are no errors: that of the program of check -- COMMAND, or 1 if diff found differences
	 */
	int status;
	/*
	 * `status` holds even if there are errors: the watched program could not be started, or the subcommand has the exit
	 * statuses of diff(1)
	 */
	bool status_stands;
	bool document; /* the JSON document has been written: see output.h */
	const struct finding *printed; /* the newest finding that the command has printed with its report, or NULL */
};

extern const struct field options_table[];
/* What the option does in this command (a bit of enum command_bit): the row's help, or the command's own where they differ. */
const char *option_help(const struct field *row, unsigned command);

/*
 * Applies the defaults, then the YAML file (--config), then the environment, then the command line.
 * argv holds the words after the subcommand. With --help or --version all other options are ignored.
 */
int options_parse(struct options *o, const struct command *c, int argc, char *const *argv,
		  struct diag *d);
void options_free(struct options *o);

/*
 * Returns where the option's value comes from, for messages: "--dim", "INFER_SEED", "x.yaml:7", or
 * "default" if the user gave none.
 */
const char *options_origin(const struct options *o, const char *name);
/*
 * Returns where one text of a list option comes from, as the beginning of a message: "--dim",
 * "x.yaml:7: dim". Returns NULL if the user did not give this text. o points to a struct options.
 */
const char *options_item_origin(const void *o, const char *name, const char *text);
/*
 * Returns the request for inputs that the options describe. The request points into o, which must
 * outlive it.
 */
struct input_request options_request(const struct options *o);
/*
 * Call this function with the result rc of an operation that used the option's value; it returns
 * rc. If rc is an error, a configuration file gave the value and the last finding has no location,
 * the finding gets the file and line.
 */
int options_blame(const struct options *o, const char *name, int rc, struct diag *d);
/* Returns the path of the file in which a user may keep options for all runs, or NULL. It need not exist. */
const char *options_user_config(struct arena *a);
/* Reports `ORIGIN: message` for a value that turned out wrong after parsing. */
int options_fail(const struct options *o, const char *name, const char *message, const char *hint,
		 struct diag *d);
/*
 * Sets *location to the file name that --external gives for a model at `path`, or to NULL if the option was not given. Fails if the
 * file would not lie in the model's folder.
 */
int options_external(const struct options *o, const char *path, const char **location, struct diag *d);

/* Returns true if the argument of the option may be left out. */
bool option_optional(const struct field *f);
/* Returns true if the word behind the option is its value, and not an operand; next may be NULL. */
bool option_takes_next(const struct field *f, const char *next);

#endif
