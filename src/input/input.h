/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_INPUT_H
#define INPUT_INPUT_H
/*
 * A model's inputs: what the user gives (files, shapes, random values) is checked against the model and
 * then made into tensors, in two steps:
 *
 *   input_plan   opens the files, reads their heads, binds free dimensions to sizes, and refuses files that
 *		  do not fit; it allocates no tensors
 *   input_read   makes the tensors; the data of a tensor stay in the mapped file if type and layout already fit
 */
#include "base/field.h"
#include "base/file.h"
#include "ir/graph.h"

struct steps;

struct input_request {
	struct texts input;   /* [NAME=]FILE[,KEY=VALUE...] */
	struct texts random;  /* [NAME=]LO..HI */
	struct texts shape;   /* NAME=1x3x224x224 */
	struct texts dim;     /* NAME=N, INPUT.NAME=N */
	const char *data_set; /* folder with files input_K.pb, or NULL */
	int64_t seed;
	int64_t batch; /* size of the first dimension of every input, as far as the model leaves it free; 0: none is given */
	/*
	 * a free dimension that nothing binds is an error; if not strict, the dimension becomes 1
	 */
	bool strict;
	/*
	 * Returns the origin of a text of these lists, for messages ("x.yaml:7: dim"). If the
	 * function is NULL or returns NULL, the text came from the command line, and messages say
	 * "--dim".
	 */
	const char *(*origin)(const void *options, const char *name, const char *text);
	const void *options;
	/* what the steps of a run make of their inputs (steps.h); NULL if the model runs once */
	const struct steps *steps;
	/*
	 * One case of many (list.h): for each text of `input` the file to read instead of the one that the
	 * text names, or NULL; and with the key split= the index along that axis
	 */
	const char *const *files;
	int64_t part;
	const struct file_map *array; /* of which the parts are slices; the list has it open */
	/*
	 * for each input of the model: whether a first dimension that the model fixes counts as 1, because inputs are
	 * stacked along it; NULL: none
	 */
	const bool *single;
};

/* The description of one input of the model. */
struct input_info {
	const char *name;
	struct type type;
	struct shape shape; /* shape of a tensor, valid once the inputs are planned */
	const char *source; /* "line.png: RGB 240 x 41, resized to 281 x 48"; "random -1..1, seed 0" */
	const struct tensor *tensor; /* once read */
	bool made_up;		     /* true if the values are random and not from a file */
	/* the random values are integers or bools of a range that neither the user asks for by name nor the model's nodes decide */
	bool arbitrary;
	/* true for the unconverted elements of a file that states neither their type nor their shape */
	bool bare;
	bool bgr;	  /* the user asked for the order blue, green, red */
	bool picture;	  /* decoded from a picture file */
	bool as_stored;	  /* its EXIF orientation was not obeyed */
	const char *file; /* NULL: the values are random, or steps make them */
	const char *keys; /* behind the file: "resize=8x8,scale=1/255", or "" */
	int64_t picture_width, picture_height; /* in the file */
	bool letterbox;	    /* the picture keeps its aspect ratio inside the input */
	const double *mean; /* what the user has subtracted from each channel; NULL if not 3 numbers */
};

struct input_set;
/*
 * Finds the file or the random values of each input of the model, reads the files' heads, and settles all shapes. Returns NULL, with
 * findings, if an input is missing or does not fit in type, shape or size. The caller frees the set by input_free(); the model and
 * the request must outlive it.
 */
struct input_set *input_plan(const struct model *m, const struct input_request *r, struct diag *d);
/* Reads or makes the elements. Fails if a file ends early or holds values that the input cannot take. */
int input_read(struct input_set *s, struct diag *d);
/* For session_run, by position. */
const struct tensor *const *input_tensors(const struct input_set *s);
uint32_t input_count(const struct input_set *s);
const struct input_info *input_info(const struct input_set *s, uint32_t i);
void input_free(struct input_set *s);

/* Returns true if one of these texts of --input reads standard input. */
bool input_from_stdin(const struct texts *input);
/*
 * Call this before starting several processes that each read standard input. A pipe can be read only once: if the
 * model or an input is "-", its content is copied into an unnamed file that replaces standard input. A process that
 * starts another one restores the file position with lseek afterwards, because the two share it.
 */
void input_keep_stdin(const char *model, const struct input_request *r);

/*
 * Applies only --dim and --shape, and returns the resulting shapes of all inputs, for commands that
 * need no data (inspect). Dimensions that these options do not name stay free. `shapes` has room
 * for one shape per graph input.
 */
int input_shapes(const struct model *m, const struct input_request *r, struct shape *shapes,
		 struct diag *d);

/*
 * Returns the words, separated by '|', that may follow KEY= in the words of --input, as far as they are few; for the key "", the
 * keys. For completions.
 */
const char *input_key_words(const char *key);

#endif
