#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memory.py COMMAND...: runs it and says the most memory that it and each of its children had (VmHWM)."""
import subprocess
import sys
import time


def peak(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            text = dict(line.split(":", 1) for line in f)
        return text["Name"].strip(), int(text["VmHWM"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


start, most = time.time(), {}
program = subprocess.Popen(sys.argv[1:])
while program.poll() is None:
    for pid in [program.pid, *children(program.pid)]:
        seen = peak(pid)
        if seen:
            most[pid] = seen
    time.sleep(0.02)
for pid, (name, kib) in most.items():
    print(f"{name}: at most {kib / 1024:.1f} MiB")
print(f"{time.time() - start:.1f} s, status {program.returncode}")
