/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/signal.h"

#include "gpu/launch/job.h"

#define T_MADE (T_NUMBERS)

/*
 * Sets *out to the integer in input i, or to `absent` if the node does not have the input. Returns false if the integer
 * is known only at run time.
 */
static bool known_integer(const struct site *s, uint32_t i, int64_t absent, int64_t *out)
{
	const struct tensor *t = site_known(s, i);

	*out = absent;
	if (!site_in(s, i) || (t && !tensor_count(t)))
		return true;
	if (t)
		*out = elem_i64(tensor_dtype(t), t->data, 0);
	return t != NULL;
}

static struct gpu_grid grid_of_warps(int64_t n)
{
	return gpu_blocks((n + 3) / 4, 128);
}

/* ---- DFT ------------------------------------------------------------------------------------- */

static const char *fill_dft(const struct site *s, struct gpu_signal *j)
{
	const struct dft *p = s->node->params;
	const struct shape *x = &site_in(s, DFT_X)->shape, *y = &site_out(s, 0)->shape;
	int64_t axis, length;

	if (!shape_known(y))
		return "a length that only the run knows";
	if (!known_integer(s, DFT_AXIS, -2, &axis))
		return "an axis that only the run knows";
	int a = axis_of(axis, x->rank);
	if (a < 0 || a == x->rank - 1)
		return "an axis that the input does not have, or its last";
	j->mirror = p->inverse && p->onesided;
	if (!known_integer(s, DFT_LENGTH, j->mirror ? 2 * (x->dim[a] - 1) : x->dim[a], &length))
		return "a length that only the run knows";
	if (length < 1 || (p->onesided && !p->inverse ? length / 2 + 1 : length) != y->dim[a])
		return "a length that does not match the output";
	j->inverse = p->inverse != 0;
	j->length = length;
	j->taken = x->dim[a];
	j->made = y->dim[a];
	j->inner = shape_span(x, a + 1, x->rank - 1);
	j->parts = (int)x->dim[x->rank - 1];
	j->gives = (int)y->dim[y->rank - 1];
	j->n = shape_span(y, 0, y->rank - 1);
	return NULL;
}

static bool dft_accepts(const struct site *s, struct why *w)
{
	struct gpu_signal j = {0};
	const char *bad = fill_dft(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

static int dft_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_signal job = {0};

	fill_dft(s, &job);
	step->unread = 6;
	return job.n ? gpu_task_add(s, step, "signal", "dft", &job, sizeof(job),
				    grid_of_warps(job.n), d)
		     : 0;
}

/* ---- STFT ------------------------------------------------------------------------------------ */

static const char *fill_stft(const struct site *s, struct gpu_signal *j)
{
	const struct stft *p = s->node->params;
	const struct shape *x = &site_in(s, STFT_X)->shape, *y = &site_out(s, 0)->shape;
	const struct vinfo *w = site_in(s, STFT_WINDOW);
	int64_t length;

	if (!shape_known(y) ||
	    !known_integer(s, STFT_LENGTH, w ? w->shape.dim[0] : x->dim[1], &length))
		return "a length that only the run knows";
	if (length < 1 || (p->onesided ? length / 2 + 1 : length) != y->dim[2])
		return "a length that does not match the output";
	j->samples = x->dim[1];
	j->parts = x->rank == 3 ? (int)x->dim[2] : 1;
	j->frames = y->dim[1];
	j->made = y->dim[2];
	j->length = length;
	j->taken = w ? w->shape.dim[0] : length;
	j->n = x->dim[0] * j->frames * j->made;
	return NULL;
}

static bool stft_accepts(const struct site *s, struct why *w)
{
	struct gpu_signal j = {0};
	const char *bad = fill_stft(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

static int stft_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_signal job = {0};

	fill_stft(s, &job);
	step->unread = 8;
	return job.n ? gpu_task_add(s, step, "signal", "stft", &job, sizeof(job),
				    grid_of_warps(job.n), d)
		     : 0;
}

/* ---- windows, mel weights -------------------------------------------------------------------- */

static bool output_accepts(const struct site *s, struct why *w)
{
	if (!(T_BIT(gpu_out_type(s, 0)) & T_MADE))
		return refuse(w, "%s", dtype_name(gpu_out_type(s, 0)));
	return shape_known(&site_out(s, 0)->shape) || refuse(w, "a size that only the run knows");
}

static int window_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct signal_window *p = s->node->params;
	struct gpu_signal job = {.n = gpu_count(&site_out(s, 0)->shape), .periodic = p->periodic != 0};
	const char *name = s->node->op->name;
	static const double hann[3] = {0.5, 0.5, 0}, hamming[3] = {25.0 / 46, 21.0 / 46, 0},
			    blackman[3] = {0.42, 0.5, 0.08};

	memcpy(job.p, name[0] == 'B' ? blackman : name[2] == 'm' ? hamming : hann, sizeof(job.p));
	step->unread = 1;
	return job.n ? GPU_TASK(s, step, "signal", "signal_window", &job, job.n, d) : 0;
}

static int mel_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_signal job = {.n = gpu_count(y), .made = y->dim[1]};

	step->unread = 1;
	return job.n ? GPU_TASK(s, step, "signal", "mel_weights", &job, job.n, d) : 0;
}

#define WINDOW(name)                                                                               \
	{                                                                                          \
		.op = (name), .accepts = output_accepts, .reshape = window_reshape,                \
		.run = gpu_tasks_run                                                               \
	}
const struct kernel gpu_signal[] = {{.op = "DFT",
				     .types = T_FLOATING,
				     .accepts = dft_accepts,
				     .reshape = dft_reshape,
				     .run = gpu_tasks_run},
				    {.op = "STFT",
				     .types = T_FLOATING,
				     .accepts = stft_accepts,
				     .reshape = stft_reshape,
				     .run = gpu_tasks_run},
				    WINDOW("HannWindow"),
				    WINDOW("HammingWindow"),
				    WINDOW("BlackmanWindow"),
				    {.op = "MelWeightMatrix",
				     .accepts = output_accepts,
				     .reshape = mel_reshape,
				     .run = gpu_tasks_run},
				    {0}};
