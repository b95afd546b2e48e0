/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_WATCHDOG_H
#define CMD_OUTPUT_WATCHDOG_H
/*
 * Ends the program with a message and, with --json, a document: when the time of --timeout has passed (exit status
 * 124), when it is interrupted (130), when a file is truncated while it is mapped (3, or 4 for an input), and when the
 * system refuses memory (3).
 */
#include "base/diag.h"

#include <stdbool.h>

/* Call this function first: from now on a closed pipe or a limit for files is an error of the write. */
void watchdog_writes(void);
/*
 * Call this function before a subcommand: from now on a refusal of memory is reported, with a document if `json` is true.
 * `command` is the subcommand's name for the document.
 */
void watchdog_begin(const char *command, bool json);
/* Call this function last: from now on exit() ends the program without a report that a library called it. */
void watchdog_end(void);
/* Starts the watchdog. `seconds` is the time limit, 0 for none. */
void watchdog_start(double seconds, bool json);
/*
 * For a command that can report partial results: from now on, the first interrupt or timeout does not end the program
 * but is returned by watchdog_caught(). A second interrupt ends the program at once. The timer cancels work
 * (base/cancel.h) if the command has not called watchdog_caught() 0.5 s after the signal, and ends the program after
 * 0.8 s. After a timeout, a command that has called it gets five seconds more, or a fifth of --timeout, if that is longer.
 */
void watchdog_soft(void);
/* Returns the deferred signal as E_INTERRUPTED or E_TIMEOUT, or E_OK if there was none. */
enum code watchdog_caught(void);
/*
 * Makes the watchdog also report a crash, as a failure of the running node (exit status 3). Used by
 * commands that look for faults.
 */
void watchdog_crash(void);
/*
 * Call this function when a JSON document begins to be written to stdout, so that a signal does not
 * write a second document.
 */
void watchdog_document_begun(void);
/* Sets the path of the model, which a refusal of memory names. It must stay valid. */
void watchdog_model(const char *path);
/*
 * Sets the running node for the watchdog's message, or NULL if no node runs. The texts must stay
 * valid until the next call.
 */
void watchdog_at(const char *node, const char *op);
/*
 * Sets partial results to write when a signal ends the program: text for stdout, or, with --json,
 * findings (objects of the document's array, each followed by a comma). Both texts must stay valid
 * until the next call; NULL stands for no text.
 */
void watchdog_gathered(const char *text, const char *findings);

#endif
