#!/usr/bin/env bats
# infer profile on a GPU, without one: test/gpu/fake/{cuda,cupti,nvml}.c stand in for the driver, CUPTI and NVML.

. test/gpu/fake/use.bash

setup_file() {
	fake_build cupti nvml
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	fake_use
	export FAKE_CUPTI_LOG=$T/cupti
	python3 -c '' 2>/dev/null || skip "python3 is missing"
	args=(test/gpu/data/chain.onnx --random 0..1 --dim n=2 --device cuda --optimize none -n 5)
}

teardown() {
	rm -rf "$T"
}

@test "CUPTI reports the kernels and copies of each node, and is loaded only while nodes are observed" {
	"$INFER" profile "${args[@]}" --nodes --json >"$T/p.json"
	[ "$(cat "$T/cupti")" = "subscribe
unsubscribe" ]
	python3 - "$T/p.json" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))["records"][0]
assert r["timed_by"] == "CUPTI 13.0", r["timed_by"]
assert r["timed_why"] is None
nodes = {(n["name"], n["operator"]): n for n in r["nodes"]}
for name, op in (("Neg_0", "Neg"), ("Exp_1", "Exp"), ("Ceil_5", "Ceil")):
    (kernel,) = nodes[name, op]["kernels"]
    assert kernel["count"] == 1 and kernel["name"], kernel
    assert abs(nodes[name, op]["typical"] - 2e-6) < 1e-9, nodes[name, op]
assert all("kernels" not in n for k, n in nodes.items() if k[1] == "Copy")
assert r["host_to_device_bytes"] == r["device_to_host_bytes"] == 512
assert abs(r["host_to_device"] - 1e-6) < 1e-9
PY
}

@test "Copies in both directions are separated at each point of a sweep, even if one fused node is first and last" {
	args=(test/gpu/data/chain.onnx --random 0..1 --device cuda -n 5 --shapes-sweep n=1,4)
	run "$INFER" profile "${args[@]}" --transfers split
	[ "$status" -eq 0 ]
	[[ $output == *"to device  compute  to host"* ]]
	"$INFER" profile "${args[@]}" --transfers split --json --export "$T/p.md" >"$T/p.json"
	grep -q '| to device | compute | to host |' "$T/p.md"
	python3 - "$T/p.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
for p in d["records"][0]["points"] + d["summary"]:
    assert abs(p["host_to_device"] - 1e-6) < 1e-9 and abs(p["device_to_host"] - 1e-6) < 1e-9, p
copies = [n for n in d["records"][0]["nodes"] if n["operator"] == "Copy"]
assert sorted(n["kernel"] for n in copies) == ["to device", "to host"], copies
assert len({n["name"] for n in copies}) == 1
PY
	# the stand-in's copies take longer than its runs: nothing is less than no time
	run "$INFER" profile "${args[@]}" --transfers exclude
	[ "$status" -eq 0 ]
	[[ $output != *" -"[0-9]* ]]
}

@test "A comparison names all its devices" {
	run "$INFER" profile test/gpu/data/chain.onnx --dim n=2 --compare-device cpu,cuda -n 3
	[ "$status" -eq 0 ]
	[[ $output == *"device    "*"; Fake GPU; settings as the table says"* ]]
}

@test "A profile without nodes does not open CUPTI" {
	"$INFER" profile "${args[@]}" --json >"$T/p.json"
	[ ! -e "$T/cupti" ]
}

@test "Another subscriber of CUPTI is named, and times come from events" {
	FAKE_CUPTI_OTHER='CUPTI for nsys' run "$INFER" profile "${args[@]}" --nodes
	[ "$status" -eq 0 ]
	[[ $output == *"timed by CUDA events (CUPTI is taken by 'CUPTI for nsys')"* ]]
}

@test "A missing CUPTI is reported, and times come from events" {
	INFER_WITHOUT=cupti run "$INFER" profile "${args[@]}" --nodes
	[ "$status" -eq 0 ]
	[[ $output == *"timed by CUDA events (no usable CUPTI: libcupti.so.13 was looked for)"* ]]
	INFER_WITHOUT=cupti run "$INFER" doctor
	[[ $output == *"CUPTI"*"missing"* ]]
}

@test "The trace has separate tracks for nodes, kernels and copies" {
	"$INFER" profile "${args[@]}" --trace "$T/t.json" >/dev/null
	python3 - "$T/t.json" <<'PY'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
track = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert sorted(track.values()) == ["device: copies", "device: kernels", "device: nodes", "host"], track
slices = [e for e in events if e["ph"] == "X"]
kernels = [e for e in slices if e["cat"] == "kernel"]
copies = [e for e in slices if e["cat"] == "memcpy"]
runs = [e for e in slices if e["cat"] == "run"]
assert len(kernels) == 6 * len(runs) and len(copies) == 2 * len(runs), (len(kernels), len(copies), len(runs))
assert all(track[e["tid"]] == "device: kernels" and e["args"]["node"] and e["args"]["kernel"] for e in kernels)
assert all(track[e["tid"]] == "device: copies" and e["args"]["bytes"] == 512 for e in copies)
assert {e["name"] for e in copies} == {"host to device", "device to host"}
nodes = [e for e in slices if e["cat"] in ("node", "copy") and track[e["tid"]] == "device: nodes"]
assert len(nodes) == 8 * len(runs), len(nodes)
for k in kernels + copies: # each inside its node
    assert any(n["name"] == k["args"]["node"] and n["ts"] - 0.01 <= k["ts"] and
               k["ts"] + k["dur"] <= n["ts"] + n["dur"] + 0.01 for n in nodes), k
for t in track: # no two overlap but by nesting
    stack = []
    for e in sorted((e for e in slices if e["tid"] == t), key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1] <= e["ts"] + 0.001:
            stack.pop()
        assert not stack or e["ts"] + e["dur"] <= stack[-1] + 0.01, e
        stack.append(e["ts"] + e["dur"])
counters = {e["name"] for e in events if e["ph"] == "C"}
assert counters >= {"resident", "host, counted", "device, counted", "device, in use"}, counters
PY
}

@test "A warning of the GPU is printed once for all sessions and runs" {
	FAKE_CUDA_NO_CAPTURE=1 run "$INFER" profile "${args[@]}" --sessions 2
	[ "$status" -eq 0 ]
	[ "$(grep -c 'warning\[W-CUDA\].*cannot be recorded as a CUDA graph' <<<"$output")" -eq 1 ]
}

@test "Clocks, temperature and power are reported with the times" {
	run "$INFER" profile "${args[@]}"
	[ "$status" -eq 0 ]
	[[ $output == *"SM 1200 of 1980 MHz, memory 3000 of 3200 MHz, 61 C, 512 of 700 W; "* ]]
	[[ $output != *"lowered its clock"* ]]
	"$INFER" profile "${args[@]}" --json >"$T/p.json"
	python3 - "$T/p.json" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))["records"][0]
c = r["device_clocks"]
assert r["identity"]["driver"].endswith(", release 1.0"), r["identity"]
assert c["sm_mhz"][0] == 1200 and c["celsius"][0] == 61 and c["watts_most"] == 700 and c["reasons"][0] == 0, c
PY
}

@test "A throttled GPU clock causes a warning with the reason" {
	FAKE_NVML_REASONS=0x24 run "$INFER" profile "${args[@]}"
	[ "$status" -eq 0 ]
	[[ $output == *"warning[W-UNSTEADY]: the GPU lowered its clock in "*" samples: power cap, heat"* ]]
}
