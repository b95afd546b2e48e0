/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all options. */
#include "cmd/options/options.h"

#include <math.h>
#include <string.h>

#define INPUTS	 "Inputs"
#define STEPS	 "Steps"
#define OUTPUTS	 "Outputs"
#define DEVICE	 "Device and execution"
#define SHOW	 "What to show"
#define CHECKS	 "What to check"
#define TIMING	 "Measuring"
#define EXPORTS	 "Reports and baselines"
#define WATCHING "Watching another program"
#define COMMON	 "General"

/* The columns that every row fills: name, type, member of struct options, heading in --help, subcommands. */
#define ROW(name_, type_, member, group_, cmds_)                                                   \
	.name = (name_), .type = (type_), .off = offsetof(struct options, member),                 \
	.group = (group_), .cmds = (cmds_)

const struct field options_table[] = {
	{ROW("input", F_LIST, input, INPUTS, CMD_RUNS), .arg = "[NAME=]FILE[,KEY=VALUE]...",
	 .metavar_kind = "input",
	 .help = "read an input from a file: an array, a picture (keys resize=WxH, scale=, mean=, std=, order=, exif=off), a sound "
		 "(rate=16000, mono, start=S, duration=S); repeatable",
	 .more = "NAME may be left out if the model has one input; NAME:FILE works too. The content and the extension of "
		 "FILE determine its format: .npy, .npz (keys are input names; arr_K is input K if no key is one), .safetensors (likewise; FILE.safetensors:TENSOR takes one of "
		 "its tensors), .pb (a TensorProto, SequenceProto or "
		 "OptionalProto), .bin or .raw (bare elements), pictures (PNG, JPEG, WebP, TIFF, BMP, PPM, JPEG 2000, HEIF, "
		 "AVIF), sounds (WAV, FLAC, Ogg), .txt or .json for strings and small tensors, - for standard input. Instead of a file, FILE may be a value, unless a file has that "
		 "name: a number (sr=16000), or a JSON array or string in quotes ('ids=[[1,2,3]]', 'text=\"a cat\"').\n\nKeys: "
		 "dtype=u8|i8|u16|i16|i32|i64|f16|bf16|f32|f64|bool, layout=nchw|nhwc|chw|hwc, order=rgb|bgr|gray, "
		 "resize=WxH|Wx|xH|letterbox:WxH (if only one side is given, the other follows from the aspect ratio), "
		 "pad=N, mean=A/B/C, std=A/B/C, scale=1/255, shape=1x3x224x224, format=npy|npz|pb|safetensors|raw|image|sound|txt|json "
		 "(if the extension is misleading), split=AXIS (see below), exif=off, and for sounds rate=N, mono, start=S, duration=S. "
		 "Nothing is converted unless a key asks for it, with two exceptions: a picture is converted to the type and the axis "
		 "order of the model's input, and turned as its EXIF orientation says unless exif=off; samples of a sound become the "
		 "model's floats. A picture becomes (pixel x "
		 "scale - mean) / std, after order; resize is bilinear with half-pixel centres; letterbox keeps the "
		 "aspect ratio, centres the picture, and fills the rest with pad.\n\nSamples of a sound are from -1 to 1, in the "
		 "shape [channels,samples], with axes of 1 before it as the model has them; an input of rank 1 takes a single channel as "
		 "[samples]. mono takes the mean of the channels, rate=16000 resamples with soxr in its high quality (as librosa does), "
		 "start= and duration= are seconds. --slice walks along a sound.\n\nrun takes many inputs at once: FILE may "
		 "be a pattern in quotes ('x=pics/*.jpg'), a folder (all files in it, with those of its subfolders), @LIST (a "
		 "file with one path a line, relative to the current folder), or an array with the key split=AXIS, each slice "
		 "of which is an input. If several inputs of the model name many files, these are paired in order. Files of "
		 "patterns and folders are sorted by their bytes."},
	{ROW("data-set", F_STRING, data_set, INPUTS, CMD_RUNS), .arg = "DIR", .metavar_kind = "dir",
	 .help = "read the inputs from DIR/input_K.pb, by position",
	 .more = "This is the layout of the test_data_set_N folders in ONNX's own test cases and in its model zoo. If "
		 "there is no input_K.pb, input_K.npy is read. For run, DIR may be a pattern in quotes "
		 "('test_data_set_*') or @LIST."},
	{ROW("batch", F_INT, batch, INPUTS, CMD_RUNS), .def = "0", .min = 0, .max = 65536,
	 .arg = "N", .help = "run N inputs at once, stacked along the model's batch dimension",
	 .more = "The batch is the first dimension of the inputs. Without --batch, or with 0, it is what the model fixes, "
		 "and 1 if the model leaves it free. If all inputs are random values, as profile and check make them without "
		 "files, N is the size of that dimension, as --dim sets it. The last run takes the inputs that are left; if the model fixes the "
		 "batch, it is filled by repeating the last input, whose additional results are dropped. Inputs of other "
		 "sizes than their predecessors begin a new run."},
	{ROW("keep-going", F_BOOL, keep_going, INPUTS, CMD_RUN),
	 .help = "with many inputs: go on after an input that fails",
	 .more = "The errors are listed at the end, each with the file of its input, and determine the exit status."},
	{ROW("resume", F_BOOL, resume, INPUTS, CMD_RUN),
	 .help = "with many inputs: leave out those whose results are there",
	 .more = "An input counts as done if its files are in the folder of -o and its line is in the file of --jsonl, as far "
		 "as these are given. An incomplete last line, which a killed run leaves, is removed. Inputs that failed "
		 "are tried again."},
	{ROW("shard", F_STRING, shard, INPUTS, CMD_RUN), .arg = "I/N", .env = "INFER_SHARD",
	 .help = "with many inputs: run part I of N of the list",
	 .more = "Part I has every N-th input, beginning with number I. Without this option the part follows from what started "
		 "the program: a job array of Slurm (SLURM_ARRAY_TASK_ID), a task of srun (SLURM_PROCID), both together, "
		 "mpirun of Open MPI (OMPI_COMM_WORLD_RANK), or an Indexed Job of Kubernetes (JOB_COMPLETION_INDEX), where the "
		 "variable INFER_SHARD_COUNT must tell the number of pods; a note says so. 1/1 runs all inputs. In the names of "
		 "-o, --jsonl and --report, {shard} becomes I-of-N, so that tasks with the same command line write files of "
		 "their own."},
	{ROW("random", F_LIST, random, INPUTS, CMD_RUNS), .arg = "[[NAME=]LO..HI]",
	 .implied = "0..1", .metavar_kind = "range",
	 .help = "fill an input with random values from LO to HI (0 to 1 if left out); repeatable",
	 .more = "Without NAME it applies to every input that no other option gives. Integer inputs get integers, and "
		 "bool inputs get false and true. Where 0..1 says too little the model decides: bytes (u8) of three axes or more are "
		 "pixels from 0 to 255, ids are rows of their table, sizes are 1 unless LO is 1 or more, lengths are whole, and masks hide nothing; NAME=LO..HI "
		 "overrules that. A message on standard error names each input that was filled with "
		 "random values."},
	{ROW("seed", F_INT, seed, INPUTS, CMD_RUNS), .def = "0", .arg = "N", .env = "INFER_SEED",
	 .help = "seed of the random values",
	 .more = "The same seed gives the same values on every machine."},
	{ROW("shape", F_LIST, shape, INPUTS, CMD_RUNS | CMD_INSPECT | CMD_SIMPLIFY),
	 .arg = "NAME=1x3x224x224", .metavar_kind = "name",
	 .help = "set the shape of an input; repeatable"},
	{ROW("dim", F_LIST, dim, INPUTS, CMD_RUNS | CMD_INSPECT | CMD_SIMPLIFY), .arg = "NAME=N",
	 .metavar_kind = "dim",
	 .help = "set the size of a free dimension, for example batch=4; repeatable",
	 .more = "INPUT.NAME=N sets the dimension of one input only. A free dimension that is not set takes its size from the "
		 "input's file; bare elements can determine one such dimension only. A dimension whose size nothing "
		 "determines becomes 1, with a warning unless it is a batch; if the model does not accept 1, other sizes are tried, and the warning "
		 "names them. INPUT.AXIS=N, such as x.2=224, sets a dimension that the model gives no name; infer inspect lists "
		 "these names."},
	{ROW("strict", F_BOOL, strict, INPUTS, CMD_RUNS),
	 .help = "fail if the size of a free dimension is not known"},
	{ROW("shapes-sweep", F_LIST, sweep, INPUTS, CMD_CHECK | CMD_PROFILE),
	 .arg = "DIM=A..B[:STEP]", .metavar_kind = "dim",
	 .help = "try a range of sizes for a free dimension, for example batch=1..16; repeatable",
	 .more = "INPUT.NAME=5..100:5 varies the dimension of one input in steps of five."},

	{ROW("feed", F_LIST, steps.feed, STEPS, CMD_RUNS), .arg = "OUT=IN", .metavar_kind = "name",
	 .help = "run step by step, and hand an output back as an input of the next step; repeatable",
	 .more = "* on both sides stands for the same text, as in 'present.*=past_key_values.*'. The first state comes from "
		 "--input, or is zero; an axis that its name tells to grow (past_sequence_length) begins empty, and --dim "
		 "IN.AXIS=0 does so for others. States stay on the device, and are not copied from step to step."},
	{ROW("slice", F_LIST, steps.slice, STEPS, CMD_RUN),
	 .arg = "NAME[.AXIS]=SIZE[:STEP][,KEY=VALUE]...", .metavar_kind = "name",
	 .help = "give each step a piece of a long input; repeatable",
	 .more = "The input is cut along its last axis or AXIS (a name or number) into pieces of SIZE elements, the beginnings "
		 "of which lie STEP apart (SIZE by default; less lets pieces overlap). lead=N puts N zeros before the first "
		 "element. rest=pad fills a shorter last piece up with zeros, which is the default; drop leaves it out; keep "
		 "runs it as it is."},
	{ROW("steps", F_INT, step_limit, STEPS, CMD_RUN | CMD_CHECK), .min = 1, .max = 1e12,
	 .arg = "N", .help = "number of steps, or the most of them with --slice and --until"},
	{ROW("next", F_LIST, steps.next, STEPS, CMD_RUNS), .arg = "IN=argmax:OUT|sample:OUT",
	 .metavar_kind = "name",
	 .help = "choose the ids of the next step from the scores of an output; repeatable",
	 .more = "IN=argmax:OUT takes the id with the largest score at the last position of OUT. IN=sample:OUT draws it with "
		 "the softmax of the scores; keys may follow: temperature=T divides the scores by T first, top=K draws only "
		 "among the K largest. --seed determines the draws. The chosen ids become an output, IN.next."},
	{ROW("derive", F_LIST, steps.derive, STEPS, CMD_RUNS), .arg = "NAME=RULE",
	 .metavar_kind = "name",
	 .help = "make an input follow from the number of positions so far; repeatable",
	 .more = "Rules: ones (a mask of all positions so far), positions (those of this step), total (how many so far), last "
		 "(total - 1), past (how many before this step), cached (whether there are any before this step). With --next, "
		 "the inputs attention_mask, position_ids, cache_position, total_sequence_length, seqlens_k, "
		 "past_sequence_length and use_cache_branch are derived by their names if nothing else gives them; a note "
		 "names each, and --strict refuses it."},
	{ROW("until", F_INTS, until, STEPS, CMD_RUN), .arg = "ID[,ID]...",
	 .help = "end after the step in which --next chose one of these ids",
	 .more = "With several rows in a batch, the steps go on until each row has ended; a row that has ended repeats its id."},
	{ROW("by-step", F_LIST, by_step, STEPS, CMD_RUN), .arg = "[OUT=]HOW", .metavar_kind = "name",
	 .help = "what becomes of the outputs of all steps: last, stack, join:AXIS or each; repeatable",
	 .more = "last keeps that of the last step, stack puts a new axis for the steps before the others, join:AXIS joins along "
		 "an axis, each keeps every step's as OUT.0, OUT.1, ... With --slice, outputs are stacked; states, scores of "
		 "--next, and all outputs without --slice are those of the last step."},

	{ROW("output", F_LIST, config.outputs, OUTPUTS, CMD_RUNS), .arg = "NAME[,NAME]...",
	 .metavar_kind = "output",
	 .help = "compute only these outputs, or other tensors of the model; repeatable",
	 .more = "NAME is an output, any tensor inside the model, or a pattern with * and ?, which chooses among the outputs "
		 "or, if it matches none of them, among all tensors that nodes compute. The name of a node stands for its outputs, if no "
		 "tensor has it. With --next, IN.next is an output, too. The outputs have the given order. Nodes "
		 "that they do not need are removed before the model is optimized, with the inputs that only those nodes used, "
		 "so an operator that cannot run does no harm elsewhere in the model. A tensor that is asked for is never fused away."},
	{ROW("from", F_LIST, from, OUTPUTS, CMD_EXTRACT), .arg = "NAME[,NAME]...",
	 .metavar_kind = "output",
	 .help = "tensors that become the part's inputs, or nodes that the part begins with; repeatable",
	 .more = "Inputs of the model that the part needs besides stay its inputs. Without --from the part begins at the model's inputs."},
	{ROW("to", F_LIST, to, OUTPUTS, CMD_EXTRACT), .arg = "NAME[,NAME]...", .metavar_kind = "output",
	 .help = "tensors that become the part's outputs, in this order, or nodes that the part ends with; repeatable",
	 .more = "Without --to the part ends at the model's outputs."},
	{ROW("ignore", F_LIST, ignore, OUTPUTS, CMD_DIFF), .arg = "KIND[,KIND]...",
	 .metavar_kind = "=interface|operators|attributes|weights|opsets|metadata",
	 .help = "leave out differences of these kinds: interface, operators, attributes, weights, opsets, metadata; repeatable",
	 .more = "They neither are listed nor change the exit status; the summary counts them."},
	{ROW("exact", F_BOOL, exact, OUTPUTS, CMD_DIFF),
	 .help = "also report equivalent rewrites and rounding as differences",
	 .more = "Then the models are compared as they are in the files alone, and not in normal form. Interface, opsets and metadata are "
		 "told as they are in the files in any case; in the normal form a free dimension of an input takes the size that the other "
		 "model gives it."},
	{ROW("simplify", F_BOOL, simplify, OUTPUTS, CMD_DIFF),
	 .help = "the opposite of --exact, and what happens anyway; scripts may still say it"},
	{ROW("save", F_STRING, save, OUTPUTS,
	     CMD_RUN | CMD_CHECK | CMD_EXTRACT | CMD_SIMPLIFY | CMD_CONVERT),
	 .sh = 'o', .arg = "PATH", .metavar_kind = "dir",
	 .help = "write every output (run) or what --bisect finds (check) to the folder PATH, the report of check to PATH.txt, .json, .html or .xml, the boxes of --decode yolo, ssd or detr onto the picture PATH.png, or the model (extract, simplify, convert) to the file PATH",
	 .more = "The folder is created if it does not exist. A file is written completely or not at all. With many inputs, results "
		 "are named after them: PATH/NAME.npy, or a folder PATH/NAME if the model has several outputs or the format is "
		 "npz or pb. NAME is the path of the input without its extension, relative to the folder that was given."},
	{ROW("jsonl", F_STRING, jsonl, OUTPUTS, CMD_RUN), .arg = "FILE", .metavar_kind = "file",
	 .help = "with many inputs: write a line of JSON for each to FILE (- for standard output)",
	 .more = "A line has the members input (its file), name, and outputs, each with type, shape and statistics, with "
		 "values if --print, with classes if --top, with text if --decode ctc is given; boxes of other decoders; and scores. The line "
		 "of an input that failed has the member error instead of outputs; --resume runs it again and replaces the line. Lines have "
		 "the order of the inputs, but for those that --resume adds. Each line is written at once, so a run that is killed leaves at most one "
		 "incomplete line, at the end."},
	{ROW("report", F_STRING, report, OUTPUTS, CMD_RUN), .arg = "FILE", .metavar_kind = "file",
	 .help = "with many inputs: write a report to FILE that infer merge adds up",
	 .more = "The report is JSON. It says which model, options and inputs it is of, and has a row for each input that was "
		 "run: its name, the time of its run, and the error if it failed. With --resume, the rows of inputs that are done "
		 "come from the report that is there."},
	{ROW("external", F_STRING, external, OUTPUTS, CMD_EXTRACT | CMD_SIMPLIFY | CMD_CONVERT),
	 .arg = "[FILE]", .implied = "", .metavar_kind = "file",
	 .help = "write weights of 1 KiB and more to FILE, in the folder of the model that is written",
	 .more = "Without FILE its name is that of the model with .data behind it. A model of 2 GiB and more can only be written so. The "
		 "weights are ONNX's external data, each at a multiple of 4096 bytes. Without the option all weights are in the "
		 "model's own file, also those that the source has as external data."},
	{ROW("strip-weights", F_BOOL, strip_weights, OUTPUTS, CMD_SIMPLIFY),
	 .help = "write the model without its weights of 1 KiB and more",
	 .more = "The model is the one that --external writes, but the file of the weights is not written. Names, types and shapes of the "
		 "weights are there, so that infer inspect and onnx.shape_inference tell all that they do of the whole model. Nothing can run it, and "
		 "onnx.checker asks for the file, until the file of the weights lies beside it again. --external=FILE chooses its name."},
	{ROW("form", F_ENUM, form, OUTPUTS, CMD_CONVERT), .def = "auto",
	 .choices = "auto|binary|text|json", .arg = "FORM",
	 .help = "form of the file that is written; auto: by its ending"},
	{ROW("save-format", F_ENUM, save_format, OUTPUTS, CMD_RUN), .def = "npy",
	 .choices = "npy|npz|pb|bin|json|png|safetensors", .arg = "FORMAT",
	 .help = "format of the output files",
	 .more = "npz and safetensors are one file with all outputs, as -o FILE.npz and -o FILE.safetensors are; pb writes output_K.pb by position; bin holds the bare elements; png "
		 "is for outputs that are pictures (a mask, a heat map). A map, or a sequence of maps as ZipMap gives, is one .json file with an "
		 "object for each map, in every format but npz, pb and safetensors."},
	{ROW("print", F_INT, print, OUTPUTS, CMD_RUN), .arg = "[N]", .implied = "100", .min = 0,
	 .max = INFINITY,
	 .help = "print the first N values of each output (100 if N is left out; 0: all)"},
	{ROW("top", F_INT, top, OUTPUTS, CMD_RUN | CMD_PROFILE), .def = "0", .min = 0, .max = 1e9,
	 .arg = "K",
	 .help = "print the K largest values along the last axis (run), or only the first K nodes (profile; 0: all)",
	 .more = "With --labels, run prints the name of each class as well. Maps, as ZipMap gives, are ranked by their values; their keys are "
		 "the names."},
	{ROW("decode", F_STRING, decode, OUTPUTS, CMD_RUN | CMD_PROFILE),
	 .arg = "ctc|yolo|ssd|detr[:KEY=N]|N", .metavar_kind = "=ctc|yolo|ssd|detr",
	 .help = "print the text or the boxes that the outputs encode (run), or measure a decoder over N ids (profile)",
	 .more = "yolo, ssd and detr print a line for each box: label, score, left, top, right, bottom, in pixels of the "
		 "picture; -o FILE.png draws them onto the picture, with label and score. Boxes of scores below 0.25 are left out, and for yolo "
		 "those that overlap a better one of their class by more than 0.45; --decode yolo:score=S,iou=I sets both.\n\n"
		 "ctc takes the best class of each step, merges repeats and drops the blank, which is class 0 unless "
		 "blank=N names another one. If there is one class more than labels, the blank has no label; if there are "
		 "two more, the last class is a space; any other count is an error. profile takes the number of ids behind the "
		 "first, 128 if only --prefill is given; see there."},
	{ROW("score", F_LIST, score, OUTPUTS, CMD_RUN), .arg = "SCORE=TRUTH",
	 .metavar_kind = "=top1=|top5=|exact=|wer=|cer=|map=|psnr=|cosine=",
	 .help = "compare results with the truth: top1, top5, exact, wer or cer=FILE.csv (lines INPUT,ANSWER), map=COCO.json, psnr or "
		 "cosine=DIR (with DIR/INPUT.npy); repeatable",
	 .more = "top1 (top5, or another number): how often the right class is among the K with the largest scores; exact: how often "
		 "the text of --decode ctc is the right one; wer, cer: its word and character error rate. TRUTH is a table with a line "
		 "INPUT,ANSWER for each input (CSV, or with a tab); a first line INPUT,... with a word such as input, file or name is a "
		 "heading. A class is a number from 0, or a name of --labels. map: COCO's mean average precision of the boxes of "
		 "--decode yolo, ssd or detr, over the thresholds 0.5 to 0.95; TRUTH is a file of COCO's form, whose images are found by "
		 "file_name; --labels must have the names of its categories; without it class k is the k-th category by id. Give "
		 "the decoder a low threshold (yolo:score=0.001). psnr, cosine: mean peak signal-to-noise ratio and mean cosine of the "
		 "first output and DIR/NAME.npy, as -o writes it; psnr takes values of floats to be from 0 to 1 unless "
		 "psnr:range=R=DIR says how far apart the smallest and the largest are.\n\nINPUT is the path as given, the name of the "
		 "results, or the last part of either. An input without an entry, an entry without an input and an entry that is there "
		 "twice are errors. Inputs that fail are not counted, and the scores say how many were. Scores are printed at the end, and "
		 "are in the document of --json and, for each input, in the lines of --jsonl. With --resume, the lines of an earlier "
		 "run count as well."},
	{ROW("fail-below", F_LIST, fail_below, OUTPUTS, CMD_RUN), .arg = "[SCORE=]VALUE",
	 .help = "end with exit status 5 if a score is worse than VALUE, as top1=0.75",
	 .more = "SCORE, as top1, may be left out if there is one. wer and cer are worse if they are larger."},
	{ROW("labels", F_STRING, labels, OUTPUTS, CMD_RUN), .arg = "FILE|meta:KEY",
	 .metavar_kind = "labels",
	 .help = "names of the classes: a file with one name a line, or a key of the model's metadata",
	 .more = "meta:names reads what Ultralytics writes there."},

	{ROW("nodes", F_BOOL, nodes, SHOW, CMD_INSPECT | CMD_PROFILE),
	 .help = "list the nodes: with types and shapes (inspect), with times (profile)",
	 .more = "inspect lists every node with the types and shapes of its outputs. profile observes some runs and "
		 "reports each node's time, share, work and memory; because observing has a cost, the time of the plain "
		 "runs is printed next to that of the observed ones. On a GPU, CUPTI reports the kernels of each node and "
		 "their times, if it is installed and no other tool uses it. Otherwise events in the stream are used; "
		 "their times include the short gaps between the kernels of a node. Observed runs launch their kernels "
		 "one by one, whereas plain runs may replay a CUDA graph. A device that waits for launches would look "
		 "slow, so it is held until everything is queued, and this wait is subtracted. Time between nodes has a "
		 "row of its own."},
	{ROW("weights", F_BOOL, weights, SHOW, CMD_INSPECT),
	 .help = "list every initializer with statistics"},
	{ROW("cost", F_BOOL, cost, SHOW, CMD_INSPECT),
	 .help = "show the multiply-adds, FLOPs and bytes moved, by node and in total",
	 .more = "A multiply-add (MAC) counts as two FLOPs. Free dimensions count as 1 unless --dim or --shape gives "
		 "their sizes."},
	{ROW("memory", F_BOOL, memory, SHOW, CMD_INSPECT),
	 .help = "show the planned memory and its peak",
	 .more = "This is the most that a run with these dimensions will hold, by purpose. Weights are read in place where the file is mapped, "
		 "unless they are small and not aligned: those are copied. Many kernels read packed weights, which are made once; "
		 "those in the file need no memory then. infer run and infer profile count copied and packed weights by the same names. "
		 "The program and its libraries need about 30 MiB more."},
	{ROW("stage", F_ENUM, stage, SHOW, CMD_INSPECT), .choices = "file|graph|opt|plan",
	 .arg = "STAGE", .help = "print the graph after a stage of the pipeline",
	 .more = "file: as read from the file; graph: upgraded to the newest operator versions; opt: after the rewrites; "
		 "plan: the steps that run, with their kernels and memory."},
	{ROW("passes", F_BOOL, passes, SHOW, CMD_INSPECT),
	 .help = "list the passes that rewrite the graph, in order, with the changes each made",
	 .more = "For each pass it shows the number of changes and the number of nodes left. --optimize determines which "
		 "passes run."},
	{ROW("explain", F_BOOL, explain, SHOW, CMD_INSPECT),
	 .help = "list which rewrites were made and where, and which were not and why",
	 .more = "If a rewrite matches a part of the graph but is refused, the reason is given: another node uses a value "
		 "inside, a type does not fit, a shape is not known. Rewrites that match nowhere are listed at the end."},
	{ROW("dot", F_BOOL, dot, SHOW, CMD_INSPECT), .help = "print the graph in Graphviz DOT format"},

	{ROW("all", F_BOOL, check.all, CHECKS, CMD_CHECK),
	 .help = "run every check that applies, the cheapest first"},
	{ROW("expect", F_LIST, check.expect, CHECKS, CMD_CHECK), .arg = "[NAME=]FILE",
	 .metavar_kind = "file", .help = "compare an output with a reference file; repeatable",
	 .more = "FILE may be a folder that infer run -o has written: its .npy files that are named after outputs are compared. With "
		 "--data-set the references are its output_K.pb files."},
	{ROW("rtol", F_DOUBLE, check.rtol, CHECKS, CMD_CHECK), .def = "1e-3", .min = 0,
	 .max = INFINITY, .arg = "NUMBER", .help = "relative tolerance of comparisons",
	 .more = "Without this option, --compare accepts more of outputs that were computed in tf32, fp16, bf16 or fp8, and 1 in 100 integers that "
		 "differ. A tolerance that is given is kept."},
	{ROW("atol", F_DOUBLE, check.atol, CHECKS, CMD_CHECK), .def = "1e-7", .min = 0,
	 .max = INFINITY, .arg = "NUMBER", .help = "absolute tolerance of comparisons",
	 .more = "With --expect and --data-set, --atol without --rtol makes --rtol 0: then no element may differ by more than --atol. The report "
		 "names both."},
	{ROW("metric", F_ENUM, check.metric, CHECKS, CMD_CHECK), .def = "maxabs",
	 .choices = "maxabs|cosine|l2|kl", .arg = "NAME",
	 .help = "how to measure the difference between two outputs",
	 .more = "maxabs: no element may differ by more than atol + rtol x |reference|; cosine: 1 minus the cosine of the "
		 "angle between the two outputs may be at most rtol; l2: the norm of the difference divided by the norm "
		 "of the reference may be at most rtol. --sensitivity divides this number among the nodes: maxabs is then the largest difference "
		 "by the largest element of the reference, l2 the squared norm of the difference by that of the reference, and kl, which "
		 "it alone has, the Kullback-Leibler divergence from the reference in nats, of the rows along the last axis: as they are "
		 "if they are distributions, otherwise after a Softmax."},
	{ROW("compare", F_STRING, check.compare, CHECKS, CMD_CHECK), .arg = "A[,B]",
	 .metavar_kind = "=cpu|cpu,cuda|fp32,tf32|fp32,fp16|none,full|plan,noplan|onnxruntime",
	 .help = "run the model in two ways and find the first node whose results differ",
	 .more = "A and B are devices (cpu, cuda), precisions, levels of --optimize, or plan and noplan (memory plan on "
		 "and off). If only A is given, it is compared with the run that the other options describe. With onnxruntime "
		 "the reference is ONNX Runtime (1.11 or newer) on the CPU, which runs the file without its graph "
		 "optimizations. Its library is looked for in the folders of INFER_LIBRARY_PATH, in the system, and in Python "
		 "environments (pip install onnxruntime). Outputs are compared for every input that --input or --data-set "
		 "names, and for the worst one, if an output differs, the inner tensors as well, until the node is found that "
		 "gives another result from equal inputs. Where double precision agrees with this run, or the node adds up "
		 "products of bytes, which saturate in ONNX Runtime on CPUs without VNNI, that is a warning. With FILE.onnx the reference is another model, and both run "
		 "without optimizations on the same inputs: nodes correspond by what leads to them and what follows, by their weights "
		 "where that says too little, and by names where these do not contradict it. What has no certain counterpart, such as the "
		 "QuantizeLinear of a quantized model, counts to the next node that has one. Free dimensions whose sizes nothing gives are several elements "
		 "long where the model allows, as axes of one element cannot be told apart. If all inputs are generated and nothing differs, "
		 "floats from -8 to 8 are tried as well."},
	{ROW("every-tensor", F_BOOL, check.every_tensor, CHECKS, CMD_CHECK),
	 .help = "with --compare onnxruntime: compare the tensors inside the model even if the outputs agree"},
	{ROW("sensitivity", F_BOOL, check.sensitivity, CHECKS, CMD_CHECK),
	 .help = "rank the nodes by how much of the loss of a quantized model (--compare FP32.onnx), or of --precision fp16, bf16 or fp8, each causes",
	 .more = "The error of a node is its value in the quantized model less what the node of the fp32 model makes of the quantized "
		 "model's own inputs to it. One pass backwards through the fp32 model tells what part of the loss (--metric) comes from each "
		 "error; the parts add up to about 100 % while the errors are small, and a part below 0 makes up for others. The first nodes (--undo) are then undone one by one: "
		 "the node's error is taken away, the errors of all others are kept, and the rest of the network is computed again. "
		 "Undone together, they show what would remain with them in fp32. A node after which an operator has no derivative "
		 "(an LSTM, a control-flow node) is undone in any case. The form of the quantization does not matter: QuantizeLinear and "
		 "DequantizeLinear pairs, QLinear operators, ConvInteger, MatMulNBits. With many inputs (--input with a pattern, --data-set "
		 "with a pattern) the loss is the mean over them; use tens of them, as one input says little of others. The reference runs on the CPU. It holds all values between its nodes "
		 "twice, in fp32."},
	{ROW("undo", F_INT, check.undo, CHECKS, CMD_CHECK), .def = "10", .min = 0, .max = 1e6,
	 .arg = "N", .help = "with --sensitivity: undo the first N nodes of the ranking one by one",
	 .more = "A number as large as that of the nodes undoes each of them, which takes as many runs of the rest of the network."},
	{ROW("exclude-list", F_STRING, check.exclude_list, CHECKS, CMD_CHECK), .arg = "FILE",
	 .metavar_kind = "file",
	 .help = "with --sensitivity: write the names of the nodes to keep in fp32 to FILE",
	 .more = "FILE.json gets a JSON array, to be passed as nodes_to_exclude to ONNX Runtime's quantize_static() or as "
		 "node_block_list to its convert_float_to_float16(); another FILE gets one name a line. The list ends where more nodes would "
		 "spare less than 5 % of the loss, and has ten at most, with the nodes that read an output whose rounding is at fault."},
	{ROW("nan", F_BOOL, check.nan, CHECKS, CMD_CHECK),
	 .help = "find the first tensor that holds NaN or Inf, and nodes that lose precision"},
	{ROW("zero", F_BOOL, check.zero, CHECKS, CMD_CHECK),
	 .help = "find outputs that are all zero, constant, or do not depend on the inputs"},
	{ROW("layout", F_BOOL, check.layout, CHECKS, CMD_CHECK),
	 .help = "check whether pictures seem to have their axes or channels in the wrong order"},
	{ROW("determinism", F_INT, check.determinism, CHECKS, CMD_CHECK), .def = "0", .min = 0,
	 .max = 1e9, .arg = "N", .help = "check that N runs give bit-identical results"},
	{ROW("leak", F_BOOL, check.leak, CHECKS, CMD_CHECK),
	 .help = "check whether memory keeps growing from run to run",
	 .more = "The verdict is stable, grows then flat (an arena fills up; this is not a leak), or leak. A significant "
		 "upward trend is a leak, however small it is. An arena may take up to 5 MiB of host memory and 200 MiB "
		 "of device memory before it stays flat."},
	{ROW("runs", F_INT, check.runs, CHECKS, CMD_CHECK), .def = "0", .min = 0, .max = 1e9,
	 .arg = "N", .help = "number of runs for --leak; 0: as many as needed, up to 500"},
	{ROW("recreate", F_BOOL, check.recreate, CHECKS, CMD_CHECK),
	 .help = "with --leak: also open and close the model repeatedly"},
	{ROW("contexts", F_BOOL, check.contexts, CHECKS, CMD_CHECK),
	 .help = "list the CUDA contexts of this process, and other processes on the GPU"},
	{ROW("bisect", F_BOOL, check.bisect, CHECKS, CMD_CHECK),
	 .help = "find the smallest part of the model that still shows the fault; -o DIR saves it"},
	{ROW("pid", F_INT, watch.pid, WATCHING, CMD_CHECK), .min = 1, .max = 1 << 22, .arg = "PID",
	 .help = "watch the memory of a running process from outside",
	 .more = "Records the private host memory of the process over time, and its device memory if NVML reports that, "
		 "until the process ends, Ctrl-C is pressed, or --duration has passed; then gives the verdict of --leak. "
		 "SIGUSR1 and --interval print intermediate reports. The other findings of 'check -- COMMAND' are "
		 "possible only if infer starts the program."},
	{ROW("interval", F_DURATION, watch.interval, WATCHING, CMD_CHECK), .arg = "TIME",
	 .help = "also print a report every TIME, for example 10s",
	 .more = "SIGUSR1 prints a report at once."},
	{ROW("report-api-errors", F_ENUM, watch.errors, WATCHING, CMD_CHECK), .def = "explicit",
	 .choices = "no|explicit|all", .arg = "WHICH", .help = "which failing CUDA calls to report",
	 .more = "explicit: all except calls that fail by design, such as queries that answer with an error; all: these "
		 "as well; no: only asynchronous errors and uses of another context's objects."},
	{ROW("heap", F_ENUM, watch.heap, WATCHING, CMD_CHECK), .def = "on", .choices = "off|on|all",
	 .arg = "WHICH", .help = "which malloc blocks to check the bounds of copies against",
	 .more = "on: blocks of 512 bytes or more; all: blocks of 64 bytes or more, which slows the program down; off: "
		 "none. For this check a library is loaded before the program (LD_PRELOAD). The library also lets a "
		 "profiler inside the program use CUPTI when it asks for it, and sees faults before the program's own "
		 "handlers. off does not load the library."},
	{ROW("error-exitcode", F_INT, watch.error_exit, WATCHING, CMD_CHECK), .min = 1, .max = 255,
	 .arg = "N",
	 .help = "exit with status N if there are errors, instead of the status of their class"},
	{ROW("suppressions", F_STRING, watch.suppressions, WATCHING, CMD_CHECK), .arg = "FILE",
	 .metavar_kind = "file", .help = "do not report the known findings that FILE lists",
	 .more = "Each line holds an id (E-CUDA-1, E-CTX-*) and optionally, after a space, a pattern (with * and ?) that "
		 "must match some line of the finding. # begins a comment. An id that no finding has is an error; lines "
		 "that matched nothing are listed at the end."},
	{ROW("write-suppressions", F_STRING, watch.suppress_all, WATCHING, CMD_CHECK), .arg = "FILE",
	 .metavar_kind = "file", .help = "write a line for --suppressions for each reported finding",
	 .more = "Each finding except notes gets a line: its id, and which library made which call, with * in place of "
		 "what changes from run to run (numbers, addresses, code locations). Findings that --suppressions hides "
		 "are not written again."},
	{ROW("iterations", F_INT, iterations, TIMING, CMD_PROFILE), .sh = 'n', .min = 1, .max = 1e8,
	 .arg = "N", .help = "number of runs to measure",
	 .more = "Without it, infer measures for the time of --duration, and at least five runs. If both are given, the "
		 "first limit that is reached ends the measurement."},
	{ROW("duration", F_DURATION, duration, TIMING, CMD_PROFILE | CMD_CHECK), .arg = "TIME",
	 .help = "how long to measure, for example 3s (the default; 1s for each point of a sweep)"},
	{ROW("warmup", F_STRING, warmup, TIMING, CMD_PROFILE), .def = "200ms", .arg = "N|TIME",
	 .help = "warm-up before the first measured run: a number of runs (10) or a time (200ms)",
	 .more = "The first run is always reported separately."},
	{ROW("percentile", F_FLOATS, percentile, TIMING, CMD_PROFILE), .def = "50,90,95,99",
	 .min = 0, .max = 100, .arg = "P[,P]...", .help = "percentiles of the latency to report"},
	{ROW("prefill", F_INT, prefill, TIMING, CMD_PROFILE), .min = 1, .max = 1e8, .arg = "N",
	 .help = "measure a decoder: positions of the prompt",
	 .more = "Needs --feed and --next. Each round runs the prompt, of random ids unless --input gives one, and then one id "
		 "after the other, for the time of --duration. The report tells the time to the first id, the time for each "
		 "further one, ids per second, and how near reading the weights and the state comes to the memory's limit, "
		 "which a large copy shows."},
	{ROW("transfers", F_ENUM, transfers, TIMING, CMD_PROFILE), .def = "include",
	 .choices = "include|exclude|split", .arg = "HOW",
	 .help = "whether the latency includes copies to and from the device",
	 .more = "include: the copies are part of the latency; exclude: they are subtracted from it; split: host to "
		 "device, compute, and device to host are reported separately. The times of the copies come from observed "
		 "runs, at each point of a sweep. On the CPU there are no copies."},
	{ROW("sort", F_ENUM, sort, TIMING, CMD_PROFILE), .def = "time",
	 .choices = "time|order|memory", .arg = "KEY", .help = "order of the table of nodes"},
	{ROW("sessions", F_INT, sessions, TIMING, CMD_PROFILE),
	 .axis = offsetof(struct options, sessions_axis), .def = "1", .min = 1, .max = 256,
	 .arg = "N[,N]...",
	 .help = "number of sessions to run in parallel, each in its own thread and, on a GPU, its own stream"},
	{ROW("streams", F_INT, streams, TIMING, CMD_PROFILE),
	 .axis = offsetof(struct options, streams_axis), .def = "1", .min = 1, .max = 256,
	 .arg = "N[,N]...",
	 .help = "number of GPU streams to use in parallel, each with its own session"},
	{ROW("compare-device", F_STRING, compare_device, TIMING, CMD_PROFILE), .arg = "A,B[,C]...",
	 .metavar_kind = "=cpu|cpu,cuda|cuda", .help = "measure on each of these devices",
	 .more = "In the same way, a list given to --threads, --sessions, --streams, --memory-plan, --arena, --optimize, "
		 "--precision or --cuda-graph measures each of its values; all combinations are printed as one table. "
		 "Each combination is measured in its own process. A combination that cannot be measured is listed with "
		 "the reason, and that reason determines the exit status."},
	{ROW("html", F_STRING, html, EXPORTS, CMD_CHECK | CMD_INSPECT | CMD_DIFF | CMD_PROFILE),
	 .arg = "FILE", .metavar_kind = "file", .help = "also write the report as an HTML page"},
	{ROW("trace", F_STRING, trace, EXPORTS, CMD_PROFILE), .arg = "FILE", .metavar_kind = "file",
	 .help = "write a trace for Perfetto or chrome://tracing",
	 .more = "The trace holds the observed runs: nodes, kernels, copies, and memory as counters. With - the trace "
		 "goes to standard output and the report to standard error."},
	{ROW("export", F_LIST, exports, EXPORTS, CMD_PROFILE | CMD_CHECK | CMD_SUITE),
	 .arg = "[FORMAT:]FILE", .metavar_kind = "file",
	 .help = "also write the report to a file, in the format of its extension; repeatable",
	 .more = "FORMAT is the extension's name if the file has another one: json:FILE. profile writes .json: everything, with all samples; .csv: one line for each sample; .md: tables for a pull "
		 "request; .html: one page with plots that needs no network. For CI systems there are junit:FILE (JUnit's XML, "
		 "also by the extension .xml), github:FILE (GitHub's annotations; github:- prints them, so that a workflow shows "
		 "them) and, for what was measured, bencher:FILE (Bencher Metric Format). Latencies (ns), rates (1/s) and peaks of memory are properties of JUnit's "
		 "cases, and notices of GitHub's. check writes these but Bencher's, and .txt, .json and .html; suite writes those for CI systems."},
	{ROW("update-baselines", F_BOOL, update_baselines, EXPORTS, CMD_SUITE),
	 .help = "write the baselines of the suite's models instead of comparing with them"},
	{ROW("save-baseline", F_STRING, save_baseline, EXPORTS, CMD_PROFILE), .arg = "FILE",
	 .metavar_kind = "file", .help = "write a baseline for later comparisons",
	 .more = "The model is measured in ten processes, one after the other, for twice as long as usual. If other "
		 "programs keep the machine busy, each process measures up to four times longer, until some runs were "
		 "undisturbed. With - the baseline goes to standard output and the report to standard error."},
	{ROW("baseline", F_STRING, baseline, EXPORTS, CMD_PROFILE), .arg = "FILE",
	 .metavar_kind = "file", .help = "compare with a baseline that --save-baseline wrote",
	 .more = "A baseline of another model, device, driver or precision, or with other input shapes or settings, is "
		 "refused before the first run, unless --force is given. A file of the same name with other contents is a "
		 "new version of the model: it is compared."},
	{ROW("fail-above", F_STRING, fail_above, EXPORTS, CMD_PROFILE), .arg = "P%",
	 .help = "exit with status 9 if the model became slower than the baseline by more than P percent",
	 .more = "Compares the 10th percentiles of the runs in which no thread waited for a core. Fails only if the "
		 "bootstrap interval of their ratio, reduced by the change that the machine itself may have caused "
		 "(measured with loops of known work between the runs), lies above the limit, and repeated measurements "
		 "confirm it. A node that became slower by more than all others did is judged on its own, because this "
		 "shows even on a machine so busy that hardly any run is undisturbed. There the model as a whole is judged "
		 "by the time for which its threads had a core and worked, which must have grown by a quarter more than the "
		 "limit, unless the model also has more operations. The report names the nodes that became slower."},
	{ROW("fail-above-memory", F_STRING, fail_above_memory, EXPORTS, CMD_PROFILE), .arg = "P%|SIZE",
	 .help = "the same for memory: planned and counted bytes on host and device, and resident bytes"},
	{ROW("fail-above-energy", F_DOUBLE, fail_above_energy, EXPORTS, CMD_PROFILE), .arg = "JOULES",
	 .min = 0, .max = INFINITY, .help = "exit with status 9 if a run takes more joules than this",
	 .more = "The energy is that of all programs meanwhile: of a GPU as NVML tells it, else of the processors by RAPL, "
		 "which some systems only tell root. If the machine does not tell, that is a warning, or with --fail-unknown "
		 "an error. No baseline is needed."},
	{ROW("fail-unknown", F_BOOL, fail_unknown, EXPORTS, CMD_PROFILE),
	 .help = "exit with status 11 if the measurement cannot tell whether the model became slower",
	 .more = "This happens if the machine is too busy, or if repeated measurements leave the limit of --fail-above "
		 "within their interval. Without this option such a comparison passes, with a warning."},
	{ROW("force", F_BOOL, force, EXPORTS, CMD_PROFILE),
	 .help = "compare even if the baseline is of another device, driver, model or precision"},

	{ROW("device", F_STRING, config.device, DEVICE, CMD_RUNS), .sh = 'd', .def = "auto",
	 .arg = "NAME", .env = "INFER_DEVICE", .metavar_kind = "=auto|all"
#define BACKEND(name) "|" #name
#include "session/backends.def"
#undef BACKEND
	 ,
	 .help = "where to run: auto, all, cpu or cuda[:N], or several",
	 .more = "With many inputs, run takes several devices, as in cuda:0,1 or cuda,cpu, or all, which means all CUDA devices of the "
		 "machine, or the CPU if there is none. Each has a session of its own and takes inputs as soon as it is free; results "
		 "keep their order. A device that fails, or has no memory, is reported, and its inputs go to the others. auto uses a CUDA device if this build and the machine have a usable one, otherwise the CPU; if it is given, it reports "
		 "which it chose and why. A device that is named is never replaced by another: if it cannot be used, the "
		 "exit status is 8 and the reason is given."},
	{ROW("precision", F_ENUM, config.precision, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, precision_axis), .def = "fp32",
	 .choices = "fp32|tf32|fp16|bf16|fp8|auto", .arg = "TYPE", .env = "INFER_PRECISION",
	 .help = "types in which float tensors may be computed",
	 .more = "fp32 computes in the types that the model declares and rounds once per node. tf32 allows matrix "
		 "products and convolutions on a CUDA device to round their fp32 inputs to a fraction of 10 bits. fp16 "
		 "and bf16 compute the inside of an fp32 model in that type, with the weights converted once; inputs, "
		 "outputs and values that are sensitive to rounding stay fp32: sizes, indices and positions, and what is computed "
		 "of integers and bools up to a product with weights; elementwise nodes with a constant that would become 0; in "
		 "fp16 also squares and powers, and masks that are added to the scores of a Softmax (docs/special-values.md). "
		 "Models that are fp16 or bf16 themselves are not changed. "
		 "Recurrent layers (RNN, GRU, LSTM) stay fp32, but where the CPU has instructions for bf16 "
		 "(AVX512-BF16, AMX), bf16 rounds the operands of their products: inputs and weights, and in each step the state "
		 "that is multiplied. fp8 is fp16 with products by constant matrices in FP8 (E4M3) on a CUDA device of compute "
		 "capability 8.9 or more. It is coarse: errors of 8 and 11 % of the largest value were measured on encoders of 12 "
		 "layers, so compare the outputs first. Products that do not fit (sizes that are no multiples of 16, for one) "
		 "and convolutions stay fp16; -v says which. auto tries all but fp8 on the "
		 "given inputs and uses the fastest one whose outputs stay "
		 "within 0.01 of the largest value of each fp32 output; it reports its choice, and the time and the error "
		 "of each. The choice is kept in the cache. On the CPU, auto is fp32; bf16 is faster there if "
		 "the processor has AMX."},
	{ROW("sync", F_ENUM, config.sync, DEVICE, CMD_RUNS), .def = "async",
	 .choices = "async|node|launch", .arg = "WHEN", .env = "INFER_SYNC",
	 .help = "how often to wait for the GPU",
	 .more = "async: at the end of a run; node: after each node; launch: after each launch, as with "
		 "CUDA_LAUNCH_BLOCKING=1, which has the same effect here. If an error appears only at the end of an async "
		 "run, infer repeats the run once with launch, in another process, to find the node that caused it."},
	{ROW("no-blame", F_BOOL, no_blame, DEVICE, CMD_RUNS),
	 .help = "do not repeat a failed run to find the node that failed"},
	{ROW("context", F_ENUM, config.context, DEVICE, CMD_RUNS), .def = "primary",
	 .choices = "primary|own", .arg = "WHICH", .env = "INFER_CONTEXT",
	 .help = "which CUDA context to run in",
	 .more = "primary: the context that the CUDA runtime and other libraries in the process use; own: a new context "
		 "for this session alone. Even then, cuDNN's convolutions create the primary context, which takes about "
		 "half a GiB of device memory."},
	{ROW("cuda-graph", F_ENUM, config.cuda_graph, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, graph_axis), .def = "auto", .choices = "auto|off",
	 .arg = "WHEN", .env = "INFER_CUDA_GRAPH",
	 .help = "replay the kernel launches as CUDA graphs from the second run on",
	 .more = "auto: use graphs wherever the launches are the same in each run; off: always launch one by one."},
	{ROW("tune", F_ENUM, config.tune, DEVICE, CMD_RUNS), .def = "quick",
	 .choices = "quick|full|off", .arg = "HOW", .env = "INFER_TUNE",
	 .help = "how long to search for the fastest GPU kernels",
	 .more = "quick: about a second when a model first runs with a shape; full: try everything, including kernels "
		 "that must be compiled, which takes minutes; off: use the library's own choice. The results are kept on "
		 "disk: see --cache."},
	{ROW("cache", F_STRING, config.cache, DEVICE, CMD_RUNS | CMD_CACHE), .arg = "DIR|off",
	 .env = "INFER_CACHE_DIR", .metavar_kind = "dir", .help = "folder for the tuning results",
	 .more = "The default is the folder infer in $XDG_CACHE_HOME, or in ~/.cache. Results of another GPU, driver or "
		 "library version are not used. infer cache lists and clears the folder."},
	{ROW("threads", F_INT, config.threads, DEVICE, CMD_RUNS), .sh = 't',
	 .axis = offsetof(struct options, threads_axis), .def = "0", .min = 0, .max = 1024, .arg = "N",
	 .env = "INFER_THREADS", .help = "number of threads to compute with; 0: one per core"},
	{ROW("optimize", F_ENUM, config.optimize, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .axis = offsetof(struct options, optimize_axis), .def = "full",
	 .choices = "none|basic|full", .arg = "LEVEL", .env = "INFER_OPTIMIZE",
	 .help = "how far to optimize the graph before it runs",
	 .more = "none does only what is needed to run; basic adds rewrites that keep the results exact; full adds "
		 "rewrites that change the order of rounding, such as fusions."},
	{ROW("memory-plan", F_BOOL, config.memory_plan, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .axis = offsetof(struct options, plan_axis), .def = "on", .arg = "on|off",
	 .help = "let values share memory",
	 .more = "off gives each value its own memory, which helps to find a fault."},
	{ROW("arena", F_BOOL, config.arena, DEVICE, CMD_RUNS),
	 .axis = offsetof(struct options, arena_axis), .def = "on", .arg = "on|off",
	 .help = "keep the memory of values from run to run",
	 .more = "off allocates the memory anew for each run, and frees the old memory before the next run."},
	{ROW("memory-limit", F_SIZE, config.memory_limit, DEVICE, CMD_RUNS | CMD_INSPECT),
	 .arg = "SIZE", .env = "INFER_MEMORY_LIMIT",
	 .help = "refuse a plan that needs more memory than this, for example 512MiB; 0: no limit",
	 .more = "The error comes before anything runs, and names the largest tensors. Without the option, values and "
		 "workspace on the host may take 1 GiB and 64 times the bytes of the model and its inputs, but at most "
		 "three quarters of the memory that the machine, or the control group of the process, has left."},
	{ROW("external-root", F_STRING, config.external_root, DEVICE,
	     CMD_RUNS | CMD_INSPECT | CMD_DIFF | CMD_SIMPLIFY),
	 .arg = "DIR", .env = "INFER_EXTERNAL_ROOT", .metavar_kind = "dir",
	 .help = "also allow weights to be read from this folder",
	 .more = "External data is read only from the model's folder, from the folder of the file that the model is a "
		 "link to, or from this folder."},

	{ROW("ops", F_LIST, config.ops, DEVICE, CMD_RUNS | CMD_INSPECT | CMD_EXTRACT | CMD_SIMPLIFY),
	 .arg = "[LIBRARY.so]", .implied = "", .metavar_kind = "library",
	 .help = "add the operators of a shared library; repeatable. inspect without a model: list all operators",
	 .more = "The library is written against the header infer/op.h, which describes all that it has to have; "
		 "share/doc/infer/custom-operators of an installation (docs/custom-operators of the sources) has an example with CPU "
		 "and CUDA kernels. It is opened by its path, its operators are "
		 "computed by its code in this process, and operands and attributes are checked against its tables before. A crash "
		 "in its code is reported with the node that ran. A library that cannot be opened, that is for "
		 "another version of the header, or that names an operator that exists already, ends the command with exit status 8. "
		 "infer inspect --ops lists the operators that this build and the libraries run, with versions and types. Only open "
		 "libraries that you trust."},

	{ROW("json", F_BOOL, json, COMMON, CMD_ALL),
	 .help = "print one JSON document on standard output",
	 .more = "Every document has command, ok, exit_code, env and findings (id, severity, message, hint). run adds inputs and outputs "
		 "(name, dtype, shape, min, max, mean, with --print values, with --top top), times and memory; inspect inputs, outputs, "
		 "parameters, operators and nodes; profile summary (mean, median, percentiles, runs_per_second, for each point), ranking and "
		 "records (nodes, samples); check checks (name, state, said). Times are in seconds, sizes in bytes."},
	{ROW("config", F_STRING, config_file, COMMON, CMD_ALL), .arg = "FILE",
	 .flags = OPTION_COMMAND_LINE, .env = "INFER_CONFIG", .metavar_kind = "file",
	 .help = "read options from a YAML file (default ~/.config/infer/config.yaml)",
	 .more = "Without this option, infer/config.yaml in XDG_CONFIG_HOME (or in ~/.config) is read if it exists; an empty "
		 "INFER_CONFIG prevents that. Keys are the names of the long options. An option that is given repeatedly takes a list; options of the "
		 "form NAME=VALUE may take a mapping. Relative paths start at the current folder. The environment and the "
		 "command line override the file; a list given there replaces the list of the file. The file may also "
		 "hold options of other subcommands."},
	{ROW("timeout", F_DURATION, timeout, COMMON, CMD_ALL), .def = "0", .arg = "SECONDS",
	 .env = "INFER_TIMEOUT", .help = "exit with status 124 after this time; 0: no limit",
	 .more = "A unit may follow the number: 200ms, 3s, 2m."},
	{ROW("color", F_ENUM, color, COMMON, CMD_ALL), .def = "auto", .choices = "auto|always|never",
	 .arg = "WHEN", .env = "INFER_COLOR", .help = "when to color messages",
	 .more = "auto colors output to a terminal, unless NO_COLOR is set."},
	{ROW("verbose", F_INT, verbose, COMMON, CMD_ALL), .sh = 'v', .def = "0",
	 .help = "print more details; repeatable"},
	{ROW("quiet", F_BOOL, quiet, COMMON, CMD_ALL), .sh = 'q',
	 .help = "print only errors on standard error"},
	{ROW("help", F_BOOL, help, COMMON, CMD_ALL), .sh = 'h', .flags = OPTION_COMMAND_LINE,
	 .help = "show this help"},
	{ROW("version", F_BOOL, version, COMMON, CMD_ALL), .flags = OPTION_COMMAND_LINE,
	 .help = "show the version"},
	{.name = NULL},
};

/* Options that do something else in each of their commands. The row's help tells all of it, for the sample configuration. */
static const struct {
	const char *option;
	unsigned commands;
	const char *help;
} own_helps[] = {
	{"save", CMD_RUN,
	 "write every output to the folder PATH, or the boxes of --decode yolo, ssd or detr onto the picture PATH.png"},
	{"save", CMD_CHECK,
	 "write what --bisect finds to the folder PATH, or the report to PATH.txt, .json, .html or .xml"},
	{"save", CMD_EXTRACT | CMD_SIMPLIFY | CMD_CONVERT, "write the model to the file PATH"},
	{"top", CMD_RUN, "print the K largest values along the last axis"},
	{"top", CMD_PROFILE, "list only the first K nodes (0: all)"},
	{"decode", CMD_RUN, "print the text or the boxes that the outputs encode"},
	{"decode", CMD_PROFILE, "measure a decoder over N ids"},
	{"nodes", CMD_INSPECT, "list the nodes with types and shapes"},
	{"nodes", CMD_PROFILE, "list the nodes with their times"},
	{"ops", CMD_RUNS | CMD_EXTRACT | CMD_SIMPLIFY,
	 "add the operators of a shared library; repeatable"},
};

const char *option_help(const struct field *row, unsigned command)
{
	for (size_t i = 0; i < sizeof(own_helps) / sizeof(*own_helps); i++)
		if (own_helps[i].commands & command && !strcmp(own_helps[i].option, row->name))
			return own_helps[i].help;
	return row->help;
}
