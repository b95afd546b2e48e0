/* SPDX-License-Identifier: Apache-2.0 */
#include "base/re.h"

#include "base/utf8.h"

#include <string.h>

/* ---- the program -------------------------------------------------------------------------------- */

enum { MAX_PROGRAM = 100000, MAX_REPEAT = 1000, MAX_NEST = 200, MAX_CHAR = 0x10ffff };

enum opcode {
	RE_SET,
	RE_SPLIT,
	RE_JUMP,
	RE_BEGIN_TEXT,
	RE_END_TEXT,
	RE_BEGIN_LINE,
	RE_END_LINE,
	RE_WORD,
	RE_NOT_WORD,
	RE_MATCH
};

struct range {
	uint32_t low, high;
};
struct set {
	struct range *v;
	int n, cap;
};
struct inst {
	enum opcode op;
	int x, y;	/* x: next instruction; y: second branch of an RE_SPLIT */
	struct set set; /* for RE_SET: character ranges that are sorted and do not touch */
};
struct re {
	struct inst *prog;
	int n, start;
};

/* ---- sets of code points ---------------------------------------------------------------------------- */

static void set_add(struct arena *a, struct set *s, uint32_t low, uint32_t high)
{
	if (s->n == s->cap) {
		int cap = s->cap ? 2 * s->cap : 8;
		s->v = arena_grow(a, s->v, (size_t)s->n, (size_t)cap, sizeof(*s->v));
		s->cap = cap;
	}
	s->v[s->n++] = (struct range){low, high};
}

/* Sorts the ranges of a set, and joins ranges that overlap or touch. */
static void set_tidy(struct set *s)
{
	int n = 0;

	for (int i = 1; i < s->n; i++) {
		struct range r = s->v[i];
		int j = i;
		for (; j > 0 && s->v[j - 1].low > r.low; j--)
			s->v[j] = s->v[j - 1];
		s->v[j] = r;
	}
	for (int i = 0; i < s->n; i++) {
		if (n && s->v[i].low <= s->v[n - 1].high + 1) {
			if (s->v[i].high > s->v[n - 1].high)
				s->v[n - 1].high = s->v[i].high;
		} else {
			s->v[n++] = s->v[i];
		}
	}
	s->n = n;
}

static void set_negate(struct arena *a, struct set *s)
{
	struct set out = {0};
	uint32_t next = 0;

	set_tidy(s);
	for (int i = 0; i < s->n; i++) {
		if (s->v[i].low > next)
			set_add(a, &out, next, s->v[i].low - 1);
		next = s->v[i].high + 1;
	}
	if (next <= MAX_CHAR)
		set_add(a, &out, next, MAX_CHAR);
	*s = out;
}

static void set_join(struct arena *a, struct set *s, const struct set *t)
{
	for (int i = 0; i < t->n; i++)
		set_add(a, s, t->v[i].low, t->v[i].high);
}

/*
 * Adds the other case of each letter of ASCII, Latin-1, Greek and Cyrillic, whose upper and lower
 * cases are 32 apart.
 */
static void set_fold(struct arena *a, struct set *s)
{
	static const struct range upper[] = {
		{'A', 'Z'}, {0xc0, 0xd6}, {0xd8, 0xde}, {0x391, 0x3a9}, {0x410, 0x42f}};
	int n = s->n;

	for (int i = 0; i < n; i++) {
		for (size_t k = 0; k < sizeof(upper) / sizeof(*upper); k++) {
			struct range r = s->v[i], u = upper[k];
			uint32_t low = r.low > u.low ? r.low : u.low,
				 high = r.high < u.high ? r.high : u.high;
			if (low <= high)
				set_add(a, s, low + 32, high + 32);
			low = r.low > u.low + 32 ? r.low : u.low + 32;
			high = r.high < u.high + 32 ? r.high : u.high + 32;
			if (low <= high)
				set_add(a, s, low - 32, high - 32);
		}
	}
}

static bool set_has(const struct set *s, uint32_t c)
{
	int low = 0, high = s->n - 1;

	while (low <= high) {
		int mid = (low + high) / 2;
		if (c < s->v[mid].low)
			high = mid - 1;
		else if (c > s->v[mid].high)
			low = mid + 1;
		else
			return true;
	}
	return false;
}

/* ---- the parser: straight to instructions ------------------------------------------------------------- */

/*
 * A fragment of the compiled program. Its open ends are the members x and y of instructions whose
 * successor is not known yet. They form a linked list: each open member holds the number of the
 * next open end, which is 2 * instruction, plus 1 for y; -1 ends the list.
 */
struct frag {
	int start, ends;
};

struct parser {
	const char *p, *end;
	struct arena *arena;
	struct diag *diag;
	struct inst *prog;
	int n, cap, depth;
	bool fold, dot_all, multi, failed;
};

static struct frag refuse(struct parser *s, const char *what)
{
	if (!s->failed)
		FAIL(s->diag, E_OP_ATTRIBUTE, .expected = "a regular expression in RE2's syntax",
		     .actual = what);
	s->failed = true;
	return (struct frag){0, -1};
}

static int emit(struct parser *s, enum opcode op)
{
	if (s->n >= MAX_PROGRAM) {
		refuse(s, "a pattern that is too large");
		return 0;
	}
	if (s->n == s->cap) {
		int cap = s->cap ? 2 * s->cap : 64;
		s->prog = arena_grow(s->arena, s->prog, (size_t)s->n, (size_t)cap, sizeof(*s->prog));
		s->cap = cap;
	}
	s->prog[s->n] = (struct inst){.op = op, .x = -1, .y = -1};
	return s->n++;
}

static int *end_slot(struct parser *s, int e)
{
	return e & 1 ? &s->prog[e >> 1].y : &s->prog[e >> 1].x;
}

static void patch(struct parser *s, int ends, int to)
{
	while (ends >= 0) {
		int *p = end_slot(s, ends);
		ends = *p;
		*p = to;
	}
}

static int join_ends(struct parser *s, int a, int b)
{
	if (a < 0)
		return b;
	for (int e = a;;) {
		int *p = end_slot(s, e);
		if (*p < 0) {
			*p = b;
			return a;
		}
		e = *p;
	}
}

static struct frag emit_single(struct parser *s, enum opcode op)
{
	int i = emit(s, op);
	return (struct frag){i, 2 * i};
}

static struct frag emit_set(struct parser *s, struct set *set)
{
	if (s->fold)
		set_fold(s->arena, set);
	set_tidy(set);
	struct frag f = emit_single(s, RE_SET);
	if (!s->failed)
		s->prog[f.start].set = *set;
	return f;
}

static struct frag concatenate(struct parser *s, struct frag a, struct frag b)
{
	if (s->failed)
		return a;
	patch(s, a.ends, b.start);
	return (struct frag){a.start, b.ends};
}

static struct frag emit_empty(struct parser *s)
{
	return emit_single(s, RE_JUMP);
}

static struct frag parse_alternatives(struct parser *s);

/*
 * Adds Perl's class d, w or s to a set, or the complement of the class if the letter is a capital.
 * Returns false for any other letter.
 */
static bool perl_class(struct parser *s, char letter, struct set *out)
{
	struct set c = {0};
	char l = letter | 0x20;

	if (l == 'd') {
		set_add(s->arena, &c, '0', '9');
	} else if (l == 'w') {
		set_add(s->arena, &c, '0', '9');
		set_add(s->arena, &c, 'A', 'Z');
		set_add(s->arena, &c, '_', '_');
		set_add(s->arena, &c, 'a', 'z');
	} else if (l == 's') {
		set_add(s->arena, &c, '\t', '\n');
		set_add(s->arena, &c, '\f', '\r');
		set_add(s->arena, &c, ' ', ' ');
	} else {
		return false;
	}
	if (letter != l)
		set_negate(s->arena, &c);
	set_join(s->arena, out, &c);
	return true;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'			? c - '0'
	       : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
							: -1;
}

/* Parses the digits after "\x". */
static bool hex_escape(struct parser *s, uint32_t *c)
{
	*c = 0;
	if (s->p < s->end && *s->p == '{') {
		for (s->p++; s->p < s->end && hex_digit(*s->p) >= 0 && *c <= MAX_CHAR; s->p++)
			*c = *c * 16 + (uint32_t)hex_digit(*s->p);
		return s->p < s->end && *s->p++ == '}' && *c <= MAX_CHAR;
	}
	for (int i = 0; i < 2; i++, s->p++) {
		if (s->p >= s->end || hex_digit(*s->p) < 0)
			return false;
		*c = *c * 16 + (uint32_t)hex_digit(*s->p);
	}
	return true;
}

/*
 * Parses an escape that stands for one character; p is after the backslash. Returns false if the
 * escape does not stand for a character.
 */
static bool char_escape(struct parser *s, uint32_t *c)
{
	static const char letters[] = "aftnrv", values[] = "\a\f\t\n\r\v";
	char l = *s->p;
	const char *known = l ? strchr(letters, l) : NULL;

	if (l == 'x') {
		s->p++;
		return hex_escape(s, c);
	}
	if (known) {
		*c = (uint32_t)values[known - letters];
		s->p++;
		return true;
	}
	/* one digit other than 0 would be a back reference */
	bool octal = l >= '0' && l <= '7',
	     second = s->end - s->p > 1 && s->p[1] >= '0' && s->p[1] <= '7';
	if (octal && (l == '0' || second)) {
		*c = 0;
		for (int i = 0; i < 3 && s->p < s->end && *s->p >= '0' && *s->p <= '7'; i++)
			*c = *c * 8 + (uint32_t)(*s->p++ - '0');
		return true;
	}
	if ((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z') || (l >= '1' && l <= '9'))
		return false;
	size_t n;
	*c = utf8_get(s->p, s->end, &n);
	s->p += n;
	return true;
}

static const struct {
	const char *name, *ranges; /* pairs of characters */
} posix[] = {{"alnum", "09AZaz"},
	     {"alpha", "AZaz"},
	     {"ascii", "\1\177"},
	     {"blank", "\t\t  "},
	     {"cntrl", "\1\37\177\177"},
	     {"digit", "09"},
	     {"graph", "!~"},
	     {"lower", "az"},
	     {"print", " ~"},
	     {"punct", "!/:@[`{~"},
	     {"space", "\t\r  "},
	     {"upper", "AZ"},
	     {"word", "09AZ__az"},
	     {"xdigit", "09AFaf"}};

/* Parses a class such as "[:alpha:]" at p. Returns false if there is no class of this name. */
static bool posix_class(struct parser *s, struct set *out)
{
	const char *p = s->p + 2;
	bool negate = p < s->end && *p == '^';

	p += negate;
	for (size_t i = 0; i < sizeof(posix) / sizeof(*posix); i++) {
		size_t n = strlen(posix[i].name);
		if ((size_t)(s->end - p) < n + 2 || memcmp(p, posix[i].name, n) != 0 ||
		    memcmp(p + n, ":]", 2) != 0)
			continue;
		struct set c = {0};
		for (const char *r = posix[i].ranges; *r; r += 2)
			set_add(s->arena, &c, (unsigned char)r[0], (unsigned char)r[1]);
		if (negate)
			set_negate(s->arena, &c);
		set_join(s->arena, out, &c);
		s->p = p + n + 2;
		return true;
	}
	return false;
}

/* Parses one character inside a class, which may be an escape. */
static bool class_char(struct parser *s, uint32_t *c)
{
	size_t n;

	if (s->p >= s->end)
		return false;
	if (*s->p == '\\') {
		s->p++;
		return s->p < s->end && char_escape(s, c);
	}
	*c = utf8_get(s->p, s->end, &n);
	s->p += n;
	return true;
}

static struct frag parse_class(struct parser *s)
{
	struct set set = {0};
	bool negate = s->p < s->end && *s->p == '^';

	s->p += negate;
	for (bool first = true;; first = false) {
		uint32_t low, high;
		if (s->p >= s->end)
			return refuse(s, "a class without ']'");
		if (*s->p == ']' && !first)
			break;
		if (s->end - s->p > 2 && s->p[0] == '[' && s->p[1] == ':' && posix_class(s, &set))
			continue;
		if (s->end - s->p > 1 && s->p[0] == '\\' && perl_class(s, s->p[1], &set)) {
			s->p += 2;
			continue;
		}
		if (!class_char(s, &low))
			return refuse(s, "an escape that is not known");
		high = low;
		if (s->end - s->p > 1 && s->p[0] == '-' && s->p[1] != ']') {
			s->p++;
			if (!class_char(s, &high) || high < low)
				return refuse(s, "a range that runs backwards");
		}
		set_add(s->arena, &set, low, high);
	}
	s->p++;
	if (s->fold)
		set_fold(s->arena, &set);
	if (negate)
		set_negate(s->arena, &set);
	bool fold = s->fold;
	s->fold = false;
	struct frag f = emit_set(s, &set);
	s->fold = fold;
	return f;
}

/*
 * Parses the flags of "(?flags)" or "(?flags:...)". Returns true for the second form, whose group
 * follows.
 */
static bool parse_flags(struct parser *s)
{
	bool on = true;

	for (; s->p < s->end && *s->p != ')' && *s->p != ':'; s->p++) {
		if (*s->p == '-')
			on = false;
		else if (*s->p == 'i')
			s->fold = on;
		else if (*s->p == 's')
			s->dot_all = on;
		else if (*s->p == 'm')
			s->multi = on;
		else if (*s->p != 'U')
			refuse(s, "a flag that is not known");
	}
	if (s->p >= s->end) {
		refuse(s, "a group without ')'");
		return false;
	}
	return *s->p++ == ':';
}

static struct frag parse_group(struct parser *s)
{
	bool fold = s->fold, dot_all = s->dot_all, multi = s->multi;

	if (s->end - s->p > 1 && s->p[0] == '?') {
		s->p++;
		bool named = *s->p == 'P' || *s->p == '<';
		if (named) {
			if (s->end - s->p > 1 && s->p[0] == '<' && (s->p[1] == '=' || s->p[1] == '!'))
				return refuse(s, "a look-behind");
			while (s->p < s->end && *s->p != '>')
				s->p++;
			s->p += s->p < s->end;
		} else if (*s->p == '=' || *s->p == '!') {
			return refuse(s, "a look-ahead");
		} else if (!parse_flags(s)) {
			/*
			 * the flags of "(?flags)" apply to the rest of the enclosing group, so emit
			 * nothing
			 */
			return emit_empty(s);
		}
	}
	if (++s->depth > MAX_NEST)
		return refuse(s, "groups that are nested too deeply");
	struct frag f = parse_alternatives(s);
	s->depth--;
	s->fold = fold;
	s->dot_all = dot_all;
	s->multi = multi;
	if (s->p >= s->end || *s->p != ')')
		return refuse(s, "a group without ')'");
	s->p++;
	return f;
}

static struct frag parse_quote(struct parser *s)
{
	struct frag f = emit_empty(s);

	while (s->p < s->end && !(s->end - s->p > 1 && s->p[0] == '\\' && s->p[1] == 'E') &&
	       !s->failed) {
		struct set set = {0};
		size_t n;
		uint32_t c = utf8_get(s->p, s->end, &n);
		s->p += n;
		set_add(s->arena, &set, c, c);
		f = concatenate(s, f, emit_set(s, &set));
	}
	if (s->p < s->end)
		s->p += 2;
	return f;
}

/* Parses an escape outside a class; p is after the backslash. */
static struct frag parse_escape(struct parser *s)
{
	struct set set = {0};
	uint32_t c;

	if (s->p >= s->end)
		return refuse(s, "a backslash at the end");
	if (perl_class(s, *s->p, &set)) {
		s->p++;
		return emit_set(s, &set);
	}
	switch (*s->p) {
	case 'A': s->p++; return emit_single(s, RE_BEGIN_TEXT);
	case 'z': s->p++; return emit_single(s, RE_END_TEXT);
	case 'b': s->p++; return emit_single(s, RE_WORD);
	case 'B': s->p++; return emit_single(s, RE_NOT_WORD);
	case 'Q': s->p++; return parse_quote(s);
	case 'C':
		s->p++;
		set_add(s->arena, &set, 0, MAX_CHAR);
		return emit_set(s, &set);
	default: break;
	}
	if (!char_escape(s, &c))
		return refuse(s, "an escape that is not known");
	set_add(s->arena, &set, c, c);
	return emit_set(s, &set);
}

static struct frag parse_atom(struct parser *s)
{
	struct set set = {0};
	size_t n;
	uint32_t c = utf8_get(s->p, s->end, &n);

	s->p += n;
	switch (c) {
	case '(': return parse_group(s);
	case '[': return parse_class(s);
	case '\\': return parse_escape(s);
	case '^': return emit_single(s, s->multi ? RE_BEGIN_LINE : RE_BEGIN_TEXT);
	case '$': return emit_single(s, s->multi ? RE_END_LINE : RE_END_TEXT);
	case '*':
	case '+':
	case '?': return refuse(s, "a repeat of nothing");
	case '.':
		set_add(s->arena, &set, 0, MAX_CHAR);
		if (!s->dot_all) {
			set.n = 0;
			set_add(s->arena, &set, 0, '\n' - 1);
			set_add(s->arena, &set, '\n' + 1, MAX_CHAR);
		}
		break;
	default: set_add(s->arena, &set, c, c); break;
	}
	return emit_set(s, &set);
}

/* Parses "{n}", "{n,}" or "{n,m}" at p. Returns false if the brace is an ordinary character. */
static bool parse_counts(struct parser *s, int *low, int *high)
{
	const char *p = s->p + 1;

	if (p >= s->end || *p < '0' || *p > '9')
		return false;
	for (*low = 0; p < s->end && *p >= '0' && *p <= '9' && *low <= MAX_REPEAT; p++)
		*low = *low * 10 + (*p - '0');
	*high = *low;
	if (p < s->end && *p == ',') {
		p++;
		*high = -1;
		if (p < s->end && *p >= '0' && *p <= '9')
			for (*high = 0; p < s->end && *p >= '0' && *p <= '9' && *high <= MAX_REPEAT;
			     p++)
				*high = *high * 10 + (*p - '0');
	}
	if (p >= s->end || *p != '}')
		return false;
	s->p = p + 1;
	return true;
}

static struct frag emit_repeat(struct parser *s, struct frag a, char how)
{
	int i = emit(s, RE_SPLIT);

	if (s->failed)
		return a;
	s->prog[i].x = a.start;
	if (how == '?')
		return (struct frag){i, join_ends(s, 2 * i + 1, a.ends)};
	patch(s, a.ends, i);
	return (struct frag){how == '+' ? a.start : i, 2 * i + 1};
}

/* Emits an atom once more. Parses its text again, because fragments cannot be copied. */
static struct frag parse_again(struct parser *s, const char *from, const char *to)
{
	struct parser saved = *s;

	s->p = from;
	s->end = to;
	struct frag f = parse_atom(s);
	s->p = saved.p;
	s->end = saved.end;
	return f;
}

static struct frag parse_counted(struct parser *s, struct frag first, const char *from,
				 const char *to, int low, int high)
{
	struct frag f = low ? first : emit_empty(s);

	if (low > MAX_REPEAT || high > MAX_REPEAT || (high >= 0 && high < low))
		return refuse(s, "a repeat count that is not allowed");
	for (int i = 1; i < low && !s->failed; i++)
		f = concatenate(s, f, parse_again(s, from, to));
	if (high < 0 && !s->failed)
		f = concatenate(s, f, emit_repeat(s, parse_again(s, from, to), '*'));
	for (int i = low; i < high && !s->failed; i++)
		f = concatenate(s, f, emit_repeat(s, parse_again(s, from, to), '?'));
	return f;
}

static struct frag parse_repeats(struct parser *s)
{
	const char *from = s->p;
	struct frag f = parse_atom(s);
	const char *to = s->p;
	bool done = false;

	while (s->p < s->end && !s->failed && !done) {
		int low, high;
		if (*s->p == '*' || *s->p == '+' || *s->p == '?') {
			f = emit_repeat(s, f, *s->p++);
		} else if (*s->p == '{' && parse_counts(s, &low, &high)) {
			f = parse_counted(s, f, from, to, low, high);
		} else {
			break;
		}
		if (s->p < s->end && *s->p == '?')
			/*
			 * a lazy quantifier is treated like a greedy one, since both match the same
			 * whole strings
			 */
			s->p++;
		done = true;
		if (s->p < s->end && (*s->p == '*' || *s->p == '+' || *s->p == '?'))
			return refuse(s, "a repeat of a repeat");
	}
	return f;
}

static struct frag parse_sequence(struct parser *s)
{
	struct frag f = emit_empty(s);

	while (s->p < s->end && *s->p != '|' && *s->p != ')' && !s->failed)
		f = concatenate(s, f, parse_repeats(s));
	return f;
}

static struct frag parse_alternatives(struct parser *s)
{
	struct frag f = parse_sequence(s);

	while (s->p < s->end && *s->p == '|' && !s->failed) {
		s->p++;
		struct frag g = parse_sequence(s);
		int i = emit(s, RE_SPLIT);
		if (s->failed)
			break;
		s->prog[i].x = f.start;
		s->prog[i].y = g.start;
		f = (struct frag){i, join_ends(s, f.ends, g.ends)};
	}
	return f;
}

const struct re *re_compile(const char *pattern, size_t n, struct arena *a, struct diag *d)
{
	struct parser s = {.p = pattern, .end = pattern + n, .arena = a, .diag = d};
	struct frag f = parse_alternatives(&s);

	if (!s.failed && s.p < s.end)
		refuse(&s, "a ')' without '('");
	int match = emit(&s, RE_MATCH);
	if (s.failed)
		return NULL;
	patch(&s, f.ends, match);
	struct re *re = arena_new(a, struct re);
	*re = (struct re){s.prog, s.n, f.start};
	return re;
}

/* ---- matching ------------------------------------------------------------------------------------------ */

struct threads {
	int *list; /* the instructions (RE_SET or RE_MATCH) at which the threads are */
	int n;
	size_t *begin; /* where the match of each thread begins */
	/*
	 * for each instruction, the last step that reached it, so that no instruction is listed
	 * twice
	 */
	int *seen;
};

struct matcher {
	const struct re *re;
	struct threads now, next;
	int *stack;
	const char *begin, *end;
	int step;
};

size_t re_scratch(const struct re *re)
{
	return (size_t)re->n * (2 * sizeof(size_t) + 6 * sizeof(int));
}

static bool word_at(const struct matcher *m, const char *p)
{
	return p >= m->begin && p < m->end &&
	       ((*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') || *p == '_');
}

static bool assertion_holds(const struct matcher *m, enum opcode op, const char *p)
{
	bool edge = word_at(m, p - 1) != word_at(m, p);

	switch (op) {
	case RE_BEGIN_TEXT: return p == m->begin;
	case RE_END_TEXT: return p == m->end;
	case RE_BEGIN_LINE: return p == m->begin || p[-1] == '\n';
	case RE_END_LINE: return p == m->end || *p == '\n';
	case RE_WORD: return edge;
	case RE_NOT_WORD: return !edge;
	case RE_SET:
	case RE_SPLIT:
	case RE_JUMP:
	case RE_MATCH: break;
	}
	return true;
}

/*
 * Adds threads for all instructions that instruction i reaches at text position p without reading a
 * character. Of threads at one instruction the first that is added stays.
 */
static void add_threads(struct matcher *m, struct threads *t, int i, const char *p, size_t begin)
{
	int n = 0;

	m->stack[n++] = i;
	while (n) {
		i = m->stack[--n];
		if (t->seen[i] == m->step)
			continue;
		t->seen[i] = m->step;
		const struct inst *in = &m->re->prog[i];
		if (in->op == RE_SET || in->op == RE_MATCH) {
			t->begin[t->n] = begin;
			t->list[t->n++] = i;
		} else if (in->op == RE_SPLIT) {
			m->stack[n++] = in->y;
			m->stack[n++] = in->x;
		} else if (assertion_holds(m, in->op, p)) {
			m->stack[n++] = in->x;
		}
	}
}

static struct matcher start_matcher(const struct re *re, const char *text, size_t n, void *scratch)
{
	size_t *begins = scratch;
	int size = re->n, *room = (int *)(begins + 2 * size);
	struct matcher m = {.re = re, .begin = text, .end = text + n, .step = 1};

	m.now = (struct threads){.list = room, .seen = room + 2 * size, .begin = begins};
	m.next = (struct threads){.list = room + size, .seen = room + 3 * size, .begin = begins + size};
	/*
	 * the stack has room for each instruction twice, since both branches of a split may push it
	 */
	m.stack = room + 4 * size;
	memset(m.now.seen, 0, 2 * (size_t)size * sizeof(int));
	return m;
}

/* Moves the threads whose match begins at `last` or before over the character at p. Returns the position after it. */
static const char *step_over(struct matcher *m, const char *p, size_t last)
{
	size_t len;
	uint32_t c = utf8_get(p, m->end, &len);

	p += len;
	m->step++;
	m->next.n = 0;
	for (int i = 0; i < m->now.n; i++) {
		const struct inst *in = &m->re->prog[m->now.list[i]];
		if (in->op == RE_SET && m->now.begin[i] <= last && set_has(&in->set, c))
			add_threads(m, &m->next, in->x, p, m->now.begin[i]);
	}
	struct threads t = m->now;
	m->now = m->next;
	m->next = t;
	return p;
}

bool re_search(const struct re *re, const char *text, size_t n, size_t from, void *scratch,
	       size_t *begin, size_t *end)
{
	struct matcher m = start_matcher(re, text, n, scratch);
	bool found = false;

	/* threads lie in the order in which their matches begin, so that of two at one instruction the earlier stays */
	for (const char *p = text + from;; p = step_over(&m, p, found ? *begin : SIZE_MAX)) {
		if (!found)
			add_threads(&m, &m.now, re->start, p, (size_t)(p - text));
		for (int i = 0; i < m.now.n; i++) {
			if (re->prog[m.now.list[i]].op != RE_MATCH ||
			    (found && m.now.begin[i] > *begin))
				continue;
			found = true;
			*begin = m.now.begin[i];
			*end = (size_t)(p - text);
		}
		if (p >= m.end || (found && !m.now.n))
			return found;
	}
}

bool re_full_match(const struct re *re, const char *text, size_t n, void *scratch)
{
	struct matcher m = start_matcher(re, text, n, scratch);
	const char *p = text;

	add_threads(&m, &m.now, re->start, p, 0);
	while (p < m.end && m.now.n)
		p = step_over(&m, p, 0);
	for (int i = 0; i < m.now.n && p == m.end; i++)
		if (re->prog[m.now.list[i]].op == RE_MATCH)
			return true;
	return false;
}
