#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants edits in models, and exports models again in other words, and judges what `infer diff` says of them.

    plant.py INFER SEED EDITS EXPORTS MODEL.onnx...

The oracle is the edit itself: what was changed, at which node, and for weights the largest difference by numpy. An edit must be
the only difference that is told; a model in other words must have none. Half of the edits are planted in a model that was
put into other words besides, so that no name helps. Prints a line for each case that fails, and the counts.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import AttributeProto, helper as h, numpy_helper as nh

LARGE = 64  # elements from which a weight is edited in one element only


def graphs(graph):
    """The graph and its bodies."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            for g in [a.g] if a.type == AttributeProto.GRAPH else a.graphs:
                yield from graphs(g)


def nodes(graph):
    return [(g, n) for g in graphs(graph) for n in g.node]


def named(model):
    """Gives every node a name of its own."""
    for i, (_, n) in enumerate(nodes(model.graph)):
        n.name = f"{n.op_type}.{i}"
    return model


def reads(node):
    """What a node reads, bodies included."""
    yield from (i for i in node.input if i)
    for a in node.attribute:
        for g in [a.g] if a.type == AttributeProto.GRAPH else a.graphs:
            for _, n in nodes(g):
                yield from (i for i in n.input if i)
            yield from (o.name for o in g.output)


def live(model):
    """Names of the values of the main graph that its outputs need."""
    maker = {o: n for n in model.graph.node for o in n.output if o}
    left, seen = [o.name for o in model.graph.output], set()
    while left:
        v = left.pop()
        if v in seen:
            continue
        seen.add(v)
        if v in maker:
            left += list(reads(maker[v]))
    return seen


def users(model):
    count = {}
    for _, n in nodes(model.graph):
        for i in n.input:
            count[i] = count.get(i, 0) + 1
    for g in graphs(model.graph):
        for o in g.output:
            count[o.name] = count.get(o.name, 0) + 1
    return count


COPIES = {"Identity", "Dropout", "Constant"}


def living_nodes(model):
    seen = live(model)
    return [n for n in model.graph.node if n.op_type not in COPIES and any(o in seen for o in n.output)]


# ---- edits: each changes the model and returns (kind, the names of nodes of which one must be told, or None, max abs or None)


def edit_weight(model, r):
    seen, count = live(model), users(model)
    reader = {}
    for _, n in nodes(model.graph):
        for i in n.input:
            reader.setdefault(i, n.name)
    fit = [t for t in model.graph.initializer if t.name in seen and count.get(t.name) == 1 and t.name in reader and t.data_type in (1, 10, 7) and np.prod(t.dims) > 0]
    t = r.choice(fit)
    old = nh.to_array(t)
    new = old.copy().reshape(-1)
    at = r.randrange(new.size)
    if new.dtype == np.int64:
        new[at] += 1
    else:
        new[at] = new[at] * new.dtype.type(1.5) + new.dtype.type(0.25)
    new = new.reshape(old.shape)
    far = float(np.max(np.abs(new.astype(np.float64) - old.astype(np.float64))))
    t.CopyFrom(nh.from_array(new, t.name))
    return "weights", {reader[t.name]}, far


def edit_attribute(model, r):
    fit = []
    for n in living_nodes(model):
        for a in n.attribute:
            if a.type == AttributeProto.FLOAT or (a.type == AttributeProto.INT and a.name in ("axis", "group", "keepdims", "transB", "to", "ceil_mode")):
                fit.append((n, a))
            elif a.type == AttributeProto.INTS and len(a.ints):
                fit.append((n, a))
    n, a = r.choice(fit)
    if a.type == AttributeProto.FLOAT:
        a.f = a.f * 2 + 0.5
    elif a.type == AttributeProto.INT:
        a.i = {"keepdims": 1 - a.i, "transB": 1 - a.i, "ceil_mode": 1 - a.i, "to": 11 if a.i != 11 else 1}.get(a.name, a.i + 1)
    elif a.name == "perm":
        a.ints[0], a.ints[-1] = a.ints[-1], a.ints[0]
    else:
        a.ints[r.randrange(len(a.ints))] += 1
    return "attributes", {n.name}, None


UNARY = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt", "Floor", "Softsign", "Erf"]
BINARY = ["Add", "Sub", "Mul", "Div"]


def edit_operator(model, r):
    n = r.choice([n for n in living_nodes(model) if n.op_type in UNARY + BINARY and not n.domain])
    n.op_type = r.choice([o for o in (UNARY if n.op_type in UNARY else BINARY) if o != n.op_type])
    return "operators", {n.name}, None


def edit_insert(model, r):
    n = r.choice([n for n in living_nodes(model) if n.op_type in UNARY + BINARY + ["Conv", "MatMul", "Gemm"]])
    value, new = n.output[0], "planted.value"
    added = h.make_node(r.choice(["Neg", "Abs", "Exp", "Relu"]), [new], [value], name="planted")
    n.output[0] = new
    at = list(model.graph.node).index(n)
    model.graph.node.insert(at + 1, added)
    return "operators", {"planted"}, None


def edit_remove(model, r):
    outs = {o.name for o in model.graph.output}
    n = r.choice([n for n in living_nodes(model) if n.op_type in UNARY and n.output[0] not in outs])
    gone, kept, name = n.output[0], n.input[0], n.name
    model.graph.node.remove(n)
    for _, m in nodes(model.graph):
        for k, i in enumerate(m.input):
            if i == gone:
                m.input[k] = kept
    for g in graphs(model.graph):
        for o in g.output:
            if o.name == gone:
                o.name = kept
    return "operators", {name}, None


def edit_wire(model, r):
    count, seen = users(model), live(model)
    made, fit = [i.name for i in model.graph.input], []
    makes = {}
    for n in model.graph.node:
        if n.op_type in BINARY + ["Concat", "Conv", "MatMul"] and n.output[0] in seen:
            for k, i in enumerate(n.input):
                # what the old source computes must be needed elsewhere, too
                if i in makes and count[i] > 1 and sum(x == i for x in n.input) == 1:
                    for new in made[-12:]:
                        if new in seen and new not in n.input and makes.get(new) is not makes[i]:
                            fit.append((n, k, new))
        if n.op_type not in COPIES:
            made += list(n.output)
            makes.update({o: n for o in n.output})
    n, k, new = r.choice(fit)
    n.input[k] = new
    return "operators", {n.name}, None


def edit_interface(model, r):
    p = r.choice(list(model.graph.output) + [i for i in model.graph.input if i.type.HasField("tensor_type")])
    dims = p.type.tensor_type.shape.dim
    if not len(dims):
        raise IndexError
    d = r.choice(list(dims))
    if d.HasField("dim_value"):
        d.dim_value += 3
    else:
        d.Clear()
        d.dim_value = 7
    return "interface", {p.name}, None


def edit_opset(model, r):
    model.opset_import.append(h.make_opsetid("planted.domain", r.randrange(1, 9)))
    return "opsets", None, None


def edit_metadata(model, r):
    model.metadata_props.add(key="planted", value=str(r.random()))
    return "metadata", None, None


EDITS = [edit_weight, edit_attribute, edit_operator, edit_insert, edit_remove, edit_wire, edit_weight, edit_attribute, edit_interface, edit_opset, edit_metadata]


# ---- the same model in other words


def rename(model, r):
    keep = {p.name for p in list(model.graph.input) + list(model.graph.output)}
    new = {}

    def name(old):
        if not old or old in keep:
            return old
        return new.setdefault(old, f"v{len(new)}_{r.randrange(10**6)}")

    for g in graphs(model.graph):
        for t in g.initializer:
            t.name = name(t.name)
        for s in g.sparse_initializer:
            s.values.name = name(s.values.name)
        for p in list(g.input) + list(g.output):
            p.name = name(p.name)
        del g.value_info[:]
    for i, (_, n) in enumerate(nodes(model.graph)):
        n.name = f"n{i}_{r.randrange(10**6)}"
        n.input[:] = [name(i) for i in n.input]
        n.output[:] = [name(o) for o in n.output]
        n.doc_string = "exported again"


def reorder(model, r):
    for g in graphs(model.graph):
        own = {o for n in g.node for o in n.output if o}
        need = [{i for i in reads(n) if i in own} for n in g.node]
        left, done, order = list(range(len(g.node))), {""}, []
        maker = {o: k for k, n in enumerate(g.node) for o in n.output if o}
        waits = [len({maker[i] for i in w}) for w in need]
        after = {}
        for k, w in enumerate(need):
            for j in {maker[i] for i in w}:
                after.setdefault(j, []).append(k)
        ready = [k for k in left if not waits[k]]
        while ready:
            k = ready.pop(r.randrange(len(ready)))
            order.append(k)
            for j in after.get(k, []):
                waits[j] -= 1
                if not waits[j]:
                    ready.append(j)
        fresh = [copy.deepcopy(g.node[k]) for k in order]
        del g.node[:]
        g.node.extend(fresh)
        weights = list(g.initializer)
        r.shuffle(weights)
        weights = [copy.deepcopy(t) for t in weights]
        del g.initializer[:]
        g.initializer.extend(weights)


def identities(model, r):
    for g in list(graphs(model.graph)):
        for k in range(len(g.node) - 1, -1, -1):
            n = g.node[k]
            if r.random() < 0.2 and len(n.input) and n.input[0]:
                v = f"copy.{id(g)}.{k}"
                g.node.insert(k, h.make_node("Identity", [n.input[0]], [v]))
                g.node[k + 1].input[0] = v


def constants(model, r):
    for g in graphs(model.graph):
        inputs = {i.name for i in g.input}
        for t in [t for t in g.initializer if r.random() < 0.5 and t.name not in inputs]:
            node = h.make_node("Constant", [], [t.name], value=copy.deepcopy(t))
            node.attribute[0].t.name = ""
            g.initializer.remove(t)
            g.node.insert(0, node)


def initializers(model, r):
    for g in graphs(model.graph):
        outs = {o.name for o in g.output}
        for n in [n for n in g.node if n.op_type == "Constant" and n.attribute[0].name == "value" and n.output[0] not in outs]:
            if r.random() < 0.7:
                t = copy.deepcopy(n.attribute[0].t)
                t.name = n.output[0]
                g.initializer.append(t)
                g.node.remove(n)


def split_weights(model, r):
    """Each reader gets a copy of a weight that several read, in another encoding."""
    g = model.graph
    fit = {t.name: t for t in g.initializer if np.prod(t.dims) <= 4096}
    for k, n in enumerate(g.node):
        for j, i in enumerate(n.input):
            if i in fit and r.random() < 0.5:
                t = fit[i]
                values = nh.to_array(t)
                if t.data_type == 1:
                    t = h.make_tensor(f"w.{k}.{j}", t.data_type, values.shape, values.reshape(-1).tolist())
                else:
                    t = nh.from_array(values, f"w.{k}.{j}")
                g.initializer.append(t)
                n.input[j] = t.name


def twice(model, r):
    """Computes some things a second time for one of their readers, and some that nobody needs."""
    g, count = model.graph, users(model)
    for k in range(len(g.node) - 1, -1, -1):
        n = g.node[k]
        if n.op_type in UNARY + BINARY + ["Shape", "Reshape", "Transpose", "Cast", "Conv", "MatMul"] and r.random() < 0.3:
            again = copy.deepcopy(n)
            again.output[0] += ".again"
            again.name += ".again"
            late = [m for m in list(g.node)[k + 1 :] if n.output[0] in m.input]
            if late and count[n.output[0]] > 1:
                m = r.choice(late)
                m.input[list(m.input).index(n.output[0])] = again.output[0]
            g.node.insert(k + 1, again)


def defaults(model, r):
    """Attributes at their defaults are written out or left out."""
    for _, n in nodes(model.graph):
        have = {a.name: a for a in n.attribute}
        try:
            schema = onnx.defs.get_schema(n.op_type, {o.domain: o.version for o in model.opset_import}.get(n.domain, 1), n.domain)
        except onnx.defs.SchemaError:
            continue
        for name, a in schema.attributes.items():
            if not a.default_value.name:
                continue
            if name not in have and r.random() < 0.5:
                n.attribute.append(copy.deepcopy(a.default_value))
            elif name in have and have[name] == a.default_value and r.random() < 0.5:
                n.attribute.remove(have[name])


def wrap(model, r):
    """Some nodes become calls of functions."""
    if model.ir_version < 8:
        model.ir_version = 8
    for k, n in enumerate(model.graph.node):
        if n.domain or any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in n.attribute) or n.op_type in COPIES or not all(n.input) or r.random() > 0.2:
            continue
        inner = copy.deepcopy(n)
        inner.input[:] = [f"i{j}" for j in range(len(n.input))]
        inner.output[:] = [f"o{j}" if o else "" for j, o in enumerate(n.output)]
        if not all(n.output):
            continue
        model.functions.append(h.make_function("local", f"f{k}", list(inner.input), list(inner.output), [inner], [o for o in model.opset_import if not o.domain]))
        n.op_type, n.domain = f"f{k}", "local"
        del n.attribute[:]
    if model.functions:
        model.opset_import.append(h.make_opsetid("local", 1))


WORDS = [constants, initializers, identities, split_weights, twice, defaults, wrap]


def other_words(model, r, mild):
    for f in WORDS[:3] if mild else WORDS:
        if mild or r.random() < 0.7:
            f(model, r)
    reorder(model, r)
    rename(model, r)


# ---- judging


def diff(infer, a, b):
    p = subprocess.run([infer, "diff", a, b, "--json"], capture_output=True, text=True, timeout=300)
    return p.returncode, json.loads(p.stdout)


def judge_edit(status, told, kind, names, far):
    items = told.get("differences", [])
    if status != 1:
        return f"status {status}: {told.get('findings')}"
    if len(items) != 1 or items[0]["kind"] != kind:
        return f"{len(items)} differences: {[(i['kind'], i['what'], i['where_a'], i['where_b']) for i in items][:4]}"
    places = (items[0]["where_a"] or "", items[0]["where_b"] or "")
    # a weight's place is its reader's name and its own
    if names and not any(w.split(" ")[0] in names or w in names for w in places):
        return f"place {places}, expected {names}"
    if far is not None and abs(items[0]["far"]["max_abs"] - far) > 1e-6 * max(far, 1e-30):
        return f"max abs {items[0]['far']['max_abs']}, expected {far}"
    return None


def main():
    infer, seed, edits, exports, *paths = sys.argv[1:]
    r = random.Random(int(seed))
    failed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        a, b = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
        for k in range(int(edits)):
            while True:
                base = named(onnx.load(paths[k % len(paths)]))
                edit, model = EDITS[r.randrange(len(EDITS))], copy.deepcopy(base)
                try:
                    kind, names, far = edit(model, r)
                    break
                except IndexError:  # the model has no place for this edit
                    continue
            words = r.random() < 0.5
            if words:
                other_words(model, r, True)
            onnx.save(base, a)
            onnx.save(model, b)
            if words and names == {"planted"}:
                names = None  # what is added has a new name, too
            why = judge_edit(*diff(infer, a, b), kind, names, far)
            done += 1
            if why:
                failed += 1
                print(f"edit {k} {edit.__name__} {names} in {paths[k % len(paths)]}{' in other words' if words else ''}: {why}")
        for k in range(int(exports)):
            base = onnx.load(paths[k % len(paths)])
            model = copy.deepcopy(base)
            other_words(model, r, False)
            onnx.save(base, a)
            onnx.save(model, b)
            status, told = diff(infer, a, b)
            items = [i for i in told.get("differences", []) if i["kind"] not in ("opsets", "metadata")]
            done += 1
            if status > 1 or items or "differences" not in told:
                failed += 1
                print(f"export {k} of {paths[k % len(paths)]}: status {status}, {len(items)} differences: {[(i['what'], i['where_a'], i['where_b'], i['a'], i['b']) for i in items][:3] or told.get('findings')}")
    print(f"{done} cases, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
