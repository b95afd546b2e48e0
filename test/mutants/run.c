/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run CASES [-s SEED] [-n COUNT | -t SECONDS] [-f FIRST] [-l CPU_SECONDS] [-m MIB] [-j PROCESSES] [-k FOLDER] [-c] [-1]
 *     [-d DEVICE]
 *
 * Runs mutants (mutate.h) of the ONNX cases in the folder CASES through load, optimize, plan and run. Whatever the model is, each
 * must end in outputs or in a finding, within a limit of CPU time and of memory. A worker process does many mutants one after the
 * other and writes the number of each into shared memory first, so that a crash costs one mutant and names it.
 *
 *   -s SEED     seed of the mutants (1)
 *   -n COUNT    how many (1,000); -t SECONDS: as many as fit
 *   -f FIRST    number of the first
 *   -l SECONDS  CPU time that one may take (5)
 *   -m MIB      memory that a worker may take beside the program's own (768); 0: no limit, for sanitizers
 *   -j N        workers side by side (1)
 *   -k FOLDER   keeps the model and the inputs of each that fails, with what the worker wrote on standard error
 *   -c          prints for each operator how many nodes of mutants had it and how many observed steps ran it
 *   -1          runs number FIRST alone, in this process: for a debugger
 *   -d DEVICE   runs them on this device (cpu). CUDA cannot be used after fork: on another device all mutants run one after the
 *               other in this process, which prints the number of each before it runs it, so that -f can go on behind one that
 *               ended the process. Each is asked to end after -l seconds of the clock. -j, -m and -k have no effect
 *
 * The last lines are "operators: N, M in mutants, R ran", with the names of the others, and "mutants: N run, A with outputs, R
 * refused, L loops without end, F failed"; exit status 1 when F is not 0.
 */
#include "base/asan.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "input/random.h"
#include "ops/op.h"
#include "onnx/tensor_pb.h"
#include "session/session.h"
#include "test/mutants/mutate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PILE_BYTES = 8 << 20,
	MODEL_MEMORY = 256 << 20,
	MAX_ELEMENTS = 1 << 16,
	BATCH = 2000,
	MAX_WORKERS = 64
};

static struct {
	const char *cases, *keep, *device;
	uint64_t seed, count, first, seconds, limit, mib, workers;
	bool alone, list;
} how = {.device = "cpu", .seed = 1, .count = 1000, .limit = 5, .mib = 768, .workers = 1};

/* Shared with a worker. */
struct progress {
	_Atomic uint64_t current, done, with_outputs, refused;
	_Atomic bool running, endless; /* the current one; it may run forever by its meaning */
	_Atomic uint64_t cut;	       /* those that did */
};

/* Shared with all workers, by op_id: mutants' nodes with this operator, and observed steps that ran it. */
struct reached {
	_Atomic uint64_t met, ran;
};
static struct reached *reached;

static void count_met(const char *domain, const char *name)
{
	const struct op *op = name ? op_newest(domain, name) : NULL;

	if (op)
		atomic_fetch_add_explicit(&reached[op_id(op)].met, 1, memory_order_relaxed);
}

static void count_step(struct observer *o, const struct step *step, const struct call *call)
{
	const struct op *file = step->from && step->from->op ? op_named(step->from->op) : NULL;
	const struct op *op = step->node ? step->node->op : NULL;

	(void)o, (void)call;
	if (file)
		atomic_fetch_add_explicit(&reached[op_id(file)].ran, 1, memory_order_relaxed);
	if (op && (!file || op_id(op) != op_id(file)))
		atomic_fetch_add_explicit(&reached[op_id(op)].ran, 1, memory_order_relaxed);
}

static void no_step(struct observer *o, const struct step *step, const struct call *call)
{
	(void)o, (void)step, (void)call;
}

/* ---- one mutant, in a worker ---- */

struct attempt {
	struct arena arena;
	struct diag diag;
	struct session *session;
	const struct seed_case *from;
	struct rng rng;
	const char *keep; /* folder for the inputs, NULL: none */
};

static const struct tensor *case_input(struct attempt *a, const char *name, struct type type)
{
	struct diag ignored = {0};
	struct tensor *t = NULL;

	for (unsigned k = 0; k < a->from->ninputs && !t; k++)
		if (a->from->input[k].data && name && !strcmp(a->from->input_name[k], name))
			t = tensor_pb_parse(a->from->input[k].data, a->from->input[k].size, type,
					    &a->arena, &ignored);
	diag_free(&ignored);
	return t;
}

/* Sizes near those that the model or the case says: one more, one less, none. */
static struct shape some_shape(struct attempt *a, const struct shape *near)
{
	static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 8};
	struct shape s = *near;

	if (s.rank < 0)
		s.rank = (int)rng_below(&a->rng, 5);
	bool known = near->rank >= 0;
	for (int i = 0; i < s.rank; i++)
		if (!known || s.dim[i] < 0)
			s.dim[i] = sizes[rng_below(&a->rng, sizeof(sizes) / sizeof(*sizes))];
	if (s.rank && rng_chance(&a->rng, 30)) {
		int64_t *d = &s.dim[rng_below(&a->rng, (uint64_t)s.rank)];
		*d = rng_chance(&a->rng, 20)		 ? 0
		     : rng_chance(&a->rng, 50) && *d > 0 ? *d - 1
							 : *d + 1;
	}
	if (rng_chance(&a->rng, 5))
		s.rank = (int)rng_below(&a->rng, 6);
	for (int i = near->rank < 0 ? 0 : near->rank; i < s.rank; i++)
		s.dim[i] = 1 + (int64_t)rng_below(&a->rng, 3);
	return s;
}

static const struct tensor *made_input(struct attempt *a, const char *name, struct type type,
				       const struct shape *near)
{
	const struct range range = {.lo = -3, .hi = 5};
	struct shape s = some_shape(a, near);
	int64_t count = 1;

	for (int i = 0; i < s.rank; i++)
		if (__builtin_mul_overflow(count, s.dim[i], &count) || count > MAX_ELEMENTS)
			return NULL;
	if (type.kind != V_TENSOR || type.dtype == DT_NONE)
		return NULL;
	if (type.dtype == DT_STRING)
		return random_strings(1, name, NULL, NULL, &s, &a->arena);
	struct tensor *t = tensor_new(&a->arena, (enum dtype)type.dtype, &s);
	if (t && t->data) {
		random_fill(&range, (int64_t)rng_below(&a->rng, 1000), name, t);
		if (rng_chance(&a->rng, 25))
			odd_elements(&a->rng, (int)type.dtype, t->data, t->bytes);
	}
	return t;
}

/* The tensor with some other elements: indices and sizes that are out of range, NaN, infinities. */
static const struct tensor *with_odd_values(struct attempt *a, const struct tensor *t)
{
	if (t->type.kind != V_TENSOR || t->type.dtype == DT_STRING || !t->bytes)
		return t;
	struct tensor *copy = arena_dup(&a->arena, t, sizeof(*t));
	copy->data = arena_dup(&a->arena, t->data, t->bytes);
	odd_elements(&a->rng, (int)t->type.dtype, copy->data, t->bytes);
	return copy;
}

static bool fill_inputs(struct attempt *a, const struct tensor **in)
{
	const struct graph *g = session_model(a->session)->graph;

	for (uint32_t k = 0; k < g->nin; k++) {
		const struct value *v = g->value[g->in[k]];
		const struct tensor *given = case_input(a, v->name, v->info.type);
		if (given && rng_chance(&a->rng, 30))
			given = with_odd_values(a, given);
		if (given && given->type.kind == V_TENSOR && rng_chance(&a->rng, 25))
			given = made_input(a, v->name, given->type, &given->shape);
		in[k] = given ? given : made_input(a, v->name, v->info.type, &v->info.shape);
		if (!in[k])
			return false;
		if (a->keep)
			tensor_pb_write(arena_printf(&a->arena, "%s/input_%u.pb", a->keep, k),
					in[k], v->name, &a->diag);
	}
	return true;
}

/* Whether every byte of the outputs can be read: what the sanitizers look at. */
static unsigned read_outputs(const struct graph *g, const struct tensor **out)
{
	unsigned sum = 0;

	for (uint32_t k = 0; k < g->nout; k++)
		for (size_t i = 0;
		     out[k] && out[k]->type.kind == V_TENSOR && out[k]->data && i < out[k]->bytes; i++)
			sum += ((const unsigned char *)out[k]->data)[i];
	return sum;
}

static bool run_model(struct attempt *a)
{
	const struct graph *g = session_model(a->session)->graph;
	const struct tensor **in = arena_new_n(&a->arena, const struct tensor *, g->nin + 1);
	const struct tensor **out = arena_new_n(&a->arena, const struct tensor *, g->nout + 1);
	bool good = false;

	/* a session is kept while the shapes of its inputs change */
	for (int turn = 0; turn < 2; turn++) {
		if (!fill_inputs(a, in))
			return good;
		a->keep = NULL;
		if (session_run(a->session, in, out, &a->diag))
			return good;
		static volatile unsigned seen;
		seen = read_outputs(g, out);
		(void)seen;
		good = true;
	}
	return good;
}

static int model_file(const struct bytes *model)
{
	int fd = memfd_create("mutant", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, model->data, model->size) != (ssize_t)model->size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void keep_model(const char *folder, const struct bytes *model)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/model.onnx", folder);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, model->data, model->size) != (ssize_t)model->size)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* True: outputs; false: refused. */
static bool try_mutant(const struct corpus *c, uint64_t i, struct pile *pile, const char *keep,
		       struct progress *progress)
{
	struct attempt a = {.rng = {how.seed ^ (i * 0xD6E8FEB86659FD93u)}, .keep = keep};
	struct bytes model;
	size_t from;
	char path[64];

	if (!mutant_make(c, how.seed, i, pile, &from, &model, count_met))
		return false;
	if (progress)
		atomic_store(&progress->endless, model.endless);
	if (keep)
		keep_model(keep, &model);
	a.from = &c->cases[from];
	static const int precisions[8] = {[6] = PRECISION_FP16, [7] = PRECISION_BF16};
	struct observer observer = {.begin = count_step, .end = no_step};
	struct run_config config = {.device = how.device,
				    .optimize = (int)rng_below(&a.rng, 3),
				    .precision = precisions[rng_below(&a.rng, 8)],
				    .threads = 1,
				    .memory_plan = rng_chance(&a.rng, 80),
				    .arena = rng_chance(&a.rng, 80),
				    .memory_limit = MODEL_MEMORY};
	int fd = model_file(&model);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	a.session = session_open(path, &config, &a.diag);
	if (a.session && rng_chance(&a.rng, 50))
		session_observe(a.session, &observer);
	bool good = a.session && run_model(&a);
	session_close(a.session);
	close(fd);
	diag_free(&a.diag);
	arena_free(&a.arena);
	return good;
}

/* ---- workers ---- */

static void set_timer(uint64_t seconds)
{
	/* CPU time, so that a busy machine makes no mutant hang */
	const struct itimerval t = {.it_value = {.tv_sec = (time_t)seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static void limit_memory(void)
{
	char line[256] = "";
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = f && fgets(line, sizeof(line), f) ? strtoul(line, NULL, 10) : 0;

	if (f)
		fclose(f);
	struct rlimit r = {.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (how.mib << 20)};
	r.rlim_max = r.rlim_cur;
	if (how.mib)
		setrlimit(RLIMIT_AS, &r);
	const struct rlimit none = {0};
	setrlimit(RLIMIT_CORE, &none);
}

static int open_log(uint64_t worker)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mutants.%d.%llu", (int)getppid(),
		 (unsigned long long)worker);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	unlink(path);
	return fd;
}

static void work(const struct corpus *c, struct progress *p, uint64_t from, uint64_t to, int log)
{
	struct pile pile = {malloc(PILE_BYTES), 0, PILE_BYTES, false};
	int none = open("/dev/null", O_WRONLY | O_CLOEXEC);

	dup2(none, STDOUT_FILENO);
	if (log >= 0)
		dup2(log, STDERR_FILENO);
	limit_memory();
	for (uint64_t i = from; i < to; i++) {
		atomic_store(&p->current, i);
		atomic_store(&p->running, true);
		set_timer(how.limit);
		atomic_store(&p->endless, false);
		bool good = pile.at && try_mutant(c, i, &pile, NULL, p);
		set_timer(0);
		atomic_store(&p->running, false);
		atomic_fetch_add(&p->done, 1);
		atomic_fetch_add(good ? &p->with_outputs : &p->refused, 1);
	}
	free(pile.at);
	exit(0); /* through the leak checker, where there is one */
}

struct worker {
	struct progress *progress;
	pid_t pid;
	uint64_t from, to; /* its batch */
	int log;
};

static void start(const struct corpus *c, struct worker *w, uint64_t number)
{
	fflush(NULL);
	if (w->log >= 0)
		close(w->log);
	w->log = open_log(number);
	w->pid = fork();
	if (w->pid == 0)
		work(c, w->progress, w->from, w->to, w->log);
	if (w->pid < 0) {
		perror("fork");
		exit(2);
	}
}

/* The line of a sanitizer's report that says what happened, and the first frames in our own code. */
static void print_log(int log, const char *folder)
{
	char *line = NULL;
	size_t room = 0;
	int shown = 0;

	if (log < 0)
		return;
	lseek(log, 0, SEEK_SET);
	FILE *f = fdopen(dup(log), "r"), *copy = NULL;
	if (folder) {
		char path[4200];
		snprintf(path, sizeof(path), "%s/log", folder);
		copy = fopen(path, "we");
	}
	while (f && getline(&line, &room, f) > 0) {
		if (copy)
			fputs(line, copy);
		bool told =
			strstr(line, "ERROR: ") || strstr(line, "runtime error") ||
			(strstr(line, "    #") &&
			 (strstr(line, "/src/") || strstr(line, "/onnx/") || strstr(line, "/gpu/")));
		if (told && shown < 5) {
			printf("    %s", line);
			shown++;
		}
	}
	if (copy)
		fclose(copy);
	if (f)
		fclose(f);
	free(line);
}

/* Once more with its files kept, in a process of its own: what failed may have broken this one. */
static const char *keep_files(const struct corpus *c, uint64_t i)
{
	static char folder[4096];

	if (!how.keep)
		return NULL;
	snprintf(folder, sizeof(folder), "%s/%llu-%llu", how.keep, (unsigned long long)how.seed,
		 (unsigned long long)i);
	mkdir(how.keep, 0755);
	mkdir(folder, 0755);
	pid_t pid = fork();
	if (pid == 0) {
		struct pile pile = {malloc(PILE_BYTES), 0, PILE_BYTES, false};
		int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(none, STDERR_FILENO);
		dup2(none, STDOUT_FILENO);
		limit_memory();
		set_timer(how.limit);
		try_mutant(c, i, &pile, folder, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return folder;
}

/* How a worker ended; true where its mutant failed. */
static bool tell_failure(const struct corpus *c, const struct worker *w, int status)
{
	uint64_t i = atomic_load(&w->progress->current);
	char what[64];

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF && atomic_load(&w->progress->endless)) {
		atomic_fetch_add(&w->progress->cut, 1);
		return false;
	}
	if (WIFSIGNALED(status))
		snprintf(what, sizeof(what), "%s",
			 WTERMSIG(status) == SIGPROF ? "hangs" : strsignal(WTERMSIG(status)));
	else
		snprintf(what, sizeof(what), "exit status %d", WEXITSTATUS(status));
	if (!atomic_load(&w->progress->running))
		printf("FAIL after mutant %llu of seed %llu: %s\n", (unsigned long long)i,
		       (unsigned long long)how.seed, what);
	else {
		printf("FAIL mutant %llu of seed %llu (%s): %s\n", (unsigned long long)i,
		       (unsigned long long)how.seed, c->cases[mutant_case(c, how.seed, i)].name,
		       what);
	}
	print_log(w->log, keep_files(c, i));
	fflush(stdout);
	return true;
}

static uint64_t run_all(const struct corpus *c, struct worker *w)
{
	uint64_t next = how.first, end = how.first + how.count, failed = 0, running = 0;
	time_t until = how.seconds ? time(NULL) + (time_t)how.seconds : 0;

	if (until)
		end = UINT64_MAX;
	for (uint64_t k = 0; k < how.workers; k++) {
		w[k].log = -1;
		w[k].from = w[k].to = 0;
	}
	for (;;) {
		for (uint64_t k = 0; k < how.workers; k++) {
			if (w[k].pid > 0)
				continue;
			if (w[k].from >= w[k].to && next < end && (!until || time(NULL) < until)) {
				w[k].from = next;
				w[k].to = end - next < BATCH ? end : next + BATCH;
				next = w[k].to;
			}
			if (w[k].from >= w[k].to)
				continue;
			start(c, &w[k], k);
			running++;
		}
		if (!running)
			return failed;
		int status;
		pid_t pid = wait(&status);
		if (pid < 0 && errno == EINTR)
			continue;
		for (uint64_t k = 0; pid > 0 && k < how.workers; k++) {
			if (w[k].pid != pid)
				continue;
			bool bad = tell_failure(c, &w[k], status);
			failed += bad;
			w[k].from = status && atomic_load(&w[k].progress->running)
					    ? atomic_load(&w[k].progress->current) + 1
					    : w[k].to;
			w[k].pid = 0;
			running--;
		}
	}
}

/* In this process: none is named but by the last number printed. */
static void run_here(const struct corpus *c, struct progress *p)
{
	struct pile pile = {malloc(PILE_BYTES), 0, PILE_BYTES, false};
	time_t until = how.seconds ? time(NULL) + (time_t)how.seconds : 0;
	uint64_t end = until ? UINT64_MAX : how.first + how.count;

	for (uint64_t i = how.first; pile.at && i < end && (!until || time(NULL) < until); i++) {
		printf("mutant %llu\n", (unsigned long long)i);
		fflush(stdout);
		cancel_at(clock_ns() + how.limit * 1000000000);
		bool good = try_mutant(c, i, &pile, NULL, NULL);
		bool cut = cancel_requested();
		cancel_at(0);
		atomic_fetch_add(cut ? &p->cut : &p->done, 1);
		if (!cut)
			atomic_fetch_add(good ? &p->with_outputs : &p->refused, 1);
	}
	free(pile.at);
}

static bool read_options(int argc, char **argv)
{
	static const struct {
		char letter;
		uint64_t *to;
	} numbers[] = {{'s', &how.seed},    {'n', &how.count}, {'f', &how.first},
		       {'t', &how.seconds}, {'l', &how.limit}, {'m', &how.mib},
		       {'j', &how.workers}};

	for (int i = 1; i < argc; i++) {
		const char *o = argv[i];
		bool known = false;
		if (*o != '-') {
			how.cases = o;
			continue;
		}
		if (!strcmp(o, "-1") || !strcmp(o, "-c")) {
			*(o[1] == '1' ? &how.alone : &how.list) = true;
			continue;
		}
		if (i + 1 == argc || strlen(o) != 2)
			return false;
		if (o[1] == 'k' || o[1] == 'd') {
			*(o[1] == 'k' ? &how.keep : &how.device) = argv[++i];
			continue;
		}
		for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++)
			if (numbers[k].letter == o[1]) {
				*numbers[k].to = strtoull(argv[++i], NULL, 10);
				known = true;
			}
		if (!known)
			return false;
	}
	return how.cases && how.workers && how.workers <= MAX_WORKERS;
}

struct counted {
	unsigned known, met, ran;
	bool names_unmet, names_idle; /* print those that no mutant had, that ran in none */
};

static int count_operator(const struct op *op, void *arg)
{
	struct counted *c = arg;
	const struct reached *r = &reached[op_id(op)];

	if (op_newest(op->domain, op->name) != op)
		return 0;
	if (c->names_unmet && !r->met && !(op_flags(op) & OP_INTERNAL))
		printf(" %s", op_qualified(op));
	if (c->names_idle && r->met && !r->ran)
		printf(" %s", op_qualified(op));
	if (how.list && !c->names_unmet && !c->names_idle)
		printf("%-40s %10llu met %10llu ran\n", op_qualified(op),
		       (unsigned long long)r->met, (unsigned long long)r->ran);
	c->known++;
	c->met += r->met != 0;
	c->ran += r->ran != 0;
	return 0;
}

static void print_reached(void)
{
	struct counted all = {0}, unmet = {.names_unmet = true}, idle = {.names_idle = true};

	op_each(count_operator, &all);
	printf("operators: %u, %u in mutants, %u ran\noperators in no mutant:", all.known, all.met,
	       all.ran);
	op_each(count_operator, &unmet);
	printf("\noperators in mutants that never ran:");
	op_each(count_operator, &idle);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct worker workers[MAX_WORKERS] = {{0}};
	static struct corpus c; /* static: the leak checker finds it when main has ended */
	uint64_t done = 0, good = 0, refused = 0, cut = 0;

	if (!read_options(argc, argv)) {
		fprintf(stderr,
			"usage: %s CASES [-s SEED] [-n COUNT | -t SECONDS] [-f FIRST] [-l CPU_SECONDS] [-m MIB] "
			"[-j PROCESSES] [-k FOLDER] [-c] [-1] [-d DEVICE]\n",
			argv[0]);
		return 2;
	}
	if (!corpus_read(&c, how.cases))
		return 2;
	reached = mmap(NULL, sizeof(*reached) * op_ids(), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reached == MAP_FAILED)
		return 2;
	if (how.alone) {
		struct pile pile = {malloc(PILE_BYTES), 0, PILE_BYTES, false};
		printf("%s\n",
		       try_mutant(&c, how.first, &pile, how.keep, NULL) ? "outputs" : "refused");
		return 0;
	}
	struct progress *p = mmap(NULL, sizeof(*p) * MAX_WORKERS, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 2;
	for (uint64_t k = 0; k < how.workers; k++)
		workers[k].progress = &p[k];
	uint64_t failed = 0;
	if (strcmp(how.device, "cpu"))
		run_here(&c, &p[0]);
	else
		failed = run_all(&c, workers);
	for (uint64_t k = 0; k < how.workers; k++) {
		done += atomic_load(&p[k].done);
		good += atomic_load(&p[k].with_outputs);
		refused += atomic_load(&p[k].refused);
		cut += atomic_load(&p[k].cut);
	}
	print_reached();
	printf("mutants: %llu run, %llu with outputs, %llu refused, %llu loops without end, %llu failed\n",
	       (unsigned long long)(done + cut + failed), (unsigned long long)good,
	       (unsigned long long)refused, (unsigned long long)cut, (unsigned long long)failed);
	return failed != 0;
}
