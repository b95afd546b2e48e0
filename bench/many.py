#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast infer classifies a folder of pictures: beside its own inference alone, and beside a loop in Python.

usage: many.py [--infer PROGRAM] [--device NAME] [--threads N] [--pictures N] [--batch N] [--rounds N] [--model MODEL]

Makes pictures (500 x 375 JPEG) and, unless MODEL is given, a classifier of the size of ResNet-18 with random weights, and then
lets four programs take turns:

  run      infer run 'pics/*.jpg', with --jsonl and --top 1
  memory   infer profile with the same batch, whose inputs are in memory
  decode   infer run of a model that returns nothing but a mean: what decoding and resizing alone take
  python   onnxruntime and Pillow, one picture after the other, as such loops are written, with the same batch

and prints the rates and, as medians over the rounds, the ratios run / memory, run / python, and run / (memory and decode one after
the other, on the CPU, where both need the same cores). A MODEL must take f32 [N,3,224,224]. Use a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

LOOP = r"""
import glob, sys, time
import numpy as np
import onnxruntime as ort
from PIL import Image
model, folder, batch, threads, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
cuda = ['CUDAExecutionProvider'] if device.startswith('cuda') else []
session = ort.InferenceSession(model, options, providers=cuda + ['CPUExecutionProvider'])
if cuda and session.get_providers()[0] != cuda[0]:
    sys.exit('onnxruntime has no CUDA here')
name = session.get_inputs()[0].name
paths = sorted(glob.glob(folder + '/*.jpg'))
start = time.perf_counter()
for at in range(0, len(paths), batch):
    x = []
    for path in paths[at:at + batch]:
        p = np.asarray(Image.open(path).convert('RGB').resize((224, 224), Image.BILINEAR), np.float32)
        x.append(((p / np.float32(255) - mean) / std).transpose(2, 0, 1))
    session.run(None, {name: np.stack(x)})[0].argmax(1)
print(len(paths) / (time.perf_counter() - start))
"""


def save(path, nodes, weights, outputs):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])
    graph = helper.make_graph(nodes, "g", [x], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def make_classifier(path):
    """ResNet-18: its shapes, with weights that nobody has trained."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def conv(source, cin, cout, size, stride, relu):
        k = len(weights)
        w = rng.standard_normal((cout, cin, size, size), dtype=np.float32) * np.float32((2 / (cin * size * size)) ** 0.5)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("Conv", [source, f"w{k}"], [f"c{k}"], pads=[size // 2] * 4, strides=[stride] * 2))
        if relu:
            nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        return f"r{k}" if relu else f"c{k}"

    at = conv("x", 3, 64, 7, 2, True)
    nodes.append(helper.make_node("MaxPool", [at], ["pool"], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]))
    at, width = "pool", 64
    for stage, wide in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            side = at if stride == 1 and width == wide else conv(at, width, wide, 1, stride, False)
            inner = conv(conv(at, width, wide, 3, stride, True), wide, wide, 3, 1, False)
            nodes.append(helper.make_node("Add", [inner, side], [f"a{stage}{block}"]))
            nodes.append(helper.make_node("Relu", [f"a{stage}{block}"], [f"o{stage}{block}"]))
            at, width = f"o{stage}{block}", wide
    weights.append(numpy_helper.from_array(rng.standard_normal((512, 1000), dtype=np.float32), "fc"))
    nodes += [helper.make_node("GlobalAveragePool", [at], ["gap"]), helper.make_node("Flatten", ["gap"], ["flat"]),
              helper.make_node("MatMul", ["flat", "fc"], ["y"])]
    save(path, nodes, weights, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1000])])


def make_mean(path):
    nodes = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1, 2, 3], keepdims=0)]
    save(path, nodes, [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])])


def make_pictures(folder, n):
    """Smooth colours with some noise: they take as long to decode as photographs of this size."""
    rng = np.random.default_rng(1)
    os.mkdir(folder)
    for i in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        noisy = np.asarray(coarse, np.int16) + rng.integers(-12, 13, (375, 500, 3), dtype=np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(f"{folder}/{i:05}.jpg", quality=90)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--device", default="cpu")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pictures", type=int, default=1000)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--model")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        model = a.model or f"{work}/classifier.onnx"
        if not a.model:
            make_classifier(model)
        make_mean(f"{work}/mean.onnx")
        pics = f"{work}/pics"
        make_pictures(pics, a.pictures)
        keys = f"resize={SIDE}x{SIDE},scale=1/255,mean={'/'.join(map(str, MEAN))},std={'/'.join(map(str, STD))}"
        common = ["--threads", str(a.threads), "--json"]
        name = onnx.load(model, load_external_data=False).graph.input[0].name
        batch = onnx.load(model, load_external_data=False).graph.input[0].type.tensor_type.shape.dim[0].dim_param

        def output(command):
            r = subprocess.run(command, capture_output=True, text=True)
            if r.returncode:
                sys.exit(f"{' '.join(command)}: status {r.returncode}\n{r.stderr}")
            return r.stdout

        def run(path, device):
            inputs = json.loads(output([a.infer, "run", path, "--input", f"{pics}/*.jpg,{keys}", "--batch", str(a.batch), "--device", device,
                                        "--jsonl", f"{work}/out.jsonl", *common]))["inputs"]
            return inputs["done"] / inputs["seconds"]

        def memory():
            v = json.loads(output([a.infer, "profile", model, "--random", f"{name}=-2..2", "--dim", f"{batch}={a.batch}", "--device", a.device,
                                   "--duration", "5s", *common]))
            return a.batch / v["summary"][0]["median"]

        def loop():
            return float(output([sys.executable, "-c", LOOP, model, pics, str(a.batch), str(a.threads), a.device]))

        rates = {"run": [], "memory": [], "decode": [], "python": []}
        for k in range(a.rounds):
            for what, measure in (("run", lambda: run(model, a.device)), ("memory", memory), ("decode", lambda: run(f"{work}/mean.onnx", "cpu")),
                                  ("python", loop)):
                rates[what].append(measure())
            print(f"round {k + 1}:", *(f"{what} {v[-1]:.1f}/s" for what, v in rates.items()), flush=True)

    def ratio(values):
        v = sorted(values)
        return f"{statistics.median(v):.3f} ({v[0]:.3f} to {v[-1]:.3f})"

    rows = list(zip(*rates.values()))
    print("run / memory              ", ratio(r / m for r, m, d, y in rows))
    print("run / (memory and decode) ", ratio(r * (1 / m + 1 / d) for r, m, d, y in rows))
    print("run / python              ", ratio(r / y for r, m, d, y in rows))


if __name__ == "__main__":
    main()
