#!/usr/bin/env bash
# The C sources are as clang-format lays them out (`make format`); shell scripts pass shellcheck. Each where its tool is here:
# of clang-format version 14, as others lay out some lines in another way.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
bad=0
mapfile -t c < <(find cmd src onnx gpu test/*/ -maxdepth 3 -name '*.[ch]' ! -path 'gpu/kernels/*' ! -path 'test/*/*/*' | sort)
if [ ${#c[@]} -gt 0 ] && clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
	clang-format --dry-run -Werror "${c[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c |
		awk '{print $2 ": " $1 " places differ from what make format writes"; bad = 1} END {exit bad}' || bad=1
fi
sh=(tools/*.sh test/*.sh test/*/*.sh bench/*.sh .ci/run)
! command -v shellcheck >/dev/null || shellcheck "${sh[@]}" || bad=1
exit $bad
