#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs of one to five nodes, run by infer and by an oracle.

usage: random_test.py --driver PROGRAM --ops OPS.json [--seed N] [--count N] [--seconds S] ...

OPS.json is what `infer inspect --ops --json` prints. Graph I of seed S is always the same: --seed S --only I repeats
it. Each node is evaluated by ONNX Runtime or, where that refuses, by onnx.reference; the whole graph then runs in
infer. What differs is cut down to the fewest nodes that still differ and written under --keep with model, inputs,
both outputs and a line that repeats it. explained.txt lists where an oracle is known to be wrong, and why.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 300  # seconds until a run counts as one that hangs: not what a busy machine makes of a short one
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
import classic  # noqa: F401
import contrib  # noqa: F401
import control  # noqa: F401
import elementwise  # noqa: F401
import network  # noqa: F401
import shaping  # noqa: F401
from compare import differ
from graph import Context, FLOATS, INTS, Skip, Value, from_pb, make_model, make_node, schema, to_pb
from oracle import Oracle, Refused
from recipe import RECIPES

LOWEST, HIGHEST = 7, 28
UNSUPPORTED = "E-OP-UNSUPPORTED"


class Driver:
    """infer, one process for many models."""

    def __init__(self, program, folder, options=()):
        self.folder = folder
        self.command = [program, *options]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self, model, inputs, outputs):
        """('ok', values) or (status, text)"""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/out")
        save_case(self.folder, model, inputs)
        if self.process is None:
            self.start()
        self.process.stdin.write(f"{self.folder}/model.onnx {self.folder} {self.folder}/out\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if not line:
            self.process.kill()
            self.process = None
            return "crash", "the driver died"
        word, _, rest = line.partition(" ")
        if word not in ("ok", "differs"):
            return word, rest
        got = []
        for k, v in enumerate(outputs):
            with open(f"{self.folder}/out/output_{k}.pb", "rb") as f:
                raw = f.read()
            try:
                got.append(from_pb(raw, v))
            except Exception as e:  # pylint: disable=broad-except
                return "unreadable", f"output {k}: {e}"
        return (word, got) if word == "ok" else (word, (rest, got))

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()


def save_case(folder, model, inputs):
    with open(folder + "/model.onnx", "wb") as f:
        f.write(model.SerializeToString())
    for k, v in enumerate(inputs):
        with open(f"{folder}/input_{k}.pb", "wb") as f:
            f.write(to_pb(v))


class Graph:
    """Nodes with the oracle's values of everything."""

    def __init__(self, opset, ml):
        self.opset, self.ml, self.made, self.values = opset, ml, [], []
        self.symbols = False

    def used(self, made):
        """Values that these nodes take from outside, in order."""
        own = {o.name for m in made for o in m.outputs}
        got = {}
        for m in made:
            for v in m.inputs + m.notes.get("_captures", []):
                if v.name not in own:
                    got[v.name] = v
        return list(got.values())

    def model(self, made, outputs):
        outside = self.used(made)
        inits = [v for v in outside if v.tensor and v.const]
        inputs = [v for v in outside if not (v.tensor and v.const)]
        dims = {}
        if self.symbols:
            dims = {v.name: [f"{v.name}_{i}" if i % 2 else d for i, d in enumerate(v.shape)] for v in inputs if v.tensor}
        return make_model([m.node for m in made], inputs, outputs, self.opset, self.ml, inits, dims), inputs


class Tester:
    def __init__(self, o):
        self.o = o
        self.to, self.now = o.write, ""
        self.oracle = Oracle()
        self.work = tempfile.mkdtemp(prefix="infer-random-", dir=o.work)
        limit = ["-s", str(PATIENCE)]
        self.driver = Driver(o.driver, f"{self.work}/full", ["-t", str(o.threads), "-o", o.optimize, *limit])
        self.plain = Driver(o.driver, f"{self.work}/none", ["-o", "none", *limit])
        with open(o.ops, encoding="utf-8") as f:
            rows = json.load(f)["operators"]
        want = re.compile(o.match)
        self.ops = sorted({(r["domain"], r["operator"]) for r in rows if want.search(f"{r['domain']}::{r['operator']}")})
        self.without = [f"{d}::{n}" for d, n in self.ops if (d, n) not in RECIPES]
        self.ops = [op for op in self.ops if op in RECIPES]
        self.count = collections.Counter()
        self.carried_kinds = collections.Counter()
        self.seen, self.refused, self.skipped, self.unsupported = (collections.Counter() for _ in range(4))
        self.why_refused = {}
        self.failed = []
        self.explained = read_explained(HERE + "/explained.txt")

    # --- making

    def make(self, seed, index):
        rng = np.random.default_rng([seed, index])
        o = self.o
        opset = int(rng.integers(o.opset[0], o.opset[1] + 1))
        ml = int(rng.choice([1, 2, 3, 4, 5]))
        g = Graph(opset, ml)
        names = iter(range(10**6))
        fresh = lambda p: f"{p}{next(names)}"
        g.symbols = bool(rng.random() < 0.3)
        want = int(rng.integers(1, o.nodes + 1))
        tries = 0
        while len(g.made) < want and tries < 12 + 3 * want:
            tries += 1
            op = self.ops[int(rng.integers(len(self.ops)))]
            version = ml if op[0] == "ai.onnx.ml" else opset if op[0] == "ai.onnx" else 1
            s = schema(op[0], op[1], version)
            if s is None:
                continue
            c = Context(rng, opset, s, g.values, special=o.special)
            try:
                if op[1] in ("If", "Loop", "Scan") and not g.values:
                    first = c.fresh(c.choice(["float", "int64"]), c.dims(0, 3, False))
                    first.name = fresh("x")
                    g.values.append(first)
                made = make_node(c, RECIPES[op], fresh)
            except Skip as e:
                self.skipped[f"{op[0]}::{op[1]}"] += 1
                self.why_refused.setdefault(f"{op[0]}::{op[1]}", f"skip: {e}")
                continue
            except ValueError as e:
                self.skipped[f"{op[0]}::{op[1]}"] += 1
                self.why_refused[f"{op[0]}::{op[1]}"] = "recipe: " + traceback.format_exc()[-300:]
                if o.verbose:
                    print("recipe", op, e, file=sys.stderr)
                continue
            self.accept(g, made, rng)
        return g, rng

    def accept(self, g, made, rng):
        """Asks the oracle for the node's outputs; the node becomes part of the graph where it answers."""
        name = f"{made.schema.domain}::{made.schema.name}"
        only = made.notes.get("_only")
        if only is not None:
            outs = [o if i in only else "" for i, o in enumerate(made.node.output)]
            del made.node.output[:]
            made.node.output.extend(outs)
        fix = {}
        for v in made.inputs:
            if v.const is None:
                v.const = bool(rng.random() < 0.3)
            if any(v is x for x in g.values):
                continue
            fix[v.name] = v
        names = [o for o in made.node.output if o]
        inputs = list({v.name: v for v in made.inputs + made.notes.get("_captures", [])}.values())
        try:
            who, values = self.oracle([made.node], inputs, names, g.opset, g.ml, ort=made.notes.get("_ort", True), reference=made.notes.get("_ref", True))
        except Refused as e:
            self.refused[name] += 1
            self.why_refused[name] = str(e)
            self.orphan(g, made, name)
            return
        if made.notes.get("_finite") and not self.o.special and any(v.tensor and v.type in FLOATS and v.data.size and not np.abs(v.data.astype(np.float64)).max() < 1e4 for v in values):
            return  # rounding decides
        made.outputs, made.who = values, who
        for v in values:
            v.const = False
            v.volatile = bool(made.notes.get("_random")) or made.notes.get("_reuse") is False or v.data is None and not v.optional \
                or isinstance(v.data, dict) or (isinstance(v.data, list) and bool(v.data) and isinstance(v.data[0], dict))
        g.made.append(made)
        g.values += list(fix.values()) + values
        self.seen[name] += 1

    def orphan(self, g, made, name):
        """No oracle answers: infer may refuse or answer, but not crash."""
        lone = Graph(g.opset, g.ml)
        try:
            model, inputs = lone.model([made], [o for o in made.node.output if o])
        except Exception:  # pylint: disable=broad-except
            return
        self.count["orphans"] += 1
        if self.o.carry:
            return
        if self.to:
            self.save(g, [made], model, inputs, f"{self.now}-{self.count['orphans']}", "no oracle")
            return
        word, text = self.driver.run(model, inputs, [])
        if word in ("crash", "hang"):
            self.report(g, [made], [], word, f"{text} (no oracle answers)", None, name)

    # --- checking

    def check(self, g, made, outputs, driver=None):
        """None, or (status, text, what infer gave)"""
        model, inputs = g.model(made, outputs)
        word, got = (driver or self.driver).run(model, inputs, outputs)
        if word == "differs" and any(m.notes.get("_random") for m in made):
            got = got[1]
        elif word != "ok":
            return word, f"the second run, in output {got[0]}" if word == "differs" else got, None
        notes = {v.name: m.notes for m in made for v in m.outputs}
        for v, x in zip(outputs, got):
            n = notes[v.name]
            steps = max((m.notes.get("_quant", 0) for m in made), default=0)
            want, rows = v.data, n.get("_rows")
            if rows is not None and v.tensor and v.data.ndim == 4 and x.shape == v.shape:
                x, want = x[:, :, :rows], want[:, :, :rows]
            d = differ(x, want, times=n.get("_tol", 1) * len(made), atol=sum(m.notes.get("_atol", 0) for m in made), steps=steps,
                       only_shape=any(m.notes.get("_random") for m in made))
            if d:
                return "differs", f"output '{v.name}': {d}", got
        return None

    def leaves(self, g, made, rng=None):
        used = {v.name for m in made for v in m.inputs + m.notes.get("_captures", [])}
        return [v for m in made for v in m.outputs if v.name not in used or (rng is not None and rng.random() < 0.25)]

    def test(self, seed, index):
        g, rng = self.make(seed, index)
        if not g.made:
            self.count["empty"] += 1
            return
        self.count["graphs"] += 1
        self.count["nodes"] += len(g.made)
        leaves = self.leaves(g, g.made, rng)
        self.count["values"] += sum(v.data.size for v in leaves if v.tensor)
        bad = self.check(g, g.made, leaves)
        if bad is None and self.o.special:
            bad = self.check(g, g.made, leaves, self.plain)
        if bad is None:
            self.count["same"] += 1
            return
        self.blame(g, bad, f"--seed {seed} --only {index}" + " --special" * self.o.special)

    def write(self, seed, index):
        """The graph as a conformance case without outputs, for a machine without an oracle."""
        self.now = f"{seed}-{index}"
        g, rng = self.make(seed, index)
        if not g.made:
            return
        leaves = self.leaves(g, g.made, rng)
        model, inputs = g.model(g.made, leaves)
        if not self.o.carry:
            self.save(g, g.made, model, inputs, self.now, f"seed {seed}")
            return
        what = "+".join(f"{m.schema.name}({next((v.type for v in m.inputs), '')})" for m in g.made)
        if not all(v.tensor for v in leaves) or self.carried_kinds[what] or any(m.notes.get("_random") for m in g.made):
            return
        if len(model.SerializeToString()) + sum(len(to_pb(v)) for v in inputs + leaves) > self.o.carry \
                or not any(is_special(v) for m in g.made for v in m.inputs) \
                or self.check(g, g.made, leaves) or self.check(g, g.made, leaves, self.plain):
            return
        self.carried_kinds[what] += 1
        folder = self.save(g, g.made, model, inputs, self.now, "own: " + "+".join(sorted({m.who for m in g.made})))
        for i, v in enumerate(leaves):
            with open(f"{folder}/test_data_set_0/output_{i}.pb", "wb") as f:
                f.write(to_pb(v))

    def save(self, g, made, model, inputs, suffix, origin):
        """The case and its line of the manifest."""
        name = "+".join(m.schema.name for m in made)[:80] + "-" + suffix
        folder = f"{self.to}/{'special' if self.o.special else 'random'}/{name}"
        os.makedirs(folder + "/test_data_set_0")
        save_case(folder + "/test_data_set_0", model, inputs)
        os.rename(folder + "/test_data_set_0/model.onnx", folder + "/model.onnx")
        flags = [f"{k}={max(m.notes.get(n, 0) for m in made)}" for k, n in (("times", "_tol"), ("extra", "_atol"), ("steps", "_quant"))]
        flags = [f for f in flags if not f.endswith("=0")] + ["random"] * any(m.notes.get("_random") for m in made)
        ops = ",".join(f"{m.schema.domain}:{m.schema.name}" for m in made)
        with open(self.to + "/manifest.tsv", "a", encoding="utf-8") as f:
            f.write(f"{'special' if self.o.special else 'random'}\t{name}\t{ops}\t{g.opset}\t-\t0\t-\t1\t0.001\t1e-05\t{' '.join(flags) or '-'}\t{origin}\n")
        self.count["graphs"] += 1
        self.count["nodes"] += len(made)
        return folder

    def blame(self, g, bad, repeat):
        found = False
        for m in g.made:
            one = self.check(g, [m], m.outputs)
            if one is not None:
                found = True
                self.judge(g, [m], one, repeat)
        if not found and len(g.made) > 1:
            made, bad = self.shrink(g, bad)
            if bad[0] == "differs" and (self.carried(g, made) or self.sensitive(g, made)):
                self.count["ill-conditioned"] += 1
                return
            self.judge(g, made, bad, repeat)
        elif not found:
            self.judge(g, g.made, bad, repeat)

    def shrink(self, g, bad):
        made = list(g.made)
        again = True
        while again and len(made) > 1:
            again = False
            for m in list(made):
                fewer = [x for x in made if x is not m]
                try:
                    worse = self.check(g, fewer, self.leaves(g, fewer))
                except Exception:  # pylint: disable=broad-except
                    continue
                if worse is not None:
                    made, bad, again = fewer, worse, True
                    break
        return made, bad

    def carried(self, g, made):
        """Whether the oracle makes infer's outputs of infer's own intermediate values, which are near to the oracle's:
        then each node is right, and one that is not continuous (Ceil, Less, ArgMax) has made much of a rounding error."""
        outputs = [v for m in made for v in m.outputs]
        model, inputs = g.model(made, outputs)
        word, got = self.driver.run(model, inputs, outputs)
        if word != "ok":
            return False
        env = {v.name: Value(x, name=v.name, const=False, elem=v.type, optional=v.optional) for v, x in zip(outputs, got)}
        for m in made:
            own = [env.get(v.name, v) for v in {v.name: v for v in m.inputs + m.notes.get("_captures", [])}.values()]
            try:
                _, values = self.oracle([m.node], own, [v.name for v in m.outputs], g.opset, g.ml, ort=m.who == "onnxruntime")
            except Refused:
                return False
            for v in values:
                if differ(env[v.name].data, v.data, times=m.notes.get("_tol", 1), atol=m.notes.get("_atol", 0), steps=m.notes.get("_quant", 0),
                          only_shape=bool(m.notes.get("_random"))):
                    return False
        return True

    def sensitive(self, g, made):
        """Whether rounding errors inside the graph would make such a difference with the oracle alone."""
        rng = np.random.default_rng(1)
        for _ in range(8):
            env = {}
            for m in made:
                inputs = [env.get(v.name, v) for v in {v.name: v for v in m.inputs + m.notes.get("_captures", [])}.values()]
                try:
                    _, values = self.oracle([m.node], inputs, [v.name for v in m.outputs], g.opset, g.ml, ort=m.who == "onnxruntime")
                except Refused:
                    return True
                for old, v in zip(m.outputs, values):
                    v.const = False
                    if v.tensor and v.type in FLOATS and v.data.size and not m.notes.get("_random"):
                        step = {"float": 3e-6, "double": 1e-9, "float16": 2e-3, "bfloat16": 1.5e-2}[v.type]
                        a = v.data.astype(np.float64)
                        top = np.abs(a[np.isfinite(a)]).max() if np.isfinite(a).any() else 0
                        v.data = np.asarray(a + rng.normal(size=a.shape) * step * (np.abs(a) + top * 0.1)).astype(old.data.dtype)
                    elif v.tensor and m.notes.get("_quant") and v.data.dtype.kind in "iu":
                        i = np.iinfo(v.data.dtype)
                        v.data = np.clip(v.data.astype(np.int64) + rng.integers(-1, 2, v.data.shape), i.min, i.max).astype(v.data.dtype)
                    env[v.name] = v
            for m in made:
                for old in m.outputs:
                    if differ(env[old.name].data, old.data, times=m.notes.get("_tol", 1) * 0.5):
                        return True
        return False

    def judge(self, g, made, bad, repeat):
        word, text, got = bad
        m = made[-1]
        name = "+".join(f"{x.schema.domain}::{x.schema.name}".replace("ai.onnx::", "") for x in made)
        if word == "fail" and UNSUPPORTED in text:
            types = ",".join(v.type if v.tensor else "seq" for v in m.inputs[:3])
            where = re.search(r"op (\S+?);", text)
            self.unsupported[f"{where.group(1) if where else name} ({types}) opset {g.opset}" if self.o.verbose else f"{where.group(1) if where else name}"] += 1
            self.count["unsupported"] += 1
            return
        agrees = word == "differs" and self.second_opinion(g, made, got)
        for e in self.explained:
            if e.holds(made, g, word, str(text), agrees):
                self.count["explained"] += 1
                e.hits += 1
                return
        self.report(g, made, got, word, str(text), repeat, name)

    def second_opinion(self, g, made, got):
        """Whether onnx.reference agrees with infer where ONNX Runtime does not; None: it has no answer."""
        m = made[0]
        if len(made) > 1 or got is None or getattr(m, "who", "") != "onnxruntime":
            return None
        try:
            _, values = self.oracle([m.node], list({v.name: v for v in m.inputs + m.notes.get("_captures", [])}.values()), [v.name for v in m.outputs],
                                    g.opset, g.ml, ort=False)
        except Refused:
            return None
        return all(differ(x, v.data, times=m.notes.get("_tol", 1), atol=m.notes.get("_atol", 0)) is None for x, v in zip(got, values))

    def report(self, g, made, got, word, text, repeat, name):
        self.count["FAILED"] += 1
        outputs = [v for m in made for v in m.outputs] if len(made) == 1 else self.leaves(g, made)
        second = {None: None, True: "onnx.reference agrees with infer", False: "onnx.reference differs from infer too"}[
            self.second_opinion(g, made, got) if word == "differs" else None]
        k = len(self.failed)
        folder = f"{self.o.keep}/{re.sub(r'[^A-Za-z0-9+]+', '-', name)[:60]}-{self.o.seed}-{k}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder + "/test_data_set_0")
        try:
            model, inputs = g.model(made, outputs or [o for m in made for o in m.node.output if o])
        except Exception as e:  # pylint: disable=broad-except
            model, inputs = None, []
            text += f" (cannot write the model: {e})"
        if model is not None:
            save_case(folder + "/test_data_set_0", model, inputs)
            os.rename(folder + "/test_data_set_0/model.onnx", folder + "/model.onnx")
            for i, v in enumerate(outputs):
                with open(f"{folder}/test_data_set_0/output_{i}.pb", "wb") as f, contextlib.suppress(Exception):
                    f.write(to_pb(v))
            for i, x in enumerate(got or []):
                with open(f"{folder}/got_{i}.pb", "wb") as f, contextlib.suppress(Exception):
                    f.write(to_pb(Value(x)))
        lines = [f"{name}: {word}: {text}", f"opset {g.opset}, oracle {', '.join(sorted({getattr(m, 'who', 'none') for m in made}))}" + (f"; {second}" if second else "")]
        for m in made:
            lines.append(describe(m))
        lines.append(f"infer check {folder}/model.onnx --data-set {folder}/test_data_set_0")
        if repeat:
            lines.append(f"test/random/random_test.py {repeat}")
        with open(folder + "/why.txt", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        self.failed.append((name, lines))
        print(f"not ok {name} # " + " | ".join(lines)[:1500] if self.o.tap else "\n".join(lines) + "\n", flush=True)

    def summary(self, out):
        c = self.count
        print(f"{c['graphs']} graphs, {c['nodes']} nodes: {c['same']} same, {c['FAILED']} failed, {c['explained']} explained, {c['ill-conditioned']} ill-conditioned, "
              f"{c['unsupported']} unsupported; {c['orphans']} nodes without an oracle's answer, {c['empty']} empty", file=out)
        if self.unsupported:
            print("unsupported:", ", ".join(f"{k} {n}" for k, n in self.unsupported.most_common()), file=out)
        by = collections.Counter(n for n, _ in self.failed)
        if by:
            print("failed:", ", ".join(f"{k} {n}" for k, n in by.most_common()), file=out)
        if self.o.verbose:
            for k in sorted(set(self.refused) | set(self.skipped)):
                if self.refused[k] + self.skipped[k] > self.seen[k]:
                    print(f"  rarely made: {k}: {self.seen[k]} of {self.refused[k] + self.skipped[k] + self.seen[k]}: {self.why_refused.get(k, '')[:300]}", file=out)
            print("without a recipe:", ", ".join(self.without), file=out)


def describe(m):
    from onnx import AttributeProto, helper
    attrs = []
    for a in m.node.attribute:
        text = "{...}" if a.type in (AttributeProto.GRAPH, AttributeProto.TENSOR) else str(helper.get_attribute_value(a))
        attrs.append(f"{a.name}={text[:80]}")
    ins, it = [], {v.name: v for v in m.inputs}
    for n in m.node.input:
        v = it.get(n)
        if v is None:
            ins.append("-")
        elif v.tensor:
            values = f"={v.data.ravel().tolist()}" if v.data.size <= 6 else ""
            ins.append(f"{v.type}{list(v.shape)}{'!' if v.const else ''}{values}")
        elif v.map:
            ins.append(f"map({v.data})")
        else:
            ins.append(f"{'optional' if v.optional else 'seq'}({v.type}){len(v.data) if isinstance(v.data, list) else ''}")
    outs = [f"{v.type}{list(v.shape)}" if v.tensor else "seq" for v in m.outputs]
    return f"  {m.node.domain + '::' if m.node.domain else ''}{m.node.op_type}-{m.schema.since}({', '.join(ins)}) {' '.join(attrs)} -> {', '.join(outs)}"


class Explained:
    """A line of explained.txt: OPERATOR | CONDITION | ORACLE | WHY, with the specification's passage."""

    def __init__(self, name, condition, oracle, why):
        self.name, self.oracle, self.why, self.hits = name, oracle, why, 0
        self.condition = compile(condition, name, "eval")

    def holds(self, made, g, word, text, agrees):
        from onnx import helper
        for m in made:
            if self.name not in ("*", f"{m.schema.domain}::{m.schema.name}") or (self.oracle != "any" and getattr(m, "who", "") != self.oracle):
                continue
            slots = {f.name: v for f, v in zip(m.schema.inputs, by_slot(m))}
            names = dict(a={x.name: helper.get_attribute_value(x) for x in m.node.attribute}, x=slots, opset=g.opset, since=m.schema.since, word=word, text=text, agrees=agrees,
                         np=np, set=set, max=max, min=min, y=[v.data for v in m.outputs], any=any, all=all, len=len, float=float, object=object, FLOATS=FLOATS,
                         special=any(is_special(v) for v in slots.values()), odd=lambda v: v is not None and not finite(v))
            try:
                if eval(self.condition, {"__builtins__": {}, **names}):  # pylint: disable=eval-used
                    return True
            except Exception:  # pylint: disable=broad-except
                continue
        return False


def finite(v):
    with np.errstate(all="ignore"):
        return not v.tensor or v.data.dtype.kind in "OUS" or bool(np.isfinite(v.data.astype(np.complex128 if v.data.dtype.kind == "c" else np.float64)).all())


def is_special(v):
    """Whether a tensor holds NaN, an infinity, or a number near to the ends of its type."""
    if v is None or not v.tensor or not v.data.size or v.type in ("string", "bool"):
        return False
    if not finite(v):
        return True
    if v.type in FLOATS:
        return bool((np.abs(v.data.astype(np.float64)) > float(np.asarray(np.finfo(np.float32).max if v.type == "bfloat16" else np.finfo(v.data.dtype).max)) / 64).any())
    return v.type in INTS and bool((np.abs(v.data.astype(np.float64)) > float(np.iinfo(v.data.dtype).max) / 4).any())


def by_slot(m):
    have = {v.name: v for v in m.inputs}
    return [have.get(n) for n in m.node.input]


def read_explained(path):
    got = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                if line.strip() and not line.startswith("#"):
                    name, condition, oracle, why = (p.strip() for p in line.split(" | ", 3))
                    got.append(Explained(name, condition, oracle, why))
    return got


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--driver", required=True)
    p.add_argument("--ops", required=True, help="what `infer inspect --ops --json` prints")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=10**9)
    p.add_argument("--seconds", type=float, default=None)
    p.add_argument("--only", type=int, default=None, help="this graph of the seed only")
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--nodes", type=int, default=5)
    p.add_argument("--opset", default=f"{LOWEST}..{HIGHEST}")
    p.add_argument("--match", default="", help="operators (domain::name) that match this expression")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--optimize", default="full")
    p.add_argument("--work", help="where the folder of temporary files is made, if not in TMPDIR or /tmp")
    p.add_argument("--keep", default="build/random")
    p.add_argument("--write", help="run nothing: write the graphs into this folder as cases for `conformance/run DIR -d DEVICE -c`")
    p.add_argument("--carry", type=int, help="with --write and --special: write outputs, too, one case of each operator and type with at most so "
                   "many bytes in which infer agrees with the oracle")
    p.add_argument("--special", action="store_true", help="draw NaN, infinities, -0, denormals, the largest and smallest numbers; "
                   "compare --optimize none as well")
    p.add_argument("--tap", action="store_true")
    p.add_argument("-v", "--verbose", action="store_true")
    o = p.parse_args()
    lo, _, hi = o.opset.partition("..")
    o.opset = (int(lo), int(hi or lo))
    if o.only is not None:
        o.first, o.count = o.only, 1
    if o.seconds is None and o.count == 10**9:
        o.count = 3000
    return o


def main():
    o = arguments()
    t = Tester(o)
    os.makedirs(o.keep, exist_ok=True)
    end = time.monotonic() + o.seconds if o.seconds is not None else None
    block = collections.Counter()
    try:
        for index in range(o.first, o.first + o.count):
            if end is not None and time.monotonic() > end:
                break
            before = t.count["FAILED"]
            try:
                if o.write:
                    t.write(o.seed, index)
                else:
                    t.test(o.seed, index)
            except Exception:  # pylint: disable=broad-except
                t.count["tester"] += 1
                print(f"not ok tester # seed {o.seed} graph {index}: {traceback.format_exc()}", flush=True)
            block["done"] += 1
            if o.tap and block["done"] % 50 == 0 and t.count["FAILED"] == before:
                print(f"ok random graphs to {index} of seed {o.seed}", flush=True)
    finally:
        t.oracle.stop()
        t.driver.stop()
        t.plain.stop()
        shutil.rmtree(t.work, ignore_errors=True)
    t.summary(sys.stdout if not o.tap else sys.stderr)
    if o.tap and not t.count["FAILED"] and not t.count["tester"]:
        print(f"ok {t.count['graphs']} random graphs of seed {o.seed}")
    return 1 if t.count["FAILED"] or t.count["tester"] else 0


if __name__ == "__main__":
    sys.exit(main())
