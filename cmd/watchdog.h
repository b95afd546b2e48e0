/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_WATCHDOG_H
#define CMD_WATCHDOG_H
/*
 * Ends the program when its time is over (status 124), when it is interrupted (130), and when a
 * mapped file shrinks under it (3), with a message and, with --json, a document.
 */
#include <stdbool.h>

/* seconds 0: no limit. command is for the document and must outlive the program's end. */
void watchdog_start(const char *command, double seconds, bool json);
/* A document is being written to stdout: none is written at the end any more. */
void watchdog_document(void);

#endif
