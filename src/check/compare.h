/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_COMPARE_H
#define CHECK_COMPARE_H
/* What --compare found, for the JSON report. All texts and lines are in the context's arena, as the sessions are closed before. */
#include "check/check.h"

/* One node of the tested run. */
struct node_result {
	const char *node, *op;
	double own;   /* `rel` of its output's distance, with the error accumulated so far */
	double local; /* the same on the reference's inputs; NAN if not known */
};
struct comparison {
	const char *ref, *got,
		*verdict; /* verdict: "jump", "reference" (is at fault), "drift", "agree" */
	struct node_result *line;
	size_t n, peak; /* peak: most bytes of the reference's values in memory */
	size_t inputs;	/* how many inputs were compared; 0: one */
};

/*
 * --compare onnxruntime: compares the outputs with ONNX Runtime's for every input of the request and, with --every-tensor or
 * if an output differs, every tensor of the worst input. Sets c->data to a struct comparison. Returns 0, also when it finds
 * a difference, or -code.
 */
int compare_with_ort(struct check_context *c);

#endif
