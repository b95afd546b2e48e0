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
complete -c infer -n '__infer_is run' -l top -x -d 'the K largest: values along the last axis (run), nodes of the table (profile; 0: all)'
complete -c infer -n '__infer_is run' -l decode -x -a 'ctc' -d 'print the text that an output spells'
complete -c infer -n '__infer_is run' -l labels -r -F -d 'names of the classes, one a line, or from the model\'s metadata'
complete -c infer -n '__infer_is run' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is run' -l precision -x -a 'fp32 tf32 fp16 bf16' -d 'what float tensors may be computed in'
complete -c infer -n '__infer_is run' -l sync -x -a 'async node launch' -d 'how often a GPU is waited for'
complete -c infer -n '__infer_is run' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is run' -l context -x -a 'primary own' -d 'the CUDA context to run in'
complete -c infer -n '__infer_is run' -l cuda-graph -x -a 'auto off' -d 'replay launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is run' -l tune -x -a 'quick full off' -d 'how long to look for a GPU\'s fastest kernels'
complete -c infer -n '__infer_is run' -l cache -x -a '(__fish_complete_directories)' -d 'where tuning results are kept'
complete -c infer -n '__infer_is run' -l threads -s t -x -d 'threads to compute with; 0: one a core'
complete -c infer -n '__infer_is run' -l optimize -x -a 'none basic full' -d 'how far the graph is rewritten before it runs'
complete -c infer -n '__infer_is run' -l memory-plan -x -a 'on off' -d 'values may share memory'
complete -c infer -n '__infer_is run' -l arena -x -a 'on off' -d 'memory of values is kept from run to run'
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
complete -c infer -n '__infer_is inspect' -l nodes -d 'a table of the nodes: their types and shapes, their times'
complete -c infer -n '__infer_is inspect' -l weights -d 'every initializer with statistics'
complete -c infer -n '__infer_is inspect' -l cost -d 'multiply-adds, FLOPs and bytes moved, by node and in all'
complete -c infer -n '__infer_is inspect' -l memory -d 'planned memory and its peak'
complete -c infer -n '__infer_is inspect' -l stage -x -a 'file graph opt plan' -d 'the graph as a stage of the pipeline leaves it'
complete -c infer -n '__infer_is inspect' -l ops -d 'without a model: the operators, versions and types this build runs'
complete -c infer -n '__infer_is inspect' -l dot -d 'the graph in Graphviz\'s language'
complete -c infer -n '__infer_is inspect' -l html -r -F -d 'write the report as a page, too'
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

complete -c infer -n __infer_no_command -a profile -d 'measure where time and memory go; compare; a verdict for CI'
complete -c infer -n '__infer_is profile' -F
complete -c infer -n '__infer_is profile' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is profile' -l data-set -x -a '(__fish_complete_directories)' -d 'read inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is profile' -l random -x -a '(__infer_names inputs)=' -d 'make an input\'s values up between LO and HI; repeatable'
complete -c infer -n '__infer_is profile' -l seed -x -d 'where the made-up values start'
complete -c infer -n '__infer_is profile' -l shape -x -a '(__infer_names inputs)=' -d 'the shape of an input; repeatable'
complete -c infer -n '__infer_is profile' -l dim -x -a '(__infer_names dims)=' -d 'bind a free dimension, as batch=4; repeatable'
complete -c infer -n '__infer_is profile' -l strict -d 'a free dimension that nothing binds is an error'
complete -c infer -n '__infer_is profile' -l shapes-sweep -x -a '(__infer_names dims)=' -d 'go through the sizes of a free dimension, as batch=1..16; repeatable'
complete -c infer -n '__infer_is profile' -l top -x -d 'the K largest: values along the last axis (run), nodes of the table (profile; 0: all)'
complete -c infer -n '__infer_is profile' -l nodes -d 'a table of the nodes: their types and shapes, their times'
complete -c infer -n '__infer_is profile' -l iterations -s n -x -d 'runs to measure'
complete -c infer -n '__infer_is profile' -l duration -x -d 'how long to measure, as 3s (the default; 1s for each point of a sweep)'
complete -c infer -n '__infer_is profile' -l warmup -x -d 'runs before the first that counts, as 10, or their time, as 200ms'
complete -c infer -n '__infer_is profile' -l percentile -x -d 'percentiles of the latency to tell'
complete -c infer -n '__infer_is profile' -l transfers -x -a 'include exclude split' -d 'copies to and from the device in the latency'
complete -c infer -n '__infer_is profile' -l sort -x -a 'time order memory' -d 'order of the table of nodes'
complete -c infer -n '__infer_is profile' -l sessions -x -d 'sessions that run side by side, each in a thread and, on a GPU, a stream of its own'
complete -c infer -n '__infer_is profile' -l streams -x -d 'streams of a GPU that work side by side, each with a session of its own'
complete -c infer -n '__infer_is profile' -l compare-device -x -a 'cpu cpu,cuda cuda' -d 'measure on each of these devices'
complete -c infer -n '__infer_is profile' -l trace -r -F -d 'write a trace for Perfetto or chrome://tracing'
complete -c infer -n '__infer_is profile' -l export -r -F -d 'write the report to a file; what it is follows from its name; repeatable'
complete -c infer -n '__infer_is profile' -l save-baseline -r -F -d 'write what later runs are compared with'
complete -c infer -n '__infer_is profile' -l baseline -r -F -d 'compare with what --save-baseline wrote'
complete -c infer -n '__infer_is profile' -l fail-above -x -d 'exit with status 9 where the model became slower than the baseline by more than this'
complete -c infer -n '__infer_is profile' -l fail-above-memory -x -d 'the same for memory: planned and counted bytes on host and device, and resident bytes'
complete -c infer -n '__infer_is profile' -l force -d 'compare with a baseline of another device, driver, model or precision'
complete -c infer -n '__infer_is profile' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is profile' -l precision -x -a 'fp32 tf32 fp16 bf16' -d 'what float tensors may be computed in'
complete -c infer -n '__infer_is profile' -l sync -x -a 'async node launch' -d 'how often a GPU is waited for'
complete -c infer -n '__infer_is profile' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is profile' -l context -x -a 'primary own' -d 'the CUDA context to run in'
complete -c infer -n '__infer_is profile' -l cuda-graph -x -a 'auto off' -d 'replay launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is profile' -l tune -x -a 'quick full off' -d 'how long to look for a GPU\'s fastest kernels'
complete -c infer -n '__infer_is profile' -l cache -x -a '(__fish_complete_directories)' -d 'where tuning results are kept'
complete -c infer -n '__infer_is profile' -l threads -s t -x -d 'threads to compute with; 0: one a core'
complete -c infer -n '__infer_is profile' -l optimize -x -a 'none basic full' -d 'how far the graph is rewritten before it runs'
complete -c infer -n '__infer_is profile' -l memory-plan -x -a 'on off' -d 'values may share memory'
complete -c infer -n '__infer_is profile' -l arena -x -a 'on off' -d 'memory of values is kept from run to run'
complete -c infer -n '__infer_is profile' -l memory-limit -x -d 'refuse a plan that needs more, as 512MiB; 0: none'
complete -c infer -n '__infer_is profile' -l external-root -x -a '(__fish_complete_directories)' -d 'weights may also be read from this folder'
complete -c infer -n '__infer_is profile' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is profile' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is profile' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is profile' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is profile' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is profile' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is profile' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is profile' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a check -d 'find what is wrong with a model, its inputs, its numbers, its memory, its device'
complete -c infer -n '__infer_is check' -F
complete -c infer -n '__infer_is check' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is check' -l data-set -x -a '(__fish_complete_directories)' -d 'read inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is check' -l random -x -a '(__infer_names inputs)=' -d 'make an input\'s values up between LO and HI; repeatable'
complete -c infer -n '__infer_is check' -l seed -x -d 'where the made-up values start'
complete -c infer -n '__infer_is check' -l shape -x -a '(__infer_names inputs)=' -d 'the shape of an input; repeatable'
complete -c infer -n '__infer_is check' -l dim -x -a '(__infer_names dims)=' -d 'bind a free dimension, as batch=4; repeatable'
complete -c infer -n '__infer_is check' -l strict -d 'a free dimension that nothing binds is an error'
complete -c infer -n '__infer_is check' -l shapes-sweep -x -a '(__infer_names dims)=' -d 'go through the sizes of a free dimension, as batch=1..16; repeatable'
complete -c infer -n '__infer_is check' -l save -s o -x -a '(__fish_complete_directories)' -d 'write every output to a file in DIR'
complete -c infer -n '__infer_is check' -l all -d 'every check that applies, cheap to dear'
complete -c infer -n '__infer_is check' -l expect -r -F -d 'compare an output with a reference; repeatable'
complete -c infer -n '__infer_is check' -l rtol -x -d 'relative tolerance of a comparison'
complete -c infer -n '__infer_is check' -l atol -x -d 'absolute tolerance of a comparison'
complete -c infer -n '__infer_is check' -l metric -x -a 'maxabs cosine l2' -d 'how far two outputs are apart'
complete -c infer -n '__infer_is check' -l compare -x -a 'cpu cpu,cuda fp32,tf32 fp32,fp16 none,full plan,noplan' -d 'run two ways and compare node by node, to the first that differs'
complete -c infer -n '__infer_is check' -l nan -d 'the first tensor that is not finite, and where numbers get lost'
complete -c infer -n '__infer_is check' -l zero -d 'outputs that are all zero, constant, or the same for other inputs'
complete -c infer -n '__infer_is check' -l layout -d 'whether pictures look as if their axes or channels were in another order'
complete -c infer -n '__infer_is check' -l determinism -x -d 'whether N runs give the same bits'
complete -c infer -n '__infer_is check' -l leak -d 'whether memory keeps growing from run to run'
complete -c infer -n '__infer_is check' -l runs -x -d 'runs of --leak; 0: as many as it takes, up to 500'
complete -c infer -n '__infer_is check' -l recreate -d 'with --leak: also open and close the model again and again'
complete -c infer -n '__infer_is check' -l contexts -d 'CUDA contexts of this process, and who else uses the GPU'
complete -c infer -n '__infer_is check' -l bisect -d 'the smallest part of the model that still shows the fault; -o DIR writes it'
complete -c infer -n '__infer_is check' -l pid -x -d 'look at the memory of a running process from outside'
complete -c infer -n '__infer_is check' -l interval -x -d 'report each so often, too, as 10s'
complete -c infer -n '__infer_is check' -l report-api-errors -x -a 'no explicit all' -d 'which failing CUDA calls are told'
complete -c infer -n '__infer_is check' -l error-exitcode -x -d 'exit with this status where there are errors, instead of that of their class'
complete -c infer -n '__infer_is check' -l suppressions -r -F -d 'findings that are known and not told'
complete -c infer -n '__infer_is check' -l duration -x -d 'how long to measure, as 3s (the default; 1s for each point of a sweep)'
complete -c infer -n '__infer_is check' -l html -r -F -d 'write the report as a page, too'
complete -c infer -n '__infer_is check' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is check' -l precision -x -a 'fp32 tf32 fp16 bf16' -d 'what float tensors may be computed in'
complete -c infer -n '__infer_is check' -l sync -x -a 'async node launch' -d 'how often a GPU is waited for'
complete -c infer -n '__infer_is check' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is check' -l context -x -a 'primary own' -d 'the CUDA context to run in'
complete -c infer -n '__infer_is check' -l cuda-graph -x -a 'auto off' -d 'replay launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is check' -l tune -x -a 'quick full off' -d 'how long to look for a GPU\'s fastest kernels'
complete -c infer -n '__infer_is check' -l cache -x -a '(__fish_complete_directories)' -d 'where tuning results are kept'
complete -c infer -n '__infer_is check' -l threads -s t -x -d 'threads to compute with; 0: one a core'
complete -c infer -n '__infer_is check' -l optimize -x -a 'none basic full' -d 'how far the graph is rewritten before it runs'
complete -c infer -n '__infer_is check' -l memory-plan -x -a 'on off' -d 'values may share memory'
complete -c infer -n '__infer_is check' -l arena -x -a 'on off' -d 'memory of values is kept from run to run'
complete -c infer -n '__infer_is check' -l memory-limit -x -d 'refuse a plan that needs more, as 512MiB; 0: none'
complete -c infer -n '__infer_is check' -l external-root -x -a '(__fish_complete_directories)' -d 'weights may also be read from this folder'
complete -c infer -n '__infer_is check' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is check' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is check' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is check' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is check' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is check' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is check' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is check' -l version -d 'show the version'

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

complete -c infer -n __infer_no_command -a cache -d 'list or clear what tuning for a GPU left on disk'
complete -c infer -n '__infer_is cache' -a 'ls clear'
complete -c infer -n '__infer_is cache' -l cache -x -a '(__fish_complete_directories)' -d 'where tuning results are kept'
complete -c infer -n '__infer_is cache' -l json -d 'one JSON document on standard output'
complete -c infer -n '__infer_is cache' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is cache' -l timeout -x -d 'end with status 124 after this time; 0: never'
complete -c infer -n '__infer_is cache' -l color -x -a 'auto always never' -d 'color in messages'
complete -c infer -n '__infer_is cache' -l verbose -s v -d 'say more; repeatable'
complete -c infer -n '__infer_is cache' -l quiet -s q -d 'say nothing but errors on standard error'
complete -c infer -n '__infer_is cache' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is cache' -l version -d 'show the version'

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
