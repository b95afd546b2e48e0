#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: each fault that only a GPU has, planted in a known node, must be attributed to that node in
# every mode, with CUDA graphs and without. FAULTS names the program of `make FAULTS=1`. TAP on standard output.
set -u
: "${FAULTS:=build/faults/bin/infer}"
here=$(dirname "$0")
model=$here/data/chain.onnx
node=Abs_2
n=0 bad=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

check() { # NAME WANTED COMMAND...: fails, names the node, and tells WANTED
	name=$1 wanted=$2
	shift 2
	timeout 60 "$@" >"$out" 2>&1
	rc=$?
	n=$((n + 1))
	if [ $rc -ne 0 ] && [ $rc -ne 124 ] && grep -q "error\[$wanted\].*'$node'" "$out" &&
		[ "$(grep -c 'error\[' "$out")" = 1 ]; then
		echo "ok $name"
	else
		echo "not ok $name (exit $rc)"
		sed 's/^/# /' "$out" | tail -n 6
		bad=$((bad + 1))
	fi
}

for kind in illegal-address:E-CUDA-700 trap:E-CUDA-71[0-9] launch-failure:E-CUDA-1 out-of-memory:E-MEMORY \
	wrong-handle:E-CTX-STREAM; do
	wanted=${kind#*:} kind=${kind%%:*}
	export INFER_FAULT="$node:$kind"
	for sync in async node launch; do
		check "$kind, --sync $sync" "$wanted" "$FAULTS" run "$model" --random 0..1 --dim n=2 --device cuda \
			--optimize none --sync $sync
	done
	# from the sixth run on: by then a CUDA graph is replayed, where there is one
	export INFER_FAULT="$node:$kind=6"
	for graph in auto off; do
		check "$kind in a later run, --cuda-graph $graph" "$wanted" "$FAULTS" profile "$model" --random 0..1 \
			--dim n=2 --device cuda --optimize none --cuda-graph $graph -n 20 --warmup 3
	done
done
echo "1..$n"
[ $bad = 0 ]
