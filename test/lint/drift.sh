#!/usr/bin/env bash
# The generated files that are committed (man/, completions/, configs/default.yaml) are what `make gen` writes.
set -u
cd "$(dirname "$0")/../.." || exit 1
new=$(mktemp -d) || exit 1
trap 'rm -rf "$new"' EXIT
infer=${INFER:-build/bin/infer}
# A program of other build variables writes the same files, and need not be built anew.
newer=$(find cmd src/ops \( -name '*.[ch]' -o -name '*.def' \) -newer "$infer" -print -quit) || exit 1
[ -z "$newer" ] || { echo "$infer is older than $newer: run make first"; exit 1; }
"${MAKE:-make}" --no-print-directory -o all gen GEN_DIR="$new" INFER="$infer" || exit 1
bad=0
for part in man completions configs/default.yaml; do
	diff -ru "$part" "$new/$part" || bad=1
done
[ $bad = 0 ] || echo 'run make gen and commit what it writes'
exit $bad
