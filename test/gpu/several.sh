#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several GPUs share the inputs of a run: the same results as one, in the same order; a device that is lost or absent gives its
# inputs to the others; and the rate of two devices over that of one, the median of interleaved pairs, is at least RATIO.
# OUT is the build folder. Needs two GPUs, and python3 with numpy and onnx, which make the model and its inputs. TAP on
# standard output; run it as `test/gpu/several.sh`.
set -u
: "${OUT:=build}" "${RATIO:=1.9}" "${PAIRS:=5}" "${INPUTS:=8192}" "${BATCH:=32}"
infer=$(cd "$OUT/bin" && pwd)/infer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

told() { # STATUS NAME
	if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

have=$("$infer" run --help >/dev/null && nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ "${have:-0}" -ge 2 ] || { echo "ok several # SKIP ${have:-0} GPUs"; exit 0; }
python3 -c 'import numpy, onnx' 2>/dev/null || { echo 'ok several # SKIP python3 has no onnx'; exit 0; }

# A deep net of convolutions: a run of BATCH small pictures takes the GPU tens of milliseconds, and reading them next to none.
python3 - "$work" "$INPUTS" <<'PYTHON' || exit 1
import sys
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

work, count = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(17)
nodes, weights, at, width = [], [], "x", 3
for k in range(24):
    wide = 256
    w = rng.standard_normal((wide, width, 3, 3), dtype=np.float32) * np.float32((2 / (9 * width)) ** 0.5)
    weights.append(numpy_helper.from_array(w, f"w{k}"))
    nodes += [helper.make_node("Conv", [at, f"w{k}"], [f"c{k}"], pads=[1] * 4), helper.make_node("Relu", [f"c{k}"], [f"r{k}"])]
    at, width = f"r{k}", wide
nodes += [helper.make_node("GlobalAveragePool", [at], ["p"]), helper.make_node("Flatten", ["p"], ["y"])]
graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 64, 64])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", width])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), f"{work}/net.onnx")
np.save(f"{work}/x.npy", rng.standard_normal((count, 3, 64, 64), dtype=np.float32))
PYTHON

# run NAME DEVICE OPTION...: the document of the run in NAME.json, the lines in NAME.jsonl
run() {
	local name=$1 device=$2
	shift 2
	"$infer" run "$work/net.onnx" --input "x=$work/x.npy,split=0" --batch "$BATCH" --device "$device" --print 0 \
		--jsonl "$work/$name.jsonl" --json "$@" >"$work/$name.json" 2>"$work/$name.log"
}
rate() { # NAME: inputs a second, without the time to open models and devices
	python3 -c 'import json, sys; v = json.load(open(sys.argv[1]))["inputs"]; print(v["done"] / v["seconds"])' "$work/$1.json"
}

run one cuda:0 && run two cuda:0,1
told $? 'two devices run'
cmp "$work/one.jsonl" "$work/two.jsonl"
told $? 'two devices give the results of one, in the same order'
python3 -c 'import json, sys
n = [d["inputs"] for d in json.load(open(sys.argv[1]))["devices"]]
print("# inputs of each device:", *n)
assert len(n) == 2 and min(n) > sum(n) / 3' "$work/two.json"
told $? 'both devices have inputs'
run all all && cmp "$work/one.jsonl" "$work/all.jsonl"
told $? 'all devices give the results of one'
run absent cuda:0,99 && cmp "$work/one.jsonl" "$work/absent.jsonl" && grep -q '"cuda:99: ' "$work/absent.json"
told $? 'a device that is not there is named, and the other does its work'
run mixed cuda:0,cpu
python3 - "$work" <<'PYTHON'
import json
import sys
a, b = ([json.loads(s) for s in open(f"{sys.argv[1]}/{n}.jsonl")] for n in ("one", "mixed"))
assert [x["name"] for x in a] == [x["name"] for x in b]
for x, y in zip(a, b):
    for u, v in zip(x["outputs"][0]["values"], y["outputs"][0]["values"]):
        assert abs(u - v) <= 1e-3 * max(1, abs(u)), (x["name"], u, v)
PYTHON
told $? 'a GPU and the CPU share the inputs'

: >"$work/ratios"
for _ in $(seq "$PAIRS"); do
	if ! run one cuda:0 || ! run two cuda:0,1; then told 1 "the rates"; exit 1; fi
	a=$(rate one) b=$(rate two)
	echo "# $a a second with one, $b with two"
	python3 -c 'import sys; print(float(sys.argv[2]) / float(sys.argv[1]))' "$a" "$b" >>"$work/ratios"
done
python3 - "$work/ratios" "$RATIO" <<'PYTHON'
import statistics
import sys
v = sorted(map(float, open(sys.argv[1])))
m = statistics.median(v)
print(f"# two devices over one: median {m:.3f}, {v[0]:.3f} to {v[-1]:.3f}")
sys.exit(m < float(sys.argv[2]))
PYTHON
told $? "two devices have at least $RATIO times the rate of one"
exit $failed
