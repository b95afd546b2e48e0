/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEM_H
#define BASE_MEM_H
/*
 * Counted memory. Each block has a purpose and a kind of memory, and each pair of these has
 * counters. A memory report sums these counters, and tests use them to prove that an inference
 * allocates nothing.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mem_purpose {
	MEM_MODEL, /* graph, names, diagnostics: arenas */
	MEM_WEIGHTS, /* copies of initializers; those that are read in place in the mapped file are not counted */
	MEM_PACKED,	 /* initializers in the form that a kernel wants */
	MEM_ACTIVATIONS, /* values between steps */
	MEM_WORKSPACE,	 /* scratch of a step */
	MEM_STAGING,	 /* inputs and outputs while they are copied between host and device */
	MEM_CONTEXT,	 /* device contexts, handles, thread stacks */
	MEM_CODE,	 /* compiled kernels */
	/*
	 * device memory that cuDNN and other libraries allocate; measured, because we cannot count
	 * their calls
	 */
	MEM_LIBRARIES,
	MEM_GRAPHS, /* CUDA graphs; measured, not counted */
	MEM_PURPOSES
};

enum mem_kind { MEM_HOST, MEM_PINNED, MEM_DEVICE, MEM_KINDS };

struct mem_count {
	uint64_t calls; /* allocations so far */
	uint64_t live;	/* bytes now */
	uint64_t peak;	/* most bytes at once */
};

/* Returns a 64-byte aligned block that is not cleared, or NULL if the system refuses memory or has too little. */
void *mem_alloc(size_t bytes, enum mem_purpose purpose);
/* Works like mem_alloc(), but clears the block. */
void *mem_zalloc(size_t bytes, enum mem_purpose purpose);
void mem_free(void *p);
/*
 * From now on freed memory of the C library's allocator stays in the process, up to some MiB a thread, for a program that
 * allocates and frees blocks of the same sizes all the time: the system clears each page that it gives out again.
 */
void mem_keep_freed(void);
/*
 * Moves n bytes from the block `from`, which mem_alloc() gave, to another place, and frees the block. The system gets its pages
 * back on the way, so that a large block that grows does not take its size twice.
 */
void mem_move(void *to, void *from, size_t n);

/*
 * Counts bytes that another allocator, such as the one for device memory, has allocated. A negative
 * number counts bytes that it has freed.
 */
void mem_note(enum mem_kind kind, enum mem_purpose purpose, int64_t bytes);

struct mem_count mem_count(enum mem_kind kind, enum mem_purpose purpose);
/*
 * Ends the program with E-MEMORY because the system refused `bytes` bytes, for callers that have no
 * way to return an error. `say` of mem_on_refusal() reports it, if set; it must not allocate.
 */
_Noreturn void mem_refused(size_t bytes);
void mem_on_refusal(void (*say)(size_t bytes));
/* Returns the number of allocations of host memory, summed over all purposes. */
uint64_t mem_calls(void);
/* "copied weights", for people, and "copied_weights", for documents. */
const char *mem_purpose_name(enum mem_purpose purpose);
const char *mem_purpose_key(enum mem_purpose purpose);

/* Multiplies or adds sizes. Returns false if the result overflows. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

#endif
