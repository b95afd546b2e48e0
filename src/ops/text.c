/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on strings. */
#include "ops/text.h"

#include "ops/infer_util.h"

#include <inttypes.h>

/* X is [C] or [1, C]; how many of the C strings remain is known only when the kernel has run. */
static int normalizer_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	if (x.rank >= 0 && x.rank != 1 && !(x.rank == 2 && (x.dim[0] == 1 || x.dim[0] < 0)))
		return infer_fail(c, E_SHAPE, 0, "shape [C] or [1,C]", infer_shape_text(c, &x));
	if (x.rank > 0)
		x.dim[x.rank - 1] = DIM_UNKNOWN;
	infer_set(c, 0, DT_STRING, &x);
	return 0;
}

static int split_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y = x;

	if (x.rank == MAX_RANK)
		return infer_fail(c, E_RANK, 0, fmt(c->diag, "at most %d", MAX_RANK - 1),
				  fmt(c->diag, "%d", x.rank));
	if (x.rank >= 0)
		y.dim[y.rank++] = DIM_UNKNOWN;
	infer_set(c, 0, DT_STRING, &y);
	infer_set(c, 1, DT_I64, &x);
	return 0;
}

static int regex_infer(struct infer *c)
{
	const struct regex_params *p = infer_params(c);

	if (!p->pattern)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "a pattern", "none");
	return infer_same_as(c, DT_BOOL);
}

static int concat_infer(struct infer *c)
{
	return infer_broadcast(c);
}

static int tfidf_infer(struct infer *c)
{
	const struct tfidf_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x;
	int64_t columns = 0;

	for (int64_t i = 0; i < p->ngram_indexes.n; i++) {
		if (p->ngram_indexes.v[i] < 0 || p->ngram_indexes.v[i] > INT32_MAX)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "ngram_indexes of 0 or more",
					  fmt(c->diag, "%" PRId64, p->ngram_indexes.v[i]));
		if (p->ngram_indexes.v[i] >= columns)
			columns = p->ngram_indexes.v[i] + 1;
	}
	if (p->min_gram_length < 1 || p->max_gram_length < p->min_gram_length ||
	    p->max_skip_count < 0 || p->max_gram_length > INT32_MAX || p->max_skip_count > INT32_MAX)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "gram lengths of 1 or more, in order, and skips", NULL);
	if (x.rank >= 0) {
		if (x.rank > 2)
			return infer_fail(c, E_SHAPE, 0, "rank 1 or 2",
					  fmt(c->diag, "rank %d", x.rank));
		y.rank = x.rank ? x.rank : 1;
		y.dim[y.rank - 1] = columns;
	}
	infer_set(c, 0, DT_F32, &y);
	return 0;
}

/* [C] or [N,C]: how many tokens a string has at most is known only when the kernel has run. */
static int tokenizer_infer(struct infer *c)
{
	const struct tokenizer_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x;

	if (x.rank >= 0 && x.rank != 1 && x.rank != 2)
		return infer_fail(c, E_SHAPE, 0, "shape [C] or [N,C]", infer_shape_text(c, &x));
	if (!tokenizer_splits(p) && (!p->tokenexp || !*p->tokenexp))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "separators or a tokenexp that is not empty", "neither");
	if (p->mincharnum < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "mincharnum of 1 or more",
				  fmt(c->diag, "%" PRId64, p->mincharnum));
	if (tokenizer_by_characters(p) && p->mincharnum > 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "mincharnum of 1 for tokens of one character",
				  fmt(c->diag, "%" PRId64, p->mincharnum));
	/* without strings there are no rows: [0] or [N,0] */
	if (x.rank > 0 && (x.dim[0] == 0 || x.dim[x.rank - 1] == 0))
		y.dim[y.rank - 1] = 0;
	else if (x.rank > 0)
		y.dim[y.rank++] = DIM_UNKNOWN;
	infer_set(c, 0, DT_STRING, &y);
	return 0;
}

static const struct slot x_in[] = {{.name = "X", .types = T_STRING}, SLOT_END};
static const struct slot y_out[] = {{.name = "Y", .types = T_STRING}, SLOT_END};
static const struct slot xy_in[] = {{.name = "X", .tvar = "T", .types = T_STRING},
				    {.name = "Y", .tvar = "T", .types = T_STRING},
				    SLOT_END};
static const struct slot z_out[] = {{.name = "Z", .tvar = "T", .types = T_STRING}, SLOT_END};
static const struct slot split_out[] = {
	{.name = "Y", .types = T_STRING}, {.name = "Z", .types = T_I64, .optional = true}, SLOT_END};
static const struct slot bool_out[] = {{.name = "Y", .types = T_BOOL}, SLOT_END};
static const struct slot tfidf_in[] = {
	{.name = "X", .types = T_STRING | T_I32 | T_I64, .dims = "_ | _ _"}, SLOT_END};
static const struct slot float_out[] = {{.name = "Y", .types = T_F32}, SLOT_END};

static const struct field normalizer_attrs[] = {
	FIELD_ENUM(struct string_normalizer_params, case_change_action, "NONE", "NONE|LOWER|UPPER",
		   "case of the result"),
	FIELD(struct string_normalizer_params, is_case_sensitive, F_INT, "0",
	      "stopwords match by case"),
	FIELD(struct string_normalizer_params, locale, F_STRING, NULL, "locale of the case rules"),
	FIELD(struct string_normalizer_params, stopwords, F_STRINGS, NULL, "words to leave out"),
	{0}};
static const struct field split_attrs[] = {
	FIELD(struct string_split_params, delimiter, F_STRING, NULL,
	      "what to split at; default whitespace"),
	FIELD_DATA(struct string_split_params, maxsplit, F_INT, NULL, "splits at most"),
	{0}};
static const struct field regex_attrs[] = {
	FIELD(struct regex_params, pattern, F_STRING, NULL, "regular expression in RE2's syntax"),
	{0}};
static const struct field tokenizer_attrs[] = {
	FIELD_REQ(struct tokenizer_params, mark, F_INT,
		  "the tokens of a string stand between \\x02 and \\x03"),
	FIELD_REQ(struct tokenizer_params, mincharnum, F_INT, "characters of a token at least"),
	FIELD_REQ(struct tokenizer_params, pad_value, F_STRING, "what fills rows"),
	FIELD(struct tokenizer_params, separators, F_STRINGS, NULL,
	      "regular expressions, by which strings are split in turn; one that is empty: into characters"),
	FIELD(struct tokenizer_params, tokenexp, F_STRING, NULL,
	      "regular expression of a token, if there are no separators"),
	{0}};
static const struct field tfidf_attrs[] = {
	FIELD_REQ(struct tfidf_params, max_gram_length, F_INT, "longest n-gram"),
	FIELD_REQ(struct tfidf_params, max_skip_count, F_INT,
		  "elements left out between two of an n-gram"),
	FIELD_REQ(struct tfidf_params, min_gram_length, F_INT, "shortest n-gram"),
	{.name = "mode",
	 .type = F_ENUM,
	 .off = offsetof(struct tfidf_params, mode),
	 .flags = FIELD_REQUIRED,
	 .choices = "TF|IDF|TFIDF",
	 .help = "counts, weights or both"},
	FIELD_REQ(struct tfidf_params, ngram_counts, F_INTS, "where in the pool each length begins"),
	FIELD_REQ(struct tfidf_params, ngram_indexes, F_INTS, "output column of each n-gram"),
	FIELD_DATA(struct tfidf_params, pool_int64s, F_INTS, NULL, "n-grams of numbers"),
	FIELD(struct tfidf_params, pool_strings, F_STRINGS, NULL, "n-grams of strings"),
	FIELD(struct tfidf_params, weights, F_FLOATS, NULL, "weight of each n-gram"),
	{0}};

const struct op ops_text[] = {{.name = "StringNormalizer",
			       .since = 10,
			       .in = x_in,
			       .out = y_out,
			       ATTRS(normalizer_attrs, struct string_normalizer_params),
			       .infer = normalizer_infer,
			       .flags = OP_HOST_VALUES},
			      {.name = "StringConcat",
			       .since = 20,
			       .in = xy_in,
			       .out = z_out,
			       .infer = concat_infer,
			       .flags = OP_HOST_VALUES},
			      {.name = "StringSplit",
			       .since = 20,
			       .in = x_in,
			       .out = split_out,
			       ATTRS(split_attrs, struct string_split_params),
			       .infer = split_infer,
			       .flags = OP_HOST_VALUES | OP_OPTIONAL_OUT},
			      {.name = "RegexFullMatch",
			       .since = 20,
			       .in = x_in,
			       .out = bool_out,
			       ATTRS(regex_attrs, struct regex_params),
			       .infer = regex_infer,
			       .flags = OP_HOST_VALUES},
			      {.name = "Tokenizer",
			       MICROSOFT,
			       .in = x_in,
			       .out = y_out,
			       ATTRS(tokenizer_attrs, struct tokenizer_params),
			       .infer = tokenizer_infer,
			       .flags = OP_HOST_VALUES},
			      {.name = "TfIdfVectorizer",
			       .since = 9,
			       .in = tfidf_in,
			       .out = float_out,
			       ATTRS(tfidf_attrs, struct tfidf_params),
			       .infer = tfidf_infer},
			      {0}};
