/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_READER_H
#define INPUT_READER_H
/*
 * Reads the cases of a list in threads of its own while the model runs on earlier ones, and hands them out in order. At
 * most `ahead` cases are in memory that were not handed out, so memory does not grow with the list.
 */
#include "input/list.h"

struct reader;

struct read_case {
	size_t index;	       /* in the list */
	struct input_set *set; /* NULL if rc is not 0; input_free() frees it */
	int rc;		       /* 0 or -code */
	struct diag diag;      /* what the reading had to say; errors name the case's file */
};

/*
 * cases: the n indices of cases to read, in order. single: see input_request; may be NULL. The reader copies these, the
 * list and the model, but not what their arenas hold. Less than `ahead` cases wait if they are large.
 */
struct reader *reader_open(const struct input_list *l, const struct model *m, const size_t *cases,
			   size_t n, size_t ahead, int threads, const bool *single);
/*
 * Hands out the next case, which the caller must free. Waits until it is read. Returns false after the last one, and as
 * soon as stop() returns true.
 */
bool reader_next(struct reader *r, bool (*stop)(void), struct read_case *c);
/*
 * Returns false if a thread does not come back, as it waits for a pipe. The thread still uses the arenas of the list and
 * of the model then, which must not be freed before the program ends.
 */
bool reader_close(struct reader *r);

/* Lets the errors in d name the case's file, if they do not yet. */
void reader_name_errors(const char *label, struct diag *d);

#endif
