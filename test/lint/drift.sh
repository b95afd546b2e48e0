#!/usr/bin/env bash
# The generated files that are committed (man/, completions/, configs/default.yaml) are what `make gen` writes.
set -u
cd "$(dirname "$0")/../.." || exit 1
new=$(mktemp -d) || exit 1
trap 'rm -rf "$new"' EXIT
"${MAKE:-make}" --no-print-directory gen GEN_DIR="$new" || exit 1
bad=0
for part in man completions configs/default.yaml; do
	diff -ru "$part" "$new/$part" || bad=1
done
[ $bad = 0 ] || echo 'run make gen and commit what it writes'
exit $bad
