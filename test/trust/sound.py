# SPDX-License-Identifier: Apache-2.0
"""Sound variants of real models: each function changes a Variant's model so that its outputs stay what they were.

`same` says how far: "equal" up to rounding, "close" where the variant rounds elsewhere (fp16), "runs" where it computes other
numbers by design (quantized). The driver asks ONNX Runtime whether that is so before infer is asked.
"""

import pathlib
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import faults

CLASSES = {}


class Variant:
    def __init__(self, base, rng, judges, folder):
        self.base, self.rng, self.judges, self.folder = base, rng, judges, pathlib.Path(folder)
        self.model = onnx.load(base.path)  # as published: nodes without names stay so
        self.graph = self.model.graph
        self.feeds = dict(base.feeds)
        self.external = False

    def opset(self):
        return max([i.version for i in self.model.opset_import if i.domain in ("", "ai.onnx")] or [0])

    def replace(self, model):
        self.model, self.graph = model, model.graph


def sound(name, same="equal"):
    def add(function):
        CLASSES[name] = dict(make=function, same=same)
        return function

    return add


def subgraphs(graph):
    yield graph
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from subgraphs(a.g)


def rename(graph, names):
    for g in subgraphs(graph):
        for n in g.node:
            for slots in (n.input, n.output):
                for k, v in enumerate(slots):
                    slots[k] = names.get(v, v)
        for list_ in (g.initializer, g.value_info, g.output, g.input):
            for v in list_:
                v.name = names.get(v.name, v.name)


@sound("as-published")
def _(v):
    return True


@sound("values-renamed")
def _(v):
    fixed = {i.name for i in v.graph.input} | {o.name for o in v.graph.output}
    names = {name for g in subgraphs(v.graph) for n in g.node for name in [*n.input, *n.output] if name} | {w.name for g in subgraphs(v.graph) for w in g.initializer}
    rename(v.graph, {name: f"t{k}/{v.rng.randrange(10**6)}" for k, name in enumerate(sorted(names - fixed))})


@sound("nodes-renamed")
def _(v):
    way = v.rng.randrange(3)
    for k, n in enumerate(v.graph.node):
        n.name = ["", f"/layer/{k}/op", f"node {k}: \u00e4"][way]


@sound("nodes-shuffled")
def _(v):
    nodes = list(v.graph.node)
    where = {o: k for k, n in enumerate(nodes) for o in n.output if o}
    waits = []
    for n in nodes:
        names = set(n.input)
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                names |= faults.nested_names(a.g) | {o.name for o in a.g.output}
        waits.append({where[i] for i in names if i in where})
    ready, done, order = [k for k, w in enumerate(waits) if not w], set(), []
    left = {k for k, w in enumerate(waits) if w}
    after = {}
    for k, w in enumerate(waits):
        for i in w:
            after.setdefault(i, []).append(k)
    while ready:
        k = ready.pop(v.rng.randrange(len(ready)))
        order.append(k)
        done.add(k)
        for j in after.get(k, []):
            if j in left and waits[j] <= done:
                left.remove(j)
                ready.append(j)
    if left:
        return False
    faults.replace_nodes(v.graph, [nodes[k] for k in order])


@sound("initializers-shuffled")
def _(v):
    for name in ("initializer", "value_info"):
        items = list(getattr(v.graph, name))
        v.rng.shuffle(items)
        v.graph.ClearField(name)
        getattr(v.graph, name).extend(items)


@sound("weights-as-typed-data")
def _(v):
    for w in v.graph.initializer:
        if w.data_type in (TensorProto.FLOAT, TensorProto.INT64) and w.raw_data and len(w.raw_data) < 1 << 20:
            array = numpy_helper.to_array(w)
            w.CopyFrom(helper.make_tensor(w.name, w.data_type, array.shape, array.reshape(-1).tolist()))


@sound("weights-as-constants")
def _(v):
    inputs = {i.name for i in v.graph.input}
    chosen = [w for w in v.graph.initializer if w.name not in inputs and v.rng.random() < 0.7]
    outputs = {o.name for o in v.graph.output}
    chosen = [w for w in chosen if w.name not in outputs]
    nodes = [helper.make_node("Constant", [], [w.name], name=f"constant_{k}", value=w) for k, w in enumerate(chosen)] + list(v.graph.node)
    if not chosen or v.opset() < 1:
        return False
    names = {w.name for w in chosen}
    keep = [w for w in v.graph.initializer if w.name not in names]
    faults.replace_nodes(v.graph, nodes)
    del v.graph.initializer[:]
    v.graph.initializer.extend(keep)


@sound("constants-as-weights")
def _(v):
    outputs = {o.name for o in v.graph.output}
    nodes, moved = [], 0
    for n in v.graph.node:
        if n.op_type == "Constant" and n.attribute and n.attribute[0].name == "value" and n.output[0] not in outputs:
            w = v.graph.initializer.add()
            w.CopyFrom(n.attribute[0].t)
            w.name = n.output[0]
            moved += 1
        else:
            nodes.append(n)
    faults.replace_nodes(v.graph, nodes)
    return moved > 0


@sound("weights-as-inputs")
def _(v):
    inputs = {i.name for i in v.graph.input}
    for w in v.graph.initializer:
        if w.name not in inputs:
            v.graph.input.append(helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)))


@sound("external-data")
def _(v):
    v.external = True
    return any(len(w.raw_data) >= 1024 for w in v.graph.initializer)


@sound("text-round-trip")
def _(v):
    if len(v.base.data) > 1 << 20:
        return False
    from google.protobuf import text_format

    v.replace(text_format.Parse(text_format.MessageToString(v.model), onnx.ModelProto()))


@sound("documented")
def _(v):
    v.model.producer_name, v.model.producer_version, v.model.doc_string = "trust", "1", "sound\n" * 100
    helper.set_model_props(v.model, {"names": "{0: 'a'}", "\u00e4": "x" * 1000})
    for n in v.graph.node:
        n.doc_string = "File \"x.py\", line 1"


@sound("shapes-declared")
def _(v):
    v.replace(onnx.shape_inference.infer_shapes(v.model))


@sound("shapes-dropped")
def _(v):
    del v.graph.value_info[:]


@sound("outputs-undeclared")
def _(v):
    for o in v.graph.output:
        o.type.tensor_type.ClearField("shape")


@sound("output-in-the-middle")
def _(v):
    chosen = [n.output[0] for n in v.graph.node if n.output and isinstance(v.base.trace(v.judges).get(n.output[0]), np.ndarray) and v.base.values[n.output[0]].dtype == np.float32]
    chosen = [c for c in chosen if c not in {o.name for o in v.graph.output} and v.base.values[c].size > 4 and np.ptp(v.base.values[c]) > 0 and np.isfinite(v.base.values[c]).all()]
    if not chosen:
        return False
    for name in v.rng.sample(chosen, min(2, len(chosen))):
        v.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


@sound("opset-converted")
def _(v):
    from onnx import version_converter

    target = v.rng.randrange(max(v.opset(), 7) + 1, 23) if v.opset() < 21 else 23
    v.replace(version_converter.convert_version(v.model, target))


@sound("ort-basic")
def _(v):
    path = v.folder / "optimized.onnx"
    answer = v.judges.ask("optimize", v.model.SerializeToString(), str(path))
    if isinstance(answer[0], str):
        return False
    v.replace(onnx.load(path))


@sound("onnxslim")
def _(v):
    try:
        import onnxslim
    except ImportError:
        return False
    v.replace(onnxslim.slim(v.model))


@sound("function")
def _(v):
    chosen = [n for n in v.graph.node if n.op_type in ("Relu", "Sigmoid", "Add", "Mul", "MatMul", "Tanh", "Conv", "Softmax", "Gemm", "Transpose") and n.domain == "" and all(n.input) and all(n.output)]
    if not chosen:
        return False
    v.model.ir_version = max(v.model.ir_version, 8)
    v.model.opset_import.append(helper.make_opsetid("local.trust", 1))
    for k, n in enumerate(v.rng.sample(chosen, min(len(chosen), v.rng.randrange(1, 6)))):
        body = onnx.NodeProto()
        body.CopyFrom(n)
        inputs = [f"a{i}" for i in range(len(n.input))]
        del body.input[:], body.output[:]
        body.input.extend(inputs)
        body.output.append("b")
        v.model.functions.append(helper.make_function("local.trust", f"Part{k}", inputs, ["b"], [body], [helper.make_opsetid("", v.opset())]))
        n.op_type, n.domain = f"Part{k}", "local.trust"
        del n.attribute[:]


@sound("sizes-fixed")
def _(v):
    free = 0
    for i in v.graph.input:
        if i.name in v.feeds:
            for d, size in zip(i.type.tensor_type.shape.dim, v.feeds[i.name].shape):
                free += not d.HasField("dim_value")
                d.dim_value = size
    for o in v.graph.output:
        o.type.tensor_type.ClearField("shape")
    del v.graph.value_info[:]
    return free > 0


@sound("batch-freed")
def _(v):
    inputs = [i for i in v.graph.input if i.name in v.feeds]
    if len(inputs) != 1 or v.feeds[inputs[0].name].shape[:1] != (1,):
        return False
    dim = inputs[0].type.tensor_type.shape.dim[0]
    if not dim.HasField("dim_value"):
        return False
    dim.dim_param = "batch"
    del v.graph.value_info[:]
    for o in v.graph.output:
        if len(o.type.tensor_type.shape.dim) and o.type.tensor_type.shape.dim[0].dim_value == 1:
            o.type.tensor_type.shape.dim[0].dim_param = "batch"
    name = inputs[0].name
    value = v.feeds[name]
    answer = v.judges.ask("ort", v.model.SerializeToString(), {name: np.concatenate([value, value])})
    if isinstance(answer[0], str):
        return False
    return all(isinstance(t, np.ndarray) and t.shape[:1] == (2 * v.base.outputs[k].shape[0],) and np.allclose(t[: len(t) // 2], t[len(t) // 2 :], rtol=1e-3, atol=1e-3) for k, t in answer[0].items() if v.base.outputs[k].ndim)


@sound("fp16", "close")
def _(v):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    v.replace(convert_float_to_float16(v.model, keep_io_types=True))


@sound("quantized-dynamic", "runs")
def _(v):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    kinds = {n.op_type for n in v.graph.node}
    if not kinds & {"MatMul", "Conv", "Gemm", "LSTM"} or len(v.base.data) > 4 << 20:
        return False
    quantize_dynamic(v.base.path, v.folder / "q.onnx", weight_type=v.rng.choice([QuantType.QInt8, QuantType.QUInt8]), extra_options={"DefaultTensorType": TensorProto.FLOAT})
    v.replace(onnx.load(v.folder / "q.onnx"))


class Reader:
    def __init__(self, feeds, seed):
        self.rows = [{k: (a * random.Random(seed + i).uniform(0.5, 1.5)).astype(a.dtype) if a.dtype.kind == "f" else a for k, a in feeds.items()} for i in range(3)]

    def get_next(self):
        return self.rows.pop() if self.rows else None


@sound("quantized-static", "runs")
def _(v):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    CalibrationDataReader.register(Reader)
    if not {n.op_type for n in v.graph.node} & {"MatMul", "Conv", "Gemm"} or len(v.base.data) > 4 << 20 or v.opset() < 11:
        return False
    quantize_static(v.base.path, v.folder / "q.onnx", Reader(v.feeds, v.rng.randrange(1000)), quant_format=v.rng.choice([QuantFormat.QDQ, QuantFormat.QOperator]), per_channel=v.rng.random() < 0.5 and v.opset() >= 13)
    v.replace(onnx.load(v.folder / "q.onnx"))


def float_feed(v):
    return [k for k, a in v.feeds.items() if a.dtype == np.float32 and a.ndim]


@sound("other-input")
def _(v):
    for k in float_feed(v):
        v.feeds[k] = np.random.default_rng(v.rng.randrange(1 << 30)).normal(0, v.rng.choice([0.05, 0.3, 1.0]), v.feeds[k].shape).astype(np.float32)
    v.base_outputs_of_feeds = True
    return bool(float_feed(v))


# ---- what may be said of a sound model all the same, since it is true


def batch_is_pinned(variant, judges):
    """Whether inputs of a batch of 2 are refused, or give an output of 2 that is declared with a batch of 1."""
    two = {k: np.concatenate([a, a]) for k, a in variant.feeds.items() if a.ndim}
    answer = judges.ask("ort", variant.model.SerializeToString(), {**variant.feeds, **two})
    declared = {o.name for o in variant.graph.output if o.type.tensor_type.shape.dim and o.type.tensor_type.shape.dim[0].dim_value == 1}
    return isinstance(answer[0], str) or any(answer[0][name].shape[:1] == (2,) for name in declared)


def holds(finding, variant, judges):
    """Whether a warning states a fact, found here without infer: then it is no false alarm."""
    g, kind = variant.graph, finding["id"]
    if kind == "W-MODEL-BATCH":
        return batch_is_pinned(variant, judges)
    if kind == "W-MODEL-UNUSED":
        used = {o.name for o in g.output} | faults.nested_names(g)
        unread = [n for n in g.node if n.op_type == "Constant" and n.output[0] not in used]
        return bool(unread) or any(w.name not in used for w in g.initializer) or any(i.name not in used for i in g.input) or any(w.name not in {o.name for o in s.output} | faults.nested_names(s) for s in subgraphs(g) for w in s.initializer)
    if kind == "W-MODEL-ORDER":  # the fp16 converter of ONNX Runtime puts its Casts at the end
        answer = judges.ask("checker", variant.model.SerializeToString())
        return isinstance(answer[0], str) and "topologically sorted" in answer[0]
    if kind == "W-MODEL-DEAD":
        return len(faults.needed_nodes(g)) < len(g.node)
    if kind == "W-MODEL-NAME":
        names = [n.name for n in g.node if n.name]
        return len(set(names)) < len(names)
    if kind == "W-WEIGHT-DENORMAL":
        tiny = np.finfo(np.float32).tiny
        for tensor in tensors(g):
            if tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
                a = np.abs(numpy_helper.to_array(tensor))
                if ((a > 0) & (a < (tiny if a.dtype == np.float32 else np.finfo(np.float16).tiny))).any():
                    return True
        return False
    if kind == "W-WEIGHT-F64":
        return any(t.data_type == TensorProto.DOUBLE for t in tensors(g))
    if kind in ("W-MODEL-TRANSPOSE", "W-MODEL-CAST"):
        op = "Transpose" if kind.endswith("TRANSPOSE") else "Cast"
        made = {o for s in subgraphs(g) for n in s.node if n.op_type == op for o in n.output}
        return any(n.op_type == op and n.input[0] in made for s in subgraphs(g) for n in s.node)
    if kind == "W-MODEL-IDENTITY":
        return sum(n.op_type in ("Identity", "Dropout", "Cast", "Concat", "Reshape", "Transpose") for n in g.node) > 0
    return False


def tensors(graph):
    for g in subgraphs(graph):
        yield from g.initializer
        for n in g.node:
            for a in n.attribute:
                if a.type == onnx.AttributeProto.TENSOR:
                    yield a.t
