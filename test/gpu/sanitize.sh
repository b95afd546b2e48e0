#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: compute-sanitizer over our kernels, each of them at least once under each tool. Cases tell
# which kernels they launch (test/tools/launches.h); those that are wanted to reach every kernel run under the tools,
# and tell it there again: what is counted has run under the tool. TAP on standard output, a line as soon as it is known.
#
#   OUT     the build folder
#   CASES   the conformance cases
#   MORE    the cases of test/gpu/kernels.py, which reach further (made here where python3 has onnx)
#   TOOLS   the checks; DEPTH in how many cases a kernel is to run
#   GPUS    the devices to use ("0 1 2"); JOBS how many processes side by side, on all of them together
#   TIME    seconds for all of it: what it has not come to by then is left for the next time, which begins there
#   BATCH   cases of one process; LIMIT seconds for it
#   CHOICE  a folder that keeps which cases were chosen, and which of them, and which kernels, ran under which tool: taken
#           by its word where it is there, so that one run goes on where another was cut off
#   PARTS   1: where our kernels do all the work, 2: where they interpret what is compiled otherwise, 3: beside
#           NVIDIA's libraries, what only runs there
#   KERNEL_LIST  the names of our kernels, where the driver cannot list them (older than CUDA 12.4)
#   SANITIZER    another program in compute-sanitizer's place
set -u
export LC_ALL=C
here=$(dirname "$0")
# shellcheck source=test/gpu/devices.sh
. "$here/devices.sh"
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${TOOLS=racecheck memcheck initcheck synccheck}"
: "${GPUS:=$(devices)}" "${JOBS:=$((($(nproc) + 1) / 2))}" "${DEPTH:=2}" "${LIMIT:=300}" "${PARTS:=1 2 3}"
: "${TIME:=3600}" "${BATCH:=12}" "${SANITIZER:=compute-sanitizer}"
read -ra gpus <<<"$GPUS"
PATH=$PATH:/usr/local/cuda/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: "${MORE:=$folder/more}" "${CHOICE:=$folder/choice}"
mkdir -p "$CHOICE"
CASES=$(realpath "$CASES")
if compgen -G "$CASES/*.tar.gz" >/dev/null; then
	mkdir "$folder/cases"
	cp "$CASES/manifest.tsv" "$folder/cases"
	for f in "$CASES"/*.tar.gz; do tar xzf "$f" -C "$folder/cases"; done
	CASES=$folder/cases
fi
if [ ! -d "$MORE" ]; then # random graphs beside those made for it: of operators that no conformance case has
	"$OUT/bin/infer" inspect --ops --json >"$folder/ops.json"
	if python3 "$here/kernels.py" "$MORE" >/dev/null 2>&1 &&
		python3 "$here/../random/random_test.py" --driver none --ops "$folder/ops.json" --seed 101 --count 4000 \
			--write "$folder/random" >/dev/null 2>&1; then
		mv "$folder/random/random" "$MORE"
		cat "$folder/random/manifest.tsv" >>"$MORE/manifest.tsv"
	else
		echo "# no onnx for python3: some kernels are not reached"
	fi
fi

# Links to cases (lines "FOLDER TAB KIND/CASE" on standard input) in $1/0 .. $1/(JOBS-1), one after the other.
deal() {
	local i
	for ((i = 0; i < JOBS; i++)); do
		mkdir -p "$1/$i"
		cat "$CASES/manifest.tsv" "$MORE/manifest.tsv" >"$1/$i/manifest.tsv" 2>/dev/null
	done
	awk -F '\t' -v to="$1" -v jobs="$JOBS" '{
		split($2, part, "/")
		print $1 "/" $2 > (to "/" (NR - 1) % jobs "/" part[1] ".list")
	}'
	for i in "$1"/*/*.list; do
		mkdir -p "${i%.list}"
		xargs ln -s -t "${i%.list}" <"$i"
		rm "$i"
	done
}

launched() { # FOLDER...: the names of our kernels that ran there
	local f
	for f in "$@"; do
		cat "$f"/*.launches 2>/dev/null
	done | cut -f 2 | sort -u | comm -12 - "$folder/kernels"
}

# The cases (lines "FOLDER TAB KIND/CASE") that are wanted to reach each kernel DEPTH times, but those of the file $1:
# those that launch many kernels first, whole networks last, whose many launches no tool comes to the end of.
choose() { # DONE LAUNCHES...
	local done=$1
	shift
	cut -f 1 "$@" | sort | uniq -c | awk '{ print ($2 ~ /^light\//), $0 }' | sort -k 1,1n -k 2,2nr -k 3 |
		sed 's/^[01] *[0-9]* //' |
		awk -F '\t' -v depth="$DEPTH" -v more="$MORE" -v cases="$CASES" '
		FILENAME == ARGV[1] { seen[$1] = depth; next }
		FILENAME == ARGV[2] { list[$1] = list[$1] " " $2; next }
		$1 !~ /^unit\// {
			wanted = 0
			k = split(list[$1], name, " ")
			for (i = 1; i <= k; i++) wanted = wanted || seen[name[i]] < depth
			for (i = 1; i <= k && wanted; i++) seen[name[i]]++
			if (wanted) print ($1 ~ /^kernels\/|^random\// ? more : cases) "\t" $1
		}' "$done" <(cat "$@") -
}

every_case() {
	local at
	for at in "$CASES" "$MORE"; do
		[ ! -d "$at" ] || (cd "$at" && find -L . -mindepth 3 -maxdepth 3 -name model.onnx) |
			sed "s,^\./,$at\t,;s,/model.onnx\$,,"
	done
}


left() { # seconds
	echo $((TIME - SECONDS))
}

# Each shard of $2 in a process of its own on one of the devices, without the libraries $1; its launches in $2/N.launches.
run_shards() {
	local without=$1 at=$2 i n=0
	for i in "$at"/[0-9]*/; do
		i=${i%/}
		compgen -G "$i/*/" >/dev/null || continue # fewer cases than processes
		CUDA_VISIBLE_DEVICES=${gpus[n++ % ${#gpus[@]}]} INFER_WITHOUT=$without LAUNCHES=$i.launches XDG_CACHE_HOME=$i.cache \
			timeout -k 5 "$(left)" "$OUT/conformance/run" "$i" -d cuda -c >"$i.out" 2>&1 &
	done
	wait
}

# Which cases reach which kernels, without a tool: where our kernels do all the work, then where they interpret what
# is compiled otherwise, then beside NVIDIA's libraries, what only runs there.
WITHOUT=("cudnn,cublaslt" "cudnn,cublaslt,nvrtc" none)
mkdir -p "$folder"/plain/{1,2,3}
touch "$CHOICE/kernels" "$CHOICE/reached"
for tool in $TOOLS; do touch "$CHOICE/under.$tool"; done
for k in 1 2 3; do
	[ ! -e "$CHOICE/chosen.$k" ] || continue
	at=$folder/plain/$k
	every_case | deal "$at"
	KERNELS=$folder/all run_shards "${WITHOUT[k - 1]}" "$at"
	sort -u "${KERNEL_LIST:-$folder/all}" >"$folder/kernels" 2>/dev/null
	[ -s "$folder/kernels" ] || { echo "not ok the driver lists no kernels"; exit 1; }
	cp "$CHOICE/reached" "$folder/reached"
	choose "$folder/reached" "$at"/*.launches | cut -f 2 >"$folder/chosen"
	{ cat "$CHOICE/reached"; launched "$at"; } | sort -u >"$folder/reached"
	cp "$folder"/{kernels,reached} "$CHOICE"
	mv "$folder/chosen" "$CHOICE/chosen.$k"
	grep -h '^FAIL\|^CRASH\|^HANG' "$at"/*.out | sed "s/^/# without ${WITHOUT[k - 1]}: /" | head -n 10
done
cp "$CHOICE"/{kernels,reached} "$folder"
if [ ! -s "$folder/all" ]; then # the kernels of this build
	JOBS=1 deal "$folder/plain/1" < <(head -n 1 "$CHOICE/chosen.1" |
		sed "s,^kernels/\|^random/,$MORE\t&,;t;s,^,$CASES\t,")
	KERNELS=$folder/all timeout -k 5 60 "$OUT/conformance/run" "$folder/plain/1/0" -d cuda >/dev/null 2>&1
	[ ! -s "$folder/all" ] || sort -u "$folder/all" >"$folder/kernels"
fi
all=$(wc -l <"$folder/kernels")
echo "# $all kernels; $(wc -l <"$folder/reached") reached, for which $(cat "$CHOICE"/chosen.* | wc -l) cases are enough; ${#gpus[@]} devices, $JOBS processes, $(left) s left"
comm -13 "$folder/reached" "$folder/kernels" | paste -s -d ' ' | sed '/^$/d;s/^/# never: /'

# ---- what is to be done: lines "TOOL TAB PART TAB CASE", those first that have not run under their tool ----

touch "$CHOICE/covered"
for tool in $TOOLS; do
	for k in $PARTS; do
		case $k in
		1) units="gpu_int8 gpu_kernels" ;;
		3) units=gpu_int8 ;;
		*) units= ;;
		esac
		for unit in $units; do
			[ ! -x "$OUT/unit/$unit" ] || printf '%s\t%s\tunit/%s\n' "$tool" "$k" "$unit"
		done
		sed "s/^/$tool\t$k\t/" "$CHOICE/chosen.$k"
	done
done >"$folder/wanted"
# One process takes a unit: a program, or BATCH cases of one tool and part. Units of the tools take turns.
awk -F '\t' -v batch="$BATCH" -v to="$folder/units" '
	FILENAME == ARGV[1] { done[$0] = 1; next }
	{
		again = $0 in done
		kind = again "\t" $1 "\t" $2
		if ($3 ~ /^unit\// || !(kind in n) || n[kind] % batch == 0) {
			key = kind ($3 ~ /^unit\// ? "\t" $3 : "")
			turn = $3 ~ /^unit\// ? -1 : turns[again, $1]++
			unit[key] = ++units
			print again "\t" turn "\t" units "\t" $1 "\t" $2 > (to ".list")
		} else
			key = kind
		if ($3 !~ /^unit\//) n[kind]++
		print $3 >> (to "." unit[key])
		close(to "." unit[key])
	}' "$CHOICE/covered" "$folder/wanted"
sort -t "$(printf '\t')" -k 1,1n -k 2,2n -k 3,3n "$folder/units.list" >"$folder/queue"
echo 0 >"$folder/next"

# The kernels of ours in which a tool found errors, a line each; those of NVIDIA's are none of our business.
errors_in() { # OUTPUT LAUNCHES
	cut -f 2 "$2" 2>/dev/null | sort -u | comm -12 - "$folder/kernels" >"$1.ours"
	grep -o '\(^=========  *at\|access at\) *[A-Za-z0-9_]*' "$1" | sed 's/.* //' | grep -F -x -f "$1.ours"
}

summary='ERROR SUMMARY:\|RACECHECK SUMMARY:'

run_unit() { # DEVICE UNIT TOOL PART
	local gpu=$1 unit=$2 tool=$3 part=$4 limit begun=$SECONDS what
	local at=$folder/$tool.$part.$unit program
	limit=$(left)
	[ "$limit" -le "$LIMIT" ] || limit=$LIMIT
	what=$(head -n 1 "$folder/units.$unit")
	mkdir "$at"
	case $what in
	unit/*) program=("$OUT/$what") ;;
	*)
		# shellcheck disable=SC2030
		(JOBS=1 deal "$at" < <(sed "s,^kernels/\|^random/,$MORE\t&,;t;s,^,$CASES\t," "$folder/units.$unit"))
		program=("$OUT/conformance/run" "$at/0" -d cuda -c)
		;;
	esac
	# tuning tries every form of a kernel, so the cache of what it found is empty at the start
	V=1 CUDA_VISIBLE_DEVICES=$gpu INFER_WITHOUT=${WITHOUT[part - 1]} LAUNCHES=$at.launches XDG_CACHE_HOME=$at.cache \
		timeout -k 5 "$limit" "$SANITIZER" --tool "$tool" --target-processes all \
		--print-limit $((part == 3 ? 5000 : 20)) --show-backtrace no "${program[@]}" >"$at.out" 2>&1
	# beside theirs ours are to be seen; initcheck does not see what cuDNN's kernels write by TMA: who reads it is no sinner
	if [ "$tool$part" = initcheck3 ]; then
		errors_in "$at.out" "$at.launches" | sort | uniq -c | sed 's/^/# beside cuDNN initcheck complains of: /' | head -n 4
		: >"$at.errors"
	else
		errors_in "$at.out" "$at.launches" >"$at.errors"
	fi
	# what was cut off has told of the cases that it ended; a program of many is one
	cut -f 1 "$at.launches" 2>/dev/null | sort -u | grep -v "$(grep -q "$summary" "$at.out" && echo '^$' || echo '^unit/')" |
		sed "s/^/$tool\t$part\t/" >>"$CHOICE/covered"
	if grep -q "$summary" "$at.out"; then echo ended; elif [ $((SECONDS - begun)) -ge "$limit" ]; then echo cut; else echo broken; fi >"$at.how"
	if [ -s "$at.errors" ] || { [ "$part" != 3 ] && grep -q 'Program hit\|Internal Sanitizer Error' "$at.out"; }; then
		echo "# $tool, part $part, $what: $(sort "$at.errors" | uniq -c | awk '{ print $2 " " $1 }' | paste -s -d ,)"
	elif [ "$(cat "$at.how")" = broken ] || { [ "${what%/*}" = unit ] && grep -q 'hazard displayed\|SUMMARY: [1-9]' "$at.out"; }; then
		echo "# $tool, part $part, $what: $(cat "$at.how")"
	else
		return
	fi
	grep -h -B 1 -A 12 '^========= .*\(Error\|Race\|hazard\|Program hit\|Invalid\|Uninit\|Barrier\|Internal\)' "$at.out" |
		head -n "${LINES_ALL:-30}" | sed 's/^/# /'
	[ "$(cat "$at.how")" != broken ] || tail -n 3 "$at.out" | sed 's/^/# /'
}

worker() { # DEVICE
	local line
	while [ "$(left)" -gt 5 ]; do
		line=$(next_line "$folder" queue)
		[ -n "$line" ] || return
		read -r _ _ unit tool part <<<"$line"
		run_unit "$1" "$unit" "$tool" "$part" >"$folder/told.$unit"
		cat "$folder/told.$unit"
	done
}

for ((j = 0; j < JOBS; j++)); do
	worker "${gpus[j % ${#gpus[@]}]}" &
done
wait

# ---- what came of it ----

bad=0 n=0
sort -u -o "$CHOICE/covered" "$CHOICE/covered"
sort -u "$folder/wanted" >"$folder/wanted.sorted"
for tool in $TOOLS; do
	cat "$folder/$tool".*.errors >"$folder/$tool.errors" 2>/dev/null
	errors=$(wc -l <"$folder/$tool.errors")
	other=$(cat "$folder/$tool".[12].*.out 2>/dev/null | grep -c 'Program hit\|Internal Sanitizer Error')
	broken=$(cat "$folder/$tool".*.how 2>/dev/null | grep -c broken)
	ended=$(cat "$folder/$tool".*.how 2>/dev/null | grep -c ended)
	cat "$folder/$tool".*.launches 2>/dev/null | cut -f 2 | sort -u | comm -12 - "$folder/kernels" >"$folder/$tool.kernels"
	wanted=$(grep -c "^$tool	" "$folder/wanted.sorted")
	covered=$(comm -12 "$CHOICE/covered" "$folder/wanted.sorted" | grep -c "^$tool	")
	sort -u -o "$CHOICE/under.$tool" "$folder/$tool.kernels" "$CHOICE/under.$tool"
	n=$((n + 2))
	what="$tool: $(wc -l <"$folder/$tool.kernels") of $all kernels this time, $(wc -l <"$CHOICE/under.$tool") in all, $errors errors, $other other complaints, $ended processes ended, $broken broke off"
	if [ "$errors$other$broken" = 000 ] && [ "$ended" -gt 0 ]; then
		echo "ok $what"
	else
		echo "not ok $what"
		bad=1
		sort "$folder/$tool.errors" | uniq -c | sort -k 1,1nr | sed 's/^/# errors in kernel: /' | head -n 20
	fi
	if [ "$covered" = "$wanted" ]; then
		echo "ok $tool: all $wanted cases have run under it"
	else
		echo "not ok $tool: $covered of $wanted cases have run under it; the others come first the next time"
		bad=1
	fi
	comm -23 "$folder/reached" "$CHOICE/under.$tool" | paste -s -d ' ' | sed "/^\$/d;s/^/# $tool: not yet: /"
done
echo "1..$n"
exit $bad
