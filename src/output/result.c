/* SPDX-License-Identifier: Apache-2.0 */
#include "output/result.h"

#include "base/file.h"
#include "base/columns.h"
#include "base/str.h"
#include "base/tame.h"
#include "io/io.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- labels */

static void split_lines(const char *p, size_t n, struct labels *out, struct arena *a)
{
	const char *end = p + n;
	size_t lines = 1;

	for (const char *s = p; s < end; s++)
		lines += *s == '\n';
	out->v = arena_new_n(a, const char *, lines);
	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		out->v[out->n++] = arena_strn(a, p, len && p[len - 1] == '\r' ? len - 1 : len);
		p = nl ? nl + 1 : end;
	}
}

/* Reads the key of a dictionary with its colon, "0: " or "\"0\": ". Returns -1 for anything else. */
static long read_key(const char **text)
{
	const char *s = *text;
	char *end, quote = *s == '\'' || *s == '"' ? *s++ : 0;
	long k = strtol(s, &end, 10);

	if (end == s || (quote && *end++ != quote))
		return -1;
	s = end + strspn(end, " \t");
	if (*s != ':')
		return -1;
	*text = s + 1 + strspn(s + 1, " \t");
	return k;
}

/*
 * Reads "{0: 'person', 1: 'bicycle'}", which Ultralytics writes into the metadata, a dictionary of Python, or of JSON with its numbers in
 * quotes; and a list of either, "['person', 'bicycle']". Returns false for other texts.
 */
static bool read_dictionary(const char *s, struct labels *out, struct arena *a)
{
	enum { MAX_CLASSES = 1 << 20 };
	size_t room = 0;

	s += strspn(s, " \t\n");
	bool list = *s == '[';
	if (*s != '{' && !list)
		return false;
	s++;
	for (;;) {
		char quote;
		s += strspn(s, " \t\n,");
		if (*s == (list ? ']' : '}'))
			return out->n > 0;
		long k = list ? (long)out->n : read_key(&s);
		if (k < 0 || k >= MAX_CLASSES)
			return false;
		quote = *s;
		if (quote != '\'' && quote != '"')
			return false;
		struct str name = {.arena = a};
		for (s++; *s && *s != quote; s++) {
			s += *s == '\\' && s[1];
			str_add_n(&name, s, 1);
		}
		if (*s++ != quote)
			return false;
		for (; room <= (size_t)k; room = room ? 2 * room : 64)
			out->v = arena_grow(a, out->v, room, room ? 2 * room : 64, sizeof(*out->v));
		for (; out->n <= (size_t)k; out->n++)
			out->v[out->n] = "";
		out->v[k] = arena_str(a, str_get(&name));
	}
}

static int load_metadata_labels(const char *key, const struct model *m, struct labels *out,
				struct arena *a, struct diag *d)
{
	const char **keys = arena_new_n(a, const char *, m->nmeta + 1);

	for (size_t i = 0; i < m->nmeta; i++) {
		keys[i] = m->meta[i].key;
		if (!strcmp(key, keys[i])) {
			if (!read_dictionary(m->meta[i].value, out, a)) {
				*out = (struct labels){0};
				split_lines(m->meta[i].value, strlen(m->meta[i].value), out, a);
			}
			return 0;
		}
	}
	struct str all = {.arena = a};
	for (size_t i = 0; i < m->nmeta; i++)
		str_addf(&all, "%s'%s'", i ? ", " : "", keys[i]);
	const char *near = str_nearest(key, keys, m->nmeta);
	return FAIL(d, E_LABELS, .message = fmt(d, "the model's metadata have no '%s'", key),
		    .hint = near       ? fmt(d, "did you mean 'meta:%s'?", near)
			    : m->nmeta ? fmt(d, "they have %s", str_get(&all))
				       : "it has no metadata: give the labels as a file");
}

/* Returns how the labels in the model's metadata are named. */
static const char *metadata_hint(const struct model *m, struct diag *d)
{
	struct str all = {.arena = &d->arena};

	for (size_t i = 0; i < m->nmeta; i++)
		str_addf(&all, "%smeta:%s", i ? ", " : "", m->meta[i].key);
	return m->nmeta ? fmt(d, "name the key of the metadata: --labels %s", str_get(&all))
			: "the model has no metadata: give the labels as a file, one a line";
}

int labels_load(const char *spec, const struct model *m, struct labels *out, struct arena *a,
		struct diag *d)
{
	struct file_map f;

	*out = (struct labels){0};
	if (str_starts(spec, "meta:"))
		return load_metadata_labels(spec + 5, m, out, a, d);
	int rc = file_map(spec, &f, E_LABELS, d);
	if (rc && d && d->last && !strcmp(spec, "meta"))
		d->last->hint = metadata_hint(m, d);
	for (size_t i = 0; rc && i < m->nmeta && d && d->last; i++)
		if (!strcmp(m->meta[i].key, spec))
			d->last->hint = fmt(d, "write --labels meta:%s", spec);
	if (rc)
		return rc;
	split_lines((const char *)f.data, f.size, out, a);
	file_unmap(&f);
	if (!out->n)
		return FAIL(d, E_LABELS, .message = fmt(d, "%s is empty", spec));
	return 0;
}

void labels_suggest(const struct model *m, bool text, struct diag *d)
{
	static const char *const names[] = {"names", "classes", "labels", "class_names", "id2label"};
	static const char *const letters[] = {"character", "characters", "alphabet", "charset",
					      "vocab"};
	const char *const *key = text ? letters : names;

	for (size_t i = 0; i < m->nmeta; i++)
		for (size_t k = 0; k < 5; k++) {
			struct labels l;
			struct arena a = {0};
			bool usable = !strcmp(m->meta[i].key, key[k]) &&
				      !load_metadata_labels(key[k], m, &l, &a, NULL) && l.n > 1;
			arena_free(&a);
			if (!usable)
				continue;
			NOTE(d, E_LABELS,
			     .message = fmt(d, "the model's metadata hold the %s under '%s'",
					    text ? "letters" : "names of the classes", key[k]),
			     .hint = fmt(d, "--labels meta:%s prints them in place of numbers",
					 key[k]));
			return;
		}
}

/* ---- CTC */

bool decode_parse(const char *spec, int64_t *blank)
{
	char *end;

	*blank = 0;
	if (!strcmp(spec, "ctc"))
		return true;
	if (!str_starts(spec, "ctc:blank=") || !spec[10])
		return false;
	*blank = strtoll(spec + 10, &end, 10);
	return !*end && *blank >= 0;
}

/* An output viewed as [batch, steps, classes], or, with time_first, as [steps, batch, classes]. */
struct steps {
	const struct tensor *t;
	int64_t batch, steps, classes;
	bool time_first;
};

static bool view_as_steps(const struct tensor *t, struct steps *s)
{
	if (!t || t->type.kind != V_TENSOR || dtype_class(tensor_dtype(t)) != DT_FLOAT)
		return false;
	const int64_t *dim = t->shape.dim;
	int r = t->shape.rank;
	if (r < 2 || r > 3 || dim[r - 1] < 2)
		return false;
	/* one row of scores is what a classifier gives */
	if (r == 2 && dim[0] < 2)
		return false;
	*s = (struct steps){
		.t = t, .batch = r == 3 ? dim[0] : 1, .steps = dim[r - 2], .classes = dim[r - 1]};
	/* some speech models have outputs of shape [steps, 1, classes], of which the first axis is the steps */
	if (r == 3 && dim[1] == 1 && dim[0] > 1) {
		s->time_first = true;
		s->batch = dim[1];
		s->steps = dim[0];
	}
	return true;
}

/* Labels may name all classes, all except the blank, or all except the blank and the last class, which is the space. */
static bool labels_fit(const struct labels *l, int64_t classes)
{
	int64_t n = (int64_t)l->n;

	return !n || classes == n || classes == n + 1 || classes == n + 2;
}

static const char *class_text(const struct labels *l, int64_t classes, int64_t blank, int64_t c,
			      struct arena *a)
{
	if (!l->n)
		return arena_printf(a, "%" PRId64, c);
	if (classes == (int64_t)l->n + 2 && c == classes - 1)
		return " ";
	int64_t i = classes > (int64_t)l->n && c > blank ? c - 1 : c;
	return i < (int64_t)l->n ? l->v[i] : "";
}

static int64_t best_class(const struct steps *s, int64_t at)
{
	enum dtype type = tensor_dtype(s->t);
	int64_t best = 0;
	double most = -INFINITY;

	for (int64_t c = 0; c < s->classes; c++) {
		double v = elem_f64(type, s->t->data, at + c);
		if (v > most) {
			most = v;
			best = c;
		}
	}
	return best;
}

static const char *decode_element(const struct steps *s, int64_t b, int64_t blank,
				  const struct labels *l, struct arena *a)
{
	struct str text = {.arena = a};
	int64_t before = -1;

	for (int64_t i = 0; i < s->steps; i++) {
		int64_t row = s->time_first ? i * s->batch + b : b * s->steps + i;
		int64_t c = best_class(s, row * s->classes);
		if (c != before && c != blank)
			str_addf(&text, "%s%s", !l->n && text.n ? " " : "",
				 class_text(l, s->classes, blank, c, a));
		before = c;
	}
	return str_get(&text);
}

static int fail_no_text(const struct output *out, size_t n, const struct labels *l, int64_t classes,
			struct diag *d)
{
	struct str all = {.arena = &d->arena};

	if (classes >= 0)
		return FAIL(d, E_LABELS, .message = "the labels do not fit the classes",
			    .expected = fmt(d,
					    "%" PRId64
					    " classes to have as many labels, or one or two fewer "
					    "(the blank; the blank and a space)",
					    classes),
			    .actual = str_many(&d->arena, l->n, "label"));
	for (size_t i = 0; i < n; i++)
		str_addf(&all, "%s%s %s", i ? ", " : "", out[i].name,
			 out[i].tensor ? shape_str(&d->arena, &out[i].tensor->shape, NULL) : "");
	return FAIL(d, E_LABELS, .message = "no output can be decoded as text",
		    .expected = "an output of floats with shape [batch, steps, classes]",
		    .actual = str_get(&all),
		    .hint = "--decode ctc chooses a letter at each of many steps; --top 5 names the best classes of "
			    "one, and --print 20 prints values as they are");
}

/* Finds the first output that can be decoded with these labels. */
static int find_text_output(const struct output *out, size_t n, int64_t blank,
			    const struct labels *labels, struct steps *s,
			    const struct output **which, struct diag *d)
{
	int64_t seen = -1;

	for (size_t i = 0; i < n; i++) {
		if (!view_as_steps(out[i].tensor, s))
			continue;
		if (seen < 0)
			seen = s->classes;
		if (!labels_fit(labels, s->classes))
			continue;
		if (blank >= s->classes)
			return FAIL(d, E_LABELS, .message = "the blank is not one of the classes",
				    .expected = fmt(d, "blank= below %" PRId64, s->classes),
				    .actual = fmt(d, "%" PRId64, blank));
		*which = &out[i];
		return 0;
	}
	return d ? fail_no_text(out, n, labels, seen, d) : -E_LABELS;
}

int decode_ctc(const struct output *out, size_t n, int64_t blank, const struct labels *labels,
	       struct decoded *to, struct arena *a, struct diag *d)
{
	const struct output *which;
	struct steps s;
	int rc = find_text_output(out, n, blank, labels, &s, &which, d);

	if (rc)
		return rc;
	*to = (struct decoded){.output = which->name};
	to->text = arena_new_n(a, const char *, (size_t)s.batch + 1);
	for (int64_t b = 0; b < s.batch; b++)
		to->text[to->n++] = decode_element(&s, b, blank, labels, a);
	return 0;
}

/* ---- ranking */

static bool has_classes(const struct tensor *t, int64_t *classes)
{
	if (!t || t->type.kind != V_TENSOR || tensor_dtype(t) == DT_STRING ||
	    dtype_class(tensor_dtype(t)) == DT_COMPLEX || t->shape.rank < 1)
		return false;
	*classes = t->shape.dim[t->shape.rank - 1];
	return *classes >= 2 && tensor_count(t) > 0;
}

/* Whether the type is that of maps of numbers, or of one such map. */
static bool holds_maps(struct type t)
{
	return (t.kind == V_MAP || (t.kind == V_SEQUENCE && t.of == V_MAP)) &&
	       t.dtype != DT_STRING && dtype_class((enum dtype)t.dtype) != DT_COMPLEX;
}

/* Returns the keys of a map as texts. */
static struct labels key_names(const struct tensor *keys, struct arena *a)
{
	struct labels l = {.n = (size_t)tensor_count(keys)};

	l.v = arena_new_n(a, const char *, l.n + 1);
	for (size_t i = 0; i < l.n; i++) {
		size_t len = 0;
		if (tensor_dtype(keys) == DT_STRING) {
			const char *s = tensor_string(keys, (int64_t)i, &len);
			l.v[i] = len ? arena_strn(a, s, len) : "";
		} else {
			l.v[i] = arena_printf(a, "%" PRId64,
					      elem_i64(tensor_dtype(keys), keys->data, (int64_t)i));
		}
	}
	return l;
}

/*
 * Returns maps of the same keys as a tensor with a row for each map, and the keys in *names. Returns the tensor itself if it is
 * none, and NULL for maps of different keys.
 */
static const struct tensor *rows_of_maps(const struct tensor *t, struct labels *names, struct arena *a)
{
	*names = (struct labels){0};
	if (!t || !holds_maps(t->type))
		return t;
	const struct tensor *const *map =
		t->type.kind == V_MAP ? &t : (const struct tensor *const *)t->items;
	size_t n = t->type.kind == V_MAP ? 1 : t->nitems;
	if (!n || map[0]->nitems != 2)
		return NULL;
	const struct tensor *keys = map[0]->items[0];
	int64_t columns = tensor_count(keys);
	struct tensor *rows =
		tensor_new(a, DT_F64, &(struct shape){.rank = 2, .dim = {(int64_t)n, columns}});
	for (size_t i = 0; rows && i < n; i++) {
		const struct tensor *values = map[i]->nitems == 2 ? map[i]->items[1] : NULL;
		if (!values || !tensor_same(map[i]->items[0], keys) || tensor_count(values) != columns)
			return NULL;
		for (int64_t k = 0; k < columns; k++)
			((double *)rows->data)[(int64_t)i * columns + k] =
				elem_f64(tensor_dtype(values), values->data, k);
	}
	if (rows)
		*names = key_names(keys, a);
	return rows;
}

struct scored {
	double value;
	int64_t index;
};

/*
 * Compares two elements for the ranking, which has the largest value first, NaN last, and equal values in the order
 * of their indices.
 */
static int best_first(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	if (isnan(x->value) != isnan(y->value))
		return isnan(x->value) ? 1 : -1;
	if (x->value != y->value && !isnan(x->value))
		return x->value < y->value ? 1 : -1;
	return x->index < y->index ? -1 : 1;
}

static void rank_output(const struct output *out, const struct tensor *t, int64_t classes,
			int64_t k, struct ranked *r, struct arena *a)
{
	struct arena scratch = {0};
	struct scored *s = arena_new_n(&scratch, struct scored, (size_t)classes);

	k = k < classes ? k : classes;
	int64_t rows = tensor_count(t) / classes;
	int64_t *index = arena_new_n(a, int64_t, (size_t)(rows * k));
	double *value = arena_new_n(a, double, (size_t)(rows * k));
	for (int64_t row = 0; row < rows; row++) {
		for (int64_t c = 0; c < classes; c++)
			s[c] = (struct scored){elem_f64(tensor_dtype(t), t->data, row * classes + c),
					       c};
		qsort(s, (size_t)classes, sizeof(*s), best_first);
		for (int64_t i = 0; i < k; i++) {
			index[row * k + i] = s[i].index;
			value[row * k + i] = s[i].value;
		}
	}
	arena_free(&scratch);
	*r = (struct ranked){.output = out,
			     .tensor = t,
			     .names = r->names,
			     .rows = rows,
			     .k = k,
			     .index = index,
			     .value = value};
}

static bool can_rank(const struct tensor *t, const struct labels *labels, int64_t *classes)
{
	return has_classes(t, classes) && (!labels->n || (int64_t)labels->n == *classes);
}

/*
 * Returns 0 if some output can be ranked with these labels, or if there are neither outputs nor labels. Otherwise adds a
 * finding and returns -E_LABELS.
 */
static int check_rankable(const struct output *out, size_t n, const struct labels *labels,
			  struct diag *d)
{
	int64_t classes, seen = -1;

	for (size_t i = 0; i < n; i++) {
		/* the keys of maps are known only after the run */
		if (can_rank(out[i].tensor, labels, &classes) ||
		    (out[i].tensor && holds_maps(out[i].tensor->type)))
			return 0;
		if (seen < 0 && has_classes(out[i].tensor, &classes))
			seen = classes;
	}
	if (!labels->n && seen < 0 && !n)
		return 0;
	if (seen < 0)
		return FAIL(
			d, E_LABELS, .message = "no output has classes along its last axis to rank",
			.hint = "infer inspect MODEL shows the outputs; --print 20 prints their values");
	int64_t more = seen - (int64_t)labels->n;
	return FAIL(
		d, E_LABELS, .message = "the labels do not fit the classes",
		.expected = fmt(d, "%" PRId64 " labels", seen), .actual = fmt(d, "%zu", labels->n),
		.hint = more == 1 || more == 2
				? "a model that reads text has classes for a blank and a space besides its "
				  "letters: --decode ctc adds them; otherwise give a file with a line for each class"
				: NULL);
}

int rank_outputs(const struct output *out, size_t n, int64_t k, const struct labels *labels,
		 struct ranked *lists, size_t *used, struct arena *a, struct diag *d)
{
	int rc = check_rankable(out, n, labels, d);
	int64_t classes;

	*used = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		struct ranked *r = &lists[*used];
		const struct tensor *t = rows_of_maps(out[i].tensor, &r->names, a);
		if (!can_rank(t, labels, &classes))
			continue;
		rank_output(&out[i], t, classes, k, r, a);
		(*used)++;
	}
	return rc || *used || !n
		       ? rc
		       : FAIL(d, E_LABELS,
			      .message = "the maps of the outputs have different keys, or fewer than two, or not as "
					 "many as there are labels");
}

/* ---- checks before the run */

/* Whether the dimension is the first of an input of rank 4. */
static bool is_picture_batch(const struct graph *g, int64_t dim)
{
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		if (s->rank == 4 && dim_is_sym(dim) && s->dim[0] == dim)
			return true;
	}
	return false;
}

int results_check(const struct graph *g, const struct wanted *w, struct diag *d)
{
	struct arena a = {0};
	struct tensor *t = arena_new_n(&a, struct tensor, g->nout + 1);
	struct output *out = arena_new_n(&a, struct output, g->nout + 1);
	const struct output *which;
	bool known = true;
	struct steps s;

	for (uint32_t i = 0; i < g->nout; i++) {
		const struct vinfo *v = &g->value[g->out[i]]->info;
		int last = v->shape.rank - 1;
		t[i] = (struct tensor){.type = v->type, .shape = v->shape};
		out[i] = (struct output){.name = g->out_name[i], .tensor = &t[i]};
		known &= v->type.kind != V_NONE &&
			 (v->type.kind != V_TENSOR ||
			  (v->shape.rank >= 0 && (last < 0 || v->shape.dim[last] >= 0)));
		/* a free size can be a number of steps, but not if pictures are stacked along it */
		for (int k = 0; k < last; k++)
			if (t[i].shape.dim[k] < 0)
				t[i].shape.dim[k] = is_picture_batch(g, t[i].shape.dim[k]) ? 1 : 2;
	}
	int rc = known && w->rank ? check_rankable(out, g->nout, w->labels, d) : 0;
	if (known && w->text && !rc)
		rc = find_text_output(out, g->nout, w->blank, w->labels, &s, &which, d);
	arena_free(&a);
	return rc;
}

/* ---- printing */

/* Adds the string in quotes, with control characters escaped, so that its end is visible. */
static void add_string(struct str *to, const char *s, size_t n)
{
	static const char from[] = "\n\t\r\"\\", into[] = "ntr\"\\";
	char shown[TAMED_BYTES];

	str_add(to, "\"");
	for (size_t i = 0; i < n;) {
		const char *k = s[i] ? strchr(from, s[i]) : NULL;
		i += tame_char(s + i, n - i, false, shown);
		if (k)
			str_addf(to, "\\%c", into[k - from]);
		else
			str_add(to, shown);
	}
	str_add(to, "\"");
}

static const char *element_text(const struct tensor *t, int64_t i, struct arena *a)
{
	enum dtype type = tensor_dtype(t);
	struct str b = {.arena = a};
	size_t n;

	if (type == DT_STRING) {
		const char *s = tensor_string(t, i, &n);
		add_string(&b, s, n);
		return str_get(&b);
	}
	if (dtype_class(type) == DT_COMPLEX) {
		enum dtype part = type == DT_C64 ? DT_F32 : DT_F64;
		return arena_printf(a, "%.9g%+.9gi", elem_f64(part, t->data, 2 * i),
				    elem_f64(part, t->data, 2 * i + 1));
	}
	if (type == DT_F64)
		return str_double(a, elem_f64(type, t->data, i));
	if (dtype_class(type) == DT_FLOAT)
		return str_float(a, (float)elem_f64(type, t->data, i));
	if (type == DT_U64)
		return arena_printf(a, "%" PRIu64, (uint64_t)elem_i64(type, t->data, i));
	return arena_printf(a, "%" PRId64, elem_i64(type, t->data, i));
}

/* Returns the columns of the widest of the values that are printed, by its first ones if there are many. */
static int element_width(const struct tensor *t, int64_t shown)
{
	enum { LOOKED_AT = 10000 };
	struct arena a = {0};
	int most = 1;

	for (int64_t i = 0; i < shown && i < LOOKED_AT; i++) {
		int n = columns_of(element_text(t, i, &a));
		most = n > most ? n : most;
		arena_free(&a);
	}
	return most;
}

/*
 * Prints the values, a line for each row along the last axis. On a terminal they stand in columns, and a row that is too long
 * goes on in the next line, indented; a file or a pipe gets each row as one line.
 */
static void print_rows(const struct tensor *t, int64_t shown, FILE *stream)
{
	int64_t row = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1, in_line = 0;
	int wanted = columns_wanted(), width = wanted ? element_width(t, shown) : 0;
	int64_t most = wanted ? (wanted - 2) / (width + 1) : INT64_MAX;
	struct arena a = {0};

	most = most > 0 ? most : 1;
	for (int64_t i = 0; i < shown; i++) {
		bool last = i + 1 == shown || (i + 1) % row == 0;
		fprintf(stream, "%*s", width, element_text(t, i, &a));
		arena_free(&a);
		if (++in_line == most && !last)
			fputs("\n  ", stream);
		else
			fputc(last ? '\n' : ' ', stream);
		in_line = in_line == most || last ? 0 : in_line;
	}
}

static void print_tensor(const char *name, const struct tensor *t, int64_t limit, FILE *stream)
{
	struct arena a = {0};
	int64_t n = tensor_count(t), shown = limit && limit < n ? limit : n;

	fprintf(stream, "%s %s %s\n", tame_word(&a, name), dtype_name(tensor_dtype(t)),
		shape_str(&a, &t->shape, NULL));
	print_rows(t, shown, stream);
	if (shown < n)
		fprintf(stream, "... %s of %s\n", str_count(&a, shown),
			str_many(&a, (uint64_t)n, "value"));
	arena_free(&a);
}

static void print_value(const char *name, const struct tensor *t, int64_t limit, FILE *stream)
{
	struct arena a = {0};

	if (!t || t->type.kind == V_NONE) {
		fprintf(stream, "%s (no value)\n", tame_word(&a, name));
	} else if (t->type.kind == V_TENSOR) {
		print_tensor(name, t, limit, stream);
	} else {
		fprintf(stream, "%s %s of %zu\n", tame_word(&a, name), type_str(&a, t->type),
			t->nitems);
		for (size_t i = 0; i < t->nitems; i++)
			print_value(arena_printf(&a, "%s[%zu]", name, i), t->items[i], limit, stream);
	}
	arena_free(&a);
}

void print_outputs(const struct output *out, size_t n, int64_t limit, FILE *stream)
{
	for (size_t i = 0; i < n; i++)
		print_value(out[i].name, out[i].tensor, limit, stream);
}

/* Returns the indices of a row along all axes except the last, such as "[0,3]". */
static const char *row_indices(const struct tensor *t, int64_t row, struct arena *a)
{
	struct shape at = t->shape;

	for (int i = --at.rank - 1; i >= 0; i--) {
		int64_t size = at.dim[i];
		at.dim[i] = row % size;
		row /= size;
	}
	return shape_str(a, &at, NULL);
}

void print_ranked(const struct ranked *r, const struct labels *labels, FILE *stream)
{
	labels = labels->n ? labels : &r->names;
	for (int64_t row = 0; row < r->rows; row++) {
		struct arena a = {0};
		fprintf(stream, "%s%s%s\n", tame_word(&a, r->output->name), r->rows > 1 ? " " : "",
			r->rows > 1 ? row_indices(r->tensor, row, &a) : "");
		for (int64_t i = row * r->k; i < (row + 1) * r->k; i++)
			if (labels->n)
				fprintf(stream, "%8" PRId64 "  %-13.7g  %s\n", r->index[i],
					r->value[i], tame_word(&a, labels->v[r->index[i]]));
			else
				fprintf(stream, "%8" PRId64 "  %.7g\n", r->index[i], r->value[i]);
		arena_free(&a);
	}
}

/* ---- JSON */

void json_values(struct json *j, const char *key, const struct tensor *t, int64_t limit)
{
	json_array(j, key);
	if (t && t->type.kind == V_TENSOR) {
		int64_t n = tensor_count(t), shown = limit && limit < n ? limit : n;
		for (int64_t i = 0; i < shown; i++)
			io_json_element(j, t, i);
	} else if (t) {
		for (size_t i = 0; i < t->nitems; i++)
			json_values(j, NULL, t->items[i], limit);
	}
	json_end(j, ']');
}

void json_ranked(struct json *j, const struct ranked *r, const struct labels *labels)
{
	labels = labels->n ? labels : &r->names;
	json_array(j, "top");
	for (int64_t row = 0; row < r->rows; row++) {
		json_array(j, NULL);
		for (int64_t i = row * r->k; i < (row + 1) * r->k; i++) {
			json_object(j, NULL);
			json_int(j, "class", r->index[i]);
			json_number(j, "value", r->value[i]);
			if (labels->n)
				json_string(j, "label", labels->v[r->index[i]]);
			json_end(j, '}');
		}
		json_end(j, ']');
	}
	json_end(j, ']');
}

void json_decoded(struct json *j, const struct decoded *t)
{
	json_array(j, "text");
	for (size_t i = 0; i < t->n; i++)
		json_string(j, NULL, t->text[i]);
	json_end(j, ']');
}
