# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2154
# Completion of infer for bash. Written by `infer __gen bash'.

_infer_commands() {
	echo 'run inspect doctor completion'
}

_infer_command() { # COMMAND: sets options and the kind of its operand
	case $1 in
	run)
		options='--input --data-set --random --seed --shape --dim --strict --save --save-format --print --top --decode --labels --device --precision --threads --optimize --memory-plan --memory-limit --external-root --json --config --timeout --color --verbose --quiet --help --version'
		operand='file'
		;;
	inspect)
		options=' --shape --dim --nodes --weights --cost --memory --stage --ops --dot --optimize --memory-plan --memory-limit --external-root --json --config --timeout --color --verbose --quiet --help --version'
		operand='file'
		;;
	doctor)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='none'
		;;
	completion)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='=bash zsh fish'
		;;
	*) return 1 ;;
	esac
}

_infer_option() { # COMMAND OPTION: sets the kind of its value; false where it takes none
	case $1:$2 in
	run:--input) kind='input' ;;
	run:--data-set) kind='dir' ;;
	run:--random) kind='name' ;;
	run:--seed) kind='none' ;;
	run:--shape) kind='name' ;;
	run:--dim) kind='dim' ;;
	run:--save | run:-o) kind='dir' ;;
	run:--save-format) kind='=npy npz pb bin json png' ;;
	run:--print) kind='none?' ;;
	run:--top) kind='none' ;;
	run:--decode) kind='=ctc' ;;
	run:--labels) kind='file' ;;
	run:--device | run:-d) kind='=auto cpu cuda' ;;
	run:--precision) kind='=fp32' ;;
	run:--threads | run:-t) kind='none' ;;
	run:--optimize) kind='=none basic full' ;;
	run:--memory-plan) kind='=on off' ;;
	run:--memory-limit) kind='none' ;;
	run:--external-root) kind='dir' ;;
	run:--config) kind='file' ;;
	run:--timeout) kind='none' ;;
	run:--color) kind='=auto always never' ;;
	inspect:--shape) kind='name' ;;
	inspect:--dim) kind='dim' ;;
	inspect:--stage) kind='=file graph opt plan' ;;
	inspect:--optimize) kind='=none basic full' ;;
	inspect:--memory-plan) kind='=on off' ;;
	inspect:--memory-limit) kind='none' ;;
	inspect:--external-root) kind='dir' ;;
	inspect:--config) kind='file' ;;
	inspect:--timeout) kind='none' ;;
	inspect:--color) kind='=auto always never' ;;
	doctor:--config) kind='file' ;;
	doctor:--timeout) kind='none' ;;
	doctor:--color) kind='=auto always never' ;;
	completion:--config) kind='file' ;;
	completion:--timeout) kind='none' ;;
	completion:--color) kind='=auto always never' ;;
	*) return 1 ;;
	esac
}

# Candidates are compared with the word as it is typed and as it would be quoted, and are never
# evaluated: names come from a model that nobody vouches for.
_infer_add() { # CANDIDATE [SUFFIX]
	local quoted
	printf -v quoted %q "$1"
	if [[ $1 == "$value"* || $quoted == "$value"* ]]; then
		quoted=$lead$quoted${2-}
		COMPREPLY+=("${quoted#"$strip"}")
	fi
}

_infer_words() { # WORD...
	local word
	for word; do _infer_add "$word"; done
}

_infer_files() { # -f | -d
	local file
	while IFS= read -r file; do
		file=$lead$file
		COMPREPLY+=("${file#"$strip"}")
	done < <(compgen "$1" -- "${value//\\/}")
	compopt -o filenames 2>/dev/null
}

# The first word after the subcommand that is a file.
_infer_model() {
	local word
	for word in "${words[@]:1:${#words[@]}-2}"; do
		word=${word//\\/}
		word=${word/#\~\//$HOME/}
		[[ $word != -* && -f $word ]] && printf %s "$word" && return
	done
}

_infer_names() { # inputs | dims: names of the model on the line, with =
	local model name
	model=$(_infer_model)
	[[ $model ]] || return
	while IFS= read -r -d '' name; do
		_infer_add "$name" =
	done < <("$program" __complete -0 "$1" "$model" 2>/dev/null)
	compopt -o nospace 2>/dev/null
}

# Files in the middle of a word: quoted here, since names may stand beside them.
_infer_quoted_files() {
	local file
	while IFS= read -r file; do
		if [[ -d $file ]]; then _infer_add "$file" /; else _infer_add "$file"; fi
	done < <(compgen -f -- "${value//\\/}")
	compopt -o nospace 2>/dev/null
}

_infer_value() { # KIND
	local IFS=$' \t\n'
	case $1 in
	file) _infer_files -f ;;
	dir) _infer_files -d ;;
	dim) _infer_names dims ;;
	name) _infer_names inputs ;;
	input)
		if [[ $value == *=* ]]; then
			lead+=${value%%=*}=
			value=${value#*=}
		else
			_infer_names inputs
		fi
		_infer_quoted_files
		;;
	=*) _infer_words ${1#=} ;;
	esac
}

_infer() {
	local program=${1:-${COMP_WORDS[0]}} words=() piece i cur=${COMP_WORDS[COMP_CWORD]}
	local word prev strip lead='' value opt options kind operand command
	COMPREPLY=()
	program=${program/#\~\//$HOME/}
	# bash parts words at = and :, which here belong to them
	for ((i = 1; i <= COMP_CWORD; i++)); do
		piece=${COMP_WORDS[i]}
		if ((${#words[@]})) && [[ $piece == [=:]* || ${words[-1]} == ?*[=:] ]]; then
			words[-1]+=$piece
		else
			words+=("$piece")
		fi
	done
	word=${words[-1]}
	value=$word
	strip=${word%"$cur"}
	[[ $cur == *[!=:]* || -z $cur ]] || strip=$word
	if ((${#words[@]} < 2)); then
		_infer_words $(_infer_commands) --help --version
		return
	fi
	command=${words[0]} prev=${words[-2]}
	_infer_command "$command" || return 0
	if [[ $word == --*=* ]]; then
		opt=${word%%=*} value=${word#*=} lead=${word%%=*}=
		_infer_option "$command" "$opt" && _infer_value "$kind"
	elif ((${#words[@]} > 2)) && _infer_option "$command" "$prev" && [[ $kind != none\? ]]; then
		_infer_value "$kind"
	elif [[ $word == -* ]]; then
		_infer_words $options
	else
		_infer_value "$operand"
	fi
	return 0
}

complete -F _infer infer
