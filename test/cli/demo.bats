#!/usr/bin/env bats
# What the README promises first: the text of a picture.

@test "make demo prints the text that its picture shows" {
	[ -e build/deps/models ] || skip "make deps fetches the model"
	out=$(make -s --no-print-directory demo 2>/dev/null)
	[ "$out" = "Hot chocolate" ]
}
