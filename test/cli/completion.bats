#!/usr/bin/env bats
# The completion scripts complete, and never run what a model's names say.

setup() {
	: "${INFER:=$PWD/build/bin/infer}"
	T=$(mktemp -d)
	mkdir "$T/bin" "$T/w" "$T/w/out"
	ln -s "$INFER" "$T/bin/infer"
	cd "$T/w"
	# inputs images [batch,3], "my input" [seq len], w (an initializer), "$(touch pwned)" [2]
	base64 -d >model.onnx <<-'END'
		CAg66QEKGQoGaW1hZ2VzEgF5GgJuMSIISWRlbnRpdHkKGwoIbXkgaW5wdXQSAXoaAm4yIghJZGVudGl0eRIBZyoNCAEQASIEAACA
		P0IBd1odCgZpbWFnZXMSEwoRCAESDQoHEgViYXRjaAoCCANaHQoIbXkgaW5wdXQSEQoPCAESCwoJEgdzZXEgbGVuWg8KAXcSCgoI
		CAESBAoCCAFaHAoOJCh0b3VjaCBwd25lZCkSCgoICAESBAoCCAJiGAoBeRITChEIARINCgcSBWJhdGNoCgIIA2IWCgF6EhEKDwgB
		EgsKCRIHc2VxIGxlbkIECgAQEQ==
	END
	touch 'a b.png'
}

teardown() {
	cd /
	rm -rf "$T"
}

# What bash completes, one a line, for the words it would make of the line: the last one is the current.
bash_completes() {
	PATH=$T/bin:$PATH bash -c '
		source <(infer completion bash)
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_infer "$1"
		((${#COMPREPLY[@]} == 0)) || printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

same() { # EXPECTED GOT
	[ "$1" = "$2" ] || {
		printf 'expected: %q\ngot:      %q\n' "$1" "$2"
		false
	}
}

@test "infer completion prints the scripts that make gen writes" {
	for shell in bash zsh fish; do
		same "$("$INFER" __gen $shell)" "$("$INFER" completion $shell)"
	done
}

@test "__complete prints the names of inputs and dimensions" {
	same $'images\nmy input\n$(touch pwned)' "$("$INFER" __complete inputs model.onnx)"
	same $'batch\nseq len' "$("$INFER" __complete dims model.onnx)"
	same 3 "$("$INFER" __complete -0 inputs model.onnx | tr -dc '\0' | wc -c)"
}

@test "bash completes subcommands, options and values" {
	same $'run' "$(bash_completes infer r)"
	same $'inspect' "$(bash_completes infer i)"
	same $'--save\n--save-format' "$(bash_completes infer run --sa)"
	same $'npy\nnpz' "$(bash_completes infer run m --save-format n)"
	same $'npy\nnpz' "$(bash_completes infer run m --save-format = n)"
	same $'bash\nzsh\nfish' "$(bash_completes infer completion '')"
	same $'out' "$(bash_completes infer run -o '')"
	same '' "$(bash_completes infer bogus '')"
	same $'run' "$(bash_completes infer help r)"
	same '' "$(bash_completes infer help run '')"
	same '' "$(bash_completes infer run m --top '')"
}

@test "bash completes and quotes the names of inputs and dimensions" {
	same $'batch=\nseq\\ len=' "$(bash_completes infer run model.onnx --dim '')"
	same $'seq\\ len=' "$(bash_completes infer run model.onnx --dim 'seq\ l')"
	same $'images=' "$(bash_completes infer run model.onnx --shape im)"
	same '\$\(touch\ pwned\)=' "$(bash_completes infer run model.onnx --random '$')"
	same $'a\\ b.png' "$(bash_completes infer run model.onnx --input images = a)"
	same $'a\\ b.png' "$(bash_completes infer run model.onnx --input = images = a)"
	same '' "$(bash_completes infer run none.onnx --dim '')"
	[ ! -e pwned ]
}

@test "The bash script passes bash -n and completes twice in one shell" {
	"$INFER" completion bash >s
	bash -n s
	same $'run\nrun' "$(bash_completes infer r; bash_completes infer r)"
}

@test "The zsh script loads" {
	command -v zsh >/dev/null || skip "no zsh"
	"$INFER" completion zsh >_infer
	zsh -n _infer
	run zsh -f -c 'autoload -U compinit; compinit -u -D; source ./_infer; print ${_comps[infer]}'
	same _infer "$output"
	run zsh -f -c 'fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; print ${_comps[infer]}'
	same _infer "$output"
}

# What zsh makes of the line when Tab is pressed in its line editor; waits until the result holds TEXT, for 20 s at most.
zsh_completes() { # LINE TEXT
	T=$T zsh -f -c '
		zmodload zsh/zpty
		zpty z zsh -f -i
		zpty -w z "PS1=; path=($T/bin \$path); autoload -U compinit; compinit -u -D; source ./_infer; print rea\dy"
		for ((i = 0; i < 200; i++)); do zpty -r -t z part && all+=$part; [[ $all == *ready* ]] && break; sleep 0.1; done
		all=
		setopt extendedglob
		zpty -w -n z "$1"$'\''\t'\''
		for ((i = 0; i < 200; i++)); do
			zpty -r -t z part && all+=$part
			[[ ${all//$'\''\e'\''\[[0-9;]#[A-Za-z]/} == *"$2"* ]] && break
			sleep 0.1
		done
		zpty -d z
		print -r -- "$all"' zsh "$1" "$2" | tr -d '\r' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g'
}

@test "zsh completes options, names in the model and files" {
	command -v zsh >/dev/null || skip "no zsh"
	zsh -f -c 'zmodload zsh/zpty' 2>/dev/null || skip "zsh has no zpty"
	"$INFER" completion zsh >_infer
	touch suite.yaml suite.txt
	while IFS='|' read -r line want; do
		[[ $(zsh_completes "$line" "$want") == *"$want"* ]]
	done <<-'END'
		infer run model.onnx --save-f|--save-format
		infer run model.onnx --save-format np|npy
		infer run model.onnx --dim b|batch=
		infer run model.onnx --shape im|images=
		infer run model.onnx --random images=-|images=-1..1
		infer suite su|infer suite suite.yaml
		infer run mod|infer run model.onnx
		infer run model.onnx a|a\ b.png
	END
	[ ! -e pwned ]
}

@test "bash completes outputs, keys of metadata as labels, and suites" {
	touch suite.yaml suite.txt
	same $'y\nz' "$(bash_completes infer run model.onnx --output '')"
	same 'suite.yaml' "$(bash_completes infer suite su)"
	same '' "$("$INFER" __complete labels model.onnx)"
	"$INFER" inspect "$BATS_TEST_DIRNAME/../data/run/ctc.onnx" | sed -n 's/^metadata *\([^ ]*\) .*/meta:\1/p' >keys
	same "$(cat keys)" "$("$INFER" __complete labels "$BATS_TEST_DIRNAME/../data/run/ctc.onnx")"
	same $'--random' "$(bash_completes infer run model.onnx --rand)"
	same $'images=' "$(bash_completes infer run model.onnx --random im)"
	# names of inputs and common ranges first, because the range may be left out the files of operands as well
	[[ $(bash_completes infer run model.onnx --random '') == 'images='*$'\n0..1\n-1..1\n0..255'* ]]
	same $'0..1\n0..255' "$(bash_completes infer run model.onnx --random images = 0)"
}

@test "The fish script completes" {
	command -v fish >/dev/null || skip "no fish"
	fish_completes() {
		PATH=$T/bin:$PATH HOME=$T fish -N -c 'infer completion fish | source; complete -C $argv[1]' -- "$1" | cut -f 1
	}
	same $'--save\n--save-format' "$(fish_completes 'infer run --sa')"
	same $'npy\nnpz' "$(fish_completes 'infer run m --save-format n')"
	same run "$(fish_completes 'infer help r')"
	same $'y\nz' "$(fish_completes 'infer run model.onnx --output ')"
	touch suite.yaml
	same suite.yaml "$(fish_completes 'infer suite suite.y')"
	[[ $(fish_completes 'infer run model.onnx --random ') == *$'0..1\n'*'images='* ]]
	same $'batch=\nseq len=' "$(fish_completes 'infer run model.onnx --dim ')"
	same $'images=a b.png' "$(fish_completes 'infer run model.onnx --input images=a')"
	[ ! -e pwned ]
}

@test "A command that wants a model completes models and folders only; keys and values follow a file" {
	touch x.txt
	for command in run check profile; do
		same $'model.onnx\nout' "$(bash_completes infer $command '' | sort)"
	done
	same 'a b.png' "$(bash_completes infer run model.onnx a)"
	same $'scale=\nshape=\nsplit=\nstart=\nstd=' "$(bash_completes infer run model.onnx --input images=a.png,s | sed 's/.*,//' | sort)"
	same 16 "$(bash_completes infer run model.onnx --input a.png, | wc -l)"
	same $'nchw\nnhwc' "$(bash_completes infer run model.onnx --input a.png,scale=1/255,layout = n)"
	same $'bgr' "$(bash_completes infer run model.onnx --input a.png,order = b)"
}

@test "The manual finds each id that can be printed" {
	man=$BATS_TEST_DIRNAME/../../man/man1/infer.1
	for id in W-UNSTEADY N-MODEL-IDENTITY E-OPTION W-DIM-DEFAULT; do
		grep -q "${id//-/.*-}" "$man"
	done
}

@test "A user's file in XDG_CONFIG_HOME holds options; --config, the environment and the command line come before it" {
	mkdir -p "$T/x/infer" "$T/h/.config/infer"
	echo 'top: nonsense' >"$T/x/infer/config.yaml"
	XDG_CONFIG_HOME=$T/x run "$INFER" run model.onnx
	[ "$status" -eq 2 ] && [[ $output == *"$T/x/infer/config.yaml:1"* ]]
	XDG_CONFIG_HOME=$T/x INFER_CONFIG= run "$INFER" run model.onnx --random 0..1 --dim batch=1 --dim 'seq len=1'
	[ "$status" -eq 0 ]
	echo 'quiet: true' >"$T/h/.config/infer/config.yaml"
	env -u XDG_CONFIG_HOME HOME="$T/h" "$INFER" run model.onnx --random 0..1 --dim batch=1 --dim 'seq len=1' >out.txt 2>&1
	[ ! -s out.txt ]
}
