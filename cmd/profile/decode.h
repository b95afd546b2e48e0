/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_PROFILE_DECODE_H
#define CMD_PROFILE_DECODE_H
/* infer profile --prefill and --decode: the speed of a decoder. */
#include "cmd/options/options.h"

bool decode_wanted(const struct options *o);
int profile_decode(struct options *o, struct diag *d);

#endif
