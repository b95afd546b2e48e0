# SPDX-License-Identifier: Apache-2.0
# For tests/cli/watch*.bats: programs to watch, on a driver without a device that reports its calls to CUPTI's listeners.

# fake_build DIR: what infer itself asks (DIR/fake) and what a watched program has (DIR/calls)
fake_build() {
	local cuda=${CUDA:-/usr/local/cuda} here=$BATS_TEST_DIRNAME/../watch
	export FAKE=$1/fake CALLS=$1/calls
	mkdir -p "$FAKE" "$CALLS"
	[ -e "$cuda/include/cupti.h" ] || return 0
	local cc=("${CC:-cc}" -w -I"$cuda/include") link=(-L"$CALLS" -l:libcuda.so.1)
	"${cc[@]}" -shared -fPIC -o "$FAKE/libcuda.so.1" "$BATS_TEST_DIRNAME/../gpu/fake/cuda.c"
	"${cc[@]}" -shared -fPIC -o "$CALLS/libcuda.so.1" "$here/fake/cuda.c"
	for name in libcupti.so.13 libnvidia-ml.so.1 libcudart.so.13; do
		ln -s libcuda.so.1 "$CALLS/$name"
	done
	"${cc[@]}" -O1 "$here/faults.c" -o "$CALLS/faults" "${link[@]}" -lpthread
	"${cc[@]}" -O1 "$here/mixes.c" -o "$CALLS/mixes" "${link[@]}" -lpthread
	"${cc[@]}" -O1 "$here/handlers.c" -o "$CALLS/handlers" "${link[@]}" -lpthread
	"${cc[@]}" -O1 -DOWN_MALLOC -fno-builtin "$here/mixes.c" -o "$CALLS/own" "${link[@]}" -lpthread
	"${cc[@]}" -shared -fPIC -DPART=1 "$here/late.c" -o "$CALLS/libfirst.so" "${link[@]}"
	"${cc[@]}" -shared -fPIC -DPART=2 "$here/late.c" -o "$CALLS/libsecond.so" "${link[@]}"
	"${cc[@]}" -DPART=0 "$here/late.c" -o "$CALLS/late" -l:libfirst.so -l:libsecond.so "${link[@]}"
}

needs_fake() {
	[ -x "$CALLS/late" ] || skip "no headers of CUPTI's"
	export INFER_LIBRARY_PATH=$FAKE:$CALLS LD_LIBRARY_PATH=$CALLS
	if "$INFER" doctor | grep -q 'built without CUDA'; then skip "built without CUDA"; fi
	cd "$CALLS"
}

# watched STATUS TEXT OPTIONS... -- COMMAND...: the exit status, and what stderr must say
watched() {
	local want=$1 text=$2
	shift 2
	run --separate-stderr "$INFER" check "$@"
	[ "$status" -eq "$want" ] && [[ $stderr == *"$text"* ]] || {
		echo "status $status, expected $want and: $text"
		echo "$stderr"
		return 1
	}
}

# until_there COUNT PATTERN FILE: until the file has so many lines with it
until_there() {
	for _ in $(seq 20000); do
		[ "$(grep -c "$2" "$3")" -lt "$1" ] || return 0
		sleep 0.05
	done
	echo "no '$2' came"
	return 1
}
