#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency on a GPU beside ONNX Runtime's CUDA provider, the two taking turns.

    gpu_ort.py --models DIR --ours build/bench/gpu_models [--names resnet50,bert] [--batches 1,8,32]
    gpu_ort.py --merge LOG...

DIR holds NAME.free32.onnx (gpu_gpt2.py makes them), NAME.ts32.onnx or NAME.dyn32.onnx, and the same with 16 in
float16. Inputs and outputs stay on the device; both are timed from the launch until the device is done. A line a cell:
ONNX Runtime's best mode (plain; CUDA graph; CUDA graph and NHWC), ours, and the quotient; at the end, or from
the logs of several runs (one a GPU, say), a table, its geometric mean and its least cell.
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import time

import numpy as np

MODES = {"plain": {}, "graph": {"enable_cuda_graph": "1"}, "nhwc": {"enable_cuda_graph": "1", "prefer_nhwc": "1"}}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def feeds(session, batch):
    rng = np.random.default_rng(1)
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else batch if k == 0 else 128 for k, d in enumerate(i.shape)]
        kind = TYPES[i.type]
        if kind in (np.int64, np.int32):
            high = 2 if "mask" in i.name or "type" in i.name else 1000
            yield i.name, (np.ones(shape) if "mask" in i.name else rng.integers(0, high, shape)).astype(kind)
        else:
            yield i.name, rng.standard_normal(shape).astype(kind)


def peer(path, batch, precision, mode, seconds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    provider = {"use_tf32": "1" if precision == "tf32" else "0", "cudnn_conv_algo_search": "EXHAUSTIVE", **MODES[mode]}
    session = ort.InferenceSession(str(path), options, providers=[("CUDAExecutionProvider", provider)])
    assert session.get_providers()[0] == "CUDAExecutionProvider", session.get_providers()
    binding, keep = session.io_binding(), []
    values = dict(feeds(session, batch))
    for name, value in values.items():
        keep.append(ort.OrtValue.ortvalue_from_numpy(value, "cuda", 0))
        binding.bind_ortvalue_input(name, keep[-1])
    if mode == "plain":
        for o in session.get_outputs():
            binding.bind_output(o.name, "cuda")
    else:
        plain = ort.InferenceSession(str(path), options, providers=["CUDAExecutionProvider"])
        for o, v in zip(session.get_outputs(), plain.run(None, values)):
            keep.append(ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(v), "cuda", 0))
            binding.bind_ortvalue_output(o.name, keep[-1])
        del plain
    run = ort.RunOptions()
    for _ in range(10):
        session.run_with_iobinding(binding, run)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run_with_iobinding(binding, run)  # waits for the device
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def ours(program, path, batch, precision):
    out = subprocess.run(
        [program, str(path), "-b", str(batch), "-p", precision, "-n", "200", "-d", "cuda"], capture_output=True, text=True
    ).stdout
    m = re.search(r"run\s+([\d.]+)\s+device\s+([\d.]+)", out)
    if not m:
        raise RuntimeError(out.strip()[-200:])
    return float(m[2])


LINE = re.compile(r"^(\w+) +(tf32|fp16) b(\d+) +ort +([\d.]+|inf|nan) \((\w*) *\) ours +([\d.]+|inf|nan)")


def table(cells, peer="ONNX Runtime"):
    """cells[precision][name][batch] = (the peer's ms, ours, ...)"""
    ratios = {}
    for precision, rows in cells.items():
        print(f"\n| {precision} | ours, ms | {peer}, ms | quotient |\n| --- | --- | --- | --- |")
        for name, row in rows.items():
            for batch, (theirs, mine, *_) in row.items():
                ratios[f"{name} {precision} batch {batch}"] = theirs / mine
            columns = ["/".join(f" {v[k]:.3f} " for v in row.values()).strip() for k in (1, 0)]
            quotients = " / ".join(f"{v[0] / v[1]:.2f}" for v in row.values())
            print(f"| {name} | {columns[0]} | {columns[1]} | {quotients} |")
    if not ratios:
        return
    least = min(ratios, key=ratios.get)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    print(f"\nbatch {' / '.join(map(str, sorted({b for r in cells.values() for c in r.values() for b in c})))};", end=" ")
    print(f"geometric mean {mean:.2f}, least {ratios[least]:.2f} ({least}), {len(ratios)} cells")


def merge(logs):
    cells = {"tf32": {}, "fp16": {}}
    for log in logs:
        for line in pathlib.Path(log).read_text().splitlines():
            m = LINE.match(line)
            if m and all(math.isfinite(float(m[k])) for k in (4, 6)):
                cells[m[2]].setdefault(m[1], {})[int(m[3])] = (float(m[4]), float(m[6]))
    table(cells)


def file_of(folder, name, precision):
    bits = "16" if precision == "fp16" else "32"
    for kind in ("free" + bits, "ts" + bits, "dyn" + bits, "free32", "ts32", "dyn32"):
        path = folder / f"{name}.{kind}.onnx"
        if path.exists():
            return path.resolve()  # ONNX Runtime wants the weights beside it, and follows no symbolic link
    raise SystemExit(f"{folder} has no {name}")


def cell(a, name, precision, batch):
    path = file_of(a.models, name, precision)
    best, mode_of = math.inf, ""
    for mode in MODES:
        try:
            t = peer(path, batch, precision, mode, a.seconds)
        except Exception as e:  # a mode that a model cannot run in
            print(f"# {name} {precision} {batch} {mode}: {str(e)[:100]}", flush=True)
            continue
        if t < best:
            best, mode_of = t, mode
    try:
        mine = min(ours(a.ours, path, batch, precision) for _ in range(2))
    except RuntimeError as e:
        print(f"# {name} {precision} {batch} ours: {e}", flush=True)
        mine = math.nan
    note = " (its file is fp32)" if precision == "fp16" and "16" not in path.name else ""
    ratio = best / mine
    print(f"{name:22} {precision} b{batch:<3} ort {best:8.3f} ({mode_of:5}) ours {mine:8.3f}  {ratio:5.2f}{note}", flush=True)
    return best, mine


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--ours")
    p.add_argument("--names", default="resnet50,mobilenet_v3_large,efficientnet_b0,convnext_tiny,vit_base_patch16_224,bert,gpt2")
    p.add_argument("--batches", default="1,8,32")
    p.add_argument("--precisions", default="tf32,fp16")
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--merge", nargs="+", metavar="LOG")
    a = p.parse_args()
    if a.merge:
        return merge(a.merge)
    if not a.models or not a.ours:
        p.error("--models and --ours, or --merge")
    global ort
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    cells = {}
    for name in a.names.split(","):
        for precision in a.precisions.split(","):
            for batch in map(int, a.batches.split(",")):
                pair = cell(a, name, precision, batch)
                if all(map(math.isfinite, pair)):
                    cells.setdefault(precision, {}).setdefault(name, {})[batch] = pair
    table(cells)


if __name__ == "__main__":
    main()
