/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/command.h"

#include <string.h>

static const struct example run_examples[] = {
	{"Run a classifier on a picture and print the five best classes:",
	 "infer run resnet50.onnx --input photo.jpg,resize=224x224,scale=1/255,"
	 "mean=0.485/0.456/0.406,std=0.229/0.224/0.225 --top 5 --labels classes.txt"},
	{"Read the text of a picture:",
	 "infer run rec.onnx --input x=line.png,order=bgr,resize=x48,scale=1/255,mean=0.5/0.5/0.5,"
	 "std=0.5/0.5/0.5 --decode ctc --labels meta:character"},
	{"Make inputs up, with a batch of four, and save the outputs:",
	 "infer run model.onnx --random -1..1 --dim batch=4 -o out"},
	{"Run a case in the layout of ONNX's own tests:",
	 "infer run model.onnx --data-set test_data_set_0 -o out --save-format pb"},
	{NULL, NULL},
};

static const struct example inspect_examples[] = {
	{"What a model takes and gives:", "infer inspect model.onnx"},
	{"Which nodes do the most work, at a batch of eight:",
	 "infer inspect model.onnx --cost --dim batch=8"},
	{"What the optimizer made of the graph:", "infer inspect model.onnx --stage opt"},
	{"A picture of the graph:", "infer inspect model.onnx --dot | dot -Tsvg >model.svg"},
	{"What is in a tensor:", "infer inspect out/logits.npy"},
	{"Every operator that this build runs:", "infer inspect --ops"},
	{NULL, NULL},
};

static const struct example profile_examples[] = {
	{"How long a run takes:", "infer profile model.onnx"},
	{"Which nodes the time goes to:", "infer profile model.onnx --nodes --top 20"},
	{"Latency over batch sizes, as a page:",
	 "infer profile model.onnx --shapes-sweep batch=1..16 --export sweep.html"},
	{"CPU against GPU, and threads:",
	 "infer profile model.onnx --compare-device cpu,cuda --threads 1,2,4"},
	{"A gate for continuous integration:",
	 "infer profile model.onnx --baseline main.json --fail-above 5%"},
	{"A trace to look at in Perfetto:", "infer profile model.onnx --trace trace.json"},
	{NULL, NULL},
};

static const struct example check_examples[] = {
	{"Whether a model is sound, with inputs made up:", "infer check model.onnx"},
	{"Everything that applies, as a page, too:", "infer check model.onnx --all --html report.html"},
	{"Whether an input fits, and whether the outputs are those of the reference:",
	 "infer check model.onnx --data-set test_data_set_0"},
	{"Whether memory keeps growing, over all batch sizes to 16:",
	 "infer check model.onnx --leak --shapes-sweep batch=1..16"},
	{"Where the GPU's numbers leave the CPU's:", "infer check model.onnx --compare cpu,cuda"},
	{"What another program does wrong with CUDA:", "infer check -- python app.py"},
	{NULL, NULL},
};

static const struct example doctor_examples[] = {
	{"What this machine offers:", "infer doctor"},
	{"The same for a program:", "infer doctor --json"},
	{NULL, NULL},
};

static const struct example cache_examples[] = {
	{"What tuning left on disk:", "infer cache ls"},
	{"Start anew:", "infer cache clear"},
	{NULL, NULL},
};

static const struct example completion_examples[] = {
	{"For this shell only:", "source <(infer completion bash)"},
	{"For every new shell of a user:",
	 "infer completion fish >~/.config/fish/completions/infer.fish"},
	{NULL, NULL},
};

const struct command commands[] = {
	{
		.name = "run",
		.summary = "execute a model; print outputs, times and memory",
		.synopsis = "MODEL [OPTION]...",
		.run = cmd_run,
		.bit = CMD_RUN,
		.operand_kind = "file",
		.least = 1,
		.most = 1,
		.about = "Runs the ONNX model once. Inputs come from files, from a data set in ONNX's "
			 "layout, or are made up; an input that does not fit the model is refused before "
			 "any of it is read into a tensor, with what was expected, what was found, and "
			 "what would fix it.\n\n"
			 "A summary goes to standard error: the model, the device, every input and output "
			 "with type, shape and range, times, and memory. Standard output holds only what "
			 "--print, --top, --decode or --json ask for.",
		.examples = run_examples,
	},
	{
		.name = "inspect",
		.summary = "show what is in a model or a tensor file; needs no device",
		.synopsis = "MODEL|TENSOR|REPORT [OPTION]...",
		.run = cmd_inspect,
		.bit = CMD_INSPECT,
		.operand_kind = "file",
		.least = 0,
		.most = 1,
		.about = "Shows a model's versions, producer and metadata, inputs and outputs, parameters "
			 "by type, and operators with their counts and since-versions. Of a tensor file "
			 "(.npy, .npz, .pb) it shows type, shape, statistics, the numbers of NaN and "
			 "infinite elements, and the likely layout; of a report that another command wrote "
			 "with --json, what that says.",
		.examples = inspect_examples,
	},
	{
		.name = "profile",
		.summary = "measure where time and memory go; compare; a verdict for CI",
		.synopsis = "MODEL [OPTION]...",
		.run = cmd_profile,
		.bit = CMD_PROFILE,
		.operand_kind = "file",
		.least = 1,
		.most = 1,
		.about = "Runs the model again and again and tells how long it takes: loading, preparing, the "
			 "first run, the first run of each new shape, and the steady state, with percentiles. "
			 "Outliers and unstable clocks are warned of. Inputs that are not given are made up.\n\n"
			 "--nodes tells the time of each node, of which a fused one names those it stands for. "
			 "Memory is told by phase and purpose. Sweeps over shapes and comparisons of devices and "
			 "settings make one table. With a baseline it says whether the model became slower or "
			 "bigger, so that a machine's noise is no alarm, and which nodes did.\n\n"
			 "The report goes to standard output, messages and a progress bar to standard error. "
			 "Interrupted, it tells what was gathered so far.",
		.examples = profile_examples,
	},
	{
		.name = "check",
		.summary = "find what is wrong with a model, its inputs, its numbers, its memory, its device",
		.synopsis = "MODEL [OPTION]... | [OPTION]... -- COMMAND [ARG]...",
		.run = cmd_check,
		.bit = CMD_CHECK,
		.operand_kind = "file",
		.least = 1,
		.most = 1,
		.about =
			"Looks for what is wrong and says it as findings, each with a stable id, the node or "
			"input it is about, what was expected and found, and what would cure it. Without an "
			"option: the model beyond its schema, what the device supports, every input against "
			"the model, one run, and outputs that are finite and not all zero. Inputs that are not "
			"given are made up.\n\n"
			"The report goes to standard output, one line a check, findings below; with --json it "
			"is one document. The exit status is that of the lowest class among the errors; "
			"warnings and notes do not change it.\n\n"
			"With -- COMMAND it starts another program and watches what that does with CUDA: contexts "
			"and what they own, calls that cross them or fail, copies beyond host memory, device "
			"pointers used on the host, memory by the library that holds it. The program's own "
			"status passes through where nothing was found. It needs a GPU and CUPTI.",
		.examples = check_examples,
	},
	{
		.name = "doctor",
		.summary = "tell which devices and libraries are there, and why others are not",
		.synopsis = "[OPTION]...",
		.run = cmd_doctor,
		.bit = CMD_DOCTOR,
		.operand_kind = "none",
		.least = 0,
		.most = 0,
		.about = "Lists the devices a model can run on, and the libraries that are opened when they are "
			 "wanted: the CUDA driver, NVML, cuBLASLt, cuDNN, NVRTC, oneDNN, and those that read "
			 "pictures. Each comes with its version and path, or with where it was looked for.",
		.examples = doctor_examples,
	},
	{
		.name = "cache",
		.summary = "list or clear what tuning for a GPU left on disk",
		.synopsis = "ls|clear [OPTION]...",
		.run = cmd_cache,
		.bit = CMD_CACHE,
		.operand_kind = "=ls|clear",
		.least = 1,
		.most = 1,
		.about = "Which kernels are the fastest on a GPU is found out by trying, and kept on disk, with "
			 "plans and compiled kernels: a folder for each GPU and driver. ls tells what is there; "
			 "clear removes it, which costs nothing but the time to find it out again.",
		.examples = cache_examples,
	},
	{
		.name = "completion",
		.summary = "print the completion script of a shell",
		.synopsis = "bash|zsh|fish",
		.run = cmd_completion,
		.bit = CMD_COMPLETION,
		.operand_kind = "=bash|zsh|fish",
		.least = 1,
		.most = 1,
		.about = "Prints a script that completes subcommands, options, their values, files, and the "
			 "names of a model's inputs and dimensions. make install puts the scripts where "
			 "the shells look for them.",
		.examples = completion_examples,
	},
	{.name = NULL},
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}
