/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_INTERNAL_H
#define INPUT_INTERNAL_H
/*
 * The internal header of this folder: declarations of each .c file that only the other files of
 * this folder use. Code outside of the folder includes input/input.h.
 */
#include "image/image.h"
#include "input/input.h"
#include "input/random.h"
#include "input/steps.h"
#include "io/io.h"
#include "image/pixels.h"
#include "sound/sound.h"

/* ---- specification.c: parse the text of one --input option */

struct input_keys {
	/* The first value of each enum (DT_NONE, AXES_NONE, ...) means that the key was not given. */
	enum dtype dtype;
	enum axes layout;
	enum channel_order order;
	struct resize resize;
	struct arithmetic math;
	struct shape shape; /* rank is -1 if not given */
	int format;	    /* an enum io_kind, or -1 if not given */
	int split;	    /* the axis along which the array is many inputs, or -1 if not given */
	struct sound_part sound;
	bool sound_given;	    /* one of rate, mono, start and duration */
	bool exif_given, as_stored; /* as_stored: the EXIF orientation of a picture does not count */
};
#define NO_KEYS ((struct input_keys){.shape.rank = -1, .format = -1, .math.scale = 1, .split = -1})

struct input_spec {
	const char *text; /* as given */
	const char *name; /* name of the model's input; NULL if not given */
	const char *file;
	const char *listed_by; /* the folder, pattern or list that `file` is one of; NULL */
	/* the text including the input's name and the separator after that name, for messages */
	const char *file_as_given;
	const char *keys_text; /* "dtype=u8,layout=hwc" or "" */
	struct input_keys keys;
	const char *member; /* the tensor of FILE.safetensors:TENSOR; NULL if none is named */
	/* the text is itself the value: a number, or JSON that begins with '[' or '\"', and no file of that name exists */
	bool literal;
};
/*
 * Parses "[NAME=]FILE[,KEY=VALUE...]"; `names` are the n inputs of the model. Fails with
 * E-INPUT-NAME or E-INPUT-KEY.
 */
int spec_parse(const char *text, const char *const *names, size_t n, struct input_spec *s,
	       struct arena *a, struct diag *d);
/* Returns true if the text, which is no file's name, is a value: a number, a JSON string, array, true or false. */
bool spec_is_literal(const char *text);
/* Returns true if the text, which is no file's name, is meant as a JSON array, and is none. */
bool spec_is_broken_json(const char *text);
/*
 * Cuts all keys off the text, in place. Returns true if the key `name` was among them.
 */
bool spec_cut_keys(char *text, const char *name);
/*
 * Returns the index of the longest name with which the text begins and after which one of the
 * characters `after` follows. Sets *rest to the text behind that character. Returns -1 if the text
 * begins with none of the names.
 */
int spec_name(const char *text, const char *after, const char *const *names, size_t n,
	      const char **rest);
/*
 * Sets one key to a value. Hints set the keys that they propose with this function too, so that
 * every proposal can be parsed.
 */
int keys_set(struct input_keys *k, const char *key, const char *value, struct diag *d);
/*
 * Parses a shape such as "1x3x224x224"; "" and "scalar" have rank 0. Returns false if the text is
 * no shape.
 */
bool parse_shape(const char *text, struct shape *s);
/* Parses "LO..HI" with LO not above HI. Returns false if the text is no range. */
bool parse_range(const char *text, double *lo, double *hi);
const char *shape_key(struct arena *a, const struct shape *s);		      /* "1x3x224x224" */
const char *input_names(struct arena *a, const char *const *names, size_t n); /* "'a', 'b' and 'c'" */

/* ---- fit.c: compare what a file holds with what the model wants */

/* The tensor that the model expects for one input. */
struct want {
	const char *name;
	enum dtype dtype;
	struct shape shape; /* bound dimensions are sizes; free dimensions are negative numbers */
};

/* The content of a file according to its head (its format's header). */
struct item {
	enum io_kind kind;
	enum dtype dtype; /* DT_NONE if the file does not state its type */
	/* [h,w,c] for a picture; rank -1 if the file does not state its shape */
	struct shape shape;
	int64_t count; /* number of elements in a text or JSON file; -1 for other kinds of file */
	/* the elements in the mapped file; NULL if they are compressed or belong to a picture */
	const unsigned char *data;
	size_t bytes; /* bytes of elements that the file really has */
	size_t need;  /* bytes of elements that the head promises; equal to `bytes` for raw files */
	size_t header; /* bytes before the elements */
	bool fortran, big_endian;
	/*
	 * numpy's void type 'V', as which bf16 and similar types are saved; read as the model's
	 * type
	 */
	bool void_type;
	const char *descr; /* numpy's name of the type if ONNX does not have that type; else NULL */
	const char *picture; /* "PNG, RGBA" */
	struct sound sound;  /* of a sound file, whose shape is [channels, samples] */
};

/* The conversion of an item into the wanted tensor, or the reason why the item does not fit. */
struct fit {
	enum code code;		/* E_OK if the item fits */
	const char *why;	/* reason as a string literal; may be NULL */
	struct shape shape;	/* of the tensor */
	enum dtype from;	/* element type of the file */
	struct shape file;	/* the file's shape, as read */
	bool pixels;		/* converted by pixels_convert() */
	bool convert;		/* converted by elements_convert() */
	struct pixels src, dst; /* arguments for pixels_convert(): sizes and axes, without data */
	/*
	 * For elements_convert() with a mean and std for each channel: number of consecutive
	 * elements of one channel, and number of channels.
	 */
	int64_t channel, channels;
	/* number of elements in the file; -1 if its bytes are not a whole number of elements */
	int64_t count;
	/* dimension whose size was computed from the number of elements; -1 if there is none */
	int derived;
};
/*
 * Decides whether an item fits, and plans its conversion in *f. Returns f->code. Examines only
 * sizes and types, never elements.
 */
enum code input_fit(const struct want *w, const struct item *it, const struct input_keys *k,
		    struct fit *f);
/*
 * Returns true if the input seems to take pictures: its rank is 3 or 4, and it has 1, 3 or 4
 * channels, either before height and width or as last axis.
 */
bool want_image(const struct want *w, enum axes *axes, int64_t *channels, int64_t *h, int64_t *w2);

/* ---- open.c: read the head of a file */

struct source {
	struct input_spec spec;
	struct file_map map;
	struct item item;
	/*
	 * the member of an .npz archive; NULL if the file is no archive or its head was not read
	 * yet
	 */
	const struct zip_entry *member;
	const struct safetensor *tensor; /* likewise, of a .safetensors file */
	bool sliced; /* item.data are the elements of one slice, by source_slice() */
	struct text_head text;
};
/*
 * Fills s->item (and s->member, s->text) from the head of the mapped file, read as `kind`. `what`
 * names the file in messages; `input` and `type` are the name and type of the model's input. Fails
 * with E-INPUT-FORMAT or E-INPUT-NAME.
 */
int source_head(struct source *s, enum io_kind kind, const char *what, const char *input,
		struct type type, struct arena *a, struct diag *d);
/*
 * Makes slice `part` along an axis the item: its size along the axis becomes 1. The elements lie in the
 * mapped file, or in the arena if the slice is not contiguous. Fails with E-INPUT-FORMAT or E-INPUT-KEY.
 */
int source_slice(struct source *s, int axis, int64_t part, const char *what, struct arena *a,
		 struct diag *d);
/* Sets *parts to the size of the array in `file` along an axis. input: name of the model's input, or NULL. */
int input_count_slices(const char *file, const struct file_map *map, int axis, const char *input,
		       int64_t *parts, struct diag *d);
/* Fills *it from the head of an .npy file of `total` bytes, of which the first n bytes are at p. */
int item_npy(const unsigned char *p, size_t n, size_t total, const char *what, struct item *it,
	     struct arena *a, struct diag *d);

/* ---- input.c plans all inputs of a model, read.c makes their tensors */

enum how { FROM_NOWHERE, FROM_FILE, FROM_RANDOM, FROM_ZEROS, FROM_POSITIONS };

struct input {
	struct input_info info;
	const struct value *value;
	/* shape that the model declares, in which bound dimensions are replaced by their sizes */
	struct shape shape;
	enum how how;
	struct source *source;
	struct fit fit;
	struct range range;
	struct positions at; /* of FROM_POSITIONS: those of the first step */
	struct tensor tensor;
	/* the tensor's data, from mem_alloc(), if they do not lie in the mapped file */
	void *owned;
};

/* The size of a symbolic dimension, and the origin of that size. */
struct bound {
	int64_t size;	/* -1: still free */
	const char *by; /* "--dim batch=4", "input 'x' (x.npy)" */
	struct place *places;
};

/* A dimension of an input that has a certain symbol; one of the list of all that have it. */
struct place {
	uint32_t input;
	int axis;
	struct place *next;
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
	/* size of a bound dimension and its origin, "4, by --dim batch=4"; or NULL */
	const char *because;
	const char *because_label; /* the dimension's name */
	bool named; /* the model has several inputs, so the hint must name this input */
};
/*
 * Adds a finding that explains the mismatch. Returns -m->fit->code, or a more specific code,
 * negated.
 */
int input_explain(const struct mismatch *m, struct diag *d);

#endif
