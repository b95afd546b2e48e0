/* SPDX-License-Identifier: Apache-2.0 */
#include "input/reader.h"

#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { MAX_READERS = 64, STACK_BYTES = 4 << 20 };
/* how often a waiting caller looks for a signal, and how long a thread may take to end */
enum { LOOK_MS = 50, PATIENCE_MS = 2000 };

struct slot {
	bool ready;
	struct read_case result;
};

struct reader {
	struct arena arena;
	const struct input_list *list;
	/*
	 * A copy from before the first run: shape inference adds symbols to the model while the threads read it. The old
	 * arrays, to which the copy points, stay in the model's arena.
	 */
	struct model model;
	const size_t *cases;
	size_t n, ahead;
	bool single;
	pthread_t thread[MAX_READERS];
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t room, ready;
	/* protected by the lock */
	struct slot *slot; /* case k of `cases` is in slot k % ahead */
	size_t begun, handed_out;
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
	struct input_request request = input_list_case(r->list, index);

	*c = (struct read_case){.index = index};
	request.single = r->single;
	c->set = input_plan(&r->model, &request, &c->diag);
	if (!c->set && r->single) {
		request.single = false;
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
	reader_name_errors(r->list->label[index], &c->diag);
}

static void free_case(struct read_case *c)
{
	input_free(c->set);
	diag_free(&c->diag);
}

static void *reader_thread(void *arg)
{
	struct reader *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->closing && r->begun < r->n && r->begun >= r->handed_out + r->ahead)
			pthread_cond_wait(&r->room, &r->lock);
		if (r->closing || r->begun == r->n)
			break;
		size_t k = r->begun++;
		pthread_mutex_unlock(&r->lock);
		struct read_case c;
		read_case(r, r->cases[k], &c);
		pthread_mutex_lock(&r->lock);
		r->slot[k % r->ahead] = (struct slot){true, c};
		if (k == r->handed_out)
			pthread_cond_signal(&r->ready);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

struct reader *reader_open(const struct input_list *l, const struct model *m, const size_t *cases,
			   size_t n, size_t ahead, int threads, bool single)
{
	struct arena a = {0};
	struct reader *r = arena_new(&a, struct reader);
	sigset_t all, old;
	pthread_attr_t attr;

	*r = (struct reader){.arena = a,
			     .list = l,
			     .model = *m,
			     .cases = cases,
			     .n = n,
			     .ahead = ahead,
			     .single = single};
	r->slot = arena_new_n(&r->arena, struct slot, ahead);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->room, NULL);
	pthread_cond_init(&r->ready, NULL);
	/* Ctrl-C and the timer belong to the main thread; faults stay with the thread that caused them. */
	sigfillset(&all);
	static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (r->threads < threads && r->threads < MAX_READERS &&
	       !pthread_create(&r->thread[r->threads], &attr, reader_thread, r))
		r->threads++;
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static struct timespec in_milliseconds(long ms)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
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
		const struct timespec until = in_milliseconds(LOOK_MS);
		pthread_cond_timedwait(&r->ready, &r->lock, &until);
	}
	bool ready = s->ready;
	if (ready) {
		*c = s->result;
		s->ready = false;
		r->handed_out++;
		pthread_cond_signal(&r->room);
	}
	pthread_mutex_unlock(&r->lock);
	return ready;
}

bool reader_close(struct reader *r)
{
	const struct timespec until = in_milliseconds(PATIENCE_MS);

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
