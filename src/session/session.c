/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include "backend/weight_store.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/proc.h"
#include "input/input.h"
#include "onnx/load.h"
#include "onnx/weights.h"
#include "opt/pipeline.h"
#include "plan/fault.h"
#include "plan/upload.h"
#include "session/backends.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct session {
	struct arena arena;
	struct run_config config;
	struct model *model;
	struct runtime runtime;
	size_t most_memory; /* of the machine, that one plan may take on the host; 0 until it is known */
	struct instance *instance;
	struct session_times times;
	const char *why;
	/*
	 * for each symbolic dimension: its size in the inputs of the current call, -1 if not known
	 * yet
	 */
	int64_t *bound;
	uint32_t nbound;
	struct uploaded *uploaded;
	/* by input: an aligned copy of what the caller gave at another address; NULL: none was needed so far */
	struct uploaded *aligned;
	const struct tensor **aligned_in;
	session_foresee *foresee;
	void *foresee_arg;
	unsigned foresee_parity;
};

/* A tensor that session_upload() made; freed with the session. */
struct uploaded {
	struct buffer buffer;
	struct tensor tensor;
	struct uploaded *next;
};

static void add_warm_parts(const struct graph *g, const struct node *n, void *arg)
{
	unsigned *what = arg;
	unsigned flags = n->op ? op_flags(n->op) : 0;

	(void)g;
	if (flags & OP_CONVOLUTION)
		*what |= WARM_CONVOLUTIONS;
	if (flags & OP_PRODUCT)
		*what |= WARM_PRODUCTS;
}

/*
 * Returns the parts of the device's software (WARM_*) that the model's operators are likely to use.
 */
static unsigned warm_parts_of(const struct model *m)
{
	unsigned what = 0;

	graph_each_node(m->graph, add_warm_parts, &what);
	return what;
}

static bool is_auto(const char *device)
{
	return !device || !strcmp(device, "auto");
}

/*
 * Returns true if the user asked for an accelerator, or if `auto` will find one. Opens no device.
 */
static bool expects_accelerator(const struct run_config *c)
{
	struct diag why = {0};

	if (!is_auto(c->device)) {
		const struct backend *b = backend_named(c->device, NULL);
		return b && b != host_backend();
	}
	bool found = accelerator_found(&why);
	diag_free(&why);
	return found;
}

/* Puts sizes in place of the symbols that have one, in all that the file declares of the values of a graph and its bodies. */
static void set_symbols(struct graph *g, const int64_t *size, uint32_t n)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		struct shape *s = &g->value[i]->info.shape;
		for (int k = 0; k < s->rank; k++)
			if (dim_is_sym(s->dim[k]) && DIM_SYM_ID(s->dim[k]) < n &&
			    size[DIM_SYM_ID(s->dim[k])] >= 0)
				s->dim[k] = size[DIM_SYM_ID(s->dim[k])];
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; k < g->node[i]->nsub; k++)
			set_symbols(g->node[i]->sub[k], size, n);
}

/*
 * Gives the inputs the shapes that config->fixed_dims and fixed_shapes ask for, before the model is optimized. A symbol that has the
 * same size in all inputs has it everywhere.
 */
static int fix_shapes(struct model *m, const struct run_config *c, struct diag *d)
{
	const struct input_request r = {.dim = c->fixed_dims, .shape = c->fixed_shapes};
	struct graph *g = m->graph;
	struct arena a = {0};
	uint32_t n = m->nsymbols;
	struct shape *shapes = arena_new_n(&a, struct shape, g->nin + 1);
	int64_t *size = arena_new_n(&a, int64_t, n + 1);
	int rc = input_shapes(m, &r, shapes, d);

	for (uint32_t k = 0; k < n; k++)
		size[k] = DIM_UNKNOWN;
	for (uint32_t i = 0; !rc && i < g->nin; i++) {
		struct shape *s = &g->value[g->in[i]]->info.shape;
		for (int k = 0; k < s->rank && shapes[i].rank == s->rank; k++)
			if (dim_is_sym(s->dim[k]) && DIM_SYM_ID(s->dim[k]) < n) {
				int64_t *to = &size[DIM_SYM_ID(s->dim[k])];
				bool other = *to != DIM_UNKNOWN && *to != shapes[i].dim[k];
				*to = other || shapes[i].dim[k] < 0 ? s->dim[k] : shapes[i].dim[k];
			}
	}
	for (uint32_t i = 0; !rc && i < g->nin; i++)
		g->value[g->in[i]]->info.shape = shapes[i];
	if (!rc)
		set_symbols(g, size, n);
	arena_free(&a);
	return rc;
}

/* The lowest compute capability, times ten, of a device whose tensor cores multiply float8. */
enum { FLOAT8_CAPABILITY = 89, MAX_DEVICES = 64 };

/* Takes fp16 in place of fp8, with a warning, if the device that the session will open cannot multiply float8. */
static void lower_float8(struct run_config *c, struct diag *d)
{
	struct device_info info[MAX_DEVICES];
	int ordinal = 0;
	const struct backend *b = is_auto(c->device) ? NULL : backend_named(c->device, &ordinal);

	for (int i = FIRST_ACCELERATOR; i < BACKENDS && c->precision == PRECISION_FP8; i++) {
		struct diag why = {0};
		int n = b && b != backends[i] ? 0 : backends[i]->probe(info, MAX_DEVICES, &why);
		for (int k = 0; k < n; k++) {
			int has = 10 * info[k].compute_major + info[k].compute_minor;
			if (info[k].ordinal != ordinal || has >= FLOAT8_CAPABILITY)
				continue;
			c->precision = PRECISION_FP16;
			WARN(d, E_OPTION, .slot = "--precision",
			     .message = "the device cannot multiply fp8: fp16 is used",
			     .expected = "a device of compute capability 8.9 or more",
			     .actual = fmt(d, "%s of compute capability %d.%d", info[k].name,
					   info[k].compute_major, info[k].compute_minor));
		}
		diag_free(&why);
	}
}

struct session *session_open(const char *path, const struct run_config *config, struct diag *d)
{
	struct arena a = {0};
	struct session *s = arena_new(&a, struct session);
	uint64_t t0 = clock_ns();

	s->arena = a;
	s->config = *config;
	for (int i = 0; i < BACKENDS; i++)
		if (backends[i]->configure)
			backends[i]->configure(&s->config);
	/*
	 * start the driver while the model is read; the libraries are opened below, while the
	 * caller reads inputs
	 */
	backends_warm_begin(config->device, WARM_DRIVER);
	if (config->threads > 0)
		pool_set_threads((int)config->threads);
	struct load_options load = {.external_root = config->external_root,
				    .to_file = config->to_file,
				    .given = config->given,
				    .ngiven = sizeof(config->given) / sizeof(*config->given)};
	s->model = onnx_load(path, &load, d);
	s->times.load = clock_ns() - t0;
	t0 = clock_ns();
	s->config.gpu = expects_accelerator(&s->config);
	if (s->config.gpu && s->config.precision == PRECISION_FP8)
		lower_float8(&s->config, d);
	bool fixed = s->config.fixed_dims.n > 0 || s->config.fixed_shapes.n > 0;
	if (!s->model || (fixed && fix_shapes(s->model, &s->config, d)) ||
	    opt_run(s->model, host_backend(), &s->config, d)) {
		diag_where(d, path, NULL, NULL);
		session_close(s);
		return NULL;
	}
	s->times.optimize = clock_ns() - t0;
	backends_warm_begin(config->device, warm_parts_of(s->model));
	return s;
}

static void close_devices(struct runtime *rt)
{
	faults_close(rt);
	store_free(rt->store);
	uploads_free(rt);
	if (rt->device && rt->device != rt->host)
		rt->backend->close(rt->device);
	if (rt->host)
		host_backend()->close(rt->host);
}

void session_close(struct session *s)
{
	if (!s)
		return;
	instance_free(s->instance);
	for (struct uploaded *u = s->uploaded; u; u = u->next)
		s->runtime.backend->free(s->runtime.device, &u->buffer);
	for (uint32_t i = 0; s->aligned && i < s->model->graph->nin; i++)
		if (s->aligned[i].buffer.ptr)
			s->runtime.backend->free(s->runtime.device, &s->aligned[i].buffer);
	close_devices(&s->runtime);
	onnx_unload(s->model);
	backends_warm_end();
	struct arena a = s->arena;
	arena_free(&a);
}

const struct model *session_model(const struct session *s)
{
	return s->model;
}

const struct run_config *session_config(const struct session *s)
{
	return &s->config;
}

bool session_has_device(const struct session *s)
{
	return has_device(&s->runtime);
}

const char *session_device(const struct session *s)
{
	return s->runtime.backend ? s->runtime.backend->name : "none";
}

const char *session_choices(const struct session *s, bool each, struct arena *a)
{
	const struct backend *b = s->runtime.backend;

	return b && b->choices && s->runtime.device ? b->choices(s->runtime.device, each, a) : NULL;
}

const char *session_fallback(const struct session *s, size_t i, struct arena *a)
{
	const struct backend *b = s->runtime.backend;

	return b && b->fallback && s->runtime.device ? b->fallback(s->runtime.device, i, a) : NULL;
}

const char *session_device_why(const struct session *s)
{
	return s->why ? s->why : "not opened yet";
}

const char *session_device_text(const struct session *s, struct arena *a)
{
	bool news = s->config.device_given || s->config.gpu;

	return news ? arena_printf(a, "%s (%s)", session_device(s), session_device_why(s))
		    : session_device(s);
}

/* Lets the system drop the pages of the model's file that hold an initializer, once it has been packed. */
static void drop_pages(void *model, const struct tensor *t)
{
	weights_drop(model, t);
}

static int open_accelerator(struct session *s, const struct backend *b, int ordinal, struct diag *d)
{
	struct device *device = b->open(ordinal, &s->config, d);

	if (!device)
		return -E_DEVICE;
	s->runtime.backend = b;
	s->runtime.device = device;
	s->runtime.stream = b->stream ? b->stream(device) : NULL;
	return 0;
}

/*
 * Returns the reason why `auto` could not use an accelerator, as a short text that lives as long as
 * the session.
 */
static const char *describe_refusal(struct session *s, const struct diag *why)
{
	const struct finding *f = why->first;
	const char *what = f ? f->message ? f->message : code_title(f->code) : "no reason given";

	return arena_printf(&s->arena, "no usable GPU: %s", what);
}

/* Opens the first accelerator that can be opened, or else uses the host. */
static void choose_automatically(struct session *s)
{
	s->why = NULL;
	for (int i = FIRST_ACCELERATOR; i < BACKENDS && s->runtime.backend == host_backend(); i++) {
		struct diag why = {0};
		if (open_accelerator(s, backends[i], 0, &why) && !s->why)
			s->why = describe_refusal(s, &why);
		diag_free(&why);
	}
	if (s->runtime.backend != host_backend())
		s->why = "auto found it";
}

/* Opens the device that the user named. A named device is never replaced by another one. */
static int choose_device(struct session *s, const char *name, struct diag *d)
{
	int ordinal = 0;
	const struct backend *b = backend_named(name, &ordinal);

	if (is_auto(name)) {
		choose_automatically(s);
		return 0;
	}
	s->why = "asked for";
	if (!b)
		return FAIL(d, E_DEVICE, .expected = backend_words(&d->arena),
			    .actual = fmt(d, "%s", name),
			    .hint = strchr(name, ',') || !strcmp(name, "all")
					    ? "several devices share the inputs of infer run with many inputs"
					    : NULL);
	return b == host_backend() ? 0 : open_accelerator(s, b, ordinal, d);
}

/*
 * Refuses TF32 and FP8 on the CPU: they are modes of NVIDIA's tensor cores, and the CPU has no such
 * arithmetic.
 */
static int check_precision(const struct session *s, struct diag *d)
{
	int p = s->config.precision;

	if ((p != PRECISION_TF32 && p != PRECISION_FP8) || s->runtime.backend != s->runtime.cpu)
		return 0;
	if (p == PRECISION_FP8 && s->config.simulate_fp8)
		return 0;
	return FAIL(d, E_OPTION, .message = fmt(d, "%s needs a GPU", precision_names[p]),
		    .expected = "--precision fp32, fp16 or bf16 on the CPU",
		    .actual = s->why ? fmt(d, "%s on the CPU (%s)", precision_names[p], s->why)
				     : precision_names[p]);
}

static bool is_backend(const char *name)
{
	return backend_named(name, NULL) != NULL;
}

/* Opens the device at the first prepare or run, and keeps it until the session is closed. */
int session_start(struct session *s, struct diag *d)
{
	uint64_t t0 = clock_ns();
	const char *name = s->config.device ? s->config.device : "auto";

	if (s->instance)
		return 0;
	close_devices(&s->runtime); /* of a start that failed */
	s->runtime = (struct runtime){.backend = host_backend(),
				      .cpu = host_backend(),
				      .config = &s->config,
				      .store = store_new(drop_pages, s->model),
				      .observer = s->runtime.observer,
				      .arena = &s->arena};
	s->runtime.host = host_backend()->open(0, &s->config, d);
	if (!s->runtime.host)
		return FAIL(d, E_DEVICE, .message = "the CPU backend did not open");
	s->runtime.device = s->runtime.host;
	int err = choose_device(s, name, d);
	if (!err)
		err = check_precision(s, d);
	err = err ? err : faults_open(&s->runtime, is_backend, d);
	if (err)
		return err;
	s->instance = instance_new(s->model->graph, &s->runtime);
	s->times.open = clock_ns() - t0;
	return 0;
}

/*
 * Checks that a symbolic dimension has the same size in all inputs. `bound` is indexed by symbol
 * and holds the size, or -1 if the symbol has not been seen yet.
 */
static int check_dims(const struct session *s, const struct value *v, const struct tensor *t,
		      int64_t *bound, struct diag *d)
{
	const struct shape *want = &v->info.shape;

	if (want->rank < 0)
		return 0;
	if (want->rank != t->shape.rank)
		return FAIL(d, E_INPUT_RANK, .slot = fmt(d, "input '%s'", v->name),
			    .expected = shape_str(&d->arena, want, s->model->symbols),
			    .actual = shape_str(&d->arena, &t->shape, NULL));
	for (int i = 0; i < want->rank; i++) {
		int64_t w = want->dim[i], n = t->shape.dim[i];
		if (dim_is_sym(w)) {
			int64_t *b = &bound[DIM_SYM_ID(w)];
			if (*b < 0)
				*b = n;
			w = *b;
		}
		if (w >= 0 && w != n)
			return FAIL(d, E_INPUT_SHAPE, .slot = fmt(d, "input '%s'", v->name),
				    .expected = fmt(d, "%s with dimension %d = %" PRId64,
						    shape_str(&d->arena, want, s->model->symbols),
						    i, w),
				    .actual = shape_str(&d->arena, &t->shape, NULL));
	}
	return 0;
}

static int check_inputs(const struct session *s, const struct tensor *const *in, int64_t *bound,
			struct diag *d)
{
	const struct graph *g = s->model->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		if (!in[i])
			return FAIL(d, E_INPUT_MISSING, .slot = fmt(d, "input '%s'", v->name));
		if (v->info.type.kind != V_NONE && (v->info.type.kind != in[i]->type.kind ||
						    v->info.type.dtype != in[i]->type.dtype))
			return FAIL(d, E_INPUT_TYPE, .slot = fmt(d, "input '%s'", v->name),
				    .expected = type_str(&d->arena, v->info.type),
				    .actual = type_str(&d->arena, in[i]->type));
		int err = in[i]->type.kind == V_TENSOR ? check_dims(s, v, in[i], bound, d) : 0;
		if (err)
			return err;
	}
	return 0;
}

/*
 * Without --memory-limit, a model may take memory in proportion to what came in: a file of some bytes must not fill the
 * machine. Real models stay far below: they have weights, or large inputs.
 */
static const size_t ALWAYS_ALLOWED = (size_t)1 << 30;
enum { ALLOWED_GROWTH = 64 };

static void set_host_limit(struct session *s, const struct tensor *const *in)
{
	const struct model *m = s->model;
	size_t given = m->file_bytes + m->external_bytes;
	int64_t limit = s->config.memory_limit;

	if (limit != INT_ABSENT) {
		s->runtime.host_limit = limit > 0 && !has_device(&s->runtime) ? (size_t)limit : 0;
		return;
	}
	if (!s->most_memory) {
		s->most_memory = proc_available() / 4 * 3;
		s->most_memory = s->most_memory ? s->most_memory : SIZE_MAX;
	}
	for (uint32_t i = 0; i < m->graph->nin; i++)
		given += in[i]->bytes;
	size_t allowed = given > (SIZE_MAX - ALWAYS_ALLOWED) / ALLOWED_GROWTH
				 ? SIZE_MAX
				 : ALWAYS_ALLOWED + given * ALLOWED_GROWTH;
	s->runtime.host_limit = allowed < s->most_memory ? allowed : s->most_memory;
}

static int check_and_start(struct session *s, const struct tensor *const *in, struct diag *d)
{
	uint32_t n = s->model->nsymbols;

	if (n > s->nbound) { /* allocate the array only once, because a run must not allocate */
		s->bound = arena_new_n(&s->arena, int64_t, n);
		s->nbound = n;
	}
	for (uint32_t i = 0; i < n; i++)
		s->bound[i] = -1;
	int err = check_inputs(s, in, s->bound, d);
	if (!err)
		err = session_start(s, d);
	if (!err)
		set_host_limit(s, in);
	return err;
}

/*
 * Makes the device's context current for the duration of a call. leave_device() restores the
 * caller's context.
 */
static int enter_device(struct session *s, struct diag *d)
{
	const struct backend *b = s->runtime.backend;

	return b->enter ? b->enter(s->runtime.device, d) : 0;
}

static int leave_device(struct session *s, int err, struct diag *d)
{
	const struct backend *b = s->runtime.backend;
	int left = b->leave ? b->leave(s->runtime.device, err ? NULL : d) : 0;

	return err ? err : left;
}

/* A tensor with spare capacity lies in memory of a stepper's, which begins where kernels take it. */
static bool is_misplaced(const struct tensor *t, size_t unit)
{
	return t->device && t->bytes && !t->capacity && (uintptr_t)t->data % unit;
}

/*
 * Makes *in tensors whose addresses kernels take: those of *in, or copies on the device where a caller gave another address. Their memory is
 * kept for later runs.
 */
static int align_inputs(struct session *s, const struct tensor *const **in, struct diag *d)
{
	const struct runtime *rt = &s->runtime;
	const size_t unit = rt->backend->alignment;
	uint32_t n = s->model->graph->nin, odd = 0;
	int err = 0;

	for (uint32_t i = 0; i < n && unit; i++)
		odd += is_misplaced((*in)[i], unit);
	if (!odd)
		return 0;
	if (!s->aligned) {
		s->aligned = arena_new_n(&s->arena, struct uploaded, n);
		s->aligned_in = arena_new_n(&s->arena, const struct tensor *, n);
	}
	for (uint32_t i = 0; i < n && !err; i++) {
		const struct tensor *t = s->aligned_in[i] = (*in)[i];
		struct uploaded *u = &s->aligned[i];
		if (!is_misplaced(t, unit))
			continue;
		if (u->buffer.ptr && u->buffer.bytes < t->bytes)
			rt->backend->free(rt->device, &u->buffer);
		if (u->buffer.bytes < t->bytes) {
			u->buffer = (struct buffer){0};
			err = rt->backend->alloc(rt->device, t->bytes, MEM_STAGING, &u->buffer, d);
		}
		err = err ? err
			  : rt->backend->copy(rt->stream, u->buffer.ptr, t->device, t->data,
					      t->device, t->bytes, d);
		u->tensor = *t;
		u->tensor.data = u->buffer.ptr;
		s->aligned_in[i] = &u->tensor;
	}
	*in = s->aligned_in;
	return err;
}

int session_prepare(struct session *s, const struct tensor *const *in,
		    struct segment_report *report, struct diag *d)
{
	int err = check_and_start(s, in, d);
	uint64_t t0 = clock_ns();

	if (!err)
		err = enter_device(s, d);
	if (err)
		return err;
	err = leave_device(s, instance_prepare(s->instance, in, report, d), d);
	s->times.plan = clock_ns() - t0;
	return err;
}

int session_run(struct session *s, const struct tensor *const *in, const struct tensor **out,
		struct diag *d)
{
	int err = check_and_start(s, in, d);
	uint64_t t0 = clock_ns();

	if (!err)
		err = enter_device(s, d);
	if (err)
		return err;
	if (!s->config.arena)
		instance_release(s->instance);
	instance_set_parity(s->instance, 0);
	err = align_inputs(s, &in, d);
	err = err ? err : instance_run(s->instance, in, out, d);
	const struct tensor *const *next =
		!err && s->runtime.outputs_stay && s->foresee ? s->foresee(s->foresee_arg) : NULL;
	if (next && s->foresee_parity)
		(void)instance_foresee(s->instance, next, s->foresee_parity, NULL);
	else if (next)
		instance_plan_ahead(s->instance, next);
	if (!err && s->runtime.outputs_stay)
		err = s->runtime.backend->wait(s->runtime.stream, d);
	err = leave_device(s, err, d);
	s->times.run = clock_ns() - t0;
	return err;
}

bool session_foresees(struct session *s, const struct tensor *const *in, unsigned parity, size_t *bytes)
{
	struct runtime *rt = &s->runtime;
	struct diag unread = {0};
	bool can = has_device(rt) && rt->outputs_stay && !rt->observer && s->config.arena &&
		   s->config.sync == SYNC_ASYNC && !check_and_start(s, in, &unread);

	if (can && !enter_device(s, &unread)) {
		can = instance_foresee(s->instance, in, parity, bytes);
		can = !leave_device(s, 0, &unread) && can;
	}
	diag_free(&unread);
	return can;
}

bool session_grows(const struct session *s, uint32_t in, uint32_t out, instance_fed *fed,
		   const void *arg, uint32_t *at)
{
	return s->instance && instance_grows(s->instance, in, out, fed, arg, at);
}

int session_launch(struct session *s, const struct tensor *const *in, unsigned parity,
		   const struct tensor **out, struct diag *d)
{
	int err = check_and_start(s, in, d);

	err = err ? err : enter_device(s, d);
	if (err)
		return err;
	err = align_inputs(s, &in, d);
	return leave_device(s, err ? err : instance_launch(s->instance, in, parity, out, d), d);
}

void session_forget_recordings(struct session *s)
{
	if (s->instance)
		instance_forget_recordings(s->instance);
}

uint64_t session_device_used(struct session *s)
{
	const struct backend *b = s->runtime.backend;
	uint64_t unused = 0, total = 0;

	if (!s->instance || !b->memory || b->memory(s->runtime.device, &unused, &total, NULL))
		return 0;
	return total - unused;
}

int session_use_stream(struct session *s, void *stream, struct diag *d)
{
	int err = session_start(s, d);

	if (err)
		return err;
	if (!s->runtime.backend->use_stream)
		return FAIL(d, E_DEVICE, .expected = "a session on a GPU",
			    .actual = session_device(s));
	return s->runtime.backend->use_stream(s->runtime.device, stream, d);
}

const struct tensor *session_upload(struct session *s, const struct tensor *t, struct diag *d)
{
	struct uploaded *u = arena_new(&s->arena, struct uploaded);
	struct runtime *rt = &s->runtime;

	if (session_start(s, d))
		return NULL;
	int on = rt->backend != rt->cpu;
	if (t->type.kind != V_TENSOR || t->type.dtype == DT_STRING) {
		FAIL(d, E_INPUT_TYPE, .expected = "a tensor of numbers",
		     .actual = type_str(&d->arena, t->type));
		return NULL;
	}
	if (rt->backend->alloc(rt->device, t->bytes, MEM_STAGING, &u->buffer, d))
		return NULL;
	u->next = s->uploaded;
	s->uploaded = u;
	u->tensor = *t;
	u->tensor.data = u->buffer.ptr;
	u->tensor.device = on;
	u->tensor.arena = NULL;
	if (rt->backend->copy(rt->stream, u->buffer.ptr, on, t->data, 0, t->bytes, d))
		return NULL;
	return &u->tensor;
}

int session_outputs_stay(struct session *s, bool stay, struct diag *d)
{
	int err = session_start(s, d);

	if (!err && s->runtime.outputs_stay != stay)
		instance_forget(s->instance);
	s->runtime.outputs_stay = stay;
	return err;
}

int session_place(struct session *s, uint32_t k, struct placed to, struct diag *d)
{
	int err = session_start(s, d);

	if (!err)
		instance_place(s->instance, k, to);
	return err;
}

int session_copy(struct session *s, void *to, int device, const struct tensor *t, struct diag *d)
{
	struct runtime *rt = &s->runtime;
	int err = session_start(s, d), rank = t->shape.rank;

	if (err || !t->capacity || rank < 2)
		return err ? err
			   : rt->backend->copy(rt->stream, to, device, t->data, t->device, t->bytes,
					       d);
	int64_t rows = shape_span(&t->shape, 0, rank - 2), positions = t->shape.dim[rank - 2];
	size_t each = rows && positions ? t->bytes / (size_t)(rows * positions) : 0;
	for (int64_t i = 0; !err && each && i < rows; i++)
		err = rt->backend->copy(rt->stream, (char *)to + (size_t)(i * positions) * each,
					device, (char *)t->data + (size_t)(i * t->capacity) * each,
					t->device, (size_t)positions * each, d);
	return err;
}

int session_fetch(struct session *s, void *to, const struct tensor *t, struct diag *d)
{
	return session_copy(s, to, 0, t, d);
}

void session_plan_ahead(struct session *s, session_foresee *inputs, void *arg, unsigned parity)
{
	s->foresee = inputs;
	s->foresee_arg = arg;
	s->foresee_parity = parity;
}

void session_observe(struct session *s, struct observer *o)
{
	s->runtime.observer = o;
}

struct session_times session_times(const struct session *s)
{
	struct session_times t = s->times;

	t.planned = s->runtime.plan_ns;
	return t;
}

struct runtime *session_runtime(struct session *s)
{
	return &s->runtime;
}
