#!/bin/sh
# Prints the version: that of the newest tag (v1.2.3) with the commits since. Without a tag it is the manual's version with the
# time of the commit and the commit, 0.1.0~git20261123.155335.g3619db2c1a: a later commit sorts after an earlier one, also in a
# shallow clone, which cannot count commits, and "~" sorts before the release itself. Without git (a source archive) it is what
# the file VERSION says, which `make dist` writes.
set -eu
cd "$(dirname "$0")/.."
base=$(sed -n 's/^#define INFER_VERSION "\(.*\)"/\1/p' cmd/options/version.h)
if [ -e VERSION ]; then
	sed -n 1p VERSION
elif [ "$(git rev-parse --show-toplevel 2>/dev/null)" != "$(pwd -P)" ]; then
	echo "$base" # a copy below another repository is none of its commits
elif tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
	printf '%s\n' "${tag#v}" | sed 's/-\([0-9]*\)-g/+\1.g/'
elif commit=$(TZ=UTC git log -1 --abbrev=10 --date=format-local:%Y%m%d.%H%M%S --format=%cd.g%h 2>/dev/null); then
	echo "$base~git$commit"
else
	echo "$base"
fi
