/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QPRODUCT_H
#define CPU_QUANTIZED_QPRODUCT_H
/*
 * Products of 8-bit matrices (MatMulInteger, QLinearMatMul, QGemm, ...), and the conversion of integer sums to the
 * output type, which convolutions share.
 */
#include "backend/backend.h"
#include "cpu/math/igemm.h"
#include "ops/matmul.h"

/*
 * How an integer sum becomes an element of the output. An int32 output gets the sum itself. A float output gets sum *
 * factor + bias. A quantized output gets sum * factor, rounded, plus the zero point, clamped. The factor is alpha *
 * ascale * bscale, divided by yscale if that is not NULL. A scale tensor holds one number, or one per row (ascale,
 * yscale) or per column (bscale).
 */
struct finish {
	enum dtype type; /* type of the output */
	const struct tensor *ascale, *bscale, *yscale, *yzero, *bias;
	const int32_t *add;	  /* integers that are added to the sums before scaling, or NULL */
	int64_t add_row, add_col; /* strides of add */
	float alpha;
	bool by_row;	    /* bscale has one number per row, not per column (convolutions) */
	int64_t rows, cols; /* size of a batch's matrix */
	/*
	 * index of the batch's first row (column) in a scale that has one entry for each row (column) of all batches
	 */
	int64_t first_row, first_col;
	/* set by finish_prepare: the factor of each row or of each column; NULL if factors depend on both */
	const float *factor;
	int64_t factor_row, factor_col; /* strides of factor: 0 or 1 */
};
/* Computes f->factor in `room`, which has space for as many floats as there are rows or columns. */
void finish_prepare(struct finish *f, float *room);
/* Converts the sums of row m, columns n0 to n0 + cols - 1, and stores them in `out` from element `at` on. */
void finish_row(const struct finish *f, int64_t m, int64_t n0, int64_t cols, const int32_t *sums,
		void *out, int64_t at);

/*
 * Arguments of code_rows, which copies m rows of k bytes to the form that igemm reads: dense, each row padded with
 * zeros to igemm_depth(k) bytes.
 */
struct code_job {
	uint8_t *to;
	int32_t *sum; /* receives the sum of each row; may be NULL */
	const uint8_t *from;
	/* number of elements in a row; strides of `from` between rows and between columns */
	int64_t k, row, col;
	uint8_t flip;	/* mask that each byte is XORed with; see flip_to */
	bool is_signed; /* the copied bytes are signed */
};
void code_rows(struct code_job *j, int64_t m);

/*
 * Buffers that a product keeps in the workspace behind igemm's scratch: rows of A (code_rows), the arrays a_zero,
 * a_rest and b_zero of struct igemm, and the factors of struct finish.
 */
struct product_room {
	uint8_t *rows;
	int32_t *za, *rest, *zb;
	float *factor;
};
struct product_room product_room(char *at, int64_t m, int64_t n, int64_t k);
/* Sets *bytes to the size of the workspace, igemm's scratch included. Returns false if the size overflows. */
bool product_bytes(int64_t m, int64_t n, int64_t k, size_t scratch, size_t *bytes);
/*
 * Sets each to[i] to the zero point of row or column i of n (`first`: number of the first) plus `move`. Returns whether
 * any to[i] is not 0.
 */
bool zeros_of(const struct tensor *z, int32_t move, int64_t n, int64_t first, int32_t *to);

/* A constant matrix of weights, the right operand of a product, packed once a session. */
struct packed {
	int32_t *sums;	 /* of columns, without the zero points if is_narrow */
	uint8_t *panels; /* those of igemm, or those of `narrow` */
	bool is_narrow;	 /* the columns have lost their zero points */
	struct igemm_narrow narrow;
};
/*
 * Sets *out to the packed form of input w, whose zero points are input `zero`, or to NULL if the input is not known before the run.
 * `m` says where its columns are; m->m does not matter. Returns 0 or -code.
 */
int packed_get(const struct site *s, uint32_t w, uint32_t zero, const struct matmul_shape *m,
	       const struct packed **out, struct diag *d);

/* ---- kernels ---- */

int matmul_integer_reshape(struct site *s, struct step *st, struct diag *d);
int matmul_integer_run(const struct call *c);
int to_float_reshape(struct site *s, struct step *st, struct diag *d);
int to_float_run(const struct call *c);
bool qlinear_int(const struct site *s, struct why *w);
int qlinear_matmul_reshape(struct site *s, struct step *st, struct diag *d);
int qlinear_matmul_run(const struct call *c);
int qlinear_reference_run(const struct call *c);
int qgemm_reshape(struct site *s, struct step *st, struct diag *d);
int qgemm_run(const struct call *c);

#endif
