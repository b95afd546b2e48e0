/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIMIT_ISA=LEVEL LD_PRELOAD=limit.so COMMAND: the command and what it starts see a processor with fewer instructions, so that a
 * program and its peers can be measured side by side as on an older one. Linux can make the instruction CPUID trap on Intel's processors since
 * Ivy Bridge; this library answers it then, without the bits that the level leaves out. Programs that do not ask CPUID can still use all instructions.
 * XGETBV and the sizes of leaf 13 stay the real ones, as a thread's state keeps its size. The C library has chosen its own functions before this one
 * is loaded.
 *
 *   avx2     no AVX-512, no AVX-VNNI, no AMX
 *   avx512   AVX-512 of Skylake: F, BW, CD, DQ, VL
 *   vnni     AVX-512 of Ice Lake, with VNNI: no bf16, no 16-bit floats, no AMX
 *
 * The flag is a thread's own; threads and processes that it makes have it as well, and what execve() starts gets it from here
 * again. Handlers of SIGSEGV are kept, and get what is no CPUID; a static program is not limited.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, TRAP = 0, ANSWER = 1, STATUS = 3 };

/* Registers of CPUID in the order of struct leaf. */
enum { EAX, EBX, ECX, EDX };

#define BIT(n) (1u << (n))
#define AMX    (BIT(22) | BIT(24) | BIT(25)) /* leaf 7, EDX: bf16, tiles, int8 */
/* of leaf 7 what Ice Lake's AVX-512 has beyond Skylake's: EBX IFMA; ECX VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; EDX VP2INTERSECT */
#define LATER_EBX BIT(21)
#define LATER_ECX (BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14))
#define LATER_EDX (BIT(2) | BIT(3) | BIT(8))
/* EBX: F, DQ, PF, ER, CD, BW, VL */
#define AVX512 (BIT(16) | BIT(17) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31))
#define FP16   BIT(23) /* EDX */
/* subleaf 1, EAX: AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; EDX: AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10 */
#define NEW_EAX (BIT(4) | BIT(5) | BIT(21) | BIT(23))
#define NEW_EDX (BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19))
/* leaf 13, EAX: states of XCR0 */
#define TILE_STATES (BIT(17) | BIT(18))
#define WIDE_STATES (BIT(5) | BIT(6) | BIT(7))

/* Bits of a leaf that a level does not have. */
struct leaf {
	unsigned leaf, sub, hidden[4];
};
static const struct level {
	const char *name;
	struct leaf leaves[3];
} levels[] = {
	{"avx2",
	 {{7, 0, {0, AVX512 | LATER_EBX, LATER_ECX, LATER_EDX | FP16 | AMX}},
	  {7, 1, {NEW_EAX, 0, 0, NEW_EDX}},
	  {13, 0, {TILE_STATES | WIDE_STATES, 0, 0, 0}}}},
	{"avx512",
	 {{7, 0, {0, LATER_EBX, LATER_ECX, LATER_EDX | FP16 | AMX}},
	  {7, 1, {NEW_EAX, 0, 0, NEW_EDX}},
	  {13, 0, {TILE_STATES, 0, 0, 0}}}},
	{"vnni",
	 {{7, 0, {0, 0, 0, FP16 | AMX}},
	  {7, 1, {NEW_EAX, 0, 0, NEW_EDX}},
	  {13, 0, {TILE_STATES, 0, 0, 0}}}},
};
static const struct level *level;
static struct sigaction theirs; /* the program's own handling of SIGSEGV */

/* The C library's sigaction(). */
static int set_action(int number, const struct sigaction *act, struct sigaction *old)
{
	static int (*real)(int, const struct sigaction *, struct sigaction *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sigaction");
	return real(number, act, old);
}

static void answer(greg_t *g)
{
	unsigned leaf = (unsigned)g[REG_RAX], sub = (unsigned)g[REG_RCX], r[4];

	syscall(SYS_arch_prctl, ARCH_SET_CPUID, ANSWER);
	__cpuid_count(leaf, sub, r[EAX], r[EBX], r[ECX], r[EDX]);
	syscall(SYS_arch_prctl, ARCH_SET_CPUID, TRAP);
	for (size_t i = 0; i < sizeof(level->leaves) / sizeof(*level->leaves); i++)
		for (int k = 0;
		     k < 4 && level->leaves[i].leaf == leaf && level->leaves[i].sub == sub; k++)
			r[k] &= ~level->leaves[i].hidden[k];
	g[REG_RAX] = r[EAX];
	g[REG_RBX] = r[EBX];
	g[REG_RCX] = r[ECX];
	g[REG_RDX] = r[EDX];
}

/* Hands a fault that is none of ours to the program. By default it happens again, with nobody to catch it. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	if (theirs.sa_flags & SA_SIGINFO)
		theirs.sa_sigaction(number, info, context);
	else if (theirs.sa_handler != SIG_DFL && theirs.sa_handler != SIG_IGN)
		theirs.sa_handler(number);
	else
		set_action(number, &theirs, NULL);
}

static void trapped(int number, siginfo_t *info, void *context)
{
	static const unsigned char cpuid[] = {0x0f, 0xa2};
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	int error = errno;

	/* CPUID that traps is a general protection fault, which has no address: what lies at RIP has just been read */
	if (info->si_code == SI_KERNEL && !memcmp((const void *)g[REG_RIP], cpuid, sizeof(cpuid))) {
		answer(g);
		g[REG_RIP] += (greg_t)sizeof(cpuid);
	} else {
		pass_on(number, info, context);
	}
	errno = error;
}

int sigaction(int number, const struct sigaction *act, struct sigaction *old)
{
	if (number != SIGSEGV || !level)
		return set_action(number, act, old);
	if (old)
		*old = theirs;
	if (act)
		theirs = *act;
	return 0;
}

void (*signal(int number, void (*handler)(int)))(int)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	return sigaction(number, &act, &old) ? SIG_ERR : old.sa_handler;
}

/* A fault ends the process if its signal is blocked, so SIGSEGV never is. */
static int set_mask(const char *name, int how, const sigset_t *set, sigset_t *old)
{
	int (*real)(int, const sigset_t *, sigset_t *);
	sigset_t less;

	*(void **)&real = dlsym(RTLD_NEXT, name);
	if (set && how != SIG_UNBLOCK) {
		less = *set;
		sigdelset(&less, SIGSEGV);
		set = &less;
	}
	return real(how, set, old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return set_mask("sigprocmask", how, set, old);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return set_mask("pthread_sigmask", how, set, old);
}

static void refuse(const char *what)
{
	fprintf(stderr, "limit: %s\n", what);
	_exit(STATUS);
}

__attribute__((constructor)) static void begin(void)
{
	const struct sigaction ours = {.sa_sigaction = trapped,
				       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
	const char *name = getenv("LIMIT_ISA");

	for (size_t i = 0; name && i < sizeof(levels) / sizeof(*levels); i++)
		if (!strcmp(name, levels[i].name))
			level = &levels[i];
	if (!level)
		refuse("LIMIT_ISA is avx2, avx512 or vnni");
	if (set_action(SIGSEGV, &ours, &theirs) || syscall(SYS_arch_prctl, ARCH_SET_CPUID, TRAP))
		refuse("this system cannot make CPUID trap: it takes an Intel processor and a hypervisor that lets it");
}
