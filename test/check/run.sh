#!/usr/bin/env bash
# test/check/run.sh: the corpus of `infer check`. Every planted fault must be found, with its id, its node (or
# another word of the finding) and its exit status; of a sound model nothing may be said with severity error.
# Prints TAP, and both rates at the end.
#
#   INFER         the program; cases with a fault to plant want FAULTS_INFER, the one that `make FAULTS=1` builds
#   CHECK_MODELS  more sound models, files or folders; each *.onnx below them is checked
#   CHECK_ONLY    only cases whose name has this
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${INFER:?}" "${FAULTS_INFER:=}" "${CHECK_MODELS:=}" "${CHECK_ONLY:=}" "${CC:=cc}"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
planted=0 found=0 sound=0 clean=0 bad=0

"$CC" -O1 -o "$work/make" "$here/make.c" -lm && "$work/make" "$here"/*.txt "$work/cases" || exit 1

fail() { # NAME WHY: and what the program said
	echo "not ok $1: $2"
	sed 's/^/# /' "$work/out" | head -n 20
	bad=$((bad + 1))
}

# One finding a line: the rows and the hint below its head are joined to it.
join_findings() {
	awk '/^(error|warning|note)\[/ {if (line != "") print line; line = $0; next}
		line != "" && /^ / {line = line " " $0; next}
		{if (line != "") print line; line = ""; print}
		END {if (line != "") print line}' "$work/out" >"$work/findings"
}

matches() { # ID[@WORD]: a finding of this id (or beginning with it, where it ends in -) with the word (a pattern) in it
	local id=${1%%@*} word=
	[ "$id" = "$1" ] || word=${1#*@}
	case $id in
	*-) grep -F "[$id" "$work/findings" ;;
	*) grep -F "[$id]" "$work/findings" ;;
	esac | grep -q -- "$word"
}

# What the case's `expect` and `exit` say of $work/out and $status goes into `why`, nothing where all is so.
judge() {
	local word
	why='' kind=found
	join_findings
	for word in "${expect[@]}"; do
		if [ "$word" = quiet ]; then
			grep -q '^warning\[' "$work/out" && why='a warning is said'
		elif [ "$word" = sound ]; then
			kind=clean
			grep -q '^error\[' "$work/out" && why='an error is said'
		elif ! matches "$word"; then
			why="no $word"
		fi
	done
	[ "$status" = "$want" ] || why="${why:+$why; }exit status $status, not $want"
}

run_case() { # FOLDER
	local dir=$1 name=${1##*/} status want=0 program=$INFER fault='' key rest kind why times limit
	local expect=() args=()
	while read -r key rest; do
		case $key in
		expect) read -r -a words <<<"$rest" && expect+=("${words[@]}") ;;
		exit) want=$rest ;;
		args) read -r -a words <<<"${rest//DIR/$dir}" && args+=("${words[@]}") ;;
		fault) fault=$rest ;;
		esac
	done <"$dir/case"
	if [ -n "$fault" ]; then
		if [ -z "$FAULTS_INFER" ]; then
			echo "ok $name # skip no fault-injection build"
			return
		fi
		program=$FAULTS_INFER
	fi
	# how far it comes within --timeout N is the machine's: a slow one gets more
	for times in 1 5 25 125; do
		limit=()
		[[ " ${args[*]} " != *" --timeout "* ]] || limit=(--timeout "$times")
		status=0
		INFER_FAULT=$fault timeout 600 "$program" check "$dir/model.onnx" "${args[@]}" "${limit[@]}" \
			>"$work/out" 2>&1 || status=$?
		judge
		if [ -z "$why" ] || [ ${#limit[@]} = 0 ]; then break; fi
	done
	case $kind in
	clean) sound=$((sound + 1)) ;;
	found) planted=$((planted + 1)) ;;
	esac
	if [ -n "$why" ]; then
		fail "$name" "$why"
		return
	fi
	echo "ok $name"
	case $kind in
	clean) clean=$((clean + 1)) ;;
	found) found=$((found + 1)) ;;
	esac
}

for dir in "$work"/cases/*"$CHECK_ONLY"*/; do
	run_case "${dir%/}"
done

# Real models, where they are: sound, whatever is made up for their inputs.
for place in $CHECK_MODELS; do
	while IFS= read -r model; do
		sound=$((sound + 1))
		if timeout 600 "$INFER" check "$model" >"$work/out" 2>&1; then
			echo "ok $model"
			clean=$((clean + 1))
		else
			fail "$model" 'an error is said of a sound model'
		fi
	done < <(find "$place" -name '*.onnx' | sort)
done

echo "# planted faults found: $found of $planted; sound models without an error: $clean of $sound"
[ "$bad" = 0 ]
