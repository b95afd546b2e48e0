/* SPDX-License-Identifier: Apache-2.0 */
#include "session/genai.h"

#include "base/file.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char config_name[] = "genai_config.json";

enum {
	MAX_CONFIG = 16 << 20, /* bytes; real ones have a few thousand */
	STEPS = 128,	       /* that the proposed line runs at most */
};

const char *genai_path(const char *path, struct arena *a)
{
	if (!strcmp(path_base(path), config_name))
		return path;
	if (!path_is_folder(path))
		return NULL;
	path = path_join(a, path, config_name);
	return access(path, F_OK) == 0 ? path : NULL;
}

static const char *text_or(const struct jvalue *v, const char *key, const char *otherwise)
{
	const char *text = jtext(v, key);

	return text && *text ? text : otherwise;
}

/* ---- the parts */

static void add_part(struct genai *g, const char *name, const struct jvalue *v, struct arena *a)
{
	const char *file = jtext(v, "filename");
	struct stat st;

	if (!file || !*file)
		return;
	struct genai_part *p = &g->part[g->nparts++];
	*p = (struct genai_part){.name = name,
				 .file = file,
				 .path = path_join(a, path_dir(a, g->path), file),
				 .inputs = jget(v, "inputs"),
				 .outputs = jget(v, "outputs")};
	p->bytes = stat(p->path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

/* The stages of a part's pipeline: objects with one member each, whose name is the stage's. */
static void add_pipeline(struct genai *g, const char *name, const struct jvalue *v, struct arena *a)
{
	const struct jvalue *stages = jget(v, "pipeline");

	if (!stages || stages->type != J_ARRAY)
		return;
	for (const struct jvalue *s = stages->first; s; s = s->next)
		for (const struct jvalue *m = s->type == J_OBJECT ? s->first : NULL; m; m = m->next)
			add_part(g, arena_printf(a, "%s.%s", name, m->key), m, a);
}

static size_t count_members(const struct jvalue *v)
{
	size_t n = 1;

	if (v && (v->type == J_OBJECT || v->type == J_ARRAY))
		for (const struct jvalue *m = v->first; m; m = m->next)
			n += count_members(m);
	return n;
}

/* ---- the line that runs the decoder */

static void add_word(struct str *b, const char *word)
{
	str_addf(b, " %s", str_quoted(b->arena, word));
}

/* "past_key_values.%d.key" with a star for the layer's number */
static const char *with_star(const char *pattern, struct arena *a)
{
	const char *at = strstr(pattern, "%d");

	return at ? arena_printf(a, "%.*s*%s", (int)(at - pattern), pattern, at + 2) : pattern;
}

static void add_feeds(struct str *b, const struct jvalue *in, const struct jvalue *out,
		      struct arena *a)
{
	static const char *const pairs[][2] = {{"present_key_names", "past_key_names"},
					       {"present_value_names", "past_value_names"},
					       {"present_names", "past_names"}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		const char *from = jtext(out, pairs[i][0]), *to = jtext(in, pairs[i][1]);
		if (!from || !to)
			continue;
		str_add(b, " --feed");
		add_word(b, arena_printf(a, "%s=%s", with_star(from, a), with_star(to, a)));
	}
}

/* ---- an encoder, whose results the decoder takes in each step */

enum { MAX_LAYERS = 64 };
#define ENCODED "encoded" /* folder that the first of the two lines writes */

static const struct genai_part *find_part(const struct genai *g, const char *name)
{
	for (size_t i = 0; i < g->nparts; i++)
		if (!strcmp(g->part[i].name, name))
			return &g->part[i];
	return NULL;
}

/* "past_key_cross_%d" with the layer's number */
static const char *with_number(const char *pattern, int64_t layer, struct arena *a)
{
	const char *at = strstr(pattern, "%d");

	return at ? arena_printf(a, "%.*s%" PRId64 "%s", (int)(at - pattern), pattern, layer, at + 2)
		  : pattern;
}

static bool takes_encoded(const struct jvalue *in)
{
	return jtext(in, "encoder_hidden_states") || jtext(in, "cross_past_key_names");
}

/* Whether the encoder can be run on its own, so that its results are files for the decoder. */
static bool has_encoder(const struct genai *g)
{
	const struct genai_part *e = find_part(g, "encoder");

	return e && e->path && !strchr(e->file, '/') && strcmp(e->file, "..") != 0 && e->inputs &&
	       e->inputs->first && e->inputs->first->type == J_STRING && e->outputs &&
	       g->layers > 0 && g->layers <= MAX_LAYERS;
}

static void add_encoder(struct str *b, const struct genai *g, struct arena *a)
{
	const struct genai_part *e = find_part(g, "encoder");

	str_add(b, "infer run");
	add_word(b, e->path);
	str_add(b, " --input");
	add_word(b, arena_printf(a, "%s=FEATURES.npy", e->inputs->first->text));
	str_add(b, " -o " ENCODED " && ");
}

static void add_encoded_one(struct str *b, const char *input, const char *output, struct arena *a)
{
	str_add(b, " --input");
	add_word(b, arena_printf(a, "%s=" ENCODED "/%s.npy", input, output));
}

static void add_encoded(struct str *b, const struct genai *g, const struct jvalue *in, struct arena *a)
{
	static const char *const pairs[][2] = {
		{"cross_present_key_names", "cross_past_key_names"},
		{"cross_present_value_names", "cross_past_value_names"}};
	const struct jvalue *out = find_part(g, "encoder")->outputs;

	if (jtext(in, "encoder_hidden_states") && jtext(out, "encoder_hidden_states"))
		add_encoded_one(b, jtext(in, "encoder_hidden_states"),
				jtext(out, "encoder_hidden_states"), a);
	for (int64_t layer = 0; layer < g->layers; layer++)
		for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
			const char *from = jtext(out, pairs[i][0]), *to = jtext(in, pairs[i][1]);
			if (from && to)
				add_encoded_one(b, with_number(to, layer, a),
						with_number(from, layer, a), a);
		}
}

/* Inputs that follow from the number of positions: under their usual names --next, if it is in the line, derives them by itself. */
static void add_derived(struct str *b, const struct jvalue *in, bool next, struct arena *a)
{
	static const char *const rules[][2] = {{"attention_mask", "ones"},
					       {"position_ids", "positions"},
					       {"total_sequence_length", "total"},
					       {"past_sequence_length", "past"}};

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		const char *name = jtext(in, rules[i][0]);
		if (!name || (next && !strcmp(name, rules[i][0])))
			continue;
		str_add(b, " --derive");
		add_word(b, arena_printf(a, "%s=%s", name, rules[i][1]));
	}
}

/* ---- a decoder that takes embeddings of ids, pictures and sounds */

static bool lies_beside(const struct genai_part *p)
{
	return p && !strchr(p->file, '/') && strcmp(p->file, "..") != 0;
}

/* Adds a part's line, which writes its results to a folder of the part's name. Each input that no other part makes is a file to give. */
static void add_part_line(struct str *b, const struct genai *g, const struct genai_part *p,
			  struct arena *a)
{
	static const char *const makers[] = {"vision", "speech"};

	str_add(b, "infer run");
	add_word(b, p->path);
	for (const struct jvalue *m = p->inputs->first; m; m = m->next) {
		const char *from = NULL;
		if (m->type != J_STRING)
			continue;
		for (size_t i = 0; i < sizeof(makers) / sizeof(*makers) && !from; i++) {
			const struct genai_part *by = find_part(g, makers[i]);
			const char *made = lies_beside(by) ? jtext(by->outputs, m->key) : NULL;
			if (made && by != p)
				from = arena_printf(a, "%s/%s.npy", makers[i], made);
		}
		str_add(b, " --input");
		add_word(b, arena_printf(a, "%s=%s", m->text,
					 from ? from : arena_printf(a, "%s.npy", m->key)));
	}
	str_addf(b, " -o %s && ", p->name);
}

/*
 * The lines for the first step: what pictures and sounds are to the model, the embeddings of the prompt with them, and the decoder. Later
 * steps need the embedding of each new id.
 */
static void propose_first(struct genai *g, const struct jvalue *in, const struct jvalue *out,
			  struct arena *a)
{
	static const char *const order[] = {"vision", "speech", "embedding"};
	const struct genai_part *e = find_part(g, "embedding");
	const char *embeds = jtext(in, "inputs_embeds"), *made = NULL;
	struct str b = {.arena = a};

	made = lies_beside(e) && e->inputs ? jtext(e->outputs, "inputs_embeds") : NULL;
	if (!made || !genai_decoder(g))
		return;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		const struct genai_part *p = find_part(g, order[i]);
		if (lies_beside(p) && p->inputs && p->inputs->type == J_OBJECT)
			add_part_line(&b, g, p, a);
	}
	str_add(&b, "infer run");
	add_word(&b, genai_decoder(g));
	str_add(&b, " --input");
	add_word(&b, arena_printf(a, "%s=embedding/%s.npy", embeds, made));
	add_feeds(&b, in, out, a);
	add_derived(&b, in, false, a);
	str_add(&b, " --steps 1");
	g->first = str_get(&b);
}

static void add_next(struct str *b, const char *ids, const char *logits,
		     const struct jvalue *search, struct arena *a)
{
	struct str how = {.arena = a};
	double temperature = jnumber(search, "temperature", 1);
	int64_t top = jint(search, "top_k", 0);

	if (!jbool(search, "do_sample")) {
		str_addf(&how, "%s=argmax:%s", ids, logits);
	} else {
		str_addf(&how, "%s=sample:%s", ids, logits);
		if (temperature > 0 && temperature != 1 && isfinite(temperature))
			str_addf(&how, ",temperature=%g", temperature);
		if (top > 0)
			str_addf(&how, ",top=%" PRId64, top);
	}
	str_add(b, " --next");
	add_word(b, str_get(&how));
}

/* One id, or several: all that end a text. */
static void add_ends(struct str *b, const struct jvalue *eos)
{
	const struct jvalue *v = eos && eos->type == J_ARRAY ? eos->first : eos;
	const char *before = " --until ";

	for (; v; v = eos->type == J_ARRAY ? v->next : NULL)
		if (v->type == J_NUMBER && v->number >= 0 && v->number < 0x1p53) {
			str_addf(b, "%s%.0f", before, v->number);
			before = ",";
		}
}

static void propose(struct genai *g, const struct jvalue *root, struct arena *a)
{
	const struct jvalue *model = jget(root, "model"), *decoder = jget(model, "decoder"),
			    *search = jget(root, "search"), *in = jget(decoder, "inputs"),
			    *out = jget(decoder, "outputs");
	const char *file = genai_decoder(g), *ids = text_or(in, "input_ids", "input_ids");
	int64_t most = jint(search, "max_length", STEPS);
	struct str b = {.arena = a};

	if (!decoder)
		g->why_not = "the configuration has no decoder";
	else if (jget(decoder, "pipeline"))
		g->why_not = "the decoder is a pipeline of several models";
	else if (!file)
		g->why_not = "the configuration names no decoder in its folder";
	else if (jtext(in, "inputs_embeds") && !jtext(in, "input_ids"))
		g->why_not =
			"the decoder takes embeddings, which another part makes of the ids in each step";
	else if (takes_encoded(in) && !has_encoder(g))
		g->why_not = "the decoder takes what an encoder makes of another input";
	if (g->why_not) {
		if (jtext(in, "inputs_embeds") && !jtext(in, "input_ids"))
			propose_first(g, in, out, a);
		return;
	}
	if (takes_encoded(in))
		add_encoder(&b, g, a);
	str_add(&b, "infer run");
	add_word(&b, file);
	str_add(&b, " --input");
	add_word(&b, arena_printf(a, "%s=PROMPT.npy", ids));
	if (takes_encoded(in))
		add_encoded(&b, g, in, a);
	add_feeds(&b, in, out, a);
	add_next(&b, ids, text_or(out, "logits", "logits"), search, a);
	add_derived(&b, in, true, a);
	add_ends(&b, jget(model, "eos_token_id"));
	str_addf(&b, " --steps %" PRId64, most > 0 && most < STEPS ? most : (int64_t)STEPS);
	g->command = str_get(&b);
}

/* ---- all of it */

const char *genai_decoder(const struct genai *g)
{
	for (size_t i = 0; i < g->nparts; i++)
		if (!strcmp(g->part[i].name, "decoder"))
			return strchr(g->part[i].file, '/') || !strcmp(g->part[i].file, "..")
				       ? NULL
				       : g->part[i].path;
	return NULL;
}

int genai_read(const char *path, struct arena *a, struct genai *out, struct diag *d)
{
	static const char *const parts[] = {"decoder", "encoder", "embedding", "vision", "speech"};
	struct file_map m;
	int rc = file_map_most(path, MAX_CONFIG, &m, E_MODEL_OPEN, d);

	*out = (struct genai){.path = arena_str(a, path)};
	if (rc)
		return rc;
	if (m.size > MAX_CONFIG)
		rc = FAIL(d, E_MODEL_FORMAT, .message = fmt(d, "%s is too large", path),
			  .expected = fmt(d, "at most %d bytes", MAX_CONFIG),
			  .actual = fmt(d, "%zu", m.size));
	const struct jvalue *root =
		rc ? NULL : jread((const char *)m.data, m.size, path, E_MODEL_FORMAT, a, d);
	const struct jvalue *model = jget(root, "model");
	if (!rc && root && (!model || model->type != J_OBJECT))
		rc = FAIL(d, E_MODEL_FORMAT,
			  .message = fmt(d, "%s is no configuration of ONNX Runtime GenAI", path),
			  .expected = "an object 'model' in it", .actual = "none");
	if (!rc && root) {
		out->type = text_or(model, "type", "?");
		out->vocabulary = jint(model, "vocab_size", 0);
		out->context = jint(model, "context_length", 0);
		out->layers = jint(jget(model, "decoder"), "num_hidden_layers", 0);
		out->part = arena_new_n(a, struct genai_part, count_members(model));
		for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
			add_part(out, parts[i], jget(model, parts[i]), a);
			add_pipeline(out, parts[i], jget(model, parts[i]), a);
		}
		propose(out, root, a);
	}
	file_unmap(&m);
	return rc ? rc : root ? 0 : -(int)E_MODEL_FORMAT;
}
