/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CONTROL_H
#define OPS_CONTROL_H
#include "base/field.h"

/* then_branch, else_branch and body are indices of bodies in node->sub. */
struct if_params {
	int else_branch, then_branch;
};
struct loop_params {
	int body;
};
struct scan_params {
	int body;
	int64_t num_scan_inputs;
	struct ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
};
/* Scan of opset 8: input 0 has the sequence lengths (optional); axis 0 is the batch, axis 1 is scanned. */
struct batched_scan_params {
	int body;
	int64_t num_scan_inputs;
	struct ints directions;
};
struct sequence_map_params {
	int body;
};

#endif
