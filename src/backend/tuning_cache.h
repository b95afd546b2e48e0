/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TUNING_CACHE_H
#define BACKEND_TUNING_CACHE_H
/*
 * What was found out about a device's kernels, kept on disk from process to process:
 *
 *	ROOT/v1/DEVICE/choices.txt	a line a choice: key, tab, value; those used last come last
 *	ROOT/v1/DEVICE/blobs/HASH	plans and compiled kernels, each behind its key and a checksum
 *
 * DEVICE names the GPU, its compute capability and the driver; keys begin with the library's version. What is
 * damaged or of another version is as if it were not there. Files are replaced whole, under a lock.
 */
#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>

enum { CACHE_TEXT_MOST = 1 << 20, CACHE_BLOBS_MOST = 256 << 20 };

/* The folder: `option` (NULL: none given), else the user's cache folder; NULL where "off" or nowhere. */
const char *cache_root(const char *option, struct arena *a);

struct cache;
/* NULL root: keeps things for this process only. Never NULL. device: any text; it becomes a folder's name. */
struct cache *cache_open(const char *root, const char *device);
const char *cache_get(struct cache *c, const char *key); /* NULL: not known */
void cache_put(struct cache *c, const char *key, const char *value);
/* In the arena; NULL: not known. */
void *cache_blob_get(struct cache *c, const char *key, struct arena *a, size_t *n);
void cache_blob_put(struct cache *c, const char *key, const void *data, size_t n);
/* Why nothing can be written, or NULL. */
const char *cache_trouble(const struct cache *c);
/* Writes what is new; 0 or -code. The cache is gone afterwards. */
int cache_close(struct cache *c, struct diag *d);

/* What is there: called for each device's folder. */
struct cache_folder {
	const char *device, *path;
	size_t choices, blobs;
	unsigned long long bytes;
};
int cache_each(const char *root, int (*tell)(void *arg, const struct cache_folder *), void *arg);
/* Removes all that the cache made under root, and nothing else. Bytes and files that went. */
int cache_clear(const char *root, unsigned long long *bytes, size_t *files, struct diag *d);

#endif
