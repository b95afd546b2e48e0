#!/bin/sh
# tools/arm64-sysroot.sh DIR: unpacks into DIR the libraries that a build for aarch64 links and includes, from Debian's arm64
# packages, without installing anything: no foreign architecture is added to the machine. Run again, it touches no network.
#
# It needs apt-get, dpkg-deb and lists for arm64, which it fetches into DIR itself.
set -eu
umask 022

dir=${1:?usage: tools/arm64-sysroot.sh DIR}
packages='libc6 libc6-dev libgcc-s1 libprotobuf-c1 libprotobuf-c-dev libyaml-0-2 libyaml-dev zlib1g zlib1g-dev
	libpng16-16 libpng-dev libjpeg62-turbo libjpeg62-turbo-dev libwebp7 libwebp-dev libtiff6 libtiff-dev libopenjp2-7 libopenjp2-7-dev
	libheif1 libheif-dev libsndfile1 libsndfile1-dev libsoxr0 libsoxr-dev'
pin=$(printf '%s' "$packages, links within" | sha256sum)
[ "$(cat "$dir/.pin" 2>/dev/null)" != "$pin" ] || exit 0

mkdir -p "$(dirname "$dir")"
dir=$(cd "$(dirname "$dir")" && pwd)/${dir##*/} # apt-get takes a relative folder for one beneath its own
work=$dir.work
rm -rf "$dir" "$work"
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/tree"
: >"$work/status"
apt() {
	apt-get -q -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::Lists="$work/lists" \
		-o Dir::State::Status="$work/status" -o Dir::Cache::Archives="$work/archives" -o Dir::Cache::pkgcache= \
		-o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}
apt update
# Recommendations and the order of installation do not matter, as nothing is installed.
# shellcheck disable=SC2086 # a list of words
apt install -y --no-install-recommends --download-only $packages
for deb in "$work"/archives/*.deb; do dpkg-deb -x "$deb" "$work/tree"; done
# libm.so is a link to /lib/..., where the linker would look on this machine, and take the archive libm.a if there is nothing.
find "$work/tree" -type l -lname '/*' | while read -r link; do
	ln -sfr "$work/tree$(readlink "$link")" "$link"
done
printf '%s' "$pin" >"$work/tree/.pin"
mv "$work/tree" "$dir"
rm -rf "$work"
