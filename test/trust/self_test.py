#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""self_test.py INFER: the generator plants into small nets that are made here; no network is needed. Prints TAP."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import trust


def make_net(path, batch):
    rng = np.random.default_rng(7)
    weights = {"cw": rng.normal(size=(4, 3, 3, 3)), "cb": rng.normal(size=4), "s": rng.random(4) + 0.5, "o": rng.normal(size=4), "m": rng.normal(size=4), "v": rng.random(4) + 0.5, "gw": rng.normal(size=(4, 5)), "gb": rng.normal(size=5)}
    nodes = [
        helper.make_node("Conv", ["x", "cw", "cb"], ["c"], name="conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "o", "m", "v"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat", axis=1),
        helper.make_node("Gemm", ["f", "gw", "gb"], ["y"], name="gemm"),
    ]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])], [numpy_helper.from_array(a.astype(np.float32), k) for k, a in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def ok(condition, what):
    print(f"{'ok' if condition else 'not ok'} trust: {what}")
    return condition


def main():
    good = ok(all(abs(a - b) < 1e-3 for a, b in zip(trust.wilson(8, 10), (0.4902, 0.9433))), "Wilson's interval of 8 in 10")
    with tempfile.TemporaryDirectory() as place:
        for name, batch in (("fixed", 1), ("free", "batch")):
            folder = pathlib.Path(place) / "models" / name
            folder.mkdir(parents=True)
            make_net(folder / "net.onnx", batch)
        command = [sys.executable, trust.__file__, "--infer", sys.argv[1], "--models", f"{place}/models", "--out", place, "--faults", "100", "--sound", "27"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [line.split("|")[1:] for line in run.stdout.splitlines() if line.startswith("| ")]
        good &= ok(run.returncode == 0, "it runs")
        classes = sum(len(row) == 9 for row in rows) - 2
        good &= ok(classes >= 60, f"classes that could be planted: {classes}")
        both = [row for row in rows if "**all**" in row[0]]
        found, planted = (int(both[0][k]) for k in (2, 1)) if both else (0, 1)
        good &= ok(found >= 0.85 * planted, f"{found} of {planted} faults are found")
        good &= ok(len(both) == 2 and int(both[1][2]) == 0, "no error is said of a sound variant")
        if not good:
            print("\n".join("# " + line for line in (run.stdout + run.stderr).splitlines()))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
