/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports segmentation faults and bus errors. Our handler stays first whenever the program installs one of its own: it
 * reports the fault and then jumps to the program's handler, which gets the signal frame that the kernel made, on the
 * stack, under the mask and with the flags that the program asked for.
 *
 * For this, a call of sigaction() or a similar function first goes to the kernel unchanged. Then we read the resulting
 * action back, remember it, and put our handler in its place. So the program sees its own handlers, and exactly what
 * libc and the kernel make of its calls. This needs LD_PRELOAD; without it, a handler that the program installs later
 * replaces ours.
 *
 * In a child of fork() or vfork() nothing is reported, and a fault goes straight to the program's own action.
 */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Defines `next` as the function of that name that the program would call without us, normally that of libc. */
#define NEXT(name, type, ...)                                                                      \
	static type (*next)(__VA_ARGS__);                                                          \
	if (!__atomic_load_n(&next, __ATOMIC_RELAXED))                                             \
	__atomic_store_n((void **)&next, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

static int real_sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	NEXT(sigaction, int, int, const struct sigaction *, struct sigaction *);

	return next(signal, act, old);
}

/* ---- the actions that the program asked for */

static const int signals[] = {SIGSEGV, SIGBUS};

/*
 * Keeps, for each signal, the action that the program asked for, with flags as the kernel returns them. This is a ring of
 * the newest actions: a signal handler cannot take a lock, and may read one action while another thread stores the next.
 */
enum { KEPT_ACTIONS = 64, ACTION_WORDS = sizeof(struct sigaction) / sizeof(uint64_t) };
_Static_assert(sizeof(struct sigaction) % sizeof(uint64_t) == 0, "an action is whole words");
union action {
	struct sigaction action;
	uint64_t word[ACTION_WORDS];
};
static struct {
	union action kept[KEPT_ACTIONS];
	unsigned newest;
} wanted[COUNT(signals)];
static pid_t owner;   /* id of the watched process; 0 until signals_watch() */
static pid_t changer; /* id of the thread that is changing an action; 0 if none */

/* Always asks the kernel: a cached id would be wrong in a child of vfork(), which shares its parent's memory. */
static pid_t this_thread(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static int signal_index(int signal)
{
	for (size_t i = 0; i < COUNT(signals); i++)
		if (signals[i] == signal)
			return (int)i;
	return -1;
}

static struct sigaction load_wanted(int i)
{
	union action own;
	unsigned n;

	do {
		n = __atomic_load_n(&wanted[i].newest, __ATOMIC_ACQUIRE);
		for (int k = 0; k < ACTION_WORDS; k++)
			own.word[k] = __atomic_load_n(&wanted[i].kept[n % KEPT_ACTIONS].word[k],
						      __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/*
		 * retry if other threads have stored so many newer actions that they may have overwritten this slot
		 */
	} while (__atomic_load_n(&wanted[i].newest, __ATOMIC_RELAXED) - n >= KEPT_ACTIONS - 1);
	return own.action;
}

static void store_wanted(int i, const struct sigaction *action)
{
	union action own = {.action = *action};
	unsigned n = wanted[i].newest + 1;

	for (int k = 0; k < ACTION_WORDS; k++)
		__atomic_store_n(&wanted[i].kept[n % KEPT_ACTIONS].word[k], own.word[k],
				 __ATOMIC_RELAXED);
	__atomic_store_n(&wanted[i].newest, n, __ATOMIC_RELEASE);
}

static bool is_owner(void)
{
	return __atomic_load_n(&owner, __ATOMIC_ACQUIRE) == getpid();
}

static void on_fault(int signal, siginfo_t *info, void *context);

/*
 * Puts our handler in place of the program's action. An ignored signal stays ignored, because programs started by
 * exec() inherit that a signal is ignored.
 */
static void install_handler(int signal, const struct sigaction *own)
{
	struct sigaction ours = *own;

	if (own->sa_handler == SIG_IGN)
		return;
	ours.sa_sigaction = on_fault;
	ours.sa_flags |= SA_SIGINFO;
	if (own->sa_handler == SIG_DFL) {
		ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
		sigemptyset(&ours.sa_mask);
	}
	real_sigaction(signal, &ours, NULL);
}

/* ---- when the program changes an action */

struct change {
	int signal, index;
	bool blocked, stood; /* `stood` is true if our handler was installed in place of `own` */
	sigset_t mask;
	struct sigaction own;
};

static bool change_try(void)
{
	pid_t nobody = 0;

	return __atomic_compare_exchange_n(&changer, &nobody, this_thread(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* If our handler is installed, gives the kernel the program's action again and returns true. */
static bool restore_wanted(int signal, int i)
{
	struct sigaction now, own = load_wanted(i);

	return real_sigaction(signal, NULL, &now) == 0 && now.sa_sigaction == on_fault &&
	       real_sigaction(signal, &own, NULL) == 0;
}

/*
 * Call this before the program changes an action. Returns false if our handler must not be installed afterwards. If
 * `block` is true, all signals are blocked until change_end(), so that no handler runs during the change; our
 * sigset() passes false, because sigset() changes the mask itself.
 */
static bool change_begin(struct change *c, int signal, bool block)
{
	int error = errno;

	*c = (struct change){.signal = signal, .index = signal_index(signal)};
	if (c->index < 0 || !__atomic_load_n(&owner, __ATOMIC_ACQUIRE))
		return false;
	bool mine = is_owner();
	if (mine && block) {
		sigset_t all;
		sigfillset(&all);
		c->blocked = pthread_sigmask(SIG_BLOCK, &all, &c->mask) == 0;
	}
	if (mine && __atomic_load_n(&changer, __ATOMIC_RELAXED) == this_thread())
		/* this runs in a signal handler that interrupted a change which this same thread is making */
		mine = false;
	while (mine && !change_try())
		sched_yield();
	c->own = load_wanted(c->index);
	c->stood = restore_wanted(signal, c->index);
	errno = error;
	return mine;
}

static void change_end(struct change *c, bool mine)
{
	struct sigaction own;
	int error = errno;

	if (mine) {
		if (real_sigaction(c->signal, NULL, &own) == 0) {
			store_wanted(c->index, &own);
			install_handler(c->signal, &own);
		}
		__atomic_store_n(&changer, 0, __ATOMIC_RELEASE);
	}
	if (c->blocked)
		pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
	errno = error;
}

/* ---- replacements of sigaction and similar functions */

static int change_action(int signal, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction asked, had = {0};
	struct change c;
	int i = signal_index(signal);

	if (i < 0 || !__atomic_load_n(&owner, __ATOMIC_ACQUIRE))
		return real_sigaction(signal, act, old);
	if (!act) {
		int rc = real_sigaction(signal, NULL, old);
		if (!rc && old && old->sa_sigaction == on_fault)
			*old = load_wanted(i);
		return rc;
	}
	asked = *act; /* a bad pointer crashes here, before anything is changed, as it would in libc */
	if (old)
		had = *old;
	bool mine = change_begin(&c, signal, true);
	int rc = real_sigaction(signal, &asked, old ? &had : NULL);
	change_end(&c, mine);
	if (!rc && old)
		/* if we restored `own`, return `own`: libc then added a flag, which `had` contains */
		*old = c.stood ? c.own : had;
	return rc;
}

EXPORT int sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	return change_action(signal, act, old);
}

EXPORT int __sigaction(int signal, const struct sigaction *act, struct sigaction *old);
int __sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	return change_action(signal, act, old);
}

#define SIGNAL(name, block)                                                                        \
	EXPORT sighandler_t name(int number, sighandler_t handler);                                \
	sighandler_t name(int number, sighandler_t handler)                                        \
	{                                                                                          \
		struct change c;                                                                   \
		NEXT(name, sighandler_t, int, sighandler_t);                                       \
		bool mine = change_begin(&c, number, block);                                       \
		sighandler_t old = next(number, handler);                                          \
		change_end(&c, mine);                                                              \
		return old;                                                                        \
	}
SIGNAL(signal, true)
SIGNAL(bsd_signal, true)
SIGNAL(ssignal, true)
SIGNAL(sysv_signal, true)
SIGNAL(__sysv_signal, true)
SIGNAL(sigset, false) /* false: sigset() changes the mask */

EXPORT int sigignore(int number)
{
	struct change c;
	NEXT(sigignore, int, int);
	bool mine = change_begin(&c, number, true);
	int rc = next(number);

	change_end(&c, mine);
	return rc;
}

EXPORT int siginterrupt(int number, int on)
{
	struct change c;
	NEXT(siginterrupt, int, int, int);
	bool mine = change_begin(&c, number, true);
	int rc = next(number, on);

	change_end(&c, mine);
	return rc;
}

/* ---- when a fault happens */

static uint64_t faulting_pc(const void *context)
{
#if defined(__x86_64__)
	return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return ((const ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return 0;
#endif
}

/*
 * Returns the bytes left on the alternate signal stack, or SIZE_MAX on the normal stack of a thread, which is large
 * enough.
 */
static size_t signal_stack_left(const void *context)
{
	const stack_t *s = &((const ucontext_t *)context)->uc_stack;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), from = (uintptr_t)s->ss_sp;

	return !(s->ss_flags & SS_DISABLE) && here - from < s->ss_size ? here - from : SIZE_MAX;
}

/*
 * How many bytes of stack we need to walk the whole stack, to name one address, and to write a line without a name.
 */
enum { BYTES_FOR_STACK = 12 << 10, BYTES_FOR_ADDRESS = 6 << 10, BYTES_FOR_LINE = 4 << 10 };

/*
 * Where the handler of a second fault jumps to. A crash may have damaged the stack, so that walking the stack faults
 * again.
 */
static sigjmp_buf walk_escape;
static pid_t walker;		   /* id of the thread that is walking its stack; 0 if none */
static size_t kernel_frame = 4096; /* bytes that the kernel needs to call a handler */

static void escape_walk(void)
{
	pid_t who = __atomic_load_n(&walker, __ATOMIC_RELAXED);

	if (who && who == this_thread())
		siglongjmp(walk_escape, 1);
}

/*
 * Walks the stack to name the caller. If the walk itself faults, names only the function of the instruction that
 * faulted first.
 */
static void name_caller_guarded(uint64_t place, char *text, size_t size)
{
	sigset_t faults, had;

	sigemptyset(&faults);
	for (size_t i = 0; i < COUNT(signals); i++)
		sigaddset(&faults, signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &faults, &had);
	if (!sigsetjmp(walk_escape, 0)) {
		__atomic_store_n(&walker, this_thread(), __ATOMIC_RELAXED);
		caller_name_now(text, size);
	} else {
		caller_name_place(pointer_of(place), text, size);
	}
	__atomic_store_n(&walker, 0, __ATOMIC_RELAXED);
	pthread_sigmask(SIG_SETMASK, &had, NULL);
}

static void name_caller_within(size_t room, uint64_t place, char *text, size_t size)
{
	text[0] = '\0';
	if (room >= BYTES_FOR_STACK + kernel_frame)
		name_caller_guarded(place, text, size);
	else if (room >= BYTES_FOR_ADDRESS)
		caller_name_place(pointer_of(place), text, size);
}

/*
 * Returns true if the fault is to be reported. A program may survive its faults and have many, so each pair of code
 * address and allocation is reported once; repetitions are only counted, and the number of reports is bounded. Faults
 * outside of device memory (b is NULL) are normal in runtimes such as those of Java and Go, which handle them, so
 * only few are reported. In a program without a handler such a fault is always reported, because it ends the program.
 */
static bool is_reportable(uint64_t place, const struct block *b, bool handled, uint64_t *number)
{
	enum { MAX_DEVICE_FAULTS = 32, MAX_OTHER_FAULTS = 8 };
	static struct {
		uint64_t place, start, number;
	} reported[MAX_DEVICE_FAULTS];
	static unsigned n, others;

	*number = 0;
	if (!b)
		return !handled || (others < MAX_OTHER_FAULTS && ++others);
	for (unsigned i = 0; i < n; i++) {
		if (reported[i].place == place && reported[i].start == b->start) {
			failures_count(reported[i].number);
			return false;
		}
	}
	if (n == MAX_DEVICE_FAULTS)
		return false;
	*number = reported[n].number = failures_number();
	reported[n].place = place;
	reported[n++].start = b->start;
	return true;
}

struct how {
	bool guarded; /* our handler is installed, so a second fault can be survived */
	bool handled; /* the program has a handler */
};

/*
 * Writes the event of a fault. Only one thread at a time may do this, because the data is static, since a handler's
 * stack may be small.
 */
static void report_fault(int signal, const siginfo_t *info, const void *context, struct how how)
{
	static int telling;
	static struct line l;
	static char where[WATCH_BY];
	uint64_t address = (uint64_t)(uintptr_t)info->si_addr, place = faulting_pc(context), number;
	size_t room = signal_stack_left(context);
	struct block b;

	if (!how.guarded && room > BYTES_FOR_ADDRESS)
		room = BYTES_FOR_ADDRESS; /* do not walk the stack: a second fault would end the program */
	if (room < BYTES_FOR_LINE || !lock_try(&telling))
		return;
	bool device = address >> 16 && memory_find(address, false, &b);
	if (is_reportable(place, device ? &b : NULL, how.handled, &number)) {
		name_caller_within(room, place, where, sizeof(where));
		line_begin(&l, "fault");
		line_number(&l, "number", (int64_t)number);
		line_number(&l, "signal", signal);
		line_handle(&l, "address", info->si_addr);
		if (device) {
			line_handle(&l, "allocation", pointer_of(b.start));
			line_number(&l, "bytes", (int64_t)b.bytes);
			line_number(&l, "kind", b.kind);
			line_text(&l, "owner", b.by);
		}
		line_text(&l, "by", where);
		line_end(&l);
	}
	lock_give(&telling);
}

/*
 * Installs our handler again after the kernel removed it. If the program's handler is for one delivery only
 * (SA_RESETHAND), the kernel resets the action to the default when it calls our handler. From then on the program's
 * action is the default, and our handler is installed in front of the default.
 */
static bool rearm_after_reset(int signal, int i, struct sigaction own)
{
	if (!change_try())
		return false; /* another thread is changing an action; its change_end() looks at what the kernel has */
	own.sa_handler = SIG_DFL;
	store_wanted(i, &own);
	install_handler(signal, &own);
	__atomic_store_n(&changer, 0, __ATOMIC_RELEASE);
	return true;
}

/*
 * Lets the default action happen, as it would have without us. `again` is true if the faulting instruction will run
 * again.
 */
static void do_default(int signal, siginfo_t *info, const struct sigaction *own, bool again)
{
	real_sigaction(signal, own, NULL);
	/*
	 * a signal that a process sent does not come again by itself, so send it again, to arrive when this handler
	 * returns
	 */
	if (!again && syscall(SYS_rt_tgsigqueueinfo, getpid(), this_thread(), signal, info))
		raise(signal);
}

/* Reports a fault. Returns the program's handler, or NULL if there is none; then nothing is left to do. */
__attribute__((noinline)) static void (*handle_fault(int signal, siginfo_t *info,
						     void *context))(int, siginfo_t *, void *)
{
	int i = signal_index(signal), error = errno;
	struct sigaction own = load_wanted(i);
	/* true if kill() sent the signal, or if it tells of a memory error that no access has hit yet */
	bool sent = info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
	bool mine = is_owner(), handled = own.sa_handler != SIG_DFL && own.sa_handler != SIG_IGN;

	if (!sent)
		escape_walk();
	bool once = handled && ((unsigned)own.sa_flags & SA_RESETHAND);
	bool first = mine && (!once || rearm_after_reset(signal, i, own));
	if (mine && !sent)
		report_fault(signal, info, context, (struct how){first, handled});
	if (own.sa_handler == SIG_DFL || (own.sa_handler == SIG_IGN && !sent)) {
		own.sa_handler = SIG_DFL;
		do_default(signal, info, &own, !sent);
	}
	errno = error;
	return handled ? own.sa_sigaction : NULL;
}

/* The call at the end is a tail call, so that no stack frame of ours exists when the program's handler runs. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	void (*own)(int, siginfo_t *, void *) = handle_fault(signal, info, context);

	if (own)
		own(signal, info, context);
}

void signals_watch(void)
{
	char warm[WATCH_BY];
	struct change c;
#ifdef _SC_MINSIGSTKSZ
	long least = sysconf(_SC_MINSIGSTKSZ);
	kernel_frame = least > 0 ? (size_t)least : 0;
#endif
	/* call backtrace() once now: its first call loads the unwinder, which must not happen in a handler */
	caller_name_now(warm, sizeof(warm));
	__atomic_store_n(&owner, getpid(), __ATOMIC_RELEASE);
	for (size_t i = 0; i < COUNT(signals); i++)
		change_end(&c, change_begin(&c, signals[i], true));
}
