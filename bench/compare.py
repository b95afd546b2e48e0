#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares infer with ONNX Runtime: latency, process start to result, peak memory, outputs.

usage: compare.py [--latency PROGRAM] [--threads N] [--rounds N] [--what latency,process] [--isa LEVEL] MODEL...

The two take turns, a short burst each, in processes of their own; a ratio is the median over the
rounds of (median of our burst / median of theirs). Below 1 we are faster or smaller. The peer is
the onnxruntime of this Python. With --steps, what each step of ours takes instead. --isa: bench/limit.c.
"""

import argparse
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

PEER = r"""
import sys, time, numpy as np, onnxruntime as ort
model, threads, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
o = ort.SessionOptions()
o.intra_op_num_threads = threads
o.log_severity_level = 3
s = ort.InferenceSession(model, o, providers=['CPUExecutionProvider'])
feed = {}
for a in sys.argv[4:]:
    name, dtype, dims, path = a.split('|')
    feed[name] = np.fromfile(path, dtype).reshape([int(d) for d in dims.split('x')] if dims else [])
y = s.run(None, feed)
print('ready', flush=True)
if out:
    y[0].tofile(out)
for line in sys.stdin:
    if line.startswith('run'):
        t = []
        for _ in range(int(line.split()[1])):
            t0 = time.perf_counter(); s.run(None, feed); t.append((time.perf_counter() - t0) * 1e3)
        print(*t, flush=True)
    elif line.startswith('memory'):
        print(*[l.strip() for l in open('/proc/self/status') if l.startswith('VmHWM')], flush=True)
    else:
        break
"""

KINDS = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(float16)": "f2",
         "tensor(bool)": "?", "tensor(uint8)": "u1", "tensor(double)": "f8"}


def limit(isa, program):
    """Starts this script again as on a processor of this level, if there is one: limit.so lies beside our program."""
    if not isa or os.environ.get("LIMIT_ISA") == isa:
        return
    without = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"
    env = {"LIMIT_ISA": isa, "LD_PRELOAD": os.path.abspath(os.path.join(os.path.dirname(program), "limit.so"))}
    if not os.path.exists(env["LD_PRELOAD"]):
        raise SystemExit(f"make {os.path.relpath(env['LD_PRELOAD'])} makes what --isa takes")
    if isa == "avx2":
        env["GLIBC_TUNABLES"] = without
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **env})


def describe(model, dims):
    """(name, numpy type, shape, array) of each input; free dimensions are 1 unless given."""
    import onnxruntime as ort
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    inputs = []
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else dims.get(d, dims.get(i.name, 1)) for d in i.shape]
        kind = KINDS[i.type]
        if kind[0] == "f":
            a = rng.standard_normal(shape).astype(kind)
        else:
            a = rng.integers(0, 2 if "mask" in i.name else 1000, shape).astype(kind)
            if "mask" in i.name:
                a[...] = 1
        inputs.append((i.name, kind, shape, a))
    return inputs


def arguments(model, dims, folder):
    """The arguments that name the inputs, which are written into the folder: ours, and those of the peers."""
    ours, peers = [], []
    for k, (name, kind, shape, a) in enumerate(describe(model, dims)):
        path, text = os.path.join(folder, f"{k}.raw"), "x".join(map(str, shape))
        a.tofile(path)
        ours.append(f"{path}:{text}")
        peers.append(f"{name}|{kind}|{text}|{path}")
    return ours, peers


class Server:
    def __init__(self, command):
        self.start = time.perf_counter()
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self.p.stdout.readline()
        self.ready = (time.perf_counter() - self.start) * 1e3
        if not self.first.startswith("ready"):
            raise SystemExit(f"{command[0]} did not start")

    def ask(self, line):
        """The process stands still between questions: idle threads that spin would take the cores from the others."""
        self.p.send_signal(signal.SIGCONT)
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        self.p.send_signal(signal.SIGSTOP)
        return answer

    def burst(self, n):
        return statistics.median(float(x) for x in self.ask(f"run {n}").split())

    def close(self):
        self.p.send_signal(signal.SIGCONT)
        self.p.stdin.close()
        self.p.wait()


def latency(ours, theirs, rounds):
    a, b = Server(ours), Server(theirs)
    n = max(3, min(40, int(150 / max(b.burst(3), 0.05))))
    a.burst(n), b.burst(n)
    pairs = []
    for k in range(rounds):
        first, second = (a, b) if k % 2 else (b, a)
        x, y = first.burst(n), second.burst(n)
        pairs.append((x, y) if k % 2 else (y, x))
    a.close(), b.close()
    return pairs


def process(command):
    """ms from the start to the end of the process."""
    t0 = time.perf_counter()
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode:
        raise SystemExit(f"{command[0]} failed")
    return (time.perf_counter() - t0) * 1e3


def peak(command):
    """Its own peak memory in MiB after one inference: a child's ru_maxrss would count what we had at the fork."""
    p = Server(command)
    kib = int(p.ask("memory").split("VmHWM:")[1].split()[0])
    p.close()
    return kib / 1024


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--latency", default="build/bench/latency", help="our program (make bench makes it)")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--what", default="latency,process")
    ap.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    ap.add_argument("--steps", type=int, default=0, metavar="N", help="show the slowest N steps")
    ap.add_argument("--isa", help="avx2, avx512, vnni: as on a processor without what came later")
    ap.add_argument("model", nargs="+")
    args = ap.parse_args()
    limit(args.isa, args.latency)
    dims = {k: int(v) for k, v in (d.split("=") for d in args.dim)}
    dims.setdefault("seq", 128)
    ok = True
    print(f"{'model':32} {'what':9} {'ours':>9} {'ONNX RT':>9} {'ratio':>6}")
    for model in args.model:
        name = os.path.basename(model)
        with tempfile.TemporaryDirectory() as tmp:
            ours, peer = arguments(model, dims, tmp)
            mine = [args.latency, model, str(args.threads), *ours]
            reference = os.path.join(tmp, "ref.raw")
            theirs = lambda out: [sys.executable, "-c", PEER, model, str(args.threads), out, *peer]
            if args.steps:
                show_steps(mine, args.steps)
                continue
            ok &= check(mine, theirs(reference), reference, tmp, name)
            if "latency" in args.what:
                pairs = latency(mine, theirs(""), args.rounds)
                report(name, "ms", pairs)
            if "process" in args.what:
                runs = [(process(mine), process(theirs(""))) for _ in range(max(3, args.rounds // 2))]
                report(name, "start ms", runs)
                report(name, "peak MiB", [(peak(mine), peak(theirs(""))) for _ in range(3)])
    return 0 if ok else 1


def check(mine, theirs, reference, tmp, name):
    """Our first output against theirs: largest difference over largest value."""
    process(theirs)
    out = os.path.join(tmp, "out.raw")
    a = Server(mine)
    a.ask(f"out {out}")
    a.close()
    kind = "f2" if ".ts16" in name or "fp16" in name else "f4"
    y, ref = np.fromfile(out, kind).astype("f8"), np.fromfile(reference, kind).astype("f8")
    worst = np.abs(y - ref).max() / max(np.abs(ref).max(), 1e-30) if y.shape == ref.shape else np.inf
    print(f"{name:32} {'error':9} {worst:9.2g}", flush=True)
    return worst <= (3e-2 if kind == "f2" else 1e-3)


def show_steps(mine, n):
    a = Server(mine)
    a.burst(5)
    a.p.send_signal(signal.SIGCONT)
    a.p.stdin.write("steps 20\n")
    a.p.stdin.flush()
    total, by_op, shown = 0.0, {}, 0
    while (line := a.p.stdout.readline().rstrip("\n")) != "end":
        ms = float(line.split()[0])
        op = " ".join(line[8:40].split()[:1])
        total += ms
        count, t = by_op.get(op, (0, 0.0))
        by_op[op] = (count + 1, t + ms)
        if (shown := shown + 1) <= n:
            print(line)
    print(f"{total:8.4f} in all")
    for op, (count, t) in sorted(by_op.items(), key=lambda x: -x[1][1]):
        print(f"{t:8.4f} {count:4} {op}")
    a.close()


def report(name, what, pairs):
    ours, theirs = (statistics.median(p[k] for p in pairs) for k in (0, 1))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:32} {what:9} {ours:9.2f} {theirs:9.2f} {ratio:6.3f}", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
