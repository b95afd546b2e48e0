#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the intervals of `infer profile A.onnx B.onnx` hold the truth on a machine that other programs use.

    bench/ranking.py --infer build/bin/infer --trials 20 --core 0

Trials alternate between two equal models and one whose work is twice that of the other. Meanwhile none to two busy loops, as chance has
it, run on the core that the models are measured on, and change about every second. The last lines count the intervals
that hold the truth. Needs the Python packages onnx and numpy.
"""
import argparse
import json
import os
import random
import subprocess
import tempfile
import threading


def make_model(path, layers):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(1)
    nodes, weights, at = [], [], "x"
    for k in range(layers):
        w = (rng.standard_normal((64, 64, 3, 3)) * 0.05).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("Conv", [at, f"w{k}"], [f"c{k}"], name=f"conv_{k}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"], name=f"relu_{k}"))
        at = f"r{k}"
    shape = [1, 64, 28, 28]
    graph = helper.make_graph(nodes, "ranking", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(at, TensorProto.FLOAT, shape)], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Load(threading.Thread):
    def __init__(self, core, seed):
        super().__init__(daemon=True)
        self.core, self.random, self.over = core, random.Random(seed), threading.Event()

    def run(self):
        while not self.over.is_set():
            command = ["taskset", "-c", str(self.core), "sh", "-c", "while :; do :; done"]
            loops = [subprocess.Popen(command) for _ in range(self.random.choice([0, 0, 1, 1, 2]))]
            self.over.wait(0.05 + self.random.expovariate(1))
            for loop in loops:
                loop.kill()
                loop.wait()


def trial(args, a, b):
    """Returns the ratio of b's time to a's, with its bounds."""
    command = ["taskset", "-c", str(args.core), args.infer, "profile", a, b, "--device", "cpu", "--threads", "1",
               "--duration", args.duration, "--json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)["ranking"]
    low, high = second["interval"]
    if first["label"] == os.path.basename(a):
        return second["ratio"], low, high
    return 1 / second["ratio"], 1 / high, 1 / low


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--trials", type=int, default=20, help="of each pair of models")
    p.add_argument("--core", type=int, default=0)
    p.add_argument("--duration", default="1s")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("one.onnx", "same.onnx", "twice.onnx")]
        for path, layers in zip(paths, (4, 4, 8)):
            make_model(path, layers)
        load = Load(args.core, args.seed)
        load.start()
        held, widths = {1: 0, 2: 0}, {1: [], 2: []}
        for k in range(2 * args.trials):
            truth = 1 + k % 2
            value, low, high = trial(args, paths[0], paths[truth])
            held[truth] += low <= truth <= high
            widths[truth].append(high / low)
            print(f"truth {truth}: {value:.3f} ({low:.3f} to {high:.3f}){'' if low <= truth <= high else ' misses'}", flush=True)
        load.over.set()
        load.join()
    for truth in (1, 2):
        width = sorted(widths[truth])[args.trials // 2]
        print(f"truth {truth}: {held[truth]} of {args.trials} intervals hold it; median of high / low {width:.2f}")


if __name__ == "__main__":
    main()
