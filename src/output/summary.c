/* SPDX-License-Identifier: Apache-2.0 */
#include "output/summary.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tame.h"
#include "io/io.h"
#include "session/model_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct rss rss_now(void)
{
	struct rss r = {0};
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "VmRSS: %" SCNu64, &r.now);
		sscanf(line, "VmHWM: %" SCNu64, &r.peak);
	}
	if (f)
		fclose(f);
	r.now *= 1024;
	r.peak *= 1024;
	return r;
}

uint64_t summary_total(uint64_t start)
{
	uint64_t total = clock_since_exec(), here = clock_ns() - start;

	return total > here ? total : here;
}

static bool has_numbers(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && tensor_dtype(t) != DT_STRING && tensor_count(t) > 0;
}

/* Returns a text such as "min -1, max 1, mean 0.25, 3 NaN", or "" for a value without numbers. */
static const char *describe_numbers(const struct tensor *t, struct arena *a)
{
	struct str b = {.arena = a};

	if (!has_numbers(t))
		return "";
	struct statistics s = report_statistics(t);
	if (!isnan(s.min))
		str_addf(&b, "min %.6g, max %.6g, mean %.6g", s.min, s.max, s.mean);
	if (s.nans)
		str_addf(&b, "%s%s NaN", b.n ? ", " : "", str_count(a, s.nans));
	if (s.infs)
		str_addf(&b, "%s%s infinite", b.n ? ", " : "", str_count(a, s.infs));
	return str_get(&b);
}

static void print_tensor(const char *role, const char *name, const struct tensor *t,
			 const char *origin, FILE *stream)
{
	struct arena a = {0};

	fprintf(stream, "%-7s %s ", role, tame_word(&a, name));
	if (!t || t->type.kind == V_NONE) {
		fputs("(no value)", stream);
	} else if (t->type.kind != V_TENSOR) {
		fprintf(stream, "%s of %zu", type_str(&a, t->type), t->nitems);
	} else {
		size_t bytes = t->bytes + t->blob_bytes;
		fprintf(stream, "%s %s, %s bytes", dtype_name(tensor_dtype(t)),
			shape_str(&a, &t->shape, NULL), str_count(&a, (int64_t)bytes));
	}
	if (origin)
		fprintf(stream, ", %s", origin);
	const char *text = describe_numbers(t, &a);
	fprintf(stream, "%s%s\n", *text ? "; " : "", text);
	arena_free(&a);
}

static void print_model(const struct summary *s, FILE *stream)
{
	const struct model *m = session_model(s->session);
	struct arena a = {0};

	fprintf(stream, "%-7s %s: IR %" PRId64, "model", s->path, m->ir_version);
	for (size_t i = 0; i < m->nopsets; i++)
		fprintf(stream, ", %s%sopset %" PRId64, m->opsets[i].domain,
			*m->opsets[i].domain ? " " : "", m->opsets[i].version);
	fprintf(stream, ", %" PRIu32 " node%s", m->file_nodes, m->file_nodes == 1 ? "" : "s");
	if (m->graph->norder != m->file_nodes)
		fprintf(stream, " (%" PRIu32 " when optimized)", m->graph->norder);
	fprintf(stream, ", %s\n", str_bytes(&a, (int64_t)(m->file_bytes + m->external_bytes)));
	fprintf(stream, "%-7s %s\n", "device", session_device_text(s->session, &a));
	arena_free(&a);
}

static const char *format_seconds(struct arena *a, uint64_t ns)
{
	return str_seconds(a, (double)ns / 1e9);
}

static uint64_t load_time(const struct summary *s)
{
	return s->times.load + s->times.optimize;
}

void summary_mark(struct summary *s, enum moment m)
{
	s->rss[m] = rss_now();
	for (int kind = 0; kind < MEM_KINDS; kind++)
		for (int p = 0; p < MEM_PURPOSES; p++)
			s->counted[kind][p] = mem_count((enum mem_kind)kind, (enum mem_purpose)p);
}

/* Returns the bytes of device memory that infer itself has counted, which are shown beside the driver's number. */
static uint64_t counted_on_device(const struct summary *s)
{
	uint64_t sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		sum += s->counted[MEM_DEVICE][p].live;
	return sum;
}

static void print_device(const struct summary *s, FILE *stream)
{
	struct arena a = {0};
	uint64_t used = s->device[AFTER_RUN], counted = counted_on_device(s);
	int64_t delta = (int64_t)(used - s->device[AFTER_PREPARE]);

	fprintf(stream,
		"%-7s device, according to the driver: %s in use after prepare, %s%s first run", "",
		str_bytes(&a, (int64_t)s->device[AFTER_PREPARE]), delta < 0 ? "-" : "+",
		str_bytes(&a, delta < 0 ? -delta : delta));
	fprintf(stream, "; infer itself uses %s, the driver and other programs the remaining %s\n",
		str_bytes(&a, (int64_t)counted),
		str_bytes(&a, used > counted ? (int64_t)(used - counted) : 0));
	arena_free(&a);
}

static void print_memory(const struct summary *s, FILE *stream)
{
	static const char *const after[] = {"at start", "load", "inputs", "prepare", "first run"};
	struct arena a = {0};
	struct str b = {.arena = &a};

	fprintf(stream, "%-7s resident %s %s", "memory", str_bytes(&a, (int64_t)s->rss[0].now),
		after[0]);
	for (int i = 1; i < MOMENTS; i++) {
		int64_t delta = (int64_t)s->rss[i].now - (int64_t)s->rss[i - 1].now;
		fprintf(stream, ", %s%s %s", delta < 0 ? "-" : "+",
			str_bytes(&a, delta < 0 ? -delta : delta), after[i]);
	}
	fprintf(stream, "; peak %s\n", str_bytes(&a, (int64_t)s->rss[AFTER_RUN].peak));
	for (int kind = 0; kind < MEM_KINDS; kind++) {
		static const char *const names[] = {"host", "pinned", "device"};
		b.n = 0;
		for (int p = 0; p < MEM_PURPOSES; p++) {
			struct mem_count c = s->counted[kind][p];
			if (c.peak)
				str_addf(&b, "%s%s %s", b.n ? ", " : "",
					 mem_purpose_name((enum mem_purpose)p),
					 str_bytes(&a, (int64_t)c.peak));
		}
		if (b.n)
			fprintf(stream, "%-7s %s, by purpose: %s\n", "", names[kind], str_get(&b));
	}
	if (s->device[AFTER_PREPARE])
		print_device(s, stream);
	arena_free(&a);
}

void summary_print(const struct summary *s, FILE *stream)
{
	struct arena a = {0};

	print_model(s, stream);
	for (uint32_t i = 0; i < input_count(s->inputs); i++) {
		const struct input_info *in = input_info(s->inputs, i);
		print_tensor("input", in->name, in->tensor, in->source, stream);
	}
	for (size_t i = 0; i < s->noutputs; i++)
		print_tensor("output", s->outputs[i].name, s->outputs[i].tensor, s->outputs[i].path,
			     stream);
	fprintf(stream, "%-7s load %s, prepare %s, first run %s; %s since the start\n", "times",
		format_seconds(&a, load_time(s)), format_seconds(&a, s->prepare),
		format_seconds(&a, s->first_run), format_seconds(&a, s->total));
	const char *choices = session_choices(s->session, s->verbose, &a);
	if (choices)
		fprintf(stream, "%-7s %s\n", "tuning", choices);
	print_memory(s, stream);
	arena_free(&a);
}

/* ---- JSON */

void summary_json_tensor(struct json *j, const char *name, struct type type, const struct tensor *t)
{
	struct arena a = {0};

	json_string(j, "name", name);
	json_string(j, "type", type_str(&a, type));
	if (t && t->type.kind == V_TENSOR) {
		json_string(j, "dtype", dtype_name(tensor_dtype(t)));
		io_json_shape(j, &t->shape);
		json_uint(j, "bytes", t->bytes + t->blob_bytes);
	} else if (t && t->type.kind != V_NONE) {
		json_uint(j, "items", t->nitems);
	}
	if (has_numbers(t)) {
		struct statistics s = report_statistics(t);
		if (!isnan(s.min)) {
			json_number(j, "min", s.min);
			json_number(j, "max", s.max);
			json_number(j, "mean", s.mean);
		}
		json_int(j, "nan", s.nans);
		json_int(j, "inf", s.infs);
		json_int(j, "zero", s.zeros);
	}
	arena_free(&a);
}

static void json_model(const struct summary *s, struct json *j)
{
	const struct model *m = session_model(s->session);

	json_object(j, "model");
	json_string(j, "path", s->path);
	json_int(j, "ir_version", m->ir_version);
	json_array(j, "opsets");
	for (size_t i = 0; i < m->nopsets; i++) {
		json_object(j, NULL);
		json_string(j, "domain", m->opsets[i].domain);
		json_int(j, "version", m->opsets[i].version);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_uint(j, "nodes", m->graph->norder);
	json_uint(j, "nodes_in_file", m->file_nodes);
	json_uint(j, "bytes", m->file_bytes + m->external_bytes);
	json_end(j, '}');
	json_object(j, "device");
	json_string(j, "name", session_device(s->session));
	json_string(j, "why", session_device_why(s->session));
	struct arena a = {0};
	const char *text;
	json_array(j, "fallbacks");
	for (size_t i = 0; (text = session_fallback(s->session, i, &a)); i++)
		json_string(j, NULL, text);
	json_end(j, ']');
	arena_free(&a);
	json_end(j, '}');
}

static void json_times(const struct summary *s, struct json *j)
{
	json_object(j, "times"); /* seconds */
	json_number(j, "load", (double)load_time(s) / 1e9);
	json_number(j, "prepare", (double)s->prepare / 1e9);
	json_number(j, "first_run", (double)s->first_run / 1e9);
	json_number(j, "total", (double)s->total / 1e9);
	json_end(j, '}');
}

static void json_memory(const struct summary *s, struct json *j)
{
	static const char *const after[] = {"start", "load", "inputs", "prepare", "first_run"};
	static const char *const kinds[] = {"host", "pinned", "device"};

	json_object(j, "memory"); /* bytes */
	json_object(j, "resident");
	for (int i = 0; i < MOMENTS; i++)
		json_uint(j, after[i], s->rss[i].now);
	json_uint(j, "peak", s->rss[AFTER_RUN].peak);
	json_end(j, '}');
	for (int kind = 0; kind < MEM_KINDS; kind++) {
		json_object(j, kinds[kind]);
		for (int p = 0; p < MEM_PURPOSES; p++) {
			struct mem_count c = s->counted[kind][p];
			json_object(j, mem_purpose_key((enum mem_purpose)p));
			json_uint(j, "live", c.live);
			json_uint(j, "peak", c.peak);
			json_uint(j, "calls", c.calls);
			json_end(j, '}');
		}
		json_end(j, '}');
	}
	if (s->device[AFTER_PREPARE]) {
		json_object(j, "device_in_use"); /* memory that all programs use, according to the driver */
		json_uint(j, "prepare", s->device[AFTER_PREPARE]);
		json_uint(j, "first_run", s->device[AFTER_RUN]);
		json_end(j, '}');
	}
	json_end(j, '}');
}

void summary_json(const struct summary *s, struct json *j)
{
	json_model(s, j);
	json_array(j, "inputs");
	for (uint32_t i = 0; i < input_count(s->inputs); i++) {
		const struct input_info *in = input_info(s->inputs, i);
		json_object(j, NULL);
		summary_json_tensor(j, in->name, in->type, in->tensor);
		json_string(j, "source", in->source);
		json_bool(j, "made_up", in->made_up);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_times(s, j);
	json_memory(s, j);
}
