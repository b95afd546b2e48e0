#!/usr/bin/env bats
# infer run, profile and check with state: --feed, --slice, --next, --derive, --until, --by-step.
# test/steps/make_models.py wrote the files; the ids are those of a loop around ONNX Runtime.

bats_require_minimum_version 1.5.0

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/steps" || return 1
	out=$BATS_TEST_TMPDIR/out
	walk=(walk.onnx --input x=x.npy --feed stateN=state --feed countN=count)
	speak=(--feed 'present.*=past_key_values.*' --next input_ids=argmax:logits)
}

prints() { # WANTED OPTION...: stdout of run
	local want=$1 got
	shift
	got=$("$INFER" run "$@" 2>/dev/null)
	[ "$got" = "$want" ] || { printf 'got:\n%s\n' "$got"; return 1; }
}

says() { # STATUS TEXT COMMAND OPTION...: the status, and a text in what is told
	local status_wanted=$1 text=$2
	shift 2
	run "$INFER" "$@"
	[ "$status" -eq "$status_wanted" ] && [[ $output == *"$text"* ]]
}

values() { # OUTPUT OPTION...: the values of one output
	local name=$1
	shift
	"$INFER" run "$@" -q --json --print=0 | python3 -c '
import json, sys
print(*[v for o in json.load(sys.stdin)["outputs"] if o["name"] == sys.argv[1] for v in o["values"]])' "$name"
}

same_ids() { # MODEL PROMPT STEPS OPTION...
	local model=$1 prompt=$2 steps=$3
	shift 3
	rm -rf "$out"
	"$INFER" run "$model.onnx" --input "input_ids=$prompt.npy" "${speak[@]}" --steps "$steps" -q -o "$out" "$@"
	cmp "$out/input_ids.next.npy" "$model.$prompt.ids.npy"
}

# ---- a walk along a long input

@test "A state goes from piece to piece, and the last piece is filled up with zeros, which a note tells" {
	[ "$(values y "${walk[@]}" --slice x=4)" = "1 2 3 4 7 8 9 10 13 14 15 16 19 20 6 6" ]
	[ "$(values countN "${walk[@]}" --slice x=4)" = 4 ]
	says 0 "the last piece has 2 of 4 elements; zeros fill it up" run "${walk[@]}" --slice x=4
}

@test "rest=drop leaves a shorter last piece out" {
	[ "$(values y "${walk[@]}" --slice x=4,rest=drop)" = "1 2 3 4 7 8 9 10 13 14 15 16" ]
	says 0 "the last 2 elements are left out" run "${walk[@]}" --slice x=4,rest=drop
	run "$INFER" run "${walk[@]}" --slice x=4:5,rest=drop # the element behind each piece is in none
	[[ $status -eq 0 && $output != *"left out"* ]]
}

@test "Pieces may overlap, and zeros may lead" {
	[ "$(values y "${walk[@]}" --slice x.1=4:2,lead=2 --steps 3)" = "0 0 1 2 2 3 4 5 5 6 7 8" ]
}

@test "Outputs of steps are stacked, joined along an axis, kept one by one, or the last is taken" {
	says 0 "y f32 [4,1,4]" run "${walk[@]}" --slice x=4
	says 0 "y f32 [1,16]" run "${walk[@]}" --slice x=4 --by-step y=join:-1
	says 0 "y f32 [4,4]" run "${walk[@]}" --slice x=4 --by-step y=join:0
	says 0 "y f32 [1,4]" run "${walk[@]}" --slice x=4 --by-step last
	[ "$(values y.2 "${walk[@]}" --slice x=4 --by-step 'y=each')" = "13 14 15 16" ]
	[ "$(values countN "${walk[@]}" --slice x=4 --by-step 'countN=stack')" = "1 2 3 4" ]
}

@test "Joining along a later axis keeps the rows apart" {
	rm -rf "$out"
	"$INFER" run grow.onnx --input s=x.npy --input x=x.npy --slice x=7 --steps 2 -q -o "$out" --by-step 't=join:1' --feed t=s
	says 0 "f32 [1,49]" inspect "$out/t.npy"
}

@test "--steps ends a walk early" { [ "$(values countN "${walk[@]}" --slice x=4 --steps 2)" = 2 ]; }

@test "A first state may come from a file" {
	printf '100' >"$BATS_TEST_TMPDIR/s.txt"
	[ "$(values countN "${walk[@]}" --input "count=$BATS_TEST_TMPDIR/s.txt" --slice x=4)" = 104 ]
}

@test "An input that is too short for a step is refused" {
	says 4 "it is too short for one step" run "${walk[@]}" --slice x=100,rest=drop
}

# ---- decoders

@test "128 greedy ids of a GPT are those of a loop around ONNX Runtime" { same_ids gpt prompt 128; }
@test "128 greedy ids of a Llama with GroupQueryAttention are those of a loop around ONNX Runtime" { same_ids llama prompt 128; }
@test "The same with two rows in a batch" {
	same_ids gpt prompts 20
	same_ids llama prompts 20
}

@test "The same without memory plan and with other threads" {
	same_ids gpt prompt 128 --memory-plan off
	same_ids gpt prompt 128 --arena off
	same_ids llama prompt 128 -t 1 --optimize none
}

@test "A cache can be handed to a second run, which goes on where the first one ended" {
	local i first rest=() all # the ids of six steps, and those of the four steps behind them
	all=$(values input_ids.next gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 10)
	"$INFER" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 6 -q -o "$out"
	for i in 0.key 0.value 1.key 1.value; do rest+=(--input "past_key_values.$i=$out/present.$i.npy"); done
	first=${all% * * * *}
	echo "${first##* }" >"$BATS_TEST_TMPDIR/id.txt"
	[ "$first $(values input_ids.next gpt.onnx --input "input_ids=$BATS_TEST_TMPDIR/id.txt,shape=1x1" "${rest[@]}" "${speak[@]}" --steps 4)" = "$all" ]
}

@test "Each input that is derived by its name is told, --derive says it in words, and --strict asks for that" {
	local words=(--derive attention_mask=ones --derive position_ids=positions)
	says 0 "input 'attention_mask' is derived by its name: ones for all positions so far" \
		run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 2
	run "$INFER" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 2 --strict "${words[@]}"
	[ "$status" -eq 0 ] && [[ $output != *"by its name"* ]]
	says 4 "its name suggests --derive attention_mask=ones" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 2 --strict
}

@test "--until ends the steps when its id comes" {
	local ids id
	read -ra ids <<<"$(values input_ids.next gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 20)"
	id=${ids[7]}
	read -ra ids <<<"$(values input_ids.next gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --until "$id")"
	[ "${ids[-1]}" = "$id" ] && [ "${#ids[@]}" -le 8 ]
}

@test "With sample, a seed gives the same ids again, another seed others, and top=1 the largest" {
	local sample=(gpt.onnx --input input_ids=prompt.npy --feed 'present.*=past_key_values.*' --steps 30) a
	a=$(values input_ids.next "${sample[@]}" --next input_ids=sample:logits,temperature=2 --seed 3)
	[ "$a" = "$(values input_ids.next "${sample[@]}" --next input_ids=sample:logits,temperature=2 --seed 3)" ]
	[ "$a" != "$(values input_ids.next "${sample[@]}" --next input_ids=sample:logits,temperature=2 --seed 4)" ]
	[ "$(values input_ids.next "${sample[@]}" --next input_ids=sample:logits,top=1)" = \
		"$(values input_ids.next "${sample[@]}" --next input_ids=argmax:logits)" ]
}

@test "The document tells the steps" {
	"$INFER" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 5 --json 2>/dev/null |
		python3 -c 'import json, sys; s = json.load(sys.stdin)["steps"]; assert s["count"] == 5 and s["state_bytes"] > 0, s'
}

# ---- what is refused

@test "A state whose free axis grows, but does not begin empty, is refused with the option that makes it so" {
	says 4 "--dim s.1=0 begins with an empty state" run grow.onnx --input x=x.npy --slice x=7 --feed t=s
	[ "$(values sum grow.onnx --input x=x.npy --slice x=7 --feed t=s --dim s.1=0)" = "28 105" ]
}

@test "Names that the model does not have are told with those that it has" {
	says 4 "no output of the model matches 'presence.*'" run gpt.onnx --input input_ids=prompt.npy --feed 'presence.*=past_key_values.*' --steps 2
	says 4 "did you mean 'stateN'" run walk.onnx --input x=x.npy --feed statN=state --slice x=4
	says 4 "the model has no input 'past.0.key'" run gpt.onnx --input input_ids=prompt.npy --feed 'present.*=past.*' --steps 2
	says 4 "did you mean 'logits'" run gpt.onnx --input input_ids=prompt.npy --next input_ids=argmax:logit --steps 2
	says 4 "input 'x' has no axis '7'" run walk.onnx --input x=x.npy --slice x.7=4
}

@test "An input that two options make is refused" {
	says 4 "input 'state' is made twice in each step" run "${walk[@]}" --slice x=4 --feed countN=state
	says 4 "is derived in each step, and also given" run gpt.onnx --input input_ids=prompt.npy --input attention_mask=prompt.npy \
		"${speak[@]}" --derive attention_mask=ones --steps 2
}

@test "An output of another type cannot come back" {
	says 4 "output 'logits' cannot come back as input 'attention_mask'" run gpt.onnx --input input_ids=prompt.npy --feed logits=attention_mask --steps 2
}

@test "Wrong words are refused with their form" {
	says 4 "OUT=IN, as 'present.*=past_key_values.*'" run "${walk[@]}" --feed state --slice x=4
	says 4 "IN has more * than OUT" run "${walk[@]}" --feed 'peak=*' --slice x=4
	says 4 "NAME[.AXIS]=SIZE[:STEP]" run "${walk[@]}" --slice x=0
	says 4 "'rest=cut' is no key of --slice" run "${walk[@]}" --slice x=4,rest=cut
	says 4 "IN=argmax:OUT or IN=sample:OUT" run gpt.onnx --input input_ids=prompt.npy --next input_ids=best:logits --steps 2
	says 4 "rules are ones, positions" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --derive attention_mask=two --steps 2
	says 4 "[OUT=]last, stack, join:AXIS or each" run "${walk[@]}" --slice x=4 --by-step y=sum
	says 4 "input 'x' takes no ids" run walk.onnx --input x=x.npy --next x=argmax:y --steps 2
}

@test "Steps that nothing ends are refused" {
	says 4 "nothing says when the steps end" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}"
	says 4 "nothing says when the steps end" run stuck.onnx --random x=0..1 --feed hn=h
}

@test "Outputs whose shapes differ cannot be stacked" {
	says 4 "its shape changes, so that steps cannot be stacked" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 3 --by-step logits=stack
	says 0 "logits f32 [1,18,61]" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 3 --by-step logits=join:1
}

@test "An error names the step in which it came" {
	says 3 "this was step 162" run gpt.onnx --input input_ids=prompt.npy "${speak[@]}" --steps 170
}

@test "Options without effect are told" {
	says 0 "--by-step: the model runs only once" run stuck.onnx --random 0..1 --by-step last
	says 0 "--steps: the model runs only once" run stuck.onnx --random 0..1 --steps 3
	says 0 "--until: no ids are chosen without --next" run "${walk[@]}" --slice x=4 --until 3
}

# ---- profile and check

@test "profile --prefill --decode tells the time to the first id, of the others, and the memory's part" {
	run --separate-stderr "$INFER" profile llama.onnx "${speak[@]}" --prefill 20 --decode 8 -n 2 -t 1
	[ "$status" -eq 0 ]
	[[ $output == *"20 positions, batch 1: "*" to the first id"* ]]
	[[ $output == *"8 ids a round: median "* ]]
	[[ $output == *" of weights and state a step: "* ]]
	"$INFER" profile llama.onnx "${speak[@]}" --prefill 20 --decode 8 -n 1 --json 2>/dev/null |
		python3 -c 'import json, sys; d = json.load(sys.stdin)["decode"]; assert d["prefill"] == 20 and d["ids"] == 8 and d["rounds"] == 1, d'
}

@test "profile --decode asks how the model decodes, and --feed alone is refused" {
	says 2 "it does not say how the model decodes" profile gpt.onnx --decode 8
	says 2 "expected a number of ids, 1 to 1000000, got 'ctc'" profile gpt.onnx "${speak[@]}" --decode ctc
	says 2 "need --decode N here" profile gpt.onnx "${speak[@]}"
}

@test "check warns of a state that never changes, and of one that is fed nowhere" {
	says 0 "warning[W-STATE-SAME]: output 'hn': the state that comes back as input 'h' is the same after each of 4 steps" \
		check stuck.onnx --feed hn=h
	says 0 "warning[W-STATE-UNFED]: output 'stateN'" check walk.onnx --feed countN=count
	says 0 "note[N-STATE-UNFED]: output 'stateN', 'countN'" check walk.onnx
}

@test "check finds nothing where the states change and all are fed" {
	run "$INFER" check walk.onnx --feed countN=count --feed stateN=state
	[ "$status" -eq 0 ] && [[ $output != *STATE* ]]
	run "$INFER" check gpt.onnx "${speak[@]}" --dim sequence=3 --dim batch=1
	[ "$status" -eq 0 ] && [[ $output != *STATE* ]]
}

@test "Every check of a decoder has inputs as its first step has them: derived ones, and states without positions" {
	local some
	for some in llama gpt; do
		run "$INFER" check "$some.onnx" "${speak[@]}" --all
		[ "$status" -eq 0 ] || { echo "$output"; return 1; }
		[[ $output == *"sizes of free dimensions were guessed"* && $output == *"all generated"* ]]
		[[ $output != *"warning["* && $output == *"states over 4 steps"* && $output == *"compare      ok"* ]] || { echo "$output"; return 1; }
	done
	says 0 "inputs       ok          7 inputs fit" check llama.onnx "${speak[@]}" --input input_ids=prompt.npy
	says 4 "nothing makes input 'seqlens_k'" check llama.onnx "${speak[@]}" --strict
	says 4 "it does not say what the input follows from" check llama.onnx "${speak[@]}" --derive seqlens_k=first
}

@test "A temperature of 0 is told as that, with the way to take the best id" {
	says 4 "expected a number above 0, got '0'" run gpt.onnx --input input_ids=prompt.npy --feed 'present.*=past_key_values.*' --next input_ids=sample:logits,temperature=0 --steps 2
}
