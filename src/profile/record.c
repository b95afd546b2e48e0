/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/record.h"

#include <math.h>

const char *record_kind_name(int kind)
{
	static const char *const names[] = {"host", "pinned", "device"};

	return kind >= 0 && kind < RECORD_KINDS ? names[kind] : "?";
}

/* ---- writing */

static void numbers(struct json *j, const char *key, const double *v, size_t n)
{
	if (!v)
		return;
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_number(j, NULL, v[i]);
	json_end(j, ']');
}

static void write_identity(const struct identity *id, struct json *j)
{
	json_object(j, "identity");
	json_string(j, "model", id->model);
	json_string(j, "hash", id->hash);
	json_string(j, "inputs", id->inputs);
	json_string(j, "device", id->device);
	json_string(j, "device_name", id->device_name);
	json_string(j, "driver", id->driver);
	json_string(j, "libraries", id->libraries);
	json_string(j, "precision", id->precision);
	json_string(j, "optimize", id->optimize);
	json_string(j, "sync", id->sync);
	json_int(j, "threads", id->threads);
	json_int(j, "cores", id->cores);
	json_int(j, "sessions", id->sessions);
	json_bool(j, "memory_plan", id->memory_plan);
	json_bool(j, "arena", id->arena);
	json_end(j, '}');
}

static void write_phase(const struct record_phase *p, struct json *j)
{
	json_object(j, NULL);
	json_string(j, "name", p->name);
	json_number(j, "seconds", p->seconds);
	json_number(j, "rss", p->rss);
	json_number(j, "private", p->private);
	json_number(j, "peak_rss", p->peak);
	json_number(j, "device_used", p->device_used);
	json_object(j, "live");
	for (int k = 0; k < RECORD_KINDS; k++) {
		json_object(j, record_kind_name(k));
		for (int i = 0; i < RECORD_PURPOSES; i++)
			if (p->live[k][i] > 0)
				json_number(j, mem_purpose_name((enum mem_purpose)i), p->live[k][i]);
		json_end(j, '}');
	}
	json_end(j, '}');
	json_end(j, '}');
}

static void write_launches(const struct record_node *n, struct json *j)
{
	json_array(j, "kernels");
	for (size_t i = 0; i < n->nlaunches; i++) {
		json_object(j, NULL);
		json_string(j, "name", n->launch[i].name);
		json_number(j, "count", n->launch[i].count);
		json_number(j, "seconds", n->launch[i].seconds);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void write_node(const struct record_node *n, struct json *j)
{
	json_object(j, NULL);
	json_string(j, "name", n->name);
	json_string(j, "operator", n->op);
	json_string(j, "kernel", n->kernel);
	json_string(j, "place", n->place);
	json_string(j, "fused", n->fused);
	json_int(j, "depth", n->depth);
	json_number(j, "calls", n->calls);
	json_number(j, "typical", n->typical);
	json_number(j, "p10", n->low);
	json_number(j, "share", n->share);
	json_number(j, "flops", n->flops);
	json_number(j, "bytes", n->bytes);
	json_number(j, "out_bytes", n->out_bytes);
	json_number(j, "workspace", n->workspace);
	json_number(j, "live", n->live);
	json_number(j, "resident_grown", n->grown);
	if (n->nlaunches)
		write_launches(n, j);
	numbers(j, "samples", n->time, n->n);
	json_end(j, '}');
}

static void write_point(const struct record_point *p, size_t ndims, struct json *j)
{
	json_object(j, NULL);
	json_string(j, "label", p->label);
	numbers(j, "size", p->size, ndims);
	json_number(j, "prepare", p->prepare);
	json_number(j, "first_run", p->first);
	json_number(j, "items", p->items);
	json_number(j, "host_to_device", p->copy_in);
	json_number(j, "device_to_host", p->copy_out);
	json_number(j, "planned_bytes", p->slab);
	json_number(j, "planned_device_bytes", p->device_slab);
	json_number(j, "unplanned_bytes", p->values);
	json_number(j, "weight_bytes", p->weights);
	json_number(j, "span", p->span);
	json_number(j, "waited", p->waited);
	if (p->rounds) {
		json_array(j, "rounds");
		for (size_t i = 0; i < p->nrounds; i++)
			json_uint(j, NULL, p->rounds[i]);
		json_end(j, ']');
	}
	numbers(j, "samples", p->time, p->n);
	numbers(j, "start", p->start, p->n);
	numbers(j, "delay", p->delay, p->n);
	json_end(j, '}');
}

static void write_timeline(const struct record_timeline *t, struct json *j)
{
	json_object(j, "timeline");
	numbers(j, "at", t->at, t->n);
	numbers(j, "run", t->run, t->n);
	numbers(j, "rss", t->rss, t->n);
	numbers(j, "private", t->private, t->n);
	numbers(j, "host", t->host, t->n);
	numbers(j, "device", t->device, t->n);
	numbers(j, "device_used", t->device_used, t->n);
	json_end(j, '}');
}

static void write_clocks(const struct record_clocks *c, struct json *j)
{
	if (!c->n)
		return;
	json_object(j, "device_clocks");
	json_number(j, "sm_most_mhz", c->sm_most);
	json_number(j, "memory_most_mhz", c->memory_most);
	json_number(j, "watts_most", c->watts_most);
	numbers(j, "at", c->at, c->n);
	numbers(j, "sm_mhz", c->sm, c->n);
	numbers(j, "memory_mhz", c->memory, c->n);
	numbers(j, "celsius", c->celsius, c->n);
	numbers(j, "watts", c->watts, c->n);
	numbers(j, "reasons", c->reasons, c->n);
	json_end(j, '}');
}

static const char *const yard_names[RECORD_YARDS][2] = {{"yard_arithmetic", "yard_arithmetic_delay"},
							{"yard_memory", "yard_memory_delay"},
							{"yard_exchange", "yard_exchange_delay"}};

static void write_machine(const struct record *r, struct json *j)
{
	json_object(j, "machine");
	json_number(j, "peak_flops", r->peak_flops);
	json_number(j, "peak_bytes", r->peak_bytes);
	json_number(j, "faults_minor", r->faults_minor);
	json_number(j, "faults_major", r->faults_major);
	json_number(j, "forced_switches", r->forced);
	json_number(j, "clock_low_khz", r->clock_low);
	json_number(j, "clock_high_khz", r->clock_high);
	for (int k = 0; k < RECORD_YARDS; k++) {
		numbers(j, yard_names[k][0], r->yard[k], r->nyard);
		numbers(j, yard_names[k][1], r->yard_delay[k], r->nyard);
	}
	json_end(j, '}');
}

void record_write(const struct record *r, struct json *j)
{
	json_string(j, "label", r->label);
	write_identity(&r->id, j);
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
	json_number(j, "flops", r->flops);
	json_number(j, "bytes", r->bytes);
	json_number(j, "observed", r->observed);
	json_number(j, "gaps", r->gaps);
	json_number(j, "host_to_device", r->copy_in);
	json_number(j, "device_to_host", r->copy_out);
	json_number(j, "host_to_device_bytes", r->in_bytes);
	json_number(j, "device_to_host_bytes", r->out_bytes);
	json_string(j, "timed_by", r->timed_by);
	json_string(j, "timed_why", r->timed_why);
	json_number(j, "held", r->held);
	numbers(j, "observed_samples", r->observed_time, r->nobserved);
	json_array(j, "nodes");
	for (size_t i = 0; i < r->nnodes; i++)
		write_node(&r->node[i], j);
	json_end(j, ']');
	write_timeline(&r->timeline, j);
	write_clocks(&r->clocks, j);
	write_machine(r, j);
	json_bool(j, "stopped", r->stopped);
	json_string(j, "failed", r->failed);
}

/* ---- reading; the tree and the record share an arena no longer than the copy below */

static const char *text(struct record *r, const struct jvalue *v, const char *key)
{
	return arena_str(&r->arena, jtext(v, key));
}

static const double *list(struct record *r, const struct jvalue *v, const char *key, size_t *n)
{
	return jget(v, key) ? jnumbers(v, key, n, &r->arena) : NULL;
}

static void read_identity(struct record *r, const struct jvalue *v)
{
	r->id = (struct identity){.model = text(r, v, "model"),
				  .hash = text(r, v, "hash"),
				  .inputs = text(r, v, "inputs"),
				  .device = text(r, v, "device"),
				  .device_name = text(r, v, "device_name"),
				  .driver = text(r, v, "driver"),
				  .libraries = text(r, v, "libraries"),
				  .precision = text(r, v, "precision"),
				  .optimize = text(r, v, "optimize"),
				  .sync = text(r, v, "sync"),
				  .threads = (int64_t)jnumber(v, "threads", 0),
				  .cores = (int64_t)jnumber(v, "cores", 0),
				  .sessions = (int64_t)jnumber(v, "sessions", 1),
				  .memory_plan = jbool(v, "memory_plan"),
				  .arena = jbool(v, "arena")};
}

static void read_phase(struct record *r, const struct jvalue *v, struct record_phase *p)
{
	const struct jvalue *live = jget(v, "live");

	*p = (struct record_phase){.name = text(r, v, "name"),
				   .seconds = jnumber(v, "seconds", 0),
				   .rss = jnumber(v, "rss", 0),
				   .private = jnumber(v, "private", 0),
				   .peak = jnumber(v, "peak_rss", 0),
				   .device_used = jnumber(v, "device_used", 0)};
	for (int k = 0; k < RECORD_KINDS; k++)
		for (int i = 0; i < RECORD_PURPOSES; i++)
			p->live[k][i] = jnumber(jget(live, record_kind_name(k)),
						mem_purpose_name((enum mem_purpose)i), 0);
}

/* Elements of an array member that are objects, each through `one`. */
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

static void read_launch(struct record *r, const struct jvalue *v, struct record_kernel *k)
{
	*k = (struct record_kernel){.name = text(r, v, "name"),
				    .count = jnumber(v, "count", 0),
				    .seconds = jnumber(v, "seconds", 0)};
}

static void read_node(struct record *r, const struct jvalue *v, struct record_node *n)
{
	*n = (struct record_node){.name = text(r, v, "name"),
				  .op = text(r, v, "operator"),
				  .kernel = text(r, v, "kernel"),
				  .place = text(r, v, "place"),
				  .fused = text(r, v, "fused"),
				  .depth = (int)jnumber(v, "depth", 0),
				  .calls = jnumber(v, "calls", 0),
				  .typical = jnumber(v, "typical", 0),
				  .low = jnumber(v, "p10", 0),
				  .share = jnumber(v, "share", 0),
				  .flops = jnumber(v, "flops", 0),
				  .bytes = jnumber(v, "bytes", 0),
				  .out_bytes = jnumber(v, "out_bytes", 0),
				  .workspace = jnumber(v, "workspace", 0),
				  .live = jnumber(v, "live", 0),
				  .grown = jnumber(v, "resident_grown", 0)};
	n->time = list(r, v, "samples", &n->n);
	struct record_kernel *to = NULL;
	READ_ALL(r, v, "kernels", struct record_kernel, read_launch, to, n->nlaunches);
	n->launch = to;
}

static void read_rounds(struct record *r, const struct jvalue *v, struct record_point *p)
{
	size_t n, *rounds;
	const double *from = list(r, v, "rounds", &n);

	if (!from)
		return;
	rounds = arena_new_n(&r->arena, size_t, n + 1);
	for (size_t i = 0; i < n; i++)
		rounds[i] = from[i] > 0 ? (size_t)from[i] : 0;
	p->rounds = rounds;
	p->nrounds = n;
}

static void read_point(struct record *r, const struct jvalue *v, struct record_point *p)
{
	size_t n = 0, starts = 0, delays = 0;

	*p = (struct record_point){.label = text(r, v, "label"),
				   .prepare = jnumber(v, "prepare", 0),
				   .first = jnumber(v, "first_run", 0),
				   .items = jnumber(v, "items", 1),
				   .copy_in = jnumber(v, "host_to_device", 0),
				   .copy_out = jnumber(v, "device_to_host", 0),
				   .slab = jnumber(v, "planned_bytes", 0),
				   .device_slab = jnumber(v, "planned_device_bytes", 0),
				   .values = jnumber(v, "unplanned_bytes", 0),
				   .weights = jnumber(v, "weight_bytes", 0),
				   .span = jnumber(v, "span", 0),
				   .waited = jnumber(v, "waited", 0)};
	p->size = list(r, v, "size", &n);
	p->time = list(r, v, "samples", &p->n);
	p->start = list(r, v, "start", &starts);
	p->start = starts == p->n ? p->start : NULL;
	p->delay = list(r, v, "delay", &delays);
	p->delay = delays == p->n ? p->delay : NULL;
	read_rounds(r, v, p);
}

static void read_name(struct record *r, const struct jvalue *v, const char **to)
{
	*to = arena_str(&r->arena, v->type == J_STRING ? v->text : "");
}

static void read_clocks(struct record *r, const struct jvalue *v)
{
	static const char *const keys[] = {"at",      "sm_mhz", "memory_mhz",
					   "celsius", "watts",	"reasons"};
	struct record_clocks *c = &r->clocks;
	const double **to[] = {&c->at, &c->sm, &c->memory, &c->celsius, &c->watts, &c->reasons};
	size_t n[6] = {0}, least = SIZE_MAX;

	for (int i = 0; i < 6; i++) {
		*to[i] = list(r, v, keys[i], &n[i]);
		least = n[i] < least ? n[i] : least;
	}
	c->n = least;
	c->sm_most = jnumber(v, "sm_most_mhz", 0);
	c->memory_most = jnumber(v, "memory_most_mhz", 0);
	c->watts_most = jnumber(v, "watts_most", 0);
}

static void read_machine(struct record *r, const struct jvalue *v)
{
	size_t n[RECORD_YARDS][2] = {{0}};

	r->peak_flops = jnumber(v, "peak_flops", 0);
	r->peak_bytes = jnumber(v, "peak_bytes", 0);
	r->faults_minor = jnumber(v, "faults_minor", 0);
	r->faults_major = jnumber(v, "faults_major", 0);
	r->forced = jnumber(v, "forced_switches", 0);
	r->clock_low = jnumber(v, "clock_low_khz", 0);
	r->clock_high = jnumber(v, "clock_high_khz", 0);
	for (int k = 0; k < RECORD_YARDS; k++) {
		r->yard[k] = list(r, v, yard_names[k][0], &n[k][0]);
		r->yard_delay[k] = list(r, v, yard_names[k][1], &n[k][1]);
	}
	r->nyard = n[0][0];
	for (int k = 1; k < RECORD_YARDS; k++)
		r->nyard = n[k][0] == r->nyard ? r->nyard : 0;
	for (int k = 0; k < RECORD_YARDS; k++)
		r->yard_delay[k] = n[k][1] == r->nyard ? r->yard_delay[k] : NULL;
}

static void read_timeline(struct record *r, const struct jvalue *v)
{
	static const char *const keys[] = {"at",   "run",    "rss",	   "private",
					   "host", "device", "device_used"};
	enum { KEYS = sizeof(keys) / sizeof(*keys) };
	struct record_timeline *t = &r->timeline;
	const double **to[KEYS] = {&t->at,   &t->run,	 &t->rss,	 &t->private,
				   &t->host, &t->device, &t->device_used};
	size_t least = SIZE_MAX;

	for (int i = 0; i < KEYS; i++) {
		size_t n = 0;
		*to[i] = list(r, v, keys[i], &n);
		least = n < least ? n : least;
	}
	t->n = least;
}

struct record *record_read(const struct jvalue *v)
{
	struct arena a = {0};
	size_t n = 0;

	if (!jget(v, "identity") || !jget(v, "points"))
		return NULL;
	struct record *r = arena_new(&a, struct record);
	r->arena = a;
	r->label = text(r, v, "label");
	read_identity(r, jget(v, "identity"));
	READ_ALL(r, v, "phases", struct record_phase, read_phase, r->phase, r->nphases);
	READ_ALL(r, v, "dimensions", const char *, read_name, r->dim, r->ndims);
	READ_ALL(r, v, "points", struct record_point, read_point, r->point, r->npoints);
	READ_ALL(r, v, "nodes", struct record_node, read_node, r->node, r->nnodes);
	r->flops = jnumber(v, "flops", 0);
	r->bytes = jnumber(v, "bytes", 0);
	r->observed = jnumber(v, "observed", 0);
	r->gaps = jnumber(v, "gaps", 0);
	r->copy_in = jnumber(v, "host_to_device", 0);
	r->copy_out = jnumber(v, "device_to_host", 0);
	r->in_bytes = jnumber(v, "host_to_device_bytes", 0);
	r->out_bytes = jnumber(v, "device_to_host_bytes", 0);
	r->timed_by = text(r, v, "timed_by");
	r->timed_why = text(r, v, "timed_why");
	r->held = jnumber(v, "held", 0);
	r->observed_time = list(r, v, "observed_samples", &n);
	r->nobserved = n;
	read_timeline(r, jget(v, "timeline"));
	if (jget(v, "device_clocks"))
		read_clocks(r, jget(v, "device_clocks"));
	read_machine(r, jget(v, "machine"));
	r->stopped = jbool(v, "stopped");
	r->failed = text(r, v, "failed");
	return r;
}

void record_free(struct record *r)
{
	if (!r)
		return;
	struct arena a = r->arena;
	arena_free(&a);
}
