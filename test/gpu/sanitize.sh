#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: compute-sanitizer over our kernels, each of them at least once under each tool. Cases tell
# which kernels they launch (test/tools/launches.h); those that are wanted to reach every kernel run under the tools,
# and tell it there again: what is counted has run under the tool. TAP on standard output.
#
#   OUT     the build folder
#   CASES   the conformance cases
#   MORE    the cases of test/gpu/kernels.py, which reach further (made here where python3 has onnx)
#   TOOLS   the checks; JOBS how many processes side by side; DEPTH in how many cases a kernel is to run
#   KERNEL_LIST  the names of our kernels, where the driver cannot list them (older than CUDA 12.4)
#   CHOICE  a folder that keeps which cases were chosen, and is taken by its word where it is there
#   PARTS   1: where our kernels do all the work, 2: where they interpret what is compiled otherwise, 3: beside
#           NVIDIA's libraries, what only runs there
#   LIMIT   seconds for one process; what it has not come to by then is not counted
set -u
export LC_ALL=C
: "${OUT:=build}" "${CASES:=test/conformance/cases}" "${TOOLS=memcheck initcheck racecheck synccheck}"
: "${JOBS:=$((($(nproc) + 1) / 2))}" "${DEPTH:=2}" "${LIMIT:=900}" "${PARTS:=1 2 3}"
here=$(dirname "$0")
PATH=$PATH:/usr/local/cuda/bin
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: "${MORE:=$folder/more}"
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

# Each shard of $2 in a process of its own, without the libraries $1, under the command that follows; its launches in
# $2/N.launches. Tuning tries every form of a kernel, so the cache of what it found is empty at the start.
run_shards() {
	local without=$1 at=$2 i
	shift 2
	for i in "$at"/[0-9]*/; do
		i=${i%/}
		compgen -G "$i/*/" >/dev/null || continue # fewer cases than processes
		INFER_WITHOUT=$without LAUNCHES=$i.launches XDG_CACHE_HOME=$i.cache timeout -k 5 "$LIMIT" "$@" \
			"$OUT/conformance/run" "$i" -d cuda -c >"$i.out" 2>&1 &
	done
	if [ -x "$OUT/unit/gpu_kernels" ] && [ "${at##*/}" = 1 ]; then
		INFER_WITHOUT=$without LAUNCHES=$at/unit.launches XDG_CACHE_HOME=$at/unit.cache timeout -k 5 "$LIMIT" "$@" \
			"$OUT/unit/gpu_kernels" >"$at/unit.out" 2>&1 &
	fi
	wait
}

launched() { # FOLDER...: the names of our kernels that ran there
	local f
	for f in "$@"; do
		cat "$f"/*.launches 2>/dev/null
	done | cut -f 2 | sort -u | comm -12 - "$folder/kernels"
}

# The cases (lines "FOLDER TAB KIND/CASE") that are wanted to reach each kernel DEPTH times, but those of the file $1:
# those that launch many kernels first.
choose() { # DONE LAUNCHES...
	local done=$1
	shift
	cut -f 1 "$@" | sort | uniq -c | sort -k 1,1nr -k 2 | sed 's/^ *[0-9]* //' |
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

# Which cases reach which kernels, without a tool: where our kernels do all the work, then where they interpret what
# is compiled otherwise, then beside NVIDIA's libraries, what only runs there.
WITHOUT=("cudnn,cublaslt" "cudnn,cublaslt,nvrtc" none)
mkdir -p "$folder"/plain/{1,2,3}
: >"$folder/kernels"
: >"$folder/reached"
if [ -s "${CHOICE:-}/kernels" ]; then
	cp "$CHOICE"/{kernels,reached} "$folder"
	for k in 1 2 3; do
		sed "s,^kernels/\|^random/,$MORE\t&,;t;s,^,$CASES\t," "$CHOICE/chosen.$k" >"$folder/chosen.$k"
	done
	JOBS=1 deal "$folder/plain/1" < <(head -n 1 "$folder/chosen.1") # the kernels of this build
	KERNELS=$folder/all "$OUT/conformance/run" "$folder/plain/1/0" -d cuda >/dev/null 2>&1
	[ ! -s "$folder/all" ] || sort -u "$folder/all" >"$folder/kernels"
fi
for k in 1 2 3; do
	[ ! -s "${CHOICE:-}/kernels" ] || break
	at=$folder/plain/$k
	every_case | deal "$at"
	KERNELS=$folder/all run_shards "${WITHOUT[k - 1]}" "$at"
	sort -u "${KERNEL_LIST:-$folder/all}" >"$folder/kernels"
	[ -s "$folder/kernels" ] || { echo "not ok the driver lists no kernels"; exit 1; }
	choose "$folder/reached" "$at"/*.launches >"$folder/chosen.$k"
	launched "$folder"/plain/* >"$folder/reached"
	grep -h '^FAIL\|^CRASH\|^HANG' "$at"/*.out | sed "s/^/# without ${WITHOUT[k - 1]}: /" | head -n 10
done
if [ -n "${CHOICE:-}" ] && [ ! -s "$CHOICE/kernels" ]; then
	mkdir -p "$CHOICE"
	cp "$folder"/{kernels,reached} "$CHOICE"
	for k in 1 2 3; do
		cut -f 2 "$folder/chosen.$k" >"$CHOICE/chosen.$k"
	done
fi
all=$(wc -l <"$folder/kernels")
echo "# $all kernels; $(wc -l <"$folder/reached") reached, for which $(cat "$folder"/chosen.* | wc -l) cases are enough"
comm -13 "$folder/reached" "$folder/kernels" | paste -s -d ' ' | sed 's/^\(.\)/# never: \1/'

# The kernels of ours in which a tool found errors, a line each; those of NVIDIA's are none of our business.
errors_in() { # FOLDER
	cat "$1"/*.launches | cut -f 2 | sort -u >"$1/ours"
	cat "$1"/*.out | grep -o '\(^=========  *at\|access at\) *[A-Za-z0-9_]*' | sed 's/.* //' | grep -F -x -f "$1/ours"
}

bad=0 n=0
summary='ERROR SUMMARY:\|RACECHECK SUMMARY:'
for tool in $TOOLS; do
	begun=$SECONDS other=0 ended=0 shards=0
	mkdir -p "$folder/$tool"
	: >"$folder/$tool/errors"
	for k in $PARTS; do
		at=$folder/$tool/$k
		mkdir -p "$at"
		deal "$at" <"$folder/chosen.$k"
		run_shards "${WITHOUT[k - 1]}" "$at" compute-sanitizer --tool "$tool" --target-processes all \
			--print-limit $((k == 3 ? 5000 : 20)) --show-backtrace no # beside theirs ours are to be seen
		# initcheck does not see what cuDNN's kernels write by TMA: who reads it is no sinner
		if [ "$tool$k" = initcheck3 ]; then
			echo "# beside cuDNN initcheck complains of $(errors_in "$at" | sort | uniq -c | awk '{ print $2 " " $1 }' | paste -s -d ,)"
		else
			errors_in "$at" >>"$folder/$tool/errors"
		fi
		[ "$k" = 3 ] || other=$((other + $(cat "$at"/*.out | grep -c 'Program hit\|Internal Sanitizer Error')))
		# a process that was cut off, or that the tool could not run, has no closing line
		ended=$((ended + $(grep -l "$summary" "$at"/*.out | wc -l))) shards=$((shards + $(grep -l '' "$at"/*.out | wc -l)))
	done
	errors=$(wc -l <"$folder/$tool/errors")
	launched "$folder/$tool"/* >"$folder/$tool/kernels"
	what="$tool: $(wc -l <"$folder/$tool/kernels") of $all kernels, $(cat "$folder/$tool"/*/*.launches | cut -f 1 | sort -u | wc -l) cases, $errors errors, $other other complaints, $ended of $shards processes ended, $((SECONDS - begun)) s"
	n=$((n + 1))
	# under a slow tool tuning has no time for every form of a kernel: a few may be missing, no more
	missing=$(comm -13 "$folder/$tool/kernels" "$folder/reached" | wc -l)
	if [ "$errors$other" = 00 ] && [ "$ended" = "$shards" ] && [ $((missing * 10)) -lt "$(wc -l <"$folder/reached")" ]; then
		echo "ok $what"
	else
		echo "not ok $what"
		bad=1
		sort "$folder/$tool/errors" | uniq -c | sort -k 1,1nr | sed 's/^/# errors in kernel: /' | head -n 20
		sort -u "$folder/$tool/errors" | sed 's/$/+/' | grep -h -F -m 4 -B 1 -A 12 -f - "$folder/$tool"/*/*.out |
			head -n "${LINES_ALL:-60}" | sed 's/^/# /'
		cat "$folder/$tool"/*/*.out | grep -A 4 'Program hit\|Internal Sanitizer' | head -n 20 | sed 's/^/# /'
		grep -L "$summary" "$folder/$tool"/*/*.out | head -n 8 | while read -r f; do
			echo "# ${f#"$folder"/}: $(tail -n 1 "$f")"
		done
	fi
	comm -13 "$folder/$tool/kernels" "$folder/reached" | paste -s -d ' ' | sed 's/^\(.\)/# reached without the tool only: \1/'
done
echo "1..$n"
exit $bad
