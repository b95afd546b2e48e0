/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "base/str.h"
#include "base/yaml.h"
#include "cmd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OFF(member) .off = offsetof(struct options, member)
#define INPUTS	    .group = "Inputs"
#define OUTPUTS	    .group = "Outputs"
#define DEVICE	    .group = "Device and execution"
#define SHOW	    .group = "What to show"
#define CHECKS	    .group = "What to check", .cmds = CMD_CHECK
#define TIMING	    .group = "Measuring", .cmds = CMD_PROFILE
#define EXPORTS	    .group = "Reports and baselines", .cmds = CMD_PROFILE
#define WATCHING    .group = "Watching another program", .cmds = CMD_CHECK
#define COMMON	    .group = "General", .cmds = CMD_ALL

/* ---- the table */

const struct field options_table[] = {
	{.name = "input",
	 .type = F_LIST,
	 OFF(input),
	 .arg = "[NAME=]FILE[,KEY=VALUE]...",
	 INPUTS,
	 .cmds = CMD_RUNS,
	 .metavar_kind = "input",
	 .help = "read an input from a file; repeatable",
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
	{.name = "data-set",
	 .type = F_STRING,
	 OFF(data_set),
	 .arg = "DIR",
	 INPUTS,
	 .cmds = CMD_RUNS,
	 .metavar_kind = "dir",
	 .help = "read inputs from DIR/input_K.pb, by position",
	 .more = "The layout of the test_data_set_N folders of ONNX's own test cases and of its model zoo. "
		 "input_K.npy is taken where there is no input_K.pb."},
	{.name = "random",
	 .type = F_LIST,
	 OFF(random),
	 .arg = "[NAME=]LO..HI",
	 INPUTS,
	 .cmds = CMD_RUNS,
	 .metavar_kind = "name",
	 .help = "make an input's values up between LO and HI; repeatable",
	 .more = "Without NAME: every input that nothing else gives. Integer inputs get integers, bool inputs "
		 "false and true. Each input that was made up is said on standard error."},
	{.name = "seed",
	 .type = F_INT,
	 OFF(seed),
	 .def = "0",
	 .arg = "N",
	 INPUTS,
	 .cmds = CMD_RUNS,
	 .env = "INFER_SEED",
	 .help = "where the made-up values start",
	 .more = "The same seed gives the same values on every machine."},
	{.name = "shape",
	 .type = F_LIST,
	 OFF(shape),
	 .arg = "NAME=1x3x224x224",
	 INPUTS,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .metavar_kind = "name",
	 .help = "the shape of an input; repeatable"},
	{.name = "dim",
	 .type = F_LIST,
	 OFF(dim),
	 .arg = "NAME=N",
	 INPUTS,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .metavar_kind = "dim",
	 .help = "bind a free dimension, as batch=4; repeatable",
	 .more = "INPUT.NAME=N binds the dimension of one input. A free dimension that is not given is taken "
		 "from the input's file where only one is free; one that nothing binds is 1, with a "
		 "warning."},
	{.name = "strict",
	 .type = F_BOOL,
	 OFF(strict),
	 INPUTS,
	 .cmds = CMD_RUNS,
	 .help = "a free dimension that nothing binds is an error"},

	{.name = "shapes-sweep",
	 .type = F_LIST,
	 OFF(sweep),
	 .arg = "DIM=A..B[:STEP]",
	 INPUTS,
	 .cmds = CMD_CHECK | CMD_PROFILE,
	 .metavar_kind = "dim",
	 .help = "go through the sizes of a free dimension, as batch=1..16; repeatable",
	 .more = "INPUT.NAME=5..100:5 goes through the dimension of one input in steps of five."},

	{.name = "save",
	 .sh = 'o',
	 .type = F_STRING,
	 OFF(save),
	 .arg = "DIR",
	 OUTPUTS,
	 .cmds = CMD_RUN | CMD_CHECK,
	 .metavar_kind = "dir",
	 .help = "write every output to a file in DIR",
	 .more = "A file is written whole or not at all. DIR is made where it does not exist. infer check "
		 "writes there what --bisect finds."},
	{.name = "save-format",
	 .type = F_ENUM,
	 OFF(save_format),
	 .def = "npy",
	 .choices = "npy|npz|pb|bin|json|png",
	 .arg = "FORMAT",
	 OUTPUTS,
	 .cmds = CMD_RUN,
	 .help = "format of the files",
	 .more = "npz is one file with all outputs; pb writes output_K.pb by position; bin holds the bare "
		 "elements; png takes outputs that look like pictures (a mask, a heat map)."},
	{.name = "print",
	 .type = F_INT,
	 OFF(print),
	 .arg = "[N]",
	 .implied = "100",
	 .min = 0,
	 .max = INFINITY,
	 OUTPUTS,
	 .cmds = CMD_RUN,
	 .help = "print the first N values of each output (100; 0: all)"},
	{.name = "top",
	 .type = F_INT,
	 OFF(top),
	 .def = "0",
	 .min = 0,
	 .max = 1e9,
	 .arg = "K",
	 OUTPUTS,
	 .cmds = CMD_RUN | CMD_PROFILE,
	 .help = "the K largest: values along the last axis (run), nodes of the table (profile; 0: all)",
	 .more = "With --labels, the names of the classes stand beside them."},
	{.name = "decode",
	 .type = F_STRING,
	 OFF(decode),
	 .arg = "ctc[:blank=N]",
	 OUTPUTS,
	 .cmds = CMD_RUN,
	 .metavar_kind = "=ctc",
	 .help = "print the text that an output spells",
	 .more = "ctc takes the best class of each step, merges repeats and drops the blank, which is class 0 "
		 "unless blank=N says another. With one more class than labels the blank has no label, with "
		 "two more the last is a space; any other count is an error."},
	{.name = "labels",
	 .type = F_STRING,
	 OFF(labels),
	 .arg = "FILE|meta:KEY",
	 OUTPUTS,
	 .cmds = CMD_RUN,
	 .metavar_kind = "file",
	 .help = "names of the classes, one a line, or from the model's metadata"},

	{.name = "nodes",
	 .type = F_BOOL,
	 OFF(nodes),
	 SHOW,
	 .cmds = CMD_INSPECT | CMD_PROFILE,
	 .help = "a table of the nodes: their types and shapes, their times",
	 .more = "inspect tells every node with the types and shapes of its outputs. profile observes some runs "
		 "and tells each node's time, share, work and memory; since observing costs, the plain runs' "
		 "time stands beside the observed ones'. On a GPU CUPTI tells the kernels of each node and their times, "
		 "where it is there and no other tool has it; else events in the stream do, whose times hold the short "
		 "rests between the kernels of a node, too. Observed runs are launched one by one, in plain ones a CUDA "
		 "graph is; a device that waits for launches would be seen as slow, so it is held until all is queued, "
		 "which is left out of the run. What lies between nodes is a row of its own."},
	{.name = "weights",
	 .type = F_BOOL,
	 OFF(weights),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "every initializer with statistics"},
	{.name = "cost",
	 .type = F_BOOL,
	 OFF(cost),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "multiply-adds, FLOPs and bytes moved, by node and in all",
	 .more = "A multiply-add (MAC) counts as two FLOPs. Free dimensions must be bound with --dim or "
		 "--shape, else they count as 1."},
	{.name = "memory",
	 .type = F_BOOL,
	 OFF(memory),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "planned memory and its peak",
	 .more = "What a run with these dimensions will hold at most, by purpose; the program and its "
		 "libraries come on top, with some 30 MiB."},
	{.name = "stage",
	 .type = F_ENUM,
	 OFF(stage),
	 .choices = "file|graph|opt|plan",
	 .arg = "STAGE",
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "the graph as a stage of the pipeline leaves it",
	 .more = "file: as it was read; graph: upgraded to the newest operator versions; opt: rewritten; "
		 "plan: the steps that run, with their kernels and memory."},
	{.name = "passes",
	 .type = F_BOOL,
	 OFF(passes),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "the passes that rewrite the graph, in order, and what each did",
	 .more = "How much each pass changed, and how many nodes it left. --optimize says which passes run."},
	{.name = "explain",
	 .type = F_BOOL,
	 OFF(explain),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "which rewrites were made, where, and which were not and why",
	 .more = "A rewrite that lies over a part of the graph and is refused tells its reason: another use of a "
		 "value inside, a type, a shape that is not known. Those that lie nowhere are named at the end."},
	{.name = "ops",
	 .type = F_BOOL,
	 OFF(ops),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "without a model: the operators, versions and types this build runs"},
	{.name = "dot",
	 .type = F_BOOL,
	 OFF(dot),
	 SHOW,
	 .cmds = CMD_INSPECT,
	 .help = "the graph in Graphviz's language"},

	{.name = "all",
	 .type = F_BOOL,
	 OFF(check.all),
	 CHECKS,
	 .help = "every check that applies, cheap to dear"},
	{.name = "expect",
	 .type = F_LIST,
	 OFF(check.expect),
	 .arg = "[NAME=]FILE",
	 CHECKS,
	 .metavar_kind = "file",
	 .help = "compare an output with a reference; repeatable",
	 .more = "With --data-set the references are its output_K.pb."},
	{.name = "rtol",
	 .type = F_DOUBLE,
	 OFF(check.rtol),
	 .def = "1e-3",
	 .min = 0,
	 .max = INFINITY,
	 .arg = "NUMBER",
	 CHECKS,
	 .help = "relative tolerance of a comparison"},
	{.name = "atol",
	 .type = F_DOUBLE,
	 OFF(check.atol),
	 .def = "1e-7",
	 .min = 0,
	 .max = INFINITY,
	 .arg = "NUMBER",
	 CHECKS,
	 .help = "absolute tolerance of a comparison"},
	{.name = "metric",
	 .type = F_ENUM,
	 OFF(check.metric),
	 .def = "maxabs",
	 .choices = "maxabs|cosine|l2",
	 .arg = "NAME",
	 CHECKS,
	 .help = "how far two outputs are apart",
	 .more = "maxabs: no element may differ by more than atol + rtol x |reference|; cosine: 1 less the "
		 "cosine of the angle between the two, and l2: the length of the difference over the "
		 "reference's, may be rtol at most."},
	{.name = "compare",
	 .type = F_STRING,
	 OFF(check.compare),
	 .arg = "A[,B]",
	 CHECKS,
	 .metavar_kind = "=cpu|cpu,cuda|fp32,tf32|fp32,fp16|none,full|plan,noplan",
	 .help = "run two ways and compare node by node, to the first that differs",
	 .more = "A and B are devices (cpu, cuda), precisions, levels of --optimize, or plan and noplan (memory "
		 "plan on and off). One alone is compared with the run that the other options ask for."},
	{.name = "nan",
	 .type = F_BOOL,
	 OFF(check.nan),
	 CHECKS,
	 .help = "the first tensor that is not finite, and where numbers get lost"},
	{.name = "zero",
	 .type = F_BOOL,
	 OFF(check.zero),
	 CHECKS,
	 .help = "outputs that are all zero, constant, or the same for other inputs"},
	{.name = "layout",
	 .type = F_BOOL,
	 OFF(check.layout),
	 CHECKS,
	 .help = "whether pictures look as if their axes or channels were in another order"},
	{.name = "determinism",
	 .type = F_INT,
	 OFF(check.determinism),
	 .def = "0",
	 .min = 0,
	 .max = 1e9,
	 .arg = "N",
	 CHECKS,
	 .help = "whether N runs give the same bits"},
	{.name = "leak",
	 .type = F_BOOL,
	 OFF(check.leak),
	 CHECKS,
	 .help = "whether memory keeps growing from run to run",
	 .more = "The verdict is stable, grows then flat (an arena fills, no leak), or leak. A significant "
		 "upward trend is a leak however small; 5 MiB of host memory and 200 MiB of device memory "
		 "bound what an arena may take until it is flat."},
	{.name = "runs",
	 .type = F_INT,
	 OFF(check.runs),
	 .def = "0",
	 .min = 0,
	 .max = 1e9,
	 .arg = "N",
	 CHECKS,
	 .help = "runs of --leak; 0: as many as it takes, up to 500"},
	{.name = "recreate",
	 .type = F_BOOL,
	 OFF(check.recreate),
	 CHECKS,
	 .help = "with --leak: also open and close the model again and again"},
	{.name = "contexts",
	 .type = F_BOOL,
	 OFF(check.contexts),
	 CHECKS,
	 .help = "CUDA contexts of this process, and who else uses the GPU"},
	{.name = "bisect",
	 .type = F_BOOL,
	 OFF(check.bisect),
	 CHECKS,
	 .help = "the smallest part of the model that still shows the fault; -o DIR writes it"},
	{.name = "pid",
	 .type = F_INT,
	 OFF(watch.pid),
	 .min = 1,
	 .max = 1 << 22,
	 .arg = "PID",
	 WATCHING,
	 .help = "look at the memory of a running process from outside",
	 .more = "Private memory of the host over time, until the process ends, Ctrl-C, or --duration is over, "
		 "with the verdict of --leak; that of devices where NVML tells it. SIGUSR1 and --interval report on "
		 "the way. What else 'check -- COMMAND' finds needs the program to be started by it."},
	{.name = "interval",
	 .type = F_DURATION,
	 OFF(watch.interval),
	 .arg = "TIME",
	 WATCHING,
	 .help = "report each so often, too, as 10s",
	 .more = "SIGUSR1 makes it report at once."},
	{.name = "report-api-errors",
	 .type = F_ENUM,
	 OFF(watch.errors),
	 .def = "explicit",
	 .choices = "no|explicit|all",
	 .arg = "WHICH",
	 WATCHING,
	 .help = "which failing CUDA calls are told",
	 .more = "explicit: all but those that fail by design, such as questions whose answer is an error; all: "
		 "these as well; no: only asynchronous errors and crossings of contexts."},
	{.name = "heap",
	 .type = F_ENUM,
	 OFF(watch.heap),
	 .def = "on",
	 .choices = "off|on|all",
	 .arg = "WHICH",
	 WATCHING,
	 .help = "blocks of malloc's whose ends copies are held to",
	 .more = "on: those of 512 bytes or more; all: those of 64 or more, which slows the program; off: none. "
		 "A library is loaded before the program for it (LD_PRELOAD), which also gives CUPTI to a profiler "
		 "in the program that asks for it, and hears of faults before the program's own handlers; off loads none."},
	{.name = "error-exitcode",
	 .type = F_INT,
	 OFF(watch.error_exit),
	 .min = 1,
	 .max = 255,
	 .arg = "N",
	 WATCHING,
	 .help = "exit with this status where there are errors, instead of that of their class"},
	{.name = "suppressions",
	 .type = F_STRING,
	 OFF(watch.suppressions),
	 .arg = "FILE",
	 WATCHING,
	 .metavar_kind = "file",
	 .help = "findings that are known and not told",
	 .more = "A line each: an id (E-CUDA-1, E-CTX-*), and after a space a pattern (* and ?) that some line of the "
		 "finding matches. # begins a comment. An id that no finding has is an error; a line that matched "
		 "nothing is told at the end."},
	{.name = "write-suppressions",
	 .type = F_STRING,
	 OFF(watch.suppress_all),
	 .arg = "FILE",
	 WATCHING,
	 .metavar_kind = "file",
	 .help = "write lines for --suppressions, of all that is told",
	 .more = "A line for each finding but notes: its id, and who made which call, with * for what changes from run to "
		 "run (numbers, addresses, places in the code). What --suppressions leaves out is not written again."},
	{.name = "iterations",
	 .sh = 'n',
	 .type = F_INT,
	 OFF(iterations),
	 .min = 1,
	 .max = 1e8,
	 .arg = "N",
	 TIMING,
	 .help = "runs to measure",
	 .more = "Without it, as many as --duration holds, and five at least. With both, whichever is reached "
		 "first."},
	{.name = "duration",
	 .type = F_DURATION,
	 OFF(duration),
	 .arg = "TIME",
	 .group = "Measuring",
	 .cmds = CMD_PROFILE | CMD_CHECK,
	 .help = "how long to measure, as 3s (the default; 1s for each point of a sweep)"},
	{.name = "warmup",
	 .type = F_STRING,
	 OFF(warmup),
	 .def = "200ms",
	 .arg = "N|TIME",
	 TIMING,
	 .help = "runs before the first that counts, as 10, or their time, as 200ms",
	 .more = "The first run is told apart in any case."},
	{.name = "percentile",
	 .type = F_FLOATS,
	 OFF(percentile),
	 .def = "50,90,95,99",
	 .min = 0,
	 .max = 100,
	 .arg = "P[,P]...",
	 TIMING,
	 .help = "percentiles of the latency to tell"},
	{.name = "transfers",
	 .type = F_ENUM,
	 OFF(transfers),
	 .def = "include",
	 .choices = "include|exclude|split",
	 .arg = "HOW",
	 TIMING,
	 .help = "copies to and from the device in the latency",
	 .more = "include: they are part of it; exclude: it is what remains without them; split: host to device, "
		 "compute and device to host are told side by side. They are taken from observed runs, at each point of a "
		 "sweep. On the CPU there are none."},
	{.name = "sort",
	 .type = F_ENUM,
	 OFF(sort),
	 .def = "time",
	 .choices = "time|order|memory",
	 .arg = "KEY",
	 TIMING,
	 .help = "order of the table of nodes"},
	{.name = "sessions",
	 .type = F_INT,
	 OFF(sessions),
	 .axis = offsetof(struct options, sessions_axis),
	 .def = "1",
	 .min = 1,
	 .max = 256,
	 .arg = "N[,N]...",
	 TIMING,
	 .help = "sessions that run side by side, each in a thread and, on a GPU, a stream of its own"},
	{.name = "streams",
	 .type = F_INT,
	 OFF(streams),
	 .axis = offsetof(struct options, streams_axis),
	 .def = "1",
	 .min = 1,
	 .max = 256,
	 .arg = "N[,N]...",
	 TIMING,
	 .help = "streams of a GPU that work side by side, each with a session of its own"},
	{.name = "compare-device",
	 .type = F_STRING,
	 OFF(compare_device),
	 .arg = "A,B[,C]...",
	 TIMING,
	 .metavar_kind = "=cpu|cpu,cuda|cuda",
	 .help = "measure on each of these devices",
	 .more = "Likewise a list given to --threads, --sessions, --streams, --memory-plan, --arena, --optimize, "
		 "--precision or --cuda-graph measures each of its values; all combinations make one table. "
		 "Each is measured in a process of its own."},
	{.name = "html",
	 .type = F_STRING,
	 OFF(html),
	 .arg = "FILE",
	 .group = "Reports and baselines",
	 .cmds = CMD_CHECK | CMD_INSPECT,
	 .metavar_kind = "file",
	 .help = "write the report as a page, too"},
	{.name = "trace",
	 .type = F_STRING,
	 OFF(trace),
	 .arg = "FILE",
	 EXPORTS,
	 .metavar_kind = "file",
	 .help = "write a trace for Perfetto or chrome://tracing",
	 .more = "The observed runs: nodes, kernels, copies, and memory as counters. With - the trace goes to standard "
		 "output and the report to standard error."},
	{.name = "export",
	 .type = F_LIST,
	 OFF(exports),
	 .arg = "FILE.json|.csv|.md|.html",
	 EXPORTS,
	 .metavar_kind = "file",
	 .help = "write the report to a file; what it is follows from its name; repeatable",
	 .more = "json: everything, with all samples; csv: a line a sample; md: tables for a pull request; html: "
		 "one page with plots that needs no network."},
	{.name = "save-baseline",
	 .type = F_STRING,
	 OFF(save_baseline),
	 .arg = "FILE",
	 EXPORTS,
	 .metavar_kind = "file",
	 .help = "write what later runs are compared with",
	 .more = "It is measured in ten processes, one after the other, for twice as long. On a machine where others work, "
		 "each measures up to four times longer, until some runs were undisturbed. With - it goes to standard "
		 "output and the report to standard error."},
	{.name = "baseline",
	 .type = F_STRING,
	 OFF(baseline),
	 .arg = "FILE",
	 EXPORTS,
	 .metavar_kind = "file",
	 .help = "compare with what --save-baseline wrote",
	 .more = "Another model, device, driver or precision, other shapes of the inputs or settings are refused before "
		 "the first run, unless --force is given."},
	{.name = "fail-above",
	 .type = F_STRING,
	 OFF(fail_above),
	 .arg = "P%",
	 EXPORTS,
	 .help = "exit with status 9 where the model became slower than the baseline by more than this",
	 .more = "Compares the tenth percentiles of runs in which no thread waited for a core, and fails "
		 "only where the bootstrap interval of their quotient excludes the limit, the machine itself "
		 "(loops of known work, measured in between) explains it on neither side, and a second "
		 "measurement says the same. A node that grew more than all others did counts by itself: that shows "
		 "even on a machine so busy that hardly a run is undisturbed. It tells which nodes became slower."},
	{.name = "fail-above-memory",
	 .type = F_STRING,
	 OFF(fail_above_memory),
	 .arg = "P%|SIZE",
	 EXPORTS,
	 .help = "the same for memory: planned and counted bytes on host and device, and resident bytes"},
	{.name = "force",
	 .type = F_BOOL,
	 OFF(force),
	 EXPORTS,
	 .help = "compare with a baseline of another device, driver, model or precision"},

	{.name = "device",
	 .sh = 'd',
	 .type = F_STRING,
	 OFF(config.device),
	 .def = "auto",
	 .arg = "NAME",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_DEVICE",
	 .metavar_kind = "=auto|cpu|cuda",
	 .help = "where to run: auto, cpu or cuda[:N]",
	 .more = "auto takes a usable CUDA device where this build and the machine have one, else the CPU, and "
		 "says which and why. A device asked for by name is never replaced by another: where it "
		 "cannot be used, the exit status is 8 and the reason is given."},
	{.name = "precision",
	 .type = F_ENUM,
	 OFF(config.precision),
	 .axis = offsetof(struct options, precision_axis),
	 .def = "fp32",
	 .choices = "fp32|tf32|fp16|bf16|auto",
	 .arg = "TYPE",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_PRECISION",
	 .help = "what float tensors may be computed in",
	 .more = "fp32 computes in the types that the model says and rounds once a node. tf32 lets matrix "
		 "products and convolutions of a CUDA device round their fp32 inputs to 10 bits of fraction. fp16 "
		 "and bf16 compute the inside of an fp32 model in that type, its weights converted once; inputs, "
		 "outputs and what is easily spoilt stay fp32. Models that are fp16 or bf16 themselves stay so. "
		 "auto tries all of them on the inputs that are given and takes the fastest whose outputs stay within "
		 "0.01 of the largest value of each of fp32's; it says which, and what each took and was off by. The "
		 "choice is kept in the cache. On the CPU it is fp32."},
	{.name = "sync",
	 .type = F_ENUM,
	 OFF(config.sync),
	 .def = "async",
	 .choices = "async|node|launch",
	 .arg = "WHEN",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_SYNC",
	 .help = "how often a GPU is waited for",
	 .more = "async: at the end of a run; node: after each node; launch: after each launch, as with "
		 "CUDA_LAUNCH_BLOCKING=1, which means the same. An error that shows only at the end of an "
		 "async run is looked for by repeating the run once, in a process of its own, with launch."},
	{.name = "no-blame",
	 .type = F_BOOL,
	 OFF(no_blame),
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .help = "do not repeat a failed run to find the node that failed"},
	{.name = "context",
	 .type = F_ENUM,
	 OFF(config.context),
	 .def = "primary",
	 .choices = "primary|own",
	 .arg = "WHICH",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_CONTEXT",
	 .help = "the CUDA context to run in",
	 .more = "primary: the one that the CUDA runtime and other libraries of the process use; own: one that "
		 "is made for the session alone. cuDNN's convolutions wake the primary one even then, which takes "
		 "about half a GiB of the device."},
	{.name = "cuda-graph",
	 .type = F_ENUM,
	 OFF(config.cuda_graph),
	 .axis = offsetof(struct options, graph_axis),
	 .def = "auto",
	 .choices = "auto|off",
	 .arg = "WHEN",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_CUDA_GRAPH",
	 .help = "replay launches as CUDA graphs from the second run on",
	 .more = "auto: wherever the launches are the same in each run. off: always launch one by one."},
	{.name = "tune",
	 .type = F_ENUM,
	 OFF(config.tune),
	 .def = "quick",
	 .choices = "quick|full|off",
	 .arg = "HOW",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_TUNE",
	 .help = "how long to look for a GPU's fastest kernels",
	 .more = "quick: about a second when a model is first run with a shape; full: everything, also what must "
		 "be compiled, which takes minutes; off: the library's own choice. What was found is kept on disk: "
		 "see --cache."},
	{.name = "cache",
	 .type = F_STRING,
	 OFF(config.cache),
	 .arg = "DIR|off",
	 DEVICE,
	 .cmds = CMD_RUNS | CMD_CACHE,
	 .env = "INFER_CACHE_DIR",
	 .metavar_kind = "dir",
	 .help = "where tuning results are kept",
	 .more = "The default is infer in $XDG_CACHE_HOME, or in .cache of the home folder. What belongs to another "
		 "GPU, driver or library is not used. infer cache lists and clears it."},
	{.name = "threads",
	 .sh = 't',
	 .type = F_INT,
	 OFF(config.threads),
	 .axis = offsetof(struct options, threads_axis),
	 .def = "0",
	 .min = 0,
	 .max = 1024,
	 .arg = "N",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .env = "INFER_THREADS",
	 .help = "threads to compute with; 0: one a core"},
	{.name = "optimize",
	 .type = F_ENUM,
	 OFF(config.optimize),
	 .axis = offsetof(struct options, optimize_axis),
	 .def = "full",
	 .choices = "none|basic|full",
	 .arg = "LEVEL",
	 DEVICE,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .env = "INFER_OPTIMIZE",
	 .help = "how far the graph is rewritten before it runs",
	 .more = "none does only what is needed to run; basic adds exact rewrites; full adds those that change "
		 "the order of roundings, such as fusions."},
	{.name = "memory-plan",
	 .type = F_BOOL,
	 OFF(config.memory_plan),
	 .axis = offsetof(struct options, plan_axis),
	 .def = "on",
	 .arg = "on|off",
	 DEVICE,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .help = "values may share memory",
	 .more = "off gives each value memory of its own, which helps to find a fault."},
	{.name = "arena",
	 .type = F_BOOL,
	 OFF(config.arena),
	 .axis = offsetof(struct options, arena_axis),
	 .def = "on",
	 .arg = "on|off",
	 DEVICE,
	 .cmds = CMD_RUNS,
	 .help = "memory of values is kept from run to run",
	 .more = "off takes it anew for each run and gives it back before the next."},
	{.name = "memory-limit",
	 .type = F_SIZE,
	 OFF(config.memory_limit),
	 .def = "0",
	 .arg = "SIZE",
	 DEVICE,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .env = "INFER_MEMORY_LIMIT",
	 .help = "refuse a plan that needs more, as 512MiB; 0: none",
	 .more = "Fails before anything runs, naming the largest tensors."},
	{.name = "external-root",
	 .type = F_STRING,
	 OFF(config.external_root),
	 .arg = "DIR",
	 DEVICE,
	 .cmds = CMD_RUNS | CMD_INSPECT,
	 .env = "INFER_EXTERNAL_ROOT",
	 .metavar_kind = "dir",
	 .help = "weights may also be read from this folder",
	 .more = "External data are read only from the model's folder, from the folder of the file that the "
		 "model is a link to, or from here."},

	{.name = "json", .type = F_BOOL, OFF(json), COMMON, .help = "one JSON document on standard output"},
	{.name = "config",
	 .type = F_STRING,
	 OFF(config_file),
	 .arg = "FILE",
	 COMMON,
	 .flags = OPTION_COMMAND_LINE,
	 .env = "INFER_CONFIG",
	 .metavar_kind = "file",
	 .help = "read options from a YAML file",
	 .more = "Keys are the names of the long options; a list stands for an option given repeatedly, and so "
		 "does a mapping for options of the form NAME=VALUE. Relative paths in it start at the "
		 "current folder. The environment and the command line override the file; a list that they "
		 "give replaces the file's. Options of other subcommands may stand there."},
	{.name = "timeout",
	 .type = F_DURATION,
	 OFF(timeout),
	 .def = "0",
	 .arg = "SECONDS",
	 COMMON,
	 .env = "INFER_TIMEOUT",
	 .help = "end with status 124 after this time; 0: never",
	 .more = "A unit may follow: 200ms, 3s, 2m."},
	{.name = "color",
	 .type = F_ENUM,
	 OFF(color),
	 .def = "auto",
	 .choices = "auto|always|never",
	 .arg = "WHEN",
	 COMMON,
	 .env = "INFER_COLOR",
	 .help = "color in messages",
	 .more = "auto colors what goes to a terminal, unless NO_COLOR is set."},
	{.name = "verbose",
	 .sh = 'v',
	 .type = F_INT,
	 OFF(verbose),
	 .def = "0",
	 COMMON,
	 .help = "say more; repeatable"},
	{.name = "quiet",
	 .sh = 'q',
	 .type = F_BOOL,
	 OFF(quiet),
	 COMMON,
	 .help = "say nothing but errors on standard error"},
	{.name = "help",
	 .sh = 'h',
	 .type = F_BOOL,
	 OFF(help),
	 COMMON,
	 .flags = OPTION_COMMAND_LINE,
	 .help = "show this help"},
	{.name = "version",
	 .type = F_BOOL,
	 OFF(version),
	 COMMON,
	 .flags = OPTION_COMMAND_LINE,
	 .help = "show the version"},
	{.name = NULL},
};

static bool option_takes(const struct field *f)
{
	return f->arg != NULL;
}

bool option_optional(const struct field *f)
{
	return f->arg && f->implied;
}

/* ---- the command line: what was given, in order, to be applied after file and environment */

struct given {
	const struct field *field;
	const char *text; /* NULL: a flag */
	const char *where;
};

struct parser {
	struct options *o;
	struct given *given;
	size_t ngiven;
	const char **operand;
	size_t noperands;
	int argc, next;
	char *const *argv;
	struct diag *diag;
};

static int unknown_option(const struct parser *p, const char *name, size_t n)
{
	struct diag *d = p->diag;
	char *word = arena_strn(&p->o->arena, name, n);
	const struct field *elsewhere = field_find(options_table, word);
	const char *near = NULL;

	if (elsewhere) {
		struct str s = {.arena = &p->o->arena};
		for (const struct command *c = commands; c->name; c++)
			if (elsewhere->cmds & c->bit)
				str_addf(&s, "%sinfer %s", s.n ? ", " : "", c->name);
		return FAIL(d, E_OPTION,
			    .message = fmt(d, "'infer %s' has no option --%s", p->o->command->name,
					   word),
			    .hint = fmt(d, "it belongs to %s", str_get(&s)));
	}
	for (const struct field *f = options_table; f->name; f++) {
		const char *pair[2] = {near, f->cmds & p->o->command->bit ? f->name : NULL};
		const char *now = str_nearest(word, pair, 2);
		near = now ? now : near;
	}
	return FAIL(d, E_OPTION, .message = fmt(d, "unknown option '--%s'", word),
		    .hint = near ? fmt(d, "did you mean '--%s'?", near)
				 : fmt(d, "see infer %s --help", p->o->command->name));
}

/* The option of this name, or the only one that starts with it. */
static int find_long(const struct parser *p, const char *name, size_t n, const struct field **out)
{
	const struct field *match = NULL, *other = NULL;
	struct diag *d = p->diag;

	for (const struct field *f = options_table; f->name; f++) {
		if (!(f->cmds & p->o->command->bit) || strncmp(f->name, name, n) != 0)
			continue;
		if (f->name[n] == '\0') {
			*out = f;
			return 0;
		}
		if (match)
			other = f;
		else
			match = f;
	}
	if (!match || n == 0)
		return unknown_option(p, name, n);
	if (other)
		return FAIL(d, E_OPTION, .message = fmt(d, "'--%.*s' is ambiguous", (int)n, name),
			    .hint = fmt(d, "it may mean --%s or --%s", match->name, other->name));
	*out = match;
	return 0;
}

static void give(struct parser *p, const struct field *f, const char *text, const char *where)
{
	p->given[p->ngiven++] = (struct given){f, text, where};
}

static bool is_number(const char *s)
{
	return s && isdigit((unsigned char)*s) && s[strspn(s, "0123456789")] == '\0';
}

/* The argument of f: `attached` where it was written together, else the next word. */
static int take_argument(struct parser *p, const struct field *f, const char *attached,
			 const char *where)
{
	struct diag *d = p->diag;
	const char *next = p->next < p->argc ? p->argv[p->next] : NULL;

	if (attached || !option_takes(f)) {
		give(p, f, attached, where);
		return 0;
	}
	if (option_optional(f) && !is_number(next)) {
		give(p, f, f->implied, where);
		return 0;
	}
	if (!next)
		return FAIL(d, E_OPTION, .slot = fmt(d, "%s", where),
			    .message = fmt(d, "a value is missing: %s", f->arg),
			    .hint = fmt(d, "see infer %s --help", p->o->command->name));
	p->next++;
	give(p, f, next, where);
	return 0;
}

static int parse_long(struct parser *p, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	const struct field *f = NULL;
	int rc = find_long(p, word, n, &f);

	if (rc)
		return rc;
	return take_argument(p, f, equals ? equals + 1 : NULL,
			     arena_printf(&p->o->arena, "--%s", f->name));
}

static int parse_short(struct parser *p, const char *word)
{
	struct diag *d = p->diag;

	for (; *word; word++) {
		const struct field *f = options_table;
		while (f->name && !(f->sh == *word && f->cmds & p->o->command->bit))
			f++;
		if (!f->name)
			return FAIL(d, E_OPTION, .message = fmt(d, "unknown option '-%c'", *word),
				    .hint = fmt(d, "see infer %s --help", p->o->command->name));
		const char *where = arena_printf(&p->o->arena, "-%c", *word);
		if (option_takes(f))
			return take_argument(p, f, word[1] ? word + 1 : NULL, where);
		give(p, f, NULL, where);
	}
	return 0;
}

static int parse_words(struct parser *p)
{
	bool only_operands = false;
	int rc = 0;

	while (p->next < p->argc && !rc) {
		const char *word = p->argv[p->next++];
		if (only_operands || word[0] != '-' || word[1] == '\0') {
			p->operand[p->noperands++] = word;
		} else if (strcmp(word, "--") == 0) {
			only_operands = true;
			p->o->after_dashes = p->noperands == 0;
		} else if (word[1] == '-') {
			rc = parse_long(p, word + 2);
		} else {
			rc = parse_short(p, word + 1);
		}
	}
	return rc;
}

/* ---- the sources, in order of precedence */

static const char **origin_of(struct options *o, const struct field *f)
{
	return &o->origin[f - options_table];
}

struct given_item {
	const struct field *field;
	const char *text, *where;
	struct given_item *next;
};

/* The last text of the list was just added. */
static void note_item(struct options *o, const struct field *f, const char *where)
{
	const struct texts *list = (const struct texts *)(const void *)((const char *)o + f->off);

	if (f->type != F_LIST || list->n < 1)
		return;
	struct given_item *item = arena_new(&o->arena, struct given_item);
	*item = (struct given_item){f, list->v[list->n - 1].s, where, o->item};
	o->item = item;
}

static void from_file(void *ctx, const struct field *f, const char *where)
{
	*origin_of(ctx, f) = where;
	note_item(ctx, f, arena_printf(&((struct options *)ctx)->arena, "%s: %s", where, f->name));
}

/* A variable of ours whose name is nearly one that counts would be ignored without a word. */
static void warn_variable(const struct options *o, const char *entry, struct diag *d)
{
	static const char *const others[] = {"LIBRARY_PATH",   "OPENMP",  "FAULT",
					     "FAIL_ALLOC",     "WITHOUT", "BLAME_FD",
					     "AUTO_PRECISION", NULL};
	size_t n = strcspn(entry, "="), prefix = strlen("INFER_");
	const char *near = NULL;

	if (!str_starts(entry, "INFER_") || str_starts(entry, "INFER_WATCH_"))
		return;
	const char *name = fmt(d, "%.*s", (int)(n - prefix), entry + prefix);
	for (const char *const *k = others; *k; k++)
		if (!strcmp(*k, name))
			return;
	for (const struct field *f = options_table; f->name; f++) {
		const char *pair[2] = {near, f->env ? f->env + prefix : NULL};
		if (f->env && !strcmp(pair[1], name))
			return;
		const char *now = str_nearest(name, pair, 2);
		near = now ? now : near;
	}
	near = near ? near : str_nearest(name, others, 2);
	if (near && !o->quiet)
		WARN(d, E_OPTION, .slot = fmt(d, "INFER_%s", name),
		     .message = "no such variable is known, and it has no effect",
		     .hint = fmt(d, "did you mean INFER_%s?", near));
}

static int apply_environment(struct options *o, struct diag *d)
{
	for (char **e = environ; e && *e; e++)
		warn_variable(o, *e, d);
	for (const struct field *f = options_table; f->name; f++) {
		const char *value = f->env && f->cmds & o->command->bit ? getenv(f->env) : NULL;
		if (!value || !*value)
			continue;
		int rc = field_set(f, o, value, f->env, &o->arena, d);
		if (rc)
			return rc;
		*origin_of(o, f) = f->env;
	}
	return 0;
}

static int apply_given(struct options *o, const struct given *all, size_t k, struct diag *d)
{
	const struct given *g = &all[k];
	const struct field *f = g->field;
	char *member = (char *)o + f->off;
	bool first = true;

	for (size_t i = 0; i < k; i++)
		first &= all[i].field != f;
	if (first && f->type == F_LIST)
		*(struct texts *)(void *)member = (struct texts){NULL, 0};
	*origin_of(o, f) = g->where;
	if (g->text || f->type == F_BOOL) {
		int rc = field_set(f, o, g->text ? g->text : "on", g->where, &o->arena, d);
		if (!rc)
			note_item(o, f, g->where);
		return rc;
	}
	/* a flag that counts; given here it starts anew */
	int64_t *count = (int64_t *)(void *)member;
	*count = first ? 1 : *count + 1;
	return 0;
}

static bool asked_for(const struct parser *p, const char *name)
{
	for (size_t i = 0; i < p->ngiven; i++)
		if (strcmp(p->given[i].field->name, name) == 0)
			return true;
	return false;
}

static int load_config(struct parser *p)
{
	const char *path = getenv("INFER_CONFIG");

	for (size_t i = 0; i < p->ngiven; i++)
		if (strcmp(p->given[i].field->name, "config") == 0)
			path = p->given[i].text;
	if (!path || !*path)
		return 0;
	return yaml_load(path, options_table, OPTION_COMMAND_LINE, p->o, from_file, p->o,
			 &p->o->arena, p->diag);
}

static int check_device(const struct options *o, struct diag *d)
{
	static const char *const names[] = {"auto", "cpu", "cuda"};
	const char *name = o->config.device;
	const char *near;

	for (size_t i = 0; i < 3; i++)
		if (strcmp(names[i], name) == 0)
			return 0;
	if (str_starts(name, "cuda:") && is_number(name + 5) && strlen(name + 5) <= 4)
		return 0;
	near = str_starts(name, "gpu") ? "cuda" : str_nearest(name, names, 3);
	return options_fail(o, "device", fmt(d, "no device is called '%s'", name),
			    near ? fmt(d, "did you mean '%s'?", near) : "auto, cpu, cuda or cuda:N",
			    d);
}

/* Lists of values are for comparisons. */
static int check_axes(const struct options *o, struct diag *d)
{
	for (const struct field *f = options_table; f->name; f++) {
		const struct texts *list =
			(const struct texts *)(const void *)((const char *)o + f->axis);
		if (f->axis && list->n > 1 && o->command->bit != CMD_PROFILE)
			return options_fail(o, f->name, "one value is wanted here, not a list",
					    "infer profile compares several", d);
	}
	return 0;
}

static int check_operands(const struct options *o, struct diag *d)
{
	const struct command *c = o->command;

	if (o->noperands < c->least && !(c->bit == CMD_CHECK && o->watch.pid != INT_ABSENT))
		return FAIL(d, E_USAGE, .message = fmt(d, "'infer %s' needs an operand", c->name),
			    .hint = fmt(d, "infer %s %s", c->name, c->synopsis));
	if (o->noperands > c->most && !(o->after_dashes && c->bit == CMD_CHECK))
		return FAIL(d, E_USAGE,
			    .message = fmt(d, "'%s' is one operand too many", o->operand[c->most]),
			    .hint = fmt(d, "infer %s %s", c->name, c->synopsis));
	return 0;
}

static int apply_all(struct parser *p)
{
	struct options *o = p->o;
	int rc = load_config(p);

	if (!rc)
		rc = apply_environment(o, p->diag);
	for (size_t i = 0; i < p->ngiven && !rc; i++)
		rc = apply_given(o, p->given, i, p->diag);
	if (!rc)
		rc = check_axes(o, p->diag);
	if (!rc && o->command->bit & CMD_RUNS)
		rc = check_device(o, p->diag);
	o->config.given[0] = o->input;
	o->config.given[1] = o->random;
	return rc ? rc : check_operands(o, p->diag);
}

int options_parse(struct options *o, const struct command *c, int argc, char *const *argv,
		  struct diag *d)
{
	struct parser p = {.o = o, .argc = argc, .argv = argv, .diag = d};
	size_t rows = sizeof(options_table) / sizeof(*options_table), letters = 1;

	*o = (struct options){.command = c, .config.arena = true};
	if (!field_defaults(options_table, o, &o->arena))
		return FAIL(d, E_INTERNAL, .message = "a default in the table of options is wrong");
	o->origin = arena_new_n(&o->arena, const char *, rows);
	/* A word gives at most as many options as it has letters. */
	for (int i = 0; i < argc; i++)
		letters += strlen(argv[i]);
	p.given = arena_new_n(&o->arena, struct given, letters);
	p.operand = arena_new_n(&o->arena, const char *, (size_t)argc + 1);
	int rc = parse_words(&p);
	o->operand = p.operand;
	o->noperands = p.noperands;
	o->json = asked_for(&p, "json");
	o->help = asked_for(&p, "help");
	o->version = asked_for(&p, "version");
	if (rc || o->help || o->version)
		return rc;
	rc = apply_all(&p);
	if (rc == -E_OPTION && d->last && !d->last->hint)
		d->last->hint = fmt(d, "see infer %s --help", c->name);
	return rc;
}

void options_free(struct options *o)
{
	arena_free(&o->arena);
}

const char *options_origin(const struct options *o, const char *name)
{
	const struct field *f = field_find(options_table, name);
	const char *origin = f && o->origin ? o->origin[f - options_table] : NULL;

	return origin ? origin : "default";
}

const char *options_item_origin(const void *options, const char *name, const char *text)
{
	const struct options *o = options;

	for (const struct given_item *i = o->item; i; i = i->next)
		if (!strcmp(i->field->name, name) && !strcmp(i->text, text))
			return i->where;
	return NULL;
}

struct input_request options_request(const struct options *o)
{
	return (struct input_request){.input = o->input,
				      .random = o->random,
				      .shape = o->shape,
				      .dim = o->dim,
				      .data_set = o->data_set,
				      .seed = o->seed,
				      .strict = o->strict,
				      .origin = options_item_origin,
				      .options = o};
}

int options_blame(const struct options *o, const char *name, int rc, struct diag *d)
{
	const char *origin = options_origin(o, name);

	if (rc && d->last && !d->last->slot && strchr(origin, ':'))
		d->last->slot = fmt(d, "%s: %s", origin, name);
	return rc;
}

int options_fail(const struct options *o, const char *name, const char *message, const char *hint,
		 struct diag *d)
{
	const char *origin = options_origin(o, name);
	bool file = strchr(origin, ':') != NULL;

	return FAIL(d, file ? E_CONFIG : E_OPTION,
		    .slot = file || *origin != '-' ? fmt(d, "%s: %s", origin, name)
						   : fmt(d, "%s", origin),
		    .message = message, .hint = hint);
}
