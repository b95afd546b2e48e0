#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reproducers.py INFER FOLDER...: runs each command on each model and judges how it ends.

A run must end with a status of the manual's table, within 5 s, and within 256 MiB of resident memory. A model
with "loop" in its name may have no end by its meaning: then the status is 124, which --timeout gives.
A folder MODEL.d beside MODEL.onnx holds its inputs. Prints a line for each run that is wrong, then the counts.
"""
import os
import pathlib
import subprocess
import sys
import threading

# a loop that stacks what it makes grows as fast as the machine: some 60 MiB a second
SECONDS, MIB, TIMEOUT, KILL = 5.0, 256, 1, 30
STATUSES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130}
COMMANDS = {"run": ["-q"], "inspect": [], "profile": ["-n", "2"], "check": []}


def arguments(command, model):
    words = [command, str(model), *COMMANDS[command]]
    inputs = model.with_suffix(".d")
    if command != "inspect":
        words += ["--data-set", str(inputs)] if inputs.is_dir() else ["--random", "-3..3"]
        words += ["--timeout", str(TIMEOUT)] if "loop" in model.name else []
    return words


def judge(infer, command, model):
    """Returns what is wrong with the run, or None, and its seconds of processors and MiB; the seconds do not depend on other programs."""
    child = subprocess.Popen([infer, *arguments(command, model)], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    killer = threading.Timer(KILL, child.kill)
    killer.start()
    _, status, usage = os.wait4(child.pid, 0)
    killer.cancel()
    seconds, mib = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    child.returncode = os.waitstatus_to_exitcode(status)
    endless = child.returncode == 124 and "--timeout" in arguments(command, model)
    faults = []
    if child.returncode not in STATUSES and not endless:
        faults.append(f"status {child.returncode}")
    if seconds > SECONDS:
        faults.append(f"{seconds:.1f} s")
    if mib > MIB:
        faults.append(f"{mib:.0f} MiB")
    return ", ".join(faults), seconds, mib


def main():
    infer, folders = sys.argv[1], sys.argv[2:]
    models = sorted(m for f in folders for m in pathlib.Path(f).glob("*.onnx"))
    wrong, runs, slowest, largest = 0, 0, (0.0, ""), (0.0, "")
    for model in models:
        for command in COMMANDS:
            fault, seconds, mib = judge(infer, command, model)
            runs += 1
            wrong += bool(fault)
            slowest = max(slowest, (seconds, f"{command} {model.name}"))
            largest = max(largest, (mib, f"{command} {model.name}"))
            if fault:
                print(f"{command} {model}: {fault}", flush=True)
    print(f"{runs} runs of {len(models)} models, {wrong} wrong; at most {slowest[0]:.1f} s ({slowest[1]}) "
          f"and {largest[0]:.0f} MiB ({largest[1]})")
    sys.exit(wrong > 0 or runs == 0)


main()
