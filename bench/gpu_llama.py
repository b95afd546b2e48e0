#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding with a Llama of 1.2 billion parameters in fp16, beside torch and beside the memory's speed, on one GPU.

usage: gpu_llama.py [--infer PROGRAM] [--batch N,...] [--past N] [--steps N] [--layers N] [--model FILE] [--peak TB/S]

Makes the model (16 layers of 2,048, 32 heads that share 8 heads of keys, feed-forward of 8,192, 32,000 words; weights that nobody
has trained), and lets take turns, for each batch:

  infer  infer profile --prefill PAST --decode STEPS: the middle time of an id
  torch  the same layers with a cache of fixed size, compiled by torch.compile, each step one CUDA graph, ids chosen on the device

The floor is what a step must read at least, weights and cache, at PEAK (4.3 TB/s, an H200's). Needs numpy and onnx, and torch for
the peer. Use a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

SIZE, HEADS, KV, HEAD, WIDE, WORDS, LONGEST = 2048, 32, 8, 64, 8192, 32000, 4096


def make_model(path, layers):
    rng = np.random.default_rng(0)
    pool = rng.standard_normal(1 << 22).astype(np.float16)
    nodes, weights = [], []

    def weight(*shape, scale=None):
        at = int(rng.integers(0, 1 << 21))
        w = np.resize(pool[at:at + (1 << 21)], shape) * np.float16(scale or shape[0] ** -0.5)
        weights.append(numpy_helper.from_array(w.astype(np.float16), f"w{len(weights)}"))
        return weights[-1].name

    def op(kind, *ins, out=None, domain="", **attrs):
        out = out or [f"v{len(nodes)}"]
        nodes.append(h.make_node(kind, list(ins), out, f"{kind}_{len(nodes)}", domain=domain, **attrs))
        return out[0]

    def norm(x):
        weights.append(numpy_helper.from_array(np.ones(SIZE, np.float16), f"w{len(weights)}"))
        return op("SimplifiedLayerNormalization", x, weights[-1].name, axis=-1, epsilon=1e-5)

    angle = np.outer(np.arange(LONGEST), 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD))
    for name, f in (("cos", np.cos), ("sin", np.sin)):
        weights.append(numpy_helper.from_array(f(angle).astype(np.float16), name))
    ins = [h.make_tensor_value_info("input_ids", T.INT64, ["batch", "sequence"]),
           h.make_tensor_value_info("seqlens_k", T.INT32, ["batch"]),
           h.make_tensor_value_info("total_sequence_length", T.INT32, [])]
    outs = [h.make_tensor_value_info("logits", T.FLOAT16, ["batch", "sequence", WORDS])]
    x = op("Gather", weight(WORDS, SIZE, scale=1), "input_ids")
    for i in range(layers):
        y = norm(x)
        q, k, v = (op("MatMul", y, weight(SIZE, n * HEAD)) for n in (HEADS, KV, KV))
        past = [f"past_key_values.{i}.{part}" for part in ("key", "value")]
        new = [f"present.{i}.{part}" for part in ("key", "value")]
        ins += [h.make_tensor_value_info(p, T.FLOAT16, ["batch", KV, "past_sequence_length", HEAD]) for p in past]
        outs += [h.make_tensor_value_info(p, T.FLOAT16, ["batch", KV, "total_length", HEAD]) for p in new]
        a = op("GroupQueryAttention", q, k, v, *past, "seqlens_k", "total_sequence_length", "cos", "sin", out=[f"a{i}", *new],
               domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV, do_rotary=1)
        x = op("Add", x, op("MatMul", a, weight(SIZE, SIZE)))
        y = norm(x)
        gate, up = op("MatMul", y, weight(SIZE, WIDE)), op("MatMul", y, weight(SIZE, WIDE))
        y = op("Mul", op("Mul", gate, op("Sigmoid", gate)), up)
        x = op("Add", x, op("MatMul", y, weight(WIDE, SIZE)))
    op("MatMul", norm(x), weight(SIZE, WORDS), out=["logits"])
    graph = h.make_graph(nodes, "llama", ins, outs, weights)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18), h.make_opsetid("com.microsoft", 1)], ir_version=9)
    onnx.save(model, path, save_as_external_data=True, location=os.path.basename(path) + ".data")


def floor_s(args, batch):
    """What a step must read, weights and cache, at the memory's speed."""
    each = SIZE * (HEADS + 2 * KV) * HEAD + SIZE * SIZE + 3 * SIZE * WIDE
    weights = 2 * (args.layers * each + WORDS * SIZE)
    cache = 2 * 2 * args.layers * batch * KV * HEAD * (args.past + args.steps // 2)
    return (weights + cache) / args.peak / 1e12


def infer_time(args, path, batch):
    command = [args.infer, "profile", path, "--feed", "present.*=past_key_values.*", "--next", "input_ids=argmax:logits", "--prefill",
               str(args.past), "--decode", str(args.steps), "--dim", f"batch={batch}", "-d", "cuda", "--json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(told.stdout)["decode"]["id_s"]


def torch_time(args, layers, batch):
    import torch
    import torch.nn.functional as F

    device, half, room = "cuda", torch.float16, args.past + args.steps + 8
    made = [[torch.randn(n, m, device=device, dtype=half) * m ** -0.5
             for n, m in ((HEADS * HEAD, SIZE), (KV * HEAD, SIZE), (KV * HEAD, SIZE), (SIZE, SIZE), (WIDE, SIZE), (WIDE, SIZE), (SIZE, WIDE))]
            for _ in range(layers)]
    words, last = (torch.randn(WORDS, SIZE, device=device, dtype=half) for _ in range(2))
    one = torch.ones(SIZE, device=device, dtype=half)
    cache = [[torch.zeros(batch, KV, room, HEAD, device=device, dtype=half) for _ in range(2)] for _ in range(layers)]
    angle = torch.outer(torch.arange(room), 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))
    cos, sin = angle.cos().to(device, half), angle.sin().to(device, half)

    def turn(x, at):
        a, b = x.chunk(2, -1)
        c, s = cos[at], sin[at]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def step(ids, at):
        x = words[ids]
        seen = torch.arange(room, device=device) <= at
        for w, (keys, values) in zip(made, cache):
            y = F.rms_norm(x, (SIZE,), one, 1e-5)
            q, k, v = ((y @ w[i].T).view(batch, 1, -1, HEAD).transpose(1, 2) for i in range(3))
            keys.index_copy_(2, at, turn(k, at))
            values.index_copy_(2, at, v)
            y = F.scaled_dot_product_attention(turn(q, at), keys, values, attn_mask=seen[None, None, None], enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(batch, 1, SIZE) @ w[3].T
            y = F.rms_norm(x, (SIZE,), one, 1e-5)
            x = x + (F.silu(y @ w[4].T) * (y @ w[5].T)) @ w[6].T
        return (F.rms_norm(x, (SIZE,), one, 1e-5) @ last.T).argmax(-1)

    compiled = torch.compile(step, fullgraph=True)
    ids, at = torch.zeros(batch, 1, device=device, dtype=torch.long), torch.tensor([args.past], device=device)
    aside, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.no_grad():
        with torch.cuda.stream(aside):
            for _ in range(3):
                compiled(ids, at)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            ids.copy_(compiled(ids, at))
            at += 1
        times = []
        for _ in range(5):
            at.fill_(args.past)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(args.steps):
                graph.replay()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / args.steps)
    return statistics.median(times)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--batch", default="1,16")
    p.add_argument("--past", type=int, default=512)
    p.add_argument("--steps", type=int, default=128)
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--model")
    p.add_argument("--peak", type=float, default=4.3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.model or os.path.join(folder, "llama.onnx")
        if not os.path.exists(path):
            make_model(path, args.layers)
        for batch in map(int, args.batch.split(",")):
            floor = floor_s(args, batch)
            ours = infer_time(args, path, batch)
            print(f"batch {batch}: infer {ours * 1e3:.3f} ms an id, {ours / floor:.2f} of the floor of {floor * 1e3:.3f} ms", flush=True)
            try:
                torch_s = torch_time(args, args.layers, batch)
            except ImportError:
                continue
            print(f"batch {batch}: torch {torch_s * 1e3:.3f} ms an id; torch / infer {torch_s / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
