/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_INSPECT_INSPECT_H
#define CMD_INSPECT_INSPECT_H
/*
 * The information that `infer inspect` has collected about a model, for the functions that print it
 * as text, JSON or HTML.
 */
#include "opt/pipeline.h"
#include "cmd/options/options.h"
#include "input/input.h"
#include "cmd/output/output.h"
#include "session/model_report.h"
#include "session/session.h"

struct node_row {
	const struct graph *graph;
	const struct node *node;
	struct cost cost;
};

struct inspection {
	struct options *o;
	struct arena arena;
	const char *path;
	struct input_request request; /* of random values; with --cost, with sizes that were found for free dimensions */
	bool sizes_found;
	struct model *model;
	struct op_count *ops;
	size_t nops;
	struct weight_sum weights[DT_COUNT];
	struct node_row *nodes; /* nodes of the main graph in execution order, for --nodes and --cost */
	size_t nnodes;
	struct cost total;
	bool planned; /* --memory */
	struct segment_report plan;
	size_t packed_bytes;	  /* weights packed for the kernels */
	size_t copied_bytes;	  /* weights that were copied from the file when it was read */
	size_t in_place_bytes;	  /* weights that kernels read where the file is mapped */
	size_t peak_bytes;	  /* the three, and the planned memory of values */
	struct opt_report report; /* --passes, --explain */
};

void inspect_print_text(const struct inspection *x, FILE *f);
/* Writes the HTML page of --html. Fails with E-OUTPUT. */
int inspect_page(const struct inspection *x, const char *path, struct diag *d);
/* Shows what the optimizer did, for --passes and --explain. */
void inspect_print_passes(const struct inspection *x, FILE *f);
void inspect_write_passes(const struct inspection *x, struct json *j);
void inspect_print_json(struct inspection *x, const struct diag *d);
/* Lists every operator of this build, for --ops. */
void inspect_print_support(struct options *o, const struct diag *d);

/* Writes infer-operators(7) in roff: each operator with its versions, types and devices. */
void operators_page(FILE *f);

/* Returns true if the path is that of a tensor file: its extension is .npy, .npz, .safetensors or .pb. */
bool inspect_is_tensor(const char *path);
/*
 * Returns true if the file is named .json and holds a tensor or maps, as `infer run -o` writes them, or an array of numbers or
 * strings, and no report.
 */
bool inspect_is_json_tensor(const char *path);
int inspect_tensor(struct options *o, const char *path, struct diag *d);
/* Shows a line for each tensor in the files of a folder, such as `infer run -o FOLDER` writes, and names the other files. */
int inspect_folder(struct options *o, const char *path, struct diag *d);

/*
 * Returns true if the path is that of a saved report, a document that a command wrote with --json,
 * which is recognized by the extension .json.
 */
bool inspect_is_report(const char *path);
int inspect_report(struct options *o, const char *path, struct diag *d);
/* Shows the models of a folder of ONNX Runtime GenAI; path: that of its configuration. */
int inspect_genai(struct options *o, const char *path, struct diag *d);

/* Returns a value of the metadata, of which a long one is cut: some models hold a dictionary there. */
const char *metadata_text(const char *value, struct arena *a);
/* Formats a size as "10.9 MiB", in the arena. */
const char *human_bytes(struct arena *a, uint64_t bytes);

#endif
