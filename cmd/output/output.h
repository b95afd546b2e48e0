/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_OUTPUT_H
#define CMD_OUTPUT_OUTPUT_H
/* What the subcommands' outputs have in common. */
#include "base/json_write.h"
#include "cmd/options/options.h"

/*
 * A listing for people: names of a model in it cannot command the terminal (see base/tame.h). Printed
 * to what `begin` returns, in whole lines; `end` passes the rest on to the same stream.
 */
FILE *listing_begin(FILE *to);
void listing_end(FILE *f, FILE *to);

/* Whether what goes to this stream is to be colored. */
bool output_color(const struct options *o, FILE *stream);

/*
 * The JSON document of a command. Gather everything first (ok and exit_code come first), then
 *   json_envelope_begin(&j, o, d); ... own members ...; json_envelope_end(&j, d);
 * A command that fails before writes nothing: main writes a document with the findings alone.
 */
/* The same to a file; what goes to stdout is not touched. */
void json_document_begin(struct json *j, FILE *stream, struct options *o, const struct diag *d);
void json_envelope_begin(struct json *j, struct options *o, const struct diag *d);
void json_envelope_end(struct json *j, const struct diag *d);

/* One finding as an object of an array. */
void json_finding(struct json *j, const struct finding *f);

/* Whether a file can be written, before what goes there is known: it is made and taken away again. E-OUTPUT. */
int output_probe(const char *path, struct diag *d);

/* One finding on a page, with what belongs to it. */
struct page;
void page_finding(struct page *p, const struct finding *f, struct arena *a);

/* Findings on stderr; with --quiet the errors only. */
void output_findings(const struct options *o, const struct diag *d);

#endif
