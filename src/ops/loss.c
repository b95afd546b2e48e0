/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that compare class scores with class indices. */
#include "ops/loss.h"

#include "ops/infer_util.h"

static const struct slot nll_in[] = {SLOT("input", "T", T_FLOATS_BF, .dims = "N C ..."),
				     SLOT("target", "Tind", T_I32 | T_I64, .dims = "N ..."),
				     SLOT_OPT("weight", "T", T_FLOATS_BF, .dims = "C"), SLOT_END};
static const struct slot nll_out[] = {SLOT("loss", "T", T_FLOATS_BF), SLOT_END};
static const struct slot sce_in[] = {SLOT("scores", "T", T_FLOATS_BF, .dims = "N C ..."),
				     SLOT("labels", "Tind", T_I32 | T_I64, .dims = "N ..."),
				     SLOT_OPT("weights", "T", T_FLOATS_BF, .dims = "C"), SLOT_END};
static const struct slot sce_out[] = {SLOT("output", "T", T_FLOATS_BF),
				      SLOT_OPT("log_prob", "T", T_FLOATS_BF), SLOT_END};
static const struct field attrs[] = {
	FIELD_ENUM(struct loss, reduction, "mean", "none|sum|mean",
		   "what becomes of the single losses"),
	FIELD_DATA(struct loss, ignore_index, F_INT, NULL, "class that does not count"),
	{0}};

static int infer_loss(struct infer *c)
{
	const struct loss *p = infer_params(c);
	struct shape x = infer_shape(c, 0), t = infer_shape(c, 1), y = {0};

	if (p->reduction == LOSS_NONE)
		y = t;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, infer_dtype(c, 0), &x);
	return 0;
}

const struct op ops_loss[] = {{.name = "NegativeLogLikelihoodLoss",
			       .since = 22,
			       .in = nll_in,
			       .out = nll_out,
			       .types = T_FLOATS_BF,
			       ATTRS(attrs, struct loss),
			       .infer = infer_loss},
			      OLD("NegativeLogLikelihoodLoss", 13, T_FLOATS),
			      OLD("NegativeLogLikelihoodLoss", 12, T_FLOATS),
			      {.name = "SoftmaxCrossEntropyLoss",
			       .since = 13,
			       .in = sce_in,
			       .out = sce_out,
			       .types = T_FLOATS_BF,
			       ATTRS(attrs, struct loss),
			       .infer = infer_loss,
			       .flags = OP_OPTIONAL_OUT},
			      OLD("SoftmaxCrossEntropyLoss", 12, T_FLOATS),
			      {0}};
