/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer extract: writes a part of a model as a model. The part is what the tensors of --to need, back to those of --from;
 * its nodes and all else that the file says of them are copied byte by byte (onnx/save.h).
 */
#include "base/str.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "cmd/part.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct extract {
	struct options *o;
	struct diag *d;
	struct source source; /* not optimized, so that names are the file's; for the types of tensors */
	const struct graph *graph;
	struct onnx_file *file;
	struct map node_of; /* title of a node: its number */
	struct map begins;  /* names of --from; 1 once the part reads it */
	struct map seen;    /* names that the part reads or makes */
	bool *chosen;	    /* by node */
	const char **left;  /* names that are still to be followed */
	uint32_t nleft, cap_left;
	struct borders in, constant, out;
};

static bool knows(const struct map *m, const char *name)
{
	return source_knows(m, name);
}

static const struct onnx_node *maker(const struct extract *x, const char *name)
{
	int64_t i = source_maker(&x->source, name);

	return i < 0 ? NULL : onnx_file_node(x->file, (uint32_t)i);
}

static const struct value *find_value(const struct extract *x, const char *name)
{
	return source_value(&x->source, name);
}

static bool is_weight(const struct extract *x, const char *name)
{
	return onnx_file_weight(x->file, name);
}

/* ---- the model */

static int open_model(struct extract *x)
{
	struct arena *a = &x->source.arena;

	x->o->config.optimize = OPTIMIZE_NONE;
	x->o->config.types_only = true; /* a part may hold operators that this build cannot run */
	x->o->config.device = "cpu";
	x->o->config.to_file = x->o->config.keep_floats =
		true; /* the part has the file's nodes: folded weights would only take memory */
	int rc = source_open(&x->source, x->o->operand[0], &x->o->config, x->d);
	if (rc)
		return rc;
	x->graph = x->source.graph;
	x->file = x->source.file;
	x->node_of.arena = x->begins.arena = x->seen.arena = a;
	for (uint32_t i = 0; i < onnx_file_nodes(x->file); i++) {
		const char *title = onnx_file_node(x->file, i)->title;
		map_set(&x->node_of, title, strlen(title), i);
	}
	x->chosen = arena_new_n(a, bool, onnx_file_nodes(x->file) + 1);
	return 0;
}

/* ---- names of the command line */

typedef void take_name(struct extract *x, const char *name);

static void follow(struct extract *x, const char *name)
{
	if (!*name || knows(&x->seen, name))
		return;
	map_set(&x->seen, name, strlen(name), 0);
	if (x->nleft == x->cap_left) {
		x->cap_left = x->cap_left ? 2 * x->cap_left : 64;
		x->left = arena_grow(&x->source.arena, x->left, x->nleft, x->cap_left,
				     sizeof(*x->left));
	}
	x->left[x->nleft++] = name;
}

static void add_border(struct extract *x, struct borders *to, const char *name)
{
	borders_add(&x->source, to, name, find_value(x, name));
}

static void take_end(struct extract *x, const char *name)
{
	for (uint32_t i = 0; i < x->out.n; i++)
		if (!strcmp(x->out.v[i].name, name))
			return;
	add_border(x, &x->out, name);
	follow(x, name);
}

static void take_begin(struct extract *x, const char *name)
{
	map_set(&x->begins, name, strlen(name), 0);
}

/* Takes a tensor, or a node: then what it reads from other nodes (--from), or what it makes (--to). */
static bool take_one(struct extract *x, const char *name, bool begin, take_name *take)
{
	int64_t i = map_get(&x->node_of, name, strlen(name));

	if (knows(&x->source.maker_of, name) ||
	    (knows(&x->source.value_of, name) && !is_weight(x, name))) {
		take(x, name);
		return true;
	}
	if (i < 0)
		return false;
	const struct onnx_node *n = onnx_file_node(x->file, (uint32_t)i);
	for (uint32_t k = 0; k < (begin ? n->nin : n->nout); k++) {
		const char *s = begin ? n->in[k] : n->out[k];
		const struct onnx_node *from = begin ? maker(x, s) : NULL;
		if (*s && !is_weight(x, s) && !(from && from->constant))
			take(x, s);
	}
	return true;
}

/* Takes the names of an option: a text is one name, or several with commas between. */
static int take_names(struct extract *x, const char *option, const struct texts *list, bool begin,
		      take_name *take)
{
	for (int64_t i = 0; i < list->n; i++) {
		char *text = arena_strn(&x->source.arena, list->v[i].s, strlen(list->v[i].s)), *rest;
		if (take_one(x, text, begin, take))
			continue;
		for (char *name = strtok_r(text, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
			if (!take_one(x, name, begin, take))
				return options_fail(
					x->o, option,
					fmt(x->d, "the model has no tensor or node '%s'", name),
					"infer inspect MODEL --nodes lists them", x->d);
	}
	return 0;
}

/* ---- the part */

/* Follows a name to what makes it. Fails if nothing does. */
static int follow_one(struct extract *x, const char *name)
{
	const struct onnx_node *n = maker(x, name);
	const struct value *v = find_value(x, name);

	if (knows(&x->begins, name)) {
		map_set(&x->begins, name, strlen(name), 1);
	} else if (n) {
		x->chosen[source_maker(&x->source, name)] = true;
		for (uint32_t k = 0; k < n->nin; k++)
			follow(x, n->in[k]);
	} else if (is_weight(x, name)) {
		add_border(x, &x->constant, name);
		x->constant.v[x->constant.n - 1].t = NULL; /* copied from the file */
	} else if (!v || !v->is_input) {
		return FAIL(x->d, E_MODEL_NAME, .slot = fmt(x->d, "value '%s'", name),
			    .expected = "a node, an initializer or an input that gives it",
			    .actual = "none");
	}
	return 0;
}

/* Takes along the scale and zero point that an annotation of quantization names, if they are initializers. */
static void take_parameters(struct extract *x, const char *name)
{
	const char *const *names;
	uint32_t n = onnx_file_parameters(x->file, name, &names);

	for (uint32_t i = 0; i < n; i++)
		if (is_weight(x, names[i]))
			follow(x, names[i]);
}

static int find_part(struct extract *x)
{
	const struct options *o = x->o;
	int rc = take_names(x, "from", &o->from, true, take_begin);

	rc = rc ? rc : take_names(x, "to", &o->to, false, take_end);
	for (uint32_t i = 0; !rc && o->to.n <= 0 && i < onnx_file_outputs(x->file); i++)
		take_end(x, onnx_file_output(x->file, i));
	while (!rc && x->nleft) {
		const char *name = x->left[--x->nleft];
		rc = follow_one(x, name);
		take_parameters(x, name);
	}
	if (rc)
		return rc;
	for (uint32_t i = 0; i < x->graph->nin; i++) {
		const char *name = x->graph->value[x->graph->in[i]]->name;
		if (knows(&x->seen, name) && !knows(&x->begins, name))
			add_border(x, &x->in, name);
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The tensors of --from become inputs, sorted, so that the order of the options changes nothing. */
static int add_begins(struct extract *x)
{
	const char **name = arena_new_n(&x->source.arena, const char *, x->begins.used + 1);
	size_t n = 0;

	for (size_t i = 0; i < onnx_file_nodes(x->file); i++) {
		const struct onnx_node *node = onnx_file_node(x->file, (uint32_t)i);
		for (uint32_t k = 0; k < node->nout; k++)
			if (*node->out[k] && knows(&x->begins, node->out[k]))
				name[n++] = node->out[k];
	}
	for (uint32_t i = 0; i < x->graph->nin; i++)
		if (knows(&x->begins, x->graph->value[x->graph->in[i]]->name))
			name[n++] = x->graph->value[x->graph->in[i]]->name;
	qsort(name, n, sizeof(*name), compare_names);
	for (size_t i = 0; i < n; i++) {
		if (map_get(&x->begins, name[i], strlen(name[i])) != 1)
			return options_fail(
				x->o, "from",
				fmt(x->d, "'%s' does not lead to what --to names", name[i]),
				"name tensors between the inputs and those of --to", x->d);
		add_border(x, &x->in, name[i]);
	}
	return 0;
}

/*
 * The type of a tensor that an unknown operator makes is known only if the file declares it. Refuses a part that has such an
 * input, because no program could load it; an output without a type is only warned of.
 */
static int check_types(const struct extract *x)
{
	for (uint32_t i = 0; i < x->in.n + x->out.n; i++) {
		bool begins = i < x->in.n;
		const struct onnx_border *b = begins ? &x->in.v[i] : &x->out.v[i - x->in.n];
		if (b->t->type.kind != V_NONE)
			continue;
		const struct finding f = {
			.code = E_MODEL_NAME,
			.severity = begins ? SEV_ERROR : SEV_WARNING,
			.file = __FILE__,
			.line = __LINE__,
			.slot = fmt(x->d, "%s '%s' of the part", begins ? "input" : "output", b->name),
			.message = "its type is not known: an operator that this build does not know lies before it, "
				   "and the file declares no type",
			.hint = begins ? "begin at another tensor, or add a value_info for it to the model"
				       : "add a value_info for it to the model if a program wants its type"};
		int rc = diag_add(x->d, &f);
		if (begins)
			return rc;
	}
	return 0;
}

static int write_part(struct extract *x, uint32_t *count)
{
	uint32_t *node = arena_new_n(&x->source.arena, uint32_t, onnx_file_nodes(x->file) + 1), n = 0;

	for (uint32_t i = 0; i < onnx_file_nodes(x->file); i++)
		if (x->chosen[i])
			node[n++] = i;
	if (!n)
		return options_fail(x->o, "to", "no node is between --from and --to", NULL, x->d);
	const char *external = NULL;
	int rc = options_external(x->o, x->o->save, &external, x->d);
	if (rc)
		return rc;
	const struct onnx_part part = {.node = node,
				       .nnodes = n,
				       .in = x->in.v,
				       .nin = x->in.n,
				       .constant = x->constant.v,
				       .nconstant = x->constant.n,
				       .out = x->out.v,
				       .nout = x->out.n,
				       .external = external};
	*count = n;
	return onnx_save_part(x->file, &part, x->o->save, x->d);
}

/* ---- printing */

static void tell(const struct extract *x, uint32_t nodes)
{
	struct arena a = {0};
	struct json j;

	if (x->o->json) {
		json_envelope_begin(&j, x->o, x->d);
		json_string(&j, "path", x->o->save);
		json_uint(&j, "nodes", nodes);
		borders_json(&j, "inputs", &x->in);
		borders_json(&j, "outputs", &x->out);
		json_envelope_end(&j, x->d);
	} else if (!x->o->quiet) {
		FILE *f = listing_begin(stderr);
		fprintf(f, "part     %s of %" PRIu32 ", %s, in %s\n", str_many(&a, nodes, "node"),
			onnx_file_nodes(x->file), str_many(&a, x->constant.n, "initializer"),
			tame_word(&a, x->o->save));
		borders_print(&x->source, "inputs", &x->in, f);
		borders_print(&x->source, "outputs", &x->out, f);
		listing_end(f);
	}
	arena_free(&a);
}

/* Refuses to write the part over the model, whose other nodes would be lost. */
static int check_target(const struct options *o, struct diag *d)
{
	struct stat model, part;

	if (stat(o->operand[0], &model) != 0 || stat(o->save, &part) != 0 ||
	    model.st_dev != part.st_dev || model.st_ino != part.st_ino || !S_ISREG(part.st_mode))
		return 0;
	return options_fail(o, "save", "this is the model itself, whose other nodes would be lost",
			    "write the part to another file", d);
}

int cmd_extract(struct options *o, struct diag *d)
{
	struct extract x = {.o = o, .d = d};
	uint32_t nodes = 0;
	int rc = 0;

	if (!o->save)
		rc = options_fail(o, "save", "no file is named for the part", "add -o PART.onnx", d);
	rc = rc ? rc : check_target(o, d);
	rc = rc ? rc : open_model(&x);
	rc = rc ? rc : find_part(&x);
	rc = rc ? rc : add_begins(&x);
	rc = rc ? rc : check_types(&x);
	rc = rc ? rc : write_part(&x, &nodes);
	if (!rc)
		tell(&x, nodes);
	source_close(&x.source);
	return rc;
}
