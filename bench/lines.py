#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast infer reads lines of text of many widths, beside a loop in Python.

usage: lines.py [--infer PROGRAM] [--device NAME] [--threads N] [--lines N] [--rounds N] [--model MODEL]

Draws lines of one to five words, of which about every second has a width of its own, and lets two programs take turns, each with
all that it takes from its start to its end:

  run      infer run 'lines/*.png', with --decode ctc and --jsonl
  python   onnxruntime and Pillow, one line after the other

and prints the rates, the ratio of the rates as a median over the rounds, the peak of infer's memory, and how many texts differ. MODEL
is a recognizer of PP-OCR, whose metadata have the characters; unless given, the one of `make deps`. Use a quiet machine.
"""

import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from PIL import Image, ImageDraw, ImageFont

WORDS = ("the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were "
         "we when your can said there use an each which she do how their if will up other about out many then them these so some her").split()

LOOP = r"""
import glob, json, sys
import numpy as np
import onnxruntime as ort
from PIL import Image
model, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = ort.SessionOptions()
options.intra_op_num_threads = threads
session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
name = session.get_inputs()[0].name
characters = [''] + session.get_modelmeta().custom_metadata_map['character'].splitlines() + [' ']
texts = []
for path in sorted(glob.glob(folder + '/*.png')):
    image = Image.open(path).convert('RGB')
    width = max(1, round(image.width * 48 / image.height))
    if image.size != (width, 48):
        image = image.resize((width, 48), Image.BILINEAR)
    x = (np.asarray(image, np.float32)[:, :, ::-1] / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    y = session.run(None, {name: np.ascontiguousarray(x.transpose(2, 0, 1))[None]})[0][0].argmax(1)
    texts.append(''.join(characters[k] for i, k in enumerate(y) if k and (not i or k != y[i - 1])))
print(json.dumps(texts))
"""


def draw_lines(folder, n):
    rng = random.Random(5)
    fonts = sorted(glob.glob("/usr/share/fonts/**/DejaVuSans.ttf", recursive=True))
    font = ImageFont.truetype(fonts[0], 30) if fonts else ImageFont.load_default(30)
    os.mkdir(folder)
    for i in range(n):
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))
        image = Image.new("RGB", (int(font.getlength(text)) + rng.randint(8, 24), 48), (255, 255, 255))
        ImageDraw.Draw(image).text((8, 6), text, fill=(0, 0, 0), font=font)
        image.save(f"{folder}/{i:05}.png")


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--infer", default="build/bin/infer")
    p.add_argument("--device", default="cpu")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--lines", type=int, default=500)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--model", default="build/deps/models/ch_PP-OCRv4_rec_infer.onnx")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        lines = f"{work}/lines"
        draw_lines(lines, a.lines)
        keys = "order=bgr,resize=x48,scale=1/255,mean=0.5/0.5/0.5,std=0.5/0.5/0.5"
        run = [a.infer, "run", a.model, "--input", f"{lines}/*.png,{keys}", "--decode", "ctc", "--labels", "meta:character", "--device", a.device,
               "--threads", str(a.threads), "--jsonl", f"{work}/lines.jsonl", "-q"]
        loop = [sys.executable, "-c", LOOP, a.model, lines, str(a.threads)]
        rates, peak, texts = {"run": [], "python": []}, 0, None
        for k in range(a.rounds):
            for what, command in (("run", run), ("python", loop)):
                start = time.perf_counter()
                process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                out = process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                rates[what].append(a.lines / (time.perf_counter() - start))
                if status:
                    sys.exit(f"{' '.join(command[:2])}: status {status}")
                if what == "run":
                    peak = max(peak, used.ru_maxrss // 1024)
                else:
                    texts = json.loads(out)
            print(f"round {k + 1}:", *(f"{what} {v[-1]:.1f}/s" for what, v in rates.items()), flush=True)
        with open(f"{work}/lines.jsonl", encoding="utf-8") as f:
            ours = [json.loads(line)["outputs"][0]["text"] for line in f]
    ours = [t[0] if isinstance(t, list) else t for t in ours]
    v = sorted(r / y for r, y in zip(rates["run"], rates["python"]))
    print(f"run / python  {statistics.median(v):.3f} ({v[0]:.3f} to {v[-1]:.3f}), peak {peak} MiB, "
          f"{sum(x != y for x, y in zip(ours, texts))} texts of {len(texts)} differ")


if __name__ == "__main__":
    main()
