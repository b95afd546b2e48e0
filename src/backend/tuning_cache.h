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

enum { CACHE_MAX_TEXT = 1 << 20, CACHE_MAX_BLOBS = 256 << 20 }; /* bytes in a device's folder */

/*
 * The cache's folder in the arena: `option` if it is given, else one below the user's cache folder. NULL if the
 * option is "off" or the user has no cache folder.
 */
const char *cache_root(const char *option, struct arena *a);

struct cache;
/*
 * Never returns NULL. root NULL: keeps results for this process only. device: any text, which becomes the name
 * of a folder.
 */
struct cache *cache_open(const char *root, const char *device);
const char *cache_get(struct cache *c, const char *key); /* NULL: not known */
void cache_put(struct cache *c, const char *key, const char *value);
/* A copy of the blob in the arena and its size; NULL if it is not in the cache. */
void *cache_blob_get(struct cache *c, const char *key, struct arena *a, size_t *n);
void cache_blob_put(struct cache *c, const char *key, const void *data, size_t n);
/* Why the cache cannot be written; NULL if it can. */
const char *cache_trouble(const struct cache *c);
/* Writes new results to disk and frees the cache. 0 or -code. */
int cache_close(struct cache *c, struct diag *d);

/* Calls tell() for the folder of each device. */
struct cache_folder {
	const char *device, *path;
	size_t choices, blobs;
	unsigned long long bytes;
};
int cache_each(const char *root, int (*tell)(void *arg, const struct cache_folder *), void *arg);
/* Removes all files that the cache made under root and no others; returns their number and size. */
int cache_clear(const char *root, unsigned long long *bytes, size_t *files, struct diag *d);

#endif
