/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make CORPUS... DIR   writes the models and files of the corpus to DIR/CASE/, with the case's expectations
 *                      as DIR/CASE/case, for test/check/run.sh
 *
 * A corpus is text; a case begins with "case NAME" and goes on to the next:
 *
 *   for A B C                   the case is made once for each word, "%" stands for it
 *   expect ID[@WORD] ...        findings that must be there, WORD in their line; "sound": no error; "quiet": no warning
 *   exit N                      0 where it is not said
 *   args WORD...                of infer check; "DIR" stands for the case's folder
 *   fault SPEC                  the fault-injection build with INFER_FAULT=SPEC
 *   ir N / opset N / import DOMAIN N / meta KEY VALUE
 *   input|output|value NAME TYPE DIMS        DIMS: 1,3,batch,? or - for a scalar
 *   init NAME TYPE DIMS DATA    DATA: V V V | fill V | ramp A B | rand SEED, then any number of: at I V
 *   short NAME TYPE DIMS N      an initializer with N bytes of data
 *   external NAME TYPE DIMS FILE
 *   node OP NAME IN,IN -> OUT,OUT ATTR=V ATTR=[V,V] ATTR="text" ATTR=["text","text"]      "_" is a value left out
 *   npy FILE TYPE DIMS DATA / raw FILE TYPE DIMS DATA
 *   text WORD...                the model is this text; cut N: its first N per cent
 */
#define _GNU_SOURCE
#include "../tools/models.h"

#include <ctype.h>
#include <math.h>
#include <sys/stat.h>

enum { WORDS = 512, LINES = 256 };

struct build {
	struct w nodes, inits, inputs, outputs, values, imports; /* imports: and metadata */
	int ir, opset;
	const char *text;
	int cut;
	char dir[1024];
	FILE *notes;
};

static int die(const char *what, const char *word)
{
	fprintf(stderr, "make: %s: %s\n", what, word);
	exit(1);
}

static int type_of(const char *t)
{
	static const struct {
		const char *name;
		int number;
	} types[] = {{"f32", F32},    {"u8", U8},     {"i8", I8},   {"i32", I32}, {"i64", I64},
		     {"str", STRING}, {"bool", BOOL}, {"f16", F16}, {"f64", F64}};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(types[i].name, t))
			return types[i].number;
	return die("no type", t);
}

static size_t size_of(int type)
{
	return type == F64 || type == I64   ? 8
	       : type == F32 || type == I32 ? 4
	       : type == F16		    ? 2
					    : 1;
}

/* ---- dimensions and data */

static struct dims numbers(const char *text)
{
	struct dims d = {0};

	if (!strcmp(text, "-"))
		return d;
	for (const char *p = text; *p; p += *p == ',') {
		char *end;
		d.v[d.n++] = strtoll(p, &end, 10);
		if (end == p)
			die("no size", text);
		p = end;
	}
	return d;
}

/* A type with names and blanks among its dimensions. */
static struct w value_info(const char *name, const char *type, const char *dims)
{
	struct w shape = {0}, tensor = {0}, t = {0}, v = {0};

	for (const char *p = dims; *p && strcmp(dims, "-");) {
		size_t n = strcspn(p, ",");
		struct w dim = {0};
		if (isdigit((unsigned char)*p))
			w_int(&dim, 1, atoll(p));
		else if (*p != '?')
			w_bytes(&dim, 2, p, n);
		w_msg(&shape, 1, dim);
		p += n + (p[n] == ',');
	}
	w_int(&tensor, 1, type_of(type));
	w_msg(&tensor, 2, shape);
	w_msg(&t, 1, tensor);
	w_str(&v, 1, name);
	w_msg(&v, 2, t);
	return v;
}

static double number(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	return *end ? die("no number", s) : v;
}

static void put(struct w *w, int type, double v)
{
	union {
		float f32;
		double f64;
		int32_t i32;
		int64_t i64;
		uint16_t u16;
		uint8_t u8;
	} u;

	memset(&u, 0, sizeof(u));
	if (type == F16 && v != 0) { /* a normal number; its fraction is cut off */
		uint32_t bits;
		u.f32 = (float)v;
		memcpy(&bits, &u.f32, sizeof(bits));
		u.u16 = (uint16_t)(bits >> 16 & 0x8000) |
			(uint16_t)((bits >> 13 & 0x3ffff) - (112 << 10));
	} else if (type == F32)
		u.f32 = (float)v;
	else if (type == F64)
		u.f64 = v;
	else if (type == I64)
		u.i64 = (int64_t)v;
	else if (type == I32)
		u.i32 = (int32_t)v;
	else
		u.u8 = (uint8_t)(int)v;
	w_put(w, &u, size_of(type));
}

static double spread(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 40) / (1 << 24) - 0.5;
}

static struct w data(int type, struct dims dims, char **word, int n)
{
	int64_t count = 1;
	struct w w = {0};
	int at = 0;

	for (int i = 0; i < dims.n; i++)
		count *= dims.v[i];
	while (at < n && strcmp(word[at], "at"))
		at++;
	if (!at)
		die("no data", "");
	uint64_t seed = at > 1 ? (uint64_t)atoll(word[1]) : 0;
	for (int64_t i = 0; i < count; i++) {
		double v;
		if (!strcmp(word[0], "fill"))
			v = number(word[1]);
		else if (!strcmp(word[0], "ramp"))
			v = number(word[1]) +
			    (number(word[2]) - number(word[1])) * (double)i / (double)count;
		else if (!strcmp(word[0], "rand"))
			v = spread(&seed);
		else
			v = number(word[i % at]);
		put(&w, type, v);
	}
	for (; at + 2 < n; at += 3) {
		struct w one = {0};
		put(&one, type, number(word[at + 2]));
		memcpy(w.p + (size_t)atoll(word[at + 1]) * size_of(type), one.p, one.n);
		w_free(&one);
	}
	return w;
}

/* ---- nodes */

static void names(struct w *node, unsigned field, const char *list)
{
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, ",");
		w_bytes(node, field, p, n == 1 && *p == '_' ? 0 : n);
		p += n + (p[n] == ',');
	}
}

static int is_float(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, 'e', n) ||
	       (n >= 3 && (!strncmp(s, "nan", 3) || !strncmp(s, "inf", 3)));
}

static void attribute(struct w *node, char *word)
{
	char *eq = strchr(word, '='), *v = eq + 1;
	struct w a = {0};

	w_bytes(&a, 1, word, (size_t)(eq - word));
	if (*v == '"') {
		w_bytes(&a, 4, v + 1, strlen(v + 1) - 1);
		w_int(&a, 20, 3);
	} else if (!strncmp(v, "[\"", 2)) {
		for (char *p = v + 1; *p == '"'; p += *p == ',') {
			size_t n = strcspn(p + 1, "\"");
			w_bytes(&a, 9, p + 1, n);
			p += n + 1 + (p[n + 1] == '"');
		}
		w_int(&a, 20, 8);
	} else if (*v == '[') {
		size_t n = strcspn(v, "]");
		int f = is_float(v, n);
		for (char *p = v + 1; *p && *p != ']'; p += *p == ',') {
			char *end;
			if (f)
				w_float(&a, 7, strtof(p, &end));
			else
				w_int(&a, 8, strtoll(p, &end, 10));
			p = end;
		}
		w_int(&a, 20, f ? 6 : 7);
	} else if (is_float(v, strlen(v))) {
		w_float(&a, 2, strtof(v, NULL));
		w_int(&a, 20, 1);
	} else {
		w_int(&a, 3, strtoll(v, NULL, 10));
		w_int(&a, 20, 2);
	}
	w_msg(node, 5, a);
}

/* node OP NAME IN,IN -> OUT ATTR=V; "domain:Op" for one of another domain. */
static void add_node(struct build *b, char **word, int n)
{
	char *colon = strchr(word[1], ':');
	struct w node = {0};

	if (n < 6 || strcmp(word[4], "->"))
		die("not a node", word[1]);
	names(&node, 1, strcmp(word[3], "-") ? word[3] : "");
	names(&node, 2, word[5]);
	w_str(&node, 3, word[2]);
	w_str(&node, 4, colon ? colon + 1 : word[1]);
	for (int i = 6; i < n; i++)
		attribute(&node, word[i]);
	if (colon)
		w_bytes(&node, 7, word[1], (size_t)(colon - word[1]));
	w_msg(&b->nodes, 1, node);
}

static void add_init(struct build *b, char **word, int n)
{
	int type = type_of(word[2]);
	struct dims dims = numbers(word[3]);
	struct w w = !strcmp(word[0], "short") ? (struct w){calloc(1, (size_t)atoi(word[4]) + 1),
							    (size_t)atoi(word[4]), 0}
					       : data(type, dims, word + 4, n - 4);

	w_msg(&b->inits, 5, m_raw(word[1], type, dims, w.p, w.n));
	w_free(&w);
}

static void add_external(struct build *b, char **word)
{
	struct w t = m_tensor(word[1], type_of(word[2]), numbers(word[3])), e = {0};

	w_str(&e, 1, "location");
	w_str(&e, 2, word[4]);
	w_msg(&t, 13, e);
	w_int(&t, 14, 1);
	w_msg(&b->inits, 5, t);
}

/* ---- files */

static void write_all(const struct build *b, const char *name, const struct w *w)
{
	char path[2048];

	snprintf(path, sizeof(path), "%s/%s", b->dir, name);
	FILE *f = fopen(path, "wb");
	if (!f || (w->n && fwrite(w->p, 1, w->n, f) != w->n) || fclose(f))
		die("cannot write", path);
}

static void add_file(const struct build *b, char **word, int n)
{
	int type = type_of(word[2]);
	struct dims dims = numbers(word[3]);
	struct w w = data(type, dims, word + 4, n - 4), all = {0};

	if (!strcmp(word[0], "npy")) {
		static const char *const descr[] = {
			[F32] = "<f4", [U8] = "|u1",   [I8] = "|i1",  [I32] = "<i4",
			[I64] = "<i8", [BOOL] = "|b1", [F16] = "<f2", [F64] = "<f8"};
		char head[256], shape[128] = "";
		for (int i = 0; i < dims.n; i++)
			sprintf(shape + strlen(shape), "%lld,", (long long)dims.v[i]);
		int k = snprintf(head, sizeof(head),
				 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
				 descr[type], shape);
		while ((k + 11) % 64)
			head[k++] = ' ';
		head[k++] = '\n';
		unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)k, 0};
		w_put(&all, start, sizeof(start));
		w_put(&all, head, (size_t)k);
	}
	w_put(&all, w.p, w.n);
	write_all(b, word[1], &all);
	w_free(&w);
	w_free(&all);
}

static void finish(struct build *b)
{
	struct w g = {0}, m = {0}, o = {0};

	w_put(&g, b->nodes.p, b->nodes.n);
	w_str(&g, 2, "g");
	w_put(&g, b->inits.p, b->inits.n);
	w_put(&g, b->inputs.p, b->inputs.n);
	w_put(&g, b->outputs.p, b->outputs.n);
	w_put(&g, b->values.p, b->values.n);
	w_int(&m, 1, b->ir);
	w_msg(&m, 7, g);
	w_int(&o, 2, b->opset);
	w_msg(&m, 8, o);
	w_put(&m, b->imports.p, b->imports.n);
	if (b->text) {
		w_free(&m);
		w_put(&m, b->text, strlen(b->text));
	}
	if (b->cut)
		m.n = m.n * (size_t)b->cut / 100;
	write_all(b, "model.onnx", &m);
	w_free(&m);
	w_free(&b->nodes), w_free(&b->inits), w_free(&b->inputs), w_free(&b->outputs);
	w_free(&b->values), w_free(&b->imports);
}

/* ---- the corpus */

static void import(struct build *b, char **word)
{
	struct w o = {0};

	w_str(&o, 1, strcmp(word[1], "-") ? word[1] : "");
	w_int(&o, 2, atoi(word[2]));
	w_msg(&b->imports, 8, o);
}

static void metadata(struct build *b, char **word)
{
	struct w o = {0};

	w_str(&o, 1, word[1]);
	w_str(&o, 2, word[2]);
	w_msg(&b->imports, 14, o);
}

static void line(struct build *b, char **word, int n, const char *whole)
{
	const char *k = word[0];
	struct w *into = !strcmp(k, "input")	? &b->inputs
			 : !strcmp(k, "output") ? &b->outputs
			 : !strcmp(k, "value")	? &b->values
						: NULL;

	if (!strcmp(k, "expect") || !strcmp(k, "exit") || !strcmp(k, "args") || !strcmp(k, "fault"))
		fprintf(b->notes, "%s\n", whole);
	else if (into && n == 4)
		w_msg(into,
		      into == &b->inputs    ? 11
		      : into == &b->outputs ? 12
					    : 13,
		      value_info(word[1], word[2], word[3]));
	else if ((!strcmp(k, "init") || !strcmp(k, "short")) && n > 4)
		add_init(b, word, n);
	else if (!strcmp(k, "external") && n == 5)
		add_external(b, word);
	else if (!strcmp(k, "node"))
		add_node(b, word, n);
	else if ((!strcmp(k, "npy") || !strcmp(k, "raw")) && n > 4)
		add_file(b, word, n);
	else if (!strcmp(k, "ir") && n == 2)
		b->ir = atoi(word[1]);
	else if (!strcmp(k, "opset") && n == 2)
		b->opset = atoi(word[1]);
	else if (!strcmp(k, "import") && n == 3)
		import(b, word);
	else if (!strcmp(k, "meta") && n == 3)
		metadata(b, word);
	else if (!strcmp(k, "cut") && n == 2)
		b->cut = atoi(word[1]);
	else if (!strcmp(k, "text"))
		b->text = strdup(strlen(whole) > 5 ? whole + 5 : "");
	else
		die("not understood", whole);
}

static int split(char *text, char **word)
{
	int n = 0;

	for (char *p = strtok(text, " \t"); p && n < WORDS; p = strtok(NULL, " \t"))
		word[n++] = p;
	return n;
}

/* The line with "%" as `each`. */
static char *fill_in(const char *text, const char *each)
{
	char *out = malloc(strlen(text) + strlen(each) * strlen(text) + 1), *o = out;

	for (; *text; text++)
		if (*text == '%')
			o = stpcpy(o, each);
		else
			*o++ = *text;
	*o = 0;
	return out;
}

static void make_case(const char *dir, const char *name, char **lines, int n, const char *each)
{
	struct build b = {.ir = 8, .opset = 17};
	char *word[WORDS], path[2048];

	snprintf(b.dir, sizeof(b.dir), "%s/%s%s%s", dir, name, *each ? "-" : "", each);
	mkdir(b.dir, 0777);
	snprintf(path, sizeof(path), "%s/case", b.dir);
	b.notes = fopen(path, "w");
	if (!b.notes)
		die("cannot write", path);
	for (int i = 0; i < n; i++) {
		char *whole = fill_in(lines[i], each), *copy = strdup(whole);
		int words = split(copy, word);
		if (words)
			line(&b, word, words, whole);
		free(copy);
		free(whole);
	}
	fclose(b.notes);
	finish(&b);
}

static void end_case(const char *dir, const char *name, char **lines, int n, char *each)
{
	char *word[WORDS];
	int words = each ? split(each, word) : 0;

	for (int i = 1; i < words; i++)
		make_case(dir, name, lines, n, word[i]);
	if (!each && *name)
		make_case(dir, name, lines, n, "");
	for (int i = 0; i < n; i++)
		free(lines[i]);
}

static void corpus(const char *path, const char *dir)
{
	char *lines[LINES], *text = NULL, *each = NULL, name[128] = "";
	FILE *f = fopen(path, "r");
	size_t cap = 0;
	int n = 0;

	if (!f)
		die("cannot read", path);
	while (getline(&text, &cap, f) > 0) {
		text[strcspn(text, "\n")] = 0;
		if (!strncmp(text, "case ", 5)) {
			end_case(dir, name, lines, n, each);
			snprintf(name, sizeof(name), "%s", text + 5);
			each = NULL;
			n = 0;
		} else if (!strncmp(text, "for ", 4)) {
			each = strdup(text);
		} else if (*text && *text != '#' && n < LINES) {
			lines[n++] = strdup(text);
		}
	}
	end_case(dir, name, lines, n, each);
	fclose(f);
	free(text);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return fputs("usage: make CORPUS... DIR\n", stderr), 2;
	mkdir(argv[argc - 1], 0777);
	for (int i = 1; i < argc - 1; i++)
		corpus(argv[i], argv[argc - 1]);
	return 0;
}
