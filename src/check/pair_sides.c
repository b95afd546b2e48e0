/* SPDX-License-Identifier: Apache-2.0 */
#include "check/pair_sides.h"
#include "base/file.h"
#include "base/str.h"
#include "check/path_precision.h"
#include "session/backends.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool find_word(const char *word, size_t n, const char *const *names, int count, int *out)
{
	for (int i = 0; i < count; i++) {
		if (strlen(names[i]) == n && !memcmp(names[i], word, n)) {
			*out = i;
			return true;
		}
	}
	return false;
}

static bool word_is(const char *word, size_t n, const char *what)
{
	return strlen(what) == n && !memcmp(word, what, n);
}

/*
 * Reads one of the words that a side consists of ("cuda", "cuda:1", "fp16", "none", "noplan") and sets it in *to.
 * Returns the length of the word, or 0 if the text starts with no such word.
 */
static size_t parse_word(struct check_context *c, const char *s, size_t n, struct run_config *to)
{
	static const char *const levels[] = {"none", "basic", "full"};
	size_t one = 0, digits = 0;

	while (one < n && s[one] != ':')
		one++;
	while (one + 1 + digits < n && s[one] == ':' && s[one + 1 + digits] >= '0' &&
	       s[one + 1 + digits] <= '9')
		digits++;
	const char *name = arena_strn(&c->arena, s, one);
	const struct backend *b = backend_named(name, NULL);
	if (b || !strcmp(name, "auto")) {
		size_t all = digits && b && b != host_backend() ? one + 1 + digits : one;
		to->device = arena_strn(&c->arena, s, all);
		return all;
	}
	if (find_word(s, one, precision_names, PRECISION_AUTO, &to->precision) ||
	    find_word(s, one, levels, 3, &to->optimize))
		return one;
	if (!word_is(s, one, "plan") && !word_is(s, one, "noplan"))
		return 0;
	to->memory_plan = word_is(s, one, "plan");
	return one;
}

/* Returns the words with which --compare takes what `s` seems to mean, or NULL. */
static const char *likely_side(struct check_context *c, const char *s)
{
	static const char *const ort[] = {"ort", "onnxrt", "onnx", "onnx-runtime", "onnx_runtime"};

	for (size_t i = 0; i < sizeof(ort) / sizeof(*ort); i++)
		if (!strcasecmp(s, ort[i]))
			return "did you mean 'onnxruntime'?";
	if (access(s, F_OK) == 0 || strpbrk(s, "./"))
		return "compare with a file of expected outputs by --expect FILE";
	if (!strncasecmp(s, "gpu", 3))
		return fmt(c->d, "did you mean '%s'?", backends[FIRST_ACCELERATOR]->name);
	return NULL;
}

static int parse_side(struct check_context *c, const char *s, size_t n, struct pair_side *side)
{
	side->config = *c->config;
	side->name = arena_strn(&c->arena, s, n);
	for (size_t at = 0; at < n;) {
		size_t k = parse_word(c, s + at, n - at, &side->config);
		if (!k)
			return FAIL(
				c->d, E_OPTION, .slot = "--compare",
				.message = fmt(c->d, "'%.*s' is not a way to run a model", (int)n, s),
				.expected =
					"two of cpu, cuda[:N], fp32, tf32, fp16, bf16, fp8, none, basic, "
					"full, plan, noplan, or several of them joined by colons; onnxruntime; or a model, FILE.onnx",
				.hint = likely_side(c, s));
		at += k;
		at += at < n; /* the colon */
	}
	return 0;
}

/*
 * The reference is another model. Both run without optimizations, as only the nodes of their files can correspond to one
 * another.
 */
static void compare_models(struct check_context *c, const char *path, struct pair *p)
{
	p->ref.config = p->got.config = *c->config;
	p->ref.config.optimize = p->got.config.optimize = OPTIMIZE_NONE;
	p->ref.path = p->ref.name = path;
	p->got.name = "this model";
}

bool pair_sides_model(const char *text)
{
	/* a model may come out of a shell's pipe, as <(COMMAND) */
	return path_names_model(text) || !strcmp(path_ext(text), ".json") ||
	       str_starts(text, "/dev/fd/") || !strcmp(text, "/dev/stdin");
}

int pair_sides_parse(struct check_context *c, const char *text, struct pair *p)
{
	if (pair_sides_model(text)) {
		compare_models(c, text, p);
		return 0;
	}
	const char *comma = strchr(text, ',');
	int err = parse_side(c, text, comma ? (size_t)(comma - text) : strlen(text), &p->ref);

	if (!err && comma)
		err = parse_side(c, comma + 1, strlen(comma + 1), &p->got);
	if (err)
		return err;
	if (!comma) {
		p->got.config = *c->config;
		p->got.name = "this run";
		if (c->session && p->ref.config.device &&
		    strcmp(p->ref.config.device, session_device(c->session)) != 0)
			p->got.name = session_device(c->session);
	}
	const struct run_config *a = &p->ref.config, *b = &p->got.config;
	if (a->device && b->device && !strcmp(a->device, b->device) && a->precision == b->precision &&
	    a->optimize == b->optimize && a->memory_plan == b->memory_plan)
		return FAIL(
			c->d, E_OPTION,
			.message = fmt(c->d, "--compare %s: both sides are the same run", text),
			.hint = "name another device, precision, optimization level, plan or noplan");
	return 0;
}

bool pair_sides_ort(const char *text)
{
	return text && !strcmp(text, "onnxruntime");
}

const char *pair_sides_text(const struct check_context *c)
{
	if (c->options->compare || !c->options->all || !c->session)
		return c->options->compare;
	if (strcmp(session_device(c->session), host_backend()->name) != 0)
		return host_backend()->name;
	return c->config->optimize == OPTIMIZE_NONE ? NULL : "none";
}

double pair_sides_limit(const struct check_context *c, const struct pair *p)
{
	/* indexed by enum precision: fp32, tf32, fp16, bf16, fp8, auto */
	static const double least[] = {0, 5e-3, LIMIT_F16, LIMIT_BF16, 5e-2, LIMIT_F16};
	double limit = c->options->rtol;

	for (int i = 0; i < 2; i++) {
		int k = i ? p->got.config.precision : p->ref.config.precision;
		if (k >= 0 && k <= PRECISION_AUTO && least[k] > limit)
			limit = least[k];
	}
	return limit;
}

double pair_sides_output_limit(const struct check_context *c, enum dtype t, double limit)
{
	return c->options->rtol_given ? c->options->rtol : distance_limit(t, path_limit(t, limit));
}

bool pair_sides_output_over(const struct check_context *c, const struct distance *d, enum dtype t,
			    double limit)
{
	/* fp32, whose roundings raise no limit */
	return distance_over(d, DT_F32, pair_sides_output_limit(c, t, limit));
}

const char *pair_sides_output_limit_say(const struct check_context *c, const struct distance *d,
					enum dtype t, double limit)
{
	const char *text = distance_limit_say(c->d, d, t, pair_sides_output_limit(c, t, limit));

	return c->options->rtol_given && !d->text ? fmt(c->d, "%s (--rtol)", text) : text;
}
