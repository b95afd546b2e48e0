/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_THREAD = 1, DEVICE_THREAD = 2 };

static void head(struct json *j, const char *name, const char *ph, int pid, int tid)
{
	json_object(j, NULL);
	json_string(j, "name", name);
	json_string(j, "ph", ph);
	json_int(j, "pid", pid);
	json_int(j, "tid", tid);
}

/* What a process or a thread is called. */
static void name_event(struct json *j, const char *what, const char *name, int pid, int tid)
{
	head(j, what, "M", pid, tid);
	json_object(j, "args");
	json_string(j, "name", name);
	json_end(j, '}');
	json_end(j, '}');
}

static void slice(struct json *j, const struct node_event *e, uint64_t origin, int pid)
{
	static const char *const kinds[] = {"run", "node", "copy"};

	head(j, e->name, "X", pid, e->device ? DEVICE_THREAD : HOST_THREAD);
	json_string(j, "cat", kinds[e->kind]);
	json_number(j, "ts", (double)(e->start - origin) / 1e3);
	json_number(j, "dur", (double)e->ns / 1e3);
	if (e->op) {
		json_object(j, "args");
		json_string(j, "operator", e->op);
		json_string(j, "kernel", e->kernel);
		json_number(j, "output_bytes", e->bytes);
		json_end(j, '}');
	}
	json_end(j, '}');
}

static void counter(struct json *j, const char *name, double at, double value, int pid)
{
	head(j, name, "C", pid, 0);
	json_number(j, "ts", at * 1e6);
	json_object(j, "args");
	json_number(j, "bytes", value);
	json_end(j, '}');
	json_end(j, '}');
}

static void counters(struct json *j, const struct record_timeline *t, int pid, bool device)
{
	for (size_t i = 0; i < t->n; i++) {
		counter(j, "resident", t->at[i], t->rss[i], pid);
		counter(j, "host, counted", t->at[i], t->host[i], pid);
		if (device) {
			counter(j, "device, counted", t->at[i], t->device[i], pid);
			counter(j, "device, in use", t->at[i], t->device_used[i], pid);
		}
	}
}

static void write_events(struct json *j, const struct nodes *n, const struct record *r, uint64_t origin)
{
	size_t count;
	const struct node_event *e = nodes_events(n, &count);
	int pid = (int)getpid();
	bool device = r->id.device && strcmp(r->id.device, "cpu") != 0;

	json_array(j, "traceEvents");
	name_event(j, "process_name", r->id.model ? r->id.model : "infer", pid, 0);
	name_event(j, "thread_name", "host", pid, HOST_THREAD);
	if (device)
		name_event(j, "thread_name", "device", pid, DEVICE_THREAD);
	for (size_t i = 0; i < count; i++)
		slice(j, &e[i], origin, pid);
	counters(j, &r->timeline, pid, device);
	json_end(j, ']');
}

int trace_write(const char *path, const struct nodes *n, const struct record *r, uint64_t origin,
		struct diag *d)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	struct json j;

	if (!stream)
		return FAIL(d, E_MEMORY, .message = NULL);
	json_begin(&j, stream);
	json_object(&j, NULL);
	json_string(&j, "displayTimeUnit", "ms");
	json_object(&j, "otherData");
	json_string(&j, "model", r->id.model);
	json_string(&j, "device", r->id.device_name);
	json_string(&j, "precision", r->id.precision);
	json_end(&j, '}');
	write_events(&j, n, r, origin);
	json_end(&j, '}');
	json_finish(&j);
	fclose(stream);
	struct file_out *f = file_create(path, E_OUTPUT, d);
	if (f)
		file_write(f, text, size);
	int rc = f ? file_commit(f, d) : -E_OUTPUT;
	free(text);
	return rc;
}
