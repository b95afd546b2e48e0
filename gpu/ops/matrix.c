/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum, Det, Inverse and the less common forms of normalizations. Their kernels are in kernels/matrix.cu. */
#include "gpu/ops/task_rows.h"

#include "ops/matmul.h"
#include "ops/norm.h"

/* ---- Einsum ---------------------------------------------------------------------------------- */

/*
 * The sizes of Einsum's labels and the stride of each operand along them. A dimension of size 1 broadcasts and has
 * stride 0.
 */
struct labels {
	int64_t size[EINSUM_LABELS], step[EINSUM_IN][EINSUM_LABELS];
	bool kept[EINSUM_LABELS];
};

static void measure_labels(const struct site *s, const struct einsum_plan *e, struct labels *l)
{
	for (int k = 0; k < e->nlabels; k++)
		l->size[k] = 1;
	for (int i = 0; i < e->noperands; i++) {
		const struct shape *x = &site_in(s, (uint32_t)i)->shape;
		int64_t step[MAX_RANK];
		gpu_strides(x, step);
		for (int r = 0; r < x->rank; r++) {
			int k = e->label[i][r];
			if (x->dim[r] != 1) {
				l->size[k] = x->dim[r];
				l->step[i][k] += step[r];
			}
		}
	}
	for (int r = 0; r < e->nout; r++)
		l->kept[e->out[r]] = true;
}

/*
 * Sets the dims and the operands' strides of a loop over the n labels in `label`, and *count to the number of
 * iterations. Returns false if there are too many dims.
 */
static bool fill_label_loop(const struct einsum_plan *e, const struct labels *l, const int *label,
			    int n, struct gpu_dims *d, int64_t (*steps)[GPU_DIMS], int64_t *count)
{
	int64_t dim[MAX_RANK], step[EINSUM_IN][MAX_RANK] = {{0}};

	if (n > MAX_RANK)
		return false;
	*count = 1;
	for (int r = 0; r < n; r++) {
		dim[r] = l->size[label[r]];
		*count *= dim[r];
		for (int i = 0; i < e->noperands; i++)
			step[i][r] = l->step[i][label[r]];
	}
	return gpu_collapse(n, dim, EINSUM_IN, step, d, steps);
}

static const char *fill_einsum(const struct site *s, struct gpu_einsum *j)
{
	const struct einsum *p = s->node->params;
	int n = (int)s->node->nin, nsum = 0, rank[EINSUM_IN], keep[EINSUM_LABELS], sum[EINSUM_LABELS];
	struct einsum_plan e;
	struct labels l = {{0}, {{0}}, {0}};

	if (n > EINSUM_IN)
		return "many operands";
	for (int i = 0; i < n; i++)
		rank[i] = site_in(s, (uint32_t)i)->shape.rank;
	if (einsum_parse(p->equation, n, rank, &e, NULL))
		return "an equation that does not fit";
	measure_labels(s, &e, &l);
	for (int r = 0; r < e.nout; r++)
		keep[r] = e.out[r];
	for (int k = 0; k < e.nlabels; k++)
		if (!l.kept[k])
			sum[nsum++] = k;
	j->nin = n;
	return fill_label_loop(&e, &l, keep, e.nout, &j->keep, j->ks, &j->n) &&
			       fill_label_loop(&e, &l, sum, nsum, &j->sum, j->ss, &j->m)
		       ? NULL
		       : "too many dimensions";
}

bool gpu_einsum_accepts(const struct site *s, struct why *w)
{
	struct gpu_einsum j = {0};
	const char *bad = fill_einsum(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_einsum_reshape(struct site *s, struct step *step, struct diag *d)
{
	enum dtype t = gpu_type(s, 0);
	struct gpu_einsum job = {0};
	char name[32];

	snprintf(name, sizeof(name), "einsum%s_%s", s->node->nin > EINSUM_FEW ? "_many" : "",
		 t == DT_F64		      ? "f64"
		 : dtype_class(t) == DT_FLOAT ? "f32"
					      : "int");
	fill_einsum(s, &job);
	return job.n ? gpu_task_add(s, step, "matrix", name, &job, sizeof(job),
				    gpu_blocks((job.n + 3) / 4, 128), d)
		     : 0;
}

/* ---- Det ------------------------------------------------------------------------------------- */

enum { MAX_DET_BLOCKS = 256 }; /* bounds the workspace, in which each block has a matrix */

bool gpu_det_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	return x->dim[x->rank - 1] < 1 << 14 || refuse(w, "large matrices");
}

int gpu_det_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_matrix job = {.n = shape_span(x, 0, x->rank - 2), .size = x->dim[x->rank - 1]};
	int64_t blocks = job.n < MAX_DET_BLOCKS ? job.n : MAX_DET_BLOCKS;

	gpu_room(step, (size_t)(blocks * job.size * job.size) * sizeof(double));
	return job.n ? gpu_task_add(s, step, "matrix", "determinant", &job, sizeof(job),
				    gpu_blocks(blocks, 128), d)
		     : 0;
}

/* ---- Inverse --------------------------------------------------------------------------------- */

int gpu_inverse_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_matrix job = {.n = shape_span(x, 0, x->rank - 2), .size = x->dim[x->rank - 1]};
	int64_t blocks = job.n < MAX_DET_BLOCKS ? job.n : MAX_DET_BLOCKS;

	gpu_room(step, (size_t)(2 * blocks * job.size * job.size) * sizeof(double));
	return gpu_count(x) ? gpu_task_add(s, step, "matrix", "inverse", &job, sizeof(job),
					   gpu_blocks(blocks, 128), d)
			    : 0;
}

/* ---- normalizations -------------------------------------------------------------------------- */

/* Sets the strides of scale and bias. Returns false if they do not broadcast to x. */
static bool fill_affine(const struct site *s, struct gpu_norm_any *j)
{
	const struct shape *x = &site_in(s, 0)->shape, *in[2] = {x, x};
	const int at[2] = {j->w, j->b};

	for (int k = 0; k < 2; k++) {
		struct shape y;
		if (at[k] < 0)
			continue;
		in[k] = &site_in(s, (uint32_t)at[k])->shape;
		if (!shape_broadcast(x, in[k], &y) || !shape_equal(x, &y))
			return false;
	}
	return gpu_broadcast(x, 2, in, &j->d, j->step);
}

static int input_or_none(const struct site *s, uint32_t i)
{
	return site_in(s, i) ? (int)i : -1;
}
static int output_or_none(const struct site *s, uint32_t i)
{
	return site_out(s, i) ? (int)i : -1;
}

static int add_norm_any(struct site *s, struct step *step, const struct gpu_norm_any *j,
			struct diag *d)
{
	return j->rows > 0 ? gpu_task_add(s, step, "matrix", "norm_any", j, sizeof(*j),
					  gpu_blocks(j->rows, j->n <= 64 ? 64 : 256), d)
			   : 0;
}

/*
 * Fills the job of LayerNormalization and RMS forms whose scale, bias or statistics have a type or shape that norm.c
 * does not support.
 */
static bool fill_layer_any(const struct site *s, struct gpu_norm_any *j)
{
	const struct layer_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool layer = s->node->op->variant != NORM_RMS;
	int axis = axis_of(p->axis, x->rank);

	if (axis < 0 || !gpu_count(x))
		return false;
	*j = (struct gpu_norm_any){.rows = shape_span(x, 0, axis),
				   .n = shape_span(x, axis, x->rank),
				   .skip = -1,
				   .bias = -1,
				   .w = input_or_none(s, 1),
				   .b = layer ? input_or_none(s, 2) : -1,
				   .mean = layer ? output_or_none(s, 1) : -1,
				   .inv = output_or_none(s, layer ? 2 : 1),
				   .sum = -1,
				   .rms = !layer,
				   .epsilon = (double)p->epsilon};
	return fill_affine(s, j);
}

bool gpu_layer_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_norm_any j;

	return fill_layer_any(s, &j) || refuse(w, "a scale or bias that does not fit");
}

int gpu_layer_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_norm_any job;

	fill_layer_any(s, &job);
	return add_norm_any(s, step, &job, d);
}

/* GatedRMSNorm: rows are as long as the scale, whatever the last dimension of X. */
int gpu_gated_rms_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct gated_rms *p = s->node->params;
	const struct shape *scale = &site_in(s, 1)->shape;
	int64_t n = scale->dim[0], rows = gpu_count(&site_in(s, 0)->shape) / n;
	const struct shape view = shape_of(2, (int64_t[]){rows, n}), *in[2] = {scale, &view};
	struct gpu_norm_any job = {.rows = rows,
				   .n = n,
				   .skip = -1,
				   .bias = -1,
				   .w = 1,
				   .b = -1,
				   .mean = -1,
				   .inv = -1,
				   .sum = -1,
				   .rms = 1,
				   .gate = p->activation == GATE_SIGMOID ? GPU_GATE_SIGMOID
									 : GPU_GATE_SILU,
				   .epsilon = (double)p->epsilon};

	gpu_broadcast(&view, 2, in, &job.d, job.step);
	return add_norm_any(s, step, &job, d);
}

/* Fills the job of SkipLayerNormalization that outputs statistics or whose skip input broadcasts over batches. */
static bool fill_skip_any(const struct site *s, struct gpu_norm_any *j)
{
	const struct epsilon *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool rms = s->node->op->variant == NORM_RMS;
	int64_t count = gpu_count(x), skip = gpu_count(&site_in(s, 1)->shape),
		n = x->rank ? x->dim[x->rank - 1] : 1;

	if (count && (!skip || skip % n || count % skip))
		return false;
	*j = (struct gpu_norm_any){.rows = n ? count / n : 0,
				   .n = n,
				   .skip_rows = n ? skip / n : 0,
				   .skip = 1,
				   .bias = input_or_none(s, rms ? 3 : 4),
				   .w = input_or_none(s, 2),
				   .b = rms ? -1 : input_or_none(s, 3),
				   .mean = output_or_none(s, 1),
				   .inv = output_or_none(s, 2),
				   .sum = output_or_none(s, 3),
				   .rms = rms,
				   .epsilon = (double)p->epsilon};
	if (j->bias >= 0 && gpu_count(&site_in(s, (uint32_t)j->bias)->shape) != n)
		return false;
	return fill_affine(s, j);
}

bool gpu_skip_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_norm_any j;

	return fill_skip_any(s, &j) || refuse(w, "a skip, scale or bias that does not fit");
}

int gpu_skip_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_norm_any job;

	fill_skip_any(s, &job);
	return add_norm_any(s, step, &job, d);
}

/* EmbedLayerNormalization adds up one row of each embedding table and normalizes the sum. */
bool gpu_embed_accepts(const struct site *s, struct why *w)
{
	int64_t n = site_in(s, 2)->shape.rank == 2 ? site_in(s, 2)->shape.dim[1] : -1;

	for (uint32_t i = 2; i < 7; i++)
		if (site_in(s, i) && (n < 1 || gpu_count(&site_in(s, i)->shape) % n))
			return refuse(w, "tables of several widths");
	return true;
}

int gpu_embed_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct embed_norm *p = s->node->params;
	const struct shape *ids = &site_in(s, 0)->shape, *word = &site_in(s, 2)->shape;
	bool segments = site_in(s, 1) && site_in(s, 4);
	struct gpu_norm_any job = {.rows = gpu_count(ids),
				   .n = word->dim[1],
				   .skip = -1,
				   .bias = -1,
				   .w = input_or_none(s, 5),
				   .b = input_or_none(s, 6),
				   .mean = -1,
				   .inv = -1,
				   .sum = output_or_none(s, 2),
				   .tables = segments ? 3 : 2,
				   .length = ids->dim[1],
				   .epsilon = (double)p->epsilon};

	if (site_in(s, 8))
		job.positions = gpu_count(&site_in(s, 8)->shape);
	for (int k = 0; k < job.tables; k++)
		job.table[k] = site_in(s, (uint32_t)(2 + k))->shape.dim[0];
	job.d = (struct gpu_dims){.rank = 2, .dim = {job.rows, job.n}};
	job.step[0][1] = job.step[1][1] = 1;
	int err = add_norm_any(s, step, &job, d);
	job.rows = site_out(s, 1) ? gpu_count(&site_out(s, 1)->shape) : 0;
	return err || !job.rows ? err : GPU_TASK(s, step, "matrix", "count_mask", &job, job.rows, d);
}

/* com.microsoft::GroupNorm */
bool gpu_group_any_accepts(const struct site *s, struct why *w)
{
	const struct ms_group_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t c = x->rank < 2 ? 0 : x->dim[p->channels_last ? x->rank - 1 : 1];

	for (uint32_t i = 1; i < 3; i++)
		if (gpu_count(&site_in(s, i)->shape) != c)
			return refuse(w, "not one scale for each channel");
	return (p->groups > 0 && c % p->groups == 0) || refuse(w, "groups that do not fit");
}

int gpu_group_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct ms_group_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool last = p->channels_last != 0;
	struct gpu_group_any job = {.batch = x->dim[0],
				    .channels = x->dim[last ? x->rank - 1 : 1],
				    .pixels = last ? shape_span(x, 1, x->rank - 1)
						   : shape_span(x, 2, x->rank),
				    .last = last,
				    .silu = p->activation != 0,
				    .epsilon = (double)p->epsilon};

	job.per_group = job.channels / p->groups;
	return gpu_count(x) ? gpu_task_add(s, step, "matrix", "group_any", &job, sizeof(job),
					   gpu_blocks(job.batch * p->groups, 256), d)
			    : 0;
}

bool gpu_lp_norm_accepts(const struct site *s, struct why *w)
{
	return site_in(s, 0)->shape.rank > 0 || refuse(w, "a scalar");
}

int gpu_lp_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct lp_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int axis = axis_of(p->axis, x->rank);
	struct gpu_matrix job = {.size = x->dim[axis],
				 .outer = shape_span(x, 0, axis),
				 .inner = shape_span(x, axis + 1, x->rank),
				 .p = p->p == 1 ? 1 : 2};

	return gpu_count(x) ? gpu_task_add(s, step, "matrix", "lp_normal", &job, sizeof(job),
					   gpu_blocks(job.outer * job.inner, 128), d)
			    : 0;
}

static bool fill_mvn(const struct site *s, struct gpu_mean_variance *j)
{
	const struct mvn *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	uint32_t mask = 0;

	for (int64_t i = 0; i < p->axes.n; i++)
		mask |= 1u << axis_of(p->axes.v[i], x->rank);
	return gpu_part(x, mask, &j->keep, &j->ks, &j->n, &j->red, &j->rs, &j->m);
}

bool gpu_mvn_accepts(const struct site *s, struct why *w)
{
	struct gpu_mean_variance j = {0};

	return fill_mvn(s, &j) || refuse(w, "more than %d dimensions", GPU_DIMS);
}

int gpu_mvn_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_mean_variance job = {0};

	fill_mvn(s, &job);
	return job.n && job.m ? gpu_task_add(s, step, "matrix", "mean_variance", &job, sizeof(job),
					     gpu_blocks(job.n, 256), d)
			      : 0;
}

static void fill_channels(const struct site *s, struct gpu_channels *j)
{
	const struct shape *x = &site_in(s, 0)->shape;

	j->n = gpu_count(x);
	j->batch = x->dim[0];
	j->channels = x->rank > 1 ? x->dim[1] : 1;
	j->inner = x->rank > 2 ? shape_span(x, 2, x->rank) : 1;
}

bool gpu_lrn_accepts(const struct site *s, struct why *w)
{
	const struct lrn *p = s->node->params;

	return p->size > 0 || refuse(w, "an empty window");
}

int gpu_lrn_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct lrn *p = s->node->params;
	struct gpu_channels job = {.window = p->size,
				   .epsilon = (double)p->bias,
				   .alpha = (double)p->alpha,
				   .beta = (double)p->beta};

	fill_channels(s, &job);
	return job.n ? GPU_TASK(s, step, "matrix", "local_response", &job, job.n, d) : 0;
}

bool gpu_batch_any_accepts(const struct site *s, struct why *w)
{
	struct gpu_channels j = {.n = 0};

	fill_channels(s, &j);
	for (uint32_t i = 1; i < 5; i++)
		if (!site_in(s, i) || gpu_count(&site_in(s, i)->shape) != j.channels)
			return refuse(w, "not one statistic for each channel");
	return true;
}

int gpu_batch_any_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct batch_norm *p = s->node->params;
	struct gpu_channels job = {.epsilon = (double)p->epsilon, .momentum = (double)p->momentum};

	fill_channels(s, &job);
	if (!p->training_mode)
		return job.n ? GPU_TASK(s, step, "matrix", "batch_any", &job, job.n, d) : 0;
	return job.n ? gpu_task_add(s, step, "matrix", "batch_training", &job, sizeof(job),
				    gpu_blocks(job.channels, 256), d)
		     : 0;
}

bool gpu_group_scaled_accepts(const struct site *s, struct why *w)
{
	const struct group_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank < 2 || p->num_groups < 1 || x->dim[1] % p->num_groups)
		return refuse(w, "groups that do not fit");
	for (uint32_t i = 1; i < 3; i++)
		if (gpu_count(&site_in(s, i)->shape) != p->num_groups)
			return refuse(w, "not one scale for each group");
	return true;
}

int gpu_group_scaled_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct group_norm *p = s->node->params;
	struct gpu_channels job = {.epsilon = (double)p->epsilon};

	fill_channels(s, &job);
	job.per_group = job.channels / p->num_groups;
	return job.n ? gpu_task_add(s, step, "matrix", "group_scaled", &job, sizeof(job),
				    gpu_blocks(job.batch * p->num_groups, 256), d)
		     : 0;
}
