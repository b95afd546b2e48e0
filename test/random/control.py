# SPDX-License-Identifier: Apache-2.0
"""Recipes of control flow: bodies of a few nodes with captures, and nesting."""

import numpy as np
from onnx import helper

from graph import NUMBER, Skip, Value
from recipe import recipe


class Body:
    def __init__(self, c, tag):
        self.c, self.tag, self.nodes, self.n = c, tag, [], 0

    def name(self):
        self.n += 1
        return f"{self.tag}_{self.n}"

    def add(self, op, *inputs, out=None, **attrs):
        out = out or self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attrs))
        return out

    def chain(self, x, t, others=(), length=None):
        """A few elementwise nodes upon x; others: values of x's type that broadcast into its shape."""
        c = self.c
        unary = ["Neg", "Abs", "Identity"] + (["Tanh", "Sigmoid", "Exp"] if t == "float" else [])
        for _ in range(c.int(0, 2) if length is None else length):
            if others and c.flag(0.6):
                x = self.add(c.choice(["Add", "Sub", "Mul"]), x, c.choice(others))
            else:
                op = c.choice(unary)
                x = self.add("Sigmoid" if op == "Exp" else op, x)
        return self.add("Identity", x) if not self.nodes or c.flag(0.1) else x

    def constant(self, a):
        return self.add("Constant", value=helper.make_tensor("", NUMBER[a[0]], a[1].shape, a[1].ravel().tolist()))

    def graph(self, ins, outs):
        """ins, outs: (name, type, shape or None)"""
        info = [helper.make_tensor_value_info(n, NUMBER[t] if isinstance(t, str) else t, s) for n, t, s in ins]
        made = {o for n in self.nodes for o in n.output}
        names, seen = [], set()
        for n, t, s in outs:
            if n not in made or n in seen:  # an output must be the body's own
                n = self.add("Identity", n)
            seen.add(n)
            names.append((n, t, s))
        out = [helper.make_tensor_value_info(n, NUMBER[t] if isinstance(t, str) else t, s) for n, t, s in names]
        return helper.make_graph(self.nodes, self.tag, info, out)


def captured(c, t, shape=None, n=2):
    """Names of outer values of this type: they must be of the graph already, not the node's own operands."""
    return [v for v in c.values if v.tensor and v.type == t and v.name and (shape is None or v.shape == tuple(shape))
            and not v.volatile][-n:]


@recipe("If")
def if_(c):
    t = c.choice(["float", "int64"])
    x = captured(c, t)
    if not x:
        raise Skip("nothing to capture")
    x = x[-1]
    kinds, graphs = [], []
    n = c.int(1, 2)
    for tag in ("then", "else"):
        b = Body(c, f"{tag}{len(c.values)}")
        outs = []
        for _ in range(n):
            y = b.chain(x.name, t, [x.name])
            if c.opset >= 11 and c.flag(0.3):  # another shape in each branch
                y = b.add("Reshape", y, b.constant(("int64", np.asarray([-1], np.int64))))
            outs.append((y, t, None))
        if c.flag(0.2):  # nested
            inner = Body(c, f"inner{tag}{len(c.values)}")
            g1 = inner.graph([], [(inner.chain(x.name, t, [x.name]), t, None)])
            other = Body(c, f"other{tag}{len(c.values)}")
            g2 = other.graph([], [(other.chain(x.name, t), t, None)])
            cond = b.constant(("bool", np.asarray(c.flag())))
            out = b.name()
            b.nodes.append(helper.make_node("If", [cond], [out], then_branch=g1, else_branch=g2))
            outs[0] = (out, t, None)
        graphs.append(b.graph([], outs))
        kinds.append(outs)
    return dict(cond=Value(np.asarray(c.flag()).reshape([] if c.flag() else [1]), const=c.flag(0.3)), then_branch=graphs[0], else_branch=graphs[1],
                _nout=n, _captures=[x])


@recipe("Loop")
def loop(c):
    t = c.choice(["float", "int64"])
    x = c.fresh(t, c.dims(0, 3, False, 4))
    shape = list(x.shape)
    outer = [v for v in captured(c, t) if _broadcasts(v.shape, shape)]
    tag = f"loop{len(c.values)}"
    b = Body(c, tag)
    carried = c.int(1, 2)
    scans = c.int(0, 2)
    i, cond = tag + "_i", tag + "_cond"
    ins = [(i, "int64", []), (cond, "bool", [])]
    outs, state = [], []
    for k in range(carried):
        name = f"{tag}_s{k}"
        ins.append((name, t, shape if c.flag() else None))
        state.append(name)
    more = [v.name for v in outer]
    turn = b.add("Cast", i, to=NUMBER[t])
    new = [b.chain(s, t, more + ([turn] if c.flag() else []) + [o for o in state if o != s], c.int(1, 2)) for s in state]
    if c.flag(0.4):
        limit = b.constant(("int64", np.asarray(c.int(0, 4), np.int64)))
        keep = b.add("Less", i, limit) if c.opset >= 9 else b.add("Identity", cond)
    else:
        keep = b.add("Identity", cond)
    outs = [(keep, "bool", None)] + [(n, t, None) for n in new]
    for _ in range(scans):
        outs.append((b.chain(c.choice(new + state), t, [turn], c.int(1, 2)), t, None))
    grow = c.opset >= 11 and c.flag(0.2) and not scans and carried == 1
    if grow:  # its shape changes each turn
        flat = b.add("Reshape", new[0], b.constant(("int64", np.asarray([-1], np.int64))))
        cat = b.add("Concat", flat, flat, axis=0)
        ins[2] = (state[0], t, None)
        outs[1] = (cat, t, None)
        b.nodes = [n for n in b.nodes if True]
    body = b.graph(ins, outs)
    trip = c.int(0, 3)
    m = Value(np.asarray(trip, np.int64), const=c.flag(0.4))
    start = c.maybe(lambda: Value(np.asarray(True if c.flag(0.9) else False), const=c.flag(0.4)))
    if grow and outer:
        raise Skip("captures do not fit")
    return dict(M=m, cond=start, v_initial=[x] + [c.fresh(t, shape) for _ in range(carried - 1)], body=body, _nout=carried + scans, _captures=outer)


def _broadcasts(small, big):
    try:
        return np.broadcast_shapes(small, tuple(big)) == tuple(big)
    except ValueError:
        return False


@recipe("Scan")
def scan(c):
    t = c.choice(["float", "int64"])
    tag = f"scan{len(c.values)}"
    b = Body(c, tag)
    if c.opset < 9:
        raise Skip("scan 8 has a batch")
    n = c.int(1, 4)
    shape = c.dims(0, 2, False, 4)
    states, inputs = c.int(0, 2), c.int(1, 2)
    outer = [v for v in captured(c, t) if _broadcasts(v.shape, shape)]
    ins, operands, axes, ways = [], [], [], []
    for k in range(states):
        ins.append((f"{tag}_s{k}", t, shape))
        operands.append(c.fresh(t, shape))
    for k in range(inputs):
        ins.append((f"{tag}_x{k}", t, shape))
        axis = c.int(0, len(shape)) if c.flag(0.4) else 0
        operands.append(c.fresh(t, shape[:axis] + [n] + shape[axis:]))
        axes.append(axis - len(shape) - 1 if c.flag(0.3) and c.opset >= 11 else axis)
        ways.append(c.int(0, 1))
    names = [i[0] for i in ins]
    outs = [(b.chain(names[k], t, names + [v.name for v in outer], c.int(1, 2)), t, shape) for k in range(states)]
    scans = c.int(0 if states else 1, 2)
    outs += [(b.chain(c.choice(names), t, names, c.int(1, 2)), t, shape) for _ in range(scans)]
    body = b.graph(ins, outs)
    return dict(initial_state_and_scan_inputs=operands, body=body, num_scan_inputs=inputs,
                scan_input_axes=axes if any(axes) or c.flag(0.3) else None, scan_input_directions=c.maybe(ways),
                scan_output_axes=c.maybe(lambda: [c.int(0, len(shape)) for _ in range(scans)], 0.3) if scans else None,
                scan_output_directions=c.maybe(lambda: [c.int(0, 1) for _ in range(scans)], 0.3) if scans else None,
                _nout=states + scans, _captures=outer)


@recipe("SequenceMap")
def sequence_map(c):
    t = c.choice(["float", "int64"])
    tag = f"map{len(c.values)}"
    b = Body(c, tag)
    n = c.int(1, 3)
    shape = c.dims(0, 2, False)
    s = Value([c.array(t, shape) for _ in range(n)], elem=t)
    more, ins = [], [(tag + "_x", t, None)]
    if c.flag():
        if c.flag():
            more.append(c.fresh(t, shape))
        else:
            more.append(Value([c.array(t, shape) for _ in range(n)], elem=t))
        ins.append((tag + "_y", t, None))
    names = [i[0] for i in ins]
    k = c.int(1, 2)
    body = b.graph(ins, [(b.chain(c.choice(names), t, names, c.int(1, 2)), t, None) for _ in range(k)])
    return dict(input_sequence=s, additional_inputs=more, body=body, _nout=k)


