/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"

#include <string.h>
#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	yaml_event_t event;
	bool held; /* `event` must be deleted before the next one is parsed */
	const char *path;
	const struct field *table;
	unsigned refused;
	void *obj;
	yaml_seen *seen;
	void *ctx;
	struct map keys; /* keys read so far, with their line numbers */
	struct arena *arena;
	struct diag *diag;
};

static unsigned event_line(const struct reader *r)
{
	return (unsigned)r->event.start_mark.line + 1;
}

static int config_fail(struct reader *r, unsigned line, const char *message, const char *hint)
{
	return FAIL(r->diag, E_CONFIG, .slot = fmt(r->diag, "%s:%u", r->path, line),
		    .message = message, .hint = hint);
}

static int next_event(struct reader *r)
{
	if (r->held)
		yaml_event_delete(&r->event);
	r->held = false;
	if (!yaml_parser_parse(&r->parser, &r->event)) {
		const char *problem = r->parser.problem ? r->parser.problem : "cannot be read";
		size_t line = r->parser.problem_mark.line;
		return config_fail(r, (unsigned)line + 1,
				   fmt(r->diag, "no valid YAML: %s", problem), NULL);
	}
	r->held = true;
	return 0;
}

/* Returns a copy of the current event's scalar, or NULL if the scalar contains a NUL. */
static const char *copy_scalar(struct reader *r)
{
	const char *s = (const char *)r->event.data.scalar.value;
	size_t n = r->event.data.scalar.length;

	return memchr(s, '\0', n) ? NULL : arena_strn(r->arena, s, n);
}

/* Returns true if the value is empty or null. The line then counts as absent. */
static bool is_null(const struct reader *r)
{
	const char *s = (const char *)r->event.data.scalar.value;

	return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (*s == '\0' || strcmp(s, "~") == 0 || strcmp(s, "null") == 0);
}

static int set_value(struct reader *r, const struct field *f, const char *value, unsigned line)
{
	const char *where = arena_printf(r->arena, "%s:%u", r->path, line);

	if (!value)
		return config_fail(r, line, "a value holds a NUL character", NULL);
	int rc = field_set(f, r->obj, value, arena_printf(r->arena, "%s: %s", where, f->name),
			   r->arena, r->diag);
	if (rc) {
		if (r->diag)
			r->diag->last->code = E_CONFIG;
		return -E_CONFIG;
	}
	if (r->seen)
		r->seen(r->ctx, f, where);
	return 0;
}

static int refuse_non_scalar(struct reader *r, const struct field *f)
{
	return config_fail(r, event_line(r), fmt(r->diag, "%s takes a single value here", f->name),
			   f->type == F_LIST ? fmt(r->diag, "write an item as text: - \"%s\"",
						   f->arg ? f->arg : "VALUE")
					     : NULL);
}

/*
 * Reads `key: [a, b]`. A repeatable option is set once for each item. For other options the items
 * are joined by commas.
 */
static int read_sequence(struct reader *r, const struct field *f)
{
	unsigned line = event_line(r);
	struct str joined = {.arena = r->arena};
	bool repeat = f->type == F_LIST;

	if (!repeat && f->type != F_INTS && f->type != F_FLOATS && f->type != F_STRINGS && !f->axis)
		return refuse_non_scalar(r, f);
	for (bool first = true;; first = false) {
		int rc = next_event(r);
		if (rc)
			return rc;
		if (r->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse_non_scalar(r, f);
		const char *item = copy_scalar(r);
		if (repeat)
			rc = set_value(r, f, item, event_line(r));
		else if (item)
			str_addf(&joined, "%s%s", first ? "" : ",", item);
		if (rc)
			return rc;
	}
	return repeat ? 0 : set_value(r, f, str_get(&joined), line);
}

/* Reads `key: {name: value}`: each pair sets the repeatable option to "name=value". */
static int read_mapping(struct reader *r, const struct field *f)
{
	if (f->type != F_LIST)
		return refuse_non_scalar(r, f);
	for (;;) {
		int rc = next_event(r);
		if (rc)
			return rc;
		if (r->event.type == YAML_MAPPING_END_EVENT)
			return 0;
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse_non_scalar(r, f);
		const char *name = copy_scalar(r);
		unsigned line = event_line(r);
		if ((rc = next_event(r)))
			return rc;
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse_non_scalar(r, f);
		const char *value = copy_scalar(r);
		rc = set_value(r, f,
			       name && value ? arena_printf(r->arena, "%s=%s", name, value) : NULL,
			       line);
		if (rc)
			return rc;
	}
}

/* The value of `key: true` for an option whose argument may be left out: what it means without one. Otherwise as it is written. */
static const char *value_or_implied(struct reader *r, const struct field *f)
{
	const char *value = copy_scalar(r);
	bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	return f->arg && f->implied && plain && value && !strcmp(value, "true") ? f->implied : value;
}

static int read_value(struct reader *r, const struct field *f)
{
	int rc = next_event(r);

	if (rc)
		return rc;
	if (r->event.type == YAML_SCALAR_EVENT)
		return is_null(r) ? 0 : set_value(r, f, value_or_implied(r, f), event_line(r));
	if (r->event.type == YAML_SEQUENCE_START_EVENT)
		return read_sequence(r, f);
	if (r->event.type == YAML_MAPPING_START_EVENT)
		return read_mapping(r, f);
	return config_fail(r, event_line(r), "anchors and aliases are not used here",
			   "write the value itself");
}

static int refuse_unknown_key(struct reader *r, const char *key)
{
	const char *near = field_nearest(r->table, key);

	return FAIL(r->diag, E_CONFIG, .slot = fmt(r->diag, "%s:%u", r->path, event_line(r)),
		    .message = fmt(r->diag, "unknown option '%s'", key),
		    .hint = near ? fmt(r->diag, "did you mean '%s'?", near)
				 : "the keys are the names of the long options, as threads: 4; infer COMMAND --help "
				   "lists them");
}

/* Reads a key, which is the current event, and the value after it. */
static int read_pair(struct reader *r)
{
	const char *key = copy_scalar(r);
	const struct field *f = key ? field_find(r->table, key) : NULL;

	if (!f)
		return refuse_unknown_key(r, key ? key : "");
	if (f->flags & r->refused)
		return config_fail(r, event_line(r),
				   fmt(r->diag, "%s: only the command line can say this", key), NULL);
	int64_t before = map_get(&r->keys, key, strlen(key));
	if (before >= 0)
		return config_fail(r, event_line(r), fmt(r->diag, "%s: given twice", key),
				   fmt(r->diag, "the first is in line %u", (unsigned)before));
	map_set(&r->keys, key, strlen(key), event_line(r));
	return read_value(r, f);
}

static int read_root(struct reader *r)
{
	if (r->event.type == YAML_SCALAR_EVENT && is_null(r))
		return 0;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return config_fail(
			r, event_line(r), "a mapping (key: value) is expected",
			"write an option a line, without dashes and with a colon: threads: 4");
	for (;;) {
		int rc = next_event(r);
		if (rc || r->event.type == YAML_MAPPING_END_EVENT)
			return rc;
		rc = r->event.type == YAML_SCALAR_EVENT
			     ? read_pair(r)
			     : config_fail(r, event_line(r), "a key must be a name", NULL);
		if (rc)
			return rc;
	}
}

static int read_documents(struct reader *r)
{
	bool seen = false;

	for (;;) {
		int rc = next_event(r);
		if (rc || r->event.type == YAML_STREAM_END_EVENT)
			return rc;
		if (r->event.type == YAML_STREAM_START_EVENT ||
		    r->event.type == YAML_DOCUMENT_END_EVENT)
			continue;
		if (r->event.type == YAML_DOCUMENT_START_EVENT) {
			if (seen)
				return config_fail(r, event_line(r), "a second document", NULL);
			seen = true;
			continue;
		}
		rc = read_root(r);
		if (rc)
			return rc;
	}
}

int yaml_load(const char *path, const struct field *table, unsigned refused, void *obj,
	      yaml_seen *seen, void *ctx, struct arena *a, struct diag *d)
{
	struct file_map m;
	struct reader r = {.path = path,
			   .table = table,
			   .refused = refused,
			   .obj = obj,
			   .seen = seen,
			   .ctx = ctx,
			   .keys.arena = a,
			   .arena = a,
			   .diag = d};
	int rc = file_map(path, &m, E_CONFIG, d);

	if (rc)
		return rc;
	if (!yaml_parser_initialize(&r.parser)) {
		file_unmap(&m);
		return FAIL(d, E_MEMORY, .message = "no memory to read YAML");
	}
	yaml_parser_set_input_string(&r.parser, m.data, m.size);
	rc = read_documents(&r);
	if (r.held)
		yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	file_unmap(&m);
	return rc;
}
