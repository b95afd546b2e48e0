/* SPDX-License-Identifier: Apache-2.0 */
/* --precision auto: which of the trials is taken, and what is kept of them. */
#include "session/auto_precision.h"

#include "test/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct precision_choice trials(double fp32, double tf32, double e1, double fp16, double e2,
				      double bf16, double e3)
{
	return (struct precision_choice){
		.n = 4,
		.trial = {{.precision = PRECISION_FP32, .seconds = fp32},
			  {.precision = PRECISION_TF32, .seconds = tf32, .error = e1, .output = "y"},
			  {.precision = PRECISION_FP16, .seconds = fp16, .error = e2, .output = "y"},
			  {.precision = PRECISION_BF16, .seconds = bf16, .error = e3, .output = "y"}}};
}

static int taken(struct precision_choice c, bool zeros)
{
	precision_judge(&c, zeros);
	return c.taken;
}

static void the_fastest_within_the_limit_is_taken(void)
{
	CHECK_INT(taken(trials(4, 2, 1e-4, 1, 1e-3, .9, 9e-3), false), PRECISION_BF16);
	CHECK_INT(taken(trials(4, 2, 1e-4, 1, 1e-3, .9, 1.1e-2), false), PRECISION_FP16);
	CHECK_INT(taken(trials(4, 2, 1e-4, 1, 2e-2, .9, 1), false), PRECISION_TF32);
	CHECK_INT(taken(trials(4, 5, 1e-4, 6, 1e-3, 7, 1e-3), false), PRECISION_FP32);
}

static void a_difference_of_times_that_is_noise_decides_nothing(void)
{
	CHECK_INT(taken(trials(1, .98, 1e-4, .99, 1e-3, .98, 1e-3), false), PRECISION_FP32);
	CHECK_INT(taken(trials(4, 2, 1e-4, 1.99, 1e-3, 1.98, 1e-3), false), PRECISION_TF32);
}

static void what_computes_nothing_is_not_taken(void)
{
	struct precision_choice c = trials(4, 2, 0, 1, 0, 1, 0);

	/* the same numbers, bit for bit: of a kernel that did not run, or of a model without fp32 */
	CHECK_INT(taken(c, false), PRECISION_FP32);
	/* zeros can judge nothing, however good the others look */
	c = trials(4, 2, 1e-4, 1, 1e-3, 1, 1e-3);
	precision_judge(&c, true);
	CHECK(c.taken == PRECISION_FP32 && c.doubtful && c.why && !c.trial[2].fits);
	/* errors that are no numbers are over any limit */
	CHECK_INT(taken(trials(4, 2, (double)NAN, 1, (double)INFINITY, 1, -1), false), PRECISION_FP32);
	/* all differ from fp32: zeros where it has numbers */
	CHECK_INT(taken(trials(4, 2, 1, 1, 1, 1, 1), false), PRECISION_FP32);
}

static void what_failed_is_not_taken(void)
{
	struct precision_choice c = trials(4, 2, 1e-4, 1, 1e-3, .5, 1e-3);

	c.trial[3].why = "out of memory";
	c.trial[2].seconds = 0;
	CHECK_INT(taken(c, false), PRECISION_TF32);
}

static void a_choice_survives_the_cache(void)
{
	struct precision_choice c = trials(4, 2, 1e-4, 1, 1e-3, .9, 1.1e-2);
	struct arena a = {0};
	char *text = NULL;
	size_t n = 0;
	struct json j;
	FILE *f = open_memstream(&text, &n);

	c.trial[2].output = "a \"name\"\twith\nall";
	precision_judge(&c, false);
	json_begin(&j, f);
	json_object(&j, NULL);
	precision_write(&c, &j);
	json_end(&j, '}');
	json_finish(&j);
	fclose(f);
	const struct precision_choice back =
		precision_read(jread(text, n, "choice", E_CACHE, &a, NULL), &a);
	CHECK_INT(back.n, 4);
	CHECK_INT(back.taken, PRECISION_FP16);
	CHECK(back.trial[2].fits && !back.trial[3].fits && !back.why && !back.known);
	CHECK(!strcmp(back.trial[2].output, c.trial[2].output));
	CHECK(!strcmp(back.trial[3].why, c.trial[3].why));
	CHECK(fabs(back.trial[1].seconds - 2) < 1e-12 && fabs(back.trial[3].error - 1.1e-2) < 1e-12);
	/* what is no choice is none */
	CHECK_INT(precision_read(jread("[1]", 3, "choice", E_CACHE, &a, NULL), &a).n, 0);
	free(text);
	arena_free(&a);
}

int main(void)
{
	UNIT(the_fastest_within_the_limit_is_taken);
	UNIT(a_difference_of_times_that_is_noise_decides_nothing);
	UNIT(what_computes_nothing_is_not_taken);
	UNIT(what_failed_is_not_taken);
	UNIT(a_choice_survives_the_cache);
	return unit_end();
}
