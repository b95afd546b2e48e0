/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers, with one launch for each time step, or two for a GRU. */
#include "ops/rnn.h"

#include "gpu/launch/job.h"
#include "gpu/kernels/rnn.h"

#include <math.h>

GPU_SAME(GPU_CELL_RNN, CELL_RNN);
GPU_SAME(GPU_CELL_GRU, CELL_GRU);
GPU_SAME(GPU_CELL_LSTM, CELL_LSTM);
GPU_SAME(GPU_CELL_FUNCTIONS, RNN_FUNCTIONS);

static bool is_quantized(const struct site *s)
{
	return s->node->op->variant == RNN_QUANTIZED_LSTM;
}

static bool rnn_accepts(const struct site *s, struct why *w)
{
	const struct rnn *p = s->node->params;
	enum rnn_cell cell = rnn_cell(s->node);
	struct rnn_activation act[2 * RNN_FUNCTIONS];
	int n = rnn_activations_needed(p, cell);

	if (p->activations.n > 0 && p->activations.n < n)
		return refuse(w, "%lld activations where there should be %d",
			      (long long)p->activations.n, n);
	const char *unknown = rnn_activations(p, cell, act);
	return !unknown || refuse(w, "activation %s", unknown);
}

static void fill_activations(const struct rnn *p, struct gpu_rnn *j)
{
	struct rnn_activation act[2 * RNN_FUNCTIONS] = {{0}};

	rnn_activations(p, (enum rnn_cell)j->cell, act);
	for (int k = 0; k < 2 * RNN_FUNCTIONS; k++) {
		j->act[k] = act[k].act;
		j->alpha[k] = act[k].alpha;
		j->beta[k] = act[k].beta;
	}
}

static void fill_rnn(const struct site *s, struct step *step, struct gpu_rnn *j)
{
	const struct rnn *p = s->node->params;
	const struct shape *x = &site_in(s, RNN_X)->shape;
	size_t size = gpu_type(s, 0) == DT_F64 ? 8 : 4;

	j->cell = (int)rnn_cell(s->node);
	j->gates = rnn_gates((enum rnn_cell)j->cell);
	j->dirs = rnn_directions(p);
	j->reverse = p->direction == RNN_REVERSE;
	j->layout = p->layout != 0;
	j->seq = x->dim[p->layout ? 1 : 0];
	j->batch = x->dim[p->layout ? 0 : 1];
	j->input = x->dim[2];
	j->hidden = site_in(s, RNN_W)->shape.dim[is_quantized(s) ? 2 : 1] / j->gates;
	j->clipped = !isnan(p->clip);
	j->clip = j->clipped ? (double)p->clip : 0;
	j->input_forget = j->cell == CELL_LSTM && p->input_forget;
	j->linear_before_reset = j->cell == CELL_GRU && p->linear_before_reset;
	fill_activations(p, j);
	size_t state = (size_t)(j->dirs * j->batch * j->hidden) * size;
	j->at_xg = (int64_t)gpu_room(step, (size_t)(j->seq * j->gates) * state);
	j->at_h[0] = (int64_t)gpu_room(step, state);
	j->at_h[1] = (int64_t)gpu_room(step, state);
	j->at_c = (int64_t)gpu_room(step, state);
	j->at_rh = (int64_t)gpu_room(step, state);
}

static int add_task(struct site *s, struct step *step, const struct gpu_rnn *j, const char *kernel,
		    struct gpu_grid grid, struct diag *d)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s", kernel, dtype_name(gpu_type(s, 0)));
	return gpu_task_add(s, step, "rnn", name, j, sizeof(*j), grid, d);
}

/* Adds one task for the time step; rnn_run launches it for each step with the step's number. */
static int rnn_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_rnn job = {0};
	char kernel[16];

	fill_rnn(s, step, &job);
	int64_t state = job.dirs * job.batch * job.hidden,
		wide = (job.gates * job.hidden + 31) / 32, rows = (job.seq * job.batch + 31) / 32;
	struct gpu_grid inputs = {(unsigned)(rows < 1	      ? 1
					     : rows > 1 << 16 ? 1 << 16
							      : rows),
				  (unsigned)wide, (unsigned)job.dirs, 256, 0};
	if (!state)
		return 0;
	snprintf(kernel, sizeof(kernel), "rnn_step_%s", s->node->op->name);
	int err = add_task(s, step, &job, "rnn_inputs", inputs, d);
	if (!err)
		err = add_task(s, step, &job, "rnn_start", gpu_grid(state), d);
	if (!err)
		err = add_task(s, step, &job, kernel, gpu_blocks((state + 3) / 4, 128), d);
	return err ? err : add_task(s, step, &job, "rnn_end", gpu_grid(state), d);
}

static int rnn_run(const struct call *c)
{
	const struct gpu_tasks *t = c->step->state;
	struct gpu_rnn job;
	int err = 0;

	if (!t)
		return 0;
	for (int i = 0; i < 2 && !err; i++)
		err = gpu_task_launch(c, &t->v[i]);
	memcpy(&job, t->v[2].job, sizeof(job));
	gpu_io_fill(c, &job.io);
	for (job.step = 0; job.step < job.seq && !err; job.step++, job.now = !job.now)
		for (job.part = 0; job.part < (job.cell == CELL_GRU ? 2 : 1) && !err; job.part++)
			err = gpu_launch(c, t->v[2].fn, t->v[2].grid, &job, sizeof(job));
	return err ? err : gpu_launch(c, t->v[3].fn, t->v[3].grid, &job, sizeof(job));
}

/* ---- com.microsoft::DynamicQuantizeLSTM ------------------------------------------------------ */

/* MAX_DEPTH: a sum of up to this many products of 8-bit numbers fits 32 bits. */
enum { SCALES = RNN_P + 1, MAX_DEPTH = 32768 };

/*
 * Returns whether input i has one scale (or zero point) for each direction or for each column. *many becomes true if it
 * has one for each column.
 */
static bool scales_fit(const struct site *s, uint32_t i, int *many)
{
	const struct shape *w = &site_in(s, i < SCALES + 2 ? RNN_W : RNN_R)->shape;
	int64_t n = gpu_count(&site_in(s, i)->shape);

	*many = n == w->dim[0] * w->dim[2] && n != w->dim[0];
	return *many || n == w->dim[0];
}

static bool qlstm_accepts(const struct site *s, struct why *w)
{
	int many;

	for (uint32_t i = SCALES; i < SCALES + 4; i++)
		if (!scales_fit(s, i, &many))
			return refuse(w, "neither one scale a direction nor one a column");
	if (site_in(s, RNN_W)->shape.dim[1] > MAX_DEPTH || site_in(s, RNN_R)->shape.dim[1] > MAX_DEPTH)
		return refuse(w, "rows of more than %d", MAX_DEPTH);
	return rnn_accepts(s, w);
}

static void fill_quantized(const struct site *s, struct step *step, struct gpu_qlstm *q)
{
	struct gpu_rnn *j = &q->rnn;

	fill_rnn(s, step, j);
	for (uint32_t k = 0; k < 2; k++) {
		scales_fit(s, SCALES + 2 * k, &q->many_scales[k]);
		scales_fit(s, SCALES + 2 * k + 1, &q->many_zeros[k]);
		q->zero_type[k] = (int)gpu_type(s, SCALES + 2 * k + 1);
	}
	int64_t inputs = (j->seq * j->batch * j->input + 1023) / 1024;
	q->x_parts = inputs < 1 ? 1 : inputs > GPU_QLSTM_PARTS ? GPU_QLSTM_PARTS : inputs;
	q->parts = (j->hidden + GPU_QLSTM_UNITS - 1) / GPU_QLSTM_UNITS *
		   ((j->batch + GPU_QLSTM_ROWS - 1) / GPU_QLSTM_ROWS);
	q->at_x_part = (int64_t)gpu_room(step, (size_t)q->x_parts * 2 * sizeof(float));
	for (int k = 0; k < 2; k++)
		q->at_part[k] =
			(int64_t)gpu_room(step, (size_t)(j->dirs * q->parts) * 2 * sizeof(float));
	q->at_codes = (int64_t)gpu_room(step, (size_t)(j->seq * j->batch * ((j->input + 3) / 4)) *
						      sizeof(uint32_t));
}

/*
 * Adds the tasks: start states, ranges of the input, quantization of the input, products of the input, one launch for
 * each time step, final states.
 */
static int qlstm_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_qlstm job = {.rnn = {.cell = CELL_LSTM}};
	const struct gpu_rnn *j = &job.rnn;

	fill_quantized(s, step, &job);
	int64_t state = j->dirs * j->batch * j->hidden, rows = (j->seq * j->batch + 63) / 64,
		tiles = (j->batch + GPU_QLSTM_ROWS - 1) / GPU_QLSTM_ROWS,
		ranges = job.parts > job.x_parts ? job.parts : job.x_parts;
	if (!state)
		return 0;
	struct gpu_grid range = {(unsigned)ranges, (unsigned)j->dirs + 1, 1, 256, 0};
	struct gpu_grid inputs = {(unsigned)(rows < 1	      ? 1
					     : rows > 1 << 16 ? 1 << 16
							      : rows),
				  (unsigned)((4 * j->hidden + 63) / 64), (unsigned)j->dirs, 256, 0};
	struct gpu_grid steps = {(unsigned)((j->hidden + GPU_QLSTM_UNITS - 1) / GPU_QLSTM_UNITS),
				 (unsigned)(tiles < MAX_GRID_YZ ? tiles : MAX_GRID_YZ),
				 (unsigned)j->dirs, 256, 0};
	struct gpu_grid codes = gpu_grid(j->seq * j->batch * ((j->input + 3) / 4));
	int err = add_task(s, step, j, "rnn_start", gpu_grid(state), d);
	if (!err)
		err = gpu_task_add(s, step, "rnn", "qlstm_range", &job, sizeof(job), range, d);
	if (!err)
		err = gpu_task_add(s, step, "rnn", "qlstm_codes", &job, sizeof(job), codes, d);
	if (!err)
		err = gpu_task_add(s, step, "rnn", "qlstm_inputs", &job, sizeof(job), inputs, d);
	if (!err)
		err = gpu_task_add(s, step, "rnn", "qlstm_step", &job, sizeof(job), steps, d);
	return err ? err : add_task(s, step, j, "rnn_end", gpu_grid(state), d);
}

static int qlstm_run(const struct call *c)
{
	const struct gpu_tasks *t = c->step->state;
	struct gpu_qlstm job;
	struct gpu_rnn last;
	int err;

	if (!t)
		return 0;
	memcpy(&job, t->v[4].job, sizeof(job));
	gpu_io_fill(c, &job.rnn.io);
	for (uint32_t k = 0; k < 2; k++) {
		job.scale[k] = gpu_data(c, SCALES + 2 * k);
		job.zero[k] = gpu_data(c, SCALES + 2 * k + 1);
	}
	err = gpu_task_launch(c, &t->v[0]);
	for (int i = 1; i < 4 && !err; i++)
		err = gpu_launch(c, t->v[i].fn, t->v[i].grid, &job, sizeof(job));
	for (; job.rnn.step < job.rnn.seq && !err; job.rnn.step++, job.rnn.now = !job.rnn.now)
		err = gpu_launch(c, t->v[4].fn, t->v[4].grid, &job, sizeof(job));
	last = job.rnn;
	return err ? err : gpu_launch(c, t->v[5].fn, t->v[5].grid, &last, sizeof(last));
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = rnn_accepts, .reshape = rnn_reshape, \
		.run = rnn_run                                                                     \
	}
const struct kernel gpu_rnn[] = {ROW("RNN"),
				 ROW("GRU"),
				 ROW("LSTM"),
				 {.op = "com.microsoft::DynamicQuantizeLSTM",
				  .types = T_F32,
				  .accepts = qlstm_accepts,
				  .reshape = qlstm_reshape,
				  .run = qlstm_run},
				 {0}};
