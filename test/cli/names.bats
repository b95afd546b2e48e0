#!/usr/bin/env bats
# ONNX's names are any text. Each name of an input, an output or a dimension can be given to every option that takes one, though they
# may hold dots, slashes, colons, commas, equals signs, spaces and stars; and each comes back from the files that hold it.
load helper

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# A model whose inputs NAME... are doubled to outputs of the same names with a ' behind.
doubles() { # FILE NAME...
	local file=$1 name ins="" outs="" nodes=""
	shift
	for name; do
		ins+="${ins:+, }float[2] \"$name\""
		outs+="${outs:+, }float[2] \"$name'\""
		nodes+=$'\n'"\"$name'\" = Add (\"$name\", \"$name\")"
	done
	printf '<ir_version: 8, opset_import: ["" : 17]> g (%s) => (%s) {%s }' "$ins" "$outs" "$nodes" >"$file"
}

# A decoder with odd names or plain ones: the next id is the last plus 3 modulo 8, and the state counts steps.
decoder() { # FILE IDS PAST LOGITS PRESENT
	cat >"$1" <<-END
		<ir_version: 8, opset_import: ["" : 17]>
		g (int64[1,n] "$2", float[1] "$3") => (float[1,n,8] "$4", float[1] "$5", float[1,n,8] twice) {
			three = Constant <value_int: int = 3> ()
			eight = Constant <value_int: int = 8> ()
			off_on = Constant <value_floats: floats = [0.0, 1.0]> ()
			one = Constant <value_floats: floats = [1.0]> ()
			sum = Add ("$2", three)
			id = Mod (sum, eight)
			"$4" = OneHot (id, eight, off_on)
			twice = Add ("$4", "$4")
			"$5" = Add ("$3", one)
		}
	END
}

prints() { # WANTED OPTION...
	local want=$1
	shift
	run --separate-stderr "$INFER" run "$@" --print -q
	[ "$status" -eq 0 ] || { echo "status $status: $stderr"; return 1; }
	[ "$output" = "$want" ] || { echo "$output"; return 1; }
}

names=(a.b a/b a:0 k=v c,d 'two words' 1 0 été '*' 'a*' '[x]' -o '{x}' .. a.npy x,dtype resize= '?')

@test "Every name of an input is told apart from files, keys and values" {
	local name tried=0
	doubles m.onnxtxt "${names[@]}"
	for name in "${names[@]}"; do
		prints "$name' f32 [2]"$'\n14 18' m.onnxtxt --random --input "$name=[7,9]" --output "$name'"
		prints "$name' f32 [2]"$'\n6 6' m.onnxtxt --random 0..1 --random="$name=3..3" --output "$name'"
		run -0 "$INFER" run m.onnxtxt --random --shape "$name=2"
		tried=$((tried + 1))
	done
	[ "$tried" -eq "${#names[@]}" ]
}

@test "Every name of an output is told apart from patterns and lists" {
	local name
	local outs="" nodes=""
	for name in "${names[@]}"; do
		outs+="${outs:+, }float[2] \"$name\""
		nodes+=" \"$name\" = Add (in, in)"
	done
	printf '<ir_version: 8, opset_import: ["" : 17]> g (float[2] in) => (%s) {%s }' "$outs" "$nodes" >o.onnxtxt
	for name in "${names[@]}"; do
		run -0 "$INFER" run o.onnxtxt --random --output "$name" --print -q
		[ "${output%%$'\n'*}" = "$name f32 [2]" ]
	done
}

@test "--output names the ids that --next makes, alone and beside others, and leaves what the steps need" {
	local steps=(--input 'ids=[[1,2]]' --feed present=past --next ids=argmax:logits --steps 3)
	decoder m.onnxtxt ids past logits present
	prints $'ids.next i64 [1,3]\n5 0 3' m.onnxtxt "${steps[@]}" --output ids.next
	prints $'twice f32 [1,1,8]\n0 0 0 2 0 0 0 0\nids.next i64 [1,3]\n5 0 3' m.onnxtxt "${steps[@]}" --output twice,ids.next
	prints $'present f32 [1]\n3' m.onnxtxt "${steps[@]}" --output present
	prints $'ids.next i64 [1,3]\n5 0 3' m.onnxtxt "${steps[@]}" --output 'ids*'
	prints $'logits f32 [1,1,8]\n0 0 0 1 0 0 0 0' m.onnxtxt "${steps[@]}" --output logits
	fails_with 2 "did you mean 'ids.next'" run m.onnxtxt "${steps[@]}" --output idsnext
	fails_with 4 "did you mean 'logits'" run m.onnxtxt --input 'ids=[[1,2]]' --feed present=past --next ids=argmax:logit --steps 3 --output ids.next
	fails_with 2 "no output, tensor or node of this name" run m.onnxtxt --input 'ids=[[1,2]]' --output ids.next
	run -0 "$INFER" run m.onnxtxt "${steps[@]}" --output ids.next -q -o out
	[ "$(ls out)" = ids.next.npy ]
}

@test "The options of steps find names with equals signs, commas, dots and stars" {
	decoder m.onnxtxt i=d,s pa=st lo=g,its:x 'pre=s*nt'
	prints $'pre=s*nt f32 [3,1]\n1\n2\n3\ni=d,s.next i64 [1,3]\n5 0 3' m.onnxtxt --input 'i=d,s=[[1,2]]' --feed 'pre=s*nt=pa=st' \
		--next 'i=d,s=sample:lo=g,its:x,top=1' --steps 3 --by-step 'pre=s*nt=stack' --output 'i=d,s.next' --output 'pre=s*nt'
	prints $'lo=g,its:x f32 [2,1,1,8]\n0 0 0 0 1 0 0 0\n0 0 0 0 0 1 0 0' m.onnxtxt --input 'i=d,s=[[1,2]]' --slice i=d,s.n=1 \
		--feed 'pre=s*nt=pa=st' --output lo=g,its:x
	prints $'lo=g,its:x f32 [1,1,2,8]\n0 0 0 0 1 0 0 0\n0 0 0 0 0 1 0 0\npre=s*nt f32 [1,1]\n1' m.onnxtxt --input 'i=d,s=[[1,2]]' --slice i=d,s=2 --derive pa=st=past --output lo=g,its:x --output 'pre=s*nt'
	fails_with 4 "none of the outputs of --output needs input 'i=d,s'" run m.onnxtxt --input 'i=d,s=[[1,2]]' --slice i=d,s=2 \
		--feed 'pre=s*nt=pa=st' --output 'pre=s*nt'
}

@test "Numbers as names, and members of archives: by name if one is an input's, by position otherwise" {
	doubles m.onnxtxt 1 0
	run -0 "$INFER" run m.onnxtxt --input '1=[1,2]' --input '0=[3,4]' -q -o out.npz
	doubles again.onnxtxt "1'" "0'"
	prints $'1\'\' f32 [2]\n4 8\n0\'\' f32 [2]\n12 16' again.onnxtxt --input out.npz
	run -0 "$INFER" inspect out.npz
	[[ $output = *"1'"*"0'"* ]]
	# arr_0 is the first input, unless inputs have such names
	printf '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] arr_0, float[2] arr_1) { arr_0 = Neg (x) arr_1 = Add (x, x) }' >arr.onnxtxt
	run -0 "$INFER" run arr.onnxtxt --input '[1,2]' -q -o arr.npz
	prints $'1\' f32 [2]\n-2 -4\n0\' f32 [2]\n4 8' m.onnxtxt --input arr.npz
	doubles turned.onnxtxt arr_1 arr_0
	prints $'arr_1\' f32 [2]\n4 8\narr_0\' f32 [2]\n-2 -4' turned.onnxtxt --input arr.npz
	doubles mixed.onnxtxt arr_1 x
	fails_with 4 "the model has no input 'arr_0'" run mixed.onnxtxt --input arr.npz
}

@test "-o FILE.npz writes one archive, or says that another format was asked for" {
	doubles m.onnxtxt a/b a_b
	run -0 "$INFER" run m.onnxtxt --random -q -o y.npz --save-format npz
	run -0 "$INFER" run m.onnxtxt --random -q -o y.npz
	[ -f y.npz ]
	run -0 "$INFER" check m.onnxtxt --random --expect "a/b'=y.npz" --expect "a_b'=y.npz"
	fails_with 2 "-o z --save-format npz" run m.onnxtxt --random -q -o z.npz --save-format json
	mkdir z.npz && run -0 "$INFER" run m.onnxtxt --random -q -o z.npz
	[ "$(ls z.npz | wc -l)" -eq 2 ]
}
