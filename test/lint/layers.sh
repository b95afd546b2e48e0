#!/usr/bin/env bash
# Includes point down only. A file may include its own group and any lower level; groups of one level never meet.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1

# The one table: path prefix, level, group. The first row that matches a path counts.
table='
cmd/           5 cmd
src/base/      0 base
src/ir/        1 ir
src/ops/       2 ops
src/backend.   2 ops
src/eval.      2 ops
src/store.     2 ops
src/config.    2 ops
src/image      2 ops
onnx/          3 onnx
src/opt/       3 opt
src/cpu/       3 cpu
gpu/           3 gpu
src/           4 session
'

# Each dependency has one door: a pattern of its headers, and the files that may include them.
doors='
(oneapi/dnnl/)?dnnl.*\.h                                       src/cpu/onednn(_build)?\.[ch]
onnx\.pb-c\.h|protobuf-c/.*                                    onnx/.*
yaml\.h                                                        src/base/yaml\.c
(cuda|cudnn|cublas|nvrtc|nvml|cupti|nvJitLink)[A-Za-z_0-9]*\.h gpu/(api\.h|kernels/.*|inject/inject\.h)
(libpng[0-9]*/)?png\.h|jpeglib\.h|webp/.*|tiff(io)?\.h|(openjpeg-[0-9.]+/)?openjpeg\.h  src/image\.c
'

set -- cmd/*.[ch] src/*.[ch] src/*/*.[ch] onnx/*.[ch] gpu/*.[ch] gpu/inject/*.[ch] gpu/kernels/*.cu src/*.def src/*/*.def gpu/*.def
[ $# -gt 0 ] || exit 0

grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "$@" |
	table=$table doors=$doors awk -F: '
	function place(path,  i) { # sets level and group
		for (i = 1; i <= rows; i++)
			if (index(path, prefix[i]) == 1) {
				level = levels[i]; group = groups[i]
				return 1
			}
		return 0
	}
	function exists(path,  line, rc) {
		if (!(path in seen)) {
			rc = (getline line < path)
			close(path)
			seen[path] = rc >= 0
		}
		return seen[path]
	}
	BEGIN {
		n = split(ENVIRON["table"], line, "\n")
		for (i = 1; i <= n; i++)
			if (split(line[i], f, " ") == 3) {
				prefix[++rows] = f[1]; levels[rows] = f[2]; groups[rows] = f[3]
			}
		n = split(ENVIRON["doors"], line, "\n")
		for (i = 1; i <= n; i++)
			if (split(line[i], f, " ") == 2) {
				header[++ndoors] = "^(" f[1] ")$"; door[ndoors] = "^" f[2] "$"
			}
	}
	{
		from = $1; what = $0
		match(what, /["<][^">]*[">]/)
		quote = substr(what, RSTART, 1)
		inc = substr(what, RSTART + 1, RLENGTH - 2)
		for (i = 1; i <= ndoors; i++)
			if (inc ~ header[i] && from !~ door[i]) {
				print from ":" $2 ": includes " inc ", which only " substr(door[i], 2, length(door[i]) - 2) " may"
				bad = 1
			}
		if (quote != "\"" || inc ~ /\.pb-c\.h$/)
			next
		dir = from
		sub(/[^\/]*$/, "", dir)
		if (exists(dir inc)) to = dir inc
		else if (exists("src/" inc)) to = "src/" inc
		else to = inc
		if (to ~ /\.\.\// || !place(to)) {
			print from ":" $2 ": includes \"" inc "\": write its path from src/ or from the top"
			bad = 1
			next
		}
		tolevel = level; togroup = group
		if (place(from) && togroup != group && tolevel >= level) {
			print from ":" $2 ": " group " (level " level ") may not include " to " (" togroup ", level " tolevel ")"
			bad = 1
		}
	}
	END { exit bad }'
