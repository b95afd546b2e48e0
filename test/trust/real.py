#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real.py INFER FOLDER: each model of FOLDER on the same random inputs with ONNX Runtime and infer; no errors, equal outputs."""

import collections
import pathlib
import sys
import tempfile

import numpy as np

import bases
import infer
import oracle


def gaps(ours, theirs):
    text = ""
    for a, (name, b) in zip(ours, theirs.items()):
        if getattr(b, "dtype", np.dtype(object)).kind == "f" and a.shape == b.shape and b.size:
            text += f"; {name}: {np.abs(a.astype(float) - b).max():.3g} of {np.abs(b).max():.3g}"
        elif getattr(a, "shape", 0) != getattr(b, "shape", 0):
            text += f"; {name}: {getattr(a, 'shape', 0)}, not {getattr(b, 'shape', 0)}"
    return text


def main():
    program, folder = sys.argv[1:3]
    judges = oracle.Judges()
    count = collections.Counter()
    models = bases.load(folder, judges, most_bytes=1 << 30, most_seconds=1e9, report=print)
    for base in models:
        with tempfile.TemporaryDirectory() as place:
            options = infer.save_feeds(base.feeds, place)
            status, findings, wrong = infer.check(program, base.path, options)
            ours = infer.run(program, base.path, options, place)
        theirs = dict(enumerate(base.outputs.values()))
        if isinstance(ours, str):
            wrong += " run: " + ours
        elif not oracle.equal(dict(enumerate(ours)), theirs, 1e-2):
            wrong += " outputs differ from ONNX Runtime's" + gaps(ours, base.outputs)
        errors = [f for f in findings if f["severity"] == "error"]
        warnings = [f for f in findings if f["severity"] == "warning"]
        count["errors" if errors or wrong or status else "sound"] += 1
        count["warnings"] += bool(warnings)
        if errors or wrong or warnings or status:
            print(f"{base.path}: exit {status} {wrong}")
            for f in errors + warnings:
                print(f"    {f['id']} {f.get('where')} {f.get('message', '')} {f.get('expected', '')} {f.get('actual', '')}"[:400])
                for row in f.get("rows", [])[:4]:
                    print(f"        {row}")
    print(f"{len(models)} models; {count['errors']} with errors, {count['warnings']} with warnings")
    return 1 if count["errors"] else 0


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).exists() or sys.exit(f"{sys.argv[2]}: no such folder")
    sys.exit(main())
