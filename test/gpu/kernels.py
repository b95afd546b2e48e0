#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases that reach what the conformance cases do not: our kernels in every type and form.

usage: kernels.py FOLDER

Writes FOLDER/kernels/CASE/{model.onnx,test_data_set_0/input_K.pb} and FOLDER/manifest.tsv, for
`conformance/run FOLDER -d cuda -c`: what the outputs should be the CPU says. test/gpu/sanitize.sh runs them.
"""

import itertools
import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(5)
POOL = RNG.integers(0, 256, 1009) / 256
INTS = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
ALL = INTS + FLOATS
BY_SIZE = ["u8", "f16", "f32", "f64", "c128"]
HALVES = ["f32", "f16", "bf16"]
NP = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i8": np.int8, "i16": np.int16,
      "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
      "f64": np.float64, "bool": np.bool_, "c128": np.complex128, "f8": ml_dtypes.float8_e4m3fn}
ELEM = {"u8": T.UINT8, "u16": T.UINT16, "u32": T.UINT32, "u64": T.UINT64, "i8": T.INT8, "i16": T.INT16,
        "i32": T.INT32, "i64": T.INT64, "f16": T.FLOAT16, "bf16": T.BFLOAT16, "f32": T.FLOAT, "f64": T.DOUBLE,
        "bool": T.BOOL, "c128": T.COMPLEX128, "f8": T.FLOAT8E4M3FN}
MADE = []


def numbers(t, shape, low=0, high=4):
    """Of one pool: a folder of cases that packs well can be carried."""
    x = np.resize(POOL, shape) * (high - low) + low
    if t in INTS:
        x = np.rint(np.maximum(x, 0) if t[0] == "u" else x)
    return np.asarray(x).astype(NP[t])


def tensor(name, x, t):
    """numpy_helper knows no types of ml_dtypes."""
    if t not in ("bf16", "f8"):
        return nh.from_array(np.asarray(x), name)
    return h.make_tensor(name, ELEM[t], x.shape, x.tobytes(), raw=True)


class Case:
    """Nodes, with inputs and constants as they come up."""

    def __init__(self, name, opset=23, precision=None):
        self.name, self.opset, self.precision = name, opset, precision
        self.nodes, self.inputs, self.constants, self.n = [], [], [], 0

    def x(self, t, *shape, low=-3, high=3):
        return self.given(t, numbers(t, shape, low, high))

    def given(self, t, value):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, t, np.asarray(value, NP[t])))
        return name

    def w(self, t, *shape, low=-1, high=1):
        return self.constant(t, numbers(t, shape, low, high))

    def constant(self, t, value):
        name = f"c{len(self.constants)}"
        self.constants.append(tensor(name, np.asarray(value, NP[t]), t))
        return name

    def op(self, op, *ins, outs=1, domain="", **attrs):
        names = [f"v{self.n + i}" for i in range(outs)]
        self.n += outs
        self.nodes.append(h.make_node(op, list(ins), names, domain=domain, **attrs))
        return names[0] if outs == 1 else names

    def depthwise(self, t, wide, n=12):
        """A value that lies channels last."""
        x = self.op("Conv", self.x(t, 2, wide, n, n), self.w(t, wide, 1, 3, 3), self.w(t, wide), pads=[1] * 4, group=wide)
        return self.op("Relu", x)

    def end(self, *outs, t=None, free=False):
        """
        Kept where it is a model by onnx's own rules; t: type of the outputs of an operator that onnx may not know; `free` sizes
        are not declared.
        """
        graph = h.make_graph(self.nodes, "g", [h.make_tensor_value_info(n, ELEM[t_], [None] * v.ndim if free else v.shape)
                                               for n, t_, v in self.inputs],
                             [onnx.ValueInfoProto(name=o) for o in outs], self.constants)
        opsets = [h.make_opsetid("", self.opset)] + [h.make_opsetid(d, 1) for d in sorted({n.domain for n in self.nodes} - {""})]
        model = h.make_model(graph, opset_imports=opsets, ir_version=10)
        for o in model.graph.output if t else []:
            o.type.tensor_type.elem_type = ELEM[t]
        try:
            if not t:
                known = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
                for o, k in zip(model.graph.output, known.graph.output):
                    o.CopyFrom(k)
        except (onnx.shape_inference.InferenceError, RuntimeError) as e:
            if "-v" in sys.argv:
                print(f"# {self.name}: {str(e)[:150]}")
            return
        folder = os.path.join(sys.argv[1], "kernels", self.name, "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        onnx.save(model, os.path.join(os.path.dirname(folder), "model.onnx"))
        for i, (n, t_, v) in enumerate(self.inputs):
            with open(os.path.join(folder, f"input_{i}.pb"), "wb") as f:
                f.write(tensor(n, v, t_).SerializeToString())
        MADE.append((self.name, self.precision))


def i64(c, *v):
    return c.constant("i64", np.array(v))


def each(types, name, make, **more):
    for t in types:
        c = Case(f"{name}_{t}", **more)
        out = make(c, t)
        c.end(*(out if isinstance(out, (list, tuple)) else [out]))


def rows():
    each(ALL, "reduce_max", lambda c, t: c.op("ReduceMax", c.x(t, 5, 40, 6), i64(c, 1)))
    each(ALL, "reduce_sum", lambda c, t: c.op("ReduceSum", c.x(t, 5, 2000, low=0, high=2), i64(c, 1)))
    each(ALL, "argmax", lambda c, t: c.op("ArgMax", c.x(t, 5, 333), axis=1, select_last_index=1))
    each(ALL, "argmin", lambda c, t: c.op("ArgMin", c.x(t, 5, 333, 3), axis=1))
    each(ALL, "cumsum", lambda c, t: c.op("CumSum", c.x(t, 5, 90, 3, low=0, high=2), i64(c, 1)))
    each(ALL, "cumsum_at_run_time", lambda c, t: c.op("CumSum", c.x(t, 5, 90, 3, low=0, high=2), c.given("i64", [1]), exclusive=1))
    each(FLOATS, "cumprod", lambda c, t: c.op("CumProd", c.x(t, 5, 9, 3, low=0, high=2), i64(c, 1)), opset=26)
    for n in (7, 64, 1000, 5000):
        each(FLOATS, f"softmax{n}", lambda c, t, n=n: c.op("Softmax", c.x(t, 9, n)))
        each(FLOATS, f"log_softmax{n}", lambda c, t, n=n: c.op("LogSoftmax", c.x(t, 9, n)))
        each(FLOATS, f"layer_norm{n}", lambda c, t, n=n: c.op("LayerNormalization", c.x(t, 9, n), c.w(t, n), c.w(t, n), axis=-1))
        each(FLOATS, f"rms_norm{n}", lambda c, t, n=n: c.op("RMSNormalization", c.x(t, 9, n), c.w(t, n), axis=-1))
    for n in (64, 768, 4096):
        each(HALVES, f"norm_of_one_row{n}", lambda c, t, n=n: c.op("LayerNormalization", c.x(t, 1, n), c.w(t, n), c.w(t, n), axis=-1))
        each(HALVES, f"root_norm_of_one_row{n}", lambda c, t, n=n: c.op("RMSNormalization", c.x(t, 2, n), c.w(t, n), axis=-1))
    each(FLOATS, "softmax_axis1", lambda c, t: c.op("Softmax", c.x(t, 3, 40, 5), axis=1))
    each(FLOATS, "instance_norm", lambda c, t: c.op("InstanceNormalization", c.x(t, 2, 6, 9, 7), c.w(t, 6), c.w(t, 6)))
    each(FLOATS, "group_norm", lambda c, t: c.op("GroupNormalization", c.x(t, 2, 6, 9, 7), c.w(t, 6), c.w(t, 6), num_groups=3))
    each(FLOATS, "batch_norm_at_run_time", lambda c, t: c.op("BatchNormalization", c.x(t, 2, 6, 9, 7), c.x(t, 6), c.x(t, 6),
                                                             c.x(t, 6), c.x(t, 6, low=.5, high=2)))
    each(FLOATS, "batch_norm", lambda c, t: c.op("BatchNormalization", c.x(t, 2, 6, 9, 7), c.w(t, 6), c.w(t, 6), c.w(t, 6),
                                                 c.w(t, 6, low=.5, high=2)))
    for q in ("u8", "i8", "u16", "i16"):
        for t in HALVES:
            c = Case(f"quantize_{t}_{q}")
            c.end(c.op("QuantizeLinear", c.x(t, 5, 33), c.constant(t, .1), c.constant(q, 3)))
            c = Case(f"dequantize_{q}_{t}")
            c.end(c.op("DequantizeLinear", c.x(q, 5, 33), c.constant(t, .1), c.constant(q, 3)))


def elements():
    for op in ("Abs", "Neg", "Sign"):
        each(ALL, op.lower(), lambda c, t, op=op: c.op(op, c.x(t, 700)))
    for op in ("Sqrt", "Erf", "Round", "IsNaN", "IsInf", "Gelu"):
        each(FLOATS, op.lower(), lambda c, t, op=op: c.op(op, c.x(t, 700, low=0)))
    each(INTS, "not_bits", lambda c, t: c.op("BitwiseNot", c.x(t, 700)))
    each(ALL, "clip", lambda c, t: c.op("Clip", c.x(t, 700), c.constant(t, 1), c.constant(t, 2)))
    each(ALL, "clip_at_run_time", lambda c, t: c.op("Clip", c.x(t, 700), c.given(t, 1), c.given(t, 2)))
    each(ALL, "add", lambda c, t: c.op("Add", c.x(t, 5, 70), c.x(t, 70)))
    each(ALL, "less", lambda c, t: c.op("Less", c.x(t, 5, 70), c.x(t, 70)))
    each(ALL, "equal", lambda c, t: c.op("Equal", c.x(t, 5, 70), c.x(t, 5, 1)))
    each(ALL, "max", lambda c, t: c.op("Max", c.x(t, 5, 70), c.x(t, 70), c.x(t, 5, 1)))
    each(FLOATS, "mean", lambda c, t: c.op("Mean", c.x(t, 5, 70), c.x(t, 70), c.x(t, 5, 1)))
    each(ALL + ["bool"], "where", lambda c, t: c.op("Where", c.given("bool", RNG.random((5, 70)) < .5), c.x(t, 5, 70), c.x(t, 70)))
    for a in ALL + ["bool"]:
        for b in ALL + ["bool"]:
            c = Case(f"cast_{a}_{b}")
            c.end(c.op("Cast", c.x(a, 333, low=0), to=ELEM[b]))
    each(FLOATS, "several", lambda c, t: c.op("Mul", c.op("Sigmoid", c.op("Add", c.x(t, 5, 70), c.w(t, 70))), c.x(t, 5, 70)))
    each(FLOATS, "range_at_run_time", lambda c, t: c.op("Range", c.given(t, 1), c.given(t, 9000), c.given(t, .5)))
    each(["i16", "i32", "i64"], "range", lambda c, t: c.op("Range", c.given(t, 1), c.given(t, 30000), c.given(t, 3)))
    each(["f32", "f64", "i32", "i64"], "pow", lambda c, t: c.op("Pow", c.x(t, 40, low=0), c.x("i32", 40, low=0)))


def moves():
    each(BY_SIZE, "transpose", lambda c, t: c.op("Transpose", c.x(t, 6, 7, 8), perm=[2, 0, 1]))
    each(BY_SIZE, "concat", lambda c, t: c.op("Concat", c.x(t, 6, 7, 8), c.x(t, 6, 2, 8), axis=1))
    each(BY_SIZE, "slice", lambda c, t: c.op("Slice", c.x(t, 20, 30), i64(c, 1, -1), i64(c, 19, -29), i64(c, 0, 1), i64(c, 2, -3)))
    each(BY_SIZE, "split", lambda c, t: c.op("Split", c.x(t, 6, 8), axis=1, num_outputs=2, outs=2))
    each(BY_SIZE, "expand", lambda c, t: c.op("Expand", c.x(t, 6, 1, 8), i64(c, 6, 5, 8)))
    each(BY_SIZE, "tile", lambda c, t: c.op("Tile", c.x(t, 6, 8), i64(c, 2, 3)))
    for mode in ("constant", "reflect", "edge", "wrap"):
        each(BY_SIZE, f"pad_{mode}", lambda c, t, mode=mode: c.op("Pad", c.x(t, 6, 8), i64(c, 1, 2, 3, 0), mode=mode))
    each(BY_SIZE, "trilu", lambda c, t: c.op("Trilu", c.x(t, 2, 12, 9), upper=0))
    each(BY_SIZE, "gather", lambda c, t: c.op("Gather", c.x(t, 9, 8), c.given("i64", [[1, -1], [3, 8]])))
    each(BY_SIZE, "gather_elements", lambda c, t: c.op("GatherElements", c.x(t, 9, 8), c.given("i64", [[1] * 8, [-1] * 8])))
    each(BY_SIZE, "gather_nd", lambda c, t: c.op("GatherND", c.x(t, 9, 8), c.given("i64", [[1, 2], [-1, 0]])))
    each(BY_SIZE, "scatter_elements", lambda c, t: c.op("ScatterElements", c.x(t, 9, 8), c.given("i64", [[1, 2, 3], [4, 5, -9]]),
                                                        c.x(t, 2, 3), axis=0))
    each(BY_SIZE, "scatter_nd", lambda c, t: c.op("ScatterND", c.x(t, 9, 8), c.given("i64", [[1, 2], [-1, 0]]), c.x(t, 2)))
    each(ALL, "scatter_add", lambda c, t: c.op("ScatterND", c.x(t, 9, 8, low=0), c.given("i64", RNG.integers(0, 9, (3000, 1))),
                                               c.x(t, 3000, 8, low=0, high=.2), reduction="max"))
    each(BY_SIZE, "depth_to_space", lambda c, t: c.op("DepthToSpace", c.x(t, 2, 12, 5, 6), blocksize=2))
    each(BY_SIZE, "reverse", lambda c, t: c.op("ReverseSequence", c.x(t, 9, 4, 2), c.given("i64", [1, 9, 4, 5])))
    for t in ("f32", "i64", "u8"):
        c = Case(f"topk_long_{t}")
        c.end(*c.op("TopK", c.x(t, 2, 9000, low=0, high=200), i64(c, 9), outs=2))
        c = Case(f"unique_long_{t}")
        c.end(c.op("Unique", c.x(t, 9000, low=0, high=200), outs=4)[0])
        c = Case(f"non_zero_{t}")
        c.end(c.op("NonZero", c.x(t, 90, 70)))
    c = Case("suppression_long")
    c.end(c.op("NonMaxSuppression", c.x("f32", 2, 5000, 4, low=0, high=1), c.x("f32", 2, 3, 5000, low=0, high=1),
               i64(c, 40), c.constant("f32", [.4]), c.constant("f32", [.2])))
    c = Case("windows")
    c.end(c.op("HannWindow", c.given("i64", 9000)))
    for wide in (15, 32):
        for t in HALVES:
            c = Case(f"global_pool{wide}_{t}")
            c.end(c.op("GlobalAveragePool", c.depthwise(t, wide, 56)))
    for t, pool in itertools.product(HALVES, ("GlobalAveragePool", "GlobalMaxPool")):  # ways of which one is found the quickest
        for wide, n in ((8, 65), (40, 64), (16, 9)):
            c = Case(f"tuned_{pool}{wide}_{n}_{t}")
            v = numbers(t, (2, wide, n, n), -2, 2)
            v[0, 1, n - 1, 3], v[0, 4, 0, 0], v[1, 2, 7, 7], v[1, 3] = np.nan, np.inf, -np.inf, -np.inf
            y = c.op("Conv", c.given(t, v), c.constant(t, np.ones((wide, 1, 1, 1))), group=wide)
            c.end(c.op(pool, y))
    c = Case("mel")
    c.end(c.op("MelWeightMatrix", c.given("i64", 8), c.given("i64", 64), c.given("i64", 8192), c.given("f32", 0), c.given("f32", 4096)))


def products():
    for t in ALL:
        for m in (1, 70):
            c = Case(f"matmul{m}_{t}")
            c.end(c.op("MatMul", c.x(t, 3, m, 90, low=0, high=2), c.x(t, 90, 50, low=0, high=2)))
    for t in HALVES:  # few rows by B in rows of whole pieces, in many of them, in rows of any address, and in columns
        for m in (1, 3):
            c = Case(f"gemv{m}_{t}")
            c.end(c.op("Relu", c.op("Add", c.op("MatMul", c.x(t, m, 90), c.w(t, 90, 48)), c.w(t, 48))),
                  c.op("MatMul", c.x(t, m, 20), c.w(t, 20, 8200)), c.op("MatMul", c.x(t, m, 90), c.w(t, 90, 51)),
                  c.op("Gemm", c.x(t, m, 1040), c.w(t, 21, 1040), c.w(t, 21), transB=1))
        c = Case(f"gemv_batches_{t}")
        c.end(c.op("Add", c.op("MatMul", c.x(t, 3, 1, 90), c.w(t, 90, 48)), c.x(t, 3, 1, 48)))
    for t in FLOATS:
        c = Case(f"matmul_bias_{t}")
        c.end(c.op("Relu", c.op("Add", c.op("MatMul", c.x(t, 200, 90), c.w(t, 90, 50)), c.w(t, 50))))
        c = Case(f"gemm_{t}")
        c.end(c.op("Gemm", c.x(t, 33, 90), c.w(t, 50, 90), c.w(t, 50), transB=1))
        c = Case(f"gemm_gelu_{t}")
        c.end(c.op("Gelu", c.op("Gemm", c.x(t, 33, 90), c.w(t, 50, 90), c.w(t, 50), transB=1)))
        c = Case(f"matmul_long_{t}")
        c.end(c.op("MatMul", c.x(t, 4, 9000), c.w(t, 9000, 40)))
        c = Case(f"two_rows_{t}")
        c.end(c.op("MatMul", c.x(t, 7, 1, 90), c.x(t, 7, 90, 1)))
        c = Case(f"einsum_{t}")
        c.end(c.op("Einsum", c.x(t, 3, 9, 8), c.x(t, 3, 8, 7), equation="bij,bjk->bik"))
    each(INTS, "einsum_whole", lambda c, t: c.op("Einsum", c.x(t, 3, 9, low=0), c.x(t, 9, 7, low=0), c.x(t, 7, low=0), equation="ij,jk,k->i"))
    for d in (40, 64, 80, 128, 200):
        for causal in (0, 1):
            for t in FLOATS:
                c = Case(f"attention{d}_{causal}_{t}")
                c.end(c.op("Attention", c.x(t, 2, 4, 70, d, low=-1, high=1), c.x(t, 2, 2, 90, d, low=-1, high=1),
                           c.x(t, 2, 2, 90, d, low=-1, high=1), is_causal=causal))
                if not causal and d in (64, 128):
                    for kind, mask in (("number", numbers(t, (70, 90), -2, 0)), ("bool", numbers("u8", (70, 90), 0, 2) > 0)):
                        for tf32 in (None, 1) if t == "f32" else (None,):
                            c = Case(f"attention{d}_{kind}_{'tf32' if tf32 else t}", precision=tf32)
                            c.end(c.op("Attention", *[c.x(t, 2, 4, n, d, low=-1, high=1) for n in (70, 90, 90)],
                                       c.given("bool" if kind == "bool" else t, mask)))
                    for tf32 in (None, 1) if t == "f32" else (None,):
                        c = Case(f"attention{d}_soft_{'tf32' if tf32 else t}", precision=tf32)
                        c.end(c.op("Attention", *[c.x(t, 2, 4, n, d, low=-1, high=1) for n in (70, 90, 90)], softcap=5.0))
            c = Case(f"attention{d}_{causal}_tf32", precision=1)
            c.end(c.op("Attention", c.x("f32", 2, 4, 70, d, low=-1, high=1), c.x("f32", 2, 4, 90, d, low=-1, high=1),
                       c.x("f32", 2, 4, 90, d, low=-1, high=1), is_causal=causal))
    # infinities and NaN: in queries, keys, values, and values that a mask hides
    for d in (40, 64, 128):
        for t in FLOATS:
            for where, causal in (("query", 0), ("query", 1), ("key", 0), ("key", 1), ("value", 0), ("hidden", 0)):
                q, k, v = (numbers(t, (2, 4, n, d), -1, 1) for n in (70, 90, 90))
                mask = numbers("u8", (70, 90), 0, 2) > 0
                odd = {"query": q, "key": k}.get(where, v)
                odd[0, 1, 5, 3], odd[0, 3, 40, 7], odd[1, 0, 11, 30], odd[1, 2, 60, 9] = np.inf, -np.inf, np.nan, np.inf
                c = Case(f"attention{d}_infinite_{where}_{causal}_{t}")
                rest = [c.given("bool", mask)] if where == "hidden" else []
                c.end(c.op("Attention", c.given(t, q), c.given(t, k), c.given(t, v), *rest, is_causal=causal))
    # the least finite number as a mask: a query that sees no other key sees all of them alike
    for (d, queries), t in itertools.product(((40, 70), (64, 70), (128, 70), (64, 3), (96, 2)), FLOATS):
        mask = np.zeros((2, 1, queries, 90), NP[t])
        mask[0, 0, 1, 5:], mask[1] = ml_dtypes.finfo(NP[t]).min, ml_dtypes.finfo(NP[t]).min
        for tf32 in (None, 1) if t == "f32" else (None,):
            c = Case(f"attention{d}_{queries}_least_{'tf32' if tf32 else t}", precision=tf32)
            c.end(c.op("Attention", *(c.x(t, 2, 3, n, d, low=-1, high=1) for n in (queries, 90, 90)), c.given(t, mask)))
    # few queries: of one head each, and of several that share a head of keys, in one part or in several
    for d, e in ((64, 40), (64, 64), (96, 128)):
        for t in FLOATS:
            for heads, s in ((2, 1), (6, 2), (2, 5)):
                for keys in (7, 200):
                    c = Case(f"attention_few{d}_{e}_{heads}_{s}_{keys}_{t}")
                    k, v = c.x(t, 3, 2, keys, d, low=-1, high=1), c.x(t, 3, 2, keys, e, low=-1, high=1)
                    c.end(c.op("Attention", c.x(t, 3, heads, s, d, low=-1, high=1), k, v, is_causal=int(keys > 7)))
            c = Case(f"attention_few{d}_{e}_masked_{t}")
            k, v = c.x(t, 3, 2, 200, d, low=-1, high=1), c.x(t, 3, 2, 200, e, low=-1, high=1)
            c.end(c.op("Attention", c.x(t, 3, 4, 3, d, low=-1, high=1), k, v, c.given(t, numbers(t, (3, 1, 3, 200), -2, 0)), softcap=5.0))
            c = Case(f"attention_few{d}_{e}_hidden_{t}")
            hidden = numbers("u8", (3, 1, 3, 200), 0, 2) > 0
            hidden[1] = False
            k, v = c.x(t, 3, 2, 200, d, low=-1, high=1), c.x(t, 3, 2, 200, e, low=-1, high=1)
            c.end(c.op("Attention", c.x(t, 3, 4, 3, d, low=-1, high=1), k, v, c.given("bool", hidden)))
    for t in HALVES:
        c = Case(f"causal_{t}", opset=27)
        c.end(c.op("CausalConvWithState", c.x(t, 2, 4, 30), c.w(t, 4, 1, 4)), t=t)
        c = Case(f"linear_attention_{t}", opset=27)
        y = c.op("LinearAttention", *[c.x(t, 2, 9, 32, low=-1, high=1) for _ in range(3)], "", "", c.x(t, 2, 9, 4, low=0, high=.3),
                 outs=2, kv_num_heads=4, q_num_heads=4, update_rule="delta")
        c.end(*y, t=t)
        c = Case(f"rotary_{t}")
        c.end(c.op("RotaryEmbedding", c.x(t, 2, 4, 9, 16), c.w(t, 2, 9, 8), c.w(t, 2, 9, 8)))
    for q in ("f8", "u8", "i8"):
        c = Case(f"quantized_product_{q}")
        scale = [c.constant("f32", .1), c.constant(q, 0)]
        c.end(c.op("QLinearMatMul", c.x(q, 9, 40, low=0, high=2), *scale, c.w(q, 40, 30, low=0, high=2), *scale, *scale))
    for q in ("u8", "i8"):
        c = Case(f"tuned_whole_product_{q}")
        c.end(c.op("MatMulInteger", c.x(q, 9, 40), c.w(q, 40, 30, low=0, high=9), c.constant(q, 1)))
        for group in (1, 2):
            c = Case(f"whole_conv{group}_{q}")
            c.end(c.op("ConvInteger", c.x(q, 2, 8, 9, 9), c.w(q, 6, 8 // group, 3, 3, low=0, high=9), c.constant(q, 1), group=group))
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for t in FLOATS:
            c = Case(f"{kind.lower()}_{t}")
            y = c.op(kind, c.x(t, 5, 3, 20, low=-1), c.w(t, 2, gates * 17, 20, low=-.3, high=.3),
                     c.w(t, 2, gates * 17, 17, low=-.3, high=.3), hidden_size=17, direction="bidirectional", outs=2)
            c.end(*y)


def contrib():
    """Of com.microsoft, and with several types in one node."""
    ms = {"domain": "com.microsoft"}
    for t in HALVES:
        c = Case(f"ms_attention_{t}")
        c.end(c.op("Attention", c.x(t, 2, 9, 32, low=-1, high=1), c.w(t, 32, 96), c.w(t, 96), c.given("i32", [[1] * 7 + [0] * 2, [1] * 9]),
                   num_heads=4, **ms), t=t)
        c = Case(f"ms_multi_head_{t}")
        c.end(c.op("MultiHeadAttention", *[c.x(t, 2, 9, 32, low=-1, high=1) for _ in range(3)], c.w(t, 96),
                   c.given("i32", [[1] * 7 + [0] * 2, [1] * 9]), num_heads=4, **ms), t=t)
        c = Case(f"ms_group_query_{t}")
        y = c.op("GroupQueryAttention", c.x(t, 2, 1, 64, low=-1, high=1), c.x(t, 2, 1, 32, low=-1, high=1), c.x(t, 2, 1, 32, low=-1, high=1),
                 c.x(t, 2, 2, 8, 16, low=-1, high=1), c.x(t, 2, 2, 8, 16, low=-1, high=1), c.given("i32", [8, 6]), c.given("i32", 9),
                 num_heads=4, kv_num_heads=2, outs=3, **ms)
        c.end(*y, t=t)
        c = Case(f"ms_group_norm_{t}")
        c.end(c.op("GroupNorm", c.x(t, 2, 5, 4, 12), c.w("f32", 12), c.w("f32", 12), groups=3, activation=1, **ms), t=t)
        c = Case(f"ms_split_gelu_{t}")
        c.end(c.op("BiasSplitGelu", c.x(t, 2, 5, 64), c.w(t, 64), **ms), t=t)
        if t != "bf16":
            c = Case(f"ms_inverse_{t}")
            c.end(c.op("Inverse", c.x(t, 3, 7, 7), **ms), t=t)
        if t != "f32":
            c = Case(f"batch_norm_mixed_{t}")
            c.end(c.op("BatchNormalization", c.x(t, 2, 6, 9, 7), *[c.given("f32", numbers("f32", 6, .5, 2)) for _ in range(4)]))
    for t in FLOATS:
        for n in (1, 2):
            c = Case(f"wide_windows{n}_{t}")
            shape = (1, 2 * n, 3, 4, 5, 6)
            c.end(c.op("Conv", c.x(t, *shape), c.w(t, 4, 2, 2, 2, 2, 2), group=n), t=t)
            c = Case(f"wide_windows_back{n}_{t}")
            c.end(c.op("ConvTranspose", c.x(t, *shape), c.w(t, 2 * n, 2, 2, 2, 2, 2), group=n), t=t)
        c = Case(f"wide_pool_{t}")
        c.end(c.op("MaxPool", c.x(t, 1, 2, 3, 4, 5, 6), kernel_shape=[2, 2, 2, 2]), t=t)
        c = Case(f"three_factors_{t}")
        c.end(c.op("Einsum", c.x(t, 5, 6), c.x(t, 6, 7), c.x(t, 7, 4), equation="ij,jk,kl->il"))
        c = Case(f"four_factors_{t}")
        c.end(c.op("Einsum", c.x(t, 5, 6), c.x(t, 6, 7), c.x(t, 7, 4), c.x(t, 4), equation="ij,jk,kl,l->i"))
        c = Case(f"diagonal_{t}")
        c.end(c.op("Einsum", c.x(t, 5, 6, 6), equation="bii->i"))
    each(INTS, "four_whole_factors", lambda c, t: c.op("Einsum", c.x(t, 5, 6), c.x(t, 6, 7), c.x(t, 7, 4), c.x(t, 4), equation="ij,jk,kl,l->i"))
    each(["i8", "u8"] + FLOATS, "pool_rows", lambda c, t: c.op("MaxPool", c.x(t, 2, 5, 9, 8), kernel_shape=[3, 2]))
    each(FLOATS, "average_rows", lambda c, t: c.op("AveragePool", c.x(t, 2, 5, 9, 8), kernel_shape=[3, 2]))
    each(INTS, "three_whole_factors", lambda c, t: c.op("Einsum", c.x(t, 5, 6), c.x(t, 6, 7), c.x(t, 7, 4), equation="ij,jk,kl->il"))


def activation(c, x, k, t):
    if k == "none":
        return x
    if k == "silu":
        return c.op("Mul", x, c.op("Sigmoid", x))
    if k == "add":
        return c.op("Relu", c.op("Add", x, c.x(t, 2, 32, 9, 9)))
    return c.op(k, x)


def windows():
    for t in FLOATS:
        for k in ("none", "Relu", "silu", "HardSwish", "add"):
            c = Case(f"conv_{k}_{t}")
            c.end(activation(c, c.op("Conv", c.x(t, 2, 16, 9, 9), c.w(t, 32, 16, 3, 3), c.w(t, 32), pads=[1] * 4), k, t))
            c = Case(f"conv1x1_{k}_{t}")
            c.end(activation(c, c.op("Conv", c.x(t, 2, 16, 9, 9), c.w(t, 32, 16, 1, 1), c.w(t, 32)), k, t))
        for cin, cout, n in ((3, 32, 64), (3, 64, 33), (4, 128, 32), (64, 16, 40), (24, 96, 7)):
            c = Case(f"conv{cin}_{cout}_{n}_{t}")
            c.end(c.op("Relu", c.op("Conv", c.x(t, 1, cin, n, n), c.w(t, cout, cin, 3, 3), c.w(t, cout), pads=[1] * 4, strides=[2, 2])))
        for patch in (2, 4, 16):
            c = Case(f"patches{patch}_{t}")
            c.end(c.op("Conv", c.x(t, 1, 3, 8 * patch, 8 * patch), c.w(t, 40, 3, patch, patch), c.w(t, 40), strides=[patch] * 2))
        for k in (3, 5, 7):
            for s in (1, 2):
                for n, wide in ((40, 16), (19, 20), (7, 6)):
                    c = Case(f"tuned_depthwise{k}_{s}_{n}_{wide}_{t}")
                    y = c.op("Conv", c.x(t, 2, wide, n, n), c.w(t, wide, wide, 1, 1), c.w(t, wide))
                    y = c.op("Conv", y, c.w(t, wide, 1, k, k), c.w(t, wide), pads=[k // 2] * 4, strides=[s, s], group=wide)
                    c.end(c.op("Conv", c.op("Relu", y), c.w(t, 16, wide, 1, 1), c.w(t, 16)))
            for n, wide in ((15, 40), (7, 96)):  # pads do not meet infinite weights
                c = Case(f"tuned_depthwise_special{k}_{n}_{t}")
                v, w = numbers(t, (2, wide, n, n + 1), -2, 2), numbers(t, (wide, 1, k, k), -1, 1)
                v[0, 1, n - 1, 3], v[0, 4, 0, 0], v[1, 2, 5, 6], v[1, 3] = np.nan, np.inf, -np.inf, -0.
                w[7, 0, 0, 1], w[8, 0, k - 1, k - 1], w[9, 0, k // 2, 0], w[10] = np.inf, np.nan, -np.inf, -0.
                x = c.given(t, v)
                y = c.op("Conv", x, c.constant(t, w), *([c.w(t, wide)] if n > 7 else []), pads=[k // 2] * 4, group=wide)
                c.end(c.op("Relu", c.op("Add", y, x)) if n > 7 else y)
        for wide in (15, 32):
            c = Case(f"depthwise_dilated{wide}_{t}")
            y = c.op("Conv", c.x(t, 2, wide, 12, 12), c.w(t, wide, wide, 1, 1), c.w(t, wide))
            y = c.op("Conv", y, c.w(t, wide, 1, 3, 3), c.w(t, wide), pads=[2] * 4, dilations=[2, 2], group=wide)
            c.end(c.op("Conv", y, c.w(t, 16, wide, 1, 1)))
            c = Case(f"excite{wide}_{t}")
            y = c.depthwise(t, wide)
            z = c.op("Relu", c.op("Conv", c.op("GlobalAveragePool", y), c.w(t, 8, wide, 1, 1), c.w(t, 8)))
            z = c.op("HardSigmoid", c.op("Conv", z, c.w(t, wide, 8, 1, 1), c.w(t, wide)))
            c.end(c.op("Conv", c.op("Mul", y, z), c.w(t, 16, wide, 1, 1)))
            for batch in (9, 18):  # images that share a warp
                c = Case(f"points{batch}_{wide}_{t}")
                y = c.op("Conv", c.x(t, batch, wide, 1, 1), c.w(t, 480, wide, 1, 1), c.w(t, 480))
                c.end(c.op("Sigmoid", c.op("Add", y, c.x(t, batch, 480, 1, 1))))
            for pool, more in (("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1})):
                c = Case(f"{pool.lower()}{len(more)}_{wide}_{t}")
                y = c.op(pool, c.depthwise(t, wide), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, **more)
                c.end(c.op("Conv", y, c.w(t, 16, wide, 1, 1)))
            c = Case(f"branches{wide}_{t}")
            y = c.depthwise(t, wide)
            z = c.op("Concat", y, c.op("Relu", c.op("Conv", y, c.w(t, wide, wide, 1, 1))), axis=1)
            z = c.op("Resize", z, "", c.constant("f32", [1, 1, 2, 2]), mode="nearest")
            c.end(c.op("Conv", z, c.w(t, 16, 2 * wide, 1, 1)))
            c = Case(f"add_after{wide}_{t}")
            y = c.depthwise(t, wide)
            c.end(c.op("Relu", c.op("Add", c.op("Conv", y, c.w(t, wide, wide, 1, 1), c.w(t, wide)), y)))
            c = Case(f"channels_norm{wide}_{t}")
            y = c.depthwise(t, wide)
            y = c.op("LayerNormalization", c.op("Transpose", y, perm=[0, 2, 3, 1]), c.w(t, wide), c.w(t, wide))
            y = c.op("Gelu", c.op("Add", c.op("MatMul", y, c.w(t, wide, 64)), c.w(t, 64)))
            c.end(c.op("Transpose", c.op("MatMul", y, c.w(t, 64, wide)), perm=[0, 3, 1, 2]))
        if t != "bf16":
            c = Case(f"largest_of_regions_{t}")
            c.end(c.op("MaxRoiPool", c.x(t, 2, 3, 9, 8), c.constant(t, [[0, 0, 0, 7, 7], [1, 1, 2, 5, 8]]), pooled_shape=[3, 2], spatial_scale=.5))
        c = Case(f"flags_last_{t}")
        c.end(c.op("Less", c.depthwise(t, 8, 5), c.x(t, 8, 1, 1)))
        c = Case(f"groups_{t}")
        c.end(c.op("Conv", c.x(t, 2, 16, 9, 9), c.w(t, 32, 4, 3, 3), c.w(t, 32), group=4))
        c = Case(f"conv3d_{t}")
        c.end(c.op("Conv", c.x(t, 1, 8, 6, 7, 8), c.w(t, 16, 8, 3, 3, 3), c.w(t, 16)))
        c = Case(f"conv_odd_{t}")
        c.end(c.op("Conv", c.x(t, 1, 5, 17, 15), c.w(t, 7, 5, 3, 2), dilations=[2, 1], pads=[2, 0, 1, 1]))
        c = Case(f"transposed_{t}")
        c.end(c.op("ConvTranspose", c.x(t, 1, 5, 7, 8), c.w(t, 5, 6, 3, 3), c.w(t, 6), strides=[2, 2]))
        for i, (shape, cout, window, group, more) in enumerate((
                ((2, 16, 7, 8), 6, (4, 4), 1, {"strides": [2, 2], "pads": [1, 1, 1, 1]}), ((2, 16, 7, 8), 3, (3, 2), 2, {"strides": [3, 2], "dilations": [2, 3]}),
                ((1, 9, 11), 4, (16,), 1, {"strides": [8], "output_padding": [3]}), ((3, 8, 3, 4, 5), 2, (3, 2, 2), 1, {"strides": [2, 1, 3], "dilations": [1, 2, 2]}))):
            c = Case(f"transposed{i}_{t}")
            c.end(c.op("ConvTranspose", c.x(t, *shape), c.w(t, shape[1], cout, *window), c.w(t, cout * group), group=group, **more), t=t)
        c = Case(f"deformed_{t}")
        c.end(c.op("DeformConv", c.x(t, 1, 4, 7, 8), c.w(t, 6, 4, 3, 3), c.x(t, 1, 18, 5, 6, low=-1, high=1), c.w(t, 6)))
        for mode in ("nearest", "linear", "cubic"):
            c = Case(f"resize_{mode}_{t}")
            c.end(c.op("Resize", c.x(t, 1, 3, 9, 8), "", c.constant("f32", [1, 1, 1.5, 2.3]), mode=mode))
            c = Case(f"resize_down_{mode}_{t}")
            c.end(c.op("Resize", c.x(t, 1, 3, 19, 18), "", c.constant("f32", [1, 1, .5, .3]), mode=mode, antialias=int(mode != "nearest")))
        c = Case(f"resize_crop_{t}")
        c.end(c.op("Resize", c.x(t, 1, 3, 9, 8), c.constant("f32", [0, 0, .2, -.3, 1, 1, 1.5, .9]), "", i64(c, 1, 3, 7, 7), mode="linear",
                   coordinate_transformation_mode="tf_crop_and_resize"))
        c = Case(f"resize_whole_{t}")
        c.end(c.op("Resize", c.x(t, 4, 5, 6), "", c.constant("f32", [1.5, 2, .7]), mode="cubic"))
        c = Case(f"grid_{t}")
        c.end(c.op("GridSample", c.x(t, 1, 3, 9, 8), c.x(t, 1, 5, 4, 2, low=-1.1, high=1.1)))
        c = Case(f"regions_{t}")
        c.end(c.op("RoiAlign", c.x(t, 1, 3, 9, 8), c.constant(t, [[0, 0, 7, 7], [1, 2, 5, 8]]), i64(c, 0, 0), output_height=3, output_width=3))
    each(INTS, "resize_linear", lambda c, t: c.op("Resize", c.x(t, 1, 3, 9, 8), "", c.constant("f32", [1, 1, 2, 1.5]), mode="linear"))
    each(FLOATS, "resize_rows", lambda c, t: c.op("Resize", c.x(t, 1, 3, 9, 8), "", c.constant("f32", [1, 1, 1, 2]), mode="linear"))
    each(INTS, "resize_nearest", lambda c, t: c.op("Resize", c.x(t, 1, 3, 9, 8), "", c.constant("f32", [1, 1, 2, 2]), mode="nearest"))
    each(["c128"], "resize_nearest", lambda c, t: c.op("Resize", c.x(t, 1, 3, 9, 8), "", c.constant("f32", [1, 1, 2, 2]), mode="nearest"))


def cached(c, t, bits, each, room=8, window=0, outs=3, **more):
    """GroupQueryAttention of one new row over a past of codes (bits) or of a window; outs 4: with its scores."""
    shape = [2, 2, room, 16]
    kind = "u8" if bits == 4 else "i8" if bits else t
    past = [c.given(kind, RNG.integers(0, 256, shape[:3] + [8])) if bits == 4 else c.x(kind, *shape, low=-100 if bits else -1, high=100 if bits else 1)
            for _ in range(2)]
    codes = [c.constant("f32", numbers("f32", (1, 2, 1, 16) if each else (1,), .01, .02)) for _ in range(2)] if bits else []
    if bits:
        more.update(kv_cache_bit_width=bits, k_quant_type="PER_CHANNEL" if each else "PER_TENSOR", v_quant_type="PER_CHANNEL" if each else "PER_TENSOR")
    if window:
        more.update(local_window_size=window, sliding_window_cache=1)
    y = c.op("GroupQueryAttention", c.x(t, 2, 1, 64, low=-1, high=1), c.x(t, 2, 1, 32, low=-1, high=1), c.x(t, 2, 1, 32, low=-1, high=1), *past,
             c.given("i32", [room, room]), c.constant("i32", room + 1), *(["", "", "", "", ""] + codes if codes else []), num_heads=4, kv_num_heads=2,
             outs=outs, domain="com.microsoft", **more)
    c.end(*y, t=t)


def grown(t, d, group, rows, room, batch):
    """GroupQueryAttention of new rows behind a past that is copied as it is, shorter in each second row of the batch."""
    c = Case(f"grown{d}_{group}_{rows}_{room}_{batch}_{t}")
    last = [room + rows - 1 - (b % 2 and min(3, room)) for b in range(batch)]
    q, k, v = (c.x(t, batch, rows, n * d, low=-1, high=1) for n in (2 * group, 2, 2))
    past = [c.x(t, batch, 2, room, d, low=-1, high=1) for _ in range(2)]
    y = c.op("GroupQueryAttention", q, k, v, *past, c.given("i32", last), c.constant("i32", room + rows), num_heads=2 * group, kv_num_heads=2,
             outs=3, domain="com.microsoft")
    c.end(*y, t=t)


def caches():
    for t in HALVES:
        for d in 64, 96:  # one head and several that share keys, in one part and in several, and a block for each head
            for more in (1, 1, 200, 2), (4, 1, 200, 2), (1, 1, 70, 50), (4, 1, 70, 50), (3, 4, 8, 2):
                grown(t, d, *more)
        c = Case(f"grown_heads_{t}")
        past = [c.x(t, 2, 4, 9, 16, low=-1, high=1) for _ in range(2)]
        c.end(*c.op("MultiHeadAttention", *[c.x(t, 2, 1, 64, low=-1, high=1) for _ in range(3)], "", "", "", *past, num_heads=4, outs=3,
                    domain="com.microsoft"), t=t)
        for bits, each in ((4, 0), (4, 1), (8, 0), (8, 1)):
            cached(Case(f"codes{bits}_{each}_{t}"), t, bits, each)
        cached(Case(f"ring_{t}"), t, 0, 0, window=5)
        for mode in (1, 2):
            cached(Case(f"scores{mode}_{t}"), t, 0, 0, outs=4, qk_output=mode)


def weights_of_bits(c, t, rows, k, n, bits, block, zero, bias=None):
    blocks = -(-k // block)
    z = "" if not zero else c.constant("u8", RNG.integers(0, 256, n * -(-blocks * bits // 8))) if zero == 1 else c.constant(t, numbers(t, (n * blocks,), 0, 15))
    bias = [c.w(t, n)] if bias else []
    c.end(c.op("MatMulNBits", c.x(t, rows, k), c.constant("u8", RNG.integers(0, 256, (n, blocks, block * bits // 8))), c.constant(t, numbers(t, (n * blocks,), .01, .1)),
               z, *(["", *bias] if bias else []), K=k, N=n, bits=bits, block_size=block, domain="com.microsoft"), t=t)


def packed():
    for t in HALVES:
        for rows in (1, 3, 8, 9, 33):
            for bits, block, zero in ((4, 32, 1), (8, 16, 0), (4, 16, 2)):
                weights_of_bits(Case(f"bits{bits}_{rows}_{zero}_{t}"), t, rows, 70, 37, bits, block, zero, rows == 3)
        for rows, bits, zero in ((3, 4, 1), (5, 8, 0), (1, 2, 1), (33, 4, 0), (9, 8, 1)):
            weights_of_bits(Case(f"bits_whole{bits}_{rows}_{t}"), t, rows, 288, 37, bits, 32, zero)
        for rows, bits, block, zero, bias in ((1, 4, 32, 1, 1), (1, 4, 128, 0, 0), (1, 8, 16, 1, 0), (1, 8, 64, 0, 0), (4, 4, 64, 0, 0), (7, 4, 16, 1, 1), (2, 8, 32, 1, 0),
                                         (1, 4, 32, 2, 0)):
            weights_of_bits(Case(f"bits_long{bits}_{rows}_{block}_{zero}_{t}"), t, rows, 1336, 41, bits, block, zero, bias)
    for q in ("u8", "i8"):
        scale = lambda c: [c.constant("f32", .1), c.constant(q, 3)]
        for last in (0, 1):
            c = Case(f"mean_of_codes{last}_{q}")
            c.end(c.op("QLinearGlobalAveragePool", c.x(q, 2, 5, 7, 9, low=0, high=99), *scale(c), *scale(c), channels_last=last, domain="com.microsoft"), t=q)
        c = Case(f"joined_codes_{q}")
        c.end(c.op("QLinearConcat", *scale(c), c.x(q, 3, 5, 4, low=0, high=99), c.constant("f32", .2), c.constant(q, 1), c.x(q, 3, 2, 4, low=0, high=99), *scale(c),
                   axis=1, domain="com.microsoft"), t=q)
        c = Case(f"no_depth_{q}")
        c.end(c.op("MatMulInteger", c.given(q, np.zeros((3, 0))), c.given(q, np.zeros((0, 5)))))


def behind_libraries():
    """What our kernels leave to a library to a part: something before it or behind it is theirs."""
    for t in FLOATS:
        c = Case(f"left_to_us_{t}")
        y = c.op("Gemm", c.x(t, 17, 24), c.w(t, 24, 40), c.w(t, 40))
        c.end(c.op("Mul", y, c.op("Sigmoid", y)))
        c = Case(f"put_together_{t}")
        c.end(c.op("MatMul", c.x(t, 17, 8), c.w(t, 8, 1027)))
        c = Case(f"put_together_widened_{t}")
        c.end(c.op("Gemm", c.x(t, 17, 8), c.w(t, 1027, 8), transB=1))
    for t, (m, n, turned) in itertools.product(FLOATS, ((17, 40, 0), (17, 1027, 0), (40, 24, 1))):  # the library's Relu may make 0 of NaN
        v = numbers("f32", (24, m) if turned else (m, 24), -1, 1)
        v[5] = np.nan
        c = Case(f"nan_to_relu{m}_{n}_{t}")
        c.end(c.op("Relu", c.op("Gemm", c.given(t, v), c.w(t, 24, n), c.w(t, n), transA=turned)))
    c = Case("put_together_in_turns")
    c.end(c.op("Gemm", c.x("f32", 1024, 4), c.given("f32", numbers("f32", (1027, 4), -1, 1)), transB=1))
    for t in HALVES:
        for k in ("silu", "HardSwish", "Mish"):
            for wide in (8, 7):
                c = Case(f"after_conv_{k}_{wide}_{t}")
                y = c.op("Conv", c.x(t, 1, 5, 6, 7), c.w(t, wide, 5, 3, 3), c.w(t, wide), pads=[1] * 4)
                c.end(activation(c, y, k, t))
        for n in (7, 8):
            c = Case(f"after_conv_add_{n}_{t}")
            c.end(c.op("Relu", c.op("Add", c.op("Conv", c.x(t, 1, 5, 6, 7), c.w(t, n, 5, 3, 3), c.w(t, n), pads=[1] * 4), c.x(t, 1, n, 6, 7))))
            c = Case(f"three_to_four_{n}_{t}")
            c.end(c.op("Conv", c.x(t, 2, 3, n, n + 1), c.w(t, 40, 3, 3, 3), c.w(t, 40), pads=[1] * 4))
            c = Case(f"two_to_four_{n}_{t}")
            c.end(c.op("Relu", c.op("Conv", c.x(t, 2, 2, n, n), c.w(t, 72, 2, 3, 3), c.w(t, 72))))
    for q in ("u8", "i8"):
        c = Case(f"tuned_sums_of_codes_{q}")
        scale = [c.constant("f32", .1), c.constant(q, 3)]
        c.end(c.op("QLinearMatMul", c.x(q, 33, 40, low=0, high=20), *scale, c.w("i8" if q == "i8" else q, 40, 32, low=0, high=20), *scale, *scale))


def oddities():
    """What is kept for types and shapes that are seldom."""
    ms = {"domain": "com.microsoft"}
    c = Case("scaled_image", opset=1)
    c.end(c.op("ImageScaler", c.x("f32", 2, 3, 5, 4), scale=.5, bias=[.1, -.2, .3]), t="f32")
    for t in HALVES:
        c = Case(f"norm_of_many_rows_{t}")
        c.end(c.op("LayerNormalization", c.x(t, 2048, 528 if t != "f32" else 264), c.w(t, 528 if t != "f32" else 264), axis=-1))
        c = Case(f"norm_of_any_scale_{t}")
        c.end(c.op("LayerNormalization", c.x(t, 3, 4, 6), c.w(t, 4, 6), c.w(t, 1, 6), axis=1))
        c = Case(f"embedded_{t}")
        ids = lambda top: c.given("i32", RNG.integers(0, top, (2, 5)))
        y = c.op("EmbedLayerNormalization", ids(7), ids(2), *[c.w(t, n, 12) for n in (7, 9, 2)], c.w(t, 12), c.w(t, 12), c.given("i32", [[1] * 5, [1] * 3 + [0] * 2]), outs=3, **ms)
        c.end(y[0], y[2], t=t)
        c = Case(f"embedded_mask_{t}")
        y = c.op("EmbedLayerNormalization", ids(7), "", *[c.w(t, n, 12) for n in (7, 9)], "", c.w(t, 12), c.w(t, 12), c.given("i32", [[1] * 5, [1] * 3 + [0] * 2]), outs=2, **ms)
        c.end(y[1], t="i32")
    for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        c = Case(f"{name.lower()}")  # too large to be made ahead
        c.end(c.op(name, c.constant("i64", 1050000)))
    flexed = []
    for t in ("f32", "f16", "f64"):
        x, y = (h.make_tensor_value_info(n, ELEM["f16" if t == "f16" else t], [1, 2, 5, 6]) for n in ("score", "changed"))
        body = h.make_graph([h.make_node("Tanh", ["score"], ["changed"])], "body", [x], [y])
        c = Case(f"flex_{t}", opset=26)
        more = {"softmax_precision": T.FLOAT16} if t == "f16" else {}
        c.end(c.op("FlexAttention", c.x(t, 1, 2, 5, 8), c.x(t, 1, 2, 6, 8), c.x(t, 1, 2, 6, 7), score_mod=body, domain="ai.onnx.preview", **more), t=t)


def tiles():
    """The tiles of a product of single pixels, and what makes single pixels of windows."""
    for t, tf32 in (("f32", 1), ("f16", None), ("bf16", None)):
        for n, cin, cout in ((9, 8, 40), (7, 72, 8), (130, 8, 64), (9, 520, 40)):
            c = Case(f"tuned_pixels{n}_{cin}_{cout}_{'tf32' if tf32 else t}", precision=tf32)
            c.end(c.op("Relu", c.op("Conv", c.x(t, 1, cin, n, n), c.w(t, cout, cin, 1, 1), c.w(t, cout))))
        for cin, known in ((333, True), (1304, True), (1304, False)):
            c = Case(f"one_pixel{cin}_{'given' if known else 'fed'}_{'tf32' if tf32 else t}", precision=tf32)
            make = c.w if known else c.x
            c.end(c.op("Conv", c.x(t, 2, cin, 1, 1, low=-1, high=1), make(t, 40, cin, 1, 1, low=-.1, high=.1), c.w(t, 40)))
        for patch, wide in ((2, 4), (3, 8), (4, 4), (8, 1)):
            c = Case(f"side_by_side{patch}_{'tf32' if tf32 else t}", precision=tf32)
            c.end(c.op("Conv", c.x(t, 2, wide, 4 * patch, 3 * patch), c.w(t, 24, wide, patch, patch), c.w(t, 24), strides=[patch] * 2))
        c = Case(f"side_by_side_last_{'tf32' if tf32 else t}", precision=tf32)
        y = c.op("Relu", c.op("Conv", c.x(t, 1, 16, 6, 6), c.w(t, 16, 1, 3, 3), c.w(t, 16), pads=[1] * 4, group=16))
        c.end(c.op("Conv", y, c.w(t, 24, 16, 2, 2), c.w(t, 24), strides=[2, 2]))


def convs_of_codes():
    """Convolutions of 8-bit codes whose channels come last: tiles, padding, steps, images of few channels, layouts."""
    for q in ("u8", "i8"):
        low, high = (0, 255) if q == "u8" else (-128, 127)
        for name, cin, cout, kernel, more in (
                ("tuned_conv_of_codes", 32, 96, (3, 3), {"pads": [1] * 4}), ("tuned_conv1_of_codes", 80, 144, (1, 1), {}),
                ("conv_of_codes_step", 16, 32, (3, 3), {"pads": [0, 1, 1, 0], "strides": [2, 2]}), ("conv_of_codes_apart", 16, 16, (3, 2), {"dilations": [2, 3], "pads": [2] * 4}),
                ("conv_of_pictures", 3, 64, (7, 7), {"pads": [3] * 4, "strides": [2, 2]}), ("conv_of_pictures1", 3, 16, (3, 3), {"pads": [1] * 4}),
                ("conv_of_codes_odd", 5, 32, (3, 3), {"strides": [1, 2]}), ("conv_of_codes_24", 24, 48, (3, 3), {"pads": [1] * 4, "strides": [2, 1]}),
                ("conv_of_codes_line", 16, 32, (5,), {"pads": [2] * 2})):
            c = Case(f"{name}_{q}")
            x = c.x(q, 3, cin, *(15, 14)[: len(kernel)], low=low, high=high)
            y = [c.constant("f32", cin * .05), c.constant(q, 100 if q == "u8" else -3)]
            c.end(c.op("QLinearConv", x, c.constant("f32", .02), c.constant(q, 7), c.w("i8", cout, cin, *kernel, low=-127, high=127), c.w("f32", cout, low=.001, high=.004),
                       c.constant("i8", np.zeros(cout)), *y, c.w("i32", cout, low=-5000, high=5000), **more))
        # No sum lies on a tie, where a CPU without instructions for bytes, whose weights are scaled first, may choose the other code.
        c, small, large = Case(f"tuned_chain_of_codes_{q}"), 1.0371, 20.017
        one = lambda s: [c.constant("f32", s), c.constant(q, 7)]
        weights = lambda *shape: [c.w("i8", *shape, low=-127, high=127), c.constant("f32", .01), c.constant("i8", 0)]
        x = c.op("QLinearConv", c.x(q, 2, 3, 20, 18, low=low, high=high), *one(.1), *weights(32, 3, 3, 3), *one(small), strides=[2, 2], pads=[1] * 4)
        x = c.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        y = c.op("QLinearConv", x, *one(small), *weights(32, 32, 3, 3), *one(large), pads=[1] * 4)
        y = c.op("QLinearAdd", y, *one(large), x, *one(small), *one(15), domain="com.microsoft")
        c.end(y, c.op("QLinearGlobalAveragePool", y, *one(15), *one(5), domain="com.microsoft"), t=q)
        c = Case(f"table_of_codes_{q}")
        one = lambda s: [c.constant("f32", s), c.constant(q, 7)]
        x = c.op("HardSwish", c.op("DequantizeLinear", c.x(q, 3, 7, 5, low=low, high=high), *one(.03)))
        c.end(c.op("QuantizeLinear", x, *one(.02)))
        c = Case(f"net_of_codes_{q}")
        one = lambda s: [c.constant("f32", s), c.constant(q, 7)]
        down = lambda x, s: c.op("DequantizeLinear", c.op("QuantizeLinear", x, *one(s)), *one(s))
        w = lambda *shape: c.op("DequantizeLinear", c.w("i8", *shape, low=-127, high=127), c.w("f32", shape[0], low=.001, high=.003), c.constant("i8", np.zeros(shape[0])), axis=0)
        x = down(c.op("Conv", down(c.x("f32", 2, 3, 20, 18), .03), w(16, 3, 3, 3), pads=[1] * 4, strides=[2, 2]), .02)
        y = down(c.op("Conv", x, w(32, 16, 3, 3), pads=[1] * 4), .1)
        z = down(c.op("Conv", x, w(32, 16, 1, 1)), .1)
        y = down(c.op("Relu", c.op("Add", y, z)), .1)
        y = down(c.op("GlobalAveragePool", y), .03)
        c.end(c.op("QuantizeLinear", c.op("Flatten", y), *one(.03)))
        for name, more in (("", {"kernel_shape": [2, 5], "strides": [2, 1], "pads": [0, 2, 1, 2]}), ("_apart", {"kernel_shape": [3, 4], "dilations": [2, 3], "pads": [2] * 4})):
            c = Case(f"pool_of_codes{name}_{q}")
            x = c.op("QLinearConv", c.x(q, 2, 16, 13, 12, low=low, high=high), c.constant("f32", .02), c.constant(q, 7), c.w("i8", 32, 16, 1, 1, low=-127, high=127),
                     c.constant("f32", .003), c.constant("i8", 0), c.constant("f32", .1371), c.constant(q, 100 if q == "u8" else -3))
            c.end(c.op("MaxPool", x, **more))


def coded():
    """Weights of com.microsoft's as codes: bitsandbytes' blocks, rows in an order of their own, gathered blocks, a layer's."""
    ms = {"domain": "com.microsoft"}
    for t in HALVES:
        for rows, k, n, block, back in ((1, 70, 37, 16, 0), (9, 64, 33, 32, 0), (5, 70, 41, 64, 1), (13, 256, 8, 64, 0), (11, 33, 70, 16, 1)):
            c = Case(f"bnb{rows}_{k}_{back}_{t}")
            c.end(c.op("MatMulBnb4", c.x(t, rows, n if back else k), c.constant("u8", RNG.integers(0, 256, (n * k + 1) // 2)),
                       c.constant(t, numbers(t, (-(-n * k // block),), .01, .1)), K=k, N=n, block_size=block, quant_type=back ^ (rows > 1), transB=1 - back, **ms), t=t)
        for rows, bits in ((1, 4), (11, 8), (3, 2)):
            c = Case(f"bits_in_order{bits}_{rows}_{t}")
            c.end(c.op("MatMulNBits", c.x(t, rows, 70), c.constant("u8", RNG.integers(0, 256, (37, 5, 2 * bits))), c.constant(t, numbers(t, (37 * 5,), .01, .1)), "",
                       c.constant("i32", np.arange(70)[::-1] * 3 % 5), K=70, N=37, bits=bits, block_size=16, **ms), t=t)
        for bits, zero in ((2, 1), (4, 0), (4, 1), (8, 1)):
            c = Case(f"gathered_blocks{bits}_{zero}_{t}")
            z = [c.constant("u8", RNG.integers(0, 256, (9, -(-3 * bits // 8))))] if zero else []
            c.end(c.op("GatherBlockQuantized", c.constant("u8", RNG.integers(0, 256, (9, 40 * bits // 8))), c.given("i64", [[0, -1, 8], [3, -9, 2]]),
                       c.constant(t, numbers(t, (9, 3), .01, .1)), *z, quantize_axis=1, block_size=16, bits=bits, **ms), t=t)
        c = Case(f"gathered_blocks_odd_{t}")
        c.end(c.op("GatherBlockQuantized", c.constant("u8", RNG.integers(0, 256, (9, 37))), c.given("i64", [[0, -1, 8], [3, -9, 2]]),
                   c.constant(t, numbers(t, (9, 3), .01, .1)), quantize_axis=1, block_size=16, bits=8, **ms), t=t)
        for q in ("u8", "i8", "u16", "i16"):
            c = Case(f"ms_quantize_{t}_{q}")
            c.end(c.op("QuantizeLinear", c.x(t, 5, 33, 2), c.constant(t, numbers(t, (33,), .1, 1)), c.constant(q, numbers(q, (33,))), axis=1, **ms), t=q)
            c = Case(f"ms_dequantize_{q}_{t}")
            c.end(c.op("DequantizeLinear", c.x(q, 5, 33, 2), c.constant(t, numbers(t, (5,), .1, 1)), c.constant(q, numbers(q, (5,))), axis=0, **ms), t=t)
    for q in ("u8", "i8"):
        scale = lambda c, v=.1: [c.constant("f32", v), c.constant(q, 3)]
        for op in ("Add", "Mul"):
            for n, shape in enumerate(((3, 5, 7), (5, 1), ())):
                c = Case(f"codes_{op.lower()}{n}_{q}")
                c.end(c.op("QLinear" + op, c.x(q, 3, 5, 7, low=-100, high=100), *scale(c), c.x(q, *shape, low=-100, high=100), *scale(c, .3), *scale(c, .2), **ms), t=q)
        for op, more in (("Sigmoid", {}), ("LeakyRelu", {"alpha": .3})):
            c = Case(f"codes_{op.lower()}_{q}")
            c.end(c.op("QLinear" + op, c.x(q, 3, 5, 7, low=-100, high=100), *scale(c, .03), *scale(c, .01), **more, **ms), t=q)
    for q, seq, batch, wide, hidden, both, many, more in (("u8", 3, 1, 8, 12, 0, 0, 0), ("i8", 4, 6, 30, 37, 1, 1, 1), ("u8", 2, 5, 70, 130, 1, 1, 0),
                                                          ("i8", 3, 1, 5, 33, 0, 0, 1), ("i8", 2, 2, 515, 524, 0, 1, 0)):
        c, dirs = Case(f"coded_layer{hidden}_{q}"), 1 + both
        scale = lambda: c.constant("f32", numbers("f32", (dirs, 4 * hidden) if many else (dirs,), .001, .004))
        zero = lambda: c.constant(q, numbers(q, (dirs, 4 * hidden) if many else (dirs,), 0, 9) + (120 if q == "u8" else 0))
        state = lambda: c.x("f32", dirs, batch, hidden, low=-1, high=1)
        ins = [c.x("f32", seq, batch, wide), *[c.constant(q, RNG.integers(0, 256, (dirs, n, 4 * hidden)).astype(np.uint8).view(NP[q])) for n in (wide, hidden)]]
        ins += [c.w("f32", dirs, 8 * hidden), c.given("i32", np.arange(1, batch + 1) % (seq + 1)), state(), state(), c.w("f32", dirs, 3 * hidden)] if more else [""] * 5
        y = c.op("DynamicQuantizeLSTM", *ins, scale(), zero(), scale(), zero(), hidden_size=hidden, direction="bidirectional" if both else "reverse" if more else "forward",
                 outs=3, **ms)
        c.end(*y, t="f32")


def special():
    """NaN behind the libraries' convolutions and products, whose fused activations must keep it (docs/special-values.md)."""
    acts = [("Relu", {}), ("HardSigmoid", {}), ("Sigmoid", {}), ("Tanh", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("HardSwish", {}),
            ("LeakyRelu", {"alpha": .1}), ("Elu", {}), ("Softplus", {}), ("Mish", {}), ("Clip", {}), ("Clip", {"low": -1})]
    for t in HALVES:
        for op, more in acts:
            name = f"special_{op.lower()}{''.join(map(str, more.values()))}_{t}"
            bounds = [np.float32(more.get("low", 0)), np.float32(6)] if op == "Clip" else []
            more = {} if bounds else more

            def given(c, *shape):
                v = numbers("f32", shape, -1, 1)
                v.reshape(-1)[[11, v.size // 3, v.size // 2]] = np.nan
                return c.given(t, v)

            def end(c, y):
                c.end(c.op(op, y, *[c.constant(t, b) for b in bounds], **more))

            for k in (1, 3):
                c = Case(f"{name}_conv{k}")
                end(c, c.op("Conv", given(c, 1, 64, 28, 28), c.w(t, 64, 64, k, k, low=-.1, high=.1), c.w(t, 64), pads=[k // 2] * 4))
            c = Case(f"{name}_residual")
            y = c.op("Conv", c.x(t, 1, 64, 28, 28, low=-1, high=1), c.w(t, 64, 64, 1, 1, low=-.1, high=.1), c.w(t, 64))
            end(c, c.op("Add", y, given(c, 1, 64, 28, 28)))
            c = Case(f"{name}_gemm")
            end(c, c.op("Gemm", given(c, 128, 256), c.w(t, 256, 256, low=-.1, high=.1), c.w(t, 256)))
        c = Case(f"special_maxpool_{t}")
        v = numbers("f32", (1, 64, 28, 28), -1, 1)
        v[0, 3, 4:9, 6] = np.nan
        v[0, 5] = -np.inf
        y = c.op("MaxPool", c.given(t, v), kernel_shape=[3, 3], strides=[2, 2])
        c.end(y, c.op("GlobalMaxPool", y))
    for t, d, hidden, rows in itertools.product(("f32", "f64"), (64, 20), (False, True), (40, 2)):
        c = Case(f"special_safe_attention{d}_{rows}_{'mask' if hidden else 'plain'}_{t}")
        q = numbers("f32", (2, 3, rows, d), -1, 1)
        q[0, 1, rows // 2, 3], q[1, 2, 1, 0] = np.nan, np.inf
        s = c.op("MatMul", c.given(t, q), c.x(t, 2, 3, d, 48, low=-1, high=1))
        if hidden:
            mask = np.zeros((2, 1, rows, 48), NP[t])
            mask[:, :, 0] = -np.inf
            s = c.op("Add", s, c.given(t, mask))
        p = c.op("Softmax", s, axis=-1)
        p = c.op("Where", c.op("IsNaN", p), c.constant(t, 0), p)
        v = numbers("f32", (2, 3, 48, d))
        v[0, 1, 5, 2] = v[1, 2, 40, 7] = v[0, 0, 9, 11] = np.nan  # NaN even times a probability of 0
        c.end(c.op("MatMul", p, c.given(t, v)))


def language():
    """Experts, a paged cache and sparse attention, larger than the cases that are carried."""
    ms = {"domain": "com.microsoft"}
    for t in HALVES:
        c = Case(f"moe_{t}")
        c.end(c.op("MoE", c.x(t, 7, 40, low=-1, high=1), c.x(t, 7, 6), c.w(t, 6, 50, 40), c.w(t, 6, 50), c.w(t, 6, 40, 25), c.w(t, 6, 40),
                   k=3, activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1, **ms), t=t)
        c = Case(f"qmoe_{t}")
        c.end(c.op("QMoE", c.x(t, 5, 64, low=-1, high=1), c.x(t, 5, 6), c.w("u8", 6, 32, 32, low=0, high=255), c.w(t, 6, 32, 4, low=0, high=.1), "",
                   c.w("u8", 6, 64, 16, low=0, high=255), c.w(t, 6, 64, 2, low=0, high=.1), k=2, activation_type="silu",
                   block_size=16, **ms), t=t)
        for kind, starts, per_key, d in (("whole", None, False, 96), ("ragged", [0, 17, 17, 40], True, 50), ("wide", None, True, 150)):
            c = Case(f"gated_delta_net_{kind}_{t}")
            batch, tokens = (3, (40,)) if starts else (2, (2, 21))
            y = c.op("GatedDeltaNet", c.x(t, *tokens, 2, d, low=-1, high=1), c.x(t, *tokens, 2, d, low=-1, high=1), c.x(t, *tokens, 4, 40),
                     c.given("i32", starts) if starts else "", c.x(t, *tokens, 4, *([d] if per_key else []), low=-1, high=0),
                     c.x(t, *tokens, 4, low=0, high=1), c.x("f32", batch, 4, 40, d), "", "", c.given("i32", [3, 0, 9][:batch]), outs=3,
                     qk_l2_norm=1, state_update_capacity=4, **ms)
            c.end(*(y if t == "f32" else y[:1]), t=t)
        c = Case(f"linear_attention_window_{t}")
        y = c.op("LinearAttention", c.x(t, 2, 5, 16, low=-1, high=1), c.x(t, 2, 5, 32, low=-1, high=1), c.x(t, 2, 5, 40), c.x(t, 3, 2, 4, 8, 10),
                 c.x(t, 2, 5, 4, low=-1, high=0), c.x(t, 2, 5, 4, low=0, high=.3), outs=2, kv_num_heads=4, q_num_heads=2, state_window=3, **ms)
        c.end(*y, t=t)
        c = Case(f"linear_gate_{t}")
        y = c.op("LinearAttentionGate", c.x(t, 3, 5, 40), c.x("f32", 40), c.x("f32", 40), c.x(t, 3, 5, 40), outs=2, **ms)
        c.end(*y, t=t, free=True)
        c = Case(f"gated_add_{t}")
        c.end(c.op("GatedAdd", c.x(t, 2, 3, 40), c.x(t, 2, 3, 40), c.x(t, 2, 3, 1), **ms), t=t, free=True)
        c = Case(f"causal_last_{t}")
        y = c.op("CausalConvWithState", c.x(t, 2, 30, 40), c.w(t, 40, 1, 4), c.w(t, 40), c.x(t, 2, 2, 6, 40), outs=2, channels_last=1, dilation=2,
                 state_window=2, activation="silu", **ms)
        c.end(*y, t=t)
        for layout in (0, 1):
            c = Case(f"mrotary_{layout}_{t}")
            c.end(c.op("MRotaryEmbedding", c.x(t, 2, 5, 3 * 16), c.given("i64", RNG.integers(0, 9, (3, 2, 5))), c.x(t, 9, 8), c.x(t, 9, 8),
                       num_heads=3, mrope_section=[4, 2, 2], mrope_layout=layout, **ms), t=t)
        c = Case(f"qmoe_fp8_{t}")
        c.end(c.op("QMoE", c.x(t, 3, 40, low=-1, high=1), c.x(t, 3, 4), c.w("f8", 4, 36, 40), c.w("f32", 4, 3, 3, low=0), "", c.w("f8", 4, 40, 36),
                   c.w("f32", 4, 3, 3, low=0), k=2, activation_type="gelu", quant_type="fp8", block_size=16, **ms), t=t)
        c = Case(f"sparse_attention_{t}")
        past = c.x(t, 2, 2, 70, 16)
        rows = c.given("i32", [[0, 1, 2, 4, 6, 9], [0, 1, 3, 5, 8, 11]])
        cols = c.given("i32", [[0, 1, 1, 2, 0, 3, 0, 3, 4, -1, -1], [0, 0, 1, 0, 2, 1, 2, 3, 0, 3, 4]])
        y = c.op("SparseAttention", c.x(t, 2, 3, 64), c.x(t, 2, 3, 32), c.x(t, 2, 3, 32), past, past, rows, cols,
                 c.constant("i32", 66), c.given("i32", [66, 40]), outs=3, num_heads=4, kv_num_heads=2, sparse_block_size=16, **ms)
        c.end(*y, t=t)
    for t in ("f16", "bf16"):
        for cache in (t, "i8", "f8"):
            c = Case(f"paged_attention_{t}_{cache}")
            scales = [c.w("f32", 1, low=.02, high=.03) for _ in range(2)] if cache != t else []
            more = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"} if scales else {}
            keys = c.x(cache, 12, 16, 2, 144)
            y = c.op("PagedAttention", c.x(t, 5, 4 * 144, low=-1, high=1), c.x(t, 5, 2 * 144, low=-1, high=1), c.x(t, 5, 2 * 144), keys, keys,
                     c.given("i32", [0, 3, 5]), c.given("i32", [130, 7]), c.given("i32", [[4, 1, 0, 9, 2, 3, 7, 8, 10], [6] + [0] * 8]),
                     *(["", "", "", "", "", "", *scales] if scales else []), outs=3, num_heads=4, kv_num_heads=2, **more, **ms)
            c.end(y[0], t=t)


def float8():
    """--precision fp8: scales from bounds and from the run, what a normalization and a product round themselves."""
    for rows, wide in ((5, 64), (70, 256)):
        c = Case(f"float8_{rows}_{wide}", precision=4)
        x = c.op("MatMul", c.x("f32", rows, wide), c.w("f32", wide, 48))  # the scale is found in the run
        x = c.op("LayerNormalization", x, c.w("f32", 48, low=.5), c.w("f32", 48))
        y = c.op("Gelu", c.op("Gemm", x, c.w("f32", 80, 48, low=-.3, high=.3), c.w("f32", 80), transB=1))
        y = c.op("Add", c.op("Gemm", y, c.w("f32", 80, 48, low=-.3, high=.3), c.w("f32", 48)), x)
        c.end(c.op("Relu", c.op("Gemm", y, c.w("f32", 48, 32, low=-.3, high=.3), c.w("f32", 32))))


def float8_attention():
    """Attention that rounds its result to float8: each way to hide keys and number of them, and a size of heads that only kernels have which write float16."""
    for n, size, kind in [*itertools.product((70, 130, 220), (64,), ("none", "row", "causal")), (70, 64, "pairs"), (70, 32, "pairs"), (20, 56, "none")]:
        c, wide = Case(f"float8_attention{n}_{size}_{kind}", precision=4), 2 * size
        x = c.op("LayerNormalization", c.x("f32", 2, n, wide), c.w("f32", wide, low=.5), c.w("f32", wide))
        q, k, v = (c.op("Reshape", c.op("MatMul", x, c.w("f32", wide, wide, low=-.2, high=.2)), i64(c, 2, n, 2, size)) for _ in range(3))
        q, k, v = c.op("Transpose", q, perm=[0, 2, 1, 3]), c.op("Transpose", k, perm=[0, 2, 3, 1]), c.op("Transpose", v, perm=[0, 2, 1, 3])
        s = c.op("Mul", c.op("MatMul", q, k), c.constant("f32", size ** -.5))
        if kind == "causal":
            s = c.op("Add", s, c.constant("f32", np.where(np.tri(n), 0, -np.inf)))
        elif kind != "none":
            s = c.op("Add", s, c.x("f32", 2, 1, *([1, n] if kind == "row" else [n, n]), low=-9, high=0))
        y = c.op("Transpose", c.op("MatMul", c.op("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3])
        c.end(c.op("MatMul", c.op("Reshape", y, i64(c, 2, n, wide)), c.w("f32", wide, 32, low=-.2, high=.2)))


def few_rows():
    """Products of 5 to 16 rows on tensor cores, with two, four and eight columns a lane."""
    for t, m in (("f16", 5), ("f16", 16), ("bf16", 5), ("bf16", 16)):
        c = Case(f"gemv_half{m}_{t}")
        c.end(c.op("Relu", c.op("Add", c.op("MatMul", c.x(t, m, 1040), c.w(t, 1040, 48)), c.w(t, 48))),
              c.op("MatMul", c.x(t, m, 32), c.w(t, 32, 3208)), c.op("MatMul", c.x(t, m, 16), c.w(t, 16, 6408)),
              c.op("MatMul", c.x(t, m, 1, 48), c.x(t, 48, 24)))
    # large matrices: rows in rings, columns shared by one, two and four blocks; neither is a multiple of what a block takes
    for t, m in (("f16", 1), ("f16", 3), ("f16", 8), ("f16", 16), ("bf16", 1), ("bf16", 9)):
        c = Case(f"gemv_ring{m}_{t}")
        x = c.op("MatMul", c.x(t, m, 1096), c.w(t, 1096, 136, low=-.1, high=.1))
        y = c.op("Mul", c.op("MatMul", c.x(t, m, 520), c.w(t, 520, 264, low=-.1, high=.1)), c.constant(t, .5))
        c.end(c.op("Add", x, c.x(t, m, 136)), c.op("Relu", c.op("Add", y, c.w(t, 264))),
              c.op("Gemm", c.x(t, m, 264), c.w(t, 264, 520, low=-.1, high=.1), c.w(t, 520), alpha=.5, beta=2.0),
              c.op("MatMul", c.x(t, m, 1, 264), c.x(t, 264, 520, low=-.1, high=.1)))


def parts_of_keys():
    """Attention of one query to so many keys that they are cut into parts, without a cache to copy: another kernel joins the parts."""
    for t in HALVES:
        for d, group in itertools.product((64, 96), (1, 2)):
            c = Case(f"parts_of_keys{d}_{group}_{t}")
            c.end(c.op("Attention", c.x(t, 1, 2 * group, 1, d, low=-1, high=1), *(c.x(t, 1, 2, 200, d, low=-1, high=1) for _ in range(2))), t=t)


def odd_sizes():
    """Slices that are no multiples of 16 bytes, and images so large that several blocks share one."""
    each(BY_SIZE, "gather_odd", lambda c, t: c.op("Gather", c.x(t, 9, 7), c.given("i64", [[1, -1], [3, 8]])))
    for t in HALVES:
        c = Case(f"global_pool_split_{t}")
        c.end(c.op("GlobalAveragePool", c.depthwise(t, 8, 92)))


def points_special():
    """NaN and infinities of an image stay in it where images share a warp."""
    for t, cin in (("f32", 24), ("f32", 700), ("f16", 24), ("bf16", 15)):
        v = numbers(t, (19, cin, 1, 1), -1, 1)
        v[3, 5], v[8, 2:4, 0, 0], v[18, cin - 1] = np.nan, np.array([np.inf, -np.inf]).reshape(2), np.inf
        c = Case(f"points_special{cin}_{t}")
        c.end(c.op("Conv", c.given(t, v), c.w(t, 450, cin, 1, 1), c.w(t, 450)))


def empty():
    """Products and convolutions of no elements: plans must not divide by their sizes, nor launch for them."""
    for t in HALVES:
        for m, k, n in ((2, 0, 16), (12, 0, 16), (12, 16, 0), (0, 16, 16)):
            c = Case(f"product_of_nothing{m}_{k}_{n}_{t}")
            c.end(c.op("MatMul", c.x(t, m, k), c.x(t, k, n)), t=t)
    one, zero = np.float32(1), np.uint8(3)
    for channels, images in ((0, 2), (16, 0)):
        c = Case(f"conv_of_nothing{channels}_{images}")
        x, w = c.x("u8", images, channels, 9, 9), c.given("i8", numbers("i8", (32, channels, 3, 3)))
        scaled = [x, c.given("f32", one), c.given("u8", zero), w, c.given("f32", one), c.given("i8", 0), c.given("f32", one), c.given("u8", zero)]
        c.end(c.op("ConvInteger", x, w), c.op("QLinearConv", *scaled))


def large_batches():
    """What only large batches take: rows that parts of a warp normalize, a vision transformer's patches."""
    for t in HALVES:
        for n in (24, 64, 96):
            c = Case(f"many_rows{n}_{t}")
            c.end(c.op("LayerNormalization", c.x(t, 8195, n), c.w(t, n), c.w(t, n), axis=-1))
        c = Case(f"patches_in_a_row_{t}")
        y = c.op("Conv", c.x(t, 2, 3, 12, 12), c.w(t, 40, 3, 4, 4), c.w(t, 40), strides=[4, 4])
        y = c.op("Transpose", c.op("Reshape", y, i64(c, 2, 40, 9)), perm=[0, 2, 1])
        c.end(c.op("Add", c.op("Concat", c.x(t, 2, 1, 40), y, axis=1), c.w(t, 1, 10, 40)))
        c = Case(f"reshapes_of_channels_last_{t}")
        y = c.depthwise(t, 8)
        c.end(c.op("Reshape", y, i64(c, 2, 8, 144)), c.op("Reshape", y, i64(c, 2, 8, 4, 6, 6)), c.op("Reshape", y, i64(c, 2, 4, 2, 144)),
              c.op("Flatten", y, axis=2), c.op("Relu", c.op("Reshape", c.op("Reshape", y, i64(c, 2, 8, 72, 2)), i64(c, 2, 8, 12, 12))))


def large_products():
    """What warpgroups multiply: rows of a batch as one matrix, sizes that are no multiples of a tile, all that may follow a product."""
    for t, tf32 in (("f32", 1), ("f16", None), ("bf16", None)):
        c = Case(f"tuned_large_products_{'tf32' if tf32 else t}", precision=tf32)
        x = c.op("MatMul", c.x(t, 2, 70, 72, low=-1, high=1), c.w(t, 72, 136, low=-.2, high=.2))
        x = c.op("Gelu", c.op("Add", x, c.w(t, 136, low=-1, high=1)))
        y = c.op("Add", c.op("MatMul", x, c.w(t, 136, 136, low=-.1, high=.1)), c.w(t, 136, low=-1, high=1))
        x = c.op("Gelu", c.op("Add", y, x), approximate="tanh")
        c.end(c.op("Gemm", c.op("Reshape", x, i64(c, 140, 136)), c.w(t, 264, 136, low=-.1, high=.1), c.w(t, 264), transB=1, alpha=.5))
        c = Case(f"tuned_shared_products_{'tf32' if tf32 else t}", precision=tf32)
        x = c.op("MatMul", c.x(t, 3, 50, 520, low=-1, high=1), c.w(t, 520, 72, low=-.1, high=.1))
        x = c.op("Add", c.op("Add", x, c.w(t, 72, low=-1, high=1)), c.x(t, 3, 50, 72, low=-1, high=1))
        c.end(c.op("Relu", x), c.op("Gemm", c.op("Reshape", x, i64(c, 150, 72)), c.x(t, 40, 72, low=-.1, high=.1), transB=1, alpha=.5))
    # float8: results of both types, factors known before the run and not, what is added to float16
    c = Case("tuned_large_products_float8", precision=4)
    x = c.op("MatMul", c.x("f32", 2, 70, 208, low=-1, high=1), c.w("f32", 208, 272, low=-.2, high=.2))
    x = c.op("LayerNormalization", x, c.w("f32", 272, low=.5), c.w("f32", 272))
    y = c.op("Gelu", c.op("Add", c.op("MatMul", x, c.w("f32", 272, 336, low=-.1, high=.1)), c.w("f32", 336)), approximate="tanh")
    y = c.op("Add", c.op("MatMul", y, c.w("f32", 336, 272, low=-.1, high=.1)), c.w("f32", 272))
    c.end(c.op("Relu", c.op("MatMul", c.op("Add", y, x), c.w("f32", 272, 48, low=-.1, high=.1))))
    c = Case("tuned_shared_products_float8", precision=4)
    x = c.op("LayerNormalization", c.x("f32", 3, 50, 1040, low=-1, high=1), c.w("f32", 1040, low=.5), c.w("f32", 1040))
    y = c.op("Gelu", c.op("Add", c.op("MatMul", x, c.w("f32", 1040, 80, low=-.1, high=.1)), c.w("f32", 80)))
    z = c.op("MatMul", x, c.w("f32", 1040, 48, low=-.1, high=.1))
    c.end(c.op("MatMul", y, c.w("f32", 80, 48, low=-.1, high=.1)), c.op("Add", z, c.x("f32", 3, 50, 48)))


def turned(t, d, group, room, batch, **more):
    """GroupQueryAttention of one new row, turned by its position, behind a past that is copied, shorter in each second row of the batch."""
    c = Case(f"turned{d}_{group}_{room}_{batch}_{t}")
    last = [room - (b % 2 and min(3, room)) for b in range(batch)]
    q, k, v = (c.x(t, batch, 1, n * d, low=-1, high=1) for n in (2 * group, 2, 2))
    past = [c.x(t, batch, 2, room, d, low=-1, high=1) for _ in range(2)]
    angles = [c.w(t, room + 1, d // 4, low=-1, high=1) for _ in range(2)]
    y = c.op("GroupQueryAttention", q, k, v, *past, c.given("i32", last), c.constant("i32", room + 1), *angles, num_heads=2 * group,
             kv_num_heads=2, do_rotary=1, outs=3, domain="com.microsoft", **more)
    c.end(*y, t=t)


def rows_made_by_attention():
    """One head and several that share keys, in one part and in several, which a cluster or another kernel joins, and a block for each head; some with a soft cap or a window."""
    for t in HALVES:
        for d in 64, 96:
            turned(t, d, 1, 200, 2)
            turned(t, d, 4, 200, 2, rotary_interleaved=1)
            turned(t, d, 1, 70, 50, softcap=2.0)
            turned(t, d, 6, 70, 50, local_window_size=20)
            turned(t, d, 2, 300, 8)
        turned(t, 80, 3, 5, 2)


def large_special():
    """NaN and infinities that reach the activations of large products: where there is no cuBLASLt, those of warpgroups."""
    acts = [("Relu", {}), ("HardSwish", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Swish", {})]
    for (t, tf32), (op, more) in itertools.product((("f32", 1), ("f16", None)), acts):
        c = Case(f"large_special_{op.lower()}{''.join(more.values())}_{'tf32' if tf32 else t}", precision=tf32)
        v = numbers("f32", (140, 64), -1, 1)
        v[1], v[2, 3], v[3, 3], v[4], v[7, 1:3] = np.nan, np.inf, -np.inf, 0, (np.inf, -np.inf)
        y = c.op("Add", c.op("MatMul", c.given(t, v), c.w(t, 64, 136, low=-.1, high=.1)), c.w(t, 136))
        c.end(c.op("Mul", y, c.op("Sigmoid", y)) if op == "Swish" else c.op(op, y, **more))
    for op in "Relu", "Gelu":  # rounded to float8, NaN stays, and what is too large becomes the largest number
        c, v = Case(f"large_special_{op.lower()}_float8", precision=4), numbers("f32", (140, 64), -1, 1)
        v[1], v[3, 3], v[4] = np.nan, -np.inf, 0
        x = c.op("LayerNormalization", c.given("f32", v), c.w("f32", 64, low=.5), c.w("f32", 64))
        y = c.op(op, c.op("Add", c.op("MatMul", x, c.w("f32", 64, 144, low=-.3, high=.3)), c.w("f32", 144)))
        c.end(c.op("Add", c.op("MatMul", y, c.w("f32", 144, 64, low=-.3, high=.3)), c.x("f32", 140, 64)))


def boxes_of_codes():
    """Convolutions of codes that the copy engine feeds: windows with padding, steps and dilations, single pixels, a residual, rows of several lengths."""
    for q, (cin, cout, size, kernel, more) in itertools.product(("u8", "i8"), (
            (64, 64, (9, 7), (3, 3), {"pads": [1] * 4}), (128, 144, (7, 7), (3, 3), {"pads": [1] * 4}), (128, 272, (5, 30), (3, 2), {"pads": [0, 1, 1, 0]}),
            (64, 128, (15, 14), (3, 3), {"pads": [1] * 4, "strides": [2, 2]}), (128, 64, (11, 12), (2, 3), {"dilations": [3, 2], "pads": [2, 1, 1, 2]}),
            (256, 256, (9, 15), (1, 1), {}), (64, 256, (13, 11), (1, 1), {"strides": [1, 2]}))):
        low, high = (0, 255) if q == "u8" else (-128, 127)
        c = Case(f"tuned_boxes{cin}_{cout}_{'x'.join(map(str, size + kernel))}_{q}")
        y = [c.constant("f32", cin * kernel[0] * kernel[1] * .03), c.constant(q, 0 if q == "u8" else -3)]
        c.end(c.op("QLinearConv", c.x(q, 3, cin, *size, low=low, high=high), c.constant("f32", .02), c.constant(q, 0), c.w("i8", cout, cin, *kernel, low=-127, high=127),
                   c.w("f32", cout, low=.001, high=.004), c.constant("i8", np.zeros(cout)), *y, c.w("i32", cout, low=-5000, high=5000), **more))
    for q, zero, (cin, cout, size) in itertools.product(("u8", "i8"), (0, 5), ((64, 128, (13, 12)), (128, 256, (9, 11)))):
        low, high = (0, 255) if q == "u8" else (-128, 127)
        c, small, large = Case(f"tuned_boxes_add{cin}_{cout}_{zero}_{q}"), 1.0371, 20.017
        one = lambda s, z=0: [c.constant("f32", s), c.constant(q, z)]
        weights = lambda *shape: [c.w("i8", *shape, low=-127, high=127), c.constant("f32", .01), c.constant("i8", 0)]
        x = c.op("QLinearConv", c.x(q, 3, cin, *size, low=low, high=high), *one(.1), *weights(cin, cin, 1, 1), *one(small))
        r = c.op("QLinearConv", x, *one(small), *weights(cout, cin, 1, 1), *one(large, zero))
        y = c.op("QLinearConv", x, *one(small), *weights(cout, cin, 1, 1), *one(large, zero))
        c.end(c.op("QLinearAdd", y, *one(large, zero), r, *one(large, zero), *one(40.03, zero), domain="com.microsoft"), t=q)


def few_keys():
    """What warpgroups attend to: one tile of queries and several, sizes of keys up to each kernel's, masks of a row and of pairs, special values."""
    for t, (queries, keys) in itertools.product(HALVES, ((70, 90), (130, 200), (20, 250))):
        for causal in 0, 1:
            c = Case(f"few_keys{queries}_{keys}_{causal}_{t}")
            c.end(c.op("Attention", c.x(t, 2, 4, queries, 64, low=-1, high=1), *(c.x(t, 2, 2, keys, 64, low=-1, high=1) for _ in range(2)), is_causal=causal))
        mask = numbers(t, (2, 1, 1, keys), -2, 0)
        mask[0, 0, 0, 5:9], mask[1] = -np.inf, ml_dtypes.finfo(NP[t]).min if t == "bf16" else -9  # all hidden alike are seen alike
        c = Case(f"few_keys{queries}_{keys}_row_{t}")
        c.end(c.op("Attention", *(c.x(t, 2, 3, n, 64, low=-1, high=1) for n in (queries, keys, keys)), c.given(t, mask)))
    for t, where in itertools.product(HALVES, ("", "query", "key", "value")):
        mask = numbers(t, (2, 1, 70, 90), -2, 0)
        mask[:, :, :, 3::7] = -np.inf
        if where != "value":
            mask[0, 0, 7] = -np.inf
        q, k, v = (numbers(t, (2, 3, n, 64), -1, 1) for n in (70, 90, 90))
        if where:
            odd = {"query": q, "key": k, "value": v}[where]
            odd[0, 1, 5, 3], odd[0, 2, 40, 7], odd[1, 0, 11, 30], odd[1, 2, 60, 9] = np.inf, -np.inf, np.nan, np.inf
        c = Case(f"few_keys_pairs_{where}_{t}")
        c.end(c.op("Attention", c.given(t, q), c.given(t, k), c.given(t, v), c.given(t, mask)))
    for t in HALVES:  # heads of another size, which the kernels of any size have
        for kind in "none", "number", "bool":
            c = Case(f"few_keys_of_56_{kind}_{t}")
            mask = {"none": [], "number": [c.given(t, numbers(t, (70, 90), -2, 0))], "bool": [c.given("bool", numbers("u8", (70, 90), 0, 2) > 0)]}[kind]
            c.end(c.op("Attention", *(c.x(t, 2, 4, n, 56, low=-1, high=1) for n in (70, 90, 90)), *mask))


def many_heads():
    """Attention in TF32 by more blocks than two for each processor."""
    for kind in "none", "number", "bool":
        c = Case(f"many_heads_{kind}_tf32", precision=1)
        mask = {"none": [], "number": [c.given("f32", numbers("f32", (20, 40), -2, 0))], "bool": [c.given("bool", numbers("u8", (20, 40), 0, 2) > 0)]}[kind]
        c.end(c.op("Attention", *(c.x("f32", 1, 270, n, 16, low=-1, high=1) for n in (20, 40, 40)), *mask))


def short_rows():
    """Rows that a warp has to itself, with three pieces a thread and with four."""
    for t, n in itertools.product(HALVES, (264, 776)):
        c = Case(f"short_rows{n}_{t}")
        c.end(c.op("LayerNormalization", c.x(t, 2050, n), c.w(t, n), c.w(t, n), axis=-1))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for group in (rows, elements, moves, products, contrib, windows, caches, packed, behind_libraries, oddities, tiles, convs_of_codes, coded, special, language, float8, float8_attention, few_rows, odd_sizes, points_special, empty, large_batches, parts_of_keys,
                  rows_made_by_attention, large_products, large_special, boxes_of_codes, few_keys, many_heads, short_rows):
        group()
    with open(os.path.join(sys.argv[1], "manifest.tsv"), "w") as f:
        for name, precision in sorted(MADE):
            flags = f"precision={precision},times={60 if precision == 4 else 30},extra={1 if precision == 4 else 0.002}" if precision else "-"
            f.write("\t".join(["kernels", name, "-", "-", "-", "-", "-", "1", "1e-3", "1e-7", flags, "-"]) + "\n")
    print(f"{len(MADE)} cases")


main()
