#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares infer with ONNX Runtime and OpenVINO on the CPU, over many models, and writes one table.

usage: cpu.py [--latency PROGRAM] [--threads 1,2] [--rounds N] [--isa LEVEL] [--precision bf16] [--out FILE] MODEL[,DIM=N...]...

The three take turns, a short burst each, in processes of their own that are pinned to the same
cores; each is asked for fp32. With --precision bf16 ours and OpenVINO are asked for bf16, which
ONNX Runtime does not have: its column is fp32, and the last one compares with OpenVINO alone. A time is the median over the rounds; the last column is the median
over the rounds of (the faster peer / ours), so that above 1 we are ahead. The peers are those of
this Python (pip install onnxruntime openvino); one that is missing, or refuses a model, is left out.
--isa avx2 (or avx512, vnni: bench/limit.c) hides later instructions from all three.
"""

import argparse
import datetime
import importlib.metadata
import math
import os
import statistics
import subprocess
import sys
import tempfile

from compare import PEER, Server, arguments, limit

OPENVINO = r"""
import sys, time, numpy as np, openvino as ov
model, threads, precision = sys.argv[1], int(sys.argv[2]), sys.argv[3]
core = ov.Core()
m = core.read_model(model)
feed, shapes = {}, {}
for a in sys.argv[4:]:
    name, dtype, dims, path = a.split('|')
    feed[name] = np.fromfile(path, dtype).reshape([int(d) for d in dims.split('x')] if dims else [])
    shapes[name] = list(feed[name].shape)
m.reshape(shapes)
c = core.compile_model(m, 'CPU', {'INFERENCE_NUM_THREADS': threads, 'INFERENCE_PRECISION_HINT': precision,
                                  'PERFORMANCE_HINT': 'LATENCY'})
r = c.create_infer_request()
r.infer(feed)
print('ready', flush=True)
for line in sys.stdin:
    if not line.startswith('run'):
        break
    t = []
    for _ in range(int(line.split()[1])):
        t0 = time.perf_counter(); r.infer(feed); t.append((time.perf_counter() - t0) * 1e3)
    print(*t, flush=True)
"""


class Pinned(Server):
    """A process on these cores; `alive` says whether it could start, for a peer may be missing."""

    def __init__(self, command, cores):
        self.p = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), *command], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.alive = self.p.stdout.readline().startswith("ready")


def measure(args, model, threads):
    """The median milliseconds of ours, ONNX Runtime and OpenVINO (None where it did not run), and the ratio."""
    model, *dims = model.split(",")
    dims = {**args.dims, **{k: int(v) for k, v in (d.rsplit("=", 1) for d in dims)}}
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    with tempfile.TemporaryDirectory() as tmp:
        ours, peer = arguments(model, dims, tmp)
        bf16 = args.precision == "bf16"
        runners = [Pinned([args.latency, model, f"{threads},bf16" if bf16 else str(threads), *ours], cores)]
        for program, precision in ((PEER, ""), (OPENVINO, "bf16" if bf16 else "f32")):
            runners.append(Pinned([sys.executable, "-c", program, model, str(threads), precision, *peer], cores))
        alive = [r for r in runners if r.alive]
        if runners[0] not in alive or len(alive) < 2:
            return None
        n = max(3, min(200, int(100 / max(max(r.burst(3) for r in alive), 0.02))))
        times = {r: [] for r in alive}
        for k in range(args.rounds):
            for r in alive if k % 2 else alive[::-1]:
                times[r].append(r.burst(n))
        for r in runners:
            r.close()
        rivals = alive[2:] if bf16 and len(alive) > 2 else alive[1:]
        ratio = statistics.median(min(times[r][k] for r in rivals) / times[alive[0]][k] for k in range(args.rounds))
        return [statistics.median(times[r]) if r in times else None for r in runners] + [ratio]


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def machine():
    with open("/proc/cpuinfo") as f:
        lines = dict(map(str.strip, line.split(":", 1)) for line in f.read().split("\n\n")[0].split("\n"))
    sets = [s for s in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if s in lines["flags"].split()]
    return f"{lines['model name']}, family {lines['cpu family']}, model {lines['model']}, {' '.join(sets)}"


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--latency", default="build/bench/latency", help="our program (make build/bench/latency makes it)")
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--isa", help="avx2, avx512, vnni: as on a processor without what came later")
    ap.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    ap.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    ap.add_argument("--out", help="file to which the table is appended")
    ap.add_argument("model", nargs="+")
    args = ap.parse_args()
    limit(args.isa, args.latency)
    args.dims = {k: int(v) for k, v in (d.split("=") for d in args.dim)}
    args.dims.setdefault("seq", 128)
    lines = [f"## {datetime.date.today()}, {machine()}", "",
             f"ONNX Runtime {version('onnxruntime')}, OpenVINO {version('openvino')}, {args.precision}, "
             f"{'limited to ' + args.isa if args.isa else 'unlimited'}; {args.rounds} rounds", "",
             "| model | threads | ours, ms | ONNX Runtime | OpenVINO | faster peer / ours |", "| --- | --- | --- | --- | --- | --- |"]
    ratios = {}
    text = lambda v: "-" if v is None else f"{v:.3g}" if v < 10 else f"{v:.1f}"
    print("\n".join(lines), flush=True)
    for threads in map(int, args.threads.split(",")):
        for model in args.model:
            row = measure(args, model, threads)
            if not row:
                print(f"{model}: left out", flush=True)
                continue
            path = os.path.abspath(model.split(",")[0])
            name = os.path.basename(os.path.dirname(path)) + "/" + os.path.basename(path)
            lines.append(f"| {name} | {threads} | {' | '.join(map(text, row[:3]))} | {row[3]:.2f} |")
            print(lines[-1], flush=True)
            ratios.setdefault(threads, []).append(row[3])
    lines.append("")
    for threads, r in ratios.items():
        mean = math.exp(sum(map(math.log, r)) / len(r))
        lines.append(f"{threads} thread{'s' if threads > 1 else ''}: geometric mean {mean:.2f} over {len(r)} models, "
                     f"the least {min(r):.2f}, {sum(x < 0.95 for x in r)} below 0.95")
        print(lines[-1], flush=True)
    if args.out:
        with open(args.out, "a") as f:
            f.write("\n".join(lines) + "\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
