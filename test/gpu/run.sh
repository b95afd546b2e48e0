#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests that want a GPU, from a build (`make test-gpu`) or from a carried one: wanted are the folders test/gpu and OUT
# with bin/infer, unit/* and conformance/run (`make tests`). Parts run side by side on all devices, each within a limit of
# its own, and tell what came of them as they end; a table closes the whole, with its last line "N passed, N failed".
# Exit status 1 where anything failed or was cut off, 8 where there is no GPU.
#
#   OUT       the build folder
#   CASES     the folder of conformance cases, unpacked or its archives
#   MORE      the cases of test/gpu/kernels.py: made here where python3 has onnx; so are LARGE (large.py), LATE (late.py)
#   FAULTS    the program of `make FAULTS=1`: faults are planted where it is there
#   MODELS    a folder of models with their weights: each on the GPU against the CPU (bench/gpu_models of `make tests`)
#   SANITIZE  1: compute-sanitizer over all kernels, too, for as long as there is time (minutes)
#   LIST      a file that gets a line a case with what ran on the host
#   RESULTS   a folder that keeps each part's output, and a line a part in `table`
#   TIME      seconds for all of it; what has not begun by then does not run. LIMIT: for each part, beside its own limit
#   GPUS      the devices to use ("0 1 2"); SLOTS parts side by side on each
#   ONLY      a pattern of names of parts
set -u
here=$(dirname "$0")
# shellcheck source=test/gpu/devices.sh
. "$here/devices.sh"
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${LIST:=/dev/null}" "${FAULTS:=$OUT/faults/bin/infer}"
: "${GPUS:=$(devices)}" "${SLOTS:=4}" "${TIME:=3600}" "${LIMIT:=3600}" "${ONLY:=.}"
[ -x "$FAULTS" ] || FAULTS=${OUT%/}-faults/bin/infer
export OUT CASES FAULTS
read -ra gpus <<<"$GPUS"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${RESULTS:=$work/results}"
mkdir -p "$RESULTS"
: >"$RESULTS/table"
cores=$(nproc)

left() { # seconds
	echo $((TIME - SECONDS))
}

# ---- parts: lines "LIMIT TAB NAME TAB KIND TAB COMMAND", in the order in which they begin ----

part() { # LIMIT NAME tap|cases COMMAND...
	[[ $2 =~ $ONLY ]] || return
	printf '%s\t%s\t%s\t' "$1" "$2" "$3"
	shift 3
	printf '%q ' "$@"
	printf '\n'
}

# Links to the cases of folder $1 in $work/NAME/0, 1, ...: as many folders as can run side by side; their number.
share() { # FOLDER NAME
	local from n=$((${#gpus[@]} * SLOTS)) i
	from=$(realpath "$1")
	[ "$n" -le "$cores" ] || n=$cores
	for ((i = 0; i < n; i++)); do
		mkdir -p "$work/$2/$i"
		cp "$from/manifest.tsv" "$work/$2/$i"
	done
	(cd "$from" && find -L . -mindepth 3 -maxdepth 3 -name model.onnx) | sort | awk -F / -v from="$from" -v to="$work/$2" -v n="$n" '{
		list = to "/" (NR - 1) % n "/" $2 ".list"
		print from "/" $2 "/" $3 > list
	}'
	for i in "$work/$2"/*/*.list; do
		[ -e "$i" ] || continue
		mkdir -p "${i%.list}"
		xargs ln -s -t "${i%.list}" <"$i"
		rm "$i"
	done
	echo "$n"
}

shares() { # LIMIT NAME FOLDER OPTION...
	local limit=$1 name=$2 from=$3 n i
	shift 3
	[[ $name =~ $ONLY ]] || return
	n=$(share "$from" "${name// /-}")
	for ((i = 0; i < n; i++)); do
		compgen -G "$work/${name// /-}/$i/*/" >/dev/null || continue
		part "$limit" "$name $((i + 1))/$n" cases "$OUT/conformance/run" "$work/${name// /-}/$i" \
			-l "$work/${name// /-}.$i.list" "$@" -d cuda
	done
}

# Folders that Python makes while the first parts run.
make_folders() {
	local made=() name
	[ -n "${MORE:-}" ] || timeout 300 python3 "$here/kernels.py" "$work/made-more" >"$work/made-more.log" 2>&1 & made+=($!)
	[ -n "${LATE:-}" ] || timeout 300 python3 "$here/late.py" "$CASES" "$work/made-late" >"$work/made-late.log" 2>&1 & made+=($!)
	[ -n "${LARGE:-}" ] || timeout 300 python3 "$here/large.py" "$work/made-large" >"$work/made-large.log" 2>&1 & made+=($!)
	for name in "${made[@]}"; do wait "$name"; done
}

folder_of() { # NAME GIVEN: the folder, or nothing, and why
	local at=${2:-$work/made-$1}
	if [ -s "$at/manifest.tsv" ]; then
		echo "$at"
	else
		echo "$1: no cases: $(tail -n 1 "$work/made-$1.log" 2>/dev/null)" >&2
	fi
}

first_parts() {
	local unit m
	for unit in "$OUT"/unit/gpu* "$OUT/unit/cudnn" "$OUT/unit/cupti" "$OUT/unit/sdpa"; do
		case $unit in *.d | *.o) continue ;; esac
		[ ! -x "$unit" ] || part 180 "unit/${unit##*/}" tap "$unit"
	done
	[ ! -x "$FAULTS" ] || part 180 faults tap "$here/faults.sh"
	shares 240 conformance "$CASES"
	[ ! -e "$here/../random/cases" ] || part 240 'special values' cases "$OUT/conformance/run" "$here/../random/cases" -d cuda
	for m in ${MODELS:+"$MODELS"/*.onnx}; do
		part 240 "model ${m##*/}" tap "$here/models.sh" "$m"
	done
	[ ! -e "$here/../data/steps" ] || part 300 decoders tap "$here/decoder.sh"
	# another program, watched: built here
	if [ -e "$here/../watch/run.sh" ] && command -v "${CC:-cc}" >/dev/null && [ -x "${CUDA:-/usr/local/cuda}/bin/nvcc" ]; then
		part 240 watch tap env "INFER=$(realpath "$OUT/bin/infer")" "$here/../watch/run.sh"
	fi
}

more_parts() {
	local f
	# with the choices and plans that the first time has left in the cache
	[ ! -e "$here/../random/cases" ] || part 240 'special values again' cases "$OUT/conformance/run" "$here/../random/cases" -d cuda
	f=$(folder_of more "${MORE:-}")
	[ -z "$f" ] || shares 240 "kernels in every type" "$f" -c
	f=$(folder_of late "${LATE:-}")
	[ -z "$f" ] || shares 180 "late values" "$f"
	f=$(folder_of large "${LARGE:-}")
	[ -z "$f" ] || shares 240 "large tensors" "$f" -c
}

# ---- running ----

note() { # NAME PASSED FAILED SECONDS HOW
	printf '%-44s %6d passed %5d failed %5d s  %s\n' "$@" | sed 's/ *$//' >>"$RESULTS/table"
	tail -n 1 "$RESULTS/table"
}

run_part() { # DEVICE LIMIT NAME KIND COMMAND
	local gpu=$1 limit=$2 name=$3 kind=$4 log rc ok bad begun=$SECONDS how=
	log=$RESULTS/$(tr '/ ' '--' <<<"$name").log
	[ "$limit" -le "$LIMIT" ] || limit=$LIMIT
	[ "$limit" -le "$(left)" ] || limit=$(left)
	CUDA_VISIBLE_DEVICES=$gpu timeout -k 10 "$limit" bash -c "$5" >"$log" 2>&1
	rc=$?
	[ $rc != 124 ] && [ $rc != 137 ] || how="cut off after $limit s"
	if [ "$kind" = cases ]; then
		ok=$(sed -n 's/^conformance: \([0-9]*\) passed.*/\1/p' "$log")
		bad=$(sed -n 's/^conformance: .* passed, \([0-9]*\) failed.*/\1/p' "$log")
	else
		ok=$(grep '^ok ' "$log" | grep -c -v -i '# skip')
		bad=$(grep -c '^not ok ' "$log")
		# it broke off, or ran nothing
		if [ "$bad" = 0 ] && { [ $rc != 0 ] || ! grep -q '^ok ' "$log"; }; then bad=1 how=${how:-exit status $rc}; fi
	fi
	[ -n "$bad" ] || { bad=1 how=${how:-exit status $rc}; }
	{
		note "$name" "${ok:-0}" "$bad" $((SECONDS - begun)) "$how"
		[ "$bad" = 0 ] || grep -v '^ok \|^[0-9]*\.\.[0-9]*$' "$log" | tail -n 30 | sed 's/^/  /'
	} >"$log.told"
	cat "$log.told"
	rm "$log.told"
}

worker() { # DEVICE
	local line limit name kind command
	while :; do
		line=$(next_line "$work" parts)
		[ -n "$line" ] || return
		IFS=$'\t' read -r limit name kind command <<<"$line"
		if [ "$(left)" -lt 5 ]; then
			note "$name" 0 1 0 "not begun: time was up"
			continue
		fi
		run_part "$1" "$limit" "$name" "$kind" "$command"
	done
}

"$OUT/bin/infer" doctor | tee "$RESULTS/doctor"
grep -q '^cuda:' "$RESULTS/doctor" || { echo "no GPU: nothing was tested"; exit 8; }
if compgen -G "$CASES/*.tar.gz" >/dev/null; then
	mkdir "$work/cases"
	cp "$CASES/manifest.tsv" "$work/cases"
	for f in "$CASES"/*.tar.gz; do tar xzf "$f" -C "$work/cases"; done
	CASES=$work/cases
fi

run_parts() { # those of $work/parts
	local slot gpu workers=()
	echo "$(wc -l <"$work/parts") parts on ${#gpus[@]} devices, $SLOTS side by side on each, $(left) s left"
	echo 0 >"$work/next"
	for ((slot = 0; slot < SLOTS; slot++)); do
		for gpu in "${gpus[@]}"; do
			worker "$gpu" &
			workers+=($!)
		done
	done
	wait "${workers[@]}"
}

make_folders &
maker=$!
first_parts >"$work/parts"
run_parts
wait $maker
more_parts >"$work/parts"
run_parts
cat "$work"/conformance.*.list >"$LIST" 2>/dev/null
sed -n 's/^on cuda: \([0-9]*\) of .*/\1/p' "$RESULTS"/conformance-*.log 2>/dev/null |
	awk '{ n += $1 } END { if (NR) print "conformance: " n " of those passed ran wholly on the GPU" }'
if [ -n "${SANITIZE:-}" ] && [[ sanitize =~ $ONLY ]]; then
	begun=$SECONDS
	f=$(folder_of more "${MORE:-}" 2>/dev/null)
	[ -z "$f" ] || export MORE=$f
	LIMIT="" GPUS=$GPUS TIME=$(left) CHOICE=${CHOICE:-$RESULTS/choice} "$here/sanitize.sh" 2>&1 | tee "$RESULTS/sanitize.log"
	note sanitize "$(grep -c '^ok ' "$RESULTS/sanitize.log")" "$(grep -c '^not ok ' "$RESULTS/sanitize.log")" \
		$((SECONDS - begun)) ""
fi

# ---- the table: shares of one part together ----

echo
awk '{
	n = match($0, / +[0-9]+ passed +[0-9]+ failed/)
	name = substr($0, 1, n - 1)
	sub(/ [0-9]+\/[0-9]+$/, "", name)
	split(substr($0, n), v, " ")
	if (!(name in passed)) order[++parts] = name
	passed[name] += v[1]; failed[name] += v[3]
	seconds[name] = v[5] > seconds[name] ? v[5] : seconds[name]
	if (v[7] != "") how[name] = how[name] (how[name] ? "; " : "") substr($0, index($0, " s  ") + 4)
}
END {
	for (i = 1; i <= parts; i++) {
		name = order[i]
		line = sprintf("%-40s %6d passed %5d failed %5d s  %s", name, passed[name], failed[name], seconds[name], how[name])
		sub(/ +$/, "", line)
		print line
		p += passed[name]; f += failed[name]
	}
	print p + 0 " passed, " f + 0 " failed"
	exit f != 0
}' "$RESULTS/table"
