/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUSTOM_CUSTOM_H
#define CUSTOM_CUSTOM_H
/*
 * Operators from shared libraries of the user's (--ops), written against infer/op.h. Their tables are checked and
 * become rows of the registry and kernels of the backends, so that all other code treats them like operators of this build.
 */
#include "base/diag.h"
#include "base/field.h"

/*
 * Opens the libraries and adds their operators; an empty path is none. Call it once, before any model is opened; operators stay until the program
 * ends. Fails with E-LIBRARY if a library cannot be opened, is for another version of the header, has a table that is not well
 * formed, or names an operator that exists already.
 */
int custom_open(const struct texts *paths, struct diag *d);

/*
 * Name of the node whose operator, from a library, runs in this thread or was the last to start in another one; NULL if none
 * runs. *op gets its operator. A signal handler may call it, to say which node a crash belongs to.
 */
const char *custom_running(const char **op);

#endif
