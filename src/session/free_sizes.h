/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_FREE_SIZES_H
#define SESSION_FREE_SIZES_H
/*
 * Sizes for free dimensions that nobody gives. They are 1 by default, which is too small for some convolutions and
 * windows, and too few for a state of a fixed batch. If a run with them fails by its shapes, other sizes are tried:
 * those that the model's metadata name, common sizes in rising order, and batches.
 */
#include "input/input.h"
#include "session/session.h"

/* Whether all inputs are generated, so that their free dimensions may get any size. */
bool sizes_are_free(const struct input_request *r);
/* Whether the newest finding of a failed run is about the model's shapes, so that other sizes may help. */
bool sizes_may_help(const struct diag *why);

/*
 * Makes the inputs of the request and plans a run for them, which checks their shapes. Returns NULL with findings in d on
 * error.
 */
struct input_set *prepare_inputs_for(struct session *s, const struct input_request *r, struct diag *d);

/* A test of the inputs beyond the plan, such as a run; returns 0 if it succeeds. */
typedef int sizes_test(void *arg, const struct input_set *inputs, struct diag *d);

/*
 * Tries sizes for the free dimensions of the request until a plan, and the test unless it is NULL, succeed. Returns the
 * inputs, and in *found the request with their sizes as --dim texts behind those of the user, in the arena. Returns
 * NULL if no size works.
 */
struct input_set *search_sizes(struct session *s, const struct input_request *r, sizes_test *test,
			       void *arg, struct arena *a, const struct input_request **found);
/*
 * Tries multiples of the sizes that the inputs `given` have in free dimensions which the request does not bind, the largest first, with two
 * batches before one: over one element Softmax is 1, and two axes of one element cannot be told apart. The test must succeed. Returns
 * the inputs, and in *found their request in the arena, or NULL if no multiple works.
 */
struct input_set *widen_sizes(struct session *s, const struct input_request *r,
			      const struct input_set *given, sizes_test *test, void *arg,
			      struct arena *a, const struct input_request **found);
/* The texts that a search has added, as options: "--dim x.2=32 --dim x.3=32". */
const char *sizes_as_options(const struct input_request *before, const struct input_request *found,
			     struct arena *a);

/*
 * For a request whose inputs `given` are generated, after a run of them failed with the findings `why`: searches for sizes that work, and
 * adds a warning that names them, or else the findings with the sizes that were assumed. For other requests it adds the
 * findings, with sizes that the model does accept. Returns the inputs to go on with, which the arena must outlive, and in
 * *found their request, or NULL.
 */
struct input_set *recover_sizes(struct session *s, const struct input_request *r,
				const struct input_set *given, sizes_test *test, void *arg,
				const struct diag *why, struct arena *a,
				const struct input_request **found, struct diag *d);

#endif
