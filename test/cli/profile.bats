#!/usr/bin/env bats
# infer profile: reports, exports, traces, sweeps, comparisons, baselines, and what is refused before the first run.
# Nothing here depends on how fast the machine is.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
	export INFER_DEVICE=cpu
	out=$BATS_TEST_TMPDIR
}

need_python() {
	command -v python3 >/dev/null || skip "no python3"
}

@test "The report shows phases, latency, rate and memory" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --warmup 2
	[[ $output == *"device    cpu"* ]]
	[[ $output == *"load "* && $output == *"prepare "* && $output == *"first run "* ]]
	[[ $output == *"median "* && $output == *"p50 "* && $output == *"p99 "* && $output == *" 20 runs"* ]]
	[[ $output == *"runs/s"* ]]
	[[ $output == *"steady state"* && $output == *"activations"* ]]
}

@test "The table of --nodes adds up to the observed run, with gaps as a row" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 10 --nodes
	[[ $output == *"nodes     of the faster half of "*" observed runs"* ]]
	[[ $output == *"(gaps: between nodes)"* ]]
	need_python
	"$INFER" profile work.onnx --dim n=32 -n 10 --nodes --json 2>/dev/null | python3 -c '
import json, sys
r = json.load(sys.stdin)["records"][0]
assert r["nodes"] and r["nobserved"] if "nobserved" in r else r["observed_samples"]
whole = sum(n["typical"] for n in r["nodes"]) + r["gaps"]
assert abs(whole - r["observed"]) < 1e-9, (whole, r["observed"])
assert r["gaps"] >= 0
for n in r["nodes"]:
    assert len(n["samples"]) == len(r["observed_samples"])'
}

@test "--top shortens the table and sums up the rest; --sort order keeps the order of the run" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 5 --nodes --top 1 --sort order
	[[ $output == *" others)"* || $output == *"(gaps"* ]]
	run -2 "$INFER" profile work.onnx --dim n=32 --sort size
	[[ $output == *"E-OPTION"* ]]
}

@test "--json prints one document with every sample and the environment" {
	need_python
	"$INFER" profile batch.onnx -n 7 --dim batch=2 --json 2>/dev/null | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["schema"] == "infer/1" and d["command"] == "profile" and d["ok"]
r = d["records"][0]
i = r["identity"]
assert i["device"] == "cpu" and i["device_name"] and i["hash"].startswith("fnv1a:") and i["precision"] == "fp32" and "oneDNN" in i["libraries"]
p = r["points"][0]
assert len(p["samples"]) == 7 and len(p["start"]) == 7 and all(x > 0 for x in p["samples"])
assert p["items"] == 2
s = d["summary"][0]
assert abs(s["runs_per_second"] * s["mean"] - 1) < 1e-6 and abs(s["items_per_second"] * s["mean"] - 2) < 1e-6
assert s["min"] <= s["median"] <= s["max"] and set(s["percentiles"]) == {"50", "90", "95", "99"}
assert [x["name"] for x in r["phases"]] == ["start", "load", "inputs", "prepare", "first run", "steady state"]
assert all(x["rss"] > 0 and x["private"] > 0 for x in r["phases"])'
}

@test "--percentile selects percentiles; --iterations and --duration limit the measurement" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 6 --percentile 10,99.9
	[[ $output == *"p10 "* && $output == *"p99.9 "* && $output != *"p50 "* ]]
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 --duration 50ms --warmup 0
	[[ $output == *" runs"* ]]
}

@test "Every export is written completely" {
	run -0 "$INFER" profile work.onnx --dim n=32 -n 8 --export "$out/r.json" --export "$out/r.csv" \
		--export "$out/r.md" --export "$out/r.html"
	[ "$(grep -c ',"","",2,1,run,\|,run,' "$out/r.csv")" = 8 ]
	head -1 "$out/r.csv" | grep -q '^model,hash,device,device_name,driver,libraries,precision'
	grep -q '^## infer profile: work.onnx' "$out/r.md"
	grep -q '^| what | prepare |' "$out/r.md"
	grep -q '^### Nodes' "$out/r.md"
	grep -q '</html>' "$out/r.html"
	[ "$(grep -c '<figure' "$out/r.html")" -ge 4 ]
	! grep -qE 'https?://|src=|@import|url\(' "$out/r.html"
	need_python
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$out/r.json"
}

@test "--trace writes events that a viewer can load, nested in their runs" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 5 --trace "$out/t.json"
	python3 - "$out/t.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
about = d["otherData"]
assert about["hash"].startswith("fnv1a:") and about["device"] and "oneDNN" in about["libraries"] and about["inputs"] == "x f32 [32,64]"
events = d["traceEvents"]
phases = {e["ph"] for e in events}
assert phases == {"M", "X", "C"}, phases
for e in events:
    assert isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["tid"], int)
    if e["ph"] != "M":
        assert e["ts"] >= 0
    if e["ph"] == "X":
        assert e["dur"] >= 0
    if e["ph"] == "C":
        assert e["args"]["bytes"] >= 0
slices = [e for e in events if e["ph"] == "X"]
runs = [e for e in slices if e["cat"] == "run"]
nodes = [e for e in slices if e["cat"] == "node"]
assert runs and nodes
for n in nodes:
    inside = [r for r in runs if r["ts"] - 0.01 <= n["ts"] and n["ts"] + n["dur"] <= r["ts"] + r["dur"] + 0.01]
    assert inside, n
for thread in {e["tid"] for e in slices}: # no two overlap but by nesting
    stack = []
    for e in sorted((e for e in slices if e["tid"] == thread), key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1] <= e["ts"] + 0.001:
            stack.pop()
        assert not stack or e["ts"] + e["dur"] <= stack[-1] + 0.01
        stack.append(e["ts"] + e["dur"])
assert any(e["name"] == "resident" for e in events if e["ph"] == "C")
PY
}

@test "--shapes-sweep measures each point, and the first run of a new shape separately" {
	run -0 --separate-stderr "$INFER" profile batch.onnx --shapes-sweep batch=1..5:2 -n 5 --warmup 1
	[[ $output == *"batch=1 "* && $output == *"batch=3 "* && $output == *"batch=5 "* ]]
	[[ $output == *"first run"* && $output != *"batch=2 "* ]]
	need_python
	"$INFER" profile batch.onnx --shapes-sweep batch=2,4 -n 5 --json 2>/dev/null | python3 -c '
import json, sys
r = json.load(sys.stdin)["records"][0]
assert [p["label"] for p in r["points"]] == ["batch=2", "batch=4"]
assert [p["size"] for p in r["points"]] == [[2], [4]]
assert all(p["first_run"] > 0 and p["prepare"] > 0 for p in r["points"])'
}

@test "Lists of values become the axes of one table" {
	run -0 --separate-stderr "$INFER" profile batch.onnx --threads 1,2 --memory-plan on,off -n 4 --warmup 1
	for what in "threads=1 memory-plan=on" "threads=1 memory-plan=off" "threads=2 memory-plan=on" "threads=2 memory-plan=off"; do
		[[ $output == *"$what"* ]]
	done
	run -0 --separate-stderr "$INFER" profile batch.onnx --compare-device cpu,cpu --optimize none,full -n 3
	[[ $output == *"device=cpu optimize=full"* ]]
	run -2 "$INFER" run batch.onnx --random 0..1 --threads 1,2
	[[ $output == *"expected one value"* ]]
}

@test "A configuration file may give a list" {
	printf 'threads: [1, 2]\niterations: 3\n' >"$out/c.yaml"
	run -0 --separate-stderr "$INFER" profile batch.onnx --config "$out/c.yaml"
	[[ $output == *"threads=1"* && $output == *"threads=2"* ]]
}

@test "Sessions run in parallel" {
	need_python
	"$INFER" profile batch.onnx --sessions 3 -n 30 --json 2>/dev/null | python3 -c '
import json, sys
r = json.load(sys.stdin)["records"][0]
assert r["identity"]["sessions"] == 3 and len(r["points"][0]["samples"]) == 30
assert "other sessions" in [p["name"] for p in r["phases"]]'
}

@test "A missing device is listed with its reason beside the measured ones, and determines the exit status" {
	if "$INFER" run batch.onnx --random 0..1 --device cuda >/dev/null 2>&1; then skip "there is a GPU"; fi
	run -8 --separate-stderr "$INFER" profile batch.onnx --compare-device cuda,cpu --threads 1,2 -n 3 --export "$out/r.json" \
		--export "$out/r.csv" --export "$out/r.md" --export "$out/r.html"
	[[ $stderr == *"error[E-"*"]: device=cuda threads=1, device=cuda threads=2: "*"hint: "* && $stderr != *"error["*"error["* ]]
	[[ $output =~ device=cpu\ threads=2\ +[0-9.]+\  && $output =~ device=cuda\ threads=2\ +failed\ +-\  ]]
	[[ $output =~ failed\ +device=cuda\ threads=1,\ device=cuda\ threads=2:\ E-.*hint:\  ]]
	grep -q '^| device=cuda threads=1 | failed | - ' "$out/r.md"
	grep -q '^\*\*Failed\*\* device=cuda threads=1, device=cuda threads=2: E-' "$out/r.md"
	grep -q 'error E-[A-Z0-9-]*: device=cuda threads=1, ' "$out/r.html"
	need_python
	python3 - "$out" <<'PY'
import csv, json, sys
d = json.load(open(sys.argv[1] + "/r.json"))
assert not d["ok"] and d["exit_code"] == 8
assert [r["label"] for r in d["records"]] == ["device=cpu threads=1", "device=cpu threads=2"]
assert [f["label"] for f in d["failed"]] == ["device=cuda threads=1", "device=cuda threads=2"]
(found,) = [f for f in d["findings"] if f["severity"] == "error"]
assert all(f["id"] == found["id"] and f["hint"] == found["hint"] for f in d["failed"])
rows = list(csv.DictReader(open(sys.argv[1] + "/r.csv", newline="")))
assert None not in rows[-1] and [r["settings"] for r in rows if r["what"] == "failed"] == [f["label"] for f in d["failed"]]
assert all(bool(r["finding"]) == (r["what"] == "failed") for r in rows) and found["id"] in rows[-1]["finding"]
PY
	run -8 --separate-stderr "$INFER" profile batch.onnx --compare-device cuda,cuda:1 -n 3
	[[ -z $output && $stderr == *"error[E-"* && $stderr != *"error["*"device=cuda"* ]]
}

@test "If one combination of settings fails, the others are still reported; if a point fails, those before it are" {
	run -3 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 3 --threads 1 --memory-plan on,off --memory-limit 22KiB --json
	need_python
	python3 -c '
import json, sys
d = json.loads(sys.argv[1])
assert d["exit_code"] == 3 and [r["label"] for r in d["records"]] == ["memory-plan=on"]
(f,) = d["failed"]
assert f["label"] == "memory-plan=off" and f["id"] == "E-MEMORY-LIMIT" and "the largest" in f["hint"], f
(found,) = [f for f in d["findings"] if f["severity"] == "error"]
assert found["where"]["slot"] == "memory-plan=off"' "$output"
	run -3 --separate-stderr "$INFER" profile work.onnx --shapes-sweep n=1,100000,2 -n 3 --threads 2 --memory-limit 1MiB
	[[ $output =~ n=1\ +[0-9.]+\  && $output =~ n=100000\ +failed && $output != *"n=2 "* ]]
	[[ $stderr == *"error[E-MEMORY-LIMIT]: n=100000: "* ]]
	run -4 --separate-stderr "$INFER" profile batch.onnx -n 3 --threads 1,2 --input short.bin
	[[ -z $output && $stderr == *"reads as "*"cut short"* && $stderr != *"error["*"error["* ]]
}

@test "A comparison prints the warning of a single measurement once" {
	run -0 --separate-stderr "$INFER" profile free.onnx -n 3 --threads 1,2 --dim h=8
	[[ $stderr == *"W-DIM-DEFAULT"* && $stderr != *"W-DIM-DEFAULT"*"W-DIM-DEFAULT"* ]]
	run -0 --separate-stderr "$INFER" profile free.onnx -n 60 --dim h=8 --save-baseline "$out/b.json"
	[[ $stderr == *"W-DIM-DEFAULT"* && $stderr != *"W-DIM-DEFAULT"*"W-DIM-DEFAULT"* ]]
}

@test "Several processes can read the model from standard input" {
	run -0 "$INFER" profile - --threads 1,2 -n 3 < <(cat batch.onnx)
	run -0 "$INFER" profile - --threads 1,2 -n 3 <batch.onnx
	run -3 --separate-stderr "$INFER" profile <(cat batch.onnx) --threads 1,2 -n 3
	[[ -z $output && $stderr == *"error[E-MODEL-OPEN]: "*"a pipe"*"standard input (-)"* ]]
	run -0 "$INFER" profile two.onnx --input a=- --random b=0..1 -n 60 --save-baseline "$out/b.json" < <(cat a.npy)
}

@test "--percentile reports as many percentiles as requested" {
	run -0 --separate-stderr "$INFER" profile batch.onnx --dim batch=1 -n 3 --threads 1,2 --percentile "$(seq -s, 1 99)" --export "$out/r.md"
	[[ $output == *" p1 "*" p99 "* ]]
}

@test "If the trace cannot be written, the report is still printed" {
	run -10 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 3 --trace /dev/full
	[[ $output == *"latency   median"* && $stderr == *"error[E-OUTPUT]: /dev/full: "* ]]
}

@test "--streams is refused for the CPU, and reported if auto chose the CPU" {
	run -2 "$INFER" profile batch.onnx --streams 2 --device cpu
	INFER_DEVICE=auto run -0 --separate-stderr "$INFER" profile batch.onnx --streams 2 -n 4
	[[ $output != *"device    cpu"* || $stderr == *"W-OPTION]: --streams: the CPU has no streams"* ]]
}

@test "The gate does not pass if something could not be measured" {
	if "$INFER" run batch.onnx --random 0..1 --device cuda >/dev/null 2>&1; then skip "there is a GPU"; fi
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	run -2 "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 9999999% --compare-device cpu,cuda
	run -8 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 9999999% --device cuda --force
	[ -z "$output" ]
	run -8 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/c.json" --device cuda
	[ ! -e "$out/c.json" ]
}

@test "Equal runs pass the comparison with a baseline, and the document holds both" {
	run -0 "$INFER" profile work.onnx --dim n=32 -n 60 --save-baseline "$out/b.json"
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 60 --baseline "$out/b.json" --fail-above 100000% --fail-above-memory 500%
	[[ $output == *"baseline  "*": tenth percentile "* && $output != *"baseline  Slower"* ]]
	[[ $output == *"planned, host"* ]]
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 60 --baseline "$out/b.json"
	[[ $output == *"baseline  Compared, without a limit: tenth percentile"* ]]
	# a baseline of before copied and packed weights were told apart
	python3 - "$out/b.json" <<-'END'
		import json, sys
		text = json.load(open(sys.argv[1]))
		merged = 0
		def older(d):
		    global merged
		    for v in list(d.values() if isinstance(d, dict) else d if isinstance(d, list) else []):
		        older(v)
		    if isinstance(d, dict) and {"copied_weights", "packed_weights"} & set(d):
		        d["weights"] = d.pop("copied_weights", 0) + d.pop("packed_weights", 0)
		        merged += 1
		older(text)
		assert merged
		json.dump(text, open(sys.argv[1], "w"))
	END
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 60 --baseline "$out/b.json" --fail-above-memory 500%
}

# The baseline's samples, divided: as if the model had been so much faster that no noise of a machine, then or now, is as
# large. All runs were, and the heaviest node.
@test "A slower model exits with 9 and names the slower nodes" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 60 --save-baseline "$out/b.json"
	python3 - "$out/b.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
r = d["records"][0]
for of in r["points"][0], max(r["nodes"], key=lambda n: n["typical"]):
    of["samples"] = [x / 1e6 for x in of["samples"]]
r["observed_samples"] = [x / 1e6 for x in r["observed_samples"]]
json.dump(d, open(sys.argv[1], "w"))
PY
	run -9 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 60 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"error[E-BASELINE]"* && $stderr == *"slower than the baseline"* ]]
	run -9 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 60 --baseline "$out/b.json" --fail-above 5% --json
	python3 -c '
import json, sys
d = json.loads(sys.argv[1])
assert d["exit_code"] == 9 and d["baseline"]["slower"] and d["findings"][-1]["id"] == "E-BASELINE"' "$output"
}

# A baseline all of whose runs had to wait for a core says nothing about the latency.
@test "A gate that does not know passes with a warning, and with --fail-unknown exits with 11" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	python3 - "$out/b.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
p = d["records"][0]["points"][0]
p["delay"] = [10 * x for x in p["samples"]]
json.dump(d, open(sys.argv[1], "w"))
PY
	gate=(profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json")
	run -0 --separate-stderr "$INFER" "${gate[@]}" --fail-above 100000%
	[[ $stderr == *"warning[W-UNSTEADY]"*"too busy"* ]]
	[[ ${stderr##*$'\n'} == *"--fail-unknown ends with status 11 in place of 0"* ]]
	run -11 --separate-stderr "$INFER" "${gate[@]}" --fail-above 100000% --fail-unknown
	[[ $stderr == *"error[E-BASELINE-UNKNOWN]"*"too busy"* && $output == *"Not known: the machine is too busy"* ]]
	run -2 --separate-stderr "$INFER" "${gate[@]}" --fail-unknown
	[[ $stderr == *"--fail-unknown"*"--fail-above"* ]]
}

@test "A model that needs more memory exits with 9 by --fail-above-memory" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	python3 - "$out/b.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["records"][0]["points"][0]["planned_bytes"] /= 2
json.dump(d, open(sys.argv[1], "w"))
PY
	run -9 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above-memory 5%
	[[ $stderr == *"more memory"* && $stderr == *"planned, host"* ]]
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 100000%
}

@test "A baseline of another model, device or schema is refused unless --force is given" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	run -2 --separate-stderr "$INFER" profile batch.onnx -n 20 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"E-BASELINE-FILE"* && $stderr == *"model"* ]]
	run -0 --separate-stderr "$INFER" profile batch.onnx -n 20 --baseline "$out/b.json" --fail-above 9999999% --force
	[[ $stderr == *"W-BASELINE-FILE"* ]]
	python3 - "$out/b.json" "$out/device.json" "$out/schema.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["records"][0]["identity"]["device_name"] = "another"
json.dump(d, open(sys.argv[2], "w"))
d["schema"] = "infer/0"
json.dump(d, open(sys.argv[3], "w"))
PY
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/device.json" --fail-above 5%
	[[ $stderr == *"device name: another then"* ]]
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 --baseline "$out/schema.json" --fail-above 5%
	[[ $stderr == *"infer/0"* ]]
	[ -z "$output" ]
	echo 'no json' >"$out/bad.json"
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 --baseline "$out/bad.json" --fail-above 5%
	[[ $stderr == *"no JSON"* ]]
	run -2 "$INFER" profile work.onnx --dim n=32 --baseline "$out/none.json" --fail-above 5%
}

@test "A new version of a model, in a file of the same name, is compared with the baseline of the old one" {
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 9999999%
	[[ $stderr != *"N-BASELINE-FILE"* ]]
	cp work.onnx "$out/work.onnx"
	printf '\062\002v2' >>"$out/work.onnx" # a documentation string
	run -0 --separate-stderr "$INFER" profile "$out/work.onnx" --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 9999999%
	[[ $stderr == *"note[N-BASELINE-FILE]"*"the model's file has changed since"* ]]
	# sizes of inputs still have to be those of then
	run -2 --separate-stderr "$INFER" profile "$out/work.onnx" --dim n=16 -n 20 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"inputs"* ]]
}

@test "Impossible combinations of options are refused before the first run" {
	run -2 --separate-stderr "$INFER" profile batch.onnx --shapes-sweep batch=5..1
	[[ $stderr == *"the range is empty"* && -z $output ]]
	run -2 --separate-stderr "$INFER" profile batch.onnx --shapes-sweep batch=
	[[ $stderr == *"nothing to go through"* ]]
	run -4 --separate-stderr "$INFER" profile batch.onnx --shapes-sweep bach=1..3
	[[ $stderr == *"E-DIM"* && $stderr == *"batch"* && -z $output ]]
	run -10 --separate-stderr "$INFER" profile batch.onnx --export /nowhere/at/all.json
	[[ $stderr == *"E-OUTPUT"* && -z $output ]]
	mkdir -p "$out/taken.json"
	run -10 --separate-stderr "$INFER" profile batch.onnx --export "$out/taken.json"
	[[ $stderr == *"E-OUTPUT"* && -z $output ]]
	run -10 "$INFER" profile batch.onnx --trace /nowhere/t.json
	run -10 "$INFER" profile batch.onnx --save-baseline /nowhere/b.json
	run -2 "$INFER" profile batch.onnx --export report.pdf
	[[ $output == *"the format is not known"* ]]
	run -2 "$INFER" profile batch.onnx -n 1 --save-baseline "$out/b.json"
	[[ $output == *"at least two runs"* ]]
	[ ! -e "$out/b.json" ]
	run -2 "$INFER" profile batch.onnx --fail-above 5%
	[[ $output == *"a limit needs a baseline"* ]]
	run -2 "$INFER" profile batch.onnx --warmup soon
	run -2 "$INFER" profile batch.onnx -n 0
	run -2 "$INFER" profile batch.onnx --percentile 50,101
	run -2 "$INFER" profile batch.onnx --compare-device cpu,tpu
	run -2 "$INFER" profile batch.onnx --device cpu --streams 2
	run -2 "$INFER" profile batch.onnx --save-baseline "$out/b.json" --threads 1,2
}

@test "A gate or a baseline with fewer than two runs is refused" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 1 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"at least two runs"* && -z $output ]]
	python3 - "$out/b.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["records"][0]["points"][0]["samples"] = [1e-3]
json.dump(d, open(sys.argv[1], "w"))
PY
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"fewer than two runs"* && -z $output ]]
}

@test "An invalid limit is refused" {
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	for limit in 5 x% -5% 5MiB; do
		run -2 "$INFER" profile work.onnx --dim n=32 --baseline "$out/b.json" --fail-above "$limit"
		[[ $output == *"not a percentage"* ]]
	done
	run -2 "$INFER" profile work.onnx --dim n=32 --baseline "$out/b.json" --fail-above-memory 5miles
}

# interrupt OPTION...: SIGINT once the program, and what it started, has worked for a fifth of a second; later where it had
# not begun to measure by then. Inputs are large: fewer runs are told.
interrupt() {
	run -0 python3 - "$INFER" "$@" <<'PY'
import glob, json, os, signal, subprocess, sys, time

def cpu(pid):
    ticks = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            f = open(path).read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if path == f"/proc/{pid}/stat" or int(f[1]) == pid:
            ticks += int(f[11]) + int(f[12])
    return ticks

def hears(pid): # SIGINT is handled, and not by us before the program is there
    try:
        there = os.readlink(f"/proc/{pid}/exe") != os.readlink("/proc/self/exe")
        caught = [int(l.split()[1], 16) for l in open(f"/proc/{pid}/status") if l.startswith("SigCgt")]
        return there and caught[0] >> signal.SIGINT - 1 & 1
    except (OSError, IndexError):
        return False

def interrupted_after(ticks):
    p = subprocess.Popen([sys.argv[1], "profile", *sys.argv[2:], "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    late = time.monotonic() + ticks / 4 # where the time on a core is not told
    while p.poll() is None and not (hears(p.pid) and (cpu(p.pid) >= ticks or time.monotonic() > late)):
        time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate()
    assert p.returncode == 130, (p.returncode, err)
    d = json.loads(out)
    assert d["exit_code"] == 130 and d["findings"][-1]["id"] == "E-INTERRUPTED"
    return d

for ticks in 20, 80, 320, 1280, 5120:
    d = interrupted_after(ticks)
    if d.get("records") and d["records"][-1]["points"][0]["samples"]:
        break
r = d["records"][-1]
assert r["stopped"] and len(r["points"][0]["samples"]) > 0, r["points"]
print(json.dumps({"points": [p["label"] for p in r["points"]], "sessions": r["identity"]["sessions"], "records": len(d["records"])}))
PY
}

@test "When interrupted, profile reports the results so far and exits with 130" {
	need_python
	interrupt work.onnx --dim n=2000 --duration 1000s
	interrupt work.onnx --dim n=2000 -n 100000000 --nodes
}

@test "An interrupt also works in a sweep, between sessions and in a comparison" {
	need_python
	interrupt work.onnx --shapes-sweep n=2001..2003 -n 100000000
	[[ $output == *'"n=2001"'* && $output != *'"n=2003"'* ]]
	interrupt work.onnx --dim n=2000 --sessions 2 -n 100000000
	[[ $output == *'"sessions": 2'* ]]
	interrupt work.onnx --dim n=2000 --threads 1,2 -n 100000000
	# they take turns, so that each has been measured
	[[ $output == *'"records": 2'* ]]
}

@test "When interrupted while it measures a baseline, profile writes none" {
	need_python
	interrupt work.onnx --dim n=2000 --duration 1000s --save-baseline "$out/b.json"
	[ ! -e "$out/b.json" ]
}

@test "A long measurement shows a progress bar, on a terminal only" {
	script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "no script(1), or no terminal for it"
	# a machine that stands still in the wrong moment shows none
	for duration in 5s 20s 80s; do
		run -0 script -qec "env -u NO_COLOR TERM=xterm '$INFER' profile work.onnx --dim n=32 --duration $duration" /dev/null
		[[ $output != *" s left  measure"* ]] || break
	done
	[[ $output == *" s left  measure"* ]]
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 --duration 3s
	[[ $stderr != *" left "* ]]
}

@test "--timeout reports the results so far and exits with 124" {
	# how long it takes until there is something to tell is the machine's
	for limit in 1 5 25 125; do
		# a duration of a quick model ends when it has run half a million times
		run -124 --separate-stderr "$INFER" profile work.onnx --dim n=2000 -n 100000000 --timeout ${limit}s
		[[ $stderr == *"E-TIMEOUT"* ]]
		[[ $output != *"latency "* ]] || break
	done
	[[ $output == *"latency "* ]]
}

@test "Nodes in control-flow bodies have their own rows, and fused nodes name their origins" {
	need_python
	"$INFER" profile work.onnx -n 3 --nodes --json 2>/dev/null | python3 -c '
import json, sys
nodes = json.load(sys.stdin)["records"][0]["nodes"]
inside = [n for n in nodes if n["depth"] > 0]
assert inside and all(n["name"].startswith("again / ") for n in inside), nodes
assert any(abs(n["calls"] - 8) < 1e-9 for n in inside)
assert any(n["fused"] and "first" in n["fused"] for n in nodes)'
}

@test "The example configurations are accepted" {
	for f in latency throughput; do
		run -0 --separate-stderr "$INFER" profile batch.onnx --config "$BATS_TEST_DIRNAME/../../configs/$f.yaml" -n 5 --duration 50ms
	done
}

@test "A baseline of other shapes or settings is refused before the first run" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 --threads 2 -n 20 --save-baseline "$out/b.json"
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=64 --threads 2 -n 20 --baseline "$out/b.json" --fail-above 5%
	[[ $stderr == *"E-BASELINE-FILE"*"inputs: x f32 [32,64] then, x f32 [64,64] now"* && -z $output ]]
	for other in "--memory-plan off" "--arena off" "--optimize none" "--threads 1"; do
		[[ $other == --threads* ]] || other="--threads 2 $other"
		# a run that takes for ever would not end
		# shellcheck disable=SC2086
		run -2 --separate-stderr timeout 300 "$INFER" profile work.onnx --dim n=32 --duration 100000s $other --baseline "$out/b.json"
		[[ $stderr == *"E-BASELINE-FILE"* && -z $output ]]
	done
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=64 --threads 2 -n 20 --baseline "$out/b.json" --fail-above 9999999% --force
	[[ $stderr == *"W-BASELINE-FILE"*"inputs: "* ]]
}

@test "New and removed nodes are reported as such" {
	need_python
	run -0 "$INFER" profile work.onnx --dim n=32 -n 20 --save-baseline "$out/b.json"
	python3 - "$out/b.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
node = max(d["records"][0]["nodes"], key=lambda n: n["typical"])
node["name"] = "formerly"
json.dump(d, open(sys.argv[1], "w"))
PY
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --baseline "$out/b.json"
	[[ $output =~ formerly\ .*\ -\ +-\ +gone ]]
	[[ $output =~ \ -\ .*\ -\ +new ]]
}

@test "A report of several measurements states which one its nodes and memory belong to" {
	run -0 --separate-stderr "$INFER" profile batch.onnx --threads 1,2 --shapes-sweep batch=1..2 -n 3 --nodes -v
	for what in "threads=1 batch=1" "threads=2 batch=1"; do
		[[ $output == *"nodes     $what: "* && $output == *"memory    $what: "* ]]
	done
	run -0 "$INFER" profile batch.onnx --threads 1,2 -n 3 --export "$out/r.md" --export "$out/r.html"
	grep -q '^### Nodes: threads=2$' "$out/r.md"
	grep -q '^### Memory: threads=2$' "$out/r.md"
	grep -q '<h2>Memory: threads=2</h2>' "$out/r.html"
}

@test "Sparklines are shown on a terminal only" {
	script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "no script(1), or no terminal for it"
	run -0 script -qec "'$INFER' profile work.onnx --dim n=32 -n 50" /dev/null
	[[ $output == *$'\xe2\x96\x88'* ]]
	run -0 "$INFER" profile work.onnx --dim n=32 -n 50
	[[ $output != *$'\xe2\x96\x88'* ]]
}

@test "Names with special characters are escaped in Markdown, HTML, CSV and on a terminal" {
	need_python
	PYTHONPATH=$BATS_TEST_DIRNAME/../tools PYTHONDONTWRITEBYTECODE=1 python3 - "$out" <<'PY'
import sys
from message import num, part
bad = 'a|b\\|c "d", <b>e</b> & `f` *g*\n\x1b[31m\u00e9'
def node(i, o, name, op):
    return part(1, part(1, i) + part(2, o) + part(3, name) + part(4, op))
def value(name):
    return part(1, name) + part(2, part(1, num(1, 1) + part(2, part(1, part(2, "n")) + part(1, num(1, 8)))))
graph = node("x", "m", bad, "Exp") + node("m", "y", "=1+1", "Softmax") + part(2, "g") + part(11, value("x")) + part(12, value("y"))
open(sys.argv[1] + '/ev|il "<b>.onnx', "wb").write(num(1, 8) + part(7, graph) + part(8, num(2, 17)))
PY
	run -0 --separate-stderr "$INFER" profile "$out/ev|il \"<b>.onnx" --dim n=4 -n 5 --nodes --export "$out/r.json" --export "$out/r.csv" \
		--export "$out/r.md" --export "$out/r.html" --trace "$out/t.json"
	[[ $output != *$'\x1b'* && $output == *'\x1b'* ]]
	python3 - "$out" <<'PY'
import csv, json, re, sys
from html.parser import HTMLParser
out = sys.argv[1]
bad = 'a|b\\|c "d", <b>e</b> & `f` *g*\n\x1b[31m\u00e9'
assert bad in [n["name"] for n in json.load(open(out + "/r.json"))["records"][0]["nodes"]]
assert bad in [e["name"] for e in json.load(open(out + "/t.json"))["traceEvents"]]
rows = list(csv.reader(open(out + "/r.csv", newline="")))
assert len({len(r) for r in rows}) == 1 and rows[1][0] == 'ev|il "<b>.onnx', rows[1]
md = open(out + "/r.md").read()
assert "\x1b" not in md and "<b>" not in md.replace("\\<b>", "")
table = [l for l in md.splitlines() if l.startswith("|") and "Exp" in l and "reference" in l]
# a bar behind an even number of backslashes parts cells
assert len(table) == 1 and len(re.findall(r"(?<!\\)(?:\\\\)*\|", table[0])) == 12, table
class Page(HTMLParser):
    bold = 0
    open = ""
    def handle_starttag(self, tag, attrs):
        self.open = tag
    def handle_data(self, data):
        if self.open == "td" and "a|b" in data:
            assert "<b>e</b>" in data and "\x1b" not in data
            self.bold += 1
p = Page(convert_charrefs=True)
p.feed(open(out + "/r.html").read())
assert p.bold
PY
}

@test "Only one output may go to standard output" {
	need_python
	"$INFER" profile work.onnx --dim n=32 -n 3 --trace - 2>"$out/err" | python3 -c 'import json, sys; assert json.load(sys.stdin)["traceEvents"]'
	grep -q '^latency ' "$out/err"
	"$INFER" profile work.onnx --dim n=32 -n 4 --save-baseline - 2>"$out/err" | python3 -c 'import json, sys; assert json.load(sys.stdin)["records"]'
	run -2 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 3 --trace - --json
	[[ $stderr == *"only one of --json"* || $output == *"only one of --json"* ]]
	mkfifo "$out/p.md"
	cat "$out/p.md" >"$out/read" 3>&- &
	run -0 timeout 300 "$INFER" profile work.onnx --dim n=32 -n 3 --export "$out/p.md"
	wait
	grep -q '^## infer profile' "$out/read"
}

@test "The report shows the memory of the sampled iterations, and the growth over the runs" {
	need_python
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 9 --export "$out/r.csv" --export "$out/r.json" --export "$out/r.md"
	[[ $output =~ from\ run\ 1\ to\ run\ 9:\ resident\ [+-].*\ private\ [+-].*counted\ on\ the\ host\ [+-] ]]
	grep -q '^from run .*counted on the host' "$out/r.md"
	python3 - "$out" <<'PY'
import csv, json, sys
rows = [r for r in csv.DictReader(open(sys.argv[1] + "/r.csv")) if r["what"] == "run"]
seen = [r for r in rows if r["resident_bytes"]]
# the kernel's own counters lag behind, each by itself: private may be more than resident
assert seen and all(int(r[k]) > 0 for r in seen for k in ("resident_bytes", "private_bytes", "host_counted_bytes"))
t = json.load(open(sys.argv[1] + "/r.json"))["records"][0]["timeline"]
assert len({len(v) for v in t.values()}) == 1
of_runs = [int(k) for k in t["run"] if k > 0]
assert of_runs == [int(r["number"]) + 1 for r in seen], (of_runs, seen)
PY
}

@test "The achieved FLOP rate is reported even without --nodes" {
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 5
	[[ $output =~ work\ +[0-9.]+\ [kMG]?FLOP\ a\ run ]]
	[[ $output != *"nodes     "* && $output == *"inputs    x f32 [32,64], random values"* ]]
}

@test "A zero duration and impossible dimension sizes are refused" {
	run -2 "$INFER" profile batch.onnx --duration 0s
	[[ $output == *"the duration must be above zero"* ]]
	run -2 "$INFER" profile batch.onnx --shapes-sweep batch=1..99999999999999999999
	[[ $output == *"too large"* ]]
	run -4 "$INFER" profile batch.onnx --shapes-sweep batch=1..3 --dim batch=2
	[[ $output == *"--shapes-sweep batch=1: dimension 0 of input 'images' is 2 by --dim batch=2"* ]]
}

@test "The page of a sweep over two dimensions draws a line for each size of the second" {
	run -0 "$INFER" profile free.onnx --shapes-sweep h=1,2 --shapes-sweep w=1,2,3 --dim batch=1 --threads 1,2 -n 3 --export "$out/r.html"
	for curve in "threads=1 h=1" "threads=1 h=2" "threads=2 h=1" "threads=2 h=2"; do
		[ "$(grep -o "</i>$curve<" "$out/r.html" | wc -l)" = 2 ]
	done
}

@test "The hash of a model covers its file and the size of its external data" {
	need_python
	PYTHONPATH=$BATS_TEST_DIRNAME/../tools PYTHONDONTWRITEBYTECODE=1 python3 - "$out" <<'PY'
import sys
from message import num, part
def value(name):
    return part(1, name) + part(2, part(1, num(1, 1) + part(2, part(1, num(1, 8)))))
weight = num(1, 8) + num(2, 1) + part(8, "w") + part(13, part(1, "location") + part(2, "w.bin")) + bytes([14 << 3, 1])
graph = part(1, part(1, "x") + part(1, "w") + part(2, "y") + part(4, "Add")) + part(2, "g") + part(5, weight) + part(11, value("x")) + part(12, value("y"))
open(sys.argv[1] + "/m.onnx", "wb").write(num(1, 8) + part(7, graph) + part(8, num(2, 17)))
open(sys.argv[1] + "/w.bin", "wb").write(bytes(32))
h = 0xcbf29ce484222325
for byte in open(sys.argv[1] + "/m.onnx", "rb").read():
    h = (h ^ byte) * 0x100000001b3 % 2**64
open(sys.argv[1] + "/hash", "w").write("fnv1a:%016x+32" % h)
PY
	run -0 --separate-stderr "$INFER" profile "$out/m.onnx" -n 3 --json
	[[ $output == *"\"hash\": \"$(cat "$out/hash")\""* ]]
}

@test "The traffic of an embedding counts only the rows that it reads" {
	need_python
	"$INFER" profile ids.onnx --dim batch=2 --dim seq=3 -n 3 --nodes --json 2>/dev/null | python3 -c '
import json, sys
nodes = [n for n in json.load(sys.stdin)["records"][0]["nodes"] if n["operator"] == "Gather"]
assert nodes
for n in nodes:
    assert n["bytes"] == 2 * 3 * 8 + 2 * n["out_bytes"], n'
}
