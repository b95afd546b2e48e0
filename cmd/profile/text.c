/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the report of `infer profile` as text, and makes the tables that all forms of the report share. */
#include "cmd/profile/profile.h"

#include "base/columns.h"
#include "base/str.h"
#include "base/tame.h"
#include "profile/kernel_name.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words */

static const char *seconds(struct arena *a, double s)
{
	return isnan(s) ? "-" : str_seconds(a, s);
}

static const char *bytes(struct arena *a, double n)
{
	return n >= 1 ? str_bytes(a, (int64_t)n) : "-";
}

static const char *percent(struct arena *a, double share)
{
	return arena_printf(a, "%.1f %%", share * 100);
}

const char *profile_rate(struct arena *a, double n, const char *unit)
{
	static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
	int k = 0;

	if (!(n > 0))
		return "-";
	for (; n >= 1000 && k < 5; k++)
		n /= 1000;
	return arena_printf(a, "%.*f %s%s", n < 10 ? 2 : n < 100 ? 1 : 0, n, prefix[k], unit);
}

static double copies(const struct profile *p, const struct record_point *q)
{
	return p->o->transfers == TRANSFERS_EXCLUDE ? q->copy_in + q->copy_out : 0;
}

double profile_latency(const struct profile *p, const struct record_point *q, double s)
{
	return fmax(s - copies(p, q), 0);
}

const char *record_label(const struct record *r, struct arena *a)
{
	const char *point = r->npoints > 1 ? r->point[0].label : "";

	return arena_printf(a, "%s%s%s", r->label, *r->label && *point ? " " : "", point);
}

bool profile_single(const struct profile *p)
{
	return p->njobs == 1 && p->sweep.points < 2 && p->nrecords == 1 &&
	       p->record[0]->npoints == 1 && !p->nfailed;
}

static const char *failure_label(const struct profile_failure *f, struct arena *a)
{
	return arena_printf(a, "%s%s%s", f->label, *f->label && *f->point ? " " : "", f->point);
}

const char *failure_labels(const struct profile *p, size_t i, size_t *n, struct arena *a)
{
	enum { NAMED = 3 };
	const struct finding *why = p->failed[i].finding;
	struct str s = {.arena = a};
	size_t all = 0;

	for (size_t k = 0; k < p->nfailed; k++) {
		if (p->failed[k].finding != why)
			continue;
		if (k < i)
			return NULL;
		if (all++ < NAMED)
			str_addf(&s, "%s%s", all > 1 ? ", " : "", failure_label(&p->failed[k], a));
	}
	if (all > NAMED)
		str_addf(&s, " and %zu more", all - NAMED);
	*n = all;
	return str_get(&s);
}

const char *failure_sentence(const struct profile_failure *f, struct arena *a)
{
	const struct finding *e = f->finding;

	return arena_printf(a, "%s: %s%s%s%s", code_id(e->code, e->severity),
			    e->node ? "node '" : "", e->node ? e->node : "", e->node ? "': " : "",
			    e->message ? e->message : code_title(e->code));
}

static bool on_cpu(const struct record *r)
{
	return r->id.device && !strcmp(r->id.device, "cpu");
}

/* "AMD EPYC; NVIDIA H200": each once. */
static const char *all_devices(const struct profile *p, struct arena *a)
{
	struct str s = {.arena = a};

	for (size_t i = 0; i < p->nrecords; i++) {
		const char *name = p->record[i]->id.device_name;
		size_t before = 0;
		while (before < i && strcmp(p->record[before]->id.device_name, name) != 0)
			before++;
		if (before == i)
			str_addf(&s, "%s%s", s.n ? "; " : "", name);
	}
	return str_get(&s);
}

/* Whether the models were measured with the same settings, as without lists of them. */
static bool same_settings(const struct profile *p)
{
	return p->njobs == p->o->noperands;
}

const char *profile_head(const struct profile *p, const struct record *r, struct arena *a)
{
	const struct identity *id = &r->id;

	if (p->njobs > 1 && !same_settings(p))
		return arena_printf(a, "%s; settings as the table says", all_devices(p, a));
	return arena_printf(
		a, "%s%s%s, %" PRId64 " thread%s, %s, optimize %s%s%s%s", id->device,
		id->device_name && *id->device_name ? ": " : "",
		id->device_name ? id->device_name : "", id->threads, id->threads == 1 ? "" : "s",
		id->precision, id->optimize, id->memory_plan ? "" : ", no memory plan",
		id->arena ? "" : ", no arena",
		id->sessions > 1 ? arena_printf(a, ", %" PRId64 " sessions", id->sessions) : "");
}

double profile_runs_a_second(const struct record_point *p)
{
	return p->span > 0 ? (double)p->n / p->span : NAN;
}

const char *work_sentence(const struct profile *p, const struct record *r, struct arena *a)
{
	struct stats s = stats_of(r->point[0].time, r->npoints ? r->point[0].n : 0);
	double time = r->npoints ? profile_latency(p, &r->point[0], s.median) : 0;
	struct str b = {.arena = a};

	if (!(r->flops > 0) || !(time > 0))
		return NULL;
	str_addf(&b, "%s a run, %s", profile_rate(a, r->flops, "FLOP"),
		 profile_rate(a, r->flops / time, "FLOP/s"));
	if (r->peak_flops > 0 && r->flops / time > r->peak_flops)
		str_addf(&b, " (more than multiply-adds of fp32 give: %s, measured)",
			 profile_rate(a, r->peak_flops, "FLOP/s"));
	else if (r->peak_flops > 0)
		str_addf(&b, " (%s of the machine's %s)", percent(a, r->flops / time / r->peak_flops),
			 profile_rate(a, r->peak_flops, "FLOP/s"));
	str_addf(&b, "; %s moved between nodes, %s", profile_rate(a, r->bytes, "B"),
		 profile_rate(a, r->bytes / time, "B/s"));
	if (r->peak_bytes > 0 && r->bytes / time > r->peak_bytes)
		str_addf(&b, " (out of caches: memory gives %s, measured)",
			 profile_rate(a, r->peak_bytes, "B/s"));
	else if (r->peak_bytes > 0)
		str_addf(&b, " (%s of the machine's %s)", percent(a, r->bytes / time / r->peak_bytes),
			 profile_rate(a, r->peak_bytes, "B/s"));
	return str_get(&b);
}

double profile_energy(const struct record *r, const struct record_point *q, const char **by)
{
	const struct record_clocks *c = &r->clocks;
	double watts = on_cpu(r) ? r->watts : 0, sum = 0;

	*by = "RAPL";
	for (size_t k = 0; !on_cpu(r) && k < c->n; k++)
		sum += c->watts[k];
	if (sum > 0) {
		watts = sum / (double)c->n;
		*by = "NVML";
	}
	return watts > 0 && q->n && q->span > 0 ? watts * q->span / (double)q->n : NAN;
}

/* Copies at most `most` of the times, evenly spread over the measurement, to `to`. Returns their number. */
static size_t thin_out(const double *time, size_t n, double *to, size_t most)
{
	size_t step = (n + most - 1) / most, kept = 0;

	for (size_t i = 0; i < n; i += step)
		to[kept++] = time[i];
	return kept;
}

struct interval latency_interval(const struct record_point *q, double quantile)
{
	/* Half a million runs of a small model would be sorted for each round; how unsteady they are shows in fewer as well. */
	enum { MAX_SAMPLES = 8192 };
	static double time[MAX_SAMPLES];
	size_t n = thin_out(q->time, q->n, time, MAX_SAMPLES);
	/*
	 * A load on the machine lasts for seconds and slows all runs meanwhile, so that neighbouring runs are correlated: blocks of a
	 * twentieth of the measurement are resampled as a whole.
	 */
	size_t block = stats_block_length(n), twentieth = n / 20;
	struct bootstrap how = {.quantile = quantile,
				.level = 0.95,
				.rounds = 300,
				.block = block > twentieth ? block : twentieth,
				.max_drawn = n,
				.seed = 7};
	struct interval i = stats_bootstrap(time, n, &how);

	i.value = stats_quantile_of(q->time, q->n, quantile);
	i.low = fmin(i.low, i.value);
	i.high = fmax(i.high, i.value);
	return i;
}

const char *clock_sentence(const struct record *r, struct arena *a)
{
	const struct record_clocks *c = &r->clocks;
	struct str b = {.arena = a};

	if (!c->n)
		return NULL;
	str_addf(&b, "SM %.0f", stats_quantile_of(c->sm, c->n, 0.5));
	if (c->sm_most > 0)
		str_addf(&b, " of %.0f", c->sm_most);
	str_addf(&b, " MHz, memory %.0f", stats_quantile_of(c->memory, c->n, 0.5));
	if (c->memory_most > 0)
		str_addf(&b, " of %.0f", c->memory_most);
	str_addf(&b, " MHz, %.0f C, %.0f", stats_quantile_of(c->celsius, c->n, 1),
		 stats_quantile_of(c->watts, c->n, 1));
	if (c->watts_most > 0)
		str_addf(&b, " of %.0f", c->watts_most);
	str_addf(&b, " W; %zu sample%s", c->n, c->n == 1 ? "" : "s");
	return str_get(&b);
}

static void add_device_peak(const struct record *r, struct str *b, struct arena *a)
{
	double device = 0, raised = 0;
	size_t by = 0;

	for (size_t k = 1; k < r->nphases; k++) {
		device = fmax(device, r->phase[k].device_used);
		if (r->phase[k].device_used - r->phase[k - 1].device_used > raised) {
			raised = r->phase[k].device_used - r->phase[k - 1].device_used;
			by = k;
		}
	}
	for (size_t k = 0; k < r->timeline.n; k++)
		device = fmax(device, r->timeline.device_used[k]);
	if (raised > 0)
		str_addf(b, "; device %s in use at most, %s of it made by phase '%s'",
			 bytes(a, device), bytes(a, raised), r->phase[by].name);
}

/*
 * Returns a sentence with the peak of resident memory, the phase that raised it most, and the node at which planned
 * memory is fullest.
 */
const char *peak_sentence(const struct record *r, struct arena *a)
{
	struct str b = {.arena = a};
	double most = -1;
	size_t at = 0;

	if (!r->nphases)
		return "";
	for (size_t k = 1; k < r->nphases; k++)
		if (r->phase[k].peak - r->phase[k - 1].peak > most) {
			most = r->phase[k].peak - r->phase[k - 1].peak;
			at = k;
		}
	const struct record_phase *last = &r->phase[r->nphases - 1];
	str_addf(&b, "peak %s resident", bytes(a, last->peak));
	if (most > 0)
		str_addf(&b, ", most of it (%s) made by phase '%s'", bytes(a, most),
			 r->phase[at].name);
	const struct record_node *node = NULL;
	for (size_t k = 0; k < r->nnodes; k++)
		if (!node || r->node[k].live > node->live)
			node = &r->node[k];
	add_device_peak(r, &b, a);
	if (node && node->live > 0)
		str_addf(&b, "; activations are largest (%s) at node '%s' (%s)",
			 bytes(a, node->live), node->name, node->op);
	return str_get(&b);
}

static void add_growth(struct str *b, const char *what, const double *v, size_t from, size_t to,
		       struct arena *a)
{
	double more = v[to] - v[from];

	str_addf(b, "%s %s%s", what, more < 0 ? "-" : "+", str_bytes(a, (int64_t)fabs(more)));
}

const char *growth_sentence(const struct record *r, struct arena *a)
{
	static const double MIN_SAMPLE_BYTES = 64 << 10; /* bytes */
	const struct record_timeline *t = &r->timeline;
	struct str b = {.arena = a};
	size_t first = 0, last = 0, n = 0;

	for (size_t k = 0; k < t->n && r->npoints == 1; k++)
		if (t->run[k] > 0) {
			first = n++ ? first : k;
			last = k;
		}
	if (n < 2)
		return NULL;
	/*
	 * size of the samples themselves: begin, duration and wait of each run, and seven numbers of each sample of
	 * the timeline
	 */
	double samples = (t->run[last] - t->run[first]) * 3 * sizeof(double) * (double)r->id.sessions +
			 (double)(last - first) * 7 * sizeof(double);
	str_addf(&b, "from run %.0f to run %.0f: ", t->run[first], t->run[last]);
	add_growth(&b, "resident", t->rss, first, last, a);
	add_growth(&b, ", private", t->private, first, last, a);
	if (samples > MIN_SAMPLE_BYTES)
		str_addf(&b, " (%s of it are the samples)", str_bytes(a, (int64_t)samples));
	add_growth(&b, ", counted on the host", t->host, first, last, a);
	if (!on_cpu(r)) {
		add_growth(&b, ", on the device", t->device, first, last, a);
		add_growth(&b, ", in use there", t->device_used, first, last, a);
	}
	return str_get(&b);
}

/* ---- tables */

void table_phases(const struct record *r, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"phase", "time",   "resident", "private",
					    "peak",  "device", NULL};

	table_begin(t, a, heads, "lrrrrr");
	t->ranks = "011324";
	for (size_t k = 0; k < r->nphases; k++) {
		const struct record_phase *p = &r->phase[k];
		table_text(t, p->name);
		table_number(t, p->seconds, k ? seconds(a, p->seconds) : "-");
		table_number(t, p->rss, bytes(a, p->rss));
		table_number(t, p->private, bytes(a, p->private));
		table_number(t, p->peak, bytes(a, p->peak));
		table_number(t, p->device_used, bytes(a, p->device_used));
	}
}

void table_memory(const struct record *r, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"counted by purpose", "kind",	"load", "prepare",
					    "first run",	  "at the end", NULL};
	static const char *const when[] = {"load", "prepare", "first run"};
	const struct record_phase *p[4] = {NULL};

	table_begin(t, a, heads, "llrrrr");
	for (size_t k = 0; k < r->nphases; k++)
		for (int i = 0; i < 3; i++)
			if (!strcmp(r->phase[k].name, when[i]))
				p[i] = &r->phase[k];
	p[3] = r->nphases ? &r->phase[r->nphases - 1] : NULL;
	for (int kind = 0; kind < RECORD_KINDS; kind++)
		for (int use = 0; use < RECORD_PURPOSES; use++) {
			double most = 0;
			for (int i = 0; i < 4; i++)
				most = fmax(most, p[i] ? p[i]->live[kind][use] : 0);
			if (most < 1)
				continue;
			table_text(t, mem_purpose_name((enum mem_purpose)use));
			table_text(t, record_kind_name(kind));
			for (int i = 0; i < 4; i++)
				table_number(t, p[i] ? p[i]->live[kind][use] : 0,
					     bytes(a, p[i] ? p[i]->live[kind][use] : 0));
		}
}

struct row_order {
	const struct record_node *node;
	double key;
	size_t at;
};

static int by_key(const void *a, const void *b)
{
	const struct row_order *x = a, *y = b;

	if (x->key < y->key)
		return 1;
	if (x->key > y->key)
		return -1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/*
 * Returns the names of the node and of the nodes fused into it. If `brief` is set, only the last parts of the first
 * three names are shown.
 */
static const char *node_label(const struct record_node *n, bool brief, struct arena *a)
{
	struct str b = {.arena = a};
	int others = 0;

	str_add(&b, brief ? columns_shorten(n->name, 40, a) : n->name);
	for (const char *s = n->fused; s && *s;) {
		size_t len = strcspn(s, ",");
		const char *one = arena_strn(a, s, len);
		s += len + (s[len] ? strspn(s + len, ", ") : 0);
		if (!strcmp(one, n->name) || (brief && ++others > 3))
			continue;
		const char *slash = brief ? strrchr(one, '/') : NULL;
		str_addf(&b, " + %s",
			 slash && slash[1] ? slash + 1
			 : brief	   ? columns_shorten(one, 24, a)
					   : one);
	}
	if (brief && others > 3)
		str_addf(&b, " + %d", others - 3);
	return str_get(&b);
}

/*
 * Returns the kernel that takes the most time among those that a node launches, and the number of other launches.
 * Without CUPTI, returns the kind of our kernel.
 */
static const char *kernel_label(const struct record_node *n, bool brief, struct arena *a)
{
	const struct record_kernel *most = n->launch;
	struct str b = {.arena = a};
	double launches = 0;

	for (size_t k = 0; k < n->nlaunches; k++) {
		launches += n->launch[k].count;
		if (n->launch[k].seconds > most->seconds)
			most = &n->launch[k];
	}
	if (!n->nlaunches)
		return n->kernel;
	const char *name = kernel_short_name(most->name, a);
	str_add(&b, columns_shorten(name, brief ? 36 : 54, a));
	if (most->count > 1)
		str_addf(&b, " x %.4g", most->count);
	if (launches > most->count)
		str_addf(&b, " + %.4g", launches - most->count);
	return str_get(&b);
}

/* The number of nodes of the file that were fused into this one. */
static size_t fused_others(const struct record_node *n)
{
	size_t commas = 0;

	for (const char *s = n->fused; s && *s; s++)
		commas += *s == ',';
	return commas;
}

/* Returns the operator of the file that a node was, or "Conv + 3" if three others were fused into it. */
static const char *operator_label(const struct record_node *n, struct arena *a)
{
	size_t others = fused_others(n);

	return others ? arena_printf(a, "%s + %zu", n->op, others) : n->op;
}

static void node_row(const struct record_node *n, bool brief, struct table *t, struct arena *a)
{
	const char *label = arena_printf(a, "%*s%s", (int)n->depth * 2, "", node_label(n, brief, a));
	size_t others = fused_others(n);

	if (others)
		table_folded(t,
			     arena_printf(a, "%*s%s + %zu", (int)n->depth * 2, "", n->name, others),
			     label);
	else
		table_text(t, label);
	table_text(t, operator_label(n, a));
	table_text(t, kernel_label(n, brief, a));
	table_number(t, n->calls, arena_printf(a, "%.4g", n->calls));
	table_number(t, n->typical, seconds(a, n->typical));
	table_number(t, n->share, percent(a, n->share));
	double time = n->typical > 0 ? n->typical : NAN;
	table_number(t, n->flops / time, profile_rate(a, isnan(time) ? 0 : n->flops / time, "FLOP/s"));
	table_number(t, n->bytes / time, profile_rate(a, isnan(time) ? 0 : n->bytes / time, "B/s"));
	table_number(t, n->out_bytes, bytes(a, n->out_bytes));
	table_number(t, n->workspace, bytes(a, n->workspace));
	table_number(t, n->live, bytes(a, n->live));
}

static void sum_row(struct table *t, const char *what, double s, double share, struct arena *a)
{
	table_text(t, what);
	table_text(t, "");
	table_text(t, "");
	table_text(t, "");
	table_number(t, s, seconds(a, s));
	table_number(t, share, percent(a, share));
	for (int i = 0; i < 5; i++)
		table_text(t, "");
}

void table_nodes(struct profile *p, const struct record *r, bool brief, struct table *t,
		 struct arena *a)
{
	static const char *const heads[] = {"node",   "operator", "kernel", "calls",
					    "time",   "share",	  "work",   "traffic",
					    "output", "scratch",  "in use", NULL};
	struct row_order *order = arena_new_n(a, struct row_order, r->nnodes + 1);
	size_t top = p->o->top > 0 ? (size_t)p->o->top : r->nnodes, n = 0;
	double rest = 0;

	table_begin(t, a, heads, "lllrrsrrrrr");
	t->ranks = "01360045677";
	for (size_t k = 0; k < r->nnodes; k++) {
		const struct record_node *x = &r->node[k];
		double key = p->o->sort == SORT_TIME	 ? x->typical
			     : p->o->sort == SORT_MEMORY ? x->out_bytes + x->workspace
							 : 0;
		order[n++] = (struct row_order){x, key, k};
	}
	qsort(order, n, sizeof(*order), by_key);
	for (size_t k = 0; k < n && k < top; k++)
		node_row(order[k].node, brief, t, a);
	for (size_t k = top; k < n; k++)
		rest += order[k].node->typical;
	double whole = r->observed > 0 ? r->observed : NAN;
	if (top < n)
		sum_row(t, arena_printf(a, "(%zu other%s)", n - top, n - top == 1 ? "" : "s"), rest,
			rest / whole, a);
	sum_row(t, "(gaps: between nodes)", fmax(r->gaps, 0), fmax(r->gaps, 0) / whole, a);
}

/* The sum of all nodes of one operator. */
struct operator_sum {
	const char *op;
	double nodes, time, flops;
};

static int by_time(const void *a, const void *b)
{
	const struct operator_sum *x = a, *y = b;

	return x->time < y->time ? 1 : x->time > y->time ? -1 : strcmp(x->op, y->op);
}

void table_operators(const struct record *r, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"operator", "nodes", "time", "share", "work", NULL};
	struct operator_sum *sum = arena_new_n(a, struct operator_sum, r->nnodes + 1);
	size_t n = 0;

	table_begin(t, a, heads, "lrrsr");
	t->ranks = "02001";
	for (size_t k = 0; k < r->nnodes; k++) {
		size_t i = 0;
		while (i < n && strcmp(sum[i].op, r->node[k].op) != 0)
			i++;
		n += i == n;
		sum[i].op = r->node[k].op;
		sum[i].nodes++;
		sum[i].time += r->node[k].typical;
		sum[i].flops += r->node[k].flops;
	}
	qsort(sum, n, sizeof(*sum), by_time);
	for (size_t i = 0; i < n; i++) {
		double share = r->observed > 0 ? sum[i].time / r->observed : NAN;
		double work = sum[i].time > 0 ? sum[i].flops / sum[i].time : 0;
		table_text(t, sum[i].op);
		table_number(t, sum[i].nodes, str_count(a, (int64_t)sum[i].nodes));
		table_number(t, sum[i].time, seconds(a, sum[i].time));
		table_number(t, share, percent(a, share));
		table_number(t, work, profile_rate(a, work, "FLOP/s"));
	}
}

static const char *point_label(const struct record *r, const struct record_point *p, struct arena *a)
{
	if (*r->label && *p->label)
		return arena_printf(a, "%s %s", r->label, p->label);
	return *r->label ? r->label : *p->label ? p->label : "model";
}

static void add_latency_cell(const struct profile *p, const struct record_point *q, double v,
			     struct table *t, struct arena *a)
{
	double s = isnan(v) ? v : profile_latency(p, q, v);

	table_number(t, s, seconds(a, s));
}

static void split_cells(const struct record *r, const struct record_point *q, double median,
			struct table *t, struct arena *a)
{
	double part[3] = {q->copy_in, fmax(median - q->copy_in - q->copy_out, 0), q->copy_out};

	for (int i = 0; i < 3; i++)
		table_number(t, part[i], on_cpu(r) && i != 1 ? "-" : seconds(a, part[i]));
}

static void failed_rows(const struct profile *p, struct table *t, struct arena *a)
{
	for (size_t i = 0; i < p->nfailed; i++) {
		table_text(t, failure_label(&p->failed[i], a));
		table_text(t, "failed");
		for (size_t k = 2; k < t->columns; k++)
			table_text(t, "-");
	}
}

/* Returns which columns of the table of latencies matter least, as table.h has it; n is the number of percentiles. */
static const char *latency_ranks(size_t n, bool split, struct arena *a)
{
	char *percentiles = arena_new_n(a, char, n + 1);

	memset(percentiles, '3', n);
	if (n)
		percentiles[0] = '1';
	return arena_printf(a, "0657124%s4%s15", percentiles, split ? "222" : "");
}

/* Makes a table with a line for each point of each record, and for each point that could not be measured. */
void table_latency(struct profile *p, struct table *t, struct arena *a)
{
	const struct floats *want = &p->o->percentile;
	size_t n = (size_t)want->n;
	const char **heads = arena_new_n(a, const char *, n + 16);
	char *align = arena_new_n(a, char, n + 16);
	static const char *const first[] = {"what", "prepare",	 "first run", "runs",
					    "mean", "deviation", "min"},
				 *const parts[] = {"to device", "compute", "to host"};
	bool split = p->o->transfers == TRANSFERS_SPLIT;
	size_t k = 0;

	for (size_t i = 0; i < 7; i++)
		heads[k++] = first[i];
	for (size_t i = 0; i < n; i++)
		heads[k++] = arena_printf(a, "p%g", (double)want->v[i]);
	heads[k++] = "max";
	for (size_t i = 0; i < 3 && split; i++)
		heads[k++] = parts[i];
	heads[k++] = "items/s";
	heads[k++] = "activations";
	memset(align, 'r', k);
	align[0] = 'l';
	table_begin(t, a, heads, align);
	t->ranks = latency_ranks(n, split, a);
	for (size_t i = 0; i < p->nrecords; i++)
		for (size_t j = 0; j < p->record[i]->npoints; j++) {
			const struct record *r = p->record[i];
			const struct record_point *q = &r->point[j];
			struct stats s = stats_of(q->time, q->n);
			double *sorted = stats_sorted(q->time, q->n);
			double items = profile_runs_a_second(q) * q->items;
			table_text(t, point_label(r, q, a));
			table_number(t, q->prepare, seconds(a, q->prepare));
			table_number(t, q->first, seconds(a, q->first));
			table_number(t, (double)q->n, str_count(a, (int64_t)q->n));
			add_latency_cell(p, q, s.mean, t, a);
			table_number(t, s.deviation, percent(a, s.deviation / s.mean));
			add_latency_cell(p, q, s.min, t, a);
			for (size_t m = 0; m < n; m++) {
				double v = sorted ? stats_quantile(sorted, q->n,
								   (double)want->v[m] / 100)
						  : NAN;
				add_latency_cell(p, q, v, t, a);
			}
			add_latency_cell(p, q, s.max, t, a);
			if (split)
				split_cells(r, q, s.median, t, a);
			table_number(t, items, isnan(items) ? "-" : profile_rate(a, items, ""));
			double planned = q->slab + q->device_slab;
			table_number(t, planned, bytes(a, planned));
			free(sorted);
		}
	failed_rows(p, t, a);
}

void table_gate(const struct profile *p, struct table *t, struct arena *a)
{
	static const char *const heads[] = {
		"node", "operator", "baseline p10", "now p10", "at its pace", "change", "", NULL};
	const struct gate_verdict *v = &p->verdict;

	table_begin(t, a, heads, "llrrrrl");
	for (size_t k = 0; k < v->nnodes; k++) {
		const struct gate_node *n = &v->node[k];
		bool both = n->before > 0 && n->now > 0;
		double change = both ? n->now / n->before - 1 : NAN;
		table_text(t, n->name);
		table_text(t, n->op);
		table_number(t, n->before, n->before > 0 ? seconds(a, n->before) : "-");
		table_number(t, n->measured, n->measured > 0 ? seconds(a, n->measured) : "-");
		table_number(t, n->now, n->now > 0 ? seconds(a, n->now) : "-");
		table_number(t, change, both ? arena_printf(a, "%+.1f %%", change * 100) : "-");
		table_text(t, !(n->before > 0) ? "new"
			      : !(n->now > 0)  ? "gone"
			      : n->slower      ? "slower"
					       : "");
	}
}

void table_gate_memory(const struct profile *p, struct table *t, struct arena *a)
{
	static const char *const heads[] = {"memory", "baseline", "now", "change", "", NULL};
	const struct gate_verdict *v = &p->verdict;

	table_begin(t, a, heads, "lrrrl");
	for (size_t k = 0; k < v->nmemory; k++) {
		const struct gate_memory *m = &v->memory[k];
		double change = m->before > 0 ? m->now / m->before - 1 : NAN;
		table_text(t, m->what);
		table_number(t, m->before, bytes(a, m->before));
		table_number(t, m->now, bytes(a, m->now));
		table_number(t, change,
			     isnan(change) ? "-" : arena_printf(a, "%+.1f %%", change * 100));
		table_text(t, m->bigger ? "bigger" : "");
	}
}

bool gate_unknown(const struct profile *p)
{
	const struct gate_verdict *v = &p->verdict;

	return !isnan(p->limits.latency) && !v->slower && (v->busy || v->undecided);
}

const char *gate_word(const struct profile *p)
{
	const struct gate_verdict *v = &p->verdict;

	return v->slower	  ? "Slower"
	       : v->bigger	  ? "Bigger"
	       : !p->gate	  ? "Compared, without a limit"
	       : !gate_unknown(p) ? "No regression"
	       : v->busy	  ? "Not known: the machine is too busy"
				  : "Not known: the measurements do not agree";
}

const char *gate_sentence(const struct profile *p, struct arena *a)
{
	const struct gate_verdict *v = &p->verdict;
	struct str b = {.arena = a};

	if (v->busy)
		str_addf(&b,
			 "tenth percentile of all runs (undisturbed were only %zu of the baseline's and %zu now): %s then, %s now",
			 v->undisturbed_before, v->undisturbed_now, seconds(a, v->before),
			 seconds(a, v->now));
	else
		str_addf(&b,
			 "tenth percentile of undisturbed runs (%zu then, %zu now): %s then, %s now, ratio %.3f (95 %% interval %.3f to %.3f)",
			 v->undisturbed_before, v->undisturbed_now, seconds(a, v->before),
			 seconds(a, v->now), v->ratio.value, v->ratio.low, v->ratio.high);
	if ((v->busy || v->by_work) && !isnan(v->work.value))
		str_addf(&b,
			 "; ratio of the time that threads worked for a run, without waiting and spinning: %.3f (%.3f to %.3f)",
			 v->work.value, v->work.low, v->work.high);
	if (!v->busy && fabs(v->machine_ratio - 1) > 0.005)
		str_addf(&b,
			 "; reference workloads attribute a ratio of %.3f to the machine, which leaves %.3f (%.3f to %.3f)",
			 v->machine_ratio, v->adjusted.value, v->adjusted.low, v->adjusted.high);
	return str_get(&b);
}

/* ---- on a terminal */

/* Draws the histogram of the runs in one line, with block characters of eight heights. */
static void spark_histogram(const double *v, size_t n, struct str *to)
{
	enum { BINS = 40 };
	size_t bin[BINS] = {0}, most = 1;
	double low = stats_quantile_of(v, n, 0), high = stats_quantile_of(v, n, 0.98);

	for (size_t i = 0; i < n && high > low; i++) {
		double at = (v[i] - low) / (high - low) * BINS;
		if (at < BINS)
			bin[(size_t)at]++;
	}
	for (int i = 0; i < BINS; i++)
		most = bin[i] > most ? bin[i] : most;
	for (int i = 0; i < BINS; i++) {
		char block[4] = {(char)0xe2, (char)0x96,
				 (char)(0x80 + (bin[i] * 8 + most - 1) / most), 0};
		str_add(to, bin[i] ? block : " ");
	}
}

/* Draws the course of a series in one line. */
static void spark_line(const double *v, size_t n, struct str *to)
{
	enum { CELLS = 40 };
	double low = stats_quantile_of(v, n, 0), high = stats_quantile_of(v, n, 1);
	size_t cells = n < CELLS ? n : CELLS;

	for (size_t i = 0; i < cells; i++) {
		size_t from = i * n / cells, end = (i + 1) * n / cells;
		double x = stats_quantile_of(v + from, end - from, 0.5);
		int h = high > low ? (int)((x - low) / (high - low) * 7) : 0;
		char block[4] = {(char)0xe2, (char)0x96, (char)(0x81 + h), 0};
		str_add(to, block);
	}
}

static void print_spark(const struct record *r, FILE *f)
{
	struct arena a = {0};
	struct str s = {.arena = &a}, m = {.arena = &a};
	const struct record_point *p = &r->point[0];

	if (p->n < 10)
		return;
	spark_histogram(p->time, p->n, &s);
	fprintf(f, "%-9s %s  %s to %s\n", "", str_get(&s),
		seconds(&a, stats_quantile_of(p->time, p->n, 0)),
		seconds(&a, stats_quantile_of(p->time, p->n, 0.98)));
	if (r->timeline.n > 1) {
		spark_line(r->timeline.rss, r->timeline.n, &m);
		fprintf(f, "%-9s %s  resident, over time\n", "", str_get(&m));
	}
	arena_free(&a);
}

static void print_split(const struct record *r, const struct record_point *q, double median, FILE *f)
{
	struct arena a = {0};

	if (on_cpu(r))
		fprintf(f, "%-9s nothing is copied on the CPU: all of it is compute\n", "split");
	else if (r->nobserved)
		fprintf(f, "%-9s host to device %s, compute %s, device to host %s\n", "split",
			seconds(&a, q->copy_in),
			seconds(&a, fmax(median - q->copy_in - q->copy_out, 0)),
			seconds(&a, q->copy_out));
	arena_free(&a);
}

static void print_one(struct profile *p, const struct record *r, bool terminal, FILE *f)
{
	struct arena a = {0};
	const struct record_point *q = &r->point[0];
	struct stats s = stats_of(q->time, q->n);
	const struct floats *want = &p->o->percentile;

	fprintf(f, "%-9s prepare %s, first run %s\n", "times", seconds(&a, q->prepare),
		seconds(&a, q->first));
	if (q->n) {
		fprintf(f,
			"%-9s median %s, mean %s, deviation %s (%.1f %%), min %s, max %s; %s run%s%s\n",
			"latency", seconds(&a, profile_latency(p, q, s.median)),
			seconds(&a, profile_latency(p, q, s.mean)), seconds(&a, s.deviation),
			s.deviation / s.mean * 100, seconds(&a, profile_latency(p, q, s.min)),
			seconds(&a, profile_latency(p, q, s.max)), str_count(&a, (int64_t)q->n),
			q->n == 1 ? "" : "s", copies(p, q) > 0 ? ", copies left out" : "");
		fprintf(f, "%-9s", "");
		for (int64_t i = 0; i < want->n; i++)
			fprintf(f, "%s p%g %s", i ? "," : "", (double)want->v[i],
				seconds(&a, profile_latency(
						    p, q,
						    stats_quantile_of(q->time, q->n,
								      (double)want->v[i] / 100))));
		fputc('\n', f);
		if (terminal)
			print_spark(r, f);
		fprintf(f, "%-9s %s%s\n", "rate",
			profile_rate(&a, profile_runs_a_second(q), "runs/s"),
			q->items > 1
				? arena_printf(&a, ", %s",
					       profile_rate(&a, profile_runs_a_second(q) * q->items,
							    "items/s"))
				: "");
	}
	if (p->o->transfers == TRANSFERS_SPLIT)
		print_split(r, q, s.median, f);
	const char *work = work_sentence(p, r, &a);
	if (work)
		fprintf(f, "%-9s %s\n", "work", work);
	const char *clocks = clock_sentence(r, &a), *by;
	double joules = profile_energy(r, q, &by);
	if (!isnan(joules))
		fprintf(f, "%-9s %.3g J a run, of everything that ran meanwhile (%s)\n", "energy",
			joules, by);
	if (clocks)
		fprintf(f, "%-9s %s\n", "clocks", clocks);
	arena_free(&a);
}

static double faster_half_mean(const double *v, size_t n)
{
	double limit = stats_quantile_of(v, n, 0.5), sum = 0;
	size_t runs = 0;

	for (size_t k = 0; k < n; k++)
		if (v[k] <= limit) {
			sum += v[k];
			runs++;
		}
	return runs ? sum / (double)runs : NAN;
}

static void print_nodes(struct profile *p, const struct record *r, FILE *f)
{
	struct arena a = {0};
	struct table t;
	double plain = faster_half_mean(r->point[0].time, r->point[0].n);

	if (!p->o->nodes || !r->nobserved)
		return;
	const char *label = record_label(r, &a);
	fprintf(f,
		"\nnodes     %s%sof the faster half of %zu observed runs: %s; the same of plain runs: %s (%+.1f %%)\n",
		label, *label ? ": " : "", r->nobserved, seconds(&a, r->observed),
		seconds(&a, plain), (plain / r->observed - 1) * 100);
	if (r->timed_by && strcmp(r->timed_by, "clock") != 0)
		fprintf(f, "          on the device timed by %s%s%s%s%s\n", r->timed_by,
			r->timed_why ? " (" : "", r->timed_why ? r->timed_why : "",
			r->timed_why ? ")" : "",
			r->held > 0
				? fmt(p->d,
				      "; it was held for %s until a run was queued, which is left out",
				      seconds(&a, r->held))
				: "");
	table_operators(r, &t, &a);
	table_print(&t, "  ", f);
	fputc('\n', f);
	table_nodes(p, r, true, &t, &a);
	table_print(&t, "  ", f);
	arena_free(&a);
}

static void print_memory(const struct record *r, FILE *f)
{
	struct arena a = {0};
	struct table t;

	const char *label = record_label(r, &a), *grown = growth_sentence(r, &a);
	fprintf(f, "\nmemory    %s%s%s\n", label, *label ? ": " : "",
		tame_word(&a, peak_sentence(r, &a)));
	if (grown)
		fprintf(f, "          %s\n", grown);
	table_phases(r, &t, &a);
	table_print(&t, "  ", f);
	table_memory(r, &t, &a);
	if (t.rows)
		table_print(&t, "  ", f);
	arena_free(&a);
}

static void print_gate(struct profile *p, FILE *f)
{
	struct arena a = {0};
	struct table t;

	if (!p->compared)
		return;
	fprintf(f, "\nbaseline  %s: %s\n", gate_word(p), gate_sentence(p, &a));
	table_gate(p, &t, &a);
	if (t.rows)
		fprintf(f, "          p10: tenth percentile of the observed runs, as measured; at its pace: divided by what slowed "
			   "all nodes alike, and compared\n");
	table_print(&t, "  ", f);
	table_gate_memory(p, &t, &a);
	table_print(&t, "  ", f);
	arena_free(&a);
}

/* Prints the inputs, such as "x f32 [1,3,224,224], random values". */
static void print_inputs(const struct profile *p, FILE *f)
{
	const struct options *o = p->o;
	const char *inputs = p->record[0]->id.inputs;

	if (inputs && *inputs && !p->sweep.points && o->noperands == 1)
		fprintf(f, "%-9s %s%s\n", "inputs", inputs,
			o->input.n || o->data_set ? "" : ", random values");
}

static void print_failed(const struct profile *p, FILE *f)
{
	struct arena a = {0};
	size_t n;

	for (size_t i = 0; i < p->nfailed; i++) {
		const char *labels = failure_labels(p, i, &n, &a);
		const char *hint = finding_hint(p->failed[i].finding);
		if (!labels)
			continue;
		fprintf(f, "%s%-9s %s: %s\n", i ? "" : "\n", "failed", labels,
			tame_word(&a, failure_sentence(&p->failed[i], &a)));
		if (*hint)
			fprintf(f, "%-9s hint: %s\n", "", tame_word(&a, hint));
	}
	arena_free(&a);
}

static void print_ranking(const struct profile *p, FILE *f)
{
	struct arena a = {0};
	struct table t;

	table_ranking(p, &t, &a);
	if (t.rows) {
		fprintf(f,
			"\nranking   %s\n          a run: of the fastest the median of its turns' means, of the others that times the ratio\n",
			ranking_sentence(p, &a));
		table_print(&t, "  ", f);
	}
	arena_free(&a);
}

void profile_print(struct profile *p, bool terminal, FILE *f)
{
	struct arena a = {0};
	struct table t;
	bool single = profile_single(p);

	if (!p->nrecords)
		return;
	fprintf(f, "%-9s %s", p->o->noperands > 1 ? "models" : "model", p->o->operand[0]);
	for (size_t i = 1; i < p->o->noperands; i++)
		fprintf(f, ", %s", p->o->operand[i]);
	fprintf(f, "\n%-9s %s\n", "device", profile_head(p, p->record[0], &a));
	print_inputs(p, f);
	if (single && p->record[0]->nphases > 1)
		fprintf(f, "%-9s load %s\n", "", seconds(&a, p->record[0]->phase[1].seconds));
	if (single) {
		print_one(p, p->record[0], terminal, f);
	} else {
		fputc('\n', f);
		table_latency(p, &t, &a);
		table_print(&t, "", f);
		print_ranking(p, f);
		print_failed(p, f);
	}
	for (size_t k = 0; k < p->nrecords; k++) {
		if (p->record[k]->npoints)
			print_nodes(p, p->record[k], f);
		if (single || p->o->verbose)
			print_memory(p->record[k], f);
	}
	print_gate(p, f);
	arena_free(&a);
}
