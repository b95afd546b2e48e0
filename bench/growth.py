#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the work of infer's commands grow with the size of a model, or with its square?

    bench/growth.py --infer build/bin/infer [--kinds chain,ifs] [--sizes 10000,40000] [--commands inspect,run]

Makes models of N nodes, outputs, inputs, initializers, free dimensions or If nodes, and prints the CPU seconds of each
command with the exponent of the growth from the first size to the last. Exits with 1 if one is above --most (1.35 by
default: N log N has about 1.1 at these sizes, and page faults and the machine add some). Needs onnx and numpy.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

COMMANDS = {
    "inspect": ["inspect"],
    "run": ["run", "--random", "0..1", "-q", "-t", "1"],
    "check": ["check", "--random", "0..1", "-q"],
    "profile": ["profile", "--random", "0..1", "-n", "2", "--warmup", "0"],
}


def value(name, shape=(4,), dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def chain(n, op="Sin", more=(), **attributes):
    """n nodes, each on the result of the one before; more(i) gives further inputs."""
    return [helper.make_node(op, [f"v{i - 1}" if i else "x", *(more(i) if more else [])], [f"v{i}"], **attributes)
            for i in range(n)]


def branch(name, op, source):
    return helper.make_graph([helper.make_node(op, [source], [name])], name, [], [value(name)])


def make(kind, n):
    x, last = [value("x")], [value(f"v{n - 1}")]
    if kind == "chain":
        return chain(n), x, last, []
    if kind == "reversed":
        return chain(n)[::-1], x, last, []
    if kind == "identity":
        return chain(n, "Identity") + [helper.make_node("Sin", [f"v{n - 1}"], ["y"])], x, [value("y")], []
    if kind == "fanout":
        nodes = [helper.make_node("Sin", ["x"], [f"v{i}"]) for i in range(n)]
        return nodes + [helper.make_node("Sum", [f"v{i}" for i in range(n)], ["y"])], x, [value("y")], []
    if kind == "outputs":
        return chain(n), x, [value(f"v{i}") for i in range(n)], []
    if kind == "inputs":
        names = [f"x{i}" for i in range(n)]
        return [helper.make_node("Sum", names, ["y"])], [value(i) for i in names], [value("y")], []
    if kind == "dims":
        names = [f"x{i}" for i in range(n)]
        inputs = [value(i, [f"d{k}"]) for k, i in enumerate(names)]
        return [helper.make_node("Concat", names, ["y"], axis=0)], inputs, [value("y", None)], []
    if kind == "initializers":
        weights = [numpy_helper.from_array(numpy.full(4, i, numpy.float32), f"w{i}") for i in range(n)]
        return chain(n, "Add", lambda i: [f"w{i}"]), x, last, weights
    if kind == "conv":
        weights = [numpy_helper.from_array(numpy.ones((1, 1, 3, 3), numpy.float32), "w")]
        nodes = chain(n, "Conv", lambda i: ["w"], pads=[1, 1, 1, 1])
        return nodes, [value("x", (1, 1, 4, 4))], [value(f"v{n - 1}", None)], weights
    if kind == "residual":  # all values live at the same time
        nodes = chain(n) + [helper.make_node("Add", [f"w{i - 1}" if i else f"v{n - 1}", f"v{n - 1 - i}"], [f"w{i}"])
                            for i in range(n)]
        return nodes, x, [value(f"w{n - 1}")], []
    if kind == "ifs":
        nodes = [helper.make_node("If", ["c"], [f"v{i}"], then_branch=branch(f"t{i}", "Sin", f"v{i - 1}" if i else "x"),
                                  else_branch=branch(f"e{i}", "Cos", "x")) for i in range(n)]
        return nodes, [*x, value("c", [], TensorProto.BOOL)], last, []
    sys.exit(f"no such kind: {kind}")


KINDS = "chain,reversed,identity,fanout,outputs,inputs,dims,initializers,conv,residual,ifs"


def save(path, kind, n):
    nodes, inputs, outputs, weights = make(kind, n)
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def cpu_seconds(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--kinds", default=KINDS)
    p.add_argument("--sizes", default="10000,40000")
    p.add_argument("--commands", default=",".join(COMMANDS))
    p.add_argument("--most", type=float, default=1.35)
    a = p.parse_args()
    sizes = [int(s) for s in a.sizes.split(",")]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in a.kinds.split(","):
            paths = [os.path.join(folder, f"{n}.onnx") for n in sizes]
            for path, n in zip(paths, sizes):
                save(path, kind, n)
            row = []
            for name in a.commands.split(","):
                first, *more = COMMANDS[name]
                t = [min(cpu_seconds([a.infer, first, path, *more]) for _ in range(2)) for path in paths]
                grows = math.log(t[-1] / t[0]) / math.log(sizes[-1] / sizes[0])
                bad += grows > a.most
                row.append(f"{name} {' '.join(f'{s:.2f}' for s in t)} s, {grows:.2f}")
            print(f"{kind:13s}", "   ".join(row), flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
