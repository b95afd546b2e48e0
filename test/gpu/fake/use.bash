# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The stand-ins of this folder for tests of the command line (. test/gpu/fake/use.bash): in setup_file fake_build, in
# teardown_file fake_drop; in setup, or in the tests that want them, fake_use.

# fake_build [NAME...]: the driver, and of cupti and nvml what is named, into $FAKE. With refuse each call of the driver
# can be made to fail (refuse.c).
fake_build() {
	local here=test/gpu/fake cc=${CC:-gcc}
	FAKE=$(mktemp -d)
	export FAKE
	case " $* " in
	*" refuse "*) sh "$here/make.sh" "$FAKE" ;;
	*) "$cc" -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$FAKE/libcuda.so.1" "$here/cuda.c" ;;
	esac
	case " $* " in *" cupti "*) "$cc" -shared -fPIC -w -I. -o "$FAKE/libcupti.so.13" "$here/cupti.c" ;; esac
	case " $* " in *" nvml "*) "$cc" -shared -fPIC -w -o "$FAKE/libnvidia-ml.so.1" "$here/nvml.c" ;; esac
	# what a lost context held is the driver's, not ours to free; where the real cuBLASLt is there it fails on a
	# stand-in's device, which is lost then, and its handle stays
	printf 'leak:%s\n' libcuda.so.1 libcupti.so.13 libcublasLt.so >"$FAKE/lsan"
	export LSAN_OPTIONS=suppressions=$FAKE/lsan:print_suppressions=0
}

# infer finds them, and notes what the driver is asked for in $T/log; skipped where it has no CUDA backend.
fake_use() {
	export INFER_LIBRARY_PATH=$FAKE
	if "$INFER" doctor | grep -q 'built without CUDA'; then skip "built without CUDA"; fi
	export FAKE_CUDA_LOG=$T/log
}

fake_drop() {
	rm -rf "$FAKE"
}
