#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random islands of 8-bit networks: operators between DequantizeLinear and QuantizeLinear, against ONNX Runtime without optimizations.

usage: codes.py --driver PROGRAM [--seed N] [--count N] [--only I] [--write DIR] [--tap]

--write keeps the graphs as cases, with what the oracle makes of the whole graph as their outputs.

A graph is one operator, or a convolution and an operator behind it. Each code may differ by one, for floats are summed in another
order than integers; the second operator is judged by what the oracle makes of our own codes of the first.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

TYPES = {"uint8": (TensorProto.UINT8, 0, 255), "int8": (TensorProto.INT8, -128, 127)}
FUNCTIONS = ["Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Relu", "LeakyRelu", "Elu", "Erf", "Sqrt", "Exp", "Softplus", "Neg", "Abs"]
EQUAL = 0.98  # of all codes; ties are rare


class Codes:
    """A quantized value: its name, its numbers if they are known, its scale and zero point."""

    def __init__(self, name, t, shape, scale, zero):
        self.name, self.t, self.shape, self.scale, self.zero = name, t, list(shape), scale, zero


class Island:
    def __init__(self, seed):
        self.r = np.random.default_rng(seed)
        self.nodes, self.inits, self.inputs, self.feeds, self.outputs, self.n = [], [], [], {}, [], 0
        self.starts = []  # number of nodes before each operator

    def flag(self, p=0.5):
        return self.r.random() < p

    def pick(self, *of):
        return of[self.r.integers(len(of))]

    def int(self, low, high):
        return int(self.r.integers(low, high + 1))

    def name(self, what):
        self.n += 1
        return f"{what}_{self.n}"

    def const(self, array, what="c"):
        name = self.name(what)
        self.inits.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, domain=None, **attrs):
        out = self.name(op)
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **{k: v for k, v in attrs.items() if v is not None}))
        return out

    def scale(self, low=0.003, high=0.1):
        s = self.r.uniform(low, high)
        return np.float32(2.0 ** np.round(np.log2(s)) if self.flag(0.3) else s)

    def zero(self, t):
        low, high = TYPES[t][1:]
        return np.asarray(self.pick(low, 0 if t == "int8" else 128, self.int(low, high), self.int(low, high)), t)

    def numbers(self, t, shape):
        low, high = TYPES[t][1:]
        a = self.r.integers(low, high + 1, shape)
        return (np.where(self.r.random(shape) < 0.1, self.pick(low, high), a) if self.flag(0.2) else a).astype(t)

    def value(self, shape, t=None, const=False):
        t = t or self.pick("uint8", "int8")
        c = Codes("", t, shape, self.scale(), self.zero(t))
        if const:
            c.name = self.const(self.numbers(t, shape), "w")
        else:
            c.name = self.name("x")
            self.inputs.append(helper.make_tensor_value_info(c.name, TYPES[t][0], list(shape)))
            self.feeds[c.name] = self.numbers(t, shape)
            if self.flag(0.4):  # most codes of a network lie about their zero point
                about = np.round(self.r.normal(int(c.zero), self.pick(5, 25, 40), shape))
                self.feeds[c.name] = np.clip(about, *TYPES[t][1:]).astype(t)
        return c

    def dq(self, c, axis=None):
        scale, zero = np.asarray(c.scale, np.float32), np.asarray(c.zero, c.t)
        args = [c.name, self.const(scale, "s")]
        if np.any(zero) or self.flag(0.8):
            args.append(self.const(zero, "z"))
        return self.node("DequantizeLinear", args, axis=axis)

    def q(self, x, t=None, scale=None, zero=None, shape=()):
        t = t or self.pick("uint8", "int8")
        scale = self.scale(0.01, 0.2) if scale is None else scale
        zero = self.zero(t) if zero is None else zero
        args = [x, self.const(np.float32(scale), "s")]
        if t == "int8" or np.any(zero) or self.flag(0.8):
            args.append(self.const(np.asarray(zero, t), "z"))
        y = self.node("QuantizeLinear", args)
        self.outputs.append((y, t))
        return Codes(y, t, shape, scale, zero)

    def bounded(self, x):
        kind = self.pick("", "", "Relu", "Clip")
        if kind == "Relu":
            return self.node("Relu", [x]), 0
        if kind == "Clip":
            return self.node("Clip", [x, self.const(np.float32(0)), self.const(np.float32(6))]), 0
        return x, None

    def weights(self, shape, axis):
        """Codes with one scale, or one for each index of the axis."""
        w = self.value(shape, const=True)
        symmetric = self.flag(0.6)
        if self.flag(0.4):  # weights of 7 bits
            self.inits[-1].CopyFrom(numpy_helper.from_array((self.r.integers(-64, 65, shape) + (128 if w.t == "uint8" else 0)).astype(w.t), w.name))
        if self.flag():
            n = shape[axis]
            w.scale = np.array([self.scale() for _ in range(n)], np.float32)
            w.zero = np.array([self.zero(w.t) for _ in range(n)], w.t)
        if symmetric:
            w.zero = np.full_like(w.zero, 0 if w.t == "int8" else 128)
        return w, self.dq(w, axis if w.scale.ndim else None)

    def bias(self, n, unit):
        unit = np.broadcast_to(np.float32(unit), [n]).astype(np.float32)
        kind = self.int(0, 2)
        b = self.r.integers(-3000, 3000, n).astype(np.int32)
        if kind == 0:
            return []
        if kind == 1:
            return [self.const((b * unit).astype(np.float32), "b")]
        return [self.node("DequantizeLinear", [self.const(b, "b"), self.const(unit, "s"), self.const(np.zeros(n, np.int32), "z")], axis=0)]

    def conv(self):
        n = self.pick(1, 2, 2, 2, 3)
        group = self.pick(1, 1, 2, 4)
        per, out = self.pick((1, 1), (self.int(1, 20), self.int(1, 20)), (1, 2), (self.int(16, 40), self.int(16, 80)))
        kernel, steps = [self.int(1, 3) for _ in range(n)], 2
        if self.flag(0.15):  # windows of 3 x 3 of many channels, which are multiplied by tiles where bytes are not exact
            n, group, per, out, kernel, steps = 2, 1, self.pick(32, 64, self.int(58, 64)), self.int(30, 80), [3, 3], 1
        x = self.value([self.int(1, 2), group * per] + [k * 2 + self.int(0, 6) for k in kernel])
        w, wf = self.weights([group * out, per] + kernel, 0)
        pads = [self.int(0, k - 1) for k in kernel] if self.flag() else [0] * n
        attrs = dict(group=group, strides=[self.int(1, steps) for _ in range(n)], dilations=[self.int(1, steps) for _ in range(n)], pads=pads * 2)
        y = self.node("Conv", [self.dq(x), wf] + self.bias(group * out, x.scale * w.scale), **attrs)
        return y, group * out

    def top(self, name):
        """The largest magnitude that the oracle finds in a value, so that its codes do not all saturate."""
        got = self.oracle([(name, None)], self.feeds)[name]
        return float(np.abs(got).max()) if got.size else 1.0, list(got.shape)

    def quantized(self, x):
        x, low = self.bounded(x)
        t = self.pick("uint8", "int8")
        top, shape = self.top(x)
        scale = self.scale(0.5, 1.5) * max(top, 1e-3) / self.pick(64, 128, 256)
        zero = np.asarray(TYPES[t][1], t) if low == 0 and self.flag(0.7) else None
        return self.q(x, t, scale, zero, shape)

    # ---- operators -----------------------------------------------------------------------------------------------------

    def one(self):
        op = self.pick("conv", "conv", "conv", "matmul", "matmul", "gemm", "pair", "function", "number", "move", "pool", "concat")
        self.starts.append(len(self.nodes))
        if op == "conv":
            self.quantized(self.conv()[0])
        else:
            getattr(self, op)(self.value([self.int(1, 3), self.int(1, 20), self.int(1, 7), self.int(1, 7)]))

    def two(self):
        """What follows a convolution, whose output lies with its channels last."""
        self.starts.append(len(self.nodes))
        y, _ = self.conv()
        c = self.quantized(y)
        self.starts.append(len(self.nodes))
        getattr(self, self.pick("pair", "pair", "scaled", "function", "pool", "move", "swish", "concat"))(c)

    def matmul(self, _):
        k, batch = self.int(1, 70), [self.int(1, 3) for _ in range(self.int(0, 2))]
        a = self.value(batch + [self.int(1, 20), k])
        if self.flag(0.7):
            _, bf = self.weights([k, self.int(1, 40)], 1)
        else:
            bf = self.dq(self.value(batch + [k, self.int(1, 20)]))
        y = self.node("MatMul", [self.dq(a), bf])
        if self.flag(0.8):
            self.quantized(y)
        else:
            self.outputs.append((y, "float32"))

    def gemm(self, _):
        k, n, turned = self.int(1, 70), self.int(1, 40), self.flag()
        a = self.value([self.int(1, 20), k])
        w, wf = self.weights([n, k] if turned else [k, n], 0 if turned else 1)
        self.quantized(self.node("Gemm", [self.dq(a), wf] + self.bias(n, a.scale * w.scale), transB=int(turned)))

    def pair(self, a):
        shape = [1 if self.flag(0.1) else d for d in a.shape][self.pick(0, 0, 0, len(a.shape) - 1) if self.flag(0.3) else 0:]
        b = self.value(shape, a.t if self.flag(0.9) else None, const=self.flag(0.3))
        x, y = self.dq(a), self.dq(b)
        self.quantized(self.node(self.pick("Add", "Mul"), [x, y] if self.flag() else [y, x]))

    def scaled(self, a):
        b = self.value([a.shape[0], a.shape[1]] + [1] * (len(a.shape) - 2), a.t)
        self.quantized(self.node("Mul", [self.dq(a), self.dq(b)]))

    def swish(self, a):
        f = self.dq(a)
        s = self.q(self.node(self.pick("Sigmoid", "HardSigmoid"), [f]), a.t, 1 / 255, np.asarray(TYPES[a.t][1], a.t), a.shape)
        self.outputs.pop()
        self.quantized(self.node("Mul", [self.dq(a), self.dq(s)]))

    def function(self, a):
        self.quantized(self.node(self.pick(*FUNCTIONS), [self.dq(a)]))

    def number(self, a):
        k = self.const(np.float32(self.r.uniform(-2, 2)))
        x = self.dq(a)
        self.quantized(self.node(self.pick("Add", "Sub", "Mul", "Div"), [x, k] if self.flag(0.7) else [k, x]))

    def pool(self, a):
        n = len(a.shape) - 2
        kind = self.pick("MaxPool", "GlobalAveragePool", "AveragePool")
        if kind == "GlobalAveragePool":
            self.quantized(self.node(kind, [self.dq(a)]))
            return
        kernel = [self.int(1, min(2, d)) for d in a.shape[2:]]
        y = self.node(kind, [self.dq(a)], kernel_shape=kernel, strides=[self.int(1, 2) for _ in range(n)])
        if kind == "MaxPool" and self.flag(0.7):
            self.q(y, a.t, a.scale, a.zero)
        else:
            self.quantized(y)

    def move(self, a):
        f, n = self.dq(a), len(a.shape)
        kind = self.pick("Transpose", "Reshape", "Flatten", "Unsqueeze", "Slice", "Gather", "none")
        if kind == "Transpose":
            f = self.node(kind, [f], perm=[int(i) for i in self.r.permutation(n)])
        elif kind == "Reshape":
            f = self.node(kind, [f, self.const(np.array([0, -1], np.int64))])
        elif kind == "Unsqueeze":
            f = self.node(kind, [f, self.const(np.array([self.int(0, n)], np.int64))])
        elif kind == "Slice":
            f = self.node(kind, [f, self.const(np.array([0], np.int64)), self.const(np.array([1], np.int64)), self.const(np.array([self.int(0, n - 1)], np.int64))])
        elif kind == "Gather":
            f = self.node(kind, [f, self.const(np.array([0, -1, 0], np.int64))], axis=self.int(0, n - 1))
        elif kind == "Flatten":
            f = self.node(kind, [f])
        if self.flag(0.6):
            self.q(f, a.t, a.scale, a.zero)
        else:
            self.quantized(f)

    def concat(self, a):
        axis = self.int(0, len(a.shape) - 1)
        b = self.value([self.int(1, 9) if i == axis else d for i, d in enumerate(a.shape)], a.t if self.flag(0.8) else None)
        self.quantized(self.node("Concat", [self.dq(a), self.dq(b)], axis=axis))

    # ---- the graph as a model, and the oracle ----------------------------------------------------------------------------

    def model(self, outputs, first=0, extra=()):
        made = {o for n in self.nodes[first:] for o in n.output} | {i.name for i in self.inits}
        used = {i for n in self.nodes[first:] for i in n.input}
        types = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
        known = {i.name for i in self.inputs}
        outs = [helper.make_tensor_value_info(o, types.get(t, TensorProto.FLOAT), None) for o, t in outputs]
        more = [helper.make_tensor_value_info(n, types[t], None) for n, t in extra if n in used and n not in made and n not in known]
        g = helper.make_graph(self.nodes[first:], "g", [i for i in self.inputs if i.name in used] + more, outs, self.inits)
        return helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def oracle(self, outputs, feeds, first=0, extra=()):
        o = ort.SessionOptions()
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        o.log_severity_level = 4
        o.intra_op_num_threads = 1
        m = self.model(outputs, first, extra)
        s = ort.InferenceSession(m.SerializeToString(), o, providers=["CPUExecutionProvider"])
        names = {i.name for i in m.graph.input}
        return dict(zip([n for n, _ in outputs], s.run(None, {k: v for k, v in feeds.items() if k in names})))


class Driver:
    """infer, one process for many models."""

    def __init__(self, program, folder):
        self.folder = folder
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, model, feeds, folder):
        os.makedirs(folder + "/out", exist_ok=True)
        onnx.save(model, folder + "/model.onnx")
        for k, i in enumerate(model.graph.input):
            with open(f"{folder}/input_{k}.pb", "wb") as f:
                f.write(numpy_helper.from_array(feeds[i.name], i.name).SerializeToString())
        self.p.stdin.write(f"{folder}/model.onnx {folder} {folder}/out\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline().strip()
        if line != "ok":
            return line or "the driver died", None
        got = {}
        for k, o in enumerate(model.graph.output):
            t = TensorProto()
            with open(f"{folder}/out/output_{k}.pb", "rb") as f:
                t.ParseFromString(f.read())
            got[o.name] = numpy_helper.to_array(t)
        return "", got


def compare(got, want, t):
    """(what is wrong, number of equal codes)"""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, expected {want.dtype}{want.shape}", 0
    d = np.abs(got.astype(np.float64) - want.astype(np.float64))
    if t == "float32":
        top = np.abs(want).max() if want.size else 1
        return (f"differs by {d.max()} of {top}" if d.size and d.max() > 1e-5 * top + 1e-6 else ""), d.size
    return (f"a code differs by {d.max():.0f}" if d.size and d.max() > 1 else ""), int((d == 0).sum())


def write_case(folder, model, feeds, outputs):
    os.makedirs(folder + "/test_data_set_0")
    onnx.save(model, folder + "/model.onnx")
    for kind, values in (("input", [(i.name, feeds[i.name]) for i in model.graph.input]), ("output", outputs.items())):
        for k, (name, v) in enumerate(values):
            with open(f"{folder}/test_data_set_0/{kind}_{k}.pb", "wb") as f:
                f.write(numpy_helper.from_array(v, name).SerializeToString())


def check(driver, seed, index, folder, write=None):
    """(what is wrong, number of codes, number of equal ones)"""
    island = Island([seed, index])
    (island.two if island.flag(0.4) else island.one)()
    if write:
        ops = "_".join(n.op_type for n in island.nodes if "Linear" not in n.op_type) or "Requantize"
        write_case(f"{write}/{ops}_{seed}_{index}", island.model(island.outputs), island.feeds, island.oracle(island.outputs, island.feeds))
    bad, got = driver.run(island.model(island.outputs), island.feeds, folder)
    if bad:
        return bad, 0, 0
    total = equal = 0
    for k, (name, t) in enumerate(island.outputs):
        first, known = island.starts[k], island.outputs[:k]
        want = island.oracle([(name, t)], {**island.feeds, **{n: got[n] for n, _ in known}}, first, known)[name]
        wrong, same = compare(got[name], want, t)
        if wrong:
            return f"output {k}, {[n.op_type for n in island.nodes[first:]]}: {wrong}", 0, 0
        total, equal = total + want.size, equal + same
    return "", total, equal


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--driver", required=True)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=1000)
    a.add_argument("--only", type=int)
    a.add_argument("--write")
    a.add_argument("--tap", action="store_true")
    args = a.parse_args()
    failed = total = equal = 0
    todo = range(args.count) if args.only is None else [args.only]
    with tempfile.TemporaryDirectory() as tmp:
        driver = Driver(args.driver, tmp)
        for i in todo:
            bad, n, same = check(driver, args.seed, i, tmp, args.write)
            total, equal = total + n, equal + same
            if bad:
                failed += 1
                print(f"# --seed {args.seed} --only {i}: {bad}", flush=True)
    if equal < EQUAL * total:
        failed += 1
        print(f"# only {equal} of {total} codes are equal")
    if args.tap:
        print(f"{'not ok' if failed else 'ok'} {len(todo)} random islands of 8-bit networks\n1..1")
    else:
        print(f"{len(todo) - failed} passed, {failed} failed; {equal} of {total} codes equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
