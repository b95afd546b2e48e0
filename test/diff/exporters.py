#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes random networks as different exporters would, and judges what `infer diff` says of each pair, with ONNX Runtime as the oracle.

    exporters.py INFER SEED PAIRS [FOLDER]

A network is a list of layers. Each export draws how it writes them: constants as initializers or nodes, Gemm or MatMul and Add,
BatchNormalization folded or not, Clip in its versions or Min and Max, Flatten, Reshape, Squeeze or a computed size, LayerNormalization and
Gelu whole or in parts, padding inside or as Pad, channels last between convolutions, Dropout and Identity left in, opsets 11 to 20, a
free or a fixed batch, other names and another order. Half of the pairs differ besides in one weight, one attribute or one edge of one layer.

If the outputs of both (ONNX Runtime without optimizations) are equal on random inputs, status 0 is right; if not, status 1, and the
layer that was changed must be among those that are named. Prints a line for each pair that is judged wrongly, with the styles, and counts.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper as nh

F = np.float32


class Export:
    """One way to write a network. `style` keeps what was drawn, for the report."""

    def __init__(self, rng, prefix, avoid=()):
        self.rng, self.prefix, self.nodes, self.inits, self.count, self.style = rng, prefix, [], [], 0, []
        self.layer = ""
        self.avoid = set(avoid)
        self.opset = rng.choice([11, 13, 17, 18, 20])
        self.constants = rng.choice(["init", "node", "mixed"])
        self.free = rng.random() < 0.5
        self.last = rng.random() < 0.25  # channels last between convolutions
        self.style += [f"opset {self.opset}", self.constants, "free" if self.free else "fixed", "nhwc" if self.last else "nchw"]

    def pick(self, what, *ways):
        ways = [w for w in ways if f"{what}={w}" not in self.avoid] or list(ways)
        way = self.rng.choice(ways)
        if f"{what}={way}" not in self.style:
            self.style.append(f"{what}={way}")
        return way

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def const(self, value):
        value, name = np.asarray(value), self.name()
        if self.constants == "init" or (self.constants == "mixed" and self.rng.random() < 0.5):
            self.inits.append(nh.from_array(value, name))
        else:
            self.nodes.append(h.make_node("Constant", [], [name], name=f"{self.layer}/c{name}", value=nh.from_array(value)))
        return name

    def node(self, op, ins, domain="", **attrs):
        out = self.name()
        self.nodes.append(h.make_node(op, ins, [out], name=f"{self.layer}/{op}{out}", domain=domain, **attrs))
        if self.rng.random() < 0.05:
            x, out = out, self.name()
            extra = self.rng.choice(["Identity", "Dropout"]) if op in ("Conv", "Add", "Mul", "MatMul", "Gemm", "Relu", "Clip") else "Identity"
            self.nodes.append(h.make_node(extra, [x], [out], name=f"{self.layer}/{extra}{out}"))
        return out

    # ---- versions

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def squeeze(self, x, *axes, op="Squeeze"):
        return self.node(op, [x], axes=list(axes)) if self.opset < 13 else self.node(op, [x, self.ints(*axes)])

    def reduce(self, op, x, axes, keep):
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self.node(op, [x], axes=list(axes), keepdims=keep)
        return self.node(op, [x, self.ints(*axes)], keepdims=keep)

    def add(self, x, y, op="Add"):
        return self.node(op, [x, y] if self.rng.random() < 0.5 else [y, x])

    def mul(self, x, y):
        return self.add(x, y, "Mul")

    def reshape(self, x, rank, shape):
        """Reshapes x [batch, ...] of this rank to [batch, *shape]."""
        way = self.pick("reshape", "zero", "minus", "sizes", "sizes32") if self.free else self.pick("reshape", "zero", "fixed", "minus", "sizes")
        if way == "zero":
            return self.node("Reshape", [x, self.ints(0, *shape)])
        if way == "minus":
            return self.node("Reshape", [x, self.ints(-1, *shape)])
        if way == "fixed":
            return self.node("Reshape", [x, self.ints(1, *shape)])
        size = self.node("Shape", [x])
        if way == "sizes32":
            size = self.node("Cast", [size], to=T.INT32)
        batch = self.node("Gather", [size, self.const(np.int64(0))], axis=0) if self.rng.random() < 0.5 else None
        if batch:
            batch = self.squeeze(batch, 0, op="Unsqueeze")
        else:
            batch = self.node("Slice", [size, self.ints(0), self.ints(1), self.ints(0)])
        if way == "sizes32":
            batch = self.node("Cast", [batch], to=T.INT64)
        return self.node("Reshape", [x, self.node("Concat", [batch, *[self.ints(s) for s in shape]], axis=0)])

    # ---- layers; each takes and gives a value, whose shape is known to the network

    def image_op(self, x, make):
        """Does what `make` does, which takes channels first, perhaps between two transposes."""
        if not self.last:
            return make(x)
        return self.node("Transpose", [make(self.node("Transpose", [x], perm=[0, 3, 1, 2]))], perm=[0, 2, 3, 1])

    def conv(self, x, p):
        w, b, pads, attrs = p["w"], p["b"], p["pads"], {"strides": [p["stride"]] * 2, "group": p["group"]}
        if p["dilation"] != 1 or self.rng.random() < 0.5:
            attrs["dilations"] = [p["dilation"]] * 2
        if self.rng.random() < 0.7:
            attrs["kernel_shape"] = list(w.shape[2:])
        bn = p.get("bn")
        if bn and self.pick("bn", "folded", "node", "parts") == "folded":
            s = bn["scale"] / np.sqrt(bn["var"] + F(bn["eps"]))
            w, b, bn = (w * s[:, None, None, None]).astype(F), ((0 if b is None else b) - bn["mean"]) * s + bn["bias"], None
            b = b.astype(F)
        if b is None and self.rng.random() < 0.2:
            b = np.zeros(w.shape[0], F)
        way = self.pick("pads", "inside", "node", "auto") if pads else "inside"
        if way == "auto" and not (p["stride"] == 1 and pads == p["dilation"] * (w.shape[2] - 1) // 2):
            way = "inside"
        bias = self.pick("bias", "inside", "add") if b is not None else "inside"

        def make(x):
            if way == "node":
                x = self.node("Pad", [x, self.ints(0, 0, pads, pads, 0, 0, pads, pads)])
            elif way == "auto":
                attrs["auto_pad"] = "SAME_UPPER"
            elif pads or self.rng.random() < 0.5:
                attrs["pads"] = [pads] * 4
            ins = [x, self.const(w)]
            if b is not None and bias == "inside":
                ins.append(self.const(b))
            y = self.node("Conv", ins, **attrs)
            if b is not None and bias == "add":
                y = self.add(y, self.const(b.reshape(1, -1, 1, 1) if self.rng.random() < 0.5 else b.reshape(-1, 1, 1)))
            return self.batch_norm(y, bn) if bn else y

        return self.image_op(x, make)

    def batch_norm(self, x, bn):
        if "bn=parts" in self.style and self.rng.random() < 0.5:
            s = (bn["scale"] / np.sqrt(bn["var"] + F(bn["eps"]))).astype(F)
            t = (bn["bias"] - bn["mean"] * s).astype(F)
            return self.add(self.mul(x, self.const(s.reshape(-1, 1, 1))), self.const(t.reshape(1, -1, 1, 1)))
        return self.node("BatchNormalization", [x, *[self.const(bn[k]) for k in ("scale", "bias", "mean", "var")]], epsilon=bn["eps"])

    def pool(self, x, p):
        attrs = {"kernel_shape": [p["size"]] * 2, "strides": [p["stride"]] * 2}
        if p["pads"]:
            attrs["pads"] = [p["pads"]] * 4
        if p["kind"] == "AveragePool":
            attrs["count_include_pad"] = p["include"]
        return self.image_op(x, lambda x: self.node(p["kind"], [x], **attrs))

    def act(self, x, p):
        kind, a = p["kind"], p.get("a")
        s = lambda v: self.const(F(v))
        if kind == "relu":
            way = self.pick("relu", "Relu", "Clip", "Max")
            return self.node("Relu", [x]) if way == "Relu" else self.node("Clip", [x, s(0)]) if way == "Clip" else self.node("Max", [x, s(0)])
        if kind == "clip":
            way = self.pick("clip", "Clip", "MinMax", "ReluMin") if p["low"] == 0 else self.pick("clip", "Clip", "MinMax")
            if way == "Clip":
                return self.node("Clip", [x, s(p["low"]), s(p["high"])])
            if way == "MinMax":
                return self.node("Min", [self.node("Max", [x, s(p["low"])]), s(p["high"])])
            return self.node("Min", [self.node("Relu", [x]), s(p["high"])])
        if kind == "leaky":
            return self.node("LeakyRelu", [x], alpha=a)
        if kind == "silu":
            return self.mul(x, self.node("Sigmoid", [x]))
        if kind == "hardswish":
            way = self.pick("hardswish", "HardSigmoid", "Clip", "HardSwish") if self.opset >= 14 else self.pick("hardswish", "HardSigmoid", "Clip")
            if way == "HardSwish":
                return self.node("HardSwish", [x])
            if way == "HardSigmoid":
                return self.mul(x, self.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5))
            c = self.node("Clip", [self.add(x, s(3)), s(0), s(6)])
            if self.rng.random() < 0.5:
                return self.node("Div", [self.mul(x, c), s(6)])
            return self.mul(x, self.node("Div", [c, s(6)]))
        if kind == "gelu":
            way = self.pick("gelu", "half first", "half last", "Gelu") if self.opset >= 20 else self.pick("gelu", "half first", "half last")
            if way == "Gelu":
                return self.node("Gelu", [x])
            root = self.node("Div", [x, s(np.sqrt(2))]) if self.rng.random() < 0.5 else self.mul(x, s(1 / np.sqrt(2)))
            e = self.add(self.node("Erf", [root]), s(1))
            return self.mul(self.mul(x, e), s(0.5)) if way == "half last" else self.mul(self.mul(x, s(0.5)), e)
        return self.node({"tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "elu": "Elu"}[kind], [x])

    def linear(self, x, p):
        w, b = p["w"], p["b"]  # y = x w + b
        way = self.pick("linear", "Gemm", "GemmT", "MatMul", "TransposeMatMul") if p["rank"] == 2 else self.pick("linear3", "MatMul", "TransposeMatMul")
        if way in ("Gemm", "GemmT") and b is not None:
            split = self.rng.random() < 0.2
            ins = [x, self.const(w if way == "Gemm" else np.ascontiguousarray(w.T))] + ([] if split else [self.const(b)])
            y = self.node("Gemm", ins, **({"transB": 1} if way == "GemmT" else {}))
            return self.add(y, self.const(b)) if split else y
        if way in ("Gemm", "GemmT"):
            return self.node("Gemm", [x, self.const(w if way == "Gemm" else np.ascontiguousarray(w.T))], **({"transB": 1} if way == "GemmT" else {}))
        right = self.const(w) if way == "MatMul" else self.node("Transpose", [self.const(np.ascontiguousarray(w.T))], perm=[1, 0])
        y = self.node("MatMul", [x, right])
        return y if b is None else self.add(y, self.const(b if self.rng.random() < 0.7 else b.reshape(1, -1)))

    def global_pool(self, x, p):
        """[n,c,h,w] to [n,c]"""
        axes = [1, 2] if self.last else [2, 3]
        way = self.pick("gap", "mean", "mean kept", "pool flatten", "pool squeeze", "pool reshape", "negative axes")
        if way == "mean":
            return self.reduce("ReduceMean", x, axes, 0)
        if way == "negative axes":
            return self.reduce("ReduceMean", x, [a - 4 for a in axes], 0)
        if way == "mean kept":
            return self.squeeze(self.reduce("ReduceMean", x, axes, 1), *axes)
        if self.last:
            x = self.node("Transpose", [x], perm=[0, 3, 1, 2])
        y = self.node("GlobalAveragePool", [x])
        if way == "pool flatten":
            return self.node("Flatten", [y], **({"axis": 1} if self.rng.random() < 0.5 else {}))
        if way == "pool squeeze":
            return self.squeeze(y, *([2, 3] if self.rng.random() < 0.5 else [-1, -2]))
        return self.reshape(y, 4, [p["c"]])

    def flatten(self, x, p):
        if self.last:
            x = self.node("Transpose", [x], perm=[0, 3, 1, 2])
        if self.pick("flatten", "Flatten", "Reshape") == "Flatten":
            return self.node("Flatten", [x], axis=1)
        return self.reshape(x, 4, [p["c"] * p["h"] * p["w"]])

    def to_rows(self, x, p):
        """[n,c,h,w] to [n,h*w,c]"""
        if self.last:
            return self.reshape(x, 4, [p["h"] * p["w"], p["c"]])
        if self.pick("rows", "reshape first", "transpose first") == "reshape first":
            return self.node("Transpose", [self.reshape(x, 4, [p["c"], p["h"] * p["w"]])], perm=[0, 2, 1])
        return self.reshape(self.node("Transpose", [x], perm=[0, 2, 3, 1]), 4, [p["h"] * p["w"], p["c"]])

    def layer_norm(self, x, p):
        way = self.pick("ln", "parts", "mul", "LayerNormalization") if self.opset >= 17 else self.pick("ln", "parts", "mul")
        if way == "LayerNormalization":
            return self.node("LayerNormalization", [x, self.const(p["scale"]), self.const(p["bias"])], epsilon=p["eps"], **({"axis": 2} if self.rng.random() < 0.5 else {}))
        d = self.node("Sub", [x, self.reduce("ReduceMean", x, [-1], 1)])
        square = self.node("Mul", [d, d]) if way == "mul" else self.node("Pow", [d, self.const(F(2))])
        root = self.node("Sqrt", [self.add(self.reduce("ReduceMean", square, [2] if self.rng.random() < 0.5 else [-1], 1), self.const(F(p["eps"])))])
        return self.add(self.mul(self.node("Div", [d, root]), self.const(p["scale"])), self.const(p["bias"]))

    def attention(self, x, p):
        heads, t, c = p["heads"], p["t"], p["c"]
        k = c // heads

        def part(i):
            y = self.linear(x, {"w": p["w"][i], "b": p["b"][i], "rank": 3})
            return self.node("Transpose", [self.reshape(y, 3, [t, heads, k])], perm=[0, 2, 1, 3])

        if self.pick("qkv", "apart", "joined") == "apart":
            q, key, v = part(0), part(1), part(2)
        else:
            y = self.linear(x, {"w": np.concatenate(p["w"], 1), "b": np.concatenate(p["b"]), "rank": 3})
            if self.opset < 13:
                names = [self.name() for _ in range(3)]
                self.nodes.append(h.make_node("Split", [y], names, name=f"{self.layer}/Split", axis=-1, split=[c, c, c]))
            else:
                names = [self.name() for _ in range(3)]
                self.nodes.append(h.make_node("Split", [y, self.ints(c, c, c)], names, name=f"{self.layer}/Split", axis=2))
            q, key, v = [self.node("Transpose", [self.reshape(s, 3, [t, heads, k])], perm=[0, 2, 1, 3]) for s in names]
        way = self.pick("scale", "div", "mul", "query")
        if way == "query":
            q = self.mul(q, self.const(F(k ** -0.5)))
        scores = self.node("MatMul", [q, self.node("Transpose", [key], perm=[0, 1, 3, 2])])
        if way == "div":
            scores = self.node("Div", [scores, self.const(F(k ** 0.5))])
        elif way == "mul":
            scores = self.mul(scores, self.const(F(k ** -0.5)))
        weights = self.node("Softmax", [scores], axis=self.rng.choice([-1, 3]))
        y = self.node("Transpose", [self.node("MatMul", [weights, v])], perm=[0, 2, 1, 3])
        return self.linear(self.reshape(y, 4, [t, c]), {"w": p["out"], "b": p["out_b"], "rank": 3})

    def squeeze_excite(self, x, p):
        axes = [1, 2] if self.last else [2, 3]
        y = self.reduce("ReduceMean", x, axes, 1) if self.last or self.pick("se", "mean", "pool") == "mean" else self.node("GlobalAveragePool", [x])
        y = self.conv(y, p["down"])
        y = self.act(y, {"kind": "relu"})
        return self.mul(x, self.node("Sigmoid", [self.conv(y, p["up"])]))


def randn(rng, *shape):
    return (rng.standard_normal(shape) * 0.5).astype(F)


def conv_params(rnd, np_rng, c, out=None, size=None, bn=None):
    size = size or rnd.choice([1, 3])
    out = out or rnd.choice([4, 6, 8])
    group = rnd.choice([1, 1, 2]) if out % 2 == 0 and c % 2 == 0 else 1
    p = {"w": randn(np_rng, out, c // group, size, size), "b": randn(np_rng, out) if rnd.random() < 0.6 else None,
         "pads": size // 2 if rnd.random() < 0.7 else 0, "stride": 1, "group": group, "dilation": 1}
    if bn if bn is not None else rnd.random() < 0.5:
        p["bn"] = {"scale": 1 + randn(np_rng, out) * F(.2), "bias": randn(np_rng, out), "mean": randn(np_rng, out),
                   "var": np.abs(randn(np_rng, out)) + F(.5), "eps": rnd.choice([1e-5, 1e-3])}
    return p


ACTS = [{"kind": "relu"}, {"kind": "clip", "low": 0.0, "high": 6.0}, {"kind": "clip", "low": -1.0, "high": 1.0}, {"kind": "leaky", "a": 0.1}, {"kind": "silu"},
        {"kind": "hardswish"}, {"kind": "gelu"}, {"kind": "tanh"}, {"kind": "softplus"}, {"kind": "elu"}]


def network(rnd):
    """A list of layers (kind, parameters, number of the layer whose result it reads, or -1 for the input); the shapes of results."""
    np_rng = np.random.default_rng(rnd.randrange(1 << 30))
    c, hh = 4, 8
    layers, shapes = [], []
    for _ in range(rnd.randrange(2, 6)):
        kind = rnd.choice(["conv", "conv", "act", "act", "pool", "residual", "se"])
        at = len(layers) - 1
        if kind == "conv":
            p = conv_params(rnd, np_rng, c)
            grown = hh + 2 * p["pads"] - p["w"].shape[2] + 1
            if grown < 3:
                continue
            c, hh = p["w"].shape[0], grown
        elif kind == "act":
            p = copy.deepcopy(rnd.choice(ACTS))
        elif kind == "pool":
            if hh < 4:
                continue
            p = {"kind": rnd.choice(["MaxPool", "AveragePool"]), "size": 2, "stride": rnd.choice([1, 2]), "pads": rnd.choice([0, 1]), "include": rnd.choice([0, 1])}
            hh = (hh + 2 * p["pads"] - 2) // p["stride"] + 1
        elif kind == "residual":
            others = [i for i in range(len(layers) - 1) if shapes[i] == (c, hh)]
            if not others:
                continue
            p = {"with": rnd.choice(others)}
        else:
            p = {"down": conv_params(rnd, np_rng, c, 2, 1, False), "up": conv_params(rnd, np_rng, 2, c, 1, False)}
        layers.append([kind, p, at])
        shapes.append((c, hh))
    at, end = len(layers) - 1, rnd.choice(["gap", "flatten", "rows"])
    if end == "rows":
        layers.append(["to_rows", {"c": c, "h": hh, "w": hh}, at])
        for kind in rnd.sample(["layer_norm", "linear3", "attention", "act3"], rnd.randrange(1, 4)):
            at = len(layers) - 1
            if kind == "layer_norm":
                p = {"scale": 1 + randn(np_rng, c), "bias": randn(np_rng, c), "eps": rnd.choice([1e-5, 1e-3])}
            elif kind == "attention":
                p = {"heads": 2, "t": hh * hh, "c": c, "w": [randn(np_rng, c, c) for _ in range(3)], "b": [randn(np_rng, c) for _ in range(3)],
                     "out": randn(np_rng, c, c), "out_b": randn(np_rng, c)}
            elif kind == "act3":
                p = copy.deepcopy(rnd.choice(ACTS))
            else:
                p = {"w": randn(np_rng, c, c), "b": randn(np_rng, c) if rnd.random() < 0.7 else None, "rank": 3}
            layers.append([{"linear3": "linear", "act3": "act"}.get(kind, kind), p, at])
    else:
        layers.append([{"gap": "global_pool", "flatten": "flatten"}[end], {"c": c, "h": hh, "w": hh}, at])
        n = c if end == "gap" else c * hh * hh
        for _ in range(rnd.randrange(1, 3)):
            m = rnd.choice([5, 8])
            layers.append(["linear", {"w": randn(np_rng, n, m), "b": randn(np_rng, m) if rnd.random() < 0.7 else None, "rank": 2}, len(layers) - 1])
            n = m
            if rnd.random() < 0.6:
                layers.append(["act", copy.deepcopy(rnd.choice(ACTS)), len(layers) - 1])
    return layers


def export(layers, rng, prefix, avoid=()):
    e = Export(rng, prefix, avoid)
    e.layer = "in"
    x = "x"
    if e.last:
        x = e.node("Transpose", ["x"], perm=[0, 2, 3, 1])
    made, start = [], x
    for i, (kind, p, at) in enumerate(layers):
        e.layer = f"L{i}"
        source = start if at < 0 else made[at]
        if kind == "residual":
            made.append(e.add(source, made[p["with"]]))
        elif kind == "se":
            made.append(e.squeeze_excite(source, p))
        else:
            made.append(getattr(e, kind)(source, p))
    out = h.make_node("Identity", [made[-1]], ["y"], name="out")
    if e.rng.random() < 0.5:
        e.nodes.append(out)
    else:
        for n in e.nodes:
            n.input[:] = ["y" if s == made[-1] else s for s in n.input]
            n.output[:] = ["y" if s == made[-1] else s for s in n.output]
    nodes, known, left = [], {"x", *[t.name for t in e.inits]}, list(e.nodes)
    while left:  # another order that is possible
        ready = [n for n in left if all(s in known or not s for s in n.input)]
        n = e.rng.choice(ready) if e.rng.random() < 0.3 else ready[0]
        left.remove(n)
        nodes.append(n)
        known.update(n.output)
    batch = "N" if e.free else 1
    graph = h.make_graph(nodes, prefix, [h.make_tensor_value_info("x", T.FLOAT, [batch, 4, 8, 8])], [h.make_tensor_value_info("y", T.FLOAT, None)], e.inits)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", e.opset)], ir_version=8, producer_name=prefix), e


def mutate(layers, rnd):
    """Changes one weight, attribute or edge. Returns the changed network, the number of the layer, and what it was."""
    for _ in range(100):
        new = copy.deepcopy(layers)
        i = rnd.randrange(len(new))
        kind, p, at = new[i]
        flat = [(p, k) for k, v in p.items() if isinstance(v, np.ndarray)]
        for k, v in p.items():
            if isinstance(v, dict):
                flat += [(v, n) for n, a in v.items() if isinstance(a, np.ndarray)]
            if isinstance(v, list):
                flat += [(v, n) for n in range(len(v))]
        way = rnd.choice(["weight", "attribute", "edge"])
        if way == "weight" and flat:
            of, k = rnd.choice(flat)
            of[k] = of[k].copy()
            of[k].flat[rnd.randrange(of[k].size)] += F(rnd.choice([0.25, -0.5]))
            return new, i, f"weight {k}"
        if way == "attribute":
            if kind == "act":
                fields = [f for f in ("low", "high", "a") if f in p]
                if fields:
                    f = rnd.choice(fields)
                    p[f] += 0.5 if f != "low" or p[f] < 0 else -0.5
                else:
                    p["kind"] = rnd.choice([k for k in ("relu", "silu", "tanh", "gelu", "hardswish", "elu") if k != p["kind"]])
                return new, i, "activation"
            if kind == "layer_norm":
                p["eps"] = 0.05
                return new, i, "epsilon"
            if kind == "conv" and "bn" in p:
                p["bn"]["eps"] = 0.05
                return new, i, "epsilon of bn"
            if kind == "pool":
                if p["kind"] == "AveragePool" and p["pads"]:
                    p["include"] = 1 - p["include"]
                    return new, i, "count_include_pad"
                p["kind"] = "MaxPool" if p["kind"] == "AveragePool" else "AveragePool"
                return new, i, "kind of pool"
            if kind == "attention":
                p["heads"] = 1 if p["heads"] == 2 else 2
                return new, i, "heads"
        if way == "edge" and kind == "residual" and p["with"] > 0 and new[p["with"]][0] == "act":
            p["with"] -= 1
            return new, i, "edge"
        if way == "edge" and kind == "act" and at >= 0 and new[at][0] != "act" and i + 1 < len(new) and new[i + 1][0] != "act":
            for l in new[i + 1:]:  # leave the layer out
                if l[2] == i:
                    l[2] = at
                if l[0] == "residual" and l[1]["with"] == i:
                    l[1]["with"] = at
            return new, i, "left out"
    return None, 0, ""


def spoil(model, rnd):
    """Changes one thing in the nodes of an export, whatever it means: an attribute, an element, an edge. Returns what and the node's name."""
    node = rnd.choice([n for n in model.graph.node if n.op_type not in ("Identity", "Dropout")])
    way = rnd.choice(["attribute", "attribute", "constant", "constant", "swap", "rewire", "leave out"])
    made = ["x", *[o for n in model.graph.node for o in n.output if o != "y"]]
    if way == "attribute":
        lists = [a for a in node.attribute if a.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT)]
        if not lists:
            return None, ""
        a = rnd.choice(lists)
        if a.name == "perm":
            a.ints[:] = rnd.sample(list(a.ints), len(a.ints))
        elif a.type == onnx.AttributeProto.INTS and a.ints:
            a.ints[rnd.randrange(len(a.ints))] += rnd.choice([-1, 1])
        elif a.type == onnx.AttributeProto.INT:
            a.i += rnd.choice([-1, 1])
        else:
            a.f = a.f * rnd.choice([0.5, 2]) + 0.1
        return f"{a.name} of {node.op_type}", node.name
    if way == "constant":
        places = [(i, None) for i in range(len(model.graph.initializer))]
        places += [(None, n) for n in model.graph.node if n.op_type == "Constant"]
        i, n = rnd.choice(places) if places else (None, None)
        tensor = model.graph.initializer[i] if i is not None else n.attribute[0].t if n is not None else None
        if tensor is None:
            return None, ""
        value = nh.to_array(tensor).copy()
        if not value.size:
            return None, ""
        value.flat[rnd.randrange(value.size)] += 1 if value.dtype == np.int64 else F(rnd.choice([0.5, -0.5]))
        name = tensor.name if i is not None else n.output[0]
        users = [u.name for u in model.graph.node if name in u.input]
        tensor.CopyFrom(nh.from_array(value, tensor.name))
        return "an element of a constant", users[0] if users else ""
    slots = [k for k, s in enumerate(node.input) if s]
    if not slots:
        return None, ""
    if way == "swap" and len(slots) > 1:
        i, k = rnd.sample(slots, 2)
        node.input[i], node.input[k] = node.input[k], node.input[i]
        return f"operands {i} and {k} of {node.op_type}", node.name
    if way == "rewire":
        i = rnd.choice(slots)
        node.input[i] = rnd.choice(made)
        return f"operand {i} of {node.op_type}", node.name
    if way == "leave out" and node.output[0] != "y":
        for n in model.graph.node:
            n.input[:] = [node.input[0] if s == node.output[0] else s for s in n.input]
        return f"{node.op_type} left out", node.name
    return None, ""


def spoil_pair(infer, folder, seed):
    """As judge, of an export and another one in which anything was changed: if the outputs differ, so must the models."""
    rnd = random.Random(seed)
    layers = network(rnd)
    a, b = (export(layers, random.Random(rnd.randrange(1 << 30)), p)[0] for p in ("a", "b_"))
    np_rng = np.random.default_rng(seed)
    feeds = [(np_rng.standard_normal((1, 4, 8, 8)) * s).astype(F) for s in (1, 1, 4)]
    outs = run(a, feeds)
    for _ in range(30):
        bad = copy.deepcopy(b)
        what, name = spoil(bad, rnd)
        if not what:
            continue
        try:
            others = run(bad, feeds)
        except Exception:  # no model any more
            continue
        differ = not same(outs, others)
        paths = [f"{folder}/{seed}{k}.onnx" for k in "ab"]
        onnx.save(a, paths[0])
        onnx.save(bad, paths[1])
        r = subprocess.run([infer, "diff", *paths, "--ignore", "opsets,metadata,interface", "--json"], capture_output=True, text=True)
        wrong = None
        if r.returncode not in (0, 1):
            wrong = f"status {r.returncode}: {r.stderr[:300]}"
        elif differ and r.returncode == 0:
            wrong = "FALSE SAME"
        # another edge leaves nodes out, which are told instead; a Transpose is told where it meets the next
        elif differ and not any(w in what for w in ("left out", "operand 0", "perm")) and name.split("/")[0] + "/" not in r.stdout:
            wrong = f"another node is named: {json.dumps(json.loads(r.stdout).get('differences', []))[:500]}"
        if not wrong:
            for p in paths:
                os.remove(p)
        return wrong and f"{wrong}\n  seed {seed}, {what}, node {name}", not differ, True
    return None, True, False


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(["y"], {"x": f})[0] for f in feeds]


def same(a, b, times=1):
    """An export that is not changed computes the same by construction: more rounding is allowed there, as a Softmax may magnify it."""
    return all(p.shape == q.shape and np.allclose(p, q, times * 1e-3, times * 1e-4 * max(1, np.abs(p).max()), equal_nan=True) for p, q in zip(a, b))


def judge(infer, folder, seed, avoid=()):
    """Returns a text that says what is wrong, or None, and the kind of the pair."""
    rnd = random.Random(seed)
    layers = network(rnd)
    changed, where, what = mutate(layers, rnd) if rnd.random() < 0.5 else (None, 0, "")
    other = changed or layers
    models = []
    for prefix, net in (("a", layers), ("b_", other)):
        # layers that a mutation leaves out stay in the list; nothing reads them
        models.append(export(net, random.Random(rnd.randrange(1 << 30)), prefix, avoid))
    np_rng = np.random.default_rng(seed)
    feeds = [(np_rng.standard_normal((1, 4, 8, 8)) * s).astype(F) for s in (1, 1, 4)]
    outs = [run(m, feeds) for m, _ in models]
    want = 0 if same(*outs, 1 if changed else 10) else 1
    paths = []
    for k, (m, _) in enumerate(models):
        paths.append(f"{folder}/{seed}{'ab'[k]}.onnx")
        onnx.save(m, paths[-1])
    r = subprocess.run([infer, "diff", *paths, "--ignore", "opsets,metadata,interface", "--json"], capture_output=True, text=True)
    styles = [sorted(set(e.style)) for _, e in models]
    kinds = [l[0] + (":" + l[1]["kind"] if l[0] in ("act", "pool") else "") for l in layers]
    about = f"seed {seed}, {what or 'no change'} at L{where} of {kinds}\n  only A: {sorted(set(styles[0]) - set(styles[1]))}\n  only B: {sorted(set(styles[1]) - set(styles[0]))}"
    wrong = None
    if r.returncode not in (0, 1):
        wrong = f"status {r.returncode}: {r.stderr[:300]}"
    elif r.returncode != want and not (changed and not want):  # of a change that no input shows, both is right
        items = json.loads(r.stdout)
        told = [f"{i.get('what')} {i.get('where', i.get('a'))}" for i in items.get("differences", items.get("items", []))][:6]
        wrong = ("FALSE SAME" if want else "false difference") + f": {len(told)} told: {told}"
    elif want and changed:
        text = r.stdout
        # bounds of activations that follow one another are one node in the normal form, which has the name of one of them
        near = [i for i in (where - 1, where, where + 1) if 0 <= i < len(layers) and (i == where or layers[i][0] == layers[where][0] == "act")]
        if not any(f"L{i}/" in text for i in near):
            items = json.loads(text)
            told = items.get("differences", [])
            wrong = f"another node is named: {json.dumps(told)[:600]}"
    if not wrong:
        for p in paths:
            os.remove(p)
    return wrong and f"{wrong}\n  {about}", want, bool(changed)


def main():
    infer, seed, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    folder = sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    counts = {"FALSE SAME": 0, "false difference": 0, "another node": 0, "status": 0}
    equal = 0
    for i in range(pairs):
        if i % 3 == 2:
            wrong, alike, _ = spoil_pair(infer, folder, seed + i)
            equal += alike
        else:
            wrong, want, _ = judge(infer, folder, seed + i)
            equal += not want
        if wrong:
            print(wrong, flush=True)
            for k in counts:
                counts[k] += wrong.startswith(k)
    print(f"{pairs} pairs, {equal} of them equal in ONNX Runtime: " + ", ".join(f"{n} {k}" for k, n in counts.items()))
    return any(counts.values())


if __name__ == "__main__":
    sys.exit(main())
