#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency on a GPU beside PyTorch: eager, as one CUDA graph, and compiled (torch.compile, "reduce-overhead").

    gpu_peers.py [--names resnet50,bert] [--batches 1,8,32] [--precisions tf32,fp16,fp32] [--modes eager,graph,compile]
                 [--models DIR --ours build/bench/gpu_models]

Each model and precision is a process of its own. All of them compile at the same time; then one after the other measures,
and ours is measured right after it. Inputs and outputs stay on the device, and both are timed from the launch until the
device is done. Convolutional networks are channels-last, and cuDNN's benchmark mode is on. A line a cell: PyTorch's best
mode, ours, the quotient, and the floor's part of ours. The floor is the larger of the bytes of the weights at --bandwidth
and the operations at --rates (one rate for each precision). At the end a table and its geometric mean.
"""
import argparse
import math
import multiprocessing
import os
import pathlib
import statistics
import time

import gpu_ort

VISION = {"resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "vit_base_patch16_224"}
TOKENS = 128


def build(name):
    """The model and a function from a batch to its inputs."""
    import torch

    torch.manual_seed(0)
    if name in VISION:
        import torchvision

        model = torchvision.models.get_model({"vit_base_patch16_224": "vit_b_16"}.get(name, name), weights=None)
        return model, lambda b: (torch.randn(b, 3, 224, 224),)
    import transformers

    class Only(torch.nn.Module):
        """Takes the arguments by position, and returns one tensor."""

        def __init__(self, model, names, output):
            super().__init__()
            self.model, self.names, self.output = model, names, output

        def forward(self, *inputs):
            return getattr(self.model(**dict(zip(self.names, inputs)), return_dict=True), self.output)

    def ids(b, most):
        return torch.randint(0, most, (b, TOKENS))

    if name == "bert":
        model = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa"))
        names = ["input_ids", "attention_mask"]
        return Only(model, names, "last_hidden_state"), lambda b: (ids(b, 30522), torch.ones(b, TOKENS, dtype=torch.long))
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="sdpa", use_cache=False))
    return Only(model, ["input_ids"], "logits"), lambda b: (ids(b, 50257),)


def prepared(model, inputs, mode):
    """A function that runs the model once, after all that is done once."""
    import torch

    if mode == "eager":
        run = lambda: model(*inputs)
    elif mode == "compile":
        compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
        run = lambda: compiled(*inputs)
    else:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(*inputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            graph.kept = model(*inputs)
        run = graph.replay
    for _ in range(4):
        run()
    torch.cuda.synchronize()
    return run


def median_ms(run, seconds):
    import torch

    for _ in range(5):
        run()
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def work(model, inputs):
    """Bytes of the weights, and operations."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(*inputs)
    return sum(p.numel() * p.element_size() for p in model.parameters()), counter.get_total_flops()


def worker(name, precision, a, pipe):
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True
    kind = torch.float16 if precision == "fp16" else torch.float32
    model, inputs_of = build(name)
    model = model.cuda().eval().to(kind)
    if name in VISION:
        model = model.to(memory_format=torch.channels_last)
    runs, floors = {}, {}
    with torch.inference_mode():
        for batch in a.batches:
            inputs = tuple((i.to(kind) if i.is_floating_point() else i).cuda() for i in inputs_of(batch))
            if name in VISION:
                inputs = tuple(i.to(memory_format=torch.channels_last) for i in inputs)
            for mode in a.modes:
                if mode == "compile" and time.time() > a.until:
                    print(f"# {name} {precision} {batch} compile: no time left", flush=True)
                    continue
                try:
                    runs[batch, mode] = prepared(model, inputs, mode)
                except Exception as e:  # a mode that a model cannot run in
                    print(f"# {name} {precision} {batch} {mode}: {str(e)[:100]!r}", flush=True)
            size, flops = work(model, inputs)
            floors[batch] = max(size / a.bandwidth / 1e9, flops / a.rates[precision] / 1e9)
        pipe.send("ready")
        while (batch := pipe.recv()) is not None:
            pipe.send(({m: median_ms(runs[batch, m], a.seconds) for m in a.modes if (batch, m) in runs}, floors[batch]))


def measure(name, precision, pipe, a, cells):
    for batch in a.batches:
        pipe.send(batch)
        times, floor = pipe.recv()
        if not times:
            continue
        mode = min(times, key=times.get)
        line = f"{name:22} {precision} b{batch:<3} torch {times[mode]:8.3f} ({mode:7})"
        if a.ours:
            path = gpu_ort.file_of(a.models, name, precision)
            mine = gpu_ort.ours(a.ours, path, batch, precision)
            cells.setdefault(precision, {}).setdefault(name, {})[batch] = times[mode], mine, floor
            line += f" ours {mine:8.3f}  {times[mode] / mine:5.2f}  floor / ours {floor / mine:.2f}"
        print(line, *(f"{m} {t:.3f}" for m, t in times.items() if m != mode), flush=True)


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    p.add_argument("--names", type=words, default=sorted(VISION) + ["bert", "gpt2"])
    p.add_argument("--batches", type=lambda s: [int(b) for b in s.split(",")], default=[1, 8, 32])
    p.add_argument("--precisions", type=words, default=["tf32", "fp16"])
    p.add_argument("--modes", type=words, default=["eager", "graph", "compile"])
    p.add_argument("--seconds", type=float, default=0.3, help="time for each measurement")
    p.add_argument("--compile-seconds", type=float, default=math.inf, help="no compilation begins later than this")
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--ours")
    p.add_argument("--bandwidth", type=float, default=4.3, help="of the memory, TB/s")
    p.add_argument("--rates", type=lambda s: dict(r.split("=") for r in s.split(",")), default={}, help="TFLOP/s, as fp16=790")
    return p


def compare(a):
    """cells[precision][name][batch] = (PyTorch's best ms, ours, the floor's ms), where ours is asked for; prints a line a cell."""
    a.rates = {"fp16": 790, "tf32": 400, "fp32": 60} | {k: float(v) for k, v in a.rates.items()}
    a.until = time.time() + a.compile_seconds
    context, jobs, cells = multiprocessing.get_context("spawn"), [], {}
    for name in a.names:
        for precision in a.precisions:
            here, there = context.Pipe()
            process = context.Process(target=worker, args=(name, precision, a, there), daemon=True)
            process.start()
            there.close()
            jobs.append((name, precision, here, process))
    for job in jobs:
        try:
            job[2].recv()
        except EOFError:
            print(f"# {job[0]} {job[1]} ended", flush=True)
    for name, precision, pipe, process in jobs:
        try:
            measure(name, precision, pipe, a, cells)
            pipe.send(None)
        except (EOFError, BrokenPipeError):
            continue
        process.join()
    return cells


def main():
    p = parser()
    a = p.parse_args()
    if bool(a.ours) != bool(a.models):
        p.error("--models and --ours, or neither")
    cells = compare(a)
    if a.ours:
        gpu_ort.table(cells, "PyTorch")


if __name__ == "__main__":
    main()
