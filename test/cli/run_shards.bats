#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# infer run --shard and --report, and infer merge.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	INFER=$(realpath "$INFER")
	data=$BATS_TEST_DIRNAME/../data/run
	bats_require_minimum_version 1.5.0
	unset "${!SLURM_@}" "${!OMPI_@}" JOB_COMPLETION_INDEX INFER_SHARD_COUNT INFER_SHARD 2>/dev/null || true
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir pics
	for i in 1 2 3 4 5 6 7; do
		cp "$data/rgb.png" pics/a$i.png
		cp "$data/rgb.jpg" pics/b$i.jpg
	done
	pic=("$data/pic.onnx" --input pics -q)
}

# which OPTION...: the shard that the environment names
which_shard() {
	"$INFER" run "${pic[@]}" --json "$@" 2>/dev/null | jq -r '"\(.shard.index)/\(.shard.count)"'
}

# merged REPORT...: the sum, without what depends on the clock and on the number of shards
merged() {
	"$INFER" merge "$@" --json | jq 'del(.times, .shards, .env)'
}

@test "Shards have each input once, and their sum is that of one run" {
	echo junk >pics/b3.jpg
	run "$INFER" run "${pic[@]}" --keep-going --shard 1/1 --report one.json -o one
	[ "$status" -eq 4 ]
	for n in 2 4 5 20; do
		rm -rf many
		for i in $(seq $n); do
			"$INFER" run "${pic[@]}" --keep-going --shard "$i/$n" --report "$n-{shard}.json" -o many || [ $? -eq 4 ]
		done
		diff -r one many
		merged one.json >one.sum || [ $? -eq 4 ]
		merged $(ls $n-*.json | shuf --random-source=<(yes $n)) >many.sum || [ $? -eq 4 ]
		cmp one.sum many.sum
	done
	[ "$(jq '.inputs.done' many.sum)" = 13 ]
	[ "$(jq -r '.failures[0].input' many.sum)" = pics/b3.jpg ]
	[ "$(jq -r '.exit_code' many.sum)" = 4 ]
}

@test "Percentiles are those of all samples" {
	for i in 1 2 3; do
		"$INFER" run "${pic[@]}" --shard $i/3 --report r$i.json
	done
	"$INFER" merge r?.json --json >sum.json
	jq -s '[.[].cases[].seconds]' r?.json >all.json
	python3 -c '
import json, statistics
v, t = json.load(open("all.json")), json.load(open("sum.json"))["times"]
assert t["samples"] == len(v) == 14
want = statistics.quantiles(v, n=100, method="inclusive") + [max(v)]
for name, q in ("p50", 50), ("p90", 90), ("p99", 99), ("max", 100):
    assert abs(t[name] - want[q - 1]) <= 1e-12 * t[name], name'
}

@test "Missing and doubled shards are named, and what does not fit is refused" {
	for i in 1 2 3 4; do
		"$INFER" run "${pic[@]}" --shard $i/4 --report r$i.json
	done
	run --separate-stderr "$INFER" merge r1.json r3.json
	[ "$status" -eq 1 ]
	[[ $stderr = *"error[E-SHARD]: 2 shards of 4 are missing"*"2, 4"* ]]
	[[ $stderr = *"7 inputs in no report"* ]]
	run --separate-stderr "$INFER" merge r1.json r2.json r3.json r4.json r2.json
	[ "$status" -eq 1 ]
	[[ $stderr = *"shard 2 of 4 is given twice: in r2.json and in r2.json"$'\n'* ]]
	cp "$data/pic.onnx" other.onnx
	printf '\x32\x01a' >>other.onnx # a doc_string
	"$INFER" run other.onnx --input pics -q --shard 2/4 --report m.json
	"$INFER" run "${pic[@]}" --shard 2/4 --report o.json --seed 1
	"$INFER" run "${pic[@]}" --shard 2/3 --report n.json
	rm pics/b7.jpg
	"$INFER" run "${pic[@]}" --shard 2/4 --report l.json
	for other in 'm another model' 'o another --seed' 'n another number of shards' 'l another list of inputs'; do
		run --separate-stderr "$INFER" merge r1.json "${other%% *}.json"
		[ "$status" -eq 1 ]
		[[ $stderr = *"error[E-SHARD]: ${other%% *}.json: "*"${other#* }"* ]] || { echo "$stderr"; return 1; }
	done
	echo '{"schema": "infer/1"}' >junk.json
	run --separate-stderr "$INFER" merge junk.json
	[ "$status" -eq 1 ]
	[[ $stderr = *"junk.json: it is no report"* ]]
	run --separate-stderr "$INFER" merge absent.json
	[ "$status" -eq 2 ]
	[[ $stderr = "error[E-USAGE]: absent.json: cannot open: "* && $stderr != *hint* ]]
	jq '.cases[0].index = 1' r1.json >bad.json
	run --separate-stderr "$INFER" merge bad.json r2.json
	[[ $stderr = *"error[E-SHARD]: bad.json: it has an input that is not of its shard"* ]]
}

@test "The shard follows from what started the program" {
	[ "$(which_shard)" = 1/1 ]
	[ "$(SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_STEP=2 SLURM_ARRAY_TASK_COUNT=4 which_shard)" = 3/4 ]
	[ "$(SLURM_PROCID=2 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 which_shard)" = 3/3 ]
	# a batch script has the tasks of the job, but is one program
	[ "$(SLURM_PROCID=0 SLURM_NTASKS=3 which_shard)" = 1/1 ]
	[ "$(SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=1 SLURM_ARRAY_TASK_COUNT=2 \
		SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3 which_shard)" = 6/6 ]
	[ "$(OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 which_shard)" = 2/4 ]
	[ "$(JOB_COMPLETION_INDEX=3 INFER_SHARD_COUNT=4 which_shard)" = 4/4 ]
	[ "$(OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 which_shard --shard 1/2)" = 1/2 ]
	[ "$(OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 INFER_SHARD=2/3 which_shard)" = 2/3 ]
	OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 run --separate-stderr "$INFER" run "$data/pic.onnx" --input pics
	[[ $stderr = *"shard 2 of 4, as OMPI_COMM_WORLD_RANK says"* ]]
	# one input is not divided
	OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 "$INFER" run "$data/pic.onnx" --input pics/a1.png -q --jsonl x.jsonl
	[ "$(wc -l <x.jsonl)" -eq 1 ]
}

@test "What names no shard is refused" {
	JOB_COMPLETION_INDEX=3 run --separate-stderr "$INFER" run "${pic[@]}"
	[ "$status" -eq 1 ]
	[[ $stderr = *"E-SHARD"*"INFER_SHARD_COUNT"* ]]
	SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=9 SLURM_ARRAY_TASK_COUNT=3 \
		run --separate-stderr "$INFER" run "${pic[@]}"
	[ "$status" -eq 1 ]
	[[ $stderr = *"have gaps"* ]]
	OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4 run --separate-stderr "$INFER" run "${pic[@]}"
	[ "$status" -eq 1 ]
	for bad in 0/4 5/4 1 1/0 a/b 1/4x -1/4 ''; do
		run --separate-stderr "$INFER" run "${pic[@]}" --shard "$bad"
		[ "$status" -eq 2 ] || { echo "$bad: $status"; return 1; }
	done
}

@test "Shards that are killed at 20 moments and resumed have each result once" {
	{
		head=$(printf "{'descr': '<f4', 'fortran_order': False, 'shape': (3000, 4), }")
		printf '\223NUMPY\1\0\166\0%-117s\n' "$head"
		seq 1 12000 | awk '{printf "%08d", $1}' | head -c 48000
	} >rows.npy
	arguments=(run "$data/two.onnx" --input "a=rows.npy,split=0" --random b=0..1 --batch 8 -q)
	"$INFER" "${arguments[@]}" --jsonl want.jsonl --report one.json
	for moment in $(seq 0 19); do
		i=$((moment % 2 + 1))
		"$INFER" "${arguments[@]}" --shard $i/2 --jsonl 'x{shard}.jsonl' --report 'r{shard}.json' --resume 3>&- &
		until [ "$(cat x$i-of-2.jsonl 2>/dev/null | wc -l)" -ge $((moment * 70 + 1)) ]; do :; done
		kill -9 $! || true
		wait $! || true
	done 2>/dev/null
	for i in 1 2; do
		"$INFER" "${arguments[@]}" --shard $i/2 --jsonl 'x{shard}.jsonl' --report 'r{shard}.json' --resume
	done
	# shard 1 has the first line, shard 2 the second, and so on
	paste -d '\n' x1-of-2.jsonl x2-of-2.jsonl | cmp - want.jsonl
	merged one.json >one.sum
	merged r1-of-2.json r2-of-2.json | cmp - one.sum
}

@test "A resumed report has what was done before" {
	echo junk >pics/b3.jpg
	run "$INFER" run "${pic[@]}" --shard 1/2 --keep-going --jsonl x.jsonl --report r.json --resume
	cp r.json before.json
	cp "$data/rgb.jpg" pics/b3.jpg
	for i in 1 2; do "$INFER" run "${pic[@]}" --shard $i/2 --jsonl x.jsonl --report r$i.json --resume; done
	"$INFER" run "${pic[@]}" --shard 1/2 --jsonl x.jsonl --report r.json --resume
	[ "$(jq '[.cases[] | select(.name != "b3")]' r.json)" = "$(jq '[.cases[] | select(.name != "b3")]' before.json)" ]
	"$INFER" merge r.json r2.json --json | jq -e '.inputs.done == 14'
}
