#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/run/: models and input files of test/cli/run*.bats, with what must come out.

Needs numpy, onnx and Pillow. The tests themselves need none of them: what this writes is committed.
"""
import gzip
import json
import os
import sys
import zipfile

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper, save
from PIL import Image

OUT = sys.argv[1] if len(sys.argv) > 1 else "test/data/run"
os.makedirs(OUT, exist_ok=True)
os.chdir(OUT)


def model(name, nodes, inputs, outputs, init=(), meta=None, opset=17):
    g = helper.make_graph(nodes, name, inputs, outputs, list(init))
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for k, v in (meta or {}).items():
        p = m.metadata_props.add()
        p.key, p.value = k, v
    save(m, name + ".onnx")


def same(name, dtype, shape, x="x", y="y", **more):
    """A model that gives back what it gets: what comes out is what was fed."""
    model(name, [helper.make_node("Identity", [x], [y])],
          [helper.make_tensor_value_info(x, dtype, shape)],
          [helper.make_tensor_value_info(y, dtype, shape)], **more)


# --- pictures: 24 x 16, smooth enough to be told apart by axes, rough enough to show a shift

W, H = 24, 16
yy, xx = np.mgrid[0:H, 0:W]
rng = np.random.default_rng(1)
rgb = np.stack([xx * 10, yy * 15, 255 - xx * 5 - yy * 3], -1) + rng.integers(-3, 4, (H, W, 3))
rgb = np.clip(rgb, 0, 255).astype(np.uint8)
alpha = np.clip(xx * 8 + yy, 0, 255).astype(np.uint8)
gray = rgb[..., 1].copy()

same("pic", T.FLOAT, [1, 3, H, W], x="images")
same("nhwc", T.FLOAT, [1, H, W, 3])
same("bytes", T.UINT8, [1, H, W, 3])
same("grays", T.FLOAT, [1, 1, H, W])
same("free", T.FLOAT, ["batch", 3, "h", "w"])
same("batch", T.FLOAT, ["batch", 3, H, W], x="images")
same("wide", T.UINT16, [1, 1, H, W])

im = Image.fromarray(rgb)
for ext, how in (("png", {}), ("bmp", {}), ("ppm", {}), ("tiff", {"compression": "tiff_lzw"}),
                 ("webp", {"lossless": True}), ("jp2", {"irreversible": False}),
                 ("jpg", {"quality": 95, "subsampling": 0})):
    im.save("rgb." + ext, **how)
Image.fromarray(np.dstack([rgb, alpha])).save("rgba.png")
Image.fromarray(gray).save("gray.png")
Image.fromarray(gray).save("gray.pgm")
im.quantize(200).save("palette.png")
palette = np.asarray(Image.open("palette.png").convert("RGB"))
Image.fromarray((gray.astype(np.uint16) * 257 + xx.astype(np.uint16))).save("deep.png")
with open("text.ppm", "w") as f:
    f.write("P3\n# plain\n%d %d\n255\n" % (W, H) + "\n".join(" ".join(map(str, p)) for p in rgb.reshape(-1, 3)) + "\n")


def raw(name, a):
    np.ascontiguousarray(a).tofile(name)


chw = np.ascontiguousarray(rgb.transpose(2, 0, 1)[None].astype(np.float32))
raw("rgb.f32", chw)                       # what an RGB picture is to pic.onnx
raw("bgr.f32", chw[:, ::-1])
raw("palette.f32", palette.transpose(2, 0, 1)[None].astype(np.float32))
raw("jpg.f32", np.asarray(Image.open("rgb.jpg")).transpose(2, 0, 1)[None].astype(np.float32))
raw("gray.f32", gray[None, None].astype(np.float32))
raw("deep.u16", (gray.astype(np.uint16) * 257 + xx.astype(np.uint16)))


def bilinear(a, h2, w2):
    def axis(n, m):
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        lo = np.floor(at).astype(int)
        return lo, np.minimum(lo + 1, n - 1), at - lo
    y0, y1, fy = axis(a.shape[0], h2)
    x0, x1, fx = axis(a.shape[1], w2)
    a = a.astype(np.float64)
    rows = a[y0] + (a[y1] - a[y0]) * fy[:, None, None]
    return rows[:, x0] + (rows[:, x1] - rows[:, x0]) * fx[None, :, None]


MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
small = (bilinear(rgb, 10, 13) / 255 - MEAN) / STD
raw("resized.f32", small.transpose(2, 0, 1)[None].astype(np.float32))
box = np.full((32, 32, 3), 114.0)
r = min(32 / W, 32 / H)
h2, w2 = round(H * r), round(W * r)
top, left = (32 - h2) // 2, (32 - w2) // 2
box[top:top + h2, left:left + w2] = bilinear(rgb, h2, w2)
raw("letterbox.f32", (box[..., ::-1] / 255).transpose(2, 0, 1)[None].astype(np.float32))

# --- raw files and .npy files that fit, and many that do not

raw("hwc.u8.bin", rgb)
raw("rgba.u8.bin", np.dstack([rgb, alpha]))
raw("chw.f64.bin", chw.astype(np.float64) / 255)
raw("chw.f16.bin", (chw / 255).astype(np.float16))
raw("chw.bf16.bin", ((chw / 255).view(np.uint32) >> 16).astype(np.uint16))
raw("chw.u8.bin", rgb.transpose(2, 0, 1))
raw("short.bin", chw.reshape(-1)[:900])
np.save("fits.npy", chw)
np.save("f64.npy", chw.astype(np.float64))
np.save("hwc.npy", rgb)
np.save("nhwc.npy", chw.transpose(0, 2, 3, 1).copy())
np.save("chw.npy", chw[0])
np.save("rgba.npy", np.dstack([rgb, alpha]))
np.save("other.npy", np.zeros((1, 3, 8, 8), np.float32))
np.save("flat.npy", chw.reshape(1, 3, -1))
np.save("fortran.npy", np.asfortranarray(chw))
np.save("big.npy", chw.astype(">f4"))
np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
with open("fits.npy", "rb") as f:
    whole = f.read()
with open("cut.npy", "wb") as f:
    f.write(whole[:3000])
with open("npy.bin", "wb") as f:
    f.write(whole)
with open("head.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'shape': (1,")

# the example of the manual: 640 x 640, as packed as a smooth picture is
yy, xx = np.mgrid[0:640, 0:640]
big = np.stack([xx // 3, yy // 64 * 9, 255 - xx // 3], -1).astype(np.uint8)
with gzip.GzipFile("img.bin.gz", "wb", mtime=0) as f:
    f.write(big.tobytes())
same("yolo", T.FLOAT, [1, 3, 640, 640], x="images")

# --- several inputs, names, dimensions

f32 = T.FLOAT
model("two", [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["diff"])],
      [helper.make_tensor_value_info("a", f32, ["n", 4]), helper.make_tensor_value_info("b", f32, ["n", 4])],
      [helper.make_tensor_value_info("sum", f32, ["n", 4]), helper.make_tensor_value_info("diff", f32, ["n", 4])])
a = np.arange(8, dtype=np.float32).reshape(2, 4)
b = np.ones((2, 4), np.float32)
np.save("a.npy", a)
np.save("b3.npy", np.ones((3, 4), np.float32))
np.savez("ab.npz", a=a, b=b)
np.savez_compressed("ab_packed.npz", a=a, b=b)
with zipfile.ZipFile("ab64.npz", "w") as z:       # zip64 fields although the members are small
    for k, v in (("a", a), ("b", b)):
        with z.open(k + ".npy", "w", force_zip64=True) as f:
            np.lib.format.write_array(f, v)
raw("a.bin", a)
os.makedirs("set", exist_ok=True)
for i, (k, v) in enumerate((("a", a), ("b", b))):
    with open("set/input_%d.pb" % i, "wb") as f:
        f.write(numpy_helper.from_array(v, k).SerializeToString())
with open("a.txt", "w") as f:
    f.write("# two rows\n0 1 2 3\n4,5,6,7\n")
with open("a.json", "w") as f:
    json.dump(a.tolist(), f)

table = numpy_helper.from_array(rng.standard_normal((7, 2)).astype(np.float32), "table")
model("ids", [helper.make_node("Gather", ["table", "input_ids"], ["e"]),
              helper.make_node("Cast", ["attention_mask"], ["m"], to=T.FLOAT),
              helper.make_node("Unsqueeze", ["m", "last"], ["m3"]),
              helper.make_node("Mul", ["e", "m3"], ["y"])],
      [helper.make_tensor_value_info(k, T.INT64, ["batch", "seq"]) for k in ("input_ids", "attention_mask")],
      [helper.make_tensor_value_info("y", f32, ["batch", "seq", 2])],
      [table, numpy_helper.from_array(np.array([-1]), "last")])
model("seq", [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)],
      [helper.make_tensor_sequence_value_info("s", f32, None)],
      [helper.make_tensor_value_info("y", f32, None)])
with open("s.pb", "wb") as f:
    f.write(helper.make_sequence("s", 1, [numpy_helper.from_array(v) for v in (a, b)]).SerializeToString())
same("words", T.STRING, ["n"])
with open("words.txt", "w") as f:
    f.write("plain\ntwo words\n\nümläut\n")
with open("words.json", "w") as f:
    f.write('["a\\"b", "\\u00e9\\ud83d\\ude00", ""]')
np.save("words.npy", np.array(["plain", "ümläut"]))
same("ints", T.INT64, [3])
same("scalar", f32, [])
same("nan", f32, [4])
np.save("nan.npy", np.array([1, np.nan, np.inf, 3], np.float32))
same("many", T.BFLOAT16, [3])

# --- text: "hello" over classes blank h e l o and space; time steps repeat and part by blanks

chars = ["h", "e", "l", "o"]
path = [0, 1, 1, 2, 0, 3, 3, 0, 3, 4, 0, 5, 1, 0]
scores = np.full((1, len(path), 6), 0.01, np.float32)
scores[0, np.arange(len(path)), path] = 0.9
np.save("ctc.npy", scores)
same("ctc", f32, [1, "t", 6], meta={"character": "\n".join(chars)})
for n in (3, 4, 5, 6, 7):
    with open("labels%d.txt" % n, "w") as f:
        f.write("".join(c + "\n" for c in (["_"] if n >= 6 else []) + (chars + ["!", "?"])[:n - (n >= 6)]))
last = np.roll(scores, -1, axis=2)  # the blank is class 5
np.save("ctc_last.npy", last)
same("classes", f32, [2, 4])
np.save("classes.npy", np.array([[0.1, 0.7, 0.15, 0.05], [5, np.nan, 5, 6]], np.float32))
with open("classes.txt", "w") as f:
    f.write("cat\ndog\nbird\nfish\n")

# an input that has a default: y = x * 2 * factor, factor 2 where it is not given
save(
    helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["factor", "factor"], ["sum"]), helper.make_node("Mul", ["x", "sum"], ["y"])],
            "default",
            [helper.make_tensor_value_info("x", 1, [3]), helper.make_tensor_value_info("factor", 1, [1])],
            [helper.make_tensor_value_info("y", 1, [3])],
            [numpy_helper.from_array(np.array([2], np.float32), "factor")],
        ),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    ),
    "default.onnx",
)
np.array([1, 2, 3], np.float32).tofile("three.bin")
np.array([0.5], np.float32).tofile("half.bin")
np.array([4, 8, 12], np.float32).tofile("by_default.f32")
np.array([1, 2, 3], np.float32).tofile("by_half.f32")

# some work for `infer profile`: three products of the same size, and a loop of eight steps around a body of two nodes
def tensor(name, a):
    return numpy_helper.from_array(np.asarray(a), name)


square = np.linspace(-0.1, 0.1, 64 * 64, dtype=np.float32).reshape(64, 64)
body = helper.make_graph(
    [
        helper.make_node("Identity", ["go"], ["going"], name="keep_going"),
        helper.make_node("Add", ["state", "state"], ["twice"], name="double"),
        helper.make_node("Tanh", ["twice"], ["next"], name="squash"),
    ],
    "body",
    [
        helper.make_tensor_value_info("i", T.INT64, []),
        helper.make_tensor_value_info("go", T.BOOL, []),
        helper.make_tensor_value_info("state", T.FLOAT, ["n", 64]),
    ],
    [
        helper.make_tensor_value_info("going", T.BOOL, []),
        helper.make_tensor_value_info("next", T.FLOAT, ["n", 64]),
    ],
)
save(
    helper.make_model(
        helper.make_graph(
            [
                helper.make_node("MatMul", ["x", "w"], ["m0"], name="first"),
                helper.make_node("Tanh", ["m0"], ["t0"], name="bend"),
                helper.make_node("MatMul", ["t0", "w"], ["m1"], name="second"),
                helper.make_node("Loop", ["trips", "", "m1"], ["y"], name="again", body=body),
            ],
            "work",
            [helper.make_tensor_value_info("x", T.FLOAT, ["n", 64])],
            [helper.make_tensor_value_info("y", T.FLOAT, ["n", 64])],
            [tensor("w", square), tensor("trips", np.int64(8))],
        ),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    ),
    "work.onnx",
)
