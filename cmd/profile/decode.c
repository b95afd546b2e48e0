/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer profile --prefill P --decode N: runs a decoder over a prompt of P positions and then for N more ids, and tells
 * the time to the first id, the time for each further one, and how near reading the weights and the state comes to the
 * memory's limit.
 */
#include "cmd/profile/decode.h"

#include "base/clock.h"
#include "base/stats.h"
#include "base/str.h"
#include "cmd/output/output.h"
#include "cmd/output/progress.h"
#include "cmd/output/watchdog.h"
#include "profile/peak.h"
#include "session/stepper.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds that are measured at most; each has N samples. */
enum { MAX_ROUNDS = 1000, DEFAULT_IDS = 128, MAX_IDS = 1000000 };

struct decode {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct session *session;
	struct steps *steps;
	struct input_set *inputs;
	struct stepper_request request;
	int64_t batch, prefill, count; /* count: ids behind the first */
	double cold;	    /* seconds to the first id in the first round, plans included */
	double *first;	    /* seconds to the first id, by round */
	double *each;	    /* seconds for each further id, of all rounds */
	double *step_plans; /* seconds of these that went into plans, by round */
	size_t rounds;
	struct step_times times; /* of the last round */
	uint64_t bytes;		 /* of weights and state that a step reads at least */
	struct peak peak;
};

static int check_options(const struct options *o, int64_t *count, struct diag *d)
{
	char *end = NULL;

	*count = o->decode ? strtoll(o->decode, &end, 10) : DEFAULT_IDS;
	if (o->decode && (end == o->decode || *end || *count < 1 || *count > MAX_IDS))
		return options_fail(o, "decode",
				    fmt(d, "wrong value: expected a number of ids, 1 to %d, got '%s'",
					MAX_IDS, o->decode),
				    NULL, d);
	if (o->steps.next.n <= 0 || o->steps.feed.n <= 0)
		return FAIL(d, E_OPTION, .slot = o->decode ? "--decode" : "--prefill",
			    .message = "it does not say how the model decodes",
			    .expected = "--feed OUT=IN and --next IN=argmax:OUT",
			    .hint = "for many exporters: --feed 'present.*=past_key_values.*' --next "
				    "input_ids=argmax:logits");
	return 0;
}

/* Makes a prompt of random ids, unless a file gives one. */
static int make_inputs(struct decode *x)
{
	static const struct text range = {"-1..1", 5};
	struct input_request *r = arena_new(&x->arena, struct input_request);
	const struct model *m = session_model(x->session);

	*r = options_request(x->o);
	x->steps = steps_parse(&x->o->steps, r, m, &x->arena, x->d);
	if (!x->steps)
		return -(int)x->d->last->code;
	const struct value *v = m->graph->value[m->graph->in[x->steps->next->in]];
	const struct shape *s = &v->info.shape;
	r->steps = x->steps;
	if (!r->random.n)
		r->random = (struct texts){&range, 1};
	if (x->o->prefill != INT_ABSENT && s->rank > 0 && s->dim[s->rank - 1] < 0) {
		struct text *shapes = arena_new_n(&x->arena, struct text, (size_t)r->dim.n + 1);
		const char *text = arena_printf(&x->arena, "%s.%d=%" PRId64, v->name, s->rank - 1,
						x->o->prefill);
		for (int64_t i = 0; i < r->dim.n; i++)
			shapes[i] = r->dim.v[i];
		shapes[r->dim.n] = (struct text){text, strlen(text)};
		r->dim = (struct texts){shapes, r->dim.n + 1};
	}
	x->inputs = input_plan(m, r, x->d);
	int rc = x->inputs ? input_read(x->inputs, x->d) : -(int)x->d->last->code;
	if (rc)
		return rc;
	const struct shape *given = &input_info(x->inputs, x->steps->next->in)->shape;
	x->prefill = given->rank ? given->dim[given->rank - 1] : 1;
	x->batch = given->rank > 1 ? given->dim[0] : 1;
	return 0;
}

/* Runs the prompt and all ids once. The times go to each[] and *first, if these are not NULL. */
static int run_round(struct decode *x, double *first, double *each)
{
	struct stepper *s = stepper_new(x->session, &x->request, x->inputs, x->d);
	bool done = false;
	int rc = s ? 0 : -(int)x->d->last->code;

	for (int64_t i = 0; !rc && !done; i++) {
		uint64_t start = clock_ns();
		rc = stepper_step(s, &done, x->d);
		double took = (double)(clock_ns() - start) / 1e9;
		if (!i)
			*first = took;
		else if (each && i <= x->count)
			each[i - 1] = took;
	}
	if (!rc)
		x->times = stepper_times(s);
	stepper_free(s);
	return rc;
}

static int measure(struct decode *x, struct progress *progress)
{
	double seconds = isnan(x->o->duration) ? 3 : x->o->duration;
	int64_t most = x->o->iterations == INT_ABSENT ? MAX_ROUNDS : x->o->iterations;
	int rc = run_round(x, &x->cold, NULL);
	uint64_t start = clock_ns();

	most = most < MAX_ROUNDS ? most : MAX_ROUNDS;
	x->first = arena_new_n(&x->arena, double, (size_t)most + 1);
	x->step_plans = arena_new_n(&x->arena, double, (size_t)most + 1);
	x->each = malloc(((size_t)most * (size_t)x->count + 1) * sizeof(double));
	if (!rc && !x->each)
		return FAIL(x->d, E_MEMORY);
	while (!rc && (int64_t)x->rounds < most) {
		double past = (double)(clock_ns() - start) / 1e9;
		if (x->rounds && (past >= seconds || watchdog_caught() != E_OK))
			break;
		progress_at(progress, past / seconds < 1 ? past / seconds : 1, "decoding");
		rc = run_round(x, &x->first[x->rounds], x->each + x->rounds * (size_t)x->count);
		x->step_plans[x->rounds] = (double)x->times.planned / 1e9;
		x->rounds += !rc;
	}
	return rc;
}

/* Whether a step reads only some rows of the weight, as of a table of embeddings. */
static bool is_table(const struct graph *g, const struct value *v)
{
	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = g->node[v->users[k]];
		if (!n->dead && (!n->type || strcmp(n->type, "Gather") != 0))
			return false;
	}
	return v->nusers > 0;
}

static uint64_t weight_bytes(const struct graph *g)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->init && g->value[i]->nusers && !is_table(g, g->value[i]))
			sum += g->value[i]->init->bytes;
	return sum;
}

static double quantile(const struct decode *x, double q)
{
	return stats_quantile_of(x->each, x->rounds * (size_t)x->count, q);
}

static void print_rate(const struct decode *x, struct arena *a, FILE *f)
{
	double rate = (double)x->bytes / quantile(x, 0.5);

	fprintf(f, "memory      %s of weights and state a step: %.3g GB/s",
		str_bytes(a, (int64_t)x->bytes), rate / 1e9);
	if (x->peak.bytes > 0)
		fprintf(f, ", %.0f %% of the %.3g GB/s of a large copy", rate / x->peak.bytes * 100,
			x->peak.bytes / 1e9);
	fprintf(f, "\n");
	if (x->times.grown)
		fprintf(f, "            %s of a round extended the state in place\n",
			str_many(a, (uint64_t)x->times.grown, "step"));
}

static void print_report(struct decode *x, FILE *f)
{
	struct arena a = {0};
	double first = stats_quantile_of(x->first, x->rounds, 0.5), median = quantile(x, 0.5);
	double plans = stats_quantile_of(x->step_plans, x->rounds, 0.5) / (double)x->count;

	fprintf(f, "model       %s\ndevice      %s: %s\n", x->o->operand[0],
		session_device(x->session), session_device_why(x->session));
	fprintf(f, "prefill     %s, batch %" PRId64 ": %s to the first id, %.4g positions/s",
		str_many(&a, (uint64_t)x->prefill, "position"), x->batch, str_seconds(&a, first),
		(double)(x->prefill * x->batch) / first);
	fprintf(f, "; %s in the first round, with its plans\n", str_seconds(&a, x->cold));
	fprintf(f,
		"decode      %s a round: median %s an id, p90 %s, p99 %s; %.4g ids/s; %zu round%s\n",
		str_many(&a, (uint64_t)x->count, "id"), str_seconds(&a, median),
		str_seconds(&a, quantile(x, 0.9)), str_seconds(&a, quantile(x, 0.99)),
		(double)x->batch / median, x->rounds, x->rounds > 1 ? "s" : "");
	fprintf(f, "            plans for the new shapes take %s of an id's time\n",
		str_seconds(&a, plans));
	print_rate(x, &a, f);
	arena_free(&a);
}

static void write_document(struct decode *x)
{
	struct json j;

	json_envelope_begin(&j, x->o, x->d);
	json_string(&j, "model", x->o->operand[0]);
	json_string(&j, "device", session_device(x->session));
	json_object(&j, "decode");
	json_int(&j, "batch", x->batch);
	json_int(&j, "prefill", x->prefill);
	json_int(&j, "ids", x->count);
	json_int(&j, "rounds", (int64_t)x->rounds);
	json_number(&j, "first_round_to_first_id_s", x->cold);
	json_number(&j, "to_first_id_s", stats_quantile_of(x->first, x->rounds, 0.5));
	json_number(&j, "id_s", quantile(x, 0.5));
	json_number(&j, "id_p90_s", quantile(x, 0.9));
	json_number(&j, "id_p99_s", quantile(x, 0.99));
	json_number(&j, "ids_per_s", (double)x->batch / quantile(x, 0.5));
	json_number(&j, "id_plans_s",
		    stats_quantile_of(x->step_plans, x->rounds, 0.5) / (double)x->count);
	json_int(&j, "in_place_steps", x->times.grown);
	json_int(&j, "bytes_per_step", (int64_t)x->bytes);
	json_number(&j, "bytes_per_s", (double)x->bytes / quantile(x, 0.5));
	json_number(&j, "peak_bytes_per_s", x->peak.bytes);
	json_end(&j, '}');
	json_envelope_end(&j, x->d);
}

static void report(struct decode *x)
{
	x->bytes = weight_bytes(session_model(x->session)->graph) + x->times.state_bytes;
	x->peak = peak_measure(session_runtime(x->session));
	if (x->o->json) {
		write_document(x);
		return;
	}
	FILE *f = listing_begin(stdout);
	print_report(x, f);
	listing_end(f);
}

bool decode_wanted(const struct options *o)
{
	return o->prefill != INT_ABSENT || o->decode != NULL;
}

int profile_decode(struct options *o, struct diag *d)
{
	struct decode x = {.o = o, .d = d};
	struct progress progress;
	int rc = check_options(o, &x.count, d);

	if (rc)
		return rc;
	watchdog_soft();
	progress_begin(&progress, o);
	x.session = session_open(o->operand[0], &o->config, d);
	rc = x.session ? make_inputs(&x) : -(int)d->last->code;
	x.request = (struct stepper_request){
		.steps = x.steps, .until.n = -1, .limit = x.count + 1, .seed = o->seed};
	rc = rc ? rc : measure(&x, &progress);
	progress_clear(&progress);
	if (!rc)
		report(&x);
	free(x.each);
	input_free(x.inputs);
	session_close(x.session);
	arena_free(&x.arena);
	return rc;
}
