#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare infer's outputs with ONNX Runtime's, model by model.

  verify.py INFER MODEL.onnx...        random inputs (seeded), outputs of both compared
  verify.py INFER --stored DIR...      DIR holds model.onnx, input_K.npy, output_K.npy

A model passes where the largest difference over the largest value is at most 1e-3
(3e-2 where the model computes in fp16). Needs numpy, onnx and onnxruntime.
Free dimensions are bound by DIMS (name=size), else to 1 or, for sequences, to 16.
"""
import pathlib, subprocess, sys, tempfile
import numpy as np

DIMS = {"batch": 2, "batch_size": 2, "N": 2, "seq": 24, "sequence": 24, "sequence_length": 24}
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(double)": np.float64, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8}


def make_inputs(session):
    rng = np.random.default_rng(0)
    feeds = {}
    for i in session.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else DIMS.get(d, 1) for d in i.shape]
        t = TYPES[i.type]
        if np.issubdtype(t, np.floating):
            feeds[i.name] = rng.standard_normal(shape).astype(t)
        elif "mask" in i.name:
            feeds[i.name] = np.ones(shape, t)
        else:
            feeds[i.name] = rng.integers(0, 2 if "type" in i.name else 1000, shape).astype(t)
    return feeds


def run_infer(infer, model, feeds, names):
    with tempfile.TemporaryDirectory() as d:
        args = [infer, "run", str(model), "-o", d + "/out", "-q", "--save-format", "npz"]
        for k, (name, x) in enumerate(feeds.items()):
            np.save(f"{d}/in{k}.npy", x)
            args += ["--input", f"{name}={d}/in{k}.npy"]
        p = subprocess.run(args, capture_output=True, text=True)
        if p.returncode:
            raise RuntimeError(f"exit {p.returncode}: {p.stderr.strip().splitlines()[:3]}")
        files = list(pathlib.Path(d, "out").glob("*.npz"))
        z = np.load(files[0])
        return [z[n] for n in names]


def distance(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"want {want.dtype}{list(want.shape)} got {got.dtype}{list(got.shape)}", float("inf")
    g, w = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(g), np.isfinite(w)):
        return "non-finite values differ", float("inf")
    ok = np.isfinite(w)
    d = np.abs(g[ok] - w[ok]).max(initial=0) / max(np.abs(w[ok]).max(initial=0), 1e-30)
    return f"{d:.2e}", d


def check(name, got, want, limit):
    parts = [distance(g, w) for g, w in zip(got, want)]
    bad = len(got) != len(want) or any(d > limit for _, d in parts)
    print(f"{'FAIL' if bad else 'ok':5} {name:50} {' '.join(t for t, _ in parts)}")
    return bad


def main():
    infer, rest = sys.argv[1], sys.argv[2:]
    failed = 0
    if rest[0] == "--stored":
        import onnx
        for d in map(pathlib.Path, rest[1:]):
            model = d / "model.onnx" if (d / "model.onnx").exists() else d.parent / "model.onnx"
            g = onnx.load(model, load_external_data=False).graph
            init = {i.name for i in g.initializer}
            names = [i.name for i in g.input if i.name not in init]
            feeds = {n: np.load(d / f"input_{k}.npy") for k, n in enumerate(names)}
            want = [np.load(d / f"output_{k}.npy") for k in range(len(g.output))]
            try:
                failed += check(str(d)[-50:], run_infer(infer, model, feeds, [o.name for o in g.output]), want, 1e-3)
            except RuntimeError as e:
                failed += 1
                print("FAIL ", d, e)
        return failed
    import onnxruntime as ort
    ort.set_default_logger_severity(3)
    for m in rest:
        s = ort.InferenceSession(m, providers=["CPUExecutionProvider"])
        feeds = make_inputs(s)
        names = [o.name for o in s.get_outputs()]
        want = s.run(None, feeds)
        half = ".ts16" in m or any(i.type == "tensor(float16)" for i in s.get_inputs())
        try:
            failed += check(pathlib.Path(m).name, run_infer(infer, m, feeds, names), want, 3e-2 if half else 1e-3)
        except RuntimeError as e:
            failed += 1
            print("FAIL ", m, e)
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
