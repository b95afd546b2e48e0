/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/trace.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Thread numbers of the trace, each of which is a track of events. */
enum { HOST_THREAD = 1, DEVICE_THREAD, KERNEL_THREAD, COPY_THREAD };

static const struct {
	const char *name; /* of the event's category */
	int thread; /* thread number, or 0 for HOST_THREAD or DEVICE_THREAD as the event says */
} kinds[] = {[EVENT_RUN] = {"run", 0},
	     [EVENT_STEP] = {"node", 0},
	     [EVENT_COPY] = {"copy", 0},
	     [EVENT_KERNEL] = {"kernel", KERNEL_THREAD},
	     [EVENT_TO_DEVICE] = {"memcpy", COPY_THREAD},
	     [EVENT_TO_HOST] = {"memcpy", COPY_THREAD},
	     [EVENT_ON_DEVICE] = {"memcpy", COPY_THREAD},
	     [EVENT_SET] = {"memset", COPY_THREAD},
	     [EVENT_HELD] = {"held", DEVICE_THREAD}};

static void begin_event(struct json *j, const char *name, const char *ph, int pid, int tid)
{
	json_object(j, NULL);
	json_string(j, "name", name);
	json_string(j, "ph", ph);
	json_int(j, "pid", pid);
	json_int(j, "tid", tid);
}

/* Names a process or a thread of the trace. */
static void write_name(struct json *j, const char *what, const char *name, int pid, int tid)
{
	begin_event(j, what, "M", pid, tid);
	json_object(j, "args");
	json_string(j, "name", name);
	json_end(j, '}');
	json_end(j, '}');
}

/*
 * Writes the arguments of work on the device: the node that launched the work, and the kernel's full name or the
 * bytes copied.
 */
static void write_work_args(struct json *j, const struct node_event *e)
{
	json_object(j, "args");
	json_string(j, "node", e->op);
	if (e->kind == EVENT_KERNEL)
		json_string(j, "kernel", e->kernel);
	else
		json_number(j, "bytes", e->bytes);
	json_end(j, '}');
}

static void write_node_args(struct json *j, const struct node_event *e)
{
	json_object(j, "args");
	json_string(j, "operator", e->op);
	if (e->fused)
		json_string(j, "fused", e->fused);
	json_string(j, "kernel", e->kernel);
	json_number(j, "output_bytes", e->bytes);
	json_end(j, '}');
}

static void write_slice(struct json *j, const struct node_event *e, uint64_t origin, int pid)
{
	int thread = kinds[e->kind].thread;

	begin_event(j, e->name, "X", pid,
		    thread	? thread
		    : e->device ? DEVICE_THREAD
				: HOST_THREAD);
	json_string(j, "cat", kinds[e->kind].name);
	json_number(j, "ts", e->start > origin ? (double)(e->start - origin) / 1e3 : 0);
	json_number(j, "dur", (double)e->ns / 1e3);
	if (thread == KERNEL_THREAD || thread == COPY_THREAD)
		write_work_args(j, e);
	else if (e->op)
		write_node_args(j, e);
	json_end(j, '}');
}

static void write_counter(struct json *j, const char *name, const char *unit, double at,
			  double value, int pid)
{
	begin_event(j, name, "C", pid, 0);
	json_number(j, "ts", at * 1e6);
	json_object(j, "args");
	json_number(j, unit, value);
	json_end(j, '}');
	json_end(j, '}');
}

static void write_memory_counters(struct json *j, const struct record_timeline *t, int pid, bool device)
{
	for (size_t i = 0; i < t->n; i++) {
		write_counter(j, "resident", "bytes", t->at[i], t->rss[i], pid);
		write_counter(j, "private", "bytes", t->at[i], t->private[i], pid);
		write_counter(j, "host, counted", "bytes", t->at[i], t->host[i], pid);
		if (device) {
			write_counter(j, "device, counted", "bytes", t->at[i], t->device[i], pid);
			write_counter(j, "device, in use", "bytes", t->at[i], t->device_used[i], pid);
		}
	}
}

static void write_clock_counters(struct json *j, const struct record_clocks *c, int pid)
{
	for (size_t i = 0; i < c->n; i++) {
		write_counter(j, "SM clock", "MHz", c->at[i], c->sm[i], pid);
		write_counter(j, "memory clock", "MHz", c->at[i], c->memory[i], pid);
		write_counter(j, "power", "W", c->at[i], c->watts[i], pid);
		write_counter(j, "temperature", "C", c->at[i], c->celsius[i], pid);
	}
}

static void write_events(struct json *j, const struct node_times *n, const struct record *r,
			 uint64_t origin)
{
	size_t count;
	const struct node_event *e = node_times_events(n, &count);
	int pid = (int)getpid();
	bool device = r->id.device && strcmp(r->id.device, "cpu") != 0;

	json_array(j, "traceEvents");
	write_name(j, "process_name", r->id.model ? r->id.model : "infer", pid, 0);
	write_name(j, "thread_name", "host", pid, HOST_THREAD);
	if (device) {
		write_name(j, "thread_name", "device: nodes", pid, DEVICE_THREAD);
		write_name(j, "thread_name", "device: kernels", pid, KERNEL_THREAD);
		write_name(j, "thread_name", "device: copies", pid, COPY_THREAD);
	}
	for (size_t i = 0; i < count; i++)
		write_slice(j, &e[i], origin, pid);
	write_memory_counters(j, &r->timeline, pid, device);
	write_clock_counters(j, &r->clocks, pid);
	json_end(j, ']');
}

int trace_write(const char *path, const struct node_times *n, const struct record *r,
		uint64_t origin, struct diag *d)
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
	json_string(&j, "hash", r->id.hash);
	json_string(&j, "inputs", r->id.inputs);
	json_string(&j, "device", r->id.device_name);
	json_string(&j, "driver", r->id.driver);
	json_string(&j, "libraries", r->id.libraries);
	json_string(&j, "precision", r->id.precision);
	json_string(&j, "timed_by", r->timed_by);
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
