/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IO_H
#define IO_IO_H
/*
 * Tensors in files: what a file is, what its head says, its elements, and the way
 * back. Heads are read before any element is, so that a caller can refuse a file
 * that does not fit without taking memory for it.
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
/* "npy", "raw", ...; -1 where there is none. */
int io_kind_parse(const char *name);
/* By content, then by the extension of the name. */
enum io_kind io_kind_of(const char *path, const void *p, size_t n);

/* A kind of file that is never bare elements, by its first bytes. */
struct io_foreign {
	const char *what; /* "a GIF picture" */
	const char *cure;
};
const struct io_foreign *io_foreign(const void *p, size_t n); /* NULL: none that is known */

/* ---- .npy */

struct npy {
	enum dtype dtype; /* DT_NONE: a type numpy has and ONNX has not, or a void type (see size) */
	struct shape shape;
	bool fortran, big_endian; /* false where they make no difference */
	char kind;		  /* numpy's letter: 'f', 'U', 'V', 'O', ... */
	size_t size;		  /* bytes of an element */
	size_t bytes;		  /* that all elements take */
	size_t data;		  /* offset of the first element */
	char descr[32];
};
/* The head of an .npy file or member; p may hold no more than the head. E-INPUT-FORMAT. */
int npy_head(const void *p, size_t n, const char *what, struct npy *out, struct diag *d);
/* Elements of kinds 'U' and 'S' as a string tensor. NULL where that takes too much. */
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
int zip_open(const void *p, size_t n, const char *what, struct arena *a, struct zip *z,
	     struct diag *d);
/* The first bytes of a member (at most n): how many there are. */
size_t zip_peek(const struct zip_entry *e, void *to, size_t n);
/* All of a member's bytes to `to`, which has room for e->size; the checksum must agree. */
int zip_read(const struct zip_entry *e, void *to, struct diag *d);

/* ---- text and JSON */

struct text_head {
	int64_t count;
	struct shape shape; /* of JSON; rank -1: the file does not say */
	enum dtype dtype;   /* where an object's "dtype" says it, else DT_NONE */
	bool strings;	    /* the elements are strings */
};
/* Counts and checks against the type that is wanted: DT_STRING, or numbers. */
int text_scan(enum io_kind kind, const char *p, size_t n, const char *what, enum dtype want,
	      struct text_head *h, struct diag *d);
/* The elements, as counted by text_scan: a tensor in the arena, of shape s. */
struct tensor *text_read(enum io_kind kind, const char *p, size_t n, enum dtype want,
			 const struct shape *s, struct arena *a);

/* ---- writing */

enum io_format { IO_SAVE_NPY, IO_SAVE_NPZ, IO_SAVE_PB, IO_SAVE_BIN, IO_SAVE_JSON, IO_SAVE_PNG };

struct io_output {
	const char *name;
	const struct tensor *tensor; /* NULL or V_NONE: an optional without a value */
};
/* Whether files can be made in the folder, which is made where it is missing. E-OUTPUT. */
int io_probe_folder(const char *dir, struct diag *d);
/*
 * Writes outputs to files in dir, each whole or not at all; paths (n of them) are told in the arena,
 * NULL for what has no file of its own. Findings: E-OUTPUT; notes where a type had to be widened.
 */
int io_save(const char *dir, enum io_format format, const struct io_output *out, size_t n,
	    const char **paths, struct arena *a, struct diag *d);
struct json;
/* Element i of a tensor, in an array; a complex one as two numbers. */
void io_json_element(struct json *j, const struct tensor *t, int64_t i);
/* Member "shape" of an object. */
void io_json_shape(struct json *j, const struct shape *s);
/* The name as a file name: what a file system or a shell would stumble over becomes '_'. */
const char *io_file_name(struct arena *a, const char *name);

#endif
