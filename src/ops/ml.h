/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_ML_H
#define OPS_ML_H
/* ai.onnx.ml */
#include "base/field.h"

struct tensor;

enum post_transform { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT };
#define POST_CHOICES "NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT"
enum tree_aggregate { TREE_AVERAGE, TREE_SUM, TREE_MIN, TREE_MAX };
enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID };

struct binarizer_params {
	float threshold;
};
struct cast_map_params {
	int cast_to, map_form; /* TO_FLOAT|TO_STRING|TO_INT64; DENSE|SPARSE */
	int64_t max_map;
};
struct category_params {
	struct ints cats_int64s;
	struct texts cats_strings;
	int64_t default_int64;
	const char *default_string;
};
struct dict_params {
	struct ints int64_vocabulary;
	struct texts string_vocabulary;
};
struct feature_params {
	struct ints inputdimensions;
};
struct imputer_params {
	struct floats imputed_value_floats;
	struct ints imputed_value_int64s;
	float replaced_value_float;
	int64_t replaced_value_int64;
};
struct label_params {
	struct floats keys_floats, values_floats;
	struct ints keys_int64s, values_int64s;
	struct texts keys_strings, values_strings;
	const struct tensor *keys_tensor, *values_tensor, *default_tensor;
	float default_float;
	int64_t default_int64;
	const char *default_string;
};
struct linear_params { /* classifier and regressor */
	struct ints classlabels_ints;
	struct texts classlabels_strings;
	struct floats coefficients, intercepts;
	int64_t multi_class, targets;
	int post_transform;
};
struct normalizer_params {
	int norm; /* MAX|L1|L2 */
};
struct one_hot_encoder_params {
	struct ints cats_int64s;
	struct texts cats_strings;
	int64_t zeros;
};
struct scaler_params {
	struct floats offset, scale;
};
struct svm_params { /* classifier and regressor */
	struct ints classlabels_ints, vectors_per_class;
	struct texts classlabels_strings;
	struct floats coefficients, kernel_params, prob_a, prob_b, rho, support_vectors;
	int kernel_type, post_transform;
	int64_t n_supports, one_class;
};
/* for TreeEnsembleClassifier and TreeEnsembleRegressor; the members leaf_X hold the attributes class_X and target_X */
struct tree_params {
	struct ints nodes_treeids, nodes_nodeids, nodes_featureids, nodes_truenodeids,
		nodes_falsenodeids;
	struct ints nodes_missing_value_tracks_true, leaf_treeids, leaf_nodeids, leaf_ids,
		classlabels_int64s;
	struct texts nodes_modes, classlabels_strings;
	struct floats nodes_values, nodes_hitrates, leaf_weights, base_values;
	const struct tensor *nodes_values_as_tensor, *nodes_hitrates_as_tensor,
		*leaf_weights_as_tensor;
	const struct tensor *base_values_as_tensor;
	int64_t n_targets;
	int aggregate_function, post_transform;
};
struct ensemble_params { /* TreeEnsemble */
	int64_t aggregate_function, post_transform, n_targets;
	struct ints leaf_targetids, nodes_falseleafs, nodes_falsenodeids, nodes_featureids;
	struct ints nodes_missing_value_tracks_true, nodes_trueleafs, nodes_truenodeids, tree_roots;
	const struct tensor *leaf_weights, *membership_values, *nodes_hitrates, *nodes_modes,
		*nodes_splits;
};
struct zip_map_params {
	struct ints classlabels_int64s;
	struct texts classlabels_strings;
};

#endif
