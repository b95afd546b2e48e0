#!/usr/bin/env bash
# test/run.sh SUITE...: runs test suites and ends with one line, "N passed, N failed".
#
# Called by the Makefile, which sets INFER (the program), OUT (its build folder), UNIT (the unit test programs), CC,
# BUILD and MAKE. A suite is a function below. A test is a TAP line, "ok NAME" or "not ok NAME". A program or step that
# prints no test, crashes or hangs counts as one failed test. The limit of TEST_TIMEOUT seconds is only for tests that would
# never end; it is many times longer than the longest suite, because no test may depend on the speed of the machine. Failed
# tests are printed; V=1 prints all of them.
# TALLY=FILE appends "PASSED FAILED SKIPPED" to FILE instead of printing the last line (make check runs make test).
set -u -o pipefail
shopt -s nullglob
cd "$(dirname "$0")/.." || exit 1

: "${INFER:=$PWD/build/bin/infer}" "${OUT:=build}" "${BUILD:=build}" "${UNIT:=}" "${MAKE:=make}" "${CC:=gcc}"
: "${TEST_TIMEOUT:=7200}"
# INFER is an absolute path, so that a test may change its working folder
export INFER OUT
passed=0 failed=0 skipped=0
log=$(mktemp) scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$log" "$scratch"' EXIT

# The user's settings and tuning results must not influence the tests.
for name in "${!INFER_@}"; do
	case $name in
	INFER_LIBRARY_PATH | INFER_WITHOUT) ;; # these describe the libraries of the machine
	*) unset "$name" ;;
	esac
done
export XDG_CACHE_HOME=$scratch/cache
# The runtime of gcc before 14 and clang before 17 now and then takes a thread's block of storage for one with the header of an old C
# library, and its search for leaks then crashes.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}intercept_tls_get_addr=0

count() { # PASSED FAILED SKIPPED
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

head_line() { # NAME PASSED FAILED SKIPPED [SECONDS]
	printf '%-28s %5d passed %4d failed %4d skipped%s\n' "${@:1:4}" "${5:+ ($5 s)}"
}

tap() { # NAME COMMAND...: runs the command and counts its TAP lines
	local name=$1 limit=$TEST_TIMEOUT start=$SECONDS rc ok bad skip
	shift
	timeout -k 10 "$limit" "$@" >"$log" 2>&1 </dev/null
	rc=$?
	skip=$(grep -c -i '^ok .*# skip' "$log")
	ok=$(($(grep -c '^ok ' "$log") - skip))
	bad=$(grep -c '^not ok ' "$log")
	if [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
		echo "not ok $name: not finished after $limit s; last finished test: $(grep -E '^(not )?ok ' "$log" | tail -n 1)" >>"$log"
		bad=$((bad + 1))
	elif [ "$rc" != 0 ] && [ "$bad" = 0 ]; then # it crashed
		echo "not ok $name: exit status $rc" >>"$log"
		bad=1
	elif [ $((ok + bad + skip)) = 0 ]; then
		echo "not ok $name: ran no test" >>"$log"
		bad=1
	fi
	head_line "$name" "$ok" "$bad" "$skip" $((SECONDS - start))
	if [ -n "${V:-}" ]; then
		sed 's/^/  /' "$log"
	elif [ "$bad" != 0 ]; then
		grep -v -E '^(ok |[0-9]+\.\.[0-9]+$)' "$log" | tail -n 200 | sed 's/^/  /'
	fi
	count "$ok" "$bad" "$skip"
}

step() { # NAME COMMAND...: one test, which passes if the command succeeds
	local name=$1 start=$SECONDS
	shift
	if timeout -k 10 "$TEST_TIMEOUT" "$@" >"$log" 2>&1 </dev/null; then
		printf '%-28s ok (%d s)\n' "$name" $((SECONDS - start))
		[ -z "${V:-}" ] || sed 's/^/  /' "$log"
		count 1 0 0
	else
		printf '%-28s FAILED\n' "$name"
		tail -n 200 "$log" | sed 's/^/  /'
		count 0 1 0
	fi
}

# Calls FUNCTION with ITEM in a shell of its own, with a log, a cache and counts of its own; what it prints stands together.
apart() { # FUNCTION ITEM
	log=$(mktemp -p "$scratch") && trap - EXIT || return
	export XDG_CACHE_HOME=$log.cache
	passed=0 failed=0 skipped=0
	"$@" >"$log.out" 2>&1
	cat "$log.out"
	echo "$passed $failed $skipped" >"$log.counts"
}

# Calls FUNCTION for each ITEM, as many at a time as there are cores: no test may depend on what runs beside it. A call that
# never came to its counts is one failed test.
side_by_side() { # FUNCTION ITEM...
	local each=$1 item running=0 counts
	shift
	for item; do
		if [ $running -ge "$(nproc)" ]; then
			wait -n
			running=$((running - 1))
		fi
		(apart "$each" "$item") &
		running=$((running + 1))
	done
	wait
	counts=("$scratch"/*.counts)
	# shellcheck disable=SC2046 # three numbers
	count $(cat /dev/null "${counts[@]}" | awk -v calls=$# '{p += $1; f += $2; s += $3} END {print p + 0, f + calls - NR, s + 0}')
	rm -f "${counts[@]}"
}

# Removes a build that no later suite uses, in CI only, where disk space is short.
done_with() { # FOLDER
	[ -z "${CI:-}" ] || rm -rf "${BUILD:?}/$1"
}

# --- the suites of make test

unit_program() { tap "unit/${1##*/}" "$1"; }
unit() {
	# shellcheck disable=SC2086 # a list of programs
	side_by_side unit_program $UNIT
}

bats_file() { tap "${1#test/}" bats --tap "$1"; }
cli() { side_by_side bats_file test/cli/*.bats; }

# Runs the corpus of `infer check` with this build and with the fault-injection build, which is made first if needed.
# CHECK_MODELS names folders of further models that are correct.
check() {
	if [ -n "${FAULTS_INFER:-}" ]; then
		step 'fault-injection build' "$MAKE" --no-print-directory FAULTS=1
	fi
	tap check test/check/run.sh
}

# Runs the conformance runner on a folder of cases. It ends with "conformance: N passed, N failed, N skipped".
conformance_of() { # NAME FOLDER
	timeout -k 10 "$TEST_TIMEOUT" "$OUT/conformance/run" "$2" >"$log" 2>&1 </dev/null
	count_conformance "$1"
}

count_conformance() { # NAME: counts the results that the runner wrote into the log
	local name=$1 line
	line=$(grep -E '^conformance: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
	if [ -z "$line" ]; then
		echo "$name: the runner crashed"
		tail -n 50 "$log" | sed 's/^/  /'
		count 0 1 0
		return
	fi
	# shellcheck disable=SC2086 # three numbers
	set -- ${line//[!0-9 ]/}
	head_line "$name" "$1" "$2" "$3"
	[ "$2" = 0 ] || grep -v '^conformance: ' "$log" | tail -n 200 | sed 's/^/  /'
	count "$1" "$2" "$3"
}

cases_folder() {
	local cases
	for cases in "${CONFORMANCE:-}" ../shared/conformance test/conformance/cases; do
		[ -z "$cases" ] || [ ! -d "$cases" ] || break
	done
	echo "$cases"
}

conformance() {
	local cases
	[ -x "$OUT/conformance/run" ] || return 0
	cases=$(cases_folder)
	[ ! -d "$cases" ] || conformance_of conformance "$cases"
	# of other releases of ONNX than those beside the project
	[ "$cases" = test/conformance/cases ] || conformance_of 'conformance/carried' test/conformance/cases
	conformance_of 'conformance/random' test/random/cases
	# The same with the loops and libraries that a machine without AVX-512, or without AVX2, uses.
	for isa in AVX2 SSE41; do
		ONEDNN_MAX_CPU_ISA=$isa conformance_of "conformance/random, $isa" test/random/cases
	done
}

# --- the suites of make check

lint() {
	local script
	for script in test/lint/*.sh; do
		name=${script#test/}
		step "${name%.sh}" "$script"
	done
}

headers() { step 'headers compile alone' "$MAKE" -k --no-print-directory check-headers DEVELOPER=1; }

gcc() { step "$CC DEVELOPER=1" "$MAKE" -k --no-print-directory tests DEVELOPER=1; }

# clang warns while it builds what the suite `fuzz` runs.
FUZZERS=(CC=clang SANITIZE='fuzzer-no-link,address,undefined')
clang() { step 'clang DEVELOPER=1' "$MAKE" -k --no-print-directory tests fuzzers "${FUZZERS[@]}" DEVELOPER=1; }

# Reads a list of the conformance runner and prints the numeric operators that ran on the host instead of the GPU. Operators on
# strings, sequences, optionals and pictures, those of ai.onnx.ml, losses and optimizers may run there.
host_numbers() {
	awk -F '\t' '$3 ~ /^host: / {
		n = split(substr($3, 7), op, " ")
		for (i = 1; i <= n; i++) {
			if (op[i] ~ /^ai\.onnx\.(ml|preview\.training)::|Loss\[|\[string\]$|Sequence|^Optional|^ImageDecoder|^Identity$/) continue
			if (op[i] ~ /^Cast/ && $2 ~ /STRING|_str_/) continue
			if (op[i] ~ /^(If|Loop)/ && $3 ~ /Sequence|Optional/) continue
			# forms of operators of com.microsoft that have no kernel on the device
			if (op[i] ~ /^com\.microsoft::(CausalConvWithState|Gated|LinearAttention)/ && \
			    $2 ~ /_ms_.*(_channels_last|_dilation|_window_|_free|_row_of_one|_more_key_heads)/) continue
			print $2 ": " op[i] " ran on the host"
		}
	}'
}

# A test that passes if TEXT, a list of problems, is empty.
expect_empty() { # NAME TEXT
	local bad=0
	[ -z "$2" ] || bad=1
	head_line "$1" $((1 - bad)) $bad 0
	[ $bad = 0 ] || printf '%s\n' "$2"
	count $((1 - bad)) $bad 0
}

# Checks that every kernel ran with its numbers compared; cases of test/gpu/kernels.py cover the kernels that no other case
# reaches. Needs the Python package onnx.
emulate_every() {
	if ! PYTHONPATH=$PYTHON python3 -c 'import ml_dtypes, onnx' 2>/dev/null; then
		echo 'emulated/every               skipped: it needs onnx for python3, which make deps-dev installs'
		count 0 0 1
		return
	fi
	cat "$OUT"/emulated/half?.launches >"$OUT/emulated/launches" 2>/dev/null
	local -x EMULATE=$1 TOLD=$OUT/emulated REACHED=$OUT/emulated/launches
	tap emulated/every test/gpu/emulate/every.sh
}

# Runs the GPU kernels on the CPU (test/gpu/emulate), and checks the results of the cases and every memory access. Whole
# networks (light/) would take too long. Each problem of a kernel is a line "emulate: ...".
emulated() {
	local folder cases half found told=$OUT/emulated pids=()
	if [ "${HAVE_CUDA:-0}" != 1 ] || ! command -v "${EMULATE_CXX:-clang++}" >/dev/null; then
		echo 'emulated                     skipped: it needs the CUDA headers and clang++'
		count 0 0 1
		return
	fi
	step 'kernels for the CPU' "$MAKE" --no-print-directory emulate-checked "$OUT/conformance/run" "$OUT/unit/gpu_runtime"
	rm -rf "$told" && mkdir -p "$told"
	folder=$(cd "$BUILD/emulate" && pwd) || return
	tap emulated/faults "$folder/faults" "$folder/faults.so"
	step 'products before sm_80' "$MAKE" --no-print-directory EMULATE_TURING=1 "$BUILD/emulate-turing/faults"
	tap emulated/turing "$BUILD/emulate-turing/faults" "$BUILD/emulate-turing/faults.so" products
	local -x FAKE_CUDA_KERNELS=$folder/checked.so INFER_LIBRARY_PATH=$folder EMULATE_GO_ON=1
	local -x INFER_WITHOUT=cudnn,cublaslt,nvrtc,cupti,nvml
	local -x FAKE_CUDA_LATE=1 FAKE_CUDA_HIDE=1 # the stand-in runs asynchronously, and the host cannot access its memory
	cases=$(cases_folder)
	for half in 0 1; do
		LAUNCHES=$told/half$half.launches timeout -k 10 "$TEST_TIMEOUT" "$OUT/conformance/run" "$cases" -d cuda -n \
			-x light/ -s "$half/2" -l "$told/half$half.list" >"$told/half$half" 2>&1 </dev/null &
		pids+=($!)
	done
	timeout -k 10 "$TEST_TIMEOUT" "$OUT/conformance/run" test/random/cases -d cuda -n \
		-l "$told/random.list" >"$told/random" 2>&1 </dev/null &
	pids+=($!)
	wait "${pids[@]}"
	for half in 0 1; do
		cp "$told/half$half" "$log"
		count_conformance "emulated/conformance $((half + 1))"
	done
	cp "$told/random" "$log"
	count_conformance emulated/random
	tap emulated/gpu_runtime "$OUT/unit/gpu_runtime"
	cp "$log" "$told/gpu_runtime"
	# a folder with onnx; empty: python3 has it, or nobody
	local -x PYTHON=${DEPS:-$BUILD/deps}/python
	[ -d "$PYTHON/onnx" ] || PYTHON=
	tap emulated/decoder test/gpu/emulate/decoder.sh
	cp "$log" "$told/decoder"
	emulate_every "$folder"
	found=$(cat "$told"/*.list | host_numbers)
	expect_empty emulated/placed "$found"
	found=$(grep -rh '^emulate: ' "$told" | sed -E 's/, block [^:]*: /: /' | sort | uniq -c)
	expect_empty emulated/accesses "$found"
}

# Cross-compiles for 64-bit ARM and runs the self-test and every tenth conformance case in qemu-user. The libraries of the target
# are fetched by the first run (tools/arm64-sysroot.sh). Whole networks (light/) are left out: emulated, a single one takes minutes
# and gigabytes.
arm64() {
	local folder=$BUILD/aarch64-linux-gnu-gcc tool
	for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
		command -v $tool >/dev/null || {
			echo "arm64                        skipped: it needs $tool"
			count 0 0 1
			return
		}
	done
	if ! tools/arm64-sysroot.sh "$BUILD/arm64-sysroot" >"$log" 2>&1; then
		echo "arm64                        skipped: its libraries cannot be fetched: $(tail -n 1 "$log")"
		count 0 0 1
		return
	fi
	step 'build for arm64' "$MAKE" --no-print-directory arm64
	local -x QEMU_LD_PREFIX=$BUILD/arm64-sysroot
	step 'arm64/selftest' qemu-aarch64-static "$folder/bin/infer" selftest
	timeout -k 10 "$TEST_TIMEOUT" qemu-aarch64-static "$folder/conformance/run" "$(cases_folder)" \
		-x light/ -s 0/10 >"$log" 2>&1 </dev/null
	count_conformance arm64/conformance
}

# Runs make test once more with the sanitizers
sanitize() {
	local tally sums
	tally=$(mktemp)
	echo '--- the tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	TALLY=$tally UBSAN_OPTIONS=print_stacktrace=1 \
		"$MAKE" --no-print-directory test SANITIZE=address,undefined >"$log" 2>&1
	sums=$(awk '{p += $1; f += $2; s += $3} END {if (NR) print p, f, s}' "$tally")
	rm -f "$tally"
	if [ -n "$sums" ]; then
		grep -v -E '^  (CC|LINK|PROTOC|COPY) ' "$log"
		# shellcheck disable=SC2086 # three numbers
		count $sums
	else
		echo 'the build with sanitizers FAILED'
		tail -n 100 "$log" | sed 's/^/  /'
		count 0 1 0
	fi
	done_with address-undefined
}

# Unpacks what mutants are made of: the carried conformance cases and those of com.microsoft's operators.
mutants_cases() { # FOLDER
	mkdir -p "$1/contrib"
	tar -C "$1" -xzf test/conformance/cases/small.tar.gz
	tar -C "$1/contrib" --strip-components=1 -xJf test/mutants/cases/contrib.tar.xz
}

# Runs mutants of ONNX cases on this build: 20,000 of a fixed seed, each within limits of CPU time and memory.
mutants() {
	mutants_cases "$scratch/mutants"
	step mutants "$OUT/mutants/run" "$scratch/mutants" -s "${MUTANTS_SEED:-1}" -n "${MUTANTS:-20000}" -l 60 \
		-k "$BUILD/fuzz/mutants"
}

# Runs each fuzz target from the seeds in test/fuzz/NAME/, on a fixed number of inputs that are the same on every machine;
# options that would let addresses or the clock influence the inputs are therefore off. FUZZ_SECONDS=N searches for N seconds
# without these restrictions.
fuzz_target() { # NAME
	local name=$1 found=$BUILD/fuzz/$1 folders
	local how=(-runs="${FUZZ_RUNS:-20000}" -seed="${FUZZ_SEED:-1}" -reload=0 -entropic=0 -use_cmp=0)
	if [ -n "${FUZZ_SECONDS:-}" ]; then
		how=(-max_total_time="$FUZZ_SECONDS" -seed="${FUZZ_SEED:-0}")
	else
		found=$found-same && rm -rf "$found"
	fi
	mkdir -p "$found"
	folders=("$found") # libFuzzer writes new inputs to the first folder
	[ ! -d "test/fuzz/$name" ] || folders+=("test/fuzz/$name")
	step "fuzz/$name" "$BUILD/clang-fuzzer-no-link-address-undefined/fuzz/$name" "${how[@]}" -timeout=1200 -rss_limit_mb=2048 \
		-artifact_prefix="$BUILD/fuzz/$name-" "${folders[@]}"
}
fuzz() {
	local targets
	step 'fuzzers build' "$MAKE" --no-print-directory fuzzers "${FUZZERS[@]}"
	targets=(test/fuzz/*.c)
	targets=("${targets[@]##*/}")
	side_by_side fuzz_target "${targets[@]%.c}"
	done_with clang-fuzzer-no-link-address-undefined
}

# Refuses memory at one request in a run, and at all from there on; TORTURE_MODE=-a does so at every request.
torture() {
	# shellcheck disable=SC2086 # an option or none
	tap torture "$OUT/torture/run" ${TORTURE_MODE:-} "$INFER" "$OUT/torture/refuse.so" test/torture/model.onnx
}

# Compares random graphs, codes, operands and planted faults with the reference implementations that `make deps-dev` installs; skipped
# if they are missing. The number of graphs and the seed are fixed, so that every run is the same; RANDOM_SECONDS=N runs as many as
# fit into N seconds.
random_part() { # NAME
	local seed=(--tap --driver "$OUT/random/driver" --seed "${RANDOM_SEED:-1}") limit=(--count "${RANDOM_GRAPHS:-3000}")
	[ -z "${RANDOM_SECONDS:-}" ] || limit=(--seconds "$RANDOM_SECONDS")
	case $1 in
	random)
		"$INFER" inspect --ops --json >"$log.ops" || {
			count 0 1 0
			return
		}
		tap random python3 test/random/random_test.py --ops "$log.ops" --keep "$OUT/random/failed" "${seed[@]}" "${limit[@]}"
		;;
	codes) tap codes python3 test/random/codes.py "${seed[@]}" --count $((${RANDOM_GRAPHS:-3000} / 10)) ;;
	operands) tap operands python3 test/random/operands.py "${seed[@]}" test/conformance/cases test/random/cases ;;
	trust) tap trust python3 test/trust/self_test.py "$INFER" ;;
	esac
}
random() {
	local -x PYTHONPATH=${DEPS:-$BUILD/deps}/python PYTHONDONTWRITEBYTECODE=1
	if [ ! -d "$PYTHONPATH/onnxruntime" ]; then
		echo 'random                       skipped: it needs the reference implementations that make deps-dev installs'
		count 0 0 1
		return
	fi
	side_by_side random_part random codes operands trust
}

for suite; do
	case $suite in
	unit | cli | conformance | check | lint | headers | gcc | clang | arm64 | emulated | sanitize | mutants | fuzz | random | torture)
		began=$SECONDS
		"$suite"
		printf -- '--- %s: %d s\n' "$suite" $((SECONDS - began))
		;;
	*)
		echo "test/run.sh: there is no suite '$suite'" >&2
		exit 2
		;;
	esac
done

if [ -n "${TALLY:-}" ]; then
	echo "$passed $failed $skipped" >>"$TALLY"
else
	[ "$skipped" = 0 ] || echo "$skipped skipped"
	echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ]
