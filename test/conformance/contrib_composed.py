# SPDX-License-Identifier: Apache-2.0
"""Cases of com.microsoft's operators that other operators express (contrib.py writes them)."""

import ml_dtypes
import numpy as np

F16, BF16, F32 = np.float16, ml_dtypes.bfloat16, np.float32
PARTS = "ONNX Runtime's kernels of the parts"


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, float)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, epsilon=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def cast(x, dtype):
    return np.asarray(x).astype(F32).astype(dtype)


# ---- streams

def streams(w):
    f = w.f
    norm, pre, post = "BranchwiseRMSNorm", "HyperConnectionPreMix", "HyperConnectionPostMix"
    for name, x, scale, dtype, attributes, free in (
            ("grouped", (2, 3, 4), (4,), F32, {}, False), ("branch_scale", (2, 3, 4), (3, 4), F32, dict(epsilon=0.1), False),
            ("flat_scale", (2, 3, 4), (12,), F32, {}, False), ("flat", (2, 12), (12,), F32, dict(num_branches=3), False),
            ("flat_row_scale", (1, 2, 6), (3,), F32, dict(num_branches=2), False), ("no_scale", (3, 2, 4), None, F32, {}, False),
            ("fp16", (2, 8), (2, 4), F16, dict(num_branches=2), False),
            ("free", (2, 12), (12,), F32, dict(num_branches=3), True), ("free_grouped", (2, 2, 4), (8,), F16, {}, True)):
        w.begin("branchwise_rms_norm_" + name)
        w.case(norm, [f(*x).astype(dtype), None if scale is None else f(*scale).astype(dtype)][:1 if scale is None else 2],
               attributes, 1, free=free)
    w.begin("branchwise_rms_norm_two_types")
    w.case(norm, [f(2, 2, 4).astype(F16), f(4)], {}, 1)
    for name, x, gates, dtype, attributes, free in (
            ("branches", (2, 3, 4), (2, 3), F32, {}, False), ("ones", (2, 3, 4), (2, 3, 1), F32, dict(reduction_scale=0.5), False),
            ("features", (2, 3, 4), (2, 3, 4), F32, {}, False), ("flat", (2, 12), (2, 3), F32, dict(num_branches=3), False),
            ("flat_features", (2, 12), (2, 12), F32, dict(num_branches=3, reduction_scale=2.0), False),
            ("fp16", (1, 2, 8), (1, 2, 2, 4), F16, dict(num_branches=2), False),
            ("free", (2, 12), (2, 3), F32, dict(num_branches=3), True)):
        w.begin("hyper_connection_pre_mix_" + name)
        w.case(pre, [f(*x).astype(dtype), f(*gates).astype(dtype)], attributes, 1, free=free)
    w.begin("hyper_connection_pre_mix_two_types")
    w.case(pre, [f(2, 3, 4).astype(F16), f(2, 3)], {}, 1)
    for name, x, block, gates, mix, dtype, attributes, free in (
            ("identity", (2, 3, 4), (2, 4), (2, 3), None, F32, {}, False), ("mix", (2, 3, 4), (2, 4), (2, 3), (2, 3, 3), F32, {}, False),
            ("features", (2, 3, 4), (2, 4), (2, 3, 4), (2, 3, 3), F32, {}, False),
            ("flat", (2, 1, 12), (2, 1, 4), (2, 1, 3, 1), (2, 1, 3, 3), F32, dict(num_branches=3), False),
            ("fp16", (2, 8), (2, 4), (2, 2), (2, 2, 2), F16, dict(num_branches=2), False),
            ("free", (2, 3, 4), (2, 4), (2, 3), (2, 3, 3), F32, {}, True)):
        w.begin("hyper_connection_post_mix_" + name)
        w.case(post, [a if a is None else f(*a).astype(dtype) for a in (x, block, gates, mix)][:3 if mix is None else 4], attributes, 1,
               free=free)
    low_rank(w, "plain", F32)
    low_rank(w, "prologue", F32, prologue=True, silu_alpha=1.5, gate_div=2.0, gate_mul=3.0, reduction_scale=0.5)
    low_rank(w, "fp16", F16, prologue=True)
    for name, dtype, normed, free in (("plain", F32, False, False), ("normed", F32, True, False), ("fp16", F16, True, False),
                                      ("free", F32, True, True)):
        w.begin("engram_gate_" + name)
        w.case("EngramGate", [a.astype(dtype) for a in (f(2, 3, 2, 4), f(2, 3, 2, 4), f(2, 3, 4), f(2, 4), f(2, 4), f(2, 4))[:6 if normed else 5]],
               {} if name != "normed" else dict(epsilon=0.1), 2 if normed else 1, free=free)


def low_rank(w, name, dtype, prologue=False, lead=(2, 3), c=2, h=4, r=3, **attributes):
    w.begin("hyper_connection_low_rank_mix_" + name)
    s, scale, down, up, inject = (w.f(*a).astype(dtype) for a in ((*lead, c * h), (c * h,), (c * h, r), (r, c * h), (c * h, c)))
    ins, old = [s, scale, down, up, inject], s
    if prologue:
        block, gate = w.f(*lead, h).astype(dtype), w.f(*lead, c).astype(dtype)
        ins += [block, gate]
        old = cast(s.reshape(*lead, c, h).astype(float) + gate[..., None].astype(float) * block[..., None, :].astype(float), dtype)
    old = old.reshape(*lead, c, h)
    a = dict(epsilon=1e-5, silu_alpha=1.0, gate_div=1.0, gate_mul=1.0, reduction_scale=1.0) | attributes
    hn = cast(rms(old.astype(float), a["epsilon"]) * scale.reshape(c, h).astype(float), dtype).reshape(*lead, c * h)
    z = cast(a["silu_alpha"] * cast(hn.astype(float) @ down.astype(float), dtype).astype(float), dtype)
    hidden = cast(z.astype(float) * cast(sigmoid(z), dtype).astype(float), dtype)
    g = cast(sigmoid(cast(hidden.astype(float) @ up.astype(float), dtype)), dtype)
    mixed = (hn.astype(float) * g.astype(float)).reshape(*lead, c, h).sum(-2) * a["reduction_scale"]
    logits = cast(cast(hn.astype(float) @ inject.astype(float), dtype).astype(float) / a["gate_div"], dtype)
    post = cast(cast(sigmoid(logits), dtype).astype(float) * a["gate_mul"], dtype)
    w.case("HyperConnectionLowRankMix", ins, dict(num_branches=c, **attributes), [cast(mixed, dtype), post, old.reshape(s.shape)],
           **(dict(rtol=1e-2, atol=1e-2) if dtype is F16 else {}))


def router(w):
    kind = "MoEGroupRouter"
    for name, tokens, experts, dtype, attributes, free in (
            ("one_group", (5,), 6, F32, dict(top_k=2), False),
            ("groups", (2, 3), 8, F32, dict(top_k=3, n_group=4, topk_group=2), False),
            ("group_of_one", (4,), 6, F32, dict(top_k=2, n_group=6, topk_group=3, router_sentinel=-5.0), False),
            ("sums_of_three", (4,), 12, F32, dict(top_k=4, n_group=3, topk_group=2, group_topk=3), False),
            ("fp16", (4,), 8, F16, dict(top_k=2, n_group=2, topk_group=1), False),
            ("free", (3,), 8, F32, dict(top_k=2, n_group=2), True)):
        w.begin("moe_group_router_" + name)
        w.case(kind, [w.f(*tokens, experts).astype(dtype), w.f(experts)], attributes, 1, free=free)
    w.begin("moe_group_router_scores")
    x, bias = w.f(4, 6), w.f(6)
    s = sigmoid(x).astype(F32)
    w.case(kind, [x, bias], dict(top_k=2), [None, s + bias, s])
    w.begin("moe_group_router_projected")
    x, bias, p = w.f(2, 256).astype(F16), w.f(4), w.f(4, 256).astype(F16)
    s = sigmoid(x.astype(float) @ p.astype(float).T / 1).astype(F32)
    w.case(kind, [x, bias, p], dict(top_k=2), [None, s + bias, s], rtol=5e-3)


# ---- activations and elementwise operators

def swiglu_text(gate, up, activation_alpha=1.0, activation_beta=0.0, limit=0.0, round_activation=0):
    dtype = gate.dtype
    g, u = (gate.astype(float), up.astype(float)) if up is not None else np.split(gate.astype(float), 2, -1)
    if limit > 0:
        g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
    a = g * sigmoid(activation_alpha * g)
    if round_activation:
        a = cast(a, dtype).astype(float)
    return [cast(a * (u + activation_beta), dtype)]


def activations(w):
    f = w.f
    for name, dtype, apart, attributes, free in (
            ("apart", F32, True, {}, False), ("halves", F32, False, dict(activation_alpha=1.702, activation_beta=1.0), False),
            ("limit", F32, True, dict(limit=0.7, activation_beta=1.0), False), ("fp16", F16, False, dict(limit=7.0), False),
            ("rounded", BF16, True, dict(round_activation=1), False), ("free", F32, False, {}, True)):
        w.begin("swiglu_" + name)
        gate, up = f(2, 3, 8).astype(dtype), f(2, 3, 8).astype(dtype) if apart else None
        w.case("SwiGLU", [gate, up] if apart else [gate], attributes, swiglu_text(gate, up, **attributes), free=free)
    for name, dtype, scale, attributes in (("plain", F32, None, {}), ("alpha", F16, None, dict(alpha=1.5)), ("scale", F32, F32, {}),
                                           ("two_types", F16, F32, dict(alpha=3.0))):
        w.begin("scaled_silu_" + name)
        w.case("ScaledSiLU", [f(3, 4).astype(dtype)] + ([] if scale is None else [np.array(0.7, scale)]), attributes, 1)
    for name, sign, a, b in (("mul", 1, (2, 3, 2), (2, 3, 2)), ("mul_broadcast", 1, (2, 3, 2), (1, 2)), ("mul_conj", -1, (3, 2), (3, 2))):
        w.begin("complex_" + name)
        x, y = f(*a), f(*b)
        z = (x[..., 0] + 1j * x[..., 1]) * (y[..., 0] + sign * 1j * y[..., 1])
        w.case("ComplexMul" + ("Conj" if sign < 0 else ""), [x, y], {}, [np.stack([z.real, z.imag], -1).astype(F32)])
    w.begin("mul_integer")
    a, b, az = w.bytes(2, 3), w.bytes(3), np.array(7, np.uint8)
    w.case("MulInteger", [a, az, b], {}, [(a.astype(np.int32) - 7) * b.astype(np.int32)])
    w.begin("mul_integer_signed")
    a, b = w.bytes(2, 3).view(np.int8), w.bytes(2, 1).view(np.int8)
    w.case("MulInteger", [a, None, b, np.array([-3], np.int8)], {}, [a.astype(np.int32) * (b.astype(np.int32) + 3)])
    for name, outer, shape in (("inner", 1, (2, 1, 1, 5)), ("outer", 0, (1, 1, 4, 5)), ("rows", 0, (4, 5))):
        w.begin("bias_softmax_" + name)
        x, b = f(2, 3, 4, 5), f(*shape)
        w.case("BiasSoftmax", [x, b], dict(axis=3, is_inner_broadcast=outer), [softmax(x + b).astype(F32)])
    w.begin("bias_softmax_axis")
    x, b = f(2, 3, 4), f(1, 3, 4)
    w.case("BiasSoftmax", [x, b], dict(axis=1, is_inner_broadcast=0), [softmax((x + b).reshape(2, 12)).reshape(x.shape).astype(F32)])
    w.begin("bias_dropout")
    x, b, r = f(2, 3, 4), f(4), f(2, 3, 4)
    w.case("BiasDropout", [x, b, r, np.array(0.4, F32)], {}, [x + b + r, np.ones(x.shape, bool)])
    w.begin("bias_dropout_no_mask")
    w.case("BiasDropout", [x.astype(F16), b.astype(F16)], {}, [x.astype(F16) + b.astype(F16)])


# ---- norms, transforms, shapes

def group_text(x, gamma, beta, skip, bias, groups, activation, channels_last, epsilon=1e-5):
    dtype = x.dtype
    if not channels_last:
        x = x.transpose(0, 2, 3, 1)
        skip = skip.transpose(0, 2, 3, 1) if skip.ndim == 4 else skip
    s = x.astype(float) + (skip[:, None, None] if skip.ndim == 2 else skip).astype(float)
    s = cast(s if bias is None else s + bias.astype(float), dtype)
    g = s.astype(float).reshape(*s.shape[:3], groups, -1)
    y = (g - g.mean((1, 2, 4), keepdims=True)) / np.sqrt(g.var((1, 2, 4), keepdims=True) + epsilon)
    y = y.reshape(s.shape) * gamma.astype(float) + beta.astype(float)
    y = cast(y * sigmoid(y) if activation else y, dtype)
    return [y, s] if channels_last else [a.transpose(0, 3, 1, 2) for a in (y, s)]


def norms(w):
    f = w.f
    for name, skip, biased, dtype, last, activation, outs in (
            ("whole", (2, 2, 3, 4), True, F32, 1, 0, 2), ("flat", (2, 4), False, F32, 1, 1, 2), ("pixel", (2, 1, 1, 4), True, F32, 1, 1, 1),
            ("fp16", (2, 2, 3, 4), True, F16, 1, 1, 2), ("first", (2, 4, 2, 3), True, F32, 0, 0, 2), ("first_flat", (2, 4), False, F32, 0, 1, 1)):
        w.begin("skip_group_norm_" + name)
        x = f(2, 2, 3, 4) if last else f(2, 4, 2, 3)
        x, skip, gamma, beta, bias = (a.astype(dtype) for a in (x, f(*skip), f(4), f(4), f(4)))
        bias = bias if biased else None
        made = group_text(x, gamma, beta, skip, bias, 2, activation, last)
        w.case("SkipGroupNorm", [x, gamma, beta, skip, bias][:5 if biased else 4], dict(groups=2, activation=activation, channels_last=last),
               made[:outs], **(dict(rtol=1e-2, atol=1e-2) if dtype is F16 else {}))
    for name, shape in (("rfft", (2, 8)), ("rfft_odd", (3, 5)), ("rfft_line", (6,))):
        w.begin(name)
        x = f(*shape)
        z = np.fft.rfft(x)
        w.case("Rfft", [x], dict(signal_ndim=1), [np.stack([z.real, z.imag], -1).astype(F32)])
    w.begin("irfft")
    x = f(2, 5, 2)
    w.case("Irfft", [x], dict(signal_ndim=1), [np.fft.irfft(x[..., 0] + 1j * x[..., 1]).astype(F32)])


def shapes(w):
    f = w.f
    for name, shape, attributes, free in (("last", (2, 7), dict(size=3), False), ("first", (7, 2), dict(dim=0, size=3, step=2), False),
                                          ("middle", (2, 5, 3), dict(dim=1, size=2, step=3), False), ("whole", (4,), dict(size=4), False),
                                          ("free", (2, 6), dict(size=2, step=2), True)):
        w.begin("unfold_tensor_" + name)
        w.case("UnfoldTensor", [f(*shape)], attributes, 1, free=free)
    w.begin("unfold_tensor_int64")
    w.case("UnfoldTensor", [np.arange(6)], dict(size=2), 1)
    for name, pads, mode, value in (("constant", [1, 0, 0, 2], "constant", np.array(2.5, F32)), ("two_dims", [[0, 1, 1, 0]], "constant", np.array([3], F32)),
                                    ("reflect", [1, 1, 0, 1], "reflect", None), ("edge", [0, 2, 1, 0], "edge", None), ("negative", [-1, 0, 0, 1], "constant", None)):
        w.begin("ms_pad_" + name)
        w.case("Pad", [f(3, 3), np.array(pads)] + ([] if value is None else [value]), dict(mode=mode), 1)
    for name, values in (("int64", [2, 9, 3]), ("no_delta", [1, 4]), ("float", [0.5, -1.0, -0.25])):
        w.begin("ms_range_" + name)
        dtype = F32 if name == "float" else np.int64
        w.case("Range", [np.array(v, dtype) for v in values], {}, 1)
    w.begin("ms_range_vectors")
    w.case("Range", [np.array([v], np.int32) for v in (0, 6, 2)], {}, 1)
    for name, at in (("int32", np.array([[0, 1], [1, 0]], np.int32)), ("slices", np.array([[1], [0]])), ("negative", np.array([[-1, -2]]))):
        w.begin("ms_gather_nd_" + name)
        w.case("GatherND", [f(2, 2, 3), at], {}, 1)
    w.begin("ms_unique")
    w.case("Unique", [np.array([2, 1, 1, 3, 4, 3], F32)], {}, 3)
    w.begin("ms_unique_one")
    w.case("Unique", [np.array([5], F32)], {}, 3)
    w.begin("torch_embedding")
    table, at = f(4, 3), np.array([[0, 3], [1, 1]])
    w.case("TorchEmbedding", [table, at, np.array(1)], {}, [table[at]])
    for name, x in (("unsigned", w.bytes(2, 3, 4)), ("signed", w.bytes(2, 3, 4).view(np.int8))):
        w.begin("reduce_sum_integer_" + name)
        made = x.sum(1, keepdims=True, dtype=np.uint32 if name == "unsigned" else np.int32)
        w.case("ReduceSumInteger", [x], dict(axes=[1], keepdims=1), [made])
    w.begin("qlinear_reduce_mean")
    x = w.bytes(2, 3, 4)
    real = (x.astype(float) - 100) * 0.5
    y = np.clip(np.rint(real.mean((0, 2)).astype(F32) / F32(0.25)) + 30, 0, 255).astype(np.uint8)
    w.case("QLinearReduceMean", [x, np.array(0.5, F32), np.array(100, np.uint8), np.array(0.25, F32), np.array(30, np.uint8)],
           dict(axes=[0, 2], keepdims=0), [y])
    w.begin("qlinear_reduce_mean_no_zero")
    x = w.bytes(4, 3).view(np.int8)
    y = np.clip(np.rint(x.astype(float).mean(1, keepdims=True).astype(F32) / 2), -128, 127).astype(np.int8)
    w.case("QLinearReduceMean", [x, np.array(1, F32), None, np.array(2, F32)], dict(axes=[-1], keepdims=1), [y])


# ---- products

def packed_weight(w, n, k, bits, block, dtype):
    blocks = -(-k // block)
    return w.bytes(n, blocks, block * bits // 8), (abs(w.f(n, blocks)) * 0.02 + 0.01).astype(dtype)


def nbits(ort, x, weight, scales, bias, n, k, block, bits):
    ins = [x, weight, scales] if bias is None else [x, weight, scales, None, None, bias]
    return ort("MatMulNBits", ins, dict(N=n, K=k, block_size=block, bits=bits), 1, {})[0]


def normed(ort, x, skip, scale, epsilon):
    if scale is None:
        return x, None
    made = rms((x if skip is None else x + skip).astype(float), epsilon) * scale
    return made.astype(F32), None if skip is None else x + skip


def products(w, ort):
    f = w.f
    for name, skip, scale, biased, outs in (("mlp", False, False, False, 1), ("mlp_bias", False, True, True, 1), ("mlp_norm_skip", True, True, False, 2)):
        w.begin("matmul_nbits_" + name)
        x, k, n, block = f(2, 3, 32), 32, 5, 16
        skip, scale = f(2, 3, 32) if skip else None, f(32) if scale else None
        gate, up = (packed_weight(w, n, k, 4, block, F32) for _ in range(2))
        bias = [f(n), f(n)] if biased else [None, None]
        a, total = normed(ort, x, skip, scale, 1e-5)
        g, u = (nbits(ort, a, *b, c, n, k, block, 4).astype(float) for b, c in zip((gate, up), bias))
        y = (g * sigmoid(g) * u).astype(F32)
        w.case("MatMulNBitsMlp", [x, skip, scale, *gate, bias[0], *up, bias[1]][:9 if biased else 8], dict(N=n, K=k, block_size=block, activation="silu"),
               [y, total][:outs], atol=1e-3, weights=(3, 4, 6, 7), origin=PARTS)
    for name, skip, biased, bits, outs in (("qkv", False, False, 4, 3), ("qkv_skip", True, True, 8, 4)):
        w.begin("matmul_nbits_" + name)
        x, k, nq, nkv, block = f(1, 2, 32), 32, 6, 3, 16
        skip, scale = f(1, 2, 32) if skip else None, f(32)
        parts = [packed_weight(w, n, k, bits, block, F32) for n in (nq, nkv, nkv)]
        bias = [f(n) if biased else None for n in (nq, nkv, nkv)]
        a, total = normed(ort, x, skip, scale, 1e-6)
        made = [nbits(ort, a, *p, b, n, k, block, bits) for p, b, n in zip(parts, bias, (nq, nkv, nkv))]
        ins = [x, skip, scale] + [v for p, b in zip(parts, bias) for v in (*p, b)]
        while ins[-1] is None:
            ins.pop()
        w.case("MatMulNBitsQkv", ins, dict(Nq=nq, Nkv=nkv, K=k, block_size=block, bits=bits), (made + [total])[:outs], atol=1e-3, origin=PARTS)
    for name, empty in (("qlora", False), ("qlora_no_adapter", True)):
        w.begin("matmul_nbits_" + name)
        x, k, n, r = f(2, 32), 32, 5, 16
        base, down, up = packed_weight(w, n, k, 4, 16, F32), packed_weight(w, r, k, 8, 16, F32), packed_weight(w, n, r, 8, 16, F32)
        y = nbits(ort, x, *base, None, n, k, 16, 4)
        if empty:
            down, up = (down[0][:0], down[1]), (up[0][:, :0], up[1])
        else:
            low = nbits(ort, x, *down, None, r, k, 16, 8)
            y = y + nbits(ort, low, *up, None, n, r, 16, 8)
        w.case("MatMulNBitsQLoRA", [x, *base, *down, *up], dict(N=n, K=k, block_size=16, lora_block_size=16), [y], atol=2e-3, origin=PARTS)
    w.begin("router_gate_up_proj")
    x, m = f(2, 3, 4).astype(F16), f(4, 9).astype(F16)
    p = cast(x.astype(float) @ m.astype(float), F16)
    w.case("RouterGateUpProj", [x, m], dict(router_size=3, limit=0.9, activation_beta=1.0),
           [p[..., :3], *swiglu_text(p[..., 3:], None, limit=0.9, activation_beta=1.0)], rtol=1e-2, atol=5e-3)
    w.begin("gemm_fast_gelu")
    x, m, b = f(2, 3, 4), f(4, 5), f(5)
    w.case("GemmFastGelu", [x, m, b], {}, [gelu_tanh(x.astype(float) @ m + b).astype(F32)])
    w.begin("gemm_fast_gelu_no_bias")
    w.case("GemmFastGelu", [x, m], {}, [gelu_tanh(x.astype(float) @ m).astype(F32)])
    for name, act, attributes, g in (("relu", "Relu", {}, lambda y: np.maximum(y, 0)),
                                     ("leaky", "LeakyRelu", dict(activation_alpha=0.3, alpha=0.5), lambda y: np.where(y < 0, 0.3 * y, y)),
                                     ("tanh_turned", "Tanh", dict(transB=1), np.tanh)):
        w.begin("fused_matmul_activation_" + name)
        x, m = f(2, 3, 4), f(5, 4) if "transB" in attributes else f(4, 5)
        y = x.astype(float) @ (m.T if "transB" in attributes else m) * attributes.get("alpha", 1)
        w.case("FusedMatMulActivation", [x, m], dict(activation=act, **attributes), [g(y).astype(F32)])
    w.begin("matmul_integer16")
    w.case("MatMulInteger16", [w.r.integers(-999, 999, (2, 3)).astype(np.int16), w.r.integers(-999, 999, (3, 4)).astype(np.int16)], {}, 1)
    for metric in ("sqeuclidean", "euclidean"):
        w.begin("cdist_" + metric)
        w.case("CDist", [f(4, 3), f(5, 3)], dict(metric=metric), 1, atol=1e-4)
    w.begin("cdist_double_free")
    w.case("CDist", [f(2, 3).astype(float), f(1, 3).astype(float)], {}, 1, free=True)
    nhwc(w, "plain", False, {})
    nhwc(w, "sum_relu", True, dict(activation="Relu", strides=[2, 1], pads=[1, 0, 1, 1]))


def nhwc(w, name, residual, attributes):
    w.begin("nhwc_fused_conv_" + name)
    x, m, b = w.f(1, 5, 4, 3), w.f(2, 3, 3, 2), w.f(2)
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    sy, sx = attributes.get("strides", [1, 1])
    p = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    rows, cols = (p.shape[1] - 3) // sy + 1, (p.shape[2] - 2) // sx + 1
    y = np.array([[[np.einsum("hwc,ochw->o", p[0, i * sy:i * sy + 3, j * sx:j * sx + 2], m) + b for j in range(cols)] for i in range(rows)]])
    ins = [x, m, b]
    if residual:
        ins.append(w.f(*y.shape))
        y = y + ins[3]
    if attributes.get("activation"):
        y = np.maximum(y, 0)
    w.case("NhwcFusedConv", ins, attributes, [y.astype(F32)])


# ---- positions, packing

def bucket(distance, buckets, most, both):
    at = 0
    if both:
        buckets //= 2
        at, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return at + distance
    share = np.log(F32(distance) / F32(exact)) / np.log(F32(most) / F32(exact))
    return at + min(exact + int(share * F32(buckets - exact)), buckets - 1)


def positions(w):
    f = w.f
    for name, both, n, buckets, most in (("one_way", 0, 9, 8, 20), ("both_ways", 1, 10, 12, 16), ("far", 1, 20, 8, 12)):
        w.begin("relative_position_bias_" + name)
        heads = 2
        table = f(heads, buckets)  # as it lies in memory
        y = np.array([[[table[h, bucket(k - q, buckets, most, both)] for k in range(n)] for q in range(n)] for h in range(heads)])
        w.case("RelativePositionBias", [table.reshape(buckets, heads), np.array([n]), np.array([n])], dict(max_distance=most, is_bidirectional=both),
               [y[None]], free=False)
    for name, packed in (("plain", False), ("packed", True)):
        w.begin("gated_relative_position_bias_" + name)
        batch, s, heads, size, wide = 2, 3, 2, 4, 6
        rows, bias, rel, m, b, eco = f(batch, s, heads * size), f(heads * size), f(1, heads, s, s), f(size, wide), f(wide), f(1, heads, 1, 1)
        ins = [rows, bias, rel, m, b, eco]
        if packed:
            lengths, at = [2, 3], offsets([2, 3], s)
            for i, n in enumerate(lengths):
                rows[i, n:] = 0
            ins = [rows.reshape(-1, heads * size)[at.reshape(-1)[:5]], *ins[1:], at]
        q = (rows + bias).reshape(batch, s, heads, size).transpose(0, 2, 1, 3)
        u, r = np.split(sigmoid((q @ m + b).reshape(batch, heads, s, 2, wide // 2).sum(-1)), 2, -1)
        w.case("GatedRelativePositionBias", ins, dict(num_heads=heads), [((u * (r * eco - 1) + 2) * rel).astype(F32)])
    w.begin("gemma_rotary_embedding")
    emb, q, qr, k, kr = f(1, 3, 4), *(f(1, h, 3, 4).astype(F16) for h in (2, 2, 1, 1))
    s, c = np.sin(emb).astype(F16)[:, None], np.cos(emb).astype(F16)[:, None]
    w.case("GemmaRotaryEmbedding", [emb, q, qr, k, kr], {}, [q * c + qr * s, k * c + kr * s])


def offsets(lengths, room):
    places = np.arange(len(lengths) * room).reshape(-1, room)
    real = np.arange(room) < np.array(lengths)[:, None]
    return np.concatenate([places[real], places[~real]]).reshape(-1, room).astype(np.int32)


def packed_mha_text(q, k, v, lengths, heads, scale=None, bias=None, dtype=F32):
    out, at = [], 0
    for b, n in enumerate(lengths):
        split = [a[at:at + n].astype(float).reshape(n, heads, -1).transpose(1, 0, 2) for a in (q, k, v)]
        s = split[0] @ split[1].transpose(0, 2, 1) * (scale or 1 / np.sqrt(split[0].shape[-1]))
        if bias is not None:
            s = s + bias[b if len(bias) > 1 else 0][:, :n, :n]
        out.append((softmax(s) @ split[2]).transpose(1, 0, 2).reshape(n, -1))
        at += n
    return cast(np.concatenate(out), dtype)


def packing(w):
    f = w.f
    lengths, room = [1, 3, 2], 4
    at, starts = offsets(lengths, room), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    for name, dtype in (("remove_padding", F32), ("remove_padding_fp16", F16)):
        w.begin(name)
        x = f(3, room, 2).astype(dtype)
        w.case("RemovePadding", [x, np.array(lengths, np.int32)], {}, [x.reshape(-1, 2)[at.reshape(-1)[:6]], at, starts, np.array([3], np.int32)],
               free=dtype is F16)
    w.begin("restore_padding")
    x, y = f(6, 2), np.zeros((12, 2), F32)
    y[at.reshape(-1)[:6]] = x
    w.case("RestorePadding", [x, at], {}, [y.reshape(3, room, 2)])
    for name, dtype, biased, masked, attributes in (("plain", F32, False, False, {}), ("bias", F32, True, False, dict(scale=0.3)),
                                                    ("attention_bias", F32, False, True, {}), ("fp16", F16, False, False, {})):
        w.begin("packed_multi_head_attention_" + name)
        q, k, v, b = f(6, 4).astype(dtype), f(6, 4).astype(dtype), f(6, 6).astype(dtype), f(14) if biased else None
        bias = f(1, 2, room, room) if masked else None
        added = np.split(b, [4, 8]) if biased else [0, 0, 0]
        y = packed_mha_text(q + added[0], k + added[1], v + added[2], lengths, 2, attributes.get("scale"), bias, dtype)
        w.case("PackedMultiHeadAttention", [q, k, v, b, at, starts] + ([bias] if masked else []), dict(num_heads=2, **attributes), [y])
    w.begin("packed_multi_head_attention_packed")
    x = f(6, 2, 3, 4)
    w.case("PackedMultiHeadAttention", [x, None, None, None, at, starts], dict(num_heads=2),
           [packed_mha_text(*(x[:, :, i].reshape(6, -1) for i in range(3)), lengths, 2)])
    for name, sizes in (("plain", None), ("sizes", [4, 4, 6])):
        w.begin("packed_attention_" + name)
        wide = sum(sizes) if sizes else 12
        x, m, b = f(6, 5), f(5, wide), f(wide)
        q, k, v = np.split(x @ m + b, [4, 8], 1)
        w.case("PackedAttention", [x, m, b, at, starts], dict(num_heads=2, **(dict(qkv_hidden_sizes=sizes) if sizes else {})),
               [packed_mha_text(q, k, v, lengths, 2)])


# ---- runs of tokens, packed convolutions

def ngrams(w):
    for name, shape, n, words in (("of_3", (2, 9), 3, 4), ("of_1", (2, 4), 1, 6), ("of_2", (3, 12), 2, 5), ("too_short", (1, 2), 4, 3), ("exact", (1, 3), 3, 2)):
        w.begin("ngram_repeat_block_" + name)
        w.case("NGramRepeatBlock", [w.r.integers(0, words, shape), w.f(shape[0], words)], dict(ngram_size=n), 1)
    for name, shape, n, heads, dtype, past, moved, eos, parts, attributes in (
            ("plain", (2, 5), 3, 2, np.int64, False, False, None, False, {}), ("past", (2, 4), 3, 2, np.int64, True, True, None, False, {}),
            ("int32", (1, 6), 2, 3, np.int32, False, False, None, False, {}), ("eos", (2, 7), 4, 1, np.int64, True, False, 3, False, dict(reset_on_eos=1)),
            ("eos_only", (1, 4), 3, 1, np.int64, False, False, 3, False, {}), ("segments", (2, 6), 3, 2, np.int64, True, False, None, True, {}),
            ("int32_segments", (1, 5), 3, 1, np.int32, False, False, None, True, {}),
            ("all", (2, 6), 4, 2, np.int64, True, True, 2, True, dict(reset_on_eos=1))):
        w.begin("ngram_hash_mapping_" + name)
        width = (n - 1) * heads
        ids = w.r.integers(0, 6, shape).astype(dtype)
        ins = [ids, (w.r.integers(1, 500, n) * 2 + 1).astype(dtype), w.r.integers(5, 90, width).astype(dtype),
               w.r.integers(0, 6, (shape[0], n - 1)).astype(dtype) if past else None, np.arange(width).astype(dtype) * 100 if moved else None,
               None if eos is None else np.array(eos, dtype), np.sort(w.r.integers(0, 3, shape)).astype(np.int32) if parts else None]
        while ins[-1] is None:
            ins.pop()
        w.case("NGramHashMapping", ins, dict(max_ngram_size=n, n_head_per_ngram=heads, pad_id=1, **attributes), 2)


def warping(w):
    for name, shape in (("plain", (4, 6)), ("three_dims", (1, 5, 3)), ("equal_costs", (4, 3)), ("row", (1, 4)), ("column", (3, 1))):
        w.begin("dynamic_time_warping_" + name)
        x = np.ones(shape, F32) if name == "equal_costs" else w.f(*shape)
        w.case("DynamicTimeWarping", [x], {}, 1, free=name == "three_dims")


def packed_conv(w):
    for name, starts, taps, dtype, biased, count, attributes, free in (
            ("plain", [0, 3, 4], 3, F32, False, None, {}, False), ("bias_silu", [0, 1, 6], 4, F32, True, None, dict(activation="silu"), False),
            ("dilation", [0, 5, 7], 3, F32, True, None, dict(dilation=2), False), ("one_tap", [0, 2, 3], 1, F32, True, None, {}, False),
            ("fp16", [0, 2, 4], 3, F16, True, None, dict(activation="swish"), False),
            ("updates", [0, 3, 4], 3, F32, False, [2, 3], dict(state_update_capacity=3), False), ("free", [0, 3, 5], 2, F32, True, None, {}, True)):
        w.begin("varlen_causal_conv_" + name)
        room = (taps - 1) * attributes.get("dilation", 1)
        ins = [a.astype(dtype) for a in (w.f(starts[-1], 3), w.f(3, 1, taps), w.f(3), w.f(len(starts) - 1, 3, room))]
        ins = [*ins[:2], np.array(starts, np.int32), ins[2] if biased else None, ins[3]] + ([np.array(count, np.int32)] if count else [])
        w.case("VarlenCausalConvWithState", ins, attributes, 3 if count else 2, free=free, weights=(1,) if free else ())


ALL = (ngrams, packed_conv, warping, streams, router, activations, norms, shapes, products, positions, packing)
