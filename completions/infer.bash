# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2154
# Completion of infer for bash. Written by `infer __gen bash'.

_infer_commands() {
	echo 'run inspect profile check suite extract simplify diff convert merge doctor selftest cache completion'
}

_infer_command() { # COMMAND: sets options and the kind of its operand
	case $1 in
	run)
		options='--input --data-set --batch --keep-going --resume --shard --random --seed --shape --dim --strict --feed --slice --steps --next --derive --until --by-step --output --save --jsonl --report --save-format --print --top --decode --score --fail-below --labels --device --precision --sync --no-blame --context --cuda-graph --tune --cache --threads --optimize --memory-plan --arena --memory-limit --external-root --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	inspect)
		options=' --shape --dim --nodes --weights --cost --memory --stage --passes --explain --dot --html --optimize --memory-plan --memory-limit --external-root --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='file'
		;;
	profile)
		options='--input --data-set --batch --random --seed --shape --dim --strict --shapes-sweep --feed --next --derive --output --top --decode --nodes --iterations --duration --warmup --percentile --prefill --transfers --sort --sessions --streams --compare-device --html --trace --export --save-baseline --baseline --fail-above --fail-above-memory --fail-above-energy --fail-unknown --force --device --precision --sync --no-blame --context --cuda-graph --tune --cache --threads --optimize --memory-plan --arena --memory-limit --external-root --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	check)
		options='--input --data-set --batch --random --seed --shape --dim --strict --shapes-sweep --feed --steps --next --derive --output --save --all --expect --rtol --atol --metric --compare --every-tensor --sensitivity --undo --exclude-list --nan --zero --layout --determinism --leak --runs --recreate --contexts --bisect --pid --interval --report-api-errors --heap --error-exitcode --suppressions --write-suppressions --duration --html --export --device --precision --sync --no-blame --context --cuda-graph --tune --cache --threads --optimize --memory-plan --arena --memory-limit --external-root --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	suite)
		options=' --export --update-baselines --json --config --timeout --color --verbose --quiet --help --version'
		operand='suite'
		;;
	extract)
		options=' --from --to --save --external --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	simplify)
		options=' --shape --dim --save --external --strip-weights --external-root --ops --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	diff)
		options=' --ignore --exact --simplify --html --external-root --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	convert)
		options=' --save --external --form --json --config --timeout --color --verbose --quiet --help --version'
		operand='model'
		;;
	merge)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='file'
		;;
	doctor)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='none'
		;;
	selftest)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='none'
		;;
	cache)
		options=' --cache --json --config --timeout --color --verbose --quiet --help --version'
		operand='=ls clear'
		;;
	completion)
		options=' --json --config --timeout --color --verbose --quiet --help --version'
		operand='=bash zsh fish'
		;;
	*) return 1 ;;
	esac
}

_infer_option() { # COMMAND OPTION: sets the kind of its value; false if the option takes no value
	case $1:$2 in
	run:--input) kind='input' ;;
	run:--data-set) kind='dir' ;;
	run:--batch) kind='none' ;;
	run:--shard) kind='none' ;;
	run:--random) kind='range?' ;;
	run:--seed) kind='none' ;;
	run:--shape) kind='name' ;;
	run:--dim) kind='dim' ;;
	run:--feed) kind='name' ;;
	run:--slice) kind='name' ;;
	run:--steps) kind='none' ;;
	run:--next) kind='name' ;;
	run:--derive) kind='name' ;;
	run:--until) kind='none' ;;
	run:--by-step) kind='name' ;;
	run:--output) kind='output' ;;
	run:--save | run:-o) kind='dir' ;;
	run:--jsonl) kind='file' ;;
	run:--report) kind='file' ;;
	run:--save-format) kind='=npy npz pb bin json png safetensors' ;;
	run:--print) kind='none?' ;;
	run:--top) kind='none' ;;
	run:--decode) kind='=ctc yolo ssd detr' ;;
	run:--score) kind='=top1= top5= exact= wer= cer= map= psnr= cosine=' ;;
	run:--fail-below) kind='none' ;;
	run:--labels) kind='labels' ;;
	run:--device | run:-d) kind='=auto all cpu cuda' ;;
	run:--precision) kind='=fp32 tf32 fp16 bf16 fp8 auto' ;;
	run:--sync) kind='=async node launch' ;;
	run:--context) kind='=primary own' ;;
	run:--cuda-graph) kind='=auto off' ;;
	run:--tune) kind='=quick full off' ;;
	run:--cache) kind='dir' ;;
	run:--threads | run:-t) kind='none' ;;
	run:--optimize) kind='=none basic full' ;;
	run:--memory-plan) kind='=on off' ;;
	run:--arena) kind='=on off' ;;
	run:--memory-limit) kind='none' ;;
	run:--external-root) kind='dir' ;;
	run:--ops) kind='library?' ;;
	run:--config) kind='file' ;;
	run:--timeout) kind='none' ;;
	run:--color) kind='=auto always never' ;;
	inspect:--shape) kind='name' ;;
	inspect:--dim) kind='dim' ;;
	inspect:--stage) kind='=file graph opt plan' ;;
	inspect:--html) kind='file' ;;
	inspect:--optimize) kind='=none basic full' ;;
	inspect:--memory-plan) kind='=on off' ;;
	inspect:--memory-limit) kind='none' ;;
	inspect:--external-root) kind='dir' ;;
	inspect:--ops) kind='library?' ;;
	inspect:--config) kind='file' ;;
	inspect:--timeout) kind='none' ;;
	inspect:--color) kind='=auto always never' ;;
	profile:--input) kind='input' ;;
	profile:--data-set) kind='dir' ;;
	profile:--batch) kind='none' ;;
	profile:--random) kind='range?' ;;
	profile:--seed) kind='none' ;;
	profile:--shape) kind='name' ;;
	profile:--dim) kind='dim' ;;
	profile:--shapes-sweep) kind='dim' ;;
	profile:--feed) kind='name' ;;
	profile:--next) kind='name' ;;
	profile:--derive) kind='name' ;;
	profile:--output) kind='output' ;;
	profile:--top) kind='none' ;;
	profile:--decode) kind='=ctc yolo ssd detr' ;;
	profile:--iterations | profile:-n) kind='none' ;;
	profile:--duration) kind='none' ;;
	profile:--warmup) kind='none' ;;
	profile:--percentile) kind='none' ;;
	profile:--prefill) kind='none' ;;
	profile:--transfers) kind='=include exclude split' ;;
	profile:--sort) kind='=time order memory' ;;
	profile:--sessions) kind='none' ;;
	profile:--streams) kind='none' ;;
	profile:--compare-device) kind='=cpu cpu,cuda cuda' ;;
	profile:--html) kind='file' ;;
	profile:--trace) kind='file' ;;
	profile:--export) kind='file' ;;
	profile:--save-baseline) kind='file' ;;
	profile:--baseline) kind='file' ;;
	profile:--fail-above) kind='none' ;;
	profile:--fail-above-memory) kind='none' ;;
	profile:--fail-above-energy) kind='none' ;;
	profile:--device | profile:-d) kind='=auto all cpu cuda' ;;
	profile:--precision) kind='=fp32 tf32 fp16 bf16 fp8 auto' ;;
	profile:--sync) kind='=async node launch' ;;
	profile:--context) kind='=primary own' ;;
	profile:--cuda-graph) kind='=auto off' ;;
	profile:--tune) kind='=quick full off' ;;
	profile:--cache) kind='dir' ;;
	profile:--threads | profile:-t) kind='none' ;;
	profile:--optimize) kind='=none basic full' ;;
	profile:--memory-plan) kind='=on off' ;;
	profile:--arena) kind='=on off' ;;
	profile:--memory-limit) kind='none' ;;
	profile:--external-root) kind='dir' ;;
	profile:--ops) kind='library?' ;;
	profile:--config) kind='file' ;;
	profile:--timeout) kind='none' ;;
	profile:--color) kind='=auto always never' ;;
	check:--input) kind='input' ;;
	check:--data-set) kind='dir' ;;
	check:--batch) kind='none' ;;
	check:--random) kind='range?' ;;
	check:--seed) kind='none' ;;
	check:--shape) kind='name' ;;
	check:--dim) kind='dim' ;;
	check:--shapes-sweep) kind='dim' ;;
	check:--feed) kind='name' ;;
	check:--steps) kind='none' ;;
	check:--next) kind='name' ;;
	check:--derive) kind='name' ;;
	check:--output) kind='output' ;;
	check:--save | check:-o) kind='dir' ;;
	check:--expect) kind='file' ;;
	check:--rtol) kind='none' ;;
	check:--atol) kind='none' ;;
	check:--metric) kind='=maxabs cosine l2 kl' ;;
	check:--compare) kind='=cpu cpu,cuda fp32,tf32 fp32,fp16 none,full plan,noplan onnxruntime' ;;
	check:--undo) kind='none' ;;
	check:--exclude-list) kind='file' ;;
	check:--determinism) kind='none' ;;
	check:--runs) kind='none' ;;
	check:--pid) kind='none' ;;
	check:--interval) kind='none' ;;
	check:--report-api-errors) kind='=no explicit all' ;;
	check:--heap) kind='=off on all' ;;
	check:--error-exitcode) kind='none' ;;
	check:--suppressions) kind='file' ;;
	check:--write-suppressions) kind='file' ;;
	check:--duration) kind='none' ;;
	check:--html) kind='file' ;;
	check:--export) kind='file' ;;
	check:--device | check:-d) kind='=auto all cpu cuda' ;;
	check:--precision) kind='=fp32 tf32 fp16 bf16 fp8 auto' ;;
	check:--sync) kind='=async node launch' ;;
	check:--context) kind='=primary own' ;;
	check:--cuda-graph) kind='=auto off' ;;
	check:--tune) kind='=quick full off' ;;
	check:--cache) kind='dir' ;;
	check:--threads | check:-t) kind='none' ;;
	check:--optimize) kind='=none basic full' ;;
	check:--memory-plan) kind='=on off' ;;
	check:--arena) kind='=on off' ;;
	check:--memory-limit) kind='none' ;;
	check:--external-root) kind='dir' ;;
	check:--ops) kind='library?' ;;
	check:--config) kind='file' ;;
	check:--timeout) kind='none' ;;
	check:--color) kind='=auto always never' ;;
	suite:--export) kind='file' ;;
	suite:--config) kind='file' ;;
	suite:--timeout) kind='none' ;;
	suite:--color) kind='=auto always never' ;;
	extract:--from) kind='output' ;;
	extract:--to) kind='output' ;;
	extract:--save | extract:-o) kind='dir' ;;
	extract:--external) kind='file?' ;;
	extract:--ops) kind='library?' ;;
	extract:--config) kind='file' ;;
	extract:--timeout) kind='none' ;;
	extract:--color) kind='=auto always never' ;;
	simplify:--shape) kind='name' ;;
	simplify:--dim) kind='dim' ;;
	simplify:--save | simplify:-o) kind='dir' ;;
	simplify:--external) kind='file?' ;;
	simplify:--external-root) kind='dir' ;;
	simplify:--ops) kind='library?' ;;
	simplify:--config) kind='file' ;;
	simplify:--timeout) kind='none' ;;
	simplify:--color) kind='=auto always never' ;;
	diff:--ignore) kind='=interface operators attributes weights opsets metadata' ;;
	diff:--html) kind='file' ;;
	diff:--external-root) kind='dir' ;;
	diff:--config) kind='file' ;;
	diff:--timeout) kind='none' ;;
	diff:--color) kind='=auto always never' ;;
	convert:--save | convert:-o) kind='dir' ;;
	convert:--external) kind='file?' ;;
	convert:--form) kind='=auto binary text json' ;;
	convert:--config) kind='file' ;;
	convert:--timeout) kind='none' ;;
	convert:--color) kind='=auto always never' ;;
	merge:--config) kind='file' ;;
	merge:--timeout) kind='none' ;;
	merge:--color) kind='=auto always never' ;;
	doctor:--config) kind='file' ;;
	doctor:--timeout) kind='none' ;;
	doctor:--color) kind='=auto always never' ;;
	selftest:--config) kind='file' ;;
	selftest:--timeout) kind='none' ;;
	selftest:--color) kind='=auto always never' ;;
	cache:--cache) kind='dir' ;;
	cache:--config) kind='file' ;;
	cache:--timeout) kind='none' ;;
	cache:--color) kind='=auto always never' ;;
	completion:--config) kind='file' ;;
	completion:--timeout) kind='none' ;;
	completion:--color) kind='=auto always never' ;;
	*) return 1 ;;
	esac
}

# Compare a candidate, plain and quoted, with the typed word. Never evaluate it: names come from a
# model, which may be hostile.
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

_infer_names() { # inputs | dims | outputs | labels [SUFFIX]: complete the names in the model on the command line
	local model name
	model=$(_infer_model)
	[[ $model ]] || return
	while IFS= read -r -d '' name; do
		_infer_add "$name" "${2-}"
	done < <("$program" __complete -0 "$1" "$model" 2>/dev/null)
	[[ ${2-} ]] || return
	compopt -o nospace 2>/dev/null
}

# Complete a file name inside a word. It is quoted here because input names may be offered with it.
_infer_quoted_files() {
	local file
	while IFS= read -r file; do
		if [[ -d $file ]]; then _infer_add "$file" /; else _infer_add "$file"; fi
	done < <(compgen -f -- "${value//\\/}")
	compopt -o nospace 2>/dev/null
}

_infer_keys() { # complete what follows the last comma of a FILE,KEY=VALUE...
	local key=
	lead+=${value%,*},
	value=${value##*,}
	if [[ $value == *=* ]]; then
		lead+=${value%%=*}=
		key=${value%%=*}
		value=${value#*=}
	fi
	while IFS= read -r word; do
		if [[ $key ]]; then _infer_add "$word"; else _infer_add "$word" =; fi
	done < <("$program" __complete keys "$key" 2>/dev/null)
	compopt -o nospace 2>/dev/null
}

_infer_matching() { # PATTERN: folders, and files that match
	local file
	while IFS= read -r file; do
		[[ -d $file || $file == $1 ]] || continue
		file=$lead$file
		COMPREPLY+=("${file#"$strip"}")
	done < <(compgen -f -- "${value//\\/}")
	compopt -o filenames 2>/dev/null
}

_infer_models() { # models and folders; any file once there is a model
	if [[ $(_infer_model) && $command != profile ]]; then _infer_files -f; return; fi
	_infer_matching '*.onnx'
}

_infer_value() { # KIND
	local IFS=$' \t\n'
	case $1 in
	model) _infer_models ;;
	file) _infer_files -f ;;
	dir) _infer_files -d ;;
	suite) _infer_matching '*.@(onnx|yaml|yml)' ;;
	dim) _infer_names dims = ;;
	name) _infer_names inputs = ;;
	range)
		if [[ $value == *=* ]]; then
			lead+=${value%%=*}=
			value=${value#*=}
		else
			_infer_names inputs =
		fi
		_infer_words 0..1 -1..1 0..255
		;;
	output) _infer_names outputs ;;
	labels) _infer_names labels; _infer_files -f ;;
	input)
		if [[ $value == *,* ]]; then
			_infer_keys
			return
		elif [[ $value == *=* ]]; then
			lead+=${value%%=*}=
			value=${value#*=}
		else
			_infer_names inputs =
		fi
		_infer_quoted_files
		;;
	=*) _infer_words ${1#=} ;;
	esac
}

_infer() {
	local program=${1:-${COMP_WORDS[0]}} words=() piece i cur=${COMP_WORDS[COMP_CWORD]}
	local word prev strip lead='' value opt options kind='' operand command
	COMPREPLY=()
	program=${program/#\~\//$HOME/}
	# bash splits words at = and :, so join the pieces again
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
	if [[ $command == help ]]; then
		((${#words[@]} > 2)) || _infer_words $(_infer_commands)
		return 0
	fi
	_infer_command "$command" || return 0
	if [[ $word == --*=* ]]; then
		opt=${word%%=*} value=${word#*=} lead=${word%%=*}=
		_infer_option "$command" "$opt" && _infer_value "$kind"
	elif ((${#words[@]} > 2)) && _infer_option "$command" "$prev" && [[ $kind != *\? ]]; then
		_infer_value "$kind"
	elif [[ $word == -* ]]; then
		_infer_words $options
	else
		[[ $kind == *\? ]] && _infer_value "${kind%\?}"
		_infer_value "$operand"
	fi
	return 0
}

complete -F _infer infer
