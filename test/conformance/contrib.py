#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Makes cases of com.microsoft's operators that language models consist of. The oracle is ONNX Runtime's CPU provider, without
optimizations, or, where that has no kernel or does not follow the operator's text, the text in numpy.

    contrib.py FOLDER          writes FOLDER/extra/CASE and FOLDER/manifest.tsv, which the runner takes (build/conformance/run FOLDER)
    contrib.py --carry CASES   puts them into CASES/small.tar.gz and CASES/manifest.tsv in place of those that are there

Every case draws its numbers from a generator of its own name, so that a new one leaves the others as they are.
"""

import argparse
import io
import os
import sys
import tarfile
import tempfile
import zlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

import contrib_composed
import contrib_various

ORT = "ONNX Runtime"
TEXT = "the operator's text, in numpy"
BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
F16 = np.float16
PREFIX = "test_ms_"
HEAD = "kind\tcase\tops\topset\tin_dtypes\tbytes\tout_dtypes\tsets\trtol\tatol\tflags\torigin"
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


def element_type(a):
    return helper.np_dtype_to_tensor_dtype(a.dtype)


def word(a):
    return TensorProto.DataType.Name(element_type(a)).lower()


def proto(a, name=""):
    t = TensorProto(name=name, dims=a.shape, data_type=element_type(a))
    t.raw_data = np.ascontiguousarray(a).tobytes()
    return t


def tolerance(a):
    """rtol and atol of an output, where a case does not name its own."""
    return {np.dtype(F16): (2e-3, 1e-3), np.dtype(BF16): (1e-2, 5e-2)}.get(a.dtype, (1e-3, 1e-5))


def model_of(kind, ins, attributes, outs, weights=(), free=False):
    """A model of one node. outs are arrays or, of an unknown type, the number of outputs; `free` sizes are not declared."""
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(ins)]
    known = [] if isinstance(outs, int) else outs
    outputs = [f"o{k}" if not known or known[k] is not None else "" for k in range(len(known) or outs)]

    def info(name, a):
        return helper.make_tensor_value_info(name, element_type(a), [None] * a.ndim if free else a.shape)

    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)], "g",
        [info(names[k], a) for k, a in enumerate(ins) if a is not None and k not in weights],
        [info(o, a) for o, a in zip(outputs, known) if a is not None]
        or [onnx.ValueInfoProto(name=o) for o in outputs],
        initializer=[proto(ins[k], names[k]) for k in weights])
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=10)


def run_ort(kind, ins, attributes, outs, shared):
    """shared: {output: input} whose memory is one, as the operator asks for."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = model_of(kind, ins, attributes, outs)
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    held = {f"i{k}": a.copy() for k, a in enumerate(ins) if a is not None}  # a value takes no part in owning its array
    values = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in held.items()}
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for k in range(outs):
        if k in shared:
            binding.bind_ortvalue_output(f"o{k}", values[f"i{shared[k]}"])
        else:
            binding.bind_output(f"o{k}")
    session.run_with_iobinding(binding)
    return [v.numpy().copy() for v in binding.get_outputs()]


class Writer:
    def __init__(self, folder):
        self.folder, self.lines = folder, []
        self.r = None

    def begin(self, name):
        self.name, self.r = name, np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape):
        return self.r.standard_normal(shape).astype(np.float32)

    def bytes(self, *shape):
        return self.r.integers(0, 256, shape).astype(np.uint8)

    def case(self, kind, ins, attributes, outs, rtol=None, atol=None, weights=(), free=False, shared=None, origin=TEXT):
        """outs: the number of outputs, which ONNX Runtime computes, or what they are by the text (None: left out). origin: what made outs."""
        if isinstance(outs, int):
            import onnxruntime

            origin = f"{ORT} {onnxruntime.__version__}"
            outs = run_ort(kind, ins, attributes, outs, shared or {})
        folder = os.path.join(self.folder, "extra", PREFIX + self.name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        onnx.save(model_of(kind, ins, attributes, outs, weights, free), os.path.join(folder, "model.onnx"))
        fed = [(f"i{k}", a) for k, a in enumerate(ins) if a is not None and k not in weights]
        made = [(f"o{k}", a) for k, a in enumerate(outs) if a is not None]
        size = os.path.getsize(os.path.join(folder, "model.onnx"))
        for what, values in (("input", fed), ("output", made)):
            for k, (name, a) in enumerate(values):
                content = proto(a, name).SerializeToString()
                size += len(content)
                with open(os.path.join(data, f"{what}_{k}.pb"), "wb") as file:
                    file.write(content)
        widest = [max(t) for t in zip(*(tolerance(a) for _, a in made))]
        self.lines.append("\t".join((
            "extra", PREFIX + self.name, kind, "ai.onnx:21,com.microsoft:1", ",".join(word(a) for _, a in fed), str(size),
            ",".join(word(a) for _, a in made), "1", f"{widest[0] if rtol is None else rtol:g}",
            f"{widest[1] if atol is None else atol:g}", "-", origin)))


# ---- LinearAttention, LinearAttentionGate

def linear_text(q, k, v, heads, kv, past=None, decay=None, beta=None, window=0):
    batch, length, _ = q.shape
    d, dv, n = q.shape[2] // heads, v.shape[2] // kv, max(heads, kv)
    state = np.zeros((batch, kv, d, dv)) if past is None else (past[-1] if window else past).astype(float)
    y, kept = np.zeros((batch, length, n * dv)), np.zeros((window, batch, kv, d, dv))
    for t in range(length):
        for b in range(batch):
            for h in range(kv):
                key = k[b, t].reshape(kv, d)[h].astype(float)
                u = v[b, t].reshape(kv, dv)[h].astype(float)
                if decay is not None:
                    state[b, h] *= np.exp(decay[b, t].reshape(kv, -1)[h].astype(float))[:, None]
                if beta is not None:
                    u = float(beta[b, t][h if beta.shape[2] > 1 else 0]) * (u - state[b, h].T @ key)
                state[b, h] += np.outer(key, u)
            for o in range(n):
                query = q[b, t].reshape(heads, d)[o * heads // n].astype(float)
                y[b, t, o * dv:(o + 1) * dv] = query @ state[b, o * kv // n] / np.sqrt(d)
        if window and t - length + window >= 0:
            kept[t - length + window] = state
    return [y.astype(np.float32), (kept if window else state).astype(np.float32)]


def linear_attention(w):
    f, kind = w.f, "LinearAttention"
    for rule in ("linear", "gated", "delta", "gated_delta"):
        w.begin(f"linear_attention_{rule}")
        decay = -abs(f(1, 3, 2)) if "gated" in rule else None
        beta = abs(f(1, 3, 2)) * 0.3 if "delta" in rule else None
        w.case(kind, [f(1, 3, 8), f(1, 3, 4) * 0.5, f(1, 3, 6), f(1, 2, 2, 3), decay, beta],
               dict(q_num_heads=4, kv_num_heads=2, update_rule=rule), 2)
    w.begin("linear_attention_more_key_heads")
    w.case(kind, [f(1, 3, 4), f(1, 3, 8) * 0.5, f(1, 3, 12), None, -abs(f(1, 3, 8)), abs(f(1, 3, 1)) * 0.3],
           dict(q_num_heads=2, kv_num_heads=4), 2)
    w.begin("linear_attention_fp16")
    w.case(kind, [a.astype(F16) for a in (f(1, 2, 4), f(1, 2, 4) * 0.5, f(1, 2, 4))],
           dict(q_num_heads=2, kv_num_heads=2, update_rule="linear", scale=0.5), 2)
    for window, length in ((2, 3), (4, 2)):
        w.begin(f"linear_attention_window_{window}")
        q, k, v, past = f(1, length, 4), f(1, length, 4) * 0.5, f(1, length, 4), f(window, 1, 2, 2, 2)
        decay, beta = -abs(f(1, length, 2)), abs(f(1, length, 2)) * 0.3
        w.case(kind, [q, k, v, past, decay, beta], dict(q_num_heads=2, kv_num_heads=2, state_window=window),
               linear_text(q, k, v, 2, 2, past, decay, beta, window))


def linear_attention_gate(w):
    f, kind = w.f, "LinearAttentionGate"
    w.begin("linear_attention_gate")
    w.case(kind, [f(2, 3, 4), f(4), f(4), f(2, 3, 4)], {}, 2)
    w.begin("linear_attention_gate_no_beta")
    w.case(kind, [f(2, 3, 4) * 20, f(4), f(4)], {}, 1)
    w.begin("linear_attention_gate_fp16")
    w.case(kind, [f(1, 3, 4).astype(F16), f(4), f(4), f(1, 3, 4).astype(F16)], {}, 2)
    w.begin("linear_attention_gate_free")
    w.case(kind, [np.concatenate([f(2, 2, 4) * 30, f(2, 1, 4)], 1), f(4), f(4), f(2, 3, 4)], {}, 2, free=True)
    w.begin("linear_attention_gate_free_no_beta")
    w.case(kind, [f(2, 3, 4).astype(F16), f(4), f(4)], {}, 1, free=True)


# ---- GatedDeltaNet

def delta_net_case(w, name, tokens=6, heads=2, values=4, size=3, vsize=5, batch=2, lead=1, packed=False, starts=None, per_key=False,
                   bias=None, state=True, gate_dtype=None, dtype=np.float32, count=None, active=None, outs=None, free=False,
                   **attributes):
    """bias: the shape of dt_bias; count: of how many tokens the updates are kept; lead: dimensions of tokens."""
    w.begin("gated_delta_net_" + name)
    rule = attributes.get("update_rule", "gated_delta")
    over = (tokens,) if lead == 1 else (batch, tokens // batch)
    q, k = w.f(*over, heads, size), w.f(*over, heads, size)
    if not attributes.get("qk_l2_norm"):
        q, k = q / 3, k / 3
    ins = [q, k, w.f(*over, values, vsize), starts and np.array(starts, np.int32)]
    ins += [-np.abs(w.f(*over, values, *([size] if per_key else []))) if "gated" in rule else None,
            np.abs(w.f(*over, values)) if "delta" in rule else None]
    ins += [w.f(batch, values, vsize, size) if state else None]
    ins += [w.f(values), w.f(*bias)] if bias else [None, None]
    ins += [count and np.array(count, np.int32), active and np.array(active, np.int32)]
    ins[:3] = [a.astype(dtype) for a in ins[:3]]
    ins[4:6] = [a if a is None else a.astype(gate_dtype or dtype) for a in ins[4:6]]
    if packed:
        ins[0] = np.concatenate([a.reshape(*over, -1) for a in ins[:3]], -1)
        ins[1] = ins[2] = None
    while ins[-1] is None:
        ins.pop()
    if count:
        attributes["state_update_capacity"] = attributes.get("state_update_capacity", max(count))
    w.case("GatedDeltaNet", ins, attributes, outs or (3 if count else 2), free=free)


def gated_delta_net(w):
    for rule in ("linear", "gated", "delta", "gated_delta"):
        delta_net_case(w, rule, update_rule=rule)
    delta_net_case(w, "batches", lead=2)
    delta_net_case(w, "no_state", lead=2, state=False)
    delta_net_case(w, "one_output", outs=1, scale=0.5)
    delta_net_case(w, "ragged", starts=[0, 1, 1, 6], batch=3)
    delta_net_case(w, "ragged_no_state", starts=[0, 4, 6], state=False)
    delta_net_case(w, "packed", packed=True)
    delta_net_case(w, "packed_batches", packed=True, lead=2, heads=1)
    delta_net_case(w, "packed_ragged", packed=True, starts=[0, 5, 6], qk_l2_norm=1)
    delta_net_case(w, "per_key", per_key=True)
    delta_net_case(w, "step", tokens=2, qk_l2_norm=1, bias=(4,), gate_activation="softplus", beta_activation="sigmoid")
    delta_net_case(w, "qwen", qk_l2_norm=1, bias=(4,), gate_activation="qwen", beta_activation="sigmoid", chunk_size=32)
    delta_net_case(w, "kda", per_key=True, qk_l2_norm=1, bias=(4, 3), gate_activation="kda", beta_activation="sigmoid")
    delta_net_case(w, "kda_flat_bias", per_key=True, bias=(12,), gate_activation="sigmoid", gate_lower_bound=-2.0)
    delta_net_case(w, "kda_head_bias", per_key=True, bias=(4,), gate_activation="sigmoid")
    delta_net_case(w, "updates", count=[1, 5], state_update_capacity=2)
    delta_net_case(w, "updates_per_key", count=[2, 0], per_key=True, state_update_capacity=8, qk_l2_norm=1)
    delta_net_case(w, "updates_delta", count=[2, 3], update_rule="delta")
    delta_net_case(w, "updates_off", count=[2, 3], active=[0])
    delta_net_case(w, "fp16", dtype=F16, lead=2)
    delta_net_case(w, "fp16_gates", dtype=F16, gate_dtype=np.float32, qk_l2_norm=1)
    delta_net_case(w, "free", free=True)
    delta_net_case(w, "free_packed", free=True, packed=True, starts=[0, 2, 6])


# ---- GatedRMSNorm

def gated_rms_norm(w):
    f, kind = w.f, "GatedRMSNorm"
    w.begin("gated_rms_norm_silu")
    w.case(kind, [f(2, 3, 8), f(4), f(2, 3, 8)], {}, 1)
    w.begin("gated_rms_norm_sigmoid")
    w.case(kind, [f(3, 8), f(8), f(3, 8)], dict(activation="sigmoid", epsilon=0.1), 1)
    w.begin("gated_rms_norm_swish_fp16")
    w.case(kind, [f(2, 12).astype(F16), f(3).astype(F16), f(2, 12).astype(F16)], dict(activation="swish"), 1)
    w.begin("gated_rms_norm_free")
    w.case(kind, [f(2, 3, 8), f(4), f(2, 3, 8)], {}, 1, free=True)
    w.begin("gated_rms_norm_free_sigmoid")
    w.case(kind, [f(3, 8).astype(F16), f(8).astype(F16), f(3, 8).astype(F16)], dict(activation="sigmoid"), 1, free=True)


# ---- CausalConvWithState

def causal_text(x, weights, bias, past, window):
    length, taps = x.shape[2], weights.shape[2]
    z = np.concatenate([past[-1], x], 2).astype(float)
    y = sum(weights[:, 0, j].astype(float)[None, :, None] * z[:, :, j:j + length] for j in range(taps))
    kept = np.zeros((window, *x.shape[:2], taps - 1))
    for j in range(window):
        at = length - window + j + 1
        if at > 0:
            kept[j] = z[:, :, at:at + taps - 1]
    return [(y + bias[None, :, None]).astype(np.float32), kept.astype(np.float32)]


def causal_conv(w):
    f, kind = w.f, "CausalConvWithState"
    w.begin("causal_conv_silu")
    w.case(kind, [f(2, 3, 5), f(3, 1, 4), f(3), f(2, 3, 3)], dict(activation="silu"), 2)
    w.begin("causal_conv_dilation")
    w.case(kind, [f(1, 2, 5), f(2, 1, 3), f(2), f(1, 2, 4)], dict(dilation=2), 2)
    w.begin("causal_conv_channels_last")
    w.case(kind, [f(2, 4, 3), f(3, 1, 3), None, f(2, 2, 3)], dict(channels_last=1, activation="swish"), 2)
    w.begin("causal_conv_channels_last_axes")
    w.case(kind, [f(1, 4, 3, 2), f(6, 1, 3), f(6), f(1, 4, 3, 2)], dict(channels_last=1, dilation=2), 2)
    w.begin("causal_conv_one_position")
    w.case(kind, [f(2, 3, 1), f(3, 1, 4), f(3), f(2, 3, 3)], {}, 2)
    w.begin("causal_conv_fp16")
    w.case(kind, [f(1, 3, 3).astype(F16), f(3, 1, 2).astype(F16), f(3).astype(F16)], {}, 2)
    for window, length in ((2, 3), (4, 2)):
        w.begin(f"causal_conv_window_{window}")
        x, weights, bias, past = f(1, 2, length), f(2, 1, 3), f(2), f(window, 1, 2, 2)
        w.case(kind, [x, weights, bias, past], dict(state_window=window), causal_text(x, weights, bias, past, window))


# ---- MatMulBlockQuantizedFp8Weight, MatMulBlockQuantizedFp4Weight

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def fp8_weight(w, name, dtype, rows, n, k, block, scaled=False, biased=False):
    w.begin(name)
    a, b, s = w.f(*rows, k).astype(dtype), w.f(n, k).astype(F8), abs(w.f(n, -(-k // block)))
    x, scale = a.astype(np.float32), None
    if scaled:
        scale = np.array([0.05], np.float32)
        x = np.clip(x / scale, -448, 448).astype(F8).astype(np.float32) * scale
    bias = w.f(n).astype(dtype) if biased else None
    y = x.astype(float) @ (b.astype(np.float32) * np.repeat(s, block, 1)[:, :k]).T.astype(float)
    if biased:
        y = y + bias.astype(float)
    w.case("MatMulBlockQuantizedFp8Weight", [a, b, s, scale, bias], dict(block_size=block),
           [y.astype(np.float32).astype(dtype)], rtol=8e-3 if dtype is BF16 else None, atol=1e-2, weights=(1, 2))


def fp4_weight(w, name, dtype, rows, n, k, block, biased=False, weights=(1, 2, 3)):
    w.begin(name)
    a, b, s = w.f(*rows, k).astype(dtype), w.bytes(n, k // 2), abs(w.f(n, -(-k // block))).astype(F8)
    all_scale = np.array(0.3, np.float32)
    values = np.stack([FP4[b & 15], FP4[b >> 4]], -1).reshape(n, k)
    values = values * (all_scale * np.repeat(s.astype(np.float32), block, 1)[:, :k])
    bias = w.f(n).astype(dtype) if biased else None
    y = a.astype(float) @ values.astype(dtype).astype(float).T
    if biased:
        y = y + bias.astype(float)
    w.case("MatMulBlockQuantizedFp4Weight", [a, b, s.view(np.uint8), all_scale, None, bias], dict(block_size=block),
           [y.astype(np.float32).astype(dtype)], atol=5e-2 if dtype is BF16 else 1e-2, weights=weights)


def block_weights(w):
    fp8_weight(w, "matmul_fp8_weight", F16, (2, 3), 5, 20, 8, biased=True)
    fp8_weight(w, "matmul_fp8_weight_a_scale", BF16, (3,), 4, 16, 16, scaled=True)
    fp4_weight(w, "matmul_fp4_weight", F16, (2, 3), 5, 32, 16, biased=True)
    fp4_weight(w, "matmul_fp4_weight_bf16", BF16, (3,), 4, 20, 8, weights=())


# ---- MoE, QMoE

def mixer_weights(logits):
    """The two experts of a sparse mixer, and the weight of each among the logits near it."""
    first = int(np.argmax(logits))
    rest = logits.copy()
    rest[first] = -np.inf
    chosen = [first, int(np.argmax(rest))]
    weights = []
    for j, e in enumerate(chosen):
        near = logits[e] - logits <= 0.02 * np.maximum(abs(logits), logits[e])
        if j:
            near[first] = False
        weights.append(1 / np.exp(logits[near] - logits[e]).sum())
    return chosen, weights


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def experts_text(x, logits, fc1, b1, fc2, b2, fc3=None, b3=None, router_weights=None, k=1, activation_type="relu",
                 normalize_routing_weights=0, swiglu_fusion=0, use_sparse_mixer=0, activation_alpha=1.0,
                 activation_beta=0.0, swiglu_limit=np.inf, **_):
    rows, logits = x.reshape(-1, x.shape[-1]).astype(float), logits.astype(float)
    none = [0] * len(fc1)
    b1, b2, b3 = (none if b is None else b.astype(float) for b in (b1, b2, b3))
    act = dict(relu=lambda g: np.maximum(g, 0), gelu=gelu, silu=lambda g: g / (1 + np.exp(-g)), identity=lambda g: g)
    y = np.zeros(rows.shape)
    for t, row in enumerate(rows):
        chosen = np.argsort(-logits[t], kind="stable")[:k]
        p = np.exp(logits[t] - logits[t].max())
        weights = (p / p.sum())[chosen] if router_weights is None else router_weights[t].astype(float)[chosen]
        if normalize_routing_weights:
            weights = weights / weights.sum()
        if use_sparse_mixer:
            chosen, weights = mixer_weights(logits[t])
        for e, weight in zip(chosen, weights):
            g = fc1[e].astype(float) @ row + b1[e]
            linear = None if fc3 is None else fc3[e].astype(float) @ row + b3[e]
            if activation_type == "swiglu":
                if swiglu_fusion:
                    g, linear = (g[0::2], g[1::2]) if swiglu_fusion == 1 else np.split(g, 2)
                g, linear = np.minimum(g, swiglu_limit), np.clip(linear, -swiglu_limit, swiglu_limit)
                h = g / (1 + np.exp(-activation_alpha * g)) * (linear + activation_beta)
            else:
                h = act[activation_type](g) * (1 if linear is None else linear)
            y[t] += weight * (fc2[e].astype(float) @ h + b2[e])
    return [y.reshape(x.shape).astype(np.float32).astype(x.dtype)]


def experts_case(w, name, tokens, experts, hidden, inter, dtype=np.float32, biased=True, fc3=False, text=False, free=False,
                 logits=None, spoil=False, **attributes):
    w.begin(name)
    wide = 2 * inter if attributes.get("swiglu_fusion") else inter
    shapes = [(experts, wide, hidden), (experts, wide), (experts, hidden, inter), (experts, hidden)]
    if fc3:
        shapes += [(experts, inter, hidden), (experts, inter)]
    layers = [w.f(*s).astype(dtype) if biased or len(s) == 3 else None for s in shapes]
    x, rows = w.f(*tokens, hidden).astype(dtype), int(np.prod(tokens))
    if spoil:
        x[-1, 0] = np.nan
    logits = w.f(rows, experts).astype(dtype) if logits is None else logits.astype(dtype)
    w.case("MoE", [x, logits, *layers], attributes,
           experts_text(x, logits, *layers, **attributes) if text else 1,
           # sums of products that ONNX Runtime rounds to float16 between the layers
           **(dict(rtol=5e-3, atol=3e-2) if dtype is F16 else {}), free=free)


def mixture(w):
    experts_case(w, "moe_relu", (3,), 3, 4, 5)
    experts_case(w, "moe_gelu_normalized", (2, 2), 4, 4, 3, k=2, activation_type="gelu", normalize_routing_weights=1)
    experts_case(w, "moe_silu_all_experts", (2,), 3, 4, 4, k=3, activation_type="silu", biased=False)
    experts_case(w, "moe_identity_fp16", (2,), 3, 4, 3, dtype=F16, activation_type="identity", normalize_routing_weights=1,
                 k=2)
    experts_case(w, "moe_swiglu_in_turn", (2,), 3, 4, 3, k=2, activation_type="swiglu", swiglu_fusion=1)
    experts_case(w, "moe_swiglu_limit", (2,), 2, 4, 3, k=2, activation_type="swiglu", swiglu_fusion=1,
                 activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.8)
    experts_case(w, "moe_swiglu_fp16", (3,), 2, 4, 2, dtype=F16, activation_type="swiglu", swiglu_fusion=1,
                 normalize_routing_weights=1)
    experts_case(w, "moe_equal_logits", (2,), 3, 4, 3, logits=np.array([[1.0, 1, 1], [2, 0, 2]]))
    experts_case(w, "moe_nan", (3,), 3, 4, 3, text=True, k=2, logits=np.array([[1.0, np.nan, 0], [2, 0, 1], [0, 1, 2]]),
                 spoil=True)
    experts_case(w, "moe_many_tokens", (9,), 2, 4, 3, k=2)
    experts_case(w, "moe_many_rows", (2,), 1, 3, 17, activation_type="swiglu", swiglu_fusion=1)
    experts_case(w, "moe_free", (1, 3), 2, 4, 3, activation_type="silu", free=True)
    experts_case(w, "moe_swiglu_halves", (2,), 3, 4, 3, text=True, k=2, activation_type="swiglu", swiglu_fusion=2)
    experts_case(w, "moe_swiglu_fc3", (2,), 2, 4, 3, text=True, activation_type="swiglu", fc3=True, swiglu_limit=0.9)
    experts_case(w, "moe_silu_fc3", (2,), 2, 4, 3, text=True, k=2, activation_type="silu", fc3=True, biased=False)
    experts_case(w, "moe_sparse_mixer", (3,), 4, 3, 2, text=True, k=2, use_sparse_mixer=1, fc3=True, activation_type="silu",
                 logits=np.array([[2.0, 1.99, 0, 1.97], [-1, -1.01, 3, -0.99], [0.5, 0.1, 0.05, 0]]))
    experts_case(w, "moe_bf16", (2,), 3, 4, 3, text=True, dtype=BF16, k=2, normalize_routing_weights=1)


def codes_of(a, bits):
    """The codes in the bytes of the last axis, the first in the low bits."""
    codes = np.stack([a >> (i * bits) & (1 << bits) - 1 for i in range(8 // bits)], -1)
    return codes.reshape(*a.shape[:-1], -1).astype(float)


def dequantized(codes, scales, zeros, bits, block):
    q, scales = codes_of(codes, bits), scales.astype(float)
    if not block:
        zero = (1 << bits - 1) if zeros is None else codes_of(zeros, bits)[:, :q.shape[1], None]
        return (q - zero) * scales[..., None]
    zero = (1 << bits - 1) if zeros is None else np.repeat(codes_of(zeros, bits)[..., :scales.shape[2]], block, 2)
    return (q - zero) * np.repeat(scales, block, 2)


def quantized_case(w, name, tokens, experts, hidden, inter, dtype=np.float32, bits=4, block=0, zeros=False, biased=False,
                   text=False, fc3=False, router=False, free=False, **attributes):
    w.begin(name)
    wide, layers, plain = 2 * inter if attributes.get("swiglu_fusion") else inter, [], []
    for layer, (rows, k) in enumerate(((wide, hidden), (hidden, inter), (inter, hidden))):
        own = attributes.get(f"fc{layer + 1}_expert_weight_bits", bits)
        per = 8 // own
        codes = w.bytes(experts, rows, k // per)
        scales = (abs(w.f(experts, rows, k // block) if block else w.f(experts, rows)) * 0.05).astype(dtype)
        zero = None
        if zeros:
            zero = w.bytes(experts, rows, -(-(k // block) // per)) if block else w.bytes(experts, -(-rows // per))
        layers.append((codes, scales, w.f(experts, rows).astype(dtype) if biased else None, zero))
        plain += [dequantized(codes, scales, zero, own, block), layers[-1][2]]
    if not fc3:
        layers[2], plain = (None,) * 4, plain[:4]
    x, rows = w.f(*tokens, hidden).astype(dtype), int(np.prod(tokens))
    logits = w.f(rows, experts).astype(dtype)
    weights = abs(w.f(rows, experts)).astype(dtype) if router else None
    ins = [x, logits] + [a for codes, scales, bias, _ in layers for a in (codes, scales, bias)]
    ins += [zero for *_, zero in layers] + [weights]
    while ins[-1] is None:
        ins.pop()
    attributes.update(expert_weight_bits=bits, **(dict(block_size=block) if block else {}))
    expected = experts_text(x, logits, *plain, router_weights=weights, **attributes) if text else 1
    w.case("QMoE", ins, attributes, expected, **(dict(rtol=5e-3, atol=2e-2) if dtype is F16 else {}), free=free)


def quantized_mixture(w):
    # whatever normalize_routing_weights says, ONNX Runtime's CPU provider normalizes them: so do these cases
    norm = dict(normalize_routing_weights=1)
    turn = dict(activation_type="swiglu", swiglu_fusion=1, **norm)
    quantized_case(w, "qmoe_rows", (2,), 2, 8, 8, activation_type="silu", k=2, biased=True, **norm)
    quantized_case(w, "qmoe_rows_zeros", (2,), 2, 8, 8, activation_type="silu", zeros=True, **norm)
    quantized_case(w, "qmoe_swiglu", (2, 1), 3, 8, 8, k=2, **turn)
    quantized_case(w, "qmoe_swiglu_limit", (2,), 2, 8, 8, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.7,
                   biased=True, **turn)
    quantized_case(w, "qmoe_blocks", (1,), 2, 32, 16, block=16, **turn)
    quantized_case(w, "qmoe_blocks_zeros_fp16", (1,), 2, 32, 16, block=16, zeros=True, dtype=F16, **turn)
    quantized_case(w, "qmoe_8_bits", (2,), 2, 8, 4, bits=8, k=2, zeros=True, **turn)
    quantized_case(w, "qmoe_2_bits", (2,), 3, 8, 8, bits=2, zeros=True, k=2, **turn)
    quantized_case(w, "qmoe_layers_of_other_bits", (2,), 2, 8, 8, bits=8, fc2_expert_weight_bits=4, text=True, k=2,
                   **turn)
    quantized_case(w, "qmoe_router_weights", (2,), 3, 8, 4, router=True, k=2, **turn)
    quantized_case(w, "qmoe_free_fp16", (2,), 2, 8, 8, dtype=F16, free=True, **turn)
    quantized_case(w, "qmoe_router_weights_as_they_are", (2,), 3, 8, 4, router=True, k=2, activation_type="swiglu",
                   swiglu_fusion=1)
    quantized_case(w, "qmoe_not_normalized", (2,), 3, 8, 4, text=True, k=2, activation_type="gelu")
    quantized_case(w, "qmoe_fc3", (2,), 2, 8, 4, text=True, k=2, activation_type="silu", fc3=True, zeros=True, biased=True)
    quantized_case(w, "qmoe_swiglu_halves", (2,), 2, 8, 4, text=True, activation_type="swiglu", swiglu_fusion=2)
    w.begin("qmoe_fp8")
    x, logits, globals_ = w.f(2, 4).astype(F16), w.f(2, 2).astype(F16), [abs(w.f(2)), abs(w.f(2))]
    codes = [w.f(2, 6, 4).astype(F8), w.f(2, 4, 3).astype(F8)]
    plain = [c.astype(np.float32) * g[:, None, None] for c, g in zip(codes, globals_)]
    attributes = dict(activation_type="swiglu", swiglu_fusion=1)
    w.case("QMoE", [x, logits, codes[0], None, None, codes[1]] + [None] * 9 + globals_, dict(quant_type="fp8", **attributes),
           experts_text(x, logits, plain[0], None, plain[1], None, **attributes), rtol=5e-3, atol=1e-2)
    for name, block, scale_type in (("fp4", 32, ml_dtypes.float8_e8m0fnu), ("nvfp4", 16, F8)):
        w.begin(f"qmoe_{name}")
        x, logits, ins, plain, globals_ = w.f(2, 32).astype(F16), w.f(2, 2).astype(F16), [], [], []
        for rows, k in ((2 * block, 32), (32, block)):
            # two rows a byte: what ONNX Runtime's tools write, though the text names the axes in another order
            codes, scales = w.bytes(2, k, rows // 2), (abs(w.f(2, rows, k // block)) * 0.1 + 0.01).astype(scale_type)
            globals_.append(abs(w.f(2)))
            values = np.stack([FP4[codes & 15], FP4[codes >> 4]], -1).reshape(2, k, rows).transpose(0, 2, 1)
            plain += [values * np.repeat(scales.astype(np.float32), block, 2) * globals_[-1][:, None, None], None]
            ins += [codes, scales, None]
        w.case("QMoE", [x, logits, *ins] + [None] * 7 + globals_, dict(quant_type=name, **attributes),
               experts_text(x, logits, *plain, **attributes), rtol=5e-3, atol=1e-2)
    w.begin("qmoe_fp8_squares")
    x, logits, block, plain, ins = w.f(2, 5).astype(F16), w.f(2, 2).astype(F16), 2, [], []
    for rows, k in ((3, 5), (5, 3), (3, 5)):
        codes, scales = w.f(2, rows, k).astype(F8), abs(w.f(2, -(-rows // block), -(-k // block)))
        plain += [codes.astype(np.float32) * np.repeat(np.repeat(scales, block, 1), block, 2)[:, :rows, :k], None]
        ins += [codes, scales, None]
    w.case("QMoE", [x, logits, *ins[:-1]], dict(quant_type="fp8", block_size=block, activation_type="silu", fc1_expert_weight_bits=8),
           experts_text(x, logits, *plain, activation_type="silu"), rtol=5e-3, atol=1e-2)


# ---- SparseAttention

def csr(masks):
    """Block masks [layouts, rows, columns] as row and column indices; layouts with fewer blocks are padded with -1."""
    columns = [[c for row in m for c in np.flatnonzero(row)] for m in masks]
    width = max(map(len, columns))
    rows = [np.concatenate([[0], np.cumsum(np.sum(m, 1))]) for m in masks]
    return (np.array(rows, np.int32), np.array([c + [-1] * (width - len(c)) for c in columns], np.int32))


LOCAL, VERTICAL = np.eye(2, dtype=int), np.array([[1, 0], [1, 1]])


def turned(x, cos, sin, interleaved=False, offset=0):
    """x [..., size] with its pairs turned by rows of cos and sin, which broadcast to it."""
    half, y = cos.shape[-1], x.astype(float).copy()
    first = slice(offset, offset + 2 * half, 2) if interleaved else slice(offset, offset + half)
    second = slice(offset + 1, offset + 2 * half, 2) if interleaved else slice(offset + half, offset + 2 * half)
    y[..., first] = cos * x[..., first] - sin * x[..., second]
    y[..., second] = sin * x[..., first] + cos * x[..., second]
    return y


def sparse_text(q, k, v, past, masks, lengths, heads, kv, block=16):
    batch, new, _ = q.shape
    size, caches, y = q.shape[2] // heads, [c.copy() for c in past], np.zeros(q.shape)
    for b, length in enumerate(lengths):
        for cache, x in zip(caches, (k, v)):
            cache[b, :, length - new:length] = x[b].reshape(new, kv, size).transpose(1, 0, 2)
        for i in range(new):
            position = length - new + i
            for h in range(heads):
                seen = [j for j in range(position + 1) if masks[h % len(masks)][position // block][j // block]]
                keys, values = (c[b, h * kv // heads, seen].astype(float) for c in caches)
                at = slice(h * size, (h + 1) * size)
                p = np.exp(keys @ q[b, i, at].astype(float) / np.sqrt(size))
                y[b, i, at] = p / p.sum() @ values
    return [y.astype(q.dtype), *caches]


def sparse_case(w, name, masks, lengths, new, room, heads=2, kv=1, size=8, dtype=np.float32, packed=False, rotary=False,
                free=False, text=False, **attributes):
    w.begin(name)
    batch = len(lengths)
    q, k, v = (w.f(batch, new, n * size).astype(dtype) for n in (heads, kv, kv))
    past = [w.f(batch, kv, room, size).astype(dtype) for _ in range(2)]
    rows, columns = csr(masks)
    angles = w.f(max(lengths), 8)
    caches = [f(angles).astype(dtype) for f in (np.cos, np.sin)] if rotary else [None, None]
    ins = [np.concatenate([q, k, v], 2) if packed else q, None if packed else k, None if packed else v, *past, rows, columns,
           np.array([max(lengths)], np.int32), np.array(lengths, np.int32), *caches]
    while ins[-1] is None:
        ins.pop()
    w.case("SparseAttention", ins, dict(num_heads=heads, kv_num_heads=kv, sparse_block_size=16, do_rotary=int(rotary),
                                        **attributes),
           sparse_text(q, k, v, past, masks, lengths, heads, kv) if text else 3, shared={1: 3, 2: 4}, free=free,
           **(dict(rtol=5e-3, atol=5e-3) if dtype is F16 else {}))


def sparse_attention(w):
    sparse_case(w, "sparse_attention_prompt", [LOCAL], [3], 3, 3)
    sparse_case(w, "sparse_attention_step", [LOCAL], [18], 1, 18)
    sparse_case(w, "sparse_attention_layouts", [LOCAL, VERTICAL], [18], 2, 18, heads=4, kv=2)
    sparse_case(w, "sparse_attention_packed", [LOCAL], [19], 3, 19, packed=True, scale=0.5)
    # ONNX Runtime finds the probabilities of a shorter sequence at the wrong place
    sparse_case(w, "sparse_attention_lengths", [LOCAL], [18, 4], 1, 18, dtype=F16, text=True)
    sparse_case(w, "sparse_attention_rotary", [LOCAL], [18], 2, 20, heads=1, size=16, dtype=F16, rotary=True)
    sparse_case(w, "sparse_attention_rotary_interleaved", [LOCAL], [17], 1, 17, heads=1, size=16, rotary=True,
                rotary_interleaved=1)
    sparse_case(w, "sparse_attention_free", [LOCAL], [17], 2, 18, dtype=F16, free=True)


# ---- PagedAttention

class Quantized:
    """How a cache keeps a head: `scale` is of all elements or [kv heads, 1, size], None without quantization."""

    def __init__(self, dtype, scale=None):
        self.dtype, self.scale = np.dtype(dtype), scale

    def of(self, x, head):
        if self.scale is None:
            return x.astype(np.float32).astype(self.dtype)
        code = x / self.factor(head)
        return np.clip(np.rint(code), -128, 127).astype(np.int8) if self.dtype == np.int8 else \
            np.clip(code, -448, 448).astype(np.float32).astype(F8)

    def factor(self, head):
        return self.scale.reshape(-1) if self.scale.size == 1 else self.scale[head, 0]

    def back(self, code, head):
        x = code.astype(np.float32).astype(float)
        return x if self.scale is None else x * self.factor(head)


def paged_text(q, k, v, caches, starts, past, table, how, heads, kv, cos=None, sin=None, slots=None, sink=None, q_norm=None,
               k_norm=None, v_size=None, do_rotary=0, rotary_interleaved=0, rotary_offset=0, is_causal=1,
               local_window_size=-1, scale=0.0, softcap=0.0, qk_norm_epsilon=1e-6, **_):
    caches = [c.copy() for c in caches]
    size, block = q.shape[1] // heads, caches[0].shape[1]
    y = np.zeros((len(q), heads, v_size or size))

    def ready(x, norm, position):
        x = x.astype(float)
        if norm is not None:
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + qk_norm_epsilon) * norm.astype(float)
        if do_rotary:
            x = turned(x, cos[position].astype(float), sin[position].astype(float), rotary_interleaved, rotary_offset)
        return x

    def place(b, position):
        return table[b][position // block], position % block

    sequence = [(b, int(past[b]) + t) for b in range(len(past)) for t in range(starts[b + 1] - starts[b])]
    for t, (b, position) in enumerate(sequence):
        at = place(b, position) if slots is None else (slots[t] // block, slots[t] % block)
        if slots is not None and slots[t] < 0:
            continue
        key = ready(k[t].reshape(kv, size), k_norm, position)
        for h in range(kv):
            caches[0][at][h] = how[0].of(key[h], h)
            if v is not None:
                caches[1][at][h] = how[1].of(v[t].reshape(kv, size)[h].astype(float), h)
    for t, (b, position) in enumerate(sequence):
        query = ready(q[t].reshape(heads, size), q_norm, position)
        end = position + 1 if is_causal else int(past[b] + starts[b + 1] - starts[b])
        seen = range(max(0, position - local_window_size + 1) if local_window_size > 0 else 0, end)
        for h in range(heads):
            g = h // (heads // kv)
            keys = np.array([how[0].back(caches[0][place(b, j)][g], g) for j in seen])
            values = keys if v is None else np.array([how[1].back(caches[1][place(b, j)][g], g) for j in seen])
            score = keys @ query[h] * (scale or 1 / np.sqrt(size))
            if softcap:
                score = softcap * np.tanh(score / softcap)
            p = np.exp(score - score.max())
            more = 0 if sink is None else np.exp(float(sink[h]) - score.max())
            y[t, h] = p / (p.sum() + more) @ values[:, :y.shape[2]]
    return [y.reshape(len(q), -1).astype(np.float32).astype(q.dtype), *caches]


def paged_case(w, name, new, past, heads=2, kv=1, size=4, dtype=F16, block=2, packed=False, rotary=0, slots=None, sink=False,
               norm=False, cache=None, each=False, latent=0, outs=3, free=False, **attributes):
    """new, past: tokens of each sequence; rotary: pairs that are turned; cache: type of a quantized cache."""
    w.begin(name)
    tokens, total = sum(new), [n + p for n, p in zip(new, past)]
    need = [-(-n // block) for n in total]
    order, table = list(w.r.permutation(sum(need) + 1)), np.full((len(new), max(need)), -1, np.int32)
    for b, n in enumerate(need):
        table[b, :n] = [order.pop() for _ in range(n)]
    q, k = w.f(tokens, heads * size).astype(dtype), w.f(tokens, kv * size).astype(dtype)
    v = None if latent else w.f(tokens, kv * size).astype(dtype)
    sides = 1 if latent else 2
    scales = [(abs(w.f(kv, 1, size) if each else w.f(1)) + 0.5) * (0.02 if cache is np.int8 else 0.1) if cache else None
              for _ in range(sides)]
    how = [Quantized(cache or dtype, s) for s in scales]
    caches = []
    for side in how:
        numbers = w.f(sum(need) + 1, block, kv, size)
        caches.append(np.stack([side.of(numbers[:, :, h], h) for h in range(kv)], 2))
    starts = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    angles = w.f(max(total), rotary) if rotary else None
    cos, sin = (f(angles).astype(dtype) if rotary else None for f in (np.cos, np.sin))
    slots = None if slots is None else np.array(slots, np.int32)
    sink = w.f(heads).astype(dtype) if sink else None
    norms = [w.f(size).astype(dtype) if norm else None for _ in range(2)]
    past = np.array(past, np.int32)
    if rotary:
        attributes["do_rotary"] = 1
    if cache:
        attributes["k_quant_type"] = "PER_CHANNEL" if each else "PER_TENSOR"
        if not latent:
            attributes["v_quant_type"] = attributes["k_quant_type"]
    expected = paged_text(q, k, v, caches, starts, past, table, how, heads, kv, cos, sin, slots, sink, *norms,
                          v_size=latent, **attributes)
    if latent:
        attributes.update(kv_cache_layout="LATENT", v_head_size=latent)
    ins = [np.concatenate([q, k, v], 1) if packed else q, None if packed else k, None if packed else v, caches[0],
           None if latent else caches[1], starts, past, table, cos, sin, slots, sink, *norms, *scales]
    while ins[-1] is None:
        ins.pop()
    w.case("PagedAttention", ins, dict(num_heads=heads, kv_num_heads=kv, **attributes), expected[:outs], free=free,
           **(dict(rtol=5e-3, atol=5e-3) if dtype is F16 else {}))


def paged_attention(w):
    paged_case(w, "paged_attention_prompt", [3], [0])
    paged_case(w, "paged_attention_several", [3, 0, 1], [0, 3, 4], heads=4, kv=2)
    paged_case(w, "paged_attention_bf16", [1, 2], [3, 0], dtype=BF16, softcap=2.0)
    paged_case(w, "paged_attention_packed", [2, 1], [1, 2], packed=True, scale=0.3)
    paged_case(w, "paged_attention_rotary", [2, 1], [1, 3], rotary=2)
    paged_case(w, "paged_attention_rotary_part", [2], [3], rotary=4, size=16, rotary_offset=8, rotary_interleaved=1)
    paged_case(w, "paged_attention_window", [3], [4], local_window_size=2)
    paged_case(w, "paged_attention_both_ways", [3], [2], is_causal=0, local_window_size=3)
    paged_case(w, "paged_attention_slots", [3, 1], [1, 2], slots=[0, -1, 3, 5])
    paged_case(w, "paged_attention_sink", [2], [2], sink=True, heads=4, kv=2)
    paged_case(w, "paged_attention_norm", [2], [1], norm=True, rotary=2, qk_norm_epsilon=0.1)
    paged_case(w, "paged_attention_int8", [2], [3], cache=np.int8)
    paged_case(w, "paged_attention_int8_channels", [2], [2], cache=np.int8, each=True, heads=4, kv=2, rotary=1)
    paged_case(w, "paged_attention_fp8", [1, 1], [2, 3], cache=F8, dtype=BF16)
    paged_case(w, "paged_attention_latent", [2, 1], [2, 0], size=8, latent=6, scale=0.4, heads=3, outs=2)
    paged_case(w, "paged_attention_no_caches", [2], [2], outs=1)
    paged_case(w, "paged_attention_free", [1, 2], [2, 1], free=True, rotary=2)


# ---- GatedAdd

def gated_add(w):
    for name, shape, dtype, free in (("gated_add", (2, 3, 4), np.float32, False), ("gated_add_fp16", (3, 8), F16, False),
                                     ("gated_add_free", (2, 5), np.float32, True), ("gated_add_free_fp16", (2, 2, 4), F16, True),
                                     ("gated_add_one_row", (1, 6), np.float32, False), ("gated_add_row_of_one", (5, 1), F16, True)):
        w.begin(name)
        w.case("GatedAdd", [w.f(*shape).astype(dtype), w.f(*shape).astype(dtype), w.f(*shape[:-1], 1).astype(dtype)], {}, 1,
               free=free)


# ---- MRotaryEmbedding

def rotary_case(w, name, shape, half, section, dtype=np.float32, rows=6, free=False, **attributes):
    w.begin(name)
    batch, length = shape[0], shape[-2]
    angles = w.f(rows, half)
    position = w.r.integers(0, rows, (3, batch, length)).astype(np.int64)
    w.case("MRotaryEmbedding", [w.f(*shape).astype(dtype), position, np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)],
           dict(mrope_section=section, **attributes), 1, free=free)


def mrotary(w):
    rotary_case(w, "mrotary_chunks", (2, 3, 16), 4, [1, 2, 1], num_heads=2)
    rotary_case(w, "mrotary_in_turn", (1, 2, 4, 12), 6, [2, 2, 2], mrope_layout=1)
    rotary_case(w, "mrotary_part", (2, 3, 24), 4, [2, 1, 1], num_heads=2, rotary_embedding_dim=8)
    rotary_case(w, "mrotary_interleaved", (1, 4, 16), 8, [4, 2, 2], mrope_layout=1, interleaved=1, num_heads=1)
    rotary_case(w, "mrotary_fp16", (1, 2, 3, 8), 4, [0, 3, 1], dtype=F16)
    rotary_case(w, "mrotary_free", (1, 3, 8), 4, [2, 2, 0], mrope_layout=1, num_heads=1, free=True)


ALL = (linear_attention, linear_attention_gate, gated_delta_net, gated_rms_norm, causal_conv, block_weights, mixture, quantized_mixture,
       sparse_attention, paged_attention, mrotary, gated_add)


# ---- files

def write_cases(folder):
    w = Writer(folder)
    for cases in ALL:
        cases(w)
    for cases in contrib_composed.ALL:
        cases(*([w, run_ort] if cases is contrib_composed.products else [w]))
    for cases in contrib_various.ALL:
        cases(w)
    w.lines.sort()
    with open(os.path.join(folder, "manifest.tsv"), "w", encoding="utf-8") as f:
        f.write("\n".join([HEAD, *w.lines]) + "\n")
    return w.lines


def is_own(member):
    return member.startswith("extra/" + PREFIX)


def carry(cases):
    """Puts the cases into the archive, whose other members stay as they are, and their lines into its manifest."""
    archive, manifest = os.path.join(cases, "small.tar.gz"), os.path.join(cases, "manifest.tsv")
    with tempfile.TemporaryDirectory() as scratch:
        lines = write_cases(scratch)
        members = {}
        with tarfile.open(archive) as old:
            for m in old:
                if not is_own(m.name):
                    members[m.name] = (m, old.extractfile(m).read() if m.isfile() else None)
        for root, _, files in os.walk(os.path.join(scratch, "extra")):
            at = os.path.relpath(root, scratch)
            if at != "extra":
                m = tarfile.TarInfo(at)
                m.type, m.mode = tarfile.DIRTYPE, 0o755
                members[at] = (m, None)
            for name in files:
                m = tarfile.TarInfo(os.path.join(at, name))
                with open(os.path.join(root, name), "rb") as f:
                    content = f.read()
                m.size = len(content)
                members[m.name] = (m, content)
    with open(archive + ".new", "wb") as f:
        import gzip

        with gzip.GzipFile(filename="", fileobj=f, mode="wb", compresslevel=9, mtime=0) as z:
            with tarfile.open(fileobj=z, mode="w", format=tarfile.GNU_FORMAT) as new:
                for name in sorted(members):
                    m, content = members[name]
                    m.mtime = m.uid = m.gid = 0
                    m.uname = m.gname = ""
                    new.addfile(m, io.BytesIO(content) if content is not None else None)
    os.replace(archive + ".new", archive)
    with open(manifest, encoding="utf-8") as f:
        others = [line for line in f.read().splitlines()[1:] if not line.startswith("extra\t" + PREFIX)]
    with open(manifest, "w", encoding="utf-8") as f:
        f.write("\n".join([HEAD, *sorted(others + lines)]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the cases go; with --carry the folder of small.tar.gz")
    parser.add_argument("--carry", action="store_true", help="replace the cases in FOLDER/small.tar.gz and FOLDER/manifest.tsv")
    args = parser.parse_args()
    if args.carry:
        carry(args.folder)
        return 0
    os.makedirs(args.folder, exist_ok=True)
    lines = write_cases(args.folder)
    print(f"{len(lines)} cases, the largest of {max(int(line.split(chr(9))[5]) for line in lines)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
