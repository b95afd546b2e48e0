/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens libdnnl and runs the programs of primitives that reshape has built.
 *
 * Primitives compute in fp32: fp16 and bf16 inputs are widened to fp32 and the results rounded once, and fp16 and bf16
 * weights are widened when they are packed. A processor with AMX multiplies bf16 as it is, many times as fast, with sums in fp32;
 * only there primitives read and write bf16.
 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "base/dl.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/igemm.h"
#include "cpu/onednn/build.h"
#include "cpu/onednn/new.h"
#include "cpu/math/simd.h"

#include <pthread.h>
#include <string.h>

/* ---- the library ---------------------------------------------------------------------------- */

static const struct dl_symbol symbols[] = {
#define SYM(name) {#name, true},
#include "cpu/onednn/dnnl.def"
#undef SYM
};
enum { NSYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

struct onednn_api onednn_api;
dnnl_engine_t onednn_engine;
dnnl_stream_t onednn_stream;
static const char *missing; /* why libdnnl cannot be used; NULL if it can be used */
static char about[512];

static void library_open(void)
{
	/* The first is the name by which the library that the headers belong to calls itself. */
	static const char *const names[] = {DNNL_NAME, "libdnnl.so.3", NULL};
	static struct dl lib;
	void *table[NSYMBOLS];

	missing = about;
	if (dl_open(&lib, names, symbols, table, NSYMBOLS, NULL)) {
		snprintf(about, sizeof(about), DNNL_NAME " cannot be opened: %.400s", lib.tried);
		return;
	}
	onednn_check_memory(&lib);
	_Static_assert(sizeof(onednn_api) == sizeof(table), "one pointer a symbol");
	memcpy(&onednn_api, table, sizeof(onednn_api));
	const dnnl_version_t *v = onednn_api.dnnl_version();
	if (v->major != 3) {
		snprintf(about, sizeof(about), "%.400s is version %d, 3 is needed", lib.path,
			 v->major);
		return;
	}
	if (onednn_api.dnnl_engine_create(&onednn_engine, dnnl_cpu, 0) ||
	    onednn_api.dnnl_stream_create(&onednn_stream, onednn_engine, dnnl_stream_default_flags)) {
		snprintf(about, sizeof(about), "%.400s makes no CPU engine", lib.path);
		return;
	}
	snprintf(about, sizeof(about), "oneDNN %d.%d.%d (%.400s)", v->major, v->minor, v->patch,
		 lib.path);
	missing = NULL;
}

static bool library_usable(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, library_open);
	return !missing;
}

bool onednn_usable(struct why *w)
{
	return library_usable() || refuse(w, "%s", missing);
}

const char *onednn_about(void)
{
	library_usable();
	return about;
}

static const char *status_text(dnnl_status_t s)
{
	static const char *const text[] = {"success",
					   "out of memory",
					   "invalid arguments",
					   "unimplemented",
					   "last implementation reached",
					   "runtime error",
					   "not required"};
	return (size_t)s < sizeof(text) / sizeof(text[0]) ? text[s] : "unknown status";
}

int onednn_failed(struct diag *d, dnnl_status_t s, const char *what)
{
	return FAIL(d, s == dnnl_out_of_memory ? E_MEMORY : E_LIBRARY,
		    .message = "oneDNN refused a call",
		    .actual = fmt(d, "%s: %s", what, status_text(s)));
}

/* ---- running programs ------------------------------------------------------------------------ */

static void *address(const struct call *c, const struct program *p, const struct at *at)
{
	switch (at->place) {
	case AT_IN: return (char *)c->in[at->index]->data + at->offset;
	case AT_OUT: return (char *)c->out[at->index]->data + at->offset;
	case AT_WORK: return (char *)c->workspace + at->offset;
	case AT_SCRATCH: return (char *)c->workspace + p->work;
	case AT_FIXED: return (void *)(uintptr_t)at->fixed;
	case AT_NONE: break;
	}
	return NULL;
}

struct conversion {
	const struct action *action;
	const void *from;
	void *to;
};

static void convert_codes(const struct conversion *v, int64_t at, int64_t n)
{
	const struct igemm_kernels *k = igemm_kernels();
	bool is_signed = v->action->dtype == DT_I8;
	int32_t zero = v->action->zero;

	if (is_signed)
		k->dequantize_i8((const int8_t *)v->from + at, (float *)v->to + at, n, 1, zero);
	else
		k->dequantize_u8((const uint8_t *)v->from + at, (float *)v->to + at, n, 1, zero);
}

/* Converts rows of sums, each of which has the whole list of scales but perhaps the last one. */
static void encode_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct conversion *v = arg;
	const struct action *a = v->action;
	bool is_signed = a->dtype == DT_I8;

	(void)thread;
	for (int64_t i = begin * a->width, n; begin < end; begin++, i += n) {
		n = a->count - i < a->width ? a->count - i : a->width;
		igemm_kernels()->requantize_floats((const float *)v->from + i, (uint8_t *)v->to + i,
						   n, a->scale, 1, a->zero, is_signed ? -128 : 0,
						   is_signed ? 127 : 255);
	}
}

static void convert_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct conversion *v = arg;
	enum dtype t = v->action->dtype;
	(void)thread;
	if (v->action->kind == DO_WIDEN)
		simd_to_f32(t, v->from, begin, end - begin, (float *)v->to + begin);
	else if (v->action->kind == DO_NARROW)
		simd_from_f32(t, (const float *)v->from + begin, end - begin, v->to, begin);
	else
		convert_codes(v, begin, end - begin);
}

/* Broadcasts the strided source `from` to the dense target `to`. */
static void broadcast_copy(const struct action *a, const float *from, float *to)
{
	int64_t pos[MAX_RANK] = {0}, inner = a->dim[a->rank - 1], step = a->stride[a->rank - 1];
	for (int64_t done = 0; done < a->count; done += inner) {
		const float *row = from;
		for (int i = 0; i < a->rank - 1; i++)
			row += pos[i] * a->stride[i];
		if (step)
			memcpy(to + done, row, (size_t)inner * sizeof(float));
		else
			for (int64_t k = 0; k < inner; k++)
				to[done + k] = *row;
		for (int i = a->rank - 2; i >= 0 && ++pos[i] == a->dim[i]; i--)
			pos[i] = 0;
	}
}

static int run_primitive(const struct call *c, const struct program *p, const struct action *a)
{
	for (uint32_t i = 0; i < a->n; i++) {
		dnnl_status_t s = onednn_api.dnnl_memory_set_data_handle(a->arg[i].memory,
									 address(c, p, &a->at[i]));
		if (s != dnnl_success)
			return onednn_failed(c->diag, s, "dnnl_memory_set_data_handle");
	}
	dnnl_status_t s =
		onednn_api.dnnl_primitive_execute(a->primitive, onednn_stream, (int)a->n, a->arg);
	return s == dnnl_success ? 0 : onednn_failed(c->diag, s, "dnnl_primitive_execute");
}

struct activation_loop {
	const struct apart *apart;
	void *y;
};

static void activate_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct activation_loop *v = arg;
	(void)thread;
	if (v->apart->type == DT_F32) {
		act_f32(v->apart->act, v->apart->alpha, v->apart->beta, (float *)v->y + begin,
			end - begin);
		return;
	}
	float part[1024];
	for (int64_t i = begin, n; i < end; i += n) {
		n = end - i < 1024 ? end - i : 1024;
		simd_to_f32(v->apart->type, v->y, i, n, part);
		act_f32(v->apart->act, v->apart->alpha, v->apart->beta, part, n);
		simd_from_f32(v->apart->type, part, n, v->y, i);
	}
}

/* Runs the primitive without its activation, and then the activation. */
static int run_apart(const struct call *c, struct program *p)
{
	struct apart *x = &p->apart;
	if (!x->action.primitive) {
		dnnl_status_t s = onednn_api.dnnl_primitive_create(&x->action.primitive, x->desc);
		if (s != dnnl_success)
			return onednn_failed(c->diag, s, "dnnl_primitive_create");
	}
	int r = run_primitive(c, p, &x->action);
	if (!r)
		pool_for(x->count, 16384, activate_piece,
			 &(struct activation_loop){x, address(c, p, &x->y)});
	return r;
}

/* Runs the primitive with its activation. Returns RUN_AGAIN if the activation may have lost a NaN or an infinity. */
static int run_fused(const struct call *c, const struct program *p)
{
	pool_clear_exceptions();
	int r = run_primitive(c, p, p->fused);
	return r || !(pool_exceptions() & p->apart.exceptions) ? r : RUN_AGAIN;
}

/* Whether the program adds to an input in place, so that it cannot simply run once more. */
static bool in_place(const struct call *c, const struct program *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->action[i].kind == DO_COPY &&
		    address(c, p, &p->action[i].at[0]) == address(c, p, &p->action[i].at[1]))
			return true;
	return false;
}

static int run_program(const struct call *c, struct program *p, bool apart)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct action *a = &p->action[i];
		if (a->kind == DO_PRIMITIVE) {
			int r = a != p->fused ? run_primitive(c, p, a)
				: apart	      ? run_apart(c, p)
					      : run_fused(c, p);
			if (r)
				return r;
			continue;
		}
		const void *from = address(c, p, &a->at[0]);
		void *to = address(c, p, &a->at[1]);
		if (a->kind == DO_EXPAND) {
			broadcast_copy(a, from, to);
		} else if (a->kind == DO_COPY) {
			if (from != to)
				memcpy(to, from, (size_t)a->count);
		} else {
			struct conversion v = {a, from, to};
			if (a->kind == DO_ENCODE)
				pool_for((a->count + a->width - 1) / a->width, 1 + 16384 / a->width,
					 encode_piece, &v);
			else
				pool_for(a->count, 16384, convert_piece, &v);
		}
	}
	return 0;
}

int onednn_run(const struct call *c)
{
	struct program *p = c->step->state;
	int r = run_program(c, p, p->apart.now || c->step->careful);
	if (r != RUN_AGAIN)
		return r;
	p->apart.now = true; /* what one run has met, the next probably meets as well */
	return in_place(c, p) ? RUN_AGAIN : run_program(c, p, true);
}

static void action_drop(struct action *a)
{
	for (uint32_t k = 0; k < a->n; k++)
		if (a->arg[k].memory)
			onednn_api.dnnl_memory_destroy(a->arg[k].memory);
	if (a->primitive)
		onednn_api.dnnl_primitive_destroy(a->primitive);
}

void onednn_drop(struct step *step)
{
	struct program *p = step->state;
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n; i++)
		action_drop(&p->action[i]);
	action_drop(&p->apart.action);
	if (p->apart.desc)
		onednn_api.dnnl_primitive_desc_destroy(p->apart.desc);
	memset(p, 0, sizeof(*p));
}

#else /* HAVE_DNNL */

/* Built without oneDNN's headers: every kernel refuses its node, so that none of these functions runs a step. */

bool onednn_usable(struct why *w)
{
	return refuse(w, "built without oneDNN");
}

const char *onednn_about(void)
{
	return "built without oneDNN";
}

int onednn_run(const struct call *c)
{
	return call_fail(c, E_LIBRARY, "oneDNN", onednn_about());
}

void onednn_drop(struct step *step)
{
	(void)step;
}

#define ABSENT(what)                                                                               \
	bool onednn_##what##_accepts(const struct site *s, struct why *w)                          \
	{                                                                                          \
		(void)s;                                                                           \
		return onednn_usable(w);                                                           \
	}                                                                                          \
	int onednn_##what##_reshape(struct site *s, struct step *step, struct diag *d)             \
	{                                                                                          \
		(void)s;                                                                           \
		(void)step;                                                                        \
		return FAIL(d, E_LIBRARY, .actual = onednn_about());                               \
	}
bool onednn_qconv_of_bytes(const struct site *s)
{
	(void)s;
	return false;
}
ABSENT(conv)
ABSENT(qconv)
ABSENT(deconv)
ABSENT(fused_conv)
ABSENT(gemm)
ABSENT(matmul)
ABSENT(fused_gemm)
ABSENT(pool)

#endif
