#!/usr/bin/env bats
# --help, --version, the manual pages.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
}

teardown() {
	rm -rf "$T"
}

# The long options of a command, from the completion script.
options_of() {
	"$INFER" completion bash | sed -n "/^\t$1)/,/;;/s/^\t\toptions='\(.*\)'/\1/p"
}

@test "The help of each command lists every option" {
	for command in run inspect profile check doctor cache completion; do
		run "$INFER" $command --help
		[ "$status" -eq 0 ]
		[[ $output == "infer $command: "* ]]
		options=$(options_of $command)
		[[ $options == *--help* ]]
		for option in $options; do
			grep -qE -- " $option( |\$)" <<<"$output" || {
				echo "$command --help lacks $option"
				false
			}
		done
	done
}

@test "-h, help COMMAND and --help print the same" {
	a=$("$INFER" run --help)
	[ "$a" = "$("$INFER" run -h)" ]
	[ "$a" = "$("$INFER" help run)" ]
	[ "$a" = "$("$INFER" run model.onnx --help)" ]
}

@test "infer --help lists the commands" {
	run "$INFER" --help
	[ "$status" -eq 0 ]
	for command in run inspect profile check doctor cache completion; do
		grep -q "^  $command " <<<"$output"
	done
}

@test "Without arguments, infer prints help on stderr and exits with 2" {
	"$INFER" >"$T/out" 2>"$T/err" || status=$?
	[ "$status" -eq 2 ]
	[ ! -s "$T/out" ]
	grep -q '^usage: infer COMMAND' "$T/err"
}

@test "infer --version prints the version of packages, with the commit" {
	run "$INFER" --version
	[ "$status" -eq 0 ]
	[ "$output" = "infer $(tools/version.sh)" ]
	[ "$output" = "$("$INFER" run --version)" ]
}

@test "A write error of the help is reported" {
	[ -e /dev/full ] || skip "no /dev/full"
	run bash -c '"$0" --help >/dev/full' "$INFER"
	[ "$status" -eq 10 ]
	[[ $output == *"standard output: cannot write"* ]]
}

@test "Help lines are at most 100 columns wide, except examples" {
	for command in run inspect profile check doctor cache completion; do
		! "$INFER" $command --help | sed '/^Examples:/,$d' | grep -E '.{101}'
	done
}

@test "The manual describes every option" {
	mkdir -p "$T/man1" "$T/man7"
	"$INFER" __gen man "$T"
	for command in run inspect profile check doctor cache completion; do
		for option in $(options_of $command); do
			grep -qF -- "\\fB${option//-/\\-}\\fR" "$T/man1/infer-$command.1"
		done
	done
}

@test "The manual describes every message" {
	mkdir -p "$T/man1" "$T/man7"
	"$INFER" __gen man "$T"
	for id in E-USAGE E-MODEL-TRUNCATED E-INPUT-BYTES E-TIMEOUT; do
		grep -qF -- "\\fB${id//-/\\-}, W" "$T/man1/infer.1"
	done
}

@test "The manual pages are well formed (mandoc)" {
	command -v mandoc >/dev/null || skip "no mandoc"
	mkdir -p "$T/man1" "$T/man7"
	"$INFER" __gen man "$T"
	for page in "$T"/man?/*; do
		run mandoc -T lint -W warning "$page"
		echo "$output"
		[ "$status" -eq 0 ]
	done
}

@test "The manual pages render without a warning (man)" {
	command -v man >/dev/null && command -v groff >/dev/null || skip "no man or groff"
	man --version >/dev/null 2>&1 || skip "another man"
	mkdir -p "$T/man1" "$T/man7"
	"$INFER" __gen man "$T"
	for page in "$T"/man1/*; do
		LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>"$T/err" >"$T/text"
		cat "$T/err"
		[ ! -s "$T/err" ]
		grep -q 'EXAMPLES' "$T/text"
	done
}

@test "Examples and quotes in the manual can be copied, and every exit status is listed" {
	command -v man >/dev/null && command -v groff >/dev/null || skip "no man or groff"
	mkdir -p "$T/man1" "$T/man7"
	"$INFER" __gen man "$T"
	for page in "$T"/man?/*; do
		LC_ALL=C.UTF-8 MANWIDTH=100 man -l "$page" 2>/dev/null >"$T/text"
		! grep -n -e ‘ -e ’ "$T/text" || { echo "$page"; false; }
		! grep -nE '[.?!]\.( |$)' "$T/text" | grep -v '\.\.\.' || { echo "$page"; false; }
	done
	LC_ALL=C.UTF-8 MANWIDTH=100 man -l "$T/man1/infer.1" 2>/dev/null >"$T/text"
	for status in 0 1 2 3 4 5 6 7 8 9 124 125 126 127 130; do
		grep -qE "^ +$status  " "$T/text" || { echo "no status $status"; false; }
	done
}

@test "man -M finds the pages of a checkout, and the suite's file is shown line by line" {
	command -v man >/dev/null && command -v groff >/dev/null || skip "no man or groff"
	man --version >/dev/null 2>&1 || skip "another man"
	LC_ALL=C.UTF-8 MANWIDTH=100 man -M "$BATS_TEST_DIRNAME/../../man" infer-suite 2>/dev/null >"$T/text"
	for text in "$T/text" <("$INFER" suite --help); do
		grep -A 2 '^ *models:$' "$text" | tail -n 1 | grep -Eq '^ +- [a-z]+.onnx '
	done
}

@test "A pipe that nobody reads any more ends help and version silently, as by SIGPIPE" {
	local words
	for words in --help -h help --version "help run" "run --help" "completion bash"; do
		# shellcheck disable=SC2086
		(sleep 0.1; "$INFER" $words 2>"$BATS_TEST_TMPDIR/words"; echo "$?" >"$BATS_TEST_TMPDIR/status") | true || true
		[ "$(cat "$BATS_TEST_TMPDIR/status")" -eq 141 ] && [ ! -s "$BATS_TEST_TMPDIR/words" ] || { echo "$words: $(cat "$BATS_TEST_TMPDIR/status")"; return 1; }
	done
}
