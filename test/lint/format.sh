#!/usr/bin/env bash
# The C sources are as clang-format lays them out (`make format`); shell scripts pass shellcheck. Each where its tool is here.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
bad=0
c=(cmd/*.[ch] src/*.[ch] src/*/*.[ch] onnx/*.[ch] gpu/*.[ch] test/*/*.[ch])
if [ ${#c[@]} -gt 0 ] && command -v clang-format >/dev/null; then
	clang-format --dry-run -Werror "${c[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c |
		awk '{print $2 ": " $1 " places differ from what make format writes"; bad = 1} END {exit bad}' || bad=1
fi
sh=(tools/*.sh test/*.sh test/*/*.sh bench/*.sh .ci/run)
! command -v shellcheck >/dev/null || shellcheck "${sh[@]}" || bad=1
exit $bad
