#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports small networks from PyTorch in several ways: test/data/diff/exports.tar.xz, which diff.bats reads.

    make_exports.py FOLDER

Each network is written as NAME.0.onnx and, by another exporter or with other options, as NAME.WAY.onnx. All files of one network
compute the same, so infer diff must tell no difference of operators, attributes or weights. Needs torch, onnx, and onnxscript; the
files in the archive are those of torch 2.15, onnxscript 0.7.2, onnx 1.23.2.
"""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
torch.backends.mha.set_fastpath_enabled(False)


class Pictures(nn.Module):
    """Convolutions with BatchNormalization, a gate over the channels as in MobileNet and EfficientNet, and a depthwise one."""

    def __init__(self):
        super().__init__()
        self.a, self.na = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.b, self.nb = nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8, eps=1e-3)
        self.down, self.up = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.c, self.nc = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = F.hardswish(self.na(self.a(x)))
        y = F.silu(self.nb(self.b(x)))
        y = y * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))))
        return self.last(torch.flatten(F.adaptive_avg_pool2d(x + self.nc(self.c(y)), 1), 1))


class Maps(nn.Module):
    """A small U-Net: transposed convolution, resizing, GroupNorm, concatenation."""

    def __init__(self):
        super().__init__()
        self.a, self.na, self.b, self.nb = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.up, self.c, self.norm, self.last = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = F.relu(self.na(self.a(x)))
        b = F.leaky_relu(self.nb(self.b(F.max_pool2d(a, 2))), 0.1)
        y = F.interpolate(self.norm(self.c(torch.cat([self.up(b), a], 1))), scale_factor=2.0, mode="bilinear")
        return self.last(y)


class Text(nn.Module):
    """A block of GPT: causal attention over an embedding, Gelu by tanh."""

    def __init__(self, width=8, heads=2, ids=20, most=16):
        super().__init__()
        self.heads, self.ids, self.places = heads, nn.Embedding(ids, width), nn.Embedding(most, width)
        self.n1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n2, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("mask", torch.tril(torch.ones(most, most)).view(1, 1, most, most))

    def forward(self, ids):
        b, t = ids.shape
        x = self.ids(ids) + self.places(torch.arange(t))
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).split(x.shape[-1], dim=2))
        a = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.out((a @ v).transpose(1, 2).reshape(b, t, -1))
        return x + self.narrow(F.gelu(self.wide(self.n2(x)), approximate="tanh"))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.ids, self.lstm, self.last = nn.Embedding(20, 4), nn.LSTM(4, 4, batch_first=True, bidirectional=True), nn.Linear(8, 3)

    def forward(self, ids):
        return self.last(self.lstm(self.ids(ids))[0][:, -1])


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def randomize(model):
    """Gives normalizations statistics that folding has to count with."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.3)
            m.running_var.uniform_(0.5, 2)
        if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.3)
    return model.eval()


ids = torch.randint(0, 20, (2, 6))
free = {0: torch.export.Dim("batch")}
NETWORKS = {
    "pictures": (Pictures, torch.randn(2, 3, 12, 12)),
    "maps": (Maps, torch.randn(2, 2, 8, 8)),
    "text": (Text, ids),
    "recurrent": (Recurrent, ids),
    "encoder": (encoder, torch.randn(2, 6, 8)),
}
OLD, NEW = {"dynamo": False}, {"dynamo": True, "external_data": False}
WAYS = {
    "0": {**OLD, "opset_version": 17},
    "unfolded": {**OLD, "opset_version": 16, "do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE},
    "free": {**OLD, "opset_version": 17, "dynamic_axes": {"x": {0: "batch"}}},
    "dynamo": {**NEW, "opset_version": 20},
    "unoptimized": {**NEW, "opset_version": 18, "optimize": False, "dynamic_shapes": (free,)},
}
for name, (make, x) in NETWORKS.items():
    torch.manual_seed(1)
    model = randomize(make())
    for way, options in WAYS.items():
        if name == "encoder" and way == "unoptimized":
            options = {**options, "dynamic_shapes": None}
        with torch.no_grad():
            torch.onnx.export(model, (x,), f"{sys.argv[1]}/{name}.{way}.onnx", input_names=["x"], output_names=["y"], verbose=False, **options)
