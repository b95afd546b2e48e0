# Completion of infer for fish. Written by `infer __gen fish'.

function __infer_no_command
	test (count (commandline -opc)) -lt 2
end

function __infer_is
	set -l line (commandline -opc)
	test (count $line) -ge 2; and test "$line[2]" = $argv[1]
end

# Complete inputs or dims of the model on the command line. Names with a newline are left out, because a
# completion in fish cannot contain one.
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

# Complete file names after NAME=
function __infer_input_files
	set -l token (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))
	if string match -q -- '*,*' $token
		set -l head (string replace -r '[^,]*$' '' -- $token)
		set -l last (string replace -r '^.*,' '' -- $token)
		set -l line (commandline -opc)
		if string match -q -- '*=*' $last
			set -l key (string replace -r '=.*' '' -- $last)
			printf '%s\n' $head$key=($line[1] __complete keys $key 2>/dev/null)
		else
			printf '%s\n' $head($line[1] __complete keys '' 2>/dev/null)=
		end
		return
	end
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

complete -c infer -n __infer_no_command -a run -d 'run a model once and print its outputs, times and memory'
complete -c infer -n '__infer_is help' -a run -d 'run a model once and print its outputs, times and memory'
complete -c infer -n '__infer_is run' -k -a '(__fish_complete_suffix .onnx)'
complete -c infer -n '__infer_is run' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is run' -l data-set -x -a '(__fish_complete_directories)' -d 'read the inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is run' -l random -x -a '(__infer_names inputs)=' -d 'fill an input with random values from LO to HI; repeatable'
complete -c infer -n '__infer_is run' -l seed -x -d 'seed of the random values'
complete -c infer -n '__infer_is run' -l shape -x -a '(__infer_names inputs)=' -d 'set the shape of an input; repeatable'
complete -c infer -n '__infer_is run' -l dim -x -a '(__infer_names dims)=' -d 'set the size of a free dimension, for example batch=4; repeatable'
complete -c infer -n '__infer_is run' -l strict -d 'fail if the size of a free dimension is not known'
complete -c infer -n '__infer_is run' -l save -s o -x -a '(__fish_complete_directories)' -d 'write every output (run), or what --bisect finds (check), to DIR'
complete -c infer -n '__infer_is run' -l save-format -x -a 'npy npz pb bin json png' -d 'format of the output files'
complete -c infer -n '__infer_is run' -l print -d 'print the first N values of each output (100 if N is left out; 0: all)'
complete -c infer -n '__infer_is run' -l top -x -d 'print the K largest values along the last axis (run), or only the first K nodes (profile; 0: all)'
complete -c infer -n '__infer_is run' -l decode -x -a 'ctc yolo ssd detr' -d 'print the text or the boxes that the outputs encode'
complete -c infer -n '__infer_is run' -l labels -r -F -d 'names of the classes: a file with one name a line, or a key of the model\'s metadata'
complete -c infer -n '__infer_is run' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is run' -l precision -x -a 'fp32 tf32 fp16 bf16 auto' -d 'types in which float tensors may be computed'
complete -c infer -n '__infer_is run' -l sync -x -a 'async node launch' -d 'how often to wait for the GPU'
complete -c infer -n '__infer_is run' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is run' -l context -x -a 'primary own' -d 'which CUDA context to run in'
complete -c infer -n '__infer_is run' -l cuda-graph -x -a 'auto off' -d 'replay the kernel launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is run' -l tune -x -a 'quick full off' -d 'how long to search for the fastest GPU kernels'
complete -c infer -n '__infer_is run' -l cache -x -a '(__fish_complete_directories)' -d 'folder for the tuning results'
complete -c infer -n '__infer_is run' -l threads -s t -x -d 'number of threads to compute with; 0: one per core'
complete -c infer -n '__infer_is run' -l optimize -x -a 'none basic full' -d 'how far to optimize the graph before it runs'
complete -c infer -n '__infer_is run' -l memory-plan -x -a 'on off' -d 'let values share memory'
complete -c infer -n '__infer_is run' -l arena -x -a 'on off' -d 'keep the memory of values from run to run'
complete -c infer -n '__infer_is run' -l memory-limit -x -d 'refuse a plan that needs more memory than this, for example 512MiB; 0: no limit'
complete -c infer -n '__infer_is run' -l external-root -x -a '(__fish_complete_directories)' -d 'also allow weights to be read from this folder'
complete -c infer -n '__infer_is run' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is run' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is run' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is run' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is run' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is run' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is run' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is run' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a inspect -d 'show what a model, a tensor file or a saved report contains; needs no device'
complete -c infer -n '__infer_is help' -a inspect -d 'show what a model, a tensor file or a saved report contains; needs no device'
complete -c infer -n '__infer_is inspect' -F
complete -c infer -n '__infer_is inspect' -l shape -x -a '(__infer_names inputs)=' -d 'set the shape of an input; repeatable'
complete -c infer -n '__infer_is inspect' -l dim -x -a '(__infer_names dims)=' -d 'set the size of a free dimension, for example batch=4; repeatable'
complete -c infer -n '__infer_is inspect' -l nodes -d 'list the nodes: with types and shapes (inspect), with times (profile)'
complete -c infer -n '__infer_is inspect' -l weights -d 'list every initializer with statistics'
complete -c infer -n '__infer_is inspect' -l cost -d 'show the multiply-adds, FLOPs and bytes moved, by node and in total'
complete -c infer -n '__infer_is inspect' -l memory -d 'show the planned memory and its peak'
complete -c infer -n '__infer_is inspect' -l stage -x -a 'file graph opt plan' -d 'print the graph after a stage of the pipeline'
complete -c infer -n '__infer_is inspect' -l passes -d 'list the passes that rewrite the graph, in order, with the changes each made'
complete -c infer -n '__infer_is inspect' -l explain -d 'list which rewrites were made and where, and which were not and why'
complete -c infer -n '__infer_is inspect' -l ops -d 'without a model: list the operators, versions and types that this build runs'
complete -c infer -n '__infer_is inspect' -l dot -d 'print the graph in Graphviz DOT format'
complete -c infer -n '__infer_is inspect' -l html -r -F -d 'also write the report as an HTML page'
complete -c infer -n '__infer_is inspect' -l optimize -x -a 'none basic full' -d 'how far to optimize the graph before it runs'
complete -c infer -n '__infer_is inspect' -l memory-plan -x -a 'on off' -d 'let values share memory'
complete -c infer -n '__infer_is inspect' -l memory-limit -x -d 'refuse a plan that needs more memory than this, for example 512MiB; 0: no limit'
complete -c infer -n '__infer_is inspect' -l external-root -x -a '(__fish_complete_directories)' -d 'also allow weights to be read from this folder'
complete -c infer -n '__infer_is inspect' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is inspect' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is inspect' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is inspect' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is inspect' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is inspect' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is inspect' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is inspect' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a profile -d 'measure where time and memory go, compare settings, and fail CI on a regression'
complete -c infer -n '__infer_is help' -a profile -d 'measure where time and memory go, compare settings, and fail CI on a regression'
complete -c infer -n '__infer_is profile' -k -a '(__fish_complete_suffix .onnx)'
complete -c infer -n '__infer_is profile' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is profile' -l data-set -x -a '(__fish_complete_directories)' -d 'read the inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is profile' -l random -x -a '(__infer_names inputs)=' -d 'fill an input with random values from LO to HI; repeatable'
complete -c infer -n '__infer_is profile' -l seed -x -d 'seed of the random values'
complete -c infer -n '__infer_is profile' -l shape -x -a '(__infer_names inputs)=' -d 'set the shape of an input; repeatable'
complete -c infer -n '__infer_is profile' -l dim -x -a '(__infer_names dims)=' -d 'set the size of a free dimension, for example batch=4; repeatable'
complete -c infer -n '__infer_is profile' -l strict -d 'fail if the size of a free dimension is not known'
complete -c infer -n '__infer_is profile' -l shapes-sweep -x -a '(__infer_names dims)=' -d 'try a range of sizes for a free dimension, for example batch=1..16; repeatable'
complete -c infer -n '__infer_is profile' -l top -x -d 'print the K largest values along the last axis (run), or only the first K nodes (profile; 0: all)'
complete -c infer -n '__infer_is profile' -l nodes -d 'list the nodes: with types and shapes (inspect), with times (profile)'
complete -c infer -n '__infer_is profile' -l iterations -s n -x -d 'number of runs to measure'
complete -c infer -n '__infer_is profile' -l duration -x -d 'how long to measure, for example 3s (the default; 1s for each point of a sweep)'
complete -c infer -n '__infer_is profile' -l warmup -x -d 'warm-up before the first measured run: a number of runs (10) or a time (200ms)'
complete -c infer -n '__infer_is profile' -l percentile -x -d 'percentiles of the latency to report'
complete -c infer -n '__infer_is profile' -l transfers -x -a 'include exclude split' -d 'whether the latency includes copies to and from the device'
complete -c infer -n '__infer_is profile' -l sort -x -a 'time order memory' -d 'order of the table of nodes'
complete -c infer -n '__infer_is profile' -l sessions -x -d 'number of sessions to run in parallel, each in its own thread and, on a GPU, its own stream'
complete -c infer -n '__infer_is profile' -l streams -x -d 'number of GPU streams to use in parallel, each with its own session'
complete -c infer -n '__infer_is profile' -l compare-device -x -a 'cpu cpu,cuda cuda' -d 'measure on each of these devices'
complete -c infer -n '__infer_is profile' -l trace -r -F -d 'write a trace for Perfetto or chrome://tracing'
complete -c infer -n '__infer_is profile' -l export -r -F -d 'also write the report to a file, in the format of its extension; repeatable'
complete -c infer -n '__infer_is profile' -l save-baseline -r -F -d 'write a baseline for later comparisons'
complete -c infer -n '__infer_is profile' -l baseline -r -F -d 'compare with a baseline that --save-baseline wrote'
complete -c infer -n '__infer_is profile' -l fail-above -x -d 'exit with status 9 if the model became slower than the baseline by more than P percent'
complete -c infer -n '__infer_is profile' -l fail-above-memory -x -d 'the same for memory: planned and counted bytes on host and device, and resident bytes'
complete -c infer -n '__infer_is profile' -l fail-above-energy -x -d 'exit with status 9 if a run takes more joules than this'
complete -c infer -n '__infer_is profile' -l fail-unknown -d 'exit with status 11 if the measurement cannot tell whether the model became slower'
complete -c infer -n '__infer_is profile' -l force -d 'compare even if the baseline is of another device, driver, model or precision'
complete -c infer -n '__infer_is profile' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is profile' -l precision -x -a 'fp32 tf32 fp16 bf16 auto' -d 'types in which float tensors may be computed'
complete -c infer -n '__infer_is profile' -l sync -x -a 'async node launch' -d 'how often to wait for the GPU'
complete -c infer -n '__infer_is profile' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is profile' -l context -x -a 'primary own' -d 'which CUDA context to run in'
complete -c infer -n '__infer_is profile' -l cuda-graph -x -a 'auto off' -d 'replay the kernel launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is profile' -l tune -x -a 'quick full off' -d 'how long to search for the fastest GPU kernels'
complete -c infer -n '__infer_is profile' -l cache -x -a '(__fish_complete_directories)' -d 'folder for the tuning results'
complete -c infer -n '__infer_is profile' -l threads -s t -x -d 'number of threads to compute with; 0: one per core'
complete -c infer -n '__infer_is profile' -l optimize -x -a 'none basic full' -d 'how far to optimize the graph before it runs'
complete -c infer -n '__infer_is profile' -l memory-plan -x -a 'on off' -d 'let values share memory'
complete -c infer -n '__infer_is profile' -l arena -x -a 'on off' -d 'keep the memory of values from run to run'
complete -c infer -n '__infer_is profile' -l memory-limit -x -d 'refuse a plan that needs more memory than this, for example 512MiB; 0: no limit'
complete -c infer -n '__infer_is profile' -l external-root -x -a '(__fish_complete_directories)' -d 'also allow weights to be read from this folder'
complete -c infer -n '__infer_is profile' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is profile' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is profile' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is profile' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is profile' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is profile' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is profile' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is profile' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a check -d 'find what is wrong with a model: its inputs, numbers, memory or device'
complete -c infer -n '__infer_is help' -a check -d 'find what is wrong with a model: its inputs, numbers, memory or device'
complete -c infer -n '__infer_is check' -k -a '(__fish_complete_suffix .onnx)'
complete -c infer -n '__infer_is check' -l input -r -F -a '(__infer_names inputs)= (__infer_input_files)' -d 'read an input from a file; repeatable'
complete -c infer -n '__infer_is check' -l data-set -x -a '(__fish_complete_directories)' -d 'read the inputs from DIR/input_K.pb, by position'
complete -c infer -n '__infer_is check' -l random -x -a '(__infer_names inputs)=' -d 'fill an input with random values from LO to HI; repeatable'
complete -c infer -n '__infer_is check' -l seed -x -d 'seed of the random values'
complete -c infer -n '__infer_is check' -l shape -x -a '(__infer_names inputs)=' -d 'set the shape of an input; repeatable'
complete -c infer -n '__infer_is check' -l dim -x -a '(__infer_names dims)=' -d 'set the size of a free dimension, for example batch=4; repeatable'
complete -c infer -n '__infer_is check' -l strict -d 'fail if the size of a free dimension is not known'
complete -c infer -n '__infer_is check' -l shapes-sweep -x -a '(__infer_names dims)=' -d 'try a range of sizes for a free dimension, for example batch=1..16; repeatable'
complete -c infer -n '__infer_is check' -l save -s o -x -a '(__fish_complete_directories)' -d 'write every output (run), or what --bisect finds (check), to DIR'
complete -c infer -n '__infer_is check' -l all -d 'run every check that applies, the cheapest first'
complete -c infer -n '__infer_is check' -l expect -r -F -d 'compare an output with a reference file; repeatable'
complete -c infer -n '__infer_is check' -l rtol -x -d 'relative tolerance of comparisons'
complete -c infer -n '__infer_is check' -l atol -x -d 'absolute tolerance of comparisons'
complete -c infer -n '__infer_is check' -l metric -x -a 'maxabs cosine l2' -d 'how to measure the difference between two outputs'
complete -c infer -n '__infer_is check' -l compare -x -a 'cpu cpu,cuda fp32,tf32 fp32,fp16 none,full plan,noplan' -d 'run the model in two ways and find the first node whose results differ'
complete -c infer -n '__infer_is check' -l nan -d 'find the first tensor that holds NaN or Inf, and nodes that lose precision'
complete -c infer -n '__infer_is check' -l zero -d 'find outputs that are all zero, constant, or do not depend on the inputs'
complete -c infer -n '__infer_is check' -l layout -d 'check whether pictures seem to have their axes or channels in the wrong order'
complete -c infer -n '__infer_is check' -l determinism -x -d 'check that N runs give bit-identical results'
complete -c infer -n '__infer_is check' -l leak -d 'check whether memory keeps growing from run to run'
complete -c infer -n '__infer_is check' -l runs -x -d 'number of runs for --leak; 0: as many as needed, up to 500'
complete -c infer -n '__infer_is check' -l recreate -d 'with --leak: also open and close the model repeatedly'
complete -c infer -n '__infer_is check' -l contexts -d 'list the CUDA contexts of this process, and other processes on the GPU'
complete -c infer -n '__infer_is check' -l bisect -d 'find the smallest part of the model that still shows the fault; -o DIR saves it'
complete -c infer -n '__infer_is check' -l pid -x -d 'watch the memory of a running process from outside'
complete -c infer -n '__infer_is check' -l interval -x -d 'also print a report every TIME, for example 10s'
complete -c infer -n '__infer_is check' -l report-api-errors -x -a 'no explicit all' -d 'which failing CUDA calls to report'
complete -c infer -n '__infer_is check' -l heap -x -a 'off on all' -d 'which malloc blocks to check the bounds of copies against'
complete -c infer -n '__infer_is check' -l error-exitcode -x -d 'exit with status N if there are errors, instead of the status of their class'
complete -c infer -n '__infer_is check' -l suppressions -r -F -d 'do not report the known findings that FILE lists'
complete -c infer -n '__infer_is check' -l write-suppressions -r -F -d 'write a line for --suppressions for each reported finding'
complete -c infer -n '__infer_is check' -l duration -x -d 'how long to measure, for example 3s (the default; 1s for each point of a sweep)'
complete -c infer -n '__infer_is check' -l html -r -F -d 'also write the report as an HTML page'
complete -c infer -n '__infer_is check' -l export -r -F -d 'also write the report to a file, in the format of its extension; repeatable'
complete -c infer -n '__infer_is check' -l device -s d -x -a 'auto cpu cuda' -d 'where to run: auto, cpu or cuda[:N]'
complete -c infer -n '__infer_is check' -l precision -x -a 'fp32 tf32 fp16 bf16 auto' -d 'types in which float tensors may be computed'
complete -c infer -n '__infer_is check' -l sync -x -a 'async node launch' -d 'how often to wait for the GPU'
complete -c infer -n '__infer_is check' -l no-blame -d 'do not repeat a failed run to find the node that failed'
complete -c infer -n '__infer_is check' -l context -x -a 'primary own' -d 'which CUDA context to run in'
complete -c infer -n '__infer_is check' -l cuda-graph -x -a 'auto off' -d 'replay the kernel launches as CUDA graphs from the second run on'
complete -c infer -n '__infer_is check' -l tune -x -a 'quick full off' -d 'how long to search for the fastest GPU kernels'
complete -c infer -n '__infer_is check' -l cache -x -a '(__fish_complete_directories)' -d 'folder for the tuning results'
complete -c infer -n '__infer_is check' -l threads -s t -x -d 'number of threads to compute with; 0: one per core'
complete -c infer -n '__infer_is check' -l optimize -x -a 'none basic full' -d 'how far to optimize the graph before it runs'
complete -c infer -n '__infer_is check' -l memory-plan -x -a 'on off' -d 'let values share memory'
complete -c infer -n '__infer_is check' -l arena -x -a 'on off' -d 'keep the memory of values from run to run'
complete -c infer -n '__infer_is check' -l memory-limit -x -d 'refuse a plan that needs more memory than this, for example 512MiB; 0: no limit'
complete -c infer -n '__infer_is check' -l external-root -x -a '(__fish_complete_directories)' -d 'also allow weights to be read from this folder'
complete -c infer -n '__infer_is check' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is check' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is check' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is check' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is check' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is check' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is check' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is check' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a suite -d 'check and profile several models for CI, with one verdict'
complete -c infer -n '__infer_is help' -a suite -d 'check and profile several models for CI, with one verdict'
complete -c infer -n '__infer_is suite' -F
complete -c infer -n '__infer_is suite' -l export -r -F -d 'also write the report to a file, in the format of its extension; repeatable'
complete -c infer -n '__infer_is suite' -l update-baselines -d 'write the baselines of the suite\'s models instead of comparing with them'
complete -c infer -n '__infer_is suite' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is suite' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is suite' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is suite' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is suite' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is suite' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is suite' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is suite' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a doctor -d 'list the devices and libraries found on this machine, and why others are missing'
complete -c infer -n '__infer_is help' -a doctor -d 'list the devices and libraries found on this machine, and why others are missing'
complete -c infer -n '__infer_is doctor' -F
complete -c infer -n '__infer_is doctor' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is doctor' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is doctor' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is doctor' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is doctor' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is doctor' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is doctor' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is doctor' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a selftest -d 'run built-in cases on each device and compare the outputs with stored results'
complete -c infer -n '__infer_is help' -a selftest -d 'run built-in cases on each device and compare the outputs with stored results'
complete -c infer -n '__infer_is selftest' -F
complete -c infer -n '__infer_is selftest' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is selftest' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is selftest' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is selftest' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is selftest' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is selftest' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is selftest' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is selftest' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a cache -d 'list or clear the tuning results that are kept on disk'
complete -c infer -n '__infer_is help' -a cache -d 'list or clear the tuning results that are kept on disk'
complete -c infer -n '__infer_is cache' -a 'ls clear'
complete -c infer -n '__infer_is cache' -l cache -x -a '(__fish_complete_directories)' -d 'folder for the tuning results'
complete -c infer -n '__infer_is cache' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is cache' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is cache' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is cache' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is cache' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is cache' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is cache' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is cache' -l version -d 'show the version'

complete -c infer -n __infer_no_command -a completion -d 'print the completion script for a shell'
complete -c infer -n '__infer_is help' -a completion -d 'print the completion script for a shell'
complete -c infer -n '__infer_is completion' -a 'bash zsh fish'
complete -c infer -n '__infer_is completion' -l json -d 'print one JSON document on standard output'
complete -c infer -n '__infer_is completion' -l config -r -F -d 'read options from a YAML file'
complete -c infer -n '__infer_is completion' -l timeout -x -d 'exit with status 124 after this time; 0: no limit'
complete -c infer -n '__infer_is completion' -l color -x -a 'auto always never' -d 'when to color messages'
complete -c infer -n '__infer_is completion' -l verbose -s v -d 'print more details; repeatable'
complete -c infer -n '__infer_is completion' -l quiet -s q -d 'print only errors on standard error'
complete -c infer -n '__infer_is completion' -l help -s h -d 'show this help'
complete -c infer -n '__infer_is completion' -l version -d 'show the version'
