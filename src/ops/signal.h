/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SIGNAL_H
#define OPS_SIGNAL_H
#include "ops/op.h"

struct dft {
	int64_t inverse, onesided;
	int64_t axis; /* DFT-17's */
};
enum { DFT_X, DFT_LENGTH, DFT_AXIS };

struct stft {
	int64_t onesided;
};
enum { STFT_X, STFT_STEP, STFT_WINDOW, STFT_LENGTH };

/* HannWindow, HammingWindow, BlackmanWindow */
struct signal_window {
	int64_t periodic, output_datatype;
};

struct mel {
	int64_t output_datatype;
};

#endif
