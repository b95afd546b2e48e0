/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOL_H
#define WATCH_SYMBOL_H
/* Names of functions that a program file has in its symbol table but does not export. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "function+0x12" for a place in the file; false where the file says nothing of it. */
bool symbol_name(const char *path, uint64_t offset, char *text, size_t room);

#endif
