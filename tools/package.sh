#!/bin/sh
# tools/package.sh dist|deb|release: packages in build/packages, the same bytes for the same commit in any folder.
#
#   dist     infer-VERSION.tar.gz, the sources
#   deb      infer_VERSION_ARCH.deb and infer-cuda_VERSION_ARCH.deb (the second where there is nvcc)
#   release  infer-VERSION-linux-ARCH.tar.gz, which runs from any folder on any distribution with glibc 2.34, with the libraries
#            that such a system may lack, and a list of parts in SPDX's format; it needs patchelf
#
# SHA256SUMS has the sums of what is there. docs/packages.md tells where the packages run.
#
# MAKE and DEPS come from the Makefile; MAINTAINER='NAME <ADDRESS>' is who makes Debian packages.
set -eu
umask 022
PATH=$PATH:/usr/sbin:/sbin # of ldconfig
export LC_ALL=C TZ=UTC
cd "$(dirname "$0")/.."
: "${MAKE:=make}" "${DEPS:=build/deps}" "${PACKAGE_DIR:=build/packages}"
version=$(tools/version.sh)
if [ -e VERSION ]; then
	SOURCE_DATE_EPOCH=$(sed -n 2p VERSION)
else
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fi
export SOURCE_DATE_EPOCH
# Policy wants an address with a domain; that of the default is reserved, so that nobody else gets the mail.
: "${MAINTAINER:=the infer authors <infer@example.org>}"
mkdir -p "$PACKAGE_DIR"
out=$(cd "$PACKAGE_DIR" && pwd)
work=$(mktemp -d "$out/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() { printf 'package: %s\n' "$*"; }
die() {
	printf 'package: error: %s\n' "$*" >&2
	exit 1
}
# The same archive for the same files: sorted, of nobody, of one date.
pack() { # FOLDER ARCHIVE
	tar -C "${1%/*}" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--mode=u+rwX,go+rX,go-w -cf - "${1##*/}" | gzip -9n >"$2"
	say "$2, $(wc -c <"$2") bytes"
}
# Build without what a developer's config.mak says; $3 is the folder's name beneath $out/build.
build_and_install() { # FOLDER PREFIX NAME MAKE-VARIABLE...
	into=$1 prefix=$2 built=$out/build/$3
	shift 3
	$MAKE --no-print-directory BUILD="$built" KERNELS="$out/build/kernels" DEPS="$DEPS" DEVELOPER= CC=gcc FETCHED_CUDA=no PREFIX="$prefix" DESTDIR="$into" \
		"$@" install >"$work/log" 2>&1 || { cat "$work/log" >&2; die 'the build failed'; }
	strip "$into$prefix/bin/infer"
}

dist() {
	tree=$work/infer-$version
	[ ! -e VERSION ] || die 'this is a source archive already'
	mkdir "$tree"
	git archive HEAD | tar -C "$tree" -xf -
	printf '%s\n%s\n' "$version" "$SOURCE_DATE_EPOCH" >"$tree/VERSION"
	pack "$tree" "$out/infer-$version.tar.gz"
}

# --- Debian

deb_docs() { # ROOT NAME
	doc=$1/usr/share/doc/$2
	[ "$2" = infer ] || mv "$1/usr/share/doc/infer" "$doc"
	rm -f "$doc/LICENSE"
	{
		printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: infer\n\n'
		printf 'Files: *\nCopyright: %s the infer authors\nLicense: Apache-2.0\n' "$(date -d "@$SOURCE_DATE_EPOCH" +%Y)"
		[ ! -d "$doc/onednn" ] ||
			printf '\nFiles: usr/lib/infer/libdnnl.so.3\nCopyright: 2016-2023 Intel Corporation and others; see onednn/THIRD-PARTY-PROGRAMS\nLicense: Apache-2.0\n'
		printf '\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
	} >"$doc/copyright"
	rm -f "$doc/onednn/LICENSE"
	{
		printf '%s (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$2" "$version"
		printf ' -- %s  %s\n' "$MAINTAINER" "$(date -R -d "@$SOURCE_DATE_EPOCH")"
	} | gzip -9n >"$doc/changelog.gz"
	gzip -9n <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
}

deb_control() { # ROOT NAME
	mkdir "$1/DEBIAN"
	cat >"$1/DEBIAN/control" <<-EOF
		Package: $2
		Version: $version
		Architecture: $(dpkg --print-architecture)
		Maintainer: $MAINTAINER
		Installed-Size: $(du -sk --apparent-size "$1/usr" | cut -f 1)
		Depends: libc6 (>= 2.34), libgomp1, libprotobuf-c1, libstdc++6, libyaml-0-2, zlib1g
		Recommends: libpng16-16 | libpng16-16t64, libjpeg62-turbo, libopenjp2-7, libtiff6, libwebp7, libheif1, libsndfile1, libsoxr0
		Section: science
		Priority: optional
	EOF
	if [ "$2" = infer-cuda ]; then
		printf 'Provides: infer (= %s)\nConflicts: infer\nReplaces: infer\n' "$version" >>"$1/DEBIAN/control"
	fi
	cat >>"$1/DEBIAN/control" <<-EOF
		Description: run ONNX models and find out what is wrong with them$([ "$2" = infer ] || printf ' (CUDA)')
		 infer runs ONNX models from the command line, shows what is in them,
		 measures where time and memory go, and finds problems in the model,
		 its input, the numbers, memory or the device.
	EOF
	[ "$2" = infer ] || printf ' .\n This build has kernels for NVIDIA GPUs. It opens cuBLASLt, cuDNN and NVRTC\n if they are installed.\n' >>"$1/DEBIAN/control"
	(cd "$1" && find usr -type f | sort | xargs -d '\n' md5sum) >"$1/DEBIAN/md5sums"
}

deb() { # NAME MAKE-VARIABLE...
	name=$1 root=$work/$1
	shift
	mkdir "$root"
	build_and_install "$root" /usr "$name" RPATH= "$@"
	find "$root/usr/share/man" -type f -exec gzip -9n {} +
	find "$root/usr/lib" -name '*.so*' -exec strip --strip-unneeded {} +
	deb_docs "$root" "$name"
	deb_control "$root" "$name"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	find "$root" -type d -exec chmod 755 {} +
	file=$out/${name}_${version}_$(dpkg --print-architecture).deb
	dpkg-deb --root-owner-group -Zxz --build "$root" "$file" >/dev/null
	say "$file, $(wc -c <"$file") bytes"
}

# --- the tarball

# Libraries that a library in FOLDER needs and neither FOLDER nor every system has, with their own. gcc's are left to the system:
# they belong to a C library, and those of Debian 12 need a newer one than 2.34.
bundle() { # FOLDER
	ldd "$1"/*.so* 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r file; do
		case ${file##*/} in
		libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | ld-linux* | libstdc++.so* | libgcc_s.so*) continue ;;
		esac
		[ -e "$1/${file##*/}" ] || cp -L "$file" "$1"
	done
}

# What Debian's copyright files say of the parts, as SPDX names it; the files themselves come with the tarball.
license_of() { # SOURCE-PACKAGE
	case $1 in
	infer | onednn | lerc) echo Apache-2.0 ;;
	libpng1.6) echo libpng-2.0 ;;
	libjpeg-turbo) echo 'IJG AND BSD-3-Clause AND Zlib' ;;
	libwebp) echo BSD-3-Clause ;;
	tiff) echo libtiff ;;
	openjpeg2 | protobuf-c) echo BSD-2-Clause ;;
	zlib) echo Zlib ;;
	libyaml | libdeflate) echo MIT ;;
	gcc-*) echo 'GPL-3.0-or-later WITH GCC-exception-3.1' ;;
	jbigkit) echo GPL-2.0-or-later ;;
	libzstd) echo 'BSD-3-Clause OR GPL-2.0-only' ;;
	*) echo NOASSERTION ;; # liblzma is in the public domain, for which SPDX has no name
	esac
}

spdx_package() { # NAME ID VERSION LICENSE
	printf '\nPackageName: %s\nSPDXID: SPDXRef-%s\nPackageVersion: %s\n' "$1" "$2" "$3"
	printf 'PackageDownloadLocation: NOASSERTION\nFilesAnalyzed: false\n'
	printf 'PackageLicenseConcluded: NOASSERTION\nPackageLicenseDeclared: %s\nPackageCopyrightText: NOASSERTION\n' "$4"
}

# A list of the parts in SPDX's tag-value form: the libraries beside the program and those inside it, each with the Debian
# source package that it came from. Reads the libraries of FOLDER and copies their copyright files there.
spdx() { # FOLDER
	printf 'SPDXVersion: SPDX-2.3\nDataLicense: CC0-1.0\nSPDXID: SPDXRef-DOCUMENT\nDocumentName: infer-%s\n' "$version"
	printf 'DocumentNamespace: https://example.org/infer/spdx/%s-%s\n' "$(printf '%s' "$version" | tr '~' -)" "$(uname -m)"
	printf 'Creator: Tool: package.sh\nCreated: %s\n' "$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
	spdx_package infer infer "$version" Apache-2.0
	: >"$work/relationships"
	for f in "$1"/lib/infer/*.so* libprotobuf-c.a libyaml.a libz.a; do
		file=${f##*/} id=$(printf '%s' "${f##*/}" | tr -c 'A-Za-z0-9.' -)
		path=$(ldconfig -p | awk -v f="$file" '$1 == f { print $NF; exit }')
		[ -n "$path" ] || path=$(gcc -print-file-name="$file")
		# dpkg knows a library by the path in its package: /lib may be a link to /usr/lib
		package=$(dpkg-query -S "$path" "$(readlink -f "$path")" "${path#/usr}" 2>/dev/null | sed -n '1s/:.*//p') || true
		if [ "$file" = libdnnl.so.3 ] && [ -f "$DEPS/onednn/.pin" ]; then
			package='' source=onednn number=$(awk '{ print $2; exit }' "$DEPS/onednn/.pin")
		elif [ -n "$package" ]; then
			source=$(dpkg-query -W -f '${source:Package}\n' "$package" | head -n 1)
			number=$(dpkg-query -W -f '${source:Version}\n' "$package" | head -n 1)
		else
			die "no package owns $path, so that its licence is unknown"
		fi
		spdx_package "$file" "$id" "$number" "$(license_of "$source")"
		printf 'PackageSourceInfo: <text>built from %s %s</text>\n' "$source" "$number"
		if [ -n "$package" ]; then
			printf 'ExternalRef: PACKAGE-MANAGER purl pkg:deb/debian/%s@%s?arch=source\n' "$source" "$(printf '%s' "$number" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g')"
		fi
		case $file in
		*.a) echo "Relationship: SPDXRef-infer STATIC_LINK SPDXRef-$id" >>"$work/relationships" ;;
		esac
		echo "Relationship: SPDXRef-infer CONTAINS SPDXRef-$id" >>"$work/relationships"
		[ ! -r "/usr/share/doc/$package/copyright" ] || cp "/usr/share/doc/$package/copyright" "$1/share/doc/infer/copyright.$package"
	done
	printf '\nRelationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-infer\n'
	cat "$work/relationships"
}

newest() { # SET LIMIT: no symbol of $work/symbols is newer than the limit
	new=$(grep -oE "\\b$1_[0-9.]+[0-9]" "$work/symbols" | sed 's/.*_//' | sort -Vu | tail -n 1)
	[ -n "$new" ] || return 0
	say "the newest symbols of $1 are of $new"
	[ "$(printf '%s\n' "$new" "$2" | sort -V | tail -n 1)" = "$2" ] || die "a symbol is newer than $1 $2"
}

release() {
	command -v patchelf >/dev/null || die 'patchelf is missing; apt-get install patchelf'
	tree=$work/infer-$version-linux-$(uname -m)
	mkdir "$tree"
	build_and_install "$tree" '' release STATIC=1 "$@"
	libs=$tree/lib/infer
	mkdir -p "$libs"
	# Not libtiff: Debian's needs libjbig, whose licence is the GPL.
	for so in libpng16.so.16 libjpeg.so.62 libwebp.so.7 libopenjp2.so.7; do
		path=$(ldconfig -p | awk -v so="$so" '$1 == so { print $NF; exit }')
		[ -n "$path" ] || die "$so is missing"
		cp -L "$path" "$libs"
	done
	bundle "$libs"
	for f in "$libs"/*.so*; do
		chmod u+w "$f"
		# shellcheck disable=SC2016 # the linker expands it
		patchelf --set-rpath '$ORIGIN' "$f"
	done
	objdump -T "$tree/bin/infer" "$libs"/*.so* >"$work/symbols"
	# what Ubuntu 22.04 and RHEL 9 have, of glibc 2.34 and gcc 11
	newest GLIBC 2.34
	newest GLIBCXX 3.4.29
	newest CXXABI 1.3.13
	newest GCC 7.0.0
	cp CHANGELOG.md "$tree/share/doc/infer"
	spdx "$tree" >"$work/spdx"
	cp "$work/spdx" "$out/infer-$version.spdx"
	cp "$work/spdx" "$tree/share/doc/infer/infer.spdx"
	pack "$tree" "$out/${tree##*/}.tar.gz"
}

case ${1:?usage: tools/package.sh dist|deb|release} in
dist) dist ;;
deb)
	deb infer CUDA=no
	if [ -n "${HAVE_NVCC:-}" ]; then deb infer-cuda GPU_ARCHS="${GPU_ARCHS:-release}"; fi
	;;
release)
	dist
	release GPU_ARCHS="${GPU_ARCHS:-release}"
	;;
*) die "unknown: $1" ;;
esac
(cd "$out" && find . -maxdepth 1 -type f \( -name '*.deb' -o -name '*.tar.gz' -o -name '*.spdx' \) -printf '%P\0' | sort -z |
	xargs -0 sha256sum -- >"$work/sums" && mv "$work/sums" SHA256SUMS)
