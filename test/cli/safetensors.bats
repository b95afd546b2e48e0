#!/usr/bin/env bats
# .safetensors files: as inputs, as outputs, in inspect, and as external data.

setup() {
	: "${INFER:=$BATS_TEST_DIRNAME/../../build/bin/infer}"
	cd "$BATS_TEST_DIRNAME/../data/run" || return 1
	bats_require_minimum_version 1.5.0
	dir=$BATS_TEST_TMPDIR
}

# A file with this header, and this text as its tensors' bytes.
safetensors() { # FILE HEADER BYTES
	local n=${#2}

	{
		printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\0\0\0\0\0\0%s" "$2"
		printf "$3"
	} >"$1"
}

@test "Outputs in one .safetensors file are inputs of the same names" {
	"$INFER" run two.onnx --data-set set -q -o "$dir/npy"
	"$INFER" run two.onnx --data-set set -q -o "$dir/out.safetensors"
	"$INFER" run two.onnx --data-set set -q -o "$dir/out" --save-format safetensors
	cmp "$dir/out.safetensors" "$dir/out/outputs.safetensors"
	run -4 "$INFER" run two.onnx --input "$dir/out.safetensors"
	[[ $output = *"the model has no input 'diff'"* ]]
	run -0 "$INFER" inspect "$dir/out.safetensors"
	[[ $output = *"sum  f32 "* ]]
}

@test "A picture's floats come back from a .safetensors file, by name or as the only tensor" {
	"$INFER" run pic.onnx --input rgb.png -q -o "$dir/y.safetensors"
	for input in "images=$dir/y.safetensors" "$dir/y.safetensors" "images=$dir/y.safetensors:y" "$dir/y.safetensors:y"; do
		"$INFER" run pic.onnx --input "$input" -q -o "$dir/again" --save-format bin
		cmp "$dir/again/y.bin" rgb.f32
	done
	run -4 "$INFER" run pic.onnx --input "images=$dir/y.safetensors:z"
	[[ $output = *"has no tensor 'z'"*"its tensors are 'y'"* ]]
}

@test "inspect tells each tensor's type, shape and statistics" {
	safetensors "$dir/t.safetensors" '{"__metadata__":{"format":"pt"},"b":{"dtype":"I8","shape":[3],"data_offsets":[4,7]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"six":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[7,10]}}' \
		'\0\0\200\77\1\2\377\1\362\201'
	run -0 "$INFER" inspect "$dir/t.safetensors"
	[ "${lines[0]}" = "a  f32 []  1 elements, 4 B" ]
	[[ ${lines[1]} = "  min 1, max 1, "* ]]
	[ "${lines[2]}" = "b  i8 [3]  3 elements, 3 B" ]
	[[ ${lines[3]} = "  min -1, max 2, "* ]]
	[ "${lines[4]}" = "six  f6e2m3 [4]  4 elements, 3 B" ]
	[[ ${lines[5]} = "  min -0, max 7.5, "* || ${lines[5]} = "  min 0, max 7.5, "* ]]
}

@test "A header that does not describe the file is refused, with the tensor and the reason" {
	bad() { # HEADER BYTES WHY
		safetensors "$dir/bad.safetensors" "$1" "$2"
		run -4 "$INFER" inspect "$dir/bad.safetensors"
		[[ $output = *"E-INPUT-FORMAT"*"$3"* ]] || { echo "$1: $output" && return 1; }
	}
	bad '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}' 123 \
		"tensor 'b': bytes that belong to another tensor"
	bad '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}' 123 \
		"tensor 'b': a gap"
	bad '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' 123 "belong to no tensor"
	bad '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' 123 "beyond the end"
	bad '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,3]}}' 123 "differ from the bytes"
	bad '{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,3]}}' 123 "a shape that overflows"
	bad '{"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,3]}}' 123 "more than 63 bits"
	bad '{"a":{"dtype":"F6_E2M3","shape":[3],"data_offsets":[0,3]}}' 123 "end within a byte"
	bad '{"a":{"dtype":"Q3","shape":[3],"data_offsets":[0,3]}}' 123 "unknown dtype"
	bad '{"a":{"dtype":"U8","data_offsets":[0,3]}}' 123 "without dtype, shape or data_offsets"
	bad '{"a":{"dtype":"U8","shape":[3],"data_offsets":[3,0]}}' 123 "not a begin and an end"
	bad '{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}' 123 "there twice"
	bad ' {}' '' "does not begin with {"
	bad '[]' '' "does not begin with {"
	bad '{} {}' '' "behind the header"
	printf '\377\377\377\377\377\377\377\177{}' >"$dir/bad.safetensors"
	run -4 "$INFER" inspect "$dir/bad.safetensors"
	[[ $output = *"a header of at most 2 bytes"* ]]
}

# Converts y = x * w, where w is an initializer of SIZE floats at OFFSET of w.safetensors, which becomes a part of the model.
model() { # OFFSET SIZE
	cat >"$dir/text.onnxtxt" <<-END
		<ir_version: 10, opset_import: ["" : 21]>
		g (float[1] x) => (float[$2] y) <
		  float[$2] w = ["location": "w.safetensors", "offset": "$1", "length": "$(($2 * 4))"]> {
		  y = Mul (x, w)
		}
	END
	run -0 "$INFER" convert "$dir/text.onnxtxt" "$dir/m.onnx"
}

@test "External data may lie in a .safetensors file; what it says of other tensors is a warning" {
	local head='{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}'
	local at=$((8 + ${#head}))

	safetensors "$dir/w.safetensors" "$head" '\0\0\300\177\0\0\200\77\0\0\0\100'
	model $((at + 4)) 2
	[ -z "$output" ]
	run -0 "$INFER" run "$dir/m.onnx" --input x=2 -q --print
	[ "$output" = $'y f32 [2]\n2 4' ]
	model "$at" 1
	[ -z "$output" ]
	model $((at + 8)) 1
	[[ $output = *"W-WEIGHT-EXTERNAL"*"'w' is not what w.safetensors says"*"byte 4 of its tensor 'w'"* ]]
	run -0 "$INFER" run "$dir/m.onnx" --input x=2 -q --print
	[ "$output" = $'y f32 [1]\n4' ]
	model $((at + 4)) 1
	[[ $output = *"expected f32 [1] at offset $((at + 4)), got its tensor 'w', f32 [2]"* ]]
	model 8 1
	[[ $output = *"got the file's header"* ]]
	printf '\0\0\0\0\0\0\0\0\0\0\200\77' >"$dir/w.safetensors"
	model 8 1
	[[ $output = *"is no valid .safetensors file; its bytes are taken as the model says"* ]]
}

@test "What a .safetensors file cannot hold is refused, or written as a wider type with a note" {
	cat >"$dir/text.onnxtxt" <<-'END'
		<ir_version: 13, opset_import: ["" : 28]>
		g (float[n] x) => (float6e3m2[n] y, uint4[n] u) {
		  y = Cast <to = 28> (x)
		  u = Cast <to = 21> (x)
		}
	END
	"$INFER" convert "$dir/text.onnxtxt" "$dir/m.onnx"
	run -0 "$INFER" run "$dir/m.onnx" --input 'x=[1,5.1,40,-3]' -o "$dir/o.safetensors"
	[[ $output = *"does not hold 'u' as u4: it is written as u8"* ]]
	[[ $output != *"'y' as"* ]]
	run -0 "$INFER" inspect "$dir/o.safetensors"
	[[ $output = *"y  f6e3m2 [4]  4 elements, 3 B"$'\n'"  min -3, max 28,"* ]]
	run -0 "$INFER" run "$dir/m.onnx" --input 'x=[1,5.1]' -o "$dir/o.safetensors"
	[[ $output = *"does not hold 'y' as f6e3m2: it is written as f32"* ]]
}
