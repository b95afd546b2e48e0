#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency on a GPU beside ONNX Runtime's CUDA provider, the two taking turns.

    gpu_ort.py --models DIR --ours build/bench/gpu_models [--names resnet50,bert] [--batches 1,8,32]

DIR holds NAME.ts32.onnx and NAME.ts16.onnx (or NAME.dyn32.onnx). Inputs and outputs stay on the device; a line a
cell: ONNX Runtime's best mode (plain; CUDA graph; CUDA graph and NHWC), ours, and the quotient; then its geometric mean.
"""
import argparse
import math
import pathlib
import re
import statistics
import subprocess
import time

import numpy as np
import onnxruntime as ort

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
        [program, str(path), "-b", str(batch), "-p", precision, "-n", "200", "-s", "0"], capture_output=True, text=True
    ).stdout
    m = re.search(r"run\s+([\d.]+)\s+device\s+([\d.]+)", out)
    if not m:
        raise RuntimeError(out.strip()[-200:])
    return float(m[2])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--ours", required=True)
    p.add_argument("--names", default="resnet50,mobilenet_v3_large,efficientnet_b0,convnext_tiny,vit_base_patch16_224,bert,gpt2")
    p.add_argument("--batches", default="1,8,32")
    p.add_argument("--precisions", default="tf32,fp16")
    p.add_argument("--seconds", type=float, default=0.5)
    a = p.parse_args()
    ratios = []
    for name in a.names.split(","):
        for precision in a.precisions.split(","):
            path = a.models / f"{name}.{'ts16' if precision == 'fp16' else 'ts32'}.onnx"
            if not path.exists():
                path = a.models / f"{name}.dyn32.onnx"
            for batch in map(int, a.batches.split(",")):
                best, mode_of, mine = math.inf, "", math.inf
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
                ratio = best / mine
                ratios.append(ratio)
                note = " (its file is fp32)" if precision == "fp16" and "16" not in path.name else ""
                print(f"{name:22} {precision} b{batch:<3} ort {best:8.3f} ({mode_of:5}) ours {mine:8.3f}  {ratio:5.2f}{note}", flush=True)
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}, {len(ratios)} cells")


if __name__ == "__main__":
    main()
