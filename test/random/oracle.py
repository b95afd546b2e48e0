# SPDX-License-Identifier: Apache-2.0
"""The oracles: ONNX Runtime and onnx.reference, in a process of their own."""

import multiprocessing
import os
import sys
import traceback

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

from graph import BY_NUMBER, NUMPY, SMALL, Value, make_model, to_tensor_proto

CAST = {"bfloat16": TensorProto.FLOAT, "int4": TensorProto.INT8, "uint4": TensorProto.UINT8, "int2": TensorProto.INT8,
        "uint2": TensorProto.UINT8, "float4e2m1": TensorProto.FLOAT,
        "float6e2m3": TensorProto.FLOAT, "float6e3m2": TensorProto.FLOAT}
NEWEST = 26  # the opset that this ONNX Runtime knows


class Refused(Exception):
    pass


def exotic(t):
    return t in SMALL or t == "bfloat16" or t.startswith("complex")


def output_types(model):
    """What type inference says of the outputs: name -> TypeProto."""
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=False, data_prop=False)
    except Exception as e:  # pylint: disable=broad-except
        raise Refused(f"shape inference: {e}") from e
    return {o.name: o.type for o in inferred.graph.output}


def with_types(model, types):
    for o in model.graph.output:
        t = types.get(o.name)
        if t is not None and t.WhichOneof("value"):
            o.type.CopyFrom(t)
    return model


def opsets_to_ask(nodes, opset):
    """ONNX Runtime lacks some newer versions that added types only: an older one with the same signature will do."""
    got = []
    if any(a.type == onnx.AttributeProto.GRAPH for n in nodes for a in n.attribute):
        return [opset] if opset <= NEWEST else []
    domains = {n.domain for n in nodes} - {"", "ai.onnx"}
    if domains:
        return [min(opset, NEWEST)]
    now = [onnx.defs.get_schema(n.op_type, opset, "") for n in nodes]
    since = max(s.since_version for s in now)
    if since <= NEWEST:
        got.append(min(opset, NEWEST))
    before = since - 1
    if since >= 21 and before >= 7:
        old = [onnx.defs.get_schema(n.op_type, before, "") for n in nodes]
        if all([i.name for i in a.inputs] == [i.name for i in b.inputs] and set(a.attributes) == set(b.attributes) for a, b in zip(now, old)):
            got.append(before)
    return got


def run_ort(nodes, inputs, names, opset, ml, types):
    why = ["opset is newer than ONNX Runtime"]
    try:
        asked = opsets_to_ask(nodes, opset)
    except onnx.defs.SchemaError:
        asked = [opset]
    for version in asked:
        try:
            return run_ort_at(nodes, inputs, names, version, ml, types)
        except Refused as e:
            why.append(str(e))
            if "NOT_IMPLEMENTED" not in str(e):
                break
    raise Refused(why[-1])


def run_ort_at(nodes, inputs, names, opset, ml, types):
    import onnxruntime as ort
    feeds, inits = [], []
    for v in inputs:
        (inits if v.tensor and (v.const or exotic(v.type)) else feeds).append(v)
    nodes = list(nodes)
    fetch, back = list(names), {}
    for i, n in enumerate(names):
        t = types.get(n)
        kind = BY_NUMBER.get(t.tensor_type.elem_type) if t is not None and t.HasField("tensor_type") else None
        if kind in CAST or (kind and kind.startswith("float8")):
            nodes.append(helper.make_node("Cast", [n], [n + "_cast"], to=CAST.get(kind, TensorProto.FLOAT)))
            fetch[i] = n + "_cast"
            back[i] = kind
    model = make_model(nodes, feeds, fetch, opset, ml, inits)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = 1
    o.inter_op_num_threads = 1
    o.log_severity_level = 4
    try:
        s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
        r = ort.RunOptions()
        r.log_severity_level = 4
        got = s.run(fetch, {v.name: np.asarray(v.data) if v.tensor else v.data for v in feeds}, r)
    except Exception as e:  # pylint: disable=broad-except
        raise Refused(f"onnxruntime: {e}") from e
    return [np.asarray(g).astype(NUMPY[back[i]]) if i in back else g for i, g in enumerate(got)]


def check_type(name, got, types):
    """onnx.reference is careless of types: what is not of the inferred type is no answer."""
    t = types.get(name)
    if t is None or not t.HasField("tensor_type"):
        return got
    kind = BY_NUMBER.get(t.tensor_type.elem_type)
    if kind is None:
        return got
    got = np.asarray(got)
    if kind == "string":
        if got.dtype.kind not in "OUS":
            raise Refused("reference: not strings")
        return got.astype(object)
    if got.dtype != NUMPY[kind]:
        raise Refused(f"reference: type {got.dtype} in place of {kind}")
    if t.tensor_type.HasField("shape") and len(t.tensor_type.shape.dim) != got.ndim:
        raise Refused(f"reference: rank {got.ndim} in place of {len(t.tensor_type.shape.dim)}")
    for d, n in zip(t.tensor_type.shape.dim, got.shape):
        if d.HasField("dim_value") and d.dim_value != n:
            raise Refused("reference: another shape than inferred")
    return got


def run_reference(nodes, inputs, names, opset, ml, types):
    from onnx.reference import ReferenceEvaluator
    inits = [v for v in inputs if v.const and v.tensor]
    feeds = [v for v in inputs if not (v.const and v.tensor)]
    model = make_model(nodes, feeds, names, opset, ml, inits)
    with_types(model, types)
    try:
        with np.errstate(all="ignore"):
            got = ReferenceEvaluator(model).run(names, {v.name: v.data for v in feeds})
    except Exception as e:  # pylint: disable=broad-except
        raise Refused(f"reference: {type(e).__name__}: {e}") from e
    return [check_type(n, g, types) for n, g in zip(names, got)]


def to_value(name, got, types):
    t = types.get(name)
    elem = None
    optional = False
    if t is not None:
        if t.HasField("optional_type"):
            optional, t = True, t.optional_type.elem_type
        if t.HasField("sequence_type"):
            inner = t.sequence_type.elem_type
            elem = BY_NUMBER.get(inner.tensor_type.elem_type) if inner.HasField("tensor_type") else None
        elif t.HasField("tensor_type"):
            elem = BY_NUMBER.get(t.tensor_type.elem_type)
    if optional and isinstance(got, list) and t.HasField("tensor_type") and len(got) == 1:
        got = got[0]  # the reference wraps it
    if optional and isinstance(got, list) and t.HasField("sequence_type") and len(got) == 1 and isinstance(got[0], list):
        got = got[0]
    if isinstance(got, (list, tuple)):
        got = [np.asarray(g) if not isinstance(g, dict) else g for g in got]
        got = [g.astype(object) if isinstance(g, np.ndarray) and g.dtype.kind in "US" else g for g in got]
    elif got is not None and not isinstance(got, dict):
        got = np.asarray(got)
        if got.dtype.kind in "US":
            got = got.astype(object)
    v = Value(got, name=name, elem=elem, optional=optional)
    return v


def evaluate(nodes, inputs, names, opset, ml, ort=True, reference=True):
    """(oracle's name, values); Refused where neither gives an answer."""
    model = make_model(nodes, [v for v in inputs if not (v.const and v.tensor)], names, opset, ml,
                       [v for v in inputs if v.const and v.tensor])
    types = output_types(model)
    why = []
    for name, run, wanted in (("onnxruntime", run_ort, ort), ("reference", run_reference, reference)):
        if not wanted:
            continue
        if name == "reference" and any(n.domain == "com.microsoft" for n in nodes):
            continue
        try:
            got = run(nodes, inputs, names, opset, ml, types)
            return name, [to_value(n, g, types) for n, g in zip(names, got)]
        except Refused as e:
            why.append(str(e))
    raise Refused(" | ".join(why))


def _serve(pipe):
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
    except OSError:
        pass
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        nodes = [onnx.NodeProto.FromString(n) for n in job.pop("nodes")]
        try:
            name, values = evaluate(nodes, **job)
            pipe.send(("ok", name, values))
        except Refused as e:
            pipe.send(("refused", str(e)[:1000], None))
        except Exception:  # pylint: disable=broad-except
            pipe.send(("refused", "oracle: " + traceback.format_exc()[-1000:], None))


class Oracle:
    """evaluate() in a process that may die, or never answer: an answer missed for a busy machine makes another graph."""

    def __init__(self, seconds=300):
        self.seconds, self.process = seconds, None

    def start(self):
        here, there = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()
        self.pipe = here

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def __call__(self, nodes, inputs, names, opset, ml, ort=True, reference=True):
        if self.process is None:
            self.start()
        try:
            self.pipe.send(dict(nodes=[n.SerializeToString() for n in nodes], inputs=inputs, names=names,
                                opset=opset, ml=ml, ort=ort, reference=reference))
            if not self.pipe.poll(self.seconds):
                raise Refused("oracle: no answer in time")
            state, name, values = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as e:
            self.stop()
            if ort and reference:  # ONNX Runtime died
                return self(nodes, inputs, names, opset, ml, ort=False)
            raise Refused("oracle: died") from e
        except Refused:
            self.stop()
            raise
        if state != "ok":
            raise Refused(name)
        return name, values


if __name__ == "__main__":
    sys.exit("this is a part of random_test.py")
