/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_INTERNAL_H
#define INPUT_INTERNAL_H
/*
 * The one internal header of this folder, in the order of the units below: what a unit declares here is used by the
 * others of the folder and by nobody else. Callers outside include input/input.h.
 */
#include "image/image.h"
#include "input/input.h"
#include "input/random.h"
#include "io/io.h"
#include "image/pixels.h"

/* ---- specification.c: parse the text of one --input option */

struct input_keys {
	/* The first value of each enum (DT_NONE, AXES_NONE, ...) means that the key was not given. */
	enum dtype dtype;
	enum axes layout;
	enum channel_order order;
	struct resize resize;
	struct arithmetic math;
	struct shape shape; /* rank -1: not given */
	int format;	    /* enum io_kind; -1: not given */
};
#define NO_KEYS ((struct input_keys){.shape.rank = -1, .format = -1, .math.scale = 1})

struct input_spec {
	const char *text; /* as given */
	const char *name; /* of the model's input; NULL: not given */
	const char *file;
	const char *file_as_given; /* with the input's name and the separator before it, for messages */
	const char *keys_text;	   /* "dtype=u8,layout=hwc" or "" */
	struct input_keys keys;
};
/* Parse "[NAME=]FILE[,KEY=VALUE...]"; names: the n inputs of the model. E-INPUT-NAME, E-INPUT-KEY. */
int spec_parse(const char *text, const char *const *names, size_t n, struct input_spec *s,
	       struct arena *a, struct diag *d);
/*
 * Index of the longest of the names with which text begins, if one of the characters `after` follows it; rest gets
 * the text after that character. -1: none of the names.
 */
int spec_name(const char *text, const char *after, const char *const *names, size_t n,
	      const char **rest);
/* Set one KEY=VALUE. Hints build their proposed keys with it, too, so that each proposal is sure to parse. */
int keys_set(struct input_keys *k, const char *key, const char *value, struct diag *d);
/* Parse "1x3x224x224"; "" and "scalar" have rank 0. false: the text is no shape. */
bool parse_shape(const char *text, struct shape *s);
/* Parse "LO..HI" with LO not above HI. false: the text is no range. */
bool parse_range(const char *text, double *lo, double *hi);
const char *shape_key(struct arena *a, const struct shape *s);		      /* "1x3x224x224" */
const char *input_names(struct arena *a, const char *const *names, size_t n); /* "'a', 'b' and 'c'" */

/* ---- fit.c: compare what a file holds with what the model wants */

/* What the model wants for one input. */
struct want {
	const char *name;
	enum dtype dtype;
	struct shape shape; /* bound dimensions are sizes, free ones negative */
};

/* What a file holds, according to its head. */
struct item {
	enum io_kind kind;
	enum dtype dtype;	   /* DT_NONE: the file does not say */
	struct shape shape;	   /* rank -1: the file does not say; of a picture [h,w,c] */
	int64_t count;		   /* elements of a text or JSON file; -1 for other kinds */
	const unsigned char *data; /* elements in the mapped file; NULL: packed, or of a picture */
	size_t bytes;		   /* of elements that the file really has */
	size_t need;   /* bytes of elements that the head promises; of raw files equal to bytes */
	size_t header; /* bytes before the elements */
	bool fortran, big_endian;
	bool void_type; /* type 'V', as numpy saves bf16 and the like: taken for the model's type */
	const char *descr;   /* numpy's name of a type that ONNX does not have; or NULL */
	const char *picture; /* "PNG, RGBA" */
};

/* The steps that turn an item into the wanted tensor; or the reason why none do. */
struct fit {
	enum code code;		/* E_OK: it fits */
	const char *why;	/* literal; may be NULL */
	struct shape shape;	/* of the tensor */
	enum dtype from;	/* type of the file's elements */
	struct shape file;	/* the file's shape, as read */
	bool pixels;		/* converted by pixels_convert() */
	bool convert;		/* converted by elements_convert() */
	struct pixels src, dst; /* for pixels_convert(): sizes and axes, without data */
	/* For elements_convert() with mean and std by channel: elements in a row of one channel, number of channels. */
	int64_t channel, channels;
	int64_t count; /* elements that the file holds; -1: not a whole number */
	int derived;   /* dimension whose size was computed from the count of elements; -1: none */
};
/* Returns f->code. Looks at sizes and types only, never at elements. */
enum code input_fit(const struct want *w, const struct item *it, const struct input_keys *k,
		    struct fit *f);
/* Whether the input seems to take pictures: rank 3 or 4, with 1, 3 or 4 channels before height and width or last. */
bool want_image(const struct want *w, enum axes *axes, int64_t *channels, int64_t *h, int64_t *w2);

/* ---- open.c: read the head of a file */

struct source {
	struct input_spec spec;
	struct file_map map;
	struct item item;
	const struct zip_entry *member; /* of an .npz archive; NULL: the file is none, or not looked at yet */
	struct text_head text;
};
/*
 * Fill s->item (and s->member, s->text) from the head of the mapped file, read as `kind`. `what` names the file in
 * messages; input and type are the name and type of the model's input. E-INPUT-FORMAT, E-INPUT-NAME.
 */
int source_head(struct source *s, enum io_kind kind, const char *what, const char *input,
		struct type type, struct arena *a, struct diag *d);
/* The same for the head of an .npy file of `total` bytes, of which the first n are at p. */
int item_npy(const unsigned char *p, size_t n, size_t total, const char *what, struct item *it,
	     struct arena *a, struct diag *d);

/* ---- input.c plans all inputs of a model, read.c makes their tensors */

enum how { FROM_NOWHERE, FROM_FILE, FROM_RANDOM };

struct input {
	struct input_info info;
	const struct value *value;
	struct shape shape; /* declared by the model; dimensions that are bound have their sizes */
	enum how how;
	struct source *source;
	struct fit fit;
	struct range range;
	struct tensor tensor;
	void *owned; /* the tensor's data if they do not lie in the mapped file; from mem_alloc */
};

/* The size of a symbolic dimension, and what gave it that size. */
struct bound {
	int64_t size;	/* -1: still free */
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
	struct bound *symbol; /* indexed by the symbol's number in the model */
	struct opened *opened;
};

/* A mapped file, kept until input_free(). An archive is mapped once for all inputs that it holds. */
struct opened {
	struct file_map map;
	struct opened *next;
};

/* ---- explain.c: say why a file does not fit, and what would help */

struct mismatch {
	const struct model *model;
	const struct want *want;
	const struct source *source;
	const struct fit *fit;
	const char *because; /* size of a dimension, and what gave it: "4, by --dim batch=4"; or NULL */
	const char *because_label; /* the dimension's name */
	bool named; /* the model has several inputs, so the hint must name this one */
};
/* Add the finding. Returns -m->fit->code or a more specific code, negated. */
int input_explain(const struct mismatch *m, struct diag *d);

#endif
