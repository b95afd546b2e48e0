/* SPDX-License-Identifier: Apache-2.0 */
#include "score/truth.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Comparing two texts takes time in proportion to the product of their lengths. */
enum { MAX_FIELD = 1 << 16 };

static int fail_at(const char *place, const char *what, const char *expected, const char *actual,
		   const char *hint, struct diag *d)
{
	return FAIL(d, E_TRUTH, .slot = fmt(d, "%s", place), .message = what, .expected = expected,
		    .actual = actual, .hint = hint);
}

static struct truth_entry *add_entry(struct truth *t, size_t *room, struct arena *a)
{
	if (t->n == *room) {
		size_t more = *room ? 2 * *room : 64;
		t->entry = arena_grow(a, t->entry, t->n, more, sizeof(*t->entry));
		*room = more;
	}
	t->entry[t->n] = (struct truth_entry){0};
	return &t->entry[t->n++];
}

/* ---- tables */

struct table {
	const char *file, *p, *end;
	size_t line;
	char separator;
	struct arena *a;
};

static const char *place_of(const struct table *t, size_t line)
{
	return arena_printf(t->a, "%s:%zu", t->file, line);
}

/* Reads a field in quotes, in which a quote is written twice. Returns NULL if it does not end. */
static const char *quoted_field(struct table *t, struct str *field)
{
	for (t->p++; t->p < t->end; t->p++) {
		t->line += *t->p == '\n';
		if (*t->p != '"')
			str_add_n(field, t->p, 1);
		else if (t->p + 1 < t->end && t->p[1] == '"')
			str_add_n(field, t->p++, 1);
		else
			break;
	}
	return t->p++ < t->end ? str_get(field) : NULL;
}

static const char *read_field(struct table *t)
{
	struct str field = {.arena = t->a};
	const char *start = t->p;

	if (t->p < t->end && *t->p == '"' && t->separator == ',')
		return quoted_field(t, &field);
	while (t->p < t->end && *t->p != t->separator && *t->p != '\n')
		t->p++;
	size_t n = (size_t)(t->p - start);
	n -= n && start[n - 1] == '\r' && (t->p == t->end || *t->p == '\n');
	str_add_n(&field, start, n);
	return str_get(&field);
}

static bool is_heading(const char *field)
{
	static const char *const words[] = {"input", "name", "file", "filename",
					    "image", "path", "id"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcasecmp(field, words[i]))
			return true;
	return false;
}

/* Reads one line of two fields. */
static int read_row(struct table *t, const char *field[2], struct diag *d)
{
	const size_t line = t->line;
	size_t n = 0;

	for (bool more = true; more; n++) {
		const char *text = read_field(t);
		if (!text)
			return fail_at(place_of(t, line), "a quoted field does not end", NULL, NULL,
				       NULL, d);
		if (strlen(text) > MAX_FIELD)
			return fail_at(place_of(t, line), "a field is too long",
				       "up to 65536 bytes", fmt(d, "%zu", strlen(text)), NULL, d);
		if (n < 2)
			field[n] = text;
		if (t->p < t->end && *t->p == '\r')
			t->p++;
		more = t->p < t->end && *t->p == t->separator;
		if (!more && t->p < t->end && *t->p != '\n')
			return fail_at(place_of(t, line), "text stands behind a quoted field", NULL,
				       NULL, NULL, d);
		t->p += more;
	}
	if (n != 2)
		return fail_at(place_of(t, line), "this is no line of an input and its answer",
			       t->separator == ',' ? "INPUT,ANSWER" : "INPUT, a tab, ANSWER",
			       fmt(d, "%zu field%s", n, n == 1 ? "" : "s"),
			       "put an answer that contains a comma in double quotes", d);
	t->line++;
	t->p += t->p < t->end;
	return 0;
}

static bool blank_line(struct table *t)
{
	const char *p = t->p;

	while (p < t->end && (*p == '\r' || *p == ' '))
		p++;
	if (p < t->end && *p != '\n')
		return false;
	t->p = p + (p < t->end);
	t->line++;
	return true;
}

int truth_parse_table(struct truth *to, const char *file, const char *text, size_t n,
		      struct arena *a, struct diag *d)
{
	struct table t = {file, text, text + n, 1, ',', a};
	const char *first_end = n ? memchr(text, '\n', n) : NULL, *field[2];
	size_t room = 0;

	*to = (struct truth){.file = file};
	if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
		t.p += 3;
	if (n && memchr(text, '\0', n))
		return fail_at(file, "this is no text: it has a NUL byte", NULL, NULL, NULL, d);
	if (n && memchr(text, '\t', first_end ? (size_t)(first_end - text) : n))
		t.separator = '\t';
	while (t.p < t.end) {
		const size_t line = t.line;
		if (blank_line(&t))
			continue;
		int rc = read_row(&t, field, d);
		if (rc)
			return rc;
		if (line == 1 && is_heading(field[0]))
			continue;
		*add_entry(to, &room, a) = (struct truth_entry){
			.input = field[0], .answer = field[1], .place = place_of(&t, line)};
	}
	return to->n ? 0 : fail_at(file, "it has no line", "INPUT,ANSWER", "nothing", NULL, d);
}

int truth_read_table(struct truth *t, const char *file, struct arena *a, struct diag *d)
{
	struct file_map m;
	int rc = file_map(file, &m, E_TRUTH, d);

	if (rc)
		return rc;
	rc = truth_parse_table(t, file, (const char *)m.data, m.size, a, d);
	file_unmap(&m);
	return rc;
}

/* ---- COCO */

static int fail_member(const struct truth *t, const char *list, size_t i, const char *what,
		       struct diag *d)
{
	return fail_at(fmt(d, "%s: %s[%zu]", t->file, list, i), what, NULL, NULL, NULL, d);
}

/* Reads a member that is a whole number below 2^53, which JSON's numbers can tell apart. */
static bool read_id(const struct jvalue *v, const char *key, int64_t *id)
{
	const struct jvalue *x = jget(v, key);

	if (!x || x->type != J_NUMBER || x->number != trunc(x->number) || fabs(x->number) > 0x1p53)
		return false;
	*id = (int64_t)x->number;
	return true;
}

/* A map from ids to indices. */
struct ids {
	struct map map;
	struct arena *a;
};

static bool ids_add(struct ids *ids, int64_t id, size_t index)
{
	return map_set(&ids->map, arena_dup(ids->a, &id, sizeof(id)), sizeof(id), (uint32_t)index);
}

static int64_t ids_get(const struct ids *ids, int64_t id)
{
	return map_get(&ids->map, (const char *)&id, sizeof(id));
}

static int read_images(struct truth *t, const struct jvalue *list, struct ids *ids, struct arena *a,
		       struct diag *d)
{
	size_t i = 0, room = 0;

	for (const struct jvalue *v = list->first; v; v = v->next, i++) {
		struct truth_entry *e = add_entry(t, &room, a);
		e->place = arena_printf(a, "%s: images[%zu]", t->file, i);
		e->input = jtext(v, "file_name");
		if (!e->input || !read_id(v, "id", &e->image))
			return fail_member(t, "images", i, "it needs a file_name and a whole id", d);
		if (!ids_add(ids, e->image, i))
			return fail_member(t, "images", i,
					   fmt(d, "the id %" PRId64 " is there twice", e->image), d);
	}
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct category *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int read_categories(struct truth *t, const struct jvalue *list, struct ids *ids,
			   struct arena *a, struct diag *d)
{
	size_t i = 0;

	t->category = arena_new_n(a, struct category, list->n + 1);
	for (const struct jvalue *v = list->first; v; v = v->next, i++) {
		struct category *c = &t->category[t->ncategories++];
		c->name = jtext(v, "name");
		if (!c->name || !read_id(v, "id", &c->id))
			return fail_member(t, "categories", i, "it needs a name and a whole id", d);
		if (!ids_add(ids, c->id, i))
			return fail_member(t, "categories", i,
					   fmt(d, "the id %" PRId64 " is there twice", c->id), d);
	}
	qsort(t->category, t->ncategories, sizeof(*t->category), by_id);
	return 0;
}

static bool read_box(const struct jvalue *v, struct true_box *b)
{
	const struct jvalue *box = jget(v, "bbox"), *crowd = jget(v, "iscrowd");
	double n[4], area;
	size_t k = 0;

	if (!box || box->type != J_ARRAY || box->n != 4)
		return false;
	for (const struct jvalue *x = box->first; x; x = x->next, k++) {
		if (x->type != J_NUMBER || !isfinite(x->number))
			return false;
		n[k] = x->number;
	}
	area = jnumber(v, "area", n[2] * n[3]);
	*b = (struct true_box){.x = n[0],
			       .y = n[1],
			       .width = n[2],
			       .height = n[3],
			       .crowd = crowd && crowd->number != 0};
	b->ignored = b->crowd || !box_area_counts(area);
	return true;
}

static int read_annotations(struct truth *t, const struct jvalue *list, const struct ids *images,
			    const struct ids *categories, struct arena *a, struct diag *d)
{
	size_t i = 0, *room = arena_new_n(a, size_t, t->n + 1);

	for (const struct jvalue *v = list->first; v; v = v->next, i++) {
		struct true_box b;
		int64_t image = 0, category = 0, at;
		if (!read_id(v, "image_id", &image) || !read_id(v, "category_id", &category) ||
		    !read_box(v, &b))
			return fail_member(
				t, "annotations", i,
				"it needs an image_id, a category_id and a bbox of 4 numbers", d);
		b.category = category;
		if ((at = ids_get(images, image)) < 0)
			return fail_member(t, "annotations", i,
					   fmt(d, "there is no image %" PRId64, image), d);
		if (ids_get(categories, category) < 0)
			return fail_member(t, "annotations", i,
					   fmt(d, "there is no category %" PRId64, category), d);
		struct truth_entry *e = &t->entry[at];
		if (e->nboxes == room[at]) {
			size_t more = room[at] ? 2 * room[at] : 8;
			e->boxes = arena_grow(a, e->boxes, e->nboxes, more, sizeof(*e->boxes));
			room[at] = more;
		}
		e->boxes[e->nboxes++] = b;
	}
	return 0;
}

int truth_read_coco(struct truth *t, const char *file, struct arena *a, struct diag *d)
{
	struct ids images = {{.arena = a}, a}, categories = {{.arena = a}, a};
	struct file_map m;
	int rc = file_map(file, &m, E_TRUTH, d);

	if (rc)
		return rc;
	*t = (struct truth){.file = file};
	const char *text = arena_strn(a, (const char *)m.data, m.size); /* the tree points into it */
	const struct jvalue *v = jread(text, m.size, file, E_TRUTH, a, d);
	file_unmap(&m);
	if (!v)
		return -E_TRUTH;
	const struct jvalue *list[] = {jget(v, "images"), jget(v, "categories"),
				       jget(v, "annotations")};
	for (size_t i = 0; i < 3; i++)
		if (!list[i] || list[i]->type != J_ARRAY)
			return fail_at(file, "this is no COCO file of boxes",
				       "an object with the arrays images, categories and annotations",
				       NULL, NULL, d);
	rc = read_images(t, list[0], &images, a, d);
	rc = rc ? rc : read_categories(t, list[1], &categories, a, d);
	return rc ? rc : read_annotations(t, list[2], &images, &categories, a, d);
}

/* ---- which entry is about which input */

static int index_entries(const struct truth *t, struct map *byname, struct diag *d)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct truth_entry *e = &t->entry[i];
		int64_t before = map_get(byname, e->input, strlen(e->input));
		if (before >= 0)
			return fail_at(e->place, fmt(d, "the input '%s' is there twice", e->input),
				       NULL, NULL,
				       fmt(d, "the first is at %s", t->entry[before].place), d);
		map_set(byname, e->input, strlen(e->input), (uint32_t)i);
	}
	return 0;
}

static int64_t find_entry(const struct map *byname, const char *label, const char *name)
{
	const char *const names[] = {label, name, path_base(label), path_base(name)};
	int64_t at = -1;

	for (size_t i = 0; at < 0 && i < sizeof(names) / sizeof(*names); i++)
		at = map_get(byname, names[i], strlen(names[i]));
	return at;
}

int truth_assign(struct truth *t, const char *const *label, const char *const *name, size_t n,
		 struct arena *a, struct diag *d)
{
	struct map byname = {.arena = a};
	size_t *of = arena_new_n(a, size_t, n + 1);
	const char **owner = arena_new_n(a, const char *, t->n + 1);
	int rc = index_entries(t, &byname, d);

	for (size_t i = 0; !rc && i < n; i++) {
		int64_t at = find_entry(&byname, label[i], name[i]);
		if (at < 0)
			return fail_at(t->file,
				       fmt(d, "it has no answer for the input '%s'", label[i]),
				       fmt(d, "an entry '%s', '%s' or '%s'", label[i],
					   path_base(label[i]), name[i]),
				       NULL, NULL, d);
		if (owner[at])
			return fail_at(t->entry[at].place,
				       fmt(d, "'%s' is the name of several inputs", t->entry[at].input),
				       NULL, fmt(d, "'%s' and '%s'", owner[at], label[i]),
				       "write their paths as they are given to --input", d);
		owner[at] = label[i];
		of[i] = (size_t)at;
	}
	for (size_t i = 0; !rc && i < t->n; i++)
		if (!owner[i])
			return fail_at(
				t->entry[i].place,
				fmt(d, "no input is called '%s'", t->entry[i].input), NULL, NULL,
				"leave it out: a score is about all inputs that the truth names", d);
	t->of = of;
	return rc;
}
