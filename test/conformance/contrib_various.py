# SPDX-License-Identifier: Apache-2.0
"""Cases of com.microsoft's operators of decoders, convolutions, crops and strings (contrib.py writes them)."""

import ml_dtypes
import numpy as np

F16, BF16, F32, F8 = np.float16, ml_dtypes.bfloat16, np.float32, ml_dtypes.float8_e4m3fn


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- decoders

def attend(q, k, v, heads, bias=0.0):
    """q [B, S, H], k and v [B, N, T, E]."""
    q = q.reshape(*q.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    y = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[3]) + bias) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def decoder_text(q, k, v, past_k, past_v, at, heads, mask=None, att_bias=None, cache=None, bias=None, shared=True):
    if bias is not None:
        q, k, v = (a + b for a, b in zip((q, k, v), np.split(bias, 3)))
    k, v = split_heads(k, heads), split_heads(v, heads)
    if shared:
        keys, values = past_k.copy(), past_v.copy()
        keys[:, :, at], values[:, :, at] = k[:, :, 0], v[:, :, 0]
    else:
        keys, values = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    total = (at if shared else past_k.shape[2]) + 1
    seen_k, seen_v = keys[:, :, :total].copy(), values[:, :, :total].copy()
    if cache is not None:
        beams = cache.shape[1]
        for b in range(len(q)):
            for t in range(total - 1):
                source = b // beams * beams + cache[b // beams, b % beams, t]
                seen_k[b, :, t], seen_v[b, :, t] = keys[source, :, t], values[source, :, t]
    added = 0.0 if att_bias is None else att_bias
    if mask is not None:
        added = added + np.where(mask == 0, -10000.0, 0.0)[:, None, None]
    return [a.astype(F32) for a in (attend(q, seen_k, seen_v, heads, added), keys, values)]


def decoders(w):
    f, kind = w.f, "DecoderMaskedMultiHeadAttention"
    for name, beams, options, free in (
            ("shared", 1, "", False), ("mask", 1, "mask bias", False), ("attention_bias", 1, "add", False), ("beams", 3, "beams", False),
            ("beams_mask", 2, "beams mask add bias", False), ("packed", 1, "packed", False), ("packed_bias", 1, "packed bias mask", False),
            ("appended", 1, "apart", False), ("free", 2, "mask beams", True)):
        w.begin("decoder_masked_" + name)
        rows, heads, size, room, at = 2 * beams, 2, 4, 6, 3
        q, k, v = (f(rows, 1, heads * size) for _ in range(3))
        past = [f(rows, heads, room, size) for _ in range(2)]
        total = room + 1 if "apart" in options else at + 1
        mask = (w.r.random((rows, total)) < 0.8).astype(np.int32) if "mask" in options else None
        if mask is not None:
            mask[:, -1] = 1
        added = f(1, heads, 1, total) if "add" in options else None
        cache = w.r.integers(0, beams, (2, beams, room + 2)).astype(np.int32) if "beams" in options else None
        bias = f(3 * heads * size) if "bias" in options else None
        packed = "packed" in options
        made = decoder_text(q, k, v, *past, at, heads, mask, added, cache, bias, "apart" not in options)
        ins = [np.concatenate([q, k, v], 2) if packed else q, None if packed else k, None if packed else v, mask, added, *past,
               np.array([at], np.int32), np.array([beams], np.int32), cache, bias]
        while ins[-1] is None:
            ins.pop()
        # ONNX Runtime's kernel has beams only with a mask and attention_bias, no packed query, and no buffer of its own for present
        whole = not {"beams", "packed", "apart"} & set(options.split())
        w.case(kind, ins, dict(num_heads=heads, past_present_share_buffer=int("apart" not in options)), 3 if whole and not free else made,
               free=free)
    for name, biased, masked in (("cross", False, False), ("cross_mask", True, True)):
        w.begin("decoder_masked_" + name)
        ins = [f(2, 1, 8), f(2, 2, 5, 4), f(2, 2, 5, 4), np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], np.int32) if masked else None]
        ins += [None] * 6 + [f(24)] if biased else []
        while ins[-1] is None:
            ins.pop()
        w.case(kind, ins, dict(num_heads=2), 1)
    for name, beams in (("plain", 1), ("beams", 2)):
        w.begin("decoder_masked_self_" + name)
        rows, at = 2 * beams, 2
        x, weights, bias, past = f(rows, 1, 6), f(6, 24), f(24), f(2, rows, 2, 5, 4)
        cache = w.r.integers(0, beams, (2, beams, 5)).astype(np.int32)
        mask = np.ones((rows, at + 1), np.int32)
        mask[0, 0] = 0
        y, k, v = decoder_text(*np.split(x @ weights + bias, 3, 2), *past, at, 2, mask, None, cache)
        w.case("DecoderMaskedSelfAttention", [x, weights, bias, mask, past, None, np.array([at], np.int32), np.array([beams], np.int32), cache],
               dict(num_heads=2, past_present_share_buffer=1), [y, np.stack([k, v])])


def longformer(w):
    for name, length, window, dtype in (("plain", 8, 2, F32), ("one_window", 4, 2, F32), ("fp16", 8, 1, F16)):
        w.begin("longformer_" + name)
        x, weight, bias, own_weight, own_bias = (a.astype(dtype) for a in (w.f(2, length, 8), w.f(8, 24), w.f(24), w.f(8, 24), w.f(24)))
        mask = np.zeros((2, length), dtype)
        mask[1, -2:] = -10000.0
        every = np.zeros((2, length), np.int32)
        every[0, 0] = every[1, 2] = 1
        far = abs(np.arange(length)[:, None] - np.arange(length)) > window
        hidden = far[None] & (every[:, None] == 0)
        added = np.where(hidden, -np.inf, mask[:, None].astype(float))[:, None]
        q, k, v = np.split(x.astype(float) @ weight + bias, 3, 2)
        near = attend(q, split_heads(k, 2), split_heads(v, 2), 2, added)
        q, k, v = np.split(x.astype(float) @ own_weight + own_bias, 3, 2)
        whole = attend(q, split_heads(k, 2), split_heads(v, 2), 2, mask[:, None, None].astype(float))
        y = np.where(every[..., None] > 0, whole, near).astype(F32).astype(dtype)
        w.case("LongformerAttention", [x, weight, bias, mask, own_weight, own_bias, every], dict(num_heads=2, window=window), [y],
               **(dict(rtol=2e-2, atol=2e-2) if dtype is F16 else {}))


# ---- convolutions and products

def conv_text(x, weight, bias, strides, pads, group, dilations=(1, 1)):
    """Channels last: x [N, H, W, C], weight [M, kH, kW, C / group]."""
    x = np.pad(x.astype(float), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)))
    m, kh, kw, c = weight.shape
    h, wide = ((x.shape[1 + i] - dilations[i] * ((kh, kw)[i] - 1) - 1) // strides[i] + 1 for i in (0, 1))
    y = np.zeros((x.shape[0], h, wide, m))
    for i in range(h):
        for j in range(wide):
            at = x[:, i * strides[0]:, j * strides[1]:][:, :dilations[0] * (kh - 1) + 1:dilations[0], :dilations[1] * (kw - 1) + 1:dilations[1]]
            for o in range(m):
                g = o // (m // group)
                y[:, i, j, o] = (at[..., g * c:(g + 1) * c] * weight[o]).sum((1, 2, 3))
    return (y if bias is None else y + bias).astype(F32)


def convolutions(w):
    f = w.f
    for name, x, weight, biased, attributes, free in (
            ("plain", (2, 5, 4, 3), (4, 3, 3, 3), False, {}, False),
            ("bias", (1, 5, 6, 4), (2, 3, 2, 4), True, dict(strides=[2, 1], pads=[1, 0, 1, 1]), False),
            ("groups", (1, 4, 5, 4), (4, 2, 2, 2), True, dict(group=2, dilations=[2, 1]), False),
            ("free", (1, 4, 4, 2), (3, 3, 3, 2), True, dict(pads=[1, 1, 1, 1]), True)):
        w.begin("nhwc_conv_" + name)
        ins = [f(*x), f(*weight), f(weight[0]) if biased else None]
        a = dict(strides=[1, 1], pads=[0, 0, 0, 0], group=1) | attributes
        w.case("NhwcConv", ins[:3 if biased else 2], attributes, [conv_text(*ins, **a)], weights=(1,) if free else (), free=free)
    for name, pads, biased, attributes in (("zero", [0, 0, 0, 0], False, dict(strides=[2, 2])), ("cut", [1, 0, 1, 2], False, dict(strides=[2, 1])),
                                           ("bias", [0, 1, 1, 0], True, dict(strides=[2, 2], output_padding=[1, 1]))):
        w.begin("conv_transpose_pads_" + name)
        ins = [f(1, 2, 3, 4), f(2, 3, 3, 3), np.array(pads), f(3) if biased else None]
        while ins[-1] is None:
            ins.pop()
        w.case("ConvTransposeWithDynamicPads", ins, attributes, 1, weights=(2,) if name == "cut" else ())
    w.begin("word_conv_embedding")
    words = np.array([[1, 2, 3, 4, 0], [5, 0, 0, 0, 0], [2, 2, 0, 0, 0], [1, 3, 5, 4, 2]], np.int32)
    w.case("WordConvEmbedding", [words, f(3, 1, 3, 4), f(3), f(6, 4)], dict(embedding_size=3, conv_window_size=3, char_embedding_size=4), 1)
    for name, dtype, scales, attributes in (
            ("fp8", F8, True, dict(transB=1)), ("fp16", F16, False, dict(dtype=10, alpha=0.5)),
            ("bias", F8, True, dict(transB=1, beta=0.5, activation="RELU")), ("gelu", F32, False, dict(transA=1, activation="GELU"))):
        w.begin("gemm_float8_" + name)
        a, b = f(3, 4), f(4, 5)
        a, b = (x.astype(dtype) for x in (a.T if attributes.get("transA") else a, b.T if attributes.get("transB") else b))
        c, scale = (f(3, 5) if "beta" in attributes else None), np.array([[0.5], [2.0], [3.0]], F32) if scales else [None] * 3
        s = [1.0 if x is None else float(x[0]) for x in scale]
        x, y = (p.astype(F32).T if attributes.get(t) else p.astype(F32) for p, t in ((a, "transA"), (b, "transB")))
        y = attributes.get("alpha", 1.0) * s[0] * s[1] * (x @ y) + (0 if c is None else 0.5 * c)
        if "activation" in attributes:
            from math import erf
            y = np.maximum(y, 0) if attributes["activation"] == "RELU" else y * 0.5 * (1 + np.vectorize(erf)(y / np.sqrt(2)))
        ins = [a, b, c, *scale]
        while ins[-1] is None:
            ins.pop()
        w.case("GemmFloat8", ins, attributes, [(y * s[2]).astype(F16 if attributes.get("dtype") == 10 else F32)])
    for name, attributes, dtype in (("plain", {}, F32), ("transposed", dict(transA=1, transB=1, alpha=0.5), F32), ("int64", {}, np.int64)):
        w.begin("sparse_to_dense_" + name)
        a = (w.r.random((3, 4)) < 0.4).astype(dtype) * 2
        b = w.r.integers(-4, 5, (4, 2)).astype(dtype)
        ins = [a.T if attributes else a, b.T if attributes else b]
        w.case("SparseToDenseMatMul", ins, attributes, [(attributes.get("alpha", 1) * (a @ b)).astype(dtype)])


def crops(w):
    for name, mode, size, dtype, free in (("bilinear", "bilinear", (3, 4), F32, False), ("nearest", "nearest", (3, 3), F32, False),
                                          ("one", "bilinear", (1, 1), F32, False), ("free", "bilinear", (2, 3), F32, True)):
        w.begin("crop_and_resize_" + name)
        boxes = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.8, 0.5, 0.1, 0.0], [-0.4, 0.5, 0.6, 1.4]], dtype)
        ins = [w.f(2, 2, 5, 6).astype(dtype), boxes, np.array([0, 1, 1, 0], np.int32), np.array(size, np.int32)]
        w.case("CropAndResize", ins, dict(mode=mode, extrapolation_value=-3.0), 1, free=free)
    w.begin("sample_op")
    w.case("SampleOp", [w.f(2, 3)], {}, 1)


ALL = (decoders, longformer, convolutions, crops)
