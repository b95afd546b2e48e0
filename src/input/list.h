/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_LIST_H
#define INPUT_LIST_H
/*
 * Many inputs from one request. A text of --input may name many files: a pattern (*.jpg), a folder, a list of files
 * (@FILE), or the slices of one array (split=AXIS). --data-set may be a pattern or a list of folders. Each case of the list
 * is a request for one run of the model.
 */
#include "base/arena.h"
#include "base/file.h"
#include "input/input.h"

struct input_list {
	struct arena arena;
	struct input_request request; /* as given */
	size_t n;		      /* number of cases */
	/*
	 * For each case: what messages call it ("pics/a.jpg", "big.npy[7]"), and a relative path without extension after
	 * which its results are named. No two cases have the same name.
	 */
	const char **label, **name;
	const char **files; /* n rows, each with a file for every text of --input; NULL: as the text says */
	const char **sets; /* the --data-set folder of each case; NULL if they do not differ */
	bool split;	   /* the cases are slices of an array */
	struct file_map array; /* which all of them share: it would take long to map and unmap it for each */
	bool *varies;	       /* for each input of the model: whether it differs between cases */
};

/* Returns true if some text names many inputs. It looks at the texts and at files, not at a model. */
bool input_names_many(const struct input_request *r);
bool input_text_names_many(const char *text);
/* Returns true if a text of --input names a file that exists, or many; its keys need not be valid. */
bool input_text_names_file(const char *text);
/*
 * Finds the files. The request must outlive the list. Fails with E-INPUT-OPEN if a pattern, folder or list names no
 * file, and with E-INPUT-COUNT if two texts name different numbers of files.
 */
int input_list_open(struct input_list *l, const struct model *m, const struct input_request *r,
		    struct diag *d);
/* The request for case i, which points into the list. */
struct input_request input_list_case(const struct input_list *l, size_t i);
void input_list_free(struct input_list *l);

#endif
