# SPDX-License-Identifier: Apache-2.0
"""Recipes of operators that go element by element, reductions and products."""

import numpy as np

from graph import FLOATS, UNSIGNED, Skip, Value
from recipe import recipe

# --- one input

UNARY = {"normal": "Sin Cos Tanh Sigmoid Erf Atan Asinh Softsign Exp Sinh Cosh",
         "special": "Abs Neg Ceil Floor Relu Sign IsNaN Round Not Identity Softplus BitwiseNot",
         "unit": "Acos Asin Atanh", "positive": "Log Sqrt", "nonzero": "Reciprocal", "tan": "Tan"}


def _unary(name, data):
    @recipe(name)
    def make(c):
        slot = c.schema.inputs[0].name
        kind = {"tan": "unit"}.get(data, data)
        notes = {}
        if data == "special" and c.flag(0.05):
            notes["_reuse"] = False
        return {slot: c.any(slot, data=kind), **notes}
    return make


for kind_, names_ in UNARY.items():
    for name_ in names_.split():
        _unary(name_, kind_)


@recipe("Acosh")
def acosh(c):
    t = c.pick("T")
    x = c.array(t, c.dims(), "positive")
    return dict(input=Value((x.astype(np.float64) + 1.1).astype(x.dtype)))


@recipe("IsInf")
def isinf(c):
    return dict(X=c.any("X", data="special"), detect_negative=c.maybe(lambda: c.int(0, 1)),
                detect_positive=c.maybe(lambda: c.int(0, 1)))


def _alphas(*names, slot="X", data="special", **ranges):
    def wrap(c):
        got = {slot: c.any(slot, data=data)}
        for k, (lo, hi) in ranges.items():
            got[k] = c.maybe(lambda lo=lo, hi=hi: c.num(lo, hi), 0.6)
        return got
    for n in names:
        recipe(n)(wrap)


_alphas("Elu", "Celu", alpha=(0.1, 2))
_alphas("LeakyRelu", "ThresholdedRelu", alpha=(-0.5, 1.5))
_alphas("Selu", alpha=(0.5, 2), gamma=(0.5, 2))
_alphas("HardSigmoid", alpha=(0.05, 1), beta=(-1, 1))
_alphas("HardSwish", "Mish", "Swish", alpha=(-1, 2))
_alphas("Shrink", slot="input", data="normal", bias=(-1, 1), lambd=(0, 1))


@recipe("Gelu")
def gelu(c):
    return dict(X=c.any("X"), approximate=c.maybe(lambda: c.choice(["none", "tanh"])))


@recipe("PRelu")
def prelu(c):
    x = c.any("T", lo=0)
    if c.opset < 7:
        raise Skip("old")
    return dict(X=x, slope=c.any("T", shape=c.within(x.shape)))


@recipe("Clip")
def clip(c):
    x = c.any("T", data="special")
    lo, hi = sorted(c.array(x.type, (2,)).tolist())
    if c.opset < 11:
        return dict(input=x, min=c.maybe(float(lo)), max=c.maybe(float(hi)))
    if c.flag(0.1):
        lo, hi = hi, lo
    return dict(input=x, min=c.maybe(lambda: Value(np.asarray(lo, x.data.dtype), const=c.flag(0.7))),
                max=c.maybe(lambda: Value(np.asarray(hi, x.data.dtype), const=c.flag(0.7))))


@recipe("Cast")
def cast(c):
    types = [t for t in c.schema.allowed("T2") if not t.startswith("complex")]
    x = c.any("T1", fits=lambda v: not v.type.startswith("complex"))
    if x.type.startswith("complex"):
        raise Skip("complex")
    to = c.choice(types)
    if x.type == "string" and to != "string":
        a = np.empty(x.shape, object)
        for i in np.ndindex(a.shape):
            a[i] = c.choice(["1", "-3", "2.5", "0", "1e2", "100"] if to in FLOATS else ["1", "0", "7", "12"])
        x = Value(a)
        if to == "bool":
            raise Skip("string to bool is not said")
    if to == "string" and x.type not in ("int32", "int64", "bool", "string", "float", "int8", "uint8"):
        raise Skip("digits are not said")
    if to in ("uint8", "uint16", "uint32", "uint64", "uint4", "uint2") and x.type in FLOATS:
        x = Value(np.abs(np.where(np.isfinite(x.data.astype(float)), x.data.astype(float), 1)).clip(0, 200 if to != "uint4" else 15 if to != "uint2" else 3).astype(x.data.dtype))
    if to in ("int8", "int4", "int2", "uint4", "uint2") and x.type not in ("string",):
        top = {"int8": 100, "int4": 7, "uint4": 15, "int2": 1, "uint2": 3}[to]
        x = Value(np.clip(x.data.astype(float), 0, top).astype(x.data.dtype))
    return dict(input=x, to=_number(to), saturate=c.maybe(lambda: c.int(0, 1)),
                round_mode=c.maybe(lambda: c.choice(["up", "down", "nearest"])) if to == "float8e8m0" else None)


def _number(t):
    from graph import NUMBER
    return NUMBER[t]


@recipe("CastLike")
def castlike(c):
    x = c.any("T1", among=("float", "int32", "int64", "double", "float16", "bool"))
    x = Value(np.clip(x.data.astype(float), 0, 100).astype(x.data.dtype))
    to = c.choice([t for t in c.schema.allowed("T2") if t in ("float", "int32", "int64", "double", "float16", "bool", "uint8", "bfloat16")])
    return dict(input=x, target_type=c.fresh(to, c.dims(0, 2)), saturate=c.maybe(lambda: c.int(0, 1)))


@recipe("BitCast")
def bitcast(c):
    x = c.any("T1", among=("float", "int32", "uint32", "int64", "double", "float16", "int16", "uint8", "int8"))
    like = {4: ("float", "int32", "uint32"), 8: ("int64", "double", "uint64"), 2: ("float16", "int16", "uint16", "bfloat16"),
            1: ("int8", "uint8")}[x.data.dtype.itemsize]
    return dict(input=x, to=_number(c.choice(like)), _reuse=False)


@recipe("Dropout")
def dropout(c):
    notes = dict(_nout=c.int(1, 2))
    if c.opset < 12:
        return dict(data=c.any("T"), ratio=c.maybe(c.num(0, 0.9)), _nout=1)
    ratio = c.maybe(lambda: Value(np.float32(c.choice([0, 0.5, 0.9])), const=True))
    training = c.maybe(lambda: Value(np.bool_(False) if c.flag(0.9) else np.bool_(True), const=True))
    if training is not None and bool(training.data) and (ratio is None or ratio.data != 0):
        notes["_random"] = True
    return dict(data=c.any("T"), ratio=ratio, training_mode=training, seed=c.maybe(3), **notes)


# --- two inputs and more


def _pair(c, a="A", b="B", first="T", second="T", data="special", data2=None, among=None):
    if c.opset < 7:
        raise Skip("old broadcasting")
    x = c.any(first, data=data, among=among)
    y = c.any(second, shape=c.partner(x.shape), data=data2 or data)
    return {a: x, b: y} if c.flag(0.6) or data2 else {a: y, b: x}


for name_ in "Add Sub Mul And Or Xor BitwiseAnd BitwiseOr BitwiseXor Equal Greater Less GreaterOrEqual LessOrEqual".split():
    recipe(name_)(lambda c: _pair(c))


@recipe("Div")
def div(c):
    p = _pair(c, data="normal", data2="nonzero")
    return p


@recipe("Mod")
def mod(c):
    p = _pair(c, data="normal", data2="nonzero")
    return dict(p, fmod=1 if p["A"].type in FLOATS else c.maybe(lambda: c.int(0, 1)),
                integer_mode=None)


@recipe("Pow")
def power(c):
    two = "T1" if "T1" in c.schema.types else "T"
    x = c.any("T", data="positive")
    y = c.any(two, shape=c.partner(x.shape), data="unit" if c.flag(0.5) else "positive")
    if y.type not in FLOATS:
        y = Value(np.clip(np.abs(y.data.astype(float)), 0, 4).astype(y.data.dtype))
    if x.type not in FLOATS:
        x = Value(np.clip(np.abs(x.data.astype(float)), 0, 5).astype(x.data.dtype))
    if x.type not in FLOATS and y.type in FLOATS:
        y = Value(np.round(np.abs(y.data.astype(float))).astype(y.data.dtype))
    return dict(X=x, Y=y)


@recipe("BitShift")
def bitshift(c):
    t = c.pick("T")
    shape = c.dims()
    return dict(X=c.fresh(t, shape, "special"), Y=Value(c.rng.integers(0, 8, c.partner(shape)).astype(_np(t))),
                direction=c.choice(["LEFT", "RIGHT"]))


def _np(t):
    from graph import NUMPY
    return NUMPY[t]


@recipe("Max", "Min", "Sum", "Mean")
def variadic(c):
    x = c.any("T", data="special" if c.schema.name in ("Max", "Min") else "normal")
    got = [x] + [c.any("T", shape=c.partner(x.shape) if c.opset >= 8 else x.shape) for _ in range(c.int(0, 3))]
    # the partners must fit each other too
    try:
        np.broadcast_shapes(*[v.shape for v in got])
    except ValueError:
        got = got[:2]
    return {c.schema.inputs[0].name: got}


@recipe("Where")
def where(c):
    x = c.any("T", data="special")
    y = c.any("T", shape=c.partner(x.shape))
    shape = np.broadcast_shapes(x.shape, y.shape)
    return dict(condition=c.any("B", shape=c.partner(list(shape))), X=x, Y=y)


@recipe("SwiGLU")
def swiglu(c):
    got = {}
    x = c.any(c.schema.inputs[0].name, lo=1)
    for f in c.schema.inputs:
        got[f.name] = c.any(f.name, shape=x.shape)
    return got


# --- along axes


@recipe(*"ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare".split(),
        "ReduceLogSum", "ReduceLogSumExp")
def reduce(c):
    name = c.schema.name
    x = c.any("T", data="positive" if name in ("ReduceLogSum", "ReduceProd") else "normal",
              zero=c.opset >= 18 or name in ("ReduceSum",))
    rank = x.data.ndim
    axes = None
    if rank and c.flag(0.8):
        n = c.int(1, rank)
        axes = [int(a) for a in c.rng.permutation(rank)[:n]]
        if c.opset >= 11:
            axes = [a - rank if c.flag(0.3) else a for a in axes]
    elif c.flag(0.2) and c.schema.slot("axes"):
        axes = []
    if axes is not None and c.schema.slot("axes"):
        axes = c.ints_value(axes)
    noop = c.maybe(lambda: c.int(0, 1), 0.3)
    return dict(data=x, axes=axes, keepdims=c.maybe(lambda: c.int(0, 1)), noop_with_empty_axes=noop)


@recipe("ArgMax", "ArgMin")
def arg(c):
    x = c.any("T", lo=1, zero=False, data="normal")
    return dict(data=x, axis=c.maybe(lambda: c.axis(x.data.ndim)), keepdims=c.maybe(lambda: c.int(0, 1)),
                select_last_index=c.maybe(lambda: c.int(0, 1)), _exact=True)


@recipe("Softmax", "LogSoftmax", "Hardmax")
def softmax(c):
    x = c.any("T", lo=1, zero=c.flag(0.1))
    return {"input": x, "axis": c.maybe(lambda: c.axis(x.data.ndim)), "_ref": c.opset >= 13}


@recipe("CumSum", "CumProd")
def cum(c):
    x = c.any("T", lo=1, hi=3)
    return dict(x=x, axis=Value(np.asarray(c.axis(x.data.ndim), c.choice([np.int32, np.int64])), const=c.flag(0.7)),
                exclusive=c.maybe(lambda: c.int(0, 1)), reverse=c.maybe(lambda: c.int(0, 1)))


@recipe("LpNormalization")
def lpnorm(c):
    x = c.any("T", lo=1, data="nonzero")
    return dict(input=x, axis=c.maybe(lambda: c.axis(x.data.ndim)), p=c.maybe(lambda: c.int(1, 2)))


@recipe("MatMul")
def matmul(c):
    if c.flag(0.6):
        x = c.any("T", lo=1, hi=4)
    else:
        x = c.fresh(c.pick("T"), c.dims(1, 4), "normal")
    k = x.shape[-1]
    kind = c.int(0, 3)
    if kind == 0:
        shape = [k]
    elif kind == 1 or x.data.ndim < 3:
        shape = [k, c.dim(0, 8)]
    else:
        shape = c.partner(list(x.shape[:-2]), grow=False) + [k, c.dim(0, 8)]
    return dict(A=x, B=c.any("T", shape=shape))


@recipe("Gemm")
def gemm(c):
    ta, tb = c.maybe(lambda: c.int(0, 1)), c.maybe(lambda: c.int(0, 1))
    a = c.any("T", lo=2, hi=2, top=12)
    m, k = (a.shape[1], a.shape[0]) if ta else a.shape
    n = c.dim(0, 12)
    b = c.any("T", shape=[n, k] if tb else [k, n])
    third = c.any("T", shape=c.within([m, n])) if c.opset < 11 or c.flag(0.7) else None
    return dict(A=a, B=b, C=third, transA=ta, transB=tb, alpha=c.maybe(lambda: c.num(-2, 2)), beta=c.maybe(lambda: c.num(-2, 2)))


@recipe("MatMulInteger")
def matmul_integer(c):
    ta, tb = c.pick("T1"), c.pick("T2")
    m, k, n = c.dim(1, 8), c.dim(1, 8), c.dim(1, 8)
    batch = c.dims(0, 2, False, 3)
    a, b = c.fresh(ta, batch + [m, k]), c.fresh(tb, c.within(batch) + [k, n])
    per = c.flag(0.3) and not batch
    return dict(A=a, B=b, a_zero_point=c.maybe(lambda: c.fresh(ta, [m] if per and c.flag(0.3) else [])),
                b_zero_point=c.maybe(lambda: c.fresh(tb, [n] if per else [])))


EINSUM = [("ij,jk->ik", 2), ("ij->ji", 1), ("ii->i", 1), ("ii", 1), ("bij,bjk->bik", 2), ("...ij,...jk->...ik", 2), ("i,i", 2),
          ("i,j->ij", 2), ("ij->", 1), ("ij,kj->ik", 2), ("bhid,bhjd->bhij", 2), ("ij,jk,kl->il", 3), ("ijk->kji", 1),
          ("...i->...", 1), (" i j , j k -> i k ", 2), ("ij,ij->i", 2), ("aij,aij->ija", 2), ("...,...", 2), ("ij,jk", 2), ("ba", 1)]


@recipe("Einsum")
def einsum(c):
    equation, n = c.choice(EINSUM)
    sizes = {}
    lead = c.dims(0, 2, False, 3)
    got = []
    t = c.pick("T", FLOATS + ("int32", "int64"))
    for term in equation.replace(" ", "").split("->")[0].split(","):
        shape = []
        for part in term.replace("...", "."):
            shape += lead if part == "." else [sizes.setdefault(part, c.dim(1, 5))]
        got.append(c.fresh(t, shape))
    assert len(got) == n
    return dict(Inputs=got, equation=equation)


@recipe("Det")
def det(c):
    n = c.dim(1, 4)
    return dict(X=c.any("T", shape=c.dims(0, 2) + [n, n]), _tol=10)


# --- made of nothing


@recipe("Constant")
def constant(c):
    from graph import to_tensor_proto
    have = [a for a in ("value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
            if a in c.schema.attributes]
    kind = c.choice(have + ["value"] * 3)
    if kind == "value":
        t = c.choice(c.schema.allowed("T"))
        return dict(value=to_tensor_proto(c.array(t, c.dims())))
    return {kind: {"value_float": 1.5, "value_floats": [1.0, -2.5], "value_int": 7, "value_ints": [1, 2, -3],
                   "value_string": "ab", "value_strings": ["a", "", "xyz"]}[kind]}


@recipe("ConstantOfShape")
def constant_of_shape(c):
    from graph import to_tensor_proto
    t = c.choice(c.schema.allowed("T2"))
    return dict(input=c.ints_value(c.dims()), value=c.maybe(lambda: to_tensor_proto(c.array(t, [1])), 0.8))


@recipe("EyeLike")
def eyelike(c):
    x = c.any("T1", lo=2, hi=2)
    return dict(input=x, k=c.maybe(lambda: c.int(-3, 3)), dtype=c.maybe(lambda: _number(c.choice(["float", "int64", "double", "int32"]))))


@recipe("Range")
def range_(c):
    t = c.pick("T")
    lo = c.int(-5, 5) if t not in UNSIGNED else c.int(0, 5)
    step = c.choice([1, 2, 3, -1, -2]) if t not in UNSIGNED else c.choice([1, 2])
    hi = lo + step * c.int(-1, 8) + c.choice([0, 1]) * (1 if step > 0 else -1)
    if t in UNSIGNED:
        hi = max(hi, 0)
    scale = 0.5 if t in FLOATS else 1
    return {k: Value(np.asarray(v * scale).astype(_np(t)), const=c.flag(0.7)) for k, v in
            (("start", lo), ("limit", hi), ("delta", step))}


@recipe("RandomNormal", "RandomUniform")
def random(c):
    return dict(shape=c.dims(1, 3), dtype=c.maybe(lambda: _number(c.choice(["float", "double", "float16"]))), _random=True)


@recipe("RandomNormalLike", "RandomUniformLike")
def random_like(c):
    return dict(input=c.any("T1", among=("float", "double")), dtype=c.maybe(lambda: _number(c.choice(["float", "double", "float16"]))), _random=True)


@recipe("Bernoulli")
def bernoulli(c):
    x = c.fresh(c.pick("T1"), c.dims(), "unit")
    return dict(input=Value(np.abs(x.data)), dtype=c.maybe(lambda: _number(c.choice(["float", "int32", "bool", "double"]))), _random=True)


@recipe("Multinomial")
def multinomial(c):
    return dict(input=c.fresh(c.pick("T1"), [c.dim(1, 3), c.dim(1, 5)]), sample_size=c.maybe(lambda: c.int(1, 5)),
                dtype=c.maybe(lambda: c.choice([6, 7])), _random=True)


@recipe("HannWindow", "HammingWindow", "BlackmanWindow")
def window(c):
    return dict(size=Value(np.asarray(c.int(1, 12), c.choice([np.int32, np.int64])), const=c.flag(0.7)),
                periodic=c.maybe(lambda: c.int(0, 1)), output_datatype=c.maybe(lambda: c.choice([1, 11, 10])), _atol=1e-5)


@recipe("MelWeightMatrix")
def mel(c):
    rate = c.choice([8000, 16000])
    got = dict(num_mel_bins=c.int(1, 8), dft_length=c.choice([16, 32, 64]), sample_rate=rate)
    got = {k: Value(np.asarray(v, np.int64), const=c.flag(0.7)) for k, v in got.items()}
    return dict(got, lower_edge_hertz=Value(np.float32(c.choice([0, 20]))), upper_edge_hertz=Value(np.float32(rate / 2)),
                output_datatype=c.maybe(lambda: c.choice([1, 11])), _atol=1e-5)


