/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_overhead MODEL [DEVICE [NAME=N [ROUNDS]]]: what being profiled costs on a GPU (or DEVICE). A plain loop of runs and
 * profile_measure without nodes take turns, each for half a second in a session of its own; a line each, then the
 * median of the ratios of neighbours. Exit status 1 where that is above 1.01.
 */
#include "base/clock.h"
#include "profile/profile.h"
#include "base/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 1 << 20, MOST_ROUNDS = 99, WARM = 20 };
static const uint64_t HALF_SECOND = 500000000;

static size_t loop(struct session *s, struct input_set *in, double *time, struct diag *d)
{
	const struct tensor **out = calloc(session_model(s)->graph->nout + 1, sizeof(*out));
	uint64_t begin = 0, now = 0;
	size_t n = 0;

	for (int i = 0; i < WARM && out; i++)
		if (session_run(s, input_tensors(in), out, d))
			goto end;
	begin = clock_ns();
	while (out && n < MOST_RUNS && now < begin + HALF_SECOND) {
		uint64_t start = clock_ns();
		if (session_run(s, input_tensors(in), out, d))
			goto end;
		now = clock_ns();
		time[n++] = (double)(now - start) * 1e-9;
	}
end:
	free(out);
	return d->errors ? 0 : n;
}

/* Medians in seconds; 0: it failed. */
static double plain(const struct profile_job *job, double *time, struct diag *d)
{
	struct session *s = session_open(job->path, &job->config, d);
	struct input_set *in = s ? input_plan(session_model(s), job->request, d) : NULL;
	size_t n = in && !input_read(in, d) ? loop(s, in, time, d) : 0;

	input_free(in);
	session_close(s);
	return n ? stats_quantile_of(time, n, 0.5) : 0;
}

static double profiled(const struct profile_job *job, struct diag *d)
{
	struct record *r = profile_measure(job, d);
	double median = r && r->npoints ? stats_quantile_of(r->point[0].time, r->point[0].n, 0.5) : 0;

	record_free(r);
	return median;
}

int main(int argc, char **argv)
{
	struct text dim = {argc > 3 ? argv[3] : "", argc > 3 ? strlen(argv[3]) : 0};
	struct text random = {"0..1", 4};
	struct input_request request = {.dim = {&dim, dim.n ? 1 : 0}, .random = {&random, 1}};
	struct profile_job job = {.config = {.device = argc > 2 ? argv[2] : "cuda",
					     .optimize = OPTIMIZE_FULL,
					     .memory_plan = true,
					     .arena = true},
				  .request = &request,
				  .duration = 0.5,
				  .warm_runs = WARM,
				  .sessions = 1};
	long rounds = argc > 4 ? strtol(argv[4], NULL, 10) : 9;
	double ratio[MOST_ROUNDS], *time = malloc(MOST_RUNS * sizeof(*time));
	struct diag d = {0};

	if (argc < 2 || !time || rounds < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: gpu_overhead MODEL [DEVICE [NAME=N [ROUNDS]]]\n");
		return 2;
	}
	job.path = argv[1];
	for (long k = 0; k < rounds && !d.errors; k++) {
		double a = plain(&job, time, &d), b = profiled(&job, &d);
		ratio[k] = a > 0 ? b / a : 0;
		printf("plain %.4f ms, profiled %.4f ms, ratio %.4f\n", a * 1e3, b * 1e3, ratio[k]);
		fflush(stdout);
	}
	diag_print(&d, stderr, false);
	double median = d.errors ? 9 : stats_quantile_of(ratio, (size_t)rounds, 0.5);
	printf("%s: median ratio %.4f\n", argv[1], median);
	free(time);
	diag_free(&d);
	return median > 1.01;
}
