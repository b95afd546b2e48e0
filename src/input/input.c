/* SPDX-License-Identifier: Apache-2.0 */
#include "input/input.h"

#include "base/mem.h"
#include "base/str.h"
#include "input/internal.h"
#include "ir/safetensors.h"
#include "input/list.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- names and dimensions */

static int find_input(const struct input_set *s, const char *name)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (!strcmp(s->names[i], name))
			return (int)i;
	return -1;
}

/* Fails if the text names an input that the outputs of --output do not need: "b", "b=FILE", "b:1". */
static int refuse_unneeded_input(const struct model *m, const char *option, struct diag *d)
{
	for (uint32_t i = 0; i < m->nunneeded; i++) {
		size_t n = strlen(m->unneeded[i]);
		if (!strncmp(m->unneeded[i], option, n) && strchr("=:", option[n]))
			return FAIL(d, E_INPUT_NAME, .slot = fmt(d, "%s", option),
				    .message = fmt(d, "none of the outputs of --output needs input '%s'",
						   m->unneeded[i]),
				    .hint = "leave it out, or name an output that needs it");
	}
	return 0;
}

static int report_unknown_input(const struct input_set *s, const char *option, const char *name,
				struct diag *d)
{
	int rc = refuse_unneeded_input(s->model, name, d);

	if (rc)
		return rc;
	const char *near = str_nearest(name, s->names, s->n);
	const char *all = d ? input_names(&d->arena, s->names, s->n) : "";

	return FAIL(d, E_INPUT_NAME, .slot = fmt(d, "%s", option),
		    .message = fmt(d, "the model has no input '%s'", name),
		    .hint = near ? fmt(d, "did you mean '%s'? its inputs are %s", near, all)
				 : fmt(d, "its inputs are %s", all));
}

static const char *symbol_name(const struct input_set *s, int64_t dim)
{
	return dim_is_sym(dim) ? s->model->symbols[DIM_SYM_ID(dim)] : NULL;
}

static const char *dim_name(struct input_set *s, const struct input *in, int i)
{
	return input_dim_name(s->model, in->value, i, &s->arena);
}

/* Replaces a symbolic dimension by its size in the shapes of all inputs. */
static void substitute_symbol(struct input_set *s, int64_t dim)
{
	const struct bound *b = &s->symbol[DIM_SYM_ID(dim)];

	for (const struct place *p = b->places; p; p = p->next)
		if (s->in[p->input].shape.dim[p->axis] == dim)
			s->in[p->input].shape.dim[p->axis] = b->size;
}

/*
 * Binds dimension i of an input to a size; `by` names the origin of the size for messages. Returns
 * false if the dimension already has another size.
 */
static bool bind_dim_size(struct input_set *s, struct input *in, int i, int64_t size, const char *by)
{
	int64_t dim = in->shape.dim[i];

	if (dim >= 0)
		return dim == size;
	if (!dim_is_sym(dim)) {
		in->shape.dim[i] = size;
		return true;
	}
	struct bound *b = &s->symbol[DIM_SYM_ID(dim)];
	b->size = size;
	b->by = by;
	substitute_symbol(s, dim);
	return true;
}

/*
 * Returns the origin of the size to which dimension i is bound, for messages. Returns NULL if the
 * dimension is free or if the model itself fixes its size.
 */
static const char *bound_by(const struct input_set *s, const struct input *in, int i)
{
	int64_t dim = in->value->info.shape.rank < 0 ? 0 : in->value->info.shape.dim[i];

	return dim_is_sym(dim) ? s->symbol[DIM_SYM_ID(dim)].by : NULL;
}

/*
 * Returns the option in the form that messages show: "--dim batch=4", or "x.yaml:7: dim batch=4".
 */
static const char *option_text(struct input_set *s, const char *name, const char *text)
{
	const struct input_request *r = s->request;
	const char *by = r->origin ? r->origin(r->options, name, text) : NULL;

	return arena_printf(&s->arena, "%s%s %s", by ? by : "--", by ? "" : name, text);
}

static int parse_size(const char *text, int64_t *v, const char *option, struct diag *d)
{
	char *end;

	*v = strtoll(text, &end, 10);
	const char *word = strrchr(option, ' ');
	/* 1..8, 1-8 or 1,2,4 */
	bool range = end != text && isdigit((unsigned char)end[strspn(end, ".,-")]);
	if (!*text || *end || *v < 0 || *v > INT64_MAX / 2)
		return FAIL(d, E_DIM, .slot = fmt(d, "%s", option), .message = "wrong size",
			    .expected = fmt(d, "a whole number from 0 to %" PRId64, INT64_MAX / 2),
			    .actual = fmt(d, "'%s'", text),
			    .hint = range && word
					    ? fmt(d,
						  "infer profile MODEL --shapes-sweep%s measures a range of sizes, "
						  "and infer check tries it",
						  word)
					    : NULL);
	return 0;
}

/*
 * Returns the names of all free dimensions, each once, in the form that --dim accepts. Sets *n to
 * their number.
 */
static const char **dim_names(struct input_set *s, size_t *n)
{
	size_t room = s->model->nsymbols;

	*n = 0;
	for (uint32_t k = 0; k < s->n; k++)
		room += (size_t)(s->in[k].shape.rank < 0 ? 0 : s->in[k].shape.rank) * 2;
	const char **names = arena_new_n(&s->arena, const char *, room + 1);
	for (uint32_t k = 0; k < s->n; k++)
		for (int i = 0; i < s->in[k].shape.rank; i++) {
			if (s->in[k].value->info.shape.dim[i] >= 0)
				continue;
			const char *name = dim_name(s, &s->in[k], i);
			size_t seen = 0;
			while (seen < *n && strcmp(names[seen], name))
				seen++;
			if (seen == *n)
				names[(*n)++] = name;
		}
	return names;
}

/*
 * Returns the position of the dimension that the text names ("batch") or counts ("0"), or -1 if
 * there is none.
 */
static int find_dim(const struct input_set *s, const struct input *in, const char *name)
{
	const struct shape *shape = &in->value->info.shape;
	char *end;
	long k = strtol(name, &end, 10);

	for (int i = 0; i < shape->rank; i++) {
		const char *symbol = symbol_name(s, shape->dim[i]);
		if (symbol && !strcmp(symbol, name))
			return i;
	}
	return *name && !*end && k >= 0 && k < shape->rank ? (int)k : -1;
}

/*
 * Returns the axis that a common word for a dimension means in a shape of this rank, or -1: exporters give dimensions names such as
 * "p2o.DynamicDimension.0", and users say "batch".
 */
static int axis_of_word(const char *word, int rank)
{
	static const struct {
		const char *words;
		int axis, least,
			most; /* an axis from the end if it is negative; for shapes of these ranks */
	} rows[] = {
		{" batch batch_size batchsize bs bsz n b ", 0, 1, MAX_RANK},
		{" channels channel c ", 1, 4, 4},
		{" height h ", -2, 4, 4},
		{" width w ", -1, 4, 4},
		{" sequence sequence_length seq seq_len seqlen length tokens time t l ", 1, 2, 3},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t n = strlen(word);
		for (const char *p = rows[i].words; *p; p++)
			if (*p == ' ' && !strncasecmp(p + 1, word, n) && p[1 + n] == ' ' && n &&
			    rank >= rows[i].least && rank <= rows[i].most)
				return rows[i].axis < 0 ? rank + rows[i].axis : rows[i].axis;
	}
	return -1;
}

/* Returns what a common word for a dimension means in this model, or that the dimension is fixed there; or NULL. */
static const char *hint_for_word(struct input_set *s, const char *word, struct diag *d)
{
	const char *fixed = NULL;

	for (uint32_t k = 0; k < s->n; k++) {
		const struct shape *shape = &s->in[k].value->info.shape;
		int axis = axis_of_word(word, shape->rank);
		if (axis < 0)
			continue;
		if (shape->dim[axis] < 0)
			return fmt(d, "for axis %d of input '%s' write %s", axis,
				   s->in[k].info.name, dim_name(s, &s->in[k], axis));
		if (!fixed)
			fixed = fmt(d, "axis %d of input '%s' is fixed by the model: %s", axis,
				    s->in[k].info.name,
				    d ? shape_str(&d->arena, shape, s->model->symbols) : "");
	}
	return fixed;
}

static int report_unknown_dim(struct input_set *s, const char *option, const char *name,
			      struct diag *d)
{
	size_t n;
	const char **names = dim_names(s, &n), *dot = strrchr(name, '.');
	const char *near = str_nearest(name, names, n), *input = NULL;

	if (dot && !near)
		near = str_nearest(dot + 1, names, n);
	if (dot) /* the text is INPUT.NAME, perhaps with a misspelt name of the input */
		input = str_nearest(arena_strn(&s->arena, name, (size_t)(dot - name)), s->names, s->n);
	for (uint32_t k = 0; input && k < s->n; k++)
		if (s->names[k] == input && find_dim(s, &s->in[k], dot + 1) >= 0)
			near = arena_printf(&s->arena, "%s%s", input, dot);
	const char *all = d && n ? fmt(d, "free are: %s", input_names(&d->arena, names, n))
				 : "the model fixes all sizes of its inputs";
	const char *meant = near ? NULL : hint_for_word(s, name, d);

	return FAIL(d, E_DIM, .slot = fmt(d, "%s", option),
		    .message = fmt(d, "the model's inputs have no free dimension '%s'", name),
		    .hint = near    ? fmt(d, "did you mean '%s'? %s", near, all)
			    : meant ? fmt(d, "%s; %s", meant, all)
				    : all);
}

static int bind_dim_option(struct input_set *s, const char *text, struct diag *d)
{
	const char *option = option_text(s, "dim", text), *eq = strrchr(text, '=');
	const char *rest = NULL;
	int64_t size;

	if (!eq || eq == text)
		return FAIL(d, E_DIM, .slot = fmt(d, "%s", option),
			    .message = eq ? "no dimension is named" : "no size is given",
			    .expected = "NAME=N or INPUT.NAME=N", .actual = fmt(d, "'%s'", text));
	const char *name = arena_strn(&s->arena, text, (size_t)(eq - text));
	int rc = parse_size(eq + 1, &size, option, d);
	if (rc)
		return rc;
	int which = spec_name(name, ".", s->names, s->n, &rest), at = -1;
	struct input *in = which >= 0 ? &s->in[which] : NULL;
	if (in)
		at = find_dim(s, in, rest);
	for (uint32_t k = 0; at < 0 && k < s->n; k++)
		for (int i = 0; at < 0 && i < s->in[k].value->info.shape.rank; i++) {
			const char *symbol = symbol_name(s, s->in[k].value->info.shape.dim[i]);
			if (symbol && !strcmp(symbol, name)) {
				in = &s->in[k];
				at = i;
			}
		}
	if (at < 0)
		return report_unknown_dim(s, option, name, d);
	int64_t was = in->shape.dim[at];
	if (bind_dim_size(s, in, at, size, option))
		return 0;
	const char *by = bound_by(s, in, at);
	return FAIL(d, E_DIM, .slot = fmt(d, "%s", option),
		    .message = fmt(d, "dimension %d of input '%s' is %" PRId64 "%s%s", at,
				   in->info.name, was, by ? " by " : " in the model", by ? by : ""));
}

static int bind_shape_option(struct input_set *s, const char *text, struct diag *d)
{
	const char *option = option_text(s, "shape", text), *rest = text;
	int which = spec_name(text, "=:", s->names, s->n, &rest);
	struct shape shape;

	if (which < 0 && s->n == 1 && !strchr(text, '='))
		which = 0;
	if (which < 0)
		return report_unknown_input(s, option,
					    fmt(d, "%.*s", (int)strcspn(text, "="), text), d);
	struct input *in = &s->in[which];
	if (*rest == '[' && rest[strlen(rest) - 1] == ']') /* as polygraphy writes shapes */
		rest = arena_strn(&s->arena, rest + 1, strlen(rest) - 2);
	if (!parse_shape(rest, &shape))
		return FAIL(d, E_DIM, .slot = fmt(d, "%s", option), .message = "this is no shape",
			    .expected = "NAME=1x3x224x224", .actual = fmt(d, "'%s'", rest));
	if (in->shape.rank < 0)
		in->shape = shape;
	bool fits = in->shape.rank == shape.rank;
	for (int i = 0; fits && i < shape.rank; i++) {
		fits = bind_dim_size(s, in, i, shape.dim[i], option);
		const char *by = fits ? NULL : bound_by(s, in, i);
		if (by)
			return FAIL(d, E_DIM, .slot = fmt(d, "%s", option),
				    .message = fmt(d, "dimension %d of input '%s' is %" PRId64 " by %s",
						   i, in->info.name, in->shape.dim[i], by));
	}
	if (fits)
		return 0;
	return FAIL(d, in->shape.rank == shape.rank ? E_INPUT_SHAPE : E_INPUT_RANK,
		    .slot = fmt(d, "%s", option), .message = fmt(d, "input '%s'", in->info.name),
		    .expected = d ? shape_str(&d->arena, &in->value->info.shape, s->model->symbols)
				  : "",
		    .actual = d ? shape_str(&d->arena, &shape, NULL) : "");
}

/*
 * Binds the first dimension of each input to the request's batch, unless --dim or --shape has bound it. Fails if the model fixes the
 * batch of all inputs, or --shape gives all of them another one.
 */
static int bind_batch(struct input_set *s, struct diag *d)
{
	const struct input_request *r = s->request;
	const char *fixed = NULL, *by = "the model";
	bool any = false;

	for (uint32_t i = 0; r->batch > 0 && i < s->n; i++) {
		struct input *in = &s->in[i];
		bool shaped = r->shape.n > 0 && in->shape.rank > 0 && in->value->info.shape.rank > 0 &&
			      in->value->info.shape.dim[0] < 0 && in->shape.dim[0] >= 0;
		if (in->shape.rank < 1)
			continue;
		if (in->shape.dim[0] < 0)
			bind_dim_size(s, in, 0, r->batch, "--batch");
		/* searches for sizes bind dimensions by --dim, which comes first */
		bool free = in->value->info.shape.rank > 0 && in->value->info.shape.dim[0] < 0;
		if (in->shape.dim[0] == r->batch || (free && !shaped)) {
			any = true;
		} else if (!fixed) {
			fixed = in->info.name;
			by = shaped ? "--shape" : "the model";
		}
	}
	if (any || !fixed)
		return 0;
	return FAIL(
		d, E_OPTION, .slot = "--batch",
		.message = fmt(d, "the first dimension of input '%s' is fixed by %s", fixed, by),
		.hint = "export the model with a free batch dimension; infer run --batch N with N files stacks as many as the model takes");
}

static int bind_options(struct input_set *s, struct diag *d)
{
	const struct input_request *r = s->request;
	int rc = 0;

	for (int64_t i = 0; !rc && i < r->dim.n; i++)
		rc = bind_dim_option(s, r->dim.v[i].s, d);
	for (int64_t i = 0; !rc && i < r->shape.n; i++)
		rc = bind_shape_option(s, r->shape.v[i].s, d);
	return rc ? rc : bind_batch(s, d);
}

/* ---- assigning a source to each input */

static struct source *new_source(struct input_set *s, const char *file)
{
	struct source *x = arena_new(&s->arena, struct source);

	x->spec = (struct input_spec){
		.text = file, .file = file, .file_as_given = file, .keys_text = "", .keys = NO_KEYS};
	return x;
}

/*
 * Returns an upper limit on the bytes that are read from a pipe; a longer stream is considered
 * endless. The limit is 256 MiB, for a large picture or other overhead, plus 64 characters of text
 * per element of all inputs. Returns 0 for no limit if a free dimension leaves the number of
 * elements open.
 */
static size_t max_pipe_bytes(const struct input_set *s)
{
	enum { MIN_LIMIT = 256 << 20, CHARS_PER_ELEMENT = 64 };
	size_t most = MIN_LIMIT, one;

	for (uint32_t i = 0; i < s->n; i++) {
		int64_t count = s->in[i].shape.rank < 0 ? -1 : shape_count(&s->in[i].shape);
		if (count < 0 || s->in[i].info.type.kind != V_TENSOR ||
		    s->in[i].info.type.dtype == DT_STRING ||
		    !size_mul((size_t)count, CHARS_PER_ELEMENT, &one) || !size_add(most, one, &most))
			return 0;
	}
	return most;
}

/* Returns how to write what the user gave for an input if it was meant as a value and not as a file. */
static const char *value_hint(const struct input_set *s, const struct source *x, struct diag *d)
{
	const char *file = x->spec.file, *near = NULL;
	/* what has no extension is meant as a value */
	if (d && isalpha((unsigned char)(*path_ext(file) ? path_ext(file)[1] : 0)))
		near = path_near(&d->arena, file, NULL);
	int which = x->spec.name ? find_input(s, x->spec.name) : s->n == 1 ? 0 : -1;

	if (near)
		return fmt(d, "did you mean %s?", near);
	if (str_starts(file, "rand") || !strcmp(file, "dummy"))
		return "--random in place of --input fills the inputs with random values";
	if (which < 0)
		return "check the path; a value in place of a file is a number or JSON in quotes, as --input "
		       "'NAME=[[1,2,3]]'";
	const struct input *in = &s->in[which];
	int rank = in->shape.rank < 0 ? 1 : in->shape.rank < 4 ? in->shape.rank : 4;
	const char *open = &"[[[["[4 - rank], *close = &"]]]]"[4 - rank];
	if (in->info.type.dtype == DT_STRING)
		return fmt(d,
			   "check the path; a text in place of a file is JSON in quotes: --input '%s=%s\"%s\"%s'",
			   in->info.name, open, strpbrk(file, "\"\\'") ? "..." : file, close);
	bool numbers = file[strspn(file, "0123456789.eE+-, ")] == '\0' && strchr(file, ',');
	return fmt(d,
		   "check the path; a value in place of a file is a number or JSON in quotes%s --input '%s=%s%s%s'",
		   numbers ? ":" : ", as", in->info.name, open, numbers ? file : "1,2,3", close);
}

static int open_file(struct input_set *s, struct source *x, struct diag *d)
{
	if (x->spec.literal) {
		double number;
		x->map = (struct file_map){.data = (const unsigned char *)x->spec.file,
					   .size = strlen(x->spec.file)};
		if (x->spec.keys.format < 0)
			x->spec.keys.format =
				sscanf(x->spec.file, "%lf", &number) == 1 ? IO_TEXT : IO_JSON;
		return 0;
	}
	if (x->spec.keys.split >= 0 && s->request->files && s->request->array) {
		x->map = *s->request->array;
		return 0;
	}
	struct opened *o = arena_new(&s->arena, struct opened);
	int rc = file_map_most(x->spec.file, max_pipe_bytes(s), &o->map, E_INPUT_OPEN, d);
	if (rc && d && d->last && !d->last->hint && access(x->spec.file, F_OK))
		d->last->hint = value_hint(s, x, d);

	if (rc)
		return rc;
	o->next = s->opened;
	s->opened = o;
	x->map = o->map;
	return 0;
}

/* How to give an input that is missing, by its name if the model has several. */
static const char *missing_hint(const struct input_set *s, const struct input *in, struct diag *d)
{
	bool scalar = in->info.type.kind == V_TENSOR && in->shape.rank == 0;

	if (s->n == 1)
		return NULL;
	return fmt(d, "give --input %s=%s, or --random to fill it with random values",
		   in->info.name, scalar ? "NUMBER" : "FILE");
}

static int assign_source(struct input_set *s, int which, struct source *x, struct diag *d)
{
	struct input *in = &s->in[which];

	if (in->source)
		return FAIL(d, E_INPUT_NAME,
			    .message = fmt(d, "input '%s' is given twice", in->info.name),
			    .expected = "one file",
			    .actual = fmt(d, "%s and %s", in->source->spec.file, x->spec.file));
	in->how = FROM_FILE;
	in->source = x;
	return 0;
}

static enum io_kind kind_of(const struct source *x)
{
	return x->spec.keys.format >= 0 ? (enum io_kind)x->spec.keys.format
					: io_kind_of(x->spec.file, x->map.data, x->map.size);
}

/* Returns K of a name arr_K, as numpy.savez() calls unnamed arrays, if there is such an input; otherwise -1. */
static int unnamed_array(const struct input_set *s, const char *name)
{
	char *end;

	if (!str_starts(name, "arr_") || !isdigit((unsigned char)name[4]) ||
	    (name[4] == '0' && name[5]))
		return -1;
	unsigned long k = strtoul(name + 4, &end, 10);
	return !*end && k < s->n ? (int)k : -1;
}

/*
 * Assigns the members of an .npz archive to the inputs that have the members' names. If no member has the name of an input, arr_K is
 * assigned to input K.
 */
static int assign_archive_members(struct input_set *s, struct source *x, struct diag *d)
{
	struct zip z;
	int rc = zip_open(x->map.data, x->map.size, x->spec.file, &s->arena, &z, d);
	bool named = false;

	for (size_t i = 0; !rc && i < z.n; i++)
		named |= find_input(s, z.entry[i].name) >= 0;
	for (size_t i = 0; !rc && i < z.n; i++) {
		int which = find_input(s, z.entry[i].name);
		if (which < 0 && !named)
			which = unnamed_array(s, z.entry[i].name);
		if (which < 0 && z.n == 1 && s->n == 1)
			which = 0;
		if (which < 0)
			return report_unknown_input(s, fmt(d, "%s", x->spec.file), z.entry[i].name, d);
		struct source *member = arena_dup(&s->arena, x, sizeof(*x));
		member->member = &z.entry[i];
		rc = assign_source(s, which, member, d);
	}
	return rc;
}

/* Assigns the tensors of a .safetensors file to the inputs that have their names. */
static int assign_tensors(struct input_set *s, struct source *x, struct diag *d)
{
	struct safetensors all;
	int rc = safetensors_head(x->map.data, x->map.size, x->spec.file, E_INPUT_FORMAT, &s->arena,
				  &all, d);

	for (size_t i = 0; !rc && i < all.n; i++) {
		int which = find_input(s, all.list[i].name);
		if (which < 0 && all.n == 1 && s->n == 1)
			which = 0;
		if (which < 0)
			return report_unknown_input(s, fmt(d, "%s", x->spec.file), all.list[i].name,
						    d);
		struct source *tensor = arena_dup(&s->arena, x, sizeof(*x));
		tensor->tensor = &all.list[i];
		rc = assign_source(s, which, tensor, d);
	}
	return rc;
}

/* A list of words behind the model is most likely meant as labels. */
static void suggest_labels(const struct source *x, struct diag *d)
{
	if (d && d->last && d->last->code == E_INPUT_FORMAT && !d->last->hint && !x->spec.literal &&
	    !strcmp(path_ext(x->spec.file), ".txt"))
		d->last->hint = fmt(
			d,
			"a text file as an input holds numbers; for names of classes write --labels %s",
			x->spec.file);
}

static const char only_run[] =
	"infer run takes many inputs; other commands take one: name a file, such as FOLDER/NAME.npy";

/* file: the file to read instead of the one that the text names, or NULL */
static int assign_file(struct input_set *s, const char *text, const char *file, struct diag *d)
{
	struct source *x = arena_new(&s->arena, struct source);
	int rc = refuse_unneeded_input(s->model, text, d);

	rc = rc ? rc : spec_parse(text, s->names, s->n, &x->spec, &s->arena, d);
	if (!rc && file)
		x->spec.listed_by = x->spec.file;
	if (!rc && file)
		x->spec.file = x->spec.file_as_given = file, x->spec.literal = false;
	if (!rc && x->spec.keys.split >= 0 && !s->request->files)
		return FAIL(d, E_INPUT_KEY, .message = "split= makes many inputs of one array",
			    .actual = fmt(d, "'%s'", text), .hint = only_run);
	rc = rc ? rc : open_file(s, x, d);
	if (rc && d && d->last && !s->request->files && input_text_names_many(text))
		d->last->hint = only_run;
	if (rc)
		return rc;
	if (x->spec.name)
		return assign_source(s, find_input(s, x->spec.name), x, d);
	if (kind_of(x) == IO_NPZ)
		return assign_archive_members(s, x, d);
	if (kind_of(x) == IO_SAFETENSORS && !x->spec.member)
		return assign_tensors(s, x, d);
	if (s->n == 1)
		return assign_source(s, 0, x, d);
	/* many save a file for each input under the input's name */
	const char *stem = path_base(x->spec.file);
	int named = find_input(s, arena_strn(&s->arena, stem, strlen(stem) - strlen(path_ext(stem))));
	return FAIL(d, E_INPUT_NAME,
		    .message = fmt(d, "'%s' does not say which input it is for", x->spec.file),
		    .hint = s->n ? fmt(d, "write --input %s=%s; the model's inputs are %s",
				       named >= 0 ? s->names[named] : "NAME", text,
				       d ? input_names(&d->arena, s->names, s->n) : "")
				 : "the model has no inputs");
}

/*
 * Returns the file of input i in a --data-set folder: input_K.pb as in ONNX's test cases, or
 * input_K.npy if only that file exists.
 */
static struct source *data_set_source(struct input_set *s, uint32_t i)
{
	const char *dir = s->request->data_set;
	const uint32_t *places = s->model->graph->in_place, place = places ? places[i] : i;
	const char *pb =
		path_join(&s->arena, dir, arena_printf(&s->arena, "input_%" PRIu32 ".pb", place));
	const char *npy =
		path_join(&s->arena, dir, arena_printf(&s->arena, "input_%" PRIu32 ".npy", place));
	bool other = access(pb, F_OK) != 0 && access(npy, F_OK) == 0;
	struct source *x = new_source(s, other ? npy : pb);

	x->spec.keys.format = other ? IO_NPY : IO_PB;
	return x;
}

static int assign_data_set(struct input_set *s, struct diag *d)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->in[i].how != FROM_NOWHERE)
			continue;
		struct source *x = data_set_source(s, i);
		int rc = open_file(s, x, d);
		if (rc) {
			if (d && d->last)
				d->last->slot = fmt(d, "input '%s'", s->in[i].info.name);
			return rc;
		}
		assign_source(s, (int)i, x, d);
	}
	return 0;
}

/* Returns how --random takes what the user seems to mean by a text that is no range: "0,1", "[-1,1]", "5", "normal"; or NULL. */
static const char *range_hint(const char *text, const char *rest, struct diag *d)
{
	int name = (int)(rest - text);
	const char *p = *rest == '[' || *rest == '(' ? rest + 1 : rest;
	char *end;
	double lo = strtod(p, &end), hi;

	if (end == p) {
		bool zeros = !strncasecmp(rest, "zero", 4), ones = !strncasecmp(rest, "one", 3);
		if (zeros || ones)
			return fmt(d, "--random %.*s%d..%d fills in %ss", name, text, ones, ones,
				   ones ? "one" : "zero");
		bool named = !strncasecmp(rest, "norm", 4) || !strncasecmp(rest, "gauss", 5) ||
			     !strncasecmp(rest, "uniform", 7);
		return named ? "random values are uniform between two numbers: --random -1..1" : NULL;
	}
	p = end;
	while (*p == ' ')
		p++;
	if (!*p)
		return fmt(d, "--random %.*s%g..%g fills in this number", name, text, lo, lo);
	if (!strchr(",:-;", *p))
		return NULL;
	hi = strtod(++p, &end);
	bool whole = end != p && (!*end || !strcmp(end, "]") || !strcmp(end, ")"));
	return whole && lo <= hi ? fmt(d, "write --random %.*s%g..%g", name, text, lo, hi) : NULL;
}

static int assign_random(struct input_set *s, struct diag *d)
{
	const struct input_request *r = s->request;

	/* Ranges for one input (pass 0) take precedence over those for all inputs (pass 1). */
	for (int pass = 0; pass < 2; pass++)
		for (int64_t i = 0; i < r->random.n; i++) {
			const char *text = r->random.v[i].s, *rest = text;
			const char *option = option_text(s, "random", text);
			int which = spec_name(text, "=:", s->names, s->n, &rest);
			struct range range = {.named = which >= 0};
			if (which < 0 && strchr(text, '='))
				return report_unknown_input(
					s, option, fmt(d, "%.*s", (int)strcspn(text, "="), text), d);
			if (!parse_range(rest, &range.lo, &range.hi))
				return FAIL(d, E_INPUT_KEY, .slot = fmt(d, "%s", option),
					    .message = "this is no range of numbers",
					    .expected = "[NAME=]LO..HI, LO not above HI",
					    .actual = fmt(d, "'%s'", text),
					    .hint = find_input(s, text) < 0
							    ? range_hint(text, rest, d)
							    : fmt(d, "write --random %s=0..1", text));
			if ((which >= 0) != (pass == 0))
				continue;
			for (uint32_t k = 0; k < s->n; k++)
				if ((which < 0 || k == (uint32_t)which) &&
				    s->in[k].how == FROM_NOWHERE) {
					s->in[k].how = FROM_RANDOM;
					s->in[k].range = range;
				}
		}
	return 0;
}

/* Inputs that are derived from the number of positions need no source, and may have none. */
static int assign_derived(struct input_set *s, struct diag *d)
{
	const struct steps *steps = s->request->steps;

	for (uint32_t k = 0; steps && k < steps->nderive; k++) {
		const struct derive *x = &steps->derive[k];
		struct input *in = &s->in[x->in];
		if (in->source)
			return FAIL(d, E_STEPS,
				    .message = fmt(
					    d, "input '%s' is derived in each step, and also given",
					    in->info.name),
				    .expected = fmt(d, "--derive %s=%s or a file", in->info.name,
						    derive_word(x->rule)),
				    .actual = fmt(d, "%s", in->source->spec.file));
		in->how = FROM_POSITIONS;
	}
	return 0;
}

/* A state that has no source begins with zeros. */
static void assign_states(struct input_set *s)
{
	const struct steps *steps = s->request->steps;

	for (uint32_t k = 0; steps && k < steps->nfeed; k++) {
		struct input *in = &s->in[steps->feed[k].in];
		if (in->how == FROM_NOWHERE && in->info.type.kind == V_TENSOR)
			in->how = FROM_ZEROS;
	}
}

/*
 * If the text came from a configuration file, adds the file's name and the line to the newest
 * finding.
 */
static void add_config_line(struct input_set *s, const char *text, struct diag *d)
{
	const struct input_request *r = s->request;
	const char *by = r->origin ? r->origin(r->options, "input", text) : NULL;

	if (by && *by != '-' && !d->last->slot)
		d->last->slot = fmt(d, "%s", by);
}

static int assign_all(struct input_set *s, struct diag *d)
{
	const struct input_request *r = s->request;
	int rc = 0;

	for (int64_t i = 0; i < r->input.n; i++) {
		const struct finding *last = d ? d->last : NULL;
		int one = assign_file(s, r->input.v[i].s, r->files ? r->files[i] : NULL, d);
		if (one && d && d->last != last)
			add_config_line(s, r->input.v[i].s, d);
		rc = rc ? rc : one; /* go on, so that every unusable file is reported */
	}
	rc = rc ? rc : assign_derived(s, d);
	if (!rc && r->data_set)
		rc = assign_data_set(s, d);
	if (!rc)
		assign_states(s);
	if (!rc)
		rc = assign_random(s, d);
	bool given = !rc;
	for (uint32_t i = 0; given && i < s->n; i++)
		if (s->in[i].how == FROM_NOWHERE)
			rc = FAIL(d, E_INPUT_MISSING,
				  .slot = fmt(d, "input '%s'", s->in[i].info.name),
				  .expected = fmt(
					  d, "%s %s", type_str(&s->arena, s->in[i].info.type),
					  shape_str(&s->arena, &s->in[i].shape, s->model->symbols)),
				  .actual = "nothing", .hint = missing_hint(s, &s->in[i], d));
	return rc;
}

/* ---- checking the files against the model */

static struct want want_of(const struct input *in)
{
	return (struct want){
		.name = in->info.name, .dtype = (enum dtype)in->info.type.dtype, .shape = in->shape};
}

/*
 * If the file does not fit because an option or another input has bound a symbolic dimension to
 * another size, adds that size and its origin to the mismatch.
 */
static void explain_by_binding(struct input_set *s, const struct input *in, struct mismatch *m,
			       struct diag *d)
{
	const struct shape *file = &m->fit->shape;

	if (file->rank != in->shape.rank)
		return;
	for (int i = 0; i < file->rank; i++) {
		const char *by = bound_by(s, in, i);
		if (by && file->dim[i] != in->shape.dim[i]) {
			m->because_label = fmt(d, "%s", dim_name(s, in, i));
			m->because = fmt(d, "%" PRId64 ", by %s", in->shape.dim[i], by);
			return;
		}
	}
}

static int report_mismatch(struct input_set *s, struct input *in, const struct want *w, struct diag *d)
{
	struct mismatch m = {
		.model = s->model, .want = w, .source = in->source, .fit = &in->fit, .named = s->n > 1};

	explain_by_binding(s, in, &m, d);
	return input_explain(&m, d);
}

static const char *source_text(struct input_set *s, const struct input *in)
{
	const struct source *x = in->source;
	const struct fit *f = &in->fit;
	struct str b = {.arena = &s->arena};

	str_add(&b, !strcmp(x->spec.file, "-") ? "standard input" : x->spec.file);
	if (x->member)
		str_addf(&b, " (%s)", x->member->name);
	if (x->tensor)
		str_addf(&b, " (%s)", x->tensor->name);
	if (x->item.picture)
		str_addf(&b, " (%s, %" PRId64 " x %" PRId64 ")", x->item.picture,
			 x->item.shape.dim[1], x->item.shape.dim[0]);
	if (x->item.kind == IO_SOUND)
		str_addf(&b, " (%s, %" PRId64 " Hz, %d channel%s, %.4g s%s)", x->item.sound.format,
			 x->item.sound.file_rate, x->item.sound.file_channels,
			 x->item.sound.file_channels == 1 ? "" : "s",
			 (double)x->item.sound.taken / (double)x->item.sound.file_rate,
			 x->item.sound.channels < x->item.sound.file_channels ? ", mixed to mono"
									      : "");
	if (x->item.kind == IO_SOUND && x->item.sound.rate != x->item.sound.file_rate)
		str_addf(&b, ", resampled to %" PRId64 " Hz", x->item.sound.rate);
	if (f->pixels && (f->src.w != f->dst.w || f->src.h != f->dst.h))
		str_addf(&b, ", resized to %" PRId64 " x %" PRId64, f->dst.w, f->dst.h);
	if (in->info.type.kind == V_TENSOR && f->from != (enum dtype)in->info.type.dtype)
		str_addf(&b, ", from %s", dtype_name(f->from));
	return str_get(&b);
}

/*
 * Binds free dimensions to the file's sizes. Reports a size that was computed from the length of a
 * raw file.
 */
static void bind_dims_of_file(struct input_set *s, struct input *in, struct diag *d)
{
	const char *by =
		arena_printf(&s->arena, "input '%s' (%s)", in->info.name, in->source->spec.file);

	if (in->shape.rank < 0)
		in->shape = in->fit.shape;
	for (int i = 0; i < in->shape.rank; i++) {
		if (in->shape.dim[i] >= 0)
			continue;
		if (in->fit.derived == i)
			NOTE(d, E_DIM,
			     .message = fmt(d, "%s = %" PRId64 ", from the size of %s",
					    dim_name(s, in, i), in->fit.shape.dim[i],
					    in->source->spec.file));
		bind_dim_size(s, in, i, in->fit.shape.dim[i], by);
	}
	in->info.shape = in->shape;
}

/*
 * Refuses an empty file, and files of foreign formats (a PDF, an archive) that would otherwise be
 * read as raw elements.
 */
static int refuse_foreign_file(const struct input *in, const struct source *x, struct diag *d)
{
	enum io_kind kind = x->member ? IO_NPZ : kind_of(x);
	const char *name = !strcmp(x->spec.file, "-") ? "standard input" : x->spec.file;
	const struct io_foreign *f = NULL;

	if (!x->map.size && kind != IO_RAW && kind != IO_TEXT && in->info.type.kind == V_TENSOR)
		return FAIL(d, E_INPUT_FORMAT, .message = fmt(d, "%s: the file is empty", name),
			    .expected = io_kind_name(kind), .actual = "0 bytes");
	if (kind == IO_RAW && x->spec.keys.format < 0)
		f = io_foreign(x->map.data, x->map.size);
	if (f)
		return FAIL(d, E_INPUT_FORMAT,
			    .message = fmt(d, "%s is %s, no bare elements", name, f->what),
			    .hint = fmt(d, "%s; format=raw takes its bytes as they are", f->cure));
	return 0;
}

/*
 * Warns of a scale, mean and deviation that do not belong together, such as ImageNet's mean of values from 0 to 1 with pixels
 * from 0 to 255, or the other way round. The run succeeds then, and its results are wrong without any other sign of it.
 */
static void doubt_mean(const struct source *x, const char *name, struct diag *d)
{
	const double FULL = 300,
		     MIXED = 16; /* FULL: above the pixels of any training; MIXED: between scales of 0..1 and 0..255 */
	const struct arithmetic *m = &x->spec.keys.math;
	double largest = (x->item.dtype == DT_U16 ? 65535 : 255) * m->scale, mean = 0, std = 0;
	const char *message = NULL, *hint = NULL;

	if (x->item.kind != IO_IMAGE || dtype_class(x->item.dtype) == DT_FLOAT)
		return;
	for (int i = 0; i < m->nmean; i++)
		mean = fmax(mean, fabs(m->mean[i]));
	for (int i = 0; i < m->nstd; i++)
		std = fmax(std, fabs(m->std[i]));
	if (m->scale != 1 && largest > FULL) {
		message = fmt(d, "the scale makes the largest pixel %g", largest);
		hint = "scale=1/255 divides by 255";
	} else if (largest > MIXED && (mean > 0 || std > 0) && mean < 1 && std < 1) {
		message = fmt(
			d,
			"the mean and the deviation look like those of values from 0 to 1, but the pixels reach %g",
			largest);
		hint = "add scale=1/255, which comes before mean= and std=";
	} else if (largest < MIXED && mean > MIXED) {
		message = fmt(
			d,
			"the mean and the deviation look like those of pixels from 0 to 255, but scale= makes the largest %g",
			largest);
		hint = "leave scale= out, or divide mean= and std= by 255";
	}
	if (message)
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", name), .message = message,
		     .hint = hint);
}

/*
 * Warns of a scale that leaves an integer input, such as that of a model which takes pixels as they are, with no values but 0
 * and 1.
 */
static void doubt_scale(const struct source *x, const struct input *in, struct diag *d)
{
	const struct arithmetic *m = &x->spec.keys.math;
	enum dtype t = (enum dtype)in->info.type.dtype;

	if (x->item.kind == IO_IMAGE && x->item.dtype == DT_U8 && dtype_class(t) != DT_FLOAT &&
	    !m->nstd && m->scale > 0 && 255 * m->scale <= 1)
		WARN(d, E_INPUT_RANGE, .slot = fmt(d, "input '%s'", in->info.name),
		     .message = fmt(
			     d, "scale=%g leaves its elements, which are of type %s, no values but 0 and 1",
			     m->scale, dtype_name(t)),
		     .hint = "leave scale= out: such a model takes the pixels as they are");
}

/* Tells of the channels of a sound that become the batch of a model which takes [batch,samples], as those of speech do. */
static void doubt_channels(struct input_set *s, const struct source *x, const struct input *in,
			   struct diag *d)
{
	const struct shape *declared = &in->value->info.shape;

	if (x->item.kind == IO_SOUND && x->item.sound.channels > 1 && declared->rank == 2 &&
	    declared->dim[0] < 0)
		NOTE(d, E_INPUT_LAYOUT, .slot = fmt(d, "input '%s'", in->info.name),
		     .message = fmt(d, "the %d channels of %s are taken as its first axis, %s = %d",
				    x->item.sound.channels, x->spec.file, dim_name(s, in, 0),
				    x->item.sound.channels),
		     .hint = fmt(d, "for their mean add the key mono behind the file: --input %s=%s,mono",
				 in->info.name, x->spec.file));
}

static int plan_file(struct input_set *s, struct input *in, struct diag *d)
{
	struct source *x = in->source;
	const char *what = !strcmp(x->spec.file, "-") ? "standard input" : x->spec.file;
	int rc = refuse_foreign_file(in, x, d);

	if (rc)
		return rc;
	rc = source_head(x, x->member ? IO_NPZ : kind_of(x), what, in->info.name, in->info.type,
			 &s->arena, d);
	if (rc)
		suggest_labels(x, d);
	if (!rc && x->spec.keys.split >= 0 && s->request->files && s->request->part >= 0)
		rc = source_slice(x, x->spec.keys.split, s->request->part, what, &s->arena, d);
	if (rc)
		return rc;
	if (in->info.type.kind != V_TENSOR) {
		bool maps = text_holds_maps(in->info.type);
		if (x->item.kind != IO_PB && !(maps && x->item.kind == IO_JSON))
			return FAIL(d, E_INPUT_FORMAT, .slot = fmt(d, "input '%s'", in->info.name),
				    .message = fmt(d, "it is a %s, which only a .pb %s",
						   type_str(&s->arena, in->info.type),
						   maps ? "or .json file holds" : "file holds"),
				    .expected = maps ? "a .pb or .json file" : "a .pb file",
				    .actual = io_kind_name(x->item.kind));
		in->info.source = source_text(s, in);
		return 0;
	}
	struct want w = want_of(in);
	bool odd = x->item.kind == IO_RAW && x->spec.keys.format != IO_RAW && x->item.bytes >= 10 &&
		   !memcmp(x->item.data, "\x93NUMPY", 6);
	if (input_fit(&w, &x->item, &x->spec.keys, &in->fit) || odd) {
		in->fit.code = in->fit.code ? in->fit.code : E_INPUT_FORMAT;
		return report_mismatch(s, in, &w, d);
	}
	bind_dims_of_file(s, in, d);
	in->info.source = source_text(s, in);
	in->info.bare = x->item.kind == IO_RAW && !in->fit.pixels && !in->fit.convert;
	in->info.picture = x->item.kind == IO_IMAGE;
	doubt_mean(x, in->info.name, d);
	doubt_scale(x, in, d);
	doubt_channels(s, x, in, d);
	in->info.as_stored = x->spec.keys.as_stored;
	if (in->info.picture && x->item.shape.rank >= 2) {
		in->info.picture_height = x->item.shape.dim[0];
		in->info.picture_width = x->item.shape.dim[1];
	}
	in->info.file = x->spec.file;
	in->info.keys = x->spec.keys_text;
	in->info.letterbox = x->spec.keys.resize.given && x->spec.keys.resize.letterbox;
	in->info.bgr = x->spec.keys.order == ORDER_BGR;
	in->info.mean = x->spec.keys.math.nmean == 3 ? x->spec.keys.math.mean : NULL;
	return 0;
}

/*
 * Binds to 1 the dimensions that are still free; with --strict that is an error. A batch of one is what everybody expects, so only for
 * others there is a warning.
 */
static int bind_free_dims_to_one(struct input_set *s, struct input *in, struct diag *d)
{
	if (in->shape.rank < 0)
		return FAIL(d, E_DIM, .slot = fmt(d, "input '%s'", in->info.name),
			    .message = "the model leaves even its rank open",
			    .hint = fmt(d, "give --shape %s=...", in->info.name));
	for (int i = 0; i < in->shape.rank; i++) {
		if (in->shape.dim[i] >= 0)
			continue;
		const char *name = dim_name(s, in, i),
			   *hint = fmt(d, "bind it with --dim %s=N", name);
		const char *text =
			fmt(d, "nothing binds the free dimension '%s' of input '%s'%s", name,
			    in->info.name, s->request->strict ? "" : "; it is taken as 1");
		if (s->request->strict)
			return FAIL(d, E_DIM_DEFAULT, .message = text, .hint = hint);
		if (i || in->shape.rank < 2)
			WARN(d, E_DIM_DEFAULT, .message = text, .hint = hint);
		bind_dim_size(s, in, i, 1, "default");
	}
	return 0;
}

static int plan_random(struct input_set *s, struct input *in, struct diag *d)
{
	if (in->info.type.kind != V_TENSOR)
		return FAIL(d, E_INPUT_MISSING, .slot = fmt(d, "input '%s'", in->info.name),
			    .message = fmt(d, "random values of type %s are not supported",
					   type_str(&s->arena, in->info.type)),
			    .hint = "give it as a .pb file");
	int rc = bind_free_dims_to_one(s, in, d);
	if (rc)
		return rc;
	random_choose(&in->range, s->model->graph, in->value);
	in->info.made_up = true;
	in->info.arbitrary = random_is_arbitrary(&in->range, (enum dtype)in->info.type.dtype);
	in->info.shape = in->shape;
	in->info.source = random_text(&in->range, s->request->seed, (enum dtype)in->info.type.dtype,
				      &s->arena);
	return 0;
}

/*
 * The first state without a file is zero. An axis whose name says that it grows (past_sequence_length) begins with
 * none; other free axes are 1 as usual.
 */
static int plan_zeros(struct input_set *s, struct input *in, struct diag *d)
{
	for (int i = 0; i < in->shape.rank; i++) {
		const char *name = in->shape.dim[i] < 0 ? dim_name(s, in, i) : "";
		const char *dot = strrchr(name, '.');
		if (in->shape.dim[i] < 0 && !dot && steps_grows_by_name(name))
			bind_dim_size(s, in, i, 0, "an empty first state");
	}
	int rc = bind_free_dims_to_one(s, in, d);
	if (rc)
		return rc;
	in->info.shape = in->shape;
	in->info.source = shape_count(&in->shape) ? "zeros in the first step, then fed"
						  : "empty in the first step, then fed";
	return 0;
}

/* Returns the size of the first axis of the input that the steps make longer, which is the batch. */
static int64_t batch_size(const struct input_set *s)
{
	const struct steps *steps = s->request->steps;
	const struct shape *shape = steps->nnext    ? &s->in[steps->next->in].shape
				    : steps->nslice ? &s->in[steps->slice->in].shape
						    : NULL;

	return shape && shape->rank > 1 && shape->dim[0] >= 0 ? shape->dim[0] : 1;
}

/* The shapes of inputs that the steps make follow from the positions of the first step. */
static int plan_positions(struct input_set *s, uint32_t i, struct diag *d)
{
	const struct steps *steps = s->request->steps;
	struct input *in = &s->in[i];
	const struct shape **shapes = arena_new_n(&s->arena, const struct shape *, s->n + 1);

	for (uint32_t k = 0; k < s->n; k++)
		shapes[k] = &s->in[k].shape;
	if (in->shape.rank < 0)
		return bind_free_dims_to_one(s, in, d);
	enum derive_rule rule = steps_derive_of(steps, i)->rule;
	in->at = steps_first(steps, s->model->graph, shapes);
	struct shape shape = derive_shape(rule, &in->shape, in->at, batch_size(s));
	for (int k = 0; k < shape.rank; k++)
		bind_dim_size(s, in, k, shape.dim[k], "--derive");
	in->info.shape = in->shape;
	in->info.source = arena_printf(&s->arena, "derived: %s", derive_text(rule));
	return 0;
}

/*
 * Returns true if the file states its shape. Such files are planned first, because their sizes bind
 * dimensions for raw files and text.
 */
static bool states_shape(const struct input *in)
{
	enum io_kind k = kind_of(in->source);

	return in->source->member || k == IO_NPY || k == IO_NPZ || k == IO_SAFETENSORS ||
	       k == IO_PB || k == IO_IMAGE || k == IO_SOUND || k == IO_JSON ||
	       in->source->spec.keys.shape.rank >= 0;
}

/*
 * Plans the inputs in passes: files that state their shape, other files, random values, first states, and what
 * follows from the sizes of all these. rc: result of the earlier steps. After an error, files are still checked, so
 * that every fault is reported, but nothing else is planned.
 */
static int plan_all(struct input_set *s, int rc, struct diag *d)
{
	for (int pass = 0; pass < 5; pass++)
		for (uint32_t i = 0; i < s->n; i++) {
			struct input *in = &s->in[i];
			int one = 0;
			if (in->how == FROM_FILE && pass == !states_shape(in))
				one = plan_file(s, in, d);
			else if (in->how == FROM_RANDOM && pass == 2 && !rc)
				one = plan_random(s, in, d);
			else if (in->how == FROM_ZEROS && pass == 3 && !rc)
				one = plan_zeros(s, in, d);
			else if (in->how == FROM_POSITIONS && pass == 4 && !rc)
				one = plan_positions(s, i, d);
			rc = rc ? rc : one;
		}
	return rc;
}

/* Enters the symbolic dimensions of input k in the lists of their symbols. */
static void note_symbols(struct input_set *s, uint32_t k)
{
	const struct shape *shape = &s->in[k].shape;

	for (int i = 0; i < shape->rank; i++) {
		if (!dim_is_sym(shape->dim[i]))
			continue;
		struct bound *b = &s->symbol[DIM_SYM_ID(shape->dim[i])];
		struct place *p = arena_new(&s->arena, struct place);
		*p = (struct place){k, i, b->places};
		b->places = p;
	}
}

/*
 * The axis along which an input is cut may have any size in the file, even if the model fixes it. Where the model
 * names this axis, all its inputs have the size of a piece there.
 */
static void loosen_slices(struct input_set *s)
{
	const struct steps *steps = s->request->steps;

	for (uint32_t k = 0; steps && k < steps->nslice; k++) {
		const struct slice *x = &steps->slice[k];
		struct shape *shape = &s->in[x->in].shape;
		int64_t dim = shape->dim[x->axis];
		shape->dim[x->axis] = DIM_UNKNOWN;
		if (!dim_is_sym(dim) || s->symbol[DIM_SYM_ID(dim)].size >= 0)
			continue;
		s->symbol[DIM_SYM_ID(dim)].size = x->size;
		s->symbol[DIM_SYM_ID(dim)].by = "--slice";
		substitute_symbol(s, dim);
	}
}

static struct input_set *new_set(const struct model *m, const struct input_request *r)
{
	struct arena a = {0};
	struct input_set *s = arena_new(&a, struct input_set);
	const struct graph *g = m->graph;

	s->arena = a;
	s->model = m;
	s->request = r;
	s->n = g->nin;
	s->in = arena_new_n(&s->arena, struct input, s->n + 1);
	s->tensors = arena_new_n(&s->arena, const struct tensor *, s->n + 1);
	s->names = arena_new_n(&s->arena, const char *, s->n + 1);
	s->symbol = arena_new_n(&s->arena, struct bound, m->nsymbols + 1);
	for (uint32_t i = 0; i < m->nsymbols; i++)
		s->symbol[i].size = -1;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct value *v = g->value[g->in[i]];
		struct input *in = &s->in[i];
		in->value = v;
		in->shape = v->info.shape;
		if (r->single && r->single[i] && in->shape.rank > 0 && in->shape.dim[0] > 1)
			in->shape.dim[0] = 1;
		in->info = (struct input_info){
			.name = v->name, .type = v->info.type, .shape = v->info.shape};
		s->names[i] = v->name;
		note_symbols(s, i);
	}
	loosen_slices(s);
	return s;
}

struct input_set *input_plan(const struct model *m, const struct input_request *r, struct diag *d)
{
	struct input_set *s = new_set(m, r);
	int rc = bind_options(s, d);

	rc = rc ? rc : assign_all(s, d);
	rc = plan_all(s, rc, d);
	if (!rc)
		return s;
	input_free(s);
	return NULL;
}

int input_shapes(const struct model *m, const struct input_request *r, struct shape *shapes,
		 struct diag *d)
{
	struct input_set *s = new_set(m, r);
	int rc = bind_options(s, d);

	for (uint32_t i = 0; i < s->n; i++)
		shapes[i] = s->in[i].shape;
	input_free(s);
	return rc;
}

const struct tensor *const *input_tensors(const struct input_set *s)
{
	return s->tensors;
}

uint32_t input_count(const struct input_set *s)
{
	return s->n;
}

const struct input_info *input_info(const struct input_set *s, uint32_t i)
{
	return &s->in[i].info;
}

void input_free(struct input_set *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		mem_free(s->in[i].owned);
	for (struct opened *o = s->opened; o; o = o->next)
		file_unmap(&o->map);
	struct arena a = s->arena;
	arena_free(&a);
}

/* ---- standard input */

/*
 * Returns true if an --input text reads standard input: "-", "NAME=-" or "NAME:-", each perhaps
 * followed by ",KEY=VALUE".
 */
static bool reads_stdin(const char *text)
{
	for (const char *p = strchr(text, '-'); p; p = strchr(p + 1, '-'))
		if ((p[1] == '\0' || p[1] == ',') && (p == text || p[-1] == '=' || p[-1] == ':'))
			return true;
	return false;
}

bool input_from_stdin(const struct texts *input)
{
	for (int64_t i = 0; i < input->n; i++)
		if (reads_stdin(input->v[i].s))
			return true;
	return false;
}

void input_keep_stdin(const char *model, const struct input_request *r)
{
	struct file_map m;

	if (strcmp(model, "-") != 0 && !input_from_stdin(&r->input))
		return;
	if (!file_map("-", &m, E_INPUT_OPEN, NULL))
		file_unmap(&m);
}
