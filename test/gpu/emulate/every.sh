#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each kernel of ours runs on the CPU, its numbers compared with the CPU backend's and every access looked at: the cases
# of test/gpu/kernels.py that reach what other cases have not. Which reach what says the stand-in driver alone, whose
# kernels do nothing. A kernel that no case reaches fails, and so does one of the exceptions that a case reaches. TAP.
#
#   OUT       the build folder
#   EMULATE   the folder of checked.so and of the stand-ins
#   TOLD      what was told goes here
#   PYTHON    a folder with onnx; empty: python3 has it
#   REACHED   lines "CASE TAB KERNEL" of what ran elsewhere, its numbers compared
set -u
export LC_ALL=C
here=$(dirname "$0")
: "${OUT:=build}" "${EMULATE:=build/emulate}" "${TOLD:=build/emulated}" "${PYTHON:=}" "${REACHED:=/dev/null}"
[ -z "$PYTHON" ] || export PYTHONPATH=$PYTHON
export PYTHONDONTWRITEBYTECODE=1 INFER_LIBRARY_PATH=$EMULATE
rm -rf "$TOLD/every" && mkdir -p "$TOLD/every"
at=$(cd "$TOLD/every" && pwd)
if ! python3 "$here/../kernels.py" "$at/cases" >"$at/made" 2>&1; then
	tail -n 5 "$at/made" | sed 's/^/# /'
	echo 'not ok the cases can be made'
	exit 1
fi
nm -D --defined-only "$EMULATE/checked.so" | awk '$2 == "T" && $3 !~ /^library_/ { print $3 }' | sort >"$at/kernels"
cut -f 2 "$REACHED" | sort -u >"$at/known"
awk -F '\t' '!/^#/ && NF { print $1 }' "$here/exceptions.txt" | sort >"$at/exceptions"

# A world: libraries that are missing, kernels that are said to be the quickest of what is tried, cases.
none=cudnn,cublaslt,nvrtc,cupti,nvml
both=nvrtc,cupti,nvml
worlds=(own libraries)
quick=('' '' 'depthwise_?_?_1_*,pixel_32_32_*,int8_?8_32x64,int8_conv_?8_32x64,group_share_*_1' 'depthwise_?_?_2_*,pixel_64_32_*,int8_?8_64x64,int8_conv_?8_64x64,group_share_*_2'
	'depthwise_?_?_4_*,pixel_64_64_*,int8_?8_128x64,int8_conv_?8_128x64,group_share_*_4'
	'depthwise_?_?_8_*,pixel_128_64_*,library_product,int8_epilogue,int8_conv_?8_128x128' 'whole_pool_joined_*,group_share_*_8,pixel_deep_32_32_*,int8_conv_?8_64x128,int8_?8_32x32,depthwise_rows_?_?_1_*'
	'pixel_deep_64_32_*,int8_conv_*_4_warps,depthwise_rows_?_?_2_*' 'int8_conv_*_group_128x128,depthwise_rows_?_?_4_*,group_product_*_128x128'
	'int8_conv_*_group_128x64,group_product_*_128x192,depthwise_tiled_*' 'int8_conv_*_group_64x128,group_product_*_64x192' 'int8_conv_*_group_64x64'
	'int8_boxes_*_2_128_64_1,int8_boxes_*_2_128_128_1' 'int8_boxes_*_2_64_64_1,int8_boxes_*_1_128_128_1' 'int8_boxes_*_1_128_64_1,int8_boxes_*_2_128_128_0'
	'int8_boxes_*_1_64_64_1,int8_boxes_*_2_64_128_0' 'int8_boxes_*_1_128_128_0' 'int8_boxes_*_1_64_128_0')
without=("$none" "$both")
only=(kernels/ kernels/)
for ((k = 2; k < ${#quick[@]}; k++)); do worlds+=("quick$((k - 1))") without+=("$both") only+=(kernels/tuned_); done

# What the cases of world K reach. Where some kernel is the quickest everything is tried first: the cache has it then.
look() { # K
	local k=$1 w=$at/${worlds[$1]} run
	mkdir -p "$w"
	run=(env FAKE_CUDA_FILL=0 INFER_WITHOUT="${without[k]}" XDG_CACHE_HOME="$w/cache" ${quick[k]:+FAKE_CUDA_QUICK="${quick[k]}"}
		"$OUT/conformance/run" "$at/cases" -d cuda -c -p -f "${only[k]}")
	[ -z "${quick[k]}" ] || "${run[@]}" -t >"$w/tried" 2>&1 </dev/null
	LAUNCHES=$w/reach "${run[@]}" -n >"$w/looked" 2>&1 </dev/null
	# An engine that computes nothing loses infinities, so it is refused where there is memory to ask it.
	[ "${worlds[k]}" != libraries ] ||
		LAUNCHES=$w/reach FAKE_CUDA_MEMORY=33000000 XDG_CACHE_HOME=$w/unasked "${run[@]}" -n >"$w/unasked.log" 2>&1 </dev/null
}

# The chosen cases of world K, on the CPU.
compute() { # K
	local k=$1 w=$at/${worlds[$1]}
	[ -s "$w/chosen" ] || return 0
	mkdir -p "$w/run/kernels"
	cp "$at/cases/manifest.tsv" "$w/run"
	sed "s,^kernels/,$(cd "$at/cases/kernels" && pwd)/," "$w/chosen" | xargs ln -s -t "$w/run/kernels"
	FAKE_CUDA_KERNELS=$EMULATE/checked.so EMULATE_GO_ON=1 FAKE_CUDA_LATE=1 FAKE_CUDA_HIDE=1 INFER_WITHOUT=${without[k]} \
		XDG_CACHE_HOME=$w/cache LAUNCHES=$w/launches "$OUT/conformance/run" "$w/run" -d cuda -c -n -l "$w/list" \
		>"$w/ran" 2>&1 </dev/null
}

unset FAKE_CUDA_KERNELS FAKE_CUDA_LATE FAKE_CUDA_HIDE
for k in 0 2 3; do look $k; done &
look 1
for ((k = 4; k < ${#worlds[@]}; k++)); do look "$k"; done
wait
# the smallest first
(cd "$at/cases" && find kernels -type f -printf '%h %s\n') | sed 's,/test_data_set_0 , ,' |
	awk '{ n[$1] += $2 } END { for (c in n) print n[c] "\t" c }' | sort -n >"$at/sizes"
cp "$at/known" "$at/wanted.not"
for k in "${!worlds[@]}"; do
	w=$at/${worlds[k]}
	awk -F '\t' -v to="$w/chosen" '
		FILENAME == ARGV[1] || FILENAME == ARGV[2] { known[$1] = 1; next }
		FILENAME == ARGV[3] { ours[$1] = 1; next }
		FILENAME == ARGV[4] { list[$1] = list[$1] " " $2; next }
		{
			wanted = 0
			n = split(list[$2], name, " ")
			for (i = 1; i <= n; i++) wanted = wanted || (ours[name[i]] && !known[name[i]])
			for (i = 1; i <= n && wanted; i++) if (!known[name[i]]++) print name[i] > (to ".new")
			if (wanted) print $2 > to
		}' "$at/wanted.not" "$at/exceptions" "$at/kernels" "$w/reach" "$at/sizes"
	cat "$w/chosen.new" >>"$at/wanted.not" 2>/dev/null
done
compute 0 &
for ((k = 1; k < ${#worlds[@]}; k++)); do compute "$k"; done
wait
# Kernels that read 16 bytes at a time get copies of inputs that a caller has at other addresses of the device.
FAKE_CUDA_KERNELS=$EMULATE/checked.so EMULATE_GO_ON=1 FAKE_CUDA_LATE=1 FAKE_CUDA_HIDE=1 INFER_WITHOUT=$none \
	"$OUT/conformance/run" "$at/cases" -d cuda -c -n -m -f kernels/few_keys20 >"$at/misplaced" 2>&1 </dev/null
misplaced=$?

# ---- what came of it

cat "$at"/*/list 2>/dev/null | awk -F '\t' '$1 == "pass" { print $2 }' | sort -u >"$at/passed"
for k in "${!worlds[@]}"; do
	w=$at/${worlds[k]}
	[ ! -s "$w/list" ] || awk -F '\t' 'FILENAME == ARGV[1] { if ($1 == "pass") ok[$2] = 1; next } ok[$1] { print $1 "\t" $2 }' \
		"$w/list" "$w/launches"
done | sort -u >"$at/reached"
cut -f 2 "$at/reached" | sort -u - "$at/known" | comm -12 - "$at/kernels" >"$at/done"
bad=0
for k in "${!worlds[@]}"; do
	w=$at/${worlds[k]}
	[ -s "$w/chosen" ] || continue
	n=$(wc -l <"$w/chosen")
	if [ "$(grep -c '^pass' "$w/list")" = "$n" ]; then
		echo "ok the numbers of $n cases, ${worlds[k]}"
	else
		grep -v '^pass' "$w/list" | sed 's/^/# /' | head -n 20
		tail -n 3 "$w/ran" | sed 's/^/# /'
		echo "not ok the numbers of $n cases, ${worlds[k]}"
		bad=1
	fi
done
[ "$misplaced" = 0 ] && ! grep '^emulate: ' "$at/misplaced" || { echo -n 'not ' && bad=1; }
echo 'ok inputs may lie at odd addresses of the device'
comm -23 "$at/kernels" "$at/done" | comm -23 - "$at/exceptions" >"$at/never"
comm -12 "$at/exceptions" "$at/done" >"$at/excused"
comm -23 "$at/exceptions" "$at/kernels" >>"$at/excused"
if [ -s "$at/never" ]; then
	echo "# no case runs: $(paste -s -d ' ' "$at/never")"
	bad=1
fi
if [ -s "$at/excused" ]; then
	echo "# excepted in exceptions.txt, but run by a case, or no kernel: $(paste -s -d ' ' "$at/excused")"
	bad=1
fi
[ ! -s "$at/never" ] && [ ! -s "$at/excused" ] || echo -n 'not '
echo "ok each of $(wc -l <"$at/kernels") kernels has run with its numbers compared, but $(wc -l <"$at/exceptions")"
exit $bad
