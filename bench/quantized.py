#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies of models in 8 bits, made by ONNX Runtime's quantizer with random calibration data.

    quantized.py OUT MODEL[,DIM=N...]... [--kinds qdq,dynamic]

writes OUT/NAME.KIND.onnx, NAME up to the first point of the model's name. Those that are there already stay. Needs the
Python packages onnxruntime and onnx. The kinds, all of weights and activations of 8 bits, weights per channel unless said:

    qdq, qlinear   u8 activations, i8 weights, between QuantizeLinear and DequantizeLinear, or in operators of codes
    qdq7           qdq with weights of 7 bits (reduce_range)
    qdq_s8         i8 for both
    qdq_u8u8       u8 for both, per tensor
    dynamic        scales of activations computed in the run
"""
import argparse
import pathlib
import shutil
import sys
import tempfile

from compare import describe

KINDS = ("qdq", "qlinear", "qdq7", "qdq_s8", "qdq_u8u8", "dynamic")


def make(model, dims, kind, target):
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quant_pre_process, quantize_dynamic, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [{name: a.astype(a.dtype) for name, _, _, a in describe(str(model), dims)}]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "plain.onnx"
        try:
            quant_pre_process(str(model), str(plain), auto_merge=True)
        except Exception as e:  # shapes that it cannot infer: the quantizer takes the model as it is
            print(f"{model}: not prepared ({str(e)[:80]!r})", file=sys.stderr)
            onnx.save(onnx.load(model), plain)
        made = pathlib.Path(folder) / "made.onnx"
        if kind == "dynamic":
            quantize_dynamic(plain, made, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
        else:
            u8 = kind == "qdq_u8u8"
            quantize_static(plain, made, Reader(), quant_format=QuantFormat.QOperator if kind == "qlinear" else QuantFormat.QDQ, per_channel=not u8,
                            reduce_range=kind == "qdq7", activation_type=QuantType.QInt8 if kind == "qdq_s8" else QuantType.QUInt8,
                            weight_type=QuantType.QUInt8 if u8 else QuantType.QInt8)
        shutil.move(made, target)


def copies(out, models, kinds, dims=None):
    """The paths of the copies, which are made where they are missing, each with the sizes that came with its model."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for text in models:
        model, *given = text.split(",")
        sizes = {**(dims or {}), **{k: int(v) for k, v in (d.rsplit("=", 1) for d in given)}}
        for kind in kinds:
            target = out / f"{pathlib.Path(model).name.split('.')[0]}.{kind}.onnx"
            if not target.exists():
                try:
                    make(pathlib.Path(model), sizes, kind, target)
                except Exception as e:  # a model that the quantizer refuses
                    print(f"{target.name}: left out ({str(e)[:120]!r})", file=sys.stderr)
                    continue
            paths.append(",".join([str(target), *given]))
    return paths


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("model", nargs="+")
    p.add_argument("--kinds", type=lambda s: s.split(","), default=KINDS)
    a = p.parse_args()
    if unknown := set(a.kinds) - set(KINDS):
        p.error(f"no kind {', '.join(sorted(unknown))}")
    print(*copies(a.out, a.model, a.kinds, {"seq": 128}), sep="\n")


if __name__ == "__main__":
    main()
