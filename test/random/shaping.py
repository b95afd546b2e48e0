# SPDX-License-Identifier: Apache-2.0
"""Recipes of operators that move data: layout, slices, gathering, sorting, text."""

import numpy as np

from graph import FLOATS, INTS, NUMPY, STRING, Skip, Value, elements
from recipe import recipe


@recipe("Reshape")
def reshape(c):
    x = c.any("T", hi=5)
    n, shape = x.data.size, []
    allowzero = c.maybe(lambda: c.int(0, 1), 0.3) if c.opset >= 14 else None
    if n == 0:
        shape = [0] + c.dims(0, 2, False) if allowzero else [int(d) for d in x.shape]
        return dict(data=x, shape=c.ints_value(shape), allowzero=allowzero)
    left = n
    for _ in range(c.int(0, 4)):
        d = c.choice([d for d in range(1, left + 1) if left % d == 0][:12])
        shape.append(d)
        left //= d
    if left > 1 or not shape and c.flag():
        shape.append(left)
    if c.flag(0.4) and shape:
        shape[c.int(0, len(shape) - 1)] = -1
    if not allowzero:
        for i, d in enumerate(shape):
            if i < x.data.ndim and d == x.shape[i] and c.flag(0.3):
                shape[i] = 0
    return dict(data=x, shape=c.ints_value(shape), allowzero=allowzero)


@recipe("Flatten")
def flatten(c):
    x = c.any("T", lo=1, hi=5)
    return dict(input=x, axis=c.maybe(lambda: c.axis(x.data.ndim, 0) if c.flag(0.7) else x.data.ndim))


@recipe("Squeeze")
def squeeze(c):
    x = c.any("T", fits=lambda v: 1 in v.shape)
    if 1 not in x.shape:
        shape = list(x.shape)
        shape.insert(c.int(0, len(shape)), 1)
        x = c.fresh(x.type, shape)
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    axes = None
    if c.flag(0.8):
        axes = sorted(int(a) for a in c.rng.permutation(ones)[:c.int(1, len(ones))])
        if c.opset >= 11:
            axes = [a - x.data.ndim if c.flag(0.3) else a for a in axes]
        if c.schema.slot("axes"):
            axes = c.ints_value(axes)
    return dict(data=x, axes=axes)


@recipe("Unsqueeze")
def unsqueeze(c):
    x = c.any("T")
    n = c.int(1, 2)
    rank = x.data.ndim + n
    axes = sorted(int(a) for a in c.rng.permutation(rank)[:n])
    if c.opset >= 11:
        axes = [a - rank if c.flag(0.3) else a for a in axes]
    return dict(data=x, axes=c.ints_value(axes) if c.schema.slot("axes") else axes)


@recipe("Transpose")
def transpose(c):
    x = c.any("T", hi=6 if c.flag(0.2) else 4)
    return dict(data=x, perm=c.maybe(lambda: [int(i) for i in c.rng.permutation(x.data.ndim)], 0.85) if x.data.ndim else None)


@recipe("Shape")
def shape_of(c):
    x = c.any("T")
    got = dict(data=x)
    if c.opset >= 15:
        got.update(start=c.maybe(lambda: c.int(-5, 5)), end=c.maybe(lambda: c.int(-5, 5)))
    return got


@recipe("Size")
def size(c):
    return dict(data=c.any("T"))


@recipe("Concat")
def concat(c):
    x = c.any("T", lo=1)
    axis = c.axis(x.data.ndim)
    got = [x]
    for _ in range(c.int(0, 3)):
        shape = list(x.shape)
        shape[axis] = c.dim(0, 4)
        got.insert(c.int(0, len(got)), c.any("T", shape=shape))
    return dict(inputs=got, axis=axis)


@recipe("Split")
def split(c):
    x = c.any("T", lo=1)
    axis = c.axis(x.data.ndim)
    n = c.int(1, 3)
    d = x.shape[axis]
    if c.flag(0.5):
        cut = sorted(c.int(0, d) for _ in range(n - 1))
        sizes = [int(v) for v in np.diff([0] + cut + [d])]
        return dict(input=x, axis=axis, split=c.ints_value(sizes) if c.schema.slot("split") else sizes, _nout=n)
    if c.opset >= 18:
        if d < n or -(-d // n) * (n - 1) > d:
            raise Skip("does not divide")
        return dict(input=x, axis=axis, num_outputs=n, _nout=n)
    divisors = [k for k in (1, 2, 3, 4) if d % k == 0]
    return dict(input=x, axis=axis if c.flag(0.8) or d != x.shape[0] else None, _nout=c.choice(divisors)) if axis in (0, -x.data.ndim) else \
        dict(input=x, axis=axis, _nout=c.choice(divisors))


@recipe("Slice")
def slice_(c):
    x = c.any("T", lo=1)
    rank = x.data.ndim
    n = c.int(1, rank)
    axes = [int(a) for a in c.rng.permutation(rank)[:n]]
    if c.opset < 10:
        axes = sorted(axes)
    starts, ends, steps = [], [], []
    for a in axes:
        d = x.shape[a]
        step = c.choice([1, 1, 1, 2, 3, -1, -1, -2]) if c.opset >= 10 else 1
        lo, hi = c.int(-d - 2, d + 2), c.int(-d - 2, d + 2)
        big = c.flag(0.2)
        if big:
            hi = 2**31 - 1 if step > 0 else -2**31
            hi = c.choice([hi, 2**63 - 1 if step > 0 else -2**63])
        starts.append(lo)
        ends.append(hi)
        steps.append(step)
    whole = n == rank and axes == list(range(rank))
    if c.opset >= 10:
        axes = [a - rank if c.flag(0.3) else a for a in axes]
        t = c.choice(["int64", "int64", "int32"])
        if t == "int32":
            ends = [int(np.clip(e, -2**31, 2**31 - 1)) for e in ends]
        use = not whole or c.flag() or any(s != 1 for s in steps)
        const = c.flag(0.8)
        return dict(data=x, starts=c.ints_value(starts, t, const), ends=c.ints_value(ends, t, const),
                    axes=c.ints_value(axes, t, const) if use else None,
                    steps=c.ints_value(steps, t, const) if any(s != 1 for s in steps) or use and c.flag() else None)
    return dict(data=x, starts=starts, ends=ends, axes=None if whole and c.flag() else axes)


@recipe("Pad")
def pad(c):
    modes = ["constant", "reflect", "edge"] + (["wrap"] if c.opset >= 19 else [])
    mode = c.maybe(lambda: c.choice(modes), 0.7)
    x = c.any("T", lo=1, zero=mode in (None, "constant"))
    rank = x.data.ndim
    axes = None
    if c.opset >= 18 and c.flag(0.4):
        axes = [int(a) for a in c.rng.permutation(rank)[:c.int(1, rank)]]
    which = axes if axes is not None else list(range(rank))
    begin, end = [], []
    for a in which:
        d = x.shape[a]
        top = {"reflect": max(d - 1, 0), "wrap": d}.get(mode, 3)
        lo = -min(d, 2) if c.flag(0.2) and mode in (None, "constant") else 0
        b, e = c.int(lo, min(top, 3)), c.int(lo, min(top, 3))
        if d + b + e < 0:
            b = e = 0
        begin.append(b)
        end.append(e)
    if c.opset < 11:
        return dict(data=x, mode=mode, pads=begin + end, value=c.maybe(lambda: c.num(-2, 2)))
    if axes is not None:
        axes = c.ints_value([a - rank if c.flag(0.3) else a for a in axes], c.choice(["int64", "int32"]))
    value = c.maybe(lambda: c.fresh(x.type, []))
    return dict(data=x, mode=mode, pads=c.ints_value(begin + end), constant_value=value, axes=axes)


@recipe("Tile")
def tile(c):
    x = c.any("T", hi=4)
    return dict(input=x, repeats=c.ints_value([c.choice([1, 1, 2, 3, 0] if c.flag(0.2) else [1, 1, 2, 3]) for _ in x.shape]))


@recipe("Expand")
def expand(c):
    x = c.any("T")
    return dict(input=x, shape=c.ints_value(c.partner(x.shape)))


@recipe("DepthToSpace")
def depth_to_space(c):
    b = c.int(1, 3)
    return dict(input=c.any("T", shape=[c.dim(1, 2), b * b * c.dim(1, 3), c.dim(1, 4), c.dim(1, 4)]), blocksize=b,
                mode=c.maybe(lambda: c.choice(["DCR", "CRD"])))


@recipe("SpaceToDepth")
def space_to_depth(c):
    b = c.int(1, 3)
    return dict(input=c.any("T", shape=[c.dim(1, 2), c.dim(1, 3), b * c.dim(1, 4), b * c.dim(1, 4)]), blocksize=b,
                mode=c.maybe(lambda: c.choice(["DCR", "CRD"])))


@recipe("Trilu")
def trilu(c):
    return dict(input=c.any("T", lo=2), k=c.maybe(lambda: Value(np.asarray(c.int(-4, 4), np.int64), const=c.flag())),
                upper=c.maybe(lambda: c.int(0, 1)))


@recipe("ReverseSequence")
def reverse_sequence(c):
    x = c.any("T", lo=2, zero=False)
    batch = c.int(0, 1)
    return dict(input=x, sequence_lens=c.ints_value([c.int(1, x.shape[1 - batch]) for _ in range(x.shape[batch])]),
                batch_axis=batch, time_axis=1 - batch)


@recipe("CenterCropPad")
def center_crop_pad(c):
    x = c.any("T", lo=1)
    rank = x.data.ndim
    axes = c.maybe(lambda: [int(a) for a in c.rng.permutation(rank)[:c.int(1, rank)]])
    n = len(axes) if axes is not None else rank
    return dict(input_data=x, shape=c.ints_value([c.dim(1, 7) for _ in range(n)]), axes=axes)


@recipe("Identity")
def identity(c):
    old = [v for v in c.values if v.sequence and not v.volatile]
    if old and c.opset >= 14 and c.flag(0.5):
        return dict(input=c.choice(old))
    return dict(input=c.any("V" if "V" in c.schema.types else "T"))


# --- gathering


def _index(c, shape, d, kind="Tind"):
    t = c.choice([t for t in c.schema.allowed(kind)])
    lo = -d if c.opset >= 11 else 0
    return Value(np.asarray(c.rng.integers(lo, d, shape)).astype(NUMPY[t]), const=c.flag(0.5))


@recipe("Gather")
def gather(c):
    x = c.any("T", lo=1)
    axis = c.axis(x.data.ndim)
    if x.shape[axis] == 0:
        raise Skip("nothing to gather")
    return dict(data=x, indices=_index(c, c.dims(0, 3), x.shape[axis]), axis=c.maybe(axis) if axis == 0 else axis)


@recipe("GatherElements")
def gather_elements(c):
    x = c.any("T", lo=1)
    axis = c.axis(x.data.ndim)
    if x.shape[axis] == 0:
        raise Skip("nothing to gather")
    shape = [c.dim(1, d) if c.flag(0.3) and d else d for d in x.shape]
    shape[axis] = c.dim(0, 5)
    return dict(data=x, indices=_index(c, shape, x.shape[axis]), axis=c.maybe(axis) if axis == 0 else axis)


def _points(c, shape, k, lead):
    """Index tuples of k entries each, distinct ones where asked."""
    return np.stack([c.rng.integers(-d if c.opset >= 12 else 0, d, lead) for d in shape[:k]], -1) if k else \
        np.zeros(list(lead) + [0], np.int64)


@recipe("GatherND")
def gather_nd(c):
    x = c.any("T", lo=1, zero=False)
    rank = x.data.ndim
    b = c.int(0, min(rank - 1, 2)) if c.opset >= 12 and c.flag(0.4) else 0
    k = c.int(1, rank - b)
    lead = list(x.shape[:b]) + c.dims(0 if b else 1, 2, True, 4)
    return dict(data=x, indices=Value(_points(c, x.shape[b:], k, lead).astype(np.int64)), batch_dims=c.maybe(b) if b == 0 else b)


@recipe("ScatterElements", "Scatter")
def scatter_elements(c):
    x = c.any("T", lo=1, zero=False)
    axis = c.axis(x.data.ndim)
    shape = [c.int(1, d) for d in x.shape]
    reductions = ["none"] + (["add", "mul"] if c.opset >= 16 else []) + (["max", "min"] if c.opset >= 18 else [])
    reduction = c.maybe(lambda: c.choice(reductions))
    if reduction in (None, "none"):  # distinct along the axis, or the order would count
        order = np.argsort(c.rng.random([x.shape[axis] if i == axis % x.data.ndim else d for i, d in enumerate(shape)]), axis)
        index = np.take(order, range(shape[axis]), axis)
    else:
        index = c.rng.integers(0, x.shape[axis], shape)
    if c.opset >= 11:
        index = np.where(c.rng.random(index.shape) < 0.3, index - x.shape[axis], index)
    t = c.choice(["int32", "int64"])
    if x.type in ("bool", "string") or x.type.startswith("complex"):
        reduction = None if reduction != "none" else reduction
    return dict(data=x, indices=Value(index.astype(NUMPY[t])), updates=c.any("T", shape=shape), axis=axis, reduction=reduction)


@recipe("ScatterND")
def scatter_nd(c):
    x = c.any("T", lo=1, zero=False)
    k = c.int(1, x.data.ndim)
    reductions = ["none"] + (["add", "mul"] if c.opset >= 16 else []) + (["max", "min"] if c.opset >= 18 else [])
    reduction = c.maybe(lambda: c.choice(reductions)) if x.type not in ("bool", "string", "complex64", "complex128") else None
    total = elements(x.shape[:k])
    n = c.int(1, min(total, 4)) if c.flag(0.9) else 0
    flat = c.rng.permutation(total)[:n] if reduction in (None, "none") else c.rng.integers(0, total, n)
    index = np.stack(np.unravel_index(flat, x.shape[:k]), -1) if n else np.zeros((0, k), np.int64)
    return dict(data=x, indices=Value(index.astype(np.int64)), updates=c.any("T", shape=[n] + list(x.shape[k:])),
                reduction=reduction)


@recipe("TensorScatter")
def tensor_scatter(c):
    rank = c.int(3, 4)
    shape = [c.dim(1, 3) for _ in range(rank)]
    axis = c.int(1, rank - 1)
    shape[axis] = c.int(2, 6)
    new = list(shape)
    new[axis] = c.int(1, shape[axis])
    mode = c.maybe(lambda: c.choice(["linear", "circular"]))
    top = shape[axis] - (0 if mode == "circular" else new[axis])
    start = c.rng.integers(0, max(top, 0) + (0 if mode == "circular" else 1), shape[0])
    return dict(past_cache=c.any("T", shape=shape), update=c.any("T", shape=new), axis=axis - (rank if c.flag(0.3) else 0),
                write_indices=c.maybe(lambda: Value(start.astype(np.int64))), mode=mode)


@recipe("Compress")
def compress(c):
    x = c.any("T", zero=False, lo=1)
    axis = c.maybe(lambda: c.axis(x.data.ndim))
    n = x.shape[axis] if axis is not None else x.data.size
    return dict(input=x, condition=c.fresh("bool", [c.int(1, n)]), axis=axis)


@recipe("OneHot")
def onehot(c):
    kinds = [k for k in ("T1", "T2", "T3")]
    if c.flag(0.8):  # what ONNX Runtime has
        one, two, three = c.choice([("int64", "int64", "int64"), ("float", "int64", "int64"), ("int64", "int64", "float"), ("int64", "int32", "float"),
                                    ("float", "float", "float"), ("int32", "int32", "int32"), ("int32", "float", "float"), ("int64", "float", "int64")])
        c.bound.update(T1=one, T2=two, T3=three)
    t1 = c.pick(kinds[0], ("int64", "int32", "float"))
    depth = c.int(1, 5)
    x = c.rng.integers(-depth if c.opset >= 11 else 0, depth + (1 if c.flag(0.2) else 0), c.dims(0, 3))
    t2 = c.pick(kinds[1], ("int64", "int32", "float"))
    t3 = c.pick(kinds[2])
    return dict(indices=Value(np.asarray(x).astype(NUMPY[t1])), depth=Value(np.asarray(depth).astype(NUMPY[t2]).reshape([] if c.flag() else [1]), const=c.flag(0.7)),
                values=c.fresh(t3, [2]), axis=c.maybe(lambda: c.axis(np.ndim(x) + 1)))


@recipe("NonZero")
def nonzero(c):
    return dict(X=c.any("T"))


@recipe("TopK")
def topk(c):
    x = c.any("T", lo=1)
    axis = c.axis(x.data.ndim)
    k = c.int(0 if c.flag(0.1) else 1, x.shape[axis]) if x.shape[axis] else 0
    if len(set(x.data.astype(float).ravel().tolist())) < x.data.size and x.type in FLOATS:
        x = c.fresh(x.type, x.shape)
    return dict(X=x, K=c.ints_value([k]), k=k, axis=axis, largest=c.maybe(lambda: c.int(0, 1)),
                sorted=c.maybe(lambda: 1), _nout=2)


@recipe("Unique")
def unique(c):
    x = c.any("T", zero=False, lo=1)
    if x.type not in FLOATS or c.flag():
        x = Value(np.asarray(x.data[..., :1] if c.flag(0.1) else x.data))
    return dict(X=x, axis=c.maybe(lambda: c.axis(x.data.ndim)), sorted=c.maybe(lambda: c.int(0, 1)))


@recipe("NonMaxSuppression")
def nms(c):
    batch, n, classes = c.dim(1, 2), c.int(1, 8), c.dim(1, 3)
    centre = c.rng.uniform(0, 4, (batch, n, 2))
    size = c.rng.uniform(0.5, 3, (batch, n, 2))
    point = c.maybe(lambda: c.int(0, 1))
    boxes = np.concatenate([centre, size] if point else [centre - size / 2, centre + size / 2], -1)
    if not point and c.flag(0.3):
        boxes = boxes[..., [2, 3, 0, 1]]
    scores = c.rng.permutation(batch * classes * n).reshape(batch, classes, n) / (batch * classes * n)
    shape = [] if c.flag() else [1]
    most = c.maybe(lambda: Value(np.asarray(c.int(0, 5), np.int64).reshape(shape)), 0.8)
    return dict(boxes=Value(boxes.astype(np.float32)), scores=Value(scores.astype(np.float32)), max_output_boxes_per_class=most,
                iou_threshold=c.maybe(lambda: Value(np.asarray(c.num(0.05, 0.9), np.float32).reshape(shape))),
                score_threshold=c.maybe(lambda: Value(np.asarray(c.num(0.05, 0.9), np.float32).reshape(shape))), center_point_box=point)


# --- text


def strings(c, shape, words):
    a = np.empty(tuple(shape), STRING)
    for i in np.ndindex(a.shape):
        a[i] = c.choice(words)
    return Value(a)


@recipe("StringConcat")
def string_concat(c):
    x = c.any("T")
    return dict(X=x, Y=c.any("T", shape=c.partner(x.shape)))


@recipe("StringSplit")
def string_split(c):
    words = ["a,b", "a,,b", ",x", "", "one two  three", " lead", "no", "a--b--c", "trail,"]
    return dict(X=strings(c, c.dims(0, 3, False), words), delimiter=c.maybe(lambda: c.choice([",", " ", "--", ""])),
                maxsplit=c.maybe(lambda: c.int(0, 3)))


@recipe("StringNormalizer")
def string_normalizer(c):
    words = ["Monday", "tuesday", "THE", "the", "a", "\u00c9t\u00e9", ""]
    shape = [c.int(1, 5)] if c.flag() else [1, c.int(1, 5)]
    return dict(X=strings(c, shape, words), case_change_action=c.maybe(lambda: c.choice(["LOWER", "UPPER", "NONE"])),
                is_case_sensitive=c.maybe(lambda: c.int(0, 1)), stopwords=c.maybe(lambda: ["the", "a"]),
                locale=c.choice(["C.UTF-8", ""]), _ref=False)


@recipe("RegexFullMatch")
def regex(c):
    return dict(X=strings(c, c.dims(), ["abc", "a1", "www.x.com", "", "12-34", "hello world"]),
                pattern=c.choice([r"[a-z]+", r"\d+-\d+", r"www\.[\w.-]+\.\bcom\b", r".*", r"(a|b)\w", r"[^0-9]*", r"a?b*c{1}"]))


@recipe("TfIdfVectorizer")
def tfidf(c):
    t = c.choice(["int32", "int64"])
    pool = [int(v) for v in [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]]
    x = Value(np.asarray(c.rng.integers(1, 9, [c.int(3, 12)] if c.flag() else [2, c.int(3, 12)])).astype(NUMPY[t]))
    lo = c.int(1, 2)
    return dict(X=x, mode=c.choice(["TF", "IDF", "TFIDF"]), min_gram_length=lo, max_gram_length=c.int(lo, 2), max_skip_count=c.int(0, 3),
                ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=pool, weights=c.maybe(lambda: [c.num(0.1, 2) for _ in range(7)]))


# --- sequences and optionals


def a_sequence(c, slot, among=FLOATS + INTS):
    old = [v for v in c.values if v.sequence and len(v.data) and not v.volatile]
    if old and c.flag(0.8):
        return c.choice(old)
    t = c.choice([t for t in ("float", "int64", "int32", "double", "string", "bool")])
    shape = c.dims(1, 3)
    return Value([c.array(t, [c.dim(0, 4)] + shape[1:]) for _ in range(c.int(1, 4))], elem=t)


@recipe("SequenceConstruct")
def sequence_construct(c):
    x = c.any("T", lo=0)
    return dict(inputs=[x] + [c.any("T", lo=x.data.ndim, hi=x.data.ndim) for _ in range(c.int(0, 3))])


@recipe("SequenceEmpty")
def sequence_empty(c):
    return dict(dtype=c.maybe(lambda: c.choice([1, 7, 6, 11, 8, 9])))


def position(c, n, end=0):
    return Value(np.asarray(c.int(-n, n - 1 + end), c.choice([np.int32, np.int64])), const=c.flag(0.6))


@recipe("SequenceAt")
def sequence_at(c):
    s = a_sequence(c, "S")
    return dict(input_sequence=s, position=position(c, len(s.data)))


@recipe("SequenceErase")
def sequence_erase(c):
    s = a_sequence(c, "S")
    return dict(input_sequence=s, position=c.maybe(lambda: position(c, len(s.data))))


@recipe("SequenceInsert")
def sequence_insert(c):
    s = a_sequence(c, "S")
    return dict(input_sequence=s, tensor=c.fresh(s.type, [c.dim(0, 4)] + list(s.data[0].shape[1:]) if s.data[0].ndim else []),
                position=c.maybe(lambda: position(c, len(s.data), 1)))


@recipe("SequenceLength")
def sequence_length(c):
    return dict(input_sequence=a_sequence(c, "S"))


@recipe("ConcatFromSequence")
def concat_from_sequence(c):
    if c.flag():
        t, shape = c.choice(["float", "int64", "double"]), c.dims(0, 3)
        new = c.flag() or not shape
        axis = c.int(-len(shape) - 1, len(shape)) if new else c.int(-len(shape), len(shape) - 1)
        return dict(input_sequence=Value([c.array(t, shape) for _ in range(c.int(1, 4))]), axis=axis, new_axis=int(new))
    t, shape = c.choice(["float", "int64", "double"]), c.dims(1, 3)
    return dict(input_sequence=Value([c.array(t, [c.dim(0, 4)] + shape[1:]) for _ in range(c.int(1, 4))]), axis=0)


@recipe("SplitToSequence")
def split_to_sequence(c):
    x = c.any("T", lo=1, zero=False)
    axis = c.axis(x.data.ndim)
    d = x.shape[axis]
    kind = c.int(0, 2)
    part = None
    if kind == 1:
        part = Value(np.asarray(c.int(1, d), c.choice([np.int32, np.int64])), const=c.flag(0.7))
    elif kind == 2:
        cut = sorted(c.int(0, d) for _ in range(c.int(0, 2)))
        part = c.ints_value(np.diff([0] + cut + [d]), c.choice(["int32", "int64"]))
    return dict(input=x, split=part, axis=axis, keepdims=c.maybe(lambda: c.int(0, 1)))


@recipe("Optional")
def optional(c):
    if c.flag(0.3):
        from onnx import helper
        return dict(type=helper.make_tensor_type_proto(1, [2]), _reuse=False)
    return dict(input=c.any("V", among=("float", "int64", "double", "string")) if c.flag(0.7) else a_sequence(c, "V"))


def an_optional(c, filled):
    old = [v for v in c.values if v.optional and (v.data is not None or not filled)]
    if old and c.flag(0.7):
        return c.choice(old)
    if c.opset >= 18 and c.flag(0.4):
        return c.any("O", among=("float", "int64", "bool"), lo=1) if c.flag() else a_sequence(c, "O")
    data = c.array("float", c.dims(1, 2))
    return Value(data if filled or c.flag(0.7) else None, optional=True, elem="float")


@recipe("OptionalHasElement")
def optional_has(c):
    if c.opset >= 18 and c.flag(0.1):
        return {}
    return dict(input=an_optional(c, False))


@recipe("OptionalGetElement")
def optional_get(c):
    return dict(input=an_optional(c, True))
