/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_OUTPUT_H
#define CMD_OUTPUT_OUTPUT_H
/* Output that all subcommands share: listings, JSON documents, findings. */
#include "base/json_write.h"
#include "cmd/options/options.h"

/*
 * Print a listing for people, in which names from a model cannot send control sequences to the
 * terminal (see base/tame.h). Print whole lines to the stream that listing_begin() returns;
 * listing_end() writes the rest of them to `to`, and closes the stream.
 */
FILE *listing_begin(FILE *to);
void listing_end(FILE *f);

/*
 * Returns true if output to this stream is colored, which depends on --color, on NO_COLOR, and on
 * whether the stream is a terminal.
 */
bool output_color(const struct options *o, FILE *stream);

/*
 * Functions that write the JSON document of a command to stdout. Finish the work first, because the
 * document begins with ok and exit_code:
 * It is kept in memory until its end, so that stdout has all of it or another one that tells why there is none:
 *   json_envelope_begin(&j, o, d); ... members of the command ...; json_envelope_end(&j, d);
 * A command that fails earlier writes nothing; main() then writes a document that holds only the findings.
 */
void json_envelope_begin(struct json *j, struct options *o, const struct diag *d);
void json_envelope_end(struct json *j, const struct diag *d);
/* Write the same document to a file. This document does not count as the document on stdout. */
void json_document_begin(struct json *j, FILE *stream, struct options *o, const struct diag *d);
void json_document_end(struct json *j, const struct diag *d);

/*
 * Puts what the command prints for people into its document, as the member "printed", so that infer inspect REPORT can print it
 * again: print to the stream that printed_begin() returns.
 */
struct printed {
	char *text;
	size_t n;
	FILE *stream;
};
FILE *printed_begin(struct printed *p);
void printed_end(struct printed *p, struct json *j);

/* Writes a finding as an element of the open array. */
void json_finding(struct json *j, const struct finding *f);

/*
 * Tests that a file can be written, before its content is known: creates the file and removes it
 * again. Fails with E-OUTPUT.
 */
int output_probe(const char *path, struct diag *d);

/* Tells readers of a page its date, version, host and command line. */
struct page;
void page_origin(struct page *p, const struct options *o, struct arena *a);
/* Adds a finding with its rows, expected and actual values and cure to an HTML page. */
void page_finding(struct page *p, const struct finding *f, struct arena *a);

/*
 * Prints the findings that have not been printed yet; with --quiet, prints only the errors. They are messages, which belong on
 * stderr, except those of a command whose findings are its result.
 */
void output_findings(struct options *o, const struct diag *d, FILE *f);

#endif
