/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/text.h"

#include "base/hash.h"
#include "base/re.h"
#include "base/utf8.h"
#include "cpu/math/move.h"

#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <wctype.h>

/* ---- StringNormalizer ------------------------------------------------------------------------------ */

struct normalizer {
	locale_t locale;
	const struct string_normalizer_params *p;
	struct map stop; /* the stop words, in lower case unless case counts */
};

/* Returns the string t in upper or lower case. Without a locale only ASCII letters change. */
static struct text change_case(struct arena *a, locale_t locale, struct text t, enum case_change how)
{
	if (how == CASE_NONE)
		return t;
	char *out = arena_alloc(a, 4 * t.n + 1);
	size_t n = 0, len;
	for (const char *p = t.s, *end = t.s + t.n; p < end; p += len) {
		uint32_t c = utf8_get(p, end, &len);
		if (len == 1 && c >= 0x80) {
			out[n++] = *p; /* not UTF-8: copied unchanged */
			continue;
		}
		if (c < 0x80 || !locale) {
			bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
			c += how == CASE_LOWER && upper	  ? 32u
			     : how == CASE_UPPER && lower ? -32u
							  : 0;
		} else {
			c = (uint32_t)(how == CASE_LOWER ? towlower_l((wint_t)c, locale)
							 : towupper_l((wint_t)c, locale));
		}
		n += utf8_put(c, out + n);
	}
	return (struct text){out, n};
}

static int normalizer_reshape(struct site *s, struct step *st, struct diag *d)
{
	struct normalizer *v = arena_new(s->plan_arena, struct normalizer);

	(void)d;
	v->p = site_params(s);
	v->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	v->stop.arena = s->plan_arena;
	for (int64_t i = 0; i < v->p->stopwords.n; i++) {
		struct text w = v->p->stopwords.v[i];
		if (!v->p->is_case_sensitive)
			w = change_case(s->plan_arena, v->locale, w, CASE_LOWER);
		map_set(&v->stop, w.s, w.n, 1);
	}
	st->state = v;
	return 0;
}

static void normalizer_drop(struct step *st)
{
	struct normalizer *v = st->state;

	if (v && v->locale)
		freelocale(v->locale);
	st->state = NULL;
}

static int normalizer_run(const struct call *c)
{
	const struct normalizer *v = c->step->state;
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x), kept = 0;
	struct arena a = {0};
	struct text *out = arena_new_n(&a, struct text, (size_t)n + 1);
	struct shape s = x->shape;

	for (int64_t i = 0; i < n; i++) {
		struct text t, key;
		t.s = tensor_string(x, i, &t.n);
		key = v->p->is_case_sensitive ? t : change_case(&a, v->locale, t, CASE_LOWER);
		if (v->p->stopwords.n > 0 && map_get(&v->stop, key.s, key.n) >= 0)
			continue;
		out[kept++] =
			change_case(&a, v->locale, t, (enum case_change)v->p->case_change_action);
	}
	if (!kept)
		out[kept++] = (struct text){
			"", 0}; /* ONNX: if no string is left, the output is one empty string */
	if (!s.rank)
		s.rank = 1;
	s.dim[s.rank - 1] = kept;
	int err = move_pack(c, 0, DT_STRING, &s, out);
	arena_free(&a);
	return err;
}

/* ---- StringConcat, RegexFullMatch ------------------------------------------------------------------- */

static int concat_run(const struct call *c)
{
	const struct tensor *x = c->in[0], *y = c->in[1];
	struct shape s;
	struct arena a = {0};
	int64_t sx[MAX_RANK], sy[MAX_RANK], at[MAX_RANK] = {0}, ix = 0, iy = 0;

	if (!shape_broadcast(&x->shape, &y->shape, &s))
		return call_fail(c, E_SHAPE, "shapes that broadcast", NULL);
	shape_broadcast_strides(&x->shape, &s, sx);
	shape_broadcast_strides(&y->shape, &s, sy);
	int64_t n = shape_count(&s);
	struct text *out = arena_new_n(&a, struct text, (size_t)n + 1);
	for (int64_t k = 0; k < n; k++) {
		size_t lx, ly;
		const char *tx = tensor_string(x, ix, &lx), *ty = tensor_string(y, iy, &ly);
		char *t = arena_alloc(&a, lx + ly + 1);
		if (lx)
			memcpy(t, tx, lx);
		if (ly)
			memcpy(t + lx, ty, ly);
		out[k] = (struct text){t, lx + ly};
		for (int i = s.rank - 1; i >= 0; i--) {
			ix += sx[i];
			iy += sy[i];
			if (++at[i] < s.dim[i])
				break;
			ix -= sx[i] * s.dim[i];
			iy -= sy[i] * s.dim[i];
			at[i] = 0;
		}
	}
	int err = move_pack(c, 0, DT_STRING, &s, out);
	arena_free(&a);
	return err;
}

static int regex_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct regex_params *p = site_params(s);
	const struct re *re = re_compile(p->pattern, strlen(p->pattern), s->plan_arena, d);

	if (!re)
		return -E_OP_ATTRIBUTE;
	st->workspace = re_scratch(re);
	st->state = (void *)(uintptr_t)re;
	return 0;
}

static int regex_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	uint8_t *y = c->out[0]->data;

	for (int64_t i = 0, n = tensor_count(x); i < n; i++) {
		size_t len;
		const char *t = tensor_string(x, i, &len);
		y[i] = re_full_match(c->step->state, t, len, c->workspace);
	}
	return 0;
}

/* ---- StringSplit -------------------------------------------------------------------------------------- */

/* Returns the length in bytes of the Unicode white space character at p, or 0 if there is none. */
static size_t space_at(const char *p, const char *end)
{
	size_t n;

	if (p >= end)
		return 0;
	uint32_t c = utf8_get(p, end, &n);
	if (n == 1 && c >= 0x80)
		return 0;
	bool space = (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
		     c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
		     c == 0x202f || c == 0x205f || c == 0x3000;
	return space ? n : 0;
}

struct pieces {
	struct arena *arena;
	struct text *v;
	size_t n, cap;
};

static void add_piece(struct pieces *s, const char *from, const char *to)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		s->v = arena_grow(s->arena, s->v, s->n, cap, sizeof(*s->v));
		s->cap = cap;
	}
	s->v[s->n++] = (struct text){from, (size_t)(to - from)};
}

/* Splits t at runs of white space, at most `limit` times; the rest of t becomes the last piece. */
static void split_at_spaces(struct pieces *s, struct text t, int64_t limit)
{
	const char *p = t.s, *end = t.s + t.n;
	int64_t made = 0;

	for (;;) {
		for (size_t n; (n = space_at(p, end)) > 0;)
			p += n;
		if (p >= end)
			return;
		if (made++ == limit) {
			add_piece(s, p, end);
			return;
		}
		const char *from = p;
		while (p < end && !space_at(p, end)) {
			size_t n;
			utf8_get(p, end, &n);
			p += n;
		}
		add_piece(s, from, p);
	}
}

/* Splits t at each `mark`, at most `limit` times. */
static void split_at_mark(struct pieces *s, struct text t, const char *mark, int64_t limit)
{
	size_t n = strlen(mark);
	const char *p = t.s, *from = p, *end = t.s + t.n;
	int64_t made = 0;

	while (made < limit && (size_t)(end - p) >= n) {
		if (memcmp(p, mark, n) != 0) {
			p++;
			continue;
		}
		add_piece(s, from, p);
		p += n;
		from = p;
		made++;
	}
	add_piece(s, from, end);
}

/*
 * Stores the pieces as rows of equal length, padded with empty strings, and the number of pieces of
 * each string in output 1.
 */
static int store_pieces(const struct call *c, const struct pieces *s, const int64_t *counts)
{
	const struct tensor *x = c->in[0];
	struct shape y = x->shape;
	int64_t n = tensor_count(x), most = 0;
	size_t k = 0, room;

	for (int64_t i = 0; i < n; i++)
		most = counts[i] > most ? counts[i] : most;
	y.dim[y.rank++] = most;
	if (c->step->nout > 1 && c->out[1]) {
		int err = call_alloc(c, 1, DT_I64, &x->shape);
		if (err)
			return err;
		if (n)
			memcpy(c->out[1]->data, counts, (size_t)n * sizeof(*counts));
	}
	if (!c->out[0])
		return 0;
	if (!size_mul((size_t)n, (size_t)most, &room))
		return call_fail(c, E_SIZE, NULL, NULL);
	struct text *out = arena_new_n(s->arena, struct text, room + 1);
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < counts[i]; j++)
			out[i * most + j] = s->v[k++];
	return move_pack(c, 0, DT_STRING, &y, out);
}

static int split_run(const struct call *c)
{
	const struct string_split_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(x),
		limit = p->maxsplit == INT_ABSENT || p->maxsplit < 0 ? INT64_MAX : p->maxsplit;
	struct arena a = {0};
	struct pieces s = {.arena = &a};
	int64_t *counts = arena_new_n(&a, int64_t, (size_t)n + 1);

	for (int64_t i = 0; i < n; i++) {
		struct text t;
		size_t before = s.n;
		t.s = tensor_string(x, i, &t.n);
		if (p->delimiter && *p->delimiter)
			split_at_mark(&s, t, p->delimiter, limit);
		else
			split_at_spaces(&s, t, limit);
		counts[i] = (int64_t)(s.n - before);
	}
	int err = store_pieces(c, &s, counts);
	arena_free(&a);
	return err;
}

/* ---- Tokenizer ----------------------------------------------------------------------------------------- */

struct tokenizer {
	const struct re **pattern; /* of the separators, or of a token */
	int64_t n;
};

static int tokenizer_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct tokenizer_params *p = site_params(s);
	struct tokenizer *v = arena_new(s->plan_arena, struct tokenizer);
	int64_t n = tokenizer_by_characters(p) ? 0 : tokenizer_splits(p) ? p->separators.n : 1;

	v->pattern = arena_new_n(s->plan_arena, const struct re *, (size_t)n + 1);
	for (; v->n < n; v->n++) {
		struct text t = tokenizer_splits(p)
					? p->separators.v[v->n]
					: (struct text){p->tokenexp, strlen(p->tokenexp)};
		const struct re *re = re_compile(t.s, t.n, s->plan_arena, d);
		if (!re)
			return -E_OP_ATTRIBUTE;
		if (re_scratch(re) > st->workspace)
			st->workspace = re_scratch(re);
		v->pattern[v->n] = re;
	}
	st->state = v;
	return 0;
}

/* Returns the number of bytes of the character at p, of well-formed text; 1 at its end. */
static size_t bytes_at(const char *p, const char *end)
{
	size_t n = 1;

	if (p < end)
		utf8_get(p, end, &n);
	return n;
}

/* Adds the token unless it has fewer characters than mincharnum. Returns whether it was added. */
static bool add_token(struct pieces *s, const struct tokenizer_params *p, const char *from,
		      const char *to)
{
	int64_t characters = 0;

	for (const char *at = from; at < to; at++)
		characters += !utf8_continues(*at);
	if (characters < p->mincharnum)
		return false;
	add_piece(s, from, to);
	return true;
}

static void add_characters(struct pieces *s, struct text t)
{
	for (const char *p = t.s, *end = t.s + t.n; p < end;) {
		const char *from = p;
		p += bytes_at(p, end);
		add_piece(s, from, p);
	}
}

/* Adds what lies between matches. A match of nothing counts as one of the character after it. */
static void split_by(struct pieces *s, const struct tokenizer_params *p, const struct re *re,
		     struct text t, void *scratch)
{
	size_t from = 0, begin, end;

	while (from <= t.n && re_search(re, t.s, t.n, from, scratch, &begin, &end)) {
		add_token(s, p, t.s + from, t.s + begin);
		from = end > begin ? end : begin + bytes_at(t.s + begin, t.s + t.n);
	}
	if (from <= t.n)
		add_token(s, p, t.s + from, t.s + t.n);
}

/* Adds matches. If one is too short, the next may begin at its second character, while enough are left. */
static void find_tokens(struct pieces *s, const struct tokenizer_params *p, const struct re *re,
			struct text t, void *scratch)
{
	size_t from = 0, begin, end;

	while (from <= t.n && (int64_t)(t.n - from) >= p->mincharnum &&
	       re_search(re, t.s, t.n, from, scratch, &begin, &end))
		from = add_token(s, p, t.s + begin, t.s + end)
			       ? end
			       : begin + bytes_at(t.s + begin, t.s + t.n);
}

/* Splits what is left of the string by each separator in turn. */
static void split_in_turn(struct pieces *s, const struct call *c, struct text t)
{
	const struct tokenizer *v = c->step->state;
	struct pieces now = {.arena = s->arena}, next = {.arena = s->arena};

	add_piece(&now, t.s, t.s + t.n);
	for (int64_t k = 0; k < v->n; k++) {
		next.n = 0;
		for (size_t i = 0; i < now.n; i++)
			split_by(&next, call_params(c), v->pattern[k], now.v[i], c->workspace);
		struct pieces swap = now;
		now = next;
		next = swap;
	}
	for (size_t i = 0; i < now.n; i++)
		add_piece(s, now.v[i].s, now.v[i].s + now.v[i].n);
}

static int check_utf8(const struct call *c, struct text t)
{
	for (size_t i = 0, n; i < t.n; i += n) {
		n = utf8_length((const unsigned char *)t.s + i, t.n - i);
		if (!n)
			return call_fail(c, E_VALUE, "strings in UTF-8",
					 fmt(c->diag, "a string whose byte %zu is not", i));
	}
	return 0;
}

/* Stores the tokens as rows of equal length: marks around those of each string, then padding. */
static int store_tokens(const struct call *c, const struct pieces *s, const int64_t *counts)
{
	const struct tokenizer_params *p = call_params(c);
	struct text pad = {p->pad_value, strlen(p->pad_value)}, open = {"\x02", 1},
		    close = {"\x03", 1};
	struct shape y = c->in[0]->shape;
	int64_t n = tensor_count(c->in[0]), most = 0, marks = p->mark ? 2 : 0;
	size_t k = 0, room;

	for (int64_t i = 0; i < n; i++)
		most = counts[i] > most ? counts[i] : most;
	most += most ? marks : 0;
	if (n)
		y.dim[y.rank++] = most;
	else
		y.dim[y.rank - 1] = 0;
	if (!size_mul((size_t)n, (size_t)most, &room))
		return call_fail(c, E_SIZE, NULL, NULL);
	struct text *out = arena_new_n(s->arena, struct text, room + 1), *at = out;
	for (int64_t i = 0; i < n && most; i++) {
		const struct text *row = at;
		if (marks)
			*at++ = open;
		for (int64_t j = 0; j < counts[i]; j++)
			*at++ = s->v[k++];
		if (marks)
			*at++ = close;
		while (at < row + most)
			*at++ = pad;
	}
	return move_pack(c, 0, DT_STRING, &y, out);
}

static int tokenizer_run(const struct call *c)
{
	const struct tokenizer_params *p = call_params(c);
	const struct tokenizer *v = c->step->state;
	int64_t n = tensor_count(c->in[0]);
	struct arena a = {0};
	struct pieces s = {.arena = &a};
	int64_t *counts = arena_new_n(&a, int64_t, (size_t)n + 1);
	int err = 0;

	for (int64_t i = 0; i < n && !err; i++) {
		struct text t;
		size_t before = s.n;
		t.s = tensor_string(c->in[0], i, &t.n);
		err = check_utf8(c, t);
		if (err)
			break;
		if (tokenizer_by_characters(p))
			add_characters(&s, t);
		else if (tokenizer_splits(p))
			split_in_turn(&s, c, t);
		else
			find_tokens(&s, p, v->pattern[0], t, c->workspace);
		counts[i] = (int64_t)(s.n - before);
	}
	err = err ? err : store_tokens(c, &s, counts);
	arena_free(&a);
	return err;
}

/* ---- TfIdfVectorizer -------------------------------------------------------------------------------------- */

struct tfidf {
	struct map grams; /* maps the key of each n-gram (see append_to_key) to its number */
	size_t room;	  /* bytes of the longest key of integers */
};

/*
 * Appends a number to the key of an n-gram and returns the new length of the key. A key consists of
 * the n-gram's length and then its elements; the length of each string precedes the string.
 */
static size_t append_to_key(char *key, size_t at, int64_t v)
{
	memcpy(key + at, &v, sizeof(v));
	return at + sizeof(v);
}

static char *make_text_key(struct arena *a, const struct text *const *t, int64_t n, size_t *length)
{
	size_t bytes = (size_t)(n + 1) * sizeof(int64_t), at;

	for (int64_t i = 0; i < n; i++)
		bytes += t[i]->n;
	char *key = arena_alloc(a, bytes);
	at = append_to_key(key, 0, n);
	for (int64_t i = 0; i < n; i++) {
		at = append_to_key(key, at, (int64_t)t[i]->n);
		if (t[i]->n)
			memcpy(key + at, t[i]->s, t[i]->n);
		at += t[i]->n;
	}
	*length = at;
	return key;
}

static void add_gram(struct tfidf *v, const struct tfidf_params *p, struct arena *a, int64_t first,
		     int64_t n, uint32_t id, bool strings)
{
	size_t length;
	char *key;

	if (strings) {
		const struct text **t = arena_new_n(a, const struct text *, (size_t)n);
		for (int64_t i = 0; i < n; i++)
			t[i] = &p->pool_strings.v[first + i];
		key = make_text_key(a, t, n, &length);
	} else {
		key = arena_alloc(a, (size_t)(n + 1) * sizeof(int64_t));
		length = append_to_key(key, 0, n);
		for (int64_t i = 0; i < n; i++)
			length = append_to_key(key, length, p->pool_int64s.v[first + i]);
	}
	map_set(&v->grams, key, length, id);
}

static int tfidf_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct tfidf_params *p = site_params(s);
	struct tfidf *v = arena_new(s->plan_arena, struct tfidf);
	bool strings = site_in(s, 0)->type.dtype == DT_STRING;
	int64_t total = strings ? p->pool_strings.n : p->pool_int64s.n, id = 0;

	if (total < 0)
		return site_fail(s, d, E_OP_ATTRIBUTE, "a pool of the input's type", "none");
	v->grams.arena = s->plan_arena;
	for (int64_t n = 1; n <= p->ngram_counts.n; n++) {
		int64_t from = p->ngram_counts.v[n - 1];
		int64_t to = n < p->ngram_counts.n ? p->ngram_counts.v[n] : total;
		if (from < 0 || to < from || to > total || (to - from) % n)
			return site_fail(s, d, E_OP_ATTRIBUTE, "ngram_counts that divide the pool",
					 NULL);
		for (; from < to; from += n, id++) {
			if (id >= p->ngram_indexes.n || (p->weights.n >= 0 && id >= p->weights.n))
				return site_fail(s, d, E_OP_ATTRIBUTE,
						 "an index and a weight for each n-gram", NULL);
			if (n >= p->min_gram_length && n <= p->max_gram_length)
				add_gram(v, p, s->plan_arena, from, n, (uint32_t)id, strings);
		}
	}
	st->state = v;
	return 0;
}

/*
 * Looks up the n-gram x[i], x[i + step], ... (n elements) and updates its element of output row y as the mode says.
 * Does nothing if the model does not list the n-gram.
 */
static void count_gram(const struct call *c, const struct tensor *x, int64_t i, int64_t n,
		       int64_t step, float *y, struct arena *a, char *buffer)
{
	const struct tfidf_params *p = call_params(c);
	const struct tfidf *v = c->step->state;
	size_t length;
	char *key = buffer;

	if (tensor_dtype(x) == DT_STRING) {
		struct text *t = arena_new_n(a, struct text, (size_t)n);
		const struct text **list = arena_new_n(a, const struct text *, (size_t)n);
		for (int64_t k = 0; k < n; k++) {
			t[k].s = tensor_string(x, i + k * step, &t[k].n);
			list[k] = &t[k];
		}
		key = make_text_key(a, list, n, &length);
	} else {
		length = append_to_key(key, 0, n);
		for (int64_t k = 0; k < n; k++)
			length = append_to_key(key, length,
					       elem_i64(tensor_dtype(x), x->data, i + k * step));
	}
	int64_t id = map_get(&v->grams, key, length);
	if (id < 0)
		return;
	float w = p->weights.n >= 0 ? p->weights.v[id] : 1;
	float *at = &y[p->ngram_indexes.v[id]];
	if (p->mode == TFIDF_TF)
		*at += 1;
	else if (p->mode == TFIDF_IDF)
		*at = w;
	else
		*at += w;
}

static int tfidf_run(const struct call *c)
{
	const struct tfidf_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	const struct shape *s = &c->out[0]->shape;
	int64_t columns = s->dim[s->rank - 1], rows = x->shape.rank == 2 ? x->shape.dim[0] : 1;
	int64_t len = rows ? tensor_count(x) / rows : 0,
		longest = p->max_gram_length < len ? p->max_gram_length : len;
	float *y = c->out[0]->data;
	struct arena a = {0};
	char *buffer = arena_alloc(&a, (size_t)(longest + 1) * sizeof(int64_t));

	memset(y, 0, (size_t)(rows * columns) * sizeof(*y));
	for (int64_t r = 0; r < rows; r++, y += columns) {
		for (int64_t step = 1; step <= p->max_skip_count + 1 && step <= (len ? len : 1);
		     step++) {
			/*
			 * A unigram has no elements to skip, so unigrams are counted only with step
			 * 1.
			 */
			int64_t n = p->min_gram_length > 1 || step == 1 ? p->min_gram_length : 2;
			for (; n <= longest; n++)
				for (int64_t i = 0; i + step * (n - 1) < len; i++)
					count_gram(c, x, r * len + i, n, step, y, &a, buffer);
		}
	}
	arena_free(&a);
	return 0;
}

const struct kernel cpu_text[] = {
	{.op = "StringNormalizer",
	 .flags = K_REFERENCE,
	 .reshape = normalizer_reshape,
	 .run = normalizer_run,
	 .drop = normalizer_drop},
	{.op = "StringConcat", .flags = K_REFERENCE, .run = concat_run},
	{.op = "StringSplit", .flags = K_REFERENCE, .run = split_run},
	{.op = "RegexFullMatch", .flags = K_REFERENCE, .reshape = regex_reshape, .run = regex_run},
	{.op = "com.microsoft::Tokenizer",
	 .flags = K_REFERENCE,
	 .reshape = tokenizer_reshape,
	 .run = tokenizer_run},
	{.op = "TfIdfVectorizer", .flags = K_REFERENCE, .reshape = tfidf_reshape, .run = tfidf_run},
	{0}};
