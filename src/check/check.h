/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H
/*
 * `infer check`: looks for faults of a model, its inputs, its numbers, its memory and its device.
 *
 * A check is one file in src/check/ with one `const struct check`, and one line in src/check/order.def, which lists
 * the checks in the order in which they run. For each check the driver (check_run) asks whether it applies, opens
 * what it needs, runs it, and keeps for the report the line that the check passed to check_say. Faults go into the
 * diag as findings with an id of base/codes.def; the findings alone decide the exit status.
 */
#include "base/diag.h"
#include "base/json_write.h"
#include "backend/config.h"
#include "input/steps.h"
#include "session/session.h"

/* How outputs are measured against references. */
enum check_metric { METRIC_MAXABS, METRIC_COSINE, METRIC_L2, METRIC_KL };

/* What the user asked for. A member of struct options, filled by the rows of cmd/options/table.c. */
struct check_options {
	bool all;
	/*
	 * The model, the input and one run are always checked. These members request further checks, and `all`
	 * requests every check.
	 */
	bool nan, zero, layout, leak, recreate, contexts, bisect;
	struct texts expect; /* [NAME=]FILE */
	double rtol, atol;
	bool rtol_given;
	bool atol_alone;     /* --atol is given, and --rtol is not */
	int metric;	     /* enum check_metric */
	const char *compare; /* "cpu,cuda", "fp32,tf32", ...; NULL if not requested */
	bool every_tensor;   /* with --compare onnxruntime: not only outputs */
	bool sensitivity;
	int64_t undo;		  /* with --sensitivity: nodes to undo one by one */
	const char *exclude_list; /* with --sensitivity: file for the names of nodes to keep in fp32, or NULL */
	int64_t determinism;	    /* number of runs; 0: not requested */
	int64_t runs;		    /* of --leak; 0: the default number */
	struct texts sweep;	    /* --shapes-sweep batch=1..16, NAME.dim=5..100:5 */
	struct steps_request steps; /* --feed, --next, --derive */
	int64_t step_limit;	    /* --steps; INT_ABSENT: the default number */
	const char *html;	    /* file for the report as an HTML page, or NULL */
	const char *save; /* folder for the part of the model that --bisect finds, or NULL */
};

struct check_context;
struct check_result;
struct suspect;
struct nan_weight;
struct cast_pair;
struct references;
struct page;

/* What a check needs. If the driver cannot provide this, the check is skipped and the report says why. */
enum check_need {
	NEED_NOTHING,
	NEED_FILE,    /* c->file */
	NEED_SESSION, /* c->session as well */
	NEED_INPUTS,  /* c->inputs and c->in as well */
	NEED_OUTPUTS, /* c->out as well: one run succeeded */
};

/* How long a check may take, in rising order. The progress bar uses this. */
enum check_cost { COST_HEAD, COST_READ, COST_RUN, COST_RUNS, COST_LONG };

struct check {
	const char *name; /* name of the check in the report and in JSON, such as "file", "leak" */
	const char *what; /* what the check looks at, for the report, such as "memory from run to run" */
	enum check_need need;
	enum check_cost cost;
	/*
	 * Validates the check's options before anything is opened. Returns 0, or -code with a finding if the options
	 * make no sense. May be NULL.
	 */
	int (*asked)(struct check_context *);
	/*
	 * Tells whether the check is to run. If it returns false and leaves *why NULL, nobody requested the check,
	 * and the report does not mention it. If it returns false with a reason in *why, the report says that the
	 * check was skipped, and why. A check whose `applies` is NULL always runs.
	 */
	bool (*applies)(const struct check_context *, const char **why);
	/*
	 * Runs the check. Returns 0, also when the check finds a fault, or -code if the check could not do its work
	 * (a finding says why).
	 */
	int (*run)(struct check_context *);
	/*
	 * Writes the check's own members into its JSON object, from result->data. This pointer is NULL if the check
	 * has no such members.
	 */
	void (*write)(const struct check_result *, struct json *);
	/*
	 * Adds the check's own part to the HTML page, from result->data. This pointer is NULL if the check has no
	 * such part.
	 */
	void (*page)(const struct check_result *, struct page *);
};

/* All checks in the order in which they run; the list ends with NULL. */
extern const struct check *const checks[];

enum check_state { CHECK_PASSED, CHECK_FOUND, CHECK_SKIPPED, CHECK_BROKEN };

/* A line of the report. */
struct check_result {
	const struct check *check;
	enum check_state state;
	/* the result in a few words, such as "148 nodes, 12 operators", or why the check was skipped */
	const char *said;
	size_t errors, warnings, notes;
	uint64_t ns;
	void *data; /* c->data as `run` left it, for `write` and `page`; in the context's arena */
};

/* Callbacks that report progress; cmd/ draws it. Each may be NULL. */
struct check_progress {
	/* reports that the check has done `done` of `total` steps; total is 0 if not known */
	void (*step)(void *arg, const struct check *, uint64_t done, uint64_t total);
	/*
	 * Reports the node that runs now, or NULL, for the message of a time-out. It is called before every step, so
	 * it must be quick.
	 */
	void (*at)(void *arg, const char *node, const char *op);
	/* reports that a check has ended; c has the results and findings so far */
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
	struct arena arena; /* lives as long as the context */

	struct model *file; /* the model as it was read, without any rewriting; faulty parts are missing */
	struct model *imported; /* see check_imported */
	size_t file_errors;	/* errors found while reading */
	struct session *session;
	/* what the steps make of their inputs, once check_steps has read it; `request` has it as well */
	const struct steps *steps;
	bool steps_wrong; /* what the user says of the steps does not fit the model */
	struct input_set *inputs;
	const struct tensor *const *in;
	/* if the request names many inputs: all of them, for --compare onnxruntime; `inputs` is then the first */
	struct input_list *cases;
	bool sizes_guessed;		       /* of free dimensions, as all inputs are generated */
	bool widened;			       /* they are larger than need be */
	const struct input_request *unguessed; /* the request without these sizes; NULL if inputs are given */
	bool lengths_guessed; /* among them one that is no first axis, where batches are */
	bool ranges_given;    /* the user gives --random */
	const char *no_inputs; /* why there are no inputs, if that is neither the model's nor the user's fault */
	const struct tensor **out; /* copies of the first run's outputs, in the arena, indexed by position */
	uint32_t nout;
	/* by value id of the session's graph: the shape that a step of the first run has made, or NULL; NULL: not known */
	const struct shape **shapes;
	enum check_need opened; /* the last of the needs that the driver has tried to provide */
	/* findings that a run with other sizes must confirm, in the order of `suspects`: see check/fixed_size.h */
	struct diag suspected;
	struct suspect *suspects;
	size_t nsuspects;
	/* the first and the last of those that a run must judge: see check/casts.h and check/nan_weights.h */
	struct cast_pair *casts, *last_cast;
	struct nan_weight *nan_weights, *last_nan_weight;
	struct references *references; /* NULL: not read yet, see check/reference.h */
	/* by output: its NaN or infinities come from integers that were generated, which a finding says; NULL: of none */
	bool *inputs_to_blame;
	struct nan_input *nan_inputs, *last_nan_input;
	bool dies; /* a run crashed a child process, so the driver does not run the model in this process */
	const struct check *current;
	bool nothing_to_judge; /* the running check has found that it cannot tell anything */
	const char *said;
	void *data;

	struct check_result *results;
	size_t nresults;
};

/*
 * Runs all checks that apply. Fill path, config, options, request, progress and d before the call; check_end releases
 * everything else afterwards. The findings are in c->d. Returns 0, or -code with nothing checked if the options make
 * no sense.
 */
int check_run(struct check_context *c);
void check_end(struct check_context *c);

/* ---- services for checks */

/* "341 weights of 2.1 MiB", or "no weights", in the arena. */
const char *check_weights_text(struct arena *a, uint64_t n, int64_t bytes);
/* Sets the line of the running check in the report. The last call wins. */
void check_say(struct check_context *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same if the check has looked at nothing that it could judge: the report says that it was skipped, and why. */
void check_cannot_judge(struct check_context *c, const char *why);
void check_step(const struct check_context *c, uint64_t done, uint64_t total);

/*
 * Opens another session of the model, for example for another device. config must outlive the session. Returns NULL
 * with a finding on error.
 */
struct session *check_open(struct check_context *c, const struct run_config *config);
/*
 * Opens a session that neither fuses nor folds, so that each step is one node of the file: a fused step hides the values
 * between its nodes, and a folded constant the nodes that made it. Returns NULL, without a finding, if the model cannot
 * be run so.
 */
struct session *check_open_plain(struct check_context *c);
/*
 * Does the same as session_run, and tells progress.at which node runs. It also calls the observer, which may be NULL,
 * at each step.
 */
int check_session_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		      const struct tensor **out, struct observer *observer);

/* The same for a run whose failure proves nothing: its findings are dropped. Returns whether it succeeded. */
bool check_try_run(struct check_context *c, struct session *s, const struct tensor *const *in,
		   const struct tensor **out, struct observer *observer);

/*
 * Returns the model with operators upgraded to their newest versions and shapes inferred, but not optimized. The
 * first call makes it. Returns NULL if that fails.
 */
const struct model *check_imported(struct check_context *c);
void check_imported_end(struct check_context *c); /* frees it */
/* The same, anew and for the caller to unload; with `keep_branches` no If is replaced by the branch that its constant condition takes. */
struct model *check_import(const struct check_context *c, bool keep_branches);
/*
 * Reads an attribute by name, of a node of any operator version. Returns false or NULL if the operator has no such
 * attribute.
 */
bool check_number(const struct node *n, const char *name, double *v);
const struct ints *check_ints(const struct node *n, const char *name);
/* Returns the value of input i if it is an initializer or a constant, otherwise NULL. */
const struct tensor *check_const(const struct graph *g, const struct node *n, uint32_t i);
bool check_is(const struct node *n, const char *op); /* whether the node's operator is `op` of ai.onnx */

/*
 * Collects the names in a finding about several nodes or values, such as "'a', 'b', 'c', 'd' and 4 more". Set `arena`
 * first.
 */
struct check_names {
	struct arena *arena;
	const char *text;
	size_t n;
};
void check_name_add(struct check_names *x, const char *name);
const char *check_name_list(const struct check_names *x);

/*
 * Reads what the user says of steps, at the first call, so that all checks have inputs as the steps have them. Returns false, after the
 * first call with findings, if it does not fit the model.
 */
bool check_steps(struct check_context *c);

/* Adds the findings of `from` that `to` does not have yet: a second load or run repeats the findings of the first. */
void check_merge(struct diag *to, const struct diag *from);
/*
 * Returns 0, or -E_TOLERANCE with a finding if --rtol is 1 or more, as an output of zeros would then pass every
 * comparison.
 */
int check_rtol(struct check_context *c);
/* Whether c->d has a finding of this id, so that a check does not report the same fault again. */
bool check_found(const struct check_context *c, enum code code);
/*
 * Returns the node of graph g by whose name a finding is to call n: n itself or, if the file has no such node (a Cast
 * that --precision added), the nearest node before it that the file has. Returns NULL if there is none.
 */
const struct node *check_file_node(const struct graph *g, const struct node *n);
/* The node's name in the file, for messages. */
const char *check_node(const struct node *n);

#endif
