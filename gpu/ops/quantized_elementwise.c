/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/quantized_elementwise.h"

#include "gpu/kernels/codes.h"
#include "gpu/launch/channels_last.h"
#include "ops/quant.h"

/* Returns whether every input has one element, apart from the inputs whose bit is set in `data`. */
static bool single_numbers(const struct site *s, unsigned data)
{
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (!(data >> i & 1) && site_in(s, i) && gpu_count(&site_in(s, i)->shape) != 1)
			return false;
	return true;
}

static bool fill_pairs(const struct site *s, struct gpu_code_pairs *j, enum layout layout)
{
	const struct shape *y = &site_out(s, 0)->shape,
			   *in[] = {&site_in(s, 0)->shape, &site_in(s, 3)->shape};

	*j = (struct gpu_code_pairs){.n = gpu_count(y),
				     .multiply = s->node->op->variant == QUANT_MULTIPLY,
				     .flat = gpu_count(in[0]) == gpu_count(y) &&
					     gpu_count(in[1]) == gpu_count(y)};
	return gpu_broadcast_as(layout, y, 2, in, &j->d, j->step);
}

bool gpu_code_pairs_accepts(const struct site *s, struct why *w)
{
	struct gpu_code_pairs j;

	if (!single_numbers(s, 1 << 0 | 1 << 3))
		return refuse(w, "more than one scale or zero point");
	return fill_pairs(s, &j, LAYOUT_ROW) || refuse(w, "more than %d dimensions", GPU_DIMS);
}

int gpu_code_pairs_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_code_pairs job;
	enum layout layout = gpu_elementwise_layout(s, step);

	if (!fill_pairs(s, &job, layout)) {
		step->want = step->give = NULL;
		fill_pairs(s, &job, LAYOUT_ROW);
	}
	return job.n ? GPU_TASK(s, step, "codes", "codes_pairs", &job, (job.n + 15) / 16, d) : 0;
}

bool gpu_codes_accepts(const struct site *s, struct why *w)
{
	return single_numbers(s, 1 << 0) || refuse(w, "more than one scale or zero point");
}

/*
 * Each block first computes a table of all 256 results. Therefore a thread takes 16 elements, which keeps the number of
 * blocks low.
 */
static int add_table(struct site *s, struct step *step, struct gpu_codes job, struct diag *d)
{
	job.n = gpu_count(&site_out(s, 0)->shape);
	gpu_elementwise_layout(s, step);
	gpu_inplace(step, 0, 0);
	return job.n ? GPU_TASK(s, step, "codes", "codes_table", &job, (job.n + 15) / 16, d) : 0;
}

int gpu_codes_reshape(struct site *s, struct step *step, struct diag *d)
{
	bool leaky = s->node->op->variant == QUANT_LEAKY_RELU;

	return add_table(
		s, step,
		(struct gpu_codes){
			.how = leaky ? GPU_CODES_LEAKY : GPU_CODES_SIGMOID,
			.alpha = leaky ? ((const struct qleaky_params *)s->node->params)->alpha : 0},
		d);
}

int gpu_code_table_reshape(struct site *s, struct step *step, struct diag *d)
{
	return add_table(s, step, (struct gpu_codes){.how = GPU_CODES_GIVEN}, d);
}
