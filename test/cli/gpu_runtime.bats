#!/usr/bin/env bats
# The CUDA runtime without a GPU: test/gpu/fake/cuda.c stands in for the driver. Kernels do nothing there; contexts,
# copies, errors, graphs and memory behave as a driver's do.

. test/gpu/fake/use.bash

setup_file() {
	fake_build
}

teardown_file() {
	fake_drop
}

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	fake_use
	chain=test/gpu/data/chain.onnx
	args=(--random 0..1 --dim n=2 --device cuda --optimize none)
}

teardown() {
	rm -rf "$T"
}

@test "A run uses the primary context, launches each node and releases everything" {
	run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^run ' "$T/log")" -eq 6 ]
	[ "$(grep -c '^retain' "$T/log")" -eq 1 ]
	[ "$(tail -n 1 "$T/log")" = release ]
	[[ $output == *"device, by purpose:"*activations* ]]
}

@test "A device that this build has no machine code for is told at once, and uses PTX; INFER_PTX=1 uses it anywhere" {
	FAKE_CUDA_CAPABILITY=999 run "$INFER" doctor
	[[ $output == *"this build has PTX code, which the driver compiles at first use, for cuda:0"* ]] ||
		skip "built without PTX"
	FAKE_CUDA_CAPABILITY=999 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 0 ]
	[[ $output == *"warning[W-CUDA-209]: this build has no machine code for cuda:0; the driver compiles its PTX instead"* ]]
	FAKE_CUDA_CAPABILITY=60 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 8 ]
	[[ $output == *"error[E-CUDA-209]"*"code for compute capability 6.0"*"PTX for "* ]]
	INFER_PTX=1 run "$INFER" doctor
	[[ $output == *"this build has PTX code"* ]]
	INFER_PTX=1 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 0 ]
	[[ $output != *W-CUDA-209* ]]
}

@test "--context own creates and destroys its own context" {
	run "$INFER" run "$chain" "${args[@]}" --context own
	[ "$status" -eq 0 ]
	grep -q '^create' "$T/log"
	[ "$(tail -n 1 "$T/log")" = destroy ]
	! grep -q '^retain' "$T/log"
}

@test "A primary context that a library creates beside the session's own is reported with its memory" {
	FAKE_CUDA_WAKE=33554432 run "$INFER" check "$chain" "${args[@]}" --context own --contexts
	[[ $output == *"the session has a context of its own while the primary one is active, too"* ]]
	[[ $output == *"a library has activated it since the session was opened, which took 32.0 MiB of the device"* ]]
	run "$INFER" check "$chain" "${args[@]}" --context own --contexts
	[[ $output != *"woke it"* ]]
	FAKE_CUDA_WAKE=33554432 run "$INFER" run "$chain" "${args[@]}" --context own
	[[ $output == *"device, by purpose:"*"context 32.0 MiB"* ]]
}

@test "An asynchronous error is attributed to its node by repeating the run in a new process" {
	FAKE_CUDA_FAIL=3:700 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 8 ]
	[ "$(grep -c 'error\[' <<<"$output")" -eq 1 ]
	[[ $output == *"error[E-CUDA-700]: node 'Abs_2' (Abs): illegal memory access, found by re-running with --sync launch"* ]]
	[ "$(grep -c '^init' "$T/log")" -eq 2 ]
}

@test "The repetition can read standard input again, from a pipe and from a file" {
	FAKE_CUDA_FAIL=3:700 run bash -c "cat '$chain' | '$INFER' run - ${args[*]}"
	[[ $output == *"error[E-CUDA-700]: node 'Abs_2' (Abs)"* ]]
	FAKE_CUDA_FAIL=3:700 run "$INFER" run - "${args[@]}" <"$chain"
	[[ $output == *"error[E-CUDA-700]: node 'Abs_2' (Abs)"* ]]
}

@test "--no-blame does not repeat the run, and names the nodes in question" {
	FAKE_CUDA_FAIL=3:700 run "$INFER" run "$chain" "${args[@]}" --no-blame
	[ "$status" -eq 8 ]
	[[ $output == *"E-CUDA-700"*"from node 'Neg_0' (Neg) to 'Ceil_5' (Ceil)"* ]]
	[[ $output != *Abs_2* ]]
	[ "$(grep -c '^init' "$T/log")" -eq 1 ]
}

@test "--sync node, --sync launch and CUDA_LAUNCH_BLOCKING name the node without a repetition" {
	for mode in node launch; do
		rm -f "$T/log"
		FAKE_CUDA_FAIL=3:700 run "$INFER" run "$chain" "${args[@]}" --sync $mode
		[ "$status" -eq 8 ]
		[[ $output == *"node 'Abs_2' (Abs): illegal memory access"* ]]
		[ "$(grep -c '^init' "$T/log")" -eq 1 ]
	done
	CUDA_LAUNCH_BLOCKING=1 FAKE_CUDA_FAIL=3:700 run "$INFER" run "$chain" "${args[@]}"
	[[ $output == *"node 'Abs_2' (Abs)"* ]]
	[[ $output != *re-running* ]]
}

@test "A refused launch is attributed to its node in every mode" {
	for mode in async node launch; do
		FAKE_CUDA_REFUSE=5:1 run "$INFER" run "$chain" "${args[@]}" --sync $mode
		[ "$status" -eq 8 ]
		[[ $output == *"E-CUDA-1]: node 'Tanh_4' (Tanh)"* ]]
	done
}

@test "The repetition can read an input from a pipe again" {
	head -c 512 /dev/zero | {
		FAKE_CUDA_FAIL=2:719 run "$INFER" run "$chain" --input x=-,dtype=f32,shape=2x64,format=raw \
			--device cuda --optimize none
		[ "$status" -eq 8 ]
		[[ $output == *"E-CUDA-719]: node 'Exp_1' (Exp)"*"re-running"* ]]
	}
}

@test "An error that does not occur in the repetition is reported as such" {
	FAKE_CUDA_FAIL=9:700 run "$INFER" profile "$chain" "${args[@]}" -n 3 --warmup 0 --cuda-graph off --timeout 300
	[ "$status" -eq 8 ]
	[[ $output == *"E-CUDA-700"* ]]
}

@test "Launches are recorded in the second run, replayed afterwards, and freed at the end" {
	run "$INFER" profile "$chain" "${args[@]}" -n 5 --warmup 0
	[ "$status" -eq 0 ]
	[ "$(grep -c '^instantiate 8' "$T/log")" -ge 1 ]
	[ "$(grep -c '^replay 8' "$T/log")" -ge 3 ]
	[ "$(grep -c '^drop' "$T/log")" -eq "$(grep -c '^instantiate' "$T/log")" ]
}

@test "--cuda-graph off and --sync node launch one by one" {
	run "$INFER" profile "$chain" "${args[@]}" -n 5 --warmup 0 --cuda-graph off
	[ "$status" -eq 0 ]
	! grep -q '^instantiate' "$T/log"
	run "$INFER" profile "$chain" "${args[@]}" -n 5 --warmup 0 --sync node
	[ "$status" -eq 0 ]
	! grep -q '^instantiate' "$T/log"
}

@test "An error in a replayed graph is found" {
	FAKE_CUDA_FAIL=22:700 run "$INFER" profile "$chain" "${args[@]}" -n 9 --warmup 0
	[ "$status" -eq 8 ]
	grep -q '^replay' "$T/log"
	[[ $output == *"E-CUDA-700"* ]]
}

@test "If no graph can be created, launches continue one by one" {
	FAKE_CUDA_NO_CAPTURE=1 run "$INFER" profile "$chain" "${args[@]}" -n 3 --warmup 0
	[ "$status" -eq 0 ]
	[ "$(grep -c '^run' "$T/log")" -ge 18 ]
	! grep -q '^replay' "$T/log"
}

@test "A context that was reset during the session is named" {
	FAKE_CUDA_RESET=2 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 7 ]
	[[ $output == *"E-CTX-DESTROYED"*"primary context"* ]]
}

@test "Zeros that a foreign context caused are reported as the context error, not as zeros" {
	# the fake's kernels write nothing, as launches on a foreign context's stream do: the zeros stay
	args=(--random 0..1 --dim n=2 --device cuda --optimize none --memory-plan off)
	run "$INFER" check "$chain" "${args[@]}" --zero
	[ "$status" -eq 5 ]
	[[ $output == *"error[E-OUT-ZERO]"* ]]
	FAKE_CUDA_FOREIGN=2 run "$INFER" check "$chain" "${args[@]}" --zero
	[ "$status" -eq 7 ]
	[[ $output == *"error[E-CTX-FOREIGN]: a call in the session left another CUDA context current"* ]]
	[[ $output != *E-OUT-ZERO* ]]
}

@test "A refused device allocation names the largest values" {
	FAKE_CUDA_MEMORY=256 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 3 ]
	[[ $output == *"E-MEMORY"*"cuda:0 refused memory"* ]]
	[[ $output == *"the largest"* ]]
}

@test "--memory-limit also applies to the device plan" {
	run "$INFER" run "$chain" "${args[@]}" --memory-limit 100
	[ "$status" -eq 3 ]
	[[ $output == *"E-MEMORY-LIMIT"*"largest"* ]]
	! grep -q '^run ' "$T/log"
}

@test "A driver that is too old is reported with its version" {
	FAKE_CUDA_VERSION=11080 run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 8 ]
	[[ $output == *"CUDA 12.0"*"CUDA 11.8"* ]]
	FAKE_CUDA_VERSION=11080 run "$INFER" doctor
	[[ $output == *"11.8"* ]]
}

# A library with the functions of a .def, which says it is VERSION where it is asked by FUNCTION.
fake_library() { # DEF FUNCTION VERSION FILE [FLAG]
	{
		echo "unsigned long $2(void) { return $3; }"
		grep -o 'SYM([A-Za-z0-9_]*' "gpu/driver/$1.def" | sed 's/SYM(//' | grep -v "^$2\$" |
			sed 's/.*/int &(void) { return 0; }/'
	} >"$T/fake.c"
	${CC:-gcc} -shared -fPIC -w ${5:+"$5"} -o "$4" "$T/fake.c"
}

@test "A library newer than the driver is not used, and doctor explains why and what is missing" {
	# a library that is passed over is closed again; what its start took stays, and LeakSanitizer cannot tell whose it is
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	fake_library cublaslt cublasLtGetVersion 130000 "$T/libcublasLt.so.13"
	FAKE_CUDA_VERSION=12040 INFER_LIBRARY_PATH=$FAKE:$T run "$INFER" doctor
	[ "$status" -eq 0 ]
	[[ $output == *"cuBLASLt     missing, so own kernels do matrix products"* ]]
	[[ $output == *"libcublasLt.so.13: 13.0.0, made for CUDA 13; the driver is of CUDA 12.4"* ]]
}

# The driver is of CUDA 12, so that a toolkit of this machine with a newer library is passed over.
@test "Each place where a library may lie is searched in the order of the manual, and doctor names the place" {
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0:verify_asan_link_order=0 FAKE_CUDA_VERSION=12040
	local so=libcublasLt.so.13 packages=lib/python3.11/site-packages/nvidia/cublas/lib n=0 place how
	mkdir -p "$T"/app/{bin,lib} "$T"/{listed,loaded,system} "$T/toolkit/lib64" "$T/venv/$packages" "$T/conda/lib" "$T/conda/$packages"
	cp "$INFER" "$T/app/bin/infer"
	export INFER_LIBRARY_PATH=$FAKE:$T/listed CUDA_HOME=$T/toolkit LD_LIBRARY_PATH=$T/system VIRTUAL_ENV=$T/venv CONDA_PREFIX=$T/conda
	places=("listed|in INFER_LIBRARY_PATH" "app/lib|beside the program" "loaded|loaded already" "toolkit/lib64|in a toolkit"
		"system|of the system" "venv/$packages|in a Python environment" "conda/lib|in a Python environment"
		"conda/$packages|in a Python environment")
	for place in "${places[@]}"; do
		n=$((n + 1))
		fake_library cublaslt cublasLtGetVersion $((120000 + 100 * n)) "$T/${place%|*}/$so" "-Wl,-soname,$so"
	done
	n=0
	for place in "${places[@]}"; do
		n=$((n + 1)) how=${place#*|} place=$T/${place%|*}/$so
		run env ${preload-LD_PRELOAD="$T/loaded/$so"} "$T/app/bin/infer" doctor
		[ "$status" -eq 0 ]
		[[ $output == *"cuBLASLt     12.$n.0  "*"$so  (matrix products; $how)"* ]] || {
			echo "expected 12.$n.0, $how"
			grep -A1 cuBLASLt <<<"$output"
			return 1
		}
		rm "$place"
		[ "$how" != "loaded already" ] || local preload=
	done
}

@test "An incomplete cuDNN is not used, and the missing part is named" {
	if ldconfig -p | grep -q libcudnn_graph; then skip "the system has cuDNN's parts"; fi
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	fake_library cudnn cudnnGetVersion 91900 "$T/libcudnn.so.9"
	INFER_LIBRARY_PATH=$FAKE:$T run "$INFER" doctor
	[ "$status" -eq 0 ]
	[[ $output == *"libcudnn.so.9: 9.19.0; its part libcudnn_graph.so.9 is neither beside it nor where the system looks"* ]]
	for part in graph engines_precompiled engines_runtime_compiled; do
		${CC:-gcc} -shared -o "$T/libcudnn_$part.so.9" -x c /dev/null
	done
	INFER_LIBRARY_PATH=$FAKE:$T run "$INFER" doctor
	[[ $output == *"its part libcudnn_heuristic.so.9 is neither"* ]]
	${CC:-gcc} -shared -o "$T/libcudnn_heuristic.so.9" -x c /dev/null
	INFER_LIBRARY_PATH=$FAKE:$T run "$INFER" doctor
	[[ $output == *"cuDNN        9.19.0  $T/libcudnn.so.9"* ]]
}

# NVML that says it is VERSION, and answers STATUS when it is started.
fake_nvml() { # VERSION STATUS
	cat >"$T/fake.c" <<-END
		#include <string.h>
		int nvmlSystemGetNVMLVersion(char *v) { strcpy(v, "$1"); return 0; }
		int nvmlSystemGetDriverVersion(char *v) { strcpy(v, "${1#*.}"); return 0; }
		int nvmlInit_v2(void) { return $2; }
		int nvmlShutdown(void) { return 0; }
	END
	${CC:-gcc} -shared -fPIC -w -o "$T/libnvidia-ml.so.1" "$T/fake.c"
}

@test "The NVML of another driver is not used, and one that fails to start is reported" {
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	fake_nvml 13.580.65 0
	FAKE_CUDA_VERSION=12040 INFER_LIBRARY_PATH=$T:$FAKE run "$INFER" doctor
	[[ $output == *"libnvidia-ml.so.1: 13.580.65, made for CUDA 13; the driver is of CUDA 12.4"* ]]
	INFER_LIBRARY_PATH=$T:$FAKE run "$INFER" doctor
	[[ $output == *"NVML         driver 580.65"* ]]
	fake_nvml 13.580.65 18
	INFER_LIBRARY_PATH=$T:$FAKE run "$INFER" doctor
	[[ $output == *"NVML         no answer: status 18, not of the driver that runs"* ]]
}

@test "A library that lacks a function is reported with the name of the function" {
	# a library that is passed over is closed again; what its start took stays, and LeakSanitizer cannot tell whose it is
	export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
	echo 'unsigned long cudnnGetVersion(void) { return 90100; }' >"$T/fake.c"
	${CC:-gcc} -shared -fPIC -w -o "$T/libcudnn.so.9" "$T/fake.c"
	FAKE_CUDA_VERSION=12040 INFER_LIBRARY_PATH=$FAKE:$T run "$INFER" doctor --json
	[ "$status" -eq 0 ]
	[[ $output == *"libcudnn.so.9: it has no symbol cudnn"* ]] || [[ $output == *'"version": "9.'* ]]
}

@test "Models run without cuDNN, cuBLASLt and NVRTC, and doctor reports these as disabled" {
	export INFER_WITHOUT=cudnn,cublaslt,nvrtc
	run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 0 ]
	run "$INFER" doctor
	[ "$(grep -c 'left out, as INFER_WITHOUT' <<<"$output")" -eq 3 ]
	INFER_WITHOUT=cuda run "$INFER" run "$chain" "${args[@]}"
	[ "$status" -eq 8 ]
	[[ $output == *E-LIBRARY*"libcuda.so.1 was looked for"* ]]
}

@test "A Resize to an empty tensor is not a size overflow" {
	run "$INFER" run test/gpu/data/nothing.onnx --random 0..1 --device cuda
	[ "$status" -eq 0 ]
	[[ $output == *"output  y f32 [1,1,0,4], 0 bytes"* ]]
}

# custom_library RESULT: a library whose com.example::Swish only copies in its CUDA entry, by the driver that infer has opened, and
# returns RESULT; and a model with it
custom_library() {
	cat >"$T/swish.c" <<'END'
#include "infer/op.h"
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
static const struct infer_attribute attributes[] = {{"alpha", INFER_ATTR_FLOAT, 0, "1", 0}, {0}};
static const struct infer_operand in[] = {{"x", "T", INFER_TYPE(INFER_F32), NULL, 0}, {0}};
static const struct infer_operand out[] = {{"y", "T", INFER_TYPE(INFER_F32), NULL, 0}, {0}};
static int shape(const struct infer_call *call)
{
	call->out[0].rank = call->in[0].rank;
	memcpy(call->out[0].dim, call->in[0].dim, sizeof(call->in[0].dim));
	return 0;
}
static int cuda(const struct infer_call *call)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*copy)(unsigned long long, unsigned long long, size_t, void *) = driver ? dlsym(driver, "cuMemcpyDtoDAsync_v2") : 0;
	if (!copy || copy((unsigned long long)call->out[0].data, (unsigned long long)call->in[0].data, call->in[0].bytes, call->stream))
		return call->fail(call, "no copy");
	return FAULT;
}
static const struct infer_op ops[] = {{"Swish", "com.example", 1, INFER_OP_LAUNCHES_ONLY, in, out, attributes, 8, shape, NULL, NULL, cuda}};
INFER_OP_EXPORT const struct infer_op_library *infer_op_library(void)
{
	static const struct infer_op_library l = {INFER_OP_VERSION, sizeof(struct infer_op), "copies", ops, 1};
	return &l;
}
END
	"${CC:-gcc}" -shared -fPIC -w -Isrc/custom "-DFAULT=$1" -o "$T/swish.so" "$T/swish.c"
	cat >"$T/swish.onnxtxt" <<'END'
<ir_version: 10, opset_import: ["": 20, "com.example": 1]>
custom (float[n, 3] x) => (float[n, 3] y) {
   [swish] y = com.example.Swish <alpha: float = 2.0> (x)
}
END
}

@test "The CUDA entry of a custom operator gets memory and stream of the device; its failure is its node's" {
	custom_library 0
	run "$INFER" run "$T/swish.onnxtxt" --ops "$T/swish.so" --input 'x=[[1,2,3],[4,5,6]]' --device cuda -o "$T/out" --save-format json
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.. | numbers] | .[-6:]' "$T/out/y.json")" = '[1,2,3,4,5,6]' ] || { cat "$T/out/y.json"; return 1; }
	run "$INFER" profile "$T/swish.onnxtxt" --ops "$T/swish.so" --random --dim n=4 --device cuda -n 20
	[ "$status" -eq 0 ]
	custom_library 'call->fail(call, "not today")'
	run "$INFER" run "$T/swish.onnxtxt" --ops "$T/swish.so" --random --dim n=4 --device cuda
	[ "$status" -eq 3 ]
	[[ $output == *"node 'swish' (com.example::Swish)"*"not today"* ]]
}

@test "Two GPUs share the inputs of a list: a context each, and the results in the list's order" {
	mkdir "$T/in"
	for i in $(seq 10 49); do seq -s " " "$i" $((i + 63)) >"$T/in/$i.txt"; done
	FAKE_CUDA_DEVICES=2 run "$INFER" run "$chain" --input "$T/in" --batch 2 --optimize none --jsonl "$T/lines" --json \
		--device cuda:0,1 -q
	[ "$status" -eq 0 ]
	[ "$(jq -r .name "$T/lines" | tr '\n' ' ')" = "$(seq -s ' ' 10 49) " ]
	[ "$(jq -c '[.devices[] | [.device, .lost]]' <<<"$output")" = '[["cuda:0",false],["cuda:1",false]]' ]
	[ "$(jq '[.devices[].inputs] | add' <<<"$output")" -eq 40 ]
	[ "$(grep -c '^retain' "$T/log")" -eq 2 ]
	[ "$(grep -c '^release' "$T/log")" -eq 2 ]
	# all that exist
	FAKE_CUDA_DEVICES=3 run "$INFER" run "$chain" --input "$T/in" --optimize none --jsonl "$T/lines" --json --device cuda:0,1,2,3
	[ "$status" -eq 0 ]
	[[ $output = *"cuda:3: "*"its inputs go to the other devices"* ]]
	[ "$(wc -l <"$T/lines")" -eq 40 ]
}
