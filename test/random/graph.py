# SPDX-License-Identifier: Apache-2.0
"""Values, schemas and the building of random graphs."""

import math

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

STRING = np.dtype(object)
TYPES = {  # the schemas' name: (number in TensorProto, numpy type)
    "float": (1, np.float32), "uint8": (2, np.uint8), "int8": (3, np.int8), "uint16": (4, np.uint16),
    "int16": (5, np.int16), "int32": (6, np.int32), "int64": (7, np.int64), "string": (8, object),
    "bool": (9, np.bool_), "float16": (10, np.float16), "double": (11, np.float64),
    "uint32": (12, np.uint32), "uint64": (13, np.uint64), "complex64": (14, np.complex64),
    "complex128": (15, np.complex128), "bfloat16": (16, ml_dtypes.bfloat16),
    "float8e4m3fn": (17, ml_dtypes.float8_e4m3fn), "float8e4m3fnuz": (18, ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": (19, ml_dtypes.float8_e5m2), "float8e5m2fnuz": (20, ml_dtypes.float8_e5m2fnuz),
    "uint4": (21, ml_dtypes.uint4), "int4": (22, ml_dtypes.int4),
    "float4e2m1": (23, ml_dtypes.float4_e2m1fn), "float8e8m0": (24, ml_dtypes.float8_e8m0fnu),
    "uint2": (25, ml_dtypes.uint2), "int2": (26, ml_dtypes.int2),
    "float6e2m3": (27, ml_dtypes.float6_e2m3fn), "float6e3m2": (28, ml_dtypes.float6_e3m2fn),
}
NUMBER = {t: n for t, (n, _) in TYPES.items()}
NUMPY = {t: np.dtype(d) for t, (_, d) in TYPES.items()}
BY_NUMPY = {d: t for t, d in NUMPY.items()}
BY_NUMBER = {n: t for t, n in NUMBER.items()}

FLOATS = ("float", "double", "float16", "bfloat16")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "uint4", "uint2")
FLOAT8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0")
FLOAT6 = ("float6e2m3", "float6e3m2")
SMALL = FLOAT8 + FLOAT6 + ("uint4", "int4", "float4e2m1", "uint2", "int2")
COMPLEX = ("complex64", "complex128")
WEIGHT = {"float": 10, "int64": 3, "float16": 2, "double": 2, "int32": 2, "int8": 2, "uint8": 2}


def numbers(*of):
    return [float(x) for x in of]


def extremes(t):
    """Smallest and largest magnitudes of a float type, denormal ones included."""
    i = ml_dtypes.finfo(NUMPY[t])
    return numbers(i.smallest_subnormal, -i.smallest_subnormal, i.smallest_normal, -i.smallest_normal / 2, i.max, i.min, i.max / 2)


NOT_NUMBERS = numbers("nan", "inf", "-inf", "-0.0", 0)

WORDS = ["", "a", "A", "b", "Bc", "hello world", "The", "the", "1.5", "-3", "\u00e9t\u00e9", "\u4e2d\u6587", "x y  z", "NaN", "42"]


def type_of(a):
    """The schema's name of an array's type."""
    if a.dtype.kind in "OUS":
        return "string"
    return BY_NUMPY[a.dtype]


def is_float(t):
    return t in FLOATS or t in FLOAT8 or t in FLOAT6 or t == "float4e2m1"


class Value:
    """
    A tensor (data: array), a sequence (list), an optional of one of them (optional: True, data may be None), or a map
    (data: dict; map: types of its keys and values).
    """

    def __init__(self, data, name=None, const=None, elem=None, optional=False, rank=None, volatile=False, map=None):
        self.data, self.name, self.const, self.optional, self.volatile = data, name, const, optional, volatile
        self.rank = rank
        if isinstance(data, np.generic):
            self.data = data = np.asarray(data)
        self.map = map
        if elem is None:
            first = data[0] if isinstance(data, list) else data
            elem = type_of(first) if isinstance(first, np.ndarray) else "float"
        self.type = elem

    @property
    def tensor(self):
        return isinstance(self.data, np.ndarray) and not self.optional

    @property
    def sequence(self):
        return isinstance(self.data, list) and not self.optional

    @property
    def shape(self):
        return self.data.shape

    def proto_type(self, dims=None):
        """TypeProto; dims: the shape to declare, by default the value's own."""
        if self.map:
            return helper.make_map_type_proto(NUMBER[self.map[0]], helper.make_tensor_type_proto(NUMBER[self.map[1]], []))
        if isinstance(self.data, list):
            t = helper.make_sequence_type_proto(helper.make_tensor_type_proto(NUMBER[self.type], None))
        else:
            shape = dims if dims is not None else (None if self.data is None else list(self.data.shape))
            t = helper.make_tensor_type_proto(NUMBER[self.type], shape)
        return helper.make_optional_type_proto(t) if self.optional else t


def to_tensor_proto(a, name=""):
    if a.dtype == object:
        t = TensorProto(name=name, data_type=TensorProto.STRING, dims=a.shape)
        t.string_data.extend(str(s).encode() for s in a.ravel())
        return t
    t = numpy_helper.from_array(np.ascontiguousarray(a).reshape(a.shape), name)
    return t


def to_pb(v):
    """The bytes of an input_K.pb."""
    data = v.data
    if v.map:
        m = onnx.MapProto(key_type=NUMBER[v.map[0]])
        if v.map[0] == "string":
            m.string_keys.extend(k.encode() for k in data)
        else:
            m.keys.extend(data)
        m.values.elem_type = onnx.SequenceProto.TENSOR
        m.values.tensor_values.extend(to_tensor_proto(np.asarray(x, NUMPY[v.map[1]])) for x in data.values())
        return m.SerializeToString()
    if isinstance(data, list):
        seq = onnx.SequenceProto()
        seq.elem_type = onnx.SequenceProto.TENSOR
        seq.tensor_values.extend(to_tensor_proto(a) for a in data)
        if not v.optional:
            return seq.SerializeToString()
        o = onnx.OptionalProto(elem_type=onnx.OptionalProto.SEQUENCE)
        o.sequence_value.CopyFrom(seq)
        return o.SerializeToString()
    if v.optional:
        o = onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR)
        if data is None:
            o.elem_type = onnx.OptionalProto.UNDEFINED
        else:
            o.tensor_value.CopyFrom(to_tensor_proto(data))
        return o.SerializeToString()
    return to_tensor_proto(data).SerializeToString()


def from_tensor_proto(t):
    if t.data_type == TensorProto.STRING:
        a = np.empty(int(np.prod(t.dims, dtype=np.int64)), object)
        for i, s in enumerate(t.string_data):
            a[i] = s.decode("utf-8", "replace")
        return a.reshape(tuple(t.dims))
    return numpy_helper.to_array(t)


def from_map_proto(m):
    keys = [k.decode() for k in m.string_keys] if m.string_keys else list(m.keys)
    values = [v for t in m.values.tensor_values for v in from_tensor_proto(t).ravel().tolist()]
    return dict(zip(keys, values))


def from_pb(raw, like):
    """What an output_K.pb holds, read as the kind of value that `like` is."""
    if like.optional:
        o = onnx.OptionalProto.FromString(raw)
        if o.HasField("sequence_value"):
            return [from_tensor_proto(t) for t in o.sequence_value.tensor_values]
        return from_tensor_proto(o.tensor_value) if o.HasField("tensor_value") else None
    if isinstance(like.data, list):
        seq = onnx.SequenceProto.FromString(raw)
        if seq.map_values:
            return [from_map_proto(m) for m in seq.map_values]
        return [from_tensor_proto(t) for t in seq.tensor_values]
    return from_tensor_proto(TensorProto.FromString(raw))


# --- schemas, those of ONNX and those of ONNX Runtime, in one form


class Slot:
    def __init__(self, name, option, kind):
        self.name, self.kind = name, kind
        option = str(option).rsplit(".", maxsplit=1)[-1]
        self.optional, self.variadic = option == "Optional", option == "Variadic"


class Schema:
    def __init__(self, s, theirs):
        self.name, self.domain, self.since = s.name, s.domain or "ai.onnx", s.since_version
        kind = (lambda f: f.typeStr) if theirs else (lambda f: f.type_str)
        self.inputs = [Slot(f.name, f.option, kind(f)) for f in s.inputs]
        self.outputs = [Slot(f.name, f.option, kind(f)) for f in s.outputs]
        self.attributes = dict(s.attributes)
        self.types = {c.type_param_str: sorted(c.allowed_type_strs) for c in s.type_constraints}

    def slot(self, name):
        return next((f for f in self.inputs if f.name == name), None)

    def has(self, name):
        return name in self.attributes or self.slot(name) is not None

    def allowed(self, kind):
        """Tensor types of a slot or a type variable, as short names."""
        f = self.slot(kind)
        if f is not None:
            kind = f.kind
        return [t[7:-1] for t in self.types.get(kind, [kind]) if t.startswith("tensor(") and t[7:-1] in TYPES]


_theirs, _left_over = {}, {}
LEFT_OVER = ("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh", "SimplifiedLayerNormalization")


def schema(domain, name, version):
    if domain == "com.microsoft":
        if not _theirs:
            from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
            for s in get_all_operator_schema():
                if s.domain == domain:
                    _theirs[s.name] = Schema(s, True)
            _theirs.setdefault("", None)
        return _theirs.get(name)
    try:
        s = defs.get_schema(name, version, "" if domain == "ai.onnx" else domain)
    except defs.SchemaError:
        return left_over(name, version) if domain == "ai.onnx" else None
    return None if s.deprecated else Schema(s, False)


def left_over(name, version):
    """An operator that ONNX once had, or never took up, and that ONNX Runtime still has."""
    if not _left_over:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
        for s in get_all_operator_schema():
            if not s.domain and s.name in LEFT_OVER and s.since_version == 1:
                _left_over[s.name] = Schema(s, True)
    if version >= 10 and name != "SimplifiedLayerNormalization":  # it gave them up there
        return None
    return _left_over.get(name)


class Skip(Exception):
    """This operator cannot be made here and now."""


class Context:
    """What a recipe sees: random choices, the graph's values so far, the schema of the operator's version."""

    def __init__(self, rng, opset, s, values, reuse=0.6, special=False):
        self.rng, self.opset, self.schema, self.values, self.reuse = rng, opset, s, values, reuse
        self.special = special
        self.bound = {}

    # choices
    def flag(self, p=0.5):
        return bool(self.rng.random() < p)

    def int(self, lo, hi):
        """lo <= n <= hi"""
        return int(self.rng.integers(lo, hi + 1))

    def choice(self, of, weights=None):
        of = list(of)
        if weights is not None:
            weights = np.array(weights, float) / sum(weights)
        return of[int(self.rng.choice(len(of), p=weights))]

    def maybe(self, value, p=0.5):
        """value (or what it returns) or None"""
        if not self.flag(p):
            return None
        return value() if callable(value) else value

    def num(self, lo, hi):
        return float(np.float32(self.rng.uniform(lo, hi)))

    def dim(self, lo=1, hi=6):
        if lo <= 0 and self.flag(0.05):
            return 0
        return 1 if lo <= 1 and self.flag(0.15) else self.int(max(lo, 1), hi)

    def dims(self, lo=0, hi=4, zero=True, top=6):
        rank = self.int(lo, hi)
        if rank > 4:
            top = 3
        return [self.dim(0 if zero else 1, top) for _ in range(rank)]

    def axis(self, rank, beyond=0):
        """An axis of -rank..rank-1 (negative ones only where the version has them)."""
        a = self.int(0, max(rank - 1 + beyond, 0))
        return a - rank - beyond if self.flag(0.4) and self.opset >= 11 and rank else a

    # types
    def pick(self, kind, among=None):
        """A type for a type variable or slot, the same each time."""
        f = self.schema.slot(kind)
        key = f.kind if f is not None else kind
        if key not in self.bound:
            types = [t for t in self.schema.allowed(kind) if among is None or t in among]
            if not types:
                raise Skip(f"no type for {kind}")
            self.bound[key] = self.choice(types, [WEIGHT.get(t, 1) for t in types])
        return self.bound[key]

    # values
    def array(self, t, shape, kind="normal"):
        """kind: normal, positive, unit (-1..1), small, special, nonzero, finite"""
        rng, shape = self.rng, tuple(shape)
        if t == "string":
            a = np.empty(shape, object)
            for i in np.ndindex(shape):
                a[i] = WORDS[int(rng.integers(len(WORDS)))]
            return a
        if t == "bool":
            return np.asarray(rng.random(shape) < 0.5)
        if t in COMPLEX:
            return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(NUMPY[t])
        if is_float(t):
            a = np.asarray(self.floats(t, shape, kind))
            with np.errstate(all="ignore"):
                return np.asarray(self.sprinkle(a, NOT_NUMBERS + extremes(t) * (kind == "special"))).astype(NUMPY[t])
        a = np.asarray(self.ints(t, shape, kind)).astype(NUMPY[t])
        i = ml_dtypes.iinfo(NUMPY[t])
        return self.sprinkle(a, [int(i.min), int(i.max), int(i.max) - 1, 0]) if kind in ("normal", "special") else a

    def sprinkle(self, a, what):
        """With --special, some elements of most tensors become one of `what`."""
        if not self.special or not a.size or self.flag(0.3):
            return a
        a, share = np.array(a), self.choice([0.03, 0.1, 0.3])
        for i in np.ndindex(a.shape):
            if self.rng.random() < share:
                a[i] = what[int(self.rng.integers(len(what)))]
        return a

    def floats(self, t, shape, kind):
        rng = self.rng
        if kind == "unit":
            return rng.uniform(-0.99, 0.99, shape)
        if kind == "positive":
            return rng.uniform(0.05, 4, shape)
        a = rng.normal(size=shape) * float(self.choice([1, 1, 1, 3, 0.3]))
        if kind == "nonzero":
            a = np.where(np.abs(a) < 0.1, 0.5, a)
        if kind == "special" and t in FLOATS and self.flag(0.25):
            a = np.array(a)
            what = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 0.5, 1.5, 2.5, -0.5]
            for i in np.ndindex(shape):
                if rng.random() < 0.2:
                    a[i] = what[int(rng.integers(len(what)))]
        if t == "float8e8m0":
            a = np.exp2(np.round(a))
        return a

    def ints(self, t, shape, kind):
        low, high = (0, {"uint2": 3, "uint4": 15}.get(t, 20)) if t in UNSIGNED else \
            ({"int2": -2, "int4": -8}.get(t, -10), {"int2": 1, "int4": 7}.get(t, 10))
        if kind == "positive":
            return self.rng.integers(1, min(high, 5) + 1, shape)
        if kind == "special" and self.flag(0.2) and t in INTS:
            i = np.iinfo(NUMPY[t])
            return self.rng.integers(i.min, i.max, shape, dtype=NUMPY[t], endpoint=True)
        a = self.rng.integers(low, high + 1, shape)
        return np.where(a == 0, 1, a) if kind == "nonzero" else a

    def fresh(self, t, shape, kind="normal", const=None):
        return Value(self.array(t, shape, kind), const=const)

    def fits(self, v, kind):
        a = v.data
        if not v.tensor or v.volatile:
            return False
        if v.type in ("string", "bool") or v.type in COMPLEX or a.size == 0 or self.special:
            return True
        with np.errstate(all="ignore"):
            f = a.astype(np.float64)
            if not np.all(np.isfinite(f)) or np.abs(f).max() > 1e4:
                return kind == "special" and self.flag(0.3)
            if kind == "positive":
                return bool(np.all(f > 1e-2))
            if kind == "unit":
                return bool(np.all(np.abs(f) < 1))
            if kind == "nonzero":
                return bool(np.all(np.abs(f) > 1e-2))
        return True

    def any(self, kind="T", lo=0, hi=4, data="normal", zero=True, among=None, shape=None, fits=None, top=6):
        """A tensor for the slot or type variable `kind`: one of the graph's, or a fresh one."""
        f = self.schema.slot(kind)
        key = f.kind if f is not None else kind
        types = [self.bound[key]] if key in self.bound else \
            [t for t in self.schema.allowed(kind) if among is None or t in among]
        if not types:
            raise Skip(f"no type for {kind}")
        if self.flag(self.reuse):
            old = [v for v in self.values if v.tensor and v.type in types and lo <= v.data.ndim <= hi
                   and (zero or 0 not in v.shape) and (shape is None or tuple(shape) == v.shape)
                   and v.data.size <= 4096 and (fits is None or fits(v)) and self.fits(v, data)]
            if old:
                v = old[-1] if self.flag(0.6) else self.choice(old)
                self.bound[key] = v.type
                return v
        t = self.pick(kind, among)
        return self.fresh(t, self.dims(lo, hi, zero, top) if shape is None else shape, data)

    def ints_value(self, numbers, t="int64", const=None):
        return Value(np.asarray(numbers, NUMPY[t]), const=self.flag(0.8) if const is None else const)

    def partner(self, shape, lo=0, grow=True):
        """A shape that broadcasts with `shape`."""
        out = [d if self.flag(0.75) else 1 for d in shape]
        if grow:
            out = [self.dim(1, 4) if d == 1 and self.flag(0.3) else d for d in out]
        drop = self.int(0, len(out)) if self.flag(0.3) else 0
        out = out[drop:]
        if grow and self.flag(0.15) and len(out) == len(shape) and len(out) < 5:
            out = [self.dim(1, 3)] + out
        return out

    def within(self, shape):
        """A shape that broadcasts to `shape`."""
        return self.partner(shape, grow=False)


def unwrap(v):
    """A value as what an attribute holds."""
    if isinstance(v, Value):
        v = v.data
    if isinstance(v, np.ndarray):
        return v.item() if v.ndim == 0 else v.tolist()
    return v


class Made:
    """A node with its operands, as a recipe asked for it."""

    def __init__(self, node, inputs, notes, s, opset):
        self.node, self.inputs, self.notes, self.schema, self.opset = node, inputs, notes, s, opset
        self.outputs = []


def make_node(c, recipe, fresh_name):
    """Calls a recipe and makes the node: a name is an input or an attribute, whatever this version has."""
    s = c.schema
    got = recipe(c)
    notes = {k: v for k, v in got.items() if k.startswith("_")}
    operands, used = [], []
    for f in s.inputs:
        v = got.get(f.name)
        if f.variadic:
            for x in v or []:
                operands.append(x)
            continue
        if v is None and not f.optional:
            raise Skip(f"{s.name} needs {f.name}")
        if v is not None and not isinstance(v, Value):
            t = s.allowed(f.name)
            a = np.asarray(v)
            v = Value(a.astype(np.int64) if a.dtype.kind in "iu" and "int64" in t else a, const=c.flag(0.8))
        operands.append(v)
    while operands and operands[-1] is None:
        operands.pop()
    names = []
    for v in operands:
        if v is None:
            names.append("")
            continue
        if v.name is None:
            v.name = fresh_name("x")
        used.append(v)
        names.append(v.name)
    attrs = {}
    for k, v in got.items():
        if k in s.attributes and s.slot(k) is None and v is not None:
            attrs[k] = v if isinstance(v, (onnx.GraphProto, onnx.TensorProto, onnx.TypeProto)) else unwrap(v)
    outs = []
    n = notes.get("_nout")
    for i, f in enumerate(s.outputs):
        if f.variadic:
            outs += [fresh_name("y") for _ in range(n if n is not None else 1)]
        elif n is not None:
            outs.append(fresh_name("y") if i < n else "")
        elif f.optional and not c.flag(0.5):
            outs.append("")
        else:
            outs.append(fresh_name("y"))
    while outs and not outs[-1]:
        outs.pop()
    if not outs:
        raise Skip("no outputs")
    node = helper.make_node(s.name, names, outs, name=fresh_name("n"), domain="" if s.domain == "ai.onnx" else s.domain)
    for k, v in attrs.items():
        kind = str(s.attributes[k].type).rsplit(".", maxsplit=1)[-1]
        if kind in ("INT", "FLOAT") and isinstance(v, list):
            v = v[0]
        if kind == "FLOAT":
            v = float(v)
        if kind in ("INTS", "FLOATS", "STRINGS") and not isinstance(v, list):
            v = [v] if not isinstance(v, tuple) else list(v)
        if kind == "FLOATS":
            v = [float(x) for x in v]
        a = helper.make_attribute(k, v, attr_type=getattr(onnx.AttributeProto, kind)) if kind != "TYPE_PROTO" \
            else helper.make_attribute(k, v)
        node.attribute.append(a)
    return Made(node, used, notes, s, c.opset)


# --- models

DOMAINS = {"ai.onnx.ml": 5, "com.microsoft": 1, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
IR_FOR = [(28, 14), (27, 14), (25, 13), (24, 12), (23, 11), (21, 10), (19, 9), (15, 8), (12, 7), (11, 6), (10, 5), (9, 4), (7, 3)]


def make_model(nodes, inputs, outputs, opset, ml=5, inits=(), dims=None, functions=()):
    """inputs, inits: Values; outputs: Values or names with types. dims: name -> declared shape."""
    ir = next(i for o, i in IR_FOR if opset >= o)
    dims = dims or {}
    gi = [helper.make_value_info(v.name, v.proto_type(dims.get(v.name))) for v in inputs]
    if ir < 4:  # initializers are inputs too
        gi += [helper.make_value_info(v.name, v.proto_type()) for v in inits]
    go = []
    for v in outputs:
        if isinstance(v, Value):
            go.append(helper.make_value_info(v.name, v.proto_type(
                None if v.data is None or isinstance(v.data, list) else [None] * v.data.ndim)))
        else:
            go.append(onnx.ValueInfoProto(name=v))
    graph = helper.make_graph(nodes, "random", gi, go, [to_tensor_proto(v.data, v.name) for v in inits])
    used = {n.domain for n in all_nodes(nodes)} - {"", "ai.onnx"}
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, ml if d == "ai.onnx.ml" else DOMAINS.get(d, 1)) for d in sorted(used)]
    return helper.make_model(graph, ir_version=ir, opset_imports=imports, producer_name="random",
                             functions=list(functions))


def all_nodes(nodes):
    for n in nodes:
        yield n
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(a.g.node)


def elements(shape):
    return math.prod(shape)
