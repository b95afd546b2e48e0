# SPDX-License-Identifier: Apache-2.0
"""Faults of every class that infer-check(1) promises to find, planted into real models.

Each function takes a Plan, changes its model, feeds, options or bytes, and says which nodes or names the finding must give. It
returns False where the class does not apply to the model. The ids, the cause (a word that the finding must say) and the exit
status are from the manual and from ONNX's text, not from what infer prints.

The judges of a fault:
  refused    ONNX Runtime or onnx.checker refuses the model, or ONNX Runtime the run
  nonfinite  outputs that were finite are not any more; the node is the first one of the file whose output is not
  differs    outputs differ from those of the sound model
  equal      outputs are the same: what was planted is a useless or harmful part, by its construction
  input      what is wrong is the input's file or an option; ONNX Runtime is not asked
"""

import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import bases

CLASSES = {}


class Plan:
    def __init__(self, base, rng, judges):
        self.base, self.rng, self.judges = base, rng, judges
        self.model = base.copy()
        self.graph = self.model.graph
        self.feeds = dict(base.feeds)
        self.nodes, self.name = None, None  # nodes any of which may be blamed; a name that the finding must contain
        self.nodes_by_run = False  # the nodes are those that the judges' runs named
        self.ids, self.cause, self.exit = None, None, None
        self.options, self.bytes, self.files = [], None, {}
        self.file_of_input = {}  # input name to (suffix of the file, its bytes, keys after the file's name)

    @property
    def values(self):
        return self.base.trace(self.judges)

    def pick(self, items):
        items = list(items)
        return self.rng.choice(items) if items else None

    def weights(self):
        return {w.name: w for w in self.graph.initializer}

    def node(self, *types, when=None):
        """A random (position, node) of the main graph."""
        return self.pick((k, n) for k, n in enumerate(self.graph.node) if (not types or n.op_type in types) and n.domain in ("", "ai.onnx") and (when is None or when(n)))

    def readers(self, name):
        return [n for n in self.graph.node if name in n.input]

    def float_output(self, least=2, most=1 << 22, when=None):
        """A random (position, node, index of output) whose value is float32, of several elements, and matters."""
        needed = needed_nodes(self.graph)
        choices = []
        for k, n in enumerate(self.graph.node):
            v = self.values.get(n.output[0]) if n.output and k in needed else None
            if isinstance(v, np.ndarray) and v.dtype == np.float32 and least <= v.size <= most and (when is None or when(n, v)):
                choices.append((k, n))
        return self.pick(choices)

    def insert_after(self, position, steps):
        """steps: (type, node's name, extra inputs, attributes): a chain behind output 0 of the node at `position`."""

        def chain(value, out):
            made = []
            for k, (kind, name, extra, attributes) in enumerate(steps):
                result = out if k == len(steps) - 1 else f"{out}__{k}"
                made.append(helper.make_node(kind, [value, *extra], [result], name=name, **attributes))
                value = result
            return made

        self.splice_after(position, chain)

    def splice_after(self, position, make):
        """Puts the nodes of make(value, out) behind the node at `position`: they read its output as `value` and write `out` in its place."""
        node = self.graph.node[position]
        out = node.output[0]
        node.output[0] = out + "__before"
        nodes = list(self.graph.node)
        nodes[position + 1 : position + 1] = make(node.output[0], out)
        replace_nodes(self.graph, nodes)
        drop_declared(self.graph, out)

    def constant(self, name, array):
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def change_weight(self, weight, array):
        weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), weight.name))

    def has_free_dims(self):
        return any(not d.HasField("dim_value") for i in self.graph.input if i.name in self.feeds for d in i.type.tensor_type.shape.dim)

    def opset(self):
        return max([i.version for i in self.model.opset_import if i.domain in ("", "ai.onnx")] or [0])


def replace_nodes(graph, nodes):
    del graph.node[:]
    graph.node.extend(nodes)


def needed_nodes(graph):
    """Positions of nodes that an output depends on."""
    wanted = {o.name for o in graph.output}
    found = set()
    for k in range(len(graph.node) - 1, -1, -1):
        node = graph.node[k]
        if wanted.intersection(node.output):
            found.add(k)
            wanted.update(node.input)
            for a in node.attribute:
                for g in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs):
                    wanted.update(i for n in g.node for i in n.input)
                    wanted.update(o.name for o in g.output)
                    wanted.update(nested_names(g))
    return found


def all_nodes(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            for g in ([a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs):
                yield from all_nodes(g)


def nested_names(graph):
    names = set()
    for n in graph.node:
        names.update(n.input)
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                names |= nested_names(a.g) | {o.name for o in a.g.output}
    return names


def drop_declared(graph, *names):
    for k in range(len(graph.value_info) - 1, -1, -1):
        if graph.value_info[k].name in names:
            del graph.value_info[k]


def drop_all_declared(graph):
    del graph.value_info[:]


def attribute(node, name):
    for a in node.attribute:
        if a.name == name:
            return a
    return None


def fault(name, ids, judge, status=None, cause="", more=""):
    """Registers a class: ids is a pattern of the ids that the manual allows, cause one of words that its text must have."""

    def add(function):
        CLASSES[name] = dict(plant=function, ids=ids, judge=judge, exit=status, cause=cause, more=more)
        return function

    return add


# ---- files


@fault("file-text", r"E-MODEL-FORMAT", "refused", 3, "ONNX|model")
def _(p):
    p.bytes = p.pick([b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", b"<!DOCTYPE html><html><body>404</body></html>", b"PK\x03\x04" + bytes(200)])


@fault("file-empty", r"E-MODEL-FORMAT", "refused", 3, "empty")
def _(p):
    p.bytes = b""


@fault("file-cut", r"E-MODEL-(TRUNCATED|FORMAT)", "refused", 3, "truncated|ends|cut|bytes|damaged")
def _(p):
    p.bytes = p.base.data[: p.rng.randrange(len(p.base.data) // 10, len(p.base.data) - 1)]


@fault("file-zero-tail", r"E-MODEL-(TRUNCATED|FORMAT)", "refused", 3, "truncated|damaged|zero")
def _(p):
    keep = p.rng.randrange(len(p.base.data) // 10, len(p.base.data) - 64)
    p.bytes = p.base.data[:keep] + bytes(len(p.base.data) - keep)


@fault("ir-of-the-future", r"E-MODEL-VERSION", "refused", 3, "IR")
def _(p):
    p.model.ir_version = p.rng.randrange(40, 4000)


@fault("opset-of-the-future", r"E-MODEL-VERSION", "refused", 3, "opset")
def _(p):
    for i in p.model.opset_import:
        if i.domain in ("", "ai.onnx"):
            i.version = p.rng.randrange(60, 2000)
            return True
    return False


# ---- graphs that do not hang together


@fault("cycle", r"E-MODEL-CYCLE", "refused", 3, "cycle")
def _(p):
    k, a = p.node(when=lambda n: n.input and n.output and n.output[0]) or (0, None)
    if a is None:
        return False
    down = p.pick(n for n in p.readers(a.output[0]) if n.output and n.output[0])
    slots = [i for i, v in enumerate(a.input) if v and v not in p.weights()]
    if down is None or not slots:
        return False
    a.input[p.pick(slots)] = down.output[0]
    p.nodes = {a.name, down.name}


@fault("input-nobody-writes", r"E-MODEL-NAME", "refused", 3, "ghost")
def _(p):
    k, n = p.node(when=lambda n: any(n.input)) or (0, None)
    if n is None:
        return False
    n.input[p.pick([i for i, v in enumerate(n.input) if v])] = "ghost_value"
    p.nodes = {n.name}


@fault("output-nobody-writes", r"E-MODEL-NAME", "refused", 3, "no node|nothing|nobody|writes|output")
def _(p):
    o = p.pick(p.graph.output)
    o.name = p.name = o.name + "_ghost"


@fault("two-nodes-one-output", r"E-MODEL-NAME", "refused", 3, "twice|already|also|more than one|writes")
def _(p):
    two = sorted(p.rng.sample(range(len(p.graph.node)), 2)) if len(p.graph.node) > 1 else None
    if not two or not p.graph.node[two[0]].output[0]:
        return False
    a, b = (p.graph.node[k] for k in two)
    b.output[0] = a.output[0]
    p.nodes, p.name = {a.name, b.name}, a.output[0]


@fault("two-initializers-one-name", r"E-MODEL-NAME", "refused", 3, "twice|already|also|more than one")
def _(p):
    w = p.pick(p.graph.initializer)
    if w is None:
        return False
    copy = p.graph.initializer.add()
    copy.CopyFrom(w)
    p.name = w.name


@fault("two-inputs-one-name", r"E-MODEL-NAME", "refused", 3, "twice|already|also|more than one")
def _(p):
    v = p.pick(p.graph.input)
    p.graph.input.add().CopyFrom(v)
    p.name = v.name


@fault("node-writes-an-input", r"E-MODEL-NAME", "refused", 3, "twice|already|also|input|more than one")
def _(p):
    k, n = p.node(when=lambda n: n.output and n.output[0]) or (0, None)
    if n is None:
        return False
    n.output[0] = p.name = p.pick(p.graph.input).name
    p.nodes = {n.name}


@fault("domain-not-imported", r"E-MODEL-DOMAIN", "refused", 3, "domain|import")
def _(p):
    k, n = p.node() or (0, None)
    if n is None:
        return False
    n.domain = "org.example.trust"
    p.nodes = {n.name}


@fault("opset-import-missing", r"E-MODEL-(DOMAIN|OPSET|VERSION)", "refused", 3, "opset|import")
def _(p):
    keep = [i for i in p.model.opset_import if i.domain not in ("", "ai.onnx")]
    if not p.node():
        return False
    del p.model.opset_import[:]
    p.model.opset_import.extend(keep)


@fault("operator-unknown", r"E-OP-UNSUPPORTED", "refused", 3, "operator")
def _(p):
    k, n = p.node() or (0, None)
    if n is None:
        return False
    n.op_type = p.pick(["Convolution", "Swoosh", "BatchNorm", "aten_add", "SelfAttention"])
    p.nodes, p.name = {n.name}, n.op_type


NEWER = {"Mish": 18, "Gelu": 20, "LayerNormalization": 17, "HardSwish": 14, "Celu": 12}


@fault("operator-newer-than-opset", r"E-(OP-UNSUPPORTED|MODEL-VERSION|MODEL-OPSET)", "refused", 3, "opset|version|unsupported|later|since")
def _(p):
    found = p.float_output()
    kinds = [k for k, v in NEWER.items() if v > p.opset() and k != "LayerNormalization"]
    if found is None or not kinds:
        return False
    kind = p.pick(kinds)
    p.insert_after(found[0], [(kind, "planted_new", [], {})])
    p.nodes = {"planted_new"}


@fault("operator-removed-in-opset", r"W-MODEL-OPSET", "refused", 0, "opset|version|removed")  # infer runs it: exit 3 is for what cannot run
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim == 4)
    if found is None or p.opset() < 10:
        return False
    p.constant("planted_scales", np.ones(4, np.float32))
    p.insert_after(found[0], [("Upsample", "planted_old", ["planted_scales"], {})])
    p.nodes = {"planted_old"}


@fault("attribute-unknown", r"E-OP-ATTRIBUTE", "refused", 3, "attribute")
def _(p):
    k, n = p.node() or (0, None)
    if n is None:
        return False
    name = p.pick(["axes_", "kernel_sizes", "paddings", "data_format", "inplace"])
    n.attribute.append(helper.make_attribute(name, p.pick([1, 2.5, [1, 2]])))
    p.nodes, p.name = {n.name}, name


REQUIRED = {"Concat": "axis", "Cast": "to", "MaxPool": "kernel_shape", "AveragePool": "kernel_shape", "LSTM": None, "Gemm": None, "SpaceToDepth": "blocksize", "LpPool": "kernel_shape", "If": "else_branch"}


@fault("attribute-missing", r"E-OP-ATTRIBUTE", "refused", 3, "missing|attribute")
def _(p):
    k, n = p.node(when=lambda n: REQUIRED.get(n.op_type) and attribute(n, REQUIRED[n.op_type])) or (0, None)
    if n is None:
        return False
    a = attribute(n, REQUIRED[n.op_type])
    p.nodes, p.name = {n.name}, a.name
    n.attribute.remove(a)


@fault("attribute-of-another-type", r"E-OP-ATTRIBUTE", "refused", 3, "attribute|type")
def _(p):
    numbers = {"axis", "perm", "strides", "pads", "kernel_shape", "group", "to", "alpha", "transB", "hidden_size", "epsilon", "dilations"}
    k, n = p.node(when=lambda n: any(a.name in numbers for a in n.attribute)) or (0, None)
    if n is None:
        return False
    a = p.pick(a for a in n.attribute if a.name in numbers)
    name = a.name
    n.attribute.remove(a)
    n.attribute.append(helper.make_attribute(name, p.pick(["same", "1"])))
    p.nodes, p.name = {n.name}, name


@fault("attribute-axis-beyond-rank", r"E-(OP-ATTRIBUTE|SHAPE|RANK|VALUE)", "refused", 3, "axis|axes")
def _(p):
    k, n = p.node("Concat", "Softmax", "Gather", "Split", "ArgMax", "Flatten", when=lambda n: attribute(n, "axis")) or (0, None)
    if n is None:
        return False
    attribute(n, "axis").i = p.pick([9, 12, -11])
    p.nodes = {n.name}


@fault("attribute-no-permutation", r"E-(OP-ATTRIBUTE|SHAPE)", "refused", 3, "perm")
def _(p):
    k, n = p.node("Transpose", when=lambda n: attribute(n, "perm") and len(attribute(n, "perm").ints) > 1) or (0, None)
    if n is None:
        return False
    perm = attribute(n, "perm").ints
    if p.rng.random() < 0.5:
        perm[0] = perm[1]
    else:
        del perm[-1]
    p.nodes = {n.name}


@fault("attribute-group", r"E-(OP-ATTRIBUTE|SHAPE)", "refused", 3, "group|channel")
def _(p):
    k, n = p.node("Conv") or (0, None)
    if n is None:
        return False
    a = attribute(n, "group")
    if a is None:
        n.attribute.append(helper.make_attribute("group", 7))
    else:
        a.i = a.i * 7 + 6
    p.nodes = {n.name}


@fault("attribute-kernel-shape", r"E-(OP-ATTRIBUTE|SHAPE)", "refused", 3, "kernel_shape")
def _(p):
    k, n = p.node("Conv", when=lambda n: attribute(n, "kernel_shape")) or (0, None)
    if n is None:
        return False
    ints = attribute(n, "kernel_shape").ints
    ints[p.rng.randrange(len(ints))] += p.rng.randrange(1, 4)
    p.nodes = {n.name}


@fault("attribute-stride", r"E-(OP-ATTRIBUTE|SHAPE|VALUE)", "refused", 3, "stride|dilation")
def _(p):
    k, n = p.node("Conv", "MaxPool", "AveragePool", when=lambda n: attribute(n, "strides")) or (0, None)
    if n is None:
        return False
    ints = attribute(n, "strides").ints
    ints[0] = p.pick([0, -1])
    p.nodes = {n.name}


@fault("attribute-hidden-size", r"E-(OP-ATTRIBUTE|SHAPE)", "refused", 3, "hidden_size|shape")
def _(p):
    k, n = p.node("LSTM", "GRU", "RNN", when=lambda n: attribute(n, "hidden_size")) or (0, None)
    if n is None:
        return False
    attribute(n, "hidden_size").i += p.pick([1, 3, 16])
    p.nodes = {n.name}


@fault("attribute-unknown-word", r"E-OP-ATTRIBUTE", "refused", 3, "attribute|mode|auto_pad|direction")
def _(p):
    words = {"auto_pad", "mode", "direction", "coordinate_transformation_mode", "nearest_mode"}
    k, n = p.node(when=lambda n: any(a.name in words and a.type == onnx.AttributeProto.STRING for a in n.attribute)) or (0, None)
    if n is None:
        return False
    a = p.pick(a for a in n.attribute if a.name in words)
    a.s = b"sideways"
    p.nodes, p.name = {n.name}, a.name


@fault("inputs-too-few", r"E-OP-INPUTS", "refused", 3, "input")
def _(p):
    least = {"Conv": 2, "MatMul": 2, "Add": 2, "Mul": 2, "Gemm": 2, "Sub": 2, "Div": 2, "BatchNormalization": 5, "LSTM": 3, "Gather": 2, "Where": 3, "Relu": 1, "Sigmoid": 1, "Transpose": 1}
    k, n = p.node(*least, when=lambda n: len(n.input) >= least[n.op_type]) or (0, None)
    if n is None:
        return False
    del n.input[least[n.op_type] - 1 :]
    p.nodes = {n.name}


@fault("input-left-out", r"E-OP-INPUTS|E-MODEL-NAME", "refused", 3, "input")
def _(p):
    k, n = p.node("Conv", "MatMul", "Add", "Mul", "Gemm", "Sub", "Div", "BatchNormalization", "Gather", "Relu", "Sigmoid") or (0, None)
    if n is None:
        return False
    n.input[0] = ""
    p.nodes = {n.name}


@fault("inputs-too-many", r"E-OP-INPUTS", "refused", 3, "input")
def _(p):
    k, n = p.node("Conv", "MatMul", "Add", "Mul", "Gemm", "Relu", "Sigmoid", "Transpose", "Softmax", "BatchNormalization", "Cast", "Flatten") or (0, None)
    if n is None:
        return False
    while len(n.input) < 6:
        n.input.append(n.input[0])
    p.nodes = {n.name}


@fault("outputs-too-many", r"E-OP-INPUTS", "refused", 3, "output")
def _(p):
    k, n = p.node("Conv", "MatMul", "Add", "Mul", "Gemm", "Relu", "Sigmoid", "Transpose", "Softmax", "Cast", "Flatten") or (0, None)
    if n is None:
        return False
    n.output.append("planted_second_output")
    p.nodes = {n.name}


@fault("function-without-node", r"E-(MODEL-FUNCTION|MODEL-NAME|OP-INPUTS|OP-UNSUPPORTED)", "refused", 3, "function|ghost")
def _(p):
    k, n = p.node("Relu", "Sigmoid", "Add", "Mul", "MatMul", "Tanh", "Exp") or (0, None)
    if n is None or p.model.ir_version < 8:
        return False
    inputs = [f"a{i}" for i in range(len(n.input))]
    body = helper.make_node(n.op_type, ["ghost_in_function", *inputs[1:]], ["b"])
    p.model.functions.append(helper.make_function("local.trust", "Planted", inputs, ["b"], [body], [helper.make_opsetid("", p.opset())]))
    p.model.opset_import.append(helper.make_opsetid("local.trust", 1))
    n.op_type, n.domain = "Planted", "local.trust"
    del n.attribute[:]
    p.nodes, p.name = {n.name}, "ghost_in_function"


# ---- types and shapes


def takes(p, node, value, element_type):
    """Whether ONNX's schema lets `node` read `value` in this element type while its other inputs stay what they are."""
    schema = onnx.defs.get_schema(node.op_type, p.opset(), "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    kind = "tensor(" + {TensorProto.INT64: "int64", TensorProto.DOUBLE: "double", TensorProto.BOOL: "bool"}[element_type] + ")"
    parameters = [schema.inputs[min(k, len(schema.inputs) - 1)].type_str for k in range(len(node.input))]
    slots = [k for k, v in enumerate(node.input) if v == value]
    others = {parameters[k] for k, v in enumerate(node.input) if v and v != value}
    return all(kind in allowed.get(parameters[k], [parameters[k]]) and parameters[k] not in others for k in slots)


@fault("type-cast-wrongly", r"E-TYPE", "refused", 3, "type|i64|f64|i32|f16")
def _(p):
    found = p.float_output(when=lambda n, v: any(r.op_type in ("Conv", "MatMul", "Add", "Mul", "Gemm", "BatchNormalization", "Sub", "Div", "Sigmoid", "Relu", "Concat") and len(r.input) >= 1 for r in p.readers(n.output[0])))
    if found is None:
        return False
    k, n = found
    out = n.output[0]
    readers = p.readers(out)
    if out in {o.name for o in p.graph.output} or any(r.op_type in ("Cast", "Shape", "Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "If", "Loop", "Scan", "Slice", "Gather", "Pad", "Resize") for r in readers):
        return False
    to = p.pick([TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL])
    if any(takes(p, r, out, to) for r in readers):
        return False
    p.insert_after(k, [("Cast", "planted_cast", [], {"to": to})])
    p.nodes = {r.name for r in readers}


@fault("type-of-weight", r"E-(TYPE|WEIGHT-TYPE)", "refused", 3, "type|f64|f16|i32")
def _(p):
    w = p.pick(w for w in p.graph.initializer if w.data_type == TensorProto.FLOAT and any(r.op_type in ("Conv", "MatMul", "Gemm", "Add", "Mul", "BatchNormalization", "LSTM", "Sub", "Div") for r in p.readers(w.name)) and w.name not in {i.name for i in p.graph.input})
    if w is None:
        return False
    p.nodes = {r.name for r in p.readers(w.name)}
    p.change_weight(w, numpy_helper.to_array(w).astype(p.pick([np.float64, np.float16, np.int32])))


def weight_of(p, kinds, slot, least_rank=1):
    choices = []
    weights = p.weights()
    for n in p.graph.node:
        if n.op_type in kinds and n.domain in ("", "ai.onnx") and len(n.input) > slot and n.input[slot] in weights:
            w = weights[n.input[slot]]
            if len(w.dims) >= least_rank and w.data_type == TensorProto.FLOAT and len(p.readers(w.name)) == 1 and w.name not in {i.name for i in p.graph.input}:
                choices.append((n, w))
    return p.pick(choices)


@fault("shape-of-conv-weight", r"E-SHAPE", "refused", 3, "channel|shape|dim|size")
def _(p):
    found = weight_of(p, ["Conv"], 1, 3)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    p.change_weight(w, np.concatenate([array, array[:, :1]], axis=1))
    p.nodes = {n.name}


@fault("shape-of-matmul-weight", r"E-SHAPE", "refused", 3, "shape|dim|size|inner|columns|rows")
def _(p):
    found = weight_of(p, ["MatMul", "Gemm"], 1, 2)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    if array.ndim == 2 and array.shape[0] != array.shape[1] and p.rng.random() < 0.5:
        array = array.T
    else:
        inner = array.ndim - 1 if n.op_type == "Gemm" and attribute(n, "transB") is not None and attribute(n, "transB").i else array.ndim - 2
        array = np.concatenate([array, np.take(array, [0], axis=inner)], axis=inner)
    p.change_weight(w, array)
    p.nodes = {n.name}


@fault("shape-of-bias", r"E-SHAPE", "refused", 3, "shape|bias|dim|size|element")
def _(p):
    found = weight_of(p, ["Conv", "ConvTranspose", "Gemm"], 2)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    if array.size < 2:
        return False
    p.change_weight(w, np.concatenate([array, array[..., :1]], axis=-1))
    p.nodes = {n.name}


@fault("shape-of-batchnorm", r"E-SHAPE", "refused", 3, "shape|dim|size|channel|element")
def _(p):
    found = weight_of(p, ["BatchNormalization"], p.rng.randrange(1, 5))
    if found is None:
        return False
    n, w = found
    p.change_weight(w, numpy_helper.to_array(w)[:-1])
    p.nodes = {n.name}


@fault("shape-of-recurrent-weight", r"E-SHAPE", "refused", 3, "shape|dim|size")
def _(p):
    found = weight_of(p, ["LSTM", "GRU"], p.pick([1, 2, 3]), 2)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    p.change_weight(w, np.concatenate([array, array[:, :1]], axis=1))
    p.nodes = {n.name}


def contradictions(p):
    """Nodes at which no sizes of the free dimensions fit, by ONNX's own inference: a fault there is known before the inputs are."""
    why = p.judges.ask("shapes", p.model.SerializeToString())[0] if p.has_free_dims() else ""
    return set(re.findall(r"node name: ([^)]*)\)", why)) if isinstance(why, str) else set()


@fault("shape-does-not-broadcast", r"E-SHAPE", "refused", 3, "broadcast|shape|dim|size")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim and v.shape[-1] > 2)
    if found is None:
        return False
    size = p.values[found[1].output[0]].shape[-1]
    p.constant("planted_addend", np.zeros(size + 1, np.float32))
    p.insert_after(found[0], [("Add", "planted_add", ["planted_addend"], {})])
    p.nodes = {"planted_add"} | contradictions(p)


@fault("shape-of-reshape", r"E-(SHAPE|VALUE)", "refused", 3, "shape|element|size")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim and v.size > 3)
    if found is None:
        return False
    if p.has_free_dims() and found[1].output[0] not in {o.name for o in p.graph.output}:
        return False  # the sizes behind it would be wrong as well, and could be known first
    shape = list(p.values[found[1].output[0]].shape)
    shape[p.rng.randrange(len(shape))] += p.values[found[1].output[0]].size + 1
    p.constant("planted_shape", np.array(shape, np.int64))
    p.insert_after(found[0], [("Reshape", "planted_reshape", ["planted_shape"], {})])
    p.nodes = {"planted_reshape"}


@fault("shape-transposed", r"E-SHAPE|E-OP-ATTRIBUTE", "refused", 3, "shape|channel|dim|size|group")  # a group that does not divide the other channels is an attribute's fault
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim == 4 and v.shape[1] not in v.shape[2:] and any(r.op_type == "Conv" and r.input[0] == n.output[0] for r in p.readers(n.output[0])))
    if found is None:
        return False
    out = found[1].output[0]
    readers = p.readers(out)
    if any(r.op_type != "Conv" for r in readers):
        return False
    p.insert_after(found[0], [("Transpose", "planted_nhwc", [], {"perm": [0, 2, 3, 1]})])
    drop_all_declared(p.graph)
    p.nodes = {r.name for r in readers}


@fault("concat-sizes", r"E-SHAPE", "refused", 3, "shape|dim|size|axis")
def _(p):
    k, n = p.node("Concat", when=lambda n: len(n.input) > 1 and isinstance(p.values.get(n.output[0]), np.ndarray) and p.values[n.output[0]].ndim > 1) or (0, None)
    if n is None:
        return False
    a = attribute(n, "axis")
    v = p.values[n.output[0]]
    other = p.pick(i for i in range(v.ndim) if i != a.i % v.ndim)
    shapes = {p.values[i].shape for i in n.input if isinstance(p.values.get(i), np.ndarray)}
    if len({s[a.i % v.ndim] for s in shapes} | {s[other] for s in shapes}) < 2 or len(shapes) < 2:
        return False
    a.i = other
    p.nodes = {n.name}


@fault("reduced-axis-gone", r"E-(SHAPE|OP-ATTRIBUTE|VALUE|RANK)", "refused", 3, "ax[ie]s")
def _(p):
    k, n = p.node("Squeeze", "Unsqueeze", "ReduceMean", "ReduceSum", "ReduceMax", when=lambda n: attribute(n, "axes")) or (0, None)
    if n is None:
        return False
    attribute(n, "axes").ints[0] = p.pick([13, -14])
    p.nodes = {n.name}


def plant_split(p):
    """A Split and a Concat, which together change nothing, whose sizes add up to one too many."""
    found = p.float_output(when=lambda n, v: v.ndim and max(v.shape) > 1)
    if found is None:
        return False
    shape = p.values[found[1].output[0]].shape
    axis = p.pick([k for k, size in enumerate(shape) if size > 1])
    first = p.rng.randrange(1, shape[axis])
    sizes = [first, shape[axis] - first + 1]
    old = p.opset() < 13
    inputs = [] if old else [p.constant("planted_sizes", np.array(sizes, np.int64))]
    attributes = {"split": sizes} if old else {}
    p.splice_after(found[0], lambda value, out: [helper.make_node("Split", [value, *inputs], ["planted_part_0", "planted_part_1"], name="planted_split", axis=axis, **attributes), helper.make_node("Concat", ["planted_part_0", "planted_part_1"], [out], name="planted_concat", axis=axis)])
    drop_all_declared(p.graph)
    p.nodes = {"planted_split"}


@fault("split-sizes", r"E-(SHAPE|VALUE|OP-ATTRIBUTE)", "refused", 3, "split|size|sum")
def _(p):
    weights = p.weights()
    k, n = p.node("Split", when=lambda n: attribute(n, "split") or (len(n.input) > 1 and n.input[1] in weights)) or (0, None)
    if n is None:
        return plant_split(p)
    a = attribute(n, "split")
    if a:
        a.ints[0] += 1
    else:
        w = weights[n.input[1]]
        array = numpy_helper.to_array(w).copy()
        array[0] += 1
        if len(p.readers(w.name)) > 1:
            return False
        p.change_weight(w, array)
    p.nodes = {n.name}


@fault("index-beyond-table", r"E-(VALUE|INPUT-RANGE|SHAPE)", "refused", 3, "index|range|beyond|indices")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim)
    if found is None:
        return False
    v = p.values[found[1].output[0]]
    axis = p.rng.randrange(v.ndim)
    index = np.arange(v.shape[axis])  # as many as before, so that nodes behind it have no fault of their own
    index[p.rng.randrange(len(index))] += v.shape[axis]
    p.constant("planted_index", index)
    p.insert_after(found[0], [("Gather", "planted_gather", ["planted_index"], {"axis": axis})])
    drop_all_declared(p.graph)
    p.nodes = {"planted_gather"}


@fault("index-computed-beyond-table", r"E-(VALUE|INPUT-RANGE|SHAPE|RUN)", "refused", 3, "index|range|beyond|indices")
def _(p):
    found = p.float_output(most=4096, when=lambda n, v: v.ndim >= 1 and v.size > 1)
    if found is None:
        return False
    p.constant("planted_table", np.ones((3, 2), np.float32))
    p.constant("planted_far", np.float32(1000))
    out = found[1].output[0]
    nodes = [helper.make_node("Abs", [out], ["planted_a"], name="planted_abs"), helper.make_node("Add", ["planted_a", "planted_far"], ["planted_b"], name="planted_far_add"), helper.make_node("Cast", ["planted_b"], ["planted_c"], name="planted_to_index", to=7), helper.make_node("Gather", ["planted_table", "planted_c"], ["planted_row"], name="planted_lookup")]
    p.graph.node.extend(nodes)
    p.graph.output.append(helper.make_tensor_value_info("planted_row", TensorProto.FLOAT, None))
    p.nodes = {"planted_lookup"}


@fault("declared-output-type", r"E-MODEL-DECLARED", "refused", 3, "i64|type")
def _(p):
    o = p.pick(o for o in p.graph.output if o.type.tensor_type.elem_type == TensorProto.FLOAT)
    if o is None:
        return False
    o.type.tensor_type.elem_type = TensorProto.INT64
    p.name = o.name


@fault("declared-output-rank", r"[EW]-MODEL-DECLARED", "refused", None, "rank|shape|dimension|\\[")
def _(p):
    o = p.pick(o for o in p.graph.output if len(o.type.tensor_type.shape.dim))
    if o is None:
        return False
    o.type.tensor_type.shape.dim.add().dim_value = 3
    p.name = o.name


@fault("declared-value-type", r"E-MODEL-DECLARED", "refused", 3, "i64|type")
def _(p):
    found = p.float_output()
    if found is None or found[1].output[0] in {o.name for o in p.graph.output}:
        return False
    out = found[1].output[0]
    drop_declared(p.graph, out)
    p.graph.value_info.append(helper.make_tensor_value_info(out, TensorProto.INT64, list(p.values[out].shape)))
    p.name = out


# ---- weights


@fault("weight-cut", r"E-WEIGHT-SIZE", "refused", 3, "byte|element|data")
def _(p):
    w = p.pick(w for w in p.graph.initializer if len(w.raw_data) >= 8)
    if w is None:
        return False
    w.raw_data = w.raw_data[: p.rng.randrange(0, len(w.raw_data) // 4) * 4]
    p.name = w.name


@fault("weight-dims", r"E-WEIGHT-SIZE", "refused", 3, "byte|element|data")
def _(p):
    w = p.pick(w for w in p.graph.initializer if len(w.raw_data) >= 8 and len(w.dims))
    if w is None:
        return False
    w.dims[0] += 1
    p.name = w.name


def external(p, location, keep=None, offset=0):
    w = p.pick(w for w in p.graph.initializer if len(w.raw_data) >= 64)
    if w is None:
        return None
    data = w.raw_data
    p.files["weights.bin"] = data if keep is None else data[: int(len(data) * keep)]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(len(data)))):
        w.external_data.add(key=key, value=value)
    p.name = w.name
    return w


@fault("external-missing", r"E-WEIGHT-EXTERNAL", "refused", 3, "nowhere")
def _(p):
    if external(p, "nowhere.bin") is None:
        return False
    p.name = "nowhere.bin"


@fault("external-short", r"E-WEIGHT-EXTERNAL|E-WEIGHT-SIZE", "refused", 3, "byte")
def _(p):
    return external(p, "weights.bin", p.rng.random()) is not None


@fault("external-offset", r"E-WEIGHT-EXTERNAL|E-WEIGHT-SIZE", "refused", 3, "byte|offset")
def _(p):
    return external(p, "weights.bin", None, 1 << p.rng.randrange(20, 50)) is not None


@fault("external-outside", r"E-WEIGHT-PATH", "refused", 3, "folder|outside")
def _(p):
    if external(p, p.pick(["../outside.bin", "/etc/passwd", "../../weights.bin"])) is None:
        return False
    p.name = None


def float_weight(p):
    needed = needed_nodes(p.graph)
    inputs = {i.name for i in p.graph.input}
    choices = []
    for k in needed:
        n = p.graph.node[k]
        for i in n.input:
            if i in p.weights() and i not in inputs and p.weights()[i].data_type == TensorProto.FLOAT and p.weights()[i].dims and n.op_type in ("Conv", "MatMul", "Gemm", "Add", "Mul", "BatchNormalization", "LSTM", "Sub"):
                choices.append((n, p.weights()[i]))
    return p.pick(choices)


@fault("weight-nan", r"E-WEIGHT-NAN", "nonfinite", 5, "NaN")
def _(p):
    found = float_weight(p)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w).copy()
    array.reshape(-1)[p.rng.randrange(array.size)] = np.nan
    p.change_weight(w, array)
    p.nodes, p.name = {r.name for r in p.readers(w.name)}, w.name


@fault("weight-infinite", r"[EW]-WEIGHT-INF", "nonfinite", 5, "inf")
def _(p):
    found = float_weight(p)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w).copy()
    array.reshape(-1)[p.rng.randrange(array.size)] = p.pick([np.inf, -np.inf])
    p.change_weight(w, array)
    p.name = w.name


@fault("weight-denormal", r"W-WEIGHT-DENORMAL", "fact", 0, "denormal")
def _(p):
    found = float_weight(p)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    if array.size < 16:
        return False
    p.change_weight(w, np.full(array.shape, 1e-41, np.float32))
    p.name = w.name
    p.exit = None


@fault("quant-scale", r"E-QUANT-SCALE", "fact", None, "scale")
def _(p):
    found = p.float_output()
    if found is None:
        return False
    p.constant("planted_scale", np.float32(p.pick([0.0, -0.1, np.nan])))
    p.constant("planted_zero", np.uint8(0))
    p.insert_after(found[0], [("QuantizeLinear", "planted_q", ["planted_scale", "planted_zero"], {}), ("DequantizeLinear", "planted_dq", ["planted_scale", "planted_zero"], {})])
    p.nodes = {"planted_q", "planted_dq"}
    if p.opset() < 10:
        return False


# ---- numbers: a run shows them


def keep_opset(p, least):
    return p.opset() >= least


@fault("nan-log", r"E-OUT-NAN", "nonfinite", 5, "NaN|inf")
def _(p):
    found = p.float_output(when=lambda n, v: v.min() < -1e-3)
    if found is None:
        return False
    p.insert_after(found[0], [("Log", "planted_log", [], {})])


@fault("nan-sqrt", r"E-OUT-NAN", "nonfinite", 5, "NaN")
def _(p):
    found = p.float_output(when=lambda n, v: v.min() < -1e-3)
    if found is None:
        return False
    p.insert_after(found[0], [("Sqrt", "planted_sqrt", [], {})])


@fault("nan-pow", r"E-OUT-NAN", "nonfinite", 5, "NaN")
def _(p):
    found = p.float_output(when=lambda n, v: v.min() < -1e-3)
    if found is None or not keep_opset(p, 7):
        return False
    p.constant("planted_exponent", np.float32(0.3))
    p.insert_after(found[0], [("Pow", "planted_pow", ["planted_exponent"], {})])


@fault("inf-exp", r"E-OUT-NAN", "nonfinite", 5, "inf|NaN")
def _(p):
    found = p.float_output(when=lambda n, v: v.max() > 0.01)
    if found is None or not keep_opset(p, 7):
        return False
    p.constant("planted_gain", np.float32(100.0 / float(p.values[found[1].output[0]].max())))
    p.insert_after(found[0], [("Mul", "planted_mul", ["planted_gain"], {}), ("Exp", "planted_exp", [], {})])


@fault("inf-division", r"E-OUT-NAN", "nonfinite", 5, "inf|NaN|zero")
def _(p):
    found = p.float_output(when=lambda n, v: np.abs(v).max() > 0)
    if found is None or not keep_opset(p, 7):
        return False
    p.constant("planted_zero", np.float32(0))
    p.insert_after(found[0], [("Div", "planted_div", ["planted_zero"], {})])


@fault("inf-division-computed", r"E-OUT-NAN", "nonfinite", 5, "inf|NaN|zero")
def _(p):
    found = p.float_output(when=lambda n, v: np.abs(v).max() > 0)
    if found is None or not keep_opset(p, 7):
        return False
    p.splice_after(found[0], lambda value, out: [helper.make_node("Sub", [value, value], ["planted_diff"], name="planted_sub"), helper.make_node("Div", [value, "planted_diff"], [out], name="planted_div")])


@fault("inf-reciprocal", r"E-OUT-NAN", "nonfinite", 5, "inf|NaN|zero")
def _(p):
    found = p.float_output(when=lambda n, v: n.op_type in ("Relu", "Clip", "Max") and (v == 0).any())
    if found is None:
        return False
    p.insert_after(found[0], [("Reciprocal", "planted_reciprocal", [], {})])


@fault("overflow-f16", r"E-OUT-NAN|E-NUM-FP16", "nonfinite", 5, "inf|NaN|overflow|fp16")
def _(p):
    found = p.float_output(when=lambda n, v: np.abs(v).max() > 1e-3)
    if found is None or not keep_opset(p, 7):
        return False
    p.constant("planted_gain", np.float32(2e5 / float(np.abs(p.values[found[1].output[0]]).max())))
    p.insert_after(found[0], [("Mul", "planted_mul", ["planted_gain"], {}), ("Cast", "planted_half", [], {"to": TensorProto.FLOAT16}), ("Cast", "planted_back", [], {"to": TensorProto.FLOAT})])


@fault("overflow-f32", r"E-OUT-NAN", "nonfinite", 5, "inf|NaN|overflow")
def _(p):
    found = float_weight(p)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w)
    largest = float(np.abs(array).max())
    if not 1e-3 < largest < 1e3:
        return False
    # a thousandth of it must not overflow, and show that the whole does in any order of additions
    p.change_weight(w, (array * (3e34 / largest)).astype(np.float32))
    value = (bases.trace(p.judges, onnx.load_from_string(p.model.SerializeToString()), p.feeds) or {}).get(n.output[0])
    if not isinstance(value, np.ndarray) or not np.isfinite(value).all() or np.abs(value).max() < 7e35:
        return False
    p.change_weight(w, (array * (3e37 / largest)).astype(np.float32))
    p.nodes = {r.name for r in p.readers(w.name)}


@fault("variance-negative", r"E-OUT-NAN", "nonfinite", 5, "NaN|varian")
def _(p):
    found = weight_of(p, ["BatchNormalization"], 4)
    if found is None:
        return False
    n, w = found
    array = numpy_helper.to_array(w).copy()
    array[p.rng.randrange(array.size)] = -1.0
    p.change_weight(w, array)


@fault("all-masked", r"E-OUT-NAN", "nonfinite", 5, "NaN")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim >= 2)
    if found is None or not keep_opset(p, 13):
        return False
    p.constant("planted_mask", np.float32(-np.inf))
    p.insert_after(found[0], [("Add", "planted_add", ["planted_mask"], {}), ("Softmax", "planted_softmax", [], {"axis": -1})])
    p.nodes = {"planted_softmax"}  # the -inf of a mask is as it should be; a row of nothing else is not


@fault("input-nan", r"[EW]-INPUT-RANGE", "nonfinite", 4, "NaN")
def _(p):
    name = p.pick(k for k, v in p.feeds.items() if v.dtype == np.float32 and v.size > 1)
    if name is None:
        return False
    value = p.feeds[name].copy()
    value.reshape(-1)[p.rng.randrange(value.size)] = np.nan
    p.feeds[name] = value
    p.name = name
    # a NaN that the model tests for is a warning, so the outputs decide; otherwise it is the input's fault
    tests = {"IsNaN", "IsInf", "Imputer", "TreeEnsemble", "TreeEnsembleRegressor", "TreeEnsembleClassifier"}
    p.exit = 5 if tests & {n.op_type for n in all_nodes(p.graph)} else 4


def float_graph_output(p):
    """A random output of the graph in float32, of several elements, behind the position of the node that makes it; or twice None."""
    o = p.pick(o for o in p.graph.output if isinstance(p.values.get(o.name), np.ndarray) and p.values[o.name].dtype == np.float32 and p.values[o.name].size > 1)
    k = next((k for k, n in enumerate(p.graph.node) if o and n.output and n.output[0] == o.name), None)
    return (k, o) if k is not None and keep_opset(p, 7) else (None, None)


@fault("output-zero", r"E-OUT-ZERO", "zero", 5, "zero")
def _(p):
    k, o = float_graph_output(p)
    if k is None:
        return False
    p.constant("planted_nought", np.float32(0))
    p.insert_after(k, [("Mul", "planted_zeroing", ["planted_nought"], {})])
    p.nodes = {"planted_zeroing"}


@fault("output-dead-relu", r"E-OUT-ZERO", "zero", 5, "zero")
def _(p):
    k, o = float_graph_output(p)
    if k is None:
        return False
    p.constant("planted_low", np.float32(-1e4 - float(np.abs(p.values[o.name]).max()) * 1e3))
    p.insert_after(k, [("Add", "planted_add", ["planted_low"], {}), ("Relu", "planted_relu", [], {})])
    p.nodes = {"planted_relu"}


@fault("output-differs", r"E-COMPARE", "differs", 5, "differ|error|element|reference")
def _(p):
    found = float_weight(p)
    if found is None:
        return False
    n, w = found
    p.change_weight(w, (numpy_helper.to_array(w) * np.float32(p.rng.choice([-1.0, 0.5, 3.0]))).astype(np.float32))
    p.options = ["EXPECT"]


@fault("not-deterministic", r"E-DETERMINISM", "random", 5, "differ|random|run")
def _(p):
    found = p.float_output(most=1 << 18)
    if found is None:
        return False
    p.constant("planted_gain", np.float32(float(np.abs(p.values[found[1].output[0]]).max()) + 1))
    p.splice_after(found[0], lambda value, out: [helper.make_node("RandomNormalLike", [value], ["planted_noise"], name="planted_random"), helper.make_node("Mul", ["planted_noise", "planted_gain"], ["planted_loud"], name="planted_mul"), helper.make_node("Add", [value, "planted_loud"], [out], name="planted_add")])
    p.options = ["--determinism", "3"]
    p.nodes = {"planted_random"}


# ---- what exporters leave behind


@fault("initializer-unused", r"W-MODEL-UNUSED", "equal", 0, "use")
def _(p):
    p.name = p.constant("planted_unused", np.zeros(p.rng.randrange(1, 50000), np.float32))


@fault("input-unused", r"W-MODEL-UNUSED", "equal", 0, "use")
def _(p):
    p.graph.input.append(helper.make_tensor_value_info("planted_input", TensorProto.FLOAT, [1, 3]))
    p.feeds["planted_input"] = np.ones((1, 3), np.float32)
    p.name = "planted_input"


@fault("node-dead", r"W-MODEL-DEAD", "equal", 0, "use|dead|output")
def _(p):
    found = p.float_output()
    if found is None:
        return False
    value = found[1].output[0]
    for k in range(p.rng.randrange(1, 4)):
        p.graph.node.append(helper.make_node(p.pick(["Abs", "Neg", "Sigmoid", "Tanh"]), [value], [f"planted_{k}"], name=f"planted_dead_{k}"))
        value = f"planted_{k}"
    p.nodes = {f"planted_dead_{i}" for i in range(k + 1)}


@fault("transposes-cancel", r"W-MODEL-TRANSPOSE", "equal", 0, "transpose|undo|follow")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim >= 2 and max(v.shape) > 1)
    if found is None:
        return False
    perm = list(range(p.values[found[1].output[0]].ndim))
    while perm == sorted(perm):
        p.rng.shuffle(perm)
    p.insert_after(found[0], [("Transpose", "planted_there", [], {"perm": perm}), ("Transpose", "planted_back", [], {"perm": [int(i) for i in np.argsort(perm)]})])
    p.nodes = {"planted_there", "planted_back"}


@fault("casts-lose", r"W-MODEL-CAST", "equal-loosely", 0, "cast|f16|lose|lost|precision")
def _(p):
    found = p.float_output(when=lambda n, v: np.abs(v).max() < 6e4)
    if found is None:
        return False
    p.insert_after(found[0], [("Cast", "planted_down", [], {"to": TensorProto.FLOAT16}), ("Cast", "planted_up", [], {"to": TensorProto.FLOAT})])
    p.nodes = {"planted_down", "planted_up"}


@fault("identity", r"[WN]-MODEL-IDENTITY", "equal", 0, "nothing|no effect|change")
def _(p):
    found = p.float_output()
    if found is None:
        return False
    p.insert_after(found[0], [("Identity", "planted_identity", [], {})])
    p.name = "planted_identity"


@fault("dropout-trains", r"W-MODEL-TRAINING", "random", 0, "train")
def _(p):
    found = p.float_output(least=64)
    if found is None or not keep_opset(p, 12):
        return False
    p.constant("planted_ratio", np.float32(0.5))
    p.constant("planted_training", np.bool_(True))
    p.insert_after(found[0], [("Dropout", "planted_dropout", ["planted_ratio", "planted_training"], {})])
    p.nodes, p.exit = {"planted_dropout"}, None


@fault("batchnorm-trains", r"W-MODEL-TRAINING", "fact", 0, "train")
def _(p):
    k, n = p.node("BatchNormalization") or (0, None)
    if n is None or not keep_opset(p, 14):
        return False
    a = attribute(n, "training_mode")
    if a:
        n.attribute.remove(a)
    n.attribute.append(helper.make_attribute("training_mode", 1))
    del n.output[1:]
    n.output.extend([n.output[0] + "_mean", n.output[0] + "_var"])
    p.nodes, p.exit = {n.name}, None


@fault("names-twice", r"W-MODEL-NAME", "equal", 0, "name")
def _(p):
    if len(p.graph.node) < 2:
        return False
    a, b = p.rng.sample(range(len(p.graph.node)), 2)
    p.graph.node[b].name = p.graph.node[a].name
    p.name = p.graph.node[a].name


@fault("opset-imported-twice", r"W-MODEL-OPSET", "fact", 0, "twice|import|opset")
def _(p):
    if p.opset() < 2:
        return False
    p.model.opset_import.append(helper.make_opsetid("", p.opset() - 1))
    p.exit = None


@fault("domain-unused", r"N-MODEL-OPSET", "equal", 0, "trust")
def _(p):
    p.model.opset_import.append(helper.make_opsetid("com.example.trust", 1))


@fault("constant-part", r"N-MODEL-FOLD", "equal", 0, "constant|fold")
def _(p):
    found = p.float_output()
    if found is None or not keep_opset(p, 7):
        return False
    p.constant("planted_a", np.ones((64, 64), np.float32))
    p.constant("planted_b", np.zeros((64, 64), np.float32))
    p.splice_after(found[0], lambda value, out: [helper.make_node("MatMul", ["planted_a", "planted_b"], ["planted_ab"], name="planted_product"), helper.make_node("ReduceMax", ["planted_ab"], ["planted_top"], name="planted_max", keepdims=0), helper.make_node("Add", [value, "planted_top"], [out], name="planted_add")])


@fault("nodes-out-of-order", r"W-MODEL-ORDER", "refused", 0, "order")
def _(p):
    pairs = []
    where = {o: k for k, n in enumerate(p.graph.node) for o in n.output if o}
    for k, n in enumerate(p.graph.node):
        pairs += [(where[i], k) for i in n.input if i in where]
    pair = p.pick(pairs)
    if pair is None:
        return False
    nodes = list(p.graph.node)
    early = nodes.pop(pair[0])
    nodes.insert(pair[1], early)
    replace_nodes(p.graph, nodes)
    p.nodes = {n.name for n in nodes}


@fault("reshape-pins-batch", r"W-MODEL-BATCH", "batch", 0, "batch")
def _(p):
    found = p.float_output(when=lambda n, v: v.ndim >= 2 and v.shape[0] == 1)
    inputs = [i for i in p.graph.input if i.name in p.feeds]
    if found is None or len(inputs) != 1 or p.base.feeds[inputs[0].name].shape[:1] != (1,) or not keep_opset(p, 5):
        return False
    if inputs[0].type.tensor_type.shape.dim[0].HasField("dim_value") or not batch_is_free(p):
        return False
    shape = list(p.values[found[1].output[0]].shape)
    p.constant("planted_shape", np.array(shape, np.int64))
    p.insert_after(found[0], [("Reshape", "planted_reshape", ["planted_shape"], {})])
    p.nodes = {"planted_reshape"}


def batch_is_free(p):
    name = next(iter(p.feeds))
    value = p.feeds[name]
    two = np.concatenate([value, value])
    answer = p.judges.ask("ort", p.base.data, {name: two})
    return not isinstance(answer[0], str)


# ---- inputs: files and options


def float_feed(p, rank=1):
    return p.pick(k for k, v in p.feeds.items() if v.dtype == np.float32 and v.ndim >= rank and v.size >= 4)


def fixed_axes(p, name):
    value = next(i for i in p.graph.input if i.name == name)
    return [k for k, d in enumerate(value.type.tensor_type.shape.dim) if d.dim_value > 0]


@fault("input-bytes", r"E-INPUT-(BYTES|FORMAT)", "input", 4, "byte")
def _(p):
    name = float_feed(p)
    if name is None or len(fixed_axes(p, name)) != p.feeds[name].ndim:
        return False
    data = p.feeds[name].tobytes()
    p.file_of_input[name] = (".bin", data[: p.rng.randrange(1, len(data) - 1)] if p.rng.random() < 0.5 else data + bytes(p.rng.randrange(1, 999)), "")
    p.name = name


@fault("input-type", r"E-INPUT-TYPE", "input", 4, "f64|i32|u8|type")
def _(p):
    name = float_feed(p)
    if name is None:
        return False
    p.feeds[name] = p.feeds[name].astype(p.pick([np.float64, np.int32, np.uint8]))
    p.name = name


@fault("input-rank", r"E-INPUT-(RANK|SHAPE)", "input", 4, "rank|dimension|axis|\\[")
def _(p):
    name = float_feed(p, 2)
    if name is None:
        return False
    v = p.feeds[name]
    p.feeds[name] = v[None, None] if p.rng.random() < 0.5 or v.shape[0] != 1 else v.reshape(v.shape[0] * v.shape[1], *v.shape[2:])[..., None, None]
    p.name = name


@fault("input-shape", r"E-INPUT-(SHAPE|LAYOUT)", "input", 4, "\\[|shape|size")
def _(p):
    name = float_feed(p)
    axes = fixed_axes(p, name) if name else []
    if not axes:
        return False
    axis = p.pick(axes)
    v = p.feeds[name]
    p.feeds[name] = np.concatenate([v, np.take(v, [0], axis=axis)], axis=axis)
    p.name = name


@fault("input-layout", r"E-INPUT-LAYOUT", "input", 4, "nhwc|layout")
def _(p):
    name = float_feed(p, 4)
    if name is None or p.feeds[name].ndim != 4 or p.feeds[name].shape[1] != 3 or 1 not in fixed_axes(p, name) or 3 in p.feeds[name].shape[2:]:
        return False
    p.feeds[name] = np.ascontiguousarray(p.feeds[name].transpose(0, 2, 3, 1))
    p.name = name


@fault("input-file-missing", r"E-INPUT-OPEN", "input", 4, "nothing_here")
def _(p):
    p.options = ["--input", f"{next(iter(p.feeds))}=nothing_here.npy"]
    p.name = "nothing_here"
    p.feeds = {}


@fault("input-unknown", r"E-INPUT-NAME", "input", 4, "has no input|no such")
def _(p):
    name = p.pick(p.feeds)
    p.feeds[name + "_ghost"] = p.feeds.pop(name)
    p.name = name + "_ghost"


@fault("input-key-unknown", r"E-INPUT-KEY", "input", 4, "colour")
def _(p):
    name = p.pick(p.feeds)
    p.file_of_input[name] = (".npy", None, ",colour=red")


@fault("input-not-npy", r"E-INPUT-(FORMAT|BYTES)", "input", 4, "npy|format|byte")
def _(p):
    name = float_feed(p)
    if name is None:
        return False
    p.file_of_input[name] = (".npy", p.pick([b"\x93NUMPY", b"hello", b"PK\x03\x04abc"]), "")


@fault("dim-unknown", r"E-DIM", "input", 4, "planted")
def _(p):
    p.options = ["--dim", "planted_dim=2"]


@fault("shape-of-fixed", r"E-INPUT-(SHAPE|RANK)", "input", 4, "\\[|shape|size|fixed")
def _(p):
    name = p.pick(k for k in p.feeds if p.feeds[k].ndim and fixed_axes(p, k))
    if name is None:
        return False
    shape = list(p.feeds[name].shape)
    shape[p.pick(fixed_axes(p, name))] += 3
    del p.feeds[name]
    p.options = ["--shape", f"{name}={'x'.join(map(str, shape))}"]
    p.name = name


def matches(pattern, text):
    return re.search(pattern, text, re.IGNORECASE) is not None
