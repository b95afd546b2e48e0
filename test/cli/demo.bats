#!/usr/bin/env bats
# What the README promises first: the text of a picture.

# With the program that is tested: nothing is built here, and the build folder's notes stay as they are.
@test "make demo prints the text in its picture" {
	: "${INFER:=$PWD/build/bin/infer}" "${DEPS:=build/deps}"
	[ -e "$DEPS/models" ] || skip "make deps fetches the model"
	out=$(make -s --no-print-directory -o all demo \
		BUILD="$BATS_TEST_TMPDIR" DEPS="$DEPS" INFER="$INFER" 2>"$BATS_TEST_TMPDIR/err") || {
		cat "$BATS_TEST_TMPDIR/err"
		return 1
	}
	[ "$out" = "Hot chocolate" ]
}
