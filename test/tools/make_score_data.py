#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/scores/: outputs of made-up models, a made-up truth, and in want.txt the scores that scikit-learn, jiwer,
pycocotools and scikit-image compute of them, for test/cli/scores.bats.

Needs numpy, onnx, scikit-learn, jiwer, pycocotools and scikit-image. The tests themselves need none of them.
"""
import contextlib
import io
import json
import os
import sys

import jiwer
import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper, save
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from skimage.metrics import peak_signal_noise_ratio
from sklearn.metrics import accuracy_score, top_k_accuracy_score
from sklearn.metrics.pairwise import cosine_similarity

OUT = sys.argv[1] if len(sys.argv) > 1 else "test/data/scores"
os.makedirs(os.path.join(OUT, "reference"), exist_ok=True)
os.chdir(OUT)
r = np.random.default_rng(23)
want = {}


def model(name, nodes, shape_in, shape_out, init=()):
    g = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", T.FLOAT, shape_in)],
                          [helper.make_tensor_value_info("y", T.FLOAT, shape_out)], list(init))
    save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name + ".onnx")


def same(name, shape):
    model(name, [helper.make_node("Identity", ["x"], ["y"])], shape, shape)


# --- classes

same("classes", ["n", 10])
x = r.standard_normal((40, 10)).astype("f4")
y = np.where(r.random(40) < .4, x.argmax(1), r.integers(0, 10, 40))
np.save("classes.npy", x)
with open("classes.csv", "w") as f:
    f.write("input,class\n" + "".join(f"classes-{i:02d},{c}\n" for i, c in enumerate(y)))
with open("labels.txt", "w") as f:
    f.write("".join(f"kind {i}\n" for i in range(10)))
with open("names.csv", "w", newline="") as f:
    f.write("\ufeff" + "".join(f"classes.npy[{i}],\"kind {c}\"\r\n" for i, c in enumerate(y)))
want["top1"] = accuracy_score(y, x.argmax(1))
want["top5"] = top_k_accuracy_score(y, x, k=5, labels=range(10))

# --- texts

chars = list("abcdé日 ")
same("text", ["n", "t", len(chars) + 1])
x = np.zeros((20, 48, len(chars) + 1), "f4")
refs, hyps = [], []
for i in range(20):
    s = [int(k) for k in r.integers(0, len(chars), r.integers(1, 24))]
    for t in range(48):
        x[i, t, s[t // 2] + 1 if t % 2 and t // 2 < len(s) else 0] = 1
    hyps.append("".join(chars[k] for k in s))
    refs.append("".join(c if r.random() > .2 else str(r.choice(chars)) for c in hyps[-1]) if i % 5 else hyps[-1])
    refs[-1] = refs[-1] if refs[-1].strip() else "a, b"
np.save("text.npy", x)
with open("chars.txt", "w") as f:
    f.write("".join(c + "\n" for c in chars))
with open("text.csv", "w") as f:
    f.write("".join(f'text-{i:02d},"{t}"\n' for i, t in enumerate(refs)))
with open("text.tsv", "w") as f:
    f.write("".join(f"text-{i:02d}\t{t}\n" for i, t in enumerate(refs)))
want["wer"], want["cer"] = jiwer.wer(refs, hyps), jiwer.cer(refs, hyps)
want["exact"] = float(np.mean([a == b for a, b in zip(refs, hyps)]))

# --- pictures

same("pixels", ["n", 3, 4, 4])
a = r.random((10, 3, 4, 4)).astype("f4")
b = (a + r.standard_normal(a.shape) * .05).astype("f4")
np.save("pixels.npy", a)
np.save("reference/pixels.npy", b)
wide = [(p.astype("f8"), q.astype("f8")) for p, q in zip(a, b)]
want["psnr"] = float(np.mean([peak_signal_noise_ratio(q, p, data_range=1) for p, q in wide]))
want["psnr2"] = float(np.mean([peak_signal_noise_ratio(q, p, data_range=2) for p, q in wide]))
want["cosine"] = float(np.mean([cosine_similarity(p.reshape(1, -1), q.reshape(1, -1))[0, 0] for p, q in wide]))

# --- boxes: the model gives the first columns of its picture, [left, top, right, bottom, score, class]

model("boxes", [helper.make_node("Slice", ["x", "first", "end"], ["rows"]),
                helper.make_node("Squeeze", ["rows", "axis"], ["y"])], ["n", 1, 32, 32], ["n", 32, 6],
      [numpy_helper.from_array(np.array([0, 0, 0, 0]), "first"),
       numpy_helper.from_array(np.array([2 ** 31, 1, 32, 6]), "end"),
       numpy_helper.from_array(np.array([1]), "axis")])
x = np.zeros((16, 1, 32, 32), "f4")
cats, images, truth, found = [20, 3, 7], [], [], []
for i in range(16):
    images.append({"id": 900 - 7 * i, "file_name": f"boxes-{i:02d}", "width": 32, "height": 32})
    n = 0
    for _ in range(int(r.integers(0, 5))):
        left, top, w, h = (float(v) for v in np.concatenate([r.random(2) * 18, 3 + r.random(2) * 9]).round(2))
        c = int(r.integers(0, 3))
        truth.append({"id": len(truth) + 1, "image_id": images[-1]["id"], "category_id": sorted(cats)[c],
                      "bbox": [left, top, w, h], "area": w * h, "iscrowd": int(r.random() < .15)})
        for _ in range(int(r.integers(0, 4))):
            jitter = r.standard_normal(4) * .8
            x[i, 0, n, :6] = [left + jitter[0], top + jitter[1], left + w + jitter[2], top + h + jitter[3],
                              round(float(r.random()), 1) * .9 + .05, c if r.random() < .9 else r.integers(0, 3)]
            n += 1
    x[i, 0, :, :4] = x[i, 0, :, :4].clip(0, 32)
    for row in x[i, 0, :n]:
        left, top, right, bottom, score, c = (float(v) for v in row[:6])
        found.append({"image_id": images[-1]["id"], "category_id": sorted(cats)[int(c)], "score": score,
                      "bbox": [left, top, right - left, bottom - top]})
np.save("boxes.npy", x)
with open("coco.json", "w") as f:
    json.dump({"images": images, "annotations": truth, "categories": [{"id": c, "name": f"kind {c}"} for c in cats]}, f)
with open("kinds.txt", "w") as f:
    f.write("".join(f"kind {c}\n" for c in sorted(cats)))
with contextlib.redirect_stdout(io.StringIO()):
    coco = COCO("coco.json")
    e = COCOeval(coco, coco.loadRes(found), "bbox")
    e.evaluate(), e.accumulate(), e.summarize()
want["map"] = float(e.stats[0])

with open("want.txt", "w") as f:
    f.write("".join(f"{k} {float(v)!r}\n" for k, v in want.items()))
