# SPDX-License-Identifier: Apache-2.0
"""Recipes of the domains ai.onnx.ml and ai.onnx.preview.training."""

import numpy as np
from onnx import helper

from graph import NUMPY, Skip, Value
from recipe import recipe as any_recipe
from shaping import strings


def recipe(*names):
    return any_recipe(*names, domain="ai.onnx.ml")


NUMBERS = ("float", "double", "int64", "int32")
POST = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


@recipe("ArrayFeatureExtractor")
def array_feature(c):
    x = c.any("T", lo=1, zero=False, among=NUMBERS + ("string",))
    return dict(X=x, Y=Value(c.rng.integers(0, x.shape[-1], [c.int(1, 4)] if c.flag() else [1, c.int(1, 4)]).astype(np.int64)))


@recipe("Binarizer")
def binarizer(c):
    return dict(X=c.any("T", among=NUMBERS), threshold=c.maybe(lambda: c.num(-1, 1)))


@recipe("CategoryMapper")
def category(c):
    words, ids = ["a", "b", "xyz", ""], [1, 2, -3, 40]
    x = strings(c, c.dims(1, 2, False), words + ["other"]) if c.flag() else Value(c.rng.choice(ids + [99], c.dims(1, 2, False)).astype(np.int64))
    return dict(X=x, cats_strings=words, cats_int64s=ids, default_string=c.maybe("none"), default_int64=c.maybe(-7))


@recipe("ZipMap")
def zip_map(c):
    n = c.int(1, 4)
    return dict(X=c.fresh("float", [c.dim(1, 3), n]), classlabels_int64s=list(range(5, 5 + n)) if c.flag() else None,
                _fix=lambda got: got if got["classlabels_int64s"] else dict(got, classlabels_strings=["a", "b", "c", "d"][:n]), _reuse=False)


@recipe("CastMap")
def cast_map(c):
    sparse = c.flag()
    keys = sorted(c.rng.choice(6, c.int(1, 4), replace=False).tolist())
    words = c.flag(0.3)
    values = [str(c.choice([1, -2.5, 3])) for _ in keys] if words else [c.num(-2, 2) for _ in keys]
    kind = c.choice(["TO_FLOAT", "TO_INT64"] + ["TO_STRING"] * words)  # how many digits a number gets is left open
    if words and kind == "TO_INT64":
        values = [str(c.int(-5, 5)) for _ in keys]
    return dict(X=Value(dict(zip(keys, values)), map=("int64", "string" if words else "float")), cast_to=kind, map_form="SPARSE" if sparse else "DENSE",
                max_map=c.int(keys[-1] + 1, 8) if sparse else None, _reuse=False)


@recipe("DictVectorizer")
def dict_vectorizer(c):
    text = c.flag()
    vocabulary = ["a", "b", "xyz", ""] if text else [1, 2, -3, 40]
    keys = [k for k in vocabulary + ["other" if text else 7] if c.flag(0.6)]
    return dict(X=Value({k: c.num(-2, 2) for k in keys or vocabulary[:1]}, map=("string" if text else "int64", "float")), string_vocabulary=vocabulary if text else None,
                int64_vocabulary=None if text else vocabulary, _ref=False)  # ONNX Runtime for Python takes maps to float only


@recipe("FeatureVectorizer")
def feature(c):
    n = c.dim(1, 3)
    got = [c.fresh(c.pick("T1", NUMBERS), [n, c.dim(1, 3)]) for _ in range(c.int(1, 3))]
    return dict(X=got, inputdimensions=[v.shape[1] for v in got])


@recipe("Imputer")
def imputer(c):
    t = c.pick("T", ("float", "int64"))
    n, k = c.dim(1, 4), c.int(1, 4)
    a = c.array(t, [n, k])
    if t == "float":
        bad = c.choice([np.nan, 2.5])
        a[c.rng.random(a.shape) < 0.3] = bad
        return dict(X=Value(a), imputed_value_floats=[c.num(-1, 1) for _ in range(c.choice([1, k]))], replaced_value_float=bad)
    a[c.rng.random(a.shape) < 0.3] = 7
    return dict(X=Value(a), imputed_value_int64s=[c.int(-5, 5) for _ in range(c.choice([1, k]))], replaced_value_int64=7)


@recipe("LabelEncoder")
def label_encoder(c):
    words, ids, nums = ["a", "b", "xyz", ""], [1, 2, -3, 40], [0.5, 1.5, -2.0, 3.25]
    if "classes_strings" in c.schema.attributes:
        x = strings(c, c.dims(1, 2, False), words + ["other"]) if c.flag() else Value(c.rng.integers(0, 6, c.dims(1, 2, False)).astype(np.int64))
        return dict(X=x, classes_strings=words, default_string=c.maybe("none"), default_int64=c.maybe(-7))
    kinds = {"strings": (words, "default_string", "dd"), "int64s": (ids, "default_int64", -7), "floats": (nums, "default_float", -1.5)}
    k, v = c.choice(kinds), c.choice(kinds)
    shape = c.dims(1, 2, False)
    pool = kinds[k][0]
    x = strings(c, shape, pool + ["other"]) if k == "strings" else Value(c.rng.choice(pool + [99], shape).astype(np.int64 if k == "int64s" else np.float32))
    got = {"X": x, "keys_" + k: pool, "values_" + v: kinds[v][0]}
    if c.flag():
        got[kinds[v][1]] = kinds[v][2]
    return got


@recipe("LinearClassifier")
def linear_classifier(c):
    k, n = c.int(1, 4), c.int(1, 4)
    t = c.pick("T1", NUMBERS)
    classes = n if n > 1 else 2
    got = dict(X=c.fresh(t, [c.dim(1, 4), k]), coefficients=[c.num(-1, 1) for _ in range(n * k)], intercepts=c.maybe(lambda: [c.num(-1, 1) for _ in range(n)]),
               post_transform=c.maybe(lambda: c.choice(POST[:4])), multi_class=c.maybe(lambda: c.int(0, 1)))
    if got["intercepts"] is None:
        got["intercepts"] = [0.0] * n
    if c.flag():
        return dict(got, classlabels_ints=list(range(3, 3 + classes)), _nout=2)
    return dict(got, classlabels_strings=["a", "b", "c", "d"][:classes], _nout=2)


@recipe("LinearRegressor")
def linear_regressor(c):
    k, n = c.int(1, 4), c.int(1, 3)
    return dict(X=c.fresh(c.pick("T", ("float",)), [c.dim(1, 4), k]), coefficients=[c.num(-1, 1) for _ in range(n * k)], intercepts=c.maybe(lambda: [c.num(-1, 1) for _ in range(n)]),
                targets=n if n > 1 or c.flag() else None, post_transform=c.maybe(lambda: c.choice(POST[:3])))


@recipe("Normalizer")
def normalizer(c):
    return dict(X=c.fresh(c.pick("T", NUMBERS), [c.int(1, 4)] if c.flag(0.3) else [c.dim(1, 3), c.int(1, 4)], "nonzero"), norm=c.maybe(lambda: c.choice(["MAX", "L1", "L2"])))


@recipe("OneHotEncoder")
def one_hot_encoder(c):
    if c.flag():
        return dict(X=strings(c, c.dims(1, 2, False), ["a", "b", "z"]), cats_strings=["a", "b", "cc"], zeros=1)
    return dict(X=Value(c.rng.integers(0, 5, c.dims(1, 2, False)).astype(NUMPY[c.pick("T", ("int64", "float", "int32", "double"))])), cats_int64s=[0, 1, 3], zeros=1)


@recipe("Scaler")
def scaler(c):
    k = c.int(1, 4)
    one = c.flag(0.3)
    return dict(X=c.fresh(c.pick("T", NUMBERS), [c.dim(1, 3), k]), offset=[c.num(-1, 1) for _ in range(1 if one else k)], scale=[c.num(-2, 2) for _ in range(1 if one else k)])


def _kernel(c):
    return c.choice(["LINEAR", "POLY", "RBF", "SIGMOID"]), [c.num(0.1, 1), c.num(0, 1), float(c.int(1, 3))]


@recipe("SVMRegressor")
def svm_regressor(c):
    k, n = c.int(1, 3), c.int(1, 4)
    kind, params = _kernel(c)
    linear = c.flag(0.3)
    return dict(X=c.fresh("float", [c.dim(1, 4), k]), kernel_type=kind if not linear else "LINEAR", kernel_params=params, n_supports=0 if linear else n, support_vectors=None if linear else [c.num(-1, 1) for _ in range(n * k)],
                coefficients=[c.num(-1, 1) for _ in range(k if linear else n)], rho=[c.num(-1, 1)], post_transform=c.maybe("NONE"), one_class=c.maybe(lambda: c.int(0, 1)))


@recipe("SVMClassifier")
def svm_classifier(c):
    k, classes = c.int(1, 3), c.int(2, 3)
    kind, params = _kernel(c)
    per = [c.int(1, 2) for _ in range(classes)]
    n = sum(per)
    prob = c.flag(0.4)
    pairs = classes * (classes - 1) // 2
    got = dict(X=c.fresh(c.pick("T1", ("float", "double", "int64")), [c.dim(1, 4), k]), kernel_type=kind, kernel_params=params, vectors_per_class=per, support_vectors=[c.num(-1, 1) for _ in range(n * k)],
               coefficients=[c.num(-1, 1) for _ in range(n * (classes - 1))], rho=[c.num(-1, 1) for _ in range(pairs)], post_transform=c.maybe(lambda: c.choice(POST[:4])),
               prob_a=[c.num(-2, -0.5) for _ in range(pairs)] if prob else None, prob_b=[c.num(-1, 1) for _ in range(pairs)] if prob else None, _nout=2, _tol=10)
    if c.flag():
        return dict(got, classlabels_ints=list(range(3, 3 + classes)))
    return dict(got, classlabels_strings=["a", "b", "c", "d"][:classes])


def _tree(c, trees, features, modes):
    """Nodes of random binary trees: columns of the attributes, and the leaves."""
    rows, leaves = [], []
    for t in range(trees):
        todo, n = [(0, 0)], 1
        while todo:
            node, depth = todo.pop()
            if depth >= 3 or (depth > 0 and c.flag(0.4)):
                rows.append((t, node, "LEAF", 0, 0.0, 0, 0, 0))
                leaves.append((t, node))
                continue
            rows.append((t, node, c.choice(modes), c.int(0, features - 1), round(c.num(-1, 1), 2), n, n + 1, c.int(0, 1)))
            todo += [(n, depth + 1), (n + 1, depth + 1)]
            n += 2
    rows.sort()
    a = list(zip(*rows))
    cols = dict(zip(["nodes_treeids", "nodes_nodeids", "nodes_modes", "nodes_featureids", "nodes_values", "nodes_truenodeids", "nodes_falsenodeids",
                     "nodes_missing_value_tracks_true"], [list(x) for x in a]))
    return cols, leaves


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def _modes(c):
    return MODES if c.flag(0.4) else [c.choice(MODES[:4])]


def _features(c, t, shape):
    a = c.array(t, shape)
    if t == "float" and c.flag(0.2) and a.size:
        a.ravel()[c.int(0, a.size - 1)] = np.nan
    return Value(a)


@recipe("TreeEnsembleRegressor")
def tree_regressor(c):
    k, n = c.int(1, 3), c.int(1, 3)
    cols, leaves = _tree(c, c.int(1, 3), k, _modes(c))
    return dict(cols, X=_features(c, c.pick("T", ("float", "double", "int64", "int32")), [c.dim(1, 5), k]), n_targets=n, target_treeids=[l[0] for l in leaves], target_nodeids=[l[1] for l in leaves],
                target_ids=[c.int(0, n - 1) for _ in leaves], target_weights=[c.num(-1, 1) for _ in leaves], aggregate_function=c.maybe(lambda: c.choice(["SUM", "AVERAGE", "MIN", "MAX"])),
                _ref=False, base_values=c.maybe(lambda: [c.num(-1, 1) for _ in range(n)], 0.3), post_transform=c.maybe(lambda: c.choice(POST[:4]), 0.4))


@recipe("TreeEnsembleClassifier")
def tree_classifier(c):
    k, n = c.int(1, 3), c.int(1, 4)
    cols, leaves = _tree(c, c.int(1, 3), k, _modes(c))
    classes = max(n, 2)
    got = dict(cols, X=_features(c, c.pick("T1", ("float", "double", "int64", "int32")), [c.dim(1, 5), k]), class_treeids=[l[0] for l in leaves], class_nodeids=[l[1] for l in leaves],
               class_ids=[c.int(0, n - 1) for _ in leaves], class_weights=[c.num(0, 1) for _ in leaves], post_transform=c.maybe(lambda: c.choice(POST[:4]), 0.4),
               base_values=c.maybe(lambda: [c.num(-1, 1) for _ in range(n)], 0.2), _nout=2, _ref=False)
    if c.flag():
        return dict(got, classlabels_int64s=list(range(3, 3 + classes)))
    return dict(got, classlabels_strings=["a", "b", "c", "d"][:classes])


@recipe("TreeEnsemble")
def tree_ensemble(c):
    k, n = c.int(1, 3), c.int(1, 3)
    t = c.pick("T", ("float", "double"))
    splits, modes, feats, tn, tl, fn, fl, track, roots = [], [], [], [], [], [], [], [], []
    leaf_ids, leaf_weights = [], []

    def grow(depth):
        if depth >= 3 or (depth > 0 and c.flag(0.4)):
            leaf_ids.append(c.int(0, n - 1))
            leaf_weights.append(c.num(-1, 1))
            return len(leaf_ids) - 1, 1
        i = len(splits)
        splits.append(round(c.num(-1, 1), 2))
        modes.append(c.int(0, 5))
        feats.append(c.int(0, k - 1))
        track.append(c.int(0, 1))
        for l in (tn, tl, fn, fl):
            l.append(0)
        tn[i], tl[i] = grow(depth + 1)
        fn[i], fl[i] = grow(depth + 1)
        return i, 0
    for _ in range(c.int(1, 3)):
        roots.append(grow(0)[0])
    num = 1 if t == "float" else 11
    tensor = lambda name, v, kind: helper.make_tensor(name, kind, [len(v)], v)
    return dict(X=_features(c, t, [c.dim(1, 5), k]), n_targets=n, aggregate_function=c.maybe(lambda: c.int(0, 3)), post_transform=c.maybe(lambda: c.int(0, 3), 0.4), tree_roots=roots,
                nodes_splits=tensor("s", splits, num), nodes_modes=tensor("m", modes, 2), nodes_featureids=feats, nodes_truenodeids=tn, nodes_trueleafs=tl, nodes_falsenodeids=fn,
                nodes_falseleafs=fl, nodes_missing_value_tracks_true=c.maybe(lambda: track), leaf_targetids=leaf_ids, leaf_weights=tensor("w", leaf_weights, num))


# --- training


def _train(c, states, **attrs):
    t = c.pick("T1" if "T1" in c.schema.types and "tensor(float)" in c.schema.types["T1"] else "T3", ("float",))
    r = "T1" if c.schema.inputs[0].kind == "T1" else "R"
    rate = Value(np.asarray(c.num(0.01, 0.5), np.float32))
    step = Value(np.asarray(c.int(0, 3), np.int64))
    n = c.int(1, 2)
    shapes = [c.dims(1, 2, False) for _ in range(n)]
    got = []
    for k in range(2 + states):
        got += [c.fresh("float", s, "positive" if k >= 2 else "normal") for s in shapes]
    return dict(R=rate, T=step, inputs=got, _nout=n * (1 + states), _t=(t, r), _ort=False, **attrs)


@any_recipe("Adagrad", domain="ai.onnx.preview.training")
def adagrad(c):
    return _train(c, 1, decay_factor=c.maybe(lambda: c.num(0, 0.3)), epsilon=c.maybe(lambda: c.num(1e-6, 1e-2)), norm_coefficient=c.maybe(lambda: c.num(0, 0.1)))


@any_recipe("Adam", domain="ai.onnx.preview.training")
def adam(c):
    return _train(c, 2, alpha=c.maybe(lambda: c.num(0.5, 0.95)), beta=c.maybe(lambda: c.num(0.5, 0.95)), epsilon=c.maybe(lambda: c.num(1e-6, 1e-2)),
                  norm_coefficient=c.maybe(lambda: c.num(0, 0.1)), norm_coefficient_post=c.maybe(lambda: c.num(0, 0.1)))


@any_recipe("Momentum", domain="ai.onnx.preview.training")
def momentum(c):
    return _train(c, 1, alpha=c.num(0.1, 0.95), beta=c.num(0.1, 0.95), mode=c.choice(["standard", "nesterov"]), norm_coefficient=c.num(0, 0.1))


@any_recipe("Gradient", domain="ai.onnx.preview.training")
def gradient(c):
    raise Skip("no oracle")
