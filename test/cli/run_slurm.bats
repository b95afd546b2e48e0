#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slurm on this machine: a controller and two nodes, with a munged of their own, run the job array and the srun of docs/cluster.md.
# Debian: slurmctld, slurmd, slurm-client and munge. All run as the present user, which must be root.

setup_file() {
	bats_require_minimum_version 1.5.0
	PATH=$PATH:/usr/sbin:/sbin
	dir=$BATS_FILE_TMPDIR
	port=$((20000 + $$ % 20000))
	export PATH dir SLURM_CONF=$dir/slurm.conf
	for program in slurmctld slurmd sbatch munged; do
		command -v $program >/dev/null || return 0
	done
	[ "$(id -u)" = 0 ] || return 0
	mkdir -m 755 "$dir/munge" "$dir/state" "$dir/n1" "$dir/n2"
	head -c 1024 /dev/urandom >"$dir/munge/key"
	chmod 600 "$dir/munge/key"
	cat >"$SLURM_CONF" <<-CONF
		ClusterName=test
		SlurmctldHost=$(hostname -s)(127.0.0.1)
		SlurmUser=root
		AuthType=auth/munge
		AuthInfo=socket=$dir/munge/socket
		CryptoType=crypto/munge
		SlurmctldPort=$port
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/%n
		SlurmctldPidFile=$dir/ctld.pid
		SlurmdPidFile=$dir/%n.pid
		SlurmctldLogFile=$dir/ctld.log
		SlurmdLogFile=$dir/%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SlurmdParameters=config_overrides
		MpiDefault=none
		ReturnToService=2
		SchedulerParameters=sched_interval=1
		NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2 State=UNKNOWN
		NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2 State=UNKNOWN
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	CONF
	# the daemons must not keep the pipe of this test open
	munged --foreground --force --key-file "$dir/munge/key" --socket "$dir/munge/socket" --pid-file "$dir/munge/pid" \
		--log-file "$dir/munge/log" --seed-file "$dir/munge/seed" 3>&- >"$dir/munged.out" 2>&1 &
	echo $! >"$dir/pids"
	for _ in $(seq 100); do [ ! -S "$dir/munge/socket" ] || break; sleep 0.1; done
	slurmctld -D -c 3>&- >"$dir/ctld.out" 2>&1 &
	echo $! >>"$dir/pids"
	for n in n1 n2; do
		slurmd -D -N $n 3>&- >"$dir/$n.out" 2>&1 &
		echo $! >>"$dir/pids"
	done
	for _ in $(seq 300); do
		[ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 2 ] || return 0
		sleep 0.1
	done
	tail -n 5 "$dir"/*.out "$dir"/*.log >&3
	return 1
}

teardown_file() {
	[ -e "$dir/pids" ] || return 0
	# Bats removes the folder next, and slurmctld writes its state there as its last act: each daemon, the newest first,
	# has ended before this ends. One that does not end by itself is killed.
	local pid
	for pid in $(tac "$dir/pids"); do
		kill "$pid" 2>/dev/null || continue
		timeout 10 tail --pid="$pid" -s 0.1 -f /dev/null || kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}

setup() {
	[ -e "$dir/pids" ] || skip "Slurm or munge is not installed, or this is not root"
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	INFER=$(realpath "$INFER")
	data=$BATS_TEST_DIRNAME/../data/run
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir pics
	for i in 1 2 3 4 5 6 7; do
		cp "$data/rgb.png" pics/a$i.png
		cp "$data/rgb.jpg" pics/b$i.jpg
	done
	"$INFER" run "$data/pic.onnx" --input pics -q --shard 1/1 --jsonl one.jsonl --report one.json
}

# The shards have each input of the list once, and their sum is that of one run.
adds_up() { # REPORT...
	"$INFER" merge "$@" --json | jq 'del(.times, .shards, .env)' >many.sum
	"$INFER" merge one.json --json | jq 'del(.times, .shards, .env)' | cmp - many.sum
	sort one.jsonl >one.lines
	cat lines-*.jsonl | sort | cmp - one.lines
}

@test "A job array is four shards on two nodes" {
	cat >job.sh <<-JOB
		#!/bin/bash
		#SBATCH --array=1-4
		#SBATCH --output=job-%a.log
		"$INFER" run "$data/pic.onnx" --input pics --jsonl 'lines-{shard}.jsonl' --report 'report-{shard}.json'
		echo "\$SLURMD_NODENAME" >node-\$SLURM_ARRAY_TASK_ID
	JOB
	timeout 60 sbatch --wait job.sh
	grep -qF 'runs shard 3 of 4, as SLURM_ARRAY_TASK_ID says' job-3.log
	cat node-? | sort -u >nodes
	adds_up report-?-of-4.json
}

@test "The tasks of srun are shards, and a batch script without srun has all inputs" {
	timeout 60 srun --nodes 2 --ntasks 3 "$INFER" run "$data/pic.onnx" --input pics \
		--jsonl 'lines-{shard}.jsonl' --report 'report-{shard}.json' 2>srun.log
	grep -qF 'runs shard 2 of 3, as SLURM_PROCID says' srun.log
	adds_up report-?-of-3.json
	timeout 60 sbatch --wait --ntasks 2 --output alone.log --wrap "'$INFER' run '$data/pic.onnx' --input pics --json -q"
	[ "$(jq -r '"\(.shard.index)/\(.shard.count) \(.inputs.done)"' alone.log)" = "1/1 14" ]
}
