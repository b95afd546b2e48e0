#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real.py INFER FOLDER: each model of FOLDER on the same random inputs with ONNX Runtime and infer; no errors, equal outputs."""

import collections
import pathlib
import sys
import tempfile

import bases
import infer
import oracle


def main():
    program, folder = sys.argv[1:3]
    judges = oracle.Judges()
    count = collections.Counter()
    models = bases.load(folder, judges, most_bytes=1 << 30, most_seconds=1e9, report=print)
    for base in models:
        with tempfile.TemporaryDirectory() as place:
            options = infer.save_feeds(base.feeds, place) + infer.save_expected(base.outputs, place)
            status, findings, wrong = infer.check(program, base.path, options)
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
