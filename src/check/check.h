/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H
/*
 * `infer check`: looks for what is wrong with a model, its inputs, its numbers, its memory, its device.
 *
 * A check is one file in src/check/ with one `const struct check`, and one line in src/check/checks.def, where
 * the order is from cheap to dear. The driver (check_run) opens what a check needs, asks it whether it is
 * wanted, runs it, and keeps one line of what it said. What is wrong goes into the diag as findings of
 * the ids in base/codes.def; nobody else decides about the exit status.
 */
#include "base/diag.h"
#include "base/json_write.h"
#include "backend/config.h"
#include "input/input.h"
#include "session/session.h"

/* How outputs are measured against references. */
enum check_metric { METRIC_MAXABS, METRIC_COSINE, METRIC_L2 };

/* What the user asked for. A member of struct options, filled by the rows of cmd/options/table.c. */
struct check_options {
	bool all;
	/* the model, the input and a run are always looked at; these ask for more, `all` for everything */
	bool nan, zero, layout, leak, recreate, contexts, bisect;
	struct texts expect; /* [NAME=]FILE */
	double rtol, atol;
	int metric;	     /* enum check_metric */
	const char *compare; /* "cpu,cuda", "fp32,tf32", ...; NULL: not asked for */
	int64_t determinism; /* runs; 0: not asked for */
	int64_t runs;	     /* of --leak */
	struct texts sweep;  /* --shapes-sweep batch=1..16, NAME.dim=5..100:5 */
	const char *html;    /* a page of the report; NULL: none */
	const char *save;    /* folder for the sub-model of --bisect; NULL: none */
};

struct check_context;
struct check_result;
struct page;

/* What a check must have; the driver skips it with the reason where it cannot be had. */
enum check_need {
	NEED_NOTHING,
	NEED_FILE,    /* c->file */
	NEED_SESSION, /* and c->session */
	NEED_INPUTS,  /* and c->inputs, c->in */
	NEED_OUTPUTS, /* and c->out: one run went well */
};

/* In rising order: how long it may take, for the progress bar. */
enum check_cost { COST_HEAD, COST_READ, COST_RUN, COST_RUNS, COST_LONG };

struct check {
	const char *name; /* "model", "leak" */
	const char *what; /* for the report: "shapes against inference" */
	enum check_need need;
	enum check_cost cost;
	/* 0, or -code where what is asked of it makes no sense, before anything is opened; NULL: it always does. */
	int (*asked)(struct check_context *);
	/*
	 * Whether it is to run. False with *why NULL: nobody asked, it is not mentioned. False with
	 * a reason: the report says that it was left out, and why.
	 */
	bool (*applies)(const struct check_context *, const char **why);
	/* 0, or -code where it could not do its work (a finding says why). Finding something is 0. */
	int (*run)(struct check_context *);
	/* Members of its own in the JSON object of the check, from result->data; NULL: none. */
	void (*write)(const struct check_result *, struct json *);
	/* The same as a part of the page; NULL: none. */
	void (*page)(const struct check_result *, struct page *);
};

/* In the order they run; ends with NULL. */
extern const struct check *const checks[];

enum check_state { CHECK_PASSED, CHECK_FOUND, CHECK_SKIPPED, CHECK_BROKEN };

/* A line of the report. */
struct check_result {
	const struct check *check;
	enum check_state state;
	const char *said; /* "148 nodes, 12 operators"; why it was skipped */
	size_t errors, warnings, notes;
	uint64_t ns;
	void *data; /* what `run` left for `write`: c->data; in the context's arena */
};

/* Told how far the work is; `cmd/` draws it. */
struct check_progress {
	/* done of total steps of a check; total 0: not known */
	void (*step)(void *arg, const struct check *, uint64_t done, uint64_t total);
	/* the node that runs now, for a time-out's message; NULL: none. Called before every step: be quick. */
	void (*at)(void *arg, const char *node, const char *op);
	/* a check ended: what was gathered so far is in c */
	void (*ended)(void *arg, const struct check_context *c);
	void *arg;
};

struct check_context {
	const char *path; /* of the model */
	const struct run_config *config;
	const struct check_options *options;
	const struct input_request *request;
	struct check_progress progress;
	struct diag *d;
	struct arena arena; /* as long as the context */

	struct model *file;	/* as it was read: nothing rewritten; faults left out */
	struct model *imported; /* check_imported */
	size_t file_errors;	/* found while reading */
	struct session *session;
	struct input_set *inputs;
	const struct tensor *const *in;
	const char *no_inputs;	   /* why there are none, where nobody is to blame */
	const struct tensor **out; /* copies in the arena, by position; from the first run */
	uint32_t nout;
	enum check_need opened; /* how far was tried */
	bool dies;		/* a run in a process of its own died: none is tried in this one */
	const struct check *current;
	const char *said;
	void *data;

	struct check_result *results;
	size_t nresults;
};

/*
 * All that applies, cheap to dear. The findings are in c->d; 0, or -code with nothing checked where what is asked
 * for makes no sense.
 * Fill path, config, options, request, progress and d before; check_end releases the rest.
 */
int check_run(struct check_context *c);
void check_end(struct check_context *c);

/* ---- for checks */

/* The line for the report. */
void check_say(struct check_context *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void check_step(const struct check_context *c, uint64_t done, uint64_t total);

/* A second session of the same model, e.g. with another device or level; config must outlive it. NULL with a finding. */
struct session *check_open(struct check_context *c, const struct run_config *config);
/*
 * Made-up inputs with these dimensions bound ("batch=4", as --dim; NULL: as the request says): a new
 * set, read; NULL with a finding. Its values lie in the set: input_free.
 */
struct input_set *check_inputs(struct check_context *c, const struct texts *dims, struct diag *d);
/*
 * session_run, where progress.at knows the node that runs. observer (may be NULL) is told of each step, too.
 */
int check_session_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		      const struct tensor **out, struct observer *observer);

/* The model upgraded to the newest operator versions and inferred, not rewritten; NULL where that fails. */
const struct model *check_imported(struct check_context *c);
void check_imported_end(struct check_context *c); /* its memory is given back */
/* Attributes by name, of a node of any version; false and NULL where the node's operator has none such. */
bool check_number(const struct node *n, const char *name, double *v);
const struct ints *check_ints(const struct node *n, const char *name);
/* The value of input i where it is an initializer or a constant, else NULL. */
const struct tensor *check_const(const struct graph *g, const struct node *n, uint32_t i);
bool check_is(const struct node *n, const char *op); /* of ai.onnx */

/* Names for a finding that is about several: "'a', 'b', 'c' and 4 more". */
struct check_names {
	struct arena *arena;
	const char *text;
	size_t n;
};
void check_name_add(struct check_names *x, const char *name);
const char *check_name_list(const struct check_names *x);

/* Findings of `from` that are not in `to` yet: a second reading or run repeats what the first said. */
void check_merge(struct diag *to, const struct diag *from);
/* Whether --rtol is one that a comparison can fail. E-TOLERANCE. */
int check_rtol(struct check_context *c);
/* "c->d has a finding of this id": so that a fault is told once. */
bool check_found(const struct check_context *c, enum code code);
/* First or only words of a node, for messages: what the file calls it. */
const char *check_node(const struct node *n);

#endif
