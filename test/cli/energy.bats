#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer profile: the energy of a run, by counters that stand still or begin anew here, and its limit.

load helper

setup() {
	in_test_data
	export INFER_DEVICE=cpu INFER_POWERCAP=$BATS_TEST_TMPDIR
	mkdir -p "$BATS_TEST_TMPDIR/intel-rapl:0"
	echo 1000000 >"$BATS_TEST_TMPDIR/intel-rapl:0/energy_uj"
	echo 262143328850 >"$BATS_TEST_TMPDIR/intel-rapl:0/max_energy_range_uj"
}

@test "Energy by RAPL is told, and held against a limit" {
	# a counter that rises until it is ended; a reader never sees half a number
	(
		k=2
		while echo "${k}000000" >"$BATS_TEST_TMPDIR/next" && mv "$BATS_TEST_TMPDIR/next" "$BATS_TEST_TMPDIR/intel-rapl:0/energy_uj"; do
			k=$((k + 1))
			sleep 0.02
		done
	) 3>&- &
	counter=$!
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 --duration 1s
	[[ $output == *"energy    "*" J a run, of everything that ran meanwhile (RAPL)"* ]]
	run -9 --separate-stderr "$INFER" profile work.onnx --dim n=32 --duration 1s --fail-above-energy 0
	[[ $stderr == *"error[E-BASELINE]: a run takes more energy than is allowed"*" J by RAPL"* ]]
	kill "$counter" 2>/dev/null || true
	wait "$counter" || true
}

@test "A machine that does not tell energy: a warning, or with --fail-unknown an error" {
	rm -r "$BATS_TEST_TMPDIR/intel-rapl:0"
	run -0 --separate-stderr "$INFER" profile work.onnx --dim n=32 -n 20 --fail-above-energy 1
	[[ $output != *"energy "* && $stderr == *"does not tell the energy"* ]]
	run -11 "$INFER" profile work.onnx --dim n=32 -n 20 --fail-above-energy 1 --fail-unknown
}
