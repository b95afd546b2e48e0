/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_LINE_H
#define CPU_LINE_H
/*
 * infer::Conv in fp32 of one channel along a line to a few maps, as filters of signals are. oneDNN's vectors hold maps, of which
 * most are missing then, and its threads share maps or rows, of which there is one; here vectors and threads go along the line.
 */
#include "backend/backend.h"

bool line_accepts(const struct site *s, struct why *w);
int line_reshape(struct site *s, struct step *step, struct diag *d);
int line_run(const struct call *c);

#endif
