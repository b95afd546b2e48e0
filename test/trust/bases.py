# SPDX-License-Identifier: Apache-2.0
"""Real models, with inputs that ONNX Runtime runs them on, and what each value of their graphs is then."""

import pathlib
import random

import numpy as np
import onnx
from onnx import helper

import oracle

# Sizes that real models take for a free dimension; the first that ONNX Runtime accepts for all of them is taken.
SIZES = [64, 48, 32, 16, 128, 224, 320, 640, 8, 4, 2, 1, 96, 160, 512, 256, 1000, 16000]
INTEGERS = [1, 0, 16000]
BATCH_NAMES = ("batch", "n", "b", "batch_size", "N")


def input_shape(value, size):
    shape = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif axis == 0 or dim.dim_param in BATCH_NAMES:
            shape.append(1)
        else:
            shape.append(size)
    return shape


def make_feeds(model, rng, size, integer):
    weights = {w.name for w in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = input_shape(value, size)
        if dtype.kind == "f":
            feeds[value.name] = rng.random(shape).astype(dtype)
        elif dtype.kind in "iu":
            feeds[value.name] = np.full(shape, integer, dtype) if integer > 1 else rng.integers(0, integer + 1, shape).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = np.ones(shape, dtype)
        else:
            return None
    return feeds


class Base:
    """One model with feeds: .model (a fresh copy each time), .feeds, .outputs, .values (name to array)."""

    def __init__(self, path, data, feeds, outputs, seconds):
        self.path, self.data, self.feeds, self.outputs, self.seconds = path, data, feeds, outputs, seconds
        self.values = None
        self.name = f"{path.parent.name}/{path.name}"

    def copy(self):
        return onnx.load_from_string(self.data)

    def trace(self, judges):
        if self.values is None:
            self.values = trace(judges, self.copy(), self.feeds) or {}
        return self.values


def trace(judges, model, feeds, judge="ort"):
    """Every value that a node of the main graph writes, as ONNX Runtime computes it without optimizations, and each output."""
    there = {o.name for o in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in there:
                there.add(name)
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    answer = judges.ask(judge, model.SerializeToString(), feeds)
    return None if oracle.refused(answer) else answer[0]


def name_nodes(graph):
    """Findings are matched by the name of a node, so each node of the main graph gets one of its own."""
    taken = set()
    for k, node in enumerate(graph.node):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_of_{k}"
        taken.add(node.name)


def find_feeds(judges, model, data, seed):
    """Feeds that ONNX Runtime accepts, its outputs and its time; None where no size of SIZES does."""
    free = any(not d.dim_value for v in model.graph.input for d in v.type.tensor_type.shape.dim)
    whole = any(helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type).kind in "iu" for v in model.graph.input)
    why = "no inputs that it takes"
    for integer in INTEGERS if whole else INTEGERS[:1]:
        for size in SIZES if free else SIZES[:1]:
            feeds = make_feeds(model, np.random.default_rng(seed), size, integer)
            if feeds is None:
                return None, "an input is no tensor of numbers"
            answer = judges.ask("ort", data, feeds)
            if not oracle.refused(answer) and oracle.finite(answer[0].values()):
                return (feeds, answer[0], answer[1]), ""
            why = answer[0] if oracle.refused(answer) else "outputs are not finite"
    return None, why


def load(folder, judges, seed=0, most_bytes=6 << 20, most_seconds=0.25, report=None):
    bases, seen = [], set()
    for path in sorted(pathlib.Path(folder).glob("*/*.onnx")):
        if path.stat().st_size > most_bytes:
            continue
        model = onnx.load(path)
        name_nodes(model.graph)
        data = model.SerializeToString()
        if hash(data) in seen:
            continue
        seen.add(hash(data))
        found, why = find_feeds(judges, model, data, seed)
        if found is None:
            if report:
                report(f"{path}: left out: {why[:150]}")
            continue
        if found[2] <= most_seconds:
            bases.append(Base(path, data, *found))
    return bases


def pick(rng: random.Random, items):
    items = list(items)
    return rng.choice(items) if items else None
