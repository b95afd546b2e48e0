/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MUTANTS_INTERNAL_H
#define TEST_MUTANTS_INTERNAL_H
/* What the files of this folder share: a mutant while it is made, and the memory and values that edits take. */
#include "test/mutants/mutate.h"

#include "onnx.pb-c.h"

enum { MAX_NAMES = 256 };

/* Nodes and attributes of all models of the corpus. */
struct pool {
	Onnx__NodeProto **node;
	size_t nnodes;
	Onnx__AttributeProto **attribute;
	size_t nattributes;
};

/* Values that a node of the edited graph may read. */
struct names {
	const char *v[MAX_NAMES];
	int type[MAX_NAMES]; /* ONNX's number; 0 where only shape inference could tell */
	size_t n;
};

struct mutant {
	const struct corpus *corpus;
	const struct seed_case *seed;
	struct rng *r;
	struct pile *p;
	Onnx__ModelProto *model;
	Onnx__GraphProto *graph; /* the one that is edited: the model's or a body's */
	struct names names;
	unsigned made; /* names given so far */
};

/* ---- memory: all of it in the pile; NULL once that is full */

void *pile_alloc(struct pile *p, size_t bytes); /* cleared */
char *pile_text(struct pile *p, const char *s);
void *duplicate_message(struct pile *p, const ProtobufCMessage *m);
/* Makes room for one more pointer in a repeated field. */
bool grow_list(struct pile *p, void **list, size_t n);
#define PUSH(p, list, n, item)                                                                     \
	(grow_list((p), (void **)&(list), (n)) ? (void)((list)[(n)++] = (item)) : (void)0)
void remove_at(void *list, size_t *n, size_t i);

/* ---- values */

int64_t odd_int(struct rng *r);
float odd_float(struct rng *r);
int64_t small_dim(struct rng *r);
int some_type(struct rng *r);
void fill_raw(struct rng *r, int type, unsigned char *to, size_t n); /* values of elements */
size_t element_bytes(int type); /* 0: a type without bytes of its own */
/* A tensor of this type and shape, whose bytes fit; at most 4096 elements. */
Onnx__TensorProto *make_tensor(struct rng *r, struct pile *p, const char *name, int type, int rank,
			       const int64_t *dims);
Onnx__TensorProto *some_tensor(struct rng *r, struct pile *p, const char *name);

/* ---- the graph */

extern char no_name[1];			      /* the name of an operand that is left out */
Onnx__NodeProto *some_node(struct mutant *m); /* NULL: the graph has none */
char *some_name(struct mutant *m);
char *new_name(struct mutant *m);
void name_add(struct names *s, const char *name, int type);
void add_initializer(struct mutant *m, Onnx__TensorProto *t);
/* Appends an output to the model's graph. */
void add_output(struct mutant *m, char *name);

/* ---- surround.c: other nodes around those that are there */

/* Nodes that rewrites fuse (activations, casts, transpositions, ...) behind an output, one to three of them. */
void append_neighbours(struct mutant *m);
/* A node becomes the body of an If or of a Loop. */
void wrap_node(struct mutant *m);
/* A value takes the way through a sequence or an optional. */
void wrap_value(struct mutant *m);

/* A constant of 0 to 4 turns, for a Loop. */
char *count_of_turns(struct mutant *m);

/* ---- invent.c: nodes from the table of operators, whatever the corpus has */

void invent_node(struct mutant *m);

#endif
