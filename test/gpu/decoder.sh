#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Decoders on the GPU against the CPU: the same greedy ids, and the time of the loop beside the device's own. OUT is the build
# folder; DATA the models of test/steps/make_models.py, MODELS a folder with larger ones (deep.onnx, big.onnx), which is made
# if python3 has onnx. TAP on standard output.
set -u
here=$(dirname "$0")
: "${OUT:=build}" "${DATA:=$here/../data/steps}" "${MODELS:=}"
infer=$OUT/bin/infer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 failed=0
speak=(--feed 'present.*=past_key_values.*' --next input_ids=argmax:logits)

told() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

ids() { # FOLDER MODEL STEPS OPTION...
	local to=$1 model=$2 steps=$3
	shift 3
	"$infer" run "$model" "${speak[@]}" --steps "$steps" -o "$work/$to" "$@" 2>"$work/$to.log"
}

same_ids() { # NAME MODEL STEPS OPTION...
	local name=$1 rc
	shift
	rm -rf "$work/cpu" "$work/cuda"
	ids cpu "$@" -d cpu && ids cuda "$@" -d cuda && cmp "$work/cpu/input_ids.next.npy" "$work/cuda/input_ids.next.npy"
	rc=$?
	told $rc "$name: the ids of the GPU are those of the CPU"
	grep -h '^steps' "$work/cpu.log" "$work/cuda.log" | sed 's/^/# /'
	[ $rc = 0 ] || sed 's/^/# /' "$work/cuda.log"
}

# The middle time of an id in the loop, beside what the device's kernels take in single runs at the cache's middle length. The
# copies of the cache, which a single run gets from the host, do not count.
loop_time() { # MODEL PREFILL DECODE OPTION...
	local model=$1 prefill=$2 decode=$3 past=$(($2 + $3 / 2)) rc
	local sizes=(--dim batch=1 --dim sequence=1 --dim "past_sequence_length=$past")
	"$infer" profile "$model" "${speak[@]}" --prefill "$prefill" --decode "$decode" --dim batch=1 -d cuda --json >"$work/loop.json" 2>"$work/log" ||
		{ told 1 "$model: profile --decode"; sed 's/^/# /' "$work/log"; return; }
	case $model in
	*llama*)
		echo "$past" >"$work/last.txt"
		echo $((past + 1)) >"$work/total.txt"
		sizes+=(--input "seqlens_k=$work/last.txt" --input "total_sequence_length=$work/total.txt")
		;;
	*) sizes+=(--dim "total=$((past + 1))") ;;
	esac
	"$infer" profile "$model" --random 0..60 "${sizes[@]}" -d cuda --nodes --json >"$work/bare.json" 2>"$work/log" ||
		{ told 1 "$model: single runs"; sed 's/^/# /' "$work/log"; return; }
	python3 - "$work" "$model" <<'PY'
import json, sys
work, model = sys.argv[1:]
d = json.load(open(work + "/loop.json"))["decode"]
nodes = json.load(open(work + "/bare.json"))["records"][0]["nodes"]
bare = sum(n["typical"] for n in nodes if n["operator"] != "Copy" and n["place"] != "host")
print(f"# {model}: {d['to_first_id_s'] * 1e3:.3f} ms to the first id, {d['id_s'] * 1e3:.3f} ms an id (p90 "
      f"{d['id_p90_s'] * 1e3:.3f}), of it {d['id_plans_s'] * 1e3:.3f} ms plans; {d['ids_per_s']:.1f} ids/s; "
      f"{d['bytes_per_s'] / 1e9:.1f} of {d['peak_bytes_per_s'] / 1e9:.1f} GB/s")
print(f"# kernels of a single run {bare * 1e3:.3f} ms: the loop takes {d['id_s'] / bare:.2f} of it")
PY
	rc=$?
	told $rc "$model: times"
}

same_ids gpt "$DATA/gpt.onnx" 128 --input "input_ids=$DATA/prompt.npy"
same_ids 'gpt, two rows' "$DATA/gpt.onnx" 20 --input "input_ids=$DATA/prompts.npy"
same_ids 'gpt, no CUDA graphs' "$DATA/gpt.onnx" 128 --input "input_ids=$DATA/prompt.npy" --cuda-graph off
same_ids llama "$DATA/llama.onnx" 128 --input "input_ids=$DATA/prompt.npy"

rm -rf "$work/walk-cpu" "$work/walk-cuda"
for d in cpu cuda; do
	"$infer" run "$DATA/walk.onnx" --input "x=$DATA/x.npy" --feed stateN=state --feed countN=count --slice x=4 -q -d $d -o "$work/walk-$d"
done
cmp "$work/walk-cpu/y.npy" "$work/walk-cuda/y.npy" && cmp "$work/walk-cpu/countN.npy" "$work/walk-cuda/countN.npy"
told $? 'walk: the values of the GPU are those of the CPU'

if [ -z "$MODELS" ] && python3 -c 'import onnx.helper' 2>/dev/null; then
	MODELS=$work/models
	python3 "$here/../steps/make_models.py" "$MODELS" deep big
fi
for m in ${MODELS:+"$MODELS"/*.onnx}; do loop_time "$m" 512 128; done
loop_time "$DATA/gpt.onnx" 16 128
loop_time "$DATA/llama.onnx" 16 128
echo "1..$n"
exit $failed
