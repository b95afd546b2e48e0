/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of ai.onnx.ml: classical machine learning. */
#include "ops/ml.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

static int64_t size_of(int64_t n)
{
	return n < 0 ? 0 : n;
}

/* Number of rows of X; a tensor of rank 0 or 1 is one row. */
static int64_t rows_of(const struct shape *x)
{
	return x->rank < 0 ? DIM_UNKNOWN : x->rank < 2 ? 1 : x->dim[0];
}

static int require(const struct infer *c, bool ok, const char *expected)
{
	return ok ? 0 : infer_fail(c, E_OP_ATTRIBUTE, -1, expected, NULL);
}

static int matrix(const struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	if (x.rank == 0 || x.rank > 2)
		return infer_fail(c, E_SHAPE, 0, "rank 1 or 2", fmt(c->diag, "rank %d", x.rank));
	return 0;
}

/* Output i has type t and shape [rows of X, n]. */
static void set_table(struct infer *c, uint32_t i, enum dtype t, int64_t n)
{
	struct shape x = infer_shape(c, 0), y = {.rank = 2, .dim = {rows_of(&x), n}};

	infer_set(c, i, t, &y);
}

static int set_labels(struct infer *c, bool strings, int64_t scores)
{
	struct shape x = infer_shape(c, 0), y = {.rank = 1, .dim = {rows_of(&x)}};
	int err = matrix(c);

	infer_set(c, 0, strings ? DT_STRING : DT_I64, &y);
	set_table(c, 1, DT_F32, scores);
	return err;
}

/* ---- shape functions --------------------------------------------------------------------------------- */

static int extractor_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), i = infer_shape(c, 1), y = x;
	int64_t n = i.rank < 0 ? DIM_UNKNOWN : dim_product(&i, 0, i.rank);

	if (x.rank == 0)
		return infer_fail(c, E_SHAPE, 0, "rank 1 or more", "a scalar");
	if (x.rank == 1)
		y = (struct shape){.rank = 2, .dim = {1, n}};
	else if (x.rank > 1)
		y.dim[y.rank - 1] = n;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int same_infer(struct infer *c)
{
	return infer_same(c);
}

static int cast_map_infer(struct infer *c)
{
	static const enum dtype types[] = {DT_F32, DT_STRING, DT_I64};
	const struct cast_map_params *p = infer_params(c);
	struct shape y = {.rank = 2, .dim = {1, p->map_form ? p->max_map : DIM_UNKNOWN}};

	infer_set(c, 0, types[p->cast_to], &y);
	return require(c, !p->map_form || p->max_map >= 1, "max_map of 1 or more");
}

static int category_infer(struct infer *c)
{
	const struct category_params *p = infer_params(c);
	enum dtype t = infer_dtype(c, 0);

	if (t != DT_NONE)
		infer_same_as(c, t == DT_STRING ? DT_I64 : DT_STRING);
	return require(c, p->cats_int64s.n >= 0 && p->cats_int64s.n == p->cats_strings.n,
		       "cats_int64s and cats_strings of one length");
}

static int dict_infer(struct infer *c)
{
	const struct dict_params *p = infer_params(c);
	const struct vinfo *x = infer_in(c, 0);
	bool strings = p->string_vocabulary.n >= 0;
	struct shape y = {.rank = 2,
			  .dim = {1, strings ? p->string_vocabulary.n : p->int64_vocabulary.n}};
	int err = require(c, strings != (p->int64_vocabulary.n >= 0),
			  "one of int64_vocabulary and string_vocabulary");

	if (!err && x && x->type.kind == V_MAP && (x->type.key == DT_STRING) != strings)
		err = infer_fail(c, E_TYPE, 0, "keys of the vocabulary's type",
				 dtype_name((enum dtype)x->type.key));
	if (!err)
		infer_set(c, 0, infer_dtype(c, 0), &y);
	return err;
}

static int feature_infer(struct infer *c)
{
	const struct feature_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0);
	int64_t rows = rows_of(&x), sum = 0;
	struct shape y = {.rank = 2};

	for (uint32_t i = 0; i < c->node->nin; i++) {
		struct shape s = infer_shape(c, i);
		int64_t n = rows_of(&s);
		int64_t width =
			s.rank < 0 ? DIM_UNKNOWN : dim_product(&s, s.rank < 2 ? 0 : 1, s.rank);
		if (p->inputdimensions.n > i)
			width = p->inputdimensions.v[i];
		if (p->inputdimensions.n > i && width < 0)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "inputdimensions of at least 0",
					  fmt(c->diag, "%" PRId64, width));
		int err = infer_unify(c, (int)i, rows, n, &rows);
		if (err)
			return err;
		sum = sum < 0 || width < 0 || width > INT32_MAX ? DIM_UNKNOWN : sum + width;
	}
	y.dim[0] = rows;
	y.dim[1] = sum;
	infer_set(c, 0, DT_F32, &y);
	return 0;
}

static int imputer_infer(struct infer *c)
{
	const struct imputer_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0);
	enum dtype t = infer_dtype(c, 0);
	int64_t n =
		dtype_class(t) == DT_FLOAT ? p->imputed_value_floats.n : p->imputed_value_int64s.n;

	if (t == DT_NONE || x.rank < 0)
		return infer_same(c);
	int64_t width = x.rank ? x.dim[x.rank - 1] : 1;
	int err = require(c, n == 1 || n == width || (n > 0 && width < 0),
			  "imputed values of X's type, one or one a feature");
	return err ? err : infer_same(c);
}

static enum dtype label_type(const struct label_params *p)
{
	return p->values_strings.n >= 0	 ? DT_STRING
	       : p->values_int64s.n >= 0 ? DT_I64
	       : p->values_floats.n >= 0 ? DT_F32
	       : p->values_tensor	 ? tensor_dtype(p->values_tensor)
					 : DT_NONE;
}

static int64_t label_values(const struct label_params *p)
{
	return p->values_strings.n >= 0	 ? p->values_strings.n
	       : p->values_int64s.n >= 0 ? p->values_int64s.n
	       : p->values_floats.n >= 0 ? p->values_floats.n
					 : tensor_count(p->values_tensor);
}

static int label_infer(struct infer *c)
{
	const struct label_params *p = infer_params(c);
	enum dtype t = infer_dtype(c, 0), y = label_type(p);
	int64_t keys = p->keys_tensor && tensor_dtype(p->keys_tensor) == t
			       ? tensor_count(p->keys_tensor)
		       : t == DT_STRING ? p->keys_strings.n
		       : t == DT_I64	? p->keys_int64s.n
		       : t == DT_F32	? p->keys_floats.n
					: -1;
	int err = require(c, y != DT_NONE, "values_*");

	if (!err && t != DT_NONE)
		err = require(c, keys == label_values(p), "keys_* of X's type, as many as values_*");
	if (!err && p->default_tensor)
		err = require(c,
			      tensor_dtype(p->default_tensor) == y &&
				      tensor_count(p->default_tensor) == 1,
			      "default_tensor of one element of the values' type");
	return err ? err : infer_same_as(c, y);
}

static int linear_classifier_infer(struct infer *c)
{
	const struct linear_params *p = infer_params(c);
	bool strings = size_of(p->classlabels_strings.n) > 0;
	int64_t labels = strings ? p->classlabels_strings.n : size_of(p->classlabels_ints.n);
	int64_t n = size_of(p->intercepts.n);

	if (!n) /* intercepts are optional; without them, each label has an intercept of 0 */
		n = labels;
	int err = require(c, n > 0 && size_of(p->coefficients.n) % n == 0 && (n == 1 || labels >= n),
			  "coefficients and labels for each intercept");
	return err ? err : set_labels(c, strings, n == 1 && labels == 2 ? 2 : n);
}

static int linear_regressor_infer(struct infer *c)
{
	const struct linear_params *p = infer_params(c);
	int err = require(c,
			  p->targets > 0 && size_of(p->coefficients.n) % p->targets == 0 &&
				  (p->intercepts.n < 0 || p->intercepts.n == p->targets),
			  "coefficients and intercepts for each target");

	if (!err)
		err = matrix(c);
	set_table(c, 0, DT_F32, p->targets);
	return err;
}

static int normalizer_infer(struct infer *c)
{
	int err = matrix(c);

	return err ? err : infer_same_as(c, DT_F32);
}

static int one_hot_infer(struct infer *c)
{
	const struct one_hot_encoder_params *p = infer_params(c);
	struct shape y = infer_shape(c, 0);
	bool strings = p->cats_strings.n >= 0;
	int err = require(c, strings || p->cats_int64s.n >= 0, "cats_int64s or cats_strings");

	if (!err)
		err = require(c, !infer_dtype(c, 0) || (infer_dtype(c, 0) == DT_STRING) == strings,
			      "categories of X's type");
	if (y.rank == MAX_RANK)
		return infer_fail(c, E_RANK, 0, fmt(c->diag, "at most %d", MAX_RANK - 1), NULL);
	if (y.rank >= 0)
		y.dim[y.rank++] = strings ? p->cats_strings.n : size_of(p->cats_int64s.n);
	infer_set(c, 0, DT_F32, &y);
	return err;
}

static int scaler_infer(struct infer *c)
{
	const struct scaler_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0);
	int64_t width = x.rank > 0 ? x.dim[x.rank - 1] : DIM_UNKNOWN;
	bool ok = (p->offset.n < 2 || width < 0 || p->offset.n == width) &&
		  (p->scale.n < 2 || width < 0 || p->scale.n == width);
	int err = require(c, ok, "offset and scale of one element, or of one a feature");

	return err ? err : infer_same_as(c, DT_F32);
}

static int svm_classifier_infer(struct infer *c)
{
	const struct svm_params *p = infer_params(c);
	bool strings = size_of(p->classlabels_strings.n) > 0;
	int64_t n = strings ? p->classlabels_strings.n : size_of(p->classlabels_ints.n), vectors = 0;
	bool prob = size_of(p->prob_a.n) > 0, counts = p->vectors_per_class.n <= n;

	for (int64_t i = 0; counts && i < p->vectors_per_class.n; i++) {
		counts = p->vectors_per_class.v[i] >= 0 && p->vectors_per_class.v[i] <= INT32_MAX;
		vectors += counts ? p->vectors_per_class.v[i] : 0;
	}
	int64_t pairs = n * (n - 1) / 2;
	bool ok = n > 0 && n < 65536 && counts && p->prob_a.n == p->prob_b.n &&
		  size_of(p->coefficients.n) > 0;
	if (vectors)
		ok = ok && p->vectors_per_class.n == n &&
		     size_of(p->support_vectors.n) % vectors == 0 &&
		     p->coefficients.n >= (n - 1) * vectors && size_of(p->rho.n) >= pairs &&
		     (!prob || p->prob_a.n >= pairs);
	else
		ok = ok && size_of(p->rho.n) > 0 && p->coefficients.n % n == 0;
	int err = require(c, ok, "labels, vectors, coefficients and rho that fit");
	return err ? err : set_labels(c, strings, vectors && !prob ? (n > 2 ? pairs : 2) : n);
}

static int svm_regressor_infer(struct infer *c)
{
	const struct svm_params *p = infer_params(c);
	bool ok = size_of(p->rho.n) > 0 &&
		  (p->n_supports <= 0 || (size_of(p->support_vectors.n) % p->n_supports == 0 &&
					  p->coefficients.n >= p->n_supports));
	int err = require(c, ok, "vectors, coefficients and rho that fit");

	if (!err)
		err = matrix(c);
	set_table(c, 0, DT_F32, 1);
	return err;
}

struct typed_attribute {
	const char *name;
	const struct tensor *t;
	uint64_t types;
};

/* Attributes that are tensors have no slots with types. A kernel reads strings as 0, and half of each complex number. */
static int check_types(const struct infer *c, const struct typed_attribute *v, size_t n)
{
	struct arena *a = c->diag ? &c->diag->arena : c->arena;

	for (size_t i = 0; i < n; i++)
		if (v[i].t && !(T_BIT(tensor_dtype(v[i].t)) & v[i].types))
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  fmt(c->diag, "attribute '%s' of %s", v[i].name,
					      op_types_text(v[i].types, a)),
					  dtype_name(tensor_dtype(v[i].t)));
	return 0;
}
#define CHECK_TYPES(c_, v_) check_types(c_, v_, sizeof(v_) / sizeof(*(v_)))

static int check_tree_types(const struct infer *c, bool classifier)
{
	const struct tree_params *p = infer_params(c);
	const struct typed_attribute t[] = {
		{"nodes_values_as_tensor", p->nodes_values_as_tensor, T_FLOATS_BF},
		{"nodes_hitrates_as_tensor", p->nodes_hitrates_as_tensor, T_FLOATS_BF},
		{classifier ? "class_weights_as_tensor" : "target_weights_as_tensor",
		 p->leaf_weights_as_tensor, T_FLOATS_BF},
		{"base_values_as_tensor", p->base_values_as_tensor, T_FLOATS_BF}};

	return CHECK_TYPES(c, t);
}

/* As ONNX's own inference has it: values of X's type, and modes of uint8. */
static int check_ensemble_types(const struct infer *c)
{
	const struct ensemble_params *p = infer_params(c);
	enum dtype x = infer_dtype(c, 0);
	uint64_t values = x ? T_BIT(x) : T_FLOATS;
	const struct typed_attribute t[] = {{"nodes_splits", p->nodes_splits, values},
					    {"leaf_weights", p->leaf_weights, values},
					    {"membership_values", p->membership_values, values},
					    {"nodes_hitrates", p->nodes_hitrates, T_FLOATS},
					    {"nodes_modes", p->nodes_modes, T_U8}};

	return CHECK_TYPES(c, t);
}

static int tree_classifier_infer(struct infer *c)
{
	const struct tree_params *p = infer_params(c);
	bool strings = size_of(p->classlabels_strings.n) > 0;
	int64_t n = strings ? p->classlabels_strings.n : size_of(p->classlabels_int64s.n);
	int err = require(c, n > 0, "class labels");

	if (!err)
		err = check_tree_types(c, true);

	return err ? err : set_labels(c, strings, n);
}

static int tree_regressor_infer(struct infer *c)
{
	const struct tree_params *p = infer_params(c);
	int64_t n = p->n_targets == INT_ABSENT ? 1 : p->n_targets;
	int err = require(c, n > 0, "n_targets of 1 or more");

	if (!err)
		err = check_tree_types(c, false);
	if (!err)
		err = matrix(c);
	set_table(c, 0, DT_F32, n);
	return err;
}

static int ensemble_infer(struct infer *c)
{
	const struct ensemble_params *p = infer_params(c);
	int64_t n = p->n_targets == INT_ABSENT ? 1 : p->n_targets;
	int err = require(c,
			  n > 0 && p->aggregate_function >= 0 && p->aggregate_function <= TREE_MAX &&
				  p->post_transform >= 0 && p->post_transform <= POST_PROBIT,
			  "n_targets, aggregate_function and post_transform within their ranges");

	if (!err)
		err = check_ensemble_types(c);
	if (!err)
		err = matrix(c);
	set_table(c, 0, infer_dtype(c, 0), n);
	return err;
}

static int zip_map_infer(struct infer *c)
{
	const struct zip_map_params *p = infer_params(c);
	struct vinfo *o = infer_out(c, 0);
	bool strings = p->classlabels_strings.n >= 0;
	int64_t n = strings ? p->classlabels_strings.n : p->classlabels_int64s.n;
	struct shape x = infer_shape(c, 0);
	int err = require(c, n >= 0, "classlabels_int64s or classlabels_strings");

	if (!err)
		err = matrix(c);
	if (!err && x.rank > 0 && x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != n)
		err = infer_fail(c, E_SHAPE, 0, fmt(c->diag, "%" PRId64 " columns, one a label", n),
				 fmt(c->diag, "%" PRId64, x.dim[x.rank - 1]));
	if (o)
		o->type = (struct type){.kind = V_SEQUENCE,
					.of = V_MAP,
					.dtype = DT_F32,
					.key = strings ? DT_STRING : DT_I64};
	return err;
}

/* ---- LabelEncoder-1: strings and their positions --------------------------------------------------------- */

struct label1_params {
	struct texts classes_strings;
	int64_t default_int64;
	const char *default_string;
};

static int label1_upgrade(struct edit *e)
{
	const struct label1_params *old = e->node->params;
	struct label_params *p = edit_params(e);
	int64_t n = size_of(old->classes_strings.n);
	int64_t *v = arena_new_n(e->graph->arena, int64_t, (size_t)n + 1);

	for (int64_t i = 0; i < n; i++)
		v[i] = i;
	p->default_int64 = old->default_int64;
	p->default_string = old->default_string;
	if (edit_dtype(e, 0) == DT_STRING) {
		p->keys_strings = (struct texts){old->classes_strings.v, n};
		p->values_int64s = (struct ints){v, n};
	} else {
		p->keys_int64s = (struct ints){v, n};
		p->values_strings = (struct texts){old->classes_strings.v, n};
	}
	return 0;
}

/* ---- the rows ---------------------------------------------------------------------------------------------- */

#define T_NUM  (T_F32 | T_F64 | T_I64 | T_I32)
#define T_MAPS (T_MAP | T_F32 | T_F64 | T_I64 | T_STRING)
static const struct slot x_num[] = {{.name = "X", .tvar = "T", .types = T_NUM}, SLOT_END};
static const struct slot y_num[] = {{.name = "Y", .tvar = "T", .types = T_NUM}, SLOT_END};
static const struct slot y_float[] = {{.name = "Y", .types = T_F32}, SLOT_END};
static const struct slot x_map[] = {{.name = "X", .types = T_MAPS}, SLOT_END};
static const struct slot y_any[] = {{.name = "Y", .types = T_F32 | T_F64 | T_I64 | T_STRING},
				    SLOT_END};
static const struct slot extractor_in[] = {{.name = "X", .tvar = "T", .types = T_NUM | T_STRING},
					   {.name = "Y", .types = T_I64},
					   SLOT_END};
static const struct slot extractor_out[] = {{.name = "Z", .tvar = "T", .types = T_NUM | T_STRING},
					    SLOT_END};
static const struct slot category_in[] = {{.name = "X", .types = T_STRING | T_I64}, SLOT_END};
static const struct slot category_out[] = {{.name = "Y", .types = T_STRING | T_I64}, SLOT_END};
static const struct slot feature_in[] = {
	{.name = "X", .types = T_NUM, .variadic = true, .heterogeneous = true}, SLOT_END};
#define T_LABEL (T_STRING | T_I64 | T_F32 | T_F64 | T_I16 | T_I32)
static const struct slot label_in[] = {{.name = "X", .tvar = "T", .types = T_LABEL}, SLOT_END};
static const struct slot label_out[] = {{.name = "Y", .types = T_LABEL}, SLOT_END};
static const struct slot classifier_out[] = {{.name = "Y", .types = T_STRING | T_I64, .optional = true},
					     {.name = "Z", .types = T_F32, .optional = true},
					     SLOT_END};
static const struct slot one_hot_in[] = {{.name = "X", .types = T_NUM | T_STRING}, SLOT_END};
static const struct slot ensemble_in[] = {
	{.name = "X", .tvar = "T", .types = T_FLOATS, .dims = "_ _"}, SLOT_END};
static const struct slot ensemble_out[] = {{.name = "Y", .tvar = "T", .types = T_FLOATS}, SLOT_END};
static const struct slot zip_in[] = {{.name = "X", .types = T_F32}, SLOT_END};
static const struct slot zip_out[] = {{.name = "Z", .types = T_SEQ | T_F32}, SLOT_END};

#define POST(type_)                                                                                \
	FIELD_ENUM(type_, post_transform, "NONE", POST_CHOICES, "what is done to the scores")
static const struct field binarizer_attrs[] = {
	FIELD(struct binarizer_params, threshold, F_FLOAT, "0", "what is above becomes 1"), {0}};
static const struct field cast_map_attrs[] = {
	FIELD_ENUM(struct cast_map_params, cast_to, "TO_FLOAT", "TO_FLOAT|TO_STRING|TO_INT64",
		   "element type of the result"),
	FIELD_ENUM(struct cast_map_params, map_form, "DENSE", "DENSE|SPARSE",
		   "whether keys are positions"),
	FIELD(struct cast_map_params, max_map, F_INT, "1", "length of a sparse result"),
	{0}};
static const struct field category_attrs[] = {
	FIELD_DATA(struct category_params, cats_int64s, F_INTS, NULL, "numbers"),
	FIELD(struct category_params, cats_strings, F_STRINGS, NULL, "their names"),
	FIELD_DATA(struct category_params, default_int64, F_INT, "-1", "number of an unknown name"),
	FIELD(struct category_params, default_string, F_STRING, "_Unused", "name of an unknown number"),
	{0}};
static const struct field dict_attrs[] = {
	FIELD_DATA(struct dict_params, int64_vocabulary, F_INTS, NULL, "keys in order"),
	FIELD(struct dict_params, string_vocabulary, F_STRINGS, NULL, "keys in order"),
	{0}};
static const struct field feature_attrs[] = {
	FIELD(struct feature_params, inputdimensions, F_INTS, NULL, "columns of each input"), {0}};
static const struct field imputer_attrs[] = {
	FIELD(struct imputer_params, imputed_value_floats, F_FLOATS, NULL, "what stands instead"),
	FIELD_DATA(struct imputer_params, imputed_value_int64s, F_INTS, NULL, "what stands instead"),
	FIELD(struct imputer_params, replaced_value_float, F_FLOAT, "0", "what is replaced"),
	FIELD_DATA(struct imputer_params, replaced_value_int64, F_INT, "0", "what is replaced"),
	{0}};
#define LABEL(member, type_, def_, help_) FIELD(struct label_params, member, type_, def_, help_)
static const struct field label_attrs[] = {
	LABEL(keys_floats, F_FLOATS, NULL, "keys"),
	LABEL(values_floats, F_FLOATS, NULL, "values"),
	FIELD_DATA(struct label_params, keys_int64s, F_INTS, NULL, "keys"),
	FIELD_DATA(struct label_params, values_int64s, F_INTS, NULL, "values"),
	LABEL(keys_strings, F_STRINGS, NULL, "keys"),
	LABEL(values_strings, F_STRINGS, NULL, "values"),
	LABEL(keys_tensor, F_TENSOR, NULL, "keys"),
	LABEL(values_tensor, F_TENSOR, NULL, "values"),
	LABEL(default_tensor, F_TENSOR, NULL, "value of an unknown key"),
	LABEL(default_float, F_FLOAT, "-0.0", "value of an unknown key"),
	FIELD_DATA(struct label_params, default_int64, F_INT, "-1", "value of an unknown key"),
	LABEL(default_string, F_STRING, "_Unused", "value of an unknown key"),
	{0}};
static const struct field label1_attrs[] = {
	FIELD(struct label1_params, classes_strings, F_STRINGS, NULL, "names, by position"),
	FIELD_DATA(struct label1_params, default_int64, F_INT, "-1", "position of an unknown name"),
	FIELD(struct label1_params, default_string, F_STRING, "_Unused", "name of an unknown position"),
	{0}};
static const struct field linear_classifier_attrs[] = {
	FIELD_DATA(struct linear_params, classlabels_ints, F_INTS, NULL, "labels"),
	FIELD(struct linear_params, classlabels_strings, F_STRINGS, NULL, "labels"),
	FIELD_REQ(struct linear_params, coefficients, F_FLOATS, "weights"),
	FIELD(struct linear_params, intercepts, F_FLOATS, NULL, "biases"),
	FIELD(struct linear_params, multi_class, F_INT, "0", "one against the rest, or multinomial"),
	POST(struct linear_params),
	{0}};
static const struct field linear_regressor_attrs[] = {
	FIELD(struct linear_params, coefficients, F_FLOATS, NULL, "weights"),
	FIELD(struct linear_params, intercepts, F_FLOATS, NULL, "biases"),
	FIELD(struct linear_params, targets, F_INT, "1", "number of results"),
	POST(struct linear_params),
	{0}};
static const struct field normalizer_attrs[] = {
	FIELD_ENUM(struct normalizer_params, norm, "MAX", "MAX|L1|L2", "which norm a row gets"), {0}};
static const struct field one_hot_attrs[] = {
	FIELD_DATA(struct one_hot_encoder_params, cats_int64s, F_INTS, NULL, "categories"),
	FIELD(struct one_hot_encoder_params, cats_strings, F_STRINGS, NULL, "categories"),
	FIELD(struct one_hot_encoder_params, zeros, F_INT, "1",
	      "an unknown category gives zeros, not an error"),
	{0}};
static const struct field scaler_attrs[] = {
	FIELD(struct scaler_params, offset, F_FLOATS, NULL, "subtracted first"),
	FIELD(struct scaler_params, scale, F_FLOATS, NULL, "factor"),
	{0}};
#define SVM(member, type_, def_, help_) FIELD(struct svm_params, member, type_, def_, help_)
#define SVM_KERNEL                                                                                 \
	FIELD_ENUM(struct svm_params, kernel_type, "LINEAR", "LINEAR|POLY|RBF|SIGMOID", "kernel")
static const struct field svm_classifier_attrs[] = {
	FIELD_DATA(struct svm_params, classlabels_ints, F_INTS, NULL, "labels"),
	SVM(classlabels_strings, F_STRINGS, NULL, "labels"),
	SVM(coefficients, F_FLOATS, NULL, "weights of the vectors"),
	SVM(kernel_params, F_FLOATS, NULL, "gamma, coef0, degree"),
	SVM(prob_a, F_FLOATS, NULL, "first probability coefficients"),
	SVM(prob_b, F_FLOATS, NULL, "second probability coefficients"),
	SVM(rho, F_FLOATS, NULL, "biases"),
	SVM(support_vectors, F_FLOATS, NULL, "vectors"),
	SVM(vectors_per_class, F_INTS, NULL, "how many of each class"),
	SVM_KERNEL,
	POST(struct svm_params),
	{0}};
static const struct field svm_regressor_attrs[] = {
	SVM(coefficients, F_FLOATS, NULL, "weights of the vectors"),
	SVM(kernel_params, F_FLOATS, NULL, "gamma, coef0, degree"),
	SVM(n_supports, F_INT, "0", "number of vectors"),
	SVM(one_class, F_INT, "0", "whether the result is 1 or -1"),
	SVM(rho, F_FLOATS, NULL, "bias"),
	SVM(support_vectors, F_FLOATS, NULL, "vectors"),
	SVM_KERNEL,
	POST(struct svm_params),
	{0}};
#define TREE(member, type_, help_) FIELD(struct tree_params, member, type_, NULL, help_)
#define LEAF(name_, member, type_, help_)                                                          \
	{                                                                                          \
		.name = (name_), .type = (type_), .off = offsetof(struct tree_params, member),     \
		.help = (help_)                                                                    \
	}
#define TREE_NODES                                                                                 \
	TREE(nodes_treeids, F_INTS, "tree of each node"),                                          \
		TREE(nodes_nodeids, F_INTS, "its id in the tree"),                                 \
		TREE(nodes_featureids, F_INTS, "feature that is compared"),                        \
		TREE(nodes_truenodeids, F_INTS, "node where it holds"),                            \
		TREE(nodes_falsenodeids, F_INTS, "node where it does not"),                        \
		TREE(nodes_missing_value_tracks_true, F_INTS, "where NaN goes"),                   \
		TREE(nodes_modes, F_STRINGS, "comparison"),                                        \
		TREE(nodes_values, F_FLOATS, "what is compared with"),                             \
		TREE(nodes_hitrates, F_FLOATS, "popularity"),                                      \
		TREE(nodes_values_as_tensor, F_TENSOR, "what is compared with"),                   \
		TREE(nodes_hitrates_as_tensor, F_TENSOR, "popularity"),                            \
		TREE(base_values, F_FLOATS, "added to the results"),                               \
		TREE(base_values_as_tensor, F_TENSOR, "added to the results"),                     \
		POST(struct tree_params)
static const struct field tree_classifier_attrs[] = {
	TREE_NODES,
	LEAF("class_treeids", leaf_treeids, F_INTS, "tree of each weight"),
	LEAF("class_nodeids", leaf_nodeids, F_INTS, "leaf of each weight"),
	LEAF("class_ids", leaf_ids, F_INTS, "class of each weight"),
	LEAF("class_weights", leaf_weights, F_FLOATS, "weights"),
	LEAF("class_weights_as_tensor", leaf_weights_as_tensor, F_TENSOR, "weights"),
	FIELD_DATA(struct tree_params, classlabels_int64s, F_INTS, NULL, "labels"),
	TREE(classlabels_strings, F_STRINGS, "labels"),
	{0}};
static const struct field tree_regressor_attrs[] = {
	TREE_NODES,
	LEAF("target_treeids", leaf_treeids, F_INTS, "tree of each weight"),
	LEAF("target_nodeids", leaf_nodeids, F_INTS, "leaf of each weight"),
	LEAF("target_ids", leaf_ids, F_INTS, "target of each weight"),
	LEAF("target_weights", leaf_weights, F_FLOATS, "weights"),
	LEAF("target_weights_as_tensor", leaf_weights_as_tensor, F_TENSOR, "weights"),
	TREE(n_targets, F_INT, "number of results"),
	FIELD_ENUM(struct tree_params, aggregate_function, "SUM", "AVERAGE|SUM|MIN|MAX",
		   "how trees are joined"),
	{0}};
#define ENSEMBLE(member, type_, def_, help_)                                                       \
	FIELD(struct ensemble_params, member, type_, def_, help_)
#define ENSEMBLE_REQ(member, type_, help_) FIELD_REQ(struct ensemble_params, member, type_, help_)
static const struct field ensemble_attrs[] = {
	ENSEMBLE(aggregate_function, F_INT, "1", "0 average, 1 sum, 2 min, 3 max"),
	ENSEMBLE(post_transform, F_INT, "0", "0 none, 1 softmax, 2 logistic, 3 softmax_zero, 4 probit"),
	ENSEMBLE(n_targets, F_INT, NULL, "number of results"),
	ENSEMBLE_REQ(leaf_targetids, F_INTS, "target of each leaf"),
	ENSEMBLE_REQ(leaf_weights, F_TENSOR, "weight of each leaf"),
	ENSEMBLE(membership_values, F_TENSOR, NULL, "sets, with NaN between them"),
	ENSEMBLE_REQ(nodes_falseleafs, F_INTS, "whether the false branch is a leaf"),
	ENSEMBLE_REQ(nodes_falsenodeids, F_INTS, "node or leaf where it does not hold"),
	ENSEMBLE_REQ(nodes_featureids, F_INTS, "feature that is compared"),
	ENSEMBLE(nodes_hitrates, F_TENSOR, NULL, "popularity"),
	ENSEMBLE(nodes_missing_value_tracks_true, F_INTS, NULL, "where NaN goes"),
	ENSEMBLE_REQ(nodes_modes, F_TENSOR, "comparison"),
	ENSEMBLE_REQ(nodes_splits, F_TENSOR, "what is compared with"),
	ENSEMBLE_REQ(nodes_trueleafs, F_INTS, "whether the true branch is a leaf"),
	ENSEMBLE_REQ(nodes_truenodeids, F_INTS, "node or leaf where it holds"),
	ENSEMBLE_REQ(tree_roots, F_INTS, "root of each tree"),
	{0}};
static const struct field zip_attrs[] = {
	FIELD_DATA(struct zip_map_params, classlabels_int64s, F_INTS, NULL, "keys"),
	FIELD(struct zip_map_params, classlabels_strings, F_STRINGS, NULL, "keys"),
	{0}};

#define ML(name_, since_, in_, out_, infer_)                                                       \
	.name = (name_), .domain = "ai.onnx.ml", .since = (since_), .in = (in_), .out = (out_),    \
	.infer = (infer_)
#define HOST .flags = OP_HOST_VALUES
#define MANY .flags = OP_HOST_VALUES | OP_OPTIONAL_OUT

const struct op ops_ml[] = {
	{ML("ArrayFeatureExtractor", 1, extractor_in, extractor_out, extractor_infer)},
	{ML("Binarizer", 1, x_num, y_num, same_infer),
	 ATTRS(binarizer_attrs, struct binarizer_params)},
	{ML("CastMap", 1, x_map, y_any, cast_map_infer),
	 ATTRS(cast_map_attrs, struct cast_map_params), HOST},
	{ML("CategoryMapper", 1, category_in, category_out, category_infer),
	 ATTRS(category_attrs, struct category_params), HOST},
	{ML("DictVectorizer", 1, x_map, y_any, dict_infer), ATTRS(dict_attrs, struct dict_params),
	 HOST},
	{ML("FeatureVectorizer", 1, feature_in, y_float, feature_infer),
	 ATTRS(feature_attrs, struct feature_params)},
	{ML("Imputer", 1, x_num, y_num, imputer_infer), ATTRS(imputer_attrs, struct imputer_params)},
	{ML("LabelEncoder", 4, label_in, label_out, label_infer),
	 ATTRS(label_attrs, struct label_params), HOST},
	{.name = "LabelEncoder", .domain = "ai.onnx.ml", .since = 2, .types = T_STRING | T_I64 | T_F32},
	{.name = "LabelEncoder",
	 .domain = "ai.onnx.ml",
	 .since = 1,
	 .in = category_in,
	 .out = category_out,
	 ATTRS(label1_attrs, struct label1_params),
	 .upgrade = label1_upgrade},
	{ML("LinearClassifier", 1, x_num, classifier_out, linear_classifier_infer),
	 ATTRS(linear_classifier_attrs, struct linear_params), MANY},
	{ML("LinearRegressor", 1, x_num, y_float, linear_regressor_infer),
	 ATTRS(linear_regressor_attrs, struct linear_params)},
	{ML("Normalizer", 1, x_num, y_float, normalizer_infer),
	 ATTRS(normalizer_attrs, struct normalizer_params)},
	{ML("OneHotEncoder", 1, one_hot_in, y_float, one_hot_infer),
	 ATTRS(one_hot_attrs, struct one_hot_encoder_params), HOST},
	{ML("SVMClassifier", 1, x_num, classifier_out, svm_classifier_infer),
	 ATTRS(svm_classifier_attrs, struct svm_params), MANY},
	{ML("SVMRegressor", 1, x_num, y_float, svm_regressor_infer),
	 ATTRS(svm_regressor_attrs, struct svm_params)},
	{ML("Scaler", 1, x_num, y_float, scaler_infer), ATTRS(scaler_attrs, struct scaler_params)},
	{ML("TreeEnsemble", 5, ensemble_in, ensemble_out, ensemble_infer),
	 ATTRS(ensemble_attrs, struct ensemble_params)},
	/* ai.onnx.ml 5 deprecates these in favour of TreeEnsemble; their meaning has not changed */
	{ML("TreeEnsembleClassifier", 3, x_num, classifier_out, tree_classifier_infer),
	 ATTRS(tree_classifier_attrs, struct tree_params), MANY},
	{.name = "TreeEnsembleClassifier", .domain = "ai.onnx.ml", .since = 1},
	{ML("TreeEnsembleRegressor", 3, x_num, y_float, tree_regressor_infer),
	 ATTRS(tree_regressor_attrs, struct tree_params)},
	{.name = "TreeEnsembleRegressor", .domain = "ai.onnx.ml", .since = 1},
	{ML("ZipMap", 1, zip_in, zip_out, zip_map_infer), ATTRS(zip_attrs, struct zip_map_params),
	 HOST},
	{0}};
