/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/output/auto_precision.h"

#include "base/str.h"
#include "cmd/options/subcommand.h"

#include <stdlib.h>
#include <string.h>

/* Private variable that passes the chosen precision on to the process that repeats a failed run (blame.c). */
static const char choice_variable[] = "INFER_AUTO_PRECISION";

static const char *error_text(const struct precision_trial *t, struct arena *a)
{
	if (t->precision == PRECISION_FP32)
		return "";
	if (!t->output)
		return "";
	return arena_printf(a, ", error %.2g in output '%s'", t->error, t->output);
}

static void print_trial(const struct precision_choice *c, const struct precision_trial *t, FILE *stream)
{
	struct arena a = {0};

	fprintf(stream, "%-7s %s", "", precision_names[t->precision]);
	if (t->seconds > 0)
		fprintf(stream, " %s a run%s", str_seconds(&a, t->seconds), error_text(t, &a));
	if (t->why)
		fprintf(stream, ": rejected: %s", t->why);
	else if (t->precision != c->taken)
		fprintf(stream, ": rejected: not the fastest");
	fputc('\n', stream);
	arena_free(&a);
}

static void print_choice(const struct precision_choice *c, FILE *stream)
{
	fprintf(stream, "%-7s %s%sauto is %s: ", "numbers", c->label ? c->label : "",
		c->label ? ": " : "", precision_names[c->taken]);
	if (c->why)
		fputs(c->why, stream);
	else
		fprintf(stream, "the fastest within %g of the largest value of each fp32 output",
			PRECISION_LIMIT);
	fputs(c->known ? " (from the cache)\n" : "\n", stream);
	for (size_t i = 0; i < c->n; i++)
		print_trial(c, &c->trial[i], stream);
}

/* A process that repeats a failed run uses the precision of the first run: measuring again could choose another one. */
static bool use_inherited_choice(struct run_config *config)
{
	const char *name = getenv("INFER_BLAME_FD") ? getenv(choice_variable) : NULL;

	for (int p = 0; name && p < PRECISIONS; p++)
		if (!strcmp(name, precision_names[p])) {
			config->precision = p;
			return true;
		}
	return false;
}

void precision_settle(struct options *o, struct run_config *config,
		      const struct input_request *request, const char *label, struct diag *d)
{
	if (config->precision != PRECISION_AUTO || use_inherited_choice(config))
		return;
	bool forks = (o->command->bit & CMD_PROFILE) != 0;
	struct precision_choice c =
		precision_auto(o->operand[0], config, request, &o->steps, !forks, &o->arena);
	c.label = label && *label ? label : NULL;
	config->precision = c.taken;
	(void)setenv(choice_variable, precision_names[c.taken], 1);
	o->chosen = arena_append(&o->arena, o->chosen, o->nchosen, sizeof(c));
	o->chosen[o->nchosen++] = c;
	if (c.doubtful)
		WARN(d, E_PRECISION, .message = fmt(d, "%s", c.why));
	if (!o->quiet && !o->json)
		print_choice(&c, stderr);
}

void precision_document(const struct options *o, struct json *j)
{
	if (!o->nchosen)
		return;
	json_array(j, "auto_precision");
	for (size_t i = 0; i < o->nchosen; i++) {
		json_object(j, NULL);
		precision_write(&o->chosen[i], j);
		json_end(j, '}');
	}
	json_end(j, ']');
}
