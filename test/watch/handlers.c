/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handlers NAME: programs with handlers of SIGSEGV of their own, installed after CUDA began; they print what they see of
 * their signals, which must be the same under `infer check --`. NAME-ok: the fault is on the host's memory, or there is
 * none. On a driver without a device (test/watch/fake).
 */
#define _GNU_SOURCE
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define SAY(...)                                                                                   \
	do {                                                                                       \
		char text[512];                                                                    \
		int n = snprintf(text, sizeof(text), __VA_ARGS__);                                 \
		if (write(1, text, (size_t)n) != n)                                                \
			_exit(98);                                                                 \
	} while (0)

static const char *self;
static char *bad;  /* where the fault is */
static char *host; /* a page that cannot be read */
static sigjmp_buf back;
static volatile sig_atomic_t count;

static void fault(void)
{
	*(volatile char *)(bad + 4096 + 16) = 1;
}

static const char *name_of(sighandler_t h);

static void say_action(const char *when, int number)
{
	struct sigaction now;

	memset(&now, 7, sizeof(now));
	int rc = sigaction(number, NULL, &now);
	SAY("%s: %d %s flags %x usr1 %d usr2 %d\n", when, rc, name_of(now.sa_handler),
	    (unsigned)now.sa_flags, sigismember(&now.sa_mask, SIGUSR1),
	    sigismember(&now.sa_mask, SIGUSR2));
}

/* ---- handlers */

static void say_frame(int number, const siginfo_t *info, const void *context)
{
	const ucontext_t *u = context;
	stack_t s;
	sigset_t m;

	sigaltstack(NULL, &s);
	sigprocmask(SIG_SETMASK, NULL, &m);
	SAY("signal %d code %d at %s; alternate stack %d, blocked: segv %d usr1 %d usr2 %d\n",
	    number, info->si_code, (char *)info->si_addr == bad + 4096 + 16 ? "the place" : "another",
	    (s.ss_flags & SS_ONSTACK) != 0, sigismember(&m, SIGSEGV), sigismember(&m, SIGUSR1),
	    sigismember(&m, SIGUSR2));
	SAY("before: segv %d usr1 %d\n", sigismember(&u->uc_sigmask, SIGSEGV),
	    sigismember(&u->uc_sigmask, SIGUSR1));
}

static void on_info(int number, siginfo_t *info, void *context)
{
	Dl_info from = {0};

	say_frame(number, info, context);
	/* who calls a handler is libc's restorer: nobody else is on its stack */
	dladdr(__builtin_return_address(0), &from);
	SAY("called from %s\n", from.dli_fname ? strrchr(from.dli_fname, '/') + 1 : "?");
	say_action("in the handler", number);
	_exit(42);
}

static void on_plain(int number)
{
	SAY("signal %d\n", number);
	say_action("in the handler", number);
	_exit(43);
}

static void on_other(int number)
{
	SAY("other %d\n", number);
	_exit(44);
}

static void on_jump(int number)
{
	count++;
	siglongjmp(back, number);
}

/* As a JIT that expects the fault: the instruction is skipped over by what the handler makes of the context. */
static void on_repair(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	count++;
	mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

static void on_return(int number)
{
	SAY("signal %d\n", number);
	say_action("in the handler", number);
}

static struct sigaction previous;

/* As CPython's faulthandler: what was before, once more. */
static void on_chain(int number)
{
	SAY("trace\n");
	sigaction(number, &previous, NULL);
	raise(number);
}

static const char *name_of(sighandler_t h)
{
	return h == SIG_DFL		? "default"
	       : h == SIG_IGN		? "ignore"
	       : h == SIG_ERR		? "error"
	       : h == SIG_HOLD		? "hold"
	       : h == on_plain		? "plain"
	       : h == on_other		? "other"
	       : h == on_jump		? "jump"
	       : h == on_return		? "return"
	       : h == on_chain		? "chain"
	       : h == (void *)on_info	? "info"
	       : h == (void *)on_repair ? "repair"
					: "not the program's";
}

static struct sigaction action(void *handler, int flags)
{
	struct sigaction a = {.sa_handler = (sighandler_t)handler, .sa_flags = flags};

	sigaddset(&a.sa_mask, SIGUSR1);
	return a;
}

static void install(void *handler, int flags)
{
	struct sigaction a = action(handler, flags), old;

	memset(&old, 7, sizeof(old));
	int rc = sigaction(SIGSEGV, &a, &old);
	SAY("installed: %d, before it %s flags %x\n", rc, name_of(old.sa_handler),
	    (unsigned)old.sa_flags);
	say_action("installed", SIGSEGV);
}

/* ---- what they do */

static void with_info(void)
{
	install(on_info, SA_SIGINFO);
	fault();
}

static void with_plain(void)
{
	SAY("before it %s\n", name_of(signal(SIGSEGV, on_plain)));
	fault();
}

static void with_bus(void)
{
	char name[] = "/tmp/handlers-XXXXXX";
	int fd = mkstemp(name);

	unlink(name);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct sigaction a = action(on_plain, 0);
	sigaction(SIGBUS, &a, NULL);
	*(volatile char *)p = 1;
}

static void with_nodefer(void)
{
	install(on_info, SA_SIGINFO | SA_NODEFER);
	fault();
}

/* Small, with nothing below it: who needs more than the program's own handler does breaks it. */
static void stack_of(size_t size)
{
	char *p = mmap(NULL, size + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t s = {.ss_sp = p + 65536, .ss_size = size};

	mprotect(p + 65536, size, PROT_READ | PROT_WRITE);
	if (sigaltstack(&s, NULL))
		_exit(97);
}

static void with_stack(void)
{
	stack_of(1 << 16);
	install(on_info, SA_SIGINFO | SA_ONSTACK);
	fault();
}

static void on_tiny(int number)
{
	(void)number;
	if (write(1, "tiny\n", 5) == 5)
		_exit(45);
}

static void with_small(void)
{
	/* what the kernel's frame takes, and room for a line */
	stack_of((size_t)sysconf(_SC_MINSIGSTKSZ) + 6144);
	install(on_tiny, SA_ONSTACK);
	fault();
}

static void with_tiny(void)
{
	/* no room: what is told of it differs from machine to machine, with what the frame takes */
	stack_of((size_t)sysconf(_SC_MINSIGSTKSZ) + 2048);
	install(on_tiny, SA_ONSTACK);
	fault();
}

/* Without it: the handler cannot run on a stack that is full, as before. */
static int deeper(volatile char *p)
{
	volatile char room[4096];

	room[0] = p ? p[0] : 1;
	return deeper(room) + room[0];
}

static void overflow(void)
{
	const struct rlimit small = {1 << 20, 1 << 20};

	setrlimit(RLIMIT_STACK, &small); /* where it is without limit, too */
	deeper(NULL);
}

static void with_overflow(void)
{
	stack_of(1 << 16);
	install(on_tiny, SA_ONSTACK);
	overflow();
}

static void with_full(void)
{
	install(on_tiny, 0);
	overflow();
}

/* The crash has left no stack that could be looked at. */
__attribute__((noinline)) static void smash(size_t n)
{
	volatile char *room = __builtin_alloca(n);

	room[0] = 1;
#ifdef __x86_64__
	__asm__ volatile("mov $16, %%rbp\n\tmovb $1, (%0)" ::"r"(bad + 4096 + 16) : "memory");
#else
	fault();
#endif
}

static void with_smashed(void)
{
	signal(SIGSEGV, on_plain);
	smash((size_t)getpid() % 64 + 64);
}

static void with_reset(void)
{
	install(on_return, (int)SA_RESETHAND);
	fault();
}

/* Taken out by its first use, and installed again by the program. */
static void with_sysv(void)
{
	sysv_signal(SIGSEGV, on_jump);
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			*(volatile char *)host = 1;
		say_action("after", SIGSEGV);
		if (i < 2)
			sysv_signal(SIGSEGV, on_jump);
	}
	fault();
}

static void with_jumps(void)
{
	install(on_jump, 0);
	for (int i = 0; i < 1000; i++)
		if (!sigsetjmp(back, 1))
			*(volatile char *)(i % 2 ? host : NULL) = 1;
	SAY("recovered %d\n", (int)count);
	for (int i = 0; i < 100; i++)
		if (!sigsetjmp(back, 1))
			fault();
	SAY("recovered %d\n", (int)count);
}

/* After that one without a handler. */
static void with_lives(void)
{
	signal(SIGSEGV, on_jump);
	for (int i = 0; i < 1000; i++)
		if (!sigsetjmp(back, 1))
			*(volatile char *)host = 1;
	signal(SIGSEGV, SIG_DFL);
	*(volatile char *)42 = 1;
}

static void with_repairs(void)
{
	install(on_repair, SA_SIGINFO);
	char *p = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 64; i++)
		*(volatile char *)(p + i * 4096) = 1;
	SAY("repaired %d\n", (int)count);
	say_action("after", SIGSEGV);
}

static void with_removed(void)
{
	struct sigaction old, mine = action(on_info, SA_SIGINFO), was;

	sigaction(SIGSEGV, &mine, &old);
	SAY("old %s\n", name_of(old.sa_handler));
	sigaction(SIGSEGV, &old, &was);
	SAY("mine %s flags %x\n", name_of(was.sa_handler), (unsigned)was.sa_flags);
	say_action("removed", SIGSEGV);
	fault();
}

static void with_chain(void)
{
	struct sigaction a = action(on_chain, SA_NODEFER);

	sigaction(SIGSEGV, &a, &previous);
	fault();
}

static void say_status(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "SigIgn", 6) || !strncmp(line, "SigBlk", 6))
			SAY("%s", line);
	fclose(f);
}

static void spawned(void)
{
	char *const argv[] = {(char *)self, (char *)"status", NULL};
	pid_t pid;

	fflush(stdout);
	posix_spawn(&pid, self, NULL, NULL, argv, environ);
	waitpid(pid, NULL, 0);
}

/* What is ignored stays ignored in what is exec'ed, what is handled does not. */
static void with_ignored(void)
{
	SAY("before %s\n", name_of(signal(SIGSEGV, SIG_IGN)));
	say_action("ignored", SIGSEGV);
	raise(SIGSEGV);
	spawned();
	SAY("before %s\n", name_of(signal(SIGSEGV, on_plain)));
	spawned();
	SAY("before %s\n", name_of(signal(SIGSEGV, SIG_IGN)));
	fault();
}

static void with_exec(void)
{
	install(on_info, SA_SIGINFO);
	signal(SIGBUS, SIG_IGN);
	execl(self, self, "status", NULL);
}

/* As libuv starts a child: the handlers go in the child alone. */
static void with_vfork(void)
{
	struct sigaction plain = {.sa_handler = SIG_DFL}, old = {0};

	install(on_info, SA_SIGINFO);
	pid_t pid = vfork();
	if (!pid) {
		sigaction(SIGSEGV, &plain, &old);
		if (old.sa_sigaction != on_info)
			_exit(90);
		sigaction(SIGSEGV, NULL, &old);
		if (old.sa_handler != SIG_DFL)
			_exit(91);
		execl(self, self, "status", NULL);
		_exit(92);
	}
	int status;
	waitpid(pid, &status, 0);
	SAY("child %x\n", (unsigned)status);
	say_action("after", SIGSEGV);
	fault();
}

/* A child of fork has the handler, and crashes by itself. */
static void with_fork(void)
{
	install(on_info, SA_SIGINFO);
	for (int own = 0; own < 2; own++) {
		pid_t pid = fork();
		if (!pid) {
			say_action("in the child", SIGSEGV);
			if (own)
				install(on_other, 0);
			fault();
		}
		int status;
		waitpid(pid, &status, 0);
		SAY("child %x\n", (unsigned)status);
	}
	say_action("after", SIGSEGV);
}

static void with_kill(void)
{
	struct sigaction a = action(on_return, 0);

	sigaction(SIGSEGV, &a, NULL);
	raise(SIGSEGV);
	signal(SIGSEGV, SIG_DFL);
	raise(SIGSEGV);
	usleep(1000000);
}

/* Every call that says what a handler was. */
static void with_reports(void)
{
	struct sigaction a = action(on_info, SA_SIGINFO | SA_RESTART), old;

	say_action("first", SIGSEGV);
	SAY("signal: before %s\n", name_of(signal(SIGSEGV, on_plain)));
	say_action("signal", SIGSEGV);
	siginterrupt(SIGSEGV, 1);
	say_action("siginterrupt", SIGSEGV);
	SAY("again: before %s\n", name_of(signal(SIGSEGV, on_other)));
	say_action("again", SIGSEGV);
	siginterrupt(SIGSEGV, 0);
	say_action("siginterrupt off", SIGSEGV);
	SAY("sysv: before %s\n", name_of(sysv_signal(SIGSEGV, on_plain)));
	say_action("sysv", SIGSEGV);
	sigaction(SIGSEGV, &a, &old);
	SAY("sigaction: before %s %x\n", name_of(old.sa_handler), (unsigned)old.sa_flags);
	SAY("hold: before %s\n", name_of(sigset(SIGSEGV, SIG_HOLD)));
	SAY("hold again: before %s\n", name_of(sigset(SIGSEGV, SIG_HOLD)));
	say_status();
	SAY("sigset: before %s\n", name_of(sigset(SIGSEGV, on_other)));
	SAY("sigset: before %s\n", name_of(sigset(SIGSEGV, on_plain)));
	say_action("sigset", SIGSEGV);
	SAY("sigignore: %d\n", sigignore(SIGSEGV));
	say_action("sigignore", SIGSEGV);
	SAY("bus: before %s\n", name_of(signal(SIGBUS, SIG_IGN)));
	sigaction(SIGSEGV, &a, &a);
	say_action("the same memory", SIGSEGV);
	SAY("and %s\n", name_of(a.sa_handler));
	errno = 0;
	int rc = sigaction(SIGKILL, &a, &old);
	SAY("kill: %d %d\n", rc, errno);
	errno = 0;
	rc = sigaction(1000, NULL, &old);
	SAY("1000: %d %d\n", rc, errno);
	errno = 5;
	rc = sigaction(SIGSEGV, NULL, NULL);
	SAY("nothing: %d %d\n", rc, errno);
	fault();
}

/* Handlers change while other threads take signals: each is one of the program's. */
static void on_a(int number)
{
	(void)number;
}

static void on_b(int number)
{
	(void)number;
}

static _Atomic int running = 1;

static void *is_hit(void *arg)
{
	while (running)
		pthread_kill(pthread_self(), SIGSEGV);
	return arg;
}

static void with_threads(void)
{
	pthread_t t[3];
	int wrong = 0;

	signal(SIGSEGV, on_a);
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, is_hit, NULL);
	for (int i = 0; i < 2000; i++) {
		sighandler_t had = signal(SIGSEGV, i % 2 ? on_a : on_b);
		wrong += had != (i % 2 ? on_b : on_a);
	}
	running = 0;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	SAY("wrong %d\n", wrong);
	say_action("after", SIGUSR2);
}

/* A handler from before CUDA began keeps its stack, mask and flags. */
static void with_early(void)
{
	say_action("still", SIGSEGV);
	fault();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{"info", with_info},	   {"plain", with_plain},     {"bus", with_bus},
		{"nodefer", with_nodefer}, {"stack", with_stack},     {"small", with_small},
		{"tiny", with_tiny},	   {"full", with_full},	      {"overflow", with_overflow},
		{"reset", with_reset},	   {"sysv", with_sysv},	      {"jumps", with_jumps},
		{"repairs", with_repairs}, {"removed", with_removed}, {"chain", with_chain},
		{"ignored", with_ignored}, {"exec", with_exec},	      {"vfork", with_vfork},
		{"fork", with_fork},	   {"kill", with_kill},	      {"reports", with_reports},
		{"threads", with_threads}, {"early", with_early},     {"smashed", with_smashed},
		{"lives", with_lives},
	};
	CUcontext context;
	CUdeviceptr p;
	const char *name = argc > 1 ? argv[1] : "";

	self = argv[0];
	if (!strcmp(name, "status")) {
		say_status();
		return 0;
	}
	if (!strncmp(name, "early", 5)) {
		stack_of(1 << 16);
		install(on_info, SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
	}
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc(&p, 1 << 20))
		return 99;
	host = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bad = strstr(name, "-ok") ? host : (char *)(uintptr_t)p;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		size_t n = strlen(all[i].name);
		if (!strncmp(name, all[i].name, n) && (!name[n] || !strcmp(name + n, "-ok"))) {
			all[i].run();
			return 0;
		}
	}
	return 2;
}
