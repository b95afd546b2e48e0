/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/thread.h"

#include <string.h>

/* READERS: at most, for each device */
enum { READERS = 16, LOOK_MS = 50, WORKER_STACK = 8 << 20 };
/* groups a lane that may be between the oldest one that is not written and the newest one that was taken */
enum { AHEAD = 8 };
/* Outputs of up to this number of bytes are copied from the session's memory, so that the next group can run while they are written. */
enum { KEPT_BYTES = 32 << 20 };

/* ---- devices */

static int open_lane(struct stream *s, struct lane *l, const char *model, struct diag *d)
{
	l->session = session_open(model, &l->config, d);
	if (!l->session)
		return d->last ? -(int)d->last->code : -E_INTERNAL;
	/* one device is opened by the first run, when the inputs are known to fit */
	return s->nlanes > 1 ? session_start(l->session, d) : 0;
}

/* The loss of a device is an error if no other is left, and else a warning. */
static void tell_loss(const struct lane *l, bool last, struct diag *d)
{
	for (const struct finding *f = l->why.first; f; f = f->next) {
		struct finding copy = *f;
		if (f->severity == SEV_ERROR && !last)
			copy.severity = SEV_WARNING;
		copy.message =
			fmt(d, "%s: %s%s", l->device, f->message ? f->message : code_title(f->code),
			    last ? "" : "; its inputs go to the other devices");
		diag_add(d, &copy);
	}
}

static void close_lane(struct lane *l)
{
	for (int i = 0; i < WORKERS; i++)
		batch_free(&l->worker[i].batch);
	pthread_mutex_destroy(&l->free);
	session_close(l->session);
	l->session = NULL;
}

static bool is_loss(int rc)
{
	return rc && code_exit((enum code) - rc) == code_exit(E_DEVICE);
}

int stream_open(struct stream *s, const char *model, const struct run_config *config,
		const char *const *device, size_t n, struct diag *d)
{
	int rc = 0;

	s->lane = arena_new_n(&s->arena, struct lane, n);
	s->nlanes = n;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	for (size_t i = 0; i < n; i++) {
		struct lane *l = &s->lane[i];
		*l = (struct lane){.stream = s, .device = device[i], .config = *config};
		l->config.device = device[i];
		pthread_mutex_init(&l->free, NULL);
		int failed = open_lane(s, l, model, &l->why);
		/* the same model fails on each device alike */
		if (failed && (n == 1 || !is_loss(failed))) {
			diag_add_grouped(d, &l->why);
			return failed;
		}
		l->lost = failed != 0;
		rc = failed ? failed : rc;
		s->alive += !failed;
	}
	for (size_t i = 0; i < n; i++)
		if (s->lane[i].lost)
			tell_loss(&s->lane[i], !s->alive, d);
	return s->alive ? 0 : rc;
}

static int batch_lane(struct stream *s, struct lane *l, const struct input_list *list, struct diag *d)
{
	const struct model *m = session_model(l->session);
	int rc = 0;

	for (int i = 0; !rc && i < WORKERS; i++) {
		struct worker *w = &l->worker[i];
		w->lane = l;
		w->out = arena_new_n(&s->arena, const struct tensor *, m->graph->nout + 1);
		rc = batch_begin(&w->batch, m, list->varies, s->batch, d);
	}
	return rc;
}

int stream_batch(struct stream *s, const struct input_list *list, struct diag *d)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < s->nlanes; i++)
		rc = s->lane[i].session ? batch_lane(s, &s->lane[i], list, d) : 0;
	return rc;
}

/* ---- groups */

static const struct batch *any_batch(const struct stream *s)
{
	return &s->lane[0].worker[0].batch;
}

int64_t stream_limit(const struct stream *s)
{
	return any_batch(s)->limit;
}

static struct group *new_group(const struct stream *s)
{
	struct arena a = {0};
	struct group *g = arena_new(&a, struct group);
	size_t limit = (size_t)stream_limit(s);

	g->arena = a;
	g->cases = arena_new_n(&g->arena, struct read_case, limit);
	g->outcome = arena_new_n(&g->arena, struct outcome, limit);
	g->in = arena_new_n(&g->arena, const struct tensor *const *, limit);
	g->at = arena_new_n(&g->arena, size_t, limit);
	return g;
}

static void free_case(struct read_case *c)
{
	input_free(c->set);
	diag_free(&c->diag);
}

static void free_group(struct group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free_case(&g->cases[i]);
		diag_free(&g->outcome[i].why);
	}
	diag_free(&g->notes);
	struct arena a = g->arena;
	arena_free(&a);
}

/* Reads the next cases that fit into one run. NULL: there are none. Only one thread at a time does so. */
static struct group *gather(struct stream *s, bool *last)
{
	struct group *g = new_group(s);
	const size_t limit = (size_t)stream_limit(s);

	while (g->n < limit && !*last) {
		struct read_case c = s->held;
		if (!s->holds && (s->stopped() || !reader_next(s->reader, s->stopped, &c))) {
			*last = true;
			break;
		}
		s->holds = false;
		if (!c.rc && !batch_takes(any_batch(s), g->in, g->nread, input_tensors(c.set))) {
			s->held = c;
			s->holds = true;
			break;
		}
		g->outcome[g->n].rc = c.rc;
		if (!c.rc) {
			g->at[g->nread] = g->n;
			g->in[g->nread++] = input_tensors(c.set);
		}
		g->cases[g->n++] = c;
		*last = c.rc && !s->keep_going;
	}
	if (g->n)
		return g;
	free_group(g);
	return NULL;
}

/* Returns the next group, or NULL when this lane is no longer needed. */
static struct group *take(struct stream *s)
{
	struct group *g = NULL;

	pthread_mutex_lock(&s->lock);
	while (!g && !s->rc) {
		if (s->given_back) {
			g = s->given_back;
			s->given_back = g->next;
		} else if (s->ended && (s->taken == s->written || s->stopped())) {
			break; /* before, a lane may still give its group back */
		} else if (!s->ended && !s->gathering && s->taken - s->written < s->room) {
			bool last = false;
			s->gathering = true;
			pthread_mutex_unlock(&s->lock);
			g = gather(s, &last);
			pthread_mutex_lock(&s->lock);
			s->gathering = false;
			s->ended |= last;
			if (g)
				g->number = s->taken++;
			pthread_cond_broadcast(&s->changed);
		} else {
			const struct timespec until = thread_until(LOOK_MS);
			pthread_cond_timedwait(&s->changed, &s->lock, &until);
		}
	}
	pthread_mutex_unlock(&s->lock);
	return g;
}

/* ---- running */

/* Runs the n read cases from the first-th on, which were stacked, and takes the outputs apart. */
static int run_stacked(struct worker *w, struct group *g, size_t first, size_t n, struct diag *d)
{
	struct session *session = w->lane->session;
	const struct graph *graph = session_model(session)->graph;
	uint64_t start = clock_ns();
	int rc = session_run(session, w->in, w->out, d);
	double seconds = (double)(clock_ns() - start) * 1e-9;

	for (size_t k = 0; !rc && k < n; k++) {
		struct outcome *x = &g->outcome[g->at[first + k]];
		x->seconds = seconds;
		x->out = arena_new_n(&g->arena, const struct tensor *, graph->nout + 1);
		x->part = arena_new_n(&g->arena, struct tensor, graph->nout + 1);
		for (uint32_t o = 0; !x->rc && o < graph->nout; o++) {
			if (!w->out[o])
				continue;
			x->rc = batch_part(&w->batch, o, w->out[o], k, &x->part[o], &x->why);
			x->out[o] = &x->part[o];
		}
	}
	return rc;
}

/* Copies the outputs of read cases first..first+n-1 from the session's memory, which its next run overwrites. */
static void keep_outputs(const struct worker *w, struct group *g, size_t first, size_t n)
{
	for (size_t k = first; k < first + n; k++) {
		struct outcome *x = &g->outcome[g->at[k]];
		for (uint32_t o = 0; !x->rc && o < session_model(w->lane->session)->graph->nout; o++)
			if (x->out[o])
				x->out[o] = tensor_copy(&g->arena, x->out[o]);
	}
	g->kept |= n == g->nread;
}

/* After a run of several cases failed, each is run alone, so that the error names the one that it is about. */
static void run_each(struct worker *w, struct group *g)
{
	for (size_t k = 0; k < g->nread && !g->cut; k++) {
		struct outcome *x = &g->outcome[g->at[k]];
		int rc = batch_stack(&w->batch, g->in + k, 1, &w->in, &x->why);
		rc = rc ? rc : run_stacked(w, g, k, 1, &x->why);
		g->cut = rc && w->lane->stream->stopped();
		x->rc = rc ? rc : x->rc;
		if (!rc)
			keep_outputs(w, g, k, 1);
		else if (is_loss(rc) || !w->lane->stream->keep_going)
			break;
	}
	g->kept = true;
}

static size_t output_bytes(const struct worker *w)
{
	size_t bytes = 0;

	for (uint32_t o = 0; o < session_model(w->lane->session)->graph->nout; o++)
		bytes += w->out[o] ? w->out[o]->bytes : 0;
	return bytes;
}

/* `rc` and `why`: what the stacking of its inputs had to say. The caller holds the session. */
static void run_group(struct worker *w, struct group *g, int rc, struct diag why)
{
	rc = rc || !g->nread ? rc : run_stacked(w, g, 0, g->nread, &why);
	/* a run that was cancelled says so as if by Ctrl-C; the reason is watchdog_caught()'s */
	g->cut = rc && w->lane->stream->stopped();
	if (rc && !g->cut && g->nread > 1 && !is_loss(rc)) {
		run_each(w, g);
		diag_free(&why);
	} else if (rc) {
		struct outcome *x = &g->outcome[g->at[0]];
		x->rc = rc;
		x->why = why;
	} else {
		g->notes = why;
		if (g->nread && output_bytes(w) <= KEPT_BYTES)
			keep_outputs(w, g, 0, g->nread);
	}
}

/* ---- results */

/* A case that was not reached, as a run was cut short or one before it failed, is not written. */
static int write_group(struct stream *s, struct group *g)
{
	int rc = s->write(s->arg, g);

	return rc ? rc : g->cut ? -E_INTERRUPTED : 0;
}

/*
 * Writes a finished group, and those behind it that are finished already, unless an earlier one still runs. The outputs
 * of a group that has to wait are copied, so that its lane can go on.
 */
static void finish(struct worker *w, struct group *g)
{
	struct stream *s = w->lane->stream;

	pthread_mutex_lock(&s->lock);
	w->lane->done += g->nread;
	if (!g->kept && (s->writing || g->number != s->written)) {
		pthread_mutex_unlock(&s->lock);
		keep_outputs(w, g, 0, g->nread);
		pthread_mutex_lock(&s->lock);
	}
	s->finished[g->number % s->room] = g;
	while (!s->writing && (g = s->finished[s->written % s->room])) {
		s->finished[s->written % s->room] = NULL;
		s->writing = true;
		pthread_mutex_unlock(&s->lock);
		int rc = s->rc ? 0 : write_group(s, g);
		free_group(g);
		pthread_mutex_lock(&s->lock);
		s->writing = false;
		s->rc = s->rc ? s->rc : rc;
		s->written++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Returns the outcome that shows that the lane's device failed, or NULL. */
static struct outcome *find_loss(const struct group *g)
{
	for (size_t k = 0; k < g->nread; k++) {
		struct outcome *x = &g->outcome[g->at[k]];
		/* if a second device has no memory either, it is the input's fault */
		if (is_loss(x->rc) || (x->rc == -E_MEMORY && !g->given_back))
			return x;
	}
	return NULL;
}

/* Gives the group of a device that failed to the other lanes. Returns false if there is no other. */
static bool give_back(struct lane *l, struct group *g)
{
	struct stream *s = l->stream;
	struct outcome *x = g->cut ? NULL : find_loss(g);
	struct group **p = &s->given_back;

	if (!x)
		return false;
	pthread_mutex_lock(&s->lock);
	/* another worker of the lane may have noticed the loss before */
	bool others = l->lost || s->alive > 1;
	if (others) {
		if (!l->lost) {
			s->alive--;
			l->lost = true;
			l->why = x->why;
			x->why = (struct diag){0};
		}
		for (size_t k = 0; k < g->nread; k++) {
			struct outcome *y = &g->outcome[g->at[k]];
			diag_free(&y->why);
			*y = (struct outcome){0};
		}
		g->given_back = true;
		g->kept = false;
		while (*p && (*p)->number < g->number)
			p = &(*p)->next;
		g->next = *p;
		*p = g;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return others;
}

static bool is_lost(struct lane *l)
{
	pthread_mutex_lock(&l->stream->lock);
	bool lost = l->lost;
	pthread_mutex_unlock(&l->stream->lock);
	return lost;
}

static void *work(void *arg);

/*
 * A GPU would wait while its only worker stacks and writes. On the CPU the threads that compute and read have most cores
 * busy anyway; a second worker writes while the first runs: of lines of text, one thread's decoding is a tenth of the time.
 */
static void start_helpers(struct lane *l)
{
	int workers = session_has_device(l->session) ? WORKERS : CPU_WORKERS;

	for (int i = 1; i < workers; i++) {
		struct worker *w = &l->worker[i];
		w->running = thread_start(&w->thread, WORKER_STACK, work, w);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct lane *l = w->lane;
	struct group *g;
	bool alone = w == l->worker;

	while (!is_lost(l) && (g = take(l->stream))) {
		struct diag why = {0};
		int rc = g->nread ? batch_stack(&w->batch, g->in, g->nread, &w->in, &why) : 0;
		pthread_mutex_lock(&l->free);
		run_group(w, g, rc, why);
		bool back = give_back(l, g);
		/* outputs that stay in the session's memory must be written before the next run */
		bool hold = !back && !g->kept;
		if (alone && !back)
			start_helpers(l); /* the first run has opened the device */
		alone = false;
		if (!hold)
			pthread_mutex_unlock(&l->free);
		if (!back)
			finish(w, g);
		if (hold)
			pthread_mutex_unlock(&l->free);
	}
	return NULL;
}

/* Waits for the end of a lane's threads. Returns whether it ran. The first worker starts the others. */
static bool join_workers(struct lane *l, bool ran)
{
	for (int i = 0; i < WORKERS; i++) {
		ran |= l->worker[i].running;
		if (l->worker[i].running)
			pthread_join(l->worker[i].thread, NULL);
	}
	return ran;
}

int stream_run(struct stream *s, const struct input_list *list, const size_t *cases, size_t n,
	       struct diag *d)
{
	const struct batch *b = any_batch(s);
	size_t limit = (size_t)b->limit;
	size_t cores = (size_t)pool_cores(), readers = READERS * s->nlanes;
	int threads = (int)(cores < readers ? cores : readers);
	struct lane *here = NULL;

	mem_keep_freed();
	s->room = s->nlanes > 1 ? AHEAD * s->nlanes : WORKERS;
	s->finished = arena_new_n(&s->arena, struct group *, s->room);
	/* two batches ahead keep the readers busy during a run; each reader holds one case besides */
	s->reader = reader_open(list, session_model(s->lane[0].session), cases, n,
				2 * limit * s->nlanes + (size_t)threads, threads,
				b->fixed > 1 ? b->stacked : NULL);
	for (size_t i = 0; i < s->nlanes; i++) {
		struct lane *l = &s->lane[i];
		if (l->lost)
			continue;
		struct worker *w = &l->worker[0];
		if (!here)
			here = l; /* the caller's thread is its first worker */
		else if (!(w->running = thread_start(&w->thread, WORKER_STACK, work, w)))
			s->alive--;
	}
	work(&here->worker[0]);
	for (size_t i = 0; i < s->nlanes; i++) {
		struct lane *l = &s->lane[i];
		bool ran = join_workers(l, l == here);
		if (l->lost && ran)
			tell_loss(l, false, d);
	}
	return s->rc;
}

bool stream_close(struct stream *s)
{
	bool ended;

	if (s->holds)
		free_case(&s->held);
	for (size_t k = 0; k < s->room; k++)
		if (s->finished[k])
			free_group(s->finished[k]);
	while (s->given_back) {
		struct group *g = s->given_back;
		s->given_back = g->next;
		free_group(g);
	}
	ended = reader_close(s->reader);
	for (size_t i = 0; i < s->nlanes; i++) {
		diag_free(&s->lane[i].why);
		/* a reader that hangs still uses the first lane's model */
		if (ended || i)
			close_lane(&s->lane[i]);
	}
	if (ended)
		arena_free(&s->arena);
	return ended;
}
