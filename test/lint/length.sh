#!/usr/bin/env bash
# Reports the longest functions and fails over a limit. `test/lint/length.sh 20` lists the 20 longest.
# A function is what stands between a "{" and a "}" in the first column.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
show=${1:-5} limit=${MAX_LINES:-100}
files=(cmd/*.c src/*.c src/*/*.c onnx/*.c gpu/*.c)
[ ${#files[@]} -gt 0 ] || exit 0

list=$(awk '
	FNR == 1 { start = 0 }
	/^[A-Za-z_].*\(/ && !/;[ \t]*$/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
	/^\{/ { start = FNR }
	/^\}/ && start { print FNR - start - 1, FILENAME ":" start, name; start = 0 }
' "${files[@]}" | sort -rn)
echo "$list" | head -n "$show"
over=$(echo "$list" | awk -v limit="$limit" '$1 > limit' | wc -l)
[ "$over" = 0 ] || {
	echo "$over functions are longer than $limit lines"
	exit 1
}
