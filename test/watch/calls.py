# SPDX-License-Identifier: Apache-2.0
"""calls.py CUDA/include: calls of the driver that take or give what `infer check --` follows (streams, events, contexts,
functions, memory), or copy, must be looked at by src/watch/inject or be among those of calls.txt that are left out on purpose.
So must all siblings of questions that are ignored.
Of a call of the runtime that is listened to, all versions must be: those of later CUDAs and of per-thread default streams.
A new CUDA brings new ones: they are printed, with why each counts, and the status is 1."""
import fnmatch
import pathlib
import re
import sys

here = pathlib.Path(__file__).resolve().parent
headers = pathlib.Path(sys.argv[1])
KINDS = {
    "takes a stream": r"^CUstream \w",
    "takes an event": r"^CUevent \w",
    "takes or gives a context": r"^(CUcontext|CUgreenCtx) ",
    "takes or gives a function or a graph to launch": r"^(CUfunction|CUgraphExec) ",
    "gives memory": r"^(CUdeviceptr|void \*|CUmemGenericAllocationHandle|CUarray|CUmipmappedArray|CUmemoryPool) \*",
    "takes memory": r"^(CUmemGenericAllocationHandle|CUarray|CUmipmappedArray|CUmemoryPool) \w",
}
# Calls that programs make before each launch, and that neither make nor keep anything.
QUESTIONS = ("cuTensorMap", "cuOccupancy")


def ids(file, prefix):
    return re.findall(prefix + r"_TRACE_CBID_(\w*cu\w+)", (headers / file).read_text())


def parameters():
    text = (headers / "generated_cuda_meta.h").read_text()
    found = {}
    for body, name in re.findall(r"_params_st \{(.*?)\} (\w+)_params;", text, re.S):
        found[name] = [" ".join(m.split()) for m in body.split(";") if m.strip()]
    return found


def why(name, members):
    for kind, pattern in KINDS.items():
        if any(re.match(pattern, m) for m in members):
            return kind
    if re.search("Memcpy|Memset", name):
        return "copies or fills"
    return "frees" if re.search(r"^cu(Mem|Array|Mipmapped).*(Free|Release|Destroy|Unmap|Unregister)", name) else None


def left_out():
    lines = (here / "calls.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def looked_at(macro):
    text = "".join(p.read_text() for p in sorted((here.parents[1] / "src" / "watch" / "inject").glob("*.c")))
    return set(re.findall(rf"\b(?:{macro})\((\w+)", text))


def function(version):
    return re.sub(r"(_pt[sd][sz])?_v\d+$", "", version).lstrip("_")


known, patterns, given = looked_at("ID|AT"), left_out(), parameters()
driver = ids("cupti_driver_cbid.h", "DRIVER")
used, wrong = set(), 0
for name in driver:
    reason = why(name, given.get(name, []))
    matched = [p for p in patterns if fnmatch.fnmatchcase(name, p)]
    if reason and name not in known:
        used.update(matched)
        if not matched:
            print(f"{name} {reason}: src/watch/inject does not look at it, and calls.txt does not say why not")
            wrong += 1
for pattern in patterns:
    if pattern not in used:
        print(f"calls.txt: {pattern} leaves out no call that counts")
        wrong += 1
for name in driver:
    if name.startswith(QUESTIONS) and name not in known:
        print(f"{name}: its siblings are among ignored_queries of src/watch/inject, it is not")
        wrong += 1
heard = looked_at("RUN_ID")
functions = {function(v) for v in heard}
for version in ids("cupti_runtime_cbid.h", "RUNTIME"):
    if function(version) in functions and version not in heard:
        print(f"{version}: other versions of it are listened to, this one is not")
        wrong += 1
sys.exit(wrong > 0)
