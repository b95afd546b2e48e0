#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model that was exported with a fixed batch, with a free one, in float32 and in float16.

    gpu_gpt2.py gpt2.dyn32.onnx OUT [--check]

writes OUT/gpt2.free32.onnx, with the weights' file of the source, and OUT/gpt2.free16.onnx with its own: either
converted from the source's, where that is there, or (a model whose weights are made by a recipe) as a recipe of the
same names, NAME.weights.json. Dimensions but the first must not depend on the batch. --check runs the source, the
new graph at the source's batch, and at another one, with ONNX Runtime on the CPU: they must agree.
"""
import argparse
import json
import os
import pathlib
import re

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper


def is_external(t):
    return t.data_location == TensorProto.EXTERNAL


def free_batch(model):
    """The batch: a name instead of a number. Shapes of Reshape begin with -1, tables repeated for the batch shrink."""
    graph = model.graph
    batch = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
    sizes |= {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.input, *graph.output]}
    constant = {t.name: t for t in graph.initializer if not is_external(t)}
    shapes = {n.input[1]: sizes.get(n.output[0]) for n in graph.node if n.op_type == "Reshape"}
    for name, known in shapes.items():
        shape = numpy_helper.to_array(constant[name]).tolist()
        if shape[0] == -1 or shape[0] % batch:
            continue
        if -1 in shape[1:]:
            if not known or len(known) != len(shape):
                raise SystemExit(f"{name}: the size of {shape} is not known")
            shape = known[:]
        constant[name].CopyFrom(numpy_helper.from_array(np.array([-1, *shape[1:]], np.int64), name))
    for name, t in constant.items():
        a = numpy_helper.to_array(t)
        if a.ndim > 1 and a.shape[0] == batch and a.dtype == bool and (a == a[:1]).all():
            t.CopyFrom(numpy_helper.from_array(a[:1], name))
    for v in [*graph.input, *graph.output]:
        v.type.tensor_type.shape.dim[0].dim_param = "batch"
    del graph.value_info[:]
    for n in graph.node:
        del n.metadata_props[:]
        n.doc_string = ""
    return batch


def half(array):
    return np.clip(array, -65504, 65504).astype(np.float16)


def to_half(model, location):
    """Every float32 becomes float16; external tensors lie in `location` at half their places."""
    graph = model.graph
    for t in graph.initializer:
        if t.data_type != TensorProto.FLOAT:
            continue
        if is_external(t):
            t.data_type = TensorProto.FLOAT16
            for e in t.external_data:
                e.value = location if e.key == "location" else str(int(e.value) // 2)
        else:
            t.CopyFrom(numpy_helper.from_array(half(numpy_helper.to_array(t)), t.name))
    for n in graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.FLOAT16
            if a.type == onnx.AttributeProto.TENSOR and a.t.data_type == TensorProto.FLOAT:
                a.t.CopyFrom(numpy_helper.from_array(half(numpy_helper.to_array(a.t))))
    for v in [*graph.input, *graph.output]:
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.FLOAT16


def half_recipe(recipe, location):
    r = json.loads(recipe.read_text())
    r["file"], r["size"] = location, r["size"] // 2
    for t in r["tensors"]:
        t["dtype"], t["offset"] = "float16", t["offset"] // 2
    return r


def check(source, new, batch):
    import onnxruntime as ort

    def run(path, ids):
        return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {name: ids})[0]

    graph = onnx.load(source, load_external_data=False).graph
    name, length = graph.input[0].name, graph.input[0].type.tensor_type.shape.dim[1].dim_value
    ids = np.random.default_rng(1).integers(0, 1000, (batch + 1, length))
    want, same, more = run(source, ids[:batch]), run(new, ids[:batch]), run(new, ids)
    scale = np.abs(want).max()
    print(f"{new.name}: batch {batch}: {np.abs(same - want).max() / scale:.1e},", end=" ")
    print(f"batch {batch + 1}, the same rows: {np.abs(more[:batch] - want).max() / scale:.1e}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("source", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    stem = re.sub(r"\.\w+$", "", a.source.stem)
    model = onnx.load(a.source, load_external_data=False)
    batch = free_batch(model)
    files = {e.value for t in model.graph.initializer if is_external(t) for e in t.external_data if e.key == "location"}
    if len(files) != 1:
        raise SystemExit(f"weights in {len(files)} files, not in one")
    weights = a.source.parent / files.pop()
    if weights.exists() and not (a.out / weights.name).exists():
        os.link(weights.resolve(), a.out / weights.name)  # ONNX Runtime follows no symbolic link
    onnx.save(model, a.out / f"{stem}.free32.onnx")
    location = f"{stem}.free16.weights.bin"
    to_half(model, location)
    onnx.save(model, a.out / f"{stem}.free16.onnx")
    recipe = a.source.with_name(a.source.stem + ".weights.json")
    if recipe.exists():
        new = half_recipe(recipe, location)
        (a.out / f"{stem}.free16.weights.json").write_text(json.dumps(new))
    if weights.exists():
        half(np.fromfile(weights, np.float32)).tofile(a.out / location)
    if a.check:
        check(a.source, a.out / f"{stem}.free32.onnx", batch)
        check(a.source, a.out / f"{stem}.free16.onnx", batch)


if __name__ == "__main__":
    main()
