/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_OPTIONS_H
#define CMD_OPTIONS_OPTIONS_H
/*
 * What the user asked for. One table (options_table) says every option once: the command line, YAML,
 * the environment, --help, the manual and the completions are made from it.
 *
 * To add an option: a member here, a row in options_table.c. Nothing else.
 */
#include "base/field.h"
#include "check/check.h"
#include "backend/config.h"
#include "input/input.h"

/* Bits of struct field.cmds. */
enum {
	CMD_RUN = 1,
	CMD_INSPECT = 2,
	CMD_COMPLETION = 4,
	CMD_PROFILE = 8,
	CMD_CHECK = 16,
	CMD_CACHE = 32,
	CMD_DOCTOR = 64,
	CMD_RUNS = CMD_RUN | CMD_PROFILE | CMD_CHECK, /* those that run a model */
	CMD_ALL = CMD_RUNS | CMD_INSPECT | CMD_COMPLETION | CMD_CACHE | CMD_DOCTOR,
};

/* Bit of struct field.flags: not to be set by a configuration file. */
enum { OPTION_COMMAND_LINE = 256 };

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
enum save_format { SAVE_NPY, SAVE_NPZ, SAVE_PB, SAVE_BIN, SAVE_JSON, SAVE_PNG };
enum transfers { TRANSFERS_INCLUDE, TRANSFERS_EXCLUDE, TRANSFERS_SPLIT };
enum node_sort { SORT_TIME, SORT_ORDER, SORT_MEMORY };
enum stage { STAGE_NONE = -1, STAGE_FILE, STAGE_GRAPH, STAGE_OPT, STAGE_PLAN };

struct command;
struct precision_choice;

struct options {
	struct run_config config;
	const char *const *operand; /* MODEL and whatever else is no option */
	size_t noperands;
	bool after_dashes; /* the first operand stands behind -- */

	/* inputs; lists hold the texts as given */
	struct texts input;   /* [NAME=]FILE[,KEY=VALUE...] */
	struct texts random;  /* [NAME=]LO..HI */
	struct texts shape;   /* NAME=1x3x224x224 */
	struct texts dim;     /* NAME=N or INPUT.NAME=N */
	const char *data_set; /* NULL: none */
	int64_t seed;
	bool strict; /* free dimensions must be bound */

	/* outputs */
	const char *save;   /* folder; NULL: nothing is written */
	int save_format;    /* enum save_format */
	int64_t print;	    /* the first N values of each output; 0: all; INT_ABSENT: none */
	int64_t top;	    /* K best along the last axis; 0: none */
	const char *decode; /* "ctc" or "ctc:blank=N"; NULL */
	const char *labels; /* FILE or "meta:KEY"; NULL */

	/* inspect */
	bool nodes, weights, cost, memory, ops, dot, passes, explain;
	int stage; /* enum stage */

	/* profile */
	int64_t iterations; /* INT_ABSENT: as many as the duration holds */
	double duration;    /* seconds; NAN: not given */
	const char *warmup; /* "10" runs or "200ms" */
	struct floats percentile;
	int transfers; /* enum transfers */
	int sort;      /* enum node_sort */
	const char *trace;
	struct texts exports;
	const char *save_baseline, *baseline;
	const char *fail_above, *fail_above_memory; /* "5%", "1MiB"; NULL: not given */
	bool force;
	const char *compare_device;
	int64_t sessions, streams;
	/* lists of values where an option got several: axes of a comparison */
	struct texts threads_axis, sessions_axis, streams_axis, plan_axis, arena_axis,
		optimize_axis, precision_axis, graph_axis;

	struct texts sweep;	    /* DIM=A..B[:STEP] */
	const char *html;	    /* a page of the report; NULL: none */
	struct check_options check; /* its sweep, html and save are those above */

	/* check -- COMMAND */
	struct {
		int64_t pid;	    /* INT_ABSENT: none */
		double interval;    /* seconds; NAN: none */
		int errors;	    /* enum report_errors */
		int heap;	    /* enum watch_heap */
		int64_t error_exit; /* INT_ABSENT: that of the class */
		const char *suppressions;
		const char *suppress_all; /* where lines for all that is told go */
	} watch;

	bool no_blame; /* see blame.h */

	/* every command */
	bool help, version, quiet, json;
	int64_t verbose; /* 0, 1, 2 */
	int color;	 /* enum color */
	double timeout;	 /* seconds; 0: none */
	const char *config_file;

	/* not options */
	struct precision_choice *chosen; /* what --precision auto was, for each that asked */
	size_t nchosen;
	const struct command *command;
	const char **origin; /* by row of the table: "--device", "INFER_DEVICE", "x.yaml:7"; NULL: default */
	struct given_item *item; /* texts of lists, with where each comes from; the latest first */
	struct arena arena;
	int status;	    /* where there are no errors: that of the program of check -- COMMAND */
	bool status_stands; /* and where there are: the program could not be run */
	bool document;	    /* the JSON document was written: see output.h */
};

extern const struct field options_table[];

/*
 * Defaults, then the YAML file (--config), then the environment, then the command line.
 * argv holds what follows the subcommand. With --help or --version nothing else is looked at.
 */
int options_parse(struct options *o, const struct command *c, int argc, char *const *argv,
		  struct diag *d);
void options_free(struct options *o);

/* Where the option's value comes from, for messages; "default" where nobody gave it. */
const char *options_origin(const struct options *o, const char *name);
/* Where one text of a list comes from, as a message begins with it: "--dim", "x.yaml:7: dim"; NULL: nobody gave it. o: struct options. */
const char *options_item_origin(const void *o, const char *name, const char *text);
/* What the options say about inputs. It refers to o. */
struct input_request options_request(const struct options *o);
/*
 * rc, after what was done with the option's value failed: where a configuration file gave it and the last
 * finding names no place, that names the line.
 */
int options_blame(const struct options *o, const char *name, int rc, struct diag *d);
/* A wrong value that only a later stage can tell: `ORIGIN: message`. */
int options_fail(const struct options *o, const char *name, const char *message, const char *hint,
		 struct diag *d);

/* True where the row's argument may be left out. */
bool option_optional(const struct field *f);

#endif
