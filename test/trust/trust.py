#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Error rates of `infer check` on faults planted into real models, and on sound variants of them: see docs/trust.md.

Case K of a seed is the same each time, whatever the other options are: --only CLASS --case K repeats one.
"""

import argparse
import collections
import contextlib
import json
import math
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx

import bases
import faults
import infer
import oracle
import sound

SHOWN = 60  # characters of a name that a message shows at least; it cuts longer ones
TRIES = 40  # models tried for a case until its class applies and the judges agree that it is a fault


def wilson(found, count, z=1.959964):
    """The 95 % interval of a rate of which `found` in `count` were seen, by Wilson."""
    if not count:
        return 0.0, 1.0
    rate, square = found / count, z * z
    middle = (rate + square / (2 * count)) / (1 + square / count)
    half = z * math.sqrt(rate * (1 - rate) / count + square / (4 * count * count)) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def first_not_finite(plan, values):
    """The first node of the file whose output is not finite."""
    for node in plan.graph.node:
        for name in node.output:
            value = values.get(name)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
                return node
    return None


def is_fault(judges, plan, kind, place):
    """Whether the judges agree that what was planted is a fault of this kind; the verdict does not depend on infer."""
    if kind in ("input", "fact"):
        return True
    data = plan.bytes if plan.bytes is not None else plan.model.SerializeToString()
    if kind == "nonfinite":
        values = bases.trace(judges, onnx.load_from_string(data), plan.feeds)
        if values is None or oracle.finite(values[o.name] for o in plan.graph.output):
            return False
        if plan.name is None and plan.nodes is None:
            node = first_not_finite(plan, values)
            plan.nodes = {node.name} if node else None
            plan.nodes_by_run = True
            return node is not None
        return True
    if kind == "refused":
        if plan.files or plan.bytes is not None:
            data = str(place / "model.onnx")
        return oracle.refused(judges.ask("ort", data, plan.feeds)) or oracle.refused(judges.ask("checker", data))
    answer = judges.ask("ort", data, plan.feeds)
    if oracle.refused(answer):
        return False
    outputs = answer[0]
    if kind == "zero":
        return any(isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size > 1 and not v.any() for v in outputs.values())
    if kind == "differs":
        return oracle.finite(outputs.values()) and not oracle.equal(outputs, plan.base.outputs, 0.05)
    if kind == "random":
        again = judges.ask("ort-twice", data, plan.feeds)
        return not oracle.refused(again) and oracle.finite(outputs.values()) and not oracle.equal(outputs, again[0], 1e-2)
    if kind == "batch":
        name = next(iter(plan.feeds))
        two = np.concatenate([plan.feeds[name]] * 2)
        return oracle.refused(judges.ask("ort", data, {name: two}))
    return oracle.finite(outputs.values()) and oracle.equal(outputs, plan.base.outputs, 0.05 if kind == "equal-loosely" else 1e-3)


def write_plan(plan, place):
    """The case as files in `place`, and the options of infer."""
    (place / "model.onnx").write_bytes(plan.bytes if plan.bytes is not None else plan.model.SerializeToString())
    for name, data in plan.files.items():
        (place / name).write_bytes(data)
    plain = {k: v for k, v in plan.feeds.items() if k not in plan.file_of_input}
    options = infer.save_feeds(plain, place)
    for k, (name, (suffix, data, keys)) in enumerate(plan.file_of_input.items()):
        path = place / f"planted_{k}{suffix}"
        if data is None:
            np.save(path, plan.feeds[name])
        else:
            path.write_bytes(data)
        options += ["--input", f"{name}={path}{keys}"]
    for option in plan.options:
        if option == "EXPECT":
            for k, (name, value) in enumerate(plan.base.outputs.items()):
                if isinstance(value, np.ndarray):
                    np.save(place / f"expected_{k}.npy", value)
                    options += ["--expect", f"{name}={place}/expected_{k}.npy"]
        else:
            options.append(option)
    return options


def words(value):
    """All text of a finding, as it is: JSON would put a backslash before each quote of a name."""
    if isinstance(value, dict):
        return " ".join(words(v) for v in value.values())
    if isinstance(value, list):
        return " ".join(words(v) for v in value)
    return str(value)


def about_node(finding, nodes):
    where = finding.get("where") or {}
    node = where.get("node") or ""
    if node in nodes or any(node.startswith(n + "/") for n in nodes):  # NODE/INNER: a node in the body of a function that NODE calls
        return True
    text = words(finding)
    return any(f"'{n}'" in text for n in nodes)


def judge_findings(plan, spec, status, findings):
    """What of id, node, cause and exit status is right, of the best finding."""
    best = dict(id=False, node=False, cause=False)
    ids = plan.ids or spec["ids"]
    for f in findings:
        if not faults.matches(f"^({ids})$", f["id"]):
            continue
        text = words(f)
        node = (plan.nodes is None or about_node(f, plan.nodes)) and (plan.nodes is not None or plan.name is None or plan.name[:SHOWN] in text)
        said = dict(id=True, node=node, cause=faults.matches(plan.cause or spec["cause"], text))
        if sum(said.values()) > sum(best.values()):
            best = said
    wanted = plan.exit if plan.exit is not None else spec["exit"]
    best["exit"] = plan.free_exit or wanted is None or status == wanted
    return best


def plant(options, judges, models, name, case, place):
    """A plan that the judges call a fault, or None."""
    spec = faults.CLASSES[name]
    rng = random.Random(f"{options.seed}:{name}:{case}")
    for _ in range(TRIES):
        base = rng.choice(models)
        plan = faults.Plan(base, rng, judges)
        plan.exit = spec["exit"]
        if spec["plant"](plan) is False:
            continue
        plan.free_exit = plan.exit is None
        for f in place.iterdir():
            f.unlink()
        arguments = write_plan(plan, place)
        if is_fault(judges, plan, spec["judge"], place):
            return plan, arguments
    return None


def keep(options, kind, name, case, place, record):
    """A case that went wrong stays under --out, with the command that repeats it."""
    folder = pathlib.Path(options.out) / kind / f"{name}-{case}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(place, folder)
    text = record["command"].replace(str(place), str(folder))
    (folder / "case.txt").write_text(text + "\n" + json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def try_fault(options, judges, models, name, case):
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        place = pathlib.Path(folder)
        made = plant(options, judges, models, name, case, place)
        if made is None:
            return None
        plan, arguments = made
        status, findings, wrong = infer.check(options.infer, place / "model.onnx", arguments)
        said = judge_findings(plan, faults.CLASSES[name], status, findings)
        if said["id"] and not said["node"] and plan.nodes_by_run:
            node = first_not_finite(plan, bases.trace(judges, onnx.load(place / "model.onnx"), plan.feeds, "reference") or {})
            plan.nodes |= {node.name} if node else set()
            said = judge_findings(plan, faults.CLASSES[name], status, findings)
        record = dict(kind="fault", name=name, case=case, base=plan.base.name, expected=dict(ids=faults.CLASSES[name]["ids"], nodes=sorted(plan.nodes or [])[:8], name=plan.name, cause=faults.CLASSES[name]["cause"], exit=plan.exit), said=said, status=status, wrong=wrong, findings=findings[:12])
        record["command"] = " ".join([options.infer, "check", str(place / "model.onnx"), *arguments])
        if not all(said.values()) or wrong:
            keep(options, "missed", name, case, place, record)
        return record


def make_variant(options, judges, models, name, case, place):
    spec = sound.CLASSES[name]
    rng = random.Random(f"{options.seed}:{name}:{case}")
    for _ in range(TRIES):
        base = rng.choice(models)
        with contextlib.redirect_stdout(open(os.devnull, "w")), contextlib.redirect_stderr(open(os.devnull, "w")):
            try:
                variant = sound.Variant(base, rng, judges, place)
                if spec["make"](variant) is False:
                    continue
                path = place / "model.onnx"
                if variant.external:
                    onnx.save(variant.model, path, save_as_external_data=True, location="weights.bin", size_threshold=256)
                else:
                    onnx.save(variant.model, path)
            except Exception:  # the tool that makes the variant cannot make this one
                continue
        answer = judges.ask("ort", str(path), variant.feeds)
        if oracle.refused(answer) or not oracle.finite(answer[0].values()):
            continue
        outputs = answer[0]
        if spec["same"] == "close":  # ONNX Runtime computes in fp32 here, so it does not see what overflows in fp16
            reference = judges.ask("reference", str(path), variant.feeds)
            if not oracle.refused(reference) and not oracle.finite(reference[0].values()):
                continue
        if name != "other-input" and spec["same"] != "runs":
            shared = {k: v for k, v in outputs.items() if k in base.outputs}
            if not oracle.equal(shared, base.outputs, 1e-3 if spec["same"] == "equal" else 0.05):
                continue
        if any(isinstance(v, np.ndarray) and v.dtype.kind == "f" and v.size > 1 and not v.any() for v in outputs.values()):
            continue
        return variant, outputs
    return None


def second_opinion(judges, path, feeds, ours, rtol):
    """What is wrong with outputs that differ from ONNX Runtime's: nothing if they are those of onnx.reference."""
    answer = judges.ask("reference", str(path), feeds)
    if oracle.refused(answer):
        return "outputs differ from ONNX Runtime's; onnx.reference cannot run the model"
    agree = oracle.equal(dict(enumerate(ours)), dict(enumerate(answer[0].values())), rtol)
    return "" if agree else "outputs differ from ONNX Runtime's and from those of onnx.reference"


def try_sound(options, judges, models, name, case):
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        place = pathlib.Path(folder)
        made = make_variant(options, judges, models, name, case, place)
        if made is None:
            return None
        variant, outputs = made
        arguments = infer.save_feeds(variant.feeds, place)
        status, findings, wrong = infer.check(options.infer, place / "model.onnx", arguments)
        errors = [f for f in findings if f["severity"] == "error"]
        warnings = [f for f in findings if f["severity"] == "warning"]
        true = [f["id"] for f in warnings if sound.holds(f, variant, judges)]
        false = [f for f in warnings if f["id"] not in true]
        differs = ""
        rtol = {"equal": 1e-2, "runs": 5e-2}.get(sound.CLASSES[name]["same"])
        if rtol and not errors:
            ours = infer.run(options.infer, place / "model.onnx", arguments, place)
            if isinstance(ours, str):
                differs = ours
            elif not oracle.equal(dict(enumerate(ours)), dict(enumerate(outputs.values())), rtol):
                differs = second_opinion(judges, place / "model.onnx", variant.feeds, ours, rtol)
        record = dict(kind="sound", name=name, case=case, base=variant.base.name, status=status, wrong=wrong, differs=differs, errors=errors[:6], false=false[:6], true=true)
        record["command"] = " ".join([options.infer, "check", str(place / "model.onnx"), *arguments])
        if errors or false or wrong or status or differs:
            keep(options, "accused", name, case, place, record)
        return record


def percent(found, count):
    low, high = wilson(found, count)
    return f"{100 * found / count:.1f} % ({100 * low:.1f} to {100 * high:.1f})" if count else "-"


def tables(records):
    """The two tables of docs/trust.md."""
    lines = ["| class of fault | planted | found | id | node | cause | exit | found, 95 % interval |", "| --- | --: | --: | --: | --: | --: | --: | --: |"]
    rows = collections.defaultdict(list)
    for r in records:
        if r["kind"] == "fault":
            rows[r["name"]].append(r["said"])
    everything = [s for said in rows.values() for s in said]
    for name in faults.CLASSES:
        rows[name]  # a class that could not be planted has a row as well
    for name, said in [*sorted(rows.items()), ("**all**", everything)]:
        found = sum(all(s.values()) for s in said)
        parts = " | ".join(str(sum(s[k] for s in said)) for k in ("id", "node", "cause", "exit"))
        lines.append(f"| {name} | {len(said)} | {found} | {parts} | {percent(found, len(said))} |")
    lines += ["", "| class of sound variant | made | with an error | with a false warning | with a true warning | other outputs |", "| --- | --: | --: | --: | --: | --: |"]
    rows = collections.defaultdict(list)
    for r in records:
        if r["kind"] == "sound":
            rows[r["name"]].append(r)
    everything = [r for some in rows.values() for r in some]
    for name, some in [*sorted(rows.items()), ("**all**", everything)]:
        errors = sum(bool(r["errors"] or r["wrong"] or r["status"]) for r in some)
        warned = sum(bool(r["false"]) for r in some)
        lines.append(f"| {name} | {len(some)} | {errors} | {warned} | {sum(bool(r['true']) for r in some)} | {sum(bool(r['differs']) for r in some)} |")
    n = len(everything)
    errors = sum(bool(r["errors"] or r["wrong"] or r["status"]) for r in everything)
    lines += ["", f"False errors: {percent(errors, n)}; false warnings: {percent(sum(bool(r['false']) for r in everything), n)}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--infer", default="build/bin/infer")
    parser.add_argument("--models", default="build/trust/models")
    parser.add_argument("--out", default="build/trust")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--sound", type=int, default=2000)
    parser.add_argument("--only", help="classes whose name contains this")
    parser.add_argument("--case", type=int, help="this case only")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after this time")
    options = parser.parse_args()
    options.infer = str(pathlib.Path(options.infer).resolve())
    options.work = pathlib.Path(options.out).resolve() / "work"
    options.out = str(pathlib.Path(options.out).resolve())
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    judges = oracle.Judges()
    models = bases.load(options.models, judges)
    if not models:
        sys.exit(f"trust: no models in {options.models}; test/trust/fetch.sh brings them")
    print(f"trust: {len(models)} models, seed {options.seed}", flush=True)
    records, skipped, started = [], collections.Counter(), time.time()
    jobs = []
    for table, count, call in ((faults.CLASSES, options.faults, try_fault), (sound.CLASSES, options.sound, try_sound)):
        names = [n for n in table if not options.only or options.only in n]
        jobs += [(k / max(count, 1), call, names[k % len(names)], k // len(names)) for k in range(count) if names]
    jobs.sort(key=lambda j: j[0])
    with open(pathlib.Path(options.out) / f"results-{options.seed}.jsonl", "w", encoding="utf-8") as log:
        for _, call, name, case in jobs:
            if time.time() - started > options.seconds:
                print(f"trust: stopped after {options.seconds:.0f} s")
                break
            if (options.case is not None and case != options.case) or skipped[name] > 2:
                continue
            try:
                record = call(options, judges, models, name, case)
            except Exception:
                traceback.print_exc()
                record = None
            if record is None:
                skipped[name] += 1
                continue
            records.append(record)
            log.write(json.dumps(record, ensure_ascii=False) + "\n")
            log.flush()
    for name, count in skipped.items():
        print(f"trust: {name}: {count} cases could not be made")
    print(tables(records))
    (pathlib.Path(options.out) / f"tables-{options.seed}.md").write_text(tables(records) + "\n")
    shutil.rmtree(options.work, ignore_errors=True)


if __name__ == "__main__":
    main()
