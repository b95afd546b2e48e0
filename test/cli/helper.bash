# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What Bats files share (load helper): the program that is tested, and surroundings that hold no options of the user's.

bats_require_minimum_version 1.5.0
: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
export INFER
unset "${!INFER_@}" 2>/dev/null || true

# Goes to the folder of small models and pictures, and computes on the CPU. $out is a folder for this test alone.
# shellcheck disable=SC2034
in_test_data() {
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	export INFER_DEVICE=cpu
	out=$BATS_TEST_TMPDIR
}

# Makes the models that standard input describes (test/check/make.c) as folders of $BATS_FILE_TMPDIR/cases.
make_models() {
	"${CC:-cc}" -O1 -w -o "$BATS_FILE_TMPDIR/make" "$BATS_TEST_DIRNAME/../check/make.c" -lm
	"$BATS_FILE_TMPDIR/make" /dev/stdin "$BATS_FILE_TMPDIR/cases"
}

# The program ends with this status and says this text.
fails_with() { # STATUS TEXT ARGUMENT...
	local want=$1 text=$2
	shift 2
	run --separate-stderr "$INFER" "$@"
	[ "$status" -eq "$want" ] || { echo "status $status: $stderr"; return 1; }
	[[ $stderr == *"$text"* ]] || { echo "$stderr"; return 1; }
}

# Prints a hint with MODEL replaced by the model among the words, as infer prints it.
with_model() { # HINT WORD...
	local hint=$1 word
	shift
	for word; do
		case $word in *.onnx)
			[ ! -e "$word" ] || hint=${hint//MODEL/$word}
			break
			;;
		esac
	done
	printf '%s' "$hint"
}

# Reads lines "COMMAND LINE | HINT" and expects the hint, of which it may be a part, for each of them, and at least so many lines.
answers_all() { # LINES
	local line hint wrong=0 n=0
	local -a words
	while IFS='|' read -r line hint; do
		hint=${hint# }
		eval "words=($line)"
		hint=$(with_model "$hint" "${words[@]}")
		status=0
		output=$("$INFER" "${words[@]}" 2>&1) || status=$?
		n=$((n + 1))
		[ "$status" -eq 2 ] && [[ $output == *"hint: "*"$hint"* ]] && continue
		printf 'infer %s\n  expected: %s\n  got (%s): %s\n' "$line" "$hint" "$status" "$output"
		wrong=$((wrong + 1))
	done
	[ "$wrong" -eq 0 ] && [ "$n" -ge "$1" ]
}

need_python() {
	command -v python3 >/dev/null || skip "no python3"
}

# Tests that make models: with the oracles of `make deps-dev` where they are there.
# A relative DEPS is one of the project's folder, whichever folder setup_file() has gone to.
deps=${DEPS:-build/deps}
[[ $deps == /* ]] || deps=$BATS_TEST_DIRNAME/../../$deps
oracles=$(realpath -e "$deps/python" 2>/dev/null) || oracles=
has_onnx() {
	[ -z "$oracles" ] || export PYTHONPATH=$oracles${PYTHONPATH:+:$PYTHONPATH}
	# the checkout has a folder onnx, which Python takes for an empty package
	python3 -c 'import numpy, onnx.helper' 2>/dev/null
}
# For tests and setup(): Bats takes a skip in setup_file() for a failure.
need_onnx() {
	has_onnx || skip "python3 has no onnx"
}
