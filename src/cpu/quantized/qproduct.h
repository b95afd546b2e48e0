/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_QUANTIZED_QPRODUCT_H
#define CPU_QUANTIZED_QPRODUCT_H
/* Products of 8-bit matrices: MatMulInteger and its kin. What becomes of the sums is convolutions' too. */
#include "backend/backend.h"

/*
 * int32: as it is. Float: sum * scale + bias. Quantized: rounded, zero point added, clamped. The
 * factor is ascale * bscale (/ yscale), each one number, or one a row (a) or a column (b).
 */
struct finish {
	enum dtype type; /* of the output */
	const struct tensor *ascale, *bscale, *yscale, *yzero, *bias;
	const int32_t *add;	  /* of a row or column: added to the sum */
	int64_t add_row, add_col; /* steps of add */
	float alpha;
	bool by_row; /* scales of b, and add, go by rows (convolutions) */
	int64_t first_row, first_col, rows,
		cols; /* of the whole matrix, where scales count on over batches */
	/* made once a batch: factors of rows or of columns; NULL where both differ */
	const float *factor;
	int64_t factor_row, factor_col; /* steps of factor */
};
/* room: for as many factors as there are rows or columns. */
void finish_prepare(struct finish *f, float *room);
/* Sums of row m, columns n0..n0+cols-1, become elements of out from `at` on. */
void finish_row(const struct finish *f, int64_t m, int64_t n0, int64_t cols, const int32_t *sums,
		void *out, int64_t at);

/* Rows of A as igemm wants them, and their sums where those are asked for. */
struct code_job {
	uint8_t *to;
	int32_t *sum;
	const uint8_t *from;
	int64_t k, row, col;
	uint8_t flip;
	bool is_signed; /* afterwards */
};
void code_rows(struct code_job *j, int64_t m);

/* Room of a product behind igemm's scratch: rows of A, their zero points and sums, zero points of B. */
struct product_room {
	uint8_t *rows;
	int32_t *za, *rest, *zb;
	float *factor;
};
struct product_room product_room(char *at, int64_t m, int64_t n, int64_t k);
bool product_bytes(int64_t m, int64_t n, int64_t k, size_t scratch, size_t *bytes);
/* Zero points of n rows or columns; whether there is one that is not 0. */
bool zeros_of(const struct tensor *z, int32_t move, int64_t n, int64_t first, int32_t *to);

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
