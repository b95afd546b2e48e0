/* SPDX-License-Identifier: Apache-2.0 */
/* The files that `infer profile` writes and reads: reports and baselines. */
#include "cmd/profile/profile.h"

#include "base/file.h"
#include "base/str.h"
#include "base/tame.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- JSON */

static void write_quantity(struct json *j, const char *key, double v)
{
	if (isnan(v))
		json_null(j, key);
	else
		json_number(j, key, v);
}

static void write_summary(struct profile *p, const struct record *r, const struct record_point *q,
			  struct json *j)
{
	struct stats s = stats_of(q->time, q->n);
	struct interval low = latency_interval(q, 0.1), median = latency_interval(q, 0.5);
	const struct floats *want = &p->o->percentile;
	double *sorted = stats_sorted(q->time, q->n);

	json_object(j, NULL);
	json_string(j, "label", r->label);
	json_string(j, "point", q->label);
	json_number(j, "prepare", q->prepare);
	json_number(j, "first_run", q->first);
	json_uint(j, "runs", q->n);
	write_quantity(j, "mean", s.mean);
	write_quantity(j, "deviation", s.deviation);
	write_quantity(j, "min", s.min);
	write_quantity(j, "median", s.median);
	write_quantity(j, "max", s.max);
	json_uint(j, "outliers", s.outliers);
	json_object(j, "percentiles");
	for (int64_t i = 0; i < want->n; i++) {
		char key[32];
		snprintf(key, sizeof(key), "%g", (double)want->v[i]);
		double share = (double)want->v[i] / 100;
		write_quantity(j, key, sorted ? stats_quantile(sorted, q->n, share) : NAN);
	}
	free(sorted);
	json_end(j, '}');
	json_array(j, "median_interval");
	json_number(j, NULL, median.low);
	json_number(j, NULL, median.high);
	json_end(j, ']');
	json_array(j, "p10_interval");
	json_number(j, NULL, low.low);
	json_number(j, NULL, low.high);
	json_end(j, ']');
	double rate = profile_runs_a_second(q);
	write_quantity(j, "runs_per_second", rate);
	write_quantity(j, "items_per_second", rate * q->items);
	const char *by;
	write_quantity(j, "joules_per_run", profile_energy(r, q, &by));
	json_number(j, "host_to_device", q->copy_in);
	json_number(j, "device_to_host", q->copy_out);
	json_end(j, '}');
}

static void write_verdict(struct profile *p, struct json *j)
{
	const struct gate_verdict *v = &p->verdict;

	json_object(j, "baseline");
	json_number(j, "before", v->before);
	json_number(j, "now", v->now);
	json_uint(j, "runs_before", v->undisturbed_before);
	json_uint(j, "runs_now", v->undisturbed_now);
	json_number(j, "ratio", v->ratio.value);
	json_number(j, "ratio_low", v->ratio.low);
	json_number(j, "ratio_high", v->ratio.high);
	json_number(j, "machine", v->machine_ratio);
	json_number(j, "fair", v->adjusted.value);
	json_number(j, "fair_low", v->adjusted.low);
	json_number(j, "fair_high", v->adjusted.high);
	write_quantity(j, "nodes_ratio", v->nodes_ratio.value);
	write_quantity(j, "nodes_ratio_low", v->nodes_ratio.low);
	write_quantity(j, "nodes_ratio_high", v->nodes_ratio.high);
	write_quantity(j, "work_ratio", v->work.value);
	write_quantity(j, "work_ratio_low", v->work.low);
	write_quantity(j, "work_ratio_high", v->work.high);
	json_bool(j, "by_work", v->by_work);
	json_bool(j, "busy", v->busy);
	json_bool(j, "known", !gate_unknown(p));
	json_bool(j, "slower", v->slower);
	json_bool(j, "bigger", v->bigger);
	json_array(j, "nodes");
	for (size_t k = 0; k < v->nnodes; k++) {
		json_object(j, NULL);
		json_string(j, "name", v->node[k].name);
		json_string(j, "operator", v->node[k].op);
		json_string(j, "fused", v->node[k].fused);
		json_number(j, "before", v->node[k].before);
		json_number(j, "measured", v->node[k].measured);
		json_number(j, "now", v->node[k].now);
		json_bool(j, "slower", v->node[k].slower);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_array(j, "memory");
	for (size_t k = 0; k < v->nmemory; k++) {
		json_object(j, NULL);
		json_string(j, "what", v->memory[k].what);
		json_number(j, "before", v->memory[k].before);
		json_number(j, "now", v->memory[k].now);
		json_bool(j, "bigger", v->memory[k].bigger);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

/* Writes only a summary of each failure, because the complete finding is among the findings. */
static void write_failed(struct profile *p, struct json *j)
{
	json_array(j, "failed");
	for (size_t i = 0; i < p->nfailed; i++) {
		const struct finding *f = p->failed[i].finding;
		json_object(j, NULL);
		json_string(j, "label", p->failed[i].label);
		json_string(j, "point", p->failed[i].point);
		json_string(j, "id", code_id(f->code, f->severity));
		json_string(j, "message", f->message ? f->message : code_title(f->code));
		json_string(j, "hint", finding_hint(f));
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void write_members(struct profile *p, struct json *j)
{
	struct printed printed;

	profile_print(p, false, printed_begin(&printed));
	printed_end(&printed, j);
	json_string(j, "model", p->o->operand[0]);
	if (p->o->noperands > 1) {
		json_array(j, "models");
		for (size_t i = 0; i < p->o->noperands; i++)
			json_string(j, NULL, p->o->operand[i]);
		json_end(j, ']');
	}
	json_array(j, "summary");
	for (size_t i = 0; i < p->nrecords; i++)
		for (size_t k = 0; k < p->record[i]->npoints; k++)
			write_summary(p, p->record[i], &p->record[i]->point[k], j);
	json_end(j, ']');
	write_ranking(p, j);
	if (p->nfailed)
		write_failed(p, j);
	if (p->compared)
		write_verdict(p, j);
	json_array(j, "records");
	for (size_t i = 0; i < p->nrecords; i++) {
		json_object(j, NULL);
		record_write(p->record[i], j);
		json_end(j, '}');
	}
	json_end(j, ']');
}

void profile_document(struct profile *p, struct json *j)
{
	json_envelope_begin(j, p->o, p->d);
	write_members(p, j);
	json_envelope_end(j, p->d);
}

static void write_json(struct profile *p, FILE *f)
{
	struct json j;

	json_document_begin(&j, f, p->o, p->d);
	write_members(p, &j);
	json_document_end(&j, p->d);
}

/* ---- CSV: one line per run */

static void csv_text(const char *s, FILE *f)
{
	struct arena a = {0};

	fputc('"', f);
	for (s = s ? tame_word(&a, s) : ""; *s; s++) {
		if (*s == '"')
			fputc('"', f);
		fputc(*s, f);
	}
	fputc('"', f);
	arena_free(&a);
}

static void csv_texts(const char *const *text, size_t n, FILE *f)
{
	for (size_t k = 0; k < n; k++) {
		csv_text(text[k], f);
		fputc(',', f);
	}
}

static void csv_identity(const struct record *r, const struct record_point *q, FILE *f)
{
	const char *const texts[] = {
		r->id.model,	 r->id.hash,	  r->id.device,	  r->id.device_name, r->id.driver,
		r->id.libraries, r->id.precision, r->id.optimize, r->label,	     q->label};

	csv_texts(texts, sizeof(texts) / sizeof(*texts), f);
	fprintf(f, "%" PRId64 ",%" PRId64 ",", r->id.threads, r->id.sessions);
}

/* Writes a line for a point that could not be measured. */
static void csv_failed(const struct profile *p, const struct profile_failure *of, FILE *f)
{
	const struct identity *id = &p->record[0]->id;
	struct arena a = {0};
	const char *const texts[] = {id->model, id->hash, NULL,	     NULL,	NULL, NULL,
				     NULL,	NULL,	  of->label, of->point, NULL, NULL};
	const char *hint = finding_hint(of->finding);

	csv_texts(texts, sizeof(texts) / sizeof(*texts), f);
	fputs("failed,,,,,,,,,", f);
	csv_text(arena_printf(&a, "%s%s%s", failure_sentence(of, &a), *hint ? "; " : "", hint), f);
	fputc('\n', f);
	arena_free(&a);
}

/*
 * Writes the memory cells of a run, from the sample of the timeline that was taken right after the run, if there is
 * one. *at is the position in the timeline, and advances with the runs. `run` is the run's number in the timeline, or
 * 0 if there are several sessions. The number distinguishes runs that a coarse clock shows as ending at the same
 * time.
 */
static void csv_memory(const struct record *r, double end, double run, size_t *at, FILE *f)
{
	const struct record_timeline *t = &r->timeline;

	while (*at < t->n &&
	       (t->at[*at] < end - 1e-9 || (t->at[*at] < end + 1e-9 && t->run[*at] < run)))
		++*at;
	if (*at < t->n && t->at[*at] < end + 1e-9 && (run == 0 || t->run[*at] == run))
		fprintf(f, ",%.0f,%.0f,%.0f,%.0f,%.0f,\n", t->rss[*at], t->private[*at],
			t -> host[*at], t -> device[*at], t -> device_used[*at]);
	else
		fputs(",,,,,,\n", f);
}

static void csv_runs(const struct record *r, const struct record_point *q, FILE *f)
{
	size_t at = 0;

	for (size_t n = 0; n < q->n; n++) {
		csv_identity(r, q, f);
		fprintf(f, "run,%zu,", n);
		if (q->start)
			fprintf(f, "%.9f", q->start[n]);
		fprintf(f, ",%.9g", q->time[n]);
		/*
		 * if sessions run side by side, runs end in another order than they begin, so search the timeline
		 * from its begin
		 */
		at = r->id.sessions > 1 ? 0 : at;
		double run = r->id.sessions > 1 ? 0 : (double)n + 1;
		csv_memory(r, q->start ? q->start[n] + q->time[n] : INFINITY, run, &at, f);
	}
}

static void write_csv(struct profile *p, FILE *f)
{
	fputs("model,hash,device,device_name,driver,libraries,precision,optimize,settings,point,threads,"
	      "sessions,what,number,start_s,seconds,resident_bytes,private_bytes,host_counted_bytes,"
	      "device_counted_bytes,device_used_bytes,finding\n",
	      f);
	for (size_t i = 0; i < p->nrecords; i++)
		for (size_t k = 0; k < p->record[i]->npoints; k++) {
			const struct record *r = p->record[i];
			const struct record_point *q = &r->point[k];
			csv_identity(r, q, f);
			fprintf(f, "prepare,0,,%.9g,,,,,,\n", q->prepare);
			csv_identity(r, q, f);
			fprintf(f, "first run,0,,%.9g,,,,,,\n", q->first);
			csv_runs(r, q, f);
		}
	for (size_t i = 0; i < p->nfailed; i++)
		csv_failed(p, &p->failed[i], f);
}

/* ---- Markdown */

static void markdown_nodes(struct profile *p, const struct record *r, struct arena *a, FILE *f)
{
	struct table t;

	if (!r->nobserved || !r->npoints)
		return;
	const char *label = record_label(r, a);
	fprintf(f, "### Nodes%s", *label ? ": " : "");
	markdown_text(label, f);
	fputs("\n\n", f);
	fprintf(f, "The faster half of %zu observed runs takes %s; the median plain run %s.\n\n",
		r->nobserved, str_seconds(a, r->observed),
		str_seconds(a, stats_quantile_of(r->point[0].time, r->point[0].n, 0.5)));
	if (r->timed_by && strcmp(r->timed_by, "clock") != 0)
		fprintf(f, "On the device timed by %s.\n\n", r->timed_by);
	table_operators(r, &t, a);
	table_markdown(&t, f);
	table_nodes(p, r, false, &t, a);
	table_markdown(&t, f);
}

static void markdown_line(const char *text, FILE *f)
{
	markdown_text(text, f);
	fputs("\n\n", f);
}

/* Writes the model and the machine on which it was measured. */
static void markdown_head(const struct profile *p, const struct record *r, struct arena *a, FILE *f)
{
	const struct identity *id = &r->id;

	fputs("## infer profile: ", f);
	markdown_line(tame_word(a, id->model ? id->model : ""), f);
	markdown_line(profile_head(p, r, a), f);
	if (id->inputs && *id->inputs && !p->sweep.points)
		markdown_line(arena_printf(a, "Inputs: %s", tame_word(a, id->inputs)), f);
	markdown_line(arena_printf(a, "%s%s%s%s%s", id->hash ? "Model " : "", id->hash ? id->hash : "",
				   id->libraries && *id->libraries ? "; " : "",
				   id->libraries ? id->libraries : "",
				   id->driver ? arena_printf(a, "; %s", id->driver) : ""),
		      f);
}

static void markdown_memory(const struct record *r, struct arena *a, FILE *f)
{
	const char *label = record_label(r, a), *grown = growth_sentence(r, a);
	struct table t;

	fprintf(f, "### Memory%s", *label ? ": " : "");
	markdown_line(label, f);
	markdown_line(tame_word(a, peak_sentence(r, a)), f);
	if (grown)
		markdown_line(arena_printf(a, "%s.", grown), f);
	table_phases(r, &t, a);
	table_markdown(&t, f);
	table_memory(r, &t, a);
	table_markdown(&t, f);
}

static void markdown_failed(const struct profile *p, size_t i, struct arena *a, FILE *f)
{
	size_t n;
	const char *labels = failure_labels(p, i, &n, a), *hint = finding_hint(p->failed[i].finding);

	if (!labels)
		return;
	fputs("**Failed** ", f);
	markdown_line(tame_word(a, arena_printf(a, "%s: %s%s%s", labels,
						failure_sentence(&p->failed[i], a),
						*hint ? "; " : "", hint)),
		      f);
}

static void write_markdown(struct profile *p, FILE *f)
{
	struct arena a = {0};
	struct table t;
	const struct record *r = p->record[0];

	markdown_head(p, r, &a, f);
	if (p->compared) {
		fprintf(f, "**%s** against the baseline: %s.\n\n", gate_word(p), gate_sentence(p, &a));
		table_gate(p, &t, &a);
		table_markdown(&t, f);
		table_gate_memory(p, &t, &a);
		table_markdown(&t, f);
	}
	table_latency(p, &t, &a);
	table_markdown(&t, f);
	table_ranking(p, &t, &a);
	if (t.rows) {
		fprintf(f, "### Ranking\n\n%s.\n\n", ranking_sentence(p, &a));
		table_markdown(&t, f);
	}
	for (size_t i = 0; i < p->nfailed; i++)
		markdown_failed(p, i, &a, f);
	const char *work = p->njobs == 1 ? work_sentence(p, r, &a) : NULL;
	if (work)
		fprintf(f, "%s\n\n", work);
	const char *clocks = p->njobs == 1 ? clock_sentence(r, &a) : NULL;
	if (clocks)
		fprintf(f, "GPU: %s\n\n", clocks);
	for (size_t i = 0; i < p->nrecords; i++)
		markdown_nodes(p, p->record[i], &a, f);
	for (size_t i = 0; i < p->nrecords; i++)
		markdown_memory(p->record[i], &a, f);
	arena_free(&a);
}

/* ---- writing */

static bool is_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

bool export_takes_stdout(const struct options *o)
{
	return is_stdout(o->trace) || is_stdout(o->save_baseline);
}

static int check_stdout(const struct options *o, struct diag *d)
{
	if (o->json + is_stdout(o->trace) + is_stdout(o->save_baseline) < 2)
		return 0;
	return options_fail(o, is_stdout(o->trace) ? "trace" : "save-baseline",
			    "only one of --json, --trace and --save-baseline can go to standard output",
			    "name files for the others", d);
}

int export_check(struct profile *p)
{
	const struct options *o = p->o;
	int rc = check_stdout(o, p->d);

	for (int64_t i = 0; i < o->exports.n && !rc; i++) {
		const char *path, *text = o->exports.v[i].s;
		enum ci_format format = ci_format_of(text, &path);
		if (format == NO_FORMAT || format == OWN_TXT)
			return ci_refuse_export(
				o, text,
				fmt(p->d, "'%s': the format is not known from the file's ending", text),
				"name it FILE.json, FILE.csv, FILE.md, FILE.html or FILE.xml, or write json:FILE, csv:FILE, md:FILE, html:FILE, junit:FILE, bencher:FILE or github:FILE",
				p->d);
		rc = output_probe(path, p->d);
	}
	if (!rc && o->trace)
		rc = output_probe(o->trace, p->d);
	if (!rc && o->save_baseline)
		rc = output_probe(o->save_baseline, p->d);
	return rc;
}

static int write_file(struct profile *p, const char *path, void (*write)(struct profile *, FILE *))
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return FAIL(p->d, E_MEMORY, .message = NULL);
	write(p, stream);
	fclose(stream);
	struct file_out *f = file_create(path, E_OUTPUT, p->d);
	if (f)
		file_write(f, text, size);
	int rc = f ? file_commit(f, p->d) : -E_OUTPUT;
	free(text);
	return rc;
}

int export_all(struct profile *p)
{
	static void (*const write[])(struct profile *, FILE *) = {
		[OWN_JSON] = write_json, [OWN_CSV] = write_csv, [OWN_MD] = write_markdown};
	const struct options *o = p->o;
	int rc = 0;

	for (int64_t i = 0; i < o->exports.n && !rc && p->nrecords; i++) {
		const char *path;
		enum ci_format format = ci_format_of(o->exports.v[i].s, &path);
		rc = format < CI_FORMATS  ? export_ci(p, format, path)
		     : format == OWN_HTML ? export_page(p, path)
					  : write_file(p, path, write[format]);
	}
	return rc;
}

/* ---- baselines */

int export_baseline(struct profile *p)
{
	return p->o->save_baseline && p->nrecords ? write_file(p, p->o->save_baseline, write_json)
						  : 0;
}

static int refuse_baseline(struct profile *p, const char *why)
{
	return FAIL(p->d, E_BASELINE_FILE, .slot = fmt(p->d, "%s", p->o->baseline), .message = why);
}

static int read_records(struct profile *p, const struct jvalue *v)
{
	const char *schema = jtext(v, "schema"), *command = jtext(v, "command");
	const struct jvalue *all = jget(v, "records");

	if (!schema || strcmp(schema, "infer/1") != 0)
		return refuse_baseline(p, fmt(p->d, "its schema is %s, expected infer/1",
					      schema ? schema : "missing"));
	if (!command || strcmp(command, "profile") != 0 || !all || all->type != J_ARRAY)
		return refuse_baseline(p, "it was not written by infer profile");
	if (all->n != 1)
		return refuse_baseline(p, "it must hold exactly one measurement");
	p->baseline = record_read(all->first);
	if (!p->baseline || !p->baseline->npoints || p->baseline->point[0].n < 2)
		return refuse_baseline(p, "it holds fewer than two runs");
	return 0;
}

int baseline_read(struct profile *p)
{
	struct file_map m;
	struct arena a = {0};
	int rc = file_map(p->o->baseline, &m, E_BASELINE_FILE, p->d);
	if (rc && access(p->o->baseline, F_OK) != 0 && p->d->last)
		p->d->last->hint = fmt(p->d, "save one first: --save-baseline %s", p->o->baseline);
	if (path_names_model(p->o->baseline)) {
		if (!rc)
			file_unmap(&m);
		return FAIL(p->d, E_BASELINE_FILE,
			    .message = fmt(p->d, "%s is a model, and no baseline", p->o->baseline),
			    .hint = fmt(p->d, "infer profile %s MODEL compares two models",
					p->o->baseline));
	}

	if (rc)
		return rc;
	const struct jvalue *v =
		jread((const char *)m.data, m.size, p->o->baseline, E_BASELINE_FILE, &a, p->d);
	rc = v ? read_records(p, v) : -E_BASELINE_FILE;
	arena_free(&a);
	file_unmap(&m);
	return rc;
}
