/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_CONFIG_H
#define BACKEND_CONFIG_H
/* What the user chose about how a model runs. Filled by cmd/options/options.c, read by the layers below. */
#include "base/field.h"

#include <stdbool.h>
#include <stdint.h>

enum device_choice { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_FP16, PRECISION_BF16, PRECISION_AUTO };
enum sync_mode { SYNC_ASYNC, SYNC_NODE, SYNC_LAUNCH };
enum context_choice { CONTEXT_PRIMARY, CONTEXT_OWN };
enum cuda_graph { CUDA_GRAPH_AUTO, CUDA_GRAPH_OFF };
enum tuning { TUNE_QUICK, TUNE_FULL, TUNE_OFF };
enum optimize { OPTIMIZE_NONE, OPTIMIZE_BASIC, OPTIMIZE_FULL };

struct run_config {
	const char *device; /* "auto", "cpu", "cuda", "cuda:1" as given */
	int precision;	    /* enum precision */
	int sync;	    /* enum sync_mode */
	int context;	    /* enum context_choice */
	int cuda_graph;	    /* enum cuda_graph */
	int optimize; /* enum optimize: none: only what is needed to run; basic: exact rewrites; full: all */
	int64_t threads;      /* 0: one a core */
	bool memory_plan;     /* off: each value its own memory */
	bool arena;	      /* off: no reuse between plans */
	int64_t memory_limit; /* bytes; 0: none */
	const char *external_root;
	/* --input and --random as given: an initializer that is a graph input too is one if they name it */
	struct texts given[2];
	int tune;	   /* enum tuning */
	const char *cache; /* folder of tuning results; NULL or "": the user's; "off" */
	bool gpu; /* a GPU will run it, as far as can be told before it is opened: rewrites ask */
};

#endif
