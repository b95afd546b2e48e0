/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_KEYED_H
#define BASE_KEYED_H
/* Lists of nodes in the order of a hash, and the hashes that the lists of two graphs have in common. */
#include <stdbool.h>
#include <stdint.h>

struct keyed {
	uint64_t key;
	uint32_t node;
};
/* The order of a list: by key, then by node. For qsort() and bsearch(). */
int keyed_order(const void *a, const void *b);
void keyed_sort(struct keyed *list, uint32_t n);

/*
 * A walk through two sorted lists: begin with {.p = list, .p_left = its length} and the same of q. Where the lists meet, p[0..np-1] and
 * q[0..nq-1] have one key, and nothing else in either list has it.
 */
struct keyed_walk {
	const struct keyed *p, *q;
	uint32_t p_left, q_left, np, nq;
};
/* Goes to the next key that both lists have. Returns false at the end. */
bool keyed_meet(struct keyed_walk *w);

#endif
