# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime without optimizations, onnx.checker and onnx.reference as judges, in a process of their own.

onnx.reference is slow and lacks operators, so it is asked only where ONNX Runtime cannot decide: its int8 products saturate on
CPUs without VNNI, and a sum near the largest number overflows in one order of additions and not in another.

Faulty models crash or hang the judges at times, so each question goes to a child process, which is replaced if it dies.
"""

import multiprocessing
import time

import numpy as np
import onnx

TIME_LIMIT = 60


def run_ort(model, feeds):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    started = time.perf_counter()
    values = session.run(names, feeds)
    return dict(zip(names, values)), time.perf_counter() - started


def run_ort_twice(model, feeds):
    """The outputs of the second run of a session; sessions of one process may draw the same random numbers."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    session.run(names, feeds)
    return dict(zip(names, session.run(names, feeds))), 0.0


def check_onnx(model, _feeds):
    onnx.checker.check_model(model, full_check=True)
    return {}, 0.0


def optimize_ort(model, path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = path
    options.log_severity_level = 4
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return {}, 0.0


def sort_nodes(graph):
    """Each node behind those whose outputs it reads, as onnx.reference wants it; nodes in a circle are left out."""
    made = {o for n in graph.node for o in n.output}
    done, left, order = set(), list(graph.node), []
    while left:
        ready = [n for n in left if all(i in done or i not in made for i in reads(n))]
        if not ready:
            break
        order += ready
        done |= {o for n in ready for o in n.output}
        names = {id(n) for n in ready}
        left = [n for n in left if id(n) not in names]
    del graph.node[:]
    graph.node.extend(order)


def reads(node):
    """What a node and its bodies read."""
    names = set(node.input)
    for a in node.attribute:
        for body in [a.g, *a.graphs]:
            names |= set().union(*(reads(n) for n in body.node)) if body.node else set()
    return names


def run_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    sort_nodes(proto.graph)
    evaluator = ReferenceEvaluator(proto)
    return dict(zip(evaluator.output_names, evaluator.run(None, feeds))), 0.0


def infer_shapes(model, _feeds):
    onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    return {}, 0.0


JOBS = {"ort": run_ort, "ort-twice": run_ort_twice, "reference": run_reference, "checker": check_onnx, "shapes": infer_shapes, "optimize": optimize_ort}


def serve(pipe):
    while True:
        job, model, argument = pipe.recv()
        try:
            values, seconds = JOBS[job](model, argument)
            pipe.send((values, seconds))
        except BaseException as error:  # whatever a judge throws is its verdict
            pipe.send((f"{type(error).__name__}: {error}", 0.0))


class Judges:
    def __init__(self):
        self.child = None

    def start(self):
        self.pipe, there = multiprocessing.Pipe()
        self.child = multiprocessing.Process(target=serve, args=(there,), daemon=True)
        self.child.start()
        there.close()

    def ask(self, job, model, argument=None):
        """(outputs by name, seconds), or (why the judge refused, 0)."""
        if self.child is None or not self.child.is_alive():
            self.start()
        try:
            self.pipe.send((job, model, argument))
            if self.pipe.poll(TIME_LIMIT):
                return self.pipe.recv()
            why = f"{job} took more than {TIME_LIMIT} s"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            why = f"{job} crashed"
        self.child.kill()
        self.child.join()
        self.child = None
        return why, 0.0


def refused(answer):
    return isinstance(answer[0], str)


def finite(values):
    for value in values:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            return False
    return True


def equal(ours, theirs, rtol=1e-3):
    """Whether two dicts of outputs agree up to rounding: differences of rtol of the largest magnitude are allowed.

    Magnitudes below 1e-4 count as that: a Sigmoid of -16 is what rounding has left of 1 - 1.
    """
    if len(ours) != len(theirs):
        return False
    for a, b in zip(ours.values(), theirs.values()):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if repr(a) != repr(b):
                return False
            continue
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return False
        if a.dtype.kind != "f":
            if not (a == b).all():
                return False
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite_part = np.abs(b[np.isfinite(b)])
        limit = rtol * max(finite_part.max() if finite_part.size else 0.0, 1e-4)
        if not np.allclose(a, b, rtol=rtol, atol=limit, equal_nan=True):
            return False
    return True
