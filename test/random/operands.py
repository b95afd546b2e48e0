#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Operands that do not fit: of each ONNX case, one operand is made one element longer or shorter along one axis, gets one
dimension more or fewer, or is left out. Lists the mutants that the program accepts although every oracle which runs the
case itself refuses them, and those that crash it or never end.

A mutant is run three times: with the sizes of its inputs declared, so that it can be refused while it is loaded, with free
dimensions, and with inputs of unknown rank, so that it must be refused when the plan is made.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, shape_inference

from graph import from_tensor_proto, to_tensor_proto

MAX_MODEL_BYTES = 64 << 10
MAX_NODES = 3  # longer graphs are the same operators again, as functions that ONNX has expanded
FED = {np.dtype(t) for t in (np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8,
                             np.uint16, np.uint32, np.uint64, np.bool_)}


class Case:
    """A model with the tensors of its inputs and initializers; `fixed` are inputs that are no tensors, as files."""

    def __init__(self, name, model, data_set):
        self.name, self.model, self.tensors, self.fixed = name, model, {}, {}
        g = model.graph
        own = {t.name for t in g.initializer}
        for t in g.initializer:
            self.tensors[t.name] = from_tensor_proto(t)
        fed = [v for v in g.input if v.name not in own]
        if not os.path.exists(os.path.join(data_set, f"input_{len(fed)}.pb")) or len(fed) == len(g.input):
            listed = fed
        else:
            listed = list(g.input)
        for k, v in enumerate(listed):
            with open(os.path.join(data_set, f"input_{k}.pb"), "rb") as f:
                data = f.read()
            if v.type.WhichOneof("value") == "tensor_type":
                self.tensors[v.name] = from_tensor_proto(TensorProto.FromString(data))
            else:
                self.fixed[v.name] = data

    def signature(self):
        """Cases with the same operators, attributes, types and shapes give the same mutants."""
        nodes = []
        for n in self.model.graph.node:
            attributes = sorted(a.SerializeToString() for a in n.attribute)
            nodes.append((n.domain, n.op_type, tuple(attributes), tuple(bool(i) for i in n.input)))
        values = [(k, str(a.dtype), a.shape) for k, a in sorted(self.tensors.items())]
        return hashlib.sha256(repr((nodes, values, sorted(self.fixed))).encode()).hexdigest()


def read_cases(folder):
    seen = set()
    for root, _, files in sorted(os.walk(folder)):
        path = os.path.join(root, "model.onnx")
        if "model.onnx" not in files or os.path.getsize(path) > MAX_MODEL_BYTES:
            continue
        model = onnx.load(path)
        if len(model.graph.node) > MAX_NODES:
            continue
        try:
            case = Case(os.path.relpath(root, folder), model, os.path.join(root, "test_data_set_0"))
        except FileNotFoundError:
            continue
        if case.signature() not in seen:
            seen.add(case.signature())
            yield case


def unpacked(folder, scratch):
    """The folder itself, or where its archives were unpacked."""
    archives = [n for n in os.listdir(folder) if n.endswith(".tar.gz")]
    if not archives:
        return folder
    to = tempfile.mkdtemp(dir=scratch)
    for name in archives:
        with tarfile.open(os.path.join(folder, name)) as t:
            t.extractall(to, filter="data")
    return to


def reshaped(a):
    """The arrays that a becomes, each with a word that says what was done."""
    if a.ndim > 4 or a.size > 1 << 16:
        return
    for axis, n in enumerate(a.shape):
        if n:
            yield f"axis {axis} longer", np.concatenate([a, np.take(a, [n - 1], axis)], axis)
            yield f"axis {axis} shorter", np.take(a, range(n - 1), axis)
    yield "rank more", a[np.newaxis]
    if a.ndim and a.shape[0]:
        yield "rank fewer", np.asarray(a[0], a.dtype)


def mutants(case):
    """(what was done, tensors of the mutant, operands left out)"""
    for name, a in case.tensors.items():
        for what, b in reshaped(a):
            yield f"{name} {what}", {**case.tensors, name: b}, ()
    used = {i for n in case.model.graph.node for i in n.input if i}
    if any(n.op_type == "Loop" for n in case.model.graph.node):
        return  # without its trip count a Loop may go on for ever, as it should
    for name in sorted(used & set(case.tensors)):
        yield f"{name} left out", case.tensors, (name,)


def make_model(case, tensors, left_out, declare, constant=()):
    """The mutant as a model that declares "sizes", "ranks" or "nothing". What is in `constant` becomes an initializer."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    g = model.graph
    initializers = {t.name for t in g.initializer}
    del g.value_info[:]
    del g.initializer[:]
    inputs = [v for v in g.input if v.name not in left_out and v.name not in constant]
    del g.input[:]
    for v in inputs:
        if v.name in tensors:
            v.type.tensor_type.ClearField("shape")
            if declare != "nothing" or v.name in initializers:
                for n in tensors[v.name].shape:
                    dim = v.type.tensor_type.shape.dim.add()
                    if declare == "sizes" or v.name in initializers:
                        dim.dim_value = n
                v.type.tensor_type.shape.SetInParent()
        g.input.append(v)
    for name in [*initializers, *constant]:
        if name not in left_out:
            g.initializer.append(to_tensor_proto(tensors[name], name))
    for n in g.node:
        kept = ["" if i in left_out else i for i in n.input]
        while kept and not kept[-1]:
            kept.pop()
        n.input[:] = kept
    for o in g.output:
        if o.type.WhichOneof("value") == "tensor_type":
            o.type.tensor_type.ClearField("shape")
    return model


def fed(model):
    own = {t.name for t in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in own]


# ---- the oracles


def ort_accepts(case, tensors, left_out):
    import onnxruntime as ort
    if case.fixed:
        return False  # such cases are for the reference alone
    constant = [v.name for v in fed(case.model) if tensors[v.name].dtype not in FED]
    model = make_model(case, tensors, left_out, "sizes", [c for c in constant if c not in left_out])
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 4
    s = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])
    r = ort.RunOptions()
    r.log_severity_level = 4
    s.run_with_ort_values([x.name for x in s.get_outputs()],
                          {v.name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensors[v.name]).reshape(tensors[v.name].shape))
                           for v in fed(model)}, r)
    return True


def value_of(data, kind):
    if kind == "sequence_type":
        return [from_tensor_proto(t) for t in onnx.SequenceProto.FromString(data).tensor_values]
    if kind == "optional_type":
        o = onnx.OptionalProto.FromString(data)
        if o.HasField("tensor_value"):
            return from_tensor_proto(o.tensor_value)
        return [from_tensor_proto(t) for t in o.sequence_value.tensor_values] if o.HasField("sequence_value") else None
    raise ValueError(kind)


def reference_accepts(case, tensors, left_out):
    from onnx.reference import ReferenceEvaluator
    model = make_model(case, tensors, left_out, "sizes")
    shape_inference.infer_shapes(model, strict_mode=True)
    feeds = {v.name: tensors[v.name] if v.name in tensors else value_of(case.fixed[v.name], v.type.WhichOneof("value"))
             for v in fed(model)}
    with np.errstate(all="ignore"):
        ReferenceEvaluator(model).run(None, feeds)
    return True


ORACLES = {"onnxruntime": ort_accepts, "reference": reference_accepts}


def serve(pipe):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while True:
        try:
            name, case, tensors, left_out = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((ORACLES[name](case, tensors, left_out), ""))
        except Exception as e:  # pylint: disable=broad-except
            pipe.send((False, str(e)))


class Judge:
    """An oracle in a process of its own, since some mutants crash ONNX Runtime too: that counts as a refusal."""

    def __init__(self, name):
        self.name, self.process = name, None

    def accepts(self, case, tensors, left_out):
        if self.process is None:
            self.pipe, there = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=serve, args=(there,), daemon=True)
            self.process.start()
            there.close()
        try:
            self.pipe.send((self.name, case, tensors, left_out))
            if self.pipe.poll(60):
                return self.pipe.recv()[0]
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass
        self.process.kill()
        self.process.join()
        self.process = None
        return False


# ---- the program


def write_mutant(folder, case, tensors, left_out, declare):
    os.makedirs(folder)
    model = make_model(case, tensors, left_out, declare)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for k, v in enumerate(model.graph.input):
        own = next((t for t in model.graph.initializer if t.name == v.name), None)
        if own is not None:
            data = own.SerializeToString()
        elif v.name in tensors:
            data = to_tensor_proto(tensors[v.name]).SerializeToString()
        else:
            data = case.fixed[v.name]
        with open(os.path.join(folder, f"input_{k}.pb"), "wb") as f:
            f.write(data)


class Program:
    def __init__(self, driver):
        self.process = subprocess.Popen([driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, folder):
        print(f"{folder}/model.onnx {folder} {folder}", file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()


def run_all_ways(program, scratch, case, tensors, left_out):
    answers = []
    for declare in ("sizes", "ranks", "nothing"):
        with tempfile.TemporaryDirectory(dir=scratch) as t:
            folder = os.path.join(t, "m")
            write_mutant(folder, case, tensors, left_out, declare)
            answers.append(program(folder))
    return answers


def verdict_of(answers):
    for a in answers:
        if a.startswith(("crash", "hang")):
            return a
    return "accepted" if any(not a.startswith("fail") for a in answers) else "refused"


class Memory:
    """What the oracles said of each mutant, kept in a file: they take most of the time and their answers do not change."""

    def __init__(self, path):
        self.path, self.known = path, {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.known = dict(line.rstrip("\n").rsplit("\t", 1) for line in f)
        self.file = open(path, "a", encoding="utf-8") if path else None

    def ask(self, key, make):
        if key not in self.known:
            self.known[key] = make()
            if self.file:
                print(key, self.known[key], sep="\t", file=self.file, flush=True)
        return self.known[key]


def read_allowed(path):
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#")]
    return [(re.compile(ops), re.compile(what)) for ops, what, _ in lines]


def operand_text(case, what):
    """The mutant in words, with the operand's position in place of its name where the case has one node."""
    name, _, change = what.partition(" ")
    nodes = case.model.graph.node
    if len(nodes) == 1 and name in nodes[0].input:
        return f"input {list(nodes[0].input).index(name)} {change}"
    return what


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("cases", nargs="+", help="folders of ONNX cases, or of archives of them")
    p.add_argument("--driver", required=True, help="build/random/driver")
    p.add_argument("--seed", type=int, help="draw mutants in place of taking all")
    p.add_argument("--count", type=int, default=300, help="number of mutants to draw")
    p.add_argument("--part", default="0/1", help="K/N: only every Nth case, from the Kth on")
    p.add_argument("--allowed", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "operands_allowed.txt"),
                   help="file that lists what ONNX's text allows although the oracles refuse it")
    p.add_argument("--tap", action="store_true", help="print one line of TAP for each mutant that should be refused")
    p.add_argument("--memory", help="file that keeps what the oracles said")
    p.add_argument("--answers", help="file for the program's answer to every mutant")
    args = p.parse_args()
    part, parts = map(int, args.part.split("/"))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        return judge_all(args, part, parts, scratch)


def judge_all(args, part, parts, scratch):
    judges = [Judge(n) for n in ORACLES]
    program, memory = Program(args.driver), Memory(args.memory)
    answers_file = open(args.answers, "w", encoding="utf-8") if args.answers else None
    cases = [c for folder in args.cases for c in read_cases(unpacked(folder, scratch))][part::parts]
    todo = [(c, m) for c in cases for m in mutants(c)]
    if args.seed is not None:
        todo = random.Random(args.seed).sample(todo, min(args.count, len(todo)))
    tally = {"mutants": 0, "refused by the oracles": 0, "accepted": 0, "allowed by the text": 0,
             "crash or hang": 0}
    allowed = read_allowed(args.allowed)
    able = {}
    for case, (what, tensors, left_out) in todo:
        if case.name not in able:
            able[case.name] = memory.ask(f"{case.name}\t-", lambda: ",".join(
                j.name for j in judges if j.accepts(case, case.tensors, ())))
            if any(not a.startswith("ok") for a in run_all_ways(program, scratch, case, case.tensors, ())):
                able[case.name] = ""  # what the program does not run as it is says nothing
        can = [j for j in judges if j.name in able[case.name].split(",")]
        if not can:
            continue
        accepted = memory.ask(f"{case.name}\t{what}", lambda: ",".join(
            j.name for j in can if j.accepts(case, tensors, left_out)))
        answers = run_all_ways(program, scratch, case, tensors, left_out)
        verdict = verdict_of(answers)
        tally["mutants"] += 1
        tally["refused by the oracles"] += not accepted
        ops = "+".join(n.op_type for n in case.model.graph.node)
        text = operand_text(case, what)
        declared = "undeclared " if answers[0].startswith("fail") else ""
        bad = verdict if verdict.startswith(("crash", "hang")) else ""
        if bad:
            tally["crash or hang"] += 1
        elif verdict == "accepted" and not accepted:
            if any(o.fullmatch(ops) and w.search(declared + text) for o, w in allowed):
                tally["allowed by the text"] += 1
            else:
                bad = verdict
                tally["accepted"] += 1
        if bad:
            print(f"{'# ' if args.tap else ''}{bad}: {case.name} {ops}: {text} (judges: {able[case.name]}): {answers}", flush=True)
        if args.tap and not accepted:
            print(f"{'not ' if bad else ''}ok {case.name} {ops}: {text}")
        if answers_file:
            print(ops, case.name, what, verdict, accepted or "-", *answers, sep="\t", file=answers_file)
    print(("# " if args.tap else "") + ", ".join(f"{n} {k}" for k, n in tally.items()))
    return 1 if tally["accepted"] or tally["crash or hang"] else 0


if __name__ == "__main__":
    sys.exit(main())
