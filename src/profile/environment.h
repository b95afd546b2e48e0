/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_ENVIRONMENT_H
#define PROFILE_ENVIRONMENT_H
#include "plan/plan.h"
#include "profile/record.h"

/* What a session runs on: device_name, driver, libraries. rt: of a session whose device is open. */
void environment_of(const struct runtime *rt, struct identity *id, struct arena *a);

#endif
