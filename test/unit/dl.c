/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dl.h"

#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 400 };

static pthread_barrier_t together;

static void *open_library(void *arg)
{
	static const char *const sonames[] = {"libanl.so.1", "libBrokenLocale.so.1", NULL};
	struct dl *lib = arg;
	struct diag d = {0};

	pthread_barrier_wait(&together);
	if (dl_open(lib, sonames, NULL, NULL, 0, &d))
		lib->handle = NULL;
	diag_free(&d);
	return NULL;
}

/* Readers of pictures do so: one thread may load the library while another looks whether it is loaded. */
static void threads_open_a_library_at_once(void)
{
	pthread_t thread[THREADS];
	struct dl lib[THREADS];

	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_init(&together, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			CHECK(!pthread_create(&thread[i], NULL, open_library, &lib[i]));
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		pthread_barrier_destroy(&together);
		for (int i = 0; i < THREADS; i++)
			if (CHECK(lib[i].handle))
				dlclose(lib[i].handle);
	}
}

int main(void)
{
	UNIT(threads_open_a_library_at_once);
	return unit_end();
}
