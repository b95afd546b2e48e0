/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATE_RUN_H
#define EMULATE_RUN_H
/* What run.cc knows of the launch that goes on, for check.cc, which is only in the library that checks. */
#include <stddef.h>
#include <stdint.h>

struct emulation {
	const char *kernel;
	uint64_t launch, block;		 /* from 1, from 0 */
	uint64_t whole; /* the last launch that began when all before it had ended */
	unsigned thread, epoch;		 /* epoch: barriers that the block has passed */
	unsigned step;			 /* barriers that the thread's warp has passed */
	const char *room, *room_end;	 /* dynamic shared memory */
	const char *stacks, *stacks_end; /* threads' own */
	const void *params;
	bool kernels; /* they run, and what is accessed is theirs */
	bool early; /* the thread has not waited yet for the launch before, which may still be under way */
	int failed; /* said something of this launch */
};
extern struct emulation emulation;

/* Says once a launch what is wrong; the launch fails. */
void emulate_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* check.cc's; NULL in the library that only computes. */
extern "C" {
__attribute__((weak)) void check_memory(const void *p, size_t n, int what);
__attribute__((weak)) void check_read(const void *p, size_t n);
__attribute__((weak)) void check_write(const void *p, size_t n);
__attribute__((weak)) void check_atomic(const void *p, size_t n);
__attribute__((weak)) void check_settle(void);
/* 16 bytes on their way into shared memory; and that they are there. */
__attribute__((weak)) void check_fetch(const void *to, const void *from, bool there);
__attribute__((weak)) void check_fetched(const void *to);
}

#endif
