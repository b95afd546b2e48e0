/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MUTANTS_MUTATE_H
#define TEST_MUTANTS_MUTATE_H
/*
 * Models made wrong on purpose. A corpus holds the models of a folder of ONNX cases; a mutant is one of them with a few edits
 * that keep it a well-formed protobuf message: other attributes, other wires, operands left out, other initializers, opsets,
 * bodies, nodes taken from other models. Mutant I of seed S is the same on every machine.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of one mutant; freed whole. */
struct pile {
	unsigned char *at;
	size_t used, size;
	bool full; /* an allocation was refused: the mutant is skipped */
};

struct rng {
	uint64_t state;
};
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* 0 .. n-1; 0 for n = 0 */
bool rng_chance(struct rng *r, unsigned percent);

/* A file in memory. */
struct bytes {
	unsigned char *data;
	size_t size;
	bool endless; /* of a mutant: it has a Loop that may run forever */
};

enum { MAX_CASE_INPUTS = 64, PIECE = 64 };

struct seed_case {
	char *name; /* KIND/CASE */
	struct bytes model;
	struct bytes input[MAX_CASE_INPUTS]; /* of test_data_set_0, by position; data NULL: absent */
	char *input_name[MAX_CASE_INPUTS];
	unsigned ninputs;
	void *unpacked; /* the ModelProto, whose nodes the pool lends */
};

struct corpus {
	struct seed_case *cases;
	size_t n;
	uint32_t *by_operator; /* noperators pieces of PIECE cases that have the operator in the model's graph */
	size_t noperators;
	struct pool *pool; /* nodes, attributes and strings that mutants borrow */
};

/* Reads DIR/KIND/CASE/model.onnx of at most 64 KiB with their first data set. False with a message on stderr. */
bool corpus_read(struct corpus *c, const char *dir);

/*
 * Mutant number i: which case it came from, and its bytes in the pile. False where it could not be made. Calls met, unless it is
 * NULL, with the domain and the name of each node's operator.
 */
bool mutant_make(const struct corpus *c, uint64_t seed, uint64_t i, struct pile *p, size_t *from,
		 struct bytes *out, void (*met)(const char *domain, const char *op));
size_t mutant_case(const struct corpus *c, uint64_t seed, uint64_t i);
/* Changes some of n bytes at `to`, elements of ONNX's type, to values at the edges of types. */
void odd_elements(struct rng *r, int type, unsigned char *to, size_t n);

#endif
