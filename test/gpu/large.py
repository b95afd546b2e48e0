#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of tensors large and odd enough for every way that kernels divide their work.

usage: large.py FOLDER

Writes FOLDER/large/CASE/{model.onnx,test_data_set_0/input_K.pb} and FOLDER/manifest.tsv, for
`conformance/run FOLDER -d cuda -c`: what the outputs should be the CPU says. Values repeat with a prime
period, so that the folder packs small.
"""

import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper as h
from onnx import numpy_helper as nh

PERIOD = 1009
BASE = np.random.default_rng(11).uniform(0, 1, PERIOD)
NP = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i8": np.int8, "u8": np.uint8,
      "i32": np.int32, "i64": np.int64, "bool": np.bool_}
ELEM = {k: h.np_dtype_to_tensor_dtype(np.dtype(v)) for k, v in NP.items()}
FLOATS = ["f32", "f16", "bf16"]
NUMBERS = FLOATS + ["i8", "u8", "i32", "i64"]


def values(t, shape, low=-3.0, high=3.0):
    n = int(np.prod(shape))
    base = low + (high - low) * BASE
    if t == "bool":
        base = base > 0
    elif t[0] in "iu":
        base = np.rint(base if t[0] == "i" else np.abs(base))
    return np.resize(base.astype(NP[t]), n).reshape(shape)


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.count = 0
        os.makedirs(folder, exist_ok=True)
        self.manifest = open(os.path.join(folder, "manifest.tsv"), "w", encoding="utf-8")

    def add(self, op, inputs, outs=1, label="", flags="-", consts=(), opset=22, domain="", **attrs):
        """inputs: arrays, or None for one left out; consts: numbers of those that are initializers."""
        name = f"{op}-{self.count:04d}{'-' + label if label else ''}"
        path = os.path.join(self.folder, "large", name)
        os.makedirs(path + "/test_data_set_0")
        names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        node = h.make_node(op, names, [f"y{i}" for i in range(outs)], domain=domain, **attrs)
        graph_in, init = [], []
        for i, x in enumerate(inputs):
            if x is None:
                continue
            if i in consts:
                init.append(nh.from_array(x, names[i]))
            else:
                graph_in.append(h.make_tensor_value_info(names[i], h.np_dtype_to_tensor_dtype(x.dtype), list(x.shape)))
        g = h.make_graph([node], "g", graph_in, [onnx.ValueInfoProto(name=f"y{i}") for i in range(outs)], init)
        sets = [h.make_opsetid("", opset)] + ([h.make_opsetid(domain, 1)] if domain else [])
        with open(path + "/model.onnx", "wb") as f:
            f.write(h.make_model(g, opset_imports=sets, ir_version=10).SerializeToString())
        k = 0
        for i, x in enumerate(inputs):
            if x is not None and i not in consts:
                with open(f"{path}/test_data_set_0/input_{k}.pb", "wb") as f:
                    f.write(nh.from_array(x).SerializeToString())
                k += 1
        self.manifest.write(f"large\t{name}\t{op}\t{opset}\t-\t0\t-\t1\t0.001\t1e-05\t{flags}\tlarge\n")
        self.count += 1


def i64(*v):
    return np.array(v, np.int64)


def elementwise(c):
    for t in FLOATS:
        for op in ["Relu", "Exp", "Tanh", "Erf", "Gelu", "Sigmoid", "HardSwish", "Softplus", "Neg", "Sqrt"]:
            c.add(op, [values(t, (211, 1031), 0.01 if op == "Sqrt" else -3)], label=t)
    for t in NUMBERS:
        for op in ["Add", "Mul", "Max", "Equal"]:
            for a, b in [((211, 1031), (211, 1031)), ((7, 1, 513), (131, 1)), ((4, 33, 17, 19), (33, 1, 1)), ((300001,), ())]:
                c.add(op, [values(t, a), values(t, b)], label=t)
        c.add("Where", [values("bool", (3, 1, 700)), values(t, (3, 301, 1)), values(t, (700,))], label=t)
        c.add("Clip", [values(t, (99999,)), np.array(1, NP[t]), np.array(2, NP[t])], label=t, consts=(1, 2))
        for to in NUMBERS + ["bool"]:
            c.add("Cast", [values(t, (65537,), 0, 90)], label=f"{t}-{to}", to=ELEM[to])


def along(c):
    shape = (11, 65, 517)
    for t in NUMBERS:
        for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceProd"]:
            if t in ("i8", "u8") and op not in ("ReduceMax", "ReduceMin"):
                continue
            low, high = (1.0, 1.001) if op == "ReduceProd" else (-3, 3)
            for axes in [(2,), (1,), (0,), (0, 2), (1, 2), (0, 1, 2)]:
                if t not in FLOATS[:2] and len(axes) != 2:
                    continue
                c.add(op, [values(t, shape, low, high), i64(*axes)], label=t, consts=(1,), flags="times=4", keepdims=0)
        for axis in (0, 1, 2):
            c.add("ArgMax", [values(t, (11, 65, 331))], label=t, axis=axis)
            c.add("ArgMin", [values(t, (11, 65, 331))], label=t, axis=axis, select_last_index=1)
            c.add("TopK", [values(t, (11, 65, 131)), i64(9)], outs=2, label=t, consts=(1,), axis=axis)
        c.add("TopK", [values(t, (3, 20011)), i64(20011)], outs=2, label=t, consts=(1,))
        if t not in ("i8", "u8"):
            for axis in (0, 1):
                c.add("CumSum", [values(t, (101, 1777), -0.1 if t in FLOATS else -1, 0.1 if t in FLOATS else 1), i64(axis)],
                      label=t, consts=(1,), flags="times=10 extra=0.01")
    for t in FLOATS:
        for op in ["Softmax", "LogSoftmax", "Hardmax"]:
            for s in [(1000, 1), (1000, 33), (77, 1025), (3, 70001)]:
                c.add(op, [values(t, s)], label=t, axis=-1)
            c.add(op, [values(t, (5, 300, 77))], label=t, axis=1)
        for n in (1, 31, 768, 1000, 5003):
            c.add("LayerNormalization", [values(t, (61, n)), values(t, (n,)), values(t, (n,))], label=t, flags="times=2")
            c.add("RMSNormalization", [values(t, (61, n)), values(t, (n,))], label=t, opset=23, flags="times=2")
            c.add("SkipLayerNormalization", [values(t, (2, 61, n)), values(t, (2, 61, n)), values(t, (n,)), values(t, (n,))],
                  label=t, domain="com.microsoft", flags="times=2")
        for ch, hw in [(6, 97), (32, 16), (130, 33)]:
            x = values(t, (2, ch, hw, hw))
            c.add("InstanceNormalization", [x, values(t, (ch,)), values(t, (ch,))], label=t, flags="times=2")
            c.add("GroupNormalization", [x, values(t, (ch,)), values(t, (ch,))], label=t, num_groups=2, flags="times=2")
            c.add("BatchNormalization", [x] + [values(t, (ch,)) for _ in range(3)] + [values(t, (ch,), 0.1, 3)], label=t,
                  consts=(1, 2, 3, 4))
            c.add("LRN", [x], label=t, size=5)
            c.add("LpNormalization", [x], label=t, axis=1)
            c.add("GlobalAveragePool", [x], label=t)
            c.add("GlobalMaxPool", [x], label=t)


def convolutions(c):
    forms = [((2, 3, 61, 67), (17, 3, 7, 7), dict(strides=[2, 2], pads=[3] * 4)), ((1, 32, 29, 31), (48, 32, 1, 1), {}),
             ((3, 17, 29, 31), (5, 17, 3, 3), dict(dilations=[2, 3])), ((2, 64, 28, 28), (64, 1, 3, 3), dict(group=64, pads=[1] * 4)),
             ((2, 62, 28, 27), (62, 1, 5, 5), dict(group=62, strides=[2, 2], auto_pad="SAME_LOWER")),
             ((2, 96, 14, 14), (96, 1, 7, 7), dict(group=96, pads=[3] * 4)), ((1, 30, 20, 20), (60, 10, 3, 3), dict(group=3)),
             ((2, 3, 64, 64), (40, 3, 16, 16), dict(strides=[16, 16])), ((2, 40, 56, 56), (80, 40, 2, 2), dict(strides=[2, 2])),
             ((2, 12, 1003), (20, 12, 9), dict(strides=[3], auto_pad="SAME_UPPER")), ((2, 8, 1003), (8, 1, 4), dict(group=8, pads=[3, 0])),
             ((1, 6, 11, 21, 23), (10, 6, 3, 3, 3), dict(pads=[1] * 6)), ((1, 1, 1, 12, 16), (2, 1, 1, 1, 1), {}),
             ((1, 4, 5, 12, 16), (8, 1, 3, 3, 3), dict(group=4)), ((4, 256, 7, 7), (512, 256, 1, 1), dict(strides=[2, 2])),
             ((1, 5, 9, 9), (7, 5, 3, 3), dict(pads=[0, 2, 1, 0]))]
    for t in FLOATS:
        for x, w, attrs in forms:
            scale = 1.5 / np.sqrt(np.prod(w[1:]))
            for bias in (True, False):
                more = [values(t, (w[0],))] if bias else []
                c.add("Conv", [values(t, x), values(t, w, -scale, scale)] + more, label=t, flags="times=2",
                      consts=(1, 2) if bias else (), **attrs)
        for x, w, attrs in [((2, 16, 13, 17), (16, 8, 2, 2), dict(strides=[2, 2])), ((2, 16, 13, 17), (16, 8, 4, 4), dict(strides=[2, 2], pads=[1] * 4)),
                            ((1, 17, 9, 8), (17, 3, 3, 3), dict(strides=[3, 2], output_padding=[1, 0], dilations=[1, 2])),
                            ((2, 24, 10, 10), (24, 1, 3, 3), dict(group=24, strides=[2, 2])), ((2, 6, 101), (6, 4, 5), dict(strides=[4])),
                            ((1, 4, 5, 6, 7), (4, 3, 3, 3, 3), dict(strides=[2, 2, 2]))]:
            c.add("ConvTranspose", [values(t, x), values(t, w, -0.4, 0.4), values(t, (w[1] * attrs.get("group", 1),))], label=t,
                  flags="times=2", consts=(1, 2), **attrs)
    for t in FLOATS + ["i8", "u8"]:
        for x, attrs in [((2, 33, 57, 61), dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)),
                         ((2, 7, 57, 61), dict(kernel_shape=[5, 2], strides=[3, 2], ceil_mode=1)),
                         ((2, 7, 301), dict(kernel_shape=[7], dilations=[3])), ((1, 3, 11, 17, 19), dict(kernel_shape=[2, 3, 4], strides=[2, 2, 1])),
                         ((1, 2, 4, 5, 6, 7), dict(kernel_shape=[2, 2, 2, 2]))]:
            c.add("MaxPool", [values(t, x)], label=t, **attrs)
            c.add("MaxPool", [values(t, x)], outs=2, label=t, **attrs)
            if t in FLOATS:
                c.add("AveragePool", [values(t, x)], label=t, count_include_pad=1, **attrs)
                c.add("LpPool", [values(t, x)], label=t, **attrs)


def products(c):
    for t in FLOATS + ["i32", "i64"]:
        for a, b in [((1, 999), (999, 1)), ((17, 1000), (1000, 33)), ((513, 511), (511, 129)), ((3, 1, 40, 65), (2, 65, 70)),
                     ((4, 12, 37, 64), (4, 12, 64, 41)), ((1000,), (1000, 7)), ((5, 7, 1000), (1000,)), ((2049, 16), (16, 3))]:
            s = 3 / np.sqrt(a[-1]) if t in FLOATS else 9
            c.add("MatMul", [values(t, a, -s, s), values(t, b, -1 if t in FLOATS else -9, 1 if t in FLOATS else 9)], label=t, flags="times=2")
            if t in FLOATS and len(b) == 2:
                c.add("MatMul", [values(t, a, -s, s), values(t, b, -1, 1)], label=t + "-weight", consts=(1,), flags="times=2")
        for ta in (0, 1):
            for tb in (0, 1):
                a, b = (300, 77), (77, 131)
                c.add("Gemm", [values(t, a[::-1] if ta else a, -1, 1), values(t, b[::-1] if tb else b, -1, 1), values(t, (131,))], label=t,
                      transA=ta, transB=tb, flags="times=2", **(dict(alpha=0.5, beta=2.0) if t in FLOATS else {}))
    for t in FLOATS:
        for q, k in [((2, 12, 77, 64), (2, 12, 77, 64)), ((1, 8, 1, 80), (1, 2, 301, 80)), ((1, 3, 200, 40), (1, 3, 333, 40)), ((1, 2, 65, 192), (1, 2, 65, 192))]:
            c.add("Attention", [values(t, q), values(t, k), values(t, k)], label=t, opset=23, flags="times=2")
            c.add("Attention", [values(t, q), values(t, k), values(t, k)], label=t, opset=23, flags="times=2", is_causal=1)
            c.add("Attention", [values(t, q), values(t, k), values(t, k), values("bool", (q[0], 1, q[2], k[2]))], label=t, opset=23, flags="times=2")
        n, d = 12, 64
        for past in (0, 33):
            x, w = values(t, (2, 50, 256)), values(t, (256, 3 * n * d), -0.1, 0.1)
            c.add("Attention", [x, w, values(t, (3 * n * d,)), np.ones((2, 50 + past), np.int32)] + ([values(t, (2, 2, n, past, d))] if past else []),
                  label=t, domain="com.microsoft", num_heads=n, unidirectional=1 if past else 0, flags="times=3", outs=2 if past else 1)
        q, kv = values(t, (2, 50, n * d)), [values(t, (2, 70, n * d)) for _ in range(2)]
        mask = (np.arange(140).reshape(2, 70) % 5 != 0).astype(np.int32)
        c.add("MultiHeadAttention", [q] + kv + [values(t, (3 * n * d,)), mask], label=t, domain="com.microsoft", num_heads=n, flags="times=3")
        c.add("GroupQueryAttention", [values(t, (2, 1, n * d)), values(t, (2, 1, 4 * d)), values(t, (2, 1, 4 * d)), values(t, (2, 4, 90, d)),
                                      values(t, (2, 4, 90, d)), np.array([70, 33], np.int32), np.array([71], np.int32),
                                      values(t, (100, d // 2), -1, 1), values(t, (100, d // 2), -1, 1)], outs=3, label=t, domain="com.microsoft",
              num_heads=n, kv_num_heads=4, do_rotary=1, flags="times=3", consts=(6,))
        c.add("Einsum", [values(t, (3, 40, 5, 33)), values(t, (3, 41, 5, 33))], label=t, equation="bihd,bjhd->bhij", flags="times=2")
        for layers, lin in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
            hid = 130
            c.add(layers, [values(t, (17, 5, 61), -1, 1), values(t, (2, lin * hid, 61), -0.1, 0.1), values(t, (2, lin * hid, hid), -0.1, 0.1),
                           values(t, (2, 2 * lin * hid), -0.1, 0.1)], outs=2, label=t, hidden_size=hid, direction="bidirectional", flags="times=3")


def moving(c):
    for t in ["f32", "f16", "u8", "i64", "bool"]:
        x = values(t, (13, 37, 41, 23))
        for perm in [(0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 2, 3), (0, 3, 1, 2), (2, 3, 0, 1)]:
            c.add("Transpose", [x], label=t, perm=list(perm))
        c.add("Transpose", [values(t, (1031, 769))], label=t, perm=[1, 0])
        c.add("Concat", [x, x[:, :5], x[:, 30:]], label=t, axis=1)
        c.add("Concat", [x, x[..., :1], x[..., :7]], label=t, axis=-1)
        c.add("Split", [x, i64(1, 30, 6)], outs=3, label=t, consts=(1,), axis=1)
        c.add("Slice", [x, i64(10, 30, -1), i64(1, 2, -100), i64(0, 2, 3), i64(-3, -1, -2)], label=t, consts=(1, 2, 3, 4))
        for mode in ["constant", "reflect", "edge", "wrap"]:
            c.add("Pad", [x, i64(0, 3, 5, 2, 0, 0, 7, 9)], label=t, consts=(1,), mode=mode)
        c.add("Tile", [values(t, (5, 77, 3)), i64(3, 2, 11)], label=t, consts=(1,))
        c.add("Expand", [values(t, (5, 1, 301)), i64(4, 5, 77, 301)], label=t, consts=(1,))
        idx = (np.arange(3001) * 37 % 1000 - 500).astype(np.int64)
        c.add("Gather", [values(t, (1000, 65)), idx], label=t)
        c.add("Gather", [values(t, (9, 1000, 3)), idx], label=t, axis=1)
        c.add("GatherElements", [values(t, (1000, 65)), np.resize(idx, (700, 65))], label=t, axis=0)
        c.add("GatherND", [values(t, (50, 60, 7)), np.stack([np.arange(3000) % 50, np.arange(3000) % 60], 1)], label=t)
        c.add("ScatterND", [values(t, (1000, 65)), np.random.default_rng(1).permutation(1000)[:400].reshape(400, 1), values(t, (400, 65))], label=t)
        c.add("NonZero", [values(t, (301, 777))], label=t)
        c.add("Unique", [values(t, (70001,))], outs=4, label=t) if t != "bool" else None
        c.add("Compress", [values(t, (701, 65)), values("bool", (700,))], label=t, axis=0)
        c.add("DepthToSpace", [values(t, (2, 64, 13, 17))], label=t, blocksize=4, mode="CRD")
        c.add("SpaceToDepth", [values(t, (2, 5, 26, 34))], label=t, blocksize=2)
        c.add("Trilu", [values(t, (3, 501, 333)), i64(-7).reshape(())], label=t, consts=(1,), upper=0)
        c.add("OneHot", [idx, i64(1000).reshape(()), values(t, (2,))], label=t, consts=(1,))
    for t in FLOATS + ["u8"]:
        for mode in ["nearest", "linear", "cubic"]:
            for to in [(2, 5, 77, 131), (2, 5, 19, 23)]:
                c.add("Resize", [values(t, (2, 5, 38, 52), 0, 9), None, None, i64(*to)], label=t, consts=(3,), mode=mode,
                      flags="steps=1" if t == "u8" else "-")
                c.add("Resize", [values(t, (2, 5, 38, 52), 0, 9), None, None, i64(*to)], label=t, consts=(3,), mode=mode, antialias=int(mode != "nearest"),
                      coordinate_transformation_mode="align_corners", flags="steps=1" if t == "u8" else "-")
    c.add("GridSample", [values("f32", (2, 5, 33, 37)), values("f32", (2, 50, 51, 2), -1.2, 1.2)], mode="linear", flags="times=4")
    c.add("RoiAlign", [values("f32", (2, 5, 33, 37)), np.abs(values("f32", (60, 4), 0, 16)) + np.array([0, 0, 16, 16], np.float32), (np.arange(60) % 2)],
          output_height=7, output_width=7, sampling_ratio=2)


def main():
    c = Cases(sys.argv[1])
    for f in (elementwise, along, convolutions, products, moving):
        f(c)
    c.manifest.close()
    print(c.count, "cases")


if __name__ == "__main__":
    main()
