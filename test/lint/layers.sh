#!/usr/bin/env bash
# Includes point down only: folders of one floor never include one another. No file stands loose in src/.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1

# The one table, a line a folder, top to bottom: the folder, its floor (a storey and a place in it), its house. A file may
# include its own folder, folders of a lower storey, and in its own house folders of a lower place.
table='
cmd                5.4 cmd
cmd/check          5.3 cmd
cmd/inspect        5.3 cmd
cmd/profile        5.3 cmd
cmd/run            5.3 cmd
cmd/watch          5.3 cmd
cmd/output         5.2 cmd
cmd/options        5.1 cmd
src/check          4.5 session
src/diff           4.5 session
src/score          4.5 session
src/watch          4.5 session
src/profile        4.4 session
src/output         4.4 session
src/custom         4.4 session
src/session        4.3 session
src/input          4.2 session
src/plan           4.2 session
src/io             4.1 session
onnx               3.1 onnx
src/opt/rules      3.2 opt
src/opt            3.1 opt
src/cpu            3.3 cpu
src/cpu/attention  3.2 cpu
src/cpu/quantized  3.2 cpu
src/cpu/onednn     3.2 cpu
src/cpu/math       3.1 cpu
gpu                3.5 gpu
gpu/ops            3.4 gpu
gpu/library        3.3 gpu
gpu/launch         3.2 gpu
gpu/driver         3.1 gpu
src/backend        2.2 ops
src/ops            2.1 ops
src/image          2.1 image
src/sound          2.1 sound
src/ort            2.1 ort
src/ir             1.1 ir
src/watch/inject   0.2 base
gpu/kernels        0.1 kernels
src/custom/infer   0.1 custom
src/base           0.1 base
'

# Tables that kernels expand, too: a .def without an include, so that nvcc needs nothing else of src/.
kernels_may='src/(ir|ops)/[a-z_]*\.def'

# Each dependency has one door: a pattern of its headers, and the files that may include them. Backends are such
# dependencies: above them only the table of backends names one.
doors='
(oneapi/dnnl/)?dnnl.*\.h                                       src/cpu/onednn/[a-z_]*\.[ch]
onnx\.pb-c\.h|protobuf-c/.*                                    onnx/.*
yaml\.h                                                        src/base/yaml\.c
zlib\.h                                                        src/(io/(npy|save)|image/plain)\.c
gpu/.*\.h                                                      (gpu/.*|src/session/backends\.c)
cpu/cpu\.h                                                     (src/cpu/.*|src/session/backends\.c)
(cuda|cudnn|cublas|nvrtc|nvml|cupti|nvJitLink)[A-Za-z_0-9]*\.h (gpu/driver/api\.h|gpu/kernels/.*|src/watch/inject/inject\.h)
(libpng[0-9]*/)?png\.h|jpeglib\.h|webp/.*|tiff(io)?\.h|(openjpeg-[0-9.]+/)?openjpeg\.h|libheif/.*  src/image/image\.c
sndfile\.h|soxr\.h                                              src/sound/sound\.c
'

mapfile -t files < <(find cmd src onnx gpu -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inc' -o -name '*.def' | sort)

grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' "${files[@]}" |
	table=$table doors=$doors kernels_may=$kernels_may awk -F: '
	function folder(path) {
		sub(/\/[^\/]*$/, "", path)
		return path
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
				floor[f[1]] = f[2]; house[f[1]] = f[3]
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
		if (quote != "\"" || inc ~ /\.pb-c\.h$/ || (inc == "ptx.h" && from == "gpu/kernels/ptx.cuh"))
			next
		dir = from
		sub(/[^\/]*$/, "", dir)
		if (exists(dir inc)) to = dir inc
		else if (exists("src/" inc)) to = "src/" inc
		else to = inc
		if (to ~ /\.\.\// || !exists(to)) {
			print from ":" $2 ": includes \"" inc "\": write its path from src/ or from the top"
			bad = 1
			next
		}
		above = folder(from); below = folder(to)
		if (above == "gpu/kernels" && to ~ ("^" ENVIRON["kernels_may"] "$"))
			next
		if (from ~ ("^" ENVIRON["kernels_may"] "$")) {
			print from ":" $2 ": a table that kernels expand includes nothing"
			bad = 1
		}
		if (!(above in floor) || !(below in floor)) {
			print from ":" $2 ": " (above in floor ? below : above) " is in no line of the table in test/lint/layers.sh"
			bad = 1
		} else if (above != below && (house[above] == house[below] ? floor[below] >= floor[above] : int(floor[below]) >= int(floor[above]))) {
			print from ":" $2 ": " above " (floor " floor[above] ") may not include " to " (floor " floor[below] ")"
			bad = 1
		}
	}
	END { exit bad }' || exit 1

loose=(src/*.*)
[ ${#loose[@]} = 0 ] || {
	echo "no folder: ${loose[*]}"
	exit 1
}
