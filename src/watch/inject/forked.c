/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA in a child of fork(), where it does not work once the parent has begun to use it. CUPTI does not call us back in
 * such a child. So in the child, and only there, we put a breakpoint at the start of those functions of the driver that
 * start or do work on a device. The first one that is reached is reported, all breakpoints are taken out, and the call
 * goes on as it would have. No work is slowed down, because there is none that could be done.
 */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/*
 * Functions of the driver that start or do work on a device. Calls that only clean up fail in a forked child too, but
 * that is harmless and not worth a report. Programs get the same addresses from cuGetProcAddress as from the linker.
 */
static const char *const work[] = {
	"cuInit",
	"cuCtxCreate_v2",
	"cuCtxCreate_v3",
	"cuCtxCreate_v4",
	"cuDevicePrimaryCtxRetain",
	"cuMemAlloc_v2",
	"cuMemAllocAsync",
	"cuMemAllocManaged",
	"cuMemAllocHost_v2",
	"cuMemHostAlloc",
	"cuMemCreate",
	"cuMemcpy",
	"cuMemcpyAsync",
	"cuMemcpyHtoD_v2",
	"cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoH_v2",
	"cuMemcpyDtoHAsync_v2",
	"cuMemsetD8_v2",
	"cuMemsetD8Async",
	"cuMemsetD32_v2",
	"cuMemsetD32Async",
	"cuLaunchKernel",
	"cuLaunchKernel_ptsz",
	"cuLaunchKernelEx",
	"cuLaunchKernelEx_ptsz",
	"cuGraphLaunch",
	"cuStreamCreate",
	"cuStreamCreateWithPriority",
	"cuModuleLoad",
	"cuModuleLoadData",
	"cuModuleLoadDataEx",
	"cuLibraryLoadData",
};

static bool forked;

bool inject_forked(void)
{
	return forked;
}

/* Takes no lock, because the lock may be held by a thread that does not exist in the child. */
static void report_call(const char *call, int result)
{
	static bool reported;
	static struct line l; /* static, because the stack of a signal handler may be small */
	char by[WATCH_BY];

	if (__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
		return;
	line_begin(&l, "forked");
	line_number(&l, "child", getpid());
	line_text(&l, "call", call);
	line_number(&l, "result", result);
	line_text(&l, "by", caller_name_now(by, sizeof(by)));
	line_end(&l);
}

/*
 * Reports the first CUDA call that fails in a forked child, in the log of its parent, if CUPTI does call us back there.
 */
void forked_call(const CUpti_CallbackData *c)
{
	int result = *(const int *)c->functionReturnValue;

	if (!result || result == CUDA_ERROR_NOT_READY)
		return;
	for (size_t i = 0; i < COUNT(work); i++)
		if (strcmp(c->functionName, work[i]) == 0)
			report_call(c->functionName, result);
}

#ifdef __x86_64__
/* The functions of `work`, or NULL, and the bytes at their starts; found by the parent, because dlsym() takes locks. */
static unsigned char *entry[COUNT(work)];
static unsigned char original[COUNT(work)];
static struct sigaction former; /* the program's action for SIGTRAP */
enum { BREAKPOINT = 0xCC };

static bool write_code(unsigned char *at, unsigned char value)
{
	uintptr_t page = (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	size_t bytes = (uintptr_t)at + 1 - page;

	if (mprotect((void *)page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return false;
	*at = value;
	return mprotect((void *)page, bytes, PROT_READ | PROT_EXEC) == 0;
}

static void on_breakpoint(int signal, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *reached = (const unsigned char *)registers[REG_RIP] - 1;

	(void)info;
	for (size_t i = 0; i < COUNT(work); i++) {
		if (entry[i] != reached)
			continue;
		for (size_t k = 0; k < COUNT(work); k++)
			if (entry[k])
				write_code(entry[k], original[k]);
		registers[REG_RIP]--;
		sigaction(SIGTRAP, &former, NULL);
		report_call(work[i], CUDA_ERROR_NOT_INITIALIZED);
		return;
	}
	/* not our breakpoint: restore the program's handler and raise the signal again */
	sigaction(SIGTRAP, &former, NULL);
	raise(signal);
}

static void find_entries(void)
{
	void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	for (size_t i = 0; h && i < COUNT(work); i++) {
		*(void **)&entry[i] = dlsym(h, work[i]);
		original[i] = entry[i] ? *entry[i] : 0;
	}
}

static void set_breakpoints(void)
{
	struct sigaction act = {.sa_sigaction = on_breakpoint, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigset_t blocked;

	/* a breakpoint would kill a thread that blocks the signal */
	if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0 || sigismember(&blocked, SIGTRAP) ||
	    sigaction(SIGTRAP, &act, &former) != 0)
		return;
	for (size_t i = 0; i < COUNT(work); i++)
		if (entry[i] && !write_code(entry[i], BREAKPOINT))
			entry[i] = NULL;
}
#else
static void find_entries(void)
{
}
static void set_breakpoints(void)
{
}
#endif

static void after_fork_in_child(void)
{
	forked = true;
	record_forked();
	set_breakpoints();
}

void forked_watch(void)
{
	find_entries();
	pthread_atfork(NULL, NULL, after_fork_in_child);
}
