/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/shard.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 1000000 };

/* Reads a number from the environment. Returns false if there is none. */
static bool variable(const char *name, int64_t *value)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return false;
	*value = strtoll(text, &end, 10);
	return !*end;
}

static int refuse_shard(const char *from, const char *message, const char *actual, const char *hint,
			struct diag *d)
{
	return FAIL(d, E_SHARD, .slot = from, .message = message, .actual = actual, .hint = hint);
}

/* Divides the present part into `count` parts. */
static int divide(struct shard *s, int64_t index, int64_t count, const char *from, struct diag *d)
{
	if (count < 1 || index < 0 || index >= count || (uint64_t)count > MAX_SHARDS / s->count)
		return refuse_shard(
			from, "it names no shard",
			fmt(d, "number %" PRId64 " of %" PRId64 ", counted from 0", index, count),
			"name it with --shard I/N, or run all inputs with --shard 1/1", d);
	s->index = s->index * (size_t)count + (size_t)index;
	s->count *= (size_t)count;
	s->from = from;
	return 0;
}

/* A job array has gaps if its ids were listed, and one id alone if a task is repeated. */
static int by_slurm_array(struct shard *s, struct diag *d)
{
	int64_t id, least = 0, most = 0, step = 1, count = 0;

	if (!variable("SLURM_ARRAY_TASK_ID", &id))
		return 0;
	bool known = variable("SLURM_ARRAY_TASK_MIN", &least) &&
		     variable("SLURM_ARRAY_TASK_MAX", &most) &&
		     variable("SLURM_ARRAY_TASK_COUNT", &count);
	(void)variable("SLURM_ARRAY_TASK_STEP", &step);
	if (!known || step < 1 || least < 0 || most < least || (most - least) / step + 1 != count ||
	    (id - least) % step != 0)
		return refuse_shard(
			"SLURM_ARRAY_TASK_ID",
			"the ids of the job array have gaps, so that they do not number shards",
			fmt(d,
			    "ids %" PRId64 " to %" PRId64 " in steps of %" PRId64 ", but %" PRId64
			    " of them",
			    least, most, step, count),
			"name the shard with --shard I/N", d);
	return divide(s, (id - least) / step, count, "SLURM_ARRAY_TASK_ID", d);
}

static int by_environment(struct shard *s, struct diag *d)
{
	int64_t rank, count;
	int rc = by_slurm_array(s, d);

	if (rc)
		return rc;
	if (variable("OMPI_COMM_WORLD_RANK", &rank) && variable("OMPI_COMM_WORLD_SIZE", &count))
		return divide(s, rank, count, "OMPI_COMM_WORLD_RANK", d);
	/* only srun sets the tasks of a step: a program that runs once in a job of many tasks has all inputs */
	if (variable("SLURM_PROCID", &rank) && variable("SLURM_STEP_NUM_TASKS", &count))
		return divide(s, rank, count, "SLURM_PROCID", d);
	if (!variable("JOB_COMPLETION_INDEX", &rank))
		return 0;
	if (!variable("INFER_SHARD_COUNT", &count))
		return refuse_shard(
			"JOB_COMPLETION_INDEX",
			"Kubernetes does not tell how many pods the job has", NULL,
			"set INFER_SHARD_COUNT to .spec.completions, or run all inputs with --shard 1/1",
			d);
	return divide(s, rank, count, "JOB_COMPLETION_INDEX", d);
}

static int by_option(struct shard *s, const struct options *o, struct diag *d)
{
	char *end;
	int64_t index = strtoll(o->shard, &end, 10),
		count = *end == '/' ? strtoll(end + 1, &end, 10) : 0;

	if (*end || index < 1 || count < index || count > MAX_SHARDS)
		return options_fail(
			o, "shard",
			fmt(d, "wrong value: expected I/N with I from 1 to N, got '%s'", o->shard),
			NULL, d);
	return divide(s, index - 1, count, "--shard", d);
}

int shard_find(struct shard *s, const struct options *o, struct diag *d)
{
	*s = (struct shard){.count = 1};
	return o->shard ? by_option(s, o, d) : by_environment(s, d);
}

const char *shard_path(const struct shard *s, const char *path, struct arena *a)
{
	static const char mark[] = "{shard}";
	const char *at = path ? strstr(path, mark) : NULL;

	return at ? arena_printf(a, "%.*s%zu-of-%zu%s", (int)(at - path), path, s->index + 1,
				 s->count, at + strlen(mark))
		  : path;
}
