/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_VERSION_H
#define CMD_OPTIONS_VERSION_H

#define INFER_VERSION "0.1.0"
#define INFER_DATE    "2026-11-21" /* date of the version, for the manual */

/* The version with the commit that was built, as tools/version.sh prints it. Packages carry the same one. */
extern const char infer_build[];

#endif
