/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H
/*
 * Diagnostics. A function that can fail takes a `struct diag *` as its last argument, returns 0 or -code, and adds
 * at most one error: the callee says what went wrong, and a caller may only add where (diag_where). `check` goes on
 * after an error and collects all findings.
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

/* One line of the table under a message: `  model expects  f32 [1,3,640,640]`. */
struct diag_row {
	const char *label, *text;
};

struct finding {
	enum code code;
	enum severity severity;
	const char *model, *node, *op, *slot; /* where in the model; each may be NULL */
	const char *message;		      /* NULL: the code's title */
	const char *expected, *actual, *hint; /* hint NULL: the code's */
	const struct diag_row *rows; /* optional table shown instead of expected/actual/hint */
	size_t nrows;
	const char *file; /* place in our source */
	int line;
	struct finding *next;
};

struct diag {
	struct arena arena;
	struct finding *first, *last;
	size_t errors, warnings;
};

/* Add a copy of *f, with its texts. Returns -f->code. d may be NULL if only the code is wanted. */
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

/* A finding in d with the same code, severity, place and texts; NULL: none. */
struct finding *diag_find(const struct diag *d, const struct finding *f);

/* Format a string in the diag's arena. With d NULL it returns "", because the finding is not kept. */
const char *fmt(struct diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Set the place of the newest finding; fields that it has already stay. */
void diag_where(struct diag *d, const char *model, const char *node, const char *op);

/* "E-INPUT-BYTES"; in a static buffer per code and severity. */
const char *code_id(enum code code, enum severity severity);
const char *severity_word(enum severity severity); /* "note", "warning", "error" */
const char *code_title(enum code code);
const char *code_cure(enum code code); /* NULL only for E_OK */
const char *code_hint(enum code code); /* the cure, if it is printed under findings; else NULL */
const char *finding_hint(const struct finding *f); /* its own hint, else that of its code, else "" */
int code_exit(enum code code);			   /* exit status of an error of this code */

/* Exit status of the program: the lowest among the errors; 0 without errors. */
int diag_exit(const struct diag *d);

/* Human form on stream: `error[E-SHAPE]: /fc1/MatMul (MatMul) input B: expected ..., got ...`. */
void finding_print(const struct finding *f, FILE *stream, bool color);
/* The same with a given id, for findings of a saved report, whose ids this program may not know. */
void finding_print_as(const char *id, const struct finding *f, FILE *stream, bool color);
void diag_print(const struct diag *d, FILE *stream, bool color);
void diag_free(struct diag *d);

#endif
