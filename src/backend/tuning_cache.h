/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TUNING_CACHE_H
#define BACKEND_TUNING_CACHE_H
/*
 * Results of tuning, kept on disk from process to process:
 *
 *	ROOT/v1/DEVICE/choices.txt	one line for each choice: key, tab, value; the last used ones stand last
 *	ROOT/v1/DEVICE/blobs/HASH	plans and compiled kernels, each after its key and a checksum
 *
 * DEVICE names the GPU, its compute capability and the driver; keys begin with the version of the library. Files that
 * are damaged or of another version are ignored. Files are replaced as a whole, under a lock.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>

/* most bytes in a device's folder: of choices.txt, and of all blobs together */
enum { CACHE_MAX_TEXT = 1 << 20, CACHE_MAX_BLOBS = 256 << 20 };

/*
 * Returns the path of the cache's folder, in the arena: `option` if it is given, else a folder
 * below the user's cache folder. Returns NULL if the option is "off" or the user has no cache
 * folder.
 */
const char *cache_root(const char *option, struct arena *a);

struct cache;
/*
 * Opens the results of one device. Never returns NULL. If root is NULL, results are kept for this
 * process only. `device` may be any text; it is converted to the name of a folder.
 */
struct cache *cache_open(const char *root, const char *device);
/* returns NULL if the cache lacks the key */
const char *cache_get(struct cache *c, const char *key);
void cache_put(struct cache *c, const char *key, const char *value);
/*
 * Returns a copy of the blob in the arena and sets *n to its size. Returns NULL if the blob is not
 * in the cache.
 */
void *cache_blob_get(struct cache *c, const char *key, struct arena *a, size_t *n);
void cache_blob_put(struct cache *c, const char *key, const void *data, size_t n);
/* Returns the reason why the cache cannot be written, or NULL if it can be written. */
const char *cache_trouble(const struct cache *c);
/* Writes new results to disk and frees the cache. Returns 0 or -code. */
int cache_close(struct cache *c, struct diag *d);

/* One device's folder in the cache, as reported to the function tell() of the caller. */
struct cache_folder {
	const char *device, *path;
	size_t choices, blobs;
	unsigned long long bytes;
};
int cache_each(const char *root, int (*tell)(void *arg, const struct cache_folder *), void *arg);
/*
 * Removes all files that the cache wrote under root, and no others. Sets *files to their number and
 * *bytes to their total size.
 */
int cache_clear(const char *root, unsigned long long *bytes, size_t *files, struct diag *d);

#endif
