#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# For the scripts beside it: the devices that may be used, "0 1 2", as CUDA_VISIBLE_DEVICES takes them.
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
