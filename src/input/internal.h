/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_INTERNAL_H
#define INPUT_INTERNAL_H
/* Shared by the files of input.h. */
#include "image/image.h"
#include "input/input.h"
#include "input/random.h"
#include "io/io.h"
#include "image/pixels.h"

/* ---- what a spec says (input_spec.c) */

struct input_keys {
	enum dtype dtype; /* DT_NONE: not given; so everywhere */
	enum axes layout;
	enum channel_order order;
	struct resize resize;
	struct arithmetic math;
	struct shape shape; /* rank -1 */
	int format;	    /* enum io_kind; -1 */
};
#define NO_KEYS ((struct input_keys){.shape.rank = -1, .format = -1, .math.scale = 1})

struct input_spec {
	const char *text; /* as given */
	const char *name; /* NULL: not said */
	const char *file;
	const char *file_as_given; /* with the name and separator before it: what a message repeats */
	const char *keys_text;	   /* "dtype=u8,layout=hwc" or "" */
	struct input_keys keys;
};
/* names: the model's inputs. E-INPUT-NAME, E-INPUT-KEY. */
int spec_parse(const char *text, const char *const *names, size_t n, struct input_spec *s,
	       struct arena *a, struct diag *d);
/* The longest name that text begins with, followed by one of `after`; rest gets what follows. -1. */
int spec_name(const char *text, const char *after, const char *const *names, size_t n,
	      const char **rest);
/* One KEY=VALUE; keys given in hints are made through it, too, so that they are sure to parse. */
int keys_set(struct input_keys *k, const char *key, const char *value, struct diag *d);
/* "1x3x224x224" ("" or "scalar": rank 0); false where it is none. */
bool parse_shape(const char *text, struct shape *s);
bool parse_range(const char *text, double *lo, double *hi);
const char *shape_key(struct arena *a, const struct shape *s);		      /* "1x3x224x224" */
const char *input_names(struct arena *a, const char *const *names, size_t n); /* "'a', 'b' and 'c'" */

/* ---- what a file holds and a model wants (input_fit.c) */

struct want {
	const char *name;
	enum dtype dtype;
	struct shape shape; /* bound dimensions are sizes, free ones negative */
};

struct item {
	enum io_kind kind;
	enum dtype dtype;	   /* DT_NONE: the file does not say */
	struct shape shape;	   /* rank -1: the file does not say; of a picture [h,w,c] */
	int64_t count;		   /* elements of text; else -1 */
	const unsigned char *data; /* elements as they lie in the file; NULL: not plainly */
	size_t bytes;		   /* of elements, that are there */
	size_t need;		   /* as the head says; of raw files the same */
	size_t header;		   /* bytes before the elements */
	bool fortran, big_endian;
	bool void_type;	     /* numpy knows no name for the type: it is what the model takes */
	const char *descr;   /* numpy's name of a type that ONNX has not; or NULL */
	const char *picture; /* "PNG, RGBA" */
};

/* How an item becomes the tensor that is wanted; or why not. */
struct fit {
	enum code code;		   /* E_OK: it fits */
	const char *why;	   /* literal; may be NULL */
	struct shape shape;	   /* of the tensor */
	enum dtype from;	   /* type of the file's elements */
	struct shape file;	   /* the file's shape, as read */
	bool pixels;		   /* through pixels_convert */
	bool convert;		   /* through elements_convert */
	struct pixels src, dst;	   /* sizes and axes, without data */
	int64_t channel, channels; /* for arithmetic by channel without axes */
	int64_t count;		   /* elements that the file holds; -1: not a whole number */
	int derived;		   /* dimension that was taken from the count of elements; -1 */
};
enum code input_fit(const struct want *w, const struct item *it, const struct input_keys *k,
		    struct fit *f);
/* Whether the model seems to take pictures: channels in dimension 1 or last of 3 or 4. */
bool want_image(const struct want *w, enum axes *axes, int64_t *channels, int64_t *h, int64_t *w2);

/* ---- opening (input_open.c) */

struct source {
	struct input_spec spec;
	struct file_map map;
	struct item item;
	const struct zip_entry *member; /* deflated or not; NULL: no archive */
	struct text_head text;
};
/*
 * What the file holds for this input, by its head. kind: how to read it. pb_type: for IO_PB.
 * The file must be mapped. Findings E-INPUT-FORMAT.
 */
int source_head(struct source *s, enum io_kind kind, const char *what, const char *input,
		struct type type, struct arena *a, struct diag *d);
int item_npy(const unsigned char *p, size_t n, size_t total, const char *what, struct item *it,
	     struct arena *a, struct diag *d);

/* ---- all of a model's inputs (input.c, input_read.c) */

enum how { FROM_NOWHERE, FROM_FILE, FROM_RANDOM };

struct input {
	struct input_info info;
	const struct value *value;
	struct shape shape; /* declared, with what is bound put in */
	enum how how;
	struct source *source;
	struct fit fit;
	struct range range;
	struct tensor tensor;
	void *owned; /* memory of its own, from mem_alloc */
};

struct bound {
	int64_t size;	/* -1: free */
	const char *by; /* "--dim batch=4", "input 'x' (x.npy)" */
};

struct input_set {
	struct arena arena;
	const struct model *model;
	const struct input_request *request;
	struct input *in;
	const struct tensor **tensors;
	const char **names;
	uint32_t n;
	struct bound *symbol; /* by number */
	struct opened *opened;
};

/* A file is opened once, also where an archive holds several inputs. */
struct opened {
	struct file_map map;
	struct opened *next;
};

/* ---- messages (input_cause.c) */

struct mismatch {
	const struct model *model;
	const struct want *want;
	const struct source *source;
	const struct fit *fit;
	const char *because; /* what bound a dimension; or NULL */
	const char *because_label;
	bool named; /* the model has more inputs than one: the hint names it */
};
int input_explain(const struct mismatch *m, struct diag *d);

#endif
