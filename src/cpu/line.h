/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_LINE_H
#define CPU_LINE_H
/*
 * infer::Conv in fp32 of one channel along a line to a few output channels, as filters of signals are. oneDNN vectorizes over output
 * channels, of which there are few here, and shares them or rows, of which there is one, among threads; here both go along the line.
 */
#include "backend/backend.h"

bool line_accepts(const struct site *s, struct why *w);
int line_reshape(struct site *s, struct step *step, struct diag *d);
int line_run(const struct call *c);

#endif
