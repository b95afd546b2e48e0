/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FILE_H
#define BASE_FILE_H
/* Reads whole files by mapping them. Writes files so that each appears completely or not at all. */
#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The bytes of a file, read-only. Regular files are mapped. Pipes and standard input ("-") are read into memory. A pipe that has a name is
 * refused if no program opens it to write within a second, and a device that has nothing to read at once is refused, too: a name must not make
 * us wait. Afterwards standard input is replaced by a file with the same content, so that another process can read it again.
 */
struct file_map {
	const unsigned char *data;
	size_t size;
	/* true: the file itself is mapped; false: its bytes were read into an anonymous mapping */
	bool mapped;
};
/*
 * Maps or reads the file. code: the code of the finding if the file cannot be read (E_MODEL_OPEN,
 * E_INPUT_OPEN, ...).
 */
int file_map(const char *path, struct file_map *m, enum code code, struct diag *d);
/*
 * Works like file_map(), but refuses a pipe or device that gives more than `most` bytes as endless;
 * 0 stands for half of the RAM.
 */
int file_map_most(const char *path, size_t most, struct file_map *m, enum code code, struct diag *d);
/*
 * Maps the regular file `path`, which is relative to the folder of descriptor `dir`. No part of the
 * path may be "..", and none a symbolic link: another program may put one there at any time, to have
 * us read a file outside of the folder. `shown`: the path for messages.
 */
int file_map_beneath(int dir, const char *path, const char *shown, struct file_map *m,
		     enum code code, struct diag *d);
void file_unmap(struct file_map *m);
/*
 * Returns the code that the file at this address was mapped with, or E_OK if none is mapped there.
 * For a handler of SIGBUS, which the kernel sends if a mapped file has become shorter.
 */
enum code file_mapped_at(const void *address);
/*
 * Gives back the memory of these bytes if they are of a mapped file: they are read from the file again on use. Does nothing to
 * other memory.
 */
void file_release(const void *p, size_t n);

/*
 * For a file whose bulk data are not read, only copied elsewhere. Otherwise most of a large file that is in the page cache would
 * count as our memory: a fault maps the pages around, up to 2 MiB of them. Huge pages are turned off for the mapping, and
 * file_pass() gives back what a reader has passed over.
 */
void file_map_lean(const struct file_map *m);
/*
 * Tells that n bytes at p of such a file have been read and are not needed soon, so that their pages can be given back. Does nothing if
 * p is in no file for which file_map_lean() was called.
 */
void file_pass(const void *p, size_t n);

/*
 * A file without a name in $TMPDIR or, without that, in /var/tmp, for what is too much to be held in memory. It is written through its
 * mapping, from front to back, and never moves; file_pass() gives memory back.
 */
struct file_spill {
	struct file_map map; /* data and size are those of the whole block; bytes that are taken: */
	size_t used;
	size_t ready; /* of these the disk has been asked for */
	int fd;
};
/* most: bytes that will be taken in the end, at most. Returns false if there can be no such file; then nothing needs to be closed. */
bool file_spill_open(struct file_spill *s, size_t most);
/* The next n bytes to write, which are taken only by file_spill_take(). NULL: the disk is full. */
void *file_spill_room(struct file_spill *s, size_t n);
/* Takes n of these bytes. The next ones begin at a multiple of 16. */
void file_spill_take(struct file_spill *s, size_t n);
/* Makes a map of what was taken, as if it had been read from a file: `lean`, as file_map_lean() does. */
void file_spill_done(struct file_spill *s, struct file_map *out);
void file_spill_close(struct file_spill *s);

/*
 * A file that is being written in the folder of `path`, without a name or with a temporary one,
 * until file_commit() gives it its name. "-" means stdout.
 */
struct file_out;
/* Returns NULL, with a finding of this code, if it cannot be created. It ends by file_commit() or file_abort(), which free it. */
struct file_out *file_create(const char *path, enum code code, struct diag *d);
/* an error is remembered and reported by file_commit() */
void file_write(struct file_out *f, const void *p, size_t n);
int file_commit(struct file_out *f, struct diag *d); /* flush, fsync, rename; frees f */
/*
 * Ends the process as an unhandled SIGPIPE does, without a message: the reader of standard output, such as head(1), has seen
 * enough. file_commit() does so for "-".
 */
_Noreturn void file_reader_gone(void);
void file_abort(struct file_out *f); /* removes what was written; frees f */
/* Opens a file to add lines to, emptied first if `anew` is set; returns -1 and sets errno if it cannot. Nobody waits for a pipe's reader. */
int file_open_lines(const char *path, bool anew);
int file_make_dir(const char *path, enum code code, struct diag *d); /* and its parents; may exist */

/* Functions that split and join paths. The strings that they return are in the arena. */
const char *path_dir(struct arena *a, const char *path);
const char *path_join(struct arena *a, const char *dir, const char *name);
const char *path_base(const char *path); /* points into path */
bool path_is_folder(const char *path);
/*
 * Returns the path of the file in the same folder whose name is nearest to that of a path that is not there, for messages, or
 * NULL. Only names with the extension `ext` count, or all if it is NULL.
 */
const char *path_near(struct arena *a, const char *path, const char *ext);
const char *path_ext(const char *path); /* ".npy" or "" ; points into path */

#endif
