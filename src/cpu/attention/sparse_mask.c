/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer::SparseMask: which keys the queries of com.microsoft's SparseAttention see, as numbers that are added to the scores,
 * and which rows of the cache no new key takes.
 */
#include "cpu/attention/kernels.h"

#include "cpu/math/util.h"
#include "ops/attention.h"

#include <string.h>

struct layouts {
	const int32_t *rows, *cols;
	int64_t count, row_step, col_step; /* layouts; indices of a layout */
};

/* Block rows must be consecutive in the column indices, and columns must be blocks. */
static int check_layouts(const struct call *c, const struct layouts *l)
{
	int64_t blocks = l->row_step - 1;

	for (int64_t i = 0; i < l->count; i++) {
		const int32_t *rows = l->rows + i * l->row_step, *cols = l->cols + i * l->col_step;
		if (rows[0] < 0 || rows[blocks] > l->col_step)
			return call_fail(c, E_VALUE, "block_row_indices within block_col_indices",
					 NULL);
		for (int64_t r = 0; r < blocks; r++)
			if (rows[r] > rows[r + 1])
				return call_fail(c, E_VALUE,
						 "block_row_indices that do not decrease", NULL);
		for (int64_t j = rows[0]; j < rows[blocks]; j++)
			if (cols[j] < 0 || cols[j] >= blocks)
				return call_fail(c, E_VALUE,
						 "block_col_indices below the number of blocks",
						 fmt(c->diag, "%d", cols[j]));
	}
	return 0;
}

struct mask_job {
	const struct layouts *l;
	const int32_t *lens;
	int64_t heads, queries, keys, block;
	enum dtype type;
	void *y;
};

static int64_t position_of(const struct mask_job *m, int64_t b, int64_t i)
{
	return (m->keys == m->queries ? 0 : m->lens[b] - m->queries) + i;
}

static void mask_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct mask_job *m = arg;
	const struct layouts *l = m->l;

	(void)thread;
	for (int64_t r = begin; r < end; r++) { /* r = (batch * heads + head) * queries + query */
		int64_t i = r % m->queries, layout = r / m->queries % m->heads % l->count,
			b = r / m->queries / m->heads, row = position_of(m, b, i) / m->block;
		const int32_t *rows = l->rows + layout * l->row_step,
			      *cols = l->cols + layout * l->col_step;
		for (int64_t j = 0; j < m->keys; j++)
			elem_set_f64(m->type, m->y, r * m->keys + j, -INFINITY);
		for (int64_t k = rows[row]; k < rows[row + 1]; k++)
			for (int64_t j = cols[k] * m->block;
			     j < lesser((cols[k] + 1) * m->block, m->keys); j++)
				elem_set_f64(m->type, m->y, r * m->keys + j, 0);
	}
}

int sparse_mask_run(const struct call *c)
{
	const struct sparse_attention *p = call_params(c);
	const struct shape *rows = &c->in[MASK_ROWS]->shape, *bias = &c->out[0]->shape,
			   *rest = &c->out[1]->shape;
	struct layouts l = {.rows = c->in[MASK_ROWS]->data,
			    .cols = c->in[MASK_COLS]->data,
			    .count = rows->dim[0],
			    .row_step = rows->dim[1],
			    .col_step = c->in[MASK_COLS]->shape.dim[1]};
	struct mask_job m = {.l = &l,
			     .lens = c->in[MASK_LENS]->data,
			     .heads = bias->dim[1],
			     .queries = bias->dim[2],
			     .keys = bias->dim[3],
			     .block = p->sparse_block_size,
			     .type = tensor_dtype(c->out[0]),
			     .y = c->out[0]->data};
	bool *stays = c->out[1]->data;
	int rc = check_layouts(c, &l);

	if (rc)
		return rc;
	for (int64_t b = 0; b < bias->dim[0]; b++) {
		int64_t first = position_of(&m, b, 0);
		if (m.lens[b] < 0 || first < 0 || m.lens[b] > m.keys)
			return call_fail(c, E_VALUE,
					 "key_total_sequence_lengths that fit total_sequence_length",
					 fmt(c->diag, "%d", m.lens[b]));
		for (int64_t r = 0; r < rest->dim[2]; r++)
			stays[b * rest->dim[2] + r] = r >= first + m.queries;
	}
	if (m.queries && m.keys)
		pool_for(bias->dim[0] * m.heads * m.queries, rows_grain(GRAIN, m.keys), mask_rows, &m);
	return 0;
}
