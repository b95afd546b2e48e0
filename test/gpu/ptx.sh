#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Conformance on the GPU by the PTX of the program instead of its machine code, and by the code for devices before sm_80:
#
#   test/gpu/ptx.sh            with INFER_PTX=1
#   TURING=DIR test/gpu/ptx.sh the same, then the build in DIR, which was made with GPU_PTX=75
#
# The variables of run.sh apply. The last line of each part is "N passed, N failed"; exit status 1 if anything failed, 8 if there
# is no GPU.
set -u
here=$(dirname "$0")
: "${OUT:=build}" "${ONLY:=^(conformance|special)}"
export OUT ONLY INFER_PTX=1
status=0

one() { # NAME FOLDER
	echo "--- $1"
	# Otherwise the run would pass by the machine code that the device has.
	"$2/bin/infer" doctor | grep -q 'this build has PTX code' || {
		echo "not ok: $2/bin/infer has no PTX for this device, or there is no device"
		status=1
		return
	}
	OUT=$2 "$here/run.sh" || status=1
}

"$OUT/bin/infer" doctor | grep -q '^cuda:' || {
	echo 'no GPU: nothing was tested'
	exit 8
}
one 'PTX' "$OUT"
[ -z "${TURING:-}" ] || one 'PTX for devices before sm_80' "$TURING"
exit $status
