/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_WATCHDOG_H
#define CMD_OUTPUT_WATCHDOG_H
/*
 * Ends the program when its time is over (status 124), when it is interrupted (130), and when a
 * mapped file shrinks under it (3), with a message and, with --json, a document.
 */
#include "base/diag.h"

#include <stdbool.h>

/* seconds 0: no limit. command is for the document and must outlive the program's end. */
void watchdog_start(const char *command, double seconds, bool json);
/*
 * From now on the first interrupt and the end of --timeout only make watchdog_caught tell so, for a command that can
 * tell what it has gathered; a second interrupt, or five seconds more, ends the program as before.
 */
void watchdog_soft(void);
/* E_INTERRUPTED, E_TIMEOUT, or E_OK. */
enum code watchdog_caught(void);
/* A crash is told, too, as a failure of the node that runs (3). For commands that look for faults. */
void watchdog_crash(const char *command);
/* A document is being written to stdout: none is written at the end any more. */
void watchdog_document(void);
/* The node that runs now, which the message names; NULL: none. The texts must live on. */
void watchdog_at(const char *node, const char *op);
/*
 * What was gathered so far and is written, too: text on stdout, or with --json findings (objects of the
 * document's array, each followed by a comma). Both must live until the next call; NULL: nothing.
 */
void watchdog_gathered(const char *text, const char *findings);

#endif
