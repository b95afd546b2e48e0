#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/data/media/: sounds and turned pictures of test/cli/media.bats, with what other libraries read from them.

Needs numpy, onnx, soundfile, soxr, Pillow and pillow-heif. The tests themselves need none of them: what this writes is
committed.
"""
import os
import sys

import numpy as np
import pillow_heif
import soundfile
import soxr
from onnx import TensorProto as T
from onnx import helper, save
from PIL import Image, ImageOps

OUT = sys.argv[1] if len(sys.argv) > 1 else "test/data/media"
os.makedirs(OUT, exist_ok=True)
os.chdir(OUT)
pillow_heif.register_heif_opener()


def same(name, dtype, shape):
    """A model that gives back what it gets."""
    g = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], name,
                          [helper.make_tensor_value_info("x", dtype, shape)],
                          [helper.make_tensor_value_info("y", dtype, shape)])
    save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name + ".onnx")


same("mono", T.FLOAT, [1, "n"])
same("flat", T.FLOAT, ["n"])
same("channels", T.FLOAT, [1, "c", "n"])
same("half", T.FLOAT16, [1, "n"])
same("ints", T.INT16, [1, "n"])
same("second", T.FLOAT, [1, 100])
same("pixels", T.UINT8, [1, 3, "h", "w"])
same("pieces", T.FLOAT, [1, 32])

# --- sounds: two channels, 0.05 s

rate, r = 22050, np.random.default_rng(17)
t = np.arange(rate // 20) / rate
x = np.stack([0.5 * np.sin(2 * np.pi * 440 * t), 0.3 * np.sin(2 * np.pi * 3000 * t) + 0.1 * r.standard_normal(t.size)], 1)
for name in ("s.wav", "s.flac", "s.ogg"):
    soundfile.write(name, x, rate)
    y, _ = soundfile.read(name, dtype="float32")
    stem = name.replace(".", "_")
    np.ascontiguousarray(y.T).tofile(stem + ".f32")
    soxr.resample(y.mean(axis=1), rate, 16000).tofile(stem + "_16k.f32")
y, _ = soundfile.read("s.wav", dtype="float32", start=rate // 50, frames=rate // 50)
y.mean(axis=1).tofile("part.f32")

# --- pictures: what each orientation shows

a = r.integers(0, 256, (5, 9, 3), dtype="u1")
for o in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = o
    for ext, how in (("jpg", {"quality": 95, "subsampling": 0, "exif": exif}), ("png", {"exif": exif}),
                     ("webp", {"lossless": True, "exif": exif}), ("tif", {"tiffinfo": {0x0112: o}})):
        name = f"{o}.{ext}"
        Image.fromarray(a).save(name, **how)
        upright = ImageOps.exif_transpose(Image.open(name)).convert("RGB")
        np.ascontiguousarray(np.asarray(upright).transpose(2, 0, 1)).tofile(f"{o}_{ext}.u8")
np.ascontiguousarray(np.asarray(Image.open("6.jpg")).transpose(2, 0, 1)).tofile("6_jpg_stored.u8")

# --- HEIF and AVIF: colours whose rounding differs by one between decoders

smooth = np.stack(np.meshgrid(np.arange(24) * 10, np.arange(16) * 15), -1).astype("u1")
smooth = np.dstack([smooth, np.full((16, 24), 60, "u1")])
exif = Image.Exif()
exif[0x0112] = 6
Image.fromarray(smooth).save("p.heic", quality=-1, chroma=444)
Image.fromarray(smooth).save("p.avif", quality=100, subsampling="4:4:4", exif=exif)
for ext in ("heic", "avif"):
    upright = ImageOps.exif_transpose(Image.open("p." + ext)).convert("RGB")
    np.ascontiguousarray(np.asarray(upright).transpose(2, 0, 1)).tofile(f"p_{ext}.u8")
