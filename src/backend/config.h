/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_CONFIG_H
#define BACKEND_CONFIG_H
/* How the user wants a model to be run. cmd/options/options.c fills it; the layers below read it. */
#include "base/field.h"

#include <stdbool.h>
#include <stdint.h>

enum device_choice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };
enum precision {
	PRECISION_FP32,
	PRECISION_TF32,
	PRECISION_FP16,
	PRECISION_BF16,
	PRECISION_FP8, /* products by weights in float8e4m3fn, the rest as with fp16 */
	PRECISION_AUTO
};
/* The words of --precision, indexed by enum precision. */
extern const char *const precision_names[PRECISION_AUTO + 1];
enum sync_mode { SYNC_ASYNC, SYNC_NODE, SYNC_LAUNCH };
enum context_choice { CONTEXT_PRIMARY, CONTEXT_OWN };
enum cuda_graph { CUDA_GRAPH_AUTO, CUDA_GRAPH_OFF };
enum tuning { TUNE_QUICK, TUNE_FULL, TUNE_OFF };
enum optimize { OPTIMIZE_NONE, OPTIMIZE_BASIC, OPTIMIZE_FULL };

struct run_config {
	const char *device; /* as the user wrote it: "auto", "cpu", "cuda", "cuda:1" */
	bool device_given;  /* the user chose `device`; it is no default */
	int precision;	    /* enum precision */
	int sync;	    /* enum sync_mode */
	int context;	    /* enum context_choice */
	int cuda_graph;	    /* enum cuda_graph */
	/*
	 * enum optimize. none: only rewrites that are needed to run; basic: exact rewrites too;
	 * full: all rewrites
	 */
	int optimize;
	bool keep_floats; /* float values that constants determine are computed in the run, by the file's own nodes */
	/*
	 * The optimized graph is to be written to a file: constants that would take more room than what they are folded
	 * from stay nodes, and folding takes little memory. Its file is read so that little of it is in memory at once.
	 */
	bool to_file;
	/*
	 * The graph is not run: types and shapes are inferred as far as its operators are known, and those of an unknown
	 * operator's outputs are what the file declares.
	 */
	bool types_only;
	bool keep_branches; /* the graph is not run but examined: an If whose condition is constant stays, with both branches */
	/* the CPU may run fp8 by its reference kernels, which are slow, to show what a GPU would compute (--sensitivity) */
	bool simulate_fp8;
	bool compared; /* the graph is not run but compared: equal mathematics gets equal words (opt/normal.c) */
	/* texts of --dim and --shape whose sizes hold before the model is optimized; none: all dimensions stay as they are */
	struct texts fixed_dims, fixed_shapes;
	int64_t threads;      /* number of threads; 0 for one per core */
	bool memory_plan;     /* false: each value has memory of its own */
	bool arena;	      /* false: memory is not kept from one plan to the next */
	int64_t memory_limit; /* bytes; 0: none; INT_ABSENT: what suits model, inputs and machine */
	const char *external_root;
	struct texts ops; /* libraries of operators (custom/custom.h) */
	/*
	 * texts of --input and --random; an initializer that one of them names counts as an input
	 */
	struct texts given[2];
	struct texts outputs; /* names and patterns of the values to compute; none: the model's outputs */
	/*
	 * with `outputs`: patterns of outputs that --feed and --next need besides, and names of the outputs that --next makes, which
	 * `outputs` may name as well
	 */
	struct texts step_outputs, made_outputs;
	int tune; /* enum tuning */
	/*
	 * folder of the tuning cache as given by the user; NULL or "" for the default; "off" for no
	 * cache
	 */
	const char *cache;
	/* the model will probably run on a GPU; rewrites read this before a device is open */
	bool gpu;
};

#endif
