/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_TEXT_H
#define OPS_TEXT_H
#include "base/field.h"

#include <string.h>

enum case_change { CASE_NONE, CASE_LOWER, CASE_UPPER };
struct string_normalizer_params {
	int case_change_action; /* enum case_change */
	int64_t is_case_sensitive;
	const char *locale;
	struct texts stopwords;
};
struct string_split_params {
	const char *delimiter; /* NULL or "" to split at whitespace */
	int64_t maxsplit;      /* INT_ABSENT if there is no limit */
};
struct regex_params {
	const char *pattern;
};
struct tokenizer_params { /* com.microsoft::Tokenizer */
	int64_t mark, mincharnum;
	const char *pad_value, *tokenexp;
	struct texts separators;
};
/* Whether a Tokenizer splits at separators, which go before a tokenexp. */
static inline bool tokenizer_splits(const struct tokenizer_params *p)
{
	return p->separators.n > 0;
}
/* Whether a Tokenizer takes every character for a token. ONNX Runtime does so for the expression ".", too, which finds no line feed otherwise. */
static inline bool tokenizer_by_characters(const struct tokenizer_params *p)
{
	return tokenizer_splits(p) ? p->separators.n == 1 && !p->separators.v[0].n
				   : !strcmp(p->tokenexp, ".");
}
enum tfidf_mode { TFIDF_TF, TFIDF_IDF, TFIDF_TFIDF };
struct tfidf_params {
	int64_t max_gram_length, max_skip_count, min_gram_length;
	int mode; /* enum tfidf_mode */
	struct ints ngram_counts, ngram_indexes, pool_int64s;
	struct texts pool_strings;
	struct floats weights;
};

#endif
