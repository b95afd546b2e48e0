/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IO_IO_H
#define IO_IO_H
/*
 * Reads tensors from files and writes them to files. Reading has three steps: recognize the format,
 * read the head (the format's header), read the elements. The head is read separately, so that a
 * caller can refuse a file that does not fit before allocating memory for its elements.
 */
#include "base/file.h"
#include "ir/tensor.h"

enum io_kind {
	IO_RAW, /* bare elements */
	IO_NPY,
	IO_NPZ,
	IO_PB, /* TensorProto, SequenceProto or OptionalProto */
	IO_IMAGE,
	IO_SOUND,
	IO_TEXT, /* numbers, or one string per line */
	IO_SAFETENSORS,
	IO_JSON, /* nested arrays, or {"dtype", "shape", "data"} */
	IO_KINDS
};
const char *io_kind_name(enum io_kind k); /* "an .npy file" */
/* Returns the format with the name "npy", "raw", ..., or -1 if there is no such format. */
int io_kind_parse(const char *name);
/* Returns the format of a file, judged by the n bytes of its content and by its extension. */
enum io_kind io_kind_of(const char *path, const void *p, size_t n);

/*
 * A file format that we cannot read. It is recognized by its first bytes, so that such a file is
 * not read as raw elements.
 */
struct io_foreign {
	const char *what; /* "a GIF picture" */
	const char *cure; /* "convert it to PNG" */
};
/* returns NULL if the format is not a known foreign one */
const struct io_foreign *io_foreign(const void *p, size_t n);

/* ---- .npy */

struct npy {
	/* DT_NONE for a type that ONNX does not have, or for numpy's void type of `size` bytes */
	enum dtype dtype;
	struct shape shape;
	/*
	 * false if the order makes no difference, as with a single axis or with one-byte elements
	 */
	bool fortran, big_endian;
	char kind;    /* numpy's letter for the kind of type: 'f', 'U', 'V', 'O', ... */
	size_t size;  /* bytes of an element */
	size_t bytes; /* bytes of all elements */
	size_t data;  /* offset of the first element */
	char descr[32];
};
/*
 * Reads the head of an .npy file or member from its first n bytes, which must include the complete
 * head. Fails with E-INPUT-FORMAT.
 */
int npy_head(const void *p, size_t n, const char *what, struct npy *out, struct diag *d);
/*
 * Makes a string tensor from elements of numpy's types 'U' and 'S'. Returns NULL if there is no
 * memory.
 */
struct tensor *npy_strings(const struct npy *h, const unsigned char *p, struct arena *a);

/* ---- .npz: a zip archive of .npy members */

struct zip_entry {
	const char *name; /* without ".npy" */
	bool deflated;
	uint32_t crc;
	uint64_t packed, size;	   /* packed: bytes in the archive; size: bytes after unpacking */
	const unsigned char *data; /* packed bytes */
};
struct zip {
	struct zip_entry *entry;
	size_t n;
};
/*
 * Reads the directory of an archive of n bytes at p. The bytes must stay in memory while the
 * entries are used. Fails with E-INPUT-FORMAT.
 */
int zip_open(const void *p, size_t n, const char *what, struct arena *a, struct zip *z,
	     struct diag *d);
/*
 * Copies or inflates the first n bytes of a member. Returns the number of bytes, which is smaller
 * if the member is shorter.
 */
size_t zip_peek(const struct zip_entry *e, void *to, size_t n);
/*
 * Copies or inflates all e->size bytes of a member to `to`, and compares the checksum. For a stored
 * (uncompressed) member, `to` may be e->data; then nothing is copied. Fails with E-INPUT-FORMAT.
 */
int zip_read(const struct zip_entry *e, void *to, struct diag *d);

/* ---- text and JSON */

struct text_head {
	int64_t count;
	struct shape shape; /* shape of JSON data; rank -1 for plain text, which has no shape */
	enum dtype dtype;   /* type from the member "dtype" of a JSON object, else DT_NONE */
	bool strings;	    /* the elements are strings */
};
/*
 * Counts the elements and checks that each fits the wanted type (DT_STRING or a numeric type).
 * Fails with E-INPUT-FORMAT, which names the line of the first wrong element.
 */
int text_scan(enum io_kind kind, const char *p, size_t n, const char *what, enum dtype want,
	      struct text_head *h, struct diag *d);
/*
 * Reads the elements that text_scan() has counted into a tensor of shape s in the arena. Returns
 * NULL if there is no memory.
 */
struct tensor *text_read(enum io_kind kind, const char *p, size_t n, enum dtype want,
			 const struct shape *s, struct arena *a);

/* Returns true for types of which JSON holds values: a map, and a sequence of maps. */
bool text_holds_maps(struct type t);
/*
 * Reads a map from a JSON object, or a sequence of maps from an array of objects, as io_save() writes them. Returns
 * NULL and adds E-INPUT-FORMAT if the text is of another form, or if a key or value does not fit the type.
 */
struct tensor *text_maps(const char *p, size_t n, const char *what, struct type type,
			 struct arena *a, struct diag *d);

/* ---- writing */

enum io_format {
	IO_SAVE_NPY,
	IO_SAVE_NPZ,
	IO_SAVE_PB,
	IO_SAVE_BIN,
	IO_SAVE_JSON,
	IO_SAVE_PNG,
	IO_SAVE_SAFETENSORS
};

struct io_output {
	const char *name;
	/* the tensor; NULL or V_NONE for an optional without a value */
	const struct tensor *tensor;
	struct type type; /* for io_last_file(), which has no tensor: as the model declares it */
};
/*
 * Checks that files can be created in the folder, which is created if it is missing. Fails with
 * E-OUTPUT.
 */
int io_probe_folder(const char *dir, struct diag *d);
/*
 * Writes n outputs to files in dir; each file is written completely or not at all. paths[i] gets
 * the path of output i's file, in the arena, or NULL if the output was an empty optional. Fails
 * with E-OUTPUT. Adds a note for each output whose type the format lacks and which was therefore
 * written as a wider type.
 */
int io_save(const char *dir, enum io_format format, const struct io_output *out, size_t n,
	    const char **paths, struct arena *a, struct diag *d);
/* Writes n outputs to one file, of a format that holds many: IO_SAVE_NPZ or IO_SAVE_SAFETENSORS. paths[i] gets its path. */
int io_save_one(const char *path, enum io_format format, const struct io_output *out, size_t n,
		const char **paths, struct arena *a, struct diag *d);
/*
 * Returns the file that io_save() writes last if every output is a tensor, or maps. If it is there, so are the others. The
 * tensors of `out` are not looked at.
 */
const char *io_last_file(const char *dir, enum io_format format, const struct io_output *out,
			 size_t n, struct arena *a);
struct json;
/* Writes element i of a tensor into the open array. A complex number is written as two numbers. */
void io_json_element(struct json *j, const struct tensor *t, int64_t i);
/* Writes the member "shape" into the open object. */
void io_json_shape(struct json *j, const struct shape *s);
/*
 * Most bytes of an output's name that a file name contains. File names have at most 255 bytes, and
 * a number and an extension follow the output's name.
 */
enum { IO_NAME_BYTES = 200 };
/*
 * Makes a file name from an output's name: characters that are special to file systems or shells
 * become '_'.
 */
const char *io_file_name(struct arena *a, const char *name);

#endif
