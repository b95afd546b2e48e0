#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Error rates of the performance gate (docs/gate.md): how often unchanged models raise an alarm, and how many slower nodes it catches.

    make FAULTS=1 && bench/gate.py --infer build/faults/bin/infer --pairs 200 --faults 100

The program must be the fault-injection build. It makes one node of a generated model, which takes a fifth of the time (--layers N: an
Nth), take 1.5 times as long. --threads 0, the default, uses as many threads as cores, so that any other program on the machine
disturbs the runs. Every pair has a baseline of its own, so that the state of the machine changes from pair to pair. A line for each pair
goes to --log; the last line counts the alarms, the faults that were caught, and those of them that named the right node first.
With --slower FILE the slower model is another file, and the program may be the usual build.
Needs the Python packages onnx and numpy, or a model generated elsewhere (--make FILE generates it and ends; --model FILE uses it).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def make_model(path, layers, width, rows):
    """A chain of products of equal size, each of which takes the same share of the time."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(1)
    nodes, weights, at = [], [], "x"
    for k in range(layers):
        w = (rng.standard_normal((width, width)) / width**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("MatMul", [at, f"w{k}"], [f"m{k}"], name=f"product_{k}"))
        # a Tanh between two products keeps them from being folded into one
        nodes.append(helper.make_node("Tanh", [f"m{k}"], [f"t{k}"], name=f"tanh_{k}"))
        at = f"t{k}"
    graph = helper.make_graph(
        nodes, "gate",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, width])],
        [helper.make_tensor_value_info(at, TensorProto.FLOAT, [rows, width])], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def profile(args, model, *more, fault=None):
    env = dict(os.environ)
    env.pop("INFER_FAULT", None)
    if fault:
        env["INFER_FAULT"] = fault
    command = [args.infer, "profile", model, "--device", args.device, "--random", "0..1", "--threads", args.threads, "--duration", args.duration, "--json", *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode not in (0, 9):
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.returncode, json.loads(done.stdout)


def share_of(document, name):
    record = document["records"][0]
    return sum(n["share"] for n in record["nodes"] if names(n, name))


def names(node, name):
    """Whether it is the node, or one that the node was fused into."""
    return node["name"] == name or name in (node["fused"] or "").split(", ")


def low_time(times, delays):
    """The 2nd percentile of the undisturbed times."""
    times = sorted(t for t, d in zip(times, delays or [0] * len(times)) if d < 0.01 * t)
    return times[len(times) // 50] if len(times) > 9 else None


def reference_ratios(before, now):
    """How much longer each reference workload takes now; None if too few of its times were undisturbed."""
    a, b = before["records"][0]["machine"], now["records"][0]["machine"]
    found = [(low_time(a[k], a.get(k + "_delay")), low_time(b[k], b.get(k + "_delay"))) for k in ("yard_arithmetic", "yard_memory", "yard_exchange")]
    return [round(y / x, 3) if x and y else None for x, y in found]


def compare_once(args, model, folder, fault, log, k):
    baseline = os.path.join(folder, "baseline.json")
    start = time.time()
    _, before = profile(args, model, "--save-baseline", baseline)
    slower = args.slower if fault else None
    code, now = profile(args, slower or model, "--baseline", baseline, "--fail-above", args.limit, fault=None if slower else fault)
    v = now["baseline"]
    grown = [n for n in v["nodes"] if n["slower"]]
    named = [n["name"] for n in grown]
    print(json.dumps({"k": k, "fault": bool(fault), "alarm": code == 9, "ratio": v["ratio"], "machine": v["machine"],
                      "fair": [v["fair_low"], v["fair"], v["fair_high"]],
                      "nodes": [v["nodes_ratio_low"], v["nodes_ratio"], v["nodes_ratio_high"]], "work": [v["work_ratio_low"], v["work_ratio"], v["work_ratio_high"]], "busy": v["busy"], "by_work": v["by_work"], "named": named[:3],
                      "share": round(share_of(before, args.node), 3), "undisturbed": [v["runs_before"], v["runs_now"]], "load": os.getloadavg()[0], "references": reference_ratios(before, now),
                      "seconds": round(time.time() - start, 1)}), file=log, flush=True)
    return code == 9, bool(grown) and names(grown[0], args.node)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--infer", default="build/faults/bin/infer")
    p.add_argument("--pairs", type=int, default=200)
    p.add_argument("--faults", type=int, default=100)
    p.add_argument("--limit", default="5%")
    p.add_argument("--duration", default="1s")
    p.add_argument("--threads", default="0")
    p.add_argument("--layers", type=int, default=5, help="number of equal nodes of the model")
    p.add_argument("--node", default="product_2")
    p.add_argument("--device", default="cpu")
    p.add_argument("--width", type=int, default=256, help="width of the matrices")
    p.add_argument("--rows", type=int, default=192)
    p.add_argument("--make")
    p.add_argument("--model")
    p.add_argument("--slower", help="a slower version of --model, a file of the same name in another folder, in place of a fault")
    p.add_argument("--log", default="-")
    args = p.parse_args()
    if args.make:
        return make_model(args.make, args.layers, args.width, args.rows)
    log = sys.stdout if args.log == "-" else open(args.log, "a")
    alarms = caught = named = 0
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or os.path.join(folder, "gate.onnx")
        if not args.model:
            make_model(model, args.layers, args.width, args.rows)
        # unchanged and faulty pairs alternate, so that both meet the same load of the machine
        done, todo = [0, 0], [args.pairs, args.faults]
        while done != todo:
            kind = 0 if done[0] * max(todo[1], 1) <= done[1] * max(todo[0], 1) and done[0] < todo[0] or done[1] >= todo[1] else 1
            alarm, right = compare_once(args, model, folder, f"{args.node}:slow=1.5" if kind else None, log, done[kind])
            done[kind] += 1
            if kind:
                caught += alarm
                named += alarm and right
            else:
                alarms += alarm
    print(f"threads {args.threads}, a node of {100 / args.layers:.0f} %, load {os.getloadavg()[2]:.1f} of {os.cpu_count()} cores: "
          f"alarms {alarms} of {args.pairs} unchanged pairs; caught {caught} of {args.faults} slower nodes, named {named}")


if __name__ == "__main__":
    main()
