#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Decoders on a device whose kernels run on the CPU, each step launched while the one before it runs: the ids of a loop around
# ONNX Runtime, and the outputs of steps that are waited for one by one. Called with the environment of emulated() in test/run.sh.
# TAP on standard output. PYTHON: a folder with onnx; empty: python3 has it.
set -u
here=$(dirname "$0")
: "${OUT:=build}" "${DATA:=$here/../../data/steps}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
speak=(--feed 'present.*=past_key_values.*' --next input_ids=argmax:logits)

told() { # STATUS NAME
	if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

speaks() { # FOLDER MODEL PROMPT OPTION...
	local to=$work/$1 model=$2.onnx prompt=$3.npy rc
	shift 3
	[ -e "$work/$model" ] && model=$work/$model || model=$DATA/$model
	[ -e "$work/$prompt" ] && prompt=$work/$prompt || prompt=$DATA/$prompt
	"$OUT/bin/infer" run "$model" "${speak[@]}" --input "input_ids=$prompt" -d cuda -o "$to" "$@" >"$to.log" 2>&1
	rc=$?
	grep '^emulate: ' "$to.log" # problems of kernels, which emulated() looks for
	return $rc
}

# A state that only grows is extended where it lies, which needs more room now and then.
in_place() { # NAME STEPS MODEL PROMPT OPTION...: of so many steps, how many did so; all outputs are as if none had
	local name=$1 n=$2
	shift 2
	same "$name: the outputs of states that grow where they lie" "$@"
	grep -q "extended in place in $n steps" "$work/ahead.log" && ! grep -q 'extended in place' "$work/waiting.log"
	told $? "$name: $n steps extend the state in place"
}

# --by-step join makes the host read the scores of each step, which then waits for it
same() { # NAME MODEL PROMPT OPTION...: the outputs with steps launched ahead, and one by one
	local name=$1 f rc=0
	shift
	rm -rf "$work/ahead" "$work/waiting"
	speaks ahead "$@" && speaks waiting "$@" --by-step logits=join:1
	rc=$?
	for f in "$work"/ahead/*.npy; do
		[ "$(basename "$f")" = logits.npy ] || cmp "$f" "$work/waiting/$(basename "$f")" || rc=1
	done
	told "$rc" "$name"
	[ "$rc" = 0 ] || sed 's/^/# /' "$work/ahead.log" "$work/waiting.log"
}

for model in gpt llama; do
	for prompt in prompt prompts; do
		wanted=$DATA/$model.$prompt.ids.npy steps=128
		[ $prompt = prompt ] || steps=20
		rm -rf "$work/ids"
		speaks ids $model $prompt --steps $steps && cmp "$work/ids/input_ids.next.npy" "$wanted"
		told $? "$model, $prompt: the ids of ONNX Runtime's loop"
		same "$model, $prompt: the outputs of steps one by one" $model $prompt --steps 7
		# the id of the first row's fifth step (int64, behind a header of 128 bytes) ends that row
		id=$(od -An -t d8 -j $((128 + 4 * 8)) -N 8 "$wanted" | tr -d ' ')
		same "$model, $prompt: nothing is kept of the step behind --until" $model $prompt --steps 12 --until "$id"
	done
done
# the first step makes the state, the second one and each that needs more room copy it, with half as much again
in_place 'llama, prompt' 36 llama prompt --steps 40
in_place 'llama, prompts' 19 llama prompts --steps 24 --until 999
same 'gpt, prompt: its states, which others read as well, are written anew' gpt prompt --steps 12
! grep -q 'extended in place' "$work/ahead.log"
told $? 'gpt, prompt: no state is extended in place'

# Products so large that they normalize what they read, and multiply by a gate: of launches that are written down alone. Steps one by one
# do the same with a launch each, to the bit. Which launches there are the stand-in says.
kinds=(half half_normed half_masked half_multi half_biased half_f16_384 half_f16_512 half_f16_1024 half_bf16_384 half_bf16_512 half_bf16_1024)
if ! PYTHONPATH=${PYTHON:-} python3 -c 'import ml_dtypes, onnx' 2>/dev/null; then
	echo 'ok models of 16-bit elements # skip they need onnx for python3, which make deps-dev installs'
	exit $failed
fi
if ! PYTHONPATH=${PYTHON:-} python3 "$here/../../steps/make_models.py" "$work" "${kinds[@]}" half_made half_watched half_twice chain rows >"$work/log" 2>&1; then
	sed 's/^/# /' "$work/log"
	told 1 'models of 16-bit elements can be made'
fi
for prompt in prompt prompts; do
	rm -rf "$work/ids"
	FAKE_CUDA_LOG=$work/launches speaks ids half $prompt --steps 20 && cmp "$work/ids/input_ids.next.npy" "$DATA/half.$prompt.ids.npy"
	told $? "half, $prompt: the ids of ONNX Runtime's loop"
	grep -q attend_now "$work/launches"
	told $? "half, $prompt: attention makes its new rows"
	same "half, $prompt: the outputs of steps one by one" half $prompt --steps 5
done
PYTHONPATH=${PYTHON:-} python3 -c 'import sys, numpy; numpy.save(sys.argv[1], numpy.array([4, 2], numpy.int32))' "$work/lengths.npy"
in_place 'llama, lengths of less than the cache' 3 llama prompts --steps 6 --input "seqlens_k=$work/lengths.npy"
same 'llama, lengths of less than the cache, --until: the outputs of steps one by one' llama prompts --steps 6 --input "seqlens_k=$work/lengths.npy" --until 999
! grep -q 'extended in place' "$work/ahead.log"
told $? 'llama, lengths of less than the cache, --until: each step writes a new state'
for kind in "${kinds[@]:1:4}"; do
	in_place "$kind, prompts" 6 "$kind" prompts --steps 9 --until 999
done
same 'half_watched, prompts: keys do not grow where values cannot' half_watched prompts --steps 9
! grep -q 'extended in place' "$work/ahead.log"
told $? 'half_watched, prompts: no state is extended in place'
same 'half_twice, prompts: values that come back as two inputs do not grow, and their keys do not' half_twice prompts --steps 9 --feed present.0.value=seen
! grep -q 'extended in place' "$work/ahead.log"
told $? 'half_twice, prompts: no state is extended in place'
export FAKE_CUDA_LOG=$work/launches
for kind in "${kinds[@]:5}"; do
	for prompt in rows2 rows9; do
		same "$kind, $prompt: the outputs of steps one by one" "$kind" $prompt --steps 3
	done
done
for kernel in gemv_gate{1,2}_{1,2,4}_{f16,bf16}; do
	grep -q "run $kernel" "$work/launches"
	told $? "$kernel has run"
done
# of three normalizations the gate's products do one with nine rows, too, as the product before has added up their squares
export FAKE_CUDA_LOG=$work/nine.launches
speaks nine half_f16_512 rows9 --steps 4 && awk '/run norm_one_row/ {n++} /run gemv_gate/ {gate = 1}
	/run choose_ids/ {if (gate && n == 2) good = 1; n = gate = 0} END {exit !good}' "$work/nine.launches"
told $? "half_f16_512, rows9: products normalize what they read"
# the sums of squares that a product adds up must not lie on the rows that it still normalizes, which the plan thinks are gone
for prompt in rows2 rows9; do
	same "chain, $prompt: the outputs of steps one by one" chain $prompt --steps 4
done
# a product must not read a scale that the step computes before the launch that makes it has ended: the emulator would tell
found=$(speaks made half_made rows2 --steps 3) && [ -z "$found" ]
told $? "half_made, rows2: a scale that the step computes is not read ahead"
[ -z "$found" ] || echo "$found"
exit $failed
