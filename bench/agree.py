#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the times of nodes that `infer profile --device cuda` tells those of the device?

    bench/agree.py --infer build/bin/infer --batch 1,32 MODEL...

Each model is profiled with CUPTI, which records each kernel, and without it (INFER_WITHOUT=cupti), by events in the stream:
each --times times in turn, of which a node's lowest time counts, since a GPU's clock is not the same all the time. Nodes that are kernels of 20 us or more (to nine tenths of their time) must agree within 10 %; of those
that take so long by many short kernels, between which the device rests, only the share is told. What the nodes and the row of gaps add up to must
be the observed run within 10 %; the run itself is compared with the plain one, which is a CUDA graph.
"""
import argparse
import json
import os
import subprocess
import sys

LEAST, OFF = 20e-6, 0.1


def profile(args, model, batch, more, without):
    env = dict(os.environ)
    if without:
        env["INFER_WITHOUT"] = ",".join(filter(None, [env.get("INFER_WITHOUT"), "cupti"]))
    dims = ["--dim", f"{args.dim}={batch}"] if batch else []
    command = [args.infer, "profile", model, "--device", "cuda", "--nodes", "--json", "--warmup", "20", *args.more.split(), *dims, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return json.loads(done.stdout)["records"][0]


def repeated(args, model, batch):
    """The first record of each kind, with the lowest times of all."""
    kept = [None, None]
    for _ in range(args.times):
        for without in (False, True):
            r = profile(args, model, batch, [], without)
            if not r:
                return None, None
            first = kept[without] = kept[without] or r
            times = {key(n): n["typical"] for n in r["nodes"]}
            for n in first["nodes"]:
                n["low"] = min(n.get("low", n["typical"]), times.get(key(n), n["typical"]))
    return kept


def key(node):
    return node["name"], node["operator"], node["depth"]


def us(seconds):
    return f"{seconds * 1e6:.1f}"


def compare(what, told, events, verbose):
    """A line, and whether all is as it must be."""
    other = {key(n): n for n in events["nodes"]}
    off, all_off = [], []
    for n in told["nodes"]:
        if n["place"] != "device" or key(n) not in other:
            continue
        truth, said = n["low"], other[key(n)]["low"]
        long = sum(k["seconds"] for k in n.get("kernels", []) if k["seconds"] >= LEAST * max(k["count"], 1))
        if truth >= LEAST:
            all_off.append(abs(said / truth - 1))
        if long >= max(LEAST, 0.9 * truth):
            off.append((abs(said / truth - 1), said, truth, n["name"]))
    off.sort(reverse=True)
    near = sum(o[0] <= OFF for o in off)
    good = True
    cells = [f"{what:34}", f"{near}/{len(off)}", f"(all of 20 us: {sum(o <= OFF for o in all_off)}/{len(all_off)})"]
    cells.append(f"worst {off[0][0] * 100:.1f} % ({us(off[0][1])} for {us(off[0][2])} us)" if off else "none of 20 us")
    good &= near == len(off)
    for name, r in (("CUPTI", told), ("events", events)):
        nodes = sum(n["typical"] for n in r["nodes"])
        times = sorted(r["points"][0]["samples"])
        plain = times[len(times) // 2]
        cells.append(f"{name}: nodes {us(nodes)} + gaps {us(r['gaps'])} = {us(nodes + r['gaps'])} of {us(r['observed'])}"
                     f" ({nodes / r['observed'] * 100:.0f} %), plain {us(plain)}, held {us(r['held'])}")
        good &= abs((nodes + max(r["gaps"], 0)) / r["observed"] - 1) <= OFF
    print("; ".join(cells), flush=True)
    for o in off[:verbose]:
        print(f"    {o[3][-60:]:60} {us(o[1]):>9} {us(o[2]):>9} {o[0] * 100:6.1f} %")
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--batch", default="", help="sizes of --dim, a comma between them")
    p.add_argument("--dim", default="batch")
    p.add_argument("--more", default="-n 30", help="further options")
    p.add_argument("--times", type=int, default=2)
    p.add_argument("--verbose", type=int, default=0, help="nodes that are named, the farthest off first")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    bad = 0
    for model in args.models:
        for batch in args.batch.split(","):
            what = os.path.basename(model) + (f" {args.dim}={batch}" if batch else "")
            told, events = repeated(args, model, batch)
            if not told or not events:
                print(f"{what}: it did not run")
                bad += 1
            elif not told["timed_by"].startswith("CUPTI"):
                print(f"{what}: CUPTI is not to be had: {told['timed_why']}")
                bad += 1
            else:
                bad += not compare(what, told, events, args.verbose)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
