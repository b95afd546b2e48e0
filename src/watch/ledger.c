/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the objects of a ledger from events: contexts and streams with their creators, and failed calls. */
#include "watch/inject/shared.h"
#include "watch/ledger.h"

#include <string.h>

/* Grows an array in the ledger's arena, if it is full, to have room for one more element. */
#define RESERVE_ONE(l, array, n, cap)                                                              \
	do {                                                                                       \
		if ((n) == (cap)) {                                                                \
			(cap) = (cap) ? 2 * (cap) : 16;                                            \
			(array) = arena_grow(&(l)->arena, (array), (n), (cap), sizeof(*(array)));  \
		}                                                                                  \
	} while (0)

/* Returns the newest context with this handle, because the driver reuses handles. */
static struct ledger_context *context_of(struct ledger *l, uint64_t handle)
{
	for (size_t i = l->ncontexts; i-- > 0;)
		if (l->context[i].handle == handle)
			return &l->context[i];
	return NULL;
}

static struct ledger_context *context_add(struct ledger *l, const struct event *e)
{
	RESERVE_ONE(l, l->context, l->ncontexts, l->cap_contexts);
	struct ledger_context *c = &l->context[l->ncontexts++];
	*c = (struct ledger_context){.handle = event_handle(e, "context"),
				     .device = -1,
				     .born = e->seconds,
				     .gone = -1,
				     .thread = e->thread,
				     .by = event_text(e, "by", 0)};
	return c;
}

static void on_context_kind(struct ledger *l, const struct event *e)
{
	struct ledger_context *c = context_of(l, event_handle(e, "context"));

	if (!c || c->gone >= 0)
		c = context_add(l, e);
	const char *whose = event_text(e, "cost_of", 0);
	if (whose) {
		c->cost = event_number(e, "cost");
		c->cost_of_all = strcmp(whose, "process") != 0;
	}
	if (c->known)
		return;
	c->known = true;
	c->primary = event_number(e, "primary");
	c->device = (int)event_number(e, "device");
	c->call = event_text(e, "call", 0);
	c->by = event_text(e, "by", 0);
}

static void on_context_gone(struct ledger *l, const struct event *e)
{
	struct ledger_context *c = context_of(l, event_handle(e, "context"));

	if (c) {
		c->gone = e->seconds;
		c->gone_by = event_text(e, "by", 0);
	}
}

static void on_stream(struct ledger *l, const struct event *e)
{
	RESERVE_ONE(l, l->stream, l->nstreams, l->cap_streams);
	l->stream[l->nstreams++] = (struct ledger_stream){
		event_handle(e, "stream"), event_handle(e, "context"), event_text(e, "by", 0)};
}

static void on_fail(struct ledger *l, const struct event *e)
{
	RESERVE_ONE(l, l->failure, l->nfailures, l->cap_failures);
	l->failure[l->nfailures++] =
		(struct ledger_failure){event_number(e, "number"), event_number(e, "result"), 1, *e};
}

static void on_repeats(struct ledger *l, const struct event *e)
{
	for (size_t i = 0; i < l->nfailures; i++)
		if (l->failure[i].number == event_number(e, "number"))
			l->failure[i].count = event_number(e, "count");
}

static void on_start(struct ledger *l, const struct event *e)
{
	l->started = true;
	l->program = event_text(e, "program", 0);
	l->cupti = event_number(e, "cupti");
	l->subscribed = event_number(e, "result");
	l->why = event_text(e, "why", 0);
	l->other = event_text(e, "other", 0);
}

static void on_end(struct ledger *l, const struct event *e)
{
	(void)e;
	l->ended = true;
}

static void on_context(struct ledger *l, const struct event *e)
{
	context_add(l, e);
}

static void on_other(struct ledger *l, const struct event *e)
{
	RESERVE_ONE(l, l->other_event, l->nothers, l->cap_others);
	l->other_event[l->nothers++] = *e;
}

void ledger_line(struct ledger *l, const char *line, size_t n)
{
	static const struct {
		const char *kind;
		void (*handle)(struct ledger *, const struct event *);
	} kinds[] = {
		{"start", on_start},
		{"end", on_end},
		{"context", on_context},
		{"context-kind", on_context_kind},
		{"context-gone", on_context_gone},
		{"stream", on_stream},
		{"fail", on_fail},
		{"repeats", on_repeats},
		{"last", on_other},
		{"late", on_other},
		{"unwritten", on_other},
		{"yield", on_other},
		{"forked", on_other},
		{"module", on_other},
		{"capture", on_other},
		{"dead", on_other},
		{"lost", on_other},
		{"orphan", on_other},
		{"copy", on_other},
		{"fault", on_other},
		{"context-use", on_other},
	};
	struct event e;

	if (!event_parse(line, n, &l->arena, &e))
		return; /* a line that a crash cut short */
	l->seconds = e.seconds;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i].kind, e.kind) == 0)
			kinds[i].handle(l, &e);
}

int64_t ledger_count(const struct ledger *l, int64_t number, int64_t logged)
{
	int64_t now = l->counts && number > 0 && number < WATCH_FAILURES
			      ? (int64_t)__atomic_load_n(&l->counts[number], __ATOMIC_RELAXED)
			      : 0;

	return now > logged ? now : logged;
}

void ledger_free(struct ledger *l)
{
	arena_free(&l->arena);
	*l = (struct ledger){0};
}

const char *ledger_cache(const char *by)
{
	static const struct {
		const char *library, *text;
	} caches[] = {
		{"libc10_cuda",
		 "PyTorch's caching allocator holds it: PYTORCH_NO_CUDA_MEMORY_CACHING=1 shows what is in use"},
		{"libtorch",
		 "PyTorch's caching allocator may hold it: PYTORCH_NO_CUDA_MEMORY_CACHING=1 shows what is in use"},
		{"libonnxruntime_providers_cuda",
		 "ONNX Runtime's arena holds it: arena_extend_strategy=kSameAsRequested and "
		 "memory.enable_memory_arena_shrinkage make it smaller"},
		{"libonnxruntime",
		 "ONNX Runtime's arena may hold it: enable_cpu_mem_arena=False, or arena_extend_strategy"},
		{"cupy", "CuPy's memory pool holds it: cupy.cuda.set_allocator(None) switches it off"},
		{"xla_cuda", "XLA's allocator holds it: XLA_PYTHON_CLIENT_PREALLOCATE=false"},
		{"libtensorflow", "TensorFlow's allocator holds it: TF_FORCE_GPU_ALLOW_GROWTH=true"},
	};

	for (size_t i = 0; by && i < sizeof(caches) / sizeof(*caches); i++)
		if (strstr(by, caches[i].library))
			return caches[i].text;
	return NULL;
}
