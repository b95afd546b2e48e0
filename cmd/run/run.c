/* SPDX-License-Identifier: Apache-2.0 */
/* infer run: reads the inputs, runs the model once, and prints or saves the outputs. */
#include "base/clock.h"
#include "base/file.h"
#include "cmd/options/subcommand.h"
#include "io/io.h"
#include "cmd/output/output.h"
#include "cmd/run/many.h"
#include "cmd/run/results.h"
#include "cmd/output/auto_precision.h"
#include "cmd/run/steps.h"
#include "output/boxes.h"
#include "output/summary.h"
#include "session/free_sizes.h"
#include "session/genai.h"
#include "session/odd_outputs.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct run {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct session *session;
	struct input_set *inputs;
	struct steps *steps; /* NULL if the model runs once */
	struct step_run step_run;
	const struct tensor **out; /* of the session's newest run */
	struct output *outputs;
	size_t noutputs;
	struct summary summary;
	uint64_t start;
	/* results of --decode, --labels and --top */
	int64_t blank; /* the blank class of --decode */
	struct labels labels;
	struct decoded decoded;
	struct box_rules box_rules; /* of --decode yolo, ssd or detr */
	struct boxes boxes;
	struct ranked *ranked;
	size_t nranked;
};

/* Records the memory in use at a moment of the run, for the summary. */
static void record_memory(struct run *r, enum moment m)
{
	summary_mark(&r->summary, m);
	if (r->session)
		r->summary.device[m] = session_device_used(r->session);
}

/* Warns about options that have no effect without another one. */
static void warn_useless_options(const struct options *o, struct diag *d)
{
	if (*options_origin(o, "save-format") == '-' && !o->save)
		WARN(d, E_OPTION, .slot = "--save-format",
		     .message = "no file is written without -o", .hint = "name a folder with -o DIR");
	if (*options_origin(o, "labels") == '-' && !o->decode && o->top <= 0)
		WARN(d, E_OPTION, .slot = "--labels",
		     .message = "labels are used only with --top or --decode",
		     .hint = "add --top K or --decode ctc, yolo, ssd or detr");
	steps_warn_useless(o, d);
}

/* "-o boxes.png" with a detector's --decode is the picture with its boxes, and no folder. */
static bool draws_boxes(const struct run *r)
{
	return r->o->save && r->box_rules.form && !strcmp(path_ext(r->o->save), ".png");
}

/*
 * "-o out.safetensors" and "-o out.npz" are one file with all outputs, unless a folder has that name. Returns the format, or -1. With
 * another --save-format, out.npz is refused as a name of a folder is that looks like a file's.
 */
static int one_file_format(const struct options *o)
{
	if (!o->save || path_is_folder(o->save))
		return -1;
	if (!strcmp(path_ext(o->save), ".safetensors"))
		return IO_SAVE_SAFETENSORS;
	bool npz = o->save_format == SAVE_NPZ || !strcmp(options_origin(o, "save-format"), "default");
	return !strcmp(path_ext(o->save), ".npz") && npz ? IO_SAVE_NPZ : -1;
}

/* Whether the name's ending is one of pictures that are not written: boxes are drawn as PNG alone. */
static bool names_other_picture(const char *path)
{
	static const char *const not_read[] = {".gif", ".svg", ".pdf"};
	const char *ending = path_ext(path);

	for (size_t i = 0; i < sizeof(not_read) / sizeof(*not_read); i++)
		if (!strcasecmp(ending, not_read[i]))
			return true;
	return strcasecmp(ending, ".png") != 0 && io_kind_of(path, "", 0) == IO_IMAGE;
}

/* Whether the folder of -o is named like a file of the kinds that are written, and is not there. */
static bool save_is_file_name(const char *save)
{
	static const char *const kinds[] = {".png", ".npy", ".npz", ".json", ".bin",
					    ".pb",  ".txt", ".csv", ".tsv",  ".raw"};

	if (names_other_picture(save))
		return access(save, F_OK) != 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(path_ext(save), kinds[i]))
			return access(save, F_OK) != 0;
	return false;
}

static int refuse_file_name(const struct options *o, struct diag *d)
{
	const char *kind = path_ext(o->save) + 1;
	bool picture = !strcmp(kind, "png") || names_other_picture(o->save);
	bool text = !strcmp(kind, "txt") || !strcmp(kind, "csv") || !strcmp(kind, "tsv");
	int stem = (int)(strlen(o->save) - strlen(kind) - 1);
	const char *hint = fmt(
		d,
		"name a folder with -o DIR; with --decode yolo, ssd or detr, -o %.*s.png draws the boxes",
		stem, o->save);

	if (text)
		hint = fmt(d,
			   "name a folder with -o DIR; --print 0 prints all values, which > %s writes",
			   o->save);
	else if (!picture)
		hint = fmt(d, "name a folder: -o %.*s --save-format %s", stem, o->save,
			   strcmp(kind, "raw") ? kind : "bin");
	return options_fail(
		o, "save",
		fmt(d, "'%s' looks like a file, but outputs are written to a folder", o->save),
		hint, d);
}

/* Opens the session and reads the inputs. Refuses everything that can be refused before the run. */
static int prepare_run(struct run *r)
{
	struct options *o = r->o;
	int rc = results_parse_decode(o, &r->blank, &r->box_rules, r->d);

	if (rc)
		return rc;
	warn_useless_options(o, r->d);
	if (draws_boxes(r) || one_file_format(o) >= 0)
		rc = output_probe(o->save, r->d);
	else if (o->save && save_is_file_name(o->save))
		rc = refuse_file_name(o, r->d);
	else if (o->save)
		rc = options_blame(o, "save", io_probe_folder(o->save, r->d), r->d);
	if (rc)
		return rc;
	struct input_request request = options_request(o);
	precision_settle(o, &o->config, &request, NULL, r->d);
	r->session = session_open(o->operand[0], &o->config, r->d);
	if (!r->session)
		return r->d->last ? -(int)r->d->last->code : -E_INTERNAL;
	record_memory(r, AFTER_LOAD);
	const struct model *m = session_model(r->session);
	const struct wanted wanted = {.rank = o->top > 0,
				      .text = o->decode && !r->box_rules.form,
				      .blank = r->blank,
				      .labels = &r->labels};
	if (o->labels)
		rc = options_blame(o, "labels",
				   labels_load(o->labels, m, &r->labels, &r->arena, r->d), r->d);
	rc = rc ? rc : results_check(m->graph, &wanted, r->d);
	if (!rc && !o->labels && (o->top > 0 || o->decode))
		labels_suggest(m, wanted.text, r->d);
	if (!rc && steps_wanted(&o->steps)) {
		request.steps = r->steps = steps_parse(&o->steps, &request, m, &r->arena, r->d);
		rc = r->steps ? 0 : -(int)r->d->last->code;
	}
	if (rc)
		return rc;
	r->inputs = input_plan(m, &request, r->d);
	rc = r->inputs	  ? input_read(r->inputs, r->d)
	     : r->d->last ? -(int)r->d->last->code
			  : -E_INTERNAL;
	record_memory(r, AFTER_INPUTS);
	return rc;
}

static int prepare_and_run(void *run, const struct input_set *inputs, struct diag *d)
{
	struct run *r = run;
	const struct tensor *const *in = input_tensors(inputs);
	struct segment_report report;
	uint64_t start = clock_ns();
	int rc = session_prepare(r->session, in, &report, d);

	r->summary.prepare = clock_ns() - start;
	record_memory(r, AFTER_PREPARE);
	start = clock_ns();
	if (!rc)
		rc = session_run(r->session, in, r->out, d);
	r->summary.first_run = clock_ns() - start;
	record_memory(r, AFTER_RUN);
	return rc;
}

static int execute_model(struct run *r)
{
	const struct graph *g = session_model(r->session)->graph;
	const struct tensor **out = arena_new_n(&r->arena, const struct tensor *, g->nout + 1);
	const struct input_request request = options_request(r->o), *found;
	struct input_set *other;
	struct diag why = {0};
	uint64_t start = clock_ns();

	r->out = out;
	int rc = prepare_and_run(r, r->inputs, &why);
	if (rc) {
		other = recover_sizes(r->session, arena_dup(&r->arena, &request, sizeof(request)),
				      r->inputs, prepare_and_run, r, &why, &r->arena, &found, r->d);
		if (other) {
			/* the search for sizes is part of the preparation */
			r->summary.prepare = clock_ns() - start - r->summary.first_run;
			input_free(r->inputs);
			r->inputs = other;
			rc = 0;
		}
	} else {
		diag_add_grouped(r->d, &why);
	}
	diag_free(&why);
	if (rc)
		return rc;
	warn_of_odd_outputs(r->session, out, r->d);
	r->noutputs = g->nout;
	r->outputs = arena_new_n(&r->arena, struct output, g->nout + 1);
	for (uint32_t i = 0; i < g->nout; i++)
		r->outputs[i] = (struct output){.name = g->out_name[i], .tensor = out[i]};
	return 0;
}

/* Says why nothing is printed: a page without text and a wrong blank both give an empty line. */
static void note_empty_text(const struct run *r)
{
	for (size_t i = 0; i < r->decoded.n; i++)
		if (*r->decoded.text[i])
			return;
	if (r->decoded.n)
		NOTE(r->d, E_LABELS,
		     .message = fmt(r->d,
				    "the text is empty: the blank, class %" PRId64
				    ", has the best score at every step",
				    r->blank),
		     .hint = "--decode ctc:blank=N names another class for the blank");
}

/* Runs the model step by step; the outputs are those that the steps have made together. */
static int execute_steps(struct run *r)
{
	struct step_run *s = &r->step_run;
	int rc = steps_execute(s, r->session, r->inputs, r->steps, r->o, r->d);

	if (rc)
		return rc;
	r->summary.prepare = s->prepare;
	r->summary.first_run = stepper_times(s->stepper).first;
	record_memory(r, AFTER_PREPARE);
	record_memory(r, AFTER_RUN);
	r->outputs = arena_new_n(&r->arena, struct output, s->noutputs + 1);
	r->noutputs = s->noutputs;
	for (size_t i = 0; i < s->noutputs; i++)
		r->outputs[i] =
			(struct output){.name = s->outputs[i].name, .tensor = s->outputs[i].tensor};
	return 0;
}

static int rank_and_decode(struct run *r)
{
	const struct options *o = r->o;
	int rc = 0;

	r->ranked = arena_new_n(&r->arena, struct ranked, r->noutputs + 1);
	if (o->top > 0)
		rc = rank_outputs(r->outputs, r->noutputs, o->top, &r->labels, r->ranked,
				  &r->nranked, &r->arena, r->d);
	if (!rc && r->box_rules.form)
		rc = boxes_find(&r->box_rules, r->outputs, r->noutputs, boxes_input(r->inputs),
				&r->labels, &r->boxes, &r->arena, r->d);
	else if (!rc && o->decode)
		rc = decode_ctc(r->outputs, r->noutputs, r->blank, &r->labels, &r->decoded,
				&r->arena, r->d);
	if (!rc)
		note_empty_text(r);
	return rc;
}

static int save_outputs(struct run *r)
{
	const struct options *o = r->o;
	struct io_output *list = arena_new_n(&r->arena, struct io_output, r->noutputs + 1);
	const char **paths = arena_new_n(&r->arena, const char *, r->noutputs + 1);

	if (draws_boxes(r))
		return boxes_draw(&r->boxes, &r->labels, boxes_input(r->inputs), o->save, r->d);
	if (!o->save)
		return 0;
	for (size_t i = 0; i < r->noutputs; i++)
		list[i] = (struct io_output){.name = r->outputs[i].name,
					     .tensor = r->outputs[i].tensor};
	int one = one_file_format(o);
	int rc = one >= 0 ? io_save_one(o->save, (enum io_format)one, list, r->noutputs, paths,
					&r->arena, r->d)
			  : io_save(o->save, (enum io_format)o->save_format, list, r->noutputs,
				    paths, &r->arena, r->d);
	for (size_t i = 0; i < r->noutputs; i++)
		r->outputs[i].path = paths[i];
	return rc;
}

static void write_outputs(struct run *r, struct json *j)
{
	const struct options *o = r->o;

	json_array(j, "outputs");
	for (size_t i = 0; i < r->noutputs; i++) {
		const struct output *out = &r->outputs[i];
		json_object(j, NULL);
		summary_json_tensor(j, out->name,
				    out->tensor ? out->tensor->type : (struct type){0}, out->tensor);
		if (out->path)
			json_string(j, "path", out->path);
		if (o->print != INT_ABSENT)
			json_values(j, "values", out->tensor, o->print);
		for (size_t k = 0; k < r->nranked; k++)
			if (r->ranked[k].output == out)
				json_ranked(j, &r->ranked[k], &r->labels);
		if (r->decoded.output && !strcmp(out->name, r->decoded.output))
			json_decoded(j, &r->decoded);
		json_end(j, '}');
	}
	json_end(j, ']');
	if (r->box_rules.form)
		json_boxes(j, &r->boxes, &r->labels);
}

/* What is printed of the outputs, apart from decoded text. */
static void print_outcome(const struct run *r, FILE *f)
{
	if (r->o->print != INT_ABSENT)
		print_outputs(r->outputs, r->noutputs, r->o->print, f);
	for (size_t i = 0; i < r->nranked; i++)
		print_ranked(&r->ranked[i], &r->labels, f);
	print_boxes(&r->boxes, &r->labels, f);
}

static void write_document(struct run *r)
{
	struct printed printed;
	struct json j;

	json_envelope_begin(&j, r->o, r->d);
	summary_print(&r->summary, printed_begin(&printed));
	print_outcome(r, printed.stream);
	for (size_t i = 0; i < r->decoded.n; i++)
		fprintf(printed.stream, "%s\n", r->decoded.text[i]);
	printed_end(&printed, &j);
	summary_json(&r->summary, &j);
	if (r->steps)
		steps_json(&r->step_run, &j);
	write_outputs(r, &j);
	json_envelope_end(&j, r->d);
}

/* Decoded text is made of labels, which may come from the model, so it is tamed; the document of --json has it as it is. */
static void print_decoded(const struct run *r)
{
	FILE *f = listing_begin(stdout);

	for (size_t i = 0; i < r->decoded.n; i++)
		fprintf(f, "%s\n", r->decoded.text[i]);
	listing_end(f);
}

static void print_results(struct run *r)
{
	if (!r->o->quiet) {
		FILE *f = listing_begin(stderr);
		summary_print(&r->summary, f);
		if (r->steps)
			steps_print(&r->step_run, f);
		listing_end(f);
	}
	FILE *f = listing_begin(stdout);
	print_outcome(r, f);
	listing_end(f);
	print_decoded(r);
}

/* A folder of ONNX Runtime GenAI stands for its decoder. */
static int find_decoder(struct options *o, struct arena *a, struct diag *d)
{
	const char *config = genai_path(o->operand[0], a);
	struct genai g;
	int rc = config ? genai_read(config, a, &g, d) : 0;

	if (!config || rc)
		return rc;
	if (!genai_decoder(&g))
		return FAIL(d, E_MODEL_OPEN,
			    .message = fmt(d, "%s names no decoder in its folder", config),
			    .hint = "infer inspect tells its models: run one of them");
	const char **operand = arena_dup(a, o->operand, o->noperands * sizeof(*operand));
	operand[0] = genai_decoder(&g);
	o->operand = operand;
	return 0;
}

int cmd_run(struct options *o, struct diag *d)
{
	struct run r = {.o = o, .d = d, .start = clock_ns()};
	int rc = find_decoder(o, &r.arena, d);

	if (rc) {
		arena_free(&r.arena);
		return rc;
	}
	if (run_names_many(o))
		return run_many(o, d);
	record_memory(&r, AT_START);
	rc = prepare_run(&r);
	rc = rc ? rc : r.steps ? execute_steps(&r) : execute_model(&r);
	if (!rc)
		doubt_pictures(o, r.inputs, d);
	rc = rc ? rc : rank_and_decode(&r);
	rc = rc ? rc : save_outputs(&r);
	if (!rc) {
		r.summary.session = r.session;
		r.summary.inputs = r.inputs;
		r.summary.outputs = r.outputs;
		r.summary.noutputs = r.noutputs;
		r.summary.path = o->operand[0];
		r.summary.times = session_times(r.session);
		r.summary.total = summary_total(r.start);
		r.summary.verbose = o->verbose > 0;
		if (o->json)
			write_document(&r);
		else
			print_results(&r);
	}
	stepper_free(r.step_run.stepper);
	input_free(r.inputs);
	session_close(r.session);
	arena_free(&r.arena);
	return rc;
}
