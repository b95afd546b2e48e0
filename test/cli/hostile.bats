#!/usr/bin/env bats
# Models that are damaged, contradict themselves or mean harm: each ends with exit 3 and says why.

setup_file() {
	export MODELS=$BATS_FILE_TMPDIR/m
	mkdir "$MODELS"
	"${CC:-cc}" -o "$BATS_FILE_TMPDIR/models" "$BATS_TEST_DIRNAME/../tools/models.c"
	"$BATS_FILE_TMPDIR/models" "$MODELS"
	"$BATS_FILE_TMPDIR/models" --list >"$BATS_FILE_TMPDIR/list"
}

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$MODELS" || return 1
}

# Each bad model, with the command: exit 3, the finding's id and the file's name, nothing on stdout. Of a model whose external
# data cannot be read, inspect shows the rest.
refuses() {
	local name code bad=0 out rc
	while read -r name code; do
		[ "$code" != - ] || continue
		rc=0
		out=$("$INFER" "$@" "$name.onnx" 2>err </dev/null) || rc=$?
		if [ "$1" = inspect ] && [ "$code" = WEIGHT_EXTERNAL ]; then out=; fi
		if [ "$rc" != 3 ] || [ -n "$out" ] || ! grep -q "^error\[E-${code//_/-}\]: .*$name.onnx" err; then
			echo "$name: exit $rc, want 3 and E-${code//_/-}:"
			head -n 3 err
			bad=1
		fi
	done <"$BATS_FILE_TMPDIR/list"
	return $bad
}

@test "inspect refuses every invalid model" {
	refuses inspect
}

@test "run refuses every invalid model" {
	refuses run --random 0..1
}

@test "Unusual but valid models run" {
	for name in good initializer ir3 unsorted split unknown_fields chain external external_whole; do
		"$INFER" run "$name.onnx" --random 0..1
	done
}

@test "One message lists all unsupported operators with their nodes" {
	run "$INFER" run unsupported.onnx --random 0..1
	[ "$status" -eq 3 ]
	[[ "$output" == *"error[E-OP-UNSUPPORTED]"*"my::Nobody-3"*"2 nodes: 'Nobody_0'"*"Nowhere-17"* ]]
	[ "$(grep -c 'error\[' <<<"$output")" -eq 1 ]
}

@test "A file of another format is identified" {
	run "$INFER" inspect lfs.onnx
	[ "$status" -eq 3 ]
	[[ "$output" == *"Git LFS"* ]]
}

@test "External data outside the folder is read only if --external-root allows it" {
	run "$INFER" run external_link.onnx --random 0..1
	[ "$status" -eq 3 ]
	"$INFER" run external_link.onnx --random 0..1 --external-root ..
}

@test "External data is found beside the target of a symbolic link, as in Hugging Face's cache" {
	mkdir -p "$BATS_TEST_TMPDIR/snapshot"
	ln -s "$MODELS/external.onnx" "$BATS_TEST_TMPDIR/snapshot/model.onnx"
	"$INFER" run "$BATS_TEST_TMPDIR/snapshot/model.onnx" --random 0..1
}

@test "A model can be read from a pipe" {
	# shellcheck disable=SC2002 # a pipe, not a file
	cat initializer.onnx | "$INFER" inspect -
}
