/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IO_H
#define IO_IO_H
/*
 * Read tensors from files and write them: recognize the format, read the head, read the elements. Heads are read
 * separately, so that a caller can refuse a file that does not fit before it allocates memory for its elements.
 */
#include "base/file.h"
#include "ir/tensor.h"

enum io_kind {
	IO_RAW, /* bare elements */
	IO_NPY,
	IO_NPZ,
	IO_PB, /* TensorProto, SequenceProto or OptionalProto */
	IO_IMAGE,
	IO_TEXT, /* numbers, or a string a line */
	IO_JSON, /* nested arrays, or {"dtype", "shape", "data"} */
	IO_KINDS
};
const char *io_kind_name(enum io_kind k); /* "an .npy file" */
/* The format with the name "npy", "raw", ...; -1: there is none. */
int io_kind_parse(const char *name);
/* The format of a file, by the n bytes of its content and by its extension. */
enum io_kind io_kind_of(const char *path, const void *p, size_t n);

/* A file format that we cannot read, recognized by its first bytes, so that it is not taken for bare elements. */
struct io_foreign {
	const char *what; /* "a GIF picture" */
	const char *cure; /* "convert it to PNG" */
};
const struct io_foreign *io_foreign(const void *p, size_t n); /* NULL: none of them */

/* ---- .npy */

struct npy {
	enum dtype dtype; /* DT_NONE: a type that ONNX does not have, or numpy's void type of `size` bytes */
	struct shape shape;
	bool fortran, big_endian; /* false if they make no difference, as with one axis or one byte */
	char kind;		  /* numpy's letter: 'f', 'U', 'V', 'O', ... */
	size_t size;		  /* bytes of an element */
	size_t bytes;		  /* of all elements */
	size_t data;		  /* offset of the first element */
	char descr[32];
};
/* Read the head of an .npy file or member from its first n bytes, which must include all of the head. E-INPUT-FORMAT. */
int npy_head(const void *p, size_t n, const char *what, struct npy *out, struct diag *d);
/* Make a string tensor from elements of numpy's types 'U' and 'S'. NULL: no memory. */
struct tensor *npy_strings(const struct npy *h, const unsigned char *p, struct arena *a);

/* ---- .npz: a zip archive of .npy members */

struct zip_entry {
	const char *name; /* without ".npy" */
	bool deflated;
	uint32_t crc;
	uint64_t packed, size;	   /* bytes in the archive, and unpacked */
	const unsigned char *data; /* packed bytes */
};
struct zip {
	struct zip_entry *entry;
	size_t n;
};
/* Read the directory of an archive of n bytes at p, which must stay while the entries are used. E-INPUT-FORMAT. */
int zip_open(const void *p, size_t n, const char *what, struct arena *a, struct zip *z,
	     struct diag *d);
/* Copy, or inflate, the first n bytes of a member. Returns how many there were. */
size_t zip_peek(const struct zip_entry *e, void *to, size_t n);
/*
 * Copy, or inflate, all e->size bytes of a member to `to` (which may be e->data of a stored member: nothing is copied
 * then) and compare the checksum. E-INPUT-FORMAT.
 */
int zip_read(const struct zip_entry *e, void *to, struct diag *d);

/* ---- text and JSON */

struct text_head {
	int64_t count;
	struct shape shape; /* of JSON; rank -1: plain text has none */
	enum dtype dtype;   /* from the member "dtype" of a JSON object, else DT_NONE */
	bool strings;	    /* the elements are strings */
};
/* Count the elements and check that each fits the wanted type (DT_STRING or numbers). E-INPUT-FORMAT, with its line. */
int text_scan(enum io_kind kind, const char *p, size_t n, const char *what, enum dtype want,
	      struct text_head *h, struct diag *d);
/* Read the elements that text_scan() has counted, into a tensor of shape s in the arena. NULL: no memory. */
struct tensor *text_read(enum io_kind kind, const char *p, size_t n, enum dtype want,
			 const struct shape *s, struct arena *a);

/* ---- writing */

enum io_format { IO_SAVE_NPY, IO_SAVE_NPZ, IO_SAVE_PB, IO_SAVE_BIN, IO_SAVE_JSON, IO_SAVE_PNG };

struct io_output {
	const char *name;
	const struct tensor *tensor; /* NULL or V_NONE: an optional without a value */
};
/* Check that files can be created in the folder, which is created if it is missing. E-OUTPUT. */
int io_probe_folder(const char *dir, struct diag *d);
/*
 * Write n outputs to files in dir; each file is written completely or not at all. paths[i] gets the file of output i,
 * in the arena; NULL: it was empty. E-OUTPUT, and a note for each type that the format lacks and that was widened.
 */
int io_save(const char *dir, enum io_format format, const struct io_output *out, size_t n,
	    const char **paths, struct arena *a, struct diag *d);
struct json;
/* Write element i of a tensor into the open array; a complex number as two numbers. */
void io_json_element(struct json *j, const struct tensor *t, int64_t i);
/* Write the member "shape" into the open object. */
void io_json_shape(struct json *j, const struct shape *s);
/* A file name for an output: characters that are special to file systems or shells become '_'. */
const char *io_file_name(struct arena *a, const char *name);

#endif
