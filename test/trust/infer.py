# SPDX-License-Identifier: Apache-2.0
"""Calls `infer check`, and `infer run`, and reads what they say."""

import json
import pathlib
import subprocess

import numpy as np
import onnx

TIME_LIMIT = 120


def save_feeds(feeds, folder):
    """The feeds as .npy files, and the options that name them."""
    options = []
    for k, (name, value) in enumerate(feeds.items()):
        path = pathlib.Path(folder) / f"input_{k}.npy"
        np.save(path, value)
        options += ["--input", f"{name}={path}"]
    return options


def run(program, model, options, folder):
    """Outputs by position as `infer run` computes them, or a text: why it did not."""
    where = pathlib.Path(folder) / "outputs"
    command = [program, "run", str(model), "-q", "-t", "1", "--save", str(where), "--save-format", "pb", *options]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return "took too long"
    if done.returncode:
        return f"exit {done.returncode}: " + done.stderr.decode(errors="replace")[-300:]
    outputs = []
    while (where / f"output_{len(outputs)}.pb").exists():
        tensor = onnx.TensorProto.FromString((where / f"output_{len(outputs)}.pb").read_bytes())
        outputs.append(onnx.numpy_helper.to_array(tensor))
    return outputs


def check(program, model, options):
    """(exit status, findings, what went wrong with infer itself or '')."""
    command = [program, "check", str(model), "--json", "-q", "-t", "1", *options]
    try:
        run = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return 124, [], "took too long"
    try:
        report = json.loads(run.stdout)
    except ValueError:
        return run.returncode, [], "no JSON: " + run.stderr.decode(errors="replace")[-300:]
    if report.get("exit_code", run.returncode) != run.returncode:
        return run.returncode, report.get("findings", []), "exit_code in JSON differs from the status"
    return run.returncode, report.get("findings", []), ""
