#!/usr/bin/env bash
# The README's line that runs the tests is the one that .ci/run runs.
cd "$(dirname "$0")/../.." || exit 1
line=$(sed -n 's/^[[:space:]]*\(.*make deps test\)$/\1/p' .ci/run)
[ -n "$line" ] && grep -qxF "$line" README.md && exit 0
echo 'README.md and .ci/run differ in the line that ends in "make deps test"'
exit 1
