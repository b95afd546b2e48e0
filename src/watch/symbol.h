/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOL_H
#define WATCH_SYMBOL_H
/* Names of functions from a program file's symbol table, including those that the file does not export. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writes "function+0x12" for an offset in the file to text. Returns false if the symbol table has no function at this
 * offset.
 */
bool symbol_name(const char *path, uint64_t offset, char *text, size_t room);

#endif
