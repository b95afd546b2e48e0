/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_INPUT_H
#define INPUT_INPUT_H
/*
 * A model's inputs: what the user says (files, shapes, random values), checked
 * against the model, then made into tensors.
 *
 *   input_plan   opens the files, looks at their heads, binds free dimensions, and refuses what
 *		  does not fit; takes no memory for tensors
 *   input_read   makes the tensors; where type and layout fit already, they lie in the mapped file
 */
#include "base/field.h"
#include "ir/graph.h"

struct input_request {
	struct texts input;   /* [NAME=]FILE[,KEY=VALUE...] */
	struct texts random;  /* [NAME=]LO..HI */
	struct texts shape;   /* NAME=1x3x224x224 */
	struct texts dim;     /* NAME=N, INPUT.NAME=N */
	const char *data_set; /* folder with input_K.pb; or NULL */
	int64_t seed;
	bool strict; /* free dimensions must be bound */
	/* Where a text of these lists comes from ("x.yaml:7: dim"), for messages; NULL, or gives NULL: "--dim". */
	const char *(*origin)(const void *options, const char *name, const char *text);
	const void *options;
};

/* One input of the model, by position. */
struct input_info {
	const char *name;
	struct type type;
	struct shape shape; /* of a tensor, once planned */
	const char *source; /* "line.png: RGB 240 x 41, resized to 281 x 48"; "random -1..1, seed 0" */
	const struct tensor *tensor; /* once read */
	bool made_up;
};

struct input_set;
struct input_set *input_plan(const struct model *m, const struct input_request *r, struct diag *d);
int input_read(struct input_set *s, struct diag *d);
/* For session_run, by position. */
const struct tensor *const *input_tensors(const struct input_set *s);
uint32_t input_count(const struct input_set *s);
const struct input_info *input_info(const struct input_set *s, uint32_t i);
void input_free(struct input_set *s);

/* Whether one of these texts of --input is standard input. */
bool input_from_stdin(const struct texts *input);
/*
 * A pipe can be read once. Read here, before the first of several processes, it is a file without a name; what a process
 * read of it, who started that one takes back with lseek.
 */
void input_keep_stdin(const char *model, const struct input_request *r);

/*
 * Binds --dim and --shape alone and gives the shapes of all inputs, for tools that need no data
 * (inspect). what is left free stays free. shapes: one a graph input.
 */
int input_shapes(const struct model *m, const struct input_request *r, struct shape *shapes,
		 struct diag *d);

#endif
