#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each model of the folder MODELS (with its weights), or those named, on the GPU against the CPU, in every precision and of
# each size in BATCHES, with latencies of RUNS runs: OUT is the build folder, whose bench/gpu_models `make tests` makes. A
# model whose name ends in 16 is run as it is. PEERS=1: PyTorch's times of seven networks, too. TAP on standard output,
# a line as soon as it is known.
set -u
: "${OUT:=build}" "${BATCHES:=1,8,32}" "${RUNS:=0}"
[ $# != 0 ] || set -- "${MODELS:?the folder of models}"/*.onnx
[ -x "$OUT/bench/gpu_models" ] || { echo "not ok models: $OUT/bench/gpu_models is not there"; exit 1; }
n=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for model; do
	case $model in *16.onnx) precisions= ;; *) precisions=fp32,tf32,fp16,bf16 ;; esac
	# MODEL PRECISION bBATCH ok|BAD DIFFERENCE (BOUND) ...
	"$OUT/bench/gpu_models" -b "$BATCHES" -n "$RUNS" ${precisions:+-p "$precisions"} "$model" 2>&1 | tee "$log" |
		awk '$3 ~ /^b[0-9]/ { print ($4 == "ok" ? "ok " : "not ok ") $0; fflush(); next } { print "# " $0; fflush() }'
	[ "${PIPESTATUS[0]}" = 0 ] || failed=1
	grep -q ' b[0-9][0-9 ]* *ok' "$log" || { echo "not ok $model gave no result"; failed=1; }
	n=$((n + $(grep -c ' b[0-9][0-9 ]* ' "$log")))
done
echo "1..$n"
[ -z "${PEERS:-}" ] || python3 bench/gpu_peers.py
exit $failed
