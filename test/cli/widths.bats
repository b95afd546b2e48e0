#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Text fits the terminal: tables, rows of values, the line that Ctrl-C leaves, and one warning for a sweep.

load helper

setup() {
	in_test_data
	unset INFER_DEVICE
}

# The longest line of a text on standard input, in characters, without lines that are sentences (they begin with a word at
# the margin and are wrapped by the terminal).
longest() {
	sed 's/…/./g' | awk '/^ / || /^what / || /^batch=/ {n = length($0); if (n > most) most = n} END {print most + 0}'
}

@test "Tables fit the terminal: names are shortened in their middle, columns left out and named" {
	for columns in 60 80 100 200; do
		COLUMNS=$columns "$INFER" profile work.onnx --dim n=32 -n 2 --warmup 0 --nodes 2>/dev/null |
			sed -n '/^nodes/,/^memory/p' | grep -v '^nodes\|^memory' >"$out/nodes"
		[ "$(longest <"$out/nodes")" -le "$columns" ]
		COLUMNS=$columns "$INFER" profile batch.onnx --shapes-sweep batch=1..3 -n 2 --warmup 0 2>/dev/null >"$out/sweep"
		[ "$(longest <"$out/sweep")" -le "$columns" ]
		grep -q '^batch=3 .* [0-9]' "$out/sweep"
		COLUMNS=$columns "$INFER" inspect work.onnx --cost --weights --dim n=32 2>/dev/null |
			sed -n '/^cost/,$p' >"$out/cost"
		[ "$(longest <"$out/cost")" -le "$columns" ]
	done
	COLUMNS=60 "$INFER" profile batch.onnx --shapes-sweep batch=1..3 -n 2 --warmup 0 2>/dev/null |
		grep -q '^(wider terminals show: .*prepare'
	# a file gets every column, whatever its width
	(unset COLUMNS; "$INFER" profile batch.onnx --shapes-sweep batch=1..3 -n 2 --warmup 0 2>/dev/null) |
		grep -q '^what .*prepare .*p99 .*activations'
}

@test "--print prints rows: in columns that fit the terminal, or one line each for other programs" {
	run -0 env -u COLUMNS "$INFER" run pic.onnx --input rgb.png -q --print=48
	[ "${#lines[@]}" -eq 4 ] && [ "$(wc -w <<<"${lines[1]}")" -eq 24 ]
	COLUMNS=60 run -0 "$INFER" run pic.onnx --input rgb.png -q --print=48
	[ "${#lines[@]}" -eq 6 ] && [ "$(awk '{if (length > m) m = length} END {print m}' <<<"$output")" -le 60 ]
	# the columns of two rows stand below each other
	[[ ${lines[1]} == "  0  13  22 "* && ${lines[3]} == "  0  10  19 "* ]]
}

@test "Ctrl-C leaves a clean line" {
	command -v python3 >/dev/null || skip "no python3"
	python3 - "$INFER" "$PWD/work.onnx" <<'PYTHON'
import os, pty, select, signal, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], [sys.argv[1], "profile", sys.argv[2], "--dim", "n=32", "--duration", "60s"])
seen = b""
sent = False
while True:
    ready, _, _ = select.select([fd], [], [], 30)
    if not ready:
        sys.exit("nothing was printed")
    try:
        part = os.read(fd, 4096)
    except OSError:
        break
    if not part:
        break
    seen += part
    if b"left" in seen and not sent: # the bar is there
        sent = True
        os.write(fd, b"\x03")
after = seen[seen.index(b"^C") + 2:]
assert after.startswith(b"\r\x1b[K"), after[:80]
assert b"model " in after and b"E-INTERRUPTED" in after, after
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
PYTHON
}

@test "A sweep warns once, with a row for each point" {
	run -0 --separate-stderr "$INFER" profile work.onnx --shapes-sweep n=1..12 --threads 1,2 -n 20 --warmup 0
	[ "$(grep -c 'W-UNSTEADY' <<<"$stderr")" -le 1 ]
}
