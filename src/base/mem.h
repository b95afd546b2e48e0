/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEM_H
#define BASE_MEM_H
/*
 * Counted memory. Each block that the program allocates has a purpose and a kind with a counter. A memory report
 * is a sum over these counters, and tests use them to prove that an inference allocates nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mem_purpose {
	MEM_MODEL,	 /* graph, names, diagnostics: arenas */
	MEM_WEIGHTS,	 /* initializers and their packed copies */
	MEM_ACTIVATIONS, /* values between steps */
	MEM_WORKSPACE,	 /* scratch of a step */
	MEM_STAGING,	 /* inputs and outputs on their way */
	MEM_CONTEXT,	 /* device contexts, handles, thread stacks */
	MEM_CODE,	 /* compiled kernels */
	MEM_LIBRARIES, /* device memory that cuDNN and other libraries take; measured, not counted */
	MEM_GRAPHS,    /* CUDA graphs; measured, not counted */
	MEM_PURPOSES
};

enum mem_kind { MEM_HOST, MEM_PINNED, MEM_DEVICE, MEM_KINDS };

struct mem_count {
	uint64_t calls; /* allocations so far */
	uint64_t live;	/* bytes now */
	uint64_t peak;	/* most bytes at once */
};

/* 64-byte aligned, not cleared; NULL: the system refuses. */
void *mem_alloc(size_t bytes, enum mem_purpose purpose);
/* The same, cleared. */
void *mem_zalloc(size_t bytes, enum mem_purpose purpose);
void mem_free(void *p);

/* Count bytes that another allocator has given, or, if negative, that were returned to it (device memory). */
void mem_note(enum mem_kind kind, enum mem_purpose purpose, int64_t bytes);

struct mem_count mem_count(enum mem_kind kind, enum mem_purpose purpose);
/* Sum of the calls over all purposes of host memory. */
uint64_t mem_calls(void);
const char *mem_purpose_name(enum mem_purpose purpose);

/* Arithmetic on sizes; false: the result overflows. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

#endif
