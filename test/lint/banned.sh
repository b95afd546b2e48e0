#!/usr/bin/env bash
# Functions that have a safer form in this tree, and constructs that the architecture rules out.
set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit 1
mapfile -t files < <(find cmd src onnx gpu -name '*.[ch]' ! -path 'src/watch/inject/*' | sort)
[ ${#files[@]} -gt 0 ] || exit 0

bad=0
check() { # PATTERN WHY: an extended regular expression, not looked for in comment lines
	local pattern=$1 why=$2 found
	found=$(grep -nHE "(^|[^A-Za-z0-9_>.\"])($pattern)" "${files[@]}" |
		grep -vE '^[^:]*:[0-9]+:[[:space:]]*(/\*|\*|//)')
	[ -z "$found" ] || {
		printf '%s\n  banned: %s\n' "$found" "$why"
		bad=1
	}
}
check '(strcpy|strcat|strncpy|strncat|stpcpy|sprintf|vsprintf|gets)[[:space:]]*\(' 'no bound: use snprintf, memcpy or the string buffer'
check '(atoi|atol|atoll|atof)[[:space:]]*\(' 'errors go unseen: use strtol, strtoll or strtod and look at the end'
check '(strtok|asctime|ctime|gmtime|localtime|readdir_r|tmpnam|mktemp)[[:space:]]*\(' 'not reentrant, or racy: use the _r form, or mkstemp'
check 'alloca[[:space:]]*\(' 'unbounded stack: use an arena'
check 'omp_parallel|#[[:space:]]*pragma[[:space:]]+omp' 'threads come from the pool'
exit $bad
