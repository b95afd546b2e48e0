/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files are mapped as a whole for reading; a file that is written appears completely or not at all. */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The bytes of a file, read-only. Regular files are mapped. Pipes and "-", standard input, are read into memory;
 * afterwards standard input is a file with the same content, so that another process can read it again.
 */
struct file_map {
	const unsigned char *data;
	size_t size;
	bool mapped; /* false: the bytes were read, into an anonymous mapping */
};
/* code: the finding for a file that cannot be read (E_MODEL_OPEN, E_INPUT_OPEN, ...). */
int file_map(const char *path, struct file_map *m, enum code code, struct diag *d);
/* The same, but a pipe or device that gives more than `most` bytes is refused as endless; 0: half of the RAM. */
int file_map_most(const char *path, size_t most, struct file_map *m, enum code code, struct diag *d);
void file_unmap(struct file_map *m);

/* A file written beside `path` without a name, or with a temporary one, until file_commit() renames it. "-" is stdout. */
struct file_out;
struct file_out *file_create(const char *path, enum code code, struct diag *d);
void file_write(struct file_out *f, const void *p, size_t n); /* an error is kept for file_commit() */
int file_commit(struct file_out *f, struct diag *d);	      /* flush, fsync, rename; frees f */
void file_abort(struct file_out *f);
int file_make_dir(const char *path, enum code code, struct diag *d); /* and its parents; may exist */

/* Path parts; strings in the arena. */
const char *path_dir(struct arena *a, const char *path);
const char *path_join(struct arena *a, const char *dir, const char *name);
const char *path_base(const char *path); /* points into path */
const char *path_ext(const char *path);	 /* ".npy" or "" ; points into path */

#endif
