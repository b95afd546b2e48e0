/* SPDX-License-Identifier: Apache-2.0 */
/* Every option, once. */
#include "cmd/options/options.h"

#include <math.h>

#define INPUTS	 "Inputs"
#define OUTPUTS	 "Outputs"
#define DEVICE	 "Device and execution"
#define SHOW	 "What to show"
#define CHECKS	 "What to check"
#define TIMING	 "Measuring"
#define EXPORTS	 "Reports and baselines"
#define WATCHING "Watching another program"
#define COMMON	 "General"

/* What each row has: its name, its type, the member of struct options, the heading in --help, the subcommands. */
#define ROW(name_, type_, member, group_, cmds_)                                                   \
	.name = (name_), .type = (type_), .off = offsetof(struct options, member),                 \
	.group = (group_), .cmds = (cmds_)

const struct field options_table[] = {
	{ROW("input", F_LIST, input, INPUTS, CMD_RUNS), .arg = "[NAME=]FILE[,KEY=VALUE]...",
	 .metavar_kind = "input", .help = "read an input from a file; repeatable",
	 .more = "NAME may be left out where the model has one input; NAME:FILE works too. What FILE is "
		 "follows from its content and its extension: .npy, .npz (keys are names), .pb (a "
		 "TensorProto, SequenceProto or OptionalProto), .bin or .raw (bare elements), .png, .jpg, "
		 ".bmp and .ppm pictures, .txt or .json for strings and small tensors, - for standard "
		 "input.\n\n"
		 "Keys: dtype=u8|i8|u16|i16|i32|i64|f16|bf16|f32|f64|bool, layout=nchw|nhwc|chw|hwc, "
		 "order=rgb|bgr|gray, resize=WxH|Wx|xH|letterbox:WxH (one side given: the other keeps the "
		 "aspect), pad=N, mean=A/B/C, std=A/B/C, scale=1/255, shape=1x3x224x224, "
		 "format=npy|npz|pb|raw|image|txt|json (where the name misleads). Nothing is converted "
		 "unless a key asks for it; of a picture, only the type and the order of the axes "
		 "follow the model's input by themselves. A picture becomes (pixel x scale - mean) / std, "
		 "after order; resize is bilinear with half-pixel centres; letterbox keeps the aspect, "
		 "centres, and fills with pad."},
	{ROW("data-set", F_STRING, data_set, INPUTS, CMD_RUNS), .arg = "DIR", .metavar_kind = "dir",
	 .help = "read inputs from DIR/input_K.pb, by position",
	 .more = "The layout of the test_data_set_N folders of ONNX's own test cases and of its model zoo. "
		 "input_K.npy is taken where there is no input_K.pb."},
	{ROW("random", F_LIST, random, INPUTS, CMD_RUNS), .arg = "[NAME=]LO..HI",
	 .metavar_kind = "name", .help = "make an input's values up between LO and HI; repeatable",
	 .more = "Without NAME: every input that nothing else gives. Integer inputs get integers, bool inputs "
		 "false and true. Each input that was made up is said on standard error."},
	{ROW("seed", F_INT, seed, INPUTS, CMD_RUNS), .def = "0", .arg = "N", .env = "INFER_SEED",
	 .help = "where the made-up values start",
	 .more = "The same seed gives the same values on every machine."},
	{ROW("shape", F_LIST, shape, INPUTS, CMD_RUNS | CMD_INSPECT), .arg = "NAME=1x3x224x224",
	 .metavar_kind = "name", .help = "the shape of an input; repeatable"},
	{ROW("dim", F_LIST, dim, INPUTS, CMD_RUNS | CMD_INSPECT), .arg = "NAME=N",
	 .metavar_kind = "dim", .help = "bind a free dimension, as batch=4; repeatable",
	 .more = "INPUT.NAME=N binds the dimension of one input. A free dimension that is not given is taken "
		 "from the input's file where only one is free; one that nothing binds is 1, with a "
		 "warning."},
	{ROW("strict", F_BOOL, strict, INPUTS, CMD_RUNS),
	 .help = "a free dimension that nothing binds is an error"},

	{ROW("shapes-sweep", F_LIST, sweep, INPUTS, CMD_CHECK | CMD_PROFILE),
	 .arg = "DIM=A..B[:STEP]", .metavar_kind = "dim",
	 .help = "go through the sizes of a free dimension, as batch=1..16; repeatable",
	 .more = "INPUT.NAME=5..100:5 goes through the dimension of one input in steps of five."},

	{ROW("save", F_STRING, save, OUTPUTS, CMD_RUN | CMD_CHECK), .sh = 'o', .arg = "DIR",
	 .metavar_kind = "dir", .help = "write every output to a file in DIR",
	 .more = "A file is written whole or not at all. DIR is made where it does not exist. infer check "
		 "writes there what --bisect finds."},
	{ROW("save-format", F_ENUM, save_format, OUTPUTS, CMD_RUN), .def = "npy",
	 .choices = "npy|npz|pb|bin|json|png", .arg = "FORMAT", .help = "format of the files",
	 .more = "npz is one file with all outputs; pb writes output_K.pb by position; bin holds the bare "
		 "elements; png takes outputs that look like pictures (a mask, a heat map)."},
	{ROW("print", F_INT, print, OUTPUTS, CMD_RUN), .arg = "[N]", .implied = "100", .min = 0,
	 .max = INFINITY, .help = "print the first N values of each output (100; 0: all)"},
	{ROW("top", F_INT, top, OUTPUTS, CMD_RUN | CMD_PROFILE), .def = "0", .min = 0, .max = 1e9,
	 .arg = "K",
	 .help = "the K largest: values along the last axis (run), nodes of the table (profile; 0: all)",
	 .more = "With --labels, the names of the classes stand beside them."},
	{ROW("decode", F_STRING, decode, OUTPUTS, CMD_RUN), .arg = "ctc[:blank=N]",
	 .metavar_kind = "=ctc", .help = "print the text that an output spells",
	 .more = "ctc takes the best class of each step, merges repeats and drops the blank, which is class 0 "
		 "unless blank=N says another. With one more class than labels the blank has no label, with "
		 "two more the last is a space; any other count is an error."},
	{ROW("labels", F_STRING, labels, OUTPUTS, CMD_RUN), .arg = "FILE|meta:KEY",
	 .metavar_kind = "file",
	 .help = "names of the classes, one a line, or from the model's metadata"},

	{ROW("nodes", F_BOOL, nodes, SHOW, CMD_INSPECT | CMD_PROFILE),
	 .help = "a table of the nodes: their types and shapes, their times",
	 .more = "inspect tells every node with the types and shapes of its outputs. profile observes some runs "
		 "and tells each node's time, share, work and memory; since observing costs, the plain runs' "
		 "time stands beside the observed ones'. On a GPU CUPTI tells the kernels of each node and their times, "
		 "where it is there and no other tool has it; else events in the stream do, whose times hold the short "
		 "rests between the kernels of a node, too. Observed runs are launched one by one, in plain ones a CUDA "
		 "graph is; a device that waits for launches would be seen as slow, so it is held until all is queued, "
		 "which is left out of the run. What lies between nodes is a row of its own."},
	{ROW("weights", F_BOOL, weights, SHOW, CMD_INSPECT),
	 .help = "every initializer with statistics"},
	{ROW("cost", F_BOOL, cost, SHOW, CMD_INSPECT),
	 .help = "multiply-adds, FLOPs and bytes moved, by node and in all",
	 .more = "A multiply-add (MAC) counts as two FLOPs. Free dimensions must be bound with --dim or "
		 "--shape, else they count as 1."},
	{ROW("memory", F_BOOL, memory, SHOW, CMD_INSPECT), .help = "planned memory and its peak",
	 .more = "What a run with these dimensions will hold at most, by purpose; the program and its "
		 "libraries come on top, with some 30 MiB."},
	{ROW("stage", F_ENUM, stage, SHOW, CMD_INSPECT), .choices = "file|graph|opt|plan",
	 .arg = "STAGE", .help = "the graph as a stage of the pipeline leaves it",
	 .more = "file: as it was read; graph: upgraded to the newest operator versions; opt: rewritten; "
		 "plan: the steps that run, with their kernels and memory."},
	{ROW("passes", F_BOOL, passes, SHOW, CMD_INSPECT),
	 .help = "the passes that rewrite the graph, in order, and what each did",
	 .more = "How much each pass changed, and how many nodes it left. --optimize says which passes run."},
	{ROW("explain", F_BOOL, explain, SHOW, CMD_INSPECT),
	 .help = "which rewrites were made, where, and which were not and why",
	 .more = "A rewrite that lies over a part of the graph and is refused tells its reason: another use of a "
		 "value inside, a type, a shape that is not known. Those that lie nowhere are named at the end."},
	{ROW("ops", F_BOOL, ops, SHOW, CMD_INSPECT),
	 .help = "without a model: the operators, versions and types this build runs"},
	{ROW("dot", F_BOOL, dot, SHOW, CMD_INSPECT), .help = "the graph in Graphviz's language"},

	{ROW("all", F_BOOL, check.all, CHECKS, CMD_CHECK),
	 .help = "every check that applies, cheap to dear"},
	{ROW("expect", F_LIST, check.expect, CHECKS, CMD_CHECK), .arg = "[NAME=]FILE",
	 .metavar_kind = "file", .help = "compare an output with a reference; repeatable",
	 .more = "With --data-set the references are its output_K.pb."},
	{ROW("rtol", F_DOUBLE, check.rtol, CHECKS, CMD_CHECK), .def = "1e-3", .min = 0,
	 .max = INFINITY, .arg = "NUMBER", .help = "relative tolerance of a comparison"},
	{ROW("atol", F_DOUBLE, check.atol, CHECKS, CMD_CHECK), .def = "1e-7", .min = 0,
	 .max = INFINITY, .arg = "NUMBER", .help = "absolute tolerance of a comparison"},
	{ROW("metric", F_ENUM, check.metric, CHECKS, CMD_CHECK), .def = "maxabs",
	 .choices = "maxabs|cosine|l2", .arg = "NAME", .help = "how far two outputs are apart",
	 .more = "maxabs: no element may differ by more than atol + rtol x |reference|; cosine: 1 less the "
		 "cosine of the angle between the two, and l2: the length of the difference over the "
		 "reference's, may be rtol at most."},
	{ROW("compare", F_STRING, check.compare, CHECKS, CMD_CHECK), .arg = "A[,B]",
	 .metavar_kind = "=cpu|cpu,cuda|fp32,tf32|fp32,fp16|none,full|plan,noplan",
	 .help = "run two ways and compare node by node, to the first that differs",
	 .more = "A and B are devices (cpu, cuda), precisions, levels of --optimize, or plan and noplan (memory "
		 "plan on and off). One alone is compared with the run that the other options ask for."},
	{ROW("nan", F_BOOL, check.nan, CHECKS, CMD_CHECK),
	 .help = "the first tensor that is not finite, and where numbers get lost"},
	{ROW("zero", F_BOOL, check.zero, CHECKS, CMD_CHECK),
	 .help = "outputs that are all zero, constant, or the same for other inputs"},
	{ROW("layout", F_BOOL, check.layout, CHECKS, CMD_CHECK),
	 .help = "whether pictures look as if their axes or channels were in another order"},
	{ROW("determinism", F_INT, check.determinism, CHECKS, CMD_CHECK), .def = "0", .min = 0,
	 .max = 1e9, .arg = "N", .help = "whether N runs give the same bits"},
	{ROW("leak", F_BOOL, check.leak, CHECKS, CMD_CHECK),
	 .help = "whether memory keeps growing from run to run",
	 .more = "The verdict is stable, grows then flat (an arena fills, no leak), or leak. A significant "
		 "upward trend is a leak however small; 5 MiB of host memory and 200 MiB of device memory "
		 "bound what an arena may take until it is flat."},
	{ROW("runs", F_INT, check.runs, CHECKS, CMD_CHECK), .def = "0", .min = 0, .max = 1e9,
	 .arg = "N", .help = "runs of --leak; 0: as many as it takes, up to 500"},
	{ROW("recreate", F_BOOL, check.recreate, CHECKS, CMD_CHECK),
	 .help = "with --leak: also open and close the model again and again"},
	{ROW("contexts", F_BOOL, check.contexts, CHECKS, CMD_CHECK),
	 .help = "CUDA contexts of this process, and who else uses the GPU"},
	{ROW("bisect", F_BOOL, check.bisect, CHECKS, CMD_CHECK),
	 .help = "the smallest part of the model that still shows the fault; -o DIR writes it"},
	{ROW("pid", F_INT, watch.pid, WATCHING, CMD_CHECK), .min = 1, .max = 1 << 22, .arg = "PID",
	 .help = "look at the memory of a running process from outside",
	 .more = "Private memory of the host over time, until the process ends, Ctrl-C, or --duration is over, "
		 "with the verdict of --leak; that of devices where NVML tells it. SIGUSR1 and --interval report on "
		 "the way. What else 'check -- COMMAND' finds needs the program to be started by it."},
	{ROW("interval", F_DURATION, watch.interval, WATCHING, CMD_CHECK), .arg = "TIME",
	 .help = "report each so often, too, as 10s", .more = "SIGUSR1 makes it report at once."},
	{ROW("report-api-errors", F_ENUM, watch.errors, WATCHING, CMD_CHECK), .def = "explicit",
	 .choices = "no|explicit|all", .arg = "WHICH", .help = "which failing CUDA calls are told",
	 .more = "explicit: all but those that fail by design, such as questions whose answer is an error; all: "
		 "these as well; no: only asynchronous errors and crossings of contexts."},
	{ROW("heap", F_ENUM, watch.heap, WATCHING, CMD_CHECK), .def = "on", .choices = "off|on|all",
	 .arg = "WHICH", .help = "blocks of malloc's whose ends copies are held to",
	 .more = "on: those of 512 bytes or more; all: those of 64 or more, which slows the program; off: none. "
		 "A library is loaded before the program for it (LD_PRELOAD), which also gives CUPTI to a profiler "
		 "in the program that asks for it, and hears of faults before the program's own handlers; off loads none."},
	{ROW("error-exitcode", F_INT, watch.error_exit, WATCHING, CMD_CHECK), .min = 1, .max = 255,
	 .arg = "N",
	 .help = "exit with this status where there are errors, instead of that of their class"},
	{ROW("suppressions", F_STRING, watch.suppressions, WATCHING, CMD_CHECK), .arg = "FILE",
	 .metavar_kind = "file", .help = "findings that are known and not told",
	 .more = "A line each: an id (E-CUDA-1, E-CTX-*), and after a space a pattern (* and ?) that some line of the "
		 "finding matches. # begins a comment. An id that no finding has is an error; a line that matched "
		 "nothing is told at the end."},
	{ROW("write-suppressions", F_STRING, watch.suppress_all, WATCHING, CMD_CHECK), .arg = "FILE",
	 .metavar_kind = "file", .help = "write lines for --suppressions, of all that is told",
	 .more = "A line for each finding but notes: its id, and who made which call, with * for what changes from run to "
		 "run (numbers, addresses, places in the code). What --suppressions leaves out is not written again."},
	{ROW("iterations", F_INT, iterations, TIMING, CMD_PROFILE), .sh = 'n', .min = 1, .max = 1e8,
	 .arg = "N", .help = "runs to measure",
	 .more = "Without it, as many as --duration holds, and five at least. With both, whichever is reached "
		 "first."},
	{ROW("duration", F_DURATION, duration, TIMING, CMD_PROFILE | CMD_CHECK), .arg = "TIME",
	 .help = "how long to measure, as 3s (the default; 1s for each point of a sweep)"},
	{ROW("warmup", F_STRING, warmup, TIMING, CMD_PROFILE), .def = "200ms", .arg = "N|TIME",
	 .help = "runs before the first that counts, as 10, or their time, as 200ms",
	 .more = "The first run is told apart in any case."},
	{ROW("percentile", F_FLOATS, percentile, TIMING, CMD_PROFILE), .def = "50,90,95,99",
	 .min = 0, .max = 100, .arg = "P[,P]...", .help = "percentiles of the latency to tell"},
	{ROW("transfers", F_ENUM, transfers, TIMING, CMD_PROFILE), .def = "include",
	 .choices = "include|exclude|split", .arg = "HOW",
	 .help = "copies to and from the device in the latency",
	 .more = "include: they are part of it; exclude: it is what remains without them; split: host to device, "
		 "compute and device to host are told side by side. They are taken from observed runs, at each point of a "
		 "sweep. On the CPU there are none."},
	{ROW("sort", F_ENUM, sort, TIMING, CMD_PROFILE), .def = "time",
	 .choices = "time|order|memory", .arg = "KEY", .help = "order of the table of nodes"},
	{ROW("sessions", F_INT, sessions, TIMING, CMD_PROFILE),
	 .axis = offsetof(struct options, sessions_axis), .def = "1", .min = 1, .max = 256,
	 .arg = "N[,N]...",
	 .help = "sessions that run side by side, each in a thread and, on a GPU, a stream of its own"},
	{ROW("streams", F_INT, streams, TIMING, CMD_PROFILE),
	 .axis = offsetof(struct options, streams_axis), .def = "1", .min = 1, .max = 256,
	 .arg = "N[,N]...",
	 .help = "streams of a GPU that work side by side, each with a session of its own"},
	{ROW("compare-device", F_STRING, compare_device, TIMING, CMD_PROFILE), .arg = "A,B[,C]...",
	 .metavar_kind = "=cpu|cpu,cuda|cuda", .help = "measure on each of these devices",
	 .more = "Likewise a list given to --threads, --sessions, --streams, --memory-plan, --arena, --optimize, "
		 "--precision or --cuda-graph measures each of its values; all combinations make one table. "
		 "Each is measured in a process of its own. What cannot be measured is named with the reason beside what "
		 "can, and the exit status is that reason's."},
	{ROW("html", F_STRING, html, EXPORTS, CMD_CHECK | CMD_INSPECT), .arg = "FILE",
	 .metavar_kind = "file", .help = "write the report as a page, too"},
	{ROW("trace", F_STRING, trace, EXPORTS, CMD_PROFILE), .arg = "FILE", .metavar_kind = "file",
	 .help = "write a trace for Perfetto or chrome://tracing",
	 .more = "The observed runs: nodes, kernels, copies, and memory as counters. With - the trace goes to standard "
		 "output and the report to standard error."},
	{ROW("export", F_LIST, exports, EXPORTS, CMD_PROFILE), .arg = "FILE.json|.csv|.md|.html",
	 .metavar_kind = "file",
	 .help = "write the report to a file; what it is follows from its name; repeatable",
	 .more = "json: everything, with all samples; csv: a line a sample; md: tables for a pull request; html: "
		 "one page with plots that needs no network."},
	{ROW("save-baseline", F_STRING, save_baseline, EXPORTS, CMD_PROFILE), .arg = "FILE",
	 .metavar_kind = "file", .help = "write what later runs are compared with",
	 .more = "It is measured in ten processes, one after the other, for twice as long. On a machine where others work, "
		 "each measures up to four times longer, until some runs were undisturbed. With - it goes to standard "
		 "output and the report to standard error."},
	{ROW("baseline", F_STRING, baseline, EXPORTS, CMD_PROFILE), .arg = "FILE",
	 .metavar_kind = "file", .help = "compare with what --save-baseline wrote",
	 .more = "Another model, device, driver or precision, other shapes of the inputs or settings are refused before "
		 "the first run, unless --force is given."},
	{ROW("fail-above", F_STRING, fail_above, EXPORTS, CMD_PROFILE), .arg = "P%",
	 .help = "exit with status 9 where the model became slower than the baseline by more than this",
	 .more = "Compares the tenth percentiles of runs in which no thread waited for a core, and fails "
		 "only where the bootstrap interval of their quotient, less what the machine itself may have to do with "
		 "it (loops of known work, measured in between), excludes the limit, and further "
		 "measurements say the same. A node that grew more than all others did counts by itself: that shows "
		 "even on a machine so busy that hardly a run is undisturbed. It tells which nodes became slower."},
	{ROW("fail-above-memory", F_STRING, fail_above_memory, EXPORTS, CMD_PROFILE), .arg = "P%|SIZE",
	 .help = "the same for memory: planned and counted bytes on host and device, and resident bytes"},
	{ROW("force", F_BOOL, force, EXPORTS, CMD_PROFILE),
	 .help = "compare with a baseline of another device, driver, model or precision"},

	{ROW("device", F_STRING, config.device, DEVICE, CMD_RUNS), .sh = 'd', .def = "auto",
	 .arg = "NAME", .env = "INFER_DEVICE", .metavar_kind = "=auto|cpu|cuda",
	 .help = "where to run: auto, cpu or cuda[:N]",
	 .more = "auto takes a usable CUDA device where this build and the machine have one, else the CPU, and "
		 "says which and why. A device asked for by name is never replaced by another: where it "
		 "cannot be used, the exit status is 8 and the reason is given."},
	{ROW("precision", F_ENUM, config.precision, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, precision_axis), .def = "fp32",
	 .choices = "fp32|tf32|fp16|bf16|auto", .arg = "TYPE", .env = "INFER_PRECISION",
	 .help = "what float tensors may be computed in",
	 .more = "fp32 computes in the types that the model says and rounds once a node. tf32 lets matrix "
		 "products and convolutions of a CUDA device round their fp32 inputs to 10 bits of fraction. fp16 "
		 "and bf16 compute the inside of an fp32 model in that type, its weights converted once; inputs, "
		 "outputs and what is easily spoilt stay fp32. Models that are fp16 or bf16 themselves stay so. "
		 "auto tries all of them on the inputs that are given and takes the fastest whose outputs stay within "
		 "0.01 of the largest value of each of fp32's; it says which, and what each took and was off by. The "
		 "choice is kept in the cache. On the CPU it is fp32."},
	{ROW("sync", F_ENUM, config.sync, DEVICE, CMD_RUNS), .def = "async",
	 .choices = "async|node|launch", .arg = "WHEN", .env = "INFER_SYNC",
	 .help = "how often a GPU is waited for",
	 .more = "async: at the end of a run; node: after each node; launch: after each launch, as with "
		 "CUDA_LAUNCH_BLOCKING=1, which means the same. An error that shows only at the end of an "
		 "async run is looked for by repeating the run once, in a process of its own, with launch."},
	{ROW("no-blame", F_BOOL, no_blame, DEVICE, CMD_RUNS),
	 .help = "do not repeat a failed run to find the node that failed"},
	{ROW("context", F_ENUM, config.context, DEVICE, CMD_RUNS), .def = "primary",
	 .choices = "primary|own", .arg = "WHICH", .env = "INFER_CONTEXT",
	 .help = "the CUDA context to run in",
	 .more = "primary: the one that the CUDA runtime and other libraries of the process use; own: one that "
		 "is made for the session alone. cuDNN's convolutions wake the primary one even then, which takes "
		 "about half a GiB of the device."},
	{ROW("cuda-graph", F_ENUM, config.cuda_graph, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, graph_axis), .def = "auto", .choices = "auto|off",
	 .arg = "WHEN", .env = "INFER_CUDA_GRAPH",
	 .help = "replay launches as CUDA graphs from the second run on",
	 .more = "auto: wherever the launches are the same in each run. off: always launch one by one."},
	{ROW("tune", F_ENUM, config.tune, DEVICE, CMD_RUNS), .def = "quick",
	 .choices = "quick|full|off", .arg = "HOW", .env = "INFER_TUNE",
	 .help = "how long to look for a GPU's fastest kernels",
	 .more = "quick: about a second when a model is first run with a shape; full: everything, also what must "
		 "be compiled, which takes minutes; off: the library's own choice. What was found is kept on disk: "
		 "see --cache."},
	{ROW("cache", F_STRING, config.cache, DEVICE, CMD_RUNS | CMD_CACHE), .arg = "DIR|off",
	 .env = "INFER_CACHE_DIR", .metavar_kind = "dir", .help = "where tuning results are kept",
	 .more = "The default is infer in $XDG_CACHE_HOME, or in .cache of the home folder. What belongs to another "
		 "GPU, driver or library is not used. infer cache lists and clears it."},
	{ROW("threads", F_INT, config.threads, DEVICE, CMD_RUNS), .sh = 't',
	 .axis = offsetof(struct options, threads_axis), .def = "0", .min = 0, .max = 1024,
	 .arg = "N", .env = "INFER_THREADS", .help = "threads to compute with; 0: one a core"},
	{ROW("optimize", F_ENUM, config.optimize, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .axis = offsetof(struct options, optimize_axis), .def = "full",
	 .choices = "none|basic|full", .arg = "LEVEL", .env = "INFER_OPTIMIZE",
	 .help = "how far the graph is rewritten before it runs",
	 .more = "none does only what is needed to run; basic adds exact rewrites; full adds those that change "
		 "the order of roundings, such as fusions."},
	{ROW("memory-plan", F_BOOL, config.memory_plan, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .axis = offsetof(struct options, plan_axis), .def = "on", .arg = "on|off",
	 .help = "values may share memory",
	 .more = "off gives each value memory of its own, which helps to find a fault."},
	{ROW("arena", F_BOOL, config.arena, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, arena_axis), .def = "on", .arg = "on|off",
	 .help = "memory of values is kept from run to run",
	 .more = "off takes it anew for each run and gives it back before the next."},
	{ROW("memory-limit", F_SIZE, config.memory_limit, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .def = "0", .arg = "SIZE", .env = "INFER_MEMORY_LIMIT",
	 .help = "refuse a plan that needs more, as 512MiB; 0: none",
	 .more = "Fails before anything runs, naming the largest tensors."},
	{ROW("external-root", F_STRING, config.external_root, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .arg = "DIR", .env = "INFER_EXTERNAL_ROOT", .metavar_kind = "dir",
	 .help = "weights may also be read from this folder",
	 .more = "External data are read only from the model's folder, from the folder of the file that the "
		 "model is a link to, or from here."},

	{ROW("json", F_BOOL, json, COMMON, CMD_ALL), .help = "one JSON document on standard output"},
	{ROW("config", F_STRING, config_file, COMMON, CMD_ALL), .arg = "FILE",
	 .flags = OPTION_COMMAND_LINE, .env = "INFER_CONFIG", .metavar_kind = "file",
	 .help = "read options from a YAML file",
	 .more = "Keys are the names of the long options; a list stands for an option given repeatedly, and so "
		 "does a mapping for options of the form NAME=VALUE. Relative paths in it start at the "
		 "current folder. The environment and the command line override the file; a list that they "
		 "give replaces the file's. Options of other subcommands may stand there."},
	{ROW("timeout", F_DURATION, timeout, COMMON, CMD_ALL), .def = "0", .arg = "SECONDS",
	 .env = "INFER_TIMEOUT", .help = "end with status 124 after this time; 0: never",
	 .more = "A unit may follow: 200ms, 3s, 2m."},
	{ROW("color", F_ENUM, color, COMMON, CMD_ALL), .def = "auto", .choices = "auto|always|never",
	 .arg = "WHEN", .env = "INFER_COLOR", .help = "color in messages",
	 .more = "auto colors what goes to a terminal, unless NO_COLOR is set."},
	{ROW("verbose", F_INT, verbose, COMMON, CMD_ALL), .sh = 'v', .def = "0",
	 .help = "say more; repeatable"},
	{ROW("quiet", F_BOOL, quiet, COMMON, CMD_ALL), .sh = 'q',
	 .help = "say nothing but errors on standard error"},
	{ROW("help", F_BOOL, help, COMMON, CMD_ALL), .sh = 'h', .flags = OPTION_COMMAND_LINE,
	 .help = "show this help"},
	{ROW("version", F_BOOL, version, COMMON, CMD_ALL), .flags = OPTION_COMMAND_LINE,
	 .help = "show the version"},
	{.name = NULL},
};
