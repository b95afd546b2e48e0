#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# HTML pages: what each tells of its origin, the order of its parts, the drawing of a graph, and that it loads nothing.

load helper

setup() {
	in_test_data
	"$INFER" profile work.onnx --shapes-sweep n=1..2 -n 20 --export "$out/profile page.html" >/dev/null 2>&1
	"$INFER" check pic.onnx --input rgb.png --html "$out/check.html" >/dev/null
	"$INFER" inspect work.onnx --html "$out/inspect.html" >/dev/null
}

@test "Each page tells its date, version, host and command line, fits a phone, and loads nothing" {
	for page in "$out"/*.html; do
		grep -Eq "<footer>infer [0-9][^ ]+ on [^,]+, [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} UTC<br><code>infer (profile|check|inspect) " "$page"
		grep -q 'name="viewport"' "$page"
		grep -q '@media(max-width:640px)' "$page"
		run ! grep -E '(src|href)=|url\(|@import|https?://' "$page"
	done
	# words are quoted as a shell has to read them
	grep -q "'$out/profile page.html'</code>" "$out/profile page.html"
}

@test "A sweep over integers has integer ticks; warnings stand behind the charts" {
	page="$out/profile page.html"
	run ! grep -E '<text[^>]*text-anchor="middle">[0-9]+\.[0-9]+</text><text[^>]*>n</text>' "$page"
	grep -q '>1</text><text[^>]*>2</text>' "$page"
	if grep -q '<h2>Warnings' "$page"; then
		[ "$(grep -n '<h2>Warnings' "$page" | cut -d: -f1)" -gt "$(grep -n '</figure>' "$page" | tail -n 1 | cut -d: -f1)" ]
	fi
}

@test "The result of each check has its color" {
	grep -q '<td class="l"><span class="good">ok</span></td>' "$out/check.html"
	"$INFER" check pic.onnx --input short.bin --html "$out/bad.html" >/dev/null || true
	grep -q '<span class="error">' "$out/bad.html"
	grep -q '<span class="dim">skipped</span>' "$out/bad.html"
}

@test "The page of a model shows its memory, its graph and its weights" {
	for part in Memory Graph Weights Operators Nodes; do
		grep -q "<h2>$part</h2>" "$out/inspect.html"
	done
	grep -q '<canvas id="graph">' "$out/inspect.html"
	# a row for each node, and an edge for each value that one node makes and another reads
	nodes=$(sed -n '/const N=\[/,/\],E=/p' "$out/inspect.html" | grep -c '^\[\|N=\[\[')
	[ "$nodes" -ge 3 ]
	grep -q '\],E=\[\[0,' "$out/inspect.html"
}

@test "Names cannot end the script of a drawing" {
	command -v python3 >/dev/null || skip "no python3"
	PYTHONPATH=$BATS_TEST_DIRNAME/../tools PYTHONDONTWRITEBYTECODE=1 python3 - "$out" <<'PYTHON' || skip "no writer of models"
import sys
from message import num, part
bad = '</script><script>alert(1)</script>"\\'
def node(i, o, name, op):
    return part(1, part(1, i) + part(2, o) + part(3, name) + part(4, op))
def value(name):
    return part(1, name) + part(2, part(1, num(1, 1) + part(2, part(1, num(1, 8)))))
graph = node("x", "m", bad, "Exp") + node("m", "y", "b", "Exp") + part(2, "g") + part(11, value("x")) + part(12, value("y"))
open(sys.argv[1] + "/bad.onnx", "wb").write(num(1, 8) + part(7, graph) + part(8, num(2, 17)))
PYTHON
	"$INFER" inspect "$out/bad.onnx" --html "$out/bad.html" >/dev/null
	run ! grep -F '<script>alert' "$out/bad.html"
	grep -Fq '\u003c/script>' "$out/bad.html"
}
