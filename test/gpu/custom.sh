#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU and nvcc: the CUDA kernel of the example of docs/custom-operators computes what its CPU kernel does, its
# other operator runs on the host and is told so, and faults of a kernel are attributed to its node. TAP on standard output.
set -u
: "${INFER:=build/bin/infer}"
here=$(dirname "$0")
model=$here/data/custom.onnxtxt
n=0 bad=0
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
command -v nvcc >/dev/null || { echo "1..0 # SKIP no nvcc"; exit 0; }

result() { # NAME STATUS
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $1"
	else
		echo "not ok $1"
		sed 's/^/# /' "$T/out" | tail -n 12
		bad=$((bad + 1))
	fi
}

build() { # FOLDER STATEMENT: the example whose kernel does this
	mkdir -p "$T/$1" && cp "$here"/../../docs/custom-operators/* "$T/$1" &&
		sed -i "s|y\[i\] = .*|$2|" "$T/$1/example.cu" &&
		make -s -C "$T/$1" CUDA=1 OUT=. INCLUDE="$(realpath "$here/../../src/custom")" >"$T/out" 2>&1
	result "the example is built ($1)" $?
}

fails() { # NAME LIBRARY WANTED [OPTION]...
	name=$1 library=$2 wanted=$3
	shift 3
	! timeout 60 "$INFER" run "$model" --ops "$T/$library/libexample.so" --random --dim n=5 --device cuda "$@" >"$T/out" 2>&1 &&
		grep -q "error\[$wanted\].*'swish'" "$T/out" &&
		[ "$(grep -c 'error\[' "$T/out")" = 1 ]
	result "$name" $?
}

build sound '&'
"$INFER" check "$model" --ops "$T/sound/libexample.so" --compare cpu,cuda --dim n=40001 >"$T/out" 2>&1
result "CPU and CUDA agree" $?
for graph in auto off; do
	"$INFER" profile "$model" --ops "$T/sound/libexample.so" --random --dim n=7 --device cuda --cuda-graph $graph -n 20 --nodes >"$T/out" 2>&1 &&
		[ "$(grep -c 'Copy  *to host' "$T/out")" = 2 ]
	result "it runs many times; only TakeEvery, and the output behind it, is on the host (--cuda-graph $graph)" $?
done
build trap '__trap();'
build address '*(volatile float *)8 = x[i];'
for sync in async node launch; do
	fails "a trap, --sync $sync" trap 'E-CUDA-71[0-9]' --sync $sync
	fails "an invalid address, --sync $sync" address E-CUDA-700 --sync $sync
done
echo "1..$n"
[ $bad = 0 ]
