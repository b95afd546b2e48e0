/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of oneDNN. It is written in C++ and throws std::bad_alloc through its C functions, which no code of this program
 * could catch; and where it asks malloc() for an object it constructs the object at NULL. So its requests come here, and
 * a refusal is reported as every other one is.
 */
#include "cpu/onednn/new.h"

#include "base/asan.h"
#include "base/mem.h"

#include <stdlib.h>

#if !WITH_ASAN /* AddressSanitizer has an operator new of its own, which goes with its operator delete */
/*
 * The program exports this function, so that libraries find it before the one of libstdc++. The name is that of the C++
 * ABI for `void *operator new(unsigned long)`; operator new[] calls it.
 */
__attribute__((visibility("default"))) void *_Znwm(size_t bytes);
void *_Znwm(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1); /* operator delete of the libraries is free() */

	if (!p)
		mem_refused(bytes);
	return p;
}

/* Ends the program if an object of oneDNN was refused; of buffers, which are larger, oneDNN itself tells us. */
static void look_at(const void *p, size_t bytes)
{
	enum { MAX_OBJECT_BYTES = 1 << 16 };

	if (!p && bytes && bytes <= MAX_OBJECT_BYTES)
		mem_refused(bytes);
}

static void *checked_malloc(size_t bytes)
{
	void *p = malloc(bytes);

	look_at(p, bytes);
	return p;
}

static int checked_memalign(void **p, size_t alignment, size_t bytes)
{
	int rc = posix_memalign(p, alignment, bytes);

	look_at(rc ? NULL : *p, bytes);
	return rc;
}

void onednn_check_memory(const struct dl *lib)
{
	dl_redirect(lib, "malloc", (void (*)(void))checked_malloc);
	dl_redirect(lib, "posix_memalign", (void (*)(void))checked_memalign);
}
#else
void onednn_check_memory(const struct dl *lib)
{
	(void)lib;
}
#endif
