#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer suite, --export for CI systems, and reports that are printed again.

load helper

setup() {
	in_test_data
}

@test "A suite checks and measures several models, with one verdict" {
	cat >"$out/s.yaml" <<-YAML
		models:
		  - pic.onnx --input 'rgb.png'
		  - work.onnx --dim n=32 --baseline $out/b.json
		check: --timeout 60s
		profile: -n 20 --fail-above 100000%
	YAML
	run -0 --separate-stderr "$INFER" suite "$out/s.yaml" --update-baselines
	[ -s "$out/b.json" ]
	run -0 --separate-stderr "$INFER" suite "$out/s.yaml"
	[[ $output == *"pic.onnx   ok     ok "*"work.onnx  ok     "*"2 models, 0 failed; 0 errors"*"exit status 0" ]]
	echo "  - nothere.onnx" >"$out/line"
	sed -i "/work.onnx/r $out/line" "$out/s.yaml"
	run -3 --separate-stderr "$INFER" suite "$out/s.yaml" --export "junit:$out/j.xml" --export "bencher:$out/b.bmf"
	[[ $output == *"error[E-MODEL-OPEN]: nothere.onnx: cannot open"*"nothere.onnx  failed  -"*"3 models, 1 failed; 1 error,"* ]]
	run -3 --separate-stderr "$INFER" suite "$out/s.yaml" --json
	[[ $output == *'"models": ['*'"exit_code": 3'* ]]
	need_python
	python3 - "$out" <<-'PYTHON'
		import json, sys
		import xml.etree.ElementTree as E
		suite = E.parse(sys.argv[1] + "/j.xml").getroot()[0]
		assert suite.get("tests") == "6" and suite.get("failures") == "1", suite.attrib
		# on a busy machine the comparison with the baseline may be skipped, too
		skipped = [c for c in suite if c.find("skipped") is not None and not c.find("skipped").get("message").startswith("not known")]
		assert [(c.get("classname"), c.get("name")) for c in skipped] == [("nothere.onnx", "profile")]
		assert "infer check has found" in skipped[0].find("skipped").get("message")
		assert [c.get("classname") for c in suite if c.find("failure") is not None] == ["nothere.onnx"]
		b = json.load(open(sys.argv[1] + "/b.bmf"))
		assert set(b) == {"pic.onnx", "work.onnx"}
		# the cases of JUnit have the same numbers, and a line for people
		for c in suite:
		    numbers = {p.get("name"): float(p.get("value")) for p in c.iter("property")}
		    measured = b.get(c.get("classname"), {}) if c.get("name") == "profile" else {}
		    assert numbers.keys() == measured.keys(), (c.attrib, numbers)
		    assert all(abs(numbers[k] / v["value"] - 1) < 1e-6 for k, v in measured.items())
		    assert (c.findtext("system-out") or "").startswith("latency ") == bool(measured)
		for m in b.values():
		    x = m["latency"]
		    assert 0 < x["lower_value"] <= x["value"] <= x["upper_value"]
		    assert m["throughput"]["value"] > 0
	PYTHON
}

@test "A suite that is wrong is refused" {
	echo 'check: --all' >"$out/s.yaml"
	run -2 "$INFER" suite "$out/s.yaml"
	[[ $output == *"it lists no models"* ]]
	echo 'nonsense: 1' >"$out/s.yaml"
	run -2 "$INFER" suite "$out/s.yaml"
	printf 'models: [pic.onnx --nonsense]\nprofile: no\n' >"$out/s.yaml"
	run -2 "$INFER" suite "$out/s.yaml"
	[[ $output == *"--nonsense"* ]]
	run -2 "$INFER" suite "$out/s.yaml" --export x.csv
	[[ $output == *"junit:FILE"* ]]
}

@test "profile and check write JUnit, Bencher's JSON and GitHub's annotations" {
	run -0 --separate-stderr "$INFER" profile batch.onnx --shapes-sweep batch=1..2 -n 20 --export "$out/p.xml" \
		--export "bencher:$out/p.bmf" --export "github:$out/p.txt"
	[ "$(grep -cE '^::notice title=profile batch.onnx batch=[12],file=batch.onnx::latency [0-9.]+ [mnu]?s \([0-9].* throughput ' "$out/p.txt")" -eq 2 ]
	run -4 --separate-stderr "$INFER" check pic.onnx --input short.bin --export "junit:$out/c.xml" --export github:-
	[[ $output == *"::error title=E-INPUT-BYTES::"*"%0A"* ]]
	run -2 --separate-stderr "$INFER" check pic.onnx --input rgb.png --export bencher:x
	[[ $stderr == *"infer check writes no report of this format"* ]]
	run -2 --separate-stderr "$INFER" profile pic.onnx --export x.txt
	need_python
	python3 - "$out" <<-'PYTHON'
		import json, sys
		import xml.etree.ElementTree as E
		p = E.parse(sys.argv[1] + "/p.xml").getroot()[0]
		assert [c.get("name") for c in p] == ["profile batch.onnx batch=1", "profile batch.onnx batch=2"]
		assert set(json.load(open(sys.argv[1] + "/p.bmf"))) == {"batch.onnx batch=1", "batch.onnx batch=2"}
		c = E.parse(sys.argv[1] + "/c.xml").getroot()[0]
		bad = [x for x in c if x.find("failure") is not None]
		assert [x.get("name") for x in bad] == ["check inputs"] and "E-INPUT-BYTES" in bad[0][0].get("message")
		assert "model expects" in bad[0][0].text
	PYTHON
}

@test "A saved report prints what the command printed" {
	"$INFER" profile work.onnx --dim n=32 -n 5 --nodes --export "$out/r.json" >"$out/printed" 2>/dev/null
	run -0 "$INFER" inspect "$out/r.json"
	[ "${#lines[@]}" -lt 80 ]
	while IFS= read -r line; do
		[[ $output == *"$line"* ]]
	done <"$out/printed"
	"$INFER" inspect work.onnx --json >"$out/i.json"
	run -0 "$INFER" inspect "$out/i.json"
	[[ $output == *"$("$INFER" inspect work.onnx)"* ]]
	"$INFER" doctor --json >"$out/d.json"
	run -0 "$INFER" inspect "$out/d.json"
	[[ $output == *"oneDNN"* ]]
}

@test "A line of a suite whose quote is not closed, or that has too many words, is refused" {
	printf "models:\n  - \"pic.onnx --input 'rgb.png\"\nprofile: no\n" >"$out/s.yaml"
	run -2 "$INFER" suite "$out/s.yaml"
	[[ $output == *"error[E-CONFIG]"*"a quote is not closed: '"* ]]
	printf 'models: [pic.onnx]\nprofile: no\ncheck: %s\n' "$(seq -s ' ' 300)" >"$out/s.yaml"
	run -2 "$INFER" suite "$out/s.yaml"
	[[ $output == *"too many words"*"got 300"* ]]
}

@test "A comparison with a baseline that the machine does not allow is not known, and skipped in the XML" {
	need_python
	printf 'models: ["work.onnx --dim n=32 --baseline %s/b.json"]\ncheck: no\nprofile: -n 20 --fail-above 100000%%\n' "$out" >"$out/s.yaml"
	run -0 "$INFER" suite "$out/s.yaml" --update-baselines
	python3 - "$out/b.json" <<-'PYTHON'
		import json, sys
		d = json.load(open(sys.argv[1]))
		p = d["records"][0]["points"][0]
		p["delay"] = [10 * x for x in p["samples"]]
		json.dump(d, open(sys.argv[1], "w"))
	PYTHON
	run -0 --separate-stderr "$INFER" suite "$out/s.yaml" --export "junit:$out/j.xml"
	[[ $output == *"work.onnx  -      not known "* ]]
	grep -q '<skipped message="not known whether it is slower than its baseline' "$out/j.xml"
	run -0 "$INFER" suite "$out/s.yaml" --json
	[[ $output == *'"known": false'* ]]
}

@test "A limit goes to models with a baseline, not to those with its name in another word" {
	printf 'models: ["work.onnx --dim n=32 --save-baseline %s/--baseline.json"]\ncheck: no\nprofile: -n 5 --fail-above 5%%\n' "$out" >"$out/s.yaml"
	run -0 "$INFER" suite "$out/s.yaml"
}

@test "A suite that is interrupted reports what it has done" {
	mkfifo "$out/pipe.npy"
	printf 'models: [pic.onnx --input rgb.png, "work.onnx --input %s/pipe.npy", two.onnx]\nprofile: no\n' "$out" >"$out/s.yaml"
	env --default-signal=INT "$INFER" suite "$out/s.yaml" --export "$out/j.xml" --json >"$out/doc.json" 2>"$out/err" 3>&- &
	pid=$!
	exec 8>"$out/pipe.npy" # opens when the second model is read
	kill -INT $pid
	status=0
	wait $pid || status=$?
	exec 8>&-
	[ "$status" -eq 130 ]
	[ "$(jq -r '.models[0].check.exit_code' "$out/doc.json")" = 0 ]
	jq -e '.findings | any(.id == "E-INTERRUPTED")' "$out/doc.json"
	[ "$(jq '.models[1].check' "$out/doc.json")" = null ]
	# the models that never ran are in the report for CI, too, which does not pass
	grep -q '<testsuite .* tests="3" failures="1" errors="0" skipped="1"' "$out/j.xml"
	[[ $(grep -A 1 'classname="work.onnx"' "$out/j.xml") == *'<failure message="not done: the suite was ended early"'* ]]
	[[ $(grep -A 1 'classname="two.onnx"' "$out/j.xml") == *'<skipped message="not done: the suite was ended early"'* ]]
}

@test "--export takes a format before the file's name, and refuses one that it does not know" {
	local word
	cd "$out"
	for word in json:a.x csv:b.x md:c.x html:d.x xml:e.x junit:f.x bencher:g.x github:h.x; do
		run -0 "$INFER" profile "$OLDPWD/two.onnx" --data-set "$OLDPWD/set" -n 3 --export "$word"
		[ -s "${word#*:}" ] && [ ! -e "$word" ]
	done
	[[ $(head -c 1 a.x) == "{" && $(head -c 9 d.x) == "<!doctype" && $(head -c 5 e.x) == "<?xml" ]]
	cmp <(head -c 38 e.x) <(head -c 38 f.x)
	for word in json:k.x html:l.x txt:m.x xml:n.x; do
		run -0 "$INFER" check "$OLDPWD/pic.onnx" "$OLDPWD/rgb.png" --export "$word"
		[ -s "${word#*:}" ] && [ ! -e "$word" ]
	done
	[[ $(head -c 1 k.x) == "{" && $(head -c 9 l.x) == "<!doctype" ]]
	for word in "profile two.onnx" "check two.onnx" "suite two.onnx"; do
		cd "$OLDPWD"
		# shellcheck disable=SC2086
		fails_with 2 "'foo:a.json': 'foo' is no format" $word --export foo:a.json
		[[ $stderr == *"junit:FILE"*"github:FILE"*"./foo:a.json"* ]]
		cd "$out"
	done
	run -0 "$INFER" profile "$OLDPWD/two.onnx" --data-set "$OLDPWD/set" -n 3 --export ./foo:a.json
	[ -s foo:a.json ]
	cd "$OLDPWD"
	fails_with 2 "infer check writes no report of this format" check pic.onnx --export csv:a.x
	fails_with 2 "infer suite writes no report of this format" suite pic.onnx --export html:a.x
}

@test "Models may be operands of a suite" {
	cp pic.onnx "$out/it's one.onnx"
	run -0 --separate-stderr "$INFER" suite pic.onnx "$out/it's one.onnx" --export "$out/s.xml"
	[[ $output == *"2 models, 0 failed; 0 errors"*"exit status 0" ]]
	[ "$(grep -c '<testcase' "$out/s.xml")" -eq 4 ]
	run -3 --separate-stderr "$INFER" suite pic.onnx nothere.onnx
	[[ $output == *"2 models, 1 failed"* ]]
	run -2 "$INFER" suite pic.onnx rgb.png
	[[ $output == *"'rgb.png' is no model"*'models: ["a.onnx --dim batch=4"'* ]]
	run -2 "$INFER" suite pic.onnx --dim n=4
	[[ $output == *"options of a model stand behind it in a file of YAML"* ]]
}
