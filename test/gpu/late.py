#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conformance cases whose small inputs only the run knows.

usage: late.py CASES FOLDER

Each case of one node of CASES/KIND/CASE whose node has a second input of at most one dimension comes out as
FOLDER/KIND/CASE with these inputs plus a zero that depends on the first input's data: no plan can know them, so
that kernels have to read them where they are, or plans to wait for them. Outputs stay what they were.
"""

import os
import shutil
import sys

import onnx
from onnx import TensorProto as T
from onnx import helper as h

ADDED = {T.FLOAT, T.FLOAT16, T.DOUBLE, T.INT32, T.INT64, T.UINT8, T.INT8, T.UINT32, T.UINT64, T.BFLOAT16}
COUNTED = ADDED | {T.BOOL}


def elem(v):
    return v.type.tensor_type.elem_type if v.type.HasField("tensor_type") else 0


def late(model):
    """Changes the model; false where there is nothing to change."""
    g = model.graph
    opset = max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")] or [0])
    if len(g.node) != 1 or opset < 14 or len(g.input) < 2 or elem(g.input[0]) not in COUNTED:
        return False
    small = {v.name: v for v in g.input[1:] if elem(v) in COUNTED and len(v.type.tensor_type.shape.dim) <= 1}
    node = g.node[0]
    wanted = [n for n in node.input if n in small]
    if not wanted:
        return False
    x = g.input[0].name
    made = [h.make_node("Cast", [x], ["late.f"], to=T.FLOAT), h.make_node("ReduceMax", ["late.f"], ["late.s"], keepdims=0),
            h.make_node("IsNaN", ["late.s"], ["late.a"]), h.make_node("Not", ["late.a"], ["late.b"]),
            h.make_node("And", ["late.a", "late.b"], ["late.no"])]
    for n in dict.fromkeys(wanted):
        t = elem(small[n])
        if t == T.BOOL:
            made.append(h.make_node("Or", [n, "late.no"], [n + ".late"]))
        else:
            made.append(h.make_node("Cast", ["late.no"], [n + ".zero"], to=t))
            made.append(h.make_node("Add", [n, n + ".zero"], [n + ".late"]))
    for i, n in enumerate(node.input):
        if n in small:
            node.input[i] = n + ".late"
    del g.node[:]
    g.node.extend(made + [node])
    return True


def main():
    cases, to = sys.argv[1:3]
    lines = {}
    with open(os.path.join(cases, "manifest.tsv"), encoding="utf-8") as f:
        for line in f:
            lines[tuple(line.split("\t")[:2])] = line
    os.makedirs(to, exist_ok=True)
    count = 0
    with open(os.path.join(to, "manifest.tsv"), "w", encoding="utf-8") as f:
        for (kind, case), line in lines.items():
            path = os.path.join(cases, kind, case)
            if not os.path.exists(path + "/model.onnx") or os.path.getsize(path + "/model.onnx") > 100000:
                continue
            model = onnx.load(path + "/model.onnx")
            if not late(model):
                continue
            shutil.copytree(path, os.path.join(to, kind, case), ignore=shutil.ignore_patterns("model.onnx"))
            onnx.save(model, os.path.join(to, kind, case, "model.onnx"))
            f.write(line)
            count += 1
    print(count, "cases")


if __name__ == "__main__":
    main()
