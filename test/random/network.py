# SPDX-License-Identifier: Apache-2.0
"""Recipes of layers: convolution, pooling, normalisation, attention, recurrence, quantisation, signal, detection."""

import numpy as np

from graph import FLOATS, NUMBER, NUMPY, Skip, Value
from control import Body
from recipe import recipe
from recipe import recipe as recipe_of

AUTO_PAD = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


# --- convolution and pooling


def window(c, n, top=3, size=None, dilate=True, pads=True):
    """kernel, strides, dilations, pads, auto_pad and spatial sizes that fit them."""
    kernel = [c.int(1, top) for _ in range(n)] if size is None else size
    strides = c.maybe(lambda: [c.int(1, 3) for _ in range(n)])
    dilations = c.maybe(lambda: [c.int(1, 2) for _ in range(n)], 0.3) if dilate else None
    auto = c.maybe(lambda: c.choice(AUTO_PAD), 0.4)
    if auto in ("SAME_UPPER", "SAME_LOWER") and dilations and any(d > 1 for d in dilations):
        dilations = None
    if auto in ("SAME_UPPER", "SAME_LOWER") and strides and any(s > k for s, k in zip(strides, kernel)):
        strides = None  # negative padding
    extent = [(k - 1) * (dilations[i] if dilations else 1) + 1 for i, k in enumerate(kernel)]
    padding = None
    if auto in (None, "NOTSET") and pads and c.flag():
        padding = [c.int(0, min(2, kernel[i] - 1)) for i in range(n)] + [c.int(0, min(2, kernel[i] - 1)) for i in range(n)]
    space = [e + c.int(0, 6) for e in extent]
    return dict(kernel_shape=kernel, strides=strides, dilations=dilations, pads=padding, auto_pad=auto), space


@recipe("Conv")
def conv(c):
    n = c.choice([1, 2, 2, 2, 3])
    a, space = window(c, n)
    group = c.choice([1, 1, 1, 2, 3])
    per = c.dim(1, 4)
    if c.flag(0.15):
        per = 1
    m = group * c.dim(1, 4)
    x = c.any("T", shape=[c.dim(0, 3), group * per] + space)
    w = c.fresh(x.type, [m, per] + a["kernel_shape"], const=c.flag(0.8))
    if c.flag(0.3):
        a["kernel_shape"] = None
    return dict(a, X=x, W=w, B=c.maybe(lambda: c.fresh(x.type, [m], const=c.flag(0.8))), group=group if group > 1 or c.flag() else None)


@recipe("ConvTranspose")
def conv_transpose(c):
    n = c.choice([1, 2, 2, 3])
    a, _ = window(c, n)
    group = c.choice([1, 1, 2])
    per, m = c.dim(1, 3), c.dim(1, 3)
    space = [c.int(1, 5) for _ in range(n)]
    x = c.any("T", shape=[c.dim(1, 2), group * per] + space)
    got = dict(a, X=x, W=c.fresh(x.type, [group * per, m] + a["kernel_shape"]), group=group,
               B=c.maybe(lambda: c.fresh(x.type, [group * m])))
    strides, dilations = a["strides"] or [1] * n, a["dilations"] or [1] * n
    extra = [c.int(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    if c.flag(0.4):
        got["output_padding"] = extra
    elif c.flag(0.3) and a["auto_pad"] in (None, "NOTSET", "SAME_UPPER", "SAME_LOWER"):
        full = [s * (i - 1) + (k - 1) * d + 1 for s, i, k, d in zip(strides, space, a["kernel_shape"], dilations)]
        got["output_shape"] = [f - c.int(0, min(1, f - 1)) for f in full]
        got["pads"] = None
    total = [s * (i - 1) + (k - 1) * d + 1 - ((got["pads"][j] + got["pads"][j + n]) if got["pads"] else 0)
             for j, (s, i, k, d) in enumerate(zip(strides, space, a["kernel_shape"], dilations))]
    if any(t < 1 for t in total):
        got["pads"] = None
    return got


@recipe("CausalConvWithState")
def causal_conv(c):
    b, d, l, k = c.dim(1, 2), c.dim(1, 4), c.dim(1, 6), c.int(1, 4)
    t = c.pick("T")
    return dict(input=c.fresh(t, [b, d, l]), weight=c.fresh(t, [d, 1, k]), bias=c.maybe(lambda: c.fresh(t, [d])),
                past_state=c.maybe(lambda: c.fresh(t, [b, d, k - 1])), activation=c.maybe(lambda: c.choice(["none", "silu", "swish"])), _nout=2)


@recipe("LinearAttention")
def linear_attention(c):
    b, q, kv, t, dk, dv = c.dim(1, 2), 0, c.dim(1, 2), c.dim(1, 4), c.dim(1, 4), c.dim(1, 4)
    q = kv * c.int(1, 2)
    kind = c.pick("T")
    rule = c.choice(["linear", "gated", "delta", "gated_delta"])
    state = c.pick("S") if "S" in c.schema.types else kind
    return dict(query=c.fresh(kind, [b, t, q * dk]), key=c.fresh(kind, [b, t, kv * dk], "unit"), value=c.fresh(kind, [b, t, kv * dv]),
                past_state=c.maybe(lambda: c.fresh(state, [b, kv, dk, dv])), update_rule=rule,
                decay=Value(-np.abs(c.array(kind, [b, t, kv * dk if c.flag() else kv]))) if "gated" in rule else None,
                beta=Value(np.abs(c.array(kind, [b, t, kv], "unit"))) if "delta" in rule else None,
                q_num_heads=q, kv_num_heads=kv, scale=c.maybe(lambda: c.num(0.1, 1)), _nout=2, _tol=10)


@recipe("ConvInteger")
def conv_integer(c):
    a, space = window(c, c.choice([1, 2, 2]))
    group = c.choice([1, 1, 2])
    per, m = c.dim(1, 3), c.dim(1, 3) * group
    tx, tw = c.pick("T1"), c.pick("T2")
    return dict(a, x=c.fresh(tx, [c.dim(1, 2), group * per] + space), w=c.fresh(tw, [m, per] + a["kernel_shape"], const=True), group=group,
                x_zero_point=c.maybe(lambda: c.fresh(tx, [])), w_zero_point=c.maybe(lambda: c.fresh(tw, [], const=True)))


@recipe("QLinearConv")
def qlinear_conv(c):
    a, space = window(c, c.choice([1, 2, 2]))
    group = c.choice([1, 1, 2])
    per, m = c.dim(1, 3), c.dim(1, 3) * group
    tx = c.pick("T1")
    tw = c.pick("T2", ("int8",) if tx == "int8" else None)
    c.bound["T3"] = tx
    many = c.flag(0.3)
    zw = c.fresh(tw, [m] if many else [], const=True)
    if many:
        zw = Value(np.full([m], zw.data.ravel()[0] if m else 0, zw.data.dtype), const=True)
    return dict(a, x=c.fresh(tx, [c.dim(1, 2), group * per] + space), x_scale=scale(c), x_zero_point=c.fresh(tx, [], const=True),
                w=c.fresh(tw, [m, per] + a["kernel_shape"], const=True), w_scale=scale(c, [m] if many else []), w_zero_point=zw,
                y_scale=scale(c, high=2), y_zero_point=c.fresh(tx, [], const=True), B=c.maybe(lambda: c.fresh("int32", [m], const=True)), group=group, _quant=1)


def scale(c, shape=(), t="float", high=0.3, const=True):
    return Value(np.asarray(c.rng.uniform(0.01, high, tuple(shape))).astype(NUMPY[t]), const=const)


@recipe("DeformConv")
def deform_conv(c):
    kernel = [c.int(1, 3), c.int(1, 3)]
    strides, dil = c.maybe(lambda: [c.int(1, 2)] * 2), c.maybe(lambda: [c.int(1, 2)] * 2, 0.3)
    pads = c.maybe(lambda: [c.int(0, 1) for _ in range(4)])
    space = [(k - 1) * (dil[0] if dil else 1) + 1 + c.int(0, 4) for k in kernel]
    out = [(s + (pads[i] + pads[i + 2] if pads else 0) - ((kernel[i] - 1) * (dil[0] if dil else 1) + 1)) // (strides[0] if strides else 1) + 1
           for i, s in enumerate(space)]
    n, group, og, per, m = c.dim(1, 2), c.int(1, 2), c.int(1, 2), 2 * c.dim(1, 2), c.dim(1, 2)
    cin, m = group * per, m * group
    t = c.pick("T", FLOATS)
    return dict(X=c.fresh(t, [n, cin] + space), W=c.fresh(t, [m, per] + kernel), offset=c.fresh(t, [n, og * 2 * kernel[0] * kernel[1]] + out),
                B=c.maybe(lambda: c.fresh(t, [m])), mask=c.maybe(lambda: c.fresh(t, [n, og * kernel[0] * kernel[1]] + out)),
                kernel_shape=c.maybe(kernel), strides=strides, dilations=dil, pads=pads, group=group, offset_group=og, _tol=10)


@recipe("MaxPool", "AveragePool", "LpPool")
def pool(c):
    n = c.choice([1, 2, 2, 2, 3])
    a, space = window(c, n, dilate=c.schema.name == "MaxPool" and c.opset >= 10 or c.opset >= 19)
    name = c.schema.name
    x = c.any("T", shape=[c.dim(1, 2), c.dim(1, 3)] + space, data="normal")
    ceil = c.maybe(lambda: c.int(0, 1), 0.4) if a["auto_pad"] in (None, "NOTSET") else None
    got = dict(a, X=x, ceil_mode=ceil, count_include_pad=c.maybe(lambda: c.int(0, 1)), p=c.maybe(lambda: c.int(1, 3)))
    if name == "MaxPool":
        got["storage_order"] = c.maybe(lambda: c.int(0, 1), 0.3)
        got["_nout"] = c.int(1, 2) if x.type not in ("int8", "uint8") else 1
    return got


@recipe("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(c):
    return dict(X=c.any("T", lo=3, hi=5, zero=False), p=c.maybe(lambda: c.int(1, 3)))


@recipe("MaxUnpool")
def max_unpool(c):
    n = c.choice([1, 2])
    k = [c.int(1, 3) for _ in range(n)]
    space = [c.int(1, 3) for _ in range(n)]
    out = [s * q for s, q in zip(space, k)]
    shape = [c.dim(1, 2), c.dim(1, 2)]
    total = int(np.prod(shape + out))
    index = np.sort(c.rng.permutation(total)[:int(np.prod(shape + space))]).reshape(shape + space)
    t = c.pick("T1", ("float", "double", "float16"))
    return dict(X=c.fresh(t, shape + space), I=Value(index.astype(np.int64)), kernel_shape=k, strides=k)


@recipe("MaxRoiPool")
def max_roi_pool(c):
    n, rois = c.dim(1, 2), c.dim(1, 3)
    boxes = np.sort(c.rng.integers(0, 8, (rois, 2, 2)), 1).reshape(rois, 4)
    t = c.pick("T", ("float", "double"))
    return dict(X=c.fresh(t, [n, c.dim(1, 3), 8, 8]), rois=Value(np.concatenate([c.rng.integers(0, n, (rois, 1)), boxes], 1).astype(NUMPY[t])),
                pooled_shape=[c.int(1, 3), c.int(1, 3)], spatial_scale=c.maybe(lambda: c.choice([0.5, 1.0])))


@recipe("RoiAlign")
def roi_align(c):
    n, rois = c.dim(1, 2), c.dim(1, 3)
    t = c.pick("T1", ("float", "double"))
    boxes = np.sort(c.rng.uniform(0, 8, (rois, 2, 2)), 1).reshape(rois, 4)
    return dict(X=c.fresh(t, [n, c.dim(1, 3), 8, 9]), rois=Value(boxes.astype(NUMPY[t])), batch_indices=Value(c.rng.integers(0, n, rois).astype(np.int64)),
                mode=c.maybe(lambda: c.choice(["avg", "max"])), output_height=c.maybe(lambda: c.int(1, 3)), output_width=c.maybe(lambda: c.int(1, 3)),
                sampling_ratio=c.maybe(lambda: c.int(0, 3)), spatial_scale=c.maybe(lambda: c.choice([0.5, 1.0])),
                coordinate_transformation_mode=c.maybe(lambda: c.choice(["half_pixel", "output_half_pixel"])), _ref=False)


@recipe("Col2Im")
def col2im(c):
    n = c.choice([1, 2, 2, 3])
    block = [c.int(1, 3) for _ in range(n)]
    strides, dil = c.maybe(lambda: [c.int(1, 2) for _ in range(n)]), c.maybe(lambda: [c.int(1, 2) for _ in range(n)])
    pads = c.maybe(lambda: [c.int(0, 1)] * (2 * n))
    image = [(b - 1) * (dil[i] if dil else 1) + 1 + c.int(0, 3) for i, b in enumerate(block)]
    cols = [(s + (pads[i] + pads[i + n] if pads else 0) - ((block[i] - 1) * (dil[i] if dil else 1) + 1)) // (strides[i] if strides else 1) + 1
            for i, s in enumerate(image)]
    x = c.any("T", shape=[c.dim(1, 2), c.dim(1, 3) * int(np.prod(block)), int(np.prod(cols))], among=("float", "double", "float16", "int64", "int32"))
    return dict(input=x, image_shape=c.ints_value(image), block_shape=c.ints_value(block), strides=strides, dilations=dil, pads=pads)


@recipe("LRN")
def lrn(c):
    return dict(X=c.any("T", lo=4, hi=4, zero=False), size=c.choice([1, 3, 5]), alpha=c.maybe(lambda: c.num(0.001, 0.5)), beta=c.maybe(lambda: c.num(0.3, 1)),
                bias=c.maybe(lambda: c.num(0.8, 2)))


# --- resizing


@recipe("Resize")
def resize(c):
    mode = c.choice(["nearest", "linear", "cubic"] if c.opset >= 11 else ["nearest", "linear"])
    rank = c.choice([1, 2, 3, 4, 4, 4, 5]) if mode == "nearest" else c.choice([2, 3, 4, 4, 4]) if mode == "linear" else 4
    space = min(c.int(1, 2 if mode == "cubic" else 3), rank)
    x = c.any("T1" if c.opset >= 11 else "T", shape=[c.dim(1, 2)] * (rank - space) + [c.dim(1, 6) for _ in range(space)],
              among=("float", "double", "float16", "uint8", "int8", "int32") if mode == "nearest" else ("float", "double", "float16"))
    out = list(x.shape)
    for i in range(rank - space, rank):
        out[i] = c.int(1, 9)
    got = dict(X=x, mode=mode)
    ratio = [o / i if c.flag(0.7) else c.choice([0.5, 1.5, 2.0, 0.8, 3.0]) if j >= rank - space else 1.0 for j, (o, i) in enumerate(zip(out, x.shape))]
    ratio = [r if int(r * i) >= 1 else 1.0 for r, i in zip(ratio, x.shape)]
    if c.opset < 11:
        return dict(got, scales=Value(np.asarray(ratio, np.float32), const=c.flag(0.9)), _ref=False)
    axes = None
    if c.opset >= 18 and c.flag(0.3):
        axes = list(range(rank - space, rank))
        if c.flag(0.3):
            axes = [int(a) for a in c.rng.permutation(axes)]
    use = axes or list(range(rank))
    how = c.choice(["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "tf_crop_and_resize"]
                   + (["half_pixel_symmetric"] if c.opset >= 19 else []) + (["tf_half_pixel_for_nn"] if c.opset < 13 and mode == "nearest" else []))
    if c.flag(0.5):
        got["sizes"] = c.ints_value([out[a] for a in use], const=c.flag(0.9))
        got["keep_aspect_ratio_policy"] = c.maybe(lambda: c.choice(["stretch", "not_larger", "not_smaller"]), 0.4)
        if got["keep_aspect_ratio_policy"] in ("not_larger", "not_smaller") and axes is None:
            axes = list(range(rank - space, rank))
            got["sizes"] = c.ints_value([out[a] for a in axes])
        if c.opset < 13:
            got["scales"] = Value(np.zeros(0, np.float32), const=True)
    else:
        got["scales"] = Value(np.asarray([ratio[a] for a in use], np.float32), const=c.flag(0.9))
    if how == "tf_crop_and_resize":
        k = len(axes) if axes is not None else rank
        lo, hi = c.rng.uniform(-0.1, 0.5, k), c.rng.uniform(0.5, 1.1, k)
        if axes is None:
            lo[:rank - space], hi[:rank - space] = 0, 1
        got["roi"] = Value(np.concatenate([lo, hi]).astype(np.float32), const=True)
        got["extrapolation_value"] = c.maybe(lambda: c.num(-3, 3))
    elif c.opset < 13:
        got["roi"] = Value(np.zeros(0, np.float32), const=True)
    down = all(r <= 1 for r in ratio)
    return dict(got, axes=axes, coordinate_transformation_mode=c.maybe(how) if how == "half_pixel" else how,
                nearest_mode=c.maybe(lambda: c.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])) if mode == "nearest" else None,
                cubic_coeff_a=c.maybe(lambda: c.choice([-0.5, -0.75])) if mode == "cubic" else None,
                exclude_outside=c.maybe(lambda: c.int(0, 1), 0.3) if mode == "cubic" else None,
                antialias=c.maybe(lambda: c.int(0, 1), 0.4) if mode != "nearest" and how != "tf_crop_and_resize" and (down or c.flag()) else None,
                _tol=1000 if x.type == "double" else 10)


@recipe("Upsample")
def upsample(c):
    mode = c.choice(["nearest", "linear"])
    x = c.any("T", shape=[c.dim(1, 2), c.dim(1, 2), c.dim(1, 4), c.dim(1, 4)], among=("float",))
    ratio = [1.0, 1.0, c.choice([1.0, 2.0, 1.5, 3.0]), c.choice([1.0, 2.0, 1.5, 3.0])]
    return dict(X=x, mode=mode, scales=Value(np.asarray(ratio, np.float32), const=True), _ref=False)


@recipe("GridSample")
def grid_sample(c):
    t = c.pick("T1", ("float", "double"))
    n = c.choice([2, 2, 3]) if c.opset >= 20 else 2
    batch = c.dim(1, 2)
    mode = c.choice(["bilinear", "nearest", "bicubic"] if c.opset < 20 else ["linear", "nearest", "cubic"] if n == 2 else ["linear", "nearest"])
    return dict(X=c.fresh(t, [batch, c.dim(1, 3)] + [c.int(1, 5) for _ in range(n)]),
                grid=Value(c.rng.uniform(-1.4, 1.4, [batch] + [c.int(1, 4) for _ in range(n)] + [n]).astype(NUMPY[t if "T2" in c.schema.types and c.schema.slot("grid").kind != "T1" else t])),
                mode=mode, padding_mode=c.maybe(lambda: c.choice(["zeros", "border", "reflection"])), align_corners=c.maybe(lambda: c.int(0, 1)), _tol=10)


@recipe("AffineGrid")
def affine_grid(c):
    n = c.choice([2, 3])
    batch = c.dim(1, 2)
    t = c.pick("T1", ("float", "double", "float16"))
    return dict(theta=c.fresh(t, [batch, n, n + 1]), size=c.ints_value([batch, c.dim(1, 3)] + [c.int(2, 4) for _ in range(n)]), align_corners=c.maybe(lambda: c.int(0, 1)))


# --- normalisation


@recipe("BatchNormalization")
def batch_norm(c):
    if c.opset < 9:
        t = "T"
        x = c.any(t, lo=2, hi=4, zero=False)
        n = x.shape[1]
        return dict(X=x, scale=c.fresh(x.type, [n]), B=c.fresh(x.type, [n]), mean=c.fresh(x.type, [n]), var=c.fresh(x.type, [n], "positive"),
                    epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _nout=1, _ref=False)
    x = c.any("T", lo=2, hi=5, zero=c.flag(0.1))
    n = x.shape[1]
    t1 = c.schema.slot("scale").kind
    t2 = c.schema.slot("input_mean" if c.schema.slot("input_mean") else "mean").kind
    a = c.fresh(c.bound.get(t1) or c.pick(t1, (x.type,)), [n], const=c.flag(0.8))
    m, v = c.fresh(c.bound.get(t2) or c.pick(t2, (x.type,)), [n], const=c.flag(0.8)), None
    v = c.fresh(m.type, [n], "positive", const=c.flag(0.8))
    training = c.opset >= 14 and c.flag(0.2) and x.data.size > 0
    return dict(X=x, scale=a, B=c.fresh(a.type, [n]), mean=m, var=v, input_mean=m, input_var=v, epsilon=c.maybe(lambda: c.num(1e-5, 0.1)),
                momentum=c.maybe(lambda: c.num(0.5, 1)), training_mode=int(training) if training else c.maybe(0) if c.opset >= 14 else None,
                _nout=3 if training else 1, _ref=c.opset >= 14)


@recipe("InstanceNormalization")
def instance_norm(c):
    x = c.any("T", lo=3, hi=5, zero=False)
    n = x.shape[1]
    return dict(input=x, scale=c.fresh(x.type, [n]), B=c.fresh(x.type, [n]), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _tol=10)


@recipe("GroupNormalization")
def group_norm(c):
    group = c.int(1, 3)
    n = group * c.dim(1, 3)
    x = c.any("T", shape=[c.dim(1, 2), n] + c.dims(1, 2, False))
    k = group if c.opset < 21 else n
    return dict(X=x, scale=c.fresh(x.type, [k]), bias=c.fresh(x.type, [k]), num_groups=group, epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _tol=10)


@recipe("LayerNormalization")
def layer_norm(c):
    x = c.any("T", lo=1, zero=False)
    axis = c.axis(x.data.ndim)
    shape = list(x.shape[axis:])
    if c.flag(0.15):
        shape = c.within(shape)
    return dict(X=x, Scale=c.fresh(x.type, shape), B=c.maybe(lambda: c.fresh(x.type, list(x.shape[axis:]))), axis=axis if axis != -1 else c.maybe(-1),
                epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), stash_type=c.maybe(1), _nout=c.choice([1, 1, 3]), _tol=10)


@recipe("RMSNormalization")
def rms_norm(c):
    x = c.any("T", lo=1, zero=False)
    axis = c.axis(x.data.ndim)
    c.bound["V"] = x.type
    return dict(X=x, scale=c.fresh(x.type, list(x.shape[axis:])), axis=axis if axis != -1 else c.maybe(-1), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)))


@recipe("MeanVarianceNormalization")
def mvn(c):
    x = c.any("T", lo=4, hi=4, zero=False)
    return dict(X=x, axes=c.maybe(lambda: sorted(int(a) for a in c.rng.permutation(4)[:c.int(1, 4)])), _tol=100, _atol=1e-4)


# --- attention


@recipe("RotaryEmbedding")
def rotary(c):
    b, n, s, h = c.dim(1, 2), c.dim(1, 3), c.dim(1, 4), 2 * c.int(1, 4)
    t = c.pick("T")
    four = c.flag()
    d = c.maybe(lambda: 2 * c.int(1, h // 2), 0.3)
    half = (d or h) // 2
    top = s + 3
    ids = c.maybe(lambda: Value(c.rng.integers(0, top, (b, s)).astype(np.int64)), 0.7)
    cache = [top, half] if ids is not None else [b, s, half]
    return dict(X=c.any("T", shape=[b, n, s, h] if four else [b, s, n * h]), cos_cache=c.fresh(t, cache), sin_cache=c.fresh(t, cache), position_ids=ids,
                num_heads=n if not four or c.flag() else None, rotary_embedding_dim=d, interleaved=c.maybe(lambda: c.int(0, 1)))


@recipe("Attention")
def attention(c):
    b, kvn, s, l, h, hv = c.dim(1, 2), c.dim(1, 2), c.dim(1, 5), c.dim(1, 5), c.dim(1, 6), c.dim(1, 6)
    n = kvn * c.choice([1, 1, 2, 3])
    t = c.pick("T1")
    t2 = c.bound.setdefault("T2", t)
    past = c.dim(0, 3) if c.flag(0.4) else None
    four = c.flag()
    causal = c.maybe(lambda: c.int(0, 1))
    total = l + (past or 0)
    def lay(heads, length, width):
        return c.any("T1" if width != hv else "T2", shape=[b, heads, length, width] if four else [b, length, heads * width])
    mask = None
    if c.flag():
        shape = c.choice([[s, total], [1, 1, s, total], [b, 1, s, total], [b, n, s, total], [b, 1, 1, total] if False else [1, n, s, total]])
        kind = c.choice([k for k in ("bool", t) if k in c.schema.allowed("U")])
        c.bound["U"] = kind
        a = c.array(kind, shape)
        if kind == "bool":
            a[..., 0] = True
        mask = Value(a)
    pk = c.fresh(t, [b, kvn, past, h]) if past is not None else None
    pv = c.fresh(t2, [b, kvn, past, hv]) if past is not None else None
    nonpad = None
    if c.opset >= 24 and past is None and c.flag(0.3):
        nonpad = Value(c.rng.integers(1, l + 1, b).astype(np.int64))
    nout = 3 if past is not None else 1
    if c.flag(0.3) and nonpad is None:
        nout = 4 if past is not None else 4
    mode = c.maybe(lambda: c.int(0, 3)) if nout == 4 else None
    v = c.fresh(t2, [b, kvn, l, hv] if four else [b, l, kvn * hv])
    return dict(Q=c.fresh(t, [b, n, s, h] if four else [b, s, n * h]), K=c.fresh(t, [b, kvn, l, h] if four else [b, l, kvn * h]), V=v,
                attn_mask=mask, past_key=pk, past_value=pv, nonpad_kv_seqlen=nonpad, is_causal=causal, q_num_heads=None if four else n,
                kv_num_heads=None if four else kvn, scale=c.maybe(lambda: c.num(0.1, 1)), softcap=c.maybe(lambda: c.num(0.5, 5), 0.3),
                softmax_precision=c.maybe(1, 0.2), qk_matmul_output_mode=mode, _nout=nout, _tol=10, _atol=1e-5 if t in ("float", "double") else 5e-3)


@recipe("FlexAttention", domain="ai.onnx.preview")
def flex(c):
    raise Skip("needs bodies of its own kind")


# --- recurrence

ACTS = ["Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "ScaledTanh"]


@recipe("RNN", "GRU", "LSTM")
def recurrent(c):
    name = c.schema.name
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[name]
    per = {"RNN": 1, "GRU": 2, "LSTM": 3}[name]
    s, b, i, h = c.dim(1, 4), c.dim(1, 3), c.dim(1, 5), c.dim(1, 5)
    way = c.maybe(lambda: c.choice(["forward", "reverse", "bidirectional"]), 0.7)
    d = 2 if way == "bidirectional" else 1
    t = c.pick("T")
    layout = c.maybe(lambda: c.int(0, 1), 0.3) if c.opset >= 14 else None
    xs = [b, s, i] if layout else [s, b, i]
    hs = [b, d, h] if layout else [d, b, h]
    acts = alpha = beta = None
    if c.flag(0.25):
        acts = [c.choice(ACTS) for _ in range(per * d)]
        takes_alpha = {"Affine", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu", "ScaledTanh"}
        takes_beta = {"Affine", "HardSigmoid", "ScaledTanh"}
        alpha = [c.num(0.1, 0.9) for a in acts if a in takes_alpha] or None
        beta = [c.num(0.1, 0.9) for a in acts if a in takes_beta] or None
    lens = c.maybe(lambda: Value(c.rng.integers(1, s + 1, b).astype(np.int32), const=c.flag()), 0.3)
    forget = c.maybe(lambda: c.int(0, 1), 0.2)
    odd = lens is not None or acts is not None or forget
    clip = c.maybe(lambda: c.num(0.5, 3), 0.2)
    return dict(X=c.any("T", shape=xs), W=c.fresh(t, [d, gates * h, i], const=c.flag(0.8)), R=c.fresh(t, [d, gates * h, h], const=c.flag(0.8)),
                B=c.maybe(lambda: c.fresh(t, [d, 2 * gates * h], const=c.flag(0.8))), sequence_lens=lens, initial_h=c.maybe(lambda: c.fresh(t, hs)),
                initial_c=c.maybe(lambda: c.fresh(t, hs)), P=c.maybe(lambda: c.fresh(t, [d, 3 * h]), 0.3), hidden_size=h, direction=way, layout=layout,
                activations=acts, activation_alpha=alpha, activation_beta=beta, clip=clip, linear_before_reset=c.maybe(lambda: c.int(0, 1)),
                input_forget=forget, _ref=not odd and clip is None and d == 1 and way != "reverse", _tol=10, _finite=True)


# --- quantisation


def _floaty(c, slot, shape):
    return c.any(slot, shape=shape, fits=lambda v: v.type in FLOATS)


@recipe("QuantizeLinear")
def quantize(c):
    kind = c.int(0, 2) if c.opset >= 21 else c.int(0, 1) if c.opset >= 13 else 0
    x = c.any(c.schema.slot("x").kind, lo=1 if kind else 0, zero=False, among=FLOATS)
    ts = c.schema.slot("y_scale").kind
    t_scale = x.type if ts == c.schema.slot("x").kind else c.pick(ts, (x.type,)) if x.type in c.schema.allowed(ts) else c.pick(ts, ("float",))
    out = c.choice([t for t in c.schema.allowed(c.schema.outputs[0].kind) if t not in ("float4e2m1",) or True])
    axis = c.axis(x.data.ndim) if kind else None
    block = None
    shape = []
    if kind == 1:
        shape = [x.shape[axis]]
    elif kind == 2:
        shape = list(x.shape)
        block = c.int(1, shape[axis])
        shape[axis] = -(-shape[axis] // block)
    scales = scale(c, shape, t_scale if t_scale != "float8e8m0" else "float", 1)
    if t_scale == "float8e8m0":
        scales = Value(np.exp2(np.round(np.log2(scales.data))).astype(NUMPY["float8e8m0"]), const=True)
    zero, to = None, None
    if c.flag(0.7) or c.opset < 21:
        zero = c.fresh(out, shape, const=True) if out not in ("float4e2m1",) and not out.startswith("float8") else \
            Value(np.zeros(shape).astype(NUMPY[out]), const=True)
        if c.opset < 21 and c.flag(0.2):
            zero = None
    elif c.flag(0.7):
        to = NUMBER[out]
    return dict(x=x, y_scale=scales, y_zero_point=zero, output_dtype=to, axis=axis, block_size=block, saturate=c.maybe(lambda: c.int(0, 1), 0.2) if out.startswith("float8") else None,
                precision=c.maybe(1, 0.1) if c.opset >= 23 else None, _quant=1)


@recipe("DequantizeLinear")
def dequantize(c):
    kind = c.int(0, 2) if c.opset >= 21 else c.int(0, 1) if c.opset >= 13 else 0
    x = c.any(c.schema.slot("x").kind, lo=1 if kind else 0, zero=False)
    ts = c.schema.slot("x_scale").kind
    t = c.pick(ts, FLOATS) if ts in c.schema.types else "float"
    axis = c.axis(x.data.ndim) if kind else None
    block = None
    shape = []
    if kind == 1:
        shape = [x.shape[axis]]
    elif kind == 2:
        shape = list(x.shape)
        block = c.int(1, shape[axis])
        shape[axis] = -(-shape[axis] // block)
    zero = None
    if x.type not in ("int32",) and (c.flag(0.6)):
        zero = c.fresh(x.type, shape, const=True) if x.type in ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2") else \
            Value(np.zeros(shape).astype(x.data.dtype), const=True)
    to = c.maybe(NUMBER[t], 0.2) if c.opset >= 23 else None
    return dict(x=x, x_scale=scale(c, shape, t), x_zero_point=zero, axis=axis, block_size=block, output_dtype=to)


@recipe("DynamicQuantizeLinear")
def dynamic_quantize(c):
    return dict(x=c.any("T1", zero=False, lo=0), _quant=1, _nout=3)


@recipe("QLinearMatMul")
def qlinear_matmul(c):
    ta, tb, ty = c.pick("T1", ("int8", "uint8")), c.pick("T2", ("int8", "uint8")), c.pick("T3", ("int8", "uint8"))
    ts = c.pick("TS", ("float", "float16")) if "TS" in c.schema.types else "float"
    m, k, n = c.dim(1, 6), c.dim(1, 8), c.dim(1, 6)
    lead = c.dims(0, 2, False, 3)
    return dict(a=c.fresh(ta, lead + [m, k]), a_scale=scale(c, t=ts), a_zero_point=c.fresh(ta, [], const=True), b=c.fresh(tb, lead + [k, n]),
                b_scale=scale(c, t=ts), b_zero_point=c.fresh(tb, [], const=True), y_scale=scale(c, t=ts, high=1), y_zero_point=c.fresh(ty, [], const=True), _quant=1)


# --- signal


@recipe("DFT")
def dft(c):
    t = c.pick("T1", ("float", "double", "float16"))
    lead = c.dims(1, 3, False)
    real = c.flag()
    inverse = c.maybe(lambda: c.int(0, 1))
    onesided = c.maybe(lambda: c.int(0, 1)) if (real and not inverse) else None
    axis = c.int(0, len(lead) - 1)
    if c.flag(0.3):
        axis -= len(lead) + 1
    if len(lead) < 2 and c.opset < 20:
        lead, axis = [1] + lead, 1
    x = c.any("T1", shape=lead + [1 if real else 2], among=(t,))
    pos = axis if axis >= 0 else axis + len(lead) + 1
    length = c.maybe(lambda: Value(np.asarray(c.int(1, lead[pos] + 3), np.int64), const=True), 0.3)
    a = axis if c.opset < 20 else Value(np.asarray(axis, np.int64), const=True)
    return dict(input=x, dft_length=length, axis=a, inverse=inverse, onesided=onesided, _atol=1e-4 if t != "float16" else 1e-1, _tol=10)


@recipe("STFT")
def stft(c):
    t = c.pick("T1", ("float", "double"))
    n, frame = c.int(8, 24), c.int(2, 8)
    step = c.int(1, 4)
    real = c.flag(0.8)
    one = c.maybe(lambda: c.int(0, 1)) if real else 0
    w = c.maybe(lambda: Value(np.hanning(frame + 2)[1:-1].astype(NUMPY[t])))
    return dict(signal=c.fresh(t, [c.dim(1, 2), n, 1 if real else 2]), frame_step=Value(np.asarray(step, np.int64), const=True), window=w,
                frame_length=Value(np.asarray(frame, np.int64), const=True) if w is None or c.flag() else None, onesided=one, _atol=1e-4, _tol=10)


# --- losses


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(c):
    n, classes = c.dim(1, 4), c.dim(2, 5)
    rest = c.dims(0, 2, False)
    t = c.pick("T", ("float", "double", "float16"))
    ti = c.pick("Tind", ("int64", "int32"))
    target = np.asarray(c.rng.integers(0, classes, [n] + rest))
    ignore = c.maybe(lambda: c.choice([0, 1, -1, -100]), 0.4)
    if ignore is not None and ignore < 0:
        target = np.where(c.rng.random(target.shape) < 0.2, ignore, target)
        if np.all(target == ignore):
            target = np.zeros_like(target)
    target = Value(target.astype(NUMPY[ti]))
    x = c.fresh(t, [n, classes] + rest)
    w = c.maybe(lambda: c.fresh(t, [classes], "positive"))
    reduction = c.maybe(lambda: c.choice(["none", "sum", "mean"]))
    got = dict(input=x, target=target, scores=x, labels=target, weight=w, weights=w, ignore_index=ignore, reduction=reduction)
    if ignore is not None and reduction in (None, "mean") and np.all(target.data == ignore):
        raise Skip("0/0")
    return dict(got, _tol=10)


# --- operators that ONNX once had, or never took up


@recipe("Affine", "ParametricSoftplus", "ScaledTanh")
def scaled(c):
    x = c.any("T", among=("float",))
    return dict(X=x, input=x, alpha=c.num(-2, 2), beta=c.num(-2, 2))


@recipe("Scale")
def scale_only(c):
    return dict(input=c.any("T", among=("float",)), scale=c.num(-2, 2))


@recipe("ImageScaler")
def image_scaler(c):
    n = c.dim(1, 3)
    return dict(input=c.any("T", among=("float",), shape=[c.dim(1, 2), n, c.dim(1, 4), c.dim(1, 4)]), scale=c.num(-2, 2), bias=[c.num(-1, 1) for _ in range(n)])


@recipe("Crop")
def crop(c):
    h, w = c.int(4, 8), c.int(4, 8)
    whole = c.flag()
    return dict(input=c.any("T", among=("float",), shape=[c.dim(1, 2), c.dim(1, 3), h, w]), border=[c.int(0, 1) for _ in range(4)], scale=None if whole else [c.int(1, 3), c.int(1, 3)])


@recipe("DynamicSlice")
def dynamic_slice(c):
    x = c.any("T", lo=1, zero=False, among=("float", "int64"))
    axes = sorted(c.rng.choice(x.data.ndim, c.int(1, x.data.ndim), replace=False).tolist())
    starts = [c.int(0, x.shape[a] - 1) for a in axes]
    ends = [c.int(s + 1, x.shape[a] + 2) for s, a in zip(starts, axes)]
    t = c.pick("Tind", ("int64", "int32"))
    v = lambda a: Value(np.asarray(a, NUMPY[t]), const=True)
    return dict(data=x, starts=v(starts), ends=v(ends), axes=v(axes))


@recipe("SimplifiedLayerNormalization")
def simplified_layer_norm(c):
    x = c.any("T", lo=1, zero=False, among=("float",))
    return dict(X=x, scale=c.fresh("float", [x.shape[-1]]), epsilon=c.maybe(lambda: c.num(1e-5, 0.1)), _nout=1, _tol=10, _atol=1e-5)


@recipe_of("FlexAttention", domain="ai.onnx.preview")
def flex_attention(c):
    t = c.pick("T1", ("float", "double"))
    b, h, s, l, d, v = c.dim(1, 2), c.dim(1, 3), c.dim(1, 4), c.dim(1, 5), c.dim(1, 4), c.dim(1, 4)
    def mod(tag):
        body = Body(c, tag)
        x = body.name()
        return body.graph([(x, t, [b, h, s, l])], [(body.chain(x, "float", length=c.int(1, 2)), t, [b, h, s, l])])
    return dict(Q=c.any("T1", shape=[b, h, s, d]), K=c.fresh(t, [b, h, l, d]), V=c.fresh(t, [b, h, l, v]), scale=c.maybe(lambda: c.num(0.1, 1)), score_mod=c.maybe(lambda: mod("score")),
                prob_mod=c.maybe(lambda: mod("prob"), 0.3), _ort=False, _tol=10, _atol=1e-5)
