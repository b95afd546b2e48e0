#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares infer with ONNX Runtime operator by operator, on about a million elements each.

usage: operators.py [--latency PROGRAM] [--rounds N] [--only TEXT]

One model of one node for each line of the table below, run by both in turns on 2 threads. The
geometric mean counts each ratio as at least 0.5, so that one lucky operator hides no slow ones.
"""

import argparse
import math
import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, save

import compare

F, H, I, B, I8, U8, I32 = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL,
                           TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)
NAMES = {F: "f32", H: "f16", I: "i64", B: "bool", I8: "i8", U8: "u8", I32: "i32"}
M = [1024, 1024]      # a million elements
IMAGE = [1, 64, 128, 128]
TEXT = [8, 128, 1024]

UNARY = """Abs Neg Ceil Floor Round Sign Sqrt Reciprocal Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh
Tanh Erf Sigmoid Softplus Softsign Relu LeakyRelu Elu Selu Celu HardSigmoid HardSwish Mish Gelu ThresholdedRelu Shrink
IsNaN IsInf Identity""".split()
BINARY = "Add Sub Mul Div Pow Mod Max Min PRelu Equal Greater Less GreaterOrEqual LessOrEqual".split()
REDUCE = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"


def const(name, value):
    return helper.make_tensor(name, I, [len(value)], value)


def rows():
    """(name, op, inputs [(type, shape)], outputs' type, attributes, initializers)"""
    for op in UNARY:
        yield op, op, [(F, M)], B if op in ("IsNaN", "IsInf") else F, {}, []
    for op in BINARY:
        out = B if op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual") else F
        yield op, op, [(F, M), (F, M)], out, {"fmod": 1} if op == "Mod" else {}, []
    for op in ("Add", "Mul"):
        yield op + " row", op, [(F, M), (F, [1024])], F, {}, []
        yield op + " column", op, [(F, M), (F, [1024, 1])], F, {}, []
        yield op + " scalar", op, [(F, M), (F, [])], F, {}, []
        yield op + " f16", op, [(H, M), (H, M)], H, {}, []
        yield op + " i64", op, [(I, M), (I, M)], I, {}, []
    for op in ("And", "Or", "Xor"):
        yield op, op, [(B, M), (B, M)], B, {}, []
    yield "Not", "Not", [(B, M)], B, {}, []
    yield "Where", "Where", [(B, M), (F, M), (F, M)], F, {}, []
    yield "Clip", "Clip", [(F, M), (F, []), (F, [])], F, {}, []
    for op in REDUCE.split():
        yield op + " last", op, [(F, M)], F, {"keepdims": 1}, [const("axes", [1])]
        yield op + " first", op, [(F, M)], F, {"keepdims": 1}, [const("axes", [0])]
    yield "ArgMax", "ArgMax", [(F, M)], I, {"axis": 1}, []
    yield "Softmax", "Softmax", [(F, M)], F, {"axis": -1}, []
    yield "Softmax axis 1", "Softmax", [(F, IMAGE)], F, {"axis": 1}, []
    yield "LogSoftmax", "LogSoftmax", [(F, M)], F, {"axis": -1}, []
    yield "LayerNormalization", "LayerNormalization", [(F, TEXT), (F, [1024]), (F, [1024])], F, {"axis": -1}, []
    yield "BatchNormalization", "BatchNormalization", [(F, IMAGE)] + [(F, [64])] * 4, F, {}, []
    yield "InstanceNormalization", "InstanceNormalization", [(F, IMAGE), (F, [64]), (F, [64])], F, {}, []
    yield "LpNormalization", "LpNormalization", [(F, M)], F, {}, []
    yield "LRN", "LRN", [(F, IMAGE)], F, {"size": 5}, []
    yield "MaxPool", "MaxPool", [(F, IMAGE)], F, {"kernel_shape": [3, 3], "strides": [2, 2]}, []
    yield "AveragePool", "AveragePool", [(F, IMAGE)], F, {"kernel_shape": [3, 3], "strides": [2, 2]}, []
    yield "GlobalAveragePool", "GlobalAveragePool", [(F, IMAGE)], F, {}, []
    yield "GlobalMaxPool", "GlobalMaxPool", [(F, IMAGE)], F, {}, []
    yield "Conv 1x1", "Conv", [(F, IMAGE), (F, [64, 64, 1, 1])], F, {}, []
    yield "Conv 3x3", "Conv", [(F, IMAGE), (F, [64, 64, 3, 3])], F, {"pads": [1] * 4}, []
    yield "Conv depthwise", "Conv", [(F, IMAGE), (F, [64, 1, 3, 3])], F, {"pads": [1] * 4, "group": 64}, []
    yield "ConvTranspose", "ConvTranspose", [(F, [1, 64, 32, 32]), (F, [64, 32, 2, 2])], F, {"strides": [2, 2]}, []
    yield "MatMul", "MatMul", [(F, [512, 512]), (F, [512, 512])], F, {}, []
    yield "MatMul batch", "MatMul", [(F, [16, 128, 128]), (F, [16, 128, 128])], F, {}, []
    yield "MatMul vector", "MatMul", [(F, [1, 1024]), (F, M)], F, {}, []
    yield "Gemm transB", "Gemm", [(F, [256, 512]), (F, [512, 512]), (F, [512])], F, {"transB": 1}, []
    yield "MatMulInteger", "MatMulInteger", [(U8, [256, 512]), (U8, [512, 512])], I32, {}, []
    yield "Einsum", "Einsum", [(F, [8, 128, 64]), (F, [8, 128, 64])], F, {"equation": "bik,bjk->bij"}, []
    yield "Transpose", "Transpose", [(F, M)], F, {"perm": [1, 0]}, []
    yield "Transpose 0213", "Transpose", [(F, [8, 128, 16, 64])], F, {"perm": [0, 2, 1, 3]}, []
    yield "Transpose NHWC", "Transpose", [(F, IMAGE)], F, {"perm": [0, 2, 3, 1]}, []
    yield "Concat", "Concat", [(F, [512, 1024]), (F, [512, 1024])], F, {"axis": 1}, []
    yield "Slice", "Slice", [(F, M)], F, {}, [const("st", [1, 2]), const("en", [1000, 1000]), const("ax", [0, 1])]
    yield "Gather", "Gather", [(F, M), (I, [1024])], F, {}, []
    yield "Expand", "Expand", [(F, [1024, 1])], F, {}, [const("shape", M)]
    yield "Tile", "Tile", [(F, [256, 1024])], F, {}, [const("rep", [4, 1])]
    yield "Pad", "Pad", [(F, IMAGE)], F, {}, [const("pads", [0, 0, 1, 1, 0, 0, 1, 1])]
    yield "DepthToSpace", "DepthToSpace", [(F, IMAGE)], F, {"blocksize": 2}, []
    yield "SpaceToDepth", "SpaceToDepth", [(F, IMAGE)], F, {"blocksize": 2}, []
    yield "CumSum", "CumSum", [(F, M), (I, [])], F, {}, []
    yield "TopK", "TopK", [(F, M)], (F, I), {"axis": 1}, [const("k", [10])]
    yield "Trilu", "Trilu", [(F, M)], F, {}, []
    yield "OneHot", "OneHot", [(I, [8192]), (I, []), (F, [2])], F, {}, []
    for out in (H, I, I32, U8):
        yield "Cast f32 to " + NAMES[out], "Cast", [(F, M)], out, {"to": out}, []
        yield "Cast " + NAMES[out] + " to f32", "Cast", [(out, M)], F, {"to": F}, []
    yield "QuantizeLinear", "QuantizeLinear", [(F, M), (F, []), (U8, [])], U8, {}, []
    yield "DequantizeLinear", "DequantizeLinear", [(U8, M), (F, []), (U8, [])], F, {}, []
    yield "DynamicQuantizeLinear", "DynamicQuantizeLinear", [(F, M)], (U8, F, U8), {}, []


def model(row, path):
    name, op, inputs, outs, attributes, initializers = row
    names = [f"x{i}" for i in range(len(inputs))]
    outs = outs if isinstance(outs, tuple) else (outs,)
    node = helper.make_node(op, names + [t.name for t in initializers], [f"y{i}" for i in range(len(outs))],
                            **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in zip(names, inputs)],
                              [helper.make_tensor_value_info(f"y{i}", t, None) for i, t in enumerate(outs)],
                              initializers)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def values(row, rng):
    kinds = {F: "f4", H: "f2", I: "i8", B: "?", I8: "i1", U8: "u1", I32: "i4"}
    for i, (t, shape) in enumerate(row[2]):
        op, kind = row[1], kinds[t]
        if kind[0] == "f":
            a = rng.uniform(0.1, 0.9, shape)
            a = a + 1 if op == "Acosh" else -2 + 4 * i * np.ones(shape) if op == "Clip" and i else a
        elif op == "OneHot" and i == 1:
            a = np.array(128)
        elif op == "CumSum":
            a = np.array(1)
        else:
            a = rng.integers(1, 2 if kind == "?" else 100, shape) if kind != "?" else rng.integers(0, 2, shape)
        yield f"x{i}", kind, shape, np.asarray(a).astype(kind)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--latency", default="build/bench/latency")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--only", default="")
    args = ap.parse_args()
    rng, ratios = np.random.default_rng(1), []
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "m.onnx")
        for row in rows():
            if args.only not in row[0]:
                continue
            model(row, path)
            mine, peer = [args.latency, path, str(args.threads)], []
            for k, (name, kind, shape, a) in enumerate(values(row, rng)):
                raw, text = os.path.join(tmp, f"{k}.raw"), "x".join(map(str, shape))
                a.tofile(raw)
                mine.append(f"{raw}:{text}")
                peer.append(f"{name}|{kind}|{text}|{raw}")
            theirs = [sys.executable, "-c", compare.PEER, path, str(args.threads), "", *peer]
            try:
                pairs = compare.latency(mine, theirs, args.rounds)
            except (SystemExit, ValueError) as e:
                print(f"{row[0]:32} {e}", flush=True)
                continue
            ours, ort = (sorted(p[k] for p in pairs)[len(pairs) // 2] for k in (0, 1))
            ratio = sorted(a / b for a, b in pairs)[len(pairs) // 2]
            ratios.append(max(ratio, 0.5))
            print(f"{row[0]:32} {ours:9.3f} {ort:9.3f} {ratio:6.2f}{'  slow' if ratio > 3 else ''}", flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f} of {len(ratios)}")


if __name__ == "__main__":
    main()
