#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `infer profile` tell the truth? Its mean latency against a clock outside of it.

    bench/outside.py --infer build/bin/infer MODEL...

The program runs twice, with N and with 2N iterations: what the second takes longer, by a wall clock around the process, is N
runs. Its own time of these N runs must agree within 5 %. Each is done several times, and of what a process takes besides its
runs the lowest counts: a machine starts and ends processes unevenly, with a GPU by tenths of a second.
"""
import argparse
import re
import statistics
import subprocess
import sys
import time


def timed(infer, model, n, more):
    """Seconds of the process, and what the program says its n runs took. Text: a document with all samples takes longer."""
    start = time.monotonic()
    done = subprocess.run([infer, "profile", model, "-n", str(n), "--warmup", "20", *more], capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        sys.exit(done.stderr)
    value, unit = re.search(r"^latency .*mean ([0-9.]+) (ns|us|ms|s) ", done.stdout, re.M).groups()
    return seconds, n * float(value) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--seconds", type=float, default=3, help="about what N runs take")
    p.add_argument("--times", type=int, default=5)
    p.add_argument("--more", default="--device cpu", help="further options")
    p.add_argument("--verbose", action="store_true", help="what each process took besides its runs")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    bad = 0
    for model in args.models:
        more = args.more.split()
        _, probe = timed(args.infer, model, 100, more)
        n = max(20, int(args.seconds / (probe / 100)))
        once, twice, runs = [], [], []
        for _ in range(args.times):
            (t1, s1), (t2, s2) = timed(args.infer, model, n, more), timed(args.infer, model, 2 * n, more)
            # the own sums are taken off, so that only start and end are left, and what N runs more have besides
            once.append(t1 - s1)
            twice.append(t2 - s2)
            runs.append(s2 / 2)
            if args.verbose:
                print(f"    {n} runs: {t1 - s1:.3f} s besides {s1:.3f}; {2 * n} runs: {t2 - s2:.3f} s besides {s2:.3f}", flush=True)
        off = (min(twice) - min(once)) / statistics.median(runs)
        print(f"{model}: {n} runs; outside the program says {off * 100:+.2f} % more for them than it does itself")
        bad += abs(off) > 0.05
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
