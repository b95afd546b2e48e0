#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every transformer model of $MODELS on the GPU against the CPU, in every precision, with latencies and the time
# of each operator: MODELS is a folder of *.onnx with their weights, OUT the build folder (bench/gpu_models is
# made by `make tests` or `make build/bench/gpu_models`). PEERS=1: PyTorch's times of the same encoders, too.
# Exit status 1 where a difference is beyond its bound.
set -u
: "${OUT:=build}" "${MODELS:?the folder of models}" "${BATCHES:=1,8,32}" "${RUNS:=30}"
failed=0
for m in bert.ts32 bert.dyn32 gpt2.dyn32 vit_base_patch16_224.ts32 vit_base_patch16_224.dyn32; do
	[ -f "$MODELS/$m.onnx" ] || continue
	"$OUT/bench/gpu_models" -b "$BATCHES" -p fp32,tf32,fp16,bf16 -n "$RUNS" "$MODELS/$m.onnx" || failed=1
done
for m in bert.ts16 vit_base_patch16_224.ts16; do
	[ -f "$MODELS/$m.onnx" ] || continue
	"$OUT/bench/gpu_models" -b "$BATCHES" -n "$RUNS" -s 6 "$MODELS/$m.onnx" || failed=1
done
[ -z "${PEERS:-}" ] || python3 bench/gpu_peers.py
exit $failed
