/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_VERSION_H
#define CMD_OPTIONS_VERSION_H

#define INFER_VERSION "0.1.0"
#define INFER_DATE    "2026-11-21" /* date of the version, for the manual */

#endif
