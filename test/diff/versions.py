#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares models of one operator in several versions of ONNX, with ONNX Runtime (unoptimized) as the oracle.

    versions.py INFER FOLDER [CASE [N]]

Each case lists ways to write an operator: versions whose defaults or meaning differ, attributes that became inputs, and near
misses. All pairs of a case are run on random values. `infer diff --ignore opsets,metadata` must say "no difference" (status 0) if the
outputs are equal on each of them, and tell a difference (status 1) if they are not.
With N, infer is asked about every Nth pair only, whose cases then still have a pair each.
"""

import itertools
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper as nh

TYPES = {"f": T.FLOAT, "i": T.INT64, "b": T.BOOL, "h": T.FLOAT16, "u": T.UINT8}
random = np.random.default_rng(0)


class Way:
    """One way to write it: the version, the nodes (or the attributes of the only one), and the constants."""

    def __init__(self, opset, op, ins="x", outs="y", consts=None, domain="", nodes=None, **attrs):
        self.opset, self.consts = opset, consts or {}
        self.nodes = nodes or [h.make_node(op, ins.split(" "), outs.split(" "), domain=domain, **attrs)]
        self.nodes[-1].name = "node"

    def model(self, inputs, out):
        infos = [h.make_tensor_value_info(n, TYPES[t], s) for n, (t, s) in inputs.items()]
        inits = [nh.from_array(np.asarray(v), n) for n, v in self.consts.items()]
        graph = h.make_graph(self.nodes, "g", infos, [h.make_tensor_value_info("y", TYPES[out], None)], inits)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=10)


def ints(*v):
    return np.array(v, np.int64)


def f(*v):
    return np.array(v, np.float32)


def cases():
    x = {"x": ("f", [2, 3, 4])}
    image = {"x": ("f", [1, 4, 6, 6])}
    odd = {"x": ("f", [1, 2, 5, 5])}
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield op, x, [Way(v, op, **a) for v in (1, 11, 13, 18) for a in ({}, {"axis": 1}, {"axis": 2}, {"axis": 0}) if v > 1 or a] + [
            Way(v, op, axis=-1) for v in (11, 13)]
    rois = {"x": ("f", [1, 2, 8, 8]), "r": ("f", [2, 4]), "n": ("i", [2])}
    yield "RoiAlign", rois, [Way(v, "RoiAlign", "x r n", output_height=2, output_width=2, **a)
                             for v, a in ((10, {}), (16, {}), (22, {}), (16, {"coordinate_transformation_mode": "output_half_pixel"}),
                                          (16, {"coordinate_transformation_mode": "half_pixel"}), (16, {"mode": "max"}))]
    by = {"s": f(1, 1, 1.5, 1.5)}
    half = {"coordinate_transformation_mode": "half_pixel"}
    asym = {"coordinate_transformation_mode": "asymmetric"}
    for mode in ("nearest", "linear"):
        near = {"nearest_mode": "floor"} if mode == "nearest" else {}
        yield "Resize " + mode, image, [
            Way(7, "Upsample", mode=mode, scales=[1.0, 1.0, 1.5, 1.5]), Way(9, "Upsample", "x s", consts=by, mode=mode),
            Way(10, "Resize", "x s", consts=by, mode=mode), Way(11, "Resize", "x e s", consts={**by, "e": f()}, mode=mode, **asym, **near),
            Way(13, "Resize", "x  s", consts=by, mode=mode, **asym, **near), Way(13, "Resize", "x  s", consts=by, mode=mode),
            Way(18, "Resize", "x  s", consts=by, mode=mode, **half), Way(19, "Resize", "x  s", consts=by, mode=mode, **asym),
            Way(11, "Resize", "x e s", consts={**by, "e": f()}, mode=mode), Way(18, "Resize", "x  s", consts={"s": f(1.5, 1.5)}, mode=mode, axes=[2, 3]),
            Way(18, "Resize", "x  s", consts=by, mode=mode, antialias=1)]
    stats = {"s": f(1, 2, 3, 4), "b": f(0, 1, 0, 1), "m": f(.5, 0, 1, 2), "v": f(1, 2, 3, 1)}
    yield "BatchNormalization", image, [Way(v, "BatchNormalization", "x s b m v", consts=stats, **a)
                                        for v in (7, 9, 14, 15) for a in ({}, {"epsilon": 1e-2}, {"momentum": 0.5})]
    other = {**stats, "v": f(2, 2, 3, 1)}
    yield "BatchNormalization of other statistics", image, [Way(9, "BatchNormalization", "x s b m v", consts=stats),
                                                           Way(15, "BatchNormalization", "x s b m v", consts=other)]
    yield "Dropout", x, [Way(7, "Dropout"), Way(10, "Dropout", ratio=0.25), Way(12, "Dropout"), Way(13, "Dropout", "x r", consts={"r": np.float32(.3)}),
                         Way(13, "Identity"), Way(13, "Dropout", "x r t", consts={"r": np.float32(0), "t": np.array(True)}), Way(13, "Abs")]
    low, high = np.float32(-.5), np.float32(.5)
    yield "Clip", x, [Way(6, "Clip", min=-.5, max=.5), Way(11, "Clip", "x l h", consts={"l": low, "h": high}), Way(12, "Clip", "x l h", consts={"l": low, "h": high}),
                      Way(6, "Clip", min=-.5), Way(13, "Clip", "x l", consts={"l": low}), Way(6, "Clip", max=.5), Way(13, "Clip", "x  h", consts={"h": high}),
                      Way(6, "Clip"), Way(13, "Clip"), Way(6, "Clip", min=0.0), Way(13, "Relu")]
    unit = {"x": ("f", [2, 1, 4, 1])}
    yield "Squeeze", unit, [Way(1, "Squeeze", axes=[1]), Way(11, "Squeeze", axes=[-3]), Way(13, "Squeeze", "x a", consts={"a": ints(1)}), Way(11, "Squeeze"),
                            Way(13, "Squeeze"), Way(13, "Squeeze", "x a", consts={"a": ints(1, 3)}), Way(11, "Squeeze", axes=[3]), Way(21, "Squeeze", "x a", consts={"a": ints(-1)})]
    yield "Unsqueeze", x, [Way(1, "Unsqueeze", axes=[1]), Way(11, "Unsqueeze", axes=[1]), Way(13, "Unsqueeze", "x a", consts={"a": ints(1)}), Way(11, "Unsqueeze", axes=[-1]),
                           Way(13, "Unsqueeze", "x a", consts={"a": ints(-1)}), Way(21, "Unsqueeze", "x a", consts={"a": ints(0)})]
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"):
        new = 13 if op == "ReduceSum" else 18
        yield op, x, [Way(1, op, axes=[1]), Way(11, op, axes=[-2]), Way(12, op, axes=[1]), Way(new, op, "x a", consts={"a": ints(1)}), Way(11, op), Way(new, op),
                      Way(11, op, axes=[1], keepdims=0), Way(new, op, "x a", consts={"a": ints(1)}, keepdims=0), Way(new, op, noop_with_empty_axes=1),
                      Way(new, op, "x a", consts={"a": ints()}, noop_with_empty_axes=1), Way(new, op, "x a", consts={"a": ints()}), Way(new, op, "x a", consts={"a": ints(2)}),
                      Way(20, op, "x a", consts={"a": ints(1)}, noop_with_empty_axes=1)]
    for op in ("ArgMax", "ArgMin"):
        yield op, x, [Way(v, op, **a) for v in (1, 11, 12, 13) for a in ({}, {"axis": 1}, {"axis": 1, "keepdims": 0})]
    pads = {"p": ints(0, 0, 1, 0, 1, 0)}
    yield "Pad", x, [Way(2, "Pad", pads=[0, 0, 1, 0, 1, 0]), Way(2, "Pad", pads=[0, 0, 1, 0, 1, 0], value=1.0), Way(11, "Pad", "x p", consts=pads),
                     Way(13, "Pad", "x p v", consts={**pads, "v": np.float32(1)}), Way(18, "Pad", "x p  a", consts={"p": ints(0, 1, 1, 0), "a": ints(1, 2)}),
                     Way(19, "Pad", "x p", consts=pads, mode="edge"), Way(2, "Pad", pads=[0, 0, 1, 0, 1, 0], mode="edge"), Way(2, "Pad", pads=[0, 0, 1, 0, 1, 0], mode="reflect"),
                     Way(19, "Pad", "x p", consts=pads, mode="wrap"), Way(21, "Pad", "x p v", consts={**pads, "v": np.float32(0)})]
    part = {"s": ints(0, 1), "e": ints(2, 3), "a": ints(1, 2)}
    yield "Slice", x, [Way(1, "Slice", starts=[0, 1], ends=[2, 3], axes=[1, 2]), Way(10, "Slice", "x s e a", consts=part), Way(11, "Slice", "x s e a", consts=part),
                       Way(13, "Slice", "x s e a t", consts={**part, "t": ints(1, 1)}), Way(13, "Slice", "x s e a t", consts={**part, "t": ints(1, 2)}),
                       Way(1, "Slice", starts=[0, 1], ends=[2, 3]), Way(13, "Slice", "x s e", consts={"s": part["s"], "e": part["e"]}),
                       Way(1, "Slice", starts=[0, 1], ends=[-1, -1], axes=[1, 2]), Way(13, "Slice", "x s e a", consts={**part, "a": ints(-2, -1)})]
    yield "TopK", x, [Way(1, "TopK", "x", "y i", k=2), Way(10, "TopK", "x k", "y i", consts={"k": ints(2)}), Way(11, "TopK", "x k", "y i", consts={"k": ints(2)}),
                      Way(11, "TopK", "x k", "y i", consts={"k": ints(2)}, largest=0), Way(1, "TopK", "x", "y i", k=2, axis=1), Way(11, "TopK", "x k", "y i", consts={"k": ints(2)}, axis=1),
                      Way(11, "TopK", "x k", "y i", consts={"k": ints(3)}), Way(10, "TopK", "x k", "y i", consts={"k": ints(2)}, axis=-1)]
    four = {"x": ("f", [2, 4])}
    yield "Split", four, [Way(2, "Split", "x", "y z", axis=1, split=[1, 3]), Way(11, "Split", "x", "y z", axis=-1, split=[1, 3]), Way(13, "Split", "x s", "y z", consts={"s": ints(1, 3)}, axis=1),
                          Way(18, "Split", "x s", "y z", consts={"s": ints(1, 3)}, axis=1), Way(2, "Split", "x", "y z", axis=1), Way(13, "Split", "x", "y z", axis=1),
                          Way(18, "Split", "x", "y z", axis=1, num_outputs=2), Way(2, "Split", "x", "z y", axis=1), Way(18, "Split", "x", "y z", axis=0, num_outputs=2),
                          Way(13, "Split", "x", "y z"), Way(2, "Split", "x", "y z")]
    moved = {"i": np.array([[0, 1], [1, 0]], np.int64), "u": np.array([[5, 6], [7, 8]], np.float32)}
    yield "Scatter", four, [Way(9, "Scatter", "x i u", consts=moved), Way(11, "ScatterElements", "x i u", consts=moved), Way(13, "ScatterElements", "x i u", consts=moved),
                            Way(16, "ScatterElements", "x i u", consts=moved), Way(18, "ScatterElements", "x i u", consts=moved), Way(18, "ScatterElements", "x i u", consts=moved, reduction="add"),
                            Way(16, "ScatterElements", "x i u", consts=moved, reduction="add"), Way(9, "Scatter", "x i u", consts=moved, axis=1),
                            Way(18, "ScatterElements", "x i u", consts=moved, axis=-1), Way(18, "ScatterElements", "x i u", consts=moved, reduction="max")]
    at = {"i": np.array([[0], [1]], np.int64), "u": np.array([[5, 6, 7, 8], [1, 2, 3, 4]], np.float32)}
    yield "ScatterND", four, [Way(v, "ScatterND", "x i u", consts=at) for v in (11, 13, 16, 18)] + [Way(v, "ScatterND", "x i u", consts=at, reduction="add") for v in (16, 18)]
    yield "GatherND", four, [Way(v, "GatherND", "x i", consts={"i": at["i"]}, **a) for v in (11, 12, 13) for a in ({}, {"batch_dims": 1}) if v > 11 or not a]
    grid = {"x": ("f", [1, 2, 5, 5]), "g": ("f", [1, 3, 3, 2])}
    yield "GridSample", grid, [Way(v, "GridSample", "x g", **a) for v, a in (
        (16, {}), (20, {}), (16, {"mode": "bilinear"}), (20, {"mode": "linear"}), (16, {"mode": "bicubic"}), (20, {"mode": "cubic"}), (16, {"mode": "nearest"}),
        (20, {"mode": "nearest"}), (16, {"align_corners": 1}), (22, {"align_corners": 1}), (20, {"padding_mode": "border"}))]
    yield "Gelu", x, [Way(20, "Gelu"), Way(20, "Gelu", approximate="none"), Way(20, "Gelu", approximate="tanh")]
    group = {"x": ("f", [1, 4, 3])}
    yield "GroupNormalization", group, [Way(18, "GroupNormalization", "x s b", consts={"s": f(1, 2), "b": f(0, 1)}, num_groups=2),
                                        Way(21, "GroupNormalization", "x s b", consts={"s": f(1, 1, 2, 2), "b": f(0, 0, 1, 1)}, num_groups=2),
                                        Way(21, "GroupNormalization", "x s b", consts={"s": f(1, 2, 1, 2), "b": f(0, 1, 0, 1)}, num_groups=2),
                                        Way(18, "GroupNormalization", "x s b", consts={"s": f(1, 2), "b": f(0, 1)}, num_groups=2, epsilon=1e-2)]
    yield "LayerNormalization", x, [Way(17, "LayerNormalization", "x w", consts={"w": f(1, 2, 3, 4)}), Way(17, "LayerNormalization", "x w", consts={"w": f(1, 2, 3, 4)}, epsilon=1e-2),
                                    Way(18, "LayerNormalization", "x w b", consts={"w": f(1, 2, 3, 4), "b": f(0, 0, 0, 0)})]
    for op in ("AveragePool", "MaxPool"):
        count = [{"count_include_pad": 1, "pads": [1, 1, 1, 1]}] if op == "AveragePool" else []
        yield op, odd, [Way(v, op, kernel_shape=[2, 2], strides=[2, 2], **a) for v in ((7, 10, 19) if op == "AveragePool" else (1, 10, 12))
                        for a in [{}, {"ceil_mode": 1}, {"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}] + count if v >= 10 or "ceil_mode" not in a]
    yield "LpPool", odd, [Way(v, "LpPool", kernel_shape=[2, 2], **a) for v in (2, 11, 18, 22) for a in ({}, {"p": 1})]
    yield "GlobalLpPool", odd, [Way(v, "GlobalLpPool", **a) for v in (2, 22) for a in ({}, {"p": 1})]
    yield "ConstantOfShape", {"x": ("i", [2])}, [Way(v, "ConstantOfShape", **a) for v in (9, 20, 21) for a in ({}, {"value": nh.from_array(f(0))}, {"value": nh.from_array(f(1))})]
    yield "Flatten", x, [Way(v, "Flatten", **a) for v, a in ((1, {}), (9, {}), (11, {"axis": -2}), (13, {"axis": 1}), (13, {"axis": 2}), (13, {"axis": 0}))]
    yield "Concat", {"x": ("f", [2, 2]), "z": ("f", [2, 2])}, [Way(v, "Concat", "x z", axis=a) for v, a in ((4, 1), (11, -1), (13, 1), (13, 0), (4, 0))]
    yield "Gather", four, [Way(v, "Gather", "x i", consts={"i": ints(0, 1)}, **a) for v, a in ((1, {}), (11, {}), (13, {"axis": 0}), (13, {"axis": 1}), (11, {"axis": -1}))]
    yield "OneHot", {"x": ("i", [3])}, [Way(v, "OneHot", "x d v", consts={"d": ints(3), "v": f(0, 1)}, **a) for v, a in ((9, {}), (11, {}), (11, {"axis": 0}), (9, {"axis": 1}))]
    yield "DepthToSpace", {"x": ("f", [1, 8, 2, 2])}, [Way(v, "DepthToSpace", blocksize=2, **a) for v, a in ((1, {}), (11, {}), (13, {"mode": "DCR"}), (13, {"mode": "CRD"}), (11, {"mode": "CRD"}))]
    wide = {"x": ("f", [2, 3]), "w": ("f", [3, 4]), "c": ("f", [4])}
    yield "Gemm", wide, [Way(v, "Gemm", "x w c", **a) for v in (7, 9, 11, 13) for a in ({}, {"alpha": 2.0}, {"beta": 0.5})]
    yield "Gemm without C", wide, [Way(v, "Gemm", "x w", **a) for v in (11, 13) for a in ({}, {"alpha": 2.0})] + [Way(13, "MatMul", "x w")]
    two = {"x": ("f", [2, 3]), "z": ("f", [2, 3])}
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean"):
        first = 8 if op in ("Max", "Min", "Sum", "Mean") else 7
        yield op, two, [Way(v, op, i) for v in (first, 13, 14) for i in ("x z", "z x")]
    yield "Pow", {"x": ("f", [2, 3])}, [Way(v, "Pow", "x p", consts={"p": np.float32(p)}) for v in (7, 12, 13, 15) for p in (2, 3)]
    yield "PRelu", x, [Way(v, "PRelu", "x s", consts={"s": s}) for v in (7, 9, 16) for s in (f(.25), f(.5))]
    yield "LeakyRelu", x, [Way(v, "LeakyRelu", **a) for v in (6, 16) for a in ({}, {"alpha": 0.01}, {"alpha": 0.02})]
    yield "Selu", x, [Way(v, "Selu", **a) for v, a in ((6, {}), (22, {}), (6, {"alpha": 1.5}))]
    yield "HardSigmoid", x, [Way(v, "HardSigmoid", **a) for v, a in ((6, {}), (22, {}), (6, {"alpha": 1 / 6}))]
    yield "HardSwish", x, [Way(14, "HardSwish"), Way(22, "HardSwish"), Way(14, "HardSigmoid", alpha=1 / 6)]
    yield "Elu", x, [Way(v, "Elu", **a) for v, a in ((6, {}), (22, {}), (6, {"alpha": 2.0}))]
    yield "ThresholdedRelu", x, [Way(v, "ThresholdedRelu", **a) for v, a in ((10, {}), (22, {}), (10, {"alpha": .5}))]
    yield "Cast", x, [Way(v, nodes=[h.make_node("Cast", ["x"], ["c"], to=t), h.make_node("Cast", ["c"], ["y"], to=1)], op="") for v, t in ((6, 6), (9, 6), (13, 6), (19, 6), (21, 10), (13, 10), (13, 9))]
    q = {"s": np.float32(.1), "z": np.uint8(3)}
    for a, b in ((10, 13), (13, 19), (19, 21)):
        yield f"QuantizeLinear {a} {b}", x, [Way(v, nodes=[h.make_node("QuantizeLinear", ["x", "s", "z"], ["c"]), h.make_node("DequantizeLinear", ["c", "s", "z"], ["y"])], op="", consts=c)
                                            for v in (a, b) for c in (q, {**q, "s": np.float32(.2)}, {**q, "z": np.uint8(9)})]
    scales = {"s": f(.1, .2, .3, .4), "z": np.array([1, 2, 3, 4], np.uint8)}
    yield "QuantizeLinear of an axis", {"x": ("f", [1, 4, 4])}, [
        Way(v, nodes=[h.make_node("QuantizeLinear", ["x", "s", "z"], ["c"], **a), h.make_node("DequantizeLinear", ["c", "s", "z"], ["y"], **a)], op="", consts=scales)
        for v in (13, 19) for a in ({}, {"axis": 1}, {"axis": -1})]
    cell = {"w": random.standard_normal((1, 12, 3)).astype("f"), "r": random.standard_normal((1, 12, 3)).astype("f")}
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = {k: v[:, :3 * gates] for k, v in cell.items()}
        yield op, {"x": ("f", [2, 1, 3])}, [Way(v, op, "x w r", consts=weights, hidden_size=3, **a) for v in (7, 14, 22) for a in ({}, {"direction": "reverse"}, {"clip": 0.1})] + (
            [Way(14, op, "x w r", consts=weights, hidden_size=3, linear_before_reset=1)] if op == "GRU" else [])
    yield "Conv", image, [Way(v, "Conv", "x w", consts={"w": random.standard_normal((2, 4, 3, 3)).astype("f") * 0 + c}, **a) for v in (1, 11) for c in (1, 2) for a in ({}, {"pads": [1, 1, 1, 1]}, {"auto_pad": "SAME_UPPER"})]
    yield "InstanceNormalization", image, [Way(v, "InstanceNormalization", "x s b", consts={k: stats[k] for k in "sb"}, **a) for v in (6, 22) for a in ({}, {"epsilon": 1e-2})]
    yield "MeanVarianceNormalization", image, [Way(v, "MeanVarianceNormalization", **a) for v, a in ((9, {}), (13, {}), (13, {"axes": [1, 2, 3]}), (9, {"axes": [0, 2, 3]}))]
    yield "CumSum", x, [Way(v, "CumSum", "x k", consts={"k": np.int64(1)}, **a) for v in (11, 14) for a in ({}, {"reverse": 1}, {"exclusive": 1})]
    yield "Tile", four, [Way(v, "Tile", "x r", consts={"r": ints(*r)}) for v in (6, 13) for r in ((1, 2), (2, 1))]
    yield "Expand", {"x": ("f", [1, 4])}, [Way(v, "Expand", "x r", consts={"r": ints(*r)}) for v in (8, 13) for r in ((2, 4), (3, 4))]
    yield "Transpose", x, [Way(v, "Transpose", **a) for v, a in ((1, {}), (13, {"perm": [2, 1, 0]}), (21, {"perm": [0, 2, 1]}), (13, {}))]
    yield "Reshape", four, [Way(v, "Reshape", "x s", consts={"s": ints(*s)}, **a) for v, s, a in ((5, (4, 2), {}), (13, (4, -1), {}), (14, (4, 2), {"allowzero": 1}), (14, (0, 4), {}), (5, (2, 2, 2), {}))]
    yield "Shape", x, [Way(v, nodes=[h.make_node("Shape", ["x"], ["c"], **a), h.make_node("Cast", ["c"], ["y"], to=1)], op="") for v, a in ((1, {}), (13, {}), (15, {}), (15, {"start": 1}), (15, {"start": -2}), (15, {"end": 2}))]
    yield "Mod", two, [Way(v, "Mod", "x z", fmod=1) for v in (10, 13)]
    yield "IsNaN and IsInf", x, [Way(v, nodes=[h.make_node("Log", ["x"], ["c"]), h.make_node(op, ["c"], ["d"], **a), h.make_node("Cast", ["d"], ["y"], to=1)], op="")
                                 for v, op, a in ((10, "IsInf", {}), (20, "IsInf", {}), (13, "IsNaN", {}), (20, "IsNaN", {}))]
    yield "Einsum and MatMul", wide, [Way(9, "MatMul", "x w"), Way(13, "MatMul", "x w"), Way(13, "Einsum", "x w", equation="ij,jk->ik")]
    yield "LRN", image, [Way(v, "LRN", size=3, **a) for v in (1, 13) for a in ({}, {"alpha": .5}, {"bias": 2.0})]
    yield "LpNormalization", x, [Way(v, "LpNormalization", **a) for v in (1, 22) for a in ({}, {"axis": 1}, {"p": 1})]
    yield "Trilu", four, [Way(14, "Trilu"), Way(14, "Trilu", upper=0), Way(14, "Trilu", "x k", consts={"k": np.int64(0)}), Way(14, "Trilu", "x k", consts={"k": np.int64(1)})]
    signal = {"x": ("f", [1, 8, 1])}
    yield "DFT", signal, [Way(17, "DFT", axis=1), Way(20, "DFT", "x  a", consts={"a": np.int64(1)}), Way(17, "DFT"), Way(20, "DFT"), Way(17, "DFT", axis=1, onesided=1),
                          Way(20, "DFT", "x  a", consts={"a": np.int64(1)}, onesided=1)]
    boxes = {"x": ("f", [2, 3])}
    yield "Where", boxes, [Way(v, nodes=[h.make_node("Cast", ["x"], ["c"], to=9), h.make_node("Where", ["c", *o], ["y"])], op="", consts={"k": np.float32(7)}) for v in (9, 16) for o in (("x", "k"), ("k", "x"))]


def values(kind, shape):
    if kind == "i":
        return random.integers(0, 2, shape) if shape == [2] else random.integers(0, 3, shape)
    return random.standard_normal(shape).astype(np.float32)


def boxed(name, feed):
    """Regions of RoiAlign: x1 y1 x2 y2 in the image, all of batch 0."""
    if name == "RoiAlign":
        corner = random.uniform(0, 3, (2, 2))
        feed["r"] = np.hstack([corner, corner + random.uniform(1, 4, (2, 2))]).astype(np.float32)
        feed["n"] = np.zeros(2, np.int64)
    if name == "ConstantOfShape":
        feed["x"] = random.integers(1, 4, 2)
    return feed


def run(path, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return [session.run(["y"], {i.name: feed[i.name] for i in session.get_inputs()})[0] for feed in feeds]
    except Exception as e:  # a version that ONNX Runtime does not run
        return str(e)


def same(a, b):
    return all(p.shape == q.shape and np.allclose(p, q, 1e-5, 1e-6, equal_nan=True) for p, q in zip(a, b))


# Cases with pairs that give equal outputs for these sizes or these values alone, and are told as differences:
UNLIKE = {
    # half_pixel with round_prefer_floor and asymmetric with floor take the same pixels if 6 become 9; with other sizes they do not
    "Resize nearest",
    # by ONNX's text reduction=max keeps the larger of the datum and the update; here each update is larger
    "Scatter",
}


def main():
    infer, folder = sys.argv[1:3]
    each = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    wrong = pairs = unable = 0
    for name, inputs, ways in cases():
        if len(sys.argv) > 3 and sys.argv[3] not in name:
            continue
        feeds = [boxed(name, {n: values(t, s) for n, (t, s) in inputs.items()}) for _ in range(4)]
        feeds.append({n: v * (3 if v.dtype == np.float32 and n == "x" else 1) for n, v in feeds[0].items()})
        made = []
        for i, way in enumerate(ways):
            path = f"{folder}/{i}.onnx"
            onnx.save(way.model(inputs, "f" if name not in ("ArgMax", "ArgMin") else "i"), path)
            outs = run(path, feeds)
            if isinstance(outs, str):
                unable += 1
                print(f"# {name} {i}: {outs.splitlines()[0][:150]}")
            else:
                made.append((i, path, outs))
        if len(made) < 2:
            wrong += 1
            print(f"{name}: ONNX Runtime runs fewer than two of its models")
        for (i, a, p), (j, b, q) in itertools.islice(itertools.combinations(made, 2), 0, None, each):
            pairs += 1
            want = 0 if same(p, q) else 1
            told = subprocess.run([infer, "diff", a, b, "--ignore", "opsets,metadata,interface"], capture_output=True, text=True)
            if told.returncode != want and not (want == 0 and told.returncode == 1 and name in UNLIKE):
                wrong += 1
                what = ["equal", "different"][want]
                line = lambda w: f"{w.opset} " + " ".join(onnx.printer.to_text(n).strip() for n in w.nodes)
                print(f"{name}: {what} in ONNX Runtime, but infer diff returns {told.returncode}\n  {line(ways[i])}\n  {line(ways[j])}")
    print(f"{pairs} pairs, {wrong} wrong, {unable} models that ONNX Runtime does not run")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
