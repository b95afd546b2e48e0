/* SPDX-License-Identifier: Apache-2.0 */
#include "input/reader.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/thread.h"

#include <string.h>

enum { MAX_READERS = 64, STACK_BYTES = 4 << 20 };
/* how often a waiting caller looks for a signal, and how long a thread may take to end */
enum { LOOK_MS = 50, PATIENCE_MS = 2000 };
/* cases that wait may fill this part of the memory that is available at the start */
enum { BUDGET_SHARE = 8 };

struct slot {
	bool ready;
	struct read_case result;
};

struct reader {
	struct arena arena;
	struct input_list list; /* a copy, as a thread that hangs in a pipe may outlive the caller */
	/*
	 * A copy from before the first run: shape inference adds symbols to the model while the threads read it. The old
	 * arrays, to which the copy points, stay in the model's arena.
	 */
	struct model model;
	const size_t *cases;
	size_t n, ahead;
	uint64_t budget; /* bytes of cases that may wait */
	const bool *single;
	pthread_t thread[MAX_READERS];
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t room, ready;
	/* protected by the lock */
	struct slot *slot; /* case k of `cases` is in slot k % ahead */
	size_t begun, handed_out;
	uint64_t waiting; /* bytes of the cases that are ready */
	bool closing;
};

static bool mentions(const struct finding *f, const char *label)
{
	const char *const text[] = {f->model, f->slot, f->message, f->actual};

	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
		if (text[i] && strstr(text[i], label))
			return true;
	for (size_t i = 0; i < f->nrows; i++)
		if (strstr(f->rows[i].text, label))
			return true;
	return false;
}

void reader_name_errors(const char *label, struct diag *d)
{
	for (struct finding *f = d->first; f; f = f->next)
		if (f->severity == SEV_ERROR && !mentions(f, label))
			f->model = fmt(d, "%s", label);
}

/* Plans and reads one case. An input whose first dimension the model fixes may also be given with all of it. */
static void read_case(const struct reader *r, size_t index, struct read_case *c)
{
	struct input_request request = input_list_case(&r->list, index);

	*c = (struct read_case){.index = index};
	request.single = r->single;
	c->set = input_plan(&r->model, &request, &c->diag);
	if (!c->set && r->single) {
		request.single = NULL;
		c->set = input_plan(&r->model, &request, NULL);
		if (c->set)
			diag_free(&c->diag);
	}
	c->rc = c->set ? input_read(c->set, &c->diag) : -E_INTERNAL;
	if (!c->rc)
		return;
	if (c->diag.last)
		c->rc = -(int)c->diag.last->code;
	input_free(c->set);
	c->set = NULL;
	reader_name_errors(r->list.label[index], &c->diag);
}

static void free_case(struct read_case *c)
{
	input_free(c->set);
	diag_free(&c->diag);
}

static uint64_t case_bytes(const struct read_case *c)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; c->set && i < input_count(c->set); i++)
		bytes += input_tensors(c->set)[i]->bytes;
	return bytes;
}

/* The next case may always be read; those behind it only while there is room for them. */
static bool may_begin(const struct reader *r)
{
	return r->begun == r->handed_out ||
	       (r->begun < r->handed_out + r->ahead && r->waiting < r->budget);
}

static void *reader_thread(void *arg)
{
	struct reader *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->closing && r->begun < r->n && !may_begin(r))
			pthread_cond_wait(&r->room, &r->lock);
		if (r->closing || r->begun == r->n)
			break;
		size_t k = r->begun++;
		pthread_mutex_unlock(&r->lock);
		struct read_case c;
		read_case(r, r->cases[k], &c);
		pthread_mutex_lock(&r->lock);
		r->slot[k % r->ahead] = (struct slot){true, c};
		r->waiting += case_bytes(&c);
		if (k == r->handed_out)
			pthread_cond_signal(&r->ready);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

struct reader *reader_open(const struct input_list *l, const struct model *m, const size_t *cases,
			   size_t n, size_t ahead, int threads, const bool *single)
{
	struct arena a = {0};
	struct reader *r = arena_new(&a, struct reader);

	*r = (struct reader){.arena = a,
			     .list = *l,
			     .model = *m,
			     .n = n,
			     .ahead = ahead,
			     .budget = proc_available() / BUDGET_SHARE};
	r->cases = arena_dup(&r->arena, cases, n * sizeof(*cases));
	if (single)
		r->single = arena_dup(&r->arena, single, m->graph->nin * sizeof(*single));
	r->slot = arena_new_n(&r->arena, struct slot, ahead);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->room, NULL);
	pthread_cond_init(&r->ready, NULL);
	while (r->threads < threads && r->threads < MAX_READERS &&
	       thread_start(&r->thread[r->threads], STACK_BYTES, reader_thread, r))
		r->threads++;
	return r;
}

bool reader_next(struct reader *r, bool (*stop)(void), struct read_case *c)
{
	size_t k = r->handed_out;
	struct slot *s = &r->slot[k % r->ahead];

	if (k == r->n)
		return false;
	if (!r->threads) { /* the system gave us no thread: read here */
		read_case(r, r->cases[k], c);
		r->handed_out++;
		return true;
	}
	pthread_mutex_lock(&r->lock);
	while (!s->ready && !stop()) {
		const struct timespec until = thread_until(LOOK_MS);
		pthread_cond_timedwait(&r->ready, &r->lock, &until);
	}
	bool ready = s->ready;
	if (ready) {
		*c = s->result;
		s->ready = false;
		r->handed_out++;
		r->waiting -= case_bytes(c);
		/* there is room for one more; to wake all threads each time would take as long as small pictures do */
		pthread_cond_signal(&r->room);
	}
	pthread_mutex_unlock(&r->lock);
	return ready;
}

bool reader_close(struct reader *r)
{
	const struct timespec until = thread_until(PATIENCE_MS);

	if (!r)
		return true;
	pthread_mutex_lock(&r->lock);
	r->closing = true;
	pthread_cond_broadcast(&r->room);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->threads; i++)
		if (pthread_timedjoin_np(r->thread[i], NULL, &until))
			return false;
	for (size_t i = 0; i < r->ahead; i++)
		if (r->slot[i].ready)
			free_case(&r->slot[i].result);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->room);
	pthread_cond_destroy(&r->ready);
	struct arena a = r->arena;
	arena_free(&a);
	return true;
}
