/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/fault.h"

#include <stdlib.h>

#ifndef FAULTS

int faults_open(struct runtime *rt, bool (*is_backend)(const char *name), struct diag *d)
{
	(void)rt, (void)is_backend;
	const char *text = getenv("INFER_FAULT");
	if (!text || !*text)
		return 0;
	return FAIL(d, E_OPTION,
		    .message = fmt(d, "INFER_FAULT is set ('%s'), but this build plants no faults",
				   text),
		    .hint = "unset INFER_FAULT, or build with make FAULTS=1");
}

#else

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	GROW_RUNS = 50
}; /* number of runs after which `grow` stops leaking, like an arena that is full */

struct fault_spec;
/* A kind of fault. Each of the three functions may be NULL. */
struct kind {
	const char *name;
	double def; /* the value if the user gives none */
	/* runs before the kernel */
	int (*before)(struct fault *, const struct call *);
	/* runs in place of the kernel, and calls the kernel itself */
	int (*around)(struct fault *, const struct call *, int (*kernel)(const struct call *));
	/* changes an output, which is in host memory */
	int (*output)(struct fault *, const struct call *, struct tensor *);
};

/* One fault that INFER_FAULT asks for. It lives as long as the session. */
struct fault_spec {
	const char *node, *where;
	const struct kind *kind;
	const struct fault_kind *own; /* the backend's own kind of fault, in which case `kind` is NULL */
	double value;
	bool applies; /* `where` matches this session */
	bool planted; /* at least one step has the fault */
	uint64_t runs;
	/* linked list of the leaked blocks, which stay reachable so that leak checkers do not report them */
	void **held;
	struct fault_spec *next;
};

/* A fault planted in a step. A step may have several faults. */
struct fault {
	struct fault_spec *spec;
	struct runtime *rt;
	int (*kernel)(const struct call *);
	struct fault *next;
};

/* ---- kinds ---------------------------------------------------------------------------------- */

static uint64_t mix_bits(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	return x ^ x >> 33;
}

/* A pseudo-random number from -1 to 1 for element i. */
static double noise_at(uint64_t seed, int64_t i)
{
	return (double)(mix_bits(seed + (uint64_t)i + 1) >> 11) * 0x1p-52 - 1;
}

static int run_slowly(struct fault *f, const struct call *c, int (*kernel)(const struct call *))
{
	const struct runtime *rt = f->rt;
	bool device = has_device(rt) && c->stream;
	uint64_t t0 = clock_ns();
	int err = kernel(c);

	if (!err && device)
		err = rt->backend->wait(c->stream, c->diag);
	uint64_t t1 = clock_ns();
	uint64_t until = t1 + (uint64_t)((double)(t1 - t0) * (f->spec->value - 1));
	while (clock_ns() < until)
		;
	return err;
}

static int leak_bytes(struct fault *f, size_t bytes, const struct call *c)
{
	void **p = malloc(bytes > sizeof(void *) ? bytes : sizeof(void *));

	if (!p)
		return call_fail(c, E_MEMORY, "memory for a planted leak", "none");
	memset(p, 0x5a, bytes > sizeof(void *) ? bytes : sizeof(void *));
	*p = f->spec->held;
	f->spec->held = p;
	return 0;
}

static int leak_each_run(struct fault *f, const struct call *c)
{
	return leak_bytes(f, (size_t)f->spec->value, c);
}

static int leak_first_runs(struct fault *f, const struct call *c)
{
	return f->spec->runs > GROW_RUNS ? 0 : leak_bytes(f, (size_t)f->spec->value, c);
}

static int leak_through_counters(struct fault *f, const struct call *c)
{
	size_t bytes = (size_t)f->spec->value;
	void *p = mem_alloc(bytes, MEM_WORKSPACE);

	if (!p)
		return call_fail(c, E_MEMORY, "memory for a planted leak", "none");
	memset(p, 0x5a, bytes);
	return 0;
}

static int leak_on_device(struct fault *f, const struct call *c)
{
	struct buffer b = {0};

	return f->rt->backend->alloc(f->rt->device, (size_t)f->spec->value, MEM_WORKSPACE, &b,
				     c->diag);
}

static int raise_sigsegv(struct fault *f, const struct call *c)
{
	(void)f, (void)c;
	raise(SIGSEGV);
	return 0;
}

static int wait_forever(struct fault *f, const struct call *c)
{
	(void)c;
	while (f->spec->runs)
		usleep(100000);
	return 0;
}

static int fail_with_e_memory(struct fault *f, const struct call *c)
{
	(void)f;
	return call_fail(c, E_MEMORY, "memory for the step", "a planted refusal");
}

static int fail_with_e_run(struct fault *f, const struct call *c)
{
	(void)f;
	return call_fail(c, E_RUN, "a step that runs", "a planted failure");
}

/* Returns the number of elements in memory, including the padding of blocked layouts. */
static int64_t stored_elements(const struct tensor *t)
{
	unsigned bits = dtype_bits(tensor_dtype(t));
	return bits ? (int64_t)(t->bytes * 8 / bits) : 0;
}

static int set_some_elements(struct fault *f, const struct call *c, struct tensor *t, double v)
{
	int64_t n = stored_elements(t), want = (int64_t)f->spec->value;

	if (!(T_BIT(tensor_dtype(t)) & (T_FLOATS_BF | T_F8)))
		return call_fail(c, E_OPTION, "a fault on an output of floats",
				 dtype_name(tensor_dtype(t)));
	for (int64_t k = 0; k < want && k < n; k++)
		elem_set_f64(tensor_dtype(t), t->data, n / 2 + k < n ? n / 2 + k : k - n / 2, v);
	return 0;
}

static int make_nan(struct fault *f, const struct call *c, struct tensor *t)
{
	return set_some_elements(f, c, t, NAN);
}

static int make_inf(struct fault *f, const struct call *c, struct tensor *t)
{
	return set_some_elements(f, c, t, INFINITY);
}

static int make_zero(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)f, (void)c;
	memset(t->data, 0, t->bytes);
	return 0;
}

static int make_constant(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)c;
	for (int64_t i = 0; i < stored_elements(t); i++)
		elem_set_f64(tensor_dtype(t), t->data, i, f->spec->value);
	return 0;
}

static int scale_elements(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)c;
	for (int64_t i = 0; i < stored_elements(t); i++)
		elem_set_f64(tensor_dtype(t), t->data, i,
			     elem_f64(tensor_dtype(t), t->data, i) * f->spec->value);
	return 0;
}

static void perturb_elements(const struct fault *f, struct tensor *t, uint64_t seed)
{
	enum dtype type = tensor_dtype(t);

	for (int64_t i = 0; i < stored_elements(t); i++)
		elem_set_f64(type, t->data, i,
			     elem_f64(type, t->data, i) * (1 + f->spec->value * noise_at(seed, i)));
}

static int perturb_reproducibly(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)c;
	perturb_elements(f, t, 1);
	return 0;
}

static int perturb_randomly(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)c;
	/* two runs may read the same time if the clock is coarse, so the number of the run is added */
	perturb_elements(f, t, mix_bits(clock_ns() ^ (uint64_t)getpid() << 32) + f->spec->runs);
	return 0;
}

/* Writes the output with its channels last, although its readers expect them first. */
static int write_channels_last(struct fault *f, const struct call *c, struct tensor *t)
{
	(void)f;
	const struct shape *s = &t->shape;
	int batch = s->rank > 2 ? 1 : 0;
	enum dtype type = tensor_dtype(t);
	int64_t n = tensor_count(t), outer = 1;

	if (t->layout != LAYOUT_ROW || s->rank < 2)
		return call_fail(c, E_OPTION, "a fault on a row-major output of rank 2 or more",
				 shape_str(&c->diag->arena, s, NULL));
	for (int i = 0; i < batch; i++)
		outer *= s->dim[i];
	if (!n)
		return 0;
	int64_t channels = s->dim[batch], inner = n / outer / channels;
	void *old = malloc(t->bytes);
	if (!old)
		return call_fail(c, E_MEMORY, "memory for a planted fault", "none");
	memcpy(old, t->data, t->bytes);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t k = 0; k < channels; k++)
			for (int64_t i = 0; i < inner; i++)
				elem_set_f64(type, t->data, (o * inner + i) * channels + k,
					     elem_f64(type, old, (o * channels + k) * inner + i));
	free(old);
	return 0;
}

/* A copy of the first run's output, kept in fault_spec.held. */
struct first_output {
	void *next;
	size_t n;
	unsigned char data[];
};

/* Replaces the output of each later run by that of the session's first run, whatever the inputs are. */
static int return_first_output(struct fault *f, const struct call *c, struct tensor *t)
{
	struct first_output *m = (void *)f->spec->held;

	if (m) {
		memcpy(t->data, m->data, t->bytes < m->n ? t->bytes : m->n);
		return 0;
	}
	m = malloc(sizeof(*m) + t->bytes);
	if (!m)
		return call_fail(c, E_MEMORY, "memory for a planted fault", "none");
	*m = (struct first_output){.n = t->bytes};
	memcpy(m->data, t->data, t->bytes);
	f->spec->held = (void **)(void *)m;
	return 0;
}

static const struct kind kinds[] = {
	{"slow", 2, .around = run_slowly},
	{"leak", 4096, .before = leak_each_run},
	{"grow", 65536, .before = leak_first_runs},
	{"leak-counted", 4096, .before = leak_through_counters},
	{"leak-device", 65536, .before = leak_on_device},
	{"crash", 0, .before = raise_sigsegv},
	{"hang", 0, .before = wait_forever},
	{"oom", 0, .before = fail_with_e_memory},
	{"fail", 0, .before = fail_with_e_run},
	{"nan", 1, .output = make_nan},
	{"inf", 1, .output = make_inf},
	{"zero", 0, .output = make_zero},
	{"constant", 1, .output = make_constant},
	{"scale", 1.5, .output = scale_elements},
	{"perturb", 1e-2, .output = perturb_reproducibly},
	{"nondeterministic", 1e-3, .output = perturb_randomly},
	{"swap", 0, .output = write_channels_last},
	{"stale", 0, .output = return_first_output},
	{0},
};

/* ---- running -------------------------------------------------------------------------------- */

/* Calls the fault's `output` function for an output. An output on a device is fetched, changed and copied back. */
static int change_output(struct fault *f, const struct call *c, struct tensor *t)
{
	const struct backend *b = f->rt->backend;

	if (t->type.kind != V_TENSOR || tensor_dtype(t) == DT_STRING || !t->bytes)
		return 0;
	if (!t->device)
		return f->spec->kind->output(f, c, t);
	struct tensor host = *t;
	host.device = 0;
	host.data = mem_alloc(t->bytes, MEM_STAGING);
	if (!host.data)
		return call_fail(c, E_MEMORY, "memory for a planted fault", "none");
	int err = b->copy(c->stream, host.data, 0, t->data, t->device, t->bytes, c->diag);
	err = err ? err : b->wait(c->stream, c->diag);
	err = err ? err : f->spec->kind->output(f, c, &host);
	err = err ? err : b->copy(c->stream, t->data, t->device, host.data, 0, t->bytes, c->diag);
	err = err ? err : b->wait(c->stream, c->diag);
	mem_free(host.data);
	return err;
}

static int run_with_faults(const struct call *c)
{
	/* this cast is valid because a step is the first member of its step_plan */
	struct fault *first = ((const struct step_plan *)(const void *)c->step)->fault;
	bool ran = false;
	int err = 0;

	for (struct fault *f = first; f && !err; f = f->next) {
		const struct kind *k = f->spec->kind;
		f->spec->runs++;
		if (k && k->before)
			err = k->before(f, c);
	}
	for (struct fault *f = first; f && !err && !ran; f = f->next) {
		const struct kind *k = f->spec->kind;
		ran = !k || k->around;
		if (!k)
			err = f->spec->own->run(c, f->kernel, f->spec->value);
		else if (k->around)
			err = k->around(f, c, f->kernel);
	}
	if (!err && !ran)
		err = first->kernel(c);
	for (struct fault *f = first; f && !err; f = f->next)
		for (uint32_t i = 0; i < c->step->nout && !err; i++)
			if (f->spec->kind && f->spec->kind->output && c->out[i])
				err = change_output(f, c, c->out[i]);
	return err;
}

bool fault_replays(const struct step_plan *p)
{
	for (const struct fault *f = p->fault; f; f = f->next)
		if (f->spec->kind || !f->spec->own->launches)
			return false;
	return true;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static bool find_kind(const struct runtime *rt, struct fault_spec *s, const char *name)
{
	for (const struct kind *k = kinds; k->name; k++) {
		if (!strcmp(k->name, name)) {
			s->kind = k;
			s->value = k->def;
			return true;
		}
	}
	for (const struct fault_kind *k = rt->backend->faults; k && k->name; k++) {
		if (!strcmp(k->name, name)) {
			s->own = k;
			s->value = k->def;
			return true;
		}
	}
	return false;
}

static bool where_matches(const struct runtime *rt, const char *where)
{
	static const char *const levels[] = {"none", "basic", "full"};
	const struct run_config *c = rt->config;

	return !where || !strcmp(where, rt->backend->name) ||
	       (c->optimize >= 0 && c->optimize < 3 && !strcmp(where, levels[c->optimize])) ||
	       (c->precision >= 0 && c->precision <= PRECISION_AUTO &&
		!strcmp(where, precision_names[c->precision])) ||
	       !strcmp(where, c->memory_plan ? "planned" : "unplanned");
}

static bool is_known_where(const char *where)
{
	static const char *const words[] = {"none", "basic", "full", "planned", "unplanned"};

	for (int p = 0; p < PRECISION_AUTO; p++)
		if (!strcmp(where, precision_names[p]))
			return true;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(where, words[i]))
			return true;
	return false;
}

/* Parses NODE:KIND[=VALUE][@WHERE]. The last colon ends NODE, because node names may contain colons themselves. */
static int parse_fault(struct runtime *rt, char *text, bool (*is_backend)(const char *name),
		       struct diag *d)
{
	struct fault_spec *s = arena_new(rt->arena, struct fault_spec);
	char *colon = strrchr(text, ':');

	if (!colon || colon == text)
		return FAIL(d, E_OPTION,
			    .message = fmt(d, "INFER_FAULT: '%s' is not NODE:KIND[=VALUE][@WHERE]",
					   text));
	*colon = 0;
	char *kind = colon + 1, *at = strchr(kind, '@'), *value = strchr(kind, '=');
	if (at)
		*at++ = 0;
	if (value)
		*value++ = 0;
	s->node = text;
	s->where = at;
	if (at && !is_backend(at) && !is_known_where(at))
		return FAIL(d, E_OPTION, .message = fmt(d, "INFER_FAULT: unknown '@%s'", at));
	s->applies = where_matches(rt, at);
	/* an unknown kind may belong to the backend of another device, whose session checks it */
	if (!find_kind(rt, s, kind) && s->applies)
		return FAIL(d, E_OPTION, .message = fmt(d, "INFER_FAULT: unknown kind '%s'", kind));
	char *end = NULL;
	if (value) {
		s->value = strtod(value, &end);
		if (end == value || *end)
			return FAIL(d, E_OPTION,
				    .message = fmt(d, "INFER_FAULT: '%s' is not a number", value));
	}
	s->next = rt->faults;
	rt->faults = s;
	return 0;
}

int faults_open(struct runtime *rt, bool (*is_backend)(const char *name), struct diag *d)
{
	const char *env = getenv("INFER_FAULT");
	char *text = env ? arena_str(rt->arena, env) : NULL, *save = NULL;

	rt->faults = NULL;
	for (char *one = text ? strtok_r(text, ",", &save) : NULL; one;
	     one = strtok_r(NULL, ",", &save)) {
		int err = parse_fault(rt, one, is_backend, d);
		if (err)
			return err;
	}
	return 0;
}

void faults_close(struct runtime *rt)
{
	for (struct fault_spec *s = rt->faults; s; s = s->next) {
		if (s->applies && !s->planted)
			fprintf(stderr,
				"INFER_FAULT: no step belongs to node '%s'; no fault was planted\n",
				s->node);
		while (s->held) {
			void *next = *s->held;
			free(s->held);
			s->held = next;
		}
	}
}

/* ---- planting ------------------------------------------------------------------------------- */

static bool origin_has_name(const struct origin *o, const char *name)
{
	if (!strcmp(o->name, name))
		return true;
	for (uint32_t i = 0; i < o->nfused; i++)
		if (origin_has_name(o->fused[i], name))
			return true;
	return false;
}

static bool fault_names_step(const struct fault_spec *s, const struct origin *o, uint32_t at)
{
	char *end = NULL;
	unsigned long n = strtoul(s->node, &end, 10);

	return s->applies && (origin_has_name(o, s->node) || (!*end && end != s->node && n == at));
}

int fault_plant(struct instance *x, struct segment *s, struct step_plan *p, uint32_t at,
		struct diag *d)
{
	(void)d;
	for (struct fault_spec *spec = x->rt->faults; spec; spec = spec->next) {
		if (!fault_names_step(spec, p->step.from, at))
			continue;
		struct fault *f = arena_new(&s->arena, struct fault);
		*f = (struct fault){spec, x->rt, p->run, p->fault};
		if (p->fault)
			f->kernel = p->fault->kernel;
		p->fault = f;
		p->run = run_with_faults;
		spec->planted = true;
	}
	return 0;
}

#endif
