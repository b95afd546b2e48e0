#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each model of the folder MODELS (with its weights) on the GPU against the CPU, in every precision and of each size in
# BATCHES, with latencies of RUNS runs: OUT is the build folder, whose bench/gpu_models `make tests` makes. A model whose
# name ends in 16 is run as it is. PEERS=1: PyTorch's times of the same encoders, too. TAP on standard output.
set -u
: "${OUT:=build}" "${MODELS:?the folder of models}" "${BATCHES:=1,8,32}" "${RUNS:=0}"
[ -x "$OUT/bench/gpu_models" ] || { echo "not ok models: $OUT/bench/gpu_models is not there"; exit 1; }
n=0 failed=0
while read -r model precisions; do
	"$OUT/bench/gpu_models" -b "$BATCHES" -n "$RUNS" ${precisions:+-p $precisions} "$model" >"${TMPDIR:-/tmp}/models.$$" 2>&1 || failed=1
	# MODEL PRECISION bBATCH ok|BAD DIFFERENCE (BOUND) ...
	awk '$3 ~ /^b[0-9]/ { print ($4 == "ok" ? "ok " : "not ok ") $0; next } { print "# " $0 }' "${TMPDIR:-/tmp}/models.$$"
	grep -q ' b[0-9][0-9 ]* *ok' "${TMPDIR:-/tmp}/models.$$" || { echo "not ok $model gave no result"; failed=1; }
	n=$((n + $(grep -c ' b[0-9][0-9 ]* ' "${TMPDIR:-/tmp}/models.$$")))
	rm -f "${TMPDIR:-/tmp}/models.$$"
done < <(for m in "$MODELS"/*.onnx; do
	case $m in *16.onnx) echo "$m" ;; *) echo "$m fp32,tf32,fp16,bf16" ;; esac
done)
echo "1..$n"
[ -z "${PEERS:-}" ] || python3 bench/gpu_peers.py
exit $failed
