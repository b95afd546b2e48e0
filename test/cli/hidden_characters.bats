#!/usr/bin/env bats
# Every string of hidden.onnx (names, types, dimensions, doc strings, metadata, labels, elements) ends with ESC, CR, BEL, DEL,
# a C1 control, a soft hyphen, a zero width space, bidirectional controls, a line separator, a byte order mark and a tag. None
# of these bytes may come out of any subcommand, in any format: they would command the terminal, or hide in a name.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	T=$BATS_TEST_TMPDIR
	raw='[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f\xad]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xf3\xa0'
}

tamed() { # FILE...: none has such a byte, and together they show names
	if LC_ALL=C grep -aqP "$raw" "$@"; then
		LC_ALL=C grep -alP "$raw" "$@"
		LC_ALL=C grep -ahP "$raw" "$@" | head -n 3 | cut -c 1-300 | cat -v
		return 1
	fi
}

@test "No subcommand writes a control or hidden character of a model" {
	local bad=0 way seen=0
	local -a ways=(
		"inspect hidden.onnx" "inspect hidden.onnx --nodes --cost --weights --memory" "inspect hidden.onnx --stage file"
		"inspect hidden.onnx --stage opt" "inspect hidden.onnx --stage plan" "inspect hidden.onnx --dot"
		"inspect hidden.onnx --passes --explain" "inspect hidden.onnx --json --nodes --weights"
		"inspect hidden.onnx --html $T/1.html" "inspect hidden.onnx --dim a=1"
		"run hidden.onnx --random 0..1 --print" "run hidden.onnx --random 0..1 --print --json" "run hidden.onnx"
		"run hidden.onnx --random 0..1 --top 2 --labels meta:character -v"
		"run hidden.onnx --random 0..1 --top 2 --labels meta:character --json"
		"run hidden.onnx --random 0..1 --decode ctc --labels meta:character" "run hidden.onnx --json"
		"run hidden.onnx --random 0..1 -o $T/out" "run hidden.onnx --input a=b --json" "run hidden.onnx --input a=b"
		"run hidden.onnx --random 0..1 --shape 1x2x3" "run hidden.onnx --random 0..1 --shape 1x2x3 --json"
		"run hidden.onnx --input pic.bin" "run hidden.onnx --random 0..1 --precision auto"
		"profile hidden.onnx --nodes -n 2 --warmup 1 --trace $T/t.json --html $T/2.html --save-baseline $T/b.json"
		"profile hidden.onnx --nodes -n 2 --warmup 1 --export $T/e.csv --export $T/e.md --export $T/e.json"
		"profile hidden.onnx --nodes -n 2 --warmup 1 --json" "profile hidden.onnx -n 2 --warmup 0 --baseline $T/b.json --nodes"
		"check hidden.onnx" "check hidden.onnx --json" "check hidden.onnx --html $T/3.html" "check hidden.onnx --all"
		"inspect $T/b.json" "inspect $T/e.json" "__complete inputs hidden.onnx" "__complete dims hidden.onnx")

	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086 # words
		"$INFER" $way >"$T/stdout" 2>"$T/stderr" </dev/null || [ $? -lt 128 ]
		tamed "$T/stdout" "$T/stderr" || {
			echo "infer $way"
			bad=1
		}
		! grep -qF -e '\u202e' -e '\x1b' "$T/stdout" "$T/stderr" || seen=$((seen + 1))
	done
	tamed "$T/e.csv"
	for file in "$T"/*.{html,json,md}; do
		tamed "$file" || {
			echo "$file"
			bad=1
		}
		grep -qF '\u202e' "$file" || {
			echo "$file shows no name"
			bad=1
		}
	done
	find "$T/out" >"$T/names"
	tamed "$T/names"
	[ "$seen" -gt 20 ] # most of them do show names
	[ "$bad" = 0 ]
}

@test "The message of --timeout tames the running node's name" {
	# time passes until a node is running
	for limit in 1 5 25 125; do
		run "$INFER" check hidden_loop.onnx --timeout $limit
		[ "$status" -eq 124 ]
		printf '%s' "$output" >"$T/said"
		tamed "$T/said"
		! grep -qE "node '(loop|keep|sin)\\\\x1b" "$T/said" || break
	done
	grep -qE "node '(loop|keep|sin)\\\\x1b" "$T/said"
	"$INFER" check hidden_loop.onnx --timeout $limit --json >"$T/said" 2>&1 || true
	tamed "$T/said"
}
