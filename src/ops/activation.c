/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/activation.h"

#include <math.h>
#include <stddef.h>
#include <strings.h>

const struct activation activations[ACT_COUNT] = {
	[ACT_NONE] = {.text = "none"},
#define ACTIVATION(id, text, op, nparams, alpha, beta)                                             \
	[ACT_##id] = {text, op, nparams, alpha, beta},
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta)                                             \
	[ACT_##id] = {NULL, op, nparams, alpha, beta},
#include "ops/unary.def"
};

const char act_choices[] = "none"
#define ACTIVATION(id, text, op, nparams, alpha, beta) "|" text
#include "ops/unary.def"
	;

enum act activation_named(const char *name)
{
	for (int act = 0; act < ACT_COUNT; act++)
		if (activations[act].op && !strcasecmp(activations[act].op, name))
			return (enum act)act;
	return ACT_NONE;
}
