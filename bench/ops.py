#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times each operator on about a million elements against ONNX Runtime.

usage: ops.py --driver PROGRAM [--threads N] [--rounds N] [--match TEXT] [--top N] [--isa LEVEL]

The two take turns, a short burst each; a ratio is the median over the rounds of (median of our burst / median of
theirs), below 1 we are faster. A ratio that comes out above 2 gets up to three times as many rounds. The geometric mean counts each ratio as at least 0.5. Operators that only make views
(Reshape, Squeeze, Identity, ...) are left out. The table has the worst first. --isa: bench/limit.c.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

import onnxruntime as ort

from compare import limit

NP = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8,
      "bool": np.bool_}
RNG = np.random.default_rng(7)
CASES = []


def data(spec):
    """spec: 'f32:1x3x224x224[:kind]'"""
    kind = "n"
    parts = spec.split(":")
    t, dims = parts[0], [int(d) for d in parts[1].split("x")] if parts[1] else []
    if len(parts) > 2:
        kind = parts[2]
    if t == "bool":
        return RNG.random(dims) < 0.5
    if kind.startswith("below"):
        return RNG.integers(0, int(kind[5:]), dims).astype(NP[t])
    if t[0] in "iu":
        return RNG.integers(1 if kind == "p" else -9 if t[0] == "i" else 0, 10, dims).astype(NP[t])
    a = RNG.standard_normal(dims)
    if kind == "p":
        a = np.abs(a) + 0.1
    if kind == "u":
        a = RNG.uniform(-0.95, 0.95, dims)
    return np.asarray(a).astype(NP[t])


def case(op, *inputs, domain="", opset=17, outs=1, label="", **attrs):
    """inputs: spec strings (fed), arrays (initializers) or None (left out)."""
    first = next((i for i in inputs if isinstance(i, str)), "")
    CASES.append(dict(op=op, inputs=inputs, domain=domain, opset=opset, outs=outs, attrs=attrs,
                      label=f"{domain + '::' if domain else ''}{op}{' ' + label if label else ''} {first.split(':')[0]}"))


def const(a, t=np.int64):
    return np.asarray(a, t)


def weight(*dims, t=np.float32):
    return (RNG.standard_normal(dims) * 0.05).astype(t)


BIG = "1000x1000"


def elementwise():
    for op in "Abs Neg Ceil Floor Relu Sigmoid Tanh Exp Sin Cos Erf Sign Elu Selu Softplus Softsign LeakyRelu HardSigmoid".split():
        case(op, f"f32:{BIG}")
    for op in "Atan Asinh Sinh Cosh Round HardSwish Celu ThresholdedRelu IsNaN IsInf Shrink".split():
        case(op, f"f32:{BIG}")
    case("Mish", f"f32:{BIG}", opset=18)
    case("Gelu", f"f32:{BIG}", opset=20)
    case("Gelu", f"f32:{BIG}", opset=20, approximate="tanh", label="tanh")
    for op in ("Acos", "Asin", "Atanh"):
        case(op, f"f32:{BIG}:u")
    case("Tan", f"f32:{BIG}:u")
    for op in ("Log", "Sqrt", "Reciprocal"):
        case(op, f"f32:{BIG}:p")
    case("Not", f"bool:{BIG}")
    for op in ("Abs", "Neg", "Sign"):
        case(op, f"i64:{BIG}")
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf"):
        case(op, f"f16:{BIG}")
    case("Clip", f"f32:{BIG}", const(-0.5, np.float32), const(0.5, np.float32))
    case("PRelu", f"f32:1x64x125x125", weight(64, 1, 1))
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        case(op, f"f32:{BIG}", f"f32:{BIG}:p")
        case(op, f"f32:{BIG}", f"f32:1000:p", label="row")
        case(op, f"f32:{BIG}", f"f32:1000x1:p", label="column")
    case("Add", f"f32:1x64x125x125", "f32:1x64x1x1", label="channel")
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        case(op, f"i64:{BIG}", f"i64:{BIG}:p")
    for op in ("Add", "Mul"):
        case(op, f"f16:{BIG}", f"f16:{BIG}")
        case(op, f"f64:{BIG}", f"f64:{BIG}")
        case(op, f"i32:{BIG}", f"i32:{BIG}")
    case("Pow", f"f32:{BIG}:p", const(2, np.float32), label="2")
    case("Pow", f"f32:{BIG}:p", const(0.5, np.float32), label="0.5")
    case("Pow", f"f32:{BIG}:p", f"f32:{BIG}")
    case("Mod", f"f32:{BIG}", f"f32:{BIG}:p", fmod=1)
    case("Mod", f"i64:{BIG}", f"i64:{BIG}:p")
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        case(op, f"f32:{BIG}", f"f32:{BIG}")
        case(op, f"i64:{BIG}", f"i64:{BIG}")
    for op in ("And", "Or", "Xor"):
        case(op, f"bool:{BIG}", f"bool:{BIG}")
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        case(op, f"i64:{BIG}", f"i64:{BIG}", opset=18)
    case("BitwiseNot", f"i64:{BIG}", opset=18)
    case("Where", f"bool:{BIG}", f"f32:{BIG}", f"f32:{BIG}")
    case("Where", f"bool:{BIG}", f"i64:{BIG}", f"i64:{BIG}")
    case("Where", f"bool:{BIG}", f"f32:{BIG}", const(-1e9, np.float32), label="scalar")
    for op in ("Sum", "Mean"):
        case(op, f"f32:{BIG}", f"f32:{BIG}", f"f32:{BIG}")
    for a, b in (("f32", "f16"), ("f16", "f32"), ("f32", "i64"), ("i64", "f32"), ("i32", "i64"), ("bool", "f32"), ("f32", "i8"), ("u8", "f32"), ("f32", "f64"), ("f32", "bool"), ("i64", "i32"), ("f32", "i32")):
        case("Cast", f"{a}:{BIG}:p", to=helper.np_dtype_to_tensor_dtype(np.dtype(NP[b])), label=f"to {b}")
    case("QuantizeLinear", f"f32:{BIG}", const(0.02, np.float32), const(3, np.uint8))
    case("QuantizeLinear", f"f32:{BIG}", const(0.02, np.float32), const(3, np.int8), label="i8")
    case("QuantizeLinear", f"f32:{BIG}", np.full(1000, 0.02, np.float32), np.full(1000, 3, np.int8), axis=1, label="axis")
    case("DequantizeLinear", f"u8:{BIG}", const(0.02, np.float32), const(3, np.uint8))
    case("DequantizeLinear", f"i8:{BIG}", const(0.02, np.float32), const(3, np.int8))
    case("DequantizeLinear", f"i8:{BIG}", np.full(1000, 0.02, np.float32), np.full(1000, 3, np.int8), axis=1, label="axis")
    case("DynamicQuantizeLinear", f"f32:{BIG}", outs=3)


def along():
    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split():
        for label, axes in (("last", [1]), ("first", [0]), ("all", [0, 1])):
            case(op, f"f32:{BIG}:p", const(axes), opset=18, label=label)
    case("ReduceMean", "f32:8x64x45x45", const([2, 3]), opset=18, label="spatial")
    case("ReduceSum", f"i64:{BIG}", const([1]), opset=18, label="last")
    case("ReduceMax", f"i64:{BIG}", const([1]), opset=18, label="last")
    for op in ("ArgMax", "ArgMin"):
        case(op, f"f32:{BIG}", axis=1, label="last")
        case(op, f"f32:{BIG}", axis=0, label="first")
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        case(op, f"f32:{BIG}", axis=-1)
        case(op, "f32:8x32x64x64", axis=1, label="channels")
    case("Softmax", f"f16:{BIG}", axis=-1)
    case("Softmax", "f32:64x8x45x45", axis=-1, label="short")
    case("CumSum", f"f32:{BIG}", const(1), label="last")
    case("CumSum", f"f32:{BIG}", const(0), label="first")
    case("CumSum", f"i64:{BIG}", const(1), label="last")
    case("TopK", f"f32:{BIG}", const([10]), axis=1, outs=2)
    case("TopK", f"f32:1x1000000", const([100]), axis=1, outs=2, label="long")
    case("LpNormalization", f"f32:{BIG}", axis=-1, opset=21)
    case("NonZero", f"f32:{BIG}")
    case("Unique", "i64:1000000:below1000", opset=17, outs=4)
    case("Det", "f32:2000x20x20")


def moving():
    case("Transpose", f"f32:{BIG}", perm=[1, 0])
    case("Transpose", "f32:8x197x12x64", perm=[0, 2, 1, 3], label="heads")
    case("Transpose", "f32:1x64x125x125", perm=[0, 2, 3, 1], label="to NHWC")
    case("Transpose", "f32:1x125x125x64", perm=[0, 3, 1, 2], label="to NCHW")
    for t in ("i64", "i8", "f16"):
        case("Transpose", f"{t}:{BIG}", perm=[1, 0])
    for t in ("f32", "i64", "i8", "f16"):
        case("Concat", f"{t}:500x1000", f"{t}:500x1000", axis=0)
        case("Concat", f"{t}:1000x500", f"{t}:1000x500", axis=1, label="last")
        case("Split", f"{t}:{BIG}", const([500, 500]), axis=1, outs=2)
        case("Slice", f"{t}:{BIG}", const([10, 10]), const([990, 990]), const([0, 1]))
        case("Gather", f"{t}:{BIG}", RNG.integers(0, 1000, 1000), axis=0)
    case("Slice", f"f32:{BIG}", const([0]), const([1000]), const([1]), const([2]), label="step")
    case("Slice", f"f32:{BIG}", const([-1]), const([-2000]), const([1]), const([-1]), label="reverse")
    case("Gather", f"f32:{BIG}", RNG.integers(0, 1000, 1000), axis=1, label="last")
    case("Gather", "f32:30000x256", RNG.integers(0, 30000, 4096), axis=0, label="embedding")
    case("GatherElements", f"f32:{BIG}", RNG.integers(0, 1000, (1000, 1000)), axis=1)
    case("GatherElements", f"f32:{BIG}", RNG.integers(0, 1000, (1000, 1000)), axis=0, label="first")
    case("GatherND", f"f32:{BIG}", RNG.integers(0, 1000, (100000, 2)))
    case("ScatterElements", f"f32:{BIG}", RNG.integers(0, 1000, (1000, 500)), "f32:1000x500", axis=1)
    case("ScatterElements", f"f32:{BIG}", RNG.integers(0, 1000, (1000, 500)), "f32:1000x500", axis=1, reduction="add", opset=18, label="add")
    case("ScatterND", f"f32:{BIG}", RNG.permutation(1000)[:500].reshape(500, 1), "f32:500x1000")
    case("ScatterND", f"f32:{BIG}", RNG.integers(0, 1000, (10000, 2)), "f32:10000", label="points")
    case("Pad", "f32:1x64x120x120", const([0, 0, 2, 2, 0, 0, 2, 2]))
    case("Pad", "f32:1x64x120x120", const([0, 0, 2, 2, 0, 0, 2, 2]), mode="reflect", label="reflect")
    case("Pad", "f32:1x64x120x120", const([0, 0, 2, 2, 0, 0, 2, 2]), mode="edge", label="edge")
    case("Tile", "f32:500x500", const([2, 2]))
    case("Expand", "f32:1000x1", const([1000, 1000]))
    case("Expand", "f32:1x1000", const([1000, 1000]), label="rows")
    case("Expand", "i64:1x1000", const([1000, 1000]), label="rows")
    case("DepthToSpace", "f32:1x64x125x125", blocksize=2)
    case("DepthToSpace", "f32:1x64x125x125", blocksize=2, mode="CRD", label="CRD")
    case("SpaceToDepth", "f32:1x16x250x250", blocksize=2)
    case("Trilu", f"f32:{BIG}", upper=1)
    case("ReverseSequence", "f32:100x100x100", RNG.integers(1, 100, 100), batch_axis=1, time_axis=0)
    case("Compress", f"f32:{BIG}", RNG.random(1000) < 0.5, axis=0)
    case("OneHot", "i64:1000:below1000", const(1000), const([0, 1], np.float32))
    case("ConstantOfShape", "i64:2:below1001", label="small")
    case("EyeLike", f"f32:{BIG}")
    case("Range", const(0), const(1000000), "i64::p")
    case("CenterCropPad", "f32:1x64x120x120", const([1, 64, 110, 130]), opset=18)
    case("Col2Im", "f32:1x576x1600", const([42, 42]), const([3, 3]), opset=18)


def layers():
    case("MatMul", "f32:1000x256", weight(256, 1000), label="weights")
    case("MatMul", f"f32:512x512", "f32:512x512")
    case("MatMul", "f32:96x128x64", "f32:96x64x128", label="batch")
    case("MatMul", "f32:1x1024", weight(1024, 1024), label="vector")
    case("MatMul", "f16:512x512", "f16:512x512")
    case("MatMul", "f64:256x256", "f64:256x256")
    case("Gemm", "f32:1000x256", weight(1000, 256), weight(1000), transB=1)
    case("Gemm", "f32:512x512", "f32:512x512", "f32:512", alpha=0.5)
    case("Einsum", "f32:8x12x64x64", "f32:8x12x64x64", equation="bhid,bhjd->bhij")
    case("MatMulInteger", "u8:512x512", RNG.integers(-99, 99, (512, 512)).astype(np.int8), const(3, np.uint8))
    case("QLinearMatMul", "u8:512x512", const(0.02, np.float32), const(3, np.uint8), RNG.integers(-99, 99, (512, 512)).astype(np.int8), const(0.01, np.float32), const(0, np.int8), const(0.05, np.float32), const(7, np.uint8))
    case("Conv", "f32:1x64x56x56", weight(64, 64, 3, 3), weight(64), pads=[1] * 4, label="3x3")
    case("Conv", "f32:1x64x56x56", weight(256, 64, 1, 1), weight(256), label="1x1")
    case("Conv", "f32:1x3x224x224", weight(64, 3, 7, 7), weight(64), pads=[3] * 4, strides=[2, 2], label="7x7/2")
    case("Conv", "f32:1x128x56x56", weight(128, 1, 3, 3), weight(128), pads=[1] * 4, group=128, label="depthwise")
    case("Conv", "f32:1x128x56x56", weight(128, 16, 3, 3), pads=[1] * 4, group=8, label="grouped")
    case("Conv", "f32:1x64x4000", weight(64, 64, 5), pads=[2, 2], label="1d")
    case("Conv", "f32:1x16x16x56x56", weight(16, 16, 3, 3, 3), pads=[1] * 6, label="3d")
    case("ConvTranspose", "f32:1x64x32x32", weight(64, 32, 4, 4), strides=[2, 2], pads=[1] * 4)
    case("ConvInteger", "u8:1x64x28x28", RNG.integers(0, 99, (64, 64, 3, 3)).astype(np.uint8), pads=[1] * 4)
    case("QLinearConv", "u8:1x64x56x56", const(0.02, np.float32), const(3, np.uint8), RNG.integers(-99, 99, (64, 64, 3, 3)).astype(np.int8), const(0.01, np.float32), const(0, np.int8), const(0.05, np.float32), const(7, np.uint8), pads=[1] * 4)
    case("DeformConv", "f32:1x32x32x32", weight(32, 32, 3, 3), "f32:1x18x32x32", opset=19, pads=[1] * 4)
    case("MaxPool", "f32:1x64x112x112", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    case("MaxPool", "f32:1x64x112x112", kernel_shape=[2, 2], strides=[2, 2], label="2x2")
    case("MaxPool", "u8:1x64x112x112", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    case("MaxPool", "f32:1x64x112x112", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, outs=2, label="indices")
    case("AveragePool", "f32:1x64x112x112", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    case("LpPool", "f32:1x64x112x112", kernel_shape=[3, 3], strides=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        case(op, "f32:8x64x45x45")
    case("MaxUnpool", "f32:1x64x56x56", (np.arange(64 * 56 * 56).reshape(1, 64, 56, 56) * 4), kernel_shape=[2, 2], strides=[2, 2], opset=11)
    case("RoiAlign", "f32:1x64x50x50", (np.sort(RNG.uniform(0, 50, (64, 2, 2)), 1).reshape(64, 4)).astype(np.float32), np.zeros(64, np.int64), output_height=7, output_width=7, sampling_ratio=2, opset=16)
    case("MaxRoiPool", "f32:1x64x50x50", np.concatenate([np.zeros((64, 1)), np.sort(RNG.integers(0, 50, (64, 2, 2)), 1).reshape(64, 4)], 1).astype(np.float32), pooled_shape=[7, 7])
    case("BatchNormalization", "f32:8x64x45x45", weight(64), weight(64), weight(64), np.abs(weight(64)) + 1)
    case("InstanceNormalization", "f32:8x64x45x45", weight(64), weight(64))
    case("GroupNormalization", "f32:8x64x45x45", weight(64), weight(64), num_groups=8, opset=21)
    case("LayerNormalization", "f32:1300x768", weight(768), weight(768))
    case("RMSNormalization", "f32:1300x768", weight(768), opset=23)
    case("MeanVarianceNormalization", "f32:8x64x45x45")
    case("LRN", "f32:8x64x45x45", size=5)
    case("Attention", "f32:1x12x256x64", "f32:1x12x256x64", "f32:1x12x256x64", opset=23)
    case("RotaryEmbedding", "f32:1x12x1024x64", weight(2048, 32), weight(2048, 32), np.arange(1024).reshape(1, 1024), opset=23)
    for op, n in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        case(op, "f32:100x10x128", weight(1, n * 128, 128), weight(1, n * 128, 128), hidden_size=128, outs=2)
    case("Resize", "f32:1x32x90x90", None, None, const([1, 32, 180, 180]), mode="nearest", label="nearest")
    case("Resize", "f32:1x32x90x90", None, None, const([1, 32, 180, 180]), mode="linear", label="linear")
    case("Resize", "f32:1x32x180x180", None, None, const([1, 32, 90, 90]), mode="linear", label="linear down")
    case("Resize", "f32:1x32x90x90", None, None, const([1, 32, 180, 180]), mode="cubic", label="cubic")
    case("Resize", "f32:1x3x400x400", None, None, const([1, 3, 200, 200]), mode="linear", antialias=1, opset=18, label="antialias")
    case("Resize", "u8:1x32x90x90", None, None, const([1, 32, 180, 180]), mode="nearest", label="nearest")
    case("GridSample", "f32:1x16x128x128", "f32:1x128x128x2:u", opset=16)
    case("GridSample", "f32:1x16x128x128", "f32:1x128x128x2:u", mode="bicubic", opset=16, label="bicubic")
    case("AffineGrid", "f32:4x2x3", const([4, 3, 512, 256]), opset=20)
    case("NonMaxSuppression", "f32:1x2000x4:p", "f32:1x4x2000:p", const([100]), const([0.5], np.float32), const([0.3], np.float32))
    case("NegativeLogLikelihoodLoss", "f32:1000x1000", "i64:1000:below1000")
    case("SoftmaxCrossEntropyLoss", "f32:1000x1000", "i64:1000:below1000")
    case("DFT", "f32:64x1024x1", opset=17, axis=1)
    case("STFT", "f32:4x64000x1", const(256), np.hanning(512).astype(np.float32), opset=17)


def microsoft():
    ms = "com.microsoft"
    for op in ("Gelu", "QuickGelu", "FastGelu"):
        case(op, f"f32:{BIG}", domain=ms)
    case("BiasGelu", "f32:1300x768", weight(768), domain=ms)
    case("FusedMatMul", "f32:1000x256", weight(1000, 256), transB=1, alpha=0.125, domain=ms)
    case("SkipLayerNormalization", "f32:1x1300x768", "f32:1x1300x768", weight(768), weight(768), domain=ms)
    case("SkipSimplifiedLayerNormalization", "f32:1x1300x768", "f32:1x1300x768", weight(768), domain=ms)
    case("EmbedLayerNormalization", "i32:1x128:below1000", "i32:1x128:below2", weight(1000, 768), weight(512, 768), weight(2, 768), weight(768), weight(768), outs=2, domain=ms)
    case("Attention", "f32:1x256x768", weight(768, 2304), weight(2304), num_heads=12, domain=ms)
    case("MultiHeadAttention", "f32:1x256x768", "f32:1x256x768", "f32:1x256x768", num_heads=12, domain=ms)
    case("GroupQueryAttention", "f32:1x256x768", "f32:1x256x256", "f32:1x256x256", np.zeros((1, 4, 0, 64), np.float32), np.zeros((1, 4, 0, 64), np.float32), const([255], np.int32), const(256, np.int32), num_heads=12, kv_num_heads=4, outs=3, domain=ms)
    case("RotaryEmbedding", "f32:1x1024x768", np.arange(1024).reshape(1, 1024), weight(2048, 32), weight(2048, 32), domain=ms)
    case("MatMulNBits", "f32:1x1024", RNG.integers(0, 255, (1024, 32, 16)).astype(np.uint8), np.abs(weight(1024 * 32)) + 0.01, K=1024, N=1024, bits=4, block_size=32, domain=ms, label="vector")
    case("MatMulNBits", "f32:128x1024", RNG.integers(0, 255, (1024, 32, 16)).astype(np.uint8), np.abs(weight(1024 * 32)) + 0.01, K=1024, N=1024, bits=4, block_size=32, domain=ms)
    s, z = const(0.05, np.float32), const(3, np.uint8)
    for op in ("QLinearAdd", "QLinearMul"):
        case(op, f"u8:{BIG}", s, z, f"u8:{BIG}", s, z, s, z, domain=ms)
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        case(op, f"u8:{BIG}", s, z, s, z, domain=ms)
    case("QLinearGlobalAveragePool", "u8:8x64x45x45", s, z, s, z, domain=ms)
    case("QLinearAveragePool", "u8:1x64x112x112", s, z, s, z, kernel_shape=[3, 3], strides=[2, 2], domain=ms)
    case("QLinearConcat", s, z, "u8:500x1000", s, z, "u8:500x1000", s, z, axis=0, domain=ms)
    case("QLinearSoftmax", f"u8:{BIG}", s, z, const(1 / 256, np.float32), const(0, np.uint8), opset_=13, domain=ms)
    case("QGemm", "u8:512x512", s, z, RNG.integers(-99, 99, (512, 512)).astype(np.int8), s, const(0, np.int8), None, s, z, domain=ms)
    case("DynamicQuantizeMatMul", "f32:512x512", RNG.integers(-99, 99, (512, 512)).astype(np.int8), s, domain=ms)
    case("MatMulIntegerToFloat", "u8:512x512", RNG.integers(-99, 99, (512, 512)).astype(np.int8), s, s, domain=ms)
    case("QAttention", "u8:1x256x768", RNG.integers(-99, 99, (768, 2304)).astype(np.int8), weight(2304), s, s, None, z, const(0, np.int8), num_heads=12, domain=ms)


def build(c):
    names, feeds, inits = [], {}, []
    for i, x in enumerate(c["inputs"]):
        name = f"x{i}"
        if x is None:
            name = ""
        elif isinstance(x, str):
            feeds[name] = data(x)
        else:
            inits.append(numpy_helper.from_array(np.ascontiguousarray(x).reshape(np.shape(x)), name))
        names.append(name)
    attrs = {k.rstrip("_"): v for k, v in c["attrs"].items()}
    outs = [f"y{i}" for i in range(c["outs"])]
    node = helper.make_node(c["op"], names, outs, domain=c["domain"], **attrs)
    gi = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
    graph = helper.make_graph([node], "bench", gi, [onnx.ValueInfoProto(name=o) for o in outs], inits)
    imports = [helper.make_opsetid("", c["opset"])] + ([helper.make_opsetid(c["domain"], 1)] if c["domain"] else [])
    return helper.make_model(graph, ir_version=10, opset_imports=imports), feeds


class Theirs:
    def __init__(self, model, feeds, threads):
        o = ort.SessionOptions()
        o.intra_op_num_threads = threads
        o.log_severity_level = 4
        o.add_session_config_entry("session.force_spinning_stop", "1")
        self.s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
        self.io = self.s.io_binding()
        for k, v in feeds.items():
            self.io.bind_ortvalue_input(k, ort.OrtValue.ortvalue_from_numpy(v))
        for v in self.s.get_outputs():
            self.io.bind_output(v.name, "cpu")
        self.run(1)

    def run(self, n):
        got = []
        for _ in range(n):
            t0 = time.perf_counter()
            self.s.run_with_iobinding(self.io)
            got.append((time.perf_counter() - t0) * 1e3)
        return got


class Ours:
    def __init__(self, driver, threads):
        self.p = subprocess.Popen([driver, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def run(self, n):
        return [float(x) for x in self.ask(f"run {n}").split()]


def measure(c, driver, o, folder):
    model, feeds = build(c)
    try:
        theirs = Theirs(model, feeds, o.threads)
    except Exception as e:  # pylint: disable=broad-except
        return None, f"onnxruntime refuses: {str(e)[:150]}"
    onnx.save(model, folder + "/model.onnx")
    for i, a in enumerate(feeds.values()):
        with open(f"{folder}/input_{i}.pb", "wb") as f:
            f.write(numpy_helper.from_array(a).SerializeToString())
    answer = driver.ask(f"open {folder}/model.onnx {folder}")
    if answer != "ok":
        return None, f"infer: {answer}"
    warm = statistics.median(theirs.run(3))
    mine = statistics.median(driver.run(3))
    n = [max(3, min(40, int(o.burst / max(t, 1e-3)))) for t in (warm, mine)]
    ratios, a, b = [], [], []
    for k in range(3 * o.rounds):
        if k >= o.rounds and statistics.median(ratios) < 2:
            break  # what looks slow is looked at for longer
        x = statistics.median(theirs.run(n[0]))
        time.sleep(0.002)
        y = statistics.median(driver.run(n[1]))
        time.sleep(0.002)
        a.append(x)
        b.append(y)
        ratios.append(y / x)
    steps = driver.ask("steps")
    driver.ask("close")
    return (statistics.median(ratios), statistics.median(b), statistics.median(a), steps), None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--driver", required=True)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--burst", type=float, default=15, help="ms")
    p.add_argument("--match", default="")
    p.add_argument("--top", type=int, default=10**6)
    p.add_argument("--isa", help="avx2, avx512, vnni: as on a processor without what came later")
    o = p.parse_args()
    limit(o.isa, o.driver)
    for make in (elementwise, along, moving, layers, microsoft):
        make()
    want = re.compile(o.match)
    driver = Ours(o.driver, o.threads)
    rows, without = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        for c in CASES:
            if not want.search(c["label"]):
                continue
            got, why = measure(c, driver, o, folder)
            if got is None:
                without.append((c["label"], why))
            else:
                rows.append((c["label"], *got))
    rows.sort(key=lambda r: -r[1])
    print(f"{'operator':44} {'ratio':>7} {'ours ms':>9} {'theirs':>9}  kernels")
    for label, ratio, ours, theirs, steps in rows[:o.top]:
        print(f"{label:44} {ratio:7.2f} {ours:9.3f} {theirs:9.3f}  {steps[:80]}")
    for label, why in without:
        print(f"{label:44}       -  {why}")
    if rows:
        mean = math.exp(statistics.mean(math.log(max(r[1], 0.5)) for r in rows))
        print(f"{len(rows)} operators: geometric mean {mean:.3f} (each at least 0.5), {sum(r[1] > 1 for r in rows)} above 1.0, {sum(r[1] > 3 for r in rows)} above 3.0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
