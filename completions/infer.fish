# Completion of infer for fish. Written by `infer __gen fish'.

function __infer_no_command
	test (count (commandline -opc)) -lt 2
end

function __infer_is
	set -l line (commandline -opc)
	test (count $line) -ge 2; and test "$line[2]" = $argv[1]
end

# Names of the model on the line: inputs or dims. A completion cannot hold a newline here, so that
# names with one are left out.
function __infer_names
	set -l line (commandline -opc)
	for word in $line[3..-1]
		set word (string replace -r '^~/' "$HOME/" -- $word)
		if not string match -q -- '-*' $word; and test -f $word
			$line[1] __complete $argv[1] $word 2>/dev/null
			return
		end
	end
end

# Behind NAME=: files
function __infer_input_files
	set -l token (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
	set -l parts (string split -m 1 = -- $token)
	if test (count $parts) -eq 2
		for file in (__fish_complete_path $parts[2])
			echo $parts[1]=$file
		end
	end
end

complete -c infer -f
complete -c infer -n __infer_no_command -s h -l help -d 'show help'
complete -c infer -n __infer_no_command -l version -d 'show the version'

complete -c infer -n __infer_no_command -a run -d 'execute a model; print outputs, times and memory'
complete -c infer -n '__infer_is run' -F
complete -c infer -n '__infer_is run' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is run' -l data-set -x -a '(__fish_complete_directories)' -d 'read inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is run' -l random -x -a '(__infer_names inputs)=' -d 'make an input\'s values up between LO and HI; repeatable'
complete -c infer -n '__infer_is run' -l seed -x -d 'where the made-up values start'
complete -c infer -n '__infer_is run' -l shape -x -a '(__infer_names inputs)=' -d 'the shape of an input; repeatable'
complete -c infer -n '__infer_is run' -l dim -x -a '(__infer_names dims)=' -d 'bind a free dimension, as batch=4; repeatable'
complete -c infer -n '__infer_is run' -l strict -d 'a free dimension that nothing binds is an error'
complete -c infer -n '__infer_is run' -l save -s o -x -a '(__fish_complete_directories)' -d 'write every output to a file in DIR'
complete -c infer -n '__infer_is run' -l save-format -x -a 'npy npz pb bin json png' -d 'format of the files'
complete -c infer -n '__infer_is run' -l print -d 'print the first N values of each output (100; 0: all)'
complete -c infer -n '__infer_is run' -l top -x -d 'print the K largest values along the last axis'
complete -c infer -n '__infer_is run' -l decode -x -a 'ctc' -d 'print the text that an output spells'
complete -c infer -n '__infer_is run' -l labels -r -F -d 'names of the classes, one a line, or from the model\'s metadata'
complete -c infer -n '__infer_is run' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is run' -l precision -x -a 'fp32' -d 'what float tensors may be computed in'
complete -c infer -n '__infer_is run' -l threads -s t -x -d 'threads to compute with; 0: one a core'
complete -c infer -n '__infer_is run' -l optimize -x -a 'none basic full' -d 'how far the graph is rewritten before it runs'
complete -c infer -n '__infer_is run' -l memory-plan -x -a 'on off' -d 'values may share memory'
complete -c infer -n '__infer_is run' -l memory-limit -x -d 'refuse a plan that needs more, as 512MiB; 0: none'
complete -c infer -n '__infer_is run' -l external-root -x -a '(__fish_complete_directories)' -d 'weights may also be read from this folder'
complete -c infer -n '__infer_is run' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is run' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is run' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is run' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is run' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is run' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is run' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is run' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a inspect -d 'show what is in a model or a tensor file; needs no device'
complete -c infer -n '__infer_is inspect' -F
complete -c infer -n '__infer_is inspect' -l shape -x -a '(__infer_names inputs)=' -d 'the shape of an input; repeatable'
complete -c infer -n '__infer_is inspect' -l dim -x -a '(__infer_names dims)=' -d 'bind a free dimension, as batch=4; repeatable'
complete -c infer -n '__infer_is inspect' -l nodes -d 'every node with the types and shapes of its outputs'
complete -c infer -n '__infer_is inspect' -l weights -d 'every initializer with statistics'
complete -c infer -n '__infer_is inspect' -l cost -d 'multiply-adds, FLOPs and bytes moved, by node and in all'
complete -c infer -n '__infer_is inspect' -l memory -d 'planned memory and its peak'
complete -c infer -n '__infer_is inspect' -l stage -x -a 'file graph opt plan' -d 'the graph as a stage of the pipeline leaves it'
complete -c infer -n '__infer_is inspect' -l ops -d 'without a model: the operators, versions and types this build runs'
complete -c infer -n '__infer_is inspect' -l dot -d 'the graph in Graphviz\'s language'
complete -c infer -n '__infer_is inspect' -l optimize -x -a 'none basic full' -d 'how far the graph is rewritten before it runs'
complete -c infer -n '__infer_is inspect' -l memory-plan -x -a 'on off' -d 'values may share memory'
complete -c infer -n '__infer_is inspect' -l memory-limit -x -d 'refuse a plan that needs more, as 512MiB; 0: none'
complete -c infer -n '__infer_is inspect' -l external-root -x -a '(__fish_complete_directories)' -d 'weights may also be read from this folder'
complete -c infer -n '__infer_is inspect' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is inspect' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is inspect' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is inspect' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is inspect' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is inspect' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is inspect' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is inspect' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a doctor -d 'tell which devices and libraries are there, and why others are not'
complete -c infer -n '__infer_is doctor' -F
complete -c infer -n '__infer_is doctor' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is doctor' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is doctor' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is doctor' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is doctor' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is doctor' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is doctor' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is doctor' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a completion -d 'print the completion script of a shell'
complete -c infer -n '__infer_is completion' -a 'bash zsh fish'
complete -c infer -n '__infer_is completion' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is completion' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is completion' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is completion' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is completion' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is completion' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is completion' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is completion' -l version -d 'show the version'
