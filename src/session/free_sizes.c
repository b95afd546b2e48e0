/* SPDX-License-Identifier: Apache-2.0 */
#include "session/free_sizes.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Inputs of more elements are not tried: they would take more memory and time than a search is worth. */
static const int64_t MAX_ELEMENTS = INT64_C(1) << 24;
/* Free dimensions that are wider than need be multiply to no more than this in an input, so that a run takes little longer. */
static const int64_t MAX_WIDE = INT64_C(1) << 14;

enum { MAX_CANDIDATES = 48, MAX_CACHED = 8, MAX_SIDES = 4 };

/* Sizes to try together. */
struct candidate {
	/* CACHED: a decoder's caches get `size` positions, its mask one more, all else has one */
	enum { INNER_DIMS, INNER_DIMS_OF_FIRST, BATCHES, CACHED } which;
	uint32_t mask; /* of CACHED: the input that is taken for it */
	int64_t size;
	int64_t side[MAX_SIDES]; /* sizes of the last free dimensions, such as height and width; 0 for `size` */
	int nsides;
};

bool sizes_are_free(const struct input_request *r)
{
	return !r->input.n && !r->data_set && !r->strict;
}

bool sizes_may_help(const struct diag *why)
{
	/* memory and the limit of --memory-limit are about the size of a run, which larger dimensions only add to */
	return why->last && code_exit(why->last->code) == 3 && why->last->code != E_MEMORY &&
	       why->last->code != E_MEMORY_LIMIT;
}

struct input_set *prepare_inputs_for(struct session *s, const struct input_request *r, struct diag *d)
{
	struct segment_report report;
	struct input_set *set = input_plan(session_model(s), r, d);

	if (set && (input_read(set, d) || session_prepare(s, input_tensors(set), &report, d))) {
		input_free(set);
		set = NULL;
	}
	return set;
}

/* ---- candidates ------------------------------------------------------------------------------- */

/* Reads the numbers of a text such as "[640, 480]". */
static int read_sizes(const char *text, int64_t *v)
{
	int n = 0;

	while (*text && n < MAX_SIDES) {
		char *end;
		int64_t size = strtoll(text, &end, 10);
		if (end == text) {
			text++;
			continue;
		}
		if (size > 0 && size <= 1 << 16)
			v[n++] = size;
		text = end;
	}
	return n;
}

/* Whether an input may be the mask of a decoder, [batch, positions] of integers or bool. */
static bool may_be_mask(const struct value *v)
{
	return v->info.type.kind == V_TENSOR && v->info.shape.rank == 2 &&
	       v->info.shape.dim[1] < 0 && dtype_class((enum dtype)v->info.type.dtype) != DT_FLOAT;
}

/* Adds candidates for a decoder with caches, whose mask has the cached positions and the new one. Returns how many: MAX_CACHED or less. */
static size_t list_caches(const struct graph *g, struct candidate *c)
{
	static const int16_t sizes[] = {1, 15};
	bool caches = false;
	size_t n = 0;

	for (uint32_t i = 0; i < g->nin; i++)
		caches |= g->value[g->in[i]]->info.shape.rank >= 3;
	for (size_t k = 0; caches && k < sizeof(sizes) / sizeof(*sizes); k++)
		for (uint32_t i = 0; i < g->nin && n < MAX_CACHED; i++)
			if (may_be_mask(g->value[g->in[i]]))
				c[n++] = (struct candidate){
					.which = CACHED, .mask = i, .size = sizes[k]};
	return n;
}

static size_t list_candidates(const struct model *m, struct candidate *c)
{
	static const int16_t sizes[] = {8, 32, 48, 64, 128, 224, 256, 512, 576, 640};
	static const int16_t small[] = {2, 3, 4, 5, 6, 7, 8, 16};
	struct candidate image = {.which = INNER_DIMS};
	int64_t stride[MAX_SIDES];
	size_t n = 0;

	/* Ultralytics writes the size that a model was exported for, and what sizes must be multiples of */
	image.nsides = read_sizes(model_metadata(m, "imgsz"), image.side);
	if (image.nsides) {
		image.size = image.side[image.nsides - 1];
		c[n++] = image;
	}
	if (read_sizes(model_metadata(m, "stride"), stride))
		c[n++] = (struct candidate){.which = INNER_DIMS, .size = stride[0]};
	n += list_caches(m->graph, c + n);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		c[n++] = (struct candidate){.which = INNER_DIMS, .size = sizes[i]};
		c[n++] = (struct candidate){.which = INNER_DIMS_OF_FIRST, .size = sizes[i]};
	}
	/* a state of a fixed batch: the batch is the second dimension of a recurrent layer's input */
	for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++) {
		c[n++] = (struct candidate){.which = BATCHES, .size = small[i]};
		c[n++] = (struct candidate){.which = INNER_DIMS, .size = small[i]};
	}
	return n;
}

static bool has_text(const struct texts *t, const char *text)
{
	for (int64_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].s, text))
			return true;
	return false;
}

/* Whether dimension k is a batch: the first of its input, or of the same name as the first dimension of any input. */
static bool is_batch(const struct shape *shapes, uint32_t n, const struct shape *s, int k)
{
	bool same = k == 0;

	for (uint32_t i = 0; i < n && !same; i++)
		same = dim_is_sym(s->dim[k]) && shapes[i].rank > 0 && s->dim[k] == shapes[i].dim[0];
	return same;
}

/* The size of a free dimension of an input, of which `behind` come behind it in the same input. */
static int64_t candidate_size(const struct candidate *c, uint32_t input, int rank, int behind)
{
	int side = c->nsides - behind - 1;

	if (c->which == CACHED)
		return input == c->mask ? c->size + 1 : rank >= 3 ? c->size : 1;
	return side >= 0 && side < c->nsides ? c->side[side] : c->size;
}

/* Adds the text of one dimension, unless another input has bound it by the same name. */
static void add_size(const struct model *m, uint32_t input, int k, int64_t size, struct arena *a,
		     struct texts *dims, struct text *v)
{
	const struct graph *g = m->graph;
	const char *text = arena_printf(a, "%s=%" PRId64,
					input_dim_name(m, g->value[g->in[input]], k, a), size);

	if (!has_text(dims, text))
		v[dims->n++] = (struct text){text, strlen(text)};
}

/* Adds the texts of a candidate to those of the request. Returns false if there are none, or inputs become too large. */
static bool set_sizes(const struct model *m, const struct candidate *c,
		      const struct input_request *r, struct arena *a, struct texts *dims)
{
	const struct graph *g = m->graph;
	struct shape *shapes = arena_new_n(a, struct shape, g->nin + 1);
	struct text *v = arena_new_n(a, struct text, (size_t)r->dim.n + (size_t)g->nin * MAX_RANK);
	bool any = false, batches = c->which == BATCHES;

	for (int64_t i = 0; i < r->dim.n; i++)
		v[i] = r->dim.v[i];
	*dims = (struct texts){v, r->dim.n};
	if (input_shapes(m, r, shapes, NULL))
		return false;
	for (uint32_t i = 0; i < g->nin && !(c->which == INNER_DIMS_OF_FIRST && any); i++) {
		struct shape s = shapes[i];
		int left = 0;
		for (int k = 0; k < s.rank; k++)
			left += s.dim[k] < 0 && is_batch(shapes, g->nin, &s, k) == batches;
		for (int k = 0; k < s.rank; k++) {
			if (shapes[i].dim[k] >= 0 || is_batch(shapes, g->nin, &shapes[i], k) != batches)
				continue;
			s.dim[k] = candidate_size(c, i, s.rank, --left);
			add_size(m, i, k, s.dim[k], a, dims, v);
			any = true;
		}
		int64_t count = 1;
		for (int k = 0; k < s.rank; k++)
			if (s.dim[k] > 0 && (count *= s.dim[k]) > MAX_ELEMENTS)
				return false;
	}
	/* the other dimensions are 1, so that the texts say all that is assumed */
	struct input_request bound = *r;
	bound.dim = *dims;
	if (input_shapes(m, &bound, shapes, NULL))
		return false;
	for (uint32_t i = 0; i < g->nin; i++)
		for (int k = 0; k < shapes[i].rank; k++)
			if (shapes[i].dim[k] < 0)
				add_size(m, i, k, 1, a, dims, v);
	return any;
}

struct input_set *search_sizes(struct session *s, const struct input_request *r, sizes_test *test,
			       void *arg, struct arena *a, const struct input_request **found)
{
	struct candidate c[MAX_CANDIDATES];
	size_t n = list_candidates(session_model(s), c);

	for (size_t i = 0; i < n; i++) {
		struct input_request *one = arena_dup(a, r, sizeof(*r));
		struct diag quiet = {0};
		struct input_set *set = NULL;
		if (set_sizes(session_model(s), &c[i], r, a, &one->dim))
			set = prepare_inputs_for(s, one, &quiet);
		if (set && test && test(arg, set, &quiet)) {
			input_free(set);
			set = NULL;
		}
		diag_free(&quiet);
		if (!set)
			continue;
		*found = one;
		return set;
	}
	return NULL;
}

const char *sizes_as_options(const struct input_request *before, const struct input_request *found,
			     struct arena *a)
{
	struct str b = {.arena = a};

	for (int64_t i = before->dim.n; i < found->dim.n; i++)
		str_addf(&b, "%s--dim %s", b.n ? " " : "", found->dim.v[i].s);
	return str_get(&b);
}

/* ---- after a failure -------------------------------------------------------------------------- */

/* The sizes that nothing gave, which became 1: "batch, x.2". */
static const char *assumed_names(const struct model *m, const struct input_request *r, struct arena *a)
{
	const struct graph *g = m->graph;
	struct shape *shapes = arena_new_n(a, struct shape, g->nin + 1);
	struct str b = {.arena = a};

	if (input_shapes(m, r, shapes, NULL))
		return "";
	for (uint32_t i = 0; i < g->nin; i++)
		for (int k = 0; k < shapes[i].rank; k++) {
			if (shapes[i].dim[k] >= 0)
				continue;
			const char *name = input_dim_name(m, g->value[g->in[i]], k, a);
			if (!b.n || !strstr(str_get(&b), name))
				str_addf(&b, "%s%s", b.n ? ", " : "", name);
		}
	return b.n ? str_get(&b) : "";
}

/* Adds what the search knows to the hint of the failure. */
static void add_failure(const struct diag *why, const char *hint, struct diag *d)
{
	for (const struct finding *f = why->first; f; f = f->next) {
		struct finding copy = *f;
		if (f == why->last && *hint) {
			const char *own = f->hint ? f->hint : "";
			copy.hint = fmt(d, "%s%s%s", own, *own ? "; " : "", hint);
		}
		diag_add(d, &copy);
	}
}

/* The inputs' shapes with the sizes that were found: "x [1,3,64,64]". */
static const char *shapes_found(const struct input_set *set, const struct model *m, struct arena *a)
{
	struct str b = {.arena = a};

	for (uint32_t i = 0; i < input_count(set); i++)
		if (!shape_known(&m->graph->value[m->graph->in[i]]->info.shape))
			str_addf(&b, "%s%s %s", b.n ? ", " : "", input_info(set, i)->name,
				 shape_str(a, &input_info(set, i)->shape, NULL));
	return str_get(&b);
}

/* How sizes of free dimensions follow from those of the given inputs. The first dimension stays as it is, but for `batch`. */
struct change {
	int64_t times,
		batch; /* they are multiplied by `times`, first dimensions by `batch`; 0 for other changes */
	int64_t multiple; /* they are rounded up to a multiple of this number */
	bool odd; /* to an odd multiple three times as large or more, which shows that a multiple of 64 is no constant 64 */
	int axis; /* only this axis gets `size`, and a picture keeps its proportions; 0 for none */
	int64_t size;
};

static int64_t changed_size(const struct change *c, const struct input_info *given, int k)
{
	const int64_t *has = given->shape.dim;

	if (c->times) /* more than MAX_WIDE is not tried anyway */
		return has[k] > MAX_WIDE ? has[k] : has[k] * (k ? c->times : c->batch);
	if (!k)
		return has[k];
	int64_t up = (has[k] + c->multiple - 1) / c->multiple;
	if (!c->axis)
		return (c->odd ? (up | 1) + 2 : up) * c->multiple;
	if (k == c->axis)
		return c->size;
	return given->picture && has[c->axis] ? (has[k] * c->size + has[c->axis] - 1) / has[c->axis]
					      : has[k];
}

/*
 * Generates inputs of the changed sizes, and plans a run for them. *changed says whether any size is another one, and *found becomes the request,
 * with the sizes that it does not bind itself as --dim texts. Returns NULL if the model does not accept these sizes, or they
 * multiply to more than `most` in an input.
 */
static struct input_set *request_changed(struct session *s, const struct input_request *free,
					 const struct input_set *given, const struct change *c,
					 int64_t most, bool *changed, struct arena *a,
					 const struct input_request **found)
{
	const struct model *m = session_model(s);
	const struct graph *g = m->graph;
	struct input_request *one = arena_dup(a, free, sizeof(*free));
	struct shape *bound = arena_new_n(a, struct shape, g->nin + 1);
	struct text *v =
		arena_new_n(a, struct text, (size_t)free->dim.n + (size_t)g->nin * MAX_RANK + 1);
	struct diag quiet = {0};
	int64_t n = free->dim.n, largest = 1;

	*changed = false;
	*found = one;
	if (input_shapes(m, free, bound, NULL))
		return NULL;
	for (int64_t i = 0; i < n; i++)
		v[i] = free->dim.v[i];
	for (uint32_t i = 0; i < g->nin && i < input_count(given); i++) {
		const struct value *x = g->value[g->in[i]];
		const struct input_info *in = input_info(given, i);
		int64_t count = 1;
		for (int k = 0; k < in->shape.rank && k < bound[i].rank; k++) {
			if (bound[i].dim[k] >= 0)
				continue;
			int64_t size = changed_size(c, in, k);
			*changed |= size != in->shape.dim[k];
			count = count > most ? count : count * (size ? size : 1);
			const char *text =
				arena_printf(a, "%s=%" PRId64, input_dim_name(m, x, k, a), size);
			v[n++] = (struct text){text, strlen(text)};
		}
		largest = count > largest ? count : largest;
	}
	one->dim = (struct texts){v, n};
	struct input_set *set = largest <= most ? prepare_inputs_for(s, one, &quiet) : NULL;
	diag_free(&quiet);
	return set;
}

static struct input_set *change_sizes(struct session *s, const struct input_request *free,
				      const struct input_set *given, const struct change *c,
				      bool *changed, struct arena *a)
{
	const struct input_request *found;

	return request_changed(s, free, given, c, MAX_ELEMENTS, changed, a, &found);
}

struct input_set *widen_sizes(struct session *s, const struct input_request *r,
			      const struct input_set *given, sizes_test *test, void *arg,
			      struct arena *a, const struct input_request **found)
{
	struct diag quiet = {0};

	for (int64_t batch = 2; batch >= 1; batch--)
		for (int64_t times = 16; times * batch > 1; times /= 2) {
			const struct change c = {.times = times, .batch = batch};
			bool changed;
			struct input_set *set =
				request_changed(s, r, given, &c, MAX_WIDE, &changed, a, found);
			if (set && changed && !test(arg, set, &quiet)) {
				diag_free(&quiet);
				return set;
			}
			input_free(set);
		}
	diag_free(&quiet);
	return NULL;
}

/*
 * Tries the sizes of the given inputs, rounded up to multiples of 2, 4, ..., 128. Returns inputs that the model accepts,
 * and in *multiple what divides their sizes, or NULL.
 */
static struct input_set *round_given_sizes(struct session *s, const struct input_request *free,
					   const struct input_set *given, int64_t *multiple,
					   struct arena *a)
{
	for (*multiple = 2; *multiple <= 128; *multiple *= 2) {
		bool changed;
		struct input_set *set = change_sizes(
			s, free, given, &(struct change){.multiple = *multiple}, &changed, a);
		struct input_set *odd =
			set && changed
				? change_sizes(s, free, given,
					       &(struct change){.multiple = *multiple, .odd = true},
					       &changed, a)
				: NULL;
		input_free(odd);
		if (odd)
			return set;
		input_free(set);
	}
	return NULL;
}

static bool axis_is_free(const struct model *m, int axis)
{
	const struct graph *g = m->graph;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		if (axis < s->rank && s->dim[axis] < 0)
			return true;
	}
	return false;
}

/*
 * Tries common sizes for one axis of the given inputs at a time: a model that reads lines of text takes one height, and any
 * width. Returns inputs that the model accepts, and their axis, or NULL.
 */
static struct input_set *change_one_axis(struct session *s, const struct input_request *free,
					 const struct input_set *given, int *axis, struct arena *a)
{
	static const int16_t sizes[] = {32, 48, 64, 24, 80, 96, 128, 40, 16, 224, 256, 512, 640};

	for (*axis = 1; *axis < 4; ++*axis)
		for (size_t i = 0;
		     axis_is_free(session_model(s), *axis) && i < sizeof(sizes) / sizeof(*sizes);
		     i++) {
			const struct change c = {.multiple = 1, .axis = *axis, .size = sizes[i]};
			bool changed;
			struct input_set *set = change_sizes(s, free, given, &c, &changed, a);
			if (set)
				return set;
		}
	return NULL;
}

/* Whether the model runs on random values of the given inputs' sizes, so that these sizes are not what it refuses. */
static bool runs_at_given_sizes(struct session *s, const struct input_request *free,
				const struct input_set *given, struct arena *a)
{
	const struct tensor **out =
		arena_new_n(a, const struct tensor *, session_model(s)->graph->nout + 1);
	bool changed = false;
	struct diag quiet = {0};
	struct input_set *set =
		change_sizes(s, free, given, &(struct change){.multiple = 1}, &changed, a);
	bool runs = set && !session_run(s, input_tensors(set), out, &quiet);

	diag_free(&quiet);
	input_free(set);
	return runs;
}

/* Adds the key that resizes a picture to the shape that was found, or one axis of it, if exactly one input is a picture. */
static const char *add_resize(const char *hint, const struct input_set *given,
			      const struct input_set *found, int axis, struct diag *d)
{
	const struct shape *s = NULL;
	size_t pictures = 0;

	for (uint32_t i = 0; i < input_count(given); i++)
		if (input_info(given, i)->picture && input_info(found, i)->shape.rank == 4) {
			s = &input_info(found, i)->shape;
			pictures++;
		}
	if (pictures != 1)
		return hint;
	/* channels first, as long as that axis can be one of channels */
	int h = s->dim[1] <= 4 ? 2 : 1;
	const char *width = axis == h ? "" : fmt(d, "%" PRId64, s->dim[h + 1]);
	const char *height = axis == h + 1 ? "" : fmt(d, "%" PRId64, s->dim[h]);
	return fmt(d, "%s: resize=%sx%s behind the file's name", hint, width, height);
}

/* Searches sizes that the model accepts in place of those of the given inputs. Returns the hint, "" if there are none. */
static const char *other_sizes(struct session *s, const struct input_request *free,
			       const struct input_set *given, struct arena *a, struct diag *d)
{
	static const char refused[] =
		"the model does not accept these sizes of its free dimensions; it accepts";
	const struct input_request *found;
	const char *hint = "", *shapes;
	int64_t multiple = 0;
	int axis = 0;
	struct input_set *set = round_given_sizes(s, free, given, &multiple, a);
	bool rounded = set != NULL;

	set = set ? set : change_one_axis(s, free, given, &axis, a);
	if (!set) {
		axis = 0;
		set = search_sizes(s, free, NULL, NULL, a, &found);
	}
	if (!set)
		return "";
	shapes = shapes_found(set, session_model(s), a);
	hint = rounded ? fmt(d, "%s multiples of %" PRId64 ", such as %s", refused, multiple, shapes)
		       : fmt(d, "%s, for example, %s", refused, shapes);
	hint = add_resize(hint, given, set, axis, d);
	input_free(set);
	return hint;
}

/* For files, whose sizes stand: names shapes that the model accepts, by a search as if no file were given. */
static void explain_given_sizes(struct session *s, const struct input_request *r,
				const struct input_set *given, const struct diag *why,
				struct arena *a, struct diag *d)
{
	static const struct text range = {"0..1", 4};
	struct input_request free = *r;

	free.input = free.dim = free.shape = (struct texts){NULL, 0};
	free.data_set = NULL;
	free.strict = false;
	free.random = (struct texts){&range, 1};
	add_failure(why,
		    runs_at_given_sizes(s, &free, given, a)
			    ? "the model runs on random values of the same shapes: look at the values of the inputs"
			    : other_sizes(s, &free, given, a, d),
		    d);
}

/* Whether fp32 runs the given inputs, which this session, of a smaller type, has refused: their sizes are not to blame. */
static bool runs_in_fp32(const struct session *s, const struct input_set *given, struct arena *a)
{
	const struct graph *g = session_model(s)->graph;
	struct run_config config = *session_config(s);
	int p = config.precision;
	struct diag quiet = {0};
	bool runs = false;

	if (!given || (p != PRECISION_FP16 && p != PRECISION_BF16 && p != PRECISION_FP8))
		return false;
	config.precision = PRECISION_FP32;
	struct session *fp32 = session_open(session_model(s)->path, &config, &quiet);
	if (fp32)
		runs = !session_run(fp32, input_tensors(given),
				    arena_new_n(a, const struct tensor *, g->nout + 1), &quiet);
	session_close(fp32);
	diag_free(&quiet);
	return runs;
}

struct input_set *recover_sizes(struct session *s, const struct input_request *r,
				const struct input_set *given, sizes_test *test, void *arg,
				const struct diag *why, struct arena *a,
				const struct input_request **found, struct diag *d)
{
	const struct model *m = session_model(s);
	struct input_set *set = NULL;
	const char *assumed = sizes_may_help(why) ? assumed_names(m, r, a) : "";

	if (sizes_may_help(why) && runs_in_fp32(s, given, a)) {
		add_failure(why, "with --precision fp32 the model runs on these inputs", d);
	} else if (!*assumed) {
		add_failure(why, "", d);
	} else if (!sizes_are_free(r)) {
		explain_given_sizes(s, r, given, why, a, d);
	} else if ((set = search_sizes(s, r, test, arg, a, found))) {
		diag_drop(d, E_DIM_DEFAULT, SEV_WARNING); /* those that they are taken as 1 */
		WARN(d, E_DIM_DEFAULT,
		     .message = fmt(d,
				    "nothing binds the free dimensions %s, and with 1 for each the model does not run; it runs "
				    "with %s",
				    assumed, shapes_found(set, m, a)),
		     .hint = fmt(d, "bind them with %s", sizes_as_options(r, *found, a)));
	} else if (why->last->code == E_OP_ATTRIBUTE) {
		/* the file itself is at fault: attributes are the same whatever the sizes */
		add_failure(why, "", d);
	} else {
		add_failure(why,
			    fmt(d,
				"nothing gives the sizes of %s, so they were taken as 1, and no other size that was "
				"tried works: give them with --dim NAME=N",
				assumed),
			    d);
	}
	return set;
}
