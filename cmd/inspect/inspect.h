/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_INSPECT_INSPECT_H
#define CMD_INSPECT_INSPECT_H
/* What `infer inspect` found out, for its two printers. */
#include "opt/pipeline.h"
#include "cmd/options/options.h"
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
	struct model *model;
	struct op_count *ops;
	size_t nops;
	struct weight_sum weights[DT_COUNT];
	struct node_row *nodes; /* --nodes, --cost: of the main graph, in order */
	size_t nnodes;
	struct cost total;
	bool planned; /* --memory */
	struct segment_report plan;
	size_t packed_bytes;	  /* weights packed for the kernels */
	size_t kept_bytes;	  /* of the weights, those that no kernel has packed */
	size_t peak_bytes;	  /* these two, and what the values take at most */
	struct opt_report report; /* --passes, --explain */
};

void inspect_print_text(const struct inspection *x, FILE *f);
/* --html. E-OUTPUT. */
int inspect_page(const struct inspection *x, const char *path, struct diag *d);
/* --passes, --explain: what the optimizer did. */
void inspect_print_passes(const struct inspection *x, FILE *f);
void inspect_write_passes(const struct inspection *x, struct json *j);
void inspect_print_json(struct inspection *x, const struct diag *d);
/* --ops without a model: every operator of this build. */
void inspect_print_support(struct options *o, const struct diag *d);

/* .npy, .npz and .pb by their extension. */
bool inspect_is_tensor(const char *path);
int inspect_tensor(struct options *o, const char *path, struct diag *d);

/* REPORT.json: what another command wrote with --json. */
bool inspect_is_report(const char *path);
int inspect_report(struct options *o, const char *path, struct diag *d);

/* "10.9 MB", in the arena. */
const char *human_bytes(struct arena *a, uint64_t bytes);

#endif
