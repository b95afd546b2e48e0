/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Files: mapped whole, written whole or not at all. */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

/* A file's bytes, read-only. Regular files are mapped; pipes and "-" are read; stdin can be read again. */
struct file_map {
	const unsigned char *data;
	size_t size;
	bool mapped; /* else allocated */
};
/* code: the finding for a file that cannot be read (E_MODEL_OPEN, E_INPUT_OPEN, ...). */
int file_map(const char *path, struct file_map *m, enum code code, struct diag *d);
/* The same, where what is no regular file and gives more than `most` bytes is taken for endless. */
int file_map_most(const char *path, size_t most, struct file_map *m, enum code code, struct diag *d);
void file_unmap(struct file_map *m);

/* Written to a temporary file beside path, renamed by commit; abort removes it. stdout for "-". */
struct file_out;
struct file_out *file_create(const char *path, enum code code, struct diag *d);
void file_write(struct file_out *f, const void *p, size_t n); /* errors are kept for commit */
int file_commit(struct file_out *f, struct diag *d);	      /* flush, fsync, rename; frees f */
void file_abort(struct file_out *f);
int file_make_dir(const char *path, enum code code, struct diag *d); /* and its parents; fine if there */

/* Path parts; strings in the arena. */
const char *path_dir(struct arena *a, const char *path);
const char *path_join(struct arena *a, const char *dir, const char *name);
const char *path_base(const char *path); /* points into path */
const char *path_ext(const char *path);	 /* ".npy" or "" ; points into path */

#endif
