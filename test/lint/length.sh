#!/usr/bin/env bash
# Reports the longest functions and fails over a limit. `test/lint/length.sh 20` lists the 20 longest.
# A function is what stands between a "{" and a "}" in the first column.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
show=${1:-5} limit=${MAX_LINES:-60}
mapfile -t files < <(find cmd src onnx gpu -name '*.c' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' | sort)
[ ${#files[@]} -gt 0 ] || exit 0

# Longer, each with its own limit: bodies of tensor core kernels that ptxas makes other code of when a part of them is a
# function of its own. Who measures such a split on a GPU takes the line out. A line that says too much fails.
exceptions='
gpu/kernels/attend.cu flash 68
gpu/kernels/group_product.cu group_product 84
gpu/kernels/int8.cu int8_product 85
gpu/kernels/int8_conv.cu codes_conv 116
gpu/kernels/pixel.cu pixel 80'

list=$(awk '
	FNR == 1 { start = 0 }
	/^[A-Za-z_].*\(/ && !/;[ \t]*$/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
	/^\{/ { start = FNR }
	/^\}/ && start { print FNR - start - 1, FILENAME ":" start, name; start = 0 }
' "${files[@]}" | sort -rn)
echo "$list" | head -n "$show"
echo "$list" | EXCEPTIONS=$exceptions awk -v limit="$limit" '
	BEGIN { for (n = split(ENVIRON["EXCEPTIONS"], e, "\n"); n; n--) if (split(e[n], f, " ")) may[f[1] " " f[2]] = f[3] }
	{ at = $2; sub(/:.*/, "", at); k = at " " $3 }
	k in may { if ($1 > most[k]) most[k] = $1; next }
	$1 > limit { over++ }
	END {
		if (over) print over " functions are longer than " limit " lines"
		for (k in may) if (most[k] != may[k]) { print k ": " most[k] + 0 " lines, the exception says " may[k]; over++ }
		exit over > 0
	}'
