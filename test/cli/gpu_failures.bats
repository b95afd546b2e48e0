#!/usr/bin/env bats
# Each call of the driver fails in turn (test/gpu/fake/refuse.c): one error, its exit status, nothing left behind.

. test/gpu/fake/use.bash

setup_file() {
	fake_build refuse
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}" "${OUT:=$(dirname "$(dirname "$INFER")")}"
	T=$(mktemp -d)
	fake_use
	export INFER_WITHOUT=cudnn,cublaslt,nvrtc XDG_CACHE_HOME=$T/cache
	args=(test/gpu/data/chain.onnx --random 0..1 --dim n=2 --device cuda --optimize none)
}

teardown() {
	rm -rf "$T"
}

# What was made and not given back, of a file of calls: "graph 1".
left() {
	awk '
	BEGIN {
		split("cuStreamCreate cuEventCreate cuGraphInstantiateWithFlags cuStreamEndCapture cuStreamBeginCapture_v2 cuMemAlloc_v2 cuMemAllocHost_v2 cuLibraryLoadData cuDevicePrimaryCtxRetain cuCtxCreate_v2", make, " ")
		split("cuStreamDestroy_v2 cuEventDestroy_v2 cuGraphExecDestroy cuGraphDestroy cuStreamEndCapture cuMemFree_v2 cuMemFreeHost cuLibraryUnload cuDevicePrimaryCtxRelease_v2 cuCtxDestroy_v2", drop, " ")
		for (i in make) made[make[i]] = i
		for (i in drop) dropped[drop[i]] = i
	}
	$1 in dropped { n[dropped[$1]]-- }
	$1 in made && $2 == 0 { n[made[$1]]++ }
	END { for (i in n) if (n[i]) printf "%s %d ", make[i], n[i] }' "$1"
}

# The K-th call fails with R, "K:R" or "K+:R", in a command: false, with what was wrong, where it does not end well.
fails_well() { # K:R COMMAND...
	local how=$1 rc=0 errors
	shift
	rm -f "$T/calls"
	FAKE_CUDA_CALL=$how FAKE_CUDA_CALLS=$T/calls timeout 300 "$INFER" "$@" >"$T/out" 2>&1 || rc=$?
	errors=$(grep -c 'error\[' "$T/out" || true)
	case $rc in
	0) [ "$errors" = 0 ] || wrong="an error, and exit 0" ;;
	3 | 7 | 8) [ "$errors" = 1 ] || wrong="$errors errors" ;;
	*) wrong="exit $rc" ;;
	esac
	! grep -q 'Sanitizer\|runtime error' "$T/out" || wrong="a report of a sanitizer"
	[ -z "${wrong:-}" ]
}

# The numbers of the calls of a command, but those that only make a context current, and the same in a row but one.
calls_of() { # COMMAND...
	rm -f "$T/calls"
	FAKE_CUDA_CALLS=$T/calls "$INFER" "$@" >/dev/null
	[ -z "$(left "$T/calls")" ]
	cp "$T/calls" "$T/all"
	awk '!/^cuCtx(Get|Push|Pop)Current/ { if ($1 != last) print NR; last = $1 }' "$T/all"
}

@test "If any one driver call fails, one error is reported and all resources are released" {
	for k in $(calls_of profile "${args[@]}" -n 3 --warmup 0); do
		wrong=
		fails_well "$k:1" profile "${args[@]}" -n 3 --warmup 0 || true
		[ -n "$wrong" ] || wrong=$(left "$T/calls")
		[ -z "$wrong" ] || { echo "call $k, $(sed -n "${k}p" "$T/all"): $wrong"; cat "$T/out"; false; }
	done
}

@test "If all driver calls fail from any call on, one error is reported" {
	for k in $(calls_of run "${args[@]}" | awk 'NR % 2'); do
		wrong=
		fails_well "$k+:700" run "${args[@]}" --no-blame ||
			{ echo "call $k, $(sed -n "${k}p" "$T/all"): $wrong"; cat "$T/out"; false; }
	done
}

@test "A device whose properties cannot be read is refused, and does not affect the others" {
	calls_of run "${args[@]}" >/dev/null
	k=$(grep -n -m 1 cuDeviceTotalMem "$T/all" | cut -d: -f1)
	FAKE_CUDA_CALL=$k:999 run "$INFER" run "${args[@]}"
	[ "$status" -eq 8 ]
	[[ $output == *"error[E-DEVICE]: cuda:0 cannot be opened"* ]]
	[ "$(grep -c 'error\[' <<<"$output")" -eq 1 ]
}

@test "Closed sessions leave no memory in the process" {
	[ -x "$OUT/unit/gpu_closed" ] || skip "unit tests are not built"
	run "$OUT/unit/gpu_closed"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"ok closed_sessions_leave_nothing"* ]]
}

@test "Initializers whose bytes in the file overlap partly are all copied to the device" {
	FAKE_CUDA_CALLS=$T/calls run "$INFER" run test/gpu/data/shared.onnx --random 0..1 --device cuda --optimize none
	[ "$status" -eq 0 ]
	[ "$(grep -c '^cuMemcpyHtoDAsync' "$T/calls")" -eq 3 ] # the input and both
}

@test "Errors that require the process to end make the device unusable, and are reported once" {
	for code in 226 721 810; do
		FAKE_CUDA_FAIL=3:$code run "$INFER" run "${args[@]}"
		[ "$status" -eq 8 ]
		[[ $output == *"error[E-CUDA]"*"($code)"*"it was one of the "*" steps from node 'Neg_0' (Neg)"* ]]
		[ "$(grep -c 'error\[' <<<"$output")" -eq 1 ]
	done
}
