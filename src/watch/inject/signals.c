/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segmentation faults. Our handler is the first whatever the program installs, and whenever: it tells what the fault
 * was, and leaves for the program's own with the very signal frame that the kernel made for that one, on the stack,
 * under the mask and with the flags that the program asked for. What the program asks for by sigaction() and its like
 * goes to the kernel first, as it stands; it is read back, kept, and ours is put in its place. So the program sees
 * its own handlers, and what libc and the kernel make of its calls. That works where this library was loaded before
 * the program; elsewhere a handler that is installed later is the only one.
 *
 * In a child of fork, vfork and their like the program's own actions are all there is.
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

/* The function of that name that would be called without us. */
#define NEXT(name, type, ...)                                                                      \
	static type (*next)(__VA_ARGS__);                                                          \
	if (!__atomic_load_n(&next, __ATOMIC_RELAXED))                                             \
	__atomic_store_n((void **)&next, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

static int real_sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	NEXT(sigaction, int, int, const struct sigaction *, struct sigaction *);

	return next(signal, act, old);
}

/* ---- what the program wants */

static const int signals[] = {SIGSEGV, SIGBUS};

/*
 * By signal: the newest action, and some before it, since a handler may read while another thread changes it. Its
 * flags are as the kernel gives them.
 */
enum { KEPT = 64, WORDS = sizeof(struct sigaction) / sizeof(uint64_t) };
_Static_assert(sizeof(struct sigaction) % sizeof(uint64_t) == 0, "an action is whole words");
union action {
	struct sigaction action;
	uint64_t word[WORDS];
};
static struct {
	union action kept[KEPT];
	unsigned newest;
} wanted[COUNT(signals)];
static pid_t owner;   /* the process that is watched; 0: none yet */
static pid_t changer; /* the thread that changes an action */

/* Also in a child of vfork, which has its parent's memory. */
static pid_t this_thread(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static int index_of(int signal)
{
	for (size_t i = 0; i < COUNT(signals); i++)
		if (signals[i] == signal)
			return (int)i;
	return -1;
}

static struct sigaction want(int i)
{
	union action own;
	unsigned n;

	do {
		n = __atomic_load_n(&wanted[i].newest, __ATOMIC_ACQUIRE);
		for (int k = 0; k < WORDS; k++)
			own.word[k] =
				__atomic_load_n(&wanted[i].kept[n % KEPT].word[k], __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* all of it, before that one's turn came again */
	} while (__atomic_load_n(&wanted[i].newest, __ATOMIC_RELAXED) - n >= KEPT - 1);
	return own.action;
}

static void keep(int i, const struct sigaction *action)
{
	union action own = {.action = *action};
	unsigned n = wanted[i].newest + 1;

	for (int k = 0; k < WORDS; k++)
		__atomic_store_n(&wanted[i].kept[n % KEPT].word[k], own.word[k], __ATOMIC_RELAXED);
	__atomic_store_n(&wanted[i].newest, n, __ATOMIC_RELEASE);
}

static bool is_owner(void)
{
	return __atomic_load_n(&owner, __ATOMIC_ACQUIRE) == getpid();
}

static void on_fault(int signal, siginfo_t *info, void *context);

/* Ours in the place of what the program wants. What is ignored stays so: children that are exec'ed inherit it. */
static void install(int signal, const struct sigaction *own)
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

/* ---- changes */

struct change {
	int signal, index;
	bool blocked, stood; /* stood: ours was in the place of `own` */
	sigset_t mask;
	struct sigaction own;
};

static bool change_try(void)
{
	pid_t nobody = 0;

	return __atomic_compare_exchange_n(&changer, &nobody, this_thread(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The kernel's action is what the program wants again: true where ours stood there. */
static bool put_back(int signal, int i)
{
	struct sigaction now, own = want(i);

	return real_sigaction(signal, NULL, &now) == 0 && now.sa_sigaction == on_fault &&
	       real_sigaction(signal, &own, NULL) == 0;
}

/*
 * Before the program changes an action; false: ours has no place there. block: no handler may come in between, but
 * where the call itself is about the mask.
 */
static bool change_begin(struct change *c, int signal, bool block)
{
	int error = errno;

	*c = (struct change){.signal = signal, .index = index_of(signal)};
	if (c->index < 0 || !__atomic_load_n(&owner, __ATOMIC_ACQUIRE))
		return false;
	bool mine = is_owner();
	if (mine && block) {
		sigset_t all;
		sigfillset(&all);
		c->blocked = pthread_sigmask(SIG_BLOCK, &all, &c->mask) == 0;
	}
	if (mine && __atomic_load_n(&changer, __ATOMIC_RELAXED) == this_thread())
		mine = false; /* a handler that came amid a change without a mask */
	while (mine && !change_try())
		sched_yield();
	c->own = want(c->index);
	c->stood = put_back(signal, c->index);
	errno = error;
	return mine;
}

static void change_end(struct change *c, bool mine)
{
	struct sigaction own;
	int error = errno;

	if (mine) {
		if (real_sigaction(c->signal, NULL, &own) == 0) {
			keep(c->index, &own);
			install(c->signal, &own);
		}
		__atomic_store_n(&changer, 0, __ATOMIC_RELEASE);
	}
	if (c->blocked)
		pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
	errno = error;
}

/* ---- sigaction and its like */

static int changed(int signal, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction asked, had = {0};
	struct change c;
	int i = index_of(signal);

	if (i < 0 || !__atomic_load_n(&owner, __ATOMIC_ACQUIRE))
		return real_sigaction(signal, act, old);
	if (!act) {
		int rc = real_sigaction(signal, NULL, old);
		if (!rc && old && old->sa_sigaction == on_fault)
			*old = want(i);
		return rc;
	}
	asked = *act; /* a bad pointer is found here, as it would be */
	if (old)
		had = *old;
	bool mine = change_begin(&c, signal, true);
	int rc = real_sigaction(signal, &asked, old ? &had : NULL);
	change_end(&c, mine);
	if (!rc && old)
		*old = c.stood ? c.own : had; /* libc marks what it hands to the kernel */
	return rc;
}

EXPORT int sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	return changed(signal, act, old);
}

EXPORT int __sigaction(int signal, const struct sigaction *act, struct sigaction *old);
int __sigaction(int signal, const struct sigaction *act, struct sigaction *old)
{
	return changed(signal, act, old);
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
SIGNAL(sigset, false) /* which is about the mask */

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

/* ---- a fault */

static uint64_t place_of(const void *context)
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

/* Bytes that are left of the stack that the program gave its handlers; of a thread's own there are enough. */
static size_t room_left(const void *context)
{
	const stack_t *s = &((const ucontext_t *)context)->uc_stack;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), from = (uintptr_t)s->ss_sp;

	return !(s->ss_flags & SS_DISABLE) && here - from < s->ss_size ? here - from : SIZE_MAX;
}

/* What looking at a whole stack takes, one place of it, and a line without. */
enum { ROOM_STACK = 12 << 10, ROOM_PLACE = 6 << 10, ROOM_LINE = 4 << 10 };

/* A crash may have left no stack to look at: who looks comes back here, where the kernel would have ended the program. */
static sigjmp_buf looked;
static pid_t looker;	    /* the thread that looks; 0: none */
static size_t frame = 4096; /* of the kernel's, for a handler */

static void look_back(void)
{
	pid_t who = __atomic_load_n(&looker, __ATOMIC_RELAXED);

	if (who && who == this_thread())
		siglongjmp(looked, 1);
}

static void caller_guarded(uint64_t place, char *text, size_t size)
{
	sigset_t faults, had;

	sigemptyset(&faults);
	for (size_t i = 0; i < COUNT(signals); i++)
		sigaddset(&faults, signals[i]);
	pthread_sigmask(SIG_UNBLOCK, &faults, &had);
	if (!sigsetjmp(looked, 0)) {
		__atomic_store_n(&looker, this_thread(), __ATOMIC_RELAXED);
		caller_name_now(text, size);
	} else {
		caller_name_place(pointer_of(place), text, size);
	}
	__atomic_store_n(&looker, 0, __ATOMIC_RELAXED);
	pthread_sigmask(SIG_SETMASK, &had, NULL);
}

static void caller_within(size_t room, uint64_t place, char *text, size_t size)
{
	text[0] = '\0';
	if (room >= ROOM_STACK + frame)
		caller_guarded(place, text, size);
	else if (room >= ROOM_PLACE)
		caller_name_place(pointer_of(place), text, size);
}

/*
 * Of each place and allocation once: a program may live with its faults, and have many. False where it was told, and
 * is counted; where there is no room for more, too. Strange ones are of runtimes as those of Java and Go, which have
 * a handler: that of a program without is its last.
 */
static bool is_new(uint64_t place, const struct block *b, bool handled, uint64_t *number)
{
	enum { DEVICE_MOST = 32, STRANGE_MOST = 8 };
	static struct {
		uint64_t place, start, number;
	} told[DEVICE_MOST];
	static unsigned n, strange;

	*number = 0;
	if (!b)
		return !handled || (strange < STRANGE_MOST && ++strange);
	for (unsigned i = 0; i < n; i++) {
		if (told[i].place == place && told[i].start == b->start) {
			failures_count(told[i].number);
			return false;
		}
	}
	if (n == DEVICE_MOST)
		return false;
	*number = told[n].number = failures_number();
	told[n].place = place;
	told[n++].start = b->start;
	return true;
}

struct how {
	bool guarded; /* ours is there for another fault */
	bool handled; /* the program has a handler */
};

/* At most one thread at a time: a handler's stack may be small. */
static void tell_fault(int signal, const siginfo_t *info, const void *context, struct how how)
{
	static int telling;
	static struct line l;
	static char where[WATCH_BY];
	uint64_t address = (uint64_t)(uintptr_t)info->si_addr, place = place_of(context), number;
	size_t room = room_left(context);
	struct block b;

	if (!how.guarded && room > ROOM_PLACE)
		room = ROOM_PLACE; /* another fault would be the end */
	if (room < ROOM_LINE || !lock_try(&telling))
		return;
	bool device = address >> 16 && memory_find(address, false, &b);
	if (is_new(place, device ? &b : NULL, how.handled, &number)) {
		caller_within(room, place, where, sizeof(where));
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

/* The kernel took it out as it called us: what is left is the default, and ours before it. */
static bool used_up(int signal, int i, struct sigaction own)
{
	if (!change_try())
		return false; /* who changes it now finds what the kernel has */
	own.sa_handler = SIG_DFL;
	keep(i, &own);
	install(signal, &own);
	__atomic_store_n(&changer, 0, __ATOMIC_RELEASE);
	return true;
}

/* As the kernel would have. */
static void die(int signal, siginfo_t *info, const struct sigaction *own, bool again)
{
	real_sigaction(signal, own, NULL);
	/* a fault: the instruction runs again. What does not come by itself comes once this handler is left. */
	if (!again && syscall(SYS_rt_tgsigqueueinfo, getpid(), this_thread(), signal, info))
		raise(signal);
}

/* What the program's handler is; NULL: it has none, and all is done. */
__attribute__((noinline)) static void (*heard(int signal, siginfo_t *info,
					      void *context))(int, siginfo_t *, void *)
{
	int i = index_of(signal), error = errno;
	struct sigaction own = want(i);
	/* by kill(), or a memory error that hits nobody now */
	bool sent = info->si_code <= 0 || (signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
	bool mine = is_owner(), handled = own.sa_handler != SIG_DFL && own.sa_handler != SIG_IGN;

	if (!sent)
		look_back();
	bool once = handled && ((unsigned)own.sa_flags & SA_RESETHAND);
	bool first = mine && (!once || used_up(signal, i, own));
	if (mine && !sent)
		tell_fault(signal, info, context, (struct how){first, handled});
	if (own.sa_handler == SIG_DFL || (own.sa_handler == SIG_IGN && !sent)) {
		own.sa_handler = SIG_DFL;
		die(signal, info, &own, !sent);
	}
	errno = error;
	return handled ? own.sa_sigaction : NULL;
}

/* Nothing of ours is left on the stack when the program's handler runs: this is a jump. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	void (*own)(int, siginfo_t *, void *) = heard(signal, info, context);

	if (own)
		own(signal, info, context);
}

void signals_watch(void)
{
	char warm[WATCH_BY];
	struct change c;
#ifdef _SC_MINSIGSTKSZ
	long least = sysconf(_SC_MINSIGSTKSZ);
	frame = least > 0 ? (size_t)least : 0;
#endif
	caller_name_now(warm, sizeof(warm)); /* the unwinder is loaded now, not in the handler */
	__atomic_store_n(&owner, getpid(), __ATOMIC_RELEASE);
	for (size_t i = 0; i < COUNT(signals); i++)
		change_end(&c, change_begin(&c, signals[i], true));
}
