/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/loss.h"

#include "gpu/launch/job.h"

static bool loss_accepts(const struct site *s, struct why *w)
{
	const struct vinfo *weight = site_in(s, 2);

	if (weight && gpu_count(&weight->shape) != site_in(s, 0)->shape.dim[1])
		return refuse(w, "another number of weights than classes");
	return true;
}

static int loss_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct loss *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_loss job = {.n = gpu_count(&site_in(s, 1)->shape),
			       .classes = x->dim[1],
			       .inner = x->rank > 2 ? shape_span(x, 2, x->rank) : 1,
			       .ignore = p->ignore_index,
			       .ignores = p->ignore_index != INT_ABSENT,
			       .softmax = s->node->op->name[0] == 'S',
			       .reduction = p->reduction == LOSS_NONE  ? 0
					    : p->reduction == LOSS_SUM ? 1
								       : 2};
	int err = 0;

	gpu_room(step, (size_t)job.n * 2 * sizeof(double));
	if (job.n)
		err = gpu_task_add(s, step, "loss", "loss_each", &job, sizeof(job),
				   gpu_blocks((job.n + 3) / 4, 128), d);
	if (job.reduction && !err)
		err = gpu_task_add(s, step, "loss", "loss_sum", &job, sizeof(job),
				   gpu_blocks(1, 256), d);
	return err;
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = loss_accepts,                        \
		.reshape = loss_reshape, .run = gpu_tasks_run                                      \
	}
const struct kernel gpu_loss[] = {
	ROW("NegativeLogLikelihoodLoss"), ROW("SoftmaxCrossEntropyLoss"), {0}};
