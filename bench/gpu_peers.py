#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Transformer encoders in PyTorch, eager and as one CUDA graph: the peers of bench/gpu_models.

usage: gpu_peers.py [MODEL...]    models: bert vit gpt2
A line a case: model, precision, batch, ms eager, ms CUDA graph; inputs and outputs on the device.
"""
import sys
import torch
import torch.nn.functional as F

SHAPES = {"bert": (128, 0), "vit": (197, 0), "gpt2": (128, 50257)}


class Layer(torch.nn.Module):
    def __init__(self, before, causal, tanh, d=768, heads=12):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.up, self.down = torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)
        self.n1, self.n2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.heads, self.before, self.causal, self.act = heads, before, causal, "tanh" if tanh else "none"

    def attend(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, s, d))

    def forward(self, x):
        if self.before:
            x = x + self.attend(self.n1(x))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate=self.act))
        x = self.n1(x + self.attend(x))
        return self.n2(x + self.down(F.gelu(self.up(x), approximate=self.act)))


class Stack(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.vocabulary = SHAPES[name][1]
        self.layers = torch.nn.ModuleList(Layer(name != "bert", name == "gpt2", name == "gpt2") for _ in range(12))
        self.norm = torch.nn.LayerNorm(768)
        if self.vocabulary:
            self.logits = torch.nn.Linear(768, self.vocabulary, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.logits(x) if self.vocabulary else x


def median_ms(f, runs=30):
    times = []
    for _ in range(runs):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[runs // 2]


def case(name, precision, batch):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    t = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    model = Stack(name).cuda().to(t).eval()
    x = torch.randn(batch, SHAPES[name][0], 768, device="cuda", dtype=t)
    with torch.inference_mode():
        for _ in range(3):
            model(x)
        torch.cuda.synchronize()
        eager = median_ms(lambda: model(x))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
        graph.replay()
        print(f"torch {name:5} {precision} b{batch:<3} eager {eager:8.3f} graph {median_ms(graph.replay):8.3f} ms", flush=True)


for n in sys.argv[1:] or SHAPES:
    for p in ("fp32", "tf32", "fp16"):
        for b in (1, 8, 32):
            case(n, p, b)
