# SPDX-License-Identifier: Apache-2.0
"""Makes the models of sensitivity.bats in the current folder: fp32 ones, quantized forms of them, and faults planted there."""
import os
import re

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(11)


def normal(*shape, by=1.0):
    return (rng.standard_normal(shape) * by).astype("f")


def save(path, nodes, init, inputs, outputs):
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in inputs],
                         [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in outputs], init)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


def save_set(folder, *arrays):
    os.makedirs(folder, exist_ok=True)
    for k, a in enumerate(arrays):
        with open(f"{folder}/input_{k}.pb", "wb") as f:
            f.write(nh.from_array(a).SerializeToString())


def ranges(model, feeds):
    """The smallest and largest element of every float tensor."""
    infer = onnx.shape_inference.infer_shapes(model)
    names = [n.output[0] for n in model.graph.node]
    full = onnx.ModelProto()
    full.CopyFrom(infer)
    del full.graph.output[:]
    full.graph.output.extend(h.make_tensor_value_info(n, T.FLOAT, None) for n in names)
    run, seen = ReferenceEvaluator(full), {}
    for feed in feeds:
        values = dict(zip(names, run.run(None, feed))) | feed
        for n, v in values.items():
            low, high = seen.get(n, (0, 0))
            seen[n] = (min(low, float(v.min())), max(high, float(v.max())))
    return seen


def quantize(model, feeds, path, wrong=None, channels=False, extra=()):
    """
    Pairs of QuantizeLinear and DequantizeLinear around every node, as ONNX Runtime's quantizer puts them: a Relu behind a
    Conv is dropped. `wrong` maps names of tensors to factors of their scales: a number, or a list for the channels.
    """
    wrong, seen = wrong or {}, ranges(model, feeds)
    weights = {i.name: nh.to_array(i) for i in model.graph.initializer}
    nodes, init, known = [], [], {}

    def pair(tensor, source):
        low, high = seen[tensor]
        scale = max(high - low, 1e-6) / 255
        zero = int(np.clip(round(-low / scale), 0, 255))
        init.extend([nh.from_array(np.float32(scale * wrong.get(tensor, 1)), f"{tensor}_scale"),
                     nh.from_array(np.uint8(zero), f"{tensor}_zero")])
        nodes.append(h.make_node("QuantizeLinear", [source, f"{tensor}_scale", f"{tensor}_zero"], [f"{tensor}_q"], f"{tensor}_Q"))
        nodes.append(h.make_node("DequantizeLinear", [f"{tensor}_q", f"{tensor}_scale", f"{tensor}_zero"], [f"{tensor}_dq"], f"{tensor}_DQ"))
        known[tensor] = f"{tensor}_dq"

    def weight(name):
        w, axis = weights[name], tuple(range(1, weights[name].ndim))
        most = abs(w).max(axis) if channels else abs(w).max()
        scale = (np.maximum(most, 1e-9) / 127).astype("f")
        shape = (-1,) + (1,) * (w.ndim - 1) if channels else ()
        q = np.clip(np.round(w / scale.reshape(shape)), -127, 127).astype("i1")
        init.extend([nh.from_array(q, f"{name}_q"), nh.from_array(np.asarray(scale * np.asarray(wrong.get(name, 1), "f"), "f"), f"{name}_scale"),
                     nh.from_array(np.zeros_like(scale, "i1"), f"{name}_zero")])
        nodes.append(h.make_node("DequantizeLinear", [f"{name}_q", f"{name}_scale", f"{name}_zero"], [f"{name}_dq"], f"{name}_DQ",
                                 **({"axis": 0} if channels else {})))
        known[name] = f"{name}_dq"

    for i in model.graph.input:
        pair(i.name, i.name)
    users = {}
    for n in model.graph.node:
        for i in n.input:
            users.setdefault(i, []).append(n)
    outputs = {o.name for o in model.graph.output}
    dropped = set()
    for n in model.graph.node:
        if n.output[0] in dropped:
            continue
        inputs = []
        for i in n.input:
            if i in weights and i not in known:
                if weights[i].ndim < 2:
                    init.append(nh.from_array(weights[i], i))
                    known[i] = i
                else:
                    weight(i)
            inputs.append(known[i])
        out = n.output[0]
        if n.op_type == "Conv" and len(users.get(out, [])) == 1 and users[out][0].op_type == "Relu":
            out = users[out][0].output[0]
            dropped.add(out)
        new = h.make_node(n.op_type, inputs, [out], n.name)
        new.attribute.extend(n.attribute)
        nodes.append(new)
        if out not in outputs:
            pair(out, out)
    ins = [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in model.graph.input]
    outs = [(o.name, [d.dim_value for d in o.type.tensor_type.shape.dim]) for o in model.graph.output]
    return save(path, nodes + list(extra), init, ins, outs)


# ---- convolutions, a sum, a pool and a product -------------------------------------------------------

def network(path, convolutions, width, size, classes):
    nodes, init, at = [], [], "x"
    for k in range(convolutions):
        before = 3 if not k else width
        init += [nh.from_array(normal(width, before, 3, 3, by=1.4 / (3 * before**0.5)), f"w{k}"), nh.from_array(normal(width, by=0.1), f"b{k}")]
        nodes += [h.make_node("Conv", [at, f"w{k}", f"b{k}"], [f"c{k}"], f"conv{k}", pads=[1, 1, 1, 1]),
                  h.make_node("Relu", [f"c{k}"], [f"relu{k}"], f"relu{k}_node")]
        at = f"relu{k}"
        if k % 2 and k > 1:
            nodes.append(h.make_node("Add", [at, f"relu{k - 1}"], [f"sum{k}"], f"add{k}"))
            at = f"sum{k}"
    init += [nh.from_array(normal(width, classes, by=1 / width**0.5), "w"), nh.from_array(normal(classes, by=0.1), "b")]
    nodes += [h.make_node("GlobalAveragePool", [at], ["pooled"], "pool"), h.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
              h.make_node("Gemm", ["flat", "w", "b"], ["y"], "classify")]
    return save(path, nodes, init, [("x", [1, 3, size, size])], [("y", [1, classes])])


model = network("fp32.onnx", 4, 6, 8, 5)
feeds = [{"x": normal(1, 3, 8, 8)} for _ in range(6)]
for k in range(3):
    save_set(f"set_{k}", feeds[k]["x"])
quantize(model, feeds, "weight.onnx", {"w2": 6})
quantize(model, feeds, "activation.onnx", {"relu1": 1 / 8})
quantize(model, feeds, "channel.onnx", {"w3": [1, 1, 9, 1, 1, 1]}, channels=True)
stray = [h.make_node("Tanh", ["relu0_dq"], ["unused"], "stray")]
more = quantize(model, feeds, "more.onnx", {"w2": 2}, extra=stray)
more.graph.output.append(h.make_tensor_value_info("unused", T.FLOAT, None))
onnx.save(more, "more.onnx")
quantize(model, feeds, "infinite.onnx", {"w": np.inf})

# the QOperator form of the second network: QLinearConv has the scales of all three, and the integers between have names of theirs
quantized = quantize(model, feeds, "qdq.onnx", {"w2": 6})
init = {i.name: i for i in quantized.graph.initializer}
nodes, made = [], {o: n for n in quantized.graph.node for o in n.output}
for n in quantized.graph.node:
    if n.op_type == "Conv":
        x, w = made[n.input[0]], made[n.input[1]]
        y = [q for q in quantized.graph.node if q.op_type == "QuantizeLinear" and q.input[0] == n.output[0]][0]
        bias = nh.to_array(init[n.input[2]])
        step = nh.to_array(init[x.input[1]]) * nh.to_array(init[w.input[1]])
        init[n.input[2] + "_i"] = nh.from_array(np.round(bias / step).astype("i4"), n.input[2] + "_i")
        new = h.make_node("QLinearConv", [x.input[0], x.input[1], x.input[2], w.input[0], w.input[1], w.input[2], y.input[1], y.input[2],
                                          n.input[2] + "_i"], [n.output[0] + "_quantized"], n.name + "_quant")
        new.attribute.extend(n.attribute)
        nodes.append(new)
    elif n.op_type == "QuantizeLinear" and made.get(n.input[0]) and made[n.input[0]].op_type == "Conv":
        continue
    else:
        nodes.append(n)
short = {q.output[0]: q.input[0] + "_quantized" for q in quantized.graph.node
         if q.op_type == "QuantizeLinear" and made.get(q.input[0]) and made[q.input[0]].op_type == "Conv"}
for n in nodes:
    for i, name in enumerate(n.input):
        n.input[i] = short.get(name, name)
save("qoperator.onnx", nodes, list(init.values()), [("x", [1, 3, 8, 8])], [("y", [1, 5])])

# ONNX Runtime names the integers after the convolution, and not after the Relu that they stand for, which it drops
for n in nodes:
    for names in (n.input, n.output):
        for i, name in enumerate(names):
            names[i] = re.sub("^relu([0-9])_(quantized|dq)$", r"c\1_\2", name)
save("dropped.onnx", nodes, list(init.values()), [("x", [1, 3, 8, 8])], [("y", [1, 5])])

deep = network("deep.onnx", 12, 12, 12, 40)
feeds = [{"x": normal(1, 3, 12, 12)} for _ in range(24)]
for k in range(24):
    save_set(f"deep_{k}", feeds[k]["x"])
quantize(deep, feeds, "deep8.onnx")

# ---- a single operator behind an input with a small error ---------------------------------------------

def operator(name, op, x, *rest, outputs=1, **attributes):
    init = [nh.from_array(np.asarray(r), f"r{k}") for k, r in enumerate(rest)]
    names = ["y"] + [f"y{k}" for k in range(1, outputs)]
    node = h.make_node(op, ["x"] + [f"r{k}" if np.asarray(r).size or r.ndim else "" for k, r in enumerate(rest)], names, "node", **attributes)
    made = save(f"op_{name}.fp32.onnx", [node], init, [("x", x.shape)], [(n, None) for n in names])
    quantize_input(name, made, init, node, x.shape, names)
    save_set(f"op_{name}.set", x)


def quantize_input(name, made, init, node, shape, names):
    pair = [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "Q"), h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "DQ")]
    new = onnx.NodeProto()
    new.CopyFrom(node)
    for i, n in enumerate(new.input):
        if n == "x":
            new.input[i] = "d"
    s, z = nh.from_array(np.float32(1 / 40), "s"), nh.from_array(np.int8(0), "z")
    save(f"op_{name}.int8.onnx", pair + [new], init + [s, z], [("x", shape)], [(n, None) for n in names])


image, rows = normal(2, 4, 7, 8, by=0.8), normal(3, 4, 10, by=0.8)
positive = (abs(normal(3, 4, 10)) * 0.5 + 1).astype("f")
floats = lambda *v: np.array(v, "f")
ints = lambda *v: np.array(v, "i8")
operator("conv", "Conv", image, normal(6, 4, 3, 3), normal(6), pads=[1, 0, 2, 1], strides=[2, 2])
operator("conv_dilated", "Conv", image, normal(6, 2, 3, 2), dilations=[2, 3], group=2)
operator("conv_same", "Conv", image, normal(4, 1, 3, 3), auto_pad="SAME_UPPER", group=4, strides=[2, 3])
operator("conv_line", "Conv", normal(2, 3, 20), normal(5, 3, 4), pads=[1, 2])
operator("conv_transpose", "ConvTranspose", image, normal(4, 3, 3, 3), strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 0])
operator("conv_transpose_groups", "ConvTranspose", image, normal(4, 3, 3, 2), group=2, dilations=[2, 1])
operator("matmul", "MatMul", rows, normal(10, 5))
operator("matmul_batched", "MatMul", rows, normal(2, 1, 10, 5))
operator("gemm", "Gemm", normal(4, 6), normal(5, 6), normal(5), transB=1, alpha=0.5)
operator("gemm_turned", "Gemm", normal(4, 6), normal(4, 5), transA=1, beta=2.0)
operator("gemm_both", "Gemm", normal(4, 6), normal(5, 4), transA=1, transB=1)
operator("softmax", "Softmax", rows, axis=1)
operator("log_softmax", "LogSoftmax", rows, axis=-1)
operator("layer_norm", "LayerNormalization", rows, normal(10), normal(10))
operator("layer_norm_two", "LayerNormalization", rows, normal(4, 10), axis=1)
operator("batch_norm", "BatchNormalization", image, normal(4), normal(4), normal(4), abs(normal(4)) + 0.5)
operator("mean", "ReduceMean", rows, axes=[1], keepdims=0)
operator("mean_all", "ReduceMean", rows)
operator("sum", "ReduceSum", rows, ints(0, 2), keepdims=0)
operator("largest", "ReduceMax", rows, axes=[2])
operator("max_pool", "MaxPool", image, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
operator("average_pool", "AveragePool", image, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
operator("average_pool_pads", "AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
operator("global_average_pool", "GlobalAveragePool", image)
operator("global_max_pool", "GlobalMaxPool", image)
operator("resize", "Resize", image, np.zeros(0, "f"), floats(1, 1, 2, 1.5), mode="nearest")
operator("transpose", "Transpose", rows, perm=[2, 0, 1])
operator("reshape", "Reshape", rows, ints(6, -1))
operator("slice", "Slice", rows, ints(1, 2), ints(3, 9), ints(0, 2), ints(1, 3))
operator("gather", "Gather", rows, ints(3, 3, 0), axis=1)
operator("pad", "Pad", rows, ints(0, 1, 2, 1, 0, 0), floats(2.5).reshape(()))
operator("split", "Split", rows, ints(3, 7), outputs=2, axis=2)
operator("expand", "Expand", rows, ints(2, 3, 4, 10))
operator("tile", "Tile", rows, ints(1, 2, 2))
operator("add", "Add", normal(4, 1), normal(3, 1, 5))
operator("sub", "Sub", rows, normal(10))
operator("mul", "Mul", normal(4, 1), normal(3, 1, 5))
operator("div", "Div", rows, abs(normal(4, 1)) + 1)
operator("pow", "Pow", positive, floats(1.7))
operator("sqrt", "Sqrt", positive)
operator("relu", "Relu", rows)
operator("leaky_relu", "LeakyRelu", rows, alpha=0.2)
operator("clip", "Clip", rows, floats(-0.5).reshape(()), floats(0.7).reshape(()))
operator("sigmoid", "Sigmoid", rows)
operator("tanh", "Tanh", rows)
operator("erf", "Erf", rows)
operator("hard_swish", "HardSwish", rows)
operator("max", "Max", rows, normal(4, 10))

# ---- an operator without a derivative, and a value that fp16 cannot keep -------------------------------

w, r = normal(1, 24, 5, by=0.4), normal(1, 24, 6, by=0.4)
cell = [h.make_node("MatMul", ["x", "a"], ["u"], "before"), h.make_node("LSTM", ["u", "w", "r"], ["s"], "lstm", hidden_size=6),
        h.make_node("Reshape", ["s", "shape"], ["flat"], "reshape"), h.make_node("MatMul", ["flat", "c"], ["y"], "after")]
init = [nh.from_array(v, n) for n, v in (("a", normal(5, 5)), ("w", w), ("r", r), ("c", normal(6, 4)))] + [nh.from_array(ints(-1, 6), "shape")]
save("lstm.onnx", cell, init, [("x", [7, 2, 5])], [("y", [14, 4])])
save("lstm2.onnx", cell, init, [("x", [7, 2, 5]), ("unused", [1])], [("y", [14, 4])])
pairs, scales = [], []
for n in ("a", "c"):
    v = nh.to_array([i for i in init if i.name == n][0])
    s = np.float32(abs(v).max() / 127)
    scales += [nh.from_array(np.round(v / s).astype("i1"), f"{n}_q"), nh.from_array(s, f"{n}_s")]
    pairs.append(h.make_node("DequantizeLinear", [f"{n}_q", f"{n}_s"], [f"{n}_d"], f"{n}_DQ"))
for n in cell:
    for i, name in enumerate(n.input):
        n.input[i] = {"a": "a_d", "c": "c_d"}.get(name, name)
save("lstm8.onnx", pairs + cell, [i for i in init if i.name not in ("a", "c")] + scales, [("x", [7, 2, 5])], [("y", [14, 4])])

# 1000 + x has steps of 0.5 or 1 in fp16
save("large.onnx", [h.make_node("MatMul", ["x", "a"], ["u"], "first"), h.make_node("Gemm", ["u", "e", "up"], ["v"], "raise"),
                    h.make_node("Sub", ["v", "up"], ["d"], "lower"), h.make_node("MatMul", ["d", "c"], ["y"], "last")],
     [nh.from_array(normal(6, 6), "a"), nh.from_array(np.eye(6, dtype="f"), "e"), nh.from_array(np.full(6, 1500, "f"), "up"), nh.from_array(normal(6, 3), "c")],
     [("x", [4, 6])], [("y", [4, 3])])

# scores beside a mask of -1e9: a quantizer's range is the mask's, which leaves nothing of the scores
keep = np.tril(np.ones((6, 6), bool))
masked = [h.make_node("MatMul", ["x", "a"], ["u"], "scores"), h.make_node("Where", ["keep", "u", "far"], ["m"], "mask"),
          h.make_node("Softmax", ["m"], ["s"], "softmax"), h.make_node("MatMul", ["s", "c"], ["y"], "values")]
init = [nh.from_array(v, n) for n, v in (("a", normal(6, 6)), ("keep", keep), ("far", np.float32(-1e9)), ("c", normal(6, 4)))]
save("mask.onnx", masked, init, [("x", [6, 6])], [("y", [6, 4])])
pairs = [h.make_node("QuantizeLinear", ["m", "m_s", "m_z"], ["m_q"], "m_Q"), h.make_node("DequantizeLinear", ["m_q", "m_s", "m_z"], ["m_d"], "m_DQ"),
         h.make_node("QuantizeLinear", ["u", "u_s", "u_z"], ["u_q"], "u_Q"), h.make_node("DequantizeLinear", ["u_q", "u_s", "u_z"], ["u_d"], "u_DQ")]
for n, old, new in ((masked[1], "u", "u_d"), (masked[2], "m", "m_d")):
    n.input[:] = [new if i == old else i for i in n.input]
save("mask8.onnx", masked[:1] + pairs[2:] + masked[1:2] + pairs[:2] + masked[2:],
     init + [nh.from_array(v, n) for n, v in (("m_s", np.float32(1e9 / 255)), ("m_z", np.uint8(255)), ("u_s", np.float32(0.06)), ("u_z", np.uint8(128)))],
     [("x", [6, 6])], [("y", [6, 4])])

# one weight that no input reaches leaves the others of its matrix few bits of fp8
weights = normal(16, 16)
weights[0, 0] = 3e4
save("outlier.onnx", [h.make_node("Mul", ["x", "m"], ["u"], "mask"), h.make_node("MatMul", ["u", "a"], ["v"], "outlier"),
                      h.make_node("Relu", ["v"], ["r"], "act"), h.make_node("MatMul", ["r", "b"], ["w"], "second"),
                      h.make_node("Add", ["w", "c"], ["y"], "bias")],
     [nh.from_array(weights, "a"), nh.from_array(normal(16, 16), "b"), nh.from_array(normal(16), "c"),
      nh.from_array(np.array([0] + [1] * 15, "f"), "m")],
     [("x", [8, 16])], [("y", [8, 16])])

# ---- the QOperator form around operators that it leaves in float -----------------------------------------

def form(path, model, feeds, wrong=None):
    """
    QLinear operators as ONNX Runtime's quantizer writes them: operators that it has no form for stay in float, with a DequantizeLinear
    before, which keeps the tensor's name, and a QuantizeLinear behind; a Relu behind a convolution is dropped.
    """
    seen, weights = ranges(model, feeds), {i.name: nh.to_array(i) for i in model.graph.initializer}
    nodes, init, codes, plain = [], [], {}, {"x"}

    def scale(t):
        low, high = seen[t]
        return np.float32((high - low) / 255)

    def parts(t):
        """The names of the scale and zero point of tensor t."""
        if not any(i.name == f"{t}_scale" for i in init):
            init.extend([nh.from_array(np.float32(scale(t) * (wrong or {}).get(t, 1)), f"{t}_scale"),
                         nh.from_array(np.uint8(np.clip(round(-seen[t][0] / scale(t)), 0, 255)), f"{t}_zero")])
        return [f"{t}_scale", f"{t}_zero"]

    def short(t):
        if t not in codes:
            nodes.append(h.make_node("QuantizeLinear", [t] + parts(t), [f"{t}_quantized"], f"{t}_QuantizeLinear"))
            codes[t] = [f"{t}_quantized"] + parts(t)
        return codes[t]

    def float_of(t):
        if t not in plain and t not in weights:
            nodes.append(h.make_node("DequantizeLinear", codes[t], [t], f"{t}_DequantizeLinear"))
            plain.add(t)
        return t

    for n in model.graph.node:
        x, y = n.input[0], n.output[0]
        if n.op_type == "Conv":
            w, b = weights[n.input[1]], weights[n.input[2]]
            s = np.float32(abs(w).max() / 127)
            behind = [m for m in model.graph.node if y in m.input]
            limits = behind[0].output[0] if behind and behind[0].op_type == "Relu" else y
            seen[y] = seen[limits]
            name = f"{n.name}_w"
            init += [nh.from_array(np.round(w / s).astype("i1"), name), nh.from_array(s, f"{name}_scale"), nh.from_array(np.int8(0), f"{name}_zero"),
                     nh.from_array(np.round(b / (scale(x) * s)).astype("i4"), f"{name}_b")]
            new = h.make_node("QLinearConv", short(x) + [name, f"{name}_scale", f"{name}_zero"] + parts(y) + [f"{name}_b"], [f"{y}_quantized"],
                              n.name + "_quant")
            new.attribute.extend(n.attribute)
            codes[y] = codes[limits] = [f"{y}_quantized"] + parts(y)
        elif n.op_type == "Relu" and x in codes:
            continue
        elif n.op_type in ("Add", "AveragePool"):
            new = h.make_node(f"QLinear{n.op_type}", sum([short(i) for i in n.input], []) + parts(y), [f"{y}_quantized"], n.name + "_quant",
                              domain="com.microsoft")
            new.attribute.extend(n.attribute)
            codes[y] = [f"{y}_quantized"] + parts(y)
        else:
            for i in n.input:
                float_of(i)
                init += [nh.from_array(weights[i], i)] if i in weights else []
            new = n
            plain.add(y)
        nodes.append(new)
    float_of(model.graph.output[0].name)
    graph = h.make_graph(nodes, "g", list(model.graph.input), list(model.graph.output), init)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8), path)


init = [nh.from_array(normal(*s, by=k), n) for n, s, k in (
    ("w0", (8, 3, 3, 3), .3), ("b0", (8,), .1), ("w1", (12, 8, 3, 3), .17), ("b1", (12,), .1), ("wt", (12, 8, 2, 2), .3), ("bt", (8,), .1),
    ("w2", (8, 8, 3, 3), .17), ("b2", (8,), .1), ("w3", (2, 8, 3, 3), .17), ("b3", (2,), .1))]
form_nodes = [h.make_node("Conv", ["x", "w0", "b0"], ["c0"], "wide", pads=[1] * 4), h.make_node("Relu", ["c0"], ["r0"], "wide_relu"),
              h.make_node("Conv", ["r0", "w1", "b1"], ["c1"], "down", pads=[1] * 4, strides=[2, 2]), h.make_node("Relu", ["c1"], ["r1"], "down_relu"),
              h.make_node("ConvTranspose", ["r1", "wt", "bt"], ["t"], "up", strides=[2, 2]), h.make_node("Add", ["t", "r0"], ["a"], "skip"),
              h.make_node("Conv", ["a", "w2", "b2"], ["c2"], "mix", pads=[1] * 4), h.make_node("Relu", ["c2"], ["r2"], "mix_relu"),
              h.make_node("AveragePool", ["r2"], ["p"], "smooth", kernel_shape=[3, 3], pads=[1] * 4),
              h.make_node("Conv", ["p", "w3", "b3"], ["y"], "last", pads=[1] * 4)]
net = save("form.fp32.onnx", form_nodes, init, [("x", [1, 3, 16, 16])], [("y", [1, 2, 16, 16])])
feeds = [{"x": normal(1, 3, 16, 16)} for _ in range(4)]
for k in range(4):
    save_set(f"form_{k}", feeds[k]["x"])
form("form.onnx", net, feeds)
for name, tensor in (("up", "t"), ("smooth", "p"), ("down", "c1")):
    form(f"form_{name}.onnx", net, feeds, {tensor: 1 / 8})
