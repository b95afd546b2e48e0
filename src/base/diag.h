/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H
/*
 * Diagnostics. A function that can fail takes a `struct diag *` as its last argument, returns 0 or -code, and adds
 * at most one error: the callee says what went wrong, and a caller may only add the model, node and
 * operator (diag_where). `check` goes on after an error and collects all findings.
 *
 *   return FAIL(d, E_SHAPE, .node = name, .slot = "B",
 *               .expected = fmt(d, "dim 0 = %" PRId64, k), .actual = fmt(d, ...));
 *
 * Strings must live as long as the diag: literals, or made with fmt().
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>

enum code {
	E_OK,
#define CODE(name, exit, title, shown, cure) E_##name,
#include "base/codes.def"
#undef CODE
	E_COUNT
};

enum severity { SEV_NOTE, SEV_WARNING, SEV_ERROR };

/* One row of the table that is printed under a message: `  model expects  f32 [1,3,640,640]`. */
struct diag_row {
	const char *label, *text;
};

struct finding {
	enum code code;
	enum severity severity;
	/* the place in the model; each of the four may be NULL */
	const char *model, *node, *op, *slot;
	const char *message;		      /* NULL stands for the code's title */
	const char *expected, *actual, *hint; /* a NULL hint stands for the code's cure */
	/* optional table, which is shown instead of expected, actual and hint */
	const struct diag_row *rows;
	size_t nrows;
	const char *file; /* place in our source */
	int line;
	struct finding *next, *next_alike; /* next_alike: in the same bucket of diag.bucket */
};

struct diag {
	struct arena arena;
	struct finding *first, *last;
	size_t errors, warnings;
	/* hash table of the findings by code and message, for diag_find() */
	struct finding **bucket;
	size_t buckets, count;
};

/*
 * Adds a copy of *f and its texts to d. Returns -f->code. d may be NULL if the caller only wants
 * the code.
 */
int diag_add(struct diag *d, const struct finding *f);
#define FAIL(d, code_, ...)                                                                        \
	diag_add((d), &(struct finding){.code = (code_),                                           \
					.severity = SEV_ERROR,                                     \
					.file = __FILE__,                                          \
					.line = __LINE__,                                          \
					__VA_ARGS__})
#define WARN(d, code_, ...)                                                                        \
	((void)diag_add((d), &(struct finding){.code = (code_),                                    \
					       .severity = SEV_WARNING,                            \
					       .file = __FILE__,                                   \
					       .line = __LINE__,                                   \
					       __VA_ARGS__}))
#define NOTE(d, code_, ...)                                                                        \
	((void)diag_add((d), &(struct finding){.code = (code_),                                    \
					       .severity = SEV_NOTE,                               \
					       .file = __FILE__,                                   \
					       .line = __LINE__,                                   \
					       __VA_ARGS__}))

/*
 * Adds the findings of `from` to `to`. Consecutive findings that differ only in their slot become one: a missing file of
 * weights is one fault, not one fault a weight.
 */
void diag_add_grouped(struct diag *to, const struct diag *from);

/* Removes the findings of this code and severity, which a later one makes untrue. */
void diag_drop(struct diag *d, enum code code, enum severity severity);

/*
 * Returns the finding in d with the same code, severity, place and texts as f, or NULL if there is
 * none.
 */
struct finding *diag_find(const struct diag *d, const struct finding *f);

/*
 * Formats a string in the diag's arena. Returns "" if d is NULL, because the finding is then not
 * kept.
 */
const char *fmt(struct diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Sets the place (model, node, operator) of the newest finding. Fields that the finding already has
 * stay unchanged.
 */
void diag_where(struct diag *d, const char *model, const char *node, const char *op);

/*
 * Returns the id of a finding, such as "E-INPUT-BYTES", in a static buffer for each code and
 * severity.
 */
const char *code_id(enum code code, enum severity severity);
/* Returns the code whose id this is, of any severity; E_INTERNAL if there is none. */
enum code code_named(const char *id);
const char *severity_word(enum severity severity); /* "note", "warning", "error" */
const char *code_title(enum code code);
const char *code_cure(enum code code); /* NULL only for E_OK */
/* cure of the code, or NULL if it is shown only in the manual */
const char *code_hint(enum code code);
/* hint of the finding, else the hint of its code, else "" */
const char *finding_hint(const struct finding *f);
int code_exit(enum code code); /* exit status of an error of this code */

/*
 * Returns the exit status of the program: the lowest exit status among the errors, or 0 if there
 * are no errors.
 */
int diag_exit(const struct diag *d);

/*
 * Prints a finding for people: `error[E-SHAPE]: /fc1/MatMul (MatMul) input B: expected ..., got
 * ...`.
 */
void finding_print(const struct finding *f, FILE *stream, bool color);
/*
 * Prints like finding_print(), but with the given id. Used for findings of a saved report, whose
 * ids this program may not know.
 */
void finding_print_as(const char *id, const struct finding *f, FILE *stream, bool color);
void diag_print(const struct diag *d, FILE *stream, bool color);
void diag_free(struct diag *d);

#endif
