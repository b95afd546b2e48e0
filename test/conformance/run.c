/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a folder of ONNX cases: KIND/CASE/model.onnx with test_data_set_N/{input,output}_K.pb,
 * unpacked or as KIND.tar.gz. What manifest.tsv says of tolerances and flags is heeded.
 *
 *   run DIR [-v] [-f TEXT] [-l FILE] [-d DEVICE] [-c] [-p]
 *                                      -v names every case; -f only cases whose KIND/CASE has TEXT;
 *                                      -x leaves out those that have TEXT; -s K/N does every N-th, from K = 0 on
 *                                      -l writes "status TAB case TAB why" lines
 *                                      -d runs on this device (cpu); -l then names what ran on the host
 *                                      -c where output_K.pb is missing, the CPU says what it should be
 *                                      -p outputs are not compared: only where steps run is told, for a driver
 *                                         whose kernels do nothing
 *                                      -m inputs lie on the device already, one element behind an aligned address
 *                                      -n no kernels are tried out: what the cache knows is taken
 *                                      -t all are, however long it takes
 *
 * A worker process does the cases one by one and tells of each over a pipe, so that a crash or a
 * hang costs one case. Cases that end with exit class 3 (unsupported) count as skipped.
 */
#include "base/file.h"
#include "ir/difference.h"
#include "gpu/backend.h"
#include "onnx/tensor_pb.h"
#include "session/session.h"
#include "test/tools/launches.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum status { PASSED, FAILED, UNSUPPORTED, CRASHED, HUNG, STATUSES };
static const char *const status_names[STATUSES] = {"pass", "FAIL", "unsupported", "CRASH", "HANG"};
enum { CASE_SECONDS = 300, WHY = 400 };

struct test_case {
	char *name; /* KIND/CASE */
	struct tolerance tolerance;
	bool random;   /* compare type and shape only */
	int precision; /* enum precision */
	/* of comparisons with the CPU: times the tolerance of a type, more of it, steps of integers */
	double times, extra, steps;
};

static struct {
	const char *device;
	bool against_cpu, only_places, misplaced;
	int tune;
} how = {.device = "cpu"};

struct cases {
	struct arena arena;
	struct test_case *v;
	size_t n, cap;
};

struct result {
	uint32_t index;
	uint32_t status;
	char why[WHY];
};

/* ---- finding cases -------------------------------------------------------------------------- */

static void add_case(struct cases *c, const char *name)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 1024;
		c->v = arena_grow(&c->arena, c->v, c->n, c->cap, sizeof(*c->v));
	}
	c->v[c->n++] = (struct test_case){
		.name = arena_str(&c->arena, name), .tolerance = {1e-3, 1e-7}, .times = 1};
}

static void scan(struct cases *c, const char *root, const char *under, int depth)
{
	const char *dir = path_join(&c->arena, root, under);
	const char *model = path_join(&c->arena, dir, "model.onnx");
	DIR *d;

	if (access(model, R_OK) == 0) {
		add_case(c, under);
		return;
	}
	d = depth < 3 ? opendir(dir) : NULL;
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' &&
		    (e->d_type == DT_DIR || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN))
			scan(c, root, *under ? path_join(&c->arena, under, e->d_name) : e->d_name,
			     depth + 1);
	if (d)
		closedir(d);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct test_case *)a)->name, ((const struct test_case *)b)->name);
}

/* The number behind "NAME=" in a line's flags. */
static double flag_number(const char *flags, const char *name, double absent)
{
	const char *at = strstr(flags, name);

	return at ? strtod(at + strlen(name), NULL) : absent;
}

/* kind, case, ops, opset, in, bytes, out, sets, rtol, atol, flags, origin */
static void read_manifest(struct cases *c, const char *root)
{
	FILE *f = fopen(path_join(&c->arena, root, "manifest.tsv"), "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		char *cols[12] = {0}, *p = line;
		for (int i = 0; i < 12 && p; i++)
			cols[i] = strsep(&p, "\t\n");
		if (!cols[10] || !strcmp(cols[0], "kind"))
			continue;
		char name[512];
		snprintf(name, sizeof(name), "%s/%s", cols[0], cols[1]);
		struct test_case key = {.name = name};
		struct test_case *t = bsearch(&key, c->v, c->n, sizeof(*c->v), by_name);
		if (!t)
			continue;
		t->tolerance = (struct tolerance){strtod(cols[8], NULL), strtod(cols[9], NULL)};
		t->random = strstr(cols[10], "random") != NULL;
		t->precision = (int)flag_number(cols[10], "precision=", 0);
		t->times = flag_number(cols[10], "times=", 1);
		t->extra = flag_number(cols[10], "extra=", 0);
		t->steps = flag_number(cols[10], "steps=", 0);
	}
	if (f)
		fclose(f);
}

/* ---- one case ------------------------------------------------------------------------------- */

struct run {
	struct arena arena;
	struct diag diag;
	struct session *session;
	struct session *cpu; /* what says the outputs, where no file does */
	const struct tensor **expected;
	const char *dir;
	struct observer watch;
	char *why;
};

/* Names, once each, the operators that run on the host of a session with a device. */
static void note_host(struct observer *o, const struct step *step, const struct call *c)
{
	struct run *r = (struct run *)((char *)o - offsetof(struct run, watch));
	const char *op = op_qualified(step->node->op);
	size_t used = strlen(r->why);
	bool host = step->nout && c->out[0] && c->out[0]->device == 0;
	const struct tensor *x = step->nin ? c->in[0] : NULL;

	if (x && x->type.kind == V_TENSOR)
		op = arena_printf(&r->arena, "%s[%s]", op, dtype_name(tensor_dtype(x)));

	if (!host || step->nop || step->kernel == cuda_backend.reorder || strstr(r->why, op) ||
	    used + strlen(op) + 8 >= WHY)
		return;
	snprintf(r->why + used, WHY - used, "%s%s", used ? " " : "host: ", op);
}

static void note_nothing(struct observer *o, const struct step *step, const struct call *c)
{
	(void)o, (void)step, (void)c;
}

static enum status from_diag(struct run *r, char *why)
{
	const struct finding *f = r->diag.last;

	for (const struct finding *p = r->diag.first; p; p = p->next)
		if (p->severity == SEV_ERROR)
			f = p;
	if (!f) {
		snprintf(why, WHY, "failed without a message");
		return FAILED;
	}
	snprintf(why, WHY, "%s %s (%s) %s%s%s: expected %s, got %s", code_id(f->code, f->severity),
		 f->node ? f->node : "", f->op ? f->op : "", f->slot ? f->slot : "",
		 f->message ? " " : "", f->message ? f->message : "",
		 f->expected ? f->expected : "-", f->actual ? f->actual : "-");
	return f->code == E_OP_UNSUPPORTED ? UNSUPPORTED : FAILED;
}

static const struct tensor *read_pb(struct run *r, const char *dir, const char *stem, uint32_t k,
				    struct type type)
{
	const char *name = arena_printf(&r->arena, "%s_%u.pb", stem, k);
	const char *path = path_join(&r->arena, dir, name);

	return access(path, R_OK) ? NULL : tensor_pb_read(path, type, &r->arena, &r->diag);
}

static bool has_convolution(const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (!g->node[i]->dead && g->node[i]->type && !strcmp(g->node[i]->type, "Conv"))
			return true;
	return false;
}

/*
 * The rule of test/random/compare.py for two backends. Convolutions by tiles of 4 x 4 outputs are off by up to 2e-6 of the largest
 * value, on either side.
 */
static struct tolerance tolerance_of_type(const struct graph *g, const struct test_case *t,
					  const struct tensor *want)
{
	static const struct {
		enum dtype type;
		double rtol, unit; /* unit: for each of the largest value */
	} rules[] = {{DT_F32, 1e-3, 1e-6},	{DT_F64, 1e-6, 1e-9},
		     {DT_F16, 4e-3, 1e-3},	{DT_BF16, 3e-2, 8e-3},
		     {DT_C64, 1e-3, 1e-6},	{DT_C128, 1e-6, 1e-9},
		     {DT_F8E4M3FN, 0.13, 0.02}, {DT_F8E4M3FNUZ, 0.13, 0.02},
		     {DT_F8E5M2, 0.26, 0.02},	{DT_F8E5M2FNUZ, 0.26, 0.02}};
	enum dtype type = want->type.kind == V_TENSOR ? tensor_dtype(want) : DT_F32;
	double wider = type == DT_F32 && has_convolution(g) ? 4 : 1;
	struct difference d;

	compare_tensors(want, want, (struct tolerance){0, 0}, &d);
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (rules[i].type == type)
			return (struct tolerance){
				t->times * rules[i].rtol,
				t->extra + t->times * (1e-7 + wider * rules[i].unit * d.max_want)};
	return (struct tolerance){0, t->steps};
}

static enum status compare_outputs(struct run *r, const struct test_case *t, const char *set,
				   const struct tensor *const *out, char *why)
{
	const struct graph *g = session_model(r->session)->graph;

	for (uint32_t k = 0; k < g->nout; k++) {
		const struct tensor *want = read_pb(r, set, "output", k, out[k]->type);
		struct tolerance tolerance = t->tolerance;
		struct difference d;
		if (!want && r->diag.errors)
			return from_diag(r, why);
		if (!want && r->expected) {
			want = r->expected[k];
			tolerance = tolerance_of_type(g, t, want);
		}
		if (!want) {
			snprintf(why, WHY, "output_%u.pb is missing", k);
			return FAILED;
		}
		bool same = compare_tensors(out[k], want, tolerance, &d);
		if (same || (t->random && d.same_type && d.same_shape))
			continue;
		if (!d.same_type || !d.same_shape)
			snprintf(why, WHY, "output %u '%s': want %s%s, got %s%s", k, g->out_name[k],
				 type_str(&r->arena, want->type),
				 shape_str(&r->arena, &want->shape, NULL),
				 type_str(&r->arena, out[k]->type),
				 shape_str(&r->arena, &out[k]->shape, NULL));
		else
			snprintf(why, WHY,
				 "output %u '%s': %lld of %lld differ, first at %lld: got %.9g, want %.9g",
				 k, g->out_name[k], (long long)d.beyond, (long long)d.count,
				 (long long)d.first, d.got, d.want);
		return FAILED;
	}
	return PASSED;
}

/* A copy of the tensor on the session's device, at an address that is a multiple of an element's bytes alone. */
static const struct tensor *misplace(struct run *r, const struct tensor *t)
{
	size_t skip = t->type.kind == V_TENSOR ? dtype_bits(tensor_dtype(t)) / 8 : 0;
	struct shape s = {.rank = 1, .dim = {(int64_t)(t->bytes + skip)}};
	struct tensor *copy = skip && t->bytes ? tensor_new(&r->arena, DT_U8, &s) : NULL;

	if (!copy)
		return t;
	memcpy((char *)copy->data + skip, t->data, t->bytes);
	const struct tensor *there = session_upload(r->session, copy, &r->diag);
	if (!there)
		return NULL;
	*copy = *t;
	copy->data = (char *)there->data + skip;
	copy->device = there->device;
	return copy;
}

static enum status run_set(struct run *r, const struct test_case *t, const char *set, char *why)
{
	const struct graph *g = session_model(r->session)->graph;
	const struct tensor **in = arena_new_n(&r->arena, const struct tensor *, g->nin + 1);
	const struct tensor **out = arena_new_n(&r->arena, const struct tensor *, g->nout + 1);

	for (uint32_t k = 0; k < g->nin; k++) {
		in[k] = read_pb(r, set, "input", k, g->value[g->in[k]]->info.type);
		if (!in[k] && !r->diag.errors) {
			snprintf(why, WHY, "input_%u.pb is missing", k);
			return FAILED;
		}
		if (!in[k])
			return from_diag(r, why);
	}
	if (r->cpu) {
		struct diag refused = {0};
		r->expected = arena_new_n(&r->arena, const struct tensor *, g->nout + 1);
		bool fails = session_run(r->cpu, in, r->expected, &refused) != 0;
		diag_free(&refused);
		if (fails && session_run(r->session, in, out, &r->diag))
			return PASSED;
		if (fails) {
			snprintf(why, WHY, "the CPU fails, %s does not", how.device);
			return FAILED;
		}
	}
	for (uint32_t k = 0; k < g->nin && how.misplaced; k++) {
		in[k] = misplace(r, in[k]);
		if (!in[k])
			return from_diag(r, why);
	}
	/* twice: the second run takes the cached plan */
	for (int i = 0; i < 2; i++) {
		if (session_run(r->session, in, out, &r->diag))
			return from_diag(r, why);
		enum status s = how.only_places ? PASSED : compare_outputs(r, t, set, out, why);
		if (s != PASSED)
			return s;
	}
	return PASSED;
}

/* The session that says what is right; `s` is how the other one opened. What neither takes is skipped. */
static enum status open_cpu(struct run *r, const struct run_config *plain, enum status s, char *why)
{
	struct diag refused = {0};

	r->cpu = session_open(path_join(&r->arena, r->dir, "model.onnx"), plain, &refused);
	diag_free(&refused);
	if (r->cpu)
		return s;
	snprintf(why, WHY, "the CPU refuses it");
	return r->session ? FAILED : UNSUPPORTED;
}

static enum status run_case(const char *root, const struct test_case *t, char *why)
{
	struct run_config config = {.device = how.device,
				    .precision = strcmp(how.device, "cpu") ? t->precision
									   : PRECISION_FP32,
				    .optimize = OPTIMIZE_FULL,
				    .memory_plan = true,
				    .arena = true,
				    .tune = how.tune};
	struct run_config plain = config;
	struct run r = {.watch = {.begin = note_host, .end = note_nothing}, .why = why};
	enum status s = PASSED;
	int sets = 0;

	r.dir = path_join(&r.arena, root, t->name);
	r.session = session_open(path_join(&r.arena, r.dir, "model.onnx"), &config, &r.diag);
	if (!r.session)
		s = from_diag(&r, why);
	else if (strcmp(how.device, "cpu") != 0)
		session_observe(r.session, &r.watch);
	plain.device = "cpu";
	plain.precision = PRECISION_FP32;
	if (how.against_cpu)
		s = open_cpu(&r, &plain, s, why);
	for (int k = 0; s == PASSED; k++, sets++) {
		const char *set =
			path_join(&r.arena, r.dir, arena_printf(&r.arena, "test_data_set_%d", k));
		if (access(set, R_OK))
			break;
		s = run_set(&r, t, set, why);
	}
	if (s == PASSED && !sets) {
		snprintf(why, WHY, "no data set");
		s = FAILED;
	}
	session_close(r.session);
	session_close(r.cpu);
	diag_free(&r.diag);
	arena_free(&r.arena);
	return s;
}

/* ---- workers -------------------------------------------------------------------------------- */

static void worker(const char *root, const struct cases *c, size_t from, int fd)
{
	/* held to the end, so that each case need not make the device's context anew */
	struct device *held = strcmp(how.device, "cpu") ? cuda_backend.open(0, NULL, NULL) : NULL;

	if (held)
		launches_begin();
	for (size_t i = from; i < c->n; i++) {
		struct result r = {.index = (uint32_t)i, .status = STATUSES};
		if (write(fd, &r, sizeof(r)) != sizeof(r)) /* "started" */
			_exit(1);
		r.status = run_case(root, &c->v[i], r.why);
		launches_of(c->v[i].name);
		if (write(fd, &r, sizeof(r)) != sizeof(r))
			_exit(1);
	}
	if (held)
		cuda_backend.close(held);
	exit(0); /* through the leak checker, where there is one */
}

struct tally {
	size_t count[STATUSES];
	size_t wholly; /* passed without a step on the host */
	bool verbose;
	FILE *list;
};

static void tell(struct tally *t, const struct test_case *c, enum status s, const char *why)
{
	t->count[s]++;
	if (t->list)
		fprintf(t->list, "%s\t%s\t%s\n", status_names[s], c->name, why);
	t->wholly += s == PASSED && !*why;
	if (t->verbose || (s != PASSED && s != UNSUPPORTED))
		printf("%-11s %s  %s\n", status_names[s], c->name, why);
}

/* Reads results until the worker ends; returns the index to go on from. */
static size_t listen_to(int fd, pid_t pid, const struct cases *c, size_t from, struct tally *t)
{
	size_t next = from;
	bool started = false;

	for (;;) {
		struct pollfd p = {fd, POLLIN, 0};
		struct result r;
		int ready = poll(&p, 1, CASE_SECONDS * 1000);
		if (ready == 0) {
			kill(pid, SIGKILL);
			tell(t, &c->v[next], HUNG, "no answer in time");
			return next + 1;
		}
		ssize_t n = read(fd, &r, sizeof(r));
		if (n != (ssize_t)sizeof(r)) /* it ended, or died in a case */
			break;
		if (r.status == STATUSES) {
			started = true;
			continue;
		}
		tell(t, &c->v[r.index], (enum status)r.status, r.why);
		next = (size_t)r.index + 1;
		started = false;
	}
	if (started) {
		tell(t, &c->v[next], CRASHED, "the process died");
		next++;
	}
	return next;
}

static void run_all(const char *root, const struct cases *c, struct tally *t)
{
	size_t next = 0;

	while (next < c->n) {
		int fds[2], status = 0;
		size_t before = next;
		if (pipe(fds)) {
			perror("pipe");
			exit(1);
		}
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			close(fds[0]);
			worker(root, c, next, fds[1]);
		}
		close(fds[1]);
		next = listen_to(fds[0], pid, c, next, t);
		close(fds[0]);
		waitpid(pid, &status, 0);
		if (next == c->n && WIFEXITED(status) && WEXITSTATUS(status)) {
			printf("not ok the worker ended with exit status %d\n", WEXITSTATUS(status));
			t->count[FAILED]++;
		}
		if (next == before) { /* died before its first case */
			printf("not ok the worker does not start\n");
			t->count[CRASHED]++;
			return;
		}
	}
}

/* ---- archives ------------------------------------------------------------------------------- */

static int has_archives(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		n += len > 7 && !strcmp(e->d_name + len - 7, ".tar.gz");
	}
	if (d)
		closedir(d);
	return n;
}

static int shell(const char *script, const char *a, const char *b)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		execlp("sh", "sh", "-c", script, "sh", a, b, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	struct cases all = {0}, c = {0};
	struct tally t = {0};
	const char *root = NULL, *only = NULL, *without = NULL;
	size_t share = 0, shares = 1;
	char unpacked[] = "/tmp/conformance-XXXXXX";
	bool temporary = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-v"))
			t.verbose = true;
		else if (!strcmp(argv[i], "-f") && i + 1 < argc)
			only = argv[++i];
		else if (!strcmp(argv[i], "-x") && i + 1 < argc)
			without = argv[++i];
		else if (!strcmp(argv[i], "-s") && i + 1 < argc &&
			 sscanf(argv[i + 1], "%zu/%zu", &share, &shares) == 2 && shares)
			i++;
		else if (!strcmp(argv[i], "-l") && i + 1 < argc)
			t.list = fopen(argv[++i], "we");
		else if (!strcmp(argv[i], "-d") && i + 1 < argc)
			how.device = argv[++i];
		else if (!strcmp(argv[i], "-c"))
			how.against_cpu = true;
		else if (!strcmp(argv[i], "-p"))
			how.only_places = true;
		else if (!strcmp(argv[i], "-m"))
			how.misplaced = true;
		else if (!strcmp(argv[i], "-n"))
			how.tune = TUNE_OFF;
		else if (!strcmp(argv[i], "-t"))
			how.tune = TUNE_FULL;
		else
			root = argv[i];
	}
	if (!root) {
		fprintf(stderr,
			"usage: %s DIR [-v] [-f TEXT] [-x TEXT] [-s K/N] [-l FILE] [-d DEVICE] [-c] [-p] [-m] [-n] [-t]\n",
			argv[0]);
		return 2;
	}
	if (has_archives(root)) {
		temporary = mkdtemp(unpacked) != NULL;
		if (!temporary ||
		    shell("cp \"$1\"/manifest.tsv \"$2\" && "
			  "for f in \"$1\"/*.tar.gz; do tar xzf \"$f\" -C \"$2\" || exit 1; done",
			  root, unpacked)) {
			fprintf(stderr, "cannot unpack the archives of %s: %s\n", root,
				strerror(errno));
			return 1;
		}
		root = unpacked;
	}
	scan(&all, root, "", 0);
	qsort(all.v, all.n, sizeof(*all.v), by_name);
	read_manifest(&all, root);
	for (size_t i = 0; i < all.n; i++) {
		if ((only && !strstr(all.v[i].name, only)) ||
		    (without && strstr(all.v[i].name, without)) || i % shares != share)
			continue;
		add_case(&c, all.v[i].name);
		c.v[c.n - 1] = all.v[i];
	}
	run_all(root, &c, &t);
	size_t bad = t.count[FAILED] + t.count[CRASHED] + t.count[HUNG];
	printf("conformance: %zu passed, %zu failed, %zu skipped\n", t.count[PASSED], bad,
	       t.count[UNSUPPORTED]);
	if (strcmp(how.device, "cpu") != 0)
		printf("on %s: %zu of those passed ran wholly there\n", how.device, t.wholly);
	if (t.list)
		fclose(t.list);
	if (temporary)
		shell("rm -rf \"$1\"", unpacked, "");
	arena_free(&all.arena);
	arena_free(&c.arena);
	return bad || !c.n;
}
