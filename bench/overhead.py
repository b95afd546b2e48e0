#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does `infer profile` without --nodes add to the latency? Its runs against those of a bare loop.

    bench/overhead.py --infer build/bin/infer --latency build/bench/latency MODEL...

build/bench/latency runs the same session in a loop of its own and knows of no profile. Processes of both take turns, on
the same zeros as inputs; each pair gives a quotient of the two's tenth percentiles, and the median of all quotients is
told, with an interval for it (binomial, 95 %). It may be 1 % above 1. With --observed a third process has an observer for
each node, which is what the others do not pay. Needs the Python packages numpy and onnx.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def inputs_of(model, folder):
    """FILE:DIMS for latency and --input for profile, free dimensions being 1."""
    import numpy as np
    import onnx

    m = onnx.load(model, load_external_data=False)
    weights = {w.name for w in m.graph.initializer}
    bare, options = [], []
    for i in (i for i in m.graph.input if i.name not in weights):
        t = i.type.tensor_type
        dims = [max(1, d.dim_value) for d in t.shape.dim]
        path = os.path.join(folder, f"{len(bare)}.bin")
        np.zeros(dims, onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)).tofile(path)
        shape = "x".join(map(str, dims))
        bare.append(f"{path}:{shape}")
        options += ["--input", f"{i.name}={path},shape={shape}"]
    return bare, options


def low(times):
    return sorted(times)[len(times) // 10]


def bare(args, model, given):
    p = subprocess.Popen([args.latency, model, args.threads, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out, _ = p.communicate(f"run {args.warm}\nrun {args.runs}\n")
    lines = [line.split() for line in out.splitlines() if line and not line.startswith("ready")]
    return low([float(x) * 1e-3 for x in lines[-1]])


def profiled(args, model, given, *more):
    done = subprocess.run([args.infer, "profile", model, "--device", "cpu", "--threads", args.threads, "--warmup", str(args.warm),
                           "-n", str(args.runs), "--json", *given, *more], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    r = json.loads(done.stdout)["records"][0]
    return low(r["observed_samples"] if more else r["points"][0]["samples"])


def interval(quotients):
    q, n = sorted(quotients), len(quotients)
    k = max(0, int(n / 2 - 0.98 * n**0.5))
    return f"{statistics.median(q):.4f} (95 %: {q[k]:.4f} to {q[n - 1 - k]:.4f})"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--latency", default="build/bench/latency")
    p.add_argument("--pairs", type=int, default=25)
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--warm", type=int, default=20)
    p.add_argument("--threads", default="1")
    p.add_argument("--observed", action="store_true")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            plain, options = inputs_of(model, folder)
            quotients, observed = [], []
            for k in range(args.pairs):
                # who begins takes turns, too
                order = [lambda: profiled(args, model, options), lambda: bare(args, model, plain)]
                x, y = (order[0](), order[1]()) if k % 2 else reversed((order[1](), order[0]()))
                quotients.append(x / y)
                if args.observed:
                    observed.append(profiled(args, model, options, "--nodes") / y)
            print(f"{os.path.basename(model)}, {args.threads} thread(s): profiled / bare {interval(quotients)}")
            if observed:
                print(f"{os.path.basename(model)}, {args.threads} thread(s): observed / bare {interval(observed)}")


if __name__ == "__main__":
    main()
