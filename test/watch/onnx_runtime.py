#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnx_runtime.py MODEL.onnx [beside] [RUNS]: a model through ONNX Runtime's CUDA provider, with arrays and with bound memory.

beside: torch works on the same device between the runs. Without the provider it says so and ends with 77.
"""
import sys

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def feeds(session):
    rng = np.random.default_rng(1)
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 if k == 0 else 128 for k, d in enumerate(i.shape)]
        kind = TYPES[i.type]
        if kind in (np.int64, np.int32):
            value = np.ones(shape) if "mask" in i.name else rng.integers(0, 2 if "type" in i.name else 1000, shape)
            yield i.name, value.astype(kind)
        else:
            yield i.name, rng.standard_normal(shape).astype(kind)


def main(path, beside, runs):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        print("no CUDA provider")
        return 77
    session = ort.InferenceSession(path, options, providers=["CUDAExecutionProvider"])
    if session.get_providers()[0] != "CUDAExecutionProvider":
        print("the CUDA provider was not taken")
        return 77
    values = dict(feeds(session))
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, "cuda", 0))
    for o in session.get_outputs():
        binding.bind_output(o.name, "cuda")
    if beside:
        import torch

        x = torch.ones(512, 512, device="cuda")
    for _ in range(runs):
        outputs = session.run(None, values)
        session.run_with_iobinding(binding)
        if beside:
            x = (x @ x).clamp(0, 1)
    print(path.split("/")[-1], "outputs", len(outputs), "finite", all(np.isfinite(o).all() for o in outputs if o.dtype != object))
    return 0


if __name__ == "__main__":
    words = sys.argv[2:]
    sys.exit(main(sys.argv[1], "beside" in words, next((int(w) for w in words if w.isdigit()), 30)))
