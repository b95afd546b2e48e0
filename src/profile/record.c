/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/record.h"

#include "base/field_json.h"

#include <string.h>

const char *record_kind_name(int kind)
{
	static const char *const names[] = {"host", "pinned", "device"};

	return kind >= 0 && kind < RECORD_KINDS ? names[kind] : "?";
}

/* ---- the members, each with its name in JSON ------------------------------------------------- */

#define ROW(of, member, kind, key, default_)                                                         \
	{                                                                                            \
		.name = (key), .type = (kind), .off = offsetof(struct of, member), .def = (default_) \
	}
#define NUMBER(of, member, key) ROW(of, member, F_DOUBLE, key, "0")
#define TEXT(of, member, key)	ROW(of, member, F_STRING, key, NULL)
#define NAME(of, member, key)                                                                      \
	ROW(of, member, F_STRING, key, "") /* always written; a file that was edited may lack it */
#define BOOL(of, member, key) ROW(of, member, F_BOOL, key, NULL)

static const struct field identity_fields[] = {
	TEXT(identity, model, "model"),
	TEXT(identity, hash, "hash"),
	TEXT(identity, inputs, "inputs"),
	TEXT(identity, device, "device"),
	TEXT(identity, device_name, "device_name"),
	TEXT(identity, driver, "driver"),
	TEXT(identity, libraries, "libraries"),
	TEXT(identity, precision, "precision"),
	TEXT(identity, optimize, "optimize"),
	TEXT(identity, sync, "sync"),
	ROW(identity, threads, F_INT, "threads", "0"),
	ROW(identity, cores, F_INT, "cores", "0"),
	ROW(identity, sessions, F_INT, "sessions", "1"),
	BOOL(identity, memory_plan, "memory_plan"),
	BOOL(identity, arena, "arena"),
	{0},
};

static const struct field phase_fields[] = {
	NAME(record_phase, name, "name"),
	NUMBER(record_phase, seconds, "seconds"),
	NUMBER(record_phase, rss, "rss"),
	NUMBER(record_phase, private, "private"),
	NUMBER(record_phase, peak, "peak_rss"),
	NUMBER(record_phase, device_used, "device_used"),
	{0},
};

static const struct field kernel_fields[] = {
	NAME(record_kernel, name, "name"),
	NUMBER(record_kernel, count, "count"),
	NUMBER(record_kernel, seconds, "seconds"),
	{0},
};

static const struct field node_fields[] = {
	NAME(record_node, name, "name"),
	NAME(record_node, op, "operator"),
	TEXT(record_node, kernel, "kernel"),
	TEXT(record_node, place, "place"),
	TEXT(record_node, fused, "fused"),
	ROW(record_node, depth, F_INT, "depth", "0"),
	NUMBER(record_node, calls, "calls"),
	NUMBER(record_node, typical, "typical"),
	NUMBER(record_node, low, "p10"),
	NUMBER(record_node, share, "share"),
	NUMBER(record_node, flops, "flops"),
	NUMBER(record_node, bytes, "bytes"),
	NUMBER(record_node, out_bytes, "out_bytes"),
	NUMBER(record_node, workspace, "workspace"),
	NUMBER(record_node, live, "live"),
	NUMBER(record_node, grown, "resident_grown"),
	{0},
};

static const struct field point_fields[] = {
	NAME(record_point, label, "label"),
	NUMBER(record_point, prepare, "prepare"),
	NUMBER(record_point, first, "first_run"),
	ROW(record_point, items, F_DOUBLE, "items", "1"),
	NUMBER(record_point, copy_in, "host_to_device"),
	NUMBER(record_point, copy_out, "device_to_host"),
	NUMBER(record_point, slab, "planned_bytes"),
	NUMBER(record_point, device_slab, "planned_device_bytes"),
	NUMBER(record_point, values, "unplanned_bytes"),
	NUMBER(record_point, weights, "weight_bytes"),
	NUMBER(record_point, span, "span"),
	NUMBER(record_point, waited, "waited"),
	ROW(record_point, process_turns, F_INT, "turns_a_process", "0"),
	{0},
};

static const struct field clock_fields[] = {
	NUMBER(record_clocks, sm_most, "sm_most_mhz"),
	NUMBER(record_clocks, memory_most, "memory_most_mhz"),
	NUMBER(record_clocks, watts_most, "watts_most"),
	{0},
};

static const struct field machine_fields[] = {
	NUMBER(record, peak_flops, "peak_flops"),
	NUMBER(record, peak_bytes, "peak_bytes"),
	NUMBER(record, faults_minor, "faults_minor"),
	NUMBER(record, faults_major, "faults_major"),
	NUMBER(record, forced, "forced_switches"),
	NUMBER(record, clock_low, "clock_low_khz"),
	NUMBER(record, clock_high, "clock_high_khz"),
	NUMBER(record, watts, "watts"),
	{0},
};

static const struct field record_fields[] = {
	NAME(record, label, "label"),
	NUMBER(record, flops, "flops"),
	NUMBER(record, bytes, "bytes"),
	NUMBER(record, observed, "observed"),
	NUMBER(record, gaps, "gaps"),
	NUMBER(record, copy_in, "host_to_device"),
	NUMBER(record, copy_out, "device_to_host"),
	NUMBER(record, in_bytes, "host_to_device_bytes"),
	NUMBER(record, out_bytes, "device_to_host_bytes"),
	TEXT(record, timed_by, "timed_by"),
	TEXT(record, timed_why, "timed_why"),
	NUMBER(record, held, "held"),
	BOOL(record, stopped, "stopped"),
	TEXT(record, failed, "failed"),
	{0},
};

/* A set of arrays of numbers, all of one length. An optional array is NULL when it is not known. */
struct series {
	const char *name;
	size_t off; /* of a const double * */
	bool optional;
};

static const struct series point_series[] = {
	{"samples", offsetof(struct record_point, time), false},
	{"start", offsetof(struct record_point, start), true},
	{"delay", offsetof(struct record_point, delay), true},
	{"cpu", offsetof(struct record_point, cpu), true},
	{0},
};

static const struct series node_series[] = {
	{"samples", offsetof(struct record_node, time), false},
	{0},
};

static const struct series observed_series[] = {
	{"observed_samples", offsetof(struct record, observed_time), false},
	{0},
};

static const struct series timeline_series[] = {
	{"at", offsetof(struct record_timeline, at), false},
	{"run", offsetof(struct record_timeline, run), false},
	{"rss", offsetof(struct record_timeline, rss), false},
	{"private", offsetof(struct record_timeline, private), false},
	{"host", offsetof(struct record_timeline, host), false},
	{"device", offsetof(struct record_timeline, device), false},
	{"device_used", offsetof(struct record_timeline, device_used), false},
	{0},
};

static const struct series clock_series[] = {
	{"at", offsetof(struct record_clocks, at), false},
	{"sm_mhz", offsetof(struct record_clocks, sm), false},
	{"memory_mhz", offsetof(struct record_clocks, memory), false},
	{"celsius", offsetof(struct record_clocks, celsius), false},
	{"watts", offsetof(struct record_clocks, watts), false},
	{"reasons", offsetof(struct record_clocks, reasons), false},
	{0},
};

static const struct series reference_series[] = {
	{"yard_arithmetic", offsetof(struct record, reference_time[0]), false},
	{"yard_arithmetic_delay", offsetof(struct record, reference_wait[0]), true},
	{"yard_memory", offsetof(struct record, reference_time[1]), false},
	{"yard_memory_delay", offsetof(struct record, reference_wait[1]), true},
	{"yard_exchange", offsetof(struct record, reference_time[2]), false},
	{"yard_exchange_delay", offsetof(struct record, reference_wait[2]), true},
	{0},
};

/* ---- writing --------------------------------------------------------------------------------- */

static void write_numbers(struct json *j, const char *key, const double *v, size_t n)
{
	if (!v)
		return;
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_number(j, NULL, v[i]);
	json_end(j, ']');
}

static void write_series(const struct series *table, const void *obj, size_t n, struct json *j)
{
	for (const struct series *s = table; s->name; s++) {
		const void *at = (const char *)obj + s->off;
		write_numbers(j, s->name, *(const double *const *)at, n);
	}
}

static void write_object(const char *key, const struct field *table, const void *obj, struct json *j)
{
	json_object(j, key);
	field_write_json(table, obj, j);
	json_end(j, '}');
}

static void write_phase(const struct record_phase *p, struct json *j)
{
	json_object(j, NULL);
	field_write_json(phase_fields, p, j);
	json_object(j, "live");
	for (int k = 0; k < RECORD_KINDS; k++) {
		json_object(j, record_kind_name(k));
		for (int i = 0; i < RECORD_PURPOSES; i++)
			if (p->live[k][i] > 0)
				json_number(j, mem_purpose_key((enum mem_purpose)i), p->live[k][i]);
		json_end(j, '}');
	}
	json_end(j, '}');
	json_end(j, '}');
}

static void write_node(const struct record_node *n, struct json *j)
{
	json_object(j, NULL);
	field_write_json(node_fields, n, j);
	if (n->nlaunches) {
		json_array(j, "kernels");
		for (size_t i = 0; i < n->nlaunches; i++)
			write_object(NULL, kernel_fields, &n->launch[i], j);
		json_end(j, ']');
	}
	write_series(node_series, n, n->n, j);
	json_end(j, '}');
}

static void write_point(const struct record_point *p, size_t ndims, struct json *j)
{
	json_object(j, NULL);
	field_write_json(point_fields, p, j);
	write_numbers(j, "size", p->size, ndims);
	if (p->rounds) {
		json_array(j, "rounds");
		for (size_t i = 0; i < p->nrounds; i++)
			json_uint(j, NULL, p->rounds[i]);
		json_end(j, ']');
	}
	if (p->nturns)
		write_numbers(j, "turn_means", p->turn_mean, p->nturns);
	write_series(point_series, p, p->n, j);
	json_end(j, '}');
}

static void write_timeline(const struct record_timeline *t, struct json *j)
{
	json_object(j, "timeline");
	write_series(timeline_series, t, t->n, j);
	json_end(j, '}');
}

static void write_clocks(const struct record_clocks *c, struct json *j)
{
	if (!c->n)
		return;
	json_object(j, "device_clocks");
	field_write_json(clock_fields, c, j);
	write_series(clock_series, c, c->n, j);
	json_end(j, '}');
}

static void write_machine(const struct record *r, struct json *j)
{
	json_object(j, "machine");
	field_write_json(machine_fields, r, j);
	write_series(reference_series, r, r->nreference, j);
	json_end(j, '}');
}

void record_write(const struct record *r, struct json *j)
{
	field_write_json(record_fields, r, j);
	write_object("identity", identity_fields, &r->id, j);
	json_array(j, "phases");
	for (size_t i = 0; i < r->nphases; i++)
		write_phase(&r->phase[i], j);
	json_end(j, ']');
	json_array(j, "dimensions");
	for (size_t i = 0; i < r->ndims; i++)
		json_string(j, NULL, r->dim[i]);
	json_end(j, ']');
	json_array(j, "points");
	for (size_t i = 0; i < r->npoints; i++)
		write_point(&r->point[i], r->ndims, j);
	json_end(j, ']');
	write_series(observed_series, r, r->nobserved, j);
	json_array(j, "nodes");
	for (size_t i = 0; i < r->nnodes; i++)
		write_node(&r->node[i], j);
	json_end(j, ']');
	write_timeline(&r->timeline, j);
	write_clocks(&r->clocks, j);
	write_machine(r, j);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const double *read_numbers(struct record *r, const struct jvalue *v, const char *key, size_t *n)
{
	*n = 0;
	return jget(v, key) ? jnumbers(v, key, n, &r->arena) : NULL;
}

/*
 * Reads the arrays of the table and returns their common length. As a file may have been edited, this is the length
 * of the shortest array that is not optional. An optional array of another length is left out.
 */
static size_t read_series(struct record *r, const struct series *table, void *obj,
			  const struct jvalue *v)
{
	size_t least = SIZE_MAX, n;

	for (const struct series *s = table; s->name; s++) {
		if (s->optional)
			continue;
		void *at = (char *)obj + s->off;
		*(const double **)at = read_numbers(r, v, s->name, &n);
		least = n < least ? n : least;
	}
	for (const struct series *s = table; s->name; s++) {
		if (!s->optional)
			continue;
		void *at = (char *)obj + s->off;
		const double *numbers = read_numbers(r, v, s->name, &n);
		*(const double **)at = n == least ? numbers : NULL;
	}
	return least;
}

static void read_phase(struct record *r, const struct jvalue *v, struct record_phase *p)
{
	const struct jvalue *live = jget(v, "live");

	field_read_json(phase_fields, p, v, &r->arena);
	for (int k = 0; k < RECORD_KINDS; k++) {
		const struct jvalue *of = jget(live, record_kind_name(k));
		for (enum mem_purpose i = 0; i < MEM_PURPOSES; i++)
			p->live[k][i] = jnumber(of, mem_purpose_key(i), 0);
		/* older records count copied and packed weights as one */
		p->live[k][MEM_WEIGHTS] += jnumber(of, "weights", 0);
	}
}

/* Reads an array member whose elements are objects. The function `one` reads each element. */
#define READ_ALL(r, v, key, type_, one, list_, count_)                                             \
	do {                                                                                       \
		const struct jvalue *all_ = jget(v, key);                                          \
		size_t most_ = all_ && all_->type == J_ARRAY ? all_->n : 0, k_ = 0;                \
		type_ *to_ = arena_new_n(&(r)->arena, type_, most_ + 1);                           \
		for (const struct jvalue *m_ = most_ ? all_->first : NULL; m_; m_ = m_->next)      \
			one(r, m_, &to_[k_++]);                                                    \
		(list_) = to_;                                                                     \
		(count_) = k_;                                                                     \
	} while (0)

static void read_kernel(struct record *r, const struct jvalue *v, struct record_kernel *k)
{
	field_read_json(kernel_fields, k, v, &r->arena);
}

enum {
	MAX_DEPTH = 64
}; /* maximum nesting of bodies of control flow, by which names are indented */

static void read_node(struct record *r, const struct jvalue *v, struct record_node *n)
{
	field_read_json(node_fields, n, v, &r->arena);
	if (n->depth < 0 || n->depth > MAX_DEPTH) /* possible only in a file that was edited */
		n->depth = 0;
	n->n = read_series(r, node_series, n, v);
	READ_ALL(r, v, "kernels", struct record_kernel, read_kernel, n->launch, n->nlaunches);
}

static void read_rounds(struct record *r, const struct jvalue *v, struct record_point *p)
{
	size_t n, *rounds;
	const double *from = read_numbers(r, v, "rounds", &n);

	if (!from)
		return;
	rounds = arena_new_n(&r->arena, size_t, n + 1);
	for (size_t i = 0; i < n;
	     i++) /* a number of runs of this point; more may stand in a file that was edited */
		rounds[i] = !(from[i] > 0) ? 0 : from[i] < (double)p->n ? (size_t)from[i] : p->n;
	p->rounds = rounds;
	p->nrounds = n;
}

static void read_point(struct record *r, const struct jvalue *v, struct record_point *p)
{
	size_t n;

	field_read_json(point_fields, p, v, &r->arena);
	/* a size for each of the record's dimensions, which were read before; those that are missing are 0 */
	const double *size = read_numbers(r, v, "size", &n);
	double *all = arena_new_n(&r->arena, double, r->ndims + 1);
	if (size)
		memcpy(all, size, (n < r->ndims ? n : r->ndims) * sizeof(*all));
	p->size = all;
	p->n = read_series(r, point_series, p, v);
	read_rounds(r, v, p);
	p->turn_mean = read_numbers(r, v, "turn_means", &p->nturns);
}

static void read_name(struct record *r, const struct jvalue *v, const char **to)
{
	*to = arena_str(&r->arena, v->type == J_STRING ? v->text : "");
}

struct record *record_read(const struct jvalue *v)
{
	struct arena a = {0};
	const struct jvalue *machine = jget(v, "machine"), *clocks = jget(v, "device_clocks");

	if (!jget(v, "identity") || !jget(v, "points"))
		return NULL;
	struct record *r = arena_new(&a, struct record);
	r->arena = a;
	field_read_json(record_fields, r, v, &r->arena);
	field_read_json(identity_fields, &r->id, jget(v, "identity"), &r->arena);
	READ_ALL(r, v, "phases", struct record_phase, read_phase, r->phase, r->nphases);
	READ_ALL(r, v, "dimensions", const char *, read_name, r->dim, r->ndims);
	READ_ALL(r, v, "points", struct record_point, read_point, r->point, r->npoints);
	READ_ALL(r, v, "nodes", struct record_node, read_node, r->node, r->nnodes);
	r->nobserved = read_series(r, observed_series, r, v);
	r->timeline.n = read_series(r, timeline_series, &r->timeline, jget(v, "timeline"));
	field_read_json(clock_fields, &r->clocks, clocks, &r->arena);
	r->clocks.n = read_series(r, clock_series, &r->clocks, clocks);
	field_read_json(machine_fields, r, machine, &r->arena);
	r->nreference = read_series(r, reference_series, r, machine);
	return r;
}

void record_free(struct record *r)
{
	if (!r)
		return;
	struct arena a = r->arena;
	arena_free(&a);
}
