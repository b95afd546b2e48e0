#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it.

# The devices that may be used, "0 1 2", as CUDA_VISIBLE_DEVICES takes them.
devices() {
	local n
	if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
		echo "${CUDA_VISIBLE_DEVICES//,/ }"
	elif n=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') && [ "$n" -gt 0 ]; then
		seq -s ' ' 0 $((n - 1))
	else
		echo 0
	fi
}

# next_line FOLDER FILE: the line of FOLDER/FILE that none of the workers has had, nothing at its end; FOLDER/next counts.
next_line() {
	local n
	exec 9>"$1/lock"
	flock 9
	n=$(($(cat "$1/next") + 1))
	echo "$n" >"$1/next"
	exec 9>&-
	sed -n "${n}p" "$1/$2"
}
